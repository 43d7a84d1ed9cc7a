"""The GPU kernels as operators of PyTorch, which autograd, ``torch.compile`` and ``torch.export`` see.

Losses and gradients come from one launch; going backward only multiplies the gradient by what arrives, in a kernel that
returns at once where that is 1. Second derivatives are computed by PyTorch, from the potential itself.

Numbers of a potential (alpha, beta, gamma, ...) are read from a tensor on the device; the scale of a row holds its
weight and the denominator of a mean.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from selmatch.composite import CompositeSoftmax, Separable
from selmatch.kernels import emit
from selmatch.losses import MatchingLoss
from selmatch.sparse_teachers import dense_rows

_log = logging.getLogger(__name__)
_HALF_OR_SINGLE = (torch.float32, torch.bfloat16, torch.float16)
#: tests run kernels on processors, by Triton's interpreter
interpreted = False
#: what forms are for: "rows" of classes, single "scores", or "sums" of the losses of single scores
_kinds: dict[str, str] = {}


def is_available() -> bool:
    """Whether Triton is there, and the source files that it reads."""
    return importlib.util.find_spec("triton") is not None and emit.has_sources()


def form_of(potential: Any) -> str | None:
    """The key of a potential's kernels; None, and a line in the log, where there are none."""
    if not is_available():
        return None
    from selmatch.kernels.gpu import forms

    try:
        key = forms.key_of(potential)
    except emit.NotCompilable as error:
        _log.info("%r has no GPU kernels: %s. PyTorch computes it.", potential, error)
        return None
    is_sum = isinstance(potential, Separable)
    _kinds[key] = "rows" if isinstance(potential, CompositeSoftmax) else "sums" if is_sum else "scores"
    return key


def refusal(form: str | None, s_hat: torch.Tensor, s: torch.Tensor, numbers: torch.Tensor) -> str | None:
    """Why kernels cannot be used; None if they can."""
    if form is None:
        return "there are none for this loss, or Triton is missing"
    if not (s_hat.is_cuda or interpreted):
        return f"scores are on {s_hat.device}, not on a GPU"
    if s.device != s_hat.device or numbers.device != s_hat.device:
        return f"scores and parameters are on {s_hat.device}, {s.device} and {numbers.device}, not on one device"
    if s_hat.dtype not in _HALF_OR_SINGLE or s.dtype not in _HALF_OR_SINGLE:
        return f"scores are {s_hat.dtype} and {s.dtype}, not of single or half precision"
    if numbers.requires_grad:
        return "parameters of the loss are trained"
    if s_hat.shape != s.shape or s_hat.ndim == 0 or s_hat.numel() == 0:
        return "scores have different shapes, or are empty"
    if torch.compiler.is_compiling():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:  # type: ignore[attr-defined]
        return "a transformation of torch.func is under way"
    if torch.autograd.forward_ad._current_level >= 0:
        return "forward-mode differentiation is under way"
    return None


def losses(
    form: str,
    s_hat: torch.Tensor,
    s: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    canonicalise: bool = False,
    overwrite: bool = False,
    reduce: bool = False,
) -> torch.Tensor:
    """Losses times their scale, in single precision; their sum with ``reduce``.

    Parameters
    ----------
    form : str
        From :func:`form_of`.
    s_hat, s : tensor
        Predicted and observed scores of one shape; classes on the last axis.
    numbers : tensor
        The parameters of the potential.
    scale : tensor
        One number, or of the shape of the unreduced result. Where it is 0, scores are not looked at.
    present : tensor, optional
        Boolean mask of the shape of the scores.
    canonicalise : bool
        Take log-probabilities for scores, of both.
    overwrite : bool
        Write the gradient over s_hat, which must not be needed any more. Autograd notices if it is.
    reduce : bool
        Sum the losses.
    """
    kind = _kinds[form]
    if kind == "rows":
        present, scale = _by_rows(present, scale, s_hat)
        given = (s, numbers, scale, present, form, canonicalise)
        found = _computed(row_losses, _row_losses_at_once, _launch_rows, overwrite, s_hat, *given)
        return found.sum() if reduce else found
    if kind == "sums" and scale.ndim > 0:
        scale = scale.unsqueeze(-1).expand(s_hat.shape)
    given = (s, numbers, scale, present, form, reduce)
    found = _computed(score_losses, _score_losses_at_once, _launch_scores, overwrite, s_hat, *given)
    return found if reduce or kind == "scores" else found.sum(-1)


def stored_losses(
    form: str,
    s_hat: torch.Tensor,
    indices: torch.Tensor,
    log_probabilities: torch.Tensor,
    tail: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    overwrite: bool = False,
    reduce: bool = False,
) -> torch.Tensor:
    """The same with a teacher of which a few classes are stored: s_hat becomes log-probabilities first.

    The teacher has log-probabilities of the classes in ``indices`` (ascending) and ``tail`` for all others.
    """
    given = (indices, log_probabilities, tail, numbers, scale, form)
    found = _computed(sparse_row_losses, _sparse_row_losses_at_once, _launch_stored, overwrite, s_hat, *given)
    return found.sum() if reduce else found


def _computed(
    operator: Any, at_once: Any, launch: Callable[..., torch.Tensor], overwrite: bool, s_hat: torch.Tensor, *given: Any
) -> torch.Tensor:
    """Losses, by the way that costs least."""
    with_gradient = torch.is_grad_enabled() and s_hat.requires_grad
    if _is_traced(s_hat):
        return operator(s_hat, *given, with_gradient)[0]
    if not with_gradient:
        return launch(s_hat, *given, None)
    return _Overwriting.apply(s_hat, launch, *given) if overwrite else at_once(s_hat, *given, True)[0]


def _by_rows(
    present: torch.Tensor | None, scale: torch.Tensor, s_hat: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """A mask of whole rows as scales that are 0: rows that do not count are not read."""
    if present is not None and present.stride(-1) == 0 and s_hat.shape[-1] > 1:
        return None, torch.where(present[..., 0], scale, 0.0)
    return present, scale


def _is_traced(z: torch.Tensor) -> bool:
    """Whether operations are recorded rather than done: then nothing may happen in place."""
    if torch.compiler.is_compiling() or type(z) not in (torch.Tensor, torch.nn.Parameter):
        return True
    return _get_current_dispatch_mode() is not None


# ------------------------------------------------------------------------------------------------------------ launching


def _flat_scale(scale: torch.Tensor) -> torch.Tensor:
    return scale if scale.ndim == 0 else scale.reshape(-1).contiguous()


def _launch_rows(s_hat, s, numbers, scale, present, form, canonical, gradient):
    from selmatch.kernels.gpu import launch

    found = launch.rows(
        form,
        launch.flat(s_hat),
        launch.flat(s),
        numbers.float(),
        _flat_scale(scale.float()),
        None if present is None else launch.flat(present),
        None if gradient is None else gradient.view(-1, s_hat.shape[-1]),
        canonical,
    )
    return found.view(s_hat.shape[:-1])


def _launch_scores(s_hat, s, numbers, scale, present, form, reduce, gradient):
    from selmatch.kernels.gpu import launch_elementwise

    found = launch_elementwise.scores(
        form,
        s_hat.reshape(-1),
        s.reshape(-1),
        numbers.float(),
        _flat_scale(scale.float()),
        None if present is None else present.reshape(-1),
        None if gradient is None else gradient.view(-1),
        reduce,
    )
    return found if reduce else found.view(s_hat.shape)


def _launch_stored(s_hat, indices, log_probabilities, tail, numbers, scale, form, gradient):
    from selmatch.kernels.gpu import launch, launch_sparse

    found = launch_sparse.rows(
        form,
        launch.flat(s_hat),
        indices.reshape(-1, indices.shape[-1]),
        log_probabilities.reshape(-1, indices.shape[-1]),
        tail.reshape(-1),
        numbers.float(),
        _flat_scale(scale.float()),
        None if gradient is None else gradient.view(-1, s_hat.shape[-1]),
    )
    return found.view(s_hat.shape[:-1])


def _multiply(gradient: torch.Tensor, factor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    from selmatch.kernels.gpu import multiplying

    return multiplying.multiply(gradient, factor, out)


# ------------------------------------------------------------------------------------------------------------ operators


def _room(s_hat: torch.Tensor, wanted: bool) -> torch.Tensor:
    """Room for the gradient; empty unless it is wanted."""
    return torch.empty(s_hat.shape if wanted else (0,), dtype=s_hat.dtype, device=s_hat.device)


def _with_room(
    launch: Callable[..., torch.Tensor], with_gradient: bool, s_hat: torch.Tensor, *given: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses, and the gradient."""
    gradient = _room(s_hat, with_gradient)
    return launch(s_hat, *given, gradient if with_gradient else None), gradient


def _row_losses(
    s_hat: torch.Tensor,
    s: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    form: str,
    canonical: bool,
    with_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses of rows times their scale, and the gradient of their sum (empty unless asked for)."""
    return _with_room(_launch_rows, with_gradient, s_hat, s, numbers, scale, present, form, canonical)


row_losses = torch.library.custom_op("selmatch::row_losses", _row_losses, mutates_args=())


@row_losses.register_fake
def _(s_hat, s, numbers, scale, present, form, canonical, with_gradient):
    return s_hat.new_empty(s_hat.shape[:-1], dtype=torch.float32), _room(s_hat, with_gradient)


def _score_losses(
    s_hat: torch.Tensor,
    s: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    form: str,
    reduce: bool,
    with_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses of single scores times their scale, or their sum, and the gradient of the sum (empty unless asked for)."""
    return _with_room(_launch_scores, with_gradient, s_hat, s, numbers, scale, present, form, reduce)


score_losses = torch.library.custom_op("selmatch::score_losses", _score_losses, mutates_args=())


@score_losses.register_fake
def _(s_hat, s, numbers, scale, present, form, reduce, with_gradient):
    return s_hat.new_empty(() if reduce else s_hat.shape, dtype=torch.float32), _room(s_hat, with_gradient)


def _sparse_row_losses(
    s_hat: torch.Tensor,
    indices: torch.Tensor,
    log_probabilities: torch.Tensor,
    tail: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    form: str,
    with_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses of rows beside a stored teacher times their scale, and the gradient of their sum (empty unless wanted)."""
    return _with_room(_launch_stored, with_gradient, s_hat, indices, log_probabilities, tail, numbers, scale, form)


sparse_row_losses = torch.library.custom_op("selmatch::sparse_row_losses", _sparse_row_losses, mutates_args=())


@sparse_row_losses.register_fake
def _(s_hat, indices, log_probabilities, tail, numbers, scale, form, with_gradient):
    return s_hat.new_empty(s_hat.shape[:-1], dtype=torch.float32), _room(s_hat, with_gradient)


@torch.library.custom_op("selmatch::scaled", mutates_args=())
def scaled(gradient: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """A gradient times a factor of its shape, or of its shape without the last axis, as a new tensor."""
    return _multiply(gradient, factor, torch.empty_like(gradient))


@scaled.register_fake
def _(gradient, factor):
    return torch.empty_like(gradient)


@torch.library.custom_op("selmatch::scale_", mutates_args=("gradient",))
def scale_(gradient: torch.Tensor, factor: torch.Tensor) -> None:
    """Multiply a gradient by a factor in place; nothing is read or written where the factor is 1."""
    _multiply(gradient, factor, gradient)


@scale_.register_fake
def _(gradient, factor):
    return None


# ------------------------------------------------------------------------------------------------------------- autograd


def _for_entries(factor: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
    """One number, or one for each row or entry, in a shape that multiplies entries."""
    return factor.unsqueeze(-1) if 0 < factor.ndim < entries.ndim else factor


def _backward_to_scores(gradient: torch.Tensor, factor: torch.Tensor | None) -> torch.Tensor | None:
    """What goes back to the scores, from what has come to the losses."""
    if factor is None:
        return None
    if torch.is_grad_enabled():  # somebody wants second derivatives
        return (gradient * _for_entries(factor, gradient)).to(gradient.dtype)
    gradient = gradient.detach()  # it is an output, and would bring its graph along
    if _is_traced(gradient):
        return scaled(gradient, factor)
    return _multiply(gradient, factor, torch.empty_like(gradient) if _graph_is_kept() else gradient)


def _graph_is_kept() -> bool:
    """Whether somebody may go backward through this graph again."""
    kept = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)  # type: ignore[attr-defined]
    return True if kept is None else bool(kept())


def _keep(ctx: Any, output: Any, tensors: Any, turned: Callable[..., torch.Tensor]) -> None:
    """Keep what going backward needs; ``turned`` gives the second derivative from the tensors and a direction."""
    ctx.set_materialize_grads(False)
    ctx.turned = turned
    ctx.save_for_backward(output[1], *tensors)


def _keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, form, canonical, _ = inputs
    _keep(ctx, output, tensors, functools.partial(_second_derivative, form, canonical))


def _keep_scores(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, form, _, _ = inputs
    _keep(ctx, output, tensors, functools.partial(_second_derivative, form, False))


def _keep_stored(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, form, _ = inputs
    _keep(ctx, output, tensors, functools.partial(_second_derivative_of_stored, form))


def _backward(ctx: Any, factor: torch.Tensor | None, direction: torch.Tensor | None) -> tuple[Any, ...]:
    """What goes back to the eight arguments of an operator, from its losses and from its gradient."""
    gradient, *tensors = ctx.saved_tensors
    result = _backward_to_scores(gradient, factor)
    if direction is not None:
        turned = ctx.turned(*tensors, direction)
        result = turned if result is None else result + turned
    return result, *(7 * [None])


row_losses.register_autograd(_backward, setup_context=_keep_rows)
score_losses.register_autograd(_backward, setup_context=_keep_scores)
sparse_row_losses.register_autograd(_backward, setup_context=_keep_stored)


def _at_once(compute: Callable[..., Any], keep: Callable[..., None]) -> Callable[..., Any]:
    """An operator without its dispatch, which takes longer than small kernels do."""

    class AtOnce(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = compute(*inputs)
            keep(ctx, inputs, output)
            return output

        backward = staticmethod(_backward)  # type: ignore[assignment]

    return AtOnce.apply


_row_losses_at_once = _at_once(_row_losses, _keep_rows)
_score_losses_at_once = _at_once(_score_losses, _keep_scores)
_sparse_row_losses_at_once = _at_once(_sparse_row_losses, _keep_stored)


class _Overwriting(torch.autograd.Function):
    """Losses whose gradient takes the place of the predicted scores: no memory beside them."""

    @staticmethod
    def forward(ctx, s_hat, launch, *given):
        if not s_hat.is_contiguous():
            raise ValueError(
                "selmatch.torch: s_hat must be contiguous for overwrite=True, got strides "
                f"{tuple(s_hat.stride())}. Leave overwrite out."
            )
        if (s_hat._base if s_hat._is_view() else s_hat).is_leaf:
            raise ValueError(
                "selmatch.torch: s_hat must be computed, not a leaf of the graph, for overwrite=True: its values are "
                "lost."
            )
        held = s_hat.detach()
        found = launch(held, *given, held)
        torch.autograd.graph.increment_version(s_hat)
        ctx.gradient, ctx.version, ctx.others = held, held._version, len(given) + 1
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, factor):  # type: ignore[override]
        if ctx.gradient is None or ctx.gradient._version != ctx.version:
            raise RuntimeError(
                "selmatch.torch: going backward twice, or after s_hat was changed, must not happen with "
                "overwrite=True. Leave overwrite out."
            )
        gradient, ctx.gradient = ctx.gradient, None
        scale_(gradient, factor)
        return gradient, *(ctx.others * [None])


# --------------------------------------------------------------------------------------------------- second derivatives


def _second_derivative(
    form: str,
    canonical: bool,
    s_hat: torch.Tensor,
    s: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    direction: torch.Tensor,
) -> torch.Tensor:
    """The Hessian of the scaled losses times a direction."""
    from selmatch.kernels.gpu import forms

    potential = forms.potential_of(form, numbers.float().unbind())
    if canonical:
        teacher = _log_probabilities(s.detach().float(), scale, present)
        return _second_derivative_of_logits(potential, s_hat, teacher, scale, present, direction)
    options = {"where": present} if present is not None and isinstance(potential, CompositeSoftmax) else {}
    z, v = s_hat.float(), direction.float()
    if present is not None:
        z, v = torch.where(present, z, potential.point()), torch.where(present, v, 0.0)
    wide = _for_entries(scale, z)
    counts = wide != 0 if present is None else (wide != 0) & present
    return torch.where(counts, wide * potential.hvp(z, v, **options), 0.0).to(s_hat.dtype)


def _second_derivative_of_stored(
    form: str,
    s_hat: torch.Tensor,
    indices: torch.Tensor,
    log_probabilities: torch.Tensor,
    tail: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    direction: torch.Tensor,
) -> torch.Tensor:
    """The same with all classes of a stored teacher."""
    from selmatch.kernels.gpu import forms

    potential = forms.potential_of(form, numbers.float().unbind())
    teacher = dense_rows(indices, log_probabilities, tail, s_hat.shape[-1])
    return _second_derivative_of_logits(potential, s_hat, teacher, scale, None, direction)


def _second_derivative_of_logits(
    potential: Any,
    s_hat: torch.Tensor,
    teacher: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    direction: torch.Tensor,
) -> torch.Tensor:
    """The same through the log-probabilities of the predictions, by differentiating twice."""
    twice = torch.is_grad_enabled()
    with torch.enable_grad():
        z = s_hat.float() if s_hat.requires_grad else s_hat.detach().float().requires_grad_()
        student = _log_probabilities(z, scale, present)
        found = MatchingLoss(potential, check=False)(student, teacher, where=present, reduction="none")
        (first,) = torch.autograd.grad((found * scale).sum(), z, create_graph=True)
        return torch.autograd.grad(first, z, direction.float(), create_graph=twice)[0].to(s_hat.dtype)


def _log_probabilities(z: torch.Tensor, scale: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
    """Logarithms of the probabilities of the classes that are present; scores that do not count may be anything."""
    z = torch.where(_for_entries(scale, z) == 0, 0.0, z)
    return (z if present is None else z.masked_fill(~present, -1e30)).log_softmax(-1)
