"""Docstrings as reStructuredText reads them: bars in prose are sizes. And examples without their last, empty line."""

from __future__ import annotations

import itertools
import re
from typing import Any

from docutils import nodes

#: |x| and |x|^d in prose would be substitutions
_SIZE = re.compile(r"(?<![`\\\w])\|(?=\w+\|)(\w+)\|")
_BLOCK = re.compile(r"(\s*)(\.\. math::|>>>)")


def in_prose(lines: list[str]) -> list[str]:
    """The lines with bars escaped, except in formulas and examples, which end with an empty line."""
    written, inside = [], False
    for line in lines:
        inside = bool(line.strip()) and (inside or _BLOCK.match(line) is not None)
        written.append(line if inside else _SIZE.sub(r"\\|\1\\|", line))
    return written


def with_terms(lines: list[str]) -> list[str]:
    """The lines with the section "Attributes" as a definition list.

    Napoleon would make each name a cross-reference to whatever has that name.
    """
    for start, (line, under) in enumerate(itertools.pairwise(lines)):
        if line.strip() == "Attributes" and set(under.strip()) == {"-"}:
            return [*lines[:start], ".. rubric:: Attributes", "", *lines[start + 2 :]]
    return lines


def _process(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = with_terms(in_prose(lines))


def _without_last_line(app: Any, doctree: Any) -> None:
    """Doctests in Markdown end with an empty line before the fence, which readers need not see."""
    for block in doctree.findall(nodes.literal_block):
        if block.rawsource != block.astext():
            continue
        block[:] = [nodes.Text(block.astext().rstrip())]
        block.rawsource = block.astext()


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process, priority=400)  # before napoleon
    app.connect("doctree-read", _without_last_line)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
