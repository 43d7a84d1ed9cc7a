"""Teachers of which only the best classes of each row are kept: k indices, k scores and one log-sum-exp.

Students are compared with log-probabilities. Classes that are not stored share what is left of the probability
equally, and none gets more than the least stored one. That is exact where the scaling of the loss is 0 below a cut-off
and all these classes lie below it (:func:`exact_below`): such classes count by their number only. Otherwise it is an
approximation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selmatch.canonical import without_infinities
from selmatch.composite import CompositeSoftmax
from selmatch.curve import Curve
from selmatch.losses import MatchingLoss

__all__ = ["TopKTeacher", "exact_below"]

#: the least probability that is left for classes that are not stored, about the rounding of a log-sum-exp
_LEAST = 1e-7
#: by how much stored probabilities may exceed 1, beside rounding: log-sum-exps that others have rounded
MOST_EXCESS = 0.01
#: scores that are looked at together when a teacher is made
_CHUNK = 1 << 24


@dataclass(frozen=True, eq=False)
class TopKTeacher:
    r"""The best k classes of each row of a teacher, as they are stored for distillation.

    .. math:: \log p_j = s_j - \mathrm{lse} \quad\text{(stored)}, \qquad
              \log p_j = t = \min\Bigl(\log\frac{1 - \sum_i p_i}{V - k}, m\Bigr)
              \quad\text{(all others)}

    Here m is what no class left out exceeds (:attr:`ceiling`). A loss on it is exact where :meth:`is_exact` says so,
    with a scaling that is 0 for all classes that are not stored. Stored classes are put in ascending
    order; make the object once, not in every step.

    It has the length and the indices of its rows: ``teacher[3]``, ``teacher[mask]``, ``teacher[:, -1]``. Rows of one
    shape are put together again by a ``DataLoader`` of PyTorch, also from other processes and in pinned memory.

    Parameters
    ----------
    indices : array of integers
        The stored classes of each row, k on the last axis, each of them once. A tensor or a NumPy array.
    scores : array
        Their scores (raw logits), of the shape of ``indices``; -inf is taken as -1e4.
    log_sum_exp : array
        The log-sum-exp of all scores of a row, with one axis less.
    classes : int
        The number of all classes (the size of the vocabulary), >= k.

    Examples
    --------
    >>> teacher = TopKTeacher.from_scores(np.log([[0.5, 0.1, 0.3, 0.1]]), k=2)
    >>> teacher.indices
    array([[0, 2]])
    >>> np.exp(teacher.dense()).round(12)
    array([[0.5, 0.1, 0.3, 0.1]])
    >>> len(teacher), teacher[0]
    (1, TopKTeacher(2 of 4 classes, rows ()))
    """

    indices: Any
    scores: Any
    log_sum_exp: Any
    classes: int
    #: log-probabilities of the stored classes and of the others, their limit, and indices as kernels take them
    _known: Any = field(init=False, repr=False)
    _tail: Any = field(init=False, repr=False)
    _ceiling: Any = field(init=False, repr=False)
    _narrow: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_kinds(self.indices, self.scores, self.log_sum_exp)
        _check_shapes(self.indices, self.scores, self.log_sum_exp, self.classes)
        indices, scores = _sorted(self.indices, self.scores)
        _check_values(indices, self.classes)
        level = self.log_sum_exp.detach() if _is_tensor(self.log_sum_exp) else self.log_sum_exp
        _check_total(*self._keep(indices, without_infinities(scores), level, int(self.classes)))

    def _keep(self, indices: Any, scores: Any, level: Any, classes: int) -> tuple[Any, Any]:
        """Store what was given, and what every loss needs of it: computed once, not in every step.

        Gives the probability that is left for classes that are not stored, and its rounding.
        """
        known = _wide(scores) - _wide(level)[..., None]
        kept = {"indices": indices, "scores": scores, "log_sum_exp": level, "classes": classes, "_known": known}
        left, rounding = 1.0 - _space(known).exp(_double(known)).sum(-1), _rounding(scores, level)
        kept["_ceiling"] = _ceiling(known, left, rounding)
        kept["_tail"] = _tail(known, left, kept["_ceiling"], classes)
        kept["_narrow"] = indices.int() if _is_tensor(indices) and classes < 1 << 31 else indices
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        _announce()
        return left, rounding

    @property
    def _stored(self) -> tuple[Any, Any, Any]:
        return self.indices, self.scores, self.log_sum_exp

    def _with(self, indices: Any, scores: Any, level: Any) -> TopKTeacher:
        """A teacher of other arrays, whose values need no check."""
        made = object.__new__(TopKTeacher)
        made._keep(indices, scores, level, self.classes)
        return made

    def __repr__(self) -> str:
        return f"TopKTeacher({self.k} of {self.classes} classes, rows {tuple(self.log_sum_exp.shape)})"

    @classmethod
    def from_scores(cls, scores: Any, k: int) -> TopKTeacher:
        """The best k classes of rows of scores (raw logits, classes on the last axis)."""
        if not _is_tensor(scores) and not isinstance(scores, np.ndarray):
            raise TypeError(f"TopKTeacher: scores must be a tensor or a NumPy array, got {type(scores).__name__}.")
        classes = scores.shape[-1] if scores.ndim else 0
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= classes:
            raise ValueError(f"TopKTeacher: k must be a whole number from 1 to {classes} (the classes), got {k!r}.")
        if not isinstance(scores, np.ndarray):
            scores = scores.detach()
            best, indices = scores.topk(int(k), dim=-1, sorted=False)
            # the log-sum-exp is that of these very numbers: wide, they allow for no rounding
            return cls(indices, _wide(best), _log_sum_exp(scores), classes)
        rows = scores.reshape(-1, classes)
        parts = [_best_of(rows[at], int(k)) for at in _slices(len(rows), classes)]
        indices, best, level = map(np.concatenate, zip(*parts, strict=True))
        shape = scores.shape[:-1]
        return cls(indices.reshape(*shape, k), best.reshape(*shape, k), level.reshape(shape), classes)

    @property
    def k(self) -> int:
        """How many classes are stored."""
        return self.indices.shape[-1]

    @property
    def log_probabilities(self) -> Any:
        """Those of the stored classes, at least in single precision."""
        return self._known

    @property
    def tail(self) -> Any:
        """The log-probability t of each class that is not stored, finite also where nothing is left for them."""
        return self._tail

    @property
    def ceiling(self) -> Any:
        """What the log-probability of no class left out exceeds, if the stored ones are the best: that of the least
        stored one, or of all that is left together, whichever is lower. Allows for the rounding of stored numbers.
        """
        return self._ceiling

    @property
    def rounding(self) -> Any:
        """By how much the sum of the stored probabilities, which is at most 1, may be off."""
        return _rounding(self.scores, self.log_sum_exp)

    def dense(self) -> Any:
        """The log-probabilities of all classes: what the stored numbers mean."""
        return dense_rows(self.indices, self._known, self._tail, self.classes)

    def is_exact(self, loss: Any) -> Any:
        """For each row: whether the loss is that of the full teacher, if the stored classes are its best ones.

        That is for log-probabilities: less the teacher's maximum, scores have another cut-off.

        Parameters
        ----------
        loss : MatchingLoss, CompositeSoftmax or Curve
            What the teacher is for; a curve is a scaling.
        """
        cut = exact_below(loss)
        return (self.ceiling <= (-math.inf if cut is None else cut)) | (self.classes == self.k)

    def __len__(self) -> int:
        """The number of rows, along the first of their axes."""
        if self.log_sum_exp.ndim == 0:
            raise TypeError("TopKTeacher: rows must have an axis to be counted, got a single row.")
        return len(self.log_sum_exp)

    def __getitem__(self, key: Any) -> TopKTeacher:
        """Some of the rows: whatever indexes the log-sum-exps, also masks and arrays of indices."""
        level = self.log_sum_exp[key]  # fails for the axis of the stored classes, which is none of rows
        every = (*key, slice(None)) if isinstance(key, tuple) else (key, slice(None))
        return self._with(self.indices[every], self.scores[every], level)

    def __eq__(self, other: object) -> bool:
        """Whether the same numbers are stored, in one library and on one device."""
        if not isinstance(other, TopKTeacher):
            return NotImplemented
        return self.classes == other.classes and all(map(_equal, self._stored, other._stored))

    __hash__ = None  # type: ignore[assignment]

    def to(self, device: Any, *, non_blocking: bool = False) -> TopKTeacher:
        """The teacher on another device of PyTorch."""
        if not _is_tensor(self.indices):
            raise TypeError(
                "TopKTeacher: to(device) is for tensors, got NumPy arrays. Use torch.from_numpy(...) first."
            )
        return self._with(*(x.to(device, non_blocking=non_blocking) for x in self._stored))

    def pin_memory(self) -> TopKTeacher:
        """The teacher in memory from which GPUs copy quickly, for a ``DataLoader``."""
        if not _is_tensor(self.indices):
            raise TypeError("TopKTeacher: pin_memory() is for tensors, got NumPy arrays. A DataLoader makes tensors.")
        return self._with(*(x.pin_memory() for x in self._stored))


def _equal(x: Any, y: Any) -> bool:
    if _is_tensor(x) != _is_tensor(y) or x.shape != y.shape or x.dtype != y.dtype:
        return False
    if not _is_tensor(x):
        return bool(np.array_equal(x, y))
    return x.device == y.device and bool((x == y).all())


_announced: set[str] = set()


def _announce() -> None:
    """Tell PyTorch how teachers are put together to a batch, once it is loaded."""
    if _announced or "torch.utils.data" not in sys.modules:
        return
    from torch.utils.data._utils.collate import default_collate_fn_map

    _announced.add("torch")
    default_collate_fn_map[TopKTeacher] = _batch_of


def _batch_of(teachers: Sequence[TopKTeacher], **_options: Any) -> TopKTeacher:
    """Teachers of equal shapes as one, of tensors, with a new first axis: what a ``DataLoader`` does with a batch."""
    from torch.utils.data import default_collate

    kinds = sorted({(tuple(each.log_sum_exp.shape), each.k, each.classes) for each in teachers})
    if len(kinds) > 1:
        listed = " and ".join(f"{k} of {classes} classes, rows {rows}" for rows, k, classes in kinds[:2])
        raise ValueError(
            f"TopKTeacher: teachers of a batch must have one shape, got {listed}. For texts of different lengths: "
            "selmatch.trl.TeacherCollator."
        )
    columns = zip(*(each._stored for each in teachers), strict=True)
    return teachers[0]._with(*(default_collate(list(column)) for column in columns))


def dense_rows(indices: Any, known: Any, tail: Any, classes: int) -> Any:
    """Rows of numbers, known for some classes, and the same (``tail``) for all others of a row."""
    shape = (*tail.shape, classes)
    if _is_tensor(indices):
        return tail[..., None].expand(shape).scatter(-1, indices.long(), known)
    dense = np.broadcast_to(tail[..., None], shape).copy()
    np.put_along_axis(dense, indices, known, axis=-1)
    return dense


def exact_below(loss: Any) -> float | None:
    """The score below which a scaling is 0, so that classes count by their number only; None if there is none.

    Parameters
    ----------
    loss : MatchingLoss, CompositeSoftmax or Curve
        A curve is a scaling.

    Examples
    --------
    >>> exact_below(SmeLU(c=2.0).affine(beta=-7.0))
    -9.0
    >>> exact_below(Exp()) is None
    True
    """
    scaling = loss.potential if isinstance(loss, MatchingLoss) else loss
    scaling = scaling.scaling if isinstance(scaling, CompositeSoftmax) else scaling
    if not isinstance(scaling, Curve):
        raise TypeError(f"exact_below: expected a composite Softmax loss or a scaling, got {type(loss).__name__}.")
    for part in scaling.flat_regions():
        if part.low <= scaling.domain.low and scaling(part.point()) == 0.0:
            return float(part.high)
    return None


# ------------------------------------------------------------------------------------------------- tensors and arrays


def _is_tensor(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch" or hasattr(x, "untyped_storage")


def _space(x: Any) -> Any:
    if _is_tensor(x):
        import torch

        return torch
    return np


def _wide(x: Any) -> Any:
    """x at least in single precision."""
    if _is_tensor(x):
        return x if x.dtype.itemsize >= 4 else x.float()
    return x if x.dtype.itemsize >= 4 else x.astype(np.float32)


def _tail(known: Any, left: Any, ceiling: Any, classes: int) -> Any:
    """The log-probability of a class that is not stored."""
    share = _at_least(left, _LEAST) / max(classes - known.shape[-1], 1)
    t = _lesser(_space(share).log(share), ceiling)
    return t.to(known.dtype) if _is_tensor(t) else t.astype(known.dtype)


def _ceiling(known: Any, left: Any, rounding: Any) -> Any:
    """What classes that are not stored do not exceed: the least stored one, and all of them together."""
    least = _double(known).amin(-1) if _is_tensor(known) else _double(known).min(-1)
    return _lesser(least + rounding.clip(0.0, 1.0), _space(left).log(_at_least(left, 0.0) + rounding))


def _rounding(scores: Any, level: Any) -> Any:
    """The relative error of probabilities that comes from the rounding of scores and of their log-sum-exp."""
    sizes = scores.abs().amax(-1) if _is_tensor(scores) else np.abs(scores).max(-1)
    return _precision(scores) * _double(sizes) + _precision(level) * (_double(abs(level)) + 1.0)


def _lesser(a: Any, b: Any) -> Any:
    return _space(a).minimum(a, b)


def _at_least(x: Any, low: float) -> Any:
    return x.clamp(min=low) if _is_tensor(x) else np.maximum(x, low)


def _double(x: Any) -> Any:
    return x.double() if _is_tensor(x) else x.astype(np.float64)


def _precision(x: Any) -> float:
    """The distance of 1 to the next number."""
    return float(_space(x).finfo(x.dtype).eps)


def _slices(rows: int, classes: int) -> list[slice]:
    """All rows, a few at once; one slice also where there are none."""
    step = max(1, _CHUNK // classes)
    return [slice(start, start + step) for start in range(0, max(rows, 1), step)]


def _best_of(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best k classes of rows of an array, their scores at least in single precision, and the log-sum-exps."""
    indices = np.argpartition(rows, rows.shape[-1] - k, axis=-1)[..., rows.shape[-1] - k :]
    wide = rows.astype(np.float64)
    top = wide.max(axis=-1)
    level = top + np.log(np.exp(wide - top[..., None]).sum(axis=-1))
    return indices, _wide(np.take_along_axis(rows, indices, axis=-1)), level


def _log_sum_exp(scores: Any) -> Any:
    """Of the rows of a tensor in single precision, a few rows at once."""
    if scores.dtype.itemsize >= 4 or scores.numel() <= _CHUNK:
        return _wide(scores).logsumexp(-1)
    rows = scores.reshape(-1, scores.shape[-1])
    parts = [rows[at].float().logsumexp(-1) for at in _slices(*rows.shape)]
    return _space(scores).cat(parts).reshape(scores.shape[:-1])


def _sorted(indices: Any, scores: Any) -> tuple[Any, Any]:
    if _is_tensor(indices):
        indices, order = indices.detach().sort(dim=-1)
        return indices, scores.detach().gather(-1, order)
    order = np.argsort(indices, axis=-1, kind="stable")
    return np.take_along_axis(indices, order, axis=-1), np.take_along_axis(scores, order, axis=-1)


def _check_kinds(*arrays: Any) -> None:
    tensors = [_is_tensor(z) for z in arrays]
    if not all(tensors) and not all(isinstance(z, np.ndarray | np.generic) for z in arrays):
        kinds = ", ".join(type(z).__name__ for z in arrays)
        raise TypeError(
            f"TopKTeacher: indices, scores and log_sum_exp must all be tensors or all NumPy arrays, got {kinds}."
        )
    whole, *numbers = arrays
    if not _is_whole(whole):
        raise TypeError(f"TopKTeacher: indices must be int32 or int64, got {whole.dtype}.")
    for name, z in zip(("scores", "log_sum_exp"), numbers, strict=True):
        real = z.is_floating_point() if tensors[0] else z.dtype.kind == "f"
        if not real:
            raise TypeError(f"TopKTeacher: {name} must be floating-point, got {z.dtype}.")


def _is_whole(indices: Any) -> bool:
    return str(indices.dtype).removeprefix("torch.") in ("int32", "int64")


def _check_shapes(indices: Any, scores: Any, level: Any, classes: Any) -> None:
    k = indices.shape[-1] if indices.ndim else 0
    if k < 1:
        raise ValueError(f"TopKTeacher: indices must have k >= 1 classes on the last axis, got {tuple(indices.shape)}.")
    for name, z, shape in (("scores", scores, indices.shape), ("log_sum_exp", level, indices.shape[:-1])):
        if tuple(z.shape) != tuple(shape):
            raise ValueError(
                f"TopKTeacher: {name} must have shape {tuple(shape)} for indices of shape {tuple(indices.shape)}, "
                f"got {tuple(z.shape)}."
            )
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes < k:
        raise ValueError(f"TopKTeacher: classes must be a whole number >= {k} (the stored ones), got {classes!r}.")


def _visible(x: Any) -> np.ndarray | None:
    """Numbers that can be looked at without waiting for a device, or stopping a trace."""
    if not _is_tensor(x):
        return np.asarray(x)
    import torch

    hidden = x.device.type != "cpu" or torch.compiler.is_compiling() or type(x) is not torch.Tensor
    return None if hidden else x.numpy()


def _check_values(indices: Any, classes: int) -> None:
    indices = _visible(indices)
    if indices is None or indices.size == 0:
        return
    outside = (indices < 0) | (indices >= classes)
    if outside.any():
        got = f"{int(indices[outside][0])} in {_first_row(outside.any(-1))}"
        raise ValueError(f"TopKTeacher: indices must be from 0 to {classes - 1}, got {got}.")
    again = indices[..., 1:] == indices[..., :-1]
    if again.any():
        twice = int(indices[..., 1:][again][0])
        raise ValueError(
            f"TopKTeacher: indices must differ within a row, got {twice} twice in {_first_row(again.any(-1))}."
        )


def _check_total(left: Any, rounding: Any) -> None:
    """No row may have stored more than the whole probability."""
    left, rounding = _visible(left), _visible(rounding)
    if left is None or rounding is None:
        return
    excess = left < -MOST_EXCESS - rounding
    if excess.any():
        raise ValueError(
            f"TopKTeacher: the stored probabilities must add up to at most 1, got {1.0 - left[excess][0]:.4g} in "
            f"{_first_row(excess)}. Is log_sum_exp that of the same scores, over all classes?"
        )


def _first_row(bad: Any) -> str:
    """The first row that is marked, in words."""
    place = tuple(int(i) for i in np.argwhere(np.atleast_1d(bad))[0])
    return f"row {place[0] if len(place) == 1 else place}"


_announce()
