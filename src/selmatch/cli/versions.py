"""``selmatch versions``: what is installed."""

from __future__ import annotations

import contextlib
import io

from selmatch.cli.options import Json
from selmatch.cli.output import emit, show
from selmatch.versions import show_versions


def versions(as_json: Json = False) -> None:
    """Show what is installed: the first thing to put into a bug report."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        show_versions()
    if as_json:
        emit(dict(line.split(maxsplit=1) for line in printed.getvalue().splitlines()))
    else:
        show(printed.getvalue().rstrip())
