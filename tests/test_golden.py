"""Every golden row on NumPy, PyTorch and JAX, in float64 and float32, within the rule of ``golden/README.md``."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from golden_rows import DEFAULT_FOLDER, DTYPES, FILES, FOLDER, Question, questions, read

import selmatch as sm

SHOWN = 5
#: files that older folders do not have
LATER = ("derived",)
IS_DEFAULT_FOLDER = FOLDER.resolve() == DEFAULT_FOLDER.resolve()


# ------------------------------------------------------------------------------------------------ what is compared
@dataclass(frozen=True)
class Format:
    """A floating-point format: which doubles it holds exactly, and its normal range."""

    is_exact: Callable[[np.ndarray], np.ndarray]
    smallest_normal: float
    largest: float


def _fits(dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    def is_exact(values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return values.astype(dtype).astype(float) == values

    return is_exact


def _fits_bfloat16(values: np.ndarray) -> np.ndarray:
    """A bfloat16 is the upper half of a float32."""
    lower_half = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF)
    return _fits("float32")(values) & (lower_half == 0)


FORMATS = {dtype: Format(_fits(dtype), np.finfo(dtype).smallest_normal, np.finfo(dtype).max) for dtype in DTYPES}
FORMATS["bfloat16"] = Format(_fits_bfloat16, 2.0**-126, (2 - 2.0**-7) * 2.0**127)


def compared(question: Question, dtype: str) -> np.ndarray:
    """Which expected values are compared: exact inputs, and a value within the normal range."""
    format_ = FORMATS[dtype]
    values = question.expected.comparable(format_.smallest_normal, format_.largest)
    return (values.T & question.exact_rows(format_.is_exact)).T


def vanishing(question: Question, dtype: str) -> np.ndarray:
    """Which expected values are too small for the dtype, so that only their smallness can be tested."""
    format_ = FORMATS[dtype]
    values = question.expected.below_normal(format_.smallest_normal)
    return (values.T & question.exact_rows(format_.is_exact)).T


def asked_rows(question: Question, dtype: str) -> np.ndarray:
    """Rows in which something is tested; the others are not even asked for."""
    tested = compared(question, dtype) | vanishing(question, dtype)
    return np.flatnonzero(tested.reshape(len(tested), -1).any(axis=1))


# --------------------------------------------------------------------------------------------- asking a framework
Asked = list[tuple[Question, np.ndarray]]


def ask_numpy(asked: Asked, dtype: str) -> list[np.ndarray]:
    answers = []
    for question, rows in asked:
        inputs = [np.asarray(values[rows], dtype) for values in question.inputs]
        # NumPy announces an infinite value with a warning.
        announced = "ignore" if question.expected.infinite[rows].any() else "warn"
        with np.errstate(divide=announced):
            answer = question.ask(question.build(), *inputs)
        assert answer.dtype == inputs[0].dtype
        answers.append(answer)
    return answers


def ask_torch(asked: Asked, dtype: str) -> list[np.ndarray]:
    answers = []
    for question, rows in asked:
        inputs = [torch.tensor(values[rows], dtype=getattr(torch, dtype)) for values in question.inputs]
        answer = question.ask(question.build(), *inputs)
        assert answer.dtype == inputs[0].dtype
        answers.append(answer.double().numpy())
    return answers


def ask_jax(asked: Asked, dtype: str) -> list[np.ndarray]:
    """Rows are repeated up to a few lengths: JAX compiles each operation once for each shape, which takes longest."""
    answers = []
    with jax.enable_x64(True):
        for question, rows in asked:
            length = max(question.shortest, 1 << (len(rows) - 1).bit_length())
            inputs = [jnp.asarray(values[np.resize(rows, length)], dtype) for values in question.inputs]
            answer = question.ask(question.build(), *inputs)
            assert answer.dtype == inputs[0].dtype
            answers.append(np.asarray(answer.astype(float))[: len(rows)])
    return answers


ASK = {"numpy": ask_numpy, "torch": ask_torch, "jax": ask_jax}


def answers_of(group: list[Question], framework: str, dtype: str) -> list[tuple[Question, np.ndarray, np.ndarray]]:
    """(question, rows, answers to these rows) of all questions that have something to ask."""
    asked = [(question, asked_rows(question, dtype)) for question in group]
    asked = [(question, rows) for question, rows in asked if len(rows)]
    answers = ASK[framework](asked, dtype) if asked else []
    return [(question, rows, np.asarray(a, float)) for (question, rows), a in zip(asked, answers, strict=True)]


# ------------------------------------------------------------------------------------------------------ comparison
def relative_errors(question: Question, rows: np.ndarray, got: np.ndarray, framework: str, dtype: str) -> np.ndarray:
    """Errors relative to the scale of the rule; NaN where nothing is compared."""
    expected, scale = question.expected.values[rows], question.scale[rows]
    # XLA takes a term below the normal range for 0, and so its sums are good to the smallest normal number only
    flushed = FORMATS[dtype].smallest_normal if (framework, dtype) == ("jax", "float32") else 0.0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(got == expected, 0.0, np.abs(got - expected))
        gap = np.where((gap < flushed) & (expected != 0), 0.0, gap)
        errors = np.where(gap == 0, 0.0, gap / scale)
    errors = np.where(np.isnan(errors), np.inf, errors)
    small = vanishing(question, dtype)[rows]
    excess = np.where(np.abs(got) > FORMATS[dtype].smallest_normal, errors, 0.0)
    return np.where(small, excess, np.where(compared(question, dtype)[rows], errors, np.nan))


def describe(question: Question, row: int, index: tuple, got: float, error: float) -> str:
    scores = "" if question.one_row else ", ".join(str(values[row].tolist()) for values in question.inputs)
    place = f"[{', '.join(map(str, index))}]" if index else ""
    expected = question.expected.values[(row, *index)]
    return f"{error:9.2e}  {question.label} at ({scores}){place}: got {got!r}, expected {float(expected)!r}"


def misses(group: list[Question], framework: str, dtype: str) -> list[tuple[float, str]]:
    """Everything beyond the tolerance, worst first."""
    found = []
    for question, rows, got in answers_of(group, framework, dtype):
        expected_shape = (len(rows), *question.expected.values.shape[1:])
        assert got.shape == expected_shape, f"{question.label}: shape {got.shape} instead of {expected_shape}"
        errors = relative_errors(question, rows, got, framework, dtype)
        for place in np.argwhere(errors > question.tolerance(dtype)):
            i, *index = place.tolist()
            error = float(errors[tuple(place)])
            found.append((error, describe(question, rows[i], tuple(index), float(got[tuple(place)]), error)))
    return sorted(found, reverse=True)


def group_of(file: str, subject: str, quantity: str, dtype: str | None = None) -> list[Question]:
    fitting = (q for q in questions(file, subject) if q.quantity == quantity)
    return [q for q in fitting if dtype is None or q.dtype in (None, dtype)]


def _exists(file: str) -> bool:
    """Whether a file can be read; one that came later may be taken from the default folder."""
    return any((folder / f"{file}.json").exists() for folder in (FOLDER, DEFAULT_FOLDER if file in LATER else FOLDER))


GROUPS = [
    (file, subject, quantity)
    for file in FILES
    if _exists(file)
    for subject in FILES[file].subjects()
    for quantity in dict.fromkeys(question.quantity for question in questions(file, subject))
]


@pytest.mark.parametrize("file", [*FILES, "thresholds"])
def test_the_file_is_there_and_has_rows(file):
    assert _exists(file), f"{FOLDER} has no {file}.json"
    assert file == "thresholds" or FILES[file].subjects()


def _asked() -> Iterator[Any]:
    """Groups, frameworks and dtypes; the rows of one potential each are few, and take the frameworks long."""
    for group, framework, dtype in itertools.product(GROUPS, ASK, DTYPES):
        slow = framework != "numpy" and (group[0] in LATER or group[2] == "cross-entropy of the link")
        slow = slow or (framework, dtype, group[0]) == ("jax", "float32", "composite_softmax")
        yield pytest.param(*group, framework, dtype, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("file", "subject", "quantity", "framework", "dtype"), [*_asked()])
def test_golden_rows(file, subject, quantity, framework, dtype):
    group = group_of(file, subject, quantity, dtype)
    found = misses(group, framework, dtype)
    if found:
        tolerance = group[0].tolerance(dtype)
        head = f"{file}: {quantity} of {subject} on {framework} in {dtype}: {len(found)} values beyond {tolerance:g}"
        pytest.fail("\n".join([head, *(text for _, text in found[:SHOWN])]), pytrace=False)


# ----------------------------------------------------------------------------------------------------------- counts
def report(request: pytest.FixtureRequest, line: str) -> None:
    """Hand a line to whoever prints or stores the properties of a test."""
    request.node.user_properties.append(("golden", line))


@pytest.mark.parametrize(("dtype", "share"), [("float64", 0.99), ("float32", 0.5)])
def test_most_values_are_compared(dtype, share, request):
    total = done = 0
    for group in GROUPS:
        for question in group_of(*group, dtype):
            total += int((~question.expected.missing).sum())
            done += int(compared(question, dtype).sum())
    report(request, f"golden rows in {dtype}: {done} values compared, {total - done} left out")
    if IS_DEFAULT_FOLDER:
        assert done >= share * total
        assert f"{done:,} " in (DEFAULT_FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------------- half precision
BFLOAT16_GROUPS = [group for group in GROUPS if group[2] in ("loss", "gradient") and group[0] not in LATER]
BFLOAT16_LOGITS = 1e3


def bfloat16_rows(question: Question) -> np.ndarray:
    """Which values count: scores exact in bfloat16, |Q|/gamma <= 1e3, a value within the normal range."""
    return compared(question, "bfloat16") & (question.largest_logits <= BFLOAT16_LOGITS)


def bfloat16_steps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Errors in units of the spacing of bfloat16 at the expected value."""
    spacing = np.where(expected == 0, 0.0, np.ldexp(1.0, np.frexp(expected)[1] - 8))
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.abs(got - expected) / spacing
    return np.where(got == expected, 0.0, np.where(np.isnan(steps), np.inf, steps))


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize(("file", "subject", "quantity"), BFLOAT16_GROUPS)
def test_bfloat16_is_one_rounding_away(file, subject, quantity, framework):
    found = []
    for question, rows, got in answers_of(group_of(file, subject, quantity), framework, "bfloat16"):
        steps = bfloat16_steps(got, question.expected.values[rows])
        # The neighbours on both sides of the exact value are one rounding away; an exact bfloat16 must be met.
        for place in np.argwhere(bfloat16_rows(question)[rows] & (steps >= 1)):
            i, *index = place.tolist()
            error = float(steps[tuple(place)])
            found.append((error, describe(question, rows[i], tuple(index), float(got[tuple(place)]), error)))
    if found:
        head = (
            f"{file}: {quantity} of {subject} on {framework} in bfloat16: {len(found)} values, in units of the spacing"
        )
        pytest.fail("\n".join([head, *(text for _, text in sorted(found, reverse=True)[:SHOWN])]), pytrace=False)


def test_enough_rows_are_exact_in_bfloat16(request):
    done = sum(int(bfloat16_rows(question).sum()) for group in BFLOAT16_GROUPS for question in group_of(*group))
    report(request, f"golden rows in bfloat16: {done} values compared")
    if IS_DEFAULT_FOLDER:
        assert done >= 200


# -------------------------------------------------------------------------------------------------------- thresholds
# The printed digits of a threshold; amplitudes that are exact, so that the threshold moves by exactly that factor.
BESIDE = 1e-12
AMPLITUDES = [(1.0, 1.0), (0.5, 1.0), (2.0, 1.0), (0.5, 3.0)]


def accepts(curve: sm.Curve, gamma: float) -> bool:
    try:
        sm.CompositeSigmoid(curve, gamma=gamma)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("alpha", "gain"), AMPLITUDES)
def test_largest_gamma_of_cosh(alpha, gain):
    limit = float(read("thresholds")["sinh_gamma_max"]) * gain / alpha
    curve = sm.Cosh().affine(alpha=alpha, beta=-1.5, gain=gain)
    assert accepts(curve, limit * (1 - BESIDE))
    assert not accepts(curve, limit * (1 + BESIDE))


def test_smallest_c_of_absolute_power():
    for gamma, d, c_min, _ in read("thresholds")["poly"]:
        assert accepts(sm.AbsPower(d, float(c_min) * (1 + BESIDE)), gamma), (gamma, d)
        assert not accepts(sm.AbsPower(d, float(c_min) * (1 - BESIDE)), gamma), (gamma, d)


# --------------------------------------------------------------------------------------------------------- generator
@pytest.mark.parametrize("file", ["decomposed", "reweighting", pytest.param("derived", marks=pytest.mark.slow)])
def test_the_generator_still_makes_the_files(file, tmp_path):
    script, params = DEFAULT_FOLDER / "generate.py", DEFAULT_FOLDER / "params.json"
    command = [sys.executable, script, "--params", params, "--out", tmp_path, "--only", file]
    subprocess.run(command, check=True, capture_output=True)
    made = json.loads((tmp_path / f"{file}.json").read_text())
    assert made == json.loads((DEFAULT_FOLDER / f"{file}.json").read_text())
