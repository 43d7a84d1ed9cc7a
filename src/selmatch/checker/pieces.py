"""Formulas between two scores, as their operations say."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from flint import arb

from selmatch.checker.jets import PARTIAL, Jet, constant, function_of
from selmatch.checker.spans import (
    EVERYTHING,
    INFINITY,
    NOTHING,
    ONE,
    Span,
    TooLong,
    Unverified,
    cube,
    exactly,
    greatest,
    hull,
    is_nothing,
    lowest,
    minus,
    outwards,
    plus,
    scaled,
    square,
    times,
)

_COMPARED = {
    "less": (-1, True), "less_equal": (-1, True), "greater": (1, True), "greater_equal": (1, True),
    "equal": (0, False), "not_equal": (0, True),
}  # fmt: skip


class Operation(Protocol):
    """One line of a formula: "number" and "variable", or a function of earlier lines."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> tuple[int, ...]: ...

    @property
    def value(self) -> Any: ...


class Part(NamedTuple):
    """A part of a formula on a piece: which one, and what it is on the whole piece."""

    place: int
    whole: Jet


class Piece:
    """A formula between two scores: on the whole piece, and continued from its inside to both of its ends.

    Conditions are decided inside of the piece. ``changes`` says for each end whether they may be decided otherwise
    there, ``closed`` whether the formula is continuous up to and including that end: no condition changes, and every
    part has a value there.
    """

    def __init__(
        self,
        formula: Sequence[Operation],
        low: Any,
        high: Any,
        *,
        bends: bool = False,
        shared: Shared | None = None,
    ) -> None:
        self.low, self.high = low, high
        self.closed, self.changes = [True, True], [False, False]
        self._bend = NOTHING if bends else None
        self._shared = Shared() if shared is None else shared
        self._shared.spend(len(formula))
        #: how each part is worked out at an end, and what was found there
        self._recipes: list[Callable[[int], Jet | None]] = []
        self._ends: tuple[list[Jet | None], list[Jet | None]] = ([], [])
        score = Jet(Span(exactly(low).low, exactly(high).high), exactly(1.0), self._bend)
        results: list[Any] = []
        for operation in formula:
            if operation.name == "number":
                results.append(self.number(operation.value))
            elif operation.name == "variable":
                results.append(self._part(score, self._score_at))
            elif operation.name == "integral":
                results.append(self._integral(operation, results[operation.arguments[0]]))
            else:
                results.append(self.apply(operation.name, [results[i] for i in operation.arguments]))
        if not isinstance(results[-1], Part):
            raise Unverified("the formula is a condition")
        self.result: Part = results[-1]
        self.whole = _finite(self.result).whole

    def end(self, i: int, part: Part | None = None) -> Jet | None:
        """What the formula, or a part of it, tends to at the lower (0) or upper end (1); None if that is unknown."""
        found, part = self._ends[i], part or self.result
        while len(found) <= part.place:  # a loop, because long sums are deep
            found.append(self._recipes[len(found)](i))
        return found[part.place]

    def _part(self, whole: Jet, at: Callable[[int], Jet | None]) -> Part:
        self._recipes.append(at)
        return Part(len(self._recipes) - 1, whole)

    def number(self, value: float) -> Part:
        jet = constant(exactly(value))
        return self._part(jet, lambda _: jet)

    def _score_at(self, i: int) -> Jet | None:
        end = exactly((self.low, self.high)[i])
        return Jet(end, exactly(1.0), self._bend) if end.low.is_finite() else None

    # a result is a part of the formula, or a condition: True or False

    def apply(self, name: str, given: list[Any]) -> Any:
        if name == "where":
            condition, a, b = given
            return a if self._truth(condition) else b
        if name in ("and", "or"):
            a, b = map(self._truth, given)
            return (a and b) if name == "and" else (a or b)
        if name == "not":
            return not self._truth(given[0])
        if any(not isinstance(part, Part) for part in given):
            raise Unverified(f"{name} of a condition")
        if name in _COMPARED:
            return self._compared(name, *given)
        if name in ("minimum", "maximum"):
            return self._chosen(name, *given)
        given = [_finite(part) for part in given]
        if name == "isfinite":
            return True  # a formula has a finite value wherever its parts have one, and others are refused below
        composed = _COMPOSED.get(name)
        if composed is not None:
            return composed(self, *given)
        return self._applied(function_of(name), given)

    def _applied(self, function: Callable[..., Jet], given: list[Part]) -> Part:
        def at(i: int) -> Jet | None:
            jets = [self._ends[i][part.place] for part in given]
            known = [jet for jet in jets if jet is not None]
            try:
                found = function(self._at_end, *known) if len(known) == len(jets) else None
            except Unverified:  # no value at the end, or an infinite one
                return None
            if found and not all(bound.is_finite() for jet in known for bound in jet.slope):
                return found._replace(slope=EVERYTHING)  # of 0 times a slope that grows without bound
            return found

        inside = self._inside if self.low < self.high else self._at_end
        return self._part(function(inside, *(part.whole for part in given)), at)

    def _integral(self, operation: Operation, given: Part) -> Part:
        """The integral of a formula up to a part of this one."""
        antiderivative = self._shared.integral(operation)
        low, high = given.whole.value
        inner = antiderivative.on(low, high)

        def up_to(_: Any, x: Jet) -> Jet:
            within = Span(greatest([low, x.value.low]), lowest([high, x.value.high]))
            return antiderivative.through(Jet(within, x.slope, x.bend), inner)

        return self._applied(up_to, [given])

    def _inside(self, x: Jet, zero: bool = False) -> None:
        """Raise unless x is positive at all scores inside of the piece; ``zero``: whether there is a value at 0."""
        if x.value.low > 0:
            return
        if x.value.low >= 0 and (x.slope.low > 0 or x.slope.high < 0):  # 0 is reached at an end of the piece at most
            if not zero:
                self.closed[0 if x.slope.low > 0 else 1] = False
            return
        raise Unverified("a logarithm, root or divisor is not seen to be positive")

    def _at_end(self, x: Jet, zero: bool = False) -> None:
        if not (x.value.low > 0 or (zero and x.value.low >= 0)):
            raise Unverified("no value at the end of a piece")

    def _sign(self, part: Part) -> int:
        """The sign that a part of the formula has everywhere inside of the piece; 0 if that is not seen."""
        whole = part.whole
        if whole.value.low > 0 or whole.value.high < 0:
            return 1 if whole.value.low > 0 else -1
        rises, falls = whole.slope.low > 0, whole.slope.high < 0
        if self.low == self.high or not (rises or falls):
            return 0
        for sign in (1, -1):
            # strictly monotone: inside it lies beyond its value at one end
            end = self.end(0 if rises == (sign > 0) else 1, part)
            if end is not None and (end.value.low >= 0 if sign > 0 else end.value.high <= 0):
                return sign
        return 0

    def _note_ends(self, gap: Part, sign: int, same_at_0: bool) -> None:
        """Note the ends at which a condition is not seen to be what it is inside."""
        if gap.whole.value.low > 0 or gap.whole.value.high < 0:
            return
        for i in (0, 1):
            end = self.end(i, gap)
            same = end is not None and (end.value.low > 0 if sign > 0 else end.value.high < 0)
            if not (same or (same_at_0 and end is not None and is_nothing(end.value))):
                self.closed[i], self.changes[i] = False, True

    def _gap(self, a: Part, b: Part) -> Part:
        return self._applied(PARTIAL["subtract"], [a, b])

    def _compared(self, name: str, a: Part, b: Part) -> bool:
        gap = self._gap(a, b)
        at_0 = name in ("less_equal", "greater_equal", "equal")
        if is_nothing(gap.whole.value):
            return at_0
        sign = self._sign(gap)
        if sign == 0:
            raise Unverified("a condition changes inside of a piece")
        wanted, answer = _COMPARED[name]
        inside = answer if wanted == 0 else sign == wanted
        self._note_ends(gap, sign, inside is at_0)
        return inside

    def _truth(self, condition: Any) -> bool:
        if isinstance(condition, bool):
            return condition
        whole = condition.whole.value
        if whole.low == whole.high:  # a number as a condition
            return not whole.low.is_zero()
        raise Unverified("a condition that is none")

    def _chosen(self, name: str, a: Part, b: Part) -> Part:
        """The smaller or the larger of two continuous parts, which is continuous."""
        smaller = name == "minimum"

        def choose(_: Any, x: Jet, y: Jet) -> Jet:
            if x.value.high < y.value.low:
                return x if smaller else y
            if y.value.high < x.value.low:
                return y if smaller else x
            pick = lowest if smaller else greatest
            value = Span(pick([x.value.low, y.value.low]), pick([x.value.high, y.value.high]))
            return Jet(value, hull(x.slope, y.slope), self._bend and EVERYTHING)

        x, y = a.whole.value, b.whole.value
        sign = -1 if x.high <= y.low else 1 if y.high <= x.low else self._sign(self._gap(a, b))
        if sign:  # decided inside; the other one has the same value where they meet, but not always the same slope
            return a if (sign < 0) == smaller else b
        return self._applied(choose, [a, b])


def _finite(part: Part) -> Part:
    """A part of a formula, unless it is infinite; such numbers can only be compared."""
    if part.whole.value.low == INFINITY or part.whole.value.high == -INFINITY:
        raise Unverified("the formula is infinite")
    return part


def _negative(piece: Piece, x: Part) -> Part:
    return piece.apply("negative", [x])


def _absolute(piece: Piece, x: Part) -> Part:
    return piece.apply("maximum", [x, _negative(piece, x)])


def _with_number(piece: Piece, name: str, x: Part, value: float) -> Any:
    return piece.apply(name, [x, piece.number(value)])


def _step(piece: Piece, x: Part, at_zero: float) -> Part:
    above = _with_number(piece, "greater", x, 0.0)
    below = False if above else _with_number(piece, "less", x, 0.0)
    return piece.number(1.0 if above else -1.0 if below else at_zero)


#: functions that are made of others
_COMPOSED: dict[str, Callable[..., Any]] = {
    "abs": _absolute,
    "mirror": _absolute,
    "fold": lambda piece, x: _negative(piece, _absolute(piece, x)),
    "positive_part": lambda piece, x: _with_number(piece, "maximum", x, 0.0),
    "sign": lambda piece, x: _step(piece, x, 0.0),
    "side": lambda piece, x: _step(piece, x, 1.0),
    "signedlog": lambda piece, x: piece.apply(
        "multiply", [_step(piece, x, 1.0), piece.apply("log1p", [_absolute(piece, x)])]
    ),
    "within": lambda piece, x, bound: piece.apply(
        "minimum", [piece.apply("maximum", [x, _negative(piece, bound)]), bound]
    ),
}


# ----------------------------------------------------------------------------------------------------------- integrals

#: a cell of an integral is halved so often at most, and there are so many
_MOST_HALVINGS, _MOST_CELLS = 20, 20_000


class Shared:
    """What the pieces of a proof share: integrals, whose cells are cut until each is known to a share of its size, and
    the number of operations that they may take."""

    def __init__(self, share: float = 2.0**-13) -> None:
        self.share, self.spent, self.most = share, 0, math.inf
        self._known: dict[int, Antiderivative] = {}

    def spend(self, operations: int) -> None:
        self.spent += operations
        if self.spent > self.most:
            raise TooLong

    def integral(self, operation: Operation) -> Antiderivative:
        if id(operation) not in self._known:
            formula, start, places = operation.value
            self._known[id(operation)] = Antiderivative(formula, start, places, self)
        return self._known[id(operation)]

    def look_closer(self) -> bool:
        """Know integrals to more digits from here on; False if there are none, or enough digits."""
        closer = bool(self._known) and self.share > 2.0**-20
        if closer:
            self.share, self._known = 2.0**-20, {}
        return closer


class Antiderivative:
    """The integral of a formula from a score; what was found is kept, and the next score starts from there."""

    def __init__(self, formula: Sequence[Operation], start: float, places: Sequence[float], shared: Shared) -> None:
        if not math.isfinite(start):
            raise Unverified(f"an integral from {start!r}")
        self.formula, self.places, self._shared = formula, sorted(filter(math.isfinite, places)), shared
        self._scores, self._values = [float(start)], [NOTHING]
        self._cells = 0

    def on(self, low: Any, high: Any, *, bends: bool = False) -> Jet:
        """The formula itself between two exact numbers."""
        return Piece(self.formula, low, high, bends=bends, shared=self._shared).whole

    def through(self, x: Jet, inner: Jet) -> Jet:
        """The integral up to a part of a formula, where the integrand is ``inner``."""
        low, high = x.value
        bounded, steady = low.is_finite() and high.is_finite(), inner.value.low >= 0 or inner.value.high <= 0
        if bounded and (steady or low == high):
            value = hull(self._at(low), self._at(high))
        else:
            middle = arb(middle_of(float(low), float(high)))
            start = middle if low <= middle <= high else low if low.is_finite() else high
            value = plus(self._at(start), times(outwards(low - start, high - start), inner.value))
        return x.through(value, inner.value, lambda: inner.slope)

    def _at(self, end: Any) -> Span:
        """The integral up to an exact number."""
        score = float(end)
        if arb(score) == end:
            return self._up_to(score)
        rest = outwards(end - arb(score), end - arb(score))
        return plus(self._up_to(score), times(rest, self.on(*sorted((arb(score), end))).value))

    def _up_to(self, score: float) -> Span:
        i = bisect.bisect_left(self._scores, score)
        if i < len(self._scores) and self._scores[i] == score:
            return self._values[i]
        nearest = min(range(max(i - 1, 0), min(i + 1, len(self._scores))), key=lambda k: abs(self._scores[k] - score))
        known = self._scores[nearest]
        between = self._between(min(known, score), max(known, score))
        found = plus(self._values[nearest], between if known < score else minus(between))
        self._scores.insert(i, score)
        self._values.insert(i, found)
        return found

    def _between(self, low: float, high: float) -> Span:
        cuts = [low, *(place for place in self.places if low < place < high), high]
        waiting = [(a, b, 0) for a, b in itertools.pairwise(cuts)]
        total = NOTHING
        while waiting:
            a, b, halvings = waiting.pop()
            self._cells += 1
            if self._cells > _MOST_CELLS:
                raise Unverified("an integral needs too many cells")
            middle = middle_of(a, b)
            try:
                cell = self._cell(a, middle, b)
            except Unverified:
                if not a < middle < b:
                    raise
                cell = EVERYTHING
            error, size = cell.high - cell.low, greatest([-cell.low, cell.high])
            if error.is_finite() and (error <= self._shared.share * size or halvings == _MOST_HALVINGS):
                total = plus(total, cell)
            elif halvings == _MOST_HALVINGS:
                raise Unverified("an integral may be infinite")
            else:
                waiting += [(a, middle, halvings + 1), (middle, b, halvings + 1)]
        return total

    def _cell(self, low: float, middle: float, high: float) -> Span:
        """The integral over a short piece, from the value and slope in its middle and the bend on all of it."""
        whole, here = self.on(low, high, bends=True), self.on(middle, middle)
        up, down = (outwards(x, x) for x in (arb(high) - arb(middle), arb(middle) - arb(low)))
        by_value = times(plus(up, down), whole.value)
        lean = scaled(plus(square(up), minus(square(down))), 0.5)
        sixth = times(plus(cube(up), cube(down)), outwards(ONE / 6, ONE / 6))
        by_bend = plus(
            plus(times(plus(up, down), here.value), times(lean, here.slope)), times(sixth, whole.bend or EVERYTHING)
        )
        return Span(greatest([by_value.low, by_bend.low]), lowest([by_value.high, by_bend.high]))


def middle_of(a: float, b: float) -> float:
    """A score between two others, far out where one of them is infinite."""
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(a) or math.isinf(b):
        end = b if math.isinf(a) else a
        return math.copysign(max(8.0, 2.0 * abs(end)), b if math.isinf(b) else a) if abs(end) < 1e300 else end
    return 0.5 * a + 0.5 * b
