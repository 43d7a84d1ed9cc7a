"""Hard and soft labels for losses of many classes: class indices or rows of shares, instead of a teacher's scores."""

from __future__ import annotations

import math
from typing import Any

from selmatch.algebra import constant_value
from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.batch import Batch, aligned_mask, common_space, converted, require_inside
from selmatch.composite import CompositeSoftmax
from selmatch.conjugates import divergence_terms
from selmatch.functions import row_sum, where, xlogy
from selmatch.parameters import has_plain_numbers, parameter

Array = Any


def shares_of(who: str, s_hat: Any, labels: Any, mask: Any, ignore_index: int) -> tuple[Array, Array, Array]:
    """Predictions, the share of each class in the label of a row, and a mask without the rows that are ignored."""
    given = {"s_hat": s_hat, "labels": labels, "where": mask}
    s_hat, labels, mask = (converted(who, name, x) for name, x in given.items())
    space: Any = common_space(who, {"s_hat": s_hat, "labels": labels, "where": mask})
    if space.name == "JAX":
        s_hat, labels, mask = (x if x is None or is_number(x) else space.adopt(x) for x in (s_hat, labels, mask))
    shape = () if is_number(s_hat) else tuple(s_hat.shape)
    if not shape or shape[-1] == 0:
        raise ValueError(f"{who}: s_hat must have at least one class on its last axis, got shape {shape}.")
    if is_number(labels):
        labels = space.class_numbers(s_hat)[0] + labels
    found = tuple(labels.shape)
    if found == shape:
        return s_hat, labels if space.is_floating(labels) else space.cast(labels, s_hat), mask
    if found != shape[:-1]:
        raise ValueError(
            f"{who}: labels must have shape {shape[:-1]} (class indices) or {shape} (shares of the classes), "
            f"got {found}."
        )
    counts = labels != ignore_index
    own = space.class_numbers(s_hat) == labels[..., None]
    inside = space.row_any(own)
    if space is NumPy:
        condition = f"be classes from 0 to {shape[-1] - 1}, or {ignore_index} for rows that do not count"
        require_inside(who, "labels", labels, inside, counts, condition)
    rows = counts[..., None]
    shares = space.cast(own, s_hat)
    if space is not NumPy:  # where nobody may look, what is no class gives NaN
        shares = where((inside | ~counts)[..., None], shares, math.nan)
    if mask is None:
        return s_hat, shares, rows
    if "bool" not in str(getattr(mask, "dtype", type(mask))):
        return s_hat, shares, mask  # refused later
    return s_hat, shares, rows & (mask if isinstance(mask, bool) else aligned_mask(who, mask, shape, rows=True))


def require_score(who: str, softmax: Any, score: Any) -> Any:
    """The score of a labelled class, at which the scaling must be positive: other classes are to fall behind it."""
    score = parameter(who, "score", score)
    if not isinstance(softmax, CompositeSoftmax) or not is_number(score) or not has_plain_numbers(softmax):
        return score
    if not _is_positive(softmax, score):
        q = softmax.scaling
        got = f"q({score:g}) = {float(q(score)):.4g}" if q.holds(score) else f"{score:g}, outside of {q.domain},"
        raise ValueError(f"{who}: score must be where the scaling is > 0, got {got} for {softmax!r}.{_remedy(softmax)}")
    return score


def _is_positive(softmax: CompositeSoftmax, score: float) -> bool:
    q = softmax.scaling
    return bool(q.holds(score, interior=True)) and float(q(score)) > 0.0


def usable_score(softmax: CompositeSoftmax) -> float | None:
    """0, the logarithm of a probability of 1, if the scaling is positive there; else a higher score where it is."""
    try:
        low, high = map(float, softmax.scaling.window())
        tries = (0.0, 1.0, 2.0, 5.0, 0.5 * (low + high), high, 2.0 * high - low)
        return next((score for score in tries if _is_positive(softmax, score)), None)
    except Exception:  # numbers that are traced have no values
        return 0.0


def _remedy(softmax: CompositeSoftmax) -> str:
    score = usable_score(softmax)
    return "" if score is None else f" Try score={score:g}."


def advice(who: str, potential: Any) -> str:
    """What somebody should write who gives class indices where scores belong."""
    loss = "loss" if who.startswith("MatchingLoss") else "MatchingLoss(potential)"
    score = usable_score(potential) if isinstance(potential, CompositeSoftmax) else 0.0
    if score is None:
        return "Give scores."
    option = f", score={score:g}" if score else ""
    return f"For class indices or one-hot rows: {loss}.label_loss(s_hat, labels{option})."


def share_losses(softmax: CompositeSoftmax, s_hat: Array, y: Array, score: Any, present: Array = None) -> Array:
    """The mean over classes, by their shares y, of ``-gamma log p_k(s_hat) + r_Q(score, s_hat_k - score)``."""
    rows = softmax._rows(s_hat, present)
    terms = divergence_terms(rows, y) - xlogy(y, y)
    total = softmax.gamma * (row_sum(terms if present is None else where(present, terms, 0.0)) + rows.anchor)
    total = total + softmax.gamma * (row_sum(y) - 1.0)  # 0, but for labels in half precision
    if constant_value(softmax.scaling) is None:
        labelled = y > 0.0
        at = 0.0 * s_hat + score
        near = where(labelled, s_hat, at)
        region = where(labelled, y * softmax.scaling.remainder(at, near - at, near), 0.0)
        total = total + row_sum(region)
    return total[..., 0]


def checked_shares(who: str, batch: Batch) -> Array:
    """Shares that are no distribution over the classes that are present: an error in NumPy, else NaN."""
    y = batch.s
    fits = (y >= 0.0) & (abs(row_sum(y) - 1.0) <= 0.01)  # in half precision they add up only roughly
    if batch.present is not None:
        fits = fits | ~batch.space.row_any(batch.present)[..., None]
    if batch.space is NumPy:
        require_inside(who, "labels", y, fits, batch.present, "be shares >= 0 that sum to 1 over the classes present")
    return where(fits, y, math.nan)
