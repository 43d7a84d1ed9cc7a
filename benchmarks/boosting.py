"""Claims: kernels are several times faster than compiled peers, and a Python objective costs boosters next to nothing.

``share``: the time inside the objective, as a part of the training time of XGBoost and LightGBM.
``whole``: a whole run of CatBoost and HistGradientBoosting, over that of the built-in objective with the same settings.
``kernels``: see ``kernels.py``.

Built-in and ours run in turns, in one process with the same number of threads; ratios are taken within a turn, since
the machine's speed drifts. Kernels are compiled before.
"""

import argparse
import logging
import os
import statistics
import sys
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

import selmatch as sm

SECTIONS = ("kernels", "share", "whole")
THREADS = 2
LINKS = {"Sigmoid": sm.Sigmoid().affine(alpha=2.0, beta=0.5), "Sinh": sm.Sinh().affine(alpha=0.5)}
SHARE_GOAL, WHOLE_GOAL = 0.08, 1.3

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


def share(rows: int, rounds: int, repeats: int) -> None:
    from selmatch.boosting.for_lightgbm import LightGBMObjective
    from selmatch.boosting.for_xgboost import XGBoostObjective

    boosters: dict[str, tuple[type, Mapping[str, Any]]] = {
        "XGBoost": (XGBoostObjective, {"nthread": THREADS, "max_depth": 6, "tree_method": "hist"}),
        "LightGBM": (LightGBMObjective, {"num_threads": THREADS, "verbosity": -1}),
    }
    X, y = data(rows)
    print(f"share of the objective in training, {rows:,} x 20, {rounds} rounds, {THREADS} threads, median of {repeats}")
    print(f"{'':<24} {'training':>9} {'inside':>8} {'share':>7}   goal {SHARE_GOAL:.0%}, aim 3%")
    for name, (kind, params) in boosters.items():
        for link, curve in LINKS.items():
            for curvature in ("secant", "newton"):
                objective = timed(kind)(curve, curvature=curvature, route="python")
                objective.fit(X, y, rounds=1, params=params)
                found = []
                for _ in range(repeats):
                    type(objective).inside = 0.0
                    whole = seconds(lambda o=objective, p=params: o.fit(X, y, rounds=rounds, params=p))
                    found.append((type(objective).inside / whole, whole, type(objective).inside))
                part, whole, inside = sorted(found)[len(found) // 2]
                print(f"{name + ' ' + link + ' ' + curvature:<24} {whole:8.2f}s {inside:7.2f}s {part:7.1%}", flush=True)


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
            print(f"{booster + ' ' + name:<36} {statistics.median(column):8.2f}s {ratio:6.2f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sections", nargs="*", default=SECTIONS, metavar="section", help=f"any of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections must be among {', '.join(SECTIONS)}, got {', '.join(sorted(unknown))}")
    logging.getLogger("selmatch").setLevel(logging.WARNING)
    if "kernels" in options.sections:
        import kernels

        sys.argv = sys.argv[:1]
        kernels.main()
    for name, section in (("share", share), ("whole", whole)):
        if name in options.sections:
            section(options.rows, options.rounds, options.repeats)


if __name__ == "__main__":
    # before scikit-learn's threads are made
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
