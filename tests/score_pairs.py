"""Predicted and observed scores for every loss of the suite: far apart, close together, equal and 0."""

from __future__ import annotations

import numpy as np

import selmatch as sm
from conftest import points_inside


def curve_of(loss: sm.MatchingLoss) -> sm.Curve:
    """The curve that says where scores of a loss may lie: the potential itself, its scaling or its curve."""
    potential = loss.potential
    for name in ("scaling", "curve"):
        if loss.vector:
            potential = getattr(potential, name, potential)
    return potential


def generic_pairs(loss: sm.MatchingLoss, rows: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Scores off kinks, jumps and ends: in turn far apart, near and very near; float64, 3 classes for many classes."""
    rng = np.random.default_rng(7)
    points = points_inside(curve_of(loss), 24)
    shape = (rows, 3) if loss.vector else (rows,)
    s_hat, s = rng.choice(points, shape), rng.choice(points, shape)
    width = points[-1] - points[0]
    s_hat[1::3] = s[1::3] + 1e-2 * width * rng.uniform(-0.3, 0.3, s[1::3].shape)
    s_hat[2::3] = s[2::3] + 1e-4 * width * rng.uniform(-1.0, 1.0, s[2::3].shape)
    return s_hat, s


def special_pairs(loss: sm.MatchingLoss) -> tuple[np.ndarray, np.ndarray]:
    """Equal scores, and 0 (or another harmless score, for links without 0) on either side and on both."""
    points = points_inside(curve_of(loss), 3)
    zero = curve_of(loss).point()
    s_hat = np.array([points[0], points[1], zero, points[2], zero])
    s = np.array([points[0], points[1], points[2], zero, zero])
    if loss.vector:
        s_hat, s = (np.stack([z, z[::-1], z + 0.25 * (z != zero)], axis=-1) for z in (s_hat, s))
    return s_hat, s
