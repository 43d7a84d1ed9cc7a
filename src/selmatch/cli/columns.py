"""One column of a data file, and the names of all of them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from selmatch.comparison.cells import Column


def header(path: Path) -> list[str]:
    """The names of the columns, quickly and without reading the rows: for completion."""
    if path.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        return list(parquet.read_schema(path).names)
    from selmatch.comparison import reading

    first = reading.header_of(path)
    return next(csv.reader(io.StringIO(first, newline=""), delimiter=reading.separator_of(first)))


def scores(path: Path, column: str | None) -> tuple[np.ndarray, list[str]]:
    """The finite numbers in a column, and what to know about the others."""
    from selmatch.comparison import reading

    try:
        found = _numbers(path, column)
    except (ValueError, FileNotFoundError) as error:  # the reader speaks for another command
        raise type(error)(str(error).removeprefix(f"{reading.WHO}: ")) from error
    finite = np.isfinite(found.values)
    notes = [found.note] if found.note else []
    if not finite.all():
        left_out = int((~finite).sum())
        notes.append(f"{left_out:,} of {len(finite):,} rows without a finite score were left out.")
    return found.values[finite], notes


def _numbers(path: Path, column: str | None) -> Column:
    from selmatch.comparison import cells, reading

    source = reading.read(path)
    if column is None and len(source.names) != 1:
        names = reading.listed(source.names)
        raise ValueError(f"{path.name}: --column must name a column, got none. Its columns: {names}.")
    name = source.names[0] if column is None else source.known("score", column)
    return cells.numbers("score", name, source.column(name))
