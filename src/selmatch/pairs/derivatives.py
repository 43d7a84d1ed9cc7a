"""Values whose derivative is the gradient computed with them, instead of what automatic differentiation would find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selmatch.functions import namespace_of
from selmatch.lists import Groups

if TYPE_CHECKING:
    from selmatch.pairs.sums import Pairs

Array = Any


def with_gradient(pairs: Pairs, s_hat: Array, s: Array, groups: Groups, need: tuple[str, ...]) -> list[Array]:
    """What ``pairs.sums(s_hat, s, groups, need)`` finds: a value that can be differentiated by s_hat, and constants."""
    if namespace_of(s_hat).name == "JAX":
        return _in_jax(pairs, s_hat, s, groups, need)
    return _in_torch(pairs, s_hat, s, groups, need)


def _in_jax(pairs: Pairs, s_hat: Array, s: Array, groups: Groups, need: tuple[str, ...]) -> list[Array]:
    import jax
    import jax.numpy as jnp

    def of(arrays: Any, need: tuple[str, ...]) -> tuple[list[Array], Groups]:
        # transformations such as jvp pass NumPy arrays on
        s_hat, s, ids, present = (x if x is None else jnp.asarray(x) for x in arrays)
        lists = Groups(ids, groups.count, present)
        return [x for x in pairs.sums(s_hat, s, lists, need) if x is not None], lists

    # arrays of a trace must be arguments, they cannot be closed over
    @jax.custom_jvp
    def found(*arrays: Any) -> list[Array]:
        return of(arrays, need)[0]

    @found.defjvp
    def rule(arrays: Any, tangents: Any) -> tuple[list[Array], list[Array]]:
        (value, gradient), lists = of(arrays, ("value", "gradient"))
        rise = lists.sum(gradient * tangents[0])
        if need == ("value",):
            return [value], [rise]
        return [value, gradient], [rise, jnp.zeros_like(gradient)]

    return found(s_hat, jax.lax.stop_gradient(s), groups.ids, groups.present)


def _in_torch(pairs: Pairs, s_hat: Array, s: Array, groups: Groups, need: tuple[str, ...]) -> list[Array]:
    import torch

    s = s.detach()
    if torch.compiler.is_compiling():
        # a line through the value; compiled code has first derivatives only
        value, gradient, _ = pairs.sums(s_hat.detach(), s, groups, ("value", "gradient"))
        return [value + groups.sum(gradient * (s_hat - s_hat.detach())), gradient][: len(need)]
    if not s_hat.requires_grad:
        return [found for found in pairs.sums(s_hat, s, groups, need) if found is not None]
    from selmatch.pairs.autograd import Value

    return list(Value.apply(s_hat, s, groups.ids, groups.present, pairs, groups.count))[: len(need)]  # type: ignore[arg-type]
