"""What a comparison is asked: everything that its numbers depend on, besides the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: what may learn
MODELS = ("lightgbm", "xgboost", "linear")
#: parts of a question that name a column each
ROLES = ("target", "split", "group", "cluster", "time", "weights")
#: what the scores are, of the target
SCALES = ("target", "log")


@dataclass(frozen=True)
class Question:
    """A question to the data: what a selective loss buys, for this target, where accuracy matters here.

    Attributes
    ----------
    target : str
        The column to predict.
    wish : dict
        The words for :func:`selmatch.focus` (``word``, ``top``, ``strength``, ``between``, ``cap`` ...); empty where a
        loss was given.
    scale : {"target", "log"}
        What the scores are: the target itself, or its logarithm (log1p where it has zeros).
    model : {"lightgbm", "xgboost", "linear"}
        What learns, with every loss.
    losses : tuple of str
        The contenders by name, the selective one first.
    splits, settings : int
        How many paired splits, and how many settings each loss may try in each.
    rounds : int
        The most rounds of a booster.
    rows : int
        The most rows that are used; more are sampled down.
    resamples : int
        Of the bootstrap.
    top : int
        The k of precision and of NDCG; 0 for a share of the rows.
    seed, threads : int
        Of everything that draws, and of everything that runs in parallel.
    split, group, time, weights : str or None
        Columns with a given split, with the group of a row, with its time, with its weight.
    drop : tuple of str
        Columns that are no features.
    cluster : str or None
        A column of larger groups, such as the person of a list: splits and resamples keep them whole.
    share : float or None
        The share of the rows that are in the region of a loss that was given, if it does not bring its own.
    """

    target: str
    wish: dict[str, Any]
    scale: str = "target"
    model: str = "lightgbm"
    losses: tuple[str, ...] = ()
    splits: int = 5
    settings: int = 4
    rounds: int = 400
    rows: int = 100_000
    resamples: int = 1000
    top: int = 0
    seed: int = 0
    threads: int = 2
    split: str | None = None
    group: str | None = None
    time: str | None = None
    weights: str | None = None
    drop: tuple[str, ...] = ()
    cluster: str | None = None
    share: float | None = None
