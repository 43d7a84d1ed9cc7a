"""Claim: on a GPU a loss and its gradient cost little more than reading the scores once and writing the gradient once.

Needs Python, NumPy, PyTorch and Triton. Peers are measured in the same run: the formula written down in PyTorch, eager
and compiled, ``F.kl_div`` likewise, and Liger where it is installed. Floor: the bytes that must be read and written, at
the rate of a copy in the same run; for linear heads, their four matrix products.

    python benchmarks/gpu.py --out gpu.json --deadline 300
    python benchmarks/gpu.py --markdown gpu.json --into docs/performance.md
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
INTERPRET = "--interpret" in sys.argv  # for tests of this script on processors: all shapes are tiny
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the processes below are the parallelism
if INTERPRET:
    os.environ["TRITON_INTERPRET"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import selmatch as sm  # noqa: E402

GIB = 2.0**30
DEVICE = torch.device("cpu" if INTERPRET else "cuda")
BF16, FP32 = torch.bfloat16, torch.float32
NAMES = {BF16: "bf16", FP32: "fp32"}
GROUPS = ("rows", "canonical", "memory", "dense", "short", "scalar", "linear", "sparse", "growth")
OURS = "selmatch"
KERNEL = "selmatch, kernel alone"


class Sizes(NamedTuple):
    tokens: int
    classes: tuple[int, ...]
    short: tuple[tuple[int, int], ...]
    scores: int
    hidden: int
    stored: int
    copy: int
    more_rows: tuple[int, ...]
    more_classes: tuple[int, ...]
    more_hidden: tuple[int, ...]


SIZES = (
    Sizes(4, (2100, 1300), ((32, 8), (64, 4)), 1 << 11, 16, 8, 1 << 12, (2, 4), (1100, 2048), (8, 16))
    if INTERPRET
    else Sizes(
        tokens=8192,
        classes=(128256, 32000),
        short=((65536, 128), (1048576, 16)),
        scores=1 << 28,
        hidden=4096,
        stored=64,
        copy=1 << 30,
        more_rows=(512, 1024, 2048, 4096, 8192),
        more_classes=tuple(1 << n for n in range(11, 18)),
        more_hidden=(1024, 2048, 4096),
    )
)

SCALINGS: dict[str, Any] = {"exp": sm.Exp(), "sinh": sm.Sinh(), "smelu": sm.SmeLU(c=2.0).affine(beta=-5.5)}
LINKS: dict[str, Any] = {"sigmoid": sm.Sigmoid(), "sinh": sm.Sinh()}

#: how many times the floor is allowed, and how many are hoped for
ASKED = {
    ("rows", "exp", "bf16"): (2.1, 1.6), ("rows", "sinh", "bf16"): (2.7, 1.9),
    ("rows", "exp", "fp32"): (1.75, 1.4), ("rows", "sinh", "fp32"): (1.75, 1.4),
    ("canonical", "exp", "bf16"): (3.0, 2.5), ("canonical", "sinh", "bf16"): (3.6, 2.9),
    ("short", "exp", "bf16"): (1.7, 1.3), ("short", "sinh", "bf16"): (1.7, 1.3),
    ("short", "exp", "fp32"): (1.2, 1.1), ("short", "sinh", "fp32"): (1.2, 1.1),
    ("scalar", "sigmoid", "bf16"): (1.3, 1.1), ("scalar", "sinh", "bf16"): (1.3, 1.1),
    ("scalar", "sigmoid", "fp32"): (1.3, 1.1), ("scalar", "sinh", "fp32"): (1.3, 1.1),
    ("linear", "sinh", "bf16"): (1.15, 1.08),
    ("sparse", "smelu", "bf16"): (2.1, 1.6), ("sparse", "exp", "bf16"): (2.1, 1.6),
}  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- inputs


def scores(rows: int, classes: int, dtype: torch.dtype, spread: float, apart: float, filled: bool = True) -> Any:
    """Scores of a student and of a teacher near it; single scores where there are no classes."""
    shape = (rows, classes) if classes else (rows,)
    x, y = torch.empty(shape, dtype=dtype, device=DEVICE), torch.empty(shape, dtype=dtype, device=DEVICE)
    for part in torch.arange(len(x)).split(max(1, (1 << 26) // max(classes, 1))) if filled else ():
        here = slice(int(part[0]), int(part[-1]) + 1)
        z = spread * torch.randn(x[here].shape, device=DEVICE)
        x[here], y[here] = z, z + apart * torch.randn_like(z)
    return x.requires_grad_(), y


def heads(rows: int, classes: int, dtype: torch.dtype, hidden: int) -> Any:
    """Hidden states and heads of a student and a teacher, with scores like those above."""
    states = torch.randn(rows, hidden, device=DEVICE).to(dtype)
    head = 1.5 * torch.randn(classes, hidden, device=DEVICE) / math.sqrt(hidden)
    teacher = head + 0.5 * torch.randn_like(head) / math.sqrt(hidden)
    return states.requires_grad_(), head.to(dtype).requires_grad_(), states.detach().clone(), teacher.to(dtype)


def stored(rows: int, classes: int, dtype: torch.dtype, k: int) -> Any:
    """Scores of a student, and the best k classes of a teacher."""
    from selmatch.sparse_teachers import TopKTeacher

    x, y = scores(rows, classes, dtype, 1.5, 0.5)
    return x, TopKTeacher.from_scores(y, k)


# ---------------------------------------------------------------------------------------------------------------- steps


def potential_of(loss: str, classes: bool) -> Any:
    return sm.CompositeSoftmax(SCALINGS[loss]) if classes else LINKS[loss]


def module_of(loss: str, classes: bool = True, **options: Any) -> Any:
    from selmatch.torch import MatchingLoss

    return MatchingLoss(potential_of(loss, classes), **{"kernels": True, **options}).to(DEVICE)


def backward(value: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """One step: the loss and its gradient."""
    return lambda x, y: torch.autograd.grad(value(x, y), x)[0]


def forward_only(loss: str) -> Callable[..., Any]:
    module = module_of(loss)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return module(x, y)

    return step


def kernel_alone(loss: str) -> Callable[..., Any]:
    """One launch, without what the front end does about it."""
    from selmatch.kernels.gpu import emission, forms, launch

    potential = potential_of(loss, True)
    key = forms.key_of(potential)
    numbers = torch.tensor(list(emission.parameters(potential)), dtype=torch.float32, device=DEVICE)
    one = torch.ones(1, device=DEVICE)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        gradient = torch.empty_like(x, requires_grad=False)
        return gradient, launch.rows(key, x.detach(), y, numbers, one, None, gradient, False)

    return step


def with_stored_teacher(loss: str) -> Callable[..., Any]:
    """One launch with a teacher of which the best classes are stored."""
    from selmatch.kernels.gpu import emission, forms, launch_sparse

    potential = potential_of(loss, True)
    key = forms.key_of(potential)
    numbers = torch.tensor(list(emission.parameters(potential)), dtype=torch.float32, device=DEVICE)
    one = torch.ones(1, device=DEVICE)

    def step(x: torch.Tensor, teacher: Any) -> Any:
        gradient = torch.empty_like(x, requires_grad=False)
        known, tail = teacher.log_probabilities, teacher.tail
        launch_sparse.rows(key, x.detach(), teacher.indices, known, tail, numbers, one, gradient, True)
        return gradient

    return step


def linear(loss: str) -> Callable[..., Any]:
    from selmatch.kernels.linear import linear_matching_loss

    module = module_of(loss)

    def step(hidden: Any, head: Any, teacher_hidden: Any, teacher_head: Any) -> Any:
        value = linear_matching_loss(hidden, head, teacher_hidden, teacher_head, module)
        return torch.autograd.grad(value, (hidden, head))

    return step


def linear_by_hand(value: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """All scores are held, as users do it."""

    def step(hidden: Any, head: Any, teacher_hidden: Any, teacher_head: Any) -> Any:
        return torch.autograd.grad(value(hidden @ head.t(), teacher_hidden @ teacher_head.t()), (hidden, head))

    return step


def products(loss: str) -> Callable[..., Any]:
    """The four matrix products alone, with the gradient of the loss: products with zeros are faster."""
    kept: list[torch.Tensor] = []

    @torch.no_grad()
    def step(hidden: Any, head: Any, teacher_hidden: Any, teacher_head: Any) -> Any:
        if not kept:
            with torch.enable_grad():
                x = (hidden @ head.t()).detach().requires_grad_()
                kept.append(backward(module_of(loss))(x, teacher_hidden @ teacher_head.t()))
        scores = hidden @ head.t(), teacher_hidden @ teacher_head.t()
        return scores, kept[0] @ head, kept[0].t() @ hidden

    return step


# ---------------------------------------------------------------------------------------------------------------- peers


def formula(loss: str, canonical: bool = False) -> Callable[..., torch.Tensor]:
    """The loss of composite Softmax as it stands in the paper, in single precision."""
    primitive, q = {"exp": (torch.exp, torch.exp), "sinh": (torch.cosh, torch.sinh)}[loss]

    def value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = x.float(), y.float()
        if canonical:
            x, y = x.log_softmax(-1), y.log_softmax(-1)
        top = primitive(y)
        link = q(y) * top.softmax(-1)
        return (primitive(x).logsumexp(-1) - top.logsumexp(-1) - ((x - y) * link).sum(-1)).mean()

    return value


def scalar_formula(loss: str) -> Callable[..., torch.Tensor]:
    primitive, link = {"sigmoid": (F.softplus, torch.sigmoid), "sinh": (torch.cosh, torch.sinh)}[loss]

    def value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = x.float(), y.float()
        return (primitive(x) - primitive(y) - (x - y) * link(y)).mean()

    return value


def divergence(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    p, q = (z.log_softmax(-1, dtype=torch.float32) for z in (x, y))
    return F.kl_div(p, q, reduction="batchmean", log_target=True)


def liger(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction  # type: ignore[import-not-found]

    p, q = (z.log_softmax(-1, dtype=torch.float32) for z in (x, y))
    return LigerKLDivLossFunction.apply(p, q, "batchmean", True)  # type: ignore[return-value]


def compiled(value: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    import torch._inductor.config as inductor

    torch._dynamo.reset()  # one function at a time: its limit on recompilations is for users
    inductor.autotune_local_cache = False  # peers choose among their kernels when the GPU is quiet
    return torch.compile(value, dynamic=False, backend="aot_eager" if INTERPRET else "inductor")


# ---------------------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Task:
    """One row of the table: what is run, on which inputs, and what it is compared with."""

    group: str
    case: str
    loss: str
    dtype: torch.dtype
    what: str
    rows: int
    inputs: tuple[Any, ...]  # the function that makes them, and what it takes besides rows
    build: Callable[[], Callable[..., Any]]
    bytes: int | None = None  # none: the products of the same case are the floor
    fresh: bool = False  # x is lost, and computed again each time
    alone: bool = False  # only a CUDA graph says what a launch takes
    exact: bool | None = None  # whether the gradient is checked, and for which canonicalise
    peer: bool = False
    early: bool = True  # worth compiling before the measurements

    @property
    def key(self) -> Any:
        """What is compiled: for our kernels the number of rows is an argument."""
        return (self.what, self.loss, self.inputs, self.rows if self.peer else 0)

    def make(self) -> Any:
        return self.inputs[0](self.rows, *self.inputs[1:])

    def make_small(self) -> Any:
        """The least that needs the same code."""
        if self.peer:
            return self.inputs[0](self.rows, *self.inputs[1:], False)
        rows = self.rows if INTERPRET else 1 << 16 if self.group == "scalar" else 256 if self.group == "short" else 16
        return self.inputs[0](rows, *self.inputs[1:])


def pair_tasks(
    group: str, rows: int, classes: int, dtype: torch.dtype, losses: tuple[str, ...], note: str = ""
) -> Iterator[Task]:
    """Our steps and all others on one shape of scores."""
    spread = (0.3, 0.1) if group == "dense" else (1.5, 0.5)
    case = (f"{rows} x {classes}" if classes else f"2^{int(math.log2(rows))}") + note
    triple = 3 * rows * max(classes, 1) * dtype.itemsize
    common: dict[str, Any] = {"rows": rows, "inputs": (scores, classes, dtype, *spread), "bytes": triple}
    canonical = group == "canonical"
    for loss in losses:
        options = {"canonicalise": True} if canonical else {}
        yield Task(
            group, case, loss, dtype, OURS, **common, exact=canonical, early=group != "dense",
            build=lambda loss=loss, options=options: backward(module_of(loss, classes > 0, **options)),
        )  # fmt: skip
        if group == "short":
            yield Task(
                group, case, loss, dtype, KERNEL, **common, alone=True, early=False,
                build=lambda loss=loss: kernel_alone(loss),
            )  # fmt: skip
    others: list[tuple[str, str, Any]] = [
        (loss, "formula", formula(loss, canonical) if classes else scalar_formula(loss)) for loss in losses
    ]
    if group in ("rows", "short"):
        others.append(("KL", "F.kl_div", divergence))
    for loss, name, value in others if group != "dense" else ():
        peer = {**common, "peer": True}
        yield Task(
            group, case, loss, dtype, f"{name}, torch.compile", **peer,
            build=lambda value=value: backward(compiled(value)),
        )  # fmt: skip
        if not canonical:
            yield Task(
                group, case, loss, dtype, f"{name}, eager", **peer, early=False,
                build=lambda value=value: backward(value),
            )  # fmt: skip
    if group == "rows" and importlib.util.find_spec("liger_kernel"):
        peer = {**common, "peer": True}
        yield Task(group, case, "KL", dtype, "Liger KLDiv", **peer, early=False, build=lambda: backward(liger))


def linear_tasks(group: str, hidden: int, dtype: torch.dtype, peers: bool) -> Iterator[Task]:
    classes, loss = SIZES.classes[0], "sinh"
    case = f"{SIZES.tokens} x {hidden} x {classes}"
    common: dict[str, Any] = {"rows": SIZES.tokens, "inputs": (heads, classes, dtype, hidden), "early": False}
    yield Task(group, case, loss, dtype, "four matrix products", **common, build=lambda: products(loss))
    yield Task(group, case, loss, dtype, OURS, **common, build=lambda: linear(loss))
    if peers:
        common["peer"] = True
        yield Task(
            group, case, loss, dtype, "formula, torch.compile", **common,
            build=lambda: linear_by_hand(compiled(formula(loss))),
        )  # fmt: skip
        yield Task(
            group, case, loss, dtype, "formula, eager", **common, build=lambda: linear_by_hand(formula(loss))
        )  # fmt: skip


def sparse_tasks(rows: int, classes: int, k: int) -> Iterator[Task]:
    """Only the student's scores are read: the teacher is small."""
    case, size = f"{rows} x {classes}, best {k} stored", rows * classes * BF16.itemsize
    for loss in ("smelu", "exp"):
        yield Task(
            "sparse", case, loss, BF16, KERNEL, rows=rows, inputs=(stored, classes, BF16, k), bytes=2 * size,
            build=lambda loss=loss: with_stored_teacher(loss),
        )  # fmt: skip


def all_tasks() -> Iterator[Task]:
    """In the order of their importance: ours, then peers, then how it grows."""
    many, both = ("exp", "sinh"), (BF16, FP32)
    large = SIZES.classes[0]
    cases: list[Task] = []
    for dtype in both:
        for classes in SIZES.classes:
            cases += pair_tasks("rows", SIZES.tokens, classes, dtype, many)
    for classes in SIZES.classes:
        cases += pair_tasks("canonical", SIZES.tokens, classes, BF16, many, ", log-probabilities")
    cases += memory_tasks(SIZES.tokens, large)
    cases += pair_tasks("dense", SIZES.tokens, large, BF16, many, ", small scores")
    for dtype in both:
        for rows, classes in SIZES.short:
            cases += pair_tasks("short", rows, classes, dtype, many)
    for dtype in both:
        cases += pair_tasks("scalar", SIZES.scores, 0, dtype, ("sigmoid", "sinh"))
    cases += linear_tasks("linear", SIZES.hidden, BF16, peers=True)
    cases += sparse_tasks(SIZES.tokens, large, SIZES.stored)
    yield from (task for task in cases if not task.peer)
    yield from (task for task in cases if task.peer)
    for rows in SIZES.more_rows:
        yield from (t for t in pair_tasks("growth", rows, large, BF16, ("sinh",)) if not t.peer)
    for classes in SIZES.more_classes:
        yield from (t for t in pair_tasks("growth", SIZES.tokens, classes, BF16, ("sinh",)) if not t.peer)
    for hidden in SIZES.more_hidden:
        yield from linear_tasks("growth", hidden, BF16, peers=False)


def memory_tasks(rows: int, classes: int) -> Iterator[Task]:
    """What saves memory: the gradient in the place of the scores, or no gradient at all."""
    case, size = f"{rows} x {classes}", rows * classes * BF16.itemsize
    common: dict[str, Any] = {"rows": rows, "inputs": (scores, classes, BF16, 1.5, 0.5)}
    yield Task(
        "memory", case, "exp", BF16, "selmatch, overwrite", **common, bytes=3 * size, fresh=True, exact=False,
        early=False, build=lambda: backward(module_of("exp", overwrite=True)),
    )  # fmt: skip
    for loss in ("exp", "sinh"):
        yield Task(
            "memory", case, loss, BF16, "selmatch, no gradient", **common, bytes=2 * size,
            build=lambda loss=loss: forward_only(loss),
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ measuring


class Graphics:
    """Times and memory of a GPU."""

    def __init__(self) -> None:
        self.swept = torch.empty(1 << 28, dtype=torch.int8, device=DEVICE)

    def settle(self) -> None:
        torch.cuda.synchronize()

    def tidy(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()

    def once(self, step: Callable[..., Any], given: Any, sweep: bool = True) -> float:
        if sweep:
            self.swept.zero_()  # nothing is left in the cache of the GPU
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step(*given)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def peak(self, step: Callable[..., Any], given: Any) -> float:
        """Memory above what is there, in GiB."""
        self.settle()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(*given)
        self.settle()
        return (torch.cuda.max_memory_allocated() - base) / GIB

    def recorded(self, step: Callable[..., Any], sets: list[Any], rounds: int) -> Callable[[], Any]:
        """Steps as one CUDA graph. Results are kept, so that they are written to memory."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for given in sets[:2]:
                step(*given)
        torch.cuda.current_stream().wait_stream(stream)
        self.settle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = [step(*given) for _ in range(rounds) for given in sets]
        return lambda: (graph.replay(), len(kept))


class Processor:
    """The same on a processor, for tests of this script."""

    def settle(self) -> None: ...

    def tidy(self) -> None: ...

    def once(self, step: Callable[..., Any], given: Any, sweep: bool = True) -> float:
        start = time.perf_counter()
        step(*given)
        return 1e3 * (time.perf_counter() - start)

    def peak(self, step: Callable[..., Any], given: Any) -> float:
        step(*given)
        return 0.0

    def recorded(self, step: Callable[..., Any], sets: list[Any], rounds: int) -> Callable[[], Any]:
        return lambda: [step(*given) for _ in range(rounds) for given in sets]


@dataclass
class Row:
    group: str
    case: str
    loss: str
    dtype: str
    what: str
    how: str = "step"  # or "graph": replayed, without the time of Python
    ms: float | None = None
    floor_ms: float | None = None
    ratio: float | None = None
    memory_gib: float | None = None
    repetitions: int = 0
    must: float | None = None
    aim: float | None = None
    error: float | None = None  # of the gradient, relative, in the first rows
    note: str = ""


class Benchmark:
    def __init__(self, options: argparse.Namespace, start: float) -> None:
        self.options, self.start = options, start
        self.machine: Any = Processor() if INTERPRET else Graphics()
        self.rows: list[Row] = []
        self.held: tuple[Any, Any] = (None, None)
        self.products: dict[str, float] = {}
        n = SIZES.copy
        a, b = (torch.empty(n, dtype=BF16, device=DEVICE).normal_() for _ in range(2))
        ms, _ = self.median(lambda: b.copy_(a), tuple)
        self.rate = 4 * n / ms * 1e3  # bytes per second, read and written
        print(f"copy {self.rate / 1e12:.3f} TB/s, after {self.elapsed():.0f} s", flush=True)

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def median(self, step: Callable[..., Any], given: Callable[[], Any], sweep: bool = True) -> tuple[float, int]:
        for _ in range(2):
            step(*given())
        first = self.machine.once(step, given(), sweep)
        count = 3 if self.options.quick or first > 50.0 else max(7, min(25, int(100.0 / first)))
        return statistics.median(self.machine.once(step, given(), sweep) for _ in range(count)), count

    def inputs(self, task: Task) -> Any:
        key = (task.inputs, task.rows)
        if self.held[0] != key:
            self.held = (None, None)
            self.machine.tidy()
            self.held = (key, task.make())
        return self.held[1]

    def run(self, task: Task) -> None:
        row = Row(task.group, task.case, task.loss, NAMES[task.dtype], task.what, "graph" if task.alone else "step")
        if task.what == (KERNEL if task.group in ("short", "sparse") else OURS):
            row.must, row.aim = ASKED.get((task.group, task.loss, row.dtype), (None, None))
        self.rows.append(row)
        if self.elapsed() > self.options.deadline:
            row.note = "not run: time"
            return
        try:
            self.measure(task, row)
        except torch.OutOfMemoryError:
            row.note = "out of memory"
            self.held = (None, None)
        except Exception as error:
            row.note = f"{type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")[:160]
            self.held = (None, None)
        place = f"{row.case} {row.loss} {row.dtype} {row.what}"
        print(f"{self.elapsed():4.0f} s  {place}: {cell(row)} {row.note}", flush=True)
        self.save()
        with contextlib.suppress(RuntimeError):  # a GPU that has failed fails in every row from there on
            self.machine.tidy()

    def measure(self, task: Task, row: Row) -> None:
        inputs = self.inputs(task)
        row.floor_ms = self.products.get(task.case) if task.bytes is None else task.bytes / self.rate * 1e3
        step = task.build()

        def given() -> Any:
            return (inputs[0].clone(), *inputs[1:]) if task.fresh else inputs

        result = step(*given())
        if task.exact is not None:
            row.error = error_of(task, inputs, result)
            if not row.error < 0.02:
                row.note = f"wrong gradient: {row.error:.2g}"
        del result
        row.memory_gib = self.machine.peak(step, given())
        if task.alone:
            row.ms, row.repetitions = self.replayed(task, step, inputs)
        else:
            row.ms, row.repetitions = self.median(step, given)
        if task.what == "four matrix products":
            self.products[task.case] = row.floor_ms = row.ms
        row.ratio = row.ms / row.floor_ms if row.floor_ms else None
        if (row.ms < 1.0 or task.group == "short") and not (task.alone or task.fresh or "Liger" in task.what):
            again = Row(**{**asdict(row), "how": "graph", "memory_gib": None, "error": None})
            self.rows.append(again)
            try:
                again.ms, again.repetitions = self.replayed(task, step, inputs)
                again.ratio = again.ms / row.floor_ms if row.floor_ms else None
            except Exception as error:
                again.ms = again.ratio = None
                again.note = f"no graph: {type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")[:120]

    def replayed(self, task: Task, step: Callable[..., Any], inputs: Any) -> tuple[float, int]:
        """The time of one step among many with inputs of their own, so that none is found in the cache of the GPU."""
        sets = [inputs, *(task.make() for _ in range(1 if INTERPRET else 5))]
        rounds = 4 if (task.bytes or 0) < 1 << 28 else 1
        replay = self.machine.recorded(step, sets, rounds)
        ms, count = self.median(replay, tuple, sweep=False)
        return ms / (rounds * len(sets)), count

    def save(self) -> None:
        self.options.out.write_text(json.dumps(self.report(), indent=1) + "\n")

    def report(self) -> dict[str, Any]:
        cuda = None if INTERPRET else torch.cuda.get_device_properties(0)
        return {
            "machine": platform.processor() if cuda is None else cuda.name,
            "processors": 0 if cuda is None else cuda.multi_processor_count,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "versions": versions(),
            "copy_tb_per_s": self.rate / 1e12,
            "seconds": round(self.elapsed(), 1),
            "rows": [asdict(row) for row in self.rows],
        }


def versions() -> dict[str, str]:
    import triton

    return {
        "selmatch": sm.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": str(torch.version.cuda),
    }


def error_of(task: Task, inputs: Any, gradient: torch.Tensor) -> float:
    """How far the gradient is from that of the formulas in double precision, in the first rows."""
    few = slice(0, 4 if task.inputs[1] else 4096)
    x, y = inputs[0].detach()[few].double().requires_grad_(), inputs[1][few].double()
    loss = module_of(task.loss, task.inputs[1] > 0, reduction="sum", canonicalise=bool(task.exact), kernels=False)
    expected = backward(loss)(x, y) / task.rows
    return ((gradient.detach()[few].double() - expected).norm() / expected.norm()).item()


# --------------------------------------------------------------------------------------------------- compile beforehand


def wanted(options: argparse.Namespace) -> list[Task]:
    return [task for task in all_tasks() if task.group in options.only and not (options.quick and task.peer)]


def to_compile(options: argparse.Namespace) -> list[Task]:
    tasks: dict[Any, Task] = {}
    for task in wanted(options):
        if task.early:
            tasks.setdefault(task.key, task)
    return list(tasks.values())


def compile_some(options: argparse.Namespace) -> None:
    """The work of one process: compile what nobody else has begun, into the caches on disk."""
    for i, task in enumerate(to_compile(options)):
        with contextlib.suppress(FileExistsError):
            (options.worker / str(i)).touch(exist_ok=False)
            try:
                task.build()(*task.make_small())
            except Exception as error:  # it will be seen again, and noted, when it is measured
                print(f"compiling {task.case} {task.what}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            gc.collect()
            if not INTERPRET:
                torch.cuda.empty_cache()


def compile_beforehand(options: argparse.Namespace, start: float) -> None:
    count = min(options.workers, len(to_compile(options)))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--worker", folder]
        processes = [subprocess.Popen(command) for _ in range(count)]
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.0, 0.45 * options.deadline - (time.monotonic() - start)))
        for process in processes:  # what they have not done is compiled when it is measured
            process.kill()
            process.wait()
    print(f"{len(to_compile(options))} steps compiled by {count} processes, after {time.monotonic() - start:.0f} s")


# --------------------------------------------------------------------------------------------------------------- tables


def table(head: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown; columns of numbers to the right."""
    rule = ["--:" if all(numeric(line[i]) for line in lines) else "---" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def numeric(cell: str) -> bool:
    return not cell or cell.replace(".", "", 1).isdigit()


def shown(x: float | None, form: str) -> str:
    return "" if x is None else format(x, form)


HEAD = ["case", "loss", "dtype", "what", "how", "ms", "floor ms", "x floor", "must", "aim", "GiB", "note"]


def cells(row: Row) -> list[str]:
    verdict = ""
    if row.ratio is not None and row.must is not None and row.aim is not None:
        verdict = "missed" if row.ratio > row.must else "met" if row.ratio > row.aim else "aim met"
    numbers = [
        shown(row.ms, ".4f"), shown(row.floor_ms, ".4f"), shown(row.ratio, ".2f"),
        shown(row.must, "g"), shown(row.aim, "g"), shown(row.memory_gib, ".2f"),
    ]  # fmt: skip
    note = "; ".join(filter(None, (verdict, row.note)))
    return [row.case, row.loss, row.dtype, row.what, row.how, *numbers, note]


def summary(report: dict[str, Any]) -> str:
    v = report["versions"]
    return (
        f"{report['machine']}, {report['date']}, torch {v['torch']}, triton {v['triton']}, Python {v['python']}; "
        f"copy rate {report['copy_tb_per_s']:.2f} TB/s."
    )


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.ms is None:
        return row.note.partition(":")[0] or "failed"
    return f"{row.ms:.3g} ms" if row.ratio is None else f"{row.ms:.3g} ms, {row.ratio:.2f}x"


def markdown(report: dict[str, Any]) -> str:
    """What docs/performance.md shows."""
    rows = [Row(**row) for row in report["rows"]]
    parts = [summary(report), against_peers(rows), "Memory above the inputs, GiB:", memory_table(rows)]
    parts += ["Short rows, with and without Python and the small launches around the kernel:", launches_table(rows)]
    parts += ["How it grows (q = sinh, bf16):", growth_table(rows)]
    missing = [row for row in rows if row.ms is None]
    if missing:
        parts.append(f"{len(missing)} of {len(rows)} rows were not measured: {missing[0].note}.")
    return "\n\n".join(parts)


def find(rows: list[Row], **fields: str) -> Row | None:
    return next((row for row in rows if all(getattr(row, name) == x for name, x in fields.items())), None)


def settings(rows: list[Row], *groups: str) -> list[tuple[str, str, str, str]]:
    """Group, case, loss and dtype of what we measured of ourselves, each once."""
    return list(
        dict.fromkeys(
            (row.group, row.case, row.loss, row.dtype)
            for row in rows
            if row.group in groups and row.what.startswith(OURS)
        )
    )


#: columns of the table, and where their rows are found: the name, and the loss where it is not the same
PEERS = {
    "torch.compile": ("formula, torch.compile", None),
    "eager": ("formula, eager", None),
    "KL, compile": ("F.kl_div, torch.compile", "KL"),
    "KL, eager": ("F.kl_div, eager", "KL"),
    "Liger KL": ("Liger KLDiv", "KL"),
}


def peers_of(rows: list[Row], ours: Row) -> list[Row | None]:
    """The same formula in PyTorch; KL, which knows no regions, stands for what users have today."""
    here = {"group": ours.group, "case": ours.case, "dtype": ours.dtype, "how": ours.how}
    return [find(rows, what=what, loss=loss or ours.loss, **here) for what, loss in PEERS.values()]


def against_peers(rows: list[Row]) -> str:
    lines = []
    for ours in rows:
        shows = ours.how == "graph" and ours.what == OURS if ours.group == "short" else ours.how == "step"
        if shows and ours.what.startswith(OURS) and ours.group != "growth":
            case = ours.case + ours.what.removeprefix(OURS)
            floor = shown(ours.floor_ms, ".3g")
            lines.append([case, ours.loss, ours.dtype, floor, cell(ours), *map(cell, peers_of(rows, ours))])
    head = ["case", "q or h", "dtype", "floor ms", "selmatch", *PEERS]
    filled = [i for i in range(len(head)) if i < 5 or any(line[i] for line in lines)]
    return table([head[i] for i in filled], [[line[i] for i in filled] for line in lines])


def slower_than_peers(rows: list[Row]) -> list[str]:
    """Where somebody else is faster."""
    return [
        f"{ours.case} {ours.loss} {ours.dtype} {ours.how} ({peer.what})"
        for ours in rows
        if ours.what == OURS and ours.ms is not None  # whole steps: peers have no kernel alone
        for peer in peers_of(rows, ours)
        if peer is not None and peer.ms is not None and peer.ms < ours.ms
    ]


def memory_table(rows: list[Row]) -> str:
    kinds = [OURS, "selmatch, overwrite", "formula, torch.compile", "formula, eager"]
    lines = []
    for group, case, loss, dtype in settings(rows, "rows", "linear"):
        near = [row for row in rows if row.group in (group, "memory")]
        found = [find(near, case=case, loss=loss, dtype=dtype, how="step", what=what) for what in kinds]
        lines.append([case, loss, dtype, *("" if row is None else shown(row.memory_gib, ".2f") for row in found)])
    return table(["case", "q", "dtype", *kinds], lines)


def launches_table(rows: list[Row]) -> str:
    lines = []
    for group, case, loss, dtype in settings(rows, "short"):
        here = {"group": group, "case": case, "loss": loss, "dtype": dtype}
        kinds = ((OURS, "step"), (OURS, "graph"), (KERNEL, "graph"))
        found = [find(rows, what=what, how=how, **here) for what, how in kinds]
        lines.append([case, loss, dtype, *map(cell, found)])
    return table(["case", "q", "dtype", "a step", "a step in a CUDA graph", "the kernel"], lines)


def growth_table(rows: list[Row]) -> str:
    lines = []
    for group, case, loss, dtype in settings(rows, "growth"):
        here = {"group": group, "case": case, "loss": loss, "dtype": dtype, "what": OURS}
        step, graph = find(rows, how="step", **here), find(rows, how="graph", **here)
        lines.append([case, shown(step.floor_ms if step else None, ".3g"), cell(step), cell(graph)])
    return table(["rows x classes, or rows x hidden x classes", "floor ms", "a step", "in a CUDA graph"], lines)


def between_marks(page: str, text: str) -> str:
    """A page with a text between its marks."""
    before, mark, rest = page.partition("<!-- table -->")
    _, end, after = rest.partition("<!-- end -->")
    if not (mark and end):
        raise ValueError("gpu.py: the page must have the marks <!-- table --> and <!-- end -->.")
    return f"{before}{mark}\n\n{text}\n\n{end}{after}"


# ----------------------------------------------------------------------------------------------------------------- main


def groups(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no group {unknown[0]!r}; there are: {', '.join(GROUPS)}")
    return chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu_benchmark.json"), help="where the JSON goes")
    parser.add_argument("--deadline", type=float, default=900.0, help="seconds after which no new row begins")
    parser.add_argument("--only", type=groups, default=GROUPS, help=f"some of {','.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="no peers, three repetitions")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="processes that compile")
    parser.add_argument("--markdown", type=Path, help="print the tables of the documentation from a JSON")
    parser.add_argument("--into", type=Path, help="with --markdown: write them between the marks of this page")
    parser.add_argument("--interpret", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    start = time.monotonic()
    options = arguments()
    if options.markdown:
        text = markdown(json.loads(options.markdown.read_text()))
        if options.into:
            options.into.write_text(between_marks(options.into.read_text(), text))
        else:
            print(text)
        return
    if not (INTERPRET or torch.cuda.is_available()):
        print("needs a GPU: nothing measured")
        return
    if INTERPRET:
        from selmatch.kernels import operators

        operators.interpreted = True
        torch.backends.mkldnn.enabled = False  # half-precision products of some processors do not exist
    torch.manual_seed(0)
    if options.worker:
        compile_some(options)
        return
    compile_beforehand(options, start)
    benchmark = Benchmark(options, start)
    for task in wanted(options):
        benchmark.run(task)
    benchmark.save()
    print(f"\n{summary(benchmark.report())}\n\n{table(HEAD, [cells(row) for row in benchmark.rows])}\n")
    missed = [row for row in benchmark.rows if row.ratio and row.must and row.ratio > row.must]
    unmeasured = [row for row in benchmark.rows if row.must and row.ratio is None]
    print(f"after {benchmark.elapsed():.0f} s; missed: {len(missed)}, not measured: {len(unmeasured)}")
    print("faster peers:", "; ".join(slower_than_peers(benchmark.rows)) or "none")


if __name__ == "__main__":
    main()
