"""How pictures look: colours that everybody can tell apart, marks that survive greyscale, a journal's settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.transforms import ScaledTranslation

from selmatch.words import readable

#: the palette of Okabe and Ito, which people with any colour vision can tell apart
COLOURS = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "bluish green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "reddish purple": "#CC79A7",
}
#: the order in which lines take them; black, the ink, and yellow, pale on paper, come last
CYCLE = ("blue", "vermillion", "bluish green", "orange", "sky blue", "reddish purple", "black", "yellow")
#: what tells lines apart without colour
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 2)), (0, (3, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: colour and mark of low, middle and high scores; the paper's red, green and blue
_LOW, _MIDDLE, _HIGH = ("vermillion", "v"), ("bluish green", "o"), ("blue", "^")
_BETWEEN = (("orange", "s"), ("sky blue", "D"), ("reddish purple", "P"), ("yellow", "X"), ("black", "*"))

#: from here on, numbers on an axis are written short
LARGE = 1e4
#: the derivative's prime; the one of mathtext is a glyph of a TeX font, which SVG files with text show as a 0
PRIME = "\N{PRIME}"
#: from the axes down to a legend below them, in points and in lines of text: ticks, numbers and a label have room
BELOW, LINES_BELOW = 12.0, 2.4
#: characters of a name that fit beside another name in a legend
SHORT = 24

#: Matplotlib's settings are one for all threads: who changes them for a while keeps the others waiting
_SETTINGS_LOCK = threading.RLock()

_PAPER, _INK = "#ffffff", "#1c1c1c"
_SLATE, _CHALK = "#15181d", "#e4e6ea"


@contextmanager
def theme(dark: bool = False, settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw in the style of a good journal figure: a context manager that leaves your own settings as they were.

    Save the figure inside it too: how an SVG file keeps its text is a setting of saving. Settings are the same for all
    threads, so that only one thread at a time is inside; others wait.

    Parameters
    ----------
    dark : bool
        Light lines on a dark ground.
    settings : mapping, optional
        More of Matplotlib's settings, such as ``{"figure.dpi": 200}``.

    Examples
    --------
    >>> from selmatch import plots
    >>> with plots.theme():
    ...     axes = plots.losses(sm.Sinh())
    """
    ground, ink = (_SLATE, _CHALK) if dark else (_PAPER, _INK)
    colours = [ink if name == "black" else COLOURS[name] for name in CYCLE]
    chosen: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.edgecolor": ink,
        "axes.facecolor": ground,
        "axes.labelcolor": ink,
        "axes.labelsize": 8.5,
        "axes.linewidth": 0.6,
        "axes.prop_cycle": cycler(color=colours),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlepad": 5.0,
        "axes.titlesize": 9.0,
        "figure.constrained_layout.use": True,
        "figure.dpi": 120.0,
        "figure.edgecolor": ground,
        "figure.facecolor": ground,
        "figure.titlesize": 9.0,
        "font.size": 8.5,
        "axes3d.xaxis.panecolor": ground,
        "axes3d.yaxis.panecolor": ground,
        "axes3d.zaxis.panecolor": ground,
        "grid.color": "#3a3f47" if dark else "#d9d9d9",
        "grid.linewidth": 0.5,
        "image.cmap": "cividis" if dark else "cividis_r",
        "legend.fontsize": 8.0,
        "legend.frameon": False,
        "legend.handlelength": 2.2,
        "lines.linewidth": 1.4,
        "lines.markersize": 4.5,
        "patch.linewidth": 0.6,
        "savefig.dpi": 160.0,
        "savefig.edgecolor": "auto",
        "savefig.facecolor": "auto",
        "svg.fonttype": "none",
        "text.color": ink,
        "xtick.color": ink,
        "xtick.labelsize": 8.0,
        "xtick.major.size": 2.5,
        "xtick.major.width": 0.6,
        "ytick.color": ink,
        "ytick.labelsize": 8.0,
        "ytick.major.size": 2.5,
        "ytick.major.width": 0.6,
    }
    chosen.update(settings or {})
    with settings_in_force(chosen):
        yield


@contextmanager
def settings_in_force(chosen: Mapping[Any, Any]) -> Iterator[None]:
    """Some of Matplotlib's settings for a while, for one thread at a time."""
    with _SETTINGS_LOCK:
        # not rc_context, which would also take back what a notebook sets when its first figure is made
        before = {name: matplotlib.rcParams[name] for name in chosen}
        matplotlib.rcParams.update(chosen)
        try:
            yield
        finally:
            matplotlib.rcParams.update(before)


def colour_of(score: float, among: Sequence[float] = ()) -> str:
    """The colour of an observed score: vermillion for low, bluish green for the middle, blue for high.

    Parameters
    ----------
    score : float
        The score.
    among : sequence of float
        All scores of the picture, which say what is low and high; by default negative, zero and positive.

    Examples
    --------
    >>> from selmatch.plots import COLOURS, colour_of
    >>> colour_of(-3.0) == COLOURS["vermillion"], colour_of(40.0, among=(40.0, 600.0, 5000.0)) == COLOURS["vermillion"]
    (True, True)
    """
    return COLOURS[_manner(score, among)[0]]


def marker_of(score: float, among: Sequence[float] = ()) -> str:
    """The mark of an observed score, so that lines can be told apart in greyscale: each passes through its own."""
    return _manner(score, among)[1]


def _manner(score: float, among: Sequence[float]) -> tuple[str, str]:
    ordered = sorted({float(other) for other in among})
    if len(ordered) < 2 or score not in ordered:
        return _MIDDLE if score == 0.0 else _LOW if score < 0.0 else _HIGH
    place, last = ordered.index(score), len(ordered) - 1
    if place in (0, last):
        return _HIGH if place else _LOW
    if 2 * place == last:
        return _MIDDLE
    return _BETWEEN[(place - 1) % len(_BETWEEN)]


def ink() -> str:
    """The colour of text and axes that is in force."""
    return matplotlib.rcParams["axes.edgecolor"]


def in_formula(value: float) -> str:
    """A number for people inside a formula of Matplotlib, which would leave room behind commas."""
    return readable(value, 6).replace(",", "{,}")


def short_number(value: float) -> str:
    """A number for people in little room: 20 k and 3 M."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="\N{THIN SPACE}")(value) if abs(value) >= 1000.0 else readable(value)


def short_numbers(ax: Any) -> None:
    """Write large numbers of both axes as 20 k and 3 M, rather than with many digits or a power of ten beside them."""
    from matplotlib.ticker import EngFormatter, ScalarFormatter

    for axis in (ax.xaxis, ax.yaxis):
        plain = isinstance(axis.get_major_formatter(), ScalarFormatter)
        if plain and max(map(abs, axis.get_view_interval())) >= LARGE:
            axis.set_major_formatter(EngFormatter(sep="\N{THIN SPACE}"))


def legend_below(ax: Any) -> None:
    """A legend that covers no line: below the axes, where the layout of the figure makes room for it."""
    if ax.figure.get_layout_engine() is None:
        ax.legend()
        return
    points = BELOW + LINES_BELOW * ax.xaxis.label.get_fontsize()
    below = ax.transAxes + ScaledTranslation(0.0, -points / 72.0, ax.figure.dpi_scale_trans)
    names = ax.get_legend_handles_labels()[1]
    columns = 2 if max(map(len, names), default=0) <= SHORT else 1
    place = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": below}
    ax.legend(**place, ncols=columns, borderaxespad=0.0, borderpad=0.0)


def cycle_style(place: int) -> dict[str, Any]:
    """Colour, dashes and mark of the line at a place in a list of models."""
    colours = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", [COLOURS[name] for name in CYCLE])
    return {
        "color": colours[place % len(colours)],
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def axes_of(ax: Any, **options: Any) -> Any:
    """The axes that were given; new ones in a figure of their own if there are none."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(3.6, 2.7), layout="constrained", **options)[1]
