"""What a comparison aims at: the selective loss, from words or as given, and the region where accuracy matters."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from selmatch import spec
from selmatch.analysis import sensitivity
from selmatch.boosting.rows import checked_labels
from selmatch.comparison.reading import WHO
from selmatch.comparison.result import Region
from selmatch.comparison.tables import Rows
from selmatch.curve import Curve
from selmatch.design import focus, place
from selmatch.losses import MatchingLoss, loss_of
from selmatch.scales import UNCHANGED, Scale, scale_of
from selmatch.words import readable


def designed(wish: Mapping[str, Any], rows: Rows) -> MatchingLoss:
    """The loss that the words ask for, on the scores of the rows; ends and caps are in units of the target."""
    said = {name: value for name, value in wish.items() if name != "word"}
    scale, options = rows.scale, dict(said)
    if "between" in options:
        options["between"] = _on_scale(options["between"], scale)
    if "regions" in options:
        options["regions"] = [(*_on_scale(piece[:2], scale), *piece[2:]) for piece in options["regions"]]
    if "cap" in options:
        (options["cap"],) = _on_scale((options["cap"],), scale)
    try:
        return focus(wish.get("word"), data=rows.scores, weights=rows.weights, **options)
    except ValueError:
        if scale != UNCHANGED:  # the same fault, told in units of the target
            focus(wish.get("word"), data=rows.target, weights=rows.weights, **said)
        raise


def _on_scale(ends: Any, scale: Scale) -> tuple[float, ...]:
    mapped = scale(np.asarray(ends, dtype=float))
    # below all that a logarithm knows
    return tuple(-math.inf if math.isnan(end) else float(end) for end in mapped)


def read(loss: Any, scale: str) -> MatchingLoss:
    """A loss of the user, or from a file, whose scale must be the one that was asked for, if it has one."""
    found = spec.load(loss) if isinstance(loss, (str, os.PathLike)) else loss
    made = loss_of(WHO, found)
    if made.scale is not None and scale == "target":
        raise ValueError(
            f"{WHO}: scale must be 'log' for a loss of {scale_of(made).words}, got 'target'. Use scale='log', or a "
            "loss of the target itself."
        )
    return made


def given(loss: Any, rows: Rows) -> MatchingLoss:
    """A loss that can be trained with on the scores of the rows, and written down."""
    made = loss_of(WHO, loss).with_scale(None)
    if not isinstance(made.potential, Curve):
        raise TypeError(f"{WHO}: loss must have a single link, got {made!r}.")
    checked_labels(WHO, made, rows.scores, None)
    spec.to_dict(made)  # before hours of training, not after
    return made


def region_of(loss: MatchingLoss, rows: Rows, top: float) -> Region:
    """Where accuracy matters: as wished, else the share of the rows that the loss is most sensitive to."""
    wish = loss.wish
    if wish is not None and wish.of == "rows" and not wish.classes:
        pieces = tuple(sorted((low, high) for low, high, _ in wish.regions))
    else:
        pieces = _most_sensitive(loss, rows.scores, top)
    words = f"scores {' and '.join(place(low, high) for low, high in pieces)}"
    if rows.scale != UNCHANGED:
        ends = [map(float, rows.scale.undone(np.array(piece))) for piece in pieces]
        words += f" (the target {' and '.join(place(low, high) for low, high in ends)})"
    found = Region(pieces, words, 0)
    return dataclasses.replace(found, rows=int(found.holds(rows.scores).sum()))


def _most_sensitive(loss: MatchingLoss, scores: np.ndarray, top: float) -> tuple[tuple[float, float], ...]:
    """Pieces of the line that hold the rows of highest sensitivity, and no others; open where no row lies beyond."""
    order = np.argsort(scores, kind="stable")
    scores, found = scores[order], np.nan_to_num(np.asarray(sensitivity(loss, scores[order]), dtype=float))
    if found.min() == found.max():
        raise ValueError(
            f"{WHO}: loss must be more sensitive at some scores than at others, got {loss!r}, for which all are alike."
        )
    border = np.sort(found)[-max(1, round(top * len(found)))]
    inside = found >= border if border > found.min() else found > border
    starts = np.flatnonzero(inside & ~np.concatenate([[False], inside[:-1]]))
    ends = np.flatnonzero(inside & ~np.concatenate([inside[1:], [False]]))
    lows = np.where(starts == 0, -math.inf, scores[starts])
    highs = np.where(ends == len(scores) - 1, math.inf, scores[ends])
    return tuple((float(low), float(high)) for low, high in zip(lows, highs, strict=True))


#: how far the share of rows in the region may be from what was asked for without a word
_FAR = 1.5


def notes_of(wish: Mapping[str, Any], loss: MatchingLoss, region: Region, rows: Rows, top: float) -> list[str]:
    """A sentence where the region holds far more or fewer rows than the share that was asked for."""
    own = not wish and loss.wish is not None  # a loss that came with its region
    if own or (wish and "word" not in wish) or "cap" in wish:
        return []
    inside, weights = region.holds(rows.scores), np.ones(len(rows)) if rows.weights is None else rows.weights

    def share(held: np.ndarray) -> float:
        return float(weights[held].sum() / weights.sum())

    found = share(inside)
    if top / _FAR <= found <= top * _FAR:
        return []
    note = f"You asked for {_percent(top)} of the rows and got {_percent(found)} ({region.rows:,} rows)"
    if region.rows <= len(region.pieces):
        return [f"{note}: {len(rows):,} rows hold no smaller share."]
    scores, counts = np.unique(rows.scores[inside], return_counts=True)
    most = counts.argmax()
    if counts[most] == 1:
        return [f"{note}."]
    note += f": many rows ({counts[most]:,}) share the score {readable(scores[most])}."
    beyond = {"high": rows.scores > scores[most], "low": rows.scores < scores[most]}.get(wish.get("word", ""))
    if beyond is None:
        return [f"{note} between=(low, high) says exactly what you mean."]
    if not beyond.any():
        return [f"{note} There is no smaller region."]
    smaller = math.floor(1000.0 * share(beyond)) / 1000.0 or share(beyond)
    return [f"{note} top={smaller:g} or less leaves them out; between=(low, high) says exactly what you mean."]


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"
