"""The golden rows as questions to selmatch: what to build, what to call it with, what must come out, how closely.

One :class:`Question` holds all rows that one object answers in one call. Expected values come from the files; what the
rule in ``golden/README.md`` needs beyond them (the logits y, the scales, the inverse of a rounded number) is computed
here with mpmath from the generator's own definitions.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from golden import generate
from mpmath import mp, mpf

import selmatch as sm

DEFAULT_FOLDER = Path(__file__).parent / "golden"
FOLDER = Path(os.environ.get("SELMATCH_GOLDEN", DEFAULT_FOLDER))
DTYPES = ("float64", "float32")
DIGITS = 60
LEFT_OUT = "1e999"  # No dtype holds it.

CURVES: dict[str, Callable[[dict], sm.Curve]] = {
    "identity": lambda p: sm.Identity(),
    "linear": lambda p: sm.Identity(),
    "constant": lambda p: sm.Constant(1.0),
    "sigmoid": lambda p: sm.Sigmoid(),
    "tanh": lambda p: sm.Tanh(),
    "arctan": lambda p: sm.Arctan(),
    "arcsinh": lambda p: sm.Arcsinh(),
    "sin": lambda p: sm.Sin(),
    "signed_power": lambda p: sm.SignedPower(p["d"]),
    "signed_power_plus_c": lambda p: sm.AbsPower(p["d"], p["c"]),
    "signed_log": lambda p: sm.SignedLog(),
    "sinh": lambda p: sm.Sinh(),
    "cosh": lambda p: sm.Cosh(),
    "logit": lambda p: sm.Logit(),
    "arcsin": lambda p: sm.Arcsin(),
    "arctanh": lambda p: sm.Arctanh(),
    "tan": lambda p: sm.Tan(),
    "exp": lambda p: sm.Exp(),
    "neg_exp": lambda p: sm.AntiExp(),
    "neg_log1m": lambda p: sm.NegLog1m(),
    "power": lambda p: sm.Power(p["d"]),
    "log": lambda p: sm.Log(),
    "smelu": lambda p: sm.SmeLU(c=p["c"]),
    "huber": lambda p: sm.Huber(c=p["delta"]),
    "step": lambda p: sm.Step(),
    "sign": lambda p: sm.Sign(),
    "staircase": lambda p: sm.Staircase(tuple(p["thresholds"]), tuple(p["jumps"]), base=p["base"]),
    "capped_sinh": lambda p: sm.Sinh().capped(-p["cap"], p["cap"]),
    "piecewise_polynomial": lambda p: sm.Piecewise(
        tuple(p["knots"]),
        tuple(sm.Polynomial(tuple(c), origin=k) for c, k in zip(p["coeffs"], p["knots"][:-1], strict=True)),
    ),
}
NON_CONVEX = frozenset({"cosh", "signed_power_plus_c"})
WIDER_FLOAT32 = frozenset({"tan", "signed_power"})


# ------------------------------------------------------------------------------------------------------- questions
class Expected:
    """Expected values: the nearest doubles, and what a double cannot say about the printed numbers."""

    def __init__(self, texts: Any) -> None:
        texts = np.asarray(texts, dtype=object)
        self.missing = texts == None  # noqa: E711 (elementwise)
        self.infinite = np.isin(texts, ["inf", "-inf"])
        self.values = np.vectorize(_double, otypes=[float])(texts)

    def below_normal(self, smallest_normal: float) -> np.ndarray:
        return (self.values != 0) & (np.abs(self.values) < smallest_normal)

    def comparable(self, smallest_normal: float, largest: float) -> np.ndarray:
        too_large = (np.abs(self.values) > largest) & ~self.infinite
        return ~(self.missing | too_large | self.below_normal(smallest_normal))


def _double(text: str | None) -> float:
    if text is None:
        return np.nan
    value = float(text)
    if value == 0 and mpf(text) != 0:
        # Only an exact zero has to come out exactly.
        return np.copysign(np.finfo(float).smallest_subnormal, value)
    return value


@dataclass(frozen=True, eq=False)
class Question:
    """Rows of one quantity that one object answers in one call; what takes many digits is found when it is needed."""

    quantity: str
    label: str
    build: Callable[[], Any]
    ask: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    texts: Any
    find_scale: Callable[[], np.ndarray] | None = None
    find_logits: Callable[[], np.ndarray] | None = None
    dtype: str | None = None
    wider_float32: bool = False
    one_row: bool = False
    parameters: tuple[float, ...] = ()

    @cached_property
    def expected(self) -> Expected:
        return Expected(self.texts() if callable(self.texts) else self.texts)

    @cached_property
    def largest_logits(self) -> np.ndarray:
        """max_k |y_k| of each row (0 where nothing is composite), shaped to go with the expected values."""
        shape = self.expected.values.shape
        rows = np.zeros(shape[0]) if self.find_logits is None else self.find_logits()
        return rows.reshape((shape[0],) + (1,) * (len(shape) - 1))

    @cached_property
    def scale(self) -> np.ndarray:
        """What errors are relative to: the expected value, except where the rule says otherwise."""
        found = self.expected.values if self.find_scale is None else self.find_scale()
        return np.maximum(1.0, self.largest_logits / 10) * np.abs(found)

    @property
    def shortest(self) -> int:
        """To how many rows at least a framework that compiles for each shape should repeat them."""
        return 1 if self.one_row else 128 if self.inputs[0].ndim == 1 else 8

    def tolerance(self, dtype: str) -> float:
        return 1e-13 if dtype == "float64" else 1e-5 if self.wider_float32 else 3e-6

    def exact_rows(self, is_exact: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Rows all of whose inputs are exact in a dtype: scores, and parameters that make x of them."""
        exact = [is_exact(values).reshape(len(values), -1).all(axis=1) for values in self.inputs]
        return np.logical_and.reduce(exact) & bool(is_exact(numbers(self.parameters)).all())


@cache
def read(name: str) -> dict:
    """A file of the folder, or of the default one where a folder has none of that name yet."""
    path = FOLDER / f"{name}.json"
    return json.loads((path if path.exists() else DEFAULT_FOLDER / path.name).read_text())


def column(rows: list, index: int) -> list:
    return [row[index] for row in rows]


def numbers(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float)


def name_case(name: str, case: dict) -> str:
    shown = [f"{key}={case[key]}" for key in ("alpha", "beta", "amp", "gamma", "rho") if key in case]
    return " ".join([f"{name}({', '.join(f'{k}={v}' for k, v in case['params'].items())})", *shown])


def parameters_of(case: dict) -> tuple[float, ...]:
    """The numbers of a curve; gamma and rho are none of them: what their rounding does, max(1, |y|/10) covers."""
    inside = np.concatenate(
        [np.ravel(numbers(row)) for v in case["params"].values() for row in rows_of_numbers(v)] or [[]]
    )
    return (*(case[name] for name in ("alpha", "beta", "amp") if name in case), *inside.tolist())


def rows_of_numbers(value: Any) -> list:
    """A number, a list of numbers or a ragged list of lists, as a list of rows."""
    return value if isinstance(value, list) and value and isinstance(value[0], list) else [value]


# ---------------------------------------------------------------------------------------------------- scalar links
def link_of(case: dict) -> sm.Curve:
    return CURVES[case["link"]](case["params"]).affine(alpha=case["alpha"], beta=case["beta"])


def loss_of(potential: Any, check: bool = True) -> Any:
    return sm.MatchingLoss(potential, check=check)


def value(loss: Any, s_hat: Any, s: Any) -> Any:
    return loss(s_hat, s, reduction="none")


def gradient(loss: Any, s_hat: Any, s: Any) -> Any:
    return loss.grad(s_hat, s, reduction="none")


def link_questions(case: dict) -> Iterator[Question]:
    """Questions about one case of scalar_links or piecewise_links."""
    common = {
        "label": name_case(case["link"], case),
        "wider_float32": case["link"] in WIDER_FLOAT32,
        "parameters": parameters_of(case),
    }
    points, losses = case["points"], case["losses"]
    z, s, s_hat = numbers(column(points, 0)), numbers(column(losses, 0)), numbers(column(losses, 1))
    origin = np.full_like(z, case["z0"])

    def curve() -> sm.Curve:
        return link_of(case)

    def loss() -> Any:
        return loss_of(link_of(case))

    def increment(curve: Any, z0: Any, z: Any) -> Any:
        return curve.increment(z0, z - z0, z)

    yield Question("link", build=curve, ask=lambda c, z: c(z), inputs=(z,), texts=column(points, 1), **common)
    yield Question("slope", build=curve, ask=lambda c, z: c.slope(z), inputs=(z,), texts=column(points, 2), **common)
    yield Question(
        "primitive difference", build=curve, ask=increment, inputs=(origin, z), texts=column(points, 3), **common
    )
    for dtype in DTYPES:
        y = round_to(dtype, column(points, 1))
        texts = cache(partial(exact_inverses, case, y, np.finfo(dtype).smallest_normal))
        yield Question(
            "inverse",
            build=curve,
            ask=lambda c, y: c.inverse(y),
            inputs=(y,),
            texts=texts,
            find_scale=partial(inverse_scale, case["beta"], texts),
            dtype=dtype,
            **common,
        )
    yield Question("loss", build=loss, ask=value, inputs=(s_hat, s), texts=column(losses, 2), **common)
    yield Question("gradient", build=loss, ask=gradient, inputs=(s_hat, s), texts=column(losses, 3), **common)


def _odd(f: Callable[[mpf], mpf]) -> Callable[[mpf], mpf]:
    return lambda y: generate.sgn(y) * f(abs(y))


def inverse_shape(name: str, p: dict) -> tuple[Callable[[mpf], mpf], mpf, mpf] | None:
    """(g^-1, lowest, highest): the inverse of a shape strictly between these two values; None: it has no inverse."""
    inf, one, right_angle = mp.inf, mpf(1), mp.pi / 2
    if name in ("step", "sign", "staircase"):
        return None
    if name == "piecewise_polynomial":
        g, knots = generate.shape(name, p)[0], p["knots"]
        return lambda y: generate.bisect(lambda x: g(x) - y, knots[0], knots[-1]), g(mpf(knots[0])), g(mpf(knots[-1]))
    return {
        "identity": lambda: (lambda y: y, -inf, inf),
        "sigmoid": lambda: (lambda y: mp.log(y / (1 - y)), mpf(0), one),
        "tanh": lambda: (mp.atanh, -one, one),
        "arctan": lambda: (mp.tan, -right_angle, right_angle),
        "arcsinh": lambda: (mp.sinh, -inf, inf),
        "sin": lambda: (mp.asin, -one, one),
        "signed_power": lambda: (_odd(lambda y: y ** (1 / mpf(p["d"]))), -inf, inf),
        "signed_log": lambda: (_odd(mp.expm1), -inf, inf),
        "sinh": lambda: (_odd(mp.asinh), -inf, inf),
        "logit": lambda: (generate.sigma, -inf, inf),
        "arcsin": lambda: (mp.sin, -right_angle, right_angle),
        "arctanh": lambda: (mp.tanh, -inf, inf),
        "tan": lambda: (mp.atan, -inf, inf),
        "exp": lambda: (mp.log, mpf(0), inf),
        "neg_exp": lambda: (lambda y: -mp.log(-y), -inf, mpf(0)),
        "neg_log1m": lambda: (lambda y: -mp.expm1(-y), -inf, inf),
        # 0 is the image of 0 and of nothing else, so it may be asked for.
        "power": lambda: (lambda y: y ** (1 / mpf(p["d"])), -one, inf),
        "log": lambda: (mp.exp, -inf, inf),
        "smelu": lambda: (lambda y: mpf(p["c"]) * (2 * y - 1), mpf(0), one),
        "huber": lambda: (lambda y: y, -mpf(p["delta"]), mpf(p["delta"])),
        "capped_sinh": lambda: (_odd(mp.asinh), -mp.sinh(mpf(p["cap"])), mp.sinh(mpf(p["cap"]))),
    }[name]()


def round_to(dtype: str, texts: list[str]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return numbers(texts).astype(dtype).astype(float)


def exact_inverses(case: dict, rounded: np.ndarray, smallest_normal: float) -> list[str | None]:
    """The exact inverses of the golden heights after rounding; None where h is the end of its range, or steps."""
    heights = column(case["points"], 1)
    with mp.workdps(DIGITS):
        shape = inverse_shape(case["link"], case["params"])
        if shape is None:
            return [None] * len(heights)
        inverse, low, high = shape
        ends = (generate.S(low), generate.S(high))

        def answer(height: str, y: mpf) -> str | None:
            if height in ends:
                return None
            if not low < y < high or 0 < abs(mpf(height)) < smallest_normal:
                return LEFT_OUT
            return mp.nstr(mpf(case["beta"]) + inverse(y) / mpf(case["alpha"]), 25)

        return [answer(height, mpf(y)) for height, y in zip(heights, rounded, strict=True)]


def inverse_scale(beta: float, texts: Callable[[], list[str | None]]) -> np.ndarray:
    """A score is the sum of beta and x / alpha; where they cancel, their rounding remains."""
    return abs(beta) + np.abs(Expected(texts()).values - beta)


# ------------------------------------------------------------------------------------------------------ composites
@dataclass(frozen=True, eq=False)
class Exact:
    """Composite Sigmoid (``rho`` None: the second class has the logit 0) or Softmax at one pair of points, exactly."""

    case: dict
    s: list[float]
    s_hat: list[float]

    @cached_property
    def scaling(self) -> generate.Scal:
        case = self.case
        return generate.Scal(case["scaling"], case["params"], case["alpha"], case["beta"], case["amp"])

    def logits(self, scores: list[float]) -> list[mpf]:
        gamma = mpf(self.case["gamma"])
        rho = self.case.get("rho")
        y = [self.scaling.Q(mpf(z)) / gamma for z in scores]
        return [*y, mpf(0)] if rho is None else [v + mp.log(mpf(r)) / gamma for v, r in zip(y, rho, strict=True)]

    def log_probabilities(self, scores: list[float]) -> list[mpf]:
        y = self.logits(scores)
        top = max(y)
        total = top + mp.log(mp.fsum(mp.exp(v - top) for v in y))
        return [v - total for v in y]

    def links(self, scores: list[float], probabilities_at: list[float] | None = None) -> list[mpf]:
        log_p = self.log_probabilities(probabilities_at or scores)
        return [self.scaling.q(mpf(z)) * mp.exp(v) for z, v in zip(scores, log_p, strict=False)]

    def enough_digits(self) -> Any:
        """1 - p loses as many digits as p is close to 1."""
        y = self.logits(self.s) + self.logits(self.s_hat)
        return mp.workdps(DIGITS + int(min((max(y) - min(y)) * mpf("0.87"), 2000)))

    @cached_property
    def largest_primitive(self) -> float:
        """|Q|, which the exponential makes a relative error of."""
        with mp.workdps(DIGITS):
            return float(max(abs(self.scaling.Q(mpf(z))) for z in self.s + self.s_hat))

    @cached_property
    def largest_logit(self) -> float:
        with mp.workdps(DIGITS):
            return float(max(map(abs, self.logits(self.s) + self.logits(self.s_hat))))

    def gradient_scale(self) -> list[float]:
        """|q p(s_hat)| + |q p(s)|, each q at its own point."""
        with mp.workdps(DIGITS):
            pairs = zip(self.links(self.s), self.links(self.s_hat), strict=True)
            return [float(abs(a) + abs(b)) for a, b in pairs]

    def cross_entropy_gradient_scale(self) -> list[float]:
        """The same for q(s_hat) (p(s_hat) - p(s))."""
        with mp.workdps(DIGITS):
            pairs = zip(self.links(self.s_hat, self.s), self.links(self.s_hat), strict=True)
            return [float(abs(a) + abs(b)) for a, b in pairs]

    def loss_scale(self) -> float:
        """gamma KL + |sum p D_Q|: the two parts of the loss, which may have opposite signs when Q is not convex."""
        with self.enough_digits():
            log_p, log_p_hat = self.log_probabilities(self.s), self.log_probabilities(self.s_hat)
            ranking = mp.fsum(mp.exp(a) * (a - b) for a, b in zip(log_p, log_p_hat, strict=True))
            region = mp.fsum(mp.exp(a) * d for a, d in zip(log_p, self.region_divergences(), strict=False))
            return float(mpf(self.case["gamma"]) * ranking + abs(region))

    def cross_entropy(self, text: str) -> str:
        """gamma times the cross-entropy of p(s) and p(s_hat), whose printed value may come from too few digits.

        The generator forms 1 - p(s) of the composite Sigmoid with 50 digits; of these, |y(s)| > 50 leaves under 30.
        """
        if "rho" in self.case or self.largest_logit <= 50:
            return text
        with self.enough_digits():
            log_p, log_p_hat = self.log_probabilities(self.s), self.log_probabilities(self.s_hat)
            terms = (-mp.exp(a) * b for a, b in zip(log_p, log_p_hat, strict=True))
            return generate.S(mpf(self.case["gamma"]) * mp.fsum(terms))

    def region_divergences(self) -> list[mpf]:
        q, Q = self.scaling.q, self.scaling.Q
        pairs = [(mpf(a), mpf(b)) for a, b in zip(self.s, self.s_hat, strict=True)]
        return [Q(b) - Q(a) - (b - a) * q(a) for a, b in pairs]


def largest_logits(rows: list[Exact]) -> Callable[[], np.ndarray]:
    return lambda: numbers([row.largest_logit for row in rows])


def scaling_of(case: dict) -> sm.Curve:
    curve = CURVES[case["scaling"]](case["params"])
    return curve.affine(alpha=case["alpha"], beta=case["beta"], gain=case["amp"] * case["alpha"])


def sigmoid_of(case: dict) -> sm.CompositeSigmoid:
    return sm.CompositeSigmoid(scaling_of(case), gamma=case["gamma"], check=case["scaling"] not in NON_CONVEX)


def softmax_of(case: dict) -> sm.CompositeSoftmax:
    rho = case.get("rho")
    return sm.CompositeSoftmax(
        scaling_of(case),
        gamma=case["gamma"],
        rho=None if rho is None or set(rho) == {1.0} else tuple(rho),
        check=case["scaling"] not in NON_CONVEX,
    )


def pair_questions(case: dict, build: Callable[[dict], Any], exact: list[Exact], columns: dict) -> Iterator[Question]:
    """Questions about loss and gradients, for the composite Sigmoid and the composite Softmax alike."""
    convex = case["scaling"] not in NON_CONVEX
    flat = "rho" not in case
    s, s_hat = numbers([e.s for e in exact]), numbers([e.s_hat for e in exact])
    if flat:
        s, s_hat = s[:, 0], s_hat[:, 0]
    common = {
        "label": name_case(case["scaling"], case),
        "parameters": parameters_of(case),
        "inputs": (s_hat, s),
        "find_logits": largest_logits(exact),
    }

    def loss() -> Any:
        return loss_of(build(case), check=convex)

    def cross_entropy() -> Any:
        return sm.CrossEntropy(build(case))

    def rows_of(find: Callable[[Exact], Any]) -> Callable[[], np.ndarray]:
        return lambda: numbers([find(e)[0] if flat else find(e) for e in exact])

    yield Question(
        "loss",
        build=loss,
        ask=value,
        texts=columns["loss"],
        find_scale=None if convex else lambda: numbers([e.loss_scale() for e in exact]),
        **common,
    )
    yield Question(
        "gradient", build=loss, ask=gradient, texts=columns["grad"], find_scale=rows_of(Exact.gradient_scale), **common
    )
    yield Question(
        "cross-entropy",
        build=cross_entropy,
        ask=value,
        texts=lambda: [e.cross_entropy(text) for e, text in zip(exact, columns["ce_times_gamma"], strict=True)],
        **common,
    )
    yield Question(
        "cross-entropy gradient",
        build=cross_entropy,
        ask=gradient,
        texts=columns["ce_times_gamma_grad"],
        find_scale=rows_of(Exact.cross_entropy_gradient_scale),
        **common,
    )


def composite_sigmoid_questions(case: dict) -> Iterator[Question]:
    columns = read("composite_sigmoid")["columns"]
    points = {name: column(case["points"], i) for i, name in enumerate(columns["points"])}
    losses = {name: column(case["losses"], i) for i, name in enumerate(columns["losses"])}
    z = points["z"]
    common = {
        "label": name_case(case["scaling"], case),
        "parameters": parameters_of(case),
        "inputs": (numbers(z),),
    }
    inherited = {"find_logits": largest_logits([Exact(case, [v], [v]) for v in z])}

    def scaling() -> sm.Curve:
        return scaling_of(case)

    def potential() -> sm.CompositeSigmoid:
        return sigmoid_of(case)

    yield Question("scaling", build=scaling, ask=lambda q, z: q(z), texts=points["q"], **common)
    for name, ask, texts in (
        ("probability", lambda c, z: c.prob(z), points["p"]),
        ("potential", lambda c, z: c.primitive(z), points["H"]),
        ("link", lambda c, z: c(z), points["h"]),
        ("slope", lambda c, z: c.slope(z), points["h_prime"]),
    ):
        yield Question(name, build=potential, ask=ask, texts=texts, **common, **inherited)
    pairs = [Exact(case, [s], [s_hat]) for s, s_hat in zip(losses["s"], losses["s_hat"], strict=True)]
    yield from pair_questions(case, sigmoid_of, pairs, losses)


def softmax_questions(cases: list[dict]) -> Iterator[Question]:
    """Questions to one composite Softmax; each case is one row."""
    first = cases[0]
    exact = [Exact(case, case["s"], case["s_hat"]) for case in cases]
    columns = {name: [case[name] for case in cases] for name in first}
    s, s_hat = numbers(columns["s"]), numbers(columns["s_hat"])
    named = {"label": name_case(first["scaling"], first), "parameters": parameters_of(first)}
    common = {**named, "build": lambda: softmax_of(first), "find_logits": largest_logits(exact)}
    for suffix, scores in (("s", s), ("s_hat", s_hat)):
        for quantity, ask, name in (
            ("probability", lambda c, z: c.prob(z), "p"),
            ("link", lambda c, z: c.link(z), "h"),
            ("potential", lambda c, z: c.primitive(z), "H"),
        ):
            yield Question(quantity, ask=ask, inputs=(scores,), texts=columns[f"{name}_{suffix}"], **common)
    yield from pair_questions(first, softmax_of, exact, columns)
    if "ce_without_log_rho" in first:
        yield Question(
            "loss without the conjugate",
            build=lambda: loss_of(softmax_of(first)),
            ask=loss_without_conjugate,
            inputs=(s_hat, s, np.full(len(s), first["beta"])),
            texts=columns["ce_without_log_rho"],
            find_scale=partial(potential_scale, first["gamma"], exact),
            **named,
        )
    if "hessian_upper" in first:
        upper = np.triu_indices(s.shape[1])
        yield Question(
            "hessian",
            ask=lambda c, z: c.hessian(z)[..., upper[0], upper[1]],
            inputs=(s_hat,),
            texts=columns["hessian_upper"],
            **common,
        )
        yield Question("slope", ask=lambda c, z: c.slope(z), inputs=(s_hat,), texts=columns["Delta"], **common)


def potential_scale(gamma: float, rows: list[Exact]) -> np.ndarray:
    """The size of what H(s_hat) and the scores are made of: gamma times the largest logit."""
    return gamma * largest_logits(rows)()


def loss_without_conjugate(loss: Any, s_hat: Any, s: Any, beta: Any) -> Any:
    """H(s_hat) - sum_k (s_hat_k - beta) h_k(s)."""
    y = loss.potential.link(s)
    return loss.fenchel_young(s_hat, y, conjugate=False, reduction="none") + beta * y.sum(-1)


def same_potential(cases: list[dict]) -> list[list[dict]]:
    """Cases that differ in their scores alone, together."""
    groups: dict[str, list[dict]] = {}
    for case in cases:
        names = ("scaling", "params", "alpha", "beta", "amp", "gamma", "rho")
        key = json.dumps([*(case[name] for name in names), "hessian_upper" in case])
        groups.setdefault(key, []).append(case)
    return list(groups.values())


# --------------------------------------------------------------------------------------------------- smaller files
def decomposed_questions(case: dict) -> Iterator[Question]:
    s, s_hat = numbers([case["s"]]), numbers([case["s_hat"]])
    common = {
        "label": name_case(case["link"], case),
        "wider_float32": case["link"] in WIDER_FLOAT32,
        "parameters": parameters_of(case),
    }

    def separable() -> Any:
        return loss_of(sm.Separable(link_of(case)))

    def per_class() -> Any:
        return loss_of(link_of(case))

    pair = (s_hat, s)
    yield Question("loss", build=separable, ask=value, inputs=pair, texts=[case["loss"]], **common)
    yield Question("loss of each class", build=per_class, ask=value, inputs=pair, texts=[case["per_class"]], **common)
    yield Question("gradient", build=separable, ask=gradient, inputs=pair, texts=[case["grad"]], **common)
    yield Question(
        "slope",
        build=lambda: sm.Separable(link_of(case)),
        ask=lambda c, z: c.slope(z),
        inputs=(s_hat,),
        texts=[case["Delta"]],
        **common,
    )


def sigmoid_cross_entropy_questions(alpha: float, beta: float, rows: list) -> Iterator[Question]:
    """A Sigmoid link is the composite Sigmoid of a constant scaling with gamma = 1/alpha."""
    names = read("sigmoid_cross_entropy")["columns"]
    columns = {name: column(rows, i) for i, name in enumerate(names)}
    common = {
        "label": f"sigmoid alpha={alpha} beta={beta}",
        "parameters": (alpha, beta, 1 / alpha),
        "inputs": (numbers(columns["s_hat"]), numbers(columns["s"])),
    }
    case = {"scaling": "constant", "params": {}, "alpha": alpha, "beta": beta, "amp": 1 / alpha, "gamma": 1 / alpha}
    exact = [Exact(case, [s], [s_hat]) for s, s_hat in zip(columns["s"], columns["s_hat"], strict=True)]
    inherited = {"find_logits": largest_logits(exact)}

    def cross_entropy() -> Any:
        return sm.CrossEntropy(sigmoid_of(case))

    def composite() -> Any:
        return loss_of(sigmoid_of(case))

    def link() -> Any:
        return loss_of(sm.Sigmoid().affine(alpha=alpha, beta=beta))

    def ranking_part(loss: Any, s_hat: Any, s: Any) -> Any:
        return loss.parts(s_hat, s, reduction="none")[0]

    def cross_entropy_of_link() -> Any:
        return sm.CrossEntropy(sm.Sigmoid().affine(alpha=alpha, beta=beta))

    yield Question("cross-entropy", build=cross_entropy, ask=value, texts=columns["ce"], **common, **inherited)
    yield Question("cross-entropy of the link", build=cross_entropy_of_link, ask=value, texts=columns["ce"], **common)
    yield Question(
        "cross-entropy gradient",
        build=cross_entropy,
        ask=gradient,
        texts=columns["grad"],
        find_scale=lambda: numbers([e.cross_entropy_gradient_scale()[0] for e in exact]),
        **common,
        **inherited,
    )
    yield Question(
        "ranking part", build=composite, ask=ranking_part, texts=columns["kl_over_alpha"], **common, **inherited
    )
    yield Question("loss", build=link, ask=value, texts=columns["matching_loss"], **common)
    yield Question("gradient", build=link, ask=gradient, texts=columns["grad"], **common)


def weighted(scores: list, weights: list, length: int) -> tuple[np.ndarray, np.ndarray]:
    """One row of scores and weights; scores of weight 0 change nothing and give it a shape that JAX knows already."""
    spare = max(length - len(scores), 0)
    return numbers([scores + scores[:1] * spare]), numbers([weights + [0.0] * spare])


def minimiser(loss: Any, scores: Any, weights: Any) -> Any:
    best = loss.minimiser(scores[0], weights=weights[0])
    # NumPy's single number comes back as a Python float.
    return np.asarray([best], scores.dtype) if type(best) is float else best.reshape((1, *scores.shape[2:]))


def mean_loss_at_minimiser(loss: Any, scores: Any, weights: Any) -> Any:
    best = loss.minimiser(scores[0], weights=weights[0])
    return loss(best, scores[0], weights=weights[0], reduction="mean").reshape(1)


def minimiser_questions(
    case: dict, scores: list, weights: list, best: str, mean_loss: str | None
) -> Iterator[Question]:
    """The minimiser is a kind of mean of the scores, so its error is relative to the largest of them."""
    link = generate.Link(case["link"], case["params"], case["alpha"], case["beta"])
    highest = max(abs(link.h(s)) for s in scores)
    for dtype in DTYPES:
        common = {
            "label": f"{name_case(case['link'], case)} scores={scores} weights={weights}",
            "build": lambda: loss_of(link_of(case)),
            "inputs": weighted(scores, weights, 128),
            "wider_float32": case["link"] in WIDER_FLOAT32,
            "one_row": True,
            "dtype": dtype,
            "parameters": parameters_of(case),
        }
        largest = numbers([max(map(abs, scores))])
        overflows = highest > np.finfo(dtype).max
        texts = [LEFT_OUT if overflows else best]
        yield Question("minimiser", ask=minimiser, texts=texts, find_scale=lambda x=largest: x, **common)
        if mean_loss is not None:
            texts = [LEFT_OUT if overflows else mean_loss]
            yield Question("mean loss at the minimiser", ask=mean_loss_at_minimiser, texts=texts, **common)


def proper_questions(case: dict) -> Iterator[Question]:
    names = ("scores", "weights", "minimiser", "mean_loss_at_minimiser")
    return minimiser_questions(case, *(case[name] for name in names))


def proper_softmax_questions(case: dict) -> Iterator[Question]:
    rows = [Exact({**case, "rho": [1.0] * len(row)}, row, row) for row in case["scores"]]

    def expected_link(loss: Any, scores: Any, weights: Any) -> Any:
        links = loss.potential.link(scores[0])
        return ((links * weights[0][:, None]).sum(0) / weights[0].sum()).reshape(1, -1)

    common = {
        "label": f"{name_case(case['scaling'], case)} scores={case['scores']} weights={case['weights']}",
        "build": lambda: loss_of(softmax_of(case)),
        "inputs": weighted(case["scores"], case["weights"], 8),
        "find_logits": lambda: numbers([max(row.largest_logit for row in rows)]),
        "one_row": True,
    }
    largest = np.abs(case["scores"]).max() * np.ones((1, len(case["minimiser"])))
    texts = [case["expected_link"]]
    yield Question("expected link", ask=expected_link, texts=texts, **common)
    yield Question("minimiser", ask=minimiser, texts=[case["minimiser"]], find_scale=lambda: largest, **common)


def stochasticity_questions(data: dict) -> Iterator[Question]:
    """Best predictions for random scores under the exponential link."""
    # The large score is printed with 20 digits; as a double it moves the prediction by less than one rounding.
    rows = [(a, [float(big), data["low"]], [1.0, float(k)], best) for a, k, big, best in data["left"]]
    rows += [(a, [mean + dev, mean - dev], [1.0, 1.0], best) for a, mean, dev, best in data["right"]]
    for alpha, scores, weights, best in rows:
        case = {"link": "exp", "params": {}, "alpha": alpha, "beta": data["beta"]}
        yield from minimiser_questions(case, scores, weights, best, None)


def reweighting_questions(data: dict) -> Iterator[Question]:
    columns = {name: column(data["rows"], i) for i, name in enumerate(data["columns"])}
    lowest = min(columns["s"])
    for by in ("observed", "predicted", "both"):
        yield Question(
            f"loss by {by}",
            label=f"kappa={data['kappa']} delta={data['delta']}",
            build=lambda by=by: sm.ReweightedSquare(by=by, kappa=data["kappa"], low=lowest, delta=data["delta"]),
            ask=value,
            inputs=(numbers(columns["s_hat"]), numbers(columns["s"])),
            texts=columns[f"by_{by}"],
        )


# ------------------------------------------------------------------------------- curvatures, products, parts, targets
def score_transform(potential: Any, z: Any) -> Any:
    with np.errstate(over="ignore"):  # of a class that leads, beside others that do not overflow
        return potential.score_transform(z)


def derived_softmax_questions(case: dict) -> Iterator[Question]:
    rho = case["rho"]
    s, s_hat, v = (numbers([case[name]]) for name in ("s", "s_hat", "v"))
    exact = Exact({**case, "rho": rho}, case["s"], case["s_hat"])
    # the anchor is a log-score like any other
    largest = max(exact.largest_logit, abs(case["anchor"] or 0.0) / case["gamma"])
    upper = np.triu_indices(s.shape[1])

    def potential() -> sm.CompositeSoftmax:
        biases = None if set(rho) == {1.0} else tuple(rho)
        return sm.CompositeSoftmax(scaling_of(case), gamma=case["gamma"], rho=biases, anchor=case["anchor"])

    def loss() -> Any:
        return loss_of(potential())

    common = {
        "label": f"{name_case(case['scaling'], case)} anchor={case['anchor']}",
        "parameters": parameters_of(case),
        "find_logits": lambda: numbers([largest]),
    }

    def ask(quantity: str, build: Any, function: Any, inputs: tuple, name: str, **more: Any) -> Question:
        return Question(quantity, build=build, ask=function, inputs=inputs, texts=[case[name]], **{**common, **more})

    def sized(name: str) -> Callable[[], np.ndarray]:
        return lambda: numbers([case[name]])

    def part(i: int) -> Callable[..., Any]:
        return lambda loss, s_hat, s: loss.parts(s_hat, s, reduction="none")[i]

    at = (s_hat,)
    yield ask("score transform", potential, score_transform, at, "score_transform",
              find_logits=lambda: numbers([exact.largest_primitive]))  # fmt: skip
    yield ask("probability", potential, lambda c, z: c.prob(z), at, "p")
    yield ask("link", potential, lambda c, z: c.link(z), at, "h")
    yield ask("potential", potential, lambda c, z: c.primitive(z), at, "H", find_scale=lambda: numbers([
        case["gamma"] * max(largest, 1.0)]))  # fmt: skip
    yield ask("hessian", potential, lambda c, z: c.hessian(z)[..., upper[0], upper[1]], at, "hessian_upper")
    yield ask("product", loss, lambda f, z, v: f.hvp(z, v), (s_hat, v), "hvp", find_scale=sized("hvp_size"))
    yield ask("newton curvature", loss, lambda f, z: f.curvature(z), at, "Delta")
    pair = (s_hat, s)
    yield ask("secant curvature", loss, lambda f, a, b: f.curvature(a, b, kind="secant"), pair, "secant")
    yield ask("quadratic", loss, lambda f, a, b: f.quadratic(a, b, reduction="none"), pair, "quadratic")
    yield ask("loss", loss, value, pair, "loss")
    yield ask("gradient", loss, gradient, pair, "grad", find_scale=sized("grad_size"))
    yield ask("ranking part", loss, part(0), pair, "ranking")
    yield ask("region part", loss, part(1), pair, "region")


def derived_sigmoid_questions(case: dict) -> Iterator[Question]:
    names = read("derived")["columns"]["sigmoid"]
    columns = {name: column(case["rows"], i) for i, name in enumerate(names)}
    s, s_hat, v = (numbers(columns[name]) for name in ("s", "s_hat", "v"))
    shift = abs(case["offset"]) / case["gamma"]
    exact = [Exact(case, [a], [b]) for a, b in zip(columns["s"], columns["s_hat"], strict=True)]

    def potential() -> sm.CompositeSigmoid:
        check = case["scaling"] not in NON_CONVEX
        return sm.CompositeSigmoid(scaling_of(case), gamma=case["gamma"], offset=case["offset"], check=check)

    def loss() -> Any:
        return loss_of(potential())

    common = {
        "label": f"{name_case(case['scaling'], case)} offset={case['offset']}",
        "parameters": (*parameters_of(case), case["offset"]),
        "find_logits": lambda: numbers([e.largest_logit + shift for e in exact]),
    }

    def ask(quantity: str, build: Any, function: Any, inputs: tuple, name: str, **more: Any) -> Question:
        return Question(quantity, build=build, ask=function, inputs=inputs, texts=columns[name], **{**common, **more})

    def part(i: int) -> Callable[..., Any]:
        return lambda loss, s_hat, s: loss.parts(s_hat, s, reduction="none")[i]

    yield ask("score transform", potential, score_transform, (s_hat,), "score_transform",
              find_logits=lambda: numbers([e.largest_primitive + abs(case["offset"]) for e in exact]))  # fmt: skip
    yield from curvature_questions(ask, loss, s, s_hat, v)
    if case["scaling"] not in NON_CONVEX:
        yield ask("ranking part", loss, part(0), (s_hat, s), "ranking")
        yield ask("region part", loss, part(1), (s_hat, s), "region")


def curvature_questions(ask: Callable[..., Question], loss: Any, s: Any, s_hat: Any, v: Any) -> Iterator[Question]:
    """Second derivatives of losses of single scores."""
    yield ask("newton curvature", loss, lambda f, z: f.curvature(z), (s_hat,), "newton")
    yield ask("secant curvature", loss, lambda f, a, b: f.curvature(a, b, kind="secant"), (s_hat, s), "secant")
    yield ask("product", loss, lambda f, z, v: f.hvp(z, v), (s_hat, v), "hvp")
    yield ask("quadratic", loss, lambda f, a, b: f.quadratic(a, b, reduction="none"), (s_hat, s), "quadratic")


def derived_link_questions(case: dict) -> Iterator[Question]:
    names = read("derived")["columns"]
    common = {
        "label": name_case(case["link"], case),
        "wider_float32": case["link"] in WIDER_FLOAT32,
        "parameters": parameters_of(case),
        "build": lambda: loss_of(link_of(case)),
    }
    columns = {name: column(case["pairs"], i) for i, name in enumerate(names["links"])}

    def ask(quantity: str, build: Any, function: Any, inputs: tuple, name: str) -> Question:
        return Question(quantity, ask=function, inputs=inputs, texts=columns[name], **common)

    yield from curvature_questions(ask, None, *(numbers(columns[name]) for name in ("s", "s_hat", "v")))
    if not case["targets"]:
        return
    columns = {name: column(case["targets"], i) for i, name in enumerate(names["targets"])}
    pair = (numbers(columns["s_hat"]), numbers(columns["y"]))
    yield ask("loss of targets", None, lambda f, a, y: f.fenchel_young(a, y, reduction="none"), pair, "fenchel_young")
    yield ask("gradient of targets", None, lambda f, a, y: f.fenchel_young_grad(a, y), pair, "grad")
    yield Question(
        "loss of targets without the conjugate",
        ask=lambda f, a, y: f.fenchel_young(a, y, conjugate=False, reduction="none"),
        inputs=pair,
        texts=columns["without_conjugate"],
        find_scale=lambda: numbers([float(text) for text in columns["size_of_terms"]]),
        **common,
    )


def derived_label_questions(case: dict) -> Iterator[Question]:
    def loss() -> Any:
        return loss_of(sm.PerLabel({one["label"]: link_of({**one, "params": {}}) for one in case["labels"]}))

    label = f"PerLabel({', '.join(one['link'] for one in case['labels'])})"
    for scores, weights, at, best, *lists in case["rows"]:
        largest = numbers([max(map(abs, scores))])
        yield Question("minimiser", label, loss, minimiser, weighted(scores, weights, 4), [best], lambda x=largest: x,
                       one_row=True)  # fmt: skip
        pair = (np.full(len(scores), at), numbers(scores))
        for quantity, ask, texts in (
            ("loss", value, lists[0]),
            ("gradient", gradient, lists[1]),
            ("newton curvature", lambda f, a, b: f.curvature(a, b), lists[2]),
            ("secant curvature", lambda f, a, b: f.curvature(a, b, kind="secant"), lists[3]),
        ):
            yield Question(quantity, label, loss, ask, pair, texts)


DERIVED = {
    "softmax": derived_softmax_questions,
    "sigmoid": derived_sigmoid_questions,
    "links": derived_link_questions,
    "per_label": derived_label_questions,
}


# ------------------------------------------------------------------------------------------------------- the files
def _by_link(name: str) -> dict[str, list]:
    return _grouped(read(name)["cases"], lambda case: case["link"])


def _by_scaling(name: str) -> dict[str, list]:
    return _grouped(read(name)["cases"], lambda case: case["scaling"])


def _grouped(cases: list, key: Callable[[Any], str]) -> dict[str, list]:
    groups: dict[str, list] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    return groups


def _proper() -> dict[str, list]:
    data = read("proper")
    rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    return {**_grouped(rows, lambda row: row["link"]), "softmax": data["multi_class"]}


def _sigmoid_cross_entropy() -> dict[str, list]:
    groups = _grouped(read("sigmoid_cross_entropy")["rows"], lambda row: json.dumps(row[:2]))
    return {"sigmoid": [(rows[0][0], rows[0][1], rows) for rows in groups.values()]}


@dataclass(frozen=True)
class File:
    """One golden file: its cases by subject (a link, a scaling), and the questions that they put."""

    subjects: Callable[[], dict[str, list]]
    questions: Callable[[str, list], Iterator[Question]]


def _each(questions: Callable[[Any], Iterator[Question]]) -> Callable[[str, list], Iterator[Question]]:
    return lambda subject, cases: (question for case in cases for question in questions(case))


def _proper_each(subject: str, cases: list) -> Iterator[Question]:
    return _each(proper_softmax_questions if subject == "softmax" else proper_questions)(subject, cases)


def _softmax_each(subject: str, cases: list) -> Iterator[Question]:
    return _each(softmax_questions)(subject, same_potential(cases))


FILES: dict[str, File] = {
    "scalar_links": File(lambda: _by_link("scalar_links"), _each(link_questions)),
    "piecewise_links": File(lambda: _by_link("piecewise_links"), _each(link_questions)),
    "composite_sigmoid": File(lambda: _by_scaling("composite_sigmoid"), _each(composite_sigmoid_questions)),
    "composite_softmax": File(lambda: _by_scaling("composite_softmax"), _softmax_each),
    "standard_softmax": File(lambda: _by_scaling("standard_softmax"), _softmax_each),
    "decomposed": File(lambda: _by_link("decomposed"), _each(decomposed_questions)),
    "sigmoid_cross_entropy": File(_sigmoid_cross_entropy, _each(lambda c: sigmoid_cross_entropy_questions(*c))),
    "proper": File(_proper, _proper_each),
    "stochasticity": File(lambda: {"exp": [read("stochasticity")]}, _each(stochasticity_questions)),
    "derived": File(
        lambda: {subject: read("derived")[subject] for subject in DERIVED},
        lambda subject, cases: _each(DERIVED[subject])(subject, cases),
    ),
    "reweighting": File(lambda: {"square": [read("reweighting")]}, _each(reweighting_questions)),
}


@cache
def questions(file: str, subject: str) -> list[Question]:
    return list(FILES[file].questions(subject, FILES[file].subjects()[subject]))
