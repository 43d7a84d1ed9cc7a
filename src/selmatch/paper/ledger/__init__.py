"""The paper's claims, each with a check that runs: what holds, under which condition, and what is an erratum."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable

from selmatch.paper.ledger.entries import ENTRIES
from selmatch.paper.records import CONDITION, ERRATUM, HOLDS, REMARK, REPEATED, WORDING, Claim, Evidence

__all__ = ["claims", "run", "summary"]

_MODULES = (
    "scalar", "sensitivity_types", "composite", "amplified", "convexity", "standard_softmax", "ranking_sensitivity",
    "table_scalings", "table_links", "table_requirements", "scaling_figures", "corollaries", "appendices",
)  # fmt: skip


def claims() -> tuple[Claim, ...]:
    """All claims, by number.

    Examples
    --------
    >>> from selmatch.paper import ledger
    >>> ledger.claims()[55].verdict
    'erratum'
    """
    for name in _MODULES:
        importlib.import_module(f"{__name__}.{name}")
    return tuple(sorted(ENTRIES.values(), key=lambda claim: int(claim.id[1:])))


def summary() -> str:
    """How many statements of the paper were checked, and what came of it, in one sentence.

    Examples
    --------
    >>> from selmatch.paper import ledger
    >>> ledger.summary().endswith("change of words.")
    True
    """
    counts = Counter(claim.verdict for claim in claims() if not claim.ours)
    return (
        f"Of {counts.total() - counts[REPEATED]} statements {counts[HOLDS]} hold as they stand, "
        f"{counts[CONDITION] + counts[REMARK]} hold with a condition or a remark, {counts[ERRATUM]} need a correction, "
        f"and {counts[WORDING]} a change of words."
    )


def run(ids: Iterable[str] | None = None) -> list[tuple[Claim, Evidence]]:
    """Check all claims, or those with the given ids.

    Examples
    --------
    >>> from selmatch.paper import ledger
    >>> ((claim, evidence),) = ledger.run(["C61"])
    >>> evidence.confirmed
    True
    >>> print(evidence.words)
    sensitivity at (0, 0, 0): 0.2222; at (100, 100, -500): 0.25
    """
    known = {claim.id: claim for claim in claims()}
    wanted = list(known if ids is None else ids)
    unknown = [id for id in wanted if id not in known]
    if unknown:
        raise ValueError(f"paper.ledger.run: ids must be among C01 ... C129, got {', '.join(map(repr, unknown))}.")
    return [(known[id], known[id].check()) for id in wanted]
