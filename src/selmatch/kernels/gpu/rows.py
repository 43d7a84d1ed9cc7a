"""Template of the kernels for rows of scores: composite Softmax losses over many classes.

The text below the mark is copied into generated files, next to the functions of one scaling: ``constants`` (its
parameters), ``scores`` (Q and q), ``rough`` (the same, q without care close to 0), ``move`` (both at both ends, and the
remainder of Q), ``weight`` (e^z) and ``point`` (a harmless score). Log-scores are in base 2, since that is what the
hardware's exponentials take.

The value of a loss is first taken as a difference of log-sums-exp. Where that is next to nothing, and rounding might
show in it, it is computed again from moments that do not cancel.

Long rows are cut into segments, and the work on a segment into stages: statistics of the raw scores (only where those
are to become log-probabilities), statistics of the log-scores, gradient. Every stage of every segment is one program.
Programs start in the order of their number; the next stage of a segment comes ``lag`` segments after the one before,
when all programs that it waits for have been started and, nearly always, have ended. By then few enough other segments
may have been read for this one to be still in the cache.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from selmatch.kernels.gpu.functions import LN2, LOG2E, halves, inverse, log1p, phi_series, scaled_phi

constants: Any = None
scores: Any = None
rough: Any = None
move: Any = None
weight: Any = None
point: Any = None

# ------------------------------------------------------------------------------------------------------------- template

#: the log-score of a class that is not there
LOWEST = tl.constexpr(-1.0e30)
#: numbers that a segment leaves for the stages after it: those of its raw scores begin at RAW, its moments at MOMENTS
STATISTICS = tl.constexpr(16)
MOMENTS = tl.constexpr(8)
RAW = tl.constexpr(12)


# ---------------------------------------------------------------------------------------------------------- statistics


@triton.jit
def linear_move(x, y, qy, nx, ny, per_gamma):
    """The linear part of the move of a log-score, beyond the move of the levels."""
    return (x - y) * per_gamma * qy - (nx - ny) * LN2


@triton.jit
def merged(mx, my, dx, dy, s1, tx, ty):
    """The statistics of many parts, of all together: levels, sums of weights, of linear moves, of links."""
    top = tl.max(mx, axis=0)
    base = tl.max(my, axis=0)
    fx = tl.exp2(mx - top)
    fy = tl.exp2(my - base)
    s1 = fy * (s1 + ((mx - top) - (my - base)) * LN2 * dy)
    return (
        top, base, tl.sum(dx * fx, axis=0), tl.sum(dy * fy, axis=0), tl.sum(s1, axis=0), tl.sum(tx * fx, axis=0),
        tl.sum(ty * fy, axis=0),
    )  # fmt: skip


@triton.jit
def difference_of(dx, dy, s1, top, base):
    """A loss over gamma as a difference, and whether it is so small that rounding might show.

    Log-scores of the size of the levels are rounded, and so are logarithms and the mean of linear moves.
    """
    share = inverse(dy)
    mean = s1 * share
    value = tl.log2(dx * share) * LN2 - mean
    return value, value < 1e-4 * (tl.abs(top) + tl.abs(base)) + 1e-3 * (1.0 + tl.abs(mean))


@triton.jit
def moment_terms(x, y, prior, nx, ny, c, per_gamma, HAS_PRIOR: tl.constexpr):
    """Weights at both ends, and the terms of two moments that do not cancel.

    With a the linear part and w the whole of a move, both beyond the move of the levels, they are e a and
    e (e^w - 1 - a).
    """
    u = x - y
    base, top, qy, _qx, rest = move(y, u, x, c)
    if HAS_PRIOR:
        top += prior
        base += prior
    rest *= per_gamma
    ex = tl.exp2(top * (per_gamma * LOG2E) - nx)
    ey = tl.exp2(base * (per_gamma * LOG2E) - ny)
    a = linear_move(x, y, qy, nx, ny, per_gamma)
    w = a + rest
    first = ey * a
    return ex, ey, first, tl.where(tl.abs(w) <= 1.0, ey * (phi_series(w) + rest), ex - (ey + first))


@triton.jit
def value_of(dx, dy, s1, s2):
    """A loss over gamma, log E e^w - E a, from sums of weights and moments: accurate close to 0 too."""
    share = inverse(dy)
    s1 *= share
    calm = tl.minimum(tl.maximum(s1, -1.0), 1.0)
    bend = phi_series(-calm)
    excess = (1.0 - calm + bend) * (s2 * share) + (bend - calm) * calm + bend
    near = log1p(tl.maximum(excess, 0.0, propagate_nan=tl.PropagateNan.ALL))
    return tl.where(calm == s1, near, tl.log2(dx * share) * LN2 - s1)


# -------------------------------------------------------------------------------------------------------------- reading


@triton.jit
def read(POINTER, o, here, MASKED: tl.constexpr, instead, POLICY: tl.constexpr):
    """Scores in single precision."""
    if MASKED:
        z = tl.load(POINTER + o, mask=here, other=0.0, eviction_policy=POLICY).to(tl.float32)
        return tl.where(here, z, instead)
    else:
        return tl.load(POINTER + o, eviction_policy=POLICY).to(tl.float32)


@triton.jit
def present(o, classes, MASK, HAS_MASK: tl.constexpr):
    here = o < classes
    if HAS_MASK:
        here = here & (tl.load(MASK + o, mask=here, other=0) != 0)
    return here


@triton.jit
def prior_of(PRIOR, o, here, HAS_PRIOR: tl.constexpr, MASKED: tl.constexpr):
    if HAS_PRIOR:
        if MASKED:
            return tl.load(PRIOR + o, mask=here, other=0.0)
        else:
            return tl.load(PRIOR + o)
    else:
        return 0.0


@triton.jit
def tile_max(x):
    """The maximum of what each thread has of a tile."""
    return tl.max(x, axis=1)


@triton.jit
def tile_sum(x):
    return tl.sum(x, axis=1)


# ----------------------------------------------------------------------------------------------- one tile of long rows


@triton.jit
def raw_taken_in(POINTER, o, here, m, d, MASKED: tl.constexpr):
    """Maximum (of scores times log2 e) and sum of 2^(that - maximum) of each thread with one more tile."""
    z = read(POINTER, o, here, MASKED, LOWEST, "")
    n = tl.maximum(m, tile_max(z) * LOG2E)
    return n, d * tl.exp2(m - n) + tile_sum(tl.exp2(z * LOG2E - n[:, None]))


@triton.jit
def pair_at(
    x_row, y_row, m_row, o, classes, x_shift, y_shift, c,
    MASKED: tl.constexpr, HAS_MASK: tl.constexpr, CANONICAL: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """A tile of both scores, less their log-sums-exp if they are canonical, and which of them are there."""
    here = present(o, classes, m_row, HAS_MASK)
    harmless = point(c)
    x = read(x_row, o, here, MASKED, harmless + x_shift, POLICY)
    y = read(y_row, o, here, MASKED, harmless + y_shift, POLICY)
    if CANONICAL:
        x -= x_shift
        y -= y_shift
    return x, y, here


@triton.jit
def taken_in(
    x_row, y_row, m_row, PRIOR, o, classes, x_shift, y_shift, c, per_gamma, mx, my, dx, dy, s1, tx, ty,
    MASKED: tl.constexpr, HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr,
):  # fmt: skip
    """The statistics of each thread with one more tile."""
    x, y, here = pair_at(
        x_row, y_row, m_row, o, classes, x_shift, y_shift, c, MASKED, HAS_MASK, CANONICAL, ""
    )  # fmt: skip
    top, qx = rough(x, c)
    base, qy = rough(y, c)
    if HAS_PRIOR:
        prior = prior_of(PRIOR, o, here, HAS_PRIOR, MASKED)
        top += prior
        base += prior
    if MASKED:
        top = tl.where(here, top, LOWEST)
        base = tl.where(here, base, LOWEST)
    to_base_2 = per_gamma * LOG2E
    nx = tl.maximum(mx, tile_max(top) * to_base_2)
    ny = tl.maximum(my, tile_max(base) * to_base_2)
    ex = tl.exp2(top * to_base_2 - nx[:, None])
    ey = tl.exp2(base * to_base_2 - ny[:, None])
    if MASKED:
        ex = tl.where(here, ex, 0.0)
        ey = tl.where(here, ey, 0.0)
    first = ey * linear_move(x, y, qy, nx[:, None], ny[:, None], per_gamma)
    fx = tl.exp2(mx - nx)
    fy = tl.exp2(my - ny)
    s1 = fy * (s1 + ((mx - nx) - (my - ny)) * LN2 * dy)
    if CANONICAL:
        tx = tx * fx + tile_sum(ex * qx)
        ty = ty * fy + tile_sum(ey * qy)
    return nx, ny, dx * fx + tile_sum(ex), dy * fy + tile_sum(ey), s1 + tile_sum(first), tx, ty


@triton.jit
def gradient_of(
    x, y, prior, lx, ly, lean, c, to_base_2, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr
):  # fmt: skip
    """q p at x minus q p at y, with log-sums-exp lx and ly.

    For canonical scores the sum of the row, ``lean``, goes back through the log-probabilities.
    """
    top, qx = scores(x, c)
    base, qy = scores(y, c)
    if HAS_PRIOR:
        top += prior
        base += prior
    g = qx * tl.exp2(top * to_base_2 - lx) - qy * tl.exp2(base * to_base_2 - ly)
    if CANONICAL:
        g -= weight(x) * lean
    return g


@triton.jit
def passed_on(
    x_row, y_row, g_row, m_row, PRIOR, o, classes, x_shift, y_shift, lx, ly, scale, lean, c, per_gamma, s1, s2,
    MASKED: tl.constexpr, HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr,
    WITH_GRADIENT: tl.constexpr, WITH_MOMENTS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a tile times the scale, and take the tile into the moments."""
    x, y, here = pair_at(
        x_row, y_row, m_row, o, classes, x_shift, y_shift, c, MASKED, HAS_MASK, CANONICAL, "evict_first"
    )  # fmt: skip
    prior = prior_of(PRIOR, o, here, HAS_PRIOR, MASKED)
    if WITH_MOMENTS:
        _ex, _ey, first, second = moment_terms(x, y, prior, lx, ly, c, per_gamma, HAS_PRIOR)
        if MASKED:
            first = tl.where(here, first, 0.0)
            second = tl.where(here, second, 0.0)
        s1 += tile_sum(first)
        s2 += tile_sum(second)
    if WITH_GRADIENT:
        g = gradient_of(x, y, prior, lx, ly, lean, c, per_gamma * LOG2E, HAS_PRIOR, CANONICAL) * scale
        if MASKED:
            tl.store(g_row + o, tl.where(here, g, 0.0).to(g_row.dtype.element_ty), mask=o < classes)
        else:
            tl.store(g_row + o, g.to(g_row.dtype.element_ty), cache_modifier=".cs")
    return s1, s2


# ------------------------------------------------------------------------------------------------------------ long rows


@triton.jit
def segment_at(
    item, classes, PARTS,
    SEGMENTS: tl.constexpr, SLOTS: tl.constexpr, TILES: tl.constexpr, T: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Row and number of a segment, its first class, its tiles with any class and those of them where all are there;
    where it leaves its numbers, where all segments of its row do, and which of these places are taken.
    """
    row = (item // SEGMENTS).to(tl.int64)
    segment = item % SEGMENTS
    first = segment * (TILES * T * V)
    some = tl.minimum((classes - first + T * V - 1) // (T * V), TILES)
    whole = tl.minimum((classes - first) // (T * V), TILES)
    slot = tl.arange(0, SLOTS)
    parts = PARTS + (row * SEGMENTS + slot) * STATISTICS
    return row, segment, first, some, whole, PARTS + item.to(tl.int64) * STATISTICS, parts, slot < SEGMENTS


@triton.jit
def tile_offsets(T: tl.constexpr, V: tl.constexpr):
    """The places of a tile: V neighbours for each of T threads."""
    return tl.arange(0, T)[:, None] * V + tl.arange(0, V)[None, :]


@triton.jit
def wait_for(ready, programs):
    """Wait until so many programs of a row have ended."""
    while tl.atomic_add(ready, 0, sem="acquire") < programs:
        pass


@triton.jit
def write_nothing(
    loss, g_row, segment, first, some, classes, WITH_GRADIENT: tl.constexpr, T: tl.constexpr, V: tl.constexpr
):  # fmt: skip
    """The loss and gradient of a row that does not count."""
    if segment == 0:
        tl.store(loss, 0.0)
    if WITH_GRADIENT:
        for t in range(0, some):
            o = first + t * (T * V) + tile_offsets(T, V)
            tl.store(g_row + o, tl.zeros([T, V], tl.float32).to(g_row.dtype.element_ty), mask=o < classes)


@triton.jit
def kept(parts, place, there, nothing):
    """A number of all segments of a row, which other programs have left."""
    return tl.load(parts + place, mask=there, other=nothing, cache_modifier=".cg")


@triton.jit
def raw_levels(parts, there):
    """Log-sums-exp of the raw scores of a row."""
    mx = kept(parts, RAW, there, LOWEST)
    my = kept(parts, RAW + 1, there, LOWEST)
    dx = kept(parts, RAW + 2, there, 0.0)
    dy = kept(parts, RAW + 3, there, 0.0)
    top = tl.max(mx, axis=0)
    base = tl.max(my, axis=0)
    x_level = (top + tl.log2(tl.sum(dx * tl.exp2(mx - top), axis=0))) * LN2
    return x_level, (base + tl.log2(tl.sum(dy * tl.exp2(my - base), axis=0))) * LN2


@triton.jit
def row_statistics(
    parts, there, NUMBERS, to_base_2, ANCHOR: tl.constexpr, SEGMENTS: tl.constexpr, SLOTS: tl.constexpr
):  # fmt: skip
    """The statistics of a row from those of its segments, and of the class that is always there."""
    mx = kept(parts, 0, there, LOWEST)
    my = kept(parts, 1, there, LOWEST)
    dx = kept(parts, 2, there, 0.0)
    dy = kept(parts, 3, there, 0.0)
    if ANCHOR >= 0:
        level = tl.load(NUMBERS + ANCHOR) * to_base_2
        anchor = tl.arange(0, SLOTS) == SEGMENTS
        mx = tl.where(anchor, level, mx)
        my = tl.where(anchor, level, my)
        dx = tl.where(anchor, 1.0, dx)
        dy = tl.where(anchor, 1.0, dy)
    return merged(
        mx, my, dx, dy, kept(parts, 4, there, 0.0), kept(parts, 5, there, 0.0), kept(parts, 6, there, 0.0)
    )  # fmt: skip


@triton.jit
def anchor_terms(level, mx, my):
    """Weights of the class that is always there, and its terms of the moments: it does not move."""
    ax = tl.exp2(level - mx)
    ay = tl.exp2(level - my)
    a = (my - mx) * LN2
    return ax, ay, ay * a, scaled_phi(ay, ax, a)


@triton.jit
def leave_moments(
    part, parts, there, s1, s2, ready, programs, loss, gamma, scale, lx, ly, NUMBERS, to_base_2,
    ANCHOR: tl.constexpr, PLACE: tl.constexpr,
):  # fmt: skip
    """Leave the moments of a segment; the last one of a row, of so many programs, has those of all, and the loss."""
    tl.store(part + PLACE, tl.sum(s1, axis=0))
    tl.store(part + PLACE + 1, tl.sum(s2, axis=0))
    if tl.atomic_add(ready, 1, sem="acq_rel") == programs - 1:
        all_1 = tl.sum(kept(parts, PLACE, there, 0.0), axis=0)
        all_2 = tl.sum(kept(parts, PLACE + 1, there, 0.0), axis=0)
        if ANCHOR >= 0:
            _ax, _ay, a_1, a_2 = anchor_terms(tl.load(NUMBERS + ANCHOR) * to_base_2, lx, ly)
            all_1 += a_1
            all_2 += a_2
        tl.store(loss, gamma * value_of(1.0, 1.0, all_1, all_2) * scale)


@triton.jit(do_not_specialize=["rows", "lag"])
def long_rows(
    S_HAT, S, GRADIENT, LOSS, SCALE, NUMBERS, MASK, PRIOR, PARTS, READY,
    rows, classes, x_stride, y_stride, g_stride, m_stride, scale_stride, lag,
    GAMMA: tl.constexpr, ANCHOR: tl.constexpr, HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr,
    CANONICAL: tl.constexpr, WITH_GRADIENT: tl.constexpr, SEGMENTS: tl.constexpr, SLOTS: tl.constexpr,
    TILES: tl.constexpr, T: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Losses, and gradients, of rows in programs of one stage of one segment each."""
    STAGES: tl.constexpr = 3 if CANONICAL else 2
    pid = tl.program_id(0)
    stage = pid % STAGES
    item = pid // STAGES - stage * lag
    if (item >= 0) & (item < rows * SEGMENTS):
        row, segment, first, some, whole, part, parts, there = segment_at(
            item, classes, PARTS, SEGMENTS, SLOTS, TILES, T, V
        )  # fmt: skip
        if HAS_MASK:
            whole = 0
        scale = tl.load(SCALE + row * scale_stride)
        c = constants(NUMBERS)
        gamma = tl.load(NUMBERS + GAMMA)
        per_gamma = 1.0 / gamma
        to_base_2 = per_gamma * LOG2E
        x_row = S_HAT + row * x_stride
        y_row = S + row * y_stride
        m_row = MASK + row * m_stride
        tile = tile_offsets(T, V)
        if (scale != 0.0) & (stage < STAGES - 1):
            if CANONICAL and stage == 0:
                level_x = tl.full([T], LOWEST, tl.float32)
                level_y = tl.full([T], LOWEST, tl.float32)
                sum_x = tl.zeros([T], tl.float32)
                sum_y = tl.zeros([T], tl.float32)
                for t in range(0, whole):
                    o = first + t * (T * V) + tile
                    level_x, sum_x = raw_taken_in(x_row, o, o, level_x, sum_x, False)
                    level_y, sum_y = raw_taken_in(y_row, o, o, level_y, sum_y, False)
                for t in range(whole, some):
                    o = first + t * (T * V) + tile
                    here = present(o, classes, m_row, HAS_MASK)
                    level_x, sum_x = raw_taken_in(x_row, o, here, level_x, sum_x, True)
                    level_y, sum_y = raw_taken_in(y_row, o, here, level_y, sum_y, True)
                raw_x = tl.max(level_x, axis=0)
                raw_y = tl.max(level_y, axis=0)
                tl.store(part + RAW, raw_x)
                tl.store(part + RAW + 1, raw_y)
                tl.store(part + RAW + 2, tl.sum(sum_x * tl.exp2(level_x - raw_x), axis=0))
                tl.store(part + RAW + 3, tl.sum(sum_y * tl.exp2(level_y - raw_y), axis=0))
            else:
                x_shift = 0.0
                y_shift = 0.0
                if CANONICAL:
                    wait_for(READY + row, SEGMENTS)
                    x_shift, y_shift = raw_levels(parts, there)
                mx = tl.full([T], LOWEST, tl.float32)
                my = tl.full([T], LOWEST, tl.float32)
                dx = tl.zeros([T], tl.float32)
                dy = tl.zeros([T], tl.float32)
                s1 = tl.zeros([T], tl.float32)
                tx = tl.zeros([T], tl.float32)
                ty = tl.zeros([T], tl.float32)
                for t in range(0, whole):
                    mx, my, dx, dy, s1, tx, ty = taken_in(
                        x_row, y_row, m_row, PRIOR, first + t * (T * V) + tile, classes, x_shift, y_shift, c,
                        per_gamma, mx, my, dx, dy, s1, tx, ty, False, False, HAS_PRIOR, CANONICAL,
                    )  # fmt: skip
                for t in range(whole, some):
                    mx, my, dx, dy, s1, tx, ty = taken_in(
                        x_row, y_row, m_row, PRIOR, first + t * (T * V) + tile, classes, x_shift, y_shift, c,
                        per_gamma, mx, my, dx, dy, s1, tx, ty, True, HAS_MASK, HAS_PRIOR, CANONICAL,
                    )  # fmt: skip
                top, base, dx_, dy_, s1_, tx_, ty_ = merged(mx, my, dx, dy, s1, tx, ty)
                tl.store(part, top)
                tl.store(part + 1, base)
                tl.store(part + 2, dx_)
                tl.store(part + 3, dy_)
                tl.store(part + 4, s1_)
                tl.store(part + 5, tx_)
                tl.store(part + 6, ty_)
            tl.atomic_add(READY + row, 1, sem="release")
        if stage == STAGES - 1:
            g_row = GRADIENT + row * g_stride
            if scale == 0.0:
                write_nothing(LOSS + row, g_row, segment, first, some, classes, WITH_GRADIENT, T, V)
            else:
                wait_for(READY + row, (STAGES - 1) * SEGMENTS)
                x_shift = 0.0
                y_shift = 0.0
                if CANONICAL:
                    x_shift, y_shift = raw_levels(parts, there)
                top, base, dx_, dy_, s1_, tx_, ty_ = row_statistics(
                    parts, there, NUMBERS, to_base_2, ANCHOR, SEGMENTS, SLOTS
                )  # fmt: skip
                lx = top + tl.log2(dx_)
                ly = base + tl.log2(dy_)
                lean = tx_ / dx_ - ty_ / dy_
                value, doubtful = difference_of(dx_, dy_, s1_, top, base)
                nobody = dy_ == 0.0
                if (segment == 0) & (nobody | (not doubtful)):
                    tl.store(LOSS + row, tl.where(nobody, 0.0, gamma * value * scale))
                s1 = tl.zeros([T], tl.float32)
                s2 = tl.zeros([T], tl.float32)
                if doubtful & (not nobody):
                    for t in range(0, whole):
                        s1, s2 = passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, scale, lean, c, per_gamma, s1, s2, False, False, HAS_PRIOR, CANONICAL,
                            WITH_GRADIENT, True,
                        )  # fmt: skip
                    for t in range(whole, some):
                        s1, s2 = passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, scale, lean, c, per_gamma, s1, s2, True, HAS_MASK, HAS_PRIOR, CANONICAL,
                            WITH_GRADIENT, True,
                        )  # fmt: skip
                    leave_moments(
                        part, parts, there, s1, s2, READY + row, STAGES * SEGMENTS, LOSS + row, gamma, scale, lx, ly,
                        NUMBERS, to_base_2, ANCHOR, MOMENTS,
                    )  # fmt: skip
                elif WITH_GRADIENT:
                    for t in range(0, whole):
                        passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, scale, lean, c, per_gamma, s1, s2, False, False, HAS_PRIOR, CANONICAL,
                            True, False,
                        )  # fmt: skip
                    for t in range(whole, some):
                        passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, scale, lean, c, per_gamma, s1, s2, True, HAS_MASK, HAS_PRIOR, CANONICAL,
                            True, False,
                        )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- short rows


# Tiles are [rows, PIECES, WIDTH]: pieces of neighbouring classes one above the other, so that a thread has scores of
# one row, where it can, and takes most of a sum alone.


@triton.jit
def classes_of(PIECES: tl.constexpr, WIDTH: tl.constexpr):
    """The classes of a tile."""
    return tl.arange(0, PIECES)[None, :, None] * WIDTH + tl.arange(0, WIDTH)[None, None, :]


@triton.jit
def to_rows(v):
    """One number of each row, for all its scores."""
    return v[:, None, None]


@triton.jit
def row_max(z):
    return tl.max(tl.max(z, axis=1), axis=1)


@triton.jit
def row_sum(z):
    return tl.sum(tl.sum(z, axis=1), axis=1)


@triton.jit
def rows_within(row, count, CLASSES: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr):
    """Where some rows have classes."""
    here = to_rows(row < count)
    if CLASSES < PIECES * WIDTH:
        here = here & (classes_of(PIECES, WIDTH) < CLASSES)
    return here


@triton.jit
def read_rows(
    Z, row, count, stride, CLASSES: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr, PAIRED: tl.constexpr
):  # fmt: skip
    """Numbers of some rows in single precision, and 0 where there are none."""
    if PAIRED and Z.dtype.element_ty == tl.bfloat16:
        place = to_rows(row).to(tl.int64) * (stride // 2) + classes_of(PIECES, WIDTH // 2)
        here = rows_within(row, count, CLASSES // 2, PIECES, WIDTH // 2)
        return halves(tl.load(Z.to(tl.pointer_type(tl.int32)) + place, mask=here, other=0))
    else:
        place = to_rows(row).to(tl.int64) * stride + classes_of(PIECES, WIDTH)
        return tl.load(Z + place, mask=rows_within(row, count, CLASSES, PIECES, WIDTH), other=0.0).to(tl.float32)


@triton.jit
def present_rows(
    MASK, row, count, stride, CLASSES: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr, HAS_MASK: tl.constexpr
):  # fmt: skip
    """Which classes of some rows are there."""
    here = rows_within(row, count, CLASSES, PIECES, WIDTH)
    if HAS_MASK:
        here = here & (read_rows(MASK, row, count, stride, CLASSES, PIECES, WIDTH, False) != 0.0)
    return here


@triton.jit
def prepared(z, here, c, HARMLESS: tl.constexpr, CANONICAL: tl.constexpr):
    """Scores, as log-probabilities if so wanted; a harmless one where a class is not there."""
    if CANONICAL:
        z = log_probabilities(z, here)
    if not HARMLESS:
        z = tl.where(here, z, point(c))
    return z


@triton.jit
def log_probabilities(z, here):
    """Scores of short rows less their log-sum-exp."""
    z = tl.where(here, z, LOWEST)
    top = row_max(z)
    total = row_sum(tl.where(here, tl.exp2((z - to_rows(top)) * LOG2E), 0.0))
    return z - to_rows(top + tl.log2(tl.where(total > 0.0, total, 1.0)) * LN2)


@triton.jit
def log_scores(z, prior, here, c, HAS_PRIOR: tl.constexpr, WHOLE: tl.constexpr):
    """Q, with what is added to it, and q; Q is LOWEST where a class is not there."""
    top, q = scores(z, c)
    if HAS_PRIOR:
        top += prior
    if not WHOLE:
        top = tl.where(here, top, LOWEST)
    return top, q


@triton.jit
def level_of(top, NUMBERS, to_base_2, ANCHOR: tl.constexpr):
    """The largest log-score of each row, in base 2: the maximum of a product, which is rounded once and for all."""
    level = tl.maximum(row_max(top) * to_base_2, LOWEST)
    if ANCHOR >= 0:
        level = tl.maximum(level, tl.load(NUMBERS + ANCHOR) * to_base_2)
    return level


@triton.jit
def weighed(
    z, prior, here, NUMBERS, c, to_base_2, ANCHOR: tl.constexpr, HAS_PRIOR: tl.constexpr, WHOLE: tl.constexpr
):  # fmt: skip
    """Levels of rows, their sums of weights (without the anchor's), and q times the weight of each score."""
    top, q = log_scores(z, prior, here, c, HAS_PRIOR, WHOLE)
    level = level_of(top, NUMBERS, to_base_2, ANCHOR)
    e = tl.exp2(top * to_base_2 - to_rows(level))
    if not WHOLE:
        e = tl.where(here, e, 0.0)
    return level, row_sum(e), q * e


@triton.jit
def scale_of(SCALE, row, count, stride, SCALE_EACH: tl.constexpr):
    """What multiplies the loss of each row."""
    if SCALE_EACH:
        return tl.load(SCALE + row * stride, mask=row < count, other=0.0)
    else:
        return tl.full(row.shape, tl.load(SCALE), tl.float32)


@triton.jit
def accurate_losses(
    S_HAT, S, LOSS, SCALE, NUMBERS, MASK, prior, row, count, x_stride, y_stride, m_stride, scale_stride, c, gamma,
    CLASSES: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr, HARMLESS: tl.constexpr, ANCHOR: tl.constexpr,
    HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr, SCALE_EACH: tl.constexpr,
):  # fmt: skip
    """Write the losses of those short rows that are in doubt, from moments that do not cancel."""
    here = present_rows(MASK, row, count, m_stride, CLASSES, PIECES, WIDTH, HAS_MASK)
    x = prepared(read_rows(S_HAT, row, count, x_stride, CLASSES, PIECES, WIDTH, False), here, c, HARMLESS, CANONICAL)
    y = prepared(read_rows(S, row, count, y_stride, CLASSES, PIECES, WIDTH, False), here, c, HARMLESS, CANONICAL)
    scale = scale_of(SCALE, row, count, scale_stride, SCALE_EACH)
    per_gamma = inverse(gamma)
    to_base_2 = per_gamma * LOG2E
    top, _qx = log_scores(x, prior, here, c, HAS_PRIOR, False)
    base, _qy = log_scores(y, prior, here, c, HAS_PRIOR, False)
    mx = level_of(top, NUMBERS, to_base_2, ANCHOR)
    my = level_of(base, NUMBERS, to_base_2, ANCHOR)
    ex, ey, first, second = moment_terms(x, y, prior, to_rows(mx), to_rows(my), c, per_gamma, HAS_PRIOR)
    dx = row_sum(tl.where(here, ex, 0.0))
    dy = row_sum(tl.where(here, ey, 0.0))
    s1 = row_sum(tl.where(here, first, 0.0))
    s2 = row_sum(tl.where(here, second, 0.0))
    if ANCHOR >= 0:
        ax, ay, a_1, a_2 = anchor_terms(tl.load(NUMBERS + ANCHOR) * to_base_2, mx, my)
        dx += ax
        dy += ay
        s1 += a_1
        s2 += a_2
    _value, doubtful = difference_of(dx, dy, s1, mx, my)
    wanted = (row < count) & doubtful & (scale != 0.0) & (dy > 0.0)
    tl.store(LOSS + row, gamma * value_of(dx, dy, s1, s2) * scale, mask=wanted)


@triton.jit(do_not_specialize=["rows"])
def short_rows(
    S_HAT, S, GRADIENT, LOSS, SCALE, NUMBERS, MASK, PRIOR,
    rows, x_stride, y_stride, g_stride, m_stride, scale_stride,
    CLASSES: tl.constexpr, ZERO_IS_HARMLESS: tl.constexpr, GAMMA: tl.constexpr, ANCHOR: tl.constexpr,
    HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    SCALE_EACH: tl.constexpr, PAIRED: tl.constexpr,
    ROWS: tl.constexpr, FEW: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Losses, and gradients, of ROWS rows in each program, with all scores in registers.

    Rows in doubt are read once more, with FEW - 1 others.
    """
    WHOLE: tl.constexpr = (CLASSES == PIECES * WIDTH) and (not HAS_MASK)
    # without a mask, scores that are not there are 0
    HARMLESS: tl.constexpr = ZERO_IS_HARMLESS and (not CANONICAL) and (not HAS_MASK)
    start = tl.program_id(0).to(tl.int64) * ROWS
    count = tl.minimum(rows - start, ROWS).to(tl.int32)
    S_HAT += start * x_stride
    S += start * y_stride
    GRADIENT += start * g_stride
    MASK += start * m_stride
    if SCALE_EACH:
        SCALE += start * scale_stride
    LOSS += start
    row = tl.arange(0, ROWS)
    column = classes_of(PIECES, WIDTH)
    x = read_rows(S_HAT, row, count, x_stride, CLASSES, PIECES, WIDTH, PAIRED)
    y = read_rows(S, row, count, y_stride, CLASSES, PIECES, WIDTH, PAIRED)
    scale = scale_of(SCALE, row, count, scale_stride, SCALE_EACH)
    c = constants(NUMBERS)
    gamma = tl.load(NUMBERS + GAMMA)
    per_gamma = inverse(gamma)
    to_base_2 = per_gamma * LOG2E
    prior = 0.0
    if HAS_PRIOR:
        prior = tl.load(PRIOR + column, mask=column < CLASSES, other=0.0)
    here = present_rows(MASK, row, count, m_stride, CLASSES, PIECES, WIDTH, HAS_MASK)
    x = prepared(x, here, c, HARMLESS, CANONICAL)
    y = prepared(y, here, c, HARMLESS, CANONICAL)
    # one after the other, since few registers hold both
    mx, dx, qx = weighed(x, prior, here, NUMBERS, c, to_base_2, ANCHOR, HAS_PRIOR, WHOLE)
    my, dy, qy = weighed(y, prior, here, NUMBERS, c, to_base_2, ANCHOR, HAS_PRIOR, WHOLE)
    s1 = per_gamma * row_sum((x - y) * qy) - (mx - my) * LN2 * dy
    if ANCHOR >= 0:
        ax, ay, a_1, _a_2 = anchor_terms(tl.load(NUMBERS + ANCHOR) * to_base_2, mx, my)
        dx += ax
        dy += ay
        s1 += a_1
    idle = scale == 0.0
    if HAS_MASK:
        idle = idle | (dy == 0.0)
        dx = tl.where(dy > 0.0, dx, 1.0)
        dy = tl.where(dy > 0.0, dy, 1.0)
    value, doubtful = difference_of(dx, dy, s1, mx, my)
    tl.store(LOSS + row, tl.where(idle, 0.0, gamma * value * scale), mask=row < count)
    g = qx * to_rows(scale * inverse(dx)) - qy * to_rows(scale * inverse(dy))
    if CANONICAL:
        g -= weight(x) * to_rows(row_sum(tl.where(here, g, 0.0)))
    if not WHOLE:
        g = tl.where(here, g, 0.0)
    if tl.max((doubtful | idle).to(tl.int32), axis=0) != 0:
        # idle rows may hold anything
        g = tl.where(to_rows(idle), 0.0, g)
        groups = tl.max(tl.reshape(tl.where(idle, 0, doubtful.to(tl.int32)), [ROWS // FEW, FEW]), axis=1)
        left = tl.sum(groups << tl.arange(0, ROWS // FEW), axis=0)
        for group in range(0, ROWS // FEW):
            if (left >> group) & 1 != 0:
                accurate_losses(
                    S_HAT, S, LOSS, SCALE, NUMBERS, MASK, prior, group * FEW + tl.arange(0, FEW), count,
                    x_stride, y_stride, m_stride, scale_stride, c, gamma, CLASSES, PIECES, WIDTH, HARMLESS, ANCHOR,
                    HAS_MASK, HAS_PRIOR, CANONICAL, SCALE_EACH,
                )  # fmt: skip
        # the gradient may be written over what was read
        tl.debug_barrier()
    if WITH_GRADIENT:
        place = GRADIENT + (to_rows(row).to(tl.int64) * g_stride + column)
        tl.store(place, g.to(GRADIENT.dtype.element_ty), mask=rows_within(row, count, CLASSES, PIECES, WIDTH))
