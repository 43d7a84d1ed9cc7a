"""The rows of the paper's table of scalings."""

from __future__ import annotations

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    THREE,
    agree,
    deltas,
    focus_of,
    near,
    scaled,
)
from selmatch.paper.records import CONDITION

TABLE = "tab:scalings"


@claim("C74", TABLE, "Low norms: a decomposed Sigmoid link.")
def low_norms():
    row = sm.Separable(sm.Sigmoid()).slope(THREE)
    return found(
        "Delta at (-3, 0, 3): {row}",
        near(row, [0.0452, 0.25, 0.0452], 1.0),
        sm.classify(sm.Separable(sm.Sigmoid())).focus == "low norms",
        row=row,
    )


@claim("C75", TABLE, "High norms: composite Softmax with sinh.")
def high_norms():
    full, half = deltas(sm.Sinh()), deltas(scaled(sm.Sinh(), 0.5))
    return found(
        "Delta at (-3, 0, 3): sinh(z) {full}; sinh(z/2) {half}",
        near(full, [30.12, 5.766e-5, 30.12], 1.0),
        near(half, [0.54, 0.029, 0.54], 20.0),
        focus_of(sm.Sinh()) == "high norms",
        full=full,
        half=half,
    )


@claim("C76", TABLE, "High scores: composite Softmax with an exponential.")
def high_scores():
    full, half = deltas(sm.Exp()), deltas(scaled(sm.Exp(), 0.5))
    return found(
        "Delta at (-3, 0, 3): exp(z) {full}; exp(z/2) {half}",
        near(full[2], 20.1, 1.0),
        near(half, [0.0009, 0.0145, 1.28], 40.0),
        focus_of(sm.Exp()) == "high scores",
        full=full,
        half=half,
    )


@claim("C77", TABLE, "High scores: right-shifted Sigmoid.")
def high_scores_by_a_right_shifted_sigmoid():
    rows = [deltas(sm.Sigmoid().affine(beta=beta)) for beta in (2.0, 4.0, 0.0, -3.0)]
    return found(
        "Delta at (-3, 0, 3) for beta = 2: {two}; 4: {four}; unshifted: {none}; left by 3: {left}. The level falls "
        "with beta, and a left shift makes it nearly flat",
        [row[0] < row[1] < row[2] for row in rows],
        near(rows[0], [0.00115, 0.0226, 0.2487], 3.0),
        focus_of(sm.Sigmoid().affine(beta=2.0)) == "high scores",
        **dict(zip(("two", "four", "none", "left"), rows, strict=True)),
    )


@claim(
    "C78",
    TABLE,
    'High scores, with beta > 0: "left shifted q(z) = sinh(z + beta)".',
    CONDITION,
    "The scores lie to the right of -beta; below it low scores gain sensitivity again.",
)
def high_scores_by_a_left_shifted_sinh():
    far, close = deltas(scaled(sm.Sinh(), 0.5, -4.0)), deltas(scaled(sm.Sinh(), 0.5, -2.0))
    beyond = deltas(scaled(sm.Sinh(), 0.5, -2.0), at=(-9.0, 0.0, 3.0))
    return found(
        "Delta at (-3, 0, 3): sinh((z+4)/2) {far}; sinh((z+2)/2) {close}; the latter at (-9, 0, 3): {beyond}",
        far[2] > 1e3 * far[:2].max(),
        close[2] > 1e2 * close[:2].max(),
        beyond[0] > beyond[2],
        focus_of(scaled(sm.Sinh(), 0.5, -4.0)) == "high scores",
        far=far,
        close=close,
        beyond=beyond,
    )


@claim("C79", TABLE, "Low scores: composite Softmax with -exp(-z).")
def low_scores():
    row, mirrored = deltas(sm.AntiExp()), deltas(sm.Exp())[::-1]
    return found(
        "Delta at (-3, 0, 3): {row}, the mirror of exp",
        agree(row, mirrored),
        focus_of(sm.AntiExp()) == "low scores",
        row=row,
    )


@claim(
    "C80",
    TABLE,
    'Low scores, with beta > 0: "right shifted q(z) = sinh(z - beta)".',
    CONDITION,
    "The scores lie to the left of beta.",
)
def low_scores_by_a_right_shifted_sinh():
    row = deltas(scaled(sm.Sinh(), 0.5, 4.0))
    beyond = deltas(scaled(sm.Sinh(), 0.5, 2.0), at=(-3.0, 0.0, 9.0))
    return found(
        "sinh((z-4)/2) at (-3, 0, 3): {row}; sinh((z-2)/2) at (-3, 0, 9): {beyond}",
        row[0] > 1e3 * row[1:].max(),
        beyond[2] > beyond[0],
        focus_of(scaled(sm.Sinh(), 0.5, 4.0)) == "low scores",
        row=row,
        beyond=beyond,
    )


@claim(
    "C81",
    "All three tables",
    "sinh shifted left looks at high scores, shifted right at low ones (the Sigmoid: reverse).",
)
def directions_of_shifts():
    left, right = (sm.sensitivity(sm.Sinh().affine(beta=beta), THREE) for beta in (-2.0, 2.0))
    return found(
        "slopes at -3, 0, 3: sinh(z+2) {left}; sinh(z-2) {right}",
        agree(left, right[::-1]),
        near(left, [1.543, 3.762, 74.21], 1.0),
        focus_of(sm.Sigmoid().affine(beta=3.0), "link") == "high scores",
        left=left,
        right=right,
    )
