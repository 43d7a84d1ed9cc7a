"""Numbers for people: as exact as they say, of one length, and without powers of ten where nobody wants them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selmatch.comparison.result import Estimate
from selmatch.comparison.tabulate import shown
from selmatch.words import readable

MAGNITUDES = st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1.0, 1.0]), st.floats(-300.0, 300.0))


def back(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


@given(value=MAGNITUDES, digits=st.integers(3, 6))
def test_numbers_are_those_that_were_meant(value, digits):
    text = readable(value, digits)
    assert abs(back(text) - Decimal(value)) <= Decimal("0.5000001") * Decimal(10) ** (
        math.floor(math.log10(abs(value)) + 1e-12) - digits + 1
    )
    padded = readable(value, digits, padded=True)
    assert back(padded) == back(text)
    shown_digits = re.sub(r"e.*|[^0-9]", "", padded).lstrip("0")
    assert len(shown_digits) >= digits
    assert "." not in padded or len(shown_digits) == digits


@given(value=st.floats(1e-4, 9.99e8))
def test_usual_numbers_have_no_power_of_ten(value):
    for text in (readable(value), readable(-value), shown(value), str(Estimate(value, value, value))):
        assert "e" not in text
        assert len(text.split()[0]) <= 12


@given(size=st.floats(-12.0, 15.0), parts=st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=6))
def test_numbers_beside_each_other_have_one_power_and_as_many_decimals(size, parts):
    values = [part * 10.0**size for part in [*parts, 1.0]]
    texts = [readable(value, scale=max(map(abs, values)), padded=True) for value in values]
    forms = {(text.partition("e")[2], len(text.partition("e")[0].partition(".")[2])) for text in texts if back(text)}
    assert len(forms) == 1
    assert np.all(np.diff([float(back(text)) for _, text in sorted(zip(values, texts, strict=True))]) >= 0.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (281437.0, "281,400"), (0.00281, "0.00281"), (2.8e12, "2.8e12"), (1e-9, "1e-9"), (9.9996, "10"), (-0.0, "0"),
        (999_999_999.6, "1e9"), (0.0000999999, "0.0001"), (math.inf, "infinite"), (-math.inf, "-infinite"),
        (math.nan, "nan"), (5e-324, "4.941e-324"), (476543.2, "476,500"), (1.0, "1"),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(value, text):
    assert readable(value) == text
