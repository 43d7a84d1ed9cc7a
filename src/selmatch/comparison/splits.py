"""Paired splits: which rows every contender trains on, validates on, and is tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selmatch.comparison.question import Question
from selmatch.comparison.reading import WHO
from selmatch.comparison.tables import Rows

#: the share of training rows that validate where nothing else is given
_HELD_OUT = 0.2
#: a single split tests one fold of so many
_FOLDS_OF_ONE = 5


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of rows in ascending order, of which no two parts share one; rows of a group lie side by side."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def splits_of(rows: Rows, question: Question) -> tuple[Split, ...]:
    """The splits that a question asks for.

    By default folds of equal size: each row is tested exactly once, and the next fold validates. Whole groups stay
    together. With times the past trains, the next block validates, and the one after that is tested.

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
        for part in ("train", "valid", "test"):
            if not len(getattr(split, part)):
                raise ValueError(f"{WHO}: every split must have rows to {part}, got none. Ask for fewer splits.")
    if rows.group is None:
        return tuple(made)
    return tuple(Split(*(_side_by_side(part, rows.group) for part in (s.train, s.valid, s.test))) for s in made)


def _side_by_side(part: np.ndarray, group: np.ndarray) -> np.ndarray:
    return part[np.argsort(group[part], kind="stable")]


def _folded(rows: Rows, count: int, random: np.random.Generator) -> list[Split]:
    folds = count if count > 1 else _FOLDS_OF_ONE
    fold = _folds(rows, folds, random)
    made = []
    for i in range(count):
        test = fold == i
        if folds > 2:
            valid = fold == (i + 1) % folds
        else:  # the next fold is all there is to train on
            valid = _held_out(rows, ~test, random)
        made.append(Split(*map(np.flatnonzero, (~test & ~valid, valid, test))))
    return made


def _folds(rows: Rows, folds: int, random: np.random.Generator) -> np.ndarray:
    """The fold of each row."""
    if rows.group is None:
        return random.permutation(np.arange(len(rows)) % folds)
    sizes = np.bincount(rows.group)
    if len(sizes) < folds:
        raise ValueError(
            f"{WHO}: group must have at least as many groups as splits, got {len(sizes)} groups and {folds} splits. "
            "Ask for fewer splits."
        )
    filled, home = np.zeros(folds), np.empty(len(sizes), dtype=int)
    order = random.permutation(len(sizes))
    for group in order[np.argsort(-sizes[order], kind="stable")]:  # the largest first, each into the emptiest fold
        home[group] = np.argmin(filled)
        filled[home[group]] += sizes[group]
    return home[rows.group]


def _held_out(rows: Rows, among: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Some of the rows, or of their groups, to validate on."""
    unit = np.arange(len(rows)) if rows.group is None else rows.group
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
    return Split(*map(np.flatnonzero, (train, valid, test)))


def _by_time(rows: Rows, count: int) -> list[Split]:
    """An expanding window over blocks of about equal size; rows of one time stay in one block."""
    time = np.asarray(rows.time)
    if rows.group is not None:  # a group happens when its first row does
        first = np.full(rows.group.max() + 1, np.inf)
        np.minimum.at(first, rows.group, time)
        time = first[rows.group]
    blocks = count + 2
    _, moment, sizes = np.unique(time, return_inverse=True, return_counts=True)
    middles = np.cumsum(sizes) - 0.5 * sizes
    block = np.minimum((middles * blocks / len(time)).astype(int), blocks - 1)[moment]
    if len(np.unique(block)) < blocks:
        raise ValueError(
            f"{WHO}: time must have {blocks} blocks of different times for {count} splits, got {len(sizes)} different "
            "times, too unevenly spread. Ask for fewer splits."
        )
    return [Split(*map(np.flatnonzero, (block <= i, block == i + 1, block == i + 2))) for i in range(count)]
