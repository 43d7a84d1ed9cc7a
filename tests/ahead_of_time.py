"""Compile the kernels of a few forms for a GPU that need not be there; prints ``kernel:capability`` for each."""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import selmatch as sm
from selmatch.kernels.gpu import forms, multiplying

TYPES = {
    "S_HAT": "*bf16", "S": "*fp32", "GRADIENT": "*bf16", "OUT": "*bf16", "MASK": "*u8", "READY": "*i32",
    "INDICES": "*i32",
    "m_stride": "i64", "x_stride": "i64", "y_stride": "i64", "g_stride": "i64",
}  # fmt: skip
ROWS = {"GAMMA": 3, "ANCHOR": 4, "HAS_MASK": True, "HAS_PRIOR": True, "CANONICAL": True, "WITH_GRADIENT": True}


def type_of(name: str) -> str:
    return TYPES.get(name) or ("*fp32" if name.isupper() else "i32")


def compile_for(kernel, capability: int, **constants) -> None:
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else type_of(name) for name in names}
    source = ASTSource(kernel, signature, {(names.index(name),): value for name, value in constants.items()})
    options = {"num_warps": 4, "enable_fp_fusion": True}
    assert triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm["cubin"]
    print(f"{kernel.fn.__name__}:{capability}", flush=True)


def main(capability: int) -> None:
    potential = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), rho=(1.0, 2.0), anchor=1.0)
    rows = forms.module_of(forms.key_of(potential))
    scores = forms.module_of(forms.key_of(sm.Sigmoid().affine(alpha=2.0)))
    tiles = {"SEGMENTS": 3, "SLOTS": 4, "TILES": 8, "T": 128, "V": 4}
    compile_for(rows.long_rows, capability, **ROWS, **tiles)
    stored = {name: ROWS[name] for name in ("GAMMA", "ANCHOR", "WITH_GRADIENT")}
    compile_for(rows.sparse_rows, capability, **stored, **tiles)
    short = {"CLASSES": 18, "ZERO_IS_HARMLESS": True, "ROWS": 8, "FEW": 2, "PIECES": 2, "WIDTH": 16}
    compile_for(rows.short_rows, capability, **ROWS, **short, SCALE_EACH=True, PAIRED=True)
    flags = {"HAS_MASK": True, "SCALE_EACH": True, "REDUCE": True, "WITH_GRADIENT": True}
    compile_for(scores.scored, capability, **flags, PAIRED=True, TILES=4, TILE=1024, VECTOR=8)
    compile_for(multiplying.rows_times, capability, SIZE=1024, IN_PLACE=True)
    compile_for(multiplying.entries_times, capability, SIZE=1024)


if __name__ == "__main__":
    main(int(sys.argv[1]))
