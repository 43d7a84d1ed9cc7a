"""XGBoost on one split: one binned matrix, on which every contender trains."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xgboost

from selmatch import boosting
from selmatch.comparison.boosters import BoosterTrainer
from selmatch.comparison.contenders import Recipe, complexity
from selmatch.comparison.fitting import PATIENCE, Part, outcome
from selmatch.comparison.journal import Outcome


def objective_params(recipe: Recipe, setting: Mapping[str, Any]) -> dict[str, Any]:
    """XGBoost's own objective for a contender."""
    if recipe.objective == "huber":
        return {"objective": "reg:pseudohubererror", "huber_slope": setting["delta"]}
    if recipe.objective == "quantile":
        return {"objective": "reg:quantileerror", "quantile_alpha": setting["level"]}
    return {"objective": "rank:ndcg" if recipe.objective == "lambdarank" else "reg:squarederror"}


def tree_params(setting: Mapping[str, Any]) -> dict[str, Any]:
    """What a setting says about trees."""
    return {**complexity(setting), "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}


class Trainer(BoosterTrainer):
    """XGBoost on one split."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self._base = {"nthread": part.question.threads, "seed": part.question.seed, "verbosity": 0}
        codes = set(part.rows.categorical)
        self._types = ["c" if i in codes else "q" for i in range(part.rows.matrix.shape[1])]

    def _matrix(self, name: str, reference: xgboost.DMatrix | None = None, **options: Any) -> xgboost.DMatrix:
        return xgboost.QuantileDMatrix(
            self.part.matrix(name), ref=reference, feature_types=self._types, enable_categorical=True,
            nthread=self.part.question.threads, **options,
        )  # fmt: skip

    @functools.cached_property
    def _sets(self) -> tuple[xgboost.DMatrix, xgboost.DMatrix, xgboost.DMatrix]:
        """The three parts, binned once; labels and weights are put in for each fit."""
        train = self._matrix("train", label=np.zeros(len(self.part.split.train)))
        valid = self._matrix("valid", train, label=np.zeros(len(self.part.split.valid)))
        return train, valid, self._matrix("test", train)

    def _params(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._base, **tree_params(setting)}

    def _own(self, recipe: Recipe, setting: Mapping[str, Any]) -> dict[str, Any]:
        return {**objective_params(recipe, setting), "disable_default_eval_metric": 1}

    def _selective(self, params: dict[str, Any], setting: Mapping[str, Any]) -> Outcome:
        self._fill(self.part.scores("train") - self.part.offset, self.part.training_weights(setting))
        objective = boosting.xgboost(self.part.centred_loss)
        merged = {**params, **objective.params(self._sets[0])}
        return self._trained(merged, lambda raw: np.asarray(raw, dtype=np.float64) + self.part.offset, objective)

    def _fill(self, labels: np.ndarray, weights: np.ndarray | None) -> None:
        self._sets[0].set_info(label=labels, weight=np.ones(len(labels)) if weights is None else weights)

    def _trained(
        self, params: dict[str, Any], scores: Callable[[np.ndarray], np.ndarray], objective: Any = None
    ) -> Outcome:
        part = self.part
        best = float(part.loss.minimiser(part.scores("train"), part.weights("train")))
        # XGBoost rounds metrics to six decimals: as shares of what a constant loses they keep their digits
        unit = part.criterion(np.full(len(part.split.valid), best)) or 1.0

        def watched(predicted: np.ndarray, _: xgboost.DMatrix) -> tuple[str, float]:
            return "selective_loss", part.criterion(scores(predicted)) / unit

        train, valid, test = self._sets
        booster = xgboost.train(
            params, train, part.question.rounds, obj=objective, custom_metric=watched, evals=[(valid, "valid")],
            early_stopping_rounds=PATIENCE, verbose_eval=False,
        )  # fmt: skip
        rounds = booster.best_iteration + 1
        valid_scores, test_scores = (scores(_margin(booster, data, rounds)) for data in (valid, test))
        return outcome(part, valid_scores, test_scores, rounds)

    def _lambdarank(self, params: dict[str, Any], recipe: Recipe, setting: Mapping[str, Any]) -> Outcome:
        part = self.part

        def lists(name: str, reference: xgboost.DMatrix | None = None) -> xgboost.DMatrix:
            target = part.rows.target[getattr(part.split, name)]
            return self._matrix(name, reference, label=target, weight=part.list_weights(name), group=part.sizes(name))

        train = lists("train")
        valid = lists("valid", train)
        merged = {**params, **objective_params(recipe, setting), "eval_metric": "ndcg@10"}
        booster = xgboost.train(
            merged, train, part.question.rounds, evals=[(valid, "valid")], early_stopping_rounds=PATIENCE,
            verbose_eval=False,
        )  # fmt: skip
        rounds = booster.best_iteration + 1
        found = [_margin(booster, data, rounds) for data in (valid, self._sets[2])]
        return Outcome(found[1], found[0], 1.0 - float(booster.best_score), rounds)


def _margin(booster: xgboost.Booster, data: xgboost.DMatrix, rounds: int) -> np.ndarray:
    found = booster.predict(data, output_margin=True, iteration_range=(0, rounds))
    return np.asarray(found, dtype=np.float64)
