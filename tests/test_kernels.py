"""Kernels: primitives in ulps, generated code against the curves' formulas, both backends against the losses."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from score_pairs import generic_pairs, special_pairs

import selmatch as sm
from conftest import LINKS
from selmatch import functions, kernels
from selmatch.kernels import cache, emit, kernel, pool
from selmatch.kernels.cpu_functions import DOUBLE, SINGLE

FLOATS = (np.float32, np.float64)
#: forms that are compiled in this module, each in one precision but for the first
STEEP = sm.Sigmoid().affine(alpha=2.0, beta=1.5)
DRAWN = sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0))
NARROW = sm.CompositeSigmoid(sm.Cosh(), gamma=0.7)  # its slope needs double precision
COMPILED = [(STEEP, np.float64), (sm.Sinh(), np.float32), (NARROW, np.float32), (DRAWN, np.float64)]


@pytest.fixture
def threads():
    """Sets the number of threads, for one test."""
    before = kernels.threads()
    yield kernels.threads
    kernels.threads(before)


def pairs(curve: sm.Curve, dtype, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are far apart, near, very near and equal."""
    loss = sm.MatchingLoss(curve)
    both = zip(generic_pairs(loss, count), special_pairs(loss), strict=True)
    s_hat, s = (np.concatenate(parts).astype(dtype) for parts in both)
    return s_hat, s


def assert_near(got, expected, ulps: float, floor=0.0) -> None:
    """Equal to within some roundings of the result, or of a floor for its size."""
    got, expected = np.asarray(got), np.asarray(expected, dtype=np.float64)
    info = np.finfo(got.dtype)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= ulps * info.eps * (np.abs(expected) + floor) + info.tiny
    assert np.all(near | (got == expected)), (got[~near], expected[~near])


# ----------------------------------------------------------------------------------------------------------- primitives

PRIMITIVES = ("exp", "expm1", "log", "log1p", "sinh", "cosh", "tanh", "arcsinh")
ULPS = {"tanh": 3.0}


def _evaluated(table, x: np.ndarray) -> dict[str, np.ndarray]:
    """All primitives in one compiled loop."""
    exp, expm1, log, log1p = table.exp, table.expm1, table.log, table.log1p
    sinh, cosh, tanh, arcsinh = table.sinh, table.cosh, table.tanh, table.arcsinh

    @numba.njit(error_model="numpy")
    def run(x, out):
        for i in range(x.shape[0]):
            out[0, i], out[1, i], out[2, i], out[3, i] = exp(x[i]), expm1(x[i]), log(x[i]), log1p(x[i])
            out[4, i], out[5, i], out[6, i], out[7, i] = sinh(x[i]), cosh(x[i]), tanh(x[i]), arcsinh(x[i])

    out = np.empty((len(PRIMITIVES), len(x)), dtype=x.dtype)
    run(x, out)
    return dict(zip(PRIMITIVES, out, strict=True))


@pytest.mark.parametrize(("table", "dtype"), [(SINGLE, np.float32), (DOUBLE, np.float64)], ids=["single", "double"])
def test_primitives_are_within_two_ulp_and_right_at_the_ends(table, dtype):
    info, rng = np.finfo(dtype), np.random.default_rng(3)
    reach = np.log(float(info.max))
    sizes = 10.0 ** rng.uniform(np.log10(float(info.smallest_subnormal)), np.log10(float(info.max)), 20_000)
    ends = [np.inf, -np.inf, np.nan, 0.0, -1.0, 1.0, info.max, -info.max, info.tiny, info.smallest_subnormal, 1e4, -1e4]
    parts = (
        rng.normal(size=20_000), rng.uniform(-1.05 * reach, 1.05 * reach, 20_000), sizes, -sizes,
        rng.uniform(-1.0, 1.0, 20_000), np.asarray(ends),
    )  # fmt: skip
    x = np.concatenate(parts).astype(dtype)
    for name, got in _evaluated(table, x).items():
        with np.errstate(all="ignore"):
            exact = getattr(np, name)(x.astype(np.longdouble))
            rounded = exact.astype(dtype)
            finite = np.isfinite(rounded)
            spacing = np.spacing(np.maximum(np.abs(rounded[finite]), info.smallest_subnormal)).astype(np.longdouble)
        error = np.abs(got[finite] - exact[finite]) / np.maximum(spacing, np.longdouble(info.smallest_subnormal))
        assert error.max() <= ULPS.get(name, 2.0), (name, x[finite][error.argmax()])
        # a result that overflows by less than its rounding may be either
        beyond = ~finite & ~(np.abs(exact) < 1.000001 * np.longdouble(info.max))
        np.testing.assert_array_equal(got[beyond], rounded[beyond], err_msg=name)


@pytest.mark.parametrize(("table", "dtype"), [(SINGLE, np.float32), (DOUBLE, np.float64)], ids=["single", "double"])
def test_the_other_functions_of_generated_code_are_those_of_numpy(table, dtype):
    sin, cos, tan, arcsin, arctan = table.sin, table.cos, table.tan, table.arcsin, table.arctan
    arctan2, power, xlogy, sign, side = table.arctan2, table.power, table.xlogy, table.sign, table.side
    within, isfinite, minimum, maximum = table.within, table.isfinite, table.minimum, table.maximum

    @numba.njit(error_model="numpy")
    def run(x, y, out):
        for i in range(x.shape[0]):
            out[0, i], out[1, i], out[2, i], out[3, i] = sin(x[i]), cos(x[i]), tan(x[i]), arcsin(x[i])
            out[4, i], out[5, i], out[6, i] = arctan(x[i]), arctan2(x[i], y[i]), power(y[i], x[i])
            out[7, i], out[8, i], out[9, i] = xlogy(x[i], y[i]), sign(x[i]), side(x[i])
            out[10, i], out[11, i], out[12, i] = within(x[i], y[i]), minimum(x[i], y[i]), maximum(x[i], y[i])
            out[13, i] = isfinite(x[i] / (y[i] - y[0]))

    rng = np.random.default_rng(4)
    x, y = (
        np.append(rng.uniform(-1.0, 1.0, 200), 0.0).astype(dtype),
        np.append(rng.uniform(0.1, 2.0, 200), 1.0).astype(dtype),
    )
    out = np.empty((14, len(x)), dtype=dtype)
    run(x, y, out)
    with np.errstate(all="ignore"):
        expected = [
            np.sin(x), np.cos(x), np.tan(x), np.arcsin(x), np.arctan(x), np.arctan2(x, y), np.power(y, x),
            x * np.log(y), np.sign(x), np.where(x < 0, -1.0, 1.0), np.clip(x, -y, y), np.minimum(x, y),
            np.maximum(x, y),
            np.isfinite(x / (y - y[0])),
        ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=8.0 * np.finfo(dtype).eps, atol=8.0 * np.finfo(dtype).eps)


# ------------------------------------------------------------------------------------------------------- generated code


def _as_numpy(recorded: emit.Recorded, dtype):
    """A generated function on NumPy arrays: what is compiled, without the compiler."""
    routine = emit.routine(recorded, 0, dtype == np.float32)
    names = {name: getattr(functions, name) for name in emit.CALLED}
    space = {
        "select": functions.where, "absolute": np.abs, "square_root": np.sqrt, "zero": 0.0,
        "float64": lambda x: x.astype(np.float64), "Scalar": lambda x: x.astype(dtype), **names,
    }  # fmt: skip
    space.update({f"double_{name}": value for name, value in space.items()})
    exec(routine.source.replace("not v", "~v"), space)
    return lambda *arguments: space[recorded.name](*arguments, routine.numbers)


def _ulps(curve: sm.Curve) -> float:
    """Roundings that a formula may cost: e^Q of scores with |Q| in the tens multiplies those of Q."""
    if not isinstance(curve, sm.CompositeSigmoid):
        return 60.0
    return 300.0 if curve.scaling.increasing else 3000.0  # terms of two signs


@pytest.mark.parametrize("curve", LINKS, ids=repr)
def test_generated_code_holds_the_formulas_of_the_curve(curve):
    if isinstance(curve, sm.Inverse):
        with pytest.raises(emit.NotCompilable, match="operations, more than 600"):
            emit.record("link", curve, "x", single=False)
        return
    for dtype in FLOATS:
        s_hat, s = pairs(curve, dtype)
        single = dtype == np.float32
        with np.errstate(all="ignore"):
            for function, arguments in (
                (lambda x: (curve(x), curve.slope(x)), (s_hat,)),
                (curve.remainder_and_difference, (s, s_hat - s, s_hat)),
            ):
                recorded = emit.record("f", function, *("x", "u", "xh")[: len(arguments)], single=single)
                got, expected = _as_numpy(recorded, dtype)(*arguments), function(*arguments)
                for a, b in zip(got, expected, strict=True):
                    assert_near(np.broadcast_to(np.asarray(a, dtype=dtype), s.shape), b, _ulps(curve))


def test_numbers_are_arguments_so_that_curves_of_one_form_share_code():
    def code(curve):
        recorded = emit.record("link_and_slope", lambda x: (curve(x), curve.slope(x)), "x", single=False)
        return emit.routine(recorded, 0, False)

    base = code(sm.Sigmoid().affine(alpha=2.0, beta=1.5))
    other = code(sm.Sigmoid().affine(alpha=0.3, beta=-7.0))
    assert base.source == other.source
    assert base.numbers != other.numbers
    drawn, other = (
        code(sm.FromSensitivity(*numbers)) for numbers in (((2.0, 3.5), (0.3, 2.25)), ((0.5, 9.0), (1.5, 7.0)))
    )
    assert drawn.source == other.source


def test_sigmoids_share_one_exponential_and_one_division():
    curve = sm.CompositeSigmoid(sm.Exp())
    recorded = emit.record("f", lambda x: (curve(x), curve.slope(x)), "x", single=False)
    source = emit.routine(recorded, 0, False).source
    assert source.count("exp(") == 2  # of the scaling, and of the sigmoid
    assert source.count(" / ") == 1


# --------------------------------------------------------------------------------------------------------------- passes


def _check_against_loss(made, curve, dtype) -> None:
    """Every pass, with weights, scale and conversions, against the loss in double precision."""
    loss = sm.MatchingLoss(curve)
    s_hat, s = pairs(curve, dtype)
    exact_s_hat, exact_s = s_hat.astype(np.float64), s.astype(np.float64)
    value, gradient = loss.value_and_grad(exact_s_hat, exact_s)
    known = made.link(s)
    assert known.dtype == dtype
    links = np.abs(curve(exact_s)) + np.abs(curve(exact_s_hat))
    assert_near(known, curve(exact_s), _ulps(curve))
    for got, expected in zip(made.value_and_gradient(s_hat, s), (value, gradient), strict=True):
        assert got.dtype == dtype
        assert_near(got, expected, _ulps(curve))
        assert np.all(got[s_hat == s] == 0)
    assert made.total(s_hat, s) == pytest.approx(value.sum(), rel=60.0 * float(np.finfo(dtype).eps))
    root = float(np.finfo(dtype).eps) ** 0.5
    for kind in ("newton", "secant"):
        got, curvature = made.gradient_and_curvature(s_hat, s, known, kind=kind)
        assert_near(got, gradient, _ulps(curve), links)
        # infinite slopes come out as the largest number
        expected = np.minimum(loss.curvature(exact_s_hat, exact_s, kind=kind), float(np.finfo(dtype).max))
        if kind == "newton":
            np.testing.assert_allclose(curvature, expected, rtol=root, atol=1e-30)
        else:  # half of the digits, where neither the quotient nor the slope is right
            np.testing.assert_allclose(curvature, expected, rtol=16.0 * root, atol=root * float(np.median(expected)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("curve", LINKS, ids=repr)
def test_numpy_backend_gives_the_numbers_of_the_loss(curve, dtype):
    made = kernels.elementwise(curve, backend="numpy")
    assert made.backend == "numpy"
    _check_against_loss(made, curve, dtype)


@pytest.mark.parametrize(("curve", "dtype"), COMPILED, ids=repr)
def test_numba_backend_gives_the_numbers_of_the_loss(curve, dtype):
    made = kernels.elementwise(curve, backend="numba")
    assert made.backend == "numba"
    _check_against_loss(made, curve, dtype)


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_weights_scale_and_other_precisions(backend):
    made = kernels.elementwise(STEEP, backend)
    s_hat, s = pairs(STEEP, np.float64)
    weights = np.linspace(0.0, 2.0, len(s))
    known = made.link(s)
    value, gradient = made.value_and_gradient(s_hat, s, weights=weights)
    plain_value, plain_gradient = made.value_and_gradient(s_hat, s)
    np.testing.assert_allclose(value, weights * plain_value, rtol=1e-15)
    np.testing.assert_allclose(gradient, weights * plain_gradient, rtol=1e-15)
    assert made.total(s_hat, s, weights=weights) == pytest.approx(value.sum(), rel=1e-13)
    # predictions in double, everything else in single precision: what LightGBM hands over
    single = s.astype(np.float32)
    out = np.zeros_like(single), np.zeros_like(single)
    result = made.gradient_and_curvature(
        s_hat, single, made.link(single), weights=weights.astype(np.float32), scale=3.0, out=out
    )
    assert result[0] is out[0]
    assert result[1] is out[1]
    expected = made.gradient_and_curvature(s_hat, s, known, weights=weights, scale=3.0)
    for got, double in zip(out, expected, strict=True):
        np.testing.assert_allclose(got, double, rtol=6e-3, atol=1e-6)
    # double precision written to single: what scikit-learn's histogram booster asks for
    narrow = np.zeros_like(single), np.zeros_like(single)
    made.gradient_and_curvature(s_hat, s, known, weights=weights, scale=3.0, out=narrow)
    for got, double in zip(narrow, expected, strict=True):
        np.testing.assert_array_equal(got, double.astype(np.float32))


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_a_weight_of_zero_silences_an_infinite_loss(backend):
    made = kernels.elementwise(sm.Sinh(), backend)
    s_hat, s, weights = (np.array([x], dtype=np.float32) for x in (500.0, 0.0, 0.0))
    assert [float(x[0]) for x in made.value_and_gradient(s_hat, s, weights=weights)] == [0.0, 0.0]
    assert [float(x[0]) for x in made.gradient_and_curvature(s_hat, s, made.link(s), weights=weights)] == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["newton", "secant"])
def test_a_block_has_both_derivatives_side_by_side_with_their_signs_turned(kind):
    rng = np.random.default_rng(6)
    made, s = kernels.elementwise(STEEP, "numba"), rng.normal(size=50)
    moved, weights = rng.normal(size=50), rng.uniform(size=50)
    block = made.block(kind, np.float64)
    assert kernels.elementwise(STEEP, "numpy").block(kind, np.float64) is None
    for w in (None, weights):
        pairs = block(moved, s, w, 0.5, 3.0, -1.0, 1.0)
        inside = np.clip(moved + 0.5, -1.0, 1.0)
        expected = made.gradient_and_curvature(inside, s, made.link(s), kind=kind, weights=w, scale=3.0)
        np.testing.assert_allclose(pairs, -np.stack(expected, axis=1), rtol=1e-12)


# ------------------------------------------------------------------------------------------------------------- secants


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_secants_are_good_at_every_distance(backend, dtype):
    """Far apart, closer than rounding, and between; also for steep curves and in their flat parts."""
    rng = np.random.default_rng(5)
    for curve in (STEEP, sm.Sigmoid().affine(alpha=100.0, beta=0.5)):
        s = rng.normal(size=4000).astype(dtype)
        distance = 10.0 ** rng.uniform(-12.0, 1.0, len(s)) * rng.choice((-1.0, 1.0), len(s)) / curve.alpha
        s_hat = (s + distance).astype(dtype)
        made = kernels.elementwise(curve, backend)
        _, curvature = made.gradient_and_curvature(s_hat, s, made.link(s))
        exact_s, exact_s_hat = s.astype(np.float64), s_hat.astype(np.float64)
        u = exact_s_hat - exact_s
        expected = curve.secant(exact_s, u, exact_s_hat)
        steepest = 0.25 * curve.alpha
        root = np.finfo(dtype).eps ** 0.5  # what is lost where neither the quotient nor the slope is right
        assert np.all(np.abs(curvature - expected) <= 16.0 * root * expected + root * steepest)
        close = np.abs(u) * curve.alpha < root  # as good there, however flat the curve is
        assert np.all(np.abs(curvature - expected)[close] <= 16.0 * root * expected[close] + 4.0 * np.finfo(dtype).tiny)


@pytest.mark.parametrize("curve", LINKS, ids=repr)
def test_secants_are_never_negative_nor_infinite(curve):
    low, high = (max(-1e30, curve.domain.low), min(1e30, curve.domain.high))
    inside = np.concatenate(pairs(curve, np.float32))
    tiny = np.float32(1e-44)
    ends = np.array([low, high, 0.0, tiny, -tiny, 1.0, 1.0 + 1e-7, 90.0, -90.0, 700.0, 1e20, -1e20], dtype=np.float32)
    ends = ends[(ends >= low) & (ends <= high)]
    s_hat, s = (z.ravel() for z in np.meshgrid(np.concatenate([inside, ends]), inside))
    made = kernels.elementwise(curve, backend="numpy")
    s_hat, s = np.ascontiguousarray(s_hat), np.ascontiguousarray(s)
    for kind in ("secant", "newton"):
        _, curvature = made.gradient_and_curvature(s_hat, s, made.link(s), kind=kind, scale=2.0)
        assert np.all(curvature >= 0)
        assert np.all(np.isfinite(curvature))


def test_compiled_secants_across_a_jump_and_after_an_overflow_are_finite():
    tiny = np.array([1e-44, -1e-44, 2.0], dtype=np.float32)
    step = kernels.elementwise(sm.Step(), "numba")
    _, curvature = step.gradient_and_curvature(tiny, -tiny, step.link(-tiny))
    np.testing.assert_array_equal(curvature, np.array([np.finfo(np.float32).max] * 2 + [0.25], dtype=np.float32))
    sinh = kernels.elementwise(sm.Sinh(), "numba")
    s_hat, s = np.array([1e4, -1e4], dtype=np.float32), np.zeros(2, dtype=np.float32)
    gradient, curvature = sinh.gradient_and_curvature(s_hat, s, sinh.link(s))
    np.testing.assert_array_equal(gradient, np.array([np.inf, -np.inf], dtype=np.float32))
    np.testing.assert_array_equal(curvature, np.full(2, np.finfo(np.float32).max))


# ------------------------------------------------------------------------------------------------------ compiled once


def test_other_numbers_do_not_compile_again():
    s_hat, s = pairs(STEEP, np.float64)
    loops = set()
    for alpha, beta in ((2.0, 1.5), (3.0, 0.25), (100.0, -4.0)):
        made = kernels.elementwise(sm.Sigmoid().affine(alpha=alpha, beta=beta), "numba")
        made.gradient_and_curvature(s_hat, s, made.link(s))
        loops.add(made.compiled("secant"))
    assert len(loops) == 1
    before = loops.pop().signatures
    made = kernels.elementwise(sm.Sigmoid().affine(alpha=7.0, beta=1.0), "numba")
    made.gradient_and_curvature(s_hat, s, made.link(s))
    assert made.compiled("secant").signatures == before


def test_read_only_inputs_do_not_compile_again():
    made = kernels.elementwise(STEEP, "numba")
    s_hat, s = pairs(STEEP, np.float64)
    known = made.link(s)
    expected = made.gradient_and_curvature(s_hat, s, known)
    before = made.compiled("secant").signatures
    for array in (s_hat, s, known):
        array.flags.writeable = False
    for got, usual in zip(made.gradient_and_curvature(s_hat, s, known), expected, strict=True):
        np.testing.assert_array_equal(got, usual)
    assert made.compiled("secant").signatures == before


def test_a_curve_without_closed_forms_has_its_gradient_compiled():
    class Leaning(sm.Curve):
        increasing = True

        def __call__(self, x):
            return x + functions.tanh(x)

    made = kernels.elementwise(Leaning())
    assert made.backend == "numba"
    assert made.compiled("secant") is not None
    assert made.compiled("value_and_gradient") is None
    with pytest.raises(
        emit.NotCompilable, match=r"cannot be compiled: its remainder_and_difference .*found by quadrature"
    ):
        kernels.elementwise(Leaning(), "numba")
    s_hat, s = np.array([1.0, 0.5]), np.array([0.0, 0.5])
    np.testing.assert_allclose(made.value_and_gradient(s_hat, s)[0], [0.5 + np.log(np.cosh(1.0)), 0.0], rtol=1e-12)
    np.testing.assert_allclose(
        made.gradient_and_curvature(s_hat, s, made.link(s))[1][0], 1.0 + np.tanh(1.0), rtol=1e-12
    )


def test_kernels_survive_pickling():
    made = pickle.loads(pickle.dumps(kernels.elementwise(sm.Sinh(), "numpy")))
    assert made.backend == "numpy"
    assert made.curve == sm.Sinh()


# -------------------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_threads_change_no_number(backend, threads):
    rng = np.random.default_rng(0)
    s_hat, s = (rng.normal(size=5 * pool.LEAST + 123) for _ in range(2))
    made = kernels.elementwise(STEEP, backend)

    def everything():
        return (
            *made.value_and_gradient(s_hat, s),
            *made.gradient_and_curvature(s_hat, s, made.link(s)),
            made.total(s_hat, s),
        )

    threads(1)
    alone = everything()
    threads(4)
    with ThreadPoolExecutor(4) as callers:
        for together in callers.map(lambda _: everything(), range(4)):
            for a, b in zip(alone, together, strict=True):
                np.testing.assert_array_equal(a, b)


def test_slices_cover_everything_once_and_errors_arrive(threads):
    threads(3)
    seen, lock = [], threading.Lock()

    def note(start, stop):
        with lock:
            seen.append((start, stop))

    length = 4 * pool.LEAST + 1
    pool.run(note, length)
    seen.sort()
    assert seen[0][0] == 0
    assert seen[-1][1] == length
    assert [a for a, _ in seen[1:]] == [b for _, b in seen[:-1]]
    assert all(start % pool.BLOCK == 0 for start, _ in seen)

    def fail(start, stop):
        raise ArithmeticError(f"at {start}")

    with pytest.raises(ArithmeticError):
        pool.run(fail, length)
    pool.run(fail, 0)


def test_the_number_of_threads_comes_from_the_environment(monkeypatch):
    try:
        for name, value, expected in (("OMP_NUM_THREADS", "3,2", 3), ("SELMATCH_THREADS", "5", 5)):
            monkeypatch.setenv(name, value)
            pool._default_threads.cache_clear()
            assert pool._default_threads() == expected
    finally:
        pool._default_threads.cache_clear()
    with pytest.raises(ValueError, match="count must be an integer >= 1, got 0"):
        kernels.threads(0)


# ------------------------------------------------------------------------------------------------------------ processes

SCRIPT = """
import os, sys
import numpy as np
import selmatch as sm
from selmatch import kernels
kernels.threads(2)
made = kernels.elementwise(sm.Exp().affine(alpha=0.5), backend="numba")
n = 3 * kernels.pool.LEAST
s_hat, s = np.linspace(-3.0, 3.0, n), np.linspace(2.0, -2.0, n)

def check():
    gradient, curvature = made.gradient_and_curvature(s_hat, s, np.exp(0.5 * s), kind="newton")
    np.testing.assert_allclose(gradient, np.exp(0.5 * s_hat) - np.exp(0.5 * s), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(curvature, 0.5 * np.exp(0.5 * s_hat), rtol=1e-13)

check()
if "fork" in sys.argv:
    child = os.fork()
    if child == 0:
        check()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
hits = sum(made.compiled("newton").dispatcher.stats.cache_hits.values())
print("loaded" if hits else "compiled")
"""


def _started(folder, *options: str) -> subprocess.Popen:
    environment = {**os.environ, "SELMATCH_CACHE": str(folder), "PYTHONWARNINGS": "error"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *options],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_processes_share_the_cache_and_forked_children_have_threads(tmp_path):
    together = [_started(tmp_path) for _ in range(2)]
    for process in together:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert output.strip() in ("compiled", "loaded")
    assert len(list(tmp_path.iterdir())) == 1
    later = _started(tmp_path, *(["fork"] if hasattr(os, "fork") else []))
    output, errors = later.communicate(timeout=120)
    assert later.returncode == 0, errors
    assert output.strip() == "loaded"


@pytest.mark.slow
def test_processes_share_a_damaged_cache(tmp_path):
    for _ in range(2):
        together = [_started(tmp_path) for _ in range(3)]
        for process in together:
            output, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
        (kept,) = tmp_path.iterdir()
        kept.write_bytes(kept.read_bytes()[:-1])
        output, errors = _started(tmp_path).communicate(timeout=120)
        assert output.strip() == "compiled", errors
        assert "it is damaged" in errors


def test_without_a_folder_kernels_are_compiled_all_the_same(tmp_path, monkeypatch, caplog):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("SELMATCH_CACHE", str(file / "below"))
    with caplog.at_level(logging.INFO, logger="selmatch"):
        made = kernels.elementwise(sm.Identity().affine(gain=3.0), "numba")
        gradient, _ = made.gradient_and_curvature(np.ones(2), np.zeros(2), np.zeros(2), kind="newton")
    np.testing.assert_array_equal(gradient, [3.0, 3.0])
    assert "compiled kernels are not kept on disk" in caplog.text
    assert "compiled newton" in caplog.text


def test_the_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("SELMATCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache.folder().parts[-2:] == ("selmatch", "kernels")


# --------------------------------------------------------------------------------------------------------------- errors


def test_errors_name_the_argument():
    made = kernels.elementwise(sm.Sinh(), backend="numpy")
    s = np.zeros(4)
    with pytest.raises(TypeError, match="s must be a NumPy array of float32 or float64, got list"):
        made.link([1.0])
    with pytest.raises(TypeError, match="s_hat must be a NumPy array of float32 or float64, got dtype int64"):
        made.value_and_gradient(np.zeros(4, dtype=np.int64), s)
    with pytest.raises(ValueError, match=r"s must be a contiguous one-dimensional array, got shape \(2, 2\)"):
        made.link(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="got a strided one"):
        made.link(np.zeros(8)[::2])
    with pytest.raises(ValueError, match="weights must have the length of s, 4, got 3"):
        made.total(s, s, weights=np.zeros(3))
    with pytest.raises(ValueError, match="kind must be 'secant' or 'newton', got 'gauss'"):
        made.gradient_and_curvature(s, s, s, kind="gauss")
    with pytest.raises(TypeError, match="out must be a pair of arrays, got ndarray"):
        made.value_and_gradient(s, s, out=np.zeros(4))
    with pytest.raises(ValueError, match="out must not overlap the other arrays"):
        made.value_and_gradient(s, s, out=(s, np.zeros(4)))
    fixed = np.zeros(4)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"out\[1\] must be writeable"):
        made.value_and_gradient(s, s, out=(np.zeros(4), fixed))
    with pytest.raises(ValueError, match="backend must be None, 'numba' or 'numpy', got 'cuda'"):
        kernels.elementwise(sm.Sinh(), "cuda")
    with pytest.raises(TypeError, match=r"curve must be a curve, got <class .*Sinh.*>. Try Sinh\(\)"):
        kernels.elementwise(sm.Sinh)


def test_without_numba_numpy_does_it(monkeypatch):
    monkeypatch.setattr(kernel, "_has_numba", lambda: False)
    assert kernels.elementwise(sm.Sinh()).backend == "numpy"
    with pytest.raises(ImportError, match=r'needs Numba. Install it with: pip install "selmatch\[cpu\]"'):
        kernels.elementwise(sm.Sinh(), "numba")


def test_nothing_to_do_is_done():
    nothing = np.zeros(0)
    made = kernels.elementwise(sm.Sinh(), backend="numpy")
    assert made.link(nothing).shape == (0,)
    assert made.total(nothing, nothing) == 0.0
