"""Fused passes over arrays of scores for one curve, by Numba where it is installed, else by NumPy."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from selmatch.algebra import require_curve
from selmatch.curve import Curve
from selmatch.kernels import chunked, emit, pool

_log = logging.getLogger(__name__)

Array = np.ndarray
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
#: the functions of a curve that each loop calls
_NEEDED = {
    "link_values": ("link",),
    "newton": ("link_and_slope",),
    "secant": ("link_and_slope",),
    "newton_block": ("link", "link_and_slope"),
    "secant_block": ("link", "link_and_slope"),
    "value_and_gradient": ("remainder_and_difference",),
    "total": ("remainder",),
}
_INSTALL = 'Install it with: pip install "selmatch[cpu]".'


@functools.cache
def _has_numba() -> bool:
    """Whether Numba is there and works; one that refuses its NumPy is as good as none."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        importlib.import_module("numba")
    except Exception as error:
        _log.warning("Numba cannot be imported, NumPy does its work: %s", error)
        return False
    return True


def elementwise(curve: Curve, backend: str | None = None) -> Elementwise:
    """Value, gradient and curvature of a curve's matching loss over large arrays, each in one pass on all cores.

    For boosters and other callers who prepare their arrays once and then need them often: arguments are
    one-dimensional contiguous NumPy arrays of float32 or float64, and scores are not checked.
    :class:`~selmatch.MatchingLoss` is for everybody else.

    Parameters
    ----------
    curve : Curve
        The link.
    backend : {None, "numba", "numpy"}
        ``"numba"`` compiles (the first call takes a second; later ones and later processes find the result in a cache
        folder, SELMATCH_CACHE or the user's), ``"numpy"`` works in chunks. None compiles what it can: a curve without
        closed forms has its gradient and curvature compiled, its loss not.

    Examples
    --------
    >>> from selmatch.kernels import elementwise
    >>> kernel = elementwise(Sinh(), backend="numpy")
    >>> s, s_hat = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    >>> kernel.value_and_gradient(s_hat, s)
    (array([0.54308063, 0.        ]), array([1.17520119, 0.        ]))
    >>> kernel.gradient_and_curvature(s_hat, s, kernel.link(s), kind="newton")
    (array([1.17520119, 0.        ]), array([1.54308063, 1.54308063]))
    """
    return Elementwise(curve, backend)


class Elementwise:
    """Fused passes for one curve; :func:`elementwise` makes it.

    Computations run in the dtype of the observed scores s. Predictions, weights and outputs may have the other
    precision: they are converted one by one, on the way in and out.

    Attributes
    ----------
    curve : Curve
        The link.
    backend : {"numba", "numpy"}
        What gradient and curvature are computed with.
    """

    def __init__(self, curve: Curve, backend: str | None = None) -> None:
        require_curve("kernels.elementwise", "curve", curve)
        if backend not in (None, "numba", "numpy"):
            raise ValueError(f"kernels.elementwise: backend must be None, 'numba' or 'numpy', got {backend!r}.")
        if backend == "numba" and not _has_numba():
            raise ImportError(f"selmatch.kernels with backend='numba' needs Numba. {_INSTALL}")
        if backend == "numba" and not emit.has_sources():
            raise RuntimeError(
                "kernels.elementwise: the source files of selmatch must be installed for backend='numba', "
                "got compiled files only. Use backend=None or 'numpy'."
            )
        self.curve, self._asked = curve, backend
        # how far from 0 the curve's own places are: shifts round scores at that size
        self.reach = max(abs(float(end)) for end in curve.window())
        self._compile = backend != "numpy" and _has_numba() and emit.has_sources()
        self._plans: dict[tuple[str, bool], Any] = {}
        if backend == "numba":
            for name in _NEEDED:
                self._recorded(name, single=False)
        self.backend = "numba" if self._compile and self._is_compilable("secant") else "numpy"

    def __repr__(self) -> str:
        return f"elementwise({self.curve!r}, backend={self.backend!r})"

    def __reduce__(self) -> Any:
        return Elementwise, (self.curve, self._asked)

    # ----------------------------------------------------------------------------------------------------------- passes

    def link(self, s: Array) -> Array:
        """h(s), in the dtype of s."""
        _require_array("link", "s", s)
        values = np.empty_like(s)
        plan = self.plan("link_values", s.dtype)
        if plan is None:
            chunked.link(self.curve, s, values)
        else:
            plan(len(s), (s,), (values,))
        return values

    def value_and_gradient(
        self, s_hat: Array, s: Array, *, weights: Array | None = None, out: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Loss and gradient of each prediction, without cancellation: the numbers of :class:`~selmatch.MatchingLoss`.

        Parameters
        ----------
        s_hat, s : array
            Predicted and observed scores.
        weights : array, optional
            Factors, >= 0.
        out : pair of arrays, optional
            Where to write loss and gradient; new arrays of the dtype of s otherwise.
        """
        value, gradient = self._outputs("value_and_gradient", out, s_hat=s_hat, s=s, weights=weights)
        plan = self.plan("value_and_gradient", s.dtype)
        if plan is None:
            chunked.value_and_gradient(self.curve, s_hat, s, weights, value, gradient)
        else:
            plan(len(s), (s_hat, s, weights), (value, gradient))
        return value, gradient

    def gradient_and_curvature(
        self,
        s_hat: Array,
        s: Array,
        link_of_s: Array,
        *,
        kind: str = "secant",
        weights: Array | None = None,
        scale: float = 1.0,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """Gradient ``w (h(s_hat) - h(s))`` and curvature of each prediction, with h(s) known beforehand.

        The gradient is a plain difference: where predictions are close to labels it carries the rounding errors of
        both links, which boosters do not notice. The curvature is never negative, NaN or infinite; where h(s_hat)
        overflows it is the largest number (and the gradient infinite).

        Parameters
        ----------
        s_hat, s : array
            Predicted and observed scores.
        link_of_s : array
            ``kernel.link(s)``, computed once.
        kind : {"secant", "newton"}
            Gradient over distance, which is stable from any start, or h'(s_hat).
        weights : array, optional
            Factors, >= 0.
        scale : float
            One more factor, for all.
        out : pair of arrays, optional
            Where to write gradient and curvature; new arrays of the dtype of s otherwise.
        """
        if kind not in ("secant", "newton"):
            raise ValueError(f"Elementwise.gradient_and_curvature: kind must be 'secant' or 'newton', got {kind!r}.")
        scores = {"s_hat": s_hat, "s": s, "link_of_s": link_of_s}
        gradient, curvature = self._outputs("gradient_and_curvature", out, **scores, weights=weights)
        largest = min(float(np.finfo(dtype).max) for dtype in (s.dtype, curvature.dtype))
        plan = self.plan(kind, s.dtype)
        arrays = (s_hat, s, link_of_s, weights)
        if plan is None:
            chunked.gradient_and_curvature(self.curve, kind, *arrays, scale, largest, self.reach, gradient, curvature)
        else:
            plan(len(s), (*arrays, float(scale), largest, self.reach), (gradient, curvature))
        return gradient, curvature

    def total(self, s_hat: Array, s: Array, *, weights: Array | None = None) -> float:
        """The sum of the losses times weights, summed in double precision; the number of threads does not change it."""
        self._outputs("total", (), s_hat=s_hat, s=s, weights=weights)
        sums = np.zeros(-(-len(s) // pool.BLOCK))
        plan = self.plan("total", s.dtype)
        if plan is None:
            chunked.total(self.curve, s_hat, s, weights, sums)
        else:
            plan(len(s), (s_hat, s, weights), (sums,), block=pool.BLOCK)
        with np.errstate(over="ignore"):
            return float(np.sum(sums))

    # ---------------------------------------------------------------------------------------------------------- backend

    def block(self, kind: str, dtype: Any) -> Callable[..., Array] | None:
        """Both derivatives of small blocks of rows, in one compiled call; None where NumPy has to do it.

        ``block(s_hat, s, weights, start, scale, low, high)`` gives an array (rows, 2): gradient and curvature of the
        predictions ``s_hat + start``, moved into [low, high], with their signs turned. FloatingPointError where a
        gradient is not finite.
        """
        plan = self.plan(f"{kind}_block", np.dtype(dtype))
        if plan is None:
            return None
        run, numbers, largest = plan.loop.dispatcher, plan.numbers, float(np.finfo(dtype).max)

        def block(
            s_hat: Array, s: Array, weights: Array | None, start: float, scale: float, low: float, high: float
        ) -> Array:
            return run(s_hat, s, weights, start, scale, low, high, largest, self.reach, numbers)

        return block

    def compiled(self, name: str, dtype: Any = np.float64) -> Any:
        """The compiled loop behind a pass (``"secant"``, ``"newton"``, ...), or None where NumPy does it."""
        plan = self.plan(name, np.dtype(dtype))
        return None if plan is None else plan.loop

    def _functions(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        curve, move = self.curve, ("x", "u", "xh")
        return {
            "link": (curve, ("x",)),
            "link_and_slope": (lambda x: (curve(x), curve.slope(x)), ("x",)),
            "remainder": (curve.remainder, move),
            "remainder_and_difference": (curve.remainder_and_difference, move),
        }

    def _recorded(self, name: str, single: bool) -> list[emit.Recorded]:
        try:
            known = self._functions()
            return [
                emit.record(function, known[function][0], *known[function][1], single=single)
                for function in _NEEDED[name]
            ]
        except emit.NotCompilable as error:
            raise emit.NotCompilable(
                f"kernels.elementwise: {self.curve!r} cannot be compiled: {error}. Use backend=None or 'numpy'."
            ) from error

    def _is_compilable(self, name: str) -> bool:
        try:
            return bool(self._recorded(name, single=False))
        except emit.NotCompilable:
            return False

    def plan(self, name: str, dtype: np.dtype) -> Plan | None:
        """How a pass is compiled in one precision; None if it is not."""
        single = dtype == _DTYPES[0]
        if (name, single) not in self._plans:
            self._plans[name, single] = self._made(name, single) if self._compile else None
        return self._plans[name, single]

    def _made(self, name: str, single: bool) -> Plan | None:
        try:
            recorded = self._recorded(name, single)
        except emit.NotCompilable as error:
            if self._asked == "numba":
                raise
            _log.info("%s; NumPy does it.", error)
            return None
        from selmatch.kernels import compiled

        routines, first = [], 0
        for one in recorded:
            routines.append(emit.routine(one, first, single))
            first += len(routines[-1].numbers)
        text = compiled.source(name, routines, [one.double and single for one in recorded], single)
        return Plan(compiled.load(name, text), [number for part in routines for number in part.numbers])

    def _outputs(self, who: str, out: Any, *, s: Array, weights: Array | None, **others: Array) -> tuple[Array, ...]:
        """The arrays to write to, after all arguments have been checked."""
        _require_array(who, "s", s)
        given = {**others, **({} if weights is None else {"weights": weights})}
        if out is None:
            out = (np.empty_like(s), np.empty_like(s))
        elif not (isinstance(out, (tuple, list)) and len(out) in (0, 2)):
            raise TypeError(f"Elementwise.{who}: out must be a pair of arrays, got {type(out).__name__}.")
        for i, array in enumerate(out):
            _require_array(who, f"out[{i}]", array, len(s))
            if not array.flags.writeable:
                raise ValueError(f"Elementwise.{who}: out[{i}] must be writeable, got a read-only array.")
        for name, array in given.items():
            _require_array(who, name, array, len(s))
        inputs = [s, *given.values()]
        if any(np.may_share_memory(a, b) for i, a in enumerate(out) for b in (*inputs, *out[:i])):
            raise ValueError(f"Elementwise.{who}: out must not overlap the other arrays, got one that does.")
        return tuple(out)


class Plan:
    """A compiled loop, and the numbers of a curve that it takes."""

    def __init__(self, loop: Any, numbers: list[float]) -> None:
        self.loop, self.numbers = loop, np.array(numbers or [0.0])

    def __call__(
        self, length: int, inputs: tuple[Any, ...], outputs: tuple[Array, ...], block: int | None = None
    ) -> None:
        """Run over slices of the inputs and the outputs; with ``block``, outputs have one entry for each block."""
        rest = (self.numbers,) if block is None else (block, self.numbers)

        def part(start: int, stop: int) -> tuple[Any, ...]:
            read = [_read_only(a[start:stop]) if isinstance(a, np.ndarray) else a for a in inputs]
            if block is None:
                return *read, *(a[start:stop] for a in outputs), *rest
            return *read, *(a[start // block : -(-stop // block)] for a in outputs), *rest

        self.loop.prepare(*part(0, length))
        pool.run(lambda start, stop: self.loop(*part(start, stop)), length)


def _read_only(view: Array) -> Array:
    """A view that cannot be written to: to Numba that is another type, and one type for all inputs is enough."""
    view.flags.writeable = False
    return view


def _require_array(who: str, name: str, array: Any, length: int | None = None) -> None:
    """Raise unless an argument is what loops can run over."""
    if not isinstance(array, np.ndarray) or array.dtype not in _DTYPES:
        got = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"Elementwise.{who}: {name} must be a NumPy array of float32 or float64, got {got}.")
    if array.ndim != 1 or not array.flags.c_contiguous:
        got = f"shape {array.shape}" if array.ndim != 1 else "a strided one"
        raise ValueError(
            f"Elementwise.{who}: {name} must be a contiguous one-dimensional array, got {got}. "
            "Try numpy.ascontiguousarray(...).ravel()."
        )
    if length is not None and len(array) != length:
        raise ValueError(f"Elementwise.{who}: {name} must have the length of s, {length}, got {len(array)}.")
