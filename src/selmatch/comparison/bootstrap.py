"""Every measure for every contender, with intervals from paired resamples of the tested rows.

Each measure is a function of how often each row is there. All rows once give the value, the rows of a split the value
in that split, and draws with replacement (of whole clusters or groups where there are any) the intervals. Columns of
such counts go through all contenders at once, so that they are compared on the same rows. Measures of order are taken
within each split, and averaged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from selmatch.comparison.measures import RATIOS, Rows
from selmatch.comparison.order_measures import WithinSplits
from selmatch.comparison.question import Question
from selmatch.comparison.ranking_measures import LIST_MEASURES, Lists
from selmatch.comparison.result import SELECTIVE, Contender, Estimate, Measure, Region, Score, Tested
from selmatch.losses import MatchingLoss

#: ends of the intervals, as shares of the resamples
_ENDS = (0.025, 0.975)
#: how many numbers a block of counts may have, which bounds the memory
_BLOCK = 4_000_000
#: a contender and a measure
Key = tuple[str, str]


def scores(
    tested: Tested,
    loss: MatchingLoss,
    region: Region,
    contenders: tuple[Contender, ...],
    measures: tuple[Measure, ...],
    question: Question,
) -> dict[str, dict[str, Score]]:
    """Every measure for every contender, with 95 % intervals, and the gains of the selective loss.

    The gain interval of a measure that is best at zero takes each contender on the side of zero where it is on all
    rows: distances of resamples would be larger than the distance itself wherever a bias is near zero.

    Parameters
    ----------
    tested : Tested
        The rows, with the predictions of all contenders.
    loss, region : MatchingLoss, Region
        The selective loss, and where accuracy matters.
    contenders, measures : tuple
        Who, and what.
    question : Question
        For its number of resamples, its seed and its k.

    Returns
    -------
    dict
        By contender, then by measure: a Score, of NaN where there is nothing to measure.
    """
    splits = tested.split == np.unique(tested.split)[:, None]
    everything = np.vstack([np.ones(splits.shape[1]), splits]).T
    sheet = _sheet(tested, loss, region, contenders, measures, question)
    blocks = [sheet.values(everything)]
    blocks += [sheet.values(counts) for counts in draws(tested, question.resamples, question.seed)]
    nothing = np.full(everything.shape[1] + question.resamples, np.nan)
    series = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
    return {
        contender.name: {
            measure.name: _score(
                measure,
                series.get((contender.name, measure.name), nothing),
                series.get((SELECTIVE, measure.name), nothing) if contender.name != SELECTIVE else None,
                len(splits),
            )
            for measure in measures
        }
        for contender in contenders
    }


def draws(tested: Tested, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each row is there in each resample, in blocks of columns; clusters, or else groups, stay whole."""
    units, unit = np.unique(tested.units, return_inverse=True)
    random = np.random.default_rng(seed)
    most = min(128, max(1, _BLOCK // max(1, len(unit))))
    for first in range(0, resamples, most):
        width = min(most, resamples - first)
        counts = np.empty((len(units), width))
        for column in range(width):
            counts[:, column] = np.bincount(random.integers(0, len(units), len(units)), minlength=len(units))
        yield counts[unit]


# ------------------------------------------------------------------------------------------- measures of many resamples


class _Columns:
    """Columns to be summed, each kept once: contenders share many of them."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights
        self.kept: list[np.ndarray] = []
        self._places: dict[bytes, int] = {}

    def place(self, column: np.ndarray) -> int:
        """The number of a column, times the weights."""
        column = np.ascontiguousarray(self.weights * column, dtype=float)
        name = hashlib.blake2b(column.tobytes(), digest_size=16).digest()
        if name not in self._places:
            self._places[name] = len(self.kept)
            self.kept.append(column)
        return self._places[name]


@dataclass(frozen=True)
class _Ratio:
    """One sum over another, by the numbers of their columns; infinite where a row with an infinite term is there."""

    numerator: int
    denominator: int
    infinite: int | None = None
    limit: float = np.inf

    @classmethod
    def of(cls, columns: _Columns, numerator: np.ndarray, denominator: np.ndarray) -> _Ratio:
        finite = np.isfinite(numerator)
        bottom = columns.place(denominator)
        if finite.all():
            return cls(columns.place(numerator), bottom)
        limit = float(numerator[~finite][0])
        return cls(columns.place(np.where(finite, numerator, 0.0)), bottom, columns.place(~finite), limit)

    def of_sums(self, sums: np.ndarray) -> np.ndarray:
        value = np.where(sums[self.denominator] > 0.0, sums[self.numerator] / sums[self.denominator], np.nan)
        return value if self.infinite is None else np.where(sums[self.infinite] > 0.0, self.limit, value)


@dataclass(frozen=True)
class _Sheet:
    """All measures of all contenders; the sums of all means are one product of matrices, orders go by measure."""

    columns: np.ndarray
    ratios: dict[Key, _Ratio]
    orders: dict[str, WithinSplits]

    def values(self, counts: np.ndarray) -> dict[Key, np.ndarray]:
        """One number for each column of counts."""
        sums = self.columns @ counts
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {key: ratio.of_sums(sums) for key, ratio in self.ratios.items()}
        for measure, order in self.orders.items():
            found |= {(name, measure): value for name, value in order(counts).items()}
        return found


def _sheet(
    tested: Tested,
    loss: MatchingLoss,
    region: Region,
    contenders: tuple[Contender, ...],
    measures: tuple[Measure, ...],
    question: Question,
) -> _Sheet:
    wanted = {measure.name for measure in measures}
    weights = np.ones(len(tested.observed)) if tested.weights is None else np.asarray(tested.weights, dtype=float)
    top = question.top if tested.group is None else 0  # of lists, where there are lists
    names = [contender.name for contender in contenders if not contender.ordinal]
    predicted = {name: np.asarray(tested.predicted[name], dtype=float) for name in names}
    columns, ratios, orders = _Columns(weights), {}, {}
    for name, scores in predicted.items():
        rows = Rows.of(scores, tested, loss, region)
        for measure, terms in RATIOS.items():
            if measure in wanted:
                ratios[name, measure] = _Ratio.of(columns, *terms(rows))
    if "precision" in wanted:
        orders["precision"] = WithinSplits.precision(predicted, tested, region, weights, top)
    if "rank_correlation" in wanted:
        orders["rank_correlation"] = WithinSplits.rank_correlation(predicted, tested, region, weights)
    if wanted & LIST_MEASURES.keys():
        ratios |= _of_lists(tested, contenders, wanted, columns, question)
    return _Sheet(np.array(columns.kept).reshape(-1, len(weights)), ratios, orders)


def _of_lists(
    tested: Tested, contenders: tuple[Contender, ...], wanted: set[str], columns: _Columns, question: Question
) -> dict[Key, _Ratio]:
    """Means over lists, as ratios: each list speaks through its heaviest row, with the mean weight of its rows."""
    lists = Lists.of(tested, question)
    weights = columns.weights
    speaker = np.array([rows[np.argmax(weights[rows])] for rows in lists.members], dtype=int)
    share = np.array([weights[rows].mean() for rows in lists.members])
    # columns are multiplied by the weights of rows
    share = np.divide(share, weights[speaker], out=np.zeros_like(share), where=weights[speaker] > 0.0)
    found = {}
    values = lists.scores({contender.name: tested.predicted[contender.name] for contender in contenders})
    for name, of_measure in values.items():
        for measure, of_list in of_measure.items():
            if measure not in wanted:
                continue
            numbers = np.array(list(of_list), dtype=int)
            numerator, denominator = np.zeros((2, len(weights)))
            denominator[speaker[numbers]] = share[numbers]
            numerator[speaker[numbers]] = share[numbers] * np.array(list(of_list.values()))
            found[name, measure] = _Ratio.of(columns, numerator, denominator)
    return found


# ------------------------------------------------------------------------------------------------- estimates and gains


def _score(measure: Measure, values: np.ndarray, selective: np.ndarray | None, splits: int) -> Score:
    """From the values on all rows, in each split, and in each resample."""
    estimate = _estimate(values, splits)
    in_splits = tuple(values[1 : 1 + splits].tolist())
    if selective is None:
        return Score(estimate, None, in_splits)
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = _distance(measure, values) - _distance(measure, selective)
        share = np.where(gain == 0.0, 0.0, gain / values)
    relative = _estimate(share, splits) if measure.better == "low" else None
    return Score(estimate, _estimate(gain, splits), in_splits, relative)


def _distance(measure: Measure, values: np.ndarray) -> np.ndarray:
    """How bad values are; where zero is good, on the side of zero where the value on all rows is."""
    sign = {"low": 1.0, "high": -1.0}.get(measure.better)
    return values * (np.copysign(1.0, values[0]) if sign is None else sign)


def _estimate(values: np.ndarray, splits: int) -> Estimate:
    value, resampled = float(values[0]), values[1 + splits :]
    resampled = resampled[~np.isnan(resampled)]
    if np.isnan(value) or not len(resampled):
        return Estimate(value, np.nan, np.nan)
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(resampled, _ENDS)
    return Estimate(value, float(low), float(high))
