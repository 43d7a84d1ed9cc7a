"""Traces: the formula of a curve as a tree, found by running the curve on a variable.

``trace(Sinh().affine(alpha=2.0))`` is the expression sinh(2 x). Expressions are plain data (:class:`Number`,
:class:`Variable`, :class:`Call`) that compare by structure; :class:`Traced` is the array type that builds them while a
formula runs. :func:`steps` flattens an expression into a list of operations, each written once, for whoever evaluates
it or emits code; :func:`evaluate` runs it on arrays of any library.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from selmatch import functions as f
from selmatch.arrays.namespaces import is_number
from selmatch.arrays.ufuncs import OPERATORS, through

Array = Any

# ------------------------------------------------------------------------------------------------------------- nodes


class Expression:
    """A formula as a tree of :class:`Number`, :class:`Variable` and :class:`Call`; immutable, equal by structure.

    Examples
    --------
    >>> from selmatch.arrays.trace import Variable, call
    >>> call("exp", Variable("x")) == call("exp", Variable("x"))
    True
    """

    __slots__ = ("_hash", "_total")
    _hash: int
    _total: bool

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """The expressions that this one is made of."""
        return ()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}: expressions are immutable, {name} cannot be set.")

    def _key(self) -> Any:
        """What distinguishes a node from others with the same arguments."""
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        stack: list[tuple[Expression, Expression]] = [(self, other)]
        seen: set[tuple[int, int]] = set()
        while stack:  # a loop, because long sums are deep trees
            a, b = stack.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            if a._hash != b._hash or type(a) is not type(b) or a._key() != b._key():
                return False
            if len(a.arguments) != len(b.arguments):
                return False
            seen.add((id(a), id(b)))
            stack.extend(zip(a.arguments, b.arguments, strict=True))
        return True

    def __repr__(self) -> str:
        parts: list[str] = []
        stack: list[Any] = [self]
        while stack and len(parts) < 400:
            item = stack.pop()
            if isinstance(item, Call):
                parts.append(f"{item.name}(")
                stack.append(")")
                for i, argument in enumerate(reversed(item.arguments)):
                    stack.extend([", "] if i else [])
                    stack.append(argument)
            else:
                parts.append(item if isinstance(item, str) else str(item._key()))
        return "".join(parts) + ("..." if stack else "")


class Number(Expression):
    """A constant."""

    __slots__ = ("value",)
    value: float

    def __init__(self, value: float) -> None:
        value = float(value)
        self._set(value=value, _hash=hash(("number", repr(value + 0.0))), _total=math.isfinite(value))

    def _key(self) -> Any:
        return "nan" if self.value != self.value else self.value

    def __reduce__(self) -> Any:
        return Number, (self.value,)


class Variable(Expression):
    """What an expression is a function of."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str = "x") -> None:
        self._set(name=name, _hash=hash(("variable", name)), _total=True)

    def _key(self) -> Any:
        return self.name

    def __reduce__(self) -> Any:
        return Variable, (self.name,)


class Call(Expression):
    """A named function of expressions; :func:`call` makes them, and simplifies on the way.

    Names are those of :mod:`selmatch.functions`, the operators add, subtract, multiply, divide, negative, the
    conditions less, less_equal, greater, greater_equal, equal, not_equal, and, or, not, and those of
    :data:`DEFINITIONS`.
    """

    __slots__ = ("_arguments", "name")
    name: str
    _arguments: tuple[Expression, ...]

    def __init__(self, name: str, arguments: tuple[Expression, ...]) -> None:
        judged = arguments[1:] if name == "where" else arguments
        self._set(
            name=name,
            _arguments=arguments,
            _hash=hash((name, arguments)),
            _total=name in _TOTAL and all(argument._total for argument in judged),
        )

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return self._arguments

    def _key(self) -> Any:
        return self.name

    def __reduce__(self) -> Any:
        return Call, (self.name, self.arguments)


class Integral(Expression):
    """The integral of a formula from a score to an expression; at ``places`` the formula has kinks and jumps."""

    __slots__ = ("_arguments", "formula", "places", "start")
    formula: tuple[Step, ...]
    start: float
    places: tuple[float, ...]

    def __init__(
        self, formula: tuple[Step, ...], start: float, places: tuple[float, ...], argument: Expression
    ) -> None:
        hashed = hash(("integral", formula, start, argument))
        self._set(formula=formula, start=start, places=places, _arguments=(argument,), _hash=hashed, _total=False)

    @property
    def arguments(self) -> tuple[Expression, ...]:
        return self._arguments

    def _key(self) -> Any:
        return "integral", self.formula, self.start


#: functions that are finite at every finite argument, in exact arithmetic and (but for huge numbers) in floating point
_TOTAL = frozenset(
    "add subtract multiply negative abs square minimum maximum sign side fold mirror positive_part where within "
    "sigmoid softplus tanh arctan arcsinh hypot1 sin cos omega signedlog".split()
)
#: functions whose values are conditions
CONDITIONS = frozenset("less less_equal greater greater_equal equal not_equal and or not isfinite".split())
#: functions that are only names, in terms of the others
DEFINITIONS: dict[str, Callable[..., Any]] = {
    "arctanh": lambda x: 0.5 * (f.log1p(x) - f.log1p(-x)),
    "signedlog": lambda x: f.side(x) * f.log1p(f.mirror(x)),
}


def is_call(expression: Expression, *names: str) -> bool:
    """Whether an expression is a call of one of the named functions."""
    return isinstance(expression, Call) and expression.name in names


def is_value(expression: Expression, value: float) -> bool:
    """Whether an expression is a given number."""
    return isinstance(expression, Number) and expression.value == value


# ------------------------------------------------------------------------------------------------- making expressions


def call(name: str, *arguments: Expression) -> Expression:
    """A function of expressions, in its simplest form that has the same value at every finite point.

    Constants are combined only where the result is exact.

    Examples
    --------
    >>> from selmatch.arrays.trace import Number, Variable, call
    >>> call("add", call("multiply", Number(1.0), Variable("x")), Number(-2.0))
    subtract(x, 2.0)
    """
    rule = _RULES.get(name)
    simple = rule(*arguments) if rule else None
    return Call(name, arguments) if simple is None else simple


def _negative_number(a: Expression) -> bool:
    return isinstance(a, Number) and a.value < 0.0


def _exact(op: Callable[[Any, Any], Any], a: Expression, b: Expression) -> Expression | None:
    """The result of an operation on two numbers, where it needs no rounding."""
    if not (isinstance(a, Number) and isinstance(b, Number)):
        return None
    if not (math.isfinite(a.value) and math.isfinite(b.value)) or {math.pi, math.e} & {abs(a.value), abs(b.value)}:
        return None  # multiples of pi are easier to read as such
    if op is operator.truediv and b.value == 0.0:
        return None
    result = op(a.value, b.value)
    exact = math.isfinite(result) and op(Fraction(a.value), Fraction(b.value)) == Fraction(result)
    return Number(result) if exact else None


def _add(a: Expression, b: Expression) -> Expression | None:
    if is_value(a, 0.0):
        return b
    if is_value(b, 0.0):
        return a
    folded = _exact(operator.add, a, b)
    if folded is not None:
        return folded
    if is_call(b, "negative") or _negative_number(b):
        return call("subtract", a, call("negative", b))
    return call("subtract", b, a.arguments[0]) if is_call(a, "negative") else None


def _subtract(a: Expression, b: Expression) -> Expression | None:
    if is_value(b, 0.0):
        return a
    if is_value(a, 0.0):
        return call("negative", b)
    folded = _exact(operator.sub, a, b)
    if folded is not None:
        return folded
    if is_call(b, "negative") or _negative_number(b):
        return call("add", a, call("negative", b))
    return None


def _multiply(a: Expression, b: Expression) -> Expression | None:
    if isinstance(b, Number) and not isinstance(a, Number):
        a, b = b, a
    folded = _exact(operator.mul, a, b)
    if folded is not None:
        return folded
    if is_value(a, 1.0):
        return b
    if is_value(a, 0.0) and b._total:
        return Number(0.0)
    if is_call(a, "negative") or (_negative_number(a) and not isinstance(b, Number)):
        return call("negative", call("multiply", call("negative", a), b))
    if is_call(b, "negative"):
        return call("negative", call("multiply", a, b.arguments[0]))
    return Call("multiply", (a, b))


def _divide(a: Expression, b: Expression) -> Expression | None:
    if is_value(b, 1.0):
        return a
    folded = _exact(operator.truediv, a, b)
    if folded is not None:
        return folded
    if is_call(a, "negative") or (_negative_number(a) and not isinstance(b, Number)):
        return call("negative", call("divide", call("negative", a), b))
    if _negative_number(b) and not isinstance(a, Number):
        return call("negative", call("divide", a, call("negative", b)))
    return None


def _negative(a: Expression) -> Expression | None:
    if isinstance(a, Number):
        return Number(-a.value)
    if is_call(a, "negative"):
        return a.arguments[0]
    if is_call(a, "subtract"):
        return call("subtract", a.arguments[1], a.arguments[0])
    if is_call(a, "fold") and is_call(a.arguments[0], "negative"):
        return call("mirror", a.arguments[0].arguments[0])
    return None


def _power(a: Expression, d: Expression) -> Expression | None:
    if is_value(d, 1.0):
        return a
    if is_value(d, 0.0):
        return Number(1.0)
    return call("square", a) if is_value(d, 2.0) else None


def _even(name: str) -> Callable[[Expression], Expression | None]:
    """The rule of an even function: signs and absolute values in its argument make no difference."""

    def rule(a: Expression) -> Expression | None:
        if isinstance(a, Number):
            value = abs(a.value) if name == "abs" else a.value * a.value
            return Number(value) if name == "abs" or Fraction(value) == Fraction(a.value) ** 2 else None
        return call(name, a.arguments[0]) if is_call(a, "negative", "abs", "mirror") else None

    return rule


def _square(a: Expression) -> Expression | None:
    if isinstance(a, Number) and not math.isfinite(a.value * a.value):
        return None
    return _even("square")(a)


def _choice(op: Callable[[float, float], float]) -> Callable[[Expression, Expression], Expression | None]:
    def rule(a: Expression, b: Expression) -> Expression | None:
        both = isinstance(a, Number) and isinstance(b, Number) and a.value == a.value and b.value == b.value
        return Number(op(a.value, b.value)) if both else None  # type: ignore[attr-defined]

    return rule


def _where(condition: Expression, a: Expression, b: Expression) -> Expression | None:
    if isinstance(condition, Number):
        return a if condition.value else b
    return a if a == b else None


def _compared(op: Callable[[float, float], bool]) -> Callable[[Expression, Expression], Expression | None]:
    def rule(a: Expression, b: Expression) -> Expression | None:
        if isinstance(a, Number) and isinstance(b, Number):
            return Number(float(op(a.value, b.value)))
        return None

    return rule


def _and(a: Expression, b: Expression) -> Expression | None:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Number):
            return y if x.value else x
    return a if a == b else None


def _or(a: Expression, b: Expression) -> Expression | None:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Number):
            return x if x.value else y
    return a if a == b else None


def _known(values: dict[float, float]) -> Callable[[Expression], Expression | None]:
    """The rule of a function with exact values at a few numbers."""

    def rule(a: Expression) -> Expression | None:
        return Number(values[a.value]) if isinstance(a, Number) and a.value in values else None

    return rule


def _on_number(function: Callable[[float], float]) -> Callable[[Expression], Expression | None]:
    def rule(a: Expression) -> Expression | None:
        return Number(function(a.value)) if isinstance(a, Number) and a.value == a.value else None

    return rule


_RULES: dict[str, Callable[..., Expression | None]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": _negative,
    "power": _power,
    "abs": _even("abs"),
    "square": _square,
    "minimum": _choice(min),
    "maximum": _choice(max),
    "where": _where,
    "less": _compared(operator.lt),
    "less_equal": _compared(operator.le),
    "greater": _compared(operator.gt),
    "greater_equal": _compared(operator.ge),
    "equal": _compared(operator.eq),
    "not_equal": _compared(operator.ne),
    "and": _and,
    "or": _or,
    "not": _on_number(lambda value: float(not value)),
    "sign": _on_number(lambda value: float((value > 0) - (value < 0))),
    "side": _on_number(lambda value: -1.0 if value < 0 else 1.0),
    "fold": _on_number(lambda value: -abs(value)),
    "mirror": _on_number(abs),
    "positive_part": _on_number(lambda value: max(value, 0.0)),
    "exp": _known({0.0: 1.0}),
    "cosh": _known({0.0: 1.0}),
    "cos": _known({0.0: 1.0}),
    "log": _known({1.0: 0.0}),
    "sqrt": _known({0.0: 0.0, 1.0: 1.0, 4.0: 2.0, 9.0: 3.0}),
    "sigmoid": _known({0.0: 0.5}),
    **{
        name: _known({0.0: 0.0})
        for name in ("sin", "tan", "sinh", "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "expm1", "log1p")
    },
}

# ------------------------------------------------------------------------------------------------ walking expressions


def walk(expression: Expression, known: Container[Expression] = ()) -> Iterator[Expression]:
    """Every node once, arguments before the calls that use them; nothing inside of nodes that are known already."""
    seen: set[Expression] = set()
    stack: list[tuple[Expression, bool]] = [(expression, False)]
    while stack:
        node, ready = stack.pop()
        if node in seen or node in known:
            continue
        if ready or not node.arguments:
            seen.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((argument, False) for argument in reversed(node.arguments))


def combine(expression: Expression, rule: Callable[..., Any], known: dict[Expression, Any] | None = None) -> Any:
    """The result of ``rule(node, *results of its arguments)`` at the root; each node is worked out once.

    Results are looked for and left in ``known``, for callers who ask about several parts of one expression.

    Examples
    --------
    >>> from selmatch.arrays.trace import combine, trace
    >>> combine(trace(lambda x: x * x + x), lambda node, *sizes: 1 + sum(sizes))  # how long it is written out
    5
    """
    results: dict[Expression, Any] = {} if known is None else known
    if expression not in results:
        for node in walk(expression, results):
            results[node] = rule(node, *(results[argument] for argument in node.arguments))
    return results[expression]


def written_size(expression: Expression) -> int:
    """The number of nodes of an expression when shared parts are written out each time."""
    return combine(expression, lambda node, *sizes: 1 + sum(sizes))


def substitute(expression: Expression, replacements: Mapping[Expression, Expression]) -> Expression:
    """An expression with some of its parts replaced, and simplified again."""

    def rule(node: Expression, *arguments: Expression) -> Expression:
        if node in replacements:
            return replacements[node]
        return call(node.name, *arguments) if isinstance(node, Call) else node

    return combine(expression, rule)


class Step(NamedTuple):
    """One operation of a flattened expression."""

    #: "number", "variable" or the name of a function
    name: str
    #: which earlier steps it uses
    arguments: tuple[int, ...]
    #: the number, or the name of the variable
    value: Any = None


def steps(expression: Expression) -> tuple[Step, ...]:
    """An expression as a list of operations, each written once; the last one is the result.

    Examples
    --------
    >>> from selmatch.arrays.trace import steps, trace
    >>> for step in steps(trace(lambda x: functions.exp(x) / (1.0 + functions.exp(x)))):
    ...     print(step.name, step.arguments)
    variable ()
    exp (0,)
    number ()
    add (2, 1)
    divide (1, 3)
    """
    places: dict[Expression, int] = {}
    result: list[Step] = []
    for node in walk(expression):
        if isinstance(node, Number):
            step = Step("number", (), node.value)
        elif isinstance(node, Variable):
            step = Step("variable", (), node.name)
        elif isinstance(node, Integral):
            step = Step("integral", (places[node.arguments[0]],), (node.formula, node.start, node.places))
        else:
            step = Step(node._key(), tuple(places[argument] for argument in node.arguments))
        places[node] = len(result)
        result.append(step)
    return tuple(result)


def _divided(a: Any, b: Any) -> Any:
    if is_number(a) and is_number(b) and b == 0:
        with np.errstate(all="ignore"):
            return float(np.float64(a) / np.float64(b))
    return a / b


_OPERATORS: dict[str, Callable[..., Any]] = {
    **OPERATORS,
    "divide": _divided,
    "and": operator.and_,
    "or": operator.or_,
    "not": lambda condition: not condition if isinstance(condition, bool) else ~condition,
}


def apply(name: str, *arguments: Any) -> Any:
    """A function of expressions on numbers or arrays.

    Examples
    --------
    >>> from selmatch.arrays.trace import apply
    >>> apply("divide", 1.0, 0.0)
    inf
    """
    function = _OPERATORS.get(name) or DEFINITIONS.get(name)
    if function is not None:
        return function(*arguments)
    return getattr(f, name)(*arguments)


def run(program: tuple[Step, ...], values: Mapping[str, Array] | Array) -> Array:
    """The result of a flattened expression; see :func:`evaluate`."""
    named = values if isinstance(values, Mapping) else None
    anchor: Any = None if named is not None else values
    symbolic = type(values) is Traced and _symbolic.get()
    fold = (
        None
        if named is not None or is_number(values)
        else getattr(f.quick_namespace_of(values), "fold_constants", None)
    )
    results: list[Any] = []
    varying: set[int] = set()
    for place, (name, arguments, value) in enumerate(program):
        if name == "number":
            result = Traced(Number(value)) if symbolic else value
        elif name == "variable":
            result = values if named is None else named[value]
            anchor = result
            varying.add(place)
        elif fold is not None and varying.isdisjoint(arguments):
            result = fold(values, functools.partial(apply, name), [results[i] for i in arguments])
        elif name == "where":
            condition, a, b = (results[i] for i in arguments)
            if isinstance(condition, (bool, float)):
                result = a if condition else b
            else:
                # numbers alone do not know the dtype of the scores
                result = f.where(condition, a, b + 0.0 * anchor if is_number(a) and is_number(b) else b)
        else:
            result = apply(name, *(results[i] for i in arguments))
        if fold is not None and not varying.isdisjoint(arguments):
            varying.add(place)
            if is_number(result) and not isinstance(result, bool):  # what a choice has made constant is not rounded
                result = result + 0.0 * anchor
        results.append(result)
    last = results[-1]
    return last + 0.0 * values if named is None and is_number(last) else last  # type: ignore[operator]


def evaluate(expression: Expression, values: Mapping[str, Array] | Array) -> Array:
    """The value of an expression, on arrays of any type that :mod:`selmatch.functions` knows.

    Parameters
    ----------
    expression : Expression
        What to evaluate.
    values : array, number or mapping
        The value of the variable; with several variables, a mapping from their names.

    Examples
    --------
    >>> from selmatch.arrays.trace import evaluate, trace
    >>> evaluate(trace(Sinh()), np.zeros(2))
    array([0., 0.])
    """
    return run(steps(expression), values)


# ----------------------------------------------------------------------------------------------- the type that traces


#: whether a formula has tried to branch on a value, or to make a number of it, even if it went on without
_tried: ContextVar[bool] = ContextVar("tried", default=False)
#: whether numbers of a flattened formula are recorded too, so that nothing is rounded before it is traced
_symbolic: ContextVar[bool] = ContextVar("symbolic", default=False)


class Traced:
    """A variable that records what a formula does with it."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"Traced({self.expression!r})"

    def __bool__(self) -> bool:
        _tried.set(True)
        raise TypeError("trace: a formula must not branch on values. Use functions.where, minimum or maximum.")

    def __float__(self) -> float:
        _tried.set(True)
        raise TypeError("trace: a formula must not turn its variable into a number.")

    __hash__ = None  # type: ignore[assignment]

    def __pos__(self) -> Traced:
        return self


def expression_of(value: Any) -> Expression:
    """The expression of what a formula returned or met: a recorded variable, or a number."""
    if isinstance(value, Traced):
        return value.expression
    if isinstance(value, (bool, np.bool_)):
        return Number(float(value))
    if is_number(value) or isinstance(value, np.number) or getattr(value, "ndim", None) == 0:
        try:
            return Number(float(getattr(value, "detach", lambda: value)()))
        except (TypeError, ValueError):
            pass
    raise TypeError(f"trace: a formula must combine its variable with numbers, got {type(value).__name__}.")


def _recorded(name: str, *arguments: Any) -> Traced:
    return Traced(call(name, *map(expression_of, arguments)))


def _method(name: str, reflected: bool = False) -> Any:
    def method(*arguments: Any) -> Traced:
        return _recorded(name, *(reversed(arguments) if reflected else arguments))

    return method


for _operator, _name in (
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("truediv", "divide"),
    ("pow", "power"),
    ("and", "and"),
    ("or", "or"),
):
    setattr(Traced, f"__{_operator}__", _method(_name))
    setattr(Traced, f"__r{_operator}__", _method(_name, reflected=True))
for _operator, _name in (
    ("neg", "negative"),
    ("abs", "abs"),
    ("invert", "not"),
    ("lt", "less"),
    ("le", "less_equal"),
    ("gt", "greater"),
    ("ge", "greater_equal"),
    ("eq", "equal"),
    ("ne", "not_equal"),
):
    setattr(Traced, f"__{_operator}__", _method(_name))


class DoubleNeeded(TypeError):
    """A formula wants double precision, and is being recorded for single precision."""


_single: ContextVar[bool] = ContextVar("single", default=False)
_helpers: ContextVar[bool] = ContextVar("helpers", default=False)


@contextmanager
def recording(single: bool, *, helpers: bool = False) -> Iterator[None]:
    """Formulas recorded inside are for single precision: series end sooner, and :class:`DoubleNeeded` may be raised.

    With ``helpers`` the small series that formulas share are held as one node each, for devices that have their own.
    """
    tokens = _single.set(single), _helpers.set(helpers)
    try:
        yield
    finally:
        _single.reset(tokens[0])
        _helpers.reset(tokens[1])


#: the results of each function marked by :func:`selmatch.functions.helper`, as names of nodes and their arguments
HELPERS: dict[str, Callable[..., tuple[tuple[str, tuple[Any, ...]], ...]]] = {
    "hyperbolic": lambda u: (("cosh_less_one", (u,)), ("sinh_less_line", (u,))),
    "half_exponentials": lambda x: (("half_exp", (x,)), ("half_exp", (-x,))),
    "psi_series": lambda a: (("psi_series", (a,)),),
    "scaled_phi": lambda e, eh, u: (("scaled_phi", (e, eh, u)),),
    "scaled_expm1": lambda e, eh, u: (("scaled_expm1", (e, eh, u)),),
    "sigmoid_remainder": lambda *move: (("sigmoid_remainder", move),),
    "sigmoid_difference": lambda *move: (("sigmoid_difference", move),),
    "sigmoid_both": lambda *move: (("sigmoid_remainder", move), ("sigmoid_difference", move)),
    "sinh_remainder": lambda *move: (("sinh_remainder", move),),
    "sinh_difference": lambda *move: (("sinh_difference", move),),
    "sinh_both": lambda *move: (("sinh_remainder", move), ("sinh_difference", move)),
}


class TraceNamespace:
    """The functions of formulas on recorded variables."""

    name = "traces"
    is_library = False

    @staticmethod
    def is_single(x: Traced) -> bool:
        return _single.get()  # by default not: the longer series holds in any precision

    @staticmethod
    def double(x: Traced) -> Traced:
        if _single.get():
            raise DoubleNeeded("trace: the formula needs double precision.")
        return x

    @staticmethod
    def widen(x: Traced) -> Traced:
        return x

    @staticmethod
    def cast(x: Traced, like: Traced) -> Traced:
        return x

    @staticmethod
    def integral(curve: Any, x: Traced) -> Traced | None:
        """The primitive of a curve without a closed form: held as it is in a proof, by quadrature otherwise."""
        if not _symbolic.get():
            return None
        formula = steps(trace(curve))
        return Traced(Integral(formula, float(curve.domain.point()), tuple(curve.places), x.expression))

    @staticmethod
    def helper(name: str, *arguments: Any) -> Any:
        """A shared series as nodes of its own, where that is asked for."""
        if not _helpers.get():
            return None
        nodes = tuple(_recorded(part, *of) for part, of in HELPERS[name](*arguments))
        return nodes[0] if len(nodes) == 1 else nodes


#: the functions that a trace holds as one node
FUNCTIONS = tuple(
    "exp expm1 log log1p sqrt square sin cos tan sinh cosh tanh arcsin arctan arcsinh arctan2 abs sign side fold "
    "positive_part minimum maximum where power xlogy within isfinite sigmoid softplus hypot1 phi omega logit".split()
)
for _name in FUNCTIONS:
    setattr(TraceNamespace, _name, staticmethod(_method(_name)))

f.register(Traced, TraceNamespace)
Traced.__array_ufunc__ = through(  # type: ignore[attr-defined]
    TraceNamespace, lambda x: x if isinstance(x, Traced) else Traced(expression_of(x))
)


def trace(function: Callable[..., Any], *variables: str) -> Expression:
    """The expression of a curve, or of any function written with :mod:`selmatch.functions`.

    Parameters
    ----------
    function : callable
        A curve, one of its methods, or a function.
    variables : str
        Names of its arguments; one variable x by default.

    Raises
    ------
    TypeError
        If the function branches on values, or needs arrays.

    Examples
    --------
    >>> from selmatch.arrays.trace import trace
    >>> trace(Sinh().affine(alpha=2.0))
    sinh(multiply(2.0, x))
    >>> trace(Exp().difference, "x", "u").name
    'where'
    """
    names = variables or ("x",)
    return expression_of(function(*(Traced(Variable(name)) for name in names)))


def trace_exactly(function: Callable[..., Any]) -> Expression:
    """The expression of a function of one score for a proof: constants are not rounded, and branches never pass unseen.

    Raises
    ------
    TypeError
        Also if the function has caught the error of a branch on values, and went on.
    """
    tried, symbolic = _tried.set(False), _symbolic.set(True)
    try:
        found = trace(function)
        if _tried.get():
            raise TypeError("trace: a formula must not branch on values, nor go on without them.")
        return found
    finally:
        _tried.reset(tried)
        _symbolic.reset(symbolic)
