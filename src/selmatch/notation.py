"""Curves and losses in writing: LaTeX for people, and formulas that :func:`selmatch.formula.parse` reads again.

Both come from one expression: the trace of the curve, so that curves made by users are written too, or for the curves
of the library the form that a paper would print.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from selmatch import algebra, composite, curves
from selmatch.arrays.trace import (
    DEFINITIONS,
    FUNCTIONS,
    Call,
    Expression,
    Number,
    Variable,
    call,
    combine,
    expression_of,
    is_call,
    is_value,
    substitute,
    trace,
    written_size,
)
from selmatch.curve import Curve

#: an expression with more nodes is no longer read by anybody
_LONGEST = 1500

# ------------------------------------------------------------------------------------------------ what a paper prints


class NotWritten(TypeError):
    """A function that has no formula of readable length."""


def written(curve: Any, x: Expression) -> Expression:
    """The formula of a curve at x, as a paper would print it.

    Raises
    ------
    TypeError
        If the curve cannot run on a variable, or its formula is too long to read.

    Examples
    --------
    >>> from selmatch.arrays.trace import Variable
    >>> written(Polynomial((0.0, 2.0, 1.0)), Variable("z"))
    add(multiply(2.0, z), square(z))
    """
    return _readable(curve, _written(curve, x))


def primitive_written(curve: Any, x: Expression) -> Expression:
    """The formula of a curve's primitive at x, with its constant."""
    return _readable(curve, _primitive(curve, x))


def _readable(curve: Any, expression: Expression) -> Expression:
    if written_size(expression) > _LONGEST:
        raise NotWritten(f"{type(curve).__name__}: no formula of readable length is known.")
    return expression


def _written(curve: Any, x: Expression) -> Expression:
    own = getattr(curve, "expression", None)
    if isinstance(own, Expression):
        return substitute(own, {Variable("z"): x})
    if type(curve).__name__ == "FromSensitivity":
        raise NotWritten("FromSensitivity: a drawing has no short formula.")
    rule = _RULES.get(type(curve))
    return rule(curve, x) if rule else _traced(curve, curve, x)


def _part(curve: Any, x: Expression) -> Expression:
    """The formula of a part of a curve, or its name if it has none."""
    try:
        return _readable(curve, _written(curve, x))
    except NotWritten:
        return Call(type(curve).__name__, (x,))


def _primitive(curve: Any, x: Expression) -> Expression:
    rule = _PRIMITIVES.get(type(curve))
    if rule is None:
        raise NotWritten(f"{type(curve).__name__}: no formula of the primitive is known.")
    return rule(curve, x)


def _traced(curve: Any, function: Callable[..., Any], x: Expression) -> Expression:
    try:
        expression = trace(function)
    except Exception as error:  # a user's formula may do anything
        raise NotWritten(f"{type(curve).__name__}: the formula cannot run on a variable: {error}") from error
    return substitute(_readable(curve, expression), {Variable("x"): x})


def _number(value: Any) -> Expression:
    try:
        return expression_of(value)
    except TypeError as error:
        raise NotWritten(f"notation: parameters must be numbers, got {value!r}.") from error


def _inside(curve: Any, x: Expression) -> Expression:
    """The argument of a curve with caps."""
    if curve.low is not None:
        x = call("maximum", x, Number(curve.low))
    return x if curve.high is None else call("minimum", x, Number(curve.high))


def _argument(curve: Any, x: Expression) -> Expression:
    """alpha (x - beta)."""
    return call("multiply", _number(curve.alpha), call("subtract", x, _number(curve.beta)))


def _total(terms: list[Expression]) -> Expression:
    total = terms[0]
    for term in terms[1:]:
        total = call("add", total, term)
    return total


def _scaled(factor: float, expression: Expression) -> Expression:
    return call("multiply", Number(factor), expression)


def _polynomial(curve: Any, x: Expression, shift: int = 0) -> Expression:
    """The terms of a polynomial, or with shift = 1 those of its primitive."""
    t = call("subtract", x, Number(curve.origin))
    terms = []
    for k, c in enumerate(curve.coefficients):
        if c != 0.0:
            power = _scaled(c, call("power", t, Number(float(k + shift))))
            terms.append(call("divide", power, Number(float(k + shift))) if shift else power)
    return _total(terms) if terms else Number(0.0)


def _piecewise(curve: Any, x: Expression) -> Expression:
    knots, pieces = curve.knots, curve.pieces
    total: Expression = Number(float(pieces[0](knots[0])))
    for knot, piece in zip(knots, pieces, strict=False):
        total = call("where", call("greater", x, Number(knot)), _part(piece, x), total)
    return call("where", call("greater", x, Number(knots[-1])), Number(float(pieces[-1](knots[-1]))), total)


def _signed_power(curve: Any, x: Expression) -> Expression:
    d = Number(curve.d)
    if curve.d % 2.0 == 1.0:
        return call("power", x, d)
    return call("multiply", call("sign", x), call("power", call("abs", x), d))


def _composite_logit(curve: Any, x: Expression) -> Expression:
    """Q / gamma."""
    try:
        primitive = _primitive(curve.scaling, x)
    except NotWritten:
        primitive = _traced(curve.scaling, curve.scaling.primitive, x)
    return call("divide", call("add", primitive, _number(curve.offset)), _number(curve.gamma))


def _step(x: Expression, t: float) -> Expression:
    return call("where", call("greater", x, Number(t)), Number(1.0), Number(0.0))


_RULES: dict[type, Callable[[Any, Expression], Expression]] = {
    curves.Identity: lambda curve, x: x,
    curves.Constant: lambda curve, x: _number(curve.value),
    curves.SignedLog: lambda curve, x: call("signedlog", x),
    curves.Arctanh: lambda curve, x: call("arctanh", x),
    curves.SignedPower: _signed_power,
    curves.Power: lambda curve, x: call("power", x, Number(curve.d)),
    curves.Polynomial: _polynomial,
    curves.Staircase: lambda curve, x: _total(
        [Number(curve.base), *(_scaled(j, _step(x, t)) for t, j in zip(curve.thresholds, curve.jumps, strict=True))]
    ),
    algebra.Affine: lambda curve, x: call("multiply", _number(curve.gain), _part(curve.curve, _argument(curve, x))),
    algebra.Sum: lambda curve, x: _total([_part(term, x) for term in curve.curves]),
    algebra.Capped: lambda curve, x: _part(curve.curve, _inside(curve, x)),
    algebra.Piecewise: _piecewise,
    composite.CompositeSigmoid: lambda curve, x: call(
        "multiply", _part(curve.scaling, x), call("sigmoid", _composite_logit(curve, x))
    ),
}


def _of_one(formula: Callable[[Any], Any]) -> Callable[[Any, Expression], Expression]:
    """A rule for a primitive without parameters, from its formula in operators of expressions."""
    from selmatch.arrays.trace import Traced

    return lambda curve, x: expression_of(formula(Traced(x)))


def _xlogx(x: Any) -> Any:
    from selmatch.functions import log

    return x * log(x)


def _primitive_rules() -> dict[type, Callable[[Any, Expression], Expression]]:
    from selmatch import functions as f

    def log_plus(x: Any) -> Any:
        return f.log1p(f.abs(x))

    plain = {
        curves.Identity: lambda x: f.square(x) / 2.0,
        curves.Sigmoid: f.softplus,
        curves.Tanh: lambda x: f.log(f.cosh(x)),
        curves.Arctan: lambda x: x * f.arctan(x) - f.log(1.0 + f.square(x)) / 2.0,
        curves.Arcsinh: lambda x: x * f.arcsinh(x) - f.hypot1(x) + 1.0,
        curves.Sin: lambda x: 1.0 - f.cos(x),
        curves.SignedLog: lambda x: (1.0 + f.abs(x)) * log_plus(x) - f.abs(x),
        curves.Exp: f.exp,
        curves.AntiExp: lambda x: f.exp(-x),
        curves.Sinh: f.cosh,
        curves.Cosh: f.sinh,
        curves.Logit: lambda x: _xlogx(x) + _xlogx(1.0 - x),
        curves.Arctanh: lambda x: (_xlogx(1.0 + x) + _xlogx(1.0 - x)) / 2.0,
        curves.Arcsin: lambda x: x * f.arcsin(x) + f.sqrt(1.0 - f.square(x)) - 1.0,
        curves.Tan: lambda x: -f.log(f.cos(x)),
        curves.NegLog1m: lambda x: _xlogx(1.0 - x) + x,
        curves.Log: lambda x: _xlogx(x) - x,
        curves.ReLU: lambda x: f.square(f.maximum(x, 0.0)) / 2.0,
        curves.Step: lambda x: f.maximum(x, 0.0),
        curves.Sign: f.abs,
    }

    def raised(base: Expression, d: float) -> Expression:
        return call("divide", call("power", base, Number(d + 1.0)), Number(d + 1.0))

    def abs_power(curve: Any, x: Expression) -> Expression:
        power = raised(call("abs", x), curve.d)
        signed = call("multiply", call("sign", x), power)
        return call("add", signed, _scaled(curve.c, x))

    def affine(curve: Any, x: Expression) -> Expression:
        factor = _number(curve.gain / curve.alpha)
        return call("multiply", factor, _primitive(curve.curve, _argument(curve, x)))

    def capped(curve: Any, x: Expression) -> Expression:
        inside = _inside(curve, x)
        beyond = call("multiply", call("subtract", x, inside), _written(curve.curve, inside))
        return call("add", _primitive(curve.curve, inside), beyond)

    def huber(curve: Any, x: Expression) -> Expression:
        inside = call("minimum", call("maximum", x, Number(-curve.c)), Number(curve.c))
        return call("multiply", inside, call("subtract", x, call("divide", inside, Number(2.0))))

    def smelu(curve: Any, x: Expression) -> Expression:
        inside = call("minimum", call("maximum", x, Number(-curve.c)), Number(curve.c))
        low = call("divide", call("square", call("add", inside, Number(curve.c))), Number(4.0 * curve.c))
        return call("add", low, call("maximum", call("subtract", x, Number(curve.c)), Number(0.0)))

    def composite_sigmoid(curve: Any, x: Expression) -> Expression:
        return call("multiply", _number(curve.gamma), call("softplus", _composite_logit(curve, x)))

    return {
        **{cls: _of_one(formula) for cls, formula in plain.items()},
        curves.Constant: lambda curve, x: call("multiply", _number(curve.value), x),
        curves.SignedPower: lambda curve, x: raised(call("abs", x), curve.d),
        curves.Power: lambda curve, x: raised(x, curve.d),
        curves.AbsPower: abs_power,
        curves.Huber: huber,
        curves.SmeLU: smelu,
        curves.Polynomial: lambda curve, x: _polynomial(curve, x, shift=1),
        algebra.Affine: affine,
        algebra.Sum: lambda curve, x: _total([_primitive(term, x) for term in curve.curves]),
        algebra.Capped: capped,
        algebra.FromPrimitive: lambda curve, x: _written(curve.of, x),
        algebra.FromScoreTransform: lambda curve, x: call("log", _written(curve.of, x)),
        composite.CompositeSigmoid: composite_sigmoid,
    }


_PRIMITIVES = _primitive_rules()

# -------------------------------------------------------------------------------------------------- formulas as text


class _Piece(NamedTuple):
    """Something written, and how tightly it holds together."""

    text: str
    level: int
    #: a fraction with a slash, for exponents
    inline: str = ""


_OR, _AND, _COMPARED, _SUM, _PRODUCT, _MINUS, _POWER, _ATOM = range(8)
_SIGNS = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}


def shortest(value: float) -> str:
    """The shortest decimal number that is read back as the same float; pi and e by their names."""
    if value in (math.pi, math.e):
        return "pi" if value == math.pi else "e"
    plain = repr(value).removesuffix(".0")
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    digits = repr(float(mantissa)).removesuffix(".0") if float(f"{float(mantissa)!r}e{exponent}") == value else ""
    scientific = f"{digits}e{int(exponent)}" if digits else plain
    return min(plain.replace("e-0", "e-").replace("e+", "e"), scientific, key=len)


#: how the grammar spells what it has no name for
_SPELLED: dict[str, Callable[..., Expression]] = {
    "hypot1": lambda u: Call("sqrt", (Call("add", (Number(1.0), Call("square", (u,)))),)),
    "phi": lambda u: call("subtract", call("expm1", u), u),
    "omega": lambda u: call("subtract", u, call("sin", u)),
    "fold": lambda u: call("negative", call("abs", u)),
    "mirror": lambda u: call("abs", u),
    "positive_part": lambda u: call("maximum", u, Number(0.0)),
    "within": lambda u, bound: call("minimum", call("maximum", u, call("negative", bound)), bound),
    "xlogy": lambda x, y: call(
        "where", call("equal", x, Number(0.0)), Number(0.0), call("multiply", x, call("log", y))
    ),
}
_TEXT_NAMES = {"minimum": "min", "maximum": "max"}
_IN_GRAMMAR = {*FUNCTIONS, *DEFINITIONS} - {"isfinite"}


def _bracketed(piece: _Piece, level: int, *, sign: bool = True) -> str:
    loose = piece.level < level or (not sign and piece.text.startswith("-"))
    return f"({piece.text})" if loose else piece.text


def _as_text(node: Expression, *parts: _Piece) -> _Piece:
    if isinstance(node, Number):
        text = shortest(node.value)
        if not math.isfinite(node.value):
            raise NotWritten(f"text_of: numbers must be finite, got {node.value}.")
        return _Piece(text, _MINUS if text.startswith("-") else _ATOM)
    if isinstance(node, Variable):
        return _Piece(node.name, _ATOM)
    name = node._key()
    if name in ("add", "subtract"):
        right = _bracketed(parts[1], _PRODUCT, sign=False)  # the order of additions decides about rounding
        return _Piece(f"{_bracketed(parts[0], _SUM)}{'+' if name == 'add' else '-'}{right}", _SUM)
    if name in ("multiply", "divide"):
        right = _bracketed(parts[1], _MINUS, sign=False)
        return _Piece(f"{_bracketed(parts[0], _PRODUCT)}{'*' if name == 'multiply' else '/'}{right}", _PRODUCT)
    if name == "negative":
        return _Piece(f"-{_bracketed(parts[0], _PRODUCT, sign=False)}", _PRODUCT)
    if name == "square":
        return _Piece(f"{_bracketed(parts[0], _ATOM)}^2", _POWER)
    if name == "power":
        return _Piece(f"{_bracketed(parts[0], _ATOM)}^{_bracketed(parts[1], _POWER, sign=False)}", _POWER)
    if name in _SIGNS:
        return _Piece(f"{_bracketed(parts[0], _SUM)}{_SIGNS[name]}{_bracketed(parts[1], _SUM)}", _COMPARED)
    if name in ("and", "or"):
        level = _AND if name == "and" else _OR
        return _Piece(f"{_bracketed(parts[0], level)} {name} {_bracketed(parts[1], level + 1)}", level)
    if name not in _IN_GRAMMAR:
        raise NotWritten(f"text_of: the grammar must know every function, got {name}.")
    return _Piece(_call_text(node, name, parts), _ATOM)


def _call_text(node: Expression, name: str, parts: tuple[_Piece, ...]) -> str:
    if is_step(node):
        inner = parts[0].text.removesuffix(">0")
        return f"step({inner})"
    if name == "minimum" and is_call(node.arguments[0], "maximum") and parts[0].text.startswith("max("):
        return f"clip({parts[0].text[4:-1]},{parts[1].text})"
    return f"{_TEXT_NAMES.get(name, name)}({','.join(part.text for part in parts)})"


def is_step(node: Expression) -> bool:
    """Whether an expression is 1 above 0 and 0 below: ``where(u > 0, 1, 0)``."""
    if not is_call(node, "where"):
        return False
    condition, a, b = node.arguments
    return (
        is_call(condition, "greater") and is_value(condition.arguments[1], 0.0) and is_value(a, 1.0) and is_value(b, 0)
    )


def _respelled(expression: Expression, spelling: dict[str, Callable[..., Expression]]) -> Expression:
    def rule(node: Expression, *arguments: Expression) -> Expression:
        if not isinstance(node, Call):
            return node
        own = spelling.get(node.name)
        return own(*arguments) if own else call(node.name, *arguments)

    return combine(expression, rule)


def text_of_expression(expression: Expression) -> str:
    """An expression as a formula in the grammar of :func:`selmatch.formula.parse`."""
    spelled = _respelled(expression, _SPELLED)
    if written_size(spelled) > 2 * _LONGEST:
        raise NotWritten("text_of: no formula of readable length is known.")
    return combine(spelled, _as_text).text


def text_of(curve: Curve) -> str:
    """A curve as a formula that :func:`selmatch.formula.parse` reads again, with the same values.

    Parameters
    ----------
    curve : Curve
        Any curve whose formula can be traced.

    Raises
    ------
    TypeError
        If the curve has no formula of readable length, as inverses without a closed form.

    Examples
    --------
    >>> from selmatch.notation import text_of
    >>> text_of(0.1 * Identity() + Sinh().affine(alpha=2.0, beta=1.0))
    '0.1*z+sinh(2*(z-1))'
    """
    return text_of_expression(written(curve, Variable("z")))


# ------------------------------------------------------------------------------------------------------------- LaTeX


_LATEX_SPELLED: dict[str, Callable[..., Expression]] = {
    "log1p": lambda u: call("log", call("add", Number(1.0), u)),
    "expm1": lambda u: call("subtract", call("exp", u), Number(1.0)),
    "softplus": lambda u: call("log", call("add", Number(1.0), call("exp", u))),
    "hypot1": lambda u: call("sqrt", call("add", Number(1.0), call("square", u))),
    "phi": lambda u: call("subtract", call("subtract", call("exp", u), Number(1.0)), u),
    "omega": lambda u: call("subtract", u, call("sin", u)),
    "logit": lambda u: call("log", call("divide", u, call("subtract", Number(1.0), u))),
    "signedlog": lambda u: call("multiply", call("sign", u), call("log", call("add", Number(1.0), call("abs", u)))),
    "side": lambda u: call("sign", u),
    "fold": lambda u: call("negative", call("abs", u)),
    "mirror": lambda u: call("abs", u),
    "positive_part": lambda u: call("maximum", u, Number(0.0)),
    "xlogy": lambda x, y: call("multiply", x, call("log", y)),
    "within": _SPELLED["within"],
    "divide": lambda a, b: _one_fraction(a, b),
    "exp": lambda u: u.arguments[0] if is_call(u, "log") else call("exp", u),
}
_OPERATOR_NAMES = {
    "sin": r"\sin", "cos": r"\cos", "tan": r"\tan", "sinh": r"\sinh", "cosh": r"\cosh", "tanh": r"\tanh",
    "log": r"\log", "arcsin": r"\arcsin", "arctan": r"\arctan", "sigmoid": r"\sigma", "minimum": r"\min",
    "maximum": r"\max", "arcsinh": r"\operatorname{arsinh}", "arctanh": r"\operatorname{artanh}",
    "sign": r"\operatorname{sign}", "arctan2": r"\operatorname{arctan2}", "isfinite": r"\operatorname{finite}",
}  # fmt: skip
_LATEX_SIGNS = {
    "less": "<", "less_equal": r"\le", "greater": ">", "greater_equal": r"\ge", "equal": "=", "not_equal": r"\ne",
    "and": r"\wedge", "or": r"\vee",
}  # fmt: skip


def _one_fraction(a: Expression, b: Expression) -> Expression:
    """A quotient; one that is divided by numbers twice is divided by their product."""
    if is_call(a, "divide") and isinstance(a.arguments[1], Number) and isinstance(b, Number):
        return call("divide", a.arguments[0], Number(a.arguments[1].value * b.value))
    return call("divide", a, b)


def _latex_number(value: float) -> _Piece:
    """Six digits, and powers of ten as such."""
    if math.isnan(value):
        return _Piece(r"\mathrm{NaN}", _ATOM)
    sign, size = ("-", -value) if value < 0 else ("", value)
    special = {math.pi: r"\pi", math.e: "e", math.inf: r"\infty"}.get(size)
    text = special or f"{size:.6g}"
    level = _ATOM
    if "e" in text and not special:
        mantissa, exponent = text.split("e")
        text = f"10^{{{int(exponent)}}}"
        level = _POWER
        if mantissa != "1":
            text, level = rf"{mantissa} \cdot {text}", _PRODUCT
    return _Piece(sign + text, _MINUS if sign and level > _MINUS else level)


def _tall(text: str) -> bool:
    return r"\frac" in text or r"\begin" in text or r"\int" in text or r"\sum" in text


def _parentheses(text: str) -> str:
    return rf"\left({text}\right)" if _tall(text) else f"({text})"


def _latex_bracketed(piece: _Piece, level: int, *, sign: bool = True) -> str:
    loose = piece.level < level or (not sign and piece.text.startswith("-"))
    return _parentheses(piece.text) if loose else piece.text


def _as_latex(node: Expression, *parts: _Piece) -> _Piece:
    if isinstance(node, Number):
        return _latex_number(node.value)
    if isinstance(node, Variable):
        return _Piece(node.name, _ATOM)
    name = node._key()
    if name in ("add", "subtract"):
        right = _latex_bracketed(parts[1], _PRODUCT, sign=False)
        return _Piece(f"{_latex_bracketed(parts[0], _SUM)} {'+' if name == 'add' else '-'} {right}", _SUM)
    if name == "multiply":
        return _Piece(_latex_product(*parts, number=isinstance(node.arguments[0], Number)), _PRODUCT)
    if name == "divide":
        slash = f"{_latex_bracketed(parts[0], _PRODUCT)} / {_latex_bracketed(parts[1], _POWER, sign=False)}"
        return _Piece(rf"\frac{{{parts[0].text}}}{{{parts[1].text}}}", _PRODUCT, slash)
    if name == "negative":
        slash = f"-{parts[0].inline}" if parts[0].inline else ""
        return _Piece(f"-{_latex_bracketed(parts[0], _PRODUCT, sign=False)}", _PRODUCT, slash)
    if name == "exp":
        return _Piece(f"e^{{{parts[0].inline or parts[0].text}}}", _POWER)
    if name == "sqrt":
        return _Piece(rf"\sqrt{{{parts[0].text}}}", _ATOM)
    if name in ("square", "power"):
        exponent = "2" if name == "square" else parts[1].inline or parts[1].text
        return _Piece(f"{_latex_base(node, parts[0])}^{{{exponent}}}", _POWER)
    if name == "abs":
        bars = (r"\left|", r"\right|") if _tall(parts[0].text) else ("|", "|")
        return _Piece(f"{bars[0]}{parts[0].text}{bars[1]}", _ATOM)
    if name in _LATEX_SIGNS:
        level = {"and": _AND, "or": _OR}.get(name, _COMPARED)
        left, right = (_latex_bracketed(part, level + 1) for part in parts)
        return _Piece(f"{left} {_LATEX_SIGNS[name]} {right}", level)
    if name == "not":
        return _Piece(rf"\neg {_latex_bracketed(parts[0], _ATOM)}", _ATOM)
    if name == "where":
        if is_value(node.arguments[1], 1.0) and is_value(node.arguments[2], 0.0):
            return _Piece(rf"\mathbf{{1}}[{parts[0].text}]", _ATOM)
        return _Piece(_cases(parts[1].text, parts[0].text, parts[2].text), _ATOM)
    inner = ", ".join(part.text for part in parts)
    # an exponent behind the bracket could belong to the argument
    return _Piece(f"{_OPERATOR_NAMES.get(name) or _operator(name)}{_parentheses(inner)}", _POWER)


def _operator(name: str) -> str:
    return rf"\operatorname{{{name}}}".replace("_", r"\_")


_CASES, _END_CASES = r"\begin{cases} ", r" \end{cases}"


def _cases(value: str, condition: str, otherwise: str) -> str:
    """A case distinction; one in the last row continues the list."""
    rows = otherwise
    if otherwise.startswith(_CASES) and otherwise.find(_END_CASES) == len(otherwise) - len(_END_CASES):
        rows = otherwise[len(_CASES) : -len(_END_CASES)]
    else:
        rows = rf"{otherwise} & \text{{otherwise}}"
    return rf"{_CASES}{value} & \text{{if }} {condition} \\ {rows}{_END_CASES}"


def _latex_product(a: _Piece, b: _Piece, *, number: bool) -> str:
    left, right = _latex_bracketed(a, _PRODUCT), _latex_bracketed(b, _PRODUCT, sign=False)
    if right[:1].isdigit():
        return rf"{left} \cdot {right}"
    if right.startswith(r"\mathbf"):
        return rf"{left} \, {right}"
    if number or len(left) == 1 or a.level < _PRODUCT or right.startswith(("(", r"\left(")):
        return f"{left} {right}"
    return rf"{left} \, {right}"


def _latex_base(node: Expression, base: _Piece) -> str:
    """What an exponent is put on."""
    inner = node.arguments[0]
    if isinstance(inner, Variable) and not inner.name.isalnum():
        return f"{{{base.text}}}"
    return _latex_bracketed(base, _ATOM)


def latex_of_expression(expression: Expression) -> str:
    """An expression in LaTeX."""
    spelled = _respelled(expression, _LATEX_SPELLED)
    if written_size(spelled) > 2 * _LONGEST:
        raise NotWritten("latex: no formula of readable length is known.")
    if is_step(spelled):
        return _cases("1", combine(spelled.arguments[0], _as_latex).text, "0")
    return combine(spelled, _as_latex).text


def latex(of: Any, variable: str = "z") -> str:
    r"""LaTeX of a curve, a potential or a loss, for papers, reports and notebooks.

    Curves give the right-hand side of h(z) = ...; potentials and losses give whole equations. Numbers are rounded to
    six digits.

    Parameters
    ----------
    of : Curve, CompositeSoftmax, Separable, PerLabel or a loss
        What to write. Curves made by users are written from their formula, those that cannot run on a variable by
        their names.
    variable : str
        The score, in LaTeX.

    Examples
    --------
    >>> from selmatch.notation import latex
    >>> print(latex(Sinh().affine(alpha=2.0, beta=1.0) + 0.1 * Identity()))
    \sinh(2 (z - 1)) + 0.1 z
    >>> print(latex(CompositeSigmoid(Exp(), gamma=0.5)))
    e^{z} \, \sigma\left(\frac{e^{z}}{0.5}\right)
    >>> print(latex(MatchingLoss(Exp())))
    L(\hat{s}, s) = e^{\hat{s}} - e^{s} - (\hat{s} - s) e^{s}
    """
    if isinstance(of, Curve):
        return _curve_latex(of, variable)
    for cls in type(of).__mro__:
        if cls.__name__ in _EQUATIONS:
            return _EQUATIONS[cls.__name__](of, variable)
    raise TypeError(f"latex: expected a curve, a potential or a loss, got {of!r}.")


def _curve_latex(curve: Curve, variable: str) -> str:
    try:
        return latex_of_expression(written(curve, Variable(variable)))
    except NotWritten:
        pass
    if isinstance(curve, algebra.Inverse):
        return rf"g^{{-1}}({variable}), \quad g({variable}) = {_curve_latex(curve.curve, variable)}"
    if isinstance(curve, composite.CompositeSigmoid):
        gamma, offset = _parameter(curve.gamma), _parameter(curve.offset)
        q = _curve_latex(curve.scaling, variable)
        inside = f"Q({variable})" if offset == "0" else f"Q({variable}) + {offset}".replace("+ -", "- ")
        inside = inside if gamma == "1" else rf"\frac{{{inside}}}{{{gamma}}}"
        p = rf"\sigma{_parentheses(inside)}"
        return (
            rf"q({variable}) \, {p}, \quad q({variable}) = {q}, \quad Q({variable}) = \int q({variable}) \, d{variable}"
        )
    if type(curve).__name__ == "FromSensitivity":
        return _drawn_latex(curve, variable)
    return rf"{_operator(type(curve).__name__)}({variable})"


def _drawn_latex(curve: Any, variable: str) -> str:
    """A link drawn by its sensitivity, as the integral of the drawing."""
    t = Variable("t")
    knots, values = curve.knots, curve.values
    drawn: Expression = Number(values[-1])
    segments = zip(knots, knots[1:], values, values[1:], strict=False)
    for a, b, p, q in reversed([segment for segment in segments if segment[0] < segment[1]]):
        rise = call("multiply", Number((q - p) / (b - a)), call("subtract", t, Number(a)))
        drawn = call("where", call("less_equal", t, Number(b)), call("add", Number(p), rise), drawn)
    drawn = call("where", call("less_equal", t, Number(knots[0])), Number(values[0]), drawn)
    smooth = r"\text{, smoothed}" if getattr(curve, "smooth", False) else ""
    return rf"\int_0^{{{variable}}} \Delta(t) \, dt, \quad \Delta(t) = {latex_of_expression(drawn)}{smooth}"


def _parameter(value: Any) -> str:
    try:
        return _latex_number(_number(value).value).text  # type: ignore[attr-defined]
    except NotWritten:
        return r"\cdot"


# ------------------------------------------------------------------------------------------- potentials and losses

_HAT, _SCORE = r"\hat{s}", "s"


def _bregman(curve: Curve, hat: str, score: str) -> str:
    """H(s_hat) - H(s) - (s_hat - s) h(s), with H spelled out or as an integral."""
    a, b = Variable(hat), Variable(score)
    try:
        rise = call("subtract", primitive_written(curve, a), primitive_written(curve, b))
        line = call("multiply", call("subtract", a, b), written(curve, b))
        return latex_of_expression(call("subtract", rise, line))
    except NotWritten:
        pass
    try:
        inner = call("subtract", written(curve, Variable("t")), written(curve, b))
        return rf"\int_{{{score}}}^{{{hat}}} {_parentheses(latex_of_expression(inner))} \, dt"
    except NotWritten:
        link = _curve_latex(curve, "z")
        return rf"\int_{{{score}}}^{{{hat}}} \left(h(t) - h({score})\right) dt, \quad h(z) = {link}"


def _softmax_shares(softmax: Any, variable: str) -> tuple[str, str]:
    """The share of a class before it is normalised, and the sum of the shares."""
    gamma, rho, anchor = _parameter(softmax.gamma), softmax.rho, softmax.anchor

    def share(index: str) -> str:
        z = Variable(f"{variable}_{index}")
        try:
            exponent = call("divide", primitive_written(softmax.scaling, z), _number(softmax.gamma))
            text = latex_of_expression(call("exp", exponent))
        except NotWritten:
            text = rf"e^{{Q({z.name}){'' if gamma == '1' else f' / {gamma}'}}}"
        power = "" if gamma == "1" else rf"^{{1/{gamma}}}"
        return text if rho is None else rf"\rho_{index}{power} {text}"

    total = rf"\sum_j {share('j')}"
    if anchor is not None:
        total += " + " + latex_of_expression(call("exp", call("divide", _number(anchor), _number(softmax.gamma))))
    return share("k"), total


def _softmax_probability(softmax: Any, variable: str) -> str:
    share, total = _softmax_shares(softmax, variable)
    text = rf"p_k({variable}) = \frac{{{share}}}{{{total}}}"
    if softmax.rho is not None:
        text += rf", \quad \rho = ({', '.join(_parameter(r) for r in softmax.rho)})"
    return text


def _softmax_latex(softmax: Any, variable: str) -> str:
    z, p = Variable(f"{variable}_k"), Variable(f"p_k({variable})")
    try:
        product, where = latex_of_expression(call("multiply", written(softmax.scaling, z), p)), ""
    except NotWritten:
        product = rf"q({z.name}) \, {p.name}"
        where = rf", \quad q({z.name}) = {_curve_latex(softmax.scaling, z.name)}"
    return rf"h_k({variable}) = {product}, \quad {_softmax_probability(softmax, variable)}{where}"


def _per_label_latex(potential: Any, variable: str) -> str:
    rows = [
        rf"{_curve_latex(curve, variable)} & \text{{if }} s = {_parameter(label)}"
        for label, curve in zip(potential.labels, potential.curves, strict=True)
    ]
    listed = r" \\ ".join(rows)
    return rf"h_s({variable}) = {_CASES}{listed}{_END_CASES}"


def _loss_latex(loss: Any, variable: str) -> str:
    potential, left = loss.potential, rf"L({_HAT}, {_SCORE}) = "
    if isinstance(potential, composite.CompositeSoftmax):
        gamma, total = _parameter(potential.gamma), _softmax_shares(potential, variable)[1]
        factor = "" if gamma == "1" else f"{gamma} "
        potential_text = rf"H({variable}) = {factor}\log{_parentheses(total)}"
        return (
            rf"{left}H({_HAT}) - H({_SCORE}) - \sum_k ({_HAT}_k - {_SCORE}_k) \, h_k({_SCORE}), \quad "
            rf"{potential_text}, \quad {_softmax_latex(potential, variable)}"
        )
    if isinstance(potential, composite.Separable):
        return rf"{left}\sum_k \left({_bregman(potential.curve, f'{_HAT}_k', f'{_SCORE}_k')}\right)"
    if not isinstance(potential, Curve):
        return (
            rf"{left}\int_{{{_SCORE}}}^{{{_HAT}}} (h_s(t) - h_s(s)) \, dt, \quad "
            rf"{_per_label_latex(potential, variable)}"
        )
    return left + _bregman(potential, _HAT, _SCORE)


def _cross_entropy_latex(loss: Any, variable: str) -> str:
    potential, left = loss.potential, rf"L({_HAT}, {_SCORE}) = "
    link = composite.plain_sigmoid(potential)
    gamma = _parameter(potential.gamma if link is None else _area(potential))
    factor = "-" if gamma == "1" else f"-{gamma} "
    if isinstance(potential, composite.CompositeSoftmax):
        p = _softmax_probability(potential, variable)
        return rf"{left}{factor}\sum_k p_k({_SCORE}) \log p_k({_HAT}), \quad {p}"
    p, p_hat = rf"p({_SCORE})", rf"p({_HAT})"
    try:
        z = Variable(variable)
        logit = call("sigmoid", _composite_logit(potential, z)) if link is None else _written(link, z)
        inside = latex_of_expression(logit)
    except NotWritten:
        inside = rf"\sigma(Q({variable}) / {gamma})"
    return rf"{left}{factor}\left({p} \log {p_hat} + (1 - {p}) \log(1 - {p_hat})\right), \quad p({variable}) = {inside}"


def _area(link: Any) -> Any:
    """Gain over alpha of a stretched link, the factor of its primitive."""
    return link.gain / link.alpha * _area(link.curve) if isinstance(link, algebra.Affine) else 1.0


def _reweighted_latex(loss: Any, variable: str) -> str:
    kappa, shift = _parameter(loss.kappa), loss.delta - loss.low
    factors = {"observed": (_SCORE,), "predicted": (_HAT,), "both": (_SCORE, _HAT)}[loss.by]
    weights = []
    for score in factors:
        sum_ = latex_of_expression(call("add", Variable(score), Number(shift)))
        weights.append(rf"{'' if kappa == '1' else kappa + ' '}({sum_})")
    weight = r" \, ".join(weights)
    return rf"L({_HAT}, {_SCORE}) = {weight} \, ({_HAT} - {_SCORE})^2"


_EQUATIONS: dict[str, Callable[[Any, str], str]] = {
    "CompositeSoftmax": _softmax_latex,
    "Separable": lambda potential, variable: f"h_k({variable}) = {_curve_latex(potential.curve, f'{variable}_k')}",
    "PerLabel": _per_label_latex,
    "MatchingLoss": _loss_latex,
    "CrossEntropy": _cross_entropy_latex,
    "ReweightedSquare": _reweighted_latex,
}
