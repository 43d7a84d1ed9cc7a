"""Labelled rows as boosters see them: checked once, with everything cached that does not change between rounds."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch import kernels, ranking
from selmatch.algebra import constant_value
from selmatch.columns import real_array
from selmatch.composite import CompositeSoftmax
from selmatch.curve import Curve
from selmatch.lists import Groups
from selmatch.losses import MatchingLoss, PerLabel

#: labels and links beyond this, so many times larger than their spread, or with their mean so many times their spread
#: away from 0, are evaluated in double precision
_LARGE, _OFFSET, _AWAY = 1e12, 1e3, 10.0
#: how near to the end of a link scores come, as a part of the distance from there to the start
_NEAR = 1e-6
#: what may be left of gradients that cancel, as a part of their size
_BALANCED = 1e-12
#: from so many labels on compiled kernels pay for their compilation
_MANY = 100_000


@dataclass(frozen=True)
class Start:
    """Where boosting starts, and the factor that makes the mean curvature there 1.

    Attributes
    ----------
    score : float or tuple of float
        The best constant prediction, h^-1 of the weighted mean of h(y); one for each target.
    scale : float
        What gradients and curvatures are multiplied with.

    Examples
    --------
    >>> objective = sm.boosting.Objective(Identity().affine(alpha=2.0))
    >>> rows = objective.prepare([1.0, 2.0, 6.0])
    >>> objective.start
    Start(score=3.0, scale=0.5)
    """

    score: float | tuple[float, ...]
    scale: float


class Rows:
    """Labels, weights and groups of one data set, ready for gradients.

    Parameters
    ----------
    who : str
        Who asks, for errors.
    loss : MatchingLoss
        What to train with.
    labels : array
        Targets, one for each row, or rows of targets.
    weights : array, optional
        Of rows; with ``form`` of lists.
    form : optional
        ``ranking.pairwise`` or ``ranking.listwise``, for lists.
    groups : array of int, optional
        Sizes of the lists, one behind the other.

    Attributes
    ----------
    bounds : tuple or None
        Ends between which scores are taken, from :func:`ends`; None for scores as they come.
    """

    def __init__(
        self, who: str, loss: MatchingLoss, labels: Any, weights: Any = None, *, form: Any = None, groups: Any = None
    ) -> None:
        self.who, self.loss, self.form = who, loss, form
        self.bounds: tuple[Any, Any] | None = None
        self.labels = checked_labels(who, loss, labels, form)
        if form is None and groups is not None:
            raise ValueError(
                f"{who}: groups must be None, got lists: the objective compares none. Give it ranking='pairwise' or "
                "'listwise' (XGBoost and LightGBM)."
            )
        self.groups = None if form is None else checked_groups(who, groups, len(self.labels))
        count = len(self.labels) if self.groups is None else len(self.groups)
        self.weights = None if weights is None else checked_weights(who, weights, count, form is not None)
        if self.weights is not None:
            _require_single(who, self.weights)
        potential = loss.potential
        self._kernel: Any = None
        if form is None and isinstance(potential, Curve):
            few = self.labels.size < _MANY
            self._kernel = kernels.elementwise(potential, backend="numpy" if few else None)
            self._cache_links()

    def _cache_links(self) -> None:
        """Labels and links in the precision that they need, one behind the other."""
        flat = self.labels.ravel()
        with np.errstate(all="ignore"):
            link = self._kernel.link(flat)
        if not np.all(np.isfinite(link)):
            raise self._not_finite()
        self._dtype = np.float32 if _is_single_enough(flat) and _is_single_enough(link) else np.float64
        self._flat, self._link = flat.astype(self._dtype), link.astype(self._dtype)
        self._flat_weights = None
        if self.weights is not None:
            self._flat_weights = np.repeat(self.weights, flat.size // len(self.labels)).astype(self._dtype)

    @property
    def kernel(self) -> str:
        """What computes: "numba", "numpy", or "arrays" for losses without a kernel."""
        return "arrays" if self._kernel is None else self._kernel.backend

    @property
    def precision(self) -> np.dtype:
        """In which precision gradients are computed, and scores are wanted."""
        return np.dtype(np.float64 if self._kernel is None else self._dtype)

    @property
    def weighted(self) -> bool:
        """Whether some rows count more than others."""
        return self.weights is not None and bool(np.ptp(self.weights) > 0.0)

    @property
    def fingerprint(self) -> bytes:
        """What tells these labels from others, in single precision, as boosters keep them."""
        with np.errstate(over="ignore"):
            return hashlib.blake2b(self.labels.astype(np.float32).tobytes(), digest_size=16).digest()

    @property
    def segments(self) -> Any:
        """The lists, as :mod:`selmatch.ranking` wants them."""
        return None if self.groups is None else ranking.Sizes(self.groups)

    # ------------------------------------------------------------------------------------------------ start and scale

    def start(self, kind: str) -> Start:
        """The best constant prediction and the scale, for a kind of curvature."""
        score = self.start_score
        scale = 1.0 / self._mean_curvature(np.broadcast_to(np.asarray(score), self.labels.shape), kind)
        return Start(tuple(map(float, score)) if isinstance(score, np.ndarray) else float(score), scale)

    @functools.cached_property
    def start_score(self) -> Any:
        """The best constant prediction; one for each target."""
        potential = self.loss.potential
        if self.form is not None:
            return self._start_of_lists()
        if isinstance(potential, PerLabel):
            return float(self.loss.minimiser(self.labels, self.weights))
        if self.loss.vector:
            return np.asarray(self.loss.minimiser(self.labels, self.weights))
        if self.labels.ndim == 1:
            return self._minimiser(self.labels)
        return np.array([self._minimiser(column) for column in self.labels.T])

    def _minimiser(self, labels: np.ndarray) -> float:
        """h^-1 of the mean link; polished only where gradients do not balance there, it takes long on many rows."""
        curve = self.loss.potential
        with np.errstate(all="ignore"):
            score = float(curve.inverse(float(np.average(curve(labels), weights=self.weights))))
        if math.isfinite(score):
            score = min(max(score, float(labels.min())), float(labels.max()))
            pulls = self.loss.grad(np.full(labels.shape, score), labels)
            balance, size = (np.average(pull, weights=self.weights) for pull in (pulls, np.abs(pulls)))
            if abs(balance) <= _BALANCED * size:
                return score
        return float(self.loss.minimiser(labels, self.weights))

    def _start_of_lists(self) -> float:
        """One score for all items; only a listwise loss whose scaling is not constant can tell which."""
        potential = self.loss.potential
        if not isinstance(potential, CompositeSoftmax) or constant_value(potential.scaling) is not None:
            return 0.0
        middle = float(np.mean(self.labels))
        pulls = ranking.listwise.grad(
            np.full(self.labels.shape, middle), self.labels, self.loss, segments=self.segments
        )
        # the gradients of a list at a constant score add up to q there minus the links of its labels
        links = potential.scaling(middle) - Groups.from_sizes(np.asarray(self.groups)).sum(pulls)
        with np.errstate(all="ignore"):
            score = float(potential.scaling.inverse(float(np.average(links, weights=self.weights))))
        # a flat piece of the scaling has no inverse
        return min(max(middle if math.isnan(score) else score, float(self.labels.min())), float(self.labels.max()))

    def _mean_curvature(self, scores: np.ndarray, kind: str) -> float:
        places = np.empty((2, self.labels.size), self.precision)
        for attempt in dict.fromkeys((kind, "secant")):
            with np.errstate(all="ignore"):
                curvature = self.gradient_and_curvature(scores, 1.0, attempt, (places[0], places[1]))[1]
                mean = float(np.sum(curvature, dtype=np.float64)) / self._mass(curvature)
            # kernels write the largest number where curvatures overflow
            if not np.max(curvature) < np.finfo(self.precision).max:
                raise self._not_finite()
            if mean > 0.0:
                return mean
        raise ValueError(
            f"{self.who}: the link must be steep somewhere between the labels, got {self.loss!r}, which is flat on "
            f"[{self.labels.min():g}, {self.labels.max():g}]. Move its sensitive region to where the labels are."
        )

    def _not_finite(self) -> ValueError:
        return ValueError(
            f"{self.who}: the link must be finite at the labels, and its slope between them, got {self.loss!r} with "
            f"labels from {self.labels.min():g} to {self.labels.max():g}. Cap it, or stretch it by a smaller alpha."
        )

    def _mass(self, curvature: np.ndarray) -> float:
        if self.weights is None:
            return curvature.size
        if self.groups is not None:
            return float(np.sum(self.weights * self.groups))
        return float(np.sum(self.weights)) * (curvature.size // len(self.labels))

    # ---------------------------------------------------------------------------------------- what each round asks for

    def gradient_and_curvature(
        self, scores: Any, scale: float, kind: str, out: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and curvatures of the weighted sum of losses, times the scale, in the shape of the labels."""
        scores = self._inside(scores)
        if self._kernel is None:
            results = self._on_arrays(scores, scale, kind)
            if out is None:
                return results
            for place, result in zip(out, results, strict=True):
                place[...] = result.reshape(place.shape)
            return out
        flat = scores.ravel()
        if out is None:
            out = np.empty(flat.shape, np.float32), np.empty(flat.shape, np.float32)
        self._kernel.gradient_and_curvature(
            flat, self._flat, self._link, kind=kind, weights=self._flat_weights, scale=scale, out=out
        )
        return out[0].reshape(self.labels.shape), out[1].reshape(self.labels.shape)

    def _inside(self, scores: Any) -> np.ndarray:
        """Scores in the shape of the labels and the precision of the kernel, between the bounds."""
        with np.errstate(over="ignore"):
            # a cast costs less than a loop over two precisions, which cannot be vectorised
            scores = np.asarray(scores).reshape(self.labels.shape).astype(self.precision, copy=False)
        return scores if self.bounds is None else np.clip(scores, *inwards(self.bounds, self.precision))

    def _on_arrays(self, scores: np.ndarray, scale: float, kind: str) -> tuple[np.ndarray, np.ndarray]:
        if self.form is not None:
            lists = {"segments": self.segments, "weights": self.weights}
            gradient = self.form.grad(scores, self.labels, self.loss, reduction="sum", **lists)
            curvature = self.form.curvature(scores, self.labels, self.loss, kind=kind, **lists)
            return scale * gradient, scale * curvature
        gradient = self.loss.grad(scores, self.labels)
        curvature = self.loss.curvature(scores, self.labels, kind=kind)
        factor = scale if self.weights is None else scale * self.weights.reshape(-1, *[1] * (scores.ndim - 1))
        return factor * gradient, factor * curvature

    def value(self, scores: Any) -> float:
        """The weighted mean loss: what to report, and to stop early on."""
        scores = self._inside(scores)
        if self.form is not None:
            return float(self.form(scores, self.labels, self.loss, segments=self.segments, weights=self.weights))
        if self._kernel is None:
            return float(self.loss(scores, self.labels, weights=self.weights))
        total = self._kernel.total(scores.ravel(), self._flat, weights=self._flat_weights)
        mass = self._flat.size if self._flat_weights is None else float(np.sum(self._flat_weights, dtype=np.float64))
        return total / mass if mass else 0.0


def ends(loss: MatchingLoss, start: Start) -> tuple[Any, Any] | None:
    """Just inside the domain of a link that ends somewhere: trees may lead beyond, where it is not defined."""
    curve = loss.potential
    if not isinstance(curve, Curve) or not curve.bounded:
        return None
    score, domain = np.asarray(start.score), curve.domain
    return tuple(end + _NEAR * (score - end) if math.isfinite(end) else end for end in (domain.low, domain.high))  # type: ignore[return-value]


def inwards(bounds: tuple[Any, Any], precision: Any) -> tuple[Any, Any]:
    """Bounds in a precision, rounded inwards: the nearest number may be the end itself."""
    low, high = (np.asarray(bound).astype(precision) for bound in bounds)
    up, down = np.nextafter(low, np.inf, dtype=precision), np.nextafter(high, -np.inf, dtype=precision)
    return np.where(np.isfinite(low), up, low), np.where(np.isfinite(high), down, high)


def _require_single(who: str, weights: np.ndarray) -> None:
    """Boosters keep weights in single precision."""
    with np.errstate(over="ignore", under="ignore"):
        kept = weights.astype(np.float32)
    if not (np.isfinite(kept).all() and kept.any()):
        raise ValueError(
            f"{who}: weights must be numbers in single precision, as boosters keep them, got weights up to "
            f"{weights.max():g}. Divide them by their mean."
        )


def _is_single_enough(values: np.ndarray) -> bool:
    """Whether single precision tells values apart: it loses the differences of numbers far from 0."""
    largest = float(np.max(np.abs(values), initial=0.0))
    spread, away = float(np.std(values)), abs(float(np.mean(values)))
    return largest < _LARGE and largest <= _OFFSET * spread and away <= _AWAY * spread


# ------------------------------------------------------------------------------------------------------------ checks


def checked_labels(who: str, loss: MatchingLoss, labels: Any, form: Any) -> np.ndarray:
    """Targets as numbers inside the domain of the link."""
    array = real_array(who, "the labels", labels, kinds="iufb")
    if array.ndim == 2 and array.shape[1] == 1 and not loss.vector:
        array = array[:, 0]
    vector = loss.vector and form is None
    if array.ndim not in ((2,) if vector else (1,) if form is not None else (1, 2)) or not array.size:
        wanted = "rows of scores, one for each class" if vector else "one for each row"
        raise ValueError(f"{who}: the labels must be {wanted}, got shape {array.shape}.")
    wrong = ~np.isfinite(array)
    condition = "be finite numbers"
    if not wrong.any() and form is None:
        wrong = ~np.asarray(loss.potential.holds(array, interior=True), dtype=bool)
        wrong = wrong | np.zeros(array.shape, dtype=bool)
        domain = getattr(loss.potential, "domain", None)
        condition = f"lie in {domain}, the domain of the link" if domain is not None else "be known to the loss"
    if wrong.any():
        row = int(np.flatnonzero(wrong.reshape(len(array), -1).any(axis=1))[0])
        raise ValueError(
            f"{who}: the labels must {condition}, got {array[wrong][0]:g} in row {row} (and {int(wrong.sum()) - 1} "
            "more)."
        )
    return array


def checked_weights(who: str, weights: Any, count: int, of_lists: bool) -> np.ndarray:
    """Weights that are numbers and not negative, one for each row or list."""
    array = real_array(who, "weights", weights, kinds="iufb")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (count,):
        unit = "list" if of_lists else "row"
        raise ValueError(f"{who}: weights must be one for each {unit}, shape ({count},), got shape {array.shape}.")
    wrong = ~(np.isfinite(array) & (array >= 0.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{who}: weights must be finite and not negative, got {array[row]:g} in row {row}.")
    if not array.any():
        raise ValueError(f"{who}: weights must not all be 0, got only zeros.")
    return array


def checked_groups(who: str, groups: Any, count: int) -> np.ndarray:
    """Sizes of lists that add up to the rows."""
    if groups is None:
        raise ValueError(f"{who}: groups must be given for a ranking loss, got None. Give the size of each list.")
    array = real_array(who, "groups", groups)
    if array.ndim != 1 or not np.all(array == np.round(array)) or not np.all(array >= 0):
        raise ValueError(f"{who}: groups must be sizes of lists, whole numbers >= 0, got {groups!r}.")
    if array.sum() != count:
        raise ValueError(
            f"{who}: groups must add up to the number of rows, {count}, got a sum of {array.sum():g}. "
            "Give the size of each list, not an id for each row."
        )
    return array.astype(np.int64)
