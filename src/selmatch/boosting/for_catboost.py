"""Objectives of CatBoost: for its estimators and ``Pool``, one target or many."""

from __future__ import annotations

import copy
import ctypes
import functools
import inspect
import math
import threading
from collections.abc import Callable
from threading import get_ident
from time import perf_counter, sleep
from typing import Any

import catboost
import numpy as np

from selmatch import kernels
from selmatch.boosting.objective import METRIC
from selmatch.boosting.rows import Rows, inwards
from selmatch.boosting.training import LibraryObjective, Metric, Model, Plan, Table
from selmatch.columns import real_array
from selmatch.curves import Identity
from selmatch.losses import MatchingLoss

__all__ = ["CatBoostObjective"]

#: what CatBoost's own objectives do by default, and user-defined ones do not
_NEWTON = {"leaf_estimation_method": "Newton", "leaf_estimation_iterations": 1}

#: seconds without a call after which a thread is taken to be done; and for which others sleep meanwhile, the longer
#: the more they are
_IDLE, _SHORTEST, _LONGEST = 5e-5, 1e-4, 3e-4

#: limits of scores, where there are none
_ANYWHERE = -math.inf, math.inf

#: how many rows CatBoost hands over at a time
_BLOCK = 1000

#: from so many rows on compiled blocks pay for their compilation
_MANY = 20_000


class CatBoostObjective(LibraryObjective):
    """A loss as an objective of CatBoost; see :class:`selmatch.boosting.Objective` for the options.

    CatBoost starts at 0. Trees are grown from there and this object adds the start value wherever scores are meant: in
    derivatives, in the metric and in :meth:`predict`. A ``baseline`` of a Pool comes on top of the start value, so it
    must not contain it. Boosters from :meth:`fit` carry the start value as their bias.

    CatBoost hands over blocks of at most 1,000 rows, and holds Python's lock meanwhile: with Numba a block takes
    microseconds, without it training is several times slower. Many targets are handed over row by row, which is slow.
    Lists are not handed over at all, so there are no ranking losses. Splits are chosen by gradients and weights alone,
    whatever the curvature; it shapes the values of leaves.

    Examples
    --------
    >>> import catboost, selmatch.boosting
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    >>> objective = selmatch.boosting.catboost(Sigmoid().affine(alpha=2.0, beta=5.0))
    >>> params = {"iterations": 50, "learning_rate": 0.3, "logging_level": "Silent", "allow_writing_files": False}
    >>> estimator = catboost.CatBoostRegressor(**params, **objective.params(5.0 + X[:, 0])).fit(X, 5.0 + X[:, 0])
    >>> bool(np.abs(objective.predict(estimator, X) - 5.0 - X[:, 0]).max() < 0.1)
    True
    """

    library, booster, data_set = "CatBoost", "catboost", "pool"

    #: CatBoost would try to compile methods by itself, which use ``self`` and cannot be
    no_jit = True

    settled = (
        "loss_function", "objective", "eval_metric", "iterations", "num_boost_round", "n_estimators", "num_trees",
        "early_stopping_rounds", "od_wait", "use_best_model",
    )  # fmt: skip

    def __init__(
        self, loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
    ) -> None:
        super().__init__(loss, curvature=curvature, route=route, ranking=ranking)
        if self.ranking is not None:
            raise ValueError(
                f"{self._who}: ranking must be None, got {self.ranking!r}: CatBoost hands no lists over to an "
                "objective. Use XGBoost or LightGBM."
            )
        self._block: Callable[[Any, Any, Any], np.ndarray] | None = None
        self._first_round = _FirstRound()
        self._turn = _Turn()
        self._backend, self._precision = "arrays", np.dtype(np.float64)
        self._limits: tuple[Any, Any] = _ANYWHERE

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_block": None}

    def rows(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """A data set, checked, in single precision as CatBoost keeps it."""
        with np.errstate(over="ignore"):
            kept = real_array(self._who, "the labels", labels, kinds="iufb").astype(np.float32)
        return super().rows(kept, weights, groups)

    # ------------------------------------------------------------------------------------------------ what users merge

    def params(self, labels: Any, weights: Any = None) -> dict[str, Any]:
        """Parameters to merge: the objective itself, the metric, and Newton steps in leaves.

        Parameters
        ----------
        labels : array or Pool
            Of the training set.
        weights : array, optional
            Of the labels; a Pool has its own.
        """
        self._python_only("params(...)")
        if isinstance(labels, catboost.Pool):
            self._require_alone(weights)
            labels, weights = labels.get_label(), labels.get_weight()
        return self._hooks(self.prepare(labels, weights))

    def _hooks(self, rows: Rows) -> dict[str, Any]:
        if rows.labels.ndim == 1:
            return {"loss_function": self, "eval_metric": self.metric, **_NEWTON}
        return {"loss_function": _RowObjective(self), "eval_metric": _RowMetric(self), **_NEWTON}

    @property
    def metric(self) -> Metric:
        """The mean matching loss, as ``eval_metric``; CatBoost insists on one."""
        return _BlockMetric(self)

    # -------------------------------------------------------------------------------------------- what CatBoost calls

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> np.ndarray:
        """Gradients and curvatures of a block of rows, with the signs turned: CatBoost goes uphill."""
        if self._turn.thread != get_ident():
            self._turn.wait()
        try:
            return (self._block or self._prepared(approxes, targets, weights))(approxes, targets, weights)
        except FloatingPointError:
            raise self._outside(approxes + self._shift()) from None
        finally:
            self._turn.last = perf_counter()

    def _prepared(self, approxes: np.ndarray, targets: Any, weights: Any) -> Callable[[Any, Any, Any], np.ndarray]:
        """What computes blocks; made again in every copy of this object, once a first tree is there."""
        shift = self._shift()
        if shift and not self._first_round.begun and np.all(np.isclose(approxes, shift, rtol=1e-6, atol=0.0)):
            raise ValueError(
                f"{self._who}: trees must be grown from 0, got a baseline of {shift:g}, the start value. Leave "
                "baseline out: the objective adds the start value by itself."
            )
        block = self._made()
        if approxes.any():
            self._block = block
        elif self._first_round.contradicts(targets, weights):
            raise self._other_weights()
        self._first_round.begun = True
        return block

    def _made(self) -> Callable[[Any, Any, Any], np.ndarray]:
        start = self._ready("Merge params(y) into the parameters of the estimator.")
        limits = _ANYWHERE if isinstance(start.score, tuple) else self._limits
        shape = self.loss, self.curvature, self._shift(), start.scale
        return _block(*shape, self._backend, self._precision, float(limits[0]), float(limits[1]))

    def _shift(self) -> float:
        """What blocks add to predictions: the start value of one target; those of many are added row by row."""
        score = self._ready("Merge params(y) into the parameters of the estimator.").score
        return 0.0 if isinstance(score, tuple) else score

    # -------------------------------------------------------------------------------------------------------- training

    def prepare(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """See the training labels: find the start value and the scale, and say in the log which route runs."""
        rows = super().prepare(labels, weights, groups)
        self._block, self._first_round = None, _FirstRound(rows)
        self._backend, self._precision = self._runs_on(rows), rows.precision
        self._limits = _ANYWHERE if self.bounds is None else inwards(self.bounds, rows.precision)
        if rows.kernel != "arrays" and self.route == "python":
            # compiled here: the threads that CatBoost calls from may have small stacks
            one = None if rows.weights is None else np.ones(1, np.float32)
            label = rows.labels.ravel()[:1]
            self._made()(label - self._shift(), label.astype(np.float32), one)
        return rows

    def _runs_on(self, rows: Rows) -> str:
        """Whose kernel computes blocks, which is not that of the metric."""
        if rows.kernel == "arrays" or self.route == "native":
            return super()._runs_on(rows)
        few = len(rows.labels) < _MANY
        return kernels.elementwise(self.loss.potential, backend="numpy" if few else None).backend

    def _train(self, plan: Plan) -> Model:
        given = dict(plan.params)
        categories = given.pop("cat_features", None)
        settings = {
            "iterations": plan.rounds, "allow_writing_files": False, "allow_const_label": True,
            **self._plan(plan.rows, given),
        }  # fmt: skip
        if not settings.keys() & {"verbose", "logging_level", "silent", "verbose_eval"}:
            settings["logging_level"] = "Silent"
        if plan.validation is None:  # nobody sees the metric
            settings.setdefault("metric_period", plan.rounds)
        if not np.ptp(plan.rows.labels):  # its usual sampling, by the size of gradients, fails where there are none
            settings.setdefault("bootstrap_type", "Bernoulli")
        booster = catboost.CatBoost(settings)
        booster.fit(
            self._pool(plan.X, plan.rows, categories),
            eval_set=None if plan.validation is None else self._pool(*plan.validation, categories),
            early_stopping_rounds=plan.early_stopping, use_best_model=plan.early_stopping is not None,
        )  # fmt: skip
        self._block = None
        self._give_start(booster)
        best = None if plan.early_stopping is None else booster.get_best_iteration()
        return Model(copy.copy(self), booster, best, booster.get_evals_result().get("validation", {}))

    def _plan(self, rows: Rows, given: dict[str, Any]) -> dict[str, Any]:
        """Parameters of the route."""
        own = self.native
        if own is None:
            return {**self._hooks(rows), **given}
        params = own.params(self._ready("Call prepare(labels)."), given)
        if rows.labels.ndim > 1:
            if own.kind is not Identity:
                raise ValueError(
                    f"{self._who}: the labels must be one for each row with route='native', got shape "
                    f"{rows.labels.shape}. Use route='python'."
                )
            params["loss_function"] = "MultiRMSE"
        return params

    def _pool(self, X: Any, rows: Rows, categories: Any) -> catboost.Pool:
        X, found = _with_categories(X)
        own, labels, baseline = self.native, rows.labels, None
        if own is not None:
            start = np.asarray(self._ready("Call prepare(labels).").score)
            # squared error may be shifted; a baseline for many targets is refused
            labels = labels - start if own.kind is Identity else own.labels(labels)
            baseline = None if own.kind is Identity else np.full(len(labels), own.margin(start))
        return catboost.Pool(
            X, labels, weight=rows.weights, baseline=baseline, cat_features=found if categories is None else categories
        )

    # ------------------------------------------------------------------------------------------------- trained boosters

    def _give_start(self, booster: catboost.CatBoost) -> None:
        """Scale and bias with which the booster's own predictions are scores."""
        start, own = self._ready("Call prepare(labels).").score, self.native
        stretch = 1.0 if own is None or own.kind is Identity else 1.0 / own.alpha
        booster.set_scale_and_bias(stretch, list(start) if isinstance(start, tuple) else start)

    def predict(self, booster: Any, X: Any, *, rounds: int | None = None) -> np.ndarray:
        """Scores from a booster that this objective has trained, whether or not the booster knows the start value.

        Parameters
        ----------
        booster : CatBoost or estimator
            Of CatBoost.
        X : array, data frame, sparse matrix or Pool
            Features.
        rounds : int, optional
            How many rounds to use; all by default.
        """
        start, own = self._ready("Predict with the objective that has trained the booster.").score, self.native
        X = X if isinstance(X, catboost.Pool) else _with_categories(X)[0]
        raw = np.asarray(booster.predict(X, prediction_type="RawFormulaVal", ntree_end=rounds or 0))
        stretch, bias = booster.get_scale_and_bias()
        trees = (raw - np.asarray(bias)) / stretch
        if own is None or own.kind is Identity:
            return self.inside(trees + np.asarray(start))
        return own.scores(trees + own.margin(start))

    def importances(self, booster: Any, rounds: int | None = None) -> np.ndarray:
        """How much predictions change on average with each feature."""
        if rounds is not None and rounds < booster.tree_count_:
            booster = booster.copy()
            booster.shrink(rounds)
        return np.nan_to_num(booster.get_feature_importance())  # NaN where no prediction changes

    def _known_params(self) -> frozenset[str]:
        return _listed()

    def _takes(self, name: str, value: Any) -> bool:
        try:
            catboost.core._check_train_params({name: value})
        except (AttributeError, catboost.CatBoostError) as error:  # an attribute that has moved tells nothing
            return "Unknown option" not in str(error)
        return True


@functools.cache
def _listed() -> frozenset[str]:
    """The parameters of CatBoost's estimators, aliases included; one of these no estimator lists."""
    makers = catboost.CatBoostRegressor, catboost.CatBoostClassifier, catboost.CatBoostRanker
    return frozenset(name for maker in makers for name in inspect.signature(maker).parameters) | {"verbose_eval"}


class _FirstRound:
    """What the blocks of a first round show, one by one: whether their weights are those that the start was made with.

    Parameters
    ----------
    source : Rows, optional
        That the start value comes from; None if nobody knows.
    """

    def __init__(self, source: Rows | None = None) -> None:
        self.begun = False
        self.weighted = None if source is None else source.weighted
        self.first: tuple[float, Any] | None = None
        self.differ = [False, False]
        if source is not None:  # as many as CatBoost hands over at a time
            labels = source.labels[:_BLOCK]
            self.labels = labels.astype(np.float32)
            self.weights = np.ones(len(labels)) if source.weights is None else source.weights[:_BLOCK]

    def contradicts(self, targets: Any, weights: Any) -> bool:
        """Whether the rows so far must start elsewhere."""
        if self.weighted is None:
            return False
        if self.weighted:
            return self._other(targets, np.ones(len(targets)) if weights is None else weights)
        if weights is None:
            return False
        self.first = self.first or (weights[0], targets[0])
        for i, (numbers, first) in enumerate(zip((weights, targets), self.first, strict=True)):
            self.differ[i] = self.differ[i] or bool(np.any(numbers != first))
        return all(self.differ)

    def _other(self, targets: Any, weights: Any) -> bool:
        """Whether these are the first rows, with other weights; a part of the rows may have any."""
        if not np.array_equal(targets, self.labels) or not np.ptp(targets):
            return False
        mine, theirs = (numbers / max(float(np.sum(numbers)), 1e-300) for numbers in (self.weights, weights))
        return not np.allclose(mine, theirs, rtol=1e-5, atol=0.0)


class _Turn:
    """Whose turn it is to be called by CatBoost: one thread works, the others sleep while it does.

    Calls need Python's lock. Threads that ask for it every few microseconds spend more time on passing it around than
    on their work; a single one does all blocks sooner, since CatBoost gives it those of the others.
    """

    def __init__(self) -> None:
        self.thread, self.last, self.waiting = 0, 0.0, 0

    def wait(self) -> None:
        """Sleep until the thread whose turn it is has been idle for a while; then it is the caller's."""
        _keep_thread_state()
        me, pause = get_ident(), _SHORTEST
        self.waiting += 1
        while self.thread != me and perf_counter() - self.last < _IDLE:
            sleep(pause)
            pause = min(2.0 * pause, _LONGEST * self.waiting)
        self.waiting -= 1
        self.thread = me


_thread = threading.local()


def _keep_thread_state() -> None:
    """Let a thread of CatBoost keep Python's record of it, once for its life.

    Python would otherwise make and throw away that record, with the memory for its frames, in every call: as long as a
    call takes. CatBoost uses the same few threads again and again.
    """
    if not hasattr(_thread, "kept"):
        ctypes.pythonapi.PyGILState_Ensure()
        _thread.kept = True


class _RowObjective(catboost.MultiTargetCustomObjective):
    """Many targets, which CatBoost hands over row by row; it tells them from one target by this class."""

    no_jit = True

    def __init__(self, objective: CatBoostObjective) -> None:
        self.objective = objective

    def calc_ders_multi(self, approxes: Any, targets: Any, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and curvature of each target of a row, with the signs turned."""
        start = self.objective._ready("Merge params(y) into the parameters of the estimator.")
        if not np.any(approxes) and self.objective._first_round.contradicts(
            np.asarray([targets]), np.asarray([weight])
        ):
            raise self.objective._other_weights()
        scores = np.clip(approxes + np.asarray(start.score), *self.objective._limits)
        pairs = weight * self.objective.calc_ders_range(scores, targets, None)
        return pairs[:, 0], np.diag(pairs[:, 1])


class _BlockMetric(Metric):
    """The mean matching loss, as CatBoost asks for it: a sum and what to divide it by."""

    objective: CatBoostObjective
    no_jit = True

    def is_max_optimal(self) -> bool:
        """Less is better."""
        return False

    def get_final_error(self, error: float, weight: float) -> float:
        """The mean."""
        return error / weight

    def evaluate(self, approxes: Any, targets: Any, weights: Any) -> tuple[float, float]:
        """The mean loss of a data set, and 1."""
        scores, labels = approxes[0], targets
        if isinstance(targets, tuple):
            scores, labels = np.stack(approxes, axis=1), np.stack(targets, axis=1)
        # views of CatBoost's memory, which it will free
        table = Table(np.array(labels), None if weights is None else np.array(weights))
        start = self.objective._ready("Merge params(y) into the parameters of the estimator.")
        return self.objective.seen(table).rows.value(scores + np.asarray(start.score)), 1.0


class _RowMetric(_BlockMetric, catboost.MultiTargetCustomMetric):
    """The same for many targets."""


# CatBoost reports a metric by the name of its class
_BlockMetric.__name__ = _RowMetric.__name__ = METRIC


# -------------------------------------------------------------------------------------------------- blocks of rows


def _block(
    loss: MatchingLoss, kind: str, start: float, scale: float, backend: str, precision: np.dtype, low: float,
    high: float,
) -> Callable[[Any, Any, Any], np.ndarray]:  # fmt: skip
    """A function of predictions, targets and weights of a block of rows, for pairs of turned derivatives."""
    if backend == "arrays":
        return functools.partial(_turned, functools.partial(_by_loss, loss, kind, start, scale))
    kernel = kernels.elementwise(loss.potential, backend=backend)
    compiled, shift = kernel.block(kind, precision), (start, low, high)
    if compiled is None:
        return functools.partial(_turned, functools.partial(_by_kernel, kernel, kind, shift, scale, precision))

    def block(approxes: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        return compiled(approxes, targets, weights, start, scale, low, high)

    return block


def _turned(derivatives: Callable[..., tuple[np.ndarray, np.ndarray]], *block: Any) -> np.ndarray:
    with np.errstate(all="ignore"):  # what is not finite is named by the caller
        pairs = -np.stack(derivatives(*block), axis=1)
    if not np.all(np.isfinite(pairs[:, 0])):
        raise FloatingPointError
    return pairs


def _by_kernel(
    kernel: Any, kind: str, shift: tuple[float, float, float], scale: float, precision: np.dtype, approxes: Any,
    targets: Any, weights: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    start, low, high = shift
    s_hat, s = np.clip(approxes + start, low, high).astype(precision), targets.astype(precision)
    return kernel.gradient_and_curvature(s_hat, s, kernel.link(s), kind=kind, weights=weights, scale=scale)


def _by_loss(
    loss: MatchingLoss, kind: str, start: float, scale: float, approxes: Any, targets: Any, weights: Any
) -> tuple[np.ndarray, np.ndarray]:
    s_hat, s = approxes + start, targets.astype(np.float64)
    factor = scale if weights is None else scale * weights
    return factor * loss.grad(s_hat, s), factor * loss.curvature(s_hat, s, kind=kind)


def _with_categories(X: Any) -> tuple[Any, list[Any] | None]:
    """A data frame whose columns of categories are words, as CatBoost wants them, and the names of these columns."""
    if not hasattr(X, "select_dtypes"):
        return X, None
    names = list(X.select_dtypes("category").columns)
    X = X.copy(deep=False)
    for name in names:
        X[name] = X[name].to_numpy(dtype=object).astype(str)  # a missing one is "nan"
    return X, names
