"""Elementary functions for GPU kernels, in single precision: what the functions emitted from a curve call.

Exponentials and logarithms go through base 2, which is what the hardware has (about 2 ulp, and the rounding of the
argument); close to 0, where differences would cancel, polynomials take over (fitted to relative errors of about 1e-6).
Everything is plain Triton, so that the interpreter runs it too.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
LARGEST = tl.constexpr(3.4028234663852886e38)


@triton.jit
def negative(x):
    """-x, as a sign of what uses it: Triton 3.6 computes 0 - x."""
    return x * -1.0


@triton.jit
def halves(pair):
    """Two numbers of bfloat16, read as one of 32 bits, in single precision."""
    low, high = pair << 16, pair & -65536
    return tl.interleave(low.to(tl.float32, bitcast=True), high.to(tl.float32, bitcast=True))


@triton.jit
def exp(x):
    return tl.exp2(x * LOG2E)


@triton.jit
def inverse(b):
    """1 / b for 1e-18 < b < 1e18: two instructions, where a division takes eight."""
    return tl.rsqrt(b * b)


@triton.jit
def half_exp(x):
    """e^x / 2, also where e^x would overflow."""
    return tl.exp2(x * LOG2E - 1.0)


@triton.jit
def quarter_over(a):
    """1 / (4 a) for a > 0: a guess from the bits, and three steps of Newton's method."""
    b = 4.0 * a
    r = (0x7EF311C7 - b.to(tl.int32, bitcast=True)).to(tl.float32, bitcast=True)
    r *= 2.0 - b * r
    r *= 2.0 - b * r
    return r * (2.0 - b * r)


@triton.jit
def cosh_less_one(u):
    """cosh u - 1 for |u| <= 2."""
    z = u * u
    tail = (2.7056971921545486e-05 * z + 0.0013833257890757606) * z + 0.04167096790976039
    return z * (tail * z + 0.4999994953961453)


@triton.jit
def sinh_less_line(u):
    """sinh u - u for |u| <= 2."""
    z = u * u
    tail = (2.9610600029024055e-06 * z + 0.0001979017321146827) * z + 0.00833373453039416
    return u * z * (tail * z + 0.16666661834132787)


@triton.jit
def sinh_near_0(x):
    """sinh x for |x| <= 1/8."""
    return x + x * (x * x) * 0.16666666666666666


@triton.jit
def phi_series(u):
    """e^u - 1 - u for |u| <= 1."""
    tail = (0.00019977661291398165 * u + 0.0014262536876904761) * u + 0.008335255178129131
    tail = (tail * u + 0.041652794811010675) * u + 0.1666658922077268
    return u * u * (tail * u + 0.5000007504860805)


@triton.jit
def overflowing(value, u):
    """A value of a move u, or infinity where numbers too large have made it NaN: the minimum ignores NaN."""
    return tl.where(tl.abs(u) > 0.0, tl.minimum(value, float("inf")), 0.0 * u)


@triton.jit
def overflowing_move(value, u):
    """A value with the sign of the move u, or infinity with this sign where numbers too large have made it NaN."""
    return signed(overflowing(tl.abs(value), u), u)


@triton.jit
def scaled_phi(e, eh, u):
    """e (e^u - 1 - u) for eh = e e^u."""
    return overflowing(tl.where(tl.abs(u) <= 1.0, e * phi_series(u), eh - e * (1.0 + u)), u)


@triton.jit
def scaled_expm1(e, eh, u):
    """e (e^u - 1) for eh = e e^u."""
    move = tl.where(tl.abs(u) <= 0.5, e * (u + phi_series(u)), eh - e)
    return overflowing_move(move, u)


@triton.jit
def phi(u):
    """e^u - 1 - u."""
    return tl.where(tl.abs(u) <= 1.0, phi_series(u), exp(u) - 1.0 - u)


@triton.jit
def expm1(x):
    return tl.where(tl.abs(x) <= 0.5, x + phi_series(x), exp(x) - 1.0)


@triton.jit
def tail_of_log(z):
    """(2 artanh r - 2 r) / r^3 for z = r^2 <= 1/9."""
    tail = 0.2686102354474473 * z + 0.2823504084783499
    return (tail * z + 0.4000762584230826) * z + 0.6666663994132037


@triton.jit
def psi_series(a):
    """a - log(1 + a) for -1/2 <= a <= 1."""
    r = a * inverse(2.0 + a)
    z = r * r
    return r * (a - z * tail_of_log(z))


@triton.jit
def log(x):
    return tl.log(x)


@triton.jit
def log1p_series(x):
    """log(1 + x) for -1/2 <= x <= 1."""
    r = x * inverse(2.0 + x)
    z = r * r
    return r * (2.0 + z * tail_of_log(z))


@triton.jit
def log1p(x):
    return tl.where((x >= -0.5) & (x <= 1.0), log1p_series(x), tl.log2(1.0 + x) * LN2)


@triton.jit
def square_root(x):
    return tl.sqrt(x)


@triton.jit
def sigmoid(x):
    e = exp(negative(tl.abs(x)))
    return tl.where(x > 0.0, 1.0, e) * inverse(1.0 + e)


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) + log1p_series(exp(negative(tl.abs(x))))


@triton.jit
def signed(x, like):
    """x times the sign of another number."""
    bits = x.to(tl.int32, bitcast=True) ^ (like.to(tl.int32, bitcast=True) & -2147483648)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def sigmoid_move(x, u, xh):
    """A move of the sigmoid, reflected so that it starts below 0: e^-|x|; the probability q to stay there; whether the
    move is short or stays below 0; the growth a of 1 + e^x, less 1, and its inverse; and a - p times the move.

    For a far move that ends above 0 the growth is that to 1 + e^-end, which does not overflow; what is missing is added
    to the last.
    """
    e = exp(negative(tl.abs(x)))
    q = inverse(1.0 + e)
    p = e * q
    w = signed(u, x)  # less the move
    near = tl.abs(u) <= 1.0
    below = near | ((x.to(tl.int32, bitcast=True) ^ xh.to(tl.int32, bitcast=True)) >= 0)
    bend = p * phi_series(negative(w))
    far = q * exp(negative(tl.abs(xh))) - p
    a = tl.where(near, bend - p * w, far)
    line = tl.where(near, bend, far + (p * w + tl.where(below, 0.0, tl.abs(xh))))
    return e, q, below, a, inverse(1.0 + a), line


@triton.jit
def sigmoid_remainder(x, u, xh):
    """softplus(xh) - softplus(x) - u sigmoid(x) for xh = x + u: log(1 + a) - p u, without cancellation."""
    _e, _q, _below, a, ungrown, line = sigmoid_move(x, u, xh)
    # with l = log(1 + a): a - l = cosh l - 1 + sinh l - l, from z = 2 cosh l - 2 and 2 sinh l
    r = a * ungrown
    z = a * r
    tail = (0.003002362959841619 * z - 0.016537589081531908) * z + 0.08332552249071808
    return line - z * ((a + r) * tail + 0.5)


@triton.jit
def sigmoid_difference(x, u, xh):
    """sigmoid(xh) - sigmoid(x) for xh = x + u."""
    e, q, below, a, ungrown, _line = sigmoid_move(x, u, xh)
    return signed(q * tl.where(below, negative(a * ungrown), e - ungrown), x)


@triton.jit
def sinh_move(x, u, xh):
    """Of a move of sinh: cosh x, sinh x, cosh xh, sinh xh; and cosh u - 1 over u^2, sinh u - u over u^2, |u| <= 1."""
    up, down = half_exp(x), half_exp(negative(x))
    up_h, down_h = half_exp(xh), half_exp(negative(xh))
    z = u * u
    even = (0.0014262897930971763 * z + 0.04165278127290068) * z + 0.5000007524837901
    odd = (0.0002025736386865929 * z + 0.008331785100617006) * z + 0.1666667500561195
    return up + down, up - down, up_h + down_h, up_h - down_h, even, u * odd


@triton.jit
def sinh_remainder(x, u, xh):
    """cosh(xh) - cosh(x) - u sinh(x) for xh = x + u."""
    cosh, sinh, cosh_h, _sinh_h, even, odd = sinh_move(x, u, xh)
    return overflowing(tl.where(tl.abs(u) <= 1.0, u * u * (cosh * even + sinh * odd), cosh_h - (cosh + u * sinh)), u)


@triton.jit
def sinh_difference(x, u, xh):
    """sinh(xh) - sinh(x) for xh = x + u."""
    cosh, sinh, _cosh_h, sinh_h, even, odd = sinh_move(x, u, xh)
    z = u * u
    move = tl.where(tl.abs(u) <= 1.0, cosh * (u + z * odd) + sinh * (z * even), sinh_h - sinh)
    return overflowing_move(move, u)


@triton.jit
def tanh(x):
    t = expm1(-2.0 * tl.abs(x))
    size = negative(t) * inverse(t + 2.0)
    return tl.where(x < 0.0, negative(size), size)


@triton.jit
def hypot1(x):
    """sqrt(1 + x^2) without overflow."""
    a = tl.abs(x)
    big = a > 1e9
    return tl.where(big, a, tl.sqrt(1.0 + tl.where(big, 0.0, x * x)))


@triton.jit
def arcsinh(x):
    a = tl.abs(x)
    b = tl.minimum(a, 1e9)
    size = log1p(tl.where(a > 1e9, a, a + b * (b * inverse(1.0 + tl.sqrt(1.0 + b * b))))) + tl.where(a > 1e9, LN2, 0.0)
    return tl.where(x < 0.0, negative(size), size)


@triton.jit
def sin(x):
    return tl.sin(x)


@triton.jit
def cos(x):
    return tl.cos(x)


@triton.jit
def tan(x):
    return tl.sin(x) / tl.cos(x)


@triton.jit
def omega(u):
    """u - sin u."""
    z = u * u
    tail = -2.7059323798713327e-06 * z + 0.00019838154024394273
    near = u * z * ((tail * z - 0.008333327072785059) * z + 0.1666666664691863)
    return tl.where(tl.abs(u) <= 1.0, near, u - tl.sin(u))


@triton.jit
def turn(y, x):
    """The angle of (x, y) for 0 <= y <= x, x > 0."""
    t = y / x
    z = t * t
    tail = 0.0028498881944142534 * z - 0.01606862327335029
    tail = (tail * z + 0.04269151006768837) * z - 0.07504293764138337
    tail = (tail * z + 0.10640933664464519) * z - 0.1420364437540759
    tail = (tail * z + 0.1999261938038747) * z - 0.33333073344520836
    return t * (tail * z + 0.9999999847657262)


@triton.jit
def arctan2(y, x):
    a, b = tl.abs(x), tl.abs(y)
    low, high = tl.minimum(a, b), tl.maximum(a, b)
    angle = turn(low, tl.where(high == 0.0, 1.0, high))
    angle = tl.where(b > a, 1.5707963267948966 - angle, angle)
    angle = tl.where(x < 0.0, 3.141592653589793 - angle, angle)
    angle = tl.where(y < 0.0, negative(angle), angle)
    return angle + 0.0 * (x + y) * tl.where((a <= LARGEST) & (b <= LARGEST), 1.0, float("nan"))


@triton.jit
def arctan(x):
    a = tl.abs(x)
    far = a > 1.0
    angle = turn(tl.where(far, 1.0, a), tl.where(far, a, 1.0))
    angle = tl.where(far, 1.5707963267948966 - angle, angle)
    return tl.where(x < 0.0, negative(angle), angle)


@triton.jit
def arcsin(x):
    a = tl.abs(x)
    far = a > 0.5
    z = tl.where(far, 0.5 - 0.5 * a, a * a)
    root = tl.where(far, tl.sqrt(z), a)
    tail = 0.042635639424322 * z + 0.023858171053013598
    tail = (tail * z + 0.04555018499116312) * z + 0.07494434762354953
    angle = root * ((tail * z + 0.1666679010956806) * z + 0.9999999955844034)
    angle = tl.where(far, 1.5707963267948966 - 2.0 * angle, angle)
    return tl.where(x < 0.0, negative(angle), angle)


@triton.jit
def logit(x):
    y = x - 0.5
    middle = tl.abs(y) <= 0.25
    near = log1p(2.0 * y * inverse(1.0 - tl.where(middle, x, 0.5)))
    return tl.where(middle, near, tl.log(x) - log1p(negative(x)))


@triton.jit
def power(x, d):
    """x^d for x >= 0, d a number."""
    return tl.where(x == 0.0, tl.where(d == 0.0, 1.0, 0.0), tl.exp2(d * tl.log2(x)))


@triton.jit
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def side(x):
    return tl.where(x < 0.0, -1.0, 1.0)


@triton.jit
def sign(x):
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, x))


@triton.jit
def within(x, bound):
    """x: where |x| > bound, the branch that uses it is not taken, and may be infinite."""
    return x


@triton.jit
def xlogy(x, y):
    return x * tl.log(tl.where(x == 0.0, 1.0, y))


@triton.jit
def isfinite(x):
    return tl.abs(x) <= LARGEST
