"""Checks of the kernel for scores one by one, against the losses of the library in double precision."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import torch

import selmatch as sm
from selmatch.kernels.checks.links import LINKS
from selmatch.kernels.emit import NotCompilable
from selmatch.kernels.gpu import emission, forms, launch_elementwise

#: how many scores: for every link, with every option, and (one tensor alone) beyond what 32 bits can count
SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {"link": 300, "options": (1, 1023, 9217), "huge": None},
    "gpu": {"link": 100_003, "options": (1, 1023, 9217, 1 << 20, (1 << 22) + 5), "huge": (1 << 31) + 4099},
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
#: all combinations
every: Any = itertools.product
#: the largest relative error of a loss; of a gradient, relative to the link at both ends
VALUE = 2e-5
GRADIENT = 1e-5


class Found(NamedTuple):
    """Losses and gradients, of the kernel or as they should be."""

    losses: torch.Tensor
    gradient: torch.Tensor


def compiled() -> list[sm.Curve]:
    """The links that have a kernel."""
    links = []
    for link in LINKS:
        try:
            forms.key_of(link)
        except NotCompilable:
            continue
        links.append(link)
    return links


def scores_of(
    link: sm.Curve, count: int, device: Any, dtypes: tuple[torch.dtype, torch.dtype], move: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Predicted and observed scores inside the domain, independent or a small move apart."""
    generator = torch.Generator(device).manual_seed(count)
    low, high = link.window()
    margin = 0.05 * (high - low)

    def uniform() -> torch.Tensor:
        where = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
        return low + margin + (high - low - 2.0 * margin) * where

    s = uniform().to(dtypes[1])
    s_hat = uniform() if move is None else s.double() + move * torch.sign(uniform() - 0.5 * (low + high))
    return s_hat.to(dtypes[0]), s


def run(
    link: sm.Curve,
    s_hat: torch.Tensor,
    s: torch.Tensor,
    scale: torch.Tensor | None = None,
    present: torch.Tensor | None = None,
    in_place: bool = False,
) -> Found:
    numbers = torch.tensor(list(emission.parameters(link)), dtype=torch.float32, device=s.device)
    scale = torch.ones(1, device=s.device) if scale is None else scale
    s_hat = s_hat.clone() if in_place else s_hat
    gradient = s_hat if in_place else torch.full_like(s_hat, float("nan"))
    losses = launch_elementwise.scores(forms.key_of(link), s_hat, s, numbers, scale, present, gradient, False)
    return Found(losses, gradient)


def total(link: sm.Curve, s_hat: torch.Tensor, s: torch.Tensor, **options: Any) -> torch.Tensor:
    numbers = torch.tensor(list(emission.parameters(link)), dtype=torch.float32, device=s.device)
    scale = options.get("scale", torch.ones(1, device=s.device))
    return launch_elementwise.scores(
        forms.key_of(link), s_hat, s, numbers, scale, options.get("present"), options.get("gradient"), True
    )


def assert_right(
    what: str,
    found: Found,
    link: sm.Curve,
    s_hat: torch.Tensor,
    s: torch.Tensor,
    scale: torch.Tensor | None = None,
    present: torch.Tensor | None = None,
) -> None:
    """Compare with the loss in double precision; where scores are not wanted, with 0."""
    wanted = torch.ones_like(s, dtype=torch.bool) if present is None else present
    factor = torch.ones_like(s, dtype=torch.float64) if scale is None else scale.double().expand(s.shape)
    wanted = wanted & (factor != 0.0)
    x, y = (torch.where(wanted, z.double(), link.point()) for z in (s_hat, s))
    loss = sm.MatchingLoss(link, check=False)
    losses, gradient = loss(x, y, reduction="none") * factor, loss.grad(x, y) * factor
    losses, gradient = (torch.where(wanted, z, 0.0) for z in (losses, gradient))
    size = torch.where(wanted, (link(x).abs() + link(y).abs()) * factor.abs(), 0.0)
    _assert_within(f"{what}: losses", found.losses, losses, VALUE * losses.abs())
    rounding = 0.0
    if found.gradient.dtype != torch.float32:
        limits = torch.finfo(found.gradient.dtype)
        ulp = 0.5 if found.gradient.is_cuda else 1.0  # Triton's interpreter cuts digits off
        rounding = ulp * limits.eps * gradient.abs() + limits.tiny * limits.eps
    _assert_within(f"{what}: gradient", found.gradient, gradient, GRADIENT * size + rounding)


def _assert_within(what: str, found: torch.Tensor, expected: torch.Tensor, tolerance: torch.Tensor) -> None:
    error = (found.double() - expected).abs()
    bad = ~((error <= tolerance + 1e-37) | (found == expected))
    if bool(bad.any()):
        i = int(torch.where(bad, error / (tolerance + 1e-37), 0.0).nan_to_num(torch.inf).argmax())
        raise AssertionError(
            f"{what}: {int(bad.sum())} of {bad.numel()} wrong; number {i} is {found[i].item()!r} instead of "
            f"{expected[i].item()!r}, tolerance {tolerance[i].item():.2g}"
        )


def check_every_link(device: Any, sizes: dict[str, Any]) -> None:
    """Losses and gradients of all links, far from the minimum and close to it."""
    single = (torch.float32, torch.float32)
    for link, move in every(compiled(), (None, 1e-3)):
        s_hat, s = scores_of(link, sizes["link"], device, single, move)
        assert_right(f"{link!r}, move {move}", run(link, s_hat, s), link, s_hat, s)


def check_all_precisions(device: Any, sizes: dict[str, Any]) -> None:
    for link in (sm.Sigmoid().affine(alpha=0.7, beta=0.5), sm.Sinh(), sm.Huber()):
        for dtypes in every(DTYPES, repeat=2):
            s_hat, s = scores_of(link, sizes["link"], device, dtypes)
            found = run(link, s_hat, s)
            assert found.gradient.dtype == dtypes[0], found.gradient.dtype
            assert_right(f"{link!r}, {dtypes}", found, link, s_hat, s)


def check_masks_and_scales(device: Any, sizes: dict[str, Any]) -> None:
    """Whatever is masked or has the scale 0 is 0, also where scores are NaN or outside of the domain."""
    for link, count in [(sm.Log(), 1023), *every([sm.Sigmoid()], sizes["options"])]:
        for dtype, each, masked, in_place in every(DTYPES[:2], *3 * [(False, True)]):
            generator = torch.Generator(device).manual_seed(1)
            s_hat, s = scores_of(link, count, device, (dtype, dtype))
            draw = torch.rand(count, generator=generator, device=device)
            present = draw > 0.3 if masked else None
            scale = torch.where(draw > 0.8, 0.0, 0.5 + draw) if each else torch.full((1,), 0.25, device=device)
            gone = (draw <= 0.3) & masked | (draw > 0.8) & each
            s_hat = torch.where(gone, float("nan"), s_hat)
            s = torch.where(gone, -1e4, s)
            found = run(link, s_hat, s, scale, present, in_place)
            what = f"{link!r}, {count} scores, {dtype}, scales {each}, mask {masked}, in place {in_place}"
            assert_right(what, found, link, s_hat, s, scale, present)


def check_scale_zero(device: Any, sizes: dict[str, Any]) -> None:
    for count in sizes["options"]:
        z = torch.full((count,), float("nan"), device=device)
        found = run(sm.Exp(), z, z, torch.zeros((), device=device))
        assert bool((found.losses == 0.0).all()), found.losses
        assert bool((found.gradient == 0.0).all()), found.gradient
        assert total(sm.Exp(), z, z, scale=torch.zeros((), device=device)).item() == 0.0


def check_sums(device: Any, sizes: dict[str, Any]) -> None:
    """Sums are those of the losses, with and without gradient, and the same every time."""
    for link, count, dtype in every((sm.Sigmoid(), sm.Sinh()), sizes["options"], DTYPES[:2]):
        s_hat, s = scores_of(link, count, device, (dtype, torch.float32))
        found = run(link, s_hat, s)
        gradient = torch.empty_like(s_hat)
        sums = [total(link, s_hat, s, gradient=g) for g in (None, gradient, gradient)]
        expected = found.losses.double().sum().item()
        assert all(one.shape == () and one.dtype == torch.float32 for one in sums), sums
        assert sums[1].item() == sums[2].item(), sums
        for one in sums[:2]:
            assert abs(one.item() - expected) <= 1e-6 * abs(expected), (link, count, dtype, one.item(), expected)
        # the compiler may fuse other operations where losses are summed
        size = link(s_hat.double()).abs() + link(s.double()).abs()
        limits = torch.finfo(dtype)
        tolerance = limits.eps * found.gradient.double().abs() + 1e-6 * size + limits.tiny
        _assert_within(f"{link!r}, {count} {dtype}: gradient", gradient, found.gradient.double(), tolerance)


def check_not_a_number(device: Any, sizes: dict[str, Any]) -> None:
    """NaN, and scores outside of the domain, are not hidden."""
    s_hat = torch.tensor([float("nan"), 1.0, 1.0, -1.0, 1.0], device=device)
    s = torch.tensor([1.0, float("nan"), 1.0, 1.0, -1.0], device=device)
    for link, count in ((sm.Log(), 4), (sm.Sigmoid(), 2), (sm.Sinh(), 2)):
        found = run(link, s_hat, s)
        for values in found:
            assert int(values.isnan().sum()) == count, (link, values)
        assert total(link, s_hat, s).isnan().item(), link


def check_far_scores(device: Any, sizes: dict[str, Any]) -> None:
    """Moves across all of the range, where exponentials overflow or vanish."""
    ends = [-1e30, -300.0, -60.0, -10.0, -1.0, -0.0, 0.001, 0.5, 2.0, 30.0, 85.0, 1e30]
    pairs = [(a, b) for a, b in every(ends, repeat=2) if a == b or abs(a - b) < 1e29 or abs(b) < 50.0]
    s_hat, s = (torch.tensor(z, device=device) for z in zip(*pairs, strict=True))
    assert_right("far scores", run(sm.Sigmoid(), s_hat, s), sm.Sigmoid(), s_hat, s)


def check_scores_too_large(device: Any, sizes: dict[str, Any]) -> None:
    """Losses that are too large for single precision are infinite, and so are their gradients, with the right sign."""
    ends = [-100.0, -97.0, -96.0, -88.0, 0.0, 88.0, 96.0, 97.0, 100.0]
    s_hat, s = (torch.tensor(z, device=device) for z in zip(*every(ends, repeat=2), strict=True))
    for link in (sm.Exp(), sm.AntiExp(), sm.Sinh(), sm.Exp() + sm.Identity()):
        with np.errstate(all="ignore"):  # Triton's interpreter warns
            losses, gradient = run(link, s_hat, s)[:2]
        exact = link.difference(s.double(), (s_hat - s).double(), s_hat.double()).float()
        assert (losses >= 0).all(), link
        assert torch.equal(torch.isinf(gradient), torch.isinf(exact)), link
        normal = exact.abs() >= torch.finfo(torch.float32).tiny  # smaller ones may be flushed to 0
        assert torch.equal(torch.sign(gradient[normal]), torch.sign(exact[normal])), link
        assert ((gradient[~normal] == 0.0) | (gradient[~normal].sign() == exact[~normal].sign())).all(), link


def check_few_scores(device: Any, sizes: dict[str, Any]) -> None:
    z = torch.zeros(0, device=device)
    assert run(sm.Exp(), z, z).losses.shape == (0,)
    assert total(sm.Exp(), z, z).item() == 0.0


def check_views(device: Any, sizes: dict[str, Any]) -> None:
    """Scores that do not start at a multiple of 16 bytes, and in more than one dimension."""
    for dtype in DTYPES:
        s_hat, s = scores_of(sm.Sinh(), 9220, device, (dtype, dtype))
        assert_right(f"{dtype}, later", run(sm.Sinh(), s_hat[1:], s[1:]), sm.Sinh(), s_hat[1:], s[1:])
        whole, table = run(sm.Sinh(), s_hat, s), run(sm.Sinh(), s_hat.reshape(4, 2305), s.reshape(4, 2305))
        assert torch.equal(table.losses.flatten(), whole.losses), dtype
        assert torch.equal(table.gradient.flatten(), whole.gradient), dtype


def check_more_than_32_bits_can_count(device: Any, sizes: dict[str, Any]) -> None:
    count = sizes["huge"]
    if count is None:
        return
    s = torch.zeros(count, dtype=torch.bfloat16, device=device)
    s[-5:] = torch.arange(5.0, device=device)
    gradient = torch.ones_like(s)
    one = total(sm.Identity(), s, torch.zeros_like(s), gradient=gradient)
    assert one.item() == 15.0, one
    assert gradient[-5:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0], gradient[-5:]
    assert bool((gradient[:-5] == 0.0).all())


CHECKS = [(name.removeprefix("check_"), function) for name, function in globals().items() if name.startswith("check_")]
