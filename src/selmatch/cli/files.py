"""Files that users name: they are there, or the error tells the nearest one."""

from __future__ import annotations

from pathlib import Path

from selmatch.words import nearest

#: names of files are less alike by chance than words of options
CUTOFF = 0.6
#: how the names of specs and of tables end
SPECS = (".toml", ".json")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".gz", ".bz2", ".xz")


def is_there(path: Path) -> bool:
    """Whether there is something that is no folder; also for what may be a formula."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # formulas can be longer than names of files may be
        return False


def require_file(path: Path, endings: tuple[str, ...]) -> None:
    """An error with the nearest name of such an ending in the same folder, if there is no such file."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: a file must be given, got a folder.")
    if not path.exists():  # what is there and no regular file is for the reader to refuse
        near = _nearest(path, endings)
        raise FileNotFoundError(f"{path}: there is no such file.{'' if near is None else f' Did you mean {near!r}?'}")


def _nearest(path: Path, endings: tuple[str, ...]) -> str | None:
    """The name that looks most like it: first without what follows the dot, which all files of a kind share."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    names = sorted(file.name for file in beside if file.name.lower().endswith(endings) and file.is_file())
    stem = nearest(_stem(path.name), filter(None, map(_stem, names)), CUTOFF)
    return None if stem is None else nearest(path.name, [name for name in names if _stem(name) == stem], cutoff=0.0)


def _stem(name: str) -> str:
    return name.partition(".")[0]
