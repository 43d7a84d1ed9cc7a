"""What would a selective loss buy on your data? The same model, trained with several losses, compared honestly."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from selmatch.comparison.question import MODELS, SCALES, Question
from selmatch.comparison.result import SELECTIVE, Comparison, Data
from selmatch.parameters import number

__all__ = ["Comparison", "Question", "compare"]


def compare(
    data: Any,
    *,
    target: str,
    focus: str | None = "high",
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
    focus : {"high", "low", "middle", "extremes"}
        Which targets matter, as for :func:`selmatch.focus`.
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
        Its link takes scores: logarithms on ``scale="log"``.
    scale : {"target", "log"}
        What scores are: the target itself, or its logarithm (log1p where it has zeros).
    model : {"lightgbm", "xgboost", "linear"}
        What learns.
    split : str, optional
        A column that says train, valid or test.
    group : str, optional
        A column of groups, such as queries or users, which stay together; measures of ranking are added.
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
        Of the bootstrap.
    at : int, optional
        The k of top-k measures; by default the number of rows in the region.
    seed, threads : int
        Of all that draws or runs in parallel; the same give the same numbers. By default one thread for small data,
        which is quickest, else as many as there are processors, at most 8.
    folder : path, optional
        Where to keep finished fits: a run that was stopped continues from there, and nothing is computed twice.
    progress : callable, optional
        Called as ``progress(done, total, words)`` after each fit.

    Returns
    -------
    Comparison
        Print it, or write ``to_html(path)`` or ``to_json(path)``.

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
    question = Question(
        target=str(target),
        wish={} if loss is not None else _wish(focus, top, strength, between, regions, cap),
        scale=_word("scale", scale, SCALES),
        model=_word("model", model, MODELS),
        losses=_names(losses),
        splits=_whole("splits", splits) if split is None else 1,
        settings=_whole("settings", settings),
        rounds=_whole("rounds", rounds),
        rows=_whole("rows", rows),
        resamples=_whole("resamples", resamples),
        top=0 if at is None else _whole("at", at),
        seed=_whole("seed", seed, least=0),
        threads=0 if threads is None else _whole("threads", threads),
        split=split,
        group=group,
        time=time,
        weights=weights,
        drop=(drop,) if isinstance(drop, str) else tuple(map(str, drop)),
    )
    if split is not None and time is not None:
        raise TypeError("compare: only one of split and time must be given, got both.")
    share = number("compare", "top", top, above=0.0)
    if share >= 1.0:
        raise ValueError(f"compare: top must be < 1, a share of the rows, got {share:g}.")
    return _compared(data, question, loss, share, folder, progress)


def _compared(data: Any, question: Question, loss: Any, top: float, folder: Any, progress: Any) -> Comparison:
    """The steps of a comparison; what they need is imported now, so that ``import selmatch`` stays light."""
    from selmatch.comparison import aims, bootstrap, measures, reproduction, running, tables, verdicts

    rows = tables.prepare(data, question)
    question = dataclasses.replace(question, threads=question.threads or _threads(rows.matrix.size))
    aim = aims.designed(question.wish, rows) if loss is None else aims.given(loss, rows)
    region = aims.region_of(aim, rows, top)
    run = running.Run(rows, question, aim, region, folder, progress)
    tested, contenders = run.result()
    question = dataclasses.replace(question, losses=tuple(recipe.name for recipe in run.recipes))
    about = Data(rows.name, rows.total, len(rows), rows.names, rows.notes, rows.fingerprint())
    found = measures.measures_for(tested, question, question.group is not None)
    scores = bootstrap.scores(tested, aim, region, contenders, found, question)
    inside = int(region.holds(tested.observed).sum())
    verdict = verdicts.verdict(contenders, found, scores, question, about, inside=inside)
    code = reproduction.code(run, contenders, verdict.winner)
    return Comparison(question, about, aim, region, contenders, found, scores, verdict, tested, code)


def _wish(focus: Any, top: Any, strength: Any, between: Any, regions: Any, cap: Any) -> dict[str, Any]:
    """The words for focus, without those that were not said."""
    wish: dict[str, Any] = {"strength": strength}
    if between is not None:
        wish["between"] = tuple(between)
    if regions is not None:
        wish["regions"] = [tuple(piece) for piece in regions]
    if between is None and regions is None:
        wish = {"word": focus, "top": top, **wish}
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
    found = number("compare", name, value, at_least=float(least))
    if not found.is_integer():
        raise ValueError(f"compare: {name} must be a whole number, got {found:g}.")
    return int(found)


#: numbers in the features from which on threads pay
_LARGE = 2_000_000


def _threads(size: int) -> int:
    return 1 if size < _LARGE else min(os.cpu_count() or 1, 8)
