"""A curve at a glance: the small inline picture that notebooks show for a curve, a potential or a loss."""

from html import escape
from typing import Any

import numpy as np

from selmatch.landmarks import telling_scores
from selmatch.parameters import has_plain_numbers

WIDTH, HEIGHT = 320, 140
LEFT, RIGHT, TOP, BOTTOM = 46, 46, 18, 20  # margins: labels of the curve, of its slope, the legend, labels of z
COLOURS = ("#3d85c6", "#d9762b")  # of the curve and of its slope; both readable on white and on black
#: the share at each end of the axis at which a curve may run off
EDGE = 1.0 / 12.0


@np.errstate(all="ignore")
def svg(potential: Any, caption: str | None = None) -> str:
    """Draw a potential as an HTML fragment: its link and the slope of it, with the repr as caption.

    The curve is solid and belongs to the axis on the left, its slope is dashed and belongs to the axis on the right. Of
    a composite Softmax the scaling q is drawn. What has no single curve, or parameters that are arrays of a framework,
    is shown as its caption alone.

    Parameters
    ----------
    potential : Curve, Separable, CompositeSoftmax or PerLabel
        What to draw, over the ``window()`` of its curve.
    caption : str, optional
        The text below, by default ``repr(potential)``.
    """
    label = escape(repr(potential) if caption is None else caption)
    name, curve = _curve_of(potential)
    if curve is None or not has_plain_numbers(curve):
        return f"<code>{label}</code>"
    low, high = curve.window()
    z = telling_scores(curve, low, high)
    share = (z - low) / (high - low)
    lines = [np.broadcast_to(np.asarray(f(z), dtype=float), z.shape) for f in (curve, curve.slope)]
    limits = [_limits(line, (share >= EDGE) & (share <= 1.0 - EDGE)) for line in lines]
    limits[1] = (min(0.0, limits[1][0]), max(0.0, limits[1][1]))  # a slope is read against 0

    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [
        f'<figure style="margin:0"><svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" font-size="10" fill="currentColor">',
        f"<title>{label}</title>",
        f'<rect x="{LEFT}" y="{TOP}" width="{width}" height="{height}" fill="none" stroke="currentColor" '
        'opacity="0.3"/>',
    ]
    # An inner svg clips what leaves the frame, and needs no id, which could clash with other pictures of a page.
    parts.append(f'<svg x="{LEFT}" y="{TOP}" width="{width}" height="{height}">')
    parts += [
        f'<polyline points="{run}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
        for line, limit, colour, dash in zip(lines, limits, COLOURS, ("", ' stroke-dasharray="5 3"'), strict=True)
        for run in _runs(share * width, line, limit, height)
    ]
    parts.append("</svg>")
    parts += [
        _text(LEFT + width * at, HEIGHT - 6, "middle", f"{low + (high - low) * at:.3g}") for at in (0.0, 0.5, 1.0)
    ]
    for (bottom, top), x, anchor, colour in zip(
        limits, (LEFT - 4, WIDTH - RIGHT + 4), ("end", "start"), COLOURS, strict=True
    ):
        parts.append(_text(x, TOP + 8, anchor, f"{top:.3g}", colour))
        parts.append(_text(x, HEIGHT - BOTTOM, anchor, f"{bottom:.3g}", colour))
    parts.append(_text(LEFT, 12, "start", f"{name}(z), solid", COLOURS[0]))
    parts.append(_text(WIDTH - RIGHT, 12, "end", f"{name}′(z), dashed", COLOURS[1]))
    parts.append(f"</svg><figcaption><code>{label}</code></figcaption></figure>")
    return "".join(parts)


def _curve_of(potential: Any) -> tuple[str, Any]:
    if callable(potential):
        return "h", potential
    if hasattr(potential, "scaling"):
        return "q", potential.scaling
    return "h", getattr(potential, "curve", None)


def _text(x: float, y: float, anchor: str, words: str, colour: str = "currentColor") -> str:
    return f'<text x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def _limits(values: np.ndarray, inner: np.ndarray) -> tuple[float, float]:
    """Where the axis ends: at the extremes, unless the curve runs off at its ends, which would flatten all the rest."""
    (low, high), (inner_low, inner_high) = _extremes(values), _extremes(values[inner])
    if high - low > 3 * (inner_high - inner_low) > 0:
        low, high = inner_low, inner_high
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # so is a constant
        low, high = min(low, 0.0), max(high, 0.0) or float(low == 0.0)
    return low, high


def _extremes(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _runs(x: np.ndarray, values: np.ndarray, limits: tuple[float, float], height: int) -> list[str]:
    """The points of each stretch of finite values, in pixels."""
    low, high = limits
    pad = 3.0
    y = height - pad - np.clip((values - low) / (high - low), -9.0, 9.0) * (height - 2 * pad)
    gaps = ~np.isfinite(y) | ~np.isfinite(values)
    stretches = np.split(np.arange(values.size), np.flatnonzero(gaps))
    points = [[f"{x[i]:.1f},{y[i]:.1f}" for i in stretch if not gaps[i]] for stretch in stretches]
    return [" ".join(stretch) for stretch in points if len(stretch) > 1]
