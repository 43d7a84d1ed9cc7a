"""What finished fits left, kept in files: a run that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import selmatch
from selmatch.writing import replace_file

_log = logging.getLogger("selmatch.comparison")

#: the folder of finished fits inside the folder of a report
JOURNAL = "selmatch-journal"
#: raise it when fits change their meaning
_SCHEMA = 3
#: of a file: criterion and rounds; then come the scores, and the checksum
_NUMBERS = struct.Struct("<dq")
_CHECKSUM = hashlib.sha256


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a fit left.

    Attributes
    ----------
    test, valid : array of float
        Scores of the tested and of the validation rows.
    criterion : float
        By which the settings of a contender are compared, low is good: the selective loss of the validation rows, or
        for contenders without a unit their own.
    rounds : int
        Of a booster, up to the best; 0 for a linear model.
    """

    test: np.ndarray
    valid: np.ndarray
    criterion: float
    rounds: int

    @property
    def is_finite(self) -> bool:
        """Whether all scores are finite, and it can be compared."""
        return bool(np.isfinite(self.test).all() and np.isfinite(self.valid).all()) and not math.isnan(self.criterion)


def fingerprint(rows: str, asked: Mapping[str, Any], packages: tuple[str, ...]) -> str:
    """The name of a question to certain rows, answered by certain versions."""
    versions = {name: _version(name) for name in ("numpy", *packages)}
    return digest([_SCHEMA, rows, asked, selmatch.__version__, versions])


def digest(value: Any) -> str:
    """A short name for something that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # XGBoost comes under two names
        return "unknown"


def home(folder: str | os.PathLike[str], name: str) -> Path:
    """Where a run keeps its fits: in a folder of their own beside the report; where it has begun without, there."""
    folder = Path(folder)
    return folder if (folder / name).is_dir() else folder / JOURNAL


class Journal:
    """A folder of outcomes, one small file for each fit; without a folder nothing is kept.

    A file begins with the question and the fit that it belongs to, and ends with a checksum: one that was damaged, or
    put in the place of another, is never taken for an outcome.

    Parameters
    ----------
    folder : path or None
        Where to keep files.
    name : str
        The fingerprint of what is asked.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, name: str) -> None:
        self.folder = None if folder is None else Path(folder) / name
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str, tested: int, validated: int) -> Outcome | None:
        """What a fit left, if it was finished and its file is whole.

        Parameters
        ----------
        name : str
            Of the fit.
        tested, validated : int
            How many rows it has predicted.
        """
        if self.folder is None:
            return None
        path = self.folder / f"{name}.fit"
        try:
            return _unpacked(_read_exactly(path, _length(path, tested + validated)), path, tested)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("compare: %s is broken and will be made again: %s", path.name, error)
            return None

    def write(self, name: str, outcome: Outcome) -> None:
        """Keep what a fit left."""
        if self.folder is None:
            return
        path = self.folder / f"{name}.fit"
        for last in (False, False, True):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                return replace_file(path, _packed(path, outcome))
            except FileNotFoundError:  # another run has removed the folder, to begin anew
                if last:
                    raise
            except PermissionError:  # on Windows another run may be reading its equal file
                if not path.exists():
                    raise
                return


def _packed(path: Path, outcome: Outcome) -> bytes:
    """The bytes of a file."""
    numbers = _NUMBERS.pack(outcome.criterion, outcome.rounds)
    scores = np.concatenate([outcome.test, outcome.valid]).astype("<f8").tobytes()
    data = _title(path) + numbers + scores
    return data + _CHECKSUM(data).digest()


def _unpacked(data: bytes, path: Path, tested: int) -> Outcome:
    """The outcome in the bytes of a file of the right length."""
    title, body = _title(path), memoryview(data)[: -_CHECKSUM().digest_size]
    if not data.startswith(title):
        raise ValueError("it belongs to another fit")
    if _CHECKSUM(body).digest() != data[len(body) :]:
        raise ValueError("its checksum is another one")
    criterion, rounds = _NUMBERS.unpack_from(body, len(title))
    scores = np.frombuffer(body, "<f8", offset=len(title) + _NUMBERS.size).astype(np.float64)
    outcome = Outcome(scores[:tested], scores[tested:], criterion, rounds)
    if not outcome.is_finite:
        raise ValueError("its numbers are not finite")
    return outcome


def _length(path: Path, scores: int) -> int:
    return len(_title(path)) + _NUMBERS.size + 8 * scores + _CHECKSUM().digest_size


def _title(path: Path) -> bytes:
    """The first line of a file."""
    return f"selmatch fit {path.parent.name}/{path.stem}\n".encode()


def _read_exactly(path: Path, length: int) -> bytes:
    """The bytes of a file of this length."""
    found = path.stat().st_size  # first: what is longer, or no file at all, is not even opened
    if found == length:
        data = path.read_bytes()
        found = len(data)
        if found == length:
            return data
    raise ValueError(f"it must have {length} bytes, got {found}")
