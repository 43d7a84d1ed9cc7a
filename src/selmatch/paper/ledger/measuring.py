"""What the checks measure with: the paper's own formulas, evaluated the plain way, beside those of the library.

Everything runs in double precision. Two closed forms of one number agree to about 1e-13 of its size, so
:data:`ROUNDING` leaves a margin of ten. Five-point differences have a truncation error of about step^4 and a rounding
error of about 1e-16 / step (over step^2 for second derivatives): with the steps below both stay under
:data:`DIFFERENCES` on functions of moderate size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from selmatch.analysis import sensitivity
from selmatch.certificates import Certificate, Refuted
from selmatch.classification import classify
from selmatch.composite import CompositeSigmoid, CompositeSoftmax
from selmatch.curve import Curve
from selmatch.curves import Sigmoid
from selmatch.losses import MatchingLoss

Array = Any

ROUNDING = 1e-12
DIFFERENCES = 1e-7
#: the paper's three observed scores, and a range around them
THREE = np.array([-3.0, 0.0, 3.0])
GRID = np.linspace(-4.0, 4.0, 161)
#: pairs of a predicted and an observed score
PAIRS = [(t, s) for t in (-5.0, -1.0, 2.0, 6.0) for s in (-3.0, 0.5, 3.0)]
PREDICTED, OBSERVED = (np.array(scores) for scores in zip(*PAIRS, strict=True))
#: where two roundings meet: solved equations, quadrature
SOLVED = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def deviation(a: Array, b: Array) -> float:
    """The largest difference, relative where numbers are above 1."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b))))


def agree(a: Array, b: Array, within: float = ROUNDING) -> bool:
    """Whether all numbers agree; NaN agrees with nothing."""
    return deviation(a, b) <= within


def near(a: Array, digits: Array, last: float = 0.51) -> bool:
    """Whether numbers agree with printed ones, to ``last`` thousandths of their size."""
    a, b = np.asarray(a, dtype=float), np.asarray(digits, dtype=float)
    return bool(np.all(np.abs(a - b) <= last * 1e-3 * np.abs(b)))


def scaled(curve: Curve, alpha: float = 1.0, beta: float = 0.0) -> Curve:
    """A scaling in the normalisation of the paper's composite appendix: Q = G(alpha (z - beta))."""
    return curve.affine(alpha, beta, gain=alpha)


def every(loss: MatchingLoss) -> np.ndarray:
    """The losses of all pairs above."""
    return loss(PREDICTED, OBSERVED, reduction="none")


def sigmoid_loss(alpha: float = 1.0, beta: float = 0.0) -> MatchingLoss:
    """The loss of a Sigmoid link."""
    return MatchingLoss(Sigmoid().affine(alpha, beta))


def amplified(scaling: Curve, gamma: float = 1.0, offset: float = 0.0) -> MatchingLoss:
    """The scalar loss of a scaling, convex or not."""
    return MatchingLoss(CompositeSigmoid(scaling, gamma, offset, check=False), check=False)


def many(scaling: Curve | None = None, gamma: float = 1.0, **options: Any) -> MatchingLoss:
    """The loss of a scaling for many classes, convex or not."""
    return MatchingLoss(CompositeSoftmax(scaling, gamma, check=False, **options), check=False)


def deltas(scaling: Curve | None = None, gamma: float = 1.0, at: Array = THREE) -> np.ndarray:
    """The sensitivities of classes with the given scores."""
    return np.asarray(sensitivity(many(scaling, gamma), np.asarray(at, dtype=float)))


def plain(potential: Any, t: Array, s: Array) -> Array:
    """The loss by the paper's formula, H(t) - H(s) - (t - s) h(s), which cancels: only for moderate scores."""
    t, s = np.asarray(t, dtype=float), np.asarray(s, dtype=float)
    line = (t - s) * potential.link(s)
    return potential.primitive(t) - potential.primitive(s) - (line if isinstance(potential, Curve) else line.sum(-1))


def area(loss: MatchingLoss, t: Any, s: Any) -> float:
    """The loss as integral of its gradient on the straight way from s to t, cut in eighths and where a score is 0."""
    t, s = np.asarray(t, dtype=float), np.asarray(s, dtype=float)
    edges = np.linspace(0.0, 1.0, 9)
    if t.ndim == 0 and s * t < 0:
        edges = np.sort(np.append(edges, s / (s - t)))
    half = 0.5 * np.diff(edges)[:, None]
    ways = (edges[:-1, None] + half * (1.0 + _NODES)).reshape(-1, *[1] * t.ndim)
    gradients = np.asarray(loss.grad(s + ways * (t - s), s))
    return float(np.sum((half * _WEIGHTS).reshape(ways.shape) * gradients * (t - s)))


def slope_of(function: Callable[[Array], Array], z: Array, step: float = 1e-3) -> Array:
    """The derivative by five points; array-valued functions are differentiated along z."""
    outer = function(z - 2.0 * step) - function(z + 2.0 * step)
    inner = function(z + step) - function(z - step)
    return (outer + 8.0 * inner) / (12.0 * step)


def bend_of(function: Callable[[Array], Array], z: Array, step: float = 1e-2) -> Array:
    """The second derivative by five points."""
    outer = function(z - 2.0 * step) + function(z + 2.0 * step)
    inner = function(z - step) + function(z + step)
    return (16.0 * inner - outer - 30.0 * function(z)) / (12.0 * step**2)


def gradient_of(function: Callable[[Array], Array], z: Array, step: float = 1e-3) -> np.ndarray:
    """The partial derivatives of a function of several scores, on the last axis."""
    z = np.asarray(z, dtype=float)
    ways = np.eye(z.size)
    return np.stack([slope_of(lambda u, way=way: function(z + u * way), 0.0, step) for way in ways], axis=-1)


def moved(scores: Array, k: int, to: float) -> np.ndarray:
    """The scores with the one of class k replaced."""
    changed = np.array(scores, dtype=float)
    changed[..., k] = to
    return changed


def least_eigenvalue(potential: CompositeSoftmax, z: Array) -> float:
    """The smallest eigenvalue of the Hessian, as a share of the largest one in size."""
    eigenvalues = np.linalg.eigvalsh(potential.hessian(np.asarray(z, dtype=float)))
    largest = np.maximum(np.max(np.abs(eigenvalues), axis=-1), np.finfo(float).tiny)  # flat regions have none
    return float(np.min(eigenvalues[..., 0] / largest))


def shares(sensitivities: Array) -> np.ndarray:
    """Sensitivities as shares of their sum."""
    return np.asarray(sensitivities) / np.sum(sensitivities, axis=-1, keepdims=True)


def bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Up to where something holds: it does at ``low``, it does not at ``high``."""
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return 0.5 * (low + high)


def falls(values: Array) -> np.ndarray:
    """Where a row of values decreases, beyond rounding."""
    values = np.asarray(values, dtype=float)
    return np.diff(values) < -ROUNDING * np.max(np.abs(values))


def refuted(certificate: Certificate) -> bool:
    """Whether a statement is false, which is more than not being proved."""
    return isinstance(certificate, Refuted)


def focus_of(curve: Curve, role: str = "softmax", domain: tuple[float, float] = (-3.0, 3.0)) -> str:
    """Which scores matter to a curve in a role."""
    return classify(curve, domain=domain, role=role).focus
