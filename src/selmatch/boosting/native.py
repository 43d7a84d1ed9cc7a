"""The boosters' own objectives, where they give the same trees as a matching loss under Newton's curvature.

A sigmoid link is the cross-entropy of soft labels h(y), in the margin m = alpha (z - beta); an identity link is squared
error. Trees and leaf values agree when the regularisation is converted from the units of the scores to those of the
margin: with the loss scaled by c, curvatures are c * gain * alpha times larger in scores than in margins, gradients
c * gain times, leaf values 1 / alpha times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.algebra import Affine
from selmatch.boosting.rows import Rows, Start
from selmatch.curves import Identity, Sigmoid
from selmatch.losses import MatchingLoss

#: the objective of each booster for each kind of link
_OBJECTIVES: dict[str, dict[type, dict[str, Any]]] = {
    "xgboost": {
        Sigmoid: {"objective": "reg:logistic"},
        Identity: {"objective": "reg:squarederror"},
    },
    "lightgbm": {
        Sigmoid: {"objective": "cross_entropy", "boost_from_average": False},
        Identity: {"objective": "regression", "boost_from_average": False},
    },
    "catboost": {
        Sigmoid: {"loss_function": "CrossEntropy", "leaf_estimation_method": "Newton", "boost_from_average": False},
        Identity: {"loss_function": "RMSE", "leaf_estimation_method": "Newton", "boost_from_average": False},
    },
}

_XGBOOST_NAMES = {"reg_lambda": "lambda", "reg_alpha": "alpha", "min_split_loss": "gamma"}
_LIGHTGBM_NAMES = {
    "reg_lambda": "lambda_l2", "lambda": "lambda_l2", "reg_alpha": "lambda_l1", "l1_regularization": "lambda_l1",
    "l2_regularization": "lambda_l2", "min_child_weight": "min_sum_hessian_in_leaf",
    "min_sum_hessian_per_leaf": "min_sum_hessian_in_leaf", "min_sum_hessian": "min_sum_hessian_in_leaf",
    "min_hessian": "min_sum_hessian_in_leaf", "min_split_gain": "min_gain_to_split",
    "max_tree_output": "max_delta_step", "max_leaf_output": "max_delta_step",
}  # fmt: skip
_CATBOOST_NAMES = {"reg_lambda": "l2_leaf_reg"}

#: for each booster: other names of a parameter; its default; and what it measures
_REGULARISATION: dict[str, tuple[dict[str, str], dict[str, tuple[float, str]]]] = {
    "xgboost": (
        _XGBOOST_NAMES,
        {
            "lambda": (1.0, "curvature"),
            "alpha": (0.0, "gradient"),
            "min_child_weight": (1.0, "curvature"),
            "gamma": (0.0, "gain"),
            "max_delta_step": (0.0, "leaf"),
        },
    ),
    "lightgbm": (
        _LIGHTGBM_NAMES,
        {
            "lambda_l2": (0.0, "curvature"),
            "lambda_l1": (0.0, "gradient"),
            "cegb_tradeoff": (1.0, "gain"),
            "min_sum_hessian_in_leaf": (1e-3, "curvature"),
            "min_gain_to_split": (0.0, "gain"),
            "max_delta_step": (0.0, "leaf"),
            "cat_l2": (10.0, "curvature"),
            "cat_smooth": (10.0, "curvature"),
            "linear_lambda": (0.0, "curvature"),
        },
    ),
    "catboost": (_CATBOOST_NAMES, {"l2_leaf_reg": (3.0, "curvature")}),
}

#: a linear booster has other defaults, and nothing to say about leaves
_LINEAR = {"lambda": (0.0, "curvature"), "alpha": (0.0, "gradient")}


def _regularisation(booster: str, given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, tuple[float, str]]]:
    """Of a booster and the user's parameters."""
    aliases, known = _REGULARISATION[booster]
    return aliases, _LINEAR if _is_linear(booster, given) else known


def _is_linear(booster: str, given: Mapping[str, Any]) -> bool:
    return booster == "xgboost" and given.get("booster") == "gblinear"


def unlike(booster: str, kind: type, given: Mapping[str, Any]) -> str | None:
    """Why a booster's own objective and a Python objective train other models with these parameters; None if not."""

    def asks(names: str, *values: Any) -> str | None:
        return next((f"{name}={given[name]!r}" for name in names.split() if given.get(name) in values), None)

    if booster == "lightgbm":
        if found := asks("boosting boosting_type boost", "dart"):
            return f"{found}, for which LightGBM does not repeat its draws with a Python objective"
        if kind is Identity and (found := asks("reg_sqrt", True, 1, "true", "1", "+")):
            return f"{found}, which only LightGBM's own objective follows"
    if booster == "xgboost":
        if given.get("scale_pos_weight") not in (None, 1, "1"):
            return f"scale_pos_weight={given['scale_pos_weight']!r}, which only XGBoost's own objective follows"
        if kind is Sigmoid and (found := asks("tree_method", "approx")):
            return f"{found}, which places cuts by curvature only for XGBoost's own objective"
        if kind is Sigmoid and (found := asks("sampling_method", "gradient_based")):
            return f"{found}, which depends on the scale of gradients"
    return None


#: at the start curvatures are 1 up to rounding, on which it must not depend whether k rows reach a weight of k
_SLACK = 1.0 - 1e-5
_LEAST_WEIGHT = {"xgboost": "min_child_weight", "lightgbm": "min_sum_hessian_in_leaf"}


def slackened(booster: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with the least weight of a leaf a trifle lower, under its first name."""
    if _is_linear(booster, given):
        return dict(given)
    aliases, known = _REGULARISATION[booster]
    name = _LEAST_WEIGHT[booster]
    values = [value for alias, value in given.items() if aliases.get(alias, alias) == name]
    others = {alias: value for alias, value in given.items() if aliases.get(alias, alias) != name}
    return {**others, name: _SLACK * (values[-1] if values else known[name][0])}


@dataclass(frozen=True)
class Native:
    """How a booster's own objective trains a loss: labels and parameters to give it, and scores from its margins.

    Attributes
    ----------
    booster : str
        "xgboost", "lightgbm" or "catboost".
    kind : type
        Sigmoid or Identity.
    alpha, beta, gain : float
        Of the link.
    """

    booster: str
    kind: type
    alpha: float
    beta: float
    gain: float

    def labels(self, y: Any) -> np.ndarray:
        """What to train the booster on: link values for a sigmoid, the labels themselves for an identity."""
        y = np.asarray(y, dtype=np.float64)
        return y if self.kind is Identity else Sigmoid()(self.margin(y))

    def margin(self, scores: Any) -> Any:
        """Scores as the booster's raw predictions."""
        return scores if self.kind is Identity else self.alpha * (np.asarray(scores, dtype=np.float64) - self.beta)

    def scores(self, margin: Any) -> Any:
        """Raw predictions of the booster as scores."""
        return margin if self.kind is Identity else self.beta + np.asarray(margin, dtype=np.float64) / self.alpha

    def base(self, start: Start) -> float | list[float]:
        """The start value as XGBoost's base_score: a link value for a sigmoid, the score itself for an identity."""
        if self.kind is Identity:
            return np.asarray(start.score).tolist()
        # XGBoost keeps it in single precision and refuses 1
        return np.minimum(Sigmoid()(self.margin(start.score)), 1.0 - 2.0**-24).tolist()

    def params(self, start: Start, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Parameters for the booster: its objective, and the regularisation in its units.

        Parameters
        ----------
        start : Start
            From the training labels.
        given : mapping, optional
            The user's parameters, in the units of the Python objective; all others keep their defaults, in these units
            too.
        """
        given = dict(given or {})
        aliases, known = _regularisation(self.booster, given)
        values = {name: default for name, (default, _) in known.items()}
        for name, value in given.items():
            values.update({aliases.get(name, name): value} if aliases.get(name, name) in known else {})
        others = {name: value for name, value in given.items() if aliases.get(name, name) not in known}
        per_unit = self._units(start)
        converted = {name: float(value) / per_unit[known[name][1]] for name, value in values.items()}
        return {**others, **_OBJECTIVES[self.booster][self.kind], **converted}

    def _units(self, start: Start) -> dict[str, float]:
        """How many units of the Python objective one unit of the native objective is."""
        if self.kind is Identity:  # the scale makes the curvature 1, as it is in squared error
            return {"curvature": 1.0, "gradient": 1.0, "gain": 1.0, "leaf": 1.0}
        gradient = start.scale * self.gain
        return {
            "curvature": gradient * self.alpha,
            "gradient": gradient,
            "gain": gradient / self.alpha,
            "leaf": 1.0 / self.alpha,
        }


def of(booster: str, loss: MatchingLoss) -> Native | None:
    """The native objective of a loss, if the booster has one."""
    curve = loss.potential
    alpha, beta, gain = 1.0, 0.0, 1.0
    if isinstance(curve, Affine):
        alpha, beta, gain, curve = curve.alpha, curve.beta, curve.gain, curve.curve
    kind = type(curve)
    return (
        Native(booster, kind, float(alpha), float(beta), float(gain)) if kind in _OBJECTIVES.get(booster, {}) else None
    )


def choose(who: str, booster: str, loss: MatchingLoss, curvature: str, route: str | None, ranking: str | None) -> str:
    """The route that runs: "native" where it is asked for or gives the same trees, else "python"."""
    found = of(booster, loss) if ranking is None else None
    if route == "native":
        found = _known(who, found, loss)
        if curvature == "secant" and found.kind is not Identity:
            raise ValueError(
                f"{who}: route='native' must have curvature='newton', got 'secant'. The booster's own objective uses "
                "second derivatives."
            )
        return "native"
    # CatBoost's split scores weigh rows, not curvatures: its regularisation cannot be converted
    exact = found is not None and (found.kind is Identity or booster != "catboost")
    return "native" if route is None and curvature == "newton" and exact else "python"


def _known(who: str, found: Native | None, loss: MatchingLoss) -> Native:
    if found is None:
        raise ValueError(
            f"{who}: route='native' must have a link that the booster knows, got {loss!r}. It knows Sigmoid() and "
            "Identity(), stretched and shifted. Use route='python'."
        )
    return found


def native_params(
    loss: Any, booster: str, *, labels: Any = None, weights: Any = None, start: Start | None = None,
    params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Parameters with which a booster's own objective trains a loss, for where no Python can run (Spark, C++, R).

    Train on ``native_labels(loss, y)`` and turn raw margins into scores with ``native_scores(loss, margin)``.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        With a sigmoid or identity link, stretched and shifted.
    booster : {"xgboost", "lightgbm", "catboost"}
        Whose parameters.
    labels, weights : array, optional
        Of the training set, or of a sample of it: they set the start value and the scale.
    start : Start, optional
        Instead of labels.
    params : mapping, optional
        Your parameters; regularisation in the units of the Python objective, whose mean curvature is 1.

    Examples
    --------
    >>> from selmatch.boosting import native_params
    >>> native_params(Sigmoid().affine(alpha=2.0), "xgboost", labels=[-1.0, 0.0, 1.0])
    {'objective': 'reg:logistic', 'lambda': 0.25, 'alpha': 0.0, 'min_child_weight': 0.25, 'gamma': 0.0, ...}
    """
    from selmatch.boosting.objective import checked_loss

    who = "selmatch.boosting.native_params"
    if booster not in _OBJECTIVES:
        raise ValueError(f"{who}: booster must be one of {', '.join(_OBJECTIVES)}, got {booster!r}.")
    made = checked_loss(who, loss, None)
    found = _known(who, of(booster, made), made)
    reason = unlike(booster, found.kind, params or {})
    if reason is not None:
        raise ValueError(f"{who}: params must not hold {reason}. Leave it out.")
    if start is None:
        if labels is None:
            raise ValueError(f"{who}: labels or start must be given, got neither. A sample of the labels will do.")
        start = Rows(who, made, labels, weights).start("newton")
    result = found.params(start, params)
    return {**result, "base_score": found.base(start)} if booster == "xgboost" else result


def native_labels(loss: Any, y: Any) -> np.ndarray:
    """What to train a booster's own objective on; see :func:`native_params`.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        With a sigmoid or identity link, stretched and shifted.
    y : array
        Labels.

    Examples
    --------
    >>> from selmatch.boosting import native_labels
    >>> native_labels(Sigmoid().affine(alpha=2.0, beta=5.0), [5.0, 6.0])
    array([0.5       , 0.88079708])
    """
    return _any("selmatch.boosting.native_labels", loss).labels(y)


def native_scores(loss: Any, margin: Any) -> Any:
    """Raw margins of a booster's own objective as scores; see :func:`native_params`.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        With a sigmoid or identity link, stretched and shifted.
    margin : array
        Predictions of the booster before its own link.

    Examples
    --------
    >>> from selmatch.boosting import native_scores
    >>> native_scores(Sigmoid().affine(alpha=2.0, beta=5.0), [0.0, 2.0])
    array([5., 6.])
    """
    return _any("selmatch.boosting.native_scores", loss).scores(margin)


def _any(who: str, loss: Any) -> Native:
    from selmatch.boosting.objective import checked_loss

    made = checked_loss(who, loss, None)
    return _known(who, of("xgboost", made), made)
