"""A page that needs nothing but itself: one stylesheet, light and dark, no script, no network."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

try:
    import jinja2
    from markupsafe import Markup
except ImportError as error:
    raise ImportError('selmatch.report needs jinja2. Install it with: pip install "selmatch[compare]".') from error

import selmatch
from selmatch.report import palette
from selmatch.words import unbroken

__all__ = ["Markup", "environment", "page", "render", "stylesheet"]


def page(title: str, body: Any, *, description: str = "", footer: str = "") -> str:
    """A whole HTML document around a body.

    Parameters
    ----------
    title : str
        Of the window; the body has its own heading.
    body : markupsafe.Markup
        What stands in ``<main>``, for example from :func:`render`. A plain str is text: it is escaped.
    description : str
        One sentence for those who find the file.
    footer : str
        Stands at the end, beside the version of selmatch.

    Returns
    -------
    str

    Examples
    --------
    >>> from selmatch.report.pages import page
    >>> text = page("Tea & cake", "1 < 2")
    >>> "<title>Tea &amp; cake</title>" in text, "1 &lt; 2" in text
    (True, True)
    """
    return str(render("page.html.j2", title=title, body=body, description=description, footer=footer))


def render(template: str, **values: Any) -> Markup:
    """A template of this package with its values; all text is escaped."""
    return Markup(environment().get_template(template).render(**values))


@functools.cache
def environment() -> jinja2.Environment:
    """Where templates come from; other pages of selmatch bring theirs with ``environment().overlay(loader=...)``."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("selmatch.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["unbroken"] = unbroken
    made.globals.update(style=Markup(stylesheet()), version=selmatch.__version__)
    return made


def stylesheet() -> str:
    """The colours of both themes and the rules of the page."""
    return palette.stylesheet() + resources.files("selmatch.report").joinpath("style.css").read_text(encoding="utf-8")
