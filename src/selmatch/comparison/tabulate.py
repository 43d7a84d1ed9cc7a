"""The table of a comparison: cells for those who draw tables, and a plain text for those who print."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from selmatch.comparison.measures import INTERVALS, KINDS, cost_sentence
from selmatch.comparison.result import Comparison, Contender, Estimate, Measure, Score
from selmatch.words import printable, readable, unbroken

_WIDTH = 100
#: where there is nothing to measure
MISSING = "-"
#: behind a number: the best one; clearly worse, clearly better than the selective loss
_BEST, _AGAINST = "*", {"worse": "!", "better": "+", "": " "}


@dataclass(frozen=True)
class Cell:
    """One contender on one measure, ready to be shown.

    Attributes
    ----------
    contender : Contender
        Whose it is.
    score : Score
        The numbers.
    value, interval : str
        The same for people; a dash and nothing where there is nothing to measure.
    best : bool
        Whether no contender has a better value, and not all are equal.
    against : {"worse", "better", ""}
        Whether it is clearly worse or better than the selective loss: the interval of the gain excludes 0.
    """

    contender: Contender
    score: Score
    value: str
    interval: str
    best: bool
    against: str


@dataclass(frozen=True)
class Row:
    """One measure, with a cell for each contender."""

    measure: Measure
    cells: tuple[Cell, ...]


def rows(comparison: Comparison) -> tuple[Row, ...]:
    """The cells of the table, a row for each measure, in the order of the comparison.

    Measures of the same kind follow each other; ``KINDS`` of :mod:`selmatch.comparison.measures` has their headings.
    """
    return tuple(_row(comparison, measure) for measure in comparison.measures)


def _row(comparison: Comparison, measure: Measure) -> Row:
    scores = [comparison.scores[contender.name][measure.name] for contender in comparison.contenders]
    distances = [_distance(measure, score.estimate.value) for score in scores]
    best = min((distance for distance in distances if not math.isnan(distance)), default=math.nan)
    equal = all(distance == best or math.isnan(distance) for distance in distances)
    sizes = [size for score in scores if (size := _size(score.estimate)) > 0.0]
    scale = median(sizes) if sizes else 0.0  # one number of decimals for all, whatever one of them does
    texts = (_texts(score.estimate, measure.unit, scale) for score in scores)
    cells = (
        Cell(
            contender=contender,
            score=score,
            value=value,
            interval=interval,
            best=distance == best and not equal,
            against=_against(score.gain),
        )
        for contender, score, distance, (value, interval) in zip(
            comparison.contenders, scores, distances, texts, strict=True
        )
    )
    return Row(measure, tuple(cells))


def _distance(measure: Measure, value: float) -> float:
    return {"low": value, "high": -value, "zero": abs(value)}[measure.better]


def _against(gain: Estimate | None) -> str:
    if gain is None or not (gain.low > 0.0 or gain.high < 0.0):
        return ""
    return "worse" if gain.low > 0.0 else "better"


# ------------------------------------------------------------------------------------------------- numbers for people


def shown(value: float, unit: str = "", scale: float = 0.0) -> str:
    """A number for people: four digits, three for shares, which are shown in percent.

    Parameters
    ----------
    value : float
        The number.
    unit : str
        That of its measure.
    scale : float
        The size of a number beside it, which then has as many decimals.

    Examples
    --------
    >>> from selmatch.comparison.tabulate import shown
    >>> shown(1234.56), shown(0.012345), shown(0.1234, "share"), shown(0.5, scale=1234.56)
    ('1,235', '0.01235', '12.3 %', '0')
    """
    if math.isnan(value):
        return MISSING
    factor, digits, sign = (100.0, 3, " %") if unit == "share" else (1.0, 4, "")
    return readable(factor * value, digits, scale=factor * scale, padded=True) + sign * math.isfinite(value)


def _size(estimate: Estimate) -> float:
    """The largest number of value and interval."""
    numbers = (estimate.value, estimate.low, estimate.high)
    return max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)


def _texts(estimate: Estimate, unit: str, scale: float) -> tuple[str, str]:
    """Value and interval."""
    numbers = (estimate.value, estimate.low, estimate.high)
    value, low, high = (shown(number, unit, max(scale, _size(estimate))) for number in numbers)
    return value, "" if MISSING in (low, high) else f"{low.removesuffix(' %')} to {high.removesuffix(' %')}"


# --------------------------------------------------------------------------------------------------------- plain text


def text(comparison: Comparison) -> str:
    """What ``print(comparison)`` shows: the verdict, the table in blocks, and what the measures mean."""
    verdict, data = comparison.verdict, comparison.data
    model = f"{comparison.question.model}, {len(comparison.contenders)} contenders"
    used = f"{data.used:,} rows" if data.used == data.rows else f"{data.used:,} of {data.rows:,} rows"
    lines = [f"{comparison.question.target} of {data.name}: {used}, {model}", *wrapped(cost_sentence(comparison)), ""]
    for warning in data.warnings:
        lines += [*wrapped(warning), ""]
    lines += [*wrapped(verdict.headline), ""]
    for sentence in verdict.sentences:
        lines += wrapped(sentence, "- ")
    for kind, block in groupby(rows(comparison), key=lambda row: row.measure.kind):
        lines += ["", KINDS.get(kind, kind).upper(), *_block(tuple(block))]
    lines += [
        "",
        "* the best value   ! clearly worse than the selective loss   + clearly better than it",
        *wrapped(INTERVALS),
        "",
    ]
    for measure in comparison.measures:
        lines += wrapped(f"{measure.title}: {measure.words}", "- ")
    return printable("\n".join(lines))


def _block(block: tuple[Row, ...]) -> list[str]:
    """Contenders in lines, measures in columns."""
    columns = [["", *(cell.contender.title for cell in block[0].cells)]]
    columns += [[f"{row.measure.title}  ", *map(_entry, row.cells)] for row in block]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return [_line(line, widths) for line in lines]


def _entry(cell: Cell) -> str:
    interval = f" [{cell.interval}]" if cell.interval else ""
    return f"{cell.value}{interval}{_BEST if cell.best else ' '}{_AGAINST[cell.against]}"


def _line(entries: tuple[str, ...], widths: list[int]) -> str:
    title, *others = entries
    cells = (entry.rjust(width) for entry, width in zip(others, widths[1:], strict=True))
    return " ".join([title.ljust(widths[0]), *cells]).rstrip()


def wrapped(words: str, bullet: str = "", width: int = _WIDTH) -> list[str]:
    """Lines of so many characters, of which none begins with a percent sign."""
    words, indent = unbroken(words), " " * len(bullet)
    lines = textwrap.wrap(words, width, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]
