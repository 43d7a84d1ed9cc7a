"""Who competes: each contender with its own loss, and the same number of settings for all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.comparison.question import Question
from selmatch.comparison.reading import WHO, listed
from selmatch.comparison.result import CONTROL, SELECTIVE, Contender
from selmatch.comparison.scales import log_scale
from selmatch.comparison.tables import Rows
from selmatch.scales import UNCHANGED, Scale
from selmatch.words import remedy

#: what every contender's settings are compared by, unless its scores have no unit
_CRITERION = "Rounds and settings are chosen by the selective loss of the validation rows, as for all contenders."
_DESIGNED = (
    "The loss designed for this question, on the scores of all rows used, the tested ones included, so that all "
    "contenders are measured by one fixed loss."
)
_GIVEN = "The loss that was given."

#: how far a model may go: the first four are coarse, the next lie between them. Leaves may be small or large for each
#: contender: where a tail decides, a fixed size decides who wins
_LEAVES = (15, 31, 63, 7, 23, 47, 95, 11)
_RATES = (0.1, 0.06, 0.06, 0.1, 0.08, 0.06, 0.06, 0.1)
_SMALLEST = (20, 5, 20, 5, 10, 10, 5, 20)
_PENALTIES = (1e-3, 1e-2, 1e-4, 1e-1, 3e-3, 3e-2, 3e-4, 3e-1)
#: parameters of losses: the mild ones, which are nearest to squared error, meet the small leaves
_WEIGHTS = (4.0, 2.0, 16.0, 8.0, 6.0, 12.0, 3.0, 24.0)
_DELTAS = (1.0, 4.0, 0.5, 2.0, 1.5, 3.0, 6.0, 0.7)
_HIGH_LEVELS = (0.6, 0.5, 0.9, 0.75, 0.67, 0.82, 0.55, 0.95)
_MIDDLE_LEVELS = (0.6, 0.5, 0.4, 0.7, 0.55, 0.45, 0.65, 0.35)

#: labels that gains of lambdarank are defined for, and the longest list that LightGBM takes
_MOST_RELEVANT, _LONGEST = 30, 10_000


@dataclass(frozen=True)
class Recipe:
    """How a contender trains.

    Attributes
    ----------
    name, title, words : str
        As for :class:`Contender`.
    objective : {"selective", "squared", "huber", "quantile", "lambdarank", "listwise"}
        What the model minimises.
    labels : Scale
        From scores to what is learnt.
    parameter, values : str and tuple of float
        What the loss has to tune, and values for it: "weight" of the region, "delta" in units of the spread, "level".
    ordinal : bool
        Whether its scores have an order only, and no unit.
    """

    name: str
    title: str
    words: str
    objective: str
    labels: Scale = UNCHANGED
    parameter: str | None = None
    values: tuple[float, ...] = ()
    ordinal: bool = False

    def settings(self, model: str, count: int, rows: int) -> tuple[dict[str, Any], ...]:
        """So many different settings: each pairs a complexity of the model with a value of the loss's parameter."""
        made = []
        for i in range(count):
            turn, place = divmod(i, len(_LEAVES))
            setting = _complexity(model, place, turn, rows)
            if self.parameter is not None:  # in later turns other pairs
                setting[self.parameter] = self.values[(place + turn) % len(self.values)]
            made.append(setting)
        return tuple(made)

    def contender(self, chosen: tuple[Mapping[str, Any], ...] = (), valid: tuple[float, ...] = ()) -> Contender:
        """The record that readers see."""
        return Contender(self.name, self.title, self.words, chosen=chosen, valid=valid, ordinal=self.ordinal)


#: parameters of losses, which the model knows nothing of
_OF_LOSSES = ("weight", "delta", "level")


def complexity(setting: Mapping[str, Any]) -> dict[str, Any]:
    """What a setting says about the model, by the names of its library."""
    return {name: value for name, value in setting.items() if name not in _OF_LOSSES}


def _complexity(model: str, place: int, turn: int, rows: int) -> dict[str, Any]:
    if model == "linear":
        return {"alpha": _PENALTIES[place] * 2.0**-turn}
    rate = round(_RATES[place] * 0.7**turn, 4)
    few = max(1, min(_SMALLEST[place], rows // 40))  # where there are few rows, leaves must be small to exist
    if model == "xgboost":
        return {"max_leaves": _LEAVES[place], "learning_rate": rate, "min_child_weight": float(few)}
    return {"num_leaves": _LEAVES[place], "learning_rate": rate, "min_child_samples": few}


def control() -> Contender:
    """The contender that shows how one measure can be cheated."""
    return Contender(
        CONTROL,
        "squared error + constant",
        "A control, not a proposal: the predictions of squared error plus the constant that makes the error smallest "
        "on the validation rows whose observation is in the region. Where it looks good, the measure can be cheated.",
        trained=False,
    )


def recipes_of(rows: Rows, question: Question, pieces: tuple[tuple[float, float], ...]) -> tuple[Recipe, ...]:
    """The contenders that fit the data, the selective one first, and of them those that were asked for.

    Parameters
    ----------
    rows : Rows
        The data, whose targets decide which contenders make sense.
    question : Question
        The model, and the names of the contenders; all without names.
    pieces : tuple of (low, high)
        Where accuracy matters.
    """
    regressions = _regressions(rows, pieces, designed=bool(question.wish))
    made = {recipe.name: recipe for recipe in (*regressions, *_rankings(rows, question))}
    if not question.losses:
        return tuple(made.values())
    known = (*NAMES, *(name for name in made if name not in NAMES))
    for name in question.losses:
        if name not in known:
            raise ValueError(f"{WHO}: losses must be among {listed(known, 20)}, got {name!r}. {remedy(name, known)}")
        if name not in made:
            raise ValueError(f"{WHO}: losses must fit the data, got {name!r}, which needs {_NEEDS[name]}.")
    return tuple(recipe for name, recipe in made.items() if name == SELECTIVE or name in question.losses)


#: all names, and what the data must have for those that do not always fit
_NEEDS = {
    "log_target": "a target >= 0 on scale='target'",
    "raw_target": "scale='log'",
    "lambdarank": "a group column, a booster, and whole numbers from 0 to 30 as target",
    "listwise": "a group column, a booster, and a focus word",
}
NAMES = (SELECTIVE, "squared", "reweighted", "huber", "quantile", *_NEEDS)


def _regressions(rows: Rows, pieces: tuple[tuple[float, float], ...], designed: bool) -> list[Recipe]:
    made = [
        Recipe(SELECTIVE, "selective loss", f"{_DESIGNED if designed else _GIVEN} {_CRITERION}", "selective"),
        Recipe("squared", "squared error", f"The usual loss: the mean of the squared errors. {_CRITERION}", "squared"),
        Recipe(
            "reweighted", "re-weighted squared error",
            f"Squared error in which rows of the region count more; by how much is tuned. {_CRITERION}",
            "squared", parameter="weight", values=_WEIGHTS,
        ),
        Recipe(
            "huber", "Huber loss",
            f"Squared for small errors, absolute for large ones; where the one ends is tuned. {_CRITERION}",
            "huber", parameter="delta", values=_DELTAS,
        ),
        Recipe(
            "quantile", "quantile loss",
            f"Predicts a quantile in place of the mean; which one is tuned. {_CRITERION}",
            "quantile", parameter="level", values=_levels(pieces),
        ),
    ]  # fmt: skip
    if rows.scale.name != "identity":
        raw = f"Squared error on the target itself, its predictions mapped to the log scale. {_CRITERION}"
        made.append(Recipe("raw_target", "squared error, raw target", raw, "squared", labels=rows.scale.undone))
    elif (scale := log_scale(rows.target)) is not None:
        words = f"Squared error on the logarithm of the target, its predictions mapped back. {_CRITERION}"
        made.append(Recipe("log_target", "squared error, log target", words, "squared", labels=scale))
    return made


def _levels(pieces: tuple[tuple[float, float], ...]) -> tuple[float, ...]:
    """Quantiles towards the region."""
    open_low, open_high = math.isinf(pieces[0][0]), math.isinf(pieces[-1][1])
    if open_low == open_high:
        return _MIDDLE_LEVELS
    return _HIGH_LEVELS if open_high else tuple(round(1.0 - level, 4) for level in _HIGH_LEVELS)


def _rankings(rows: Rows, question: Question) -> list[Recipe]:
    """Losses of whole lists, whose scores have an order and no unit."""
    if rows.group is None or question.model == "linear" or np.bincount(rows.group).max() < 2:
        return []
    made = []
    order = "Its scores have an order and no unit, so only measures of order apply."
    whole = bool(np.all(rows.target == np.floor(rows.target)))
    if whole and 0.0 <= rows.target.min() and rows.target.max() <= _MOST_RELEVANT:
        if np.bincount(rows.group).max() <= _LONGEST:
            words = (
                f"The usual loss for lists. {order} Rounds and settings are chosen by the NDCG of the validation rows."
            )
            made.append(Recipe("lambdarank", "LambdaRank", words, "lambdarank", ordinal=True))
    if question.wish.get("word") is not None:
        words = (
            f"The selective loss of whole lists, a composite Softmax. {order} Rounds and settings are chosen by the "
            "same loss of the validation rows."
        )
        made.append(Recipe("listwise", "selective loss of lists", words, "listwise", ordinal=True))
    return made


def most_frequent(chosen: tuple[Mapping[str, Any], ...]) -> tuple[dict[str, Any], int]:
    """The setting that won most often, the earliest among equals, and the median of its rounds."""
    settings = [{name: value for name, value in one.items() if name != "rounds"} for one in chosen]
    counts = [settings.count(setting) for setting in settings]
    winner = settings[int(np.argmax(counts))]
    rounds = [one.get("rounds", 0) for one in itertools.compress(chosen, (setting == winner for setting in settings))]
    return winner, int(np.median(rounds))
