"""Hessians of composite losses against their definition with many digits: leading classes, masks, anchors, gamma."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from references import exact_slope, exact_value, formulas

import selmatch as sm
from conftest import ARRAYS

SCALINGS = [
    sm.Constant(), sm.Sinh(), sm.Exp().affine(alpha=0.5, beta=1.0), sm.AntiExp(), sm.Tanh(), sm.SmeLU(c=2.0),
    sm.Sigmoid().affine(beta=1.0), sm.Identity(), sm.Huber(), sm.Cosh(), sm.AbsPower(d=2.5, c=0.5),
    sm.Identity() + sm.Tanh().affine(alpha=20.0, beta=0.3),
]  # fmt: skip
FRAMEWORKS = ["numpy", "torch", pytest.param("jax", marks=pytest.mark.slow)]
#: of the leading class over the others, in log-scores
LEADS = (0.0, 1e-3, 1.0, 10.0, 30.0, 40.0, 100.0, 400.0, 700.0)
ROOM = {"float64": 1e-13, "float32": 3e-6}


class Reference:
    """The Hessian of one row as it is defined, and the size of the terms that each entry is made of."""

    def __init__(self, potential, z, present=None):
        with mp.workdps(400):  # 1 - p of a lead of 700
            z = [mpf(float(v)) for v in z]
            classes = range(len(z)) if present is None else np.flatnonzero(present)
            Q = formulas(potential.scaling)[1]
            y = [Q(v) / mpf(potential.gamma) for v in z]
            if potential.rho is not None:
                y = [v + mpmath.log(mpf(r)) / mpf(potential.gamma) for v, r in zip(y, potential.rho, strict=True)]
            fixed = None if potential.anchor is None else mpf(potential.anchor) / mpf(potential.gamma)
            known = [y[k] for k in classes] + ([] if fixed is None else [fixed])
            top = max(known)
            total = mpmath.fsum(mpmath.exp(v - top) for v in known)
            self.p = [mpmath.exp(v - top) / total if k in classes else mpf(0) for k, v in enumerate(y)]
            self.anchor = mpf(0) if fixed is None else mpmath.exp(fixed - top) / total
            self.q = [exact_value(potential.scaling, v) for v in z]
            self.steep = [exact_slope(potential.scaling, v) for v in z]
            self.gamma, self.largest = mpf(potential.gamma), float(max(map(abs, known)))

    def product(self, v):
        """Entries of the Hessian times v, and their sizes."""
        with mp.workdps(400):
            qv = [q * mpf(float(x)) for q, x in zip(self.q, v, strict=True)]
            results, sizes = [], []
            for k, p in enumerate(self.p):
                others = [(self.p[j], qv[j]) for j in range(len(qv)) if j != k] + [(self.anchor, mpf(0))]
                region, factor = p * self.steep[k] * mpf(float(v[k])), p * self.q[k] / self.gamma
                results.append(region + factor * mpmath.fsum(w * (qv[k] - x) for w, x in others))
                spread = mpmath.fsum(w * (abs(qv[k]) + abs(x)) for w, x in others)
                sizes.append(abs(region) + abs(factor) * spread)
            return results, sizes

    def quadratic(self, v):
        """Half of v' Hessian v as a sum over pairs of classes, and the sum of their sizes."""
        with mp.workdps(400):
            x = [q * mpf(float(t)) for q, t in zip(self.q, v, strict=True)] + [mpf(0)]
            p = [*self.p, self.anchor]
            region = [p[k] * self.steep[k] * mpf(float(v[k])) ** 2 for k in range(len(v))]
            pairs = [(p[j] * p[k] / self.gamma, x[j], x[k]) for k in range(len(p)) for j in range(k)]
            value = mpmath.fsum(region) + mpmath.fsum(w * (a - b) ** 2 for w, a, b in pairs)
            size = mpmath.fsum(map(abs, region)) + mpmath.fsum(w * (abs(a) + abs(b)) * abs(a - b) for w, a, b in pairs)
            return value / 2, size / 2


def leading_rows(rng, scaling, dtype):
    """Rows of scores and directions, gamma, so that the first class leads by about so much; all exact in the dtype."""
    for lead in LEADS:
        for _ in range(100):
            z = rng.uniform(-3.0, 3.0, 3).astype(dtype).astype(float)
            Q = sorted(float(formulas(scaling)[1](mpf(v))) for v in z)
            gamma = (Q[2] - Q[1]) / lead if lead else rng.uniform(0.01, 10.0)
            if 0.01 <= gamma <= 10.0:
                v = rng.normal(size=3).astype(dtype).astype(float)
                yield z, v, float(np.float32(gamma))
                break


@functools.cache
def rows_of(index, dtype):
    """All rows of one scaling as potentials, scores, directions and their references."""
    scaling, rng = SCALINGS[index], np.random.default_rng(index)
    extras = [{}, {"anchor": 0.5}, {"rho": (0.5, 1.0, 2.0)}, {"present": np.array([True, True, False])}]
    rows = []
    for i, (z, v, gamma) in enumerate(leading_rows(rng, scaling, dtype)):
        options = dict(extras[i % 4])
        present = options.pop("present", None)
        made = sm.CompositeSoftmax(scaling, gamma=gamma, check=False, **options)
        rows.append((made, z, v, present, Reference(made, z, present)))
    return rows


def room(reference, size, dtype):
    return ROOM[dtype] * max(1.0, reference.largest / 10.0) * float(size) + np.finfo(dtype).smallest_normal


def second_order(potential, z, v, *mask):
    """Everything that is made of the Hessian."""
    options = {"where": mask[0]} if mask else {}
    quadratic = sm.MatchingLoss(potential, check=False).quadratic(z + v, z, reduction="none", **options)
    product, form = potential.hvp(z, v, **options), potential.quadratic(z, v, **options)
    return product, form, quadratic, potential.hessian(z, **options)


jitted = jax.jit(second_order)
ASK = {
    "numpy": (second_order, lambda x, dtype: np.asarray(x, dtype)),
    "torch": (second_order, lambda x, dtype: torch.tensor(x.astype(dtype))),
    "jax": (second_order, jnp.asarray),
    "jitted": (jitted, jnp.asarray),
}


def require_accurate(index, framework, dtype, step=1):
    ask, array = ASK[framework]
    for potential, z, v, present, reference in rows_of(index, dtype)[::step]:
        masks = [] if present is None else [array(present, bool)]
        product, form, quadratic, hessian = ask(potential, array(z, dtype), array(v, dtype), *masks)
        for got, expected, size in zip(np.asarray(product, float), *reference.product(v), strict=True):
            assert abs(got - float(expected)) <= room(reference, size, dtype), (potential, z, v)
        moved = (z.astype(dtype) + v.astype(dtype)) - z.astype(dtype)  # as the loss sees the move
        for got, move in ((form, v), (quadratic, moved)):
            expected, size = reference.quadratic(move)
            assert abs(float(got) - float(expected)) <= room(reference, size, dtype), (potential, z, v)
        got = np.asarray(hessian, float)
        for j, (column, sizes) in enumerate(reference.product(row) for row in np.eye(3)):
            for k in range(3):
                # one term beside the diagonal: its own size
                size = sizes[k] if j == k else abs(column[k])
                assert abs(got[k, j] - float(column[k])) <= room(reference, size, dtype), (potential, z, k, j)


@pytest.mark.parametrize("dtype", ROOM)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("index", range(len(SCALINGS)), ids=lambda i: type(SCALINGS[i]).__name__ + str(i))
def test_hessians_of_a_leading_class_keep_their_digits(index, framework, dtype):
    require_accurate(index, framework, dtype)


def test_hessians_of_a_leading_class_keep_their_digits_when_jitted():
    require_accurate(1, "jitted", "float32", step=4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ROOM)
@pytest.mark.parametrize(("framework", "index"), [("jax", 1), *(("jitted", i) for i in range(len(SCALINGS)))])
def test_hessians_of_a_leading_class_keep_their_digits_in_jax(framework, index, dtype):
    require_accurate(index, framework, dtype)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_moves_of_all_scores_together_cost_nothing_where_only_differences_count(framework):
    """With a constant q: exactly where one class leads, else to the rounding of a mean."""
    array = ARRAYS[framework]
    softmax, ones = sm.CompositeSoftmax(gamma=0.5), array(np.ones(3))
    for lead, most in ((50.0, 0.0), (0.5, 1e-31)):
        z = array(np.array([lead, 0.0, -1.0]))
        assert np.all(np.abs(np.asarray(softmax.hvp(z, ones))) <= max(most, 2e-16 * (lead < 1)))
        assert float(softmax.quadratic(z, ones)) <= most


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("scaling", [*SCALINGS, sm.FromScoreTransform(lambda z: 1.5 + sm.functions.sin(z))],
                         ids=lambda scaling: type(scaling).__name__)  # fmt: skip
def test_the_score_transform_is_the_exponential_of_the_primitive_of_the_scaling(scaling, framework):
    """Of the scaling, not of the potential; the logits are its logarithm over gamma."""
    array = ARRAYS[framework]
    z = np.linspace(-2.9, 2.8, 12)
    sigmoid = sm.CompositeSigmoid(scaling, gamma=0.5, offset=0.75, check=False)
    got = {"sigmoid": sigmoid.score_transform(array(z)) / np.exp(0.75)}
    got |= {"softmax": sm.CompositeSoftmax(scaling, check=False).score_transform(array(z))}
    if isinstance(scaling, sm.FromScoreTransform):
        exact = 1.5 + np.sin(z)
    else:
        exact = np.array([float(mpmath.exp(formulas(scaling)[1](mpf(v)))) for v in z])
    for values in got.values():
        np.testing.assert_allclose(np.asarray(values), exact, rtol=1e-13)
    p = np.asarray(sigmoid.score_transform(array(z))) ** (1 / 0.5)
    np.testing.assert_allclose(np.asarray(sigmoid.prob(array(z))), p / (1 + p), rtol=1e-12)
