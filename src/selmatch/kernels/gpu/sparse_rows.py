"""Template of the kernel for rows of scores against teachers of which a few classes are stored.

The text below the mark comes after the one of :mod:`selmatch.kernels.gpu.rows` in generated files, and calls it.
All classes of a row that are not stored have one teacher score, so that their weight, Q and q are numbers, and the
teacher costs no memory traffic. Stored classes are left out of the tiles and taken in by themselves, with their own
scores, in the program that owns their segment.

Stages are those of long rows (extremes and sums of raw scores, moments, gradient). Since Q is convex, the extremes
bound the log-scores before the moments are summed: all sums have fixed levels, one for the student and one for the
teacher, and nothing is rescaled. The moments of stored classes are those of the moves beyond that of the levels, the
moments of all others those of the moves themselves, which are 0 for classes that a scaling clips: whichever of the two
groups has the probability, its moments are small where the loss is. What was summed with levels must be put together
with the very same ones: they are left for the last stage, not computed again, since a compiler that fuses other
products with other sums would find others.

The moments of the classes that are not stored are differences of sums where that is good enough: the region part
sum Q(x) - Q(t) - (x - t) q(t), and (unless moves are small, where a series is summed) the part sum e^v - 1 - v. Where
too little is left of a difference in a segment, its scores are close to the tail: they are read once more, and their
moves of Q taken from remainders.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from selmatch.kernels.gpu.functions import LN2, LOG2E, log1p, phi_series, scaled_expm1, scaled_phi
from selmatch.kernels.gpu.rows import LOWEST, tile_max, tile_sum

constants: Any = None
move: Any = None
scores: Any = None
weight: Any = None
point: Any = None

# ------------------------------------------------------------------------------------------------------------- template

#: an index that no class has, and a score
NO_CLASS = tl.constexpr(2147483647)
NO_SCORE = tl.constexpr(-3.0e38)
#: below it the logarithm of 1 + excess is the divergence
LARGE = tl.constexpr(1.0e15)
#: the largest power of 2 that is formed, and a weight that stands for none
HIGHEST = tl.constexpr(60.0)
TINY = tl.constexpr(1.0e-37)
#: what must be left of a difference of sums
LEFT = tl.constexpr(0.015625)
#: moves of log-scores up to it have a series
CALM = tl.constexpr(0.25)
#: numbers that a segment leaves for the stages after it: those of its raw scores begin at FIRST
NUMBERS_LEFT = tl.constexpr(16)
FIRST = tl.constexpr(11)
#: how the moments of classes that are not stored are summed: Q is flat at the tail, or not, or moves are small
FLAT = tl.constexpr(0)
SLOPED = tl.constexpr(1)
SERIES = tl.constexpr(2)


@triton.jit
def tile_min(x):
    return tl.min(tl.min(x, axis=2), axis=0)


@triton.jit
def with_extremes(x, high, low, mass, here, MASKED: tl.constexpr, CANONICAL: tl.constexpr):
    """Maximum, minimum and sum of e^(score - maximum) of each thread with one more tile of raw scores."""
    if MASKED:
        low = tl.minimum(low, tile_min(tl.where(here, x, -LOWEST)))
        x = tl.where(here, x, LOWEST)
    else:
        low = tl.minimum(low, tile_min(x))
    above = tl.maximum(high, tile_max(x))
    if CANONICAL:
        level = above * LOG2E
        e = tl.exp2(x * LOG2E - level[None, :, None])
        if MASKED:
            e = tl.where(here, e, 0.0)
        mass = mass * tl.exp2(high * LOG2E - level) + tile_sum(e)
    return above, low, mass


@triton.jit
def teacher_extremes(y_row, tail, k, T: tl.constexpr):
    """The largest and the smallest score of a teacher."""
    high = tl.zeros([T], tl.float32) + tail
    low = high
    for j in range(0, k, T):
        p = j + tl.arange(0, T)
        y = tl.load(y_row + p, mask=p < k, other=0.0)
        high = tl.maximum(high, tl.where(p < k, y, LOWEST))
        low = tl.minimum(low, tl.where(p < k, y, -LOWEST))
    return tl.max(high, axis=0), tl.min(low, axis=0)


@triton.jit
def shift_and_extremes(parts, there, CANONICAL: tl.constexpr):
    """The log-sum-exp of a row's raw scores, and the largest and the smallest score without it."""
    high = tl.load(parts + FIRST, mask=there, other=LOWEST, cache_modifier=".cg")
    low = tl.load(parts + FIRST + 1, mask=there, other=-LOWEST, cache_modifier=".cg")
    top = tl.max(high, axis=0)
    bottom = tl.min(low, axis=0)
    shift = 0.0
    if CANONICAL:
        mass = tl.load(parts + FIRST + 2, mask=there, other=0.0, cache_modifier=".cg")
        shift = top + tl.log2(tl.sum(mass * tl.exp2((high - top) * LOG2E), axis=0)) * LN2
    return shift, top - shift, bottom - shift


@triton.jit
def bound_of(high, low, NUMBERS, c, to_base_2, ANCHOR: tl.constexpr):
    """A bound of the log-scores of a row."""
    right, _q = scores(high, c)
    left, _q = scores(low, c)
    # a maximum of products: a product alone would be fused with what it is subtracted from
    found = tl.maximum(right * to_base_2, left * to_base_2)
    if ANCHOR >= 0:
        found = tl.maximum(found, tl.load(NUMBERS + ANCHOR) * to_base_2)
    return found


@triton.jit
def total(pointers, there):
    """The sum of what the segments of a row have left."""
    return tl.sum(tl.load(pointers, mask=there, other=0.0, cache_modifier=".cg"), axis=0)


@triton.jit
def places(i_row, k, first, end, T: tl.constexpr):
    """How many stored classes come before a segment, and before its end."""
    start = tl.zeros([T], tl.int32)
    last = tl.zeros([T], tl.int32)
    for j in range(0, k, T):
        p = j + tl.arange(0, T)
        index = tl.load(i_row + p, mask=p < k, other=NO_CLASS).to(tl.int32)
        start += (index < first).to(tl.int32)
        last += (index < end).to(tl.int32)
    return tl.sum(start, axis=0), tl.sum(last, axis=0)


@triton.jit
def unstored(x, o, end, classes, i_row, j, following, last, t):
    """Scores of a tile, and t for the stored classes; which ones are not stored; the next stored one after the tile."""
    first = j
    while following < end:
        j += 1
        following = tl.load(i_row + j, mask=j < last, other=NO_CLASS).to(tl.int32)
    x = tl.where(o < classes, x, NO_SCORE)
    # scores are marked, in a loop of its own, since other tensors would change hands between threads
    for p in range(first, j):
        x = tl.where(o == tl.load(i_row + p).to(tl.int32), NO_SCORE, x)
    here = x != NO_SCORE
    return tl.where(here, x, t), here, j, following


@triton.jit
def tail_phi(v, e, ex):
    """e (e^v - 1 - v) for ex = e e^v."""
    near = (v * v) * (((0.00833746 * e * v + 0.0417535 * e) * v + 0.16666696 * e) * v + 0.4999993 * e)
    return tl.where(tl.abs(v) <= CALM, near, ex - (e * v + e))


@triton.jit
def tail_taken_in(
    x, here, t, base, c, per_gamma, to_base_2, nx, e, dx, rises, moves, s2, largest, tx,
    MASKED: tl.constexpr, HOW: tl.constexpr, CANONICAL: tl.constexpr,
):  # fmt: skip
    """Sums with one more tile of classes that are not stored.

    They are those of the weights (less e, the weight of a class of the student with the tail's score, where Q is flat),
    of Q less that of the tail, of the moves of the scores, of phi of the moves of log-scores, and of q times the
    weights; and the largest move of Q.
    """
    top, q = scores(x, c)
    ex = tl.exp2(top * to_base_2 - nx)
    rise = top - base
    if HOW == FLAT:
        dx += tile_sum(ex - e)
    if MASKED:
        # others have moved by nothing
        rise = tl.where(here, rise, 0.0)
        ex = tl.where(here, ex, 0.0)
    if HOW != FLAT:
        dx += tile_sum(ex)
        moves += tile_sum(x - t)
    if HOW == SERIES:
        # of moves times gamma
        largest = tl.maximum(largest, tile_max(tl.abs(rise)))
        squared = per_gamma * per_gamma
        by_3 = 0.00833746 * per_gamma * squared * squared
        by_2 = 0.0417535 * squared * squared
        by_1 = 0.16666696 * per_gamma * squared
        s2 += tile_sum((rise * rise) * (((by_3 * rise + by_2) * rise + by_1) * rise + 0.4999993 * squared))
    if CANONICAL:
        tx += tile_sum(ex * q)
    return dx, rises + tile_sum(rise), moves, s2, largest, tx


@triton.jit
def tail_moments(
    x_row, i_row, start, last, first, some, classes, shift, t, base, c, per_gamma, to_base_2, nx, e,
    HOW: tl.constexpr, CANONICAL: tl.constexpr, R: tl.constexpr, T: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """The sums of :func:`tail_taken_in` of each thread over a segment."""
    tile = (tl.arange(0, R)[:, None, None] * T + tl.arange(0, T)[None, :, None]) * V
    tile += tl.arange(0, V)[None, None, :]
    dx = tl.zeros([T], tl.float32)
    rises = tl.zeros([T], tl.float32)
    moves = tl.zeros([T], tl.float32)
    s2 = tl.zeros([T], tl.float32)
    largest = tl.zeros([T], tl.float32)
    tx = tl.zeros([T], tl.float32)
    j = start
    following = tl.load(i_row + j, mask=j < last, other=NO_CLASS).to(tl.int32)
    for i in range(some):
        o = first + i * (R * T * V) + tile
        end = first + (i + 1) * (R * T * V)
        if (end <= classes) & (following >= end):
            x = tl.load(x_row + o).to(tl.float32) - shift
            dx, rises, moves, s2, largest, tx = tail_taken_in(
                x, o, t, base, c, per_gamma, to_base_2, nx, e, dx, rises, moves, s2, largest, tx, False, HOW, CANONICAL
            )  # fmt: skip
        else:
            x = tl.load(x_row + o, mask=o < classes, other=0.0).to(tl.float32) - shift
            x, here, j, following = unstored(x, o, end, classes, i_row, j, following, last, t)
            dx, rises, moves, s2, largest, tx = tail_taken_in(
                x, here, t, base, c, per_gamma, to_base_2, nx, e, dx, rises, moves, s2, largest, tx, True, HOW,
                CANONICAL,
            )  # fmt: skip
    return (
        tl.sum(dx, axis=0), tl.sum(rises, axis=0), tl.sum(moves, axis=0), tl.sum(s2, axis=0), tl.max(largest, axis=0),
        tl.sum(tx, axis=0),
    )  # fmt: skip


@triton.jit
def exact_moments(
    x_row, i_row, start, last, first, some, classes, shift, t, q, c, per_gamma, to_base_2, nx, e,
    R: tl.constexpr, T: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Sums over a segment, without stored classes: of remainders of Q, and of e phi of the moves of log-scores."""
    tile = (tl.arange(0, R)[:, None, None] * T + tl.arange(0, T)[None, :, None]) * V
    tile += tl.arange(0, V)[None, None, :]
    rests = tl.zeros([T], tl.float32)
    s2 = tl.zeros([T], tl.float32)
    j = start
    following = tl.load(i_row + j, mask=j < last, other=NO_CLASS).to(tl.int32)
    for i in range(some):
        o = first + i * (R * T * V) + tile
        x = tl.load(x_row + o, mask=o < classes, other=0.0).to(tl.float32) - shift
        x, here, j, following = unstored(
            x, o, first + (i + 1) * (R * T * V), classes, i_row, j, following, last, t
        )  # fmt: skip
        u = x - t
        _base, top, _qy, _qx, remainder = move(tl.zeros([R, T, V], tl.float32) + t, u, x, c)
        second = tail_phi((u * q + remainder) * per_gamma, e, tl.exp2(top * to_base_2 - nx))
        rests += tile_sum(tl.where(here, remainder, 0.0))
        s2 += tile_sum(tl.where(here, second, 0.0))
    return tl.sum(rests, axis=0), tl.sum(s2, axis=0)


@triton.jit
def share(e, h, s1, s2):
    """The mean of phi over a group with probability e and means s1, s2 of its moments, after its moves grow by h.

    s2 comes times e^h already, and times e.
    """
    grown = tl.exp2(tl.minimum(tl.log2(tl.maximum(e, TINY)) + h * LOG2E, HIGHEST))
    return s2 + scaled_phi(e, grown, h) + scaled_expm1(e, grown, h) * s1


@triton.jit
def sparse_loss(lx, ly, distance, dy, e_tail, s1_tail, s2_tail, d_stored, s1_stored, s2_stored, s3, gamma):
    """The loss of a row whose levels are a distance apart (in base 2), from the moments of its two groups."""
    apart = distance * LN2
    m_tail = s1_tail / tl.maximum(e_tail, TINY)
    m_stored = s1_stored / tl.maximum(d_stored, TINY)
    mean = (s1_tail + (s1_stored + apart * d_stored)) / dy
    # the weights behind s2_tail are those of the student
    growth = distance - mean * LOG2E
    factor = tl.exp2(tl.minimum(growth, HIGHEST)) / dy
    excess = share(e_tail / dy, -mean, m_tail, factor * s2_tail)
    excess += share(d_stored / dy, apart - mean, m_stored, factor * s2_stored)
    fits = (excess < LARGE) & (growth < HIGHEST)
    near = log1p(tl.maximum(tl.where(fits, excess, 0.0), 0.0))
    return gamma * tl.where(fits, near, (lx - ly) * LN2 - mean) + s3 / dy


@triton.jit(do_not_specialize=["rows", "lag"])
def sparse_rows(
    S_HAT, INDICES, TEACHER, TAIL, GRADIENT, LOSS, SCALE, NUMBERS, GATHERED, PARTS, READY,
    rows, classes, k, x_stride, g_stride, scale_stride, lag,
    GAMMA: tl.constexpr, ANCHOR: tl.constexpr, CANONICAL: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    SEGMENTS: tl.constexpr, SLOTS: tl.constexpr, TILES: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    V: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Losses, and gradients, of rows in programs of one stage of one segment each."""
    pid = tl.program_id(0)
    stage = pid % 3
    item = pid // 3 - stage * lag
    if (item >= 0) & (item < rows * SEGMENTS):
        row = (item // SEGMENTS).to(tl.int64)
        segment = item % SEGMENTS
        first = segment * (TILES * R * T * V)
        # tiles with any class, and those of them where all are there
        some = tl.minimum((classes - first + R * T * V - 1) // (R * T * V), TILES)
        whole = tl.minimum((classes - first) // (R * T * V), TILES)
        scale = tl.load(SCALE + row * scale_stride)
        c = constants(NUMBERS)
        gamma = tl.load(NUMBERS + GAMMA)
        per_gamma = 1.0 / gamma
        to_base_2 = per_gamma * LOG2E
        x_row = S_HAT + row * x_stride
        i_row = INDICES + row * k
        y_row = TEACHER + row * k
        gathered = GATHERED + row * k
        t = tl.load(TAIL + row)
        tile = (tl.arange(0, R)[:, None, None] * T + tl.arange(0, T)[None, :, None]) * V
        tile += tl.arange(0, V)[None, None, :]
        lane = tl.arange(0, T)[None, :, None]
        part = PARTS + item.to(tl.int64) * NUMBERS_LEFT
        slot = tl.arange(0, SLOTS)
        there = slot < SEGMENTS
        parts = PARTS + (row * SEGMENTS + slot) * NUMBERS_LEFT
        if (scale != 0.0) & (stage == 0):
            high = tl.full([T], LOWEST, tl.float32)
            low = tl.full([T], -LOWEST, tl.float32)
            mass = tl.zeros([T], tl.float32)
            for i in tl.range(0, whole, loop_unroll_factor=UNROLL):
                x = tl.load(x_row + (first + i * (R * T * V) + tile)).to(tl.float32)
                high, low, mass = with_extremes(x, high, low, mass, x, False, CANONICAL)
            for i in range(whole, some):
                o = first + i * (R * T * V) + tile
                x = tl.load(x_row + o, mask=o < classes, other=0.0).to(tl.float32)
                high, low, mass = with_extremes(x, high, low, mass, o < classes, True, CANONICAL)
            top = tl.max(high, axis=0)
            y_high = t
            y_low = t
            if segment == 0:
                y_high, y_low = teacher_extremes(y_row, t, k, T)
            tl.store(part + FIRST, top)
            tl.store(part + FIRST + 1, tl.min(low, axis=0))
            tl.store(part + FIRST + 2, tl.sum(mass * tl.exp2((high - top) * LOG2E), axis=0))
            tl.store(part + FIRST + 3, y_high)
            tl.store(part + FIRST + 4, y_low)
            tl.atomic_add(READY + row, 1, sem="release")
        if (scale != 0.0) & (stage == 1):
            start, last = places(i_row, k, first, first + TILES * R * T * V, T)
            base, q = scores(t, c)
            while tl.atomic_add(READY + row, 0, sem="acquire") < SEGMENTS:
                pass
            shift, highest, lowest = shift_and_extremes(parts, there, CANONICAL)
            y_high = tl.load(PARTS + row * SEGMENTS * NUMBERS_LEFT + FIRST + 3, cache_modifier=".cg")
            y_low = tl.load(PARTS + row * SEGMENTS * NUMBERS_LEFT + FIRST + 4, cache_modifier=".cg")
            nx = bound_of(highest, lowest, NUMBERS, c, to_base_2, ANCHOR)
            ny = bound_of(y_high, y_low, NUMBERS, c, to_base_2, ANCHOR)
            at_level = tl.exp2(base * to_base_2 - ny)
            e = tl.exp2(base * to_base_2 - nx)
            number = (tl.minimum(first + TILES * R * T * V, classes) - first - (last - start)).to(tl.float32)
            again = False
            if q == 0.0:
                dx_, rise, way, s2_, largest, tx_ = tail_moments(
                    x_row, i_row, start, last, first, some, classes, shift, t, base, c, per_gamma, to_base_2, nx, e,
                    FLAT, CANONICAL, R, T, V,
                )  # fmt: skip
                # Q rises on either side, so that nothing cancels but what is small
                s2_ = dx_ - e * (rise * per_gamma)
                again = s2_ < LEFT * dx_
                dx_ += number * e
            else:
                if tl.abs(q) * per_gamma > CALM * CALM:
                    dx_, rise, way, s2_, largest, tx_ = tail_moments(
                        x_row, i_row, start, last, first, some, classes, shift, t, base, c, per_gamma, to_base_2, nx, e,
                        SLOPED, CANONICAL, R, T, V,
                    )  # fmt: skip
                    s2_ = (dx_ - number * e) - e * (rise * per_gamma)
                    again = s2_ < LEFT * (number * e + dx_)
                else:
                    dx_, rise, way, s2_, largest, tx_ = tail_moments(
                        x_row, i_row, start, last, first, some, classes, shift, t, base, c, per_gamma, to_base_2, nx, e,
                        SERIES, CANONICAL, R, T, V,
                    )  # fmt: skip
                    s2_ *= e
                    again = largest * per_gamma > CALM
                way *= q
                again = again | (rise - way < LEFT * (number * tl.abs(base) + tl.abs(way)))
            rest = rise - way
            if again:
                # what is left of a difference may be rounding
                rest, s2_ = exact_moments(
                    x_row, i_row, start, last, first, some, classes, shift, t, q, c, per_gamma, to_base_2, nx, e,
                    R, T, V,
                )  # fmt: skip
                rise = way + rest
            tl.store(part + 7, rise)
            tl.store(part + 8, s2_)
            if segment == 0:
                tl.store(part + 9, nx)
                tl.store(part + 10, ny)
            rest *= at_level
            dy_ = 0.0
            s1_ = 0.0
            s2_ = 0.0
            ty_ = 0.0
            if start < last:
                dx = tl.zeros([T], tl.float32)
                tx = tl.zeros([T], tl.float32)
                dy = tl.zeros([T], tl.float32)
                s1 = tl.zeros([T], tl.float32)
                s2 = tl.zeros([T], tl.float32)
                s3 = tl.zeros([T], tl.float32)
                ty = tl.zeros([T], tl.float32)
                for p in range(start, last, T):
                    place = p + lane
                    here = place < last
                    index = tl.load(i_row + place, mask=here, other=0)
                    x = tl.where(here, tl.load(x_row + index, mask=here, other=0.0).to(tl.float32) - shift, t)
                    y = tl.where(here, tl.load(y_row + place, mask=here, other=0.0), t)
                    tl.store(gathered + place, x, mask=here)
                    u = x - y
                    at, top, qy, qx, remainder = move(y, u, x, c)
                    ex = tl.where(here, tl.exp2(top * to_base_2 - nx), 0.0)
                    ey = tl.where(here, tl.exp2(at * to_base_2 - ny), 0.0)
                    w = (u * qy + remainder) * per_gamma - (nx - ny) * LN2
                    second = tl.where(tl.abs(w) <= 1.0, ey * phi_series(w), ex - (ey * w + ey))
                    dx += tile_sum(ex)
                    tx += tile_sum(ex * qx)
                    dy += tile_sum(ey)
                    s1 += tile_sum(ey * w)
                    s2 += tile_sum(second)
                    s3 += tile_sum(ey * remainder)
                    ty += tile_sum(ey * qy)
                dx_ += tl.sum(dx, axis=0)
                tx_ += tl.sum(tx, axis=0)
                dy_ = tl.sum(dy, axis=0)
                s1_ = tl.sum(s1, axis=0)
                s2_ = tl.sum(s2, axis=0)
                rest += tl.sum(s3, axis=0)
                ty_ = tl.sum(ty, axis=0)
            tl.store(part, dx_)
            tl.store(part + 1, dy_)
            tl.store(part + 2, s1_)
            tl.store(part + 3, s2_)
            tl.store(part + 4, rest)
            if CANONICAL:
                tl.store(part + 5, tx_)
                tl.store(part + 6, ty_)
            tl.debug_barrier()
            tl.atomic_add(READY + row, 1, sem="release")
        if stage == 2:
            g_row = GRADIENT + row * g_stride
            if scale == 0.0:
                if segment == 0:
                    tl.store(LOSS + row, 0.0)
                if WITH_GRADIENT:
                    for i in range(TILES):
                        o = first + i * (R * T * V) + tile
                        nothing = tl.zeros([R, T, V], tl.float32).to(GRADIENT.dtype.element_ty)
                        tl.store(g_row + o, nothing, mask=o < classes)
            elif WITH_GRADIENT or segment == 0:
                base, q = scores(t, c)
                while tl.atomic_add(READY + row, 0, sem="acquire") < 2 * SEGMENTS:
                    pass
                shift, _top, _bottom = shift_and_extremes(parts, there, CANONICAL)
                nx = tl.load(PARTS + row * SEGMENTS * NUMBERS_LEFT + 9, cache_modifier=".cg")
                ny = tl.load(PARTS + row * SEGMENTS * NUMBERS_LEFT + 10, cache_modifier=".cg")
                dx = total(parts, there)
                d_stored = total(parts + 1, there)
                at_level = tl.exp2(base * to_base_2 - ny)
                e_tail = at_level * (classes - k).to(tl.float32)
                dy = d_stored + e_tail
                if ANCHOR >= 0:
                    level = tl.load(NUMBERS + ANCHOR) * to_base_2
                    dx += tl.exp2(level - nx)
                    e_tail += tl.exp2(level - ny)
                    dy += tl.exp2(level - ny)
                lx = nx + tl.log2(dx)
                ly = ny + tl.log2(dy)
                if segment == 0:
                    loss = sparse_loss(
                        lx, ly, nx - ny, dy, e_tail, at_level * (total(parts + 7, there) * per_gamma),
                        total(parts + 8, there), d_stored, total(parts + 2, there), total(parts + 3, there),
                        total(parts + 4, there), gamma,
                    )  # fmt: skip
                    tl.store(LOSS + row, loss * scale)
                if WITH_GRADIENT:
                    lean = 0.0
                    if CANONICAL:
                        ty = total(parts + 6, there) + q * (at_level * (classes - k).to(tl.float32))
                        lean = total(parts + 5, there) / dx - ty / dy
                    at_tail = q * tl.exp2(base * to_base_2 - ly)
                    for i in tl.range(0, whole, loop_unroll_factor=UNROLL):
                        o = first + i * (R * T * V) + tile
                        x = tl.load(x_row + o, eviction_policy="evict_first").to(tl.float32) - shift
                        g = gradient_less(x, at_tail, lx, lean, c, to_base_2, CANONICAL) * scale
                        tl.store(g_row + o, g.to(GRADIENT.dtype.element_ty), cache_modifier=".cs")
                    for i in range(whole, some):
                        o = first + i * (R * T * V) + tile
                        here = o < classes
                        x = tl.where(here, tl.load(x_row + o, mask=here, other=0.0).to(tl.float32) - shift, t)
                        g = gradient_less(x, at_tail, lx, lean, c, to_base_2, CANONICAL) * scale
                        tl.store(g_row + o, g.to(GRADIENT.dtype.element_ty), mask=here)
                    start, last = places(i_row, k, first, first + TILES * R * T * V, T)
                    # stored classes are written once more, by other threads
                    tl.debug_barrier()
                    for p in range(start, last, T):
                        place = p + tl.arange(0, T)
                        here = place < last
                        index = tl.load(i_row + place, mask=here, other=0)
                        x = tl.load(gathered + place, mask=here, other=0.0, cache_modifier=".cg")
                        y = tl.load(y_row + place, mask=here, other=0.0)
                        x = tl.where(here, x, t)
                        y = tl.where(here, y, t)
                        at, qy = scores(y, c)
                        at_teacher = qy * tl.exp2(at * to_base_2 - ly)
                        g = gradient_less(x, at_teacher, lx, lean, c, to_base_2, CANONICAL) * scale
                        tl.store(g_row + index, g.to(GRADIENT.dtype.element_ty), mask=here)


@triton.jit
def gradient_less(x, there, lx, lean, c, to_base_2, CANONICAL: tl.constexpr):
    """q p at x less q p of the teacher; for canonical scores the sum of the row goes back through them."""
    top, q = scores(x, c)
    g = q * tl.exp2(top * to_base_2 - lx) - there
    if CANONICAL:
        g -= weight(x) * lean
    return g
