"""Classes and rows split over processes: the numbers of one process, on two and on four; and mistakes."""

import gc
import json
import math
import runpy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest
import sharding_workers
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from sharding_workers import LOSS, POTENTIALS, scores, whole
from torch.autograd import gradcheck
from torch.distributed.device_mesh import init_device_mesh

import selmatch as sm
from selmatch import sharding
from selmatch.sharding import global_count, sharded_matching_loss
from selmatch.torch import MatchingLoss, TopKTeacher

pytestmark = pytest.mark.usefixtures("parts_of_torch")


def failures(size, folder):
    """What failed in the checks of so many processes."""
    mp.spawn(sharding_workers.work, args=(size, str(folder)), nprocs=size)  # type: ignore[attr-defined]
    found = [json.loads((folder / f"failed-{rank}.json").read_text()) for rank in range(size)]
    return [f"rank {rank}: {name}\n{text}" for rank, failed in enumerate(found) for name, text in failed.items()]


def test_two_processes(tmp_path):
    assert not failures(2, tmp_path)


@pytest.mark.slow
def test_four_processes(tmp_path):
    assert not failures(4, tmp_path)


# ---------------------------------------------------------------------------------------------------------- one process


@pytest.fixture
def group():
    """A group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("potential", POTENTIALS.values(), ids=POTENTIALS)
@pytest.mark.parametrize("canonicalise", [True, False])
def test_the_gradient_is_the_derivative(group, potential, canonicalise):
    student, teacher = scores(rows=2)
    options = {"group": group, "canonicalise": canonicalise, "reduction": "none"}
    assert gradcheck(lambda z: sharded_matching_loss(z, teacher, potential, **options), student.requires_grad_())


def test_scores_outside_the_domain_give_nan(group):
    potential = sm.CompositeSoftmax(sm.Log(), gamma=0.5)
    student, teacher = torch.tensor([[1.0, 2.0], [1.0, -2.0]], requires_grad=True), torch.ones(2, 2)
    each = sharded_matching_loss(student, teacher, potential, group=group, canonicalise=False, reduction="none")
    assert each.isfinite().tolist() == [True, False]


def test_a_nan_is_the_loss_of_its_own_row_only(group):
    student, teacher = scores()
    student[2, 3] = math.nan
    each = sharded_matching_loss(student, teacher, LOSS, group=group, reduction="none")
    assert each.isnan().tolist() == [row == 2 for row in range(6)]


def test_a_matching_loss_and_a_mesh(group):
    student, teacher = scores()
    mesh = init_device_mesh("cpu", (1,))
    found = sharded_matching_loss(student, teacher, sm.MatchingLoss(LOSS), mesh=mesh)
    torch.testing.assert_close(found, whole(student, teacher, LOSS, True)[0], rtol=1e-12, atol=0.0)


def test_one_row_without_axes(group):
    student, teacher = scores(rows=1)
    found = sharded_matching_loss(student[0], teacher[0], LOSS, group=group, reduction="none")
    torch.testing.assert_close(found, whole(student, teacher, LOSS, True)[0], rtol=1e-12, atol=0.0)


def test_it_may_be_called_in_compiled_code(group):
    student, teacher = scores()

    @torch.compile(backend="aot_eager")
    def twice(z):
        return 2.0 * sharded_matching_loss(z, teacher, LOSS, group=group)

    torch.testing.assert_close(twice(student), 2.0 * whole(student, teacher, LOSS, True)[0], rtol=1e-12, atol=0.0)
    torch._dynamo.reset()


def test_what_was_agreed_on_is_not_looked_at_again_on_a_device(group, monkeypatch):
    """Looking at a device's numbers means to wait for it; that all is well is known from the first time."""
    student, teacher = scores()
    agreed = (sharding._Asked.checked(LOSS, True, "mean", None).fingerprint, 6, 64, 1)
    monkeypatch.setattr(sharding, "_AGREED", WeakKeyDictionary({group: {agreed}}))
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: pytest.fail("waits"))
    assert sharded_matching_loss(student, teacher, LOSS, group=group) > 0.0


def test_agreements_go_with_their_group():
    """A later group has the same name, and other processes."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    world = dist.group.WORLD
    assert world is not None
    sharding._AGREED[world] = {(1, 6, 64, 1)}
    del world
    assert len(sharding._AGREED) == 1
    dist.destroy_process_group()
    gc.collect()
    assert not sharding._AGREED


def test_a_fingerprint_is_that_of_the_loss_and_not_of_a_place_in_memory():
    def fingerprint(loss, reduction="mean"):
        return sharding._Asked.checked(loss, True, reduction, None).fingerprint

    @dataclass(frozen=True)
    class Shifted(type(sm.Exp())):
        shift: Callable = field(default=lambda x: x)

    here, there = (sm.CompositeSoftmax(Shifted(lambda x: x)) for _ in range(2))
    assert repr(here) != repr(there)
    assert fingerprint(here) == fingerprint(there)
    biased = sm.CompositeSoftmax(LOSS.scaling, LOSS.gamma, rho=(1.0, 2.0))
    assert fingerprint(biased) == fingerprint(LOSS) == fingerprint(sm.MatchingLoss(LOSS))
    others = [*POTENTIALS.values(), sm.CompositeSoftmax(LOSS.scaling, LOSS.gamma * (1.0 + 1e-15))]
    found = {fingerprint(loss) for loss in others} | {fingerprint(LOSS, "sum")}
    assert len(found) == len(others) + 1
    assert all(0 < number < 2**63 for number in found)


# ------------------------------------------------------------------------------------------------------------- mistakes


def bad_calls():
    """Arguments that replace good ones, and what is said about them."""
    student, teacher = scores()
    stored = TopKTeacher.from_scores(teacher, k=3)
    biased = sm.CompositeSoftmax(sm.Exp(), rho=(1.0, 2.0))
    learned = sm.CompositeSoftmax(sm.Exp(), gamma=torch.tensor(1.0, requires_grad=True))
    return [
        ({"student": student.numpy()}, TypeError, "student must be a tensor, got ndarray"),
        ({"teacher": stored}, TypeError, r"teacher must be a tensor, got TopKTeacher. Give .*dense"),
        ({"teacher": teacher.long()}, TypeError, "teacher must be floating point scores, got dtype torch.int64"),
        ({"teacher": teacher[:, :4]}, ValueError, r"one shape.*got \(6, 13\) and \(6, 4\)"),
        ({"student": torch.tensor(1.0), "teacher": torch.tensor(1.0)}, ValueError, "classes on the last axis"),
        ({"teacher": teacher.to("meta")}, ValueError, "teacher must be on cpu as student is, got meta"),
        ({"loss": sm.Exp()}, ValueError, "composite Softmax loss, got .*Try CompositeSoftmax"),
        ({"loss": sm.Separable(sm.Exp())}, ValueError, "composite Softmax loss"),
        ({"loss": MatchingLoss(LOSS)}, TypeError, "must not be a module, got MatchingLoss. Give module.loss"),
        ({"loss": learned}, ValueError, "must be plain numbers"),
        ({"loss": biased}, ValueError, "rho of the loss must be that of the 13 classes of this process, got 2 numbers"),
        ({"group": None}, ValueError, "group must be given .*group.WORLD"),
        ({"group": "all"}, TypeError, "must be a ProcessGroup that this process is in, got 'all'"),
        ({"where": torch.ones(6)}, TypeError, "where must be a boolean tensor, got dtype torch.float32"),
        ({"where": [True]}, TypeError, "where must be a boolean tensor, got list"),
        ({"where": torch.ones(5, dtype=torch.bool)}, ValueError, r"where must .* of their rows \(6,\), got \(5,\)"),
        ({"weights": torch.ones(5)}, ValueError, r"weights must have the shape \(6,\) of the rows, got \(5,\)"),
        ({"weights": torch.ones(6, 13)}, ValueError, r"weights must have the shape \(6,\) of the rows, got \(6, 13\)"),
        ({"weights": "x"}, TypeError, "weights must be a tensor of real numbers, got str"),
        ({"weights": 1j * torch.ones(6)}, TypeError, "weights must .*got dtype torch.complex64"),
        ({"weights": torch.ones(6, device="meta")}, ValueError, "weights must be on cpu as student is, got meta"),
        ({"num_items": torch.ones(3)}, ValueError, r"num_items must be one real number .*got .*shape \(3,\)"),
        ({"num_items": torch.tensor(True)}, ValueError, "num_items must be one real number .*got dtype torch.bool"),
        ({"num_items": "x"}, TypeError, "num_items must be a number, got 'x'"),
        ({"reduction": "median"}, ValueError, "reduction must be 'mean', 'sum' or 'none'"),
        ({"reduction": "sum", "num_items": 3}, ValueError, "num_items must go with reduction='mean'"),
    ]


@pytest.mark.parametrize(("changed", "kind", "words"), bad_calls())
def test_mistakes_are_named(group, changed, kind, words):
    student, teacher = scores()
    arguments = {"student": student, "teacher": teacher, "loss": LOSS, "group": group, **changed}
    with pytest.raises(kind, match=words):
        sharded_matching_loss(arguments.pop("student"), arguments.pop("teacher"), arguments.pop("loss"), **arguments)


def test_meshes_that_do_not_fit(group):
    student, teacher = scores()
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("rows", "classes"))
    with pytest.raises(ValueError, match=r"mesh must have one axis, got 2. Take one of its axes: mesh\['classes'\]"):
        sharded_matching_loss(student, teacher, LOSS, mesh=mesh)
    with pytest.raises(ValueError, match="group and mesh must not be given both"):
        sharded_matching_loss(student, teacher, LOSS, mesh=mesh["classes"], group=group)


def test_counts_that_are_none(group):
    with pytest.raises(TypeError, match=r"boolean mask or one number, got dtype torch\.int64 with axes"):
        global_count(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="global_count: mesh must have one axis, got 2"):
        global_count(3, init_device_mesh("cpu", (1, 1)))


def test_the_page_has_the_table_of_the_benchmark():
    root = Path(__file__).parent.parent
    table = runpy.run_path(str(root / "benchmarks" / "sharding.py"))["table"]()
    assert len(table.splitlines()) > 8
    assert max(map(len, table.splitlines())) < 100
    assert table in (root / "docs" / "distributed.md").read_text(encoding="utf-8")
