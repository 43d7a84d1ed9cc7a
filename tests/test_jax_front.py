"""``selmatch.jax``: Optax's conventions, closed-form derivatives, learned parameters, several devices."""

import json
import pickle
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from score_pairs import generic_pairs
from test_torch import CAPPED, SIGMOID, SOFTMAX

import selmatch as sm
from conftest import LOSSES
from selmatch.jax import fenchel_young_loss, matching_loss, trainable

PLAIN, SINH = sm.MatchingLoss(sm.CompositeSoftmax()), sm.MatchingLoss(sm.Sinh().affine(alpha=0.5, beta=-1.0))
#: one of each kind
SOME = [
    SIGMOID, CAPPED, SOFTMAX, sm.MatchingLoss(sm.Log()), sm.MatchingLoss(sm.CompositeSigmoid(sm.Sinh())),
    sm.MatchingLoss(sm.Separable(sm.Sinh())),
]  # fmt: skip


def pairs(loss, dtype=jnp.float64, rows=6):
    return tuple(jnp.asarray(z, dtype=dtype) for z in generic_pairs(loss, rows=rows))


def assert_equal(actual, expected, rtol=1e-12):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-2 * rtol * np.max(np.abs(expected), initial=1e-300))


def run_python(code, *arguments):
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


# ---------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("loss", SOME, ids=repr)
def test_values_and_gradients_are_those_of_the_loss(loss):
    s_hat, s = pairs(loss)
    here = np.asarray(s_hat), np.asarray(s)

    @jax.jit
    def both(a):
        each, back = jax.vjp(lambda a: matching_loss(a, s, loss.potential), a)
        return each, back(jnp.ones_like(each))[0]

    each, gradient = both(s_hat)
    assert_equal(each, loss(*here, reduction="none"))
    assert_equal(gradient, loss.grad(*here))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_can_be_differentiated(loss):
    s_hat, s = pairs(loss)
    slopes, gradient = jax.eval_shape(jax.grad(lambda tree, a: matching_loss(a, s, tree).sum(), (0, 1)), loss, s_hat)
    assert gradient.shape == s_hat.shape
    assert jax.tree.structure(slopes) == jax.tree.structure(loss)


def test_other_losses_work_too():
    s_hat, s = np.asarray([0.5, 1.5, 3.0]), np.asarray([0.0, 1.0, 1.0])
    per_label = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Sinh()}))
    entropy = sm.CrossEntropy(sm.CompositeSigmoid(sm.Sinh()))
    for loss in (per_label, entropy, sm.ReweightedSquare("both")):
        slope = jax.jit(jax.grad(lambda a, f=loss: matching_loss(a, s, f).sum()))
        gradient, product = jax.jvp(slope, (s_hat,), (s,))
        assert_equal(gradient, loss.grad(s_hat, s))
        step = 1e-5
        rise = (loss.grad(s_hat + step * s, s) - loss.grad(s_hat - step * s, s)) / (2.0 * step)
        np.testing.assert_allclose(product, rise, rtol=1e-7)


@pytest.mark.parametrize("loss", [SIGMOID, SOFTMAX], ids=repr)
def test_hessian_products_are_those_of_the_loss_in_both_modes(loss):
    s_hat, s = pairs(loss)
    v = jnp.cos(jnp.arange(s_hat.size, dtype=float)).reshape(s_hat.shape)
    slope = jax.grad(lambda a: matching_loss(a, s, loss, reduction="sum"))
    forward = jax.jit(lambda a: jax.jvp(slope, (a,), (v,))[1])(s_hat)
    backward = jax.jit(jax.grad(lambda a: jnp.vdot(slope(a), v)))(s_hat)
    expected = loss.hvp(np.asarray(s_hat), np.asarray(v))
    assert_equal(forward, expected)
    assert_equal(backward, expected)


def test_derivatives_with_respect_to_parameters_are_those_of_the_formula():
    s_hat, s = pairs(SINH)
    mask = jnp.arange(6) % 4 != 0

    def derivatives(function):
        """With respect to parameters and scores, and the product of the Hessian of both, in reverse mode."""

        @jax.jit
        def compiled(loss, a):
            first, back = jax.vjp(jax.grad(function, argnums=(0, 1)), loss, a)
            return jax.tree.leaves((first, back(first)))

        return compiled(SINH, s_hat)

    ours = derivatives(lambda loss, a: matching_loss(a, s, loss, where=mask, reduction="mean"))
    formula = derivatives(lambda loss, a: loss(a, s, where=mask))
    for one, other in zip(ours, formula, strict=True):
        assert_equal(one, other, rtol=1e-9)


def test_gamma_of_many_classes_has_its_derivative():
    s_hat, s = generic_pairs(SOFTMAX)
    slopes = jax.jit(jax.grad(lambda loss: matching_loss(s_hat, s, loss, reduction="mean")))(SOFTMAX)
    step = 1e-5
    near = [sm.CompositeSoftmax(SOFTMAX.potential.scaling, 0.7 + move, (0.5, 1.0, 2.0)) for move in (-step, step)]
    below, above = (sm.MatchingLoss(potential)(s_hat, s) for potential in near)
    np.testing.assert_allclose(slopes.potential.gamma, (above - below) / (2.0 * step), rtol=1e-7)


def test_forward_mode_moves_parameters_and_scores():
    s_hat, s = pairs(SINH)
    moves = (SINH, s_hat), (SINH, s)
    ours = jax.jvp(jax.jit(lambda f, a: matching_loss(a, s, f)), *moves)
    formula = jax.jvp(jax.jit(lambda f, a: f(a, s, reduction="none")), *moves)
    for one, other in zip(ours, formula, strict=True):
        assert_equal(one, other, rtol=1e-10)


# ------------------------------------------------------------------------------------------------------ as in Optax

RNG = np.random.default_rng(3)
LOGITS = jnp.asarray(RNG.normal(size=(4, 3, 5)))
PROBABILITIES = jax.nn.softmax(jnp.asarray(RNG.normal(size=(4, 3, 5))), axis=1)


@pytest.mark.parametrize("mask", [None, RNG.random((4, 5)) < 0.7, RNG.random((4, 3, 5)) < 0.7], ids=np.shape)
def test_the_standard_softmax_is_softmax_cross_entropy(mask):
    # as Optax has it, what is masked counts for nothing; probabilities are those of the classes that are left
    targets = PROBABILITIES
    if mask is not None and mask.ndim == 3:
        kept = jnp.where(mask, targets, 0.0)
        targets = kept / jnp.maximum(kept.sum(axis=1, keepdims=True), 1e-9)
    ours = jax.jit(lambda a: fenchel_young_loss(a, targets, PLAIN, conjugate=False, axis=1, where=mask))(LOGITS)
    theirs = optax.losses.softmax_cross_entropy(LOGITS, targets, axis=1, where=mask)
    np.testing.assert_allclose(ours, jnp.nan_to_num(theirs), atol=1e-12)
    if mask is None:
        ours = jax.jit(lambda a: fenchel_young_loss(a, targets, PLAIN, axis=1))(LOGITS)
        theirs = optax.losses.kl_divergence(jax.nn.log_softmax(LOGITS, axis=1), targets, axis=1)
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_curves_that_optax_has():
    s_hat = jnp.linspace(-3.0, 3.0, 7)
    labels = jax.nn.sigmoid(jnp.cos(5.0 * s_hat))
    zeros = jnp.zeros(7)
    for ours, theirs in (
        (matching_loss(s_hat, labels, sm.Identity()), optax.losses.l2_loss(s_hat, labels)),
        (fenchel_young_loss(s_hat, labels, sm.Sigmoid(), conjugate=False), None),
        (matching_loss(s_hat, zeros, sm.Tanh()), optax.losses.log_cosh(s_hat, zeros)),
        (matching_loss(s_hat, zeros, sm.Huber(c=1.0)), optax.losses.huber_loss(s_hat, zeros)),
    ):
        expected = optax.losses.sigmoid_binary_cross_entropy(s_hat, labels) if theirs is None else theirs
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15)


def test_derivatives_for_targets_in_link_space():
    scores, labels = (jnp.moveaxis(x, 1, -1) for x in (LOGITS, PROBABILITIES))

    @jax.jit
    def derivatives(a):
        return jax.jvp(jax.grad(lambda a: fenchel_young_loss(a, labels, PLAIN).sum()), (a,), (labels,))

    slope, product = derivatives(scores)
    assert_equal(slope, PLAIN.fenchel_young_grad(np.asarray(scores), np.asarray(labels)), rtol=1e-11)
    assert_equal(product, PLAIN.hvp(np.asarray(scores), np.asarray(labels)), rtol=1e-11)


@pytest.mark.parametrize("axis", [0, -2])
def test_classes_may_be_on_any_axis(axis):
    moved, targets = (jnp.moveaxis(x, 1, axis) for x in (LOGITS, PROBABILITIES))
    loss = sm.MatchingLoss(sm.Separable(sm.Identity()))
    expected = jnp.sum(optax.losses.l2_loss(LOGITS, PROBABILITIES), axis=1)
    assert_equal(matching_loss(moved, targets, loss, axis=axis), expected)
    rows = jnp.arange(20).reshape(4, 5) % 3 != 0
    each = matching_loss(moved, targets, loss, axis=axis, where=rows)
    assert_equal(each, jnp.where(rows, expected, 0.0))
    full = jnp.broadcast_to(jnp.expand_dims(rows, axis), moved.shape)
    assert_equal(matching_loss(moved, targets, loss, axis=axis, where=full), each)


def test_masks_weights_and_reductions():
    s_hat, s = pairs(SINH)
    mask, weights = jnp.arange(6) % 3 != 0, jnp.arange(1.0, 7.0)
    hidden = jnp.where(mask, s_hat, jnp.nan)

    @jax.jit
    def results(hidden, mask, weights, count):
        return (
            matching_loss(hidden, s, SINH, where=mask, weights=weights),
            matching_loss(hidden, s, SINH, where=mask, reduction="mean"),
            matching_loss(hidden, s, SINH, where=jnp.zeros(6, bool), reduction="mean"),
            matching_loss(s_hat, s, SINH, reduction="mean", num_items=count),
            jax.grad(lambda a: matching_loss(a, s, SINH, where=mask).sum())(hidden),
            jax.grad(lambda w: matching_loss(s_hat, s, SINH, weights=w).sum())(weights),
        )

    here = np.asarray(s_hat), np.asarray(s)
    each = SINH(*here, reduction="none")
    kept = np.where(mask, each, 0.0)
    slopes = np.where(mask, SINH.grad(*here), 0.0)
    expected = (kept * np.asarray(weights), each[np.asarray(mask)].mean(), 0.0, each.sum() / 9.0, slopes, each)
    for one, other in zip(results(hidden, mask, weights, jnp.asarray(9)), expected, strict=True):
        assert_equal(one, other)


def test_targets_are_constants_and_broadcast():
    s_hat, s = pairs(SINH)
    assert not jax.grad(lambda b: matching_loss(s_hat, b, SINH).sum())(s).any()
    assert not jax.grad(lambda b: fenchel_young_loss(s_hat, b, SINH).sum())(s).any()
    shared = jax.grad(lambda a: matching_loss(a, 0.9 * a, SINH).sum())(s_hat)
    assert_equal(shared, SINH.grad(s_hat, 0.9 * s_hat))
    assert_equal(matching_loss(s_hat, 0.5, SINH), matching_loss(s_hat, jnp.full(6, 0.5), SINH))


def test_scores_outside_the_domain_give_nan_there_alone():
    s_hat, s = jnp.asarray([1.0, -1.0, 2.0]), jnp.asarray([1.5, 1.0, 0.0])
    for function in (lambda a: matching_loss(a, s, sm.Log()), jax.grad(lambda a: matching_loss(a, s, sm.Log()).sum())):
        assert jnp.isnan(jax.jit(function)(s_hat)).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((jnp.ones((4, 1)), jnp.ones(4), sm.Sinh()), {}, r"one shape must .* predictions \(4, 1\), targets \(4,\)"),
        ((jnp.ones(4), jnp.ones((4, 1)), sm.Sinh()), {}, r"one shape must .* predictions \(4,\), targets \(4, 1\)"),
        ((jnp.ones(4, int), jnp.ones(4), sm.Sinh()), {}, "predictions must be floating point, got dtype int"),
        ((jnp.ones((2, 3)), jnp.asarray([0, 1]), PLAIN), {}, r"for every class.*\(2,\).*label_loss"),
        ((jnp.ones((2, 3)), jnp.ones((2, 3)), PLAIN), {"axis": 2}, r"axis must be one of .* \(2, 3\), got 2"),
        ((jnp.ones(2), jnp.ones(2), sm.Sinh()), {"axis": 0}, r"axis must go with .*Separable"),
        ((jnp.ones(2), jnp.ones(2), sm.Sinh), {}, r"loss must be .*Try Sinh\(\)"),
        ((jnp.ones(2), jnp.ones(2), sm.Sinh()), {"reduction": "avg"}, "reduction must be"),
        ((jnp.ones(2), jnp.ones(2), sm.Sinh()), {"where": jnp.ones(2)}, "where must be boolean"),
    ],
)
def test_messages(arguments, options, message):
    for function in (matching_loss, fenchel_young_loss):
        with pytest.raises((TypeError, ValueError), match=message):
            function(*arguments, **options)


# -------------------------------------------------------------------------------------------------------- precision


def test_half_precision_is_computed_in_single():
    s_hat, s = pairs(SINH, jnp.bfloat16)
    wide = s_hat.astype(jnp.float32), s.astype(jnp.float32)
    each = matching_loss(s_hat, s, SINH)
    assert each.dtype == jnp.bfloat16
    assert_equal(each, matching_loss(*wide, SINH).astype(jnp.bfloat16), rtol=0.0)
    mean, gradient = jax.value_and_grad(lambda a: matching_loss(a, s, SINH, reduction="mean"))(s_hat)
    assert (mean.dtype, gradient.dtype) == (jnp.float32, jnp.bfloat16)
    assert_equal(mean, matching_loss(*wide, SINH, reduction="mean"), rtol=0.0)


def test_a_parameter_does_not_widen_the_scores():
    s_hat, s = pairs(SIGMOID, jnp.float32)
    parameters, build = trainable(SIGMOID, "alpha")
    assert parameters["potential.alpha"].dtype == jnp.float64

    def total(parameters, a):
        return matching_loss(a, s, build(parameters)).sum()

    by_parameters, by_scores = jax.eval_shape(jax.grad(total, argnums=(0, 1)), parameters, s_hat)
    assert by_parameters["potential.alpha"].dtype == jnp.float64
    assert by_scores.dtype == jnp.float32
    wide = r"(exponential|multiply|divide) .*6xf64"
    assert not re.search(wide, jax.jit(jax.grad(total, argnums=1)).lower(parameters, s_hat).as_text())
    assert not re.search(wide, jax.jit(lambda a: matching_loss(a, 0.5, SIGMOID)).lower(s_hat).as_text())


# -------------------------------------------------------------------------------------------------- learned parameters


def test_parameters_have_names_and_make_the_loss_again():
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0), gamma=2.0, rho=(0.5, 2.0)))
    parameters, build = trainable(loss, ["alpha", "potential.scaling.beta", "rho"])
    assert list(parameters) == [
        "potential.scaling.alpha",
        "potential.scaling.beta",
        "potential.rho[0]",
        "potential.rho[1]",
    ]
    assert all(isinstance(x, jax.Array) and not x.weak_type for x in parameters.values())
    again = build(parameters)
    assert jax.tree.structure(again) == jax.tree.structure(loss)
    np.testing.assert_allclose(jax.tree.leaves(again), jax.tree.leaves(loss), rtol=1e-15)
    assert again.potential.gamma == 2.0
    lower = build(jax.tree.map(lambda x: x - 100.0, parameters))
    assert lower.potential.scaling.alpha > 0
    assert lower.potential.scaling.beta == -101.0
    assert trainable(sm.Sinh().affine(), "alpha")[0] == {"alpha": 0.0}


def test_unknown_parameters_are_an_error():
    with pytest.raises(ValueError, match=r"\(potential.alpha, potential.beta, potential.gain\), got 'gamma'"):
        trainable(SIGMOID, ["alpha", "gamma"])
    with pytest.raises(ValueError, match=r"\(none\), got 'alpha'"):
        trainable(sm.Sinh(), "alpha")


def test_beta_is_learned_with_optax_through_the_training_of_a_model():
    # where should the loss look, if large scores are what counts? the answer of ten steps of training
    x = jnp.linspace(-1.0, 1.0, 32)
    s = jnp.exp(1.5 * x)
    high = s > 2.0
    parameters, build = trainable(sm.MatchingLoss(sm.Sigmoid().affine(alpha=3.0, beta=0.0)), ["alpha", "beta"])
    adam = optax.adam(0.2)
    traces = []

    def error(parameters):
        loss = build(parameters)

        def step(w, _):
            return w - 0.5 * jax.grad(lambda w: matching_loss(w[0] + w[1] * x, s, loss, reduction="mean"))(w), None

        w, _ = jax.lax.scan(step, jnp.ones(2), length=10)
        return jnp.mean((w[0] + w[1] * x - s) ** 2, where=high)

    @jax.jit
    def update(parameters, state):
        traces.append(parameters)
        value, slopes = jax.value_and_grad(error)(parameters)
        changes, state = adam.update(slopes, state, parameters)
        return optax.apply_updates(parameters, changes), state, value

    state, values = adam.init(parameters), []
    for _ in range(8):
        parameters, state, value = update(parameters, state)
        values.append(float(value))
    assert len(traces) == 1
    assert values[-1] < 0.8 * values[0]


def test_a_loss_may_be_the_parameters_of_optax():
    s_hat, s = pairs(SINH)
    adam = optax.adam(0.1)

    @jax.jit
    def step(loss):
        slopes = jax.grad(lambda loss: matching_loss(s_hat, s, loss, reduction="mean"))(loss)
        changes, _ = adam.update(slopes, adam.init(loss))
        return optax.apply_updates(loss, changes)

    loss = step(SINH)
    assert isinstance(loss, sm.MatchingLoss)
    assert loss(s_hat, s) < SINH(s_hat, s)


# ---------------------------------------------------------------------------------------------------- transformations


def test_training_with_padded_batches_compiles_once_and_reuses_its_memory():
    traces = []
    adam = optax.adam(0.05)
    x = jnp.asarray(RNG.normal(size=(5, 8, 2)))
    s = 1.0 + x @ jnp.asarray([2.0, -1.0])
    sizes = (8, 3, 7, 1, 0)

    def step(loss, weights, state, x, s, mask):
        traces.append(loss)
        value, slopes = jax.value_and_grad(
            lambda w: matching_loss(w[0] + x @ w[1:], s, loss, where=mask, reduction="mean")
        )(weights)
        changes, state = adam.update(slopes, state)
        return optax.apply_updates(weights, changes), state, value

    compiled = jax.jit(step, donate_argnums=(1, 2))
    weights = jnp.zeros(3)
    state = adam.init(weights)
    for i, size in enumerate(sizes):
        mask = jnp.arange(8) < size
        loss = sm.MatchingLoss(sm.Sigmoid().affine(alpha=1.0 + i))  # another alpha each time
        given = weights
        weights, state, value = compiled(loss, weights, state, x[i], jnp.where(mask, s[i], jnp.nan), mask)
        assert given.is_deleted()
        assert jnp.isfinite(value)
    assert len(traces) == 1
    assert jnp.all(jnp.isfinite(weights))


def test_scan_checkpoint_and_vmap():
    s_hat, s = pairs(SINH)

    def total(a):
        step = jax.checkpoint(lambda carry, row: (carry + matching_loss(*row, SINH), None))
        return jax.lax.scan(step, 0.0, (a, s))[0]

    assert_equal(jax.jit(jax.grad(total))(s_hat), SINH.grad(np.asarray(s_hat), np.asarray(s)))
    alphas = jnp.asarray([0.5, 2.0])
    losses = jax.vmap(lambda alpha: sm.MatchingLoss(sm.Sinh().affine(alpha=alpha)))(alphas)
    slope = jax.jit(jax.grad(lambda loss: matching_loss(s_hat, s, loss, reduction="mean")))
    slopes = jax.vmap(slope)(losses).potential.alpha
    each = [slope(sm.MatchingLoss(sm.Sinh().affine(alpha=alpha))).potential.alpha for alpha in (0.5, 2.0)]
    assert_equal(slopes, each)


def test_a_loss_from_words_is_an_argument_of_compiled_functions():
    loss = sm.focus("high", data=np.random.default_rng(0).lognormal(size=200))
    s_hat, s = jnp.asarray([0.5, 1.0, 4.0]), jnp.asarray([0.6, 2.0, 3.0])
    value = jax.jit(lambda loss, a: matching_loss(a, s, loss))
    assert_equal(value(loss, s_hat), loss(np.asarray(s_hat), np.asarray(s), reduction="none"))


def test_losses_with_arrays_can_be_pickled():
    loss = jax.tree.map(jnp.asarray, SOFTMAX)
    again = pickle.loads(pickle.dumps(loss))
    assert jax.tree.structure(again) == jax.tree.structure(loss)
    assert jax.tree.leaves(again) == jax.tree.leaves(loss)


def test_a_training_step_can_be_exported():
    from jax import export

    s_hat, s = pairs(SINH)
    parameters, build = trainable(SINH, "alpha")

    def total(parameters, a, b):
        return matching_loss(a, b, build(parameters), reduction="mean")

    function = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    found = export.export(function)(parameters, s_hat, s).call(parameters, s_hat, s)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(function(parameters, s_hat, s)), strict=True):
        assert_equal(one, other)


# ---------------------------------------------------------------------------------------------------------- processes

DEVICES = """
import json, os, re
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
os.environ["JAX_PLATFORMS"] = "cpu"
import selmatch as sm
early = sm.MatchingLoss(sm.Sinh().affine(alpha=0.5))  # before JAX is there
import selmatch.jax
from selmatch.jax import matching_loss, trainable
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

results = {"early": len(jax.tree.leaves(early))}
keys = jax.random.split(jax.random.key(0), 3)
x, w, s = (jax.random.normal(key, shape) for key, shape in zip(keys, [(16, 5), (5, 8), (16, 8)]))
mask = jnp.arange(16) % 3 != 0  # 4 devices have different counts

def distance(found, expected):
    parts = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(float(jnp.max(jnp.abs(a - b)) / jnp.max(jnp.abs(b))) for a, b in parts)

# rows on several devices, with the count of all of them
parameters, build = trainable(early, "alpha")

def alone(parameters, w, x, s, mask):
    return matching_loss(x @ w, s, build(parameters), where=mask, reduction="mean")

def each(parameters, w, x, s, mask):
    count = jax.lax.psum(jnp.sum(mask), "data")
    own = matching_loss(x @ w, s, build(parameters), where=mask, reduction="mean", num_items=count)
    return jax.lax.psum(own, "data")

data = (parameters, w[:, 0], x, s[:, 0], mask)
expected = jax.jit(jax.value_and_grad(alone, argnums=(0, 1)))(*data)
rows = (P(), P(), P("data"), P("data"), P("data"))
two = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
outside = jax.value_and_grad(jax.shard_map(each, mesh=two, in_specs=rows, out_specs=P()), argnums=(0, 1))
results["outside"] = distance(jax.jit(outside)(*data), expected)
four = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
inside = jax.shard_map(jax.value_and_grad(each, argnums=(0, 1)), mesh=four, in_specs=rows, out_specs=P())
results["inside"] = distance(jax.jit(inside)(*data), expected)

# classes on several devices: by the compiler
softmax = sm.MatchingLoss(sm.CompositeSoftmax())

def of_classes(w, x, s, mask):
    return matching_loss(x @ w, s, softmax, where=mask, reduction="mean")

data = (w, x, s, mask)
here, every = np.asarray(x @ w), np.broadcast_to(np.asarray(mask)[:, None], s.shape)
value, gradient = softmax.value_and_grad(here, np.asarray(s), where=every, reduction="mean")
expected = value, x.T @ gradient
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
specs = (P(None, "model"), P("data"), P("data", "model"), P("data"))
data = tuple(jax.device_put(a, NamedSharding(mesh, spec)) for a, spec in zip(data, specs))
function = jax.jit(jax.value_and_grad(of_classes)).lower(*data).compile()
found = function(*data)
results["classes"] = distance(found, expected)
results["spec"] = tuple(found[1].sharding.spec)
results["gathers"] = len(re.findall(r"all-gather|all-to-all", function.as_text()))

# rows by hand, classes by the compiler
def by_hand(w, x, s, mask):
    count = jax.lax.psum(jnp.sum(mask), "data")
    own = matching_loss(x @ w, s, softmax, where=mask, reduction="mean", num_items=count)
    return jax.lax.psum(own, "data")

rows = (P(), P("data"), P("data"), P("data"))
mapped = jax.shard_map(by_hand, mesh=mesh, in_specs=rows, out_specs=P(), axis_names={"data"})
results["both"] = distance(jax.jit(jax.value_and_grad(mapped))(*data), expected)
results["dtype"] = str(found[0].dtype)  # x64 is off here
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def on_devices():
    done = run_python(DEVICES)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_the_module_registers_what_was_made_before(on_devices):
    assert on_devices["early"] == 3
    assert on_devices["dtype"] == "float32"


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_rows_on_several_devices_with_the_count_of_all(on_devices, where):
    # the gradient is taken outside of shard_map, on 2 devices, or inside, on 4
    assert on_devices[where] < 3e-6


def test_classes_on_several_devices(on_devices):
    assert on_devices["classes"] < 3e-6
    assert on_devices["both"] < 3e-6
    assert on_devices["spec"] == [None, "model"]
    assert on_devices["gathers"] == 0  # nobody has all classes


def test_without_jax_the_message_says_what_to_install():
    done = run_python("import sys, selmatch; sys.modules['jax'] = None; import selmatch.jax")
    assert done.stderr.endswith('selmatch.jax needs JAX. Install it with: pip install "selmatch[jax]".\n')
