"""The loops of compiled kernels, written by hand, and the small formulas that they share with the NumPy backend.

Their source is copied into generated files, next to the functions of one curve in one precision. The names below stand
for what those files define; as they are here, the formulas work on NumPy arrays, and the loops do not run.

A block is for callers with a thousand rows at a time, who want both derivatives side by side with their signs turned,
and hold Python's lock: everything happens in one call, in several loops because those are vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from selmatch import functions

#: the precision that a loop computes in, and its distance from 1 to the next number
Scalar: Any = float
epsilon: Any = 0.0
zero: Any = 0.0
one: Any = 1.0
absolute: Any = np.abs
minimum: Any = np.minimum
maximum: Any = np.maximum
select: Any = functions.where
#: the curve
constants: Any = None
link: Any = None
link_and_slope: Any = None
remainder: Any = None
remainder_and_difference: Any = None
#: one of the loops newton and secant
derivatives: Any = None
#: of selmatch.kernels.cpu_functions
accumulated: Any = None
widest_vectors: Any = None

# ------------------------------------------------------------------------------------------------------------- formulas


def weighted(w, x):
    # 0 times an infinite loss would be NaN
    return select(w == zero, zero, w * x)


def bounded(x, largest):
    # a comparison that NaN fails
    return select(x >= zero, minimum(x, largest), zero)


def secant_of(u, here, known, steep, place, precision):
    # rise / u cancels where the scores are close. There the slope at the prediction explains the rise to within the
    # rounding errors of the two links and of their arguments (a shifted score is rounded at the size of its place), and
    # is the better number. Elsewhere (far apart, across kinks and jumps) it does not.
    rise = here - known
    still = u == zero
    close = absolute(rise - steep * u) < precision * (absolute(here) + absolute(known) + steep * place)
    return select(still | close, steep, rise / select(still, one, u))


# ---------------------------------------------------------------------------------------------------------------- loops


def link_values(s, values, numbers):
    widest_vectors()
    c = constants(numbers)
    for i in range(s.shape[0]):
        values[i] = link(Scalar(s[i]), c)


def value_and_gradient(s_hat, s, weights, value, gradient, numbers):
    widest_vectors()
    c = constants(numbers)
    for i in range(s.shape[0]):
        x, xh = Scalar(s[i]), Scalar(s_hat[i])
        rest, move = remainder_and_difference(x, xh - x, xh, c)
        if weights is not None:
            w = Scalar(weights[i])
            rest, move = weighted(w, rest), weighted(w, move)
        value[i] = rest
        gradient[i] = move


def newton(s_hat, s, link_of_s, weights, scale, largest, reach, gradient, curvature, numbers):
    widest_vectors()
    c = constants(numbers)
    scale, largest = Scalar(scale), Scalar(largest)
    for i in range(s.shape[0]):
        here, curve = link_and_slope(Scalar(s_hat[i]), c)
        w = scale
        if weights is not None:
            w = scale * Scalar(weights[i])
        gradient[i] = weighted(w, here - Scalar(link_of_s[i]))
        curvature[i] = bounded(weighted(w, curve), largest)


def secant(s_hat, s, link_of_s, weights, scale, largest, reach, gradient, curvature, numbers):
    widest_vectors()
    c = constants(numbers)
    scale, largest, reach = Scalar(scale), Scalar(largest), Scalar(reach)
    precision = Scalar(4.0) * epsilon
    for i in range(s.shape[0]):
        x, xh, known = Scalar(s[i]), Scalar(s_hat[i]), Scalar(link_of_s[i])
        u = xh - x
        here, steep = link_and_slope(xh, c)
        curve = secant_of(u, here, known, steep, absolute(x) + absolute(xh) + reach, precision)
        w = scale
        if weights is not None:
            w = scale * Scalar(weights[i])
        gradient[i] = weighted(w, here - known)
        curvature[i] = bounded(weighted(w, curve), largest)


def block(s_hat, s, weights, start, scale, low, high, largest, reach, numbers):
    count = s.shape[0]
    x, xh, known = np.empty(count, Scalar), np.empty(count, Scalar), np.empty(count, Scalar)
    gradient, curvature = np.empty(count, Scalar), np.empty(count, Scalar)
    low, high = Scalar(low), Scalar(high)
    for i in range(count):
        x[i] = s[i]
        xh[i] = minimum(maximum(Scalar(s_hat[i] + start), low), high)
    link_values(x, known, numbers)
    derivatives(xh, x, known, weights, scale, largest, reach, gradient, curvature, numbers)
    pairs, finite = np.empty((count, 2), Scalar), True
    for i in range(count):
        pairs[i, 0], pairs[i, 1] = -gradient[i], -curvature[i]
        finite &= np.isfinite(gradient[i])
    if not finite:
        raise FloatingPointError
    return pairs


def total(s_hat, s, weights, sums, block, numbers):
    widest_vectors()
    c = constants(numbers)
    for b in range(sums.shape[0]):
        subtotal = 0.0
        for i in range(b * block, min((b + 1) * block, s.shape[0])):
            x, xh = Scalar(s[i]), Scalar(s_hat[i])
            rest = remainder(x, xh - x, xh, c)
            if weights is not None:
                rest = weighted(Scalar(weights[i]), rest)
            subtotal = accumulated(subtotal, rest)
        sums[b] = subtotal
