"""The entries of the paper's three tables: losses, what the tables say of them, and what they do."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import selmatch as sm
from selmatch.classification import Classification

__all__ = ["NO", "PARTLY", "YES", "Entry", "entries"]

YES, NO, PARTLY = "yes", "no", "in part"
_SCORES = np.array([-3.0, 0.0, 3.0])
_CONSTELLATION = np.array([3.0, 1.0, -1.0])


@dataclass(frozen=True)
class Entry:
    """A loss that a table names, and what the table says of it.

    Attributes
    ----------
    row, name : str
        The row of the table, and the loss as people write it.
    loss : potential or Curve
        What is measured.
    wanted : str
        What the row asks for: a focus of :func:`selmatch.classify`, or one of "ranks", "shift invariant", "clips low
        scores", "p increases", "symmetric".
    satisfies : bool
        Whether the table says that the loss has it, or that it fails.
    domain : pair
        The scores looked at.
    claims : tuple of str
        Ids of the ledger about it.
    """

    row: str
    name: str
    loss: Any
    wanted: str
    satisfies: bool = True
    domain: tuple[float, float] = (-3.0, 3.0)
    claims: tuple[str, ...] = ()

    @functools.cached_property
    def measured(self) -> Classification:
        """What the loss does on the domain."""
        return sm.classify(self.loss, domain=self.domain)

    @property
    def asks_for_a_region(self) -> bool:
        """Whether the row is about a region of scores."""
        return self.wanted not in _PROPERTIES

    @property
    def has(self) -> bool:
        """Whether the loss has what the row asks for."""
        return self.measured.focus == self.wanted if self.asks_for_a_region else _PROPERTIES[self.wanted](self)

    @property
    def agrees(self) -> str:
        """Whether the table is right: "yes", "no", or "in part" for losses that look there and only do not rank."""
        if self.has == self.satisfies:
            return YES
        looks_without_ranking = isinstance(self.loss, sm.Separable) and self.wanted == self.measured.focus
        return PARTLY if looks_without_ranking else NO

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """Of classes with scores -3, 0 and 3; of a link the means over the lower, middle and upper third."""
        if isinstance(self.loss, sm.Curve):
            return self.measured.sensitivities
        return tuple(np.asarray(sm.sensitivity(self.loss, _SCORES)).tolist())

    @property
    def curve(self) -> sm.Curve:
        """The link of a decomposed loss, the scaling of a composite Softmax."""
        return self.loss.curve if isinstance(self.loss, sm.Separable) else self.loss.scaling

    @property
    def condition(self) -> str:
        """The basic condition of the row for losses of many classes, as it was found."""
        return _CONDITIONS.get(self.wanted, _where_steep)(self)

    @property
    def ignores_shifts(self) -> bool:
        """Whether a loss of many classes is as sensitive after all scores have moved together."""
        rows = np.array([sm.sensitivity(self.loss, _SCORES + c) for c in (0.0, -4.0, 4.0)])
        return bool(np.all(np.abs(rows - rows[0]) <= 1e-12 * rows[0].max()))

    @property
    def shift_factor(self) -> float:
        """By how much the leading class's sensitivity grows or shrinks as all scores move by 4 together."""
        down, here, up = (float(self.loss.slope(_CONSTELLATION + c)[0]) for c in (-4.0, 0.0, 4.0))
        return max(here / down, down / here, up / here, here / up)


#: what rows ask for beside a focus
_PROPERTIES: dict[str, Callable[[Entry], bool]] = {
    "ranks": lambda entry: entry.measured.ranks,
    "shift invariant": lambda entry: entry.shift_factor < 1.0 + 1e-9,
    "clips low scores": lambda entry: any(low <= entry.domain[0] for low, _ in entry.measured.clips),
    "p increases": lambda entry: entry.measured.monotone == "increasing",
    "symmetric": lambda entry: entry.measured.symmetric,
}


def _where(values: Any) -> str:
    """At which of -3, 0 and 3 values are largest."""
    values = np.asarray(values, dtype=float)
    largest = values >= (1.0 - 1e-9) * values.max()
    if values.max() == 0.0:
        return "nowhere"
    return "alike everywhere" if largest.all() else "at " + " and ".join(f"{z:g}" for z in _SCORES[largest])


def _where_steep(entry: Entry) -> str:
    """The condition of all kinds of sensitivity: a steep link, or a steep q where p_k is large."""
    steep = f"steep {_where(entry.curve.slope(_SCORES))}".replace("-", "−")
    if isinstance(entry.loss, sm.Separable):
        return f"h {steep}"
    return f"q {steep}, p_k large {_where(entry.loss.prob(_SCORES))}".replace("-", "−")


def _value_of_low_scores(entry: Entry) -> str:
    """Adding 0 makes -0 a plain 0."""
    return f"q(−3) = {float(entry.curve(-3.0)) + 0.0:.3g}"


def _course_of_p(entry: Entry) -> str:
    return f"p_k {entry.measured.monotone or 'rises and falls'}"


def _oddness(entry: Entry) -> str:
    """Up to rounding; around 0."""
    z = np.linspace(0.0, 3.0, 31)
    there, back = entry.curve(z), entry.curve(-z)
    is_odd = np.abs(there + back).max() <= 1e-12 * np.abs(there).max()
    return f"{'h' if isinstance(entry.loss, sm.Separable) else 'q'} is {'odd' if is_odd else 'not odd'}"


#: of rows that do not ask for a region or for ranking
_CONDITIONS: dict[str, Callable[[Entry], str]] = {
    "clips low scores": _value_of_low_scores,
    "p increases": _course_of_p,
    "symmetric": _oddness,
}


def _softmax(scaling: sm.Curve | None = None, gamma: float = 1.0) -> sm.CompositeSoftmax:
    return sm.CompositeSoftmax(scaling, gamma, check=False)


def _half(curve: sm.Curve, beta: float) -> sm.Curve:
    """A steep curve at half its scale, in the normalisation of the paper's composite appendix."""
    return curve.affine(0.5, beta, gain=0.5)


SINH_LEFT, SINH_RIGHT = _half(sm.Sinh(), -4.0), _half(sm.Sinh(), 4.0)


@functools.cache
def scaling_entries() -> tuple[Entry, ...]:
    """The losses of the table of scalings."""
    low, high, norms, middle = "low scores", "high scores", "high norms", "low norms"
    other = "other shape:"
    return (
        Entry(middle, "decomposed σ(z)", sm.Separable(sm.Sigmoid()), middle, claims=("C74",)),
        Entry(middle, f"{other} decomposed tanh(z)", sm.Separable(sm.Tanh()), middle, claims=("C74", "C82")),
        Entry(middle, f"{other} decomposed arctan(z)", sm.Separable(sm.Arctan()), middle, claims=("C74", "C82")),
        Entry(norms, "q = sinh(z)", _softmax(sm.Sinh()), norms, claims=("C75",)),
        Entry(norms, f"{other} q = (z/2)³", _softmax(sm.SignedPower(3.0).affine(0.5)), norms, claims=("C75", "C84")),
        Entry(norms, f"{other} q = tan(0.4 z)", _softmax(sm.Tan().affine(0.4)), norms, claims=("C75", "C84")),
        Entry(high, "q = exp(z)", _softmax(sm.Exp()), high, claims=("C76",)),
        Entry(high, "q = σ(z − 2)", _softmax(sm.Sigmoid().affine(beta=2.0)), high, claims=("C77", "C41")),
        Entry(high, "q = ½ sinh((z + 4)/2)", _softmax(SINH_LEFT), high, claims=("C78", "C81")),
        Entry(low, "q = −exp(−z)", _softmax(sm.AntiExp()), low, claims=("C79",)),
        Entry(low, "q = ½ sinh((z − 4)/2)", _softmax(SINH_RIGHT), low, claims=("C80", "C81")),
    )


@functools.cache
def link_entries() -> tuple[Entry, ...]:
    """The links of the table of links."""

    def row(shape: str, focus: str, *links: tuple[Any, ...]) -> list[Entry]:
        made = []
        for name, link, claim, *domain in links:
            made.append(Entry(shape, name, link, focus, domain=domain[0] if domain else (-3.0, 3.0), claims=(claim,)))
        return made

    quarter = math.pi / 2
    return (
        *row(
            "Sigmoid", "low norms",
            ("σ(z)", sm.Sigmoid(), "C15"), ("sign(z) |z|^½", sm.SignedPower(0.5), "C82"),
            ("SmeLU gradient", sm.SmeLU(1.0), "C82"), ("Huber gradient", sm.Huber(1.0), "C82"),
            ("sign", sm.Sign(), "C82"), ("step", sm.Step(), "C82"), ("sin", sm.Sin(), "C82", (-quarter, quarter)),
            ("arctan", sm.Arctan(), "C82"), ("arcsinh", sm.Arcsinh(), "C82"), ("tanh", sm.Tanh(), "C82"),
        ),
        *row(
            "hyperbolic sine", "high norms",
            ("sinh(z)", sm.Sinh(), "C18"), ("sign(z) |z|³", sm.SignedPower(3.0), "C84"),
            ("sign(z) log(1 + |z|)", sm.SignedLog(), "C83"), ("logit", sm.Logit(), "C85", (0.02, 0.98)),
            ("arcsin", sm.Arcsin(), "C84", (-0.99, 0.99)), ("arctanh", sm.Arctanh(), "C84", (-0.99, 0.99)),
            ("tan", sm.Tan(), "C84", (-1.5, 1.5)),
        ),
        *row(
            "exponential", "high scores",
            ("exp(z)", sm.Exp(), "C06"), ("σ(z − 4)", sm.Sigmoid().affine(beta=4.0), "C86"),
            ("sinh(z + 4)", sm.Sinh().affine(beta=-4.0), "C86"), ("−log(1 − z)", sm.NegLog1m(), "C86", (0.0, 0.99)),
            ("z²", sm.Power(2.0), "C87", (0.0, 5.0)), ("z^½", sm.Power(0.5), "C87", (0.0, 5.0)),
        ),
        *row(
            "anti-exponential", "low scores",
            ("−exp(−z)", sm.AntiExp(), "C88"), ("σ(z + 4)", sm.Sigmoid().affine(beta=-4.0), "C88"),
            ("sinh(z − 4)", sm.Sinh().affine(beta=4.0), "C88"), ("log(z)", sm.Log(), "C88", (0.1, 5.0)),
        ),
    )  # fmt: skip


@functools.cache
def requirement_entries() -> tuple[Entry, ...]:
    """The losses of the table of requirements."""
    standard, square = ("standard Softmax", _softmax()), ("square", sm.Separable(sm.Identity()))
    sinh, exp, anti = (sm.Separable(link) for link in (sm.Sinh(), sm.Exp(), sm.AntiExp()))
    low, high, norms, middle = "low scores", "high scores", "high norms", "low norms"

    def row(wanted: str, satisfying: tuple[Any, ...], failing: tuple[Any, ...]) -> list[Entry]:
        both = ((True, satisfying), (False, failing))
        return [
            Entry(wanted, name, loss, wanted, satisfies, claims=tuple(claims))
            for satisfies, losses in both
            for name, loss, *claims in losses
        ]

    return (
        *row(
            middle,
            (("decomposed σ(z)", sm.Separable(sm.Sigmoid()), "C74"),),
            ((*standard, "C90"), (*square, "C90"), ("q = tanh(z)", _softmax(sm.Tanh()), "C95"),
             ("q = tanh(z), γ = 10", _softmax(sm.Tanh(), 10.0), "C72", "C90")),
        ),
        *row(
            norms,
            (("q = sinh(z)", _softmax(sm.Sinh()), "C91"),),
            ((*standard, "C61"), (*square, "C90"), ("decomposed sinh(z)", sinh, "C92")),
        ),
        *row(
            high,
            (("q = exp(z)", _softmax(sm.Exp()), "C91"),
             ("q = σ(z − 2)", _softmax(sm.Sigmoid().affine(beta=2.0)), "C91"),
             ("q = ½ sinh((z + 4)/2)", _softmax(SINH_LEFT), "C91")),
            ((*standard, "C61", "C62"), (*square, "C90"), ("decomposed exp(z)", exp, "C92"),
             ("q = tanh(z − 3)", _softmax(sm.Tanh().affine(beta=3.0)), "C93")),
        ),
        *row(
            low,
            (("q = −exp(−z)", _softmax(sm.AntiExp()), "C91"),
             ("q = ½ sinh((z − 4)/2)", _softmax(SINH_RIGHT), "C91")),
            ((*standard, "C61", "C62"), (*square, "C90"), ("decomposed −exp(−z)", anti, "C92"),
             ("q = σ(z + 3)", _softmax(sm.Sigmoid().affine(beta=-3.0)), "C94"),
             ("q = tanh(z + 3)", _softmax(sm.Tanh().affine(beta=-3.0)), "C94")),
        ),
        *row(
            "ranks",
            (("q = exp(z)", _softmax(sm.Exp()), "C96"), ("q = sinh(z)", _softmax(sm.Sinh()), "C96")),
            (("decomposed exp(z)", exp, "C96"), (*square, "C96")),
        ),
        *row(
            "shift invariant",
            (("q = exp(z/2)", _softmax(_half(sm.Exp(), 0.0)), "C67"), ("q = sinh(z)", _softmax(sm.Sinh()), "C67")),
            (("decomposed exp(z)", exp, "C68"), ("decomposed sinh(z)", sinh, "C68")),
        ),
        *row(
            "clips low scores",
            (("Q = ReLU(z)", _softmax(sm.Step()), "C97"), ("Q = SmeLU(z)", _softmax(sm.SmeLU(1.0)), "C97", "C73")),
            (("q = exp(z)", _softmax(sm.Exp()), "C97"), ("q = σ(z)", _softmax(sm.Sigmoid()), "C97")),
        ),
        *row(
            "p increases",
            (("q = exp(z)", _softmax(sm.Exp()), "C98"), ("q = σ(z)", _softmax(sm.Sigmoid()), "C98"),
             ("q = cosh(z)", _softmax(sm.Cosh()), "C98", "C103")),
            (("q = sinh(z)", _softmax(sm.Sinh()), "C99", "C21"), ("q = tanh(z)", _softmax(sm.Tanh()), "C99", "C21")),
        ),
        *row(
            "symmetric",
            (("q = tanh(z)", _softmax(sm.Tanh()), "C100"), ("q = sinh(z)", _softmax(sm.Sinh()), "C100"),
             ("decomposed tanh(z)", sm.Separable(sm.Tanh()), "C21"), ("decomposed sinh(z)", sinh, "C21")),
            (("q = σ(z)", _softmax(sm.Sigmoid()), "C100"), ("q = exp(z)", _softmax(sm.Exp()), "C100"),
             ("decomposed exp(z)", exp, "C21")),
        ),
    )  # fmt: skip


def entries(name: str) -> tuple[Entry, ...]:
    """The entries of the table of a name: "scalings", "links" or "mc_requirements".

    Examples
    --------
    >>> from selmatch.paper import tables
    >>> [(entry.name, entry.measured.focus) for entry in tables.entries("links") if entry.agrees == "no"]
    [('sign(z) log(1 + |z|)', 'low norms'), ('z^½', 'low scores')]
    """
    known = {"scalings": scaling_entries, "links": link_entries, "mc_requirements": requirement_entries}
    if name not in known:
        raise ValueError(f"paper.tables.entries: name must be one of {', '.join(known)}, got {name!r}.")
    return known[name]()
