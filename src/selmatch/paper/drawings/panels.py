"""Figures as grids: a column is a loss, a row is a way to look at it, and the drawing is the same for all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

import selmatch as sm
from selmatch import plots

#: the scores that the paper observes in nearly every figure, and the scores it predicts
OBSERVED = (-3.0, 0.0, 3.0)
SCORES = (-6.0, 6.0)


@dataclass(frozen=True)
class Shape:
    """A curve of a gallery, whose role (link, scaling, scaling for classes) the figure decides.

    Attributes
    ----------
    curve : Curve
        With its parameters.
    title : str
        Its formula, if not given.
    gamma : float
        Where it is a scaling.
    erratum : bool
        Whether the paper is wrong about it.
    """

    curve: sm.Curve
    title: str = ""
    gamma: float = 1.0
    erratum: bool = False

    @property
    def heading(self) -> str:
        return self.title or f"${sm.latex(self.curve)}$"


@dataclass(frozen=True)
class Column:
    """One column of a figure.

    Attributes
    ----------
    title : str
        What stands above it.
    loss : MatchingLoss, CrossEntropy or ReweightedSquare
        What the column is about.
    scalar : MatchingLoss, optional
        The loss of a single score that stands beside one of many classes.
    observed, domain : tuple of float
        The scores that were observed, and the range of those that are predicted.
    erratum : bool
        Whether the paper is wrong about it.
    """

    title: str
    loss: Any
    scalar: Any = None
    observed: tuple[float, ...] = OBSERVED
    domain: tuple[float, float] = SCORES
    erratum: bool = False


@dataclass(frozen=True)
class Row:
    """One row of a figure: what is on the axes, and how they are drawn for a column."""

    name: str
    y: str
    x: str
    draw: Callable[[Axes, Column], object]
    projection: str | None = None


@dataclass(frozen=True)
class Block:
    """Rows that belong together, with the columns they show."""

    title: str
    columns: tuple[Column, ...]


def as_link(shape: Shape) -> Column:
    """The matching loss of the curve."""
    return Column(shape.heading, sm.MatchingLoss(shape.curve), erratum=shape.erratum)


def as_scaling(shape: Shape) -> Column:
    """The loss of a single score with the curve as scaling."""
    loss = sm.MatchingLoss(sm.CompositeSigmoid(shape.curve, gamma=shape.gamma))
    return Column(shape.heading, loss, erratum=shape.erratum)


def for_classes(shape: Shape) -> Column:
    """The loss of many classes with the curve as scaling, beside the loss of a single score.

    What the paper is wrong about is built without the check that refuses it.
    """
    softmax = sm.CompositeSoftmax(shape.curve, gamma=shape.gamma, check=not shape.erratum)
    scalar = as_scaling(shape).loss
    return Column(shape.heading, sm.MatchingLoss(softmax), scalar, erratum=shape.erratum)


# --------------------------------------------------------------------------------------------------------- figures


def drawn(function: Callable[[], Figure]) -> Callable[[], Figure]:
    """A figure in the style of all figures."""

    @functools.wraps(function)
    def draw() -> Figure:
        with plots.theme():
            return function()

    return draw


def grid(rows: Sequence[Row], columns: Sequence[Column], **options: Any) -> Figure:
    """Draw every row for every column; options are those of :func:`stacked`."""
    return stacked(rows, [Block("", tuple(columns))], **options)


def stacked(
    rows: Sequence[Row],
    blocks: Sequence[Block],
    *,
    width: float = 7.2,
    height: float = 1.35,
    legend: Sequence[tuple[str, dict[str, Any]]] = (),
) -> Figure:
    """Draw every row for every column of each block; the blocks stand below one another.

    Each axes carries ``"row / column"``, with the block before it, as its label, where tests and readers of the figure
    find it.

    Parameters
    ----------
    rows, blocks : sequence
        What to draw. Blocks have letters; the columns of a block without a title have their own.
    width : float
        Of the figure, in inches.
    height : float
        Of one row, in inches.
    legend : sequence of (text, line style)
        What colours and lines mean, below the figure.
    """
    import matplotlib.pyplot as plt

    count = max(len(block.columns) for block in blocks)
    labelled = [_ends_its_axis(rows, i) for i in range(len(rows))]
    tall = (height * len(rows) + 0.3 * sum(labelled)) * len(blocks) + 0.25
    figure = plt.figure(figsize=(width, tall))
    parts = figure.subfigures(len(blocks), 1, squeeze=False, hspace=0.03)[:, 0] if len(blocks) > 1 else [figure]
    letters = iter(ascii_lowercase)  # of blocks, or of columns if there is only one block
    for part, block in zip(parts, blocks, strict=True):
        if block.title:
            part.suptitle(f"{next(letters)}   {block.title}", x=0.01, ha="left", fontweight="bold", fontsize="medium")
        for j, column in enumerate(block.columns):
            for i, row in enumerate(rows):
                ax = part.add_subplot(len(rows), count, i * count + j + 1, projection=row.projection)
                ax.set_label(" / ".join(filter(None, (block.title, row.name, column.title))))
                row.draw(ax, column)
                _finish(ax, row, first=j == 0, last=labelled[i])
                if i == 0:
                    title = column.title if block.title else lettered(next(letters), column.title)
                    ax.set_title(title, fontsize="small", color=_title_colour(column))
    if legend:
        handles = [Line2D([], [], **style) for _, style in legend]
        figure.legend(
            handles, [text for text, _ in legend], loc="outside lower center", ncols=len(legend), fontsize="small"
        )
    return figure


def _ends_its_axis(rows: Sequence[Row], i: int) -> bool:
    """Whether the row below has other scores on its axis, or is none: then they are named."""
    return i == len(rows) - 1 or (rows[i + 1].x, rows[i + 1].projection) != (rows[i].x, rows[i].projection)


def lettered(letter: str, title: str) -> str:
    """The title of a panel, with the letter by which the text refers to it."""
    return rf"$\bf{{{letter}}}$  {title}"


def _title_colour(column: Column) -> str:
    return plots.COLOURS["vermillion"] if column.erratum else "black"


def _finish(ax: Axes, row: Row, *, first: bool, last: bool) -> None:
    """One look for all: few ticks, labels only at the rim."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.set_title("")
    if row.projection is not None:
        return  # has its own labels, inside
    ax.set_ylabel(row.y if first else "")
    ax.set_xlabel(row.x if last else "")
    ax.tick_params(labelbottom=last, labelsize="x-small", pad=2)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(4))


def legend_of(observed: Sequence[float] = OBSERVED, **lines: str) -> list[tuple[str, dict[str, Any]]]:
    """What the colours of observed scores mean, and then what lines mean: ``dashed="sensitivity"``."""
    colours = [(f"$s = {score:g}$", {"color": plots.colour_of(score)}) for score in observed]
    return colours + [(text, {"color": "0.4", "linestyle": style}) for style, text in lines.items()]
