"""What the commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from selmatch.comparison.result import plain as plain


class Interrupted(Exception):
    """A run that the user stopped, with how to go on."""


class _Terminal(Console):
    """A console that leaves a closed pipe to :mod:`selmatch.cli.app`, and takes every text as it is."""

    def __init__(self, stderr: bool = False) -> None:
        # texts hold names of columns and formulas, whose brackets are no markup
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def results() -> Console:
    """Where results go."""
    return _Terminal()


def messages() -> Console:
    """Where progress and messages go."""
    return _Terminal(stderr=True)


def say(words: str, style: str = "") -> None:
    """A message beside the result."""
    messages().print(Text(words, style=style), soft_wrap=True)


def show(text: str | Text) -> None:
    """A result for people."""
    results().print(text, soft_wrap=True)


def emit(document: Any) -> None:
    """The result for programs: one JSON document, with null for open ends and other numbers that are not finite."""
    # escaped to ASCII, which every terminal and every pipe can take
    sys.stdout.write(json.dumps(plain(document), indent=1, allow_nan=False) + "\n")
