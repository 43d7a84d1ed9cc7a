"""What a comparison found: small records that print themselves, and go to JSON without times and dates."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selmatch import spec
from selmatch.comparison.question import Question
from selmatch.losses import MatchingLoss
from selmatch.words import readable
from selmatch.writing import replace_file

if TYPE_CHECKING:
    from selmatch.comparison.columns import Columns

#: how a note begins that readers must not miss
WARNING = "WARNING: "
#: name of the contender whose loss was designed
SELECTIVE = "selective"
#: name of the control that adds a constant to the predictions of squared error
CONTROL = "squared_plus_constant"
#: the folder of a program, in the words of Python
BESIDE = "Path(__file__).resolve().parent"


@dataclass(frozen=True)
class Contender:
    """One way to train: a loss with its settings, as readers know it.

    Attributes
    ----------
    name, title : str
        For programs, and for people: "squared", "squared error".
    words : str
        One sentence: what it is, and what was tuned.
    trained : bool
        False for the control, which only shifts the predictions of another.
    chosen : tuple of dict
        The setting that won on the validation rows, in each split.
    valid : tuple of float
        The selective loss of that setting on the validation rows, in each split.
    ordinal : bool
        Whether its scores only say an order within a list, and have no unit: it enters measures of lists alone.
    """

    name: str
    title: str
    words: str
    trained: bool = True
    chosen: tuple[Mapping[str, Any], ...] = ()
    valid: tuple[float, ...] = ()
    ordinal: bool = False


@dataclass(frozen=True)
class Measure:
    """Something that is measured on the tested rows.

    Attributes
    ----------
    name, title : str
        For programs, and for people.
    words : str
        One sentence a newcomer understands, with the trap if there is one.
    better : {"low", "high", "zero"}
        Which values are good.
    unit : str
        "loss", "score", "link", "share" or "".
    kind : str
        The block of the table it belongs to: "aim", "observed", "predicted", "bias", "order", "lists".
    task : bool
        Whether it measures the user's own task, finding and ordering what matters, and no constant can win it: a
        verdict must not contradict it.
    """

    name: str
    title: str
    words: str
    better: str
    unit: str
    kind: str
    task: bool = False


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its interval; NaN where there is nothing to measure."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{readable(self.value)} [{readable(self.low)}, {readable(self.high)}]"


@dataclass(frozen=True)
class Score:
    """One contender on one measure.

    Attributes
    ----------
    estimate : Estimate
        The measure on all tested rows.
    gain : Estimate or None
        By how much the selective loss is better than this contender on the same rows, resampled together: positive
        is in favour of the selective loss (also where low is good; where zero is good, of distances from zero). None
        for the selective loss itself.
    splits : tuple of float
        The measure in each split.
    relative : Estimate or None
        The gain as a share of this contender's value, where low is good: 0.05 is "5 % less". None elsewhere.
    """

    estimate: Estimate
    gain: Estimate | None
    splits: tuple[float, ...]
    relative: Estimate | None = None


@dataclass(frozen=True)
class Region:
    """The scores that matter: pieces [low, high] of the line, and how many rows are in them."""

    pieces: tuple[tuple[float, float], ...]
    words: str
    rows: int

    def holds(self, scores: Any) -> np.ndarray:
        """Which scores are inside."""
        scores = np.asarray(scores, dtype=float)
        return np.any([(scores >= low) & (scores <= high) for low, high in self.pieces], axis=0)


@dataclass(frozen=True)
class Verdict:
    """What the numbers say, in plain words.

    Attributes
    ----------
    kind : {"helps", "mixed", "no difference", "does not help", "too little data"}
        In one word, for scripts; "mixed" where the cost and a measure of the user's task disagree.
    headline : str
        One sentence.
    sentences : tuple of str
        A few more: against whom, by how much, in how many splits, at what price, what to do next.
    winner, rival : str
        Names of contenders: whom the verdict advises (the selective loss where it helps, else the simplest that is not
        clearly worse than the best; where it is mixed, the loss that is best at the user's task), and who is best on
        the validation rows of those trained with another loss.
    """

    kind: str
    headline: str
    sentences: tuple[str, ...]
    winner: str
    rival: str


@dataclass(frozen=True)
class Tested:
    """The rows that were tested, each with the predictions of all contenders, all as scores."""

    observed: np.ndarray
    predicted: Mapping[str, np.ndarray]
    split: np.ndarray
    rows: np.ndarray
    group: np.ndarray | None = None
    weights: np.ndarray | None = None
    cluster: np.ndarray | None = None

    @property
    def units(self) -> np.ndarray:
        """What is drawn again in a resample: clusters, or else groups, or else rows."""
        return next(found for found in (self.cluster, self.group, self.rows) if found is not None)


@dataclass(frozen=True)
class Data:
    """What was read.

    Attributes
    ----------
    name : str
        Of the file, or "data frame".
    rows, used : int
        How many rows there are, and how many were used.
    features : tuple of str
        The columns that models see.
    notes : tuple of str
        What was done to the rows, and what to know about them, each a sentence.
    fingerprint : str
        Of the rows that were used.
    """

    name: str
    rows: int
    used: int
    features: tuple[str, ...]
    notes: tuple[str, ...]
    fingerprint: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes that readers must not miss."""
        return tuple(note for note in self.notes if note.startswith(WARNING))


@dataclass(frozen=True)
class Comparison:
    """What :func:`selmatch.compare` found; print it.

    Attributes
    ----------
    question : Question
        What was asked.
    data : Data
        What was read.
    loss : MatchingLoss
        The selective loss, designed on the scores.
    region : Region
        Where accuracy matters.
    contenders : tuple of Contender
        The selective loss first, the control last.
    measures : tuple of Measure
        In the order of the table.
    scores : mapping of str to mapping of str to Score
        By contender, then by measure.
    verdict : Verdict
        In plain words.
    tested : Tested
        The rows behind the numbers.
    code : str
        A program that trains the winner and predicts new rows, beside ``loss.toml`` and ``columns.json``; see
        :meth:`program`.
    columns : Columns
        What was learnt about the columns of the table, to read new rows in the same way; save it as ``columns.json``.
    """

    question: Question
    data: Data
    loss: MatchingLoss
    region: Region
    contenders: tuple[Contender, ...]
    measures: tuple[Measure, ...]
    scores: Mapping[str, Mapping[str, Score]]
    verdict: Verdict
    tested: Tested = field(repr=False)
    code: str = field(repr=False, default="")
    columns: Columns = field(repr=False, default=None)  # type: ignore[assignment]

    def program(self, folder: str | os.PathLike[str]) -> str:
        """The program that trains the winner, for any place: ``loss.toml`` and ``columns.json`` are in this folder."""
        return self.code.replace(BESIDE, f"Path({str(Path(folder).resolve())!r})", 1)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, for JSON: equal for equal data, question, seed and threads."""
        fields = ("question", "data", "region", "contenders", "measures", "scores", "verdict", "code")
        found = {name: plain(getattr(self, name)) for name in fields}
        return {"schema": 1, **found, "loss": json.loads(spec.dumps(self.loss, "json"))}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The same as text; written to a file if there is a path."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        if path is not None:
            # the name of a file may hold bytes that are no text; backslashes are how JSON writes these
            replace_file(path, text.encode(errors="backslashreplace"))
        return text

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """The report: one file that needs no network."""
        from selmatch.report import write

        return write(self, path)

    def __str__(self) -> str:
        from selmatch.comparison.tabulate import text

        return text(self)

    __repr__ = __str__


def plain(value: Any) -> Any:
    """A value in the words of JSON; numbers that are not finite become null."""
    if dataclasses.is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
