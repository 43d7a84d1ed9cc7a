"""What the adapters of all libraries share: the data sets they have seen, how they train, what comes of it."""

from __future__ import annotations

import logging
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from selmatch.boosting import native
from selmatch.boosting.frames import NO_COLUMNS, Columns
from selmatch.boosting.objective import METRIC, Objective
from selmatch.boosting.rows import Rows, Start
from selmatch.words import nearest

_log = logging.getLogger("selmatch.boosting")

#: how many data sets an objective keeps ready: the training set and a few for validation
_MOST = 4
#: start values that differ by less than this share of the range of the labels differ by rounding of the labels
_SAME_START = 1e-5


@dataclass
class Model:
    """A trained booster, whose predictions are scores.

    Attributes
    ----------
    objective : Objective
        With the start value and the scale of this training.
    booster : object
        The library's own; ``objective.predict(booster, X)`` gives the scores of :meth:`predict`.
    best_iteration : int or None
        The best round, counted from 0; None without early stopping.
    history : dict
        The metric of the validation set after each round, by its name. On the native route this is the booster's own
        metric, which falls when the matching loss falls.
    """

    objective: LibraryObjective
    booster: Any
    best_iteration: int | None = None
    history: Mapping[str, list[float]] = field(default_factory=dict, repr=False)
    _columns: Columns = field(default=NO_COLUMNS, repr=False)

    def predict(self, X: Any) -> np.ndarray:
        """Scores of rows: with the start value, after the best round.

        Columns of a data frame, and categories in it, are those of training by name. Categories that were not known in
        training count as missing, with a warning.
        """
        rounds = None if self.best_iteration is None else self.best_iteration + 1
        X = self._columns.align(self.objective._who, X)
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

    def __init__(self, objective: LibraryObjective) -> None:
        self.objective = objective


class Plan(NamedTuple):
    """What a library needs to know for a training, checked."""

    X: Any
    rows: Rows
    params: dict[str, Any]
    rounds: int
    validation: tuple[Any, Rows] | None
    early_stopping: int | None


class LibraryObjective(Objective):
    """An objective that trains with a library."""

    #: parameters that the objective or the arguments of ``fit`` settle, by all their names
    settled: tuple[str, ...] = ()
    #: whether the library takes rows of labels
    many_targets = True
    #: what the library's data set is called in advice
    data_set = "dataset"

    def __init__(
        self, loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
    ) -> None:
        super().__init__(loss, curvature=curvature, route=route, ranking=ranking)
        self._seen: list[Seen] = []
        #: from which labels the start value comes, and whether their weights differed; None if not known
        self._source: bytes | None = None
        self._source_weighted: bool | None = None

    def __getstate__(self) -> dict[str, Any]:
        # copies travel to workers and into folds, where other rows wait
        return {**self.__dict__, "_seen": []}

    # -------------------------------------------------------------------------------------------------------- data sets

    def rows(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """A data set, checked and with its links cached."""
        found = super().rows(labels, weights, groups)
        if found.labels.ndim > 1 and not self.many_targets:
            raise ValueError(
                f"{self._who}: the labels must be one for each row, got shape {found.labels.shape}: {self.library} "
                "holds no rows of labels. Use XGBoost, or train one model for each target."
            )
        return found

    def prepare(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """See the training labels: find the start value and the scale, and say in the log which route runs."""
        self._seen = []  # their bounds are those of another start
        rows = super().prepare(labels, weights, groups)
        self._source, self._source_weighted = rows.fingerprint, rows.weighted
        return rows

    def seen(self, table: Table, rows: Rows | None = None) -> Seen:
        """A data set, recognised by its numbers: boosters hand over a new array each round, users change labels."""
        for known in self._seen:
            if known.table.same(table):
                return known
        found = Seen(table, self.rows(*table) if rows is None else rows)
        self._seen = [found, *self._seen[: _MOST - 1]]
        return found

    def _require_alone(self, *columns: Any) -> None:
        """Columns given beside a data set would not count: training uses those that it holds."""
        if any(column is not None for column in columns):
            raise ValueError(
                f"{self._who}: weights and groups must be None beside a {self.data_set}, which trains with its own, "
                f"got arrays. Put them into the {self.data_set}."
            )

    def _require_weights(self, rows: Rows) -> None:
        """Weights of a data set, of which ``params(y)`` knew nothing, show in the first round: they move the start."""
        # other labels are a part, or those before were a sample: then only weights that were not given are an error
        if self._source == rows.fingerprint or (self._source_weighted is False and rows.weighted):
            expected, start = rows.start_score, np.asarray(self._ready("Call params(...).").score)
            labels = rows.labels
            rounding = _SAME_START * np.ptp(labels, axis=0) + 1e-6 * np.max(np.abs(labels), axis=0)
            if np.any(np.abs(expected - start) > rounding):
                raise self._other_weights(f"{np.round(expected, 6)}, ")

    def _other_weights(self, expected: str = "") -> ValueError:
        start = self._ready("Call params(...).").score
        known = "other weights" if self._source_weighted else "no weights"
        return ValueError(
            f"{self._who}: training must start at {expected}h^-1 of the mean link under the weights of the data set, "
            f"got {np.round(start, 6)}, the start with {known}. Merge params({self.data_set}), or params(y, weights), "
            "into the parameters of the booster."
        )

    # --------------------------------------------------------------------------------------------------------- training

    def fit(
        self, X: Any, y: Any, *, weights: Any = None, groups: Any = None, rounds: int = 100,
        params: Mapping[str, Any] | None = None, validation: Any = None, early_stopping: int | None = None,
    ) -> Model:  # fmt: skip
        """Train on the route that was chosen, from the right start, with the right metric.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Features, as the library takes them; columns of categories are used as such.
        y : array
            Targets; with XGBoost and CatBoost also rows of targets.
        weights : array, optional
            Of rows; for a ranking loss of lists.
        groups : array of int, optional
            Sizes of the lists, for a ranking loss.
        rounds : int
            How many, at least 1.
        params : mapping, optional
            The library's parameters, by its names, but those that the objective settles; regularisation in the units
            of a loss with mean curvature 1, on both routes.
        validation : tuple, optional
            (X, y), (X, y, weights) or (X, y, weights, groups). Scikit-learn takes it from version 1.7 on.
        early_stopping : int, optional
            Stop after so many rounds without a better matching loss on the validation set.

        Returns
        -------
        Model
            A booster of CatBoost in it predicts scores by itself, also when it is saved and loaded.
        """
        rounds = self._whole("rounds", rounds)
        patience = None if early_stopping is None else self._whole("early_stopping", early_stopping)
        given = self._given(params, *self.settled)
        self.require_known(self._who, "params", given)
        self.route = self._route_for(given)
        rows = self._training_rows(y, weights, groups)
        columns, held_out = Columns.of(X), self._validation_rows(validation, patience)
        if held_out is not None:
            held_out = columns.align(self._who, held_out[0]), held_out[1]
        model = self._train(Plan(columns.align(self._who, X), rows, given, rounds, held_out, patience))
        model._columns = columns
        self._seen = []
        return model

    def _training_rows(self, labels: Any, weights: Any, groups: Any) -> Rows:
        return self.prepare(labels, weights, groups)

    def _train(self, plan: Plan) -> Model:
        raise NotImplementedError

    def predict(self, booster: Any, X: Any, *, rounds: int | None = None) -> np.ndarray:
        """Scores from a booster that this objective has trained."""
        raise NotImplementedError

    def _route_for(self, params: Mapping[str, Any]) -> str:
        """The route that was asked for, unless these parameters mean different things on both."""
        route = native.choose(self._who, self.booster, self.loss, self.curvature, self._wanted_route, self.ranking)
        own = native.of(self.booster, self.loss) if route == "native" else None
        reason = None if own is None else native.unlike(self.booster, own.kind, params)
        if reason is None:
            return route
        if self._wanted_route == "native":
            raise ValueError(
                f"{self._who}: params must mean the same to the booster's own objective with route='native', got "
                f"{reason}. Leave it out, or use route='python'."
            )
        _log.info("%s: python route, since params hold %s", self.library, reason)
        return "python"

    @property
    def native(self) -> native.Native | None:
        """How the booster's own objective trains this loss, if it does."""
        return native.of(self.booster, self.loss) if self.route == "native" else None

    def _whole(self, name: str, value: Any) -> int:
        try:
            whole = 0 if isinstance(value, (bool, np.bool_)) else operator.index(value)
        except TypeError:
            whole = 0
        if whole < 1:
            raise ValueError(f"{self._who}: {name} must be a whole number >= 1, got {value!r}.")
        return whole

    def _given(self, params: Mapping[str, Any] | None, *settled: str) -> dict[str, Any]:
        """The user's parameters, among which nothing is that the objective settles."""
        given = dict(params or {})
        for name in settled:
            if name in given:
                raise ValueError(
                    f"{self._who}: params must not hold {name!r}, got {given[name]!r}. The objective settles it, or an "
                    "argument of fit: rounds, validation or early_stopping."
                )
        return given

    def require_known(self, who: str, name: str, params: Mapping[str, Any]) -> None:
        """Raise for a parameter that the library does not have: some libraries pass over misspelt ones in silence."""
        known = self._known_params()
        for key, value in params.items():
            if known and key not in known and not self._takes(key, value):
                near = nearest(str(key), sorted(known.difference(self.settled)))
                advice = "See its documentation." if near is None else f"Did you mean {near!r}?"
                raise ValueError(f"{who}: {name} must be parameters of {self.library}, got {key!r}. {advice}")

    def _known_params(self) -> frozenset[str]:
        """The names of the library's parameters, aliases included; none if it does not tell."""
        raise NotImplementedError

    def _takes(self, name: str, value: Any) -> bool:
        """Whether the library takes a parameter that it does not list."""
        return False

    def importances(self, booster: Any, rounds: int | None = None) -> np.ndarray:
        """How much each feature gained, over all splits of a booster that this objective has trained.

        Parameters
        ----------
        booster : object
            The library's own.
        rounds : int, optional
            How many rounds to look at; all by default.

        Returns
        -------
        array of shape (features,)
            Numbers >= 0, in the library's units.
        """
        raise NotImplementedError

    def _derivatives(
        self, rows: Rows, scores: np.ndarray, start: Start, out: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):  # what is not finite is named here
            gradient, curvature = rows.gradient_and_curvature(scores, start.scale, self.curvature, out)
            flat = gradient.ravel()
            # the square of a norm is quick, and finite but for numbers that deserve a second look
            if not np.isfinite(np.dot(flat, flat)) and not np.all(np.isfinite(flat)):
                raise self._outside(scores)
            if rows.kernel == "arrays" and not np.all(np.isfinite(curvature)):  # kernels keep theirs finite
                raise self._outside(scores)
        return np.ascontiguousarray(gradient, np.float32), np.ascontiguousarray(curvature, np.float32)

    def _outside(self, scores: Any) -> ValueError:
        return ValueError(
            f"{self._who}: scores must stay where the link {self.loss.potential!r} is finite, got "
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
