"""The NumPy backend: the curve's own methods on chunks that fit the cache, without temporaries of the data's size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from selmatch.batch import CHUNK_BYTES
from selmatch.curve import Curve
from selmatch.kernels import pool
from selmatch.kernels.loops import bounded, secant_of, weighted

Array = np.ndarray


def _in_chunks(s: Array, work: Callable[[slice], None], step: int = 0) -> None:
    """Call work on parts of the data, on several threads: NumPy releases the interpreter's lock."""
    step = step or CHUNK_BYTES // s.itemsize

    def one_slice(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            for begin in range(start, stop, step):
                work(slice(begin, min(begin + step, stop)))

    pool.run(one_slice, len(s))


def _moves(s_hat: Array, s: Array, part: slice) -> tuple[Array, Array, Array]:
    """Observed scores, moves and predictions, in the dtype of the observed ones."""
    x, xh = s[part], s_hat[part].astype(s.dtype, copy=False)
    return x, xh - x, xh


def _weights(weights: Array | None, s: Array, part: slice) -> Any:
    return None if weights is None else weights[part].astype(s.dtype, copy=False)


def link(curve: Curve, s: Array, values: Array) -> None:
    """h(s)."""

    def work(part: slice) -> None:
        values[part] = curve(s[part])

    _in_chunks(s, work)


def value_and_gradient(
    curve: Curve, s_hat: Array, s: Array, weights: Array | None, value: Array, gradient: Array
) -> None:
    """Loss and gradient of each score."""

    def work(part: slice) -> None:
        results = curve.remainder_and_difference(*_moves(s_hat, s, part))
        w = _weights(weights, s, part)
        for out, result in zip((value, gradient), results, strict=True):
            out[part] = result if w is None else weighted(w, result)

    _in_chunks(s, work)


def gradient_and_curvature(
    curve: Curve,
    kind: str,
    s_hat: Array,
    s: Array,
    link_of_s: Array,
    weights: Array | None,
    scale: float,
    largest: float,
    reach: float,
    gradient: Array,
    curvature: Array,
) -> None:
    """Gradient with the links of the observed scores given, and curvature."""
    precision = 4.0 * float(np.finfo(s.dtype).eps)
    scale = s.dtype.type(scale)

    def work(part: slice) -> None:
        x, u, xh = _moves(s_hat, s, part)
        known = link_of_s[part].astype(s.dtype, copy=False)
        here, curved = curve(xh), curve.slope(xh)
        if kind == "secant":
            curved = secant_of(u, here, known, curved, np.abs(x) + np.abs(xh) + reach, precision)
        w = _weights(weights, s, part)
        w = scale if w is None else scale * w
        gradient[part] = weighted(w, here - known)
        curvature[part] = bounded(weighted(w, curved), largest)

    _in_chunks(s, work)


def total(curve: Curve, s_hat: Array, s: Array, weights: Array | None, sums: Array) -> None:
    """The sums of the losses in blocks."""

    def work(part: slice) -> None:
        rest = curve.remainder(*_moves(s_hat, s, part))
        w = _weights(weights, s, part)
        sums[part.start // pool.BLOCK] = np.sum(rest if w is None else weighted(w, rest), dtype=np.float64)

    _in_chunks(s, work, pool.BLOCK)
