"""Numbers with a bound of their error: the true number always lies within, and rounding answers no question."""

import itertools
import math
import operator
from fractions import Fraction

import pytest

from selmatch.approximate import Approximate, Undecidable, approximated

ROOTS = [Fraction(2), Fraction(1, 3), Fraction(10**12), Fraction(7, 10**9)]


def holds(x, square):
    """Whether an approximate number may be the root of a square."""
    low, high = x.value - x.error, x.value + x.error
    return low > 0 and low * low <= square <= high * high


@pytest.mark.parametrize(("a", "b"), list(itertools.product(ROOTS, ROOTS)))
def test_products_and_quotients_hold_the_true_number(a, b):
    x, y = (approximated(math.sqrt, number) for number in (a, b))
    assert holds(x, a)
    assert holds(x * y, a * b)
    assert holds(x / y, a / b)
    assert holds(1 / x, 1 / a)
    assert holds(3 * x, 9 * a)
    assert holds(x + x - x / 2, a * Fraction(9, 4))
    assert holds(abs(-x), a)


def test_functions_know_how_their_argument_was_rounded():
    third = approximated(math.exp, Fraction(1, 3))
    back = approximated(math.log, third)
    assert abs(back.value - Fraction(1, 3)) <= back.error < Fraction(1, 10**12)
    assert approximated(math.sqrt, 4.0).error < Fraction(1, 10**12)
    with pytest.raises(Undecidable):
        approximated(math.cos, approximated(math.exp, 80.0))  # through more than a period


@pytest.mark.parametrize("question", [bool, abs, round, *(lambda x, op=op: op(x, 0) for op in (
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq))])  # fmt: skip
def test_what_rounding_would_decide_is_refused(question):
    root = approximated(math.sqrt, 2.0)
    with pytest.raises(Undecidable):
        question(root - math.sqrt(2.0) + (Fraction(1, 2) if question is round else 0))
    question(root - 1)


def test_what_is_exact_stays_exact():
    zero = Approximate(Fraction(1), Fraction(0)) - 1
    assert zero == 0
    assert not zero
    with pytest.raises(ZeroDivisionError):
        1 / zero
    with pytest.raises(Undecidable):
        zero + math.inf
