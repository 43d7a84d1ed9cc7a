"""From a table to rows that can be learnt from: checked, cleaned, and with a note for everything that was done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas

from selmatch.comparison import cells
from selmatch.comparison.question import ROLES, Question
from selmatch.comparison.reading import WHO, Source, listed, read
from selmatch.comparison.scales import log_scale
from selmatch.comparison.suspicions import suspicions
from selmatch.scales import Scale
from selmatch.words import readable

#: fewer rows than this decide nothing
FEWEST = 30

#: values of a column with a given split, in lower case
PARTS = {
    "train": "train", "training": "train", "fit": "train",
    "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
    "test": "test", "testing": "test", "holdout": "test",
}  # fmt: skip

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
        Of the rows, > 0, of mean 1.
    notes : tuple of str
        What was done, in sentences.
    known : tuple of Known
        For each feature how it was read.
    path : str
        Of the file, from the root; empty for a frame.
    cluster : array of int or None
        The cluster of each row, counted from 0: groups lie inside clusters.
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
    known: tuple[cells.Known, ...] = ()
    path: str = ""
    cluster: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def units(self) -> np.ndarray | None:
        """What splits and resamples keep whole: the cluster of each row, or else its group."""
        return self.group if self.cluster is None else self.cluster

    @property
    def categorical(self) -> tuple[int, ...]:
        """Which columns of the matrix are codes."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind == "category")

    def frame(self) -> pandas.DataFrame:
        """The features as a frame, with words in place of codes."""
        columns = zip(self.known, self.matrix.T, strict=True)
        return pandas.DataFrame({known.name: known.frame_column(values) for known, values in columns})

    def fingerprint(self) -> str:
        """Of everything that models see."""
        digest = hashlib.sha256(json.dumps([self.names, self.kinds, self.scale.name, len(self)]).encode())
        clusters = () if self.cluster is None else (self.cluster,)
        for array in (self.matrix, self.scores, self.split, self.group, self.time, self.weights, *clusters):
            kept = np.zeros(0) if array is None else np.ascontiguousarray(array)
            digest.update(f"{kept.dtype.str}{kept.shape}".encode())
            digest.update(kept.data if kept.size else b"")
        return digest.hexdigest()[:16]


def prepare(data: Any, question: Question, scale: str | None = None) -> Rows:
    """Read a table and make rows of it that answer a question.

    Parameters
    ----------
    data : path or frame
        As for :func:`selmatch.compare`.
    question : Question
        Which columns play which role, how many rows at most, and on which scale.
    scale : {None, "log", "log1p"}
        Which logarithm the scores are, where that is known; by default the one that fits.
    """
    source = read(data)
    notes = list(source.notes)
    roles = _roles(source, question)
    total = len(source.frame)
    usable = _usable(source, roles, notes)
    places, target, weights = np.flatnonzero(usable.rows), usable.target, usable.weights
    _require_rows(len(places), total)
    _require_variation(roles["target"], target[places])
    scores_on = _scale(question.scale, roles["target"], target[places], scale, notes)
    group, cluster = _groups(source, roles, places)
    units = group if cluster is None else cluster
    kept = _sampled(len(places), question.rows, units, question.seed)
    if len(kept) < len(places):
        what = "rows" if units is None else f"whole {'groups' if cluster is None else 'clusters'} of rows"
        notes.append(
            f"{len(kept):,} of {len(places):,} usable rows were sampled ({what}, seed {question.seed}); "
            "allow more rows to use more."
        )
        places = places[kept]
        group, cluster = _groups(source, roles, places)
    notes += _notes_of_groups(source, roles, places, group)
    target = target[places]
    _require_variation(roles["target"], target)
    names, columns = _features(source, places, {*roles.values(), *_dropped(source, question.drop)}, notes)
    kinds, matrix = tuple(column.kind for column in columns), np.empty((len(places), len(columns)))
    for i, column in enumerate(columns):
        matrix[:, i] = column.values
    scores = scores_on(target)
    time = None if usable.time is None else usable.time[places]
    notes += suspicions(
        names, kinds, matrix, target, scores, name_of_target=roles["target"], time=time, grouped=units is not None
    )
    if question.scale == "target":
        _warn_of_tails(target, notes)
    return Rows(
        source.name, total, places, matrix, names, kinds, target, scores, scores_on,
        split=_parts(source.column(roles["split"]).iloc[places]) if "split" in roles else None,
        group=group,
        time=time,
        weights=None if weights is None else weights[places] / weights[places].mean(),
        notes=tuple(notes), known=tuple(map(cells.Known.of, names, columns)), path=source.path, cluster=cluster,
    )  # fmt: skip


def usable(source: Source, question: Question) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Which rows have a target and a place, their targets, and their weights if there are any."""
    found = _usable(source, _roles(source, question), [])
    places = np.flatnonzero(found.rows)
    return places, found.target[places], None if found.weights is None else found.weights[places]


# ----------------------------------------------------------------------------------------------------- which rows


def _roles(source: Source, question: Question) -> dict[str, str]:
    """The columns that are no features, by what they are for."""
    asked = {role: getattr(question, role) for role in ROLES}
    roles = {role: source.known(role, name) for role, name in asked.items() if name is not None}
    for role, name in roles.items():
        others = [other for other, taken in roles.items() if taken == name and other != role]
        if others:
            raise ValueError(f"{WHO}: {role} and {others[0]} must be different columns, got {name!r} for both.")
    return roles


def _dropped(source: Source, drop: Iterable[str]) -> list[str]:
    return [source.known("dropped", name) for name in drop]


class _Usable(NamedTuple):
    """Which rows have a target and a place; and of all rows the target, the time and the weight."""

    rows: np.ndarray
    target: np.ndarray
    time: np.ndarray | None
    weights: np.ndarray | None


def _usable(source: Source, roles: dict[str, str], notes: list[str]) -> _Usable:
    found = cells.numbers("target", roles["target"], source.column(roles["target"]))
    target, time, weights = found.values, None, None
    notes.extend(filter(None, [found.note]))
    usable = np.isfinite(target)
    missing, infinite = int(np.isnan(target).sum()), int(np.isinf(target).sum())
    if missing:
        notes.append(f"{missing:,} rows without a target were left out.")
    if infinite:
        notes.append(f"{infinite:,} rows with an infinite target were left out.")
    for role in ("split", "group", "cluster", "time"):
        if role in roles:
            present = source.column(roles[role]).notna().to_numpy()
            if role == "time":
                found = cells.moments(roles[role], source.column(roles[role]))
                notes.extend(filter(None, [found.note]))
                time, present = found.values, np.isfinite(found.values)
            _leave_out(usable, present, f"without a value in the {role} column {roles[role]!r}", notes)
    if "weights" in roles:
        weights = _weights(roles["weights"], source.column(roles["weights"]), notes)
        _leave_out(usable, weights > 0.0, "with a weight of 0", notes)
    return _Usable(usable, target, time, weights)


def _leave_out(usable: np.ndarray, kept: np.ndarray, why: str, notes: list[str]) -> None:
    lost = int((usable & ~kept).sum())
    if lost:
        usable &= kept
        notes.append(f"{lost:,} rows {why} were left out.")


def _weights(name: str, column: pandas.Series, notes: list[str]) -> np.ndarray:
    """Weights of all rows, of which the largest is 1."""
    found = cells.numbers("weights", name, column)
    notes.extend(filter(None, [found.note]))
    wrong = ~(np.isfinite(found.values) & (found.values >= 0.0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{WHO}: the weights column {name!r} must hold numbers >= 0, got {found.values[first]:g} in row "
            f"{first + 1:,}."
        )
    return found.values / (found.values.max(initial=0.0) or 1.0)


def _groups(source: Source, roles: dict[str, str], places: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The group and the cluster of each row; groups of the same name in two clusters are two groups."""
    codes = {role: _codes(source.column(roles[role]).iloc[places]) for role in ("group", "cluster") if role in roles}
    group, cluster = codes.get("group"), codes.get("cluster")
    if group is not None and cluster is not None:
        group = pandas.factorize(cluster.astype(np.int64) * (int(group.max(initial=0)) + 1) + group)[0]
    return group, cluster


def _notes_of_groups(
    source: Source, roles: dict[str, str], places: np.ndarray, group: np.ndarray | None
) -> Iterator[str]:
    """That groups were told apart by their clusters."""
    if group is None or "cluster" not in roles:
        return
    names = _codes(source.column(roles["group"]).iloc[places])
    more = len(np.unique(group)) - len(np.unique(names))
    if more:
        yield (
            f"Groups of the same name in several clusters are told apart: {len(np.unique(names)):,} values of "
            f"{roles['group']!r} are {len(np.unique(group)):,} groups."
        )


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
    if most < FEWEST:
        raise ValueError(f"{WHO}: rows must be at least {FEWEST}, got {most}. Fewer decide nothing.")
    random = np.random.default_rng([seed, 1])
    if groups is None:
        return np.sort(random.choice(count, size=most, replace=False))
    sizes = np.bincount(groups)
    taken, room = [], most
    for group in random.permutation(len(sizes)):
        if sizes[group] <= room:  # else a smaller one may still fit
            taken.append(group)
            room -= sizes[group]
    if most - room < FEWEST:
        raise ValueError(
            f"{WHO}: rows must have room for whole groups with {FEWEST} rows or more, got rows={most:,} and groups of "
            f"{sizes.min():,} to {sizes.max():,} rows. Allow more rows, {count:,} for all."
        )
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
            f"{WHO}: the target column {name!r} must vary, got {readable(target[0])} in all {len(target):,} usable "
            "rows (one class only). There is nothing to predict."
        )


def _scale(name: str, column: str, target: np.ndarray, known: str | None, notes: list[str]) -> Scale:
    if name == "target":
        return Scale()
    found = log_scale(target)
    if found is None:
        raise ValueError(
            f"{WHO}: the target column {column!r} must be >= 0 for scale='log', got {readable(target.min())}. "
            "Use scale='target'."
        )
    if known == "log" and found.name != known:
        raise ValueError(
            f"{WHO}: the target column {column!r} must be > 0 for a loss of log(target), got 0. Leave these rows out, "
            "or take a loss of log(1 + target)."
        )
    why = ", since the target has zeros" if known is None and found.name == "log1p" else ""
    found = Scale(known or found.name)
    notes.append(f"Scores are {found.words}{why}.")
    return found


# -------------------------------------------------------------------------------------------------------- features


def _features(
    source: Source, places: np.ndarray, used: set[str], notes: list[str]
) -> tuple[tuple[str, ...], tuple[cells.Column, ...]]:
    """The columns that can be learnt from, and their names."""
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
        if made.kind == "name":
            rows.append(name)
        elif made.constant:
            constant.append(name)
            continue
        else:
            found[name] = made
        notes.extend(filter(None, [made.note]))
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
    return tuple(found), tuple(found.values())


def _counts(name: str, column: pandas.Series) -> bool:
    """Whether a column is the index of a frame that was saved with it."""
    nameless = not name.strip() or name.startswith("Unnamed:")
    return nameless and pandas.api.types.is_integer_dtype(column.dtype) and column.is_unique


def _is_split(column: pandas.Series) -> bool:
    words = set(column.dropna().map(lambda cell: str(cell).strip().lower()).unique())
    return {"train", "test"} <= {PARTS.get(word) for word in words} and words <= set(PARTS)


def _warn_of_tails(target: np.ndarray, notes: list[str]) -> None:
    """A few rows that decide every squared error are better compared on a logarithm."""
    if target.min() < 0.0:
        return
    count = max(1, len(target) // 100)
    with np.errstate(all="ignore"):  # what is too large for squares is refused where the loss is designed
        squares = np.sort(np.square(target - target.mean()))
        share = float(squares[-count:].sum() / squares.sum())
    if share > _HEAVY:
        notes.append(
            f"The target has a heavy tail: {100.0 * count / len(target):.2g} % of the rows ({count:,}) carry "
            f"{100.0 * share:.0f} % of all squared deviations. scale='log' compares relative errors instead."
        )
