"""What boosters share: which fit a contender needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from selmatch.comparison.contenders import Recipe
from selmatch.comparison.fitting import Part
from selmatch.comparison.journal import Outcome
from selmatch.comparison.with_lists import fit_listwise


class BoosterTrainer:
    """A booster on one split.

    Parameters
    ----------
    part : Part
        The split.
    """

    def __init__(self, part: Part) -> None:
        self.part = part

    def fit(self, recipe: Recipe, setting: Mapping[str, Any]) -> Outcome:
        """Train with a setting, and predict."""
        params = self._params(setting)
        if recipe.objective == "selective":
            return self._selective(params, setting)
        if recipe.objective == "lambdarank":
            return self._lambdarank(params, recipe, setting)
        if recipe.objective == "listwise":
            return fit_listwise(self.part, params)
        labels = self.part.labels(recipe)
        self._fill(labels(self.part.scores("train")), self.part.training_weights(setting))
        return self._trained({**params, **self._own(recipe, setting)}, labels.scores)

    def _params(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of the library, without an objective."""
        raise NotImplementedError

    def _own(self, recipe: Recipe, setting: Mapping[str, Any]) -> dict[str, Any]:
        """The library's own objective, watched by the selective loss."""
        raise NotImplementedError

    def _fill(self, labels: np.ndarray, weights: np.ndarray | None) -> None:
        """Put labels and weights into the training set."""
        raise NotImplementedError

    def _trained(self, params: dict[str, Any], scores: Callable[[np.ndarray], np.ndarray]) -> Outcome:
        """Train until the selective loss of the validation rows stands still."""
        raise NotImplementedError

    def _selective(self, params: dict[str, Any], setting: Mapping[str, Any]) -> Outcome:
        """With the selective loss as objective."""
        raise NotImplementedError

    def _lambdarank(self, params: dict[str, Any], recipe: Recipe, setting: Mapping[str, Any]) -> Outcome:
        """With the library's own loss and metric for lists, which need data sets with lists."""
        raise NotImplementedError
