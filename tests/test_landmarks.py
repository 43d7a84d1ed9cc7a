"""Narrow steep regions are found, named and drawn, wherever they are and however narrow."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import selmatch as sm
from selmatch import plots
from selmatch.analysis import region_report
from selmatch.classification import classify
from selmatch.landmarks import steep_regions, telling_scores

LOW, HIGH = -3.0, 3.0
#: curves with a bounded slope, and curves that grow, which may not be made as steep
CALM = (sm.Identity(), sm.Sigmoid(), sm.Tanh(), sm.Arctan(), sm.Arcsinh(), sm.SignedLog(), sm.SmeLU(), sm.Huber(),
        sm.ReLU(), sm.SignedPower(3.0), sm.Sin().capped(-1.5, 1.5), sm.CompositeSigmoid(sm.Constant()))  # fmt: skip
GROWING = (sm.Exp(), sm.AntiExp(), sm.Sinh())


@st.composite
def terms(draw):
    growing = draw(st.booleans()) and draw(st.booleans())
    curve = draw(st.sampled_from(GROWING if growing else CALM))
    alpha = 10.0 ** draw(st.floats(-1.0, 1.3 if growing else 4.0))
    gain = 10.0 ** draw(st.floats(-2.0, 2.0)) / alpha ** draw(st.floats(0.0, 1.0))
    return curve.affine(alpha=alpha, beta=draw(st.floats(LOW, HIGH)), gain=gain)


def dense_slopes(curve, terms):
    """The slope on a grid that is dense on the scale of every term, around its centre."""
    around = [term.beta + np.linspace(-6.0, 6.0, 1201) / term.alpha for term in terms]
    z = np.unique(np.concatenate([np.linspace(LOW, HIGH, 1201), *around]))
    z = z[(z >= LOW) & (z <= HIGH)]
    return z, curve.slope(z)


@given(st.lists(terms(), min_size=1, max_size=3))
def test_extremes_of_random_sums_agree_with_a_dense_grid(terms):
    curve = sm.Sum(tuple(terms))
    z, exact = dense_slopes(curve, terms)
    z_told = telling_scores(curve, LOW, HIGH)
    told = curve.slope(z_told)
    room = 1e-12 * exact.max()  # of a slope that underflows beside the steepest one
    assert told.max() == pytest.approx(exact.max(), rel=0.03)
    assert told.min() == pytest.approx(exact.min(), rel=0.04, abs=room)
    found, dense = steep_regions(z_told, told), steep_regions(z, exact)
    top = int(np.argmax(exact))
    for region in dense:
        if region.at == z[top] and region.high - region.low < 0.04 * (HIGH - LOW):
            assert any(r.low <= region.at <= r.high and r.sensitivity > 0.97 * exact.max() for r in found), region


KINDS = {
    "sum": lambda a, b: sm.Identity() + sm.Tanh().affine(a, b),
    "formula": lambda a, b: sm.FromLink(lambda z: z + sm.functions.tanh(a * (z - b))),
    "parsed": lambda a, b: sm.parse(f"z + tanh({a}*(z - {b}) + (z - {b})^3)"),
}


SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in (("formula", 1e4), ("parsed", 20.0), ("parsed", 1e3))]


@pytest.mark.parametrize(("kind", "alpha"), [("sum", 20.0), ("sum", 1e4), *SLOW])
def test_a_narrow_region_is_named_and_drawn(kind, alpha):
    """By its structure, or where only a formula is known by its rise."""
    beta = 0.3141
    curve = KINDS[kind](alpha, beta)
    loss, most = sm.MatchingLoss(curve, check=False), 1.0 + alpha
    explanation, found = loss.explain(), classify(loss)
    assert explanation.curvature == pytest.approx((1.0, most), rel=0.03)
    assert found.extremes == pytest.approx((1.0, most), rel=0.03)
    for regions, words in ((explanation.narrow, str(explanation)), (found.narrow, str(found))):
        (region,) = regions
        assert region.sensitivity == pytest.approx(most, rel=0.03)
        assert region.low <= beta <= region.high
        assert region.high - region.low < 5.0 / alpha
        assert re.search(r"[Nn]arrow.*up to .* at 0\.3", words)
    if kind == "sum":
        data = np.linspace(-2.0, 1.0, 4)  # none of them in the region, which is crossed all the same
        explanation = loss.explain(data)
        assert explanation.curvature[1] < 1.1
        assert len(explanation.narrow) == 1
        assert not explanation.simpler
        report = region_report(loss, domain=(LOW, HIGH))
        assert [len(region.narrow) for region in report.regions] == [0, 1, 0]
        assert report.regions[1].narrow[0].sensitivity == pytest.approx(most, rel=0.03)
        assert "narrow part" in str(report)
    axes = plots.sensitivity(loss)
    (z, drawn) = axes.lines[0].get_data()
    assert drawn.max() == pytest.approx(most, rel=0.03)
    assert z[np.argmax(drawn)] == pytest.approx(beta, abs=1.0 / alpha)
    assert np.abs(np.diff(drawn)).max() <= 0.03 * most  # no corner cut
    labels = re.findall(r">([0-9.e+]+)</text>", loss._repr_html_())
    assert max(map(float, labels)) == pytest.approx(most, rel=0.03)


def test_the_rise_of_a_formula_shows_what_its_slope_on_a_grid_does_not():
    curve = KINDS["formula"](1e4, 0.3141)
    z = telling_scores(curve, LOW, HIGH)
    with np.errstate(over="ignore"):
        (region,) = steep_regions(z, curve.slope(z))
    assert region.sensitivity == pytest.approx(1e4 + 1.0, rel=0.03)
    assert region.low <= 0.3141 <= region.high


def test_of_many_classes_too():
    softmax = sm.CompositeSoftmax(sm.Identity() + sm.Tanh().affine(alpha=1e3, beta=1.25), gamma=2.0)
    z = np.linspace(1.24, 1.26, 2001)
    rows = np.stack([z, 0.0 * z, 0.0 * z], axis=-1)
    slopes = softmax.slope(rows)[:, 0]
    explanation, found = sm.MatchingLoss(softmax).explain(), classify(softmax)
    for regions in (explanation.narrow, found.narrow):
        (region,) = regions
        assert region.sensitivity == pytest.approx(slopes.max(), rel=0.03)
        assert region.low <= 1.25 <= region.high
    assert found.extremes[1] == pytest.approx(slopes.max(), rel=0.03)


def test_what_is_wide_is_not_called_narrow():
    for curve in (sm.Sigmoid(), sm.Sinh(), sm.Exp().affine(alpha=3.0), sm.SmeLU(), sm.Step(), sm.SignedPower(0.5)):
        assert sm.MatchingLoss(curve).explain().narrow == ()
        assert classify(curve).narrow == ()


def test_an_infinite_sensitivity_is_said_to_be_infinite():
    explanation = sm.MatchingLoss(sm.SignedPower(0.5)).explain()
    assert explanation.curvature == (0.25, np.inf)
    assert "Curvature: 0.25 to infinite." in str(explanation)


def test_short_flat_pieces_are_found_where_the_structure_names_them():
    curve = sm.SmeLU(c=1.0).affine(beta=-1.0) + sm.SmeLU(c=1.0).affine(beta=1.0 + 1e-3)
    (short,) = classify(curve, (-1.5, 1.5)).clips
    assert short == pytest.approx((0.0, 1e-3))


def test_a_narrow_fall_is_seen():
    falling = sm.Identity() + sm.FromLink(lambda z: -3e-3 * sm.functions.tanh(1e3 * (z - 0.3141)))
    assert classify(falling).monotone is None


def test_a_narrow_fall_of_a_part_is_a_witness():
    """No search with intervals is needed: the part that falls names the place."""
    part = sm.FromLink(lambda z: -2e-3 * sm.functions.tanh(z)).affine(alpha=1e4, beta=0.3141)
    with pytest.raises(ValueError, match="must not decrease"):
        sm.MatchingLoss(sm.Identity() + part)
