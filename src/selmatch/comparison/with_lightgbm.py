"""LightGBM on one split: one binned data set, on which every contender trains."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import lightgbm
import numpy as np

from selmatch import boosting
from selmatch.comparison.boosters import BoosterTrainer
from selmatch.comparison.contenders import Recipe, complexity
from selmatch.comparison.fitting import PATIENCE, Part, outcome
from selmatch.comparison.journal import Outcome


def objective_params(recipe: Recipe, setting: Mapping[str, Any]) -> dict[str, Any]:
    """LightGBM's own objective for a contender."""
    if recipe.objective == "huber":
        return {"objective": "huber", "alpha": setting["delta"]}
    if recipe.objective == "quantile":
        return {"objective": "quantile", "alpha": setting["level"]}
    return {"objective": "lambdarank" if recipe.objective == "lambdarank" else "regression"}


class Trainer(BoosterTrainer):
    """LightGBM on one split."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        question = part.question
        self._base = {
            "verbosity": -1, "num_threads": question.threads, "seed": question.seed, "deterministic": True,
            "force_row_wise": True, "feature_pre_filter": False, "metric": "None",
        }  # fmt: skip

    @functools.cached_property
    def _sets(self) -> tuple[lightgbm.Dataset, lightgbm.Dataset]:
        """The training and the validation set, binned once; labels and weights are put in for each fit."""
        part = self.part
        common: dict[str, Any] = {"categorical_feature": list(part.rows.categorical), "params": self._base}
        train = lightgbm.Dataset(part.matrix("train"), np.zeros(len(part.split.train)), **common)
        valid = lightgbm.Dataset(part.matrix("valid"), np.zeros(len(part.split.valid)), reference=train, **common)
        return train.construct(), valid.construct()

    @functools.cached_property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray]:
        return self.part.matrix("valid"), self.part.matrix("test")

    def _params(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._base, **complexity(setting)}

    def _own(self, recipe: Recipe, setting: Mapping[str, Any]) -> dict[str, Any]:
        return objective_params(recipe, setting)

    def _selective(self, params: dict[str, Any], setting: Mapping[str, Any]) -> Outcome:
        scores, weights = self.part.scores("train") - self.part.offset, self.part.training_weights(setting)
        objective = boosting.lightgbm(self.part.centred_loss)
        self._fill(scores, weights)
        merged = {**params, **objective.params(scores, weights)}
        (start,) = objective.start_scores(1)
        return self._trained(merged, lambda raw: raw + start + self.part.offset)

    def _fill(self, labels: np.ndarray, weights: np.ndarray | None) -> None:
        train, _ = self._sets
        train.set_label(labels)
        train.set_weight(None)
        train.set_field("weight", None)  # what set_weight leaves alone: those of the fit before
        if weights is not None:
            train.set_weight(weights)

    def _trained(self, params: dict[str, Any], scores: Callable[[np.ndarray], np.ndarray]) -> Outcome:
        def watched(raw: np.ndarray, _: lightgbm.Dataset) -> tuple[str, float, bool]:
            return "selective_loss", self.part.criterion(scores(raw)), False

        train, valid = self._sets
        booster = lightgbm.train(
            params, train, self.part.question.rounds, valid_sets=[valid], feval=watched,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )  # fmt: skip
        rounds = _rounds(booster)
        valid_scores, test = (scores(_raw(booster, matrix, rounds)) for matrix in self._matrices)
        return outcome(self.part, valid_scores, test, rounds)

    def _lambdarank(self, params: dict[str, Any], recipe: Recipe, setting: Mapping[str, Any]) -> Outcome:
        part = self.part
        common: dict[str, Any] = {"categorical_feature": list(part.rows.categorical), "params": self._base}
        train, valid = (
            lightgbm.Dataset(part.matrix(name), part.rows.target[getattr(part.split, name)], group=part.sizes(name),
                             weight=part.weights(name), **common)
            for name in ("train", "valid")
        )  # fmt: skip
        valid.reference = train
        merged = {**params, **objective_params(recipe, setting), "metric": "ndcg", "eval_at": [10]}
        booster = lightgbm.train(
            merged, train, part.question.rounds, valid_sets=[valid],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )  # fmt: skip
        rounds = _rounds(booster)
        valid_scores, test = (_raw(booster, matrix, rounds) for matrix in self._matrices)
        (best,) = booster.best_score["valid_0"].values()
        return Outcome(test, valid_scores, 1.0 - float(best), rounds)


def _rounds(booster: lightgbm.Booster) -> int:
    # trees that find nothing more to split end training without a best round
    return booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()


def _raw(booster: lightgbm.Booster, matrix: np.ndarray, rounds: int) -> np.ndarray:
    return np.asarray(booster.predict(matrix, raw_score=True, num_iteration=rounds), dtype=np.float64)
