"""What can be claimed of formulas, and what the checker asks of each piece and of the scores between two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from flint import arb

from selmatch.checker.jets import Jet, constant, smoothly
from selmatch.checker.pieces import Operation, Piece, Shared, middle_of
from selmatch.checker.spans import (
    EVERYTHING,
    Span,
    TooLong,
    Unverified,
    exactly,
    inverse,
    minus,
    outwards,
    plus,
    scaled,
    times,
)

#: how many pieces are looked at for each one that was given
_MOST_PIECES = 64


#: the formulas on a piece, and the end of it that is meant: 0 or 1
Side = tuple[list[Piece], int]


class NeverNegative:
    """A formula is never negative. Other claims say what instead must not be negative inside of pieces."""

    #: whether bends are needed, for each of the formulas
    bends: tuple[bool, ...] = (False,)

    def __init__(self, *formulas: Sequence[Operation]) -> None:
        self.formulas = formulas
        self.shared = Shared()

    def factor(self, *jets: Jet) -> Jet:
        """What must not be negative inside of a piece."""
        return jets[0]

    def pieces(self, low: float, high: float) -> list[Piece]:
        """The formulas between two scores."""
        described = zip(self.formulas, self.bends, strict=True)
        return [Piece(formula, low, high, bends=bends, shared=self.shared) for formula, bends in described]

    def inside(self, low: float, high: float) -> list[Piece]:
        """The formulas on a piece, if the factor is not negative inside of it."""
        while True:
            try:
                return self._inside(low, high)
            except Unverified:
                if not self.look_closer():
                    raise

    def look_closer(self) -> bool:
        """Take more trouble from here on; False if that is not possible."""
        return self.shared.look_closer()

    def _inside(self, low: float, high: float) -> list[Piece]:
        pieces = self.pieces(low, high)
        whole = self.factor(*(piece.whole for piece in pieces))
        if whole.value.low >= 0:
            return pieces
        for i, monotone in enumerate((whole.slope.low >= 0, whole.slope.high <= 0)):
            ends = [end for piece in pieces if (end := piece.end(i)) is not None] if monotone else []
            if len(ends) == len(pieces) and self.factor(*ends).value.low >= 0:
                return pieces
        if all(end.is_finite() for end in (*whole.slope, *exactly(low), *exactly(high))):
            middle = middle_of(low, high)
            here = self.factor(*(piece.whole for piece in self.pieces(middle, middle)))
            reach = times(whole.slope, outwards(arb(low) - arb(middle), arb(high) - arb(middle)))
            if plus(here.value, reach).low >= 0:
                return pieces
        raise Unverified("what must not be negative may be")

    def join(self, at: float, *sides: Side) -> None:
        """Raise unless the claim holds at a score where pieces end."""
        if len(_open(sides)) == len(sides) and not self.pieces(at, at)[0].whole.value.low >= 0:
            raise Unverified(f"the value may be negative at {at!r}")


class NeverFalls(NeverNegative):
    """A formula never decreases: its slope is not negative inside of pieces, and it does not fall where they meet."""

    def factor(self, *jets: Jet) -> Jet:
        return _slope_of(jets[0])

    def look_closer(self) -> bool:
        if self.bends != (False,):
            return super().look_closer()
        self.bends = (True,)
        return True

    def join(self, at: float, *sides: Side) -> None:
        for pieces, i in _open(sides):
            here, end = self.pieces(at, at)[0].whole.value, pieces[0].end(i)
            if end is None or not (end.value.high <= here.low if i else here.high <= end.value.low):
                raise Unverified(f"the formula may fall at {at!r}")


class SigmoidLinkNeverFalls(NeverFalls):
    """q p never decreases, where p = sigmoid(y) and y is an integral of q / gamma: q' + (1 - p) q^2 / gamma >= 0."""

    bends = (True, False)

    def __init__(self, q: Sequence[Operation], y: Sequence[Operation], gamma: float) -> None:
        super().__init__(q, y)
        self._share = constant(inverse(exactly(gamma)))

    def factor(self, *jets: Jet) -> Jet:
        q, y = jets
        level = Jet(q.value, q.slope, None)
        other = smoothly("sigmoid", y.minus())
        return _slope_of(q).plus(other.times(level.times(level)).times(self._share))

    def join(self, at: float, *sides: Side) -> None:
        for pieces, i in _open(sides, 1):
            here, end = self.pieces(at, at)[1].whole.value, pieces[1].end(i)
            if not (here.low == here.high and end is not None and end.value == here):
                raise Unverified(f"an integral of the scaling may jump at {at!r}")
        super().join(at, *sides)  # the link jumps as the scaling does


def _open(sides: Sequence[Side], which: int = 0) -> list[Side]:
    """The sides on which a formula may not be continuous up to and including the end."""
    return [(pieces, i) for pieces, i in sides if not pieces[which].closed[i]]


def _slope_of(jet: Jet) -> Jet:
    """The slope as a function of its own."""
    return Jet(jet.slope, jet.bend or EVERYTHING, None)


#: what can be claimed
CLAIMS: dict[str, type[NeverNegative]] = {
    "is never negative": NeverNegative,
    "never decreases": NeverFalls,
    "has a sigmoid link that never decreases": SigmoidLinkNeverFalls,
}


def require(claim: NeverNegative, cuts: Sequence[float], most: float = math.inf) -> None:
    """Raise :class:`Unverified` unless a claim holds from the first to the last of increasing scores.

    The first and the last score count if the formula has a value there.

    Parameters
    ----------
    claim : NeverNegative
        What to look at, new.
    cuts : sequence of float
        The scores.
    most : number
        How many operations on pieces it may take; ``claim.shared.spent`` says how many it took.
    """
    if len(cuts) < 2 or any(not a < b for a, b in itertools.pairwise(cuts)):
        raise Unverified("the cuts must be increasing scores")
    claim.shared.most = most
    try:
        _look_at_all(claim, cuts)
    except TooLong:
        raise Unverified(f"more than {most:,.0f} operations would be needed") from None


def _look_at_all(claim: NeverNegative, cuts: Sequence[float]) -> None:
    waiting = [(a, b) for a, b in itertools.pairwise(cuts)][::-1]
    looks, sides = 0, []
    while waiting:
        a, b = waiting.pop()
        looks += 1
        if looks > _MOST_PIECES * len(cuts):
            raise Unverified("too many pieces would be needed")
        try:
            pieces = claim.inside(a, b)
        except Unverified:
            middle = middle_of(a, b)
            if not a < middle < b:
                raise
            waiting += [(middle, b), (a, middle)]
            continue
        _meet(claim, a, *sides, (pieces, 0))
        sides = [(pieces, 1)]
    _meet(claim, cuts[-1], *sides)


def _meet(claim: NeverNegative, at: float, *sides: Side) -> None:
    """Raise unless a claim holds where pieces meet, or at the last score of all if it has a value."""
    if len(sides) == 2 or (math.isfinite(at) and any(piece.changes[i] for pieces, i in sides for piece in pieces)):
        claim.join(at, *sides)


def refute_half_turn(formula: Sequence[Operation], about: float, moves: Sequence[float]) -> None:
    """Raise :class:`Unverified` if half a turn about a score certainly does not take a formula onto itself."""

    def at(score: float) -> Span:
        try:
            return Piece(formula, score, score).whole.value
        except Unverified:  # no value there, or an undecided condition
            return EVERYTHING

    for move in moves:
        around = plus(at(about - move), at(about + move))
        gap = plus(around, minus(scaled(at(about), 2.0)))
        if gap.low > 0 or gap.high < 0:
            raise Unverified(f"the values {move!r} below and above {about!r} do not belong together")
