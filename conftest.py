"""Names that examples in docstrings and in the README may use without importing them; where tests keep kernels."""

import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import selmatch as sm

# GPU kernels run on processors; Triton asks for this when it is imported
os.environ["TRITON_INTERPRET"] = "1"
# kernels that tests compile stay out of the user's cache
os.environ.setdefault("SELMATCH_CACHE", str(Path(__file__).parent / ".pytest_cache" / "kernels"))


# pages are tests; what builds them, what they are built from and what comes out is not
collect_ignore_glob = [
    f"docs/{part}" for part in ("conf.py", "_ext/*", "_build/*", "gallery/*", "generated/*", "images/*")
]


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace):
    doctest_namespace.update({name: getattr(sm, name) for name in sm.__all__}, np=np, math=math, sm=sm)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_terminal_summary(terminalreporter):
    """How many golden values were compared, and how many left out."""
    for test in terminalreporter.stats.get("passed", []):
        for name, line in test.user_properties:
            if name == "golden":
                terminalreporter.write_line(line)
