"""Pictures know their numbers: what is drawn is read back from lines, bars and polygons."""

import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import ScalarFormatter

import selmatch as sm
from conftest import CURVES, JUMPING, VECTORS
from selmatch import plots
from selmatch.comparison.result import Estimate
from selmatch.plots.diagnostics import far_rows
from selmatch.plots.domains import jumps_in, shown, traced, typical_observations, typical_scores
from selmatch.plots.style import short_numbers

SOFTMAX = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0))
SCORES = (-3.0, 0.0, 3.0)
SCORES_OF_GRADES = (0.0, 2.0, 4.0)


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return Figure().subplots()


def curves_of(ax):
    """The lines of some length: not marks, levels and zero lines."""
    return [line for line in ax.lines if len(line.get_xdata()) > 2]


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ------------------------------------------------------------------------------------------------------- the loss


@pytest.mark.parametrize(
    ("curve", "s_hat", "s"),
    [(sm.Sigmoid(), 2.0, -1.0), (sm.Sinh(), -2.0, 1.0), (sm.Staircase((-1.0, 1.0), (1.0, 2.0)), 1.7, -2.0),
     (sm.Logit(), 0.9, 0.2), (sm.Huber(), -3.0, 0.5)],
)  # fmt: skip
def test_the_shaded_area_is_the_loss(ax, curve, s_hat, s):
    assert plots.area(curve, s_hat, s, ax=ax) is ax
    (shaded,) = ax.collections
    x, y = shaded.get_paths()[0].vertices.T
    polygon = 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    assert polygon == pytest.approx(sm.MatchingLoss(curve)(s_hat, s), rel=1e-3)
    assert f"{sm.MatchingLoss(curve)(s_hat, s):.4g}" in ax.texts[-1].get_text()


def test_link_is_solid_and_its_slope_dashed(ax):
    curve = sm.Sinh().affine(alpha=0.5, beta=1.0)
    plots.link(curve, domain=(-2, 3), ax=ax)
    link, slope = ax.lines
    for line, function, dashes in ((link, curve, "-"), (slope, curve.slope, "--")):
        z, y = line.get_xydata().T
        np.testing.assert_allclose(y, function(z), rtol=1e-15)
        assert (z[0], z[-1], line.get_linestyle()) == (-2.0, 3.0, dashes)
    assert len(plots.link(curve, sensitivity=False, color="black", linewidth=3.0).lines) == 1


def test_line_style_passes_through(ax):
    plots.link(sm.Exp(), ax=ax, color="#123456", linewidth=3.0)
    assert {(line.get_color(), line.get_linewidth()) for line in ax.lines} == {("#123456", 3.0)}


@pytest.mark.parametrize(
    "loss",
    [sm.MatchingLoss(sm.Sigmoid().affine(beta=2.0)), sm.Sinh(), sm.CrossEntropy(sm.CompositeSigmoid(sm.Exp())),
     sm.ReweightedSquare(low=-3.0, kappa=0.5, delta=0.5)],
    ids=lambda loss: type(loss).__name__,
)  # fmt: skip
def test_each_loss_curve_is_least_at_its_observed_score(ax, loss):
    plots.losses(loss, domain=(-4, 4), ax=ax)
    function = loss if not isinstance(loss, sm.Curve) else sm.MatchingLoss(loss)
    lines, marks = ax.lines[::2], ax.lines[1::2]
    for s, line, mark in zip(SCORES, lines, marks, strict=True):
        z, y = line.get_xydata().T
        np.testing.assert_allclose(y, function(z, np.full_like(z, s), reduction="none"), rtol=1e-12, atol=1e-15)
        assert y.min() == pytest.approx(function(s, s), abs=1e-15)
        assert mark.get_xydata().tolist() == [[s, pytest.approx(y.min())]]
        assert line.get_color() == plots.colour_of(s)
        assert mark.get_marker() == plots.marker_of(s)
    assert labels(ax) == ["$s = -3$", "$s = 0$", "$s = 3$"]


def test_weights_by_prediction_are_no_loss(ax):
    plots.losses(sm.ReweightedSquare(by="predicted", low=-3.0), observed=(0.0,), domain=(-6, 4), ax=ax)
    assert ax.lines[0].get_ydata().min() < 0.0
    assert ax.lines[1].get_xydata().tolist() == [[0.0, 0.0]]


def test_scores_have_colours_and_marks_of_their_own():
    names = ("vermillion", "bluish green", "blue")
    for scores in (SCORES, (10.0, 20.0, 300.0)):
        assert [plots.colour_of(s, scores) for s in scores] == [plots.COLOURS[name] for name in names]
    many = tuple(range(7))
    assert len({plots.colour_of(s, many) for s in many}) == len({plots.marker_of(s, many) for s in many}) == 7


def test_scaling_and_probability_of_composite_losses(ax):
    sigmoid = sm.CompositeSigmoid(sm.Exp(), gamma=0.5)
    plots.scaling(sigmoid, ax=ax)
    plots.probability(sm.CrossEntropy(sigmoid), ax=ax)
    for line, function in zip(ax.lines, (sm.Exp(), sigmoid.prob), strict=True):
        np.testing.assert_allclose(line.get_ydata(), function(line.get_xdata()), rtol=1e-15)
    plots.probability(SOFTMAX, scores=SCORES)
    with pytest.raises(TypeError, match=r"probability: the potential must be a CompositeSigmoid.*Give scores"):
        plots.probability(SOFTMAX)
    with pytest.raises(TypeError, match="scaling: the potential must be a CompositeSigmoid or CompositeSoftmax"):
        plots.scaling(sm.Exp())


def test_sensitivity_over_the_data_with_the_wish_shaded(ax):
    scores = np.random.default_rng(0).lognormal(3.0, 1.0, 4000)
    loss = sm.focus("high", data=scores)
    plots.sensitivity(loss, data=scores, ax=ax)
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), sm.sensitivity(loss, line.get_xdata()), rtol=1e-15)
    behind = next(other for other in ax.figure.axes if other is not ax)
    low, high = ax.get_xlim()
    assert sum(bar.get_height() for bar in behind.patches) == np.sum((scores >= low) & (scores <= high))
    assert np.mean((scores < low) | (scores > high)) == pytest.approx(0.01, abs=1e-3)
    assert behind.get_yticks().size == 0
    (shaded,) = ax.patches
    assert shaded.get_x() == loss.wish.regions[0][0]
    assert shaded.get_x() + shaded.get_width() == high


@pytest.mark.parametrize("curve", JUMPING, ids=repr)
def test_jumps_are_upright_and_have_arrows(ax, curve):
    (low, high), places = curve.window(), getattr(curve, "thresholds", (0.0,))
    points = traced(curve, low, high)
    np.testing.assert_allclose(jumps_in(points), places, atol=1e-12)
    plots.sensitivity(curve, ax=ax)
    assert [float(np.round(line.get_xdata()[0], 9)) for line in ax.lines[1:]] == [pytest.approx(t) for t in places]


def test_a_pole_is_a_gap_and_does_not_set_the_scale():
    z, y = traced(sm.SignedPower(0.5).slope, -4.0, 4.0).T
    assert np.isnan(y[z == 0.0]).all()
    assert np.nanmax(y) < 10.0


# --------------------------------------------------------------------------------------------------- many classes


@pytest.mark.parametrize("of", ["loss", "link", "slope", "probability"])
def test_projections_move_one_class(ax, of):
    plots.projections(SOFTMAX, SCORES, ax=ax, of=of)
    loss = sm.MatchingLoss(SOFTMAX)
    for k, (s, line, mark) in enumerate(zip(SCORES, ax.lines[::2], ax.lines[1::2], strict=True)):
        z, y = line.get_xydata().T
        rows = np.tile(SCORES, (z.size, 1))
        rows[:, k] = z
        expected = {
            "loss": lambda rows: loss(rows, np.tile(SCORES, (len(rows), 1)), reduction="none"),
            "link": lambda rows, k=k: SOFTMAX.link(rows)[:, k],
            "slope": lambda rows, k=k: sm.sensitivity(SOFTMAX, rows)[:, k],
            "probability": lambda rows, k=k: SOFTMAX.prob(rows)[:, k],
        }[of](rows)
        np.testing.assert_allclose(y, expected, rtol=1e-12)
        assert mark.get_xdata() == [s]
        assert mark.get_ydata() == y[z == s]
        assert line.get_linestyle() == ("--" if of == "slope" else "-")
        if of == "loss":
            assert y.min() == 0.0


def test_projections_beside_classes_that_are_off(ax):
    plots.projections(SOFTMAX, SCORES, ax=ax, others=0.5, from_minimum=True, linestyle=":", legend=False)
    for k, (line, mark) in enumerate(zip(ax.lines[::2], ax.lines[1::2], strict=True)):
        rows = np.tile(np.add(SCORES, 0.5), (len(line.get_xdata()), 1))
        rows[:, k] = line.get_xdata()
        values = sm.MatchingLoss(SOFTMAX)(rows, np.tile(SCORES, (len(rows), 1)), reduction="none")
        np.testing.assert_allclose(line.get_ydata(), values - values.min(), atol=1e-12)
        assert mark.get_xdata() == rows[np.argmin(values), k]
    assert ax.get_legend() is None


def test_contours_show_the_loss(ax):
    levels = [0.0, 0.5, 1.0, 2.0]
    plots.contours(SOFTMAX, observed=(1.0, 0.0), domain=(-2, 2), ax=ax, levels=levels)
    lines = ax.collections[-1]
    assert lines.levels.tolist() == levels
    on_the_line = lines.get_paths()[2].vertices
    on_the_line = on_the_line[np.abs(on_the_line).max(axis=1) < 2.0]
    losses = sm.MatchingLoss(SOFTMAX)(on_the_line, np.tile((1.0, 0.0), (len(on_the_line), 1)), reduction="none")
    np.testing.assert_allclose(losses, 1.0, atol=0.01)
    assert ax.lines[0].get_xydata().tolist() == [[1.0, 0.0]]


def test_contours_of_single_scores_have_observed_below_and_predicted_left(ax):
    plots.contours(sm.Exp(), domain=(-2, 2), ax=ax, levels=[0.0, 0.25, 1.0])
    s, s_hat = ax.collections[-1].get_paths()[1].vertices.T
    np.testing.assert_allclose(sm.MatchingLoss(sm.Exp())(s_hat, s, reduction="none"), 0.25, atol=0.01)
    assert ax.lines[0].get_xydata().tolist() == [[-2.0, -2.0], [2.0, 2.0]]


def test_surface_shows_the_loss():
    ax = Figure().add_subplot(projection="3d")
    assert plots.surface(sm.Separable(sm.Exp()), observed=(1.0, 0.0), domain=(-1, 2), ax=ax) is ax
    low, high = ax.get_zlim()
    worst = sm.MatchingLoss(sm.Separable(sm.Exp()))([-1.0, 2.0], [1.0, 0.0])
    assert low <= 0.0 < worst <= high < 1.1 * worst
    assert plots.surface(sm.Sigmoid()).name == "3d"
    with pytest.raises(TypeError, match=r'surface: ax must be three-dimensional.*projection="3d"'):
        plots.surface(sm.Sigmoid(), ax=Figure().subplots())


# ---------------------------------------------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def predictions():
    random = np.random.default_rng(1)
    observed = random.normal(size=400)
    return observed, {"zoe": 0.5 * observed, "adam": observed + 0.1 * random.normal(size=400)}


def test_reliability_is_that_of_model_diagnostics(ax, predictions):
    observed, predicted = predictions
    link = sm.Sinh()
    assert plots.reliability(observed, predicted, link, ax=ax) is ax
    assert labels(ax) == list(predicted)
    from sklearn.isotonic import IsotonicRegression

    for line, scores in zip(ax.lines[1:], predicted.values(), strict=True):
        x, y = line.get_xydata().T
        fitted = IsotonicRegression().fit(link(scores), link(observed))
        np.testing.assert_allclose(y, fitted.predict(x), rtol=1e-12)
    assert len({line.get_linestyle() for line in ax.lines[1:]}) == 2


def test_murphy_and_bias_know_their_models(ax, predictions):
    observed, predicted = predictions
    plots.murphy(observed, predicted, sm.Sinh(), ax=ax)
    assert [line.get_label() for line in ax.lines] == list(predicted)
    poor, good = (line.get_ydata().sum() for line in ax.lines)
    assert poor > good

    along = plots.link_bias(observed, predicted, sm.Sinh(), feature=observed, weights=np.ones(400))
    for line, scores in zip(along.lines[1:], predicted.values(), strict=True):
        slope = np.polyfit(*line.get_xydata().T, 1)[0]
        assert (slope < -0.3) == (scores is predicted["zoe"])


def test_bias_of_each_model_is_above_its_name(ax, predictions):
    observed, _ = predictions
    predicted = {f"off by {k}": observed + k for k in range(12)}
    plots.link_bias(observed, predicted, sm.Identity(), ax=ax)
    biases = np.asarray(ax.lines[1].get_ydata(), dtype=float)
    for name, place in zip((tick.get_text() for tick in ax.get_xticklabels()), ax.get_xticks(), strict=True):
        assert biases[int(place)] == pytest.approx(int(name.removeprefix("off by ")), abs=1e-12)
    assert len(biases) == 12


@pytest.mark.parametrize("by", ["prediction", "observation"])
@pytest.mark.parametrize("measure", ["absolute", "bias"])
def test_errors_by_decile_are_means_of_tenths(ax, predictions, by, measure):
    observed, predicted = predictions
    plots.error_by_decile(observed, predicted, ax=ax, by=by, measure=measure)
    for line, scores in zip(curves_of(ax), predicted.values(), strict=True):
        order = np.argsort(scores if by == "prediction" else observed)
        error = scores - observed if measure == "bias" else np.abs(scores - observed)
        np.testing.assert_allclose(line.get_ydata(), error[order].reshape(10, -1).mean(axis=1), rtol=1e-12)
    assert labels(ax) == list(predicted)


def test_weighted_deciles_equal_repeated_rows(ax):
    random = np.random.default_rng(2)
    observed, scores = random.normal(size=50), random.normal(size=50)
    times = random.integers(1, 4, size=50)
    plots.error_by_decile(observed, {"model": scores}, ax=ax, weights=times, bins=1)
    repeated = np.repeat(np.abs(scores - observed), times).mean()
    assert curves_of(ax) == []
    assert ax.lines[0].get_ydata() == pytest.approx([repeated])


def test_gains_are_points_with_intervals(ax):
    plots.gains({"squared": (0.2, 0.1, 0.3), "Huber": Estimate(0.0, -0.1, 0.1), "log": (-0.2, -0.3, -0.1)}, ax=ax)
    spans, points = ax.lines[0:6:2], ax.lines[1:6:2]
    assert [list(span.get_xdata()) for span in spans] == [[0.1, 0.3], [-0.1, 0.1], [-0.3, -0.1]]
    assert [list(point.get_xdata()) for point in points] == [[0.2], [0.0], [-0.2]]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["squared", "Huber", "log"]
    assert ax.yaxis_inverted()
    hollow = [to_hex(point.get_markerfacecolor()) == to_hex(ax.get_facecolor()) for point in points]
    assert hollow == [False, True, False]
    assert list(ax.lines[6].get_xdata()) == [0.0, 0.0]


def test_few_observed_values_are_groups_of_their_own(ax):
    observed = np.array([0.0, 0.0, 0.0, 1.0, 4.0, 4.0])
    scores = observed + np.array([1.0, 2.0, 3.0, 5.0, -1.0, 2.0])
    plots.error_by_decile(observed, {"model": scores}, ax=ax, by="observation", weights=[1.0, 1.0, 2.0, 1.0, 1.0, 3.0])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [9.0 / 4.0, 5.0, 7.0 / 4.0], rtol=1e-15)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1", "4"]
    assert ax.get_xlabel() == "observed score"


def test_rows_that_reach_far_are_cut_off_with_an_arrow(ax):
    estimates = {
        "squared": (5.1, 3.9, 6.3),
        "reweighted": (0.7, 0.1, 1.5),
        "raw": (62.0, 60.0, 64.0),
        "low": (-50.0, -51.0, 1.0),
    }
    assert far_rows(estimates) == ("raw", "low")
    plots.gains(estimates, ax=ax)
    left, right = ax.get_xlim()
    assert -5.0 < left < 0.0
    assert 6.3 < right < 10.0
    arrows = [line for line in ax.lines if line.get_label() == "_far"]
    assert [(arrow.get_marker(), *arrow.get_xydata()[0]) for arrow in arrows] == [(">", right, 2.0), ("<", left, 3.0)]
    assert [text.get_text() for text in ax.texts] == ["62", "-50"]


@pytest.mark.parametrize("reaches", [(5.0, 6.0, 7.0), (0.001, 5.0, 6.0, 7.0), (1.5, 6.3), (0.0, 0.0)])
def test_rows_of_similar_reach_are_all_seen(reaches):
    assert far_rows({str(reach): (0.5 * reach, 0.0, reach) for reach in reaches}) == ()


def test_a_row_without_an_interval_can_be_cut_off_too(ax):
    nothing = float("nan")
    plots.gains({"near": (1.0, 0.5, 1.5), "empty": (nothing,) * 3, "far": (40.0, nothing, nothing)}, ax=ax)
    assert [line.get_ydata()[0] for line in ax.lines if line.get_label() == "_far"] == [2.0]


@pytest.mark.parametrize("name", ["short", "a name that takes the room of two others"])
def test_legends_cover_no_line(predictions, name):
    observed, predicted = predictions
    predicted = {name: predicted["zoe"], "adam": predicted["adam"]}
    for draw in (
        lambda ax: plots.error_by_decile(observed, predicted, ax=ax),
        lambda ax: plots.murphy(observed, predicted, sm.Sinh(), ax=ax),
        lambda ax: plots.reliability(observed, predicted, sm.Sinh(), ax=ax),
    ):
        figure = Figure(figsize=(4.0, 3.0), layout="constrained")
        ax = figure.subplots()
        draw(ax)
        figure.draw_without_rendering()
        legend, label = ax.get_legend().get_window_extent(), ax.xaxis.label.get_window_extent()
        assert legend.y1 <= label.y0 < ax.bbox.y0
        assert legend.y0 >= 0.0


# ------------------------------------------------------------------------------------------------------ overviews


@pytest.mark.parametrize("potential", [*CURVES, *VECTORS], ids=repr)
def test_every_potential_has_an_overview(potential):
    figure = plots.overview(potential)
    assert len(figure.axes) >= 3
    curve = potential if isinstance(potential, sm.Curve) else getattr(potential, "scaling", None) or potential.curve
    for ax in figure.axes:
        assert ax.get_title(loc="left") or ax.get_ylabel() == "probability $p(z)$"
        assert curves_of(ax)
        for line in curves_of(ax):
            z, y = line.get_xydata().T
            assert np.asarray(curve.holds(z)).all()
            assert np.isfinite(y).mean() > 0.99


@pytest.mark.parametrize(
    "loss",
    [sm.MatchingLoss(sm.Cosh(), check=False), sm.CompositeSoftmax(sm.Cosh(), check=False), sm.parse("z + z^3"),
     sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp()}), sm.focus("extremes", data=np.arange(100.0)),
     sm.focus("high", data=np.arange(60.0).reshape(20, 3), classes=True)],
    ids=["no link", "no softmax", "formula", "labels", "wish", "lists"],
)  # fmt: skip
def test_overviews_of_unusual_losses_can_be_saved(loss, tmp_path):
    plots.overview(loss, dark=True).savefig(tmp_path / "loss.svg")
    assert "<svg" in (tmp_path / "loss.svg").read_text(encoding="utf-8")


def test_an_overview_draws_scores_of_the_data():
    scores = np.random.default_rng(0).lognormal(3.0, 1.3, 2000)
    loss = sm.focus("extremes", data=scores)
    _, looks, costs = [ax for ax in plots.overview(loss, data=scores).axes if ax.get_title(loc="left")]
    marks = [line.get_xdata()[0] for line in costs.lines[1::2]]
    low, high = (region[:2] for region in loss.wish.regions)
    assert len(marks) == 3
    assert low[0] <= marks[0] <= low[1]
    assert marks[1] == pytest.approx(np.median(scores), rel=0.01)
    assert high[0] <= marks[2] <= high[1]
    bars = [bar.get_segments()[0] for bar in looks.collections if bar.get_label() == "_bar"]
    assert [(bar[0][0], bar[1][0]) for bar in bars] == [
        (max(low[0], looks.get_xlim()[0]), low[1]), (high[0], looks.get_xlim()[1])
    ]  # fmt: skip
    assert looks.get_ylim()[1] > 1.0


def test_svg_files_have_a_prime_that_every_font_has(tmp_path):
    with plots.theme():
        plots.overview(sm.Sinh()).savefig(tmp_path / "overview.svg")
        plots.link(sm.Sinh()).figure.savefig(tmp_path / "link.svg")
    for name in ("overview.svg", "link.svg"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "\N{PRIME}" in text
        assert "cmsy10" not in text


def test_labels_have_links_of_their_own(ax):
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp()}))
    plots.link(loss, ax=ax, sensitivity=False)
    for line, curve in zip(ax.lines, loss.potential.curves, strict=True):
        np.testing.assert_allclose(line.get_ydata(), curve(line.get_xdata()), rtol=1e-15)
    assert labels(plots.losses(loss)) == ["$s = 0$", "$s = 1$"]


def test_overview_shows_itself_in_notebooks():
    assert plots.overview(sm.Sigmoid())._repr_png_().startswith(b"\x89PNG")
    assert plt.get_fignums() == []


# ----------------------------------------------------------------------------------------------- domains, settings


def test_pictures_stay_inside_the_domain():
    assert shown("test", sm.Log(), (-5, 2)) == (pytest.approx(0.04), 2.0)
    assert shown("test", sm.Sinh()) == sm.Sinh().window()
    assert shown("test", sm.Logit(), around=(0.001, 0.5)) == (0.001, pytest.approx(0.98))
    assert shown("test", sm.Sinh(), around=(0.0, 9.0)) == (-4.0, pytest.approx(10.3))
    with pytest.raises(ValueError, match=r"link: domain must share more than a point with \(0, 1\)"):
        plots.link(sm.Logit(), domain=(2, 3))
    with pytest.raises(ValueError, match="losses: domain must have its low end below"):
        plots.losses(sm.Exp(), domain=(1, 0))


def test_typical_scores():
    assert typical_scores(-4.0, 4.0) == SCORES
    assert typical_scores(0.0, 1000.0) == (100.0, 500.0, 900.0)
    assert len(set(typical_scores(1e6, 1e6 + 1e-3))) == 3


def test_typical_observations():
    scores = np.random.default_rng(0).normal(size=1000)
    low, middle, high = typical_observations(scores)
    np.testing.assert_allclose((low, middle, high), np.quantile(scores, (0.1, 0.5, 0.9)), rtol=0.01)
    inside = np.median(scores[scores > 2.0])
    assert typical_observations(scores, [(2.0, np.inf)]) == (low, middle, float(f"{inside:.3g}"))
    assert len(typical_observations(scores, [(k, k + 0.5, 1.0) for k in range(-2, 2)])) == 4
    assert typical_observations(np.array([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0])) == SCORES_OF_GRADES
    assert typical_observations(np.array([0.0, 1.0, 1.0])) == (0.0, 1.0)
    near = 1e6 + 1e-3 * scores
    assert len(typical_observations(near)) == 3


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_names_and_marks_have_no_power_of_ten(size):
    observed = size * np.array([0.5, 1.0, 3.0])
    log = sm.MatchingLoss(sm.Exp().affine(beta=np.log(size))).with_scale("log")
    ends = {"a": 9e3, "b": 1.0, "c": 1.0, "d": 1.0}
    pictures = [
        plots.losses(log, observed=observed, domain=(0.1 * size, 9.0 * size)),
        plots.losses(sm.Exp().affine(alpha=1.0 / size), observed=observed),
        plots.error_by_decile(np.repeat(observed, 20), {"a": np.repeat(observed, 20) + 1.0}, by="observation"),
        plots.gains({name: Estimate(end, 0.0, 2.0 * end) for name, end in ends.items()}),
    ]
    for found in pictures:
        found.figure.canvas.draw()
        words = [text.get_text() for text in found.findobj(Text)]
        assert not [word for word in words if re.search(r"\de[+-]?\d", word)], words


@pytest.mark.parametrize("axis", ["x", "y"])
def test_large_numbers_are_short(ax, axis):
    ax.set(**{f"{axis}lim": (0.0, 40_000.0)})
    short_numbers(ax)
    short, plain = (ax.xaxis, ax.yaxis) if axis == "x" else (ax.yaxis, ax.xaxis)
    assert short.get_major_formatter()(20_000.0) == "20\N{THIN SPACE}k"
    assert isinstance(plain.get_major_formatter(), ScalarFormatter)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.link(SOFTMAX), r"link: loss must have a link for single scores.*projections"),
        (lambda: plots.losses(SOFTMAX), r"losses: loss must be for single scores.*projections"),
        (lambda: plots.projections(sm.Exp(), SCORES), r"projections: loss must be for many classes.*losses"),
        (lambda: plots.projections(SOFTMAX, SCORES, of="h"), r"projections: of must be one of 'loss', 'link'"),
        (lambda: plots.contours(SOFTMAX), r"contours: observed must be a pair"),
        (lambda: plots.contours(SOFTMAX, observed=SCORES), r"contours: observed must have two scores, got 3"),
        (lambda: plots.murphy([1.0], [1.0], sm.Exp()), r"murphy: predicted must be a mapping.*\"model\""),
        (lambda: plots.error_by_decile([1.0], {"m": [1.0, 2.0]}), r"predicted\['m'\] must have 1 scores, got 2"),
        (lambda: plots.error_by_decile([1.0], {"m": [1.0]}, by="y"), r"by must be 'prediction' or 'observation'"),
        (lambda: plots.area(sm.PerLabel({0.0: sm.Exp()}), 1.0, 2.0), r"area: s must be one of the labels"),
        (lambda: plots.gains({}), r"gains: estimates must hold at least one title"),
        (lambda: plots.losses("sinh"), r"losses: loss must be a MatchingLoss, a potential or a curve, got 'sinh'"),
    ],
)
def test_errors_name_what_is_wrong(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_axes_that_are_given_are_used(predictions):
    ax = Figure().subplots()
    for draw in (
        lambda: plots.area(sm.Exp(), 1.0, 0.0, ax=ax),
        lambda: plots.sensitivity(sm.Exp(), data=[0.0, 1.0], ax=ax),
        lambda: plots.reliability(*predictions, sm.Exp(), ax=ax),
        lambda: plots.murphy(*predictions, sm.Exp(), ax=ax),
        lambda: plots.link_bias(*predictions, sm.Exp(), ax=ax),
    ):
        assert draw() is ax
    assert plt.get_fignums() == []


def test_the_theme_gives_back_what_was_set():
    before = matplotlib.rcParams.copy()
    with plots.theme(dark=True, settings={"figure.dpi": 50.0}):
        assert (matplotlib.rcParams["figure.dpi"], matplotlib.rcParams["svg.fonttype"]) == (50.0, "none")
        assert not matplotlib.rcParams["axes.spines.top"]
    with pytest.raises(RuntimeError), plots.theme():
        raise RuntimeError
    assert matplotlib.rcParams == before


def test_themes_of_several_threads_do_not_mix():
    before = matplotlib.rcParams.copy()
    meet = threading.Barrier(4)

    def drawn(dpi):
        meet.wait()
        with plots.theme(settings={"figure.dpi": dpi}):
            time.sleep(0.005)  # without a lock the others come in now
            return matplotlib.rcParams["figure.dpi"]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(drawn, (50.0, 60.0, 70.0, 80.0))) == [50.0, 60.0, 70.0, 80.0]
    assert matplotlib.rcParams == before


def test_importing_plots_touches_no_state():
    code = (
        "import matplotlib, sys; before = matplotlib.rcParams.copy(); import selmatch.plots; "
        "assert 'matplotlib.pyplot' not in sys.modules; "
        "assert all(matplotlib.rcParams[name] == before[name] for name in before if name != 'backend'); "
        "assert sorted(selmatch.plots.__all__) == list(selmatch.plots.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("selmatch.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'selmatch.plots needs matplotlib.*pip install "selmatch\[plots\]"'):
        import selmatch.plots  # noqa: F401
