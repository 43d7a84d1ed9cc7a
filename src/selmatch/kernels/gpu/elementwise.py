"""Template of the kernel for scores one by one: scalar losses, value and gradient in one pass.

The text below the mark is copied into generated files, next to the functions of one link: ``constants`` (its
parameters) and ``loss`` (remainder and difference of a move from y by u to x).

Programs whose scores are all wanted, which are nearly all, read and write without asking for every score whether it is.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from selmatch.kernels.gpu.functions import halves

constants: Any = None
loss: Any = None

# ------------------------------------------------------------------------------------------------------------- template


@triton.jit
def numbers_at(Z, first, inside, PAIRED: tl.constexpr, TILE: tl.constexpr):
    """TILE scores in single precision; two of bfloat16 are the halves of one number, where pairs are read whole."""
    if PAIRED and Z.dtype.element_ty == tl.bfloat16:
        z = halves(tl.load(Z.to(tl.pointer_type(tl.int32)) + (first // 2 + tl.arange(0, TILE // 2))))
    else:
        z = tl.load(Z + (first + tl.arange(0, TILE)), mask=inside).to(tl.float32)
    return z


@triton.jit
def tile(
    S_HAT, S, GRADIENT, LOSS, SCALE, MASK, first, n, wanted_n, scale, c,
    HAS_MASK: tl.constexpr, SCALE_EACH: tl.constexpr, REDUCE: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    PAIRED: tl.constexpr, EDGE: tl.constexpr, TILE: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Losses of TILE scores, times their scale; losses and gradients are written. At an EDGE not all are wanted."""
    o = first + tl.arange(0, TILE)
    inside = None
    wanted = None
    if EDGE:
        inside = o < n
        wanted = o < wanted_n
    if SCALE_EACH:
        scale = tl.load(SCALE + o, mask=inside)
        wanted = (scale != 0.0) & wanted if EDGE else scale != 0.0
    if HAS_MASK:
        present = tl.load(MASK + o, mask=inside) != 0
        wanted = present & wanted if EDGE or SCALE_EACH else present
    x = numbers_at(S_HAT, first, inside, PAIRED, TILE)
    y = numbers_at(S, first, inside, PAIRED, TILE)
    value, slope = loss(y, x - y, x, c)
    if SCALE_EACH or not REDUCE:
        value *= scale
    slope *= scale
    if wanted is not None:
        value = tl.where(wanted, value, 0.0)  # whatever the scores are, NaN too
        slope = tl.where(wanted, slope, 0.0)
    if WITH_GRADIENT:
        tl.store(GRADIENT + o, slope.to(GRADIENT.dtype.element_ty), mask=inside)
    if not REDUCE:
        tl.store(LOSS + o, value, mask=inside)
    return tl.sum(tl.reshape(value, [TILE // VECTOR, VECTOR]), axis=1)


@triton.jit(do_not_specialize=["n"])
def scored(
    S_HAT, S, GRADIENT, LOSS, SCALE, NUMBERS, MASK, n,
    HAS_MASK: tl.constexpr, SCALE_EACH: tl.constexpr, REDUCE: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    PAIRED: tl.constexpr, TILES: tl.constexpr, TILE: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Losses, or one sum for each program, and gradients, of TILES * TILE scores in each program."""
    program = tl.program_id(0)
    first = program.to(tl.int64) * (TILES * TILE)
    left = tl.minimum(n - first, TILES * TILE).to(tl.int32)
    S_HAT += first
    S += first
    GRADIENT += first
    MASK += first
    SUMS = LOSS + program
    LOSS += first
    c = constants(NUMBERS)
    scale = 1.0
    wanted = left
    if SCALE_EACH:
        SCALE += first
    else:
        scale = tl.load(SCALE)
        wanted = tl.where(scale != 0.0, left, 0)
    total = tl.zeros([TILE // VECTOR], tl.float32)
    if wanted == TILES * TILE:
        for t in range(TILES):
            total += tile(
                S_HAT, S, GRADIENT, LOSS, SCALE, MASK, t * TILE, left, wanted, scale, c,
                HAS_MASK, SCALE_EACH, REDUCE, WITH_GRADIENT, PAIRED, False, TILE, VECTOR,
            )  # fmt: skip
    else:
        for t in range(tl.cdiv(left, TILE)):
            total += tile(
                S_HAT, S, GRADIENT, LOSS, SCALE, MASK, t * TILE, left, wanted, scale, c,
                HAS_MASK, SCALE_EACH, REDUCE, WITH_GRADIENT, False, True, TILE, VECTOR,
            )  # fmt: skip
    if REDUCE:
        one = tl.sum(total, axis=0)
        tl.store(SUMS, one if SCALE_EACH else one * scale)
