"""Formulas as MathML: browsers draw it themselves, so that pages need neither scripts nor fonts from elsewhere."""

from __future__ import annotations

import itertools
import re
import unicodedata
from html import escape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: what comes out as it stands: a command, or the ampersand of an environment
_UNKNOWN = re.compile(r"<mi>(\\\w+|&)</mi>")

_SPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", _SPACE)  # names of elements as HTML has them
_PRIMES = frozenset("\u2032\u2033\u2034\u2057")
_SIGNS = frozenset("+-\u2212\u00b1\u2213")
#: operators behind which a minus is between two things
_CLOSING = frozenset(")]}|!\u2016\u221e\u27e9\u2309\u230b") | _PRIMES
#: elements that say nothing: a minus behind them may well be the first sign of something
_GAPS = ("mspace", "mtext")


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
    tree = ElementTree.fromstring(converted)
    for element in list(tree.iter()):
        _slant(element)
        _raise_prime(element)
        _tell_signs(element)
    return ElementTree.tostring(tree, encoding="unicode")


def _kind(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _slant(element: ElementTree.Element) -> None:
    """Mark a variable of one letter: the style sheet slants it, since few fonts have the slanted h of Unicode."""
    text, variant = element.text or "", element.get("mathvariant")
    if _kind(element) != "mi" or len(text) != 1 or not text.isalpha():
        return
    if variant is None:
        element.set("class", "letter")
    elif variant == "double-struck" and text.isascii() and text.isupper():
        # browsers no longer make it of a plain letter
        name = f"DOUBLE-STRUCK CAPITAL {text}"
        element.text = unicodedata.lookup(name if text in "CHNPQRZ" else f"MATHEMATICAL {name}")


def _raise_prime(element: ElementTree.Element) -> None:
    """Put a prime beside its letter: fonts have it small and high already, and as a superscript it is a speck."""
    if _kind(element) not in ("msup", "msubsup") or element[-1].text not in _PRIMES:
        return
    base, *below, prime = element
    prime.tag = f"{{{_SPACE}}}mo"
    prime.attrib = {"lspace": "0", "rspace": "0"}
    if below:
        raised = ElementTree.Element(f"{{{_SPACE}}}mrow")
        raised.extend((base, prime))
        element[:] = [raised, *below]
    element.tag = f"{{{_SPACE}}}{'msub' if below else 'mrow'}"


def _tell_signs(element: ElementTree.Element) -> None:
    """A minus in front of something is not one between two things, and stands close."""
    for before, sign in itertools.pairwise(element):
        leading = _kind(before) in _GAPS or (_kind(before) == "mo" and before.text not in _CLOSING)
        if leading and _kind(sign) == "mo" and sign.text in _SIGNS:
            sign.set("form", "prefix")


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
