"""The entries of the paper's table of links."""

from __future__ import annotations

import math

import numpy as np

import selmatch as sm
from selmatch.paper.ledger.entries import claim, found
from selmatch.paper.ledger.measuring import (
    agree,
    focus_of,
    near,
)
from selmatch.paper.records import CONDITION, ERRATUM

TABLE = "tab:links"


@claim(
    "C82",
    TABLE,
    "Sigmoid shape, low norms: signed powers below 1, gradients of SmeLU and Huber, sign, step, sin, arctan, arcsinh, "
    "tanh.",
)
def sigmoid_shapes():
    links = [
        sm.SignedPower(0.5),
        sm.SmeLU(1.0),
        sm.Huber(1.0),
        sm.Sign(),
        sm.Step(),
        sm.Arctan(),
        sm.Arcsinh(),
        sm.Tanh(),
    ]
    kinds = [focus_of(link, "link") for link in links] + [focus_of(sm.Sin(), "link", (-math.pi / 2, math.pi / 2))]
    slopes = [link.slope(np.array([0.0, 1.0, 5.0])) for link in (sm.Arctan(), sm.Arcsinh(), sm.Tanh())]
    return found(
        "all nine are classified as low norms; slopes at 0, 1, 5: arctan {arctan}; arcsinh {arcsinh}; tanh {tanh}",
        [kind == "low norms" for kind in kinds],
        near(slopes[0], [1.0, 0.5, 0.03846], 1.0),
        **dict(zip(("arctan", "arcsinh", "tanh"), slopes, strict=True)),
    )


@claim(
    "C83",
    TABLE,
    "sinh shape, high norms: sign(z) log(1 + |z|).",
    ERRATUM,
    "It belongs to the Sigmoid row: its slope 1/(1 + |z|) falls with the norm.",
)
def signed_log_looks_at_low_norms():
    slopes = sm.SignedLog().slope(np.array([0.001, 1.0, 5.0]))
    return found(
        "slope at .001, 1, 5: {slopes}; classified as low norms",
        near(slopes, [0.999, 0.5, 0.1667], 1.0),
        focus_of(sm.SignedLog(), "link") == "low norms",
        slopes=slopes,
    )


@claim("C84", TABLE, "sinh shape: signed powers above 1, arcsin, arctanh, tan.")
def sinh_shapes():
    near_end = np.array([0.0, 0.5, 0.99])
    links = {sm.SignedPower(3.0): 3.0, sm.Arcsin(): 0.99, sm.Arctanh(): 0.99, sm.Tan(): 1.5}
    kinds = [focus_of(link, "link", (-end, end)) for link, end in links.items()]
    slopes = [link.slope(near_end * end) for link, end in links.items()]
    return found(
        "all four are classified as high norms; slopes from the middle outwards: {power}; {arcsin}; {arctanh}; {tan}. "
        "The power has slope 0 at 0: small moves of a label there cost nothing quadratic",
        [kind == "high norms" for kind in kinds],
        [np.diff(row) > 0.0 for row in slopes],
        **dict(zip(("power", "arcsin", "arctanh", "tan"), slopes, strict=True)),
    )


@claim(
    "C85",
    TABLE,
    'sinh shape: "log(z/(1-z)); z in [0, 1]".',
    CONDITION,
    "Observed scores lie in the open interval, and the norm is the distance from 1/2.",
)
def logit_looks_away_from_one_half():
    slopes = sm.Logit().slope(np.array([0.05, 0.5, 0.95]))
    return found(
        "slope at .05, .5, .95: {slopes}; a label at 1 is outside its domain",
        near(slopes, [21.05, 4.0, 21.05], 1.0),
        focus_of(sm.Logit(), "link", (0.02, 0.98)) == "high norms",
        not sm.Logit().holds(1.0, interior=True),
        slopes=slopes,
    )


@claim(
    "C86",
    TABLE,
    'Exponential shape: "right-shifted Sigmoid; left-shifted sinh", and "-log(1-z), z in [0, 1]".',
    CONDITION,
    "z < beta, z > -beta, and z < 1 (infinite at 1).",
)
def exponential_shapes():
    slopes = sm.NegLog1m().slope(np.array([0.0, 0.5, 0.99]))
    sigmoid, sinh = sm.Sigmoid().affine(beta=4.0), sm.Sinh().affine(beta=-4.0)
    kinds = [focus_of(sigmoid, "link"), focus_of(sinh, "link"), focus_of(sm.NegLog1m(), "link", (0.0, 0.99))]
    past = [focus_of(sigmoid, "link", (4.0, 10.0)), focus_of(sinh, "link", (-10.0, -4.0))]
    return found(
        "-log(1 - z): slope at 0, .5, .99: {slopes}; all three look at high scores, beyond their shift the first two "
        "at low scores",
        [kind == "high scores" for kind in kinds],
        [kind == "low scores" for kind in past],
        near(slopes, [1.0, 2.0, 100.0], 1.0),
        slopes=slopes,
    )


@claim(
    "C87",
    TABLE,
    'Exponential shape: "polynomial z^d, z > 0".',
    CONDITION,
    "d > 1; with d < 1 it looks at low scores.",
)
def powers_above_one():
    z = np.array([0.1, 1.0, 5.0])
    square, root = sm.Power(2.0).slope(z), sm.Power(0.5).slope(z)
    return found(
        "slope at .1, 1, 5: d = 2 {square}; d = 1/2 {root}",
        near(square, [0.2, 2.0, 10.0], 1.0),
        focus_of(sm.Power(2.0), "link", (0.0, 5.0)) == "high scores",
        focus_of(sm.Power(0.5), "link", (0.0, 5.0)) == "low scores",
        square=square,
        root=root,
    )


@claim("C88", TABLE, "Anti-exponential shape: left-shifted Sigmoid, right-shifted sinh, log z for z > 0.")
def anti_exponential_shapes():
    slopes = sm.Log().slope(np.array([0.1, 1.0, 5.0]))
    links = [sm.Sigmoid().affine(beta=-4.0), sm.Sinh().affine(beta=4.0)]
    kinds = [focus_of(link, "link") for link in links] + [focus_of(sm.Log(), "link", (0.1, 5.0))]
    return found(
        "log: slope at .1, 1, 5: {slopes}; all three look at low scores",
        [kind == "low scores" for kind in kinds],
        near(slopes, [10.0, 1.0, 0.2], 1.0),
        slopes=slopes,
    )


@claim(
    "C89",
    TABLE,
    'Links on bounded domains: for example "z in [0, 1]" for the logit, "z in (-1, 1)" for arcsin and arctanh.',
    CONDITION,
    "arcsin is finite everywhere. logit, arctanh, -log(1 - z) and log allow predictions at an infinite end, never "
    "labels; tan allows neither.",
)
def ends_of_domains():
    allowed = {
        sm.Logit(): (0.5, 1.0), sm.Arctanh(): (0.0, 1.0), sm.NegLog1m(): (0.0, 1.0), sm.Log(): (1.0, 0.0),
        sm.Arcsin(): (0.0, 1.0),
    }  # fmt: skip
    losses = [sm.MatchingLoss(link)(end, inside) for link, (inside, end) in allowed.items()]
    labels = [bool(link.holds(end, interior=True)) for link, (_, end) in allowed.items()]
    tan = [sm.MatchingLoss(sm.Tan())(math.pi / 2 - gap, 0.0) for gap in (1e-3, 1e-6, 1e-12)]
    return found(
        "losses of predictions at the end: logit, arctanh, -log(1-z), log, arcsin {losses}; tan grows without bound: "
        "{tan}",
        agree(losses, [math.log(2.0), math.log(2.0), 1.0, 1.0, math.pi / 2 - 1.0], 1e-9),
        labels == [False, False, False, False, True],
        np.diff(tan) > 6.0,
        losses=losses,
        tan=tan,
    )
