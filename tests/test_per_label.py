"""A link for each label: the best constant prediction, against 50 digits and on every framework; its certificate."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from references import formulas

import selmatch as sm
from conftest import ARRAYS

CURVES = [
    sm.Identity(), sm.Sigmoid().affine(alpha=3.0, beta=0.5), sm.Exp(), sm.Sinh().affine(alpha=2.0), sm.Tanh(),
    sm.Arcsinh().affine(alpha=50.0, beta=-1.0), sm.Identity() + sm.Tanh().affine(alpha=1e3, beta=0.3), sm.Huber(),
    sm.Log().affine(beta=-4.0), sm.SignedPower(3.0), sm.CompositeSigmoid(sm.Sinh()),
]  # fmt: skip


def random_case(rng):
    count = rng.integers(1, 5)
    labels = np.sort(rng.choice(np.arange(-12, 13) / 4.0, count, replace=False)).tolist()
    curves = [CURVES[i] for i in rng.integers(len(CURVES), size=count)]
    s = rng.choice(labels, 9)
    weights = rng.integers(0, 4, 9) / 2.0 + (rng.random(9) < 0.1)
    return sm.PerLabel(dict(zip(labels, curves, strict=True))), s, weights + (weights.sum() == 0.0)


def exact_minimiser(potential, s, weights):
    """The root of the mean gradient, by bisection with many digits; None if the mean gradient is flat there."""
    with mp.workdps(50):
        h = {label: formulas(curve)[0] for label, curve in zip(potential.labels, potential.curves, strict=True)}
        masses = {label: mpf(float(weights[s == label].sum())) for label in potential.labels}
        used = [label for label, mass in masses.items() if mass]

        def pull(z):
            return mpmath.fsum(masses[a] * (h[a](z) - h[a](mpf(a))) for a in used)

        low, high = mpf(min(used)), mpf(max(used))
        if low == high:
            return float(low)
        for _ in range(170):
            middle = (low + high) / 2
            low, high = (middle, high) if pull(middle) < 0 else (low, middle)
        return None if abs(pull(high + mpf(10) ** -12) - pull(high)) < mpf(10) ** -20 else float(high)


@pytest.mark.parametrize(
    "framework", ["numpy", "torch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("jax", "jitted"))]
)
def test_the_minimiser_of_labels_is_where_their_links_balance(framework):
    rng, compared = np.random.default_rng(5), 0
    array = ARRAYS.get(framework, jnp.asarray)
    for _ in range({"numpy": 25, "torch": 8}.get(framework, 4)):
        potential, s, weights = random_case(rng)
        loss, expected = sm.MatchingLoss(potential), exact_minimiser(potential, s, weights)
        ask = jax.jit(loss.minimiser) if framework == "jitted" else loss.minimiser
        best = ask(array(s), array(weights))
        assert np.shape(best) == ()
        if expected is not None:
            assert abs(float(best) - expected) <= 1e-13 * np.abs(s).max(), (potential, s, weights)
            compared += 1
    assert compared >= 3


def test_single_precision_and_python_numbers():
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp(), 3.0: sm.Sinh()}))
    s = [0.0, 1.0, 3.0, 3.0]
    best = loss.minimiser(s)
    assert type(best) is float
    single = loss.minimiser(np.float32(s))
    assert single.dtype == np.float32
    assert single == pytest.approx(best, rel=3e-6)
    assert float(loss.minimiser(torch.tensor(s).bfloat16())) == pytest.approx(best, rel=1e-2)
    # the mean gradient there is 0, and the mean loss least
    assert loss.grad(np.full(4, best), s).mean() == pytest.approx(0.0, abs=1e-14)
    least = loss(np.full(4, best), s)
    assert all(loss(np.full(4, best + step), s) > least for step in (-1e-2, 1e-2))


def test_jumps_flat_pieces_and_ends():
    steps = sm.MatchingLoss(sm.PerLabel({-2.0: sm.Step(), 3.0: sm.Step()}))
    assert steps.minimiser([-2.0, 3.0]) == pytest.approx(0.0, abs=1e-15)  # the jump
    flat = sm.MatchingLoss(sm.PerLabel({-2.0: sm.Huber(c=1.0), 3.0: sm.Huber(c=1.0).affine(beta=0.5)}))
    best = flat.minimiser([-2.0, 3.0], weights=[1.0, 1.0])
    assert flat([best, best], [-2.0, 3.0]) == pytest.approx(
        min(flat([z, z], [-2.0, 3.0]) for z in np.linspace(-2, 3, 501))
    )
    ends = sm.MatchingLoss(sm.PerLabel({-1.0: sm.Identity(), 4.0: sm.Log(), 9.0: sm.Logit().affine(beta=8.5)}))
    assert 0.0 < ends.minimiser([-1.0, 4.0]) < 4.0  # inside both domains
    assert 0.0 <= ends.minimiser([-1.0] * 1000 + [4.0]) < 1e-2
    assert ends.minimiser([-1.0, -1.0]) == -1.0  # where the others' domains do not count
    with pytest.raises(ValueError, match="must share a part of their domains"):
        sm.MatchingLoss(sm.PerLabel({0.5: sm.Logit(), 3.0: sm.Log().affine(beta=2.0)})).minimiser([0.5, 3.0])
    assert torch.isnan(ends.minimiser(torch.tensor([-1.0, 5.0])))  # 5 is no label


@pytest.mark.slow
def test_derivatives_of_the_minimiser_flow():
    """Through the numbers of the curves and through the weights: the implicit derivative."""
    alpha = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def best(alpha, weights):
        potential = sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Sinh().affine(alpha=alpha)})
        return sm.MatchingLoss(potential).minimiser(torch.tensor([0.0, 1.0], dtype=torch.float64), weights)

    assert torch.autograd.gradcheck(best, (alpha, weights))


def test_what_labels_elicit_is_explained():
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp()}))
    explanation = loss.explain(np.array([0.0, 1.0, 1.0]))
    assert explanation.elicited == loss.minimiser([0.0, 1.0, 1.0])
    assert f"balance, not the mean: {explanation.elicited:.4g} on the data" in str(explanation)
