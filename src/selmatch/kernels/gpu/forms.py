"""Forms: what the kernels of a potential depend on, as generated texts that are found again by their key.

A form is the text of a module: the device functions of one curve, the templates that call them, and where the
parameters of the potential are found among the numbers that a kernel reads. Potentials that differ only in these
numbers share a form.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import inspect
import math
import threading
from types import ModuleType
from typing import Any

import selmatch
from selmatch import functions
from selmatch.composite import CompositeSoftmax, Separable
from selmatch.curve import Curve
from selmatch.kernels import cache, pool
from selmatch.kernels.emit import NotCompilable
from selmatch.kernels.gpu import emission

_lock = threading.RLock()
_texts: dict[str, str] = {}
_modules: dict[str, ModuleType] = {}
_potentials: dict[str, Any] = {}

_HEADER = '''"""Kernels of selmatch, generated; this file may be deleted at any time."""

import triton
import triton.language as tl

from selmatch.kernels.gpu.functions import *  # noqa: F403
from selmatch.kernels.gpu.functions import LARGEST, LN2, LOG2E

'''
_MARK = "# " + 109 * "-" + " template\n"


@pool.in_forked_child
def _renew() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held the old one


def key_of(potential: Any) -> str:
    """The key of a potential's form; the potential is kept, for what only it can do.

    Raises
    ------
    NotCompilable
        If its value or primitive is no formula, or if there are no kernels for such a potential.
    """
    text = _text(potential)
    key = _key(text.encode())
    with _lock:
        _texts[key] = text
        _potentials.setdefault(key, potential)
    return key


def potential_of(key: str, numbers: Any) -> Any:
    """The potential of a form, with the numbers of a vector."""
    if key not in _potentials:
        raise RuntimeError(
            f"selmatch.kernels: the potential of form {key} must have been made in this process for second derivatives."
        )
    return emission.with_parameters(_potentials[key], iter(numbers))


def module_of(key: str) -> ModuleType:
    """The kernels of a form, ready to be launched."""
    with _lock:
        if key not in _modules:
            _modules[key] = cache.run(f"selmatch_kernels_{key}", _text_of(key))
        return _modules[key]


def _text_of(key: str) -> str:
    """The text of a form: of this process, which keeps it, or of another one that has kept it."""
    name = f"kernel_{key}.py"
    kept = cache.read(name)
    if key in _texts:
        content = _texts[key].encode()
        if kept not in (None, content):
            cache.discard(name, "it is damaged")
        if kept != content:
            cache.keep(name, content)
        return _texts[key]
    if kept is None or _key(kept) != key:
        raise RuntimeError(
            f"selmatch.kernels: the form {key} must be in the cache folder {cache.folder()}, "
            f"got {'no file' if kept is None else 'another text'}. Make the loss again in this process."
        )
    return kept.decode()


def _key(text: bytes) -> str:
    return hashlib.sha256(f"{selmatch.__version__}\n{_functions()}\n".encode() + text).hexdigest()[:24]


@functools.cache
def _functions() -> str:
    """What the generated text depends on, besides itself."""
    from selmatch.kernels.gpu import functions as device_functions

    return hashlib.sha256(inspect.getsource(device_functions).encode()).hexdigest()


@functools.cache
def _template(name: str) -> str:
    module = importlib.import_module(f"selmatch.kernels.gpu.{name}")
    return inspect.getsource(module).partition(_MARK)[2]


def _text(potential: Any) -> str:
    if isinstance(potential, CompositeSoftmax):
        return _rows(potential)
    if isinstance(potential, Separable):
        return _elementwise(potential.curve, "separable")
    if isinstance(potential, Curve):
        return _elementwise(potential, "elementwise")
    raise NotCompilable(f"selmatch.kernels: there are no kernels for {type(potential).__name__}")


def _assembled(kind: str, templates: tuple[str, ...], routines: list[str], **places: Any) -> str:
    form = {"kind": kind, **places}
    parts = [_HEADER, f"FORM = {form!r}\n", *routines, *map(_template, templates)]
    return "\n\n".join(parts)


def _rows(potential: CompositeSoftmax) -> str:
    q, count = emission.symbolic(potential.scaling)
    classes = 0 if potential.rho is None else len(potential.rho)
    for what in ("__call__", "primitive", "remainder"):
        _require_formula(q, what)

    def scores(z: Any) -> Any:
        z = _legal(q, z)
        return q.primitive(z), q(z)

    def move(y: Any, u: Any, x: Any) -> Any:
        y, x = _legal(q, y, interior=True), _legal(q, x)
        return q.primitive(y), q.primitive(x), q(y), q(x), q.remainder(y, u, x)

    values = emission.routine("scores", scores, "z", count=count)
    routines = [
        emission.constants(count),
        values,
        emission.routine("rough", scores, "z", count=count, target=emission.ROUGH),
        emission.routine("move", move, "y", "u", "x", count=count),
        # e^z, in the form that the compiler finds in Q or q
        f"@triton.jit\ndef weight(z):\n    return {'2.0 * half_exp(z)' if 'half_exp(z)' in values else 'exp(z)'}",
        emission.routine("point", q.point, count=count),
    ]
    anchor = -1 if potential.anchor is None else count + 1 + classes
    total = sum(1 for _ in emission.parameters(potential))
    places = {"numbers": total, "gamma": count, "prior": count + 1, "classes": classes, "anchor": anchor}
    return _assembled("rows", ("rows", "sparse_rows"), routines, **places, zero=not q.bounded)


def _elementwise(curve: Curve, kind: str) -> str:
    h, count = emission.symbolic(curve)
    for what in ("difference", "remainder"):
        _require_formula(h, what)

    def loss(y: Any, u: Any, x: Any) -> Any:
        return h.remainder_and_difference(_legal(h, y, interior=True), u, _legal(h, x))

    routines = [emission.constants(count), emission.routine("loss", loss, "y", "u", "x", count=count)]
    return _assembled(kind, ("elementwise",), routines)


def _legal(curve: Curve, z: Any, interior: bool = False) -> Any:
    """z, and NaN outside of the curve's domain."""
    if not curve.bounded:
        return z
    return z + functions.where(curve.holds(z, interior=interior), 0.0, math.nan)


def _require_formula(curve: Curve, what: str) -> None:
    """Refuse curves whose integrals are found by quadrature: written out, they would be slower than PyTorch."""
    for part in _curves_in(curve):
        if getattr(type(part), what) is getattr(Curve, what):
            raise NotCompilable(
                f"selmatch.kernels: {what} of {type(part).__name__} is no formula, but found by quadrature"
            )


def _curves_in(curve: Any) -> Any:
    if isinstance(curve, Curve):
        yield curve
    if dataclasses.is_dataclass(curve):
        for field in dataclasses.fields(curve):
            yield from _curves_in(getattr(curve, field.name))
    elif isinstance(curve, tuple):
        for part in curve:
            yield from _curves_in(part)
