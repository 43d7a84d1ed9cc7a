"""An optimiser, not loss mathematics: Newton's method for linear scores, without cancellation near the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, cg

from selmatch.losses import MatchingLoss

#: with more unknowns than this, steps are found by conjugate gradients instead of a factorised Hessian
DENSE = 500
#: numbers of a dense matrix that are weighted at a time
_CHUNK = 1 << 20
#: how far a Newton step may be shortened before the secant curvature is asked instead
_PATIENCE = 4
_HALVINGS = 60


class Point(NamedTuple):
    """Coefficients, one column for each class, the intercepts in the last row; and what is known there."""

    theta: np.ndarray
    scores: np.ndarray
    value: float
    gradient: np.ndarray


class Outcome(NamedTuple):
    """Where the solver ended, after how many steps, and whether the tolerance was reached."""

    theta: np.ndarray
    steps: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Problem:
    """Weighted mean loss of the scores X W + b, plus half of alpha times the squares of W.

    Attributes
    ----------
    X : array or sparse matrix
        Features.
    y : array
        Observed scores, (n,) or (n, classes).
    weights : array
        Of the rows, with sum 1.
    loss : MatchingLoss
        With a single link or a vector potential.
    alpha : float
        Penalty.
    intercept : bool
        Whether there is a b.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray
    loss: MatchingLoss
    alpha: float
    intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Of the coefficients: features and intercept, by classes."""
        return self.X.shape[1] + self.intercept, 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def penalty(self) -> np.ndarray:
        """Alpha for each row of the coefficients, 0 for the intercept."""
        penalty = np.full(self.shape[0], self.alpha)
        if self.intercept:
            penalty[-1] = 0.0
        return penalty[:, None]

    def forward(self, theta: np.ndarray) -> np.ndarray:
        """The scores of coefficients, in the shape of y."""
        scores = self.X @ theta[: self.X.shape[1]]
        return (scores + theta[-1] if self.intercept else scores).reshape(self.y.shape)

    def backward(self, pulls: np.ndarray) -> np.ndarray:
        """What pulls on the scores of each row do to the coefficients."""
        pulls = pulls.reshape(len(self.y), -1)
        back = self.X.T @ pulls
        return np.vstack([back, pulls.sum(axis=0)]) if self.intercept else back

    def at(self, theta: np.ndarray) -> Point | None:
        """Everything at some coefficients; None where the loss is not defined or not finite."""
        scores, potential = self.forward(theta), self.loss.potential
        if not np.all(np.isfinite(scores)) or (potential.bounded and not np.all(potential.holds(scores))):
            return None
        with np.errstate(all="ignore"):
            rows, pulls = self.loss.value_and_grad(scores, self.y)
            weights = self.weights if pulls.ndim == 1 else self.weights[:, None]
            value = float(self.weights @ rows) + 0.5 * float(np.sum(self.penalty * theta**2))
            gradient = self.backward(weights * pulls) + self.penalty * theta
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return None
        return Point(theta, scores, value, gradient)

    # ----------------------------------------------------------------------------------------------------- curvature

    def step(self, point: Point, kind: str) -> np.ndarray | None:
        """The step that a kind of curvature proposes; None where it does not determine one."""
        if point.theta.size <= DENSE:
            return _solved(self._hessian(point, kind), point.gradient, abs(point.value))
        return _iterated(self._product(point, kind), self._diagonal(point, kind), point.gradient)

    def _secant(self, point: Point) -> np.ndarray:
        with np.errstate(all="ignore"):
            curvature = self.loss.curvature(point.scores, self.y, kind="secant")
        return np.maximum(np.nan_to_num(curvature, posinf=0.0), 0.0)

    def _slopes(self, point: Point, kind: str) -> np.ndarray:
        """The diagonal of the Hessian of each row's loss, times its weight."""
        slopes = self._secant(point) if kind == "secant" else self.loss.curvature(point.scores, self.y)
        return self.weights[:, None] * slopes.reshape(len(self.y), -1)

    def _hessian(self, point: Point, kind: str) -> np.ndarray:
        rows, classes = self.shape
        blocks = np.zeros((rows, classes, rows, classes))
        full = self.loss.vector and kind == "newton"
        if full:
            curvature = self.weights[:, None, None] * self.loss.potential.hessian(point.scores)
        else:
            curvature = self._slopes(point, kind)
        for i in range(classes):
            for j in range(i, classes) if full else (i,):
                blocks[:, i, :, j] = self._gram(curvature[:, i, j] if full else curvature[:, i])
                blocks[:, j, :, i] = blocks[:, i, :, j]
        hessian = blocks.reshape(rows * classes, rows * classes)
        hessian[np.diag_indices_from(hessian)] += np.repeat(self.penalty[:, 0], classes)
        return hessian

    def _gram(self, curvature: np.ndarray) -> np.ndarray:
        """X' diag(curvature) X, with the intercept as a last feature."""
        inner, sums = np.zeros((self.X.shape[1],) * 2), np.zeros((1, self.X.shape[1]))
        step = len(curvature) if sparse.issparse(self.X) else max(1, _CHUNK // self.X.shape[1])
        for start in range(0, len(curvature), step):
            X, weights = self.X[start : start + step], curvature[start : start + step, None]
            weighted = X.multiply(weights).tocsr() if sparse.issparse(X) else weights * X
            product = X.T @ weighted
            inner += product.toarray() if sparse.issparse(product) else product
            sums += np.asarray(weighted.sum(axis=0)).reshape(sums.shape)
        if not self.intercept:
            return inner
        return np.block([[inner, sums.T], [sums, curvature.sum().reshape(1, 1)]])

    def _product(self, point: Point, kind: str) -> Callable[[np.ndarray], np.ndarray]:
        """Hessian times coefficients, without the Hessian."""
        full = self.loss.vector and kind == "newton"
        slopes = None if full else self._slopes(point, kind)

        def product(vector: np.ndarray) -> np.ndarray:
            theta = vector.reshape(self.shape)
            move = self.forward(theta)
            if slopes is None:
                pulls = self.weights[:, None] * self.loss.potential.hvp(point.scores, move)
            else:
                pulls = slopes * move.reshape(slopes.shape)
            return (self.backward(pulls) + self.penalty * theta).ravel()

        return product

    def _diagonal(self, point: Point, kind: str) -> np.ndarray:
        slopes = self._slopes(point, kind)
        squares = self.X.power(2) if sparse.issparse(self.X) else np.square(self.X)
        diagonal = np.asarray(squares.T @ slopes)
        if self.intercept:
            diagonal = np.vstack([diagonal, slopes.sum(axis=0)])
        return (diagonal + self.penalty).ravel()


def _solved(hessian: np.ndarray, gradient: np.ndarray, value: float) -> np.ndarray | None:
    """Newton's step; None where the Hessian is blind to a part of the gradient, beyond the rounding of a loss value."""
    scale = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    scaled, target = hessian / np.outer(scale, scale), -gradient.ravel() / scale
    if not np.all(np.isfinite(scaled)):
        return None
    # 1e-8: less is lost to a nearly singular Hessian than a further step gains; more is a direction without curvature
    # (1e-14: squares of the target have the unit of the loss, and what sums over rows leave of it is rounding)
    enough = max(1e-8 * float(np.linalg.norm(target)), 1e-14 * value**0.5)
    try:
        step = linalg.cho_solve(linalg.cho_factor(scaled), target)
    except linalg.LinAlgError:
        step = np.full(target.shape, np.nan)
    if not np.linalg.norm(scaled @ step - target) <= enough:
        step = np.linalg.lstsq(scaled, target, rcond=None)[0]
        if not np.linalg.norm(scaled @ step - target) <= enough:
            return None
    return (step / scale).reshape(gradient.shape)


def _iterated(
    product: Callable[[np.ndarray], np.ndarray], diagonal: np.ndarray, gradient: np.ndarray
) -> np.ndarray | None:
    """Newton's step to three digits: each step gains three."""
    size = gradient.size
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)  # type: ignore[call-arg]
    safe = np.where(diagonal > 0.0, diagonal, 1.0)
    conditioner = LinearOperator((size, size), matvec=lambda v: v.ravel() / safe, dtype=np.float64)  # type: ignore[call-arg]
    step, failed = cg(operator, -gradient.ravel(), rtol=1e-3, maxiter=10 * size, M=conditioner)
    return None if failed or not np.all(np.isfinite(step)) else step.reshape(gradient.shape)


# --------------------------------------------------------------------------------------------------------- the search


def minimised(problem: Problem, point: Point, scale: float, *, tolerance: float, steps: int) -> Outcome:
    """The coefficients with the smallest loss, from a point on.

    The tolerance is on Newton's decrement, the change of the scores that is left to do, weighted by the curvature, as
    a share of the same for the whole problem: ``scale`` is the loss of the best constant.
    """
    for count in range(1, steps + 1):
        point, decrement = _advanced(problem, point)
        if decrement <= tolerance**2 * scale:
            return Outcome(point.theta, count, True)
        if not np.isfinite(decrement):
            return Outcome(point.theta, count, False)
    return Outcome(point.theta, steps, False)


def _advanced(problem: Problem, here: Point) -> tuple[Point, float]:
    """The next point, and how much the step promised; infinitely much where no step could be made."""
    promised = 0.0
    for kind, halvings in (("newton", _PATIENCE), ("secant", _HALVINGS)):
        step = problem.step(here, kind)
        if step is None:
            continue
        promised = -float(np.sum(here.gradient * step))
        if promised <= 0.0:
            if not here.gradient.any():
                return here, 0.0
            continue
        there = _along(problem, here, step, promised, halvings)
        if there is not None:
            return there, promised
    # where rounding alone keeps the loss from falling, this is the end
    return here, 0.0 if 0.0 < promised <= 1e-13 * abs(here.value) else np.inf


def _along(problem: Problem, here: Point, step: np.ndarray, promised: float, halvings: int) -> Point | None:
    """A point on the way, shortened until the loss has fallen there."""
    length = 1.0
    for _ in range(halvings):
        there = problem.at(here.theta + length * step)
        if there is not None:
            # on a convex loss a pull that still points forward proves descent, also where values are equal to rounding
            pull = float(np.sum(there.gradient * step))
            same = abs(there.value - here.value) <= 1e-12 * abs(here.value)
            fallen = there.value <= here.value - 1e-4 * length * promised
            if fallen or -promised < pull <= 0.0 or (same and abs(pull) <= 0.9 * promised):
                return there
        length *= 0.5
    return None
