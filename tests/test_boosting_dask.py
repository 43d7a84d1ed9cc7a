"""Objectives on two Dask workers, each a process with its own partitions."""

import dask.array
import lightgbm
import numpy as np
import pytest
from boosting_data import regression
from distributed import Client, LocalCluster

import selmatch as sm
from selmatch import boosting

LOSS = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=5.0))
#: with 4,000 the bins that two workers find cost or gain 2 % with the built-in objectives, too
ROWS = 40_000


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def xgboost_dask():
    # its import needs dask.dataframe, hence pyarrow: here, so that only the tests marked slow need it
    import xgboost.dask

    return xgboost.dask


@pytest.fixture(scope="module")
def data():
    X, y = regression(2 * ROWS, shift=5.0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    return X[:ROWS], y[:ROWS], weights, X[ROWS:], y[ROWS:]


def spread(*arrays):
    return [dask.array.from_array(array, chunks=(ROWS // 4, *array.shape[1:])) for array in arrays]


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_xgboost_on_two_workers_is_as_good_as_on_one(client, xgboost_dask, data, weighted):
    X, y, weights, X_test, y_test = data
    weights = weights if weighted else None
    params = {"max_depth": 4, "learning_rate": 0.2, "nthread": 1}
    single = boosting.xgboost(LOSS).fit(X, y, weights=weights, rounds=40, params=params)
    objective = boosting.xgboost(LOSS)
    sample = slice(None, None, 5)
    merged = {**params, **objective.params(y[sample], None if weights is None else weights[sample])}
    dX, dy, dw = spread(X, y, weights if weighted else np.ones(ROWS))
    matrix = xgboost_dask.DaskQuantileDMatrix(client, dX, dy, weight=dw if weighted else None)
    result = xgboost_dask.train(
        client, merged, matrix, num_boost_round=40, obj=objective, custom_metric=objective.metric,
        evals=[(matrix, "train")], verbose_eval=False,
    )  # fmt: skip
    objective.annotate(result["booster"])
    scores = boosting.from_xgboost(result["booster"]).predict(result["booster"], X_test)
    assert LOSS(scores, y_test) == pytest.approx(LOSS(single.predict(X_test), y_test), rel=0.01)
    history = result["history"]["train"][boosting.METRIC]
    assert history[-1] == pytest.approx(LOSS(single.predict(X), y, weights=weights), rel=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Parameter n_jobs will be ignored:UserWarning")  # LightGBM's, for its own default
@pytest.mark.parametrize("weighted", [False, True])
def test_lightgbm_on_two_workers_is_as_good_as_on_one(client, data, weighted):
    X, y, weights, X_test, y_test = data
    weights = weights if weighted else None
    settings = {"num_leaves": 15, "learning_rate": 0.2, "verbosity": -1}
    single = boosting.lightgbm(LOSS).fit(X, y, weights=weights, rounds=40, params={**settings, "num_threads": 1})
    objective = boosting.lightgbm(LOSS)
    sample = slice(None, None, 5)
    merged = objective.params(y[sample], None if weights is None else weights[sample])
    dX, dy, dw = spread(X, y, weights if weighted else np.ones(ROWS))
    estimator = lightgbm.DaskLGBMRegressor(client=client, n_estimators=40, tree_learner="data", **settings, **merged)
    estimator.fit(dX, dy, sample_weight=dw if weighted else None)
    scores = objective.predict(estimator, X_test)
    assert LOSS(scores, y_test) == pytest.approx(LOSS(single.predict(X_test), y_test), rel=0.01)
    on_workers = estimator.predict(spread(X_test)[0]).compute() + objective.start.score
    np.testing.assert_allclose(on_workers, scores, rtol=1e-12)
