"""What users hand to the estimators and scores: columns, frames, categories, booleans, the boosters' own parameters."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

import selmatch as sm
from selmatch.sklearn import (
    SelectiveLinearModel,
    SelectiveRanker,
    SelectiveRegressor,
    d2_matching_score,
    matching_loss_score,
    matching_loss_scorer,
)

BACKENDS = ("hist_gradient_boosting", "lightgbm", "xgboost", "catboost")
X = np.random.default_rng(0).normal(size=(120, 3))
Y = np.exp(X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=120))
QUERIES = np.repeat(np.arange(12), 10)
WORDS = np.array(["p", "q", "r", "s"])[np.arange(120) % 4]
BY_WORD = np.where(np.isin(WORDS, ["p", "r"]), 5.0, -5.0) + 0.1 * X[:, 2]  # no order of the codes says it in one split


def regressor(backend="hist_gradient_boosting", **options):
    return SelectiveRegressor(backend, **{"n_estimators": 10, "random_state": 0, "n_jobs": 1, **options})


def for_categories(backend):
    """A model that learns the words of 120 rows."""
    params = {"min_data_per_group": 10, "cat_smooth": 1.0} if backend == "lightgbm" else None
    return regressor(backend, n_estimators=30, learning_rate=0.3, backend_params=params)


# ------------------------------------------------------------------------------------------------------------- targets

COLUMNS = [lambda y: y[:, None], lambda y: pd.DataFrame({"y": y}), lambda y: y.astype(object), lambda y: y.tolist()]


@pytest.mark.parametrize("column", COLUMNS, ids=["column", "frame", "objects", "list"])
def test_scores_of_one_column_are_those_of_a_row(column):
    loss, scores = sm.focus("high", data=Y), X[:, 0] + 1.0
    for function in (matching_loss_score, d2_matching_score):
        expected = function(Y, scores, loss)
        assert function(column(Y), scores, loss) == expected
        assert function(Y, column(scores), loss) == expected
    model = SelectiveLinearModel().fit(X, Y)
    assert model.score(X, column(Y)) == model.score(X, Y)
    usual = LinearRegression().fit(X, Y[:, None])  # whose predictions are a column
    expected = -matching_loss_score(Y, usual.predict(X)[:, 0], loss)
    assert matching_loss_scorer(loss)(usual, X, column(Y)) == expected


@pytest.mark.parametrize("function", [matching_loss_score, d2_matching_score])
@pytest.mark.parametrize("scores", [[3.0], Y[:60], np.column_stack([Y, Y]), 3.0], ids=np.shape)
def test_scores_of_other_shapes_are_refused(function, scores):
    shape = np.shape(scores)
    with pytest.raises(ValueError, match=f"{function.__name__}: y_pred must have the shape of y_true") as raised:
        function(Y, scores, sm.Identity())
    assert f"(120,), got {shape}." in str(raised.value)


def test_rankers_are_scored_on_one_column():
    model = SelectiveRanker(n_estimators=3, n_jobs=1).fit(X, Y, qid=QUERIES)
    expected = model.score(X, Y, qid=QUERIES)
    for column in COLUMNS:
        assert model.score(X, column(Y), qid=QUERIES) == expected


@pytest.mark.parametrize("model", [SelectiveLinearModel(), regressor(), SelectiveRanker(n_estimators=3, n_jobs=1)])
def test_true_and_false_are_one_and_zero(model):
    truth = Y > 1.0
    scores = model.fit(X, truth.astype(float)).predict(X)
    score = model.score(X, truth.astype(float))
    np.testing.assert_array_equal(model.fit(X, truth).predict(X), scores)
    assert model.score(X, truth) == score
    with pytest.raises((TypeError, ValueError), match=f"{type(model).__name__}: y must be real numbers, got dtype <U"):
        model.fit(X, Y.astype(str))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_constant_target_is_predicted(backend):
    np.testing.assert_allclose(regressor(backend).fit(X, np.full(120, 2.5)).predict(X), 2.5, rtol=1e-7)


# ----------------------------------------------------------------------------------------------- columns and categories


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["s", "r", "q", "p"])], ids=["Categorical", "Enum"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_categories_of_polars_are_those_of_pandas(backend, dtype):
    numbers = [None if row % 5 == 0 else value for row, value in enumerate(X[:, 1])]
    flags = [None if row % 7 == 0 else row % 2 == 0 for row in range(120)]
    frame = pl.DataFrame({"a": numbers, "flag": flags, "kind": pl.Series(WORDS, dtype=dtype)})
    model = for_categories(backend).fit(frame, BY_WORD)
    scores = model.predict(frame)
    assert np.all(np.sign(scores) == np.sign(BY_WORD))
    np.testing.assert_array_equal(model.predict(frame[60:64]), scores[60:64])
    few = frame.filter(pl.col("kind").cast(str).is_in(["q", "s"]))  # fewer words, the same codes
    np.testing.assert_array_equal(model.predict(few), scores[np.isin(WORDS, ["q", "s"])])


def test_what_polars_cannot_hand_on_is_named(monkeypatch):
    frame = pl.DataFrame({"word": WORDS, "kind": pl.Series(WORDS, dtype=pl.Categorical)})
    with pytest.raises(ValueError, match=r"X must hold numbers and categories, got String in column 'word'\. Cast it"):
        regressor("lightgbm").fit(frame, Y)
    with pytest.raises(ValueError, match=r"SelectiveRegressor: backend must be one of"):
        regressor("lgbm").fit(frame, Y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"SelectiveRegressor: .* need pandas\. Install it with: pip install pandas"):
        regressor("catboost").fit(frame.select("kind"), Y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_of_categories_must_stay_categories(backend):
    codes = np.array([10, 20, 30, 40])[np.arange(120) % 4]
    plain = pd.DataFrame({"a": X[:, 1], "kind": codes})
    frame = plain.astype({"kind": "category"})
    model = for_categories(backend).fit(frame, BY_WORD)
    for other in (plain, plain.to_numpy()):
        with pytest.raises(ValueError, match=r"columns of categories must be those of training, \['kind'\], got none"):
            model.predict(other)
        with pytest.raises(ValueError, match=r"columns of categories must be those of training, \['kind'\], got none"):
            for_categories(backend).fit(frame, BY_WORD, eval_set=(other, BY_WORD))
    with pytest.raises(ValueError, match=r"columns of categories must be those of training, none, got \['kind'\]"):
        regressor(backend).fit(plain, BY_WORD).predict(frame)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["kind", "a"]])


RISING = {
    "hist_gradient_boosting": {"monotonic_cst": {"b": 1}},
    "xgboost": {"monotone_constraints": {"b": 1}},
    "catboost": {"monotone_constraints": {"b": 1}},
}


@pytest.mark.parametrize("backend", RISING)
def test_parameters_may_name_columns(backend):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    line = pd.DataFrame({"a": 0.0, "b": np.linspace(-2.0, 2.0, 41), "c": 0.0})
    free = regressor(backend).fit(frame, -X[:, 1])
    model = regressor(backend, backend_params=RISING[backend]).fit(frame, -X[:, 1])
    assert np.diff(free.predict(line)).min() < 0.0 <= np.diff(model.predict(line)).min()
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(model.predict(X), model.predict(frame))


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_of_columns_change_no_prediction(backend):
    expected = regressor(backend, early_stopping=5).fit(X, Y).predict(X)
    for names in (["a", "b b", "c"], ["a[0]", "b:1", '{"c"}']):  # some boosters refuse the last three
        frame = pd.DataFrame(X, columns=names)
        np.testing.assert_array_equal(regressor(backend, early_stopping=5).fit(frame, Y).predict(frame), expected)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_zeros_of_a_sparse_matrix_are_zeros_after_training_on_a_frame():
    frame = pd.DataFrame(np.where(X > 0.5, X, 0.0), columns=["a", "b", "c"])
    model = regressor("xgboost").fit(frame, Y)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(frame.to_numpy())), model.predict(frame))


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("eta", "learning_rate"),
        ("learning_rate", "learning_rate"),
        ("iterations", "n_estimators"),
        ("num_iterations", "n_estimators"),
        ("n_estimators", "n_estimators"),
        ("max_iter", "n_estimators"),
        ("early_stopping_rounds", "early_stopping"),
        ("seed", "random_state"),
        ("thread_count", "n_jobs"),
    ],
)
@pytest.mark.parametrize("estimator", [SelectiveRegressor, SelectiveRanker])
def test_parameters_have_one_place(estimator, name, parameter):
    who = estimator.__name__
    message = rf"{who}: backend_params must not hold '{name}', got 3\. Use the parameter {parameter} of {who}\."
    with pytest.raises(ValueError, match=message):
        estimator(backend_params={name: 3}).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "fit", "error", "message"),
    [
        ({"n_estimators": 2.7}, {}, ValueError, "SelectiveRegressor: n_estimators must be a whole number, got 2.7."),
        ({"early_stopping": 2.5}, {}, ValueError, "SelectiveRegressor: early_stopping must be a whole number, got 2.5"),
        ({"early_stopping": 0}, {}, ValueError, "SelectiveRegressor: early_stopping must be >= 1, got 0.0."),
        ({"early_stopping": True}, {}, TypeError, "SelectiveRegressor: early_stopping must be a number, got True."),
        (
            {"backend_params": [1]},
            {},
            TypeError,
            "SelectiveRegressor: backend_params must be a mapping of names",
        ),
        (
            {},
            {"eval_set": [(X, Y), (X, Y)]},
            ValueError,
            "eval_set must be (X, y) or (X, y, weights), got a list of 2.",
        ),
        ({}, {"eval_set": [(X, Y)]}, ValueError, "eval_set must be (X, y) or (X, y, weights), got a list of 1. Give"),
        ({}, {"eval_set": (X, Y, Y, Y)}, ValueError, "eval_set must be (X, y) or (X, y, weights), got 4 parts."),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_name_what_is_wrong(options, fit, error, message):
    with pytest.raises(error) as raised:
        SelectiveRegressor(**options).fit(X, Y, **fit)
    assert message in str(raised.value)


@pytest.mark.parametrize("kind", [np.array, pd.Series, list])
@pytest.mark.parametrize("model", [SelectiveLinearModel, regressor])
def test_an_interval_may_be_an_array(model, kind):
    ends, expected = kind([1.0, 2.0]), model(between=(1.0, 2.0)).fit(X, Y).loss_.potential
    assert model(between=ends).fit(X, Y).loss_.potential == expected
    assert expected == sm.focus(between=(1.0, 2.0), data=Y).potential
    with pytest.warns(
        DeprecationWarning, match=r"focus must be a word, got an interval\. Give between=\(.*1\.0.*\) inst"
    ):
        assert model(focus=ends).fit(X, Y).loss_.potential == expected
    with pytest.raises(ValueError, match="only one of focus and between must be given, got 'low' and"):
        model(focus="low", between=ends).fit(X, Y)
    with pytest.raises((TypeError, ValueError), match="focus: between must be"):
        model(between=3.0).fit(X, Y)


def test_rankers_take_intervals_and_their_old_words():
    options = {"n_estimators": 3, "n_jobs": 1}
    expected = SelectiveRanker(ranking="pairwise", between=(0.5, 2.0), **options).fit(X, Y, qid=QUERIES)
    with pytest.warns(DeprecationWarning, match=r"Give between=\(0\.5, 2\.0\) instead"):
        old = SelectiveRanker(ranking="pairwise", focus=(0.5, 2.0), **options).fit(X, Y, qid=QUERIES)
    np.testing.assert_array_equal(old.predict(X), expected.predict(X))
    with pytest.warns(
        DeprecationWarning, match=r"kind has become ranking, got kind='pairwise'\. Give ranking='pairwise'"
    ):
        old = SelectiveRanker(kind="pairwise", between=(0.5, 2.0), **options).fit(X, Y, qid=QUERIES)
    np.testing.assert_array_equal(old.predict(X), expected.predict(X))
