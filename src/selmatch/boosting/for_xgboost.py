"""Objectives of XGBoost: for ``xgboost.train``, its estimators and Dask."""

from __future__ import annotations

import copy
import functools
import json
import logging
import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from xgboost.callback import TrainingCallback

from selmatch import spec
from selmatch.boosting.native import slackened
from selmatch.boosting.objective import METRIC
from selmatch.boosting.rows import Rows, Start
from selmatch.boosting.training import LibraryObjective, Metric, Model, Plan, Seen, Table
from selmatch.curves import Identity

__all__ = ["XGBoostObjective", "from_xgboost"]

_log = logging.getLogger("selmatch.boosting")

#: the booster's attribute that says what it was trained with
ATTRIBUTE = "selmatch"

#: of strangers' words in errors
_LONGEST = 200

#: where XGBoost starts when nobody tells it
_DEFAULT_START = np.float32(0.5)


class XGBoostObjective(LibraryObjective):
    """A loss as an objective of XGBoost; see :class:`selmatch.boosting.Objective` for the options.

    One object serves ``xgboost.train(obj=..., custom_metric=....metric)``, ``XGBRegressor(objective=...,
    eval_metric=....metric)`` and Dask. Always merge :meth:`params` into the parameters: without it XGBoost starts at
    0.5.

    Examples
    --------
    >>> import selmatch.boosting, xgboost
    >>> X = np.linspace(-1.0, 1.0, 40).reshape(-1, 1)
    >>> data = xgboost.DMatrix(X, label=2.0 * X[:, 0])
    >>> objective = selmatch.boosting.xgboost(Sigmoid().affine(alpha=2.0))
    >>> booster = xgboost.train({"max_depth": 2, **objective.params(data)}, data, 50, obj=objective)
    >>> bool(np.abs(booster.predict(data) - 2.0 * X[:, 0]).mean() < 0.1)
    True
    """

    library, booster, data_set = "XGBoost", "xgboost", "dtrain"

    settled = (
        "objective", "base_score", "num_class", "eval_metric", "disable_default_eval_metric", "n_estimators",
        "num_boost_round", "num_round", "early_stopping_rounds",
    )  # fmt: skip

    # ------------------------------------------------------------------------------------------------ what users merge

    def params(self, data: Any, weights: Any = None, groups: Any = None) -> dict[str, Any]:
        """Parameters to merge: where to start, and no metric but ours.

        Parameters
        ----------
        data : DMatrix or array
            The training set, or its labels; for data on many machines a sample of the labels.
        weights, groups : array, optional
            Of the labels; a DMatrix has its own.
        """
        self._python_only("params(...)")
        if isinstance(data, xgboost.DMatrix):
            self._require_alone(weights, groups)
            table = self._table(data)
            self.seen(table, self.prepare(*table))
        else:
            self.prepare(data, weights, groups)
        return self._start_params()

    def _start_params(self) -> dict[str, Any]:
        start = self._ready("Call params(...).").score
        return {"base_score": list(start) if isinstance(start, tuple) else start, "disable_default_eval_metric": 1}

    @property
    def metric(self) -> _XGBoostMetric:
        """The mean matching loss, as ``custom_metric`` of ``train`` and as ``eval_metric`` of estimators."""
        return _XGBoostMetric(self)

    # --------------------------------------------------------------------------------------------- what XGBoost calls

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and curvatures, from (scores, DMatrix), or as estimators ask, from (labels, scores, weights)."""
        self._python_only("a call by XGBoost")
        start = self._ready("Merge params(dtrain), or params(y), into the parameters of the booster.")
        if isinstance(second, xgboost.DMatrix) and not second.num_row():  # a worker without data
            nothing = np.empty(np.shape(first), np.float32)
            return nothing, nothing
        scores, seen = self._asked(first, second, sample_weight)
        placed = isinstance(second, xgboost.DMatrix) and second.get_base_margin().size > 0
        if not placed:
            self._require_start(scores, start, seen.fresh)
            if seen.fresh and np.allclose(scores, start.score, rtol=1e-5, atol=1e-6):  # not after earlier trees
                self._require_weights(seen.rows)
        seen.fresh = False
        return self._derivatives(seen.rows, scores, start)

    def _asked(self, first: Any, second: Any, sample_weight: Any) -> tuple[np.ndarray, Seen]:
        if isinstance(second, xgboost.DMatrix):
            return first, self.seen(self._table(second))
        if self.ranking is not None:
            raise ValueError(
                f"{self._who}: a ranking loss must be trained by xgboost.train or fit(...), got a call by an "
                "estimator, which hands over no lists."
            )
        return second, self.seen(Table(first, sample_weight))

    def _table(self, data: xgboost.DMatrix) -> Table:
        weights, groups = data.get_weight(), None
        if self.ranking is not None:
            bounds = data.get_uint_info("group_ptr").astype(np.int64)
            groups = np.diff(bounds) if bounds.size else None
        return Table(data.get_label(), weights if weights.size else None, groups)

    def _require_start(self, scores: np.ndarray, start: Start, fresh: bool) -> None:
        """Nothing else tells that the parameters were not merged. Later rounds may be constant, but not at 0.5."""
        if not np.array_equal(scores[0], scores[-1]):  # most often, and at once
            return
        forgotten = np.all(scores[0] == _DEFAULT_START)
        if (fresh or forgotten) and not np.allclose(scores[0], start.score, rtol=1e-5, atol=1e-6):
            if np.all(scores == scores[0]):
                raise ValueError(
                    f"{self._who}: training must start at {start.score}, got {np.asarray(scores[0]).tolist()}. Merge "
                    "params(dtrain), or params(y), into the parameters of the booster; for another start give the "
                    "DMatrix a base_margin."
                )

    # -------------------------------------------------------------------------------------------------------- training

    def _train(self, plan: Plan) -> Model:
        if plan.rows.labels.ndim > 1 and plan.params.get("booster") == "gblinear":
            raise ValueError(
                f"{self._who}: the labels must be one for each row with booster='gblinear', got shape "
                f"{plan.rows.labels.shape}: XGBoost starts all targets of a linear model at the start value of the "
                "first. Train one model for each target, or use selmatch.sklearn.SelectiveLinearModel."
            )
        if plan.early_stopping is not None and plan.params.get("booster") == "gblinear":
            raise ValueError(
                f"{self._who}: early_stopping must be None with booster='gblinear', got {plan.early_stopping}: XGBoost "
                "keeps no earlier rounds of a linear model. Choose rounds instead."
            )
        train = self._matrix(plan.X, plan.rows, plan.params)
        evals = []
        if plan.validation is not None:
            evals.append((self._matrix(*plan.validation, plan.params, reference=train), "validation"))
        merged, hooks = self._plan(plan.params)
        history: dict[str, Any] = {}
        booster = xgboost.train(
            merged, train, plan.rounds, evals=evals, early_stopping_rounds=plan.early_stopping, evals_result=history,
            verbose_eval=False, **hooks,
        )  # fmt: skip
        self.annotate(booster)
        # the booster keeps the rounds after its best: a part of a booster forgets its categories
        best = None if plan.early_stopping is None else booster.best_iteration
        return Model(copy.copy(self), booster, best, history.get("validation", {}))

    def _plan(self, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters and callables of the route."""
        own, given, metric = self.native, slackened(self.booster, given), self.metric
        if own is None:
            hooks = {"obj": self, "custom_metric": metric, "callbacks": [_AllDigits(metric)]}
            return {**given, **self._start_params()}, hooks
        start = self._ready("Call prepare(labels).")
        theirs = "rmse" if own.kind is Identity else "logloss"
        return {**own.params(start, given), "base_score": own.base(start), "eval_metric": theirs}, {}

    def _matrix(
        self, X: Any, rows: Rows, params: Mapping[str, Any], reference: xgboost.DMatrix | None = None
    ) -> xgboost.DMatrix:
        own = self.native
        options: dict[str, Any] = {
            "label": rows.labels if own is None else own.labels(rows.labels),
            "weight": rows.weights, "group": rows.groups, "enable_categorical": True,
            "nthread": params.get("nthread", params.get("n_jobs")),
        }  # fmt: skip
        quantiles = params.get("tree_method", "auto") in ("auto", "hist") and "updater" not in params
        if quantiles and params.get("booster", "gbtree") != "gblinear":
            data = xgboost.QuantileDMatrix(X, ref=reference, max_bin=params.get("max_bin", 256), **options)
        else:
            data = xgboost.DMatrix(X, **options)
        if own is None:
            self.seen(self._table(data), rows)
        return data

    # ------------------------------------------------------------------------------------------------- trained boosters

    def predict(self, booster: Any, X: Any, *, rounds: int | None = None) -> np.ndarray:
        """Scores from a booster that this objective has trained.

        Parameters
        ----------
        booster : Booster or estimator
            Of XGBoost.
        X : array, data frame, sparse matrix or DMatrix
            Features.
        rounds : int, optional
            How many rounds to use; after early stopping those up to the best, else all.
        """
        trained = _booster_of(booster)
        if rounds is None:
            rounds = _best_rounds(trained)
        data = X if isinstance(X, xgboost.DMatrix) else xgboost.DMatrix(X, enable_categorical=True)
        margin = trained.predict(data, output_margin=True, iteration_range=(0, rounds))
        own = self.native
        return self.inside(np.asarray(margin if own is None else own.scores(margin), dtype=np.float64))

    def importances(self, booster: Any, rounds: int | None = None) -> np.ndarray:
        """The total gain of each feature; for a linear booster the size of its coefficients."""
        trained = _booster_of(booster)
        linear = json.loads(trained.save_config())["learner"]["gradient_booster"]["name"] == "gblinear"
        part = trained if linear or rounds is None else trained[:rounds]
        gains = part.get_score(importance_type="weight" if linear else "total_gain")
        names = trained.feature_names or [f"f{i}" for i in range(trained.num_features())]
        return np.array([np.sum(np.abs(gains.get(name, 0.0))) for name in names])

    def _known_params(self) -> frozenset[str]:
        return _listed()

    def _takes(self, name: str, value: Any) -> bool:
        return isinstance(name, str) and any(
            f'"{name}"' not in _unused(name, value, settings) for settings in _BOOSTERS
        )

    def annotate(self, booster: Any) -> None:
        """Write loss, start value and scale into the attributes of a booster, which stay in its files."""
        start = self._ready("Annotate what this objective has trained.")
        try:
            loss = spec.dumps(self.loss, "json")
        except (TypeError, spec.SpecError) as error:
            _log.warning("%s: the booster does not keep its loss: %s", self.library, error)
            return
        settings = {"curvature": self.curvature, "route": self.route, "ranking": self.ranking}
        numbers = {"start": start.score, "scale": start.scale}
        _booster_of(booster).set_attr(**{ATTRIBUTE: json.dumps({"loss": loss, **settings, **numbers})})

    def save(self, booster: Any, path: str | os.PathLike[str]) -> None:
        """Save a booster that this objective has trained; :func:`from_xgboost` finds the loss in it."""
        self.annotate(booster)
        _booster_of(booster).save_model(path)


#: the kinds of boosters, and what makes them look at most parameters
_BOOSTERS = ({"booster": "gbtree"}, {"booster": "dart"}, {"booster": "gblinear", "updater": "coord_descent"})


@functools.cache
def _listed() -> frozenset[str]:
    """The parameters that XGBoost writes down for any kind of booster, which are most."""
    found: set[str] = set()

    def collect(part: Any) -> None:
        for name, value in part.items() if isinstance(part, dict) else ():
            found.update(() if isinstance(value, (dict, list)) else (name,))
            for inner in value if isinstance(value, list) else (value,):
                collect(inner)

    for settings in _BOOSTERS:
        collect(json.loads(_config(settings)))
    return frozenset(found)


def _unused(name: str, value: Any, settings: Mapping[str, str]) -> str:
    """XGBoost's warning about a parameter that it does not use, empty if it does."""
    with xgboost.config_context(verbosity=1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _config({name: value, **settings})
        except xgboost.core.XGBoostError as error:  # it looks at the value, or refuses the name
            return str(error)
    return "".join(str(warning.message) for warning in caught)


def _config(settings: Mapping[str, Any]) -> str:
    """What XGBoost makes of parameters, with a warning about those that it does not use."""
    data = xgboost.DMatrix(np.zeros((2, 1)), label=[0.0, 1.0])
    return xgboost.Booster(dict(settings), [data]).save_config()


class _XGBoostMetric(Metric):
    objective: XGBoostObjective

    #: of the last call
    value = 0.0

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        """(name, value) from (scores, DMatrix); as estimators ask, the value alone from (labels, scores, weights)."""
        if isinstance(second, xgboost.DMatrix) and not second.num_row():
            return METRIC, 0.0
        scores, seen = self.objective._asked(first, second, sample_weight)
        self.value = seen.rows.value(scores)
        return (METRIC, self.value) if isinstance(second, xgboost.DMatrix) else self.value


class _AllDigits(TrainingCallback):
    """XGBoost rounds a custom metric to six decimals: a small loss would seem to stand still, and stop training."""

    def __init__(self, metric: _XGBoostMetric) -> None:
        super().__init__()
        self.metric = metric

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Write what the metric found, before others read it."""
        if "validation" in evals_log:
            evals_log["validation"][METRIC][-1] = self.metric.value
        return False


def from_xgboost(booster: Any) -> XGBoostObjective:
    """The objective with which a booster was trained; see :func:`selmatch.boosting.from_xgboost`."""
    kept = _attribute(_booster_of(booster), ATTRIBUTE)
    if kept is None:
        raise ValueError(
            "selmatch.boosting.from_xgboost: the booster must have been trained by fit(...) or saved by "
            "save(booster, path), got one without a loss in its attributes."
        )
    try:
        return _restored(kept)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        problem = str(error) if len(str(error)) <= _LONGEST else f"{str(error)[:_LONGEST]} ..."
        raise ValueError(
            f"selmatch.boosting.from_xgboost: the booster's attribute {ATTRIBUTE!r} must be as fit(...) or "
            f"save(booster, path) wrote it, got another one ({problem}). Save the booster again with the "
            "objective that trained it."
        ) from error


def _restored(text: str) -> XGBoostObjective:
    """The objective in the words of :meth:`XGBoostObjective.annotate`; any error for other words."""
    said = json.loads(text)
    needed, options = {"loss", "start", "scale"}, {"curvature", "route", "ranking"}
    if not isinstance(said, dict) or not needed <= said.keys() <= needed | options:
        raise ValueError(f"it must hold {', '.join(sorted(needed | options))}")
    score = said["start"]
    start = tuple(map(_finite, score)) if isinstance(score, list) and score else _finite(score)
    scale = _finite(said["scale"])
    if scale <= 0.0:
        raise ValueError(f"scale must be > 0, got {scale}")
    loss = spec.loads(said["loss"], "json", name="loss")
    objective = XGBoostObjective(loss, **{name: said[name] for name in options & said.keys()})
    objective.start = Start(start, scale)
    return objective


def _finite(number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"start and scale must be finite numbers, got {number!r}")
    return float(number)


def _best_rounds(booster: xgboost.Booster) -> int:
    """How many rounds there are up to the best; 0, which means all, without early stopping."""
    best, rounds = _attribute(booster, "best_iteration"), booster.num_boosted_rounds()
    if best is None:
        return 0
    if not (best.isdecimal() and len(best) < 10 and int(best) < rounds):
        raise ValueError(
            f"selmatch.boosting.xgboost: the booster's attribute 'best_iteration' must be a whole number from 0 to "
            f"{rounds - 1}, got {best[:_LONGEST]!r}. Say how many rounds to use: predict(booster, X, rounds=...)."
        )
    return int(best) + 1


def _attribute(booster: xgboost.Booster, name: str) -> str | None:
    """What a booster says of itself; an empty text for what is none."""
    try:
        return booster.attr(name)
    except (AssertionError, UnicodeDecodeError):  # so XGBoost takes empty texts, and bytes of no encoding
        return ""


def _booster_of(trained: Any) -> xgboost.Booster:
    if not isinstance(trained, xgboost.Booster) and not hasattr(trained, "get_booster"):
        raise TypeError(
            f"selmatch.boosting.xgboost: expected a Booster or an estimator of XGBoost, got {type(trained).__name__}."
        )
    return trained if isinstance(trained, xgboost.Booster) else trained.get_booster()
