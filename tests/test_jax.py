"""Losses are JAX citizens: jit, grad, vmap, and pytrees whose numbers can be trained."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from score_pairs import generic_pairs, special_pairs
from test_torch import CAPPED, INVERSE, SIGMOID, SOFTMAX, TRAINED, derivative_by_differences

import selmatch as sm
from conftest import JUMPING, LOSSES

#: one of each kind, for what takes long to compile
SOME = [
    SIGMOID, CAPPED, SOFTMAX, sm.MatchingLoss(sm.Log()), sm.MatchingLoss(sm.SignedPower(3.0)),
    sm.MatchingLoss(sm.CompositeSigmoid(sm.Sinh())), sm.MatchingLoss(sm.Arctan()),
    sm.MatchingLoss(sm.Piecewise((0.0, 1.0, 3.0), (sm.Constant(0.0), sm.Exp()))),
]  # fmt: skip


def pairs(loss, dtype=jnp.float64):
    """Generic pairs, then equal scores and zeros: one shape for all losses, which JAX need not compile again."""
    both = zip(generic_pairs(loss, rows=6), special_pairs(loss), strict=True)
    return tuple(jnp.asarray(np.concatenate(z), dtype=dtype) for z in both)


def generic(loss, dtype=jnp.float64):
    return tuple(jnp.asarray(z, dtype=dtype) for z in generic_pairs(loss, rows=11))


def assert_equal(actual, expected, rtol=1e-12):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-2 * rtol * np.max(np.abs(expected), initial=1e-300))


def in_numpy(*arrays):
    return tuple(np.asarray(x) for x in arrays)


def run_python(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)


# ------------------------------------------------------------------------------------------------- transformations


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_nan_hides_anywhere_in_value_or_gradient(loss):
    # outside jit, jax_debug_nans looks at the result of every operation, also in branches that are not taken
    s_hat, s = pairs(loss)
    with jax.debug_nans(True):
        values = loss(s_hat, s, reduction="none")
        gradient = jax.grad(lambda a: loss(a, s, reduction="sum"))(s_hat)
    assert_equal(values, loss(*in_numpy(s_hat, s), reduction="none"))
    if loss.potential not in JUMPING:  # they jump at 0
        assert_equal(gradient, loss.grad(*in_numpy(s_hat, s)))
    assert_equal(loss.grad(s_hat, s), loss.grad(*in_numpy(s_hat, s)))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_transformation_can_be_traced(loss):
    s_hat, s = generic(loss)
    values, gradients = jax.eval_shape(jax.jit(jax.vmap(jax.value_and_grad(loss))), s_hat, s)
    assert (values.shape, gradients.shape) == (s_hat.shape[:1], s_hat.shape)
    if loss != INVERSE:  # it unrolls its bisections
        full = jax.eval_shape(jax.vmap(jax.hessian(loss)), s_hat, s)
        assert full.shape == s_hat.shape + s_hat.shape[1:]


@pytest.mark.slow
@pytest.mark.parametrize("loss", SOME, ids=repr)
def test_jit_of_vmap_of_value_gradient_and_hessian(loss):
    s_hat, s = generic(loss)
    v = jnp.linspace(-1.0, 1.0, s_hat.size).reshape(s_hat.shape)

    @jax.jit
    def everything(a, b):
        return jax.vmap(jax.value_and_grad(loss))(a, b), jax.vmap(jax.hessian(loss))(a, b)

    (values, gradients), full = everything(s_hat, s)
    expected = loss.value_and_grad(*in_numpy(s_hat, s))
    assert_equal(values, expected[0])
    assert_equal(gradients, expected[1])
    product = jnp.einsum("nij,nj->ni", full, v) if loss.vector else full * v
    assert_equal(product, loss.hvp(*in_numpy(s_hat, v)), rtol=1e-10)


@pytest.mark.parametrize("loss", [SIGMOID, CAPPED], ids=repr)
def test_gradients_of_both_scores_in_both_modes(loss):
    check_grads(jax.jit(lambda a, b: loss(a, b)), generic(loss), order=1, modes=("fwd", "rev"), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("curve", JUMPING, ids=repr)
def test_jumps_have_the_gradient_of_their_side(curve):
    loss = sm.MatchingLoss(curve)
    s_hat, s = pairs(loss)
    assert_equal(jax.grad(lambda a: loss(a, s, reduction="sum"))(s_hat), loss.grad(s_hat, s))


@pytest.mark.parametrize("loss", [SIGMOID, SOFTMAX], ids=repr)
def test_scan_and_checkpoint(loss):
    s_hat, s = generic(loss)

    def total(a):
        step = jax.checkpoint(lambda carry, row: (carry + loss(*row), None))
        return jax.lax.scan(step, 0.0, (a, s))[0]

    value, gradient = jax.jit(jax.value_and_grad(total))(s_hat)
    assert_equal(value, loss(s_hat, s, reduction="sum"))
    assert_equal(gradient, loss.grad(s_hat, s))


@pytest.mark.parametrize("loss", [SIGMOID, SOFTMAX, sm.MatchingLoss(sm.Log())], ids=repr)
def test_masks_weights_and_reductions_inside_jit(loss):
    s_hat, s = generic(loss)
    mask = jnp.arange(s_hat.size).reshape(s_hat.shape) % 5 != 0
    weights = jnp.linspace(0.0, 2.0, len(s_hat))

    def function(a, b, mask, weights):
        each = loss(a, b, where=mask, weights=weights, reduction="none")
        return each, loss(a, b, where=mask), loss(a, b, weights=weights, num_items=7), loss(a, b, reduction="sum")

    bad = jnp.where(mask, s_hat, jnp.nan)
    found = jax.jit(function)(s_hat, s, mask, weights)
    for a, b in zip(found, function(*in_numpy(s_hat, s, mask, weights)), strict=True):
        assert_equal(a, b)
    assert_equal(jax.jit(lambda a: loss(a, s, where=mask))(bad), found[1])
    gradient = jax.jit(jax.grad(lambda a: loss(a, s, where=mask)))(bad)
    assert_equal(gradient, loss.grad(*in_numpy(s_hat, s), where=np.asarray(mask), reduction="mean"))


def test_scores_outside_the_domain_give_nan_there_alone():
    loss = sm.MatchingLoss(sm.Log())
    s_hat, s = jnp.asarray([1.0, -1.0, 2.0]), jnp.asarray([1.5, 1.0, 0.0])

    def each(a, b):
        return loss(a, b, reduction="none")

    for function in (each, jax.jit(each), jax.vmap(each), jax.jit(jax.vmap(jax.grad(loss)))):
        assert jnp.isnan(function(s_hat, s)).tolist() == [False, True, True]


# ---------------------------------------------------------------------------------------------------------- pytrees


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_are_trees(loss):
    leaves, structure = jax.tree.flatten(loss)
    assert all(isinstance(leaf, float) for leaf in leaves)
    assert jax.tree.unflatten(structure, leaves) == loss
    assert jax.tree.map(lambda x: x, loss) == loss
    assert repr(jax.tree.map(lambda x: x, loss)) == repr(loss)
    assert jax.tree.structure(jax.tree.map(lambda x: 2.0 * x, loss)) == structure
    assert hash(structure) == hash(jax.tree.structure(jax.tree.map(lambda x: x, loss)))
    for placeholder in (object(), None, "a name", jax.ShapeDtypeStruct((), jnp.float32)):
        held = jax.tree.unflatten(structure, [placeholder] * len(leaves))
        assert jax.tree.leaves(held, is_leaf=lambda x: x is None).count(placeholder) >= len(leaves)


def test_the_leaves_have_names():
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), rho=(0.5, 2.0), anchor=0.1))
    paths = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(loss)}
    assert paths == {
        ".potential.scaling.alpha": 0.5,
        ".potential.scaling.beta": 0.0,
        ".potential.scaling.gain": 1.0,
        ".potential.gamma": 1.0,
        ".potential.rho[0]": 0.5,
        ".potential.rho[1]": 2.0,
        ".potential.anchor": 0.1,
    }
    sigmoid = sm.CompositeSigmoid(sm.Constant(2.0), gamma=0.5, offset=-1.0)
    assert jax.tree.leaves(sigmoid) == [2.0, 0.5, -1.0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sm.SmeLU(c=1.0), sm.SmeLU(c=2.0)),
        (sm.SignedPower(2.0), sm.SignedPower(3.0)),
        (sm.AbsPower(1.0, 2.0), sm.AbsPower(1.0, 3.0)),
        (sm.Exp().capped(high=1.0), sm.Exp().capped(high=2.0)),
        (sm.Staircase((0.0,), (1.0,)), sm.Staircase((0.0,), (2.0,))),
        (sm.Polynomial((0.0, 1.0)), sm.Polynomial((0.0, 2.0))),
        (sm.Piecewise((0.0, 1.0), (sm.Exp(),)), sm.Piecewise((0.0, 2.0), (sm.Exp(),))),
        (sm.CompositeSigmoid(sm.Sinh()), sm.CompositeSigmoid(sm.Sinh(), check=False)),
        (sm.CompositeSoftmax(), sm.CompositeSoftmax(rho=(1.0, 2.0))),
        (sm.Sigmoid(), sm.Tanh()),
    ],
    ids=repr,
)
def test_numbers_that_change_formulas_are_structure(one, other):
    assert jax.tree.structure(one) != jax.tree.structure(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sm.Sinh().affine(alpha=2.0), sm.Sinh().affine(beta=1.0, gain=3.0)),
        (sm.CompositeSoftmax(gamma=2.0, rho=(1.0, 2.0)), sm.CompositeSoftmax(gamma=3.0, rho=(4.0, 5.0))),
        (sm.CompositeSigmoid(sm.Sinh(), gamma=2.0), sm.CompositeSigmoid(sm.Sinh(), offset=1.0)),
        (sm.Constant(1.0), sm.Constant(2.0)),
    ],
    ids=repr,
)
def test_numbers_that_can_be_trained_are_not(one, other):
    assert jax.tree.structure(sm.MatchingLoss(one)) == jax.tree.structure(sm.MatchingLoss(other))


def test_one_trace_serves_every_alpha():
    traces = []

    @jax.jit
    def value(loss, s_hat, s):
        traces.append(loss)
        return loss(s_hat, s)

    s_hat, s = generic(SIGMOID)
    for alpha in (0.5, 1.0, 2.0):
        loss = sm.MatchingLoss(sm.Sigmoid().affine(alpha=alpha))
        assert_equal(value(loss, s_hat, s), loss(*in_numpy(s_hat, s)))
    assert len(traces) == 1
    value(sm.MatchingLoss(sm.Sinh().affine(alpha=0.5)), s_hat, s)
    assert len(traces) == 2


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "alpha under an inverse" else n for n in TRAINED]
)
def test_gradient_with_respect_to_a_parameter_and_to_the_loss(name):
    build, value = TRAINED[name]
    s_hat, s = generic(sm.MatchingLoss(build(value)))
    expected = derivative_by_differences(build, value, *in_numpy(s_hat, s))
    # made inside the trace, from a number that is differentiated
    made = jax.eval_shape(jax.grad(lambda t: sm.MatchingLoss(build(t))(s_hat, s)), jnp.asarray(value))
    assert made.shape == np.shape(value)
    # given to the trace as a tree: the derivative is a loss whose parameters are derivatives
    loss = sm.MatchingLoss(build(value))
    slope = jax.grad(lambda tree: tree(s_hat, s))
    slopes = slope(loss) if "inverse" in name else jax.jit(slope)(loss)
    assert jax.tree.structure(slopes) == jax.tree.structure(loss)
    flat = np.asarray(jax.tree.leaves(slopes))
    for part in np.ravel(expected):
        assert np.any(np.isclose(flat, part, rtol=2e-6, atol=1e-9))


def test_a_loss_can_be_trained():
    s = jnp.linspace(-2.0, 3.0, 40)
    s_hat = s + 0.3 * jnp.sin(7.0 * s)
    loss = sm.MatchingLoss(sm.Tanh().affine(alpha=2.0, beta=1.0))

    @jax.jit
    def step(loss):
        return jax.tree.map(lambda x, d: x - 5.0 * d, loss, jax.grad(lambda tree: tree(s_hat, s))(loss))

    before = loss(s_hat, s)
    for _ in range(5):
        loss = step(loss)
    assert loss(s_hat, s) < 0.9 * before
    assert isinstance(loss.potential.beta, jax.Array)


def test_losses_can_be_stacked_and_mapped():
    s_hat, s = generic(SIGMOID)
    alphas = jnp.asarray([0.5, 1.0, 2.0])
    losses = jax.vmap(lambda a: sm.MatchingLoss(sm.Sinh().affine(alpha=a)))(alphas)
    assert losses.potential.alpha.shape == (3,)
    values = jax.vmap(lambda loss: loss(s_hat, s))(losses)
    assert_equal(values, [sm.MatchingLoss(sm.Sinh().affine(alpha=float(a)))(*in_numpy(s_hat, s)) for a in alphas])


EARLY = """
import selmatch as sm
early = sm.MatchingLoss(sm.Sinh().affine(alpha=0.5))
softmax = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
import jax, jax.numpy as jnp
{}
x, y = jnp.asarray([1.0, 2.0]), jnp.asarray([0.0, 1.0])
for loss in (early, softmax):
    slopes = jax.jit(jax.grad(lambda tree: tree(x, y)))(loss)
    assert type(slopes) is sm.MatchingLoss, slopes
assert softmax.potential.gamma == 1.0
assert jnp.isfinite(jax.grad(lambda tree: tree(x, y))(early).potential.alpha)
print("done")
"""


@pytest.mark.parametrize("between", ["sm.Identity()", "early(jnp.zeros(1), jnp.zeros(1))"])
def test_a_loss_made_before_jax_was_imported_is_a_tree(between):
    # once the library has met JAX: when the next object is made, or at the first call with an array
    done = run_python(EARLY.format(between))
    assert done.stdout == "done\n", done.stderr


def test_a_curve_of_the_user_is_a_tree():
    class Mine(sm.Curve):
        def __call__(self, x):
            return x + sm.functions.tanh(x)

    loss = sm.MatchingLoss(Mine().affine(alpha=2.0))
    s_hat, s = generic(SIGMOID)
    slope = jax.jit(jax.grad(lambda tree: tree(s_hat, s)))(loss).potential.alpha

    def by_alpha(alpha):
        return sm.MatchingLoss(sm.Identity().affine(alpha=alpha) + sm.Tanh().affine(alpha=alpha))(s_hat, s)

    np.testing.assert_allclose(slope, jax.grad(by_alpha)(2.0), rtol=1e-6)


# ------------------------------------------------------------------------------------------------------------ dtypes


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_dtype_that_comes_in_goes_out(loss):
    dtype = jnp.bfloat16
    s_hat, s = generic(loss, dtype)
    shapes = jax.eval_shape(
        lambda a, b: (loss(a, b, reduction="none"), loss.grad(a, b), jax.grad(loss)(a, b), loss(a, b)), s_hat, s
    )
    assert [x.dtype for x in shapes] == [dtype, dtype, dtype, jnp.float32]


def test_half_precision_is_rounded_once():
    for loss in (SIGMOID, CAPPED):
        s_hat, s = generic(loss, jnp.bfloat16)
        wide = s_hat.astype(jnp.float32), s.astype(jnp.float32)
        assert_equal(loss(s_hat, s, reduction="none"), loss(*wide, reduction="none").astype(jnp.bfloat16), rtol=0.0)
        assert_equal(loss(s_hat, s), loss(*wide), rtol=0.0)


def test_numbers_adapt_to_the_array():
    s_hat, _ = generic(SIGMOID, jnp.float32)
    for parameter in (2.0, jnp.float32(2.0), jnp.asarray(2.0, jnp.float32)):
        loss = sm.MatchingLoss(sm.Sigmoid().affine(alpha=parameter))
        value = jax.jit(lambda tree, a: tree(a, 0.5, reduction="none"))(loss, s_hat)
        assert value.dtype == jnp.float32
        assert not value.weak_type


def test_without_x64_everything_is_single_precision_and_nothing_warns():
    with jax.enable_x64(False):
        for loss in (SOFTMAX, sm.MatchingLoss(sm.CompositeSigmoid(sm.Cosh().affine(alpha=0.5), gamma=0.7))):
            s_hat, s = (jnp.asarray(z) for z in generic_pairs(loss))
            methods = (loss, loss.grad, loss.hvp, lambda a, b, f=loss: f.potential.slope(a))
            assert all(jax.eval_shape(f, s_hat, s).dtype == jnp.float32 for f in (*methods, jax.grad(loss)))
            leaves = jax.tree.leaves(jax.eval_shape(jax.grad(lambda tree, a=s_hat, b=s: tree(a, b)), loss))
            assert all(leaf.dtype == jnp.float32 for leaf in leaves)
        assert_equal(SIGMOID(*(jnp.asarray(z) for z in generic_pairs(SIGMOID))), SIGMOID(*generic_pairs(SIGMOID)), 1e-5)
