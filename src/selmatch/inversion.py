"""The score that minimises an expected loss: h^-1 of the mean link."""

from __future__ import annotations

from typing import Any

import numpy as np

from selmatch.arrays.namespaces import NumPy
from selmatch.batch import Batch
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curve import Curve
from selmatch.functions import isfinite, maximum, minimum, where

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
