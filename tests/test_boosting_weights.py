"""Training starts at the weighted mean of links, or the first round says that it does not."""

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from boosting_data import regression
from sklearn.ensemble import HistGradientBoostingRegressor

import selmatch as sm
from selmatch import boosting

ROWS = 1100  # two blocks of CatBoost
X, Y = regression(ROWS)
RANDOM = np.random.default_rng(7)
LINKS = [sm.Sigmoid().affine(alpha=2.0), sm.Sinh(), sm.Identity(), sm.SmeLU(c=0.5)]
WEIGHTS = {
    "uniform": RANDOM.uniform(0.1, 1.0, ROWS),
    "lognormal": np.exp(RANDOM.normal(size=ROWS)),
    "with zeros": RANDOM.integers(0, 3, ROWS).astype(float),
    "in blocks": np.repeat([1.0, 5.0], [1000, ROWS - 1000]),
    "of the target": np.exp(Y),
    "of one row": np.where(np.arange(ROWS) == ROWS - 1, 500.0, 1.0),
}
NOTICED = r"training must start at .*the weights of the data set, .* Merge params\(\w+\), or params\(y, weights\)"


def expected_start(link, weights):
    """The weighted mean of links, from the definition."""
    return link.inverse(np.average(link(Y), weights=weights))


# ------------------------------------------------------------------------------ the libraries' own ways of training


def xgboost_train(params, weights, rounds=1, labels=Y, features=X, **options):
    data = xgboost.DMatrix(features, label=labels, weight=weights, **options)
    objective = params["objective"]
    merged = {"nthread": 1, "max_depth": 2, **{k: v for k, v in params.items() if k != "objective"}}
    return xgboost.train(merged, data, rounds, obj=objective)


def xgboost_estimator(params, weights):
    return xgboost.XGBRegressor(n_estimators=1, max_depth=2, n_jobs=1, **params).fit(X, Y, sample_weight=weights)


def lightgbm_train(params, weights, rounds=1, labels=Y, features=X, **options):
    data = lightgbm.Dataset(features, labels, weight=weights, **options)
    return lightgbm.train({"num_threads": 1, "verbosity": -1, "num_leaves": 4, **params}, data, rounds)


def lightgbm_estimator(params, weights):
    estimator = lightgbm.LGBMRegressor(n_estimators=1, num_leaves=4, n_jobs=1, verbosity=-1, **params)
    return estimator.fit(X, Y, sample_weight=weights)


def catboost_train(params, weights, rounds=1, labels=Y, features=X, **options):
    settings = {"iterations": rounds, "depth": 2, "thread_count": 1, "logging_level": "Silent", "bootstrap_type": "No"}
    pool = catboost.Pool(features, labels, weight=weights, **options)
    return catboost.CatBoost({**settings, "allow_const_label": True, "allow_writing_files": False, **params}).fit(pool)


WAYS = [
    ("xgboost", xgboost_train),
    ("xgboost", xgboost_estimator),
    ("lightgbm", lightgbm_train),
    ("lightgbm", lightgbm_estimator),
    ("catboost", catboost_train),
]
TRAIN = {"xgboost": xgboost_train, "lightgbm": lightgbm_train, "catboost": catboost_train}
#: CatBoost wraps what its callbacks raise
NOTICES = (ValueError, catboost.CatBoostError)


def data_set(booster, weights):
    if booster == "xgboost":
        return xgboost.DMatrix(X, label=Y, weight=weights)
    return lightgbm.Dataset(X, Y, weight=weights) if booster == "lightgbm" else catboost.Pool(X, Y, weight=weights)


def params(objective, *source, **options):
    """Parameters to merge, with the objective among them."""
    return (
        {"objective": objective, **objective.params(*source, **options)}
        if objective.booster != "catboost"
        else (objective.params(*source, **options))
    )


@pytest.mark.parametrize(("booster", "train"), WAYS, ids=lambda value: getattr(value, "__name__", value))
def test_a_weighted_training_starts_at_the_weighted_mean_or_says_so(booster, train):
    for i, (name, weights) in enumerate(WEIGHTS.items()):
        link = LINKS[i % len(LINKS)]
        objective = getattr(boosting, booster)(link)
        for source in ((data_set(booster, weights),), (Y, weights)):
            train(params(objective, *source), weights)
            assert objective.start.score == pytest.approx(expected_start(link, weights), abs=1e-5), name
        with pytest.raises(NOTICES, match=NOTICED):
            train(params(objective, Y), weights)
        with pytest.raises(NOTICES, match=NOTICED):
            train(params(objective, Y, np.ones(ROWS)), weights)


@pytest.mark.parametrize(("booster", "train"), WAYS, ids=lambda value: getattr(value, "__name__", value))
def test_weights_of_the_start_that_the_data_set_lacks_are_noticed(booster, train):
    objective = getattr(boosting, booster)(sm.Sinh())
    with pytest.raises(NOTICES, match=NOTICED):
        train(params(objective, Y, WEIGHTS["lognormal"]), None)
    with pytest.raises(NOTICES, match=NOTICED):
        train(params(objective, Y, WEIGHTS["lognormal"]), WEIGHTS["of the target"])


@pytest.mark.parametrize(("booster", "train"), WAYS, ids=lambda value: getattr(value, "__name__", value))
def test_weights_that_move_nothing_are_no_mistake(booster, train):
    objective = getattr(boosting, booster)(sm.Sinh())
    for weights in (None, np.ones(ROWS), np.full(ROWS, 2.5)):
        train(params(objective, Y), weights)
        train(params(objective, Y, weights), None)
    weights = WEIGHTS["lognormal"]
    train(params(objective, Y, 3.0 * weights), weights)
    train(params(objective, Y, weights), 3.0 * weights)


@pytest.mark.parametrize("booster", TRAIN)
def test_what_is_no_mistake_of_weights(booster):
    """Constant labels, parts of the data, a sample, other labels, a user's own start, earlier trees."""
    train, make, weights = TRAIN[booster], getattr(boosting, booster), WEIGHTS["lognormal"]
    objective = make(sm.Sinh())
    train(params(objective, np.full(ROWS, 2.0)), weights, labels=np.full(ROWS, 2.0))
    part = np.arange(ROWS) % 3 > 0
    merged = params(objective, Y, weights)
    train(merged, weights[part], labels=Y[part], features=X[part])
    train(merged, np.ones(part.sum()), labels=Y[part], features=X[part])
    train(merged, None, labels=Y[part], features=X[part])
    merged = params(objective, Y[part])
    train(merged, None)
    own = {"xgboost": "base_margin", "lightgbm": "init_score", "catboost": "baseline"}[booster]
    begin = 0.3 * X[:, 0]
    if booster != "catboost":  # whose baseline comes on top of the start value
        train(params(objective, Y), weights, **{own: begin})
    train(params(objective, Y, weights), weights, **{own: begin})


def test_a_sample_without_weights_is_noticed_by_weighted_rows():
    for booster, train in TRAIN.items():
        with pytest.raises(NOTICES, match=NOTICED):
            train(params(getattr(boosting, booster)(sm.Sinh()), Y[::5]), WEIGHTS["lognormal"])


def test_training_goes_on_with_other_weights():
    weights = WEIGHTS["of the target"]
    objective = boosting.xgboost(sm.Sinh())
    booster = xgboost_train(params(objective, Y), None, 2)
    data = xgboost.DMatrix(X, label=Y, weight=weights)
    assert xgboost.train({"nthread": 1}, data, 2, obj=objective, xgb_model=booster).num_boosted_rounds() == 4
    objective.annotate(booster)
    restored = boosting.from_xgboost(booster)
    assert xgboost.train({"nthread": 1}, data, 2, obj=restored, xgb_model=booster).num_boosted_rounds() == 4
    objective = boosting.lightgbm(sm.Sinh())
    settings = {"num_threads": 1, "verbosity": -1, **objective.params(Y)}
    first = lightgbm.train(settings, lightgbm.Dataset(X, Y), 2)
    assert lightgbm.train(settings, lightgbm.Dataset(X, Y, weight=weights), 2, init_model=first).num_trees() == 4
    objective = boosting.catboost(sm.Sinh())
    settings = {"iterations": 2, "thread_count": 1, "logging_level": "Silent", "allow_writing_files": False}
    settings |= objective.params(Y)
    first = catboost.CatBoost(settings).fit(catboost.Pool(X, Y))
    assert catboost.CatBoost(settings).fit(catboost.Pool(X, Y, weight=weights), init_model=first).tree_count_ == 4


def test_cross_validation_of_the_libraries_sees_weights_of_folds():
    weights, objective = WEIGHTS["lognormal"], boosting.xgboost(sm.Sinh())
    data = xgboost.DMatrix(X, label=Y, weight=weights)
    merged = {"nthread": 1, **objective.params(data)}
    assert len(xgboost.cv(merged, data, 2, nfold=3, obj=objective, custom_metric=objective.metric)) == 2
    with pytest.raises(ValueError, match=NOTICED):
        xgboost.cv({"nthread": 1, **objective.params(Y)}, data, 2, nfold=3, obj=objective)
    objective = boosting.lightgbm(sm.Sinh())
    options = {"num_boost_round": 2, "nfold": 3, "stratified": False, "feval": objective.metric}
    settings = {"num_threads": 1, "verbosity": -1}
    dataset = lightgbm.Dataset(X, Y, weight=weights, free_raw_data=False)
    assert lightgbm.cv({**settings, **objective.params(dataset)}, dataset, **options)
    with pytest.raises(ValueError, match=NOTICED):
        lightgbm.cv({**settings, **objective.params(Y)}, lightgbm.Dataset(X, Y, weight=weights), **options)


@pytest.mark.parametrize("link", LINKS[1:2], ids=repr)
@pytest.mark.parametrize("booster", ["xgboost", "lightgbm", "catboost", "hist_gradient_boosting"])
def test_fit_starts_at_the_weighted_mean(booster, link):
    weights = WEIGHTS["of the target"]
    model = getattr(boosting, booster)(link).fit(X, Y, weights=weights, rounds=1)
    assert model.objective.start.score == pytest.approx(expected_start(link, weights), abs=1e-6)


def test_scikit_learn_itself_starts_at_the_weighted_mean():
    objective = boosting.hist_gradient_boosting(sm.Sinh())
    for weights in (None, WEIGHTS["of the target"]):
        settings = {"loss": objective, "max_iter": 1, "early_stopping": False}
        estimator = HistGradientBoostingRegressor(**settings)
        estimator.fit(X, Y, sample_weight=weights)
        assert float(estimator._baseline_prediction[0, 0]) == pytest.approx(expected_start(sm.Sinh(), weights))


def test_weights_of_lists_and_of_many_targets_are_noticed():
    sizes, lists = np.full(ROWS // 10, 10), np.exp(np.random.default_rng(1).normal(size=ROWS // 10))
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.3)))
    objective = boosting.xgboost(loss, ranking="listwise")
    data = xgboost.DMatrix(X, label=Y, group=sizes, weight=lists)
    xgboost.train({"nthread": 1, **objective.params(data)}, data, 1, obj=objective)
    with pytest.raises(ValueError, match=NOTICED):
        xgboost.train({"nthread": 1, **objective.params(Y, groups=sizes)}, data, 1, obj=objective)
    objective = boosting.lightgbm(loss, ranking="listwise")
    dataset = lightgbm.Dataset(X, Y, group=sizes, weight=np.repeat(lists, sizes), free_raw_data=False)
    settings = {"num_threads": 1, "verbosity": -1}
    lightgbm.train({**settings, **objective.params(dataset)}, dataset, 1)
    dataset = lightgbm.Dataset(X, Y, group=sizes, weight=np.repeat(lists, sizes))
    with pytest.raises(ValueError, match=NOTICED):
        lightgbm.train({**settings, **objective.params(Y, groups=sizes)}, dataset, 1)
    targets, weights = np.column_stack([Y, X[:, 0]])[:300], WEIGHTS["of the target"][:300]
    for booster, train in (("xgboost", xgboost_train), ("catboost", catboost_train)):
        objective = getattr(boosting, booster)(sm.Sinh())
        train(params(objective, targets, weights), weights, labels=targets, features=X[:300])
        with pytest.raises(NOTICES, match=NOTICED):
            train(params(objective, targets), weights, labels=targets, features=X[:300])


@pytest.mark.parametrize("booster", TRAIN)
def test_weights_beside_a_data_set_are_refused(booster):
    objective = getattr(boosting, booster)(sm.Sinh())
    name = {"xgboost": "dtrain", "lightgbm": "dataset", "catboost": "pool"}[booster]
    with pytest.raises(ValueError, match=f"must be None beside a {name}, .* Put them into the {name}"):
        objective.params(data_set(booster, None), WEIGHTS["uniform"])


def test_a_dataset_of_lightgbm_shows_its_labels_once_it_is_built(tmp_path):
    objective, settings = boosting.lightgbm(sm.Sinh()), {"num_threads": 1, "verbosity": -1}
    whole = lightgbm.Dataset(X, Y, weight=WEIGHTS["uniform"], free_raw_data=False, params=settings)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([Y, X]), delimiter=",")
    part, file = whole.subset(range(500)), lightgbm.Dataset(tmp_path / "rows.csv", params=settings)
    for dataset, labels, weights in ((part, Y[:500], WEIGHTS["uniform"][:500]), (file, Y, None)):
        with pytest.raises(ValueError, match=r"dataset must hold its labels, got none: .* Call dataset\.construct\(\)"):
            objective.params(dataset)
        merged = objective.params(dataset.construct())
        lightgbm.train({**settings, **merged}, dataset, 1)
        expected = sm.Sinh().inverse(np.average(sm.Sinh()(labels), weights=weights))
        assert objective.start.score == pytest.approx(expected, abs=1e-5)
