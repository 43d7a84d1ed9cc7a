"""Measures of order within each split: the deepest predictions, and ranks inside the region."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from selmatch.comparison.result import Region, Tested


@dataclass(frozen=True)
class Ranking:
    """Rows in descending order of a key, equal keys together.

    Attributes
    ----------
    order : array of int
        The rows, the largest key first.
    starts : array of int
        Where, in that order, each run of equal keys begins.
    runs : array of int
        The run of each row, in the original order of the rows.
    """

    order: np.ndarray
    starts: np.ndarray
    runs: np.ndarray

    @classmethod
    def of(cls, key: np.ndarray) -> Ranking:
        """The order of some keys."""
        order = np.argsort(-key, kind="stable")
        ordered = key[order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(key) else np.zeros(0, dtype=bool)
        runs = np.empty(len(key), dtype=int)
        runs[order] = np.cumsum(new) - 1
        return cls(order, np.flatnonzero(new), runs)

    def first(self, rows: float) -> tuple[np.ndarray, np.ndarray]:
        """At least so many rows from the top, and where their runs begin; no run is cut."""
        runs = int(np.searchsorted(self.starts, rows))
        if runs == len(self.starts):
            return self.order, self.starts
        return self.order[: self.starts[runs]], self.starts[:runs]

    def middle_ranks(self, amounts: np.ndarray) -> np.ndarray:
        """The rank of each row where it is there so many times, up to a constant; equal keys share their mean rank."""
        totals = _of_runs(amounts[self.order], self.starts)
        return (np.cumsum(totals, axis=0) - 0.5 * totals)[self.runs]


def _of_runs(amounts: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum of each run of ordered rows."""
    return amounts if len(starts) == len(amounts) else np.add.reduceat(amounts, starts, axis=0)


def depth(scores: np.ndarray, region: Region, observed: np.ndarray) -> np.ndarray:
    """How far inside the region scores lie; negative outside.

    For a region at the upper end that orders by the score, at the lower end the other way round, in the middle by the
    distance from the nearest border. An end that no observation passes is no border.
    """
    least, most = observed.min(), observed.max()
    pieces = [(-math.inf if low <= least else low, math.inf if high >= most else high) for low, high in region.pieces]
    return np.max([np.minimum(scores - low, high - scores) for low, high in pieces], axis=0)


#: by contender, for each resample: the sum of what is averaged, and the sum of its weights
Sums = dict[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class TopPrecision:
    """Of the k rows with the deepest predictions, the share observed in the region, of each contender.

    Where equal predictions straddle the border at k, each of them is taken in part.

    Attributes
    ----------
    rankings : mapping of str to Ranking
        The rows by the depth of the predictions, by contender.
    inside, weights : array
        Of each row: whether it is observed in the region, and its weight.
    share : float
        What part of the rows k is; 0 for as many as are observed in the region.
    """

    rankings: Mapping[str, Ranking]
    inside: np.ndarray
    weights: np.ndarray
    share: float

    def __call__(self, counts: np.ndarray) -> Sums:
        """Weights of the hits and of all that was taken, for each column of counts: how often each row is there."""
        k = self.share * counts.sum(axis=0) if self.share else counts[self.inside].sum(axis=0)
        return {name: self._taken(ranking, counts, k) for name, ranking in self.rankings.items()}

    def _taken(self, ranking: Ranking, counts: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # only the first rows matter; how many is not known before, as some are there many times and some not at all
        rows, starts = ranking.first(k.max() + 10.0 * math.sqrt(len(counts)))
        taken = counts[rows]
        if (taken.sum(axis=0) < k).any():
            rows, starts = ranking.order, ranking.starts
            taken = counts[rows]
        there = _of_runs(taken, starts)
        left = k - np.cumsum(there, axis=0) + there
        # what is taken of each run; the runs in front whole, the one at the border in part
        share = np.divide(np.clip(left, 0.0, there), there, out=np.zeros_like(there), where=there > 0.0)
        hits, picked = (
            np.einsum("ij,ij->j", share, _of_runs(taken * weights[rows, None], starts))
            for weights in (self.weights * self.inside, self.weights)
        )
        return hits, picked


#: ranks whose variance is below this share of the largest possible one are all equal, but for rounding
_EQUAL = 1e-24


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation of predicted and observed scores on the rows observed in the region, of each contender.

    Equal predictions for all have no order, and a correlation of 0; equal observations are left out.
    """

    predicted: Mapping[str, Ranking]
    observed: Ranking
    inside: np.ndarray
    weights: np.ndarray

    def __call__(self, counts: np.ndarray) -> Sums:
        """Correlations times the weight of the rows in the region, and that weight, for each column of counts."""
        amounts = counts[self.inside] * self.weights[:, None]
        weight = amounts.sum(axis=0)
        mean, least = 0.5 * weight, _EQUAL * weight**3
        observed = self.observed.middle_ranks(amounts) - mean
        weighted = amounts * observed
        observed_variance = np.einsum("ij,ij->j", weighted, observed)
        ordered = observed_variance > least
        found = {}
        for name, ranking in self.predicted.items():
            predicted = ranking.middle_ranks(amounts) - mean
            covariance = np.einsum("ij,ij->j", weighted, predicted)
            predicted_variance = np.einsum("ij,ij,ij->j", amounts, predicted, predicted)
            size = np.sqrt(predicted_variance * observed_variance)
            known = ordered & (predicted_variance > least)
            correlation = np.divide(covariance, size, out=np.zeros_like(size), where=known)
            found[name] = correlation * weight, np.where(ordered, weight, 0.0)
        return found


@dataclass(frozen=True)
class WithinSplits:
    """A measure of order in each split, averaged by the weights that it gives.

    Each split has its own model, whose scores may lie higher or lower than those of the others. In one row of all
    splits such levels would count as order.
    """

    parts: tuple[tuple[np.ndarray, Callable[[np.ndarray], Sums]], ...]

    @classmethod
    def precision(
        cls, predicted: Mapping[str, np.ndarray], tested: Tested, region: Region, weights: np.ndarray, top: int
    ) -> WithinSplits:
        """Top-k precision; k is shared out among the splits, and the number of rows in the region without ``top``."""
        inside = region.holds(tested.observed)
        depths = {name: depth(scores, region, tested.observed) for name, scores in predicted.items()}
        share = min(top / len(inside), 1.0)

        def part(rows: np.ndarray) -> TopPrecision:
            return TopPrecision(_ranked(depths, rows), inside[rows], weights[rows], share)

        return cls(tuple((rows, part(rows)) for rows in _rows_of_splits(tested)))

    @classmethod
    def rank_correlation(
        cls, predicted: Mapping[str, np.ndarray], tested: Tested, region: Region, weights: np.ndarray
    ) -> WithinSplits:
        """Rank correlation inside the region."""
        inside = region.holds(tested.observed)

        def part(rows: np.ndarray) -> RankCorrelation:
            within = np.flatnonzero(inside[rows])
            chosen = rows[within]
            return RankCorrelation(
                _ranked(predicted, chosen), Ranking.of(tested.observed[chosen]), within, weights[chosen]
            )

        return cls(tuple((rows, part(rows)) for rows in _rows_of_splits(tested)))

    def __call__(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """One value for each column of counts, by contender; NaN where there is nothing to measure."""
        found = [measure(counts[rows]) for rows, measure in self.parts]
        values = {}
        for name in found[0]:
            total, weight = (sum(sums[name][i] for sums in found) for i in range(2))
            values[name] = np.divide(total, weight, out=np.full_like(weight, np.nan), where=weight > 0.0)
        return values


def _rows_of_splits(tested: Tested) -> list[np.ndarray]:
    return [np.flatnonzero(tested.split == split) for split in np.unique(tested.split)]


def _ranked(keys: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, Ranking]:
    return {name: Ranking.of(values[rows]) for name, values in keys.items()}
