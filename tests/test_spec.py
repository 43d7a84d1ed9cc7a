"""Spec files: exact round trips, readable text, clear errors, nothing that runs code or takes long."""

import gc
import json
import math
import os
import pickle
import queue
import random
import re
import sys
import threading
import time
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import pytest
import torch
from fuzzing import driver
from fuzzing import specs as fuzz
from hypothesis import given, settings
from hypothesis import strategies as st

import selmatch as sm
from conftest import CURVES, LOSSES, VECTORS
from selmatch import spec
from selmatch.design import focus
from selmatch.drawing import FromSensitivity
from selmatch.formula import parse
from selmatch.spec import SpecError

FOLDER = Path(__file__).parent / "specs"
MORE = [
    sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Log().affine(beta=-0.5)}),
    sm.CrossEntropy(sm.CompositeSoftmax(sm.Sinh(), rho=(1.0, 0.1))),
    sm.CrossEntropy(sm.CompositeSigmoid(sm.Exp())),
    sm.ReweightedSquare(),
    sm.ReweightedSquare(by="both", kappa=0.1, low=-1e-300, delta=1e300),
    sm.MatchingLoss(sm.PerLabel({-1.0: sm.Step(), 2.5: sm.Sinh() + sm.Identity()})),
    sm.MatchingLoss(sm.Cosh(), check=False),
    sm.MatchingLoss(sm.Sinh(), scale="log"),
    sm.CompositeSoftmax(sm.Cosh(), check=False),
    sm.FromPrimitive(sm.Exp() + sm.Identity()),
    sm.FromScoreTransform(sm.Exp() + sm.Constant(1.0)),
    sm.Sinh().affine(beta=-0.0, alpha=0.1 + 0.2),
    parse("z*tanh(z)"),
    parse("sinh(2*z)", lower=False),
    FromSensitivity((0.0, 1.0, 2.0), (1.0, 3.0, 0.5)),
]


@pytest.mark.parametrize("saved", [*CURVES, *VECTORS, *LOSSES, *MORE], ids=repr)
def test_round_trip_is_exact(saved):
    for format in ("toml", "json"):
        again = spec.loads(spec.dumps(saved, format))
        assert again == saved
        assert repr(again) == repr(saved)
        assert type(again) is type(saved)
    assert spec.from_dict(spec.to_dict(saved)) == saved


@given(seed=st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 3)
def test_round_trip_of_random_nested_objects(seed):
    saved = fuzz.anything(random.Random(seed))
    for format in ("toml", "json"):
        text = spec.dumps(saved, format)
        again = spec.loads(text, format)
        assert again == saved
        assert repr(again) == repr(saved)
        assert spec.dumps(again, format) == text


@given(alpha=st.floats(min_value=0.0, exclude_min=True, allow_infinity=False), beta=st.floats(-1e308, 1e308))
def test_every_float_comes_back(alpha, beta):
    curve = sm.Exp().affine(alpha=alpha, beta=beta)
    for format in ("toml", "json"):
        again = spec.loads(spec.dumps(curve, format))
        assert again.alpha == alpha
        assert again.beta == beta
        assert math.copysign(1.0, again.beta) == math.copysign(1.0, beta)


def test_every_public_class_can_be_saved_unless_it_holds_code():
    wished = sm.focus("high", data=[1.0, 2.0, 3.0])
    saved = "".join(spec.dumps(each) for each in (*CURVES, *VECTORS, *LOSSES, *MORE, wished))
    missing = {name for name in spec._public_classes() if f'"{name}"' not in saved}
    assert missing == {"FromLink"}


# ---------------------------------------------------------------------------------------------------- how it reads


def test_toml_is_readable():
    loss = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=1.5))
    assert spec.dumps(loss) == (
        f"""\
# A loss of selmatch: load it with selmatch.load(path).
selmatch = 1
version = "{sm.__version__}"

[loss]
type = "MatchingLoss"

[loss.potential]
type = "Affine"
curve = "Sigmoid"
alpha = 2.0
beta = 1.5
"""
    )
    link = sm.Piecewise((-1.0, 0.5, 2.0), (sm.Sinh(), sm.Polynomial((4.0, 0.5), 0.5))) + sm.Identity()
    assert spec.dumps(link).partition("\n\n")[2] == (
        """\
[curve]
type = "Sum"

[[curve.curves]]
type = "Piecewise"
knots = [-1.0, 0.5, 2.0]

[[curve.curves.pieces]]
type = "Sinh"

[[curve.curves.pieces]]
type = "Polynomial"
coefficients = [4.0, 0.5]
origin = 0.5

[[curve.curves]]
type = "Identity"
"""
    )
    assert spec.dumps(sm.Sinh()).endswith('\ncurve = "Sinh"\n')
    assert 'curves = ["Identity", "Sinh"]' in spec.dumps(sm.Identity() + sm.Sinh())


def test_json_is_readable():
    softmax = sm.CompositeSoftmax(sm.Sinh(), gamma=0.5, rho=(0.5, 1.0))
    assert spec.dumps(softmax, "json") == (
        f"""\
{{
  "selmatch": 1,
  "version": "{sm.__version__}",
  "potential": {{
    "type": "CompositeSoftmax",
    "scaling": "Sinh",
    "gamma": 0.5,
    "rho": [0.5, 1.0]
  }}
}}
"""
    )


def test_long_lists_are_wrapped():
    stairs = sm.Staircase(tuple(i / 7 for i in range(300)), (1.0,) * 300)
    text = spec.dumps(stairs)
    assert max(map(len, text.splitlines())) <= 120
    assert spec.loads(text) == stairs


def test_people_may_write_formulas_and_names_and_integers():
    text = """
    selmatch = 1
    [loss]
    type = "MatchingLoss"
    potential = {type = "Affine", curve = "z + 0.1*sinh(2*(z-1))", alpha = 2}
    """
    assert spec.loads(text) == sm.MatchingLoss(parse("z + 0.1*sinh(2*(z-1))").affine(alpha=2.0))
    assert spec.loads('selmatch = 1\ncurve = "tanh(z)"') == sm.Tanh()
    assert spec.loads('selmatch = 1\ncurve = {type = "Formula", text = "z*tanh(z)"}') == parse("z*tanh(z)")
    assert spec.loads('selmatch = 1\npotential = "Sinh"') == sm.Sinh()
    assert spec.loads('selmatch = 1\npotential = {type = "CompositeSoftmax"}') == sm.CompositeSoftmax()


# -------------------------------------------------------------------------------------------------- what can be saved


def test_parameters_of_frameworks_are_saved_as_numbers():
    parameter = torch.nn.Parameter(torch.tensor(0.5))
    for alpha in (parameter, jnp.asarray(0.5)):
        assert spec.loads(spec.dumps(sm.Sinh().affine(alpha=alpha))) == sm.Sinh().affine(alpha=0.5)
    for rho in (torch.tensor([0.5, 2.0]), jnp.asarray([0.5, 2.0])):
        saved = spec.dumps(sm.CompositeSoftmax(sm.Sinh(), rho=rho))
        assert spec.loads(saved) == sm.CompositeSoftmax(sm.Sinh(), rho=(0.5, 2.0))
    curve = sm.Sinh().affine(alpha=parameter)
    with torch.no_grad():
        parameter.fill_(math.nan)
    with pytest.raises(ValueError, match=r"to_dict: Affine.alpha must be finite, got nan"):
        spec.dumps(curve)


@dataclass(frozen=True)
class Mine(sm.Curve):
    increasing = True

    def __call__(self, x):
        return 2.0 * x


@dataclass(frozen=True)
class Sinh(sm.Curve):
    """Not the one of the library."""


@pytest.mark.parametrize(
    "unsavable",
    [Mine(), sm.MatchingLoss(Mine()), Mine() + sm.Sinh(), Sinh(), sm.FromLink(abs), sm.FromPrimitive(lambda z: z)],
    ids=lambda unsavable: type(unsavable).__name__,
)
def test_code_cannot_be_saved_and_the_remedy_is_a_formula(unsavable):
    name = next(name for name in ("Mine", "FromLink", "FromPrimitive", "Sinh") if name in repr(unsavable))
    name = "FromLink" if name == "FromPrimitive" else name
    with pytest.raises(TypeError, match=rf"got .*{name}\(.*selmatch\.parse"):
        spec.dumps(unsavable)


def test_only_losses_potentials_and_curves_can_be_saved():
    for other in (1.0, "Sinh", sm.Interval(), sm.Sinh, focus("high", data=[1.0, 2.0, 3.0, 9.0]).wish):
        with pytest.raises(TypeError, match="to_dict: object must be a loss, a potential or a curve, got"):
            spec.dumps(other)


def test_what_would_not_load_again_is_refused_when_it_is_saved(tmp_path):
    deep = sm.Sinh()
    for _ in range(60):
        deep = deep.affine(alpha=1.1)
    with pytest.raises(ValueError, match="nested deeper than 40"):
        spec.save(deep, tmp_path / "deep.toml")
    with pytest.raises(SpecError, match=r"cannot be saved.*65 entries"):
        spec.save(sm.Polynomial((1.0,) * 70), tmp_path / "long.toml")
    assert not list(tmp_path.iterdir())


def test_records_come_back_equal_with_what_is_left_out():
    wish = focus("extremes", data=[0.1 * i for i in range(100)]).wish
    table = spec._saved(wish, 0)
    for text in (spec._toml(table), spec._json(table)):
        read = json.loads(text) if text.startswith("{") else tomllib.loads(text)
        assert "cap" not in read
        assert spec._Builder().object(read, ("loss", "wish")) == wish


def test_a_loss_keeps_its_wish():
    loss = focus("high", data=[0.1 * i for i in range(100)])
    text = spec.dumps(loss)
    assert "\n[loss.wish]\n" in text
    assert spec.loads(text) == loss
    assert spec.loads(text).wish == loss.wish


# -------------------------------------------------------------------------------------------------- old files always load

#: what the files in the folder hold; a file that is there once must load for ever, as the same object
STORED = {
    "AbsPower": sm.AbsPower(d=2.5, c=0.5),
    "Affine": sm.Sigmoid().affine(alpha=2.0, beta=1.5, gain=0.1),
    "AntiExp": sm.AntiExp(),
    "Arcsin": sm.Arcsin(),
    "Arcsinh": sm.Arcsinh(),
    "Arctan": sm.Arctan(),
    "Arctanh": sm.Arctanh(),
    "Capped": sm.Exp().capped(high=1.0),
    "CompositeSigmoid": sm.CompositeSigmoid(sm.Exp(), gamma=0.5, offset=-1.0),
    "CompositeSoftmax": sm.CompositeSoftmax(sm.Tanh(), gamma=2.0, rho=(0.5, 1.0, 2.0), anchor=0.25),
    "Constant": sm.Constant(-2.0),
    "Cosh": sm.Cosh(),
    "CrossEntropy": sm.CrossEntropy(sm.CompositeSoftmax(sm.Sinh(), gamma=0.5)),
    "Exp": sm.Exp(),
    "Formula": parse("z*tanh(z)"),
    "FromPrimitive": sm.FromPrimitive(sm.Exp() + sm.Identity()),
    "FromScoreTransform": sm.FromScoreTransform(sm.Exp() + sm.Constant(1.0)),
    "FromSensitivity": FromSensitivity((0.0, 1.0, 2.0), (1.0, 3.0, 0.5), smooth=True),
    "Huber": sm.Huber(c=2.0),
    "Identity": sm.Identity(),
    "Inverse": sm.Inverse(sm.Identity() + sm.Sinh()),
    "Log": sm.Log(),
    "Logit": sm.Logit(),
    "MatchingLoss": sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0))),
    "NegLog1m": sm.NegLog1m(),
    "PerLabel": sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Log().affine(beta=-0.5)}),
    "Piecewise": sm.Piecewise((0.0, 1.0, 3.0), (sm.Identity(), sm.Polynomial((1.0, 5.0), origin=1.0))),
    "Polynomial": sm.Polynomial((0.5, 1.0, 0.0, 0.25), origin=0.5),
    "Power": sm.Power(1.5),
    "ReLU": sm.ReLU(),
    "ReweightedSquare": sm.ReweightedSquare(by="both", kappa=0.5, low=-3.0, delta=0.5),
    "Separable": sm.Separable(sm.Sinh()),
    "Sigmoid": sm.Sigmoid(),
    "Sign": sm.Sign(),
    "SignedLog": sm.SignedLog(),
    "SignedPower": sm.SignedPower(0.5),
    "Sin": sm.Sin(),
    "Sinh": sm.Sinh(),
    "SmeLU": sm.SmeLU(c=2.0),
    "Staircase": sm.Staircase((-1.0, 1.0), (1.0, 2.0), base=-0.5),
    "Step": sm.Step(),
    "Sum": 0.1 * sm.Identity() + sm.Exp().affine(alpha=0.5),
    "Tan": sm.Tan(),
    "Tanh": sm.Tanh(),
    "logarithmic": sm.MatchingLoss(sm.Exp().affine(alpha=0.5), scale="log1p"),
    "unchecked": sm.MatchingLoss(sm.Cosh(), check=False),
    "by_hand": sm.MatchingLoss(sm.Sum((sm.Identity(), sm.Sinh().affine(alpha=2.0, beta=1.0, gain=0.1)))),
    "proved": sm.MatchingLoss(sm.CompositeSoftmax(parse("z - 0.9*sin(z)"), gamma=0.5)),
    "proved_per_label": sm.MatchingLoss(
        sm.PerLabel({0.0: sm.CompositeSigmoid(sm.Cosh(), gamma=1.3), 1.0: parse("z - 0.9*sin(z)"), 2.0: sm.Sinh()})
    ),
}


@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob("schema_*/*.*")), ids=lambda file: f"{file.parent.name}/{file.name}"
)
def test_stored_files_load(file):
    assert spec.load(file) == STORED[file.stem]


def test_a_digest_names_what_a_file_must_hold(tmp_path):
    made = set()
    for saved in (*CURVES, *VECTORS, *LOSSES, *MORE):
        digest = spec.digest(saved)
        assert (
            digest == spec.digest(spec.loads(spec.dumps(saved))) == spec.digest(spec.loads(spec.dumps(saved, "json")))
        )
        made.add((repr(saved), digest))
    assert len({digest for _, digest in made}) == len(made)  # other objects, other digests
    loss = focus("high", data=[float(i) for i in range(50)])
    assert spec.digest(loss) == spec.digest(sm.MatchingLoss(loss.potential))  # a wish changes nothing
    for path in (tmp_path / "loss.toml", tmp_path / "loss.json"):
        loss.save(path)
        path.write_text(path.read_text().replace('"0.1.0"', '"9.9.9"'))  # another version wrote it
        assert sm.load(path, digest=spec.digest(loss)) == loss
        with pytest.raises(
            SpecError, match=r"loss\.\w+: must hold the object with the digest 0000, got \w{16}: another"
        ):
            sm.load(path, digest="0000")


def test_all_stored_files_are_there():
    for format in ("toml", "json"):
        assert {file.stem for file in FOLDER.glob(f"schema_*/*.{format}")} == set(STORED)


# ----------------------------------------------------------------------------------------------------------- refusals

#: texts with what they must be refused for; the line is that of the first |
# ruff: noqa: E501
WRONG = r"""
selmatch = 1
|los = "Sinh"
    line 2, column 1: los: unknown key 'los'. Did you mean 'loss'?
----
|curve = "Sinh"
    line 1, column 1: selmatch, the version of the schema, is missing. Add selmatch = 1 at the top.
----
selmatch = 1
[loss]
type = "MatchingLoss"
potential = "Exp"
|scale = "sqrt"
    line 5, column 1: loss.scale: MatchingLoss: scale must be None, 'log' or 'log1p', got 'sqrt'.
----
|selmatch = 7
curve = "Sinh"
    line 1, column 1: selmatch: written by a newer selmatch (schema 7). Upgrade selmatch.
----
|selmatch = 0
    line 1, column 1: selmatch: must be the version of the schema, got 0. Write 1.
----
|selmatch = true
    line 1, column 1: selmatch: must be the version of the schema, got true. Write 1.
----
|selmatch = 1
    line 1, column 1: a document must hold exactly one of loss, potential and curve, got none. Start with [loss] and type = "MatchingLoss".
----
selmatch = 1
curve = "Sinh"
|potential = "Sinh"
    line 3, column 1: potential: a document must hold exactly one of loss, potential and curve, got curve and potential. Start with [loss] and type = "MatchingLoss".
----
selmatch = 1
|version = 0.1
curve = "Sinh"
    line 2, column 1: version: must be a text such as "0.1.0", got 0.1.
----
selmatch = 1
|[loss]
type = "Sinh"
    line 2, column 1: loss: must be a loss, got Sinh. Put it under curve.
----
selmatch = 1
|[curve]
type = "CompositeSoftmax"
    line 2, column 1: curve: must be a curve, got CompositeSoftmax. Put it under potential.
----
selmatch = 1
[curve]
|type = "Sinhh"
    line 3, column 1: curve.type: unknown type 'Sinhh'. Did you mean 'Sinh'?
----
selmatch = 1
|[curve]
curve = "Sinh"
    line 2, column 1: curve: must name its class. Add, for example, type = "Sinh".
----
selmatch = 1
[curve]
|type = 3
    line 3, column 1: curve.type: must be the name of a class, got 3.
----
selmatch = 1
[curve]
type = "Affine"
curve = "Sinh"
|alhpa = 2.0
    line 5, column 1: curve.alhpa: Affine has no field 'alhpa'. Did you mean 'alpha'?
----
selmatch = 1
|[curve]
type = "Affine"
alpha = 2.0
    line 2, column 1: curve: Affine needs the field 'curve'. Add curve = ...
----
selmatch = 1
[curve]
type = "Affine"
curve = "Sinh"
|alpha = "2.0"
    line 5, column 1: curve.alpha: must be a number, or a list of these, got '2.0'. Write numbers without quotes.
----
selmatch = 1
[curve]
type = "SmeLU"
|c = true
    line 4, column 1: curve.c: must be a number, got true. Write a number such as 1.0.
----
selmatch = 1
[curve]
type = "SmeLU"
|c = [1.0]
    line 4, column 1: curve.c: must be a number, got a list of 1. Write one, without brackets.
----
selmatch = 1
[curve]
type = "SmeLU"
|c = 1979-05-27
    line 4, column 1: curve.c: must be a number, got the date or time 1979-05-27. Write one of that kind.
----
selmatch = 1
[curve]
type = "SmeLU"
|c = inf
    line 4, column 1: curve.c: must be finite, got inf. Write a number below 1.8e308.
----
selmatch = 1
[curve]
type = "SmeLU"
|c = -1
    line 4, column 1: curve.c: SmeLU: c must be > 0, got -1.0.
----
selmatch = 1
[loss]
type = "MatchingLoss"
[loss.potential]
type = "Sum"
[[loss.potential.curves]]
type = "Sinh"
[[loss.potential.curves]]
type = "Affine"
curve = "Sinh"
|alpha = -1.0
    line 11, column 1: loss.potential.curves[1].alpha: Affine: alpha must be > 0, got -1.0.
----
selmatch = 1
[curve]
type = "Polynomial"
coefficients = [
  1.0, # a comment with ] and "
  |"b",
]
    line 6, column 3: curve.coefficients[1]: must be a number, or a list of these, got 'b'. Write numbers without quotes.
----
selmatch = 1
[curve]
type = "Sum"
curves = ["Sinh", {type = "Huber", |c = 0.0}]
    line 4, column 36: curve.curves[1].c: Huber: c must be > 0, got 0.0.
----
selmatch = 1
curve.type = "Affine"
curve.curve.type = "Huber"
|curve.curve."c" = 0.0
    line 4, column 1: curve.curve.c: Huber: c must be > 0, got 0.0.
----
selmatch = 1
[loss]
type = "MatchingLoss"
|check = 0
potential = "Sinh"
    line 4, column 1: loss.check: must be true or false, got 0. Write one of that kind.
----
selmatch = 1
|[loss]
potential = "Cosh"
type = "MatchingLoss"
    line 2, column 1: loss: MatchingLoss: Cosh() decreases somewhere, so it cannot be a link. As a scaling: CompositeSigmoid(Cosh(), gamma=0.7).
----
selmatch = 1
[curve]
type = "FromPrimitive"
|of = {type = "ReweightedSquare"}
    line 4, column 1: curve.of: must be a curve, got ReweightedSquare. Name another type.
----
selmatch = 1
[curve]
|type = "FromLink"
function = "abs"
    line 3, column 1: curve.type: FromLink holds Python code, which no file can. Write it as a formula, for example selmatch.parse("z + tanh(z)").
----
selmatch = 1
[potential]
type = "PerLabel"
|labels = [1.0, 1.0]
curves = ["Sinh", "Exp"]
    line 4, column 1: potential.labels: PerLabel: labels must differ. Give each label once.
----
selmatch = 1
|curve = "z +"
    line 2, column 1: curve: parse: at column ...
----
selmatch = 1
|curve = 3
    line 2, column 1: curve: must be a table with a type, a name or a formula, got 3.
----
selmatch = 1
curve = "Sinh"
curve = "Sinh"|
    line 3: not TOML: Cannot overwrite a value. See toml.io.
----
selmatch = 1
curve = |Sinh
    line 2, column 9: not TOML: Invalid value. See toml.io.
----
{"selmatch": 1,
 "curve": {"type": "Affine", "curve": "Sinh", |"alpha": -2}}
    line 2, column 47: curve.alpha: Affine: alpha must be > 0, got -2.0.
----
{"selmatch": 1,
 "curve": {"type": "Huber", "c": 1,
   |"c": 2}}
    line 3, column 4: curve.c: must be given once. Take one away.
----
{"selmatch": 1,
 "curve": {"type": "Huber", |"c": NaN}}
    line 2, column 29: curve.c: must be finite, got nan. Write a number below 1.8e308.
----
{"selmatch": 1,
 "curve": {"type": "Huber", |"c": null}}
    line 2, column 29: curve.c: must be a number, got null. Leave the key out.
----
{"selmatch": 1,
 "curve": {"type": "Sum", "curves": ["Sinh",
   |{"curve": 1}]}}
    line 3, column 4: curve.curves[1]: must name its class. Add, for example, type = "Sinh".
----
{"selmatch": 1,
 "curve": |Sinh}
    line 2, column 11: not JSON: Expecting value. See json.org.
"""
CASES = [case.strip("\n").rsplit("\n    ", 1) for case in WRONG.split("----\n")]


@pytest.mark.parametrize(("text", "message"), CASES, ids=[message[:60] for _, message in CASES])
def test_what_is_wrong_is_told_with_its_place_and_the_remedy(text, message, tmp_path):
    marked = text.index("|")
    text = text.replace("|", "", 1)
    file = tmp_path / ("wrong.json" if text.startswith("{") else "wrong.toml")
    file.write_bytes(text.encode())
    with pytest.raises(SpecError) as caught:
        spec.load(file)
    assert re.fullmatch(re.escape(f"{file.name}, {message}").replace(r"\.\.\.", "(?s:.*)"), str(caught.value))
    assert caught.value.line == text.count("\n", 0, marked) + 1
    assert caught.value.name == file.name
    assert caught.value.path in message


def test_the_error_of_a_document_has_a_path_and_travels_between_processes():
    with pytest.raises(SpecError) as caught:
        spec.from_dict({"selmatch": 1, "curve": {"type": "Huber", "c": 10**400}})
    assert str(caught.value).startswith("curve.c: must be finite, got an integer of more than 80 digits")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.path == "curve.c"
    with pytest.raises(SpecError, match="a document must be a table, got a list of 0"):
        spec.from_dict([])


def nested(depth, wrap='{"type": "Affine", "curve": ', inner='"Sinh"'):
    return '{"selmatch": 1, "curve": ' + wrap * depth + inner + "}" * depth + "}"


def chain(depth, wrap, inner="Sinh"):
    for _ in range(depth):
        inner = wrap(inner)
    return {"selmatch": 1, "potential": inner}


HOSTILE = {
    "deep json": nested(100_000),
    "just too deep": nested(45),
    "deep lists": "selmatch = 1\ncurve = " + "[" * 200_000,
    "deep keys": "a." * 400_000 + "a = 1",
    "deep quoted keys": '"=".' * 200_000 + "a = 1",
    "deep header": "[" + "a." * 400_000 + "a]",
    "many values": "selmatch = 1\ncurve = [" + "1," * 490_000 + "]",
    "many tables": "selmatch = 1\n" + "[[a]]\n" * 160_000,
    "many keys": "".join(f"k{i} = 1\n" for i in range(90_000)),
    "open strings": '\\"""' * 240_000,
    "open quotes": '"\n' * 490_000,
    "long number": "selmatch = " + "9" * 900_000,
    "long hexadecimal": "selmatch = 0x" + "f" * 390,
    "long integer": "selmatch = 1\ncurve = {type = 'Huber', c = " + "9" * 390 + "}",
    "long": " " * 1_000_001,
    "long formula": 'selmatch = 1\ncurve = "' + "z+" * 100_000 + 'z"',
    "many objects": 'selmatch = 1\ncurve = {type = "Sum", curves = [' + '"Sinh",' * 50_000 + "]}",
    "many numbers": 'selmatch = 1\ncurve = {type = "Staircase", thresholds = [' + "1," * 99_000 + "], jumps=[1]}",
    "long polynomial": 'selmatch = 1\ncurve = {type = "Polynomial", coefficients = [' + "1," * 9_000 + "]}",
    "inverses": json.dumps(
        chain(9, lambda c: {"type": "Inverse", "curve": {"type": "Sum", "curves": ["Identity", c]}})
    ),
    "composites": json.dumps(chain(30, lambda c: {"type": "CompositeSigmoid", "scaling": c})),
    "primitives": json.dumps(chain(30, lambda c: {"type": "FromPrimitive", "of": c})),
    "pieces": json.dumps(chain(15, lambda c: {"type": "Piecewise", "knots": [0, 1, 2], "pieces": [c, c]})),
    "polynomials": json.dumps(
        chain(1, lambda c: {"type": "Sum", "curves": [{"type": "Polynomial", "coefficients": [1.0, -1.0] * 32}] * 400})
    ),
    "wide rho": json.dumps(chain(1, lambda c: {"type": "CompositeSoftmax", "rho": [1] * 60_000})),
    "garbage": "\x00\x01\udcff" * 1000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_in_a_short_time(text):
    for format in ("toml", "json"):
        start = time.thread_time()  # of this thread: others of the process may have work left over from other tests
        with pytest.raises(SpecError, match="hostile"):
            spec.loads(text, format, name="hostile")
        assert time.thread_time() - start < 3.0


def test_large_honest_files_load():
    stairs = sm.Staircase(tuple(i / 7 for i in range(3000)), (1.0,) * 3000)
    assert spec.loads(spec.dumps(stairs)) == stairs
    knots = tuple(float(i) for i in range(201))
    link = sm.Piecewise(knots, tuple(sm.Polynomial((k, 1.0), origin=k) for k in knots[:-1]))
    assert spec.loads(spec.dumps(sm.MatchingLoss(link))) == sm.MatchingLoss(link)
    softmax = sm.CompositeSoftmax(sm.Sinh(), rho=tuple(1.0 + i / 7 for i in range(20_000)))
    assert spec.loads(spec.dumps(softmax)) == softmax


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path):
    file = tmp_path / "loss.toml"
    file.write_bytes(b"selmatch = 1\ncurve = '\xff'\n")
    with pytest.raises(SpecError, match=r"loss.toml, line 2: the file must be UTF-8 text"):
        spec.load(file)
    file.write_bytes(b'\xef\xbb\xbfselmatch = 1\r\ncurve = "Sinh"\r\n')  # as some editors write it
    assert spec.load(file) == sm.Sinh()
    with open(file, "wb") as writable:
        writable.truncate(2_000_000)
    with pytest.raises(SpecError, match=r"must not be longer than 1,000,000 bytes"):
        spec.load(file)


def test_wrong_calls():
    with pytest.raises(FileNotFoundError):
        spec.load("nowhere.toml")
    with pytest.raises(ValueError, match=r"save: path must end in .toml or .json, got 'loss.yaml'"):
        spec.save(sm.Sinh(), "loss.yaml")
    with pytest.raises(FileNotFoundError, match=r"the folder must exist.*nowhere'"):
        spec.save(sm.Sinh(), "nowhere/loss.toml")
    with pytest.raises(ValueError, match=r"dumps: format must be 'toml' or 'json', got 'yaml'"):
        spec.dumps(sm.Sinh(), "yaml")
    with pytest.raises(ValueError, match=r"loads: format must be 'toml' or 'json', got 'yaml'"):
        spec.loads("", "yaml")
    with pytest.raises(TypeError, match=r"loads: text must be a str, got bytes"):
        spec.loads(b"")


def test_a_migration_brings_old_documents_to_the_present(monkeypatch):
    def renamed(document):
        return {("curve" if key == "link" else key): value for key, value in document.items()}

    monkeypatch.setattr(spec, "SCHEMA", 2)
    monkeypatch.setattr(spec, "_MIGRATIONS", {1: renamed})
    assert spec.loads('selmatch = 1\nlink = "Sinh"') == sm.Sinh()
    with pytest.raises(SpecError, match="unknown key 'link'"):
        spec.loads('selmatch = 2\nlink = "Sinh"')


def test_every_older_schema_has_its_migration():
    assert set(spec._MIGRATIONS) == set(range(1, spec.SCHEMA))


# ----------------------------------------------------------------------------------------------------------- on disk


def test_save_and_load(tmp_path):
    loss = sm.MatchingLoss(sm.Sinh())
    for name in ("loss.toml", "loss.json", "LOSS.TOML"):
        spec.save(loss, tmp_path / name)
        assert spec.load(str(tmp_path / name)) == loss
        assert b"\r" not in (tmp_path / name).read_bytes()
    (tmp_path / "loss.txt").write_text(spec.dumps(loss, "json"))
    assert spec.load(tmp_path / "loss.txt") == loss


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_an_interrupted_save_keeps_the_old_file(tmp_path, monkeypatch, broken):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    file = tmp_path / "loss.toml"
    spec.save(sm.Sinh(), file)
    monkeypatch.setattr(os, broken, interrupt)
    with pytest.raises(KeyboardInterrupt):
        spec.save(sm.Exp(), file)
    assert spec.load(file) == sm.Sinh()
    assert list(tmp_path.iterdir()) == [file]


def test_links_and_permissions_stay(tmp_path):
    file, link = tmp_path / "loss.toml", tmp_path / "link.toml"
    spec.save(sm.Sinh(), file)
    file.chmod(0o640)
    mode = file.stat().st_mode
    link.symlink_to(file)
    spec.save(sm.Exp(), link)
    assert link.is_symlink()
    assert spec.load(file) == sm.Exp()
    assert file.stat().st_mode == mode


def test_threads_may_save_and_load_at_once(tmp_path):
    file = tmp_path / "loss.toml"
    losses = [sm.MatchingLoss(sm.Sinh().affine(alpha=1.0 + i)) for i in range(4)]
    spec.save(losses[0], file)
    seen, errors = set(), []

    def work(loss):
        try:
            for _ in range(25):
                spec.save(loss, file)
                seen.add(spec.load(file))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(loss,)) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= set(losses)
    assert list(tmp_path.iterdir()) == [file]


# ----------------------------------------------------------------------------------------------------------- fuzzing

_heard, _listening = [], threading.local()


def _hear(event, arguments):
    forbidden = ("exec", "compile", "open", "import", "os.", "subprocess.", "socket.", "ctypes.")
    if getattr(_listening, "on", False) and event.startswith(forbidden):
        _heard.append((event, arguments))


def test_curves_that_take_long_to_measure_are_refused(monkeypatch):
    transform = {"type": "FromScoreTransform", "of": {"type": "Inverse", "curve": {"type": "Sum", "curves": []}}}
    transform["of"]["curve"]["curves"] = ["Logit", "Sinh", "SmeLU"]
    with pytest.raises(SpecError, match="MatchingLoss takes too long"):
        spec.from_dict({"selmatch": 1, "loss": {"type": "MatchingLoss", "potential": transform}})
    wave = "+".join(f"sin({i + 1}*z)" for i in range(20))
    monkeypatch.setattr(spec, "MAX_SECONDS", 0.0)
    with pytest.raises(SpecError, match="Formula takes too long"):
        spec.from_dict({"selmatch": 1, "curve": {"type": "Sum", "curves": [wave, wave]}})


@pytest.fixture
def _without_garbage():
    """What other tests left is collected now, not while a text is timed."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_without_garbage")
def test_random_texts_are_loaded_or_refused_and_run_no_code():
    sys.addaudithook(_hear)
    cases = fuzz.cases(random.Random(20))
    found = {True: 0, False: 0}
    for _ in range(400):  # make fuzz takes many more
        case = next(cases)
        _listening.on = True
        try:
            found[fuzz.check(case)] += 1
        finally:
            _listening.on = False
    assert not _heard
    assert found[True] > 20
    assert found[False] > 200


def test_the_fuzzer_notices_exceptions_slowness_and_code(monkeypatch):
    def check(case):
        if case == "slow":
            start = time.process_time()
            while time.process_time() - start < 0.1:
                pass
        if case == "raises":
            raise ZeroDivisionError
        if case == "code":
            eval("1 + 1")
        return case == "valid"

    module = types.ModuleType("fuzzing.fake")
    cases = ["valid", "refused", "slow", "raises", "code"]
    vars(module).update(cases=lambda rng: iter(cases), check=check, LIMIT=0.05)
    monkeypatch.setitem(sys.modules, "fuzzing.fake", module)
    reports, running = queue.SimpleQueue(), types.SimpleNamespace(put=lambda case: None, clear=lambda: None)
    driver.work("fake", 0, len(cases), reports, running)
    seen = [reports.get()[2] for _ in range(reports.qsize())]
    assert seen.pop() is None
    assert (sum(report.valid for report in seen), sum(report.refused for report in seen)) == (1, 1)
    failures = dict(failure for report in seen for failure in report.failures)
    assert list(failures) == ["slow", "raises", "code"]
    assert re.search(r"took 0\.1", failures["slow"])
    assert "ZeroDivisionError" in failures["raises"]
    assert re.search("forbidden: .*compile", failures["code"])
