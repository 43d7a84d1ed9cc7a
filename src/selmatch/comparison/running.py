"""The run itself: every contender in every setting on every split, each fit once, and what came of it."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch import spec
from selmatch.comparison import fitting
from selmatch.comparison.contenders import Recipe, control, recipes_of
from selmatch.comparison.journal import Journal, Outcome, digest, fingerprint, home
from selmatch.comparison.question import Question
from selmatch.comparison.result import CONTROL, Contender, Region, Tested
from selmatch.comparison.splits import Split, splits_of
from selmatch.comparison.tables import Rows
from selmatch.losses import MatchingLoss

_log = logging.getLogger("selmatch.comparison")

Progress = Callable[[int, int, str], Any]

#: parts of a question that no fit depends on, or only by the region
_NOT_ASKED_OF_FITS = ("losses", "settings", "resamples", "top", "share")


@dataclass(frozen=True, eq=False)
class Run:
    """All fits of a comparison, in the order in which they are made.

    Attributes
    ----------
    rows, question : Rows and Question
        What is asked, of what.
    loss, region : MatchingLoss and Region
        The aim.
    folder : path or None
        Where finished fits are kept.
    progress : callable or None
        Called as ``progress(done, total, words)`` after each fit.
    """

    rows: Rows
    question: Question
    loss: MatchingLoss
    region: Region
    folder: str | os.PathLike[str] | None = None
    progress: Progress | None = None

    @functools.cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        return recipes_of(self.rows, self.question, self.region.pieces)

    @functools.cached_property
    def splits(self) -> tuple[Split, ...]:
        return splits_of(self.rows, self.question)

    @functools.cached_property
    def journal(self) -> Journal:
        asked = {k: v for k, v in dataclasses.asdict(self.question).items() if k not in _NOT_ASKED_OF_FITS}
        if self.question.cluster is None:  # as before there were clusters, so that fits of then are found
            del asked["cluster"]
        aim = [spec.dumps(self.loss, "json"), self.region.pieces]
        name = fingerprint(self.rows.fingerprint(), {**asked, "aim": aim}, fitting.packages(self.question.model))
        return Journal(None if self.folder is None else home(self.folder, name), name)

    def settings(self, recipe: Recipe) -> tuple[dict[str, Any], ...]:
        """The settings of a contender: the same number for each."""
        return recipe.settings(self.question.model, self.question.settings, len(self.rows))

    def result(self) -> tuple[Tested, tuple[Contender, ...]]:
        """Make all fits that are not in the journal, and choose among the settings by the validation rows."""
        best = [self._split(number) for number in range(len(self.splits))]
        contenders = [self._contender(recipe, [found[recipe.name] for found in best]) for recipe in self.recipes]
        predicted = {
            recipe.name: np.concatenate([found[recipe.name][1].test for found in best]) for recipe in self.recipes
        }
        if "squared" in predicted:
            squared = [found["squared"][1] for found in best]
            predicted[CONTROL] = np.concatenate(list(map(self._shifted, self.splits, squared)))
            contenders.append(control())
        rows = np.concatenate([split.test for split in self.splits])
        tested = Tested(
            observed=self.rows.scores[rows],
            predicted=predicted,
            split=np.repeat(np.arange(len(self.splits)), [len(split.test) for split in self.splits]),
            rows=self.rows.places[rows],
            group=None if self.rows.group is None else self.rows.group[rows],
            weights=None if self.rows.weights is None else self.rows.weights[rows],
            cluster=None if self.rows.cluster is None else self.rows.cluster[rows],
        )
        return tested, tuple(contenders)

    def _split(self, number: int) -> dict[str, tuple[dict[str, Any], Outcome]]:
        """The best setting of each contender on one split."""
        split = self.splits[number]
        part = fitting.Part(self.rows, split, self.loss, self.region, self.question)
        trainer: fitting.Trainer | None = None
        best: dict[str, tuple[dict[str, Any], Outcome]] = {}
        done, count = number * len(self.recipes) * self.question.settings, self.question.settings
        total = len(self.splits) * len(self.recipes) * count
        for recipe in self.recipes:
            for i, setting in enumerate(self.settings(recipe)):
                name = f"{recipe.name}-{digest(setting)}-split{number}"
                found = self.journal.read(name, len(split.test), len(split.valid))
                if found is None:
                    trainer = trainer or fitting.trainer(part)
                    found = trainer.fit(recipe, setting)
                    self.journal.write(name, found)
                    _log.info("compare: %s, %s: %.6g after %d rounds", name, setting, found.criterion, found.rounds)
                if recipe.name not in best or found.criterion < best[recipe.name][1].criterion:
                    best[recipe.name] = setting, found
                done += 1
                if self.progress is not None:
                    words = f"{recipe.title}, setting {i + 1} of {count}, split {number + 1} of {len(self.splits)}"
                    self.progress(done, total, words)
        return best

    def _contender(self, recipe: Recipe, best: list[tuple[dict[str, Any], Outcome]]) -> Contender:
        chosen = tuple({**setting, "rounds": found.rounds} if found.rounds else setting for setting, found in best)
        return recipe.contender(chosen, tuple(found.criterion for _, found in best))

    def _shifted(self, split: Split, squared: Outcome) -> np.ndarray:
        """Predictions of squared error, plus what is best for validation rows whose observation is in the region."""
        observed = self.rows.scores[split.valid]
        inside = self.region.holds(observed)
        if not inside.any():
            return squared.test
        missing = observed[inside] - squared.valid[inside]
        if self.rows.weights is None:
            return squared.test + np.median(missing)
        weights = self.rows.weights[split.valid][inside]
        return squared.test + np.quantile(missing, 0.5, method="inverted_cdf", weights=weights)
