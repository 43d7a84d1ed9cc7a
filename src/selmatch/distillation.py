"""Losses of students for teachers: logits against logits, or against the teacher's best classes only.

Logits are only defined up to a shift, and a composite Softmax is not blind to it: both sides are made comparable first.
:func:`fitted` chooses a loss from the teacher's first batch; :func:`forward_kl`, :func:`reverse_kl` and
:func:`jensen_shannon` are what others use, to compare with.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from selmatch.algebra import require_curve
from selmatch.arrays.namespaces import NumPy
from selmatch.batch import converted, mask_of_rows
from selmatch.canonical import comparable, constant, log_probabilities, require_canonical, without_infinities
from selmatch.composite import CompositeSoftmax
from selmatch.curve import Curve
from selmatch.curves import SmeLU
from selmatch.functions import exp, expm1, fold, minimum, namespace_of, row_sum, softplus
from selmatch.functions import where as choose
from selmatch.losses import Loss, MatchingLoss, potential_of
from selmatch.parameters import has_plain_numbers, number
from selmatch.sparse_teachers import TopKTeacher, exact_below

__all__ = [
    "Fitted",
    "TopKTeacher",
    "clipped_share",
    "distillation_loss",
    "fitted",
    "forward_kl",
    "jensen_shannon",
    "reverse_kl",
    "truncation_bound",
]

Array = Any

_log = logging.getLogger(__name__)


# ------------------------------------------------------------------------------------------------------- the losses


def distillation_loss(
    student: Any,
    teacher: Any,
    loss: Any,
    *,
    canonicalise: str | None = "log_probabilities",
    temperature: float = 1.0,
    where: Any = None,
    weights: Any = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> Any:
    """The selective loss of a student's logits for a teacher's, through which no gradient flows.

    Parameters
    ----------
    student : array
        Logits, classes on the last axis; of NumPy, PyTorch (kernels run where there are some) or JAX. Those of -inf are
        taken as -1e4, which rules the class out, but not on GPUs outside of compiled code: clamp them there. Others
        that are not finite are an error that names the row, or NaN where values cannot be looked at.
    teacher : array or TopKTeacher
        Logits of the same shape, or the best classes of each row.
    loss : MatchingLoss, CompositeSoftmax or Curve
        What a move of the scores costs; a curve is the scaling of a composite Softmax.
    canonicalise : {"log_probabilities", "teacher_maximum", None}
        How logits, which are only defined up to a shift, become scores: as logarithms of probabilities; or less the
        score of the class that the teacher likes best, on both sides (the mean, if several are best); None takes them
        as they are. The loss is convex in the scores. With the last two, scores are linear in the student's logits, so
        that it is convex in these too; log-probabilities are not, and with them it need not be: ask
        ``certify.convex(loss, canonicalise="log_probabilities")``.
    temperature : float
        Divides both logits, > 0. The loss is not multiplied by its square.
    where : boolean array, optional
        Of the shape of the rows (tokens), with or without an axis of length 1 for the classes. False entries are
        ignored, even NaN.
    weights : array, optional
        Weights of the rows, not negative.
    reduction : {"mean", "sum", "none"}
        The mean is sum(w L) / sum(w) over the rows that count, 0 when there are none.
    num_items : number, optional
        Replaces the denominator of the mean: the tokens of all accumulated batches and all devices.

    Returns
    -------
    array or number
        As for :class:`MatchingLoss`.

    Examples
    --------
    >>> from selmatch.distillation import distillation_loss
    >>> student, teacher = np.array([[2.0, 1.0, 0.0]]), np.array([[3.0, 1.0, -4.0]])
    >>> clipping = CompositeSoftmax(SmeLU(c=1.0).affine(beta=-3.0))
    >>> float(distillation_loss(student, teacher, clipping))
    0.11340...
    >>> float(distillation_loss(student + 5.0, teacher - 5.0, clipping))
    0.11340...
    """
    who = "distillation_loss"
    loss = loss_of_classes(who, loss)
    require_canonical(who, canonicalise)
    given = _given(who, student, teacher, temperature, where)
    options = {"weights": weights, "reduction": reduction, "num_items": num_items}
    if canonicalise == "log_probabilities":
        return _of_log_probabilities(loss, given, **options)
    if isinstance(given.teacher, TopKTeacher) and canonicalise is None:
        raise ValueError(
            f"{who}: canonicalise must not be None for a TopKTeacher, got None. It holds log-probabilities: "
            "leave canonicalise out."
        )
    return given.finished(_evaluated(loss, *_canonical(given, canonicalise), given, **options), reduction)


def forward_kl(
    student: Any,
    teacher: Any,
    *,
    temperature: float = 1.0,
    where: Any = None,
    weights: Any = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> Any:
    """The Kullback-Leibler divergence of the student from the teacher: the usual loss of distillation.

    It is the matching loss of the standard Softmax: ``distillation_loss`` with ``CompositeSoftmax()``, by a shorter
    way. Parameters are those of :func:`distillation_loss`; a TopKTeacher is taken as its :meth:`~TopKTeacher.dense`
    rows.

    Examples
    --------
    >>> from selmatch.distillation import forward_kl
    >>> float(forward_kl(np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])))
    0.36806...
    """
    given = _given("forward_kl", student, teacher, temperature, where)
    options = {"weights": weights, "reduction": reduction, "num_items": num_items}
    if _has_kernels(given.student):
        return _of_log_probabilities(_SOFTMAX, given, **options)
    return given.finished(_KL(*_canonical(given), where=given.where, **options), reduction)


def reverse_kl(
    student: Any,
    teacher: Any,
    *,
    temperature: float = 1.0,
    where: Any = None,
    weights: Any = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> Any:
    """The Kullback-Leibler divergence of the teacher from the student: it follows the teacher's best classes.

    The matching loss of the standard Softmax with the roles exchanged, which is not convex in the student's logits.
    Parameters are those of :func:`distillation_loss`; a TopKTeacher is taken as its :meth:`~TopKTeacher.dense` rows.

    Examples
    --------
    >>> from selmatch.distillation import reverse_kl
    >>> float(reverse_kl(np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])))
    0.51082...
    """
    given = _given("reverse_kl", student, teacher, temperature, where)
    s_hat, s = _canonical(given)
    options = {"weights": weights, "reduction": reduction, "num_items": num_items}
    return given.finished(_KL(s, s_hat, where=given.where, **options), reduction)


def jensen_shannon(
    student: Any,
    teacher: Any,
    *,
    weight: float = 0.5,
    temperature: float = 1.0,
    where: Any = None,
    weights: Any = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> Any:
    r"""The generalised Jensen-Shannon divergence, between the two Kullback-Leibler divergences.

    .. math:: w\,\mathrm{KL}(p_t \| m) + (1 - w)\,\mathrm{KL}(p_s \| m), \qquad m = w\,p_t + (1 - w)\,p_s

    As TRL and the paper on generalised knowledge distillation have it, weight 0 stands for :func:`forward_kl` and 1
    for :func:`reverse_kl`, although the formula is 0 there. Other parameters are those of :func:`distillation_loss`.

    Parameters
    ----------
    weight : float
        The teacher's weight w in the mixture, from 0 to 1.

    Examples
    --------
    >>> from selmatch.distillation import jensen_shannon
    >>> float(jensen_shannon(np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])))
    0.10174...
    """
    who = "jensen_shannon"
    weight = number(who, "weight", weight, at_least=0.0)
    if weight > 1.0:
        raise ValueError(f"{who}: weight must be <= 1, got {weight}.")
    options = {"weights": weights, "reduction": reduction, "num_items": num_items}
    if weight in (0.0, 1.0):
        one_sided = reverse_kl if weight else forward_kl
        return one_sided(student, teacher, temperature=temperature, where=where, **options)
    given = _given(who, student, teacher, temperature, where)
    s_hat, s = _canonical(given)
    mixture = _log_sum(s_hat + math.log1p(-weight), s + math.log(weight))
    taught = _KL(mixture, s, where=given.where, **options)
    known = _KL(mixture, s_hat, where=given.where, **options)
    return given.finished(weight * taught + (1.0 - weight) * known, reduction)


class KullbackLeibler(Loss):
    """The Kullback-Leibler divergence of log-probabilities, with derivatives with respect to both of them.

    Both sides add up to 1, so that it is the sum of ``p (e^u - 1 - u)`` with u = log q - log p. Unlike ``-p u`` no such
    term is negative, and rounding of the log-probabilities does no harm where both sides are close.
    """

    vector = True

    def _rows(self, x, u, xh, present):
        p = exp(x)
        terms = choose(u < 1.0, p * (expm1(minimum(u, 1.0)) - u), exp(xh) - p * (1.0 + u))  # e^u may overflow
        return row_sum(terms if present is None else choose(present, terms, 0.0))[..., 0]


_KL = KullbackLeibler()
#: whose matching loss is the same divergence
_SOFTMAX = MatchingLoss(CompositeSoftmax())


def _log_sum(a: Array, b: Array) -> Array:
    """log(e^a + e^b), with the right derivatives also where both are equal."""
    return choose(a > b, a, b) + softplus(fold(a - b))


# --------------------------------------------------------------------------------------------- what the user passes


class _Given(NamedTuple):
    """Checked logits at one temperature, their library, and which rows count (with an axis for the classes)."""

    student: Array
    teacher: Any
    where: Array
    space: Any
    like: Array

    def finished(self, value: Array, reduction: str) -> Array:
        """Losses of rows have the dtype of the student's logits."""
        return self.space.cast(value, self.like) if reduction == "none" else value


def loss_of_classes(who: str, loss: Any) -> MatchingLoss:
    """A loss of many classes; a curve is the scaling of one."""
    potential = potential_of(who, loss)
    if isinstance(loss, Curve):
        return MatchingLoss(CompositeSoftmax(loss))
    loss = loss if isinstance(loss, MatchingLoss) else MatchingLoss(potential)
    if not loss.vector:
        raise TypeError(f"{who}: loss must be one of many classes, got {loss!r}. Try CompositeSoftmax(scaling).")
    return loss


def _given(who: str, student: Any, teacher: Any, temperature: Any, where: Any) -> _Given:
    temperature = number(who, "temperature", temperature, above=0.0)
    like = student = _logits(who, "student", student)
    space = namespace_of(student)
    shape = tuple(student.shape)
    if not shape or shape[-1] == 0:
        raise ValueError(f"{who}: student must have its classes on the last axis, got shape {shape}.")
    stored = isinstance(teacher, TopKTeacher)
    known = teacher.log_probabilities if isinstance(teacher, TopKTeacher) else _logits(who, "teacher", teacher)
    _require_one_library(who, space, known)
    expected = (*known.shape[:-1], teacher.classes) if isinstance(teacher, TopKTeacher) else tuple(known.shape)
    if shape != expected:
        remedy = _remedy(shape, expected, stored)
        raise ValueError(f"{who}: student and teacher must have one shape, got {shape} and {expected}.{remedy}")
    rows = _row_mask(who, where, shape[:-1])
    if rows is not None:
        if isinstance(where, (bool, list, tuple)) and space.name == "PyTorch":  # lists belong to no library
            rows = student.new_tensor(rows).bool()
        _require_one_library(who, space, rows, "where")
        rows = space.adopt(rows) if space.name == "JAX" else rows
    student = _ruled_out(who, "student", student, rows)
    known = _ruled_out(who, "teacher", known, rows)
    if space.name == "JAX" and not stored:
        known = space.adopt(known)
    teacher = teacher if stored else constant(known)
    if temperature != 1.0:
        if stored:
            raise ValueError(
                f"{who}: temperature must be 1 for a TopKTeacher, whose log-sum-exp belongs to one temperature, got "
                f"{temperature}. Make it with TopKTeacher.from_scores(scores / {temperature:g}, k), and divide the "
                "student."
            )
        student, teacher = space.widen(student) / temperature, space.widen(teacher) / temperature
    return _Given(student, teacher, None if rows is None else rows[..., None], space, like)


def _remedy(student: tuple[int, ...], teacher: tuple[int, ...], stored: bool) -> str:
    """What to do about class indices, and about vocabularies of which one is padded."""
    if teacher == student[:-1]:
        return " For class indices: loss.label_loss(log_probabilities(student), labels)."
    if student[:-1] == teacher[:-1]:
        name = "student" if student[-1] > teacher[-1] else "TopKTeacher.from_scores of scores" if stored else "teacher"
        return f" Columns that pad a vocabulary are no classes: {name}[..., :{min(student[-1], teacher[-1])}]."
    return ""


def _logits(who: str, name: str, x: Any) -> Array:
    """An array of floating point numbers; lists, data frames and whole numbers of NumPy become one."""
    if isinstance(x, (list, tuple, np.ndarray)) or hasattr(x, "to_numpy"):
        x = converted(who, name, x)
    try:
        space = namespace_of(x)
    except TypeError:
        raise TypeError(f"{who}: {name} must be an array of logits, got {type(x).__name__}.") from None
    if not hasattr(x, "shape"):
        raise TypeError(f"{who}: {name} must be an array of logits, got {x!r}.")
    if space.is_floating(x):
        return x
    if space is NumPy and x.dtype.kind in "iu":
        return x.astype(np.float64)
    labels = " For class indices: loss.label_loss(log_probabilities(student), labels)." if name == "teacher" else ""
    raise TypeError(f"{who}: {name} must be floating point, got dtype {x.dtype}.{labels}")


def _require_one_library(who: str, space: Any, x: Array, name: str = "teacher") -> None:
    other = namespace_of(x)
    if other is not space and not (space.name == "JAX" and other is NumPy):  # JAX users mix them freely
        raise TypeError(
            f"{who}: student and {name} must come from one library, got {space.name} and {other.name}. "
            "Convert one of them."
        )


def _row_mask(who: str, where: Any, rows: tuple[int, ...]) -> Array:
    if where is None:
        return None
    mask = np.asarray(where) if isinstance(where, (bool, list, tuple)) else where
    if "bool" not in str(getattr(mask, "dtype", "")):
        kind = getattr(mask, "dtype", type(mask).__name__)
        raise TypeError(f"{who}: where must be boolean, got {kind}. Try mask != 0.")
    mask = mask_of_rows(mask, rows)
    if tuple(mask.shape) != rows:
        raise ValueError(f"{who}: where must have the shape of the rows {rows}, got {tuple(mask.shape)}.")
    return mask


def _ruled_out(who: str, name: str, x: Array, rows: Array) -> Array:
    """Logits with a low number for -inf; others that are not finite are an error, where values can be looked at.

    One pass tells whether there is one; only then rows are looked at. On GPUs logits are taken as they are: a copy
    would double their memory.
    """
    space = namespace_of(x)
    finite = _visibly_finite(x, space)
    if finite or (finite is None and _has_kernels(x)):
        return x
    if finite is False:
        _require_finite_or_low(who, name, _as_numpy(x), None if rows is None else _as_numpy(rows))
    return without_infinities(x)


def _require_finite_or_low(who: str, name: str, x: np.ndarray, rows: np.ndarray | None) -> None:
    bad = ~np.isfinite(x) & (x != -math.inf)
    empty = (x == -math.inf).all(axis=-1)
    bad[..., 0] |= empty
    if rows is not None:
        bad &= rows[..., None]
    if not bad.any():
        return
    *row, place = (int(i) for i in np.argwhere(bad)[0])
    named = tuple(row) if len(row) > 1 else row[0] if row else 0
    if empty[tuple(row)]:
        raise ValueError(
            f"{who}: the {name}'s logits must leave a class, got only -inf in row {named}. Mask the row with where."
        )
    raise ValueError(
        f"{who}: the {name}'s logits must be finite, or -inf for a class that is ruled out, got {x[(*row, place)]} in "
        f"row {named}. Mask the row with where."
    )


def _visibly_finite(x: Array, space: Any) -> bool | None:
    """Whether all numbers are; None where looking at them would wait for a device, or stop a trace."""
    if space.name == "PyTorch":
        import torch

        if torch.compiler.is_compiling() or x.device.type != "cpu":
            return None
        try:
            ends = torch.aminmax(x.detach())
            return math.isfinite(ends.min) and math.isfinite(ends.max)
        except RuntimeError:  # inside torch.func, or no numbers at all
            return None
    if space.name == "JAX":
        from jax.core import Tracer

        if isinstance(x, Tracer) or any(device.platform != "cpu" for device in x.devices()):
            return None
    if x.size == 0:
        return True
    with np.errstate(all="ignore"):
        return math.isfinite(x.min()) and math.isfinite(x.max())


# ---------------------------------------------------------------------------------------- scores that can be compared


def _canonical(given: _Given, how: str | None = "log_probabilities") -> tuple[Array, Array]:
    """Scores of student and teacher; those of rows that do not count are 0, so that they do no harm."""
    student, teacher = given.space.widen(given.student), given.teacher
    stored = isinstance(teacher, TopKTeacher)
    teacher = teacher.dense() if isinstance(teacher, TopKTeacher) else teacher
    if given.space.name == "JAX":
        teacher = given.space.adopt(teacher)
    teacher = namespace_of(teacher).widen(teacher)
    if given.where is not None:
        student, teacher = choose(given.where, student, 0.0), choose(given.where, teacher, 0.0)
    if stored and how == "log_probabilities":
        return log_probabilities(student), teacher
    return comparable(student, teacher, how)


# --------------------------------------------------------------------------------------------- the front ends' losses


def _of_log_probabilities(loss: MatchingLoss, given: _Given, *, reduction: str, **options: Any) -> Array:
    """The loss of log-probabilities; PyTorch's front end makes them, with kernels on the way."""
    if given.space.name == "PyTorch":
        logits = given.student, given.teacher, given.where
        value = _with_torch(loss, *logits, canonicalise=True, reduction=reduction, **options)
    else:
        value = _evaluated(loss, *_canonical(given), given, reduction=reduction, **options)
    return given.finished(value, reduction)


def _evaluated(loss: MatchingLoss, s_hat: Array, s: Array, given: _Given, **options: Any) -> Array:
    """The loss of comparable scores by the front end of their library."""
    if given.space.name == "PyTorch":
        return _with_torch(loss, s_hat, s, given.where, canonicalise=False, **options)
    if given.space.name == "JAX":
        from selmatch.jax import matching_loss

        return matching_loss(s_hat, s, loss, where=given.where, **options)
    return loss(s_hat, s, where=given.where, **options)


def _with_torch(loss: MatchingLoss, s_hat: Array, s: Any, where: Array, *, canonicalise: bool, **options: Any) -> Array:
    from selmatch.torch import matching_loss

    if _has_kernels(s_hat) and has_plain_numbers(loss):
        return _module(loss, canonicalise, s_hat.device)(s_hat, s, where=where, **options)
    return matching_loss(s_hat, s, loss, where=where, canonicalise=canonicalise, **options)


def _has_kernels(student: Array) -> bool:
    """Whether kernels may run: they belong to modules, and what is compiled fuses the formulas by itself."""
    if not getattr(student, "is_cuda", False):
        return False
    import torch

    return not torch.compiler.is_compiling()


@functools.lru_cache(32)
def _module(loss: MatchingLoss, canonicalise: bool, device: Any) -> Any:
    from selmatch.torch import MatchingLoss as Module

    return Module(loss, canonicalise=canonicalise).to(device)


# ---------------------------------------------------------------------------------------- a loss that fits the teacher


class Fitted(NamedTuple):
    """A loss chosen from a teacher's batch, and the share of its probabilities that clipped classes hold there."""

    loss: MatchingLoss
    share: float


def fitted(
    teacher: Any, scaling: Curve | None = None, *, share: float = 0.1, exact: bool = False, where: Any = None
) -> Fitted:
    r"""A loss for a teacher: the one to start with, from the first batch.

    A :class:`SmeLU` for log-probabilities that is 0 below a cut-off, rises over two units (a factor of seven in
    probability) and is 1 from there on, with gamma = 1. Classes below the cut-off are all alike, but each keeps its
    weight in the Softmax. For V classes the cut-off is

    .. math:: \log\frac{a}{V} - 1, \qquad a = \frac{\mathrm{share}}{1 - (1 - 1/e)\,\mathrm{share}}

    (rounded down to 1/128), which is so low that clipped classes never hold more than ``share`` of the composite
    probabilities: not in any row of any teacher. With 0.1, a class is ignored if the teacher finds it 25 times less
    likely than a blind guess, and the loss is close to :func:`forward_kl`. With a larger share it selects more.

    Gamma is chosen where the cut-off is given: with a scaling, or with ``exact``. It is then the largest one up to 1
    with which clipped classes hold at most ``share`` on average over the rows of the batch. (The share of a row is
    ``n / (n + sum e^((Q(z) - Q(cut-off)) / gamma))`` with n clipped classes and the sum over all others, where Q is
    higher: it grows with gamma.) A small gamma sharpens the teacher as a low temperature does; a warning is logged.

    Parameters
    ----------
    teacher : array or TopKTeacher
        Logits of a batch (NumPy, PyTorch or JAX), classes on the last axis, at the temperature of the training.
    scaling : Curve, optional
        The scaling to find gamma for; gamma is 1 if it clips nothing.
    share : float
        Above 0 and below 1: how much the loss may ignore.
    exact : bool
        For a :class:`TopKTeacher`: whether the cut-off rises to the highest score that a class left out may have in
        this batch, so that the loss is that of the full teacher (:meth:`~TopKTeacher.is_exact`). It has its price if
        few classes are stored: what lies between is ignored, and gamma falls. Full teachers are exact anyway.
    where : boolean array, optional
        The rows that count.

    Returns
    -------
    Fitted
        ``loss`` and ``share``, the share that was reached: log it, and see what it becomes with
        :func:`clipped_share`. Of a TopKTeacher it is the share of its :meth:`~TopKTeacher.dense` rows.

    Examples
    --------
    >>> from selmatch.distillation import fitted
    >>> teacher = 3.0 * np.random.default_rng(0).normal(size=(64, 5000))
    >>> loss, share = fitted(teacher)
    >>> loss
    MatchingLoss(CompositeSoftmax(SmeLU(c=1.0).affine(beta=-10.7578125)))
    >>> round(share, 3)
    0.065
    """
    who = "fitted"
    share = number(who, "share", share, above=0.0)
    if share >= 1.0:
        raise ValueError(f"{who}: share must be < 1, got {share}.")
    if scaling is not None and exact:
        raise ValueError(f"{who}: exact must be False for a scaling, which has its cut-off, got True.")
    rows = _rows_to_look_at(who, teacher, where)
    if scaling is None:
        lowest = _clipping_scaling(rows.classes, share)
        scaling = _raised(lowest, rows) if exact else lowest
        if scaling == lowest:  # gamma is known: rows are looked at some at a time, nearly all classes count
            return Fitted(MatchingLoss(CompositeSoftmax(scaling)), _share(_clipping(scaling, rows), 1.0))
    require_curve(who, "scaling", scaling)
    if exact_below(scaling) is None:
        return Fitted(MatchingLoss(CompositeSoftmax(scaling)), 0.0)
    pieces = list(_clipping(scaling, rows))
    least = _share(pieces, _LEAST_GAMMA)
    if least > share:
        raise ValueError(
            f"{who}: share must be at least {least:.3g} here, got {share:g}: in so many rows the scaling is 0 for "
            "nearly all classes. Choose a scaling with a lower cut-off, or store more classes."
        )
    gamma = _largest_gamma(pieces, share)
    if gamma < _SHARP:
        _log.warning(
            "fitted: gamma = %g makes the student copy a teacher that is sharpened as by this temperature. A larger "
            "share or a lower cut-off (more classes stored, exact=False) raises it.",
            gamma,
        )
    return Fitted(MatchingLoss(CompositeSoftmax(scaling, gamma=gamma)), _share(pieces, gamma))


def clipped_share(loss: Any, teacher: Any, where: Any = None) -> float:
    """The share of the teacher's composite probabilities that classes below the cut-off hold: a number to log.

    Parameters
    ----------
    loss : MatchingLoss, CompositeSoftmax or Curve
        The loss, for log-probabilities; 0 is the answer for one that clips nothing.
    teacher : array or TopKTeacher
        Logits of a batch, classes on the last axis.
    where : boolean array, optional
        The rows that count.

    Examples
    --------
    >>> from selmatch.distillation import clipped_share
    >>> teacher = np.log([[0.7, 0.2, 0.05, 0.05]])
    >>> round(clipped_share(CompositeSoftmax(Step().affine(beta=-2.0)), teacher), 3)
    0.231
    """
    who = "clipped_share"
    potential = _plain_softmax(who, loss)
    return _share(_clipping(potential.scaling, _rows_to_look_at(who, teacher, where)), float(potential.gamma))


def _plain_softmax(who: str, loss: Any) -> CompositeSoftmax:
    """The potential of a composite Softmax loss whose classes are all alike."""
    potential = loss_of_classes(who, loss).potential
    if not isinstance(potential, CompositeSoftmax) or potential.rho is not None or potential.anchor is not None:
        raise TypeError(f"{who}: loss must be a composite Softmax without rho and anchor, got {potential!r}.")
    return potential


class _Clipping(NamedTuple):
    """Some rows as far as their clipped share needs them.

    ``lead`` is Q less its value below the cut-off, of all classes above it, ``row`` the row and ``copies`` the number
    of classes of each entry; ``clipped`` counts the other classes of each row, and ``top`` is the largest lead.
    """

    lead: np.ndarray
    row: np.ndarray
    copies: np.ndarray
    clipped: np.ndarray
    top: np.ndarray

    def shares(self, gamma: float) -> np.ndarray:
        """The share of clipped classes in each row."""
        with np.errstate(under="ignore"):
            ahead = np.bincount(
                self.row,
                weights=self.copies * np.exp((self.lead - self.top[self.row]) / gamma),
                minlength=len(self.top),
            )
            behind = self.clipped * np.exp(-self.top / gamma)
        return behind / (behind + ahead)


def _share(pieces: Iterable[_Clipping], gamma: float) -> float:
    """The mean share of clipped classes."""
    return float(np.mean(np.concatenate([piece.shares(gamma) for piece in pieces])))


def _largest_gamma(pieces: list[_Clipping], share: float) -> float:
    """The largest gamma up to 1 with at most this share, in three digits; the least one has no more."""
    if _share(pieces, 1.0) <= share:
        return 1.0
    low, high = _LEAST_GAMMA, 1.0
    while high - low > _DIGITS * low:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _share(pieces, middle) <= share else (low, middle)
    rounding = 10.0 ** (math.floor(math.log10(low)) - 2)
    return float(f"{math.floor(low / rounding) * rounding:.3g}")


#: what a cut-off is rounded to, so that people can read it: a power of two, whose multiples are exact
_ROUNDED = 2.0**-7
#: the least gamma that makes sense, and what a bisection has to find gamma to
_LEAST_GAMMA, _DIGITS = 1e-3, 1e-5
#: scores that are looked at together
_CHUNK = 1 << 22
#: a gamma below it is worth a warning
_SHARP = 0.5


def _clipping_scaling(classes: int, share: float) -> Curve:
    """The scaling of :func:`fitted`, whose cut-off clips no more than a share.

    With b = e^beta: the n clipped classes have probabilities of at most e^-c b each, so that the others have at least
    1 - n e^-c b together, and for these e^Q >= p / b, since Q(z) >= z - beta. The share of a row is therefore at most
    n b / (n b + 1 - n e^-c b), which grows with n <= V and is ``share`` for n = V and V b = a.
    """
    smelu = SmeLU()
    guesses = share / (1.0 + share * math.expm1(-smelu.c))
    return smelu.affine(beta=_ROUNDED * math.floor(math.log(guesses / classes) / _ROUNDED))


def _raised(scaling: Any, rows: _Rows) -> Curve:
    """A scaling whose cut-off lies above all classes that are not stored."""
    if rows.ceiling is None:
        return scaling
    c = scaling.curve.c
    return scaling.curve.affine(beta=max(scaling.beta, _ROUNDED * math.ceil((rows.ceiling.max() + c) / _ROUNDED)))


class _Rows(NamedTuple):
    """Checked rows of a teacher, in one axis, of which some count.

    ``listed`` are logits, or the stored log-probabilities; each of the ``left`` classes beside them has the score
    ``tail`` and does not exceed the ``ceiling`` (of rows that count).
    """

    listed: Array
    mask: Array
    stored: bool
    classes: int
    left: int
    tail: np.ndarray | None
    ceiling: np.ndarray | None

    def some_at_a_time(self) -> Iterator[tuple[Array, np.ndarray]]:
        """Log-probabilities of listed classes, and that of the others."""
        step = max(1, _CHUNK // self.listed.shape[-1])
        for start in range(0, self.listed.shape[0], step):
            part = slice(start, start + step)
            kept = slice(None) if self.mask is None else self.mask[part]
            z = constant(self.listed[part][kept])
            z = z if self.stored else log_probabilities(namespace_of(z).widen(z))
            nowhere = np.full(z.shape[0], -math.inf)
            yield z, nowhere if self.tail is None else self.tail[part][_as_numpy(kept)]


def _rows_to_look_at(who: str, teacher: Any, where: Any) -> _Rows:
    stored = isinstance(teacher, TopKTeacher)
    listed = teacher.log_probabilities if stored else _logits(who, "teacher", teacher)
    shape = tuple(listed.shape)
    if not shape or shape[-1] == 0:
        raise ValueError(f"{who}: teacher must have its classes on the last axis, got shape {shape}.")
    mask = _row_mask(who, where, shape[:-1])
    listed = _ruled_out(who, "teacher", listed, mask)
    if math.prod(shape[:-1]) == 0 or (mask is not None and not _as_numpy(mask).any()):
        raise ValueError(f"{who}: teacher must have at least one row that counts, got none.")
    mask = None if mask is None else mask.reshape(-1)
    classes = teacher.classes if stored else shape[-1]
    left, tail, ceiling = classes - shape[-1], None, None
    if left:
        tail, ceiling = (_as_numpy(x).reshape(-1) for x in (teacher.tail, teacher.ceiling))
        ceiling = ceiling if mask is None else ceiling[_as_numpy(mask)]
    return _Rows(listed.reshape(-1, shape[-1]), mask, stored, classes, left, tail, ceiling)


def _clipping(scaling: Curve, given: _Rows) -> Iterator[_Clipping]:
    """The classes of a batch that a scaling clips, and by how much the others are ahead, some rows at a time."""
    cut = exact_below(scaling)
    level, cut = (0.0, -math.inf) if cut is None else (float(scaling.primitive(cut)), cut)
    for z, tail in given.some_at_a_time():
        above, heavy = z > cut, tail > cut
        counts = _as_numpy(above.sum(-1))
        numbers = np.arange(len(counts))
        scores = np.concatenate([_as_numpy(z[above]), tail[heavy]])
        row = np.concatenate([np.repeat(numbers, counts), numbers[heavy]])
        copies = np.concatenate([np.ones(counts.sum()), np.full(heavy.sum(), float(given.left))])
        lead, top = np.asarray(scaling.primitive(scores)) - level, np.full(len(counts), -math.inf)
        np.maximum.at(top, row, lead)
        top[top == -math.inf] = 0.0
        clipped = (z.shape[-1] - counts + given.left * ~heavy).astype(np.float64)
        yield _Clipping(lead, row, copies, clipped, top)


# ------------------------------------------------------------------------------------- what classes left out can cost


def truncation_bound(loss: Any, student: Any, teacher: TopKTeacher) -> np.ndarray:
    r"""How far the loss of each row can be from that of the full teacher, of which only the best classes are stored.

    Of a class j that is not stored only this is known: its log-probability :math:`z_j` is at most m
    (:attr:`TopKTeacher.ceiling`), and the probabilities of all n of them add up to the rest r. What they change in the
    loss are two sums over them, with :math:`g(z) = e^{Q(z)/\gamma}`:

    .. math:: L = H(\hat s) - \gamma \log Z - \frac{A}{Z}, \qquad
              Z = \sum_i g(z_i) + \sum_j g(z_j), \qquad
              A = \sum_i (\hat s_i - z_i)\, q(z_i) g(z_i) + \sum_j (\hat s_j - z_j)\, q(z_j) g(z_j)

    With :math:`f` one of :math:`g`, :math:`q g` and :math:`-z q g`, each sum lies between the two sides of

    .. math:: \max_\lambda \Bigl[\lambda r + n \inf_{z \le m} (f(z) - \lambda e^z)\Bigr] \;\le\;
              \sum_j f(z_j) \;\le\; \min_\lambda \Bigl[\lambda r + n \sup_{z \le m} (f(z) - \lambda e^z)\Bigr]

    (any :math:`\lambda` gives a bound), and :math:`\hat s_j` between the student's least and greatest score of these
    classes. The bound is the greatest distance of the loss from that of the stored teacher for Z and A in their
    intervals. The suprema are bounded on a grid: g and q g do not fall with z, and far below m,
    :math:`-z q(z) \le 2 (Q(z/2) - Q(z))`.

    Assumed are stored classes that are the best, and a scaling that is >= 0 and does not fall below m; where it is
    negative (``Sinh``) the loss has no bound, and the answer is infinite. Stored scores are taken as they are: what
    their rounding does to r is allowed for, what it does to their own terms (half precision) is not.

    Parameters
    ----------
    loss : MatchingLoss, CompositeSoftmax or Curve
        A composite Softmax without rho and anchor; a curve is a scaling.
    student : array
        Logits, classes on the last axis.
    teacher : TopKTeacher
        The stored teacher.

    Returns
    -------
    numpy.ndarray
        One number for each row; 0 where the loss is exact.

    Examples
    --------
    >>> from selmatch.distillation import TopKTeacher, truncation_bound
    >>> logits = 3.0 * np.random.default_rng(0).normal(size=(2, 500))
    >>> for k in (5, 50, 250):
    ...     print(truncation_bound(Exp(), logits[1], TopKTeacher.from_scores(logits[0], k)).round(6))
    0.009755
    0.001768
    4e-05
    """
    who = "truncation_bound"
    potential = _plain_softmax(who, loss)
    if not isinstance(teacher, TopKTeacher):
        raise TypeError(f"{who}: teacher must be a TopKTeacher, got {type(teacher).__name__}.")
    given = _given(who, student, teacher, 1.0, None)
    scores = log_probabilities(_as_numpy(given.student)).reshape(-1, teacher.classes)
    inexact = ~_as_numpy(teacher.is_exact(potential)).reshape(-1)
    indices, known = (_as_numpy(x).reshape(-1, teacher.k) for x in (teacher.indices, teacher.log_probabilities))
    tail, ceiling, slack = (_as_numpy(x).reshape(-1) for x in (teacher.tail, teacher.ceiling, teacher.rounding))
    bound = np.zeros(len(scores))
    with np.errstate(all="ignore"):
        for i in np.flatnonzero(inexact):
            left = _Left(scores[i], indices[i], known[i], tail[i], min(ceiling[i], 0.0), slack[i])
            bound[i] = _bound_of_row(potential.scaling, float(potential.gamma), left)
    return bound.reshape(given.student.shape[:-1])


class _Left(NamedTuple):
    """One row: the student's scores, stored classes with their log-probabilities, and what is known of the others.

    ``tail`` is what the stored teacher takes for their score, ``ceiling`` what they do not exceed, ``slack`` the
    rounding of the probability that is left for them.
    """

    scores: np.ndarray
    indices: np.ndarray
    known: np.ndarray
    tail: float
    ceiling: float
    slack: float


#: no finite logit of single precision has a lower log-probability
_FLOOR = -1e39
#: how far below their ceiling scores of classes that are not stored are looked at closely: steps, then growing ones
_DEPTHS = np.concatenate([np.arange(0.0, 40.0, 0.05), np.geomspace(40.0, 4e4, 200)])
#: tries to improve a bound
_TRIES = 40


def _bound_of_row(q: Curve, gamma: float, row: _Left) -> float:
    """See :func:`truncation_bound`; all e^(Q / gamma) are divided by that of the highest score."""
    floor = np.asarray(max(_FLOOR, q.domain.low))
    if not q(floor) >= 0.0:
        return math.inf
    level = float(np.max(q.primitive(np.append(row.known, row.ceiling))))

    def g(z: np.ndarray) -> np.ndarray:
        return np.exp((q.primitive(z) - level) / gamma)

    z, tail = row.known, np.asarray(row.tail)
    kept, lean = float(g(z).sum()), float(np.sum((row.scores[row.indices] - z) * q(z) * g(z)))
    others = np.delete(row.scores, row.indices)
    stored = _loss_part(
        gamma, kept + len(others) * float(g(tail)), lean + float(q(tail) * g(tail) * np.sum(others - tail))
    )
    rest = max(1.0 - float(np.exp(z).sum()), 0.0)
    edges = np.maximum(row.ceiling - _DEPTHS, floor)
    cells = _Cells(edges, len(others), max(rest - row.slack, 0.0), rest + row.slack)
    parts = g(edges)
    links = q(edges) * parts
    deepest = _deepest_product(q, gamma, float(edges[-1]), float(q.primitive(floor)), level)
    partition = cells.sums(np.append(parts[1:], g(floor)), parts)
    link = cells.sums(np.append(links[1:], 0.0), links)
    product = cells.sums(np.append(-edges[:-1] * links[1:], 0.0), np.append(-edges[1:] * links[:-1], deepest))
    low, high = kept + partition[0], kept + partition[1]
    least, most = lean + product[0] + others.min() * link[1], lean + product[1] + others.max() * link[0]
    above = _loss_part(gamma, min(max(least / gamma, low), high), least)
    below = min(_loss_part(gamma, low, most), _loss_part(gamma, high, most))
    return max(above - stored, stored - below, 0.0)


def _loss_part(gamma: float, partition: float, lean: float) -> float:
    """The part of the loss that depends on the teacher; it rises until partition = lean / gamma, then falls."""
    return -gamma * math.log(partition) - lean / partition


def _deepest_product(q: Curve, gamma: float, z: float, bottom: float, level: float) -> float:
    """At least the largest -x q(x) g(x) of all x <= z < 0, where -x q(x) <= 2 (Q(x/2) - Q(x))."""
    half, here = float(q.primitive(np.asarray(0.5 * z))), float(q.primitive(np.asarray(z)))
    bounded = 2.0 * (half - bottom) * math.exp((here - level) / gamma)
    fall = max(half - here, gamma)  # (half - Q) e^(Q / gamma) is largest at Q = half - gamma
    return min(bounded, 2.0 * fall * math.exp((half - fall - level) / gamma))


class _Cells(NamedTuple):
    """Intervals of scores, from the ceiling down without end, for ``classes`` that hold the rest together."""

    edges: np.ndarray
    classes: int
    least: float
    most: float

    def sums(self, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Bounds of the sum of a function over the classes, from its bounds on each interval."""
        return -self._largest(-low), self._largest(high)

    def _largest(self, high: np.ndarray) -> float:
        """The least lambda r + n sup (f(z) - lambda e^z) that a bisection over lambda, the price, comes across."""
        far = np.exp(self.edges)
        near = np.append(far[1:], 0.0)
        share = 0.5 * (self.least + self.most) / self.classes
        spread = float(high.max() - high.min())
        # slopes of the least concave function above ``high`` at ``share`` lie between these
        lowest, highest = -spread / max(far[0] - share, 1e-6 * far[0]), spread / max(share, 1e-300)
        best, price = math.inf, 0.0
        for _ in range(_TRIES):
            gain = high - np.minimum(price * near, price * far)
            place = int(np.argmax(gain))
            best = min(best, max(price * self.least, price * self.most) + self.classes * float(gain[place]))
            if near[place] > share:  # at this price every class would take more than there is
                lowest = price
            else:
                highest = price
            price = 0.5 * (lowest + highest)
        return best


def _as_numpy(x: Any) -> Any:
    """Numbers as a NumPy array, floating point ones in double precision; what is no array as it is."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    if not hasattr(x, "dtype"):
        return x
    x = np.asarray(x)
    return x.astype(np.float64, copy=False) if x.dtype.kind not in "biu" else x
