"""Random and damaged formulas: whatever the text, :func:`selmatch.formula.parse` gives a curve or a clear error."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import numpy.polynomial

import selmatch as sm
from selmatch.formula import latex, parse

UNARY = (
    "exp expm1 log ln log1p sqrt sin cos tan sinh cosh tanh arcsin asin arctan atan arcsinh asinh arctanh atanh "
    "sigmoid σ softplus logit abs sign side signedlog square relu step huber smelu"
).split()
NUMBERS = ("0", "1", "2", ".5", "0.1", "3.", "2e-3", "1e5", "pi", "e", "10", "1e-300", "1e300", "7.25")
EXTREME = ("1e308", "1e-320", "9" * 400, "1e400", "0e0", "-0", "1e-400", "123456789012345678901234567890", "0.1" * 30)
TOKENS = (
    *UNARY, *NUMBERS, "z", "x", "s", "+", "-", "*", "/", "^", "**", "(", ")", "|", ",", "<", "<=", ">", ">=", "==",
    "!=", "and", "or", "where(", "clip(", "min(", "max(", " ", "−", "×", "π",
)  # fmt: skip
ATTACKS = (
    "__import__('os').system('true')", "z.__class__.__mro__", "(lambda: 1)()", "exec('1')", "eval(z)", "z[0]", "{z}",
    "[z for z in z]", "open('/etc/passwd')", "z;z", "z\n\nimport os", "f'{z}'", "%s", "$z", "\\x00", "z if z else z",
    "print(z)", "z:=1", "yield z", "await z", "`z`", "#z", "'z'", '"z"', "\U0001d467", "\uff5a", "z\u200b", "z\u202e",
    "\ufeffz", "\uff11+z", "²", "z!", "zz", "sinh z", "not z", "True", "None", "nan", "inf", "z^nan", "z\x00", "0x10",
    "1_000", "1j",
)  # fmt: skip


def valid(rng: random.Random, depth: int = 4) -> str:
    """A formula of the grammar."""
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        return rng.choice(NUMBERS) if rng.random() < 0.4 else "z"
    if kind < 0.5:
        a, b = valid(rng, depth - 1), valid(rng, depth - 1)
        text = f"{a}{rng.choice(['+', '-', '*', '/', ' + ', ' * '])}{b}"
        return f"({text})" if rng.random() < 0.5 else text
    if kind < 0.6:
        return f"({valid(rng, depth - 1)})^{rng.choice(['2', '3', '0.5', '-1', '(1/3)', 'z', valid(rng, depth - 1)])}"
    if kind < 0.66:
        return f"-{valid(rng, depth - 1)}"
    if kind < 0.7:
        return f"|{valid(rng, depth - 1)}|"
    if kind < 0.9:
        return f"{rng.choice(UNARY)}({valid(rng, depth - 1)})"
    if kind < 0.95:
        name = rng.choice(["min", "max", "power", "huber", "smelu", "arctan2"])
        return f"{name}({valid(rng, depth - 1)},{valid(rng, depth - 1)})"
    if kind < 0.98:
        low, high = sorted(rng.uniform(-3.0, 3.0) for _ in range(2))
        return f"clip({valid(rng, depth - 1)},{low!r},{high!r})"
    sign = rng.choice(["<", "<=", ">", ">=", "==", "!="])
    condition = f"{valid(rng, depth - 1)}{sign}{valid(rng, depth - 1)}"
    return f"where({condition},{valid(rng, depth - 1)},{valid(rng, depth - 1)})"


def mutated(rng: random.Random, text: str) -> str:
    """A formula with a few characters or tokens deleted, inserted, doubled or exchanged."""
    for _ in range(rng.randint(1, 4)):
        i, j = sorted(rng.randint(0, len(text)) for _ in range(2))
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:i] + text[min(j, i + 3) :]
        elif kind == 1:
            text = text[:i] + rng.choice(TOKENS) + text[i:]
        elif kind == 2:
            text = text[:i] + chr(rng.randrange(0x250)) + text[i:]
        elif kind == 3:
            text = text[:j] + text[i:]
        elif kind == 4:
            text = text[:i] + rng.choice(EXTREME) + text[j:]
        else:
            text = text[j:] + text[i:j] + text[:i]
    return text


def nested(rng: random.Random) -> str:
    """Deep brackets, signs, powers and functions; long sums and products."""
    depth = rng.choice([10, 49, 50, 51, 200, 700])
    opening = rng.choice(
        ["(", "-", "-(", "|", "2^", "z^", "exp(", "sinh(", "max(z,", "z+z*(", "1/(1+", "signedlog(", "-z^-("]
    )
    closing = ")" * opening.count("(")
    if rng.random() < 0.3:
        return rng.choice(["z+", "z*", "z-", "z/", "0.1+", "sinh(z)+", "z^2*", "max(z,1)+", "(z-1)*"]) * depth + "z"
    return opening * depth + "z" + (closing * depth if rng.random() < 0.8 else closing * (depth - 1))


def cases(rng: random.Random) -> Iterator[str]:
    """Endless texts, from good formulas to garbage."""
    while True:
        kind = rng.random()
        if kind < 0.35:
            yield valid(rng, rng.randint(0, 6))
        elif kind < 0.7:
            yield mutated(rng, valid(rng, rng.randint(1, 5)))
        elif kind < 0.82:
            yield "".join(rng.choices(TOKENS, k=rng.randint(0, 30)))
        elif kind < 0.88:
            yield rng.randbytes(rng.randint(0, 60)).decode("latin-1")
        elif kind < 0.94:
            yield nested(rng)
        else:
            yield mutated(rng, rng.choice(ATTACKS)) if rng.random() < 0.5 else rng.choice(ATTACKS)


POINTS = np.array([-3.0, -0.5, 0.0, 0.3, 1.0, 4.0])
CLASSES = tuple(f"{name}:" for name in ("parse", *sm.__all__))


def check(text: str) -> bool:
    """Whether a text is a formula; anything but a curve or a clear error raises."""
    try:
        curve = parse(text)
    except (ValueError, TypeError) as error:
        if not str(error).startswith(CLASSES):
            raise
        return False
    with np.errstate(all="ignore"):
        values = curve(POINTS)
        assert values.shape == POINTS.shape, text
        assert values.dtype == POINTS.dtype, text
        assert isinstance(curve(0.3), float), text
    assert isinstance(latex(curve), str), text
    assert repr(curve), text
    return True
