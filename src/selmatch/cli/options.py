"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from selmatch.cli.columns import header
from selmatch.words import remedy


def one_of(words: Sequence[str], metavar: str = "") -> dict[str, Any]:
    """What makes an option take one of some words, with completion and the nearest one in errors."""

    def checked(value: str | None) -> str | None:
        if value is not None and value not in words:
            raise typer.BadParameter(f"{value!r} is not known. {remedy(value, words)}")
        return value

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return {"callback": checked, "autocompletion": completed, "metavar": metavar or "|".join(words)}


def column_of(option: str) -> Callable[..., list[str]]:
    """Completion of a column's name, from the header of the file that another option or argument names."""

    def completed(ctx: typer.Context, incomplete: str) -> list[str]:
        # an option that still lacks its value keeps the arguments before it from being told apart
        paths = [Path(word) for word in (ctx.params.get(option), *ctx.args) if word]
        try:
            names = header(next(path for path in paths if path.is_file()))
        except Exception:  # completion must never fail in the middle of a user's line
            return []
        return [name for name in names if name.startswith(incomplete) and name.isprintable()]

    return completed


JSON_HELP = "Print one JSON document, and nothing else."
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Source = Annotated[
    str, typer.Argument(metavar="SPEC|FORMULA", help='A spec file, or a formula of z: loss.toml, "z + tanh(z)".')
]
DataFile = Annotated[Path | None, typer.Option("--data", metavar="FILE", help="CSV or Parquet file with scores.")]
Column = Annotated[
    str | None,
    typer.Option("--column", metavar="COL", help="Its column of scores.", autocompletion=column_of("data")),
]
Scaling = Annotated[bool, typer.Option("--scaling", help="The formula is a scaling q: look at its composite Sigmoid.")]
Classes = Annotated[
    bool, typer.Option("--classes", help="The formula is a scaling q for many classes: its composite Softmax.")
]
Gamma = Annotated[
    float | None, typer.Option("--gamma", metavar="G", help="Regularisation of a composite, by default 1.")
]
