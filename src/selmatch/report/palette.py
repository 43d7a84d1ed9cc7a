"""The colours of a page, once for light and once for dark; pictures name them and follow the page."""

from __future__ import annotations

from types import MappingProxyType

from selmatch.plots.style import COLOURS

#: name of a CSS variable to its colour, on a light page
LIGHT = MappingProxyType(
    {
        "paper": "#fbfaf8",
        "card": "#ffffff",
        "sunken": "#f2f0ec",
        "ink": "#1c1e21",
        "muted": "#595e66",
        "line": "#dad6cf",
        "accent": "#00578a",
        "good": "#00694b",
        "bad": "#a83f00",
        "blue": "#0072b2",
        "vermillion": "#d55e00",
        "green": "#00875f",
        "purple": "#b8558c",
        "orange": "#b47a00",
        "sky": "#2e8cc4",
        "yellow": "#8f8200",
    }
)
#: the same on a dark page
DARK = MappingProxyType(
    {
        "paper": "#14171b",
        "card": "#1b1f25",
        "sunken": "#242932",
        "ink": "#e8e6e1",
        "muted": "#a4abb5",
        "line": "#3a414c",
        "accent": "#7cc4f2",
        "good": "#4fd0a5",
        "bad": "#ff9a5c",
        "blue": "#4aa8e8",
        "vermillion": "#ff8a45",
        "green": "#2fc498",
        "purple": "#e79cc4",
        "orange": "#f0b43c",
        "sky": "#9ad6fa",
        "yellow": "#efe468",
    }
)
#: the names of figures for colours to the names above, where they differ
_NAMES = {"bluish green": "green", "reddish purple": "purple", "sky blue": "sky"}
#: the colours of figures to the names above; black is a grey
NAMES_OF_COLOURS = MappingProxyType(
    {colour.lower(): _NAMES.get(name, name) for name, colour in COLOURS.items() if name != "black"}
)
#: greys up to a brightness of 255 to the names above: whatever is grey in a figure follows the page
NAMES_OF_GREYS = ((80, "ink"), (165, "muted"), (244, "line"), (255, "card"))


def variable(colour: str) -> str:
    """A colour such as ``#0072b2`` as the page's own: ``var(--blue)``; other than greys and the palette stay.

    Examples
    --------
    >>> from selmatch.report.palette import variable
    >>> variable("#000000"), variable("#D55E00"), variable("#123456")
    ('var(--ink)', 'var(--vermillion)', '#123456')
    """
    colour = colour.lower()
    if colour in NAMES_OF_COLOURS:
        return f"var(--{NAMES_OF_COLOURS[colour]})"
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) > 6:
        return colour
    return next(f"var(--{name})" for most, name in NAMES_OF_GREYS if max(red, green, blue) <= most)


def stylesheet() -> str:
    """The variables as CSS: light, dark where the reader's system is dark, and the other one on request.

    A checkbox with the id ``other-theme`` swaps the two without a script.
    """
    light, dark = _declared(LIGHT, "light"), _declared(DARK, "dark")
    other = ":root:has(#other-theme:checked)"
    return (
        f":root{{{light}}}\n{other}{{{dark}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}{other}{{{light}}}}}\n"
        f"@media print{{:root,{other}{{{light}}}}}\n"
    )


def _declared(colours: MappingProxyType[str, str], scheme: str) -> str:
    return f"color-scheme:{scheme};" + "".join(f"--{name}:{colour};" for name, colour in colours.items())
