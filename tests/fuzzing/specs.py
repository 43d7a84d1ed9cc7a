"""Spec files of random objects, whole and broken."""

from __future__ import annotations

import contextlib
import json
import math
import random
import string
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import selmatch as sm
from selmatch import certify, checker, pointwise, proving, spec  # noqa: F401 (all that is imported late)
from selmatch.drawing import FromSensitivity
from selmatch.formula import parse

PLAIN = (
    sm.Identity, sm.Sigmoid, sm.Exp, sm.AntiExp, sm.Sinh, sm.Cosh, sm.Tanh, sm.Arctan, sm.Arcsinh, sm.Arcsin,
    sm.Arctanh, sm.Sin, sm.Tan, sm.Logit, sm.NegLog1m, sm.Log, sm.SignedLog, sm.ReLU, sm.Step, sm.Sign,
)  # fmt: skip
FORMULAS = (
    "z",
    "2*z + 1",
    "z + tanh(z)",
    "sinh(2*(z-1)) + 0.1*z",
    "z^3 + z",
    "exp(z) - 1",
    "z*tanh(z)",
    "log(1 + exp(z))",
)

#: seconds of a check, which loads up to three times; each time must take less than one
LIMIT = 5.0

spec._names()  # loads the modules that are loaded on first use

# ------------------------------------------------------------------------------------------------------ valid objects


def number(rng: random.Random) -> float:
    """A number that people write, or one with all its digits."""
    return rng.choice([float(rng.randint(-3, 3)), round(rng.uniform(-3.0, 3.0), 2), rng.gauss(0.0, 2.0)])


def positive(rng: random.Random) -> float:
    return rng.choice([1.0, 0.5, round(rng.uniform(0.1, 4.0), 2), rng.lognormvariate(0.0, 1.5)])


def increasing(rng: random.Random, count: int) -> tuple[float, ...]:
    steps = [number(rng), *(positive(rng) for _ in range(count - 1))]
    return tuple(np.cumsum(steps).tolist())


def _leaf(rng: random.Random) -> sm.Curve:
    steps = rng.randint(1, 4)
    return rng.choice(
        [
            *(lambda cls=cls: cls() for cls in rng.choices(PLAIN, k=6)),
            lambda: sm.Constant(number(rng)),
            lambda: sm.Power(positive(rng)),
            lambda: sm.SignedPower(positive(rng)),
            lambda: sm.AbsPower(positive(rng), positive(rng)),
            lambda: sm.SmeLU(positive(rng)),
            lambda: sm.Huber(positive(rng)),
            lambda: sm.Staircase(increasing(rng, steps), tuple(positive(rng) for _ in range(steps)), number(rng)),
            lambda: sm.Polynomial(tuple(number(rng) for _ in range(steps)), number(rng)),
            lambda: FromSensitivity(increasing(rng, steps + 1), tuple(positive(rng) for _ in range(steps + 1))),
            lambda: parse(rng.choice(FORMULAS), lower=rng.random() < 0.5),
        ]
    )()


def _checked(rng: random.Random) -> bool:
    return rng.random() < 0.7


def _branch(rng: random.Random, depth: int) -> sm.Curve:
    pieces = rng.randint(1, 3)

    def inner() -> sm.Curve:
        return curve(rng, depth - 1)

    return rng.choice(
        [
            lambda: inner().affine(positive(rng), number(rng), positive(rng)),
            lambda: inner().affine(alpha=positive(rng)),
            lambda: sm.Sum(tuple(inner() for _ in range(pieces))),
            lambda: sm.Inverse(inner()),
            lambda: inner().capped(number(rng), None),
            lambda: inner().capped(*increasing(rng, 2)),
            lambda: sm.Piecewise(increasing(rng, pieces + 1), tuple(inner() for _ in range(pieces))),
            lambda: sm.FromPrimitive(inner()),
            lambda: sm.FromScoreTransform(inner()),
            lambda: sm.CompositeSigmoid(inner(), positive(rng), number(rng), check=_checked(rng)),
        ]
    )()


def _accepted(make: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Random parts do not always fit together."""
    try:
        with np.errstate(all="ignore"):
            return make()
    except (ValueError, TypeError, ArithmeticError):
        return otherwise()


def curve(rng: random.Random, depth: int = 3) -> sm.Curve:
    """A random curve of nested curves."""
    if depth == 0 or rng.random() < 0.3:
        return _leaf(rng)
    return _accepted(lambda: _branch(rng, depth), lambda: _leaf(rng))


def potential(rng: random.Random) -> Any:
    """A random curve or vector potential."""
    rho = tuple(positive(rng) for _ in range(rng.randint(1, 4)))
    kind = rng.random()
    if kind < 0.4:
        return curve(rng)
    if kind < 0.5:
        return sm.Separable(curve(rng))
    if kind < 0.6:
        labels = increasing(rng, rng.randint(1, 3))
        return _accepted(lambda: sm.PerLabel({label: curve(rng, 1) for label in labels}), lambda: sm.Identity())
    return _accepted(
        lambda: sm.CompositeSoftmax(
            curve(rng, 2),
            gamma=positive(rng),
            rho=rng.choice([None, rho]),
            anchor=rng.choice([None, number(rng)]),
            check=_checked(rng),
        ),
        lambda: sm.CompositeSoftmax(sm.Sinh()),
    )


def loss(rng: random.Random) -> Any:
    """A random loss."""
    if rng.random() < 0.1:
        return sm.ReweightedSquare(rng.choice(["observed", "predicted", "both"]), positive(rng), number(rng))
    if rng.random() < 0.1:
        return _accepted(lambda: sm.CrossEntropy(potential(rng)), lambda: sm.CrossEntropy(sm.CompositeSoftmax()))
    return _accepted(lambda: sm.MatchingLoss(potential(rng), check=_checked(rng)), lambda: sm.MatchingLoss(sm.Sinh()))


def anything(rng: random.Random) -> Any:
    """A random loss, potential or curve that a file can hold."""
    found = rng.choice([loss, loss, potential, curve])(rng)
    try:
        spec.dumps(found)
    except spec.SpecError:  # it takes too long to check
        return anything(rng)
    return found


def _certificate(rng: random.Random) -> dict[str, Any]:
    """What somebody claims: a question, and scores that may be of use."""
    name = rng.choice(list(certify.QUESTIONS))
    options = {"about": number(rng), "canonicalise": rng.choice(["log_probabilities", "teacher_maximum"])}
    table = {"question": name} | {key: options[key] for key in certify.options_of(certify.QUESTIONS[name])}
    if name != "odd" and rng.random() < 0.5:
        table["domain"] = rng.choice([[-8.0, 8.0], [number(rng) - 4.0, math.inf], [-math.inf, number(rng) + 4.0]])
    if "canonicalise" in table and rng.random() < 0.7:
        del table["canonicalise"]
    cuts = [list(increasing(rng, rng.choice([1, 3, 30]))) for _ in range(rng.randint(0, 3))]
    return table | {"cuts": cuts}


def written(rng: random.Random, found: Any) -> dict[str, str]:
    """The texts of an object in both formats, sometimes with certificates that may hold or not."""
    document = spec.to_dict(found)
    if rng.random() < 0.3:
        tables = [_certificate(rng) for _ in range(rng.randint(1, 3))]
        document |= {"selmatch": spec.SCHEMA, "certificates": tables}
    return {"toml": spec._toml(document), "json": spec._json(document) + "\n"}


# --------------------------------------------------------------------------------------------------------- broken text

NASTY = (
    "inf", "-inf", "nan", "NaN", "Infinity", "-0.0", "0", "-1", "1e308", "-1e308", "1e-320", "1e999", "1" * 390,
    "1" * 5000, "true", "false", "null", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '""', '"\\u0000"', '"é🙂"',
    "'z'", '"z"', '"__import__(\'os\').system(\'true\')"', '"z.__class__"', '"exp(exp(exp(exp(z))))"', '"Sinh"',
    '"Sihn"', '"MatchingLoss"', '"FromLink"', '"Formula"', '"Wish"', '"Curve"', '"Interval"', '"functions"', "[]",
    "{}", "[[]]",
    "[1, 2, 3]", "[1.0, 'a']", '["Sinh", 1]', '["Sinh", "Exp"]', '{type = "Sinh"}', '{"type": "Sinh"}', '"""',
    "'''", "#", "0x10", "1_000", "1e5", "+1", ".5", "5.", "\\", "\x00", "\ufeff", "\u2028", "=", ",", "]", "[", "{",
    "}", "[[", "]]", '{"type": "Polynomial", "coefficients": [' + "1," * 70 + "1]}", 
    "[" + "1," * 3000 + "1]", "9" * 18, "0.1e-400",
)  # fmt: skip

KEYS = (
    "selmatch", "version", "loss", "curve", "potential", "type", "scaling", "gamma", "rho", "anchor", "offset", "check",
    "alpha", "beta", "gain", "curves", "knots", "pieces", "coefficients", "labels", "of", "low", "high", "d", "c",
    "text", "wish", "certificates", "question", "domain", "cuts", "about", "canonicalise", "__class__", "__init__", "",
    "a.b", "thresholds", "jumps", "by",
)  # fmt: skip


def _spot(rng: random.Random, text: str) -> int:
    return rng.randrange(len(text) + 1)


def _characters(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 5)):
        at = _spot(rng, text)
        new = rng.choice([rng.choice(string.printable), chr(rng.randrange(0x110000)), "", rng.choice("[]{}=\"',.#\n")])
        text = text[:at] + new + text[at + rng.randint(0, 2) :]
    return text


def _lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.randrange(4)
    if action == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif action == 1:
        del lines[min(i, j) : max(i, j)]
    else:
        lines.insert(i, lines[j] if action == 2 else f"{rng.choice(KEYS)} = {rng.choice(NASTY)}")
    return "\n".join(lines)


def _tokens(rng: random.Random, text: str) -> str:
    """One word, value or key replaced by a nasty one."""
    spans = [found.span() for found in spec._TOKEN.finditer(text) if found.lastgroup != "skip"]
    for _ in range(rng.randint(1, 2)):
        start, end = rng.choice(spans) if spans else (0, 0)
        quoted = f'"{rng.choice(KEYS)}"' if text[start : start + 1] == '"' else rng.choice(KEYS)
        name = f'"{rng.choice(list(spec._public_classes()))}"'
        text = text[:start] + rng.choice([rng.choice(NASTY), quoted, name]) + text[end:]
        spans = [span for span in spans if span[1] <= start]
    return text


def _deep(rng: random.Random, text: str) -> str:
    depth = rng.choice([3, 10, 38, 45, 500, 20000])
    start, key = rng.choice(
        [
            ("Affine", "curve"), ("Inverse", "curve"), ("FromPrimitive", "of"), ("FromScoreTransform", "of"),
            ("CompositeSigmoid", "scaling"), ("Separable", "curve"),
        ]
    )  # fmt: skip
    toml, few, at = f'{{type = "{start}", {key} = ', min(depth, 100), _spot(rng, text)
    return rng.choice(
        [
            text[:at] + "[" * depth + text[at:],
            text[:at] + '{"a":' * depth + text[at:],
            text[:at] + "a." * depth + text[at:],
            f'selmatch = 1\ncurve = {toml * few}"Sinh"{"}" * few}',
            '{"selmatch": 1, "curve": ' + f'{{"type": "{start}", "{key}": ' * depth + '"Sinh"' + "}" * (depth + 1),
        ]
    )


def _repeated(rng: random.Random, text: str) -> str:
    a, b = sorted((_spot(rng, text), _spot(rng, text)))
    return text[:b] + text[a:b] * rng.choice([1, 2, 50]) + text[b:]


def _cut(rng: random.Random, text: str) -> str:
    return text[: _spot(rng, text)]


def _garbage(rng: random.Random, text: str) -> str:
    alphabet = rng.choice([string.printable, '[]{}"=,.\n1a', "".join(map(chr, range(32, 0x2FF)))])
    return "".join(rng.choices(alphabet, k=rng.randint(0, 200)))


def _values(rng: random.Random, text: str) -> str:
    """A document whose values are replaced, and which is still well-formed JSON."""
    document = spec.to_dict(anything(rng))
    spots = list(_spots(document))
    for _ in range(rng.randint(1, 3)):
        table, key = rng.choice(spots)
        table[key] = rng.choice(
            [
                rng.choice(
                    [None, True, 0, -1.0, 1e308, -5e-324, 10**400, "Sinh", "z + z", "nonsense(", [], {}, [[1.0]]]
                ),
                rng.choice(spots)[0],
                spec.to_dict(curve(rng, 1))["curve"],
                [number(rng) for _ in range(rng.randint(0, 5))],
            ]
        )
    try:
        return json.dumps(document)
    except ValueError:  # a table inside itself
        return text


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield value, key
        yield from _spots(entry)


MUTATIONS = (_characters, _lines, _tokens, _tokens, _tokens, _deep, _repeated, _cut, _garbage, _values, _values)


def cases(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Texts without end, each with its format: a few valid ones, most of them broken."""
    while True:
        texts = written(rng, anything(rng))
        yield from ((text, format) for format, text in texts.items())
        for _ in range(18):
            format = rng.choice(["toml", "json"])
            mutate = rng.choice(MUTATIONS)
            text = mutate(rng, texts[format])
            if rng.random() < 0.3:
                text = rng.choice(MUTATIONS)(rng, text)
            yield text, rng.choice([format, format, format, "toml", "json"])


# ------------------------------------------------------------------------------------------------------------- check


def check(case: tuple[str, str]) -> bool:
    """Load a text; True if it holds an object, which then works, False if it was refused. All else is an exception."""
    text, format = case
    start = time.thread_time()
    try:
        found = spec.loads(text, format, name="fuzz")
    except spec.SpecError as error:
        found, message = None, str(error)
        if not message.startswith("fuzz") or len(message) > 3000:
            raise AssertionError(f"no clear message: {message}") from error
    seconds = time.thread_time() - start
    assert seconds <= 1.0, f"took {seconds:.2f} s"
    if found is None:
        return False
    if "certificates" in text:
        with contextlib.suppress(spec.SpecError):  # what nobody has proved
            spec._loads(text, format, "fuzz", spec._Builder(proves=True))
    again = spec.loads(spec.dumps(found, format), format)
    assert again == found, (found, again)
    assert repr(again) == repr(found), (found, again)
    with np.errstate(all="ignore"):
        evaluate(found)
    return True


def evaluate(found: Any) -> None:
    """Compute once, at a harmless score."""
    if isinstance(found, sm.Curve):
        found(np.array([found.point()]))
    elif isinstance(found, sm.MatchingLoss) and isinstance(found.potential, (sm.Curve, sm.PerLabel)):
        z = np.array([found.potential.point()])
        found.potential.remainder(z, 0.0 * z, z)
    elif isinstance(found, sm.ReweightedSquare):
        found(0.0, 1.0)
