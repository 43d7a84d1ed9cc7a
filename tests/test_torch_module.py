"""Losses as modules of PyTorch: the core's numbers in any loop, compiled, moved, saved, trained, on many devices."""

import copy
import io
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
import torch.distributed as dist
from score_pairs import generic_pairs
from torch._subclasses import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

import selmatch as sm
from conftest import LOSSES
from selmatch.torch import MatchingLoss, TopKTeacher, matching_loss

SIGMOID = sm.Sigmoid().affine(alpha=2.0, beta=1.5)
SOFTMAX = sm.CompositeSoftmax(sm.Exp().affine(alpha=0.3), gamma=0.7, rho=(0.5, 1.0, 2.0))
SINH = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.3, beta=0.1), gamma=0.7)
LOG = sm.Log().affine(alpha=0.3, beta=-0.1)
#: numbers in every place: below sums, caps, pieces, inverses and formulas
NESTED = [
    0.1 * sm.Identity() + sm.Log().affine(beta=-0.3),
    sm.Sinh().affine(alpha=0.3).capped(-1.0, 2.0),
    sm.Inverse(sm.Identity() + sm.Sinh().affine(alpha=0.7)),
    sm.Inverse(0.3 * sm.Identity() + sm.Sigmoid().affine(alpha=2.0)),
    sm.Piecewise((0.0, 1.0, 3.0), (sm.Constant(0.3), sm.Exp().affine(alpha=0.7))),
    sm.FromPrimitive(sm.Cosh().affine(alpha=0.3)),
    sm.FromPrimitive(sm.ReLU().affine(beta=0.3) + sm.Cosh()),
    sm.CompositeSigmoid(sm.Cosh().affine(alpha=0.3), gamma=0.3),
    sm.CompositeSoftmax(sm.Log().affine(beta=-0.3) + 0.2 * sm.Power(1.5), anchor=0.3),
    sm.Separable(sm.Log().affine(beta=-0.3)),
]
ALL = [*LOSSES, *map(sm.MatchingLoss, NESTED)]
FEW = [sm.MatchingLoss(potential) for potential in (SIGMOID, SOFTMAX, LOG, NESTED[0])]

pytestmark = pytest.mark.usefixtures("parts_of_torch")


class NoSynchronisation(TorchDispatchMode):
    """Forbids whatever makes the host wait for a device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not any(name in str(func) for name in ("_local_scalar_dense", "nonzero", "aten.equal.", "unique"))
        return func(*args, **(kwargs or {}))


def tensors(loss, dtype=torch.float64, **options):
    return tuple(torch.tensor(z, dtype=dtype) for z in generic_pairs(loss, **options))


def mask_of(x):
    return torch.arange(x.numel()).reshape(x.shape) % 5 != 0


def value_and_grad(function, s_hat):
    s_hat = s_hat.detach().clone().requires_grad_()
    value = function(s_hat)
    return value.detach(), torch.autograd.grad(value.sum(), s_hat)[0]


def assert_equal(actual, expected, rtol=1e-12):
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.detach(), b.detach(), rtol=rtol, atol=1e-2 * rtol)


# ------------------------------------------------------------------------------------------------ the core's numbers


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_gives_the_numbers_of_the_core_and_never_waits_for_a_device(loss):
    module = MatchingLoss(loss)
    for dtype in (torch.float64, torch.float32):
        s_hat, s = tensors(loss, dtype, rows=7)
        weights = torch.linspace(0.0, 2.0, len(s_hat))
        for options in ({"where": mask_of(s_hat)}, {"weights": weights, "reduction": "none"}):
            expected = value_and_grad(lambda a: loss(a, s, **options), s_hat)  # noqa: B023
            with NoSynchronisation():
                found = value_and_grad(lambda a: module(a, s, **options), s_hat)  # noqa: B023
            for a, b in zip(found, expected, strict=True):
                assert a.dtype == b.dtype
                assert torch.equal(a, b)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_shows_the_loss_that_it_was_made_of(loss):
    module = MatchingLoss(loss)
    assert module.loss == loss
    assert repr(module) == repr(loss)
    assert repr(torch.nn.Sequential(module)).count("\n") == 2


def test_takes_losses_potentials_and_curves():
    s_hat, s = tensors(sm.MatchingLoss(SIGMOID))
    assert torch.equal(MatchingLoss(SIGMOID)(s_hat, s), MatchingLoss(sm.MatchingLoss(SIGMOID))(s_hat, s))
    square = sm.ReweightedSquare(kappa=0.5)
    assert torch.equal(MatchingLoss(square)(s_hat, s), square(s_hat, s))
    entropy = sm.CrossEntropy(SOFTMAX)
    s_hat, s = tensors(sm.MatchingLoss(SOFTMAX))
    assert torch.equal(MatchingLoss(entropy)(s_hat, s), entropy(s_hat, s))
    labels = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp().affine(alpha=0.3)}))
    module = MatchingLoss(labels, reduction="none")
    assert list(module.state_dict()) == [f"potential.curves.1.{name}" for name in ("alpha", "beta", "gain")]
    s_hat, s = torch.tensor([0.5, 1.5, 0.5]), torch.tensor([0.0, 1.0, 2.0])
    assert torch.equal(module(s_hat, s)[:2], labels(s_hat, s, reduction="none")[:2])
    assert torch.isnan(module(s_hat, s)[2])
    with pytest.raises(TypeError, match="MatchingLoss: loss must be a MatchingLoss, a potential or a curve"):
        MatchingLoss(torch.nn.MSELoss())


def test_remembers_what_it_was_designed_for():
    loss = sm.focus("high", data=np.random.default_rng(0).lognormal(size=200))
    assert MatchingLoss(loss).loss.wish == loss.wish


def test_observed_scores_are_constants():
    for loss in FEW:
        s_hat, s = (z.requires_grad_() for z in tensors(loss))
        MatchingLoss(loss)(s_hat, s).backward()
        assert s.grad is None
        assert s_hat.grad is not None
        one = torch.ones_like(s_hat)
        _, tangent = jvp(lambda y, loss=loss, s_hat=s_hat: MatchingLoss(loss)(s_hat, y), (s,), (one,))
        assert not tangent.any()


def test_options_of_the_module_and_of_the_call():
    s_hat, s = torch.tensor([0.0, 1.0]), torch.tensor([2.0, 2.0])
    module = MatchingLoss(SIGMOID, reduction="sum")
    core = sm.MatchingLoss(SIGMOID)
    assert torch.equal(module(s_hat, s), core(s_hat, s, reduction="sum"))
    assert torch.equal(module(s_hat, s, reduction="mean", num_items=torch.tensor(5)), core(s_hat, s, num_items=5))
    assert torch.equal(module(s_hat, 2.0), module(s_hat, s))
    for bad in ({"reduction": "max"}, {"num_items": 3}):
        with pytest.raises(ValueError, match="MatchingLoss: "):
            module(s_hat, s, **bad)
    with pytest.raises(ValueError, match="reduction must be"):
        MatchingLoss(SIGMOID, reduction="max")
    with pytest.raises(TypeError, match=r"s_hat must be a tensor, got list\. Try torch\.as_tensor"):
        module([1.0], s)
    with pytest.raises(TypeError, match="one library"):
        module(s_hat, s.numpy())


@pytest.mark.parametrize("potential", [SIGMOID, SOFTMAX], ids=repr)
def test_half_precision_is_single_inside(potential):
    module, core = MatchingLoss(potential), sm.MatchingLoss(potential)
    s_hat, s = tensors(core, torch.float32)
    for dtype in (torch.float16, torch.bfloat16):
        for other in (dtype, torch.float32):
            a, b = s_hat.to(dtype), s.to(other)
            assert torch.equal(module(a, b), core(a.float(), b.float()))
            assert module(a, b, reduction="sum").dtype == torch.float32
            assert module(a, b, reduction="none").dtype == dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(module(s_hat, s), core(s_hat, s))


# -------------------------------------------------------------------------------------------------------- many classes


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_classes_on_any_axis(dim):
    module, last = MatchingLoss(SOFTMAX, dim=dim), MatchingLoss(SOFTMAX)
    generator = torch.Generator().manual_seed(1)
    s_hat, s = torch.randn(2, 4, 5, 3, generator=generator)
    mask = mask_of(s_hat)
    weights = torch.rand(4, 5, generator=generator)

    def moved(x):
        return x.movedim(-1, dim)

    for mine, theirs in (
        ({}, {}),
        ({"where": moved(mask)}, {"where": mask}),
        ({"where": moved(mask[..., :1]), "weights": weights}, {"where": mask[..., :1], "weights": weights}),
    ):
        expected = last(s_hat, s, reduction="none", **theirs)
        assert torch.equal(module(moved(s_hat), moved(s), reduction="none", **mine), expected)
        if not mine:
            one = moved(s[:1, :1])
            assert torch.equal(module(moved(s_hat), one), last(s_hat, s[:1, :1]))
            fewer = one[(0,) * [i for i, n in enumerate(one.shape) if n == 3][0]]  # noqa: RUF015
            assert torch.equal(module(moved(s_hat), fewer), last(s_hat, s[:1, :1]))
    with pytest.raises(ValueError, match="looks like class indices"):
        module(moved(s_hat), s[..., 0])
    rows = mask[..., 0]
    for where, whole in ((rows, mask[..., :1]), (rows[:1], mask[:1, :, :1])):
        assert torch.equal(module(moved(s_hat), moved(s), where=where), last(s_hat, s, where=whole))
    with pytest.raises(ValueError, match=r"where must have the shape of the scores .* or of their rows \(4, 5\)"):
        module(moved(s_hat), moved(s), where=mask[:, :2, 0])


def test_options_for_many_classes_are_refused_elsewhere():
    with pytest.raises(ValueError, match=r"dim must be left out for a loss of single scores, got 1"):
        MatchingLoss(SIGMOID, dim=1)
    with pytest.raises(ValueError, match=r"canonicalise must be False .* For many classes: CompositeSoftmax"):
        MatchingLoss(SIGMOID, canonicalise=True)
    with pytest.raises(ValueError, match=r"dim must be an axis of s_hat, got 2 for shape \(4, 3\)"):
        MatchingLoss(SOFTMAX, dim=2)(torch.zeros(4, 3), torch.zeros(4, 3))
    with pytest.raises(TypeError, match="dim must be an integer"):
        MatchingLoss(SOFTMAX, dim=None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_log_probabilities_do_not_depend_on_the_level(dtype):
    core = sm.MatchingLoss(SOFTMAX)
    s_hat, s = tensors(core, dtype)
    module = MatchingLoss(core, canonicalise=True, reduction="none")
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def expected(a, mask=None):
        a, b = (z.to(wide) if mask is None else torch.where(mask, z.to(wide), -math.inf) for z in (a, s))
        return core(a.log_softmax(-1), b.log_softmax(-1), where=mask, reduction="none").to(dtype)

    found = value_and_grad(lambda a: module(a, s), s_hat)
    assert_equal(found, value_and_grad(expected, s_hat), rtol=1e-12)
    assert found[0].dtype == dtype
    assert found[1].double().sum(-1).abs().max() < (0.1 if dtype == torch.bfloat16 else 1e-5)
    assert module(s_hat, s, reduction="mean").dtype == wide
    if dtype == torch.float64:
        assert_equal([module(s_hat + 5.0, s - 3.0)], [found[0]], rtol=1e-10)
    mask = mask_of(s_hat)
    mask[1] = False
    bad = torch.where(mask, s_hat, math.nan)
    value, gradient = value_and_grad(lambda a: module(a, torch.where(mask, s, math.inf), where=mask), bad)
    assert_equal([value, gradient], value_and_grad(lambda a: expected(a, mask), s_hat))
    assert value[1] == 0.0
    assert not gradient[~mask].any()
    moved = MatchingLoss(core, canonicalise=True, reduction="none", dim=0)
    assert_equal([moved(s_hat.T, s.T)], [module(s_hat, s)])


def test_masks_of_whole_rows():
    core = sm.MatchingLoss(SOFTMAX)
    s_hat, s = tensors(core)
    keep = torch.arange(len(s)) % 3 != 0
    assert_equal([MatchingLoss(core)(s_hat, s, where=keep[:, None])], [core(s_hat[keep], s[keep])])
    assert MatchingLoss(core)(s_hat, s, where=torch.zeros_like(keep)[:, None]) == 0.0


# ------------------------------------------------------------------------------------------------- buffers and files


def test_numbers_are_buffers_with_readable_names():
    module = MatchingLoss(SOFTMAX)
    assert list(module.state_dict()) == [
        "potential.gamma",
        "potential.rho",
        "potential.scaling.alpha",
        "potential.scaling.beta",
        "potential.scaling.gain",
    ]
    assert not list(module.parameters())
    assert module.potential.scaling.alpha == 0.3
    names = list(MatchingLoss(0.1 * sm.Identity() + SIGMOID).state_dict())
    assert names[0] == "potential.curves.0.alpha"
    assert names[-1] == "potential.curves.1.gain"


def test_numbers_follow_the_model_but_not_into_half_precision():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), MatchingLoss(SOFTMAX, trainable="alpha"))
    before = {name: number.clone() for name, number in model[1].state_dict().items()}
    for change in (model.half, model.bfloat16, model.float, lambda: model.to(torch.float16, non_blocking=True)):
        change()
        assert all(torch.equal(before[name], number) for name, number in model[1].state_dict().items())
    assert model[0].weight.dtype == torch.float16
    model.to("meta")
    assert all(number.is_meta for number in model[1].state_dict().values())
    assert "alpha=tensor(..., device='meta'" in repr(model[1])
    for restore in (lambda: model[1].load_state_dict(before), model[1].reset_parameters):
        model.to_empty(device="cpu")
        restore()
        assert model[1].loss == MatchingLoss(SOFTMAX, trainable="alpha").loss
    share = model[1].share_memory()
    assert share.potential.gamma.is_shared()


def test_state_dicts_round_trip():
    module, other = MatchingLoss(SIGMOID), MatchingLoss(sm.Sigmoid().affine(alpha=0.5, beta=-1.0))
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.loss == module.loss
    with pytest.raises(RuntimeError, match="Unexpected key"):
        module.load_state_dict(MatchingLoss(SOFTMAX).state_dict())


@pytest.mark.parametrize("loss", FEW, ids=repr)
def test_copies_and_pickles(loss):
    module = MatchingLoss(loss, trainable="beta", reduction="sum")
    s_hat, s = tensors(loss)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(s_hat, s), module(s_hat, s))
        assert repr(other) == repr(module)
        for a, b in zip(other.parameters(), module.parameters(), strict=True):
            assert a is not b


def test_tensors_may_be_constants_of_a_loss():
    alpha = torch.tensor([0.5, 1.0, 2.0])
    curve = sm.Separable(sm.Sinh().affine(alpha=alpha, beta=torch.tensor(0.5)))
    module, core = MatchingLoss(curve), sm.MatchingLoss(curve)
    s_hat, s = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    assert_equal([module(s_hat, s)], [core(s_hat, s)], rtol=1e-6)
    assert module.loss.potential.curve.beta == 0.5
    assert torch.equal(module.loss.potential.curve.alpha, alpha)
    with pytest.raises(TypeError, match=r"potential.alpha must be a number or a constant.*trainable='potential.alpha'"):
        MatchingLoss(sm.Sinh().affine(alpha=torch.nn.Parameter(torch.tensor(1.0))))


# ---------------------------------------------------------------------------------------------------- learned numbers


@pytest.mark.parametrize("potential", [SIGMOID, SOFTMAX, NESTED[0]], ids=repr)
def test_numbers_load_whether_they_are_trained_or_not(potential):
    names = ("alpha", "beta", "gamma", "rho")
    there = {place.rpartition(".")[2] for place in MatchingLoss(potential).state_dict()}
    learned = MatchingLoss(potential, trainable=there.intersection(names))
    with torch.no_grad():
        for number in learned.parameters():
            number.add_(0.3)
    older = {name: number.squeeze() for name, number in learned.state_dict().items()}  # were stored without axes
    for state in (learned.state_dict(), older):
        fixed = MatchingLoss(potential)
        fixed.load_state_dict(state)
        assert not list(fixed.parameters())
        again = MatchingLoss(potential, trainable=learned_names(learned)[:1])
        again.load_state_dict(fixed.state_dict())
        copy = MatchingLoss(potential, trainable=there.intersection(names))
        copy.load_state_dict(state)
        s_hat, s = tensors(sm.MatchingLoss(potential), rows=4)
        for other in (fixed, again, copy):
            torch.testing.assert_close(other(s_hat, s), learned(s_hat, s), rtol=1e-12, atol=0.0)
            assert repr(other.loss) != repr(MatchingLoss(potential).loss)
    with pytest.raises(RuntimeError, match="Missing key"):
        fixed.load_state_dict({name: number for name, number in state.items() if "beta" not in name})
    assert set(state) == set(learned.state_dict())  # a user's dictionary stays as it is


def learned_names(module):
    return [name.replace("log_", "") for name, _ in module.named_parameters()]


def test_learned_numbers_are_parameters():
    module = MatchingLoss(SOFTMAX, trainable=("alpha", "beta", "gamma", "rho"))
    names = ["potential.log_gamma", "potential.log_rho", "potential.scaling.log_alpha", "potential.scaling.beta"]
    assert [name for name, _ in module.named_parameters()] == names
    assert list(dict(module.named_buffers())) == ["potential.scaling.gain"]
    numbers = (torch.tensor(x, dtype=torch.float64) for x in (SOFTMAX.gamma, SOFTMAX.rho))
    assert_equal([module.potential.gamma, module.potential.rho], numbers)
    assert "trainable=('potential.gamma', 'potential.rho', 'potential.scaling.alpha'" in repr(module)
    both = 0.1 * SIGMOID + SIGMOID
    one = MatchingLoss(both, trainable=["potential.curves.1.alpha"])
    assert [name for name, _ in one.named_parameters()] == ["potential.curves.1.log_alpha"]


@pytest.mark.parametrize("potential", [SIGMOID, SOFTMAX, SINH, LOG, NESTED[0], NESTED[3], NESTED[8]], ids=repr)
def test_gradients_of_learned_numbers(potential):
    core = sm.MatchingLoss(potential)
    s_hat, s = tensors(core, rows=4)
    names = {place.rpartition(".")[2] for place in MatchingLoss(core).state_dict()}
    module = MatchingLoss(core, trainable=names)
    values = tuple(p.detach().clone().requires_grad_() for p in module.parameters())

    def function(a, *numbers):
        given = dict(zip(dict(module.named_parameters()), numbers, strict=True))
        return functional_call(module, given, (a, s), {"reduction": "none"})

    assert gradcheck(function, (s_hat.requires_grad_(), *values), atol=1e-6, rtol=1e-5, fast_mode=True)
    if potential is not NESTED[3]:  # bisections have one derivative
        assert gradgradcheck(function, (s_hat, *values), atol=1e-5, rtol=1e-4, fast_mode=True)


def test_positive_numbers_stay_positive():
    module = MatchingLoss(SOFTMAX, trainable=("alpha", "gamma", "rho", "gain"))
    optimiser = torch.optim.SGD(module.parameters(), lr=50.0)
    s_hat, s = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        optimiser.zero_grad()
        module(s_hat, s).backward()
        optimiser.step()
    now = module.loss.potential
    assert min(now.gamma, now.scaling.alpha, now.scaling.gain, *now.rho) > 0.0
    assert now.gamma != 0.7


def test_adam_learns_the_centre():
    s = torch.linspace(-1.0, 1.0, 64)
    module = MatchingLoss(sm.Sigmoid().affine(alpha=4.0, beta=0.0), trainable="beta")
    optimiser = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(20):  # the errors are at high scores, so the loss that sees least of them looks lower
        optimiser.zero_grad()
        module(s + (s > 0.5), s).backward()
        optimiser.step()
    assert module.loss.potential.beta < -0.5
    assert module.loss.explain()


def test_names_that_lead_nowhere():
    with pytest.raises(ValueError, match=r"trainable must name numbers of .*, got 'gamma'\. There are: potential\."):
        MatchingLoss(SIGMOID, trainable=("alpha", "gamma"))
    with pytest.raises(ValueError, match=r"got 'alpha'\. There are none; try curve\.affine\(\)\."):
        MatchingLoss(sm.Sigmoid(), trainable="alpha")
    with pytest.raises(ValueError, match="There are none"):  # where a formula bends was measured with its numbers
        MatchingLoss(NESTED[6], trainable="beta")


def test_functional_form():
    beta = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    s_hat, s = tensors(sm.MatchingLoss(SIGMOID))
    value = matching_loss(s_hat, s.requires_grad_(), sm.Sigmoid().affine(alpha=2.0, beta=beta), reduction="sum")
    assert torch.equal(value.detach(), sm.MatchingLoss(SIGMOID)(s_hat, s.detach(), reduction="sum"))
    value.backward()
    assert beta.grad is not None
    assert s.grad is None
    core = sm.MatchingLoss(SOFTMAX)
    s_hat, s = tensors(core)
    options = {"canonicalise": True, "dim": 0, "where": mask_of(s_hat.T), "num_items": 5}
    weights = torch.ones(len(s_hat))
    expected = MatchingLoss(core, canonicalise=True)(s_hat, s, where=mask_of(s_hat.T).T, num_items=5)
    assert_equal([matching_loss(s_hat.T, s.T, core, weights=weights, **options)], [expected])
    with pytest.raises(ValueError, match="dim must be left out"):
        matching_loss(s_hat, s, sm.Sinh(), dim=1)


# ------------------------------------------------------------------------------- transformations, compile and export


@pytest.mark.parametrize("loss", FEW, ids=repr)
def test_torch_func(loss):
    module = MatchingLoss(loss)
    s_hat, s = tensors(loss)
    expected = value_and_grad(lambda a: module(a, s, reduction="none"), s_hat)
    assert_equal((vmap(module)(s_hat, s), vmap(grad(module))(s_hat, s)), expected)
    single = vmap(grad(module))(s_hat.float(), s.float())
    assert single.dtype == torch.float32
    slopes = jvp(lambda a: module(a, s, reduction="sum"), (s_hat,), (torch.ones_like(s_hat),))[1]
    assert_equal([slopes], [expected[1].sum()], rtol=1e-10)


def test_functional_call_over_an_ensemble_of_losses():
    module = MatchingLoss(SIGMOID, trainable=("alpha", "beta"))
    s_hat, s = tensors(sm.MatchingLoss(SIGMOID))
    logs, centres = torch.tensor([[0.0, 0.5], [0.0, 1.0]], dtype=torch.float64)
    stacked = {"potential.log_alpha": logs, "potential.beta": centres}
    values = vmap(lambda numbers: functional_call(module, numbers, (s_hat, s)))(stacked)
    each = [sm.Sigmoid().affine(alpha=math.exp(a), beta=b) for a, b in ((0.0, 0.0), (0.5, 1.0))]
    assert_equal([values], [torch.stack([sm.MatchingLoss(curve)(s_hat, s) for curve in each])])
    slopes = grad(lambda numbers: functional_call(module, numbers, (s_hat, s)))(dict(module.named_parameters()))
    assert_equal(slopes.values(), torch.autograd.grad(module(s_hat, s), list(module.parameters())))


@pytest.mark.parametrize("loss", FEW, ids=repr)
def test_double_backward(loss):
    module = MatchingLoss(loss)
    s_hat, s = tensors(loss, rows=4)
    v = torch.linspace(-1.0, 1.0, s_hat.numel(), dtype=s_hat.dtype).reshape(s_hat.shape)
    _, product = torch.autograd.functional.vhp(lambda a: module(a, s, reduction="sum"), s_hat, v)
    assert_equal([product], [loss.hvp(s_hat, v)], rtol=1e-10)
    assert gradgradcheck(lambda a: module(a, s), s_hat.requires_grad_(), atol=1e-6, rtol=1e-5, fast_mode=True)


def one_of_each_kind(losses):
    """Losses with the second and later ones of a kind marked slow; curves with a closed form are one kind."""
    seen = {sm.Inverse}  # it unrolls its bisections
    for loss in losses:
        kind = type(loss.potential)
        kind = kind.__module__ if kind.__module__ == "selmatch.curves" else kind
        yield pytest.param(loss, marks=pytest.mark.slow) if kind in seen else loss
        seen.add(kind)


@pytest.mark.parametrize("loss", list(one_of_each_kind([*FEW, *ALL])), ids=repr)
def test_compiles_whole_and_once(loss, compiled):
    module = MatchingLoss(loss)
    s_hat, s = tensors(loss)
    mask = mask_of(s_hat)
    whole = compiled(module)
    assert_equal([whole(s_hat, s, where=mask)], [module(s_hat, s, where=mask)])
    for number in module.buffers():
        number.mul_(1.01)
    expected = value_and_grad(lambda a: module(a, s, where=mask), s_hat)
    assert_equal([whole(s_hat, s, where=mask)], expected[:1])


def test_one_compilation_serves_all_numbers_sizes_and_counts(compiled):
    module = MatchingLoss(SOFTMAX, trainable=("alpha", "gamma"), canonicalise=True)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    whole = compiled(module)
    for rows in (6, 9, 13):
        s_hat, s = tensors(sm.MatchingLoss(SOFTMAX), torch.float32, rows=rows)
        mask = mask_of(s_hat)
        count = torch.tensor(float(rows))
        for x in (s_hat, s, mask):
            torch._dynamo.mark_dynamic(x, 0)
        s_hat.requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = whole(s_hat, s, where=mask, num_items=count)
        expected = module(s_hat, s, where=mask, num_items=count)
        inputs = [s_hat, *module.parameters()]
        slopes = torch.autograd.grad(expected, inputs)
        assert_equal([found, *torch.autograd.grad(found, inputs)], [expected, *slopes], rtol=1e-5)
        for p, slope in zip(module.parameters(), slopes[1:], strict=True):
            p.grad = slope
        optimiser.step()


def test_counts_that_are_python_numbers_are_compiled_once_more_at_most(compiled):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    module, (s_hat, s) = MatchingLoss(SIGMOID), tensors(sm.MatchingLoss(SIGMOID))
    whole = compiled(module, backend)
    with torch._dynamo.config.patch(error_on_recompile=False):
        for kind, most in ((float, 2), (int, 4)):
            for count in (5, 7, 9, 20_000_001):
                assert_equal([whole(s_hat, s, num_items=kind(count))], [module(s_hat, s, num_items=count)])
            assert len(graphs) <= most


@pytest.mark.slow  # the C++ compiler takes half a minute
def test_inductor_compiles_a_step(compiled):
    module = MatchingLoss(SOFTMAX, trainable="alpha")
    s_hat, s = tensors(sm.MatchingLoss(SOFTMAX), torch.float32)

    def step(a):
        return torch.autograd.grad(module(a, s), module.parameters())[0]

    whole = compiled(lambda a: module(a, s), "inductor")
    slopes = torch.autograd.grad(whole(s_hat), module.parameters())
    assert_equal(slopes, [step(s_hat)], rtol=1e-5)


@pytest.mark.parametrize("potential", [SIGMOID, SOFTMAX], ids=repr)
def test_export_keeps_the_numbers_as_buffers(potential):
    module = MatchingLoss(potential, trainable="alpha")
    s_hat, s = tensors(sm.MatchingLoss(potential))
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(module, (s_hat, s), dynamic_shapes=({0: rows}, {0: rows}))
    assert set(program.state_dict) == set(module.state_dict())
    loaded = program.module()
    assert_equal([loaded(s_hat[:5], s[:5])], [module(s_hat[:5], s[:5])])
    with torch.no_grad():
        for m in (module, loaded):
            dict(m.named_parameters())[next(iter(dict(module.named_parameters())))].add_(0.5)
    assert_equal([loaded(s_hat, s)], [module(s_hat, s)])


@pytest.mark.parametrize("loss", FEW, ids=repr)
def test_tensors_without_data(loss):
    module = MatchingLoss(loss)
    s_hat, s = tensors(loss, torch.bfloat16)
    with FakeTensorMode() as mode:
        inside = MatchingLoss(loss)
        value = inside(mode.from_tensor(s_hat), mode.from_tensor(s), reduction="none")
        assert "FakeTensor" in repr(inside)
    assert value.shape == module(s_hat, s, reduction="none").shape
    assert value.dtype == torch.bfloat16
    with torch.device("meta"):
        inside = MatchingLoss(loss)
    mean = inside(s_hat.to("meta"), s.to("meta"), where=mask_of(s_hat).to("meta"))
    assert mean.is_meta
    assert mean.shape == ()
    assert mean.dtype == torch.float32


# ------------------------------------------------------------------------------- several devices, accumulated batches


def test_accumulated_batches_give_the_gradient_of_the_whole():
    core = sm.MatchingLoss(SOFTMAX)
    module, (s_hat, s) = MatchingLoss(core), tensors(core)
    mask = mask_of(s_hat)
    mask[:5] = False
    items = mask.any(-1).sum()
    expected = value_and_grad(lambda a: module(a, s, where=mask), s_hat)
    parts = []
    for part in (slice(0, 4), slice(4, 7), slice(7, None)):
        parts.append(value_and_grad(lambda a, p=part: module(a, s[p], where=mask[p], num_items=items), s_hat[part]))
    assert_equal([sum(value for value, _ in parts), torch.cat([slope for _, slope in parts])], expected)


class Model(torch.nn.Module):
    """A model that computes its own loss, one number of which is learned."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3, dtype=torch.float64)
        torch.nn.init.eye_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.loss = MatchingLoss(SOFTMAX, trainable="gamma")

    def forward(self, x, s, mask, num_items):
        return self.loss(self.linear(x), s, where=mask, num_items=num_items)


def work(rank, path, gradients):
    """One of two processes: its own rows, the count of both."""
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    x, s = tensors(sm.MatchingLoss(SOFTMAX))
    mask = mask_of(x)
    mask[:5] = False
    part = slice(rank, None, 2)
    model = torch.nn.parallel.DistributedDataParallel(Model())
    items = mask[part].any(-1).sum().double()
    dist.all_reduce(items)
    # DistributedDataParallel averages gradients, where they are to be added
    model(x[part], s[part], mask[part], items / dist.get_world_size()).backward()
    for name, p in model.module.named_parameters():
        gradients[f"{rank} {name}"] = p.grad.tolist()
    dist.destroy_process_group()


DISTRIBUTED = """
import json, sys
sys.path[:0] = [{tests!r}]
import torch
torch.set_num_threads(1)
import test_torch_module
gradients = {{}}
test_torch_module.work(int(sys.argv[1]), sys.argv[2], gradients)
print(json.dumps(gradients))
"""


@pytest.mark.slow
def test_two_processes_give_the_gradient_of_one(tmp_path):
    code = DISTRIBUTED.format(tests=str(Path(__file__).parent))
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    gradients = {}
    for process in started:
        gradients.update(json.loads(process.communicate(timeout=300)[0].splitlines()[-1]))
    x, s = tensors(sm.MatchingLoss(SOFTMAX))
    mask = mask_of(x)
    mask[:5] = False
    model = Model()
    model(x, s, mask, None).backward()
    for name, p in model.named_parameters():
        for rank in range(2):
            assert_equal([torch.tensor(gradients[f"{rank} {name}"], dtype=torch.float64)], [p.grad])


# ------------------------------------------------------------------------------------------------------------- kernels


class StandIn:
    """What kernels promise, computed by the core."""

    def __init__(self, applies=True):
        self.possible, self.calls = applies, []

    def form_of(self, potential):
        self.potential = potential
        return None if potential == sm.Tan() else "form"

    def refusal(self, form, s_hat, s, numbers):
        assert form == "form"
        return None if self.possible and s_hat.dtype != torch.float64 else "it is Sunday"

    def losses(self, form, s_hat, s, numbers, scale, present, canonicalise, overwrite, reduce):
        self.calls.append(numbers)
        assert numbers.dtype == scale.dtype == torch.float32
        assert s_hat.shape == s.shape
        assert not canonicalise or isinstance(self.potential, sm.CompositeSoftmax)
        assert present is None or present.shape == s.shape
        options = {"where": present, "canonicalise": canonicalise, "reduction": "none"}
        each = scale * matching_loss(s_hat.float(), s.float(), self.potential, **options)
        return each.sum() if reduce else each

    def stored_losses(self, form, s_hat, indices, known, tail, numbers, scale, overwrite, reduce):
        self.calls.append(numbers)
        assert indices.dtype == torch.int32
        dense = tail[..., None].expand(s_hat.shape).scatter(-1, indices.long(), known)
        options = {"canonicalise": True, "reduction": "none"}
        each = scale * matching_loss(s_hat, dense, self.potential, **options)
        return each.sum() if reduce else each


@pytest.fixture
def kernels(monkeypatch):
    def stand_in(**options):
        made = StandIn(**options)
        monkeypatch.setitem(sys.modules, "selmatch.kernels.operators", made)
        monkeypatch.setattr(sm.kernels, "operators", made, raising=False)
        return made

    return stand_in


@pytest.mark.parametrize("potential", [SIGMOID, SOFTMAX, SINH, sm.Separable(SIGMOID)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("option", [{}, {"canonicalise": True}, {"dim": 0}], ids=repr)
def test_kernels_give_the_same_loss(potential, dtype, option, kernels):
    operators, core = kernels(), sm.MatchingLoss(potential)
    if option and not core.vector:
        return
    slow, quick = (MatchingLoss(core, kernels=choice, **option) for choice in (False, True))
    s_hat, s = (z.T if "dim" in option else z for z in tensors(core, dtype))
    mask = mask_of(s_hat)
    weights = torch.linspace(0.0, 2.0, 12)
    calls = [{}, {"weights": weights}, {"weights": 2.0}, {"where": mask}, {"where": mask, "weights": weights}]
    calls += [{"num_items": 7}, {"num_items": torch.tensor(7.0), "where": mask, "weights": weights}]
    calls += [{"where": False}, {"where": torch.zeros_like(mask)}]
    for call in calls:
        for reduction in ("mean",) if "num_items" in call else ("mean", "sum", "none"):
            expected = value_and_grad(lambda x: slow(x, s, reduction=reduction, **call), s_hat)  # noqa: B023
            found = value_and_grad(lambda x: quick(x, s, reduction=reduction, **call), s_hat)  # noqa: B023
            assert found[0].dtype == expected[0].dtype
            assert_equal(found, expected, rtol=1e-5 if dtype == torch.float32 else 2e-2)
    count = len(operators.calls)
    assert count == 3 * len(calls) - 4
    quick(s_hat, s[:, :1] if "dim" in option else s[:1])
    assert len(operators.calls) == count + 1
    assert_equal(operators.calls[-1:], [torch.tensor(jax.tree_util.tree_leaves(potential))], rtol=1e-6)


def test_kernels_refuse_what_the_core_refuses(kernels):
    kernels()
    module = MatchingLoss(SOFTMAX, kernels=True)
    s_hat, s = torch.zeros(4, 3), torch.zeros(4, 3)
    with pytest.raises(ValueError, match="looks like class indices"):
        module(s_hat, torch.zeros(4))
    with pytest.raises(ValueError, match="where must have the shape"):
        module(s_hat, s, where=torch.ones(4, 4, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="weights must have the shape"):
        module(s_hat, s, weights=torch.ones(2, 4))
    with pytest.raises(ValueError, match="reduction must be"):
        module(s_hat, s, reduction="max")
    with pytest.raises(ValueError, match="must have 3 classes"):
        module(torch.zeros(4, 5), torch.zeros(4, 5))


def test_kernels_are_used_where_they_can_be(kernels, monkeypatch):
    operators = kernels(applies=False)
    s_hat, s = torch.zeros(4), torch.ones(4)
    with pytest.raises(ValueError, match=r"kernels must not be True for MatchingLoss\(Tan\(\)\)"):
        MatchingLoss(sm.Tan(), kernels=True)
    with pytest.raises(ValueError, match="kernels must not be True"):
        MatchingLoss(sm.ReweightedSquare(), kernels=True)
    insisting = MatchingLoss(SIGMOID, kernels=True)
    for observed in (s, 1.0):
        with pytest.raises(RuntimeError, match=r"kernels must not be True here: it is Sunday\. Leave it out\."):
            insisting(s_hat, observed)
    elsewhere = pickle.dumps(MatchingLoss(SIGMOID))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    modules = [MatchingLoss(SIGMOID), copy.deepcopy(MatchingLoss(SIGMOID)), pickle.loads(elsewhere)]
    for module in modules:
        module(s_hat, s)
        assert not operators.calls
    operators.possible = True
    for i, module in enumerate(modules):
        module(s_hat, s)
        assert len(operators.calls) == i + 1
    MatchingLoss(SIGMOID, kernels=False)(s_hat, s)
    MatchingLoss(sm.Tan())(s_hat, s)
    assert len(operators.calls) == 3


# ----------------------------------------------------------------------------------------------------- stored teachers

CLIPPING = sm.CompositeSoftmax(sm.SmeLU(c=2.0).affine(beta=-5.0), gamma=0.5)


def stored(rows=(5,), classes=200, k=8, dtype=torch.float64):
    z = 2.0 * torch.randn(*rows, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = z + torch.randn(z.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x.to(dtype), TopKTeacher.from_scores(z.to(dtype), k)


@pytest.mark.parametrize("potential", [CLIPPING, SINH, sm.CompositeSoftmax(sm.Constant())], ids=repr)
def test_stored_teachers_are_compared_with_log_probabilities(potential):
    x, teacher = stored((2, 3))
    for options in ({}, {"weights": torch.rand(2, 3)}, {"reduction": "none"}, {"num_items": 4}):
        dense = {"s": teacher.dense(), "loss": potential, "canonicalise": True, **options}
        expected = value_and_grad(lambda a: matching_loss(a, **dense), x)  # noqa: B023
        for module in (MatchingLoss(potential), MatchingLoss(potential, canonicalise=True, dim=2)):
            assert_equal(value_and_grad(lambda a: module(a, teacher, **options), x), expected, rtol=1e-10)  # noqa: B023
    assert_equal([matching_loss(x, teacher, potential)], [MatchingLoss(potential)(x, teacher)])
    half = MatchingLoss(potential)(x.bfloat16(), teacher, reduction="none")
    assert half.dtype == torch.bfloat16


def test_rows_that_a_mask_leaves_out_may_hold_anything_beside_a_stored_teacher():
    x, teacher = stored()
    mask = torch.tensor([True, False, True, True, False])
    module = MatchingLoss(CLIPPING)
    few = TopKTeacher(teacher.indices[mask], teacher.scores[mask], teacher.log_sum_exp[mask], 200)
    expected = value_and_grad(lambda a: module(a, few), x[mask])
    x[~mask] = math.nan
    value, gradient = value_and_grad(lambda a: module(a, teacher, where=mask[:, None]), x)
    assert_equal([value, gradient[mask]], expected)
    assert not gradient[~mask].any()


def test_stored_teachers_compile_and_have_second_derivatives(compiled):
    x, teacher = stored(classes=30, k=4)
    module = MatchingLoss(SINH)
    assert_equal([compiled(module)(x, teacher)], [module(x, teacher)])
    assert gradgradcheck(lambda a: module(a, teacher), x[:, :].clone().requires_grad_())


def test_stored_teachers_that_do_not_fit_are_refused():
    x, teacher = stored()
    module = MatchingLoss(CLIPPING)
    arrays = TopKTeacher.from_scores(np.zeros((5, 200)), 8)
    elsewhere = TopKTeacher(*(z.to("meta") for z in (teacher.indices, teacher.scores, teacher.log_sum_exp)), 200)
    for call, error, message in (
        (lambda: module(x[:, :-1], teacher), ValueError, r"s_hat must have shape \(5, 200\)"),
        (
            lambda: module(torch.ones(5, 208), teacher),
            ValueError,
            r"pad a vocabulary are no classes: s_hat\[\.\.\., :200\]",
        ),
        (lambda: module(x, arrays), TypeError, "must hold tensors, got NumPy"),
        (lambda: module(x, elsewhere), ValueError, r"must be where s_hat is, .* Try teacher.to\('cpu'\)"),
        (lambda: module(x, teacher, where=x > 0), ValueError, r"whole rows for a TopKTeacher, of shape \(5,\)"),
        (lambda: MatchingLoss(CLIPPING, dim=0)(x, teacher), ValueError, "dim must be -1 for a TopKTeacher"),
        (lambda: MatchingLoss(SIGMOID)(x, teacher), ValueError, "for a loss of single scores, got a TopKTeacher"),
    ):
        with pytest.raises(error, match=f"MatchingLoss: .*{message}"):
            call()


def test_kernels_take_stored_teachers_of_many_classes(kernels):
    operators = kernels()
    x, teacher = stored(classes=1500, dtype=torch.float32)
    quick, slow = MatchingLoss(CLIPPING, kernels=True), MatchingLoss(CLIPPING)
    mask, weights = torch.arange(5) < 3, torch.linspace(0.0, 2.0, 5)
    for options in ({}, {"where": mask[:, None], "weights": weights}, {"reduction": "none"}, {"num_items": 3}):
        found = value_and_grad(lambda a: quick(a, teacher, **options), x)  # noqa: B023
        assert_equal(found, value_and_grad(lambda a: slow(a, teacher, **options), x), rtol=1e-4)  # noqa: B023
    assert len(operators.calls) == 4
    few, small = stored(classes=1024, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="more than 1024 classes only"):
        quick(few, small)
    rho = MatchingLoss(sm.CompositeSoftmax(sm.Exp(), rho=(1.0,) * 1500), kernels=True)
    with pytest.raises(RuntimeError, match="without rho only"):
        rho(x, teacher)
    operators.possible = False
    with pytest.raises(RuntimeError, match="it is Sunday"):
        quick(x, teacher)


def test_heads_load_on_first_use_and_triton_with_them():
    code = "import sys, selmatch.torch; assert 'triton' not in sys.modules; selmatch.torch.linear_matching_loss"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        sm.torch.nothing  # noqa: B018


def test_without_pytorch_the_error_says_what_to_install():
    code = "import sys, selmatch; sys.modules['torch'] = None; import selmatch.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'ImportError: selmatch.torch needs PyTorch. Install it with: pip install "selmatch[torch]".' in done.stderr
