"""The folder where generated code is kept: named by its content, so that processes may share it and delete it."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

_log = logging.getLogger(__name__)


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


def name_of(key: str) -> str:
    """The name of the file with a key."""
    return f"kernel_{key}.py"


def written(text: str, key: str, place: Path | None = None) -> Path | None:
    """The file with a text; None, and a line in the log, where nothing can be written."""
    try:
        place = folder() if place is None else place
        place.mkdir(parents=True, exist_ok=True)
        path = place / name_of(key)
        if not (path.is_file() and path.read_text(encoding="utf-8") == text):
            _write(path, text)
        if not os.access(place, os.W_OK):
            raise PermissionError(f"{place} is read-only")
        return path
    except (OSError, RuntimeError, UnicodeDecodeError) as error:  # RuntimeError: there is no home
        _log.info("compiled kernels are not kept on disk: %s", error)
        return None


def _write(path: Path, text: str) -> None:
    """Write a file so that other processes see all of it or nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # Numba takes another time for another text; two processes that write the same one must agree
        os.utime(temporary, (0, 0))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
