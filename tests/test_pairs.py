"""Sums over all pairs: against 50 digits, against each other, in three libraries."""

from __future__ import annotations

import tracemalloc
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given

import selmatch as sm
from conftest import LINKS
from selmatch.lists import Groups
from selmatch.pairs import Pairs, plan, walk

LINEAR = [
    sm.Sinh(), sm.Identity(), sm.SignedPower(3.0), sm.Exp().affine(alpha=0.5, beta=1.0), sm.AntiExp().affine(beta=0.5),
    sm.Sinh().affine(alpha=2.0, beta=0.3, gain=0.5), sm.Polynomial((0.5, 1.0, 2.0, 0.25), origin=0.5), sm.Constant(2.0),
    0.1 * sm.Identity() + sm.Sinh() + sm.SignedPower(3.0).affine(alpha=0.5, beta=1.0) + sm.Exp().affine(alpha=0.25),
]  # fmt: skip
SORTED = [
    sm.Huber(c=1.0), sm.ReLU(), sm.SmeLU(c=2.0), sm.Step(), sm.Sign(), sm.Staircase((-1.0, 1.0), (1.0, 2.0), base=-0.5),
    sm.Identity().capped(-1.0, 2.0), sm.SignedPower(3.0).capped(-1.0, 1.5), sm.SignedPower(2.0),
    sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0)),
    sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0), smooth=True),
    sm.Piecewise((-1.0, 0.5, 2.0), (sm.Polynomial((0.0, 0.0, 0.0, 1.0), -1.0), sm.Polynomial((4.0, 0.5), 0.5))),
    sm.Huber(c=2.0).affine(alpha=2.0, beta=0.25, gain=1.5) + sm.Sign().affine(beta=1.0) + sm.Sinh().affine(alpha=0.5),
    sm.Polynomial((0.0, 1.0, 0.0, 0.0, 0.0, 0.1)),
]  # fmt: skip
BLOCKED = [sm.Sigmoid().affine(alpha=2.0, beta=0.5), sm.Sinh().capped(-1.5, 2.0), sm.Arctan(), sm.SignedPower(0.5)]
SIZES = np.array([3, 0, 7, 1, 24, 10, 2])


def scores(sizes: np.ndarray = SIZES, seed: int = 0, scale: float = 1.3) -> tuple[np.ndarray, np.ndarray, Groups]:
    s_hat, s = scale * np.random.default_rng(seed).normal(size=(2, sizes.sum()))
    return s_hat, s, Groups.from_sizes(sizes)


def one_list(count: int) -> Groups:
    return Groups.from_sizes(np.array([count]))


class Naive:
    """All pairs in a matrix."""

    def __init__(self, curve: sm.Curve, s_hat: np.ndarray, s: np.ndarray, groups: Groups, gap=None) -> None:
        different = ~np.eye(len(s), dtype=bool)
        self.inside = (groups.ids[:, None] == groups.ids) & different
        x, xh, u = (z[:, None] - z for z in (s, s_hat, s_hat - s))
        self.weights = self.inside * (1.0 if gap is None else gap(np.abs(x)))
        with np.errstate(all="ignore"):
            loss, move = self._kept(curve.remainder(x, u, xh)), self._kept(curve.difference(x, u, xh))
            newton, secant = self._kept(curve.slope(xh)), self._kept(curve.secant(x, u, xh))
        self.value = groups.sum(loss.sum(axis=1))
        self.gradient = move.sum(axis=1) - move.sum(axis=0)
        self.newton, self.secant = newton.sum(axis=1) + newton.sum(axis=0), secant.sum(axis=1) + secant.sum(axis=0)
        #: what errors are compared with
        self.moved = np.abs(move).sum(axis=1) + np.abs(move).sum(axis=0)
        even = [0.5 * (curve.primitive(z) + curve.primitive(-z)) - curve.primitive(0.0) for z in (x, xh)]
        odd = [0.5 * (curve(z) - curve(-z)) for z in (x, xh)]
        self.energy = groups.sum((self._kept(np.abs(even[0])) + self._kept(np.abs(even[1]))).sum(axis=1))
        self.force = 2.0 * (self._kept(np.abs(odd[0])) + self._kept(np.abs(odd[1]))).sum(axis=1)

    def _kept(self, x: np.ndarray) -> np.ndarray:
        return np.where(self.inside, x, 0.0) * self.weights


def assert_within(found, expected, tolerance) -> None:
    assert np.all(np.abs(found - expected) <= tolerance), np.max(np.abs(found - expected) - tolerance)


# ----------------------------------------------------------------------------------------------------------- which plan


@pytest.mark.parametrize("curve", LINEAR, ids=repr)
def test_links_of_exponentials_and_cubics_are_linear(curve):
    assert plan(curve) == "linear"


@pytest.mark.parametrize("curve", SORTED, ids=repr)
def test_piecewise_polynomial_links_are_sorted(curve):
    assert plan(curve) == "sorted"


@pytest.mark.parametrize("curve", BLOCKED, ids=repr)
def test_other_links_are_blocked(curve):
    assert plan(curve) == "blocked"


def test_weights_of_pairs_are_blocked():
    assert Pairs(sm.Identity(), gap=np.sqrt).plan == "blocked"


def test_a_users_own_curve_is_never_taken_for_one_of_ours():
    class Steeper(sm.Identity):
        def __call__(self, x):
            return 2.0 * x

    assert plan(Steeper()) == "blocked"
    assert plan(sm.Sum((Steeper(), sm.Sinh()))) == "blocked"


# ------------------------------------------------------------------------------------------------------------- accuracy


def exact_sums(link: str, s_hat: np.ndarray, s: np.ndarray) -> tuple[Any, list, list]:
    """Value, gradient and the sizes of its terms, with 50 digits."""
    n = len(s)
    observed, predicted = ([mpmath.mpf(float(z)) for z in scores] for scores in (s, s_hat))
    ups = [[mpmath.exp(z) for z in scores] for scores in (observed, predicted)]
    downs = [[1 / e for e in scores] for scores in ups]

    def both(k: int, scores: list, i: int, j: int) -> tuple[Any, Any]:
        """H and h of a difference."""
        if link == "sinh":
            grown, shrunk = ups[k][i] * downs[k][j], ups[k][j] * downs[k][i]
            return (grown + shrunk) / 2, (grown - shrunk) / 2
        x = scores[i] - scores[j]
        return (x**2 / 2, x) if link == "identity" else (x**4 / 4, x**3)

    value, gradient, sizes = mpmath.mpf(0), [mpmath.mpf(0)] * n, [mpmath.mpf(0)] * n
    for i in range(n):
        for j in range(i):
            (before, start), (after, stop) = both(0, observed, i, j), both(1, predicted, i, j)
            move = (predicted[i] - predicted[j]) - (observed[i] - observed[j])
            value += 2 * (after - before - move * start)
            term = 2 * (stop - start)
            gradient[i], gradient[j] = gradient[i] + term, gradient[j] - term
            sizes[i], sizes[j] = sizes[i] + abs(term), sizes[j] + abs(term)
    return value, gradient, sizes


CLOSED = {"sinh": sm.Sinh(), "identity": sm.Identity(), "cubic": sm.SignedPower(3.0)}


@pytest.mark.parametrize("link", CLOSED)
@pytest.mark.parametrize(
    ("count", "spread", "size", "shift"),
    [(2, 1.0, 1e-8, 0.0), (3, 300.0, 1e-3, 0.0), (20, 5.0, 1e-8, 0.0), (20, 300.0, 1e-8, 0.0), (20, 300.0, 30.0, 0.0),
     (20, 5.0, 1e-6, 1000.0), (40, 0.1, 3.0, 0.0), (200, 300.0, 1e-8, 0.0)],
)  # fmt: skip
def test_linear_sums_have_twelve_digits(link, count, spread, size, shift):
    rng = np.random.default_rng(count)
    s = rng.uniform(0.0, spread, count)
    s_hat = s + size * rng.normal(size=count) + shift
    with mpmath.workdps(50):
        value, gradient, sizes = exact_sums(link, s_hat, s)
        found, slopes = Pairs(CLOSED[link]).value_and_gradient(s_hat, s, one_list(count))
        assert abs(mpmath.mpf(float(found[0])) - value) <= 1e-12 * value
        errors = [abs(mpmath.mpf(float(g)) - e) / t for g, e, t in zip(slopes, gradient, sizes, strict=True)]
        assert max(errors) <= 1e-12


def moves_of_some(name: str, spread: float, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores of 12 items, of which several move together: exactly, so that all scores are multiples of 2^-42."""
    rng = np.random.default_rng(0)
    s = np.sort(rng.uniform(-0.5 * spread, 0.5 * spread, 12))
    u = np.zeros(12)
    if name == "two groups":
        u = rng.choice([0.0, size], 12)
    elif name == "one mover":
        u[-1] = size
    elif name == "all but one":
        u[1:] = size
    else:  # an outlier, and an item that moves with it
        s = 1e-3 * rng.normal(size=12)
        s[0], u = spread, size * rng.normal(size=12)
        u[1] = u[0]
    s, u = (np.round(z * 2.0**42) / 2.0**42 for z in (s, u))
    return s + u, s


@pytest.mark.parametrize("link", CLOSED)
@pytest.mark.parametrize("name", ["two groups", "one mover", "all but one", "outlier"])
@pytest.mark.parametrize(("spread", "size"), [(1e-3, 1e-8), (30.0, 1e-3), (300.0, 1e-8), (300.0, 20.0)])
def test_items_that_move_together_do_not_feel_each_other(link, name, spread, size):
    s_hat, s = moves_of_some(name, spread, size)
    with mpmath.workdps(200):  # differences of e^300 and of e^-300
        value, gradient, sizes = exact_sums(link, s_hat, s)
        found, slopes = Pairs(CLOSED[link]).value_and_gradient(s_hat, s, one_list(12))
        assert abs(mpmath.mpf(float(found[0])) - value) <= 1e-12 * value
        for g, e, t in zip(slopes, gradient, sizes, strict=True):
            assert abs(mpmath.mpf(float(g)) - e) <= 1e-12 * t


@pytest.mark.parametrize("curve", LINEAR[:6], ids=repr)
@pytest.mark.parametrize("size", [1e-8, 1.0])
def test_linear_sums_agree_with_blocked_ones(curve, size):
    rng = np.random.default_rng(1)
    s = rng.uniform(0.0, 300.0, 2000)
    s_hat, lists = s + size * rng.normal(size=2000), one_list(2000)
    value, gradient = Pairs(curve).value_and_gradient(s_hat, s, lists)
    expected, slopes, curvature = Pairs(curve, gap=np.ones_like).sums(s_hat, s, lists, ("value", "gradient", "secant"))
    assert value == pytest.approx(expected, rel=1e-12)
    # no term of a gradient exceeds the pair's curvature times the longest move: half of the sum of all terms or more
    assert_within(gradient, slopes, 1e-12 * np.maximum(np.abs(slopes), 0.1 * size * curvature))


def test_wide_lists_overflow_instead_of_being_wrong():
    s = np.array([0.0, 1450.0, 3000.0])
    value, gradient = Pairs(sm.Sinh()).value_and_gradient(s + np.array([0.0, 0.0, 1.0]), s, one_list(3))
    assert np.isinf(value[0])
    assert gradient[2] == np.inf
    assert gradient[0] == -np.inf
    assert np.isnan(gradient[1])  # which has no share of either end, and is not 0


def test_sorted_values_are_never_negative():
    rng = np.random.default_rng(4)
    for curve in (sm.Huber(), sm.ReLU(), sm.SmeLU()):
        for seed_size in (1e-12, 1e-9):
            s = rng.uniform(0.0, 1000.0, 60)
            groups = Groups(torch.zeros(60, dtype=torch.int64), 1)
            value = Pairs(curve).value(torch.tensor(s + seed_size * rng.normal(size=60)), torch.tensor(s), groups)
            assert value[0] >= 0.0


@pytest.mark.parametrize("curve", [sm.Huber(c=0.01), sm.Sign(), sm.Identity().capped(-0.01, 0.02)], ids=repr)
def test_secants_of_short_lists_are_exact_and_of_long_ones_not_too_small(curve):
    s_hat, s, lists = scores(np.array([5, 64, 0, 300]))
    pairs, naive = Pairs(curve), Naive(curve, s_hat, s, lists)
    secant = pairs.curvature(s_hat, s, lists, "secant")
    np.testing.assert_allclose(secant[:69], naive.secant[:69], rtol=1e-9, atol=1e-12)
    lowest, highest = lists.ends(s_hat - s)
    longest = np.maximum(highest - (s_hat - s), (s_hat - s) - lowest)
    assert np.all(secant >= 0.999 * np.abs(naive.gradient) / longest)
    assert pairs.plan == "sorted"


def test_the_number_of_threads_is_that_of_kernels(monkeypatch):
    s_hat, s, lists = scores(np.array([2**15 + 10, 2**15 + 5]))
    expected = Pairs(sm.Huber()).value(s_hat, s, lists)
    made = []
    monkeypatch.setattr(walk, "threads", lambda: 1)
    monkeypatch.setattr(walk, "ThreadPoolExecutor", lambda **options: made.append(options))
    np.testing.assert_array_equal(Pairs(sm.Huber()).value(s_hat, s, lists), expected)
    assert not made


@pytest.mark.parametrize("curve", SORTED, ids=repr)
@pytest.mark.parametrize("spread", [3.0, 300.0])
def test_sorted_sums_have_twelve_digits_of_their_terms(curve, spread):
    rng = np.random.default_rng(2)
    s = rng.uniform(0.0, spread, 400)
    s_hat, lists = s + rng.normal(size=400), one_list(400)
    naive = Naive(curve, s_hat, s, lists)
    value, gradient = Pairs(curve).value_and_gradient(s_hat, s, lists)
    assert_within(value, naive.value, 1e-12 * naive.energy)
    assert_within(gradient, naive.gradient, 1e-12 * naive.force)


def in_domain(curve: sm.Curve) -> float:
    """A scale at which differences of scores stay in the domain, or 0."""
    reach = min(-curve.domain.low, curve.domain.high)
    return min(1.3, reach / 10.0) if reach > 0.0 else 0.0


@pytest.mark.parametrize("curve", [c for c in [*LINKS, *SORTED] if in_domain(c)], ids=repr)
def test_sums_equal_those_of_a_matrix_of_pairs(curve):
    s_hat, s, lists = scores(scale=in_domain(curve))
    naive, pairs = Naive(curve, s_hat, s, lists), Pairs(curve)
    value, gradient = pairs.value_and_gradient(s_hat, s, lists)
    np.testing.assert_allclose(value, naive.value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(gradient, naive.gradient, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(pairs.curvature(s_hat, s, lists), naive.newton, rtol=1e-11, atol=1e-11)
    rough = 0.3 if pairs.plan == "sorted" else 1e-3  # five nodes, where the slope jumps
    np.testing.assert_allclose(pairs.curvature(s_hat, s, lists, "secant"), naive.secant, rtol=rough, atol=rough)
    np.testing.assert_array_equal(pairs.value(s_hat, s, lists), value)
    np.testing.assert_array_equal(pairs.gradient(s_hat, s, lists), gradient)


@pytest.mark.parametrize("curve", SORTED, ids=repr)
def test_labels_exactly_at_kinks_and_jumps_follow_the_curve(curve):
    rng = np.random.default_rng(3)
    s_hat, s = 0.25 * rng.integers(-8, 9, size=(2, SIZES.sum()))
    lists = Groups.from_sizes(SIZES)
    naive = Naive(curve, s_hat, s, lists)
    value, gradient = Pairs(curve).value_and_gradient(s_hat, s, lists)
    np.testing.assert_allclose(value, naive.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, naive.gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("curve", [sm.Sinh(), sm.Huber(), sm.Arctan()], ids=repr)
def test_pairs_are_weighted_by_their_gap(curve):
    s_hat, s, lists = scores()
    gap = lambda x: x / (1.0 + x)  # noqa: E731
    naive, pairs = Naive(curve, s_hat, s, lists, gap), Pairs(curve, gap=gap)
    np.testing.assert_allclose(pairs.value(s_hat, s, lists), naive.value, rtol=1e-12)
    np.testing.assert_allclose(pairs.gradient(s_hat, s, lists), naive.gradient, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pairs.curvature(s_hat, s, lists), naive.newton, rtol=1e-12)
    np.testing.assert_allclose(pairs.curvature(s_hat, s, lists, "secant"), naive.secant, rtol=1e-10)


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    curve=st.sampled_from([*LINEAR, *SORTED, *BLOCKED]),
    seed=st.integers(0, 10**6),
    shift=st.sampled_from([0.0, 2.0**10]),
)
def test_the_sum_is_a_divergence_that_feels_no_shift(sizes, curve, seed, shift):
    s_hat, s, lists = scores(np.array(sizes), seed)
    s_hat, s = (np.round(z * 2.0**20) / 2.0**20 for z in (s_hat, s))  # so that shifts are exact
    pairs = Pairs(curve)
    value, gradient = pairs.value_and_gradient(s_hat, s, lists)
    slack = 1e-12 * (1.0 + np.max(np.abs(value), initial=0.0))
    assert np.all(value >= -slack)
    assert_within(lists.sum(gradient), 0.0, 100.0 * slack)
    moved, slopes = pairs.value_and_gradient(s_hat + shift, s, lists)
    np.testing.assert_allclose(moved, value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-9, atol=1e-9)
    assert np.all(pairs.value(s + shift, s, lists) == 0.0)
    assert np.all(pairs.curvature(s_hat, s, lists) >= 0.0)


# ---------------------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("curve", [*LINEAR[:3], SORTED[0], SORTED[5], BLOCKED[0]], ids=repr)
def test_lists_without_pairs_have_no_loss(curve):
    pairs = Pairs(curve)
    for sizes in ([], [0], [1], [1, 0, 1]):
        lists, s_hat = Groups.from_sizes(np.array(sizes, dtype=int)), np.full(sum(sizes), 3.0)
        value, gradient = pairs.value_and_gradient(s_hat, 0.0 * s_hat, lists)
        assert value.tolist() == [0.0] * len(sizes)
        assert gradient.tolist() == pairs.curvature(s_hat, s_hat, lists).tolist() == [0.0] * sum(sizes)


def test_equal_scores_have_the_slope_at_zero_as_curvature():
    lists, s = one_list(5), np.zeros(5)
    for curve in (sm.Sinh(), sm.Identity(), sm.Huber(), sm.Tanh()):
        np.testing.assert_allclose(Pairs(curve).curvature(s + 4.0, s, lists), np.full(5, 8.0), rtol=1e-15)


def test_factors_of_lists_do_not_meet():
    s = np.array([0.0, 600.0, 0.0, 1.0, 0.0, 705.0, 0.0, 5000.0])
    s_hat = s + np.array([0.0, 1.0, 0.0, 1e-6, 0.0, 1e-12, 0.0, 1.0])
    value, gradient = Pairs(sm.Sinh()).value_and_gradient(s_hat, s, Groups.from_sizes(np.full(4, 2)))
    move = s_hat[5] - s[5]
    assert value[0] == pytest.approx(np.exp(600.0) * (np.e - 2.0), rel=1e-12)
    assert value[1] == pytest.approx(2.0 * float(sm.MatchingLoss(sm.Sinh())(s_hat[3], 1.0)), rel=1e-12)
    assert value[2] == pytest.approx(np.exp(705.0) * move**2 / 2.0, rel=1e-12)
    assert np.isinf(value[3])
    assert gradient[7] == np.inf
    assert gradient[6] == -np.inf


def test_a_value_may_be_finite_where_its_factor_is_not():
    s = np.array([0.0, 715.0])
    s_hat = s + np.array([0.0, 1e-6])
    move = s_hat[1] - s[1]
    value, gradient = Pairs(sm.Sinh()).value_and_gradient(s_hat, s, one_list(2))
    assert value[0] == pytest.approx(float(mpmath.exp(715) * (mpmath.expm1(move) - move)), rel=1e-9)
    assert gradient[1] == pytest.approx(float(mpmath.exp(715) * mpmath.expm1(move)), rel=1e-9)


def test_single_precision_in_single_precision_out():
    s_hat, s, lists = scores()
    for curve in (sm.Sinh(), sm.Huber(), sm.Sigmoid()):
        value, gradient = Pairs(curve).value_and_gradient(s_hat.astype(np.float32), s.astype(np.float32), lists)
        assert value.dtype == gradient.dtype == np.float32
        np.testing.assert_allclose(value, Pairs(curve).value(s_hat, s, lists), rtol=1e-5)


@pytest.mark.parametrize("curve", [LINEAR[-1], sm.SignedPower(3.0), SORTED[9], BLOCKED[0]], ids=repr)
def test_a_list_alone_is_the_same_list_among_others(curve, monkeypatch):
    monkeypatch.setattr(walk, "LONG", 300)
    monkeypatch.setattr(walk, "PIECE", 128)
    sizes = np.array([5, 40, 0, 400, 3, 120, 127, 500, 1, 2])
    s_hat, s, lists = scores(sizes)
    pairs = Pairs(curve)
    value, gradient = pairs.value_and_gradient(s_hat, s, lists)
    curvature = pairs.curvature(s_hat, s, lists)
    for i, size in enumerate(sizes):
        own = slice(int(lists.starts[i]), int(lists.starts[i + 1]))
        alone = pairs.value_and_gradient(s_hat[own], s[own], one_list(size))
        assert alone[0][0] == value[i]
        np.testing.assert_array_equal(alone[1], gradient[own])
        np.testing.assert_array_equal(pairs.curvature(s_hat[own], s[own], one_list(size)), curvature[own])


@pytest.mark.parametrize("curve", [sm.Identity() + sm.Sinh().affine(alpha=0.1), *SORTED], ids=repr)
@pytest.mark.parametrize("scale", [1.3, 50.0])
def test_long_lists_have_the_sums_of_short_ones(curve, scale, monkeypatch):
    s_hat, s, lists = scores(np.array([300]), scale=scale)
    short = Pairs(curve).value_and_gradient(s_hat, s, lists)
    monkeypatch.setattr(walk, "LONG", 200)
    monkeypatch.setattr(walk, "PIECE", 128)
    long = Pairs(curve).value_and_gradient(s_hat, s, lists)
    naive = Naive(curve, s_hat, s, lists)
    assert_within(long[0], naive.value, 1e-12 * naive.energy)
    assert_within(long[1], naive.gradient, 1e-12 * naive.force)
    assert_within(long[0], short[0], 1e-12 * naive.energy)
    assert_within(long[1], short[1], 1e-12 * naive.force)


@pytest.mark.parametrize("curve", [sm.Sinh(), sm.Huber(), sm.Arctan()], ids=repr)
def test_memory_is_linear(curve):
    count = 2**17 if plan(curve) != "blocked" else 2000
    s_hat, s, lists = scores(np.array([count]))
    Pairs(curve).value(s_hat[:100], s[:100], one_list(100))
    tracemalloc.start()
    Pairs(curve).value_and_gradient(s_hat, s, lists)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * 8 * count + 2**23  # a matrix of the pairs would take 32 MB and more


def test_links_of_one_sign_are_refused():
    for curve in (sm.Log(), sm.Logit(), sm.Power(2.0)):
        with pytest.raises(ValueError, match="differences of both signs"):
            Pairs(curve)


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="curve must be a curve"):
        Pairs(3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="gap must be a function"):
        Pairs(sm.Identity(), gap=2.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind must be 'newton' or 'secant'"):
        Pairs(sm.Identity()).curvature(np.zeros(2), np.zeros(2), one_list(2), kind="gauss")


# ------------------------------------------------------------------------------------------------------------ libraries


def mixed_up(seed: int = 5) -> tuple[list[np.ndarray], np.ndarray]:
    """Lists whose items stand anywhere, with masked items that hold garbage; and where the items went."""
    rng = np.random.default_rng(seed)
    s_hat, s, lists = scores()
    count = len(s)
    order = rng.permutation(count + 4)
    columns = [(s_hat, 1e30), (s, -1e30), (lists.ids, 2), (np.ones(count, dtype=bool), False)]
    arrays = [np.concatenate([items, np.full(4, extra, dtype=items.dtype)])[order] for items, extra in columns]
    return arrays, np.argsort(order)[:count]


LIBRARY_CURVES = [sm.Identity() + sm.Sinh(), sm.Huber() + sm.Sign().affine(beta=1.0), BLOCKED[0]]


@pytest.mark.parametrize("curve", [*LIBRARY_CURVES, LINEAR[-1], SORTED[9], SORTED[12]], ids=repr)
def test_pytorch_has_the_sums_of_numpy(curve):
    s_hat, s, lists = scores()
    pairs = Pairs(curve)
    value, gradient = pairs.value_and_gradient(s_hat, s, lists)
    arrays, places = mixed_up()
    a, b, ids, present = map(torch.tensor, arrays)
    groups = Groups(ids, len(SIZES), present)
    own, slopes = pairs.value_and_gradient(a, b, groups)
    np.testing.assert_allclose(own.numpy(), value, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(slopes.numpy()[places], gradient, rtol=1e-12, atol=1e-11)
    assert torch.all(slopes[~present] == 0.0)
    weights = torch.arange(1.0, len(SIZES) + 1)
    a.requires_grad_()
    (pairs.value(a, b, groups) * weights).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), (slopes * weights[ids]).numpy())  # type: ignore[union-attr]
    functional = torch.func.grad(lambda z: (pairs.value(z, b, groups) * weights).sum())(a.detach())
    np.testing.assert_array_equal(functional.numpy(), a.grad.numpy())  # type: ignore[union-attr]


@pytest.mark.parametrize("curve", LIBRARY_CURVES, ids=repr)
def test_jax_has_the_sums_of_numpy_inside_jit(curve):
    s_hat, s, lists = scores()
    pairs = Pairs(curve)
    value, gradient = pairs.value_and_gradient(s_hat, s, lists)
    curvature = pairs.curvature(s_hat, s, lists)

    @jax.jit
    def everything(a, b, ids, present):
        groups = Groups(ids, len(SIZES), present)
        weights = jnp.arange(1.0, len(SIZES) + 1)
        slopes = jax.grad(lambda z: (pairs.value(z, b, groups) * weights).sum())(a)
        return *pairs.value_and_gradient(a, b, groups), pairs.curvature(a, b, groups), slopes

    arrays, places = mixed_up()
    own, slopes, bends, weighted = map(np.asarray, everything(*map(jnp.asarray, arrays)))
    np.testing.assert_allclose(own, value, rtol=1e-12, atol=1e-11)
    for found, expected in ((slopes, gradient), (bends, curvature), (weighted, gradient * (1.0 + lists.ids))):
        np.testing.assert_allclose(found[places], expected, rtol=1e-12, atol=1e-11)
        assert np.all(found[~arrays[3]] == 0.0)


@pytest.mark.parametrize("curve", [sm.Sinh(), sm.Huber(), sm.Sigmoid()], ids=repr)
def test_second_derivatives(curve):
    s_hat, s, lists = scores(np.array([4, 0, 3]), seed=7)
    pairs = Pairs(curve)
    groups = Groups(torch.tensor(lists.ids), 3)
    a, b = torch.tensor(s_hat, requires_grad=True), torch.tensor(s)
    assert torch.autograd.gradcheck(lambda z: pairs.value(z, b, groups), (a,))
    assert torch.autograd.gradgradcheck(lambda z: pairs.value(z, b, groups), (a,))
    hessian = jax.jit(
        jax.hessian(lambda z, ids: pairs.value(z, jnp.asarray(s), Groups(ids, 3)).sum()),
    )(jnp.asarray(s_hat), jnp.asarray(lists.ids))
    np.testing.assert_allclose(np.diag(hessian), pairs.curvature(s_hat, s, lists), rtol=1e-12)
    np.testing.assert_allclose(np.sum(hessian, axis=1), 0.0, atol=1e-11)


@pytest.mark.parametrize("curve", [sm.Identity() + sm.Sinh(), sm.Sigmoid()], ids=repr)
def test_parameters_of_the_link_can_be_trained(curve):
    s_hat, s, lists = scores(np.array([6, 3]))

    def value(alpha, convert, groups):
        return Pairs(curve.affine(alpha=alpha, beta=0.2 * alpha)).value(convert(s_hat), convert(s), groups).sum()

    step = 1e-5
    expected = (value(1.3 + step, np.asarray, lists) - value(1.3 - step, np.asarray, lists)) / (2.0 * step)
    alpha = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    value(alpha, torch.tensor, Groups(torch.tensor(lists.ids), 2)).backward()
    assert float(alpha.grad) == pytest.approx(expected, rel=1e-7)  # type: ignore[arg-type]
    slope = jax.jit(jax.grad(lambda alpha, ids: value(alpha, jnp.asarray, Groups(ids, 2))))(1.3, jnp.asarray(lists.ids))
    assert float(slope) == pytest.approx(expected, rel=1e-7)
