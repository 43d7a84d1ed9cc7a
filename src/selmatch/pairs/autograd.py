"""Derivatives of sums over pairs for PyTorch; imported only when a user has imported PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from selmatch.lists import Groups


class Value(torch.autograd.Function):
    """Values and gradients; the gradient is kept, and if it is to be differentiated in turn, computed again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s_hat, s, ids, present, pairs, count) -> Any:  # type: ignore[override]
        return tuple(pairs.sums(s_hat, s, Groups(ids, count, present), ("value", "gradient"))[:2])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *arrays, ctx.pairs, ctx.count = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*arrays, output[1])
        ctx.save_for_forward(*arrays, output[1])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:  # type: ignore[override]
        s_hat, s, ids, present, gradient = ctx.saved_tensors
        groups = Groups(ids, ctx.count, present)
        if torch.is_grad_enabled() and ctx.pairs.plan == "blocked":
            gradient = Gradient.apply(s_hat, s, ids, present, ctx.pairs, ctx.count)
        elif torch.is_grad_enabled():
            gradient = ctx.pairs.sums(s_hat, s, groups, ("gradient",))[1]
        return groups.spread(cotangents[0]) * gradient, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        _, _, ids, present, gradient = ctx.saved_tensors
        return Groups(ids, ctx.count, present).sum(gradient * tangents[0]), None


class Gradient(torch.autograd.Function):
    """Recorded operation by operation, a gradient over all pairs would take quadratic memory."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s_hat, s, ids, present, pairs, count) -> Any:  # type: ignore[override]
        return pairs.sums(s_hat, s, Groups(ids, count, present), ("gradient",))[1]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *arrays, ctx.pairs, ctx.count = inputs
        ctx.save_for_backward(*arrays)
        ctx.save_for_forward(*arrays)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:  # type: ignore[override]
        return Gradient.jvp(ctx, *cotangents), None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """The Hessian is symmetric: forwards and backwards are the same."""
        s_hat, s, ids, present = ctx.saved_tensors
        return ctx.pairs.hessian_times(s_hat, s, Groups(ids, ctx.count, present), tangents[0])
