"""Losses: the Bregman divergence of a potential, with masks, weights and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selmatch import functions
from selmatch.algebra import constant_value, require_curve
from selmatch.arrays import pytrees
from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.batch import Batch, prepare, require_inside
from selmatch.composite import CompositeSigmoid, CompositeSoftmax, Separable, find_fall
from selmatch.curve import REALS, Curve
from selmatch.functions import (
    isfinite,
    k_scaled,
    log,
    maximum,
    minimum,
    row_sum,
    square,
    where,
    xlogy,
)
from selmatch.parameters import LEAF, has_plain_numbers, keep, number

Array = Any

REDUCTIONS = ("mean", "sum", "none")

#: bytes of one array in a chunk of NumPy work: all temporaries stay in the second-level cache
CHUNK_BYTES = 1 << 16


class Loss:
    """What all losses share: conversion and checks of the scores, masks, weights, reductions.

    A subclass gives ``_rows(x, u, xh, present)`` -> loss of each row, ``_gradient`` and ``_both`` alike, and
    ``potential`` (for domains) or None.
    """

    vector = False
    potential: Any = None

    def _rows(self, x: Array, u: Array, xh: Array, present: Array) -> Array:
        raise NotImplementedError

    def _gradient(self, x: Array, u: Array, xh: Array, present: Array) -> Array:
        raise NotImplementedError

    def _both(self, x: Array, u: Array, xh: Array, present: Array) -> tuple[Array, Array]:
        return self._rows(x, u, xh, present), self._gradient(x, u, xh, present)

    def __call__(
        self,
        s_hat: Any,
        s: Any,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> Any:
        """The loss of predictions s_hat for observed scores s.

        Parameters
        ----------
        s_hat, s : array or number
            Predicted and observed scores; for many classes these are on the last axis. They broadcast.
        where : boolean array, optional
            Of the shape of the scores; what is False counts for nothing, whatever it holds.
        weights : array, optional
            Not negative, of the shape of the unreduced result.
        reduction : {"mean", "sum", "none"}
            The mean is sum(w L) / sum(w) over rows with anything left, 0 when there is none.
        num_items : number, optional
            Replaces the denominator of the mean (data-parallel training, gradient accumulation).

        Returns
        -------
        array or number
            Of the library of the inputs; Python numbers give a Python number. Half precision is computed in single;
            ``reduction="none"`` returns the input's dtype.
        """
        batch = self._prepare(s_hat, s, where, weights)
        _check_reduction(type(self).__name__, reduction, num_items)
        (value,) = _evaluate(batch, lambda *move: (self._rows(*move),), self.vector)
        return _reduced(batch, value, reduction, num_items, self.vector)

    def grad(
        self,
        s_hat: Any,
        s: Any,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
    ) -> Any:
        """The gradient with respect to s_hat, of each row's loss, or with ``reduction`` of the mean or sum."""
        batch = self._prepare(s_hat, s, where, weights)
        _check_reduction(type(self).__name__, reduction, num_items)
        (gradient,) = _evaluate(batch, lambda *move: (self._gradient(*move),), self.vector)
        return self._scaled(batch, gradient, reduction, num_items)

    def value_and_grad(
        self,
        s_hat: Any,
        s: Any,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
    ) -> tuple[Any, Any]:
        """Loss and gradient together, which share their work; parameters as for the call."""
        batch = self._prepare(s_hat, s, where, weights)
        _check_reduction(type(self).__name__, reduction, num_items)
        value, gradient = _evaluate(batch, self._both, self.vector)
        return (
            _reduced(batch, value, reduction, num_items, self.vector),
            self._scaled(batch, gradient, reduction, num_items),
        )

    def _prepare(self, s_hat: Any, s: Any, mask: Any = None, weights: Any = None) -> Batch:
        return prepare(type(self).__name__, self.potential or _Anywhere, s_hat, s, mask, weights, vector=self.vector)

    def _scaled(self, batch: Batch, gradient: Array, reduction: str, num_items: Any) -> Any:
        """The gradient of the reduced loss from the gradient of each row's."""
        factor = batch.weights
        if reduction == "mean":
            share = 1.0 / _denominator(batch, _row_count(batch, self.vector), num_items)
            factor = share if factor is None else factor * share
        if factor is not None:
            spread = self.vector and not is_number(factor) and factor.ndim > 0
            gradient = gradient * (factor[..., None] if spread else factor)
        return _finish(batch, gradient)


class _Anywhere:
    """The domain of losses without a potential."""

    domain = REALS
    bounded = False

    @staticmethod
    def point() -> float:
        return 0.0


def _check_reduction(who: str, reduction: str, num_items: Any) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{who}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")
    if num_items is not None and reduction != "mean":
        raise ValueError(f"{who}: num_items must go with reduction='mean', got reduction={reduction!r}.")


def _evaluate(batch: Batch, function: Callable[..., tuple[Array, ...]], vector: bool) -> tuple[Array, ...]:
    """Results of function(x, u, xh, present) on the batch; NumPy works in chunks that fit the cache."""
    if batch.space is not NumPy:
        return function(batch.s, batch.s_hat - batch.s, batch.s_hat, batch.present)
    with np.errstate(all="ignore"):
        if batch.s.nbytes <= CHUNK_BYTES:
            return function(batch.s, batch.s_hat - batch.s, batch.s_hat, batch.present)
        return _in_chunks(batch, function, vector)


def _in_chunks(batch: Batch, function: Callable[..., tuple[Array, ...]], vector: bool) -> tuple[np.ndarray, ...]:
    shape = batch.s.shape
    flat = (-1, shape[-1]) if vector else (-1,)
    s, s_hat = batch.s.reshape(flat), batch.s_hat.reshape(flat)
    present = None if batch.present is None else batch.present.reshape(flat)
    step = max(1, CHUNK_BYTES // s[:1].nbytes)
    results: list[np.ndarray] = []
    for start in range(0, len(s), step):
        part = slice(start, start + step)
        x, xh = s[part], s_hat[part]
        for i, piece in enumerate(function(x, xh - x, xh, None if present is None else present[part])):
            if start == 0:
                results.append(np.empty((len(s), *piece.shape[1:]), dtype=piece.dtype))
            results[i][part] = piece
    return tuple(r.reshape(shape if r.ndim == s.ndim else shape[:-1]) for r in results)


def _finish(batch: Batch, value: Array) -> Any:
    """An unreduced result as the user expects it: a Python number for numbers, else the dtype that came in."""
    if batch.plain:
        return float(value)
    value = batch.space.cast(value, batch.like)
    return value[()] if batch.space is NumPy else value


def _row_count(batch: Batch, vector: bool) -> int:
    return math.prod(batch.s.shape[:-1] if vector else batch.s.shape)


def _denominator(batch: Batch, rows: int, num_items: Any) -> Any:
    if num_items is not None:
        return number("reduction", "num_items", num_items, above=0.0) if is_number(num_items) else num_items
    if batch.weights is None:
        return max(rows, 1)
    total = batch.space.total(batch.weights)
    return where(total > 0, total, 1.0)


def _reduced(batch: Batch, value: Array, reduction: str, num_items: Any, vector: bool = False) -> Any:
    """Unreduced, summed or averaged losses, as the user expects them."""
    if batch.weights is not None:
        # 0 times an infinite loss would be NaN
        value = where(batch.weights > 0, value * batch.weights, 0.0)
    if reduction == "none":
        return _finish(batch, value)
    total = batch.space.total(value)
    if reduction == "mean":
        total = total / _denominator(batch, _row_count(batch, vector), num_items)
    if batch.listed:
        return float(total)
    return batch.s_hat.dtype.type(total) if batch.space is NumPy else total


# -------------------------------------------------------------------------------------------------- matching losses


@dataclass(frozen=True, init=False, repr=False)
class PerLabel:
    """A link for each observed label: different labels, different worries.

    Every label has its own curve; the loss of a prediction is that of the label's curve.

    Parameters
    ----------
    curves : mapping
        From label (a number) to curve. A label that is not in it is an error (NaN in PyTorch and JAX).

    Examples
    --------
    >>> loss = MatchingLoss(PerLabel({0.0: Identity(), 1.0: Exp()}))
    >>> loss([1.0, 1.0], [0.0, 1.0], reduction="none")
    array([0.5, 0. ])
    """

    labels: tuple[float, ...]
    curves: tuple[Curve, ...] = field(metadata=LEAF)

    domain = REALS
    bounded = False

    def __init__(self, curves: Mapping[float, Curve]) -> None:
        functions.register_loaded_frameworks()
        if not isinstance(curves, Mapping) or not curves:
            raise TypeError(f"PerLabel: curves must be a non-empty mapping from label to curve, got {curves!r}.")
        for label, curve in curves.items():
            require_curve("PerLabel", f"the entry of label {label!r}", curve)
        keep(
            self,
            labels=tuple(number("PerLabel", "label", label) for label in curves),
            curves=tuple(curves.values()),
        )
        for label, curve in zip(self.labels, self.curves, strict=True):
            if has_plain_numbers(curve) and not curve.holds(label, interior=True):
                raise ValueError(f"PerLabel: label must lie in the domain of its curve {curve!r}, got {label}.")

    def __repr__(self) -> str:
        return f"PerLabel({dict(zip(self.labels, self.curves, strict=True))!r})"

    def _repr_html_(self) -> str:
        from selmatch.sketch import svg

        return svg(self)

    def point(self) -> float:
        """A harmless score: the first label."""
        return self.labels[0]

    def _choose(self, x: Array, xh: Array, function: Callable[[Curve, Array, Array], Array]) -> Array:
        """function(curve, x, xh) of the curve that belongs to each label x; NaN where there is none."""
        result = math.nan + 0.0 * xh
        for label, curve in zip(self.labels, self.curves, strict=True):
            mine = x == label
            result = where(mine, function(curve, where(mine, x, label), where(mine, xh, label)), result)
        return result

    def holds(self, z: Array, *, interior: bool = False) -> Array:
        """Elementwise: is z one of the labels?"""
        known = z == self.labels[0]
        for label in self.labels[1:]:
            known = known | (z == label)
        return known

    def holds_prediction(self, s_hat: Array, s: Array) -> Array:
        """Elementwise: is s_hat in the domain of the curve of label s?"""
        inside = s_hat == s_hat
        for label, curve in zip(self.labels, self.curves, strict=True):
            inside = inside & ((s != label) | curve.holds(s_hat))
        return inside

    def slope(self, z: Array, s: Array) -> Array:
        """The sensitivity at z of the curve of label s."""
        return self._choose(s, z, lambda curve, x, xh: curve.slope(xh))

    def difference(self, x: Array, u: Array, xh: Array = None) -> Array:
        """Link at x + u minus link at the label x."""
        return self._choose(x, functions.end(x, u, xh), lambda curve, a, b: curve.difference(a, b - a, b))

    def remainder(self, x: Array, u: Array, xh: Array = None) -> Array:
        """The matching loss of x + u for the label x."""
        return self._choose(x, functions.end(x, u, xh), lambda curve, a, b: curve.remainder(a, b - a, b))

    def remainder_and_difference(self, x: Array, u: Array, xh: Array = None) -> tuple[Array, Array]:
        """Both."""
        return self.remainder(x, u, xh), self.difference(x, u, xh)


@dataclass(frozen=True, repr=False)
class MatchingLoss(Loss):
    r"""The matching loss of a link: sharp where the link is steep, calm where it is flat.

        .. math:: L(\hat s, s) = H(\hat s) - H(s) - (\hat s - s) h(s), \qquad
    abla L = h(\hat s) - h(s)

        Convex in the prediction and proper: the best prediction for random S is h^-1(E h(S)), not the mean (see
        :meth:`minimiser`).

        Parameters
        ----------
        potential : Curve, CompositeSoftmax, Separable or PerLabel
            What defines the link.
        check : bool
            False accepts a curve that is known to decrease; the loss may then be negative.

        Examples
        --------
        >>> loss = MatchingLoss(Sigmoid().affine(alpha=2.0, beta=1.5))
        >>> loss([1.0, 2.0], [0.5, 3.0])
        0.05923...
        >>> loss.grad([1.0, 2.0], [0.5, 3.0])
        array([ 0.1497385 , -0.22151555])
    """

    potential: Any = field(metadata=LEAF)
    check: bool = True

    def __post_init__(self) -> None:
        functions.register_loaded_frameworks()
        keep(self, check=bool(self.check))
        _require_potential(self.potential)
        if self.check:
            _require_links(self.potential)

    def __repr__(self) -> str:
        return f"MatchingLoss({self.potential!r}{'' if self.check else ', check=False'})"

    def _repr_html_(self) -> str:
        from selmatch.sketch import svg

        return svg(self.potential, caption=repr(self))

    @property
    def vector(self) -> bool:
        """Whether scores of one row are on the last axis."""
        return isinstance(self.potential, (CompositeSoftmax, Separable))

    def _options(self, present: Array) -> dict[str, Array]:
        return {"where": present} if self.vector else {}

    def _rows(self, x, u, xh, present):
        return self.potential.remainder(x, u, xh, **self._options(present))

    def _gradient(self, x, u, xh, present):
        return self.potential.difference(x, u, xh, **self._options(present))

    def _both(self, x, u, xh, present):
        return self.potential.remainder_and_difference(x, u, xh, **self._options(present))

    def parts(
        self,
        s_hat: Any,
        s: Any,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> tuple[Any, Any]:
        """A composite loss as its ranking part (divergence of the probabilities) and its region part (of Q)."""
        if not isinstance(self.potential, (CompositeSigmoid, CompositeSoftmax)):
            raise TypeError(f"MatchingLoss.parts: the potential must be composite, got {self.potential!r}.")
        batch = self._prepare(s_hat, s, where, weights)
        _check_reduction("MatchingLoss.parts", reduction, num_items)
        both = _evaluate(
            batch, lambda x, u, xh, present: self.potential.parts(x, u, xh, **self._options(present)), self.vector
        )
        ranking, region = (_reduced(batch, part, reduction, num_items, self.vector) for part in both)
        return ranking, region

    def curvature(self, s_hat: Any, s: Any = None, *, kind: str = "newton") -> Any:
        """Second derivatives in the prediction, for boosters and optimisers.

        ``"newton"`` is the diagonal of the Hessian at s_hat; ``"secant"`` is gradient over distance, which is stable
        from any start and needs s.
        """
        if kind not in ("newton", "secant"):
            raise ValueError(f"MatchingLoss.curvature: kind must be 'newton' or 'secant', got {kind!r}.")
        if s is None and (kind == "secant" or isinstance(self.potential, PerLabel)):
            raise TypeError(f"MatchingLoss.curvature: s must be given for kind={kind!r}.")
        batch = self._prepare(s_hat, self.potential.point() if s is None else s)
        return _finish(batch, _evaluate(batch, lambda *move: (self._curvature(kind, *move),), self.vector)[0])

    def _curvature(self, kind: str, x: Array, u: Array, xh: Array, present: Array) -> Array:
        newton = self.potential.slope(xh, x) if isinstance(self.potential, PerLabel) else self.potential.slope(xh)
        if kind == "newton":
            return newton
        still = u == 0
        return where(still, newton, self.potential.difference(x, u, xh) / where(still, 1.0, u))

    def hvp(self, s_hat: Any, v: Any) -> Any:
        """Hessian of each row's loss at s_hat times v; O(K) for many classes."""
        batch = prepare("MatchingLoss.hvp", self.potential, s_hat, v, vector=self.vector, targets=True)
        return _finish(batch, self.potential.hvp(batch.s_hat, batch.s))

    def quadratic(self, s_hat: Any, s: Any, **options: Any) -> Any:
        """The quadratic approximation of the loss near s: half of (s_hat - s)' Hessian(s) (s_hat - s)."""
        return _Quadratic(self)(s_hat, s, **options)

    # ------------------------------------------------------------------------------------------ targets as link values

    def fenchel_young(
        self,
        s_hat: Any,
        y: Any,
        *,
        conjugate: bool = True,
        where: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> Any:
        """The loss for targets y given as link values (probabilities, rates, margins) instead of scores.

        ``H(s_hat) - s_hat y + H*(y)``, the matching loss of s = h^-1(y) also where that is infinite; with
        ``conjugate=False`` without H*(y): the familiar cross-entropy, Poisson and DPO losses. Same gradient.

        Examples
        --------
        >>> MatchingLoss(Sigmoid()).fenchel_young(40.0, 1.0) == math.exp(-40.0)
        True
        """
        batch = self._prepare_targets(s_hat, y, where, weights)
        _check_reduction("MatchingLoss.fenchel_young", reduction, num_items)

        def rows(y, u, s_hat, present):
            value = _fenchel_young(self.potential, s_hat, y, present)
            return (value if conjugate else value - _conjugate(self.potential, y, present),)

        (value,) = _evaluate(batch, rows, self.vector)
        return _reduced(batch, value, reduction, num_items, self.vector)

    def fenchel_young_grad(
        self,
        s_hat: Any,
        y: Any,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
    ) -> Any:
        """The gradient of :meth:`fenchel_young`, link(s_hat) - y."""
        batch = self._prepare_targets(s_hat, y, where, weights)
        _check_reduction("MatchingLoss.fenchel_young_grad", reduction, num_items)

        def gradient(y, u, s_hat, present):
            move = self.potential.link(s_hat, **self._options(present)) - y
            return (move if present is None else functions.where(present, move, 0.0),)

        (move,) = _evaluate(batch, gradient, self.vector)
        return self._scaled(batch, move, reduction, num_items)

    def _prepare_targets(self, s_hat: Any, y: Any, mask: Any, weights: Any) -> Batch:
        who = "MatchingLoss.fenchel_young"
        if isinstance(self.potential, PerLabel):
            raise TypeError(f"{who}: a PerLabel loss must get labels, not link values.")
        batch = prepare(who, self.potential, s_hat, y, mask, weights, vector=self.vector, targets=True)
        if batch.space is NumPy:
            inside = self.potential.holds(batch.s_hat)
            require_inside(who, "s_hat", batch.s_hat, inside, batch.present, "lie in the domain of the link")
            values = self.potential.range if isinstance(self.potential, Curve) else REALS
            slack = 1e-9 * max((math.fabs(e) for e in (values.low, values.high) if math.isfinite(e)), default=0.0)
            inside = (batch.s >= values.low - slack) & (batch.s <= values.high + slack)
            require_inside(who, "y", batch.s, inside, batch.present, f"lie in {values}, the range of the link")
        return batch

    # ------------------------------------------------------------------------------------------------- what it elicits

    def minimiser(self, s: Any, weights: Any = None) -> Any:
        """The best constant prediction for scores s: h^-1 of the weighted mean of h(s).

        For many classes the rows of s are the observations and the result has one score per class.

        Examples
        --------
        >>> MatchingLoss(Exp()).minimiser([0.0, 2.0])
        1.43378...
        """
        if isinstance(self.potential, PerLabel):
            raise TypeError("MatchingLoss.minimiser: a PerLabel loss has no single link.")
        if self.vector:
            from selmatch.inversion import minimise_rows

            return minimise_rows(self, s, weights)
        batch = self._prepare(s, s, None, weights)
        if math.prod(batch.s.shape) == 0:
            raise ValueError("MatchingLoss.minimiser: s must hold at least one score, got an empty array.")
        with np.errstate(all="ignore"):
            best = _minimise(self.potential, batch)
        if batch.listed:
            return float(best)
        return batch.s.dtype.type(best) if batch.space is NumPy else best


for _cls in (MatchingLoss, PerLabel):
    pytrees.announce(_cls)


@dataclass(frozen=True)
class _Quadratic(Loss):
    """Half of d' Hessian(s) d."""

    loss: MatchingLoss

    @property
    def potential(self) -> Any:
        return self.loss.potential

    @property
    def vector(self) -> bool:
        return self.loss.vector

    def _rows(self, x, u, xh, present):
        if not self.vector:
            slope = self.potential.slope(x, x) if isinstance(self.potential, PerLabel) else self.potential.slope(x)
            return 0.5 * slope * square(u)
        return 0.5 * row_sum(u * self.potential.hvp(x, u, where=present))[..., 0]


def _require_potential(potential: Any) -> None:
    if isinstance(potential, (Curve, CompositeSoftmax, Separable, PerLabel)):
        return
    remedy = ""
    if isinstance(potential, type):
        remedy = f" Try {potential.__name__}(...)."
    elif isinstance(potential, Loss):
        remedy = " It is a loss already."
    elif callable(potential):
        remedy = " Try FromLink(function)."
    raise TypeError(f"MatchingLoss: the potential must be a curve or a vector potential, got {potential!r}.{remedy}")


def _require_links(potential: Any) -> None:
    """Refuse curves that decrease."""
    if isinstance(potential, CompositeSoftmax):
        return  # checked when it was made
    curves = potential.curves if isinstance(potential, PerLabel) else (getattr(potential, "curve", potential),)
    if isinstance(potential, Curve):
        curves = (potential,)
    for curve in curves:
        if curve.increasing is True or getattr(curve, "check", True) is False or not has_plain_numbers(curve):
            continue
        if curve.increasing is False:
            scaling = ""
            if curve.largest_gamma > 0:
                gamma = float(f"{0.55 * curve.largest_gamma:.1g}")
                scaling = f" As a scaling: CompositeSigmoid({curve!r}, gamma={gamma:g})."
            raise ValueError(f"MatchingLoss: {curve!r} is not non-decreasing, so it is no link.{scaling}")
        fall = find_fall(curve)
        if fall is not None:
            a, b = fall
            raise ValueError(
                f"MatchingLoss: {curve!r} must not decrease, got h({a:g}) = {float(curve(a)):.6g} > "
                f"h({b:g}) = {float(curve(b)):.6g}, so it is no link."
            )


# ---------------------------------------------------------------------------------------- Fenchel-Young and inversion


def _finite_inverse(curve: Curve, y: Array) -> Array:
    """h^-1(y), with infinite scores replaced by finite ones beyond which the link is constant in any precision."""
    return minimum(maximum(curve.inverse(y), -1e4), 1e4) if not curve.bounded else curve.inverse(y)


def _fenchel_young(potential: Any, s_hat: Array, y: Array, present: Array) -> Array:
    """H(s_hat) - s_hat y + H*(y) of each row."""
    if isinstance(potential, CompositeSoftmax):
        return _softmax_fenchel_young(potential, s_hat, y, present)
    if isinstance(potential, Separable):
        value = _fenchel_young(potential.curve, s_hat, y, None)
        return row_sum(value if present is None else where(present, value, 0.0))[..., 0]
    if potential.domain.open_low or potential.domain.open_high:
        # by duality in link space, where the scores near the open end are far apart
        y_hat = potential(s_hat)
        return potential.inverted().remainder(y_hat, y - y_hat, y)
    s = _finite_inverse(potential, y)
    value = potential.remainder(s, s_hat - s, s_hat)
    return value if potential.continuous else value + (potential(s) - y) * (s_hat - s)


def _conjugate(potential: Any, y: Array, present: Array) -> Array:
    """H*(y) of each row."""
    if isinstance(potential, CompositeSoftmax):
        return _softmax_conjugate(potential, y, present)
    if isinstance(potential, Separable):
        value = _conjugate(potential.curve, y, None)
        return row_sum(value if present is None else where(present, value, 0.0))[..., 0]
    s = _finite_inverse(potential, y)
    return y * s - potential.primitive(s)


def _shares(softmax: CompositeSoftmax, y: Array) -> Array:
    """Link values of a standard Softmax as probabilities."""
    value = constant_value(softmax.scaling)
    if value is None or softmax.anchor is not None:
        raise TypeError(
            "MatchingLoss.fenchel_young: for many classes the scaling must be constant (the standard Softmax) and "
            "without anchor; give scores instead of link values, or use fenchel_young_grad."
        )
    return y / value


def _softmax_fenchel_young(softmax: CompositeSoftmax, s_hat: Array, y: Array, present: Array) -> Array:
    """gamma KL(y to p(s_hat)), each term >= 0."""
    t = _shares(softmax, y)
    rows = softmax._rows(s_hat, present)
    log_p = rows.y - rows.lse
    rare = rows.p < 1e-30
    p = where(rare, 1.0, rows.p)
    usual = k_scaled(p, where(rare, 0.0, t) - where(rare, 0.0, p), where(rare, 1.0, t))
    term = where(rare, xlogy(t, t) - t * where(rare, log_p, 0.0) - t + rows.p, usual)
    return softmax.gamma * row_sum(term if present is None else where(present, term, 0.0))[..., 0]


def _softmax_conjugate(softmax: CompositeSoftmax, y: Array, present: Array) -> Array:
    t = _shares(softmax, y)
    term = softmax.gamma * xlogy(t, t) - t * softmax.scaling.primitive(0.0 * t)
    if softmax.rho is not None:
        term = term - t * log(functions.like(softmax.rho, t))
    return row_sum(term if present is None else where(present, term, 0.0))[..., 0]


def _minimise(curve: Curve, batch: Batch) -> Array:
    """The z with weighted mean link difference 0: from h^-1 of the mean link, polished without cancellation."""
    s, total = batch.s, batch.space.total
    weights = 1.0 + 0.0 * s if batch.weights is None else batch.weights
    mass = total(weights)
    low, high = (s + 0.0).min(), (s + 0.0).max()
    z = minimum(maximum(curve.inverse(total(weights * curve(s)) / mass), low), high)
    z = where(isfinite(z), z, 0.5 * (low + high))
    for _ in range(8):
        slope = curve.slope(z)
        step = total(weights * curve.difference(z + 0.0 * s, s - z, s)) / mass / where(slope > 0, slope, 1.0)
        # a step of rounding size is the end; a wild one (a flat piece, a kink) is no improvement
        usable = isfinite(step) & (slope > 0) & (z + step >= low) & (z + step <= high)
        z = z + where(usable, step, 0.0)
    return z


# ------------------------------------------------------------------------------------------- losses to compare with


@dataclass(frozen=True)
class CrossEntropy(Loss):
    r"""Cross-entropy of composite probabilities, to compare with the matching loss.

    .. math:: \gamma \sum_k p_k(s) \, [-\log p_k(\hat s)]

    It keeps the ranking part of the matching loss and loses the region part; it need not be convex.

    Parameters
    ----------
    potential : CompositeSigmoid or CompositeSoftmax
        What defines the probabilities.

    Examples
    --------
    >>> CrossEntropy(CompositeSoftmax())([0.0, 0.0], [0.0, 0.0])
    0.69314...
    """

    potential: Any = field(metadata=LEAF)

    def __post_init__(self) -> None:
        functions.register_loaded_frameworks()
        if not isinstance(self.potential, (CompositeSigmoid, CompositeSoftmax)):
            raise TypeError(f"CrossEntropy: the potential must be composite, got {self.potential!r}.")

    @property
    def vector(self) -> bool:
        """Whether scores of one row are on the last axis."""
        return isinstance(self.potential, CompositeSoftmax)

    def _rows(self, x, u, xh, present):
        return self.potential.cross_entropy(x, u, xh, **({"where": present} if self.vector else {}))

    def _gradient(self, x, u, xh, present):
        return self.potential.cross_entropy_gradient(x, u, xh, **({"where": present} if self.vector else {}))


@dataclass(frozen=True)
class ReweightedSquare(Loss):
    r"""Squared error with weights that grow with the score: what people do without a matching loss.

    .. math:: w \cdot (\hat s - s)^2, \qquad w(z) = \kappa (z - 	ext{low} + \delta)

    Weighted by the prediction it is neither convex nor bounded below: train with it only to see that.

    Parameters
    ----------
    by : {"observed", "predicted", "both"}
        Which score sets the weight.
    kappa : float
        Factor, > 0.
    low : float
        The lowest score.
    delta : float
        Weight of the lowest score is kappa * delta; > 0.

    Examples
    --------
    >>> ReweightedSquare(by="observed", kappa=0.5, low=-3.0, delta=0.5)(3.0, -3.0)
    9.0
    """

    by: str = "observed"
    kappa: float = 1.0
    low: float = 0.0
    delta: float = 1.0

    def __post_init__(self) -> None:
        if self.by not in ("observed", "predicted", "both"):
            raise ValueError(f"ReweightedSquare: by must be 'observed', 'predicted' or 'both', got {self.by!r}.")
        keep(
            self,
            kappa=number("ReweightedSquare", "kappa", self.kappa, above=0.0),
            low=number("ReweightedSquare", "low", self.low),
            delta=number("ReweightedSquare", "delta", self.delta, above=0.0),
        )

    def _weight(self, z: Array) -> Array:
        return self.kappa * (z - self.low + self.delta)

    def _rows(self, x, u, xh, present):
        weight = 1.0 if self.by == "predicted" else self._weight(x)
        return (weight if self.by == "observed" else weight * self._weight(xh)) * square(u)

    def _gradient(self, x, u, xh, present):
        if self.by == "observed":
            return 2.0 * self._weight(x) * u
        own = 1.0 if self.by == "predicted" else self._weight(x)
        return own * (2.0 * self._weight(xh) * u + self.kappa * square(u))


for _cls in (CrossEntropy, ReweightedSquare):
    pytrees.announce(_cls)
