"""Names that examples in docstrings and in the README may use without importing them."""

import math

import numpy as np
import pytest

import selmatch as sm


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace):
    doctest_namespace.update({name: getattr(sm, name) for name in sm.__all__}, np=np, math=math, sm=sm)


def pytest_terminal_summary(terminalreporter):
    """How many golden values were compared, and how many left out."""
    for test in terminalreporter.stats.get("passed", []):
        for name, line in test.user_properties:
            if name == "golden":
                terminalreporter.write_line(line)
