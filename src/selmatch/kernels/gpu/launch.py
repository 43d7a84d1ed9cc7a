"""Launching the kernels of a form on tensors: shapes, strides, tiles."""

from __future__ import annotations

from typing import NamedTuple

import torch

from selmatch.kernels.gpu import SHORT, forms

_WARP = 32


class Tiles(NamedTuple):
    """How long rows are cut; what was quickest on an H200."""

    warps: int
    #: tiles of a segment, each of one read of 16 bytes for every thread
    tiles: int
    #: programs of an earlier stage, for each processor, between two stages of one segment
    lag: int
    #: registers of a thread: fewer let more programs run side by side
    registers: int


def tiles_of(vector: int, canonical: bool) -> Tiles:
    """How long rows are cut, where a thread reads so many neighbouring scores."""
    if vector < 8:
        return Tiles(4, 8, 4, 56)
    return Tiles(4, 32, 4 if canonical else 8, 56)


class ShortTiles(NamedTuple):
    """How short rows are cut; what was quickest on an H200."""

    warps: int
    #: scores of a program, and those that are read once more together
    scores: int
    again: int
    #: registers of a thread
    registers: int


def short_tiles(columns: int, half: bool) -> ShortTiles:
    """How short rows are cut: programs of one warp wait for nobody, but only so many start in a microsecond."""
    if columns > 256:
        return ShortTiles(columns // 256, columns, columns, 64)
    return ShortTiles(1, 512, 64, 80) if half else ShortTiles(1, 256, 64, 56)


class Segments(NamedTuple):
    """Rows cut into segments, and the work on these into programs that start in order."""

    programs: int
    lag: int
    #: what kernels are compiled with
    options: dict[str, int]


def segments_of(s_hat: torch.Tensor, cut: Tiles, vector: int, stages: int, anchored: bool) -> Segments:
    """The segments of rows of scores for a kernel of so many stages; an anchor takes a place among them."""
    count, classes = s_hat.shape
    threads = cut.warps * _WARP
    tile = threads * vector
    tiles = min(cut.tiles, power_of_2(ceiling(classes, tile)))
    segments = ceiling(classes, tiles * tile)
    lag = ceiling(cut.lag * _processors(s_hat), segments) * segments
    options = {
        "SEGMENTS": segments, "SLOTS": power_of_2(segments + anchored), "TILES": tiles, "T": threads,
        "V": vector, "num_warps": cut.warps, "maxnreg": cut.registers, "enable_fp_fusion": True,
    }  # fmt: skip
    return Segments(stages * count * segments + stages * (stages - 1) * lag, lag, options)


def room_for_statistics(s_hat: torch.Tensor, segments: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sixteen numbers of each segment, and how many programs of each row have ended."""
    parts = torch.empty(len(s_hat) * segments * 16, dtype=torch.float32, device=s_hat.device)
    return parts, torch.zeros(len(s_hat), dtype=torch.int32, device=s_hat.device)


def flat(z: torch.Tensor) -> torch.Tensor:
    """Scores as rows with neighbouring classes side by side; a view where that is possible."""
    z = z.reshape(-1, z.shape[-1])
    return z if z.stride(1) == 1 or z.shape[1] == 1 else z.contiguous()


def ceiling(a: int, b: int) -> int:
    """a / b, rounded up; Triton's own function takes microseconds."""
    return -(-a // b)


def power_of_2(n: int) -> int:
    """The smallest power of 2 that is not below n."""
    return 1 << (n - 1).bit_length()


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
        columns, vector = power_of_2(classes), _vector(s_hat, s)
        cut = short_tiles(columns, vector == 8)
        block = max(1, cut.scores // columns)
        pieces = max(1, min(cut.scores // (_WARP * cut.warps), columns) // vector)
        pairs = (classes | strides[0] | strides[1]) % 2 == 0 and (s_hat.data_ptr() | s.data_ptr()) % 4 == 0
        module.short_rows[(ceiling(count, block),)](
            *tensors, count, *strides, scale_stride,
            CLASSES=classes, ZERO_IS_HARMLESS=form["zero"], **options, SCALE_EACH=scale_stride != 0, PAIRED=pairs,
            ROWS=block, FEW=max(1, min(block, cut.again // columns)), PIECES=pieces, WIDTH=columns // pieces,
            num_warps=cut.warps, maxnreg=cut.registers, enable_fp_fusion=True,
        )  # fmt: skip
        return losses
    vector = _vector(s_hat, s)
    cut = segments_of(s_hat, tiles_of(vector, canonical), vector, 3 if canonical else 2, form["anchor"] >= 0)
    module.long_rows[(cut.programs,)](
        *tensors, *room_for_statistics(s_hat, cut.options["SEGMENTS"]),
        count, classes, *strides, scale_stride, cut.lag, **options, **cut.options,
    )  # fmt: skip
    return losses


def _processors(z: torch.Tensor) -> int:
    return torch.cuda.get_device_properties(z.device).multi_processor_count if z.is_cuda else 1
