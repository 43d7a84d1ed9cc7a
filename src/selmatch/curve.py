"""What a curve is: a function known together with its primitive, slope, inverse, difference and remainder."""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selmatch import functions, quadrature
from selmatch.arrays import pytrees
from selmatch.functions import abs, exp, where

if TYPE_CHECKING:
    from selmatch.algebra import Affine, Capped
    from selmatch.formula import Landmarks
    from selmatch.mesh import Mesh

Array = Any


@dataclass(frozen=True)
class Interval:
    """The scores at which a curve is defined, or the values that it takes.

    An end is open where the curve is infinite (or, for ranges, never reached). Labels must not lie on an open end;
    predictions may.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    @property
    def bounded(self) -> bool:
        """Whether at least one end is finite."""
        return _is_finite(self.low) or _is_finite(self.high)

    def holds(self, x: Array, *, interior: bool = False) -> Array:
        """Elementwise: is x inside? With ``interior`` open ends count as outside."""
        above = x > self.low if interior and self.open_low else x >= self.low
        below = x < self.high if interior and self.open_high else x <= self.high
        return above & below

    def point(self) -> float:
        """A harmless point inside: 0 where possible."""
        known = functions.is_number(self.low) and functions.is_number(self.high)
        if known and self.low < 0.0 < self.high:
            return 0.0
        if _is_finite(self.low) and _is_finite(self.high):
            return 0.5 * (self.low + self.high)
        return self.low + 1.0 if _is_finite(self.low) else self.high - 1.0

    def overlap(self, other: Interval) -> Interval | None:
        """The part that two intervals share, if it is more than a point."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if not low < high:
            return None
        open_low = any(i.open_low for i in (self, other) if i.low == low)
        return Interval(low, high, open_low, any(i.open_high for i in (self, other) if i.high == high))

    def covers(self, other: Interval) -> bool:
        """Whether another interval lies in this one."""
        low = self.low < other.low or (self.low == other.low and (other.open_low or not self.open_low))
        return low and (self.high > other.high or (self.high == other.high and (other.open_high or not self.open_high)))

    def window(self, width: float = 8.0) -> tuple[float, float]:
        """A finite part that shows what is typical."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return self.low, self.high
        if math.isfinite(self.low):
            return self.low, self.low + 0.5 * width
        return (self.high - 0.5 * width, self.high) if math.isfinite(self.high) else (-0.5 * width, 0.5 * width)

    def __str__(self) -> str:
        left = "(" if self.open_low or math.isinf(self.low) else "["
        right = ")" if self.open_high or math.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


def _is_finite(end: Any) -> bool:
    """Whether an end is a place; an array is one, it comes from a parameter."""
    return not functions.is_number(end) or math.isfinite(end)


REALS = Interval()


def _accepts_end(method: Any) -> bool:
    return len(inspect.signature(method).parameters) >= 4


@dataclass(frozen=True)
class Curve:
    """A function g of a score, used as link h of a loss or as scaling q of a composite one.

    To add a curve, subclass and write ``__call__`` with the functions of :mod:`selmatch.functions`. The slope then
    comes from dual numbers, the inverse from bracketing, the difference from the values, and integrals from Gauss nodes
    on measured pieces, to a relative error of 1e-9 (see the page on design for the limits). Closed forms are faster and
    exact: override the methods. With ``primitive`` alone the loss is taken from it where that is more accurate.

    Attributes
    ----------
    domain, range : Interval
        Where the curve is defined, and the values that it takes.
    odd : bool
        Whether ``g(-x) == -g(x)``.
    increasing : bool or None
        Whether the curve never decreases; None if that is not known.
    continuous : bool
        Whether the curve has no jumps.
    scale : float
        The length over which the slope changes: a hint where nothing can be measured, since numbers are traced.
    breaks : tuple of float
        Where such a curve bends or jumps; found in its formula, if you do not give them.

    Examples
    --------
    >>> import selmatch as sm
    >>> class Leaning(sm.Curve):
    ...     def __call__(self, x):
    ...         return x + sm.functions.tanh(x)
    >>> loss = sm.MatchingLoss(Leaning())
    >>> round(loss(2.0, 0.0), 12) == round(2.0 + math.log(math.cosh(2.0)), 12)
    True
    """

    domain = REALS
    range = REALS
    odd = False
    increasing = None
    continuous = True
    scale = 1.0
    #: whether nothing but a formula is known, so that every property has to be proved
    only_a_formula = False
    #: the largest gamma with which a curve that is not increasing still gives a convex composite Sigmoid
    largest_gamma = 0.0

    def __new__(cls, *args: Any, **kwargs: Any) -> Curve:
        functions.register_loaded_frameworks()
        return super().__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        pytrees.announce(cls)
        for name in ("difference", "remainder"):
            method = cls.__dict__.get(name)
            if method is not None and not _accepts_end(method):
                setattr(cls, name, _without_end(method))

    # ---------------------------------------------------------------------------------------------- the function

    def __call__(self, x: Array) -> Array:
        """The value g(x)."""
        raise NotImplementedError(f"{type(self).__name__}: write __call__(self, x).")

    def primitive(self, x: Array) -> Array:
        """An antiderivative G(x); the constant is part of the curve (it matters to :class:`CompositeSigmoid`)."""
        own = getattr(functions.namespace_of(x), "integral", None)
        found = None if own is None else own(self, x)
        if found is not None:
            return found
        start = self.domain.point() + 0.0 * x
        u = x - start
        return u * self(start) + quadrature.remainder(self, start, u, x)

    def slope(self, x: Array) -> Array:
        """The derivative g'(x): the sensitivity, when the curve is a link."""
        from selmatch.arrays.dual import derivative

        return derivative(self, x)

    def inverse(self, y: Array) -> Array:
        """The score x with g(x) = y; where the curve is flat or jumps, an end of the flat piece or the jump."""
        from selmatch.arrays.bracketing import solve_increasing

        own = getattr(functions.namespace_of(y), "solve", None)
        return solve_increasing(self, y, self.domain) if own is None else own(self, y)

    def difference(self, x: Array, u: Array, xh: Array = None) -> Array:
        """``g(x + u) - g(x)`` without cancellation; xh is x + u, for callers who know it better than the sum does."""
        return quadrature.difference(self, x, u, functions.end(x, u, xh))

    def remainder(self, x: Array, u: Array, xh: Array = None) -> Array:
        """``G(x + u) - G(x) - u g(x)`` without cancellation: the matching loss."""
        return quadrature.remainder(self, x, u, functions.end(x, u, xh))

    def remainder_and_difference(self, x: Array, u: Array, xh: Array = None) -> tuple[Array, Array]:
        """Both at once, for curves where they share work."""
        if type(self).remainder is Curve.remainder and type(self).difference is Curve.difference:
            return quadrature.remainder_and_difference(self, x, u, functions.end(x, u, xh))
        return self.remainder(x, u, xh), self.difference(x, u, xh)

    def increment(self, x: Array, u: Array, xh: Array = None) -> Array:
        """``G(x + u) - G(x)`` without cancellation."""
        xh = x + u if xh is None else xh
        linear, rest = u * self(x), self.remainder(x, u, xh)
        here, there = self.primitive(x), self.primitive(xh)
        return where(abs(linear) + abs(rest) <= abs(here) + abs(there), linear + rest, there - here)

    def secant(self, x: Array, u: Array, xh: Array = None) -> Array:
        """``(g(x + u) - g(x)) / u``, and the slope where u = 0: a curvature that is stable from any start."""
        return functions.quotient(self.difference(x, u, xh), u, self.slope(x))

    @property
    def breaks(self) -> tuple[float, ...]:
        """Scores at which a curve without closed forms bends or jumps, found in its formula: integrals end there."""
        return self._found_in(self).breaks if self.is_integrated() else ()

    @property
    def places(self) -> tuple[float, ...]:
        """The breaks, and the other scores about which something happens, as far as the formula shows them."""
        return (*self.breaks, *self._found_in(self).centres) if self.is_integrated() else ()

    def is_integrated(self) -> bool:
        """Whether losses with this curve come from quadrature."""
        return type(self).remainder is Curve.remainder or type(self).difference is Curve.difference

    def _found_in(self, formula: Curve) -> Landmarks:
        found = self.__dict__.get("_landmarks")
        if found is None:
            from selmatch.formula import landmarks_of

            found = landmarks_of(formula)
            object.__setattr__(self, "_landmarks", found)
        return found

    @property
    def mesh(self) -> Mesh:
        """The pieces on which integrals of a curve without closed forms are accurate, measured once."""
        measured = self.__dict__.get("_mesh")
        if measured is None:
            from selmatch.mesh import measure

            measured = measure(self)
            object.__setattr__(self, "_mesh", measured)
        return measured

    # ---------------------------------------------------------------------------------- the curve as a potential

    def link(self, z: Array) -> Array:
        """The curve itself, under the name that every potential has."""
        return self(z)

    def hvp(self, z: Array, v: Array) -> Array:
        """Hessian of the potential times v."""
        return self.slope(z) * v

    def score_transform(self, z: Array) -> Array:
        """``e^Q(z)`` for the curve as scaling q with antiderivative Q."""
        return exp(self.primitive(z))

    # -------------------------------------------------------------------------------------------- where it lives

    @property
    def bounded(self) -> bool:
        """Whether the domain has a finite end; known even where its place is an array inside a trace."""
        return self.domain.bounded

    def holds(self, z: Array, *, interior: bool = False) -> Array:
        """Elementwise: is z in the domain? With ``interior`` also not on an end where the curve is infinite."""
        return self.domain.holds(z, interior=interior)

    def increases_on(self, low: float, high: float) -> bool | None:
        """Whether the curve never decreases between two scores; None if that is not known."""
        return self.increasing

    @property
    def centre(self) -> float | None:
        """The score about which half a turn takes the curve onto itself, if there is one."""
        return 0.0 if self.odd else None

    def flat_regions(self) -> tuple[Interval, ...]:
        """Where the curve is constant, and a loss with it as link does not care."""
        return ()

    def critical(self, gamma: float, offset: float) -> Interval | None:
        """Scores outside of which the composite Sigmoid's link increases with this gamma; None if none are known."""
        return None

    def point(self) -> float:
        """A harmless score inside the domain."""
        return self.domain.point()

    def window(self) -> tuple[float, float]:
        """A finite interval of scores that shows what is typical of the curve."""
        return self.domain.window()

    # --------------------------------------------------------------------------------------------------- algebra

    def affine(self, alpha: Any = 1.0, beta: Any = 0.0, gain: Any = 1.0) -> Affine:
        """The curve ``gain * g(alpha * (z - beta))``.

        ``gain=1`` is the normalisation of the paper's main text (h = g(x)), ``gain=alpha`` the one of its composite
        appendix (H = G(x)).

        Examples
        --------
        >>> import selmatch as sm
        >>> sm.Sigmoid().affine(alpha=2.0, beta=1.5)(1.5)
        0.5
        """
        from selmatch.algebra import Affine

        return Affine(self, alpha, beta, gain)

    def capped(self, low: float | None = None, high: float | None = None) -> Capped:
        """The curve with its argument clipped to [low, high]: constant, and thus insensitive, beyond."""
        from selmatch.algebra import Capped

        return Capped(self, low, high)

    def inverted(self) -> Curve:
        """The inverse as a curve of its own."""
        from selmatch.algebra import Inverse

        return Inverse(self)

    def derived(self) -> Curve:
        """The slope as a curve of its own, with this curve as its primitive: from Q to q."""
        from selmatch.algebra import FromPrimitive

        return FromPrimitive(self)

    def __add__(self, other: Any) -> Curve:
        from selmatch.algebra import added

        return added(self, other)

    __radd__ = __add__

    def __mul__(self, factor: Any) -> Affine:
        if isinstance(factor, Curve):
            return NotImplemented
        return self.affine(gain=factor)

    __rmul__ = __mul__

    def _repr_html_(self) -> str:
        from selmatch.sketch import svg

        return svg(self)


def _without_end(method: Any) -> Any:
    """A user's ``difference(self, x, u)`` in the three-argument form that the library calls."""

    @functools.wraps(method)
    def with_end(self: Curve, x: Array, u: Array, xh: Array = None) -> Array:
        return method(self, x, u)

    return with_end
