"""``selmatch explain``: a loss in plain words."""

from __future__ import annotations

from typing import Any

from selmatch.cli.check import certificate_document
from selmatch.cli.options import Classes, Column, DataFile, Gamma, Json, Scaling, Source
from selmatch.cli.output import emit, show
from selmatch.cli.sources import data_of, potential


def explain(
    source: Source,
    data: DataFile = None,
    column: Column = None,
    scaling: Scaling = False,
    classes: Classes = False,
    gamma: Gamma = None,
    as_json: Json = False,
) -> None:
    """A loss in plain words: where it looks, whether it is convex, what it elicits."""
    from selmatch.losses import loss_of

    loss = loss_of("explain", potential(source, scaling, classes, gamma))
    explanation = loss.explain(data_of(data, column))
    if as_json:
        emit(explanation_document(explanation))
    else:
        show(str(explanation))


def explanation_document(explanation: Any) -> dict[str, Any]:
    """An explanation for programs."""
    single, double = ([limit.low, limit.high] for limit in explanation.limits)
    kept = ("profile", "mean", "elicited", "curvature", "simpler", "notes")
    return {
        "of": repr(explanation.loss),
        "scale": explanation.loss.scale,
        **{name: getattr(explanation, name) for name in kept},
        "narrow": [vars(region) for region in explanation.narrow],
        "finite": {"single": single, "double": double},
        "convex": certificate_document(explanation.certificate),
        "accepted": None if explanation.accepted is None else certificate_document(explanation.accepted),
        "words": str(explanation),
    }
