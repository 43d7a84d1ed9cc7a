"""``selmatch focus``: a loss from words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from selmatch.cli.explain import explanation_document
from selmatch.cli.options import Column, Json, one_of
from selmatch.cli.output import emit, say, show
from selmatch.cli.sources import data_of
from selmatch.design import FAMILIES, WORDS

#: of options that compare has too
MATTERS = "Where accuracy matters"

Word = Annotated[
    str | None, typer.Argument(help=f"Which scores matter: {', '.join(WORDS)}.", **one_of(WORDS, metavar="WORD"))
]
Data = Annotated[Path, typer.Option("--data", metavar="FILE", help="CSV or Parquet file with observed scores.")]
Top = Annotated[
    float,
    typer.Option("--top", rich_help_panel=MATTERS, metavar="SHARE", help="The share of rows that the word means."),
]
Strength = Annotated[
    float,
    typer.Option("--strength", rich_help_panel=MATTERS, metavar="X", help="How many times as sensitive, on average."),
]
Between = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--between",
        rich_help_panel=MATTERS,
        metavar="LOW HIGH",
        help="A region instead of a word; -inf and inf are ends too.",
    ),
]
Cap = Annotated[
    float | None,
    typer.Option("--cap", rich_help_panel=MATTERS, metavar="X", help="A score beyond which accuracy matters no more."),
]
Family = Annotated[
    str | None,
    typer.Option(
        "--family",
        rich_help_panel=MATTERS,
        help="A curve of the paper instead of the trapezoid.",
        **one_of(sorted({name for names in FAMILIES.values() for name in names})),
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="SPEC", help="Write the loss to a .toml or .json file.")]


def focus(
    data: Data,
    word: Word = None,
    column: Column = None,
    top: Top = 0.1,
    strength: Strength = 8.0,
    between: Between = None,
    cap: Cap = None,
    family: Family = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Design a loss from words and data, explain it, and write its spec file."""
    import selmatch
    from selmatch import spec

    if (word is None) == (between is None):
        got = "neither" if word is None else "both"
        raise ValueError(f"focus: a word or --between must be given, got {got}. Words: {', '.join(WORDS)}.")
    scores = data_of(data, column)
    loss = selmatch.focus(word, data=scores, top=top, strength=strength, between=between, cap=cap, family=family)
    if out is not None:
        loss.save(out)
    explanation = loss.explain(scores)
    if as_json:
        emit(
            {
                "loss": json.loads(spec.dumps(loss, "json")),  # which has a word for infinity
                "wish": loss.wish,
                "explanation": explanation_document(explanation),
                "file": None if out is None else str(out),
            }
        )
        return
    show(str(explanation))
    say(f"\nWritten to {out}." if out is not None else "\nKeep this loss with --out loss.toml.", style="dim")
