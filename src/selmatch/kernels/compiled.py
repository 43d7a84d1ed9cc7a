"""Generated code: compiled by Numba on the first call, kept on disk for the next process."""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import pickle
import sys
import threading
from time import perf_counter
from typing import Any

import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

import selmatch
from selmatch.kernels import cache, cpu_functions, emit, loops, pool

_log = logging.getLogger(__name__)
_lock = threading.RLock()
_loaded: dict[str, Compiled] = {}

_HEADER = '''"""A kernel of selmatch, generated; it may be deleted at any time."""

import numpy as np
from numpy import float64

from selmatch.kernels.cpu_functions import DOUBLE, SINGLE, absolute, accumulated, block, device, loop, select
from selmatch.kernels.cpu_functions import square_root, widest_vectors

functions = {table}
Scalar, epsilon = functions.Scalar, functions.epsilon
zero, one, double_zero = Scalar(0.0), Scalar(1.0), float64(0.0)
'''
_NAMES = "\n".join(f"{name}, double_{name} = functions.{name}, DOUBLE.{name}" for name in emit.CALLED)


#: what loops share, copied before them
FORMULAS = (loops.weighted, loops.bounded, loops.secant_of)


@pool.in_forked_child
def _renew() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held the old one


class Compiled:
    """A loop that Numba compiles for each combination of dtypes it meets."""

    def __init__(self, name: str, dispatcher: Any) -> None:
        self.name, self.dispatcher = name, dispatcher
        self._ready: set[tuple[Any, ...]] = set()

    def prepare(self, *arguments: Any) -> None:
        """Compile, or load, for the types of some arguments; cheap from the second time on."""
        key = tuple(getattr(argument, "dtype", type(argument)) for argument in arguments)
        if key in self._ready:
            return
        with _lock:
            if key in self._ready:
                return
            start, hits = perf_counter(), sum(self.dispatcher.stats.cache_hits.values())
            self.dispatcher.compile(tuple(numba.typeof(argument) for argument in arguments))
            how = "loaded" if sum(self.dispatcher.stats.cache_hits.values()) > hits else "compiled"
            _log.info("%s %s in %.2f s", how, self.name, perf_counter() - start)
            self._ready.add(key)

    @property
    def signatures(self) -> int:
        """For how many combinations of types it is compiled."""
        return len(self.dispatcher.signatures)

    def __call__(self, *arguments: Any) -> None:
        self.dispatcher(*arguments)


def source(name: str, routines: list[emit.Routine], double: list[bool], single: bool) -> str:
    """The text of a generated file: a loop and the functions of the curve that it calls."""
    wide = tuple(flag for part, flag in zip(routines, double, strict=True) for _ in part.numbers)
    functions = [emit.constants(wide), *map(inspect.getsource, FORMULAS), *(part.source for part in routines)]
    text = [_HEADER.format(table="SINGLE" if single else "DOUBLE"), _NAMES, ""]
    text += [f"\n@device\n{function}\n" for function in functions]
    kind, ending, _ = name.partition("_block")
    if ending:
        text += [
            _loop("loop", "link_values"),
            _loop("loop", kind),
            f"\nderivatives = {kind}\n",
            _loop("block", "block"),
        ]
    else:
        text += [_loop("loop", name)]
    return "\n".join(text)


def _loop(decorator: str, name: str) -> str:
    return f"\n@{decorator}\n{inspect.getsource(getattr(loops, name))}"


def load(name: str, text: str) -> Compiled:
    """The compiled loop of a generated text; one for each text in a process, whatever thread asks."""
    key = hashlib.sha256(f"{_versions()}\n{text}".encode()).hexdigest()[:24]
    with _lock:
        if key not in _loaded:
            _loaded[key] = Compiled(f"{name} {key[:8]}", _executed(name, text, key))
        return _loaded[key]


@functools.cache
def _versions() -> str:
    """What the compiled form depends on, besides the text."""
    own = hashlib.sha256(inspect.getsource(cpu_functions).encode()).hexdigest()
    return f"{selmatch.__version__} {numba.__version__} {np.__version__} {sys.version} {own}"


def _executed(name: str, text: str, key: str) -> Any:
    module = cache.run(f"selmatch_kernel_{key}", text)
    dispatcher = module.__dict__["block" if name.endswith("_block") else name]
    dispatcher._cache = _Kept(key)
    return dispatcher


class _Kept(NullCache):
    """Compiled code as Numba asks for it, in a file for each combination of types.

    Numba's own cache unpickles whatever it finds, in whatever folder NUMBA_CACHE_DIR names, and one wrong bit in the
    machine code ends the process. Here a file begins with a digest of its name and of the rest.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        name = self._name(sig, target_context)
        content = cache.read(name)
        if content is None:
            return None
        data = content[_DIGEST:]
        if content != _signed(name, data):
            cache.discard(name, "it is damaged")
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception as error:  # whatever another build of Numba has left out of its version
            cache.discard(name, str(error))
            return None

    def save_overload(self, sig: Any, cres: CompileResult) -> None:
        name = self._name(sig, cres.target_context)
        cache.keep(name, _signed(name, dumps(cres._reduce())))

    def _name(self, sig: Any, target_context: Any) -> str:
        types = f"{sig} {target_context.codegen().magic_tuple()}"  # with the processor
        return f"kernel_{self._key}_{hashlib.sha256(types.encode()).hexdigest()[:16]}.bin"


_DIGEST = hashlib.sha256().digest_size


def _signed(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + data).digest() + data
