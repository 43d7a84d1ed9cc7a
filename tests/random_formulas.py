"""Random increasing formulas, smooth and kinked, steep and flat, with their losses to 50 digits.

A formula is a text that :func:`selmatch.parse` reads and that Python evaluates, with the functions of
:mod:`selmatch.functions` or of mpmath: one text, three kinds of curves and a reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st
from mpmath import mp, mpf

import selmatch as sm

DIGITS = 50
#: widths of a centre at which reference integrals are cut
_CUTS = (0.3, 1.0, 3.0, 8.0, 25.0)


def _log_cosh(x: mpf) -> mpf:
    return abs(x) + mpmath.log1p(mpmath.exp(-2 * abs(x))) - mpmath.log(2)


def _softplus(x: mpf) -> mpf:
    return max(x, mpf(0)) + mpmath.log1p(mpmath.exp(-abs(x)))


#: what the names of a formula mean to mpmath
EXACT: dict[str, Callable[..., Any]] = {
    "tanh": mpmath.tanh, "arctan": mpmath.atan, "arcsinh": mpmath.asinh, "sinh": mpmath.sinh, "exp": mpmath.exp,
    "sin": mpmath.sin, "abs": abs, "maximum": max, "minimum": min, "square": lambda x: x * x, "sqrt": mpmath.sqrt,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "softplus": _softplus,
    "where": lambda condition, a, b: a if condition else b,
}  # fmt: skip
#: steps: the text in x = (z - centre) / width, and an antiderivative in x
STEPS: dict[str, tuple[str, Callable[[mpf], mpf] | None]] = {
    "tanh": ("tanh({x})", _log_cosh),
    "arctan": ("arctan({x})", lambda x: x * mpmath.atan(x) - mpmath.log1p(x * x) / 2),
    "arcsinh": ("arcsinh({x})", lambda x: x * mpmath.asinh(x) - mpmath.sqrt(1 + x * x)),
    "sigmoid": ("sigmoid({x})", _softplus),
    "bend": ("{x}/sqrt(1.0+square({x}))", lambda x: mpmath.sqrt(1 + x * x)),
    "clipped": (
        "minimum(maximum({x},-1.0),1.0)",
        lambda x: min(max(x, -1), 1) ** 2 / mpf(2) + abs(x - min(max(x, mpf(-1)), mpf(1))),
    ),
    "kink": ("maximum({x},0.0)", lambda x: max(x, mpf(0)) ** 2 / 2),
    "leaning": ("2.0*{x}+abs({x})", lambda x: x * x + x * abs(x) / 2),
    # two numbers alone would have PyTorch's default precision
    "jump": ("where({x}>0.0,1.0+0.0*{x},0.0)", lambda x: max(x, mpf(0))),
    "cubic": ("{x}*square({x})", lambda x: x**4 / 4),
    "steep": ("tanh({x}+{x}*square({x}))", None),
    "wave": ("sin({x})+1.001*{x}", lambda x: mpf(1.001) * x * x / 2 - mpmath.cos(x)),
    "hidden": ("maximum(sinh(minimum({x},2.0)),0.5)", None),
}


@dataclass(frozen=True)
class Step:
    """``height * shape((z - centre) / width)``."""

    shape: str
    height: float
    centre: float
    width: float

    @property
    def text(self) -> str:
        return f"{self.height!r}*({STEPS[self.shape][0].format(x=f'((z-{self.centre!r})/{self.width!r})')})".replace(
            "--", "+"
        )

    def cuts(self) -> list[float]:
        own = {"clipped": [-1.0, 1.0], "hidden": [math.asinh(0.5), 2.0]}.get(self.shape, [])
        return [self.centre + t * self.width for t in (0.0, *own, *_CUTS, *(-t for t in _CUTS))]


@dataclass(frozen=True)
class RandomFormula:
    """A sum of steps."""

    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        return "+".join(step.text for step in self.steps)

    def link(self) -> sm.Curve:
        """The curve from a function."""
        return sm.FromLink(_function(self.text))

    def parsed(self) -> sm.Curve:
        """The curve from the text, not lowered."""
        return sm.parse(self.text, lower=False)

    def own(self, hint: float = 1.0) -> sm.Curve:
        """The curve as a class of a user, whose scale is what you like."""
        function = _function(self.text)

        class Own(sm.Curve):
            scale = hint

            def __call__(self, x):
                return function(x)

        return Own()

    @property
    def continuous(self) -> bool:
        return all(step.shape != "jump" for step in self.steps)

    def value(self, z: float) -> mpf:
        """The curve, to 50 digits."""
        with mp.workdps(DIGITS):
            return _exact(self.text, mpf(z))

    def size(self, z: float) -> float:
        """The sum of the sizes of its terms: how large its rounding errors are."""
        return float(sum(abs(_exact(step.text, mpf(z))) for step in self.steps))

    def difference(self, s: float, s_hat: float) -> mpf:
        """The gradient, to 50 digits."""
        with mp.workdps(DIGITS):
            return self.value(s_hat) - self.value(s)

    def loss(self, s: float, s_hat: float) -> mpf:
        """The loss, to 50 digits: from antiderivatives where there are some, else an integral between the cuts."""
        with mp.workdps(2 * DIGITS):
            return mpmath.fsum(self._loss_of(step, mpf(s), mpf(s_hat)) for step in self.steps)

    def _loss_of(self, step: Step, s: mpf, s_hat: mpf) -> mpf:
        here, primitive = _exact(step.text, s), STEPS[step.shape][1]
        if primitive is not None:
            ends = ((z - mpf(step.centre)) / mpf(step.width) for z in (s_hat, s))
            there, start = (mpf(step.height) * mpf(step.width) * primitive(x) for x in ends)
            return there - start - (s_hat - s) * here
        with mp.workdps(25):
            cuts = [c for c in step.cuts() if min(s, s_hat) < c < max(s, s_hat)]
            path = sorted({s, s_hat, *map(mpf, cuts)}, reverse=bool(s_hat < s))
            return mpmath.quad(lambda t: _exact(step.text, t) - here, path, method="gauss-legendre")


_compiled: dict[str, Any] = {}


def _code(text: str) -> Any:
    return _compiled.setdefault(text, compile(text, "formula", "eval"))


def _exact(text: str, z: mpf) -> mpf:
    return eval(_code(text), {**EXACT, "z": z})


def _function(text: str) -> Callable[[Any], Any]:
    code, names = _code(text), {name: getattr(sm.functions, name) for name in EXACT}
    return lambda z: eval(code, names, {"z": z})


def exactly(pair: tuple[float, float], formula: RandomFormula) -> tuple[float, float]:
    """Loss and gradient from the first score to the second."""
    return float(formula.loss(*pair)), float(formula.difference(*pair))


# ------------------------------------------------------------------------------------------------------- strategies


def _log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda t: float(f"{10.0**t:.3g}"))


def _between(reach: float) -> st.SearchStrategy[float]:
    """Numbers of four digits after the point: tiny ones are another test's business."""
    return st.floats(-reach, reach).map(lambda t: round(t, 4))


@st.composite
def steps(draw: Any) -> Step:
    """A step with a slope of at most 1e4, 1e-4 to 1e4 wide."""
    shape = draw(st.sampled_from(sorted(STEPS)))
    # a wave has no end, and a trace holds so many pieces of it
    width = draw(_log_uniform(1e-2 if shape == "wave" else 1e-4, 1e4))
    height = min(draw(_log_uniform(1e-3, 1e3)), 1e4 * width)
    if shape in ("cubic", "leaning", "kink", "wave"):
        height = min(height, 1e2 * width)
    centre = draw(st.one_of(_between(4.0), _between(300.0)))
    return Step(shape, float(f"{height:.3g}"), centre, width)


@st.composite
def formulas(draw: Any) -> RandomFormula:
    """A sum of one to three steps."""
    return RandomFormula(tuple(draw(st.lists(steps(), min_size=1, max_size=3))))


@st.composite
def moves(draw: Any, formula: RandomFormula) -> tuple[float, float]:
    """An observed and a predicted score: near a step or far from all, long or short, up or down."""

    def score() -> float:
        step = draw(st.sampled_from(formula.steps))
        if draw(st.booleans()):
            return step.centre + step.width * draw(_between(6.0))
        return draw(_between(8.0))

    s = score()
    if draw(st.integers(0, 3)):
        return s, score()
    return s, s + draw(_log_uniform(1e-6, 1.0)) * draw(st.sampled_from((-1.0, 1.0))) * draw(
        st.sampled_from(formula.steps)
    ).width


@st.composite
def cases(draw: Any, count: int = 6) -> tuple[RandomFormula, np.ndarray, np.ndarray]:
    """A formula, observed scores and predicted scores."""
    formula = draw(formulas())
    pairs = np.array([draw(moves(formula)) for _ in range(count)])
    return formula, pairs[:, 0], pairs[:, 1]
