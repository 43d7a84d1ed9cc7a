"""One split with all that a model needs to train on it, and the models by name."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from selmatch.boosting.rows import Start, ends
from selmatch.comparison.contenders import Recipe
from selmatch.comparison.journal import Outcome
from selmatch.comparison.question import Question
from selmatch.comparison.reading import WHO
from selmatch.comparison.result import Region
from selmatch.comparison.scales import Labels
from selmatch.comparison.splits import Split
from selmatch.comparison.tables import Rows
from selmatch.design import focus
from selmatch.losses import MatchingLoss
from selmatch.ranking import Sizes
from selmatch.scales import UNCHANGED

#: rounds without a better validation loss after which a booster stops
PATIENCE = 30

#: where each model lives, the package that it needs, and how people write that
_MODELS = {
    "lightgbm": ("selmatch.comparison.with_lightgbm", "lightgbm", "LightGBM"),
    "xgboost": ("selmatch.comparison.with_xgboost", "xgboost", "XGBoost"),
    "linear": ("selmatch.comparison.with_linear", "sklearn", "scikit-learn"),
}


@dataclass(frozen=True, eq=False)
class Part:
    """One split of the rows, and what is asked about them.

    Attributes
    ----------
    rows, split : Rows and Split
        The data; parts are "train", "valid" and "test".
    loss : MatchingLoss
        The selective loss.
    region : Region
        Where accuracy matters.
    question : Question
        Rounds, seed, threads.
    """

    rows: Rows
    split: Split
    loss: MatchingLoss
    region: Region
    question: Question

    def matrix(self, part: str) -> np.ndarray:
        """Features of a part."""
        return self.rows.matrix[getattr(self.split, part)]

    def scores(self, part: str) -> np.ndarray:
        """Observed scores of a part."""
        return self.rows.scores[getattr(self.split, part)]

    def weights(self, part: str) -> np.ndarray | None:
        """Weights of the rows of a part, if there are any."""
        return None if self.rows.weights is None else self.rows.weights[getattr(self.split, part)]

    def training_weights(self, setting: Mapping[str, Any]) -> np.ndarray | None:
        """Weights to train with, of mean 1: those of the rows, times that of the region where it is set."""
        given = self.weights("train")
        if "weight" in setting:
            own = np.where(self.region.holds(self.scores("train")), setting["weight"], 1.0)
            given = own if given is None else own * given
        return None if given is None else given / given.mean()

    @functools.cached_property
    def bounds(self) -> tuple[Any, Any] | None:
        """Ends between which predictions are taken, for a link that ends somewhere."""
        best = float(self.loss.minimiser(self.scores("train"), self.weights("train")))
        return ends(self.loss, Start(best, 1.0))

    def inside(self, scores: np.ndarray) -> np.ndarray:
        """Predictions, moved into the domain of the link."""
        scores = np.asarray(scores, dtype=np.float64)
        return scores if self.bounds is None else np.clip(scores, *self.bounds)

    @functools.cached_property
    def offset(self) -> float:
        """What to subtract from scores that lie so far from 0 that boosters, in single precision, would blur them."""
        return offset_of(self.scores("train"))

    @functools.cached_property
    def centred_loss(self) -> MatchingLoss:
        """The selective loss of scores without the offset."""
        return MatchingLoss(self.loss.potential.affine(beta=-self.offset)) if self.offset else self.loss

    @functools.cached_property
    def _validation(self) -> tuple[np.ndarray, np.ndarray | None]:
        return self.scores("valid"), self.weights("valid")

    def criterion(self, predicted: np.ndarray) -> float:
        """The selective loss of the validation rows, which decides over rounds and settings."""
        observed, weights = self._validation
        with np.errstate(all="ignore"):
            value = float(self.loss(self.inside(predicted), observed, weights=weights))
        return value if np.isfinite(value) else np.inf

    def labels(self, recipe: Recipe) -> Labels:
        """What a contender learns in place of the scores of this split."""
        return Labels.of(recipe.labels, self.scores("train"))

    def sizes(self, part: str) -> np.ndarray:
        """How long the lists of a part are, one behind the other."""
        groups = np.asarray(self.rows.group)[getattr(self.split, part)]
        return np.diff(np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1], [True]])))

    def list_weights(self, part: str) -> np.ndarray | None:
        """Weights of the lists of a part: the mean of those of their rows."""
        weights, sizes = self.weights(part), self.sizes(part)
        return None if weights is None else np.add.reduceat(weights, np.cumsum(sizes) - sizes) / sizes

    @functools.cached_property
    def list_scores(self) -> Labels:
        """Scores of standard size, which a composite Softmax needs."""
        scores = self.rows.scores
        spread = float(scores.std())
        return Labels(UNCHANGED, float(scores.mean()), spread, float(scores.min()), float(scores.max()))

    @functools.cached_property
    def list_loss(self) -> MatchingLoss:
        """The wish as a loss of whole lists, in scores of standard size; designed on all rows, as the other one is."""
        wish, group = self.question.wish, np.asarray(self.rows.group)
        order = np.argsort(group, kind="stable")
        scores = self.list_scores(self.rows.scores)[order]
        options = {name: wish[name] for name in ("top", "strength") if name in wish}
        return focus(wish["word"], data=scores, of="lists", segments=Sizes(np.bincount(group)), **options)


#: the distance from 0, in units of the spread, from which on single precision blurs scores
_FAR = 1e4


def offset_of(scores: np.ndarray) -> float:
    """The centre of scores that lie far from 0, else 0."""
    labels = Labels.of(UNCHANGED, scores)
    return labels.centre if abs(labels.centre) > _FAR * labels.spread else 0.0


class Trainer(Protocol):
    """A model on one split, ready to train with any contender's loss."""

    def fit(self, recipe: Recipe, setting: Mapping[str, Any]) -> Outcome:
        """Train with a setting, and predict."""
        ...


def packages(model: str) -> tuple[str, ...]:
    """The package that trains a model, as it is installed."""
    package = _MODELS[model][1]
    return (package if package != "sklearn" else "scikit-learn",)


def home_of(model: str) -> Any:
    """The module that trains a model, which needs a package."""
    home, package, title = _MODELS[model]
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f'selmatch.{WHO} needs {title}. Install it with: pip install "selmatch[compare]".') from error
    return importlib.import_module(home)


def trainer(part: Part) -> Trainer:
    """The model that the question names, on one split."""
    return home_of(part.question.model).Trainer(part)


def outcome(part: Part, valid: np.ndarray, test: np.ndarray, rounds: int) -> Outcome:
    """What a fit left, with predictions where the link is defined, judged by the selective loss."""
    valid, test = part.inside(valid), part.inside(test)
    return Outcome(test, valid, part.criterion(valid), rounds)
