"""The numbers in the paper's figures: curves, minima, crossings, convexity and overlaps, read back from the axes."""

import matplotlib

matplotlib.use("Agg")

import re
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import selmatch as sm
from selmatch.paper import drawings, score_transforms, sheet, stochastic
from selmatch.paper.drawings import classes, models, rows, scalar, shapes, transforms
from selmatch.paper.drawings.panels import as_link, as_scaling, for_classes

PAPER = (
    "matching_loss_demo selective_bin_loss_regions selective_scale_sensitivity multi_class_regions "
    "relative_sensitivity reweighting softmax_invalid underspecification scalar_all_examples scalar_scale_examples "
    "multi_select_exp multi_select_negexp multi_select_sinh select_invalid match_stochastic"
).split()
SCORES = np.array([-3.0, 0.0, 3.0])


def every(gallery, role):
    return [role(shape) for found in gallery.values() for shape in found]


#: the columns of each figure that is a grid, in the order of its axes
GRIDS = {
    "selective_bin_loss_regions": [as_link(shape) for shape in scalar.REGIONS],
    "selective_scale_sensitivity": [as_scaling(shape) for shape in scalar.AMPLIFIED],
    "scalar_all_examples": every(shapes.LINKS, as_link),
    "scalar_scale_examples": every(shapes.SCALINGS, as_scaling),
    "reweighting": scalar.REWEIGHTED,
    "multi_class_regions": classes.REGIONS,
    "relative_sensitivity": classes.RELATIVE,
    "softmax_invalid": classes.SOFTMAX,
    "multi_select_exp": [for_classes(shape) for shape in shapes.CLASSES[shapes.HIGH]],
    "multi_select_negexp": [for_classes(shape) for shape in shapes.CLASSES[shapes.LOW]],
    "multi_select_sinh": [for_classes(shape) for shape in shapes.CLASSES[shapes.HIGH_NORM]],
    "select_invalid": [for_classes(shape) for shape in shapes.NEGATED],
}
ONE_SCORE = [name for name in GRIDS if name.startswith(("selective", "scalar"))]
MANY = [name for name in GRIDS if name not in ONE_SCORE and name != "reweighting"]
WITH_LINKS = [name for name in MANY if name != "relative_sensitivity"]
GALLERIES = ["multi_select_exp", "multi_select_negexp", "multi_select_sinh"]


@pytest.fixture(scope="module")
def drawn():
    """Every figure, drawn once."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {figure.name: figure.draw() for figure in sm.paper.figures()}
    yield found
    for figure in found.values():
        plt.close(figure)


def axes_of(figure, row):
    """The axes of a row, in the order of the columns."""
    return [ax for ax in figure.axes if row in ax.get_label().split(" / ")]


def curves_of(ax, style="-"):
    """The points of the lines of one style, without marks."""
    return [
        np.asarray(line.get_xydata())
        for line in ax.lines
        if len(line.get_xydata()) > 2 and line.get_linestyle() == style
    ]


def marks_of(ax):
    return [np.asarray(line.get_xydata())[0] for line in ax.lines if len(line.get_xydata()) == 1]


def pairs(drawn, name, row):
    found = axes_of(drawn[name], row)
    assert len(found) == len(GRIDS[name])
    return list(zip(found, GRIDS[name], strict=True))


def bends(points):
    """Second differences, divided by the distances: the least is >= 0 for a convex line."""
    x, y = points[np.isfinite(points).all(axis=1)].T
    apart = np.concatenate([[True], np.diff(x) > 1e-6 * np.ptp(x)])
    slopes = np.diff(y[apart]) / np.diff(x[apart])
    return np.diff(slopes)


def is_convex(points, tolerance=1e-7):
    """Up to rounding, which slopes between near points multiply."""
    return bends(points).min() >= -tolerance * max(1.0, np.nanmax(np.abs(points[:, 1])))


def is_monotone(points):
    steps = np.diff(points[:, 1])
    return steps.min() >= -1e-9 * max(1.0, np.nanmax(np.abs(points[:, 1])))


def at(points, x):
    return float(np.interp(x, *points.T))


def along(score, k, z, others=0.0):
    """Predictions in which class k moves and the others stay."""
    predicted = np.repeat(np.asarray(score, dtype=float)[None, :] + others, len(z), axis=0)
    predicted[:, k] = z
    return predicted


def some(points, count=9):
    return points[np.linspace(0, len(points) - 1, count).astype(int)]


# ------------------------------------------------------------------------------------------------------- the list


def test_every_figure_of_the_paper_is_there_once():
    figures = sm.paper.figures()
    assert [figure.name for figure in figures if figure.label.startswith("fig:")] == PAPER
    assert all(figure.label == f"fig:{figure.name}" for figure in figures if figure.name in PAPER)
    assert all(len(figure.caption) > 80 and figure.title for figure in figures)


def test_the_gallery_of_the_documentation_shows_each_figure_once():
    scripts = (Path(__file__).parents[1] / "docs" / "gallery").glob("plot_*.py")
    text = "".join(script.read_text(encoding="utf-8") for script in scripts)
    shown = re.findall(r'sm\.paper\.figure\("(\w+)"\)\.draw\(\)', text)
    assert sorted(shown) == sorted(figure.name for figure in sm.paper.figures())


def test_cosh_with_many_classes_is_captioned_as_an_erratum():
    for name in ("multi_select_negexp", "multi_select_sinh"):
        figure = sm.paper.figure(name)
        assert {"C56", "C103"} <= set(figure.errata)
        assert "erratum" in figure.caption
        assert "check=False" in figure.caption
        assert repr(GRIDS[name][-1].loss.potential).endswith("check=False)")


def test_a_wrong_name_meets_the_nearest_right_one():
    with pytest.raises(ValueError, match=r"got 'reweigthing'. Did you mean 'reweighting'"):
        sm.paper.figure("reweigthing")


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("selmatch.plots", "selmatch.paper.drawings"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(sm.paper, "drawings", raising=False)
    monkeypatch.delitem(vars(sm), "plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'needs matplotlib. Install it with: pip install "selmatch\[plots\]"'):
        sm.paper.figures()


def test_no_figure_stays_in_pyplot_and_no_setting_changes(drawn, tmp_path):
    before, settings = plt.get_fignums(), dict(matplotlib.rcParams)
    paths = sm.paper.draw(tmp_path / "new", names=["matching_loss_demo"])
    assert [path.name for path in paths] == ["matching_loss_demo.svg", "matching_loss_demo.png"]
    assert all(path.stat().st_size > 1000 for path in paths)
    assert plt.get_fignums() == before
    assert dict(matplotlib.rcParams) == settings


def test_a_figure_is_the_same_file_every_time(tmp_path):
    first, second = (sm.paper.draw(tmp_path / run, "matching_loss_demo", "svg")[0] for run in "ab")
    assert first.read_bytes() == second.read_bytes()


# ------------------------------------------------------------------------------------------ what all figures share


@pytest.mark.parametrize("name", [*ONE_SCORE, "reweighting"])
def test_loss_curves_are_the_loss_and_are_least_at_the_observed_score(drawn, name):
    for ax, column in pairs(drawn, name, "losses"):
        solid = curves_of(ax)[: len(column.observed)]
        for points, score, mark in zip(solid, column.observed, marks_of(ax), strict=False):
            x, y = some(points).T
            np.testing.assert_allclose(y, column.loss(x, np.full_like(x, score), reduction="none"), rtol=1e-12)
            assert tuple(mark) == (score, 0.0)
            if name != "reweighting":
                assert points[:, 1].min() == at(points, score) == 0.0


@pytest.mark.parametrize("name", ONE_SCORE)
def test_matching_losses_of_one_score_are_convex_and_links_rise(drawn, name):
    for ax, _ in pairs(drawn, name, "losses"):
        assert all(is_convex(points) for points in curves_of(ax)[:3]), ax.get_label()
    for ax, column in pairs(drawn, name, "link"):
        (link,), (slope,) = curves_of(ax), curves_of(ax, "--")
        assert is_monotone(link), ax.get_label()
        assert np.nanmin(slope[:, 1]) >= 0.0
        x, y = some(link).T
        np.testing.assert_allclose(y, column.loss.potential(x), rtol=1e-12)


@pytest.mark.parametrize("name", MANY)
def test_projections_are_the_loss_with_one_class_moving(drawn, name):
    for ax, column in pairs(drawn, name, "projections"):
        solid = [np.asarray(line.get_xydata()) for line in ax.lines if len(line.get_xydata()) > 2]
        for k, (points, score) in enumerate(zip(solid, column.observed, strict=False)):
            x, y = some(points).T
            observed = np.broadcast_to(column.observed, (len(x), len(column.observed)))
            expected = column.loss(along(column.observed, k, x), observed, reduction="none")
            np.testing.assert_allclose(y, expected, rtol=1e-12)
            assert abs(points[:, 1].min()) <= 1e-15
            assert at(points, score) == 0.0
            assert is_convex(points), ax.get_label()


@pytest.mark.parametrize("name", WITH_LINKS)
def test_links_of_classes_rise_in_their_own_score(drawn, name):
    for ax, column in pairs(drawn, name, "link"):
        solid, dashed = curves_of(ax), curves_of(ax, "--")
        assert len(solid) == len(dashed) == 3
        for k, (link, slope) in enumerate(zip(solid, dashed, strict=True)):
            assert is_monotone(link), ax.get_label()
            assert slope[:, 1].min() >= 0.0
            z = along(column.observed, k, some(slope)[:, 0])
            np.testing.assert_allclose(some(slope)[:, 1], column.loss.potential.slope(z)[:, k], rtol=1e-12)


@pytest.mark.parametrize("name", GALLERIES)
def test_only_cosh_is_not_convex_when_all_classes_move_together(drawn, name):
    for ax, column in pairs(drawn, name, "together"):
        diagonal = sm.MatchingLoss(column.loss.potential.scaling, check=False)  # for every gamma
        for points, score in zip(curves_of(ax), SCORES, strict=True):
            x, y = some(points).T
            np.testing.assert_allclose(y, diagonal(x, np.full_like(x, score), reduction="none"), rtol=1e-9, atol=1e-12)
            if column.erratum:
                assert points[:, 1].min() < -0.01
                assert not is_convex(points)
            else:
                assert is_convex(points)
                assert points[:, 1].min() >= 0.0
    assert [column.erratum for column in GRIDS[name]] == [False] * 5 + [name != "multi_select_exp"]


def test_the_witness_against_cosh_is_rigorous_and_its_hessian_indefinite():
    for name, least in (("multi_select_negexp", -0.0091), ("multi_select_sinh", -0.0189)):
        loss = GRIDS[name][-1].loss
        assert isinstance(sm.certify.convex(loss, domain=(-4.0, 4.0)), sm.certify.Refuted)
        assert np.linalg.eigvalsh(loss.potential.hessian(SCORES)).min() == pytest.approx(least, abs=5e-5)
        with pytest.raises(ValueError, match="must be convex"):
            sm.CompositeSoftmax(loss.potential.scaling, gamma=loss.potential.gamma)


# -------------------------------------------------------------------------------------------------- single figures


def test_the_area_is_the_loss(drawn):
    for ax, (s_hat, s) in zip(drawn["matching_loss_demo"].axes, scalar.AREAS, strict=True):
        (filled,) = ax.collections
        x, y = filled.get_paths()[0].vertices.T
        area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
        assert area == pytest.approx(sm.MatchingLoss(scalar.AREA_LINK)(s_hat, s), rel=1e-3)


def test_the_four_kinds_look_where_they_say():
    middle, high, low, norms = (column.loss for column in GRIDS["selective_bin_loss_regions"])
    assert middle(6.0, 3.0) == pytest.approx(0.096, abs=5e-4)  # C15
    assert middle(-6.0, -3.0) == pytest.approx(0.096, abs=5e-4)
    assert middle(0.0, 3.0) == pytest.approx(0.502, abs=5e-4)
    assert middle(-3.0, 3.0) == pytest.approx(2.715, abs=5e-4)
    assert high(5.0, 3.0) / high(1.0, 3.0) == pytest.approx(2.53, abs=5e-3)  # C16
    assert high(6.0, -3.0) == pytest.approx(1.31, abs=5e-3)
    assert high(-6.0, -3.0) == pytest.approx(0.0007, abs=5e-5)
    assert low(-2.0, 1.0) == pytest.approx(high(2.0, -1.0), rel=1e-12)  # C17
    assert norms.potential.slope(0.0) == 0.5 < norms.potential.slope(3.0)


def test_cross_entropy_of_composite_probabilities_is_dashed_and_need_not_be_convex(drawn):
    convex = {}
    for ax, column in pairs(drawn, "selective_scale_sensitivity", "cross-entropy"):
        entropy = sm.CrossEntropy(column.loss.potential)
        for points, score in zip(curves_of(ax, "--"), SCORES, strict=True):
            x, y = some(points).T
            np.testing.assert_allclose(y, entropy(x, np.full_like(x, score), reduction="none"), rtol=1e-12)
            convex[column.title, score] = is_convex(points)
    names = [column.title for column in GRIDS["selective_scale_sensitivity"]]
    assert not convex[names[1], 3.0]  # tanh
    assert not convex[names[4], 3.0]  # sinh
    assert not convex[names[0], 3.0]  # even the Sigmoid, C47
    for ax, _ in pairs(drawn, "selective_scale_sensitivity", "losses"):
        assert len(curves_of(ax)) == len(curves_of(ax, "--")) == 3


def test_cross_entropy_cannot_tell_3_from_minus_3_where_p_takes_values_twice(drawn):
    ax, column = pairs(drawn, "selective_scale_sensitivity", "probability")[4]
    (p,) = curves_of(ax)
    assert at(p, -3.0) == pytest.approx(at(p, 3.0), rel=1e-12)
    assert not is_monotone(p)
    assert sm.CrossEntropy(column.loss.potential)(-3.0, 3.0) == sm.CrossEntropy(column.loss.potential)(3.0, 3.0)
    assert column.loss(-3.0, 3.0) > 5.0


def test_tanh_keeps_losses_symmetric_and_the_sigmoid_does_not():
    sigmoid, tanh = (column.loss for column in GRIDS["selective_scale_sensitivity"][:2])
    assert tanh(-1.0, 2.0) == pytest.approx(tanh(1.0, -2.0), rel=1e-13)
    assert sigmoid(1.0, 0.0) - sigmoid(-1.0, 0.0) == pytest.approx(0.0228, abs=5e-5)  # C46


def test_reweighted_squares_miss_what_matching_losses_have(drawn):
    observed, predicted, both, matching = (curves_of(ax)[:3] for ax, _ in pairs(drawn, "reweighting", "losses"))
    assert (at(observed[0], 3.0), at(observed[2], -3.0)) == pytest.approx((9.0, 117.0))  # C119
    assert (at(predicted[0], 3.0), at(predicted[2], -3.0)) == pytest.approx((117.0, 9.0))
    assert at(both[0], 3.0) == at(both[2], -3.0) == pytest.approx(29.25)
    assert (at(matching[0], 3.0), at(matching[2], -3.0)) == pytest.approx((19.7, 100.5), abs=0.05)
    assert all(map(is_convex, observed))
    assert all(map(is_convex, matching))
    assert not any(map(is_convex, predicted[1:]))  # C120
    assert at(predicted[2], -4.0) == pytest.approx(-12.25)
    slopes = predicted[2][predicted[2][:, 0] < 0.8]
    assert bends(slopes).max() <= 1e-9  # bends down left of 5/6
    assert is_convex(predicted[2][predicted[2][:, 0] > 5 / 6])


def test_the_standard_softmax_ignores_shifts_and_its_lower_links_overlap(drawn):
    shifted = [curves_of(ax) for ax, _ in pairs(drawn, "softmax_invalid", "projections")]
    for other in shifted[1:]:
        for points, same in zip(shifted[0], other, strict=True):
            np.testing.assert_allclose(points, same, rtol=1e-12, atol=1e-14)  # C65
    low, middle, high = shifted[0]
    expected = ((high, 0, 0.518), (high, 6, 0.101), (middle, 3, 0.502), (middle, -3, 0.096))
    for points, score, loss in (*expected, (low, 3, 0.653), (low, 0, 0.037), (low, -6, 0.005)):
        assert at(points, score) == pytest.approx(loss, abs=1e-3)  # C64
    for ax, _ in pairs(drawn, "softmax_invalid", "link"):
        low, middle, _ = curves_of(ax)
        x = np.linspace(-6, 6, 400)
        assert np.abs(np.interp(x, *low.T) - np.interp(x, *middle.T)).max() == pytest.approx(0.0115, abs=2e-4)
    scalar_losses = [curves_of(ax) for ax, _ in pairs(drawn, "softmax_invalid", "scalar losses")]
    assert at(scalar_losses[1][2], 6.0) > 5.0 * at(scalar_losses[0][2], 6.0)  # one score does follow the shift


def test_the_same_score_is_sharp_as_the_higher_and_flat_as_the_lower(drawn):
    sensitivities = [column.loss.potential.slope(np.array(column.observed))[0] for column in classes.RELATIVE]
    assert sensitivities == pytest.approx([1.12, 1.12, 1.12, 1.32, 1.82, 0.0028], abs=5e-3)  # C69
    first = [np.asarray(ax.lines[0].get_xydata()) for ax in axes_of(drawn["relative_sensitivity"], "projections")]
    assert [at(points, 2.0) for points in first[3:]] == pytest.approx([0.591, 0.586, 0.0006], abs=1e-3)
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(first[0], first[2])


def test_contours_and_surfaces_show_the_same_losses(drawn):
    for ax, column in pairs(drawn, "relative_sensitivity", "contours"):
        filled, lines = ax.collections
        assert tuple(filled.levels) == rows.LEVELS
        for level, path in zip(lines.levels[1:], lines.get_paths()[1:], strict=True):
            for points in (piece for piece in path.to_polygons(closed_only=False) if len(piece) > 4):
                observed = np.broadcast_to(column.observed, points.shape)
                found = column.loss(points, observed, reduction="none")
                np.testing.assert_allclose(found, level, rtol=0.03, atol=0.004)
    for ax, column in pairs(drawn, "relative_sensitivity", "surface"):
        corners = np.array([[0.0, 0.0], [6.5, 6.5], [6.5, 0.0], [0.0, 6.5]])
        highest = column.loss(corners, np.broadcast_to(column.observed, corners.shape), reduction="none").max()
        assert ax.get_zlim()[1] == pytest.approx(highest, rel=0.1)


def test_a_mistake_in_the_class_that_matters_moves_the_others(drawn):
    ax, column = pairs(drawn, "multi_class_regions", "projections")[1]
    solid, dotted = curves_of(ax), curves_of(ax, ":")
    assert len(dotted) == 6
    assert all(points[:, 1].min() == 0.0 for points in dotted)
    moved = [[abs(at(line, 4.5) - at(solid[k], 4.5)) for line in dotted[k::3]] for k in (0, 2)]
    assert min(moved[0]) > 5.0  # the low class, when the high one is off by 0.5
    assert max(moved[1]) < 0.05  # and not conversely
    x, y = some(dotted[0]).T
    observed = np.broadcast_to(column.observed, (len(x), 3))
    raw = column.loss(along(column.observed, 0, x, -rows.MISTAKE), observed, reduction="none")
    np.testing.assert_allclose(np.diff(raw), np.diff(y), atol=1e-9)


@pytest.mark.parametrize("gallery", [shapes.LINKS, shapes.SCALINGS], ids=["links", "scalings"])
def test_galleries_of_one_score_look_where_their_title_says(gallery):
    role = as_link if gallery is shapes.LINKS else as_scaling
    for region, found in gallery.items():
        for shape in found:
            link = role(shape).loss.potential
            with np.errstate(divide="ignore"):  # the slope of a root at 0
                left, middle, right = link(np.array([-2, 1, 4])) - link(np.array([-4, -1, 2]))
            highest = {
                shapes.HIGH: right >= max(left, middle),
                shapes.LOW: left >= max(middle, right),
                shapes.LOW_NORM: middle >= 0.99 * max(left, right),
                shapes.HIGH_NORM: middle <= min(left, right),
            }
            assert highest[region], (region, shape.heading, left, middle, right)


@pytest.mark.parametrize("region", shapes.CLASSES)
def test_galleries_of_classes_look_where_their_title_says(region):
    for shape in shapes.CLASSES[region]:
        low, middle, high = for_classes(shape).loss.potential.slope(SCORES)
        found = {
            shapes.HIGH: high > max(low, middle),
            shapes.LOW: low > max(middle, high),
            shapes.HIGH_NORM: middle < min(low, high),
        }
        assert found[region], shape.heading


@pytest.mark.parametrize(("name", "i", "j"), [("multi_select_exp", 0, 1), ("multi_select_negexp", 1, 2)])
def test_curves_of_the_silenced_classes_mostly_overlap(drawn, name, i, j):
    x = np.linspace(-6, 6, 300)
    gaps = []
    for ax, column in pairs(drawn, name, "projections"):
        values = [np.interp(x, *points.T) for points in curves_of(ax)]
        gaps.append(np.abs(values[i] - values[j]).max() / np.ptp(ax.get_ylim()))
        if column.erratum:
            gaps.pop()  # the cosh curves do not even overlap
    assert sorted(gaps)[3] < 0.02
    assert max(gaps) < 0.2


def test_extreme_classes_overlap_for_odd_scalings(drawn):
    x = np.linspace(-6, 6, 300)
    for ax, column in pairs(drawn, "multi_select_sinh", "probability")[:-1]:
        low, _, high = (np.interp(x, *points.T) for points in curves_of(ax))
        assert np.abs(low - high).max() < 1e-12, column.title
        assert np.abs(low - low[::-1]).max() < 1e-6  # p takes each value twice


def test_flat_pieces_share_their_loss_curve(drawn):
    found = {ax.get_label(): curves_of(ax) for ax in axes_of(drawn["scalar_all_examples"], "losses")}
    for title, i, j in (("SmeLU gradient, right", 0, 1), ("Huber gradient, left", 1, 2), ("steps, right", 0, 1)):
        (curves,) = (curves for label, curves in found.items() if label.endswith(title))
        x = np.linspace(-6, 6, 100)
        assert np.interp(x, *curves[i].T) == pytest.approx(np.interp(x, *curves[j].T), abs=1e-3)  # C26


def test_the_signed_logarithm_belongs_to_low_norms():
    (shape,) = (shape for shape in shapes.LOW_NORM_SHAPES if shape.erratum)
    assert shape.curve.slope(np.array([0.001, 1.0, 5.0])) == pytest.approx([0.999, 0.5, 0.167], abs=5e-4)  # C83


def test_straight_and_cosh_scalings_favour_norms_of_one_score():
    *_, line, _, _, cosh = (as_scaling(shape).loss.potential for shape in shapes.SCALINGS[shapes.HIGH_NORM])
    z = np.linspace(0.0, 8.0, 801)
    assert z[line.slope(z).argmax()] == pytest.approx(2.8, abs=0.05)  # C104: it saturates
    assert line.slope(8.0) == pytest.approx(0.5, abs=1e-4)
    ends, centre = cosh.slope(np.array([-3.0, 3.0])), cosh.slope(np.linspace(-1, 1, 41))
    assert ends.min() / centre.max() == pytest.approx(5.44, abs=0.01)  # C105
    assert cosh.slope(np.linspace(-6.0, 6.0, 400)).min() > 0.0
    assert cosh.slope(-6.0) < 0.04 * cosh.slope(-3.0)  # high norms on [-3, 3] only


@pytest.mark.parametrize("name", [*ONE_SCORE, *WITH_LINKS])
def test_every_panel_shows_the_same_scores(drawn, name):
    assert {ax.get_xlim() for ax in drawn[name].axes} == {(-6.0, 6.0)}


@pytest.mark.parametrize("name", GRIDS)
def test_scores_are_named_wherever_they_change(drawn, name):
    columns = {}
    for ax in drawn[name].axes:
        *block, row, title = ax.get_label().split(" / ")
        if row != "surface":
            columns.setdefault((*block, title), []).append((row, ax.get_xlabel()))
    for found in columns.values():
        assert found[-1][1]
        for row, label in found:  # those without a name have it from the next one below
            label = label or next(label for _, label in found[found.index((row, label)) :] if label)
            kind = "z" if row in ("scaling", "probability", "link") else "s"
            assert kind in label, (row, label)


def test_galleries_say_which_classes_move(drawn):
    for name in GALLERIES:
        one, together = (axes_of(drawn[name], row)[0] for row in ("projections", "together"))
        assert one.get_ylabel().startswith("one of 3 moves")
        assert together.get_ylabel().startswith("all 3 move")
        assert together.get_xlabel() == rows.PREDICTED_TOGETHER


def test_surfaces_are_seen_from_the_side_of_their_valley(drawn):
    for ax, column in pairs(drawn, "relative_sensitivity", "surface"):
        angle = np.deg2rad(ax.azim)
        towards = np.array([np.cos(angle), np.sin(angle)])
        corners = np.array([[0.0, 0.0], [6.5, 6.5], [6.5, 0.0], [0.0, 6.5]])
        near, far = (corners[find(corners @ towards)] for find in (np.argmax, np.argmin))
        assert column.loss(near, np.array(column.observed)) <= column.loss(far, np.array(column.observed))


def test_the_legend_of_single_predictions_covers_no_curve(drawn):
    figure = drawn["match_stochastic"]
    figure.canvas.draw()
    for ax in figure.axes:
        box = ax.get_legend().get_window_extent()
        for line in ax.lines:
            points = line.get_transform().transform(np.asarray(line.get_xydata()))
            assert not any(box.contains(x, y) for x, y in points), line.get_label()


def test_the_softmax_turns_some_scalings_into_something_else():
    found = [column.loss.potential.slope(SCORES) for column in GRIDS["select_invalid"]]
    expected = [
        (0.002, 0.040, 0.140),
        (0.002, 0.045, 0.053),
        (0.252, 0.047, 0.252),
        (0.0493, 0.0451, 0.0047),
        (0.0047, 0.0451, 0.0493),
    ]
    np.testing.assert_allclose(found, expected, atol=5e-4)  # C77, C93-C95
    regions = [column.scalar.potential.slope(SCORES).argmax() for column in GRIDS["select_invalid"]]
    assert regions == [1, 0, 1, 2, 0]  # of one score they look where the headings ask
    wide = sm.CompositeSoftmax(sm.Tanh(), gamma=10.0).slope(SCORES)
    assert wide == pytest.approx([0.026, 0.284, 0.026], abs=5e-4)  # C72


# -------------------------------------------------------------------------------------------------- models, transforms


def test_underspecified_models_are_trained_to_the_optimum(drawn):
    assert [fit.weights for _, fit in models.FITS] == [
        pytest.approx([1.0, 0.0], abs=2e-3),  # C121
        pytest.approx([0.0, 1.0], abs=2e-3),
        pytest.approx([0.19895039081878660818, 1.3615127912969354431], abs=1e-12),
        pytest.approx([1.3615127912969354431, 0.19895039081878660818], abs=1e-12),  # C123: the mirror image
    ]
    for ax, (_, fit) in zip(axes_of(drawn["underspecification"], "predictions"), models.FITS, strict=True):
        labels, predictions = np.asarray(ax.lines[-1].get_xydata()).T
        np.testing.assert_array_equal(labels, fit.examples.labels)
        np.testing.assert_allclose(predictions, fit.examples.features @ fit.weights)
        gradient = fit.examples.features.T @ fit.loss.grad(predictions, labels)
        assert np.abs(gradient).max() < 1e-9


def test_pairs_merge_where_the_loss_looks_and_only_there():
    apart = []
    for _, fit in models.FITS:
        gaps = np.abs(fit.predictions[::2] - fit.predictions[1::2])
        labels = fit.examples.labels[::2]
        apart.append((gaps[labels < 0].max(), gaps[labels > 0].max()))
    (low, high), (low2, high2), (low3, high3), (low4, high4) = apart
    assert high < 0.01 < 1.9 < low
    assert low2 < 0.01 < 1.9 < high2
    assert 0.1 < low3 < 0.5 < 2.0 < high3  # C122: less, but not merged
    assert (low4, high4) == pytest.approx((high3, low3))


def test_predictions_for_varying_scores_follow_the_large_ones(drawn):
    left, right = drawn["match_stochastic"].axes
    ends = [np.asarray(line.get_xydata())[[0, -1], 1] for line in left.lines if len(line.get_xydata()) > 2]
    np.testing.assert_allclose(ends[0], [0.1012, 0.1302], atol=5e-5)  # C125, alpha = 1
    np.testing.assert_allclose(ends[2], [0.1120, 0.7057], atol=5e-5)  # alpha = 10
    np.testing.assert_allclose(ends[3], [0.1217, 0.8528], atol=5e-5)  # alpha = 20
    assert np.asarray(left.lines[0].get_xydata())[[0, -1], 0] == pytest.approx([0.15, 1.0])
    solid, dashed = curves_of(right), curves_of(right, "--")
    for alpha, zero, two in zip(models.RIGHT_ALPHAS, solid, dashed, strict=True):
        assert is_monotone(zero)
        np.testing.assert_allclose(two[:, 1] - 2.0, zero[:, 1], atol=1e-12)  # C126
        np.testing.assert_allclose(zero[1:, 1], np.log(np.cosh(alpha * zero[1:, 0])) / alpha, rtol=1e-9)
    assert at(solid[2], 1.5) == pytest.approx(1.1546643, abs=1e-6)
    shifted = stochastic.for_two_scores(2.0, 0.0, 1.5, beta=4.0)
    assert shifted == pytest.approx(1.1546643, abs=1e-7)


def test_the_links_of_invalid_transforms_fall_where_they_are_shaded(drawn):
    found = {}
    for ax, (_, transform) in zip(drawn["invalid_transforms"].axes, transforms.TRANSFORMS, strict=True):
        points = np.asarray(ax.lines[0].get_xydata())
        steps = np.diff(points[:, 1])
        assert np.nanmin(steps) < 0.0, transform
        falls = points[:-1][steps < -1e-12, 0]
        found[transform] = falls.min(), falls.max()
        shaded = np.concatenate([path.vertices[:, 0] for path in ax.collections[0].get_paths()])
        assert (shaded.min(), shaded.max()) == pytest.approx(found[transform], abs=0.05)
    assert found["sinh(abs(z))"] == pytest.approx((-0.881, 0.881), abs=0.05)  # C116
    assert found["exp(sigmoid(z))"][0] == pytest.approx(0.2, abs=0.1)  # C115
    assert found["softplus(z)"][0] == pytest.approx(0.87, abs=0.15)
    z = np.array([-0.9, -0.5, 0.5, 0.9, 1.0, 1.1])
    assert score_transforms.link_of(score_transforms.SQUARE)(z)[2:] == pytest.approx(
        [0.8, 0.994, 1.0, 0.995], abs=1e-3
    )  # C114
    assert score_transforms.link_of(score_transforms.SINH_OF_NORM, 0.5)(z) == pytest.approx(np.tanh(z), abs=1e-12)


# ------------------------------------------------------------------------------------------------------------ the page


def test_claims_are_grouped_by_verdict():
    from selmatch.paper.records import ERRATUM, HOLDS, OURS

    def claim(name, verdict, where="here"):
        return sm.paper.Claim(name, where, "so", verdict, "", lambda: sm.paper.Evidence(True, "seen"))

    found = [(claim("C01", HOLDS), None), (claim("C09", ERRATUM), None), (claim("C40", HOLDS, OURS), None)]
    errata, conditions, words, holds, ours = sheet.grouped(found)
    assert [row[0].id for row in errata.rows] == ["C09"]
    assert not conditions.rows + words.rows
    assert [row[0].id for row in holds.rows] == ["C01"]
    assert [row[0].id for row in ours.rows] == ["C40"]


def test_captions_name_claims_of_the_ledger_and_errata_are_errata():
    from selmatch.paper import ledger

    verdicts = {claim.id: claim.verdict for claim in ledger.claims()}
    for figure in sm.paper.figures():
        named = sheet.CLAIM.findall(figure.caption)
        assert set(named) <= set(verdicts), figure.name
        assert {found for found in named if verdicts[found] == "erratum"} == set(figure.errata), figure.name


class References(HTMLParser):
    """What a page refers to, and what it names."""

    def __init__(self):
        super().__init__()
        self.targets, self.names, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for key, value in attrs:
            if key in ("href", "src", "srcset", "data", "action"):
                self.targets.append(value)
            elif key == "id":
                self.names.append(value)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The contact sheet, with two figures only: the others take their time."""
    folder = tmp_path_factory.mktemp("paper")
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawings, "FIGURES", tuple(sm.paper.figure(name) for name in ("reweighting", "match_stochastic")))
        path = sm.paper.write(folder, progress=told.append)
    return path, told


def test_the_contact_sheet_refers_to_its_folder_only(page):
    path, told = page
    parser = References()
    text = path.read_text(encoding="utf-8")
    parser.feed(text)
    assert told[:2] == ["reweighting", "match_stochastic"]
    assert "script" not in parser.tags
    assert "http:" not in text
    assert "https:" not in text
    assert len(parser.names) == len(set(parser.names))
    files = {target for target in parser.targets if not target.startswith("#")}
    assert {"reweighting.svg", "match_stochastic.png"} <= files
    assert all((path.parent / target).is_file() and "/" not in target for target in files)
    assert {target[1:] for target in parser.targets if target.startswith("#")} <= set(parser.names)


def test_the_contact_sheet_shows_tables_examples_and_every_claim(page):
    from selmatch.paper import examples, ledger, tables

    text = page[0].read_text(encoding="utf-8")
    assert all(f'id="{claim.id}"' in text for claim in ledger.claims())
    assert text.count("✓ yes") == len(ledger.claims())
    assert all(f'id="table-{table.name}"' in text for table in tables.tables())
    assert all(f'src="example_{example.name}.svg"' in text for example in examples.examples())
    assert ledger.summary() in text
    section = text.partition('<section id="ours"')[2]
    assert re.findall(r'<tr id="(C\d+)"', section) == ["C40", "C42", "C58"]
    assert '<th scope="col" class="text">Ours, not in the paper</th>' in section
    assert "The paper says" not in section


def test_pictures_are_described_and_wide_ones_have_the_whole_width(page):
    text = page[0].read_text(encoding="utf-8")
    assert (
        'alt="The best prediction for scores that vary. Link exp(alpha z); the loss asks for the inverse link of'
        in text
    )
    assert '<figure id="reweighting" style="grid-column:1/-1">' in text  # four columns


def test_the_page_has_the_same_line_ends_everywhere(page):
    assert b"\r" not in page[0].read_bytes()  # on Windows too


def test_saved_figures_name_no_outside_place(page):
    svg = (page[0].parent / "reweighting.svg").read_text(encoding="utf-8")
    assert "matplotlib.org" not in svg
    assert "<image" not in svg
    assert "font-family" not in svg  # outlines: formulas look the same everywhere
