"""Losses of the scores of two linear heads, a student's and a teacher's, without ever holding all scores.

Rows (tokens) are taken in chunks: both scores of a chunk are computed, the gradient takes the place of the student's
scores, and goes on to the hidden states and the head at once. Matrix products are PyTorch's.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import guard_scalar

from selmatch import functions
from selmatch.arrays import pytrees
from selmatch.arrays.autocast import full_precision, has_autocast
from selmatch.batch import mask_of_rows, prepare_untouched
from selmatch.composite import CompositeSoftmax
from selmatch.kernels import operators
from selmatch.kernels.gpu.emission import parameters
from selmatch.losses import Loss, MatchingLoss, loss_of
from selmatch.parameters import has_plain_numbers

__all__ = ["linear_matching_loss"]

functions.register_loaded_frameworks()

_WHO = "linear_matching_loss"
#: bytes of the scores of student and teacher together in one chunk; PyTorch's formulas take ten times that beside them
_CHUNK_BYTES = 1 << 30
_EAGER_CHUNK_BYTES = 1 << 27
#: chunks are whole multiples of so many rows, rows of scores start at multiples of so many scores
_ROWS = 128
_ALIGNED = 64
#: the gradients of so many rows can be added in float16
_FEW_ROWS = 256

#: the losses of rows of scores times their scale, and the gradient of their sum
_RowLosses = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def linear_matching_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    teacher_hidden: torch.Tensor,
    teacher_weight: torch.Tensor,
    loss: Any,
    *,
    bias: torch.Tensor | None = None,
    teacher_bias: torch.Tensor | None = None,
    where: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
    reduction: str | None = None,
    num_items: Any = None,
    canonicalise: bool | None = None,
    chunk: int | None = None,
    kernels: bool | None = None,
) -> torch.Tensor:
    r"""The loss between the scores of two heads, for vocabularies whose scores would fill the memory.

    .. math:: L(W x + b, \; W' x' + b')

    Same numbers as ``matching_loss(linear(hidden, weight, bias), linear(teacher_hidden, ...), loss)``. Gradients go to
    hidden, weight and bias, where they are wanted: nothing goes to the teacher. They are computed with the value, so
    call it without gradients (``torch.no_grad()``) for the value alone.

    Parameters
    ----------
    hidden, teacher_hidden : tensor
        Hidden states, on the last axis; the axes before it agree.
    weight, teacher_weight : tensor
        The heads, [classes, hidden]; classes agree.
    loss : MatchingLoss, potential, or module
        A loss of many classes; of a module (:class:`selmatch.torch.MatchingLoss`) reduction, canonicalise and kernels
        are taken over. Its numbers are constants here.
    bias, teacher_bias : tensor, optional
        Of the heads, [classes].
    where : boolean tensor, optional
        Which rows count: of the shape of hidden without its last axis, or with 1 there. The others may hold anything.
    weights : tensor, optional
        Not negative, of the rows.
    reduction : {"mean", "sum"}, optional
        The mean is that of the weighted rows that count, 0 when there are none.
    num_items : number or tensor without axes, optional
        Replaces the denominator of the mean: the count of all devices and of all accumulated batches.
    canonicalise : bool, optional
        Turn both scores into log-probabilities first: for logits, which are only defined up to a shift.
    chunk : int, optional
        Rows taken at a time; chosen so that both scores of a chunk take 1 GiB.
    kernels : bool, optional
        None takes GPU kernels where there are some, False never does, True insists.

    Returns
    -------
    tensor
        A single number, of at least single precision.

    Examples
    --------
    >>> import torch
    >>> from selmatch.kernels.linear import linear_matching_loss
    >>> hidden, head = torch.ones(5, 2, requires_grad=True), torch.tensor([[0.5, 0.0], [0.1, 0.2], [0.0, 0.4]])
    >>> teacher_hidden, teacher_head = torch.ones(5, 1), torch.tensor([[0.7], [0.2], [0.3]])
    >>> value = linear_matching_loss(hidden, head, teacher_hidden, teacher_head, CompositeSoftmax(Sinh()))
    >>> value.backward()
    >>> print(value.detach(), hidden.grad.shape)
    tensor(0.0154) torch.Size([5, 2])
    """
    student, teacher = _Head(hidden, weight, bias), _Head(teacher_hidden, teacher_weight, teacher_bias)
    _require_heads(student, teacher)
    where = mask_of_rows(where, hidden.shape[:-1]) if isinstance(where, torch.Tensor) else where
    _require_rows(hidden.shape[:-1], where, weights, num_items, chunk)
    wanted = _wanted(loss, reduction, canonicalise, kernels)
    _require_loss(wanted, weight.shape[0])
    device = hidden.device.type
    student, teacher = (head.as_autocast(device) for head in (student, teacher))
    _require_dtypes(student, teacher)
    with full_precision(device):
        scale = _scale(student.hidden, where, weights, wanted.reduction, num_items)
        student, teacher = student.flat(), teacher.flat().detach()
        needed = [torch.is_grad_enabled() and x is not None and x.requires_grad for x in student]
        kernel = _kernel_of(wanted, student, teacher)
        with torch.no_grad():
            if kernel is None:
                rows = _chunk_rows(chunk, student, teacher, _EAGER_CHUNK_BYTES)
                losses_of = functools.partial(_row_losses, wanted.loss, wanted.canonicalise)
                value, *gradients = _in_chunks(student, teacher, scale.factor, rows, needed, losses_of)
            else:
                value, *gradients = linear_losses(
                    *student,
                    *teacher,
                    kernel.numbers,
                    scale.factor,
                    kernel.form,
                    wanted.canonicalise,
                    chunk or 0,
                    needed,
                )
        if any(needed):
            share = _share(student.hidden)
            known = (student, gradients, (1.0, share, share))
            value = attached(value, *(list(itertools.compress(x, needed)) for x in known), kernel is not None)
        return value if scale.divisor is None else value / scale.divisor


# --------------------------------------------------------------------------------------------------- what the user gave


class _Head(NamedTuple):
    """Hidden states and the linear layer that makes scores of them."""

    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None

    def _each(self, function: Callable[[torch.Tensor], torch.Tensor]) -> _Head:
        return _Head(*(x if x is None else function(x) for x in self))  # type: ignore[arg-type]

    def as_autocast(self, device: str) -> _Head:
        """In the dtype that linear layers have under autocast."""
        if not has_autocast(device) or not torch.is_autocast_enabled(device):
            return self
        dtype = torch.get_autocast_dtype(device)
        return self._each(lambda x: x if x.dtype == torch.float64 else x.to(dtype))

    def detach(self) -> _Head:
        return self._each(torch.Tensor.detach)

    def flat(self) -> _Head:
        """With all rows on one axis."""
        return self._replace(hidden=self.hidden.reshape(-1, self.hidden.shape[-1]))

    def scores(self, rows: slice, out: torch.Tensor | None) -> torch.Tensor:
        if self.bias is None:
            return torch.mm(self.hidden[rows], self.weight.t(), out=out)
        return torch.addmm(self.bias, self.hidden[rows], self.weight.t(), out=out)


class _Wanted(NamedTuple):
    """A loss, the module that it came in, and how the user wants it."""

    loss: Any
    module: Any
    reduction: str
    canonicalise: bool
    kernels: bool | None


def _wanted(loss: Any, reduction: str | None, canonicalise: bool | None, kernels: bool | None) -> _Wanted:
    module: Any = loss if isinstance(loss, torch.nn.Module) and hasattr(loss, "_assembled") else None
    if module is None:
        core = loss if isinstance(loss, Loss) else loss_of(_WHO, loss)
        return _Wanted(core, None, reduction or "mean", bool(canonicalise), kernels)
    return _Wanted(
        module._assembled(),
        module,
        reduction or module.reduction,
        module.canonicalise if canonicalise is None else canonicalise,
        module.kernels if kernels is None else kernels,
    )


def _require_loss(wanted: _Wanted, classes: int) -> None:
    loss = wanted.loss
    if not loss.vector:
        raise ValueError(f"{_WHO}: loss must be one of many classes, got {loss!r}. Try CompositeSoftmax(scaling).")
    rho = getattr(loss.potential, "rho", None)
    if rho is not None and len(rho) != classes:
        raise ValueError(f"{_WHO}: weight must have {len(rho)} classes (as rho), got {classes}.")
    if wanted.module is not None:
        learned = any(x.requires_grad for x in wanted.module._all_numbers())
    else:
        learned = not has_plain_numbers(loss) and any(getattr(x, "requires_grad", False) for x in parameters(loss))
    if learned:
        raise ValueError(
            f"{_WHO}: numbers of the loss must be constants, got some that require a gradient. "
            "Compute the scores, and use selmatch.torch.matching_loss."
        )
    if wanted.reduction not in ("mean", "sum"):
        raise ValueError(
            f"{_WHO}: reduction must be 'mean' or 'sum', got {wanted.reduction!r}. "
            "Gradients are computed with the value: give weights of the rows now."
        )


def _require_heads(student: _Head, teacher: _Head) -> None:
    for whose, head in (("", student), ("teacher_", teacher)):
        for name, x in head._asdict().items():
            if not isinstance(x, torch.Tensor) and (x is not None or name != "bias"):
                raise TypeError(
                    f"{_WHO}: {whose}{name} must be a tensor, got {type(x).__name__}. Try torch.as_tensor(...)."
                )
        hidden, weight = tuple(head.hidden.shape), tuple(head.weight.shape)
        if not hidden or len(weight) != 2 or 0 in weight or weight[1] != hidden[-1]:
            raise ValueError(
                f"{_WHO}: {whose}weight must have the shape [classes, {whose}hidden.shape[-1]], got {whose}hidden "
                f"{hidden} and {whose}weight {weight}."
            )
        if head.bias is not None and tuple(head.bias.shape) != weight[:1]:
            raise ValueError(f"{_WHO}: {whose}bias must have the shape {weight[:1]}, got {tuple(head.bias.shape)}.")
    if student.hidden.shape[:-1] != teacher.hidden.shape[:-1]:
        raise ValueError(
            f"{_WHO}: hidden and teacher_hidden must have the same axes but for the last, got "
            f"{tuple(student.hidden.shape)} and {tuple(teacher.hidden.shape)}."
        )
    classes, taught = student.weight.shape[0], teacher.weight.shape[0]
    if classes != taught:
        longer = "weight" if classes > taught else "teacher_weight"
        raise ValueError(
            f"{_WHO}: weight and teacher_weight must have the same number of classes, got {classes} and {taught}. "
            f"Rows that pad a vocabulary are no classes: {longer}[:{min(classes, taught)}]."
        )


def _require_dtypes(*heads: _Head) -> None:
    for head in heads:
        dtypes = [str(x.dtype).removeprefix("torch.") for x in head if x is not None]
        if len(set(dtypes)) > 1 or not head.hidden.is_floating_point():
            raise TypeError(
                f"{_WHO}: hidden, weight and bias of a head must have one floating point dtype, got "
                f"{', '.join(dtypes)}. Convert them, or use torch.autocast."
            )


def _require_rows(shape: tuple[int, ...], where: Any, weights: Any, num_items: Any, chunk: Any) -> None:
    if where is not None and not (
        isinstance(where, torch.Tensor) and where.dtype == torch.bool and where.shape == shape
    ):
        got = f"{where.dtype} {tuple(where.shape)}" if isinstance(where, torch.Tensor) else type(where).__name__
        raise ValueError(
            f"{_WHO}: where must say which rows count, as booleans of the shape {tuple(shape)}, got {got}."
        )
    for name, x in (("weights", weights), ("num_items", num_items)):
        if isinstance(x, torch.Tensor) and x.requires_grad:
            raise ValueError(f"{_WHO}: {name} must be constant, got a tensor that requires a gradient. Detach it.")
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
        raise ValueError(f"{_WHO}: chunk must be a number of rows >= 1, got {chunk!r}.")


class _Scale(NamedTuple):
    """What the losses of rows are multiplied by, one number or one for each row; and what their sum is divided by."""

    factor: torch.Tensor
    divisor: torch.Tensor | None


def _scale(hidden: torch.Tensor, where: Any, weights: Any, reduction: str, num_items: Any) -> _Scale:
    """The weights of rows, and the denominator of the mean.

    A gradient divided by the number of rows would leave the range of float16 before a loss scale could help: there
    weights are 1 on average, and the rest is left for the end.
    """
    single = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    wide = torch.ones((), dtype=single, device=hidden.device)
    rows = hidden.detach()[..., 0]
    batch = prepare_untouched(_WHO, rows, rows, wide, where, weights, reduction, num_items)
    factor, divisor = (wide * batch.scale()).reshape(-1), None
    if hidden.dtype == torch.float16 and reduction == "mean":
        total = factor.sum()
        divisor = torch.where(total == 0, 1.0, factor.count_nonzero() / total)
        factor = factor * divisor
    return _Scale(factor, divisor)


def _share(hidden: torch.Tensor) -> float:
    """How much of the sum over rows is held of the gradients of weight and bias, which float16 must hold."""
    rows = hidden.shape[0]
    return 1.0 if hidden.dtype != torch.float16 or rows <= _FEW_ROWS else _FEW_ROWS / rows


# ------------------------------------------------------------------------------------------------------------- kernels


class _Kernel(NamedTuple):
    form: str
    numbers: torch.Tensor


def _kernel_of(wanted: _Wanted, student: _Head, teacher: _Head) -> _Kernel | None:
    """What kernels need, where they can be used."""
    if wanted.kernels is False:
        return None
    weight = student.weight.detach()
    form, numbers = None, weight
    if (weight.is_cuda or operators.interpreted) and isinstance(wanted.loss.potential, CompositeSoftmax):
        if wanted.module is not None:
            form = wanted.module._form
            numbers = weight if form is None else wanted.module._packed_on(weight).detach()
        elif type(wanted.loss) is MatchingLoss and has_plain_numbers(wanted.loss):
            parts = _parts(wanted.loss.potential)
            form, numbers = _plain_form(parts), _plain_numbers(parts, weight.device).detach()
    refusal = operators.refusal(form, weight[:, 0], teacher.weight[:, 0], numbers)
    if refusal is None and form is not None:
        return _Kernel(form, numbers)
    if wanted.kernels:
        raise RuntimeError(f"{_WHO}: kernels must not be True here: {refusal}. Leave kernels out.")
    return None


def _parts(value: Any) -> Any:
    """A potential as types and constants: of objects, code that is being compiled cannot make arguments."""
    if dataclasses.is_dataclass(value):
        return type(value), *((name, _parts(part)) for name, part in pytrees.attributes(value).items())
    if isinstance(value, tuple):
        return tuple, *map(_parts, value)
    # compiled code takes numbers that have changed for variables
    return guard_scalar(value) if isinstance(value, (int, float)) else value


def _whole(parts: Any) -> Any:
    """A potential from its parts."""
    if not isinstance(parts, tuple):
        return parts
    kind, *values = parts
    if kind is tuple:
        return tuple(map(_whole, values))
    return pytrees.rebuild(kind, ((), [(name, _whole(part)) for name, part in values]), ())


# compiled code takes what they return for a constant of the loss
@torch.compiler.assume_constant_result
def _plain_form(parts: Any) -> str | None:
    return _kept_form(parts)


@torch.compiler.assume_constant_result
def _plain_numbers(parts: Any, device: torch.device) -> torch.Tensor:
    return _kept_numbers(parts, device)


@functools.lru_cache(maxsize=64)
def _kept_form(parts: Any) -> str | None:
    return operators.form_of(_whole(parts))


@functools.lru_cache(maxsize=64)
def _kept_numbers(parts: Any, device: torch.device) -> torch.Tensor:
    """The numbers on a device: kept, because bringing them there waits for it."""
    return torch.tensor(list(parameters(_whole(parts))), dtype=torch.float32, device=device)


# -------------------------------------------------------------------------------------------------------------- chunks


def _chunk_rows(chunk: int | None, student: _Head, teacher: _Head, budget: int) -> int:
    """Rows of a chunk: what was asked for, or as many as the budget in bytes allows, in equal chunks."""
    if chunk:
        return chunk
    rows, classes = student.hidden.shape[0], student.weight.shape[0]
    most = budget // (classes * (student.weight.element_size() + teacher.weight.element_size()))
    most = max(_ROWS, most // _ROWS * _ROWS)
    chunks = -(-rows // most)
    return -(-rows // (chunks * _ROWS)) * _ROWS if chunks > 1 else most


def _in_chunks(
    student: _Head,
    teacher: _Head,
    scale: torch.Tensor,
    chunk: int,
    needed: Sequence[bool],
    losses_of: _RowLosses,
    buffers: Sequence[torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The sum of the losses, and its gradients with respect to hidden, weight and bias (empty unless needed).

    Of the gradients of weight and bias it is a share. Scores are written to the buffers where there are some.
    """
    hidden, weight, _ = student
    count, share = hidden.shape[0], _share(hidden)
    of_rows = scale.shape[0] == count
    to_hidden = hidden.new_empty(hidden.shape if needed[0] else (0,))
    to_weight = weight.new_zeros(weight.shape if needed[1] and count == 0 else (0,))
    to_bias = scale.new_zeros(weight.shape[0] if needed[2] else 0)
    losses = [scale.new_zeros(0)]
    for start in range(0, count, chunk):
        rows = slice(start, min(start + chunk, count))
        out = [None, None] if buffers is None else [buffer[: rows.stop - start] for buffer in buffers]
        s_hat, s = student.scores(rows, out[0]), teacher.scores(rows, out[1])
        factor = scale[rows] if of_rows else scale
        loss, gradient = losses_of(s_hat, s, factor)
        losses.append(loss)
        if needed[0]:
            torch.mm(gradient, weight, out=to_hidden[rows])
        if needed[1]:
            x = hidden[rows]
            if of_rows:  # rows that do not count may hold anything, and 0 times that is not always 0
                x = torch.where((factor != 0).unsqueeze(-1), x, 0.0)
            if start:
                to_weight.addmm_(gradient.t(), x, alpha=share)
            else:
                to_weight = torch.addmm(weight, gradient.t(), x, beta=0.0, alpha=share)
        if needed[2]:
            to_bias += _sum_of_rows(gradient, scale.dtype)
    return torch.cat(losses).sum(), to_hidden, to_weight, (share * to_bias).to(hidden.dtype)


def _sum_of_rows(gradient: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """In steps: PyTorch's sum of many rows takes the memory of hundreds of rows on a GPU."""
    whole = gradient.shape[0] // _ROWS * _ROWS
    total = gradient[whole:].sum(0, dtype=dtype)
    return total + gradient[:whole].unflatten(0, (whole // _ROWS, _ROWS)).sum(1, dtype=dtype).sum(0) if whole else total


# ----------------------------------------------------------------------------------------------------------- operators


def _row_losses(
    loss: Loss, canonical: bool, s_hat: torch.Tensor, s: torch.Tensor, factor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses of rows times a factor, and the gradient of their sum in the dtype of the scores."""
    counted = (factor != 0).unsqueeze(-1)
    a, b = (torch.where(counted, z.to(factor.dtype), loss.potential.point()) for z in (s_hat, s))
    if canonical:
        a, b = a.log_softmax(-1), b.log_softmax(-1)
    value, gradient = loss.value_and_grad(a, b, weights=factor, reduction="none")
    if canonical:
        gradient = gradient - a.exp() * gradient.sum(-1, keepdim=True)
    return value, gradient.to(s_hat.dtype)


@torch.library.custom_op("selmatch::linear_losses", mutates_args=())
def linear_losses(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    teacher_hidden: torch.Tensor,
    teacher_weight: torch.Tensor,
    teacher_bias: torch.Tensor | None,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    form: str,
    canonical: bool,
    chunk: int,
    needed: list[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The sum of scaled losses, and its gradients with respect to hidden, weight and bias (empty unless needed).

    chunk = 0 leaves the choice to the operator.
    """
    from selmatch.kernels.gpu import launch

    def losses_of(s_hat, s, factor):
        gradient = s_hat if any(needed) else None
        return launch.rows(form, s_hat, s, numbers.float(), factor, None, gradient, canonical), s_hat

    student, teacher = _Head(hidden, weight, bias), _Head(teacher_hidden, teacher_weight, teacher_bias)
    classes = weight.shape[0]
    rows = min(_chunk_rows(chunk, student, teacher, _CHUNK_BYTES), max(hidden.shape[0], 1))
    width = -(-classes // _ALIGNED) * _ALIGNED
    held = [torch.empty((rows, width), dtype=x.dtype, device=x.device)[:, :classes] for x in (weight, teacher_weight)]
    return _in_chunks(student, teacher, scale, rows, needed, losses_of, held)


@linear_losses.register_fake
def _(
    hidden, weight, bias, teacher_hidden, teacher_weight, teacher_bias, numbers, scale, form, canonical, chunk, needed
):
    gradients = (
        x.new_empty(x.shape) if n else hidden.new_empty(0) for n, x in zip(needed, (hidden, weight, bias), strict=True)
    )
    return scale.new_empty(()), *gradients


@torch.library.custom_op("selmatch::attached", mutates_args=())
def attached(
    value: torch.Tensor, inputs: list[torch.Tensor], gradients: list[torch.Tensor], shares: list[float], kernels: bool
) -> torch.Tensor:
    """A value whose gradients with respect to some inputs, or a share of these, are known already."""
    return value.clone()


@attached.register_fake
def _(value, inputs, gradients, shares, kernels):
    return value.new_empty(())


def _set_up(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, gradients, ctx.shares, ctx.kernels = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*gradients)


def _backward(ctx: Any, factor: torch.Tensor | None) -> tuple[Any, ...]:
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"{_WHO}: second derivatives must not be asked for, there are none. "
            "Compute the scores, and use selmatch.torch.matching_loss."
        )
    count = len(ctx.saved_tensors)
    if factor is None:
        return None, [None] * count, [None] * count, None, None
    factors = [factor if share == 1.0 else factor / share for share in ctx.shares]
    if ctx.kernels:
        gradients = [operators._backward_to_scores(*known) for known in zip(ctx.saved_tensors, factors, strict=True)]
    else:
        gradients = [(x.to(f.dtype) * f).to(x.dtype) for x, f in zip(ctx.saved_tensors, factors, strict=True)]
    return None, gradients, [None] * count, None, None


attached.register_autograd(_backward, setup_context=_set_up)
