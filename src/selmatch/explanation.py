"""A loss in plain words: where it looks, whether it is convex, what it elicits, how far it can be trusted."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch import certify, design
from selmatch.algebra import Affine, constant_value
from selmatch.certificates import Certificate
from selmatch.columns import finite_column
from selmatch.composite import CompositeSigmoid, CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.curves import Exp, Identity, Log, Logit, Sigmoid
from selmatch.landmarks import SteepRegion, extremes, landmarks, refined, steep_regions
from selmatch.losses import PerLabel
from selmatch.parameters import has_plain_numbers
from selmatch.scales import UNCHANGED, scale_of, scores_of
from selmatch.words import readable

_WHO = "MatchingLoss.explain"
#: sensitivities that differ by no more than this are alike
ALIKE = 1.1
#: a relative error of a probability in single precision that nobody minds
TOLERATED = 1e-3


@dataclass(frozen=True)
class Explanation:
    """What :meth:`selmatch.MatchingLoss.explain` found; print it.

    All numbers are scores; where those are logarithms (``loss.scale``), the printed text is in units of the target.

    Attributes
    ----------
    loss : MatchingLoss
        What is explained.
    profile : tuple of (score, sensitivity)
        The sensitivity across typical scores, or across the data.
    certificate : Certificate
        Whether the loss is convex.
    mean, elicited : float or None
        Of the data: the mean, and the best constant prediction h^-1(E h(S)), where training should start.
    curvature : tuple of float
        The smallest and the largest sensitivity on the data, or of all scores that the profile spans.
    limits : tuple of Interval
        The scores within which value and gradient are finite in single and in double precision.
    simpler : str
        A loss that everybody has and that would do the same; empty if none is known.
    notes : tuple of str
        What else to know.
    narrow : tuple of SteepRegion
        Narrow regions, between the ends of the profile, in which the loss is much more sensitive than beside them.
    accepted : Certificate or None
        What was looked at when the loss was made: see :attr:`selmatch.MatchingLoss.certificate`.
    """

    loss: Any
    profile: tuple[tuple[float, float], ...]
    certificate: Certificate
    mean: float | None
    elicited: float | None
    curvature: tuple[float, float]
    limits: tuple[Interval, Interval]
    simpler: str
    notes: tuple[str, ...] = ()
    narrow: tuple[SteepRegion, ...] = ()
    accepted: Certificate | None = None

    def __str__(self) -> str:
        scale = scale_of(self.loss)
        units = "one unit" if scale == UNCHANGED else f"one unit of {scale.words}"
        place = "" if scale == UNCHANGED else ", by target"
        lines = [repr(self.loss), *self.notes, "", f"Sensitivity (what an error of {units} weighs{place}):"]
        most = max((value for _, value in self.profile if math.isfinite(value)), default=0.0) or 1.0
        for score, value in self.profile:
            bar = "#" * round(32 * min(value / most, 1.0)) if value >= 0 else "negative"
            lines.append(f"  {readable(scale.undone(score)):>10}  {readable(value):>10}  {bar}".rstrip())
        lines += [f"Narrow: {region.words(scale.undone)}." for region in self.narrow]
        low, high = self.curvature
        ratio = f", a factor of {readable(high / low, 3)}" if 0 < low <= high < math.inf else ""
        lines += ["", f"Curvature: {readable(low)} to {readable(high)}{ratio}.", f"Convex: {self.certificate}"]
        if self.accepted is not None and self.accepted.domain != self.certificate.domain:
            lines.append(f"Accepted when it was made: {self.accepted}")
        lines.append(self._elicits())
        single, double = self.limits
        what = "scores" if scale == UNCHANGED else f"scores, {scale.words},"
        lines.append(f"Finite: {what} in {single} in single precision, {double} in double.")
        if self.simpler:
            lines.append(f"Simpler: {self.simpler}")
        return "\n".join(lines)

    __repr__ = __str__

    def _elicits(self) -> str:
        if self.simpler.startswith("this is squared error"):
            return "Elicits: the mean."
        rule = "Elicits: h^-1(E h(S)), not the mean"
        if isinstance(self.loss.potential, PerLabel):
            rule = "Elicits: the prediction at which the links of all labels balance, not the mean"
        if self.loss.vector:
            return f"{rule}; loss.minimiser(rows) has it, class by class."
        if self.elicited is None or self.mean is None:
            return f"{rule}; give data to see how far apart they are."
        scale = scale_of(self.loss)
        elicited, mean = scale.undone(self.elicited), scale.undone(self.mean)
        if scale != UNCHANGED:
            return (
                f"Elicits: the target whose score is h^-1(E h(S)), not the mean score: {readable(elicited)} on the "
                f"data, whose mean score is that of {readable(mean)}. Start training there, and check calibration on "
                "h(observed) and h(predicted)."
            )
        found = f"{readable(elicited)} on the data, whose mean is {readable(mean)}"
        return f"{rule}: {found}. Start training there, and check calibration on h(observed) and h(predicted)."


def explain(loss: Any, data: Any, weights: Any) -> Explanation:
    """See :meth:`selmatch.MatchingLoss.explain`."""
    potential = loss.potential
    if not has_plain_numbers(potential):
        raise TypeError(f"{_WHO}: the parameters must be plain numbers, got {potential!r}.")
    wish = loss.wish
    scores = None if data is None else scores_of(_WHO, "data", finite_column(_WHO, "data", data), loss)
    curve = _curve(potential)
    points = _points(curve, scores, wish)
    everywhere, slopes = _looked_at(potential, points)
    narrow = steep_regions(everywhere, slopes)
    middle = float(np.median(points))
    points = np.unique([*points, *(region.at for region in narrow)])
    sensitivities = _slopes(potential, points, middle)
    mean = elicited = None
    if scores is not None and isinstance(potential, (Curve, PerLabel)):
        share = None if weights is None else finite_column(_WHO, "weights", weights)
        if share is not None and (share.shape != scores.shape or (share < 0.0).any() or not share.any()):
            raise ValueError(f"{_WHO}: weights must be >= 0, not all 0, and one for each of the {len(scores)} scores.")
        mean = float(np.average(scores, weights=share))
        elicited = float(loss.minimiser(scores, weights=share))
    elif wish is not None:
        mean, elicited = wish.mean, wish.elicited
    curvature = extremes(slopes if scores is None else _slopes(potential, scores, float(np.median(scores))))
    if scores is None and wish is not None:
        curvature = wish.curvature
    return Explanation(
        loss=loss,
        profile=tuple(zip(points.tolist(), sensitivities.tolist(), strict=True)),
        certificate=certify.convex(loss),
        mean=mean,
        elicited=elicited,
        curvature=curvature,
        limits=(finite_scores(potential, np.float32), finite_scores(potential, np.float64)),
        simpler=simpler(potential, curvature, on_data=(scores is not None or wish is not None) and not narrow),
        notes=tuple(_notes(loss)),
        narrow=narrow,
        accepted=loss.certificate,
    )


def _notes(loss: Any) -> list[str]:
    notes = [] if loss.wish is None else [f"Made by focus: {loss.wish}."]
    potential, scale = loss.potential, scale_of(loss)
    if scale != UNCHANGED:
        ends = [] if loss.wish is None else [scale.undone(np.array(piece[:2])) for piece in loss.wish.regions]
        places = f"; accuracy matters for the target {' and '.join(design.place(*end) for end in ends)}" if ends else ""
        notes.append(f"Scores are {scale.words}{places}.")
    if not loss.check or getattr(potential, "check", True) is False:
        notes.append("Built with check=False: it need not be convex, and may be negative.")
    if isinstance(potential, Curve) and not potential.continuous:
        notes.append("The link jumps: a move across a jump costs, which the sensitivity beside it does not show.")
    if isinstance(potential, PerLabel):
        notes.append(f"Each label has its own link; below is that of {potential.labels[0]:g}.")
    if isinstance(potential, CompositeSoftmax):
        others = _classes(potential) - 1
        beside = {0: "by itself", 1: "beside one in the middle", 2: "beside two in the middle"}
        place = beside.get(others, f"beside {others} in the middle")
        notes.append(f"Sensitivity of one score {place}; ranking_report looks at any others.")
    if isinstance(potential, CompositeSoftmax) and constant_value(potential.scaling) is None:
        notes.append("Adding a number to all scores of a row changes the loss: agree on their level.")
        notes.append("Convex in the scores; in logits of which they are the log-probabilities it need not be.")
    if isinstance(potential, (CompositeSigmoid, CompositeSoftmax)) and constant_value(potential.scaling) is None:
        reach = _trusted_reach(potential)
        if math.isfinite(reach.low) or math.isfinite(reach.high):
            notes.append(f"Single precision gives probabilities 3 digits for scores in {reach}; use double beyond.")
    return notes


def _classes(potential: CompositeSoftmax) -> int:
    """How many classes an example of a row has."""
    return 3 if potential.rho is None else len(potential.rho)


def _beside_others(potential: Any, z: np.ndarray, middle: float, dtype: Any = np.float64) -> np.ndarray:
    """Rows with z as the first score, and all others in the middle."""
    rows = np.full((len(z), _classes(potential) if isinstance(potential, CompositeSoftmax) else 1), middle, dtype=dtype)
    rows[:, 0] = z
    return rows


def _curve(potential: Any) -> Curve:
    """The curve that says which scores are typical."""
    if isinstance(potential, CompositeSoftmax):
        return potential.scaling
    if isinstance(potential, PerLabel):
        return potential.curves[0]
    return potential.curve if isinstance(potential, Separable) else potential


def _points(curve: Curve, scores: np.ndarray | None, wish: Any) -> np.ndarray:
    """Scores that show the profile: of the data, and where a drawing bends; else what is typical of the curve."""
    if scores is not None:
        known = np.quantile(scores, [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0])
    elif wish is not None:
        known = np.array([wish.lowest, *wish.quartiles, wish.median, wish.highest])
    else:
        low, high = curve.window()
        margin = 0.02 * (high - low)  # an open end may have an infinite slope
        return np.linspace(low + margin * curve.domain.open_low, high - margin * curve.domain.open_high, 13)
    low, high = float(known.min()), float(known.max())
    bends = [knot for knot in getattr(curve, "knots", ()) if low <= knot <= high]
    return np.unique([*known, *bends, *np.linspace(low, high, 7)])


def _slopes(potential: Any, z: np.ndarray, middle: float) -> np.ndarray:
    """The sensitivity at scores, for many classes of one score beside others in the middle."""
    with np.errstate(all="ignore"):
        if isinstance(potential, CompositeSoftmax):
            return np.asarray(potential.slope(_beside_others(potential, z, middle)))[..., 0]
        return np.asarray(_curve(potential).slope(z), dtype=float) + np.zeros_like(z)  # no -0


def _looked_at(potential: Any, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores that show all of the sensitivity between the ends of the profile, and the sensitivity there."""
    curve, middle = _curve(potential), float(np.median(points))

    def link(z: np.ndarray) -> np.ndarray:
        if isinstance(potential, CompositeSoftmax):
            return potential.link(_beside_others(potential, z, middle))[..., 0]
        return curve(z)

    seeds = np.concatenate([points, landmarks(curve)])
    z = refined(link, lambda z: _slopes(potential, z, middle), float(points.min()), float(points.max()), seeds)
    return z, _slopes(potential, z, middle)


# ----------------------------------------------------------------------------------------------------------- limits


def finite_scores(potential: Any, dtype: Any) -> Interval:
    """The scores to which a prediction may go, from a harmless label, until value or gradient overflow."""
    curve = _curve(potential)
    start, largest = float(curve.point()), float(np.finfo(dtype).max) / 4.0
    ends = []
    for side, end in ((-1.0, curve.domain.low), (1.0, curve.domain.high)):
        if math.isfinite(end):
            ends.append(end)
            continue
        inside, outside = 0.0, math.inf
        steps = np.geomspace(1.0, largest, 200)
        for _ in range(4):  # each time between the last finite and the first infinite one
            finite = _are_finite(potential, start, start + side * steps, dtype)
            first = len(steps) if finite.all() else int(np.argmin(finite))
            inside = float(steps[first - 1]) if first else inside
            if first == len(steps):
                break
            outside = float(steps[first])
            steps = np.linspace(inside, outside, 50)
        ends.append(side * math.inf if inside >= largest else float(f"{start + side * inside:.4g}"))
    return Interval(ends[0], ends[1], curve.domain.open_low, curve.domain.open_high)


def _are_finite(potential: Any, start: float, z: np.ndarray, dtype: Any) -> np.ndarray:
    """Whether value and gradient are finite for each prediction z of the label start (of one class, beside others)."""
    if isinstance(potential, PerLabel):
        pairs = zip(potential.labels, potential.curves, strict=True)
        return np.all([_are_finite(curve, label, z, dtype) for label, curve in pairs], axis=0)
    xh = _beside_others(potential, z, start, dtype)
    x = np.full_like(xh, start)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # just before they overflow, formulas lose digits
        value, gradient = potential.remainder_and_difference(x, xh - x, xh)
    return np.isfinite(value.reshape(len(z), -1)).all(axis=1) & np.isfinite(gradient).all(axis=1)


def _trusted_reach(potential: Any) -> Interval:
    """The scores with |Q|/gamma small enough for probabilities in single precision."""
    curve, largest = potential.scaling, TOLERATED / float(np.finfo(np.float32).eps)
    start = float(curve.point())

    def trusted(z: float) -> bool:
        with np.errstate(all="ignore"):
            return abs(float(curve.primitive(z))) / potential.gamma <= largest

    ends = []
    for side, end in ((-1.0, curve.domain.low), (1.0, curve.domain.high)):
        inside, reach = start, 1.0
        while curve.domain.holds(start + side * reach) and trusted(start + side * reach) and reach < 1e30:
            inside, reach = start + side * reach, 2.0 * reach
        if reach >= 1e30 or not curve.domain.holds(start + side * reach):
            ends.append(end)
            continue
        outside = start + side * reach
        for _ in range(40):
            middle = 0.5 * inside + 0.5 * outside
            inside, outside = (middle, outside) if trusted(middle) else (inside, middle)
        ends.append(float(f"{inside:.3g}"))
    return Interval(ends[0], ends[1])


# -------------------------------------------------------------------------------------------------- simpler losses


def simpler(potential: Any, curvature: tuple[float, float], on_data: bool) -> str:
    """When a loss that everybody has would do the same."""
    inner = potential
    while isinstance(inner, (Affine, Separable)):
        inner = inner.curve
    if isinstance(inner, Identity):
        return "this is squared error, halved" + ("." if inner is potential else " and multiplied by a constant.")
    if isinstance(inner, CompositeSoftmax):
        if constant_value(inner.scaling) is not None:
            return "this is the standard Softmax: cross-entropy with soft labels p(s) has the same gradient."
        return ""
    if isinstance(inner, CompositeSigmoid) and (plain := _plain_sigmoid(inner)) is not None:
        return f"this composite Sigmoid is MatchingLoss({plain!r})."
    if isinstance(inner, Curve) and on_data and 0.0 < curvature[1] <= ALIKE * curvature[0]:
        factor = curvature[1] / curvature[0]
        return f"on these data the sensitivity varies by a factor of {factor:.3g}: squared error does the same."
    same = {
        Sigmoid: "cross-entropy with the soft labels h(s), which every library and booster has, has the same gradient",
        Exp: "this is the Poisson deviance, halved, of rates e^x and counts e^x",
        Log: "this is the Poisson deviance, halved, with the prediction as the count and the score as the rate",
        Logit: "this is KL(predicted || observed) of two probabilities, the reverse of what cross-entropy minimises",
    }
    found = same.get(type(inner), "")
    return found and f"{found}{'' if inner is potential else ', in x and up to a constant factor'}."


def _plain_sigmoid(curve: CompositeSigmoid) -> Curve | None:
    """A composite Sigmoid with a sigmoid scaling of amplitude gamma is a shifted Sigmoid."""
    scaling = curve.scaling.affine() if isinstance(curve.scaling, Sigmoid) else curve.scaling
    if not isinstance(scaling, Affine) or not isinstance(scaling.curve, Sigmoid) or curve.offset != 0.0:
        return None
    if not math.isclose(scaling.gain / scaling.alpha, curve.gamma, rel_tol=1e-12):
        return None
    return Sigmoid().affine(scaling.alpha, scaling.beta + math.log(2.0) / scaling.alpha, scaling.gain)
