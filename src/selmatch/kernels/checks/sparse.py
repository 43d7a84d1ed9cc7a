"""Checks of the kernel for teachers of which a few classes are stored, against dense teachers in double precision."""

from __future__ import annotations

import functools
from typing import Any

import torch

import selmatch as sm
from selmatch.kernels.checks.operators import kernels_on
from selmatch.kernels.checks.rows import assert_near, through_log_probabilities
from selmatch.kernels.gpu import emission, forms, launch_sparse
from selmatch.sparse_teachers import TopKTeacher

#: rows and classes: of every scaling, of every number of stored classes, and of the other checks
SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {
        "scalings": [(2, 5003)],
        "stored": [(2, 1500), (1, 5003)],
        "options": [(3, 2600)],
        "peaks": [(1, 1300)],
        "operator": 1100,
    },
    "gpu": {
        "scalings": [(64, 32000), (16, 128256)],
        "stored": [(5, 1500), (5, 5003), (64, 32000), (300, 128256)],
        "options": [(7, 5003), (7, 32000), (7, 128256)],
        "peaks": [(7, 5003), (7, 128256)],
        "operator": 40000,
    },
}

CLIPPING = sm.SmeLU(c=2.0).affine(beta=-7.0)
POTENTIALS = [
    sm.CompositeSoftmax(CLIPPING), sm.CompositeSoftmax(CLIPPING, gamma=0.1), sm.CompositeSoftmax(sm.Exp()),
    sm.CompositeSoftmax(sm.Exp(), gamma=0.02), sm.CompositeSoftmax(sm.Exp(), gamma=3000.0),
    sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-4.0)),
    sm.CompositeSoftmax(sm.Constant()), sm.CompositeSoftmax(sm.Constant(-0.5), gamma=2.0),
    sm.CompositeSoftmax(sm.Sigmoid().affine(beta=-5.0), anchor=0.5),
    sm.CompositeSoftmax(sm.Step().affine(beta=-9.0), gamma=0.5),
]  # fmt: skip

#: small gammas and curved ends, where sums of weights need a level
PEAKED = [
    sm.CompositeSoftmax(sm.Exp(), gamma=0.005), sm.CompositeSoftmax(CLIPPING, gamma=0.05),
    sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-4.0)), sm.CompositeSoftmax(sm.Constant(), gamma=0.1),
    sm.CompositeSoftmax(sm.Exp(), gamma=0.01, anchor=0.9),
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


def launched(
    potential: Any, teacher: TopKTeacher, student: torch.Tensor, scale: torch.Tensor, gradient: Any
) -> torch.Tensor:
    """One launch; the gradient is written where it is wanted."""
    numbers = torch.tensor(list(emission.parameters(potential)), dtype=torch.float32, device=student.device)
    stored = (teacher.indices, teacher.log_probabilities, teacher.tail)
    return launch_sparse.rows(forms.key_of(potential), student, *stored, numbers, scale, gradient)


def compare(
    potential: Any,
    teacher: TopKTeacher,
    student: torch.Tensor,
    scale: torch.Tensor | None = None,
    in_place: bool = False,
) -> None:
    """One launch against the loss on the dense teacher, in double precision."""
    student = off_jumps(potential, student)
    size_of_scores = student.double().abs().amax(-1, keepdim=True)
    one = torch.ones(1, device=student.device) if scale is None else scale
    z = student.double().log_softmax(-1)
    factor = one.double().expand(len(student))
    dense = teacher.dense().double()
    values, expected = potential.remainder_and_difference(dense, z - dense, z)
    expected = through_log_probabilities(expected, z)
    values, expected = values * factor, expected * factor[:, None]
    alone = launched(potential, teacher, student, one, None)
    gradient = student if in_place else torch.full_like(student, float("nan"))
    losses = launched(potential, teacher, student, one, gradient)
    what = f"{potential!r}, {teacher!r}, {student.dtype}"
    factor = factor.abs()
    there, here = potential.link(z), potential.link(dense)
    size = there.abs() + here.abs()
    before, after = potential.scaling.primitive(dense), potential.scaling.primitive(z)
    steep = torch.maximum(after.abs().amax(-1), before.abs().amax(-1)) / potential.gamma
    steep = (steep / 10.0).clamp(min=1.0)
    # a loss that is not small may have the error of a gradient; a small one is what is left when the mean move beyond
    # that of the largest log-score is taken from the mean square
    beyond = (potential.prob(dense) * (after - before)).sum(-1) - (after.amax(-1) - before.amax(-1))
    rounding = 5e-6 * beyond.square() / potential.gamma + 1e-12 * steep.square()
    rounding += 1e-5 * steep * potential.gamma * (values.abs() > 1e-3 * potential.gamma * factor)
    # scores are rounded to single precision when they become log-probabilities
    rounding += 2.0**-22 * (there - here).abs().sum(-1) * z.abs().amax(-1)
    for found, which in ((alone, "without gradient"), (losses, "with gradient")):
        error = (found.double() - values).abs()
        worst = (error / (1e-4 * values.abs() + rounding * factor + 1e-30)).max().item()
        assert worst <= 1.0, f"{what}: value {which} off by {worst:.3g} times the tolerance"
    size = size + z.exp() * size.sum(-1, keepdim=True)
    tolerance = 1e-5 * steep[:, None] * size * factor[:, None]
    # links move with that rounding, which has the size of the raw scores
    sharp = potential.prob(z) * (potential.scaling.slope(z) + potential.scaling(z).square() / potential.gamma)
    moved = 2.0**-22 * size_of_scores * sharp * factor[:, None]
    tolerance = tolerance + moved + z.exp() * moved.sum(-1, keepdim=True)
    if student.dtype != torch.float32:
        # half a unit of the last place; Triton's interpreter cuts digits off
        ulp = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}[student.dtype] * expected.abs()
        tolerance = tolerance + (0.5 * ulp if student.is_cuda else ulp)
        tolerance = tolerance + (2.0**-24 if student.dtype == torch.float16 else 0.0)
    assert_near(what, gradient, expected, tolerance + 1e-30, scores=z, observed=dense, links=there, observed_links=here)


def check_scaling(device: Any, sizes: dict[str, Any], potential: Any) -> None:
    """Values and gradients, far from the teacher and close to it."""
    for rows, classes in sizes["scalings"]:
        teacher = teacher_of(device, rows, classes, 64)
        for distance in (0.5, 1e-3):
            compare(potential, teacher, student_of(teacher, distance, torch.float32))
        compare(potential, teacher, student_of(teacher, 0.5, torch.bfloat16))


def check_peaks(device: Any, sizes: dict[str, Any]) -> None:
    """Rows with nearly all probability in one class: log-scores far above that of the tail, and far below it."""
    for rows, classes in sizes["peaks"]:
        flat = 2.0 * torch.randn(rows, classes, generator=torch.Generator(device).manual_seed(3), device=device)
        peaked = flat + 20.0 * torch.nn.functional.one_hot(torch.arange(rows, device=device) + 5, classes)
        teachers = [TopKTeacher.from_scores(z, 64) for z in (peaked, flat)]
        for potential in PEAKED:
            for teacher in teachers:
                for student in (peaked + 0.01 * flat, flat + 0.3):
                    compare(potential, teacher, student)


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


def check_not_a_number(device: Any, sizes: dict[str, Any]) -> None:
    """NaN is not hidden, and stays in its row; everything else is the same from run to run."""
    one = torch.ones(1, device=device)
    for rows, classes in sizes["options"]:
        teacher = teacher_of(device, rows, classes, 64)
        student = student_of(teacher, 0.5, torch.float32)
        for potential in POTENTIALS[:3]:
            clean, found = torch.empty_like(student), torch.empty_like(student)
            values = launched(potential, teacher, student, one, clean)
            spoilt = student.clone()
            spoilt[1, classes // 2] = float("nan")
            again = launched(potential, teacher, spoilt, one, found)
            others = torch.arange(rows, device=device) != 1
            assert again[1].isnan(), f"{potential!r}: NaN is hidden in the value"
            assert found[1].isnan().all(), f"{potential!r}: NaN is hidden in the gradient"
            assert torch.equal(values[others], again[others]), f"{potential!r}: values differ from run to run"
            assert torch.equal(clean[others], found[others]), f"{potential!r}: gradients differ from run to run"


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
    ("sparse peaks", check_peaks),
    ("sparse not a number", check_not_a_number),
    ("sparse options", check_options),
    ("sparse operator", check_operator),
]
