"""The score that minimises an expected loss: h^-1 of the mean link, or where the links of several labels balance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from selmatch.arrays.namespaces import NumPy
from selmatch.batch import Batch
from selmatch.canonical import constant
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curve import Curve
from selmatch.functions import isfinite, like, maximum, minimum, where

Array = Any


def minimise(curve: Curve, s: Array, weights: Array, space: type) -> Array:
    """The z with weighted mean link difference 0: from h^-1 of the mean link, polished without cancellation."""
    weights = 1.0 + 0.0 * s if weights is None else weights
    mass = space.total(weights)
    low, high = (s + 0.0).min(), (s + 0.0).max()
    z = minimum(maximum(curve.inverse(space.total(weights * curve(s)) / mass), low), high)
    z = where(isfinite(z), z, 0.5 * (low + high))
    for _ in range(200 if space is NumPy else 8):
        slope = curve.slope(z)
        pull = space.total(weights * curve.difference(z + 0.0 * s, s - z, s)) / mass
        low, high = where(pull > 0, z, low), where(pull < 0, z, high)
        step = pull / where(slope > 0, slope, 1.0)
        # a step of rounding size is the end; one that leaves the bracket comes from a flat piece or a kink
        newton = isfinite(step) & (slope > 0) & (z + step >= low) & (z + step <= high)
        halved = 0.5 * (low + high) if curve.continuous else z  # at a jump nothing balances
        before, z = z, where(pull == 0, z, where(newton, z + step, halved))
        if space is NumPy and abs(z - before) <= 2.0 * np.spacing(abs(z)):  # each step reads all scores
            break
    return z


#: scores at which the balance of labels is looked at in each round: 11 rounds bring a bracket to its rounding
_PLACES = [i / 64.0 for i in range(65)]
_ROUNDS = 11


def minimise_labels(labels: Sequence[float], curves: Sequence[Curve], batch: Batch) -> Array:
    """The z at which the gradients of all labels balance, each with its own curve; NaN if their domains do not meet.

    The sum never falls in z, from <= 0 at the lowest label to >= 0 at the highest. Each round keeps the part between
    the last negative and the first positive value, without a decision on values: it runs inside traces too. On a flat
    piece every score is a minimiser; at a jump nothing balances, and the jump is the minimiser.
    """
    space, s = batch.space, batch.s
    weights = 1.0 + 0.0 * s if batch.weights is None else batch.weights
    masses = [space.total(where(s == label, weights, 0.0)) for label in labels]
    none = 0.0 * space.total(s)  # NaN where a score is no label
    low, high = none + math.inf, none - math.inf
    bottom, top = none - math.inf, none + math.inf
    for label, curve, mass in zip(labels, curves, masses, strict=True):
        low, high = where(mass > 0, minimum(low, label), low), where(mass > 0, maximum(high, label), high)
        bottom = where(mass > 0, maximum(bottom, curve.domain.low), bottom)
        top = where(mass > 0, minimum(top, curve.domain.high), top)

    def pull(z: Array, slope: bool = False) -> Array:
        total = 0.0 * z
        for label, curve, mass in zip(labels, curves, masses, strict=True):
            x = label + 0.0 * z
            moved = curve.slope(z) if slope else curve.difference(x, z - label, z)
            total = total + where(mass > 0, mass * where(mass > 0, moved, 0.0), 0.0)
        return total

    meet = bottom < top
    width = high - low
    low, high = minimum(maximum(low, bottom), top), maximum(minimum(high, top), bottom)
    places = like(_PLACES, none)
    for _ in range(_ROUNDS):
        z = low + (high - low) * places
        balance = pull(z)
        low, high = where(balance < 0, z, low).max(), where(balance > 0, z, high).min()
    z = 0.5 * low + 0.5 * high
    z = constant(z)
    # a step of rounding size, through which derivatives flow; at a jump or on a flat piece there is none
    steep = pull(z, slope=True)
    step = -pull(z) / where(steep > 0, steep, 1.0)
    usable = isfinite(step) & (steep > 0) & (constant(maximum(step, -step)) <= 1e-6 * constant(width))
    z = minimum(maximum(z + where(usable, step, 0.0), bottom), top)
    return where(meet, z, math.nan)


def minimise_rows(potential: CompositeSoftmax | Separable, batch: Batch) -> Any:
    """The row of scores that minimises the weighted mean loss for the rows of a batch; computed in NumPy."""
    rows = np.asarray(batch.s, dtype=float).reshape(-1, batch.s.shape[-1])
    share = np.ones(len(rows)) if batch.weights is None else np.asarray(batch.weights, dtype=float).reshape(-1)
    share = share / share.sum()
    with np.errstate(all="ignore"):
        if isinstance(potential, Separable):
            best = np.array([minimise(potential.curve, column, share, NumPy) for column in rows.T])
        else:
            best = _newton(potential, rows, share)
    return batch.space.like(best, batch.s)


def _newton(potential: CompositeSoftmax, rows: np.ndarray, share: np.ndarray) -> np.ndarray:
    def newton_step(z: np.ndarray) -> np.ndarray:
        """Inverse Hessian times the mean difference between the links of the rows and of z."""
        start = np.broadcast_to(z, rows.shape)
        pull = share @ potential.difference(start, rows - start, rows)
        return np.linalg.lstsq(potential.hessian(z), pull, rcond=None)[0]

    def expected_loss(z: np.ndarray) -> float:
        return float(share @ potential.remainder(rows, z - rows, np.broadcast_to(z, rows.shape)))

    z = share @ rows
    for _ in range(100):
        step, length, here = newton_step(z), 1.0, expected_loss(z)
        while length > 1e-9 and not expected_loss(z + length * step) <= here:
            length *= 0.5
        if length <= 1e-9 or np.max(np.abs(length * step)) <= 1e-15 * (1.0 + np.max(np.abs(z))):
            break
        z = z + length * step
    for _ in range(2):  # the loss is flat to rounding near the minimum, the gradient is not
        step = newton_step(z)
        z = z + np.where(np.abs(step) <= 1e-6 * (1.0 + np.abs(z)), step, 0.0)
    return z
