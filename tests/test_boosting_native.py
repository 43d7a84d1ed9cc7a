"""The boosters' own objectives give the trees of the Python objective with Newton's curvature."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from boosting_data import regression

import selmatch as sm
from selmatch import boosting

LINKS = [
    sm.Sigmoid().affine(alpha=4.0, beta=0.5),
    sm.Sigmoid().affine(alpha=0.5, beta=-1.0, gain=3.0),
    sm.Identity(),
    sm.Identity().affine(alpha=2.0, beta=1.0, gain=0.5),
]
XGBOOST = {"nthread": 1, "max_depth": 4, "learning_rate": 0.3}
LIGHTGBM = {"num_threads": 1, "num_leaves": 8, "min_data_in_leaf": 5, "learning_rate": 0.3, "deterministic": True}

#: no regularisation but the defaults; each kind alone; all of them
REGULARISED = {
    "xgboost": [
        {}, {"lambda": 3.0}, {"reg_alpha": 2.0}, {"min_child_weight": 6.5}, {"gamma": 0.7}, {"max_delta_step": 0.2},
        {"reg_lambda": 0.5, "alpha": 1.0, "min_child_weight": 3.3, "min_split_loss": 0.2, "max_delta_step": 0.3},
    ],
    "lightgbm": [
        {}, {"lambda_l2": 3.0}, {"reg_alpha": 2.0}, {"min_child_weight": 6.5}, {"min_gain_to_split": 0.7},
        {"linear_tree": True, "linear_lambda": 5.0},
        {"max_delta_step": 0.6, "min_gain_to_split": 0.05},  # two leaves at the limit gain nothing
        {"reg_lambda": 0.5, "lambda_l1": 1.0, "min_sum_hessian": 3.3, "min_split_gain": 0.2, "max_delta_step": 0.3},
    ],
}  # fmt: skip
CASES = [(booster, given) for booster, cases in REGULARISED.items() for given in cases]


def structure(model):
    """Which features split where, in all trees."""
    frame = model.booster.trees_to_dataframe()
    columns = ["Tree", "Node", "Feature", "Split"] if "Tree" in frame else ["tree_index", "split_feature", "threshold"]
    return frame[columns]


def settings(booster, given):
    """The user's parameters, with what a linear booster would not know left out."""
    usual = XGBOOST if booster == "xgboost" else LIGHTGBM
    return {**({"nthread": 1} if given.get("booster") == "gblinear" else usual), **given}


def both(booster, link, given, weights=None, rounds=12, **options):
    X, y = regression(400)
    params = settings(booster, given)
    make = getattr(boosting, booster)
    for route in ("python", "native"):
        objective = make(link, curvature="newton", route=route)
        yield objective.fit(X, y, weights=weights, rounds=rounds, params=params, **options), X, y


@pytest.mark.parametrize("link", LINKS, ids=repr)
@pytest.mark.parametrize(("booster", "given"), CASES, ids=str)
def test_the_native_route_grows_the_same_trees(booster, given, link):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 400) if len(given) != 1 else None
    (python, X, _), (native, *_) = both(booster, link, given, weights)
    pd.testing.assert_frame_equal(structure(python), structure(native))
    np.testing.assert_allclose(python.predict(X), native.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["min_child_weight", "min_sum_hessian", "min_sum_hessian_in_leaf"])
def test_whole_weights_of_leaves_do_not_depend_on_rounding(name):
    X, y = regression(seed=3)
    params = {"num_threads": 1, "min_data_in_leaf": 1, name: 8}  # at the start the curvature of 8 rows is about 8
    python, native = (
        boosting.lightgbm(LINKS[1], curvature="newton", route=route).fit(X, y, rounds=1, params=params).predict(X)
        for route in ("python", "native")
    )
    np.testing.assert_allclose(python, native, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("booster", REGULARISED)
def test_every_kind_of_regularisation_changes_something(booster):
    link = LINKS[0]
    (plain, X, _), _ = both(booster, link, {})
    for given in REGULARISED[booster][1:]:
        (changed, *_), _ = both(booster, link, given)
        assert np.abs(plain.predict(X) - changed.predict(X)).max() > 1e-3


@pytest.mark.parametrize("booster", REGULARISED)
@pytest.mark.parametrize("link", LINKS[::2], ids=repr)
def test_both_routes_stop_at_the_same_round(booster, link):
    X, y = regression(150, seed=5)
    stopped = both(booster, link, {"learning_rate": 0.9}, validation=(X, y), early_stopping=2)
    (python, *_), (native, *_) = stopped
    assert python.best_iteration == native.best_iteration < 10
    assert list(python.history) == [boosting.METRIC] != list(native.history)
    np.testing.assert_allclose(python.predict(X), native.predict(X), rtol=1e-6, atol=1e-6)


def test_many_targets_on_the_native_route():
    X, y = regression()
    Y = np.stack([y, 1.0 - y], axis=1)
    for link in LINKS[::2]:
        python, native = (
            boosting.xgboost(link, curvature="newton", route=route).fit(X, Y, rounds=6, params=XGBOOST)
            for route in ("python", "native")
        )
        assert native.predict(X).shape == Y.shape
        np.testing.assert_allclose(python.predict(X), native.predict(X), rtol=1e-5, atol=2e-6)


def test_newton_takes_the_native_route_where_it_is_exact():
    for make in (boosting.xgboost, boosting.lightgbm):
        assert make(LINKS[0], curvature="newton").route == "native"
        assert make(LINKS[0], curvature="newton", route="python").route == "python"
        assert make(LINKS[0]).route == "python"
        assert make(sm.Sinh(), curvature="newton").route == "python"
        assert make(sm.Sigmoid(), curvature="newton", ranking="pairwise").route == "python"
        with pytest.raises(ValueError, match="route='native' must have a link that the booster knows"):
            make(sm.Sinh(), curvature="newton", route="native")
        with pytest.raises(ValueError, match="route='native' must have curvature='newton'"):
            make(LINKS[0], route="native")


@pytest.mark.parametrize("booster", REGULARISED)
def test_links_of_jumps_need_secants(booster):
    X, y = regression()
    jumps = sm.Staircase((-1.0, 1.0), (1.0, 2.0))
    make = getattr(boosting, booster)
    with pytest.raises(ValueError, match=r"curvature='newton' must have a link with a slope .* Use curvature='secant'"):
        make(jumps, curvature="newton").fit(X, y)
    model = make(jumps).fit(X, y, rounds=20)
    loss, start = model.objective.loss, np.full(len(y), model.objective.start.score)
    assert loss(model.predict(X), y) < 0.5 * loss(start, y)


def test_native_parameters_train_without_python():
    X, y = regression()
    link = LINKS[0]
    given = {"lambda": 2.0, "min_child_weight": 0.5, **XGBOOST}
    model = boosting.xgboost(link, curvature="newton").fit(X, y, rounds=8, params=given)
    params = boosting.native_params(link, "xgboost", labels=y, params=given)
    data = xgboost.DMatrix(X, label=boosting.native_labels(link, y))
    margin = xgboost.train(params, data, 8).predict(data, output_margin=True)
    np.testing.assert_allclose(boosting.native_scores(link, margin), model.predict(X), rtol=1e-5, atol=1e-5)
    given = {"lambda_l2": 2.0, **LIGHTGBM, "verbosity": -1}
    model = boosting.lightgbm(link, curvature="newton").fit(X, y, rounds=8, params=given)
    params = boosting.native_params(link, "lightgbm", labels=y, params=given)
    begin = link.alpha * (sm.MatchingLoss(link).minimiser(y) - link.beta)
    data = lightgbm.Dataset(X, boosting.native_labels(link, y), init_score=np.full(len(y), begin))
    margin = begin + lightgbm.train(params, data, 8).predict(X, raw_score=True)
    np.testing.assert_allclose(boosting.native_scores(link, margin), model.predict(X), rtol=1e-5, atol=1e-5)


def test_a_start_in_the_saturated_part_is_a_base_score_that_xgboost_takes():
    X, y = regression(shift=40.0)
    model = boosting.xgboost(sm.Sigmoid().affine(alpha=2.0, beta=20.0), curvature="newton").fit(X, y, rounds=1)
    assert np.all(np.isfinite(model.predict(X)))


def test_native_parameters_say_what_is_missing():
    with pytest.raises(ValueError, match="booster must be one of xgboost, lightgbm, catboost, got 'other'"):
        boosting.native_params(sm.Sigmoid(), "other", labels=[1.0, 2.0])
    with pytest.raises(ValueError, match="labels or start must be given, got neither"):
        boosting.native_params(sm.Sigmoid(), "xgboost")
    with pytest.raises(ValueError, match="route='native' must have a link that the booster knows"):
        boosting.native_params(sm.Sinh(), "xgboost", labels=[1.0, 2.0])


#: parameters that shape trees in another way than regularisation, with which both routes agree
AGREEING = [
    ("xgboost", {"booster": "dart", "rate_drop": 0.5, "normalize_type": "forest", "gamma": 0.1}),
    ("xgboost", {"booster": "gblinear"}),
    ("xgboost", {"tree_method": "exact", "lambda": 3.0, "min_child_weight": 2.5}),
    ("xgboost", {"booster": "gblinear", "updater": "coord_descent", "lambda": 0.5, "alpha": 0.01}),
    ("xgboost", {"grow_policy": "lossguide", "max_leaves": 6, "subsample": 0.7, "num_parallel_tree": 2}),
    ("lightgbm", {"boosting": "goss", "lambda_l2": 2.0}),
    ("lightgbm", {"data_sample_strategy": "goss", "top_rate": 0.3, "other_rate": 0.2, "path_smooth": 2.0}),
    ("lightgbm", {"cegb_penalty_split": 0.01}),
    ("lightgbm", {"cegb_tradeoff": 0.5, "cegb_penalty_feature_coupled": [1.0, 2.0, 3.0, 1.0]}),
    ("lightgbm", {"cegb_penalty_feature_lazy": [0.01] * 4, "extra_trees": True}),
    ("lightgbm", {"bagging_freq": 1, "bagging_fraction": 0.5, "use_quantized_grad": True}),
]
#: parameters that mean something else to the booster's own objective, and for which links
DISAGREEING = [
    ("xgboost", {"tree_method": "approx"}, (sm.Sigmoid,)),
    ("xgboost", {"sampling_method": "gradient_based", "subsample": 0.5}, (sm.Sigmoid,)),
    ("xgboost", {"scale_pos_weight": 3.0}, (sm.Sigmoid, sm.Identity)),
    ("lightgbm", {"boosting_type": "dart", "drop_rate": 0.5}, (sm.Sigmoid, sm.Identity)),
    ("lightgbm", {"reg_sqrt": True}, (sm.Identity,)),
]


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(("booster", "given"), AGREEING, ids=str)
def test_other_kinds_of_boosting_agree_on_both_routes(booster, given, weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else None
    for link in LINKS[:1] + LINKS[3:]:
        # after more rounds goss chooses other rows where gradients are equal up to rounding
        (python, X, _), (native, *_) = both(booster, link, given, weights, rounds=8)
        assert (python.objective.route, native.objective.route) == ("python", "native")
        np.testing.assert_allclose(python.predict(X), native.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("booster", "given", "kinds"), DISAGREEING, ids=str)
def test_where_routes_disagree_python_runs_or_the_native_route_is_refused(booster, given, kinds, caplog):
    X, y = regression(400)
    params = settings(booster, given)
    for link in LINKS[:1] + LINKS[3:]:
        make = getattr(boosting, booster)
        python, free = (make(link, curvature="newton", route=route) for route in ("python", None))
        expected = python.fit(X, y, rounds=8, params=params)
        with caplog.at_level("INFO", "selmatch.boosting"):
            model = free.fit(X, y, rounds=8, params=params)
        if "boosting_type" not in given:  # LightGBM's draws for dart differ from training to training
            np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6, atol=1e-6)
        kind = type(getattr(link, "curve", link))
        if kind not in kinds:
            assert model.objective.route == "native"
            continue
        assert model.objective.route == "python"
        assert f"python route, since params hold {next(iter(given))}=" in caplog.text
        with pytest.raises(ValueError, match=rf"with route='native', got {next(iter(given))}=.* use route='python'"):
            make(link, curvature="newton", route="native").fit(X, y, params=params)
        with pytest.raises(ValueError, match=rf"params must not hold {next(iter(given))}="):
            boosting.native_params(link, booster, labels=y, params=given)
        free.fit(X, y, rounds=1)  # the next training chooses again
        assert free.route == "native"


def test_a_linear_booster_learns_a_line_on_both_routes():
    X, _ = regression(400)
    y = X @ [1.0, -2.0, 0.5, 0.0] + 3.0
    params = {"nthread": 1, "booster": "gblinear", "updater": "coord_descent"}
    for route in ("python", "native"):
        model = boosting.xgboost(sm.Identity(), curvature="newton", route=route).fit(X, y, rounds=200, params=params)
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 1e-5
    with pytest.raises(ValueError, match="early_stopping must be None with booster='gblinear', got 3"):
        boosting.xgboost(sm.Identity()).fit(X, y, params=params, validation=(X, y), early_stopping=3)


@pytest.mark.parametrize("route", ["python", "native"])
def test_a_linear_booster_has_one_target(route):
    X, y = regression()
    objective = boosting.xgboost(sm.Identity(), curvature="newton", route=route)
    params = {"nthread": 1, "booster": "gblinear"}
    with pytest.raises(ValueError, match=r"one for each row with booster='gblinear', got shape \(\d+, 2\)"):
        objective.fit(X, np.column_stack([y + 5.0, y - 5.0]), rounds=1, params=params)


@pytest.mark.parametrize("route", ["python", "native"])
def test_random_forests_of_lightgbm_are_refused(route):
    X, y = regression()
    objective = boosting.lightgbm(sm.Identity(), curvature="newton", route=route)
    with pytest.raises(ValueError, match="params must not hold boosting='rf': LightGBM's random forests take neither"):
        objective.fit(X, y, params={"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5})
