"""Composite Sigmoid and Softmax: closed forms of the paper, anchors, parts, thresholds, refusals, extreme scores."""

import json
import math
import re
from pathlib import Path

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from score_pairs import generic_pairs

import selmatch as sm
from conftest import ARRAYS, SOFTMAXES
from selmatch import functions as f

COSH = sm.Cosh()
rng = np.random.default_rng(11)
ROWS = rng.normal(size=(2, 8, 3)) * 1.5
LINE = np.linspace(-3.1, 2.9, 13)


def close(actual, expected, rtol=1e-12, atol=0.0):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=atol)


def name_of(scaling):
    """A repr without addresses, which differ between the processes of pytest-xdist."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(scaling))


def unchecked(scaling, **options):
    return sm.MatchingLoss(sm.CompositeSoftmax(scaling, check=False, **options))


# ------------------------------------------------------------------------------------------------------- closed forms


def softmax(y):
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


alpha, beta, c = 0.7, 0.4, 2.5
x = alpha * (ROWS[0] - beta)
#: the scaling q, its antiderivative Q, the score-transform f = e^Q, and the probabilities as the appendix writes them
APPENDIX = {
    "double exponential": (
        sm.Exp().affine(alpha, beta, gain=alpha), lambda z: f.exp(alpha * (z - beta)), None, softmax(np.exp(x)),
    ),
    "add c": (
        sm.Sigmoid().affine(alpha, beta + math.log(c) / alpha, gain=alpha),
        lambda z: f.log(c + f.exp(alpha * (z - beta))), lambda z: c + f.exp(alpha * (z - beta)),
        (c + np.exp(x)) / (c + np.exp(x)).sum(-1, keepdims=True),
    ),
    "SoftCosh": (
        sm.Tanh().affine(alpha, beta, gain=alpha), lambda z: f.log(f.cosh(alpha * (z - beta))),
        lambda z: f.cosh(alpha * (z - beta)), np.cosh(x) / np.cosh(x).sum(-1, keepdims=True),
    ),
    "SoftSmeLU": (
        sm.SmeLU(c=1.0).affine(alpha, beta, gain=alpha), None, None,
        softmax(np.where(x <= -1, 0.0, np.where(x >= 1, x, (x + 1) ** 2 / 4))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APPENDIX)
def test_softmaxes_of_the_appendix_equal_their_closed_forms(name, array):
    q, Q, transform, prob = APPENDIX[name]
    z, zh = array(ROWS[0]), array(ROWS[1])
    potential = sm.CompositeSoftmax(q)
    close(potential.prob(z), prob, 1e-13)
    close(potential.link(z), np.asarray(q(ROWS[0])) * prob, 1e-12, 1e-15)
    if name == "add c":
        assert np.ptp(np.asarray(potential.score_transform(z)) / (c + np.exp(x))) < 1e-13
    loss = sm.MatchingLoss(potential)
    for given in ({"Q": Q}, {"f": transform}):
        if next(iter(given.values())) is not None and isinstance(z, np.ndarray):
            other = sm.CompositeSoftmax(**given)
            close(other.prob(z), prob, 1e-12)
            close(other.slope(z), potential.slope(z), 1e-9, 1e-12)
            close(sm.MatchingLoss(other)(zh, z), loss(zh, z), 1e-9)
            close(sm.MatchingLoss(other).grad(zh, z), loss.grad(zh, z), 1e-9, 1e-11)


def test_a_scaling_may_be_given_as_a_curve_of_q_or_of_its_primitive():
    for q, Q in ((sm.Sinh(), sm.Cosh()), (sm.Exp(), sm.Exp()), (sm.Constant(), sm.Identity())):
        close(sm.CompositeSoftmax(Q=Q).link(ROWS[0]), sm.CompositeSoftmax(q).link(ROWS[0]))
        close(sm.CompositeSigmoid(Q=Q)(LINE), sm.CompositeSigmoid(q)(LINE))


def test_the_add_c_sigmoid_is_a_shifted_sigmoid():
    z = LINE
    composite = sm.CompositeSigmoid(sm.Sigmoid().affine(alpha, beta, gain=alpha))  # Q = log(1 + e^x)
    x = alpha * (z - beta)
    close(composite.prob(z), (1 + np.exp(x)) / (2 + np.exp(x)))
    close(composite(z), alpha / (1 + 2 * np.exp(-x)))  # alpha sigma(x - log 2)
    close(composite.primitive(z), np.log(2 + np.exp(x)))
    plain = sm.MatchingLoss(sm.Sigmoid().affine(alpha, beta + math.log(2) / alpha, gain=alpha))
    close(sm.MatchingLoss(composite)(z, z[::-1], reduction="none"), plain(z, z[::-1], reduction="none"), 1e-12, 1e-16)


def test_the_sigmoid_scaling_is_a_standard_softmax_with_an_anchor():
    potential = sm.CompositeSoftmax(sm.Sigmoid())  # H = log(K + sum e^z) (C40)
    close(potential.primitive(ROWS[0]), np.log(3 + np.exp(ROWS[0]).sum(-1)))
    anchored = sm.MatchingLoss(sm.CompositeSoftmax(anchor=math.log(3)))
    close(sm.MatchingLoss(potential)(*ROWS, reduction="none"), anchored(*ROWS, reduction="none"))


@pytest.mark.parametrize("potential", SOFTMAXES, ids=repr)
def test_potential_link_and_probabilities_are_those_of_the_definition(potential):
    s = generic_pairs(sm.MatchingLoss(potential))[1]
    gamma, rho = potential.gamma, np.asarray(potential.rho or (1.0, 1.0, 1.0))
    y = (potential.scaling.primitive(s) + np.log(rho)) / gamma
    fixed = 0.0 if potential.anchor is None else np.exp(potential.anchor / gamma)
    total = np.exp(y).sum(-1, keepdims=True) + fixed
    p, q = np.exp(y) / total, potential.scaling(s)
    close(potential.prob(s), p, 1e-11)
    close(potential.link(s), q * p, 1e-11)
    close(potential.primitive(s), gamma * np.log(total[:, 0]), 1e-11, 1e-13)
    hessian = -(q * p)[:, :, None] * (q * p)[:, None, :] / gamma
    hessian += (p * (potential.scaling.slope(s) + q**2 / gamma))[:, :, None] * np.eye(3)
    size = np.abs(p * q**2 / gamma).max()
    close(potential.hessian(s), hessian, 1e-9, 1e-12 * size)
    close(potential.slope(s), np.diagonal(hessian, axis1=1, axis2=2), 1e-9, 1e-12 * size)
    v = ROWS[0][: len(s)][np.arange(len(s)) % 8]
    close(potential.hvp(s, v), (potential.hessian(s) @ v[:, :, None])[:, :, 0], 1e-9, 1e-11 * size)
    assert (np.linalg.eigvalsh(potential.hessian(s)) >= -1e-12 * size).all()


# -------------------------------------------------------------------------------------------- anchors, shifts, limits


@pytest.mark.parametrize("scaling", [sm.Sinh(), sm.Exp(), sm.Tanh(), sm.SmeLU(), sm.Constant(), COSH], ids=repr)
@pytest.mark.parametrize("gamma", [0.5, 1.25])
def test_the_composite_sigmoid_is_an_anchored_softmax_with_one_class(scaling, gamma, array):
    curve = sm.CompositeSigmoid(scaling, gamma)
    potential = sm.CompositeSoftmax(scaling, gamma, anchor=0.0, check=scaling is not COSH)
    z, zh = array(LINE), array(LINE[::-1].copy())
    close(potential.prob(z[:, None])[:, 0], curve.prob(z), 1e-13)
    close(potential.link(z[:, None])[:, 0], curve(z), 1e-13, 1e-300)
    close(potential.slope(z[:, None])[:, 0], curve.slope(z), 1e-11, 1e-15)
    one, other = sm.MatchingLoss(curve), sm.MatchingLoss(potential)
    size = np.abs(np.asarray(curve(z))) + np.abs(np.asarray(curve(zh)))
    close(other(zh[:, None], z[:, None], reduction="none"), one(zh, z, reduction="none"), 1e-11, 1e-14)
    slopes = np.asarray(other.grad(zh[:, None], z[:, None]))[:, 0], np.asarray(one.grad(zh, z))
    np.testing.assert_array_less(np.abs(slopes[0] - slopes[1]), 1e-12 * size + 1e-300)


def test_only_the_standard_softmax_does_not_see_a_common_shift():
    standard = sm.MatchingLoss(sm.CompositeSoftmax(gamma=0.5))
    close(standard(ROWS[0] + 7.0, ROWS[1] + 7.0), standard(*ROWS))
    close(standard(ROWS[0] + 7.0, ROWS[1]), standard(*ROWS))
    for scaling in (sm.Sinh(), sm.Exp(), sm.Sigmoid()):
        loss = sm.MatchingLoss(sm.CompositeSoftmax(scaling))
        assert abs(loss(ROWS[0] + 1.0, ROWS[1] + 1.0) / loss(*ROWS) - 1) > 0.02


def test_class_biases_are_shifts_of_the_log_scores(array):
    z, zh = array(ROWS[0]), array(ROWS[1])
    rho = (0.5, 1.0, 3.0)
    biased = sm.MatchingLoss(sm.CompositeSoftmax(gamma=0.5, rho=rho))
    shift = array(np.log(rho))
    close(biased(zh, z), sm.MatchingLoss(sm.CompositeSoftmax(gamma=0.5))(zh + shift, z + shift))
    doubled = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh(), rho=(2.0, 2.0, 2.0)))
    close(doubled(zh, z), sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))(zh, z))


def test_a_constant_in_q_changes_the_sigmoid_and_not_the_softmax():
    for scaling in (sm.Sinh(), sm.Tanh()):
        raised = sm.CompositeSoftmax(Q=lambda z, q=scaling: q.primitive(z) + 3.0, gamma=0.5)
        close(raised.prob(ROWS[0]), sm.CompositeSoftmax(scaling, gamma=0.5).prob(ROWS[0]))
    plain, lowered = sm.CompositeSigmoid(sm.Sinh()), sm.CompositeSigmoid(sm.Sinh(), offset=-2.0)
    assert plain(1.0) == pytest.approx(0.968, abs=5e-4)  # C31
    assert lowered(1.0) == pytest.approx(0.456, abs=5e-4)
    assert sm.MatchingLoss(plain)(2.0, 1.0) == pytest.approx(1.080, abs=5e-4)
    assert sm.MatchingLoss(lowered)(2.0, 1.0) == pytest.approx(0.974, abs=5e-4)


def test_for_large_gamma_the_loss_is_the_mean_of_separable_losses():
    separable = sm.MatchingLoss(sm.Separable(sm.Sinh()))(*ROWS, reduction="none")
    for gamma, near in ((1e3, 0.2), (1e6, 2e-4), (1e9, 2e-7)):
        close(sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh(), gamma))(*ROWS, reduction="none"), separable / 3, near)


def test_for_small_gamma_the_largest_log_score_takes_all():
    z = np.array([3.0, 1.0, -1.0])
    close(sm.CompositeSoftmax(gamma=1e-3).prob(z), [1.0, 0.0, 0.0], 0.0, 1e-300)
    close(sm.CompositeSoftmax(sm.Sinh(), gamma=1e-3).primitive(z), math.cosh(3.0))
    close(sm.CompositeSoftmax(gamma=1e6).prob(z), [1 / 3] * 3, 1e-5)


def test_numbers_of_the_ledger():
    delta = sm.CompositeSoftmax(sm.Tanh()).slope(np.array([-3.0, 0.0, 3.0]))
    close(delta, [0.252, 0.047, 0.252], 0.0, 5e-4)  # C72
    close(
        sm.CompositeSoftmax(sm.Tanh(), gamma=10.0).slope(np.array([-3.0, 0.0, 3.0])), [0.026, 0.284, 0.026], 0.0, 5e-4
    )
    close(sm.CompositeSoftmax(sm.Sinh()).slope(np.array([-3.0, 0.0, 3.0])), [30.1, 5.8e-5, 30.1], 2e-2)  # C75
    clipped = sm.MatchingLoss(sm.CompositeSoftmax(sm.SmeLU()))  # C73
    assert clipped([-5.0, 2.0], [-6.0, 1.0]) == clipped([-9.0, 2.0], [-6.0, 1.0])
    high = sm.CompositeSoftmax(gamma=1e3).prob(np.array([3.0, 1.0, 0.0]))
    close(high, [0.3339, 0.3332, 0.3329], 0.0, 1e-4)


@pytest.mark.parametrize("potential", [*SOFTMAXES, sm.CompositeSigmoid(sm.Sinh()), sm.CompositeSigmoid(COSH)], ids=repr)
def test_a_loss_is_its_ranking_part_plus_its_region_part(potential):
    loss = sm.MatchingLoss(potential)
    s_hat, s = generic_pairs(loss)
    for reduction in ("none", "mean", "sum"):
        ranking, region = loss.parts(s_hat, s, reduction=reduction)
        close(ranking + region, loss(s_hat, s, reduction=reduction), 1e-13)
    ranking, region = loss.parts(s_hat, s, reduction="none")
    assert (ranking >= 0).all()
    if potential.scaling is not COSH:
        assert (region >= 0).all()
        assert (region == 0).all() or potential.scaling != sm.Constant()
    p, ph = potential.prob(s), potential.prob(s_hat)
    if loss.vector:
        fixed = 1 - p.sum(-1), 1 - ph.sum(-1)
        anchored = potential.anchor is not None
        kl = (p * np.log(p / ph)).sum(-1) + (fixed[0] * np.log(fixed[0] / fixed[1]) if anchored else 0.0)
    else:
        kl = p * np.log(p / ph) + (1 - p) * np.log((1 - p) / (1 - ph))
    close(ranking, potential.gamma * kl, 1e-6, 1e-13)


# -------------------------------------------------------------------------------------------- refusals and thresholds


def test_on_the_diagonal_the_potential_is_q_itself():
    for gamma in (0.1, 0.5, 0.7071, 1.0):
        loss = unchecked(COSH, gamma=gamma)
        assert loss([0.0] * 3, [-2.0] * 3) == pytest.approx(-3.897530974, abs=5e-10)  # C56
        assert loss([-3.0] * 2, [-1.0] * 2) == pytest.approx(-5.756512464, abs=5e-10)
        assert loss([-2.0] * 3, [-1.0] * 3) == pytest.approx(-0.909, abs=5e-4)
        assert unchecked(sm.AbsPower(d=1.0, c=2.0), gamma=gamma)([0.0] * 2, [-1.5] * 2) == pytest.approx(-1.125)
    assert np.linalg.eigvalsh(unchecked(COSH).potential.hessian(np.full(3, -1.0)))[0] == pytest.approx(
        -0.3917, abs=5e-5
    )


NOT_CONVEX = [
    COSH, COSH.affine(alpha=0.5, beta=2.0), COSH.affine(alpha=3.0, gain=0.1), sm.AbsPower(d=1.0, c=2.0),
    sm.AbsPower(d=2.5, c=0.5).affine(beta=-4.0), sm.FromLink(lambda z: -z), sm.FromLink(f.cos),
    sm.FromPrimitive(lambda z: f.log(1.0 + f.square(z))), sm.FromScoreTransform(lambda z: 1.0 + f.square(z)),
    sm.Sinh() + COSH.affine(gain=2.0),
]  # fmt: skip


@pytest.mark.parametrize("scaling", NOT_CONVEX, ids=name_of)
@pytest.mark.parametrize("gamma", [0.1, 2.0])
def test_a_q_that_is_not_convex_is_refused_with_a_witness_that_is_true(scaling, gamma):
    with pytest.raises(ValueError, match=r"^CompositeSoftmax: Q of .* must be convex for many classes") as caught:
        sm.CompositeSoftmax(scaling, gamma)
    number = r"(-?[\d.e+-]+)"
    found = re.search(
        rf"got L\(s_hat = \({number}, .*\), s = \({number}, .*\)\) = {number} < 0, with every gamma",
        str(caught.value),
    )
    if found is None:  # the divergence is not known to the digits that would be shown: then q itself falls
        a, above, b, below = map(
            float, re.search(rf"got q\({number}\) = {number} > q\({number}\) = {number}\.", str(caught.value)).groups()
        )
        assert a < b
        assert (float(scaling(a)), float(scaling(b))) == pytest.approx((above, below), rel=1e-5)
        assert scaling(a) > scaling(b)
        return
    s_hat, s, value = map(float, found.groups())
    assert value < 0
    assert unchecked(scaling, gamma=gamma)([s_hat] * 3, [s] * 3) == pytest.approx(value, rel=1e-4)
    assert "check=False builds the loss for research." in str(caught.value)


@pytest.mark.parametrize("scaling", [COSH, COSH.affine(alpha=2.0, gain=0.1), sm.AbsPower(d=1.0, c=2.0)], ids=repr)
def test_the_remedy_of_a_refusal_works(scaling):
    with pytest.raises(ValueError, match="For one score: ") as caught:
        sm.CompositeSoftmax(scaling)
    remedy = re.search(r"For one score: (.*?)\. check=False", str(caught.value))[1]
    assert sm.MatchingLoss(eval(remedy, vars(sm).copy()))([1.0, 2.0], [-1.0, 0.5]) > 0


def test_an_anchor_does_not_save_a_q_that_is_not_convex():
    with pytest.raises(ValueError, match=r"also with an anchor, got D_Q\(.*; .*\) = -.* < 0"):
        sm.CompositeSoftmax(COSH, anchor=0.0)


@pytest.mark.parametrize(
    "scaling",
    [
        sm.FromLink(lambda z: z + f.tanh(z)), sm.FromPrimitive(lambda z: f.exp(z) + f.square(z)),
        sm.FromScoreTransform(lambda z: 1.0 + f.exp(z)), sm.Sinh() + COSH.affine(gain=0.5),
    ],
    ids=name_of,
)  # fmt: skip
def test_a_convex_q_of_a_user_is_accepted(scaling):
    loss = sm.MatchingLoss(sm.CompositeSoftmax(scaling, gamma=0.5))
    assert (loss(*ROWS, reduction="none") >= 0).all()


@pytest.mark.parametrize(("alpha", "gain"), [(1.0, 1.0), (0.5, 1.0), (2.0, 3.0)])
def test_the_largest_gamma_of_cosh_is_sharp(alpha, gain):
    scaling, largest = COSH.affine(alpha=alpha, gain=gain), 1.325281340017050 * gain / alpha
    sm.CompositeSigmoid(scaling, gamma=largest * (1 - 1e-12))
    with pytest.raises(ValueError, match=rf"CompositeSigmoid: gamma must be <= {largest:.10g} for Cosh.*, got "):
        sm.CompositeSigmoid(scaling, gamma=largest * (1 + 1e-9))
    z = np.linspace(-3, 3, 6001) / alpha
    assert sm.CompositeSigmoid(scaling, gamma=largest * (1 - 1e-9)).slope(z).min() >= 0
    assert sm.CompositeSigmoid(scaling, gamma=largest * (1 + 1e-4), check=False).slope(z).min() < 0


THRESHOLDS = json.loads((Path(__file__).parent / "golden" / "thresholds.json").read_text())


@pytest.mark.parametrize(("gamma", "d", "least", "sufficient"), THRESHOLDS["poly"], ids=str)
def test_the_least_c_of_absolute_powers_is_sharp(gamma, d, least, sufficient):
    least = float(least)
    for c in (least * (1 + 1e-9), float(sufficient) * (1 + 1e-9)):
        assert sm.MatchingLoss(sm.CompositeSigmoid(sm.AbsPower(d=d, c=c), gamma))(-2.0, 1.0) > 0
    with pytest.raises(ValueError, match="CompositeSigmoid: gamma must be <= "):
        sm.CompositeSigmoid(sm.AbsPower(d=d, c=least * (1 - 1e-7)), gamma)


def test_a_link_of_a_user_that_falls_is_refused_with_a_witness_that_is_true():
    with pytest.raises(ValueError, match=r"must not decrease, got h\(.*\) = .* > h\(.*\) = .*check=False") as caught:
        sm.CompositeSigmoid(sm.FromLink(f.cosh), gamma=1.6)
    (a, ha), (b, hb) = ((float(z), float(h)) for z, h in re.findall(r"h\((\S+)\) = (\d\.\d+)", str(caught.value)))
    curve = sm.CompositeSigmoid(COSH, gamma=1.6, check=False)
    assert (curve(a), curve(b)) == pytest.approx((ha, hb), rel=1e-4)
    assert a < b
    assert curve(a) > curve(b)
    sm.CompositeSigmoid(sm.FromLink(f.cosh), gamma=1.0)


@pytest.mark.parametrize(
    "potential",
    [
        sm.CompositeSoftmax(COSH, gamma=0.5, rho=(1.0, 2.0), anchor=0.25, check=False), sm.CompositeSoftmax(),
        sm.CompositeSigmoid(COSH.affine(alpha=2.0), gamma=5.0, offset=1.0, check=False), sm.Separable(sm.Sinh()),
        sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0), gamma=2.0), sm.CompositeSigmoid(COSH, gamma=1.3),
    ],
    ids=repr,
)  # fmt: skip
def test_reprs_can_be_pasted_back(potential):
    assert eval(repr(potential), vars(sm).copy()) == potential
    assert ("check=False" in repr(potential)) == (getattr(potential, "check", True) is False)
    loss = sm.MatchingLoss(potential)
    assert eval(repr(loss), vars(sm).copy()) == loss
    assert hash(eval(repr(loss), vars(sm).copy())) == hash(loss)


# ----------------------------------------------------------------------------------------------------- extreme scores


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("potential", [sm.Constant(), sm.Identity(), sm.Sigmoid(), sm.Tanh(), sm.SmeLU()], ids=repr)
def test_extreme_scores_stay_finite(potential, gamma, dtype):
    scores = np.array([0.0, 1e-30, -1e-3, 1.0, -30.0, 1e3, -1e3], dtype=dtype)
    s_hat, s = (a.reshape(-1) for a in np.meshgrid(scores, scores))
    rows = np.stack([s_hat, s, np.roll(s, 3)], -1), np.stack([s, s_hat, s_hat], -1)
    for loss, x in (
        (sm.MatchingLoss(sm.CompositeSoftmax(potential, gamma)), rows),
        (sm.MatchingLoss(sm.CompositeSoftmax(potential, gamma, anchor=1.0, rho=(0.5, 1.0, 2.0))), rows),
        (sm.MatchingLoss(sm.CompositeSigmoid(potential, gamma)), (s_hat, s)),
    ):
        value, slope = loss.value_and_grad(*x)
        assert value.dtype == slope.dtype == dtype
        assert np.isfinite(value).all()
        assert np.isfinite(slope).all()
        assert (value >= 0).all()
        a, b = (torch.tensor(z) for z in x)
        a.requires_grad_()
        loss(a, b, reduction="sum").backward()
        assert torch.isfinite(a.grad).all()
        for method in (loss.curvature, lambda z, loss=loss: loss.hvp(z, z)):
            assert np.isfinite(method(x[0])).all()


def test_log_scores_of_a_million_keep_their_digits():
    mpmath.mp.dps = 40
    s_hat, s = [1400.0, 1000.25, -3.0], [1.5, 1413.0, 2.0]
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Identity()))  # Q = z^2/2, up to 1e6
    a, b = ([mpmath.mpf(z) for z in row] for row in (s_hat, s))
    p = [mpmath.exp(z * z / 2 - b[1] ** 2 / 2) for z in b]
    link = [z * w / sum(p) for z, w in zip(b, p, strict=True)]
    potentials = [
        z[i] ** 2 / 2 + mpmath.log(sum(mpmath.exp(t * t / 2 - z[i] ** 2 / 2) for t in z)) for z, i in ((a, 0), (b, 1))
    ]
    exact = potentials[0] - potentials[1] - sum((x - y) * h for x, y, h in zip(a, b, link, strict=True))
    assert loss(s_hat, s) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_hundred_thousand_classes(framework):
    s = np.random.default_rng(0).normal(size=(2, 100_000)) * 3
    s_hat = s + np.random.default_rng(1).normal(size=s.shape) * 0.1
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), gamma=0.5))
    array = ARRAYS[framework]
    value, slope = loss.value_and_grad(array(s_hat), array(s))
    assert np.isfinite(np.asarray(value)).all()
    close(np.asarray(slope).sum(-1), (loss.potential.link(s_hat) - loss.potential.link(s)).sum(-1), 1e-9)
    assert loss.hvp(array(s_hat), array(s)).shape == s.shape
    single = loss(array(s_hat), array(s), where=array(np.arange(100_000) < 3)[None] != 0)
    close(single, loss(s_hat[:, :3], s[:, :3]))


@pytest.mark.parametrize("make", [lambda x: torch.tensor(x).bfloat16(), lambda x: jnp.asarray(x, jnp.bfloat16)])
def test_bfloat16_is_one_rounding_away(make):
    s_hat, s = make(ROWS[0]), make(ROWS[1])
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh(), gamma=0.5))
    wide = (np.asarray(z.float() if isinstance(z, torch.Tensor) else z.astype(float), dtype=float) for z in (s_hat, s))
    value = loss(s_hat, s, reduction="none")
    value = value.float() if isinstance(value, torch.Tensor) else value.astype(float)
    close(value, loss(*wide, reduction="none"), 2.0**-8)


@pytest.mark.parametrize("scaling", [sm.Sinh().affine(0.5, -1.0), sm.Identity(), sm.Exp(), sm.AntiExp()], ids=name_of)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_far_away_are_differences_of_links(scaling, dtype):
    """Moves of Q by 1e43 and more: their difference from the divergence says nothing of a ratio of probabilities."""
    softmax = sm.CompositeSoftmax(scaling)
    for far in (40.0, -40.0, 80.0, -80.0, *((234.0, -234.0, 600.0, -600.0) if dtype is np.float64 else ())):
        s, s_hat = np.zeros(3, dtype), np.array([far, 0.0, 0.0], dtype)
        value, gradient = sm.MatchingLoss(softmax).value_and_grad(s_hat, s)
        assert np.isfinite(value)
        tolerance = {np.float32: 3e-6, np.float64: 1e-13}[dtype]
        # probabilities themselves are known to eps |Q|: here they are 0, 1/2, 1/3 or 1
        np.testing.assert_allclose(gradient, softmax.link(s_hat) - softmax.link(s), rtol=tolerance, atol=0)


@pytest.mark.parametrize("low", [-1e2, -1e4, -1e9, -3e38])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_class_that_the_teacher_rules_out_leaves_the_others_exact(low, dtype):
    s_hat, s = np.array([[0.3, -2.0, 1.0]], dtype), np.array([[0.0, -1.0, low]], dtype)
    loss = sm.MatchingLoss(sm.CompositeSoftmax())
    p, q = (np.exp(z - np.logaddexp.reduce(z)) for z in (s[0].astype(float), s_hat[0].astype(float)))
    expected = np.sum(p[:2] * np.log(p[:2] / q[:2]))
    tolerance = 8 * float(np.finfo(dtype).eps)
    assert loss(s_hat, s, reduction="none")[0] == pytest.approx(expected, rel=tolerance)
    np.testing.assert_allclose(loss.grad(s_hat, s)[0], q - p, rtol=0, atol=tolerance)
