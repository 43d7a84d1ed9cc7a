"""Checks of the operators: what autograd, torch.compile and CUDA graphs make of the kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

import selmatch as sm
from selmatch.kernels import operators
from selmatch.kernels.gpu import SHORT, emission

SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {"shapes": [(2, 3, 5), (2, 1100)], "compiler": "aot_eager"},
    "gpu": {"shapes": [(2, 3, 5), (4, 1100), (3, 5, 40000)], "compiler": "inductor"},
}
POTENTIALS = [
    sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.25), gamma=2.0),
    sm.Sigmoid().affine(alpha=2.0, beta=0.5),
    sm.Separable(sm.Sinh()),
]


@contextlib.contextmanager
def kernels_on(device: Any) -> Iterator[None]:
    """Let kernels run on this device, by the interpreter if it is a processor."""
    before, operators.interpreted = operators.interpreted, str(device) == "cpu"
    try:
        yield
    finally:
        operators.interpreted = before


def scores(
    shape: tuple[int, ...], device: Any, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    s = torch.randn(shape, device=device)
    return (s + 0.3 * torch.randn(shape, device=device)).to(dtype).requires_grad_(), s.to(dtype)


def numbers_of(potential: Any, device: Any) -> torch.Tensor:
    return torch.tensor(list(emission.parameters(potential)) or [0.0], dtype=torch.float32, device=device)


def form_of(potential: Any) -> str:
    form = operators.form_of(potential)
    assert form is not None, f"{potential!r} has no kernels"
    return form


def close(what: str, found: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-5) -> None:
    error = (found.double() - expected.double()).abs().max().item()
    size = expected.double().abs().max().item()
    assert error <= tolerance * size + 1e-12, f"{what}: off by {error:.3g}, of {size:.3g}"


def check_autograd(device: Any, sizes: dict[str, Any]) -> None:
    """Gradients, twice in a row, with any factor; and second derivatives."""
    with kernels_on(device):
        for potential in POTENTIALS:
            for shape in sizes["shapes"]:
                for canonical in (False, True) if isinstance(potential, sm.CompositeSoftmax) else (False,):
                    for reduce in (False, True):
                        _check_derivatives(potential, shape, device, canonical, reduce)


def _check_derivatives(potential: Any, shape: tuple[int, ...], device: Any, canonical: bool, reduce: bool) -> None:
    what = f"{potential!r} {shape} canonical {canonical} reduce {reduce}"
    s_hat, s = scores(shape, device)
    vector = not isinstance(potential, sm.Curve)
    scale = torch.rand(shape[:-1] if vector else shape, device=device)
    present = torch.rand(shape, device=device) > 0.2
    present[..., 0] = True
    form, numbers = form_of(potential), numbers_of(potential, device)

    def ours(z: torch.Tensor) -> torch.Tensor:
        return operators.losses(form, z, s, numbers, scale, present, canonical, False, reduce)

    def reference(z: torch.Tensor) -> torch.Tensor:
        a, b = z, s.double()
        if canonical:
            a, b = (y.masked_fill(~present, -1e30).log_softmax(-1) for y in (a, b))
        found = sm.MatchingLoss(potential)(a, b, where=present, reduction="none") * scale
        return found.sum() if reduce else found

    x, y = s_hat, s_hat.detach().double().requires_grad_()
    value, expected = ours(x), reference(y)
    # log-probabilities are large, and so is Q of them
    tolerance = 3e-4 if canonical else 3e-5
    close(f"{what}: losses", value.detach(), expected.detach(), tolerance)
    factor = torch.rand_like(value)
    for retain in (True, False):  # once more, with the same graph
        (one,) = torch.autograd.grad(value, x, factor, retain_graph=retain)
        (other,) = torch.autograd.grad(expected, y, factor.double(), retain_graph=True)
        close(f"{what}: gradient", one, other, tolerance)
    (one,) = torch.autograd.grad(ours(x).sum(), x, create_graph=True)
    (other,) = torch.autograd.grad(expected.sum(), y, create_graph=True)
    direction = torch.randn_like(x)
    (one,) = torch.autograd.grad((one * direction).sum(), x)
    (other,) = torch.autograd.grad((other * direction.double()).sum(), y)
    close(f"{what}: second derivative", one, other, 5e-4)


def check_opcheck(device: Any, sizes: dict[str, Any]) -> None:
    """PyTorch's own test of operators."""
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    for shape in sizes["shapes"]:
        s_hat, s = scores(shape, device)
        for potential, operator in (
            (POTENTIALS[0], torch.ops.selmatch.row_losses.default),
            (POTENTIALS[1], torch.ops.selmatch.score_losses.default),
        ):
            vector = not isinstance(potential, sm.Curve)
            scale = torch.rand(shape[:-1] if vector else shape, device=device)
            arguments = (s_hat, s, numbers_of(potential, device), scale, None, form_of(potential), not vector, True)
            torch.library.opcheck(operator, arguments, test_utils=tests)
        gradient, factor = torch.randn(shape, device=device), torch.rand(shape[:-1], device=device)
        torch.library.opcheck(torch.ops.selmatch.scaled.default, (gradient, factor), test_utils=tests[:3])
        torch.library.opcheck(torch.ops.selmatch.scale_.default, (gradient, factor), test_utils=tests[:3])


def check_multiplication(device: Any, sizes: dict[str, Any]) -> None:
    """Gradients times one number, one for each row, one for each entry; 1 in place changes nothing."""
    for shape in (*sizes["shapes"], (7, 1)):
        for dtype in (torch.float32, torch.bfloat16):
            gradient = torch.randn(shape, device=device).to(dtype)
            for factor in (
                torch.tensor(0.3, device=device),
                torch.rand(shape[:-1], device=device),
                torch.rand((*shape[:-1], 2), device=device)[..., 0],
                torch.tensor(2.0, device=device).expand(shape[:-1]),
                torch.rand(shape, device=device),
            ):
                wide = factor.unsqueeze(-1) if 0 < factor.ndim < gradient.ndim else factor
                expected = gradient.float() * wide
                found, place = operators.scaled(gradient, factor), gradient.clone()
                operators.scale_(place, factor)
                assert torch.equal(found, place), "in place differs"
                close(f"product {shape} {dtype}", found, expected, 1e-6 if dtype == torch.float32 else 8e-3)
            same = gradient.clone()
            operators.scale_(same, torch.ones((), device=device))
            assert torch.equal(same, gradient)
            gradient.fill_(torch.nan)
            operators.scale_(gradient, torch.zeros((), device=device))
            assert not gradient.any(), "0 times NaN"


def check_overwriting(device: Any, sizes: dict[str, Any]) -> None:
    """The gradient in place of the scores: the same, and misuse is noticed."""
    from selmatch.torch import MatchingLoss, TopKTeacher

    with kernels_on(device):
        for potential in POTENTIALS:
            usual, saving = (MatchingLoss(potential, kernels=True, overwrite=x).to(device) for x in (False, True))
            for shape in sizes["shapes"]:
                x, s = scores(shape, device)
                _check_overwriting(f"{potential!r} {shape}", usual, saving, x, s)
                if isinstance(potential, sm.CompositeSoftmax) and shape[-1] > SHORT:
                    teacher = TopKTeacher.from_scores(s, 20)
                    _check_overwriting(f"{potential!r} {shape} stored", usual, saving, x, teacher)


def _check_overwriting(what: str, usual: Any, saving: Any, x: torch.Tensor, s: Any) -> None:
    (expected,) = torch.autograd.grad(3.0 * usual(x * 1.0, s), x)
    z = x * 1.0
    value = saving(z, s)
    (found,) = torch.autograd.grad(3.0 * value, z, retain_graph=True)
    assert torch.equal(found, expected), f"{what}: another gradient in place"
    assert found.data_ptr() == z.data_ptr(), f"{what}: the gradient is somewhere else"
    _raises(RuntimeError, "twice", lambda: torch.autograd.grad(value, x))
    kept = torch.exp(x)  # which needs its own result
    saving(kept, s)
    _raises(RuntimeError, "modified by an inplace", lambda: torch.autograd.grad(kept.sum(), x))
    _raises(ValueError, "leaf", lambda: saving(x, s))
    with torch.no_grad():
        saving(x, s)  # there is no gradient to write


def _raises(kind: type[Exception], text: str, call: Any) -> None:
    found = ""
    try:
        call()
    except kind as error:
        found = str(error)
    assert text in found, f"no {kind.__name__} with {text!r}, but {found!r}"


def check_row_masks(device: Any, sizes: dict[str, Any]) -> None:
    """A mask of whole rows is a scale of 0: nothing of these rows is read."""
    potential = POTENTIALS[0]
    form, numbers, one = form_of(potential), numbers_of(potential, device), torch.ones((), device=device)
    for shape in sizes["shapes"]:
        s_hat, s = scores(shape, device)
        rows = torch.rand(shape[:-1], device=device) > 0.5
        dirty = torch.where(rows.unsqueeze(-1), s_hat.detach(), torch.nan).requires_grad_()
        found = operators.losses(form, dirty, s, numbers, one, rows.unsqueeze(-1).expand(shape))
        expected = torch.where(rows, operators.losses(form, s_hat, s, numbers, one, None), 0.0)
        assert torch.equal(found, expected), shape
        (gradient,) = torch.autograd.grad(found.sum(), dirty)
        assert not gradient[~rows].any(), shape
        assert not gradient.isnan().any(), shape
        for canonical in (False, True):
            mask = rows.unsqueeze(-1).expand(shape)
            value = operators.losses(form, dirty, s, numbers, one, mask, canonicalise=canonical).sum()
            (gradient,) = torch.autograd.grad(value, dirty, create_graph=True)
            (turned,) = torch.autograd.grad(gradient.sum(), dirty)
            assert not turned[~rows].any(), f"{shape}: a second derivative of a row that does not count"
            assert not turned.isnan().any(), shape


def check_signs(device: Any, sizes: dict[str, Any]) -> None:
    """A negative count of items turns losses and gradients around; negative weights are not a number."""
    from selmatch.torch import MatchingLoss

    with kernels_on(device):
        for potential in POTENTIALS:
            vector = not isinstance(potential, sm.Curve)
            quick, slow = (MatchingLoss(potential, kernels=kernels).to(device) for kernels in (True, False))
            for shape in sizes["shapes"]:
                s_hat, s = scores(shape, device)
                weights = torch.ones(shape[:-1] if vector else shape, device=device)
                weights[..., -1] = -1.0
                for options in (
                    {"num_items": torch.tensor(-3.0, device=device)},
                    {"weights": weights, "reduction": "sum"},
                    {"weights": weights, "reduction": "none"},
                ):
                    (one, turned), (other, expected) = (
                        (value.detach(), torch.autograd.grad(value.sum(), s_hat)[0])
                        for value in (loss(s_hat, s, **options) for loss in (quick, slow))
                    )
                    for found, wanted in ((one, other), (turned, expected)):
                        assert torch.equal(found.isnan(), wanted.isnan()), f"{potential!r} {shape} {list(options)}"
                        close(f"{potential!r} {shape} {list(options)}", found.nan_to_num(), wanted.nan_to_num(), 1e-4)


def check_modules(device: Any, sizes: dict[str, Any]) -> None:
    """The front end gives the same numbers with kernels and without."""
    from selmatch.torch import MatchingLoss

    with kernels_on(device):
        for potential in POTENTIALS:
            for shape in sizes["shapes"]:
                for dtype in (torch.float32, torch.bfloat16):
                    s_hat, s = scores(shape, device, dtype)
                    mask = torch.rand(shape, device=device) > 0.3
                    results = []
                    for kernels in (True, False):
                        loss = MatchingLoss(potential, kernels=kernels).to(device)
                        value = loss(s_hat, s, where=mask)
                        (gradient,) = torch.autograd.grad(3.0 * value, s_hat)
                        assert not gradient.requires_grad, "the gradient holds on to its graph"
                        results.append((value.detach(), gradient))
                    for one, other in zip(*results, strict=True):
                        close(f"{potential!r} {shape} {dtype}", one, other, 1e-4 if dtype == torch.float32 else 2e-2)


def check_compiled(device: Any, sizes: dict[str, Any]) -> None:
    """torch.compile takes the operators whole; other numbers are no reason to compile again."""
    from selmatch.torch import MatchingLoss, TopKTeacher

    with kernels_on(device):
        for potential, stored in ((POTENTIALS[0], False), (POTENTIALS[0], True), (POTENTIALS[1], False)):
            loss = MatchingLoss(potential, kernels=True).to(device)
            torch._dynamo.reset()
            compiled = torch.compile(loss, fullgraph=True, backend=sizes["compiler"])
            for alpha in (0.25, 0.3):
                part = loss.potential.scaling if hasattr(loss.potential, "scaling") else loss.potential
                part.alpha.fill_(alpha)
                s_hat, s = scores((4, 2000), device)
                teacher = TopKTeacher.from_scores(s, 20) if stored else s
                with torch._dynamo.config.patch(error_on_recompile=alpha != 0.25):
                    one = torch.autograd.grad(compiled(s_hat, teacher), s_hat)[0]
                other = torch.autograd.grad(loss(s_hat, teacher), s_hat)[0]
                close(f"{potential!r} stored {stored} compiled", one, other)
        torch._dynamo.reset()


def check_graphs(device: Any, sizes: dict[str, Any]) -> None:
    """Forward and backward in a CUDA graph, replayed on other scores."""
    if str(device) == "cpu":
        return
    from selmatch.torch import MatchingLoss

    for potential in POTENTIALS[:2]:
        loss = MatchingLoss(potential, kernels=True).to(device)
        s_hat, s = scores((64, 5000), device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                torch.autograd.grad(loss(s_hat, s), s_hat)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (found,) = torch.autograd.grad(loss(s_hat, s), s_hat)
        with torch.no_grad():
            s_hat.copy_(torch.randn_like(s_hat))
        graph.replay()
        torch.cuda.synchronize()
        close(f"{potential!r} replayed", found, torch.autograd.grad(loss(s_hat, s), s_hat)[0], 1e-6)


def check_no_synchronisation(device: Any, sizes: dict[str, Any]) -> None:
    """Nothing waits for the device."""
    if str(device) == "cpu":
        return
    from selmatch.torch import MatchingLoss

    for potential in POTENTIALS[:2]:
        loss = MatchingLoss(potential, kernels=True).to(device)
        s_hat, s = scores((64, 5000), device)
        torch.autograd.grad(loss(s_hat, s), s_hat)
        torch.cuda.set_sync_debug_mode("error")
        try:
            torch.autograd.grad(loss(s_hat, s), s_hat)
        finally:
            torch.cuda.set_sync_debug_mode("default")


CHECKS = [(name.removeprefix("check_"), function) for name, function in globals().items() if name.startswith("check_")]
