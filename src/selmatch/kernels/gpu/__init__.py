"""Kernels for GPUs: templates written by hand in Triton, around functions emitted from the formulas of a curve."""
