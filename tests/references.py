"""Every curve's definition in mpmath, straight from the paper: what curves are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
from mpmath import mp, mpf

import selmatch as sm

Exact = Callable[[mpf], Any]


def _sinpower(x: mpf, d: float) -> mpf:
    return mpmath.sign(x) * abs(x) ** mpf(d)


def _xlogx(x: mpf) -> mpf:
    return x * mpmath.log(x) if x else mpf(0)


def _softplus(x: mpf) -> mpf:
    return max(x, 0) + mpmath.log1p(mpmath.exp(-abs(x)))


def _polynomial(curve: sm.Polynomial) -> tuple[Exact, Exact]:
    def value(x: mpf) -> mpf:
        return sum((mpf(c) * (x - curve.origin) ** k for k, c in enumerate(curve.coefficients)), mpf(0))

    def primitive(x: mpf) -> mpf:
        terms = enumerate(curve.coefficients)
        return sum((mpf(c) * (x - curve.origin) ** (k + 1) / (k + 1) for k, c in terms), mpf(0))

    return value, primitive


def _clipped(curve: sm.Curve, low: float | None, high: float | None) -> tuple[Exact, Exact]:
    g, G = formulas(curve)

    def clip(x: mpf) -> mpf:
        x = x if low is None else max(x, mpf(low))
        return x if high is None else min(x, mpf(high))

    return lambda x: g(clip(x)), lambda x: G(clip(x)) + (x - clip(x)) * g(clip(x))


def _piecewise(curve: sm.Piecewise) -> tuple[Exact, Exact]:
    knots = [mpf(t) for t in curve.knots]
    exact = [formulas(piece) for piece in curve.pieces]

    def segment(x: mpf) -> int:
        return max(sum(x > t for t in knots[:-1]) - 1, 0)

    def value(x: mpf) -> mpf:
        return exact[segment(x)][0](min(max(x, knots[0]), knots[-1]))

    def primitive(x: mpf) -> mpf:
        """The integral from the first knot, segment by segment."""
        total = min(x - knots[0], mpf(0)) * value(knots[0]) + max(x - knots[-1], mpf(0)) * value(knots[-1])
        for (_, G), a, b in zip(exact, knots, knots[1:], strict=False):
            if x > a:
                total += G(min(x, b)) - G(a)
        return total

    return value, primitive


def _drawn(curve: sm.FromSensitivity) -> tuple[Exact, Exact]:
    """Integrals of straight pieces of h' from 0; smooth drawings have their own reference."""
    assert not curve.smooth
    knots, values = [mpf(t) for t in curve.knots], [mpf(v) for v in curve.values]
    far = mpf(10) ** 400
    ends = [(-far, knots[0], values[0], values[0]), (knots[-1], far, values[-1], values[-1])]
    pieces = [*zip(knots, knots[1:], values, values[1:], strict=False), *ends]

    def integral(x: mpf, weight: Exact) -> mpf:
        """Of h'(t) weight(t) from 0 to x; Simpson's rule is exact for products of two straight lines."""
        total = mpf(0)
        for a, b, va, vb in pieces:
            low, high = (min(max(t, a), b) for t in (mpf(0), x))
            if low != high:
                nodes = (low, (low + high) / 2, high)
                at = [(va + (vb - va) * (t - a) / (b - a)) * weight(t) for t in nodes]
                total += (high - low) * (at[0] + 4 * at[1] + at[2]) / 6
        return total

    return lambda x: integral(x, lambda t: mpf(1)), lambda x: integral(x, lambda t: x - t)


def _inverse(curve: sm.Inverse) -> tuple[Exact, Exact]:
    g, G = formulas(curve.curve)

    def value(y: mpf) -> mpf:
        x = mpf(float(curve.curve.inverse(float(y))))
        for _ in range(100):  # Newton's method
            step = (y - g(x)) / mpmath.diff(g, x)
            x += step
            if abs(step) <= mpf(10) ** (3 - mp.dps) * abs(x):
                break
        return x

    return value, lambda y: y * value(y) - G(value(y))


def _composite(curve: sm.CompositeSigmoid) -> tuple[Exact, Exact]:
    q, Q = formulas(curve.scaling)

    def logit(z: mpf) -> mpf:
        return (Q(z) + curve.offset) / curve.gamma

    def value(z: mpf) -> mpf:
        y = logit(z)
        return q(z) * (1 / (1 + mpmath.exp(-y)) if y > 0 else mpmath.exp(y) / (1 + mpmath.exp(y)))

    return value, lambda z: curve.gamma * _softplus(logit(z))


def formulas(curve: sm.Curve) -> tuple[Exact, Exact]:
    """The value g and a primitive G of a curve, on mpf and to the working precision."""
    log, log1p, exp = mpmath.log, mpmath.log1p, mpmath.exp
    match curve:
        case sm.Identity():
            return lambda x: x, lambda x: x * x / 2
        case sm.Constant(value):
            return lambda x: mpf(value), lambda x: value * x
        case sm.Sigmoid():
            return lambda x: 1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x)), _softplus
        case sm.Exp():
            return exp, exp
        case sm.AntiExp():
            return lambda x: -exp(-x), lambda x: exp(-x)
        case sm.Sinh():
            return mpmath.sinh, mpmath.cosh
        case sm.Cosh():
            return mpmath.cosh, mpmath.sinh
        case sm.Tanh():
            return mpmath.tanh, lambda x: abs(x) + log1p(exp(-2 * abs(x))) - log(2)
        case sm.Arctan():
            return mpmath.atan, lambda x: x * mpmath.atan(x) - log1p(x * x) / 2
        case sm.Arcsinh():
            return mpmath.asinh, lambda x: x * mpmath.asinh(x) - mpmath.sqrt(1 + x * x) + 1
        case sm.Sin():
            return mpmath.sin, lambda x: 1 - mpmath.cos(x)
        case sm.SignedLog():
            return (
                lambda x: mpmath.sign(x) * log1p(abs(x)),
                lambda x: (1 + abs(x)) * log1p(abs(x)) - abs(x),
            )
        case sm.Logit():
            return lambda x: log(x) - log1p(-x), lambda x: _xlogx(x) + _xlogx(1 - x)
        case sm.Arctanh():
            return mpmath.atanh, lambda x: (_xlogx(1 + x) + _xlogx(1 - x)) / 2
        case sm.Arcsin():
            return mpmath.asin, lambda x: x * mpmath.asin(x) + mpmath.sqrt((1 - x) * (1 + x)) - 1
        case sm.Tan():
            return mpmath.tan, lambda x: -log(mpmath.cos(x))
        case sm.NegLog1m():
            return lambda x: -log1p(-x), lambda x: _xlogx(1 - x) + x
        case sm.Log():
            return log, lambda x: _xlogx(x) - x
        case sm.SignedPower(d):  # and Power
            return lambda x: _sinpower(x, d), lambda x: abs(x) ** (mpf(d) + 1) / (mpf(d) + 1)
        case sm.AbsPower(d, c):
            return lambda x: abs(x) ** mpf(d) + c, lambda x: _sinpower(x, mpf(d) + 1) / (mpf(d) + 1) + c * x
        case sm.SmeLU(c):
            return _scaled(_clipped(sm.Polynomial((0.0, 1.0), origin=-c), -c, c), 1 / (2 * mpf(c)), lambda x: x)
        case sm.Huber(c):
            return _clipped(sm.Identity(), -c, c)
        case sm.ReLU():
            return lambda x: max(x, mpf(0)), lambda x: max(x, mpf(0)) ** 2 / 2
        case sm.Step():
            return lambda x: mpf(x > 0), lambda x: max(x, mpf(0))
        case sm.Sign():
            return mpmath.sign, abs
        case sm.Staircase(thresholds, jumps, base):
            steps = list(zip(thresholds, jumps, strict=True))
            return (
                lambda x: base + sum(mpf(j) * (x > t) for t, j in steps),
                lambda x: base * x + sum(mpf(j) * (max(x - t, mpf(0)) - max(-t, 0)) for t, j in steps),
            )
        case sm.Polynomial():
            return _polynomial(curve)
        case sm.Affine(inner, alpha, beta, gain):
            return _scaled(formulas(inner), mpf(gain), lambda z: alpha * (z - beta), mpf(gain) / alpha)
        case sm.Sum(curves):
            parts = [formulas(term) for term in curves]
            return lambda x: sum(g(x) for g, _ in parts), lambda x: sum(G(x) for _, G in parts)
        case sm.Inverse():
            return _inverse(curve)
        case sm.Capped(inner, low, high):
            return _clipped(inner, low, high)
        case sm.Piecewise():
            return _piecewise(curve)
        case sm.FromSensitivity():
            return _drawn(curve)
        case sm.CompositeSigmoid():
            return _composite(curve)
    raise NotImplementedError(f"references: no formula for {curve!r}")


def _scaled(exact: tuple[Exact, Exact], gain: mpf, place: Exact, area: mpf | None = None) -> tuple[Exact, Exact]:
    g, G = exact
    return lambda z: gain * g(place(z)), lambda z: (gain if area is None else area) * G(place(z))


def _resolved(value_and_size: Callable[[], tuple[mpf, mpf]], most: int) -> mpf:
    """A sum with cancellation, with as many digits as it takes to know 30 of its own."""
    digits = 60
    while digits <= most:
        with mp.workdps(digits):
            value, size = value_and_size()
            if size == 0 or abs(value) > max(size, 1) * mpf(10) ** (35 - digits):
                return value
        digits *= 3
    return mpf(0)


def exact_value(curve: sm.Curve, x: float) -> mpf:
    with mp.workdps(60):
        return formulas(curve)[0](mpf(x))


def exact_primitive(curve: sm.Curve, x: float) -> mpf:
    with mp.workdps(60):
        return formulas(curve)[1](mpf(x))


def exact_difference(curve: sm.Curve, x: float, xh: float, most: int = 2000) -> mpf:
    """g(xh) - g(x)."""

    def direct():
        here, there = (formulas(curve)[0](mpf(t)) for t in (x, xh))
        return there - here, abs(there) + abs(here)

    return mpf(0) if x == xh else _resolved(direct, most)


def exact_remainder(curve: sm.Curve, x: float, xh: float, most: int = 2000) -> mpf:
    """G(xh) - G(x) - (xh - x) g(x)."""

    def direct():
        g, G = formulas(curve)
        linear = (mpf(xh) - mpf(x)) * g(mpf(x))
        here, there = G(mpf(x)), G(mpf(xh))
        return there - here - linear, abs(there) + abs(here) + abs(linear)

    return mpf(0) if x == xh else _resolved(direct, most)


def exact_slope(curve: sm.Curve, x: float) -> mpf:
    with mp.workdps(60):
        return mpmath.diff(formulas(curve)[0], mpf(x))


def kinks(curve: sm.Curve) -> tuple[float, ...]:
    """Scores at which the slope jumps or is infinite, or the curve itself jumps."""
    match curve:
        case sm.SmeLU(c) | sm.Huber(c):
            return (-c, c)
        case sm.ReLU() | sm.Step() | sm.Sign():
            return (0.0,)
        case sm.SignedPower(d) | sm.AbsPower(d):
            return (0.0,) if d <= 1.0 else ()
        case sm.Staircase(thresholds):
            return thresholds
        case sm.Capped(inner, low, high):
            return (*(t for t in (low, high) if t is not None), *kinks(inner))
        case sm.FromSensitivity(knots):
            return knots
        case sm.Piecewise(knots, pieces):
            return (*knots, *(t for piece in pieces for t in kinks(piece)))
        case sm.Sum(curves):
            return tuple(t for term in curves for t in kinks(term))
        case sm.Affine(inner, alpha, beta):
            return tuple(beta + t / alpha for t in kinks(inner))
        case sm.Inverse(inner):
            return tuple(float(inner(t)) for t in kinks(inner))
        case sm.CompositeSigmoid(scaling):
            return kinks(scaling)
    return ()
