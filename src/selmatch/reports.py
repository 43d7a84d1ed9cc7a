"""What a loss does, in plain words and numbers: region by region, and class by class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.arrays.namespaces import is_number
from selmatch.columns import finite_column, to_numpy
from selmatch.composite import CompositeSoftmax, Separable, _others
from selmatch.curve import Interval
from selmatch.landmarks import SteepRegion, steep_regions, telling_scores, within
from selmatch.losses import potential_of
from selmatch.observed import (
    Continuum,
    Domain,
    Sample,
    link_of,
    observed_scores,
    reaches,
    require_reach,
    shift_of,
)
from selmatch.parameters import number, pair

__all__ = ["RankedClass", "RankingReport", "Region", "RegionReport", "ranking_report", "region_report"]

# -------------------------------------------------------------------------------------------------------- regions


@dataclass(frozen=True)
class Region:
    """What a loss does with the scores of one region.

    Attributes
    ----------
    low, high : float
        The region.
    share : float
        Share of the observed scores in it (of the domain's length when there are no data).
    sensitivity : float
        Their mean sensitivity; NaN when there are none.
    weight : float
        Their share of the total sensitivity: by how much all predictions follow a small bias of the region.
    shift : float
        By how much all predictions move when every score in the region carries the report's bias.
    narrow : tuple of SteepRegion
        Narrow parts of it in which the loss is much more sensitive than beside them.
    """

    low: float
    high: float
    share: float
    sensitivity: float
    weight: float
    shift: float
    narrow: tuple[SteepRegion, ...] = ()


@dataclass(frozen=True)
class RegionReport:
    """Where a loss is sensitive, region by region; made by :func:`region_report`, printed in plain words."""

    link: str
    bias: float
    regions: tuple[Region, ...]

    def __str__(self) -> str:
        amount = "one unit of bias" if self.bias == 1.0 else f"a bias of {self.bias:g}"
        lines = [f"Sensitivity of {self.link} by region:"]
        starts = {region.low for region in self.regions}
        for region in self.regions:
            place = f"scores in {Interval(region.low, region.high, open_high=region.high in starts)}"
            if region.share == 0.0:
                lines.append(f"  {place}: none were observed.")
                continue
            lines.append(
                f"  {place} ({region.share:.0%} of all): {amount} among them moves every prediction by "
                f"{region.shift:.2g}; mean sensitivity {region.sensitivity:.3g}, {region.weight:.0%} of the total."
            )
            lines += [f"    A narrow part of it is more sensitive: {narrow}." for narrow in region.narrow]
        return "\n".join(lines)


def region_report(
    loss: Any,
    regions: Sequence[Any] | None = None,
    data: Any = None,
    domain: Domain = None,
    *,
    weights: Any = None,
    bias: float | None = None,
) -> RegionReport:
    """Where a loss is sensitive, in numbers and plain words: print it.

    Parameters
    ----------
    loss : MatchingLoss, potential or Curve
        With a single link.
    regions : sequence of pairs, optional
        Regions of scores, in any order, or a single pair; ends may be infinite. None: fifths of the data, or thirds of
        the domain when there are no data. A score on the border of two regions belongs to the upper one.
    data : array, optional
        Observed scores; without them all scores of the domain count alike.
    domain : pair or Interval, optional
        As for :func:`bust`.
    weights : array, optional
        Of the data.
    bias : float, optional
        The bias whose effect is reported; by default 1, or a tenth, hundredth ... of it where the link is not defined
        that far.

    Examples
    --------
    >>> from selmatch.analysis import region_report
    >>> print(region_report(Exp(), [(0, 2), (2, 3)], domain=(0, 4)))
    Sensitivity of Exp() by region:
      scores in [0, 2) (50% of all): one unit of bias among them moves every prediction by 0.19; mean sensitivity 3.19,
      12% of the total.
      scores in [2, 3] (25% of all): one unit of bias among them moves every prediction by 0.34; mean sensitivity 12.7,
      24% of the total.
    """
    who = "region_report"
    curve = link_of(who, loss)
    scores = observed_scores(who, curve, domain, data, weights)
    total = scores.mean_slope(curve)
    if not 0.0 < total < math.inf:
        raise ValueError(
            f"{who}: the mean sensitivity of the observed scores must be positive and finite, got {total:g}."
        )
    pairs = _default_regions(scores) if regions is None else _given_regions(who, regions)
    if not pairs:
        raise ValueError(f"{who}: regions must hold one region at least, got none.")
    starts = {part.low for part in pairs}
    parts = [_common(part, scores, open_high=part.high in starts) for part in pairs]
    inner = [part for part in parts if part is not None and scores.share(part) > 0.0]
    if bias is None:
        sizes = [float(f"1e-{digits}") for digits in range(13)]
        bias = next((size for size in sizes if all(reaches(curve, part, size) for part in inner)), sizes[-1])
    bias = number(who, "bias", bias)
    for part in inner:
        require_reach(who, curve, part, bias)

    everywhere = telling_scores(curve, scores.low, scores.high)
    with np.errstate(all="ignore"):
        narrow = steep_regions(everywhere, np.asarray(curve.slope(everywhere), dtype=float) + 0.0 * everywhere)

    def look(pair: Interval, part: Interval | None) -> Region:
        share = 0.0 if part is None else scores.share(part)
        if part is None or share == 0.0:
            return Region(pair.low, pair.high, 0.0, math.nan, 0.0, 0.0)
        rise = scores.mean_slope(curve, part=part)
        shift = shift_of(who, curve, scores, part, bias)
        return Region(pair.low, pair.high, share, rise / share, rise / total, shift, within(narrow, part))

    return RegionReport(repr(curve), bias, tuple(map(look, pairs, parts)))


def _given_regions(who: str, regions: Any) -> list[Interval]:
    if isinstance(regions, Interval) or (isinstance(regions, Sequence) and all(map(is_number, regions)) and regions):
        regions = [regions]
    return [Interval(*pair(who, "each region", region, infinite=True)) for region in regions]


def _common(part: Interval, scores: Continuum | Sample, open_high: bool) -> Interval | None:
    """What a region has in common with the domain."""
    low, high = max(part.low, scores.low), min(part.high, scores.high)
    return Interval(low, high, False, open_high and high == part.high) if low < high else None


def _default_regions(scores: Continuum | Sample) -> list[Interval]:
    if isinstance(scores, Sample):
        order = np.argsort(scores.scores, kind="stable")
        reached = np.cumsum(scores.shares[order])
        places = np.searchsorted(reached, np.arange(1, 5) / 5 - 1e-12)
        inner = [float(scores.scores[order][i]) for i in places]
    else:
        inner = [scores.low + scores.length * i / 3 for i in (1, 2)]
    edges = sorted({scores.low, *inner, scores.high})
    return [Interval(a, b) for a, b in itertools.pairwise(edges)]


# -------------------------------------------------------------------------------------------------------- ranking


@dataclass(frozen=True)
class RankedClass:
    """What a loss for many classes does with one of them.

    Attributes
    ----------
    index : int
        Which class.
    score, probability : float
        z_k and p_k (NaN for losses without probabilities).
    sensitivity, share : float
        Delta_k, and its share of the sum over all classes.
    region, ranking : float
        Its two parts: p_k q'(z_k), from where the score lies, and p_k (1 - p_k) q(z_k)^2 / gamma, from the competition.
    response : float
        The derivative of Delta_k when all other scores rise together.
    as_leader, as_runner_up : float
        Delta_k after all other scores have moved together so that the best of them is the report's margin below, or
        above, this one; NaN where they would leave the domain.
    """

    index: int
    score: float
    probability: float
    sensitivity: float
    share: float
    region: float
    ranking: float
    response: float
    as_leader: float
    as_runner_up: float

    @property
    def is_movable(self) -> bool:
        """Whether the other scores can be moved to either side of this one without leaving the domain."""
        return not (math.isnan(self.as_leader) or math.isnan(self.as_runner_up))


@dataclass(frozen=True)
class RankingReport:
    """Which class's score matters, and why; made by :func:`ranking_report`, printed in plain words."""

    potential: str
    margin: float
    classes: tuple[RankedClass, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The classes, the most sensitive first."""
        return tuple(c.index for c in sorted(self.classes, key=lambda c: -c.sensitivity))

    @property
    def pairs(self) -> tuple[tuple[int, int, float], ...]:
        """Of every two classes the one whose move costs more, the other, and how many times more."""
        ranked = [self.classes[i] for i in self.order]
        return tuple(
            (a.index, b.index, a.sensitivity / b.sensitivity if b.sensitivity else math.inf)
            for i, a in enumerate(ranked)
            for b in ranked[i + 1 :]
        )

    @property
    def ranks(self) -> bool:
        """Whether the sensitivity of any class depends on the scores of the others."""
        moved = ((c.as_leader, c.as_runner_up) for c in self.classes if c.is_movable)
        return any(c.response != 0.0 for c in self.classes) or any(a != b for a, b in moved)

    def __str__(self) -> str:
        lines = [f"Sensitivity of {self.potential} at ({', '.join(f'{c.score:g}' for c in self.classes)}):"]
        for i in self.order:
            c = self.classes[i]
            lines.append(
                f"  class {c.index} (score {c.score:g}): {c.sensitivity:.3g}, {c.share:.0%} of the total; "
                f"{c.region:.3g} from its region, {c.ranking:.3g} from its rank."
            )
            if c.is_movable and self.ranks:
                lines.append(
                    f"    With the best of the others {self.margin:g} below it: {c.as_leader:.3g}; "
                    f"{self.margin:g} above it: {c.as_runner_up:.3g}."
                )
        if not self.ranks:
            lines.append("  It does not rank: no class's sensitivity depends on the other scores.")
        for a, b in itertools.pairwise(self.order):
            less = self.classes[b].sensitivity
            ratio = self.classes[a].sensitivity / less if less else math.inf
            times = "as much as" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times as much as"
            times = times if less else "something,"
            lines.append(f"  A small move of class {a} costs {times} one of class {b}{'' if less else ' nothing'}.")
        return "\n".join(lines)


def ranking_report(loss: Any, scores: Any, *, margin: float | None = None) -> RankingReport:
    """Which of many classes a loss is sensitive to at given scores, and whether because of region or of rank.

    The same score may matter much as the highest and not at all as a lower one: compare ``as_leader`` with
    ``as_runner_up``.

    Parameters
    ----------
    loss : MatchingLoss, CompositeSoftmax or Separable
        A loss for many classes.
    scores : sequence of float
        The scores of one row, at least two.
    margin : float, optional
        Distance to the best other score in the questions "as leader" and "as runner-up"; by default that of the two
        best scores, or 1 for a tie.

    Examples
    --------
    >>> from selmatch.analysis import ranking_report
    >>> softmax = CompositeSoftmax(Exp().affine(alpha=0.5, gain=0.5))
    >>> print(ranking_report(softmax, [3.0, 1.0]))
    Sensitivity of CompositeSoftmax(Exp().affine(alpha=0.5, gain=0.5)) at (3, 1):
      class 0 (score 3): 1.32, 96% of the total; 1.06 from its region, 0.264 from its rank.
        With the best of the others 2 below it: 1.32; 2 above it: 0.00278.
      class 1 (score 1): 0.0586, 4% of the total; 0.0229 from its region, 0.0357 from its rank.
        With the best of the others 2 below it: 0.436; 2 above it: 0.0586.
      A small move of class 0 costs 22.6 times as much as one of class 1.
    """
    who = "ranking_report"
    potential = potential_of(who, loss)
    if not isinstance(potential, (CompositeSoftmax, Separable)):
        raise TypeError(f"{who}: loss must be one for many classes, got {potential!r}. Try region_report(loss).")
    z = finite_column(who, "scores", scores)
    if np.ndim(to_numpy(scores)) > 1:
        raise ValueError(f"{who}: scores must be those of one row, got shape {np.shape(to_numpy(scores))}.")
    if len(z) < 2:
        raise ValueError(f"{who}: scores must hold two classes at least, got {len(z)}.")
    if not np.all(potential.holds(z, interior=True)):
        raise ValueError(f"{who}: scores must lie in {potential.domain}, got {z.tolist()}.")
    best = np.sort(z)[::-1]
    margin = float(best[0] - best[1]) or 1.0 if margin is None else number(who, "margin", margin, above=0.0)
    with np.errstate(all="ignore"):
        delta = potential.slope(z)
        p, region, ranking, response = _parts_of_sensitivity(potential, z, delta)
        total = delta.sum()
        share = delta / total if total else np.full_like(delta, math.nan)
        moved = {
            way: [_with_best_other_at(potential, z, k, z[k] + way * margin) for k in range(len(z))] for way in (-1, 1)
        }
    columns = (z, p, delta, share, region, ranking, response, moved[-1], moved[1])
    rows = zip(*(np.asarray(column, dtype=float).tolist() for column in columns), strict=True)
    return RankingReport(repr(potential), margin, tuple(RankedClass(k, *row) for k, row in enumerate(rows)))


def _parts_of_sensitivity(potential: Any, z: np.ndarray, delta: np.ndarray) -> tuple[np.ndarray, ...]:
    """p_k, the region and the ranking part of Delta_k, and its derivative in the scores of all others together."""
    if isinstance(potential, Separable):
        return np.full_like(z, math.nan), delta, 0.0 * z, 0.0 * z
    rows, q, bend = potential._rows(z), potential.scaling(z), potential.scaling.slope(z)
    region, ranking = rows.times(bend), rows.times(_others(rows) * q * q / potential.gamma)
    flow = rows.times(q) / potential.gamma
    others = np.array([np.delete(flow, k).sum() for k in range(len(z))])
    response = -others * rows.times(bend + (1.0 - 2.0 * rows.p) * q * q / potential.gamma)
    return rows.p, region, ranking, response


def _with_best_other_at(potential: Any, z: np.ndarray, k: int, place: float) -> float:
    """Delta_k after all other scores have moved together so that the best of them is at a place."""
    moved = z + (place - np.delete(z, k).max())
    moved[k] = z[k]
    return float(potential.slope(moved)[k]) if np.all(potential.holds(moved, interior=True)) else math.nan
