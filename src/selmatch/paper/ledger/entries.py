"""How a claim of the paper is written down, and what its check answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from selmatch.paper.records import HOLDS, Claim, Evidence

Check = Callable[[], Evidence]

#: every claim whose module has been imported
ENTRIES: dict[str, Claim] = {}


def claim(id: str, where: str, says: str, verdict: str = HOLDS, condition: str = "") -> Callable[[Check], Check]:
    """Enter a claim; the decorated function checks it.

    Parameters
    ----------
    id : str
        "C01" ... "C129".
    where : str
        Place in the paper.
    says : str
        The statement. The paper's own words stand in quotation marks, with its formulas written as plain text.
    verdict : {"holds", "holds under a condition", "holds with a remark", "wording", "repeated", "erratum"}
        What the check confirms.
    condition : str
        The condition or the remark, or for an erratum what is true instead.
    """

    def enter(check: Check) -> Check:
        if id in ENTRIES:
            raise ValueError(f"claim: id must be new, got {id!r}, which is {ENTRIES[id].claim!r}.")
        ENTRIES[id] = Claim(id, where, says, verdict, condition, check)
        return check

    return enter


class Shown:
    """A number or a few of them, in a sentence: four digits, unless the sentence asks for others."""

    def __init__(self, value: Any) -> None:
        self.values = np.atleast_1d(np.asarray(value, dtype=float))

    def __format__(self, spec: str) -> str:
        return ", ".join(format(value, spec or ".4g") for value in self.values.tolist())


def found(words: str, *facts: Any, **numbers: Any) -> Evidence:
    """The evidence of a check: confirmed when every fact is true, with words that show the numbers.

    Parameters
    ----------
    words : str
        A sentence with the names of the numbers in braces.
    *facts : bool or array of bool
        What must be true; at least one.
    **numbers : float or sequence of float
        What was measured; members of a sequence are kept as name_1, name_2, ...
    """
    if not facts:
        raise ValueError(f"found: facts must be given, got none for {words!r}. Evidence without a fact cannot fail.")
    kept: dict[str, float] = {}
    for name, value in numbers.items():
        values = Shown(value).values.tolist()
        kept |= {name: values[0]} if np.ndim(value) == 0 else {f"{name}_{i}": v for i, v in enumerate(values, 1)}
    shown = words.format(**{name: Shown(value) for name, value in numbers.items()})
    return Evidence(all(bool(np.all(fact)) for fact in facts), shown, kept)
