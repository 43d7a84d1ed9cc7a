"""A comparison as the tables of its report: blocks of measures, and gains with the splits behind them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from selmatch.comparison.measures import KINDS
from selmatch.comparison.result import SELECTIVE, Comparison, Contender, Estimate, Measure, Score
from selmatch.comparison.tabulate import MISSING, Row, rows, shown

#: what to know before reading a block
ADVICE = {
    "aim": "Every loss is tuned for this, and this decides the verdict.",
    "observed": "Known only afterwards: predicting more of everything already looks good here. See the control.",
    "predicted": "You act on predictions, so these are the rows you would pick. Each loss has its own.",
    "bias": "A selective loss is off in the units of the score, on purpose; on the scale of its link it should not be.",
    "order": "Whether the right rows come first, whatever their scores are.",
    "lists": "The usual measures of rankings, each list on its own.",
}
#: what the interval of a gain says
_READINGS = {1: "selective clearly better", -1: "the other clearly better", 0: "undecided"}


@dataclass(frozen=True)
class Block:
    """The measures of one kind."""

    title: str
    advice: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Gain:
    """What the selective loss gains over one other loss, on the measure that it aims at.

    Attributes
    ----------
    contender, score : Contender, Score
        The other, and its numbers.
    won, splits : int
        In how many splits the selective loss is better, and how many there are.
    reading : str
        What the interval of the gain says about the two.
    """

    contender: Contender
    score: Score
    won: int
    splits: int
    reading: str


def blocks(comparison: Comparison) -> tuple[Block, ...]:
    """The table of a comparison, block by block."""
    return tuple(
        Block(KINDS.get(kind, kind), ADVICE.get(kind, ""), tuple(block))
        for kind, block in itertools.groupby(rows(comparison), key=lambda row: row.measure.kind)
    )


def aim(comparison: Comparison) -> Measure:
    """The measure that everything is tuned for."""
    return comparison.measures[0]


def gains(comparison: Comparison) -> tuple[Gain, ...]:
    """What the selective loss gains over each of the others that can be measured with it."""
    name = aim(comparison).name
    own = comparison.scores[SELECTIVE][name].splits
    found = []
    for contender in comparison.contenders:
        score = comparison.scores[contender.name][name]
        if score.gain is not None and not math.isnan(score.gain.value):
            won = sum(ours < theirs for ours, theirs in zip(own, score.splits, strict=True))
            reading = _READINGS[int(score.gain.low > 0.0) - int(score.gain.high < 0.0)]
            found.append(Gain(contender, score, won, len(score.splits), reading))
    return tuple(found)


def spread(estimate: Estimate, unit: str) -> str:
    """The ends of an interval, with the decimals of the larger one; nothing where there is no interval."""
    ends = (estimate.low, estimate.high)
    low, high = (shown(end, unit, scale=max(map(abs, ends))) for end in ends)
    return "" if MISSING in (low, high) else f"{low.removesuffix(' %')} to {high}"
