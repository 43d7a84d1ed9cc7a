"""Checks of the kernels for GPUs: plain functions that raise AssertionError, without a test runner."""
