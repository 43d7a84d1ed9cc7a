"""Scores that show all a curve does: also where it is steep in a region that no uniform grid would meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.algebra import Affine, Inverse
from selmatch.curve import Curve, Interval
from selmatch.structure import parts_of
from selmatch.words import readable

#: scores of a uniform grid, and in the window of each part of a curve
GRID, IN_WINDOW = 257, 33
#: a cell is halved while its mean slope differs by more than this share from the slopes at its ends ...
SHARE = 0.01
#: ... and the difference is more than this share of the whole rise
LEAST = 1e-7
MOST_HALVINGS, MOST_SCORES = 40, 4000
#: a region is narrow up to this share of what is looked at
NARROW = 0.05


@dataclass(frozen=True)
class SteepRegion:
    """A narrow region in which a loss is at least twice as sensitive as on both sides of it.

    Attributes
    ----------
    low, high : float
        Where the sensitivity is more than half of the highest one.
    at, sensitivity : float
        The most sensitive score, and how sensitive it is.
    """

    low: float
    high: float
    at: float
    sensitivity: float

    def __str__(self) -> str:
        return self.words()

    def words(self, place: Callable[[float], Any] = float) -> str:
        """The region in words, with scores as ``place`` gives them: targets, where scores are their logarithms."""
        low, high, at = (readable(place(score)) for score in (self.low, self.high, self.at))
        return f"up to {readable(self.sensitivity)} at {at}, within [{low}, {high}]"


@np.errstate(all="ignore")
def landmarks(curve: Curve) -> np.ndarray:
    """Where a curve may turn, by its structure: windows, centres, knots, and ends of flat regions of all its parts."""
    if isinstance(curve, Affine):
        places = curve._z(landmarks(curve.curve))
    elif isinstance(curve, Inverse):
        places = curve.curve(landmarks(curve.curve))
    else:
        flat = itertools.chain.from_iterable((part.low, part.high) for part in curve.flat_regions())
        own = [*np.linspace(*curve.window(), IN_WINDOW), *getattr(curve, "knots", ()), *curve.places, *flat]
        own += [] if curve.centre is None else [curve.centre]
        places = np.concatenate([np.array(own), *map(landmarks, parts_of(curve))])
    return np.unique(places[np.isfinite(places)])


def telling_scores(curve: Curve, low: float, high: float) -> np.ndarray:
    """Scores from low to high, dense where the slope of a curve changes."""
    return refined(curve, curve.slope, low, high, landmarks(curve))


@np.errstate(all="ignore")
def refined(
    value: Callable[[np.ndarray], Any],
    slope: Callable[[np.ndarray], Any],
    low: float,
    high: float,
    seeds: np.ndarray,
) -> np.ndarray:
    """A grid through seeds, of which each cell is halved until the slopes at its ends tell its rise.

    What rises in a cell shows steep places inside it, whatever the formula is; no slope has to hit them.
    """

    def looked_at(z: np.ndarray) -> np.ndarray:
        return np.stack([np.broadcast_to(np.asarray(f(z), dtype=float), z.shape) for f in (value, slope)])

    z = np.unique([*np.linspace(low, high, GRID), *seeds[(seeds > low) & (seeds < high)]])
    found = looked_at(z)
    for _ in range(MOST_HALVINGS):
        heights, slopes = found
        width, rise = np.diff(z), np.diff(heights)
        ends = 0.5 * (slopes[:-1] + slopes[1:])
        # an infinite slope at an end tells nothing of the rise
        gap = np.where(np.isfinite(ends), np.abs(rise - ends * width), np.abs(rise))
        total = np.sum(np.abs(rise[np.isfinite(rise)]))
        missed = (gap > SHARE * (np.abs(rise) + np.abs(ends) * width)) & (gap > LEAST * total)
        middle = 0.5 * z[:-1] + 0.5 * z[1:]
        new = np.flatnonzero(missed & (middle > z[:-1]) & (middle < z[1:]))
        if not len(new) or len(z) + len(new) > MOST_SCORES:
            break
        found = np.insert(found, new + 1, looked_at(middle[new]), axis=1)
        z = np.insert(z, new + 1, middle[new])
    return z


def steep_regions(z: np.ndarray, slopes: np.ndarray) -> tuple[SteepRegion, ...]:
    """The narrow hills of a sensitivity: at least twice as high as the valleys on both sides, and half of the height is
    exceeded in a small part of the scores only."""
    known = ~np.isnan(slopes)
    z, slopes = z[known], slopes[known]
    regions = []
    for top in _tops(slopes):
        if np.isinf(slopes[top]):
            continue  # of an infinite slope there is no half
        half = 0.5 * slopes[top]
        below = np.flatnonzero(slopes <= half)
        before, after = below[below < top], below[below > top]
        if len(before) and len(after) and z[after[0]] - z[before[-1]] <= NARROW * (z[-1] - z[0]):
            at, most = float(z[top]), float(slopes[top])
            regions.append(SteepRegion(float(z[before[-1]]), float(z[after[0]]), at, most))
    return tuple(regions)


def _tops(slopes: np.ndarray) -> list[int]:
    """The highest place of each hill; a hill ends where half its height is lost, and begins where a valley doubles."""
    tops, climbing, top, bottom = [], True, 0, 0
    for i, value in enumerate(slopes.tolist()):
        if climbing:
            if value > slopes[top]:
                top = i
            elif value <= 0.5 * slopes[top] and slopes[top] > 0.0:
                tops.append(top)
                climbing, bottom = False, i
        elif value < slopes[bottom]:
            bottom = i
        elif value > 0.0 and value >= 2.0 * slopes[bottom]:
            climbing, top = True, i
    return tops


def within(regions: tuple[SteepRegion, ...], part: Interval) -> tuple[SteepRegion, ...]:
    """The regions whose most sensitive score lies in a part."""
    return tuple(region for region in regions if part.holds(region.at, interior=True))


def extremes(slopes: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest sensitivity, which may be infinite; NaN if none is known."""
    known = slopes[~np.isnan(slopes)]
    return (float(known.min()), float(known.max())) if len(known) else (np.nan, np.nan)
