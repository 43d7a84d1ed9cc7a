"""Matching losses as users call them: values, gradients, masks, weights, reductions, targets as link values."""

import math
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pandas
import polars
import pytest
import torch
import torch.nn.functional as F
from score_pairs import curve_of, generic_pairs

import selmatch as sm
from conftest import ARRAYS, KINKED, LINKS, LOSSES, SMOOTH, SOFTMAXES, VECTORS
from selmatch import batch

#: one loss of each kind, for tests that are about the call and not about the formula
FEW = [
    sm.MatchingLoss(potential)
    for potential in (
        sm.Sinh(), sm.Sigmoid().affine(alpha=2.0, beta=1.5), sm.Logit(), sm.Log(), sm.SmeLU(c=2.0), sm.Step(),
        sm.CompositeSigmoid(sm.Cosh(), gamma=0.7), sm.CompositeSoftmax(sm.Sinh(), gamma=0.5),
        sm.CompositeSoftmax(sm.Tanh(), gamma=2.0, rho=(0.5, 1.0, 2.0)), sm.CompositeSoftmax(sm.Exp(), anchor=0.5),
        sm.Separable(sm.Log()),
    )
]  # fmt: skip
GARBAGE = (math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0)


#: each loss in NumPy and PyTorch; the formulas of all losses run in JAX too, with its golden rows
CALLS = [pytest.param(ARRAYS[name], loss, id=f"{name}-{loss!r}") for loss in FEW for name in ("numpy", "torch")]
CALLS += [pytest.param(ARRAYS["jax"], loss, id=f"jax-{loss!r}") for loss in (FEW[2], FEW[-2])]


def numpy(x):
    return np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)


def close(actual, expected, rtol=1e-12, atol=0.0):
    np.testing.assert_allclose(numpy(actual), numpy(expected), rtol=rtol, atol=atol)


def gradient(function, x):
    """The derivative of the sum of a function by the array's own framework."""
    if isinstance(x, torch.Tensor):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]
    return jax.grad(lambda z: function(z).sum())(x)


# ------------------------------------------------------------------------------------------------ value and gradient


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_loss_of_equal_scores_and_its_gradient_are_exactly_zero(loss, array):
    s = array(generic_pairs(loss)[1])
    value, slope = loss.value_and_grad(s, s)
    for result in (value, slope, loss(s, s, reduction="none"), loss.grad(s, s), loss(s, s)):
        assert (numpy(result) == 0).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_are_not_negative_and_agree_between_methods_and_libraries(loss, array):
    s_hat, s = generic_pairs(loss)
    expected = loss(s_hat, s, reduction="none"), loss.grad(s_hat, s)
    assert (expected[0] >= 0).all()
    s_hat, s = array(s_hat), array(s)
    for result in ((loss(s_hat, s, reduction="none"), loss.grad(s_hat, s)), loss.value_and_grad(s_hat, s)):
        for actual, wanted in zip(result, expected, strict=True):
            assert type(actual) is type(s_hat)
            close(actual, wanted, 1e-11, 1e-300)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_gradient_is_what_torch_derives(loss):
    s_hat, s = map(ARRAYS["torch"], generic_pairs(loss))
    close(gradient(lambda z: loss(z, s, reduction="sum"), s_hat), loss.grad(s_hat, s), 1e-8, 1e-13)


@pytest.mark.parametrize("loss", [FEW[0], FEW[2]], ids=repr)
def test_the_gradient_is_what_jax_derives(loss):
    s_hat, s = map(ARRAYS["jax"], generic_pairs(loss))
    close(gradient(lambda z: loss(z, s, reduction="sum"), s_hat), loss.grad(s_hat, s), 1e-8, 1e-13)


@pytest.mark.parametrize("loss", [sm.MatchingLoss(c) for c in SMOOTH], ids=repr)
def test_gradients_of_the_observed_score_flow(loss):
    s_hat, s = map(ARRAYS["jax" if loss in FEW else "torch"], generic_pairs(loss))
    derived = gradient(lambda z: loss(s_hat, z, reduction="sum"), s)
    close(derived, -(s_hat - s) * loss.potential.slope(s), 1e-7, 1e-12)


@pytest.mark.parametrize("loss", [sm.MatchingLoss(p) for p in (*SMOOTH, *KINKED, *VECTORS)], ids=repr)
def test_a_small_move_costs_the_quadratic_approximation(loss):
    s = generic_pairs(loss)[1]
    direction = np.where(np.arange(s.size) % 2, 1.0, -1.0).reshape(s.shape)
    s_hat = s + 1e-7 * direction
    delta = s_hat - s
    approximation = loss.quadratic(s_hat, s, reduction="none")
    close(loss(s_hat, s, reduction="none"), approximation, 2e-5, 1e-300)
    if not loss.vector:
        close(approximation, 0.5 * delta**2 * loss.curvature(s))


@pytest.mark.parametrize("loss", [sm.MatchingLoss(p) for p in (sm.Sinh(), sm.Logit(), *SOFTMAXES)], ids=repr)
def test_curvatures_and_products_are_those_of_the_hessian(loss):
    s_hat, s = generic_pairs(loss, rows=3)
    v = np.array([[1.0, -2.0, 0.5]] * 3) if loss.vector else np.array([1.0, -2.0, 0.5])
    if loss.potential == sm.Sinh():
        hessians = jax.vmap(jax.hessian(lambda z, s: loss(z, s, reduction="sum")))(jnp.asarray(s_hat), jnp.asarray(s))
    else:  # the same derivatives, sooner
        hessian = torch.func.jacrev(torch.func.jacrev(lambda z, s: loss(z, s, reduction="sum")))
        hessians = torch.func.vmap(hessian)(torch.tensor(s_hat), torch.tensor(s))
    hessians = numpy(hessians) if loss.vector else numpy(hessians)[:, None, None]
    scale = np.max(np.abs(hessians))
    diagonal = np.diagonal(hessians, axis1=-2, axis2=-1).reshape(s.shape)
    product = np.einsum("nij,nj->ni", hessians, v.reshape(3, -1)).reshape(s.shape)
    close(loss.curvature(s_hat), diagonal, 1e-9, 1e-11 * scale)
    close(loss.curvature(s_hat, s), loss.curvature(s_hat))
    close(loss.hvp(s_hat, v), product, 1e-9, 1e-10 * scale)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_secant_is_gradient_over_distance_and_the_slope_without_distance(loss):
    s_hat, s = generic_pairs(loss)
    s_hat[0] = s[0]
    secant, moved = loss.curvature(s_hat, s, kind="secant"), s_hat != s
    assert (secant >= 0).all()
    close(secant[0], loss.curvature(s)[0])
    if isinstance(loss.potential, sm.CompositeSoftmax):
        near, steps = s + 0.05 * (s_hat - s), (np.arange(2000) + 0.5)[:, None, None] / 2000
        mean = np.mean(loss.curvature(s + steps * (near - s)), axis=0)
        u = near - s
        longest = np.maximum(np.max(np.abs(u[..., None] - u[..., None, :]), axis=-1), np.abs(u))
        least = np.abs(loss.grad(near, s)) / np.where(longest > 0, longest, 1.0)
        close(loss.curvature(near, s, kind="secant"), np.maximum(mean, least), 1e-3, 1e-6)
    else:
        close((secant * (s_hat - s))[moved], loss.grad(s_hat, s)[moved], 1e-12, 1e-300)


def test_the_secant_of_many_classes_does_not_miss_a_narrow_steep_region():
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sigmoid().affine(alpha=500.0)))
    s, u = np.array([[-0.5, 0.1, 0.4]] * 3), np.diag([1.03, -0.87, -0.9])
    secant, gradient = loss.curvature(s + u, s, kind="secant"), loss.grad(s + u, s)
    assert np.all(np.abs(np.diag(gradient)) > 1e-3)
    assert np.all(np.diag(secant) >= 0.999 * np.diag(gradient) / np.diag(u))


# ------------------------------------------------------------------------------------------------- what is elicited


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_minimiser_has_the_least_expected_loss(loss):
    s = generic_pairs(loss)[1]
    weights = np.linspace(0.5, 2.0, len(s))
    best = loss.minimiser(s, weights)
    assert np.shape(best) == s.shape[1:]
    least = loss(best, s, weights=weights)
    for step in (1e-1, 1e-2, -1e-2, -1e-1):
        for moved in best + step * (np.eye(3) if loss.vector else np.ones(1)):
            moved = moved if loss.vector else np.clip(moved, s.min(), s.max())
            assert loss(moved, s, weights=weights) >= least * (1 - 1e-12)


@pytest.mark.parametrize("loss", [sm.MatchingLoss(c) for c in SMOOTH], ids=repr)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_minimiser_has_the_mean_link(loss, framework):
    array = ARRAYS[framework]
    s = generic_pairs(loss)[1]
    weights = np.linspace(0.5, 2.0, len(s))
    best = loss.minimiser(array(s), array(weights))
    close(loss.potential(best), np.average(loss.potential(s), weights=weights), 1e-11, 1e-13)


def test_the_minimiser_of_a_jump_or_a_flat_piece_lies_on_it():
    s = [-2.0, -1.0, 3.0]
    assert sm.MatchingLoss(sm.Step()).minimiser(s) == 0.0
    assert sm.MatchingLoss(sm.Staircase((-1.5, 1.0), (1.0, 2.0))).minimiser(s) == 1.0
    assert 1.0 <= sm.MatchingLoss(sm.Huber(c=1.0)).minimiser([2.0, 3.0, 5.0]) <= 5.0


def test_minimisers_come_as_what_the_scores_are():
    loss = sm.MatchingLoss(sm.Exp())
    assert type(loss.minimiser([0.0, 2.0])) is float
    assert loss.minimiser(np.float32([0.0, 2.0])).dtype == np.float32
    assert loss.minimiser(torch.tensor([0.0, 2.0])).dtype == torch.float32
    rows = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh())).minimiser(torch.tensor([[0.0, 2.0], [1.0, 1.0]]))
    assert rows.dtype == torch.float32
    assert rows.shape == (2,)


# ------------------------------------------------------------------------------------------- masks, weights, reductions


@pytest.mark.parametrize(("array", "loss"), CALLS)
def test_nothing_behind_the_mask_changes_value_or_gradient(array, loss):
    s_hat, s = generic_pairs(loss)
    mask = np.ones(s.shape, dtype=bool)
    mask[::2] = False
    if loss.vector:
        mask[1, 0] = mask[3, 2] = mask[5, 0] = mask[5, 1] = False
    present = array(mask) != 0
    weights = array(np.linspace(0.5, 2.0, len(s)))
    clean = {}
    for garbage in GARBAGE:
        a, b = array(np.where(mask, s_hat, garbage)), array(np.where(mask, s, garbage))
        for reduction in ("none", "mean", "sum"):
            options = {"where": present, "weights": weights, "reduction": reduction}
            value, slope = loss.value_and_grad(a, b, **options)
            results = [value, slope, loss(a, b, **options), loss.grad(a, b, **options), loss.quadratic(a, b, **options)]
            if not isinstance(a, np.ndarray) and reduction == "mean" and garbage != garbage:
                derived = gradient(lambda z, b=b, options=options: loss(z, b, **options), a)
                close(derived, slope, 1e-8, 1e-14)
            results = [numpy(x) for x in results]
            assert all(np.isfinite(x).all() for x in results)
            assert (results[1][~mask] == 0).all()
            for name, x in enumerate(results):
                np.testing.assert_array_equal(x, clean.setdefault((reduction, name), x))
    assert clean["none", 0][0] == 0


@pytest.mark.parametrize(("array", "loss"), CALLS)
def test_a_masked_mean_is_the_mean_of_what_is_left(array, loss):
    s_hat, s = generic_pairs(loss)
    mask = np.arange(len(s)) % 3 != 1
    everywhere = np.broadcast_to(mask.reshape(-1, *[1] * (s.ndim - 1)), s.shape)
    a, b, present = array(s_hat), array(s), array(everywhere) != 0
    for reduction in ("mean", "sum"):
        close(loss(a, b, where=present, reduction=reduction), loss(s_hat[mask], s[mask], reduction=reduction))
        slope = numpy(loss.grad(a, b, where=present, reduction=reduction))
        close(slope[mask], loss.grad(s_hat[mask], s[mask], reduction=reduction))


@pytest.mark.parametrize(("array", "loss"), CALLS)
def test_when_everything_is_masked_loss_and_gradient_are_zero(array, loss):
    garbage = array(np.full(generic_pairs(loss)[1].shape, math.nan))
    nothing = array(np.zeros(garbage.shape)) != 0
    for reduction in ("mean", "sum", "none"):
        value, slope = loss.value_and_grad(garbage, garbage, where=nothing, reduction=reduction)
        assert (numpy(value) == 0).all()
        assert (numpy(slope) == 0).all()
    if not isinstance(garbage, np.ndarray):
        assert (numpy(gradient(lambda z: loss(z, garbage, where=nothing), garbage)) == 0).all()


@pytest.mark.parametrize(("array", "loss"), CALLS)
def test_weights_count_rows(array, loss):
    s_hat, s = generic_pairs(loss, rows=4)
    weights = np.array([1, 0, 3, 2])
    a, b, w = array(s_hat), array(s), array(weights)
    repeated = np.repeat(s_hat, weights, axis=0), np.repeat(s, weights, axis=0)
    for reduction in ("mean", "sum"):
        close(loss(a, b, weights=w, reduction=reduction), loss(*repeated, reduction=reduction))
    close(loss(a, b, weights=w, reduction="none"), weights * loss(s_hat, s, reduction="none"))
    spread = weights[:, None] if loss.vector else weights
    close(loss.grad(a, b, weights=w), spread * loss.grad(s_hat, s))
    close(loss.grad(a, b, weights=w, reduction="mean"), spread * loss.grad(s_hat, s) / 6)
    close(loss(a, b, weights=w, num_items=10), loss(*repeated, reduction="sum") / 10)
    close(loss.grad(a, b, weights=w, reduction="mean", num_items=10), spread * loss.grad(s_hat, s) / 10)


@pytest.mark.parametrize("num_items", [8, 8.0, np.int64(8), np.array(8.0), torch.tensor(8), jnp.asarray(8)], ids=type)
def test_num_items_may_be_any_kind_of_number(num_items):
    loss = sm.MatchingLoss(sm.Identity())
    if isinstance(num_items, torch.Tensor):
        assert loss(torch.ones(4), torch.zeros(4), num_items=num_items) == 0.25
    else:
        assert loss(jnp.ones(4), jnp.zeros(4), num_items=num_items) == 0.25


def test_rows_of_weight_zero_may_have_an_infinite_loss():
    loss = sm.MatchingLoss(sm.Sinh())
    value, slope = loss.value_and_grad([800.0, 1.0], [0.0, 0.0], weights=[0.0, 1.0])
    assert value.tolist() == [0.0, loss(1.0, 0.0)]
    assert slope.tolist() == [0.0, math.sinh(1.0)]


@pytest.mark.parametrize(("array", "loss"), CALLS)
def test_empty_arrays_have_sum_and_mean_zero(array, loss):
    nothing = array(np.zeros((0, 3)))
    assert loss(nothing, nothing) == loss(nothing, nothing, reduction="sum") == 0
    rows = (0,) if loss.vector else (0, 3)
    assert tuple(loss(nothing, nothing, reduction="none").shape) == rows
    assert tuple(loss.grad(nothing, nothing, reduction="mean").shape) == (0, 3)


def test_scores_broadcast(array):
    s_hat, s = array([[0.5, 1.0, 1.5], [1.0, 2.0, 0.0]]), array([0.0, 1.0, 2.0])
    loss = sm.MatchingLoss(sm.Sinh())
    for pair in ((s_hat, s), (s, s_hat), (s_hat[:, :1], s_hat), (s_hat, s[:1])):
        close(loss(*pair, reduction="none"), loss(*np.broadcast_arrays(*map(numpy, pair)), reduction="none"))
    close(loss(s_hat, 1.0), loss(numpy(s_hat), np.ones((2, 3))))
    close(loss(0.5, s), loss(np.full(3, 0.5), numpy(s)))
    softmax = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    rows = array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.5]])
    close(softmax(rows, s, reduction="none"), [softmax(numpy(row), numpy(s)) for row in rows])


def test_one_class_is_legal(array):
    softmax, sinh = sm.CompositeSoftmax(sm.Sinh()), sm.MatchingLoss(sm.Sinh())
    s_hat, s = array([[0.5], [2.0]]), array([[0.0], [1.0]])
    close(sm.MatchingLoss(softmax)(s_hat, s), sinh(s_hat, s))
    close(sm.MatchingLoss(softmax).grad(s_hat, s), sinh.grad(s_hat, s))
    assert sm.MatchingLoss(sm.CompositeSoftmax())(s_hat, s) == 0


@pytest.mark.parametrize("rho", [None, (0.5, 1.0, 2.0, 3.0)])
@pytest.mark.parametrize("anchor", [None, 0.5])
def test_masked_classes_are_classes_that_do_not_exist(rho, anchor, array):
    s_hat, s = np.random.default_rng(3).normal(size=(2, 12, 4))
    kept = [0, 2, 3]
    mask = array(np.isin(np.arange(4), kept)[None]) != 0
    full = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh(), gamma=0.5, rho=rho, anchor=anchor))
    rho = None if rho is None else [rho[k] for k in kept]
    small = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh(), gamma=0.5, rho=rho, anchor=anchor))
    a, b, few = array(s_hat), array(s), (s_hat[:, kept], s[:, kept])
    options = {"reduction": "none"}
    close(full(a, b, where=mask, **options), small(*few, **options))
    close(numpy(full.grad(a, b, where=mask))[:, kept], small.grad(*few), 1e-12, 1e-15)
    for mine, other in zip(full.parts(a, b, where=mask, **options), small.parts(*few, **options), strict=True):
        close(mine, other)
    for name in ("prob", "link", "slope"):
        garbage = array(np.where(numpy(mask), s, math.nan))
        result = numpy(getattr(full.potential, name)(garbage, where=mask))
        close(result[:, kept], getattr(small.potential, name)(few[1]), 1e-12)
        assert (result[:, 1] == 0).all()
    close(sm.CrossEntropy(full.potential)(a, b, where=mask), sm.CrossEntropy(small.potential)(*few))


# ----------------------------------------------------------------------------------------------------- types and sizes


HALF = {
    "numpy float16": lambda x: np.asarray(x, dtype=np.float16), "numpy float32": lambda x: np.asarray(x, np.float32),
    "torch float16": lambda x: torch.tensor(x).half(), "torch bfloat16": lambda x: torch.tensor(x).bfloat16(),
    "torch float32": lambda x: torch.tensor(x).float(), "jax bfloat16": lambda x: jnp.asarray(x, dtype=jnp.bfloat16),
}  # fmt: skip


def single(x):
    return x.float() if isinstance(x, torch.Tensor) else x.astype("float32")


@pytest.mark.parametrize(
    ("loss", "half"), [(loss, h) for loss in FEW for h in HALF if "jax" not in h or loss in FEW[7:8]]
)
def test_half_precision_is_computed_in_single(loss, half):
    s_hat, s = map(HALF[half], generic_pairs(loss))
    wide = single(s_hat), single(s)
    mask, weights = s_hat == s_hat, 0 * loss(s_hat, s, reduction="none") + 2
    for options in ({}, {"where": mask, "weights": weights}):
        factor = 2 if options else 1
        for actual, exact in zip(loss.value_and_grad(s_hat, s, **options), loss.value_and_grad(*wide), strict=True):
            assert actual.dtype == s_hat.dtype
            rounded = single(
                (factor * exact).to(s_hat.dtype) if "torch" in half else (factor * exact).astype(s_hat.dtype)
            )
            np.testing.assert_array_equal(numpy(single(actual)), numpy(rounded))
        assert loss(s_hat, s, **options).dtype == loss(s_hat, s, reduction="sum", **options).dtype == wide[0].dtype
    assert loss.curvature(s_hat).dtype == loss.hvp(s_hat, s).dtype == s_hat.dtype
    assert loss.minimiser(s_hat).dtype == wide[0].dtype


@pytest.mark.parametrize(("array", "loss"), CALLS)
def test_results_have_the_precision_of_the_predictions(array, loss):
    s_hat, s = generic_pairs(loss)
    single = numpy(array(s_hat)).astype(np.float32)
    if isinstance(array(s), torch.Tensor):
        single = torch.tensor(single)
    elif isinstance(array(s), jax.Array):
        single = jnp.asarray(single)
    double = array(s)
    for reduction in ("none", "mean", "sum"):
        value, slope = loss.value_and_grad(single, double, reduction=reduction)
        assert value.dtype == slope.dtype == single.dtype
        exact = loss(numpy(single).astype(float), s, reduction=reduction)
        close(value, exact, 1e-6, 1e-30)


@pytest.mark.parametrize("observed", [np.int64, np.int8, np.uint8, bool])
def test_observed_integers_become_like_the_predictions(observed):
    loss = sm.MatchingLoss(sm.Sinh())
    labels = np.array([0, 1, 1]).astype(observed)
    for s_hat, s in (
        (np.float32([0.5, 1.0, 2.0]), labels),
        (torch.tensor([0.5, 1.0, 2.0]), torch.tensor(labels)),
        (jnp.float32([0.5, 1.0, 2.0]), jnp.asarray(labels)),
    ):
        value = loss(s_hat, s)
        assert value.dtype == s_hat.dtype
        close(value, loss([0.5, 1.0, 2.0], [0.0, 1.0, 1.0]), 1e-6)


def test_numbers_give_numbers():
    loss = sm.MatchingLoss(sm.Sinh())
    results = [loss(1.0, 0), loss(1, 0.0, reduction="none"), loss.grad(1.0, 0.0), *loss.value_and_grad(1.0, 0.0)]
    results += [loss.curvature(1.0), loss.curvature(1.0, 0.0, kind="secant"), loss.hvp(1.0, 2.0)]
    results += [loss.quadratic(1.0, 0.0), loss.fenchel_young(1.0, 0.5), loss.fenchel_young_grad(1.0, 0.5)]
    results += [loss([1.0, 2.0], 0.0), loss(1.0, 0.0, where=True, weights=2.0), loss((1.0,), [0.0])]
    results += [sm.MatchingLoss(sm.CompositeSoftmax())([1.0, 0.0], [0.0, 1.0])]
    assert [type(x) for x in results] == [float] * len(results)
    assert loss(1.0, 0.0, where=False) == 0.0


@pytest.mark.parametrize(
    "column",
    [
        lambda x: x, tuple, np.asarray, pandas.Series, polars.Series, lambda x: pandas.Series(x, dtype="Float64"),
        lambda x: pandas.Series(x, index=list("zyx")), lambda x: pandas.DataFrame({"a": x})["a"],
        lambda x: polars.DataFrame({"a": x})["a"], lambda x: np.array(x, dtype=">f8"),
    ],
)  # fmt: skip
def test_columns_of_any_kind_are_converted(column):
    s_hat, s = [0.5, 1.5, 3.0], [0.0, 2.0, 1.0]
    loss = sm.MatchingLoss(sm.Sinh())
    assert loss(column(s_hat), column(s)) == pytest.approx(loss(s_hat, s), rel=1e-15)
    integers = pandas.Series([0, 2, 1], dtype="int64")
    nullable = pandas.Series([0, 2, 1], dtype="Int64")
    for observed in (integers, nullable, polars.Series([0, 2, 1]), [0, 2, 1]):
        assert loss(column(s_hat), observed) == pytest.approx(loss(s_hat, s), rel=1e-15)
    masked = loss(
        column(s_hat), column(s), where=pandas.Series([True, False, True]), weights=polars.Series([1.0, 1, 3])
    )
    assert masked == pytest.approx(loss([0.5, 3.0], [0.0, 1.0], weights=[1.0, 3.0]), rel=1e-15)
    with pytest.raises(ValueError, match="s must be finite, got nan at index 1"):
        loss(column(s_hat), pandas.Series([0, None, 1], dtype="Int64"))


def test_a_frame_of_columns_is_many_classes():
    frame = pandas.DataFrame({"a": [0.5, 1.0], "b": [0.0, -1.0], "c": [2, 3]})
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    assert loss(frame, frame + 0.5) == loss(frame.to_numpy(), frame.to_numpy() + 0.5)
    assert loss(polars.from_pandas(frame), frame + 0.5) == loss(frame.to_numpy(), frame.to_numpy() + 0.5)


@pytest.mark.parametrize("loss", FEW, ids=repr)
@pytest.mark.parametrize("layout", ["plain", "grid", "transposed", "strided", "broadcast"])
def test_chunks_change_nothing(loss, layout, monkeypatch):
    dtype = np.float64 if layout == "grid" else np.float32
    s_hat, s = (np.resize(z, (2 * 20_001, 3)).astype(dtype) for z in generic_pairs(loss, rows=101))
    layouts = {
        "plain": lambda z: z[:20_001] if loss.vector else z.reshape(-1),
        "grid": lambda z: z[:20_000].reshape(100, 200, 3),
        "transposed": lambda z: z[:20_000].reshape(100, 200, 3).swapaxes(0, 1),
        "strided": lambda z: z[::2] if loss.vector else z[:, 1],
        "broadcast": lambda z: np.broadcast_to(z[:600].reshape(600, 1, 3), (600, 40, 3)),
    }
    s_hat, s = layouts[layout](s_hat), layouts[layout](s[::-1])
    rng = np.random.default_rng(0)
    options = {
        "where": rng.random(s.shape) < 0.8,
        "weights": rng.random(s.shape[:-1] if loss.vector else s.shape).astype(dtype),
        "reduction": "none",
    }
    assert s.size * s.itemsize > 2 * batch.CHUNK_BYTES

    def everything():
        return (
            *loss.value_and_grad(s_hat, s, **options), loss(s_hat, s, reduction="none"), loss.grad(s_hat, s),
            loss.curvature(s_hat, s, kind="secant"), loss(s_hat, s), loss.hvp(s_hat, s), loss.quadratic(s_hat, s),
        )  # fmt: skip

    chunked = everything()
    monkeypatch.setattr(batch, "CHUNK_BYTES", 1 << 40)
    for one, other in zip(chunked, everything(), strict=True):
        assert one.dtype == other.dtype == dtype
        close(one, other, 0.0 if one.ndim else 1e-6)  # the order of a sum follows the layout


def test_eight_threads_share_a_loss():
    rng = np.random.default_rng(1)
    s_hat, s = rng.normal(size=(2, 8, 30_000))
    for loss in (sm.MatchingLoss(sm.Sinh()), sm.MatchingLoss(sm.CompositeSigmoid(sm.Cosh()))):
        alone = [loss(s_hat[i], s[i]) for i in range(8)]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda i, loss=loss: loss(s_hat[i], s[i]), range(8))) == alone
    assert np.geterr()["over"] == "warn"


# ------------------------------------------------------------------------------------------- targets as link values


@pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if not isinstance(loss.potential, sm.CompositeSoftmax)], ids=repr
)
def test_link_values_as_targets_give_the_loss_of_their_scores(loss, array):
    s_hat, s = generic_pairs(loss)
    y = loss.potential.link(s)
    expected = loss(s_hat, s, reduction="none")
    value = loss.fenchel_young(array(s_hat), array(y), reduction="none")
    assert (numpy(value) >= -1e-15).all()
    # scores of rounded link values are off by eps h / h', which for close scores is much
    curve = curve_of(loss)
    off = 4e-15 * (np.abs(curve(s)) + np.abs(s) * curve.slope(s)) * np.abs(s_hat - s) / 1.0
    close(value, expected, 1e-9, 1e-14 + (off.sum() if loss.vector else off.max()))
    close(loss.fenchel_young_grad(array(s_hat), array(y)), loss.grad(s_hat, s), 1e-9, 1e-12 * (1 + np.abs(y).max()))


def test_link_values_of_the_standard_softmax_give_the_loss_of_their_scores(array):
    s_hat, s = np.random.default_rng(5).normal(size=(2, 6, 4))
    for potential in (
        sm.CompositeSoftmax(), sm.CompositeSoftmax(gamma=0.5, rho=(0.5, 1.0, 2.0, 1.0)),
        sm.CompositeSoftmax(sm.Constant(2.0).affine(beta=1.0)), sm.CompositeSoftmax(sm.Constant(-1.0)),
    ):  # fmt: skip
        loss = sm.MatchingLoss(potential)
        y = potential.link(s)
        value = loss.fenchel_young(array(s_hat), array(y), reduction="none")
        close(value, loss(s_hat, s, reduction="none"), 1e-12)
        close(loss.fenchel_young_grad(array(s_hat), array(y)), loss.grad(s_hat, s), 1e-12, 1e-15)
        rest = loss.fenchel_young(array(s_hat), array(y), conjugate=False, reduction="none")
        close(rest, potential.primitive(s_hat) - (s_hat * y).sum(-1), 1e-12, 1e-14)


@pytest.mark.parametrize("curve", LINKS, ids=repr)
def test_without_the_conjugate_potential_minus_product_is_left(curve):
    loss = sm.MatchingLoss(curve)
    s_hat, s = generic_pairs(loss)
    y = curve(s)
    value = loss.fenchel_young(s_hat, y, conjugate=False, reduction="none")
    size = np.abs(curve.primitive(s_hat)) + np.abs(curve.primitive(s)) + np.abs(y) * (np.abs(s_hat) + np.abs(s))
    np.testing.assert_array_less(np.abs(value - (curve.primitive(s_hat) - s_hat * y)), 1e-12 * (1 + size))


def test_composite_losses_take_link_values_without_the_conjugate():
    s_hat, s = np.random.default_rng(5).normal(size=(2, 6, 3))
    for potential in (sm.CompositeSoftmax(sm.Sinh(), gamma=0.5), sm.CompositeSoftmax(anchor=0.5)):
        y = potential.link(s)
        loss = sm.MatchingLoss(potential)
        value = loss.fenchel_young(s_hat, y, conjugate=False, reduction="none")
        close(value, potential.primitive(s_hat) - (s_hat * y).sum(-1))
        a = torch.tensor(s_hat)
        target = torch.tensor(y)
        derived = gradient(lambda z, t=target, f=loss: f.fenchel_young(z, t, conjugate=False, reduction="sum"), a)
        close(derived, loss.fenchel_young_grad(s_hat, y), 1e-12, 1e-14)


@pytest.mark.parametrize("conjugate", [True, False])
def test_hard_labels_of_the_sigmoid_give_the_logistic_loss(conjugate, array):
    s_hat = np.array([-700.0, -100.0, -40.0, -3.0, -1e-3, 0.0, 1e-3, 2.0, 40.0, 100.0, 700.0])
    loss = sm.MatchingLoss(sm.Sigmoid())
    for y, sign in ((1.0, -1.0), (0.0, 1.0)):
        exact = np.maximum(sign * s_hat, 0) + np.log1p(np.exp(-np.abs(s_hat)))
        exact = np.where(sign * s_hat < -30, np.exp(sign * s_hat), exact)
        value = loss.fenchel_young(array(s_hat), array(np.full(11, y)), conjugate=conjugate, reduction="none")
        close(value, exact, 1e-13)
        scaled = sm.MatchingLoss(sm.Sigmoid().affine(alpha=0.001, gain=0.001))
        value = scaled.fenchel_young(array(1000 * s_hat), 0.001 * y, conjugate=conjugate, reduction="none")
        close(value, exact, 1e-12)


def test_targets_whose_score_is_infinite_have_a_finite_loss(array):
    s_hat = array([-2.0, 0.0, 3.0])
    x = numpy(s_hat)
    for curve, y, exact in (
        (sm.Exp(), 0.0, np.exp(x)), (sm.AntiExp(), 0.0, np.exp(-x)), (sm.Tanh(), 1.0, np.log1p(np.exp(-2 * x))),
        (sm.Tanh().affine(gain=2.0), -2.0, 2 * np.log1p(np.exp(2 * x))), (sm.ReLU(), 0.0, np.maximum(x, 0) ** 2 / 2),
    ):  # fmt: skip
        close(sm.MatchingLoss(curve).fenchel_young(s_hat, y, reduction="none"), exact, 1e-13)
    zero = array([0.0])
    close(sm.MatchingLoss(sm.Log()).fenchel_young(zero, 2.0), math.exp(2.0))
    close(sm.MatchingLoss(sm.Logit()).fenchel_young(zero, 2.0), math.log1p(math.exp(2.0)))


@pytest.mark.parametrize("conjugate", [True, False])
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_numbers_of_a_link_learn_from_targets_whose_score_is_infinite(library, conjugate):
    """Hard labels of a sigmoid with trained alpha and beta: softplus(-alpha (s - beta)) / alpha, less beta as H*."""
    s_hat, alpha, beta = np.array([-3.0, 0.7, 2.0, 12.0]), 1.7, 0.3

    def value(alpha, beta, s_hat, y):
        loss = sm.MatchingLoss(sm.Sigmoid().affine(alpha=alpha, beta=beta))
        return loss.fenchel_young(s_hat, y, conjugate=conjugate, reduction="sum")

    for y, sign in ((1.0, -1.0), (0.0, 1.0)):
        x = sign * alpha * (s_hat - beta)
        exact, share = np.logaddexp(0.0, x), np.exp(-np.logaddexp(0.0, -x))
        rest = 0.0 if conjugate or y == 0.0 else beta * len(s_hat)
        by_alpha = np.sum(-exact / alpha**2 + share * x / alpha**2)
        by_beta = np.sum(-sign * share) - (0.0 if conjugate else len(s_hat) * y)
        if library == "torch":
            given = [torch.tensor(z, dtype=torch.float64, requires_grad=True) for z in (alpha, beta, s_hat)]
            found = value(*given, torch.full((4,), y, dtype=torch.float64))
            slopes = torch.autograd.grad(found, given)
            found = found.detach()
        else:
            labels = jnp.full(4, y)
            found, slopes = jax.value_and_grad(value, argnums=(0, 1, 2))(alpha, beta, jnp.asarray(s_hat), labels)
        close(found, np.sum(exact) / alpha - rest, 1e-13)
        close(slopes[0], by_alpha, 1e-12)
        close(slopes[1], by_beta, 1e-12)
        close(slopes[2], sign * share, 1e-12, 1e-15)


@pytest.mark.parametrize(
    ("curve", "y"),
    [(sm.Power(2.0), 0.0), (sm.SignedPower(3.0), 0.0), (sm.Power(0.5), 0.0), (sm.Exp(), 0.0), (sm.ReLU(), 0.0),
     (sm.SmeLU(c=1.0), 1.0), (sm.Tanh(), -1.0), (sm.Sigmoid() + sm.Tanh(), 2.0), (sm.Step(), 0.3)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("name", ["alpha", "beta", "gain"])
def test_numbers_of_a_link_learn_from_targets_at_the_ends_of_slopes(curve, y, name):
    """Without the conjugate, which at an end of the range is infinite for all gains but one."""

    def value(number, s_hat, y):
        loss = sm.MatchingLoss(curve.affine(**{"alpha": 1.3, "beta": -0.2, "gain": 1.0, name: number}))
        return loss.fenchel_young(s_hat, y, conjugate=False)

    number = {"alpha": 1.3, "beta": -0.2, "gain": 1.0}[name]
    given = torch.tensor(number, dtype=torch.float64, requires_grad=True)
    s_hat, step = 0.6, 1e-6
    value(given, torch.tensor([s_hat], dtype=torch.float64), torch.tensor([y], dtype=torch.float64)).backward()
    primitive = [
        curve.affine(**{"alpha": 1.3, "beta": -0.2, "gain": 1.0, name: number + move}).primitive(s_hat)
        for move in (-step, step)
    ]
    assert given.grad.item() == pytest.approx((primitive[1] - primitive[0]) / (2 * step), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_close_to_a_limit_do_not_cancel(dtype):
    s_hat = np.array([-3.0, 0.0, 15.0, 20.0, 40.0, 80.0], dtype=dtype)
    one = np.ones_like(s_hat)
    exact = -np.exp(-np.logaddexp(0.0, s_hat.astype(np.float64)))
    close(sm.MatchingLoss(sm.Sigmoid()).fenchel_young_grad(s_hat, one), exact, 1e-6 if dtype is np.float32 else 1e-14)
    close(sm.MatchingLoss(sm.Separable(sm.Sigmoid())).fenchel_young_grad(-s_hat, 0.0 * one), -exact, 1e-6)
    tanh = sm.MatchingLoss(sm.Tanh()).fenchel_young_grad(s_hat[:4], one[:4])
    close(tanh, -2.0 / (1.0 + np.exp(2.0 * s_hat[:4].astype(np.float64))), 1e-6)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, jnp.asarray], ids=["numpy", "torch", "jax"])
def test_the_end_of_the_range_of_the_arctangent_rounded_up(make):
    s_hat = np.array([0.0, 1.0], dtype=np.float32)
    for y in (math.pi / 2, -math.pi / 2):
        gradient = sm.MatchingLoss(sm.Arctan()).fenchel_young_grad(make(s_hat), make(np.full(2, y, np.float32)))
        close(gradient, np.arctan(s_hat) - y, 1e-6)
    assert np.isnan(sm.Arctan().inverse(np.float32(np.nan)))


class OwnTanh(sm.Curve):
    """Of which only a formula is known."""

    def __call__(self, x):
        return sm.functions.tanh(x)


def test_both_limits_of_a_curve_of_which_only_a_formula_is_known():
    found = sm.MatchingLoss(OwnTanh()).fenchel_young(
        np.array([0.0, 0.5, 0.5]), np.array([-1.0, -1.0, 1.0]), reduction="none"
    )
    close(found, np.log1p(np.exp([0.0, 1.0, -1.0])), 1e-12)


def test_targets_far_out_are_not_clipped():
    assert sm.MatchingLoss(sm.Identity()).fenchel_young(0.0, 1e6) == 0.5e12
    assert sm.MatchingLoss(sm.SignedLog()).fenchel_young(0.0, 20.0) == pytest.approx(math.expm1(20.0) - 20.0, rel=1e-13)
    composite = sm.MatchingLoss(sm.CompositeSigmoid(sm.Identity()))
    assert composite.fenchel_young(0.0, 1e7) == pytest.approx(composite(0.0, 1e7), rel=1e-9)


def test_familiar_losses_are_fenchel_young_losses():
    rng = np.random.default_rng(2)
    z, t = torch.tensor(rng.normal(size=20) * 5), torch.tensor(rng.random(20))
    young = {"conjugate": False, "reduction": "mean"}
    close(sm.MatchingLoss(sm.Sigmoid()).fenchel_young(z, t, **young), F.binary_cross_entropy_with_logits(z, t))
    close(sm.MatchingLoss(sm.Exp()).fenchel_young(z, 9 * t, **young), F.poisson_nll_loss(z, 9 * t))
    close(sm.MatchingLoss(sm.Identity()).fenchel_young(z, t), F.mse_loss(z, t) / 2)
    close(sm.MatchingLoss(sm.Huber(1.5)).fenchel_young(z, 0.0), F.huber_loss(z, torch.zeros(20), delta=1.5))
    margin = sm.MatchingLoss(sm.Step().affine(beta=1.0))
    close(margin.fenchel_young(z, 1.0), torch.clamp(1 - z, min=0).mean())  # hinge
    beta = 0.1
    close(sm.MatchingLoss(sm.Sigmoid()).fenchel_young(beta * z, 1.0, **young), -F.logsigmoid(beta * z).mean())  # DPO
    conservative = -0.9 * F.logsigmoid(beta * z) - 0.1 * F.logsigmoid(-beta * z)
    close(sm.MatchingLoss(sm.Sigmoid()).fenchel_young(beta * z, 0.9, **young), conservative.mean())
    identity = sm.MatchingLoss(2.0 * sm.Identity())
    close(identity(z, 1 / (2 * beta)), torch.square(z - 1 / (2 * beta)).mean())  # IPO
    close(identity.fenchel_young(z, 1 / beta), torch.square(z - 1 / (2 * beta)).mean())


def test_the_softmax_gives_cross_entropy_and_divergence():
    rng = np.random.default_rng(2)
    z, t = torch.tensor(rng.normal(size=(20, 5)) * 5), torch.softmax(torch.tensor(rng.normal(size=(20, 5))), -1)
    classes = torch.tensor(rng.integers(0, 5, 20))
    hard = F.one_hot(classes, 5)
    loss = sm.MatchingLoss(sm.CompositeSoftmax())
    smooth = 0.9 * hard.double() + 0.1 / 5
    for conjugate in (True, False):
        options = {"conjugate": conjugate, "reduction": "none"}
        close(loss.fenchel_young(z, hard, **options), F.cross_entropy(z, classes, reduction="none"), 1e-12, 1e-15)
    close(loss.fenchel_young(z, t, conjugate=False), F.cross_entropy(z, t))
    close(loss.fenchel_young(z, smooth, conjugate=False), F.cross_entropy(z, classes, label_smoothing=0.1))
    close(loss.fenchel_young(z, t), F.kl_div(torch.log_softmax(z, -1), t, reduction="batchmean"))
    far = torch.tensor([[700.0, 0.0], [0.0, 700.0]])
    close(loss.fenchel_young(far, torch.eye(2), reduction="none"), torch.zeros(2))
    far = np.array([[700.0, 0.0], [0.0, 700.0]])
    close(loss.fenchel_young(far, 1 - np.eye(2), reduction="none"), [700.0, 700.0])
    close(loss.fenchel_young(far, np.eye(2), reduction="none"), np.exp([-700.0, -700.0]), 1e-12)


@pytest.mark.parametrize(("framework", "conjugate"), [("torch", True), ("torch", False), ("jax", True)])
def test_autodiff_of_link_value_losses_is_their_gradient(framework, conjugate):
    array = ARRAYS[framework]
    cases = [
        (sm.Sigmoid(), [-3.0, 0.5, 40.0, 2.0], [0.0, 0.3, 1.0, 1.0]), (sm.Exp(), [-3.0, 0.5, 1.0], [0.0, 0.3, 7.0]),
        (sm.Tanh(), [-3.0, 0.5, 1.0], [-1.0, 0.3, 1.0]), (sm.Log(), [0.5, 1.0, 4.0], [-3.0, 0.5, 1.0]),
        (sm.CompositeSoftmax(), [[1.0, 2.0, 0.5], [40.0, 0.0, 0.0]], [[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]]),
        (sm.Separable(sm.Sigmoid()), [[1.0, 2.0], [-3.0, 4.0]], [[0.2, 0.5], [1.0, 0.0]]),
    ]  # fmt: skip
    if framework == "jax":
        cases = [cases[0], cases[4]]
    for potential, s_hat, y in cases:
        loss = sm.MatchingLoss(potential)
        z, target = array(s_hat), array(y)
        mask = array(np.arange(np.size(y)).reshape(np.shape(y)) != 1) != 0
        options = {"where": mask} if not isinstance(potential, sm.CompositeSoftmax) else {}

        def total(z, loss=loss, target=target, options=options):
            return loss.fenchel_young(z, target, conjugate=conjugate, reduction="sum", **options)

        close(gradient(total, z), loss.fenchel_young_grad(z, target, **options), 1e-9, 1e-15)


def test_masked_classes_of_link_values_do_not_exist(array):
    s_hat, s = np.random.default_rng(5).normal(size=(2, 6, 4))
    loss = sm.MatchingLoss(sm.CompositeSoftmax(gamma=0.5))
    mask = np.array([True, False, True, True])
    y = np.insert(loss.potential.link(s[:, mask]), 1, math.nan, axis=1)
    s_hat[:, 1] = math.nan
    mask = np.broadcast_to(mask, s.shape).copy()
    mask[0] = False
    present = array(mask) != 0
    for conjugate in (True, False):
        options = {"conjugate": conjugate, "reduction": "none"}
        value = loss.fenchel_young(array(s_hat), array(y), where=present, **options)
        few = mask[1]
        close(numpy(value)[1:], loss.fenchel_young(s_hat[1:, few], y[1:, few], **options))
        assert numpy(value)[0] == 0
    assert np.isfinite(numpy(loss.fenchel_young_grad(array(s_hat), array(y), where=present))).all()


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_link_values_outside_the_range_give_nan(framework):
    array = ARRAYS[framework]
    for curve, y in ((sm.Sigmoid(), 1.5), (sm.Exp(), -0.1), (sm.Huber(1.0), 1.1), (sm.Step(), -0.5)):
        value = numpy(sm.MatchingLoss(curve).fenchel_young(array([0.5, 0.5]), array([0.5, y]), reduction="none"))
        assert np.isnan(value).tolist() == [False, True]
    softmax = sm.MatchingLoss(sm.CompositeSoftmax())
    for row in ([0.5, 0.6], [-0.5, 1.5]):
        value = softmax.fenchel_young(array(np.zeros((2, 2))), array([[0.5, 0.5], row]), reduction="none")
        assert np.isnan(numpy(value)).tolist() == [False, True]


# ------------------------------------------------------------------------------------------------------- other losses


def test_each_label_has_its_own_link(array):
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp(), 2.5: sm.Log()}))
    s_hat, s = array([3.0, 3.0, 0.0, 2.5]), array([0.0, 1.0, 2.5, 2.5])
    exact = [4.5, sm.MatchingLoss(sm.Exp())(3.0, 1.0), sm.MatchingLoss(sm.Log())(0.0, 2.5), 0.0]
    value, slope = loss.value_and_grad(s_hat, s)
    close(value, exact)
    close(slope, [3.0, math.exp(3) - math.e, -math.inf, 0.0])
    close(loss.curvature(s_hat, s), [1.0, math.exp(3), math.inf, 0.4])
    close(loss.quadratic(s_hat, s, reduction="none"), [4.5, 2 * math.e, 2.5 / 2, 0.0])
    close(loss(s_hat, s, where=s < 2), np.mean(exact[:2]))
    if isinstance(s_hat, torch.Tensor):
        close(gradient(lambda z: loss(z, s[:2], reduction="sum"), s_hat[:2]), slope[:2])
        assert np.isnan(numpy(loss(s_hat, s + 0.5, reduction="none"))).tolist() == [True, True, True, True]


def test_cross_entropy_is_the_ranking_part_plus_what_does_not_depend_on_the_prediction(array):
    for potential in (*SOFTMAXES, sm.CompositeSigmoid(sm.Sinh()), sm.CompositeSigmoid(sm.Cosh(), gamma=0.7)):
        matching, entropy = sm.MatchingLoss(potential), sm.CrossEntropy(potential)
        s_hat, s = map(array, generic_pairs(matching))
        ranking, _ = matching.parts(s_hat, s, reduction="none")
        excess = entropy(s_hat, s, reduction="none") - entropy(s, s, reduction="none")
        close(excess, ranking, 1e-10, 1e-11)
        if isinstance(s_hat, torch.Tensor):
            derived = gradient(lambda z, f=entropy, s=s: f(z, s, reduction="sum"), s_hat)
            close(derived, entropy.grad(s_hat, s), 1e-8, 1e-13)


@pytest.mark.parametrize(("alpha", "beta", "gain"), [(1.0, 0.0, 1.0), (2.0, 0.5, 1.0), (0.25, -1.5, 3.0)])
@pytest.mark.parametrize("framework", ["numpy", "torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_cross_entropy_of_a_sigmoid_link_is_that_of_the_paper(alpha, beta, gain, framework):
    """Over alpha: its gradient is that of the matching loss, which it exceeds by the entropy over alpha (C04, C52)."""
    link, array = sm.Sigmoid().affine(alpha, beta, gain), ARRAYS[framework]
    z = np.linspace(-40.0, 40.0, 9)
    s_hat, s = (x.ravel() for x in np.meshgrid(z, z))
    with mpmath.workdps(60):
        p, p_hat = ([1 / (1 + mpmath.exp(-alpha * (mpmath.mpf(x) - beta))) for x in row] for row in (s, s_hat))
        exact = [
            float(-gain / alpha * (a * mpmath.log(b) + (1 - a) * mpmath.log(1 - b)))
            for a, b in zip(p, p_hat, strict=True)
        ]
    entropy, matching = sm.CrossEntropy(link), sm.MatchingLoss(link)
    value, slope = entropy.value_and_grad(array(s_hat), array(s))
    close(value, exact, 1e-13)
    close(slope, matching.grad(array(s_hat), array(s)), 0.0)
    own = entropy(array(s), array(s), reduction="none")
    close(value - own, matching(array(s_hat), array(s), reduction="none"), 1e-9, 1e-12 * gain / alpha)


def test_cross_entropy_cannot_tell_scores_of_equal_probability_apart():
    potential = sm.CompositeSigmoid(sm.Sinh())  # Q = cosh is even (C48)
    assert sm.CrossEntropy(potential)(-2.0, 2.0) == pytest.approx(sm.CrossEntropy(potential)(2.0, 2.0), rel=1e-15)
    assert sm.MatchingLoss(potential)(-2.0, 2.0) == pytest.approx(14.18, abs=0.005)


@pytest.mark.parametrize(("by", "low_to_high", "high_to_low"), [
    ("observed", 9.0, 117.0), ("predicted", 117.0, 9.0), ("both", 29.25, 29.25),
])  # fmt: skip
def test_reweighted_squares_cost_what_the_appendix_says(by, low_to_high, high_to_low, array):
    loss = sm.ReweightedSquare(by=by, kappa=0.5, low=-3.0, delta=0.5)
    s_hat, s = array([3.0, -3.0]), array([-3.0, 3.0])
    close(loss(s_hat, s, reduction="none"), [low_to_high, high_to_low])
    if not isinstance(s_hat, np.ndarray):
        close(gradient(lambda z: loss(z, s, reduction="sum"), s_hat), loss.grad(s_hat, s))


def test_weighting_by_the_prediction_is_neither_convex_nor_bounded_below():
    predicted = sm.ReweightedSquare(by="predicted", kappa=0.5, low=-3.0, delta=0.5)
    second = torch.func.jacrev(torch.func.jacrev(lambda z: predicted(z, 3.0)))
    for z in (0.8, 0.9):  # negative below 0.833
        close(second(torch.tensor(z, dtype=torch.float64)), 3 * z - 2 * 3 + 3.5, 1e-9)
    assert predicted(-3.5, 3.0) == 0.0
    assert predicted(-4.0, 3.0) == -12.25
    observed = sm.ReweightedSquare(by="observed", kappa=0.5, low=-3.0, delta=0.5)
    assert torch.func.jacrev(torch.func.jacrev(lambda z: observed(z, 3.0)))(torch.tensor(-4.0)) == 6.5
