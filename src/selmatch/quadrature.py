"""Integrals of curves without closed forms: the loss from the slope, where that is known well, else from the values.

A move is cut at the knots of the curve's mesh (:mod:`selmatch.mesh`). Its first and last part are integrated with Gauss
nodes on the slope, which cancel nothing; what lies between is looked up. The integral of the slope must be what the
curve climbs: where it is not, the nodes have missed something, and NumPy halves the parts of the move until they agree.
Other libraries cannot look at values inside a trace, and give NaN there.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from selmatch import functions
from selmatch.arrays.dual import Dual
from selmatch.arrays.namespaces import NumPy
from selmatch.functions import abs, is_number, maximum, where
from selmatch.mesh import MOST_PIECES, Mesh, Panel, Table, agreement, joined, panel, precision, table_of

if TYPE_CHECKING:
    from selmatch.curve import Curve

Array = Any

#: relative error that a loss may have, in double and in single precision
_TOLERANCE, _TOLERANCE_SINGLE = 1e-10, 1e-5
#: parts into which the moves of one call are cut at most
_MOST_PARTS = 200_000


class Move(NamedTuple):
    """The loss of a move, its gradient, a bound of the loss's error beyond rounding, and what that is relative to."""

    loss: Array
    gradient: Array
    missed: Array
    size: Array


def remainder(curve: Curve, x: Array, u: Array, xh: Array) -> Array:
    """``G(xh) - G(x) - u g(x)``."""
    return remainder_and_difference(curve, x, u, xh)[0]


def difference(curve: Curve, x: Array, u: Array, xh: Array) -> Array:
    """``g(xh) - g(x)``."""
    if isinstance(xh, Dual) or isinstance(x, Dual):
        return curve(xh) - curve(x)
    return _on_arrays(curve, x, u, xh, _difference)


def remainder_and_difference(curve: Curve, x: Array, u: Array, xh: Array) -> tuple[Array, Array]:
    """Both, which share their work."""
    if isinstance(xh, Dual) or isinstance(x, Dual):
        return _remainder_of_dual(curve, x, u, xh), curve(xh) - curve(x)
    return _on_arrays(curve, x, u, xh, _remainder_and_difference)


def _remainder_of_dual(curve: Curve, x: Any, u: Any, xh: Any) -> Dual:
    (a, ta), (v, _), (b, tb) = ((z.value, z.tangent) if isinstance(z, Dual) else (z, 0.0) for z in (x, u, xh))
    return Dual(curve.remainder(a, v, b), curve.difference(a, v, b) * tb - v * curve.slope(a) * ta)


def _on_arrays(curve: Curve, x: Array, u: Array, xh: Array, function: Callable[..., Any]) -> Any:
    """A function of arrays of one shape; plain numbers are arrays on the way."""
    if all(map(is_number, (x, u, xh))):
        with np.errstate(all="ignore"):
            found = function(curve, *(np.asarray(float(z)) for z in (x, u, xh)))
        return tuple(map(float, found)) if isinstance(found, tuple) else float(found)
    if not hasattr(functions.namespace_of(u), "position"):
        raise TypeError(f"the loss of {type(curve).__name__} is found by quadrature, it is no formula")
    if not getattr(x, "shape", None) == getattr(u, "shape", None) == getattr(xh, "shape", None):
        nothing = 0.0 * (x + u + xh)
        x, u, xh = x + nothing, u + nothing, xh + nothing
    return function(curve, x, u, xh)


# -------------------------------------------------------------------------------------------- values and derivatives


def _difference(curve: Curve, x: Array, u: Array, xh: Array) -> Array:
    space = functions.namespace_of(u)
    hold = getattr(space, "constant", None)
    if hold is None:
        return _move(curve, x, u, xh).gradient
    gradient = _move(curve, hold(x), hold(u), hold(xh)).gradient
    return _with_derivatives_of(hold(gradient), curve(xh) - curve(x), hold)


def _remainder_and_difference(curve: Curve, x: Array, u: Array, xh: Array) -> tuple[Array, Array]:
    space = functions.namespace_of(u)
    hold = getattr(space, "constant", None)
    if hold is None:
        move = _move(curve, x, u, xh)
        return _finished(curve, move, x, u, xh, space), move.gradient
    _require_a_fine_mesh(curve)
    a, v, b = hold(x), hold(u), hold(xh)
    move = _move(curve, a, v, b)
    loss = _finished(curve, move, a, v, b, space)
    # of the integral only the numbers of the curve have a derivative; that of the scores is known
    gradient = _with_derivatives_of(hold(move.gradient), curve(b) - curve(a), hold)
    there, here = xh - b, x - a
    motion = there * gradient + _tail(curve, b, there) - (xh - x) * (curve(x) - curve(a)) - _tail(curve, a, here)
    climb = _with_derivatives_of(hold(move.gradient), curve(xh) - curve(x), hold)
    return _with_derivatives_of(loss, motion, hold), climb


def _require_a_fine_mesh(curve: Curve) -> None:
    """Refuse, where values cannot be looked at, a curve that the mesh does not follow."""
    if not curve.mesh.fine and type(curve).primitive is _default_primitive():
        low, high = curve.window()
        raise ValueError(
            f"{type(curve).__name__}: the slope must not change more often than {MOST_PIECES} pieces can follow, "
            f"got a curve that needs more between {low:g} and {high:g}. Give its antiderivative (write primitive), "
            "cap it with capped(low, high), or compute the loss with NumPy."
        )


def _tail(curve: Curve, a: Array, w: Array) -> Array:
    """The integral of g - g(a) from a to a + w, for a w that is 0: what counts are its first four derivatives."""
    return 0.5 * w * sum(curve(a + (0.5 + side / math.sqrt(12.0)) * w) - curve(a) for side in (-1.0, 1.0))


def _with_derivatives_of(value: Array, other: Array, hold: Callable[[Array], Array]) -> Array:
    """A value with the derivatives of another one besides its own."""
    known = hold(other)
    return value + where(functions.isfinite(known), other - known, 0.0)


def _finished(curve: Curve, move: Move, x: Array, u: Array, xh: Array, space: Any) -> Array:
    """The loss where it is accurate; elsewhere NumPy looks closer, and other libraries give NaN."""
    share = _TOLERANCE_SINGLE if space.is_single(u) else _TOLERANCE
    right = (move.missed <= share * move.size) | (u == 0)
    if type(curve).primitive is not _default_primitive():
        return _from_primitive(curve, where(right, move.loss, math.nan), x, u, xh, space)
    if space is not NumPy:
        end = (xh == curve.domain.low) | (xh == curve.domain.high)  # there a loss may be finite where the curve is not
        return where(right, move.loss, where((abs(move.gradient) == math.inf) & ~end, math.inf, math.nan + 0.0 * x))
    if right.all():
        return move.loss
    lost = ~right & np.isnan(move.gradient)
    if lost.any():
        ends = np.stack([x[lost], xh[lost]])
        values = curve(ends)
        place, value = ends[~np.isfinite(values)][0], values[~np.isfinite(values)][0]
        warnings.warn(
            f"{type(curve).__name__}: the formula must have finite values at both scores, got {value:g} at {place:g}; "
            "the loss is NaN. Write it so that it does not overflow, as softplus(z) for log1p(exp(z)).",
            RuntimeWarning,
            stacklevel=2,
        )
    doubtful = ~right & ~lost & np.isfinite(x) & np.isfinite(xh)
    loss = np.where(lost, math.nan, move.loss)
    loss[doubtful] = _looked_closer(curve, *(np.asarray(z, dtype=np.float64)[doubtful] for z in (x, u, xh)))
    return loss


def _default_primitive() -> Any:
    from selmatch.curve import Curve

    return Curve.primitive


def _from_primitive(curve: Curve, loss: Array, x: Array, u: Array, xh: Array, space: Any) -> Array:
    """The loss from the curve's own primitive, unless the integral agrees with it and so cancels less."""
    here, there, value, value_h = curve.primitive(x), curve.primitive(xh), curve(x), curve(xh)
    direct = (there - here) - u * value
    size = abs(there) + abs(here) + abs(u * value) + abs(x * value) + abs(xh * value_h)
    agrees = abs(loss - direct) <= 16.0 * precision(space, u) * size
    return where(agrees | ~functions.isfinite(direct), loss, direct)


# --------------------------------------------------------------------------------------------------------------- moves


def _move(curve: Curve, x: Array, u: Array, xh: Array) -> Move:
    """A move from the parts in its first and last piece, and what the table knows of those between."""
    mesh = curve.mesh
    value, value_h = functions.apply_formula(curve, x), functions.apply_formula(curve, xh)
    jumps = mesh.jumps
    here, there = mesh.without_jumps(x, value), mesh.without_jumps(xh, value_h)
    if len(mesh.knots):
        whole = _through(curve, mesh, x, u, xh, here, there)
    else:
        whole = panel(curve.slope, x, u, here, there, mesh.heights)
    climb, direct = whole.rise + sum((jump.level(xh) - jump.level(x) for jump in jumps), 0.0), value_h - value
    rounding = 64.0 * precision(functions.namespace_of(u), u) * (abs(value) + abs(value_h))
    gradient = where((abs(climb - direct) <= rounding) & functions.isfinite(direct), climb, direct)
    rest = whole.ahead + sum((jump.cost(x, u, xh) for jump in jumps), 0.0)
    rest, gradient = (where(u == 0, u, part) for part in (rest, gradient))  # also where the formula overflows
    return Move(rest, gradient, whole.missed * abs(u), abs(rest))


def _through(curve: Curve, mesh: Mesh, x: Array, u: Array, xh: Array, here: Array, there: Array) -> Panel:
    """The integrals over a move that may go through several pieces; ``missed`` is weighted by length over u."""
    space = functions.namespace_of(u)
    knots, digits, table = _tabulated(curve, u)
    i, j = space.position(knots, x), space.position(knots, xh)
    together, upwards = i == j, i < j
    leaving = where(upwards, i, i - 1)
    arriving = where(upwards, j - 1, j)
    leaving, arriving = (where(together, 0 * i, k) for k in (leaving, arriving))
    leaves, arrives = (where(together, xh, space.take(knots, k)) for k in (leaving, arriving))
    step, last = where(together, u, leaves - x), xh - arrives
    at_leaving = mesh.without_jumps(leaves, curve(leaves))
    at_arriving = mesh.without_jumps(arrives, curve(arrives))
    first = panel(curve.slope, x, step, here, where(together, there, at_leaving), mesh.heights)
    final = panel(curve.slope, arrives, last, where(together, there, at_arriving), there, mesh.heights)
    between = _between(space, knots, digits, table, leaving, arriving, upwards)
    span = arrives - leaves
    whole = joined(joined(first, between, step, span), final, step + span, last)
    missed = first.missed * abs(step) + between.missed + final.missed * abs(last)
    return whole._replace(missed=functions.quotient(missed, abs(u), 0.0 * u))


def _tabulated(curve: Curve, like: Array) -> tuple[Array, Array, Table]:
    """The knots of a curve, the highest binary digits of numbers, and its table: made now if its numbers may change."""
    mesh = curve.mesh
    knots, digits, table, layout = mesh.on(like)
    if layout is None:
        return knots, digits, table  # type: ignore[return-value]
    starts, widths = layout.starts, layout.widths
    here, there = (mesh.without_jumps(z, curve(z)) for z in (starts, starts + widths))
    return knots, digits, table_of(layout, panel(curve.slope, starts, widths, here, there, mesh.heights))


def _between(
    space: Any, knots: Array, digits: Array, table: Table, leaving: Array, arriving: Array, upwards: Array
) -> Panel:
    """The integrals from one knot to another, in the direction of the move."""
    low, high = where(upwards, leaving, arriving), where(upwards, arriving, leaving)
    level = space.take(digits, low ^ high)
    middle = (high >> level) << level
    below, above = level * len(digits) + low, level * len(digits) + high
    at, start, end = (space.take(knots, place) for place in (middle, low, high))
    still = low == high
    rise, near, far, missed = (where(still, 0.0 * start, space.take(part, below)) for part in table)
    rise_h, near_h, far_h, missed_h = (where(still, 0.0 * start, space.take(part, above)) for part in table)
    total, lost = rise + rise_h, missed + missed_h
    forwards = near + (end - at) * rise + far_h
    backwards = far + (at - start) * rise_h + near_h
    ahead, behind = where(upwards, forwards, backwards), where(upwards, backwards, forwards)
    return Panel(where(upwards, total, -total), ahead, behind, lost)


# ------------------------------------------------------------------------------------------------------ looking closer


def _looked_closer(curve: Curve, x: np.ndarray, u: np.ndarray, xh: np.ndarray) -> np.ndarray:
    """The loss of moves that the mesh does not follow: their parts are halved until they agree with their halves."""
    mesh, rounded = curve.mesh, curve.mesh.heights

    def value(z: np.ndarray) -> np.ndarray:
        return mesh.without_jumps(z, curve(z))

    ends = np.concatenate([[-np.inf], np.unique([*curve.places, *(jump.place for jump in mesh.jumps)]), [np.inf]])
    cuts = [(np.clip(x, low, high), np.clip(xh, low, high)) for low, high in itertools.pairwise(ends)]
    parts = [(np.flatnonzero(a != b), a, b) for a, b in cuts]
    owner = np.concatenate([i for i, _, _ in parts])
    a, b = (np.concatenate([part[k][part[0]] for part in parts]) for k in (1, 2))
    w = np.where((a == x[owner]) & (b == xh[owner]), u[owner], b - a)
    here, there = value(a), value(b)
    whole = panel(curve.slope, a, w, here, there, rounded)
    total, doubt = np.zeros(len(x)), np.zeros(len(x))
    count = 0
    while len(a):
        half = 0.5 * w
        cut = a + half
        at = value(cut)
        first = panel(curve.slope, a, half, here, at, rounded)
        second = panel(curve.slope, cut, half, at, there, rounded)
        halves = joined(first, second, half, half)
        # the climb of a part counts with the way that is left after it
        share = halves.ahead + (xh[owner] - (a + w)) * halves.rise
        turn = np.abs(first.rise - second.rise) / np.abs(half) * np.maximum(np.abs(a), np.abs(cut))
        width = np.abs(w)
        agrees = agreement(whole, halves, width, turn, np.abs(here) + np.abs(there) + rounded)
        error = np.where(agrees, 0.0, np.abs(whole.ahead - halves.ahead) + (whole.missed + halves.missed) * width)
        scale = np.abs(total) + np.bincount(owner, np.abs(share), len(x))
        over = agrees | (error <= 1e-13 * scale[owner]) | (width <= 2.0**-100 * np.abs(u[owner])) | (cut == a)
        over |= ~np.isfinite(here + there + at) & (width <= 2.0**-100 * np.abs(u[owner]))
        over |= np.isnan(here) & np.isnan(there) & np.isnan(at)
        count += len(a)
        if count > _MOST_PARTS:
            over[:] = True
        total += np.bincount(owner[over], share[over], len(x))
        doubt += np.bincount(owner[over], error[over], len(x))
        left = ~over
        a, here, there = (np.concatenate([p[left], q[left]]) for p, q in ((a, cut), (here, at), (at, there)))
        w = np.concatenate([half[left], half[left]])
        whole = Panel(*(np.concatenate([p[left], q[left]]) for p, q in zip(first, second, strict=True)))
        owner = np.concatenate([owner[left], owner[left]])
    loss = total + sum((jump.cost(x, u, xh) for jump in mesh.jumps), 0.0)
    loss[np.isnan(loss) & np.isfinite(value(x) + value(xh))] = math.inf  # sums that are too large
    bad = ~(doubt <= 1e-9 * np.abs(loss)) & (u != 0) & ~np.isinf(loss)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        error = doubt[i] / np.abs(loss[i]) if loss[i] else math.inf
        warnings.warn(
            f"{type(curve).__name__}: the loss from {x[i]:g} to {xh[i]:g} is not known to a relative error of 1e-9, "
            f"but to {error:.1g} (estimated): the curve changes too quickly. Give its antiderivative (write primitive) "
            "or use shorter moves.",
            RuntimeWarning,
            stacklevel=2,
        )
    return loss


# ------------------------------------------------------------------------------------------------ means on the way


_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(5)
_ON_THE_WAY = tuple(zip((0.5 + 0.5 * _FEW_NODES).tolist(), (0.5 * _FEW_WEIGHTS).tolist(), strict=True))


def mean_on_the_way(function: Callable[[Array], Array], x: Array, u: Array) -> Array:
    """The mean of a function from x to x + u, to a few digits: never negative where the function is not.

    A function that is high in narrow regions only may be missed: see :func:`at_least_the_quotient`.
    """
    return sum(share * function(x + t * u) for t, share in _ON_THE_WAY)


def at_least_the_quotient(curvature: Array, gradient: Array, u: Array, lowest: Array, highest: Array) -> Array:
    """A mean curvature that is not 0 where there is a gradient, even if all nodes have missed a steep region.

    It is at least the gradient over the longest move, of an item or against another one of its list, whose moves u go
    from ``lowest`` to ``highest``. The own move alone would not do: where an item stays and the others move, the
    quotient is as large as you like, and negative where they push it away.
    """
    reach = maximum(maximum(highest - u, u - lowest), functions.abs(u))
    return maximum(curvature, functions.abs(gradient) / where(reach > 0, reach, 1.0))
