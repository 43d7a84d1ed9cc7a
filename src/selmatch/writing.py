"""Files written whole: readers see the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import uuid
from pathlib import Path

#: the longest name that every file system takes with what a draft adds to it, in UTF-8
_LONGEST = 50


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one step: a full disk or a crash leaves the old file, and an error names the file.

    Parameters
    ----------
    path : path
        A link stays one, and the file behind it keeps its permissions. A pipe or a terminal takes the bytes as they
        come.
    data : bytes
        All of the file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
    else:
        _replace(path, Path(os.path.realpath(path)), data)


def replace_private_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one step for its owner alone, in place of whatever was there: a link or a pipe is removed."""
    _replace(Path(path), Path(path), data, private=True)


def _replace(path: Path, target: Path, data: bytes, *, private: bool = False) -> None:
    # a name of its own in the same folder: two writers never share a draft, and replacing the file is one step
    draft = target.with_name(f"{_prefix(target)}{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb", opener=_open_privately if private else None) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(target, draft)
        os.replace(draft, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        if isinstance(error, OSError) and error.errno is not None:  # its own words name the draft, or no file at all
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def drafts_of(path: Path) -> list[Path]:
    """What writers of a file left when they were killed; a writer that still runs has its draft among them."""
    return sorted(path.parent.glob(f"{glob.escape(_prefix(path))}*.tmp"))


def _prefix(path: Path) -> str:
    return f".{path.name[:_LONGEST]}."
