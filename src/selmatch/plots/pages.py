"""A whole figure about one loss: what ``selmatch plot`` draws."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from selmatch.columns import finite_column
from selmatch.composite import CompositeSigmoid, CompositeSoftmax
from selmatch.losses import PerLabel
from selmatch.plots.classes import projections
from selmatch.plots.domains import drawable, shown, typical_observations, typical_scores
from selmatch.plots.lines import link, losses, probability, scaling, sensitivity
from selmatch.plots.style import theme
from selmatch.scales import UNCHANGED, scale_of

#: heading and what draws it
Panels = dict[str, Callable[[Any], Any]]
#: characters of a title that fit on a panel
WIDE = 40


class Page(Figure):
    """A figure that pyplot does not know, and that notebooks show all the same."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=self.dpi)
        return file.getvalue()


def overview(loss: Any, data: Any = None, domain: Any = None, dark: bool = False) -> Any:
    """A loss at a glance: its link, where it looks, and what predictions cost.

    Single scores: link with slope, sensitivity over the data, losses of three observed scores; a composite Sigmoid
    also shows its scaling and probability. Many classes: scaling, and link, sensitivity and loss when one class moves.

    Parameters
    ----------
    loss : MatchingLoss, potential or Curve
        What to draw. A curve that is no link is drawn too: its loss is negative in places.
    data : array, optional
        Observed scores; targets for a loss with a ``scale``, whose pictures are in units of the target.
    domain : pair or Interval, optional
        The scores (or targets) to show; by default those of the data, of the wish, or what is typical.
    dark : bool
        Whether to draw on a dark ground.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``savefig``; it is not known to pyplot, so there is nothing to close.

    Examples
    --------
    >>> figure = sm.plots.overview(sm.focus("high", data=np.arange(100.0)))
    >>> len(figure.axes)
    3
    """
    who = "overview"
    found = drawable(who, loss)
    low, high = shown(who, found, domain, data)
    ends = float(scale_of(found).undone(low)), float(scale_of(found).undone(high))
    panels = _of_classes(found, ends) if found.vector else _of_single_scores(found, ends, data)
    with theme(dark):
        title = _title(found, WIDE * len(panels))
        figure = Page(figsize=(2.75 * len(panels), 2.5 + 0.17 * (title.count("\n") + 1)))
        figure.suptitle(title, x=0.01, ha="left")
        for ax, (heading, draw) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
            draw(ax)
            ax.set_title(heading)
    return figure


def _of_single_scores(loss: Any, ends: tuple[float, float], data: Any) -> Panels:
    look = "Where it looks" if data is None else "Where it looks, over the data"
    panels: Panels = {
        "Link": lambda ax: link(loss, ends, ax, sensitivity=False),
        look: lambda ax: sensitivity(loss, ends, data, ax),
        "What predictions cost": lambda ax: losses(loss, _observations(loss, ends, data), ends, ax),
    }
    if isinstance(loss.potential, CompositeSigmoid):
        return {"Scaling and probability": lambda ax: _scaling_and_probability(loss, ends, ax), **panels}
    return panels


def _observations(loss: Any, ends: tuple[float, float], data: Any) -> tuple[float, ...] | None:
    """Typical observations in the data; None where there are none, or where labels have losses of their own."""
    if data is None or isinstance(loss.potential, PerLabel):
        return None
    scores = finite_column("overview", "data", data)
    scores = scores[(scores >= ends[0]) & (scores <= ends[1])]
    wish, undone = getattr(loss, "wish", None), scale_of(loss).undone
    regions = () if wish is None else [tuple(undone(np.array(region[:2]))) for region in wish.regions]
    return typical_observations(scores, regions) if scores.size else None


def _of_classes(loss: Any, ends: tuple[float, float]) -> Panels:
    softmax = isinstance(loss.potential, CompositeSoftmax)
    classes = 3 if not softmax or loss.potential.rho is None else len(loss.potential.rho)
    scores = typical_scores(*ends, count=classes)
    panels: Panels = {
        "Link, one class moves": lambda ax: projections(loss, scores, ends, ax, of="link", legend=False),
        "Where it looks": lambda ax: projections(loss, scores, ends, ax, of="slope", legend=False, linestyle="-"),
        "What predictions cost": lambda ax: projections(loss, scores, ends, ax),
    }
    return {"Scaling": lambda ax: scaling(loss, ends, ax), **panels} if softmax else panels


def _scaling_and_probability(loss: Any, ends: tuple[float, float], ax: Any) -> None:
    """Each with an axis of its own, in the colour of its line."""
    right = ax.twinx()
    for own, draw in ((ax, scaling), (right, probability)):
        draw(loss, ends, own)
        own.tick_params(axis="y", colors=own.lines[0].get_color())
        own.yaxis.label.set_color(own.lines[0].get_color())
    right.spines["right"].set_visible(True)


def _title(loss: Any, width: int) -> str:
    title = repr(loss) if getattr(loss, "wish", None) is None else f"focus: {loss.wish}"
    if scale_of(loss) != UNCHANGED and getattr(loss, "wish", None) is not None:
        title = f"Scores are {scale_of(loss).words}; {title}"
    return textwrap.fill(textwrap.shorten(title, 2 * width, placeholder=" ..."), width)
