"""Threads for loops that release the interpreter's lock: a small pool, made when it is first needed.

Numba's own threads abort when two Python threads use them at once, and complain in forked children; these do not.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

#: slices begin at multiples of this, and are worth a thread from LEAST elements on
BLOCK = 4096
LEAST = 16 * BLOCK
#: slices for each thread: a core that is busy elsewhere then takes fewer
_SHARES = 4

_lock = threading.Lock()
_chosen: int | None = None
_executor: ThreadPoolExecutor | None = None
_workers = 0


def in_forked_child(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function in every forked child, where the platform forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


@in_forked_child
def _renew() -> None:
    """The threads of the parent do not exist in a child, and another one of them may have held the lock."""
    global _lock, _executor, _workers
    _lock, _executor, _workers = threading.Lock(), None, 0


def threads(count: int | None = None) -> int:
    """How many threads kernels use; with ``count``, from now on that many.

    By default SELMATCH_THREADS or OMP_NUM_THREADS from the environment, else every core that the process may use.

    Examples
    --------
    >>> from selmatch import kernels
    >>> before = kernels.threads()
    >>> kernels.threads(1)
    1
    >>> kernels.threads(before) == before
    True
    """
    global _chosen
    if count is not None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"kernels.threads: count must be an integer >= 1, got {count!r}.")
        _chosen = count
    return _chosen if _chosen is not None else _default_threads()


@functools.cache
def _default_threads() -> int:
    for name in ("SELMATCH_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").split(",")[0].strip()
        if given.isdecimal() and int(given) > 0:
            return int(given)
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return os.process_cpu_count() or 1  # type: ignore[attr-defined]
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def run(work: Callable[[int, int], None], length: int) -> None:
    """Call ``work(start, stop)`` for slices of ``range(length)``, on several threads if that is worth while.

    Slices begin at multiples of BLOCK, and together they are the whole range; the calling thread works too.
    """
    count = min(threads(), length // LEAST)
    if count <= 1:
        if length:
            work(0, length)
        return
    share = -(-length // (count * _SHARES * BLOCK)) * BLOCK
    slices = iter([(start, min(start + share, length)) for start in range(0, length, share)])
    turn = threading.Lock()

    def take() -> None:
        for start, stop in _in_turn(slices, turn):
            work(start, stop)

    others: list[Future[None]] = []
    try:
        for _ in range(count - 1):
            others.append(_submit(take, count - 1))
        take()
    finally:  # arrays of the caller must not be written to after an error
        errors = [other.exception() for other in others]
    for error in filter(None, errors):
        raise error


def _in_turn(slices: Iterator[tuple[int, int]], turn: threading.Lock) -> Iterator[tuple[int, int]]:
    while True:
        with turn:
            mine = next(slices, None)
        if mine is None:
            return
        yield mine


def _submit(task: Callable[[], None], workers: int) -> Future[None]:
    global _executor, _workers
    with _lock:
        if _executor is None or _workers < workers:
            if _executor is not None:
                _executor.shutdown(wait=False)  # what it has begun, it ends
            _executor = ThreadPoolExecutor(workers, thread_name_prefix="selmatch")
            _workers = workers
        return _executor.submit(task)
