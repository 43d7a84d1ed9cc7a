"""What the examples share: a run for each seed, a table of means with intervals, and sentences that follow from it."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

#: what one seed gives: for each loss the value of each measure
Scores = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Measure:
    """A column of the table."""

    name: str
    higher_is_better: bool = True
    digits: int = 3


@dataclass(frozen=True)
class Difference:
    """How far a loss is from another one: the mean over seeds, and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves no doubt about the sign."""
        return self.low > 0.0 or self.high < 0.0


@dataclass(frozen=True)
class Results:
    """The scores of every seed, and which rows of the table are what people use."""

    measures: tuple[Measure, ...]
    usual: tuple[str, ...]
    seeds: tuple[Scores, ...]

    @property
    def losses(self) -> tuple[str, ...]:
        return tuple(self.seeds[0])

    @property
    def selective(self) -> tuple[str, ...]:
        return tuple(name for name in self.losses if name not in self.usual)

    def values(self, loss: str, measure: Measure) -> np.ndarray:
        """One number for each seed."""
        return np.array([scores[loss][measure.name] for scores in self.seeds])

    def best_usual(self, measure: Measure) -> str:
        """The usual loss with the best mean: chosen after the fact, so that it is no easy opponent."""
        sign = 1.0 if measure.higher_is_better else -1.0
        return max(self.usual, key=lambda loss: sign * self.values(loss, measure).mean())

    def difference(self, loss: str, other: str, measure: Measure) -> Difference:
        """Of the same seeds: both have seen the same data."""
        values = self.values(loss, measure) - self.values(other, measure)
        half = half_width(values)
        return Difference(float(values.mean()), float(values.mean() - half), float(values.mean() + half))

    def verdict(self, loss: str, measure: Measure) -> str:
        """ "better", "worse" or "no clear difference", against the best of the usual losses."""
        difference = self.difference(loss, self.best_usual(measure), measure)
        if not difference.clear:
            return "no clear difference"
        return "better" if (difference.mean > 0.0) == measure.higher_is_better else "worse"

    def table(self) -> str:
        """A line for each loss; + and ! stand behind clear differences from the best usual loss."""
        marks = {"better": "+", "worse": "!", "no clear difference": " "}
        columns = [["", *self.losses]]
        for measure in self.measures:
            aim = "higher" if measure.higher_is_better else "lower"
            cells = [f"{measure.name}, {aim}"]
            for loss in self.losses:
                values = self.values(loss, measure)
                mark = marks[self.verdict(loss, measure)] if loss in self.selective else " "
                best = "*" if loss == self.best_usual(measure) else mark
                cells.append(f"{values.mean():.{measure.digits}f} ±{half_width(values):.{measure.digits}f} {best}")
            columns.append(cells)
        widths = [max(map(len, column)) for column in columns]
        lines = []
        for row in zip(*columns, strict=True):
            name, *cells = row
            lines.append("  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip())
        return "\n".join(lines)

    def sentences(self) -> str:
        """Each selective loss against the best usual one, measure by measure."""
        lines = []
        for measure in self.measures:
            other = self.best_usual(measure)
            lines.append(f"{measure.name}, against {other}:")
            for loss in self.selective:
                difference = self.difference(loss, other, measure)
                mean, low, high = (
                    f"{x:+.{measure.digits}f}" for x in (difference.mean, difference.low, difference.high)
                )
                lines.append(f"  {loss}: {self.verdict(loss, measure)}, by {mean} ({low} to {high})")
        return "\n".join(lines)


def half_width(values: np.ndarray) -> float:
    """Of the 95 % interval of the mean, by Student's t."""
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def mean_correlation(statistic: Callable[..., Any], rows: Iterable[np.ndarray], others: Iterable[np.ndarray]) -> float:
    """Of rows with the same rows of another kind, by a function of scipy.stats such as spearmanr."""
    return float(np.mean([statistic(row, other).statistic for row, other in zip(rows, others, strict=True)]))


def run(
    description: str | None,
    study: Callable[[int, bool], Scores],
    measures: Sequence[Measure],
    usual: Sequence[str],
    seeds: int,
    argv: Sequence[str] | None = None,
) -> Results:
    """Read the command line, run the study with each seed, print the table and what it says."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help=f"how many, at least 2 (default: {seeds}, with --quick 2)")
    parser.add_argument("--quick", action="store_true", help="small and short: does it run? The numbers say little")
    given = parser.parse_args(argv)
    count = (2 if given.quick else seeds) if given.seeds is None else given.seeds
    if count < 2:
        parser.error(f"--seeds must be at least 2, got {count}. One seed has no interval.")
    print(description)
    start = time.perf_counter()
    scores = []
    for seed in range(count):
        scores.append(study(seed, given.quick))
        print(f"seed {seed + 1} of {count}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    results = Results(tuple(measures), tuple(usual), tuple(scores))
    print(results.table())
    print(
        f"Means over {count} seeds ± half of the 95 % interval. * the best usual loss; paired with it by seed, a\n"
        "selective loss is + clearly better, ! clearly worse.\n"
    )
    print(results.sentences())
    return results
