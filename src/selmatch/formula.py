"""A curve from a formula: ``parse("sinh(2*(z-1)) + 0.1*z")``.

The grammar is small and safe: a tokenizer and a parser by hand, with bounds on length, nesting and size; no text is
ever handed to Python. Formulas become curves of the library where their structure allows, and a :class:`Formula`
otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from selmatch.arrays.trace import (
    CONDITIONS,
    Expression,
    Number,
    Step,
    Variable,
    apply,
    call,
    combine,
    is_call,
    is_value,
    run,
    steps,
    trace,
    walk,
    written_size,
)
from selmatch.curve import REALS, Curve, Interval
from selmatch.functions import is_number
from selmatch.lowering import Line, line_of, lowered
from selmatch.notation import NotWritten, latex, text_of, text_of_expression
from selmatch.parameters import keep
from selmatch.words import nearest

__all__ = ["Formula", "FormulaError", "latex", "parse", "text_of"]

Array = Any

#: bounds of what is read: characters, levels of nesting, nodes of the expression
LONGEST, DEEPEST, LARGEST = 2000, 50, 500


class FormulaError(ValueError):
    """A formula that cannot be read; ``column`` says where (from 1)."""

    def __init__(self, message: str, text: str = "", column: int = 1) -> None:
        super().__init__(message)
        self.text = text
        self.column = column

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.text, self.column)


def _fail(text: str, place: int, problem: str, remedy: str = "") -> NoReturn:
    """Raise an error that shows the place."""
    start = max(0, place - 40)
    shown = "".join(c if c.isprintable() else "?" for c in text[start : place + 20])
    cut = ("..." if start else "", "..." if len(text) > place + 20 else "")
    caret = " " * (4 + len(cut[0]) + place - start) + "^"
    line = f"{cut[0]}{shown}{cut[1]}"
    message = (
        f'parse: at column {place + 1} of "{line}": {problem}.{" " + remedy if remedy else ""}\n    {line}\n{caret}'
    )
    raise FormulaError(message, text, place + 1)


# -------------------------------------------------------------------------------------------------------------- tokens


class _Token(NamedTuple):
    #: "number", "name", "end" or the sign itself
    kind: str
    text: str
    place: int


_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*|σ|π)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^()|,<>−×·]))"
)
_SAME_SIGN = {"**": "^", "−": "-", "×": "*", "·": "*"}


def _tokens(text: str) -> list[_Token]:
    tokens, place = [], 0
    while True:
        found = _TOKEN.match(text, place)
        if found is None:
            break
        kind = str(found.lastgroup)
        token = found.group(kind)
        if kind == "sign":
            kind = token = _SAME_SIGN.get(token, token)
        tokens.append(_Token(kind, token, found.start(str(found.lastgroup))))
        place = found.end()
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    if place < len(text):
        remedy = 'Comparisons are written "==".' if text[place] == "=" else "See the functions and signs of parse."
        _fail(text, place, f"expected a number, a name or a sign, got {text[place]!r}", remedy)
    return [*tokens, _Token("end", "", len(text))]


# ----------------------------------------------------------------------------------------------------------- functions


def _one(name: str) -> Callable[..., Expression]:
    return lambda u: _made(name, u)


def _chain(name: str) -> Callable[..., Expression]:
    return lambda first, *others: functools.reduce(lambda a, b: _made(name, a, b), others, first)


def _clip(u: Expression, low: Expression, high: Expression) -> Expression:
    return _made("minimum", _made("maximum", u, low), high)


def _huber(u: Expression, c: Expression = Number(1.0)) -> Expression:  # noqa: B008 (immutable)
    return _clip(u, call("negative", c), c)


def _smelu(u: Expression, c: Expression = Number(1.0)) -> Expression:  # noqa: B008 (immutable)
    return _clip(_made("divide", _made("add", u, c), call("multiply", Number(2.0), c)), Number(0.0), Number(1.0))


def _step(u: Expression) -> Expression:
    return call("where", call("greater", u, Number(0.0)), Number(1.0), Number(0.0))


#: name -> (fewest arguments, most arguments, how the expression is made)
_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Expression]]] = {
    **{
        name: (1, 1, _one(name))
        for name in (
            "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arctan",
            "arcsinh", "arctanh", "sigmoid", "softplus", "logit", "abs", "sign", "side", "signedlog",
        )
    },
    **{
        other: (1, 1, _one(name))
        for other, name in {
            "ln": "log", "asin": "arcsin", "atan": "arctan", "asinh": "arcsinh", "atanh": "arctanh",
            "arsinh": "arcsinh", "artanh": "arctanh", "σ": "sigmoid", "square": "square",
        }.items()
    },
    "relu": (1, 1, lambda u: _made("maximum", u, Number(0.0))),
    "step": (1, 1, _step),
    "huber": (1, 2, _huber),
    "smelu": (1, 2, _smelu),
    "power": (2, 2, _chain("power")),
    "pow": (2, 2, _chain("power")),
    "min": (2, 20, _chain("minimum")),
    "minimum": (2, 20, _chain("minimum")),
    "max": (2, 20, _chain("maximum")),
    "maximum": (2, 20, _chain("maximum")),
    "clip": (3, 3, _clip),
    "arctan2": (2, 2, lambda y, x: _made("arctan2", y, x)),
    "where": (3, 3, lambda condition, a, b: _made("where", condition, a, b)),
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "π": math.pi, "e": math.e}


def _made(name: str, *arguments: Expression) -> Expression:
    """A call, in the form that computes it without cancellation or overflow where the library has one."""
    node = call(name, *arguments)
    if is_call(node, "divide"):
        a, b = node.arguments
        u = _exponent_after_one(b)
        if u is not None:  # a / (1 + e^u)
            if is_call(a, "exp") and a.arguments[0] == u:
                return call("sigmoid", u)
            return call("multiply", a, call("sigmoid", call("negative", u)))
    elif is_call(node, "log"):
        (u,) = node.arguments
        if _exponent_after_one(u) is not None:
            return call("softplus", _exponent_after_one(u) or u)
        if is_call(u, "add") and is_value(u.arguments[0], 1.0):
            return call("log1p", u.arguments[1])
        if is_call(u, "add") and is_value(u.arguments[1], 1.0):
            return call("log1p", u.arguments[0])
        if is_call(u, "subtract") and is_value(u.arguments[0], 1.0):
            return call("log1p", call("negative", u.arguments[1]))
        if is_call(u, "divide") and u.arguments[1] == call("subtract", Number(1.0), u.arguments[0]):
            return call("logit", u.arguments[0])
    elif is_call(node, "log1p") and is_call(node.arguments[0], "exp"):
        return call("softplus", *node.arguments[0].arguments)
    elif is_call(node, "subtract") and is_call(node.arguments[0], "exp") and is_value(node.arguments[1], 1.0):
        return call("expm1", *node.arguments[0].arguments)
    elif is_call(node, "sqrt") and is_call(node.arguments[0], "add"):
        for one, square in (node.arguments[0].arguments, reversed(node.arguments[0].arguments)):
            if is_value(one, 1.0) and is_call(square, "square"):
                return call("hypot1", *square.arguments)
    elif is_call(node, "power"):
        base, d = node.arguments
        if is_value(base, math.e):
            return call("exp", d)
        if is_value(d, 0.5):
            return _made("sqrt", base)
    return node


def _exponent_after_one(node: Expression) -> Expression | None:
    """The u of ``1 + e^u``, else None."""
    if is_call(node, "add"):
        for one, other in (node.arguments, reversed(node.arguments)):
            if is_value(one, 1.0) and is_call(other, "exp"):
                return other.arguments[0]
    return None


# -------------------------------------------------------------------------------------------------------------- parser


class _Part(NamedTuple):
    """A piece of the formula: its expression, its value if it is a constant, and where it starts."""

    expression: Expression
    value: Any
    place: int

    @property
    def condition(self) -> bool:
        return is_call(self.expression, *CONDITIONS) or isinstance(self.value, bool)


#: sign -> (how tightly it binds its left side, its right side, the function that it stands for)
_BINDING: dict[str, tuple[int, int, str]] = {
    "or": (1, 2, "or"),
    "and": (3, 4, "and"),
    **{
        sign: (5, 6, name)
        for sign, name in {
            "<": "less",
            "<=": "less_equal",
            ">": "greater",
            ">=": "greater_equal",
            "==": "equal",
            "!=": "not_equal",
        }.items()
    },
    "+": (7, 8, "add"),
    "-": (7, 8, "subtract"),
    "*": (9, 10, "multiply"),
    "/": (9, 10, "divide"),
    "^": (13, 12, "power"),
}
_UNARY = 11
_EXPECTED = 'expected a number, the variable, a function, "-" or "("'


class _Parser:
    def __init__(self, text: str, variable: str | None) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0
        self.depth = 0
        self.names = (variable,) if variable else ("z", "x", "s")
        self.variable = variable

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def fail(self, place: int, problem: str, remedy: str = "") -> NoReturn:
        _fail(self.text, place, problem, remedy)

    def take(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def expect(self, sign: str, remedy: str = "") -> None:
        if self.token.kind != sign:
            self.fail(self.token.place, f'expected "{sign}", got {self.shown(self.token)}', remedy)
        self.take()

    def shown(self, token: _Token) -> str:
        return "the end" if token.kind == "end" else f'"{token.text[:40]}"'

    def formula(self) -> Expression:
        part = self.read(0)
        if self.token.kind != "end":
            problem = f"expected an operator or the end, got {self.shown(self.token)}"
            implicit = self.token.kind in ("number", "name", "(")
            self.fail(self.token.place, problem, 'Multiplication is written "*".' if implicit else "")
        if part.condition:
            self.fail(part.place, "a formula must be a number, got a condition", "Use where(condition, a, b).")
        return part.expression

    # ------------------------------------------------------------------------------------------- operators by binding

    def read(self, binding: int) -> _Part:
        """The longest piece from here on whose operators bind more tightly than ``binding``."""
        left = self.operand()
        while True:
            token = self.token
            sign = token.text if token.kind == "name" and token.text in ("and", "or") else token.kind
            if sign not in _BINDING or _BINDING[sign][0] <= binding:
                return left
            self.take()
            _, right_binding, name = _BINDING[sign]
            if sign == "^":
                self.enter(token.place)
                right = self.read(right_binding - 1)
                self.depth -= 1
            else:
                right = self.read(right_binding - 1)
            left = self.combined(name, token, left, right)

    def enter(self, place: int) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(place, f"nesting must be at most {DEEPEST} levels deep", "Write the formula with fewer brackets.")

    def combined(self, name: str, token: _Token, left: _Part, right: _Part) -> _Part:
        logical = name in ("and", "or")
        for part in (left, right):
            if part.condition is not logical:
                wanted = "conditions such as z > 0" if logical else "numbers"
                self.fail(part.place, f'"{token.text}" must stand between {wanted}')
        return self.part(token.place, left.place, name, left, right)

    def part(self, place: int, start: int, name: str, *parts: _Part) -> _Part:
        """A call of a function of the expressions' namespace."""
        value = self.constant(place, lambda *values: apply(name, *values), parts)
        if name == "divide" and parts[1].value == 0.0:
            self.fail(parts[1].place, "a denominator must not be 0")
        return _Part(_made(name, *(part.expression for part in parts)), value, start)

    def constant(self, place: int, function: Callable[..., Any], parts: tuple[_Part, ...]) -> Any:
        """The value of a call of constants, which must be finite; else None."""
        if any(part.value is None for part in parts):
            return None
        value = function(*(part.value for part in parts))
        if not math.isfinite(value):
            self.fail(place, f"constants must be finite, got {value}")
        return value

    # --------------------------------------------------------------------------------------------------------- operands

    def operand(self) -> _Part:
        start, minus = self.token.place, None
        while self.token.kind in ("-", "+"):  # a loop: signs do not nest
            token = self.take()
            if token.kind == "-":
                minus = token if minus is None else None
        signed = self.tokens[self.position - 1].kind in ("-", "+") and self.token.place != start
        part = self.power() if signed else self.atom()
        if signed and part.condition:
            self.fail(part.place, "a sign must stand before a number")
        return part if minus is None else self.part(minus.place, start, "negative", part)

    def power(self) -> _Part:
        """What a sign applies to: an operand with its exponents."""
        self.enter(self.token.place)
        part = self.read(_UNARY)
        self.depth -= 1
        return part

    def atom(self) -> _Part:
        token = self.take()
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                self.fail(token.place, f"numbers must be finite, got {token.text[:40]}")
            return _Part(Number(value), value, token.place)
        if token.kind == "name":
            return self.name(token)
        if token.kind in ("(", "|"):
            self.enter(token.place)
            part = self.read(0)
            self.expect(
                ")" if token.kind == "(" else "|", f"Close the {self.shown(token)} of column {token.place + 1}."
            )
            self.depth -= 1
            if token.kind == "(":
                return part._replace(place=token.place)
            if part.condition:
                self.fail(part.place, "an absolute value must be of a number, got a condition")
            return self.part(token.place, token.place, "abs", part)
        self.position -= 1
        self.fail(token.place, f"{_EXPECTED}, got {self.shown(token)}", self.remedy(token))

    def remedy(self, token: _Token) -> str:
        if token.kind == "end":
            return "The formula breaks off." if len(self.tokens) > 1 else 'Write a formula, for example "sinh(2*z)".'
        return ""

    def name(self, token: _Token) -> _Part:
        if self.token.kind == "(" and token.text not in self.names:
            return self.function(token)
        if token.text in self.names:
            if self.variable not in (None, token.text):
                problem = f'a formula must have one variable, got "{token.text}" besides "{self.variable}"'
                self.fail(token.place, problem, "Numbers must be written out.")
            self.variable = token.text
            return _Part(Variable("z"), None, token.place)
        if token.text in _CONSTANTS:
            value = _CONSTANTS[token.text]
            return _Part(Number(value), value, token.place)
        if token.text in _FUNCTIONS:
            self.fail(self.token.place, f'expected "(" after {token.text}, got {self.shown(self.token)}')
        letter = len(token.text) == 1
        remedy = f"Try parse(text, variable={token.text!r})." if letter else self.nearest(token.text)
        self.fail(token.place, f'the name "{token.text[:40]}" is not known', remedy)

    def nearest(self, name: str) -> str:
        known = [*_FUNCTIONS, *_CONSTANTS, *self.names]
        close = nearest(name[:30], known, cutoff=0.6)
        return f"Did you mean {close}?" if close else f"Known are {', '.join(sorted(_FUNCTIONS))}, pi, e."

    def function(self, token: _Token) -> _Part:
        if token.text not in _FUNCTIONS:
            self.fail(token.place, f'the function "{token.text[:40]}" is not known', self.nearest(token.text))
        fewest, most, make = _FUNCTIONS[token.text]
        self.take()
        self.enter(token.place)
        parts: list[_Part] = []
        while self.token.kind != ")" or not parts:
            if parts:
                self.expect(",", f"Close the bracket of {token.text}.")
            parts.append(self.read(0))
            if len(parts) > most:
                break
        self.depth -= 1
        if not fewest <= len(parts) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            noun = "argument" if most == 1 else "arguments"
            self.fail(token.place, f"{token.text} must have {count} {noun}, got {len(parts)}")
        self.expect(")")
        for i, part in enumerate(parts):
            if part.condition is not (token.text == "where" and i == 0):
                wanted = "a condition such as z > 0" if token.text == "where" and i == 0 else "a number"
                self.fail(part.place, f"argument {i + 1} of {token.text} must be {wanted}")
        expression = make(*(part.expression for part in parts))
        value = None
        if all(part.value is not None for part in parts):
            value = self.constant(token.place, lambda: run(steps(expression), 0.0), ())
        return _Part(expression, value, token.place)


def _expression(text: Any, variable: str | None = None) -> Expression:
    """The expression of a formula, in the variable z."""
    if not isinstance(text, str):
        raise TypeError(f"parse: text must be a string, got {type(text).__name__}.")
    if variable is not None and not (
        isinstance(variable, str) and len(variable) == 1 and variable.isascii() and variable.isalpha()
    ):
        raise ValueError(f"parse: variable must be one letter, got {str(variable)[:40]!r}.")
    if variable in _CONSTANTS:
        raise ValueError(f"parse: variable must not be a constant, got {variable!r}.")
    if len(text) > LONGEST:
        _fail(text, LONGEST, f"a formula must have at most {LONGEST} characters, got {len(text)}")
    expression = _Parser(text, variable).formula()
    size = written_size(expression)
    if size > LARGEST:
        _fail(text, 0, f"a formula must have at most {LARGEST} numbers, variables and operations, got {size}")
    return expression


def parse(text: str, variable: str | None = None, *, lower: bool = True) -> Curve:
    """A curve from a formula, for links, scalings and score transforms that have no class.

    Sums of positive multiples of known functions, ``c*g(a*(z-b))``, become curves of the library, with their closed
    forms and structural proofs; other formulas become a :class:`Formula`. Text is never run as code, so formulas may
    come from anybody.

    Parameters
    ----------
    text : str
        The formula, at most 2,000 characters: numbers, one variable (z, x or s), ``pi``, ``e``, ``+ - * / ^``,
        brackets, ``|...|`` and functions: exp expm1 log log1p sqrt sin cos tan sinh cosh tanh arcsin arctan arcsinh
        arctanh sigmoid softplus logit abs sign signedlog relu step huber smelu min max clip power arctan2, and
        ``where(z > 0, a, b)`` with conditions joined by ``and``, ``or``. A power binds more tightly than a minus
        before it: ``-z^2`` is -(z^2).
    variable : str, optional
        Another letter for the variable.
    lower : bool
        False keeps the formula as it is.

    Raises
    ------
    FormulaError
        A ValueError that shows the place and names a remedy.

    Examples
    --------
    >>> from selmatch.formula import parse
    >>> parse("sinh(2*(z-1)) + 0.1*z")
    Sum((Identity().affine(gain=0.1), Sinh().affine(alpha=2.0, beta=1.0)))
    >>> MatchingLoss(parse("z + softplus(z)"))(1.0, 0.0)
    0.79067...
    >>> CompositeSigmoid(Q=parse("cosh(z)"))(0.0)
    0.0
    """
    expression = _expression(text, variable)
    curve = lowered(expression) if lower else None
    if curve is not None:
        return curve
    try:
        normal = text_of_expression(expression)
        if len(normal) <= LONGEST:
            return Formula(normal)
    except (NotWritten, FormulaError) as error:
        if "never defined" in str(error):
            _fail(text, 0, "a formula must be defined somewhere, got terms without a common domain")
    _fail(text, 0, "a formula must be shorter when its functions are written out", "Write it with fewer functions.")


# ------------------------------------------------------------------------------------------------------------- formulas


@dataclass(frozen=True)
class Formula(Curve):
    """A curve that is computed from its formula; :func:`parse` makes them.

    Parameters
    ----------
    text : str
        The formula in the grammar of :func:`parse`, kept in normal form with the variable z.

    Examples
    --------
    >>> from selmatch.formula import Formula
    >>> Formula("z * tanh(z)")
    parse('z*tanh(z)')
    >>> Formula("z * tanh(z)") == Formula("z*tanh( z )")
    True
    """

    text: str

    only_a_formula = True

    def __post_init__(self) -> None:
        expression = _expression(self.text)
        keep(self, text=text_of_expression(expression))
        keep(self, _made=_made_ready(self.text))
        if not self.domain.low < self.domain.high:
            raise FormulaError(f"parse: {self.text[:60]!r} is never defined.", self.text)
        _ = self.mesh  # measured before a trace needs it

    def __repr__(self) -> str:
        return f"parse({self.text!r}{'' if lowered(self.expression) is None else ', lower=False'})"

    def __reduce__(self) -> Any:
        return Formula, (self.text,)

    @property
    def _ready(self) -> _Ready:
        return self.__dict__.get("_made") or _made_ready(self.text)  # JAX rebuilds without the constructor

    @property
    def breaks(self):
        return self._ready.landmarks.breaks

    @property
    def places(self):
        return (*self.breaks, *self._ready.landmarks.centres)

    @property
    def expression(self) -> Expression:
        """The formula as a tree in the variable z."""
        return self._ready.expression

    def __call__(self, x: Array) -> Array:
        return run(self._ready.program, x)

    def slope(self, x: Array) -> Array:
        if is_number(x):  # NumPy's numbers divide by 0
            with np.errstate(all="ignore"):
                return float(super().slope(np.float64(x)))
        return super().slope(x)

    @property
    def domain(self):
        return self._ready.domain

    @property
    def odd(self):
        return self._ready.odd

    @property
    def increasing(self):
        return True if self._ready.increasing else None

    @property
    def continuous(self):
        return self._ready.continuous

    @property
    def scale(self):
        return self._ready.scale


# --------------------------------------------------------------------------------------- what a formula tells by itself


class _Ready(NamedTuple):
    """A formula when it has been read: what to compute, and what is known about it."""

    expression: Expression
    program: tuple[Step, ...]
    domain: Interval
    increasing: bool
    odd: bool
    continuous: bool
    scale: float
    landmarks: Landmarks


#: functions that increase wherever they are defined, and where that is: low end, high end, which of them are open
_INCREASING: dict[str, tuple[float, float, bool, bool]] = {
    **dict.fromkeys(
        "exp expm1 sinh tanh arctan arcsinh sigmoid softplus signedlog sign side".split(),
        (-math.inf, math.inf, False, False),
    ),
    "log": (0.0, math.inf, True, False),
    "log1p": (-1.0, math.inf, True, False),
    "sqrt": (0.0, math.inf, False, False),
    "logit": (0.0, 1.0, True, True),
    "arcsin": (-1.0, 1.0, False, False),
    "arctanh": (-1.0, 1.0, True, True),
}
_ODD_FUNCTIONS = frozenset("sin tan sinh tanh arcsin arctan arcsinh arctanh sign signedlog".split())
_EVEN_FUNCTIONS = frozenset("cos cosh abs square hypot1".split())
_JUMPING = frozenset({"where", "sign", "side", "arctan2"})
#: functions with a kink or a jump where their argument, or the difference of their two arguments, is 0
_BREAKING = (
    "abs",
    "sign",
    "side",
    "signedlog",
    "minimum",
    "maximum",
    *sorted(CONDITIONS - {"and", "or", "not", "isfinite"}),
)


class _Known(NamedTuple):
    """What is known of a part of a formula: bounds of its values, its direction and its parity (0: unknown)."""

    low: float
    high: float
    #: 1 where it never decreases, -1 where it never increases, 0 if that is not known; None for constants
    direction: int | None
    #: 1 even, -1 odd, 0 neither
    parity: int


_ANY = _Known(-math.inf, math.inf, 0, 0)


@functools.lru_cache(maxsize=256)
def _made_ready(text: str) -> _Ready:
    expression = _expression(text)
    lines: dict[Expression, Line | None] = {}
    known: dict[Expression, _Known] = {}
    combine(expression, _knowledge, known)
    low, high, open_low, open_high, sure, fastest = -math.inf, math.inf, False, False, True, 0.0
    chosen = _branches(expression)
    poles: list[Line] = []
    for node in walk(expression):
        for argument in node.arguments:
            line = line_of(argument, lines)
            if line is not None and node._key() not in ("add", "subtract", "multiply", "divide", "negative"):
                fastest = max(fastest, abs(line.rise))
        limits = _limits(node)
        if limits is None:
            continue
        inner, (a, b, open_a, open_b) = limits
        if node in chosen:
            sure = False  # a branch need not be defined where it is not taken
            continue
        line, values = line_of(inner, lines), known[inner]
        if line is None or not line.rise:
            inside_low = values.low > a or (values.low == a and not open_a)
            inside_high = values.high < b or (values.high == b and not open_b)
            sure = sure and inside_low and inside_high
            continue
        if is_call(node, "divide"):
            poles.append(line)
            continue
        ends = [(line.root + a / line.rise, open_a), (line.root + b / line.rise, open_b)]
        if line.rise < 0.0:
            ends.reverse()
        if ends[0][0] > low or (ends[0][0] == low and ends[0][1]):
            low, open_low = ends[0]
        if ends[1][0] < high or (ends[1][0] == high and ends[1][1]):
            high, open_high = ends[1]
    for pole in poles:  # the side where the denominator is positive
        if pole.root == low or (low < pole.root < high and pole.rise > 0.0):
            low, open_low = pole.root, True
        elif low < pole.root <= high:
            high, open_high = pole.root, True
    domain = REALS if math.isinf(low) and math.isinf(high) else Interval(low, high, open_low, open_high)
    root = known[expression]
    return _Ready(
        expression,
        steps(expression),
        domain,
        increasing=sure and root.direction in (1, None),
        odd=root.parity == -1 and domain.low == -domain.high,
        continuous=not any(node._key() in _JUMPING for node in walk(expression)),
        scale=1.0 / fastest if math.isfinite(fastest) and 1e-12 < fastest < 1e12 else 1.0,
        landmarks=Landmarks(_breaks(expression, lines, domain), _centres(expression, lines, domain)[:MOST_BREAKS]),
    )


def _breaks(expression: Expression, lines: dict[Expression, Line | None], domain: Interval) -> tuple[float, ...]:
    """Where an absolute value, a choice or a condition changes sides, as far as that is the root of a line."""
    places = set()
    for node in walk(expression):
        if not is_call(node, *_BREAKING):
            continue
        # eight of them on each side, lest a long chain of choices take long
        sides = [list(itertools.islice(_chosen_from(argument), 8)) for argument in (*node.arguments, Number(0.0))[:2]]
        for a, b in itertools.product(*sides):
            line = line_of(call("subtract", a, b), lines)
            if line is not None and line.rise and domain.low < line.root < domain.high:
                places.add(line.root)
    return tuple(sorted(places))


def _chosen_from(node: Expression) -> Iterator[Expression]:
    """What a minimum or maximum, or one inside the other, may be."""
    if is_call(node, "minimum", "maximum"):
        for argument in node.arguments:
            yield from _chosen_from(argument)
    else:
        yield node


#: a curve with more breaks has them searched for
MOST_BREAKS = 32


class Landmarks(NamedTuple):
    """Scores at which a formula bends or jumps, and others about which something happens."""

    breaks: tuple[float, ...] = ()
    centres: tuple[float, ...] = ()


def landmarks_of(curve: Curve) -> Landmarks:
    """The landmarks of a curve of which only the call is known, as far as its trace shows them."""
    if _solves(curve):  # the trace of a bisection is long, and bends everywhere
        return Landmarks()
    try:
        expression, lines = trace(curve), {}
        found = Landmarks(_breaks(expression, lines, curve.domain), _centres(expression, lines, curve.domain))
    except Exception:  # a user's formula may do anything
        return Landmarks()
    return Landmarks(*(places if len(places) <= MOST_BREAKS else () for places in found))


def _centres(expression: Expression, lines: dict[Expression, Line | None], domain: Interval) -> tuple[float, ...]:
    """Where the argument of a function is 0, as far as it is a line."""
    places = set()
    for node in walk(expression):
        if node._key() not in ("add", "subtract", "multiply", "divide", "negative"):
            for line in (line_of(argument, lines) for argument in node.arguments):
                if line is not None and line.rise and domain.low < line.root < domain.high:
                    places.add(line.root)
    return tuple(sorted(places))


def _solves(curve: Any) -> bool:
    """Whether the value of a curve, or of one that it is made of, is the solution of an equation."""
    if not isinstance(curve, Curve):
        return isinstance(curve, tuple) and any(map(_solves, curve))
    parts = (getattr(curve, field.name) for field in dataclasses.fields(curve))
    return type(curve).__name__ == "Inverse" or any(map(_solves, parts))


def _branches(expression: Expression) -> set[Expression]:
    """The parts of a formula that are computed also where they are not taken."""
    inside: set[Expression] = set()
    for node in walk(expression):
        if is_call(node, "where"):
            for branch in node.arguments[1:]:
                inside.update(walk(branch, inside))
    return inside


def _limits(node: Expression) -> tuple[Expression, tuple[float, float, bool, bool]] | None:
    """The argument of a function that is not defined everywhere, and where it is."""
    name, arguments = node._key(), node.arguments
    if name in _INCREASING and _INCREASING[name][:2] != (-math.inf, math.inf):
        return arguments[0], _INCREASING[name]
    if name == "tan":
        return arguments[0], (-0.5 * math.pi, 0.5 * math.pi, True, True)
    if name == "divide":
        return arguments[1], (0.0, math.inf, True, False)
    if name == "power":
        d = arguments[1].value if isinstance(arguments[1], Number) else 0.5
        if d < 0.0 or d != round(d):
            return arguments[0], (0.0, math.inf, d <= 0.0, False)
    return None


def _opposite(known: _Known) -> _Known:
    return _Known(-known.high, -known.low, None if known.direction is None else -known.direction, known.parity)


def _direction(*parts: _Known) -> int | None:
    """The direction of a sum, a minimum or a maximum."""
    directions = {part.direction for part in parts} - {None}
    return None if not directions else (directions.pop() if len(directions) == 1 else 0)


def _parity(*parts: _Known) -> int:
    """The parity of a sum."""
    parities = {part.parity for part in parts}
    return parities.pop() if len(parities) == 1 else 0


def _knowledge(node: Expression, *parts: _Known) -> _Known:
    if isinstance(node, Number):
        return _Known(node.value, node.value, None, 1)
    if isinstance(node, Variable):
        return _Known(-math.inf, math.inf, 1, -1)
    name = node._key()
    if name == "add":
        return _knowledge_of_sum(*parts)
    if name == "subtract":
        return _knowledge_of_sum(parts[0], _opposite(parts[1]))
    if name == "negative":
        return _opposite(parts[0])
    if name in ("minimum", "maximum"):
        choose = min if name == "minimum" else max
        a, b = parts
        even = 1 if a.parity == b.parity == 1 else 0
        return _Known(choose(a.low, b.low), choose(a.high, b.high), _direction(a, b), even)
    if name in ("multiply", "divide"):
        return _knowledge_of_product(name, *parts)
    if name == "power":
        return _knowledge_of_power(node, *parts)
    inner = parts[0]
    parity = 1 if inner.parity == 1 else 0
    if inner.parity == -1:
        parity = -1 if name in _ODD_FUNCTIONS else 1 if name in _EVEN_FUNCTIONS else 0
    if len(parts) > 1:
        return _ANY._replace(parity=1 if all(part.parity == 1 for part in parts) else 0)
    if name in _INCREASING:
        return _Known(_at_end(name, inner.low, -1), _at_end(name, inner.high, 1), inner.direction, parity)
    if name in ("square", "abs", "cosh", "hypot1"):
        size = 0.0 if inner.low <= 0.0 <= inner.high else min(abs(inner.low), abs(inner.high))
        reach = max(abs(inner.low), abs(inner.high))
        direction = inner.direction
        if direction and inner.high <= 0.0:
            direction = -direction
        elif direction and inner.low < 0.0:
            direction = 0
        return _Known(_at_end(name, size, -1), _at_end(name, reach, 1), direction, parity)
    bounds = (-1.0, 1.0) if name in ("sin", "cos") else (-math.inf, math.inf)
    return _Known(*bounds, None if inner.direction is None else 0, parity)


def _sum(a: float, b: float, side: int) -> float:
    """A bound of a sum; infinite where it is not known, and a little wider than rounding."""
    total = a + b
    if math.isnan(total):
        return side * math.inf
    return total if math.isinf(total) or total == 0.0 else total + side * 1e-15 * (abs(a) + abs(b))


def _knowledge_of_sum(a: _Known, b: _Known) -> _Known:
    return _Known(_sum(a.low, b.low, -1), _sum(a.high, b.high, 1), _direction(a, b), _parity(a, b))


def _knowledge_of_product(name: str, a: _Known, b: _Known) -> _Known:
    parity = a.parity * b.parity
    if name == "multiply" and a.direction is None:
        a, b = b, a
    if b.direction is None and b.low == b.high and math.isfinite(b.low) and b.low != 0.0:
        factor = b.low if name == "multiply" else 1.0 / b.low
        sides = ((a.low, -factor), (a.high, factor))
        ends = sorted(_bounded(end * factor, side) if end else 0.0 for end, side in sides)
        direction = a.direction if factor > 0.0 or a.direction is None else -a.direction
        return _Known(ends[0], ends[1], direction, parity)
    if name == "divide":
        if not b.low > 0.0 or not b.direction or a.direction is not None or not a.low == a.high:
            low = 0.0 if a.low >= 0.0 and b.low >= 0.0 else -math.inf
            return _Known(low, math.inf, None if a.direction is b.direction is None else 0, parity)
        sign = (a.low > 0.0) - (a.low < 0.0)
        return _Known(min(a.low * math.inf if sign < 0 else 0.0, 0.0), math.inf, -b.direction * sign, parity)
    low = 0.0 if a.low >= 0.0 and b.low >= 0.0 else -math.inf
    rising = a.low >= 0.0 and b.low >= 0.0 and a.direction == b.direction and a.direction
    return _Known(low, math.inf, a.direction if rising else (None if a.direction is b.direction is None else 0), parity)


def _knowledge_of_power(node: Expression, base: _Known, exponent: _Known) -> _Known:
    d = node.arguments[1].value if isinstance(node.arguments[1], Number) else None
    whole = d is not None and d == round(d)
    parity = 1 if base.parity == 1 and exponent.parity == 1 else 0
    if base.parity == -1 and whole:
        parity = 1 if d % 2 == 0 else -1  # type: ignore[operator]
    low = 0.0 if base.low >= 0.0 or (whole and d % 2 == 0) else -math.inf  # type: ignore[operator]
    direction: int | None = 0
    if d is not None and d > 0.0 and (base.low >= 0.0 or not whole or d % 2 == 1):
        direction = base.direction  # a power that is not whole is defined on positive numbers only
    elif base.direction is None and exponent.direction is None:
        direction = None
    elif base.direction is None and base.low == base.high and base.low > 1.0:
        direction = exponent.direction
    return _Known(low, math.inf, direction, parity)


def _at_end(name: str, x: float, side: int) -> float:
    """A bound of a function's values, from a bound of its argument."""
    limits = _INCREASING.get(name)
    if limits is not None:
        x = min(max(x, limits[0]), limits[1])
    value = 0.0 if name == "softplus" and x == -math.inf else float(apply(name, x))
    if math.isnan(value):
        return side * math.inf
    if x == 0.0:  # there all of them are exact
        return value
    least, most = _RANGES.get(name, (-math.inf, math.inf))
    return min(max(_bounded(value, side), least), most)


#: values that rounding must not pass
_RANGES = {
    **dict.fromkeys(("exp", "softplus", "sqrt", "square", "abs"), (0.0, math.inf)),
    **dict.fromkeys(("cosh", "hypot1"), (1.0, math.inf)),
    **dict.fromkeys(("tanh", "sign", "side"), (-1.0, 1.0)),
    "expm1": (-1.0, math.inf),
    "sigmoid": (0.0, 1.0),
}


def _bounded(value: float, side: float) -> float:
    """A bound a few rounding errors further out."""
    if math.isinf(value):
        return value
    return value + math.copysign(4.0 * math.ulp(value), side)
