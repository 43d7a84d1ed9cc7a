"""Every curve with a closed form, each formula written once in the paper's x.

Primitives carry the constants that the paper's composite functions imply (sinh has cosh x, exp has e^x, the sigmoid
has softplus, tanh has log cosh); all others vanish at 0 where they can.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from selmatch.curve import Curve, Interval
from selmatch.functions import (
    abs,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    cos,
    cosh,
    end,
    exp,
    expm1,
    far_phi,
    fold,
    half_exponentials,
    helper,
    hyperbolic,
    hypot1,
    k_scaled,
    log,
    log1p,
    log_ratio,
    logit,
    maximum,
    minimum,
    mirror,
    not_negative,
    omega,
    overflowing,
    positive_part,
    power,
    psi,
    psi_series,
    reciprocal,
    scaled_expm1,
    scaled_phi,
    side,
    sigmoid,
    sign,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    tan,
    tanh,
    where,
    within,
)
from selmatch.parameters import LEAF, increasing_numbers, keep, number, numbers, parameter

Array = Any

#: more than the rounding error of a bound
_OUTWARD = 1.0 + 1e-12

# ----------------------------------------------------------------------------------------------- straight lines


@dataclass(frozen=True)
class Identity(Curve):
    r"""Squared error: every score matters equally.

    .. math:: h(x) = x, \qquad H(x) = x^2/2

    Examples
    --------
    >>> MatchingLoss(Identity())(3.0, 1.0)
    2.0
    """

    odd = True
    increasing = True

    def __call__(self, x):
        return 1.0 * x

    def primitive(self, x):
        return 0.5 * square(x)

    def slope(self, x):
        return 1.0 + 0.0 * x

    def inverse(self, y):
        return 1.0 * y

    def difference(self, x, u, xh=None):
        return 1.0 * u

    def remainder(self, x, u, xh=None):
        return 2.0 * square(0.5 * u)  # half of a square that may overflow

    def inverted(self):
        return self

    def derived(self):
        return Constant()


@dataclass(frozen=True)
class Constant(Curve):
    r"""The standard Softmax, as scaling of a composite one.

    .. math:: q(x) = v, \qquad Q(x) = v x

    A negative value gives the Softmin.

    Parameters
    ----------
    value : float
        The constant v.

    Examples
    --------
    >>> CompositeSoftmax(Constant()).prob(np.zeros(4))
    array([0.25, 0.25, 0.25, 0.25])
    """

    value: Any = field(default=1.0, metadata=LEAF)

    increasing = True

    def __post_init__(self):
        keep(self, value=parameter("Constant", "value", self.value))

    @property
    def range(self):
        return Interval(self.value, self.value)

    def flat_regions(self):
        return (Interval(),)

    def __call__(self, x):
        return self.value + 0.0 * x

    def primitive(self, x):
        return self.value * x

    def slope(self, x):
        return 0.0 * x

    def inverse(self, y):
        return 0.0 * y

    def difference(self, x, u, xh=None):
        return 0.0 * (x + u)

    def remainder(self, x, u, xh=None):
        return 0.0 * (x + u)

    def increment(self, x, u, xh=None):
        return self.value * u


# ---------------------------------------------------------------------------------------------- the sigmoid family


class _SigmoidMove:
    """A move of the sigmoid, reflected so that its start is not positive and the start's probability p at most 1/2."""

    def __init__(self, x: Array, u: Array, xh: Array) -> None:
        self.way = side(-x)
        self.v, self.yh = self.way * u, self.way * xh
        self.e, self.eh = exp(fold(x)), exp(fold(self.yh))
        self.q = 1.0 / (1.0 + self.e)
        self.p = self.e * self.q
        self.near = abs(u) <= 1.0
        w = within(self.v, 1.0)
        even, odd = hyperbolic(w)
        self.bend = even + odd  # e^w - 1 - w
        self.rise = w + self.bend  # e^w - 1

    def remainder(self) -> Array:
        close = self.p * self.bend - psi_series(self.p * self.rise)
        far = log1p(self.q * self.eh - self.p) + (positive_part(self.yh) - self.v * self.p)
        return where(self.near, close, far)

    def difference(self) -> Array:
        close = self.p * self.rise / (1.0 + self.e + self.e * self.rise)
        far = where(self.yh > 0, 1.0, self.eh) / (1.0 + self.eh) - self.p
        return self.way * where(self.near, close, far)


@helper
def sigmoid_remainder(x: Array, u: Array, xh: Array) -> Array:
    return _SigmoidMove(x, u, xh).remainder()


@helper
def sigmoid_difference(x: Array, u: Array, xh: Array) -> Array:
    return _SigmoidMove(x, u, xh).difference()


@helper
def sigmoid_both(x: Array, u: Array, xh: Array) -> tuple[Array, Array]:
    move = _SigmoidMove(x, u, xh)
    return move.remainder(), move.difference()


@dataclass(frozen=True)
class Sigmoid(Curve):
    r"""Logistic sigmoid: scores around the centre matter, far ones only by their side.

    .. math:: h(x) = \frac{1}{1 + e^{-x}}, \qquad H(x) = \log(1 + e^x)

    Shifted right (``beta`` above the data) it favours high scores, shifted left low ones; gradients are below 1.

    Examples
    --------
    >>> MatchingLoss(Sigmoid())(2.0, 0.0)
    0.43378...
    """

    range = Interval(0.0, 1.0, True, True)
    increasing = True

    @property
    def centre(self):
        return 0.0

    def __call__(self, x):
        return sigmoid(x)

    def primitive(self, x):
        return softplus(x)

    def slope(self, x):
        e = exp(fold(x))
        return e / square(1.0 + e)

    def inverse(self, y):
        return logit(y)

    def difference(self, x, u, xh=None):
        return sigmoid_difference(x, u, end(x, u, xh))

    def remainder(self, x, u, xh=None):
        return sigmoid_remainder(x, u, end(x, u, xh))

    def remainder_and_difference(self, x, u, xh=None):
        return sigmoid_both(x, u, end(x, u, xh))

    def inverted(self):
        return Logit()


@dataclass(frozen=True)
class Tanh(Curve):
    r"""Hyperbolic tangent: low norms matter; the odd form of the sigmoid.

    .. math:: h(x) = \tanh x, \qquad H(x) = \log\cosh x

    Examples
    --------
    >>> MatchingLoss(Tanh())(1.0, 0.0)
    0.43378...
    """

    range = Interval(-1.0, 1.0, True, True)
    odd = True
    increasing = True

    def __call__(self, x):
        return tanh(x)

    def primitive(self, x):
        small = abs(x) <= 1.0
        near = log1p(2.0 * square(sinh(0.5 * where(small, x, 0.0))))
        y = fold(x)
        return where(small, near, log1p(exp(2.0 * y)) - y - math.log(2.0))

    def slope(self, x):
        e = exp(2.0 * fold(x))
        return 4.0 * e / square(1.0 + e)

    def inverse(self, y):
        return 0.5 * (log1p(y) - log1p(-y))

    def difference(self, x, u, xh=None):
        return 2.0 * sigmoid_difference(2.0 * x, 2.0 * u, 2.0 * end(x, u, xh))

    def remainder(self, x, u, xh=None):
        return sigmoid_remainder(2.0 * x, 2.0 * u, 2.0 * end(x, u, xh))

    def remainder_and_difference(self, x, u, xh=None):
        rest, move = sigmoid_both(2.0 * x, 2.0 * u, 2.0 * end(x, u, xh))
        return rest, 2.0 * move

    def inverted(self):
        return Arctanh()


@dataclass(frozen=True)
class Arctan(Curve):
    r"""Arctangent: low norms matter, with tails that fade slowly.

    .. math:: h(x) = \arctan x, \qquad H(x) = x \arctan x - \tfrac12 \log(1 + x^2)

    Examples
    --------
    >>> MatchingLoss(Arctan())(1.0, 0.0)
    0.43882...
    """

    range = Interval(-math.pi / 2, math.pi / 2, True, True)
    odd = True
    increasing = True

    def __call__(self, x):
        return arctan(x)

    def primitive(self, x):
        small = abs(x) <= 1.0
        return x * arctan(x) - where(small, 0.5 * log1p(square(where(small, x, 0.0))), log(hypot1(x)))

    def slope(self, x):
        root = hypot1(x)
        return 1.0 / root / root

    def inverse(self, y):
        end = abs(y) >= math.pi / 2  # rounded up, it would come out on the other side
        return where(end, where(y > 0.0, y + math.inf, y - math.inf), tan(where(end, 0.0, y)))

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        # both arguments of atan2 divided by the sizes of x and xh, lest their product overflow
        size, size_h = maximum(abs(x), 1.0), maximum(abs(xh), 1.0)
        return arctan2(u / size / size_h, 1.0 / size / size_h + (x / size) * (xh / size_h))

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        root, root_h = hypot1(x), hypot1(xh)
        turn = self.difference(x, u, xh)
        a = (u / root) * ((x + xh) / (root + root_h))
        return not_negative(psi(a, root_h / root) + 2.0 * square(sin(0.5 * turn)) + xh * omega(turn))

    def inverted(self):
        return Tan()


@dataclass(frozen=True)
class Arcsinh(Curve):
    r"""Inverse hyperbolic sine: low norms matter, large scores count by their logarithm.

    .. math:: h(x) = \operatorname{arcsinh} x, \qquad H(x) = x \operatorname{arcsinh} x - \sqrt{1 + x^2} + 1

    Examples
    --------
    >>> MatchingLoss(Arcsinh())(1.0, 0.0)
    0.46716...
    """

    odd = True
    increasing = True

    def __call__(self, x):
        return arcsinh(x)

    def primitive(self, x):
        return x * arcsinh(x) - x * (x / (1.0 + hypot1(x)))

    def slope(self, x):
        return 1.0 / hypot1(x)

    def inverse(self, y):
        return sinh(y)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        same, way, size = _sides(x, xh)
        size_h, v = mirror(xh), where(same, way * u, 0.0)
        root, root_h = hypot1(x), hypot1(xh)
        rise = v + v * ((size + size_h) / (root + root_h))  # of e^arcsinh|x| = |x| + root
        falls = rise < 0
        up, down = where(falls, 0.0, rise) / (size + root), where(falls, -rise, 0.0) / (size_h + root_h)
        return where(same, way * (log1p(up) - log1p(down)), arcsinh(xh) - arcsinh(x))

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        move, way = self.difference(x, u, xh), side(xh)
        y = way * x
        root, grown_h = hypot1(x), hypot1(xh) + mirror(xh)
        # e^arcsinh(y) and e^-arcsinh(y): one of them is a sum, the other one over it
        same = y >= 0
        total = root + where(same, y, -y)
        grown, shrunk = where(same, total, 1.0 / total), where(same, 1.0 / total, total)
        return scaled_phi(0.5 * grown_h, 0.5 * grown, -way * move) + scaled_phi(0.5 / grown_h, 0.5 * shrunk, way * move)

    def inverted(self):
        return Sinh()


@dataclass(frozen=True)
class Sin(Curve):
    r"""Sine on [-pi/2, pi/2]: low norms matter, the ends not at all.

    .. math:: h(x) = \sin x, \qquad H(x) = 1 - \cos x

    Scores outside the domain are refused; ``Sin().capped(-math.pi / 2, math.pi / 2)`` extends it by its end values.

    Examples
    --------
    >>> MatchingLoss(Sin())(1.0, 0.0)
    0.45969...
    """

    domain = Interval(-math.pi / 2, math.pi / 2)
    range = Interval(-1.0, 1.0)
    odd = True
    increasing = True

    def __call__(self, x):
        return sin(x)

    def primitive(self, x):
        return 2.0 * square(sin(0.5 * x))

    def slope(self, x):
        return cos(x)

    def inverse(self, y):
        return arcsin(y)

    def difference(self, x, u, xh=None):
        return cos(x) * sin(u) - 2.0 * sin(x) * square(sin(0.5 * u))

    def remainder(self, x, u, xh=None):
        return not_negative(2.0 * cos(x) * square(sin(0.5 * u)) - sin(x) * omega(u))

    def inverted(self):
        return Arcsin()


@dataclass(frozen=True)
class SignedLog(Curve):
    r"""Signed logarithm: low norms matter, large scores count by their logarithm.

    .. math:: h(x) = \operatorname{sign}(x) \log(1 + |x|), \qquad H(x) = (1 + |x|) \log(1 + |x|) - |x|

    Examples
    --------
    >>> MatchingLoss(SignedLog())(1.0, 0.0)
    0.38629...
    """

    odd = True
    increasing = True

    def __call__(self, x):
        return side(x) * log1p(mirror(x))

    def primitive(self, x):
        return k_scaled(1.0, mirror(x), 1.0 + mirror(x))

    def slope(self, x):
        return 1.0 / (1.0 + abs(x))

    def inverse(self, y):
        return side(y) * expm1(mirror(y))

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        same, way, size = _sides(x, xh)
        near = way * log_ratio(1.0 + size, where(same, way * u, 0.0), 1.0 + where(same, mirror(xh), size))
        return where(same, near, self(xh) - self(x))

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        same, way, size = _sides(x, xh)
        near = k_scaled(1.0 + size, where(same, way * u, 0.0), 1.0 + where(same, mirror(xh), size))
        across = self.primitive(xh) + psi(size, 1.0 + size) + mirror(xh) * log1p(size)
        return where(same, near, across)


def _sides(x: Array, xh: Array) -> tuple[Array, Array, Array]:
    """Whether x and xh lie on the same side of 0 (0 counts as positive), the side of x, and its distance from 0."""
    return (x < 0) == (xh < 0), side(x), mirror(x)


# -------------------------------------------------------------------------------------------- the exponential family


@dataclass(frozen=True)
class Exp(Curve):
    r"""Exponential: the higher the score, the more it matters.

    .. math:: h(x) = H(x) = e^x

    Unlike :class:`Sigmoid` its sensitivity never saturates; cap it where scores can be large.

    Examples
    --------
    >>> MatchingLoss(Exp())(2.0, 0.0)
    4.389056...
    """

    range = Interval(0.0, math.inf, True)
    increasing = True

    def __call__(self, x):
        return exp(x)

    def primitive(self, x):
        return exp(x)

    def slope(self, x):
        return exp(x)

    def inverse(self, y):
        return log(y)

    def difference(self, x, u, xh=None):
        return scaled_expm1(exp(x), exp(end(x, u, xh)), u)

    def remainder(self, x, u, xh=None):
        return scaled_phi(exp(x), exp(end(x, u, xh)), u)

    def inverted(self):
        return Log()

    def derived(self):
        return self


@dataclass(frozen=True)
class AntiExp(Curve):
    r"""Anti-exponential: the lower the score, the more it matters.

    .. math:: h(x) = -e^{-x}, \qquad H(x) = e^{-x}

    Examples
    --------
    >>> MatchingLoss(AntiExp())(-2.0, 0.0)
    4.389056...
    """

    range = Interval(-math.inf, 0.0, False, True)
    increasing = True

    def __call__(self, x):
        return -exp(-x)

    def primitive(self, x):
        return exp(-x)

    def slope(self, x):
        return exp(-x)

    def inverse(self, y):
        return -log(-y)

    def difference(self, x, u, xh=None):
        return -scaled_expm1(exp(-x), exp(-end(x, u, xh)), -u)

    def remainder(self, x, u, xh=None):
        return scaled_phi(exp(-x), exp(-end(x, u, xh)), -u)


class _SinhMove:
    """A move of sinh and cosh: the halves e^x / 2 and e^-x / 2 at both ends, and the parts of phi."""

    def __init__(self, x: Array, u: Array, xh: Array) -> None:
        self.u, self.near = u, abs(u) <= 2.0
        self.v = within(u, 2.0)
        self.even, self.odd = hyperbolic(self.v)
        self.up, self.down = half_exponentials(x)
        self.up_h, self.down_h = half_exponentials(xh)

    def remainders(self) -> tuple[Array, Array]:
        """Of e^x / 2 and of e^-x / 2."""
        up = where(self.near, self.up * (self.even + self.odd), far_phi(self.up, self.up_h, self.u))
        down = where(self.near, self.down * (self.even - self.odd), far_phi(self.down, self.down_h, -self.u))
        return up, down

    def differences(self) -> tuple[Array, Array]:
        """Of e^x / 2 and of e^-x / 2."""
        rise = self.odd + self.v
        up = where(self.near, self.up * (self.even + rise), self.up_h - self.up)
        down = where(self.near, self.down * (self.even - rise), self.down_h - self.down)
        return up, down

    def sinh_remainder(self) -> Array:
        up, down = self.remainders()
        return overflowing(up + down, self.u)

    def sinh_difference(self) -> Array:
        up, down = self.differences()
        return overflowing(up - down, self.u, signed=True)


@helper
def sinh_remainder(x: Array, u: Array, xh: Array) -> Array:
    return _SinhMove(x, u, xh).sinh_remainder()


@helper
def sinh_difference(x: Array, u: Array, xh: Array) -> Array:
    return _SinhMove(x, u, xh).sinh_difference()


@helper
def sinh_both(x: Array, u: Array, xh: Array) -> tuple[Array, Array]:
    move = _SinhMove(x, u, xh)
    return move.sinh_remainder(), move.sinh_difference()


@dataclass(frozen=True)
class Sinh(Curve):
    r"""Hyperbolic sine: high norms matter, on both sides.

    .. math:: h(x) = \sinh x, \qquad H(x) = \cosh x

    As scaling of a composite loss shifted *left* it favours high scores, shifted right low ones.

    Examples
    --------
    >>> MatchingLoss(Sinh())(2.0, 0.0)
    2.76219...
    """

    odd = True
    increasing = True

    def __call__(self, x):
        return sinh(x)

    def primitive(self, x):
        return cosh(x)

    def slope(self, x):
        return cosh(x)

    def inverse(self, y):
        return arcsinh(y)

    def difference(self, x, u, xh=None):
        return sinh_difference(x, u, end(x, u, xh))

    def remainder(self, x, u, xh=None):
        return sinh_remainder(x, u, end(x, u, xh))

    def remainder_and_difference(self, x, u, xh=None):
        return sinh_both(x, u, end(x, u, xh))

    def inverted(self):
        return Arcsinh()

    def derived(self):
        return Cosh()


@dataclass(frozen=True)
class Cosh(Curve):
    r"""Hyperbolic cosine: a scaling for scalar composite losses, never a link.

    .. math:: q(x) = \cosh x, \qquad Q(x) = \sinh x

    Its Q is not convex, so it is refused for many classes, and for one class beyond gamma = 1.32528134 (times the
    amplitude gain/alpha).

    Examples
    --------
    >>> MatchingLoss(CompositeSigmoid(Cosh(), gamma=0.7))(1.0, 0.0)
    0.30975...
    """

    range = Interval(1.0, math.inf)
    increasing = False
    largest_gamma = 1.3252813400170505580

    def __call__(self, x):
        return cosh(x)

    def primitive(self, x):
        return sinh(x)

    def slope(self, x):
        return sinh(x)

    def inverse(self, y):
        return 2.0 * arcsinh(sqrt(0.5 * (y - 1.0)))

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        up, down = _SinhMove(x, u, xh).differences()
        middle = 0.5 * x + 0.5 * xh
        near = abs(middle) <= 1.0  # the halves may cancel
        product = 2.0 * sinh(where(near, middle, 0.0)) * sinh(0.5 * where(near, u, 0.0))
        return where(near, product, up + down)

    def remainder(self, x, u, xh=None):
        move = _SinhMove(x, u, end(x, u, xh))
        up, down = move.remainders()
        near = move.near & (abs(x) <= 1.0)  # the halves may cancel
        y = where(near, x, 0.0)
        return where(near, sinh(y) * move.even + cosh(y) * move.odd, up - down)

    def increases_on(self, low, high):
        return low >= 0.0

    def critical(self, gamma, offset):
        # for x < 0 with Q <= 0 half of q^2 / gamma is enough: cosh^2 / sinh > sinh >= 2 gamma
        return Interval(-math.asinh(max(2.0 * gamma, offset)) * _OUTWARD, 0.0)

    def derived(self):
        return Sinh()


# -------------------------------------------------------------------------------------------- curves with end points


@dataclass(frozen=True)
class Logit(Curve):
    r"""Logit of a probability: both ends of [0, 1] matter.

    .. math:: h(x) = \log\frac{x}{1 - x}, \qquad H(x) = x \log x + (1 - x) \log(1 - x)

    The loss is the Kullback-Leibler divergence from the observed to the predicted probability. Predictions may lie on
    the ends, labels must not: clip them.

    Examples
    --------
    >>> MatchingLoss(Logit())(1.0, 0.5)
    0.69314...
    """

    domain = Interval(0.0, 1.0, True, True)
    increasing = True

    @property
    def centre(self):
        return 0.5

    def __call__(self, x):
        return logit(x)

    def primitive(self, x):
        return k_scaled(1.0, x - 1.0, x) + k_scaled(1.0, -x, 1.0 - x) - 1.0

    def slope(self, x):
        return reciprocal(x) * reciprocal(1.0 - x)

    def inverse(self, y):
        return sigmoid(y)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        return log_ratio(x, u, xh) - log_ratio(1.0 - x, -u, 1.0 - xh)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        return k_scaled(x, u, xh) + k_scaled(1.0 - x, -u, 1.0 - xh)

    def inverted(self):
        return Sigmoid()


@dataclass(frozen=True)
class Arctanh(Curve):
    r"""Inverse hyperbolic tangent: both ends of [-1, 1] matter.

    .. math:: h(x) = \operatorname{arctanh} x, \quad H(x) = \tfrac12[(1 + x)\log(1 + x) + (1 - x)\log(1 - x)]

    Predictions may lie on the ends, labels must not: clip them.

    Examples
    --------
    >>> MatchingLoss(Arctanh())(1.0, 0.0)
    0.69314...
    """

    domain = Interval(-1.0, 1.0, True, True)
    odd = True
    increasing = True

    def __call__(self, x):
        return 0.5 * (log1p(x) - log1p(-x))

    def primitive(self, x):
        return 0.5 * (k_scaled(1.0, x, 1.0 + x) + k_scaled(1.0, -x, 1.0 - x))

    def slope(self, x):
        return reciprocal(1.0 - x) * reciprocal(1.0 + x)

    def inverse(self, y):
        return tanh(y)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        return 0.5 * (log_ratio(1.0 + x, u, 1.0 + xh) - log_ratio(1.0 - x, -u, 1.0 - xh))

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        return 0.5 * (k_scaled(1.0 + x, u, 1.0 + xh) + k_scaled(1.0 - x, -u, 1.0 - xh))

    def inverted(self):
        return Tanh()


@dataclass(frozen=True)
class Arcsin(Curve):
    r"""Arcsine: both ends of [-1, 1] matter, and may be reached by labels too.

    .. math:: h(x) = \arcsin x, \qquad H(x) = x \arcsin x + \sqrt{1 - x^2} - 1

    Examples
    --------
    >>> MatchingLoss(Arcsin())(1.0, 0.0)
    0.57079...
    """

    domain = Interval(-1.0, 1.0)
    range = Interval(-math.pi / 2, math.pi / 2)
    odd = True
    increasing = True

    def __call__(self, x):
        return arcsin(x)

    def primitive(self, x):
        return x * arcsin(x) - square(x) / (1.0 + self._cosine(x))

    def slope(self, x):
        return reciprocal(self._cosine(x))

    def inverse(self, y):
        return sin(y)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        c, ch = self._cosine(x), self._cosine(xh)
        both = c + ch
        drop = x * u * ((x + xh) / where(both > 0, both, 1.0))  # c - ch, times x
        return arctan2(u * c + drop, c * ch + x * xh)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        # at an end the infinite slope would leave no gradient: there the loss is the omega of the turn to it
        at_end, way = abs(xh) >= 1.0, side(xh)
        rest = arctan2(self._cosine(x), way * x)
        ending = omega(rest) + (xh - way) * (way * rest)
        inner = where(at_end, 0.0, xh)
        turn = self.difference(x, where(at_end, -x, u), inner)
        inside = 2.0 * self._cosine(inner) * square(sin(0.5 * turn)) + inner * omega(turn)
        return not_negative(where(at_end, ending, inside))

    @staticmethod
    def _cosine(x):
        return sqrt((1.0 - x) * (1.0 + x))

    def inverted(self):
        return Sin()


@dataclass(frozen=True)
class Tan(Curve):
    r"""Tangent on (-pi/2, pi/2): both ends matter more than anything.

    .. math:: h(x) = \tan x, \qquad H(x) = -\log\cos x

    Neither labels nor predictions may reach the ends, where the loss is infinite.

    Examples
    --------
    >>> MatchingLoss(Tan())(1.0, 0.0)
    0.61562...
    """

    domain = Interval(-math.pi / 2, math.pi / 2, True, True)
    odd = True
    increasing = True

    def __call__(self, x):
        return tan(x)

    def primitive(self, x):
        return 0.5 * log1p(square(tan(x)))

    def slope(self, x):
        return 1.0 + square(tan(x))

    def inverse(self, y):
        return arctan(y)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        across = (x < 0) != (xh < 0)  # from end to end u is about pi, which says little about its sine
        return where(across, tan(xh) - tan(x), sin(u) / cos(x) / cos(xh))

    def remainder(self, x, u, xh=None):
        slope, bend = tan(x), 2.0 * square(sin(0.5 * u))
        ratio = cos(end(x, u, xh)) / cos(x)
        return not_negative(psi(-(bend + slope * sin(u)), ratio) + bend - slope * omega(u))

    def inverted(self):
        return Arctan()


@dataclass(frozen=True)
class NegLog1m(Curve):
    r"""Negative logarithm of the distance to 1: scores close to 1 matter.

    .. math:: h(x) = -\log(1 - x), \qquad H(x) = (1 - x) \log(1 - x) + x

    Predictions may reach 1, labels must stay below.

    Examples
    --------
    >>> MatchingLoss(NegLog1m())(1.0, 0.0)
    1.0
    """

    domain = Interval(-math.inf, 1.0, False, True)
    increasing = True

    def __call__(self, x):
        return -log1p(-x)

    def primitive(self, x):
        return k_scaled(1.0, -x, 1.0 - x)

    def slope(self, x):
        return reciprocal(1.0 - x)

    def inverse(self, y):
        return -expm1(-y)

    def difference(self, x, u, xh=None):
        return -log_ratio(1.0 - x, -u, 1.0 - end(x, u, xh))

    def remainder(self, x, u, xh=None):
        return k_scaled(1.0 - x, -u, 1.0 - end(x, u, xh))


@dataclass(frozen=True)
class Log(Curve):
    r"""Logarithm: the closer a positive score is to 0, the more it matters.

    .. math:: h(x) = \log x, \qquad H(x) = x \log x - x

    The loss of counts and rates (generalised Kullback-Leibler). Predictions may be 0, labels must be positive.

    Examples
    --------
    >>> MatchingLoss(Log())(0.0, 3.0)
    3.0
    """

    domain = Interval(0.0, math.inf, True)
    increasing = True

    def __call__(self, x):
        return log(x)

    def primitive(self, x):
        return k_scaled(1.0, x - 1.0, x) - 1.0

    def slope(self, x):
        return reciprocal(x)

    def inverse(self, y):
        return exp(y)

    def difference(self, x, u, xh=None):
        return log_ratio(x, u, end(x, u, xh))

    def remainder(self, x, u, xh=None):
        return k_scaled(x, u, end(x, u, xh))

    def inverted(self):
        return Exp()


# ------------------------------------------------------------------------------------------------------------- powers


def _sized(x: Array, u: Array, xh: Array) -> tuple[Array, Array, Array, Array]:
    """Whether x and xh have one sign; then |x|, |xh| - |x| and |xh|, else harmless numbers."""
    same = (x < 0) == (xh < 0)
    same = same & (x != 0) & (xh != 0)
    a, b = where(same, mirror(x), 1.0), where(same, mirror(xh), 1.0)
    return same, a, where(same, side(x) * u, 0.0), b


def _power_remainder(x: Array, u: Array, xh: Array, d: float) -> Array:
    """The loss of the signed power."""
    same, a, v, b = _sized(x, u, xh)
    share = d / (d + 1.0)
    start, stop = power(a, d), power(b, d)
    # of x^d = e^(d log x): a line in log x, and the bend of the exponential
    along = share * k_scaled(a, v, b) * start + b / (d + 1.0) * scaled_phi(start, stop, d * log_ratio(a, v, b))
    size, size_h = mirror(x), mirror(xh)
    # halved before the power and made good after it, lest the power overflow before the division by d + 1
    half, whole = 2.0 ** -min(1.0, 1e3 / (d + 1.0)), 2.0 ** min(d + 1.0, 1e3) / (d + 1.0)
    across = whole * power(half * size_h, d + 1.0) + share * power(size, d + 1.0) - side(x) * xh * power(size, d)
    return where(same, along, not_negative(across))


def _power_difference(x: Array, u: Array, xh: Array, d: float) -> Array:
    """xh^d - x^d for x and xh of one sign, with |x| and |xh| in their places."""
    same, a, v, b = _sized(x, u, xh)
    close = scaled_expm1(power(a, d), power(b, d), d * log_ratio(a, v, b))
    return where(same, close, power(abs(xh), d) - power(abs(x), d))


@dataclass(frozen=True)
class SignedPower(Curve):
    r"""Signed power: high norms matter for d > 1, low norms for 0 < d < 1.

    .. math:: h(x) = \operatorname{sign}(x) |x|^d, \qquad H(x) = \frac{|x|^{d+1}}{d+1}

    At 0 the sensitivity is 0 for d > 1 and infinite for d < 1.

    Parameters
    ----------
    d : float
        Exponent, > 0.

    Examples
    --------
    >>> MatchingLoss(SignedPower(3.0))(2.0, 0.0)
    4.0
    """

    d: float

    odd = True
    increasing = True

    def __post_init__(self):
        keep(self, d=number(type(self).__name__, "d", self.d, above=0.0))

    def __call__(self, x):
        return sign(x) * power(abs(x), self.d)

    def primitive(self, x):
        return power(abs(x), self.d + 1.0) / (self.d + 1.0)

    def slope(self, x):
        return self.d * power(abs(x), self.d - 1.0)

    def inverse(self, y):
        return sign(y) * power(abs(y), 1.0 / self.d)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        same = (x < 0) == (xh < 0)
        return side(x) * where(
            same, _power_difference(x, u, xh, self.d), -(power(abs(x), self.d) + power(abs(xh), self.d))
        )

    def remainder(self, x, u, xh=None):
        return _power_remainder(x, u, end(x, u, xh), self.d)

    def inverted(self):
        return type(self)(1.0 / self.d)


@dataclass(frozen=True)
class Power(SignedPower):
    r"""Power of a score that is never negative: high scores matter for d > 1, low ones for 0 < d < 1.

    .. math:: h(x) = x^d, \qquad H(x) = \frac{x^{d+1}}{d+1}, \qquad x \ge 0

    Parameters
    ----------
    d : float
        Exponent, > 0.

    Examples
    --------
    >>> MatchingLoss(Power(2.0))(3.0, 0.0)
    9.0
    """

    domain = Interval(0.0, math.inf)
    range = Interval(0.0, math.inf)
    odd = False


@dataclass(frozen=True)
class AbsPower(Curve):
    r"""Absolute power plus a constant: a scaling for scalar composite losses, never a link.

    .. math:: q(x) = |x|^d + c, \qquad Q(x) = \frac{\operatorname{sign}(x) |x|^{d+1}}{d+1} + c x

    Its Q is not convex, so it is refused for many classes, and for one class where c is too small for gamma and d.

    Parameters
    ----------
    d : float
        Exponent, > 0.
    c : float
        Constant, >= 0.

    Examples
    --------
    >>> MatchingLoss(CompositeSigmoid(AbsPower(d=1.0, c=2.0), gamma=1.0))(1.0, 0.0)
    0.88574...
    """

    d: float
    c: float

    increasing = False

    def __post_init__(self):
        keep(self, d=number("AbsPower", "d", self.d, above=0.0), c=number("AbsPower", "c", self.c, at_least=0.0))

    @property
    def range(self):
        return Interval(self.c, math.inf)

    def __call__(self, x):
        return power(abs(x), self.d) + self.c

    def primitive(self, x):
        return sign(x) * power(abs(x), self.d + 1.0) / (self.d + 1.0) + self.c * x

    def slope(self, x):
        return self.d * sign(x) * power(abs(x), self.d - 1.0)

    def inverse(self, y):
        return power(y - self.c, 1.0 / self.d)

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        # |xh| - |x| is u, or what is left of x beyond 0
        return _power_difference(abs(x), side(x) * where((x < 0) == (xh < 0), u, -(x + xh)), abs(xh), self.d)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        up = self.d + 1.0
        a, b = power(abs(x), up), power(abs(xh), up)
        across = where(xh < 0, -(a + b), a + b) / up - u * power(abs(x), self.d)
        same = _power_remainder(x, u, xh, self.d)
        return where((x < 0) == (xh < 0), where(x < 0, -same, same), across)

    def increases_on(self, low, high):
        return low >= 0.0

    def critical(self, gamma, offset):
        # for x = -t with Q <= 0 half of q^2 / gamma is enough: t^(2d) >= 2 gamma d t^(d-1)
        up = self.d + 1.0
        return Interval(-(max(2.0 * gamma * self.d, offset * up, 0.0) ** (1.0 / up)) * _OUTWARD, 0.0)

    @property
    def largest_gamma(self):
        return _largest_gamma_of_power(self.d, self.c)


@functools.cache
def _largest_gamma_of_power(d: float, c: float) -> float:
    """The largest gamma for which sigma(y) (t^d + c)^2 / gamma >= d t^(d-1) for all t = -x > 0."""
    if d < 1.0 or c == 0.0:
        return 0.0
    if d == 1.0:
        return 0.5 * c * c

    def slack(log_t: float, gamma: float) -> float:
        t = math.exp(log_t)
        try:
            y = (t ** (d + 1.0) / (d + 1.0) + c * t) / gamma
            return (t**d + c) ** 2 / (1.0 + math.exp(-y)) / (gamma * d * t ** (d - 1.0)) - 1.0
        except (OverflowError, ZeroDivisionError):  # t^(2d) is far above t^(d-1), or that is 0
            return math.inf

    # the slack is smallest where t^d is comparable with c; beyond it grows on both sides
    centre = math.log(c) / d
    grid = [centre + 0.05 * i for i in range(-80, 81)]

    def smallest_slack(gamma: float) -> float:
        best = min(grid, key=lambda log_t: slack(log_t, gamma))
        a, b, golden = best - 0.05, best + 0.05, (math.sqrt(5.0) - 1.0) / 2.0
        for _ in range(40):
            left, right = b - golden * (b - a), a + golden * (b - a)
            a, b = (a, right) if slack(left, gamma) < slack(right, gamma) else (left, b)
        return slack(0.5 * (a + b), gamma)

    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if smallest_slack(middle) >= 0.0 else (low, middle)
    return low


# --------------------------------------------------------------------------------------- curves with straight pieces


def clipped_move(x: Array, u: Array, xh: Array, low: float, high: float) -> tuple[Array, Array, Array]:
    """Start, end and length of a move whose ends are clipped to [low, high]; unclipped moves keep their length."""
    a, b = minimum(maximum(x, low), high), minimum(maximum(xh, low), high)
    return a, b, where((a == x) & (b == xh), u, b - a)


def _outside(low: float, high: float) -> tuple[Interval, Interval]:
    return Interval(high=low), Interval(low=high)


@dataclass(frozen=True)
class Huber(Curve):
    r"""Gradient of the Huber function: squared error near the label, linear growth far from it.

    .. math:: h(x) = \max(-c, \min(c, x))

    Parameters
    ----------
    c : float
        Half-width of the sensitive region, > 0.

    Examples
    --------
    >>> MatchingLoss(Huber(c=1.0))(3.0, 0.0)
    2.5
    """

    c: float = 1.0

    odd = True
    increasing = True

    def __post_init__(self):
        keep(self, c=number("Huber", "c", self.c, above=0.0))

    @property
    def range(self):
        return Interval(-self.c, self.c)

    def flat_regions(self):
        return _outside(-self.c, self.c)

    def __call__(self, x):
        return minimum(maximum(x, -self.c), self.c)

    def primitive(self, x):
        inside = self(x)
        return inside * (x - 0.5 * inside)

    def slope(self, x):
        return where(abs(x) <= self.c, 1.0, 0.0 * x)

    def inverse(self, y):
        return self(y)

    def difference(self, x, u, xh=None):
        return clipped_move(x, u, end(x, u, xh), -self.c, self.c)[-1]

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        _, b, step = clipped_move(x, u, xh, -self.c, self.c)
        return (0.5 * step + (xh - b)) * step


@dataclass(frozen=True)
class SmeLU(Curve):
    r"""Gradient of the smooth ReLU: scores within c of the centre matter, lower and higher ones only by their side.

    .. math:: h(x) = \max(0, \min(1, \tfrac{x + c}{2 c}))

    As scaling (SmeLU itself is then Q) it clips low scores: moves below -c cost nothing.

    Parameters
    ----------
    c : float
        Half-width of the sensitive region, > 0.

    Examples
    --------
    >>> MatchingLoss(SmeLU(c=2.0))(3.0, -3.0)
    3.0
    """

    c: float = 1.0

    range = Interval(0.0, 1.0)
    increasing = True

    @property
    def centre(self):
        return 0.0

    def __post_init__(self):
        keep(self, c=number("SmeLU", "c", self.c, above=0.0))

    def flat_regions(self):
        return _outside(-self.c, self.c)

    def __call__(self, x):
        return minimum(maximum((x + self.c) / (2.0 * self.c), 0.0), 1.0)

    def primitive(self, x):
        q = self(x)
        return q * ((x + self.c) - self.c * q)

    def slope(self, x):
        return where(abs(x) <= self.c, 0.5 / self.c, 0.0 * x)

    def inverse(self, y):
        return self.c * (2.0 * minimum(maximum(y, 0.0), 1.0) - 1.0)

    def difference(self, x, u, xh=None):
        return Huber(self.c).difference(x, u, xh) / (2.0 * self.c)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        _, b, step = clipped_move(x, u, xh, -self.c, self.c)
        return (0.5 * step + (xh - b)) * (step / (2.0 * self.c))


@dataclass(frozen=True)
class ReLU(Curve):
    r"""Rectified linear unit: squared error above 0, nothing below.

    .. math:: h(x) = \max(x, 0), \qquad H(x) = \max(x, 0)^2/2

    With the ReLU as Q, the scaling is :class:`Step`.

    Examples
    --------
    >>> MatchingLoss(ReLU())(-5.0, 2.0)
    12.0
    """

    range = Interval(0.0, math.inf)
    increasing = True

    def flat_regions(self):
        return (Interval(high=0.0),)

    def __call__(self, x):
        return maximum(x, 0.0)

    def primitive(self, x):
        return 0.5 * square(maximum(x, 0.0))

    def slope(self, x):
        return where(x > 0, 1.0, 0.0 * x)

    def inverse(self, y):
        return maximum(y, 0.0)

    def difference(self, x, u, xh=None):
        return clipped_move(x, u, end(x, u, xh), 0.0, math.inf)[-1]

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        _, b, step = clipped_move(x, u, xh, 0.0, math.inf)
        return (0.5 * step + (xh - b)) * step

    def derived(self):
        return Step()


@dataclass(frozen=True)
class Step(Curve):
    r"""Step: only the side of 0 matters.

    .. math:: h(x) = 1[x > 0], \qquad H(x) = \max(x, 0)

    The loss is hinge-shaped. As scaling (the ReLU is then Q) it ignores all scores below 0.

    Examples
    --------
    >>> MatchingLoss(Step())(-0.5, 2.0)
    0.5
    """

    range = Interval(0.0, 1.0)
    increasing = True
    continuous = False

    def flat_regions(self):
        return (Interval(high=0.0), Interval(low=0.0, open_low=True))

    def __call__(self, x):
        return where(x > 0, 1.0, 0.0 * x)

    def primitive(self, x):
        return maximum(x, 0.0)

    def slope(self, x):
        return 0.0 * x

    def inverse(self, y):
        return 0.0 * y

    def difference(self, x, u, xh=None):
        return self(end(x, u, xh)) - self(x)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        return self.difference(x, u, xh) * xh


@dataclass(frozen=True)
class Sign(Curve):
    r"""Sign: only the side of 0 matters; the odd form of :class:`Step`.

    .. math:: h(x) = \operatorname{sign}(x), \qquad H(x) = |x|

    Examples
    --------
    >>> MatchingLoss(Sign())(-0.5, 2.0)
    1.0
    """

    range = Interval(-1.0, 1.0)
    odd = True
    increasing = True
    continuous = False

    def flat_regions(self):
        return (Interval(high=0.0, open_high=True), Interval(low=0.0, open_low=True))

    def __call__(self, x):
        return sign(x)

    def primitive(self, x):
        return abs(x)

    def slope(self, x):
        return 0.0 * x

    def inverse(self, y):
        return 0.0 * y

    def difference(self, x, u, xh=None):
        return sign(end(x, u, xh)) - sign(x)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        return (sign(xh) - sign(x)) * xh


@dataclass(frozen=True)
class Staircase(Curve):
    r"""Staircase: only the step a score stands on matters, and how many steps lie between.

    .. math:: h(x) = b + \sum_i j_i \, 1[x > t_i]

    Parameters
    ----------
    thresholds : sequence of float
        Where the steps are, strictly increasing.
    jumps : sequence of float
        Height of each step, > 0.
    base : float
        Value below the first step.

    Examples
    --------
    >>> MatchingLoss(Staircase(thresholds=(0.0, 1.0), jumps=(1.0, 2.0)))(3.0, -1.0)
    7.0
    """

    thresholds: tuple[float, ...]
    jumps: tuple[float, ...]
    base: float = 0.0

    increasing = True
    continuous = False

    def __post_init__(self):
        thresholds = increasing_numbers("Staircase", "thresholds", self.thresholds, at_least=1)
        jumps = numbers("Staircase", "jumps", self.jumps, above=0.0)
        if len(jumps) != len(thresholds):
            raise ValueError(
                f"Staircase: jumps must have one entry per threshold ({len(thresholds)}), got {len(jumps)}."
            )
        keep(self, thresholds=thresholds, jumps=jumps, base=number("Staircase", "base", self.base))

    @property
    def range(self):
        return Interval(self.base, self.base + sum(self.jumps))

    def flat_regions(self):
        ends = (-math.inf, *self.thresholds, math.inf)
        return tuple(Interval(a, b, open_low=True) for a, b in itertools.pairwise(ends))

    def _over(self, term: Any) -> Array:
        """Sum over the steps of jump times term(threshold)."""
        return sum(j * term(t) for t, j in zip(self.thresholds, self.jumps, strict=True))

    def __call__(self, x):
        return self.base + self._over(lambda t: where(x > t, 1.0, 0.0 * x))

    def primitive(self, x):
        return self.base * x + self._over(lambda t: maximum(x - t, 0.0) - max(-t, 0.0))

    def slope(self, x):
        return 0.0 * x

    def inverse(self, y):
        x, level = self.thresholds[0] + 0.0 * y, self.base + self.jumps[0]
        for before, after, jump in zip(self.thresholds, self.thresholds[1:], self.jumps[1:], strict=False):
            x = x + where(y > level, after - before, 0.0 * y)
            level += jump
        return x

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        return self._over(lambda t: where(xh > t, 1.0, 0.0 * x) - where(x > t, 1.0, 0.0 * x))

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        return self._over(lambda t: (where(xh > t, 1.0, 0.0 * x) - where(x > t, 1.0, 0.0 * x)) * (xh - t))

    def window(self):
        span = max(self.thresholds[-1] - self.thresholds[0], 1.0)
        return self.thresholds[0] - 0.5 * span, self.thresholds[-1] + 0.5 * span


@dataclass(frozen=True)
class Polynomial(Curve):
    r"""Polynomial: a segment of a :class:`Piecewise` link, or a link where it increases.

    .. math:: h(x) = \sum_k c_k (x - o)^k

    Parameters
    ----------
    coefficients : sequence of float
        c_0, c_1, ... in ascending order.
    origin : float
        The point o.

    Examples
    --------
    >>> MatchingLoss(Polynomial((0.0, 1.0, 0.0, 1.0)))(1.0, 0.0)
    0.75
    """

    coefficients: tuple[float, ...]
    origin: float = 0.0

    def __post_init__(self):
        coefficients = numbers("Polynomial", "coefficients", self.coefficients)
        if not coefficients:
            raise ValueError("Polynomial: coefficients must have at least 1 entry, got 0.")
        keep(self, coefficients=coefficients, origin=number("Polynomial", "origin", self.origin))

    @property
    def increasing(self):
        return self.increases_on(-math.inf, math.inf)

    @property
    def odd(self):
        return self.origin == 0.0 and not any(self.coefficients[::2])

    def _about(self, x: Array) -> list[Array]:
        """Coefficients about x instead of the origin."""
        t = x - self.origin
        c = [value + 0.0 * t for value in self.coefficients]
        for start in range(len(c)):
            for i in range(len(c) - 2, start - 1, -1):
                c[i] = c[i] + t * c[i + 1]
        return c

    def __call__(self, x):
        t = x - self.origin
        total = 0.0 * t
        for c in reversed(self.coefficients):
            total = total * t + c
        return total

    def primitive(self, x):
        t = x - self.origin
        total = 0.0 * t
        for k, c in reversed(list(enumerate(self.coefficients))):
            total = total * t + c / (k + 1)
        return total * t

    def slope(self, x):
        return self.derived()(x)

    def difference(self, x, u, xh=None):
        total = 0.0 * u
        for c in reversed(self._about(x)[1:]):
            total = (total + c) * u
        return total

    def remainder(self, x, u, xh=None):
        total = 0.0 * u
        for k, c in reversed(list(enumerate(self._about(x)))[1:]):
            total = (total + c / (k + 1)) * u
        return total * u

    def derived(self):
        return Polynomial(tuple(k * c for k, c in enumerate(self.coefficients))[1:] or (0.0,), self.origin)

    def increases_on(self, low, high):
        import numpy as np

        slope = np.polynomial.Polynomial([k * c for k, c in enumerate(self.coefficients)][1:] or [0.0]).trim()
        if slope.degree() == 0:
            return bool(slope.coef[0] >= 0.0)
        flat = slope.deriv().roots() if slope.degree() > 1 else np.zeros(0)
        reach = 1.0 + float(np.max(np.abs(slope.roots())))
        ends = [max(low - self.origin, -reach), min(high - self.origin, reach)]
        inside = [r.real for r in flat if ends[0] < r.real < ends[1]]
        # a slope that touches 0 rounds to either side of it
        size = np.polynomial.Polynomial(np.abs(slope.coef))
        return all(bool(slope(t) >= -8e-16 * size(math.fabs(t))) for t in (*ends, *inside))
