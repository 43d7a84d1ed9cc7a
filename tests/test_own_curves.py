"""Numbers of users' own curves that learn, in PyTorch and JAX, against 50 digits; and formulas that name the remedy."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch

import selmatch as sm
import selmatch.jax
import selmatch.torch
from selmatch.functions import cosh, log, tanh

S_HAT, S = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.0, 0.3, -1.0, 2.5])


@dataclass(frozen=True)
class Fields(sm.Curve):
    """A formula, and nothing else."""

    height: float = 0.7
    centre_: float = 0.2
    width: float = 1.3

    increasing = True
    trainable = ("height", "width")
    positive = ("width",)

    def __call__(self, x):
        return x + self.height * tanh((x - self.centre_) / self.width)


class Plain(sm.Curve):
    """The same without fields."""

    trainable = ("height",)
    positive = "width"

    def __init__(self, height=0.7, width=1.3):
        self.height, self.width, self._centre = height, width, 0.2

    def __call__(self, x):
        return x + self.height * tanh((x - self._centre) / self.width)


class Closed(Fields):
    """The same with closed forms."""

    def slope(self, x):
        return 1.0 + self.height / self.width * (1.0 - sm.functions.square(tanh((x - self.centre_) / self.width)))

    def primitive(self, x):
        return 0.5 * x * x + self.height * self.width * log(cosh((x - self.centre_) / self.width))

    def difference(self, x, u, xh=None):
        return self(x + u) - self(x)

    def remainder(self, x, u, xh=None):
        return self.primitive(x + u) - self.primitive(x) - u * self(x)


OWN = [Fields, Plain, Closed]


@functools.cache
def reference(height=0.7, width=1.3):
    """The mean loss and its derivatives with respect to height and width."""
    with mpmath.workdps(50):

        def mean(height, width):
            def x(z):
                return (z - mpmath.mpf("0.2")) / width

            def primitive(z):
                return z**2 / 2 + height * width * mpmath.log(mpmath.cosh(x(z)))

            def loss(t, s):
                return primitive(t) - primitive(s) - (t - s) * (s + height * mpmath.tanh(x(s)))

            return sum(loss(*map(mpmath.mpf, pair)) for pair in zip(S_HAT.tolist(), S.tolist(), strict=True)) / len(S)

        at = mpmath.mpf(str(height)), mpmath.mpf(str(width))
        return [float(mean(*at)), *(float(mpmath.diff(mean, at, order)) for order in ((1, 0), (0, 1)))]


def close(actual, expected, rtol=1e-10):
    np.testing.assert_allclose(np.asarray(actual, dtype=float), expected, rtol=rtol)


@pytest.mark.parametrize("cls", OWN)
def test_numbers_of_own_curves_learn_in_torch(cls):
    value, by_height, by_width = reference()
    tensors = torch.tensor(S_HAT), torch.tensor(S)
    module = sm.torch.MatchingLoss(cls(), trainable=("height", "width"))
    assert [name for name, _ in module.named_parameters()] == ["potential.height", "potential.log_width"]
    found = module(*tensors)
    found.backward()
    close([found.item(), module.potential.height.grad.item()], [value, by_height])
    close(module.potential.log_width.grad, [1.3 * by_width])
    height = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    sm.torch.matching_loss(*tensors, cls(height=height)).backward()
    close(height.grad, by_height)
    assert cls().height == module.loss.potential.height == 0.7
    with torch.no_grad():
        module.potential.height.fill_(1.1)
    close(module(*tensors).item(), reference(height=1.1)[0])
    assert module.loss.potential.height == 1.1


@pytest.mark.slow
@pytest.mark.parametrize("cls", OWN)
def test_numbers_of_own_curves_learn_in_compiled_code(cls, compiled):
    module = sm.torch.MatchingLoss(cls(), trainable=("height", "width"))
    whole = compiled(module)
    for height in (0.7, 1.1):
        with torch.no_grad():
            module.potential.height.fill_(height)
        module.zero_grad()
        found = whole(torch.tensor(S_HAT), torch.tensor(S))
        found.backward()
        gradients = module.potential.height.grad, module.potential.log_width.grad / 1.3
        close([found.item(), *map(float, gradients)], reference(height))


@pytest.mark.parametrize("cls", [Closed, *(pytest.param(cls, marks=pytest.mark.slow) for cls in (Fields, Plain))])
def test_numbers_of_own_curves_learn_in_jax(cls):
    core = sm.MatchingLoss(cls())
    parameters, build = sm.jax.trainable(core, ["height", "width"])
    value, logs = jax.jit(jax.value_and_grad(lambda p: build(p)(jnp.asarray(S_HAT), S)))(parameters)
    close([value, logs["potential.height"], logs["potential.width"] / 1.3], reference())


def test_numbers_that_are_arrays_take_scores_of_numpy_and_python_along():
    s_hat, s = np.array([0.3, -1.2, 2.0]), np.array([1.0, 0.2, -0.5])
    values = {
        "loss": lambda a: sm.MatchingLoss(Closed(height=a))(s_hat, s),
        "lists": lambda a: sm.MatchingLoss(sm.Sinh().affine(alpha=a))(s_hat.tolist(), s.tolist()),
        "numbers": lambda a: sm.MatchingLoss(sm.Sinh().affine(alpha=a))(1.0, 2.0),
        "targets": lambda a: sm.MatchingLoss(sm.Sinh().affine(alpha=a)).fenchel_young_grad(s_hat, s)[0],
        "labels": lambda a: sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp(), gamma=a)).label_loss(s_hat[None], [1]),
        "hvp": lambda a: sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp(), gamma=a)).hvp(s_hat, s)[0],
        "pairs": lambda a: sm.ranking.pairwise(s_hat, s, sm.Sinh().affine(alpha=a)),
        "lists of items": lambda a: sm.ranking.listwise(s_hat, s, sm.CompositeSoftmax(sm.Exp(), gamma=a)),
        "teacher": lambda a: sm.distillation.distillation_loss(s_hat, s, sm.CompositeSoftmax(sm.Exp(), gamma=a)),
    }
    for name, value in values.items():
        assert jax.eval_shape(jax.grad(value), 1.3).shape == (), name
    slope = (values["lists"](1.3 + 1e-5) - values["lists"](1.3 - 1e-5)) / 2e-5
    assert jax.jit(jax.grad(values["lists"]))(1.3) == pytest.approx(slope, rel=1e-7)
    alpha = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(values["numbers"](alpha), alpha)
    assert slope == pytest.approx((values["numbers"](1.3 + 1e-5) - values["numbers"](1.3 - 1e-5)) / 2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("cls", OWN)
def test_gradients_of_own_curves_in_jax_are_curves(cls):
    front = jax.jit(jax.grad(lambda loss: sm.jax.matching_loss(S_HAT, S, loss, reduction="mean")))
    for gradient in (
        front(sm.MatchingLoss(cls())),
        jax.grad(lambda loss: loss(jnp.asarray(S_HAT), S))(sm.MatchingLoss(cls())),
    ):
        close([gradient.potential.height, gradient.potential.width], reference()[1:])


@pytest.mark.parametrize("cls", [Plain, *(pytest.param(cls, marks=pytest.mark.slow) for cls in (Fields, Closed))])
def test_other_numbers_of_own_curves_are_constants_that_compiled_code_tells_apart(cls):
    """The centre is part of the structure, the height is not."""
    calls = []

    @jax.jit
    def value(core):
        calls.append(core)
        return core.potential(jnp.asarray(S_HAT)).sum()

    assert value(sm.MatchingLoss(cls(height=0.3))) != value(sm.MatchingLoss(cls(height=0.9)))
    assert len(calls) == 1
    if cls is not Plain:
        assert value(sm.MatchingLoss(cls(centre_=2.0))) != value(sm.MatchingLoss(cls()))
        assert len(calls) == 2


class Shifted(sm.Curve):
    """A curve of a plain class without numbers to train."""

    increasing = True

    def __init__(self, by):
        self._by = by

    def __call__(self, x):
        return x + tanh(x - self._by)


def test_plain_classes_keep_what_they_are_made_of_in_jax():
    value = jax.jit(lambda core: core.potential(jnp.asarray(S_HAT)))
    for by in (0.0, 2.0):
        core = sm.MatchingLoss(Shifted(by))
        close(value(core), core.potential(S_HAT))


@pytest.mark.slow
def test_own_numbers_learn_inside_other_curves():
    scaling = (Fields() + sm.Exp()).affine(alpha=0.5)
    core = sm.MatchingLoss(sm.CompositeSoftmax(scaling, gamma=0.7))
    s_hat, s = np.random.default_rng(0).normal(size=(2, 5, 3))
    module = sm.torch.MatchingLoss(core, trainable=("width", "alpha"))
    module(torch.tensor(s_hat), torch.tensor(s)).backward()
    parameters, build = sm.jax.trainable(core, ["width", "alpha"])
    slopes = jax.jit(jax.grad(lambda p: build(p)(jnp.asarray(s_hat), s)))(parameters)
    assert len(slopes) == 2
    for name, parameter in module.named_parameters():
        steps = [functools.partial(sm.torch.MatchingLoss, core, trainable=("width", "alpha"))() for _ in range(2)]
        for step, made in zip((1e-6, -1e-6), steps, strict=True):
            with torch.no_grad():
                dict(made.named_parameters())[name].add_(step)
        up, down = (made(torch.tensor(s_hat), torch.tensor(s)).item() for made in steps)
        close(parameter.grad, [(up - down) / 2e-6], 1e-7)
        close(slopes[name.replace("log_", "").replace("curves.0", "curves[0]")], float(parameter.grad), 1e-9)


def test_numbers_that_start_where_they_have_no_logarithm_are_refused():
    with pytest.raises(ValueError, match=r"MatchingLoss: potential.width must be > 0 to be trained, got -1"):
        sm.torch.MatchingLoss(Fields(width=-1.0, height=0.0), trainable="width")
    with pytest.raises(ValueError, match=r"trainable: potential.width must be > 0, got -1"):
        sm.jax.trainable(sm.MatchingLoss(Fields(width=-1.0, height=0.0)), "width")


# ------------------------------------------------------------------------------------------------------ wrong formulas

FOREIGN = [
    torch.nn.Tanh(),
    torch.tanh,
    torch.nn.Linear(1, 1),
    pytest.param(jnp.tanh, marks=pytest.mark.slow),
    lambda z: z + torch.tanh(z),
    lambda z: z.exp(),
    lambda z: jnp.where(z > 0, z, 0.1 * z),
    lambda z: math.exp(z),
    lambda z: z if z > 0 else 0.1 * z,
    lambda z: np.where(z > 0, z, 0.1 * z),
    lambda z: np.clip(z, -1.0, 1.0),
]


@pytest.mark.parametrize("function", FOREIGN)
def test_formulas_of_one_library_are_told_which_functions_to_use(function):
    class Own(sm.Curve):
        def __call__(self, x):
            return function(x)

    message = "made of selmatch.functions, .* Write selmatch.functions.tanh for torch.tanh"
    for scores in (S, torch.tensor(S)):
        with pytest.raises(TypeError, match=message):
            Own().slope(scores)
    makers = (
        lambda: sm.FromLink(function),
        lambda: sm.FromPrimitive(function),
        lambda: sm.MatchingLoss(Own(), check=False),
        lambda: sm.MatchingLoss(Own().affine(alpha=2.0)),
        lambda: sm.MatchingLoss(sm.CompositeSoftmax(Own(), check=False)),
        lambda: sm.torch.MatchingLoss(Own()),
    )
    for make in makers:
        with pytest.raises(TypeError, match=message):
            make()


def test_formulas_with_tensors_and_slopes_of_one_library_are_accepted():
    class OfTorch(sm.Curve):
        increasing = True

        def __call__(self, x):
            return torch.tanh(x)

        def slope(self, x):
            return 1.0 - torch.square(torch.tanh(x))

    number = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    prediction, score = torch.tensor([1.0], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    known = sm.MatchingLoss(sm.FromLink(tanh))(prediction, score)
    assert torch.allclose(sm.MatchingLoss(OfTorch())(prediction, score), known, rtol=1e-12)
    loss = sm.MatchingLoss(sm.FromLink(lambda z: number * tanh(z)), check=False)(prediction, score)
    loss.backward()
    assert torch.allclose(loss.detach(), 2.0 * known)
    assert torch.allclose(number.grad, known)


def test_errors_of_a_formula_that_have_other_causes_stay_as_they_are():
    def wrong(z):
        raise ValueError("no such file")

    with pytest.raises(ValueError, match=r"^no such file$"):
        sm.FromLink(wrong).slope(S)
    assert sm.FromLink(np.tanh)(0.5) == np.tanh(0.5)
    close(sm.FromLink(lambda z: z + np.tanh(z)).slope(S), 1.0 + 1.0 / np.cosh(S) ** 2)


# ---------------------------------------------------------------------------------------- numbers that are no numbers


@pytest.mark.parametrize("value", [-1.0, 0.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "array",
    [
        torch.tensor,
        jnp.asarray,
        lambda x: torch.nn.Parameter(torch.tensor(x)),
        lambda x: torch.tensor(x, dtype=torch.bfloat16),
        lambda x: jnp.asarray(x, dtype=jnp.bfloat16),
    ],
)
def test_arrays_are_refused_like_numbers_where_they_can_be_seen(array, value):
    makers = {
        "CompositeSoftmax: gamma": lambda x: sm.CompositeSoftmax(gamma=x),
        "CompositeSigmoid: gamma": lambda x: sm.CompositeSigmoid(sm.Exp(), gamma=x),
        "Affine: alpha": lambda x: sm.Exp().affine(alpha=x),
        "Affine: gain": lambda x: sm.Exp().affine(gain=x),
        "CompositeSoftmax: rho": lambda x: sm.CompositeSoftmax(rho=array([1.0, value]) if np.ndim(x) == 0 else x),
    }
    condition = "> 0" if math.isfinite(value) else "finite"
    for place, make in makers.items():
        with pytest.raises(ValueError, match=f"{place}.* must be {condition}, got {value}"):
            make(array(value))
    if not math.isfinite(value):
        with pytest.raises(ValueError, match="Affine: beta must be finite"):
            sm.Exp().affine(beta=array(value))


def test_arrays_that_cannot_be_seen_are_taken_as_they_are(compiled):
    def value(alpha):
        return sm.Exp().affine(alpha=alpha)(1.0 + 0.0 * alpha)

    assert sm.Exp().affine(alpha=torch.tensor(-1.0, device="meta")).alpha.is_meta
    expected = math.exp(-1.0)
    assert jax.eval_shape(jax.vmap(jax.grad(value)), -jnp.ones(2)).shape == (2,)
    assert torch.func.vmap(value)(-torch.ones(2)).tolist() == pytest.approx([expected, expected])
    assert torch.isfinite(torch.func.grad(value)(torch.tensor(-1.0)))
    assert compiled(value, backend="eager")(torch.tensor(-1.0)).item() == pytest.approx(expected)
    for dtype in (torch.bfloat16, torch.float16):
        assert sm.Exp().affine(alpha=torch.tensor(2.0, dtype=dtype)).alpha.dtype == dtype


POLES = [
    ("max(abs(expm1(z)),tan(z))", 1.41372, -1.41372, 15.2260269650534),
    ("max(abs(expm1(z)),tan(z))", -1.41372, 1.41372, 0.486405921220253),
    ("max(0.5,tan(-z))+z^3*max(smelu(z,e),sign(z))", 1.41372, -1.41372, 6.01326328024592),
    ("max(0.5,tan(-z))+z^3*max(smelu(z,e),sign(z))", -1.41372, 1.41372, -12.5458336090954),
]


@pytest.mark.parametrize(("text", "target", "score", "exact"), POLES)
def test_a_pole_at_the_end_of_a_domain_spoils_no_loss(text, target, score, exact):
    """Between its last two scores a curve climbs by 1e16, which is no jump. References: mpmath, cut at all kinks."""
    curve = sm.parse(text, lower=False)
    assert not curve.mesh.jumps
    assert sm.MatchingLoss(curve, check=False)(score, target) == pytest.approx(exact, rel=1e-9)
