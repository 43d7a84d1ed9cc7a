"""Names that examples in docstrings and in the README may use without importing them."""

import math

import numpy as np
import pytest

import selmatch as sm


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace):
    doctest_namespace.update({name: getattr(sm, name) for name in sm.__all__}, np=np, math=math, sm=sm)
