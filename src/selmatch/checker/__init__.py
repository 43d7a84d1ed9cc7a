"""The checker of interval proofs: a second, small path that shares no code with the search.

A proof is a list of operations (a formula as it was traced) and scores that cut an interval into pieces. On each piece
the checker encloses value, slope and bend of the formula between exact binary numbers, rounded outwards by Arb, and
accepts only what these enclosures show. It may cut pieces further, never join them. Whatever it does not know it
refuses. It needs python-flint and nothing else of this library.
"""

from selmatch.checker.claims import (
    CLAIMS,
    NeverFalls,
    NeverNegative,
    SigmoidLinkNeverFalls,
    refute_half_turn,
    require,
)
from selmatch.checker.pieces import Operation
from selmatch.checker.spans import Unverified

__all__ = [
    "CLAIMS",
    "NeverFalls",
    "NeverNegative",
    "Operation",
    "SigmoidLinkNeverFalls",
    "Unverified",
    "refute_half_turn",
    "require",
]
