"""Generated code, and the folder where it is kept for later processes, which run what they find there.

So the folder and its files must belong to the user (or to the administrator), and nobody else may write to them. A file
that is missing, damaged or not to be trusted is made anew; a folder that takes nothing is no obstacle.
"""

from __future__ import annotations

import linecache
import logging
import os
import sys
import types
from pathlib import Path

from selmatch.writing import replace_private_file

_log = logging.getLogger(__name__)
#: what the log has already been told
_told: set[str] = set()


def folder() -> Path:
    """Where generated code is kept: SELMATCH_CACHE, or a folder in the user's cache directory."""
    given = os.environ.get("SELMATCH_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "selmatch" / "kernels"


def read(name: str) -> bytes | None:
    """The content of a file that was kept; None where there is none that can be trusted.

    Raises
    ------
    PermissionError
        If others can write to the folder that SELMATCH_CACHE names.
    """
    place = _safe_folder()
    if place is None:
        return None
    try:
        if not (place / name).is_file():
            return None
        with (place / name).open("rb") as file:
            fault = _fault(os.fstat(file.fileno()))  # of the file that is open: its name may stand for another one soon
            if fault is None:
                return file.read()
    except OSError as error:
        fault = str(error)
    discard(name, fault)
    return None


def keep(name: str, content: bytes) -> None:
    """Write a file for later processes, if that is possible.

    Raises
    ------
    PermissionError
        If others can write to the folder that SELMATCH_CACHE names.
    """
    place = _safe_folder()
    if place is None:
        return
    try:
        replace_private_file(place / name, content)
    except OSError as error:
        _warn("compiled kernels are not kept on disk", str(error))


def discard(name: str, fault: str) -> None:
    """Say that a file that was kept is of no use."""
    _warn("a compiled kernel on disk is not used, and made anew", f"{folder() / name}: {fault}")


def run(name: str, text: str) -> types.ModuleType:
    """A module from its text, which tracebacks and Triton find by the module's name."""
    module = types.ModuleType(name)
    module.__file__ = f"<{name}>"
    linecache.cache[module.__file__] = (len(text), None, text.splitlines(keepends=True), module.__file__)
    sys.modules[name] = module  # where Numba looks for the names in what it loads from disk
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    return module


def _safe_folder() -> Path | None:
    """The folder, made where it is missing; None, and a line in the log, where it is of no use."""
    try:
        place = folder()
        # others can exchange a folder in a folder that they can write to
        parts = [place] if os.environ.get("SELMATCH_CACHE") else [place.parent, place]
        missing = [path for path in (place, *place.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
        faults = [f"{path}, where {fault}" for path in parts if (fault := _fault(path.stat())) is not None]
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        _warn("compiled kernels are not kept on disk", str(error))
        return None
    if not faults:
        return place
    remedy = f"What lies there is run. Take another folder, or empty this one and run: chmod 700 {place}"
    if os.environ.get("SELMATCH_CACHE"):
        raise PermissionError(
            "selmatch.kernels: SELMATCH_CACHE must be a folder of yours that nobody else can write to, "
            f"got {faults[0]}. {remedy}"
        )
    _warn("compiled kernels are not kept on disk", f"got {faults[0]}. {remedy}")
    return None


def _fault(status: os.stat_result) -> str | None:
    """Why the owner and the rights of a file or folder do not keep others from writing to it."""
    if not hasattr(os, "geteuid"):  # Windows: a user's folders are closed to others from the start
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"the owner is user {status.st_uid}, not you"
    if status.st_mode & 0o022:
        return f"the mode {status.st_mode & 0o7777:o} lets others write"
    return None


def _warn(what: str, why: str) -> None:
    """Tell the log, the first time as a warning."""
    _log.log(logging.INFO if what in _told else logging.WARNING, "%s: %s", what, why)
    _told.add(what)
