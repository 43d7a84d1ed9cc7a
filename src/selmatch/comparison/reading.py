"""Data as users hold it, a CSV or Parquet file or a frame, as a frame of pandas that is never changed."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import lzma
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selmatch.files import UnfitFile, open_regular
from selmatch.words import nearest, remedy

try:
    import pandas
except ImportError as error:
    raise ImportError('selmatch.compare needs pandas. Install it with: pip install "selmatch[compare]".') from error

WHO = "compare"

_COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_TEXTS = {".csv": None, ".tsv": "\t", ".txt": None}
_PARQUET = (".parquet", ".pq")
#: what readers and unpackers say of damaged files
_BROKEN = (
    pandas.errors.ParserError, pandas.errors.ParserWarning, csv.Error, zlib.error, lzma.LZMAError, EOFError, OSError,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Source:
    """A table whose columns are found by unique names.

    Attributes
    ----------
    name : str
        Of the file without its folder, or "data frame".
    frame : pandas.DataFrame
        As it was read or given.
    names : tuple of str
        Of its columns, as text and all different.
    notes : tuple of str
        What was done about names.
    path : str
        Of the file, from the root; empty for a frame.
    """

    name: str
    frame: pandas.DataFrame
    names: tuple[str, ...]
    notes: tuple[str, ...]
    path: str = ""

    def column(self, name: str) -> pandas.Series:
        """A column, by its unique name."""
        return self.frame.iloc[:, self.names.index(name)]

    def known(self, role: str, asked: Any) -> str:
        """The name of a column that must be there; the error tells the nearest."""
        name = str(asked)
        if name in self.names:
            if f"{name}.1" in self.renamed:
                raise ValueError(
                    f"{WHO}: the {role} column {name!r} must occur once in {self.name}, got several columns of that "
                    "name. Rename or remove the others."
                )
            return name
        raise ValueError(f"{WHO}: the {role} column must be in {self.name}, got {name!r}. {remedy(name, self.names)}")

    @property
    def renamed(self) -> frozenset[str]:
        """Names that were made for columns whose own name was taken."""
        given = Counter(str(label) for label in self.frame.columns)
        return frozenset(name for name in self.names if name not in given)


def listed(words: Sequence[str], most: int = 8) -> str:
    """Words in quotes; only the first of many."""
    shown = ", ".join(map(repr, words[:most]))
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def read(data: Any, text: Collection[str] = ()) -> Source:
    """A table from a path or a frame.

    Parameters
    ----------
    data : path, or frame of pandas or polars
        CSV (also compressed) and Parquet are known by their suffix.
    text : collection of str
        Columns of a CSV file that are text, whatever they look like.
    """
    place = ""
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        frame, labels = _file(path, text)
        name, place = path.name, str(path.resolve())
    else:
        frame, name = _frame(data), "data frame"
        labels = [str(label) for label in frame.columns]
    names = _unique(labels)
    renamed = [name for name, label in zip(names, labels, strict=True) if name != label]
    notes = ()
    if renamed:
        notes = (f"Some columns have the same name; the later ones are called {listed(renamed)} here.",)
    if labels != [str(label) for label in frame.columns]:  # keep what the file says, to tell what was renamed
        frame = frame.set_axis(labels, axis=1)
    return Source(name, frame, tuple(names), notes, place)


def _frame(data: Any) -> pandas.DataFrame:
    if hasattr(data, "collect"):  # a lazy frame of polars
        data = data.collect()
    if isinstance(data, pandas.DataFrame):
        return data
    if hasattr(data, "to_pandas") and hasattr(data, "columns"):
        return data.to_pandas()
    raise TypeError(
        f"{WHO}: data must be the path of a CSV or Parquet file, or a frame of pandas or polars, got "
        f"{type(data).__name__}. Try pandas.DataFrame(...)."
    )


def _unique(labels: Sequence[str]) -> list[str]:
    """Names that are all different: later ones get a number, as pandas does when it reads a file."""
    taken, names = set(labels), []
    seen: Counter[str] = Counter()
    for label in labels:
        name = label
        while seen[label] and name in taken:
            name = f"{label}.{seen[label]}"
            seen[label] += 1
        seen[label] += not seen[label]
        taken.add(name)
        names.append(name)
    return names


# ---------------------------------------------------------------------------------------------------------------- files


def _file(path: Path, text: Collection[str]) -> tuple[pandas.DataFrame, list[str]]:
    """The frame in a file, and its labels as the file has them."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _COMPRESSED
    kind = (suffixes[:-1] if packed else suffixes)[-1:]
    if not kind or kind[0] not in (*_TEXTS, *_PARQUET) or (packed and kind[0] in _PARQUET):
        raise ValueError(f"{WHO}: data must be a .csv, .csv.gz, .tsv or .parquet file, got {path.name!r}.")
    if not path.exists():
        others = [other.name for other in path.parent.iterdir() if other.is_file()] if path.parent.is_dir() else []
        close = nearest(path.name, others, cutoff=0.6)
        hint = f" Did you mean {close!r}?" if close else ""
        raise FileNotFoundError(f"{WHO}: data must be a file that exists, got {str(path)!r}.{hint}")
    try:
        if kind[0] in _PARQUET:
            open_regular(path).close()
            frame = pandas.read_parquet(path)
            return frame, [str(label) for label in frame.columns]
        return _text(path, _TEXTS[kind[0]], text)
    except UnfitFile as error:
        raise ValueError(f"{WHO}: {path.name}: {error}") from error
    except MemoryError as error:
        raise ValueError(f"{WHO}: {path.name} must fit into memory, got more. Give fewer rows or columns.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{WHO}: {path.name} must be text in UTF-8, got {error.reason}. Save it as UTF-8.") from error
    except _BROKEN as error:
        raise _unreadable(path, error) from error
    except Exception as error:
        if type(error).__module__.startswith("pyarrow"):
            raise _unreadable(path, error) from error
        raise


def _unreadable(path: Path, error: BaseException) -> ValueError:
    words = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
    return ValueError(f"{WHO}: {path.name} must be a table that can be read, got: {words}. Look at that place in it.")


def _text(path: Path, separator: str | None, text: Collection[str]) -> tuple[pandas.DataFrame, list[str]]:
    header = header_of(path)
    separator = separator or separator_of(header)
    labels = next(csv.reader(io.StringIO(header, newline=""), delimiter=separator))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows that are longer than the header
        types: Any = dict.fromkeys((name for name in _unique(labels) if name in text), str)
        with _lines(path) as lines:
            frame = pandas.read_csv(lines, sep=separator, low_memory=False, index_col=False, dtype=types)
    found = [str(label) for label in frame.columns]
    if len(labels) != len(found):  # names so strange that only the reader of the whole file knows them
        return frame, found
    return frame, [label or name for label, name in zip(labels, found, strict=True)]


@contextlib.contextmanager
def _lines(path: Path) -> Iterator[io.TextIOWrapper]:
    """The text of a file, unpacked while it is read."""
    with open_regular(path) as packed:
        unpack = _COMPRESSED.get(path.suffix.lower())
        binary: Any = _ShortLines(packed if unpack is None else unpack(packed))
        with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as lines:
            yield lines


class _ShortLines(io.BufferedIOBase):
    """The bytes of a table, whose lines may not be so long that they fill the memory: a small archive can hold such."""

    def __init__(self, binary: Any) -> None:
        self._binary, self._length = binary, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        return self.read1(size)

    def read1(self, size: int | None = -1, /) -> bytes:
        data = self._binary.read1(_CHUNK if size is None or size < 0 else size)
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self._length = len(data) - 1 - end + (self._length if end < 0 else 0)
        if self._length > MAX_LINE:
            raise UnfitFile(f"a line must not be longer than {MAX_LINE:,} bytes. Give a table with line breaks.")
        return data


#: bytes of a line, and of all that comes before the rows
MAX_LINE = 10_000_000
_CHUNK = 1 << 16
#: so many empty lines may come before the header, and so many may follow in which an open quote goes on
_MOST_LINES = 100


def header_of(path: Path) -> str:
    """The first line that is not empty, and those after it in which a quoted name goes on."""
    with _lines(path) as lines:
        for line in itertools.islice(lines, _MOST_LINES):
            if line.strip():
                more = itertools.accumulate(itertools.islice(lines, _MOST_LINES), initial=line)
                short = itertools.takewhile(lambda header: len(header) <= MAX_LINE, more)
                return next((header for header in short if header.count('"') % 2 == 0), line)
        what = "an empty file" if next(lines, None) is None else "empty lines"
    raise ValueError(f"{WHO}: {path.name} must have a line with names of columns, got {what}.")


def separator_of(header: str) -> str:
    """What separates the names of columns: the most frequent mark outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max((",", ";", "\t", "|"), key=bare.count)  # the first among equals
