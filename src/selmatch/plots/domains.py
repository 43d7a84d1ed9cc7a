"""Which scores a picture shows, and lines that follow every jump of a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from selmatch.columns import finite_column
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curve import REALS, Curve, Interval
from selmatch.landmarks import telling_scores
from selmatch.losses import Loss, MatchingLoss, PerLabel, loss_of, potential_of
from selmatch.parameters import has_plain_numbers, pair
from selmatch.plots.style import LARGE, short_number
from selmatch.scales import UNCHANGED, Scale, scale_of, scores_of
from selmatch.words import readable

#: points of a line before it is refined
SAMPLES = 241
#: a step between two points higher than this share of the line is halved, again and again
STEP = 0.02
MOST_HALVINGS, MOST_POINTS = 44, 4000
#: the distance from an end at which a function is infinite, as a share of the width
MARGIN = 0.02
#: the share of the rows that pictures leave out on each side: a long tail would flatten all the rest
TAIL = 0.005
#: data with at most so many values are grades or counts: each value is a group
FEW_VALUES = 10
#: marks along an axis of logarithms
MOST_TICKS = 8


def drawable(who: str, loss: Any) -> Any:
    """Any loss; curves and potentials become one, also those that are no links: a picture may show why."""
    if isinstance(loss, Loss):
        found = loss
    else:
        potential = potential_of(who, loss)
        try:
            found = loss_of(who, potential)
        except ValueError:
            found = MatchingLoss(potential, check=False)
    if found.potential is not None and not has_plain_numbers(found.potential):
        raise TypeError(f"{who}: the parameters must be plain numbers, got {found.potential!r}.")
    return found


def single_curves(who: str, loss: Any) -> dict[float | None, Curve]:
    """The link of a loss for single scores, under None; of PerLabel that of each label."""
    potential = drawable(who, loss).potential
    if isinstance(potential, PerLabel):
        return dict(zip(potential.labels, potential.curves, strict=True))
    if isinstance(potential, Curve):
        return {None: potential}
    raise TypeError(f"{who}: loss must have a link for single scores, got {loss!r}. Use projections(loss, scores).")


def shown(
    who: str, loss: Any, domain: Any = None, data: Any = None, around: Sequence[float] = ()
) -> tuple[float, float]:
    """The scores that a picture shows: as given, else of the data, else of the wish, else what is typical.

    Always inside the domain, and a little away from ends at which the link is infinite. What is given is in units of
    the target, where the scores of the loss are logarithms.
    """
    found = drawable(who, loss)
    allowed = _allowed(who, found.potential)
    around = tuple(scores_of(who, "scores", np.asarray(around, dtype=float), found))
    if domain is not None:
        low, high = scores_of(who, "domain", np.array(pair(who, "domain", domain)), found)
    elif data is not None:
        low, high = _bulk(scores_of(who, "data", finite_column(who, "data", data), found))
    elif getattr(found, "wish", None) is not None:
        low, high = _wished(found.wish)
    else:
        low, high = _typical(found.potential)
    if domain is None and around:
        margin = 0.1 * (max(high, *around) - min(low, *around))
        low = low if low <= min(around) else min(around) - margin
        high = high if high >= max(around) else max(around) + margin
    inside = Interval(low, high).overlap(allowed)
    if inside is None:
        raise ValueError(f"{who}: domain must share more than a point with {allowed}, the domain of the link, "
                         f"got ({low:g}, {high:g}).")  # fmt: skip
    margin = MARGIN * (inside.high - inside.low)
    low, high = inside.low + margin * inside.open_low, inside.high - margin * inside.open_high
    wanted = [score for score in around if domain is None and inside.holds(score, interior=True)]
    return float(min([low, *wanted])), float(max([high, *wanted]))


def name_scores(ax: Any, loss: Any, words: str = "target") -> None:
    """Write scores that are logarithms as targets, along an axis that says so."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    scale = scale_of(loss)
    if scale == UNCHANGED:
        return
    ticks = _round_targets(scale, *ax.get_xlim())
    ax.xaxis.set_major_locator(FixedLocator(scale(ticks).tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    short = short_number if ticks.max(initial=0.0) >= LARGE else readable
    ax.xaxis.set_major_formatter(FuncFormatter(lambda score, _: short(float(scale.undone(score)))))
    ax.set_xlabel(f"{words}, along {scale.words}")


def _round_targets(scale: Scale, low: float, high: float) -> np.ndarray:
    """A few targets of few digits between two scores: 1, 2, 5, 10 ..., or powers of ten where there is much room."""
    first, last = (float(scale.undone(end)) for end in (low, high))
    powers = 10.0 ** np.arange(-12, 16)
    for digits in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = np.unique([0.0, *np.outer(powers, digits).ravel()])
        found = found[(found >= max(first, 0.0)) & (found <= last)]
        scores = scale(found)
        found = found[np.isfinite(scores) & (np.diff(scores, prepend=-np.inf) > 0.02 * (high - low))]
        if 2 <= len(found) <= MOST_TICKS:
            return found
    if len(found) > MOST_TICKS:
        return found[:: -(-len(found) // MOST_TICKS)]
    return np.array([float(f"{target:.3g}") for target in scale.undone(np.linspace(low, high, 5)[1:-1])])


def _allowed(who: str, potential: Any) -> Interval:
    if isinstance(potential, PerLabel):
        allowed = REALS
        for curve in potential.curves:
            both = allowed.overlap(curve.domain)
            if both is None:
                raise ValueError(f"{who}: the links of all labels must share a domain, got {potential!r}.")
            allowed = both
        return allowed
    return REALS if potential is None else potential.domain


def curve_of(potential: Any) -> Curve | None:
    """The one curve that a potential is made of: link, link of each class, or scaling."""
    if isinstance(potential, CompositeSoftmax):
        return potential.scaling
    if isinstance(potential, Separable):
        return potential.curve
    return potential if isinstance(potential, Curve) else None


def _typical(potential: Any) -> tuple[float, float]:
    if isinstance(potential, PerLabel):
        windows = [curve.window() for curve in potential.curves]
        return min(low for low, _ in windows), max(high for _, high in windows)
    curve = curve_of(potential)
    low, high = REALS.window() if curve is None else curve.window()
    return (low, high) if low < high else (high, low)


def _bulk(scores: np.ndarray) -> tuple[float, float]:
    low, high = (float(end) for end in np.quantile(scores, [TAIL, 1.0 - TAIL]))
    if low == high:
        low, high = float(scores.min()), float(scores.max())
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _wished(wish: Any) -> tuple[float, float]:
    """Twice as far from the median as quartiles and regions are, but not beyond the data."""
    ends = [end for region in wish.regions for end in region[:2] if math.isfinite(end)]
    reach = max(abs(end - wish.median) for end in (*ends, *wish.quartiles))
    low, high = max(wish.lowest, wish.median - 2.0 * reach), min(wish.highest, wish.median + 2.0 * reach)
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def typical_scores(low: float, high: float, count: int = 3) -> tuple[float, ...]:
    """A few observed scores: the paper's -3, 0, 3 where they fit, else low, middle and high ones of few digits."""
    if count == 3 and -12.0 <= low <= -3.0 and 3.0 <= high <= 12.0:
        return -3.0, 0.0, 3.0
    width = high - low
    places = low + width * np.linspace(0.125, 0.875, count) if count > 1 else np.array([low + 0.5 * width])
    unit = 10.0 ** (math.floor(math.log10(width)) - 1)
    rounded = tuple(float(f"{unit * round(place / unit):.12g}") for place in places)
    return rounded if all(low < score < high for score in rounded) else tuple(places.tolist())


def typical_observations(scores: np.ndarray, regions: Sequence[Sequence[float]] = ()) -> tuple[float, ...]:
    """A few scores of the data, with as few digits as tell them apart: at most three, or one for each region.

    Where there are few values (grades): the lowest, a middle and the highest one. Else the tenths at both ends and the
    median, of which the nearest ones give way to the middle of the rows in each region.

    Parameters
    ----------
    scores : array of shape (n,)
        Observed scores, at best only those that are shown.
    regions : sequence of (low, high, ...)
        Where accuracy matters.
    """
    values = np.unique(scores)
    if values.size <= FEW_VALUES:
        taken = {float(value) for value in values[[0, values.size // 2, -1]]}
    else:
        inside = (scores[(scores >= low) & (scores <= high)] for low, high, *_ in regions)
        centres = {float(np.median(part)) for part in inside if part.size}
        others = [float(score) for score in np.quantile(scores, (0.1, 0.5, 0.9))]
        for centre in sorted(centres)[: len(others)]:
            others.remove(min(others, key=lambda score, centre=centre: abs(score - centre)))
        taken = {*centres, *others}
    low, high = float(values[0]), float(values[-1])
    for digits in range(3, 17):
        rounded = sorted({float(f"{score:.{digits}g}") for score in taken})
        if len(rounded) == len(taken) and low <= rounded[0] and rounded[-1] <= high:
            return tuple(rounded)
    return tuple(sorted(taken))


@np.errstate(all="ignore")
def traced(function: Callable[[np.ndarray], Any], low: float, high: float, through: Sequence[float] = ()) -> np.ndarray:
    """Points (z, function(z)) of a line, dense where it is steep: a jump is upright. NaN where it is not finite."""

    def values(z: np.ndarray) -> np.ndarray:
        found = np.broadcast_to(np.asarray(function(z), dtype=float), z.shape)
        return np.where(np.isfinite(found), found, np.nan)

    z = np.unique([*np.linspace(low, high, SAMPLES), *(score for score in through if low <= score <= high)])
    y = values(z)
    if not np.isfinite(y).any():
        return np.column_stack([z, y])
    bottom, top = np.nanmin(y), np.nanmax(y)
    least = STEP * (top - bottom)
    if not least > 0.0:
        return np.column_stack([z, y])
    for _ in range(MOST_HALVINGS):
        # clipped, so that nobody climbs after a pole
        steep = np.flatnonzero(np.abs(np.diff(np.clip(y, bottom, top))) > least)
        middle = 0.5 * z[steep] + 0.5 * z[steep + 1]
        new = (middle > z[steep]) & (middle < z[steep + 1])
        if not new.any() or z.size + new.sum() > MOST_POINTS:
            break
        at = steep[new] + 1
        z, y = np.insert(z, at, middle[new]), np.insert(y, at, values(middle[new]))
    return np.column_stack([z, y])


def traced_slope(curve: Curve, low: float, high: float) -> np.ndarray:
    """The slope of a curve as a line that has every narrow steep region, at its full height."""
    return traced(curve.slope, low, high, telling_scores(curve, low, high).tolist())


def jumps_in(points: np.ndarray) -> list[float]:
    """The scores at which a traced line is upright: where its function jumps."""
    z, y = points.T
    finite = np.isfinite(y)
    if not finite.any():
        return []
    rise = np.abs(np.diff(np.where(finite, y, np.nan)))
    near = 1e-9 * (z[-1] - z[0])
    places = z[1:][(np.diff(z) <= near) & (rise > STEP * np.ptp(y[finite]))]
    apart = np.diff(places, prepend=-np.inf) > near  # a value half-way up is no second jump
    return places[apart].tolist()
