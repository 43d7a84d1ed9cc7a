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


def launch(
    gradient: torch.Tensor, factor: torch.Tensor, out: torch.Tensor, count: int, width: int, stride: int, in_place: bool
) -> None:
    """Multiply ``count`` rows of ``width`` entries by one factor each, ``stride`` entries apart."""
    if width == 1:
        entries_times[(triton.cdiv(count, _SIZE),)](gradient, factor, out, count, SIZE=_SIZE, num_warps=4)
        return
    size = min(_SIZE, triton.next_power_of_2(width))
    share = min(triton.cdiv(width, size), triton.cdiv(_ENOUGH, count))
    rows_times[(count, share)](
        gradient, factor, out, width, stride, SIZE=size, IN_PLACE=in_place, num_warps=4, enable_fp_fusion=True
    )
