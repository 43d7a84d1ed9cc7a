"""Claim: a Python objective costs boosters next to nothing.

``share``: the time inside the objective, as a part of what ``xgboost.train`` and ``lightgbm.train`` take, on data that
they have binned before.
``whole``: a whole run of CatBoost and HistGradientBoosting, over that of the built-in objective with the same settings.

Built-in and ours run in turns, in one process with the same number of threads; ratios are taken within a turn, since
the machine's speed drifts. Kernels are compiled before.
"""

import argparse
import logging
import os
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import selmatch as sm

SECTIONS = ("share", "whole")
THREADS = 2
LINKS = {"Sigmoid": sm.Sigmoid().affine(alpha=2.0, beta=0.5), "Sinh": sm.Sinh().affine(alpha=0.5)}
SHARE_GOAL, WHOLE_GOAL = 0.08, 1.3
FULL = 10**6, 100

Runs = dict[str, Callable[[], object]]


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels, like those of a regression on a table of 20 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 20)).astype(np.float32)
    return X, X[:, 0] + np.sin(2.0 * X[:, 1]) * X[:, 2] + 0.5 * rng.normal(size=rows)


def seconds(function: Callable[[], object]) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start


def verdict(found: float, goal: float, rows: int, rounds: int) -> str:
    """Whether a goal is met; goals are about runs of a certain size."""
    if (rows, rounds) != FULL:
        return ""
    return "   met" if found <= goal else "   MISSED"


# ---------------------------------------------------------------------------------------------------------------- share


def timed(kind: type) -> type:
    """An objective that adds up the time it takes."""

    class Timed(kind):
        inside = 0.0

        def __call__(self, *arguments: Any) -> Any:
            start = perf_counter()
            try:
                return super().__call__(*arguments)
            finally:
                Timed.inside += perf_counter() - start

    return Timed


Training = Callable[[Any, int], Callable[[], object]]


def xgboost_training(X: np.ndarray, y: np.ndarray) -> tuple[type, Training]:
    """The objective's class, and what trains with an object of it for some rounds."""
    import xgboost

    from selmatch.boosting.for_xgboost import XGBoostObjective

    params = {"nthread": THREADS, "max_depth": 6, "tree_method": "hist"}
    binned = xgboost.QuantileDMatrix(X, label=y, nthread=THREADS)

    def training(objective: Any, rounds: int) -> Callable[[], object]:
        merged = {**params, **objective.params(binned)}
        return lambda: xgboost.train(merged, binned, rounds, obj=objective)

    return XGBoostObjective, training


def lightgbm_training(X: np.ndarray, y: np.ndarray) -> tuple[type, Training]:
    """The same for LightGBM."""
    import lightgbm

    from selmatch.boosting.for_lightgbm import LightGBMObjective

    params = {"num_threads": THREADS, "verbosity": -1}
    binned = lightgbm.Dataset(X, y, params=params).construct()

    def training(objective: Any, rounds: int) -> Callable[[], object]:
        merged = {**params, **objective.params(binned)}
        return lambda: lightgbm.train(merged, binned, rounds)

    return LightGBMObjective, training


def share(rows: int, rounds: int, repeats: int) -> None:
    X, y = data(rows)
    print(f"share of the objective in training, {rows:,} x 20, {rounds} rounds, {THREADS} threads, median of {repeats}")
    print(f"{'':<24} {'training':>9} {'inside':>8} {'share':>7}   goal {SHARE_GOAL:.0%}, aim 3%")
    for name, made in (("XGBoost", xgboost_training), ("LightGBM", lightgbm_training)):
        kind, training = made(X, y)
        for link, curve in LINKS.items():
            for curvature in ("secant", "newton"):
                objective = timed(kind)(curve, curvature=curvature, route="python")
                training(objective, 1)()
                found = []
                for _ in range(repeats):
                    run = training(objective, rounds)
                    type(objective).inside = 0.0
                    whole = seconds(run)
                    found.append((type(objective).inside / whole, whole, type(objective).inside))
                part, whole, inside = sorted(found)[len(found) // 2]
                print(
                    f"{name + ' ' + link + ' ' + curvature:<24} {whole:8.2f}s {inside:7.2f}s {part:7.1%}"
                    f"{verdict(part, SHARE_GOAL, rows, rounds)}", flush=True,
                )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- whole


def catboost_runs(X: np.ndarray, y: np.ndarray, rounds: int) -> tuple[Runs, str]:
    """Runs of CatBoost by name, and which of them is built in."""
    import catboost

    params = {"learning_rate": 0.1, "depth": 6, "thread_count": THREADS, "random_seed": 0}
    settings = {
        **params, "iterations": rounds, "leaf_estimation_method": "Newton", "leaf_estimation_iterations": 1,
        "logging_level": "Silent", "allow_writing_files": False, "metric_period": rounds,
    }  # fmt: skip

    def built_in(name: str, labels: np.ndarray) -> Callable[[], object]:
        return lambda: catboost.CatBoost({"loss_function": name, **settings}).fit(catboost.Pool(X, labels))

    def ours(curve: sm.Curve) -> Callable[[], object]:
        return lambda: sm.boosting.catboost(curve).fit(X, y, rounds=rounds, params=params)

    runs = {"RMSE": built_in("RMSE", y), "CrossEntropy": built_in("CrossEntropy", sm.Sigmoid()(y))}
    return {**runs, **{name: ours(curve) for name, curve in LINKS.items()}}, "RMSE"


def hist_gradient_boosting_runs(
    X: np.ndarray, y: np.ndarray, rounds: int
) -> tuple[dict[str, Callable[[], object]], str]:
    """Runs of scikit-learn's boosters by name, and which of them is built in."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    def ours(curve: sm.Curve) -> Callable[[], object]:
        return lambda: sm.boosting.hist_gradient_boosting(curve).fit(X, y, rounds=rounds)

    def built_in(loss: str, labels: np.ndarray) -> Callable[[], object]:
        params: dict[str, Any] = {"loss": loss, "max_iter": rounds, "early_stopping": False}
        return lambda: HistGradientBoostingRegressor(**params).fit(X, labels)

    runs = {"squared_error": built_in("squared_error", y), "poisson": built_in("poisson", np.exp(0.5 * y))}
    return {**runs, **{name: ours(curve) for name, curve in LINKS.items()}}, "squared_error"


def whole(rows: int, rounds: int, repeats: int) -> None:
    X, y = data(rows)
    print(
        f"whole runs over the built-in, {rows:,} x 20, {rounds} rounds, {THREADS} threads, {repeats} repeats in turns"
    )
    print(f"{'':<36} {'median':>9} {'ratio':>7}   goal {WHOLE_GOAL}x")
    for booster, made in (("CatBoost", catboost_runs), ("HistGradientBoosting", hist_gradient_boosting_runs)):
        for run in made(X, y, 1)[0].values():
            run()
        runs, base = made(X, y, rounds)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeats):
            for name, run in runs.items():
                times[name].append(seconds(run))
        for name, column in times.items():
            ratio = statistics.median(own / theirs for own, theirs in zip(column, times[base], strict=True))
            note = verdict(ratio, WHOLE_GOAL, rows, rounds) if name in LINKS else ""
            print(f"{booster + ' ' + name:<36} {statistics.median(column):8.2f}s {ratio:6.2f}x{note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sections", nargs="*", default=SECTIONS, metavar="section", help=f"any of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--rows", type=int, default=FULL[0])
    parser.add_argument("--rounds", type=int, default=FULL[1])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections must be among {', '.join(SECTIONS)}, got {', '.join(sorted(unknown))}")
    logging.getLogger("selmatch").setLevel(logging.WARNING)
    for name, section in (("share", share), ("whole", whole)):
        if name in options.sections:
            section(options.rows, options.rounds, options.repeats)


if __name__ == "__main__":
    # before scikit-learn's threads are made
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
