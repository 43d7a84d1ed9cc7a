"""Template of the kernel for rows of scores against teachers of which a few classes are stored.

The text below the mark comes after the one of :mod:`selmatch.kernels.gpu.rows` in generated files, and calls it.
All classes of a row that are not stored, its tail, have one teacher score t, so that the teacher costs no memory
traffic. Stages are those of long rows.

Sums are taken over all classes of the student, stored or not, of moves away from the tail: with log-scores b of the
teacher and z of the student less that of t, the weights of a row are K + sum (2^b - 1) and K + sum (2^z - 1). The loss
is log(1 + A) - M, where A is the difference of these two sums over the weight of the teacher, and M the mean of linear
moves, to which the tail adds q(t) sum (x - t) less what stored classes have of that sum. Most classes are in the tail,
and probabilities there are close to each other: A and M are as small as the loss is. Where they are not, and rounding
might show in their difference, the loss is computed again from moments, with the gradient.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from selmatch.kernels.gpu.functions import LN2, LOG2E, log1p_series
from selmatch.kernels.gpu.rows import (
    LOWEST,
    STATISTICS,
    gradient_of,
    kept,
    leave_moments,
    moment_terms,
    raw_taken_in,
    read,
    segment_at,
    tile_max,
    tile_offsets,
    tile_sum,
    wait_for,
    write_nothing,
)

constants: Any = None
rough: Any = None
scores: Any = None

# ------------------------------------------------------------------------------------------------------------- template

#: an index that no class has
NO_CLASS = tl.constexpr(2147483647)
#: tiles that are being read at a time: one tensor alone does not keep the memory busy
AHEAD = tl.constexpr(8)
#: the score of a class that is left out
NO_SCORE = tl.constexpr(-3.0e38)
#: sums of weights between these need no level but that of the tail
LEAST = tl.constexpr(1.0e-30)
MOST = tl.constexpr(1.0e30)
#: numbers that a segment leaves: of the student (level, weights, links, rises, moves), moments, raw scores; and in the
#: last segment of a row those of the stored classes (level, weights, rises, links, linear moves, sizes of these, moves)
TWO_MOMENTS = tl.constexpr(5)
RAW_SCORES = tl.constexpr(7)
STORED = tl.constexpr(9)


# -------------------------------------------------------------------------------------------------------- one tile each


@triton.jit
def rise_series(z):
    """2^z - 1 for |z| <= 1/4."""
    tail = (0.009618126643657668 * z + 0.055587433454110935) * z + 0.24022688304749384
    return z * (tail * z + 0.6931465309805979)


@triton.jit
def away_from_tail(
    x_row, o, here, shift, t, base, c, to_base_2, MASKED: tl.constexpr
):  # fmt: skip
    """Scores of a tile, their log-scores (in base 2, less that of the tail) and q."""
    x = read(x_row, o, here, MASKED, t + shift, "")
    x -= shift
    top, q = rough(x, c)
    return x, (top - base) * to_base_2, q


@triton.jit
def tail_taken_in(
    x_row, o, classes, shift, t, base, c, to_base_2, dx, tx, rises, moves,
    MASKED: tl.constexpr, CLIPPED: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Sums of each thread with one more tile: of weights, of q times weights, of weights less 1, of x - t.

    Where the scaling clips what is at the tail, no weight is below 1 and most are 1: the rises say all about weights,
    and linear moves are 0.
    """
    here = o < classes
    x, z, q = away_from_tail(x_row, o, here, shift, t, base, c, to_base_2, MASKED)
    e = tl.exp2(z)
    rise = e - 1.0
    if not CLIPPED:
        rise = tl.where(tl.abs(z) <= 0.25, rise_series(z), rise)
    if MASKED:
        x = tl.where(here, x, t)
        e = tl.where(here, e, 0.0)
        rise = tl.where(here, rise, 0.0)
    if not CLIPPED:
        dx += tile_sum(e)
        moves += tile_sum(x) - V * t
    tx += tile_sum(e * q)
    return dx, tx, rises + tile_sum(rise), moves


@triton.jit
def levelled_taken_in(
    x_row, o, classes, shift, t, base, c, to_base_2, m, dx, tx, MASKED: tl.constexpr
):  # fmt: skip
    """Sums of weights, and of q times weights, that have a level."""
    here = o < classes
    _x, z, q = away_from_tail(x_row, o, here, shift, t, base, c, to_base_2, MASKED)
    if MASKED:
        z = tl.where(here, z, LOWEST)
    n = tl.maximum(m, tile_max(z))
    e = tl.exp2(z - n[:, None])
    if MASKED:
        e = tl.where(here, e, 0.0)
    f = tl.exp2(m - n)
    return n, dx * f + tile_sum(e), tx * f + tile_sum(e * q)


@triton.jit
def tail_passed_on(
    x_row, g_row, o, classes, i_row, start, end, shift, t, lx, ly, scale, lean, c, per_gamma, s1, s2,
    MASKED: tl.constexpr, WITH_GRADIENT: tl.constexpr, WITH_MOMENTS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a tile of the tail times the scale, and take the tile into the moments.

    Stored classes, of which those from ``start`` to ``end`` are in the tile, are no part of the moments.
    """
    x = read(x_row, o, o < classes, MASKED, t + shift, "evict_first")
    x -= shift
    if WITH_GRADIENT:
        g = gradient_of(x, t, 0.0, lx, ly, lean, c, per_gamma * LOG2E, False, True) * scale
        if MASKED:
            tl.store(g_row + o, g.to(g_row.dtype.element_ty), mask=o < classes)
        else:
            tl.store(g_row + o, g.to(g_row.dtype.element_ty), cache_modifier=".cs")
    if WITH_MOMENTS:
        # scores are marked, since a mask would change hands between threads
        x = tl.where(o < classes, x, NO_SCORE)
        for p in range(start, end):
            x = tl.where(o == tl.load(i_row + p).to(tl.int32), NO_SCORE, x)
        here = x != NO_SCORE
        y = tl.full(x.shape, t, tl.float32)
        _ex, _ey, first, second = moment_terms(tl.where(here, x, t), y, 0.0, lx, ly, c, per_gamma, False)
        s1 += tile_sum(tl.where(here, first, 0.0))
        s2 += tile_sum(tl.where(here, second, 0.0))
    return s1, s2


# ---------------------------------------------------------------------------------------------------------- one segment


@triton.jit
def student_sums(
    x_row, first, whole, some, classes, shift, t, base, c, to_base_2,
    CLIPPED: tl.constexpr, T: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """The sums of :func:`tail_taken_in` over a segment."""
    tile = tile_offsets(T, V)
    dx = tl.zeros([T], tl.float32)
    tx = tl.zeros([T], tl.float32)
    rises = tl.zeros([T], tl.float32)
    moves = tl.zeros([T], tl.float32)
    for i in tl.range(0, whole, num_stages=AHEAD):
        dx, tx, rises, moves = tail_taken_in(
            x_row, first + i * (T * V) + tile, classes, shift, t, base, c, to_base_2, dx, tx, rises, moves,
            False, CLIPPED, V,
        )  # fmt: skip
    for i in range(whole, some):
        dx, tx, rises, moves = tail_taken_in(
            x_row, first + i * (T * V) + tile, classes, shift, t, base, c, to_base_2, dx, tx, rises, moves,
            True, CLIPPED, V,
        )  # fmt: skip
    return tl.sum(dx, axis=0), tl.sum(tx, axis=0), tl.sum(rises, axis=0), tl.sum(moves, axis=0)


@triton.jit
def levelled_sums(
    x_row, first, some, classes, shift, t, base, c, to_base_2, T: tl.constexpr, V: tl.constexpr
):  # fmt: skip
    """A level, and sums of weights and of q times weights over a segment."""
    tile = tile_offsets(T, V)
    m = tl.full([T], LOWEST, tl.float32)
    dx = tl.zeros([T], tl.float32)
    tx = tl.zeros([T], tl.float32)
    for i in range(0, some):
        m, dx, tx = levelled_taken_in(
            x_row, first + i * (T * V) + tile, classes, shift, t, base, c, to_base_2, m, dx, tx, True
        )  # fmt: skip
    top = tl.max(m, axis=0)
    f = tl.exp2(m - top)
    return top, tl.sum(dx * f, axis=0), tl.sum(tx * f, axis=0)


@triton.jit
def leave_stored_statistics(
    part, x_row, i_row, y_row, gathered, k, shift, t, base, c, per_gamma, T: tl.constexpr
):  # fmt: skip
    """Keep the student's scores of the stored classes of a row, and leave their statistics."""
    to_base_2 = per_gamma * LOG2E
    level = tl.zeros([T], tl.float32)
    for p in range(0, k, T):
        place = p + tl.arange(0, T)
        above, _q = scores(read(y_row, place, place < k, True, t, ""), c)
        level = tl.maximum(level, (above - base) * to_base_2)
    level = tl.max(level, axis=0)
    at_tail = tl.exp2(-level)
    weights = tl.zeros([T], tl.float32)
    rises = tl.zeros([T], tl.float32)
    links = tl.zeros([T], tl.float32)
    means = tl.zeros([T], tl.float32)
    sizes = tl.zeros([T], tl.float32)
    moves = tl.zeros([T], tl.float32)
    for p in range(0, k, T):
        place = p + tl.arange(0, T)
        here = place < k
        x = read(x_row, tl.load(i_row + place, mask=here, other=0), here, True, t + shift, "")
        y = read(y_row, place, here, True, t, "")
        x -= shift
        tl.store(gathered + place, x, mask=here)
        above, q = scores(y, c)
        z = (above - base) * to_base_2
        e = tl.where(here, tl.exp2(z - level), 0.0)
        rise = tl.where(here, tl.where(tl.abs(z) <= 0.25, at_tail * rise_series(z), e - at_tail), 0.0)
        mean = e * ((x - y) * per_gamma * q)
        weights += e
        rises += rise
        links += e * q
        means += mean
        sizes += tl.abs(rise) + tl.abs(mean)
        moves += tl.where(here, x - t, 0.0)
    tl.store(part + STORED, level)
    tl.store(part + STORED + 1, tl.sum(weights, axis=0))
    tl.store(part + STORED + 2, tl.sum(rises, axis=0))
    tl.store(part + STORED + 3, tl.sum(links, axis=0))
    tl.store(part + STORED + 4, tl.sum(means, axis=0))
    tl.store(part + STORED + 5, tl.sum(sizes, axis=0))
    tl.store(part + STORED + 6, tl.sum(moves, axis=0))
    # other threads, of other programs, will read what was kept
    tl.debug_barrier()


@triton.jit
def stored_before(i_row, k, first, T: tl.constexpr):
    """How many stored classes come before a segment."""
    found = tl.zeros([T], tl.int32)
    for p in range(0, k, T):
        place = p + tl.arange(0, T)
        index = tl.load(i_row + place, mask=place < k, other=NO_CLASS).to(tl.int32)
        found += (index < first).to(tl.int32)
    return tl.sum(found, axis=0)


@triton.jit
def next_stored(i_row, j, k, end):
    """The first stored class from ``end`` on, of those from the j-th on."""
    while tl.load(i_row + j, mask=j < k, other=NO_CLASS).to(tl.int32) < end:
        j += 1
    return j


# -------------------------------------------------------------------------------------------------------------- one row


@triton.jit
def raw_level(parts, there):
    """The log-sum-exp of the raw scores of a row."""
    m = kept(parts, RAW_SCORES, there, LOWEST)
    d = kept(parts, RAW_SCORES + 1, there, 0.0)
    top = tl.max(m, axis=0)
    return (top + tl.log2(tl.sum(d * tl.exp2(m - top), axis=0))) * LN2


@triton.jit
def log_of_sum(a, b):
    """log2(2^a + 2^b)."""
    top = tl.maximum(a, b)
    return top + tl.log2(tl.exp2(a - top) + tl.exp2(b - top))


@triton.jit
def value_from_sums(growth, rises, apart, mean, size, rounding):
    """A loss over gamma, log(1 + growth) - mean, and whether rounding might show in it.

    The student's ``rises`` are part of the growth, ``size`` is that of all other parts of growth and mean, ``rounding``
    that of log-scores. Large growths are taken from the distance of the log-sums-exp.
    """
    near = tl.abs(growth) <= 0.5
    value = tl.where(near, log1p_series(tl.where(near, growth, 0.0)), apart) - mean
    size += tl.where(near, tl.abs(rises), 1.0 + tl.abs(apart))
    # not a number is no value to be trusted
    return value, (value > 1e-3 * size + 1e-4 * rounding) == 0


@triton.jit(do_not_specialize=["rows", "lag"])
def sparse_rows(
    S_HAT, INDICES, TEACHER, TAIL, GRADIENT, LOSS, SCALE, NUMBERS, GATHERED, PARTS, READY,
    rows, classes, k, x_stride, g_stride, scale_stride, lag,
    GAMMA: tl.constexpr, ANCHOR: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    SEGMENTS: tl.constexpr, SLOTS: tl.constexpr, TILES: tl.constexpr, T: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Losses, and gradients, of rows in programs of one stage of one segment each."""
    STAGES: tl.constexpr = 3
    pid = tl.program_id(0)
    stage = pid % STAGES
    item = pid // STAGES - stage * lag
    if (item >= 0) & (item < rows * SEGMENTS):
        row, segment, first, some, whole, part, parts, there = segment_at(
            item, classes, PARTS, SEGMENTS, SLOTS, TILES, T, V
        )  # fmt: skip
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
        tile = tile_offsets(T, V)
        if (scale != 0.0) & (stage < STAGES - 1):
            if stage == 0:
                m = tl.full([T], LOWEST, tl.float32)
                d = tl.zeros([T], tl.float32)
                for i in tl.range(0, whole, num_stages=AHEAD):
                    o = first + i * (T * V) + tile
                    m, d = raw_taken_in(x_row, o, o, m, d, False)
                for i in range(whole, some):
                    o = first + i * (T * V) + tile
                    m, d = raw_taken_in(x_row, o, o < classes, m, d, True)
                level = tl.max(m, axis=0)
                tl.store(part + RAW_SCORES, level)
                tl.store(part + RAW_SCORES + 1, tl.sum(d * tl.exp2(m - level), axis=0))
            else:
                wait_for(READY + row, SEGMENTS)
                shift = raw_level(parts, there)
                base, q = rough(t, c)
                _base, q_below = rough(t - 1.0, c)
                level = 0.0
                if (q == 0.0) & (q_below == 0.0):
                    dx, tx, rises, moves = student_sums(
                        x_row, first, whole, some, classes, shift, t, base, c, to_base_2, True, T, V
                    )  # fmt: skip
                    dx = rises + tl.minimum(classes - first, TILES * T * V).to(tl.float32)
                else:
                    dx, tx, rises, moves = student_sums(
                        x_row, first, whole, some, classes, shift, t, base, c, to_base_2, False, T, V
                    )  # fmt: skip
                if ((dx > LEAST) & (dx < MOST)) == 0:
                    level, dx, tx = levelled_sums(
                        x_row, first, some, classes, shift, t, base, c, to_base_2, T, V
                    )  # fmt: skip
                tl.store(part, level)
                tl.store(part + 1, dx)
                tl.store(part + 2, tx)
                tl.store(part + 3, rises)
                tl.store(part + 4, moves)
                if segment == SEGMENTS - 1:
                    leave_stored_statistics(
                        part, x_row, i_row, y_row, gathered, k, shift, t, base, c, per_gamma, T
                    )  # fmt: skip
            tl.atomic_add(READY + row, 1, sem="release")
        if stage == STAGES - 1:
            g_row = GRADIENT + row * g_stride
            if scale == 0.0:
                write_nothing(LOSS + row, g_row, segment, first, some, classes, WITH_GRADIENT, T, V)
            else:
                wait_for(READY + row, (STAGES - 1) * SEGMENTS)
                shift = raw_level(parts, there)
                base, q = rough(t, c)
                tail = (classes - k).to(tl.float32)
                # levels of the student and of the teacher, less that of the tail
                mx = kept(parts, 0, there, LOWEST)
                top = tl.max(mx, axis=0)
                fx = tl.exp2(mx - top)
                lx = top + tl.log2(tl.sum(kept(parts, 1, there, 0.0) * fx, axis=0))
                stored = PARTS + (row * SEGMENTS + SEGMENTS - 1) * STATISTICS + STORED
                level = kept(stored, 0, None, None)
                weights = kept(stored, 1, None, None)
                ly = level + tl.log2(weights + tail * tl.exp2(-level))
                if ANCHOR >= 0:
                    anchor = (tl.load(NUMBERS + ANCHOR) - base) * to_base_2
                    lx = log_of_sum(lx, anchor)
                    ly = log_of_sum(ly, anchor)
                at_tail = tl.exp2(-ly)
                at_level = tl.exp2(level - ly)
                rises = at_tail * tl.sum(kept(parts, 3, there, 0.0), axis=0)
                slope = at_tail * q * per_gamma
                moves = slope * tl.sum(kept(parts, 4, there, 0.0), axis=0)
                moves_stored = slope * kept(stored, 6, None, None)
                value, doubtful = value_from_sums(
                    rises - at_level * kept(stored, 2, None, None), rises, (lx - ly) * LN2,
                    (moves - moves_stored) + at_level * kept(stored, 4, None, None),
                    tl.abs(moves) + tl.abs(moves_stored) + at_level * kept(stored, 5, None, None),
                    tail * at_tail * tl.abs(base) * per_gamma,
                )  # fmt: skip
                # far below an anchor 2^(top - lx) is 0 in single precision, and this product is not
                half = tl.exp2(0.5 * (top - lx))
                links = (tl.sum(kept(parts, 2, there, 0.0) * fx, axis=0) * half) * half
                lean = links - (at_level * kept(stored, 3, None, None) + tail * at_tail * q)
                lx += base * to_base_2
                ly += base * to_base_2
                if (segment == 0) & (not doubtful):
                    tl.store(LOSS + row, gamma * value * scale)
                s1 = tl.zeros([T], tl.float32)
                s2 = tl.zeros([T], tl.float32)
                if doubtful:
                    j = stored_before(i_row, k, first, T)
                    for i in range(0, some):
                        o = first + i * (T * V) + tile
                        start = j
                        j = next_stored(i_row, j, k, first + (i + 1) * (T * V))
                        s1, s2 = tail_passed_on(
                            x_row, g_row, o, classes, i_row, start, j, shift, t, lx, ly, scale, lean, c, per_gamma,
                            s1, s2, True, WITH_GRADIENT, True,
                        )  # fmt: skip
                    if segment == SEGMENTS - 1:
                        for p in range(0, k, T):
                            place = p + tl.arange(0, T)
                            here = place < k
                            x = kept(gathered, place, here, t)
                            y = read(y_row, place, here, True, t, "")
                            _ex, _ey, one, two = moment_terms(x, y, 0.0, lx, ly, c, per_gamma, False)
                            s1 += tl.where(here, one, 0.0)
                            s2 += tl.where(here, two, 0.0)
                    leave_moments(
                        part, parts, there, s1, s2, READY + row, STAGES * SEGMENTS, LOSS + row, gamma, scale, lx, ly,
                        NUMBERS, to_base_2, ANCHOR, TWO_MOMENTS,
                    )  # fmt: skip
                elif WITH_GRADIENT:
                    for i in tl.range(0, whole, num_stages=AHEAD):
                        o = first + i * (T * V) + tile
                        tail_passed_on(
                            x_row, g_row, o, classes, i_row, 0, 0, shift, t, lx, ly, scale, lean, c, per_gamma, s1, s2,
                            False, True, False,
                        )  # fmt: skip
                    for i in range(whole, some):
                        o = first + i * (T * V) + tile
                        tail_passed_on(
                            x_row, g_row, o, classes, i_row, 0, 0, shift, t, lx, ly, scale, lean, c, per_gamma, s1, s2,
                            True, True, False,
                        )  # fmt: skip
                if WITH_GRADIENT:
                    # stored classes are written once more, by other threads
                    tl.debug_barrier()
                    for p in range(0, k, T):
                        place = p + tl.arange(0, T)
                        index = tl.load(i_row + place, mask=place < k, other=NO_CLASS).to(tl.int32)
                        here = (index >= first) & (index < first + TILES * T * V) & (place < k)
                        x = kept(gathered, place, here, t)
                        y = read(y_row, place, here, True, t, "")
                        g = gradient_of(x, y, 0.0, lx, ly, lean, c, to_base_2, False, True) * scale
                        tl.store(g_row + index, g.to(GRADIENT.dtype.element_ty), mask=here)
