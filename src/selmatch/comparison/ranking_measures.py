"""Measures of order within each list, from ir_measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch.comparison.question import Question
from selmatch.comparison.result import Tested

#: real-valued targets become grades 1 to 4 where they are among the top 50, 25, 10 and 3 % of all tested rows
_SHARES = (0.5, 0.25, 0.1, 0.03)
_HIGHEST_LABEL = 30


@dataclass(frozen=True)
class Lists:
    """Lists of tested rows with the grade of each row, as measures of ranking see them.

    Attributes
    ----------
    members : tuple of array of int
        The rows of each list with at least two rows.
    grades : array of int
        Of all rows, >= 0, the better the higher.
    labels : bool
        Whether the grades are the observed labels, rather than made from real numbers.
    relevant : int
        The grade from which on a row counts as relevant.
    k : int
        How many rows of a list are looked at.
    sign : float
        -1 where low scores come first.
    single : int
        How many lists have one row, and are left out.
    seed : int
        Of the order of equal predictions.
    """

    members: tuple[np.ndarray, ...]
    grades: np.ndarray
    labels: bool
    relevant: int
    k: int
    sign: float
    single: int
    seed: int

    @classmethod
    def of(cls, tested: Tested, question: Question) -> Lists:
        """The lists of tested rows; groups that were tested in two splits are two lists."""
        if tested.group is None:
            raise ValueError("Lists: the tested rows must have groups, got none. Say which column is the group.")
        _, group = np.unique(tested.group, return_inverse=True)
        _, lists = np.unique(
            np.stack([group, np.unique(tested.split, return_inverse=True)[1]]), axis=1, return_inverse=True
        )
        order = np.argsort(lists, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(lists[order])) + 1)
        sign = -1.0 if question.wish.get("word") == "low" else 1.0
        grades, labels = _grades(sign * np.asarray(tested.observed, dtype=float))
        return cls(
            members=tuple(rows for rows in members if len(rows) > 1),
            grades=grades,
            labels=labels,
            relevant=max(1, -(-int(grades.max(initial=0)) // 2)),
            k=question.top or 10,
            sign=sign,
            single=sum(len(rows) == 1 for rows in members),
            seed=question.seed,
        )

    def best(self) -> np.ndarray:
        """The best grade of each list."""
        return np.array([self.grades[rows].max() for rows in self.members], dtype=int)

    def words(self, needs_relevant: bool) -> str:
        """How grades were made, and how many lists count."""
        first = "low scores first, " if self.sign < 0 else ""
        how = "the labels" if self.labels else "0 to 4, for the top 50, 25, 10 and 3 % of the observed scores"
        level = self._level(needs_relevant)
        counted = int((self.best() >= level).sum())
        empty = len(self.members) - counted
        out = [f"{self.single:,} with a single row"] * bool(self.single)
        out += [f"{empty:,} without a row of grade {level} or better"] * bool(empty)
        left = f"; left out: {' and '.join(out)}" if out else ""
        return f"Grades: {first}{how}. Lists: {counted:,}{left}."

    def scores(self, predicted: Mapping[str, np.ndarray]) -> dict[str, dict[str, dict[int, float]]]:
        """By contender, by measure, by list: its value, from ir_measures."""
        engine = _ir_measures()
        grades, best = self._by_list(self.grades), self.best()
        found: dict[str, dict[str, dict[int, float]]] = {name: {} for name in predicted}
        for name, kind in LIST_MEASURES.items():
            counted = [str(number) for number in np.flatnonzero(best >= self._level(kind.needs_relevant))]
            if not counted:
                continue
            evaluator = engine.evaluator([kind.measure(engine, self)], {number: grades[number] for number in counted})
            for contender, scores in predicted.items():
                run = self._by_list(self._places(scores), counted)
                metrics = evaluator.iter_calc(run)
                found[contender][name] = {int(metric.query_id): float(metric.value) for metric in metrics}
        return found

    def _level(self, needs_relevant: bool) -> int:
        return self.relevant if needs_relevant else 1

    def _places(self, predicted: np.ndarray) -> np.ndarray:
        """Numbers without ties in the order of the predictions.

        Ties go in the order of a seeded draw: the order of the rows may know more than the predictions do.
        """
        drawn = np.random.default_rng(self.seed).permutation(len(predicted))
        places = np.empty(len(predicted))
        places[np.lexsort((drawn, self.sign * predicted))] = np.arange(len(predicted))
        return places

    def _by_list(self, values: np.ndarray, numbers: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """Values by list, then by row, in the form of ir_measures."""
        found = {}
        for number in range(len(self.members)) if numbers is None else numbers:
            rows = self.members[int(number)]
            found[str(number)] = dict(zip(map(str, rows.tolist()), values[rows].tolist(), strict=True))
        return found


def _grades(scores: np.ndarray) -> tuple[np.ndarray, bool]:
    """Grades from scores of which high ones are good, and whether they are labels that were given."""
    lowest = scores.min()
    zero = min(lowest, 0.0)  # labels from 0 up stay what they are
    if (scores == np.rint(scores)).all() and scores.max() - zero <= _HIGHEST_LABEL:
        return np.rint(scores - zero).astype(int), True
    borders = np.quantile(scores, [1.0 - share for share in _SHARES])
    # the lowest scores are of no relevance, however many there are
    return ((scores[:, None] >= borders) & (scores > lowest)[:, None]).sum(axis=1), False


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError:
        raise ImportError(
            'Measures of lists need ir_measures. Install it with: pip install "selmatch[compare]".'
        ) from None
    return ir_measures


@dataclass(frozen=True)
class ListMeasure:
    """A measure of ir_measures, with its name for people."""

    title: Callable[[Lists], str]
    words: Callable[[Lists], str]
    measure: Callable[[Any, Lists], Any]
    needs_relevant: bool


LIST_MEASURES = {
    "ndcg": ListMeasure(
        lambda lists: f"NDCG@{lists.k}",
        lambda lists: (
            f"How good the first {lists.k} of each list are, against the best possible order: 1 is perfect. "
            "Each row adds its grade, less the further down it is."
        ),
        lambda engine, lists: engine.nDCG @ lists.k,
        needs_relevant=False,
    ),
    "average_precision": ListMeasure(
        lambda lists: "average precision",
        lambda lists: f"The precision at each relevant row (grade {lists.relevant} or better), averaged: 1 is perfect.",
        lambda engine, lists: engine.AP(rel=lists.relevant),
        needs_relevant=True,
    ),
    "reciprocal_rank": ListMeasure(
        lambda lists: "reciprocal rank",
        lambda lists: f"1 over the place of the first relevant row (grade {lists.relevant} or better).",
        lambda engine, lists: engine.RR(rel=lists.relevant),
        needs_relevant=True,
    ),
    "list_precision": ListMeasure(
        lambda lists: f"precision@{lists.k}",
        lambda lists: (
            f"The share of relevant rows (grade {lists.relevant} or better) among the first {lists.k} of each "
            "list. Trap: a list with fewer relevant rows than that cannot reach 1."
        ),
        lambda engine, lists: engine.P(rel=lists.relevant) @ lists.k,
        needs_relevant=True,
    ),
}
