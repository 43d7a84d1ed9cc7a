"""The sums over pairs, by the quickest way that the link allows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from selmatch.algebra import require_curve
from selmatch.curve import Curve
from selmatch.functions import is_number, isfinite, minimum, namespace_of, not_negative, where
from selmatch.lists import Groups
from selmatch.pairs import blocked, linear, sorting
from selmatch.pairs.derivatives import with_gradient
from selmatch.pairs.layout import layout_of
from selmatch.pairs.odd import HalfLine, OddPart, odd_part
from selmatch.pairs.walk import Lists, over_parts
from selmatch.parameters import has_plain_numbers
from selmatch.quadrature import at_least_the_quotient, mean_on_the_way

Array = Any

#: lists of so few items are not sorted
SHORT = 16
#: nor are these for a secant, which takes a sort for each of its nodes
SHORT_FOR_SECANTS = 64


def plan(curve: Curve, gap: Any = None) -> str:
    """How the sums over pairs of a link are computed: "linear", "sorted" or "blocked".

    Parameters
    ----------
    curve : Curve
        The link.
    gap : callable, optional
        The weights of pairs by their observed gap, if there are any.

    Examples
    --------
    >>> from selmatch.pairs import plan
    >>> plan(Sinh().affine(alpha=2.0)), plan(Huber()), plan(Sigmoid()), plan(Identity(), gap=np.sqrt)
    ('linear', 'sorted', 'blocked', 'blocked')
    """
    require_curve("plan", "curve", curve)
    odd = None if gap is not None else odd_part(curve)
    if odd is None:
        return "blocked"
    return "linear" if odd.pieces is None else "sorted"


class Pairs:
    r"""Sums over all ordered pairs of each list, of the matching losses of differences of scores.

    .. math:: V = \sum_{i \ne j} L(\hat s_i - \hat s_j, s_i - s_j)

    Only the odd part of the link counts. If that is made of sinh, x and x^3 (:class:`~selmatch.Exp` and shifts
    included), a sum takes linear time; if it is a piecewise polynomial, the time of sorting; else, and with weights of
    pairs, quadratic time and linear memory.

    Parameters
    ----------
    curve : Curve
        The link. Its domain must hold differences of both signs.
    gap : callable, optional
        From observed gaps ``|s_i - s_j|``, an array, to weights of pairs that are not negative. A constant: no
        derivative is taken of it.

    Attributes
    ----------
    plan : {"linear", "sorted", "blocked"}
        How the sums are computed.

    Notes
    -----
    Scores are flat arrays of one library (NumPy, PyTorch, JAX) and floating dtype, and
    :class:`~selmatch.lists.Groups` says which list an item belongs to. In PyTorch and JAX the value is differentiable
    with respect to s_hat, and its derivative is :meth:`gradient`; s is a constant, unless the curve has parameters to
    be trained.

    Linear sums do not cancel: the value of sinh, x and x^3 is accurate to about 1e-13 of itself, however small the
    moves are. Sorted ones cancel: their error is below 1e-12 of the sums of H(predicted) and H(observed), so that a
    smaller value may come out as 0, but never as less. Whether a
    difference lies exactly at a jump of the link is decided in floating point: safe for whole numbers and halves, not
    for tenths. In NumPy short lists of a sorted plan are summed pair by pair, which is quicker there and does not
    cancel, and all cores work on large inputs.

    Second derivatives exist, in JAX forward over reverse (``jax.hessian``). Parameters of the curve can be trained;
    then plain automatic differentiation runs through the sums, in PyTorch with quadratic memory where they are blocked.

    Examples
    --------
    >>> from selmatch.lists import Groups
    >>> from selmatch.pairs import Pairs
    >>> lists = Groups.from_sizes(np.array([3, 2]))
    >>> pairs = Pairs(Identity())
    >>> pairs.value(np.array([1.0, 2.0, 3.0, 5.0, 5.0]), np.zeros(5), lists)
    array([6., 0.])
    >>> pairs.gradient(np.array([1.0, 2.0, 3.0, 5.0, 5.0]), np.zeros(5), lists)
    array([-6.,  0.,  6.,  0.,  0.])
    """

    def __init__(self, curve: Curve, gap: Callable[[Array], Array] | None = None) -> None:
        self.plan = plan(curve, gap)
        require_gap("Pairs", "gap", gap)
        require_both_signs("Pairs", curve)
        self.curve, self.gap = curve, gap

    def __repr__(self) -> str:
        return f"Pairs({self.curve!r}{'' if self.gap is None else f', gap={self.gap!r}'})"

    def value(self, s_hat: Array, s: Array, groups: Groups) -> Array:
        """The sum over the pairs of each list; 0 where there are none."""
        return self._value_with(s_hat, s, groups, ("value",))[0]

    def gradient(self, s_hat: Array, s: Array, groups: Groups) -> Array:
        """The derivative of the own list's value with respect to each item of s_hat."""
        return self.sums(s_hat, s, groups, ("gradient",))[1]

    def value_and_gradient(self, s_hat: Array, s: Array, groups: Groups) -> tuple[Array, Array]:
        """Both, which share their work. In PyTorch and JAX only the value has derivatives."""
        value, gradient = self._value_with(s_hat, s, groups, ("value", "gradient"))
        return value, gradient

    def curvature(self, s_hat: Array, s: Array, groups: Groups, kind: str = "newton") -> Array:
        """The diagonal of the Hessian of the own list's value, for each item.

        ``"newton"`` is the one at s_hat; for equal scores at a kink of a piecewise polynomial link, the mean of the
        slopes on both sides (for ReLU, 1/2). ``"secant"`` is its mean on the way from s to s_hat: exact where pairs are
        summed one by one (blocked sums, and short sorted lists in NumPy), else by five nodes, and at least the gradient
        over the longest move against the item: so is the exact mean.
        """
        if kind not in ("newton", "secant"):
            raise ValueError(f"Pairs.curvature: kind must be 'newton' or 'secant', got {kind!r}.")
        return self.sums(s_hat, s, groups, (kind,))[2]

    def _secant(self, s_hat: Array, s: Array, groups: Groups) -> Array:
        """The mean of the diagonal, from diagonals."""
        u = s_hat - s
        lowest, highest = groups.ends(u)
        mean = mean_on_the_way(lambda z: self.sums(z, s, groups, ("newton",))[2], s, u)
        # moves from the lowest one, which pairs do not feel
        gradient = self.gradient(s_hat, s, groups)
        secant = at_least_the_quotient(mean, gradient, u - lowest, 0.0 * lowest, highest - lowest)
        return secant if groups.present is None else where(groups.present, secant, 0.0)

    def _value_with(self, s_hat: Array, s: Array, groups: Groups, need: tuple[str, ...]) -> list[Array]:
        """The value, differentiable, and what else is needed."""
        if isinstance(s_hat, np.ndarray) or not has_plain_numbers(self.curve):
            return [found for found in self.sums(s_hat, s, groups, need) if found is not None]
        return with_gradient(self, s_hat, s, groups, need)

    def sums(self, s_hat: Array, s: Array, groups: Groups, need: tuple[str, ...]) -> list[Array]:
        """Value of each list, gradient and curvature of each item; None for what is not needed."""
        if isinstance(s_hat, np.ndarray):
            short = self._short(groups, need)
            if short is not None:
                return self._split(short, s_hat, s, groups, need)
        if "secant" in need and self.plan != "blocked":
            return [None, None, self._secant(s_hat, s, groups)]
        space = namespace_of(s_hat)
        wide = (s_hat, s) if self.plan == "blocked" else (space.double(s_hat), space.double(s))
        wanted = [need_ in need for need_ in ("value", "gradient")] + ["newton" in need or "secant" in need]

        def compute(lists: Lists, s_hat: Array, s: Array) -> Sequence[Array]:
            return [found for found in self._computed(lists, s_hat, s, need) if found is not None]

        if isinstance(s_hat, np.ndarray):
            kinds = [kind for kind, wish in zip(("list", "item", "item"), wanted, strict=True) if wish]
            found = iter(over_parts(compute, groups, wide, kinds))
        else:
            found = iter(compute(Lists(groups), *_harmless(wide, groups)))
        results = [next(found) if wish else None for wish in wanted]
        for i in (1, 2):
            if results[i] is not None and groups.present is not None:
                results[i] = where(groups.present, results[i], 0.0)
        if not isinstance(s_hat, np.ndarray):  # torch.compile does not know what comes next
            return [x if x is None else space.cast(x, s_hat) for x in results]
        with np.errstate(over="ignore"):  # sums may exceed single precision
            return [x if x is None else space.cast(x, s_hat) for x in results]

    def _short(self, groups: Groups, need: tuple[str, ...]) -> np.ndarray | None:
        """Which lists are so short that their pairs are quicker one by one, if any should be sorted."""
        if self.plan != "sorted" or "newton" in need:
            return None
        short = np.diff(groups.starts) <= (SHORT_FOR_SECANTS if "secant" in need else SHORT)
        return short if short.any() else None

    def _split(
        self, short: np.ndarray, s_hat: np.ndarray, s: np.ndarray, groups: Groups, need: tuple[str, ...]
    ) -> list[Any]:
        """Sums of short lists one by one, of the others by sorting."""
        sizes = np.diff(groups.starts)
        results = [np.empty(len(short), s_hat.dtype), np.empty_like(s_hat), np.empty_like(s_hat)]
        for chosen, pairs in ((short, self._one_by_one()), (~short, self)):
            items = np.repeat(chosen, sizes)
            found = pairs.sums(s_hat[items], s[items], Groups.from_sizes(sizes[chosen]), need)
            for whole, where_, own in zip(results, (chosen, items, items), found, strict=True):
                if own is not None:
                    whole[where_] = own
        names = ("value", "gradient", "secant")
        return [x if name in need else None for name, x in zip(names, results, strict=True)]

    def _one_by_one(self) -> Pairs:
        other = copy.copy(self)
        other.plan = "blocked"
        return other

    def hessian_times(self, s_hat: Array, s: Array, groups: Groups, v: Array) -> Array:
        """The Hessian of the values times v, pair by pair."""
        s_hat, s = _harmless((s_hat, s), groups)
        return _blocked(blocked.HessianTerms(self.curve, self.gap), Lists(groups), s_hat, s, v)[1]

    def _computed(self, lists: Lists, s_hat: Array, s: Array, need: tuple[str, ...]) -> list[Array]:
        d = moves(lists, s_hat, s)
        odd = None if self.plan == "blocked" else odd_part(self.curve)
        if odd is None:
            return _blocked(blocked.PairTerms(self.curve, self.gap, need), lists, s_hat, s, d)
        value, *others = _added(_terms(odd, lists, s_hat, s, d, need))
        return [value if value is None else not_negative(value), *others]


def require_gap(who: str, name: str, gap: Any) -> None:
    """Refuse weights of pairs that are no function."""
    if gap is not None and not callable(gap):
        raise TypeError(f"{who}: {name} must be a function of the size of a difference, got {gap!r}.")


def require_both_signs(who: str, curve: Curve) -> None:
    """Refuse a link that does not know differences of both signs."""
    low, high = curve.domain.low, curve.domain.high
    if is_number(low) and is_number(high) and not low < 0.0 < high:
        raise ValueError(
            f"{who}: the link must be defined for differences of both signs, got {curve!r} with the domain "
            f"{curve.domain}."
        )


def _harmless(scores: Sequence[Array], groups: Groups) -> list[Array]:
    """Scores with one of their list behind the mask."""
    if groups.present is None:
        return list(scores)
    result = []
    for z in scores:
        top = groups.spread(groups.max(z))
        result.append(where(groups.present, z, where(isfinite(top), top, 0.0)))
    return result


def moves(lists: Lists, s_hat: Array, s: Array) -> Array:
    """``s_hat - s``, up to a number for each list: what all items of a list move together, differences do not feel.

    Where all move the same way the smallest move is taken away, with the rounding error of the subtraction made good.
    """
    up, down = lists.run(lambda s_hat, s: (s_hat - s, s - s_hat), (s_hat, s), peaks=2)
    shared = minimum(up, 0.0) - minimum(down, 0.0)

    def formula(s_hat: Array, s: Array, shared: Array) -> tuple[Array]:
        d = s_hat - s
        b = s_hat - d
        rounding = (s_hat - (d + b)) + (b - s)
        return ((d - shared) + rounding,)

    return lists.run(formula, (s_hat, s), (linear.constant(shared),))[0]


def _blocked(terms: blocked.AnyTerms, lists: Lists, s_hat: Array, s: Array, d: Array) -> list[Array]:
    layout = layout_of(lists.groups, s_hat, falling=True)
    items = blocked.sums(terms, layout.arranged(s_hat), layout.arranged(s), layout.arranged(d), layout)
    value, *others = (x if x is None else layout.restored(x) for x in items)
    return [value if value is None else lists.groups.sum(value), *others]


def _terms(odd: OddPart, lists: Lists, s_hat: Array, s: Array, d: Array, need: tuple[str, ...]) -> list[list[Array]]:
    """The sums of each term of a link."""
    terms = []
    for alpha, gain in odd.exponentials:
        value, gradient, curvature = linear.exponential(lists, alpha * s, alpha * d, need)
        terms.append([_times(gain / alpha, value), _times(gain, gradient), _times(gain * alpha, curvature)])
    if odd.pieces is not None:
        terms.append(_sorted(odd.pieces, lists, s_hat, s, d, need))
    if not terms or not all(is_number(c) and c == 0.0 for c in odd.polynomial):
        terms.append(linear.polynomial(lists, s, d, *odd.polynomial, need))
    return terms


def _sorted(pieces: HalfLine, lists: Lists, s_hat: Array, s: Array, d: Array, need: tuple[str, ...]) -> list[Array]:
    layout = layout_of(lists.groups, s_hat)
    inner = lists if layout.order is None else Lists(layout.groups)
    s_hat, s, d = (layout.arranged(x) for x in (s_hat, s, d))
    if "newton" in need:
        curvature = sorting.energy_and_force(pieces, inner, layout, s_hat, need)[2]
        return [None, None, layout.restored(curvature)]
    both = tuple({*need, "gradient"})
    (energy_hat, force_hat, _), (energy, force, _) = inner.together(
        lambda: sorting.energy_and_force(pieces, inner, layout, s_hat, need),
        lambda: sorting.energy_and_force(pieces, inner, layout, s, both),
    )
    value = gradient = None
    if "value" in need:
        (work,) = inner.run(lambda d, force: (d * force,), (d, force), sums=1)
        value = energy_hat - energy - work
    if "gradient" in need:
        gradient = layout.restored(force_hat - force)
    return [value, gradient, None]


def _times(factor: Any, x: Array) -> Array:
    return x if x is None or (is_number(factor) and factor == 1.0) else factor * x


def _added(terms: list[list[Array]]) -> list[Array]:
    first, *others = terms
    return [x if x is None else sum((term[i] for term in others), x) for i, x in enumerate(first)]
