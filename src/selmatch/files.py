"""Files of strangers: regular files only, and never more of one than a limit."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, BinaryIO

__all__ = ["UnfitFile", "open_regular", "read_bytes", "read_json"]

#: of a JSON document that selmatch has written: some hundred times what usual ones have
MAX_BYTES = 64_000_000
MAX_VALUES = 5_000_000

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class UnfitFile(ValueError):
    """What a file must be and is not; readers put its name before the message."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read its bytes; anything else is refused at once, also behind a link.

    Examples
    --------
    >>> from selmatch.files import open_regular
    >>> open_regular("/")
    Traceback (most recent call last):
    selmatch.files.UnfitFile: must be a regular file, got a folder. Copy what it holds into a file.
    """
    _require_regular(os.stat(path))  # for some devices opening them is already too much
    file = open(path, "rb", opener=_open_without_waiting)
    try:
        _require_regular(os.fstat(file.fileno()))  # another file may have taken its place
    except BaseException:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise UnfitFile(f"must be a regular file, got {kind}. Copy what it holds into a file.")


def read_bytes(path: str | os.PathLike[str], most: int = MAX_BYTES) -> bytes:
    """All bytes of a regular file that has at most so many."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UnfitFile(f"must not be longer than {most:,} bytes. Give a shorter file.")
    return data


def read_json(path: str | os.PathLike[str]) -> Any:
    """The document in a JSON file, in which every key stands once.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from selmatch.files import read_json
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.json")
    ...     _ = path.write_text('{"a": 1, "a": 2}')
    ...     read_json(path)
    Traceback (most recent call last):
    selmatch.files.UnfitFile: must be JSON, got the key 'a' twice. Write it again.
    """
    data = read_bytes(path)
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:  # each value has one of these before it
        raise UnfitFile(f"must not hold more than {MAX_VALUES:,} values. Give a shorter file.")
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_table)
    except UnfitFile:
        raise
    except (ValueError, RecursionError) as error:
        raise UnfitFile(f"must be JSON, got something else ({error}). Write it again.") from error


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of a document."""
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise UnfitFile(f"must be JSON, got the key {key[:80]!r} twice. Write it again.")
    return table
