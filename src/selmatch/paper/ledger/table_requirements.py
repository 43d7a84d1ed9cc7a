"""The rows of the paper's table of requirements."""

from __future__ import annotations

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    ROUNDING,
    THREE,
    agree,
    amplified,
    deltas,
    deviation,
    focus_of,
    many,
    moved,
    near,
    refuted,
    scaled,
    shares,
)
from selmatch.paper.records import CONDITION, REPEATED

TABLE = "tab:mc_requirements"


@claim(
    "C90",
    TABLE,
    "Low norm: satisfied by a decomposed Sigmoid; standard Softmax, square and composite Softmax fail.",
    REPEATED,
    "The decomposed Sigmoid looks there, standard Softmax and square do not; the composite Softmax is that of C72.",
)
def who_looks_at_low_norms():
    kinds = {
        "standard": sm.classify(sm.CompositeSoftmax()).focus,
        "square": sm.classify(sm.Separable(sm.Identity())).focus,
        "decomposed": sm.classify(sm.Separable(sm.Sigmoid())).focus,
    }
    standard = np.array([deltas(at=THREE + c) for c in (0.0, -9.0, 9.0)])
    square = sm.sensitivity(sm.Separable(sm.Identity()), THREE)
    sigmoid = sm.sensitivity(sm.Separable(sm.Sigmoid()), THREE)
    softer = deltas(sm.Tanh(), 10.0)
    return found(
        "Delta at (-3, 0, 3): standard Softmax {standard}, the same at (-12, -9, -6) and (6, 9, 12) up to {change}: no "
        "norm is special; square {square}; decomposed Sigmoid {sigmoid}; tanh with gamma = 10 {softer}",
        kinds == {"standard": "uniform", "square": "uniform", "decomposed": "low norms"},
        sm.classify(sm.Tanh(), role="softmax", gamma=10.0).focus == "low norms",
        near(standard[0], [0.00235, 0.0451, 0.0472], 3.0),
        deviation(standard, standard[0]) < ROUNDING,
        agree(square, np.ones(3)),
        near(sigmoid, [0.0452, 0.25, 0.0452], 1.0),
        near(softer, [0.0262, 0.284, 0.0262], 5.0),
        standard=standard[0],
        change=deviation(standard, standard[0]),
        square=square,
        sigmoid=sigmoid,
        softer=softer,
    )


@claim("C91", TABLE, "High norm, high score, low score: the satisfying columns.")
def satisfying_columns():
    wanted = {
        "high norms": (sm.Sinh(),),
        "high scores": (sm.Exp(), sm.Sigmoid().affine(beta=2.0), scaled(sm.Sinh(), 0.5, -4.0)),
        "low scores": (sm.AntiExp(), scaled(sm.Sinh(), 0.5, 4.0)),
    }
    hits = [focus_of(q) == kind for kind, scalings in wanted.items() for q in scalings]
    (sinh,), (exp, sigmoid, left), (anti, right) = ([deltas(q) for q in scalings] for scalings in wanted.values())
    return found(
        "Delta at (-3, 0, 3): sinh(z) {sinh}; exp(z) {exp}; sigma(z - 2) {sigmoid}; sinh((z + 4)/2)/2 {left}; -exp(-z) "
        "{anti}; sinh((z - 4)/2)/2 {right}: {hits:.0f} of 6 look where the table says",
        hits,
        min(sinh[0], sinh[2]) > 1e5 * sinh[1],
        [row[2] > 10.0 * max(row[0], row[1]) for row in (exp, sigmoid, left)],
        [row[0] > 10.0 * max(row[1], row[2]) for row in (anti, right)],
        near([sinh[0], exp[2], sigmoid[2], left[2]], [30.12, 20.09, 0.2487, 4.14], 2.0),
        agree([anti, right], [exp[::-1], left[::-1]]),
        hits=sum(hits),
        sinh=sinh,
        exp=exp,
        sigmoid=sigmoid,
        left=left,
        anti=anti,
        right=right,
    )


@claim(
    "C92",
    TABLE,
    'High norm, high score, low score: "decomposed h(z_k) = sinh(z_k)", exp(z_k) and -exp(-z_k) fail.',
    CONDITION,
    "Fail at ranking. Their region sensitivity is exactly the wanted one; only the dependence on other classes is "
    "missing.",
)
def decomposed_links_have_the_region():
    wanted = {sm.Sinh(): "high norms", sm.Exp(): "high scores", sm.AntiExp(): "low scores"}
    seen = {q: sm.classify(sm.Separable(q)) for q in wanted}
    sinh = sm.Separable(sm.Sinh()).slope(THREE)
    return found(
        "decomposed sinh at (-3, 0, 3): {sinh}; all three look where they should, none ranks",
        [seen[q].focus == kind for q, kind in wanted.items()],
        [not each.ranks for each in seen.values()],
        agree(sinh, np.cosh(THREE)),
        sinh=sinh,
    )


@claim("C93", TABLE, "High score: tanh(z - beta) fails (gamma 1, amplitude 1).")
def right_shifted_tanh_fails():
    q = sm.Tanh().affine(beta=3.0)
    row, p = deltas(q), many(q).potential.prob(THREE)
    return found(
        "beta = 3: Delta at (-3, 0, 3) {row}; p = {p}",
        near(row, [0.0493, 0.0451, 0.0047], 10.0),
        row[0] > row[2],
        focus_of(q) != "high scores",
        row=row,
        p=p,
    )


@claim("C94", TABLE, "Low score: sigma(z + beta) and tanh(z + beta) fail.")
def left_shifted_sigmoids_fail():
    tanh, sigmoid = deltas(sm.Tanh().affine(beta=-3.0)), deltas(sm.Sigmoid().affine(beta=-3.0))
    return found(
        "beta = 3: Delta at (-3, 0, 3): tanh {tanh}; sigmoid {sigmoid}",
        tanh[0] < tanh[2],
        sigmoid[0] < sigmoid[2],
        near(sigmoid, [0.00233, 0.0448, 0.0532], 3.0),
        tanh=tanh,
        sigmoid=sigmoid,
    )


@claim("C95", TABLE, "tanh reverses: low norms become high norms, high scores low scores (gamma 1).")
def tanh_reverses():
    plain, right = deltas(sm.Tanh()), deltas(sm.Tanh().affine(beta=3.0))
    scalar = sm.sensitivity(amplified(sm.Tanh().affine(beta=3.0)), THREE)
    return found(
        "Delta at (-3, 0, 3): tanh(z) {plain}; tanh(z - 3) {right}, as a scalar loss {scalar}",
        near(plain, [0.2517, 0.0473, 0.2517], 1.0),
        right[0] > right[2],
        scalar[2] > scalar[0],
        plain=plain,
        right=right,
        scalar=scalar,
    )


@claim(
    "C96",
    TABLE,
    'Ranking: "losses with composite Softmax" satisfy it; "decomposed losses" and "other losses" fail.',
    CONDITION,
    "Ranking means that the sensitivity of a class depends on the other classes. Shift invariance is another matter "
    "(C67).",
)
def who_ranks():
    ranks = [sm.classify(q, role="softmax").ranks for q in (sm.Sinh(), sm.Exp(), sm.Sigmoid())]
    alone = [sm.classify(sm.Separable(q)).ranks for q in (sm.Sinh(), sm.Exp(), sm.Sigmoid(), sm.Identity())]
    share = [float(shares(deltas(scaled(sm.Exp(), 0.5), at=np.array([3.0, 1.0, -1.0]) + c))[0]) for c in (-4.0, 4.0)]
    return found(
        "three composite losses rank, four decomposed do not; but shares move with a shift: {share}",
        ranks,
        not any(alone),
        share[1] - share[0] > 0.1,
        share=share,
    )


@claim(
    "C97",
    TABLE,
    'Clipping needs "q(z) = 0 for low scores": ReLU and SmeLU as Q have it, "other scalings" fail.',
    CONDITION,
    "Any Q that is constant below a threshold meets the condition, and works.",
)
def who_clips():
    scalings = {"step": sm.Step(), "smelu": sm.SmeLU(1.0), "exponential": sm.Exp() + sm.Constant(-1.0)}
    own = scalings.pop("exponential").capped(low=0.0)
    edges = [sm.classify(q, role="softmax").clips[0][1] for q in (*scalings.values(), own)]
    none = sm.classify(sm.Exp(), role="softmax").clips
    return found(
        "moves cost nothing up to {edges} for Q = ReLU, SmeLU(1), and one of our own (q = e^z - 1 above 0)",
        agree(edges, [0.0, -1.0, 0.0], 0.05),
        none == (),
        edges=edges,
    )


@claim("C98", TABLE, "p_k rises with its score for exp-, Sigmoid-shaped and cosh q: whenever q >= 0.")
def p_rises_where_q_is_positive():
    rising = [sm.Exp(), sm.Sigmoid(), sm.Cosh()]
    proofs = [sm.certify.monotone_probability(sm.CompositeSoftmax(q, check=False)) for q in rising]
    tanh = sm.certify.monotone_probability(sm.CompositeSoftmax(sm.Tanh()))
    falling = sm.classify(sm.AntiExp(), role="softmax").monotone
    z = np.stack([moved(THREE, 1, to) for to in (-1.0, 0.0, 1.0)])
    p = many(sm.Exp()).potential.prob(z)[:, 1]
    return found(
        "proved for exp, sigmoid, cosh (exp at -1, 0, 1 against -3 and 3: p = {p}); refuted for tanh, which changes "
        "sign; -exp(-z) falls and is injective as well",
        [bool(proof) for proof in proofs],
        refuted(tanh),
        falling == "decreasing",
        np.diff(p) > 0.0,
        p=p,
    )


@claim("C99", TABLE, "An odd q gives a p that is not injective, except for shifts.")
def odd_scalings_confuse_signs():
    potential = many(sm.Sinh()).potential
    pair = [potential.prob(moved(THREE, 1, to))[1] for to in (1.0, -1.0)]
    shifted = sm.CompositeSoftmax(sm.Sinh().affine(beta=-4.0))
    return found(
        "q = sinh: p_2 at 1 and -1 is {pair}; with scores on one side of beta it is monotone (proved on [-3, 3] for "
        "beta = -4)",
        agree(pair[0], pair[1]),
        sm.certify.monotone_probability(shifted, (-3, 3)),
        pair=pair,
    )


@claim("C100", TABLE, "Odd q: the loss is symmetric (all classes reflected, no shift); Sigmoid: not.")
def odd_scalings_are_symmetric():
    t, s = np.array([1.0, 2.0, -1.0]), np.array([0.0, 1.0, 1.0])
    sinh, sigmoid = (abs(many(q)(t, s) - many(q)(-t, -s)) for q in (sm.Sinh(), sm.Sigmoid()))
    return found(
        "L(t, s) - L(-t, -s): sinh {sinh}; sigmoid {sigmoid}",
        sinh < ROUNDING,
        near(sigmoid, 0.132, 5.0),
        sinh=sinh,
        sigmoid=sigmoid,
    )
