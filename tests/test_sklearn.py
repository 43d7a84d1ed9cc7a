"""Estimators, scores and calibration for scikit-learn users."""

import logging
import pickle
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from model_diagnostics.calibration import compute_bias
from polars.testing import assert_frame_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import ndcg_score, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import check_estimator

import selmatch as sm
from selmatch import boosting
from selmatch.sklearn import (
    SelectiveLinearModel,
    SelectiveRanker,
    SelectiveRegressor,
    d2_matching_score,
    link_bias,
    matching_loss_score,
    matching_loss_scorer,
    plot_link_bias,
    plot_link_murphy,
    plot_link_reliability,
)

BACKENDS = ("hist_gradient_boosting", "lightgbm", "xgboost", "catboost")
RANKERS = ("lightgbm", "xgboost")
X, _noise = np.split(np.random.default_rng(0).normal(size=(120, 4)), [3], axis=1)
Y = np.exp(X[:, 0] + 0.3 * _noise[:, 0])
WEIGHTS = np.random.default_rng(1).integers(1, 4, 120).astype(float)
QUERIES = np.repeat(np.arange(12), 10)


def regressor(backend, **options):
    return SelectiveRegressor(backend, **{"n_estimators": 10, "random_state": 0, "n_jobs": 1, **options})


def ranker(backend="lightgbm", **options):
    return SelectiveRanker(backend, **{"n_estimators": 10, "random_state": 0, "n_jobs": 1, **options})


# ------------------------------------------------------------------------------------------- scikit-learn's own checks

#: what scikit-learn excepts for its own histogram boosters, and nothing else
EXCEPTED = PER_ESTIMATOR_XFAIL_CHECKS[HistGradientBoostingRegressor]

CHECKED = [
    (SelectiveLinearModel(), {}),
    (SelectiveLinearModel(sm.Sigmoid(), fit_intercept=False), {}),
    (regressor("hist_gradient_boosting", n_estimators=5), EXCEPTED),
]
CHECKED_SLOWLY = [
    (SelectiveLinearModel(sm.CompositeSoftmax(sm.Tanh())), {}),
    *((regressor(backend), EXCEPTED) for backend in BACKENDS),
    (regressor("xgboost", loss=sm.Sigmoid(), curvature="newton"), EXCEPTED),
    (regressor("xgboost", loss=sm.Separable(sm.Tanh())), EXCEPTED),
    *((ranker(backend, ranking=kind), EXCEPTED) for backend in RANKERS for kind in ("listwise", "pairwise")),
]


@pytest.mark.parametrize(
    ("estimator", "excepted"),
    [*CHECKED, *(pytest.param(*case, marks=pytest.mark.slow) for case in CHECKED_SLOWLY)],
    ids=[str(estimator) for estimator, _ in [*CHECKED, *CHECKED_SLOWLY]],
)
def test_check_estimator_passes(estimator, excepted):
    check_estimator(estimator, expected_failed_checks=excepted, on_skip=None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_estimators_can_be_cloned_and_pickled(backend):
    loss = sm.focus("low", data=Y)
    model = clone(regressor(backend, loss=loss, n_estimators=3)).fit(X, Y)
    assert model.loss_.potential == loss.potential
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.loss_.wish == loss.wish


# ------------------------------------------------------------------------------------------------------------- scores


def test_the_score_is_the_mean_loss_in_the_order_of_scikit_learn():
    loss = sm.MatchingLoss(sm.Exp())
    value = matching_loss_score(Y, X[:, 0], sm.Exp(), sample_weight=WEIGHTS)
    assert value == loss(X[:, 0], Y, weights=WEIGHTS)
    assert value != matching_loss_score(X[:, 0], Y, sm.Exp(), sample_weight=WEIGHTS)
    assert matching_loss_score(Y.tolist(), pd.Series(X[:, 0]), loss) == loss(X[:, 0], Y)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_the_relative_score_is_r2_for_squared_error(weights):
    ours = d2_matching_score(Y, X[:, 0], sm.Identity(), sample_weight=weights)
    assert ours == pytest.approx(r2_score(Y, X[:, 0], sample_weight=weights), rel=1e-12)


def test_the_relative_score_compares_with_the_best_constant():
    loss = sm.MatchingLoss(sm.Sinh())
    assert d2_matching_score(Y, Y, loss) == 1.0
    assert d2_matching_score(Y, np.full(120, loss.minimiser(Y)), loss) == pytest.approx(0.0, abs=1e-14)
    assert d2_matching_score(Y, np.full(120, Y.mean()), loss) < 0.0
    assert d2_matching_score([2.0, 2.0], [2.0, 2.0], loss) == 1.0
    assert d2_matching_score([2.0, 2.0], [2.0, 1.0], loss) == 0.0
    assert d2_matching_score(X, X, sm.CompositeSoftmax()) == 1.0
    with pytest.warns(UndefinedMetricWarning, match="less than two rows"):
        assert np.isnan(d2_matching_score([2.0], [2.0], loss))


def test_scorers_serve_cross_validation():
    loss = sm.focus("high", data=Y)
    scores = cross_val_score(LinearRegression(), X, Y, scoring=matching_loss_scorer(loss), cv=3)
    relative = cross_val_score(LinearRegression(), X, Y, scoring=matching_loss_scorer(loss, relative=True), cv=3)
    assert np.all(scores < 0.0)
    assert np.all((relative > 0.0) & (relative < 1.0))
    fitted = LinearRegression().fit(X, Y)
    assert matching_loss_scorer(loss)(fitted, X, Y) == -matching_loss_score(Y, fitted.predict(X), loss)


@pytest.mark.parametrize("function", [matching_loss_score, d2_matching_score])
def test_scores_refuse_what_is_no_loss(function):
    with pytest.raises(TypeError, match=f"{function.__name__}: loss must be a MatchingLoss, a potential or a curve"):
        function(Y, Y, "mse")


@pytest.mark.parametrize("model", [SelectiveLinearModel(), regressor("hist_gradient_boosting")], ids=str)
def test_estimators_are_scored_by_their_own_loss(model):
    model.fit(X, Y)
    expected = d2_matching_score(Y, model.predict(X), model.loss_, sample_weight=WEIGHTS)
    assert model.score(X, Y, sample_weight=WEIGHTS) == expected


# -------------------------------------------------------------------------------------- pipelines, searches, metadata


@pytest.mark.parametrize(
    "model", [SelectiveLinearModel(), regressor("hist_gradient_boosting", n_estimators=3)], ids=["linear", "boosted"]
)
def test_grid_search_over_words_judges_all_by_one_loss(model):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    name = type(model).__name__.lower()
    grid = {f"{name}__strength": [1.0, 8.0, 30.0], f"{name}__top": [0.1, 0.3]}
    judge = sm.focus("high", data=Y, strength=30.0)
    search = GridSearchCV(pipeline, grid, scoring=matching_loss_scorer(judge), cv=3).fit(frame, Y)
    best = search.best_estimator_[-1]
    assert list(best.feature_names_in_) == ["a", "b", "c"]
    assert best.n_features_in_ == 3
    assert best.loss_.wish.strength == search.best_params_[f"{name}__strength"]
    assert len({*search.cv_results_["mean_test_score"]}) > 3  # the words change the models


def test_sample_weights_are_routed():
    loss = sm.focus("high", data=Y)
    with sklearn.config_context(enable_metadata_routing=True):
        model = SelectiveLinearModel(loss).set_fit_request(sample_weight=True)
        scorer = matching_loss_scorer(loss).set_score_request(sample_weight=True)
        found = cross_validate(model, X, Y, scoring=scorer, params={"sample_weight": WEIGHTS}, cv=3)["test_score"]
    test = np.arange(40)  # the first fold
    train = np.arange(40, 120)
    fitted = SelectiveLinearModel(loss).fit(X[train], Y[train], sample_weight=WEIGHTS[train])
    assert found[0] == -matching_loss_score(Y[test], fitted.predict(X[test]), loss, sample_weight=WEIGHTS[test])


def test_queries_are_routed_and_kept_together():
    labels = np.log(Y)
    with sklearn.config_context(enable_metadata_routing=True):
        model = ranker(n_estimators=5).set_fit_request(qid=True).set_score_request(qid=True)
        scores = cross_val_score(model, X, labels, cv=GroupKFold(3), params={"qid": QUERIES, "groups": QUERIES})
    assert np.all((scores > 0.5) & (scores <= 1.0))


# ---------------------------------------------------------------------------------------------------------- regressors


def params_of(backend, learning_rate):
    """What the estimators of this file ask for, in the backend's own words."""
    names = {
        "hist_gradient_boosting": {"random_state": 0},
        "lightgbm": {"seed": 0, "num_threads": 1},
        "xgboost": {"seed": 0, "nthread": 1},
        "catboost": {"random_seed": 0, "thread_count": 1},
    }
    return {"learning_rate": learning_rate, **names[backend]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_regressor_is_the_objective_trained_with_the_words(backend):
    model = regressor(backend, focus="low", top=0.2, strength=4.0, learning_rate=0.3).fit(X, Y, sample_weight=WEIGHTS)
    loss = sm.focus("low", data=Y, top=0.2, strength=4.0, weights=WEIGHTS)
    assert model.loss_.potential == loss.potential
    by_hand = getattr(boosting, backend)(loss).fit(X, Y, weights=WEIGHTS, rounds=10, params=params_of(backend, 0.3))
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    assert model.n_iter_ == 10
    assert model.score(X, Y, sample_weight=WEIGHTS) > 0.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_get_missing_values_and_categories(backend):
    holes = X.copy()
    holes[::5, 1] = np.nan
    kinds = np.array(["p", "q", "r", "s"])[np.arange(120) % 4]
    frame = pd.DataFrame({"a": holes[:, 1], "kind": pd.Categorical(kinds)})
    y = np.where(np.isin(kinds, ["p", "r"]), 5.0, -5.0) + 0.1 * X[:, 2]  # no order of the codes says it in one split
    params = {"min_data_per_group": 10, "cat_smooth": 1.0} if backend == "lightgbm" else None
    model = regressor(backend, n_estimators=30, learning_rate=0.3, backend_params=params).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "kind"]
    assert np.all(np.sign(model.predict(frame)) == np.sign(y))
    assert np.all(np.isfinite(regressor(backend).fit(holes, Y).predict(holes)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "b"}))


@pytest.mark.parametrize("backend", BACKENDS)
def test_early_stopping_holds_rows_out_or_takes_those_given(backend):
    options = {"n_estimators": 200, "early_stopping": 3, "learning_rate": 0.3}
    model = regressor(backend, **options, validation_fraction=0.25).fit(X, Y)
    assert 1 <= model.n_iter_ < 200
    again = regressor(backend, **options, validation_fraction=0.25).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    validation = (X[:40], Y[40:80], WEIGHTS[:40])
    given = regressor(backend, **options).fit(X, Y, eval_set=validation)
    by_hand = getattr(boosting, backend)(given.loss_).fit(
        X, Y, rounds=200, params=params_of(backend, 0.3), validation=validation, early_stopping=3
    )
    assert given.n_iter_ == by_hand.best_iteration + 1 < 200
    np.testing.assert_array_equal(given.predict(X), by_hand.predict(X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_without_weight_do_not_count(backend):
    weights = np.where(np.arange(120) % 3, 1.0, 0.0)
    kept = weights > 0.0
    weighted, without = regressor(backend).fit(X, Y, sample_weight=weights), regressor(backend).fit(X[kept], Y[kept])
    np.testing.assert_allclose(weighted.predict(X), without.predict(X), rtol=1e-6)


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost", "catboost"])
def test_sparse_features_are_taken(backend):
    dense = np.where(X > 0.5, X, 0.0)
    model = regressor(backend).fit(sparse.csr_array(dense), Y)
    assert model.score(sparse.csr_matrix(dense), Y) > 0.2


def test_other_parameters_go_to_the_backend():
    model = regressor("hist_gradient_boosting", backend_params={"max_leaf_nodes": 2}).fit(X, Y)
    assert model.model_.booster.max_leaf_nodes == 2


def test_the_log_says_which_route_runs(caplog):
    with caplog.at_level(logging.INFO, logger="selmatch"):
        regressor("xgboost", loss=sm.Sigmoid(), curvature="newton").fit(X, Y)
        regressor("xgboost", loss=sm.Sigmoid(), curvature="newton", route="python").fit(X, Y)
    lines = [line for line in caplog.messages if "route" in line]
    assert ["native" in line for line in lines] == [True, False]


def test_many_targets_need_a_vector_loss():
    targets = np.column_stack([Y, X[:, 1]])
    model = regressor("xgboost", loss=sm.Separable(sm.Tanh())).fit(X, targets)
    assert model.predict(X).shape == (120, 2)
    assert model.score(X, targets) > 0.5
    with pytest.raises(ValueError, match=r"SelectiveRegressor: y must be one score for each row, got shape \(120, 2\)"):
        regressor("xgboost").fit(X, targets)
    with pytest.warns(DataConversionWarning):
        regressor("hist_gradient_boosting").fit(X, Y[:, None])


def test_predictions_stay_in_the_domain():
    model = regressor("hist_gradient_boosting", loss=sm.Logit(), n_estimators=50)
    share = np.clip(0.5 + 0.3 * X[:, 0], 0.02, 0.98)
    scores = model.fit(X, share).predict(3.0 * X)
    assert np.all((scores >= 0.0) & (scores <= 1.0))


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        ({"backend": "sklearn"}, {}, "backend must be one of 'hist_gradient_boosting', 'lightgbm', 'xgboost', 'catb"),
        ({"n_estimators": 0}, {}, "SelectiveRegressor: n_estimators must be >= 1, got 0.0."),
        ({"learning_rate": 0.0}, {}, "SelectiveRegressor: learning_rate must be > 0, got 0.0."),
        ({"early_stopping": 3, "validation_fraction": 1.0}, {}, "validation_fraction must leave something to train on"),
        ({}, {"eval_set": X}, "SelectiveRegressor: eval_set must be (X, y) or (X, y, weights), got ndarray."),
        ({}, {"sample_weight": -np.ones(120)}, "SelectiveRegressor: weights must be finite and not negative, got -1"),
        ({"loss": sm.Logit()}, {}, "SelectiveRegressor: the labels must lie in (0, 1), the domain of the link"),
        ({"curvature": "exact"}, {}, "curvature must be 'secant' or 'newton', got 'exact'."),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_name_what_is_wrong(options, fit, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        SelectiveRegressor(**options).fit(X, Y, **fit)
    assert message in str(raised.value)


# ------------------------------------------------------------------------------------------------------------- rankers


@pytest.mark.parametrize("backend", RANKERS)
@pytest.mark.parametrize("kind", ["listwise", "pairwise"])
def test_lists_are_the_same_by_size_and_by_id(backend, kind):
    labels, order = np.log(Y), np.random.default_rng(2).permutation(120)
    by_size = ranker(backend, ranking=kind).fit(X, labels, group=np.full(12, 10))
    by_id = ranker(backend, ranking=kind).fit(pd.DataFrame(X).to_numpy(), labels, qid=QUERIES)
    np.testing.assert_array_equal(by_size.predict(X), by_id.predict(X))
    mixed = ranker(backend, ranking=kind).fit(X[order], labels[order], qid=QUERIES[order])
    np.testing.assert_allclose(mixed.predict(X), by_id.predict(X), rtol=1e-5)
    score = by_id.score(X, labels, qid=QUERIES)
    assert 0.9 < score < 1.0
    assert by_id.score(X, labels, group=np.full(12, 10)) == score
    assert by_id.score(X[order], labels[order], qid=QUERIES[order]) == pytest.approx(score, rel=1e-12)
    assert mixed.loss_.wish.of == {"listwise": "lists", "pairwise": "pairs"}[kind]


@pytest.mark.parametrize("kind", ["listwise", "pairwise"])
def test_the_ranker_is_the_objective_trained_on_lists(kind):
    labels, weights = np.log(Y), np.linspace(0.1, 1.1, 12)
    loss = sm.CompositeSoftmax(sm.Exp()) if kind == "listwise" else sm.Sinh()
    model = ranker("xgboost", loss=loss, ranking=kind).fit(X, labels, sample_weight=weights, qid=QUERIES)
    by_hand = boosting.xgboost(loss, ranking=kind).fit(
        X, labels, weights=weights, groups=np.full(12, 10), rounds=10,
        params={"learning_rate": 0.1, "seed": 0, "nthread": 1},
    )  # fmt: skip
    np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
    of_items = ranker("xgboost", loss=loss, ranking=kind).fit(X, labels, sample_weight=weights[QUERIES], qid=QUERIES)
    np.testing.assert_allclose(of_items.predict(X), model.predict(X), rtol=1e-5)


def test_rankers_stop_early_on_whole_lists():
    labels = np.log(Y)
    model = ranker(n_estimators=300, learning_rate=0.3, early_stopping=3, validation_fraction=0.25)
    assert 1 <= model.fit(X, labels, qid=QUERIES).n_iter_ < 300


def test_the_score_of_a_ranker_is_the_mean_ndcg():
    labels = np.random.default_rng(3).integers(-2, 3, 120).astype(float)
    labels[:10] = 1.0  # a list without an order
    model = ranker().fit(X, labels, qid=QUERIES)
    weights = np.arange(12.0)
    gains, scores = (labels + 2.0).reshape(12, 10), model.predict(X).reshape(12, 10)
    each = [ndcg_score(gains[i : i + 1], scores[i : i + 1], k=3) for i in range(1, 12)]
    assert model.score(X, labels, weights, qid=QUERIES, k=3) == pytest.approx(np.average(each, weights=weights[1:]))
    with pytest.warns(UndefinedMetricWarning, match="SelectiveRanker: NDCG is not defined"):
        assert np.isnan(model.score(X[:10], labels[:10]))


@pytest.mark.parametrize(
    ("options", "fit", "error", "message"),
    [
        ({"backend": "catboost"}, {}, ValueError, "SelectiveRanker: backend must be one of 'lightgbm', 'xgboost', got"),
        (
            {"ranking": "pointwise"},
            {},
            ValueError,
            "SelectiveRanker: ranking must be 'listwise' or 'pairwise', got 'pointw",
        ),
        ({"loss": sm.Sinh()}, {}, TypeError, "SelectiveRanker: loss must have a CompositeSoftmax for ranking='listw"),
        ({}, {"group": [60, 50]}, ValueError, "SelectiveRanker: groups must add up to the number of rows, 120, got a"),
        ({}, {"qid": QUERIES[:9]}, ValueError, "SelectiveRanker: qid must be one for each row, shape (120,), got sha"),
        ({}, {"qid": QUERIES, "group": [120]}, ValueError, "SelectiveRanker: lists must be given by group or by qid,"),
        ({}, {"qid": np.arange(120)}, ValueError, "SelectiveRanker: at least one list must have 2 items, got n_samp"),
        (
            {},
            {"qid": QUERIES, "sample_weight": np.ones(5)},
            ValueError,
            "weights must be one for each list, shape (12,",
        ),
        ({}, {"qid": QUERIES, "sample_weight": -np.ones(12)}, ValueError, "weights must be finite and not negative"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_of_rankers_name_what_is_wrong(options, fit, error, message):
    with pytest.raises(error) as raised:
        SelectiveRanker(**options).fit(X, Y, **fit)
    assert message in str(raised.value)


# ---------------------------------------------------------------------------------------------------------- calibration


@pytest.mark.filterwarnings("ignore:the string cache:DeprecationWarning")  # of model-diagnostics 1.5
def test_models_are_calibrated_in_link_space_and_only_there():
    loss = sm.focus("high", data=Y, strength=30.0)
    model = SelectiveLinearModel(loss, alpha=0.0).fit(X, Y)
    scores = model.predict(X)
    found = link_bias(Y, scores, loss)
    expected = compute_bias(loss.potential(Y), loss.potential(scores))
    assert found.equals(expected)
    assert abs(found["bias_mean"][0]) < 1e-12
    assert abs(compute_bias(Y, scores)["bias_mean"][0]) > 0.05
    along = link_bias(Y, scores, loss, feature=X[:, 0], weights=np.ones(120), n_bins=4, bin_method="quantile")
    given = (loss.potential(Y), loss.potential(scores), X[:, 0], np.ones(120))
    # polars adds up on several threads, in any order
    assert_frame_equal(along, compute_bias(*given, n_bins=4, bin_method="quantile"), check_exact=False)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_models_survive(frame):
    scores = frame({"first": Y + 0.1, "second": Y - 0.2})
    assert link_bias(Y, scores, sm.Exp())["model"].to_list() == ["first", "second"]


@pytest.mark.parametrize("plot", [plot_link_bias, plot_link_reliability, plot_link_murphy])
def test_calibration_is_drawn_on_links(plot):
    mpl.use("agg")
    import matplotlib.pyplot as plt

    options = {"feature": X[:, 0]} if plot is plot_link_bias else {}
    figure, axes = plt.subplots()
    assert plot(Y, Y + 0.1, sm.Sigmoid(), ax=axes, **options) is axes
    if plot is plot_link_reliability:
        assert axes.get_xlim()[1] <= 1.1  # a sigmoid ends at 1, the scores do not
    plt.close(figure)


def test_calibration_refuses_what_has_no_link():
    with pytest.raises(ValueError, match=r"link_bias: y_pred must lie in \(0, inf\), the domain of the link, got -1"):
        link_bias(Y, np.full(120, -1.0), sm.Log())
    with pytest.raises(TypeError, match="plot_link_murphy: loss must have a single link, got CompositeSoftmax"):
        plot_link_murphy(Y, Y, sm.CompositeSoftmax())


# ------------------------------------------------------------------------------------------------ what is not installed


def test_a_missing_package_is_named(monkeypatch):
    for module in ("model_diagnostics", "model_diagnostics.calibration"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'link_bias needs model-diagnostics.* pip install "selmatch\[compare\]"'):
        link_bias(Y, Y, sm.Exp())
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r'needs LightGBM. Install it with: pip install "selmatch\[boosting\]"'):
        regressor("lightgbm").fit(X, Y)


def test_what_is_not_installed_is_named_and_what_is_not_needed_not_loaded():
    code = """
import sys, selmatch
sys.modules["sklearn"] = None
try:
    selmatch.sklearn
except ImportError as error:
    print(error)
del sys.modules["sklearn"]
import selmatch.sklearn
print(*{name.partition(".")[0] for name in sys.modules})
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert answer[0] == 'selmatch.sklearn needs scikit-learn. Install it with: pip install "selmatch[boosting]".'
    loaded = set(answer[1].split())
    assert "sklearn" in loaded
    assert not {"xgboost", "lightgbm", "catboost", "model_diagnostics", "matplotlib", "torch", "jax"} & loaded
