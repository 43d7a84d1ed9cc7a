"""Objectives of CatBoost."""

import logging
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from time import perf_counter

import catboost
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from boosting_data import DISASTER, STEEP_AND_FAR, regression

import selmatch as sm
from selmatch import boosting
from selmatch.boosting import for_catboost

QUIET = {"thread_count": 1, "depth": 3, "learning_rate": 0.3, "random_seed": 1}
SETTINGS = {**QUIET, "logging_level": "Silent", "allow_writing_files": False, "iterations": 10}
NEWTON = {"leaf_estimation_method": "Newton", "leaf_estimation_iterations": 1}
SIGMOID = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=0.5))
WEIGHTS = np.random.default_rng(5).uniform(0.5, 2.0, 300)


class ByHand:
    """What a careful user writes without selmatch.boosting; CatBoost may hand over rows in any order and in parts."""

    no_jit = True

    def __init__(self, loss, labels, start, kind):
        self.loss, self.kind = loss, kind
        self.scale = 1.0 / np.mean(loss.curvature(np.full(len(labels), start), labels, kind=kind))

    def calc_ders_range(self, approxes, targets, weights):
        targets = targets.astype(float)
        curvature = self.loss.curvature(approxes, targets, kind=self.kind)
        return -self.scale * np.stack([self.loss.grad(approxes, targets), curvature], axis=1)


def same_trees(ours, theirs, X):
    return np.array_equal(ours.calc_leaf_indexes(X), theirs.calc_leaf_indexes(X))


# ------------------------------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("link", [sm.Identity(), sm.Identity().affine(alpha=2.0, beta=1.0, gain=5.0)], ids=repr)
@pytest.mark.parametrize("route", ["python", "native"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_an_identity_link_is_the_squared_error_of_catboost(link, route, weights):
    X, y = regression(shift=3.0)
    ours = boosting.catboost(link, curvature="newton", route=route).fit(X, y, weights=weights, rounds=10, params=QUIET)
    theirs = catboost.CatBoostRegressor(**SETTINGS, **NEWTON).fit(X, y, sample_weight=weights)
    assert same_trees(ours.booster, theirs, X)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6, atol=1e-6)


def test_a_sigmoid_by_newton_is_the_cross_entropy_of_catboost():
    X, y = regression(shift=1.0)
    link = sm.Sigmoid().affine(alpha=4.0, beta=1.0, gain=3.0)
    # in the choice of splits CatBoost adds l2_leaf_reg to weights, not to curvatures: only 0 is the same in both units
    options = {"rounds": 15, "params": {**QUIET, "l2_leaf_reg": 0.0, "bootstrap_type": "No", "min_data_in_leaf": 5}}
    ours, native = (
        boosting.catboost(link, curvature="newton", route=route).fit(X, y, weights=WEIGHTS, **options)
        for route in ("python", "native")
    )
    assert same_trees(ours.booster, native.booster, X)
    np.testing.assert_allclose(ours.predict(X), native.predict(X), rtol=1e-6, atol=1e-6)


def test_the_native_route_converts_the_regularisation_of_leaves():
    X, y = regression(rows=100)
    one_leaf = {**QUIET, "depth": 1, "l2_leaf_reg": 7.0, "random_strength": 0.0, "bootstrap_type": "No"}
    X = np.round(X[:, :1] > 0.0)  # one split only
    link = sm.Sigmoid().affine(alpha=4.0)
    ours, native = (
        boosting.catboost(link, curvature="newton", route=route).fit(X, y, rounds=10, params=one_leaf).predict(X)
        for route in ("python", "native")
    )
    np.testing.assert_allclose(ours, native, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("link", STEEP_AND_FAR, ids=repr)
def test_steep_and_far_sigmoids_do_not_fail_from_the_default_start(link, kind):
    loss = sm.MatchingLoss(link)
    X, y = regression(shift=link.beta)
    y = y.astype(np.float32).astype(float)
    start = loss.minimiser(y)

    def trained(baseline):
        metric = boosting.catboost(loss).metric
        params = {**SETTINGS, **NEWTON, "iterations": 30, "eval_metric": metric, "metric_period": 100}
        metric.objective.start = boosting.Start(0.0, 1.0)
        booster = catboost.CatBoost({**params, "loss_function": ByHand(loss, y, start, kind)})
        booster.fit(catboost.Pool(X, y, baseline=np.full(len(y), baseline)))
        return baseline + booster.predict(X)

    ours = boosting.catboost(loss, curvature=kind, route="python").fit(X, y, rounds=30, params=QUIET).predict(X)
    right = loss(trained(start), y)
    assert loss(trained(0.0), y) > 0.2 * DISASTER[kind] * right
    assert loss(ours, y) == pytest.approx(right, rel=0.01)


# -------------------------------------------------------------------------------------------------------- derivatives


def blocks(link, kind, weighted):
    """Derivatives of a block of rows from our objective, and what they must be."""
    rng = np.random.default_rng(0)
    loss = sm.MatchingLoss(link)
    y = rng.normal(size=40).astype(np.float32)
    weights = rng.uniform(0.5, 2.0, 40).astype(np.float32) if weighted else None
    objective = boosting.catboost(loss, curvature=kind, route="python")
    objective.prepare(y, weights)
    approxes = rng.normal(size=40)
    pairs = objective.calc_ders_range(approxes, y, weights)
    scores, factor = approxes + objective.start.score, objective.start.scale * (1.0 if weights is None else weights)
    labels = y.astype(float)
    expected = factor * loss.grad(scores, labels), factor * loss.curvature(scores, labels, kind=kind)
    return objective, pairs, -np.stack(expected, axis=1)


@pytest.mark.parametrize("kind", ["secant", "newton"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("link", [sm.Sinh(), SIGMOID.potential, sm.Huber(c=1.0), sm.Identity()], ids=repr)
def test_derivatives_are_those_of_the_loss_times_weights_with_turned_signs(link, kind, weighted):
    _, pairs, expected = blocks(link, kind, weighted)
    np.testing.assert_allclose(pairs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "weighted"), [("secant", False), ("newton", True)])
def test_compiled_blocks_give_the_same_numbers(kind, weighted, monkeypatch):
    objective, in_chunks, expected = blocks(SIGMOID.potential, kind, weighted)
    assert objective._backend == "numpy"
    monkeypatch.setattr(for_catboost, "_MANY", 0)
    objective, compiled, _ = blocks(SIGMOID.potential, kind, weighted)
    assert objective._backend == "numba"
    np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(compiled, in_chunks, rtol=1e-5, atol=1e-6)


def test_other_numbers_in_a_link_do_not_compile_again():
    links = SIGMOID.potential, sm.Sigmoid().affine(alpha=3.0, beta=0.25)
    one, other = (sm.kernels.elementwise(link).compiled("secant_block", np.float32) for link in links)
    assert one is other


@pytest.mark.parametrize(
    ("few", "link", "last"), [(0, SIGMOID.potential, np.nan), (10**9, sm.Exp(), 1e4)], ids=["compiled", "in chunks"]
)
def test_scores_at_which_the_link_is_not_finite_are_named(few, link, last, monkeypatch):
    monkeypatch.setattr(for_catboost, "_MANY", few)
    objective = boosting.catboost(link)
    y = np.array([0.5, 1.0, 2.0], dtype=np.float32)
    objective.prepare(y)
    with pytest.raises(ValueError, match=r"scores must stay where .*, got scores from .* to .*\. Cap the link"):
        objective.calc_ders_range(np.array([0.0, 0.1, last]), y, None)


@pytest.mark.parametrize("few", [0, 10**9], ids=["compiled", "in chunks"])
def test_scores_are_moved_into_the_domain(few, monkeypatch):
    monkeypatch.setattr(for_catboost, "_MANY", few)
    objective = boosting.catboost(sm.Log())
    y = np.array([0.5, 1.0, 2.0], dtype=np.float32)
    objective.prepare(y)
    pairs = objective.calc_ders_range(np.array([-5.0, 0.0, 1.0]), y, None)
    edge = 1e-6 * objective.start.score
    assert -pairs[0, 0] == pytest.approx(objective.start.scale * (np.log(edge) - np.log(0.5)), rel=1e-5)


def test_blocks_from_many_threads_give_the_same_numbers():
    objective, pairs, _ = blocks(sm.Sinh(), "secant", False)
    rng = np.random.default_rng(0)
    y, approxes = rng.normal(size=40).astype(np.float32), rng.normal(size=40)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: objective.calc_ders_range(approxes, y, None), range(200)))
    assert all(np.array_equal(one, pairs) for one in found)
    assert objective._turn.waiting == 0


def test_threads_take_turns():
    turn = for_catboost._Turn()
    turn.wait()
    assert turn.thread == get_ident()
    turn.last = perf_counter() + 0.02  # this thread is at work for a while
    with ThreadPoolExecutor(1) as pool:
        pool.submit(turn.wait).result()
    assert turn.thread != get_ident()
    assert perf_counter() >= turn.last


def test_labels_far_from_zero_keep_their_precision():
    X, y = regression(shift=1e5)
    ours = boosting.catboost(sm.Identity()).fit(X, y, rounds=10, params=QUIET)
    theirs = catboost.CatBoostRegressor(**SETTINGS, **NEWTON).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=0.0, atol=1e-2)


# ------------------------------------------------------------------------------------------------- training and models


def test_early_stopping_goes_by_the_matching_loss_and_keeps_the_best_round():
    X, y = regression(rows=240)
    weights = WEIGHTS[:80]
    objective = boosting.catboost(SIGMOID)
    model = objective.fit(
        X[:160], y[:160], rounds=200, params=QUIET, validation=(X[160:], y[160:], weights), early_stopping=5
    )
    history = model.history[boosting.METRIC]
    assert len(history) < 200
    assert model.best_iteration == int(np.argmin(history))
    expected = SIGMOID(model.predict(X[160:]), y[160:], weights=weights)
    assert history[model.best_iteration] == pytest.approx(expected, rel=1e-5)


def test_boosters_carry_the_start_value_also_into_files(tmp_path):
    X, y = regression(shift=5.0)
    link = sm.Sigmoid().affine(alpha=4.0, beta=5.0)
    for route in ("python", "native"):
        model = boosting.catboost(link, curvature="newton", route=route).fit(X, y, rounds=5, params=QUIET)
        scores = model.predict(X)
        assert np.corrcoef(scores, y)[0, 1] > 0.7
        assert abs(np.mean(scores) - 5.0) < 1.0
        np.testing.assert_allclose(model.booster.predict(X), scores, rtol=1e-12)
        model.booster.save_model(str(tmp_path / "model.cbm"))
        reloaded = catboost.CatBoost().load_model(str(tmp_path / "model.cbm"))
        np.testing.assert_allclose(reloaded.predict(X), scores, rtol=1e-12)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), scores)


def test_estimators_take_the_parameters():
    X, y = regression(shift=5.0)
    objective = boosting.catboost(SIGMOID.potential.affine(beta=5.0))
    params = {**SETTINGS, **objective.params(catboost.Pool(X, y, weight=WEIGHTS))}
    estimator = catboost.CatBoostRegressor(**params).fit(X, y, sample_weight=WEIGHTS, eval_set=(X, y))
    fitted = boosting.catboost(SIGMOID.potential.affine(beta=5.0)).fit(X, y, weights=WEIGHTS, rounds=10, params=QUIET)
    scores = objective.predict(estimator, X)
    np.testing.assert_allclose(scores, fitted.predict(X), rtol=1e-6)
    reported = estimator.get_evals_result()["validation"][boosting.METRIC][-1]
    assert reported == pytest.approx(objective.loss(scores, y), rel=1e-5)
    np.testing.assert_allclose(objective.predict(estimator, catboost.Pool(X)), scores)
    first = objective.predict(estimator, X, rounds=1)
    assert np.ptp(first) < np.ptp(scores)


def test_training_goes_on_from_a_booster_with_its_bias():
    X, y = regression(shift=5.0)
    loss = sm.MatchingLoss(SIGMOID.potential.affine(beta=5.0))
    objective = boosting.catboost(loss)
    whole = objective.fit(X, y, rounds=10, params=QUIET)
    model = objective.fit(X, y, rounds=5, params=QUIET)
    more = catboost.CatBoostRegressor(**{**SETTINGS, **objective.params(y), "iterations": 5})
    more.fit(X, y, init_model=model.booster)
    assert more.tree_count_ == 10
    np.testing.assert_allclose(objective.predict(more, X), whole.predict(X), rtol=1e-9)


def test_many_targets_with_one_link_are_the_squared_errors_of_catboost():
    X, y = regression(rows=100, shift=3.0)
    Y = np.stack([y, 2.0 - y**2], axis=1)
    weights = WEIGHTS[:100]
    theirs = catboost.CatBoost({**SETTINGS, **NEWTON, "iterations": 5, "loss_function": "MultiRMSE"})
    theirs.fit(catboost.Pool(X, Y, weight=weights))
    for route in ("python", "native"):
        objective = boosting.catboost(sm.Identity(), curvature="newton", route=route)
        ours = objective.fit(X, Y, weights=weights, rounds=5, params=QUIET, validation=(X, Y, weights))
        assert same_trees(ours.booster, theirs, X)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours.booster.predict(X), ours.predict(X))
    expected = sm.MatchingLoss(sm.Identity())(theirs.predict(X), Y, weights=np.stack([weights, weights], axis=1))
    ours = boosting.catboost(sm.Identity()).fit(
        X, Y, weights=weights, rounds=5, params=QUIET, validation=(X, Y, weights)
    )
    assert ours.history[boosting.METRIC][-1] == pytest.approx(expected, rel=1e-5)


def test_a_vector_loss_trains_rows_of_scores():
    X, y = regression(rows=60)
    Y = np.stack([y, -y, 0.5 * y], axis=1)
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Identity()))
    model = boosting.catboost(loss).fit(X, Y, rounds=5, params=QUIET, validation=(X, Y))
    history = model.history[boosting.METRIC]
    assert history[-1] < 0.7 * history[0]
    assert history[-1] == pytest.approx(loss(model.predict(X), Y.astype(np.float32).astype(float)), rel=1e-6)


def test_a_loss_for_each_label_trains():
    X, y = regression()
    labels = (y > 0).astype(float)
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Sigmoid(), 1.0: sm.Sinh()}))
    model = boosting.catboost(loss).fit(X, labels, rounds=20, params=QUIET)
    assert loss(model.predict(X), labels) < 0.5 * loss(np.full(len(y), model.objective.start.score), labels)


def test_categories_missing_values_and_sparse_matrices():
    X, y = regression()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(a=pd.Categorical(np.where(X[:, 0] > 0, "x", "y")))
    frame.loc[3, "a"], frame.loc[4, "b"] = np.nan, np.nan
    model = boosting.catboost(SIGMOID).fit(frame, y, rounds=10, params=QUIET, validation=(frame, y))
    assert model.booster.get_cat_feature_indices() == [0]
    assert SIGMOID(model.predict(frame), y) == pytest.approx(model.history[boosting.METRIC][-1], rel=1e-5)
    sparse = scipy.sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
    on_sparse = boosting.catboost(SIGMOID).fit(sparse, y, rounds=10, params=QUIET).predict(sparse)
    on_dense = boosting.catboost(SIGMOID).fit(sparse.toarray(), y, rounds=10, params=QUIET).predict(sparse.toarray())
    np.testing.assert_allclose(on_sparse, on_dense)


def test_the_log_says_which_route_runs(caplog):
    X, y = regression(rows=50)
    with caplog.at_level(logging.INFO, logger="selmatch.boosting"):
        boosting.catboost(sm.Sinh()).fit(X, y, rounds=1, params=QUIET)
        boosting.catboost(sm.Identity(), curvature="newton").fit(X, y, rounds=1, params=QUIET)
    routes = [message.partition(" route")[0] for message in caplog.messages]
    assert routes == ["CatBoost: python", "CatBoost: native"]


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [1.0, np.nan, 2.0]}, r"the labels must be finite numbers, got nan in row 1"),
        ({"y": [1.0, 1e39, 2.0]}, r"the labels must be finite numbers, got inf in row 1"),
        ({"weights": [1.0, -1.0, 2.0]}, r"weights must be finite and not negative, got -1 in row 1"),
        ({"weights": [1.0, 2.0]}, r"weights must be one for each row"),
        ({"groups": [3]}, r"groups must be None, got lists"),
        ({"early_stopping": 3}, r"validation must be given for early_stopping=3"),
        ({"validation": ([[0.0]], [np.nan])}, r"the labels must be finite numbers, got nan in row 0"),
    ],
)
def test_bad_input_is_named_before_training_starts(changes, message):
    given = {"y": [1.0, 2.0, 3.0], **changes}
    with pytest.raises(ValueError, match=r"selmatch\.boosting\.catboost: " + message):
        boosting.catboost(sm.Sinh()).fit(np.zeros((3, 1)), given.pop("y"), **given)


def test_labels_outside_the_domain_are_named_as_catboost_sees_them():
    with pytest.raises(ValueError, match=r"must lie in .* got 1 in row 1"):
        boosting.catboost(sm.Logit()).params([0.5, 1.0 - 1e-12])


def test_what_catboost_cannot_do_is_refused():
    with pytest.raises(ValueError, match=r"ranking must be None, got 'pairwise': .* Use XGBoost or LightGBM"):
        boosting.catboost(sm.Sinh(), ranking="pairwise")
    native = boosting.catboost(sm.Sigmoid(), curvature="newton", route="native")
    with pytest.raises(ValueError, match=r"params\(\.\.\.\) must not be used with route='native'"):
        native.params([0.0, 1.0])
    with pytest.raises(ValueError, match=r"one for each row with route='native', got shape \(2, 2\)"):
        native.fit(np.zeros((2, 1)), np.eye(2))
    with pytest.raises(ValueError, match="the objective must see the training labels before training starts"):
        boosting.catboost(sm.Sinh()).calc_ders_range(np.zeros(2), np.ones(2, np.float32), None)


def test_a_baseline_that_holds_the_start_value_is_refused():
    X, y = regression(shift=5.0)
    objective = boosting.catboost(sm.Sinh())
    params = {**SETTINGS, **objective.params(y)}
    pool = catboost.Pool(X, y, baseline=objective.start_scores(len(y)))
    with pytest.raises(catboost.CatBoostError, match="trees must be grown from 0, got a baseline of"):
        catboost.CatBoost(params).fit(pool)


def test_without_catboost_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(ImportError, match=r'catboost needs CatBoost\. Install it with: .*"selmatch\[boosting\]"'):
        boosting.catboost(sm.Sinh())
