"""What a certificate says: proved, refuted with a witness, or undecided with what remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from selmatch.curve import Interval

#: how, where the extra is missing
NEEDS_PROOFS = 'a proof needs python-flint: pip install "selmatch[proofs]"'


@dataclass(frozen=True)
class Witness:
    """Scores at which a statement fails, for anyone to evaluate.

    Attributes
    ----------
    text : str
        The failure as an inequality between two numbers.
    scores : tuple
        Where: for a link two scores a < b with h(a) > h(b), for a loss the observed and the predicted score. For
        logits four rows of them: a student, the middle, another student, and the teacher.
    values : tuple of float
        What was found there: for logits the losses of the three students.
    """

    text: str
    scores: tuple[Any, ...]
    values: tuple[float, ...]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Question:
    """What a certificate answers, so that it can be asked again.

    Attributes
    ----------
    name : str
        The function of :mod:`selmatch.certify`.
    subject : potential or curve
        What it looked at.
    domain : pair of numbers or None
        The scores that it was asked about.
    options : dict
        Its other arguments.
    """

    name: str
    subject: Any
    domain: tuple[float, float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Certificate:
    """A statement about a curve or loss on a domain, and what became of it; true in a condition only when proved."""

    statement: str
    domain: Interval
    how: str

    def __bool__(self) -> bool:
        return isinstance(self, Proved)

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.statement} on {self.domain} ({self._reason})."

    @property
    def _reason(self) -> str:
        return self.how


@dataclass(frozen=True)
class Proved(Certificate):
    """The statement holds, with rigour.

    ``boxes`` counts the intervals of an interval proof; a proof by structure has none.
    """

    boxes: int = 0
    #: what the checker looks at
    evidence: tuple[Any, ...] = field(default=(), repr=False)
    #: what was asked; None for what was put together of answers to several questions
    question: Question | None = field(default=None, repr=False, compare=False)

    def verify(self) -> bool:
        """Check the proof again, by a second path that shares no code with the search; False where it cannot be done.

        Examples
        --------
        >>> import selmatch as sm
        >>> sm.certify.convex(sm.parse("z + 0.9*tanh(3*(z-1)) - 0.9*tanh(z)")).verify()
        True
        """
        from selmatch.evidence import Unverified

        try:
            for part in self.evidence:
                part.check()
        except Unverified:
            return False
        return bool(self.evidence)


@dataclass(frozen=True)
class Refuted(Certificate):
    """The statement is false, and the witness shows it."""

    witness: Witness = field(kw_only=True)

    @property
    def _reason(self) -> str:
        return f"{self.witness}; {self.how}"


@dataclass(frozen=True)
class Undecided(Certificate):
    """Neither a proof nor a witness was found."""

    remains: str = field(kw_only=True)

    @property
    def _reason(self) -> str:
        return f"{self.remains}; {self.how}"


def for_all_labels(parts: Mapping[float, Certificate]) -> Certificate:
    """One certificate of the same statement about the curves of several labels; it names every label that it is about.

    Refuted if one is, proved if all are; its domain is what the labels share.
    """
    refuted = {label: part for label, part in parts.items() if isinstance(part, Refuted)}
    for label, part in refuted.items():
        return replace(part, witness=replace(part.witness, text=f"label {label:g}: {part.witness}"))
    domains = {part.domain for part in parts.values()}
    shared: Interval | None = Interval()
    for domain in domains:
        shared = None if shared is None else shared.overlap(domain)

    def named(label: float, part: Certificate, reason: str) -> str:
        return f"label {label:g}: {reason}{'' if len(domains) == 1 else f' on {part.domain}'}"

    first, proved = next(iter(parts.values())), all(parts.values())
    told = {label: part for label, part in parts.items() if proved or isinstance(part, Undecided)}
    reasons = "; ".join(
        named(label, part, part.remains if isinstance(part, Undecided) else part.how) for label, part in told.items()
    )
    if proved:
        certificates = [part for part in parts.values() if isinstance(part, Proved)]
        boxes = sum(part.boxes for part in certificates)
        complete = all(part.evidence for part in certificates)
        evidence = tuple(item for part in certificates for item in part.evidence) if complete else ()
        return Proved(first.statement, shared or first.domain, reasons, boxes, evidence)
    how = next(iter(told.values())).how
    return Undecided(first.statement, shared or first.domain, how, remains=reasons)


@dataclass(frozen=True)
class Enclosure:
    """A threshold between two numbers: the statement is proved at one of them and refuted at the other.

    Attributes
    ----------
    low, high : float
        The threshold lies between them; both are 0 or infinite when there is none. An end that could not be certified
        is 0 or infinite, with an undecided certificate.
    at_low, at_high : Certificate
        What holds there.
    """

    low: float
    high: float
    at_low: Certificate
    at_high: Certificate

    @property
    def width(self) -> float:
        """Relative width."""
        return (self.high - self.low) / self.high if self.high not in (0.0, float("inf")) else 0.0

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"between {self.low!r} and {self.high!r}"
