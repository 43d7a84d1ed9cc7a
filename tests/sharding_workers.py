"""What runs inside the processes of test_sharding.py: each check is called by all of them, and raises where it fails.

Every process makes the same numbers from the same seed, takes its part, and compares with the whole.
"""

import json
import re
import sys
import traceback
import warnings
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import selmatch as sm
from selmatch import sharding
from selmatch.sharding import global_count, sharded_matching_loss
from selmatch.torch import MatchingLoss, matching_loss

CLASSES = 13
RHO = tuple(0.5 + 0.25 * k for k in range(CLASSES))
POTENTIALS = {
    "sinh": sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0), gamma=0.5),
    "exp": sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5), gamma=0.7),
    "clipped": sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-2.5), gamma=0.3),
    "plain": sm.CompositeSoftmax(),
    "anchor": sm.CompositeSoftmax(sm.Sigmoid().affine(alpha=2.0), gamma=0.4, anchor=0.3),
    "rho": sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), gamma=0.6, rho=RHO, anchor=-0.5),
}
LOSS = POTENTIALS["sinh"]


def scores(rows=6, seed=0, dtype=torch.float64, spread=2.0, classes=CLASSES):
    made = torch.Generator().manual_seed(seed)
    student, teacher = (spread * torch.randn(rows, classes, generator=made, dtype=torch.float64) for _ in range(2))
    return student.to(dtype), teacher.to(dtype)


#: where the classes of each process begin and end
ENDS = {2: (0, 9, 13), 4: (0, 3, 9, 12, 13)}
#: the same, with processes that have no classes
LONELY = {2: (0, 13, 13), 4: (0, 0, 9, 9, 13)}


def part_of(rank, size, ends=ENDS):
    return slice(*ends[size][rank : rank + 2])


def own(part, potential):
    """The potential with the biases of a part of the classes only."""
    if potential.rho is None or part.start == part.stop:
        return potential
    return sm.CompositeSoftmax(potential.scaling, potential.gamma, potential.rho[part], potential.anchor)


def whole(student, teacher, potential, canonicalise, **options):
    """Value and gradient of one process, the gradient by the core's closed form."""
    loss, weighting = sm.MatchingLoss(potential), dict(options)
    value = matching_loss(student, teacher, loss, canonicalise=canonicalise, **options)
    weighting.setdefault("reduction", "mean")
    where = options.get("where")
    if not canonicalise:
        return value, loss.grad(student, teacher, **weighting)
    there = torch.ones_like(student, dtype=torch.bool) if where is None else where.expand_as(student)
    x, y = (torch.log_softmax(torch.where(there, z, -torch.inf), -1) for z in (student, teacher))
    gradient = loss.grad(x, y, **weighting)
    return value, torch.where(there, gradient - torch.exp(x) * gradient.sum(-1, keepdim=True), 0.0)


def split(student, teacher, potential, canonicalise, part, where=None, **options):
    """Value, and gradient of the part of this process."""
    mine = student[..., part].clone().requires_grad_()
    if where is not None and where.shape[-1] > 1:
        where = where[..., part]
    options.update(group=dist.group.WORLD, canonicalise=canonicalise, where=where)
    value = sharded_matching_loss(mine, teacher[..., part], own(part, potential), **options)
    (gradient,) = torch.autograd.grad(value.sum(), mine)
    return value.detach(), gradient


def assert_close(actual, expected, rtol=1e-12, scale=None):
    """Equal up to rounding, relative to the largest number, of ``scale`` if that is given."""
    largest = (expected if scale is None else scale).abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=rtol * largest)


# ------------------------------------------------------------------------------------------------ values and gradients


def check_shards_give_the_numbers_of_the_whole(rank, size):
    for name, potential in POTENTIALS.items():
        for canonicalise in (True, False):
            student, teacher = scores(seed=len(name))
            value, gradient = whole(student, teacher, potential, canonicalise)
            for ends in (ENDS, LONELY):
                part = part_of(rank, size, ends)
                found, slope = split(student, teacher, potential, canonicalise, part)
                assert_close(found, value)
                assert_close(slope, gradient[:, part], scale=gradient)


def check_values_are_equal_to_the_last_bit_on_all_processes(rank, size):
    student, teacher = scores(dtype=torch.float32)
    value, _ = split(student, teacher, LOSS, True, part_of(rank, size), reduction="none")
    everyone = [torch.empty_like(value) for _ in range(size)]
    dist.all_gather(everyone, value)
    assert all(torch.equal(other, value) for other in everyone)


def check_converged_scores_keep_their_digits(rank, size):
    """Where student and teacher are 1e-6 apart the loss is 1e-12, and differences of potentials would be noise."""
    for potential in POTENTIALS.values():
        _, teacher = scores()
        student = teacher + 1e-6 * scores(seed=3)[0]
        value, gradient = whole(student, teacher, potential, False)
        assert 0.0 < value < 1e-9
        part = part_of(rank, size)
        found, slope = split(student, teacher, potential, False, part)
        assert_close(found, value)
        assert_close(slope, gradient[:, part], scale=gradient)
        # log-probabilities of scores about 1 are rounded at 1e-16, so 1e-10 is what a move of 1e-6 has left
        found, slope = split(student, teacher, potential, True, part)
        value, gradient = whole(student, teacher, potential, True)
        assert_close(found, value, rtol=2e-9)
        assert_close(slope, gradient[:, part], rtol=2e-9, scale=gradient)


def check_scores_far_apart(rank, size):
    """Where a process gains or loses nearly all of its share, and where levels are high."""
    for potential in (POTENTIALS["clipped"], POTENTIALS["plain"], POTENTIALS["anchor"]):
        for canonicalise in (True, False):
            student, teacher = scores(spread=20.0)
            student[:3, :9] -= 60.0
            teacher[3:, :9] -= 60.0
            if canonicalise:
                student, teacher = student + 1e3, teacher - 1e3
            value, gradient = whole(student, teacher, potential, canonicalise, reduction="none")
            part = part_of(rank, size)
            found, slope = split(student, teacher, potential, canonicalise, part, reduction="none")
            assert_close(found, value)
            assert_close(slope, gradient[:, part], scale=gradient)


def check_masks_weights_and_reductions(rank, size):
    student, teacher = scores()
    rows = torch.tensor([True, False, True, True, False, True])[:, None]
    classes = torch.arange(6 * CLASSES).reshape(6, CLASSES) % 3 != 0
    classes[1] = False
    classes[2, :9] = False
    weights = torch.tensor([1.0, 2.0, 0.0, 0.5, 3.0, 0.25], dtype=torch.float64)
    part = part_of(rank, size)
    for where in (None, rows, classes, classes & rows):
        for options in (
            {"reduction": "mean"},
            {"reduction": "sum", "weights": weights},
            {"reduction": "none"},
            {"weights": weights},
            {"num_items": 17},
            {"num_items": torch.tensor(17.0), "weights": weights},
        ):
            for canonicalise in (True, False):
                dirty = student if where is None else torch.where(where, student, torch.nan)
                value, gradient = whole(student, teacher, LOSS, canonicalise, where=where, **options)
                found, slope = split(dirty, teacher, LOSS, canonicalise, part, where=where, **options)
                assert_close(found, value)
                assert_close(slope, gradient[:, part], scale=gradient)


def check_nothing_counts(rank, size):
    student, teacher = scores()
    nobody = torch.zeros(6, 1, dtype=torch.bool)
    value, gradient = split(student, teacher, LOSS, True, part_of(rank, size), where=nobody)
    assert value == 0.0
    assert not gradient.any()
    empty, none = split(student[:0], teacher[:0], LOSS, True, part_of(rank, size), reduction="sum")
    assert empty == 0.0
    assert none.shape[0] == 0


def check_a_process_without_classes_needs_no_mask(rank, size):
    student, teacher = scores()
    part, where = part_of(rank, size, LONELY), torch.ones(6, CLASSES, dtype=torch.bool)
    where[2] = False
    expected, gradient = whole(student, teacher, LOSS, True, where=where)
    alone = part.start == part.stop
    value, slope = split(student, teacher, LOSS, True, part, where=None if alone else where)
    assert_close(value, expected)
    assert_close(slope, gradient[:, part], scale=gradient)


def check_rows_have_axes_and_are_worked_on_a_few_at_a_time(rank, size):
    student, teacher = (z.reshape(2, 3, CLASSES) for z in scores())
    part = part_of(rank, size)
    expected = split(student, teacher, LOSS, True, part)
    with patch.dict(sharding._CHUNKS, cpu=20):
        found = split(student, teacher, LOSS, True, part)
    value, gradient = whole(student, teacher, LOSS, True)
    for value_found, slope in (expected, found):
        assert_close(value_found, value)
        assert_close(slope, gradient[..., part], scale=gradient)


def check_half_precision_is_computed_in_single(rank, size):
    part = part_of(rank, size)
    for dtype in (torch.bfloat16, torch.float16):
        student, teacher = scores(dtype=dtype)
        value, gradient = whole(student.float(), teacher.float(), LOSS, True)
        found, slope = split(student, teacher, LOSS, True, part)
        assert found.dtype == torch.float32
        assert slope.dtype == dtype
        assert_close(found, value, rtol=1e-5)
        assert_close(slope.float(), gradient[:, part], rtol=torch.finfo(dtype).eps, scale=gradient)
        each, _ = split(student, teacher, LOSS, True, part, reduction="none")
        assert each.dtype == dtype
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_close(split(student, teacher, LOSS, True, part)[0], found, rtol=1e-7)


def check_weights_learn_and_gradients_repeat(rank, size):
    student, teacher = scores()
    part = part_of(rank, size)
    mine = student[:, part].clone().requires_grad_()
    weights = torch.ones(6, dtype=torch.float64, requires_grad=True)
    options = {"group": dist.group.WORLD, "weights": weights, "reduction": "sum"}
    value = sharded_matching_loss(mine, teacher[:, part], LOSS, **options)
    first = torch.autograd.grad(value, (mine, weights), retain_graph=True)
    again = torch.autograd.grad(2.0 * value, (mine, weights))
    each, _ = whole(student, teacher, LOSS, True, reduction="none")
    assert_close(first[1], each)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(2.0 * a, b)


# ------------------------------------------------------------------------------------------------------------ DTensors


def dtensors(size, *whole_ones):
    """The classes of this process, and tensors split over all of them as DTensors are: into equal parts."""
    mesh = init_device_mesh("cpu", (size,))
    step = -(-CLASSES // size)
    mine = slice(mesh.get_local_rank() * step, min((mesh.get_local_rank() + 1) * step, CLASSES))
    return mine, [
        DTensor.from_local(
            z[..., mine].contiguous(), mesh, [Shard(-1)], run_check=False, shape=z.shape, stride=z.stride()
        )
        for z in whole_ones
    ]


def check_dtensors(rank, size):
    for name, potential in POTENTIALS.items():
        for canonicalise in (True, False):
            student, teacher = scores(seed=len(name))
            rows = torch.arange(6)[:, None] != 2
            mine, (a, b) = dtensors(size, student, teacher)
            a.requires_grad_()
            value = sharded_matching_loss(a, b, potential, canonicalise=canonicalise, where=rows)
            assert type(value) is torch.Tensor
            value.backward()
            expected, gradient = whole(student, teacher, potential, canonicalise, where=rows)
            assert_close(value.detach(), expected)
            assert isinstance(a.grad, DTensor)
            assert a.grad.placements == a.placements
            assert_close(a.grad.to_local(), gradient[:, mine], scale=gradient)


def check_dtensor_masks_and_weights(rank, size):
    student, teacher = scores()
    classes = torch.arange(6 * CLASSES).reshape(6, CLASSES) % 3 != 0
    weights = torch.arange(6, dtype=torch.float64)
    _, (a, b, mask) = dtensors(size, student, teacher, classes)
    replicated = DTensor.from_local(weights, a.device_mesh, [Replicate()], run_check=False)
    value = sharded_matching_loss(a, b, LOSS, mesh=a.device_mesh, where=mask, weights=replicated)
    assert_close(value, whole(student, teacher, LOSS, True, where=classes, weights=weights)[0])


def check_what_is_sent(rank, size):
    """Two gathers of a few numbers for each row forwards, one where scores are not canonical, and nothing backwards."""
    sent = []

    def counting(everyone, mine, group=None):
        sent.append(mine.numel() * mine.element_size())
        return gather(everyone, mine, group=group)

    gather = sharding._all_gather
    with patch.object(sharding, "_all_gather", counting):
        _, (a, b) = dtensors(size, *scores(dtype=torch.float32))
        a.requires_grad_()
        for canonicalise, bytes_of_rows in ((True, [16, 20]), (False, [12])):
            sent.clear()
            with CommDebugMode() as every_collective:
                sharded_matching_loss(a, b, LOSS, canonicalise=canonicalise).backward()
            assert sent == [6 * n for n in bytes_of_rows]
            assert every_collective.get_total_counts() <= len(sent)
        sent.clear()
        split(*scores(), LOSS, False, part_of(rank, size))
        assert sent == [32, 6 * 3 * 8]


# -------------------------------------------------------------------------------------------------------------- errors


def raises(kind, *words):
    """An error with these words in it, one after the other."""
    return pytest.raises(kind, match=".*".join(map(re.escape, words)))


def check_a_mistake_of_one_process_is_an_error_on_all(rank, size):
    student, teacher = scores()
    part = part_of(rank, size)
    a, b = student[:, part], teacher[:, part]
    group = dist.group.WORLD
    last = rank == size - 1
    with raises(Exception, "one shape" if last else f"an error on rank {size - 1} of the group"):
        sharded_matching_loss(a, b[:, :-1] if last else b, LOSS, group=group)
    with raises(Exception, "where must have the shape" if last else "an error on rank"):
        sharded_matching_loss(a, b, LOSS, group=group, where=torch.ones(5 if last else 6, 1, dtype=torch.bool))
    rows = torch.ones(6, dtype=torch.float64)
    for wrong, said in (
        ({"weights": rows[:5]}, "weights must have the shape"),
        ({"weights": "x"}, "weights must be a tensor"),
        ({"student": a.numpy()}, "student must be a tensor"),
        ({"student": a.numpy(), "teacher": b.numpy()}, "student must be a tensor"),
        ({"loss": sm.Exp()}, "loss must be a composite Softmax loss"),
        ({"reduction": "avg"}, "reduction must be"),
        ({"num_items": torch.ones(3)}, "num_items must be one real number"),
        ({"canonicalise": torch.ones(2)}, "ambiguous"),
    ):
        given = {"student": a, "teacher": b, "loss": LOSS, "weights": rows, "group": group} | (wrong if last else {})
        with raises(Exception, said if last else f"an error on rank {size - 1} of the group"):
            sharded_matching_loss(given.pop("student"), given.pop("teacher"), given.pop("loss"), **given)
    cooler = sm.CompositeSoftmax(LOSS.scaling, gamma=0.25)
    with raises(ValueError, "loss (but for rho) and reduction must be the same", "here, and others on rank"):
        sharded_matching_loss(a, b, cooler if last else LOSS, group=group)
    with raises(ValueError, "reduction must be the same", "'sum'" if last else "'mean'"):
        sharded_matching_loss(a, b, LOSS, group=group, reduction="sum" if last else "mean")
    with raises(ValueError, "as many rows", "6, 5" if size == 2 else "6, 6, 6, 5"):
        sharded_matching_loss(a[: 5 if last else 6], b[: 5 if last else 6], LOSS, group=group)
    with raises(ValueError, "precision", "32, 64" if size == 2 else "32, 32, 32, 64"):
        sharded_matching_loss(a.float() if not last else a, b.float() if not last else b, LOSS, group=group)
    with raises(ValueError, "canonicalise must be the same"):
        sharded_matching_loss(a, b, LOSS, group=group, canonicalise=last)
    # all is well afterwards: nobody waits for anybody
    assert torch.isfinite(sharded_matching_loss(a, b, LOSS, group=group))


def check_mistakes_with_dtensors(rank, size):
    student, teacher = scores()
    mine, (a, b) = dtensors(size, student, teacher)
    mesh = a.device_mesh
    with raises(ValueError, "split on its last axis", "Shard(dim=0)"):
        split_rows = [DTensor.from_local(z, mesh, [Shard(0)], run_check=False) for z in (student, teacher)]
        sharded_matching_loss(*split_rows, LOSS)
    with raises(ValueError, "split on its last axis", "Replicate"):
        copies = [DTensor.from_local(z, mesh, [Replicate()], run_check=False) for z in (student, teacher)]
        sharded_matching_loss(*copies, LOSS)
    with raises(ValueError, "teacher must be placed as student is"):
        sharded_matching_loss(a, DTensor.from_local(teacher, mesh, [Replicate()], run_check=False), LOSS)
    with raises(TypeError, "must both be DTensors", "Tensor for teacher"):
        sharded_matching_loss(a, b.to_local(), LOSS)
    with raises(ValueError, "group must be left out"):
        sharded_matching_loss(a, b, LOSS, group=dist.group.WORLD)
    with raises(ValueError, "one shape"):
        sharded_matching_loss(a, dtensors(size, teacher[:5])[1][0], LOSS)
    with raises(ValueError, "rho", "13 classes of all processes", "2 numbers"):
        sharded_matching_loss(a, b, sm.CompositeSoftmax(sm.Exp(), rho=(1.0, 2.0)))
    other = init_device_mesh("cpu", (1, size))
    with raises(ValueError, "on one mesh"):
        placed = {"shape": teacher.shape, "stride": teacher.stride(), "run_check": False}
        elsewhere = DTensor.from_local(teacher[:, mine], other, [Replicate(), Shard(-1)], **placed)
        sharded_matching_loss(a, elsewhere, LOSS)
    with raises(ValueError, "num_items must be given", "global_count"):
        wide = init_device_mesh("cpu", (size, 1))
        rows = [DTensor.from_local(z, wide, [Shard(0), Shard(1)], run_check=False) for z in (student, teacher)]
        sharded_matching_loss(*rows, LOSS)


# ---------------------------------------------------------------------------------------- rows split over processes


class Student(torch.nn.Module):
    """Two layers, the same on all processes."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(1)
        self.body = torch.nn.Linear(5, 8, dtype=dtype)
        self.head = torch.nn.Linear(8, CLASSES, dtype=dtype)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def batch(dtype):
    """Rows, teacher's scores and a mask that leaves processes with different numbers of rows."""
    made = torch.Generator().manual_seed(2)
    x = torch.randn(12, 5, generator=made, dtype=torch.float64).to(dtype)
    teacher = 2.0 * torch.randn(12, CLASSES, generator=made, dtype=torch.float64).to(dtype)
    return x, teacher, torch.tensor([1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1], dtype=torch.bool)


def updated(model, value, parameters=None):
    """The parameters after a step of gradient descent."""
    step = torch.optim.SGD(model.parameters(), lr=0.5)
    value.backward()
    step.step()
    found = {name: p.detach() for name, p in model.named_parameters()}
    return {name.removeprefix("module."): p.full_tensor() if isinstance(p, DTensor) else p for name, p in found.items()}


def of_one_process(dtype):
    x, teacher, mask = batch(dtype)
    model = Student(dtype)
    value = matching_loss(model(x), teacher, LOSS, canonicalise=True, where=mask[:, None])
    return updated(model, value), value.detach()


TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12}


def check_data_parallel_steps_are_those_of_one_process(rank, size):
    mine = slice(rank * 12 // size, (rank + 1) * 12 // size)
    for wrap in (torch.nn.parallel.DistributedDataParallel, fully_shard_all):
        for dtype, rtol in TOLERANCES.items():
            expected, value = of_one_process(dtype)
            x, teacher, mask = (z[mine] for z in batch(dtype))
            model = wrap(Student(dtype))
            count = global_count(mask, averaged=True)
            local = matching_loss(model(x), teacher, LOSS, canonicalise=True, where=mask[:, None], num_items=count)
            mean = local.detach().clone()
            found = updated(model, local)
            for name, parameter in expected.items():
                assert_close(found[name], parameter, rtol=rtol)
            dist.all_reduce(mean)
            assert_close(mean / size, value, rtol=rtol)


def check_numbers_that_learn_may_be_sharded(rank, size):
    x, teacher, mask = batch(torch.float32)
    one, sharded = Taught(), Taught()
    one(x, teacher, where=mask).backward()
    fully_shard(sharded.loss)  # in double precision, unlike the others
    fully_shard(sharded)
    mine = slice(rank * 12 // size, (rank + 1) * 12 // size)
    count = global_count(mask[mine], averaged=True)
    sharded(x[mine], teacher[mine], where=mask[mine], num_items=count).backward()
    found = {name: parameter.grad.full_tensor() for name, parameter in sharded.named_parameters()}
    assert "loss.potential.log_gamma" in found
    for name, parameter in one.named_parameters():
        assert_close(found[name], parameter.grad, rtol=1e-5)
    torch.optim.SGD(sharded.parameters(), lr=0.1).step()
    assert "DTensor" in repr(sharded.loss)  # no process waits for the others to print


class Taught(torch.nn.Module):
    """A student with a loss that learns."""

    def __init__(self):
        super().__init__()
        self.student = Student(torch.float32)
        self.loss = MatchingLoss(LOSS, trainable=("alpha", "gamma", "beta"), canonicalise=True)

    def forward(self, x, teacher, **options):
        return self.loss(self.student(x), teacher, **options)


def fully_shard_all(model):
    for layer in (model.body, model.head, model):
        fully_shard(layer)
    return model


def check_counts(rank, size):
    mask = torch.arange(4) < rank + 1
    total = float(sum(range(1, size + 1)))
    assert global_count(mask) == total
    assert global_count(mask.sum()) == total
    assert global_count(rank + 1) == total
    assert global_count(mask, averaged=True) == total / size
    assert global_count(torch.zeros(3, dtype=torch.bool)) == 1.0
    assert global_count(mask, init_device_mesh("cpu", (size,))) == total


def check_a_head_split_by_tensor_parallelism(rank, size):
    """The layers of PyTorch around it: gradients of all weights, also of those before the head."""
    for dtype, rtol in TOLERANCES.items():
        expected, value = of_one_process(dtype)
        x, teacher, mask = batch(dtype)
        model = Student(dtype)
        mesh = init_device_mesh("cpu", (size,))
        split_head(model, mesh)
        _, (b,) = dtensors(size, teacher)
        found = sharded_matching_loss(model(x), b, LOSS, where=mask[:, None])
        assert_close(found.detach(), value, rtol=rtol)
        for name, parameter in updated(model, found).items():
            assert_close(parameter, expected[name], rtol=rtol)


def split_head(model, mesh):
    parallelize_module(model.head, mesh, ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))


def check_rows_split_by_dtensors_themselves(rank, size):
    """Without FSDP: gradients of copied weights are added by DTensor, so that the count is that of all rows."""
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "classes"))
    x, teacher, mask = batch(torch.float64)
    mine = slice(6 * mesh["rows"].get_local_rank(), 6 * mesh["rows"].get_local_rank() + 6)
    weight = torch.randn(CLASSES, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    head = distribute_tensor(weight, mesh, [Replicate(), Shard(0)]).requires_grad_()
    student = distribute_tensor(x, mesh, [Shard(0), Replicate()]) @ head.T
    observed = distribute_tensor(teacher, mesh, [Shard(0), Shard(1)])
    count = global_count(mask[mine], mesh["rows"])
    sharded_matching_loss(student, observed, LOSS, where=mask[mine, None], num_items=count).backward()
    one = weight.clone().requires_grad_()
    matching_loss(x @ one.T, teacher, LOSS, canonicalise=True, where=mask[:, None]).backward()
    assert_close(head.grad.full_tensor(), one.grad)


def check_classes_and_rows_both_split(rank, size):
    """Two by two processes: the head split over one axis of the mesh, rows and all weights over the other."""
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "classes"))
    mine = slice(6 * mesh["rows"].get_local_rank(), 6 * mesh["rows"].get_local_rank() + 6)
    for dtype, rtol in TOLERANCES.items():
        expected, value = of_one_process(dtype)
        x, teacher, mask = (z[mine] for z in batch(dtype))
        model = Student(dtype)
        split_head(model, mesh["classes"])
        for layer in (model.body, model.head, model):
            fully_shard(layer, mesh=mesh["rows"])
        scores_hat = model(x)
        step = -(-CLASSES // mesh["classes"].size())
        first = mesh["classes"].get_local_rank() * step
        b = DTensor.from_local(
            teacher[:, first : first + step].contiguous(), scores_hat.device_mesh, scores_hat.placements,
            run_check=False, shape=teacher.shape, stride=teacher.stride(),
        )  # fmt: skip
        count = global_count(mask, mesh["rows"], averaged=True)
        found = sharded_matching_loss(scores_hat, b, LOSS, where=mask[:, None], num_items=count)
        mean = found.detach().clone()
        dist.all_reduce(mean, group=mesh["rows"].get_group())
        assert_close(mean / 2, value, rtol=rtol)
        for name, parameter in updated(model, found).items():
            assert_close(parameter, expected[name], rtol=rtol)


# ----------------------------------------------------------------------------------------------------------- processes

CHECKS = {name: function for name, function in list(globals().items()) if name.startswith("check_")}
ONLY_FOUR = ["check_classes_and_rows_both_split"]


def work(rank, size, folder):
    """All checks, in one process of many; what failed is written to a file."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    failed = {}
    for name, check in CHECKS.items():
        if name in ONLY_FOUR and size < 4:
            continue
        try:
            check(rank, size)
        except Exception:
            failed[name] = traceback.format_exc()
            print(name, failed[name], file=sys.stderr)
        broken = torch.tensor(float(name in failed))
        dist.all_reduce(broken)
        if broken:  # the others may be out of step
            break
    Path(folder, f"failed-{rank}.json").write_text(json.dumps(failed))
    dist.destroy_process_group()
