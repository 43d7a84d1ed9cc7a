"""Launching the kernel for scores one by one on tensors."""

from __future__ import annotations

import torch

from selmatch.kernels.gpu import forms, launch

#: what works best on an H200: one read of 16 bytes for each thread of a small program, a few times
_WARPS = 4
_THREADS = 32 * _WARPS
_TILES = 16
#: registers of a thread: fewer let more programs run side by side
_REGISTERS = 48


def scores(
    key: str,
    s_hat: torch.Tensor,
    s: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    present: torch.Tensor | None,
    gradient: torch.Tensor | None,
    reduce: bool,
) -> torch.Tensor:
    """Losses times their scale, or the sum of these; the gradient is written to ``gradient``, which may be s_hat.

    Where the scale is 0, or a score is not present, loss and gradient are 0, whatever the scores are.

    Parameters
    ----------
    s_hat, s, gradient : tensor
        Scores of one shape, contiguous.
    scale : tensor
        One number, or one for each score (contiguous), in float32.
    present : tensor, optional
        A boolean for each score, contiguous.
    reduce : bool
        Whether to return the sum, in the same order every time.
    """
    count = s_hat.numel()
    each = scale.numel() > 1
    vector = 16 // max(s_hat.element_size(), s.element_size())
    tile = _THREADS * vector
    programs = launch.ceiling(count, _TILES * tile)
    losses = torch.empty(programs if reduce else s_hat.shape, dtype=torch.float32, device=s_hat.device)
    if count:
        forms.module_of(key).scored[(programs,)](
            s_hat, s, losses if gradient is None else gradient, losses, scale, numbers,
            numbers if present is None else present.view(torch.uint8), count,
            HAS_MASK=present is not None, SCALE_EACH=each, REDUCE=reduce, WITH_GRADIENT=gradient is not None,
            PAIRED=(s_hat.data_ptr() | s.data_ptr()) % 4 == 0, TILES=_TILES, TILE=tile, VECTOR=vector,
            num_warps=_WARPS, maxnreg=_REGISTERS, enable_fp_fusion=True,
        )  # fmt: skip
    return losses.sum() if reduce else losses
