"""How a comparison was done, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from selmatch.comparison.measures import INTERVALS
from selmatch.comparison.question import Question
from selmatch.comparison.result import Comparison, Contender
from selmatch.report import units
from selmatch.words import readable

MODELS = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "linear": "a linear model"}


def sentences(comparison: Comparison) -> tuple[str, ...]:
    """What was done, step by step."""
    question, data = comparison.question, comparison.data
    model = MODELS.get(question.model, question.model)
    features, settings = _counted(len(data.features), "feature"), _counted(question.settings, "setting")
    boosted = "" if question.model == "linear" else f" It may grow {question.rounds:,} rounds and stops early."
    return (
        f"{data.used:,} of {data.rows:,} rows were used, with {features}. A score is {units.score(comparison)}.",
        _split(question),
        f"Every loss trains the same model, {model}, on the same rows, and tries {settings} in each split: an equal "
        f"budget.{boosted} What counts on the validation rows is the cost, for all of them; the setting that is best "
        "there is tested. The settings are few and fixed: with others, a close verdict may be another.",
        "Region and selective loss come from the scores of all rows used, the tested ones included: one yardstick, the "
        "same for all.",
        "The control is not trained: it adds one constant to the predictions of squared error, to show which measures "
        "that alone can win.",
        f"{INTERVALS} There are {question.resamples:,} resamples.",
    )


@dataclass(frozen=True)
class Settings:
    """What won on the validation rows: for each contender a line for each split, and what is the same everywhere."""

    lines: tuple[tuple[Contender, tuple[str, ...]], ...]
    common: str


def settings(comparison: Comparison) -> Settings:
    """The settings of all trained contenders."""
    trained = [contender for contender in comparison.contenders if contender.chosen]
    told = [set(_told(one)) for contender in trained for one in contender.chosen]
    common = set.intersection(*told) if told else set()
    lines = tuple(
        (contender, tuple(_joined(word for word in _told(one) if word not in common) for one in contender.chosen))
        for contender in trained
    )
    everywhere = _joined(word for word in _told(trained[0].chosen[0]) if word in common) if trained else ""
    return Settings(lines, everywhere)


def _told(chosen: Mapping[str, Any]) -> list[str]:
    return [f"{name} {_written(value)}" for name, value in chosen.items()]


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _split(question: Question) -> str:
    splits = _counted(question.splits, "split")
    if question.split is not None:
        return f"The column {question.split} says which rows train, validate and test."
    if question.time is not None:
        return (
            f"Rows are ordered by {question.time}. Each of {splits} trains on the past, validates on what comes next "
            "and tests on what comes after that."
        )
    unit = question.cluster or question.group
    whole = f" Rows with the same {unit} stay together." if unit is not None else ""
    once = "each row is tested once, by a model that has not seen it; another part of the rows validates."
    return f"{splits}: {once}{whole}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _written(value: Any) -> str:
    return readable(value, 6) if isinstance(value, float) else str(value)
