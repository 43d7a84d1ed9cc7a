"""A comparison as one HTML file that explains itself: no network, no script, light and dark."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from selmatch import spec
from selmatch.comparison.measures import cost_sentence
from selmatch.comparison.result import Comparison
from selmatch.comparison.tabulate import shown
from selmatch.report import illustrations, method, tables, units
from selmatch.report.pages import page, render
from selmatch.words import readable
from selmatch.writing import replace_file

__all__ = ["html", "write"]

#: signs beside the words of a verdict
_SIGNS = {"helps": "▲", "mixed": "±", "no difference": "=", "does not help": "▼", "too little data": "?"}


def write(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the report of a comparison to a file, and say where it is.

    Parameters
    ----------
    comparison : Comparison
        What :func:`selmatch.compare` found.
    path : path
        The file; folders that are missing are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # the name of a data file may hold bytes that are no text
    replace_file(path, html(comparison, path.parent).encode(errors="backslashreplace"))
    return path


def html(comparison: Comparison, folder: str | os.PathLike[str] | None = None) -> str:
    """The report of a comparison as text: equal comparisons give equal reports.

    Parameters
    ----------
    comparison : Comparison
        What :func:`selmatch.compare` found.
    folder : path, optional
        Where its program looks for ``loss.toml`` and ``columns.json``; by default beside itself.
    """
    tested = comparison.tested
    body = render(
        "report.html.j2",
        comparison=comparison,
        cost=cost_sentence(comparison),
        sign=_SIGNS.get(comparison.verdict.kind, ""),
        blocks=tables.blocks(comparison),
        gains=tables.gains(comparison),
        aim=tables.aim(comparison),
        model=method.MODELS.get(comparison.question.model, comparison.question.model),
        forest=illustrations.gains(comparison),
        design=illustrations.design(comparison),
        quality=illustrations.quality(comparison),
        steps=method.sentences(comparison),
        settings=method.settings(comparison),
        units=units,
        elicited=float(comparison.loss.minimiser(tested.observed, tested.weights)),
        mean=float(np.average(tested.observed, weights=tested.weights)),
        spec=spec.dumps(comparison.loss),
        digest=spec.digest(comparison.loss),
        code=comparison.code if folder is None else comparison.program(folder),
        shown=shown,
        readable=readable,
        spread=tables.spread,
    )
    target = comparison.question.target
    return page(
        f"{target}: what a selective loss buys",
        body,
        description=comparison.verdict.headline,
        footer=f"Data: {comparison.data.name}, fingerprint {comparison.data.fingerprint}.",
    )
