"""What would a selective loss buy on your data? The same model, trained with several losses, compared honestly."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from selmatch.comparison.question import MODELS, ROLES, SCALES, Question
from selmatch.comparison.result import SELECTIVE, Comparison, Data
from selmatch.parameters import number

if TYPE_CHECKING:
    from selmatch.comparison.columns import Columns

__all__ = ["Columns", "Comparison", "Question", "compare", "features"]


def __getattr__(name: str) -> Any:
    """What needs pandas is imported when it is asked for."""
    if name == "Columns":
        from selmatch.comparison.columns import Columns

        return Columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compare(
    data: Any,
    *,
    target: str,
    focus: str | None = None,
    top: float = 0.1,
    strength: float = 8.0,
    between: tuple[float, float] | None = None,
    regions: Iterable[tuple[float, ...]] | None = None,
    cap: float | None = None,
    loss: Any = None,
    scale: str = "target",
    model: str = "lightgbm",
    split: str | None = None,
    group: str | None = None,
    cluster: str | None = None,
    time: str | None = None,
    weights: str | None = None,
    drop: str | Sequence[str] = (),
    losses: Sequence[str] | None = None,
    splits: int = 5,
    settings: int = 4,
    rounds: int = 400,
    rows: int = 100_000,
    resamples: int = 1000,
    at: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, str], Any] | None = None,
) -> Comparison:
    """Find out what a selective loss buys on your data.

    The same model is trained with the selective loss, squared error, re-weighted squared error, Huber, quantile and
    log-target losses: on the same splits, with the same number of settings for each, and with rounds and settings
    chosen by the same criterion, the selective loss of the validation rows. What comes out is measured on rows that
    nobody has seen, with paired bootstrap intervals, and said in plain words, also when a selective loss does not help.

    Parameters
    ----------
    data : path, or frame of pandas or polars
        A CSV (``.csv``, ``.csv.gz``, ``.tsv``) or Parquet file, or a frame, which is not changed.
    target : str
        The column to predict: numbers.
    focus : {"high", "low", "middle", "extremes"}, optional
        Which targets matter, as for :func:`selmatch.focus`; "high" where nothing else is said.
    top, strength : float
        The share of rows that the word means, and how much more they matter.
    between : (low, high), optional
        A region of the target instead of a word.
    regions : sequence of (low, high) or (low, high, weight), optional
        Several regions of the target instead of a word.
    cap : float, optional
        A target beyond which accuracy matters no more.
    loss : MatchingLoss, curve or path of a spec file, optional
        A loss of your own instead of words; the region is then the ``top`` share of rows that it is most sensitive to.
        Its link takes scores: logarithms on ``scale="log"``, which a loss of logarithms (``loss.scale``) needs.
    scale : {"target", "log"}
        What scores are: the target itself, or its logarithm (log1p where it has zeros).
    model : {"lightgbm", "xgboost", "linear"}
        What learns.
    split : str, optional
        A column that says train, valid or test.
    group : str, optional
        A column of groups, such as queries or lists, which stay together; measures of ranking are added.
    cluster : str, optional
        A column of larger groups around them, such as the person who was shown several lists: splits and intervals
        keep whole persons together, while measures of ranking look at each list. It can be given without ``group``.
    time : str, optional
        A column of times: models learn from the past and are tested on what came later.
    weights : str, optional
        A column with weights of rows.
    drop : str or sequence of str
        Columns that must not be features, such as outcomes that are known only later.
    losses : sequence of str, optional
        Names of contenders, all that fit by default: "selective" (always), "squared", "reweighted", "huber",
        "quantile", "log_target", "raw_target"; with groups "lambdarank" and "listwise".
    splits, settings : int
        How many splits, and how many settings each loss may try in each.
    rounds : int
        The most rounds of a booster.
    rows : int
        The most rows that are used; more are sampled down.
    resamples : int
        Of the bootstrap, >= 20.
    at : int, optional
        The k of top-k measures; by default the number of rows in the region, for lists 10.
    seed, threads : int
        Of all that draws or runs in parallel; the same give the same numbers. By default one thread for small data,
        which is quickest, else as many as there are processors, at most 8.
    folder : path, optional
        Where to keep finished fits: a run that was stopped continues from there, and nothing is computed twice. The
        command line goes on from the same folder, given as ``--out``.
    progress : callable, optional
        Called as ``progress(done, total, words)`` after each fit.

    Returns
    -------
    Comparison
        Print it, or write ``to_html(path)`` or ``to_json(path)``; ``loss.save(path)`` and ``columns.save(path)`` are
        what its program needs.

    Examples
    --------
    >>> import pandas
    >>> random = np.random.default_rng(0)
    >>> x = random.normal(size=200)
    >>> visits = pandas.DataFrame({"pages": x, "seconds": np.exp(x + 0.5 * random.normal(size=200))})
    >>> found = sm.compare(visits, target="seconds", model="linear", splits=2, settings=1, resamples=20)
    >>> [contender.name for contender in found.contenders][:3]
    ['selective', 'squared', 'reweighted']
    >>> found.data.used, found.region.rows
    (200, 20)
    """
    said = {name: value for name, value in locals().items() if name not in ("data", "folder", "progress")}
    return _compared(data, question_of(said), loss, float(top), folder, progress)


def question_of(said: Mapping[str, Any]) -> Question:
    """The question that the options of :func:`compare` ask, checked; all of them must be there."""
    top = number("compare", "top", said["top"], above=0.0)
    if top >= 1.0:
        raise ValueError(f"compare: top must be < 1, a share of the rows, got {top:g}.")
    wish = _wish(*(said[name] for name in ("loss", "focus", "top", "strength", "between", "regions", "cap")))
    question = Question(
        target=str(said["target"]),
        wish=wish,
        scale=_word("scale", said["scale"], SCALES),
        model=_word("model", said["model"], MODELS),
        losses=_names(said["losses"]),
        splits=_whole("splits", said["splits"]) if said["split"] is None else 1,
        settings=_whole("settings", said["settings"]),
        rounds=_whole("rounds", said["rounds"]),
        rows=_whole("rows", said["rows"]),
        resamples=_whole("resamples", said["resamples"], least=_FEWEST_RESAMPLES),
        top=0 if said["at"] is None else _whole("at", said["at"]),
        seed=_whole("seed", said["seed"], least=0),
        threads=0 if said["threads"] is None else _whole("threads", said["threads"]),
        **{role: said[role] for role in ROLES if role != "target"},
        drop=_columns(said["drop"]),
        share=None if said["loss"] is None else top,
    )
    if question.split is not None and question.time is not None:
        raise TypeError("compare: only one of split and time must be given, got both.")
    return question


def features(
    data: Any,
    *,
    target: str,
    split: str | None = None,
    group: str | None = None,
    cluster: str | None = None,
    time: str | None = None,
    weights: str | None = None,
    drop: str | Sequence[str] = (),
) -> tuple[Any, Any, Any]:
    """The rows of a table as :func:`compare` sees them, to train what it advises.

    Text that reads as numbers or dates is read so, columns that say nothing are left out, and so are rows without a
    target, a weight, or a value in the columns of the split, the group, the cluster and the time. All of that is found
    out anew for each table: for new rows, which must be read as those of the comparison were, take
    ``comparison.columns`` (:class:`Columns`).

    Parameters
    ----------
    data : path, or frame of pandas or polars
        As for :func:`compare`, but no rows are sampled.
    target, split, group, cluster, time, weights, drop : str
        Columns, as for :func:`compare`.

    Returns
    -------
    X : pandas.DataFrame
        Features: numbers and categories.
    y : array of float
        The target.
    weights : array of float
        Of the rows, of mean 1.

    Examples
    --------
    >>> import pandas
    >>> from selmatch.comparison import features
    >>> table = pandas.DataFrame({"price": ["1,5", "2,25", "?"] * 20, "y": [1.0, 2.0, 3.0] * 20, "id": range(60)})
    >>> X, y, weights = features(table, target="y", drop="id")
    >>> X["price"].head(3).tolist(), y.shape
    ([1.5, 2.25, nan], (60,))
    """
    from selmatch.comparison import tables

    asked = Question(
        target=str(target), wish={}, rows=sys.maxsize, split=split, group=group, time=time, weights=weights,
        drop=_columns(drop), cluster=cluster,
    )  # fmt: skip
    rows = tables.prepare(data, asked)
    return rows.frame(), rows.target, np.ones(len(rows)) if rows.weights is None else rows.weights


def _columns(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(map(str, names))


#: with fewer resamples there is no interval, and with fewer than that only a rough one
_FEWEST_RESAMPLES, _ENOUGH_RESAMPLES = 20, 200


def _compared(data: Any, question: Question, loss: Any, top: float, folder: Any, progress: Any) -> Comparison:
    """The steps of a comparison; what they need is imported now, so that ``import selmatch`` stays light."""
    from selmatch.comparison import aims, fitting, running, splits, tables

    own = None if loss is None else aims.read(loss, question.scale)
    rows = tables.prepare(data, question, scale=None if own is None else own.scale)
    question = dataclasses.replace(question, threads=question.threads or _threads(rows.matrix.size))
    aim = aims.designed(question.wish, rows) if own is None else aims.given(own, rows)
    region = aims.region_of(aim, rows, top)
    run = running.Run(rows, question, aim, region, folder, progress)
    notes = [*rows.notes, *aims.notes_of(question.wish, aim, region, rows, top), *splits.notes_of(rows, run.splits)]
    if question.resamples < _ENOUGH_RESAMPLES:
        notes.append(f"Intervals are rough: {question.resamples} resamples; 1,000 are usual.")
    about = Data(rows.name, rows.total, len(rows), rows.names, tuple(notes), rows.fingerprint())
    fitting.home_of(question.model)  # loads what multiplies matrices, before its threads are limited
    with _limited(question.threads):
        return _answered(run, about)


def _answered(run: Any, about: Data) -> Comparison:
    """Train, measure, and say what came of it."""
    from selmatch.comparison import bootstrap, measures, reproduction, verdicts
    from selmatch.comparison.columns import Columns

    tested, contenders = run.result()
    question = dataclasses.replace(run.question, losses=tuple(recipe.name for recipe in run.recipes))
    found = measures.measures_for(tested, question, question.group is not None)
    scores = bootstrap.scores(tested, run.loss, run.region, contenders, found, question)
    inside = int(run.region.holds(tested.observed).sum())
    verdict = verdicts.verdict(contenders, found, scores, question, about, inside=inside)
    code, loss = reproduction.code(run, contenders, verdict.winner), reproduction.scaled_loss(run)
    columns = Columns.of(run.rows, question)
    return Comparison(question, about, loss, run.region, contenders, found, scores, verdict, tested, code, columns)


def _limited(threads: int) -> contextlib.AbstractContextManager[Any]:
    """Sums of products have other last digits with another number of threads, whatever the environment says."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(threads, user_api="blas")


def _wish(loss: Any, focus: Any, top: Any, strength: Any, between: Any, regions: Any, cap: Any) -> dict[str, Any]:
    """The words for focus, without those that were not said; none for a loss that was given."""
    said = {"loss": loss, "focus": focus, "between": between, "regions": regions}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1 or (loss is not None and cap is not None):
        raise TypeError(
            f"compare: only one of focus, between, regions and loss must be given, and no cap with a loss, got "
            f"{' and '.join(given + ['cap'] * (cap is not None))}."
        )
    if loss is not None:
        return {}
    wish: dict[str, Any] = {"strength": strength}
    if between is not None:
        wish["between"] = tuple(between)
    elif regions is not None:
        wish["regions"] = [tuple(piece) for piece in regions]
    else:
        wish = {"word": "high" if focus is None else focus, "top": top, **wish}
    return wish if cap is None else {**wish, "cap": cap}


def _names(losses: Any) -> tuple[str, ...]:
    if losses is None:
        return ()
    names = [losses] if isinstance(losses, str) else list(map(str, losses))
    return tuple(dict.fromkeys([SELECTIVE, *names]))


def _word(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        words = ", ".join(map(repr, known))
        raise ValueError(f"compare: {name} must be one of {words}, got {value!r}.")
    return value


def _whole(name: str, value: Any, least: int = 1) -> int:
    found = number("compare", name, value)
    if not found.is_integer():
        raise ValueError(f"compare: {name} must be a whole number, got {found:g}.")
    if found < least:
        raise ValueError(f"compare: {name} must be >= {least}, got {int(found)}.")
    return int(found)


#: numbers in the features from which on threads pay
_LARGE = 2_000_000


def _threads(size: int) -> int:
    return 1 if size < _LARGE else min(os.cpu_count() or 1, 8)
