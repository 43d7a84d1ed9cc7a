"""``selmatch check``: is a loss convex, with proof or counterexample."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from selmatch.cli.options import Classes, Gamma, Json, Scaling, Source
from selmatch.cli.output import emit, say, show
from selmatch.cli.sources import potential, stored_certificates
from selmatch.scales import UNCHANGED, scale_of, scores_of

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
    """Is a loss convex? Exit code 0: proved, 1: refuted, with a witness, 3: undecided, 2: bad input.

    Certificates in a spec file are checked again; one that does not hold is bad input.
    """
    from selmatch import certify

    looked_at = potential(source, scaling, classes, gamma, check=False)
    scale = scale_of(looked_at)
    ends = None if domain is None else tuple(float(scores_of("check", "--domain", end, looked_at)) for end in domain)
    stored = [] if scaling or classes else stored_certificates(source)
    known = [found for found in stored if _answers(found, ends)]
    certificate = known[0] if known else certify.convex(looked_at, ends)
    verdict = type(certificate).__name__
    accepted = None if certificate or domain is not None else _accepted(looked_at, certificate)
    if as_json:
        logarithm = {} if scale == UNCHANGED else {"scale": scale.name}
        document = {"of": repr(looked_at), **logarithm, **certificate_document(certificate)}
        if stored:
            document["stored"] = [certificate_document(found) for found in stored]
        emit(document if accepted is None else {**document, "accepted": certificate_document(accepted)})
    else:
        text = Text(str(certificate))
        text.stylize(STYLES[verdict], 0, len(verdict))
        show(text)
        if known:
            show("Checked again from the file, without a search.")
        for other in stored:
            if other is not certificate:
                show(f"Also in the file, and checked again: {other}")
        if accepted is not None:
            show(f"A loss of it is accepted all the same. {accepted}")
        if scale != UNCHANGED:
            say(f"Scores are {scale.words}: it is a loss of these, not of the target itself.", style="dim")
    raise typer.Exit(EXIT_CODES[verdict])


def _answers(certificate: Any, ends: tuple[float, ...] | None) -> bool:
    """Whether a certificate says that a loss is convex at the scores that a user asks about."""
    question = certificate.question
    return question.name == "convex" and not question.options and question.domain == ends


def _accepted(loss: Any, everywhere: Any) -> Any:
    """What a loss looks at when it is made, where that is less than everywhere and suffices."""
    from selmatch.losses import MatchingLoss, potential_of

    try:
        accepted = MatchingLoss(potential_of("check", loss)).certificate
    except ValueError:
        return None
    return accepted if accepted is not None and accepted.domain != everywhere.domain else None


def certificate_document(certificate: Any) -> dict[str, Any]:
    """A certificate for programs."""
    found = {name: value for name, value in vars(certificate).items() if name not in ("domain", "question")}
    domain = [certificate.domain.low, certificate.domain.high]
    return {"verdict": type(certificate).__name__.lower(), **found, "domain": domain, "words": str(certificate)}
