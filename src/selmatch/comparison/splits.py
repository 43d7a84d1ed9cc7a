"""Paired splits: which rows every contender trains on, validates on, and is tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selmatch.comparison.question import Question
from selmatch.comparison.reading import WHO
from selmatch.comparison.result import WARNING
from selmatch.comparison.tables import Rows

#: the share of training rows that validate where nothing else is given
_HELD_OUT = 0.2
#: a single split tests one fold of so many
_FOLDS_OF_ONE = 5
#: to train, to validate, to test
_FEWEST_FOLDS = 3
#: with fewer rows a part of a split is worth nothing
_FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of rows in ascending order, of which no two parts share one; rows of a group lie side by side.

    Attributes
    ----------
    train, valid, test : array of int
        The parts.
    late : int
        How many rows were left out of the first two, since they happened after the next part had begun.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    late: int = 0

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.train, self.valid, self.test


def splits_of(rows: Rows, question: Question) -> tuple[Split, ...]:
    """The splits that a question asks for.

    By default folds of equal size: each row is tested exactly once, and the next fold validates. Whole clusters, or
    else groups, stay together. With times the past trains, the next block validates, and the one after that is tested.

    Parameters
    ----------
    rows : Rows
        What is split.
    question : Question
        How many splits, and the seed.
    """
    random = np.random.default_rng([question.seed, 2])
    if rows.split is not None:
        made = [_given(rows, random)]
    elif rows.time is not None:
        made = _by_time(rows, question.splits)
    else:
        made = _folded(rows, question.splits, random)
    for split in made:
        for part, found in zip(("train", "validate", "test"), split.parts, strict=True):
            if not len(found):
                remedy = "Ask for fewer splits." if rows.units is None else "More groups are needed: each stays whole."
                raise ValueError(f"{WHO}: every split must have rows to {part}, got none. {remedy}")
    if rows.group is None:
        return tuple(made)
    return tuple(_grouped(split, rows.group) for split in made)


def notes_of(rows: Rows, splits: tuple[Split, ...]) -> list[str]:
    """What to know about the splits, in sentences."""
    notes, units = [], "groups" if rows.cluster is None else "clusters"
    if late := sum(split.late for split in splits):
        notes.append(
            f"{units.capitalize()} last longer than the blocks of time: {late:,} times a row was left out of training "
            "or validation, since it happened after the next block had begun (summed over the splits)."
        )
    if rows.units is not None and rows.split is not None:
        homes = np.concatenate([np.unique(rows.units[part]) for part in splits[0].parts])
        if crossing := int((np.bincount(homes) > 1).sum()):
            notes.append(
                f"{WARNING}{crossing:,} of {len(np.unique(homes)):,} {units} have rows in several parts of the "
                f"given split. What is learnt about one of them helps to predict the rest of it, so results look "
                f"better than on new {units}; leave split out to keep {units} whole."
            )
    return notes


def _split(train: np.ndarray, valid: np.ndarray, test: np.ndarray) -> Split:
    """A split from what each part holds."""
    return Split(np.flatnonzero(train), np.flatnonzero(valid), np.flatnonzero(test))


def _grouped(split: Split, group: np.ndarray) -> Split:
    """The same with rows of a group side by side."""
    train, valid, test = (part[np.argsort(group[part], kind="stable")] for part in split.parts)
    return Split(train, valid, test, split.late)


def _folded(rows: Rows, count: int, random: np.random.Generator) -> list[Split]:
    folds = count if count > 1 else _FOLDS_OF_ONE
    if rows.units is not None:
        groups = int(rows.units.max()) + 1
        folds = folds if count > 1 else max(_FEWEST_FOLDS, min(folds, groups))
        _require_groups(groups, folds, count, "group" if rows.cluster is None else "cluster")
    fold = _folds(rows, folds, random)
    made = []
    for i in range(count):
        test = fold == i
        if folds > 2:
            valid = fold == (i + 1) % folds
        else:  # the next fold is all there is to train on
            valid = _held_out(rows, ~test, random)
        made.append(_split(~test & ~valid, valid, test))
    return made


def _folds(rows: Rows, folds: int, random: np.random.Generator) -> np.ndarray:
    """The fold of each row."""
    if rows.units is None:
        return random.permutation(np.arange(len(rows)) % folds)
    sizes = np.bincount(rows.units)
    filled, home = np.zeros(folds), np.empty(len(sizes), dtype=int)
    order = random.permutation(len(sizes))
    for group in order[np.argsort(-sizes[order], kind="stable")]:  # the largest first, each into the emptiest fold
        home[group] = np.argmin(filled)
        filled[home[group]] += sizes[group]
    return home[rows.units]


def _require_groups(groups: int, folds: int, count: int, what: str) -> None:
    """Groups, or clusters, enough to train, validate and test on; two folds must each be divided once more."""
    least = 4 if folds == 2 else folds
    if groups < least:
        remedy = f"More {what}s are needed, {least} or more"
        if groups >= _FEWEST_FOLDS:
            remedy += f"; or ask for {groups} splits"
        asked = f"{count} split{'s' if count > 1 else ''}"
        raise ValueError(
            f"{WHO}: {what} must have at least {least} {what}s for {asked}, got {groups} {what}s and {asked}. {remedy}."
        )


def _held_out(rows: Rows, among: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Some of the rows, or of their groups, to validate on."""
    unit = np.arange(len(rows)) if rows.units is None else rows.units
    units = random.permutation(np.unique(unit[among]))
    return among & np.isin(unit, units[: max(1, round(_HELD_OUT * len(units)))])


def _given(rows: Rows, random: np.random.Generator) -> Split:
    part = np.asarray(rows.split)
    train, valid, test = (part == name for name in ("train", "valid", "test"))
    for name, held in (("train", train), ("test", test)):
        if not held.any():
            raise ValueError(f"{WHO}: the split column must mark some rows as {name!r}, got none.")
    if not valid.any():
        valid = _held_out(rows, train, random)
        train = train & ~valid
    return _split(train, valid, test)


def _by_time(rows: Rows, count: int) -> list[Split]:
    """An expanding window over blocks of about equal size; rows of one time stay in one block."""
    time = np.asarray(rows.time)
    if rows.units is not None:  # a group happens when its first row does
        first = np.full(rows.units.max() + 1, np.inf)
        np.minimum.at(first, rows.units, time)
        time = first[rows.units]
    blocks = count + 2
    _, moment, sizes = np.unique(time, return_inverse=True, return_counts=True)
    middles = np.cumsum(sizes) - 0.5 * sizes
    block = np.minimum((middles * blocks / len(time)).astype(int), blocks - 1)[moment]
    if len(np.unique(block)) < blocks:
        raise ValueError(
            f"{WHO}: time must have {blocks} blocks of different times for {count} splits, got {len(sizes)} different "
            "times, too unevenly spread. Ask for fewer splits."
        )
    made = [_split(block <= i, block == i + 1, block == i + 2) for i in range(count)]
    return made if rows.units is None else [_without_the_future(split, np.asarray(rows.time)) for split in made]


def _without_the_future(split: Split, time: np.ndarray) -> Split:
    """A split by the first rows of groups, without later rows that happened when the next part had begun."""
    train = split.train[time[split.train] < time[split.valid].min()]
    valid = split.valid[time[split.valid] < time[split.test].min()]
    for name, before, after in (("train", split.train, train), ("validate", split.valid, valid)):
        if len(after) < _FEWEST_ROWS:
            raise ValueError(
                f"{WHO}: groups must last less long for time and group together, got {len(after):,} of {len(before):,} "
                f"rows to {name} on that happened before the next block of groups began. Leave group or time out, ask "
                "for fewer splits, or divide groups into shorter ones."
            )
    return Split(train, valid, split.test, len(split.train) + len(split.valid) - len(train) - len(valid))
