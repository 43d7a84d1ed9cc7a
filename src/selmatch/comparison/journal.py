"""What finished fits left, kept in files: a run that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import selmatch

_log = logging.getLogger("selmatch.comparison")

#: the folder of finished fits inside the folder of a report
JOURNAL = "selmatch-journal"
#: raise it when fits change their meaning
_SCHEMA = 3


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

    def fits(self, tested: int, validated: int) -> bool:
        """Whether it has the right numbers of rows, all of them finite, and something to be compared by."""
        whole = self.test.shape == (tested,) and self.valid.shape == (validated,)
        whole = whole and self.test.dtype.kind == self.valid.dtype.kind == "f"
        finite = whole and bool(np.isfinite(self.test).all() and np.isfinite(self.valid).all())
        return finite and self.rounds >= 0 and not np.isnan(self.criterion)


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

    Files are written under another name first, so that a killed run leaves whole files only; two runs at once write
    equal files.

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

    def read(self, name: str) -> Outcome | None:
        """What a fit left, if it was finished and its file is whole."""
        if self.folder is None:
            return None
        path = self.folder / f"{name}.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                return Outcome(kept["test"], kept["valid"], float(kept["criterion"]), int(kept["rounds"]))
        except FileNotFoundError:
            return None
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
            _log.warning("compare: %s is broken and will be made again: %s", path.name, error)
            return None

    def write(self, name: str, outcome: Outcome) -> None:
        """Keep what a fit left."""
        if self.folder is None:
            return
        for last in (False, False, True):
            try:
                return self._write(self.folder / f"{name}.npz", outcome)
            except FileNotFoundError:  # another run has removed the folder, to begin anew
                if last:
                    raise

    def _write(self, path: Path, outcome: Outcome) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.stem}.{uuid.uuid4().hex}.part")
        try:
            with draft.open("wb") as file:
                np.savez(
                    file, test=outcome.test, valid=outcome.valid, criterion=outcome.criterion, rounds=outcome.rounds
                )
            os.replace(draft, path)
        except PermissionError:  # on Windows another run may be reading its equal file
            if not path.exists():
                raise
        finally:
            draft.unlink(missing_ok=True)
