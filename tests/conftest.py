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

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)

hypothesis.settings.register_profile("default", max_examples=100, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("SELMATCH_HYPOTHESIS_PROFILE", "default"))

SMOOTH = [
    sm.Identity(), sm.Sigmoid(), sm.Exp(), sm.AntiExp(), sm.Sinh(), sm.Tanh(), sm.Arctan(), sm.Arcsinh(), sm.Sin(),
    sm.SignedLog(), sm.Logit(), sm.Arctanh(), sm.Arcsin(), sm.Tan(), sm.NegLog1m(), sm.Log(),
    sm.SignedPower(0.5), sm.SignedPower(3.0), sm.Power(1.5), sm.Polynomial((0.5, 1.0, 0.0, 0.25), origin=0.5),
    sm.Sigmoid().affine(alpha=2.0, beta=1.5), sm.Sinh().affine(alpha=0.5, beta=-1.0, gain=0.5),
    sm.Log().affine(alpha=2.0, beta=-0.25), 0.1 * sm.Identity() + sm.Exp().affine(alpha=0.5),
    sm.CompositeSigmoid(sm.Sinh()), sm.CompositeSigmoid(sm.Exp(), gamma=0.5, offset=-1.0),
    sm.CompositeSigmoid(sm.Cosh(), gamma=0.7), sm.CompositeSigmoid(sm.AbsPower(d=2.0, c=3.0)),
    sm.CompositeSigmoid(sm.Constant()), sm.Inverse(sm.Identity() + sm.Sinh()),
]  # fmt: skip
KINKED = [
    sm.SmeLU(c=2.0), sm.Huber(c=1.0), sm.ReLU(), sm.Sinh().capped(-1.5, 2.0), sm.Exp().capped(high=1.0),
    sm.CompositeSigmoid(sm.SmeLU(c=1.0)),
    sm.Piecewise((-1.0, 0.5, 2.0), (sm.Polynomial((0.0, 0.0, 0.0, 1.0), -1.0), sm.Polynomial((4.0, 0.5), 0.5))),
    sm.Piecewise((0.0, 1.0, 3.0), (sm.Constant(0.0), sm.Exp())),
    sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0)),
]  # fmt: skip
JUMPING = [sm.Step(), sm.Sign(), sm.Staircase((-1.0, 1.0), (1.0, 2.0), base=-0.5)]
SCALINGS = [sm.Constant(), sm.Cosh(), sm.AbsPower(d=1.0, c=2.0), sm.AbsPower(d=2.5, c=0.5)]
#: every curve that is a link
LINKS = [*SMOOTH, *KINKED, *JUMPING]
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
