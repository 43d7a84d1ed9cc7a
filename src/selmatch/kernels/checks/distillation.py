"""Checks of distillation by kernels: every way from logits to them, against the formulas in double precision."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch

import selmatch as sm
from selmatch import distillation
from selmatch.distillation import TopKTeacher, distillation_loss, fitted, forward_kl
from selmatch.kernels.checks.operators import close, kernels_on

SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {"shape": (2, 3, 1300), "dtypes": [torch.float32]},
    "gpu": {"shape": (4, 6, 32000), "dtypes": [torch.float32, torch.bfloat16]},
}


@contextlib.contextmanager
def only_kernels(device: Any) -> Iterator[None]:
    """Let kernels run on this device, and nothing else."""

    @functools.cache
    def module(loss: Any, canonicalise: bool, place: Any) -> Any:
        return sm.torch.MatchingLoss(loss, canonicalise=canonicalise, kernels=True).to(place)

    with kernels_on(device), patch.object(distillation, "_module", module):
        if str(device) == "cpu":
            with patch.object(distillation, "_has_kernels", lambda student: True):
                yield
        else:
            yield


def logits(shape: tuple[int, ...], device: Any, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    teacher = 3.0 * torch.randn(shape, device=device)
    student = teacher + 0.5 * torch.randn(shape, device=device) + 7.0
    return student.to(dtype).requires_grad_(), teacher.to(dtype)


def compare(what: str, function: Callable[..., Any], student: torch.Tensor, teacher: Any, device: Any) -> None:
    """Value and gradient by kernels, and by formulas on a processor in double precision."""
    with only_kernels(device):
        value = function(student, teacher)
        (gradient,) = torch.autograd.grad(value.sum(), student)
    exact = student.detach().cpu().double().requires_grad_()
    wide = _wide(teacher)
    expected = function(exact, wide)
    (slope,) = torch.autograd.grad(expected.sum(), exact)
    low = student.dtype == torch.bfloat16
    close(f"{what}: value", value.detach().cpu(), expected.detach(), 2e-5)
    close(f"{what}: gradient", gradient.cpu(), slope, 1e-2 if low else 5e-5)


def _wide(teacher: Any) -> Any:
    if not isinstance(teacher, TopKTeacher):
        return teacher.cpu().double()
    moved = teacher.to("cpu")
    return TopKTeacher(moved.indices, moved.scores.double(), moved.log_sum_exp.double(), moved.classes)


def check_full_teachers(device: Any, sizes: dict[str, Any]) -> None:
    """Log-probabilities, scores less those of the teacher's best class, temperatures, masks, weights, counts."""
    for dtype in sizes["dtypes"]:
        student, teacher = logits(sizes["shape"], device, dtype)
        loss = fitted(teacher, share=0.5).loss
        rows = sizes["shape"][:-1]
        mask, weights = torch.rand(rows) > 0.3, torch.rand(rows)
        mask.view(-1)[0] = True
        selective = functools.partial(distillation_loss, loss=loss)
        compare(f"{dtype} log-probabilities", selective, student, teacher, device)
        compare(f"{dtype} temperature", functools.partial(selective, temperature=2.0), student, teacher, device)
        compare(f"{dtype} forward KL", forward_kl, student, teacher, device)
        best = sm.CompositeSoftmax(sm.SmeLU().affine(beta=-5.0))
        centred = functools.partial(distillation_loss, loss=best, canonicalise="teacher_maximum")
        compare(f"{dtype} teacher's maximum", centred, student, teacher, device)

        def options(s_hat: torch.Tensor, s: torch.Tensor, value: Any = selective, given: Any = (mask, weights)) -> Any:
            where, weights = (x.to(s_hat.device) for x in given)
            return value(s_hat, s, where=where, weights=weights, num_items=11.0)

        compare(f"{dtype} masks and weights", options, student, teacher, device)


def check_stored_teachers(device: Any, sizes: dict[str, Any]) -> None:
    """The best classes only: exact, and not."""
    for dtype in sizes["dtypes"]:
        student, teacher = logits(sizes["shape"], device, dtype)
        stored = TopKTeacher.from_scores(teacher, 64)
        for exact in (False, True):
            loss = fitted(stored, share=0.3, exact=exact).loss
            assert not exact or stored.is_exact(loss).all()
            compare(f"{dtype} exact {exact}", functools.partial(distillation_loss, loss=loss), student, stored, device)


CHECKS = [("full teachers", check_full_teachers), ("stored teachers", check_stored_teachers)]
