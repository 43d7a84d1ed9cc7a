"""The minimiser of a vector potential's expected loss, by Newton's method in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selmatch.batch import Batch, prepare
from selmatch.composite import CompositeSoftmax

if TYPE_CHECKING:
    from selmatch.losses import MatchingLoss


def minimise_rows(loss: MatchingLoss, s: Any, weights: Any) -> Any:
    """The row of scores that minimises the weighted mean loss for the rows of s, as an array like s."""
    who, potential = "MatchingLoss.minimiser", loss.potential
    batch = prepare(who, potential, s, s, None, weights, vector=True)
    rows = np.asarray(batch.s, dtype=float).reshape(-1, batch.s.shape[-1])
    if not len(rows):
        raise ValueError(f"{who}: s must hold at least one row, got shape {tuple(batch.s.shape)}.")
    share = np.ones(len(rows)) if batch.weights is None else np.asarray(batch.weights, dtype=float).reshape(-1)
    share = share / share.sum()
    if isinstance(potential, CompositeSoftmax):
        return _as_given(_newton(potential, rows, share), batch)
    column_loss = type(loss)(potential.curve, check=loss.check)
    return _as_given(np.array([column_loss.minimiser(column, share) for column in rows.T]), batch)


def _as_given(row: np.ndarray, batch: Batch) -> Any:
    return batch.space.like(row, batch.s)


def _newton(potential: CompositeSoftmax, rows: np.ndarray, share: np.ndarray) -> np.ndarray:
    def newton_step(z: np.ndarray) -> np.ndarray:
        """Inverse Hessian times the mean difference between the links of the rows and of z."""
        start = np.broadcast_to(z, rows.shape)
        pull = share @ potential.difference(start, rows - start, rows)
        return np.linalg.lstsq(potential.hessian(z), pull, rcond=None)[0]

    def expected_loss(z: np.ndarray) -> float:
        return float(share @ potential.remainder(rows, z - rows, np.broadcast_to(z, rows.shape)))

    z = share @ rows
    with np.errstate(all="ignore"):
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
