"""``selmatch compare``: what a selective loss buys on your data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from selmatch.cli.files import SPECS, TABLES, require_file
from selmatch.cli.focus import MATTERS, Between, Cap, Strength, Top
from selmatch.cli.options import JSON_HELP, column_of, one_of
from selmatch.cli.output import Interrupted, beside_the_result, emit, say, show
from selmatch.cli.progress import Bar
from selmatch.cli.table import show_comparison
from selmatch.cli.words import listed
from selmatch.comparison.question import MODELS, ROLES, SCALES
from selmatch.design import WORDS
from selmatch.files import read_json

#: what a report consists of, and its numbers among them
NUMBERS = "comparison.json"
FILES = ("report.html", NUMBERS, "loss.toml", "columns.json")
#: two reports that differ in one of these answer different questions; the others are the effort that was made
SUBJECT = (*ROLES, "drop", "wish", "share", "scale", "model")
#: what the options call them
OPTIONS: dict[str, str] = dict.fromkeys(("wish", "share", "loss"), MATTERS.lower())

THREADS_HELP = (
    "Of everything that runs in parallel; by default 1 for small data, else one for each processor, at most 8."
)
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
    cluster: Annotated[
        str | None, _column("--cluster", "Column with what groups lie in, such as the person of a list.")
    ] = None,
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
    threads: Annotated[int | None, _number("--threads", THREADS_HELP)] = None,
    out: Out = Path("selmatch-report"),
    as_json: Annotated[bool, _flag("--json", JSON_HELP)] = False,
    force: Annotated[bool, _flag("--force", "Replace a report about another question in the same folder.")] = False,
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
    said: dict[str, Any] = dict(
        target=target, focus=None if between or loss else focus or "high", top=top, strength=strength, between=between,
        regions=None, cap=cap, loss=loss, scale=scale, model=model, split=split, group=group, cluster=cluster,
        time=time, weights=weights, drop=tuple(drop or ()), losses=listed([losses]) if losses else None, splits=splits,
        settings=settings, rounds=rounds, rows=rows, resamples=resamples, at=at, seed=seed, threads=threads,
    )  # fmt: skip
    _prepare(out, fresh)
    earlier = None if force else _require_same_question(out, data, said)
    bar = Bar(quiet)
    try:
        with bar, beside_the_result():
            comparison = selmatch.compare(data, **said, folder=out, progress=bar.update)
            bar.say("writing the report")
            out.mkdir(parents=True, exist_ok=True)
            report = comparison.to_html(out / "report.html")
            comparison.to_json(out / NUMBERS)
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
        files = {"Numbers": NUMBERS, "loss": "loss.toml", "columns": "columns.json"}
        say(f"{', '.join(f'{what}: {out / name}' for what, name in files.items())}.", style="dim")
        if earlier not in (None, comparison.data.fingerprint):
            say(f"They replace a report about other rows of {comparison.data.name}.", style="dim")


def _prepare(out: Path, fresh: bool) -> None:
    """See that the folder of the report can be one, without finished fits on request."""
    from selmatch.comparison.journal import JOURNAL

    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"compare: --out must be a folder, got the file {out}.")
    if fresh and (out / JOURNAL).is_dir():
        shutil.rmtree(out / JOURNAL)


def _require_same_question(out: Path, data: Path, said: Mapping[str, Any]) -> str | None:
    """The fingerprint of the rows of the report that lies there, which must answer the same question."""
    found = [name for name in FILES if (out / name).exists()]
    if not found:
        return None
    remedy = "Choose another --out, or add --force to replace it."
    try:
        kept = read_json(out / NUMBERS)
        earlier, name, fingerprint = kept["question"], kept["data"]["name"], kept["data"]["fingerprint"]
        before = {part: earlier.get(part) for part in SUBJECT} | {"data": name}
        if not earlier["wish"]:
            before["loss"] = kept["loss"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise FileExistsError(
            f"compare: --out must be a folder for a report, got {out}, whose {found[0]} belongs to no report that "
            f"can be read. {remedy}"
        ) from None
    now = _subject(data, said)
    others = dict.fromkeys(OPTIONS.get(part, part) for part in {**now, **before} if now.get(part) != before.get(part))
    if others:
        raise FileExistsError(
            f"compare: --out must be free for this question, got {out} with a report about {earlier['target']} of "
            f"{name}, which differs in {' and '.join(others)}. {remedy}"
        )
    return fingerprint


def _subject(data: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked, as a report has it in its numbers."""
    from selmatch import spec
    from selmatch.comparison import question_of
    from selmatch.comparison.result import plain
    from selmatch.losses import loss_of

    question = plain(question_of(said))
    now = {part: question[part] for part in SUBJECT} | {"data": data.name}
    if said["loss"] is not None:
        now["loss"] = json.loads(spec.dumps(loss_of("compare", spec.load(said["loss"])), "json"))
    return now
