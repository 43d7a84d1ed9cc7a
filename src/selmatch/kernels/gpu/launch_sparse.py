"""Launching the kernel for teachers of which a few classes are stored."""

from __future__ import annotations

import torch
import triton

from selmatch.kernels.gpu import forms, launch


def tiles_of(classes: int, vector: int) -> launch.Tiles:
    """How rows are cut."""
    return launch.Tiles(4, 32, 1, 4, 1, 64) if vector == 8 else launch.Tiles(4, 16, 2, 4, 1, 64)


def takes(key: str, classes: int) -> bool:
    """Whether there is a kernel: not for few classes, nor for weights of classes (rho)."""
    return classes > launch.SHORT and forms.module_of(key).FORM["classes"] == 0


def rows(
    key: str,
    s_hat: torch.Tensor,
    indices: torch.Tensor,
    teacher: torch.Tensor,
    tail: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    gradient: torch.Tensor | None,
    canonical: bool,
) -> torch.Tensor:
    """Losses of rows times their scale; the gradient is written to ``gradient``, which may be s_hat itself.

    Parameters
    ----------
    s_hat, gradient : tensor
        Rows of scores with stride 1, of more than :data:`launch.SHORT` classes.
    indices : tensor
        The stored classes of each row, ascending.
    teacher : tensor
        Their log-probabilities.
    tail : tensor
        The log-probability of every other class of a row.
    scale : tensor
        One number, or one for each row.
    canonical : bool
        Whether s_hat becomes log-probabilities first; where not, it must be what the teacher's scores are.
    """
    module = forms.module_of(key)
    form = module.FORM
    count, classes = s_hat.shape
    k = indices.shape[1]
    if not takes(key, classes):
        raise ValueError(
            f"launch_sparse.rows: scores must have more than {launch.SHORT} classes, without rho, got {classes}. "
            "Use the dense teacher."
        )
    losses = torch.empty(count, dtype=torch.float32, device=s_hat.device)
    if count == 0:
        return losses
    indices, teacher = indices.contiguous(), teacher.float().contiguous()
    # where every class is stored nobody has the tail, and its level must not matter
    tail = teacher[:, 0].contiguous() if k == classes else tail.float().contiguous()
    written = losses if gradient is None else gradient
    vector = 16 // s_hat.element_size()
    cut = tiles_of(classes, vector)
    threads = 32 * cut.warps
    tile = cut.repeat * threads * vector
    tiles = min(cut.tiles, triton.next_power_of_2(triton.cdiv(classes, tile)))
    segments = triton.cdiv(classes, tiles * tile)
    lag = triton.cdiv(cut.lag * launch._processors(s_hat), segments) * segments
    gathered = torch.empty_like(teacher)
    parts = torch.empty(count * segments * 16, dtype=torch.float32, device=s_hat.device)
    ready = torch.zeros(count, dtype=torch.int32, device=s_hat.device)
    limit = {} if cut.registers is None else {"maxnreg": cut.registers}
    module.sparse_rows[(3 * count * segments + 6 * lag,)](
        s_hat, indices, teacher, tail, written, losses, scale, numbers, gathered, parts, ready,
        count, classes, k, s_hat.stride(0), written.stride(0), scale.stride(0) if scale.numel() > 1 else 0, lag,
        GAMMA=form["gamma"], ANCHOR=form["anchor"], CANONICAL=canonical, WITH_GRADIENT=gradient is not None,
        SEGMENTS=segments, SLOTS=triton.next_power_of_2(segments), TILES=tiles, R=cut.repeat, T=threads, V=vector,
        UNROLL=cut.unroll, num_warps=cut.warps, enable_fp_fusion=True, **limit,
    )  # fmt: skip
    return losses
