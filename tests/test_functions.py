"""The functions of formulas: exact on every array type, found by type, open to new ones."""

from __future__ import annotations

import subprocess
import sys

import array_api_strict
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf

from selmatch import functions as f
from selmatch.arrays import namespaces
from selmatch.arrays.dual import Dual, DualNamespace, derivative

over = pytest.mark.parametrize
LIBRARIES = {
    "float": lambda x: [float(t) for t in x],
    "numpy": lambda x: np.asarray(x, dtype=np.float64),
    "torch": lambda x: torch.tensor(x, dtype=torch.float64),
    "jax": lambda x: jnp.asarray(x, dtype=jnp.float64),
    "standard": lambda x: array_api_strict.asarray(x, dtype=array_api_strict.float64),
}
ANY = [-30.0, -3.0, -2.0, -1.5, -1.0, -0.5, -1e-9, 0.0, 1e-9, 0.3, 1.0, 2.0, 2.5, 30.0]
POSITIVE = [1e-300, 1e-9, 0.1, 0.5, 1.0, 1.5, 7.0, 1e300]
ABOVE_MINUS_1 = [-0.99, -0.5, -1e-9, 0.0, 1e-9, 0.5, 3.0, 1e300]
WITHIN_1 = [-1.0, -0.75, -1e-9, 0.0, 0.5, 1.0]
MOVES = [(2.0, 3.0), (2.0, 2.0 + 1e-9), (1e300, 1e-300), (0.5, 0.25), (0.5, 0.26), (1e-3, 5.0), (3.0, 3.0)]
HUGE = [-1e300, -1e9, 1e9, 1e200]


def _exact_sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


ONE_ARGUMENT = {
    "exp": (mpmath.exp, ANY),
    "expm1": (mpmath.expm1, ANY),
    "log": (mpmath.log, POSITIVE),
    "log1p": (mpmath.log1p, ABOVE_MINUS_1),
    "sqrt": (mpmath.sqrt, POSITIVE),
    "square": (lambda x: x * x, ANY),
    "reciprocal": (lambda x: 1 / x, POSITIVE),
    "sin": (mpmath.sin, ANY),
    "cos": (mpmath.cos, ANY),
    "tan": (mpmath.tan, ANY),
    "sinh": (mpmath.sinh, ANY),
    "cosh": (mpmath.cosh, ANY),
    "tanh": (mpmath.tanh, ANY),
    "arcsin": (mpmath.asin, WITHIN_1),
    "arctan": (mpmath.atan, [*ANY, *HUGE]),
    "arcsinh": (mpmath.asinh, [*ANY, *HUGE]),
    "abs": (abs, ANY),
    "sign": (mpmath.sign, ANY),
    "side": (lambda x: -1 if x < 0 else 1, ANY),
    "fold": (lambda x: -abs(x), ANY),
    "mirror": (abs, ANY),
    "positive_part": (lambda x: max(x, 0), ANY),
    "not_negative": (lambda x: max(x, 0), ANY),
    "sigmoid": (_exact_sigmoid, [*ANY, -700.0, 700.0]),
    "softplus": (lambda x: max(x, 0) + mpmath.log1p(mpmath.exp(-abs(x))), [*ANY, -700.0, 1e300]),
    "hypot1": (lambda x: mpmath.sqrt(1 + x * x), [*ANY, *HUGE]),
    "phi": (lambda x: mpmath.exp(x) - 1 - x, ANY),
    "psi_series": (lambda x: x - mpmath.log1p(x), [-0.5, -0.1, 1e-9, 0.4, 1.0]),
    "omega": (lambda x: x - mpmath.sin(x), ANY),
    "logit": (lambda x: mpmath.log(x / (1 - x)), [1e-300, 0.1, 0.25, 0.5 - 1e-9, 0.5, 0.5 + 1e-12, 0.8, 1 - 1e-15]),
}
TWO_ARGUMENTS = {
    "arctan2": (mpmath.atan2, [(1.0, 2.0), (-1.0, -2.0), (0.0, 1.0), (1e-9, 1.0), (3.0, -1.0)]),
    "minimum": (min, [(1.0, 2.0), (2.0, 1.0), (-1.0, -1.0)]),
    "maximum": (max, [(1.0, 2.0), (2.0, 1.0), (-1.0, -1.0)]),
    "power": (lambda x, d: x**d, [(2.0, 3.0), (0.5, 0.5), (1e-9, 1.5), (7.0, -1.0)]),
    "xlogy": (lambda x, y: x * mpmath.log(y) if x else mpf(0), [(0.0, 0.0), (2.0, 3.0), (0.0, 5.0), (1e-9, 1e-300)]),
    "sigmoid_times": (lambda x, y: _exact_sigmoid(x) * y, [(-800.0, 1e100), (0.0, 3.0), (30.0, -2.0), (-0.5, 1.0)]),
}


def _scaled_by_two(a, b):
    """The arguments e, e exp(u), u of a scaled function, for e = 2."""
    return 2.0 + 0.0 * a, 2.0 * f.exp(b - a), b - a


MANY_ARGUMENTS = {
    "log_ratio": (lambda a, b: mpmath.log(b / a), lambda a, b: (a, b - a, b)),
    "k_scaled": (lambda a, b: b * mpmath.log(b / a) - (b - a), lambda a, b: (a, b - a, b)),
    "scaled_phi": (lambda a, b: 2 * (mpmath.exp(b - a) - 1 - (b - a)), _scaled_by_two),
    "scaled_expm1": (lambda a, b: 2 * mpmath.expm1(b - a), _scaled_by_two),
}


def numbers(values) -> np.ndarray:
    return np.asarray([float(v) for v in values])


def check(function, exact, columns, library):
    """Compare a function on one library with 60 digits."""
    make, columns = LIBRARIES[library], [np.resize(column, 16) for column in columns]  # JAX compiles for each shape
    with np.errstate(all="ignore"):
        if library == "float":
            got = [function(*row) for row in zip(*map(make, columns), strict=True)]
            assert all(type(value) in (float, int) for value in got)
        else:
            result = function(*map(make, columns))
            assert type(result) is type(make([1.0]))
            got = [float(value) for value in result]
    with mpmath.workdps(400):
        true = numbers(exact(*map(mpf, row)) for row in zip(*columns, strict=True))
    np.testing.assert_allclose(numbers(got), true, rtol=4e-15, atol=0)


@over("library", LIBRARIES)
@over("name", ONE_ARGUMENT)
def test_functions_of_one_argument_are_exact(name, library):
    exact, values = ONE_ARGUMENT[name]
    check(getattr(f, name), exact, [values], library)


@over("library", LIBRARIES)
@over("name", TWO_ARGUMENTS)
def test_functions_of_two_arguments_are_exact(name, library):
    exact, rows = TWO_ARGUMENTS[name]
    check(getattr(f, name), exact, list(zip(*rows, strict=True)), library)


@over("library", LIBRARIES)
@over("name", MANY_ARGUMENTS)
def test_functions_of_a_move_are_exact(name, library):
    exact, arguments = MANY_ARGUMENTS[name]
    rows = MOVES if name in ("log_ratio", "k_scaled") else [(0.0, u) for u in ANY]
    check(lambda a, b: getattr(f, name)(*arguments(a, b)), exact, list(zip(*rows, strict=True)), library)


@over("library", LIBRARIES)
def test_psi_takes_one_plus_its_argument_from_the_caller(library):
    check(
        lambda a: f.psi(a, 1.0 + a), lambda a: a - mpmath.log1p(a), [[-0.75, -0.5, -0.1, 1e-9, 0.5, 0.6, 9.0]], library
    )


@over("library", ["float", "numpy", "torch", "jax"])
def test_the_parts_of_phi_are_even_and_odd(library):
    values = [u for u in ANY if abs(u) <= 2]
    check(lambda u: f.hyperbolic(u)[0], lambda u: mpmath.cosh(u) - 1, [values], library)
    check(lambda u: f.hyperbolic(u)[1], lambda u: mpmath.sinh(u) - u, [values], library)


@over("name", ["phi", "omega", "psi_series", "softplus", "sigmoid", "hypot1", "logit"])
def test_single_precision_is_as_exact_as_it_can_be(name):
    exact, values = ONE_ARGUMENT[name]
    x = np.asarray([v for v in values if 1e-30 < abs(v) < 80 and v != 1 - 1e-15], dtype=np.float32)
    for got in (getattr(f, name)(x), getattr(f, name)(torch.tensor(x)), getattr(f, name)(jnp.asarray(x))):
        assert str(got.dtype).endswith("float32")
        with mpmath.workdps(60):
            expected = numbers(exact(mpf(float(v))) for v in x)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)


@over("library", ["numpy", "torch", "jax", "standard"])
def test_rows_layers_and_constants(library):
    x = LIBRARIES[library]([[1.0, 2.0], [5.0, -1.0]])
    assert [[float(v) for v in row] for row in (f.row_sum(x)[:, 0], f.row_max(x)[:, 0], f.layer_sum(x))] == [
        [3.0, 4.0],
        [2.0, 5.0],
        [6.0, 1.0],
    ]
    row = f.like((0.5, 0.25), x)
    assert row.dtype == x.dtype
    assert [float(v) for v in f.where(row > 0.3, 1.0, 0.0 * row)] == [1.0, 0.0]
    assert [bool(v) for v in f.isfinite(f.like((1.0, float("inf")), x))] == [True, False]
    assert f.like((2.0, 3.0), 1.0).tolist() == [2.0, 3.0]


@over("library", ["numpy", "torch", "jax", "standard"])
def test_bounds_keep_nan(library):
    x = LIBRARIES[library]([float("nan"), 0.5])
    for clipped in (f.minimum(x, 1.0), f.minimum(1.0, x), f.maximum(x, 0.0), f.maximum(0.0, x)):
        assert [float(v) for v in clipped][1] == 0.5
        assert float(clipped[0]) != float(clipped[0])


def test_python_numbers_give_infinities_instead_of_exceptions():
    inf = float("inf")
    assert (f.exp(1000.0), f.log(0.0), f.log1p(-1.0), f.sinh(-1e4), f.power(0.0, -1.0)) == (inf, -inf, -inf, -inf, inf)
    assert (f.reciprocal(0.0), f.where(True, 1, 2), f.exp(0), f.abs(-3)) == (inf, 1, 1.0, 3.0)
    assert f.log(-1.0) != f.log(-1.0)


@over("name", ["fold", "positive_part", "mirror", "softplus", "sigmoid", "phi", "omega", "hypot1", "square"])
def test_derivatives_are_those_of_a_smooth_formula_also_at_the_branching_points(name):
    slopes = {
        "fold": lambda x: 1.0 if x <= 0 else -1.0,
        "positive_part": lambda x: float(x > 0),
        "mirror": lambda x: 1.0 if x >= 0 else -1.0,
        "softplus": _exact_sigmoid,
        "sigmoid": lambda x: _exact_sigmoid(x) * _exact_sigmoid(-x),
        "phi": mpmath.expm1,
        "omega": lambda x: 1 - mpmath.cos(x),
        "hypot1": lambda x: x / mpmath.sqrt(1 + x * x),
        "square": lambda x: 2 * x,
    }
    points = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    expected = numbers(slopes[name](mpf(x)) for x in points)
    function = getattr(f, name)
    x = torch.tensor(points, requires_grad=True)
    gradients = (
        derivative(function, points),
        [derivative(function, float(t)) for t in points],
        torch.autograd.grad(function(x).sum(), x)[0],
        jax.grad(lambda t: function(t).sum())(jnp.asarray(points)),
    )
    for gradient in gradients:
        np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-14, atol=1e-16)


# ----------------------------------------------------------------------------------------------------------- dispatch


def test_the_namespace_is_found_by_type():
    assert f.namespace_of(1) is f.namespace_of(1.0) is namespaces.Float
    assert (
        f.namespace_of(np.ones(2)) is f.namespace_of(np.float32(1)) is f.namespace_of(np.int64(1)) is namespaces.NumPy
    )
    assert f.namespace_of(torch.ones(2)).name == f.namespace_of(torch.nn.Parameter(torch.ones(2))).name == "PyTorch"
    assert f.namespace_of(jnp.ones(2)).name == "JAX"
    assert f.namespace_of(array_api_strict.ones(2)).name == "array_api_strict"
    assert f.namespace_of(Dual(1.0, 1.0)) is DualNamespace


def test_subclasses_of_tensors_are_tensors():
    class Tagged(torch.Tensor):
        pass

    tagged = torch.ones(2).as_subclass(Tagged)
    assert f.namespace_of(tagged).name == "PyTorch"
    assert type(f.exp(tagged)) is Tagged


def test_tracers_are_jax_arrays():
    def formula(x):
        return f.softplus(x) * f.where(x > 0, x, 0.0)

    x = jnp.asarray([-1.0, 2.0])
    expected = formula(np.asarray(x))
    for wrapped in (jax.jit(formula), jax.vmap(formula), jax.jit(jax.vmap(formula))):
        np.testing.assert_allclose(wrapped(x), expected, rtol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.grad(formula))(2.0), float(jax.grad(formula)(2.0)), rtol=1e-14)


def test_a_new_type_joins_by_registration():
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    class CelsiusNamespace:
        name = "temperatures"
        is_library = False

        @staticmethod
        def exp(x):
            return Celsius(np.exp(x.degrees))

        @staticmethod
        def minimum(a, b):
            return Celsius(min(getattr(t, "degrees", t) for t in (a, b)))

    with pytest.raises(TypeError, match=r"expected a number or an array, got Celsius\."):
        f.exp(Celsius(0.0))
    f.register(Celsius, CelsiusNamespace)
    assert f.exp(Celsius(0.0)).degrees == 1.0
    assert f.minimum(1.0, Celsius(2.0)).degrees == 1.0  # the first argument that is no number decides


@over("wrong", [[1.0], (1.0,), "1", None, {}, 1j], ids=repr)
def test_other_types_are_refused_with_a_remedy(wrong):
    remedy = " Try numpy.asarray(...)." if isinstance(wrong, (list, tuple)) else ""
    with pytest.raises(TypeError) as caught:
        f.softplus(wrong)
    assert str(caught.value) == f"selmatch: expected a number or an array, got {type(wrong).__name__}.{remedy}"


MIXED = [(np.ones(2), torch.ones(2)), (torch.ones(2), np.ones(2)), (np.ones(2), jnp.ones(2))]


@over("pair", MIXED, ids=["numpy and torch", "torch and numpy", "numpy and jax"])
def test_arrays_of_two_libraries_do_not_mix(pair):
    with pytest.raises(TypeError, match=r"one library, got .* and .*\. Convert one of them\."):
        f.minimum(*pair)
    with pytest.raises(TypeError, match=r"one library, got .* and .*\. Convert one of them\."):
        f.where(pair[0] > 0, *pair)


def test_a_framework_that_is_imported_later_is_found():
    program = (
        "import selmatch as sm, sys; assert 'torch' not in sys.modules and 'jax' not in sys.modules\n"
        "import torch; assert float(sm.Sigmoid()(torch.zeros(()))) == 0.5"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ------------------------------------------------------------------------------------------------------- dual numbers


FORMULAS = {
    "+": (lambda x: 2.0 + x + 1.0 + x, lambda x: 2.0),
    "-": (lambda x: 2.0 - x - 1.0 - 3.0 * x, lambda x: -4.0),
    "*": (lambda x: 3.0 * x * x * 2.0, lambda x: 12.0 * x),
    "/": (lambda x: (x + 1.0) / x / 2.0 + 3.0 / x, lambda x: -3.5 / x**2),
    "**": (lambda x: x**3 + x**0.5 + 2.0**x, lambda x: 3 * x**2 + 0.5 / np.sqrt(x) + np.log(2.0) * 2.0**x),
    "x**x": (lambda x: x**x, lambda x: x**x * (1.0 + np.log(x))),
    "abs": (lambda x: abs(-x) + (+x) - (-x), lambda x: 3.0),
    "where": (lambda x: f.where(x > 1.0, x * x, 3.0 * x), lambda x: np.where(x > 1.0, 2.0 * x, 3.0)),
    "minimum": (lambda x: f.minimum(x, 1.0) + f.maximum(2.0, 3.0 * x), lambda x: (x <= 1.0) + 3.0 * (3.0 * x >= 2.0)),
    "arctan2": (lambda x: f.arctan2(x, 2.0) + f.arctan2(1.0, x), lambda x: 2.0 / (4.0 + x**2) - 1.0 / (1.0 + x**2)),
    "xlogy": (lambda x: f.xlogy(x, x * x), lambda x: 2.0 * np.log(x) + 2.0),
    "sigmoid_times": (
        lambda x: f.sigmoid_times(x, 2.0 * x),
        lambda x: 2.0 * (1.0 + x / (1.0 + np.exp(x))) / (1.0 + np.exp(-x)),
    ),
}
NAMED_AS_IN_MPMATH = [name for name, (exact, _) in ONE_ARGUMENT.items() if hasattr(mpmath, exact.__name__)]
FORMULAS |= {
    name: (getattr(f, name), np.vectorize(lambda x, exact=ONE_ARGUMENT[name][0]: float(mpmath.diff(exact, x))))
    for name in NAMED_AS_IN_MPMATH
    if name != "sign"
}


@over("library", ["float", "numpy", "torch", "jax"])
@over("name", FORMULAS)
def test_dual_numbers_differentiate_every_operation(name, library):
    formula, slope = FORMULAS[name]
    points = np.array([0.25, 0.5, 0.9] if name in ("arcsin", "log1p") else [0.25, 0.5, 1.0, 2.5])
    x = LIBRARIES[library](points)
    got = [derivative(formula, t) for t in x] if library == "float" else derivative(formula, x)
    if library != "float":
        assert type(got) is type(x)
    np.testing.assert_allclose(np.asarray(got), slope(points) + 0.0 * points, rtol=1e-13, atol=1e-15)


@over("library", ["numpy", "torch", "jax"])
def test_arrays_give_way_to_dual_numbers(library):
    a = LIBRARIES[library]([2.0, 3.0])
    x = Dual(LIBRARIES[library]([1.0, 4.0]), LIBRARIES[library]([1.0, 1.0]))
    for result, value, tangent in (
        (a + x, [3.0, 7.0], [1.0, 1.0]),
        (a - x, [1.0, -1.0], [-1.0, -1.0]),
        (a * x, [2.0, 12.0], [2.0, 3.0]),
        (a / x, [2.0, 0.75], [-2.0, -0.1875]),
        (x / a, [0.5, 4.0 / 3.0], [0.5, 1.0 / 3.0]),
        (a**x, [2.0, 81.0], [2.0 * np.log(2.0), 81.0 * np.log(3.0)]),
    ):
        assert isinstance(result, Dual)
        np.testing.assert_allclose(np.asarray(result.value), value, rtol=1e-15)
        np.testing.assert_allclose(np.asarray(result.tangent), tangent, rtol=1e-14)
    for larger in (a > x, a >= x, x < a, x <= a):
        assert np.asarray(larger).tolist() == [True, False]
    assert np.asarray(a == x).tolist() == [False, False]
    assert np.asarray(a != x).tolist() == [True, True]


def test_numpy_functions_work_on_dual_numbers():
    formulas = {
        np.tanh: lambda x: 1 / np.cosh(x) ** 2,
        np.absolute: np.sign,
        np.exp: np.exp,
        np.log1p: lambda x: 1 / (1 + x),
        np.sqrt: lambda x: 0.5 / np.sqrt(x),
        np.square: lambda x: 2 * x,
        np.arctan: lambda x: 1 / (1 + x * x),
        np.negative: lambda x: -1.0,
        np.reciprocal: lambda x: -1 / x**2,
    }
    for function, slope in formulas.items():
        assert derivative(function, 0.5) == pytest.approx(slope(0.5), rel=1e-14)
        np.testing.assert_allclose(derivative(function, np.array([0.5, 2.0])), slope(np.array([0.5, 2.0])) * np.ones(2))
    assert derivative(lambda x: np.maximum(x, 1.0) + np.power(x, 2), 3.0) == pytest.approx(7.0)
    with pytest.raises(TypeError):
        np.floor(Dual(1.0, 1.0))


def test_dual_numbers_nest():
    def cube(x):
        return x**3 + f.sin(x) + f.where(x > 0.0, f.exp(x), 0.0)

    second = derivative(lambda x: derivative(cube, x), 2.0)
    assert second == pytest.approx(12.0 - np.sin(2.0) + np.exp(2.0), rel=1e-14)
    third = derivative(lambda x: derivative(lambda y: derivative(cube, y), x), np.array([2.0]))
    np.testing.assert_allclose(third, 6.0 - np.cos(2.0) + np.exp(2.0), rtol=1e-14)


def test_the_derivative_of_a_constant_is_0():
    assert derivative(lambda x: 3.0, 1.0) == 0.0
    np.testing.assert_array_equal(derivative(lambda x: 3.0, np.ones(2)), [0.0, 0.0])
    np.testing.assert_array_equal(derivative(f.side, np.ones(2)), [0.0, 0.0])
    assert repr(Dual(1.0, 2.0)) == "Dual(1.0, 2.0)"
