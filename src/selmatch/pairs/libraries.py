"""What the sums over pairs need of each array library beyond the functions of formulas.

These are few, and for three libraries only: loops and sorts, which the namespaces in :mod:`selmatch.arrays` need not
know for formulas, nor have for libraries of the array API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from selmatch.functions import namespace_of

Array = Any


class NumPyTools:
    """NumPy."""

    eager = True

    @staticmethod
    def arange(count: int, like: Array) -> Array:
        return np.arange(count)

    @staticmethod
    def stable_order(keys: Array) -> Array:
        return np.argsort(keys, kind="stable")

    @staticmethod
    def cumsum(x: Array) -> Array:
        return np.cumsum(x)

    @staticmethod
    def count_each(keys: Array, bins: int) -> Array:
        return np.bincount(keys, minlength=bins)

    @staticmethod
    def largest(x: Array) -> Any:
        return int(x.max()) if len(x) else 0

    @staticmethod
    def repeat(body: Callable[[Any, Any], Any], start: int, stop: Any, state: Any) -> Any:
        for i in range(start, stop):
            state = body(i, state)
        return state


class TorchTools:
    """PyTorch."""

    eager = True
    repeat = staticmethod(NumPyTools.repeat)

    @staticmethod
    def arange(count: int, like: Array) -> Array:
        import torch

        return torch.arange(count, device=like.device)

    @staticmethod
    def stable_order(keys: Array) -> Array:
        import torch

        return torch.sort(keys, stable=True)[1]

    @staticmethod
    def cumsum(x: Array) -> Array:
        import torch

        return torch.cumsum(x, dim=0)

    @staticmethod
    def count_each(keys: Array, bins: int) -> Array:
        import torch

        return torch.zeros(bins, dtype=keys.dtype, device=keys.device).index_add(0, keys, torch.ones_like(keys))

    @staticmethod
    def largest(x: Array) -> Any:
        import torch

        if torch.compiler.is_compiling() or not len(x):
            return len(x)
        try:
            return int(x.max())
        except RuntimeError:  # inside torch.func.vmap
            return len(x)


class JaxTools:
    """JAX: loops are traced, so that their length may depend on values."""

    eager = False

    @staticmethod
    def arange(count: int, like: Array) -> Array:
        import jax.numpy as jnp

        return jnp.arange(count)

    @staticmethod
    def stable_order(keys: Array) -> Array:
        import jax.numpy as jnp

        return jnp.argsort(keys, stable=True)

    @staticmethod
    def cumsum(x: Array) -> Array:
        import jax.numpy as jnp

        return jnp.cumsum(x)

    @staticmethod
    def count_each(keys: Array, bins: int) -> Array:
        import jax.numpy as jnp

        return jnp.zeros(bins, dtype=keys.dtype).at[keys].add(1)

    @staticmethod
    def largest(x: Array) -> Any:
        return x.max() if len(x) else 0

    @staticmethod
    def forgetful(function: Callable[..., Any]) -> Callable[..., Any]:
        import jax

        return jax.checkpoint(function)

    @staticmethod
    def repeat(body: Callable[[Any, Any], Any], start: int, stop: Any, state: Any) -> Any:
        import jax

        return jax.lax.fori_loop(start, stop, body, state)


def placed(items: Array, positions: Array) -> Array:
    """Items put back to where they stood."""
    return namespace_of(items).placed(items, positions, len(items))  # type: ignore[attr-defined]


_TOOLS: dict[str, Any] = {"NumPy": NumPyTools, "PyTorch": TorchTools, "JAX": JaxTools}


def tools_of(x: Array) -> Any:
    """The tools of the library of x."""
    name = namespace_of(x).name
    if name not in _TOOLS:
        raise TypeError(f"selmatch.pairs: scores must be arrays of NumPy, PyTorch or JAX, got {name}.")
    return _TOOLS[name]
