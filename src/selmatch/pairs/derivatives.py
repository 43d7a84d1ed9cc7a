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
        s_hat, s, ids, present = arrays
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
    if not s_hat.requires_grad:
        return [found for found in pairs.sums(s_hat, s, groups, need) if found is not None]

    class Value(torch.autograd.Function):
        """The gradient is kept; if it is to be differentiated in turn, it is computed again."""

        @staticmethod
        def forward(s_hat: Any) -> Any:  # type: ignore[override]
            return tuple(pairs.sums(s_hat, s, groups, ("value", "gradient"))[:2])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(inputs[0], output[1])

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:  # type: ignore[override]
            s_hat, gradient = ctx.saved_tensors
            if torch.is_grad_enabled() and pairs.plan == "blocked":
                gradient = Gradient.apply(s_hat)
            elif torch.is_grad_enabled():
                gradient = pairs.sums(s_hat, s, groups, ("gradient",))[1]
            return groups.spread(cotangents[0]) * gradient

    class Gradient(torch.autograd.Function):
        """Recorded operation by operation, a gradient over all pairs would take quadratic memory."""

        @staticmethod
        def forward(s_hat: Any) -> Any:  # type: ignore[override]
            return pairs.sums(s_hat, s, groups, ("gradient",))[1]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:  # type: ignore[override]
            return pairs.hessian_times(ctx.saved_tensors[0], s, groups, cotangents[0])

    return list(Value.apply(s_hat))[: len(need)]  # type: ignore[arg-type]
