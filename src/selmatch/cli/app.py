"""The program: its commands, and what becomes of errors."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import selmatch
from selmatch.cli import check, compare, explain, focus, paper, plot, versions
from selmatch.cli.output import Interrupted, messages, notices, say

#: what typer raises for a wrong command line; the class has moved between versions, its place has not
WrongUsage = typer.BadParameter.__bases__[0]
#: what a user can do something about
EXPECTED = (ValueError, TypeError, OSError, ImportError, OverflowError)

BAD_INPUT, INTERNAL, INTERRUPTED, CLOSED_PIPE = 2, 70, 130, 141


class _PlainFlags:
    """Help that shows an option without a value as just that."""

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)  # type: ignore[misc]
        for option in found:
            if getattr(option, "is_flag", False):
                option.metavar = ""  # else it is the type of a value that nobody gives
        return found


class Command(_PlainFlags, TyperCommand):
    """One command."""


class Commands(_PlainFlags, TyperGroup):
    """The commands; whatever goes wrong in one of them ends as one short block and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)
        debug, as_json = "--debug" in words[:end], "--json" in words[:end]
        words = [word for word in words[:end] if word != "--debug"] + words[end:] or ["--help"]
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):  # not every stream is a text of bytes
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        try:
            with notices():
                code = super().main(words, *rest, standalone_mode=False, **extra)
            if code == INTERRUPTED:
                raise Interrupted("Interrupted.")
            sys.stdout.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError, ValueError):  # or the flush at the end complains once more
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = CLOSED_PIPE
        except Exception as error:
            if debug:
                say(traceback.format_exc().rstrip())
            code, message = _told(error)
            _report(message, as_json, "" if code == INTERRUPTED else "Error: ")
        code = code if isinstance(code, int) else 0
        if standalone_mode:
            sys.exit(code)
        return code


def _told(error: Exception) -> tuple[int, str]:
    """The exit code and the words for an error."""
    if isinstance(error, Interrupted):
        return INTERRUPTED, str(error)
    if isinstance(error, WrongUsage):
        return BAD_INPUT, _usage(error)
    if isinstance(error, typer.Abort):  # which older versions of typer make of Ctrl-C
        return INTERRUPTED, "Interrupted."
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return BAD_INPUT, f"{error.filename}: {error.strerror}."
    if isinstance(error, EXPECTED):
        return BAD_INPUT, str(error) or type(error).__name__
    kind = type(error).__name__
    return INTERNAL, f"{kind}: {error}\nThis is a bug of selmatch. Please report it, with the output of --debug."


def _usage(error: Any) -> str:
    """A wrong command line in words, with the nearest option and where help is."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    near, option = getattr(error, "possibilities", None), getattr(error, "option_name", None)
    if near:
        message = f"{error.message.rstrip('.')}. Did you mean {near[0]}?"
    elif option and not option.startswith("--"):
        message = f"{message.rstrip('.')}. A formula that starts with a minus goes after --, behind all options."
    path = "selmatch" if context is None else context.command_path
    return f"{message}\nSee: {path} --help"


def _report(message: str, as_json: bool, title: str) -> None:
    if as_json:
        sys.stdout.write(json.dumps({"error": message}) + "\n")
        return
    text = Text(title, style="bold red")
    text.append(message, style="not bold red")
    messages().print(text, soft_wrap=True)


# ------------------------------------------------------------------------------------------------------- the program


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"selmatch {selmatch.__version__}")
        raise typer.Exit()


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")]

app = typer.Typer(
    name="selmatch",
    cls=Commands,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def selmatch_(version: Version = False, debug: Debug = False) -> None:
    """Say where accuracy matters, get a convex loss that looks there, and see what it buys you."""


for _command in (compare.compare, focus.focus, explain.explain, check.check, plot.plot, paper.paper, versions.versions):
    app.command(cls=Command)(_command)
