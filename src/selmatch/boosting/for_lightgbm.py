"""Objectives of LightGBM: for ``lightgbm.train``, its estimators and Dask."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np

from selmatch.boosting.native import slackened
from selmatch.boosting.objective import METRIC
from selmatch.boosting.rows import Rows, Start
from selmatch.boosting.training import LibraryObjective, Metric, Model, Plan, Seen, Table
from selmatch.columns import real_array
from selmatch.curves import Identity

__all__ = ["LightGBMObjective"]


class LightGBMObjective(LibraryObjective):
    """A loss as an objective of LightGBM; see :class:`selmatch.boosting.Objective` for the options.

    LightGBM starts at 0, and what it is told by ``init_score`` its predictions forget. So trees are grown from 0 and
    this object adds the start value wherever scores are meant: in gradients, in the metric and in :meth:`predict`. A
    Dataset that has an ``init_score`` starts there instead.

    One object serves ``lightgbm.train``, estimators (``LGBMRegressor(**objective.params(y))``) and Dask.

    Examples
    --------
    >>> import lightgbm, selmatch.boosting
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    >>> objective = selmatch.boosting.lightgbm(Sigmoid().affine(alpha=2.0, beta=5.0))
    >>> params = {"verbosity": -1, **objective.params(5.0 + X[:, 0])}
    >>> booster = lightgbm.train(params, lightgbm.Dataset(X, 5.0 + X[:, 0]), 50)
    >>> bool(np.abs(objective.predict(booster, X) - 5.0 - X[:, 0]).mean() < 0.1)
    True
    """

    library, booster = "LightGBM", "lightgbm"

    settled = (
        "objective", "objective_type", "app", "application", "loss", "metric", "metrics", "metric_types", "num_class",
        "num_classes", "num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds",
        "nrounds", "num_boost_round", "n_estimators", "max_iter", "early_stopping_round", "early_stopping_rounds",
        "early_stopping", "n_iter_no_change",
    )  # fmt: skip
    many_targets = False

    def __init__(
        self, loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
    ) -> None:
        super().__init__(loss, curvature=curvature, route=route, ranking=ranking)
        if self.loss.vector and self.ranking is None:
            raise TypeError(
                f"{self._who}: loss must have a single link, got {self.loss!r}: LightGBM holds one label for each row. "
                "Use XGBoost for rows of labels, or ranking='listwise' for lists."
            )

    # ------------------------------------------------------------------------------------------------ what users merge

    def params(self, data: Any, weights: Any = None, groups: Any = None) -> dict[str, Any]:
        """Parameters to merge: the objective itself, and no metric but ours.

        Parameters
        ----------
        data : Dataset or array
            The training set, or its labels; for data on many machines a sample of the labels.
        weights, groups : array, optional
            Of the labels; a Dataset has its own. For a ranking loss weights are one for each list.
        """
        self._python_only("params(...)")
        if isinstance(data, lightgbm.Dataset):
            self._require_alone(weights, groups)
            data, weights, groups = self._table(data)
            if data is None:
                raise ValueError(
                    f"{self._who}: the dataset must hold its labels, got none: read from a file, or a part of another "
                    "one, it has them once it is built. Call dataset.construct() before."
                )
        self.prepare(data, weights, groups)
        return {"objective": self, "metric": "None"}

    @property
    def metric(self) -> _LightGBMMetric:
        """The mean matching loss, as ``feval`` of ``train`` and as ``eval_metric`` of estimators."""
        return _LightGBMMetric(self)

    # -------------------------------------------------------------------------------------------- what LightGBM calls

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and curvatures, from (scores, Dataset), or as estimators ask, from (labels, scores, ...)."""
        self._python_only("a call by LightGBM")
        start = self._ready("Merge params(dataset), or params(y), into the parameters of the booster.")
        scores, seen = self._asked(first, second, weight, group, start)
        dataset = isinstance(second, lightgbm.Dataset)
        if seen.fresh:
            trees = first if dataset else second
            if not dataset:
                self._require_zero(trees)
            if not (dataset and _has_own_start(second)) and not trees.any():  # not after earlier trees
                self._require_weights(seen.rows)
        seen.fresh = False
        return self._derivatives(seen.rows, scores, start)

    def _asked(self, first: Any, second: Any, weight: Any, group: Any, start: Start) -> tuple[np.ndarray, Seen]:
        """Scores with the start value, and the data set that they belong to."""
        if isinstance(second, lightgbm.Dataset):
            seen = self.seen(self._table(second))
            return _moved(first, 0.0 if _has_own_start(second) else start.score, seen), seen
        table = self._lists(Table(first, weight, group))
        seen = self.seen(table)
        return _moved(second, start.score, seen), seen

    def _require_zero(self, trees: np.ndarray) -> None:
        """Estimators do not tell that they were given an init_score, but where trees start."""
        if trees[0] and np.all(trees == trees[0]):
            raise ValueError(
                f"{self._who}: trees must be grown from 0, got an init_score of {trees[0]:g}. Leave init_score out: "
                "the objective adds the start value by itself. For another start use lightgbm.train and a Dataset."
            )

    def _table(self, data: lightgbm.Dataset) -> Table:
        return self._lists(Table(*(_held(data, name) for name in ("label", "weight", "group"))))

    def _lists(self, table: Table) -> Table:
        """Weights of lists, which LightGBM keeps for each row."""
        if self.ranking is None:
            return table._replace(groups=None)
        if table.weights is None or table.groups is None:
            return table
        weights, groups = real_array(self._who, "weights", table.weights), np.asarray(table.groups, dtype=np.int64)
        if weights.shape != (groups.sum(),):  # what is wrong with them is said where rows are checked
            return table
        firsts = np.repeat(weights[np.cumsum(groups)[groups > 0] - 1], groups[groups > 0])
        if not np.array_equal(weights, firsts):
            row = int(np.flatnonzero(weights != firsts)[0])
            raise ValueError(
                f"{self._who}: weights must be the same for all rows of a list, got {weights[row]:g} and "
                f"{firsts[row]:g} in the list of row {row}. A ranking loss weighs lists."
            )
        of_lists = np.zeros(len(groups))
        of_lists[groups > 0] = weights[np.cumsum(groups)[groups > 0] - 1]
        return table._replace(weights=of_lists)

    # -------------------------------------------------------------------------------------------------------- training

    def dataset(
        self, X: Any, y: Any, *, weights: Any = None, groups: Any = None, reference: lightgbm.Dataset | None = None,
        **options: Any,
    ) -> lightgbm.Dataset:  # fmt: skip
        """A checked Dataset for ``lightgbm.train``; without ``reference`` it is the training set, which sets the start.

        Parameters
        ----------
        X, y : array
            Features and labels.
        weights : array, optional
            Of rows; for a ranking loss of lists.
        groups : array of int, optional
            Sizes of the lists, for a ranking loss.
        reference : Dataset, optional
            The training set, for a validation set.
        **options
            Of Dataset.
        """
        rows = self.prepare(y, weights, groups) if reference is None else self.rows(y, weights, groups)
        return self._dataset(X, rows, reference, options)

    def _dataset(
        self, X: Any, rows: Rows, reference: lightgbm.Dataset | None, options: Mapping[str, Any]
    ) -> lightgbm.Dataset:
        own, weights, start = self.native, rows.weights, self._ready("Make the training set first.")
        if rows.groups is not None and weights is not None:
            weights = np.repeat(weights, rows.groups)
        begin = None if own is None else np.full(len(rows.labels), own.margin(start.score))
        labels = rows.labels if own is None else own.labels(rows.labels)
        return lightgbm.Dataset(
            X, labels, reference=reference, weight=weights, group=rows.groups, init_score=begin, **options
        )

    def _given(self, params: Mapping[str, Any] | None, *settled: str) -> dict[str, Any]:
        given = super()._given(params, *settled)
        for name in ("boosting", "boosting_type", "boost"):
            if given.get(name) in ("rf", "random_forest"):
                raise ValueError(
                    f"{self._who}: params must not hold {name}={given[name]!r}: LightGBM's random forests take neither "
                    "an objective in Python nor a start value. Use 'gbdt', 'dart' or 'goss'."
                )
        return given

    def _train(self, plan: Plan) -> Model:
        # with a Python objective LightGBM fails where its filter leaves no feature, as it does on fewer than 40 rows
        defaults = {"verbosity": -1, "feature_pre_filter": False}
        merged, metric = self._plan({**defaults, **slackened(self.booster, plan.params)})
        train = self._dataset(plan.X, plan.rows, None, {})
        history: dict[str, Any] = {}
        callbacks: list[Any] = [lightgbm.record_evaluation(history)]
        if plan.early_stopping is not None:
            callbacks.append(lightgbm.early_stopping(plan.early_stopping, verbose=False))
        booster = lightgbm.train(
            merged, train, plan.rounds, feval=metric, callbacks=callbacks, valid_names=["validation"],
            valid_sets=None if plan.validation is None else [self._dataset(*plan.validation, train, {})],
        )  # fmt: skip
        # with dart LightGBM does not stop early, and warns
        best = booster.best_iteration - 1 if plan.early_stopping is not None and booster.best_iteration > 0 else None
        return Model(copy.copy(self), booster, best, history.get("validation", {}))

    def _plan(self, given: dict[str, Any]) -> tuple[dict[str, Any], _LightGBMMetric | None]:
        """Parameters and metric of the route."""
        own = self.native
        if own is None:
            return {**given, "objective": self, "metric": "None"}, self.metric
        start = self._ready("Call prepare(labels).")
        return {**own.params(start, given), "metric": "l2" if own.kind is Identity else "cross_entropy"}, None

    # ------------------------------------------------------------------------------------------------- trained boosters

    def predict(self, booster: Any, X: Any, *, rounds: int | None = None) -> np.ndarray:
        """Scores from a booster that this objective has trained, with the start value.

        Parameters
        ----------
        booster : Booster or estimator
            Of LightGBM.
        X : array, data frame or sparse matrix
            Features.
        rounds : int, optional
            How many rounds to use; after early stopping those up to the best, else all.
        """
        trained = booster if isinstance(booster, lightgbm.Booster) else booster.booster_
        start = self._ready("Predict with the objective that has trained the booster.").score
        raw = np.asarray(trained.predict(X, raw_score=True, num_iteration=rounds))
        own = self.native
        return self.inside(raw + start if own is None else own.scores(raw + own.margin(start)))

    def importances(self, booster: Any, rounds: int | None = None) -> np.ndarray:
        """The total gain of each feature."""
        trained = booster if isinstance(booster, lightgbm.Booster) else booster.booster_
        return np.asarray(trained.feature_importance("gain", iteration=rounds), dtype=np.float64)

    def _known_params(self) -> frozenset[str]:
        return _listed()


@functools.cache
def _listed() -> frozenset[str]:
    """All names of LightGBM's parameters, from the only place where it lists them; none if that has moved."""
    try:
        aliases = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    except AttributeError:
        return frozenset()
    return frozenset(name for names in aliases.values() for name in names)


class _LightGBMMetric(Metric):
    objective: LightGBMObjective

    def __call__(self, first: Any, second: Any, weight: Any = None, group: Any = None) -> tuple[str, float, bool]:
        """(name, value, is higher better), from (scores, Dataset), or as estimators ask, from (labels, scores, ...)."""
        start = self.objective._ready("Merge params(dataset), or params(y), into the parameters of the booster.")
        scores, seen = self.objective._asked(first, second, weight, group, start)
        return METRIC, seen.rows.value(scores), False


def _moved(scores: np.ndarray, by: Any, seen: Seen) -> np.ndarray:
    """Scores and a start value added in double precision, as rows want them."""
    return np.add(scores, by, out=np.empty(scores.shape, seen.rows.precision), casting="same_kind")


def _held(data: lightgbm.Dataset, name: str) -> Any:
    """A column of a Dataset, as the user gave it before LightGBM has built its own."""
    built = getattr(data, "_handle", None) is not None
    return getattr(data, f"get_{name}")() if built else getattr(data, name)


def _has_own_start(data: lightgbm.Dataset) -> bool:
    # for continued training LightGBM itself puts the old trees' predictions there, which lack the start value
    return getattr(data, "_predictor", None) is None and data.get_init_score() is not None
