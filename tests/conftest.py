"""Curves, losses and array types that the tests run over; hypothesis profiles."""

from __future__ import annotations

import importlib
import os
import warnings

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import selmatch as sm
from selmatch.kernels.checks.links import JUMPING as JUMPING
from selmatch.kernels.checks.links import KINKED as KINKED
from selmatch.kernels.checks.links import LINKS
from selmatch.kernels.checks.links import SMOOTH as SMOOTH

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)

hypothesis.settings.register_profile("default", max_examples=100, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("SELMATCH_HYPOTHESIS_PROFILE", "default"))

SCALINGS = [sm.Constant(), sm.Cosh(), sm.AbsPower(d=1.0, c=2.0), sm.AbsPower(d=2.5, c=0.5)]
CURVES = [*LINKS, *SCALINGS]
SOFTMAXES = [
    sm.CompositeSoftmax(), sm.CompositeSoftmax(sm.Sinh(), gamma=0.5), sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5)),
    sm.CompositeSoftmax(sm.Tanh(), gamma=2.0, rho=(0.5, 1.0, 2.0)), sm.CompositeSoftmax(sm.SmeLU()),
    sm.CompositeSoftmax(sm.Sigmoid().affine(beta=1.0), anchor=0.5), sm.CompositeSoftmax(sm.Identity(), gamma=0.3),
]  # fmt: skip
VECTORS = [*SOFTMAXES, sm.Separable(sm.Sinh())]
LOSSES = [sm.MatchingLoss(potential) for potential in (*LINKS, *VECTORS)]


def points_inside(curve: sm.Curve, count: int = 9) -> np.ndarray:
    """Scores well inside the domain of a curve, off the kinks of the curves above."""
    low, high = curve.window()
    margin = 0.03 * (high - low)
    return np.linspace(low + margin, high - margin, count) + 0.0123 * (high - low) / 8.0


ARRAYS = {
    "numpy": lambda x: np.asarray(x, dtype=np.float64),
    "torch": lambda x: torch.tensor(np.asarray(x), dtype=torch.float64),
    "jax": lambda x: jnp.asarray(np.asarray(x), dtype=jnp.float64),
}


@pytest.fixture(params=ARRAYS)
def array(request):
    """Makes an array of each library from numbers."""
    return ARRAYS[request.param]


@pytest.fixture(scope="session")
def parts_of_torch():
    """PyTorch imports these on first use, and one warns of the other: not ours to mend, so done before any test."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        for name in ("torch._decomp.decompositions_for_jvp", "torch._inductor.compile_fx"):
            importlib.import_module(name)


@pytest.fixture
def compiled(parts_of_torch):
    """Compiles a function whole, and refuses to compile it again."""

    def compile_whole(function, backend="aot_eager", **options):
        torch._dynamo.reset()
        return torch.compile(function, fullgraph=True, backend=backend, **options)

    with torch._dynamo.config.patch(error_on_recompile=True):
        yield compile_whole
    torch._dynamo.reset()
