"""The command line: ``selmatch compare``, ``plot``, ``check``, ``explain``, ``focus``, ``paper``, ``versions``."""

from __future__ import annotations

import json
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends with ``SystemExit``."""
    try:
        from selmatch.cli.app import app
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "selmatch"):
            raise
        message = f'selmatch: the command line needs {package}. Install it with: pip install "selmatch[compare]".'
        if "--json" in sys.argv:
            sys.stdout.write(json.dumps({"error": message}) + "\n")
        else:
            sys.stderr.write(message + "\n")
        sys.exit(1)
    app(prog_name="selmatch")
