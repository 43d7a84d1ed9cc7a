"""A comparison on the terminal: its table in blocks that fit, then the verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from selmatch.cli.output import results

if TYPE_CHECKING:
    from selmatch.comparison.tabulate import Cell, Row

#: from the values and the intervals of a column to the lines of each entry
Layout = Callable[[list[str], list[str]], list[list[str]]]

#: colours, and marks for those who do not see them: clearly worse, clearly better than the selective loss
AGAINST = {"worse": ("red", "!"), "better": ("green", "+"), "": ("", " ")}
LEGEND = "* the best   ! clearly worse than the selective loss   + clearly better than it"
#: how tables look: a line below the heading, little air
PLAIN: dict[str, Any] = {
    "box": box.SIMPLE_HEAD, "header_style": "", "padding": (0, 1, 0, 0), "pad_edge": False, "show_edge": False,
}  # fmt: skip
STYLES = {"helps": "bold green", "does not help": "bold yellow", "no difference": "bold yellow", "mixed": "bold yellow"}
#: headings of columns are not broken before so many characters
_HEADING = 12


def show_comparison(comparison: Any) -> None:
    """Print what was compared, the table, and what it says."""
    from selmatch.comparison.measures import INTERVALS, KINDS, cost_sentence
    from selmatch.comparison.tabulate import rows, wrapped

    console, data, question = results(), comparison.data, comparison.question
    used = f"{data.used:,} rows" if data.used == data.rows else f"{data.used:,} of {data.rows:,} rows"
    console.print(Text(f"{question.target} of {data.name}: {used}, {question.model}", style="bold"))
    console.print(Text("\n".join(wrapped(cost_sentence(comparison), width=console.width))))
    for note in sorted(data.notes, key=lambda note: note not in data.warnings):  # what nobody may miss comes first
        loud = note in data.warnings
        console.print(Text(note if loud else f"Note: {note}", style="bold red" if loud else "yellow"))
    for kind, block in groupby(rows(comparison), key=lambda row: row.measure.kind):
        console.print()
        console.print(Text(KINDS.get(kind, kind), style="bold"))
        for table in _fitting(console, tuple(block)):
            console.print(table)
    console.print(Text(LEGEND, style="dim"))
    console.print(Text(INTERVALS, style="dim"))
    console.print()
    verdict = comparison.verdict
    headline = "\n".join(wrapped(verdict.headline, width=console.width))
    console.print(Text(headline, style=STYLES.get(verdict.kind, "bold")))
    for sentence in verdict.sentences:
        console.print(Text("\n".join(wrapped(sentence, "- ", console.width))))


def _fitting(console: Console, block: Sequence[Row]) -> list[Table]:
    """The block with intervals beside the values; else below them, then shorter; else in two parts."""
    unbounded = console.options.update_width(10_000)
    for layout in (_beside, _below, _short_below):
        table = _table(block, layout)
        if console.measure(table, options=unbounded).maximum <= console.width:
            return [table]
    half = len(block) // 2
    if not half:
        return [_table(block, _short_below)]
    return [*_fitting(console, block[:half]), *_fitting(console, block[half:])]


def _table(block: Sequence[Row], layout: Layout) -> Table:
    """Contenders in lines, measures in columns."""
    table = Table(**PLAIN)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    columns = [_column(row, layout) for row in block]
    for heading, _ in columns:
        table.add_column(heading, no_wrap=True, vertical="bottom")
    for i, cell in enumerate(block[0].cells):
        table.add_row(Text(cell.contender.title), *(entries[i] for _, entries in columns))
    return table


def _column(row: Row, layout: Layout) -> tuple[Text, list[Text]]:
    """The heading of one measure and its entries, numbers and marks below each other."""
    values = [f"{cell.value} {'*' if cell.best else ' '}{AGAINST[cell.against][1]}" for cell in row.cells]
    widest = max(map(len, values))
    entries = layout([value.rjust(widest) for value in values], [cell.interval for cell in row.cells])
    width = max(len(line) for lines in entries for line in lines)
    heading = textwrap.wrap(row.measure.title, max(width, _HEADING))
    width = max(width, *map(len, heading))
    made = [_entry(cell, lines, widest, width) for cell, lines in zip(row.cells, entries, strict=True)]
    return Text("\n".join(line.rjust(width) for line in heading)), made


def _entry(cell: Cell, lines: list[str], widest: int, width: int) -> Text:
    colour = AGAINST[cell.against][0]
    entry = Text("\n".join(line.rjust(width) for line in lines), style=f"bold {colour}" if cell.best else colour)
    entry.stylize("not bold dim", width - len(lines[0]) + widest)  # all behind the value and its marks
    return entry


def _beside(values: list[str], intervals: list[str]) -> list[list[str]]:
    room = max(map(len, intervals))
    return [[f"{value} {interval:<{room}}"] for value, interval in zip(values, intervals, strict=True)]


def _below(values: list[str], intervals: list[str]) -> list[list[str]]:
    return [[value, interval] for value, interval in zip(values, intervals, strict=True)]


def _short_below(values: list[str], intervals: list[str]) -> list[list[str]]:
    return _below(values, [interval.replace(" to ", "..") for interval in intervals])
