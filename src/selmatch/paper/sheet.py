"""The contact sheet: every figure, table, worked example and claim of the paper on one page."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selmatch.paper.records import CONDITION, ERRATUM, HOLDS, OURS, REMARK, REPEATED, WORDING, Claim, Evidence
from selmatch.writing import replace_file

PAGE = "index.html"
CLAIM = re.compile(r"\bC\d{2,3}\b")
#: drawings that are wider than this, in inches, get the whole width of the page
WIDE = 7.0
#: text as outlines, since formulas need the very font they were set in; fixed ids, so that the same figure is the same
#: file
SAVED: dict[Any, Any] = {"svg.fonttype": "path", "svg.hashsalt": "selmatch"}
#: verdicts and words for them, errata first: they are what a reader of the paper needs most
SECTIONS = (
    ((ERRATUM,), "errata", "Errata", "What needs a correction, with a counterexample or the right statement."),
    ((CONDITION, REMARK), "conditions", "Conditions and remarks", "What holds, and what to know about it."),
    ((WORDING, REPEATED), "words", "Words", "Typos, words that may mislead, and what repeats another entry."),
    ((HOLDS,), "holds", "True as it stands", "What was checked and holds."),
    ((OURS,), "ours", "Ours, not in the paper", "What we found on the way, and use."),
)


@dataclass(frozen=True)
class Checks:
    """Claims with the same kind of verdict, or findings of ours, and what their checks found."""

    anchor: str
    title: str
    words: str
    rows: tuple[tuple[Claim, Evidence], ...]


@dataclass(frozen=True)
class Saved:
    """The files of a drawing, and how wide it is, in inches."""

    paths: list[Path]
    width: float


def save(draw: Callable[[], Any], stem: Path, formats: tuple[str, ...]) -> Saved:
    """Draw into files of the same name, once for all formats."""
    import matplotlib
    import matplotlib.pyplot as plt

    from selmatch import plots

    stem.parent.mkdir(parents=True, exist_ok=True)
    with plots.theme(), matplotlib.rc_context(SAVED):
        drawn = draw()
        try:
            saved = Saved([stem.with_name(f"{stem.name}.{ending}") for ending in formats], drawn.get_figwidth())
            for path in saved.paths:
                about = {"Date": None, "Creator": "selmatch"} if path.suffix == ".svg" else {}
                drawn.savefig(path, metadata=about)
                drawn.set_layout_engine("none")  # it has found its layout: once is enough for all formats
        finally:
            plt.close(drawn)
    return saved


def write(folder: Path, progress: Callable[[str], object] | None = None) -> Path:
    """Draw all figures and write the page; see :func:`selmatch.paper.write`."""
    from selmatch.paper import examples, ledger, tables
    from selmatch.paper.drawings import FIGURES
    from selmatch.report.pages import Markup, page

    announce = progress or (lambda name: None)
    worked = examples.examples()
    drawings = {figure.name: figure.draw for figure in FIGURES}
    drawings |= {f"example_{example.name}": example.draw for example in worked}
    wide = set()
    for name, drawing in drawings.items():
        announce(name)
        if save(drawing, folder / name, ("svg", "png")).width > WIDE:
            wide.add(name)
    announce("tables")
    measured = tables.tables()
    announce("claims")
    checks = grouped(ledger.run())
    body = Markup(
        _template().render(
            figures=FIGURES, tables=measured, examples=worked, checks=checks, wide=wide, summary=ledger.summary()
        )
    )
    description = "Every figure, table and claim of the paper on selective matching losses, redrawn and checked."
    path = folder / PAGE
    replace_file(path, page("The paper, redrawn and checked", body, description=description).encode())
    return path


def grouped(found: list[tuple[Claim, Evidence]]) -> list[Checks]:
    """The claims by verdict, in the order of the page; findings of ours stand by themselves."""
    return [
        Checks(anchor, title, words, tuple(row for row in found if (OURS if row[0].ours else row[0].verdict) in kinds))
        for kinds, anchor, title, words in SECTIONS
    ]


@functools.cache
def _template() -> Any:
    import jinja2

    from selmatch.report.pages import environment

    overlaid = environment().overlay(loader=jinja2.PackageLoader("selmatch.paper", "templates"))
    overlaid.filters = {**overlaid.filters, "linked": linked, "sentence": sentence}  # not those of the reports
    return overlaid.get_template("sheet.html.j2")


def sentence(text: str) -> str:
    """The first sentence of a caption, for those who cannot see the figure.

    Examples
    --------
    >>> from selmatch.paper.sheet import sentence
    >>> sentence("A loss with gamma = 0.5. It is convex.")
    'A loss with gamma = 0.5.'
    """
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def linked(text: str) -> Any:
    """Text in which every claim, such as C16, is a link to its row.

    Examples
    --------
    >>> from selmatch.paper.sheet import linked
    >>> print(linked("a < b (C16)"))
    a &lt; b (<a href="#C16">C16</a>)
    """
    from selmatch.report.pages import Markup

    return Markup(CLAIM.sub(r'<a href="#\g<0>">\g<0></a>', str(Markup.escape(text))))
