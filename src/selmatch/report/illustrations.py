"""The pictures of a report: each with a title, words for readers, and words for those who do not see it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from selmatch import plots
from selmatch.comparison.result import CONTROL, SELECTIVE, Comparison
from selmatch.plots.diagnostics import far_rows, few_values
from selmatch.plots.domains import typical_observations
from selmatch.plots.style import short_numbers
from selmatch.report import tables, units
from selmatch.report.pages import Markup
from selmatch.report.pictures import drawing, inline_svg, plain
from selmatch.scales import UNCHANGED

#: inches; a picture is read on a phone as well as beside another one on a desk
SIZE = (4.0, 3.1)
#: of those that stand three in a row
SMALL = (3.4, 2.5)
#: rows behind a picture of all rows: more would not be seen, and cost time
ROWS = 20_000
#: the part of the rows that pictures along the scores show
SHOWN = (0.005, 0.995)
_LEFT_OUT = "At most the outermost 1 % of the rows lie outside the picture."


@dataclass(frozen=True)
class Picture:
    """A picture for the page, with its title and a caption that says how to read it."""

    title: str
    caption: str
    svg: Markup


def gains(comparison: Comparison) -> Picture | None:
    """How much lower the cost is than with each other loss."""
    found = {
        plain(gain.contender.title): tuple(100.0 * end for end in (share.value, share.low, share.high))
        for gain in tables.gains(comparison)
        if (share := gain.score.relative) is not None and math.isfinite(share.value)
    }
    if not found:
        return None

    def draw(ax: Any) -> None:
        plots.gains(found, ax=ax)
        ax.set_xlabel("% lower cost than with this one")

    cut = " An arrow is a row that goes on beyond the edge, with its value beside it." if far_rows(found) else ""
    return _picture(
        "The selective loss against each other loss",
        "Right of the line, training with the selective loss leads to a lower cost than training with the other one "
        f"does. The bar is the 95 % interval; where it crosses the line, the data do not decide.{cut}",
        draw,
        (3.7, 1.0 + 0.34 * len(found)),
    )


def design(comparison: Comparison) -> tuple[Picture, ...]:
    """What the selective loss is: link, sensitivity over the data, and what mistakes cost."""
    loss, observed = comparison.loss.with_scale(None), comparison.tested.observed  # which are scores
    domain = _span(observed)
    known = observed[(observed >= domain[0]) & (observed <= domain[1])]
    typical = typical_observations(known, comparison.region.pieces)
    count = {1: "one typical observation", 2: "two typical observations", 3: "three typical observations"}
    drawn = count.get(len(typical), f"{len(typical)} typical observations")

    def link(ax: Any) -> None:
        plots.link(loss, domain=domain, ax=ax, sensitivity=False)
        ax.set(xlabel="score", ylabel="link")

    def sensitivity(ax: Any) -> None:
        plots.sensitivity(loss, domain=domain, data=known, ax=ax)
        ax.set(xlabel="score", ylabel="sensitivity")

    def losses(ax: Any) -> None:
        plots.losses(loss, observed=typical, domain=domain, ax=ax)
        ax.set(xlabel="predicted score", ylabel="loss")
        for line in ax.lines:
            line.set_clip_on(False)  # a mark at the edge, such as the highest grade, is seen whole
        for label in ax.get_legend().get_texts():
            label.set_text(label.get_text().strip("$").replace("s =", "observed").replace("{,}", ","))

    return (
        _picture(
            "Where the loss looks",
            "The line is the sensitivity: how sharply a mistake is felt at a score. Behind it, how many rows have that "
            "score. Below the orange bar, shaded, is where you said that accuracy matters.",
            sensitivity,
            SMALL,
        ),
        _picture(
            "The link",
            "The link is a ruler for scores, stretched where accuracy matters: a model is trained to be right on it. "
            "Its steepness is the sensitivity.",
            link,
            SMALL,
        ),
        _picture(
            "What a prediction costs",
            f"For {drawn}: no cost at the observation itself, and a steep climb through the part that matters.",
            losses,
            SMALL,
        ),
    )


def quality(comparison: Comparison) -> tuple[Picture, ...]:
    """How good the predictions are, where, and for whom."""
    loss, tested = comparison.loss.with_scale(None), comparison.tested  # whose rows have scores
    few = _few(comparison)
    with_control = _titled(comparison, (*few, CONTROL), slice(None))
    some = _measurable(comparison, few)
    observed, predicted = tested.observed[some], _titled(comparison, few, some)
    weights = None if tested.weights is None else tested.weights[some]
    # on the link's scale a few far rows would take all the room
    low, high = _span(loss.potential.link(observed))
    room = 0.04 * (high - low)

    logarithmic = units.scale_of(comparison) != UNCHANGED
    unit = f" Errors are in {units.LOG_UNITS}." if logarithmic else ""
    ordered = "for each value that was observed" if few_values(tested.observed) else "in order of the observation"

    def errors(by: str) -> Callable[[Any], None]:
        def draw(ax: Any) -> None:
            plots.error_by_decile(tested.observed, with_control, ax=ax, by=by, weights=tested.weights)
            if logarithmic:
                ax.set_ylabel(f"{ax.get_ylabel()}, log units")

        return draw

    def reliability(ax: Any) -> None:
        plots.reliability(observed, predicted, loss, ax=ax, weights=weights)
        ax.set(xlim=(low - room, high + room), ylim=(low - room, high + room))

    def murphy(ax: Any) -> None:
        plots.murphy(observed, predicted, loss, ax=ax, weights=weights, etas=np.linspace(low, high, 200))
        ax.set(xlim=(low - room, high + room))

    return (
        _picture(
            "Error by what was predicted",
            "Rows in ten equal parts, from the lowest to the highest prediction: each loss has its own order. What you "
            f"would act on stands at the right end if high scores matter to you, at the left if low ones do.{unit}",
            errors("prediction"),
        ),
        _picture(
            "Error by what was observed",
            f"The same, {ordered}. Do not choose a loss by this picture: the control, which only adds "
            "a constant, looks good at one end of it and pays at the other.",
            errors("observation"),
        ),
        _picture(
            "Reliability, on the scale of the link",
            "Predictions against what was observed on average for such predictions, both measured with the link. On "
            f"the diagonal, a model keeps what it promises. {_LEFT_OUT}",
            reliability,
        ),
        _picture(
            "Murphy diagram, on the scale of the link",
            "The lower, the better, at each place of the scale. A line that is below another one everywhere is better "
            f"for every loss with the same optimum; lines that cross are each better somewhere. {_LEFT_OUT}",
            murphy,
        ),
    )


def _picture(title: str, caption: str, draw: Callable[[Any], None], size: tuple[float, float] = SIZE) -> Picture:
    from matplotlib.figure import Figure

    with plots.theme(), drawing():
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.subplots()
        draw(ax)
        short_numbers(ax)
        return Picture(title, caption, inline_svg(figure, title, caption))


def _few(comparison: Comparison) -> tuple[str, ...]:
    """The contenders that pictures show: more than three lines are not read."""
    verdict = comparison.verdict
    ordinal = {contender.name for contender in comparison.contenders if contender.ordinal}
    known = [contender.name for contender in comparison.contenders if contender.trained]
    wanted = dict.fromkeys((SELECTIVE, verdict.winner, verdict.rival, "squared", *known))
    return tuple(name for name in wanted if name in known and name not in ordinal)[:3]


def _titled(comparison: Comparison, names: tuple[str, ...], rows: Any) -> dict[str, np.ndarray]:
    titles = {contender.name: plain(contender.title) for contender in comparison.contenders}
    return {titles[name]: comparison.tested.predicted[name][rows] for name in names if name in titles}


def _measurable(comparison: Comparison, names: tuple[str, ...]) -> np.ndarray:
    """Rows where the link of all scores is finite: at most ``ROWS`` of them, the same in every run."""
    tested, potential = comparison.tested, comparison.loss.potential
    known = np.ones(len(tested.observed), dtype=bool)
    for scores in (tested.observed, *(tested.predicted[name] for name in names)):
        inside = np.asarray(potential.holds(scores))
        with np.errstate(all="ignore"):
            links = potential.link(np.where(inside, scores, tested.observed))
        known &= inside & np.isfinite(links)
    rows = np.flatnonzero(known)
    if len(rows) <= ROWS:
        return rows
    return np.sort(np.random.default_rng(comparison.question.seed).choice(rows, ROWS, replace=False))


def _span(values: np.ndarray) -> tuple[float, float]:
    """Where nearly all values are: a few far ones would squeeze everything else."""
    low, high = np.quantile(values, SHOWN)
    return (float(low), float(high)) if high > low else (float(values.min()), float(values.max()))
