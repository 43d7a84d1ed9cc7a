"""Losses and gradients are right wherever they are representable, and infinite beyond: eager, compiled and jitted."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from exact_ranges import DTYPES, Rows, every_row, moves, rows_of_curve, rows_of_softmax, score_pool

import selmatch as sm
import selmatch.jax
import selmatch.torch
from conftest import LINKS

PAPER = sm.CompositeSoftmax(sm.Exp(), gamma=0.1)
LARGE_GAPS = [PAPER, sm.CompositeSoftmax(sm.Exp(), gamma=0.3), sm.CompositeSoftmax(sm.Sinh(), gamma=0.7, anchor=1.3)]


def by_numpy(rows: Rows):
    with np.errstate(all="ignore"):
        return rows.loss.value_and_grad(rows.s_hat, rows.s)


def by_torch(function, rows: Rows):
    s_hat, s = torch.tensor(rows.s_hat, requires_grad=True), torch.tensor(rows.s)
    value = function(s_hat, s)
    value.backward(torch.ones_like(value))
    return value.detach().numpy(), s_hat.grad.numpy()


def by_jax(function, rows: Rows, transform=jax.jit):
    def both(s_hat, s):
        value, pull = jax.vjp(lambda z: function(z, s), s_hat)
        return value, pull(jnp.ones_like(value))[0]

    return transform(both)(jnp.asarray(rows.s_hat), jnp.asarray(rows.s))


def core_of(rows: Rows):
    return functools.partial(rows.loss, reduction="none")


def in_jax(rows: Rows):
    return lambda s_hat, s: sm.jax.matching_loss(s_hat, s, rows.loss)


def require_no_faults(rows: Rows, results) -> None:
    faults = list(rows.faults(*results))
    assert not faults, f"{rows.loss!r}: {len(faults)} faults, the first: {faults[0]}"


@functools.cache
def rows_of(potential, dtype, count=12, seed=3) -> Rows:
    if isinstance(potential, sm.CompositeSoftmax):
        return rows_of_softmax(potential, dtype, count, seed)
    return rows_of_curve(potential, dtype, count, seed)


# ------------------------------------------------------------------------------------------------------- every loss


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_loss_is_right_wherever_it_is_representable(dtype):
    for _, make in every_row(dtype, 6 if dtype is np.float32 else 4):
        rows = make()
        require_no_faults(rows, by_numpy(rows))
        require_no_faults(rows, by_torch(core_of(rows), rows))
        require_no_faults(rows, by_torch(sm.torch.MatchingLoss(rows.loss, reduction="none"), rows))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_are_right_when_they_are_compiled(dtype, compiled):
    for _, make in [*every_row(dtype, 12)][:: 8 if dtype is np.float32 else 16]:
        rows = make()
        require_no_faults(rows, by_numpy(rows))
        module = sm.torch.MatchingLoss(rows.loss, reduction="none")
        require_no_faults(rows, by_torch(compiled(module), rows))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_are_right_when_they_are_jitted(dtype):
    for _, make in [*every_row(dtype, 12)][:: 1 if dtype is np.float32 else 4]:
        rows = make()
        require_no_faults(rows, by_jax(in_jax(rows), rows))


# ------------------------------------------------------------------------------------- a few losses, by every compiler


@pytest.mark.parametrize("potential", [sm.Sinh(), sm.Logit()], ids=repr)
def test_jitted_losses_are_right_wherever_they_are_representable(potential):
    rows = rows_of(potential, np.float32)
    require_no_faults(rows, by_jax(in_jax(rows), rows))


def test_jax_itself_differentiates_losses_as_well():
    rows = rows_of(LARGE_GAPS[1], np.float64)
    require_no_faults(rows, by_jax(core_of(rows), rows))


@pytest.mark.parametrize("potential", [sm.Sinh(), pytest.param(PAPER, marks=pytest.mark.slow)], ids=repr)
def test_compiled_losses_are_right_wherever_they_are_representable(potential, compiled):
    rows = rows_of(potential, np.float32)
    require_no_faults(rows, by_torch(compiled(sm.torch.MatchingLoss(rows.loss, reduction="none")), rows))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("potential", [sm.Sinh(), sm.Logit(), *LARGE_GAPS], ids=repr)
def test_inductor_gives_what_is_right_wherever_it_is_representable(potential, dtype, compiled):
    rows = rows_of(potential, dtype)
    module = sm.torch.MatchingLoss(rows.loss, reduction="none")
    require_no_faults(rows, by_torch(compiled(module, backend="inductor"), rows))


def test_jit_keeps_what_is_right_where_gaps_of_log_scores_are_huge():
    """Scores up to 22 with gamma 0.3: log-scores of 1e10, whose rounding is more than e can bear."""
    rng = np.random.default_rng(1)
    s_hat, s = rng.uniform(-5.0, 22.0, (2, 200, 3)).astype(np.float32)
    s_hat[0], s[0] = (20.0, 3.0, 1.0), (2.0, 20.0, -1.0)
    loss = sm.MatchingLoss(LARGE_GAPS[1])
    value, slope = loss.value_and_grad(s_hat.astype(float), s.astype(float))
    with jax.enable_x64(False):
        jitted = jax.jit(lambda z, s: sm.jax.matching_loss(z, s, loss))
        losses = np.asarray(jitted(jnp.asarray(s_hat), jnp.asarray(s)))
        slopes = np.asarray(jax.jit(jax.grad(lambda z, s: jitted(z, s).sum()))(jnp.asarray(s_hat), jnp.asarray(s)))
    np.testing.assert_allclose(losses, value, rtol=1e-4)
    assert np.all(np.abs(slopes - slope) <= 1e-4 * np.abs(slope).max(axis=-1, keepdims=True))


# --------------------------------------------------------------------------------------- transformations, masks, halves

#: predictions and observations at which derivatives of formulas went wrong, and the sign of an infinite gradient
EDGES = {
    "ends": [(sm.Log(), 0.0, 2.0), (sm.Logit(), 1.0, 0.25), (sm.Arctanh(), -1.0, 0.5), (sm.NegLog1m(), 1.0, -3.0)],
    "far": [(sm.Sinh(), -60.0, -61.5), (sm.Sinh(), -85.0, 3.0), (sm.Exp(), 96.8, 88.0), (sm.AntiExp(), -228.0, -221.0)],
}


@pytest.mark.parametrize("where", EDGES)
def test_functional_transformations_give_the_gradient_at_the_edges(where):
    for curve, s_hat, s in EDGES[where]:
        loss = sm.MatchingLoss(curve)
        a, b = np.full(2, s_hat, dtype=np.float32), np.full(2, s, dtype=np.float32)
        expected = loss.grad(a, b)
        assert not np.isnan(expected).any()
        mapped = torch.func.vmap(torch.func.grad(loss))(torch.tensor(a), torch.tensor(b))
        np.testing.assert_allclose(mapped, expected, rtol=1e-5)
        np.testing.assert_allclose(torch.func.jacrev(loss)(torch.tensor(a[0]), b[0].item()), expected[0], rtol=1e-5)
    curve, s_hat, s = EDGES[where][-1]
    loss = sm.MatchingLoss(curve)
    a, b = jnp.full(2, s_hat, dtype=jnp.float32), jnp.full(2, s, dtype=jnp.float32)
    expected = loss.grad(np.asarray(a), np.asarray(b))
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(a, b), expected, rtol=1e-5)


@pytest.mark.parametrize("where", EDGES)
def test_derivatives_of_the_formula_are_right_at_the_edges(where, parts_of_torch):
    """Trained numbers and forward mode differentiate the formula itself."""
    for curve, s_hat, s in EDGES[where]:
        if abs(s_hat) > 90.0:
            continue  # what overflows has no finite formula to differentiate
        loss = sm.MatchingLoss(curve)
        a, b = torch.tensor(s_hat, dtype=torch.float32), torch.tensor(s, dtype=torch.float32)
        _, slope = torch.func.jvp(lambda z, b=b, loss=loss: loss(z, b), (a,), (torch.ones(()),))
        np.testing.assert_allclose(slope, loss.grad(np.float32(s_hat), np.float32(s)), rtol=1e-5)


def test_what_is_masked_or_has_no_weight_leaves_no_trace():
    mask = np.array([True, False, False, False, True])
    for curve, good in ((sm.Sinh(), 1.5), (sm.Log(), 2.0), (sm.Exp(), -1.0)):
        loss = sm.MatchingLoss(curve)
        s_hat = np.array([good, math.nan, math.inf, 1e300, 0.5 + good])
        s = np.array([0.75 * good, -math.inf, math.nan, -1e300, good])
        expected = loss.grad(s_hat, s, where=mask)
        assert np.isfinite(expected).all()
        tensor = torch.tensor(s_hat, requires_grad=True)
        loss(tensor, torch.tensor(s), where=torch.tensor(mask)).backward()
        np.testing.assert_allclose(tensor.grad, expected / 2, rtol=1e-12)
    loss, s_hat, s = sm.MatchingLoss(sm.Sinh()), np.array([1.5, math.nan, -math.inf]), np.array([1.0, math.nan, 1e300])
    present = np.array([True, False, False])
    slope = jax.grad(lambda z: sm.jax.matching_loss(z, s, loss, where=present, reduction="sum"))(jnp.asarray(s_hat))
    np.testing.assert_allclose(slope, loss.grad(s_hat, s, where=present), rtol=1e-12)
    ends = torch.zeros(2, requires_grad=True)
    sm.MatchingLoss(sm.Log())(ends, torch.ones(2), weights=torch.tensor([0.0, 1.0])).backward()
    assert ends.grad.tolist() == [0.0, -math.inf]


def test_masked_classes_leave_no_trace():
    rng = np.random.default_rng(2)
    for softmax in (*LARGE_GAPS, sm.CompositeSoftmax(sm.Log(), gamma=0.3)):
        loss = sm.MatchingLoss(softmax)
        s_hat, s = rng.uniform(0.5, 3.0, (2, 4, 5))
        mask = np.ones((4, 5), dtype=bool)
        mask[:, 3] = mask[1] = False
        s_hat[~mask], s[~mask] = math.nan, math.inf
        expected = loss.grad(s_hat, s, where=mask)
        assert np.isfinite(expected).all()
        assert (expected[~mask] == 0.0).all()
        tensor = torch.tensor(s_hat, requires_grad=True)
        loss(tensor, torch.tensor(s), where=torch.tensor(mask), reduction="sum").backward()
        np.testing.assert_allclose(tensor.grad, expected, rtol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_single_precision_rounded(dtype):
    largest = torch.finfo(dtype).max
    for curve in (sm.Exp(), sm.Sinh(), sm.Identity(), sm.Log(), sm.SignedPower(3.0)):
        loss = sm.MatchingLoss(curve)
        z = score_pool(curve, np.float32, np.random.default_rng(4), 20)
        z = torch.tensor(z[np.abs(z) < min(largest, 1e30)]).to(dtype)
        z = z[torch.as_tensor(curve.holds(z.float(), interior=True))]
        s_hat, s = z.clone().requires_grad_(), z.flip(0)
        value = loss(s_hat, s, reduction="none")
        value.backward(torch.ones_like(value))
        wide = s_hat.detach().float().numpy(), s.float().numpy()
        with np.errstate(all="ignore"):
            expected, slope = loss(*wide, reduction="none"), loss.grad(*wide)
        assert value.dtype == s_hat.grad.dtype == dtype
        rounding = 2.0 * torch.finfo(dtype).eps
        for result, exact in ((value.detach(), expected), (s_hat.grad, slope)):
            exact = torch.tensor(exact).to(dtype)
            assert torch.equal(result.isinf(), exact.isinf())
            torch.testing.assert_close(result, exact, rtol=rounding, atol=0.0 if dtype is torch.bfloat16 else 1e-7)


def test_single_precision_alone_is_right_in_jax():
    with jax.enable_x64(False):
        rows = rows_of(PAPER, np.float32)
        require_no_faults(rows, by_jax(in_jax(rows), rows))


# ------------------------------------------------------------------------------------------------------------ targets


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_of_targets_are_never_nan_and_their_gradient_is_the_closed_form(dtype):
    for seed, curve in enumerate(LINKS):
        rng = np.random.default_rng(seed)
        loss = sm.MatchingLoss(curve)
        z = score_pool(curve, dtype, rng, 8)
        with np.errstate(all="ignore"):
            y = curve(z[curve.holds(z, interior=True)]).astype(dtype)
        ends = [end for end in (curve.range.low, curve.range.high) if math.isfinite(end)]
        y = np.concatenate([rng.choice(y[np.isfinite(y)], 20), np.repeat(np.array(ends, dtype=dtype), 5)])
        s_hat = rng.choice(z, len(y))
        value, slope = loss.fenchel_young(s_hat, y, reduction="none"), loss.fenchel_young_grad(s_hat, y)
        assert (value >= 0.0).all(), curve
        assert not np.isnan(slope).any(), curve
        tensor = torch.tensor(s_hat, requires_grad=True)
        whole = loss.fenchel_young(tensor, torch.tensor(y), reduction="none")
        whole.backward(torch.ones_like(whole))
        exact = loss.fenchel_young_grad(torch.tensor(s_hat), torch.tensor(y))
        assert not whole.isnan().any(), curve
        torch.testing.assert_close(tensor.grad, exact, rtol=0.0, atol=0.0)


def test_moves_differ_in_the_last_digits_too():
    z = np.full(1000, 3.0, dtype=np.float32)
    steps = np.abs(moves(z, np.random.default_rng(0)) - z)
    assert steps.min() < 1e-6
    assert steps.max() > 1.0


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_rows_of_weight_0_have_gradient_0_wherever_their_scores_are(library):
    """At an end with an infinite gradient, far beyond overflow, and outside of the domain."""
    for curve, s, s_hat in (
        (sm.Log(), 1.0, 0.0),
        (sm.Log(), 1.0, -1.0),
        (sm.Exp(), 0.0, 1e4),
        (sm.Exp(), math.nan, 0.0),
    ):
        loss = sm.MatchingLoss(curve)
        observed, predicted = np.array([s, 1.5]), np.array([s_hat, 2.0])
        exact = loss.grad(predicted[1:], observed[1:], reduction="sum")
        if library == "jax":
            total = functools.partial(loss, s=jnp.asarray(observed), weights=jnp.array([0.0, 1.0]))
            gradient = jax.grad(total)(jnp.asarray(predicted))
        else:
            z = torch.tensor(predicted, requires_grad=True)
            loss(z, torch.tensor(observed), weights=torch.tensor([0.0, 1.0])).backward()
            gradient = z.grad
        np.testing.assert_allclose(np.asarray(gradient), [0.0, exact[0]], rtol=1e-6)
