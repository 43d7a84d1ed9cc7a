"""Pictures of losses and of predictions: axes in, axes out.

Every function draws on the axes that it is given (``ax=``), or in a new figure, and returns the axes; :func:`overview`
returns a figure. They take a loss, a potential or a curve, and keep inside its domain. Wrap them in :func:`theme` for
the look of a journal figure.
"""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError('selmatch.plots needs matplotlib. Install it with: pip install "selmatch[plots]".') from error

from selmatch.plots.classes import contours, projections, surface
from selmatch.plots.diagnostics import error_by_decile, gains, link_bias, murphy, reliability
from selmatch.plots.lines import area, link, losses, probability, scaling, sensitivity
from selmatch.plots.pages import overview
from selmatch.plots.style import COLOURS, colour_of, marker_of, theme

__all__ = [
    "COLOURS",
    "area",
    "colour_of",
    "contours",
    "error_by_decile",
    "gains",
    "link",
    "link_bias",
    "losses",
    "marker_of",
    "murphy",
    "overview",
    "probability",
    "projections",
    "reliability",
    "scaling",
    "sensitivity",
    "surface",
    "theme",
]
