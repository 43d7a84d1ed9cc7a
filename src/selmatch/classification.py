"""What a curve is good for, measured: which scores matter, does it separate, clip, rank, and is p monotone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.composite import CompositeSigmoid, CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.landmarks import SteepRegion, extremes, landmarks, refined, steep_regions
from selmatch.losses import PerLabel, potential_of
from selmatch.parameters import has_plain_numbers, number, pair
from selmatch.scales import TAKE_LOGARITHMS, require_scores

__all__ = ["Classification", "classify"]

Array = Any
ROLES = ("link", "sigmoid", "softmax")

#: sensitivities that differ by less than this share of the largest count as equal
TIE = 0.05
#: hills of the profile are different ones when the valley between them is at most half as high as both, and lower by
#: this share of the highest one
HILL = 0.2
#: beside a steep part a side is calm when its mean sensitivity is at most this share of the steep part's
CALM = 2.0 / 3.0
#: how much of the domain a calm side must cover at least
CALM_LENGTH = 0.1
_CELLS = 96
_LIST = 9
_NARROW = 2.0**-20


@dataclass(frozen=True)
class Classification:
    """What :func:`classify` measured; printed in plain words.

    Attributes
    ----------
    subject : str
        The loss or curve.
    role : {"link", "sigmoid", "softmax", "separable"}
        How it is used.
    domain : tuple of float
        The scores that were looked at.
    focus : {"high scores", "low scores", "high norms", "low norms", "mixed", "uniform"}
        Which scores matter most. The norm of a score is its distance from the middle of the domain.
    separates : bool
        Whether a steep part lies between two calm ones, so that scores on both sides are told apart although moves on
        either side cost little.
    monotone : {"increasing", "decreasing", None}
        Whether the link (of composites: the probability p as function of its score) never falls, never rises, or does
        both.
    clips : tuple of pairs
        Regions of the domain where moves cost nothing.
    ranks : bool
        Whether the sensitivity of a class depends on the scores of the others.
    symmetric : bool
        Whether reflecting all scores at the middle of the domain leaves the loss unchanged.
    sensitivities : tuple of float
        Behind ``focus``: mean sensitivities of the lower, middle and upper third of the domain; for a Softmax those of
        three classes with scores at the low end, the middle and the high end.
    profile : tuple of float
        Mean sensitivities of equal parts of the domain; for a Softmax those of nine classes with scores spread evenly.
    extremes : tuple of float
        The smallest and the largest sensitivity of all scores of the domain; for a Softmax those of one class beside
        two others in the middle.
    narrow : tuple of SteepRegion
        Narrow regions in which the loss is much more sensitive than beside them.
    """

    subject: str
    role: str
    domain: tuple[float, float]
    focus: str
    separates: bool
    monotone: str | None
    clips: tuple[tuple[float, float], ...]
    ranks: bool
    symmetric: bool
    sensitivities: tuple[float, float, float]
    profile: tuple[float, ...]
    extremes: tuple[float, float]
    narrow: tuple[SteepRegion, ...]

    @property
    def invertible(self) -> bool:
        """Whether link (or p) values tell the scores of the domain apart."""
        return self.monotone is not None and not self.clips

    @property
    def negative(self) -> bool:
        """Whether a sensitivity below 0 was found, so that the loss is not convex; finding none proves nothing."""
        return min(*self.profile, *self.sensitivities) < -1e-12 * max(map(math.fabs, self.profile))

    def __str__(self) -> str:
        low, high = self.domain
        roles = {
            "link": "as link",
            "sigmoid": "as composite Sigmoid",
            "softmax": "as composite Softmax",
            "separable": "class by class",
        }
        where = "at the low end, middle and high end" if self.role == "softmax" else "in the low, middle and high third"
        subject = "the link" if self.role in ("link", "separable") else "the probability"
        lines = [
            f"{self.subject} {roles[self.role]} on [{low:g}, {high:g}]: {_FOCUS[self.focus]}",
            f"  Sensitivity {where}: {', '.join(f'{x:.3g}' for x in self.sensitivities)}.",
            *(f"  A narrow region is more sensitive: {region}." for region in self.narrow),
            "  It tells low from high scores, whatever happens among either."
            if self.separates
            else "  It does not set low scores apart from high ones by a steep part between calm ones.",
            f"  As its score rises, {subject} {_MONOTONE[self.monotone]}.",
        ]
        if self.clips:
            lines.append("  Moves cost nothing in " + " and ".join(f"[{a:g}, {b:g}]" for a, b in self.clips) + ".")
        if self.role in ("softmax", "separable"):
            lines.append(f"  How much a class matters {'depends' if self.ranks else 'does not depend'} on the others.")
        if self.symmetric:
            lines.append("  High and low scores are treated alike.")
        if self.negative:
            lines.append("  A sensitivity is negative: the loss is not convex.")
        return "\n".join(lines)


_FOCUS = {
    "high scores": "high scores matter most.",
    "low scores": "low scores matter most.",
    "high norms": "scores at both ends matter most (high norms).",
    "low norms": "scores in the middle matter most (low norms).",
    "mixed": "several regions matter, with calm ones between them (mixed).",
    "uniform": "no region matters more than another (uniform).",
}
_MONOTONE = {"increasing": "never falls", "decreasing": "never rises", None: "rises and falls"}


def classify(loss: Any, domain: Any = (-3.0, 3.0), *, role: str | None = None, gamma: float = 1.0) -> Classification:
    """Which scores a loss looks at, and what else it does, measured from its functions.

    Nothing is looked up by name; the rules are:

    * The mean sensitivity of a part of the domain is the rise of the link over its length: exact, also with jumps and
      infinite slopes. A Softmax is measured at three classes, at both ends and the middle, without class biases.
    * These three decide the focus; differences below 5 % of the largest are none. A Softmax is uniform also when moving
      all scores together changes nothing. A profile with more hills than the three show is mixed; two hills count as
      different when the valley between them is at most half as high as either.
    * It separates if the shortest part with half of the rise lies between two sides, each at least a tenth of the
      domain, whose mean sensitivity is at most 2/3 of its own (for a Softmax: as one of three scores moves, the others
      being in the middle).
    * Flat pieces are found by exact zeros of the rise. Those shorter than 2 % of the domain are found where the
      structure of the curve names them.
    * Narrow steep regions are found by the rise of the link, however narrow; they are named where the sensitivity is at
      least twice as high as on both sides within 5 % of the domain.

    Parameters
    ----------
    loss : MatchingLoss, potential or Curve
        What to look at.
    domain : pair or Interval
        The scores that occur; cut to the domain of the curve.
    role : {"link", "sigmoid", "softmax"}, optional
        How a curve is used: as link (default), or as scaling of a composite Sigmoid or Softmax.
    gamma : float
        Regularisation of the composite that ``role`` makes.

    Examples
    --------
    >>> from selmatch.classification import classify
    >>> classify(SignedLog()).focus
    'low norms'
    >>> print(classify(Exp(), role="softmax"))
    Exp() as composite Softmax on [-3, 3]: high scores matter most.
      Sensitivity at the low end, middle and high end: 1.04e-10, 1.03e-08, 20.1.
      It does not set low scores apart from high ones by a steep part between calm ones.
      As its score rises, the probability never falls.
      How much a class matters depends on the others.
    """
    who = "classify"
    require_scores(who, loss, TAKE_LOGARITHMS)
    potential = potential_of(who, loss)
    subject = repr(potential)
    if role is not None and role not in ROLES:
        raise ValueError(f"{who}: role must be 'link', 'sigmoid' or 'softmax', got {role!r}.")
    if isinstance(potential, PerLabel):
        raise TypeError(f"{who}: loss must have a single link, got {subject}. Give one of its curves.")
    if not has_plain_numbers(potential):
        raise TypeError(f"{who}: the parameters of the loss must be numbers, got arrays in {subject}.")
    composite = {"sigmoid": CompositeSigmoid, "softmax": CompositeSoftmax}.get(role or "")
    if role is not None and not isinstance(potential, (Curve, composite or Curve)):
        raise TypeError(f"{who}: loss must be a curve for role={role!r}, got {subject}. Leave role out.")
    gamma = number(who, "gamma", gamma, above=0.0)
    if composite is not None and not isinstance(potential, composite):
        potential = composite(potential, gamma=gamma, check=False)
    elif gamma != 1.0:
        raise ValueError(f"{who}: gamma must be left out where role makes no composite, got {gamma:g} for {subject}.")
    seen = _scores_of(who, potential.domain, domain)
    with np.errstate(all="ignore"):
        if isinstance(potential, CompositeSoftmax):
            view = _Many(potential, *seen)
        else:
            view = _Single(potential, *seen, is_composite=isinstance(potential, CompositeSigmoid) and role != "link")
        return _measured(who, view, subject)


def _scores_of(who: str, defined: Interval, domain: Any) -> tuple[float, float]:
    """The domain cut to the one of the curve, without the ends where that is infinite."""
    low, high = pair(who, "domain", domain)
    cut_low, cut_high = max(low, defined.low), min(high, defined.high)
    if not cut_low < cut_high:
        raise ValueError(f"{who}: domain must share scores with {defined}, got ({low}, {high}).")
    margin = _NARROW * (cut_high - cut_low)
    low = cut_low + margin * (cut_low == defined.low and defined.open_low)
    return low, cut_high - margin * (cut_high == defined.high and defined.open_high)


# ------------------------------------------------------------------------------------------------- how to look


@dataclass(frozen=True)
class _Single:
    """A loss of single scores, seen through the rise of its link."""

    potential: Any
    low: float
    high: float
    is_composite: bool = False

    @property
    def curve(self) -> Curve:
        return self.potential.curve if isinstance(self.potential, Separable) else self.potential

    @property
    def role(self) -> str:
        if isinstance(self.potential, Separable):
            return "separable"
        return "sigmoid" if self.is_composite else "link"

    def rise(self, a: Array, b: Array) -> Array:
        """Rise of the link between scores."""
        return self.curve.difference(a, b - a, b)

    flat_rise = rise

    def monotone_rise(self, a: Array, b: Array) -> Array:
        """Rise of what the user wants to be monotone: the link, or Q, which p follows."""
        if self.is_composite:
            return self.potential.scaling.increment(a, b - a, b)
        return self.rise(a, b)

    def profile(self) -> np.ndarray:
        return _per_length(self.rise, np.linspace(self.low, self.high, _CELLS + 1))

    def everywhere(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores that show all of the sensitivity, and the sensitivity there."""
        z = refined(self.curve, self.curve.slope, self.low, self.high, landmarks(self.curve))
        return z, np.asarray(self.curve.slope(z), dtype=float) + 0.0 * z

    def sensitivities(self) -> np.ndarray:
        return _per_length(self.rise, np.linspace(self.low, self.high, 4))

    def knows_regions(self) -> bool:
        return True

    def ranks(self) -> bool:
        if not isinstance(self.potential, Separable):
            return False  # there is nobody to compete with
        return _depends_on_others(self.potential.slope, self.low, self.high)

    def loss(self, s_hat: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self.curve.remainder(s, s_hat - s, s_hat)


@dataclass(frozen=True)
class _Many:
    """A composite Softmax, seen through the links of classes whose scores lie on the domain."""

    potential: CompositeSoftmax
    low: float
    high: float
    role = "softmax"

    @property
    def _softmax(self) -> CompositeSoftmax:
        """The same without class biases, which would hide what the scores do."""
        p = self.potential
        return CompositeSoftmax(p.scaling, gamma=p.gamma, anchor=p.anchor, check=False)

    def _delta(self, scores: np.ndarray) -> np.ndarray:
        """Delta_k of classes at these scores, as mean over a narrow stretch: jumps and infinite slopes count too."""
        half = 0.5 * _NARROW * (self.high - self.low)
        start = np.clip(scores - half, self.low, self.high - 2.0 * half)
        moved = np.where(np.eye(len(scores), dtype=bool), start[:, None], scores)
        step = 2.0 * half * np.eye(len(scores))
        return np.diagonal(self._softmax.difference(moved, step)) / (2.0 * half)

    def rise(self, a: Array, b: Array) -> Array:
        """Rise of the link of one of three classes, the others being in the middle."""
        start = np.full((*np.shape(a), 3), 0.5 * (self.low + self.high))
        start[..., 0] = a
        step = np.zeros_like(start)
        step[..., 0] = b - a
        return self._softmax.difference(start, step)[..., 0]

    def flat_rise(self, a: Array, b: Array) -> Array:
        """0 only where neither Q nor q moves; the link itself underflows with p."""
        q = self.potential.scaling
        return np.abs(q.increment(a, b - a, b)) + np.abs(q.difference(a, b - a, b))

    def monotone_rise(self, a: Array, b: Array) -> Array:
        return self.potential.scaling.increment(a, b - a, b)

    def profile(self) -> np.ndarray:
        return self._delta(np.linspace(self.low, self.high, _LIST))

    def everywhere(self) -> tuple[np.ndarray, np.ndarray]:
        """The same for one of three classes, the others being in the middle."""

        def of_first(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
            def along(z: Array) -> Array:
                rows = np.full((len(z), 3), 0.5 * (self.low + self.high))
                rows[:, 0] = z
                return function(rows)[:, 0]

            return along

        slope = of_first(self._softmax.slope)
        z = refined(of_first(self._softmax.link), slope, self.low, self.high, landmarks(self.potential.scaling))
        return z, slope(z)

    def sensitivities(self) -> np.ndarray:
        return self._delta(np.linspace(self.low, self.high, 3))

    def knows_regions(self) -> bool:
        """Whether sensitivities change when all scores move together, from the lower half to the upper."""
        middle = 0.5 * (self.low + self.high)
        below, above = (self._delta(np.linspace(a, b, 3)) for a, b in ((self.low, middle), (middle, self.high)))
        return bool(np.max(np.abs(below - above)) > TIE * max(np.max(np.abs(below)), np.max(np.abs(above))))

    def ranks(self) -> bool:
        return _depends_on_others(self._softmax.slope, self.low, self.high)

    def loss(self, s_hat: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self._softmax.remainder(s, s_hat - s, s_hat)


def _per_length(rise: Callable[[Array, Array], Array], edges: np.ndarray) -> np.ndarray:
    return rise(edges[:-1], edges[1:]) / np.diff(edges)


def _depends_on_others(slope: Callable[[Array], Array], low: float, high: float) -> bool:
    """Whether the sensitivity of the first class changes with the scores of two others."""
    places = np.linspace(low, high, 5)[1:4]
    own, first, second = (x.ravel() for x in np.meshgrid(places, places, places, indexing="ij"))
    found = slope(np.stack([own, first, second], axis=-1))[:, 0].reshape(len(places), -1)
    found = np.where(np.isfinite(found), found, 0.0)
    swing = found.max(axis=1) - found.min(axis=1)
    return bool(np.any(swing > 1e-9 * np.abs(found).max(axis=1)))


# --------------------------------------------------------------------------------------------------- what is seen


def _measured(who: str, view: _Single | _Many, subject: str) -> Classification:
    profile, sensitivities, (everywhere, slopes) = view.profile(), view.sensitivities(), view.everywhere()
    if not (np.isfinite(profile).all() and np.isfinite(sensitivities).all()):
        raise ValueError(
            f"{who}: the loss must be finite on the domain, got an infinite or undefined sensitivity of {subject} on "
            f"({view.low:g}, {view.high:g}). Choose a smaller domain."
        )
    return Classification(
        subject=subject,
        role=view.role,
        domain=(view.low, view.high),
        focus=_focus(sensitivities, profile) if view.knows_regions() else "uniform",
        separates=_separates(view),
        monotone=_monotone(view, everywhere),
        clips=tuple(sorted(_flat_pieces(view))),
        ranks=view.ranks(),
        symmetric=_symmetric(view),
        sensitivities=tuple(sensitivities.tolist()),  # type: ignore[arg-type]
        profile=tuple(profile.tolist()),
        extremes=extremes(slopes),
        narrow=steep_regions(everywhere, slopes),
    )


def _focus(thirds: np.ndarray, profile: np.ndarray) -> str:
    low, middle, high = thirds.tolist()
    tie = TIE * float(np.max(np.abs(thirds)))

    def compare(a: float, b: float) -> int:
        return 0 if math.fabs(b - a) <= tie else 1 if b > a else -1

    lower, upper = compare(low, middle), compare(middle, high)
    named = {(-1, 1): "high norms", (1, -1): "low norms"}.get((lower, upper))
    if named is None:
        way = lower + upper or compare(low, high)
        named = "high scores" if way > 0 else "low scores" if way < 0 else "uniform"
    hills = _count_hills(profile)
    return "mixed" if hills > 2 or (hills == 2 and named != "high norms") else named


def _count_hills(profile: np.ndarray) -> int:
    """Hills, those at the ends included, that stand out from the valleys beside them."""
    enough = HILL * float(np.max(np.abs(profile)))
    hills, climbing = 0, True
    top = bottom = float(profile[0])
    for value in profile.tolist():
        if climbing:
            top = max(top, value)
            if value < top - enough and value <= 0.5 * top:
                hills, climbing, bottom = hills + 1, False, value
        else:
            bottom = min(bottom, value)
            if value > bottom + enough and bottom <= 0.5 * value:
                climbing, top = True, value
    return hills + climbing


def _separates(view: _Single | _Many) -> bool:
    edges = np.linspace(view.low, view.high, 2 * _CELLS + 1)
    rises = view.rise(edges[:-1], edges[1:])
    if not np.isfinite(rises).all() or rises.min() < 0.0 or not rises.max() > 0.0:
        return False
    height = np.concatenate([[0.0], np.cumsum(rises)])
    # the first edge by which half of the whole rise is gained, from every edge
    half = np.searchsorted(height, height + 0.5 * height[-1] * (1.0 - 1e-9))
    starts = np.flatnonzero(half < len(edges))
    lengths = half[starts] - starts
    # of equally short parts the middle one, where both sides are longest
    shortest = starts[lengths == lengths.min()]
    a = int(shortest[len(shortest) // 2])
    b = int(half[a])
    steep = (height[b] - height[a]) / (b - a)
    least = CALM_LENGTH * (len(edges) - 1)
    sides = ((a, height[a]), (len(edges) - 1 - b, height[-1] - height[b]))
    return all(length >= least and rise <= CALM * steep * length for length, rise in sides)


def _monotone(view: _Single | _Many, edges: np.ndarray) -> str | None:
    rises = view.monotone_rise(edges[:-1], edges[1:])
    rounding = 1e-12 * float(np.max(np.abs(rises)))
    up, down = bool(np.any(rises > rounding)), bool(np.any(rises < -rounding))
    return None if up and down else "decreasing" if down else "increasing"


def _flat_pieces(view: _Single | _Many) -> Iterator[tuple[float, float]]:
    """Stretches over which nothing changes, to 12 digits; those that merely underflow are left out."""
    edges = np.linspace(view.low, view.high, _CELLS + 1)
    flat = view.flat_rise(edges[:-1], edges[1:]) == 0.0
    width = view.high - view.low
    for is_flat, cells in itertools.groupby(range(_CELLS), key=lambda i: bool(flat[i])):
        if not is_flat:
            continue
        run = list(cells)
        first, last = float(edges[run[0]]), float(edges[run[-1] + 1])
        low, high = _end_of_flat(view, last, first, view.low), _end_of_flat(view, first, last, view.high)
        beyond = 1e-3 * width
        fading = (low > view.low and _is_tiny(view.flat_rise(max(low - beyond, view.low), low))) or (
            high < view.high and _is_tiny(view.flat_rise(high, min(high + beyond, view.high)))
        )
        if not fading:
            yield _rounded(low, width), _rounded(high, width)
    for part in _short_pieces(view, width / _CELLS):
        yield part.low, part.high


def _short_pieces(view: _Single | _Many, cell: float) -> Iterator[Interval]:
    """Flat pieces that no cell lies in, where the structure of a link names them."""
    if isinstance(view, _Many):
        return
    for part in view.curve.flat_regions():
        inside = part.overlap(Interval(view.low, view.high))
        edges = np.linspace(view.low, view.high, _CELLS + 1)
        if inside is not None and inside.high - inside.low < 2.0 * cell:
            holds_a_cell = np.any((edges[:-1] >= inside.low) & (edges[1:] <= inside.high))
            if not holds_a_cell and float(view.flat_rise(inside.low, inside.high)) == 0.0:
                yield inside


def _is_tiny(rise: Any) -> bool:
    return math.fabs(float(rise)) < 1e-290


def _end_of_flat(view: _Single | _Many, start: float, inside: float, limit: float) -> float:
    """How far towards a limit the flat piece goes that is known to reach from start to a place inside."""
    outside = limit
    if float(view.flat_rise(*sorted((start, limit)))) == 0.0:
        return limit
    for _ in range(60):
        middle = 0.5 * (inside + outside)
        if float(view.flat_rise(*sorted((start, middle)))) == 0.0:
            inside = middle
        else:
            outside = middle
    return inside


def _rounded(x: float, width: float) -> float:
    """x without the last digits, which bisection leaves behind."""
    return 0.0 if math.fabs(x) < 1e-12 * width else float(f"{x:.12g}")


def _symmetric(view: _Single | _Many) -> bool:
    middle = 0.5 * (view.low + view.high)
    # not the middle itself, where the values of steps are a convention
    places = np.linspace(-0.5, 0.5, 8)[1:-1] * (view.high - view.low)
    if isinstance(view, _Many):
        s = np.array(list(itertools.product(places[[0, 2, 5]], repeat=3)))
        s_hat = np.roll(s, 5, axis=0)
    else:
        s_hat, s = (x.ravel() for x in np.meshgrid(places, places))
    here, there = view.loss(middle + s_hat, middle + s), view.loss(middle - s_hat, middle - s)
    return bool(np.max(np.abs(here - there)) <= 1e-9 * np.max(np.abs(here)))
