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

from selmatch.kernels.gpu.functions import LN2, LOG2E, inverse, log1p, phi_series, scaled_phi

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
    a = u * per_gamma * qy - (nx - ny) * LN2
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
    return tl.max(tl.max(x, axis=2), axis=0)


@triton.jit
def tile_sum(x):
    return tl.sum(tl.sum(x, axis=2), axis=0)


# ----------------------------------------------------------------------------------------------- one tile of long rows


@triton.jit
def raw_taken_in(POINTER, o, here, m, d, MASKED: tl.constexpr):
    """Maximum (of scores times log2 e) and sum of 2^(that - maximum) of each thread with one more tile."""
    z = read(POINTER, o, here, MASKED, LOWEST, "")
    n = tl.maximum(m, tile_max(z) * LOG2E)
    return n, d * tl.exp2(m - n) + tile_sum(tl.exp2(z * LOG2E - n[None, :, None]))


@triton.jit
def taken_in(
    x_row, y_row, m_row, PRIOR, o, classes, x_shift, y_shift, c, per_gamma, mx, my, dx, dy, s1, tx, ty,
    MASKED: tl.constexpr, HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr,
):  # fmt: skip
    """The statistics of each thread with one more tile."""
    here = present(o, classes, m_row, HAS_MASK)
    harmless = point(c)
    x = read(x_row, o, here, MASKED, harmless + x_shift, "")
    y = read(y_row, o, here, MASKED, harmless + y_shift, "")
    if CANONICAL:
        x -= x_shift
        y -= y_shift
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
    ex = tl.exp2(top * to_base_2 - nx[None, :, None])
    ey = tl.exp2(base * to_base_2 - ny[None, :, None])
    if MASKED:
        ex = tl.where(here, ex, 0.0)
        ey = tl.where(here, ey, 0.0)
    first = ey * linear_move(x, y, qy, nx[None, :, None], ny[None, :, None], per_gamma)
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
    """q p at x minus q p at y, with log-sums-exp lx and ly; a scale is part of these and of ``lean``.

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
    x_row, y_row, g_row, m_row, PRIOR, o, classes, x_shift, y_shift, lx, ly, shrunk, lean, c, per_gamma, s1, s2,
    MASKED: tl.constexpr, HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr,
    WITH_GRADIENT: tl.constexpr, WITH_MOMENTS: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a tile, which is 2^-shrunk times that of the losses; and take it into the moments."""
    here = present(o, classes, m_row, HAS_MASK)
    harmless = point(c)
    x = read(x_row, o, here, MASKED, harmless + x_shift, "evict_first")
    y = read(y_row, o, here, MASKED, harmless + y_shift, "evict_first")
    if CANONICAL:
        x -= x_shift
        y -= y_shift
    prior = prior_of(PRIOR, o, here, HAS_PRIOR, MASKED)
    if WITH_MOMENTS:
        _ex, _ey, first, second = moment_terms(x, y, prior, lx, ly, c, per_gamma, HAS_PRIOR)
        if MASKED:
            first = tl.where(here, first, 0.0)
            second = tl.where(here, second, 0.0)
        s1 += tile_sum(first)
        s2 += tile_sum(second)
    if WITH_GRADIENT:
        g = gradient_of(
            x, y, prior, lx + shrunk, ly + shrunk, lean, c, per_gamma * LOG2E, HAS_PRIOR, CANONICAL
        )  # fmt: skip
        if MASKED:
            tl.store(g_row + o, tl.where(here, g, 0.0).to(g_row.dtype.element_ty), mask=o < classes)
        else:
            tl.store(g_row + o, g.to(g_row.dtype.element_ty), cache_modifier=".cs")
    return s1, s2


# ------------------------------------------------------------------------------------------------------------ long rows


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
def row_statistics(parts, slot, there, NUMBERS, to_base_2, ANCHOR: tl.constexpr, SEGMENTS: tl.constexpr):
    """The statistics of a row from those of its segments, and of the class that is always there."""
    mx = kept(parts, 0, there, LOWEST)
    my = kept(parts, 1, there, LOWEST)
    dx = kept(parts, 2, there, 0.0)
    dy = kept(parts, 3, there, 0.0)
    if ANCHOR >= 0:
        level = tl.load(NUMBERS + ANCHOR) * to_base_2
        anchor = slot == SEGMENTS
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


@triton.jit(do_not_specialize=["rows", "lag"])
def long_rows(
    S_HAT, S, GRADIENT, LOSS, SCALE, NUMBERS, MASK, PRIOR, PARTS, READY,
    rows, classes, x_stride, y_stride, g_stride, m_stride, scale_stride, lag,
    GAMMA: tl.constexpr, ANCHOR: tl.constexpr, HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr,
    CANONICAL: tl.constexpr, WITH_GRADIENT: tl.constexpr, SEGMENTS: tl.constexpr, SLOTS: tl.constexpr,
    TILES: tl.constexpr, R: tl.constexpr, T: tl.constexpr, V: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Losses, and gradients, of rows in programs of one stage of one segment each."""
    STAGES: tl.constexpr = 3 if CANONICAL else 2
    pid = tl.program_id(0)
    stage = pid % STAGES
    item = pid // STAGES - stage * lag
    if (item >= 0) & (item < rows * SEGMENTS):
        row = (item // SEGMENTS).to(tl.int64)
        segment = item % SEGMENTS
        first = segment * (TILES * R * T * V)
        # tiles with any class, and those of them where all are there
        some = tl.minimum((classes - first + R * T * V - 1) // (R * T * V), TILES)
        whole = 0 if HAS_MASK else tl.minimum((classes - first) // (R * T * V), TILES)
        scale = tl.load(SCALE + row * scale_stride)
        c = constants(NUMBERS)
        gamma = tl.load(NUMBERS + GAMMA)
        per_gamma = 1.0 / gamma
        to_base_2 = per_gamma * LOG2E
        x_row = S_HAT + row * x_stride
        y_row = S + row * y_stride
        m_row = MASK + row * m_stride
        tile = (tl.arange(0, R)[:, None, None] * T + tl.arange(0, T)[None, :, None]) * V
        tile += tl.arange(0, V)[None, None, :]
        part = PARTS + item.to(tl.int64) * STATISTICS
        slot = tl.arange(0, SLOTS)
        there = slot < SEGMENTS
        parts = PARTS + (row * SEGMENTS + slot) * STATISTICS
        if (scale != 0.0) & (stage < STAGES - 1):
            if CANONICAL and stage == 0:
                level_x = tl.full([T], LOWEST, tl.float32)
                level_y = tl.full([T], LOWEST, tl.float32)
                sum_x = tl.zeros([T], tl.float32)
                sum_y = tl.zeros([T], tl.float32)
                for t in tl.range(0, whole, loop_unroll_factor=UNROLL):
                    o = first + t * (R * T * V) + tile
                    level_x, sum_x = raw_taken_in(x_row, o, o, level_x, sum_x, False)
                    level_y, sum_y = raw_taken_in(y_row, o, o, level_y, sum_y, False)
                for t in range(whole, some):
                    o = first + t * (R * T * V) + tile
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
                    while tl.atomic_add(READY + row, 0, sem="acquire") < SEGMENTS:
                        pass
                    x_shift, y_shift = raw_levels(parts, there)
                mx = tl.full([T], LOWEST, tl.float32)
                my = tl.full([T], LOWEST, tl.float32)
                dx = tl.zeros([T], tl.float32)
                dy = tl.zeros([T], tl.float32)
                s1 = tl.zeros([T], tl.float32)
                tx = tl.zeros([T], tl.float32)
                ty = tl.zeros([T], tl.float32)
                for t in tl.range(0, whole, loop_unroll_factor=UNROLL):
                    mx, my, dx, dy, s1, tx, ty = taken_in(
                        x_row, y_row, m_row, PRIOR, first + t * (R * T * V) + tile, classes, x_shift, y_shift, c,
                        per_gamma, mx, my, dx, dy, s1, tx, ty, False, False, HAS_PRIOR, CANONICAL,
                    )  # fmt: skip
                for t in range(whole, some):
                    mx, my, dx, dy, s1, tx, ty = taken_in(
                        x_row, y_row, m_row, PRIOR, first + t * (R * T * V) + tile, classes, x_shift, y_shift, c,
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
                if segment == 0:
                    tl.store(LOSS + row, 0.0)
                if WITH_GRADIENT:
                    for t in range(0, some):
                        o = first + t * (R * T * V) + tile
                        nothing = tl.zeros([R, T, V], tl.float32).to(GRADIENT.dtype.element_ty)
                        tl.store(g_row + o, nothing, mask=o < classes)
            else:
                while tl.atomic_add(READY + row, 0, sem="acquire") < (STAGES - 1) * SEGMENTS:
                    pass
                x_shift = 0.0
                y_shift = 0.0
                if CANONICAL:
                    x_shift, y_shift = raw_levels(parts, there)
                top, base, dx_, dy_, s1_, tx_, ty_ = row_statistics(
                    parts, slot, there, NUMBERS, to_base_2, ANCHOR, SEGMENTS
                )  # fmt: skip
                lx = top + tl.log2(dx_)
                ly = base + tl.log2(dy_)
                lean = (tx_ / dx_ - ty_ / dy_) * scale
                shrunk = -tl.log2(scale)
                value, doubtful = difference_of(dx_, dy_, s1_, top, base)
                nobody = dy_ == 0.0
                if (segment == 0) & (nobody | (not doubtful)):
                    tl.store(LOSS + row, tl.where(nobody, 0.0, gamma * value * scale))
                s1 = tl.zeros([T], tl.float32)
                s2 = tl.zeros([T], tl.float32)
                if doubtful & (not nobody):
                    for t in range(0, whole):
                        s1, s2 = passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (R * T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, shrunk, lean, c, per_gamma, s1, s2, False, False, HAS_PRIOR, CANONICAL,
                            WITH_GRADIENT, True,
                        )  # fmt: skip
                    for t in range(whole, some):
                        s1, s2 = passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (R * T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, shrunk, lean, c, per_gamma, s1, s2, True, HAS_MASK, HAS_PRIOR, CANONICAL,
                            WITH_GRADIENT, True,
                        )  # fmt: skip
                    tl.store(part + MOMENTS, tl.sum(s1, axis=0))
                    tl.store(part + MOMENTS + 1, tl.sum(s2, axis=0))
                    # the last segment to come here has the moments of all
                    if tl.atomic_add(READY + row, 1, sem="acq_rel") == STAGES * SEGMENTS - 1:
                        all_1 = tl.sum(kept(parts, MOMENTS, there, 0.0), axis=0)
                        all_2 = tl.sum(kept(parts, MOMENTS + 1, there, 0.0), axis=0)
                        if ANCHOR >= 0:
                            _ax, _ay, a_1, a_2 = anchor_terms(tl.load(NUMBERS + ANCHOR) * to_base_2, lx, ly)
                            all_1 += a_1
                            all_2 += a_2
                        tl.store(LOSS + row, gamma * value_of(1.0, 1.0, all_1, all_2) * scale)
                elif WITH_GRADIENT:
                    for t in tl.range(0, whole, loop_unroll_factor=UNROLL):
                        passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (R * T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, shrunk, lean, c, per_gamma, s1, s2, False, False, HAS_PRIOR, CANONICAL,
                            True, False,
                        )  # fmt: skip
                    for t in range(whole, some):
                        passed_on(
                            x_row, y_row, g_row, m_row, PRIOR, first + t * (R * T * V) + tile, classes, x_shift,
                            y_shift, lx, ly, shrunk, lean, c, per_gamma, s1, s2, True, HAS_MASK, HAS_PRIOR, CANONICAL,
                            True, False,
                        )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- short rows


@triton.jit(do_not_specialize=["rows"])
def short_rows(
    S_HAT, S, GRADIENT, LOSS, SCALE, NUMBERS, MASK, PRIOR,
    rows, x_stride, y_stride, g_stride, m_stride, scale_stride,
    CLASSES: tl.constexpr, ZERO_IS_HARMLESS: tl.constexpr, GAMMA: tl.constexpr, ANCHOR: tl.constexpr,
    HAS_MASK: tl.constexpr, HAS_PRIOR: tl.constexpr, CANONICAL: tl.constexpr, WITH_GRADIENT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Losses, and gradients, of ROWS rows in each program, with all scores in registers."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)[None, :]
    scale = tl.load(SCALE + row * scale_stride, mask=row < rows, other=0.0)
    # where the scale is 0 nothing is read, whatever it is
    here = ((row < rows) & (scale != 0.0))[:, None] & (column < CLASSES)
    if HAS_MASK:
        here = here & (tl.load(MASK + row[:, None] * m_stride + column, mask=here, other=0) != 0)
    c = constants(NUMBERS)
    gamma = tl.load(NUMBERS + GAMMA)
    per_gamma = 1.0 / gamma
    to_base_2 = per_gamma * LOG2E
    whole: tl.constexpr = (CLASSES == COLUMNS) and (not HAS_MASK)
    x = tl.load(S_HAT + row[:, None] * x_stride + column, mask=here, other=0.0).to(tl.float32)
    y = tl.load(S + row[:, None] * y_stride + column, mask=here, other=0.0).to(tl.float32)
    if CANONICAL:
        x = log_probabilities(x, here)
        y = log_probabilities(y, here)
    if CANONICAL or not ZERO_IS_HARMLESS:
        x = tl.where(here, x, point(c))
        y = tl.where(here, y, point(c))
    top, qx = scores(x, c)
    base, qy = scores(y, c)
    prior = 0.0
    if HAS_PRIOR:
        prior = tl.load(PRIOR + column, mask=column < CLASSES, other=0.0)
        top += prior
        base += prior
    if not whole:
        top = tl.where(here, top, LOWEST)
        base = tl.where(here, base, LOWEST)
    # maxima of a product, which is then rounded once and for all
    mx = tl.maximum(tl.max(top, axis=1) * to_base_2, LOWEST)
    my = tl.maximum(tl.max(base, axis=1) * to_base_2, LOWEST)
    if ANCHOR >= 0:
        level = tl.load(NUMBERS + ANCHOR) * to_base_2
        mx = tl.maximum(mx, level)
        my = tl.maximum(my, level)
    ex = tl.exp2(top * to_base_2 - mx[:, None])
    ey = tl.exp2(base * to_base_2 - my[:, None])
    if not whole:
        ex = tl.where(here, ex, 0.0)
        ey = tl.where(here, ey, 0.0)
    dx = tl.sum(ex, axis=1)
    dy = tl.sum(ey, axis=1)
    s1 = tl.sum(ey * linear_move(x, y, qy, mx[:, None], my[:, None], per_gamma), axis=1)
    if ANCHOR >= 0:
        ax, ay, a_1, a_2 = anchor_terms(level, mx, my)
        dx += ax
        dy += ay
        s1 += a_1
    nobody = dy == 0.0
    dx = tl.where(nobody, 1.0, dx)
    dy = tl.where(nobody, 1.0, dy)
    value, doubtful = difference_of(dx, dy, s1, mx, my)
    doubtful = doubtful & (row < rows) & (scale != 0.0)
    if tl.max(doubtful.to(tl.int32), axis=0) != 0:
        _ex, _ey, first, second = moment_terms(x, y, prior, mx[:, None], my[:, None], c, per_gamma, HAS_PRIOR)
        if not whole:
            first = tl.where(here, first, 0.0)
            second = tl.where(here, second, 0.0)
        s1 = tl.sum(first, axis=1)
        s2 = tl.sum(second, axis=1)
        if ANCHOR >= 0:
            s1 += a_1
            s2 += a_2
        value = tl.where(doubtful, value_of(dx, dy, s1, s2), value)
    value = tl.where(nobody | (scale == 0.0), 0.0, gamma * value * scale)
    tl.store(LOSS + row, value, mask=row < rows)
    if WITH_GRADIENT:
        g = (qx * ex) * (scale * inverse(dx))[:, None] - (qy * ey) * (scale * inverse(dy))[:, None]
        if CANONICAL:
            total = tl.sum(tl.where(here, g, 0.0), axis=1)
            g -= weight(x) * total[:, None]
        if not whole:
            g = tl.where(here, g, 0.0)
        inside = (row < rows)[:, None] & (column < CLASSES)
        tl.store(GRADIENT + row[:, None] * g_stride + column, g.to(GRADIENT.dtype.element_ty), mask=inside)


@triton.jit
def log_probabilities(z, here):
    """Scores of short rows less their log-sum-exp."""
    z = tl.where(here, z, LOWEST)
    top = tl.max(z, axis=1)
    total = tl.sum(tl.where(here, tl.exp2((z - top[:, None]) * LOG2E), 0.0), axis=1)
    return z - (top + tl.log2(tl.where(total > 0.0, total, 1.0)) * LN2)[:, None]
