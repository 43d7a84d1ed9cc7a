"""Figures of matplotlib as inline SVG: small, without outside names, in the colours and the font of the page."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from selmatch.plots.style import settings_in_force
from selmatch.report.pages import Markup
from selmatch.report.palette import variable

#: a salt makes the ids that matplotlib draws the same in every run
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "selmatch",
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
#: properties that are the page's business, or matplotlib's way to write the default
_DROPPED = re.compile(r"^(font-family|stroke-linejoin: ?round|stroke-linecap: ?(butt|square)|stroke-miterlimit)\b")
_FONT = re.compile(r"^font: ?(?P<style>(?:italic|oblique|bold|\d00|\s)*)(?P<size>[\d.]+px)\s.*$")


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """The settings under which figures for a page are drawn: text as text, the same in every run."""
    # filters of warnings are one for all threads too, so they change under the lock of the settings
    with settings_in_force(_SETTINGS), warnings.catch_warnings():
        # the reader's fonts have the glyphs that the one for measuring lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def plain(text: str, most: int = 32) -> str:
    """Somebody's words as a label in a figure: no formulas in them, and not too long."""
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("$", r"\$")


def inline_svg(figure: Any, title: str, description: str) -> Markup:
    """A figure as an ``<svg>`` element that belongs into a page of :func:`selmatch.report.pages.page`.

    Greys and the palette's colours become the page's variables, so the picture is light or dark with it; text stays
    text in the page's font. Ids are unique among pictures that differ.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What was drawn, at best under :func:`drawing`.
    title, description : str
        What those hear who do not see: the name of the picture, and what it shows.

    Returns
    -------
    markupsafe.Markup
        Safe to put into a page; all text in it is escaped.
    """
    root = ElementTree.fromstring(_saved(figure))
    _drop(root, {f"{_SVG}metadata", f"{_SVG}style"})
    prefix = "p" + hashlib.sha256(ElementTree.tostring(root) + title.encode() + description.encode()).hexdigest()[:8]
    used = _references(root)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _simplify(element, prefix, used)
    for index, (tag, text) in enumerate((("title", title), ("desc", description))):
        named = ElementTree.Element(tag, {"id": f"{prefix}-{tag}"})
        named.text = text
        root.insert(index, named)
    viewport = root.attrib["viewBox"]
    root.attrib.clear()
    # black is what SVG fills with where nothing is said, and matplotlib says nothing then
    root.attrib.update({"style": "fill:var(--ink)", "viewBox": viewport, "role": "img"})
    root.attrib["aria-labelledby"] = f"{prefix}-title {prefix}-desc"
    return Markup(re.sub(r">\s*\n\s*<", "><", ElementTree.tostring(root, encoding="unicode")))


def _saved(figure: Any) -> str:
    with drawing():
        text = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", metadata=nothing, transparent=True)
    return text.getvalue()


def _drop(root: ElementTree.Element, tags: set[str]) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in tags:
                parent.remove(child)


def _references(root: ElementTree.Element) -> set[str]:
    """The ids that something in the picture refers to."""
    found = {element.attrib[_HREF][1:] for element in root.iter() if element.attrib.get(_HREF, "").startswith("#")}
    for element in root.iter():
        for value in element.attrib.values():
            found.update(_REFERENCE.findall(value))
    return found


def _simplify(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    """One element: ids that are needed, references without name spaces, short numbers, colours of the page."""
    name = element.attrib.pop("id", None)
    href = element.attrib.pop(_HREF, None)
    for key, value in element.attrib.items():
        value = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
        element.attrib[key] = _style(value) if key == "style" else _LONG_NUMBER.sub(_shortened, " ".join(value.split()))
    if not element.attrib.get("style", "-"):
        del element.attrib["style"]
    if name in used:
        element.attrib["id"] = f"{prefix}-{name}"
    if href is not None:
        element.attrib["href"] = f"#{prefix}-{href[1:]}" if href.startswith("#") else href


def _style(value: str) -> str:
    kept = []
    for part in (part.strip() for part in value.split(";")):
        font = _FONT.match(part)
        if font is not None:
            kept.append(f"font-size:{font['size']}")
            kept.extend(f"font-style:{word}" for word in ("italic", "oblique") if word in font["style"])
            kept.extend(f"font-weight:{word}" for word in re.findall(r"bold|\d00", font["style"]))
        elif part and not _DROPPED.match(part):
            kept.append(re.sub(r": +", ":", part))
    text = _COLOUR.sub(lambda found: variable(found[0]), ";".join(kept))
    return _LONG_NUMBER.sub(_shortened, text)


def _shortened(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
