"""Curves of which only a formula is known: losses and gradients against 50 digits, however steep they are."""

import math
import warnings
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_formulas import RandomFormula, Step, cases, exactly
from torch.autograd import gradcheck, gradgradcheck

import selmatch as sm
from selmatch.arrays.dual import derivative
from selmatch.parameters import LEAF

f = sm.functions
DOUBLE, SINGLE = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)


def tolerances(formula, s, s_hat, eps=DOUBLE, relative=1e-9):
    """What rounding may do to a loss and its gradient, from the sizes of the terms."""
    value, gradient = exactly((s, s_hat), formula)
    sizes = formula.size(s) + formula.size(s_hat)
    reach = max(abs(s), abs(s_hat))
    loss = relative * abs(value) + 64.0 * eps * (abs(s_hat - s) * sizes + reach * abs(gradient))
    return value, gradient, loss, 128.0 * eps * sizes


def rounded(formula, s, s_hat):
    """Where terms of the formula cancel so much that their rounding errors alone may show in the loss."""
    slack = [tolerances(formula, *pair, relative=0.0) for pair in zip(s, s_hat, strict=True)]
    return np.array([most > 1e-10 * abs(value) for value, _, most, _ in slack])


def assert_right(formula, s, s_hat, losses, gradients, followed=True, eps=DOUBLE, relative=1e-9):
    """Right losses and gradients; where a trace cannot follow a curve, NaN is right too."""
    losses, gradients = np.asarray(losses, dtype=float), np.asarray(gradients, dtype=float)
    known = np.isfinite(losses)
    doubtful = ~np.broadcast_to(followed, s.shape) | rounded(formula, s, s_hat)
    assert (known | doubtful).all()
    assert np.isfinite(gradients).all()
    assert (losses[known] >= 0.0).all()
    for i in np.flatnonzero(known):
        value, gradient, slack, slack_of_gradient = tolerances(formula, s[i], s_hat[i], eps, relative)
        assert abs(losses[i] - value) <= slack, (formula.text, s[i], s_hat[i], losses[i], value)
        assert abs(gradients[i] - gradient) <= slack_of_gradient, (formula.text, s[i], s_hat[i], gradients[i], gradient)


def by_autograd(loss, s, s_hat, dtype=torch.float64):
    prediction = torch.tensor(s_hat, dtype=dtype, requires_grad=True)
    value = loss(prediction, torch.tensor(s, dtype=dtype), reduction="none")
    (gradient,) = torch.autograd.grad(value.sum(), prediction)
    return value.detach().numpy(), gradient.numpy()


def followed(curve, s, s_hat):
    """Which moves lie where the curve was measured: beyond, a trace may give NaN."""
    knots = curve.mesh.knots
    return (np.minimum(s, s_hat) >= knots[0]) & (np.maximum(s, s_hat) <= knots[-1])


@settings(max_examples=30)
@given(case=cases())
def test_random_formulas_against_50_digits(case):
    formula, s, s_hat = case
    loss = sm.MatchingLoss(formula.link(), check=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = loss.value_and_grad(s_hat, s, reduction="none")
    assert not told or rounded(formula, s, s_hat).any()
    assert_right(formula, s, s_hat, *found, relative=1e-8 if told else 1e-9)
    if not loss.potential.mesh.fine:
        with pytest.raises(ValueError, match="must not change more often"):
            by_autograd(loss, s, s_hat)
        return
    inside = followed(loss.potential, s, s_hat)
    assert_right(formula, s, s_hat, *by_autograd(loss, s, s_hat), inside)


@pytest.mark.slow
@settings(max_examples=400)
@given(case=cases())
def test_many_random_formulas_against_50_digits(case):
    test_random_formulas_against_50_digits.hypothesis.inner_test(case)


@settings(max_examples=8)
@given(case=cases(count=3), hint=st.sampled_from((1e-6, 1.0, 1e6)))
def test_every_kind_of_curve_and_any_hint_of_its_scale(case, hint):
    formula, s, s_hat = case
    for curve in (formula.parsed(), formula.own(hint)):
        loss = sm.MatchingLoss(curve, check=False)
        assert_right(formula, s, s_hat, *loss.value_and_grad(s_hat, s, reduction="none"))
        assert_right(formula, s, s_hat, *by_autograd(loss, s, s_hat), followed(curve, s, s_hat))


def spread(formula, count=24):
    """Pairs of scores about all steps of a formula: short and long moves."""
    rng = np.random.default_rng(0)
    steps = [formula.steps[i] for i in rng.integers(len(formula.steps), size=2 * count)]
    scores = np.array(
        [step.centre + step.width * t for step, t in zip(steps, 2.0 * rng.normal(size=2 * count), strict=True)]
    )
    scores[::4] = rng.uniform(-6.0, 6.0, size=len(scores[::4]))
    s, s_hat = scores[:count], scores[count:].copy()
    s_hat[::3] = s[::3] + 1e-3 * rng.normal(size=len(s[::3])) * np.array([step.width for step in steps[:count:3]])
    return s, s_hat


#: one of each kind
SOME = [
    RandomFormula((Step("steep", 1.0, 0.3, 0.003), Step("leaning", 0.5, -1.0, 2.0))),
    RandomFormula((Step("tanh", 1.0, 0.3, 0.05), Step("jump", 0.5, 1.0, 1.0), Step("cubic", 1e-3, 0.0, 1.0))),
]
MORE = [
    *SOME,
    RandomFormula((Step("hidden", 2.0, 0.7, 0.01), Step("arcsinh", 1.0, -2.0, 1e-4))),
    RandomFormula((Step("wave", 1.0, 0.0, 0.02), Step("kink", 1.0, 2.5, 1.0))),
    RandomFormula((Step("clipped", 3.0, -1.25, 0.125), Step("bend", 1e3, 5.0, 1e4))),
    RandomFormula((Step("arctan", 7.0, 3.7, 1e-3), Step("sigmoid", 1.0, -0.4, 0.3))),
]


def check_compiled(formula, compiled):
    s, s_hat = spread(formula)
    loss = sm.MatchingLoss(formula.parsed(), check=False)
    jitted = jax.jit(jax.vmap(jax.value_and_grad(loss)))
    assert_right(formula, s, s_hat, *jitted(jnp.asarray(s_hat), jnp.asarray(s)))
    whole = compiled(lambda a, b, reduction: loss(a, b, reduction=reduction))
    assert_right(formula, s, s_hat, *by_autograd(whole, s, s_hat))


@pytest.mark.parametrize("formula", SOME[:1], ids=lambda formula: formula.text)
def test_compiled_as_in_numpy(formula, compiled):
    check_compiled(formula, compiled)


@pytest.mark.slow
@pytest.mark.parametrize("formula", MORE[1:], ids=lambda formula: formula.text)
def test_more_compiled_as_in_numpy(formula, compiled):
    check_compiled(formula, compiled)


def check_single(formula, s, s_hat, value, gradient):
    """In single precision a formula's own numbers are rounded too: as if its steps stood a little elsewhere."""
    assert np.isfinite(value).all()
    assert (value >= 0.0).all()
    steep = formula.link().slope
    for i in range(len(s)):
        exact, slope, slack, slack_of_gradient = tolerances(formula, s[i], s_hat[i], SINGLE, 1e-5)
        place = 16.0 * SINGLE * max(abs(s[i]), abs(s_hat[i]), *(abs(step.centre) for step in formula.steps))
        move = abs(s_hat[i] - s[i])
        assert abs(value[i] - exact) <= slack + place * (abs(slope) + move * float(steep(s[i])))
        steepness = max(float(steep(s[i])), float(steep(s_hat[i])))
        assert abs(gradient[i] - slope) <= slack_of_gradient + place * steepness


def test_single_precision_is_right_up_to_rounding():
    for formula in (SOME[1], MORE[4]):
        s, s_hat = (z.astype(np.float32).astype(float) for z in spread(formula))
        loss = sm.MatchingLoss(formula.link(), check=False)
        check_single(formula, s, s_hat, *by_autograd(loss, s, s_hat, torch.float32))
        check_single(formula, s, s_hat, *loss.value_and_grad(s_hat.astype("f"), s.astype("f"), reduction="none"))


@pytest.mark.slow
def test_single_precision_is_right_up_to_rounding_in_jax():
    for formula in (SOME[1], MORE[4]):
        s, s_hat = (z.astype(np.float32).astype(float) for z in spread(formula))
        loss = sm.MatchingLoss(formula.link(), check=False)
        single = (jnp.asarray(z, dtype=jnp.float32) for z in (s_hat, s))
        value, gradient = loss.value_and_grad(*single, reduction="none")
        assert value.dtype == gradient.dtype == jnp.float32
        check_single(formula, s, s_hat, np.asarray(value), np.asarray(gradient))


@pytest.mark.parametrize(
    ("text", "s_hat", "s", "value", "gradient"),
    [
        ("z+tanh(20*(z-0.3))", 1.0, 0.0, 1.8999874044411563, 2.9999877116494122),
        ("tanh((z-0.3)/0.003)", 1.0, 0.0, 1.4, 2.0),
        ("z+tanh(20*(z-0.3))", -3.0, 3.0, 24.6, -8.0),
    ],
)
def test_steep_curves_that_were_wrong(text, s_hat, s, value, gradient):
    loss = sm.MatchingLoss(sm.parse(text, lower=False))
    assert loss.value_and_grad(s_hat, s) == pytest.approx((value, gradient), rel=1e-13)
    assert [float(x[0]) for x in by_autograd(loss, [s], [s_hat], torch.float32)] == pytest.approx(
        [value, gradient], rel=1e-6
    )


# ------------------------------------------------------------------------------------- what nobody would think of


def test_shapes_that_the_mesh_was_not_made_for():
    """Spikes far away, stairs, waves, slopes that are infinite, bumps that leave no trace: right on NumPy."""
    stairs = [0.37 * k for k in range(-20, 21)]
    cases = [
        (lambda z: z + f.tanh((z - 1234.567) / 1e-4), lambda z: z + mpmath.tanh((z - 1234.567) / 1e-4), [1234.567],
         [(1e4, -1e4), (1234.5671, 1234.5669), (0.0, 2000.0)]),
        (lambda z: sum(f.where(z > t, 0.5 + 0.0 * z, 0.0) for t in stairs),
         lambda z: sum(mpmath.mpf(0.5) for t in stairs if z > t), stairs, [(3.0, -2.0), (-6.1, 5.5), (0.1, 0.2)]),
        (lambda z: f.sin(1000.0 * z) + 1001.0 * z, lambda z: mpmath.sin(1000 * z) + 1001 * z,
         np.arange(0.3, 1.0, 0.01).tolist(), [(0.31, 0.3), (1.0, 0.9)]),
        (lambda z: f.exp(-1e6 * f.square(z)) + 1e3 * z, lambda z: mpmath.exp(-1e6 * z * z) + 1000 * z,
         [-0.01, -0.003, -0.001, 0.0, 0.001, 0.003, 0.01], [(3.0, -2.0), (-1.0, 0.001), (0.0, 0.002)]),
        (lambda z: z + f.where(f.sinh(z) > 0.3, 2.0 + 0.0 * z, 0.0), lambda z: z + 2 * (mpmath.sinh(z) > 0.3),
         [float(mpmath.asinh(0.3))], [(1.0, -1.0), (-2.0, 3.0), (0.3, 0.2)]),
        (lambda z: f.sign(z) * f.power(f.abs(z), 0.3), lambda z: mpmath.sign(z) * abs(z) ** 0.3,
         [-1e-3, -1e-6, 0.0, 1e-6, 1e-3], [(1.0, -1.0), (-2.0, 1e-4), (0.0, 2.0), (2.0, 0.0)]),
    ]  # fmt: skip
    for function, exact, cuts, pairs in cases:
        loss = sm.MatchingLoss(sm.FromLink(function), check=False)
        for s_hat, s in pairs:
            with mpmath.workdps(20):
                path = [s, *(c for c in cuts if min(s, s_hat) < c < max(s, s_hat)), s_hat]
                path.sort(reverse=s_hat < s)
                here = exact(mpmath.mpf(s))
                value = mpmath.quad(lambda t, here=here, exact=exact: exact(t) - here, path)
                gradient = exact(mpmath.mpf(s_hat)) - here
            found = loss.value_and_grad(s_hat, s)
            assert found == pytest.approx((float(value), float(gradient)), rel=1e-9)


def test_what_cannot_be_known_is_said():
    wild = sm.FromLink(lambda z: f.sin(1e6 * z))
    loss = sm.MatchingLoss(wild, check=False)
    with pytest.warns(RuntimeWarning, match=r"the loss from 0 to 9\.5 is not known to a relative error of 1e-9"):
        _, gradient = loss.value_and_grad(9.5, 0.0)
    assert gradient == pytest.approx(math.sin(9.5e6), rel=1e-9)
    monotone = sm.MatchingLoss(sm.FromLink(lambda z: f.sin(1e6 * z) + 1.1e6 * z), check=False)
    exact = 0.55e6 + 1e-6 * (1.0 - math.cos(1e6))
    assert monotone(1.0, 0.0) == pytest.approx(exact, rel=1e-9)
    for array in (torch.tensor, jnp.asarray):
        with pytest.raises(ValueError, match="must not change more often than 4096 pieces can follow"):
            loss(array([9.5]), array([0.0]))
    beyond = sm.MatchingLoss(sm.FromLink(lambda z: f.sin(100.0 * z) + 101.0 * z))
    assert math.isnan(beyond(torch.tensor([9e3]), torch.tensor([1.0])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isfinite(beyond(40.0, 30.0))


@pytest.mark.parametrize(
    ("formula", "s", "s_hat", "place"),
    [
        (lambda z: f.log1p(f.exp(z)), 800.0, 750.0, "inf at 800"),
        (lambda z: f.log1p(f.exp(z)) / f.hypot1(f.log1p(f.exp(z))), 800.0, -1.0, "nan at 800"),
        (lambda z: f.exp(z) + z, 715.0, 720.0, "inf at 715"),
        (f.sqrt, 2.0, -1.0, "nan at -1"),
    ],
)
def test_no_loss_is_made_of_values_that_are_none(formula, s, s_hat, place):
    """Not 0 either, where both values overflow."""
    loss = sm.MatchingLoss(sm.FromLink(formula), check=False)
    with pytest.warns(RuntimeWarning, match=f"must have finite values at both scores, got {place}"):
        assert np.isnan(loss.value_and_grad([s_hat, s_hat], [s, s], reduction="none")).all()
    assert loss.value_and_grad(s, s) == (0.0, 0.0)
    for array in (torch.tensor, jnp.asarray):
        assert math.isnan(loss(array([s_hat]), array([s])))


def test_values_that_are_none_on_the_way_are_noticed():
    loss = sm.MatchingLoss(sm.FromLink(lambda z: z + f.where((z > 1.0) & (z < 1.5), f.log(z - 3.0), 0.0 * z)))
    with pytest.warns(RuntimeWarning, match="the loss from 0 to 3 is not known"):
        loss(3.0, 0.0)
    assert torch.isnan(loss(torch.tensor([3.0]), torch.tensor([0.0])))


class Bump(sm.Curve):
    """As in the README."""

    def __call__(self, x):
        return x + f.tanh(x)


def test_no_gradient_is_nan_where_a_formula_overflows_on_its_way():
    for dtype in (torch.float32, torch.float64):
        for far in (30.0, 90.0, 400.0, 800.0, 1e6):
            s = np.array([-far, far, -far, far])
            s_hat = np.array([-0.9 * far, 0.9 * far, far, -far])
            value, gradient = by_autograd(sm.MatchingLoss(Bump()), s, s_hat, dtype)
            np.testing.assert_allclose(gradient, np.asarray(Bump()(s_hat) - Bump()(s)), rtol=4e-7)
            assert np.isfinite(value).all()
    assert np.isfinite(Bump().slope(np.array([-1e3, 1e3]))).all()


def test_no_gradient_is_nan_where_a_branch_overflows_that_is_not_taken():
    loss = sm.MatchingLoss(sm.FromLink(lambda z: z + f.maximum(f.sinh(f.minimum(z, 2.0)), 0.5)))
    s, s_hat = np.array([-1000.0, 0.3, -3.0]), np.array([-900.0, 5.0, 1.0])
    exact = loss.grad(s_hat, s)
    assert np.isfinite(exact).all()
    np.testing.assert_allclose(by_autograd(loss, s, s_hat, torch.float64)[1], exact, rtol=1e-14)
    by_jax = jax.jit(jax.grad(lambda z: loss(z, jnp.asarray(s), reduction="sum")))(jnp.asarray(s_hat))
    np.testing.assert_allclose(by_jax, exact, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("tanh", lambda x: 1 / mpmath.cosh(x) ** 2), ("arctan", lambda x: 1 / (1 + x * x)),
        ("arcsinh", lambda x: 1 / mpmath.sqrt(1 + x * x)), ("hypot1", lambda x: x / mpmath.sqrt(1 + x * x)),
        ("sigmoid", lambda x: mpmath.exp(-abs(x)) / (1 + mpmath.exp(-abs(x))) ** 2),
        ("softplus", lambda x: 1 / (1 + mpmath.exp(-x))), ("expm1", mpmath.exp), ("cosh", mpmath.sinh),
        ("sinh", mpmath.cosh), ("exp", mpmath.exp),
    ],
)  # fmt: skip
def test_derivatives_of_functions_at_large_arguments(name, exact):
    x = np.array([-1e5, -700.0, -90.0, -40.0, -1.0, 0.0, 0.5, 40.0, 90.0, 700.0, 1e5])
    expected = []
    for z in x:
        value = exact(mpmath.mpf(z))
        expected.append(math.copysign(math.inf, value) if abs(value) > 1e308 else float(value))
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(sm.FromLink(getattr(f, name)).slope(x), expected, rtol=1e-13, atol=1e-307)
    tensor = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    (second,) = torch.autograd.grad(sm.FromLink(getattr(f, name)).slope(tensor).sum(), tensor)
    if name not in ("cosh", "sinh", "exp", "expm1"):
        assert torch.isfinite(second).all()


# ----------------------------------------------------------------------------------------------- curves made of them


def steep(z):
    return z + f.tanh(20.0 * (z - 0.3))


def primitive_of_steep(z):
    return 0.5 * f.square(z) + 0.05 * (f.softplus(40.0 * (z - 0.3)) - 20.0 * (z - 0.3))


def test_potentials_made_of_formulas_are_those_made_of_closed_forms():
    closed = sm.Identity() + sm.Tanh().affine(alpha=20.0, beta=0.3)
    formula = sm.FromLink(steep)
    pairs = [
        (closed.affine(2.0, 0.1, 3.0), formula.affine(2.0, 0.1, 3.0)),
        (closed.capped(-0.5, 1.0) + sm.Sinh(), formula.capped(-0.5, 1.0) + sm.Sinh()),
        (sm.Inverse(closed), sm.Inverse(formula)),
        (sm.CompositeSigmoid(closed, gamma=0.3, offset=0.2), sm.CompositeSigmoid(formula, gamma=0.3, offset=0.2)),
        (sm.CompositeSigmoid(closed), sm.CompositeSigmoid(Q=primitive_of_steep)),
        (sm.CompositeSigmoid(closed), sm.CompositeSigmoid(f=lambda z: f.exp(primitive_of_steep(z)))),
        (sm.Piecewise((-1.0, 1.0), (closed,)), sm.Piecewise((-1.0, 1.0), (formula,))),
        (sm.CompositeSoftmax(closed, gamma=0.5), sm.CompositeSoftmax(formula, gamma=0.5)),
        (sm.CompositeSoftmax(closed, gamma=0.5), sm.CompositeSoftmax(Q=primitive_of_steep, gamma=0.5)),
        (sm.Separable(closed), sm.Separable(formula)),
    ]
    rng = np.random.default_rng(1)
    s, s_hat = rng.normal(size=(2, 8, 3))
    s_hat[:3] = s[:3] + 1e-3 * rng.normal(size=(3, 3))
    for known, made in pairs:
        shift = known.primitive(s_hat) - made.primitive(s_hat) if isinstance(known, sm.CompositeSigmoid) else None
        if shift is not None and np.ptp(shift) > 1e-9:  # Q is known up to a constant, which changes the loss
            offset = float(closed.primitive(0.7) - made.scaling.primitive(0.7))
            made = sm.CompositeSigmoid(made.scaling, gamma=made.gamma, offset=made.offset + offset)
        known, made = sm.MatchingLoss(known), sm.MatchingLoss(made)
        for a, b in zip(
            known.value_and_grad(s_hat, s, reduction="none"),
            made.value_and_grad(s_hat, s, reduction="none"),
            strict=True,
        ):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-15)


def test_a_primitive_of_the_user_is_used_where_it_is_more_accurate():
    class Both(sm.Curve):
        def __call__(self, x):
            return f.sin(1e6 * x) + 1.1e6 * x

        def primitive(self, x):
            return 0.55e6 * f.square(x) - 1e-6 * f.cos(1e6 * x)

    loss = sm.MatchingLoss(Both(), check=False)
    exact = 0.55e6 * 81.0 - 1e-6 * (math.cos(9e6) - 1.0)
    assert loss(9.0, 0.0) == pytest.approx(exact, rel=1e-12)
    assert float(loss(torch.tensor(9.0, dtype=torch.float64), 0.0)) == pytest.approx(exact, rel=1e-12)
    close = sm.MatchingLoss(sm.FromPrimitive(f.softplus))
    assert close(30.0 + 1e-6, 30.0) == pytest.approx(sm.MatchingLoss(sm.Sigmoid())(30.0 + 1e-6, 30.0), rel=1e-9)


@dataclass(frozen=True)
class Leaning(sm.Curve):
    """A user's curve with a number that may be trained."""

    alpha: object = field(default=20.0, metadata=LEAF)

    def __call__(self, x):
        return x + f.tanh(self.alpha * (x - 0.3))


def test_numbers_of_own_curves_have_gradients_and_never_outgrow_their_mesh_silently():
    s, s_hat = np.array([0.0, 3.0, 0.4]), np.array([1.0, -3.0, 0.2])

    def expected(alpha):
        step = 1e-4
        sides = (sm.MatchingLoss(Leaning(alpha + t))(s_hat, s, reduction="none") for t in (step, -step))
        upper, lower = sides
        return (upper - lower) / (2.0 * step)

    alpha = torch.tensor(20.0, dtype=torch.float64, requires_grad=True)
    loss = sm.MatchingLoss(Leaning(alpha))
    tensors = torch.tensor(s_hat), torch.tensor(s)
    (gradient,) = torch.autograd.grad(loss(*tensors, reduction="sum"), alpha)
    assert float(gradient) == pytest.approx(expected(20.0).sum(), rel=1e-6)
    with torch.no_grad():
        alpha.fill_(35.0)  # steeper than measured
    right = sm.MatchingLoss(Leaning(35.0))(s_hat, s, reduction="none")
    np.testing.assert_allclose(loss(*tensors, reduction="none").detach().numpy(), right, rtol=1e-9)
    with torch.no_grad():
        alpha.fill_(1e5)
    value = loss(*tensors, reduction="none").detach().numpy()
    right = sm.MatchingLoss(Leaning(1e5))(s_hat, s, reduction="none")
    assert (np.isnan(value) | (np.abs(value - right) <= 1e-9 * right)).all()


def test_derivatives_of_every_order_and_mode(parts_of_torch):
    loss = sm.MatchingLoss(sm.FromLink(steep), check=False)
    s_hat, s = (torch.tensor(z, dtype=torch.float64) for z in ([0.31, 1.0, -2.0], [0.2, -1.0, 3.0]))
    inputs = tuple(z.clone().requires_grad_() for z in (s_hat, s))
    assert gradcheck(lambda a, b: loss(a, b, reduction="none"), inputs, check_forward_ad=True)
    assert gradgradcheck(lambda a, b: loss(a, b, reduction="none"), inputs)
    slope = loss.potential.slope(s_hat)
    second = torch.func.vmap(torch.func.hessian(lambda a, b: loss(a, b)))(s_hat, s)
    torch.testing.assert_close(second, slope, rtol=1e-12, atol=0.0)
    bend = derivative(loss.potential.slope, s_hat.numpy())
    prediction = s_hat.clone().requires_grad_()
    total = loss(prediction, s, reduction="sum")
    for _ in range(3):
        (total,) = torch.autograd.grad(total.sum(), prediction, create_graph=True)
    np.testing.assert_allclose(total.detach().numpy(), bend, rtol=1e-9, atol=1e-12)


def test_ends_of_the_domain_and_of_the_numbers():
    """Losses at an end where the curve is infinite are finite, gradients are not; overflow is infinite, not NaN."""
    for text, closed in (
        ("logit(z)+z^2", sm.Logit() + sm.Polynomial((0.0, 0.0, 1.0))),
        ("log(z)+2*sqrt(z)", sm.Log() + 2.0 * sm.Power(0.5)),
    ):
        curve = sm.parse(text, lower=False)
        s, s_hat = np.array([0.5, 0.25, 0.5, 1e-9]), np.array([0.0, 1e-6, 0.9, 0.25])
        expected = sm.MatchingLoss(closed).value_and_grad(s_hat, s, reduction="none")
        loss = sm.MatchingLoss(curve)
        for values, right in zip(loss.value_and_grad(s_hat, s, reduction="none"), expected, strict=True):
            np.testing.assert_allclose(values, right, rtol=1e-9)
        found = loss(torch.tensor(s_hat), torch.tensor(s), reduction="none")
        np.testing.assert_allclose(found.numpy(), expected[0], rtol=1e-9)
    growing = sm.MatchingLoss(sm.FromLink(lambda z: f.exp(z) + z))
    assert growing.value_and_grad(720.0, 700.0) == (math.inf, math.inf)
    tensors = (torch.tensor(z, dtype=torch.float32) for z in ([95.0, 88.8], [88.0, 0.0]))
    assert torch.isposinf(growing(*tensors, reduction="none")).all()
