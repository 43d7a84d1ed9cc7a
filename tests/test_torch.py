"""Losses are PyTorch citizens: autograd to any order, torch.func, torch.compile, export, autocast, any tensor."""

import copy
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from score_pairs import generic_pairs, special_pairs
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

import selmatch as sm
from conftest import JUMPING, KINKED, LOSSES, SMOOTH, VECTORS

#: twice differentiable in both arguments at generic points
TWICE = [sm.MatchingLoss(potential) for potential in (*SMOOTH, *KINKED, *VECTORS)]
#: and wherever the slope is finite
EVERYWHERE = [sm.MatchingLoss(potential) for potential in (*SMOOTH, *VECTORS) if "SmeLU" not in repr(potential)]
INVERSE = sm.MatchingLoss(sm.Inverse(sm.Identity() + sm.Sinh()))
SIGMOID = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=1.5))
CAPPED = sm.MatchingLoss(sm.Sinh().capped(-1.5, 2.0))
SOFTMAX = sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5), gamma=0.7, rho=(0.5, 1.0, 2.0)))

pytestmark = pytest.mark.usefixtures("parts_of_torch")


def tensors(loss, pairs=generic_pairs, dtype=torch.float64, **options):
    return tuple(torch.tensor(z, dtype=dtype) for z in pairs(loss, **options))


def value_and_grads(function, *inputs):
    """The value of a function, and the gradients of its sum with respect to all inputs."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    value = function(*inputs)
    return value.detach(), *torch.autograd.grad(value.sum(), inputs, materialize_grads=True)


def assert_equal(actual, expected, rtol=1e-12):
    for a, b in zip(actual, expected, strict=True):
        a, b = a.detach(), b.detach()
        torch.testing.assert_close(a, b, rtol=rtol, atol=1e-2 * rtol * (float(b.abs().max()) if b.numel() else 1.0))


def reference(array):
    return torch.from_numpy(np.asarray(array))


# ------------------------------------------------------------------------------------------------------- autograd


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_autograd_gives_the_gradient_and_the_hessian(loss):
    s_hat, s = generic_pairs(loss)
    x, y = torch.from_numpy(s_hat), torch.from_numpy(s)
    value, gradient, _ = value_and_grads(lambda a, b: loss(a, b, reduction="sum"), x, y)
    expected = loss(s_hat, s, reduction="sum"), loss.grad(s_hat, s)
    assert_equal((value, gradient), map(reference, expected))
    v = torch.linspace(-1.0, 1.0, x.numel(), dtype=x.dtype).reshape(x.shape)
    _, product = torch.autograd.functional.vhp(lambda a: loss(a, y, reduction="sum"), x, v)
    assert_equal([product], [loss.hvp(x, v)], rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_gradient_at_the_label_is_zero(loss):
    _, s = tensors(loss, special_pairs)
    value, gradient, gradient_s = value_and_grads(lambda a, b: loss(a, b, reduction="none"), s, s)
    assert not value.any()
    assert not gradient.any()
    assert not gradient_s[torch.isfinite(loss.potential.slope(s))].any()


@pytest.mark.parametrize("loss", TWICE, ids=repr)
def test_gradients_of_both_scores_at_generic_points(loss):
    inputs = tuple(z.requires_grad_() for z in tensors(loss, rows=3))

    def function(s_hat, s):
        return loss(s_hat, s, reduction="none")

    assert gradcheck(function, inputs, atol=1e-7, rtol=1e-6, fast_mode=True)
    if loss is not INVERSE:
        assert gradgradcheck(function, inputs, atol=1e-6, rtol=1e-5, fast_mode=True)


@pytest.mark.parametrize("loss", EVERYWHERE, ids=repr)
def test_gradients_at_the_label_and_at_zero(loss):
    s_hat, s = tensors(loss, special_pairs)
    finite = torch.isfinite(loss.potential.slope(s_hat)) & torch.isfinite(loss.potential.slope(s))
    if loss.vector:
        finite = finite.all(-1)
    s_hat, s = s_hat[finite].requires_grad_(), s[finite].requires_grad_()
    assert len(s_hat) >= 2

    def function(s_hat, s):
        return loss(s_hat, s, reduction="none")

    assert gradcheck(function, (s_hat, s), atol=1e-5, rtol=1e-5, fast_mode=True)
    # twice only in the prediction: the slope of some links has a kink at 0
    assert gradgradcheck(lambda a: function(a, s.detach()), s_hat, atol=1e-4, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("loss", [SIGMOID, CAPPED, SOFTMAX], ids=repr)
def test_gradients_of_the_gradient(loss):
    inputs = tuple(z.requires_grad_() for z in tensors(loss, rows=3))
    assert gradcheck(loss.grad, inputs, atol=1e-7, rtol=1e-6)


def test_scores_behind_the_mask_get_no_gradient():
    for loss in (SIGMOID, SOFTMAX, sm.MatchingLoss(sm.Log())):
        s_hat, s = tensors(loss)
        mask = torch.arange(s_hat.numel()).reshape(s_hat.shape) % 5 != 0
        bad = torch.where(mask, s_hat, math.nan)
        value, gradient, gradient_s = value_and_grads(lambda a, b: loss(a, b, where=mask), bad, s)  # noqa: B023
        expected = value_and_grads(lambda a, b: loss(a, b, where=mask), s_hat, s)  # noqa: B023
        assert_equal((value, gradient, gradient_s), expected)
        assert not gradient[~mask].any()
        assert not gradient_s[~mask].any()


# ----------------------------------------------------------------------------------------------------- torch.func


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_vmap_of_the_gradient_is_the_gradient_of_each_row(loss):
    s_hat, s = tensors(loss)
    expected = value_and_grads(lambda a, b: loss(a, b, reduction="none"), s_hat, s)[:2]
    assert_equal((vmap(loss)(s_hat, s), vmap(grad(loss))(s_hat, s)), expected)


@pytest.mark.parametrize("loss", [SIGMOID, CAPPED, SOFTMAX, sm.MatchingLoss(sm.Log())], ids=repr)
def test_hessians_by_every_mode_agree(loss):
    s_hat, s = tensors(loss, rows=4)

    def function(a):
        return loss(a, s, reduction="sum")

    full = hessian(function)(s_hat)
    assert full.shape == s_hat.shape + s_hat.shape
    v = torch.linspace(-1.0, 1.0, s_hat.numel(), dtype=s_hat.dtype).reshape(s_hat.shape)
    assert_equal([torch.tensordot(full, v, dims=v.ndim)], [loss.hvp(s_hat, v)], rtol=1e-10)
    for mode in (
        jacfwd(jacrev(function)),
        jacrev(jacrev(function)),
        jacfwd(jacfwd(function)),
        jacrev(jacfwd(function)),
    ):
        assert_equal([mode(s_hat)], [full])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_forward_mode_gives_the_directional_derivative(loss):
    s_hat, s = tensors(loss)
    v = torch.linspace(-1.0, 1.0, s_hat.numel(), dtype=s_hat.dtype).reshape(s_hat.shape)
    value, slope = torch.func.jvp(lambda a: loss(a, s, reduction="none"), (s_hat,), (v,))
    moves = loss.grad(s_hat, s) * v
    assert_equal((value, slope), (loss(s_hat, s, reduction="none"), moves.sum(-1) if loss.vector else moves), 1e-11)


# ---------------------------------------------------------------------------------------------- trained parameters


def softmax(**options):
    return sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), **options)


TRAINED = {
    "alpha": (lambda t: sm.Sinh().affine(alpha=t, beta=0.5), 0.7),
    "beta": (lambda t: sm.Sigmoid().affine(alpha=2.0, beta=t), 0.7),
    "gain": (lambda t: sm.Exp().affine(gain=t), 0.7),
    "alpha of a bounded domain": (lambda t: sm.Log().affine(alpha=t, beta=-0.3), 0.7),
    "beta of a bounded domain": (lambda t: sm.Logit().affine(alpha=0.25, beta=t), -0.7),
    "alpha in a sum": (lambda t: 0.1 * sm.Identity() + sm.Exp().affine(alpha=t), 0.7),
    "factor": (lambda t: t * sm.Identity() + sm.Tanh(), 0.7),
    "beta under a cap": (lambda t: sm.Sinh().affine(beta=t).capped(-1.5, 2.0), 0.3),
    "alpha of a piece": (lambda t: sm.Piecewise((0.0, 1.0, 3.0), (sm.Constant(0.0), sm.Exp().affine(alpha=t))), 0.7),
    "alpha under an inverse": (lambda t: sm.Inverse(sm.Identity() + sm.Sinh().affine(alpha=t)), 0.7),
    "gamma of a sigmoid": (lambda t: sm.CompositeSigmoid(sm.Sinh(), gamma=t), 0.7),
    "offset of a sigmoid": (lambda t: sm.CompositeSigmoid(sm.Sinh(), gamma=0.5, offset=t), -1.5),
    "alpha of a scaling": (lambda t: sm.CompositeSigmoid(sm.Tanh().affine(alpha=t)), 0.7),
    "gamma": (lambda t: softmax(gamma=t), 0.7),
    "rho": (lambda t: softmax(rho=t), (0.5, 1.0, 2.0)),
    "anchor": (lambda t: softmax(anchor=t), 0.3),
    "value": (lambda t: sm.CompositeSoftmax(sm.Constant(t)), 0.7),
    "alpha of separate curves": (lambda t: sm.Separable(sm.Sinh().affine(alpha=t)), 0.7),
}


def derivative_by_differences(build, value, s_hat, s):
    """The derivative of the mean loss with respect to a parameter, from NumPy values alone."""
    value, step = np.asarray(value), 1e-5
    slopes = np.zeros(value.shape)
    for i in np.ndindex(value.shape):
        change = np.zeros(value.shape)
        change[i] = step
        up, down = (sm.MatchingLoss(build((value + d).tolist()))(s_hat, s) for d in (change, -change))
        slopes[i] = (up - down) / (2.0 * step)
    return slopes


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("kind", ["tensor", "parameter"])
def test_parameters_get_gradients(name, kind):
    build, value = TRAINED[name]
    s_hat, s = generic_pairs(sm.MatchingLoss(build(value)))
    t = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    t = torch.nn.Parameter(t) if kind == "parameter" else t
    sm.MatchingLoss(build(t))(torch.from_numpy(s_hat), torch.from_numpy(s)).backward()
    np.testing.assert_allclose(t.grad.numpy(), derivative_by_differences(build, value, s_hat, s), rtol=2e-6, atol=1e-9)


def test_parameters_may_differ_between_the_classes():
    alpha = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    loss = sm.MatchingLoss(sm.Separable(sm.Sinh().affine(alpha=alpha)))
    s_hat, s = tensors(sm.MatchingLoss(sm.Separable(sm.Sinh())))
    values = loss(s_hat, s, reduction="none")
    each = [
        sm.MatchingLoss(sm.Sinh().affine(alpha=a))(s_hat[:, k], s[:, k], reduction="none")
        for k, a in enumerate((0.5, 1.0, 2.0))
    ]
    assert_equal([values.detach()], [sum(each)])
    assert torch.autograd.grad(values.sum(), alpha)[0].all()


class Trained(torch.nn.Module):
    """A model whose loss has a trained centre."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(0.8, dtype=torch.float64))
        self.beta = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x, s):
        return sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=self.beta))(self.weight * x, s)


def test_a_loss_made_in_the_forward_pass_trains_by_functional_call_and_compiles(compiled):
    model, (x, s) = Trained(), tensors(SIGMOID)
    expected = torch.autograd.grad(model(x, s), list(model.parameters()))
    values = {name: p.detach() for name, p in model.named_parameters()}
    found = grad(lambda p: functional_call(model, p, (x, s)))(values)
    assert_equal(found.values(), expected)
    whole = torch.autograd.grad(compiled(model)(x, s), list(model.parameters()))
    assert_equal(whole, expected)


def test_a_loss_with_tensors_can_be_copied_pickled_and_leaves_no_graph_behind():
    alpha = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    loss = sm.MatchingLoss(sm.Sigmoid().affine(alpha=alpha, beta=torch.tensor(1.5)))
    s_hat, s = tensors(SIGMOID)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other.potential.alpha is not alpha
        assert other.potential.alpha.requires_grad
        assert_equal([other(s_hat, s).detach()], [SIGMOID(s_hat, s)])
    for _ in range(2):  # a second pass would fail if the first one's graph were kept
        loss(s_hat, s).backward()
    assert alpha.grad is not None
    assert alpha.is_leaf
    assert loss.potential.alpha is alpha


def test_no_gradient_where_none_is_asked_for():
    for loss in (SIGMOID, CAPPED, SOFTMAX):
        s_hat, s = tensors(loss)
        assert not loss(s_hat, s).requires_grad
        assert not loss.grad(s_hat, s).requires_grad
        with torch.no_grad():
            assert not loss(s_hat.requires_grad_(), s).requires_grad
        assert loss(s_hat.requires_grad_(), s).requires_grad
        with torch.inference_mode():
            assert loss(s_hat, s).is_inference()


# ----------------------------------------------------------------------------------------------- compile and export


def one_of_each_kind(losses):
    """Losses with the second and later ones of a kind of potential marked slow."""
    seen = {type(INVERSE.potential)}  # it unrolls its bisections: more than a minute
    for loss in losses:
        kind = type(loss.potential)
        yield pytest.param(loss, marks=pytest.mark.slow) if kind in seen else loss
        seen.add(kind)


@pytest.mark.parametrize("loss", list(one_of_each_kind(LOSSES)), ids=repr)
def test_compiles_whole_to_the_eager_value_and_gradient(loss, compiled):
    s_hat, s = tensors(loss)
    expected = value_and_grads(loss, s_hat, s)
    assert_equal(value_and_grads(compiled(lambda a, b: loss(a, b)), s_hat, s), expected)


@pytest.mark.slow  # the C++ compiler takes half a minute for each
@pytest.mark.parametrize("loss", [SIGMOID, CAPPED, SOFTMAX], ids=repr)
def test_inductor_gives_the_eager_value_and_gradient(loss, compiled):
    s_hat, s = tensors(loss, dtype=torch.float32)

    def function(a):
        return loss(a, s)

    assert_equal(value_and_grads(compiled(function, "inductor"), s_hat), value_and_grads(function, s_hat), rtol=1e-5)


@pytest.mark.parametrize(
    "loss", [SOFTMAX, sm.MatchingLoss(sm.Log()), pytest.param(CAPPED, marks=pytest.mark.slow)], ids=repr
)
def test_compiles_with_masks_weights_and_every_reduction(loss, compiled):
    s_hat, s = tensors(loss)
    mask = torch.arange(s_hat.numel()).reshape(s_hat.shape) % 5 != 0
    weights = torch.linspace(0.0, 2.0, len(s_hat), dtype=s_hat.dtype)

    def function(a, b):
        each = loss(a, b, where=mask, weights=weights, reduction="none")
        return each + loss(a, b, where=mask) + loss(a, b, weights=weights, num_items=7) + loss(a, b, reduction="sum")

    assert_equal(value_and_grads(compiled(function), s_hat, s), value_and_grads(function, s_hat, s))


def test_compiles_the_other_methods(compiled):
    for loss in (SIGMOID, SOFTMAX):
        s_hat, s = tensors(loss)

        def function(a, b, loss=loss):
            value, gradient = loss.value_and_grad(a, b)
            return value, gradient, loss.grad(a, b, reduction="mean"), loss.hvp(a, b), loss.curvature(a, b)

        assert_equal(compiled(function)(s_hat, s), function(s_hat, s))


def test_a_loss_itself_compiles(compiled):
    s_hat, s = tensors(SIGMOID)
    assert_equal([compiled(SIGMOID)(s_hat, s)], [SIGMOID(s_hat, s)])


def test_one_compilation_serves_all_sizes(compiled):
    calls = []

    def backend(graph, inputs):
        calls.append(graph)
        return graph.forward

    loss = compiled(lambda a, b: CAPPED(a, b), backend, dynamic=True)
    for rows in (6, 9, 12):
        s_hat, s = tensors(CAPPED, rows=rows)
        assert_equal([loss(s_hat, s)], [CAPPED(s_hat, s)])
    assert len(calls) == 1


def test_one_compilation_serves_all_values_of_a_tensor_parameter(compiled):
    calls = []

    def backend(graph, inputs):
        calls.append(graph)
        return graph.forward

    def function(alpha, a, b):
        return sm.MatchingLoss(sm.Sinh().affine(alpha=alpha))(a, b)

    whole, (s_hat, s) = compiled(function, backend), tensors(SIGMOID)
    for alpha in (0.5, 0.7, 1.5):
        alpha = torch.tensor(alpha, dtype=torch.float64)
        assert_equal([whole(alpha, s_hat, s)], [function(alpha, s_hat, s)])
    assert len(calls) == 1


LATE = """
import warnings
warnings.simplefilter("error")
import selmatch as sm
early = sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=1.5))
softmax = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
import torch
{}
a, b = torch.tensor([[0.5, 2.0, -1.0]]), torch.tensor([[1.5, 1.0, -1.0]])
for loss in (early, softmax):
    whole = torch.compile(lambda x, y: loss(x, y), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(a, b), loss(a, b))
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("between", ["sm.Identity()", "early(torch.zeros(1), torch.zeros(1))"])
def test_compiles_when_torch_is_imported_last(between):
    # the library meets torch when the next object is made, or at the first eager call
    done = subprocess.run([sys.executable, "-c", LATE.format(between)], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


def test_a_first_call_inside_compile_works_or_says_what_to_do():
    done = subprocess.run([sys.executable, "-c", LATE.format("")], capture_output=True, text=True)
    assert done.stdout == "done\n" or "before compiling" in done.stderr, done.stderr


@pytest.mark.parametrize("loss", [SIGMOID, SOFTMAX], ids=repr)
def test_a_module_that_calls_a_loss_can_be_exported(loss):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

        def forward(self, x, s):
            return loss(self.weight * x, s)

    model, (x, s) = Model(), tensors(loss)
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(model, (x, s), dynamic_shapes=({0: rows}, {0: rows}))
    assert_equal([program.module()(x, s)], [model(x, s)])
    assert_equal([program.module()(x[:5], s[:5])], [model(x[:5], s[:5])])


# ---------------------------------------------------------------------------------------------------- kinds of tensors


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_dtype_that_comes_in_goes_out(loss, dtype):
    s_hat, s = tensors(loss, dtype=dtype)
    single = dtype if dtype == torch.float64 else torch.float32
    each, mean = loss(s_hat, s, reduction="none"), loss(s_hat, s)
    assert each.dtype == loss.grad(s_hat, s).dtype == dtype
    assert mean.dtype == loss(s_hat, s, reduction="sum").dtype == single
    _, gradient = value_and_grads(lambda a: loss(a, s), s_hat)
    assert gradient.dtype == dtype
    if dtype.itemsize == 2:  # half precision is rounded once, at the end
        exact = loss(s_hat.float(), s.float(), reduction="none")
        assert torch.equal(each, exact.to(dtype))
        assert torch.equal(mean, loss(s_hat.float(), s.float()))
        assert torch.equal(gradient, value_and_grads(lambda a: loss(a, s.float()), s_hat.float())[1].to(dtype))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_autocast_changes_nothing(loss):
    s_hat, s = tensors(loss, dtype=torch.float32)
    expected = value_and_grads(loss, s_hat, s)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = value_and_grads(loss, s_hat, s)
        half = loss(s_hat.bfloat16(), s.bfloat16())
    assert_equal(found, expected, rtol=1e-6)
    assert half.dtype == torch.float32
    assert torch.equal(half, loss(s_hat.bfloat16(), s.bfloat16()))


def test_scores_of_two_precisions_are_computed_in_the_wider():
    s_hat, s = tensors(SIGMOID)
    value = SIGMOID(s_hat.bfloat16(), s, reduction="none")
    assert value.dtype == torch.bfloat16
    assert torch.equal(value, SIGMOID(s_hat.bfloat16().double(), s, reduction="none").bfloat16())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_tensors_without_data(loss):
    s_hat, s = tensors(loss, dtype=torch.float32)
    shape = loss(s_hat, s, reduction="none").shape
    with FakeTensorMode() as mode:
        fake = loss(mode.from_tensor(s_hat), mode.from_tensor(s), reduction="none")
    assert isinstance(fake, FakeTensor)
    a, b = s_hat.to("meta"), s.to("meta")
    each, mean, gradient = loss(a, b, reduction="none"), loss(a, b), loss.grad(a, b)
    assert fake.shape == each.shape == shape
    assert mean.shape == ()
    assert gradient.shape == s_hat.shape
    assert fake.dtype == each.dtype == mean.dtype == gradient.dtype == torch.float32
    assert each.is_meta
    assert mean.is_meta
    assert gradient.is_meta


@pytest.mark.parametrize("loss", [SIGMOID, CAPPED, SOFTMAX, sm.MatchingLoss(sm.Log())], ids=repr)
def test_layout_does_not_matter(loss):
    s_hat, s = tensors(loss)
    expected = value_and_grads(lambda a, b: loss(a, b, reduction="none"), s_hat, s)
    strided = [torch.stack([x, -x], dim=-1)[..., 0] for x in (s_hat, s)]
    assert not strided[0].is_contiguous()
    found = loss(*strided, reduction="none"), loss.grad(*strided)
    assert_equal(found, expected[:2])
    order = torch.arange(s_hat.ndim).flip(0).tolist()
    transposed = loss(s_hat.permute(order).contiguous().permute(order), s, reduction="none")
    assert_equal([transposed], expected[:1])
    spread = loss(s_hat[:1].expand(s_hat.shape), s, reduction="none")
    assert_equal([spread], [loss(s_hat[:1].repeat(len(s_hat), *[1] * (s_hat.ndim - 1)), s, reduction="none")])


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.vector], ids=repr)
def test_single_numbers_and_empty_tensors(loss):
    s_hat, s = tensors(loss)
    each = loss(s_hat, s, reduction="none")
    for options in ({"reduction": "none"}, {"reduction": "sum"}, {}):
        value, gradient, _ = value_and_grads(lambda a, b, o=options: loss(a, b, **o), s_hat[0], s[0])
        assert value.shape == gradient.shape == ()
        assert_equal([value], [each[0]])
    value, gradient, _ = value_and_grads(loss, s_hat[:0], s[:0])
    assert value == 0.0
    assert gradient.shape == (0,)
    assert loss(s_hat[:0], s[:0], reduction="none").shape == (0,)
    assert loss(s_hat[:0], s[:0], reduction="sum") == 0.0


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.vector], ids=repr)
def test_single_rows_and_empty_batches(loss):
    s_hat, s = tensors(loss)
    each = loss(s_hat, s, reduction="none")
    assert_equal([loss(s_hat[0], s[0], reduction="none"), loss(s_hat[0], s[0])], [each[0], each[0]])
    value, gradient, _ = value_and_grads(loss, s_hat[:0], s[:0])
    assert value == 0.0
    assert gradient.shape == (0, 3)
    assert loss(s_hat[:0], s[:0], reduction="none").shape == (0,)


def test_scores_outside_the_domain_give_nan_there_alone(compiled):
    loss = sm.MatchingLoss(sm.Log())
    s_hat, s = torch.tensor([1.0, -1.0, 2.0]), torch.tensor([1.5, 1.0, 0.0])

    def function(a, b):
        return loss(a, b, reduction="none")

    for f in (function, compiled(function), vmap(function)):
        assert torch.isnan(f(s_hat, s)).tolist() == [False, True, True]


def test_jumps_have_the_gradient_of_their_side():
    for curve in JUMPING:
        loss = sm.MatchingLoss(curve)
        s_hat, s = tensors(loss, special_pairs)
        _, gradient, _ = value_and_grads(lambda a, b: loss(a, b, reduction="none"), s_hat, s)  # noqa: B023
        assert_equal([gradient], [loss.grad(s_hat, s)])
