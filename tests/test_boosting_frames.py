"""Frames of another library, with other columns or categories, give the predictions of training, by name."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import selmatch as sm
from selmatch import boosting
from selmatch.sklearn import SelectiveLinearModel, SelectiveRanker, SelectiveRegressor

BACKENDS = ("hist_gradient_boosting", "lightgbm", "xgboost", "catboost")
PARAMS = {
    "lightgbm": {"min_data_per_group": 5, "cat_smooth": 1.0, "min_data_in_leaf": 5, "num_threads": 1},
    "hist_gradient_boosting": {"min_samples_leaf": 5},
    "xgboost": {"nthread": 1},
    "catboost": {"thread_count": 1},
}
ROWS = 160
RANDOM = np.random.default_rng(5)
A, FLAG = RANDOM.normal(size=ROWS), RANDOM.integers(0, 2, ROWS).astype(bool)
COUNT = RANDOM.integers(0, 5, ROWS)
NAMES = ["pear", "quince", "rose", "sloe"]
CODES = RANDOM.integers(0, 4, ROWS)
MISSING = RANDOM.random(ROWS) < 0.2
WORDS = [None if missing else NAMES[code] for code, missing in zip(CODES, MISSING, strict=True)]
Y = np.where(MISSING, 20.0, np.array([5.0, -5.0, 6.0, -6.0])[CODES]) + A + COUNT + 0.1 * RANDOM.normal(size=ROWS)
QUERIES = np.repeat(np.arange(16), 10)


def in_pandas(categories, words=WORDS):
    kind = pd.Categorical(words, categories=categories)
    return pd.DataFrame({"a": A, "flag": FLAG, "count": COUNT, "kind": kind})


def in_polars(dtype, words=WORDS):
    return pl.DataFrame({"a": A, "flag": FLAG, "count": COUNT, "kind": pl.Series(words, dtype=dtype)})


def nullable(frame):
    return frame.astype({"flag": "boolean", "count": "Int64", "a": "Float64"})


FRAMES = {
    "pandas": in_pandas(NAMES),
    "pandas, another order": in_pandas(NAMES[::-1]),
    "pandas, unused categories": in_pandas(["apple", *NAMES[::-1], "yew"]),
    "pandas, nullable": nullable(in_pandas(NAMES)),
    "polars Categorical": in_polars(pl.Categorical),
    "polars Enum": in_polars(pl.Enum(["zinnia", *NAMES[::-1]])),
}
MODELS = [*BACKENDS, "ranker of lightgbm", "ranker of xgboost"]
#: kinds of frames to train on, of which two show most
QUICK = {*((name, "polars Categorical") for name in BACKENDS), ("hist_gradient_boosting", "pandas, unused categories")}
TRAINED_ON = [
    pytest.param(name, train, marks=[] if (name, train) in QUICK else pytest.mark.slow)
    for name in MODELS
    for train in FRAMES
]


def fitted(name, frame, **options):
    """An estimator, or a model of an objective."""
    backend = name.split()[-1]
    params = {k: v for k, v in PARAMS[backend].items() if k not in ("nthread", "num_threads", "thread_count")}
    options = {"n_estimators": 6, "learning_rate": 0.3, "random_state": 0, "n_jobs": 1, "backend_params": params}
    if name.startswith("ranker"):
        return SelectiveRanker(backend, **options).fit(frame, Y / 10.0, qid=QUERIES)
    return SelectiveRegressor(backend, **options).fit(frame, Y)


def model(backend, frame):
    """A model of an objective, without an estimator."""
    return getattr(boosting, backend)(sm.Sinh().affine(alpha=0.1)).fit(frame, Y, rounds=6, params=PARAMS[backend])


def part(frame, rows):
    return frame.iloc[rows] if isinstance(frame, pd.DataFrame) else frame[rows]


@pytest.mark.parametrize(("name", "train"), TRAINED_ON)
def test_predictions_are_those_of_training_by_name(name, train):
    estimator = fitted(name, FRAMES[train])
    expected = estimator.predict(FRAMES[train])
    assert np.ptp(expected) > 0.1
    rose = [i for i, word in enumerate(WORDS) if word in ("rose", None)][::-1]
    for other, frame in FRAMES.items():
        np.testing.assert_allclose(estimator.predict(frame), expected, rtol=1e-12, err_msg=other)
        np.testing.assert_allclose(estimator.predict(part(frame, rose)), expected[rose], rtol=1e-12, err_msg=other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_of_objectives_know_columns_by_name(backend):
    trained = model(backend, FRAMES["pandas"])
    expected = trained.predict(FRAMES["pandas"])
    for frame in FRAMES.values():
        np.testing.assert_allclose(trained.predict(frame), expected, rtol=1e-12)
    turned = FRAMES["polars Enum"][["kind", "count", "flag", "a"]]
    np.testing.assert_allclose(pickle.loads(pickle.dumps(trained)).predict(turned), expected, rtol=1e-12)
    frame = FRAMES["pandas"]
    for odd, message in (
        (frame.drop(columns="a"), r"columns of training, got a frame that lacks \['a'\]"),
        (frame.assign(more=A), r"columns of training, got a frame that has also \['more'\]"),
        (frame.assign(kind=CODES), r"columns of categories must be those of training, \['kind'\], got none"),
        (
            frame.assign(a=frame["kind"]),
            r"columns of categories must be those of training, \['kind'\], got \['a', 'kind",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            trained.predict(odd)
    options = {"rounds": 6, "params": PARAMS[backend]}
    objective = getattr(boosting, backend)(sm.Sinh().affine(alpha=0.1))
    ways = [
        objective.fit(frame, Y, validation=(other, Y), early_stopping=3, **options).history["matching_loss"]
        for other in (frame, FRAMES["pandas, unused categories"], FRAMES["polars Categorical"])
    ]
    for history in ways:
        np.testing.assert_allclose(history, ways[0], rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_columns_of_models_are_known_by_name(backend):
    frame = pd.DataFrame({"a": A, "count": COUNT.astype(float)})
    trained = model(backend, frame)
    expected = trained.predict(frame)
    np.testing.assert_array_equal(trained.predict(frame[["count", "a"]]), expected)
    if backend != "catboost":  # which asks for names where it was given some
        np.testing.assert_array_equal(model(backend, frame.to_numpy()).predict(frame.to_numpy()), expected)


@pytest.mark.parametrize("name", MODELS)
def test_unseen_categories_count_as_missing_and_are_named(name):
    words = ["new" if word == "pear" else word for word in WORDS]
    gone = [None if word == "pear" else word for word in WORDS]
    estimator = fitted(name, FRAMES["pandas"])
    expected = estimator.predict(in_pandas(NAMES, gone))
    for frame in (in_pandas(["new", *NAMES], words), in_polars(pl.Categorical, words), in_polars(pl.String, words)):
        if frame["kind"].dtype == pl.String:
            with pytest.raises(
                ValueError, match=r"columns of categories must be those of training, \['kind'\], got none"
            ):
                estimator.predict(frame)
            continue
        with pytest.warns(UserWarning, match=r"column 'kind' holds categories .* count as missing: 'new'\.") as caught:
            found = estimator.predict(frame)
        assert len(caught) == 1
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_categories_that_are_numbers_are_known_by_value_and_by_word(backend):
    frames = [
        pd.DataFrame({"a": A, "kind": pd.Categorical(np.where(MISSING, np.nan, 10.0 * CODES))}),
        pd.DataFrame({"a": A, "kind": pd.Series(10 * CODES).where(~MISSING).astype("Int64").astype("category")}),
    ]
    ten = [None if missing else str(10 * code) for code, missing in zip(CODES, MISSING, strict=True)]
    estimator = fitted(backend, frames[1])
    expected = estimator.predict(frames[1])
    for frame in (*frames, pl.DataFrame({"a": A, "kind": pl.Series(ten, dtype=pl.Categorical)})):
        np.testing.assert_allclose(estimator.predict(frame), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "ranker of lightgbm"])
def test_other_orders_of_columns_are_refused_by_estimators(name):
    turned = ["kind", "count", "flag", "a"]
    estimator = fitted(name, FRAMES["pandas"])
    for frame in (FRAMES["pandas"], FRAMES["polars Enum"]):
        with pytest.raises(ValueError, match="same order"):
            estimator.predict(frame[turned])


@pytest.mark.parametrize(
    "backend",
    [pytest.param(name, marks=pytest.mark.slow) for name in MODELS[1:]] + ["hist_gradient_boosting", "linear"],
)
def test_columns_of_numbers_are_the_same_in_every_library(backend):
    table = {"a": A, "flag": FLAG, "count": COUNT.astype(float)}
    frames = [pd.DataFrame(table), pl.DataFrame(table), pd.DataFrame(table).convert_dtypes()]
    array = np.column_stack([A, FLAG, COUNT]).astype(float)
    for frame in (*frames, array):
        estimator = SelectiveLinearModel().fit(frame, Y) if backend == "linear" else fitted(backend, frame)
        expected = estimator.predict(frame)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # names that are missing, or are new
            for other in (*frames, array):
                np.testing.assert_allclose(estimator.predict(other), expected, rtol=1e-12)
        if frame is not array:
            with pytest.raises(ValueError, match="same order"):
                estimator.predict(frames[1][["flag", "a", "count"]])


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_names_that_a_booster_refuses_change_nothing(name):
    frame = FRAMES["pandas"]
    expected = fitted(name, frame).predict(frame)
    for names in (["rent [EUR]", "a<b", "x,y", 'the "kind"'], [0, 1, 2, 3]):
        renamed, polars = frame.set_axis(names, axis=1), FRAMES["polars Categorical"].clone()
        polars.columns = list(map(str, names))
        estimator = fitted(name, renamed)
        np.testing.assert_array_equal(estimator.predict(renamed), expected)
        if isinstance(names[0], str):
            np.testing.assert_array_equal(estimator.predict(polars), expected)


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "ranker of lightgbm"])
def test_models_that_know_nothing_of_columns_predict(name):
    """Such were saved before columns were kept."""
    X, y = np.column_stack([A, COUNT]), A + COUNT
    estimator = (SelectiveRanker if "ranker" in name else SelectiveRegressor)(n_estimators=3).fit(X, y)
    expected = estimator.predict(X)
    del estimator._columns, estimator.model_._columns
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict(X), expected)


def test_a_linear_model_refuses_words():
    for frame in FRAMES.values():
        with pytest.raises(ValueError, match=r"got words in the columns of categories \['kind'\]\. Encode them"):
            SelectiveLinearModel().fit(frame, Y)
