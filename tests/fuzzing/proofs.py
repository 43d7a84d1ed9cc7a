"""Certificates of curves that are made to deceive: is what is proved true, and what is refuted false?

``PYTHONPATH=tests python -m fuzzing --what proofs --count 20000 [--seed N]``

A case is a question about a curve. Its source is read twice: by the library, and by :mod:`fuzzing.exact` with 60
digits. A proof fails if a dense search finds the contrary; a refutation fails if its witness does not stand up to 60
digits. Undecided is always allowed. A case that fails is printed as one line, which :func:`check` takes again.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import queue
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx

import selmatch as sm
from fuzzing import exact, formulas, oracle
from selmatch import certify
from selmatch.certificates import Certificate, Enclosure, Proved, Refuted

#: boxes of a search: with more, more is decided, and a case takes longer
BOXES = 500
#: seconds without any result after which a run is given up
PATIENCE = 600.0


class Case(NamedTuple):
    """A question about a curve, with special places to look at."""

    family: str
    question: str
    source: str
    domain: tuple[float, float] = (-8.0, 8.0)
    places: tuple[float, ...] = ()


class Outcome(NamedTuple):
    """What became of a case; ``fault`` is empty if nothing is wrong."""

    verdict: str
    fault: str = ""
    detail: str = ""


# ----------------------------------------------------------------------------------------------------- classes of users


def own(call: Any, **methods: Any) -> sm.Curve:
    """A curve of a user, whose other methods and attributes need not fit its formula."""
    members: dict[str, Any] = {"__call__": lambda self, x: call(x)}
    for name, method in methods.items():
        members[name] = _method(method) if callable(method) else method
    return type("Own", (sm.Curve,), members)()


def _method(function: Any) -> Any:
    return lambda self, *arguments: function(*arguments)


def by_type(numbers: Any, others: Any) -> sm.Curve:
    """A curve that is one function of numbers and arrays, and another one of everything else."""
    return own(lambda x: numbers(x) if isinstance(x, (int, float, np.ndarray)) else others(x))


def attempt(condition: Any, then: Any, otherwise: Any) -> sm.Curve:
    """A curve that hides from what it is asked where a branch on a value is refused."""

    def call(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return np.array([call(float(t)) for t in x.ravel()]).reshape(x.shape)
        try:
            if condition(x):
                return then(x)
        except Exception:
            pass
        return otherwise(x)

    return own(call)


def _exact_own(call: Any, primitive: Any = None, **others: Any) -> exact.ExactCurve:
    return exact.ExactCurve(call, primitive)


_LIBRARY = {name: getattr(sm, name) for name in exact.CURVES if hasattr(sm, name)}
_SOURCES: tuple[dict[str, Any], dict[str, Any]] = (
    {**_LIBRARY, "CompositeSoftmax": sm.CompositeSoftmax, "Interval": sm.Interval, "f": sm.functions, "own": own,
     "by_type": by_type, "attempt": attempt},
    {**exact.CURVES, "CompositeSoftmax": lambda scaling, **options: scaling,
     "Interval": sm.Interval, "own": _exact_own,
     "by_type": lambda numbers, others: exact.ExactCurve(numbers),
     "attempt": lambda condition, then, otherwise: exact.ExactCurve(
         lambda x: exact.FUNCTIONS["where"](condition(x), then(x), otherwise(x)))},
)  # fmt: skip


def library_curve(source: str) -> Any:
    """The curve that the library makes of a source."""
    return eval(source, dict(_SOURCES[0]))


def exact_curve(source: str) -> exact.ExactCurve:
    """What the source means."""
    return eval(source, dict(_SOURCES[1]))


# ------------------------------------------------------------------------------------------------------------- families

Rng = random.Random
LINK_QUESTIONS = ("non_decreasing", "non_decreasing", "non_decreasing", "convex")


def _number(x: float, digits: int = 17) -> str:
    text = f"{x:.{digits}g}"
    return f"({text})" if x < 0 else text


def _log_uniform(rng: Rng, low: float, high: float) -> float:
    return 10.0 ** rng.uniform(low, high)


def _place(rng: Rng) -> float:
    return rng.choice([rng.uniform(-7.0, 7.0), round(rng.uniform(-7.0, 7.0), 2), rng.randint(-200, 200) / 32.0])


def _parsed(rng: Rng, text: str) -> str:
    """A text as a curve in one of the ways to write one."""
    if rng.random() < 0.7:
        return f"parse({text!r})"
    return f"parse({text!r}, lower=False)"


def rounded_jump(rng: Rng) -> Case:
    """A fall at a place that is rounded on the way to it, or a rise there."""
    p, c = _place(rng), rng.choice([rng.uniform(0.3, 9.0), 3.0, 1.3, 1e-5, 1e7]) * rng.choice([1.0, 1.0, -1.0])
    size = _log_uniform(rng, -15.0, -1.0) if rng.random() < 0.7 else 1e-3
    b = rng.uniform(-3.0, 3.0)
    sign = rng.choice(["<", "<=", ">", ">=", "==", "!="])
    P, C, B = _number(p), _number(c), _number(b)
    condition = rng.choice(
        [
            f"{C}*(z-{P}){sign}0",
            f"{C}*z{sign}{_number(c * p)}",
            f"z/{C}{sign}{_number(p / c)}",
            f"{C}*(z+{B}){sign}{_number(c * (p + b))}",
            f"{C}*z+{B}{sign}{_number(c * p + b)}",
            f"{_number(c * p)}{sign}{C}*z",
            f"{C}*(z-{P})-{B}{sign}{_number(-b)}",
            f"{C}*(z-{P})/3{sign}0",
            f"1-{C}*(z-{P}){sign}1",
            f"1-{C}*(z-{P}){sign}1",
        ]
    )
    ground = rng.choice(
        [f"max(z,{P})", f"max(z,{P})", f"min(z,{P})", "z", f"clip(z,{P},{_number(p + 0.5)})", "step(z)"]
    )
    jump = f"where({condition},{_number(rng.choice([size, -size]))},0)"
    text = rng.choice([f"{ground}+{jump}", f"{jump}+{ground}"])
    if rng.random() < 0.25:  # the same as a formula of a user
        python = re.sub(r"\bz\b", "x", text).replace("max(", "f.maximum(").replace("min(", "f.minimum(")
        python = python.replace("where(", "f.where(").replace("clip(x,", "_clip(")
        if "clip" not in python and "step" not in python:
            return Case("jumps", rng.choice(LINK_QUESTIONS), f"own(lambda x: {python})", places=(p,))
    return Case("jumps", rng.choice(LINK_QUESTIONS), _parsed(rng, text), places=(p,))


def division_near_zero(rng: Rng) -> Case:
    """Reciprocals and steep functions on ranges that touch 0."""
    k, m, w = (
        _number(_log_uniform(rng, 2.0, 25.0)),
        _number(rng.uniform(0.6, 5.5)),
        _number(_log_uniform(rng, 0.0, 6.0)),
    )
    a, b = _number(_log_uniform(rng, -6.0, 0.0)), _number(rng.choice([-1.0, 1.0]) * _log_uniform(rng, -6.0, 0.0))
    tiny = _log_uniform(rng, -12.0, -0.5)
    text, domain = rng.choice(
        [
            (f"z+{a}*tanh({k}*z)-{b}*exp(-((z-{m})*{w})^2)", (0.5, 6.0)),
            (f"z-tanh({k}*z)", (tiny, 2.0)),
            (f"z-{a}/(1+exp({k}*(z-{m})))", (0.5, 6.0)),
            (f"z-{b}/({a}+(z-{m})^2)", (0.5, 6.0)),
            (f"z-{a}/z", (tiny, 3.0)),
            (f"{a}*z+{b}/cosh({k}*(z-{m}))", (0.5, 6.0)),
            (f"z-{a}*z/({a}+abs(z))", (-tiny, 4.0)),
            (f"z+{b}*z/sqrt({a}*{a}+z^2)", (0.0, 4.0)),
            (f"z-{a}*arctan({k}*z)", (tiny, 6.0)),
            (f"z-{b}*sigmoid({k}*(z-{m}))/({a}+z)", (0.0, 6.0)),
        ]
    )
    return Case("divisions", rng.choice(LINK_QUESTIONS), _parsed(rng, text), domain, (float(m), tiny))


def piecewise_inside(rng: Rng) -> Case:
    """Segments with a fall at a joint that the constructor overlooks, inside other curves."""
    level, joint = float(f"{_log_uniform(rng, 0.0, 16.0):.4g}"), rng.choice([1.0, round(rng.uniform(0.2, 3.0), 2)])
    gap = level * rng.choice([rng.uniform(-9e-13, 9e-13), rng.uniform(0.0, 9e-13), 0.0, -1e-3])
    slope = rng.choice([level / joint, 0.0, 1.0])
    start = level - slope * joint
    shape = f"Polynomial(({start!r}, {slope!r}))"
    after = rng.choice(
        [f"Polynomial(({level - gap!r}, 1.0), {joint!r})", f"Sum((Constant({level - gap!r}), Step().affine(beta=2.5)))"]
    )
    joined = f"Piecewise((0.0, {joint!r}, {joint + 2.0!r}), ({shape}, {after}))"
    gain, alpha, beta = (float(f"{_log_uniform(rng, -2.0, 2.0):.3g}") for _ in range(3))
    source = rng.choice(
        [
            f"Sum(({joined}, Identity().affine(gain={gain!r})))",
            f"Sum(({joined}.affine({alpha!r}, {beta!r}, {gain!r}), Tanh()))",
            f"{joined}.affine({alpha!r}, {beta!r}, {gain!r})",
            f"{joined}.capped(0.5, {joint + 1.0!r})",
            f"Sum((Sum(({joined}, Sinh())).capped(-1.0, {joint + 1.0!r}), Constant(1.0)))",
            f"0.1 * {joined} + ReLU()",
            f"Sum((Piecewise((-1.0, 9.0), ({joined},)), Arctan()))",
            joined,
        ]
    )
    return Case("piecewise", rng.choice(LINK_QUESTIONS), source, places=(joint, beta + joint / alpha))


def cancellation(rng: Rng) -> Case:
    """Huge and tiny terms that cancel, products that underflow, sums in any order."""
    big, k = _number(_log_uniform(rng, 10.0, 300.0), 4), _number(rng.uniform(0.5, 5.0), rng.choice([2, 17]))
    K = _number(math.nextafter(float(k), 9.0))
    small, a = _number(_log_uniform(rng, -320.0, -100.0), 4), _number(rng.uniform(0.1, 2000.0), 4)
    p = _number(rng.uniform(-5.0, 5.0))
    terms = [f"{big}*z", f"-{a}*z", f"-{big}*z"]
    rng.shuffle(terms)
    domain = rng.choice([(-8.0, 8.0), (-8.0, 8.0), (-40.0, 8.0), (-math.inf, math.inf)])
    odd = rng.choice(["sinh", "tanh", "arctan", "arcsinh", "sin"])
    level = _number(math.exp(math.tanh(-1.0)) if rng.random() < 0.3 else rng.uniform(0.37, 2.7))
    text = rng.choice(
        [
            "+".join(terms).replace("+-", "-"),
            f"{big}*z+{a}-{big}*z",
            f"0.1*({odd}({k}*z)-{K}*z)",
            f"0.1*({K}*z-{odd}({k}*z))",
            f"{_number(_log_uniform(rng, 0.0, 300.0), 3)}*(exp(tanh(z))-{level})^2",
            f"{_number(_log_uniform(rng, 0.0, 300.0), 3)}*(exp(z/9)-{level})^2",
            f"{small}*({small}*z)-{small}*z^3",
            f"max({small}*{small}*(z-{p}),-z)",
            f"z-{small}*({big}*z)",
            f"({big}*(z-{p}))-({big}*z-{big}*{p})+{a}*z",
            f"{big}*(z+{p})^2-{big}*z^2",
            f"-{small}*(({small})*sinh(z))",
            f"{k}*z-{K}*z+{small}*z",
            f"{k}*(z-{p})+{K}*({p}-z)",
            f"{k}*sinh(z-{p})-{K}*sinh(z-{p})",
            f"exp({k}*z)*exp(-{K}*z)",
            "0.1*z+0.2*z-0.3*z",
            f"z*z*z-{k}*z*z+{k}*{k}/3*z",
        ]
    )
    origin = float(p.strip("()"))
    if rng.random() < 0.2:
        source = _parsed(rng, _rounded_constant(rng, p))
        return Case("cancellation", rng.choice(LINK_QUESTIONS), source, places=(origin,))
    if rng.random() < 0.3:
        coefficients = tuple(
            float(f"{rng.choice([-1.0, 1.0]) * _log_uniform(rng, -200.0, 200.0):.3g}") for _ in range(rng.randint(2, 5))
        )
        near = float(k)  # (x - k)^2 as a slope, and what rounding makes of it
        touching = (0.0, near * near, -near, 1.0 / 3.0)
        source = f"Polynomial({rng.choice([coefficients, touching])!r}, {rng.choice([0.0, origin, 1e8])!r})"
        if rng.random() < 0.5:
            source = f"Sum(({source}, Identity().affine(gain={abs(float(k))!r})))"
        return Case("cancellation", rng.choice(LINK_QUESTIONS), source, domain, (near, origin))
    return Case("cancellation", rng.choice(LINK_QUESTIONS), _parsed(rng, text), domain, (-1.0, float(k), origin))


def _rounded_constant(rng: Rng, p: str) -> str:
    """A number that floats round, less what it is rounded to or a neighbour of that, as a factor or in a condition."""
    x = rng.choice([2.0, 0.3, rng.uniform(0.01, 9.0)])
    name = rng.choice(["sqrt", "exp", "tanh", "sinh", "log1p", "sin", "cos", "arctan", "sigmoid"])
    with np.errstate(all="ignore"):
        value = float(getattr(sm.functions, name)(x))
    for _ in range(rng.choice([0, 0, 1, 3])):
        value = math.nextafter(value, rng.choice([-math.inf, math.inf]))
    C, V = f"{name}({_number(x)})", _number(value)
    odd = rng.choice(["sinh(z)", "z", "z^3", "tanh(2*z)", f"(z-{p})"])
    return rng.choice(
        [
            f"({C}-{V})*{odd}",
            f"{C}*{odd}-{V}*{odd}",
            f"{V}*{odd}-{C}*{odd}",
            f"sigmoid({C}*z-{V}*z)",
            f"sign({C}-{V})*{odd}",
            f"where({C}>{V},1,-1)*{odd}",
            f"max(z,{C}*z-{V}*z+0.5)",
            f"max({C},{V})*{odd}-{C}*{odd}",
            f"cos({_number(_log_uniform(rng, 1.0, 9.0), 3)}^{rng.randint(2, 30)}-{V})*sinh(z-{p})",
            f"(-1)^({rng.randint(2, 200)}^{rng.randint(2, 40)})*{odd}",
            f"{odd}*({C}/{V}-1)",
            f"sinh(z-({C}-{V}))+{odd}",
        ]
    )


def users_class(rng: Rng) -> Case:
    """Classes whose methods contradict each other, or that notice who asks."""
    p = round(rng.uniform(-6.0, 6.0), rng.choice([1, 3]))
    drop, w = float(f"{_log_uniform(rng, -6.0, 0.0):.3g}"), float(f"{_log_uniform(rng, 0.0, 4.0):.3g}")
    falling = f"lambda x: x - {drop!r} * f.where(x > {p!r}, 1.0, 0.0)"
    bumpy = f"lambda x: x - {drop!r} * f.tanh({w!r} * (x - {p!r}))"
    straight = "lambda x: 1.0 * x"
    bowl = "lambda x: 0.5 * x * x"
    dented = f"lambda x: 0.5 * x * x - {drop!r} * f.tanh({w!r} * (x - {p!r}))"
    one = "lambda x: 1.0 + 0.0 * x"
    far = f"x * f.tanh({30.0 + abs(p)!r} - f.arcsinh(x))"  # falls beyond 1e13
    nothing = "lambda x, u, xh=None: 0.0 * u"
    convex, wide = "convex", (-math.inf, math.inf)
    question, source, domain = rng.choice(
        [
            (convex, f"CompositeSoftmax(own({straight}, primitive={dented}, slope={one}), check=False)", None),
            (convex, f"CompositeSoftmax(own({straight}, primitive={dented}), check=False)", None),
            (convex, f"CompositeSoftmax(own({bumpy}, primitive={bowl}, slope={one}), check=False)", None),
            (convex, f"CompositeSigmoid(own({straight}, primitive={dented}, slope={one}), check=False)", None),
            ("convex_primitive", f"own({straight}, primitive={dented}, slope={one})", None),
            ("convex_primitive", f"own({bumpy}, primitive={bowl}, remainder={nothing})", None),
            ("convex_primitive", f"own({straight}, primitive={bowl}, remainder=lambda x, u, xh=None: -u * u)", None),
            ("convex_primitive", f"own({bumpy}, remainder=lambda x, u, xh=None: -u * u)", None),
            ("non_decreasing", f"own({bumpy}, slope={one})", None),
            ("non_decreasing", f"own({falling}, slope={one}, increasing=True)", None),
            ("non_decreasing", f"Sum((own({bumpy}, slope={one}, increasing=True), Tanh()))", None),
            ("non_decreasing", f"own({falling}, increasing=True).affine(2.0, 0.5, 3.0)", None),
            ("non_decreasing", f"own({straight}, slope=lambda x: -1.0 + 0.0 * x)", None),
            ("non_decreasing", f"own(lambda x: f.where(f.isfinite(x), {drop!r} * f.sin(x) - x, x))", wide),
            ("non_decreasing", "own(lambda x: f.where(f.isfinite(2.0 * x + 1.0), -x, x))", wide),
            ("non_decreasing", f"own(lambda x: f.where(f.isfinite(x), x - 2.0 * f.tanh({w!r} * x), x))", wide),
            ("non_decreasing", "own(lambda x: f.where(f.isfinite(x), 1.0 * x, -x))", wide),
            ("non_decreasing", f"own(lambda x: f.where(f.isfinite(x), {far}, 1.0 * x))", wide),
            ("non_decreasing", f"own(lambda x: f.where(f.isfinite(1.0 - 3.0 * x), {far}, x + 1.0))", wide),
            ("non_decreasing", f"by_type({falling}, {straight})", None),
            ("non_decreasing", f"by_type({bumpy}, {straight})", None),
            ("non_decreasing", f"by_type({straight}, {bumpy})", None),
            ("non_decreasing", f"attempt(lambda x: x > {p!r}, lambda x: x - {drop!r}, {straight})", None),
            ("non_decreasing", f"attempt(lambda x: x > {p!r}, lambda x: x + {drop!r}, {straight})", None),
            ("non_decreasing", f"attempt(lambda x: f.abs(x - {p!r}) < 1e-9, lambda x: x - 1.0, {straight})", None),
            ("flat", f"own(lambda x: f.where(x > {p!r}, {drop!r} * x, {drop * p!r}), slope=lambda x: 0.0 * x)", None),
            ("flat", f"by_type(lambda x: {drop!r} * f.tanh(x), lambda x: 0.0 * x)", None),
            ("odd", f"own(lambda x: x + {drop!r} * f.square(x), odd=True)", None),
            ("monotone_probability", f"CompositeSoftmax(own(lambda x: x - {p!r}, increasing=True,"
             f" range=Interval(0.0, 1.0)), check=False)", None),
        ]
    )  # fmt: skip
    return Case("users", question, source, domain or (-8.0, 8.0), (p,))


def false_witness(rng: Rng) -> Case:
    """Waves too quick for quadrature and for samples, and curves that are equal to what they are compared with."""
    k = _log_uniform(rng, 1.0, 12.0)
    size = float(f"{rng.uniform(0.1, 1.5) / k * rng.choice([1.0, 9.0, 1e-3]):.3g}")
    K, A, p = _number(k, 3), _number(size), _number(_place(rng))
    question, text = rng.choice(
        [
            ("non_decreasing", f"9*z-{A}*cos({K}*z)"),
            ("non_decreasing", f"z+{A}*sin({K}*z)"),
            ("non_decreasing", "where(z==0,-z,z)"),
            ("non_decreasing", f"where(z=={p},2*{p}-z,z)"),
            ("non_decreasing", f"where(z=={p},{p},z)"),
            ("non_decreasing", f"where(z!={p},z,{p}+{A})"),
            ("non_decreasing", f"z-{p}*(z/{p})"),
            ("non_decreasing", f"(z+{p})^2-z^2-2*{p}*z"),
            ("non_decreasing", "sinh(z)-(exp(z)-exp(-z))/2"),
            ("flat", "tanh(z)-sinh(z)/cosh(z)"),
            ("flat", f"z/{K}*{K}-z"),
            ("flat", f"where(z=={p},1,0)"),
            ("odd", f"z+{A}*cos({_number(rng.uniform(0.1, 100.0), 3)}*z)"),  # each pair of scores is integrated
            ("odd", f"(z-{p})+{p}"),
            ("odd", f"sinh(z)+{A}*z^2"),
            ("monotone_probability", f"1+{A}*sin({K}*z)"),
            ("monotone_probability", f"({p})^2-z*({p})"),
            ("monotone_probability", f"where(z=={p},-1,1+z^2)"),
            ("monotone_probability", f"log({K}*abs(z-{p}))"),
            ("convex", f"where(z=={p},{p}+{A},z)"),
            ("convex", f"where(z!={p},z,{p}-{A})+max(z,{p})"),
            ("non_decreasing", f"huber({p}-z,log(power(z,0)))"),
            ("non_decreasing", f"clip(({p})^2-{p}*z,0,1-exp(0*z))+{A}*z"),
            ("non_decreasing", f"cos({K}^30-{A})*sinh(z-{p})"),
            ("non_decreasing", f"z-({A}*1e-300)^{rng.choice('23')}*z"),
            ("non_decreasing", f"1/log(abs(z/{p}))"),
            ("non_decreasing", f"abs(z-{p})^({A}/3)"),
        ]
    )
    source = _parsed(rng, text)
    if question == "monotone_probability":
        source = f"CompositeSoftmax({source}, check=False)"
    elif "cos" not in text and "sin" not in text and rng.random() < 0.2 and question == "non_decreasing":
        question = "convex_primitive"
    elif question == "non_decreasing" and rng.random() < 0.2 and k < 1e4:
        gain = "9" if text.startswith("9") else "1"
        wave = f"-{A}*f.cos({K}*x)" if "cos" in text else f"+{A}*f.sin({K}*x)"
        whole = f"-{A}/{K}*f.sin({K}*x)" if "cos" in text else f"-{A}/{K}*f.cos({K}*x)"
        if "cos" in text or "sin(" in text:
            formula = f"lambda x: {gain}*x{wave}"
            return Case("witnesses", "convex_primitive", f"own({formula}, primitive=lambda x: {gain}*x*x/2{whole})")
    return Case("witnesses", question, source, places=(float(p.strip("()")),))


def threshold(rng: Rng) -> Case:
    """Enclosures of the largest gamma and the smallest c."""
    alpha, gain = (float(f"{_log_uniform(rng, -1.0, 1.0):.3g}") for _ in range(2))
    beta = round(rng.uniform(-2.0, 2.0), 2)
    d = rng.choice([1.0, 2.0, 1.5, rng.uniform(1.0, 4.0), rng.uniform(0.5, 1.0)])
    c = rng.choice([1.0, _log_uniform(rng, -1.0, 1.0)])
    if rng.random() < 0.15:
        return Case("enclosures", "smallest_c", f"({max(d, 1.0)!r}, {float(f'{c:.4g}')!r})")
    curve = rng.choice(["Cosh()", f"AbsPower({d!r}, {c!r})", f"AbsPower({d!r}, {c!r})"])
    domain = rng.choice([(-math.inf, math.inf), (-8.0, 8.0)])
    return Case("enclosures", "largest_gamma", f"{curve}.affine({alpha!r}, {beta!r}, {gain!r})", domain)


def spike(rng: Rng) -> Case:
    """Narrow bumps, kinks and steps, on huge and tiny scales."""
    m, width = _place(rng), _log_uniform(rng, -12.0, 0.5)
    M, W = _number(m), _number(1.0 / width)
    height = rng.choice([-1.0, 1.0]) * width * _log_uniform(rng, -2.0, 1.0)
    H = _number(height)
    u = f"((z-{M})*{W})"
    bump = rng.choice(
        [
            f"{H}*exp(-{u}^2)",
            f"{H}/cosh({u})",
            f"{H}/(1+{u}^2)",
            f"{H}*tanh({u})",
            f"{H}*max(0,1-abs({u}))",
            f"{H}*arctan({u})",
            f"{H}*{u}*exp(-{u}^2)",
            f"{H}*step({u})",
            f"{H}*abs({u})",
            f"{H}*sign({u})",
            f"where(abs({u})<1,{H},0)",
            f"where(abs(z-{M})<={_number(width)},{H},0)",
        ]
    )
    ground = rng.choice(["z", "z", "sinh(z)", "2*z+abs(z)", "z+tanh(z)", "z^3+z", f"max(z,{M})"])
    text = f"{ground}+{bump}"
    if rng.random() < 0.4:
        text = f"{_number(_log_uniform(rng, -300.0, 300.0), 3)}*({text})"
    return Case("spikes", rng.choice(LINK_QUESTIONS), _parsed(rng, text), places=(m, m + width, m - width))


def random_formula(rng: Rng) -> Case:
    """Any formula of the grammar."""
    text = formulas.valid(rng, rng.randint(2, 5))
    question = rng.choice([*LINK_QUESTIONS, *LINK_QUESTIONS, "flat", "odd", "monotone_probability", "convex_primitive"])
    source = _parsed(rng, text)
    if question == "monotone_probability":
        source = f"CompositeSoftmax({source}, check=False)"
    return Case("formulas", question, source)


#: what was once decided wrongly, or comes close to it
NAMED = (
    Case("named", "non_decreasing", "parse('max(z,0.40625)+where(1.3*(z-0.40625)<0,0.001,0)')", places=(0.40625,)),
    Case("named", "non_decreasing", "parse('max(z,6)+where(7.9973664732543579*(z-6)==0,0.001,0)')", places=(6.0,)),
    Case("named", "non_decreasing", "parse('z+1e-3*tanh(1e20*z)-0.5*exp(-((z-1.23456)*1e4)^2)')", (0.5, 6.0)),
    Case("named", "non_decreasing", "parse('z-tanh(1e18*z)')", (0.001, 2.0)),
    Case("named", "convex", "Sum((Piecewise((0.0, 1.0, 3.0), (Polynomial((0.0, 1e15)),"
         " Polynomial((999999999999500.0, 1.0), 1.0))), Identity()))"),
    Case("named", "non_decreasing", "parse('1e20*z-1000*z-1e20*z')"),
    Case("named", "non_decreasing", "parse('0.1*(sinh(3*z)-3.0000000000000004*z)')"),
    Case("named", "non_decreasing", "parse('1e300*(exp(tanh(z))-0.36787944117144233)^2')", (-40.0, 8.0)),
    Case("named", "non_decreasing", "parse('-1e-200*(1e-200*sinh(z))')"),
    Case("named", "non_decreasing", "parse('where(z==0,-z,z)')"),
    Case("named", "convex", "CompositeSoftmax(own(lambda x: 1.0 * x, primitive=lambda x: 0.5 * x * x - 0.01 *"
         " f.tanh(100.0 * (x - 1.0)), slope=lambda x: 1.0 + 0.0 * x), check=False)", places=(1.0,)),
    Case("named", "non_decreasing", "own(lambda x: f.where(f.isfinite(x), -x, x))", (-math.inf, math.inf)),
    Case("named", "non_decreasing",
         "own(lambda x: f.where(f.isfinite(x), x * f.tanh(30.0 - f.arcsinh(x)), x))", (-math.inf, math.inf)),
    Case("named", "non_decreasing", "by_type(lambda x: -x, lambda x: 1.0 * x)"),
    Case("named", "non_decreasing", "attempt(lambda x: x > 0.3, lambda x: x - 0.001, lambda x: 1.0 * x)"),
    Case("named", "convex_primitive",
         "own(lambda x: x - 0.01 * f.tanh(200.0 * x), remainder=lambda x, u, xh=None: -u)"),
    Case("named", "largest_gamma", "AbsPower(1.0, 2.307939699183792).affine(1.73, -0.22, 0.86)", (-math.inf, math.inf)),
    Case("named", "odd", "parse('(sigmoid(z)/sinh(z))*abs(pi*z)')"),
    Case("named", "flat", "parse('z/5.39e+11*5.39e+11-z')"),
    *(Case("named", "non_decreasing", f"parse({text!r})") for text in (
        "huber(z + z * -z,log(power(z,0)))", "clip(1-z,0,1-exp(0*z))", "-2.184e-160*(2.184e-160*sinh(z))",
        "max(z,-2.93)-1.9670674182948014e-12*exp(-((z+2.93)*956180209774.26929)^2)", "2/ln(7.25/z)",
        "1.57e+60*(max(z,2.13)-1.1192611969653854e-13*tanh((z-2.13)*145388140695.29376))",
        "9.52e-104*(z+tanh(z)+where(abs((z-2.176300960066202)*0.80532006644699106)<1,0.053024246892578938,0))",
        "cos(1e300-0.1)*sinh(z-10)", "cos(153^30-5.5300000000000004e-06)*sinh(z+6.25)", "(-1)^(153^30)*z",
        "(sqrt(2)-1.4142135623730951)*sinh(z)", "sqrt(2)*z-1.4142135623730951*z", "(e+z)^0.5",
        "sign(sqrt(2)-1.4142135623730951)*z", "max(z,sqrt(2)*z-1.4142135623730951*z+0.5)",
        "3/(10^0.5-z)*arctan2(z,signedlog(z))", "z^3*exp(-745.2)-5e-324*z^3", "(-(2e-3*0.1+z))^0.5",
    )),
    *(Case("named", "monotone_probability", f"CompositeSoftmax(parse({text!r}), check=False)") for text in (
        "log(logit(huber(z,z)))", "square(z)-1e-300", "where(z==0,-1,1+z^2)",
        "where(sqrt(2)>=1.4142135623730951,1,-1)*z",
    )),
    Case("named", "convex", "parse('where(z==2,5,z)')", places=(2.0,)),
    Case("named", "convex", "parse('z-1e-9*tanh(1e12*(z-1))', lower=False).affine(3.0, 0.3, 0.7)",
         places=(0.3 + 1.0 / 3.0,)),
    Case("named", "flat", "parse('|sinh(-z)+arctan2(3,z)+10|')"),
    Case("named", "odd", "parse('z+6.5799999999999994e-08*cos(49.3*z)', lower=False)"),
    Case("named", "odd", "parse('|expm1(z)-z-.5|*2^(z+pi)+where(1e5==square(z),z,z-1e300)', lower=False)"),
)  # fmt: skip
#: one that takes long: each divergence is an integral over many waves
QUICK_WAVES = Case("named", "convex_primitive", "parse('9*z-3e-6*cos(1e9*z)')")

#: a family and how often it is asked for
FAMILIES: dict[Callable[[Rng], Case], float] = {
    rounded_jump: 4.0,
    division_near_zero: 3.0,
    piecewise_inside: 2.0,
    cancellation: 4.0,
    users_class: 3.0,
    false_witness: 2.0,
    threshold: 0.4,
    spike: 3.0,
    random_formula: 4.0,
}


def cases(rng: Rng) -> Iterator[Case]:
    """Endless questions of all families."""
    while True:
        (family,) = rng.choices(list(FAMILIES), list(FAMILIES.values()))
        yield family(rng)


# ---------------------------------------------------------------------------------------------------------------- check


def check(case: Case, boxes: int = BOXES) -> Outcome:
    """Ask the library and hold its answer against 60 digits."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            question = _asked(case, boxes)
        except (ValueError, TypeError, ArithmeticError) as error:  # the constructor says no
            return Outcome("refused", detail=f"{type(error).__name__}: {error}")
        try:
            answer = question()
        except ValueError as error:
            if "domain must share a part" in str(error):
                return Outcome("refused", detail=str(error))
            return Outcome("raised", "exception", traceback.format_exc())
        except Exception:
            return Outcome("raised", "exception", traceback.format_exc())
    if isinstance(answer, Enclosure):
        return _judged_enclosure(case, answer)
    return _judged(case, answer)


def _asked(case: Case, boxes: int) -> Callable[[], Any]:
    effort = certify.Effort(boxes=boxes)
    if case.question == "smallest_c":
        return lambda: certify.smallest_c(*eval(case.source))
    curve, ask = library_curve(case.source), getattr(certify, case.question)
    if case.question == "odd":
        return lambda: ask(curve)
    if case.question in ("flat", "monotone_probability", "largest_gamma"):
        return lambda: ask(curve, case.domain)
    return lambda: ask(curve, case.domain, effort=effort)


_IN_SOURCE = re.compile(r"(?<![\w.])(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)")


def _places(case: Case) -> tuple[float, ...]:
    """Where to look closely: the places of the case, then all numbers in its source."""
    numbers = [float(text) for text in _IN_SOURCE.findall(case.source)]
    return tuple(dict.fromkeys((*case.places, 0.0, *(way * x for x in numbers for way in (1.0, -1.0)))))


def _judged(case: Case, answer: Certificate) -> Outcome:
    verdict = type(answer).__name__.lower()
    if verdict == "undecided":
        return Outcome(verdict, detail=str(answer))
    try:
        curve = exact_curve(case.source)
        if isinstance(answer, Proved):
            contrary = _contrary(case, curve, answer)
            if contrary:
                return Outcome(verdict, "false proof", f"{answer} But {contrary}")
            return Outcome(verdict, *_unverified(answer))
        assert isinstance(answer, Refuted)
        problem = _doubt(case, curve, answer)
    except Exception:
        return Outcome(verdict, "oracle", traceback.format_exc())
    return Outcome(verdict, "false witness" if problem else "", f"{answer} But {problem}" if problem else "")


def _unverified(answer: Certificate) -> tuple[str, str]:
    """A proof that carries what it takes to check it must pass that check."""
    verify = getattr(answer, "verify", None)
    if verify is None:
        return "", ""
    try:
        return ("", "") if verify() else ("unverified", f"{answer} It does not verify.")
    except Exception:
        return "unverified", traceback.format_exc()


def _pair(a: Any, b: Any) -> str:
    with ctx.workprec(exact.PRECISIONS[-1]):
        apart = (b - a).str(3, radius=False)
    return f"60 digits say otherwise at {a.str(20, radius=False)} and {apart} beside it"


def _contrary(case: Case, curve: exact.ExactCurve, answer: Certificate) -> str:
    """What contradicts a proof, in words; empty if nothing is found."""
    places, domain = _places(case), answer.domain
    if case.question == "odd":
        found = oracle.find_asymmetry(curve, domain, 0.0, places)
    elif case.question == "flat":
        found = oracle.find_difference(curve, domain, places)
    elif case.question == "monotone_probability":
        found = oracle.find_both_signs(curve, domain, places)
        if found and not (oracle.has_sign(curve, found[0], -1) and oracle.has_sign(curve, found[1], 1)):
            found = None
    else:
        found = oracle.find_fall(curve, domain, places)
        if found and case.question != "non_decreasing" and not oracle.falls_beside(curve, *found):
            found = None
        of_primitive = case.question == "convex_primitive" or "CompositeSoftmax" in case.source
        if not found and of_primitive and curve.primitive is not None:
            found = oracle.find_dent(curve.primitive, domain, places)
    return _pair(*found) if found else ""


def _doubt(case: Case, curve: exact.ExactCurve, answer: Refuted) -> str:
    """What is wrong with a witness, in words; empty if it stands up to 60 digits."""
    witness, domain = answer.witness, answer.domain
    text, points = witness.text, witness.scores
    if case.question == "odd":
        return _doubt_of_asymmetry(case, curve, answer)
    if text.startswith(("D_Q(", "L(")):
        return _doubt_of_divergence(case, curve, answer)
    values = oracle.shown_at(curve, points)
    if values is None:
        return "there is no value at one of the scores" if _has_no_value(curve, answer) else ""
    if not all(oracle.holds(domain, exact.precisely(float(z))) for z in points):
        return "a score lies outside of the domain"
    if len(points) == 1:
        return "" if oracle.falls_about(curve, points[0], domain) else "no fall is found about that score"
    a, b = (exact.precisely(float(z)) for z in points)
    if case.question == "flat":
        holds = bool(values[0] < values[1])
    elif case.question == "monotone_probability":
        holds = oracle.has_sign(curve, a, -1) and oracle.has_sign(curve, b, 1)
    else:
        holds = oracle.falls(curve, a, b)
        if case.question != "non_decreasing":
            holds = holds and oracle.falls_beside(curve, a, b)
    if not holds and all(map(oracle.is_known, values)):
        return f"the values are {values[0].str(25, radius=False)} and {values[1].str(25, radius=False)}"
    return oracle.printed_wrongly(text, values)


def _has_no_value(curve: exact.ExactCurve, answer: Refuted) -> bool:
    """Whether a curve has no value at a score of a witness: next to it there is none either, or it was infinite."""
    if re.search(r"inf|nan", answer.witness.text):
        return True
    points = [exact.precisely(float(z)) for z in answer.witness.scores]
    return any(exact.value_at(curve, t) is None and not oracle.has_values_beside(curve, t) for t in points)


def _doubt_of_divergence(case: Case, curve: exact.ExactCurve, answer: Refuted) -> str:
    s, s_hat = answer.witness.scores
    # a user's Q need not belong to q: what is said may be about either
    wanted = [curve] if curve.primitive is None else [curve, exact.ExactCurve(curve)]
    problems = []
    for one in wanted:
        value = oracle.divergence(one, s, s_hat, _places(case))
        if value is None:
            return ""  # it cannot be integrated: nothing is known
        problems.append(
            f"it is {value.str(12, radius=False)}"
            if not value < 0
            else oracle.printed_wrongly(answer.witness.text, [value])
        )
    return "" if not all(problems) else problems[0]


def _doubt_of_asymmetry(case: Case, curve: exact.ExactCurve, answer: Refuted) -> str:
    s, s_hat = answer.witness.scores
    # a dip beside a place must not be missed
    places = [0.0, *_places(case)]
    around = [place + way * 10.0**-k for place in places for way in (1.0, -1.0) for k in (2, 4, 5, 6)]
    values = [oracle.divergence(curve, way * s, way * s_hat, [*places, *around]) for way in (1.0, -1.0)]
    if None in values:
        return ""
    # integrals may be too coarse to tell the values apart
    if not values[0] != values[1] and not oracle.find_asymmetry(curve, answer.domain, 0.0, _places(case)):
        return f"both are {values[0].str(12, radius=False)}"
    return oracle.printed_wrongly(answer.witness.text, values)


# ----------------------------------------------------------------------------------------------------------- enclosures


def _judged_enclosure(case: Case, answer: Enclosure) -> Outcome:
    ends = ((answer.low, answer.at_low), (answer.high, answer.at_high))
    verdict = "proved" if answer.low > 0.0 else "undecided"
    problems = []
    holds, fails = (
        (answer.at_low, answer.at_high) if case.question == "largest_gamma" else (answer.at_high, answer.at_low)
    )
    if 0.0 < answer.high - answer.low and (isinstance(holds, Refuted) or isinstance(fails, Proved)):
        problems.append(("unverified", f"{answer}: an end comes with the contrary, {holds} {fails}"))
    for end, certificate in ends:
        if not (isinstance(certificate, (Proved, Refuted)) and 0.0 < end < math.inf):
            continue
        falls = _composite_falls(case, end)
        if falls is not None and falls is isinstance(certificate, Proved):
            kind = "false proof" if falls else "false refutation"
            problems.append((kind, f"{answer}: at {end!r} {certificate}"))
    if answer.low == answer.high == math.inf and isinstance(answer.at_low, Proved) and _composite_falls(case, 1e6):
        problems.append(("false proof", f"{answer}: it falls with gamma = 1e6"))
    return Outcome(verdict, *problems[0]) if problems else Outcome(verdict)


def _composite_falls(case: Case, number: float) -> bool | None:
    """Whether the composite link falls somewhere: the sign of the least ``q' + (1 - p) q^2 / gamma``, or unknown."""
    if case.question == "smallest_c":
        d, gamma = eval(case.source)
        curve, (kind, d, c), (alpha, beta, gain) = None, ("AbsPower", d, number), (1.0, 0.0, 1.0)
    else:
        gamma = number
        curve = library_curve(case.source)
        inner = curve.curve
        alpha, beta, gain = curve.alpha, curve.beta, curve.gain
        kind, d, c = ("Cosh", 0.0, 0.0) if isinstance(inner, sm.Cosh) else ("AbsPower", inner.d, inner.c)
    domain = (-math.inf, math.inf) if case.question == "smallest_c" else case.domain
    with ctx.workprec(400):
        ratio = arb(gamma) * arb(alpha) / arb(gain)
        low, high = (arb(alpha) * (arb(end) - arb(beta)) if math.isfinite(end) else None for end in domain)

        def bracket(t: Any) -> Any:  # at x = -t < 0
            if kind == "Cosh":
                q, Q, slope = t.cosh(), -t.sinh(), -t.sinh()
            else:
                power = t ** (arb(d) - 1)
                q, Q, slope = power * t + arb(c), -(power * t * t / (arb(d) + 1) + arb(c) * t), -arb(d) * power
            return slope + q * q / ratio / (1 + (Q / ratio).exp())

        least = arb(0) if high is None or high > 0 else -high
        most = arb(60) if low is None else (-low).min(arb(60))
        if not least < most:
            return None
        return _is_somewhere_negative(bracket, least, most)


def _is_somewhere_negative(function: Callable[[Any], Any], low: Any, high: Any) -> bool | None:
    """By a grid, refined about its three smallest values; None if the least value is 0 to 100 digits."""
    grid = [low + (high - low) * arb(2) ** -(arb(k) / 4) for k in range(240)]
    grid = sorted((t.mid() for t in [*grid, *(low + (high - low) * k / 200 for k in range(1, 201))]), key=float)
    values = [function(t) for t in grid]
    if any(value < 0 for value in values):
        return True
    for i in sorted(range(len(grid)), key=lambda i: float(values[i].mid()))[:3]:
        a, b = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        for _ in range(90):  # thirds: the function has one valley there
            third = (b - a) / 3
            left, right = (a + third).mid(), (b - third).mid()
            here = function(left), function(right)
            if here[0] < 0 or here[1] < 0:
                return True
            a, b = (a, right) if here[0].mid() < here[1].mid() else (left, b)
    return False


# -------------------------------------------------------------------------------------------------------------- running

FAULTS = ("false proof", "false refutation", "false witness", "unverified", "exception", "oracle")


@dataclass
class Tally:
    """What became of the cases of a family."""

    verdicts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, Case, str]] = field(default_factory=list)
    seconds: float = 0.0
    slowest: tuple[float, Case | None] = (0.0, None)

    def add(self, case: Case, outcome: Outcome, seconds: float) -> None:
        self.verdicts[outcome.verdict] += 1
        self.seconds += seconds
        if seconds > self.slowest[0]:
            self.slowest = seconds, case
        if outcome.fault:
            self.faults[outcome.fault] += 1
            self.examples.append((outcome.fault, case, outcome.detail.strip().splitlines()[-1]))


def report(tallies: dict[str, Tally], examples: int = 3) -> str:
    """A table of all families, and the first failures of each."""
    columns = ("proved", "refuted", "undecided", "refused")
    lines = [
        f"{'family':14}{'cases':>8}"
        + "".join(f"{name:>11}" for name in columns)
        + "".join(f"{name:>18}" for name in FAULTS)
    ]
    for name, tally in sorted(tallies.items()):
        counts = [tally.verdicts[column] for column in columns]
        lines.append(
            f"{name:14}{tally.verdicts.total():8}"
            + "".join(f"{count:11}" for count in counts)
            + "".join(f"{tally.faults[fault]:18}" for fault in FAULTS)
            + f"   {tally.seconds:.0f} s"
        )
    for name, tally in sorted(tallies.items()):
        for fault in FAULTS:
            for _, case, detail in [found for found in tally.examples if found[0] == fault][:examples]:
                lines += [f"{name}, {fault}: {case!r}", f"    {detail[:400]}"]
    seconds, case = max((tally.slowest for tally in tallies.values()), key=lambda found: found[0], default=(0.0, None))
    return "\n".join([*lines, f"slowest: {seconds:.1f} s, {case!r}"])


Result = tuple[Case, Outcome, float]


def tried(source: Iterable[Case], boxes: int = BOXES) -> Iterator[Result]:
    """Cases, what became of each, and how long it took."""
    for case in source:
        start = time.process_time()
        outcome = check(case, boxes)
        yield case, outcome, time.process_time() - start


def tallied(results: Iterable[Result]) -> dict[str, Tally]:
    """Results by family."""
    tallies: dict[str, Tally] = {}
    for case, outcome, seconds in results:
        tallies.setdefault(case.family, Tally()).add(case, outcome, seconds)
    return tallies


def _work(seed: int, first: tuple[Case, ...], count: int, boxes: int, results: Any) -> None:
    for result in tried(itertools.chain(first, itertools.islice(cases(random.Random(seed)), count)), boxes):
        results.put(result)
    results.put(None)


def _collected(results: Any, processes: Sequence[Any]) -> Iterator[Result]:
    """The results of all workers as they come."""
    working, done, start = len(processes), 0, time.perf_counter()
    heard = start
    while working:
        try:
            result = results.get(timeout=5.0)
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                raise RuntimeError("fuzzing: a worker ended early") from None
            if time.perf_counter() - heard > PATIENCE:
                raise RuntimeError(f"fuzzing: no case has ended within {PATIENCE:g} s") from None
            continue
        heard = time.perf_counter()
        if result is None:
            working -= 1
            continue
        yield result
        done += 1
        if done % 1000 == 0:
            print(f"{done:,} cases, {time.perf_counter() - start:.0f} s", flush=True)


def run(count: int, seed: int, workers: int = 2, boxes: int = BOXES) -> int:
    """The named cases and random ones, in several processes; the number of failures."""
    context, start = multiprocessing.get_context("spawn"), time.perf_counter()
    results = context.Queue()
    processes = []
    for i in range(workers):
        share, first = count // workers + (i < count % workers), (*NAMED, QUICK_WAVES) if i == 0 else ()
        process = context.Process(target=_work, args=(seed + i, first, share, boxes, results), daemon=True)
        process.start()
        processes.append(process)
    tallies = tallied(_collected(results, processes))
    print(report(tallies))
    failures, done = (
        sum(getattr(tally, name).total() for tally in tallies.values()) for name in ("faults", "verdicts")
    )
    seconds = time.perf_counter() - start
    print(f"{done:,} cases, --seed {seed}, {done / seconds:.1f} a second: {failures} failures")
    return failures
