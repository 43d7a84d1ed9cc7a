"""Objectives of CatBoost: for its estimators and ``Pool``, one target or many."""

from __future__ import annotations

import copy
import ctypes
import functools
import threading
from collections.abc import Callable, Mapping
from threading import get_ident
from time import perf_counter, sleep
from typing import Any

import catboost
import numpy as np

from selmatch import kernels
from selmatch.boosting.objective import METRIC
from selmatch.boosting.rows import Rows
from selmatch.boosting.training import Metric, Model, RoundObjective, Table
from selmatch.columns import real_array
from selmatch.curves import Identity
from selmatch.losses import MatchingLoss

__all__ = ["CatBoostObjective"]

#: what CatBoost's own objectives do by default, and user-defined ones do not
_NEWTON = {"leaf_estimation_method": "Newton", "leaf_estimation_iterations": 1}

#: seconds without a call after which a thread is taken to be done; and for which others sleep meanwhile, the longer
#: the more they are
_IDLE, _SHORTEST, _LONGEST = 5e-5, 1e-4, 3e-4

#: from so many rows on compiled blocks pay for their compilation
_MANY = 20_000


class CatBoostObjective(RoundObjective):
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

    library, booster = "CatBoost", "catboost"

    #: CatBoost would try to compile methods by itself, which use ``self`` and cannot be
    no_jit = True

    def __init__(self, loss: Any, **options: Any) -> None:
        super().__init__(loss, **options)
        if self.ranking is not None:
            raise ValueError(
                f"{self._who}: ranking must be None, got {self.ranking!r}: CatBoost hands no lists over to an "
                "objective. Use XGBoost or LightGBM."
            )
        self._block: Callable[[Any, Any, Any], np.ndarray] | None = None
        self._turn = _Turn()
        self._backend, self._precision = "arrays", np.dtype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_block": None}

    def rows(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """A data set, checked, in single precision as CatBoost keeps it."""
        if groups is not None:
            raise ValueError(f"{self._who}: groups must be None, got lists, which CatBoost hands over to no objective.")
        with np.errstate(over="ignore"):
            kept = real_array(self._who, "the labels", labels, kinds="iufb").astype(np.float32)
        return super().rows(kept, weights)

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
            return (self._block or self._prepared(approxes))(approxes, targets, weights)
        except FloatingPointError:
            raise self._outside(approxes + self._shift()) from None
        finally:
            self._turn.last = perf_counter()

    def _prepared(self, approxes: np.ndarray) -> Callable[[Any, Any, Any], np.ndarray]:
        """What computes blocks; made again in every copy of this object."""
        shift = self._shift()
        if shift and np.all(np.isclose(approxes, shift, rtol=1e-6, atol=0.0)):
            raise ValueError(
                f"{self._who}: trees must be grown from 0, got a baseline of {shift:g}, the start value. Leave "
                "baseline out: the objective adds the start value by itself."
            )
        self._block = self._made()
        return self._block

    def _made(self) -> Callable[[Any, Any, Any], np.ndarray]:
        start = self._ready("Merge params(y) into the parameters of the estimator.")
        return _block(self.loss, self.curvature, self._shift(), start.scale, self._backend, self._precision)

    def _shift(self) -> float:
        """What blocks add to predictions: the start value of one target; those of many are added row by row."""
        score = self._ready("Merge params(y) into the parameters of the estimator.").score
        return 0.0 if isinstance(score, tuple) else score

    # -------------------------------------------------------------------------------------------------------- training

    def prepare(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """See the training labels: find the start value and the scale, and say in the log which route runs."""
        rows = super().prepare(labels, weights, groups)
        self._block, self._backend, self._precision = None, rows.kernel, rows.precision
        if rows.kernel != "arrays" and self.route == "python":
            few = len(rows.labels) < _MANY
            self._backend = kernels.elementwise(self.loss.potential, backend="numpy" if few else None).backend
            # compiled here: the threads that CatBoost calls from may have small stacks
            one = None if rows.weights is None else np.ones(1, np.float32)
            self._made()(np.zeros(1), rows.labels.ravel()[:1].astype(np.float32), one)
        return rows

    def fit(
        self, X: Any, y: Any, *, weights: Any = None, groups: Any = None, rounds: int = 100,
        params: Mapping[str, Any] | None = None, validation: Any = None, early_stopping: int | None = None,
    ) -> Model:  # fmt: skip
        """Train on the route that was chosen, from the right start, with the right metric.

        Parameters
        ----------
        X : array, data frame or sparse matrix
            Features, as CatBoost takes them; columns of categories are used as such.
        y : array
            Targets; rows of targets for many.
        weights : array, optional
            Of rows.
        groups : None
            There are no lists here.
        rounds : int
            How many.
        params : mapping, optional
            CatBoost's parameters, by its names; ``l2_leaf_reg`` in the units of a loss with mean curvature 1. With
            ``route="native"`` and a sigmoid link it is converted for leaves, which is too little in the choice of
            splits.
        validation : tuple, optional
            (X, y) or (X, y, weights).
        early_stopping : int, optional
            Stop after so many rounds without a better matching loss on the validation set.

        Returns
        -------
        Model
            Its booster predicts scores by itself, also when it is saved and loaded.
        """
        rows = self.prepare(y, weights, groups)
        validated = self._validation_rows(validation, early_stopping)
        given = dict(params or {})
        categories = given.pop("cat_features", None)
        settings = {"iterations": rounds, "allow_writing_files": False, **self._plan(rows, given)}
        if not settings.keys() & {"verbose", "logging_level", "silent", "verbose_eval"}:
            settings["logging_level"] = "Silent"
        if validated is None:  # nobody sees the metric
            settings.setdefault("metric_period", rounds)
        booster = catboost.CatBoost(settings)
        booster.fit(
            self._pool(X, rows, categories),
            eval_set=None if validated is None else self._pool(*validated, categories),
            early_stopping_rounds=early_stopping, use_best_model=early_stopping is not None,
        )  # fmt: skip
        self._seen, self._block = [], None
        self._give_start(booster)
        best = None if early_stopping is None else booster.get_best_iteration()
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
            return trees + np.asarray(start)
        return own.scores(trees + own.margin(start))


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
        pairs = weight * self.objective.calc_ders_range(approxes + np.asarray(start.score), targets, None)
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
    loss: MatchingLoss, kind: str, start: float, scale: float, backend: str, precision: np.dtype
) -> Callable[[Any, Any, Any], np.ndarray]:
    """A function of predictions, targets and weights of a block of rows, for pairs of turned derivatives."""
    if backend == "arrays":
        return functools.partial(_turned, functools.partial(_by_loss, loss, kind, start, scale))
    kernel = kernels.elementwise(loss.potential, backend=backend)
    links, derivatives = (kernel.plan(name, precision) for name in ("link_values", kind))
    if links is None or derivatives is None:
        return functools.partial(_turned, functools.partial(_by_kernel, kernel, kind, start, scale, precision))
    compiled, limits = _fused(links.loop, derivatives.loop, precision), (float(np.finfo(precision).max), kernel.reach)

    def block(approxes: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        return compiled(approxes, targets, weights, start, scale, *limits, links.numbers, derivatives.numbers)

    return block


@functools.cache
def _fused(links: Any, derivatives: Any, precision: np.dtype) -> Any:
    """One compiled function for a block: several calls would cost more than what they compute."""
    import numba

    link_of, derive = links.dispatcher, derivatives.dispatcher

    @numba.njit(error_model="numpy")  # keeps Python's lock, which CatBoost needs again at once
    def block(approxes, targets, weights, start, scale, largest, reach, link_numbers, numbers):
        count = len(approxes)
        s_hat, s, known = np.empty(count, precision), np.empty(count, precision), np.empty(count, precision)
        gradient, curvature = np.empty(count, precision), np.empty(count, precision)
        for i in range(count):
            s_hat[i], s[i] = approxes[i] + start, targets[i]
        link_of(s, known, link_numbers)
        derive(s_hat, s, known, weights, scale, largest, reach, gradient, curvature, numbers)
        pairs = np.empty((count, 2), precision)
        finite = True
        for i in range(count):
            pairs[i, 0], pairs[i, 1] = -gradient[i], -curvature[i]
            finite &= np.isfinite(gradient[i])
        if not finite:
            raise FloatingPointError
        return pairs

    return block


def _turned(derivatives: Callable[..., tuple[np.ndarray, np.ndarray]], *block: Any) -> np.ndarray:
    with np.errstate(all="ignore"):  # what is not finite is named by the caller
        pairs = -np.stack(derivatives(*block), axis=1)
    if not np.all(np.isfinite(pairs[:, 0])):
        raise FloatingPointError
    return pairs


def _by_kernel(
    kernel: Any, kind: str, start: float, scale: float, precision: np.dtype, approxes: Any, targets: Any, weights: Any
) -> tuple[np.ndarray, np.ndarray]:
    s_hat, s = (approxes + start).astype(precision), targets.astype(precision)
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
