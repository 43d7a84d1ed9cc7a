"""Kernels: value, gradient and curvature of a loss over large arrays in one pass, without temporaries of their size.

:func:`elementwise` gives them for any curve on CPUs, compiled by Numba (``pip install "selmatch[cpu]"``) or in chunks
of NumPy; :func:`threads` says on how many cores.
"""

from selmatch.kernels.emit import NotCompilable
from selmatch.kernels.kernel import Elementwise, elementwise
from selmatch.kernels.pool import threads

__all__ = ["Elementwise", "NotCompilable", "elementwise", "threads"]
