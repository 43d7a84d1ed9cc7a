"""``selmatch plot``: a loss as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from selmatch.cli.files import SPECS
from selmatch.cli.options import Classes, Column, DataFile, Gamma, Json, Scaling, Source
from selmatch.cli.output import emit, say, show
from selmatch.cli.sources import data_of, potential
from selmatch.cli.words import require

FORMATS = ("svg", "png", "pdf")

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="PICTURE", help="An .svg, .png or .pdf file; by default named like the spec, or loss.svg."
    ),
]


def plot(
    source: Source,
    data: DataFile = None,
    column: Column = None,
    scaling: Scaling = False,
    classes: Classes = False,
    gamma: Gamma = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Draw a loss: its link, its sensitivity over the data, and what errors cost."""
    from selmatch import certify, plots

    if out is None:
        out = Path(Path(source).stem if source.lower().endswith(SPECS) else "loss").with_suffix(".svg")
    require("plot", "the format of the picture", out.suffix.lower().removeprefix("."), FORMATS)
    if not out.parent.is_dir():
        raise FileNotFoundError(f"plot: the folder {out.parent} must exist for the picture. Make it first.")
    looked_at = potential(source, scaling, classes, gamma, check=False)  # pictures show what is wrong with a loss
    certificate = certify.convex(looked_at)
    if isinstance(certificate, certify.Refuted):
        say(f"Note: {source} is no convex loss. {certificate}", style="yellow")
    existed = out.exists()
    with plots.theme():
        plots.overview(looked_at, data=data_of(data, column)).savefig(out)
    if existed:
        say(f"Overwrote {out}.")
    if as_json:
        emit({"of": repr(looked_at), "file": str(out)})
    else:
        show(str(out))
