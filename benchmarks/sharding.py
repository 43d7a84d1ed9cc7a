"""Claim: gathers of a process group cost less than DTensor's own collectives, and fewer gathers less than more sums.

Two processes on this machine, medians of interleaved repeats, all ratios from one run. Then the table of
docs/distributed.md, which is computed from the formulas below it there, not measured.
"""

import argparse
import math
import statistics
import tempfile
from collections.abc import Callable
from time import perf_counter

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import selmatch as sm
from selmatch.sharding import sharded_matching_loss
from selmatch.torch import matching_loss

#: numbers of each row in the two gathers, and bytes of each
GATHERED, BYTES = (4, 5), 4
#: rows of a group in the table, and bytes of a score there
ROWS, SCORE_BYTES = 8192, 2
#: GPUs that share the classes, and groups of them with rows of their own
SPLITS = ((8, 1), (8, 8), (64, 1), (8, 32), (64, 4), (8, 128), (64, 16), (1024, 1))
VOCABULARIES = {"32k": 32_000, "128k": 128_256, "262k": 262_144, "1M": 1_048_576}
#: scores that formulas work on at once on a device, and how many arrays of them there are
CHUNK, ARRAYS = 1 << 24, 30


# ---------------------------------------------------------------------------------------------------- what is computed


def received_bytes(group: int) -> int:
    """What a GPU receives forwards: the numbers of all others. Backwards: nothing."""
    return ROWS * sum(GATHERED) * BYTES * (group - 1)


def memory_bytes(classes: int, group: int) -> int:
    """Scores of student and teacher, and the gradient, of the classes of a GPU; what formulas need beside them."""
    scores = ROWS * math.ceil(classes / group)
    return 3 * scores * SCORE_BYTES + ARRAYS * 4 * max(min(CHUNK, scores), ROWS * group)


def table() -> str:
    """The table of docs/distributed.md."""
    lines = [
        f"| GPUs = classes x rows | MB received | {' | '.join(f'GB, {name}' for name in VOCABULARIES)} |",
        "|---|---|" + "---|" * len(VOCABULARIES),
    ]
    for group, groups in ((1, 1), *SPLITS):
        memory = " | ".join(f"{memory_bytes(classes, group) / 1e9:.1f}" for classes in VOCABULARIES.values())
        split = f"{group * groups:,} = {group:,} x {groups}"
        lines.append(f"| {split} | {received_bytes(group) / 1e6:.1f} | {memory} |")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------- what is measured


def medians(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each, one after the other in turn, so that all meet the same weather."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 2):
        for name, function in functions.items():
            dist.barrier()
            start = perf_counter()
            function()
            if repeat >= 2:
                seconds[name].append(perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def collectives(mesh: DeviceMesh, rows: int) -> dict[str, Callable[[], object]]:
    """Ways to bring a few numbers of each row together."""
    numbers = [torch.randn(count, rows) for count in GATHERED]
    reduced = [torch.randn(count, rows) for count in (4, 4, 7)]
    everyone = [torch.empty(mesh.size() * z.numel()) for z in numbers]
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

    def gathers() -> None:
        for whole, mine in zip(everyone, numbers, strict=True):
            gather(whole, mine.reshape(-1))

    def dtensor_gathers() -> None:
        for mine in numbers:
            split = DTensor.from_local(mine, mesh, [Shard(0)], run_check=False)
            split.redistribute(placements=[Replicate()]).to_local()

    def sums() -> None:
        for z, kind in zip(reduced, (dist.ReduceOp.MAX, dist.ReduceOp.SUM, dist.ReduceOp.SUM), strict=True):
            dist.all_reduce(z, op=kind)

    return {"two gathers of a group": gathers, "two gathers by DTensor": dtensor_gathers, "a maximum, two sums": sums}


def losses(mesh: DeviceMesh, rows: int, classes: int) -> dict[str, Callable[[], object]]:
    """Value and gradient: of this process's half of the classes, as shards and as DTensors, and of all of them."""
    torch.manual_seed(0)
    student, teacher = torch.randn(rows, classes), torch.randn(rows, classes)
    loss = sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-6.0), gamma=0.3)
    own = [z.chunk(mesh.size(), -1)[mesh.get_local_rank()].contiguous() for z in (student, teacher)]
    split = [DTensor.from_local(z, mesh, [Shard(-1)], run_check=False) for z in own]
    group = mesh.get_group()

    def trained(student: torch.Tensor, value: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: value(student.detach().requires_grad_()).backward()

    return {
        "shards": trained(own[0], lambda z: sharded_matching_loss(z, own[1], loss, group=group)),
        "DTensors": trained(split[0], lambda z: sharded_matching_loss(z, split[1], loss)),
        "all classes on each": trained(student, lambda z: matching_loss(z, teacher, loss, canonicalise=True)),
    }


def work(rank: int, size: int, folder: str, rows: int, classes: int, repeats: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    for title, found in (
        (f"numbers of {ROWS:,} rows", medians(collectives(mesh, ROWS), 10 * repeats)),
        (f"loss and gradient, {rows} rows, {classes:,} classes", medians(losses(mesh, rows, classes), repeats)),
    ):
        if rank == 0:
            first = next(iter(found.values()))
            ratios = (
                f"  {name:28s} {1e3 * seconds:9.2f} ms  {seconds / first:5.2f}" for name, seconds in found.items()
            )
            print(title, *ratios, sep="\n")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", action="store_true", help="print the table only")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--classes", type=int, default=32_768)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if not arguments.table:
        with tempfile.TemporaryDirectory() as folder:
            given = (2, folder, arguments.rows, arguments.classes, arguments.repeats)
            mp.spawn(work, args=given, nprocs=2)  # type: ignore[attr-defined]
    print(table())


if __name__ == "__main__":
    main()
