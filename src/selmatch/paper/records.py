"""What the paper is made of here: figures that know their numbers, tables by measurement, claims with a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: what a check may find; a statement that is made twice is counted once
HOLDS, CONDITION, REMARK, WORDING, REPEATED, ERRATUM = (
    "holds", "holds under a condition", "holds with a remark", "wording", "repeated", "erratum",
)  # fmt: skip
#: the place of statements that we found on the way
OURS = "not in the paper"


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, redrawn.

    Attributes
    ----------
    name, title : str
        A short name for files and the shell, and what it shows.
    label : str
        The label of the figure in the paper.
    caption : str
        In our words, with the parameters used (the paper gives few) and what to look at.
    draw : callable
        Draws it and returns the ``matplotlib`` figure.
    errata : tuple of str
        Ids of the claims that the paper's version of this figure gets wrong.
    """

    name: str
    title: str
    label: str
    caption: str
    draw: Callable[[], Any]
    errata: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of the paper, recomputed by measurement.

    Attributes
    ----------
    name, title, label : str
        For files and the shell, for people, and its label in the paper.
    columns : tuple of str
        Of the table as printed here: what the paper claims, what was measured, whether they agree.
    rows : tuple of tuple of str
        Cells, as text.
    notes : tuple of str
        What differs from the paper, and why.
    """

    name: str
    title: str
    label: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What a check measured: whether it confirms the verdict, in words, and its numbers."""

    confirmed: bool
    words: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or a finding of ours, with a check that runs.

    Attributes
    ----------
    id : str
        "C01" ... "C129".
    where : str
        The section, equation or figure of the paper, or "not in the paper".
    claim : str
        The statement; the paper's own words stand in quotation marks.
    verdict : {"holds", "holds under a condition", "holds with a remark", "wording", "repeated", "erratum"}
        What the check confirms: "wording" is a typo or a word that may mislead, "repeated" an erratum that another
        entry has already.
    condition : str
        The condition or the remark; for an erratum the correct statement; empty if it holds.
    check : callable
        Computes the evidence with the public functions of selmatch.
    """

    id: str
    where: str
    claim: str
    verdict: str
    condition: str
    check: Callable[[], Evidence]

    @property
    def ours(self) -> bool:
        """Whether it is a finding of ours and not a statement of the paper."""
        return self.where == OURS
