"""``selmatch compare``: what a selective loss buys on your data."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from selmatch.cli.files import SPECS, TABLES, require_file
from selmatch.cli.focus import MATTERS, Between, Cap, Strength, Top
from selmatch.cli.options import JSON_HELP, column_of, one_of
from selmatch.cli.output import Interrupted, emit, say, show
from selmatch.cli.progress import Bar
from selmatch.cli.table import show_comparison
from selmatch.cli.words import listed
from selmatch.comparison.question import MODELS, SCALES
from selmatch.design import WORDS

#: the folder of finished fits inside the folder of the report
JOURNAL = "selmatch-journal"


AT_HELP = "The k of precision and NDCG; by default 10 for lists, else as many as there are rows in the region."
COLUMNS, EFFORT, REPORT = "Columns", "Models and effort", "Report"


def _column(name: str, words: str) -> Any:
    return typer.Option(name, metavar="COL", help=words, autocompletion=column_of("data"), rich_help_panel=COLUMNS)


def _number(name: str, words: str, least: int = 1) -> Any:
    return typer.Option(name, metavar="N", help=words, min=least, rich_help_panel=EFFORT)


def _flag(name: str, words: str) -> Any:
    return typer.Option(name, help=words, rich_help_panel=REPORT)


Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet file, one row for each case.")]
Focus = Annotated[
    str | None,
    typer.Option("--focus", help="Which scores matter; by default high.", rich_help_panel=MATTERS, **one_of(WORDS)),
]
Loss = Annotated[
    Path | None,
    typer.Option("--loss", metavar="SPEC", help="A loss from a spec file instead of words.", rich_help_panel=MATTERS),
]
Scale = Annotated[
    str, typer.Option("--scale", help="What the scores are, of the target.", rich_help_panel=EFFORT, **one_of(SCALES))
]
Model = Annotated[
    str, typer.Option("--model", help="What learns, with every loss.", rich_help_panel=EFFORT, **one_of(MODELS))
]
Losses = Annotated[
    str | None,
    typer.Option(
        "--losses", metavar="A,B,C", help="Only these losses; by default all that apply.", rich_help_panel=EFFORT
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the report goes.", rich_help_panel=REPORT)]


def compare(
    data: Data,
    target: Annotated[str, _column("--target", "The column to predict.")],
    focus: Focus = None,
    top: Top = 0.1,
    strength: Strength = 8.0,
    between: Between = None,
    cap: Cap = None,
    loss: Loss = None,
    scale: Scale = "target",
    model: Model = "lightgbm",
    split: Annotated[str | None, _column("--split", "Column that says train, valid or test.")] = None,
    group: Annotated[str | None, _column("--group", "Column with the group or query of a row.")] = None,
    time: Annotated[str | None, _column("--time", "Column with the time: train on the past.")] = None,
    weights: Annotated[str | None, _column("--weights", "Column with the weight of a row.")] = None,
    drop: Annotated[list[str] | None, _column("--drop", "Column that is no feature; repeat it.")] = None,
    losses: Losses = None,
    splits: Annotated[int, _number("--splits", "Paired splits.")] = 5,
    settings: Annotated[int, _number("--settings", "Settings that each loss may try.")] = 4,
    rounds: Annotated[int, _number("--rounds", "The most rounds of a booster.")] = 400,
    rows: Annotated[int, _number("--rows", "The most rows; more are sampled down.")] = 100_000,
    resamples: Annotated[int, _number("--resamples", "Resamples of the bootstrap.", least=20)] = 1000,
    at: Annotated[int | None, _number("--at", AT_HELP)] = None,
    seed: Annotated[int, _number("--seed", "Of everything that draws.", least=0)] = 0,
    threads: Annotated[int | None, _number("--threads", "Of everything that runs in parallel.")] = None,
    out: Out = Path("selmatch-report"),
    as_json: Annotated[bool, _flag("--json", JSON_HELP)] = False,
    fresh: Annotated[bool, _flag("--fresh", "Forget what an earlier run has finished.")] = False,
    quiet: Annotated[bool, _flag("--quiet", "No progress, no messages.")] = False,
) -> None:
    """Train the same model with the selective loss and with others, and report what it buys.

    A run that was stopped goes on where it was, with the same command.
    """
    import selmatch

    if loss is not None and not (focus is None and between is None and cap is None):
        raise ValueError("compare: --loss must come without --focus, --between and --cap, whose place it takes.")
    if focus is not None and between is not None:
        raise ValueError("compare: --focus and --between must not be given together: a word, or a region.")
    require_file(data, TABLES)
    if loss is not None:
        require_file(loss, SPECS)
    journal = _journal(out, fresh)
    bar = Bar(quiet)
    try:
        # a library that prints must not spoil the result
        with bar, contextlib.redirect_stdout(sys.stderr):
            comparison = selmatch.compare(
                data, target=target, focus=None if between or loss else focus or "high", top=top, strength=strength,
                between=between, cap=cap, loss=loss, scale=scale, model=model, split=split, group=group, time=time,
                weights=weights, drop=tuple(drop or ()), losses=listed([losses]) if losses else None, splits=splits,
                settings=settings, rounds=rounds, rows=rows, resamples=resamples, at=at, seed=seed, threads=threads,
                folder=journal, progress=bar.update,
            )  # fmt: skip
            bar.say("writing the report")
            out.mkdir(parents=True, exist_ok=True)
            report = comparison.to_html(out / "report.html")
            comparison.to_json(out / "comparison.json")
            comparison.loss.save(out / "loss.toml")
            comparison.columns.save(out / "columns.json")
    except KeyboardInterrupt:
        finished = f"after {bar.done} of {bar.total} fits" if bar.total else "before the first fit"
        raise Interrupted(f"Interrupted {finished}. The same command goes on from there.") from None
    if as_json:
        emit(comparison.to_dict())
        return
    show_comparison(comparison)
    show(f"Report: {report}")
    if not quiet:
        files = {"Numbers": "comparison.json", "loss": "loss.toml", "columns": "columns.json"}
        say(f"{', '.join(f'{what}: {out / name}' for what, name in files.items())}.", style="dim")


def _journal(out: Path, fresh: bool) -> Path:
    """The folder of finished fits, emptied on request."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"compare: --out must be a folder, got the file {out}.")
    journal = out / JOURNAL
    if fresh and journal.is_dir():
        shutil.rmtree(journal)
    return journal
