"""The kernel that multiplies gradients by what arrives from above, and does nothing where that is 1."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def rows_times(GRADIENT, FACTOR, OUT, width, stride, SIZE: tl.constexpr, IN_PLACE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    factor = tl.load(FACTOR + row * stride)
    if not IN_PLACE or factor != 1.0:
        step = tl.num_programs(1).to(tl.int64) * SIZE
        for start in range(tl.program_id(1).to(tl.int64) * SIZE, width, step):
            o = start + tl.arange(0, SIZE)
            here = o < width
            g = tl.load(GRADIENT + row * width + o, mask=here, other=0.0).to(tl.float32)
            # where nothing arrives nothing leaves, whatever the gradient is
            g = tl.where(factor == 0.0, 0.0, g * factor)
            tl.store(OUT + row * width + o, g.to(OUT.dtype.element_ty), mask=here)


@triton.jit
def entries_times(GRADIENT, FACTOR, OUT, count, SIZE: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    here = o < count
    factor = tl.load(FACTOR + o, mask=here, other=1.0)
    g = tl.load(GRADIENT + o, mask=here, other=0.0).to(tl.float32)
    tl.store(OUT + o, tl.where(factor == 0.0, 0.0, g * factor).to(OUT.dtype.element_ty), mask=here)


#: entries that a program takes at a time
_SIZE = 2048
#: programs that fill any GPU: few enough to return at once
_ENOUGH = 2048


def multiply(gradient: torch.Tensor, factor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """A gradient times a factor: one number, one for each row (the last axis), or one for each entry.

    The factor is read on the device; where it is 1, in place, nothing else happens.
    """
    count = gradient.numel()
    if count == 0:
        return out
    factor = factor.float()
    if factor.numel() == 1 or (factor.ndim > 0 and not any(factor.stride())):
        _launch(gradient, factor, out, 1, count, 0)
    elif factor.numel() == count:
        entries_times[(-(-count // _SIZE),)](
            gradient, factor.contiguous(), out, count, SIZE=_SIZE, num_warps=4, enable_fp_fusion=True
        )
    else:
        factor = factor.reshape(-1)
        _launch(gradient, factor, out, len(factor), gradient.shape[-1], factor.stride(0))
    return out


def _launch(
    gradient: torch.Tensor, factor: torch.Tensor, out: torch.Tensor, rows: int, width: int, stride: int
) -> None:
    """Multiply rows of ``width`` entries by one factor each, ``stride`` apart."""
    size = min(_SIZE, 1 << (width - 1).bit_length())  # Triton's own functions of whole numbers take microseconds each
    share = min(-(-width // size), -(-_ENOUGH // rows))
    rows_times[(rows, share)](
        gradient, factor, out, width, stride,
        SIZE=size, IN_PLACE=out.data_ptr() == gradient.data_ptr(), num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
