"""Losses for preferences: pairs of answers, reward models and lists of answers, on margins of log-probabilities.

A margin says by how much the chosen answer is ahead of the rejected one. :func:`log_ratio_margins` makes margins from
log-probabilities, a :class:`PreferenceLoss` judges them, :func:`displacement` watches what they hide. Arrays of NumPy,
PyTorch and JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from selmatch import functions
from selmatch.arrays import pytrees
from selmatch.arrays.namespaces import NumPy, is_number
from selmatch.batch import as_float, common_space, converted, mask_of, require_inside
from selmatch.composite import CompositeSoftmax
from selmatch.curve import Curve
from selmatch.curves import Identity, Sigmoid, Sinh, Step
from selmatch.functions import minimum, where
from selmatch.losses import MatchingLoss, loss_of, potential_of
from selmatch.parameters import LEAF, has_plain_numbers, keep, number, parameter
from selmatch.ranking import listwise

__all__ = [
    "Displacement",
    "PreferenceLoss",
    "conservative_dpo",
    "displacement",
    "dpo",
    "hinge",
    "ipo",
    "listwise_preference",
    "log_ratio_margins",
    "reward_loss",
    "selective",
]

Array = Any

# ------------------------------------------------------------------------------------------------- arrays of one shape


@dataclass(slots=True)
class _Pairs:
    """Checked numbers of the same pairs: arrays of one library and shape, at least in single precision.

    Attributes
    ----------
    arrays : dict
        By name; 0 behind the mask.
    space : type
        The namespace.
    present : array or None
        The mask.
    plain, listed : bool
        Whether all came as Python numbers; whether as numbers or lists, whose losses are Python numbers.
    """

    arrays: dict[str, Array]
    space: Any
    present: Array
    plain: bool
    listed: bool

    def finished(self, x: Array) -> Any:
        """A result for the user: a Python number for Python numbers."""
        return float(x) if self.plain else x

    def counts(self, x: Array) -> Array:
        """1 for all that is there, 0 behind the mask, like x."""
        # without a mask everything: compared on the device, since a 1 from here would have to be waited for
        return self.space.cast((x == x) | (x != x) if self.present is None else self.present, x)

    def options(self, who: str, weights: Any, reduction: str, num_items: Any) -> dict[str, Any]:
        """The options of a loss of the core, lists as arrays of the library of the pairs."""
        if _is_list(weights) and self.space is not NumPy:
            like = next(iter(self.arrays.values()))
            weights = _adopted(who, "weights", converted(who, "weights", weights), self.space, like)
        return {"where": self.present, "weights": weights, "reduction": reduction, "num_items": num_items}

    def for_core(self, x: Array) -> Any:
        """What the core shall take for what the user gave: it answers numbers and lists with Python numbers."""
        return x.tolist() if self.listed else x


def _pairs(who: str, given: Mapping[str, Any], present: Any = None, *, rows: bool = False, **beside: Any) -> _Pairs:
    """Arrays of the shape of the first; numbers go with all shapes. Values that are not finite are an error.

    Lists become arrays of the library of the others, to which ``beside`` (parameters by name) belong too. With ``rows``
    the last axis makes a row, which a mask may leave out whole.
    """
    beside = {name: x for name, x in beside.items() if hasattr(x, "dtype")}
    plain = not beside and all(map(is_number, given.values()))
    listed = not beside and all(is_number(x) or _is_list(x) for x in given.values())
    arrays = {name: converted(who, name, x) for name, x in given.items()}
    mask = converted(who, "where", present)
    lists = {name for name, x in {**given, "where": present}.items() if _is_list(x)}
    settled = {name: x for name, x in {**arrays, "where": mask, **beside}.items() if name not in lists}
    space: Any = common_space(who, settled)
    if space.name == "NumPy":
        lists, settled = set(), arrays
    if space.name == "JAX":
        arrays = {n: space.adopt(x) if isinstance(x, np.ndarray) and n not in lists else x for n, x in arrays.items()}
        mask = space.adopt(mask) if isinstance(mask, np.ndarray) else mask
        settled = {name: arrays.get(name, x) for name, x in settled.items() if name != "where"}
    like = next((x for x in settled.values() if x is not None and not is_number(x) and space.is_floating(x)), None)
    like = None if like is None else space.widen(like)
    arrays = {name: _adopted(who, name, x, space, like) if name in lists else x for name, x in arrays.items()}
    arrays = {name: as_float(who, name, x, space, like) for name, x in arrays.items()}
    lead = next(iter(arrays.values()))
    if "where" in lists and space.name != "JAX" and mask.dtype == bool:
        mask = _adopted(who, "where", mask, space, lead) != 0
    first, shape = next(
        ((name, tuple(x.shape)) for name, x in arrays.items() if not is_number(given[name])), ("all", tuple(lead.shape))
    )
    for name, x in arrays.items():
        if tuple(x.shape) != shape and not is_number(given[name]):
            raise ValueError(f"{who}: {name} must have the shape of {first} {shape}, got {tuple(x.shape)}.")
    mask = mask_of(who, mask, shape, space, lead, rows)
    for name, x in arrays.items():
        _require_finite(who, name, x, space, mask)
    if mask is not None:
        arrays = {name: where(mask, x, 0.0) for name, x in arrays.items()}
    return _Pairs(arrays, space, mask, plain, listed)


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def _adopted(who: str, name: str, x: np.ndarray, space: Any, like: Array) -> Array:
    """The numbers of a list as an array like ``like``, of another library than NumPy."""
    if like is None and space.name == "JAX":
        return space.adopt(x)
    if like is None:
        raise TypeError(
            f"{who}: {name} must be a floating point array of {space.name}, as the others are of {space.name}, "
            "got a list. Convert it."
        )
    return space.like(as_float(who, name, x, NumPy), like)


def _seen(x: Array, space: Any) -> Any:
    """The values as a NumPy array, or None where looking at them would stop a device or a trace."""
    if space is NumPy:
        return np.asarray(x)
    return space.known(x) if space.name == "PyTorch" else None


def _require(
    who: str, name: str, given: Any, pairs: _Pairs, legal: Callable[[Any], Any], condition: str, remedy: str = ""
) -> None:
    """Name the first value that is not legal, as far as values can be seen; a number always can."""
    if is_number(given):
        if not legal(given):
            raise ValueError(f"{who}: {name} must {condition}, got {given}.{remedy}")
        return
    values = _seen(pairs.arrays[name], pairs.space)
    mask = None if pairs.present is None else _seen(pairs.present, pairs.space)
    if values is not None and (mask is not None or pairs.present is None):
        require_inside(who, name, values, np.asarray(legal(values)), mask, condition, remedy)


def _require_finite(who: str, name: str, x: Array, space: Any, present: Array) -> None:
    """Name the first number that is not finite, as far as numbers can be seen."""
    values, mask = _seen(x, space), None if present is None else _seen(present, space)
    if values is None or (present is not None and mask is None):
        return
    with np.errstate(all="ignore"):
        if not np.isfinite(np.sum(values)):  # a sum is quicker to check than every number
            require_inside(who, name, values, np.isfinite(values), mask, "be finite", " Mask it with where.")


# ---------------------------------------------------------------------------------------------------------- the losses


@dataclass(frozen=True, repr=False)
class PreferenceLoss:
    r"""The loss of preference margins for a target: choose the link for where margins matter, the target for how far.

    .. math:: L(m) = H(m) - H(t) - (m - t) h(t), \qquad L'(m) = h(m) - h(t)

    for a target margin t, or H(m) - m y + H*(y) with gradient h(m) - y for a target y in link space (the probability
    that the chosen answer is better, for a Sigmoid). DPO, IPO and the hinge are special cases: :func:`dpo`,
    :func:`conservative_dpo`, :func:`ipo`, :func:`hinge`; for large margins there is :func:`selective`.

    Parameters
    ----------
    link : Curve or MatchingLoss
        The link h, non-decreasing: its steepness says at which margins accuracy matters.
    target_margin : number, optional
        The margin t at which the loss is 0.
    target : number, optional
        The link value y = h(t) instead, for a t that may be infinite. Give exactly one of the two.
    conjugate : bool
        For a target: False leaves out H*(y), which no margin changes, so that the best loss is not 0.
    one_sided : bool
        For a target margin: margins beyond it cost nothing, as for the hinge; else they are pulled back, as in IPO.

    Examples
    --------
    >>> from selmatch.alignment import PreferenceLoss
    >>> squared_hinge = PreferenceLoss(2.0 * Identity(), target_margin=1.0, one_sided=True)
    >>> squared_hinge([-1.0, 0.5, 3.0], reduction="none")
    array([4.  , 0.25, 0.  ])
    >>> squared_hinge.grad([-1.0, 0.5, 3.0])
    array([-4., -1.,  0.])
    """

    link: Any = field(metadata=LEAF)
    target_margin: Any = field(default=None, metadata=LEAF)
    target: Any = field(default=None, metadata=LEAF)
    conjugate: bool = True
    one_sided: bool = False

    def __post_init__(self) -> None:
        link = potential_of("PreferenceLoss", self.link)
        if not isinstance(link, Curve):
            raise TypeError(f"PreferenceLoss: link must be a curve, got {link!r}. Try listwise_preference.")
        if (self.target_margin is None) == (self.target is None):
            raise TypeError(
                "PreferenceLoss: exactly one of target_margin (a margin) and target (a link value) must be given, "
                f"got target_margin={self.target_margin!r}, target={self.target!r}."
            )
        if self.target is None and not self.conjugate:
            raise ValueError("PreferenceLoss: conjugate must be left out with target_margin, got False.")
        if self.target is not None and self.one_sided:
            raise ValueError("PreferenceLoss: one_sided must go with target_margin, got target.")
        keep(self, link=link, conjugate=bool(self.conjugate), one_sided=bool(self.one_sided))
        MatchingLoss(link)  # refuses curves that decrease
        if self.target is None:
            keep(self, target_margin=parameter("PreferenceLoss", "target_margin", self.target_margin))
        else:
            keep(self, target=parameter("PreferenceLoss", "target", self.target))
        _require_reachable(self)

    def __repr__(self) -> str:
        named = ((f, getattr(self, f.name)) for f in fields(self)[1:])
        options = "".join(f", {f.name}={value!r}" for f, value in named if value is not f.default)
        return f"PreferenceLoss({self.link!r}{options})"

    @property
    def _loss(self) -> MatchingLoss:
        return MatchingLoss(self.link, check=False)  # checked when this object was made

    def __call__(
        self,
        margins: Any,
        targets: Any = None,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "mean",
        num_items: Any = None,
    ) -> Any:
        """The loss of margins of any shape.

        Parameters
        ----------
        margins : array or number
            By how much the chosen answers are ahead: beta-scaled log-ratios, differences of rewards.
        targets : array or number, optional
            A target for each pair instead of the loss's own, of the same kind (target margins, or link values).
        where, weights, reduction, num_items
            As for :class:`MatchingLoss`, of the shape of the margins.

        Returns
        -------
        array or number
            Of the library of the margins, at least in single precision.
        """
        pairs, margins, targets = self._ready("PreferenceLoss", margins, targets, where)
        options = pairs.options("PreferenceLoss", weights, reduction, num_items)
        if self.target is None:
            return self._loss(margins, targets, **options)
        return self._loss.fenchel_young(margins, targets, conjugate=self.conjugate, **options)

    def grad(
        self,
        margins: Any,
        targets: Any = None,
        *,
        where: Any = None,
        weights: Any = None,
        reduction: str = "none",
        num_items: Any = None,
    ) -> Any:
        """The gradient in the margins, of each pair's loss, or with ``reduction`` of the mean or sum."""
        pairs, margins, targets = self._ready("PreferenceLoss.grad", margins, targets, where)
        options = pairs.options("PreferenceLoss.grad", weights, reduction, num_items)
        if self.target is None:
            return self._loss.grad(margins, targets, **options)
        return self._loss.fenchel_young_grad(margins, targets, **options)

    def _ready(self, who: str, margins: Any, targets: Any, mask: Any) -> tuple[_Pairs, Any, Any]:
        """The pairs, margins and targets, checked; margins beyond the target moved to it, where they cost nothing."""
        given = {"margins": margins} | ({} if targets is None else {"targets": targets})
        pairs = _pairs(who, given, mask)
        margins = pairs.arrays["margins"]
        if targets is None:
            targets = self.target_margin if self.target is None else self.target
        else:
            _require_targets(who, self, targets, pairs)
            targets = pairs.space.cast(pairs.arrays["targets"], margins)
        if self.one_sided:
            margins = minimum(margins, targets)
        return pairs, pairs.for_core(margins), targets if is_number(targets) else pairs.for_core(targets)


pytrees.announce(PreferenceLoss)


def _reachable(loss: PreferenceLoss) -> tuple[Callable[[Any], Any], str]:
    """Which targets a loss can take, elementwise and in words: margins inside the domain of its link, or its values."""
    link = loss.link
    if loss.target is None:
        return lambda t: link.holds(t, interior=True), f"lie inside {link.domain}, the domain of the link"
    low, high = link.range.low, link.range.high
    return lambda y: (low <= y) & (y <= high), f"lie in {link.range}, the range of the link"


def _require_reachable(loss: PreferenceLoss) -> None:
    """Refuse a target of a loss's own that it cannot take, as far as it is a number."""
    name, target = ("target_margin", loss.target_margin) if loss.target is None else ("target", loss.target)
    if not is_number(target) or not has_plain_numbers(loss.link):
        return
    legal, condition = _reachable(loss)
    if not legal(target):
        remedy = " For a margin, give target_margin." if name == "target" else ""
        raise ValueError(f"PreferenceLoss: {name} must {condition}, got {target}.{remedy}")


def _require_targets(who: str, loss: PreferenceLoss, targets: Any, pairs: _Pairs) -> None:
    """Refuse targets for each pair that the loss cannot take, as far as they can be seen."""
    if has_plain_numbers(loss.link):
        remedy = " Targets of this loss are link values, not margins." if loss.target is not None else ""
        _require(who, "targets", targets, pairs, *_reachable(loss), remedy)


def dpo(offset: float = 0.0) -> PreferenceLoss:
    r"""Direct preference optimisation, for beta-scaled margins: always some pull, at most 1, least where it is right.

    .. math:: L(m) = -\log \sigma(m - \text{offset}), \qquad \text{link } \sigma, \text{ target } 1

    Parameters
    ----------
    offset : float
        By how much the chosen answer shall be ahead (ODPO; the target reward margin of SimPO).

    Examples
    --------
    >>> from selmatch.alignment import dpo
    >>> dpo()([-1.0, 2.0], reduction="none")
    array([1.31326169, 0.12692801])
    """
    offset = number("dpo", "offset", offset)
    return PreferenceLoss(Sigmoid().affine(beta=offset) if offset else Sigmoid(), target=1.0)


def conservative_dpo(label_smoothing: float) -> PreferenceLoss:
    r"""DPO for labels of which some are wrong, for beta-scaled margins: stops at log-odds of the labels being right.

    .. math:: L(m) = -(1 - \epsilon) \log \sigma(m) - \epsilon \log \sigma(-m)

    A Sigmoid link with target 1 - epsilon, without the entropy of the labels.

    Parameters
    ----------
    label_smoothing : float
        The share epsilon of wrong labels, in [0, 0.5).

    Examples
    --------
    >>> from selmatch.alignment import conservative_dpo
    >>> conservative_dpo(0.1).grad([0.0, math.log(9.0), 5.0]).round(3)
    array([-0.4  , -0.   ,  0.093])
    """
    smoothing = number("conservative_dpo", "label_smoothing", label_smoothing, at_least=0.0)
    if smoothing >= 0.5:
        raise ValueError(
            f"conservative_dpo: label_smoothing must be < 0.5, got {smoothing}. "
            "From 0.5 on labels say nothing, or the opposite: swap the answers."
        )
    return PreferenceLoss(Sigmoid(), target=1.0 - smoothing, conjugate=False)


def ipo(beta: float) -> PreferenceLoss:
    r"""Identity preference optimisation, for margins that are **not** scaled by beta: squared distance to a margin.

    .. math:: L(m) = \left(m - \frac{1}{2 \beta}\right)^2

    An identity link with gain 2. Log-ratios are usually divided by the lengths of the answers
    (``log_ratio_margins(..., beta=1.0, lengths=...)``), as TRL does.

    Parameters
    ----------
    beta : float
        Strength of the pull towards the reference, > 0: the larger, the smaller the target margin.

    Examples
    --------
    >>> from selmatch.alignment import ipo
    >>> ipo(beta=0.5)([0.0, 1.0, 3.0], reduction="none")
    array([1., 0., 4.])
    """
    return PreferenceLoss(2.0 * Identity(), target_margin=0.5 / number("ipo", "beta", beta, above=0.0))


def hinge(margin: float = 1.0) -> PreferenceLoss:
    r"""The hinge (SLiC), for beta-scaled margins: the same pull for all pairs below the margin, none beyond.

    .. math:: L(m) = \max(0, \text{margin} - m)

    A step at the margin as link, with target 1.

    Parameters
    ----------
    margin : float
        Where the pull ends.

    Examples
    --------
    >>> from selmatch.alignment import hinge
    >>> hinge()([-1.0, 0.5, 3.0], reduction="none")
    array([2. , 0.5, 0. ])
    """
    return PreferenceLoss(Step().affine(beta=number("hinge", "margin", margin)), target=1.0)


def selective(
    link: Any = None,
    *,
    target_margin: float = 1.0,
    sharpness: float = 1.0,
    cap: float = 4.0,
    one_sided: bool = True,
) -> PreferenceLoss:
    r"""High-norm selectivity: the larger a margin is on the wrong side, the more strongly it is corrected.

    .. math:: L'(m) = h(m) - h(t), \qquad h(m) = \frac{\sinh(\alpha \min(\max(m, -c), c))}{2 \sinh(\alpha t)}

    with t the target margin, alpha the sharpness and c the cap. At margin 0 the pull is 1/2, that of :func:`dpo`, so
    that learning rates carry over. Below, where DPO's pull saturates at 1, it grows like sinh up to
    ``(1 + sinh(alpha c) / sinh(alpha t)) / 2``, and between 0 and t it falls to 0. So choose it where a pair that is
    badly wrong is a real error that must go. Where labels are noisy it listens to the wrong ones most:
    lower the cap, or use :func:`conservative_dpo`. Of targets given for each pair, large ones weigh most.

    Parameters
    ----------
    link : Curve or MatchingLoss, optional
        Another link, odd or shifted, taken as it is: sharpness and cap are then left out.
    target_margin : float
        The margin t at which the pull ends; > 0 and at most ``cap`` for the capped sinh.
    sharpness : float
        alpha, at least 1e-8: how quickly the pull grows. Near 0 the link is a straight line.
    cap : float
        The margin c from which on the pull grows no more. Beyond it the loss is linear.
    one_sided : bool
        False pulls margins beyond the target back to it, as IPO does.

    Examples
    --------
    >>> from selmatch.alignment import dpo, selective
    >>> margins = np.array([-6.0, -2.0, 0.0, 0.5, 3.0])
    >>> selective().grad(margins).round(3)
    array([-12.111,  -2.043,  -0.5  ,  -0.278,   0.   ])
    >>> dpo().grad(margins).round(3)
    array([-0.998, -0.881, -0.5  , -0.378, -0.047])
    """
    if link is not None and (sharpness, cap) != (1.0, 4.0):
        raise ValueError(
            f"selective: sharpness and cap must be left out with a link, got {sharpness} and {cap}. "
            "Try link.affine(alpha=sharpness).capped(-cap, cap)."
        )
    if link is None:
        t = number("selective", "target_margin", target_margin, above=0.0)
        alpha = number("selective", "sharpness", sharpness, above=0.0)
        cap = number("selective", "cap", cap, above=0.0)
        if t > cap:
            raise ValueError(f"selective: target_margin must be at most cap = {cap}, got {t}. Raise the cap.")
        if alpha < 1e-8:
            raise ValueError(
                f"selective: sharpness must be at least 1e-8, got {alpha:g}: the link is a straight line long before. "
                "Give that line: selective(0.5 / target_margin * Identity().capped(-cap, cap), "
                "target_margin=target_margin)."
            )
        if alpha * cap > 80.0:
            raise ValueError(
                f"selective: sharpness * cap must be at most 80, got {alpha * cap:g}: sinh would overflow in single "
                "precision. Lower one of them."
            )
        link = Sinh().affine(alpha=alpha, gain=0.5 / math.sinh(alpha * t)).capped(-cap, cap)
    return PreferenceLoss(link, target_margin=target_margin, one_sided=one_sided)


# ------------------------------------------------------------------------------------------------------------- margins


def log_ratio_margins(
    chosen: Any,
    rejected: Any,
    reference_chosen: Any = None,
    reference_rejected: Any = None,
    beta: float = 0.1,
    *,
    lengths: tuple[Any, Any] | None = None,
    where: Any = None,
) -> Any:
    r"""The margins that preference losses judge: beta times the difference of log-ratios to a reference model.

    .. math:: m = \beta \left[ \left(\log \pi(y_c) - \log \pi_0(y_c)\right)
              - \left(\log \pi(y_r) - \log \pi_0(y_r)\right) \right]

    Scale by beta here, and nowhere else; :func:`ipo` wants ``beta=1.0``.

    Parameters
    ----------
    chosen, rejected : array or number
        Log-probabilities of the answers under the policy, of one shape.
    reference_chosen, reference_rejected : array or number, optional
        The same under the reference model. Without them margins are those of the policy alone (SimPO, CPO).
    beta : float
        > 0.
    lengths : pair of arrays, optional
        Numbers of tokens of the chosen and the rejected answers: log-ratios are then means over tokens.
    where : boolean array, optional
        Pairs that are False have the margin 0 and no gradient, even where they hold NaN.

    Returns
    -------
    array or number
        At least in single precision. A log-probability that is not finite is an error for arrays of NumPy and tensors
        on a CPU, else it stays in the margins.

    Examples
    --------
    >>> from selmatch.alignment import log_ratio_margins
    >>> log_ratio_margins([-10.0, -7.0], [-12.0, -9.0], [-11.0, -7.0], [-12.0, -8.0], beta=0.5)
    array([0.5, 0.5])
    >>> log_ratio_margins(-10.0, -12.0, beta=1.0, lengths=(5, 4))
    1.0
    """
    who = "log_ratio_margins"
    beta = parameter(who, "beta", beta, above=0.0)
    if (reference_chosen is None) != (reference_rejected is None):
        missing = "reference_chosen" if reference_chosen is None else "reference_rejected"
        raise TypeError(f"{who}: {missing} must be given with the other reference, got None.")
    given = {"chosen": chosen, "rejected": rejected}
    if reference_chosen is not None:
        given |= {"reference_chosen": reference_chosen, "reference_rejected": reference_rejected}
    if lengths is not None:
        if not isinstance(lengths, (tuple, list)) or len(lengths) != 2:
            raise TypeError(f"{who}: lengths must be a pair (of chosen, of rejected), got {lengths!r}.")
        given |= {"lengths[0]": lengths[0], "lengths[1]": lengths[1]}
    pairs = _pairs(who, given, where, beta=beta)
    arrays = pairs.arrays
    for i, length in enumerate(lengths or ()):
        _require(who, f"lengths[{i}]", length, pairs, lambda x: x >= 0.0, "be >= 0", " Give numbers of tokens.")
    ratios = [arrays["chosen"], arrays["rejected"]]
    if reference_chosen is not None:
        ratios = [ratios[0] - arrays["reference_chosen"], ratios[1] - arrays["reference_rejected"]]
    if lengths is not None:
        # an answer without tokens has nothing to divide
        ratios = [ratio / functions.maximum(arrays[f"lengths[{i}]"], 1.0) for i, ratio in enumerate(ratios)]
    return pairs.finished(beta * (ratios[0] - ratios[1]))


def reward_loss(
    chosen: Any,
    rejected: Any,
    loss: Any = None,
    *,
    margins: Any = None,
    where: Any = None,
    weights: Any = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> Any:
    r"""The loss of a reward model on pairs, with graded margins if you know by how much the chosen answers are better.

    Without ``loss`` and ``margins`` it is Bradley and Terry's :math:`-\log \sigma(r_c - r_r)`, with margins that of
    Llama 2, :math:`-\log \sigma(r_c - r_r - m)`: a Sigmoid link shifted by m, for which m is a least margin. With a
    link, or a loss that has a target margin, m is the margin to reach: differences of rewards then mean something,
    most of all where the link is steep.

    Parameters
    ----------
    chosen, rejected : array or number
        Rewards of one shape.
    loss : PreferenceLoss, MatchingLoss or Curve, optional
        :func:`dpo` unless given. A link needs ``margins``.
    margins : array or number, optional
        Graded margins: the targets of a loss with a target margin; with a link or without ``loss`` see above.
    where, weights, reduction, num_items
        As for :class:`MatchingLoss`, of the shape of the rewards.

    Examples
    --------
    >>> from selmatch.alignment import reward_loss
    >>> reward_loss([1.0, 3.0], [0.0, 0.0])
    0.180924...
    >>> reward_loss([1.0, 3.0], [0.0, 0.0], margins=[1.0, 3.0])
    0.693147...
    >>> reward_loss([1.0, 3.0], [0.0, 0.0], Sinh().capped(-4.0, 4.0), margins=[1.0, 3.0])
    0.0
    """
    who = "reward_loss"
    given = {"chosen": chosen, "rejected": rejected} | ({} if margins is None else {"margins": margins})
    pairs = _pairs(who, given, where)
    lead = pairs.arrays["chosen"] - pairs.arrays["rejected"]
    # a number stays one: it goes with all shapes, an array without axes does not
    graded = margins if margins is None or is_number(margins) else pairs.for_core(pairs.arrays["margins"])
    options = pairs.options(who, weights, reduction, num_items)
    if loss is not None and not isinstance(loss, PreferenceLoss):
        return _link_for_margins(who, loss, graded)(pairs.for_core(lead), graded, **options)
    loss = dpo() if loss is None else loss
    if margins is None or loss.target is None:
        return loss(pairs.for_core(lead), graded, **options)
    return loss(pairs.for_core(lead - pairs.arrays["margins"]), **options)


def _link_for_margins(who: str, loss: Any, margins: Any) -> MatchingLoss:
    """The matching loss of a link, which needs margins to reach."""
    link = potential_of(who, loss)
    if not isinstance(link, Curve):
        raise TypeError(f"{who}: loss must have a link for single margins, got {link!r}. Try listwise_preference.")
    if margins is None:
        raise TypeError(
            f"{who}: margins must be given with the link {link!r}, got None. "
            "Try selective(link, target_margin=...) as the loss."
        )
    return loss_of(who, loss)


def listwise_preference(
    log_ratios: Any,
    rewards: Any,
    loss: Any,
    *,
    beta: float = 0.1,
    baseline: str | None = "mean",
    where: Any = None,
    weights: Any = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> Any:
    r"""The loss of a policy on lists of answers with rewards: promote the winner without suppressing runners-up.

    .. math:: \hat s_k = \beta \log \frac{\pi(y_k)}{\pi_0(y_k)}, \qquad s_k = r_k - \bar r, \qquad
              \frac{\partial L}{\partial \hat s_k} = q(\hat s_k) p_k(\hat s) - q(s_k) p_k(s)

    by :func:`selmatch.ranking.listwise`. With a plain Softmax (q = 1) these gradients sum to 0: all that the winner
    gains is taken from the others. With a scaling q that grows, answers with low scores pay less than that, and
    nothing at all below the cut-off of a scaling that is 0 there (:class:`SmeLU`).

    Parameters
    ----------
    log_ratios : array (..., k)
        Log-probabilities of k answers under the policy less those under the reference model. They are 0 at the start.
    rewards : array (..., k)
        Their rewards: the scores that beta times the log-ratios shall reach.
    loss : CompositeSoftmax, MatchingLoss or Curve
        A curve is a scaling.
    beta : float
        > 0; scales the log-ratios.
    baseline : {"mean", None}
        "mean" takes the mean reward of each list from its rewards: better answers shall become likelier than under the
        reference, worse ones less likely. None takes rewards as they are: 0 then means "as likely as it was".
    where : boolean array, optional
        Of the shape of the rewards, False for answers that are not there; or without the last axis, for whole lists.
    weights, reduction, num_items
        As for :func:`selmatch.ranking.listwise`; weights are those of lists.

    Examples
    --------
    >>> from selmatch.alignment import listwise_preference
    >>> log_ratios, rewards = np.zeros((1, 3)), np.array([[3.0, 1.0, -1.0]])
    >>> listwise_preference(log_ratios, rewards, SmeLU(c=1.0), reduction="none").round(3)
    array([0.607])
    """
    who = "listwise_preference"
    beta = parameter(who, "beta", beta, above=0.0)
    if baseline not in ("mean", None):
        raise ValueError(f"{who}: baseline must be 'mean' or None, got {baseline!r}.")
    pairs = _pairs(who, {"log_ratios": log_ratios, "rewards": rewards}, where, rows=True, beta=beta)
    scores, targets = beta * pairs.arrays["log_ratios"], pairs.arrays["rewards"]
    if targets.ndim == 0:
        raise ValueError(f"{who}: rewards must have the answers of a list on the last axis, got a single number.")
    if baseline == "mean":
        answers = functions.row_sum(pairs.counts(targets))
        mean = functions.row_sum(targets) / functions.maximum(answers, 1.0)
        targets = targets - mean
    potential = potential_of(who, loss)
    return listwise(
        pairs.for_core(scores),
        pairs.for_core(targets),
        CompositeSoftmax(potential) if isinstance(potential, Curve) else loss,
        **pairs.options(who, weights, reduction, num_items),
    )


# --------------------------------------------------------------------------------------------------------- the monitor


@dataclass(frozen=True)
class Displacement:
    """What happens to the chosen answers themselves while margins grow; made by :func:`displacement`.

    Numbers are Python floats, or tensors and arrays without axes, so that no device has to be waited for.

    Attributes
    ----------
    pairs : number
        How many pairs were counted: the weight of the other numbers, to average them over batches and processes.
    chosen_log_ratio : number
        Mean log-probability of the chosen answers, policy less reference. Below 0 they have become less likely.
    chosen_fell : number
        Share of pairs whose chosen answer is less likely than under the reference.
    rejected_log_ratio : number or None
        As for the chosen answers.
    margin : number or None
        Mean difference of the two log-ratios, not scaled by beta.
    accuracy : number or None
        Share of pairs whose margin is > 0.
    displaced : number or None
        Share of pairs whose margin is > 0 although the chosen answer is less likely than before: the probability of
        the rejected answer went elsewhere.
    """

    pairs: Any = field(metadata=LEAF)
    chosen_log_ratio: Any = field(metadata=LEAF)
    chosen_fell: Any = field(metadata=LEAF)
    rejected_log_ratio: Any = field(default=None, metadata=LEAF)
    margin: Any = field(default=None, metadata=LEAF)
    accuracy: Any = field(default=None, metadata=LEAF)
    displaced: Any = field(default=None, metadata=LEAF)

    def as_dict(self, prefix: str = "") -> dict[str, Any]:
        """The numbers that are known by name, for a logger.

        Examples
        --------
        >>> from selmatch.alignment import displacement
        >>> displacement([-3.0, -5.0], [-4.0, -4.0]).as_dict("train/")
        {'train/pairs': 2.0, 'train/chosen_log_ratio': 0.0, 'train/chosen_fell': 0.5}
        """
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {f"{prefix}{name}": value for name, value in named.items() if value is not None}


pytrees.announce(Displacement)


def displacement(
    chosen: Any,
    reference_chosen: Any,
    rejected: Any = None,
    reference_rejected: Any = None,
    *,
    where: Any = None,
) -> Displacement:
    """Is the chosen answers' own probability falling? What a preference loss, which sees differences only, cannot tell.

    Parameters
    ----------
    chosen, reference_chosen : array or number
        Log-probabilities of the chosen answers under the policy and the reference model, of one shape.
    rejected, reference_rejected : array or number, optional
        Those of the rejected answers, for margins.
    where : boolean array, optional
        Which pairs count.

    Returns
    -------
    Displacement
        Means and shares, without gradients.

    Examples
    --------
    >>> from selmatch.alignment import displacement
    >>> seen = displacement([-12.0, -9.0], [-10.0, -10.0], [-20.0, -9.0], [-10.0, -10.0])
    >>> seen.accuracy, seen.chosen_fell, seen.displaced
    (0.5, 0.5, 0.5)
    """
    who = "displacement"
    given = {"chosen": chosen, "reference_chosen": reference_chosen}
    if (rejected is None) != (reference_rejected is None):
        missing = "rejected" if rejected is None else "reference_rejected"
        raise TypeError(f"{who}: {missing} must be given with the other of the rejected answers, got None.")
    if rejected is not None:
        given |= {"rejected": rejected, "reference_rejected": reference_rejected}
    pairs = _pairs(who, given, where)
    arrays = {name: _constant(x, pairs.space) for name, x in pairs.arrays.items()}
    chosen_ratio = arrays["chosen"] - arrays["reference_chosen"]
    counted = pairs.counts(chosen_ratio)
    total = pairs.space.total(counted)

    def mean(x: Array) -> Any:
        x = pairs.space.cast(x, counted) * counted
        return _reported(pairs.space.total(x) / functions.maximum(total, 1.0), pairs.space)

    fell = chosen_ratio < 0.0
    alone = _reported(total, pairs.space), mean(chosen_ratio), mean(fell)
    if rejected is None:
        return Displacement(*alone)
    rejected_ratio = arrays["rejected"] - arrays["reference_rejected"]
    margin = chosen_ratio - rejected_ratio
    ahead = margin > 0.0
    return Displacement(*alone, mean(rejected_ratio), mean(margin), mean(ahead), mean(ahead & fell))


def _constant(x: Array, space: Any) -> Array:
    return x if space is NumPy else space.constant(x)


def _reported(x: Array, space: Any) -> Any:
    return float(x) if space is NumPy else x
