"""A loss from a wish: say in words, or draw, where accuracy matters."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from selmatch.arrays.namespaces import NumPy
from selmatch.columns import real_array, to_numpy
from selmatch.composite import CompositeSoftmax
from selmatch.curve import Curve
from selmatch.curves import AntiExp, Constant, Exp, Sigmoid, Sinh
from selmatch.differences import differences
from selmatch.drawing import FromSensitivity
from selmatch.lists import Sizes, arrange
from selmatch.losses import MatchingLoss
from selmatch.parameters import number
from selmatch.words import nearest, readable

__all__ = ["Wish", "focus", "from_sensitivity"]

logger = logging.getLogger(__name__)

WORDS = ("high", "low", "middle", "extremes")
#: what a loss looks at, and the name of one in messages
KINDS = {"rows": "rows", "pairs": "pairs", "lists": "scores"}
#: for pairs, words about sizes of differences: their signs are a matter of order
_WORDS_OF_PAIRS = {"extremes": "high", "middle": "low"}
#: the curves of the paper that are sensitive in such a place
FAMILIES = {
    "high": ("exp", "sigmoid", "sinh"),
    "low": ("exp", "sigmoid", "sinh"),
    "middle": ("sigmoid",),
    "extremes": ("sinh",),
}
_OTHER_WORDS = {
    "top": "high", "upper": "high", "large": "high", "max": "high", "right": "high", "bottom": "low", "lower": "low",
    "small": "low", "min": "low", "left": "low", "center": "middle", "centre": "middle", "median": "middle",
    "typical": "middle", "tails": "extremes", "both": "extremes", "ends": "extremes", "outliers": "extremes",
}  # fmt: skip


def from_sensitivity(knots: Any, values: Any = None, smooth: bool = False) -> FromSensitivity:
    """A link from a drawing of its sensitivity: how much an error of one unit matters at some scores.

    Between the knots the sensitivity is interpolated, beyond them it stays constant; link and loss are exact.

    Parameters
    ----------
    knots : sequence of float, or mapping
        Scores in ascending order; a score that appears twice is a jump. A mapping from score to sensitivity stands
        for both arguments.
    values : sequence of float
        The sensitivity at each knot, >= 0 and not all 0.
    smooth : bool
        Whether to join the values by monotone cubics instead of straight lines.

    Examples
    --------
    >>> from selmatch.design import from_sensitivity
    >>> link = from_sensitivity({0: 0.1, 2: 1.0, 5: 0.3})
    >>> link.slope(1.0)
    0.55
    >>> link == from_sensitivity(knots=[0, 2, 5], values=[0.1, 1.0, 0.3])
    True
    """
    if isinstance(knots, Mapping):
        if values is not None:
            raise TypeError("from_sensitivity: values must be left out when knots is a mapping, got both.")
        try:
            knots, values = zip(*sorted(knots.items()), strict=True) if knots else ((), ())
        except TypeError:
            raise TypeError(f"from_sensitivity: knots must be numbers, got {list(knots)!r}.") from None
    elif values is None:
        raise TypeError("from_sensitivity: values must be given, one for each knot, got None.")
    return FromSensitivity(_listed(knots), _listed(values), smooth)


def _listed(values: Any) -> Any:
    """A column or an array as a list of Python numbers."""
    return to_numpy(values).tolist() if hasattr(values, "dtype") else values


# ---------------------------------------------------------------------------------------------------- what came of it


@dataclass(frozen=True)
class Wish:
    """What :func:`focus` was asked for, and what it made of it; kept as ``loss.wish``.

    Attributes
    ----------
    word : str or None
        The word, None for regions given as numbers.
    regions : tuple of (low, high, weight)
        Where the sensitivity is high, after the cap; ends may be infinite, the largest weight is 1.
    top, covered : float
        The share of rows asked for (None without a word), and the share inside the regions (ties included).
    rows : int
        How many rows the data have (scores, for lists; ordered pairs, at most a sample of them, for pairs).
    strength, reached : float
        Mean sensitivity inside over outside, as asked and as reached on the data; for lists, of Delta_k.
    median_ratio : float
        The same of the medians.
    edge, floor : float or None
        Width of the ramps, and sensitivity outside; None for the curves of a family.
    cap, family : float or None, str or None
        As given.
    classes : bool
        Whether the loss is for lists.
    mean, median, lowest, highest : float
        Of the data.
    quartiles : tuple of float
        The first and the third.
    elicited, start : float or None
        The best constant prediction h^-1(E h(S)) on the data, which is also where training should start; None for
        lists.
    curvature : tuple of float
        The smallest and the largest sensitivity on the data (its mean is 1; for lists that of the scaling's slope).
    of : str
        What the loss looks at: "rows", "pairs" (all scores here are differences), or "lists".
    """

    word: str | None
    regions: tuple[tuple[float, float, float], ...]
    top: float | None
    covered: float
    rows: int
    strength: float
    reached: float
    median_ratio: float
    edge: float | None
    floor: float | None
    cap: float | None
    family: str | None
    classes: bool
    mean: float
    median: float
    lowest: float
    highest: float
    quartiles: tuple[float, float]
    elicited: float | None
    start: float | None
    curvature: tuple[float, float]
    of: str = "rows"

    def __str__(self) -> str:
        places = " and ".join(place(low, high) for low, high, _ in self.regions)
        kind = "lists" if self.classes else self.of
        share = f"{100.0 * self.covered:.3g} % of {self.rows:,} {KINDS[kind]}"
        how = (
            f"family {self.family}"
            if self.edge is None
            else f"edge {readable(self.edge)}, floor {readable(self.floor)}"
        )
        times = f"on average {readable(self.reached)} times as sensitive as elsewhere"
        scale = f"slope of the scaling {self.strength:g} times" if self.classes else "mean sensitivity 1"
        return f"{'differences' if kind == 'pairs' else 'scores'} {places} ({share}) are {times}; {how}, {scale}"


def place(low: float, high: float) -> str:
    """A piece of the line, in words."""
    if math.isinf(high):
        return f"from {readable(low)} up" if math.isfinite(low) else "anywhere"
    return f"up to {readable(high)}" if math.isinf(low) else f"between {readable(low)} and {readable(high)}"


# ----------------------------------------------------------------------------------------------------------- the data


class _Sample:
    """Scores with weights, and questions about their distribution."""

    def __init__(self, scores: np.ndarray, weights: np.ndarray) -> None:
        self.scores = scores
        self.weights = weights / weights.sum()
        order = np.argsort(scores, kind="stable")
        self._sorted = scores[order]
        self._below = np.cumsum(self.weights[order])
        self._above = np.cumsum(self.weights[order][::-1])[::-1]

    @property
    def lowest(self) -> float:
        return float(self._sorted[0])

    @property
    def highest(self) -> float:
        return float(self._sorted[-1])

    def quantile(self, share: float) -> float:
        """The smallest score at or below which at least this share of the rows lies."""
        index = np.searchsorted(self._below, share * (1.0 - 1e-12))
        return float(self._sorted[min(index, len(self._sorted) - 1)])

    def upper_quantile(self, share: float) -> float:
        """The largest score at or above which at least this share of the rows lies."""
        count = np.searchsorted(self._above[::-1], share * (1.0 - 1e-12))
        return float(self._sorted[len(self._sorted) - 1 - min(count, len(self._sorted) - 1)])

    def border_below(self, score: float) -> float:
        """A border just below the rows with this score: half-way to the next row."""
        index = int(np.searchsorted(self._sorted, score))
        return score if index == 0 else _between(float(self._sorted[index - 1]), score)

    def border_above(self, score: float) -> float:
        index = int(np.searchsorted(self._sorted, score, side="right"))
        return score if index == len(self._sorted) else -_between(-float(self._sorted[index]), -score)

    def mean(self, values: np.ndarray, where: np.ndarray | None = None) -> float:
        """The weighted mean of values that belong to the rows, or to some of them."""
        if where is None:
            return float(self.weights @ values)
        return float(self.weights[where] @ values[where] / self.weights[where].sum())

    def median(self, values: np.ndarray, where: np.ndarray) -> float:
        return _Sample(values[where], self.weights[where]).quantile(0.5)


#: squares of scores, and of their differences, are far from the ends of double precision
_LARGEST_SCORE = 1e100


def _between(outside: float, inside: float) -> float:
    """The middle of a gap, or its upper end where there is no number between."""
    middle = outside + 0.5 * (inside - outside)
    return middle if middle > outside else inside


def _sample(data: Any, weights: Any, of: str, segments: Any, said: str) -> tuple[_Sample, np.ndarray]:
    """The checked scores in one row (or their differences, for pairs), and the sizes of lists."""
    array = real_array("focus", "data", data)
    if of == "rows" and array.ndim != 1:
        raise ValueError(
            f"focus: data must have 1 dimension, got shape {array.shape}. "
            "For one loss of single scores give one column, or data.ravel(); for lists of scores say classes=True."
        )
    if of != "rows" and array.ndim != (2 if segments is None else 1):
        form, remedy = "rows of scores (2 dimensions)", "For flat scores give segments, the list of each."
        if segments is not None:
            said, form, remedy = "segments", "flat scores (1 dimension)", "Leave segments out for rows."
        elif said == "classes=True":
            remedy += " Leave classes out for single scores."
        raise ValueError(f"focus: data must have {form} with {said}, got shape {array.shape}. {remedy}")
    if array.size == 0:
        raise ValueError(f"focus: data must hold at least 2 different scores, got shape {array.shape}.")
    if of == "rows":
        sizes, share = np.ones(len(array), dtype=int), _shares(weights, len(array), "row")
    else:
        arrangement = arrange("focus", array.shape, segments, None, NumPy, array)
        array, sizes = arrangement.items(array), np.diff(arrangement.groups.starts)
        share = arrangement.lists(_shares(weights, arrangement.rows[0], "row" if segments is None else "list"))
    array, sizes, share = array[np.repeat(share > 0.0, sizes)], sizes[share > 0.0], share[share > 0.0]
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(
            f"focus: data must be finite, got {wrong.sum()} of {array.size} scores that are not (the first: "
            f"{array[wrong][0]}). Drop or impute them, or give them the weight 0."
        )
    scores, share = differences(array, sizes, share) if of == "pairs" else (array, np.repeat(share, sizes))
    if not len(scores):
        raise ValueError("focus: data must have a list with at least 2 items for pairs, got none.")
    if scores.min() == scores.max():
        raise ValueError(
            f"focus: data must hold at least 2 different scores, got {scores[0]:g} in all {len(scores):,} "
            f"{KINDS[of]}. There is nothing to tell apart; squared error will do: MatchingLoss(Identity())."
        )
    size, spread = float(np.abs(scores).max()), float(scores.max()) - float(scores.min())
    if size > _LARGEST_SCORE or spread < 1.0 / _LARGEST_SCORE:
        raise ValueError(
            f"focus: data must have scores up to {_LARGEST_SCORE:g} that differ by {1.0 / _LARGEST_SCORE:g} or more, "
            f"got scores up to {size:g} that differ by {spread:g}. Rescale them."
        )
    return _Sample(scores, share), sizes


def _shares(weights: Any, count: int, one: str) -> np.ndarray:
    """Checked weights of rows or lists."""
    if weights is None:
        return np.ones(count)
    share = real_array("focus", "weights", weights)
    if share.shape != (count,):
        raise ValueError(f"focus: weights must have one entry per {one} ({count}), got shape {share.shape}.")
    wrong = ~(np.isfinite(share) & (share >= 0.0))
    if wrong.any():
        raise ValueError(f"focus: weights must be finite and >= 0, got {share[wrong][0]} (in {wrong.sum()} {one}s).")
    if not share.any():
        raise ValueError("focus: weights must not all be 0, got only zeros.")
    return share


# -------------------------------------------------------------------------------------------------------- the regions


class _Region(NamedTuple):
    low: float
    high: float
    weight: float = 1.0

    def holds(self, scores: np.ndarray) -> np.ndarray:
        return (scores >= self.low) & (scores <= self.high)


def _regions(word: Any, between: Any, regions: Any, sample: _Sample, top: float) -> list[_Region]:
    """The regions that the user means; exactly one way of saying it must be used."""
    ways = {"a word": word, "between": between, "regions": regions}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise TypeError(
            f"focus: exactly one of a word, between and regions must be given, got {' and '.join(given) or 'none'}. "
            'Try focus("high", data=y).'
        )
    if word is not None:
        return _regions_of_word(word, sample, top)
    if between is not None:
        return [_region("between", between)]
    if isinstance(regions, (str, bytes, Mapping)) or not isinstance(regions, Iterable):
        raise TypeError(f"focus: regions must be a list of (low, high) or (low, high, weight), got {regions!r}.")
    found = [_region(f"regions[{i}]", region, weighted=True) for i, region in enumerate(regions)]
    if not found:
        raise ValueError("focus: regions must have at least 1 entry, got none.")
    heaviest = max(region.weight for region in found)
    return [region._replace(weight=region.weight / heaviest) for region in found]


def _regions_of_pairs(
    word: Any, between: Any, regions: Any, sample: _Sample, top: float, cap: float | None
) -> list[_Region]:
    """Regions of differences, the same for both signs, from what was said about their sizes."""
    if word is not None and word not in _WORDS_OF_PAIRS:
        raise _unknown("the word for pairs", word, _WORDS_OF_PAIRS, _OTHER_WORDS)
    distances = _Sample(np.abs(sample.scores), sample.weights)
    word = None if word is None else _WORDS_OF_PAIRS[word]
    sizes = _trimmed(_regions(word, between, regions, distances, top), cap, downwards=False)
    for low, high, _ in sizes:
        if low < 0.0 and word is None:
            raise ValueError(
                f"focus: regions of pairs must be sizes of differences, >= 0, got ({low:g}, {high:g}). Both signs are "
                "meant."
            )
    sides = [(_Region(-high, -low, weight), _Region(low, high, weight)) for low, high, weight in sizes if low > 0.0]
    return [*itertools.chain(*sides), *(_Region(-high, high, weight) for low, high, weight in sizes if low <= 0.0)]


def _region(name: str, value: Any, weighted: bool = False) -> _Region:
    sizes = (2, 3) if weighted else (2,)
    ends = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else []
    if len(ends) not in sizes:
        raise TypeError(f"focus: {name} must be (low, high{', weight' if weighted else ''}), got {value!r}.")
    low, high = (number("focus", name, end, infinite=True) for end in ends[:2])
    if not low < high:
        raise ValueError(f"focus: {name} must have low < high, got {value!r}.")
    return _Region(low, high, number("focus", f"the weight of {name}", ends[2], above=0.0) if len(ends) == 3 else 1.0)


def _regions_of_word(word: Any, sample: _Sample, top: float) -> list[_Region]:
    if word not in WORDS:
        raise _unknown("word", word, WORDS, _OTHER_WORDS)
    half = 0.5 + 0.5 * top
    if word == "high":
        return [_Region(sample.border_below(sample.upper_quantile(top)), math.inf)]
    if word == "low":
        return [_Region(-math.inf, sample.border_above(sample.quantile(top)))]
    if word == "middle":
        low, high = sample.border_below(sample.upper_quantile(half)), sample.border_above(sample.quantile(half))
        if not low < high:
            raise ValueError(
                f"focus: data must have scores that can be told apart, got neighbours of {low!r} that differ by "
                "rounding only. Round them, or use between=(low, high)."
            )
        return [_Region(low, high)]
    return [
        _Region(-math.inf, sample.border_above(sample.quantile(0.5 * top))),
        _Region(sample.border_below(sample.upper_quantile(0.5 * top)), math.inf),
    ]


def _unknown(name: str, value: Any, valid: Iterable[str], synonyms: Mapping[str, str] | None = None) -> ValueError:
    """The error for a word that is not known, with the nearest that is."""
    asked, valid = str(value).strip().lower(), tuple(valid)
    known = {**{w: m for w, m in (synonyms or {}).items() if m in valid}, **{w: w for w in valid}}
    close = nearest(asked, known)
    remedy = f" Did you mean {known[close]!r}?" if close else ""
    return ValueError(f"focus: {name} must be one of {', '.join(map(repr, valid))}, got {value!r}.{remedy}")


def _trimmed(regions: list[_Region], cap: float | None, downwards: bool) -> list[_Region]:
    """The regions without what lies beyond the cap."""
    if cap is None:
        return regions
    for low, high, _ in regions:
        start, side = (high, "below") if downwards else (low, "above")
        if (cap >= start) if downwards else (cap <= start):
            raise ValueError(
                f"focus: cap must lie {side} {start:g}, where the region {place(low, high)} starts, got {cap:g}: "
                "nothing of it would remain. Move the cap, or leave the region out."
            )
    if downwards:
        return [region._replace(low=max(region.low, cap)) for region in regions]
    return [region._replace(high=min(region.high, cap)) for region in regions]


def _inside(regions: list[_Region], sample: _Sample, word: str | None, cap: float | None, top: float) -> np.ndarray:
    """Which rows are inside; all or none are an error."""
    held = [region.holds(sample.scores) for region in regions]
    inside = np.logical_or.reduce(held)
    count = f"{len(sample.scores):,}"
    for region, rows in zip(regions, held, strict=True):
        if not rows.any():
            capped = f" (with the cap {cap:g})" if cap is not None else ""
            where = place(region.low, region.high)
            raise ValueError(
                f"focus: the region must hold some rows, got none of {count} {where}{capped}; the scores go from "
                f"{sample.lowest:g} to {sample.highest:g}. Choose ends inside that range."
            )
    if not inside.all():
        return inside
    remedy = "Choose a smaller region."
    if word is not None:
        ties = {"high": sample.lowest, "low": sample.highest}.get(word)
        share = None if ties is None else 1.0 - sample.mean((sample.scores == ties).astype(float))
        limit = "a smaller top" if share is None else f"top={float(f'{share:.3g}'):g} or less"
        remedy = f"Try {limit}, or between=(low, high)."
    where = " and ".join(place(region.low, region.high) for region in regions)
    asked = f" for {str(word)!r} with top={top:g}" if word is not None else ""
    raise ValueError(f"focus: the region must leave some rows outside, got all {count} rows {where}{asked}. {remedy}")


# ---------------------------------------------------------------------------------------------- the drawn sensitivity


def _level(region: _Region, edge: float, t: float, p: float, q: float) -> float:
    """How far a score is inside a region, from 0 to 1, on a stretch from p to q that holds no corner of it."""
    foot_low, foot_high = region.low - edge, region.high + edge
    if q <= foot_low or p >= foot_high:
        return 0.0
    if p >= region.low and q <= region.high:
        return 1.0
    if q <= region.low:
        return (t - foot_low) / (region.low - foot_low)
    return (foot_high - t) / (foot_high - region.high)


def _profile(regions: list[_Region], edge: float, floor: float) -> FromSensitivity:
    """The largest of the regions' trapezoids, each from the floor up to its weight."""
    corners = sorted(
        {c for r in regions for c in (r.low - edge, r.low, r.high, r.high + edge) if math.isfinite(c)},
    )

    def height(region: _Region, t: float, p: float, q: float) -> float:
        level = _level(region, edge, t, p, q)
        return floor * (1.0 - level) + region.weight * level

    outer = ((-math.inf, corners[0], corners[0]), (corners[-1], math.inf, corners[-1]))
    ends = [max(height(r, t, p, q) for r in regions) for p, q, t in outer]
    points = [(corners[0], ends[0])]
    for p, q in itertools.pairwise(corners):
        lines = [(height(r, p, p, q), height(r, q, p, q)) for r in regions]
        shares = {0.0, 1.0}
        for (a, b), (c, d) in itertools.combinations(lines, 2):
            if (a - c) * (b - d) < 0.0:
                shares.add((a - c) / ((a - c) - (b - d)))
        for share in sorted(shares):
            t = p + share * (q - p) if share < 1.0 else q
            points.append((t, max(a * (1.0 - share) + b * share for a, b in lines)))
    points.append((corners[-1], ends[1]))
    return _drawn(points)


def _drawn(points: list[tuple[float, float]]) -> FromSensitivity:
    """A drawing without the points that change nothing."""
    kept = [points[0]]
    for point, following in zip(points[1:], (*points[2:], None), strict=True):
        flat = following is not None and kept[-1][1] == point[1] == following[1]
        if point != kept[-1] and not flat:
            kept.append(point)
    kept = kept if len(kept) > 1 else kept * 2
    return FromSensitivity(tuple(t for t, _ in kept), tuple(v for _, v in kept))


def _root(function: Callable[[float], float], low: float, high: float, f_low: float, f_high: float) -> float:
    """Where a function changes its sign: the method of false position, halved where it creeps (Illinois)."""
    x = high
    for _ in range(200):
        x = high - f_high * (high - low) / (f_high - f_low)
        if not low < x < high:
            x = 0.5 * (low + high)
        value = function(x)
        if (value > 0.0) == (f_high > 0.0):
            high, f_high, f_low = x, value, 0.5 * f_low
        else:
            low, f_low, f_high = x, value, 0.5 * f_high
        if value == 0.0 or high - low <= 4e-16 * (abs(low) + abs(high)):
            break
    return x


class _Floors:
    """The sensitivity outside that gives a wished ratio of means, for any width of the ramps."""

    def __init__(self, regions: list[_Region], sample: _Sample, inside: np.ndarray, strength: float) -> None:
        self.regions = regions
        self.sample = sample
        self.inside = inside
        self.strength = strength

    def at(self, edge: float) -> float:
        """The floor for this width; not positive where none will do."""
        levels = np.array(
            [_profile([region._replace(weight=1.0)], edge, 0.0).slope(self.sample.scores) for region in self.regions]
        )
        weights = np.array([region.weight for region in self.regions])
        if weights.min() == weights.max():
            ramps = self.sample.mean(levels.max(axis=0), ~self.inside)
            return (1.0 / self.strength - ramps) / (1.0 - ramps) if ramps < 1.0 else 0.0
        return self._solved(levels, weights[:, None])

    def _solved(self, levels: np.ndarray, weights: np.ndarray) -> float:
        def means(floor: float) -> tuple[float, float]:
            heights = (floor * (1.0 - levels) + weights * levels).max(axis=0)
            return self.sample.mean(heights, self.inside), self.sample.mean(heights, ~self.inside)

        def excess(floor: float) -> float:
            within, without = means(floor)
            return within - self.strength * without

        least = float(weights.min())
        at_zero, at_least = excess(0.0), excess(least)
        if at_zero <= 0.0:
            return 0.0
        if at_least > 0.0:
            within, without = means(least)
            raise ValueError(
                f"focus: strength must be at least {_rounded_up(within / without)} with these weights, got "
                f"{self.strength:g}: the region of the smallest weight would matter less than the rows outside. "
                "Raise strength, or the smallest weight."
            )
        return _root(excess, 0.0, least, at_zero, at_least)


def _rounded_up(value: float) -> str:
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step) * step:.4g}"


#: ramps are narrowed until the floor is at least this part of the one between hard edges
_HIGH_ENOUGH = 0.25


def _edge_and_floor(floors: _Floors, edge: float | None) -> tuple[float, float]:
    """The width of the ramps, as given or found, and the floor."""
    hard = floors.at(0.0)
    if edge is not None:
        floor = floors.at(edge) if edge > 0.0 else hard
        if floor > 0.0:
            return edge, floor
        widest = _widest_edge(floors, edge)
        remedy = f"Try edge={widest:g} or less." if widest > 0.0 else "Rows lie next to the region: try edge=0."
        raise ValueError(
            f"focus: edge must be narrow enough that the rows on the ramps leave strength {floors.strength:g} "
            f"possible, got {edge:g}. {remedy}"
        )
    sample = floors.sample
    edge = 0.1 * (sample.upper_quantile(0.25) - sample.quantile(0.25))
    for _ in range(40):
        floor = floors.at(edge) if edge > 0.0 else hard
        if floor >= _HIGH_ENOUGH * hard:
            return edge, floor
        edge *= 0.5
    return 0.0, hard


def _widest_edge(floors: _Floors, too_wide: float) -> float:
    """The widest ramps with a positive floor, rounded down."""
    narrow, wide = 0.0, too_wide
    for _ in range(60):
        middle = 0.5 * (narrow + wide)
        narrow, wide = (middle, wide) if floors.at(middle) > 0.0 else (narrow, middle)
    if narrow == 0.0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(narrow)) - 2)
    rounded = float(f"{math.floor(narrow / step) * step:.3g}")
    return rounded if floors.at(rounded) > 0.0 else 0.0


# ----------------------------------------------------------------------------------------------- the paper's curves

#: slopes on the data, and links, stay within the range of single precision
_LARGEST_EXPONENT = 80.0


class _Member(NamedTuple):
    """A curve of the paper on data: where it is centred, and the logarithm of its slope."""

    curve: Curve
    centre: float
    log_slope: Callable[[np.ndarray], np.ndarray]


def _log_slope_of_sigmoid(x: np.ndarray) -> np.ndarray:
    return -np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x)))


def _log_slope_of_sinh(x: np.ndarray) -> np.ndarray:
    return np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x)))


def _member(family: str, kind: str, regions: list[_Region], sample: _Sample) -> _Member:
    first, last = regions[0], regions[-1]
    if family == "exp":
        if kind == "high":
            return _Member(Exp(), first.low, lambda x: x)
        return _Member(AntiExp(), first.high, lambda x: -x)
    if family == "sigmoid":
        centres = {"high": sample.highest, "low": sample.lowest, "middle": 0.5 * first.low + 0.5 * first.high}
        return _Member(Sigmoid(), centres[kind], _log_slope_of_sigmoid)
    centres = {"high": sample.lowest, "low": sample.highest, "extremes": 0.5 * first.high + 0.5 * last.low}
    return _Member(Sinh(), centres[kind], _log_slope_of_sinh)


def _kind(regions: list[_Region]) -> str | None:
    """The word for regions, by their shape."""
    regions = sorted(regions)
    open_low, open_high = math.isinf(regions[0].low), math.isinf(regions[-1].high)
    if len(regions) == 1:
        return "low" if open_low else "high" if open_high else "middle"
    return "extremes" if len(regions) == 2 and open_low and open_high else None


def _family_curve(family: Any, regions: list[_Region], sample: _Sample, inside: np.ndarray, strength: float) -> Curve:
    """A curve of the paper with the wished ratio of mean slopes, scaled to mean slope 1."""
    families = sorted({name for names in FAMILIES.values() for name in names})
    if family not in families:
        raise _unknown("family", family, families)
    kind = _kind(regions)
    if kind is None:
        raise ValueError(f"focus: family must be left out for {len(regions)} regions, got {family!r}.")
    if family not in FAMILIES[kind]:
        fitting = " or ".join(f"family={name!r}" for name in FAMILIES[kind])
        raise ValueError(
            f"focus: family must be sensitive where the region is ({kind}), got {family!r}. Try {fitting}, or leave "
            "family out."
        )
    member = _member(family, kind, sorted(regions), sample)
    distances = np.abs(sample.scores - member.centre)
    # the slope of sinh grows on both sides of its centre, the others matter only where the region is
    reach = float(distances.max() if family == "sinh" else distances[inside].max()) or float(distances.max())

    def log_ratio(log_alpha: float) -> float:
        logs = member.log_slope(math.exp(log_alpha) * (sample.scores - member.centre))
        slopes = np.exp(logs - logs.max())
        within, without = sample.mean(slopes, inside), sample.mean(slopes, ~inside)
        return math.log(within) - math.log(without) if without > 0.0 else 700.0

    low, high = math.log(1e-6 / float(distances.max())), math.log(_LARGEST_EXPONENT / reach)
    wished = math.log(strength)
    least, most = log_ratio(low), log_ratio(high)
    if not least < wished <= most:
        limit = f"between 1 and {math.exp(most):.3g}" if wished > most else "> 1"
        raise ValueError(
            f"focus: strength must be {limit} on these data with family={family!r}, got {strength:g}. "
            "Leave family out: the drawn profile reaches any strength."
        )
    alpha = math.exp(_root(lambda t: log_ratio(t) - wished, low, high, least - wished, most - wished))
    slopes = member.curve.affine(alpha=alpha, beta=member.centre).slope(sample.scores)
    return member.curve.affine(alpha=alpha, beta=member.centre, gain=1.0 / sample.mean(slopes))


# ---------------------------------------------------------------------------------------------------------- the wish


def focus(
    word: str | None = None,
    *,
    data: Any,
    top: float = 0.1,
    strength: float = 8.0,
    between: tuple[float, float] | None = None,
    regions: Iterable[tuple[float, ...]] | None = None,
    cap: float | None = None,
    edge: float | None = None,
    weights: Any = None,
    family: str | None = None,
    classes: bool = False,
    gamma: float = 1.0,
    of: str = "rows",
    segments: Any = None,
) -> MatchingLoss:
    """A loss that looks where you want it to: the front door of the library.

    The sensitivity is drawn as a trapezoid: high inside the region, a floor outside, ramps between. The floor is
    solved so that the mean sensitivity of the rows inside is ``strength`` times that of the rows outside; then
    everything is scaled so that its mean over the data is 1, as for squared error. The loss is convex by construction.
    Like every matching loss it elicits h^-1(E h(S)), not the mean: see ``loss.wish.elicited``.

    Parameters
    ----------
    word : {"high", "low", "middle", "extremes"}
        Which rows matter: the highest, the lowest, the central ones, or both tails.
    data : array of float
        Observed scores: a list, an array or a column. With ``classes=True`` rows of scores.
    top : float
        The share of rows that the word means, in (0, 1); for "extremes" half of it in each tail. Ties are included,
        and the borders are half-way to the next row.
    strength : float
        Mean sensitivity inside over mean sensitivity outside, >= 1.
    between : (low, high)
        A region instead of a word; ends may be infinite.
    regions : sequence of (low, high) or (low, high, weight)
        Several regions; weights are their relative sensitivities, > 0.
    cap : float
        A score beyond which accuracy matters no more (idle users): above it the sensitivity falls to the floor; for
        "low", below it. Rows beyond count as outside.
    edge : float
        Width of the ramps, >= 0; 0 makes the sensitivity jump. Default: a tenth of the inter-quartile range, halved
        while too many rows lie on the ramps.
    weights : array of float
        Weights of the rows, >= 0.
    family : {"sigmoid", "sinh", "exp"}
        A curve of the paper instead of the trapezoid, with the same ratio of means.
    classes : bool
        Whether rows are lists: the profile is then the slope of the scaling of a :class:`CompositeSoftmax`. The ratio
        of the mean Delta_k, which also depends on who leads, is reported and not solved for.
    gamma : float
        Regularisation of that Softmax, > 0.
    of : {"rows", "pairs", "lists"}
        What the loss looks at: single scores; differences of scores within lists, for
        :func:`selmatch.ranking.pairwise`; or lists, for :func:`selmatch.ranking.listwise` (as ``classes=True``). The
        words for pairs are "extremes" (large differences) and "middle" (small ones), ``between``, ``regions`` and
        ``cap`` mean sizes of differences, and each list counts the same, however long it is.
    segments : array of integers, Offsets or Sizes
        The list of each score, for pairs and lists of flat data; without it data are rows. ``weights`` are then those
        of the lists.

    Returns
    -------
    MatchingLoss
        With the record of what was made in ``loss.wish``, a :class:`Wish`.

    Examples
    --------
    >>> from selmatch.design import focus
    >>> visits = np.random.default_rng(0).lognormal(3.0, 1.0, size=1000)
    >>> loss = focus("high", data=visits)
    >>> print(loss.wish)
    scores from 68.69 up (10 % of 1,000 rows) are on average 8 times as sensitive as elsewhere; edge ...
    >>> round(loss.wish.mean, 1), round(loss.wish.elicited, 1)
    (30.6, 65.1)
    >>> stars = [5, 1, 3, 4, 4, 2]
    >>> print(focus("extremes", data=stars, of="pairs", segments=[7, 7, 7, 8, 8, 8]).wish)
    differences up to -3 and from 3 up (16.7 % of 12 pairs) are on average 8 times as sensitive as elsewhere; ...
    """
    top = number("focus", "top", top, above=0.0)
    if top >= 1.0:
        raise ValueError(f"focus: top must be a share of the rows, < 1, got {top}. For 10 % say top=0.1.")
    strength = number("focus", "strength", strength, at_least=1.0)
    cap = None if cap is None else number("focus", "cap", cap)
    edge = None if edge is None else number("focus", "edge", edge, at_least=0.0)
    gamma = number("focus", "gamma", gamma, above=0.0)
    if of not in KINDS:
        raise _unknown("of", of, KINDS)
    if classes and of == "pairs":
        raise ValueError("focus: classes must be left out for of='pairs', got True. For lists say of='lists'.")
    said = "classes=True" if classes else f"of={of!r}"
    of = "lists" if classes else of
    if segments is not None and of == "rows":
        raise ValueError("focus: segments must be left out for rows, got some. For lists say of='pairs' or 'lists'.")
    classes = of == "lists"
    if gamma != 1.0 and not classes:
        looked_at = "single scores" if of == "rows" else "pairs"
        raise ValueError(f"focus: gamma must be left out for {looked_at}, got {gamma}. For lists say of='lists'.")
    if family is not None and not (cap is None and edge is None):
        raise ValueError(f"focus: cap and edge must be left out with family={family!r}, whose shape is given.")
    sample, sizes = _sample(data, weights, of, segments, said)
    if of == "pairs":
        wanted = _regions_of_pairs(word, between, regions, sample, top, cap)
    else:
        wanted = _trimmed(_regions(word, between, regions, sample, top), cap, downwards=word == "low")
    inside = _inside(wanted, sample, word, cap, top)
    floor = None
    if family is None:
        edge, floor = _edge_and_floor(_Floors(wanted, sample, inside, strength), edge)
        drawn = _profile(wanted, edge, floor)
        gain = 1.0 / sample.mean(drawn.slope(sample.scores))
        curve: Curve = FromSensitivity(drawn.knots, tuple(gain * value for value in drawn.values))
        floor *= gain
    else:
        curve = _family_curve(family, wanted, sample, inside, strength)
    if classes:
        potential = CompositeSoftmax(_scaling(curve, word or _kind(wanted), sample), gamma=gamma)
        slopes = _slopes_of_lists(potential, sample.scores, sizes)
    else:
        potential, slopes = curve, np.asarray(curve.slope(sample.scores))
    loss = MatchingLoss(potential)
    elicited = None if classes else float(loss.minimiser(sample.scores, weights=sample.weights))
    wish = Wish(
        word=None if word is None else str(word),
        regions=tuple((low, high, weight) for low, high, weight in sorted(wanted)),
        top=top if word is not None else None,
        covered=sample.mean(inside.astype(float)),
        rows=len(sample.scores),
        strength=strength,
        reached=_ratio(sample.mean(slopes, inside), sample.mean(slopes, ~inside)),
        median_ratio=_ratio(sample.median(slopes, inside), sample.median(slopes, ~inside)),
        edge=edge,
        floor=floor,
        cap=cap,
        family=None if family is None else str(family),
        classes=bool(classes),
        mean=sample.mean(sample.scores),
        median=sample.quantile(0.5),
        lowest=sample.lowest,
        highest=sample.highest,
        quartiles=(sample.quantile(0.25), sample.upper_quantile(0.25)),
        elicited=elicited,
        start=elicited,
        curvature=(float(slopes.min()), float(slopes.max())),
        of=of,
    )
    logger.info("focus: %s", wish)
    return dataclasses.replace(loss, wish=wish)


def _slopes_of_lists(potential: CompositeSoftmax, scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Delta_k of every score."""
    from selmatch.ranking import listwise  # which draws nothing from here, but takes its time to load

    return listwise.curvature(scores, scores, potential, segments=Sizes(sizes))


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0.0 else math.inf


def _scaling(curve: Curve, kind: str | None, sample: _Sample) -> Curve:
    """The curve as a scaling q whose sign agrees with the region: 0 at the least sensitive score."""
    zero = {"high": sample.lowest, "low": sample.highest}.get(kind or "", sample.quantile(0.5))
    return curve + Constant(-float(curve(zero)))
