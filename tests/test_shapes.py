"""One array broadcasts to the other or the call is an error; masks of rows mean the same in every function."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import selmatch as sm
import selmatch.jax
import selmatch.ranking
import selmatch.torch
from conftest import ARRAYS
from selmatch.alignment import listwise_preference
from selmatch.distillation import clipped_share, distillation_loss, fitted, forward_kl, jensen_shannon, reverse_kl
from selmatch.sparse_teachers import TopKTeacher
from selmatch.torch import linear_matching_loss

NONE = {"reduction": "none"}
sinh, softmax = sm.MatchingLoss(sm.Sinh()), sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh(), gamma=0.5))
standard = sm.MatchingLoss(sm.CompositeSoftmax())
separable = sm.MatchingLoss(sm.Separable(sm.Sinh()))
labelled = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 0.5: sm.Exp()}))
composite = sm.MatchingLoss(sm.CompositeSigmoid(sm.Exp(), gamma=2.0))


def calls_of(loss):
    return (
        functools.partial(loss, **NONE),
        loss.grad,
        lambda a, b: loss.value_and_grad(a, b)[0],
        functools.partial(loss.quadratic, **NONE),
        functools.partial(loss.curvature, kind="secant"),
        loss.hvp,
        functools.partial(loss.fenchel_young, conjugate=False, **NONE),
        loss.fenchel_young_grad,
    )


#: functions of predictions and observations, all 1/2, that give a number for every score
SCALAR = (
    *calls_of(sinh),
    functools.partial(labelled, **NONE),
    functools.partial(labelled.curvature, kind="newton"),
    lambda a, b: composite.parts(a, b, **NONE)[1],
    functools.partial(sm.CrossEntropy(composite.potential), **NONE),
    sm.ReweightedSquare().grad,
)
#: the same for scores of many classes
VECTOR = (
    *calls_of(softmax),
    *calls_of(separable),
    lambda a, b: softmax.parts(a, b, **NONE)[0],
    functools.partial(sm.CrossEntropy(softmax.potential), **NONE),
)
#: for items of lists, the last axis
LISTS = (
    functools.partial(sm.ranking.pointwise, loss=sm.Sinh(), **NONE),
    functools.partial(sm.ranking.pairwise.grad, loss=sm.Sinh()),
    functools.partial(sm.ranking.pairwise.curvature, loss=sm.Tanh()),
    functools.partial(sm.ranking.listwise.value_and_grad, loss=softmax),
)
#: those that only one library has
OWN = {
    "torch": (
        functools.partial(sm.torch.matching_loss, loss=sm.Sinh(), **NONE),
        sm.torch.MatchingLoss(sm.Sinh(), reduction="none"),
    ),
    "jax": (
        functools.partial(sm.jax.matching_loss, loss=sm.Sinh()),
        functools.partial(sm.jax.fenchel_young_loss, loss=sm.Sinh(), conjugate=False),
    ),
}
OWN_VECTOR = {
    "torch": (sm.torch.MatchingLoss(softmax, reduction="none"), sm.torch.MatchingLoss(softmax, canonicalise=True)),
    "jax": (functools.partial(sm.jax.matching_loss, loss=softmax),),
}
SIZES = [(), *itertools.chain(*(itertools.product((1, 3, 4), repeat=n) for n in (1, 2, 3)))]


def pairs_of_shapes(count: int, last: int | None = None) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of shapes: the common mistake, and others; with ``last`` all shapes end with so many classes."""
    chosen = np.random.default_rng(7).integers(len(SIZES), size=(count, 2))
    pairs = [((4, 1), (4,)), ((4,), (4, 1)), *((SIZES[i], SIZES[j]) for i, j in chosen)]
    return pairs if last is None else [((*a, last), (*b, last)) for a, b in pairs]


def outcome(function, a, b):
    """The shape of a result, or the error without its beginning; JAX only traces."""
    try:
        result = jax.eval_shape(function, a, b) if isinstance(a, jax.Array) else function(a, b)
    except ValueError as error:
        return str(error).partition(": ")[2].partition(", got")[0]
    result = result[-1] if isinstance(result, tuple) else result
    return tuple(result.shape if hasattr(result, "shape") else np.shape(result))


def expected(a, b):
    """The shape of one of both, or the error."""
    try:
        whole = np.broadcast_shapes(a, b)
    except ValueError:
        return "shapes must broadcast together"
    return whole if whole in (a, b) else "one shape must broadcast to the other"


@pytest.mark.parametrize("library", ARRAYS)
def test_one_array_broadcasts_to_the_other_or_the_call_is_refused(library):
    array = ARRAYS[library]
    for i, (a, b) in enumerate(pairs_of_shapes(20 if library == "jax" else 60)):
        one, other, wanted = array(np.full(a, 0.5)), array(np.full(b, 0.5)), expected(a, b)
        functions = (*SCALAR, *OWN.get(library, ()))
        for function in functions if i == 0 or library == "numpy" else [functions[-1 - i % len(functions)]]:
            assert outcome(function, one, other) == wanted, (function, a, b)
        if max(len(a), len(b)) > 0:
            function = LISTS[i % len(LISTS)]
            result = outcome(function, one, other)
            assert result == wanted or (not isinstance(wanted, str) and not isinstance(result, str))


@pytest.mark.parametrize("library", ARRAYS)
def test_rows_of_classes_broadcast_to_the_others_or_the_call_is_refused(library):
    array = ARRAYS[library]
    for i, (a, b) in enumerate(pairs_of_shapes(15 if library == "jax" else 40, last=5)):
        one, other = array(np.full(a, 0.5)), array(np.full(b, 0.5))
        functions = (*VECTOR, *OWN_VECTOR.get(library, ()))
        wanted = expected(a, b)
        for function in functions if i == 0 or library == "numpy" else [functions[-1 - i % len(functions)]]:
            result = outcome(function, one, other)
            assert result in ((wanted,) if isinstance(wanted, str) else (wanted, wanted[:-1], ())), (function, a, b)


def test_the_error_comes_from_shapes_alone():
    column, row = torch.ones(4, 1), torch.ones(4)
    message = r"one shape must broadcast to the other, got s_hat \(4, 1\), s \(4,\).*torch.broadcast_tensors"
    for device in ("cpu", "meta"):
        with pytest.raises(ValueError, match=message):
            sm.torch.MatchingLoss(sm.Sinh())(column.to(device), row.to(device))
    for function in (sinh, functools.partial(sm.jax.matching_loss, loss=sinh)):
        with pytest.raises(ValueError, match=r"one shape must .*jax.numpy.broadcast_arrays"):
            jax.jit(function)(jnp.ones((4, 1)), jnp.ones(4))
    both = torch.broadcast_tensors(column, row)
    assert sinh(*both, reduction="none").shape == (4, 4)


@pytest.mark.slow
@pytest.mark.parametrize("core", [sinh, softmax], ids=repr)
def test_compiled_modules_refuse_a_column_against_a_row(core):
    torch._dynamo.reset()
    module = sm.torch.MatchingLoss(core)
    compiled = torch.compile(module, backend="eager")
    shapes = ((4, 1), (4,)) if core is sinh else ((4, 1, 3), (4, 3))
    for function in (module, compiled):
        with pytest.raises(ValueError, match="one shape must broadcast to the other"):
            function(*map(torch.ones, shapes))
    torch._dynamo.reset()


def test_a_linear_model_cannot_learn_from_a_column_against_a_row():
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    with pytest.raises(ValueError, match="one shape must broadcast"):
        sinh.grad(x * 0.0, 3.0 * x[:, 0])
    with pytest.raises(ValueError, match="one shape must broadcast"):
        sm.ranking.pairwise(torch.zeros(20, 1), torch.ones(20), sm.Identity())


# -------------------------------------------------------------------------------------------------------------- masks

TOP = 2


def _with_top_k(function):
    """The loss of a stored teacher, in the library of the student."""

    def call(s_hat, s, where):
        teacher = TopKTeacher.from_scores(s, TOP)
        return function(s_hat, teacher, where=where)

    return call


def _linear(s_hat, s, where):
    eye = torch.eye(s.shape[-1], dtype=s.dtype)
    return linear_matching_loss(s_hat, eye, s, eye, softmax, where=where)


def _step(s_hat, s, where):
    """The gradient of a distillation, which is that of the rows that count."""
    s_hat = s_hat.detach().requires_grad_()
    distillation_loss(s_hat, s, softmax, where=where).backward()
    return s_hat.grad


#: functions of predictions, observations and a mask, classes on the last axis, by the libraries that have them
MASKED = {
    "any": (
        softmax,
        separable.grad,
        lambda a, b, where: softmax.value_and_grad(a, b, where=where)[1],
        lambda a, b, where: softmax.parts(a, b, where=where)[0],
        softmax.quadratic,
        functools.partial(standard.fenchel_young, conjugate=False),
        standard.fenchel_young_grad,
        sm.CrossEntropy(softmax.potential),
        functools.partial(sm.ranking.listwise, loss=softmax, **NONE),
        functools.partial(sm.ranking.pairwise.grad, loss=sm.Sinh()),
        functools.partial(sm.ranking.pointwise, loss=sm.Sinh()),
        functools.partial(listwise_preference, loss=softmax),
    ),
    # whole rows only
    "rows": (
        functools.partial(distillation_loss, loss=softmax),
        functools.partial(distillation_loss, loss=softmax, canonicalise="teacher_maximum"),
        forward_kl,
        reverse_kl,
        jensen_shannon,
        _with_top_k(functools.partial(distillation_loss, loss=softmax)),
        lambda a, b, where: clipped_share(sm.SmeLU(c=1.0).affine(beta=-1.0), b, where),
        lambda a, b, where: fitted(b, sm.SmeLU(c=1.0).affine(beta=-1.0), where=where).share,
    ),
    "torch": (
        sm.torch.MatchingLoss(softmax),
        sm.torch.MatchingLoss(softmax, canonicalise=True),
        functools.partial(sm.torch.matching_loss, loss=separable, **NONE),
    ),
    "torch rows": (_with_top_k(sm.torch.MatchingLoss(softmax)), _linear, _step),
    "jax": (
        functools.partial(sm.jax.matching_loss, loss=softmax),
        jax.jit(functools.partial(sm.jax.matching_loss, loss=softmax, reduction="mean")),
        functools.partial(sm.jax.fenchel_young_loss, loss=standard, conjugate=False),
    ),
}


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4), (4, 4), (3, 3, 3), (1, 4, 4)], ids=str)
@pytest.mark.parametrize("library", ["numpy", "torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_masks_of_rows_mean_the_same_with_and_without_an_axis_for_the_classes(library, shape):
    array, rng = ARRAYS[library], np.random.default_rng(len(shape))
    s_hat, s = (array(x) for x in (rng.normal(size=shape), rng.dirichlet(np.ones(shape[-1]), shape[:-1])))
    rows = rng.random(shape[:-1]) < 0.5
    rows.flat[:2] = True, False
    bare, column, full = (array(x) != 0 for x in (rows, rows[..., None], np.repeat(rows[..., None], shape[-1], -1)))
    every = ("any", "rows", library, f"{library} rows")
    for kind in every if library != "jax" else (library,):  # JAX compiles each of them
        for function in MASKED.get(kind, ()):
            wanted = np.asarray(function(s_hat, s, where=column))
            for where in (bare, *([] if "rows" in kind else [full])):
                found = np.asarray(function(s_hat, s, where=where))
                # programs of JAX that are compiled apart may add up in another order
                rtol = 1e-14 if library == "jax" else 0.0
                np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0.0, err_msg=str(function))


def test_masks_of_rows_mean_the_same_in_traces_of_jax():
    s_hat, s = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 3)))
    rows = jnp.asarray([True, False, True])
    masks = rows, rows[None], jnp.broadcast_to(rows, (3, 3)), None

    @jax.jit
    def values(masks):
        return [sm.jax.matching_loss(s_hat, s, separable, axis=0, where=mask, reduction="mean") for mask in masks]

    one, other, full, unmasked = values(masks)
    assert one == other == full != unmasked


@pytest.mark.parametrize("library", ARRAYS)
def test_a_mask_of_classes_needs_all_axes(library):
    array = ARRAYS[library]
    s_hat, s = array(np.ones((5, 3))), array(np.zeros((5, 3)))
    classes = array([1.0, 0.0, 1.0]) != 0
    assert outcome(lambda a, b: softmax(a, b, where=classes[None], **NONE), s_hat, s) == (5,)
    for function in (*MASKED["any"], *MASKED.get(library, ())):
        with pytest.raises(
            ValueError, match=r"where must have the shape .*\(5, 3\) or of their rows \(5,\), got \(3,\)"
        ):
            function(s_hat, s, where=classes)


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("canonicalise", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "axes", [(), pytest.param((1,), marks=pytest.mark.slow), pytest.param((3,), marks=pytest.mark.slow)]
)
def test_exported_losses_take_masks_and_any_number_of_rows(axes, canonicalise, strict):
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.loss = sm.torch.MatchingLoss(softmax, canonicalise=canonicalise)

        def forward(self, s_hat, s, mask):
            return self.loss(s_hat, s, where=mask)

    def batch(rows):
        generator = torch.Generator().manual_seed(rows)
        s_hat, s = torch.randn(2, rows, 3, generator=generator)
        mask = torch.rand(rows, *axes, generator=generator) < 0.6
        mask[0] = True
        return s_hat, s, mask

    rows = {0: torch.export.Dim("rows", min=2, max=4096)}
    exported = torch.export.export(Masked(), batch(6), dynamic_shapes=(rows, rows, rows), strict=strict).module()
    for count in (6, 11, 3):  # as many rows as classes
        torch.testing.assert_close(exported(*batch(count)), Masked()(*batch(count)))
