"""Checks of the kernel for teachers of which a few classes are stored, against dense teachers in double precision."""

from __future__ import annotations

import functools
from typing import Any

import torch

import selmatch as sm
from selmatch.kernels.checks.operators import kernels_on
from selmatch.kernels.gpu import emission, forms, launch_sparse
from selmatch.sparse_teachers import TopKTeacher

#: rows and classes: of every scaling, of every number of stored classes, and of the other checks
SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {
        "scalings": [(2, 5003)],
        "stored": [(2, 1500), (1, 5003)],
        "options": [(3, 2600)],
        "operator": 1100,
    },
    "gpu": {
        "scalings": [(64, 32000), (16, 128256)],
        "stored": [(5, 1500), (5, 5003), (64, 32000), (300, 128256)],
        "options": [(7, 5003), (7, 32000), (7, 128256)],
        "operator": 40000,
    },
}

CLIPPING = sm.SmeLU(c=2.0).affine(beta=-7.0)
POTENTIALS = [
    sm.CompositeSoftmax(CLIPPING), sm.CompositeSoftmax(CLIPPING, gamma=0.1), sm.CompositeSoftmax(sm.Exp()),
    sm.CompositeSoftmax(sm.Exp(), gamma=0.02), sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-4.0)),
    sm.CompositeSoftmax(sm.Constant()), sm.CompositeSoftmax(sm.Constant(-0.5), gamma=2.0),
    sm.CompositeSoftmax(sm.Sigmoid().affine(beta=-5.0), anchor=0.5),
    sm.CompositeSoftmax(sm.Step().affine(beta=-9.0), gamma=0.5),
]  # fmt: skip


def teacher_of(device: Any, rows: int, classes: int, k: int, which: str = "best") -> TopKTeacher:
    """A teacher that keeps its best classes, or others."""
    generator = torch.Generator(device).manual_seed(rows + classes + k)
    z = 2.0 * torch.randn(rows, classes, generator=generator, device=device)
    if which == "best":
        return TopKTeacher.from_scores(z, k)
    first = {"first": 0, "last": classes - k}.get(which)
    if first is not None:
        indices = first + torch.arange(k, device=device)
    else:  # at the borders of tiles and segments, and next to them
        borders = torch.arange(k, device=device)
        indices = ((borders // 2) * 1024 + 1023 + borders % 2) % classes
    indices = indices.expand(rows, k)
    return TopKTeacher(indices, z.gather(-1, indices), z.logsumexp(-1), classes)


def student_of(teacher: TopKTeacher, distance: float, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator(teacher.scores.device).manual_seed(7)
    dense = teacher.dense()
    noise = torch.randn(dense.shape, generator=generator, device=dense.device)
    if distance < 0.1:
        return (dense + distance * noise).to(dtype)
    # classes that are not stored are not alike in a student
    more = torch.randn(dense.shape, generator=generator, device=dense.device)
    return (dense + distance * noise + 1.5 * more + 3.0).to(dtype)


def off_jumps(potential: Any, student: torch.Tensor) -> torch.Tensor:
    """The student, with no log-probability so close to a jump of the scaling that rounding moves it across."""
    if not isinstance(potential.scaling, sm.Affine) or not isinstance(potential.scaling.curve, sm.Step):
        return student
    for _ in range(3):
        close = (student.double().log_softmax(-1) - potential.scaling.beta).abs() < 1e-4
        student = torch.where(close, student + 0.0625, student)
    return student


def compare(
    potential: Any,
    teacher: TopKTeacher,
    student: torch.Tensor,
    canonical: bool = True,
    scale: torch.Tensor | None = None,
    in_place: bool = False,
) -> None:
    """One launch against the loss on the dense teacher, in double precision."""
    device = student.device
    student = off_jumps(potential, student)
    one = torch.ones(1, device=device) if scale is None else scale
    key = forms.key_of(potential)
    numbers = torch.tensor(list(emission.parameters(potential)), dtype=torch.float32, device=device)
    known, tail = teacher.log_probabilities, teacher.tail
    given = (teacher.indices, known, tail, numbers, one)
    dense = tail.double()[:, None].expand(student.shape).scatter(-1, teacher.indices.long(), known.double())
    x = student.double().requires_grad_()
    z = x.log_softmax(-1) if canonical else x
    factor = one.double().expand(len(student))
    values = sm.MatchingLoss(potential, check=False)(z, dense, reduction="none") * factor
    (expected,) = torch.autograd.grad(values.sum(), x)
    alone = launch_sparse.rows(key, student, *given, None, canonical)
    gradient = student if in_place else torch.full_like(student, float("nan"))
    losses = launch_sparse.rows(key, student, *given, gradient, canonical)
    values, z = values.detach(), z.detach()
    what = f"{potential!r}, {teacher!r}, {student.dtype}, canonical={canonical}"
    assert torch.equal(alone, losses), f"{what}: losses with and without gradient must be equal"
    there, here = potential.link(z), potential.link(dense)
    size = there.abs() + here.abs()
    # scores are rounded to single precision when they become log-probabilities
    rounding = 2.0**-22 * ((there - here).abs().sum(-1) * z.abs().amax(-1)) * factor.abs() if canonical else 0.0
    # the loss is what is left when the mean move beyond that of the largest log-score is taken from the mean square
    before, after = potential.scaling.primitive(dense), potential.scaling.primitive(z)
    beyond = (potential.prob(dense) * (after - before)).sum(-1) - (after.amax(-1) - before.amax(-1))
    rounding = rounding + 5e-6 * beyond.square() / potential.gamma * factor.abs()
    error = (losses.double() - values).abs()
    worst = (error / (1e-4 * values.abs() + rounding + 1e-30)).max().item()
    assert worst <= 1.0, f"{what}: value off by {worst:.3g} times the tolerance"
    if canonical:
        size = size + z.exp() * size.sum(-1, keepdim=True)
    steep = torch.maximum(after.abs().amax(-1), before.abs().amax(-1))
    tolerance = 1e-5 * (steep / potential.gamma / 10.0).clamp(min=1.0)[:, None] * size * factor.abs()[:, None]
    if student.dtype != torch.float32:
        # half a unit of the last place; Triton's interpreter cuts digits off
        ulp = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}[student.dtype] * expected.abs()
        tolerance = tolerance + (0.5 * ulp if device.type == "cuda" else ulp)
        tolerance = tolerance + (2.0**-24 if student.dtype == torch.float16 else 0.0)
    worst = ((gradient.double() - expected).abs() / (tolerance + 1e-30)).max().item()
    assert worst <= 1.0, f"{what}: gradient off by {worst:.3g} times the tolerance"


def check_scaling(device: Any, sizes: dict[str, Any], potential: Any) -> None:
    """Values and gradients, far from the teacher and close to it."""
    for rows, classes in sizes["scalings"]:
        teacher = teacher_of(device, rows, classes, 64)
        compare(potential, teacher, student_of(teacher, 0.5, torch.float32))
        compare(potential, teacher, student_of(teacher, 1e-3, torch.float32))
        compare(potential, teacher, student_of(teacher, 1e-3, torch.float32), canonical=False)
        compare(potential, teacher, student_of(teacher, 0.5, torch.bfloat16))


def check_stored_classes(device: Any, sizes: dict[str, Any]) -> None:
    """Few and many stored classes, in one tile, at borders, and all of them."""
    for rows, classes in sizes["stored"]:
        for k, which in ((1, "best"), (2, "borders"), (64, "first"), (200, "last")):
            k = min(k, 2 * (classes // 1024)) if which == "borders" else k
            teacher = teacher_of(device, rows, classes, k, which)
            compare(POTENTIALS[0], teacher, student_of(teacher, 0.5, torch.float32))
            compare(POTENTIALS[2], teacher, student_of(teacher, 0.5, torch.bfloat16))
    rows, classes = sizes["stored"][0]
    teacher = teacher_of(device, rows, classes, classes)
    compare(POTENTIALS[2], teacher, student_of(teacher, 0.5, torch.float32))


def check_options(device: Any, sizes: dict[str, Any]) -> None:
    """Scales that are 0 or negative, strides, gradients in place, types of indices."""
    for rows, classes in sizes["options"]:
        teacher = teacher_of(device, rows, classes, 64)
        scale = torch.linspace(-1.0, 2.0, rows, device=device)
        scale[1] = 0.0
        for dtype in (torch.float32, torch.float16):
            wide = torch.empty(rows, classes + 13, dtype=dtype, device=device)[:, :classes]
            wide.copy_(student_of(teacher, 0.5, dtype))
            compare(POTENTIALS[0], teacher, wide, scale=scale)
            compare(POTENTIALS[0], teacher, wide, scale=scale, in_place=True)
        small = TopKTeacher(teacher.indices.int(), teacher.scores, teacher.log_sum_exp, classes)
        compare(POTENTIALS[0], small, student_of(teacher, 0.5, torch.float32))


def check_operator(device: Any, sizes: dict[str, Any]) -> None:
    """The module with a stored teacher: masks, weights, first and second derivatives, PyTorch's own test."""
    from selmatch.kernels import operators
    from selmatch.torch import MatchingLoss

    potential = sm.CompositeSoftmax(CLIPPING, gamma=0.7)
    classes = sizes["operator"]
    stored = teacher_of(device, 4, classes, 20)
    parts = (stored.indices.view(2, 2, -1), stored.scores.view(2, 2, -1), stored.log_sum_exp.view(2, 2))
    teacher = TopKTeacher(*parts, classes)
    student = student_of(teacher, 0.5, torch.float32)
    where = torch.tensor([[True, True], [False, True]], device=device)
    student[1, 0] = float("nan")
    options = {"where": where[..., None], "weights": torch.tensor([[1.0, 0.5], [3.0, 0.0]], device=device)}
    direction = torch.randn(student.shape, generator=torch.Generator(device).manual_seed(1), device=device)
    with kernels_on(device):
        module = MatchingLoss(potential, kernels=True).to(device)
        eager = MatchingLoss(potential, kernels=False).to(device)
        found, expected = (
            _derivatives(run, x.requires_grad_(), teacher, direction.to(x.dtype), options)
            for run, x in ((module, student.clone()), (eager, student.double()))
        )
        for what, one, other in zip(("value", "gradient", "second derivative"), found, expected, strict=True):
            error, size = (one.double() - other).abs().max().item(), other.abs().max().item()
            assert error <= 2e-4 * size, f"{what} with a stored teacher: off by {error:.3g}, of {size:.3g}"
        form = operators.form_of(potential)
        numbers = torch.tensor(list(emission.parameters(potential)), dtype=torch.float32, device=device)
        x = student.nan_to_num().requires_grad_()
        given = (x, teacher.indices.int(), teacher.log_probabilities, teacher.tail, numbers, where.float(), form, True)
        tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(torch.ops.selmatch.sparse_row_losses.default, given, test_utils=tests)


def _derivatives(module: Any, x: torch.Tensor, teacher: TopKTeacher, direction: torch.Tensor, options: Any) -> Any:
    value = module(x, teacher, **options)
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad((first * direction).sum(), x)
    (alone,) = torch.autograd.grad(module(x, teacher, **options), x)
    return value.detach(), alone, second


CHECKS = [
    *((f"sparse {potential!r}", functools.partial(check_scaling, potential=potential)) for potential in POTENTIALS),
    ("sparse stored classes", check_stored_classes),
    ("sparse options", check_options),
    ("sparse operator", check_operator),
]
