"""What the commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from selmatch.comparison.result import plain as plain
from selmatch.words import printable


class Interrupted(Exception):
    """A run that the user stopped, with how to go on."""


class _Terminal(Console):
    """A console that leaves a closed pipe to :mod:`selmatch.cli.app`, and obeys no text: no markup, no control code."""

    def __init__(self, stderr: bool = False) -> None:
        # texts hold names of columns and formulas, whose brackets are no markup
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

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


class _Notices(logging.Handler):
    """What libraries log and warn of, for people."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(printable(self.format(record).rstrip()) + "\n")


@contextlib.contextmanager
def notices() -> Iterator[None]:
    """A block whose logs and warnings are printed as messages are."""
    handler, logger = _Notices(logging.WARNING), logging.getLogger()
    logger.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        logger.removeHandler(handler)


class _Printed(io.TextIOBase):
    """Where libraries print to while a command works: beside its result."""

    def write(self, text: str, /) -> int:
        return sys.stderr.write(printable(text))

    def flush(self) -> None:
        sys.stderr.flush()


def beside_the_result() -> contextlib.redirect_stdout[_Printed]:
    """A block in which nothing that a library prints spoils the result."""
    return contextlib.redirect_stdout(_Printed())


def show(text: str | Text) -> None:
    """A result for people."""
    results().print(text, soft_wrap=True)


def emit(document: Any) -> None:
    """The result for programs: one JSON document, with null for open ends and other numbers that are not finite."""
    # escaped to ASCII, which every terminal and every pipe can take
    sys.stdout.write(json.dumps(plain(document), indent=1, allow_nan=False) + "\n")
