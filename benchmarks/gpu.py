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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
INTERPRET = "--interpret" in sys.argv  # for tests of this script on processors: all shapes are tiny
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the processes below are the parallelism
if INTERPRET:
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from _pages import between_marks  # noqa: E402

import selmatch as sm  # noqa: E402
from selmatch.torch import MatchingLoss, TopKTeacher, linear_matching_loss  # noqa: E402

GIB = 2.0**30
DEVICE = torch.device("cpu" if INTERPRET else "cuda")
BF16, FP32 = torch.bfloat16, torch.float32
NAMES = {BF16: "bf16", FP32: "fp32"}
GROUPS = ("rows", "canonical", "sparse", "memory", "dense", "close", "short", "scalar", "linear", "growth")
OURS, KERNEL = "selmatch", "selmatch, kernel alone"
IN_PLACE, FORWARD = "selmatch, in place", "selmatch, no gradient"
PRODUCTS = "four matrix products"

TOKENS, HIDDEN, STORED = (4, 16, 8) if INTERPRET else (8192, 4096, 64)
CLASSES = (2100, 1300) if INTERPRET else (128256, 32000)
SHORT = ((32, 8), (64, 4)) if INTERPRET else ((65536, 128), (1048576, 16))
SCORES, COPIED = (1 << 11, 1 << 12) if INTERPRET else (1 << 28, 1 << 30)
MORE_ROWS, MORE_CLASSES, MORE_HIDDEN = (
    ((2,), (1100,), (8,)) if INTERPRET else ((512, 2048), (4096, 32768, 131072), (1024,))
)

POTENTIALS: dict[str, Any] = {
    "exp": sm.CompositeSoftmax(sm.Exp()),
    "sinh": sm.CompositeSoftmax(sm.Sinh()),
    "sinh(z/4)": sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.25)),  # log-probabilities are as low as -20
    "SmeLU": sm.CompositeSoftmax(sm.SmeLU(c=2.0).affine(beta=-5.5)),
    "h = sigmoid": sm.Sigmoid(),
    "h = sinh": sm.Sinh(),
}
#: how many times the floor is allowed, and how many are hoped for, by words of group, loss and dtype
ASKED = {
    ("rows", "exp", "bf16"): (2.1, 1.6), ("rows", "sinh", "bf16"): (2.7, 1.9), ("rows", "fp32"): (1.75, 1.4),
    ("canonical", "exp"): (3.0, 2.5), ("canonical", "sinh(z/4)"): (3.6, 2.9), ("sparse",): (2.1, 1.6),
    ("short", "bf16"): (1.7, 1.3), ("short", "fp32"): (1.2, 1.1), ("scalar",): (1.3, 1.1), ("linear",): (1.15, 1.08),
}  # fmt: skip
#: memory that two linear heads may take above their inputs, and what sums of rows may take anywhere, in GiB
LINEAR_GIB, SUMS_GIB = 2.1, 0.02


# --------------------------------------------------------------------------------------------------------------- inputs


def scores(rows: int, classes: int, dtype: torch.dtype, spread: float, apart: float) -> Any:
    """Scores of a student and of a teacher near it; single scores where there are no classes."""
    shape = (rows, classes) if classes else (rows,)
    x, y = torch.empty(shape, dtype=dtype, device=DEVICE), torch.empty(shape, dtype=dtype, device=DEVICE)
    some = max(1, (1 << 26) // max(classes, 1))
    for first in range(0, rows, some):
        here = slice(first, first + some)
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
    x, y = scores(rows, classes, dtype, 1.5, 0.5)
    return x, TopKTeacher.from_scores(y, k)


# ---------------------------------------------------------------------------------------------------------------- steps


def module_of(loss: str, **options: Any) -> Any:
    return MatchingLoss(POTENTIALS[loss], **{"kernels": True, **options}).to(DEVICE)


def backward(value: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """One step: the loss and its gradient."""
    return lambda x, y: torch.autograd.grad(value(x, y), x)[0]


def trained(loss: str, **options: Any) -> Callable[..., Any]:
    """A step as in a training loop."""
    return backward(module_of(loss, **options))


def kernel_alone(loss: str, rows: int) -> Callable[..., Any]:
    """One launch, without what the front end does about it."""
    from selmatch.kernels.gpu import emission, forms, launch

    key = forms.key_of(POTENTIALS[loss])
    numbers = torch.tensor(list(emission.parameters(POTENTIALS[loss])), dtype=FP32, device=DEVICE)
    scale = torch.full((1,), 1.0 / rows, device=DEVICE)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gradient = torch.empty_like(x, requires_grad=False)
        launch.rows(key, x.detach(), y, numbers, scale, None, gradient, False)
        return gradient

    return step


def linear(loss: str) -> Callable[..., Any]:
    module = module_of(loss)
    return lambda x, w, y, v: torch.autograd.grad(linear_matching_loss(x, w, y, v, module), (x, w))


def linear_by_hand(value: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """All scores are held, as users do it."""
    return lambda x, w, y, v: torch.autograd.grad(value(x @ w.t(), y @ v.t()), (x, w))


def products(loss: str) -> Callable[..., Any]:
    """The four matrix products alone, with the gradient of the loss: products with zeros are faster."""
    kept: list[torch.Tensor] = []

    def step(*given: torch.Tensor) -> Any:
        x, w, y, v = (z.detach() for z in given)
        s_hat, s = x @ w.t(), y @ v.t()
        if not kept:
            kept.append(trained(loss)(s_hat.requires_grad_(), s))
        return s, kept[0] @ w, kept[0].t() @ x

    return step


# ---------------------------------------------------------------------------------------------------------------- peers

#: Q and q of many classes, H and h of single scores
FORMULAS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "exp": (torch.exp, torch.exp),
    "sinh": (torch.cosh, torch.sinh),
    "sinh(z/4)": (lambda z: 4.0 * torch.cosh(0.25 * z), lambda z: torch.sinh(0.25 * z)),
    "h = sigmoid": (F.softplus, torch.sigmoid),
    "h = sinh": (torch.cosh, torch.sinh),
}


def formula(loss: str, canonical: bool = False) -> Callable[..., torch.Tensor]:
    """The loss as it stands in the paper, in single precision."""
    primitive, link = FORMULAS[loss]

    def of_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = (z.log_softmax(-1, dtype=FP32) if canonical else z.float() for z in (x, y))
        top = primitive(y)
        slope = link(y) * top.softmax(-1)
        return (primitive(x).logsumexp(-1) - top.logsumexp(-1) - ((x - y) * slope).sum(-1)).mean()

    def of_scores(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = x.float(), y.float()
        return (primitive(x) - primitive(y) - (x - y) * link(y)).mean()

    return of_scores if loss.startswith("h = ") else of_rows


def divergence(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    p, q = (z.log_softmax(-1, dtype=FP32) for z in (x, y))
    return F.kl_div(p, q, reduction="batchmean", log_target=True)


def liger(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction  # type: ignore[import-not-found]

    p, q = (z.log_softmax(-1, dtype=FP32) for z in (x, y))
    return LigerKLDivLossFunction.apply(p, q, "batchmean", True)  # type: ignore[return-value]


def compiled(value: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    import torch._inductor.config as inductor

    torch._dynamo.reset()  # one function at a time: its limit on recompilations is for users
    inductor.autotune_local_cache = False  # peers choose among their kernels when the GPU is quiet
    return torch.compile(value, dynamic=False, backend="aot_eager" if INTERPRET else "inductor")


# ---------------------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Task:
    """One row of the tables: what is run, on which inputs, and what it is compared with."""

    group: str
    case: str
    dtype: torch.dtype
    rows: int
    inputs: tuple[Any, ...]  # the function that makes them, and what it takes besides rows: first of all, classes
    bytes: int | None  # none: the products of the same case are the floor
    loss: str
    what: str
    build: Callable[[], Callable[..., Any]]
    gib: float | None = None  # memory that may be taken above the inputs

    @property
    def ours(self) -> bool:
        return self.what.startswith(OURS)

    @property
    def asked(self) -> tuple[float | None, float | None]:
        """How many times the floor is allowed, and how many are hoped for."""
        known = {self.group, self.loss, NAMES[self.dtype]}
        judged = self.what == (KERNEL if self.group == "short" else OURS)
        return next((x for words, x in ASKED.items() if judged and known.issuperset(words)), (None, None))

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """What is measured first: what is asked for, the rest of ours, peers, how it grows."""
        asked = self.asked[0] is not None or self.what in (IN_PLACE, PRODUCTS)
        return self.group == "growth", not (self.ours or asked), not asked

    @property
    def code(self) -> Any:
        """What is compiled, if it is worth starting early: for our kernels the number of rows is an argument."""
        if self.inputs[0] is heads or self.what == IN_PLACE or not (self.ours or "compile" in self.what):
            return None
        what = OURS if self.what == KERNEL else self.what
        return what, self.loss, self.group == "canonical", self.inputs[:3], not self.ours and self.rows

    def make(self, small: bool = False) -> Any:
        """The inputs, or the least that needs the same code."""
        make, classes, *more = self.inputs
        least = 16 if classes > 1024 else 256 if classes else 1 << 16
        return make(least if small and self.ours and not INTERPRET else self.rows, classes, *more)


def score_tasks(group: str, rows: int, classes: int, dtype: torch.dtype, *losses: str, note: str = "") -> list[Task]:
    """Our steps and all others on one shape of scores."""
    case = (f"{rows} x {classes}" if classes else f"2^{int(math.log2(rows))}") + note
    size = rows * max(classes, 1) * dtype.itemsize
    spread = {"dense": (0.3, 0.1), "close": (1.5, 0.001)}.get(group, (1.5, 0.5))
    on_scores = partial(Task, group, case, dtype, rows, (scores, classes, dtype, *spread), 3 * size)
    canonical = group == "canonical"
    options = {"canonicalise": True} if canonical else {}
    gib = None if group == "short" else size / GIB
    tasks = [on_scores(loss, OURS, partial(trained, loss, **options), gib) for loss in losses]
    if group == "short":
        tasks += [on_scores(loss, KERNEL, partial(kernel_alone, loss, rows)) for loss in losses]
    if group in ("dense", "close", "growth"):
        return tasks
    peers = [(loss, "formula", formula(loss, canonical)) for loss in losses]
    if group in ("rows", "short"):
        peers.append(("KL", "F.kl_div", divergence))
    for loss, name, value in peers:
        tasks.append(on_scores(loss, f"{name}, torch.compile", lambda value=value: backward(compiled(value))))
        tasks.append(on_scores(loss, f"{name}, eager", partial(backward, value)))
    if group == "rows" and importlib.util.find_spec("liger_kernel"):
        tasks.append(on_scores("KL", "Liger KLDiv", partial(backward, liger)))
    return tasks


def linear_tasks(group: str, hidden: int) -> list[Task]:
    """Scores of two heads, which may never exist together."""
    classes, loss = CLASSES[0], "sinh"
    case, inputs = f"{TOKENS} x {hidden} x {classes}", (heads, classes, BF16, hidden)
    on_heads = partial(Task, group, case, BF16, TOKENS, inputs, None, loss)
    tasks = [
        on_heads(PRODUCTS, partial(products, loss)),
        on_heads(OURS, partial(linear, loss), LINEAR_GIB),
        on_heads("formula, torch.compile", lambda: linear_by_hand(compiled(formula(loss)))),
        on_heads("formula, eager", lambda: linear_by_hand(formula(loss))),
    ]
    return tasks[:2] if group == "growth" else tasks


def special_tasks(rows: int, classes: int) -> list[Task]:
    """The gradient in the place of the scores, or no gradient at all; teachers of which a few classes are stored."""
    case, size = f"{rows} x {classes}", rows * classes * BF16.itemsize
    dense, few = (scores, classes, BF16, 1.5, 0.5), (stored, classes, BF16, STORED)
    in_place = partial(Task, "memory", f"{case}, in place", BF16, rows, dense, 3 * size)
    forward = partial(Task, "memory", f"{case}, no gradient", BF16, rows, dense, 2 * size)
    sparse = partial(Task, "sparse", f"{case}, best {STORED} stored", BF16, rows, few, 2 * size)
    return [
        in_place("exp", IN_PLACE, partial(trained, "exp", overwrite=True), 0.0),
        *(forward(loss, FORWARD, lambda loss=loss: torch.no_grad()(module_of(loss)), 0.0) for loss in ("exp", "sinh")),
        *(sparse(loss, OURS, partial(trained, loss), size / GIB) for loss in ("exp", "SmeLU")),
    ]


def all_tasks() -> list[Task]:
    """In the order of their importance."""
    many, both, large, tasks = ("exp", "sinh"), (BF16, FP32), CLASSES[0], []
    for dtype in both:
        for classes in CLASSES:
            tasks += score_tasks("rows", TOKENS, classes, dtype, *many)
    for classes in CLASSES:
        tasks += score_tasks("canonical", TOKENS, classes, BF16, "exp", "sinh(z/4)", note=", log-probabilities")
    tasks += special_tasks(TOKENS, large)
    tasks += score_tasks("dense", TOKENS, large, BF16, *many, note=", small scores")
    tasks += score_tasks("close", TOKENS, large, FP32, *many, note=", close to the teacher")
    tasks += score_tasks("close", *SHORT[0], FP32, *many, note=", close to the teacher")
    for dtype in both:
        for rows, classes in SHORT:
            tasks += score_tasks("short", rows, classes, dtype, *many)
        tasks += score_tasks("scalar", SCORES, 0, dtype, "h = sigmoid", "h = sinh")
    tasks += linear_tasks("linear", HIDDEN)
    for rows, classes in [*((rows, large) for rows in MORE_ROWS), *((TOKENS, classes) for classes in MORE_CLASSES)]:
        tasks += score_tasks("growth", rows, classes, BF16, "sinh")
    for hidden in MORE_HIDDEN:
        tasks += linear_tasks("growth", hidden)
    return sorted(tasks, key=lambda task: task.rank)


# ------------------------------------------------------------------------------------------------------------ measuring


class Timing(NamedTuple):
    ms: float
    host_us: float  # until the call returns
    late: bool = False  # the GPU began before all was launched: Python is in the time


class Machine:
    """Times and memory of the GPU; those of the processor for tests of this script."""

    #: the GPU waits so long before a step, and at most so long, until all of it is launched
    SHORTEST_MS, LONGEST_MS = 1.0, 64.0

    def __init__(self) -> None:
        self.wait_ms, self.cycles_per_ms = self.SHORTEST_MS, 0.0
        self.swept = torch.zeros(1 if INTERPRET else 1 << 26, dtype=torch.int32, device=DEVICE)
        for _ in range(0 if INTERPRET else 2):  # the first launch loads the code
            self.cycles_per_ms = 1e7 / self.attempt(lambda: torch.cuda._sleep(10_000_000), ()).ms

    def tidy(self) -> None:
        self.wait_ms = self.SHORTEST_MS
        gc.collect()
        if not INTERPRET:
            torch.cuda.empty_cache()

    def once(self, step: Callable[..., Any], given: Callable[[], Any]) -> Timing:
        """One step, all of which is launched before the GPU begins, as where Python is ahead of it."""
        timing = self.attempt(step, given())
        while timing.late and self.wait_ms < self.LONGEST_MS:
            self.wait_ms *= 2.0
            timing = self.attempt(step, given())
        return timing

    def attempt(self, step: Callable[..., Any], given: Any) -> Timing:
        if INTERPRET:
            before = time.perf_counter()
            step(*given)
            passed = time.perf_counter() - before
            return Timing(1e3 * passed, 1e6 * passed)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.swept.sum()  # nothing of the step is left in the cache, nor anything that must be written
        torch.cuda._sleep(int(self.wait_ms * self.cycles_per_ms))
        start.record()
        before = time.perf_counter()
        step(*given)
        passed = time.perf_counter() - before
        end.record()
        late = start.query()
        end.synchronize()
        return Timing(start.elapsed_time(end), 1e6 * passed, late)

    def peak(self, step: Callable[..., Any], given: Any) -> float:
        """Memory above what is there, in GiB."""
        if INTERPRET:
            return 0.0
        torch.cuda.synchronize()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(*given)
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - base) / GIB

    def recorded(self, step: Callable[..., Any], sets: list[Any]) -> Callable[[], Any]:
        """Steps as one CUDA graph. Results are kept, so that they are written to memory."""
        if INTERPRET:
            return lambda: [step(*given) for given in sets]
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = [step(*given) for given in sets]
        return lambda: (graph.replay(), len(kept))


@dataclass
class Row:
    """What is known of a task in the end."""

    group: str
    case: str
    loss: str
    dtype: str
    what: str
    must: float | None
    aim: float | None
    memory_must: float | None
    ms: float | None = None
    host_us: float | None = None
    floor_ms: float | None = None
    ratio: float | None = None
    verdict: str = ""
    memory_gib: float | None = None
    repetitions: int = 0
    error: float | None = None  # of the gradient, relative, in the first rows
    note: str = ""


class Benchmark:
    def __init__(self, options: argparse.Namespace, start: float) -> None:
        self.options, self.start = options, start
        self.machine = Machine()
        self.rows: list[Row] = []
        self.held: tuple[Any, Any] = (None, None)
        self.products: dict[str, float] = {}
        a, b = (torch.empty(COPIED, dtype=BF16, device=DEVICE).normal_() for _ in range(2))
        ms = statistics.median(timing.ms for timing in self.timings(lambda: b.copy_(a), tuple))
        self.rate = 4 * COPIED / ms * 1e3  # bytes per second, read and written
        print(f"copy {self.rate / 1e12:.3f} TB/s, after {self.elapsed():.0f} s", flush=True)

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def timings(self, step: Callable[..., Any], given: Callable[[], Any], least: int = 7) -> list[Timing]:
        for _ in range(2):
            step(*given())
        first = self.machine.once(step, given).ms
        count = 3 if self.options.quick else max(least, min(25, int(100.0 / first)))
        return [self.machine.once(step, given) for _ in range(count)]

    def inputs(self, task: Task) -> Any:
        key = (task.inputs, task.rows)
        if self.held[0] != key:
            self.held = (None, None)
            self.machine.tidy()
            self.held = (key, task.make())
        return self.held[1]

    def run(self, task: Task) -> None:
        row = Row(task.group, task.case, task.loss, NAMES[task.dtype], task.what, *task.asked, task.gib)
        self.rows.append(row)
        if self.elapsed() > self.options.deadline:
            row.note = "not run: time"
            return
        try:
            self.measure(task, row)
        except Exception as error:
            row.note = f"{type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")[:160]
            self.held = (None, None)
        place = f"{label(row)}, {row.what}: {shown(row.ms, '.4g')} ms, {times(row)} {row.verdict}"
        print(f"{self.elapsed():4.0f} s  {place} {row.note}", flush=True)
        self.options.out.write_text(json.dumps(self.report(), indent=1) + "\n")
        with contextlib.suppress(RuntimeError):  # a GPU that has failed fails in every row from there on
            self.machine.tidy()

    def measure(self, task: Task, row: Row) -> None:
        inputs, step, notes, launches = self.inputs(task), task.build(), [], 1

        def given() -> Any:  # in place, scores are lost, and must be computed
            return (inputs[0].clone(), *inputs[1:]) if task.what == IN_PLACE else inputs

        result = step(*given())
        if task.ours and task.what != FORWARD:
            row.error = error_of(task, inputs, result)
            notes += [f"wrong gradient: {row.error:.2g}"] * (not row.error < 0.02)
        del result
        row.memory_gib = self.machine.peak(step, given())
        notes += ["too much memory"] * (task.gib is not None and row.memory_gib > task.gib + SUMS_GIB)
        if task.what == KERNEL:  # several sets of inputs, so that none is found in the cache of the GPU
            sets = [inputs, *(task.make() for _ in range(1 if INTERPRET else 5))] * (1 if INTERPRET else 4)
            step, given, launches = self.machine.recorded(step, sets), tuple, len(sets)
        timings = self.timings(step, given, 3 if task.what.endswith("eager") else 7)
        notes += ["with the time of Python"] * any(timing.late for timing in timings)
        row.repetitions, row.note = len(timings), "; ".join(notes)
        row.ms = statistics.median(timing.ms for timing in timings) / launches
        row.host_us = None if launches > 1 else statistics.median(timing.host_us for timing in timings)
        if task.what == PRODUCTS:
            self.products[task.case] = row.ms
        row.floor_ms = self.products.get(task.case) if task.bytes is None else task.bytes / self.rate * 1e3
        row.ratio = row.ms / row.floor_ms if row.floor_ms else None
        if row.ratio and row.must and row.aim:
            row.verdict = "missed" if row.ratio > row.must else "met" if row.ratio > row.aim else "aim met"

    def report(self) -> dict[str, Any]:
        import numpy
        import triton

        versions = {module.__name__: module.__version__ for module in (sm, numpy, torch, triton)}
        return {
            "machine": "Triton's interpreter" if INTERPRET else torch.cuda.get_device_name(),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "versions": {**versions, "python": platform.python_version(), "cuda": str(torch.version.cuda)},
            "copy_tb_per_s": self.rate / 1e12,
            "clock_ghz": self.machine.cycles_per_ms / 1e6,
            "seconds": round(self.elapsed(), 1),
            "rows": [asdict(row) for row in self.rows],
        }


def error_of(task: Task, inputs: Any, result: Any) -> float:
    """How far the gradient is from that of the formulas in double precision, in the first rows."""
    few = slice(0, 16 if task.inputs[1] else 4096)
    head = None
    if task.inputs[0] is heads:
        hidden, head, teacher_hidden, teacher_head = (z.detach() for z in inputs)
        inputs, result = (hidden @ head.t(), teacher_hidden @ teacher_head.t()), result[0]
    x, y = inputs
    if isinstance(y, TopKTeacher):
        y = TopKTeacher(y.indices[few], y.scores[few].double(), y.log_sum_exp[few].double(), y.classes)
    else:
        y = y[few].double()
    exact = trained(task.loss, reduction="sum", canonicalise=task.group == "canonical", kernels=False)
    expected = exact(x.detach()[few].double().requires_grad_(), y) / task.rows
    found = result.detach()[few].double()
    if head is None:
        return ((found - expected).norm() / expected.norm()).item()
    # products of other shapes round some scores otherwise, which is much to steep losses: most rows must agree
    expected = expected @ head.double()
    return ((found - expected).norm(dim=-1) / expected.norm(dim=-1)).median().item()


# --------------------------------------------------------------------------------------------------- compile beforehand


def wanted(options: argparse.Namespace) -> list[Task]:
    """The tasks of some groups; quickly, without peers."""
    return [task for task in all_tasks() if task.group in options.only and not (options.quick and task.rank[1])]


def to_compile(options: argparse.Namespace) -> list[Task]:
    tasks = {task.code: task for task in reversed(wanted(options)) if task.code is not None}
    return list(reversed(tasks.values()))


def compile_some(options: argparse.Namespace) -> None:
    """The work of one process: compile what nobody else has begun, into the caches on disk."""
    for i, task in enumerate(to_compile(options)):
        with contextlib.suppress(FileExistsError):
            (options.worker / str(i)).touch(exist_ok=False)
            try:
                task.build()(*task.make(small=True))
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

#: columns of the table, and where their rows are found: the name, and the loss where it is not the same
PEERS = {
    "compiled": ("formula, torch.compile", None),
    "eager": ("formula, eager", None),
    "KL, compiled": ("F.kl_div, torch.compile", "KL"),
    "KL, eager": ("F.kl_div, eager", "KL"),
    "KL, Liger": ("Liger KLDiv", "KL"),
}


def table(head: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown without empty columns; all but the first to the right."""
    rule = ["--:" if i else "---" for i in range(len(head))]
    if not lines:
        return "None measured."
    filled = [i for i in range(len(head)) if any(line[i] for line in lines)]
    return "\n".join(f"| {' | '.join(line[i] for i in filled)} |" for line in [head, rule, *lines])


def shown(x: float | None, form: str) -> str:
    return "" if x is None else format(x, form)


def times(row: Row | None) -> str:
    """How many times the floor."""
    if row is None:
        return ""
    return (row.note.partition(":")[0] or "no floor") if row.ratio is None else f"{row.ratio:.2f}x"


def label(row: Row) -> str:
    return f"{row.case}, {row.loss}, {row.dtype}"


def goal(row: Row) -> list[str]:
    """What is asked for, and whether it is there."""
    return ["", ""] if row.must is None else [f"{row.must:g}/{row.aim:g}x", row.verdict or "not run"]


def find(rows: list[Row], like: Row, what: str, loss: str | None = None) -> Row | None:
    """The row of the same group and case with something else."""
    key = (like.group, like.case, like.dtype, what, loss or like.loss)
    return next((row for row in rows if (row.group, row.case, row.dtype, row.what, row.loss) == key), None)


def steps_table(rows: list[Row]) -> str:
    """Whole steps; KL, which knows no regions, stands for what users have today."""
    ours = [row for row in rows if row.what.startswith(OURS) and row.what != KERNEL and row.group != "growth"]
    shown_peers = [name for name in PEERS if name != "KL, eager"]  # no wider than a page
    lines = [
        [label(row), shown(row.floor_ms, ".3g"), *goal(row), times(row)]
        + [times(find(rows, row, *PEERS[name])) for name in shown_peers]
        for row in sorted(ours, key=lambda row: GROUPS.index(row.group))
    ]
    return table(["case", "floor, ms", "goal/aim", "", "selmatch", *shown_peers], lines)


def faster_peers(rows: list[Row]) -> list[str]:
    pairs = [(row, find(rows, row, *place)) for row in rows if row.what == OURS for place in PEERS.values()]
    return [f"  {label(a)}: {times(b)} by {b.what}" for a, b in pairs if b and a.ms and b.ms and b.ms < a.ms]


def memory_table(rows: list[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row.memory_must is not None and row.group not in ("growth", "dense", "close", "canonical"):
            found = [row, *(find(rows, row, PEERS[name][0]) for name in ("compiled", "eager"))]
            cells = [f"{row.memory_must:.2f}", *(shown(x and x.memory_gib, ".2f") for x in found)]
            lines.setdefault(f"{row.case}, {row.dtype}", cells)
    return table(["case", "goal", "selmatch", "compiled", "eager"], [[x, *cells] for x, cells in lines.items()])


def short_table(rows: list[Row]) -> str:
    lines = []
    for row in (row for row in rows if row.what == KERNEL):
        step = find(rows, row, OURS)
        floor, host = shown(row.floor_ms and 1e3 * row.floor_ms, ".1f"), shown(step and step.host_us, ".0f")
        lines.append([label(row), floor, *goal(row), times(row), times(step), host])
    return table(["case", "floor, us", "goal/aim", "", "kernel", "step", "host, us"], lines)


def growth_table(rows: list[Row]) -> str:
    """What was measured of q = sinh in bf16, by size."""
    grown = {
        tuple(map(int, row.case.split(" x "))): row
        for row in rows
        if (row.what, row.loss, row.dtype) == (OURS, "sinh", "bf16") and row.group in ("growth", "rows", "linear")
    }
    lines = [
        [row.case, shown(row.floor_ms, ".3g"), shown(row.ms, ".3g"), times(row)]
        for _, row in sorted(grown.items(), key=lambda item: (len(item[0]), item[0]))
    ]
    return table(["rows x classes, or rows x hidden x classes", "floor, ms", "selmatch, ms", "x floor"], lines)


def host_times(rows: list[Row]) -> str:
    """The least and the most that steps take of the host, by who made them."""
    parts = []
    for name in (OURS, "torch.compile", "eager"):
        found = [row.host_us for row in rows if row.what.endswith(name) and row.host_us is not None]
        parts += [f"{name} {min(found):.0f} to {max(found):.0f}"] if found else []
    return f"Host time of a step, in microseconds: {'; '.join(parts)}."


def markdown(report: dict[str, Any]) -> str:
    """What docs/performance.md shows."""
    rows, v = [Row(**row) for row in report["rows"]], report["versions"]
    parts = [
        f"{report['machine']}, {report['date']}, torch {v['torch']}, triton {v['triton']}, Python {v['python']}; "
        f"copy rate {report['copy_tb_per_s']:.2f} TB/s, clock {report['clock_ghz']:.2f} GHz.",
        "### Steps, in times of the floor", steps_table(rows), host_times(rows),
        "### Memory above the inputs, in GiB", memory_table(rows), "### Short rows", short_table(rows),
        "### How it grows (q = sinh, bf16)", growth_table(rows),
    ]  # fmt: skip
    missing = [row for row in rows if row.ms is None]
    if missing:
        parts.append(f"{len(missing)} of {len(rows)} rows were not measured: {missing[0].note}.")
    return "\n\n".join(parts)


# ----------------------------------------------------------------------------------------------------------------- main


def groups(text: str) -> list[str]:
    chosen = text.split(",")
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
            options.into.write_text(between_marks(options.into.read_text(), "table", text))
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
    rows = benchmark.rows
    print(f"\n{markdown(benchmark.report())}\n\nafter {benchmark.elapsed():.0f} s")
    print("missed:", *(f"  {label(row)}: {times(row)}" for row in rows if row.verdict == "missed"), sep="\n")
    print("noted:", *(f"  {label(row)}, {row.what}: {row.note}" for row in rows if row.note), sep="\n")
    print("faster peers:", *faster_peers(rows), sep="\n")


if __name__ == "__main__":
    main()
