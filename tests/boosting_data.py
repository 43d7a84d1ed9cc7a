"""Small data sets and comparisons that the tests of the boosting adapters share."""

import numpy as np

import selmatch as sm


def regression(rows=300, seed=0, shift=0.0):
    """Features, and targets that depend on them and on noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    return X, shift + X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=rows)


def lists(count=25, seed=0):
    """Features, float labels and sizes of lists, two of which hold one item."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 1], rng.integers(2, 9, count - 2)])
    X = rng.normal(size=(sizes.sum(), 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=len(X)), sizes


def plain_objective(loss, labels, start, kind):
    """What a careful user writes without selmatch.boosting: (scores) -> gradients and curvatures, mean curvature 1."""
    at_start = loss.curvature(np.full(len(labels), start), labels, kind=kind)
    scale = 1.0 / np.mean(at_start)

    def objective(scores, _):
        scores = np.asarray(scores, dtype=np.float64)
        return scale * loss.grad(scores, labels), scale * loss.curvature(scores, labels, kind=kind)

    return objective


#: steep sigmoids far from 0, where boosters start by default
STEEP_AND_FAR = [sm.Sigmoid().affine(alpha=4.0, beta=30.0), sm.Sigmoid().affine(alpha=10.0, beta=-20.0)]

#: at least so many times the loss from there is that from the right start; secants find the way
DISASTER = {"newton": 100.0, "secant": 1.0}


class MyOwn(sm.Curve):
    """A link of a user, which no file can hold."""

    def __call__(self, x):
        return x + sm.functions.tanh(x)
