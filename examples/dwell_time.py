"""Dwell time: minutes on the product pages of a shop, for 12,330 real visits that ship with selmatch.

Visits below two minutes are bounces, those above half an hour mostly idle: how short or how long they are does not
matter, only on which side they are. A SmeLU link says just that. Against it squared error, plain, re-weighted, of
clipped times and of logarithms: the error inside the region, and outside of it, where nobody asked for accuracy.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from experiment import Measure, Results, Scores, run

import selmatch as sm
from selmatch.data import dwell_shoppers
from selmatch.sklearn import SelectiveLinearModel

TARGET = "ProductRelated_Duration"
COUNTS = ("Administrative", "Informational", "ProductRelated")
SECONDS = ("Administrative_Duration", "Informational_Duration")
NUMBERS = ("BounceRates", "ExitRates", "PageValues", "SpecialDay")
CATEGORIES = ("Month", "OperatingSystems", "TrafficType", "VisitorType", "Weekend")
#: the region that matters, in minutes
LOW, HIGH = 2.0, 30.0
#: a line inside of it, flat outside
SMELU = sm.SmeLU(c=0.5 * (HIGH - LOW)).affine(beta=0.5 * (HIGH + LOW), gain=HIGH - LOW)
MEASURES = (
    Measure("clipped RMSE", higher_is_better=False, digits=2),
    Measure("observed inside", higher_is_better=False, digits=2),
    Measure("predicted inside", higher_is_better=False, digits=2),
    Measure("right side"),
    Measure("observed outside", higher_is_better=False, digits=2),
)
USUAL = ("squared error", "re-weighted", "of clipped times", "of logarithms")
#: how much more visits inside the region count: weights of rows, strength of the focus
STRENGTHS = (2.0, 4.0, 8.0)
#: penalties on the coefficients
ALPHAS = (1e-4, 1e-2, 1e-1)

Predict = Callable[[np.ndarray], np.ndarray]


def visits() -> tuple[np.ndarray, np.ndarray]:
    """Features, all on one scale, and minutes."""
    with gzip.open(dwell_shoppers(), "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    known = [column[name].astype(float) for name in (*COUNTS, *SECONDS, *NUMBERS)]
    known += [np.log1p(column[name].astype(float)) for name in (*COUNTS, *SECONDS)]
    known += [1.0 * (column[name] == value) for name in CATEGORIES for value in np.unique(column[name])]
    X = np.stack(known, axis=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), column[TARGET].astype(float) / 60.0


def inside(minutes: np.ndarray) -> np.ndarray:
    return (minutes > LOW) & (minutes < HIGH)


def clipped(minutes: np.ndarray) -> np.ndarray:
    return np.clip(minutes, LOW, HIGH)


def scores(predicted: np.ndarray, minutes: np.ndarray) -> dict[str, float]:
    """What the table shows: errors in minutes, and the share of visits on the right side of both borders."""
    error, of_clipped = np.abs(predicted - minutes), np.abs(clipped(predicted) - clipped(minutes))
    same_side = np.digitize(predicted, (LOW, HIGH)) == np.digitize(minutes, (LOW, HIGH))
    return {
        "clipped RMSE": float(np.sqrt(np.mean(of_clipped**2))),
        "observed inside": float(error[inside(minutes)].mean()),
        "predicted inside": float(of_clipped[inside(predicted)].mean()),
        "right side": float(same_side.mean()),
        "observed outside": float(error[~inside(minutes)].mean()),
    }


def linear(X: np.ndarray, y: np.ndarray, alpha: float, loss: Any = None, weights: np.ndarray | None = None) -> Predict:
    """A linear model; its loss is squared error if none is given."""
    loss = sm.Identity() if loss is None else loss
    return SelectiveLinearModel(loss, alpha=alpha).fit(X, y, sample_weight=weights).predict


def of_logarithms(X: np.ndarray, minutes: np.ndarray, alpha: float) -> Predict:
    model = linear(X, np.log1p(minutes), alpha)
    return lambda X: np.expm1(model(X))


def models(X: np.ndarray, minutes: np.ndarray, alpha: float) -> Iterator[tuple[str, Predict]]:
    """All of them with one penalty; where there is a choice, several of a name."""
    yield "squared error", linear(X, minutes, alpha)
    for strength in STRENGTHS:
        yield "re-weighted", linear(X, minutes, alpha, weights=np.where(inside(minutes), strength, 1.0))
    yield "of clipped times", linear(X, clipped(minutes), alpha)
    yield "of logarithms", of_logarithms(X, minutes, alpha)
    yield "selective, SmeLU", linear(X, minutes, alpha, SMELU)
    for strength in STRENGTHS:
        loss = sm.focus(between=(LOW, HIGH), data=minutes, strength=strength)
        yield "selective, focus", linear(X, minutes, alpha, loss)


def study(seed: int, quick: bool) -> Scores:
    """One division of the visits; of each name the model that is best on the validation visits."""
    X, minutes = visits()
    rows = np.random.default_rng(seed).permutation(len(X))[: 2000 if quick else None]
    train, valid, test = np.split(rows, [6 * len(rows) // 10, 8 * len(rows) // 10])
    best: dict[str, tuple[float, Predict]] = {}
    for alpha in ALPHAS:
        for name, predict in models(X[train], minutes[train], alpha):
            reached = scores(predict(X[valid]), minutes[valid])["clipped RMSE"]
            if name not in best or reached < best[name][0]:
                best[name] = reached, predict
    return {name: scores(predict(X[test]), minutes[test]) for name, (_, predict) in best.items()}


def main(argv: Sequence[str] | None = None) -> Results:
    return run(__doc__, study, MEASURES, USUAL, seeds=12, argv=argv)


if __name__ == "__main__":
    main()
