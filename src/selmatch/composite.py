"""Composite Sigmoid and Softmax, and separable potentials: losses for one or many classes from a scaling q."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from selmatch import functions
from selmatch.algebra import Affine, require_curve, scaling_from
from selmatch.arrays import pytrees
from selmatch.arrays.effort import Effort
from selmatch.curve import Curve, Interval
from selmatch.curves import Constant, Sigmoid
from selmatch.functions import (
    abs,
    end,
    exp,
    expm1,
    is_number,
    like,
    log,
    log1p,
    maximum,
    minimum,
    namespace_of,
    not_negative,
    overflowing,
    rounded_once,
    row_max,
    row_sum,
    scaled_phi,
    sigmoid,
    sigmoid_times,
    softplus,
    sqrt,
    square,
    where,
    within,
)
from selmatch.parameters import LEAF, POSITIVE, has_plain_numbers, keep, numbers, parameter

Array = Any


# --------------------------------------------------------------------------------------------------------- scalar


@dataclass(frozen=True, repr=False, init=False)
class CompositeSigmoid(Curve):
    r"""A scalar loss whose sensitivity is drawn by a scaling q.

    .. math:: p(z) = \sigma(Q(z)/\gamma), \qquad h(z) = q(z) p(z), \qquad H(z) = \gamma \log(1 + e^{Q(z)/\gamma})

    The constant of Q changes the loss: ``offset`` adds to the constant that the scaling's primitive carries. A convex
    Q (increasing q) always gives a convex loss; others are accepted up to their exact gamma.

    Parameters
    ----------
    scaling : Curve
        The scaling q; or give its antiderivative ``Q``, or the score-transform ``f`` = e^Q.
    gamma : float
        Regularisation, > 0.
    offset : float
        Added to Q.
    check : bool
        False builds a loss that is known not to be convex, for figures and research.

    Examples
    --------
    >>> MatchingLoss(CompositeSigmoid(Sinh()))(1.0, 0.0)
    0.42351...
    """

    scaling: Curve = field(metadata=LEAF)
    gamma: Any = field(default=1.0, metadata=POSITIVE)
    offset: Any = field(default=0.0, metadata=LEAF)
    check: bool = True

    def __init__(self, scaling=None, gamma=1.0, offset=0.0, check=True, *, Q=None, f=None):
        keep(
            self,
            scaling=scaling_from("CompositeSigmoid", scaling, Q, f),
            gamma=parameter("CompositeSigmoid", "gamma", gamma, above=0.0),
            offset=parameter("CompositeSigmoid", "offset", offset),
            check=bool(check),
        )
        if self.check:
            _require_convex_sigmoid(self)

    def __repr__(self):
        return _short_repr(self)

    @property
    def domain(self):
        return self.scaling.domain

    @property
    def range(self):
        # towards an infinite end either p tends to 1 and h to the end of q, or p tends to 0 faster than q grows
        domain, q = self.domain, self.scaling.range
        open_low, open_high = domain.open_low or math.isinf(domain.low), domain.open_high or math.isinf(domain.high)
        low = min(q.low, 0.0) if open_low else self(domain.low)
        high = max(q.high, 0.0) if open_high else self(domain.high)
        return Interval(low, high, open_low, open_high)

    @property
    def odd(self):
        return self.scaling.odd  # Q is then even

    @property
    def increasing(self):
        return True if self.scaling.increasing is True else self._within_largest_gamma()

    def _within_largest_gamma(self) -> bool | None:
        """Whether gamma is small enough for a scaling that is not increasing; None if no threshold is known."""
        known = is_number(self.gamma) and is_number(self.offset) and self.offset == 0.0
        largest = self.scaling.largest_gamma
        if not known or self.scaling.increasing is not False or not is_number(largest) or largest == 0.0:
            return None
        return self.gamma <= largest

    @property
    def scale(self):
        return self.scaling.scale

    @property
    def bounded(self):
        return self.scaling.bounded

    def holds(self, z, *, interior=False):
        return self.scaling.holds(z, interior=interior)

    def flat_regions(self):
        # a constant q other than 0 still moves p
        return tuple(part for part in self.scaling.flat_regions() if self.scaling(part.point()) == 0.0)

    def point(self):
        return self.scaling.point()

    def window(self):
        return self.scaling.window()

    def logit(self, z: Array) -> Array:
        """Q(z) / gamma."""
        return (self.scaling.primitive(z) + self.offset) / self.gamma

    def prob(self, z: Array) -> Array:
        """The composite probability p(z)."""
        return sigmoid(self.logit(z))

    def __call__(self, z):
        return sigmoid_times(self.logit(z), self.scaling(z))

    def primitive(self, x):
        return self.gamma * softplus(self.logit(x))

    def score_transform(self, z):
        return exp(self.scaling.primitive(z) + self.offset)

    def bracket(self, steep: Array, y: Array, q: Array) -> Array:
        """The factor that decides the sign of the slope, q' + (1 - p) q^2 / gamma, from q', Q/gamma and q."""
        return steep + sigmoid(-y) * square(q) / self.gamma

    def slope(self, x):
        wide = x if self.scaling.increasing is True else _double(x)  # only then both terms have one sign
        y, q = self.logit(wide), self.scaling(wide)
        slope = sigmoid_times(y, self.bracket(self.scaling.slope(wide), y, q))
        return slope if wide is x else namespace_of(x).cast(slope, x)

    def parts(self, x: Array, u: Array, xh: Array = None) -> tuple[Array, Array]:
        """The loss as ranking part (Kullback-Leibler divergence of p) and region part (divergence of Q)."""
        xh = end(x, u, xh)
        y = self.logit(x)
        ranking = Sigmoid().remainder(y, self._logit_move(x, u, xh, y), self.logit(xh))
        region = sigmoid_times(y, self.scaling.remainder(x, u, xh))
        return self.gamma * overflowing(ranking, u), overflowing(region, u)

    def _logit_move(self, x: Array, u: Array, xh: Array, y: Array) -> Array:
        """The move of Q / gamma from y; any long one from where p is 0 or 1 whatever comes, and Q may be infinite."""
        return where(abs(y) < _CERTAIN, self.scaling.increment(x, u, xh) / self.gamma, _LONG)

    def remainder(self, x, u, xh=None):
        xh = end(x, u, xh)
        ranking, region = self.parts(x, u, xh)
        if self.scaling.increasing is True:
            return ranking + region
        # the parts may have opposite signs, and overflow where the loss does not
        there, here, line = self.primitive(xh), self.primitive(x), u * self(x)
        smaller = abs(ranking) + abs(region) <= abs(there) + abs(here) + abs(line)
        value = where(smaller, ranking + region, (there - here) - line)
        return not_negative(value) if self.check else value

    def difference(self, x, u, xh=None):
        xh = end(x, u, xh)
        move = self._product_move(x, u, xh, self.scaling(x), self.scaling(xh), self.scaling.difference(x, u, xh))
        return overflowing(move, u, signed=True)

    def _product_move(self, x: Array, u: Array, xh: Array, q: Array, qh: Array, e: Array) -> Array:
        """qh p(xh) - q p(x) for a factor that moves by e from q to qh."""
        y, yh = self.logit(x), self.logit(xh)
        v = self._logit_move(x, u, xh, y)
        lean = expm1(within(v, 1.0)) * sigmoid(-yh)  # p(xh) / p(x) - 1
        close = sigmoid_times(y, e + qh * lean)
        # two ways to split the difference of a product; the one with the smaller terms cancels less
        move = Sigmoid().difference(y, v, yh)
        early, late = (sigmoid(y) * e, qh * move), (sigmoid(yh) * e, q * move)
        first = abs(early[0]) + abs(early[1]) <= abs(late[0]) + abs(late[1])
        split = where(first, early[0] + early[1], late[0] + late[1])
        rare = (y < 0) & ((yh < 0) | (y < -_CERTAIN))  # where p may be too small to be formed
        far = where(rare, sigmoid_times(yh, qh) - sigmoid_times(y, q), split)
        return where(abs(v) <= 1.0, close, far)

    def cross_entropy(self, x: Array, u: Array, xh: Array = None) -> Array:
        """gamma times the cross-entropy of p(x + u) under p(x)."""
        return self.gamma * _binary_cross_entropy(self.logit(x), self.logit(end(x, u, xh)))

    def cross_entropy_gradient(self, x: Array, u: Array, xh: Array = None) -> Array:
        """The derivative of :meth:`cross_entropy` with respect to u."""
        xh = end(x, u, xh)
        q = self.scaling(xh)
        return self._product_move(x, u, xh, q, q, 0.0 * q)


def _binary_cross_entropy(y: Array, yh: Array) -> Array:
    """The cross-entropy of two probabilities, from their log-odds."""
    return sigmoid_times(y, softplus(-yh)) + sigmoid_times(-y, softplus(yh))


def plain_sigmoid(potential: Any) -> Curve | None:
    """The Sigmoid link without its gains, which is a probability; None for any other potential."""
    if isinstance(potential, Affine):
        inner = plain_sigmoid(potential.curve)
        return None if inner is None else Affine(inner, potential.alpha, potential.beta)
    return potential if isinstance(potential, Sigmoid) else None


def sigmoid_cross_entropy(link: Curve, x: Array, u: Array, xh: Array) -> Array:
    """The cross-entropy of a Sigmoid link times gain / alpha (eq. loss_CE_scalar): the link is in its gradient."""
    if isinstance(link, Affine):
        return link.gain / link.alpha * sigmoid_cross_entropy(link.curve, *link._move(x, u, xh))
    return _binary_cross_entropy(x, xh)


#: log-odds beyond which a probability is 0 or 1 in any precision
_CERTAIN = 1e30
#: a move of log-odds that is not short
_LONG = 2.0

# ------------------------------------------------------------------------------------------------------ many classes


class _Rows(NamedTuple):
    """What a composite Softmax knows of one point: in the units of Q the top level of Q + log rho, how far the others
    are below, and H; without units log p, root of p, the anchor's share."""

    top: Array
    gap: Array
    height: Array
    log_p: Array
    root: Array
    anchor: Array

    @property
    def p(self) -> Array:
        return self.root * self.root

    def times(self, factor: Array) -> Array:
        """p times a factor, also where p alone would underflow; 0 where p is 0, whatever the factor."""
        return where(self.root > 0.0, self.root * (self.root * factor), 0.0)


@dataclass(frozen=True, repr=False, init=False)
class CompositeSoftmax:
    r"""A loss for many classes: where accuracy matters from q, which class leads from the Softmax.

    .. math::
        p_k = \frac{\rho_k^{1/\gamma} e^{Q(z_k)/\gamma}}{\sum_j \rho_j^{1/\gamma} e^{Q(z_j)/\gamma}}, \qquad
        H = \gamma \log \sum_j \rho_j^{1/\gamma} e^{Q(z_j)/\gamma}, \qquad h_k = q(z_k) p_k

    Scores are on the last axis. Q must be convex; a constant q is the standard Softmax. Unlike that one, the loss
    depends on the level of the scores: adding a number to all of them changes it.

    Parameters
    ----------
    scaling : Curve
        The scaling q (default: constant 1); or give its antiderivative ``Q``, or the score-transform ``f`` = e^Q.
    gamma : float
        Regularisation, > 0.
    rho : sequence of float, optional
        Class biases, > 0.
    anchor : float, optional
        Log-score of an extra class that is always there and has no score of its own.
    check : bool
        False builds a loss that is known not to be convex, for figures and research.

    Examples
    --------
    >>> loss = MatchingLoss(CompositeSoftmax(Sinh().affine(alpha=0.5, beta=-1.0)))
    >>> loss([2.0, 0.0, -1.0], [1.0, 0.5, -1.0])
    0.62009...
    """

    scaling: Curve = field(metadata=LEAF)
    gamma: Any = field(default=1.0, metadata=POSITIVE)
    rho: Any = field(default=None, metadata=POSITIVE)
    anchor: Any = field(default=None, metadata=LEAF)
    check: bool = True

    def __init__(self, scaling=None, gamma=1.0, rho=None, anchor=None, check=True, *, Q=None, f=None):
        functions.register_loaded_frameworks()
        if scaling is None and Q is None and f is None:
            scaling = Constant()
        if rho is not None:
            checked = parameter if _is_framework_array(rho) else numbers
            rho = checked("CompositeSoftmax", "rho", rho, above=0.0)
        keep(
            self,
            scaling=scaling_from("CompositeSoftmax", scaling, Q, f),
            gamma=parameter("CompositeSoftmax", "gamma", gamma, above=0.0),
            rho=rho,
            anchor=None if anchor is None else parameter("CompositeSoftmax", "anchor", anchor),
            check=bool(check),
        )
        if self.check:
            _require_convex_primitive(self)

    def __repr__(self):
        return _short_repr(self)

    def _repr_html_(self) -> str:
        from selmatch.sketch import svg

        return svg(self)

    def holds(self, z: Array, *, interior: bool = False) -> Array:
        """Elementwise: is z in the domain of the scaling?"""
        return self.scaling.holds(z, interior=interior)

    def point(self) -> float:
        """A harmless score."""
        return self.scaling.point()

    @property
    def domain(self) -> Interval:
        """The domain of each score."""
        return self.scaling.domain

    @property
    def bounded(self) -> bool:
        """Whether the domain has a finite end."""
        return self.scaling.bounded

    # -------------------------------------------------------------------------------------------------- one point

    def logits(self, z: Array) -> Array:
        """(Q(z_k) + log rho_k) / gamma."""
        return self._levels(z) / self.gamma

    def _levels(self, z: Array) -> Array:
        """Q(z_k) + log rho_k."""
        y = self.scaling.primitive(z)
        if self.rho is not None:
            classes = len(self.rho)
            if z.shape[-1] != classes:
                raise ValueError(
                    f"CompositeSoftmax: scores must have {classes} classes on the last axis (as rho), "
                    f"got shape {tuple(z.shape)}."
                )
            y = y + log(like(self.rho, y))
        return y

    def _rows(self, z: Array, present: Array = None) -> _Rows:
        """Probabilities at z; classes that are not present have none."""
        # levels are subtracted before they are divided by gamma: the leading class is exactly 0 below itself, however a
        # compiler rounds the quotient, and Q / gamma may be too large for a number
        level = rounded_once(self._levels(z))
        if present is not None:
            level = where(present, level, -math.inf)
        top = row_max(level)
        if self.anchor is not None:
            top = maximum(top, self.anchor)
        beyond = where(abs(top) < math.inf, math.inf, top)  # infinite leaders share the row
        gap = where(level == beyond, 0.0, level - top)
        if present is not None:
            top = where(top > -math.inf, top, 0.0)  # nobody is present
            gap = where(present, gap, 0.0)
        far = gap / self.gamma
        root = exp(0.5 * far)
        if present is not None:
            root = where(present, root, 0.0)
        total = row_sum(root * root)
        fixed = 0.0 * total if self.anchor is None else exp((self.anchor - top) / self.gamma)
        total = total + fixed
        if present is not None:
            total = where(total > 0, total, 1.0)
        log_total = log(total)
        return _Rows(top, gap, top + self.gamma * log_total, far - log_total, root / sqrt(total), fixed / total)

    def _harmless(self, z: Array, present: Array) -> Array:
        """z with harmless scores behind the mask."""
        return z if present is None else where(present, z, self.point())

    def primitive(self, z: Array, where: Array = None) -> Array:
        """The potential H(z) of each row."""
        return self._rows(self._harmless(z, where), where).height[..., 0]

    def prob(self, z: Array, where: Array = None) -> Array:
        """The probabilities p_k(z)."""
        return self._rows(self._harmless(z, where), where).p

    def link(self, z: Array, where: Array = None) -> Array:
        """The link h_k(z) = q(z_k) p_k(z)."""
        z = self._harmless(z, where)
        return self._rows(z, where).times(self.scaling(z))

    def score_transform(self, z: Array) -> Array:
        """f(z_k) = e^Q(z_k)."""
        return self.scaling.score_transform(z)

    def slope(self, z: Array, where: Array = None) -> Array:
        """The sensitivity Delta_k: the diagonal of the Hessian."""
        z = self._harmless(z, where)
        wide = z if self.scaling.increasing is True else _double(z)  # only then both terms have one sign
        rows = self._rows(wide, where)
        slope = rows.times(self.scaling.slope(wide) + _others(rows) * square(self.scaling(wide)) / self.gamma)
        return slope if wide is z else namespace_of(z).cast(slope, z)

    def hessian(self, z: Array, where: Array = None) -> Array:
        """The Hessian of H, K by K on the last two axes: :meth:`slope` on the diagonal, -h_j h_k / gamma beside it."""
        wide, space = _double(z), namespace_of(z)
        h = self.link(wide, where) / self.gamma**0.5
        diagonal = space.diagonal_matrix(1.0 + 0.0 * wide) > 0.0
        return space.cast(
            functions.where(diagonal, space.diagonal_matrix(self.slope(wide, where)), -space.outer(h, h)), z
        )

    def hvp(self, z: Array, v: Array, where: Array = None) -> Array:
        """The Hessian times v, in O(K)."""
        rows, q, steep, wide = self._bends(z, v, where)
        spread, _ = _centred(rows, q * wide)
        product = rows.times(steep * wide) + rows.root * q * (rows.root * spread / self.gamma)
        return namespace_of(z).cast(product, z)

    def quadratic(self, z: Array, v: Array, where: Array = None) -> Array:
        """Half of v' Hessian v, of each row: the mean of q' v^2, and the variance of q v over gamma."""
        rows, q, steep, wide = self._bends(z, v, where)
        spread, fixed = _centred(rows, q * wide)
        variance = row_sum(square(rows.root * spread)) + rows.anchor * square(fixed)
        value = 0.5 * (row_sum(rows.times(steep * square(wide))) + variance / self.gamma)
        return namespace_of(z).cast(value[..., 0], z)

    def _bends(self, z: Array, v: Array, present: Array) -> tuple[_Rows, Array, Array, Array]:
        """Probabilities, q, q' and a direction, in double precision unless all terms of the Hessian have one sign."""
        z = self._harmless(z, present)
        if present is not None:
            v = where(present, v, 0.0)
        if self.scaling.increasing is not True:
            z, v = _double(z), _double(v)
        return self._rows(z, present), self.scaling(z), self.scaling.slope(z), v

    # ---------------------------------------------------------------------------------------------------- two points

    def _divergence(self, x: Array, u: Array, xh: Array, present: Array) -> _Divergence:
        """What a move from x to xh does to probabilities and to Q."""
        rows, rows_h = self._rows(x, present), self._rows(xh, present)
        rest = self.scaling.remainder(x, u, xh)
        move = rounded_once(self.scaling.increment(x, u, xh))
        if present is not None:
            move, rest = where(present, move, 0.0), where(present, rest, 0.0)
        # centred on the move of the likeliest class, so that equal moves give exactly 0; in the units of Q
        likely = rows.p >= row_max(rows.p)
        start = row_max(functions.where(likely, move, -math.inf))
        move = move - start
        mean = row_sum(rows.times(move))
        if self.anchor is not None:
            mean = mean - rows.anchor * start
        w = (move - mean) / self.gamma
        if present is not None:
            w = functions.where(present, w, 0.0)
        rise = start + mean  # of H, but for the divergence
        # from far below, the sum would be rounded at the size of the move
        far = (rows_h.gap + ((rows_h.top - rows.height) - rise)) / self.gamma
        grown = functions.where(abs(w) <= _SHORT, rows.log_p + w, far)
        excess = row_sum(_weighted_phi(rows.p, grown, w, present))
        if self.anchor is not None:
            excess = excess + _weighted_phi(
                rows.anchor, ((self.anchor - rows.height) - rise) / self.gamma, -rise / self.gamma
            )
        direct = (rows_h.height - rows.height) - rise
        fits = (excess >= 0.0) & (excess < _LARGE)
        kl = where(fits, log1p(where(fits, excess, 0.0)), direct / self.gamma)
        ranking = where(fits, self.gamma * kl, direct)
        unknown = (rows.height != rows.height) | (rows_h.height != rows_h.height)
        ranking = where((ranking > -math.inf) | unknown, ranking, math.inf)  # too large for the dtype
        lean = w - kl
        near = (abs(lean) <= 1.0) & (abs(w) <= _FAR)
        return _Divergence(rows, rows_h, ranking, rest, functions.where(near, lean, 0.0), near)

    def parts(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> tuple[Array, Array]:
        """The loss of each row as ranking part, gamma KL(p(x) to p(xh)), and region part, sum_k p_k D_Q."""
        move = self._divergence(x, u, end(x, u, xh), where)
        return move.ranking[..., 0], row_sum(move.rows.times(move.rest))[..., 0]

    def remainder(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> Array:
        """The matching loss of each row."""
        ranking, region = self.parts(x, u, xh, where)
        return ranking + region

    def difference(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> Array:
        """link(x + u) - link(x), the gradient of the loss."""
        return self.remainder_and_difference(x, u, xh, where)[1]

    def remainder_and_difference(
        self, x: Array, u: Array, xh: Array = None, where: Array = None
    ) -> tuple[Array, Array]:
        """Loss and gradient, sharing the probabilities."""
        xh = end(x, u, xh)
        move = self._divergence(x, u, xh, where)
        value = move.ranking + row_sum(move.rows.times(move.rest))
        q, qh, e = self.scaling(x), self.scaling(xh), self.scaling.difference(x, u, xh)
        gradient = move.change(q, qh, e)
        return value[..., 0], gradient if where is None else functions.where(where, gradient, 0.0)

    def cross_entropy(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> Array:
        """gamma times the cross-entropy of p(x + u) under p(x), of each row."""
        rows, rows_h = self._rows(x, where), self._rows(end(x, u, xh), where)
        total = row_sum(rows.times(_surprise(rows_h.p, _others(rows_h), -rows_h.log_p)))
        if self.anchor is not None:
            surprise = _surprise(rows_h.anchor, row_sum(rows_h.p), (rows_h.height - self.anchor) / self.gamma)
            total = total + rows.anchor * surprise
        return self.gamma * total[..., 0]

    def cross_entropy_gradient(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> Array:
        """The derivative of :meth:`cross_entropy` with respect to u."""
        xh = end(x, u, xh)
        q = self.scaling(xh)
        return self._divergence(x, u, xh, where).change(q, q, 0.0 * q)


class _Divergence(NamedTuple):
    """A move of a composite Softmax: both points, gamma KL(p(x) to p(xh)), the divergence of Q, and log p(xh) / p(x)
    where that is near 0."""

    rows: _Rows
    rows_h: _Rows
    ranking: Array
    rest: Array
    lean: Array
    near: Array

    def change(self, q: Array, qh: Array, e: Array) -> Array:
        """qh p(xh) - q p(x) for a factor that moves by e from q to qh."""
        here, there = self.rows.times(q), self.rows_h.times(qh)
        # of two infinite products the factors tell the difference
        far = where((abs(here) < math.inf) | (abs(there) < math.inf), there - here, self.rows.times(e))
        return where(self.near & (abs(qh) < math.inf), self.rows.times(e + qh * expm1(self.lean)), far)


#: moves of log-scores that may be added to a logarithm of a probability
_SHORT = 16.0
#: moves of log-scores beyond which their difference says nothing of a ratio of probabilities
_FAR = 1e3
#: above it the sum of weighted phi is left for the direct formula, in any precision
_LARGE = 1e30
#: 0 times it is 0 in any precision
_LOWEST = -1e37


def _weighted_phi(p: Array, log_grown: Array, w: Array, present: Array = None) -> Array:
    """p * phi(w) for log_grown = log(p) + w, also where phi alone would overflow; at most :data:`_LARGE` squared."""
    if present is not None:
        log_grown = where(present, log_grown, -math.inf)
    return scaled_phi(p, exp(minimum(log_grown, 80.0)), maximum(w, _LOWEST))


#: a probability that only one class can have, also after rounding
_LEADING = 0.6


def _others(rows: _Rows) -> Array:
    """1 - p_k, as the sum of the other probabilities where p_k is the leading one."""
    leading = rows.p > _LEADING
    return where(leading, row_sum(where(leading, 0.0, rows.p)) + rows.anchor, 1.0 - rows.p)


def _centred(rows: _Rows, x: Array) -> tuple[Array, Array]:
    """What x exceeds its mean under p by, of each class and of the anchor, whose x is 0.

    Counted from the x of a class that leads, so that 1 - p is never formed; else from the mean as first computed.
    """
    leading = rows.p > _LEADING
    leads = row_max(where(leading, 1.0 + 0.0 * rows.p, 0.0)) > 0.0
    start = where(leads, row_sum(where(leading, x, 0.0)), row_sum(rows.times(x)))
    beyond = x - start
    mean = row_sum(rows.times(beyond)) - rows.anchor * start
    return beyond - mean, -start - mean


def _surprise(p: Array, others: Array, direct: Array) -> Array:
    """-log p, from 1 - p where p is close to 1."""
    leading = p > _LEADING
    return where(leading, -log1p(-where(leading, others, 0.0)), direct)


def _double(z: Array) -> Array:
    """z in double precision, where that exists."""
    return namespace_of(z).double(z)


def _is_framework_array(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] in ("torch", "jax", "jaxlib")


@dataclass(frozen=True)
class Separable:
    r"""A loss for many outputs that are judged one by one: the sum of a curve's losses over the last axis.

    .. math:: H(z) = \sum_k H(z_k)

    The only way to low-norm sensitivity that does not depend on gamma; classes do not compete.

    Parameters
    ----------
    curve : Curve
        The link of every output.

    Examples
    --------
    >>> MatchingLoss(Separable(Identity()))([1.0, 2.0], [0.0, 0.0])
    2.5
    """

    curve: Curve = field(metadata=LEAF)

    def __post_init__(self):
        functions.register_loaded_frameworks()
        require_curve("Separable", "curve", self.curve)

    @property
    def domain(self) -> Interval:
        """The domain of each score."""
        return self.curve.domain

    @property
    def bounded(self) -> bool:
        """Whether the domain has a finite end."""
        return self.curve.bounded

    def holds(self, z: Array, *, interior: bool = False) -> Array:
        """Elementwise: is z in the domain?"""
        return self.curve.holds(z, interior=interior)

    def point(self) -> float:
        """A harmless score."""
        return self.curve.point()

    def _repr_html_(self) -> str:
        from selmatch.sketch import svg

        return svg(self)

    def primitive(self, z: Array, where: Array = None) -> Array:
        """The potential H(z) of each row."""
        return _sum_present(self.curve.primitive(z), where)

    def link(self, z: Array, where: Array = None) -> Array:
        """The link of each score."""
        return _present(self.curve(z), where)

    def slope(self, z: Array, where: Array = None) -> Array:
        """The diagonal of the Hessian, which has nothing else."""
        return _present(self.curve.slope(z), where)

    def hessian(self, z: Array, where: Array = None) -> Array:
        """The Hessian, a diagonal matrix on the last two axes."""
        return namespace_of(z).diagonal_matrix(self.slope(z, where))

    def hvp(self, z: Array, v: Array, where: Array = None) -> Array:
        """The Hessian times v."""
        return self.slope(z, where) * v

    def quadratic(self, z: Array, v: Array, where: Array = None) -> Array:
        """Half of v' Hessian v, of each row."""
        return _sum_present(0.5 * self.curve.slope(z) * square(v), where)

    def difference(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> Array:
        """link(x + u) - link(x)."""
        return _present(self.curve.difference(x, u, xh), where)

    def remainder(self, x: Array, u: Array, xh: Array = None, where: Array = None) -> Array:
        """The matching loss of each row."""
        return _sum_present(self.curve.remainder(x, u, xh), where)

    def remainder_and_difference(
        self, x: Array, u: Array, xh: Array = None, where: Array = None
    ) -> tuple[Array, Array]:
        """Loss and gradient."""
        rest, move = self.curve.remainder_and_difference(x, u, xh)
        return _sum_present(rest, where), _present(move, where)

    def inverse(self, y: Array) -> Array:
        """The scores with the given links."""
        return self.curve.inverse(y)


def _present(x: Array, present: Array) -> Array:
    return x if present is None else where(present, x, 0.0)


def _sum_present(x: Array, present: Array) -> Array:
    return row_sum(_present(x, present))[..., 0]


for _cls in (CompositeSoftmax, Separable):
    pytrees.announce(_cls)


def _short_repr(instance: Any) -> str:
    """The constructor call without the arguments that have their default."""
    parts = [repr(instance.scaling)]
    for name, default in (("gamma", 1.0), ("rho", None), ("offset", 0.0), ("anchor", None), ("check", True)):
        value = getattr(instance, name, default)
        if not ((is_number(value) or value is None) and value == default):
            parts.append(f"{name}={value!r}")
    return f"{type(instance).__name__}({', '.join(parts)})"


# -------------------------------------------------------------------------------------------------------- refusals


def scalar_loss_with(scaling: Curve) -> str:
    """A composite Sigmoid with a scaling that is not increasing, as an example for messages; empty if none is known."""
    if not scaling.largest_gamma > 0:
        return ""
    return f"CompositeSigmoid({scaling!r}, gamma={float(f'{0.55 * scaling.largest_gamma:.1g}'):g})"


def quickly() -> Effort:
    """How long to look for a proof when an object is made."""
    return Effort(boxes=200, seconds=0.5)


def usual_scores(curve: Curve) -> Interval:
    """The scores at which a curve of unknown behaviour must behave to be accepted: far beyond what is typical of it."""
    low, high = curve.window()
    reach = 4.0 * (high - low)
    return curve.domain.overlap(Interval(low - reach, high + reach)) or curve.domain


def _require_convex_primitive(softmax: CompositeSoftmax) -> None:
    from selmatch import certify

    scaling = softmax.scaling
    if scaling.increasing is True or not has_plain_numbers(scaling):
        return
    where_ = usual_scores(scaling)
    if softmax.anchor is None:
        found = certify.convex(softmax, where_, effort=quickly())
    else:
        found = certify.convex_primitive(scaling, where_, effort=quickly())
    if not isinstance(found, certify.Refuted):
        keep(softmax, _checked=found)
        return
    scalar = scalar_loss_with(scaling)
    remedy = (f"For one score: {scalar}. " if scalar else "") + "check=False builds the loss for research."
    also = "" if softmax.anchor is None else ", also with an anchor"
    raise ValueError(
        f"CompositeSoftmax: Q of {scaling!r} must be convex for many classes{also}, got {found.witness}. {remedy}"
    )


def _require_convex_sigmoid(curve: CompositeSigmoid) -> None:
    from selmatch import certify

    if curve.scaling.increasing is True or not has_plain_numbers(curve):
        return
    within = curve._within_largest_gamma()
    if within is False:
        raise ValueError(
            f"CompositeSigmoid: gamma must be <= {curve.scaling.largest_gamma:.10g} for {curve.scaling!r}, "
            f"got {curve.gamma}. check=False builds the loss for research."
        )
    found = None if within else certify.convex(curve, usual_scores(curve), effort=quickly())
    if found is not None:
        keep(curve, _checked=found)
    if isinstance(found, certify.Refuted):
        raise ValueError(
            f"CompositeSigmoid: the link of {curve.scaling!r} with gamma={curve.gamma} must not decrease, got "
            f"{found.witness}. check=False builds the loss for research."
        )
