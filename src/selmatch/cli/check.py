"""``selmatch check``: is a loss convex, with proof or counterexample."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from selmatch.cli.options import Classes, Gamma, Json, Scaling, Source
from selmatch.cli.output import emit, show
from selmatch.cli.sources import potential

#: exit codes that scripts can use, and colours for people; bad input has the exit code 2
EXIT_CODES = {"Proved": 0, "Refuted": 1, "Undecided": 3}
STYLES = {"Proved": "bold green", "Refuted": "bold red", "Undecided": "bold yellow"}

Domain = Annotated[
    tuple[float, float] | None,
    typer.Option("--domain", metavar="LOW HIGH", help="The scores that count; by default all where it is defined."),
]


def check(
    source: Source,
    domain: Domain = None,
    scaling: Scaling = False,
    classes: Classes = False,
    gamma: Gamma = None,
    as_json: Json = False,
) -> None:
    """Is a loss convex? Exit code 0: proved, 1: refuted, with a witness, 3: undecided, 2: bad input."""
    from selmatch import certify

    looked_at = potential(source, scaling, classes, gamma, check=False)
    certificate = certify.convex(looked_at, domain)
    verdict = type(certificate).__name__
    accepted = None if certificate or domain is not None else _accepted(looked_at)
    if as_json:
        document = {"of": repr(looked_at), **certificate_document(certificate)}
        emit(document if accepted is None else {**document, "accepted": certificate_document(accepted)})
    else:
        text = Text(str(certificate))
        text.stylize(STYLES[verdict], 0, len(verdict))
        show(text)
        if accepted is not None:
            show(f"A loss of it is accepted all the same. {accepted}")
    raise typer.Exit(EXIT_CODES[verdict])


def _accepted(potential: Any) -> Any:
    """What a loss looks at when it is made, where that is less than the whole domain and suffices."""
    from selmatch.losses import MatchingLoss

    try:
        return MatchingLoss(potential).certificate
    except ValueError:
        return None


def certificate_document(certificate: Any) -> dict[str, Any]:
    """A certificate for programs."""
    found = {name: value for name, value in vars(certificate).items() if name != "domain"}
    domain = [certificate.domain.low, certificate.domain.high]
    return {"verdict": type(certificate).__name__.lower(), **found, "domain": domain, "words": str(certificate)}
