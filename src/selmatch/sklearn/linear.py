"""A linear model trained with a matching loss."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from selmatch.boosting.frames import Columns
from selmatch.parameters import number
from selmatch.sklearn.base import Selective, real_targets, whole
from selmatch.sklearn.solving import Point, Problem, minimised


class SelectiveLinearModel(Selective):
    r"""A linear model whose few coefficients go where accuracy matters.

    It predicts scores for h^-1(E[h(Y) | x]), not for the mean.

    .. math:: \min_{W, b} \frac{1}{\sum_i w_i} \sum_i w_i L(x_i W + b, s_i) + \frac{\alpha}{2} \lVert W \rVert^2

    The problem is convex and solved by Newton's method to many digits. A linear model cannot be right everywhere: the
    loss decides where it is.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve, optional
        What to train with; a :class:`CompositeSoftmax` or :class:`Separable` for targets with several columns. None
        makes a loss from the following four. A loss of logarithms (``loss.scale``) takes targets and predicts targets.
    focus : {"high", "low", "middle", "extremes"}
        Which targets matter, as for :func:`selmatch.focus`.
    between : (low, high), optional
        The targets that matter, instead of a word.
    top : float
        The share of rows that a word means.
    strength : float
        How much more they matter.
    alpha : float
        Penalty on the squared coefficients, >= 0; the intercept is free. In the scale of scikit-learn's generalised
        linear models: for an identity link, that of ``Ridge`` divided by the number of rows. Losses made from words
        have mean sensitivity 1, so that one alpha fits them all.
    fit_intercept : bool
        Whether to add an intercept.
    max_iter : int
        The largest number of Newton steps.
    tol : float
        Stop when the scores are known to this share of their spread, > 0; the last step gains about as many digits
        again.
    warm_start : bool
        Whether a second fit starts from the coefficients of the first.

    Attributes
    ----------
    coef_ : array of shape (features,) or (classes, features)
        Coefficients.
    intercept_ : float or array of shape (classes,)
        Intercepts.
    loss_ : MatchingLoss
        What it was trained with; ``loss_.wish`` says what came of the words.
    n_iter_ : int
        Newton steps taken.

    Notes
    -----
    Links with a bounded domain (:class:`Log`, :class:`Logit` ...) need scores inside it. Training starts at the best
    constant and never leaves the domain on the training rows; predictions for other rows are clipped to it. Where the
    best scores lie on an end of the domain that the link reaches, or the link jumps, no coefficients make the gradient
    vanish and there is a warning.

    Examples
    --------
    >>> from selmatch.sklearn import SelectiveLinearModel
    >>> x = np.linspace(0.0, 3.0, 31)
    >>> model = SelectiveLinearModel(strength=50).fit(x[:, None], np.exp(x))
    >>> bool(abs(model.predict([[2.8]]) - np.exp(2.8)) < 0.1 * abs(model.predict([[1.4]]) - np.exp(1.4)))
    True
    """

    def __init__(
        self,
        loss: Any = None,
        *,
        focus: Any = "high",
        between: Any = None,
        top: float = 0.1,
        strength: float = 8.0,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-8,
        warm_start: bool = False,
    ) -> None:
        self.loss = loss
        self.focus = focus
        self.between = between
        self.top = top
        self.strength = strength
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SelectiveLinearModel:
        """Find the coefficients.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, features)
            Features.
        y : array of shape (n,), or (n, classes) with a vector loss
            Observed scores.
        sample_weight : array of shape (n,), optional
            Weights of the rows; a weight of 2 is a row that occurs twice.
        """
        who = type(self).__name__
        alpha = number(who, "alpha", self.alpha, at_least=0.0)
        tolerance = number(who, "tol", self.tol, above=0.0)
        steps = whole(who, "max_iter", self.max_iter)
        self._require_numbers(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, multi_output=True)
        y = self._scores_of(self._checked_targets(real_targets(who, y)))
        weights = self._checked_weights(sample_weight, len(y))
        self.loss_ = self._chosen_loss(y, weights)
        if weights is None:
            weights = np.ones(len(y))
        kept = weights > 0.0
        if not kept.all():
            X, y, weights = X[kept], y[kept], weights[kept]
        weights = weights / weights.sum()
        # a shift of the features moves the intercept only, and helps the numbers; a sparse matrix would become dense
        shift = weights @ X if self.fit_intercept and not sparse.issparse(X) else np.zeros(X.shape[1])
        problem = Problem(X - shift if shift.any() else X, y, weights, self.loss_, alpha, bool(self.fit_intercept))
        start, scale = self._start(problem, shift)
        found = minimised(problem, start, scale, tolerance=tolerance, steps=steps)
        self.n_iter_ = found.steps
        if not found.converged:
            warnings.warn(
                f"{who}: the coefficients did not settle in {found.steps} steps. Raise max_iter or alpha, or see "
                "whether the loss has a smallest value on these data.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(found.theta, shift, single=y.ndim == 1)
        return self

    def _require_numbers(self, X: Any) -> None:
        names = [name for name, held in Columns.of(X).categories.items() if any(isinstance(word, str) for word in held)]
        if names:
            raise ValueError(
                f"{type(self).__name__}: X must hold numbers, got words in the columns of categories {names}. Encode "
                "them, for example by sklearn.preprocessing.OneHotEncoder."
            )

    def _start(self, problem: Problem, shift: np.ndarray) -> tuple[Point, float]:
        """Where to start, and the loss of the best constant."""
        constant = np.zeros(problem.shape)
        potential = self.loss_.potential
        if problem.intercept:
            constant[-1] = self.loss_.minimiser(problem.y, problem.weights)
        elif not np.all(potential.holds(np.zeros(problem.shape[1]), interior=True)):
            raise ValueError(
                f"{type(self).__name__}: fit_intercept must be True for a link whose domain {potential.domain} does "
                "not hold 0, got False."
            )
        point = problem.at(constant)
        if point is None:
            raise ValueError(
                f"{type(self).__name__}: the loss must be finite at a constant prediction, got {self.loss_!r}, which "
                f"overflows between {problem.y.min():g} and {problem.y.max():g}. Scale the targets, or cap the link."
            )
        earlier = self._earlier(shift) if self.warm_start else None
        known = problem.at(earlier) if earlier is not None and earlier.shape == constant.shape else None
        return known or point, point.value

    def _earlier(self, shift: np.ndarray) -> np.ndarray | None:
        """The coefficients of an earlier fit, as the solver holds them."""
        if not hasattr(self, "coef_") or self.coef_.shape[-1] != len(shift):
            return None
        slopes = np.atleast_2d(self.coef_).T
        return np.vstack([slopes, self.intercept_ + shift @ slopes]) if self.fit_intercept else slopes

    def _keep(self, theta: np.ndarray, shift: np.ndarray, *, single: bool) -> None:
        slopes = theta[: len(shift)]
        constants = theta[-1] - shift @ slopes if self.fit_intercept else np.zeros(theta.shape[1])
        self.coef_ = slopes[:, 0] if single else slopes.T
        self.intercept_ = float(constants[0]) if single else constants

    def predict(self, X: Any) -> np.ndarray:
        """Scores x W + b, clipped to the domain of the link.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, features)
            Features.

        Returns
        -------
        array of shape (n,) or (n, classes)
            Predicted scores.
        """
        check_is_fitted(self)
        self._require_numbers(X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return self._predicted(X @ self.coef_.T + self.intercept_)
