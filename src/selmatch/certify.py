"""Proofs that a loss is what it claims to be: convex, monotone, symmetric, flat where it clips.

Each function answers with :class:`Proved` (and how), :class:`Refuted` (with a witness that anyone can evaluate) or
:class:`Undecided` (with what remains). Known parts are proved from their structure, without computation. Everything
else, a curve of which only the formula is known included, is proved by interval arithmetic with rigorous rounding,
which needs python-flint (``pip install "selmatch[proofs]"``).

Examples
--------
>>> import selmatch as sm
>>> print(sm.certify.convex(sm.Sinh() + 0.5 * sm.Sigmoid()))
Proved: the loss is convex in the predicted scores on (-inf, inf) (a sum of curves that never decrease: Sinh, Sigmoid).
>>> print(sm.certify.convex(sm.CompositeSoftmax(sm.Cosh(), check=False)))
Refuted: the loss is convex in the predicted scores on (-inf, inf) (L(s_hat = (-2, -2), s = (-1, -1)) = -0.908579 < 0...
"""

from __future__ import annotations

import decimal
import functools
import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ParamSpec

import numpy as np

from selmatch.algebra import is_straight, require_curve
from selmatch.arrays.effort import Effort
from selmatch.canonical import require_canonical
from selmatch.certificates import (
    NEEDS_PROOFS,
    Certificate,
    Enclosure,
    Proved,
    Question,
    Refuted,
    Undecided,
    Witness,
    for_all_labels,
)
from selmatch.composite import CompositeSigmoid, CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.evidence import Reflection, Sign, Stillness, Structure, Unverified, formula_of
from selmatch.formula import Formula
from selmatch.losses import potential_of
from selmatch.parameters import has_plain_numbers, pair
from selmatch.sampling import MARGIN, evaluated, fall_around, number_at, sample_points, sampled_fall
from selmatch.structure import is_known, is_ours, parts_of, why_non_decreasing

__all__ = [
    "Certificate",
    "Effort",
    "Enclosure",
    "Proved",
    "Question",
    "Refuted",
    "Undecided",
    "Witness",
    "convex",
    "convex_primitive",
    "flat",
    "flat_regions",
    "largest_gamma",
    "monotone_probability",
    "non_decreasing",
    "odd",
    "smallest_c",
]

BY_INTERVALS = "by interval arithmetic"
#: twice the least number above 0: subnormal numbers have few digits
_SMALLEST = 1e-323
_UPWARDS = decimal.Context(prec=3, rounding=decimal.ROUND_CEILING)


# -------------------------------------------------------------------------------------------------------- questions

P = ParamSpec("P")

#: the functions whose certificates can be saved
QUESTIONS: dict[str, Callable[..., Certificate]] = {}


def _remembered(ask: Callable[P, Certificate]) -> Callable[P, Certificate]:
    """A function whose proofs remember what it was asked."""

    signature, options_asked = inspect.signature(ask), options_of(ask)

    @functools.wraps(ask)
    def asked(*arguments: P.args, **options: P.kwargs) -> Certificate:
        found = ask(*arguments, **options)
        if not isinstance(found, Proved) or found.question is not None:
            return found
        given = signature.bind(*arguments, **options).arguments
        subject = potential_of(f"certify.{ask.__name__}", given.pop(next(iter(given))))
        domain = given.pop("domain", None)
        ends = None if domain is None else pair("certify", "domain", domain, infinite=True)
        others = {name: given[name] for name in options_asked if given.get(name) is not None}
        return replace(found, question=Question(ask.__name__, subject, ends, others))

    QUESTIONS[ask.__name__] = asked
    return asked


def options_of(ask: Callable[..., Certificate]) -> tuple[str, ...]:
    """What can be said beside the subject, the domain and the effort."""
    _, *others = inspect.signature(ask).parameters
    return tuple(name for name in others if name not in ("domain", "effort"))


def ask_again(question: Question, cuts: tuple[tuple[float, ...], ...]) -> Certificate:
    """Answer a question without a search: the cuts of an earlier proof suffice for the checker, or do not."""
    ask = QUESTIONS[question.name]
    known = {"domain": question.domain, "effort": Effort(stored=cuts), **question.options}
    return ask(question.subject, **{name: known[name] for name in inspect.signature(ask).parameters if name in known})


# ------------------------------------------------------------------------------------------------------- statements


@_remembered
def non_decreasing(curve: Curve, domain: Any = None, *, effort: Effort | None = None) -> Certificate:
    """Does a curve never decrease, so that it is a link?

    Parameters
    ----------
    curve : Curve
        Any curve, also one of which only ``__call__`` is written.
    domain : Interval or pair of numbers, optional
        Where; by default the whole domain of the curve.
    effort : Effort, optional
        How long to search where the structure gives no proof: ``Effort(boxes=3000, seconds=math.inf)``; 1,000 boxes
        of a short formula take about 0.4 s.

    Examples
    --------
    >>> import selmatch as sm
    >>> print(sm.certify.non_decreasing(sm.FromLink(lambda z: z + sm.functions.tanh(z)), (-8, 8)))
    Proved: the curve never decreases on [-8, 8] (by interval arithmetic, 1 box).
    >>> print(sm.certify.non_decreasing(sm.FromLink(sm.functions.cos), (0, 1)))
    Refuted: the curve never decreases on [0, 1] (h(0.5) = 0.877583 > h(1) = 0.540302; evaluated with rigour).
    """
    _plain_curve("certify.non_decreasing", curve)
    where_ = _interval("certify.non_decreasing", domain, curve.domain)
    return _decided("the curve never decreases", curve, where_, _fall_witness, effort, of_loss=False)


@_remembered
def convex_primitive(scaling: Curve, domain: Any = None, *, effort: Effort | None = None) -> Certificate:
    """Is the antiderivative Q of a scaling convex? Sufficient for one class, necessary and sufficient for many.

    Examples
    --------
    >>> import selmatch as sm
    >>> print(sm.certify.convex_primitive(sm.Cosh(), (0, 8)))
    Proved: Q is convex on [0, 8] (Cosh never decreases there).
    """
    _plain_curve("certify.convex_primitive", scaling)
    where_ = _interval("certify.convex_primitive", domain, scaling.domain)
    return _unless_own(scaling, _decided("Q is convex", scaling, where_, _divergence_witness, effort))


@_remembered
def convex(
    loss: Any, domain: Any = None, *, canonicalise: str | None = None, effort: Effort | None = None
) -> Certificate:
    """Is a loss convex in the predicted score (for many classes: jointly in all scores)?

    With ``canonicalise``: is it convex in a student's logits, for every teacher? It need not be: log-probabilities are
    a curved function of the logits.

    Parameters
    ----------
    loss : MatchingLoss, potential, curve or module
        What to look at; also one built with ``check=False``. A :class:`selmatch.torch.MatchingLoss` brings its
        ``canonicalise``.
    domain : Interval or pair of numbers, optional
        The scores (of each class); by default the whole domain. With ``canonicalise`` the logits.
    canonicalise : {"log_probabilities", "teacher_maximum", None}
        How :func:`selmatch.distillation.distillation_loss` makes scores of logits, for losses of many classes.
    effort : Effort, optional
        As for :func:`non_decreasing`.

    Examples
    --------
    >>> import selmatch as sm
    >>> sm.certify.convex(sm.MatchingLoss(sm.Sigmoid()), domain=(-8, 8)).how
    'Sigmoid never decreases'
    >>> scaling = sm.Exp().affine(beta=-3.0)
    >>> for how in ("teacher_maximum", "log_probabilities"):
    ...     print(type(sm.certify.convex(sm.CompositeSoftmax(scaling, gamma=0.3), canonicalise=how)).__name__)
    Proved
    Refuted
    """
    who, statement = "certify.convex", "the loss is convex in the predicted scores"
    if hasattr(loss, "canonicalise"):
        canonicalise = canonicalise or ("log_probabilities" if loss.canonicalise else None)
        return convex(loss.loss, domain, canonicalise=canonicalise, effort=effort)
    require_canonical(who, canonicalise)
    potential = _plain_potential(who, loss)
    if canonicalise is not None:
        return _convex_in_logits(who, potential, domain, canonicalise, effort)
    if isinstance(potential, Curve | Separable):
        curve = potential if isinstance(potential, Curve) else potential.curve
        where_ = _interval(who, domain, potential.domain)
        return _unless_own(curve, _decided(statement, curve, where_, _fall_witness, effort))
    if isinstance(potential, CompositeSoftmax):
        return _convex_softmax(statement, potential, _interval(who, domain, potential.domain), effort)
    labelled = zip(potential.labels, potential.curves, strict=True)
    return for_all_labels({label: convex(curve, domain, effort=effort) for label, curve in labelled})


@_remembered
def monotone_probability(composite: Any, domain: Any = None, *, effort: Effort | None = None) -> Certificate:
    """Is the probability p (of a class, in its own score) monotone? It rises where q >= 0 and falls where q <= 0.

    Parameters
    ----------
    composite : MatchingLoss or potential
        Made of a composite Sigmoid or Softmax.
    domain : Interval or pair of numbers, optional
        Where; by default the whole domain.
    effort : Effort, optional
        As for :func:`non_decreasing`.

    Examples
    --------
    >>> import selmatch as sm
    >>> print(sm.certify.monotone_probability(sm.CompositeSoftmax(sm.Exp())))
    Proved: p is monotone on (-inf, inf) (q >= 0: p increases).
    """
    who, statement = "certify.monotone_probability", "p is monotone"
    potential = _plain_potential(who, composite)
    if not isinstance(potential, (CompositeSigmoid, CompositeSoftmax)):
        raise TypeError(f"{who}: expected a composite Sigmoid or Softmax, got {composite!r}.")
    where_, q = _interval(who, domain, potential.domain), potential.scaling
    below, above = (_score_with_sign(q, where_, sign) for sign in (-1, 1))
    if below is not None and above is not None:
        found = _bounds(q, below), _bounds(q, above)
        shown = _told_apart(*found) or ("", "")
        first, second = (f"q({_exact(z)})" for z in (below, above))
        text = f"{first} = {shown[0]} < 0 < {second} = {shown[1]}" if all(shown) else f"{first} < 0 < {second}"
        how = "p falls where q < 0 and rises where q > 0"
        witness = Witness(text, (below, above), (_middle(found[0]), _middle(found[1])))
        return Refuted(statement, where_, how, witness=witness)
    for sign, words in ((1.0, "q >= 0: p increases"), (-1.0, "q <= 0: p decreases")):
        # what is stored is of the one search that found a proof, whichever sign that had
        proof, how, boxes = _sign_kept(q, sign, where_, replace(effort or Effort()))
        if proof is not None:
            return Proved(statement, where_, f"{words}{how}", boxes, (proof,))
    how = BY_INTERVALS if _has_intervals() else NEEDS_PROOFS
    return Undecided(statement, where_, how, remains="no change of sign of q was found, nor a proof that there is none")


@_remembered
def odd(loss: Any, about: float = 0.0, *, effort: Effort | None = None) -> Certificate:
    """Does a loss not care about signs: L(-s_hat, -s) = L(s_hat, s)? Pairwise losses need it.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        What to look at.
    about : float
        The score to reflect at.
    effort : Effort, optional
        How long to look for two scores whose reflection costs something else.

    Examples
    --------
    >>> import selmatch as sm
    >>> bool(sm.certify.odd(sm.Sinh())), bool(sm.certify.odd(sm.Exp()))
    (True, False)
    >>> bool(sm.certify.odd(sm.Sigmoid().affine(beta=2.0), about=2.0))
    True
    """
    who = "certify.odd"
    potential = _plain_potential(who, loss)
    statement = "the loss is odd-symmetric" + (f" about {about:g}" if about else "")
    link = _curve_of(who, potential)
    known = is_known(link) or (isinstance(link, Formula) and is_ours(link))
    if known and (is_straight(link) or link.centre == about):
        if not isinstance(potential, CompositeSoftmax):
            how = "half a turn takes the link onto itself"
            return Proved(statement, potential.domain, how, evidence=(Reflection(link, about),))
        if float(link(about)) == 0.0 and potential.rho is None:
            how = "q is odd about that score, so Q is even"
            return Proved(statement, potential.domain, how, evidence=(Reflection(link, about),))
    return _asymmetry(statement, potential, about, effort or Effort())


@_remembered
def flat(loss: Any, domain: Any = None) -> Certificate:
    """Does a loss not care at all about moves inside a region (of one score, for many classes)?

    Examples
    --------
    >>> import selmatch as sm
    >>> print(sm.certify.flat(sm.SmeLU(c=2.0), (2, 9)))
    Proved: moves cost nothing on [2, 9] (SmeLU is constant there).
    >>> print(sm.certify.flat(sm.Sigmoid(), (2, 9)))
    Refuted: moves cost nothing on [2, 9] (h(2) = 0.880797 < h(9) = 0.999877; evaluated in double precision).
    """
    who, statement = "certify.flat", "moves cost nothing"
    potential = _plain_potential(who, loss)
    curve = _curve_of(who, potential)
    where_ = _interval(who, domain, potential.domain)
    still = Stillness(curve, where_.low, where_.high)
    if is_known(curve) and any(part.covers(where_) for part in _constant_parts(potential, curve)):
        return Proved(statement, where_, f"{type(curve).__name__} is constant there", evidence=(still,))
    points = sample_points(curve, where_)
    values = evaluated(curve, points)
    if not np.isnan(values).all():
        (va, a), (vb, b) = ((float(values[i]), float(points[i])) for i in (np.nanargmin(values), np.nanargmax(values)))
        if vb - va > MARGIN * (abs(va) + abs(vb)) and _falls_certainly(curve, (b, a)) is not False:
            text, found = _compared("h", curve, (a, b), "<")
            return Refuted(statement, where_, "evaluated in double precision", witness=Witness(text, (a, b), found))
    if _has_intervals() and not isinstance(potential, CompositeSoftmax) and _is_checked(still):
        return Proved(statement, where_, BY_INTERVALS, evidence=(still,))
    remains = "the values agree to 11 digits, which is no proof that they are equal"
    remains = "no value could be computed" if np.isnan(values).all() else remains
    return Undecided(statement, where_, "by evaluation" if _has_intervals() else NEEDS_PROOFS, remains=remains)


def flat_regions(loss: Any, domain: Any = None) -> tuple[Certificate, ...]:
    """The regions in which moves cost nothing, each with its proof; none if there are none.

    Examples
    --------
    >>> import selmatch as sm
    >>> [str(region.domain) for region in sm.certify.flat_regions(sm.Sinh().capped(-3.0, 3.0))]
    ['(-inf, -3]', '[3, inf)']
    """
    who = "certify.flat_regions"
    potential = _plain_potential(who, loss)
    curve = _curve_of(who, potential)
    where_ = _interval(who, domain, potential.domain)
    if is_known(curve):
        parts = [part.overlap(where_) for part in _constant_parts(potential, curve)]
    else:
        parts = _calm_stretches(curve, where_)
    found = (flat(potential, part) for part in parts if part is not None)
    return tuple(certificate for certificate in found if certificate)


# -------------------------------------------------------------------------------------------------------- thresholds


def largest_gamma(scaling: Curve, domain: Any = None, offset: float = 0.0) -> Enclosure:
    """The largest gamma for which the composite Sigmoid of a scaling is convex, between two certified numbers.

    Infinite for scalings with a convex Q, and 0 where no gamma will do.

    Examples
    --------
    >>> import selmatch as sm
    >>> enclosure = sm.certify.largest_gamma(sm.Cosh())
    >>> 1.325281340017050 in enclosure, enclosure.width < 1e-9
    (True, True)
    """
    from selmatch.thresholds import largest_gamma

    _plain_curve("certify.largest_gamma", scaling)
    return largest_gamma(scaling, _interval("certify.largest_gamma", domain, scaling.domain), float(offset))


def smallest_c(d: float, gamma: float = 1.0) -> Enclosure:
    """The smallest c for which the composite Sigmoid with q = |x|^d + c is convex, between two certified numbers.

    Examples
    --------
    >>> import selmatch as sm
    >>> 2.0**0.5 in sm.certify.smallest_c(d=1.0, gamma=1.0)
    True
    """
    from selmatch.thresholds import smallest_c

    return smallest_c(d, gamma)


# ------------------------------------------------------------------------------------------------- what is looked at


def _plain_potential(who: str, loss: Any) -> Any:
    potential = potential_of(who, loss)
    if not has_plain_numbers(potential):
        raise TypeError(f"{who}: the parameters must be plain numbers, got {potential!r}. Convert arrays with float().")
    return potential


def _plain_curve(who: str, curve: Any) -> None:
    require_curve(who, "its argument", curve)
    _plain_potential(who, curve)


def _interval(who: str, domain: Any, within: Interval) -> Interval:
    """The part of a curve's domain that a user asks about."""
    if domain is None:
        return within
    low, high = pair(who, "domain", domain, infinite=True)
    inside = within.overlap(domain if isinstance(domain, Interval) else Interval(low, high))
    if inside is None:
        raise ValueError(
            f"{who}: domain must share a part with {within}, where the curve is defined, got ({low:g}, {high:g})."
        )
    return inside


@functools.cache
def _has_intervals() -> bool:
    try:
        import selmatch.arrays.interval  # noqa: F401
    except ImportError:
        return False
    return True


# --------------------------------------------------------------------------------------------- monotone links, convex Q


def _decided(
    statement: str, curve: Curve, domain: Interval, witness_of: Any, effort: Effort | None, of_loss: bool = True
) -> Certificate:
    """Structure first, then a quick look for a fall, then a search that ends with a proof or a fall.

    ``of_loss``: whether it is about an integral of the curve, to which a single score makes no difference.
    """
    how = why_non_decreasing(curve, domain.low, domain.high)
    if how:
        return Proved(statement, domain, how, evidence=(Structure(curve, domain.low, domain.high),))
    effort = effort or Effort()
    fall = sampled_fall(curve, domain, effort)
    certain = _falls_certainly(curve, fall, domain if of_loss else None)
    if fall is not None and certain is not False:
        how = "evaluated with rigour" if certain else "evaluated in double precision"
        return Refuted(statement, domain, how, witness=witness_of(curve, *fall, domain))
    if not _has_intervals():
        return Undecided(statement, domain, NEEDS_PROOFS, remains="no fall was found at sampled scores")
    from selmatch.proving import search_fall

    try:
        verdict = search_fall(curve, domain.low, domain.high, effort)
    except Exception as error:  # a user's formula may do anything
        remains = f"the formula does not run on ranges ({type(error).__name__}: {error})"
        return Undecided(statement, domain, BY_INTERVALS, remains=remains)
    how = f"{BY_INTERVALS}, {verdict.boxes} box{'' if verdict.boxes == 1 else 'es'}"
    if verdict.holds:
        return Proved(statement, domain, how if verdict.boxes else "by structure", verdict.boxes, verdict.evidence)
    suspect = verdict.jump if verdict.negative is None else verdict.negative
    falls = [] if suspect is None else [fall_around(curve, suspect, domain)]
    falls += [part for part in verdict.left[:8] if part[1] - part[0] < 1e-6]  # across a jump that could not be cut
    for fall in falls:
        if (
            fall is not None
            and all(domain.holds(z, interior=True) for z in fall)
            and _falls_certainly(curve, fall, domain if of_loss else None)
        ):
            return Refuted(statement, domain, how, witness=witness_of(curve, *fall, domain))
    if verdict.negative is not None and domain.holds(verdict.negative):
        from selmatch.pointwise import negative_slope

        at_most = negative_slope(curve, verdict.negative)
        if at_most is None:  # rounding has moved the score on its way through the parts of the curve
            remains = f"a fall about {verdict.negative:g}, but at no single score"
            return Undecided(statement, domain, how, remains=remains)
        try:
            for part in _all_parts(curve):
                if not is_ours(part):
                    asked = domain if part is curve else part.domain
                    formula_of(part, part, asked.low, asked.high)
        except Unverified as error:
            return Undecided(statement, domain, how, remains=f"a fall was found but not verified: {error}")
        return Refuted(statement, domain, how, witness=_slope_witness(curve, verdict.negative, at_most))
    if verdict.jump is not None:
        remains = f"a fall of at most {verdict.fall:.2g} at {verdict.jump:g}, where a branch of the formula begins"
        return Undecided(statement, domain, how, remains=remains)
    if verdict.unverified:
        return Undecided(statement, domain, how, remains=f"a proof was found but not verified: {verdict.unverified}")
    return Undecided(statement, domain, how, remains=_open_parts(verdict.left or [(domain.low, domain.high)]))


#: what a loss is computed from, besides the formula of a curve
_LOSS_METHODS = ("primitive", "increment", "difference", "remainder")


def _unless_own(curve: Curve, certificate: Certificate) -> Certificate:
    """A proof about a formula says nothing of a loss that a user's class computes in another way."""
    if not isinstance(certificate, Proved):
        return certificate
    own = sorted({name for part in _all_parts(curve) for name in _LOSS_METHODS if _is_own(part, name)})
    if not own:
        return certificate
    remains = f"the formula never decreases, but the loss comes from {' and '.join(own)} of the class itself"
    return Undecided(certificate.statement, certificate.domain, certificate.how, remains=remains)


def _all_parts(curve: Curve) -> Iterator[Curve]:
    yield curve
    for part in parts_of(curve):
        yield from _all_parts(part)


def _is_own(curve: Curve, name: str) -> bool:
    return not is_ours(curve) and getattr(type(curve), name, None) is not getattr(Curve, name, None)


def _falls_certainly(curve: Curve, fall: tuple[float, float] | None, of_loss_on: Interval | None = None) -> bool | None:
    """Whether a fall stands up to rigorous rounding, for a loss also next to the scores; None if that is not known."""
    if fall is None or not _has_intervals():
        return None
    from selmatch.pointwise import certainly_falls, falls_beside

    try:
        return certainly_falls(curve, *fall) and (of_loss_on is None or falls_beside(curve, *fall, of_loss_on))
    except Exception:  # a user's formula may do anything
        return None


def _slope_witness(curve: Curve, z: float, at_most: float) -> Witness:
    what = "q' + (1 - p) q^2 / gamma" if isinstance(curve, CompositeSigmoid) else "the slope"
    bound = _UPWARDS.create_decimal_from_float(at_most)
    size = f"at most {float(bound):g}" if at_most else "negative, though smaller than any float"
    return Witness(f"at {_exact(z)} {what} is {size}", (z,), (at_most,))


def _open_parts(left: list[tuple[float, float]]) -> str:
    if all(f"{a:g}" == f"{b:g}" for a, b in left):
        return f"nothing could be shown around {' and '.join(f'{a:g}' for a, _ in left[:3])}"
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return f"nothing could be shown on {' and '.join(str(Interval(a, b)) for a, b in left[:3])}{more}"


def _fall_witness(curve: Curve, a: float, b: float, domain: Interval, name: str = "h") -> Witness:
    text, values = _compared(name, curve, (a, b), ">")
    return Witness(text, (a, b), values)


def _compared(name: str, curve: Curve, scores: tuple[float, float], sign: str) -> tuple[str, tuple[float, float]]:
    """The values of a curve at two scores, with as many digits as it takes to see which is larger, and no false one."""
    found = _bounds(curve, scores[0]), _bounds(curve, scores[1])
    first, second = (f"{name}({_exact(z)})" for z in scores)
    values = _middle(found[0]), _middle(found[1])
    shown = _told_apart(*found)
    return (f"{first} = {shown[0]} {sign} {second} = {shown[1]}" if shown else f"{first} {sign} {second}"), values


def _told_apart(a: tuple[float, float], b: tuple[float, float]) -> tuple[str, str] | None:
    """Two numbers, each between two bounds, with the six digits or more that tell them apart, if these are certain."""
    pairs = ((_digits(*a, n), _digits(*b, n)) for n in range(6, 18))
    return next((pair for pair in pairs if all(pair) and pair[0] != pair[1]), None)


def _bounds(curve: Curve, z: float) -> tuple[float, float]:
    """What the value of a curve at a score lies between; where that is not known, the value in double precision."""
    if _has_intervals():
        from selmatch.pointwise import value_range

        low, high = value_range(curve, z)
        if -_SMALLEST < low <= 0.0 <= high < _SMALLEST:
            return 0.0, 0.0
        if high - low <= 1e-6 * abs(low) + _SMALLEST:
            return low, high
    value = number_at(curve, z)
    return value, value


def _middle(bounds: tuple[float, float]) -> float:
    return 0.5 * bounds[0] + 0.5 * bounds[1]


def _digits(low: float, high: float, digits: int) -> str:
    """A number between two bounds, with so many digits; empty if not all are certain."""
    text = f"{low:.{digits}g}"
    return text if text == f"{high:.{digits}g}" else ""


def _exact(z: float) -> str:
    return f"{z:g}" if float(f"{z:g}") == z else repr(z)


def _divergence_witness(scaling: Curve, a: float, b: float, domain: Interval, classes: int = 1) -> Witness:
    """Of a fall of q from a to b: an observed and a predicted score with a negative divergence of Q."""
    if not _has_intervals() or any(_is_own(part, "primitive") for part in _all_parts(scaling)):
        return _fall_witness(scaling, a, b, domain, "q")
    from selmatch.pointwise import divergence

    low, high = scaling.window()
    middle, unit = 0.5 * (low + high), (high - low) / 8.0
    # whole steps of the curve's own x make a witness that is easy to check by hand
    simple = [(middle + way * k * unit, middle + way * (k + 1) * unit) for k in range(1, 4) for way in (-1.0, 1.0)]
    for s, s_hat in (*simple, (a, b), (b, a)):
        if domain.holds(s, interior=True) and domain.holds(s_hat, interior=True):
            least, value = divergence(scaling, s, s_hat)
            shown = f"{value:.6g}"
            if value < 0.0 and f"{least:.6g}" == shown:
                predicted, observed = (", ".join([_exact(z)] * classes) for z in (s_hat, s))
                text = f"D_Q({predicted}; {observed}) = {shown} < 0"
                if classes > 1:  # where all scores are equal the loss is the divergence of Q
                    text = f"L(s_hat = ({predicted}), s = ({observed})) = {shown} < 0, with every gamma"
                return Witness(text, (s, s_hat), (value,))
    return _fall_witness(scaling, a, b, domain, "q")


_diagonal_witness = functools.partial(_divergence_witness, classes=2)


def _convex_softmax(
    statement: str, potential: CompositeSoftmax, domain: Interval, effort: Effort | None
) -> Certificate:
    """For many classes a convex Q is sufficient and, without an anchor, necessary."""
    found = _decided(statement, potential.scaling, domain, _diagonal_witness, effort)
    found = _unless_own(potential.scaling, found)
    if isinstance(found, Proved):
        return Proved(statement, domain, f"Q is convex: {found.how}", found.boxes, found.evidence)
    if isinstance(found, Refuted) and potential.anchor is not None:
        remains = "Q is not convex; with an anchor that is not enough to refute"
        return Undecided(statement, domain, found.how, remains=remains)
    return found


def _convex_in_logits(who: str, potential: Any, domain: Any, canonicalise: str, effort: Effort | None) -> Certificate:
    """Logits less the teacher's favourite are linear in the logits; log-probabilities are not."""
    if not isinstance(potential, CompositeSoftmax | Separable):
        raise TypeError(
            f"{who}: canonicalise must be None for a loss of single scores, got {canonicalise!r} for {potential!r}. "
            "For many classes: CompositeSoftmax(scaling)."
        )
    logits, curve = _interval(who, domain, Interval()), _curve_of(who, potential)
    if canonicalise == "log_probabilities":
        statement = "the loss is convex in the student's logits, which become log-probabilities,"
        below = Interval(-math.inf, 0.0)
        blind = is_known(curve) and getattr(potential, "anchor", None) is None
        if blind and any(part.covers(below) for part in curve.flat_regions()):
            how = f"{type(curve).__name__} is constant there, so the loss sees no levels"
            return Proved(statement, logits, how, evidence=(Stillness(curve, below.low, below.high),))
    else:
        statement = "the loss is convex in the student's logits, less that of the teacher's best class,"
        reach = logits.high - logits.low
        moves = Interval(-reach, reach).overlap(potential.domain)
        found = None if moves is None else convex(potential, moves, effort=effort)
        if isinstance(found, Proved):
            how = f"scores are linear in the logits; {found.how}"
            return Proved(statement, logits, how, found.boxes, found.evidence)
    witness = None
    if effort is None or not effort.is_over():
        from selmatch.logits import search_witness

        witness = search_witness(potential, curve, canonicalise, logits)
    how = "evaluated in double precision"
    if witness is None:
        return Undecided(statement, logits, how, remains="neither a proof nor a witness was found")
    return Refuted(statement, logits, how, witness=witness)


# ----------------------------------------------------------------------------------------------- signs and symmetries


def _score_with_sign(q: Curve, domain: Interval, sign: int) -> float | None:
    """A score at which q certainly has a sign: one of the sampled ones where it is largest."""
    points = sample_points(q, domain)
    values = sign * evaluated(q, points)
    values[~np.isfinite(values)] = -math.inf
    largest = np.argsort(-values, kind="stable")[:4]
    scores = (float(points[i]) for i in largest if values[i] > 0)
    return next((z for z in scores if _sign_at(q, z) == sign), None)


def _sign_at(q: Curve, z: float) -> int:
    """The sign of q at a score and next to it, with rigour where that is possible; 0 if it is not the same."""
    if _has_intervals():
        from selmatch.pointwise import certain_sign

        try:
            return certain_sign(q, z)
        except Exception:  # a user's formula may do anything
            pass
    values = [number_at(q, t) for t in (math.nextafter(z, -math.inf), z, math.nextafter(z, math.inf))]
    return int(all(value > 0.0 for value in values)) - int(all(value < 0.0 for value in values))


def _sign_kept(q: Curve, sign: float, domain: Interval, effort: Effort) -> tuple[Sign | None, str, int]:
    """Evidence that sign * q >= 0 on a domain, or None; how that is known, and with how many boxes."""
    proof = Sign(q, domain.low, domain.high, sign)
    if proof.is_structural():
        return proof, "", 0
    if not _has_intervals():
        return None, "", 0
    if why_non_decreasing(q, domain.low, domain.high) and _is_checked(proof):
        end = domain.low if sign > 0 else domain.high
        return proof, f", since q does not decrease and is {number_at(q, end):.6g} at {end:g}", 0
    from selmatch.proving import keeps_sign

    try:
        verdict = keeps_sign(q, sign, domain.low, domain.high, effort)
    except Exception:  # a user's formula may do anything
        return None, "", 0
    proof = replace(proof, cuts=tuple(sorted(verdict.cuts)))
    held = (verdict.holds or verdict.stored) and _is_checked(proof)
    return proof if held else None, f", {BY_INTERVALS}", verdict.boxes


def _is_checked(proof: Any) -> bool:
    try:
        proof.check()
    except Unverified:
        return False
    return True


#: relative error that a loss without closed forms may have
_ACCURACY = 1e-9
#: a search ends after so many losses that are infinite or not known, since finding that out takes long
_MOST_UNSURE = 3


def _asymmetry(statement: str, potential: Any, about: float, effort: Effort) -> Certificate:
    """A pair of scores whose reflection costs something else."""
    scalar = isinstance(potential, Curve)
    reach = min(4.0, *(math.fabs(end - about) for end in (potential.domain.low, potential.domain.high)))
    steps = np.array([0.9, 0.7, 0.5, 0.3, 0.2]) * reach
    worst, witness, pairs, unsure = 0.0, None, 0, 0
    for u, v in itertools.product((*steps, *-steps), (*steps, 0.0, *-steps)):
        if effort.is_over():
            break
        values, ranges = [], []
        for way in (1.0, -1.0):
            s, s_hat = (np.array([about + way * t, about]) for t in (v, u))
            s, s_hat = (float(s[0]), float(s_hat[0])) if scalar else (s, s_hat)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # where quadrature is not sure, nothing is known
                values.append(number_at(lambda x, y=s_hat: potential.remainder(x, y - x, y), s))
            level = max(abs(number_at(potential, s)), abs(number_at(potential, s_hat))) if scalar else 0.0
            error = _ACCURACY * abs(values[-1]) + 1e-15 * level * reach
            ranges.append((values[-1] - error, values[-1] + error))
            if not math.isfinite(values[-1]):
                break
        if not math.isfinite(values[-1]):
            unsure += 1
            if unsure > _MOST_UNSURE:
                break
            continue
        pairs += 1
        gap, shown = math.fabs(values[0] - values[1]), _told_apart(*ranges)
        if gap > worst and shown:
            worst = gap
            a, b, c, d = about + u, about + v, about - u, about - v
            other = "" if scalar else " (the other class at the centre)"
            text = f"L({a:g}, {b:g}) = {shown[0]}, but L({c:g}, {d:g}) = {shown[1]}{other}"
            witness = Witness(text, (float(b), float(a)), (values[0], values[1]))
    if witness is not None:
        return Refuted(statement, potential.domain, "evaluated in double precision", witness=witness)
    several = "1 pair of scores agrees" if pairs == 1 else f"{pairs} pairs of scores agree"
    remains = f"{several} with the reflection to 9 digits, which proves no equality"
    return Undecided(statement, potential.domain, "by evaluation", remains=remains)


# --------------------------------------------------------------------------------------------------------- flat regions


def _curve_of(who: str, potential: Any) -> Curve:
    """The curve that decides where moves cost nothing: the link, or for many classes the scaling."""
    if isinstance(potential, Curve):
        return potential
    if isinstance(potential, CompositeSoftmax):
        return potential.scaling
    if isinstance(potential, Separable):
        return potential.curve
    raise TypeError(f"{who}: expected a matching loss with one link, a potential or a curve, got {potential!r}.")


def _constant_parts(potential: Any, curve: Curve) -> tuple[Interval, ...]:
    parts = curve.flat_regions()
    if not isinstance(potential, CompositeSoftmax):
        return parts
    return tuple(part for part in parts if float(curve(part.point())) == 0.0)  # where Q is constant too


def _calm_stretches(curve: Curve, domain: Interval) -> list[Interval]:
    """Where a curve of which only the formula is known has equal values at neighbouring sampled scores."""
    points = sample_points(curve, domain)
    values = evaluated(curve, points)
    stretches: list[Interval] = []
    for a, b, still in zip(points, points[1:], values[1:] == values[:-1], strict=False):
        if not still:
            continue
        if stretches and stretches[-1].high == a:
            stretches[-1] = Interval(stretches[-1].low, float(b))
        else:
            stretches.append(Interval(float(a), float(b)))
    return stretches
