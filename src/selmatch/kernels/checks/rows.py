"""Checks of the kernels for rows of scores, against the losses of the library in double precision."""

from __future__ import annotations

import functools
from typing import Any

import torch

import selmatch as sm
from selmatch.kernels.gpu import emission, forms, launch

#: numbers of classes with rows of each; classes for the options; and rows beyond what 32 bits can count
SIZES: dict[str, dict[str, Any]] = {
    "interpreter": {"classes": {2: 5, 17: 3, 1500: 2}, "options": (3, 130, 1500), "huge": None},
    "gpu": {
        "classes": {2: 301, 3: 300, 17: 77, 128: 65, 1000: 33, 32000: 9, 128256: 5},
        "options": (3, 130, 1500, 32000),
        "huge": (16800, 128256),
    },
}
#: what must be met: relative to the links at both ends, and relative to the loss
GRADIENT, VALUE = 1e-5, 1e-4

SCALINGS = [
    sm.Constant(), sm.Identity(), sm.Exp(), sm.AntiExp(), sm.Sinh(), sm.Sigmoid(), sm.Tanh(), sm.Arctan(), sm.Arcsinh(),
    sm.SignedLog(), sm.SmeLU(c=1.0), sm.Huber(), sm.ReLU(), sm.SignedPower(3.0), sm.Power(1.5).capped(low=0.0),
    sm.Polynomial((0.0, 1.0, 0.0, 0.25)), sm.Step(), sm.Sign(), sm.Staircase((-1.0, 1.0), (1.0, 2.0)),
    sm.Sinh().affine(alpha=0.5, beta=-1.0, gain=0.5), sm.Exp().affine(alpha=0.5, beta=1.0),
    sm.Sigmoid() + 0.5 * sm.Exp().affine(alpha=0.5), sm.Sinh().capped(-1.5, 2.0),
    sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0)), sm.parse("z + 0.1*sinh(2*z)"),
]  # fmt: skip


def potential_of(scaling: sm.Curve, classes: int = 0, **options: Any) -> sm.CompositeSoftmax:
    rho = tuple(0.5 + (k % 5) / 2.0 for k in range(classes)) if classes else None
    return sm.CompositeSoftmax(scaling, rho=rho, **options)


def pair(
    rows: int, classes: int, device: Any, move: float, deviation: float = 1.5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Predicted and observed scores, fresh in every call."""
    s = deviation * torch.randn(rows, classes, device=device)
    return s + move * torch.randn(rows, classes, device=device), s


def numbers_of(potential: Any, device: Any) -> torch.Tensor:
    return torch.tensor(list(emission.parameters(potential)) or [0.0], dtype=torch.float32, device=device)


def run(potential: Any, s_hat: torch.Tensor, s: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and gradient of the kernel, which must write every number."""
    scale = options.get("scale")
    gradient = s_hat if options.get("in_place") else torch.full_like(s_hat, torch.nan)
    losses = launch.rows(
        forms.key_of(potential),
        s_hat,
        s,
        numbers_of(potential, s.device),
        torch.ones(1, device=s.device) if scale is None else scale,
        options.get("present"),
        gradient,
        options.get("canonical", False),
    )
    return losses, gradient


def log_probabilities(z: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
    return (z if present is None else z.masked_fill(~present, -1e30)).log_softmax(-1)


def through_log_probabilities(slopes: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """The gradient with respect to scores whose log-probabilities z have these slopes."""
    return slopes - z.exp() * slopes.sum(-1, keepdim=True)


def assert_near(
    what: str, found: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor, **near: torch.Tensor
) -> None:
    """Compare gradients, and tell where the worst one is."""
    ratio = (found.double() - expected).abs() / allowed
    place = divmod(int(ratio.nan_to_num(torch.inf).argmax()), ratio.shape[1])
    there = ", ".join(f"{name} {z[place].item():.9g}" for name, z in near.items())
    assert ratio[place] <= 1.0, (
        f"{what}: the gradient {found[place].item():.9g} of row and class {place} must be "
        f"{expected[place].item():.9g}, and is off by {ratio[place].item():.3g} times what is allowed; {there}"
    )


def assert_right(what: str, potential: Any, s_hat: torch.Tensor, s: torch.Tensor, found: Any, **options: Any) -> None:
    """Compare losses and gradient with the loss in double precision."""
    present, scale, canonical = options.get("present"), options.get("scale"), options.get("canonical", False)
    losses, gradient = found
    factor = torch.ones((), device=s.device) if scale is None else scale
    with torch.no_grad():
        a, b = s_hat.double(), s.double()
        if canonical:
            a, b = log_probabilities(a, present), log_probabilities(b, present)
        expected, slopes = potential.remainder_and_difference(b, a - b, a, present)
        slopes = through_log_probabilities(slopes, a) if canonical else slopes
        slopes = slopes * factor.double().reshape(-1, 1)
        size = potential.link(a, where=present).abs() + potential.link(b, where=present).abs()
        if canonical:
            size = size + a.exp() * size.sum(-1, keepdim=True)
        there = torch.ones_like(a, dtype=torch.bool) if present is None else present
        steep = torch.where(there, potential.logits(a).abs().maximum(potential.logits(b).abs()), 0.0).amax(-1)
        steep = (steep / 10.0).clamp(min=1.0)
        allowed = GRADIENT * steep.unsqueeze(-1) * size * factor.double().abs().reshape(-1, 1)
        if gradient.dtype != torch.float32:
            limits = torch.finfo(gradient.dtype)
            # Triton's interpreter cuts digits off
            allowed = allowed + slopes.abs() * limits.eps * (0.5 if gradient.is_cuda else 1.0) + limits.smallest_normal
        assert_near(what, gradient, slopes, allowed + 1e-35, scores=a, observed=b)
        wrong = (losses.double() - expected * factor).abs()
        # far from 0 a loss is a difference of log-scores, with the error of a gradient; close to it, it is what their
        # moves have beyond that of the level: both are rounded at the size of what is subtracted
        far = GRADIENT * (2.0 if canonical else 1.0) * steep * potential.gamma * (expected > 1e-3 * potential.gamma)
        moves = torch.where(there, potential.logits(a) - potential.logits(b), 0.0).abs().amax(-1).clamp(max=1.0)
        allowed = (
            VALUE * expected.abs() + far + 1e-6 * potential.gamma * moves.square() + 1e-12 * steep.square()
        ) * factor.abs()
        worst = (wrong / (allowed + 1e-35)).max().item()
        assert worst <= 1.0, f"{what}: a loss is off by {worst:.3g} times what is allowed ({wrong.max().item():.3g})"


def check(potential: Any, rows: int, classes: int, device: Any, dtypes: Any, move: float, **options: Any) -> None:
    s_hat, s = pair(rows, classes, device, move)
    s_hat, s = s_hat.to(dtypes[0]), s.to(dtypes[1])
    found = run(potential, s_hat.clone() if options.get("in_place") else s_hat, s, **options)
    what = f"{potential!r:.90} {rows} x {classes} {dtypes[0]} {dtypes[1]} move {move} {sorted(options)}"
    assert_right(what, potential, s_hat, s, found, **options)


def check_scaling(device: Any, sizes: dict[str, Any], scaling: sm.Curve) -> None:
    """Fresh random and converged scores, few classes to many, in single and half precision."""
    for classes, rows in sizes["classes"].items():
        for dtype in (torch.float32, torch.bfloat16):
            for move in (0.5, 1e-3):
                check(potential_of(scaling), rows, classes, device, (dtype, dtype), move)


def check_precisions(device: Any, sizes: dict[str, Any]) -> None:
    """Every mix of precisions."""
    half = (torch.float32, torch.bfloat16, torch.float16)
    for classes in sizes["options"]:
        for a in half:
            for b in half:
                check(potential_of(sm.Sinh()), 4, classes, device, (a, b), 0.5)


def check_options(device: Any, sizes: dict[str, Any]) -> None:
    """Log-probabilities, masks, scales, priors and anchors, alone and together."""
    single = (torch.float32, torch.float32)
    for classes in sizes["options"]:
        mask = torch.rand(4, classes, device=device) > 0.3
        mask[:, 0] = True
        scale = torch.tensor([1.0, 0.0, -0.5, 2.0], device=device)
        plain = potential_of(sm.Sinh().affine(alpha=0.7), gamma=0.8)
        rich = potential_of(sm.Exp().affine(alpha=0.5), classes, gamma=1.5, anchor=0.5)
        for potential in (plain, rich):
            for options in (
                {"canonical": True},
                {"present": mask},
                {"scale": scale},
                {"present": mask, "canonical": True, "scale": scale},
                {"in_place": True, "scale": scale},
            ):
                check(potential, 4, classes, device, single, 0.5, **options)
                check(potential, 4, classes, device, (torch.bfloat16,) * 2, 0.5, **options)


def check_strides(device: Any, sizes: dict[str, Any]) -> None:
    """Rows that are apart, that start anywhere, and that are every second one."""
    for classes in sizes["options"]:
        for dtype in (torch.float32, torch.bfloat16):
            wide = [1.5 * torch.randn(8, classes + 13, device=device).to(dtype) for _ in range(2)]
            for s_hat, s in (
                (wide[0][:, 5 : classes + 5], wide[1][:, :classes]),
                (wide[0][::2, :classes], wide[1][1::2, 3 : classes + 3]),
            ):
                potential = potential_of(sm.Exp())
                target = torch.full((len(s_hat), classes + 7), torch.nan, device=device, dtype=dtype)[:, :classes]
                losses = launch.rows(
                    forms.key_of(potential), s_hat, s, numbers_of(potential, device), torch.ones(1, device=device),
                    None, target, False,
                )  # fmt: skip
                assert_right(f"strides {classes} {dtype}", potential, s_hat, s, (losses, target))


def check_unwanted_scores(device: Any, sizes: dict[str, Any]) -> None:
    """What is masked, or has the scale 0, may hold anything."""
    for classes in sizes["options"]:
        potential = potential_of(sm.Sinh())
        s_hat, s = pair(3, classes, device, 0.5)
        mask = torch.ones(3, classes, dtype=torch.bool, device=device)
        mask[0, 1] = False
        scale = torch.tensor([1.0, 1.0, 0.0], device=device)
        clean = run(potential, s_hat, s, present=mask, scale=scale)
        s_hat, s = s_hat.clone(), s.clone()
        s_hat[0, 1], s[0, 1], s_hat[2], s[2] = torch.nan, torch.inf, torch.nan, -torch.inf
        found = run(potential, s_hat, s, present=mask, scale=scale)
        for one, other in zip(clean, found, strict=True):
            assert torch.equal(one, other), f"{classes} classes: unwanted scores were looked at"
        none = run(potential, s_hat, s, present=torch.zeros_like(mask))
        assert not none[0].any(), f"{classes} classes: rows without any class have a loss"
        assert not none[1].any(), f"{classes} classes: rows without any class have a gradient"


def check_not_a_number(device: Any, sizes: dict[str, Any]) -> None:
    """NaN is not hidden, and stays in its row."""
    for classes in sizes["options"]:
        s_hat, s = pair(3, classes, device, 0.5)
        s_hat[1, classes // 2] = torch.nan
        losses, gradient = run(potential_of(sm.Exp()), s_hat, s)
        assert losses.isnan().tolist() == [False, True, False], losses
        assert gradient.isnan().all(-1).tolist() == [False, True, False], gradient
        assert not gradient[[0, 2]].isnan().any(), gradient


def check_repetition(device: Any, sizes: dict[str, Any]) -> None:
    """The same numbers every time, with and without gradient."""
    for classes in sizes["options"]:
        for canonical in (False, True):
            potential, (s_hat, s) = potential_of(sm.Sinh()), pair(64 if device != "cpu" else 3, classes, device, 0.5)
            first = run(potential, s_hat, s, canonical=canonical)
            for _ in range(3 if device != "cpu" else 1):
                again = run(potential, s_hat, s, canonical=canonical)
                assert torch.equal(first[0], again[0]), f"{classes} classes: losses differ from run to run"
                assert torch.equal(first[1], again[1]), f"{classes} classes: gradients differ from run to run"
            only = launch.rows(
                forms.key_of(potential), s_hat, s, numbers_of(potential, device), torch.ones(1, device=device), None,
                None, canonical,
            )  # fmt: skip
            assert torch.equal(first[0], only), f"{classes} classes: losses differ without the gradient"


def check_more_than_32_bits_can_count(device: Any, sizes: dict[str, Any]) -> None:
    """The last rows of more than 2^31 scores."""
    if sizes["huge"] is None:
        return
    rows, classes = sizes["huge"]
    potential = potential_of(sm.Exp())
    s_hat = torch.empty(rows, classes, device=device, dtype=torch.bfloat16).normal_()
    s = torch.empty_like(s_hat).normal_()
    losses, gradient = run(potential, s_hat, s)
    for some in (slice(0, 3), slice(rows - 3, rows)):
        assert_right("more than 2^31", potential, s_hat[some], s[some], (losses[some], gradient[some]))
    assert not losses.isnan().any()


CHECKS = [
    *((f"rows {scaling!r}", functools.partial(check_scaling, scaling=scaling)) for scaling in SCALINGS),
    ("rows precisions", check_precisions),
    ("rows options", check_options),
    ("rows strides", check_strides),
    ("rows unwanted scores", check_unwanted_scores),
    ("rows not a number", check_not_a_number),
    ("rows repetition", check_repetition),
    ("rows more than 2^31", check_more_than_32_bits_can_count),
]
