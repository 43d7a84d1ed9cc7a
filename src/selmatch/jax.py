"""JAX front end: losses as Optax writes them, and their parameters as something to learn.

Importing this module makes every curve, potential and loss a pytree at once, also those that were made before JAX was
imported. A loss needs no other class to be at home in JAX: pass it to compiled functions, map over it, learn its
leaves.

:func:`matching_loss` and :func:`fenchel_young_loss` follow Optax: predictions first, one loss for each row unless you
ask for a sum, ``axis`` names the classes, ``where`` says what counts. Targets are constants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError('selmatch.jax needs JAX. Install it with: pip install "selmatch[jax]".') from error

from selmatch import functions
from selmatch.arrays.namespaces import is_number
from selmatch.batch import paired_shape
from selmatch.labels import advice
from selmatch.losses import Loss, OfScores, OfTargets, OfTargetsAlone, loss_of
from selmatch.parameters import positive_names

__all__ = ["fenchel_young_loss", "matching_loss", "trainable"]

Array = Any

functions.register_loaded_frameworks()


def matching_loss(
    predictions: Any,
    targets: Any,
    loss: Any,
    *,
    axis: int = -1,
    where: Any = None,
    weights: Any = None,
    reduction: str = "none",
    num_items: Any = None,
) -> jax.Array:
    """The loss of predictions for observed scores, in the manner of ``optax.losses``.

    Same numbers as ``loss(predictions, targets)``, and derivatives in closed form: training takes less time and memory
    than by differentiating the formula. Gradients flow to predictions, weights and the parameters of the loss.

    Parameters
    ----------
    predictions : array
        Predicted scores, floating point. Half precision is computed in single.
    targets : array
        Observed scores; one of both broadcasts to the other. They are constants.
    loss : MatchingLoss, or another loss, a potential or a curve
        Any loss of this package.
    axis : int
        Where the classes are, for losses of many classes.
    where : boolean array, optional
        Of the shape of the predictions, or without the axis of the classes. False entries are ignored, even NaN.
    weights : array, optional
        Not negative, of the shape of the result before it is reduced.
    reduction : {"none", "mean", "sum"}
        The mean is over the rows with anything left, by weight; 0 when there is none.
    num_items : number, optional
        Replaces the denominator of the mean: the count of all devices, or of an accumulated batch.

    Returns
    -------
    array
        Losses in the dtype of the predictions, without the axis of the classes; sums and means in at least single
        precision.

    Examples
    --------
    >>> from selmatch.jax import matching_loss
    >>> predictions, targets = np.array([1.0, 2.0]), np.array([0.5, 3.0])
    >>> print(matching_loss(predictions, targets, Sigmoid().affine(alpha=2.0, beta=1.5)).round(4))
    [0.0336 0.0849]
    """
    who = "matching_loss"
    loss = loss if isinstance(loss, Loss) else loss_of(who, loss)
    predictions, targets, where = _arranged(who, loss, predictions, targets, axis, where)
    loss = _in_precision_of((predictions, targets), loss)
    batch = loss._prepare(predictions, targets, where, weights, reduction, num_items)
    return batch.reduced(loss._losses(batch, OfScores))


def fenchel_young_loss(
    predictions: Any,
    targets: Any,
    loss: Any,
    *,
    conjugate: bool = True,
    axis: int = -1,
    where: Any = None,
    weights: Any = None,
    reduction: str = "none",
    num_items: Any = None,
) -> jax.Array:
    """The loss of predictions for targets that are link values: probabilities, one-hot rows, rates.

    With the standard Softmax and ``conjugate=False`` this is ``optax.losses.softmax_cross_entropy``, with a Sigmoid
    ``sigmoid_binary_cross_entropy``. The other parameters are those of :func:`matching_loss`.

    Parameters
    ----------
    predictions : array
        Predicted scores, floating point.
    targets : array
        Values of the link, of a shape as for :func:`matching_loss`; others give NaN.
    loss : MatchingLoss, potential or curve
        What defines the link.
    conjugate : bool
        False leaves out what does not depend on the prediction: the familiar cross-entropies.
    axis, where, weights, reduction, num_items
        As for :func:`matching_loss`.

    Examples
    --------
    >>> from selmatch.jax import fenchel_young_loss
    >>> labels = np.array([[0.0, 1.0]])
    >>> float(fenchel_young_loss(np.array([[1.0, 2.0]]), labels, CompositeSoftmax(), conjugate=False)[0])
    0.31326...
    """
    who = "fenchel_young_loss"
    loss = loss_of(who, loss)
    predictions, targets, where = _arranged(who, loss, predictions, targets, axis, where)
    loss = _in_precision_of((predictions, targets), loss)
    batch = loss._prepare_targets(".fenchel_young", predictions, targets, where, weights, reduction, num_items)
    return batch.reduced(loss._losses(batch, OfTargets if conjugate else OfTargetsAlone))


def trainable(loss: Any, names: str | Iterable[str]) -> tuple[dict[str, jax.Array], Callable[[Any], Any]]:
    """Parameters of a loss to learn, for Optax, and the function that makes the loss from them.

    Alpha, gain, gamma and rho are held as logarithms: whatever an optimiser does to them, the loss stays convex in the
    predictions. Never
    learn them on the loss itself, which is least where it is blind (alpha to 0): use a measure of the validation data.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        Where the parameters start; all others stay as they are.
    names : str or sequence of str
        Which ones: ``"alpha"`` takes every alpha of the loss, ``"potential.scaling.alpha"`` a single one.

    Returns
    -------
    parameters : dict
        From the name of a parameter to a JAX array.
    build : function
        The loss with given parameters, for use inside compiled functions.

    Examples
    --------
    >>> from selmatch.jax import trainable
    >>> parameters, build = trainable(MatchingLoss(Sinh().affine(alpha=0.5)), ["alpha", "beta"])
    >>> sorted(parameters)
    ['potential.alpha', 'potential.beta']
    >>> build(parameters).potential.alpha
    Array(0.5, dtype=float...)
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    found, structure = jax.tree.flatten_with_path(loss)
    leaves = [(_dotted(path), _attribute(path), leaf) for path, leaf in found]
    positive = {_dotted(path) for path, _ in found if _is_positive(loss, path)}
    known = {name for dotted, attribute, _ in leaves for name in (dotted, attribute)}
    for name in wanted:
        if name not in known:
            offered = ", ".join(dotted for dotted, _, _ in leaves) or "none"
            raise ValueError(f"trainable: names must be parameters of the loss ({offered}), got {name!r}.")
    learned = {dotted: dotted in positive for dotted, attribute, _ in leaves if {dotted, attribute} & set(wanted)}
    parameters = {}
    for dotted, _, leaf in leaves:
        if dotted in learned:
            value = jnp.asarray(leaf, dtype=float)
            if learned[dotted] and is_number(leaf) and not leaf > 0:
                raise ValueError(f"trainable: {dotted} must be > 0, got {leaf}.")
            parameters[dotted] = jnp.log(value) if learned[dotted] else value

    def build(parameters: Any) -> Any:
        values = [
            leaf if dotted not in learned else jnp.exp(parameters[dotted]) if learned[dotted] else parameters[dotted]
            for dotted, _, leaf in leaves
        ]
        return jax.tree.unflatten(structure, values)

    return parameters, build


def _dotted(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def _is_positive(tree: Any, path: Any) -> bool:
    """Whether a number in a tree must stay positive: the last object on the way to it knows."""
    positive = False
    for key in path:
        if isinstance(key, jax.tree_util.GetAttrKey):
            positive = key.name in positive_names(tree)
            tree = getattr(tree, key.name)
        else:
            tree = tree[key.idx]
    return positive


def _attribute(path: Any) -> str:
    """The last name in a path: that of a tuple is the name of its entries."""
    return next((key.name for key in reversed(path) if isinstance(key, jax.tree_util.GetAttrKey)), "")


# --------------------------------------------------------------------------------------------------------- arguments


def _arranged(
    who: str, loss: Loss, predictions: Any, targets: Any, axis: int, where: Any
) -> tuple[Array, Array, Array | None]:
    """Predictions, constant targets and mask, with the classes on the last axis."""
    predictions = jnp.asarray(predictions)
    if not jnp.issubdtype(predictions.dtype, jnp.floating):
        raise TypeError(
            f"{who}: predictions must be floating point, got dtype {predictions.dtype}. Convert to float32 first."
        )
    # a number adapts to the predictions
    targets = jnp.asarray(targets, dtype=_wide(predictions) if is_number(targets) else None)
    targets = jax.lax.stop_gradient(targets)
    where = None if where is None else jnp.asarray(where)
    axis = operator.index(axis)
    if loss.vector:
        if not -predictions.ndim <= axis < predictions.ndim:
            raise ValueError(f"{who}: axis must be one of predictions of shape {predictions.shape}, got {axis}.")
        last = axis in (-1, predictions.ndim - 1) and targets.shape[-1:] == predictions.shape[-1:]
        if targets.ndim not in (0, predictions.ndim) and not last:
            raise ValueError(
                f"{who}: targets must hold a number for every class, as predictions of shape {predictions.shape} do, "
                f"got shape {targets.shape}. {advice(who, loss.potential)}"
            )
    elif axis != -1:
        raise ValueError(f"{who}: axis must go with a loss of many classes, got {axis}. Try Separable(curve).")
    paired_shape(who, functions.namespace_of(predictions), predictions=predictions.shape, targets=targets.shape)
    if not loss.vector:
        return predictions, targets, where

    def moved(x: Array | None) -> Array | None:
        return jnp.moveaxis(x, axis, -1) if x is not None and x.ndim == predictions.ndim else x

    return jnp.moveaxis(predictions, axis, -1), moved(targets), moved(where)


def _wide(*scores: Array) -> Any:
    """The dtype in which a loss is computed."""
    return jnp.result_type(jnp.float32, *(x.dtype for x in scores if jnp.issubdtype(x.dtype, jnp.floating)))


def _in_precision_of(scores: tuple[Array, Array], loss: Any) -> Any:
    """A loss whose learned parameters neither widen nor narrow what is computed from the scores."""
    dtype = _wide(*scores)
    return jax.tree.map(lambda leaf: leaf if is_number(leaf) else jnp.asarray(leaf, dtype=dtype), loss)
