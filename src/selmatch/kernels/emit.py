"""From curves to source code: the functions of a curve, traced and written out for the compiler.

Numbers in a formula (alpha, knots, coefficients) become arguments of the code, so that curves of one form share one
compiled kernel. Only 0 stays in it; formulas have already been simplified where alpha or gain is 1, or beta 0.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from selmatch import functions
from selmatch.arrays.trace import (
    DEFINITIONS,
    Call,
    DoubleNeeded,
    Expression,
    Number,
    Traced,
    Variable,
    combine,
    expression_of,
    is_call,
    recording,
    walk,
)

_log = logging.getLogger(__name__)
#: a formula with more operations than this holds an unrolled search or integral, which NumPy does better
LONGEST = 600


class Target(NamedTuple):
    """What code is written for."""

    #: functions whose own formula, in other functions, is written out
    formulas: Mapping[str, Callable[..., Any]]
    #: operations as patterns of code
    written: Mapping[str, str]
    #: functions that are called by their name
    called: tuple[str, ...]
    #: whether it has the series that formulas share, and double precision
    helpers: bool
    double: bool


_WRITTEN: dict[str, str] = {
    "add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "divide": "{} / {}", "negative": "-{}",
    "square": "{0} * {0}", "less": "{} < {}", "less_equal": "{} <= {}", "greater": "{} > {}",
    "greater_equal": "{} >= {}", "equal": "{} == {}", "not_equal": "{} != {}", "and": "{} & {}", "or": "{} | {}",
    "not": "not {}", "where": "select({}, {}, {})", "fold": "-absolute({})", "mirror": "absolute({})",
    "abs": "absolute({})", "sqrt": "square_root({})", "positive_part": "{p}maximum({}, {p}zero)",
}  # fmt: skip
#: functions of :mod:`selmatch.kernels.cpu_functions` that are called by their name
CALLED = tuple(
    "exp expm1 log log1p sinh cosh tanh arcsinh sin cos tan arcsin arctan arctan2 power minimum maximum "
    "side sign within xlogy isfinite".split()
)
#: processors, by Numba
CPU = Target(
    {
        **{name: getattr(functions, name).__wrapped__ for name in "sigmoid softplus hypot1 phi omega logit".split()},
        **DEFINITIONS,
    },
    _WRITTEN,
    CALLED,
    helpers=False,
    double=True,
)


class NotCompilable(TypeError):
    """A curve whose formula cannot be turned into code; the message says why."""


class Routine(NamedTuple):
    """One function of a curve as source code, and the numbers that it takes from its last argument."""

    source: str
    numbers: tuple[float, ...]


class Recorded(NamedTuple):
    """The expressions that a function of a curve returns, and whether they must be computed in double precision."""

    name: str
    variables: tuple[str, ...]
    results: tuple[Expression, ...]
    double: bool


@functools.cache
def has_sources() -> bool:
    """Whether selmatch was installed with its source files: kernels are copied from them."""
    try:
        inspect.getsource(sys.modules[__name__])
    except OSError:
        _log.warning("selmatch was installed without its source files: NumPy and PyTorch do the work of kernels")
        return False
    return True


def record(name: str, function: Callable[..., Any], *variables: str, single: bool, target: Target = CPU) -> Recorded:
    """Run a function of a curve on variables.

    Raises
    ------
    NotCompilable
        If the function branches on values, needs arrays or grows too long.
    """
    rewritten = _rewriting(target)
    for precise in (False, True)[: 1 + target.double] if single else (True,):
        try:
            with recording(not precise, helpers=target.helpers):
                made = function(*(Traced(Variable(variable)) for variable in variables))
                made = made if isinstance(made, tuple) else (made,)
                known: dict[Expression, Expression] = {}
                results = tuple(combine(expression_of(result), rewritten, known) for result in made)
                results = _sharing(results)
        except DoubleNeeded:
            continue
        except NotImplementedError:
            raise
        except Exception as error:  # whatever a user's formula does with an object that is no array
            raise NotCompilable(f"its {name} cannot be traced ({error})") from error
        size = len(nodes(results))
        if size > LONGEST:
            raise NotCompilable(f"its {name} has {size} operations, more than {LONGEST}")
        return Recorded(name, variables, results, precise)
    raise NotCompilable(f"its {name} asks for double precision")


def nodes(results: tuple[Expression, ...]) -> list[Expression]:
    """Every operation of several expressions once, arguments first."""
    seen: dict[Expression, None] = {}
    for result in results:
        for node in walk(result, seen):
            seen[node] = None
    return list(seen)


def _rewriting(target: Target) -> Callable[..., Expression]:
    """A rule that gives a node in terms of functions that can be called, with the signs of numbers inside the numbers.

    The tracer writes ``x - 2`` and ``x + 2`` for shifts by 2 and by -2; here both are ``x + number``, one form of code.
    """

    def rewritten(node: Expression, *arguments: Expression) -> Expression:
        if not isinstance(node, Call):
            return node
        formula = target.formulas.get(node.name)
        if formula is not None:
            inner = expression_of(formula(*map(Traced, arguments)))
            return combine(inner, rewritten, dict(zip(arguments, arguments, strict=True)))
        rule = _RULES.get(node.name)
        return Call(node.name, arguments) if rule is None else rule(*arguments)

    return rewritten


def _negated(a: Expression) -> Expression | None:
    """``-a``, where the sign can go into a number."""
    if isinstance(a, Number):
        return Number(-a.value)
    if is_call(a, "multiply") and isinstance(a.arguments[0], Number):
        return Call("multiply", (Number(-a.arguments[0].value), a.arguments[1]))
    return None


def _add(a: Expression, b: Expression) -> Expression:
    return Call("add", (b, a) if isinstance(a, Number) else (a, b))


def _subtract(a: Expression, b: Expression) -> Expression:
    negated = _negated(b)
    return Call("subtract", (a, b)) if negated is None else _add(a, negated)


def _negative(a: Expression) -> Expression:
    negated = _negated(a)
    return Call("negative", (a,)) if negated is None else negated


def _divide(a: Expression, b: Expression) -> Expression:
    """A division by a number as a product, which costs a quarter of it."""
    if isinstance(b, Number) and 1e-30 < abs(b.value) < 1e30 and not isinstance(a, Number):
        return Call("multiply", (Number(1.0 / b.value), a))
    return Call("divide", (a, b))


def _multiply(a: Expression, b: Expression) -> Expression:
    return Call("square", (a,)) if a == b else Call("multiply", (a, b))


def _fold(a: Expression) -> Expression:
    """``-|a|``, without the factors in a that only change its sign."""
    if is_call(a, "negative"):
        return _fold(a.arguments[0])
    if is_call(a, "multiply"):
        first, second = a.arguments
        if is_call(first, "side") or is_call(second, "side"):
            return _fold(second if is_call(first, "side") else first)
        if isinstance(first, Number) and first.value < 0:
            return Call("fold", (Call("multiply", (Number(-first.value), second)),))
    return Call("fold", (a,))


_RULES: dict[str, Callable[..., Expression]] = {
    "add": _add,
    "multiply": _multiply,
    "fold": _fold,
    "subtract": _subtract,
    "negative": _negative,
    "divide": _divide,
}


# ------------------------------------------------------------------------------------------------- work that is shared


def _sharing(results: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Expressions with fewer exponentials and divisions, for an error of 1 or 2 ulp more.

    Formulas that are accurate in every tail use e^(y/2) here, e^y there, and divide by 1 + e^y for y <= 0 several
    times: once is enough.
    """
    results = _replaced(results, _squares_for_exponentials(nodes(results)))
    return _replaced(results, _products_for_quotients(nodes(results)))


def _replaced(results: tuple[Expression, ...], rules: dict[Expression, Expression]) -> tuple[Expression, ...]:
    known: dict[Expression, Expression] = {}

    def rule(node: Expression, *arguments: Expression) -> Expression:
        new = rules.get(node)
        if new is not None:
            return new
        return Call(node.name, arguments) if isinstance(node, Call) else node

    return tuple(combine(result, rule, known) for result in results)


def _squares_for_exponentials(nodes: list[Expression]) -> dict[Expression, Expression]:
    """e^y as the square of e^(y/2), where both are needed."""
    roots = {
        node.arguments[0].arguments[1]: node
        for node in nodes
        if is_call(node, "exp") and is_call(node.arguments[0], "multiply") and _is_half(node.arguments[0].arguments[0])
    }
    return {
        node: Call("square", (roots[node.arguments[0]],))
        for node in nodes
        if is_call(node, "exp") and node.arguments[0] in roots
    }


def _is_half(a: Expression) -> bool:
    return isinstance(a, Number) and a.value == 0.5


def _products_for_quotients(nodes: list[Expression]) -> dict[Expression, Expression]:
    """a / d and b / d^2 as products with 1 / d, for denominators d between 1 and 2 that occur more than once."""
    quotients: dict[Expression, list[Expression]] = {}
    for node in nodes:
        if is_call(node, "divide"):
            below = node.arguments[1]
            inner = below.arguments[0] if is_call(below, "square") else below
            if _is_one_plus_decay(inner):
                quotients.setdefault(inner, []).append(node)
    rules: dict[Expression, Expression] = {}
    for d, users in quotients.items():
        if len(users) > 1:
            share = Call("divide", (Number(1.0), d))
            for user in users:
                above, below = user.arguments
                factor = Call("square", (share,)) if is_call(below, "square") else share
                rules[user] = factor if above == Number(1.0) else Call("multiply", (above, factor))
    # what is divided may itself hold a quotient
    return {user: _replaced((new,), {k: v for k, v in rules.items() if k != user})[0] for user, new in rules.items()}


def _is_one_plus_decay(d: Expression) -> bool:
    """Whether a denominator is 1 + e^(-|y|), or 1 + (e^(-|y|/2))^2."""
    if not (is_call(d, "add") and d.arguments[1] == Number(1.0)):
        return False
    decay = d.arguments[0]
    if is_call(decay, "square"):
        decay = decay.arguments[0]
    if not is_call(decay, "exp"):
        return False
    y = decay.arguments[0]
    if is_call(y, "multiply") and isinstance(y.arguments[0], Number) and y.arguments[0].value > 0:
        y = y.arguments[1]
    return is_call(y, "fold")


# --------------------------------------------------------------------------------------------------------- source code


def routine(recorded: Recorded, first: int, narrow: bool) -> Routine:
    """The source of a recorded function; its numbers are entries ``first`` and following of the argument c.

    A function that must be computed in double precision inside a loop in single precision (``narrow``) takes and
    returns numbers of single precision.
    """
    widens = recorded.double and narrow
    prefix = "double_" if widens else ""
    numbers: list[float] = []
    names: dict[Expression, str] = {}

    def operand(argument: Expression) -> str:
        if not isinstance(argument, Number):
            return names[argument]
        if argument.value == 0.0:
            return f"{prefix}zero"
        numbers.append(argument.value)
        return f"c[{first + len(numbers) - 1}]"

    lines = [f"def {recorded.name}({', '.join(recorded.variables)}, c):"]
    lines += [f"    {variable} = float64({variable})" for variable in recorded.variables if widens]
    for node in nodes(recorded.results):
        if isinstance(node, Variable):
            names[node] = node.name
        elif isinstance(node, Call):
            names[node] = f"v{len(names)}"
            lines.append(f"    {names[node]} = {written(CPU, node, [operand(a) for a in node.arguments], prefix)}")
    results = [operand(result) for result in recorded.results]
    results = [f"Scalar({result})" if widens else result for result in results]
    lines.append(f"    return {', '.join(results)}")
    return Routine("\n".join(lines), tuple(numbers))


def written(target: Target, node: Call, operands: list[str], prefix: str = "") -> str:
    """The code of one operation."""
    pattern = target.written.get(node.name)
    if pattern is not None:
        return pattern.format(*operands, p=prefix)
    if node.name not in target.called:
        raise NotCompilable(f"it uses {node.name}, which has no compiled form")
    return f"{prefix}{node.name}({', '.join(operands)})"


def constants(double: tuple[bool, ...]) -> str:
    """The source of the function that takes the numbers out of their array, before the loop."""
    entries = [f"numbers[{i}]" if wide else f"Scalar(numbers[{i}])" for i, wide in enumerate(double)]
    return f"def constants(numbers):\n    return ({', '.join(entries) or '0.0'},)"
