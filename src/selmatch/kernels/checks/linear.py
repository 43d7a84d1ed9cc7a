"""Checks of the loss between two linear heads, against the losses of the library on all scores in double precision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.nn.functional import linear

import selmatch as sm
from selmatch.kernels import operators
from selmatch.kernels.linear import attached, linear_losses, linear_matching_loss

#: rows, hidden states of student and teacher, classes; and a size whose memory is measured
SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {"heads": [(21, 24, 16, 300), (5, 16, 24, 1501)], "memory": None},
    "gpu": {
        "heads": [(21, 24, 16, 300), (333, 128, 64, 1501), (1000, 512, 256, 32000), (300, 256, 256, 50257)],
        "memory": (8192, 4096, 4096, 128256),
    },
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LOSSES = [
    sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), gamma=2.0)),
    sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5, beta=-0.5), gamma=3.0, anchor=0.5)),
]
SINH = LOSSES[0]


class Heads(NamedTuple):
    """The arguments of the loss, in the order of its operator."""

    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor
    teacher_hidden: torch.Tensor
    teacher_weight: torch.Tensor
    teacher_bias: torch.Tensor

    @property
    def trained(self) -> tuple[torch.Tensor, ...]:
        return self[:3]

    def loss(self, loss: Any, **options: Any) -> torch.Tensor:
        hidden, weight, bias, teacher_hidden, teacher_weight, teacher_bias = self
        heads = {"bias": bias, "teacher_bias": teacher_bias}
        return linear_matching_loss(hidden, weight, teacher_hidden, teacher_weight, loss, **{**heads, **options})


def heads(device: Any, size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Heads:
    rows, hidden, teacher_hidden, classes = size
    generator = torch.Generator(device).manual_seed(sum(size))

    def normal(*shape: int, deviation: float = 1.0) -> torch.Tensor:
        return (deviation * torch.randn(*shape, generator=generator, device=device)).to(dtype)

    return Heads(
        normal(rows, hidden).requires_grad_(),
        normal(classes, hidden, deviation=hidden**-0.5).requires_grad_(),
        normal(classes, deviation=0.5).requires_grad_(),
        normal(rows, teacher_hidden),
        normal(classes, teacher_hidden, deviation=teacher_hidden**-0.5),
        normal(classes, deviation=0.5),
    )


@contextlib.contextmanager
def kernels_on(device: Any) -> Iterator[None]:
    """Kernels also on a processor, by Triton's interpreter, and no products that some virtual machines cannot do."""
    before = operators.interpreted, torch.backends.mkldnn.enabled
    on_processor = torch.device(device).type == "cpu"
    operators.interpreted, torch.backends.mkldnn.enabled = on_processor, before[1] and not on_processor
    try:
        yield
    finally:
        operators.interpreted, torch.backends.mkldnn.enabled = before


def value_and_gradients(given: Heads, loss: Any, **options: Any) -> tuple[torch.Tensor, ...]:
    value = given.loss(loss, kernels=True, **options)
    return value.detach(), *torch.autograd.grad(value, [x for x in given.trained if x.requires_grad])


def expected(
    given: Heads, loss: Any, scale: torch.Tensor, canonical: bool = False
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Value and gradients in double precision, from scores rounded as those of the heads are."""
    hidden, weight, bias, *teacher = (x.detach() for x in given)
    s_hat, s = linear(hidden, weight, bias).double().requires_grad_(), linear(*teacher).double()
    a, b = (z.log_softmax(-1) if canonical else z for z in (s_hat, s))
    value = (loss(a, b, reduction="none") * scale).sum()
    (gradient,) = torch.autograd.grad(value, s_hat)
    return value.detach(), (gradient @ weight.double(), gradient.T @ hidden.double(), gradient.sum(0))


def require_close(name: str, found: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> None:
    error = ((found.double() - wanted).norm() / wanted.norm()).item()
    if not error <= tolerance:
        raise AssertionError(f"{name}: relative error {error:.2e} must be <= {tolerance:.1e}")


def require_equal(name: str, found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        if not torch.equal(a, b):
            raise AssertionError(f"{name}: must be equal, got a difference of {(a - b).abs().max().item():.2e}")


# -------------------------------------------------------------------------------------------------------------- checks


def check_values_and_gradients(device: Any, sizes: dict[str, Any]) -> None:
    with kernels_on(device):
        for size in sizes["heads"]:
            rows = size[0]
            weights = torch.linspace(0.0, 2.0, rows, device=device)
            where = torch.arange(rows, device=device) % 3 != 1
            scale = torch.where(where, weights, 0.0)
            for dtype in DTYPES:
                given = heads(device, size, dtype)
                half = dtype != torch.float32
                for loss, canonical in ((LOSSES[0], False), (LOSSES[1], False), (LOSSES[0], True)):
                    value, *gradients = value_and_gradients(
                        given, loss, where=where, weights=weights, chunk=(rows + 1) // 2 - 1, canonicalise=canonical
                    )
                    wanted, wanted_gradients = expected(given, loss, scale / scale.sum(), canonical)
                    name = f"{loss.potential!r} {size} {dtype} canonical={canonical}"
                    require_close(f"{name} value", value, wanted, 1e-3 if half else 2e-5)
                    # log-probabilities are large, and so is Q of them
                    tolerance = torch.finfo(dtype).eps if half else 2e-4 if canonical else 2e-5
                    for what, a, b in zip(("hidden", "weight", "bias"), gradients, wanted_gradients, strict=True):
                        assert a.dtype == dtype, f"{name}: gradient of {what} must be {dtype}, got {a.dtype}"
                        require_close(f"{name} gradient of {what}", a, b, tolerance)


def check_options(device: Any, sizes: dict[str, Any]) -> None:
    """What is not needed is not computed, and changes nothing."""
    with kernels_on(device):
        size = sizes["heads"][0]
        given = heads(device, size)
        whole = value_and_gradients(given, SINH, chunk=8)
        for frozen in ((0,), (1,), (2,), (0, 1), (1, 2)):
            part = given._replace(**{given._fields[i]: given[i].detach() for i in frozen})
            kept = [whole[0], *(g for i, g in enumerate(whole[1:]) if i not in frozen)]
            require_equal(f"frozen {frozen}", value_and_gradients(part, SINH, chunk=8), kept)
        with torch.no_grad():
            value = given.loss(SINH, kernels=True, chunk=8)
        require_equal("value alone", [value], whole[:1])
        count = torch.tensor(7.0, device=device)
        a, b = given.loss(SINH, kernels=True, num_items=count), given.loss(SINH, kernels=True, reduction="sum")
        require_close("num_items", 7.0 * a.detach(), b.detach().double(), 1e-6)
        no_bias = {"bias": None, "teacher_bias": None}
        zeros = given._replace(bias=0.0 * given.bias, teacher_bias=0.0 * given.teacher_bias)
        a, b = given.loss(SINH, kernels=True, **no_bias), zeros.loss(SINH, kernels=True)
        require_close("no bias", a.detach(), b.detach().double(), 1e-6)


def check_rows_that_do_not_count(device: Any, sizes: dict[str, Any]) -> None:
    """They may hold anything, and there may be no others."""
    with kernels_on(device):
        for size in sizes["heads"][:2]:
            given = heads(device, size)
            where = torch.arange(size[0], device=device) % 4 != 2
            found = value_and_gradients(given, SINH, where=where, chunk=8)
            spoiled = given._replace(
                hidden=given.hidden.detach().masked_fill(~where[:, None], float("nan")).requires_grad_(),
                teacher_hidden=given.teacher_hidden.masked_fill(~where[:, None], float("inf")),
            )
            require_equal(f"{size} spoiled", value_and_gradients(spoiled, SINH, where=where, chunk=8), found)
            nobody = value_and_gradients(spoiled, SINH, where=torch.zeros_like(where), chunk=8)
            require_equal(f"{size} nobody", nobody, [torch.zeros_like(x) for x in nobody])


def check_repeats(device: Any, sizes: dict[str, Any]) -> None:
    """Bits are the same from run to run, and going backward twice gives the same twice."""
    with kernels_on(device):
        for size in sizes["heads"]:
            given = heads(device, size, torch.float16)
            first, second = (value_and_gradients(given, SINH, chunk=8 + size[0] // 3) for _ in range(2))
            require_equal(f"{size} again", second, first)
        given = heads(device, sizes["heads"][0])
        once = value_and_gradients(given, SINH)[1:]
        value = given.loss(SINH, kernels=True)
        for factor in (2.0, 1.0, 0.5):
            found = torch.autograd.grad(factor * value, given.trained, retain_graph=factor != 0.5)
            require_equal(f"times {factor}", found, [factor * x for x in once])


def check_converged(device: Any, sizes: dict[str, Any]) -> None:
    """Values near the minimum are accurate: the teacher is the student, moved by 1e-3."""
    with kernels_on(device):
        for size in sizes["heads"]:
            hidden, weight, bias = (x.detach() for x in heads(device, size).trained)
            noise = torch.randn(bias.shape, device=device, generator=torch.Generator(device).manual_seed(1))
            given = Heads(hidden, weight, bias, hidden, weight, bias + 1e-3 * noise)
            s_hat, s = linear(*given[:3]), linear(*given[3:])
            wanted = SINH(s_hat.double(), s.double())
            require_close(f"{size} converged", given.loss(SINH, kernels=True), wanted, 1e-4)


def check_operators(device: Any, sizes: dict[str, Any]) -> None:
    """The operators are what they say to PyTorch, and compile."""
    with kernels_on(device):
        given = heads(device, sizes["heads"][0])
        form = operators.form_of(SINH.potential)
        numbers = torch.tensor([0.5, 0.0, 1.0, 2.0], device=device)
        plain = [x.detach() for x in given]
        scale = torch.ones(1, device=device)
        for needed in ([True, True, True], [False, True, False], [False, False, False]):
            torch.library.opcheck(linear_losses, (*plain, numbers, scale, form, False, 8, needed))
        value = torch.ones((), device=device)
        gradients = [torch.ones_like(x) for x in given.trained]
        torch.library.opcheck(attached, (value, list(given.trained), gradients, [1.0, 0.5, 0.5], True))
        torch._dynamo.reset()
        found, wanted = (
            function(*given) for function in (torch.compile(_sum, fullgraph=True, backend="aot_eager"), _sum)
        )
        require_equal("compiled", [found.detach()], [wanted.detach()])
        require_equal("compiled", *(torch.autograd.grad(value, given.trained) for value in (found, wanted)))
        torch._dynamo.reset()


def _sum(*given: torch.Tensor) -> torch.Tensor:
    return 2.0 * Heads(*given).loss(SINH, kernels=True, reduction="sum", chunk=8)


def check_graph(device: Any, sizes: dict[str, Any]) -> None:
    """A CUDA graph replays it with new inputs: nothing waits for the device."""
    if torch.device(device).type != "cuda":
        return
    given = heads(device, sizes["heads"][2], torch.bfloat16)
    where = torch.ones(given.hidden.shape[0], dtype=torch.bool, device=device)

    def step() -> tuple[torch.Tensor, ...]:
        return value_and_gradients(given, SINH, where=where, chunk=300)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        given.hidden.mul_(0.5)
        where[::5] = False
    graph.replay()
    torch.cuda.synchronize()
    require_equal("graph", captured, step())


def check_memory(device: Any, sizes: dict[str, Any]) -> None:
    """All scores are never there at once."""
    if sizes["memory"] is None or torch.device(device).type != "cuda":
        return
    given = heads(device, sizes["memory"], torch.bfloat16)
    given.loss(SINH, kernels=True).backward()
    for x in given.trained:
        x.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    given.loss(SINH, kernels=True).backward()
    extra = (torch.cuda.max_memory_allocated() - before) / 2**30
    if extra > 2.1:
        raise AssertionError(f"memory above inputs must be <= 2.1 GiB, got {extra:.2f} GiB")


CHECKS = [(name.removeprefix("check_"), function) for name, function in globals().items() if name.startswith("check_")]
