"""``selmatch paper``: the paper's figures redrawn, its tables measured, its claims checked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from selmatch.cli.options import Json
from selmatch.cli.output import emit, messages, plain, results, say, show
from selmatch.cli.table import PLAIN
from selmatch.cli.words import listed, require

STYLES = {
    "holds": "green", "holds under a condition": "yellow", "holds with a remark": "yellow", "wording": "cyan",
    "repeated": "cyan", "erratum": "magenta",
}  # fmt: skip
#: what the words beside a claim are
LABELS = {
    "holds under a condition": "Condition", "holds with a remark": "Remark", "wording": "Meant", "erratum": "Instead",
}  # fmt: skip
FOLDER = Path("selmatch-paper")


def _figure_names(incomplete: str) -> list[str]:
    try:
        from selmatch import paper

        return [figure.name for figure in paper.figures() if figure.name.startswith(incomplete)]
    except Exception:  # completion must never fail in the middle of a user's line
        return []


Folder = Annotated[Path | None, typer.Argument(help=f"Where the figures and their page go, by default {FOLDER}.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Draw only this figure; repeat it.", autocompletion=_figure_names),
]
Claims = Annotated[bool, typer.Option("--claims", help="Check the paper's claims. Exit code 1 if a check fails.")]
Tables = Annotated[bool, typer.Option("--tables", help="Measure the paper's tables again.")]


def paper(
    folder: Folder = None, only: Only = None, claims: Claims = False, tables: Tables = False, as_json: Json = False
) -> None:
    """Redraw the paper's figures into a folder, measure its tables, check its claims."""
    document: dict[str, Any] = {}
    names = listed(only)
    if folder is not None or names or not (claims or tables):
        document["files"] = [str(path) for path in _draw(folder or FOLDER, names)]
        if not as_json:
            show("\n".join(document["files"]))
    if tables:
        document["tables"] = _tables(as_json)
    if claims:
        document["claims"] = _claims(as_json)
    if as_json:
        emit(document)
    if not all(claim["confirmed"] for claim in document.get("claims", ())):
        raise typer.Exit(1)


def _draw(folder: Path, names: list[str]) -> list[Path]:
    """The files that were written: the page with everything, or the figures asked for."""
    from selmatch import paper

    for name in names:
        require("paper", "the figure", name, [figure.name for figure in paper.figures()])
    with messages().status(Text(f"Drawing into {folder} ...")) as status:
        if names:
            return paper.draw(folder, names)
        return [paper.write(folder, progress=lambda part: status.update(Text(f"Drawing into {folder}: {part} ...")))]


def _tables(as_json: bool) -> list[Any]:
    from selmatch.paper.tables import tables

    with messages().status("Measuring the tables ..."):
        found = tables()
    if as_json:
        return plain(found)
    for table in found:
        shown = Table(**PLAIN)
        for column in table.columns:
            shown.add_column(Text(column))
        for row in table.rows:
            shown.add_row(*map(Text, row))
        show(Text(table.title, style="bold"))
        results().print(shown)
        for note in table.notes:
            show(note)
        show("")
    return []


def _claims(as_json: bool) -> list[dict[str, Any]]:
    from selmatch.paper import ledger

    with messages().status("Checking the claims ..."):
        found = ledger.run()
    checked = [
        {
            "id": claim.id, "where": claim.where, "claim": claim.claim, "verdict": claim.verdict,
            "condition": claim.condition, "confirmed": bool(evidence.confirmed), "evidence": evidence.words,
            "numbers": evidence.numbers,
        }
        for claim, evidence in found
    ]  # fmt: skip
    if not as_json:
        _show_claims(checked)
    return checked


def _words(claim: dict[str, Any]) -> Text:
    """A claim, what is to be said about it, and how that was found."""
    words = Text() if claim["confirmed"] else Text("NOT CONFIRMED: ", style="bold red")
    words.append(_line(claim["claim"]), style="not bold default")
    if claim["condition"]:
        label = LABELS.get(claim["verdict"], "Note")
        words.append(f" {label}: {_line(claim['condition'])}", style=f"not bold {STYLES.get(claim['verdict'], '')}")
    return words.append(f" ({_line(claim['evidence'])})", style="not bold dim")


def _line(words: str) -> str:
    return " ".join(words.split())


def _show_claims(checked: list[dict[str, Any]]) -> None:
    console = results()
    for claim in checked:
        start = Text().append(f"{claim['id']:<5}", style="bold")
        start.append(f"{claim['verdict']:<24}", style=STYLES.get(claim["verdict"], ""))
        if console.is_terminal:
            line = Table.grid()
            line.add_column(no_wrap=True)
            line.add_row(start, _words(claim))
            console.print(line)
        else:  # one line each, whole, for programs
            console.print(start + _words(claim), soft_wrap=True)
    counts = Counter(claim["verdict"] for claim in checked)
    wrong = [claim["id"] for claim in checked if not claim["confirmed"]]
    summary = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
    say(f"{len(checked)} claims. {summary}. " + (f"Not confirmed: {', '.join(wrong)}." if wrong else "All confirmed."))
