"""What the objectives of all boosters share: the loss, where to start, gradients and curvatures, the metric."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from selmatch import ranking as forms
from selmatch.boosting import native
from selmatch.boosting.rows import Rows, Start, ends
from selmatch.losses import MatchingLoss, loss_of
from selmatch.scales import require_scores

_log = logging.getLogger("selmatch.boosting")

#: the name of the metric, wherever a booster wants one
METRIC = "matching_loss"


class Objective:
    """A loss as an objective of a booster.

    It becomes usable when it has seen the training labels (:meth:`prepare`, which the front ends call): then the start
    value and the scale of the loss are known, and stay.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        What to train with.
    curvature : {"secant", "newton"}
        Gradient over distance, which is stable from any start; or the second derivative at the prediction.
    route : {None, "python", "native"}
        None takes the booster's own objective where it gives the same trees as ``curvature="newton"``, else Python.
    ranking : {None, "pairwise", "listwise"}
        How lists are compared; None for rows that stand alone.

    Examples
    --------
    Boosters have subclasses of it (:func:`selmatch.boosting.xgboost` and so on); by itself it tells where to start.

    >>> objective = sm.boosting.Objective(Sinh().affine(alpha=0.5))
    >>> rows = objective.prepare([0.0, 1.0, 8.0])
    >>> round(objective.start.score, 3)
    5.846
    """

    #: the library, as people write it, and as :func:`selmatch.boosting.native_params` knows it
    library, booster = "", ""

    def __init__(
        self, loss: Any, *, curvature: str = "secant", route: str | None = None, ranking: str | None = None
    ) -> None:
        self._who = f"selmatch.boosting.{self.booster}"
        self.loss = checked_loss(self._who, loss, ranking)
        for name, value, known in (
            ("curvature", curvature, ("secant", "newton")),
            ("route", route, (None, "python", "native")),
            ("ranking", ranking, (None, "pairwise", "listwise")),
        ):
            if value not in known:
                words = " or ".join(repr(word) for word in known)
                raise ValueError(f"{self._who}: {name} must be {words}, got {value!r}.")
        self.curvature, self.ranking = curvature, ranking
        self._wanted_route = route
        self.route = native.choose(self._who, self.booster, self.loss, curvature, route, ranking)
        self.start: Start | None = None

    def __repr__(self) -> str:
        given = [repr(self.loss), f"curvature={self.curvature!r}", f"route={self.route!r}"]
        if self.ranking is not None:
            given.append(f"ranking={self.ranking!r}")
        return f"{self._who}({', '.join(given)})"

    @property
    def _form(self) -> Any:
        return None if self.ranking is None else getattr(forms, self.ranking)

    def rows(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """A data set, checked and with its links cached."""
        found = Rows(self._who, self.loss, labels, weights, form=self._form, groups=groups)
        found.bounds = self.bounds
        return found

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """Ends between which scores are taken, for a link that ends somewhere, once the start value is known."""
        return None if self.start is None or self.ranking is not None else ends(self.loss, self.start)

    def inside(self, scores: np.ndarray) -> np.ndarray:
        """Scores of trees, moved into the domain of the link."""
        return scores if self.bounds is None else np.clip(scores, *self.bounds)

    def prepare(self, labels: Any, weights: Any = None, groups: Any = None) -> Rows:
        """See the training labels: find the start value and the scale, and say in the log which route runs."""
        rows = self.rows(labels, weights, groups)
        rows.bounds = None  # those of an earlier training
        self.start = rows.start(self.curvature)
        rows.bounds = self.bounds
        self._require_curvature(rows)
        _log.info(
            "%s: %s route, %s curvature, %s kernel, start %s, scale %.6g, %r",
            self.library, self.route, self.curvature, self._runs_on(rows), self.start.score, self.start.scale,
            self.loss,
        )  # fmt: skip
        return rows

    def _runs_on(self, rows: Rows) -> str:
        """Whose kernel computes gradients."""
        return "the booster's" if self.route == "native" else rows.kernel

    def _require_curvature(self, rows: Rows) -> None:
        """A link of jumps has no second derivatives: boosters would find nothing to split, without a word."""
        if self.curvature == "newton":
            scores = self.start_scores(len(rows.labels))
            if not np.any(rows.gradient_and_curvature(scores, 1.0, "newton")[1]):
                raise ValueError(
                    f"{self._who}: curvature='newton' must have a link with a slope at the start value, got "
                    f"{self.loss!r}. Use curvature='secant'."
                )

    def _ready(self, remedy: str) -> Start:
        if self.start is None:
            raise ValueError(
                f"{self._who}: the objective must see the training labels before training starts, got none. {remedy}"
            )
        return self.start

    def _python_only(self, what: str) -> None:
        if self.route == "native":
            raise ValueError(
                f"{self._who}: {what} must not be used with route='native', where the booster's own objective runs. "
                "Use fit(...), or route='python'."
            )

    def start_scores(self, rows: int) -> np.ndarray:
        """The start value for each row, as boosters take it: one column for each target."""
        score = np.asarray(self._ready("Call prepare(labels).").score)
        return np.broadcast_to(score, (rows, *score.shape)).copy()


def checked_loss(who: str, loss: Any, ranking: str | None) -> MatchingLoss:
    """A loss that boosters can train with; curves and potentials become one."""
    made = loss_of(who, loss)
    require_scores(
        who, made,
        "Train on logarithms of the labels with loss.with_scale(None), and undo them in the predictions; "
        "SelectiveRegressor does both.",
    )  # fmt: skip
    if ranking == "listwise" and not made.vector:
        raise TypeError(
            f"{who}: loss must have a CompositeSoftmax for ranking='listwise', got {made.potential!r}. "
            "Try MatchingLoss(CompositeSoftmax(scaling))."
        )
    if ranking == "pairwise" and made.vector:
        raise TypeError(f"{who}: loss must have a single link for ranking='pairwise', got {made.potential!r}.")
    return made
