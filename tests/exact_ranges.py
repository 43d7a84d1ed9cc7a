"""Scores from one end of the range of numbers to the other, and what losses and gradients must be there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp, mpf
from references import exact_difference, exact_remainder, exact_value, formulas, kinks

import selmatch as sm
from conftest import LINKS, SOFTMAXES
from selmatch.algebra import Affine

DTYPES: tuple[Any, ...] = (np.float32, np.float64)

RANDOM_SOFTMAXES = [
    *SOFTMAXES,
    sm.CompositeSoftmax(sm.Exp(), gamma=0.1), sm.CompositeSoftmax(sm.Exp(), gamma=0.3),
    sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0), gamma=0.3, rho=(0.3, 1.0, 2.0)),
    sm.CompositeSoftmax(sm.Sinh(), gamma=0.7, anchor=1.3), sm.CompositeSoftmax(sm.AntiExp(), gamma=0.3),
    sm.CompositeSoftmax(sm.SignedPower(3.0), gamma=0.3), sm.CompositeSoftmax(sm.Log(), gamma=0.3),
    sm.CompositeSoftmax(sm.Logit(), gamma=0.1), sm.CompositeSoftmax(gamma=0.3, rho=(0.1, 0.2, 0.3)),
    sm.CompositeSoftmax(sm.ReLU(), gamma=0.3), sm.CompositeSoftmax(sm.Arctan(), gamma=0.03),
    sm.CompositeSoftmax(sm.Arcsinh(), gamma=3.3),
]  # fmt: skip


def random_affine(curve: sm.Curve, seed: int) -> sm.Curve:
    """A link with other numbers; alpha is a power of 2, so that alpha z is exact."""
    rng = np.random.default_rng(seed)
    return curve.affine(alpha=2.0 ** rng.integers(-6, 7), gain=float(np.exp(rng.uniform(-3.0, 3.0))))


@dataclass(frozen=True, eq=False)
class Rows:
    """Scores of one loss in one dtype; the exact losses and gradients, and how large an error may be."""

    loss: sm.MatchingLoss
    s_hat: np.ndarray
    s: np.ndarray
    value: list[Any]
    gradient: list[Any]
    #: relative errors, and absolute ones, of losses and of gradients
    close: tuple[np.ndarray, np.ndarray]
    near: tuple[np.ndarray, np.ndarray]
    #: whether all that a loss is made of is representable
    ordinary: np.ndarray

    def faults(self, value: Any, gradient: Any) -> Iterator[str]:
        """What is wrong with results; empty if nothing is."""
        repeated = np.repeat(self.ordinary, len(self.gradient) // len(self.value))
        results = (
            ("loss", value, self.value, self.close[0], self.near[0], self.ordinary),
            ("gradient", gradient, self.gradient, self.close[1], self.near[1], repeated),
        )
        per_row = {"loss": 1, "gradient": len(self.gradient) // len(self.value)}
        for name, result, exact, relative, absolute, ordinary in results:
            result = np.asarray(result)
            assert result.dtype == self.s.dtype
            for i, number in enumerate(result.ravel().tolist()):
                limits = float(relative.ravel()[i]), float(absolute.ravel()[i])
                fault = _fault(number, exact[i], *limits, np.finfo(self.s.dtype), bool(ordinary[i]))
                if fault or (name == "loss" and number < 0.0):
                    row = i // per_row[name]
                    where = f"s_hat={self.s_hat[row]!r}, s={self.s[row]!r}"
                    yield f"{name} at {where}: {number!r}, exactly {mpmath.nstr(exact[i], 9)}: {fault or 'negative'}"


def _fault(number: float, exact: Any, relative: float, absolute: float, info: Any, ordinary: bool) -> str:
    largest, smallest = float(info.max), float(info.smallest_normal)
    if math.isnan(number):
        return "NaN"
    if not abs(exact) <= largest * (1.0 + relative):
        return "" if math.isinf(number) and (number > 0) == (exact > 0) else "not infinite"
    if math.isinf(number):  # terms of the sum may be larger than it
        too_early = ordinary and abs(exact) < largest / 64.0
        return "infinite" if too_early or number * exact < 0 else ""
    if ordinary and abs(mpf(number) - exact) > relative * abs(exact) + absolute + smallest:
        return "off"
    return ""


# ---------------------------------------------------------------------------------------------------- single scores


def _reach(curve: sm.Curve, sign: float, dtype: Any) -> float:
    """How far a curve and its primitive are finite, roughly; at most an eighth of the largest number."""
    sizes = np.geomspace(0.1, float(np.finfo(dtype).max) / 8.0, 4000)
    with np.errstate(all="ignore"):
        z = (sign * sizes).astype(dtype)
        finite = np.isfinite(curve(z)) & np.isfinite(curve.primitive(z))
    return float(sizes[finite][-1])


def score_pool(curve: sm.Curve, dtype: Any, rng: np.random.Generator, count: int) -> np.ndarray:
    """Scores of all magnitudes about 0 and about the ends, close to where the curve overflows and beyond, and kinks."""
    scaling = curve.scaling if isinstance(curve, sm.CompositeSigmoid) else curve
    low, high = float(curve.domain.low), float(curve.domain.high)
    found = [np.zeros(1), np.asarray(kinks(curve), dtype=float)]
    for sign, end in ((-1.0, low), (1.0, high)):
        if math.isinf(end):
            reach = _reach(scaling, sign, dtype)
            smallest = 1e-12 if reach < 1e5 else 1e-30
            found += [sign * np.exp(rng.uniform(math.log(smallest), math.log(reach), count))]
            found += [sign * reach * rng.uniform(0.0, 1.0, count), sign * reach * rng.uniform(0.97, 1.001, count // 2)]
            found += [sign * reach * np.array([1.1, 2.5])]
        else:
            bits = 20 if dtype is np.float32 else 48
            found += [end - sign * min(high - low, 4.0) * np.exp2(-rng.uniform(0.1, bits, count)), np.full(2, end)]
    z = np.concatenate(found)
    with np.errstate(over="ignore"):
        z = z[np.maximum(1.0, _steepness(curve)) * np.abs(z) < float(np.finfo(dtype).max) / 8.0].astype(dtype)
    if "Tan()" in repr(curve):  # infinite at its ends, where no number is
        return z[curve.holds(z) & (z != dtype(low)) & (z != dtype(high))]
    return z[curve.holds(z)]


def _steepness(curve: sm.Curve) -> float:
    """Alpha, of an affine curve of an affine curve too."""
    return float(curve.alpha) * _steepness(curve.curve) if isinstance(curve, Affine) else 1.0


def moves(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores that differ in the first to the last digits."""
    bits = 22 if z.dtype == np.float32 else 50
    sizes = np.exp2(-rng.uniform(0.0, bits, z.shape)) * rng.choice([-1.0, 1.0], z.shape)
    return (z * (1.0 + sizes)).astype(z.dtype)


def rows_of_curve(curve: sm.Curve, dtype: Any, count: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    z = score_pool(curve, dtype, rng, count)
    s = rng.choice(z[curve.holds(z, interior=True)], count)
    s_hat = rng.choice(z, count)
    close = slice(0, count // 3)
    s_hat[close] = moves(s[close], rng)
    s_hat[:2] = s[:2]
    ends = z[(z == curve.domain.low) | (z == curve.domain.high)][:2]
    s_hat[count - len(ends) :] = ends
    s_hat = np.where(curve.holds(s_hat), s_hat, s)
    largest = float(np.finfo(dtype).max)
    value, gradient, ordinary = [], [], []
    for a, b in zip(s.tolist(), s_hat.tolist(), strict=True):
        value.append(exact_remainder(curve, a, b))
        gradient.append(_exact_gradient(curve, a, b))
        ordinary.append(all(_within(curve, x, largest) for x in (a, b)))
    tolerance = _tolerance(curve, dtype)
    if isinstance(curve, sm.CompositeSigmoid):
        pairs = zip(s.tolist(), s_hat.tolist(), strict=True)
        tolerance = tolerance * np.array([_size_of_logits(curve, *pair) for pair in pairs])
    if "Inverse(" in repr(curve):  # the error of e^x at a rounded root x
        roots = np.maximum(np.abs(curve(s.astype(float))), np.abs(curve(s_hat.astype(float))))
        tolerance = tolerance * (1.0 + roots)
    tolerance = np.broadcast_to(tolerance, s.shape)
    absolute = np.zeros(count)
    if isinstance(curve, sm.CompositeSigmoid):  # relative to both terms
        pairs = zip(s.tolist(), s_hat.tolist(), strict=True)
        sizes = [abs(exact_value(curve, x)) + abs(exact_value(curve, xh)) for x, xh in pairs]
        absolute = _product([float(min(t, mpf(largest))) for t in sizes], tolerance)
    loss = sm.MatchingLoss(curve)
    both = (tolerance, tolerance)
    return Rows(loss, s_hat, s, value, gradient, both, (np.zeros(count), absolute), np.array(ordinary))


def _exact_gradient(curve: sm.Curve, s: float, s_hat: float) -> Any:
    domain = curve.domain
    if (s_hat == domain.low and domain.open_low) or (s_hat == domain.high and domain.open_high):
        return mpf("inf") if s_hat > s else mpf("-inf")
    return exact_difference(curve, s, s_hat)


def _within(curve: sm.Curve, x: float, largest: float) -> bool:
    """Whether the link is representable, and what it is made of."""
    curve = curve.scaling if isinstance(curve, sm.CompositeSigmoid) else curve
    g, G = formulas(curve)
    with mp.workdps(30):
        try:
            return all(abs(f(mpf(x))) <= largest / 8.0 for f in (g, G))
        except (ValueError, ZeroDivisionError):  # an end
            return True


def _product(sizes: Any, relative: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.minimum(np.asarray(sizes) * relative, np.finfo(float).max)


def _tolerance(potential: Any, dtype: Any) -> float:
    if dtype is np.float64:
        return 1e-13
    return 1e-5 if "Tan()" in repr(potential) or "Power" in repr(potential) else 3e-6


def _size_of_logits(curve: sm.CompositeSigmoid, s: float, s_hat: float) -> float:
    Q = formulas(curve.scaling)[1]
    with mp.workdps(30):
        largest = max(abs(Q(mpf(float(x))) + curve.offset) / curve.gamma for x in (s, s_hat))
    return float(min(max(largest / 10, mpf(1)), mpf(10) ** 300))


# ------------------------------------------------------------------------------------------------------- many classes


def rows_of_softmax(softmax: sm.CompositeSoftmax, dtype: Any, count: int, seed: int = 0) -> Rows:
    """In turn anywhere, close to the observed scores, and all scores about equal."""
    rng = np.random.default_rng(seed)
    z = score_pool(softmax.scaling, dtype, rng, 40)
    inner = z[softmax.holds(z, interior=True)]
    usual = inner[np.abs(inner) < np.quantile(np.abs(inner), 0.6)]
    s = np.where(rng.random((count, 1)) < 0.5, rng.choice(inner, (count, 3)), rng.choice(usual, (count, 3)))
    s_hat = np.where(rng.random((count, 1)) < 0.5, rng.choice(z, (count, 3)), rng.choice(usual, (count, 3)))
    s[2::3] = moves(np.repeat(s[2::3, :1], 3, axis=1), rng)
    some = rng.choice([True, False], s[1::3].shape)
    s_hat[1::3] = np.where(some, moves(s[1::3], rng), s[1::3])
    s_hat[2::6] = s[2::6, ::-1]
    s_hat = np.where(softmax.holds(s_hat), s_hat, s)
    legal = softmax.holds(s, interior=True).all(axis=-1)
    s, s_hat = s[legal], s_hat[legal]
    exact = [exact_softmax_row(softmax, a.tolist(), b.tolist()) for a, b in zip(s, s_hat, strict=True)]
    largest = float(np.finfo(dtype).max)
    factor = np.array([float(min(max(row.logits / 10, mpf(1)), mpf(10) ** 300)) for row in exact])
    tolerance = _tolerance(softmax, dtype) * factor
    sizes = np.array([[float(min(t, mpf(largest) / 16)) for t in row.sizes] for row in exact])
    wide = np.repeat(tolerance[:, None], 3, axis=1)
    absolute = _product(sizes, wide)
    ordinary = np.array([row.largest <= largest / 8.0 for row in exact])
    return Rows(
        sm.MatchingLoss(softmax), s_hat, s, [row.loss for row in exact], [t for row in exact for t in row.gradient],
        (tolerance, wide), (np.zeros(len(s)), absolute), ordinary,
    )  # fmt: skip


@dataclass(frozen=True)
class ExactRow:
    loss: Any
    gradient: list[Any]
    #: of the two terms of each gradient
    sizes: list[Any]
    #: the largest logit, and the largest number on the way
    logits: Any
    largest: Any


def exact_softmax_row(softmax: sm.CompositeSoftmax, s: list[float], s_hat: list[float]) -> ExactRow:
    """The loss of a row and its gradient from the definitions, with as many digits as the loss needs."""
    q, Q = formulas(softmax.scaling)
    gamma = mpf(softmax.gamma)
    bias = [mpf(0)] * len(s) if softmax.rho is None else [mpf(r) for r in softmax.rho]

    def point(z: list[float]) -> tuple[list[Any], Any, list[Any], list[Any]]:
        y = [(Q(mpf(t)) + (mpmath.log(r) if r else 0)) / gamma for t, r in zip(z, bias, strict=True)]
        fixed = [] if softmax.anchor is None else [mpf(softmax.anchor) / gamma]
        top = max(y + fixed)
        e = [mpmath.exp(max(t - top, mpf(-(10**6)))) for t in y + fixed]
        total = sum(e)
        return y, top + mpmath.log(total), [t / total for t in e[: len(y)]], [q(mpf(t)) for t in z]

    digits = 60
    while True:
        with mp.workdps(digits):
            (y, height, p, link), (y_hat, height_hat, p_hat, link_hat) = point(s), point(s_hat)
            steps = [(mpf(b) - mpf(a)) * g for a, b, g in zip(s, s_hat, link, strict=True)]
            line = sum(step * share for step, share in zip(steps, p, strict=True))
            loss = gamma * (height_hat - height) - line
            here = [a * b for a, b in zip(link, p, strict=True)]
            there = [a * b for a, b in zip(link_hat, p_hat, strict=True)]
            size = gamma * (abs(height) + abs(height_hat)) + abs(line)
            if s == s_hat or abs(loss) > size * mpf(10) ** (35 - digits) or digits > 1500:
                gradient = [b - a for a, b in zip(here, there, strict=True)]
                sizes = [abs(b) + abs(a) for a, b in zip(here, there, strict=True)]
                logits = max(map(abs, y + y_hat))
                largest = max(map(abs, [gamma * logits, *steps, *link, *link_hat]))
                return ExactRow(mpf(0) if s == s_hat else max(loss, mpf(0)), gradient, sizes, logits, largest)
        digits *= 3


def every_row(dtype: Any, count: int) -> Iterator[tuple[str, Callable[[], Rows]]]:
    """All links, with other numbers too, and all composite losses: what makes the rows of each."""
    for seed, curve in enumerate(LINKS):
        yield repr(curve), lambda curve=curve, seed=seed: rows_of_curve(curve, dtype, count, seed)
        if not isinstance(curve, sm.CompositeSigmoid):  # takes its numbers in its scaling
            changed = random_affine(curve, seed)
            yield repr(changed), lambda changed=changed, seed=seed: rows_of_curve(changed, dtype, count // 2, seed)
    for seed, softmax in enumerate(RANDOM_SOFTMAXES):
        yield repr(softmax), lambda softmax=softmax, seed=seed: rows_of_softmax(softmax, dtype, count, seed)
