"""What estimators show of their boosters: predictions, importances, parameters; and one name for one thing."""

import importlib
import inspect
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

import selmatch as sm
from selmatch import boosting
from selmatch.sklearn import SelectiveLinearModel, SelectiveRanker, SelectiveRegressor

BACKENDS = ("hist_gradient_boosting", "lightgbm", "xgboost", "catboost")
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(240, 4))
Y = 3.0 * X[:, 1] + np.abs(X[:, 3]) + 0.5 * RANDOM.normal(size=240)
QUERIES = np.repeat(np.arange(24), 10)
SIGMOID = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0))


def regressor(backend, **options):
    return SelectiveRegressor(backend, **{"n_estimators": 25, "random_state": 0, "n_jobs": 1, **options})


# -------------------------------------------------------------------------------------------------------- the booster


def by_the_booster(model, features=X):
    """Scores as the documentation says that they come from the backend's own object, on the route of Python."""
    booster, start = model.booster_, model.model_.objective.start.score
    if isinstance(booster, HistGradientBoostingRegressor):
        return booster.predict(features)
    if isinstance(booster, lightgbm.Booster):
        return booster.predict(features, raw_score=True) + start
    if isinstance(booster, catboost.CatBoost):
        return booster.predict(features)
    return booster.predict(xgboost.DMatrix(features), iteration_range=(0, model.n_iter_)).astype(float)


@pytest.mark.parametrize("early_stopping", [None, 2])
@pytest.mark.parametrize("backend", BACKENDS)
def test_predictions_are_those_of_the_booster(backend, early_stopping):
    for options in (
        {"loss": SIGMOID, "learning_rate": 0.9},  # stops long before the last round
        {"focus": "low", "learning_rate": 0.5},
    ):
        model = regressor(backend, early_stopping=early_stopping, **options).fit(X, Y)
        expected = model.predict(X)
        assert early_stopping is None or options["learning_rate"] < 0.9 or model.n_iter_ < 20
        np.testing.assert_allclose(by_the_booster(model), expected, rtol=1e-12)
        np.testing.assert_allclose(model.model_.objective.predict(model.booster_, X), expected, rtol=1e-12)
        whole = model.model_.objective.predict(model.booster_, X, rounds=model.n_iter_)
        np.testing.assert_allclose(whole, expected, rtol=1e-12)


@pytest.mark.parametrize("early_stopping", [None, 2])
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_objectives_predict_from_boosters_of_the_native_route(backend, early_stopping):
    for loss in (SIGMOID, sm.Identity()):
        options = {"loss": loss, "curvature": "newton", "route": "native", "learning_rate": 0.9}
        model = regressor(backend, early_stopping=early_stopping, **options).fit(X, Y)
        expected = model.predict(X)
        np.testing.assert_allclose(model.model_.objective.predict(model.booster_, X), expected, rtol=1e-12)
        if backend == "catboost":  # its scale and bias turn margins into scores
            np.testing.assert_allclose(model.booster_.predict(X), expected, rtol=1e-9)


def test_a_stopped_histogram_booster_ends_with_its_best_round():
    model = regressor("hist_gradient_boosting", loss=SIGMOID, learning_rate=0.9, early_stopping=3).fit(X, Y)
    booster, history = model.booster_, model.model_.history["matching_loss"]
    assert booster.n_iter_ == model.n_iter_ == 1 + int(np.argmin(history)) <= len(history) - 3
    assert len(booster.train_score_) == len(booster.validation_score_) == booster.n_iter_ + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_link_that_ends_is_the_only_difference(backend):
    labels = np.exp(Y)
    model = regressor(backend, loss=sm.Log(), learning_rate=0.9).fit(X, labels)
    clipped = model.model_.objective.inside(by_the_booster(model))
    np.testing.assert_allclose(clipped, model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_rankers_show_their_boosters(backend):
    model = SelectiveRanker(backend, n_estimators=8, early_stopping=2, n_jobs=1).fit(X, Y, qid=QUERIES)
    np.testing.assert_allclose(by_the_booster(model), model.predict(X), rtol=1e-12)


def test_lightgbm_does_not_stop_early_with_dart():
    options = {"backend_params": {"boosting": "dart"}, "n_estimators": 8, "early_stopping": 2}
    with pytest.warns(UserWarning, match="Early stopping is not available in dart mode"):
        model = regressor("lightgbm", **options).fit(X, Y)
    assert model.n_iter_ == 8
    np.testing.assert_allclose(by_the_booster(model), model.predict(X), rtol=1e-12)


# --------------------------------------------------------------------------------------------------------- importances

WITH_IMPORTANCES = [
    ("lightgbm", {}),
    ("lightgbm", {"boosting": "goss"}),
    ("xgboost", {}),
    ("xgboost", {"booster": "dart"}),
    ("xgboost", {"booster": "gblinear"}),
    ("catboost", {}),
]


@pytest.mark.parametrize(("backend", "params"), WITH_IMPORTANCES, ids=str)
def test_importances_are_shares_of_the_features(backend, params):
    names = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    for features in (names, names.set_axis(["a[0]", "b:1", "c", "d"], axis=1)):
        model = regressor(backend, loss=sm.Sinh(), backend_params=params).fit(features, Y)
        shares = model.feature_importances_
        assert shares.shape == (4,)
        assert np.all(shares >= 0.0)
        assert shares.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.argmax(shares) == 1
    constant = regressor(backend, n_estimators=3, backend_params=params).fit(X, np.ones(240)).feature_importances_
    assert np.all(constant == 0.0) or params.get("booster") == "gblinear"  # whose coefficients are rounding
    assert np.all(np.isfinite(constant))


def test_importances_are_those_of_the_rounds_that_predict():
    for backend in ("lightgbm", "xgboost", "catboost"):
        stopped = regressor(backend, loss=sm.Identity(), learning_rate=0.9, early_stopping=8).fit(X, Y)
        held = stopped._held_out(240)
        options = {"rounds": stopped.n_iter_, "params": {"learning_rate": 0.9}}
        if backend == "catboost":
            options["params"] |= {"random_seed": 0, "thread_count": 1}
        again = getattr(boosting, backend)(sm.Identity()).fit(X[~held], Y[~held], **options)
        gains = again.objective.importances(again.booster)
        np.testing.assert_allclose(stopped.feature_importances_, gains / gains.sum(), rtol=1e-6, err_msg=backend)
        fewer = again.objective.importances(again.booster, 1)
        assert fewer.shape == (4,)
        assert not np.allclose(fewer / fewer.sum(), gains / gains.sum())


def test_importances_choose_features():
    for backend in ("lightgbm", "xgboost", "catboost"):
        chosen = SelectFromModel(regressor(backend), max_features=1).fit(X, Y)
        np.testing.assert_array_equal(chosen.get_support(), [False, True, False, False])
    chosen = SelectFromModel(SelectiveLinearModel(), max_features=1).fit(X, Y)
    np.testing.assert_array_equal(chosen.get_support(), [False, True, False, False])


def test_what_has_no_importances_says_what_to_use():
    model = regressor("hist_gradient_boosting").fit(X, Y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match=r"permutation_importance\(model, X, y\), or another backend"):
        _ = model.feature_importances_
    for backend in BACKENDS:
        assert not hasattr(regressor(backend), "feature_importances_")
        with pytest.raises(NotFittedError):
            _ = regressor(backend).booster_


# ------------------------------------------------------------------------------------------------------- parameters

MISSPELT = {
    "hist_gradient_boosting": [("max_dept", "max_depth"), ("min_sample_leaf", "min_samples_leaf")],
    "lightgbm": [("num_leavs", "num_leaves"), ("feature_fractoin", "feature_fraction"), ("reg_lamda", "reg_lambda")],
    "xgboost": [("max_dept", "max_depth"), ("reg_lamda", "reg_lambda"), ("colsample_by_tree", "colsample_bytree")],
    "catboost": [("dept", "depth"), ("l2_leaf_regg", "l2_leaf_reg"), ("max_dept", "max_depth")],
}
#: aliases, parameters of other kinds of boosting, and such as only some machines use
KNOWN = {
    "hist_gradient_boosting": {"max_depth": 3, "l2_regularization": 1.0, "max_bins": 64},
    "lightgbm": {"max_depth": 3, "reg_lambda": 1.0, "colsample_bytree": 0.9, "subsample": 0.9, "min_child_samples": 5,
                 "verbose": -1, "device_type": "cpu"},
    "xgboost": {"max_depth": 3, "reg_lambda": 1.0, "colsample_bytree": 0.9, "min_split_loss": 0.1, "verbosity": 0,
                "device": "cpu", "multi_strategy": "one_output_per_tree"},
    "catboost": {"max_depth": 3, "reg_lambda": 1.0, "colsample_bylevel": 0.9, "num_leaves": 8, "max_bin": 64,
                 "grow_policy": "Lossguide", "dev_efb_max_buckets": 1024, "verbose_eval": False},
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_misspelt_parameters_are_errors_before_training(backend):
    for name, meant in MISSPELT[backend]:
        message = (
            rf"SelectiveRegressor: backend_params must be parameters of \w+, got '{name}'\. Did you mean '{meant}'"
        )
        with pytest.raises(ValueError, match=message):
            regressor(backend, backend_params={name: 3}).fit(X, Y)
        message = rf"selmatch\.boosting\.{backend}: params must be parameters of \w+, got '{name}'\. Did you mean"
        with pytest.raises(ValueError, match=message):
            getattr(boosting, backend)(sm.Sinh()).fit(X, Y, params={name: 3})
    with pytest.raises(ValueError, match=r"got 'qwertz uiop'\. See its documentation\."):
        regressor(backend, backend_params={"qwertz uiop": 3}).fit(X, Y)
    with pytest.raises(ValueError, match=r"got 7\. See its documentation\."):
        regressor(backend, backend_params={7: 3}).fit(X, Y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_of_the_backends_are_known_by_all_their_names(backend):
    objective = getattr(boosting, backend)(sm.Sinh())
    assert len(objective._known_params()) > 15
    for name, value in KNOWN[backend].items():
        objective.require_known("test", "params", {name: value})
    regressor(backend, n_estimators=2, backend_params=KNOWN[backend]).fit(X, Y)


def test_parameters_of_other_boosters_are_known_to_xgboost():
    objective = boosting.xgboost(sm.Sinh())
    for name, value in (("rate_drop", 0.1), ("top_k", 3), ("feature_selector", "greedy"), ("max_cat_to_onehot", 4)):
        objective.require_known("test", "params", {name: value})
    with pytest.raises(ValueError, match="must be parameters of XGBoost, got 'importance_type'"):
        objective.require_known("test", "params", {"importance_type": "gain"})


def test_rankers_refuse_misspelt_parameters_too():
    with pytest.raises(ValueError, match=r"SelectiveRanker: backend_params must be .* Did you mean 'max_depth'"):
        SelectiveRanker(backend_params={"max_dept": 3}).fit(X, Y, qid=QUERIES)


# ----------------------------------------------------------------------------------------------------------- one name

#: spellings that users would have to remember beside the one in use
OTHER_NAMES = {
    "between": {"interval", "region", "limits", "value_range", "focus_range"},
    "weights": {"sample_weights", "row_weights", "weights_", "weighting", "case_weights"},
    "sample_weight": {"sample_weights", "weights_sample"},
    "ranking": {"rank_by", "ranking_kind"},
    "num_items": {"n_items", "item_count"},
    "reduction": {"reduce", "aggregation"},
}


def public_callables():
    """Every function, class and method that users may call, by its name."""
    modules = [name for name in sm.__all__ if inspect.ismodule(getattr(sm, name))]
    for home in ("selmatch", *(f"selmatch.{name}" for name in modules)):
        module = importlib.import_module(home)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing):
                yield f"{home}.{name}", thing, thing
                for method, value in inspect.getmembers(thing, inspect.isroutine):
                    if (not method.startswith("_") or method == "__call__") and _ours(value):
                        yield f"{home}.{name}.{method}", value, thing
            elif callable(thing):
                yield f"{home}.{name}", thing, None


def _ours(value):
    return (getattr(value, "__module__", None) or "").startswith("selmatch")


def parameters(thing):
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return set()


def test_one_thing_has_one_name():
    seen = 0
    for name, thing, owner in public_callables():
        found = parameters(thing)
        seen += 1
        results = inspect.isclass(thing) and not issubclass(thing, BaseEstimator)  # their fields are answers
        for other in set().union(*OTHER_NAMES.values()) if not results else ():
            assert other not in found, f"{name} takes {other}"
        estimates = owner is not None and issubclass(owner, BaseEstimator)
        metric = name.startswith("selmatch.sklearn.") and {"y_true", "y_pred"} <= found
        if "sample_weight" in found:
            assert estimates or metric, f"{name} takes sample_weight: only estimators and scikit-learn's metrics do"
        if "weights" in found:
            assert not estimates, f"{name} takes weights: estimators take sample_weight"
        # a share or a matrix, one number or one layer
        if "weight" in found and not results:
            assert thing.__name__ in ("jensen_shannon", "linear_matching_loss"), f"{name} takes weight"
    assert seen > 500


def test_estimators_and_objectives_name_the_same_things_alike():
    wishes = {"loss", "focus", "between", "top", "strength"}
    assert wishes <= parameters(SelectiveRegressor) & parameters(SelectiveRanker) & parameters(SelectiveLinearModel)
    said = {"between", "top", "strength"}
    assert said <= parameters(sm.focus) & parameters(sm.compare)
    for make in (boosting.xgboost, boosting.lightgbm, boosting.catboost, boosting.hist_gradient_boosting):
        assert parameters(make) == {"loss", "curvature", "route", "ranking"}
    assert {"curvature", "route"} <= parameters(SelectiveRegressor)
    assert {"curvature", "ranking"} <= parameters(SelectiveRanker)
    with warnings.catch_warnings(action="error", category=DeprecationWarning):  # of defaults
        for model in (SelectiveRegressor(n_estimators=1), SelectiveRanker(n_estimators=1), SelectiveLinearModel()):
            model.fit(X, Y)
