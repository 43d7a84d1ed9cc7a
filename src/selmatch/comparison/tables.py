"""From a table to rows that can be learnt from: checked, cleaned, and with a note for everything that was done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas

from selmatch.comparison import cells
from selmatch.comparison.question import Question
from selmatch.comparison.reading import WHO, Source, listed, read
from selmatch.comparison.scales import Scale, log_scale

#: fewer rows than this decide nothing
FEWEST = 30

#: values of a column with a given split, in lower case
PARTS = {
    "train": "train", "training": "train", "fit": "train",
    "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
    "test": "test", "testing": "test", "holdout": "test",
}  # fmt: skip

_LEAK = 0.9999
#: share of all squared deviations that 1 % of the rows may carry without a word
_HEAVY = 0.4


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that are used, without missing targets.

    Attributes
    ----------
    name : str
        Of the file, or "data frame".
    total : int
        How many rows there were.
    places : array of int
        Where the rows are in the table, counted from 0.
    matrix : array of shape (rows, features)
        Numbers and codes of categories; NaN is missing.
    names, kinds : tuple of str
        Of the features; "number", "category" or "date".
    target, scores : array of float
        What is predicted, and the score that stands for it.
    scale : Scale
        From the target to scores.
    split, time : array or None
        The part ("train", "valid", "test") and the time of each row.
    group : array of int or None
        The group of each row, counted from 0.
    weights : array of float or None
        Of the rows, > 0.
    notes : tuple of str
        What was done, in sentences.
    separator : str
        Of a text file.
    """

    name: str
    total: int
    places: np.ndarray
    matrix: np.ndarray = field(repr=False)
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    target: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    scale: Scale
    split: np.ndarray | None
    group: np.ndarray | None
    time: np.ndarray | None
    weights: np.ndarray | None
    notes: tuple[str, ...]
    separator: str = ","

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def categorical(self) -> tuple[int, ...]:
        """Which columns of the matrix are codes."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind == "category")

    def fingerprint(self) -> str:
        """Of everything that models see."""
        digest = hashlib.sha256(json.dumps([self.names, self.kinds, self.scale.name, len(self)]).encode())
        for array in (self.matrix, self.scores, self.split, self.group, self.time, self.weights):
            kept = np.zeros(0) if array is None else np.ascontiguousarray(array)
            digest.update(f"{kept.dtype.str}{kept.shape}".encode())
            digest.update(kept.data if kept.size else b"")
        return digest.hexdigest()[:16]


def prepare(data: Any, question: Question) -> Rows:
    """Read a table and make rows of it that answer a question.

    Parameters
    ----------
    data : path or frame
        As for :func:`selmatch.compare`.
    question : Question
        Which columns play which role, how many rows at most, and on which scale.
    """
    source = read(data)
    notes = list(source.notes)
    roles = _roles(source, question)
    total = len(source.frame)
    usable, target = _usable(source, roles, notes)
    places = np.flatnonzero(usable)
    _require_rows(len(places), total)
    _require_variation(roles["target"], target[places])
    scale = _scale(question.scale, roles["target"], target[places], notes)
    groups = _codes(source.column(roles["group"]).iloc[places]) if "group" in roles else None
    kept = _sampled(len(places), question.rows, groups, question.seed)
    if len(kept) < len(places):
        what = "whole groups of rows" if groups is not None else "rows"
        notes.append(
            f"{len(kept):,} of {len(places):,} usable rows were sampled ({what}, seed {question.seed}); "
            "allow more rows to use more."
        )
        places = places[kept]
    target = target[places]
    _require_variation(roles["target"], target)
    names, kinds, matrix = _features(source, places, {*roles.values(), *_dropped(source, question.drop)}, notes)
    scores = scale(target)
    _warn_of_leaks(names, kinds, matrix, target, scores, notes)
    if question.scale == "target":
        _warn_of_tails(target, notes)
    return Rows(
        source.name, total, places, matrix, names, kinds, target, scores, scale,
        split=_parts(source.column(roles["split"]).iloc[places]) if "split" in roles else None,
        group=_codes(source.column(roles["group"]).iloc[places]) if "group" in roles else None,
        time=cells.moments(roles["time"], source.column(roles["time"]).iloc[places]) if "time" in roles else None,
        weights=_weights(source, roles)[places] if "weights" in roles else None,
        notes=tuple(notes), separator=source.separator,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------- which rows


def _roles(source: Source, question: Question) -> dict[str, str]:
    """The columns that are no features, by what they are for."""
    asked = {role: getattr(question, role) for role in ("target", "split", "group", "time", "weights")}
    roles = {role: source.known(role, name) for role, name in asked.items() if name is not None}
    for role, name in roles.items():
        others = [other for other, taken in roles.items() if taken == name and other != role]
        if others:
            raise ValueError(f"{WHO}: {role} and {others[0]} must be different columns, got {name!r} for both.")
    return roles


def _dropped(source: Source, drop: Iterable[str]) -> list[str]:
    return [source.known("dropped", name) for name in drop]


def _usable(source: Source, roles: dict[str, str], notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Which rows have a target and a place, and all targets."""
    target = cells.numbers("target", roles["target"], source.column(roles["target"]))
    usable = np.isfinite(target)
    missing, infinite = int(np.isnan(target).sum()), int(np.isinf(target).sum())
    if missing:
        notes.append(f"{missing:,} rows without a target were left out.")
    if infinite:
        notes.append(f"{infinite:,} rows with an infinite target were left out.")
    for role in ("split", "group", "time"):
        if role in roles:
            present = source.column(roles[role]).notna().to_numpy()
            if role == "time":
                present = np.isfinite(cells.moments(roles[role], source.column(roles[role])))
            _leave_out(usable, present, f"without a value in the {role} column {roles[role]!r}", notes)
    if "weights" in roles:
        _leave_out(usable, _weights(source, roles) > 0.0, "with a weight of 0", notes)
    return usable, target


def _leave_out(usable: np.ndarray, kept: np.ndarray, why: str, notes: list[str]) -> None:
    lost = int((usable & ~kept).sum())
    if lost:
        usable &= kept
        notes.append(f"{lost:,} rows {why} were left out.")


def _weights(source: Source, roles: dict[str, str]) -> np.ndarray:
    name = roles["weights"]
    weights = cells.numbers("weights", name, source.column(name))
    wrong = ~(np.isfinite(weights) & (weights >= 0.0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{WHO}: the weights column {name!r} must hold numbers >= 0, got {weights[first]:g} in row {first + 1:,}."
        )
    return weights


def _codes(column: pandas.Series) -> np.ndarray:
    return pandas.factorize(column.map(str) if column.dtype == object else column)[0]


def _parts(column: pandas.Series) -> np.ndarray:
    """The part of each row, by the words that people use for them."""
    words = column.map(lambda cell: str(cell).strip().lower())
    unknown = sorted(set(words) - set(PARTS))
    if unknown:
        raise ValueError(
            f"{WHO}: the split column must hold 'train', 'valid' and 'test', got {listed(unknown, 5)}. "
            "For folds or groups use group= instead."
        )
    return words.map(PARTS).to_numpy(dtype="U5")


def _sampled(count: int, most: int, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """At most so many rows, in their order; whole groups where there are groups."""
    if count <= most:
        return np.arange(count)
    random = np.random.default_rng([seed, 1])
    if groups is None:
        return np.sort(random.choice(count, size=most, replace=False))
    sizes = np.bincount(groups)
    order = random.permutation(len(sizes))
    taken = order[np.cumsum(sizes[order]) <= most]
    return np.flatnonzero(np.isin(groups, taken))


def _require_rows(usable: int, total: int) -> None:
    if usable < FEWEST:
        raise ValueError(
            f"{WHO}: data must have at least {FEWEST} usable rows, got {usable:,} of {total:,}. Fewer decide nothing: "
            "collect more."
        )


def _require_variation(name: str, target: np.ndarray) -> None:
    if target.min() == target.max():
        raise ValueError(
            f"{WHO}: the target column {name!r} must vary, got {target[0]:g} in all {len(target):,} usable rows (one "
            "class only). There is nothing to predict."
        )


def _scale(name: str, column: str, target: np.ndarray, notes: list[str]) -> Scale:
    if name == "target":
        return Scale()
    found = log_scale(target)
    if found is None:
        raise ValueError(
            f"{WHO}: the target column {column!r} must be >= 0 for scale='log', got {target.min():g}. "
            "Use scale='target'."
        )
    words = "log(target)" if found.name == "log" else "log(1 + target), since the target has zeros"
    notes.append(f"Scores are {words}.")
    return found


# -------------------------------------------------------------------------------------------------------- features


def _features(
    source: Source, places: np.ndarray, used: set[str], notes: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...], np.ndarray]:
    """Names, kinds and numbers of the columns that can be learnt from."""
    found: dict[str, cells.Column] = {}
    constant, rows, given = [], [], []
    for name in source.names:
        if name in used:
            continue
        column = source.column(name).iloc[places]
        if _counts(name, column):
            rows.append(name)
            continue
        if name.strip().lower() == "split" and _is_split(column):
            given.append(name)
            continue
        made = cells.feature(name, column)
        if made is None:
            rows.append(name)
        elif made.constant:
            constant.append(name)
        else:
            found[name] = made
            if made.note:
                notes.append(made.note)
    if constant:
        notes.append(f"Columns with the same value in all rows, or none, were left out: {listed(constant)}.")
    if rows:
        notes.append(f"Columns that only name the rows were left out: {listed(rows)}.")
    if given:
        notes.append(
            f"Column {given[0]!r} looks like a given split and is no feature; split={given[0]!r} would use it."
        )
    if not found:
        raise ValueError(
            f"{WHO}: data must have at least one column to learn from, besides {listed(sorted(used))}, got none that "
            "varies."
        )
    matrix = np.empty((len(places), len(found)))
    for i, column in enumerate(found.values()):
        matrix[:, i] = column.values
    return tuple(found), tuple(column.kind for column in found.values()), matrix


def _counts(name: str, column: pandas.Series) -> bool:
    """Whether a column is the index of a frame that was saved with it."""
    nameless = not name.strip() or name.startswith("Unnamed:")
    return nameless and pandas.api.types.is_integer_dtype(column.dtype) and column.is_unique


def _is_split(column: pandas.Series) -> bool:
    words = set(column.dropna().map(lambda cell: str(cell).strip().lower()).unique())
    return {"train", "test"} <= {PARTS.get(word) for word in words} and words <= set(PARTS)


def _warn_of_leaks(
    names: tuple[str, ...], kinds: tuple[str, ...], matrix: np.ndarray, target: np.ndarray, scores: np.ndarray,
    notes: list[str],
) -> None:  # fmt: skip
    for name, kind, column in zip(names, kinds, matrix.T, strict=True):
        if kind != "category" and any(_correlation(column, y) > _LEAK for y in (target, scores)):
            notes.append(
                f"WARNING: column {name!r} is the target in other words (correlation above {_LEAK}). It is used, but "
                "no comparison means anything with it; drop it unless it is known before the target is."
            )


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    present = np.isfinite(x)
    if present.sum() < 3:
        return 0.0
    x, y = x[present] - x[present].mean(), y[present] - y[present].mean()
    with np.errstate(all="ignore"):
        size = float(np.sqrt(x @ x) * np.sqrt(y @ y))
        return abs(float(x @ y)) / size if 0.0 < size < np.inf else 0.0


def _warn_of_tails(target: np.ndarray, notes: list[str]) -> None:
    """A few rows that decide every squared error are better compared on a logarithm."""
    if target.min() < 0.0:
        return
    squares = np.sort(np.square(target - target.mean()))
    top = squares[-max(1, len(squares) // 100) :].sum()
    if top > _HEAVY * squares.sum():
        share = 100.0 * top / squares.sum()
        notes.append(
            f"The target has a heavy tail: 1 % of the rows carry {share:.0f} % of all squared deviations. "
            "scale='log' compares relative errors instead."
        )
