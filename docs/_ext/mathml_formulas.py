"""Formulas as MathML: browsers draw it themselves, so that pages need neither scripts nor fonts from elsewhere."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: what comes out as it stands: a command, or the ampersand of an environment
_UNKNOWN = re.compile(r"<mi>(\\\w+|&)</mi>")

#: a variable of one letter: the style sheet slants it, since few fonts have the slanted h of Unicode
_LETTER = re.compile(r"<mi>(&#x[0-9A-F]+;|\w)</mi>")


def mathml(latex: str, *, block: bool) -> str:
    """A formula as an element of HTML.

    Lines that end with a double backslash stand below each other, aligned at their ampersands, as in LaTeX's
    ``split``, which is what Sphinx does to formulas too.
    """
    latex = latex.replace("{aligned}", "{split}")  # the same, and latex2mathml knows only this name
    if "\\\\" in latex and "\\begin{" not in latex:
        latex = rf"\begin{{split}}{latex}\end{{split}}"
    converted = convert(latex, display="block" if block else "inline")
    if unknown := _UNKNOWN.search(converted):
        raise ValueError(f"latex2mathml does not understand {unknown[1]}.")
    return _LETTER.sub(r'<mi class="letter">\1</mi>', converted)


def _converted(translator: Any, node: nodes.Element, *, block: bool) -> str:
    latex = node.astext().strip()
    try:
        return mathml(latex, block=block)
    except Exception as error:  # latex2mathml raises whatever its parser meets
        logger.warning("no MathML for the formula %r: %r", latex, error, location=node, type="mathml")
        return f"<code>{escape(latex)}</code>"


def _inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(_converted(translator, node, block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.Element) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    translator.body.append(_converted(translator, node, block=True))
    if number := node.get("number"):
        translator.body.append(f'<span class="eqno">({number})</span>')
        translator.add_permalink_ref(node, "Link to this equation")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
