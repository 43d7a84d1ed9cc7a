"""Losses for lists of items: pointwise, pairwise and listwise, with one signature.

Lists are rows of an array (with a mask, if they are padded) or flat items with their segments. All forms of the same
lists give the same numbers, bit for bit: see :mod:`selmatch.lists`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from selmatch.algebra import constant_value
from selmatch.arrays.namespaces import NumPy
from selmatch.arrays.ragged import Ragged, RaggedNamespace, lifted
from selmatch.batch import Anywhere, require_inside
from selmatch.composite import CompositeSoftmax
from selmatch.conjugates import attainable, fenchel_young, without_conjugate
from selmatch.curve import Curve
from selmatch.functions import maximum, where
from selmatch.lists import Groups, Offsets, Sizes
from selmatch.losses import MatchingLoss, PerLabel, potential_of
from selmatch.pairs import Pairs, plan, require_both_signs, require_gap
from selmatch.parameters import LEAF, has_plain_numbers
from selmatch.quadrature import at_least_the_quotient, mean_on_the_way
from selmatch.relevance import labels_to_scores
from selmatch.tasks import Task, task_of

__all__ = ["Offsets", "Sizes", "labels_to_scores", "listwise", "pairwise", "pointwise"]

Array = Any


#: options that only one kind has
Options = Mapping[str, Any]

_SHARED = ("where", "segments", "weights", "reduction", "num_items")


class _Ranking:
    """What the three kinds of ranking losses share."""

    name = ""
    #: lists with fewer items have nothing to compare
    fewest = 1
    #: whether the mathematics divides the work by itself
    whole = False
    #: options that only this kind has, and their defaults
    settings: Options = MappingProxyType({})

    def __repr__(self) -> str:
        return f"selmatch.ranking.{self.name}"

    def __call__(
        self,
        s_hat: Any,
        s: Any,
        loss: Any,
        *,
        where: Any = None,
        segments: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
        **options: Any,
    ) -> Any:
        """The loss of predicted scores s_hat for observed scores s of the items of lists.

        Parameters
        ----------
        s_hat, s : array
            Predicted and observed scores: rows of items (..., n), or flat items (N,) with ``segments``.
        loss : MatchingLoss, potential or curve
            What a move of a score, of a difference of scores, or of a list costs.
        where : boolean array, optional
            Of the shape of the scores; items that are False are ignored, even NaN. Masks of shape (B,) or (B, 1) leave
            out whole lists.
        segments : array of integers, Offsets or Sizes, optional
            The list of each flat item: ids in any order (results are in the order of the sorted ids), or the lists'
            borders or sizes. Traced ids (``jax.jit``, ``torch.compile``) count as many lists as items: those behind
            the last of the different ids are empty. For ``torch.compile`` give tensors, also in Offsets and Sizes.
        weights : array, optional
            Of the lists: not negative, of the shape of the unreduced result.
        reduction : {"mean", "sum", "none"}
            The mean is sum(w L) / sum(w) over the lists with anything to compare, 0 when there is none; "none" is
            one number per list, 0 for lists with nothing to compare.
        num_items : number, optional
            Replaces the denominator of the mean.

        Returns
        -------
        array or number
            As for :class:`MatchingLoss`.
        """
        potential, options = self._potential(loss, ""), self._settings("", options)
        task = self._prepared("", potential, options, s_hat, s, where, segments, weights, reduction, num_items)
        (value,) = task.evaluate(lambda *move: (self._values(potential, options, *move),), self.whole)
        return task.value(value)

    def grad(
        self,
        s_hat: Any,
        s: Any,
        loss: Any,
        *,
        where: Any = None,
        segments: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
        **options: Any,
    ) -> Any:
        """The gradient with respect to s_hat, of each list's loss, or with ``reduction`` of the mean or sum."""
        potential, options = self._potential(loss, ".grad"), self._settings(".grad", options)
        task = self._prepared(".grad", potential, options, s_hat, s, where, segments, weights, reduction, num_items)
        (gradient,) = task.evaluate(lambda *move: (self._both(potential, options, *move)[1],), self.whole)
        return task.items(gradient)

    def value_and_grad(
        self,
        s_hat: Any,
        s: Any,
        loss: Any,
        *,
        where: Any = None,
        segments: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        """Loss and gradient together, which share their work; parameters as for the call."""
        who = ".value_and_grad"
        potential, options = self._potential(loss, who), self._settings(who, options)
        task = self._prepared(who, potential, options, s_hat, s, where, segments, weights, reduction, num_items)
        value, gradient = task.evaluate(lambda *move: self._both(potential, options, *move), self.whole)
        return task.value(value), task.items(gradient)

    def curvature(
        self,
        s_hat: Any,
        s: Any,
        loss: Any,
        *,
        kind: str = "newton",
        where: Any = None,
        segments: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
        **options: Any,
    ) -> Any:
        """Second derivatives in each item's prediction, for boosters and optimisers; never negative.

        ``"newton"`` is the diagonal of the Hessian at s_hat; ``"secant"`` is the mean of that diagonal on the way from
        s to s_hat, which is stable from any start. For lists, and for pairs that are not summed one by one, it is
        computed with five nodes, and is at least the gradient over the longest move (own, or against another item), so
        that no narrow steep region is missed.
        """
        who = ".curvature"
        if kind not in ("newton", "secant"):
            raise ValueError(f"{self.name}{who}: kind must be 'newton' or 'secant', got {kind!r}.")
        potential, options = self._potential(loss, who), self._settings(who, options)
        task = self._prepared(who, potential, options, s_hat, s, where, segments, weights, reduction, num_items)
        (curvature,) = task.evaluate(lambda *move: (self._curvatures(potential, options, kind, *move),), self.whole)
        return task.items(curvature)

    def _settings(self, method: str, options: dict[str, Any]) -> dict[str, Any]:
        """The options that only this kind has, with their defaults."""
        unknown = options.keys() - self.settings.keys()
        if unknown:
            known = ", ".join(map(repr, (*_SHARED, *self.settings)))
            raise TypeError(f"{self.name}{method}: options must be among {known}, got {min(unknown)!r}.")
        return {**self.settings, **options}

    # ------------------------------------------------------------------------------------------- what each kind defines

    def _potential(self, loss: Any, method: str) -> Any:
        """The potential of a loss that fits."""
        raise NotImplementedError

    def _prepared(self, method: str, potential: Any, options: Options, *arguments: Any) -> Task:
        """The task of checked arguments."""
        return task_of(self.name + method, potential, *arguments, fewest=self.fewest)

    def _values(self, potential: Any, options: Options, x: Array, u: Array, xh: Array, groups: Groups) -> Array:
        """The loss of each list."""
        raise NotImplementedError

    def _both(
        self, potential: Any, options: Options, x: Array, u: Array, xh: Array, groups: Groups
    ) -> tuple[Array, Array]:
        """The loss of each list, and its gradient at each item."""
        raise NotImplementedError

    def _curvatures(
        self, potential: Any, options: Options, kind: str, x: Array, u: Array, xh: Array, groups: Groups
    ) -> Array:
        """The diagonal of the Hessian of each list's loss."""
        raise NotImplementedError


class Pointwise(_Ranking):
    """Every item judged by itself: the loss of a list is the mean of its items' matching losses.

    Examples
    --------
    >>> from selmatch.ranking import pointwise
    >>> pointwise([[1.0, 2.0], [3.0, 9.0]], [[0.0, 0.0], [0.0, 9.0]], Identity(), where=[[True, True], [True, False]])
    2.875
    """

    name = "pointwise"

    def _potential(self, loss, method):
        potential = potential_of(self.name + method, loss)
        if isinstance(potential, (Curve, PerLabel)):
            return potential
        raise TypeError(
            f"{self.name}{method}: loss must have a link for single scores, got {potential!r}. Try listwise."
        )

    def _values(self, potential, options, x, u, xh, groups):
        return _mean(potential.remainder(x, u, xh), groups)

    def _both(self, potential, options, x, u, xh, groups):
        rest, move = potential.remainder_and_difference(x, u, xh)
        return _mean(rest, groups), _shared(move, groups)

    def _curvatures(self, potential, options, kind, x, u, xh, groups):
        return _shared(MatchingLoss(potential, check=False)._curvature(kind, x, u, xh), groups)


def _mean(x: Array, groups: Groups) -> Array:
    """The mean of each list; 0 for an empty one."""
    return groups.sum(x) / maximum(groups.sizes(x), 1.0)


def _shared(x: Array, groups: Groups) -> Array:
    """Each item's part of its list's mean."""
    return x / groups.spread(maximum(groups.sizes(x), 1.0))


class Pairwise(_Ranking):
    """Differences of scores within each list: the loss of a list is the mean over its ordered pairs.

    For items i != j the matching loss of ``s_hat[i] - s_hat[j]`` for ``s[i] - s[j]``. Adding a number to all scores of
    a list changes nothing, and of a link only its odd part counts. Lists with a single item have no pairs and do not
    count. Time is linear for sinh, identity and cubic links, O(n log n) for piecewise polynomial ones, else, and
    always with pair_weights, quadratic, without storing the pairs: see :meth:`plan`. Observed scores are constants:
    unlike with the other two, no derivatives flow to s.

    Parameters
    ----------
    pair_weights : callable or Curve, optional
        A function of arrays that gives the weight, >= 0, of a pair from the size of its observed difference,
        ``abs(s[i] - s[j])``. The mean is still over all pairs. A weight that is negative or not finite is an error in
        NumPy; elsewhere a negative one gives NaN.

    Examples
    --------
    >>> from selmatch.ranking import pairwise
    >>> pairwise([3.0, 1.0, 9.0], [2.0, 1.0, 5.0], Identity(), segments=[1, 1, 2])
    0.5
    >>> pairwise([3.0, 1.0, 9.0], [2.0, 1.0, 5.0], Identity(), pair_weights=lambda gap: gap > 2.0)
    4.166666...
    """

    name = "pairwise"
    fewest = 2
    whole = True
    settings: Options = MappingProxyType({"pair_weights": None})

    def plan(self, loss: Any, *, pair_weights: Any = None) -> str:
        """How pairs are summed: "linear", "sorted" (O(n log n)) or "blocked" (quadratic time, linear memory).

        Examples
        --------
        >>> from selmatch.ranking import pairwise
        >>> pairwise.plan(Sinh()), pairwise.plan(Huber()), pairwise.plan(Tanh())
        ('linear', 'sorted', 'blocked')
        """
        require_gap("pairwise.plan", "pair_weights", pair_weights)
        return plan(self._potential(loss, ".plan"), pair_weights)

    def _potential(self, loss, method):
        potential = potential_of(self.name + method, loss)
        if not isinstance(potential, Curve):
            raise TypeError(
                f"{self.name}{method}: loss must have one link for differences of scores, got {potential!r}."
            )
        require_both_signs(self.name + method, potential)
        return potential

    def _prepared(self, method, potential, options, *arguments):
        require_gap(self.name + method, "pair_weights", options["pair_weights"])
        task = task_of(self.name + method, Anywhere, *arguments, fewest=self.fewest, numbers_of=potential)
        if potential.bounded:
            task.x = _with_legal_differences(self.name + method, "s", potential, task, task.x)
            task.xh = _with_legal_differences(self.name + method, "s_hat", potential, task, task.xh)
        return task

    def _values(self, potential, options, x, u, xh, groups):
        return Pairs(potential, options["pair_weights"]).value(xh, x, groups) / _pairs(groups, x)

    def _both(self, potential, options, x, u, xh, groups):
        value, gradient = Pairs(potential, options["pair_weights"]).value_and_gradient(xh, x, groups)
        return value / _pairs(groups, x), gradient / groups.spread(_pairs(groups, x))

    def _curvatures(self, potential, options, kind, x, u, xh, groups):
        return Pairs(potential, options["pair_weights"]).curvature(xh, x, groups, kind) / groups.spread(
            _pairs(groups, x)
        )


def _pairs(groups: Groups, x: Array) -> Array:
    """How many ordered pairs each list has, at least 1."""
    sizes = groups.sizes(x)
    return maximum(sizes * (sizes - 1.0), 1.0)


def _with_legal_differences(who: str, name: str, curve: Curve, task: Task, x: Array) -> Array:
    """x, whose differences within lists lie in the domain of the curve: else an error, or NaN outside of NumPy."""
    widest = task.groups.max(x) + task.groups.max(-x)
    inside = curve.holds(widest, interior=name == "s") & curve.holds(-widest, interior=name == "s")
    if task.batch.space is NumPy:
        differences, fits = task.arrangement.restored_lists(widest), task.arrangement.restored_lists(~inside) == 0
        require_inside(
            who, f"the largest difference of {name} in a list", differences, fits, None,
            f"lie, with both signs, in the domain {curve.domain} of the link", " Choose another link, or rescale.",
        )  # fmt: skip
        return x
    return x + task.groups.spread(task.batch.space.cast(where(inside, 0.0, math.nan), x))  # type: ignore[attr-defined]


class Listwise(_Ranking):
    r"""A list judged as a whole, by a :class:`CompositeSoftmax` over its items; its loss is that of the Softmax.

    A scaling q that grows makes the items with high scores matter; a constant one (``CompositeSoftmax()``) is the
    softmax cross-entropy of ListNet, up to the entropy of the targets, which does not depend on the prediction.
    Except for that one, adding a number to all scores of a list changes the loss: agree on their level.

    Parameters
    ----------
    targets : {"scores", "probabilities"}
        What s holds: observed scores, or the link values themselves: with ``CompositeSoftmax()`` the probabilities of
        the items of each list, which sum to 1 (ListNet, Rax). Then the loss is that of
        :meth:`MatchingLoss.fenchel_young`.
    conjugate : bool
        For probabilities: whether to subtract the entropy of the targets, so that the best loss is 0. False gives the
        cross-entropy.

    Examples
    --------
    >>> from selmatch.ranking import listwise
    >>> s_hat, s = [0.0, 1.0, 3.0, 1.0, 0.0], [1.0, 2.0, 3.0, 2.0, 0.0]
    >>> listwise(s_hat, s, CompositeSoftmax(Sinh()), segments=[0, 0, 0, 1, 1], reduction="none")
    array([0.00513..., 1.58909...])
    >>> listwise([2.0, 0.0], [1.0, 0.0], CompositeSoftmax(), targets="probabilities", conjugate=False)
    0.126928...
    """

    name = "listwise"
    settings: Options = MappingProxyType({"targets": "scores", "conjugate": True})

    def _potential(self, loss, method):
        who = self.name + method
        potential = potential_of(who, loss)
        if not isinstance(potential, CompositeSoftmax):
            hint = f" Try CompositeSoftmax({potential!r})." if isinstance(potential, Curve) else " Try pointwise."
            raise TypeError(f"{who}: loss must have a CompositeSoftmax, got {potential!r}.{hint}")
        if potential.rho is not None:
            raise ValueError(
                f"{who}: rho must be left out (items have no classes that it could belong to), got {potential.rho}."
            )
        return potential

    def _prepared(self, method, potential, options, *arguments):
        who, targets = self.name + method, options["targets"]
        if targets not in ("scores", "probabilities"):
            raise ValueError(f"{who}: targets must be 'scores' or 'probabilities', got {targets!r}.")
        if targets == "scores" and not options["conjugate"]:
            raise ValueError(f"{who}: conjugate must be left out for targets='scores', got {options['conjugate']!r}.")
        if targets == "scores":
            return super()._prepared(method, potential, options, *arguments)
        standard = constant_value(potential.scaling) is not None and potential.anchor is None
        if options["conjugate"] and not standard and method != ".curvature":
            raise TypeError(
                f"{who}: the scaling must be constant, and anchor left out, for targets='probabilities', got "
                f"{potential!r}. Give scores, or conjugate=False."
            )
        task = task_of(who, potential, *arguments, fewest=self.fewest, vector=True, observed="y")
        if has_plain_numbers(potential):
            task.x = _with_attainable_targets(who, potential, task)
        return task

    def _values(self, potential, options, x, u, xh, groups):
        if options["targets"] == "scores":
            ranking, region = self._parts(potential, x, u, xh, groups)
            return ranking + region
        function = fenchel_young if options["conjugate"] else without_conjugate
        return function(_on_items(potential), Ragged(xh, groups), Ragged(x, groups), _present(groups))

    def _parts(self, potential, x, u, xh, groups):
        return _on_items(potential).parts(*_ragged(groups, x, u, xh), where=_present(groups))

    def _both(self, potential, options, x, u, xh, groups):
        softmax = _on_items(potential)
        if options["targets"] == "scores":
            move = _ragged(groups, x, u, xh)
            value, gradient = softmax.remainder_and_difference(*move, where=_present(groups))
            return value, gradient.values
        value = self._values(potential, options, x, u, xh, groups)
        return value, softmax.link(Ragged(xh, groups), where=_present(groups)).values - x

    def _curvatures(self, potential, options, kind, x, u, xh, groups):
        if kind == "secant" and options["targets"] != "scores":
            raise ValueError("listwise.curvature: kind must be 'newton' for targets='probabilities', got 'secant'.")
        softmax = _on_items(potential)

        def diagonal(z: Array) -> Array:
            return softmax.slope(Ragged(z, groups), where=_present(groups)).values

        if kind == "newton":
            return diagonal(xh)
        gradient = softmax.difference(*_ragged(groups, x, u, xh), where=_present(groups)).values
        return at_least_the_quotient(mean_on_the_way(diagonal, x, u), gradient, u, *groups.ends(u))

    def parts(
        self,
        s_hat: Any,
        s: Any,
        loss: Any,
        *,
        where: Any = None,
        segments: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> tuple[Any, Any]:
        """The loss as its ranking part (divergence of the probabilities) and its region part (of Q)."""
        potential = self._potential(loss, ".parts")
        arguments = (s_hat, s, where, segments, weights, reduction, num_items)
        task = self._prepared(".parts", potential, self.settings, *arguments)
        ranking, region = task.evaluate(lambda *move: self._parts(potential, *move))
        return task.value(ranking), task.value(region)


def _with_attainable_targets(who: str, softmax: CompositeSoftmax, task: Task) -> Array:
    """Targets that are links of some scores: else an error, or NaN outside of NumPy."""
    items = Ragged(task.x, task.groups)
    probe = dataclasses.replace(task.batch, s=items, present=_present(task.groups), space=RaggedNamespace)
    inside, condition, _ = attainable(softmax, probe)
    if task.batch.space is NumPy:
        fits = task.arrangement.restored_items(~inside.values) == 0
        remedy = " Normalise each list, and mask lists without relevant items."
        require_inside(who, "s", task.batch.s, fits, None, condition.replace("the classes", "the list"), remedy)
    return where(inside.values, task.x, math.nan)


def _ragged(groups: Groups, *arrays: Array) -> list[Ragged]:
    return [Ragged(x, groups) for x in arrays]


def _present(groups: Groups) -> Ragged | None:
    return None if groups.present is None else Ragged(groups.present, groups)


@dataclass(frozen=True)
class _OnItems(Curve):
    """A curve on the items of ragged lists, computed on the array beneath: its integrals need axes of their own."""

    curve: Curve = field(metadata=LEAF)

    @property
    def domain(self):
        return self.curve.domain

    @property
    def increasing(self):
        return self.curve.increasing

    def __call__(self, x):
        return lifted(self.curve)(x)

    def primitive(self, x):
        return lifted(self.curve.primitive)(x)

    def slope(self, x):
        return lifted(self.curve.slope)(x)

    def difference(self, x, u, xh=None):
        return lifted(self.curve.difference)(x, u, xh)

    def remainder(self, x, u, xh=None):
        return lifted(self.curve.remainder)(x, u, xh)

    def increment(self, x, u, xh=None):
        return lifted(self.curve.increment)(x, u, xh)


def _on_items(softmax: CompositeSoftmax) -> CompositeSoftmax:
    """The same potential, for ragged lists."""
    if constant_value(softmax.scaling) is not None:
        return softmax
    return CompositeSoftmax(_OnItems(softmax.scaling), gamma=softmax.gamma, anchor=softmax.anchor, check=False)


pointwise = Pointwise()
pairwise = Pairwise()
listwise = Listwise()
