"""Launching the kernel for teachers of which a few classes are stored."""

from __future__ import annotations

import torch

from selmatch.kernels.gpu import SHORT, forms, launch

#: how rows are cut: what was quickest on an H200
TILES = launch.Tiles(4, 16, 3, 64)
#: reads of 16 bytes for every thread in a tile
READS = 2


def takes(key: str, classes: int) -> bool:
    """Whether there is a kernel: not for few classes, nor for weights of classes (rho)."""
    return classes > SHORT and forms.module_of(key).FORM["classes"] == 0


def rows(
    key: str,
    s_hat: torch.Tensor,
    indices: torch.Tensor,
    teacher: torch.Tensor,
    tail: torch.Tensor,
    numbers: torch.Tensor,
    scale: torch.Tensor,
    gradient: torch.Tensor | None,
) -> torch.Tensor:
    """Losses of rows, whose scores become log-probabilities, times their scale.

    The gradient is written to ``gradient``, which may be s_hat itself.

    Parameters
    ----------
    s_hat, gradient : tensor
        Rows of scores with stride 1, of more than :data:`SHORT` classes.
    indices : tensor
        The stored classes of each row, ascending.
    teacher : tensor
        Their log-probabilities.
    tail : tensor
        The log-probability of every other class of a row.
    scale : tensor
        One number, or one for each row.
    """
    module = forms.module_of(key)
    form = module.FORM
    count, classes = s_hat.shape
    k = indices.shape[1]
    if not takes(key, classes):
        raise ValueError(
            f"launch_sparse.rows: scores must have more than {SHORT} classes, without rho, got {classes}. "
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
    wide = TILES._replace(warps=READS * TILES.warps)
    cut = launch.segments_of(s_hat, wide, vector, stages=3, anchored=False)
    module.sparse_rows[(cut.programs,)](
        s_hat, indices, teacher, tail, written, losses, scale, numbers, torch.empty_like(teacher),
        *launch.room_for_statistics(s_hat, cut.options["SEGMENTS"]),
        count, classes, k, s_hat.stride(0), written.stride(0), scale.stride(0) if scale.numel() > 1 else 0, cut.lag,
        GAMMA=form["gamma"], ANCHOR=form["anchor"], WITH_GRADIENT=gradient is not None,
        **{**cut.options, "num_warps": TILES.warps},
    )  # fmt: skip
    return losses
