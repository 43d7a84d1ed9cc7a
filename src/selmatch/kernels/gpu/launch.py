"""Launching the kernels of a form on tensors: shapes, strides, tiles."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton

from selmatch.kernels.gpu import forms

#: up to so many classes a program holds whole rows
SHORT = 1024
_WARP = 32


class Tiles(NamedTuple):
    """How work is cut; what was quickest on an H200."""

    #: warps of a program, tiles of a segment (or scores of a program, for short rows), repetitions in a tile
    warps: int
    tiles: int
    repeat: int
    #: programs of an earlier stage, for each processor, between two stages of one segment
    lag: int
    unroll: int
    #: registers of a thread, if that is to be limited
    registers: int | None = None


def tiles_of(vector: int, canonical: bool) -> Tiles:
    """How long rows are cut; fewer registers let more programs run side by side."""
    if vector < 8:
        return Tiles(4, 8, 1, 4, 1, 56)
    return Tiles(4, 32, 1, 4 if canonical else 8, 1, 56)


def short_tiles(columns: int) -> Tiles:
    """How short rows are cut: a limit of registers would spill."""
    return Tiles(4, max(1024, columns), 1, 0, 1)


def flat(z: torch.Tensor) -> torch.Tensor:
    """Scores as rows with neighbouring classes side by side; a view where that is possible."""
    z = z.reshape(-1, z.shape[-1])
    return z if z.stride(1) == 1 or z.shape[1] == 1 else z.contiguous()


def _vector(*tensors: torch.Tensor) -> int:
    """Neighbouring scores that one thread reads: 16 bytes."""
    return 16 // max(z.element_size() for z in tensors)


def rows(
    key: str,
    s_hat: torch.Tensor,
    s: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    gradient: torch.Tensor | None,
    canonical: bool,
) -> torch.Tensor:
    """Losses of rows times their scale; the gradient is written to ``gradient``, which may be s_hat itself.

    Parameters
    ----------
    s_hat, s, gradient : tensor
        Rows of scores with stride 1.
    scale : tensor
        One number, or one for each row.
    present : tensor, optional
        Rows of booleans.
    """
    module = forms.module_of(key)
    form = module.FORM
    count, classes = s_hat.shape
    if form["classes"] not in (0, classes) or numbers.numel() < form["numbers"]:
        raise ValueError(
            f"selmatch.kernels: scores must have {form['classes']} classes (as rho) and {form['numbers']} parameters, "
            f"got {classes} and {numbers.numel()}."
        )
    losses = torch.empty(count, dtype=torch.float32, device=s_hat.device)
    if count == 0:
        return losses
    prior = numbers[form["prior"] : form["prior"] + classes].log() if form["classes"] else numbers
    mask = numbers if present is None else present.view(torch.uint8)
    options = {
        "GAMMA": form["gamma"],
        "ANCHOR": form["anchor"],
        "HAS_MASK": present is not None,
        "HAS_PRIOR": form["classes"] > 0,
        "CANONICAL": canonical,
        "WITH_GRADIENT": gradient is not None,
    }
    written = losses if gradient is None else gradient
    strides = (s_hat.stride(0), s.stride(0), written.stride(0), 0 if present is None else present.stride(0))
    scale_stride = scale.stride(0) if scale.numel() > 1 else 0
    tensors = (s_hat, s, written, losses, scale, numbers, mask, prior)
    if classes <= SHORT:
        columns = triton.next_power_of_2(classes)
        cut = short_tiles(columns)
        block = cut.tiles // columns
        limit = {} if cut.registers is None else {"maxnreg": cut.registers}
        module.short_rows[(triton.cdiv(count, block),)](
            *tensors, count, *strides, scale_stride,
            CLASSES=classes, ZERO_IS_HARMLESS=form["zero"], **options, ROWS=block, COLUMNS=columns,
            num_warps=cut.warps, enable_fp_fusion=True, **limit,
        )  # fmt: skip
        return losses
    vector = _vector(s_hat, s)
    cut = tiles_of(vector, canonical)
    threads = cut.warps * _WARP
    tile = cut.repeat * threads * vector
    tiles = min(cut.tiles, triton.next_power_of_2(triton.cdiv(classes, tile)))
    segments = triton.cdiv(classes, tiles * tile)
    lag = triton.cdiv(cut.lag * _processors(s_hat), segments) * segments
    stages = 3 if canonical else 2
    parts = torch.empty(count * segments * 16, dtype=torch.float32, device=s_hat.device)
    ready = torch.zeros(count, dtype=torch.int32, device=s_hat.device)
    limit = {} if cut.registers is None else {"maxnreg": cut.registers}
    module.long_rows[(stages * count * segments + stages * (stages - 1) * lag,)](
        *tensors, parts, ready, count, classes, *strides, scale_stride, lag,
        **options, SEGMENTS=segments, SLOTS=triton.next_power_of_2(segments + (form["anchor"] >= 0)),
        TILES=tiles, R=cut.repeat, T=threads, V=vector, UNROLL=cut.unroll,
        num_warps=cut.warps, enable_fp_fusion=True, **limit,
    )  # fmt: skip
    return losses


def _processors(z: torch.Tensor) -> int:
    return torch.cuda.get_device_properties(z.device).multi_processor_count if z.is_cuda else 1


def multiply(gradient: torch.Tensor, factor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """A gradient times a factor: one number, one for each row (the last axis), or one for each entry.

    The factor is read on the device; where it is 1, in place, nothing else happens.
    """
    from selmatch.kernels.gpu import multiplying

    if gradient.numel() == 0:
        return out
    in_place = out.data_ptr() == gradient.data_ptr()
    if factor.numel() == 1 or (factor.ndim > 0 and all(step == 0 for step in factor.stride())):
        width, count, stride = gradient.numel(), 1, 0
    elif factor.ndim == gradient.ndim:
        width, count, stride = 1, gradient.numel(), 1
        factor = factor.contiguous()
    else:
        width = gradient.shape[-1]
        count, stride = gradient.numel() // width, 1
        factor = factor.reshape(-1)
        stride = factor.stride(0)
    multiplying.launch(gradient, factor.float(), out, count, width, stride, in_place)
    return out
