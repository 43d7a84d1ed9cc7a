"""Top-k teachers on disk: safetensors shards with a JSON index, written and read as streams, every byte checksummed.

A record is one row of a :class:`~selmatch.sparse_teachers.TopKTeacher`: k classes, their log-probabilities, and a
correction that keeps their total probability through rounding. :class:`TeacherWriter` appends records,
:class:`TeacherReader` gives any of them back, without loading the rest. Files written by this version load in all later
ones.

A shard holds one safetensors array per part of a record, records on the first axis:

================  =========================  =================================================================
``indices``       uint16 (records, k)        the classes in ascending order, their low 16 bits
``indices_high``  uint8 or uint16, the same  the bits above; only with more than 65,536 classes
``scores``        as chosen, the same        log-probabilities, rounded
``log_sum_exp``   float32 (records,)         what to take off the scores, so that their total probability is kept
``crc32``         uint32 (records,)          checksum of the record: the bytes of the arrays above, in this order
================  =========================  =================================================================
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import operator
import os
import re
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

try:
    import safetensors
    import safetensors.numpy
except ImportError as error:
    raise ImportError(
        'selmatch.teacher_files needs safetensors. Install it with: pip install "selmatch[teachers]".'
    ) from error

from selmatch.batch import mask_of_rows
from selmatch.files import UnfitFile, open_regular, read_json
from selmatch.sparse_teachers import MOST_EXCESS, TopKTeacher
from selmatch.words import printable
from selmatch.writing import drafts_of, replace_file

__all__ = ["TeacherFileError", "TeacherReader", "TeacherWriter"]

#: what an index file calls itself, and the version that this library writes
FORMAT = "selmatch top-k teachers"
VERSION = 1

#: bfloat16 is no choice: float16 has the same size, and more digits for every log-probability above -65504
_DTYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
_FRAMEWORKS = ("numpy", "torch")
#: names of data types in the header of a safetensors file
_CODES = {"u1": "U8", "u2": "U16", "u4": "U32", "f2": "F16", "f4": "F32", "f8": "F64"}
_INDEX = re.compile(r"index(?:-(\d{5,})-of-(\d{5,}))?\.json")
_SHARD = re.compile(r"(?:part-(\d{5,})-)?shard-\d{5,}\.safetensors")
#: classes fit into the int32 of kernels
_MOST_CLASSES = (1 << 31) - 1
#: of a shard
_MOST_BYTES = 1 << 50
#: shards that a reader maps into memory at the same time, each with one open file
_MOST_OPEN = 128
#: records that are looked at together when everything is verified
_BLOCK = 16_384
_DAMAGED = "The file is damaged: copy or write it again"


class TeacherFileError(ValueError):
    """What is wrong with the files of stored teachers, in which file and which of its records.

    Attributes
    ----------
    file : Path or None
        The file.
    record : int or None
        The record within that file, from 0.

    Examples
    --------
    >>> from selmatch.teacher_files import TeacherReader
    >>> TeacherReader("no_such_folder")
    Traceback (most recent call last):
    selmatch.teacher_files.TeacherFileError: index.json: must exist in no_such_folder, got no such file...
    """

    def __init__(self, problem: str, file: Path | None = None, record: int | None = None) -> None:
        self.file, self.record = file, record
        place = [] if file is None else [file.name]
        place += [] if record is None else [f"record {record}"]
        super().__init__(printable(f"{', '.join(place)}: {problem}" if place else problem))


# ------------------------------------------------------------------------------------------------------- the records


@dataclass(frozen=True)
class _Contents:
    """What the records of a folder are."""

    classes: int
    k: int
    dtype: str
    temperature: float

    def problem(self) -> str | None:
        """What is wrong with these numbers, or None."""
        if not _is_whole(self.classes, 1, _MOST_CLASSES):
            return f"classes must be a whole number from 1 to {_MOST_CLASSES}, got {self.classes!r}."
        if not _is_whole(self.k, 1, self.classes):
            return f"k must be a whole number from 1 to {self.classes} (the classes), got {self.k!r}."
        if self.dtype not in tuple(_DTYPES):
            return f"dtype must be {' or '.join(map(repr, _DTYPES))}, got {self.dtype!r}."
        number = isinstance(self.temperature, int | float) and not isinstance(self.temperature, bool)
        if not number or not 0.0 < self.temperature < math.inf:
            return f"temperature must be > 0 and finite, got {self.temperature!r}."
        return None

    def fields(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """The arrays of a shard: for each its data type, and the shape of one record."""
        high = {} if self.classes <= 1 << 16 else {"indices_high": ("|u1" if self.classes <= 1 << 24 else "<u2")}
        kinds = {"indices": "<u2", **high, "scores": _DTYPES[self.dtype], "log_sum_exp": "<f4", "crc32": "<u4"}
        rows = ("log_sum_exp", "crc32")
        return {name: (np.dtype(kind), () if name in rows else (self.k,)) for name, kind in kinds.items()}


_CONTENTS_KEYS = tuple(_Contents.__annotations__)


def _encoded(indices: np.ndarray, scores: np.ndarray, level: np.ndarray, contents: _Contents) -> dict[str, np.ndarray]:
    """Records as the arrays of a shard."""
    parts = {"indices": indices & 0xFFFF, "indices_high": indices >> 16, "scores": scores, "log_sum_exp": level}
    fields = contents.fields()
    kept = {name: parts[name].astype(fields[name][0]) for name in fields if name != "crc32"}
    return {**kept, "crc32": _checksums(kept)}


def _decoded(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices, scores and log-sum-exps of records."""
    indices = arrays["indices"].astype(np.int32)
    if "indices_high" in arrays:
        indices |= arrays["indices_high"].astype(np.int32) << 16
    return indices, arrays["scores"], arrays["log_sum_exp"]


def _rounded(log_probabilities: np.ndarray, log_total: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Rounded log-probabilities, and what to take off them so that their total probability is what it was.

    Without it the probability that is left for the classes that are not stored, a small difference of large numbers,
    would be lost in the rounding.
    """
    with np.errstate(over="ignore"):  # what overflows is refused by name afterwards
        scores = log_probabilities.astype(_DTYPES[dtype])
    return scores, _log_total(scores) - log_total


def _log_total(log_probabilities: np.ndarray) -> np.ndarray:
    """The logarithm of the sum of the probabilities of each record."""
    wide = log_probabilities.astype(np.float64)
    top = wide.max(axis=-1)
    with np.errstate(invalid="ignore"):  # rows that overflowed in rounding
        return top + np.log(np.exp(wide - top[:, None]).sum(axis=-1))


def _checksums(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """One for each record: CRC-32 of its bytes, array after array."""
    parts = [a if a.ndim == 2 else a[:, None] for name, a in arrays.items() if name != "crc32"]
    packed = np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)
    width, data = packed.shape[1], packed.tobytes()
    return np.array([zlib.crc32(data[at : at + width]) for at in range(0, len(data), width)], dtype="<u4")


def _first_problem(indices: np.ndarray, scores: np.ndarray, level: np.ndarray, classes: int) -> tuple[int, str] | None:
    """The first record that is none, and what is wrong with it."""
    good = (indices[:, 0] >= 0) & (indices[:, -1] < classes) & (indices[:, 1:] > indices[:, :-1]).all(axis=1)
    good &= np.isfinite(scores).all(axis=1) & np.isfinite(level)
    if good.all():
        return None
    row = int(np.argmin(good))
    return row, _problem_of(indices[row], scores[row], level[row], classes)


def _problem_of(indices: np.ndarray, scores: np.ndarray, level: np.floating, classes: int) -> str:
    outside = indices[(indices < 0) | (indices >= classes)]
    if outside.size:
        return f"index {outside[0]} must be " + ("at least 0." if outside[0] < 0 else f"below {classes}.")
    values, counts = np.unique(indices, return_counts=True)
    if counts.max() > 1:
        return f"index {values[counts > 1][0]} must occur once, got it {counts[counts > 1][0]} times."
    for name, numbers in (("log-probabilities", scores), ("log_sum_exp", np.atleast_1d(level))):
        if not np.isfinite(numbers).all():
            return f"{name} must be finite, got {numbers[~np.isfinite(numbers)][0]}."
    at = int(np.argmax(indices[1:] < indices[:-1]))
    return f"indices must be in ascending order, got {indices[at]} before {indices[at + 1]}."


# --------------------------------------------------------------------------------------------------------- the index


@dataclass(frozen=True)
class _Shard:
    file: str
    records: int
    bytes: int
    sha256: str


_SHARD_KEYS = tuple(_Shard.__annotations__)


@dataclass
class _Index:
    """The JSON file of a folder, or of one of its parts."""

    contents: _Contents
    metadata: dict[str, str]
    part: int = 0
    parts: int = 1
    complete: bool = False
    shards: list[_Shard] = field(default_factory=list)

    @property
    def file(self) -> str:
        return _index_file(self.part, self.parts)

    @property
    def records(self) -> int:
        return sum(shard.records for shard in self.shards)

    def write(self, folder: Path) -> bytes:
        """Put the file into a folder; gives its bytes."""
        document = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(self.contents)}
        document |= {"metadata": self.metadata, "part": self.part, "parts": self.parts, "complete": self.complete}
        document |= {"records": self.records, "shards": [dataclasses.asdict(shard) for shard in self.shards]}
        data = json.dumps(document | {"sha256": _checksum_of(document)}, indent=1).encode()
        replace_file(folder / self.file, data)
        return data


def _checksum_of(document: dict[str, Any]) -> str:
    """SHA-256 of what an index says, however it is laid out; files of the first release have none."""
    said = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _index_file(part: int, parts: int) -> str:
    return "index.json" if parts == 1 else f"index-{part:05d}-of-{parts:05d}.json"


def _shard_file(part: int, parts: int, number: int) -> str:
    return ("" if parts == 1 else f"part-{part:05d}-") + f"shard-{number:05d}.safetensors"


def _read_index(path: Path) -> _Index:
    """The index in a file; all of it is checked."""
    try:
        document = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        raise TeacherFileError(
            f"must exist in {path.parent}, got no such file. Is it a folder that TeacherWriter made?", path
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnfitFile as error:
        raise TeacherFileError(str(error), path) from error
    problem = _problem_of_document(document, path.name)
    if problem:
        raise TeacherFileError(problem, path)
    shards = [_Shard(*(shard[name] for name in _SHARD_KEYS)) for shard in document["shards"]]
    notes = {name: document[name] for name in ("metadata", "part", "parts", "complete")}
    return _Index(_contents_of(document), **notes, shards=shards)


def _contents_of(document: dict[str, Any]) -> _Contents:
    found: dict[str, Any] = {name: document.get(name) for name in _CONTENTS_KEYS}
    return _Contents(**found)


def _problem_of_document(document: Any, file: str) -> str | None:
    """What is wrong with the contents of an index file of this name, or None."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        got = document.get("format") if isinstance(document, dict) else type(document).__name__
        return f"format must be {FORMAT!r}, got {got!r}."
    version = document.get("version")
    if not _is_whole(version, 1):
        return f"version must be a whole number >= 1, got {version!r}."
    if version > VERSION:
        return f"version must be at most {VERSION}, got {version}. Install a newer selmatch."
    problem = _contents_of(document).problem() or _problem_of_notes(document, file) or _problem_of_shards(document)
    if problem is None and document.get("sha256", _checksum_of(document)) != _checksum_of(document):
        return f"must be as it was written, got another checksum. {_DAMAGED}."
    return problem


def _problem_of_notes(document: dict[str, Any], file: str) -> str | None:
    metadata, complete = document.get("metadata"), document.get("complete")
    if not _is_strings(metadata):
        return f"metadata must be a dictionary of strings, got {metadata!r}."
    if not isinstance(complete, bool):
        return f"complete must be true or false, got {complete!r}."
    part, parts = document.get("part"), document.get("parts")
    if not _is_whole(parts, 1) or not _is_whole(part, 0, parts - 1) or _index_file(part, parts) != file:
        return f"part and parts must be those of the file's name, got {part!r} of {parts!r}."
    return None


def _problem_of_shards(document: dict[str, Any]) -> str | None:
    shards, records = document.get("shards"), document.get("records")
    if not isinstance(shards, list):
        return f"shards must be a list, got {shards!r}."
    for number, shard in enumerate(shards):
        if not _is_shard(shard, _shard_file(document["part"], document["parts"], number)):
            return f"shards[{number}] must have its own file, records, bytes and sha256, got {shard!r}."
    if records != sum(shard["records"] for shard in shards):
        return f"records must be the sum over the shards, got {records!r}."
    return None


def _is_shard(shard: Any, file: str) -> bool:
    """Whether an entry describes this file: an index names nothing outside its folder."""
    if not isinstance(shard, dict) or shard.get("file") != file:
        return False
    whole = all(_is_whole(shard.get(name), 1, _MOST_BYTES) for name in ("records", "bytes"))
    return whole and re.fullmatch(r"[0-9a-f]{64}", str(shard.get("sha256"))) is not None


def _is_strings(metadata: Any) -> bool:
    return isinstance(metadata, Mapping) and all(isinstance(x, str) for pair in metadata.items() for x in pair)


def _is_whole(x: Any, low: int, high: float = math.inf) -> TypeGuard[int]:
    return isinstance(x, int) and not isinstance(x, bool) and low <= x <= high


def _whole(x: Any) -> Any:
    """An integer of any library as one of Python's; anything else stays, to be refused by its name."""
    try:
        return x if isinstance(x, bool) else operator.index(x)
    except TypeError:
        return x


def _real(x: Any) -> Any:
    """A number of NumPy as one of Python's; anything else stays, to be refused by its name."""
    return float(x) if isinstance(x, np.integer | np.floating) else x


def _indexes_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("index*.json") if _INDEX.fullmatch(path.name))


def _unreadable(path: Path, error: OSError) -> TeacherFileError:
    return TeacherFileError(f"must be a file that can be read, got {error}.", path)


def _check_size(path: Path, shard: _Shard) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise TeacherFileError(
            f"must exist in {path.parent} ({shard.records} records), got no such file. Copy or write it again.", path
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    if size != shard.bytes:
        what = "truncated" if size < shard.bytes else "not the one that was written"
        raise TeacherFileError(f"must have {shard.bytes} bytes, got {size}. The file is {what}: write it again.", path)


# ------------------------------------------------------------------------------------------------------------ writing


class TeacherWriter:
    """Stores top-k teachers in a folder, as many as come, in files of bounded size.

    Use it in a ``with`` block. Every shard and the index after it appear in one step each: after a crash the folder can
    be read, and all but the records since the last index are there; ``append=True`` goes on behind them. Threads may
    share a writer.

    Parameters
    ----------
    folder : path
        Made if it does not exist.
    classes : int
        The number of all classes (the size of the vocabulary).
    k : int
        How many of them each record holds.
    dtype : str, optional
        Of the stored log-probabilities: ``"float16"`` (each is off by at most 0.05 % of itself), ``"float32"`` (single
        precision comes back bit for bit) or ``"float64"``.
    temperature : float, optional
        By which the teacher's scores were divided before. Only noted.
    metadata : dict of strings, optional
        Whatever the reader should know: which teacher, which data.
    rows_per_shard : int, optional
        Records of a file; those that are not yet written wait in memory.
    append : bool, optional
        Go on behind the records that are there; a folder without any is started.
    overwrite : bool, optional
        Remove the teachers that are there (this part of them); other files stay.
    part, parts : int, optional
        Several processes write one folder, each its own part; readers join them in the order of their numbers.

    Examples
    --------
    >>> import tempfile
    >>> from selmatch.sparse_teachers import MOST_EXCESS, TopKTeacher
    >>> folder = tempfile.mkdtemp()
    >>> with TeacherWriter(folder, classes=4, k=2) as writer:
    ...     writer.write(TopKTeacher.from_scores(np.log([[0.5, 0.1, 0.3, 0.1]]), k=2))
    range(0, 1)
    >>> TeacherReader(folder)[0].indices
    array([0, 2], dtype=int32)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        classes: int,
        k: int,
        *,
        dtype: str = "float16",
        temperature: float = 1.0,
        metadata: Mapping[str, str] | None = None,
        rows_per_shard: int = 65_536,
        append: bool = False,
        overwrite: bool = False,
        part: int = 0,
        parts: int = 1,
    ) -> None:
        contents = _Contents(_whole(classes), _whole(k), dtype, _real(temperature))
        rows_per_shard, part, parts = _whole(rows_per_shard), _whole(part), _whole(parts)
        notes = {} if metadata is None else metadata
        _check_arguments(contents, notes, rows_per_shard, append and overwrite, part, parts)
        self.folder, self.rows_per_shard = Path(folder), rows_per_shard
        _make_folder(self.folder)
        index = _Index(contents, dict(notes), part, parts)
        _make_room(self.folder, index, append, overwrite)
        if append and (self.folder / index.file).exists():
            index = _continued(self.folder, index, metadata is not None)
        self._index, self._closed = index, False
        #: records that are not yet in a shard: arrays of each call, and their number
        self._waiting: list[dict[str, np.ndarray]] = []
        self._count = 0
        self._lock = threading.Lock()
        #: the file of the index as this writer left it
        self._left = index.write(self.folder)

    def __repr__(self) -> str:
        contents = self._index.contents
        return f"TeacherWriter({self.records} records, {contents.k} of {contents.classes} classes, {self.folder})"

    @property
    def records(self) -> int:
        """How many there are so far, in this part of the folder and waiting."""
        with self._lock:
            return self._index.records + self._count

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {**self.__dict__, "_waiting": list(self._waiting), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def write(self, teacher: TopKTeacher, where: Any = None) -> range:
        """Store the rows of a teacher, in their order; gives the numbers of their records in this part of the folder.

        All rows or, with an error, none: the same call can be tried again. Rows of earlier calls stay.

        Parameters
        ----------
        teacher : TopKTeacher
            With any number of rows, of any shape.
        where : array of bool, optional
            Of the shape of the rows: those that are stored, for example all that are no padding.
        """
        arrays = _encoded(*self._rows_of(teacher, where), self._index.contents)
        with self._lock:
            if self._closed:
                raise ValueError("TeacherWriter: must be open to write, got a closed one. Use append=True to go on.")
            first, count = self._index.records + self._count, self._count + len(arrays["crc32"])
            written = range(first, first + count - self._count)
            if count < self.rows_per_shard:
                self._waiting.append(arrays)
                self._count = count
            else:
                self._write_shards([*self._waiting, arrays], count - count % self.rows_per_shard)
        return written

    def _rows_of(self, teacher: TopKTeacher, where: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices, rounded scores and corrections of the rows to store."""
        contents = self._index.contents
        if not isinstance(teacher, TopKTeacher):
            raise TypeError(f"TeacherWriter: expected a TopKTeacher, got {type(teacher).__name__}.")
        if (teacher.classes, teacher.k) != (contents.classes, contents.k):
            raise ValueError(
                f"TeacherWriter: teacher must have {contents.k} of {contents.classes} classes, "
                f"got {teacher.k} of {teacher.classes}. Other teachers need a folder of their own."
            )
        shape = tuple(teacher.log_sum_exp.shape)
        rows = _chosen_rows(where, shape)
        indices = _numpy(teacher.indices).reshape(-1, contents.k)[rows]
        log_probabilities = _numpy(teacher.log_probabilities).reshape(-1, contents.k)[rows]
        _check_rows(_first_problem(indices, log_probabilities, np.zeros(len(indices)), contents.classes), rows, shape)
        log_total = _log_total(log_probabilities)
        _check_rows(_first_excess(log_total), rows, shape)
        scores, level = _rounded(log_probabilities, log_total, contents.dtype)
        _check_rows(_first_overflow(scores, log_probabilities, contents.dtype), rows, shape)
        return indices, scores, level

    def _write_shards(self, waiting: list[dict[str, np.ndarray]], records: int) -> None:
        """Write so many of the waiting records; the others wait on.

        Nothing has happened before the index names all new shards: files without it are written again.
        """
        self._check_alone()
        joined = {name: np.concatenate([part[name] for part in waiting]) for name in waiting[0]}
        shards = list(self._index.shards)
        for start in range(0, records, self.rows_per_shard):
            stop = min(start + self.rows_per_shard, records)
            shards.append(self._write_shard(len(shards), {name: array[start:stop] for name, array in joined.items()}))
        rest = {name: array[records:].copy() for name, array in joined.items()}
        grown = dataclasses.replace(self._index, shards=shards)
        self._check_alone()
        self._left = grown.write(self.folder)
        self._index, self._waiting, self._count = grown, [rest], len(rest["crc32"])

    def _check_alone(self) -> None:
        """Refuse to write where somebody else has written, rather than to lose the records of both."""
        path = self.folder / self._index.file
        if not path.is_file() or path.read_bytes() != self._left:
            raise TeacherFileError(
                "must be as this writer left it, got another one. Another writer works on this part of the folder: "
                "give each its own part, or let one go on behind the other with append=True.",
                path,
            )

    def _write_shard(self, number: int, arrays: dict[str, np.ndarray]) -> _Shard:
        index = self._index
        notes = {"format": FORMAT, "classes": str(index.contents.classes), "k": str(index.contents.k)}
        data = safetensors.numpy.save(arrays, notes)
        name = _shard_file(index.part, index.parts, number)
        for draft in drafts_of(self.folder / name):  # nobody else writes this shard
            draft.unlink(missing_ok=True)
        replace_file(self.folder / name, data)
        return _Shard(name, len(arrays["crc32"]), len(data), hashlib.sha256(data).hexdigest())

    def close(self) -> None:
        """Write what waits, and note that the teachers are complete."""
        self._finish(complete=True)

    def _finish(self, *, complete: bool) -> None:
        with self._lock:
            if self._closed:
                return
            if self._count:
                self._write_shards(self._waiting, self._count)
            self._check_alone()
            if complete:
                self._remove_leftovers()
            dataclasses.replace(self._index, complete=complete).write(self.folder)
            self._closed = True

    def _remove_leftovers(self) -> None:
        """Shards of a writer that was cut off before its index named them."""
        listed = {shard.file for shard in self._index.shards}
        for path in _shards_of(self.folder, self._index):
            if path.name not in listed:
                path.unlink()

    def __enter__(self) -> TeacherWriter:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._finish(complete=kind is None)


def _check_arguments(
    contents: _Contents, metadata: Any, rows_per_shard: Any, both: bool, part: Any, parts: Any
) -> None:
    problem = contents.problem()
    if problem is None and not _is_strings(metadata):
        problem = f"metadata must be a dictionary of strings, got {metadata!r}."
    if problem is None and not _is_whole(rows_per_shard, 1):
        problem = f"rows_per_shard must be a whole number >= 1, got {rows_per_shard!r}."
    if problem is None and (not _is_whole(parts, 1) or not _is_whole(part, 0, parts - 1)):
        problem = f"part must be a whole number from 0 to parts - 1, got part={part!r}, parts={parts!r}."
    if problem is None and both:
        problem = "append and overwrite must not both be True."
    if problem is not None:
        raise ValueError(f"TeacherWriter: {problem}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileExistsError(
            f"TeacherWriter: folder must be a folder, got {folder}, which is a file or a broken link. Take another."
        ) from None


def _make_room(folder: Path, index: _Index, append: bool, overwrite: bool) -> None:
    """Remove what is to be overwritten; refuse a folder with teachers that nobody spoke of."""
    own = folder / index.file
    others = [path for path in _indexes_of(folder) if path != own and not _is_sibling(path, index.parts)]
    if others and (index.parts > 1 or not overwrite):
        raise FileExistsError(
            f"TeacherWriter: folder must hold no teachers in another number of parts, got {others[0]}. "
            "Take another folder."
        )
    if overwrite:
        for path in (own, *others):  # first: an index never names files that are gone
            path.unlink(missing_ok=True)
        for path in _shards_of(folder, None if index.parts == 1 else index):
            path.unlink()
    elif own.exists() and not append:
        raise FileExistsError(
            f"TeacherWriter: folder must hold no teachers yet, got {own}. "
            "Go on behind them with append=True, or remove them with overwrite=True."
        )
    elif not own.exists() and (shards := _shards_of(folder, index)):
        raise FileExistsError(
            f"TeacherWriter: folder must hold no teachers yet, got {shards[0]} without {own.name}. "
            "Put the index back, or remove them with overwrite=True."
        )


def _shards_of(folder: Path, index: _Index | None) -> list[Path]:
    """The shards in a folder that belong to an index by their name, or to any."""
    found = {path: _SHARD.fullmatch(path.name) for path in sorted(folder.glob("*.safetensors"))}
    part = None if index is None or index.parts == 1 else f"{index.part:05d}"
    return [path for path, name in found.items() if name is not None and (index is None or name[1] == part)]


def _is_sibling(index: Path, parts: int) -> bool:
    """Whether the index belongs to the same number of parts."""
    name = _INDEX.fullmatch(index.name)
    return name is not None and (name[2] is None) == (parts == 1) and int(name[2] or 1) == parts


def _continued(folder: Path, wanted: _Index, with_metadata: bool) -> _Index:
    """The index that is there, if its records are of the wanted kind and its files are there too."""
    index = _read_index(folder / wanted.file)
    for name, stored in dataclasses.asdict(index.contents).items():
        given = getattr(wanted.contents, name)
        if given != stored:
            raise ValueError(f"TeacherWriter: {name} must be {stored!r} as in {folder}, got {given!r}.")
    if with_metadata and wanted.metadata != index.metadata:
        raise ValueError(
            f"TeacherWriter: metadata must be {index.metadata!r} as in {folder}, got {wanted.metadata!r}. "
            "Leave it out to keep what is there."
        )
    for shard in index.shards:
        _check_size(folder / shard.file, shard)
    index.complete = False
    return index


def _numpy(x: Any) -> np.ndarray:
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)


def _chosen_rows(where: Any, shape: tuple[int, ...]) -> np.ndarray:
    if where is None:
        return np.arange(math.prod(shape))
    chosen = mask_of_rows(_numpy(where), shape)
    if chosen.dtype != bool or chosen.shape != shape:
        raise ValueError(
            f"TeacherWriter: where must be bool of shape {shape} (the rows), got {chosen.dtype} {chosen.shape}."
        )
    return np.flatnonzero(chosen)


def _check_rows(problem: tuple[int, str] | None, rows: np.ndarray, shape: tuple[int, ...]) -> None:
    if problem is not None:
        place = tuple(int(at) for at in np.unravel_index(rows[problem[0]], shape))
        name = f"row {place[0] if len(place) == 1 else place} of the teacher"
        raise ValueError(f"TeacherWriter: {name}: {problem[1]}")


def _first_excess(log_total: np.ndarray) -> tuple[int, str] | None:
    """The first row whose stored classes have more than the whole probability."""
    beyond = log_total > math.log1p(MOST_EXCESS)
    if not beyond.any():
        return None
    row = int(np.argmax(beyond))
    return row, (
        f"the stored probabilities must add up to at most 1, got exp({log_total[row]:.4g}). "
        "Is log_sum_exp that of the same scores, over all classes?"
    )


def _first_overflow(scores: np.ndarray, exact: np.ndarray, dtype: str) -> tuple[int, str] | None:
    """The first row that the data type cannot hold."""
    beyond = ~np.isfinite(scores).all(axis=1)
    if not beyond.any():
        return None
    row = int(np.argmax(beyond))
    return row, f"log-probabilities must fit into {dtype}, got {exact[row].min():.6g}. Take dtype='float32'."


# ------------------------------------------------------------------------------------------------------------ reading


class TeacherReader:
    """Reads stored teachers: any records, at any time, without loading the others.

    ``reader[i]`` is one record, ``reader[i:j]`` some, ``reader[records]`` those of an array of numbers, in its shape:
    numbers of shape (batch, tokens) give a teacher with such rows. Pickled (for the workers of a DataLoader), it opens
    its files again there.

    Parameters
    ----------
    folder : path
        What :class:`TeacherWriter` made, all parts of it.
    framework : str, optional
        ``"numpy"`` or ``"torch"``: what the teachers are made of.
    verify : bool, optional
        Compare each file with its checksum when it is first used, about a second for a gigabyte. Indices and scores
        are checked whenever they are read.

    Attributes
    ----------
    classes, k, dtype, temperature
        As they were written.
    metadata : dict of strings
        As it was written; all parts must have the same.
    complete : bool
        Whether all writers came to their end; otherwise the last records are missing.
    parts : list of range
        The records of each part.

    Examples
    --------
    >>> import tempfile
    >>> from selmatch.sparse_teachers import MOST_EXCESS, TopKTeacher
    >>> folder, scores = tempfile.mkdtemp(), np.random.default_rng(0).normal(size=(10, 50))
    >>> with TeacherWriter(folder, classes=50, k=4, metadata={"teacher": "noise"}) as writer:
    ...     numbers = writer.write(TopKTeacher.from_scores(scores, k=4))
    >>> reader = TeacherReader(folder)
    >>> reader
    TeacherReader(10 records, 4 of 50 classes, ...)
    >>> reader[2:5]
    TopKTeacher(4 of 50 classes, rows (3,))
    >>> for records, teacher in reader.batches(4):
    ...     print(records, teacher)
    [0 1 2 3] TopKTeacher(4 of 50 classes, rows (4,))
    [4 5 6 7] TopKTeacher(4 of 50 classes, rows (4,))
    [8 9] TopKTeacher(4 of 50 classes, rows (2,))
    """

    def __init__(self, folder: str | os.PathLike[str], *, framework: str = "numpy", verify: bool = True) -> None:
        if framework not in _FRAMEWORKS:
            raise ValueError(f"TeacherReader: framework must be 'numpy' or 'torch', got {framework!r}.")
        if framework == "torch":
            _import_torch()
        self.folder, self.framework, self._verifies = Path(folder), framework, verify
        indexes = _all_parts(self.folder)
        first = indexes[0]
        self._contents, self.metadata = first.contents, dict(first.metadata)
        self.classes, self.k = first.contents.classes, first.contents.k
        self.dtype, self.temperature = first.contents.dtype, first.contents.temperature
        self.complete = all(index.complete for index in indexes)
        ends = np.cumsum([index.records for index in indexes]).tolist()
        self.parts = [range(end - index.records, end) for index, end in zip(indexes, ends, strict=True)]
        self._shards = [shard for index in indexes for shard in index.shards]
        self._starts = np.cumsum([0, *(shard.records for shard in self._shards)])
        #: where the arrays of a shard begin in its file: known once the shard has been checked
        self._offsets: dict[int, dict[str, int]] = {}
        self._mapped: dict[int, dict[str, np.ndarray]] = {}

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        return f"TeacherReader({len(self)} records, {self.k} of {self.classes} classes, {self.folder}{state})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, records: Any) -> TopKTeacher:
        numbers = self._numbers(records)
        indices, scores, level = _decoded(self._read(numbers.ravel()))
        rows = (*numbers.shape, self.k)
        return self._teacher(indices.reshape(rows), scores.reshape(rows), level.reshape(numbers.shape))

    def __getitems__(self, records: list[int]) -> TopKTeacher:
        """One teacher for a whole batch: what a DataLoader of PyTorch asks for."""
        return self[np.asarray(records, dtype=np.int64)]

    def __iter__(self) -> Iterator[TopKTeacher]:
        return (self[record] for record in range(len(self)))

    def batches(
        self, size: int, *, seed: int | None = None, drop_last: bool = False
    ) -> Iterator[tuple[Any, TopKTeacher]]:
        """All records, so many at once: their numbers and their teacher.

        Parameters
        ----------
        size : int
            Records of a batch.
        seed : int, optional
            Shuffle all records; without it they come in their order.
        drop_last : bool, optional
            Leave out a last batch that is smaller.
        """
        size = _whole(size)
        if not _is_whole(size, 1):
            raise ValueError(f"TeacherReader: size must be a whole number >= 1, got {size!r}.")
        order = None if seed is None else np.random.default_rng(seed).permutation(len(self))
        stop = len(self) - len(self) % size if drop_last else len(self)
        return (self._batch(order, start, min(start + size, stop)) for start in range(0, stop, size))

    def verify(self) -> None:
        """Compare all files with their checksums and look at every record; an error names the first that is wrong."""
        for number, shard in enumerate(self._shards):
            self._mapped.pop(number, None)
            self._offsets[number] = self._checked(number, with_checksum=True)
            for start in range(0, shard.records, _BLOCK):
                self._read_shard(number, np.arange(start, min(start + _BLOCK, shard.records)))
            self._check_records(number, self._offsets[number])

    def _batch(self, order: np.ndarray | None, start: int, stop: int) -> tuple[Any, TopKTeacher]:
        numbers = np.arange(start, stop) if order is None else order[start:stop]
        teacher = self[numbers]
        return (_import_torch().from_numpy(numbers.copy()) if self.framework == "torch" else numbers), teacher

    def _teacher(self, indices: np.ndarray, scores: np.ndarray, level: np.ndarray) -> TopKTeacher:
        if self.framework == "torch":
            torch = _import_torch()
            return TopKTeacher(
                torch.from_numpy(indices), torch.from_numpy(scores), torch.from_numpy(level), self.classes
            )
        return TopKTeacher(indices, scores, level, self.classes)

    def _numbers(self, records: Any) -> np.ndarray:
        """Records that were asked for, as numbers from 0."""
        if isinstance(records, slice):
            return np.arange(*records.indices(len(self)))
        numbers = np.asarray(records)
        if numbers.dtype == bool or (numbers.size and numbers.dtype.kind not in "iu"):
            raise TypeError(
                f"TeacherReader: records must be a whole number, a slice or an array of whole numbers, "
                f"got {numbers.dtype}. For a mask use numpy.flatnonzero(mask)."
            )
        outside = (numbers < -len(self)) | (numbers >= len(self))
        if outside.any() and not len(self):
            raise IndexError(
                f"TeacherReader: folder must hold records to read one, got no records in {self.folder}. "
                "Was anything written, and the writer closed?"
            )
        if outside.any():
            raise IndexError(
                f"TeacherReader: records must be from {-len(self)} to {len(self) - 1}, got {numbers[outside][0]}."
            )
        numbers = numbers.astype(np.int64)
        return np.where(numbers < 0, numbers + len(self), numbers)

    def _read(self, records: np.ndarray) -> dict[str, np.ndarray]:
        """Records in the order of their numbers; every shard is asked once."""
        shards = np.searchsorted(self._starts, records, side="right") - 1
        found = {
            name: np.empty((len(records), *shape), kind) for name, (kind, shape) in self._contents.fields().items()
        }
        for number in np.unique(shards).tolist():
            here = shards == number
            for name, values in self._read_shard(number, records[here] - self._starts[number]).items():
                found[name][here] = values
        return found

    def _read_shard(self, number: int, records: np.ndarray) -> dict[str, np.ndarray]:
        """Records of one shard, checked."""
        found = {name: array[records] for name, array in self._arrays(number).items()}
        indices, scores, level = _decoded(found)
        problem = _first_problem(indices, scores, level, self.classes)
        if problem is None and not self._verifies:  # writers refuse it, so that a checksum tells as well
            problem = _first_excess(_log_total(scores) - level)
        if problem is not None:
            raise TeacherFileError(f"{problem[1]} {_DAMAGED}.", self._path(number), int(records[problem[0]]))
        return found

    def _path(self, number: int) -> Path:
        return self.folder / self._shards[number].file

    def _arrays(self, number: int) -> dict[str, np.ndarray]:
        """The arrays of a shard, in the file: what is not asked for is not read."""
        arrays = self._mapped.get(number)
        if arrays is None:
            if number not in self._offsets:
                self._offsets[number] = self._checked(number, with_checksum=self._verifies)
            arrays = self._mapped[number] = self._map(number, self._offsets[number])
            while len(self._mapped) > _MOST_OPEN:
                self._mapped.pop(next(iter(self._mapped)), None)
        return arrays

    def _map(self, number: int, offsets: dict[str, int]) -> dict[str, np.ndarray]:
        raw, records = self._raw(number), self._shards[number].records
        return {
            name: np.ndarray((records, *shape), kind, buffer=raw, offset=offsets[name])
            for name, (kind, shape) in self._contents.fields().items()
        }

    def _raw(self, number: int) -> np.ndarray:
        path = self._path(number)
        _check_size(path, self._shards[number])
        try:
            with open_regular(path) as file:
                return np.memmap(file, dtype=np.uint8, mode="r")
        except UnfitFile as error:
            raise TeacherFileError(str(error), path) from error
        except OSError as error:
            raise _unreadable(path, error) from error

    def _checked(self, number: int, *, with_checksum: bool) -> dict[str, int]:
        """Where the arrays of a shard begin, once its file is what the index says."""
        path, shard = self._path(number), self._shards[number]
        raw = self._raw(number)
        got = hashlib.sha256(raw.data).hexdigest() if with_checksum else shard.sha256
        offsets = _array_offsets(path, raw, self._contents, shard.records)
        if got != shard.sha256:
            self._check_records(number, offsets)
            raise TeacherFileError(f"SHA-256 must be {shard.sha256}, got {got}. {_DAMAGED}.", path)
        return offsets

    def _check_records(self, number: int, offsets: dict[str, int]) -> None:
        """Raise an error for the first record that is not as it was written, if there is one."""
        arrays = self._map(number, offsets)
        for start in range(0, self._shards[number].records, _BLOCK):
            block = {name: array[start : start + _BLOCK] for name, array in arrays.items()}
            right = _checksums(block) == block["crc32"]
            if not right.all():
                raise TeacherFileError(
                    f"must be as it was written, got another checksum. {_DAMAGED}.",
                    self._path(number),
                    start + int(np.argmin(right)),
                )


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "TeacherReader: framework='torch' needs PyTorch. Install it with: pip install \"selmatch[torch]\"."
        ) from error
    return torch


def _all_parts(folder: Path) -> list[_Index]:
    """The indexes of a folder, one for each part, which must agree."""
    paths = _indexes_of(folder) or [folder / "index.json"]
    indexes = [_read_index(path) for path in paths]
    first = indexes[0]
    for path, index in zip(paths, indexes, strict=True):
        for name in ("parts", "contents", "metadata"):
            if getattr(index, name) != getattr(first, name):
                raise TeacherFileError(
                    f"{name} must be {getattr(first, name)!r} as in {first.file}, got {getattr(index, name)!r}.", path
                )
        listed = {shard.file for shard in index.shards}
        more = [found.name for found in _shards_of(folder, index) if found.name not in listed]
        if index.complete and more:
            raise TeacherFileError(
                f"must list all shards of complete teachers, got {more[0]} beside {len(listed)} others. "
                "Is the index an older one?",
                path,
            )
    missing = sorted(set(range(first.parts)) - {index.part for index in indexes})
    if missing:
        path = folder / dataclasses.replace(first, part=missing[0]).file
        raise TeacherFileError(f"must exist in {folder}, got {len(indexes)} of {first.parts} parts.", path)
    return indexes


def _array_offsets(path: Path, raw: np.ndarray, contents: _Contents, records: int) -> dict[str, int]:
    """Where each array begins in a safetensors file, if the file holds what the index says."""
    try:
        with safetensors.safe_open(path, framework="np") as opened:  # reads and checks the header, nothing else
            notes = opened.metadata() or {}
    except (safetensors.SafetensorError, OSError) as error:
        raise TeacherFileError(
            f"must be a safetensors file, got something else ({error}). {_DAMAGED}.", path
        ) from error
    for name in ("classes", "k"):
        if notes.get(name) != str(getattr(contents, name)):
            raise TeacherFileError(
                f"{name} must be {getattr(contents, name)} as in the index, got {notes.get(name)}.", path
            )
    length = int.from_bytes(raw[:8].tobytes(), "little")
    header = json.loads(raw[8 : 8 + length].tobytes())
    offsets = {}
    for name, (kind, shape) in contents.fields().items():
        wanted = (_CODES[kind.str[1:]], [records, *shape])
        entry = header.get(name) or {}
        if (entry.get("dtype"), entry.get("shape")) != wanted:
            got = f"{entry['dtype']} {entry['shape']}" if entry else "none"
            raise TeacherFileError(f"{name} must be {wanted[0]} {wanted[1]}, got {got}.", path)
        offsets[name] = 8 + length + entry["data_offsets"][0]
    return offsets
