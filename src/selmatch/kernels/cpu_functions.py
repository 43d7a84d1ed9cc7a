"""Elementary functions for compiled loops: free of branches, so that LLVM turns loops over them into vector code.

LLVM does not vectorise calls of the C library. These are polynomials (fitted by the Remez algorithm, relative errors
below 1e-8 and 1e-17) after the usual reductions, written once for both precisions; powers of 2 are made and read by
their bits, with shifts and additions that every vector unit has. Measured errors are below 2 ulp (tanh: 3); infinities,
NaN, subnormal numbers, overflow and underflow come out as in the C library.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic as _intrinsic

#: products and sums may be fused; nothing else may be changed about the arithmetic
FASTMATH = frozenset({"contract"})
#: how functions of numbers are compiled: into the loops that call them
_INLINED: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "no_cpython_wrapper": True}
device: Any = numba.njit(fastmath=set(FASTMATH), **_INLINED)

#: the type of what this makes: a function without the first argument, which static checkers cannot know
intrinsic: Any = _intrinsic


def loop(function: Any) -> Any:
    """A loop over arrays, compiled: other Python threads may run meanwhile."""
    return numba.njit(function, error_model="numpy", fastmath=set(FASTMATH), nogil=True)


def block(function: Any) -> Any:
    """Short loops, for callers who need Python's lock again at once."""
    return numba.njit(function, error_model="numpy", fastmath=set(FASTMATH))


@numba.njit(fastmath={"reassoc"}, **_INLINED)
def accumulated(total, x):
    """A sum that may be formed in any order, and thus by many lanes at once."""
    return total + np.float64(x)


# ---------------------------------------------------------------------------- instructions without a Python name


@intrinsic
def select(typing_context: Any, condition: Any, a: Any, b: Any) -> Any:
    """a or b by a condition, both computed: an expression with ``if`` could become a branch."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return a(types.boolean, a, a), code


@intrinsic
def bits(typing_context: Any, x: Any) -> Any:
    """The bits of a number, as an integer of its size."""
    integer = types.int32 if x == types.float32 else types.int64

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(integer))

    return integer(x), code


@intrinsic
def from_bits(typing_context: Any, i: Any) -> Any:
    """The number with given bits."""
    number = types.float32 if i == types.int32 else types.float64

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(number))

    return number(i), code


def _on_integers(name: str) -> Any:
    """An LLVM instruction on two integers of one size; Numba's own operators would widen the result to 64 bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, name)(*arguments)

    def instruction(typing_context: Any, i: Any, j: Any) -> Any:
        return i(i, i), code

    return intrinsic(instruction)


plus, minus, either = _on_integers("add"), _on_integers("sub"), _on_integers("or_")
#: zeros come from the left: the shift that keeps the sign is no vector instruction for 64 bits everywhere
shift_left, shift_right = _on_integers("shl"), _on_integers("lshr")


#: processors with full-speed 512-bit units; LLVM prefers 256 bits on most of them, for the sake of older ones
_WIDE = ("icelake-server", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "znver4", "znver5")
_PREFER_512 = '"prefer-vector-width"="512"'


@intrinsic
def widest_vectors(typing_context: Any) -> Any:
    """Ask for the widest vectors in the function that calls this."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if llvm.get_host_cpu_name() in _WIDE:
            set.add(builder.function.attributes, _PREFER_512)  # llvmlite's own add knows a few attributes only
        return context.get_dummy_value()

    return types.none(), code


def _instruction(name: str, count: int) -> Any:
    """An LLVM intrinsic on floating point numbers, as a function of ``count`` arguments of one type."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], ir.FunctionType(kind, [kind] * count))
        return builder.call(function, arguments)

    def one(typing_context: Any, x: Any) -> Any:
        return x(x), code

    def two(typing_context: Any, x: Any, y: Any) -> Any:
        return x(x, x), code

    return intrinsic(one if count == 1 else two)


absolute = _instruction("fabs", 1)
square_root = _instruction("sqrt", 1)
with_sign_of = _instruction("copysign", 2)

# ----------------------------------------------------------------------------------------------------------- precisions

_SINGLE = SimpleNamespace(
    scalar=np.float32, integer=np.int32, mantissa=23, bias=127, largest=float(np.finfo(np.float32).max),
    # beyond these exponents the result is infinite, or 0
    low=-110.0, high=95.0,
    ln2=(0.693145751953125, 1.4286068203094172e-06),
    # (e^r - 1 - r) / r^2 on |r| <= log(2) / 2
    exp=(0.5000000095188965, 0.16666518839706372, 0.04166620578946587, 0.008368889351415967, 0.0013950491951149882),
    # (2 artanh s - 2 s) / s^3 as a function of s^2, for s up to that of sqrt(2)
    log=(0.6666666564337593, 0.4000033570489128, 0.2853727343759333, 0.23582860158976822),
    # (sinh x - x) / x^3 as a function of x^2 on [0, 1]
    sinh=(0.1666666648872161, 0.008333350597877594, 0.00019836066277117, 2.8174394971355896e-06),
)  # fmt: skip
_DOUBLE = SimpleNamespace(
    scalar=np.float64, integer=np.int64, mantissa=52, bias=1023, largest=float(np.finfo(np.float64).max),
    low=-760.0, high=720.0,
    ln2=(0.6931471803691238, 1.9082149292705878e-10),
    exp=(
        0.5000000000000012742, 0.16666666666666699052, 0.041666666666515416, 0.008333333333307216,
        0.0013888888947016295, 0.00019841269917354885, 2.4801489941986954e-05, 2.7557216329515088e-06,
        2.763128037806136e-07, 2.511785118876895e-08,
    ),
    log=(
        0.66666666666667346542, 0.39999999999412884696, 0.28571428742825142769, 0.2222219852459285441,
        0.18183567032536906202, 0.15313976905613955541, 0.14796728734453325913,
    ),
    sinh=(
        0.16666666666666667429, 0.0083333333333331388076, 0.00019841269841437682326, 2.7557319155336623262e-06,
        2.5052123398583830408e-08, 1.6057240339514296592e-10, 7.7593122474503329631e-13,
    ),
)  # fmt: skip


def _polynomial(coefficients: tuple[float, ...], scalar: Any) -> Any:
    """A compiled polynomial: Horner's scheme for few coefficients, else halves of it side by side."""
    lines = ["def polynomial(x):"]
    if len(coefficients) <= 5:
        lines += [f"    total = c{len(coefficients) - 1}"]
        lines += [f"    total = total * x + c{i}" for i in range(len(coefficients) - 2, -1, -1)]
        lines += ["    return total"]
    else:
        lines += ["    y = x * x"]
        for name, start in (("even", 0), ("odd", 1)):
            places = list(range(start, len(coefficients), 2))
            lines += [f"    {name} = c{places[-1]}"]
            lines += [f"    {name} = {name} * y + c{i}" for i in reversed(places[:-1])]
        lines += ["    return odd * x + even"]
    space: dict[str, Any] = {f"c{i}": scalar(c) for i, c in enumerate(coefficients)}
    exec("\n".join(lines), space)
    return device(space["polynomial"])


def _functions(precision: SimpleNamespace) -> SimpleNamespace:
    """Every function in one precision; numbers are typed, since a Python number would make single precision double."""
    T, integer = precision.scalar, precision.integer
    zero, half, one, two, quarter = T(0.0), T(0.5), T(1.0), T(2.0), T(0.25)
    infinity, nan, largest = T(math.inf), T(math.nan), T(precision.largest)
    log2e, ln2_high, ln2_low = T(1.0 / math.log(2.0)), *(T(part) for part in precision.ln2)
    log_2 = T(math.log(2.0))
    low, high = T(precision.low), T(precision.high)
    # adding 1.5 * 2^mantissa leaves a number rounded to an integer, in the last bits of the sum
    shifter = T(1.5 * 2.0**precision.mantissa)
    power_bits = integer(precision.bias - int(np.array(shifter).view(integer)))
    mantissa, bias = integer(precision.mantissa), integer(precision.bias)
    from_root = integer(int(np.array(one).view(integer)) - int(np.array(T(math.sqrt(0.5))).view(integer)))
    twice_bias = integer(2 * precision.bias)
    many, after_largest = T(precision.mantissa + 4), T(precision.bias + 1)
    whole = T(2.0**precision.mantissa)
    whole_bits = integer(np.array(whole).view(integer))
    biased = T(2.0**precision.mantissa + precision.bias)
    smallest, raised, raise_by = T(np.finfo(T).tiny), T(2.0 ** (precision.mantissa + 2)), T(precision.mantissa + 2)
    # from here on 1 adds nothing to a number
    grown = T(2.0 ** (precision.mantissa + 2))
    tail, series, bend = (_polynomial(c, T) for c in (precision.exp, precision.log, precision.sinh))

    @device
    def minimum(a, b):
        return select(b < a, b, a)  # NaN in a stays

    @device
    def maximum(a, b):
        return select(b > a, b, a)

    @device
    def power_of_two(shifted):
        """2^k for k + shifter, between the smallest and the largest normal number."""
        return from_bits(shift_left(plus(bits(shifted), power_bits), mantissa))

    @device
    def reduced(x):
        """k and e^r - 1 with x = k log 2 + r, k an integer; beyond the range of results x is clipped."""
        y = minimum(maximum(x, low), high)
        k = (y * log2e + shifter) - shifter
        r = (y - k * ln2_high) - k * ln2_low
        return k, r + r * r * tail(r)

    @device
    def scaled(y, k):
        """y 2^k in two steps, since 2^k alone may be out of range."""
        shifted = k * half + shifter
        first = shifted - shifter
        return y * power_of_two(shifted) * power_of_two((k - first) + shifter)

    @device
    def exp(x):
        k, rise = reduced(x)
        return scaled(one + rise, k)

    @device
    def half_exp(a):
        """e^a / 2 for a >= 0, also where e^a overflows."""
        k, rise = reduced(a)
        y = one + rise
        # one step is enough upwards; the exponent after the largest one is that of infinity
        return (y + y) * power_of_two(minimum(k - two, after_largest) + shifter)

    @device
    def expm1(x):
        k, rise = reduced(x)
        scale = power_of_two(minimum(maximum(k, -many), many) + shifter)
        return select(k >= many, scaled(one + rise, k), rise * scale + (scale - one))

    @device
    def exponent(bits_of_x):
        """k with x = m 2^k and m between sqrt(1/2) and sqrt(2), biased so that it is positive."""
        return shift_right(plus(bits_of_x, from_root), mantissa)

    @device
    def number(k):
        """A biased exponent as a number."""
        return from_bits(either(k, whole_bits)) - biased

    @device
    def fraction(bits_of_x, k):
        """m - 1 for the m of x = m 2^k."""
        return from_bits(minus(bits_of_x, shift_left(minus(k, bias), mantissa))) - one

    @device
    def log_of(k, f):
        """k log 2 + log(1 + f)."""
        s = f / (two + f)
        z = s * s
        return k * ln2_high + (f - (s * (f - z * series(z)) - k * ln2_low))

    @device
    def at_ends(y, x):
        """The logarithm y of x, made right where x is 0, negative, infinite or NaN."""
        y = select(x > zero, y, select(x == zero, -infinity, nan))
        return select(x <= largest, y, x)

    @device
    def log(x):
        tiny = x < smallest
        y = bits(select(tiny, x * raised, x))
        k = exponent(y)
        count = number(k)
        return at_ends(log_of(select(tiny, count - raise_by, count), fraction(y, k)), x)

    @device
    def log1p(x):
        total = one + x
        y = bits(total)
        k = exponent(y)
        # m - 1 from x itself, not from 1 + x, which is rounded
        down = from_bits(shift_left(minus(twice_bias, k), mantissa))
        f = select(total < grown, x * down + (down - one), fraction(y, k))
        return at_ends(log_of(number(k), f), total)

    @device
    def sinh(x):
        a = absolute(x)
        e = half_exp(a)
        z = minimum(x * x, one)
        return select(a < one, x + x * z * bend(z), with_sign_of(e - quarter / e, x))

    @device
    def cosh(x):
        e = half_exp(absolute(x))
        return e + quarter / e

    @device
    def tanh(x):
        t = expm1(-two * absolute(x))
        return with_sign_of(t / (t + two), x)

    @device
    def arcsinh(x):
        a = absolute(x)
        b = minimum(a, grown)
        grows = a + b * (b / (one + square_root(one + b * b)))
        big = a > grown
        return with_sign_of(log1p(select(big, a, grows)) + select(big, log_2, zero), x)

    @device
    def side(x):
        return select(x < zero, -one, one)

    @device
    def sign(x):
        return select(x > zero, one, select(x < zero, -one, x))

    @device
    def within(x, bound):
        return minimum(maximum(x, -bound), bound)

    @device
    def xlogy(x, y):
        return x * log(select(x == zero, one, y))

    @device
    def isfinite(x):
        return absolute(x) <= largest

    names = "minimum maximum exp expm1 log log1p sinh cosh tanh arcsinh side sign within xlogy isfinite".split()
    table = {name: function for name, function in locals().items() if name in names}
    library = {"sin": math.sin, "cos": math.cos, "tan": math.tan, "arcsin": math.asin, "arctan": math.atan}
    for name, function in library.items():
        table[name] = _from_library(function)
    table["arctan2"], table["power"] = _from_library_2(math.atan2), _from_library_2(math.pow)
    return SimpleNamespace(Scalar=T, epsilon=T(np.finfo(T).eps), **table)


def _from_library(function: Any) -> Any:
    return device(lambda x: function(x))


def _from_library_2(function: Any) -> Any:
    return device(lambda x, y: function(x, y))


#: the functions in single and in double precision
SINGLE, DOUBLE = _functions(_SINGLE), _functions(_DOUBLE)
