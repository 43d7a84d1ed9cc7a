"""How PyTorch spells the functions that formulas use; imported only when a user has imported PyTorch.

A clamp has derivative 1 at its bound, where torch.maximum has 1/2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from selmatch.arrays import pytrees
from selmatch.arrays.namespaces import SAME_NAME, NumPy, copy_names, is_number, standard_names


class Torch:
    name = "PyTorch"
    is_library = True
    abs = staticmethod(torch.abs)
    where = staticmethod(torch.where)

    @staticmethod
    def minimum(a, b):
        if is_number(b):
            return torch.clamp(a, max=b)
        return torch.clamp(b, max=a) if is_number(a) else torch.minimum(a, b)

    @staticmethod
    def maximum(a, b):
        if is_number(b):
            return torch.clamp(a, min=b)
        return torch.clamp(b, min=a) if is_number(a) else torch.maximum(a, b)

    @staticmethod
    def arctan2(y, x):
        y = torch.full_like(x, y) if is_number(y) else y
        return torch.atan2(y, torch.full_like(y, x) if is_number(x) else x)

    @staticmethod
    def fold(x):
        return torch.where(x > 0, -x, x)

    @staticmethod
    def positive_part(x):
        return torch.where(x > 0, x, 0.0)

    @staticmethod
    def side(x):
        return torch.where(x < 0, -1.0, 1.0)

    @staticmethod
    def within(x, bound):
        return torch.where(torch.abs(x) <= bound, x, 0.0)

    @staticmethod
    def double(x):
        return x if x.device.type == "mps" else x.double()  # Apple GPUs have no double precision

    @staticmethod
    def xlogy(x, y):
        return torch.xlogy(x, y)

    @staticmethod
    def falling(value, x):
        at_end = x == 0
        return torch.where(at_end, value - torch.sqrt(torch.where(at_end, x, 1.0)), value)

    @staticmethod
    def row_sum(x):
        return torch.sum(x, dim=-1, keepdim=True)

    @staticmethod
    def layer_sum(x):
        return torch.sum(x, dim=0)

    @staticmethod
    def running_sum(x):
        return torch.cumsum(x, dim=-1)

    @staticmethod
    def position(knots, x):
        return torch.searchsorted(knots, x.contiguous(), right=True)

    @staticmethod
    def take(x, places):
        return x.reshape(-1)[places.reshape(-1)].reshape(places.shape)  # places without axes would be looked at

    stacked = staticmethod(torch.cat)

    @staticmethod
    def row_max(x):
        return torch.amax(x, dim=-1, keepdim=True)

    @staticmethod
    def segment_sum(x, ids, count):
        return torch.zeros(count, dtype=x.dtype, device=x.device).index_add(0, ids, x)

    @staticmethod
    def segment_max(x, ids, count):
        lowest = torch.full((count,), -torch.inf, dtype=x.dtype, device=x.device)
        return lowest.scatter_reduce(0, ids, x, "amax")

    @staticmethod
    def integers(values, like):
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)

    @staticmethod
    def known(x):
        """The values as a NumPy array; None where looking at them would stop a device or a transformation."""
        if torch.compiler.is_compiling() or x.device.type != "cpu":
            return None
        try:
            return x.detach().numpy()
        except RuntimeError:  # inside torch.func
            return None

    @staticmethod
    def has_no_nan(x):
        """As for NumPy; False where values cannot be looked at."""
        if type(x) is not torch.Tensor or x.dtype not in (torch.float32, torch.float64):
            return False
        values = Torch.known(x)
        if values is None:
            return False
        with np.errstate(all="ignore"):
            return NumPy.has_no_nan(values)

    @staticmethod
    def ranks(ids):
        """The rank of each id among the different ones, and how many there are, or at most."""
        ordered, order = torch.sort(ids, stable=True)
        steps = torch.cumsum(ordered[1:] != ordered[:-1], dim=0)
        ranks = torch.zeros_like(order).scatter(0, order[1:], steps)
        return ranks, len(ids) if torch.compiler.is_compiling() or not len(ids) else int(steps[-1:].sum()) + 1

    @staticmethod
    def lists_of(ends, count):
        """The list of each of ``count`` items, from where the lists end."""
        items = torch.arange(count, dtype=ends.dtype, device=ends.device)
        return torch.searchsorted(ends, items, right=True)

    @staticmethod
    def constant(x):
        return x.detach()

    @staticmethod
    def placed(items, positions, count):
        return torch.zeros(count, dtype=items.dtype, device=items.device).index_put((positions,), items)

    @staticmethod
    def like(values, x):
        if isinstance(values, torch.Tensor):
            return values.to(dtype=x.dtype, device=x.device)
        if any(isinstance(value, torch.Tensor) for value in values):
            return torch.stack([torch.as_tensor(v, dtype=x.dtype, device=x.device) for v in values])
        return torch.tensor(values, dtype=x.dtype, device=x.device)

    @staticmethod
    def is_single(x):
        return x.dtype != torch.float64

    @staticmethod
    def is_floating(x):
        return x.dtype.is_floating_point

    @staticmethod
    def widen(x):
        return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x

    @staticmethod
    def cast(x, like):
        return x if x.dtype is like.dtype else x.to(like.dtype)

    @staticmethod
    def ready(s_hat, s):
        return (
            type(s) is torch.Tensor
            and s.dtype is s_hat.dtype
            and s.shape == s_hat.shape
            and (s.dtype is torch.float32 or s.dtype is torch.float64)
        )

    @staticmethod
    def total(x):
        return torch.sum(x)

    @staticmethod
    def mean(x):
        return torch.mean(x)

    @staticmethod
    def losses(kind, loss, s, s_hat, present):
        """The loss of each row. Where only predictions are differentiated, backwards, the gradient is the closed form;
        trained numbers of the loss and forward mode take the derivatives of the formula."""
        if torch.is_grad_enabled() and s_hat.requires_grad and not s.requires_grad and not _forward_mode():
            if not any(map(_requires_grad, pytrees.numbers(loss))) and not _hides_trained_numbers(loss, s_hat):
                return _Losses.apply(s_hat, s, present, kind, loss)[0]
        return kind.rows(loss, s, s_hat - s, s_hat, present)

    @staticmethod
    def row_any(x):
        return torch.any(x, dim=-1)

    @staticmethod
    def class_numbers(x):
        return torch.arange(x.shape[-1], device=x.device)

    @staticmethod
    def broadcast(x, shape):
        return x if x.shape == shape else torch.broadcast_to(x, shape)

    @staticmethod
    def outer(x, y):
        return x.unsqueeze(-1) * y.unsqueeze(-2)

    @staticmethod
    def diagonal_matrix(x):
        return torch.diag_embed(x)


def _requires_grad(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def _hides_trained_numbers(loss, like):
    """Whether a formula of the user has derivatives at a score that has none."""
    return any(_requires_grad(own.link(Torch.like((own.point(),), like))) for own in pytrees.own_formulas(loss))


def _forward_mode():
    """Whether derivatives are carried forward somewhere around."""
    if torch.compiler.is_compiling():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    return any(level.key() == functorch.TransformType.Jvp for level in functorch.get_interpreter_stack() or ())


class _Losses(torch.autograd.Function):
    """Losses and their gradient; the gradient is kept, and if it is to be differentiated in turn, computed again.

    There is no rule for forward mode: torch.compile would refuse it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(s_hat, s, present, kind, loss) -> Any:  # type: ignore[override]
        return kind.both(loss, s, s_hat - s, s_hat, present)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *arrays, ctx.kind, ctx.loss = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*arrays, output[1])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:  # type: ignore[override]
        s_hat, s, present, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = ctx.kind.gradient(ctx.loss, s, s_hat - s, s_hat, present)
        factor = cotangents[0].unsqueeze(-1) if ctx.loss.vector else cotangents[0]
        # rows without weight have no gradient, also where their own is infinite
        return torch.where(factor == 0, 0.0, factor * gradient), None, None, None, None


copy_names(Torch, torch, {**{name: name for name in SAME_NAME}, **standard_names("arctan2")})
