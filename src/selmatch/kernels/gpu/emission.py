"""From a potential to the device functions that kernels call: its curve traced, its parameters as arguments.

Every parameter that PyTorch or JAX may change (alpha, beta, gain, gamma, rho, ...) is read from an array when a kernel
runs, so that one compiled kernel serves them all. The other numbers of a formula (knots, powers, coefficients) are
part of the code.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from selmatch import functions
from selmatch.arrays import pytrees
from selmatch.arrays.trace import DEFINITIONS, Call, Expression, Number, Traced, Variable, call, expression_of
from selmatch.curve import Curve
from selmatch.kernels import emit


def _sinh(x: Any) -> Any:
    near = Traced(call("sinh_near_0", expression_of(x)))
    up, down = functions.half_exponentials(x)
    return functions.where(functions.abs(x) <= 0.125, near, up - down)


def _cosh(x: Any) -> Any:
    up, down = functions.half_exponentials(x)
    return up + down


def _power(x: Any, d: Any) -> Any:
    """Whole powers as products, also of negative numbers."""
    exponent = expression_of(d)
    value = exponent.value if isinstance(exponent, Number) else 0.0
    if value not in range(3, 17):
        return Traced(call("real_power", expression_of(x), exponent))
    result, count = x, int(value)
    for digit in f"{count:b}"[1:]:
        result = functions.square(result)
        result = result * x if digit == "1" else result
    return result


#: GPUs, by Triton: single precision only
GPU = emit.Target(
    {**DEFINITIONS, "sinh": _sinh, "cosh": _cosh, "power": _power},
    {
        **emit.CPU.written,
        "negative": "negative({})", "not": "({}) == 0", "where": "tl.where({}, {}, {})", "abs": "tl.abs({})",
        "fold": "negative(tl.abs({}))", "mirror": "tl.abs({})", "positive_part": "maximum({}, 0.0)",
        "real_power": "power({}, {})",
    },
    tuple(
        "exp expm1 log log1p tanh arcsinh sin cos tan arcsin arctan arctan2 minimum maximum side sign within xlogy "
        "isfinite sigmoid softplus hypot1 phi omega logit half_exp cosh_less_one sinh_less_line sinh_near_0 "
        "psi_series scaled_phi scaled_expm1 sigmoid_remainder sigmoid_difference sinh_remainder sinh_difference".split()
    ),
    helpers=True,
    double=False,
)  # fmt: skip


def _holds_parameters(tree: Any) -> bool:
    """Whether an object has parameters; where a formula bends was measured with its numbers, which stay as they are."""
    return dataclasses.is_dataclass(tree) and not getattr(tree, "only_a_formula", False)


def parameters(tree: Any) -> Iterator[Any]:
    """Every parameter of a tree of curves, depth first, in the order of its fields."""
    if _holds_parameters(tree):
        for value in pytrees.flatten(tree)[0]:
            yield from parameters(value)
    elif isinstance(tree, tuple):
        for value in tree:
            yield from parameters(value)
    elif tree is not None and not dataclasses.is_dataclass(tree):
        yield tree


def with_parameters(tree: Any, values: Iterator[Any]) -> Any:
    """A tree of curves with other parameters, whatever they are; nothing is checked."""
    if _holds_parameters(tree):
        children, structure = pytrees.flatten(tree)
        return pytrees.rebuild(type(tree), structure, [with_parameters(child, values) for child in children])
    if isinstance(tree, tuple):
        return tuple(with_parameters(value, values) for value in tree)
    return tree if tree is None or dataclasses.is_dataclass(tree) else next(values)


def symbolic(curve: Curve) -> tuple[Curve, int]:
    """A curve whose parameters are variables c0, c1, ..., and how many there are."""
    count = sum(1 for _ in parameters(curve))
    return with_parameters(curve, (Traced(Variable(f"c{i}")) for i in range(count))), count


def _halves(x: Any) -> tuple[Any, Any]:
    """e^x / 2 and e^-x / 2, the second without a special function, of which GPUs have few units."""
    up, _ = functions.half_exponentials(x)
    return up, Traced(call("quarter_over", expression_of(up)))


#: the same where sinh need not be accurate in relative terms close to 0
ROUGH = GPU._replace(
    formulas={
        **GPU.formulas,
        "sinh": lambda x: operator.sub(*_halves(x)),
        "cosh": lambda x: operator.add(*_halves(x)),
    },
    called=(*GPU.called, "quarter_over"),
)


def routine(name: str, function: Callable[..., Any], *variables: str, count: int, target: emit.Target = GPU) -> str:
    """The source of a device function of some scores and the tuple c of ``count`` parameters.

    Raises
    ------
    NotCompilable
        If the function cannot be traced, grows too long or needs double precision.
    """
    recorded = emit.record(name, function, *variables, single=True, target=target)
    names: dict[Expression, str] = {Variable(f"c{i}"): f"c[{i}]" for i in range(count)}

    def operand(argument: Expression) -> str:
        return _literal(argument.value) if isinstance(argument, Number) else names[argument]

    lines = ["@triton.jit", f"def {name}({', '.join((*variables, 'c'))}):"]
    for node in emit.nodes(recorded.results):
        if isinstance(node, Variable):
            names.setdefault(node, node.name)
        elif isinstance(node, Call):
            names[node] = f"v{len(names)}"
            lines.append(f"    {names[node]} = {emit.written(target, node, [operand(a) for a in node.arguments])}")
    lines.append(f"    return {', '.join(operand(result) for result in recorded.results)}")
    return "\n".join(lines)


def _literal(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return f'float("{value}")'


def constants(count: int) -> str:
    """The source of the function that reads the parameters from memory."""
    entries = [f"tl.load(numbers + {i})" for i in range(count)]
    return f"@triton.jit\ndef constants(numbers):\n    return ({', '.join(entries) or '0.0'},)"
