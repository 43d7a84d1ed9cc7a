"""Objectives of XGBoost."""

import copy
import json
import logging
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xgboost
from boosting_data import DISASTER, STEEP_AND_FAR, MyOwn, lists, plain_objective, regression
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import selmatch as sm
from selmatch import boosting, ranking

QUIET = {"nthread": 1, "max_depth": 3, "learning_rate": 0.3}
SIGMOID = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=0.5))


def trees(booster):
    """Everything about the trees but sums, whose rounding differs."""
    frame = booster.trees_to_dataframe()
    return frame[["Tree", "Node", "Feature", "Split", "Yes", "Missing"]]


def train(objective, data, rounds=10, **params):
    merged = {**QUIET, **objective.params(data), **params}
    return xgboost.train(merged, data, rounds, obj=objective, custom_metric=objective.metric)


# ------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("link", [sm.Identity(), sm.Identity().affine(alpha=2.0, beta=1.0, gain=5.0)], ids=repr)
@pytest.mark.parametrize("curvature", ["secant", "newton"])
def test_an_identity_link_is_the_squared_error_of_xgboost(link, curvature):
    X, y = regression(shift=3.0)
    data = xgboost.DMatrix(X, label=y)
    objective = boosting.xgboost(link, curvature=curvature, route="python")
    ours = train(objective, data)
    settings = {**QUIET, "objective": "reg:squarederror", "base_score": objective.start.score}
    theirs = xgboost.train(settings, data, 10)
    pd.testing.assert_frame_equal(trees(ours), trees(theirs))
    np.testing.assert_allclose(ours.predict(data), theirs.predict(data), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tree_method", ["exact", "hist"])
@pytest.mark.parametrize("curvature", ["secant", "newton"])
def test_weights_are_duplicated_rows(tree_method, curvature):
    X, y = regression(rows=120)
    X = np.round(X) if tree_method == "hist" else X  # so that cuts do not depend on weights
    times = np.random.default_rng(1).integers(1, 4, len(y))
    params = {**QUIET, "tree_method": tree_method, "lambda": 0.7, "min_child_weight": 2.0, "gamma": 0.01}
    options = {"rounds": 8, "params": params}
    weighted = boosting.xgboost(SIGMOID, curvature=curvature, route="python").fit(X, y, weights=times, **options)
    X2, y2 = np.repeat(X, times, axis=0), np.repeat(y, times)
    duplicated = boosting.xgboost(SIGMOID, curvature=curvature, route="python").fit(X2, y2, **options)
    assert weighted.objective.start.score == pytest.approx(duplicated.objective.start.score, rel=1e-12)
    assert weighted.objective.start.scale == pytest.approx(duplicated.objective.start.scale, rel=1e-5)
    pd.testing.assert_frame_equal(trees(weighted.booster), trees(duplicated.booster), rtol=1e-5)
    np.testing.assert_allclose(weighted.predict(X), duplicated.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("link", STEEP_AND_FAR, ids=repr)
def test_steep_and_far_sigmoids_do_not_fail_from_the_default_start(link, kind):
    loss = sm.MatchingLoss(link)
    X, y = regression(shift=link.beta)
    data = xgboost.DMatrix(X, label=y)
    start = loss.minimiser(y)
    by_hand = plain_objective(loss, data.get_label().astype(float), start, kind)
    default = xgboost.train(QUIET, data, 30, obj=by_hand)
    right = xgboost.train({**QUIET, "base_score": start}, data, 30, obj=by_hand)
    ours = train(boosting.xgboost(loss, curvature=kind, route="python"), data, 30)
    disaster, reached, expected = (loss(b.predict(data).astype(float), y) for b in (default, ours, right))
    assert disaster > DISASTER[kind] * expected
    assert reached == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("form", ["pairwise", "listwise"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ranking_gradients_are_those_of_selmatch_ranking(form, weighted):
    X, y, sizes = lists()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(sizes)) if weighted else None
    loss = sm.MatchingLoss(sm.Sinh() if form == "pairwise" else sm.CompositeSoftmax(sm.Sinh()))
    objective = boosting.xgboost(loss, ranking=form)
    data = xgboost.DMatrix(X, label=y, group=sizes, weight=weights)
    objective.params(data)
    scores = np.random.default_rng(3).normal(size=len(y)).astype(np.float32)
    gradient, curvature = objective(scores, data)
    y32 = data.get_label().astype(float)
    options = {"segments": ranking.Sizes(sizes), "weights": None if weights is None else data.get_weight()}
    expected = getattr(ranking, form).grad(scores.astype(float), y32, loss, reduction="sum", **options)
    np.testing.assert_allclose(gradient, objective.start.scale * expected, rtol=1e-5, atol=1e-6)
    assert np.all(curvature >= 0)
    assert curvature.dtype == gradient.dtype == np.float32
    name, value = objective.metric(scores, data)
    assert name == boosting.METRIC
    assert value == pytest.approx(getattr(ranking, form)(scores.astype(float), y32, loss, **options), rel=1e-6)


def test_lists_are_trained_by_groups_and_by_ids():
    X, y, sizes = lists(60)
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    model = boosting.xgboost(loss, ranking="listwise").fit(X, y, groups=sizes, rounds=20, params=QUIET)
    data = xgboost.DMatrix(X, label=y, qid=np.repeat(np.arange(len(sizes)), sizes))
    by_ids = train(boosting.xgboost(loss, ranking="listwise"), data, 20)
    np.testing.assert_allclose(model.predict(X), by_ids.predict(data), rtol=1e-6, atol=1e-6)
    segments = ranking.Sizes(sizes)
    start = np.full(len(y), model.objective.start.score)
    assert ranking.listwise(model.predict(X), y, loss, segments=segments) < 0.5 * ranking.listwise(
        start, y, loss, segments=segments
    )


# ------------------------------------------------------------------------------------------- what the objective notices


def test_parameters_that_were_not_merged_are_noticed():
    X, y = regression(shift=3.0)
    data = xgboost.DMatrix(X, label=y)
    objective = boosting.xgboost(SIGMOID)
    with pytest.raises(ValueError, match=r"must see the training labels .* Merge params\(dtrain\)"):
        xgboost.train(QUIET, data, 2, obj=objective)
    merged = objective.params(data)
    with pytest.raises(ValueError, match=r"training must start at .*, got 0\.5\. Merge params"):
        xgboost.train(QUIET, data, 2, obj=objective)
    xgboost.train({**QUIET, **merged}, data, 2, obj=objective)
    with pytest.raises(ValueError, match="training must start at"):  # also when it went well before
        xgboost.train(QUIET, data, 2, obj=objective)
    with pytest.raises(ValueError, match="training must start at"):
        xgboost.train({**QUIET, **merged, "base_score": 1.0}, xgboost.DMatrix(X, label=y + 1e-3), 2, obj=objective)


def test_a_base_margin_starts_elsewhere():
    X, y = regression()
    data = xgboost.DMatrix(X, label=y, base_margin=np.full(len(y), 1.0))
    objective = boosting.xgboost(SIGMOID)
    assert xgboost.train({**QUIET, **objective.params(data)}, data, 3, obj=objective).num_boosted_rounds() == 3


def test_constant_predictions_in_later_rounds_are_no_mistake():
    X, y = regression()
    data = xgboost.DMatrix(X, label=y)
    objective = boosting.xgboost(SIGMOID)
    booster = train(objective, data, 5, subsample=0.5, gamma=1e9)
    assert np.ptp(booster.predict(data)) == 0.0
    assert booster.predict(data)[0] != np.float32(objective.start.score)


def test_changed_labels_of_a_matrix_are_noticed():
    X, y = regression()
    data = xgboost.DMatrix(X, label=y)
    objective = boosting.xgboost(SIGMOID)
    train(objective, data)
    data.set_label(-y)
    fresh = train(boosting.xgboost(SIGMOID), data)
    np.testing.assert_array_equal(train(objective, data).predict(data), fresh.predict(data))


def test_scores_at_which_the_link_overflows_are_an_error():
    X, y = regression()
    objective = boosting.xgboost(sm.Exp())
    data = xgboost.DMatrix(X, label=y)
    objective.params(data)
    with pytest.raises(ValueError, match=r"scores must stay where the link Exp\(\) is finite, .* Cap the link"):
        objective(np.linspace(-1.0, 1e4, len(y), dtype=np.float32), data)


def test_a_worker_without_rows_does_no_harm():
    objective = boosting.xgboost(SIGMOID)
    objective.params([0.0, 1.0, 2.0])
    nothing = xgboost.DMatrix(np.empty((0, 2)), label=np.empty(0))
    gradient, curvature = objective(np.empty(0, np.float32), nothing)
    assert gradient.shape == curvature.shape == (0,)
    assert objective.metric(np.empty(0, np.float32), nothing) == (boosting.METRIC, 0.0)


BAD = {
    "NaN": ({"y": np.array([1.0, np.nan, 2.0])}, "labels must be finite numbers, got nan in row 1"),
    "domain": ({"y": np.array([1.0, 2.0, -1.0])}, "labels must lie in .* the domain of the link"),
    "negative": ({"weights": np.array([1.0, -1.0, 1.0])}, "weights must be finite and not negative, got -1 in row 1"),
    "short": ({"weights": np.ones(2)}, r"weights must be one for each row, shape \(3,\), got shape \(2,\)"),
    "objective": ({"params": {"objective": "other"}}, "params must not hold 'objective', got 'other'"),
    "stopping": ({"early_stopping": 3}, "validation must be given for early_stopping=3"),
    "validation": ({"validation": (np.ones((2, 1)), [1.0, np.nan])}, "labels must be finite numbers"),
    "tuple": ({"validation": (1,)}, r"validation must be \(X, y\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_before_training(case, monkeypatch):
    monkeypatch.setattr(xgboost, "train", None)
    changes, message = BAD[case]
    with pytest.raises(ValueError, match=rf"^selmatch\.boosting\.xgboost: .*{message}"):
        boosting.xgboost(sm.Log()).fit(np.ones((3, 1)), **{"y": np.array([1.0, 2.0, 3.0]), **changes})


@pytest.mark.parametrize(("groups", "message"), [([2, 2], "groups must add up"), (None, "groups must be given")])
def test_groups_must_add_up(groups, message):
    with pytest.raises(ValueError, match=message):
        boosting.xgboost(sm.Sinh(), ranking="pairwise").fit(np.ones((3, 1)), np.arange(3.0), groups=groups)
    if groups is None:
        with pytest.raises(ValueError, match=message):
            boosting.xgboost(sm.Sinh(), ranking="pairwise").params(xgboost.DMatrix(np.ones((3, 1)), label=[0, 1, 2]))


def test_estimators_do_not_train_lists():
    X, y, _ = lists()
    objective = boosting.xgboost(sm.Sinh(), ranking="pairwise")
    objective.start = boosting.Start(0.0, 1.0)
    with pytest.raises(ValueError, match=r"must be trained by xgboost\.train or fit"):
        xgboost.XGBRegressor(objective=objective, base_score=0.0).fit(X, y)


def test_the_native_route_is_for_fit():
    objective = boosting.xgboost(sm.Sigmoid(), curvature="newton")
    assert objective.route == "native"
    with pytest.raises(ValueError, match=r"params\(\.\.\.\) must not be used with route='native'"):
        objective.params([1.0, 2.0])


# ----------------------------------------------------------------------------------------------------- ways to train


@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_train_the_same(weighted):
    X, y = regression(shift=2.0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    objective = boosting.xgboost(SIGMOID)
    estimator = xgboost.XGBRegressor(
        objective=objective, n_estimators=10, n_jobs=1, max_depth=3, learning_rate=0.3, eval_metric=objective.metric,
        **objective.params(y, weights),
    )  # fmt: skip
    estimator = pickle.loads(pickle.dumps(clone(estimator)))
    estimator.fit(X, y, sample_weight=weights, eval_set=[(X, y)], sample_weight_eval_set=[weights], verbose=False)
    model = boosting.xgboost(SIGMOID).fit(X, y, weights=weights, rounds=10, params=QUIET, validation=(X, y, weights))
    np.testing.assert_allclose(estimator.predict(X), model.predict(X), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(objective.predict(estimator, X), model.predict(X), rtol=1e-5, atol=1e-5)
    history = estimator.evals_result()["validation_0"]
    assert list(history) == [boosting.METRIC]
    np.testing.assert_allclose(history[boosting.METRIC], model.history[boosting.METRIC], rtol=1e-4)
    assert history[boosting.METRIC][-1] == pytest.approx(SIGMOID(model.predict(X), y, weights=weights), rel=1e-4)


def test_early_stopping_follows_the_matching_loss():
    X, y = regression()
    objective = boosting.xgboost(SIGMOID)
    options = {"rounds": 80, "params": QUIET, "validation": (X[200:], y[200:]), "early_stopping": 4}
    model = objective.fit(X[:200], y[:200], **options)
    history = model.history[boosting.METRIC]
    assert model.best_iteration == int(np.argmin(history)) < len(history) - 1 == model.best_iteration + 4
    assert SIGMOID(model.predict(X[200:]), y[200:]) == pytest.approx(min(history), rel=1e-4)
    np.testing.assert_array_equal(objective.predict(model.booster, X), model.predict(X))
    estimator = xgboost.XGBRegressor(
        objective=objective, n_estimators=80, n_jobs=1, max_depth=3, learning_rate=0.3, eval_metric=objective.metric,
        early_stopping_rounds=4, **objective.params(y[:200]),
    )  # fmt: skip
    estimator.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    assert estimator.best_iteration == model.best_iteration


@pytest.mark.parametrize("gain", [1e-3, 1e-6])
def test_early_stopping_sees_all_digits_of_a_small_loss(gain):
    X, y = regression()
    options = {"rounds": 60, "params": QUIET, "validation": (X[200:], y[200:]), "early_stopping": 4}
    large, small = (
        boosting.xgboost(sm.Identity().affine(gain=factor)).fit(X[:200], y[:200], **options) for factor in (1.0, gain)
    )
    assert small.best_iteration == large.best_iteration > 10
    np.testing.assert_allclose(
        small.history[boosting.METRIC], gain * np.array(large.history[boosting.METRIC]), rtol=1e-4
    )


def test_quantile_matrices_and_cross_validation():
    X, y = regression()
    objective = boosting.xgboost(SIGMOID)
    plain = train(objective, xgboost.DMatrix(X, label=y), 5)
    quantile = train(objective, xgboost.QuantileDMatrix(X, label=y, nthread=1), 5)
    np.testing.assert_allclose(plain.predict(xgboost.DMatrix(X)), quantile.predict(xgboost.DMatrix(X)), rtol=1e-6)
    data = xgboost.DMatrix(X, label=y)
    result = xgboost.cv(
        {**QUIET, **objective.params(data)}, data, 5, nfold=3, obj=objective, custom_metric=objective.metric
    )
    column = result[f"test-{boosting.METRIC}-mean"]
    assert column.iloc[-1] < column.iloc[0] < SIGMOID(np.full(len(y), objective.start.score), y)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_many_targets(strategy):
    X, y = regression()
    Y = np.stack([y, 3.0 - 2.0 * y], axis=1)
    params = {**QUIET, "multi_strategy": strategy}
    model = boosting.xgboost(sm.Identity(), route="python").fit(X, Y, rounds=10, params=params)
    assert model.predict(X).shape == Y.shape
    settings = {**params, "objective": "reg:squarederror", "base_score": list(model.objective.start.score)}
    theirs = xgboost.train(settings, xgboost.DMatrix(X, label=Y), 10)
    np.testing.assert_allclose(model.predict(X), theirs.predict(xgboost.DMatrix(X)), rtol=1e-5, atol=1e-5)
    estimator = xgboost.XGBRegressor(objective=model.objective, n_estimators=10, n_jobs=1, **{
        **params, **model.objective.params(Y)
    })  # fmt: skip
    np.testing.assert_allclose(estimator.fit(X, Y).predict(X), model.predict(X), rtol=1e-5, atol=1e-5)


def test_a_loss_of_many_classes_trains_rows_of_scores():
    X, y = regression()
    Y = np.stack([y, -y, 0.3 * y], axis=1)
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
    objective = boosting.xgboost(loss)
    data = xgboost.DMatrix(X, label=Y)
    booster = train(objective, data, 20)
    assert loss(booster.predict(data), Y) < 0.3 * loss(np.broadcast_to(objective.start.score, Y.shape), Y)
    scores = np.random.default_rng(0).normal(size=Y.shape).astype(np.float32)
    gradient, _ = objective(scores, data)
    expected = objective.start.scale * loss.grad(scores.astype(float), data.get_label().astype(float))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    assert gradient.shape == Y.shape


def test_categories_missing_values_and_sparse_matrices():
    X, y = regression()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["a"] = pd.Categorical(np.where(X[:, 0] > 0, "up", "down"))
    frame.loc[::7, "b"] = np.nan
    options = {"rounds": 20, "params": QUIET}
    model = boosting.xgboost(SIGMOID).fit(frame, y, **options, validation=(frame, y))
    assert SIGMOID(model.predict(frame), y) == pytest.approx(model.history[boosting.METRIC][-1], rel=1e-4)
    sparse = boosting.xgboost(SIGMOID).fit(scipy.sparse.csr_matrix(X), y, **options)
    dense = boosting.xgboost(SIGMOID).fit(X, y, **options)
    np.testing.assert_allclose(sparse.predict(scipy.sparse.csr_matrix(X)), dense.predict(X), rtol=1e-6)


# ------------------------------------------------------------------------------------------------ what stays afterwards


@pytest.mark.parametrize("curvature", ["secant", "newton"])
def test_a_saved_booster_knows_its_loss(curvature, tmp_path):
    X, y = regression()
    objective = boosting.xgboost(SIGMOID, curvature=curvature)
    model = objective.fit(X, y, rounds=5, params=QUIET)
    objective.save(model.booster, tmp_path / "model.json")
    booster = xgboost.Booster(model_file=tmp_path / "model.json")
    restored = boosting.from_xgboost(booster)
    assert repr(restored) == repr(objective)
    assert restored.start == model.objective.start
    np.testing.assert_array_equal(restored.predict(booster, X), model.predict(X))


def test_training_goes_on_with_a_restored_objective():
    X, y = regression()
    data = xgboost.DMatrix(X, label=y)
    objective = boosting.xgboost(SIGMOID)
    whole = train(objective, data, 10)
    half = train(objective, data, 5)
    objective.annotate(half)
    restored = boosting.from_xgboost(xgboost.Booster(model_file=half.save_raw()))
    rest = xgboost.train(QUIET, data, 5, obj=restored, xgb_model=half)
    np.testing.assert_allclose(rest.predict(data), whole.predict(data), rtol=1e-6, atol=1e-6)


def test_rows_of_scores_and_lists_are_restored():
    X, y = regression()
    Y = np.stack([y, -y], axis=1)
    model = boosting.xgboost(sm.MatchingLoss(sm.CompositeSoftmax())).fit(X, Y, rounds=2, params=QUIET)
    assert boosting.from_xgboost(model.booster).start == model.objective.start
    X, y, sizes = lists()
    model = boosting.xgboost(sm.Sinh(), ranking="pairwise").fit(X, y, groups=sizes, rounds=2, params=QUIET)
    assert boosting.from_xgboost(model.booster).ranking == "pairwise"


def test_a_booster_without_a_loss_says_so():
    data = xgboost.DMatrix(np.ones((3, 1)), label=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="got one without a loss in its attributes"):
        boosting.from_xgboost(xgboost.train({"nthread": 1}, data, 1))


@pytest.fixture(scope="module")
def annotated():
    """A trained booster, and what it says about its training."""
    X, y = regression(rows=60)
    booster = boosting.xgboost(SIGMOID).fit(X, y, rounds=2, params=QUIET).booster
    return booster, booster.attr("selmatch")


def restore(booster, text):
    """Restore from an attribute: an objective that is ready, or None after the one error, which names the attribute."""
    booster.set_attr(selmatch=text)
    found = restored_or_refused(booster)
    if isinstance(found, str):
        assert found.startswith(
            "selmatch.boosting.from_xgboost: the booster's attribute 'selmatch' must be as fit(...)"
        )
        assert found.endswith("). Save the booster again with the objective that trained it.")
        assert len(found) < 450
        return None
    assert np.isfinite(found.start.score).all()
    assert 0.0 < found.start.scale < np.inf
    return found


def restored_or_refused(booster):
    try:
        return boosting.from_xgboost(booster)
    except ValueError as error:
        return str(error)


HOSTILE = (
    None, True, False, 0, -1, 7, 10**400, 1e308, -0.0, math.nan, math.inf, "", "0.5", "selmatch = 1", "{}", "[" * 5000,
    [], [[]], [1.0, "a"], [[1.0]], [math.inf], {}, {"a": 1}, "\ud800", "newton", ["secant"],
)  # fmt: skip
TEXTS = (
    "", " ", "null", "3", '"loss"', "[]", "[[]]", "{}", "{", "\x1b[31m", "NaN", "[" * 100_000, '{"a":' * 100_000,
    "9" * 5000, "{}{}", "\ufeff{}", "\N{SNOWMAN}",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_an_attribute_that_is_no_objective_is_named(annotated, text):
    assert restore(annotated[0], text) is None


@pytest.mark.parametrize("key", ["loss", "curvature", "route", "ranking", "start", "scale", "other"])
def test_hostile_values_in_an_attribute_are_named(annotated, key):
    booster, text = annotated
    document = json.loads(text)
    for value in HOSTILE:
        objective = restore(booster, json.dumps({**document, key: value}))
        if objective is not None:
            assert key in ("curvature", "route", "ranking", "start", "scale")
            assert type(value) in (float, int, str, type(None))
    lacking = restore(booster, json.dumps({name: value for name, value in document.items() if name != key}))
    assert (lacking is None) == (key in ("loss", "start", "scale"))


@settings(deadline=None)
@given(at=st.integers(0, 10**6), count=st.integers(0, 40), put=st.text(max_size=4))
def test_no_change_of_an_attribute_is_more_than_an_error(annotated, at, count, put):
    booster, text = annotated
    at %= len(text)
    put = put.replace("\0", "").encode(errors="ignore").decode()  # what XGBoost can hold
    restore(booster, text[:at] + put + text[at + count :])


def test_an_attribute_that_is_no_text_is_named(annotated):
    booster, text = annotated
    booster.set_attr(selmatch=text)
    raw = bytearray(booster.save_raw("ubj"))
    raw[raw.index(b"curvature")] = 0xFF
    with pytest.raises(ValueError, match="the booster's attribute 'selmatch' must"):
        boosting.from_xgboost(xgboost.Booster(model_file=raw))


@pytest.mark.parametrize("booster", [None, 3, object()], ids=type)
def test_what_is_no_booster_is_named(booster):
    with pytest.raises(TypeError, match=r"boosting\.xgboost: expected a Booster or an estimator of XGBoost, got"):
        boosting.from_xgboost(booster)


@pytest.mark.parametrize("best", ["", "-1", "-5", "2", "9" * 30, "abc", "1.5", "nan"])
def test_a_best_round_that_is_none_is_named(annotated, best):
    X, y = regression(rows=60)
    model = boosting.xgboost(SIGMOID).fit(X, y, rounds=2, params=QUIET)
    model.booster.set_attr(best_iteration=best)
    with pytest.raises(ValueError, match="'best_iteration' must be a whole number from 0 to 1, got"):
        model.objective.predict(model.booster, X)
    model.booster.set_attr(best_iteration="1")
    np.testing.assert_array_equal(model.objective.predict(model.booster, X), model.predict(X))


def test_links_of_users_train_but_are_not_kept(caplog):
    X, y = regression()
    model = boosting.xgboost(MyOwn()).fit(X, y, rounds=2, params=QUIET)
    assert "does not keep its loss" in caplog.text
    assert model.booster.attr("selmatch") is None


def test_copies_carry_no_rows_and_models_keep_their_start():
    X, y = regression(1000)
    objective = boosting.xgboost(SIGMOID)
    train(objective, xgboost.DMatrix(X, label=y), 2)
    assert len(objective._seen) == 1
    assert copy.deepcopy(objective)._seen == []
    assert len(pickle.dumps(objective)) < 2000
    first = objective.fit(X, y, rounds=3, params=QUIET)
    before = first.predict(X)
    objective.fit(X, y + 5.0, rounds=3, params=QUIET)
    assert first.objective.start != objective.start
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(X), before)


def test_one_log_line_says_what_runs(caplog):
    X, y = regression()
    with caplog.at_level(logging.INFO, logger="selmatch"):
        boosting.xgboost(SIGMOID).fit(X, y, rounds=2, params=QUIET)
        boosting.xgboost(SIGMOID, curvature="newton").fit(X, y, rounds=2, params=QUIET)
    lines = [record.getMessage() for record in caplog.records if record.name == "selmatch.boosting"]
    assert [line.split(",")[0] for line in lines] == ["XGBoost: python route", "XGBoost: native route"]


def test_the_start_value_is_in_the_booster():
    X, y = regression(shift=7.0)
    model = boosting.xgboost(SIGMOID).fit(X, y, rounds=1, params=QUIET)
    kept = json.loads(model.booster.save_config())["learner"]["learner_model_param"]["base_score"]
    assert json.loads(kept)[0] == pytest.approx(model.objective.start.score, rel=1e-6)
