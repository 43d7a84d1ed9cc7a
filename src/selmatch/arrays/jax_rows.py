"""Losses of rows for JAX, whose derivatives are the closed forms; imported only when a user has imported JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from selmatch.arrays.namespaces import is_number

Array = Any


def rows(kind: Any, loss: Any, x: Array, xh: Array, present: Array | None) -> Array:
    """Losses of the rows, whose derivatives are the gradient and the Hessian product that the loss has in closed form.

    Parameters that are plain numbers stay so; the others are arguments, through which derivatives of the formula flow,
    as through the observed scores.
    """
    leaves, structure = jax.tree.flatten(loss)
    numbers = [leaf if is_number(leaf) else None for leaf in leaves]

    def loss_with(arrays: Any) -> Any:
        rest = iter(arrays)
        return jax.tree.unflatten(structure, [next(rest) if leaf is None else leaf for leaf in numbers])

    def plain_rows(arrays, xh, present):
        return kind.rows(loss_with(arrays[1:]), arrays[0], xh - arrays[0], xh, present)

    def plain_gradient(arrays, xh, present):
        return kind.gradient(loss_with(arrays[1:]), arrays[0], xh - arrays[0], xh, present)

    losses = jax.custom_jvp(plain_rows)

    @jax.custom_jvp
    def rows_and_gradient(arrays, xh, present):
        return kind.both(loss_with(arrays[1:]), arrays[0], xh - arrays[0], xh, present)

    def rise(gradient, step):
        return jnp.sum(gradient * step, axis=-1) if loss.vector else gradient * step

    def rows_rule(primals, tangents):
        arrays, step, _ = tangents
        if _still(step):
            value, by_step = plain_rows(*primals), None
        else:
            value, gradient = rows_and_gradient(*primals)
            by_step = rise(gradient, step)
        return value, _total(value, by_step, _move(plain_rows, primals, arrays))

    def rows_and_gradient_rule(primals, tangents):
        arrays, step, _ = tangents
        value, gradient = rows_and_gradient(*primals)
        by_step = (None, None) if _still(step) else (rise(gradient, step), turn(primals, step))
        return (value, gradient), (
            _total(value, by_step[0], _move(plain_rows, primals, arrays)),
            _total(gradient, by_step[1], _move(plain_gradient, primals, arrays)),
        )

    def turn(primals, step):
        """How the gradient moves with the predictions."""
        arrays, xh, present = primals
        product = loss_with(arrays[1:])._hessian_product(xh, step, present)
        if product is not None:
            return product
        return jax.jvp(lambda end: plain_gradient(arrays, end, present), (xh,), (step,))[1]

    losses.defjvp(rows_rule, symbolic_zeros=True)
    rows_and_gradient.defjvp(rows_and_gradient_rule, symbolic_zeros=True)
    return losses([x, *(leaf for leaf in leaves if not is_number(leaf))], xh, present)


def _still(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _total(like: Array, *moves: Array | None) -> Array:
    """The sum of the moves that there are."""
    return sum((move for move in moves if move is not None), start=jnp.zeros_like(like))


def _move(function: Callable[..., Array], primals: Any, tangents: Any) -> Array | None:
    """How a function of the parameters moves with those that do; None if none does."""
    arrays, *scores = primals
    moving = [i for i, tangent in enumerate(tangents) if not _still(tangent)]
    if not moving:
        return None

    def of_moving(*given):
        every = list(arrays)
        for i, value in zip(moving, given, strict=True):
            every[i] = value
        return function(every, *scores)

    return jax.jvp(of_moving, tuple(arrays[i] for i in moving), tuple(tangents[i] for i in moving))[1]
