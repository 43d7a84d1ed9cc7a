"""Scores of lists as users pass them made ready for a ranking loss, and results for users: see also batch.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch import functions
from selmatch.arrays.namespaces import NumPy
from selmatch.batch import CHUNK_BYTES, Anywhere, Batch, prepare
from selmatch.functions import where
from selmatch.lists import Arrangement, Groups, arrange

Array = Any


@dataclass(slots=True)
class Task:
    """Checked scores of lists as flat items, and how to reduce what is computed from them.

    Attributes
    ----------
    batch : Batch
        The scores in the user's form; it knows dtypes and the reduction.
    arrangement : Arrangement
        Where items and lists went.
    x, xh : array
        Observed (or targets) and predicted scores of the flat items.
    weights : array
        Of the lists; 0 for those that do not count.
    """

    batch: Batch
    arrangement: Arrangement
    x: Array
    xh: Array
    weights: Array

    @property
    def groups(self) -> Groups:
        return self.arrangement.groups

    def evaluate(self, function: Callable[..., tuple[Array, ...]], whole: bool = False) -> tuple[Array, ...]:
        """Results of function(x, u, xh, groups) for lists or items; NumPy works in chunks of lists that fit the cache.

        ``whole`` leaves the division to the function.
        """
        if self.batch.space is not NumPy:
            return function(self.x, self.xh - self.x, self.xh, self.groups)
        with np.errstate(all="ignore"):
            if whole or self.x.nbytes <= CHUNK_BYTES or self.groups.count < 2:
                return function(self.x, self.xh - self.x, self.xh, self.groups)
            parts = []
            for items, groups in self.groups.chunks(CHUNK_BYTES // self.x.itemsize):
                x, xh = self.x[items], self.xh[items]
                parts.append(function(x, xh - x, xh, groups))
            return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def value(self, value: Array) -> Any:
        """Losses of the lists, weighted, and summed or averaged, as the user expects them."""
        return self._quietly(self._value, value)

    def items(self, values: Array) -> Any:
        """Derivatives of the lists' losses at the items as those of the weighted and reduced loss."""
        return self._quietly(self._items, values)

    def _quietly(self, function: Callable[[Array], Any], x: Array) -> Any:
        """Products that overflow are infinite, without a warning."""
        if self.batch.space is not NumPy:
            return function(x)
        with np.errstate(all="ignore"):
            return function(x)

    def _value(self, value: Array) -> Any:
        value = where(self.weights == 0, 0.0, value) * self.weights  # 0 times an infinite loss would be NaN
        if self.batch.reduction == "none":
            return self.batch.finished(self.arrangement.restored_lists(value))
        total = self._total(value)
        return self.batch.summed(total / self._denominator() if self.batch.reduction == "mean" else total)

    def _items(self, values: Array) -> Any:
        factor = self.weights
        if self.batch.reduction == "mean":
            factor = factor / self._denominator()
        factor = self.groups.spread(functions.namespace_of(values).cast(factor, values))
        values = where(factor == 0, 0.0, values) * factor
        if self.groups.present is not None:
            values = where(self.groups.present, values, 0.0)
        return self.batch.finished(self.arrangement.restored_items(values))

    def _denominator(self) -> Any:
        if self.batch.num_items is not None:
            return self.batch.num_items
        total = self._total(self.weights)
        return where(total == 0, 1.0, total)

    def _total(self, x: Array) -> Array:
        if self.groups.present is None:
            return self.batch.space.total(x)  # type: ignore[attr-defined]
        # one after the other: empty lists, which stay here, must not change the order of the others
        space = self.batch.space
        return Groups(space.integers(np.zeros(self.groups.count), x), 1).sum(x)[0]  # type: ignore[attr-defined]


def task_of(
    who: str,
    domain: Any,
    s_hat: Any,
    s: Any,
    mask: Any,
    segments: Any,
    weights: Any,
    reduction: str,
    num_items: Any,
    *,
    fewest: int,
    **options: Any,
) -> Task:
    """Everything that a ranking loss computes with, or a clear error; lists with fewer items do not count."""
    batch = prepare(who, domain, s_hat, s, mask, None, reduction, num_items, lists=True, **options)
    if batch.s.ndim == 0:
        raise ValueError(f"{who}: s_hat must have the items of a list on its last axis, got a single number.")
    if not hasattr(batch.space, "placed"):
        raise TypeError(f"{who}: scores must be arrays of NumPy, PyTorch or JAX, got {batch.space.name}.")  # type: ignore[attr-defined]
    arrangement = arrange(who, tuple(batch.s.shape), segments, batch.present, batch.space, batch.s)
    x, xh = arrangement.items(batch.s), arrangement.items(batch.s_hat)
    if arrangement.flaw is not None:
        x = x + batch.space.cast(arrangement.flaw, x)  # type: ignore[attr-defined]
    counts = arrangement.groups.sizes(x) >= fewest
    if weights is None:
        shares = batch.space.cast(counts, x)  # type: ignore[attr-defined]
    else:
        like = batch.space.broadcast(batch.space.like((1.0,), x)[0], arrangement.rows)  # type: ignore[attr-defined]
        given = prepare(who, Anywhere, like, like, None, weights).weights
        shares = where(counts, arrangement.lists(given), 0.0)
    return Task(batch, arrangement, x, xh, shares)
