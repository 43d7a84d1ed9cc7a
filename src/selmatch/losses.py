"""Losses: the Bregman divergence of a potential, with masks, weights and reductions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from selmatch import functions, mesh
from selmatch.algebra import require_curve
from selmatch.arrays import pytrees
from selmatch.arrays.namespaces import NumPy
from selmatch.batch import Anywhere, Batch, prepare, require_inside
from selmatch.composite import (
    CompositeSigmoid,
    CompositeSoftmax,
    Separable,
    plain_sigmoid,
    quickly,
    scalar_loss_with,
    sigmoid_cross_entropy,
    usual_scores,
)
from selmatch.conjugates import attainable, fenchel_young, fenchel_young_slope, without_conjugate
from selmatch.curve import Curve
from selmatch.functions import row_max, square, where
from selmatch.inversion import minimise, minimise_labels, minimise_rows
from selmatch.labels import checked_shares, require_score, share_losses, shares_of
from selmatch.parameters import LEAF, has_plain_numbers, keep, number
from selmatch.quadrature import at_least_the_quotient, mean_on_the_way
from selmatch.scales import LOGARITHMS

if TYPE_CHECKING:
    from selmatch.certificates import Certificate
    from selmatch.design import Wish

Array = Any


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

    def _hessian_product(self, xh: Array, v: Array, present: Array) -> Array:
        """The Hessian at xh times v, where it does not depend on the observed scores and is known; else None."""
        return None

    def _prepare(self, *arguments: Any, method: str = "") -> Batch:
        who = type(self).__name__ + method
        return prepare(who, self.potential or Anywhere, *arguments, vector=self.vector)

    def _options(self, present: Array) -> dict[str, Array]:
        """The mask, for potentials that take one; scalar ones get harmless scores behind it."""
        return {"where": present} if self.vector else {}

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
            Predicted and observed scores; for many classes these are on the last axis. One broadcasts to the other; a
            column against a row is an error. Scores outside the domain are an error in NumPy, and give NaN in PyTorch
            and JAX.
        where : boolean array, optional
            Of the shape of the scores; for many classes also (B, T) or (B, T, 1), which mask whole rows of them.
            False entries are ignored, even NaN.
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
            ``reduction="none"`` returns the dtype of s_hat, sums and means have at least single precision.
        """
        batch = self._prepare(s_hat, s, where, weights, reduction, num_items)
        return batch.reduced(self._losses(batch, OfScores))

    def _losses(self, batch: Batch, kind: Any) -> Array:
        """The loss of each row; libraries that differentiate are given its gradient in closed form."""
        own = getattr(batch.space, "losses", None)
        if own is not None and type(self)._gradient is not Loss._gradient:
            return own(kind, self, batch.s, batch.s_hat, batch.present)
        (value,) = batch.evaluate(lambda x, u, xh, present: (kind.rows(self, x, u, xh, present),))
        return value

    def save(self, path: Any, *, certificates: Any = ()) -> None:
        """Write the loss to a file that people can read and :func:`selmatch.load` understands: .toml or .json.

        With it may go a list of certificates; :func:`selmatch.spec.certificates` checks them again.
        """
        from selmatch import spec

        spec.save(self, path, certificates=certificates)

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
        batch = self._prepare(s_hat, s, where, weights, reduction, num_items)
        (gradient,) = batch.evaluate(lambda *move: (self._gradient(*move),))
        return batch.scaled(gradient)

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
        batch = self._prepare(s_hat, s, where, weights, reduction, num_items)
        value, gradient = batch.evaluate(self._both)
        return batch.reduced(value), batch.scaled(gradient)


class OfScores:
    """Losses of rows for observed scores x and predictions xh = x + u, and their gradients."""

    @staticmethod
    def rows(loss: Any, x: Array, u: Array, xh: Array, present: Array) -> Array:
        return loss._rows(x, u, xh, present)

    @staticmethod
    def gradient(loss: Any, x: Array, u: Array, xh: Array, present: Array) -> Array:
        return loss._gradient(x, u, xh, present)

    @staticmethod
    def both(loss: Any, x: Array, u: Array, xh: Array, present: Array) -> tuple[Array, Array]:
        return loss._both(x, u, xh, present)


class OfTargets:
    """The same for targets y that are link values, in place of observed scores."""

    @staticmethod
    def rows(loss: Any, y: Array, u: Array, xh: Array, present: Array) -> Array:
        return fenchel_young(loss.potential, xh, y, present)

    @staticmethod
    def gradient(loss: Any, y: Array, u: Array, xh: Array, present: Array) -> Array:
        move = fenchel_young_slope(loss.potential, xh, y, present)
        return move if present is None else where(present, move, 0.0)

    @classmethod
    def both(cls, loss: Any, y: Array, u: Array, xh: Array, present: Array) -> tuple[Array, Array]:
        return cls.rows(loss, y, u, xh, present), cls.gradient(loss, y, u, xh, present)


class OfTargetsAlone(OfTargets):
    """Without the conjugate, which does not depend on the prediction."""

    @staticmethod
    def rows(loss: Any, y: Array, u: Array, xh: Array, present: Array) -> Array:
        return without_conjugate(loss.potential, xh, y, present)


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

    bounded = True  # to its labels

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
        result = 0.0 * xh
        for label, curve in zip(self.labels, self.curves, strict=True):
            mine = x == label
            result = where(mine, function(curve, where(mine, x, label), where(mine, xh, label)), result)
        return result * where(self.holds(x), 1.0 + 0.0 * x, math.nan)  # a factor, so that derivatives are NaN too

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

    .. math:: L(\hat s, s) = H(\hat s) - H(s) - (\hat s - s) h(s), \qquad \nabla L = h(\hat s) - h(s)

    Convex in the predicted scores (for many classes in all of them together) and proper: the best prediction for random
    S is h^-1(E h(S)), not the mean (see :meth:`minimiser`).

    Parameters
    ----------
    potential : Curve, CompositeSoftmax, Separable or PerLabel
        What defines the link.
    check : bool
        False accepts a curve that is known to decrease; the loss may then be negative.
    scale : {None, "log", "log1p"}
        What scores are where they are not the target itself: log(target) or log(1 + target). It does not change the
        loss of two scores, and stands in its file. What takes targets (:meth:`explain`, plots, estimators, metrics)
        takes the logarithm itself and answers in units of the target; what trains on labels as they are (boosters)
        refuses such a loss. See :meth:`with_scale`.

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
    #: what :func:`selmatch.focus` was asked for; it does not change the loss
    wish: Wish | None = field(default=None, compare=False, kw_only=True)
    #: what scores are, of the target; it does not change the loss of two scores
    scale: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        functions.register_loaded_frameworks()
        keep(self, check=bool(self.check))
        _require_potential(self.potential)
        _require_scale(self.scale, self.potential)
        if self.check:
            checked = _require_links(self.potential)
            if checked is not None:
                keep(self, _checked=checked)
        mesh.prepare(self.potential)

    def __repr__(self) -> str:
        scale = "" if self.scale is None else f", scale={self.scale!r}"
        return f"MatchingLoss({self.potential!r}{'' if self.check else ', check=False'}{scale})"

    def _repr_html_(self) -> str:
        from selmatch.sketch import svg

        return svg(self.potential, caption=repr(self))

    def with_scale(self, scale: str | None) -> MatchingLoss:
        """The same loss, marked as a loss of scores or of logarithms of a target.

        Parameters
        ----------
        scale : {None, "log", "log1p"}
            "log" or "log1p" for a loss that was designed on logarithms of the target; None if you take the
            logarithms yourself.

        Examples
        --------
        >>> seconds = np.array([5.0, 12.0, 30.0, 80.0, 400.0])
        >>> loss = sm.focus("high", data=np.log(seconds), top=0.2).with_scale("log")
        >>> loss.scale, loss.with_scale(None)(2.0, 3.0) == loss(2.0, 3.0)
        ('log', True)
        """
        _require_scale(scale, self.potential)
        made = copy.copy(self)
        keep(made, scale=scale)
        return made

    @property
    def certificate(self) -> Certificate | None:
        """Why the loss was accepted when it was made, and for which scores; None with ``check=False``.

        A curve of which only the formula is known is checked at its typical scores, and four times as far to each side.
        Beyond that nothing is claimed: ask :func:`selmatch.certify.convex` about your own scores. A class that declares
        ``increasing = True`` is accepted without a check; the certificate then says what a quick check finds.

        Examples
        --------
        >>> falls_far_out = MatchingLoss(FromLink(lambda z: z - functions.exp(z - 100.0)))
        >>> str(falls_far_out.certificate.domain)
        '[-36, 36]'
        """
        if not self.check or getattr(self.potential, "check", True) is False:
            return None
        found = vars(self).get("_checked") or vars(self.potential).get("_checked")
        if found is None and has_plain_numbers(self.potential):  # its structure says so, or JAX has rebuilt it
            from selmatch import certify

            found = _looked_at(self.potential) or certify.convex(self, effort=quickly())
        return found

    @property
    def vector(self) -> bool:
        """Whether scores of one row are on the last axis."""
        return isinstance(self.potential, (CompositeSoftmax, Separable))

    def _rows(self, x, u, xh, present):
        return self.potential.remainder(x, u, xh, **self._options(present))

    def _gradient(self, x, u, xh, present):
        return self.potential.difference(x, u, xh, **self._options(present))

    def _both(self, x, u, xh, present):
        return self.potential.remainder_and_difference(x, u, xh, **self._options(present))

    def _hessian_product(self, xh, v, present):
        if isinstance(self.potential, PerLabel):
            return None
        return self.potential.hvp(xh, v, **self._options(present))

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
        batch = self._prepare(s_hat, s, where, weights, reduction, num_items, method=".parts")
        ranking, region = batch.evaluate(
            lambda x, u, xh, present: self.potential.parts(x, u, xh, **self._options(present))
        )
        return batch.reduced(ranking), batch.reduced(region)

    def curvature(self, s_hat: Any, s: Any = None, *, kind: str = "newton") -> Any:
        """Second derivatives in the prediction, for boosters and optimisers.

        ``"newton"`` is the diagonal of the Hessian at s_hat; ``"secant"`` is the mean of that diagonal on the way from
        s to s_hat, which is stable from any start and needs s. For single scores that is gradient over distance. For
        many classes it is not, and unlike such a quotient it is never negative: it is computed with five nodes, and is
        at least the gradient over the longest move (own, or against another class): no narrow steep region is missed.
        """
        if kind not in ("newton", "secant"):
            raise ValueError(f"MatchingLoss.curvature: kind must be 'newton' or 'secant', got {kind!r}.")
        if s is None and (kind == "secant" or isinstance(self.potential, PerLabel)):
            raise TypeError(
                f"MatchingLoss.curvature: s must be given for kind={kind!r} of {self.potential!r}, got None."
            )
        batch = self._prepare(s_hat, self.potential.point() if s is None else s, method=".curvature")
        (curvature,) = batch.evaluate(lambda x, u, xh, present: (self._curvature(kind, x, u, xh),))
        return batch.finished(curvature)

    def _curvature(self, kind: str, x: Array, u: Array, xh: Array) -> Array:
        if kind == "secant" and isinstance(self.potential, CompositeSoftmax):
            mean = mean_on_the_way(self.potential.slope, x, u)
            return at_least_the_quotient(mean, self.potential.difference(x, u, xh), u, -row_max(-u), row_max(u))
        newton = self.potential.slope(xh, x) if isinstance(self.potential, PerLabel) else self.potential.slope(xh)
        if kind == "newton":
            return newton
        return functions.quotient(self.potential.difference(x, u, xh), u, newton)

    def hvp(self, s_hat: Any, v: Any) -> Any:
        """Hessian of each row's loss at s_hat times v; O(K) for many classes."""
        who = "MatchingLoss.hvp"
        if isinstance(self.potential, PerLabel):
            raise TypeError(
                f"{who}: the potential must not depend on the label, got PerLabel. Use curvature(s_hat, s)."
            )
        batch = prepare(who, self.potential, s_hat, v, vector=self.vector, observed="v")
        (product,) = batch.evaluate(lambda v, u, z, present: (self.potential.hvp(z, v),))
        return batch.finished(product)

    def quadratic(
        self,
        s_hat: Any,
        s: Any,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> Any:
        """The quadratic approximation of the loss near s: half of (s_hat - s)' Hessian(s) (s_hat - s)."""
        batch = self._prepare(s_hat, s, where, weights, reduction, num_items, method=".quadratic")

        def rows(x, u, xh, present):
            if self.vector:
                return (self.potential.quadratic(x, u, where=present),)
            return (0.5 * square(u) * self._curvature("newton", x, u, x),)

        (value,) = batch.evaluate(rows)
        return batch.reduced(value)

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
        ``conjugate=False`` without H*(y): the familiar cross-entropy, Poisson and DPO losses. Same gradient. Targets
        outside the range of the link are an error in NumPy, and give NaN in PyTorch and JAX.

        Examples
        --------
        >>> MatchingLoss(Sigmoid()).fenchel_young(40.0, 1.0) == math.exp(-40.0)
        True
        """
        batch = self._prepare_targets(".fenchel_young", s_hat, y, where, weights, reduction, num_items)
        return batch.reduced(self._losses(batch, OfTargets if conjugate else OfTargetsAlone))

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
        batch = self._prepare_targets(".fenchel_young_grad", s_hat, y, where, weights, reduction, num_items)
        (move,) = batch.evaluate(lambda *move: (OfTargets.gradient(self, *move),))
        return batch.scaled(move)

    def label_loss(
        self,
        s_hat: Any,
        labels: Any,
        *,
        score: Any = 0.0,
        ignore_index: int = -100,
        where: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> Any:
        r"""The loss of many classes for labels: class indices, or rows of shares (one-hot or soft).

        .. math:: -\gamma \log p_k(\hat s) + r_Q(\tau, \hat s_k - \tau)

        This is the matching loss of a teacher who is certain of class k: the score of k is tau (``score``), and the
        probability p of all other classes is 0. The loss is convex in s_hat, never negative, and elicits
        h_k(s_hat) = q(tau) P(k); its gradient is that of :meth:`fenchel_young` for y_k = q(tau). With a constant q the
        second part, the remainder of Q, is 0: ``CompositeSoftmax()`` gives the cross-entropy. Soft labels give the mean
        over their classes. A ``Separable`` potential takes the rows as link values.

        Parameters
        ----------
        s_hat : array
            Predicted scores, classes on the last axis.
        labels : array
            Class indices, with one axis less, or shares of the classes, of the shape of s_hat. Other numbers are an
            error in NumPy, and give NaN in PyTorch and JAX.
        score : number
            The score that the labelled class should have, where q > 0: 0 for log-probabilities.
        ignore_index : int
            The index of rows that do not count.
        where, weights, reduction, num_items
            As for the call; a mask may also have the shape of the rows.

        Examples
        --------
        >>> scores = np.log([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
        >>> float(MatchingLoss(CompositeSoftmax()).label_loss(scores, [0, 1, -100]))
        0.45814...
        >>> MatchingLoss(CompositeSoftmax(Exp())).label_loss(scores, [0, 1, -100], reduction="none").round(3)
        array([1.132, 0.713, 0.   ])
        """
        who = "MatchingLoss.label_loss"
        if not self.vector:
            raise TypeError(
                f"{who}: the potential must be one of many classes, got {self.potential!r}. Try "
                "CompositeSoftmax(scaling); for single scores: fenchel_young."
            )
        s_hat, y, where = shares_of(who, s_hat, labels, where, ignore_index)
        return self._share_loss(s_hat, y, score, where, weights, reduction, num_items)

    def _share_loss(self, s_hat: Any, y: Any, score: Any, *options: Any) -> Any:
        who = "MatchingLoss.label_loss"
        if isinstance(self.potential, Separable):
            batch = self._prepare_targets(".label_loss", s_hat, y, *options)
            (value,) = batch.evaluate(lambda y, u, xh, present: (fenchel_young(self.potential, xh, y, present),))
            return batch.reduced(value)
        score = require_score(who, self.potential, score)
        batch = prepare(who, self.potential, s_hat, y, *options, vector=True, observed="y")
        batch.s = checked_shares(who, batch)
        (value,) = batch.evaluate(lambda y, u, xh, present: (share_losses(self.potential, xh, y, score, present),))
        return batch.reduced(value)

    def _prepare_targets(self, method: str, *arguments: Any) -> Batch:
        who = "MatchingLoss" + method
        if isinstance(self.potential, PerLabel):
            raise TypeError(
                f"{who}: the potential must not depend on the label, got PerLabel. Call the loss with labels."
            )
        batch = prepare(who, self.potential, *arguments, vector=self.vector, observed="y")
        if has_plain_numbers(self.potential):
            inside, condition, nearest = attainable(self.potential, batch)
            if batch.space is NumPy:
                require_inside(who, "y", batch.s, inside, batch.present, condition)
            batch.s = where(inside, nearest, math.nan)
        return batch

    # ------------------------------------------------------------------------------------------------- what it elicits

    def explain(self, data: Any = None, *, weights: Any = None) -> Any:
        """The loss in plain words and numbers: where it looks, what it elicits, how far it can be trusted.

        Parameters
        ----------
        data : array, optional
            Observed scores, or targets for a loss with a ``scale``; a loss made by :func:`selmatch.focus` remembers
            what matters of its data.
        weights : array, optional
            Weights of the rows.

        Examples
        --------
        >>> print(MatchingLoss(Identity()).explain())
        MatchingLoss(Identity())
        ...
        Simpler: this is squared error, halved...
        """
        from selmatch.explanation import explain

        return explain(self, data, weights)

    def minimiser(self, s: Any, weights: Any = None) -> Any:
        """The best constant prediction for scores s: h^-1 of the weighted mean of h(s).

        For many classes the rows of s are the observations and the result has one score per class. With a link for
        each label it is the prediction at which the gradients of all labels balance. The domains of their links must
        intersect.

        Examples
        --------
        >>> MatchingLoss(Exp()).minimiser([0.0, 2.0])
        1.43378...
        >>> MatchingLoss(PerLabel({0.0: Identity(), 1.0: 3.0 * Identity()})).minimiser([0.0, 1.0])
        0.75
        """
        who = "MatchingLoss.minimiser"
        batch = self._prepare(s, s, None, weights, method=".minimiser")
        if math.prod(batch.s.shape) == 0:
            raise ValueError(f"{who}: s must hold at least one score, got shape {tuple(batch.s.shape)}.")
        if batch.space is NumPy and batch.weights is not None and not batch.weights.any():
            raise ValueError(f"{who}: weights must not all be 0, got only zeros.")
        if self.vector:
            return minimise_rows(self.potential, batch)
        with np.errstate(all="ignore"):
            if isinstance(self.potential, PerLabel):
                best = minimise_labels(self.potential.labels, self.potential.curves, batch)
                if batch.space is NumPy and np.isnan(best):
                    shared = "the links of the labels in s must share a part of their domains"
                    raise ValueError(f"{who}: {shared}, got {self.potential!r}.")
                return batch.summed(best)
            return batch.summed(minimise(self.potential, batch.s, batch.weights, batch.space))


for _cls in (MatchingLoss, PerLabel):
    pytrees.announce(_cls)


def potential_of(who: str, loss: Any) -> Any:
    """The potential of a matching loss; curves and potentials are their own."""
    potential = loss.potential if isinstance(loss, MatchingLoss) else loss
    if isinstance(potential, (Curve, CompositeSoftmax, Separable, PerLabel)):
        return potential
    hint = f" Try {potential.__name__}()." if isinstance(potential, type) and issubclass(potential, Curve) else ""
    raise TypeError(f"{who}: loss must be a MatchingLoss, a potential or a curve, got {loss!r}.{hint}")


def loss_of(who: str, loss: Any) -> MatchingLoss:
    """A matching loss; curves and potentials become one."""
    potential = potential_of(who, loss)
    return loss if isinstance(loss, MatchingLoss) else MatchingLoss(potential)


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


def _require_scale(scale: Any, potential: Any) -> None:
    if scale is None:
        return
    if scale not in LOGARITHMS:
        words = " or ".join(map(repr, LOGARITHMS))
        raise ValueError(f"MatchingLoss: scale must be None, {words}, got {scale!r}.")
    if not isinstance(potential, Curve):
        raise TypeError(f"MatchingLoss: scale must be None for a potential without a single link, got {scale!r}.")


def _looked_at(potential: Any) -> Certificate | None:
    """What the constructors of a loss find where they have to search."""
    if isinstance(potential, (CompositeSigmoid, CompositeSoftmax)):
        return vars(replace(potential)).get("_checked")
    return _require_links(potential)


def _require_links(potential: Any) -> Certificate | None:
    """Refuse curves that decrease; what was found where a search was needed."""
    if isinstance(potential, CompositeSoftmax):
        return None  # checked when it was made
    if not isinstance(potential, PerLabel):
        return _searched(potential.curve if isinstance(potential, Separable) else potential)
    found = {label: _searched(curve) for label, curve in zip(potential.labels, potential.curves, strict=True)}
    if not any(found.values()):
        return None
    from selmatch import certify
    from selmatch.certificates import for_all_labels

    known = zip(potential.labels, potential.curves, strict=True)
    return for_all_labels({a: found[a] or certify.convex(curve, effort=quickly()) for a, curve in known})


def _searched(curve: Curve) -> Certificate | None:
    """What sampling and a short search say of a curve whose class does not say that it is a link."""
    from selmatch import certify

    # a composite Sigmoid was checked when it was made, or asked not to be
    if curve.increasing is True or isinstance(curve, CompositeSigmoid) or not has_plain_numbers(curve):
        return None
    if curve.increasing is False:
        remedy = scalar_loss_with(curve)
        remedy = f" As a scaling: {remedy}." if remedy else ""
        raise ValueError(f"MatchingLoss: {curve!r} decreases somewhere, so it cannot be a link.{remedy}")
    found = certify.convex(curve, usual_scores(curve), effort=quickly())
    if isinstance(found, certify.Refuted):
        raise ValueError(f"MatchingLoss: {curve!r} must not decrease, got {found.witness}, so it cannot be a link.")
    return found


# ------------------------------------------------------------------------------------------- losses to compare with


@dataclass(frozen=True)
class CrossEntropy(Loss):
    r"""Cross-entropy of composite probabilities, to compare with the matching loss.

    .. math:: \gamma \sum_k p_k(s) \, [-\log p_k(\hat s)]

    It keeps the ranking part of the matching loss and loses the region part; it need not be convex.

    Of a Sigmoid link, whose values are probabilities p, it is

    .. math:: -\tfrac1\alpha \, \{p(s) \log p(\hat s) + [1 - p(s)] \log [1 - p(\hat s)]\},

    which has the gradient of the matching loss, and exceeds it by the entropy of p(s) over alpha.

    Parameters
    ----------
    potential : CompositeSigmoid, CompositeSoftmax or Sigmoid
        What defines the probabilities; a Sigmoid may be stretched and shifted. A gain multiplies its loss.

    Examples
    --------
    >>> CrossEntropy(CompositeSoftmax())([0.0, 0.0], [0.0, 0.0])
    0.69314...
    >>> link = Sigmoid().affine(alpha=2.0, beta=0.5)
    >>> CrossEntropy(link)(1.0, 0.0) - CrossEntropy(link)(0.0, 0.0), MatchingLoss(link)(1.0, 0.0)
    (0.23105..., 0.23105...)
    """

    potential: Any = field(metadata=LEAF)

    def __post_init__(self) -> None:
        functions.register_loaded_frameworks()
        composite = isinstance(self.potential, (CompositeSigmoid, CompositeSoftmax))
        if not composite and plain_sigmoid(self.potential) is None:
            raise TypeError(f"CrossEntropy: the potential must be composite or a Sigmoid, got {self.potential!r}.")
        mesh.prepare(self.potential)

    @property
    def _of_link(self) -> bool:
        return not isinstance(self.potential, (CompositeSigmoid, CompositeSoftmax))

    @property
    def vector(self) -> bool:
        """Whether scores of one row are on the last axis."""
        return isinstance(self.potential, CompositeSoftmax)

    def _rows(self, x, u, xh, present):
        if self._of_link:
            return sigmoid_cross_entropy(self.potential, x, u, xh)
        return self.potential.cross_entropy(x, u, xh, **self._options(present))

    def _gradient(self, x, u, xh, present):
        if self._of_link:
            return self.potential.difference(x, u, xh)
        return self.potential.cross_entropy_gradient(x, u, xh, **self._options(present))


@dataclass(frozen=True)
class ReweightedSquare(Loss):
    r"""Squared error with weights that grow with the score: what people do without a matching loss.

    .. math:: w \cdot (\hat s - s)^2, \qquad w(z) = \kappa (z - \text{low} + \delta)

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
