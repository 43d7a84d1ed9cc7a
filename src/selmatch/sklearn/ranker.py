"""A boosted ranker trained with a matching loss of lists."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import ndcg_score
from sklearn.utils import column_or_1d

from selmatch.boosting.objective import checked_loss
from selmatch.boosting.rows import checked_groups, checked_weights
from selmatch.composite import CompositeSoftmax
from selmatch.curves import Identity
from selmatch.losses import MatchingLoss
from selmatch.ranking import Sizes
from selmatch.sklearn.base import real_targets, wished_loss
from selmatch.sklearn.boosted import Boosted
from selmatch.sklearn.features import picked

#: for each kind: what focus calls it, the word that it looks for by default, and a loss for equal labels
_KINDS = {
    "listwise": ("lists", "high", CompositeSoftmax()),
    "pairwise": ("pairs", "extremes", Identity()),
}


class SelectiveRanker(Boosted, BaseEstimator):
    """Boosted trees that put lists in order, and are careful where order matters.

    Listwise, a composite Softmax over each list looks at items whose labels are in focus; pairwise, a link of label
    differences looks at pairs. Labels may be any floats; their scale matters: see
    :func:`selmatch.ranking.labels_to_scores`.

    Parameters
    ----------
    backend : {"lightgbm", "xgboost"}
        Who grows the trees.
    loss : MatchingLoss, potential or curve, optional
        A :class:`CompositeSoftmax` for lists, a single link for pairs. None makes a loss from words.
    ranking : {"listwise", "pairwise"}
        How lists are compared.
    focus : str, optional
        Which labels matter ("high", "low", "middle", "extremes"), or for pairs which sizes of differences ("extremes",
        "middle"). Default: "high" labels, and for pairs "extremes".
    between : (low, high), optional
        The labels, or sizes of differences, that matter, instead of a word.
    top, strength : float
        The share of items or pairs that a word means, and how much more they matter.
    curvature, n_estimators, learning_rate, backend_params, random_state, n_jobs
        As for :class:`SelectiveRegressor`.
    kind : str
        The old name of ``ranking``.
    early_stopping : int, optional
        Stop after so many rounds without a better loss on lists that are held out.
    validation_fraction : float
        The share of lists to hold out for it.

    Attributes
    ----------
    loss_ : MatchingLoss
        What it was trained with.
    booster_ : object
        The backend's own: a Booster of LightGBM or XGBoost.
    model_ : selmatch.boosting.training.Model
        What predicts: ``booster_`` together with the start value, ``model_.objective``.
    feature_importances_ : array of shape (features,)
        The share of each feature in what the splits gained, with sum 1.
    n_iter_ : int
        Rounds that predictions use.

    Examples
    --------
    >>> from selmatch.sklearn import SelectiveRanker
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(400, 2))
    >>> y = X[:, 0] + 0.1 * random.normal(size=400)
    >>> ranker = SelectiveRanker(n_estimators=20).fit(X, y, qid=np.repeat(np.arange(40), 10))
    >>> ranker.score(X, y, qid=np.repeat(np.arange(40), 10)) > 0.95
    True
    """

    _backends = ("lightgbm", "xgboost")

    def __init__(
        self,
        backend: str = "lightgbm",
        loss: Any = None,
        *,
        ranking: str = "listwise",
        focus: Any = None,
        between: Any = None,
        top: float = 0.1,
        strength: float = 8.0,
        curvature: str = "secant",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        backend_params: Mapping[str, Any] | None = None,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        n_jobs: int | None = None,
        kind: str = "deprecated",
    ) -> None:
        self.backend = backend
        self.loss = loss
        self.ranking = ranking
        self.focus = focus
        self.between = between
        self.top = top
        self.strength = strength
        self.curvature = curvature
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.backend_params = backend_params
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.kind = kind

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None, qid: Any = None) -> SelectiveRanker:
        """Train.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n, features)
            Features of the items; NaN is missing.
        y : array of shape (n,)
            Labels of the items: higher is better.
        sample_weight : array of shape (lists,) or (n,), optional
            Weights of the lists, by group or in ascending order of their ids; or of the items, whose mean is then the
            weight of their list.
        group : array of int, optional
            Sizes of the lists, which lie one behind the other.
        qid : array of shape (n,), optional
            The list of each item, instead; items of a list need not be neighbours. Without either, all are one list.
        """
        X, y = self._checked_features(X, y, reset=True)
        who, y = type(self).__name__, column_or_1d(y, warn=True)
        ranking = self._chosen_ranking()
        lists = _lists(who, len(y), group, qid)
        if lists.sizes.max() < 2:
            raise ValueError(
                f"{who}: at least one list must have 2 items, got n_samples = {len(y)} in {len(lists.sizes)} lists."
            )
        weights = None if sample_weight is None else _weights(who, sample_weight, lists)
        if not lists.sorted:
            X, y = picked(X, lists.order), y[lists.order]
        self.loss_ = self._chosen_loss(ranking, y, lists.sizes, weights)
        objective = self._objective(self.loss_, ranking=ranking)
        if self.early_stopping is None:
            self._train(objective, X, y, weights=weights, groups=lists.sizes)
            return self
        held = self._held_out(len(lists.sizes))
        rows = np.repeat(held, lists.sizes)
        (X, y, weights, groups), validation = (
            (picked(X, r), y[r], None if weights is None else weights[g], lists.sizes[g])
            for r, g in ((~rows, ~held), (rows, held))
        )
        self._train(objective, X, y, weights=weights, groups=groups, validation=validation)
        return self

    def _chosen_ranking(self) -> str:
        who, chosen = type(self).__name__, self.ranking
        if self.kind != "deprecated":
            warnings.warn(
                f"{who}: kind has become ranking, got kind={self.kind!r}. Give ranking={self.kind!r} instead; kind "
                "will go.",
                DeprecationWarning,
                stacklevel=3,
            )
            chosen = self.kind
        if chosen not in _KINDS:
            raise ValueError(f"{who}: ranking must be 'listwise' or 'pairwise', got {chosen!r}.")
        return chosen

    def _chosen_loss(self, ranking: str, y: np.ndarray, sizes: np.ndarray, weights: np.ndarray | None) -> MatchingLoss:
        of, word, plain = _KINDS[ranking]
        if self.loss is not None:
            return checked_loss(type(self).__name__, self.loss, ranking)
        if not np.ptp(y) > 0.0:
            return MatchingLoss(plain)
        return wished_loss(self, word, y, weights, of=of, segments=Sizes(sizes))

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None, qid: Any = None, k: int | None = None
    ) -> float:
        """The mean NDCG of the lists, by scikit-learn's ``ndcg_score``.

        Gains are labels minus the smallest label of all, since labels may be negative. Lists whose labels are all equal
        have no order and are left out.

        Parameters
        ----------
        X, y, sample_weight, group, qid
            As for :meth:`fit`.
        k : int, optional
            How many items of each list count; all by default.
        """
        who = type(self).__name__
        y = column_or_1d(real_targets(who, y))
        lists = _lists(who, len(y), group, qid)
        weights = np.ones(len(lists.sizes)) if sample_weight is None else _weights(who, sample_weight, lists)
        gains, scores = (y - y.min())[lists.order], self.predict(X)[lists.order]
        ends = np.cumsum(lists.sizes)
        found = [
            (weight, ndcg_score(gains[None, end - size : end], scores[None, end - size : end], k=k))
            for weight, size, end in zip(weights, lists.sizes, ends, strict=True)
            if size > 1 and np.ptp(gains[end - size : end]) > 0.0
        ]
        if not found or not any(weight for weight, _ in found):
            warnings.warn(
                f"{who}: NDCG is not defined, since no list has labels that differ.",
                UndefinedMetricWarning,
                stacklevel=2,
            )
            return float("nan")
        return float(np.average([value for _, value in found], weights=[weight for weight, _ in found]))


class _Lists(NamedTuple):
    """In which order items are neighbours in their lists, and how long the lists are."""

    order: np.ndarray
    sizes: np.ndarray
    sorted: bool


def _lists(who: str, rows: int, group: Any, qid: Any) -> _Lists:
    if group is not None and qid is not None:
        raise ValueError(f"{who}: lists must be given by group or by qid, got both.")
    if qid is None:
        sizes = np.array([rows]) if group is None else checked_groups(who, group, rows)
        return _Lists(np.arange(rows), sizes, True)
    ids = np.asarray(qid)
    if ids.shape != (rows,):
        raise ValueError(f"{who}: qid must be one for each row, shape ({rows},), got shape {ids.shape}.")
    _, inverse, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    return _Lists(order, sizes, bool(np.all(np.diff(inverse) >= 0)))


def _weights(who: str, given: Any, lists: _Lists) -> np.ndarray:
    """Weights of lists; those of items are averaged."""
    weights, rows = np.asarray(given), len(lists.order)
    if len(lists.sizes) == rows or weights.shape[:1] != (rows,):
        return checked_weights(who, weights, len(lists.sizes), True)
    items = checked_weights(who, weights, rows, False)[lists.order]
    ids = np.repeat(np.arange(len(lists.sizes)), lists.sizes)
    return np.bincount(ids, items, len(lists.sizes)) / np.maximum(lists.sizes, 1)
