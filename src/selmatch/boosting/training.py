"""What the adapters of XGBoost and LightGBM share: both call Python once a round, with all scores at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from selmatch.boosting import native
from selmatch.boosting.objective import METRIC, Objective
from selmatch.boosting.rows import Rows, Start

#: how many data sets an objective keeps ready: the training set and a few for validation
_MOST = 4


@dataclass
class Model:
    """A trained booster, whose predictions are scores.

    Attributes
    ----------
    objective : Objective
        With the start value and the scale of this training.
    booster : object
        The library's own.
    best_iteration : int or None
        The best round, counted from 0; None without early stopping.
    history : dict
        The metric of the validation set after each round, by its name. On the native route this is the booster's own
        metric, which falls when the matching loss falls.
    """

    objective: RoundObjective
    booster: Any
    best_iteration: int | None = None
    history: Mapping[str, list[float]] = field(default_factory=dict, repr=False)

    def predict(self, X: Any) -> np.ndarray:
        """Scores of rows: with the start value, after the best round."""
        rounds = None if self.best_iteration is None else self.best_iteration + 1
        return self.objective.predict(self.booster, X, rounds=rounds)


class Table(NamedTuple):
    """What a booster's data set holds, as it holds it."""

    labels: Any
    weights: Any = None
    groups: Any = None

    def same(self, other: Table) -> bool:
        """Whether these are the same numbers."""
        return all(_same(mine, theirs) for mine, theirs in zip(self, other, strict=True))


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return one is not None and other is not None and one.shape == other.shape and np.array_equal(one, other)


@dataclass
class Seen:
    """A data set in use: its table, the rows made of it, and whether a round has run on them."""

    table: Table
    rows: Rows
    fresh: bool = True


class Metric:
    """The mean matching loss, in the form in which a booster asks for it."""

    #: XGBoost's estimators report a metric by this name
    __name__ = METRIC

    def __init__(self, objective: RoundObjective) -> None:
        self.objective = objective


class RoundObjective(Objective):
    """An objective that is called once a round, with all scores at once."""

    def __init__(self, loss: Any, **options: Any) -> None:
        super().__init__(loss, **options)
        self._seen: list[Seen] = []

    def __getstate__(self) -> dict[str, Any]:
        # copies travel to workers and into folds, where other rows wait
        return {**self.__dict__, "_seen": []}

    def seen(self, table: Table, rows: Rows | None = None) -> Seen:
        """A data set, recognised by its numbers: boosters hand over a new array each round, users change labels."""
        for known in self._seen:
            if known.table.same(table):
                return known
        found = Seen(table, self.rows(*table) if rows is None else rows)
        self._seen = [found, *self._seen[: _MOST - 1]]
        return found

    @property
    def native(self) -> native.Native | None:
        """How the booster's own objective trains this loss, if it does."""
        return native.of(self.booster, self.loss) if self.route == "native" else None

    def predict(self, booster: Any, X: Any, *, rounds: int | None = None) -> np.ndarray:
        """Scores from a booster that this objective has trained."""
        raise NotImplementedError

    def _given(self, params: Mapping[str, Any] | None, *settled: str) -> dict[str, Any]:
        """The user's parameters, among which nothing is that the objective settles."""
        given = dict(params or {})
        for name in settled:
            if name in given:
                raise ValueError(
                    f"{self._who}: params must not hold {name!r}, got {given[name]!r}. The objective settles it."
                )
        return given

    def _derivatives(
        self, rows: Rows, scores: np.ndarray, start: Start, out: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):  # what is not finite is named here
            gradient, curvature = rows.gradient_and_curvature(scores, start.scale, self.curvature, out)
        if not (np.isfinite(np.sum(gradient)) and np.isfinite(np.sum(curvature))):
            raise self._outside(scores)
        return np.ascontiguousarray(gradient, np.float32), np.ascontiguousarray(curvature, np.float32)

    def _outside(self, scores: Any) -> ValueError:
        domain = getattr(self.loss.potential, "domain", None)
        return ValueError(
            f"{self._who}: scores must stay in {domain}, where the link {self.loss.potential!r} is finite, got "
            f"scores from {np.min(scores):g} to {np.max(scores):g}. Cap the link, or lower the learning rate."
        )

    def _validation_rows(self, validation: Any, early_stopping: int | None) -> tuple[Any, Rows] | None:
        """Rows to validate on, checked like those to train on."""
        if validation is None:
            if early_stopping is not None:
                raise ValueError(
                    f"{self._who}: validation must be given for early_stopping={early_stopping}, got None. "
                    "Give (X, y), (X, y, weights) or (X, y, weights, groups)."
                )
            return None
        if not isinstance(validation, (tuple, list)) or not 2 <= len(validation) <= 4:
            raise ValueError(
                f"{self._who}: validation must be (X, y), (X, y, weights) or (X, y, weights, groups), got "
                f"{type(validation).__name__}."
            )
        return validation[0], self.rows(*validation[1:])
