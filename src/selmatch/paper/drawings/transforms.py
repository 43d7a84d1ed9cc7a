"""A figure of our own: the score-transforms that the paper's appendix warns of, as links."""

from __future__ import annotations

from string import ascii_lowercase

import matplotlib.figure
import numpy as np

from selmatch import plots
from selmatch.paper import score_transforms
from selmatch.paper.drawings.panels import drawn, lettered
from selmatch.paper.records import Figure
from selmatch.paper.score_transforms import link_of

#: title and score-transform
TRANSFORMS = (
    ("$f = |z|^2$", score_transforms.SQUARE),
    (r"$f = e^{\sigma(z)}$", score_transforms.EXP_SIGMOID),
    (r"$f = e^{\tanh(z)}$", score_transforms.EXP_TANH),
    (r"$f = \log(1 + e^z)$", score_transforms.SOFTPLUS),
    (r"$f = \sigma(z)$", score_transforms.SIGMOID),
    (r"$f = \sinh|z|$", score_transforms.SINH_OF_NORM),
)
#: no sample at 0, where two of the transforms vanish
SCORES = np.linspace(-4.0, 4.0, 400)


@drawn
def invalid() -> matplotlib.figure.Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(7.2, 3.8), sharex=True)
    for letter, ax, (title, transform) in zip(ascii_lowercase, axes.flat, TRANSFORMS, strict=False):
        link = link_of(transform)
        values, slopes = link(SCORES), link.slope(SCORES)
        values = np.where(np.abs(np.diff(values, prepend=values[0])) > 0.5, np.nan, values)  # no line across a jump
        ax.plot(SCORES, values, color=plots.COLOURS["blue"], label=r"$\gamma = 1$")
        ax.fill_between(
            SCORES, 0, 1, where=slopes < 0, color=plots.COLOURS["vermillion"], alpha=0.15, linewidth=0,
            transform=ax.get_xaxis_transform(), label="falls",
        )  # fmt: skip
        if transform == score_transforms.SINH_OF_NORM:
            saved = link_of(transform, 0.5)(SCORES)
            ax.plot(SCORES, saved, color=plots.COLOURS["bluish green"], linestyle="--", label=r"$\gamma = 1/2$")
        ax.set_title(lettered(letter, title))
        ax.set_label(f"link / {title}")
    for ax in axes[-1]:
        ax.set_xlabel("$z$")
    for ax in axes[:, 0]:
        ax.set_ylabel("$h(z)$")
    handles, labels = axes.flat[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))
    return figure


FIGURES = (
    Figure(
        "invalid_transforms",
        "Score-transforms whose links fall",
        "app:scaled_bin, Invalid Score-Transforms",
        "The links of the six transforms that the appendix rules out, gamma = 1; shaded: where they fall. Two "
        "entries are right only in part: |z|^d with d > 1 rises around 0 and is continuous there (C114), and "
        "sinh|z| is a fine transform for gamma between 0.5 and 0.8614, tanh for 0.5 (C116). The others fall for "
        "every gamma tried, but may be used on scores to the left of where they start to fall (C115).",
        invalid,
        errata=("C114", "C116"),
    ),
)
