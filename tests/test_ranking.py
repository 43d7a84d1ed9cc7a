"""Ranking losses: the same lists in any form and library give the same numbers, and those are the right ones."""

from __future__ import annotations

import dataclasses
import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import rax
import torch

import selmatch as sm
from conftest import ARRAYS
from selmatch import spec
from selmatch.arrays.ragged import Ragged
from selmatch.differences import MOST_PAIRS, differences
from selmatch.lists import Groups
from selmatch.ranking import Offsets, Sizes, labels_to_scores, listwise, pairwise, pointwise

DRAWN = sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0))
POINTS = [(pointwise, sm.Sinh()), (pointwise, sm.CompositeSigmoid(sm.Exp(), gamma=0.5))]
PAIRS = [(pairwise, sm.Sinh().affine(alpha=0.5, beta=0.3)), (pairwise, DRAWN), (pairwise, sm.Tanh())]
LISTS = [
    (listwise, sm.CompositeSoftmax()),
    (listwise, sm.CompositeSoftmax(sm.Sinh(), gamma=0.5)),
    (listwise, sm.CompositeSoftmax(sm.Sigmoid().affine(beta=1.0), anchor=0.5)),
    (listwise, sm.CompositeSoftmax(DRAWN)),
]
KINDS = [*POINTS, *PAIRS, *LISTS]
#: one of each kind, where compiling costs
FEW = [POINTS[0], PAIRS[0], LISTS[1]]
SIZES = (3, 1, 0, 5, 2)


def names(kind):
    return repr(kind)


def some_lists(dtype=np.float64, seed=0):
    """Predicted and observed scores of lists, one behind the other."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=sum(SIZES))
    return (s + rng.normal(size=len(s))).astype(dtype), s.astype(dtype)


def rows(x):
    return np.split(x, np.cumsum(SIZES)[:-1])


def padded(x, width=6, fill=math.nan, more=0):
    """Lists as rows, with garbage behind them, and rows of garbage between."""
    lists = [row for part in rows(x) for row in (part, *[part[:0]] * more)]
    table = np.full((len(lists), width), fill, dtype=x.dtype)
    for to, row in zip(table, lists, strict=True):
        to[: len(row)] = row
    return table, np.arange(width) < np.array([len(row) for row in lists])[:, None]


def results(kind, loss, s_hat, s, **options):
    """Everything that can be asked for, as NumPy arrays."""
    found = [kind(s_hat, s, loss, **options), kind(s_hat, s, loss, reduction="sum", **options)]
    found += [*kind.value_and_grad(s_hat, s, loss, **options), kind.grad(s_hat, s, loss, reduction="mean", **options)]
    found += [kind.curvature(s_hat, s, loss, kind=which, **options) for which in ("newton", "secant")]
    return [np.asarray(x) for x in found]


# -------------------------------------------------------------------------------------------------------- right numbers


def expected(kind, loss, s_hat, s):
    """Loss, gradient and curvature of one list, from the definition."""
    n, link = len(s), sm.MatchingLoss(loss)
    if kind is listwise:
        return link(s_hat, s, reduction="none"), link.grad(s_hat, s), link.curvature(s_hat)
    if kind is pointwise:
        return link(s_hat, s), link.grad(s_hat, s) / n, link.curvature(s_hat) / n
    d_hat, d = s_hat[:, None] - s_hat, s[:, None] - s
    others, pairs = ~np.eye(n, dtype=bool), max(n * (n - 1), 1)
    value, gradient, curvature = (
        np.where(others, x, 0.0) / pairs
        for x in (link(d_hat, d, reduction="none"), link.grad(d_hat, d), link.curvature(d_hat))
    )
    return value.sum(), gradient.sum(1) - gradient.sum(0), curvature.sum(1) + curvature.sum(0)


@pytest.mark.parametrize("library", ["numpy", "torch"])  # JAX is compared with NumPy below
@pytest.mark.parametrize(("kind", "loss"), KINDS, ids=names)
def test_each_list_has_the_loss_of_its_definition(kind, loss, library):
    array = ARRAYS[library]
    s_hat, s = some_lists()
    lists = [expected(kind, loss, a, b) if len(a) else (0.0, a, a) for a, b in zip(rows(s_hat), rows(s), strict=True)]
    value, gradient, curvature = (np.concatenate([np.atleast_1d(x) for x in part]) for part in zip(*lists, strict=True))
    options = {"segments": Sizes(SIZES)}
    mean, total, found, slope, scaled, newton, secant = results(kind, loss, array(s_hat), array(s), **options)
    np.testing.assert_allclose(found, value, rtol=1e-13)
    np.testing.assert_allclose(slope, gradient, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(newton, curvature, rtol=1e-12)
    count = sum(size >= (2 if kind is pairwise else 1) for size in SIZES)
    np.testing.assert_allclose([mean, total], [value.sum() / count, value.sum()], rtol=1e-13)
    np.testing.assert_allclose(scaled, gradient / count, rtol=1e-12, atol=1e-14)
    assert np.all(secant >= 0)


@pytest.mark.parametrize(("kind", "loss"), [*POINTS, PAIRS[0], PAIRS[2]], ids=names)
def test_the_secant_takes_the_distance_of_one_item_to_the_gradient(kind, loss):
    s = np.array([0.3, -1.0, 0.9, 0.1])
    for item in range(4):
        s_hat = s + np.where(np.arange(4) == item, 0.8, 0.0)
        secant = kind.curvature(s_hat, s, loss, kind="secant")
        assert secant[item] * 0.8 == pytest.approx(kind.grad(s_hat, s, loss)[item], rel=1e-6)


def test_the_secant_of_lists_is_the_mean_of_the_diagonal():
    s_hat, s = some_lists()
    for _, loss in LISTS[:3]:
        near = s + 0.1 * (s_hat - s)
        steps = [s + t * (near - s) for t in (np.arange(200) + 0.5) / 200]
        mean = np.mean([listwise.curvature(z, s, loss, segments=Sizes(SIZES)) for z in steps], axis=0)
        secant = listwise.curvature(near, s, loss, segments=Sizes(SIZES), kind="secant")
        np.testing.assert_allclose(secant, mean, rtol=1e-4)


NARROW = [
    (pairwise, sm.Huber(c=0.01)), (pairwise, sm.Identity().capped(-0.01, 0.01)), (pairwise, sm.Sign()),
    (pairwise, sm.Sinh().affine(alpha=40.0)), (listwise, sm.CompositeSoftmax(sm.Sigmoid().affine(alpha=500.0))),
    (listwise, sm.CompositeSoftmax(sm.Identity().capped(-0.01, 0.01) + sm.Constant(1.0))),
]  # fmt: skip


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize(("kind", "loss"), NARROW, ids=names)
def test_secants_do_not_miss_narrow_steep_regions(kind, loss, make):
    rng = np.random.default_rng(0)
    s, moves = rng.normal(size=(2, 3, 80))
    for u in (moves, np.where(np.arange(80) == 4, moves, 0.0)):  # of all items, of one
        secant = np.asarray(kind.curvature(make(s + u), make(s), loss, kind="secant"))
        gradient = np.asarray(kind.grad(make(s + u), make(s), loss))
        longest = np.max(np.abs(u[:, :, None] - u[:, None]), axis=2)
        assert np.all(secant >= 0.999 * np.abs(gradient) / np.maximum(longest, np.abs(u)))
    assert np.all(gradient[:, 4] != 0)


def test_secants_of_smooth_lists_are_not_raised_where_an_item_stays():
    s_hat, s = np.zeros(4), np.array([1e-9, -1.0, 1.0, 2.0])  # gradient over own move would be 1e8
    for kind, loss in (PAIRS[0], LISTS[0], LISTS[1]):
        steps = [s + t * (s_hat - s) for t in (np.arange(200) + 0.5) / 200]
        mean = np.mean([kind.curvature(z, s, loss) for z in steps], axis=0)
        np.testing.assert_allclose(kind.curvature(s_hat, s, loss, kind="secant"), mean, rtol=1e-2)


def test_secants_of_lists_far_apart():
    secant = listwise.curvature([70.0, 0.0], [0.0, 100.0], sm.CompositeSoftmax(), kind="secant")
    np.testing.assert_allclose(secant, 1 / 170, rtol=1e-12)


@pytest.mark.parametrize("loss", [loss for _, loss in LISTS], ids=repr)
def test_parts_are_those_of_the_matching_loss(loss):
    s_hat, s = some_lists()
    (wide_hat, where), (wide, _) = padded(s_hat), padded(s)
    ranking, region = listwise.parts(s_hat, s, loss, segments=Sizes(SIZES))
    np.testing.assert_allclose((ranking, region), sm.MatchingLoss(loss).parts(wide_hat, wide, where=where), rtol=1e-13)
    assert ranking + region == pytest.approx(listwise(s_hat, s, loss, segments=Sizes(SIZES)), rel=1e-14)


def test_constant_scalings_are_the_softmax_loss_of_rax_and_optax():
    s_hat, s = some_lists(np.float32)
    (wide_hat, where), (wide, _) = padded(s_hat, fill=0.0), padded(s, fill=0.0)
    shares = np.where(where, np.exp(wide), 0.0)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-30)
    softmax_of_rax = jax.jit(jax.value_and_grad(lambda z: rax.softmax_loss(z, shares, where=where)))
    theirs, slope = softmax_of_rax(jnp.asarray(wide_hat))
    softmax, options = sm.CompositeSoftmax(), {"where": where, "reduction": "mean"}
    mixed = listwise.value_and_grad(wide_hat, shares, softmax, targets="probabilities", conjugate=False, **options)
    ours = listwise.value_and_grad(wide_hat, wide, softmax, **options)
    entropy = -np.sum(shares * np.log(np.where(shares > 0, shares, 1.0))) / 4
    for value, gradient in (mixed, (ours[0] + entropy, ours[1])):
        np.testing.assert_allclose(value, theirs, rtol=3e-7)
        np.testing.assert_allclose(gradient, slope, rtol=2e-6, atol=3e-8)
    np.testing.assert_allclose(
        listwise(wide_hat, shares, softmax, targets="probabilities", where=where), ours[0], rtol=2e-6
    )
    # one list at a time, flat: Fenchel-Young losses without their conjugate
    young = optax.losses.make_fenchel_young_loss(jax.scipy.special.logsumexp)
    flat = np.concatenate([row[mask] for row, mask in zip(shares, where, strict=True)])
    own = listwise(
        s_hat, flat, softmax, segments=Sizes(SIZES), targets="probabilities", conjugate=False, reduction="none"
    )
    a, b = rows(s_hat)[3], rows(flat)[3]
    assert own[3] == pytest.approx(float(jax.jit(young)(a, b)), rel=1e-6, abs=1e-6)
    for convert in (ARRAYS["torch"], ARRAYS["jax"]):
        arrays = convert(wide_hat), convert(shares)
        mask = torch.tensor(where) if convert is ARRAYS["torch"] else jnp.asarray(where)
        again = listwise(*arrays, softmax, where=mask, targets="probabilities", conjugate=False)
        assert float(again) == pytest.approx(float(theirs), rel=1e-6)
    wrong = np.where(where, 0.5, 0.0).astype(np.float32)
    lost = listwise(torch.tensor(wide_hat), torch.tensor(wrong), softmax, where=torch.tensor(where),
                    targets="probabilities", reduction="none")  # fmt: skip
    assert lost.isnan().tolist() == [True, True, False, True, False]


# ---------------------------------------------------------------------------------------------- every form, bit for bit


def every_form(s_hat, s):
    """The same lists in different forms: scores, options, and how to find the items and the lists in the results."""
    flat, lists = np.arange(len(s)), np.arange(len(SIZES))
    ids = np.repeat(np.array([-7, 0, 3, 4, 90]), SIZES)
    filled = np.array(SIZES) > 0
    yield (s_hat, s), {"segments": Sizes(np.array(SIZES))}, flat, lists
    yield (s_hat, s), {"segments": Offsets(np.cumsum([0, *SIZES]))}, flat, lists
    yield (s_hat, s), {"segments": ids}, flat, np.cumsum(filled) - 1
    # lists are mixed with each other, items of a list keep their order
    mixed, place = np.random.default_rng(1).permutation(ids), np.empty(len(s), dtype=int)
    for group in np.unique(ids):
        place[ids == group] = np.flatnonzero(mixed == group)
    shuffled = np.empty_like(s_hat), np.empty_like(s)
    for to, x in zip(shuffled, (s_hat, s), strict=True):
        to[place] = x
    yield shuffled, {"segments": mixed}, place, np.cumsum(filled) - 1
    for width, fill, more in ((5, math.nan, 0), (6, math.inf, 0), (9, -math.inf, 2)):
        table, where = padded(s_hat, width, fill, more)
        places = np.flatnonzero(where)
        yield (table, padded(s, width, fill, more)[0]), {"where": where}, places, lists * (1 + more)
    table, where = padded(s_hat, 7, math.nan)
    ids = np.repeat(np.arange(len(SIZES)), 7)
    scores = table.ravel(), padded(s, 7, math.nan)[0].ravel()
    yield scores, {"where": where.ravel(), "segments": ids}, np.flatnonzero(where), lists


def same_numbers(make, dtype, call, forms):
    """Whether all forms give the same results: mean, one number per list, then numbers of items."""
    first = None
    for scores, options, places, lists in forms:
        found = call(*(make(x) for x in scores), **{name: _made(make, x) for name, x in options.items()})
        mean, values, *items = (np.asarray(x) for x in found)
        values = np.where(np.array(SIZES) > 0, values[np.minimum(lists, len(values) - 1)], 0.0)
        items = [x.ravel() for x in items]
        for x in items:
            assert np.all(np.delete(x, places) == 0)
        chosen = [mean, values, *(x[places] for x in items)]
        first = chosen if first is None else first
        for one, other in zip(first, chosen, strict=True):
            assert np.isfinite(one).all()
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def _made(make, x):
    return dataclasses.replace(x, values=make(x.values)) if isinstance(x, (Offsets, Sizes)) else make(x)


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("kind", "loss"), KINDS, ids=names)
def test_all_forms_of_lists_give_the_same_numbers_bit_for_bit(kind, loss, dtype, make):
    def call(*scores, **options):
        mean, _, *others = results(kind, loss, *scores, **options)
        return mean, *others

    same_numbers(make, dtype, call, every_form(*some_lists(dtype)))


@pytest.mark.parametrize(("kind", "loss"), FEW, ids=names)
def test_all_forms_of_lists_give_the_same_numbers_bit_for_bit_in_jax(kind, loss):
    def call(*scores, **options):
        value, gradient = kind.value_and_grad(*scores, loss, **options)
        return kind(*scores, loss, **options), value, gradient

    same_numbers(jnp.asarray, np.float32, call, every_form(*some_lists(np.float32)))


@jax.jit
def compiled(s_hat, s, where):
    """Mean, losses of the lists and gradient, of each of the FEW."""

    def all_of(kind, loss):
        mean, slope = jax.value_and_grad(lambda z: kind(z, s, loss, where=where))(s_hat)
        return mean, kind(s_hat, s, loss, where=where, reduction="none"), slope

    return [all_of(kind, loss) for kind, loss in FEW]


def test_padding_never_changes_a_number_inside_a_trace():
    forms = [form for form in every_form(*some_lists()) if form[0][0].ndim == 2][1:]
    for which in range(len(FEW)):
        same_numbers(jnp.asarray, np.float64, lambda *scores, where, i=which: compiled(*scores, where)[i], forms)


def test_lists_of_which_all_is_masked_cost_nothing_inside_a_trace():
    scores = jnp.asarray(np.full((5, 6), math.nan))
    for found in compiled(scores, scores, jnp.zeros((5, 6), dtype=bool)):
        assert not any(x.any() for x in found)


@pytest.mark.parametrize(("kind", "loss"), [POINTS[0], LISTS[1]], ids=names)
def test_lists_behind_a_mask_that_is_not_known_are_the_same_lists(kind, loss):
    """As inside torch.compile and jax.jit: masked items stay, and ids count as many lists as items."""
    (s_hat, where), (s, _) = padded(some_lists()[0]), padded(some_lists()[1])
    known = results(kind, loss, torch.tensor(s_hat), torch.tensor(s), where=torch.tensor(where))
    mapped = torch.func.vmap(lambda z, s, m: kind(z, s, loss, where=m, reduction="none"))
    value = mapped(*map(torch.tensor, (s_hat, s, where)))
    np.testing.assert_allclose(value, known[2], rtol=1e-13)
    gradient = torch.func.vmap(torch.func.grad(lambda z, s, m: kind(z, s, loss, where=m, reduction="sum")))
    np.testing.assert_allclose(gradient(*map(torch.tensor, (s_hat, s, where))), known[3], rtol=1e-12, atol=1e-14)


# -------------------------------------------------------------------------------------------- derivatives by frameworks


@pytest.mark.parametrize(("kind", "loss"), KINDS, ids=names)
def test_torch_differentiates_to_the_gradient(kind, loss):
    s_hat, s = map(torch.tensor, some_lists())
    s_hat.requires_grad_()
    options = {"segments": Sizes(SIZES), "weights": torch.tensor([1.0, 1.0, 1.0, 2.0, 0.5])}
    kind(s_hat, s, loss, **options).backward()
    expected = kind.grad(s_hat.detach(), s, loss, reduction="mean", **options)
    np.testing.assert_allclose(s_hat.grad, expected, rtol=1e-11, atol=1e-13)


def test_jax_differentiates_to_the_gradient_and_takes_traced_segments():
    s_hat, s = some_lists()
    ids = np.repeat([4, 2, 0, 9, 5], SIZES)

    @jax.jit
    def traced(z, s, ids, sizes):
        slopes = [jax.grad(lambda z, k=k, loss=loss: k(z, s, loss, segments=ids))(z) for k, loss in FEW]
        by_size = [
            (k(z, s, loss, segments=sizes, reduction="none"), k.curvature(z, s, loss, segments=sizes))
            for k, loss in FEW
        ]
        return slopes, by_size, listwise(z, s, SOFTMAX, segments=ids, reduction="none")

    slopes, by_size, by_id = traced(s_hat, s, jnp.asarray(ids), Sizes(jnp.asarray(SIZES)))
    for (kind, loss), slope, sized in zip(FEW, slopes, by_size, strict=True):
        expected = kind.grad(s_hat, s, loss, segments=ids, reduction="mean")
        np.testing.assert_allclose(slope, expected, rtol=1e-11, atol=1e-13)
        options = {"segments": Sizes(SIZES)}
        np.testing.assert_allclose(sized[0], kind(s_hat, s, loss, reduction="none", **options), rtol=1e-12)
        np.testing.assert_allclose(sized[1], kind.curvature(s_hat, s, loss, **options), rtol=1e-12)
    assert by_id.shape == s.shape
    np.testing.assert_allclose(by_id[:4], listwise(s_hat, s, SOFTMAX, segments=ids, reduction="none"), rtol=1e-12)
    assert not np.any(by_id[4:])


COMPILED = {
    "ids": lambda: ((11,), {"segments": torch.tensor(np.repeat([4, 2, 0, 9, 5], SIZES))}),
    "sizes": lambda: ((11,), {"segments": Sizes(torch.tensor(SIZES))}),
    "rows": lambda: ((2, 5), {}),
    "mask": lambda: ((2, 5), {"where": torch.arange(5) < torch.tensor([[2], [5]])}),
}


@pytest.mark.parametrize(
    ("form", "kind", "loss", "backend"),
    [("ids", *LISTS[1], "aot_eager"), ("ids", *PAIRS[0], "aot_eager"), ("rows", *POINTS[0], "eager"),
     ("rows", pairwise, sm.Huber(), "eager"), ("rows", *PAIRS[2], "eager"),
     ("mask", *LISTS[1], "eager"),
     *(pytest.param(form, *LISTS[1], "eager", marks=pytest.mark.slow) for form in ("sizes", "rows"))],
    ids=repr,
)  # fmt: skip
def test_compiled_by_torch_without_breaks(form, kind, loss, backend):
    torch._dynamo.reset()  # which counts compilations of one line
    shape, options = COMPILED[form]()
    s_hat, s = (torch.tensor(x[: math.prod(shape)]).reshape(shape) for x in some_lists())
    compiled = torch.compile(lambda z: kind(z, s, loss, **options), backend=backend, fullgraph=True)
    s_hat.requires_grad_()
    value = compiled(s_hat)
    value.backward()
    assert value.item() == pytest.approx(kind(s_hat.detach(), s, loss, **options).item(), rel=1e-13)
    expected = kind.grad(s_hat.detach(), s, loss, reduction="mean", **options)
    np.testing.assert_allclose(s_hat.grad, expected, atol=1e-14)


# PyTorch's own, when it first differentiates forwards
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("loss", [loss for _, loss in PAIRS], ids=repr)
def test_torch_transforms_pairs(loss):
    s_hat, s = (torch.tensor(x[:10]).reshape(2, 5) for x in some_lists())
    where = torch.arange(5) < torch.tensor([[2], [5]])
    mapped = torch.func.vmap(torch.func.grad(lambda z, s, m: pairwise(z, s, loss, where=m)))(s_hat, s, where)
    np.testing.assert_allclose(mapped, pairwise.grad(s_hat, s, loss, where=where), rtol=1e-12, atol=1e-14)
    hessian = torch.func.hessian(lambda z: pairwise(z, s[0], loss))(s_hat[0])
    np.testing.assert_allclose(torch.diag(hessian), pairwise.curvature(s_hat[0], s[0], loss), rtol=1e-12)


def test_jax_pushes_numpy_arrays_forward_through_pairs():
    s_hat, s = some_lists()
    value, rise = jax.jvp(lambda z: pairwise(z, s, sm.Identity()), (s_hat,), (np.ones_like(s),))
    assert float(value) == pytest.approx(pairwise(s_hat, s, sm.Identity()), rel=1e-5)
    assert float(rise) == pytest.approx(0.0, abs=1e-5)


def test_traced_borders_that_do_not_fit_give_nan():
    s_hat, s = (jnp.asarray(x) for x in some_lists())
    value = jax.jit(lambda borders: pointwise(s_hat, s, sm.Identity(), segments=borders))
    assert jnp.isfinite(value(Sizes(jnp.asarray([5, 6]))))
    assert jnp.isnan(value(Sizes(jnp.asarray([5, 5]))))
    assert jnp.isnan(value(Offsets(jnp.asarray([1, 5, 11]))))


def test_gamma_of_a_list_learns_though_lists_are_empty():
    s_hat, s = map(torch.tensor, some_lists())
    gamma = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    listwise(s_hat, s, sm.CompositeSoftmax(sm.Sinh(), gamma=gamma), segments=Sizes(SIZES)).backward()
    near = [
        listwise(s_hat, s, sm.CompositeSoftmax(sm.Sinh(), gamma=0.5 + e), segments=Sizes(SIZES)) for e in (1e-6, -1e-6)
    ]
    assert gamma.grad.item() == pytest.approx((near[0] - near[1]).item() / 2e-6, rel=1e-6)


# --------------------------------------------------------------------------------------------------- nothing to compare


@pytest.mark.parametrize(("kind", "loss"), FEW, ids=names)
@pytest.mark.parametrize("fill", [math.nan, math.inf])
def test_lists_of_which_all_is_masked_cost_nothing(kind, loss, fill):
    scores, mask = np.full((2, 3), fill), np.zeros((2, 3), dtype=bool)
    assert kind(scores, scores, loss, where=mask) == 0.0
    assert not kind(scores, scores, loss, where=mask, reduction="none").any()
    assert not kind.grad(scores, scores, loss, where=mask).any()
    assert not kind.curvature(scores, scores, loss, where=mask, kind="secant").any()
    tensor = torch.tensor(scores, requires_grad=True)
    value = kind(tensor, torch.tensor(scores), loss, where=torch.tensor(mask))
    value.backward()
    assert value.item() == 0.0
    assert not tensor.grad.any()
    value = torch.func.vmap(lambda z, m: kind(z, z, loss, where=m))(torch.tensor(scores), torch.tensor(mask))
    assert not value.any()


@pytest.mark.parametrize(("kind", "loss"), FEW, ids=names)
def test_no_items_no_lists(kind, loss, array):
    none = array(np.zeros(0))
    assert kind(none, none, loss, segments=Sizes([0, 0])) == 0
    assert kind(none, none, loss, segments=Offsets([0]), reduction="none").shape == (0,)
    assert kind.grad(none, none, loss, segments=[]).shape == (0,)


def test_lists_of_one_item_have_no_pairs():
    s_hat, s = np.array([1.0, 5.0, 6.0]), np.zeros(3)
    options = {"segments": [0, 1, 1], "weights": [100.0, 1.0]}
    assert pairwise(s_hat, s, sm.Identity(), **options) == 0.5
    np.testing.assert_array_equal(pairwise.grad(s_hat, s, sm.Identity(), **options), [0.0, -1.0, 1.0])
    assert pairwise(s_hat[:1], s[:1], sm.Identity()) == 0.0


# ------------------------------------------------------------------------------------------------------ weights, dtypes


@pytest.mark.parametrize(("kind", "loss"), FEW, ids=names)
def test_weights_are_those_of_lists(kind, loss, array):
    s_hat, s = (array(x) for x in some_lists())
    weights = np.array([1.0, 0.5, 7.0, 2.0, 0.0])
    each = np.asarray(kind(s_hat, s, loss, segments=Sizes(SIZES), reduction="none"))
    counted = weights[np.array(SIZES) >= (2 if kind is pairwise else 1)].sum()
    options = {"segments": Sizes(SIZES), "weights": array(weights)}
    np.testing.assert_allclose(kind(s_hat, s, loss, reduction="none", **options), weights * each, rtol=1e-14)
    np.testing.assert_allclose(kind(s_hat, s, loss, **options), weights @ each / counted, rtol=1e-14)
    np.testing.assert_allclose(kind(s_hat, s, loss, num_items=3, **options), weights @ each / 3, rtol=1e-14)
    plain = np.asarray(kind.curvature(s_hat, s, loss, segments=Sizes(SIZES)))
    np.testing.assert_allclose(kind.curvature(s_hat, s, loss, **options), plain * np.repeat(weights, SIZES), rtol=1e-14)


def test_lists_far_apart_in_weight_and_infinite_losses_stay_apart():
    s_hat, s = np.array([800.0, 0.0, 1.0, 0.0]), np.zeros(4)
    found = pairwise(s_hat, s, sm.Sinh(), segments=Sizes([2, 2]), weights=[0.0, 1.0], reduction="none")
    np.testing.assert_allclose(found, [0.0, math.cosh(1.0) - 1.0], rtol=1e-14)


def test_products_that_overflow_are_infinite_without_a_warning():
    options = {"segments": [0, 0], "weights": [1e10]}
    assert pairwise([700.0, 0.0], [0.0, 0.0], sm.Sinh(), reduction="none", **options) == math.inf
    assert pairwise.grad([700.0, 0.0], [0.0, 0.0], sm.Sinh(), **options)[0] == math.inf


def test_ids_may_exceed_signed_integers():
    ids = np.array([2**63 + 1, 2**63 + 1, 5], dtype=np.uint64)
    found = pointwise([1.0, 1.0, 3.0], [0.0] * 3, sm.Identity(), segments=ids, weights=[1.0, 10.0], reduction="none")
    np.testing.assert_array_equal(found, [4.5, 5.0])


@pytest.mark.parametrize(("kind", "loss"), FEW, ids=names)
def test_numbers_keep_their_precision(kind, loss):
    s_hat, s = some_lists(np.float32)
    for dtype in (np.float16, np.float32):
        a, b = s_hat.astype(dtype), s.astype(dtype)
        assert kind(a, b, loss, segments=Sizes(SIZES)).dtype == np.float32
        assert kind(a, b, loss, segments=Sizes(SIZES), reduction="none").dtype == dtype
        assert kind.grad(a, b, loss, segments=Sizes(SIZES)).dtype == dtype
    half = [torch.tensor(x, dtype=torch.bfloat16) for x in (s_hat, s)]
    assert kind(*half, loss, segments=Sizes(SIZES)).dtype == torch.float32
    assert kind.grad(*half, loss, segments=Sizes(SIZES)).dtype == torch.bfloat16
    assert isinstance(kind(s_hat.tolist(), s.tolist(), loss, segments=Sizes(SIZES)), float)


def test_many_lists_are_worked_on_in_parts():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 40, size=3000)
    s = rng.normal(size=sizes.sum())
    s_hat = s + rng.normal(size=len(s))
    for kind, loss in FEW:
        value, slope = kind.value_and_grad(s_hat, s, loss, segments=Sizes(sizes))
        starts = np.cumsum(sizes) - sizes
        for i in (0, 1499, 2999):
            items = slice(starts[i], starts[i] + sizes[i])
            alone = kind.value_and_grad(s_hat[items], s[items], loss, segments=Sizes(sizes[i : i + 1]))
            np.testing.assert_array_equal(alone[0], value[i : i + 1])
            np.testing.assert_array_equal(alone[1], slope[items])


# -------------------------------------------------------------------------------------------------------- what is shown


def test_pairs_ignore_a_shift_and_composite_lists_do_not():
    s_hat, s = some_lists()
    for kind, loss in (PAIRS[0], LISTS[0], LISTS[1]):
        moved = kind(s_hat + 3.0, s + 3.0, loss, segments=Sizes(SIZES))
        same = moved == pytest.approx(kind(s_hat, s, loss, segments=Sizes(SIZES)), rel=1e-12)
        assert same == (loss != LISTS[1][1])


def test_pair_weights_are_those_of_observed_gaps():
    s_hat, s = np.array([0.5, 1.0, 4.0]), np.array([0.0, 1.0, 3.0])
    moves, gaps = (s_hat[:, None] - s_hat) - (s[:, None] - s), abs(s[:, None] - s)
    expected = np.sum(0.5 * moves**2 * gaps**2) / 6
    options = {"pair_weights": lambda gap: gap**2}
    assert pairwise(s_hat, s, sm.Identity(), **options) == pytest.approx(expected, rel=1e-14)
    slope = np.sum(2 * moves * gaps**2, axis=1) / 6
    np.testing.assert_allclose(pairwise.grad(s_hat, s, sm.Identity(), **options), slope, rtol=1e-13)
    assert pairwise.plan(sm.Identity(), **options) == "blocked"


def test_functions_say_who_they_are():
    assert [repr(kind) for kind in (pointwise, pairwise, listwise)] == [
        "selmatch.ranking.pointwise", "selmatch.ranking.pairwise", "selmatch.ranking.listwise",
    ]  # fmt: skip


# -------------------------------------------------------------------------------------------------------- ragged arrays


def test_ragged_numbers_of_lists_spread_over_items():
    lists = Groups.from_sizes(np.array([2, 0, 1]))
    x = Ragged(np.array([1.0, 2.0, 5.0]), lists)
    total = sm.functions.row_sum(x)
    np.testing.assert_array_equal(total[..., 0], [3.0, 0.0, 5.0])
    np.testing.assert_array_equal((x / total).values, [1 / 3, 2 / 3, 1.0])
    np.testing.assert_array_equal((2.0 - total)[..., 0], [-1.0, 2.0, -3.0])
    np.testing.assert_array_equal(sm.functions.where(total > 4.0, -x, 0.0).values, [0.0, 0.0, -5.0])
    np.testing.assert_array_equal(sm.functions.row_max(x)[..., 0], [2.0, -math.inf, 5.0])
    np.testing.assert_array_equal((np.float64(2.0) * +x).values, [2.0, 4.0, 10.0])
    assert repr(total).startswith("Ragged(array([3., 0., 5.]), of lists")
    with pytest.raises(TypeError, match=r"Ragged: the index must be \[\.\.\., 0\]"):
        x[..., 0]


# --------------------------------------------------------------------------------------------------------------- errors

TWO = np.array([0.0, 1.0])
ROWS = np.zeros((2, 3))
SOFTMAX = sm.CompositeSoftmax()
#: call -> the beginning of its message
WRONG = {
    "pointwise: segments must have the id of the list of every item (2), got shape (3,).":
        lambda: pointwise(TWO, TWO, sm.Sinh(), segments=[0, 0, 1]),
    "pointwise: segments must come with flat scores (1 dimension), got scores of shape (2, 3).":
        lambda: pointwise(ROWS, ROWS, sm.Sinh(), segments=[0, 0]),
    "pairwise: Sizes must add up to the number of items (2), got 3.":
        lambda: pairwise(TWO, TWO, sm.Sinh(), segments=Sizes([1, 2])),
    "pairwise: Sizes must be >= 0, got -1 at index 1.": lambda: pairwise(TWO, TWO, sm.Sinh(), segments=Sizes([3, -1])),
    "pairwise.grad: Offsets must go from 0 to the number of items (2), got 0 to 1.":
        lambda: pairwise.grad(TWO, TWO, sm.Sinh(), segments=Offsets([0, 1])),
    "pairwise: Offsets must not decrease, got 1 at index 2.":
        lambda: pairwise(TWO, TWO, sm.Sinh(), segments=Offsets([0, 2, 1, 2])),
    "pairwise: Offsets must have one entry more than there are lists, got none.":
        lambda: pairwise(TWO, TWO, sm.Sinh(), segments=Offsets([])),
    "pointwise: segments must be integers, got dtype float64.":
        lambda: pointwise(TWO, TWO, sm.Sinh(), segments=[0.0, 1.0]),
    "listwise: s must be finite, got nan at index (0, 1).": lambda: listwise(ROWS, [[0.0, math.nan, 0.0]] * 2, SOFTMAX),
    "pairwise: s_hat must be finite, got inf at index 1.": lambda: pairwise([0.0, math.inf], TWO, sm.Sinh()),
    "pointwise: s must lie inside the domain (0, 1), got 2.0 at index 1.":
        lambda: pointwise([0.5, 0.5], [0.5, 2.0], sm.Logit()),
    "pairwise: the link must be defined for differences of both signs, got Log()":
        lambda: pairwise(TWO, TWO, sm.Log()),
    "pairwise: the largest difference of s in a list must lie, with both signs, in the domain (-1, 1)":
        lambda: pairwise(TWO / 2, TWO, sm.Arctanh()),
    "listwise: weights must be finite and >= 0, got -1.0 at index 1.":
        lambda: listwise(ROWS, ROWS, SOFTMAX, weights=[1.0, -1.0]),
    "listwise: weights must have the shape of the unreduced result (2,), got (2, 3).":
        lambda: listwise(ROWS, ROWS, SOFTMAX, weights=ROWS),
    "pairwise: weights must have the shape of the unreduced result (1,), got (2,).":
        lambda: pairwise(TWO, TWO, sm.Sinh(), segments=[0, 0], weights=[1.0, 1.0]),
    "listwise: where must have the shape of the scores (2, 3) or of their rows (2,), got (2, 2).":
        lambda: listwise(ROWS, ROWS, SOFTMAX, where=np.ones((2, 2), dtype=bool)),
    "listwise: where must be boolean, got dtype float64.": lambda: listwise(ROWS, ROWS, SOFTMAX, where=ROWS),
    "listwise: loss must have a CompositeSoftmax, got Sinh(). Try CompositeSoftmax(Sinh()).":
        lambda: listwise(ROWS, ROWS, sm.Sinh()),
    "listwise: rho must be left out": lambda: listwise(ROWS, ROWS, sm.CompositeSoftmax(rho=(1.0, 2.0, 3.0))),
    "pointwise: loss must have a link for single scores, got CompositeSoftmax(Constant(value=1.0)). Try listwise.":
        lambda: pointwise(ROWS, ROWS, SOFTMAX),
    "pairwise: loss must have one link for differences of scores, got PerLabel":
        lambda: pairwise(ROWS, ROWS, sm.PerLabel({0.0: sm.Sinh()})),
    "pairwise: loss must be a MatchingLoss, a potential or a curve, got 'sinh'.": lambda: pairwise(ROWS, ROWS, "sinh"),
    "pairwise: pair_weights must be a function of the size of a difference, got 2.0.":
        lambda: pairwise(ROWS, ROWS, sm.Sinh(), pair_weights=2.0),
    "pairwise.plan: pair_weights must be a function of the size of a difference, got 3.":
        lambda: pairwise.plan(sm.Sinh(), pair_weights=3),
    "pairwise: pair_weights must be finite and >= 0, got -1.0 for the size of difference 1.0.":
        lambda: pairwise(TWO, TWO, sm.Sinh(), pair_weights=lambda gap: -gap),
    "pairwise: pair_weights must be finite and >= 0, got nan for the size of difference 1.0.":
        lambda: pairwise(TWO, TWO, sm.Sinh(), pair_weights=lambda gap: math.nan * gap),
    "pairwise: pair_weights must give a number for every difference, here of shape (1, 2), got NoneType.":
        lambda: pairwise(TWO, TWO, sm.Sinh(), pair_weights=lambda gap: None),
    "pairwise: pair_weights must give a number for every difference, here of shape (1, 2), got shape (3,).":
        lambda: pairwise(TWO, TWO, sm.Sinh(), pair_weights=lambda gap: np.ones(3)),
    "listwise: where must have the shape of the scores (2, 3) or of their rows (2,), got (3,).":
        lambda: listwise(ROWS, ROWS, SOFTMAX, where=np.ones(3, dtype=bool)),
    "listwise: conjugate must be left out for targets='scores', got False.":
        lambda: listwise(ROWS, ROWS, SOFTMAX, conjugate=False),
    "pointwise: options must be among 'where', 'segments', 'weights', 'reduction', 'num_items', got 'mask'.":
        lambda: pointwise(ROWS, ROWS, sm.Sinh(), mask=True),
    "listwise: targets must be 'scores' or 'probabilities', got 'labels'.":
        lambda: listwise(ROWS, ROWS, SOFTMAX, targets="labels"),
    "listwise: s must be probabilities that sum to 1 over the list, got 0.0 at index (0, 0). Normalise each list":
        lambda: listwise(ROWS, ROWS, SOFTMAX, targets="probabilities"),
    "listwise: s must be probabilities that sum to 1 over the list, got 0.0 at index (1, 0).":
        lambda: listwise(ROWS, [[0.5, 0.5, 0], [0, 0, 0.0]], SOFTMAX, targets="probabilities", where=ROWS == 0),
    "listwise: the scaling must be constant, and anchor left out, for targets='probabilities', got Comp":
        lambda: listwise(ROWS, ROWS + 1 / 3, sm.CompositeSoftmax(sm.Sinh()), targets="probabilities"),
    "listwise.curvature: kind must be 'newton' for targets='probabilities', got 'secant'.":
        lambda: listwise.curvature(ROWS, ROWS + 1 / 3, SOFTMAX, targets="probabilities", kind="secant"),
    "pairwise.curvature: kind must be 'newton' or 'secant', got 'gauss'.":
        lambda: pairwise.curvature(ROWS, ROWS, sm.Sinh(), kind="gauss"),
    "pairwise: reduction must be 'mean', 'sum' or 'none', got 'max'.":
        lambda: pairwise(ROWS, ROWS, sm.Sinh(), reduction="max"),
    "pairwise: s_hat must have the items of a list on its last axis, got a single number.":
        lambda: pairwise(1.0, 2.0, sm.Sinh()),
    "labels_to_scores: labels must lie in [0, 4], got 5.0 at index 1. Say highest=5":
        lambda: labels_to_scores([0, 5]),
    "labels_to_scores: labels must be numbers of clicks, from 0 to the impressions, got 2.0 at index 0.":
        lambda: labels_to_scores([2, 0], kind="clicks"),
    "labels_to_scores: kind must be 'graded', 'gain' or 'clicks', got 'stars'.":
        lambda: labels_to_scores([2], kind="stars"),
    "labels_to_scores: impressions must be left out for kind='graded'": lambda: labels_to_scores([2], impressions=[3]),
    "labels_to_scores: prior must be left out for kind='gain'":
        lambda: labels_to_scores([2], kind="gain", prior=(1, 1)),
    "labels_to_scores: highest must be left out for kind='clicks'":
        lambda: labels_to_scores([1], kind="clicks", highest=2),
    "labels_to_scores: labels must be finite, got nan at index 1. Drop it": lambda: labels_to_scores([1.0, math.nan]),
    "labels_to_scores: impressions must have the shape of the labels (1,), got (2,).":
        lambda: labels_to_scores([2], kind="clicks", impressions=[3, 3]),
    "labels_to_scores: prior must be a pair (clicks, skips), got (1.0,).":
        lambda: labels_to_scores([1], kind="clicks", prior=(1.0,)),
    "focus: the word for pairs must be one of 'extremes', 'middle', got 'high'.":
        lambda: sm.focus("high", data=[[0, 1, 2]], of="pairs"),
    "focus: classes must be left out for of='pairs', got True.":
        lambda: sm.focus("middle", data=ROWS, of="pairs", classes=True),
    "focus: data must have rows of scores (2 dimensions) with of='lists', got shape (2,). For flat scores give":
        lambda: sm.focus("high", data=TWO, of="lists"),
    "focus: gamma must be left out for pairs, got 2.0.":
        lambda: sm.focus("middle", data=ROWS, of="pairs", gamma=2.0),
    "focus: of must be one of 'rows', 'pairs', 'lists', got 'list'. Did you mean 'lists'?":
        lambda: sm.focus("high", data=ROWS, of="list"),
    "focus: segments must be left out for rows": lambda: sm.focus("high", data=TWO, segments=[0, 0]),
    "focus: data must have rows of scores (2 dimensions) with of='pairs', got shape (2,).":
        lambda: sm.focus("middle", data=TWO, of="pairs"),
    "focus: data must have flat scores (1 dimension) with segments, got shape (2, 3).":
        lambda: sm.focus("middle", data=ROWS, of="pairs", segments=[0, 1]),
    "focus: data must have a list with at least 2 items for pairs, got none.":
        lambda: sm.focus("middle", data=TWO, of="pairs", segments=[0, 1]),
    "focus: weights must have one entry per list (2), got shape (3,).":
        lambda: sm.focus("middle", data=[0, 1, 2], of="pairs", segments=[0, 0, 1], weights=[1, 1, 1]),
    "focus: regions of pairs must be sizes of differences, >= 0, got (-1, 2).":
        lambda: sm.focus(between=(-1, 2), data=[0, 1, 2], of="pairs", segments=[0, 0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG, ids=str)
def test_wrong_input_is_named(message):
    with pytest.raises((ValueError, TypeError)) as caught:
        WRONG[message]()
    assert str(caught.value).startswith(message)


def test_differences_outside_the_domain_are_nan_in_frameworks():
    s_hat, s = torch.tensor([0.1, 0.2, 0.0, 0.5]), torch.tensor([0.0, 1.5, 0.0, 0.5])
    found = pairwise(s_hat, s, sm.Arctanh(), segments=[0, 0, 1, 1], reduction="none")
    assert found.isnan().tolist() == [True, False]


# ----------------------------------------------------------------------------------------------------- labels and words


def test_labels_become_scores_on_a_stated_scale(array, caplog):
    with caplog.at_level(logging.INFO, logger="selmatch.relevance"):
        graded = labels_to_scores(array([0.0, 1.0, 4.0]), scale=3.0)
    np.testing.assert_allclose(np.asarray(graded), [-3.0, -1.5, 3.0])
    assert caplog.messages == ["labels_to_scores: graded labels 0 to 4 are scores -3 to 3"]
    gain = np.asarray(labels_to_scores(array([0.0, 1.0, 4.0]), kind="gain"))
    np.testing.assert_allclose(gain, [-1.0, 2 / 15 - 1, 1.0], rtol=1e-14)
    clicks = labels_to_scores(
        array([0.0, 3.0]), kind="clicks", impressions=array([0.0, 9.0]), prior=(1.0, 2.0), scale=2.0
    )
    np.testing.assert_allclose(np.asarray(clicks), [2 * math.log(0.5), 2 * math.log(4 / 8)], rtol=1e-14)


def test_labels_that_nobody_may_look_at_are_nan_outside_of_their_range():
    graded = labels_to_scores(torch.tensor([-1.0, 4.0, 5.0]))
    assert graded.isnan().tolist() == [True, False, True]
    clicks = labels_to_scores(torch.tensor([0.0, 3.0, 13.0]), kind="clicks", impressions=[0, 12, 12])
    np.testing.assert_allclose(clicks[:2], [0.0, math.log(3.5 / 9.5)], rtol=1e-6)
    assert clicks[2].isnan()
    for labels in (torch.tensor([3.0]), np.array([3.0])):
        np.testing.assert_allclose(labels_to_scores(labels, kind="clicks", impressions=12), clicks[1:2], rtol=1e-6)


def test_gains_of_high_grades_do_not_overflow():
    assert labels_to_scores([0.0, 1999.0, 2000.0], kind="gain", highest=2000).tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("options", [{}, {"kind": "gain", "scale": 2.0}, {"kind": "clicks", "impressions": [1, 9, 7]}])
def test_labels_may_be_integers_of_any_library(options):
    labels = np.array([1, 0, 3])
    expected = labels_to_scores(labels.astype(float), **options)
    kinds = (np.uint8, np.int16, np.int64)
    for array in (np.asarray, torch.as_tensor, jnp.asarray):
        for given in (array(labels.astype(kind)) for kind in (kinds[-1:] if array is jnp.asarray else kinds)):
            own = {**options, "impressions": array(options["impressions"])} if "impressions" in options else options
            found = labels_to_scores(given, **own)
            assert type(found) is type(given)
            np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-6, atol=1e-7)
            assert array is not torch.as_tensor or found.dtype == torch.get_default_dtype()
    assert labels_to_scores(torch.tensor([True, False]), highest=1).tolist() == [1.0, -1.0]
    found = jax.jit(lambda x: labels_to_scores(x, highest=1))(jnp.array([0, 1, 2]))
    assert found[:2].tolist() == [-1.0, 1.0]
    assert math.isnan(found[2])


@pytest.mark.parametrize("word", ["extremes", "middle"])
@pytest.mark.parametrize("family", [None, "of the word"])
def test_words_for_pairs_mean_sizes_of_differences(word, family):
    rng = np.random.default_rng(0)
    y, ids = rng.normal(size=60), rng.integers(0, 6, size=60)
    options = {} if family is None else {"family": {"extremes": "sinh", "middle": "sigmoid"}[word], "strength": 1.5}
    loss = sm.focus(word, data=y, of="pairs", segments=ids, top=0.2, **options)
    lists = [y[ids == i] for i in range(6)]
    gaps = [(scores[:, None] - scores)[~np.eye(len(scores), dtype=bool)] for scores in lists]
    d, weights = np.concatenate(gaps), np.concatenate([np.full(len(x), 1 / len(x)) for x in gaps])
    inside = np.logical_or.reduce([(d >= low) & (d <= high) for low, high, _ in loss.wish.regions])
    assert np.average(inside, weights=weights) == pytest.approx(0.2, abs=0.02)
    assert (abs(d[inside]).min() > abs(d[~inside]).max()) == (word == "extremes")
    slopes = loss.potential.slope(d)
    np.testing.assert_allclose(slopes, loss.potential.slope(-d), rtol=1e-9)
    ratio = np.average(slopes[inside], weights=weights[inside]) / np.average(slopes[~inside], weights=weights[~inside])
    assert ratio == pytest.approx(loss.wish.strength, rel=1e-9)
    assert np.average(slopes, weights=weights) == pytest.approx(1.0, rel=1e-9)
    assert (loss.wish.of, loss.wish.word, loss.wish.rows) == ("pairs", word, len(d))
    assert sm.certify.convex(loss)
    assert spec.loads(spec.dumps(loss)).wish == loss.wish
    assert "differences" in str(loss.explain())
    assert pairwise(y + rng.normal(size=60), y, loss, segments=ids) > 0


def test_regions_and_caps_of_pairs_hold_for_both_signs():
    y = np.arange(12.0).reshape(3, 4)
    near = sm.focus(between=(0.0, 1.5), data=y, of="pairs")
    assert near.wish.regions == ((-1.5, 1.5, 1.0),)
    capped = sm.focus("extremes", data=y, of="pairs", top=0.5, cap=2.5)
    assert capped.wish.regions == ((-2.5, -1.5, 1.0), (1.5, 2.5, 1.0))


@pytest.mark.parametrize("word", ["high", "low", "middle", "extremes"])
def test_words_for_lists_do_not_depend_on_their_form(word):
    y = np.random.default_rng(0).normal(size=(30, 5))
    by_rows, flat = (
        sm.focus(word, data=data, gamma=0.5, **options)
        for data, options in (
            (y, {"classes": True}),
            (y.ravel(), {"of": "lists", "segments": np.repeat(np.arange(30), 5)}),
        )
    )
    assert by_rows == flat
    assert by_rows.wish == flat.wish
    assert listwise(y + 0.1, y, flat) == pytest.approx(by_rows(y + 0.1, y), rel=1e-13)


def test_many_pairs_are_sampled_and_lists_stay_equal():
    y = np.concatenate([np.arange(1200.0) / 1200, [0.0, 5.0]])
    sizes, weights = np.array([1200, 2]), np.array([1.0, 1.0])
    assert sizes[0] * (sizes[0] - 1) // 2 > MOST_PAIRS
    moves, shares = differences(y, sizes, weights)
    assert len(moves) == 2 * MOST_PAIRS
    assert shares[abs(moves) == 5.0].sum() == pytest.approx(1.0, abs=0.02)
    assert np.average(abs(moves[abs(moves) < 2])) == pytest.approx(1 / 3, abs=0.01)
    np.testing.assert_array_equal(moves, differences(y, sizes, weights)[0])


def test_every_pair_is_found_once():
    scores = np.array([0.0, 1.0, 10.0, 100.0, 1000.0])
    moves, shares = differences(scores, np.array([5]), np.ones(1))
    assert sorted(moves) == sorted((scores[:, None] - scores)[~np.eye(5, dtype=bool)])
    assert shares.sum() == pytest.approx(1.0)
