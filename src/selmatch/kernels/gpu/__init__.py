"""Kernels for GPUs: templates written by hand in Triton, around functions emitted from the formulas of a curve."""

#: up to so many classes a program holds whole rows
SHORT = 1024
