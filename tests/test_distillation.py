"""Distillation: three libraries, comparable scores, stored teachers that are exact or bounded, losses that fit."""

import importlib
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import selmatch as sm
from selmatch.distillation import (
    TopKTeacher,
    clipped_share,
    distillation_loss,
    fitted,
    forward_kl,
    jensen_shannon,
    log_probabilities,
    reverse_kl,
    truncation_bound,
)
from selmatch.sparse_teachers import exact_below

CLIPPING = sm.MatchingLoss(sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-3.0), gamma=0.5))
RISING = sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.3), gamma=0.7))
MODES = ("log_probabilities", "teacher_maximum", None)
#: all functions of a student and a teacher
ROWS = {
    "selective": lambda *pair, **options: distillation_loss(*pair, CLIPPING, **options),
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "jensen_shannon": jensen_shannon,
}
LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor, "jax": jnp.asarray}


def logits(*shape, spread=2.0, seed=0):
    return spread * np.random.default_rng(seed).normal(size=shape)


STUDENT, TEACHER = logits(3, 4, 20), logits(3, 4, 20, spread=3.0, seed=1)
MASK = np.random.default_rng(2).random((3, 4)) < 0.6


def torch_gradient(function, student, *arguments, **options):
    """Value and gradient of a loss of tensors."""
    student = torch.as_tensor(student).clone().requires_grad_()
    value = function(student, *arguments, **options)
    value.backward()
    return value.item(), student.grad.numpy()


def assert_equal(actual, expected, rtol=1e-12):
    """To a relative error, of the largest number for arrays."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected), initial=0.0))


# ------------------------------------------------------------------------------------------------------ three libraries


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_libraries_agree(name, reduction):
    function = ROWS[name]

    def loss(student, make):
        options = {"where": make(MASK), "weights": make(MASK + 1.0), "temperature": 1.5, "reduction": reduction}
        return function(student, make(TEACHER), **options)

    expected = loss(STUDENT, np.asarray)
    assert isinstance(expected, np.ndarray if reduction == "none" else np.float64)
    assert_equal(loss(torch.from_numpy(STUDENT), torch.as_tensor), expected)
    assert_equal(jax.jit(lambda student: loss(student, jnp.asarray))(STUDENT), expected)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_torch_and_jax_agree(mode):
    def loss(student, make):
        return distillation_loss(student, make(TEACHER), CLIPPING, canonicalise=mode, where=make(MASK), num_items=5)

    value, gradient = torch_gradient(loss, STUDENT, torch.as_tensor)
    own, slope = jax.jit(jax.value_and_grad(lambda student: loss(student, jnp.asarray)))(jnp.asarray(STUDENT))
    assert_equal(own, value)
    assert_equal(slope, gradient)
    assert_equal(loss(STUDENT, np.asarray), value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loss", [CLIPPING, RISING], ids=["clipping", "rising"])
def test_gradients_flow_through_the_canonical_form(mode, loss):
    student, teacher = torch.from_numpy(logits(2, 6, seed=3)).requires_grad_(), torch.from_numpy(logits(2, 6, seed=4))
    assert torch.autograd.gradcheck(lambda z: distillation_loss(z, teacher, loss, canonicalise=mode), (student,))


@pytest.mark.parametrize("name", ["reverse_kl", "jensen_shannon"])
def test_gradients_of_divergences(name):
    student, teacher = torch.from_numpy(logits(2, 6, seed=3)).requires_grad_(), torch.from_numpy(logits(2, 6, seed=4))
    assert torch.autograd.gradcheck(lambda z: ROWS[name](z, teacher), (student,))


@pytest.mark.parametrize("name", ROWS)
def test_the_teacher_is_a_constant(name):
    student, teacher = (torch.from_numpy(z.copy()).requires_grad_() for z in (STUDENT, TEACHER))
    ROWS[name](student, teacher).backward()
    assert teacher.grad is None
    assert student.grad.abs().max() > 0
    slope = jax.jit(jax.grad(lambda teacher: ROWS[name](jnp.asarray(STUDENT), teacher)))(TEACHER)
    assert not slope.any()


# ---------------------------------------------------------------------------------------------------- comparable scores


@pytest.mark.parametrize("mode", MODES)
def test_only_canonical_scores_are_blind_to_shifts(mode):
    shift = logits(3, 4, 1, seed=5)
    here = distillation_loss(STUDENT, TEACHER, CLIPPING, canonicalise=mode)
    there = distillation_loss(STUDENT + shift, TEACHER - 7.0, CLIPPING, canonicalise=mode)
    assert bool(abs(here - there) < 1e-12 * here) is (mode is not None)


def test_what_canonical_scores_are():
    plain = {"canonicalise": None, "reduction": "none"}
    by_hand = distillation_loss(log_probabilities(STUDENT), log_probabilities(TEACHER), CLIPPING, **plain)
    assert_equal(distillation_loss(STUDENT, TEACHER, CLIPPING, reduction="none"), by_hand)
    best = TEACHER.argmax(-1, keepdims=True)
    moved = (z - np.take_along_axis(z, best, -1) for z in (STUDENT, TEACHER))
    actual = distillation_loss(STUDENT, TEACHER, CLIPPING, canonicalise="teacher_maximum", reduction="none")
    assert_equal(actual, distillation_loss(*moved, CLIPPING, **plain))
    assert_equal(CLIPPING(STUDENT, TEACHER), distillation_loss(STUDENT, TEACHER, CLIPPING, canonicalise=None))


def test_a_curve_is_a_scaling():
    curve = sm.SmeLU(c=1.0).affine(beta=-3.0)
    expected = distillation_loss(STUDENT, TEACHER, sm.CompositeSoftmax(curve))
    assert distillation_loss(STUDENT, TEACHER, curve) == expected


@pytest.mark.parametrize("name", ROWS)
def test_temperature_divides_both(name):
    assert_equal(ROWS[name](STUDENT, TEACHER, temperature=2.5), ROWS[name](STUDENT / 2.5, TEACHER / 2.5))


# ------------------------------------------------------------------------------------------------ masks, counts, dtypes


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("mode", MODES)
def test_masked_rows_may_hold_anything(make, mode):
    options = {"canonicalise": mode, "where": make(MASK)}
    dirty_student, dirty_teacher = STUDENT.copy(), TEACHER.copy()
    dirty_student[~MASK], dirty_teacher[~MASK] = np.nan, np.inf
    compiled = jax.jit if make is jnp.asarray else lambda function: function
    loss = compiled(lambda student, teacher: distillation_loss(student, teacher, CLIPPING, **options))
    clean = loss(make(STUDENT), make(TEACHER))
    assert_equal(loss(make(dirty_student), make(dirty_teacher)), clean)
    counted = distillation_loss(STUDENT[MASK], TEACHER[MASK], CLIPPING, canonicalise=mode)
    assert_equal(clean, counted)


@pytest.mark.parametrize("name", ROWS)
def test_gradients_of_masked_rows_are_zero(name):
    dirty = STUDENT.copy()
    dirty[~MASK] = np.nan
    _, gradient = torch_gradient(ROWS[name], dirty, torch.from_numpy(TEACHER), where=torch.from_numpy(MASK))
    assert np.isfinite(gradient).all()
    assert not gradient[~MASK].any()
    if name in ("selective", "reverse_kl"):  # with derivatives in closed form, and without
        slope = jax.jit(jax.grad(lambda z: ROWS[name](z, jnp.asarray(TEACHER), where=jnp.asarray(MASK))))(dirty)
        assert_equal(slope, gradient)


@pytest.mark.parametrize("name", ROWS)
def test_nothing_that_counts(name):
    nothing = np.zeros_like(MASK)
    value, gradient = torch_gradient(ROWS[name], STUDENT, torch.from_numpy(TEACHER), where=torch.from_numpy(nothing))
    assert value == 0.0
    assert not gradient.any()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(name, dtype):
    student, teacher = torch.from_numpy(STUDENT).to(dtype), torch.from_numpy(TEACHER).to(dtype)
    mean = ROWS[name](student, teacher, temperature=2.0)
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean, ROWS[name](student.float(), teacher.float(), temperature=2.0))
    assert ROWS[name](student, teacher, reduction="none").dtype == dtype
    half = jax.eval_shape(lambda z: ROWS[name](z, TEACHER, reduction="none"), jnp.asarray(STUDENT, dtype=jnp.bfloat16))
    assert half.dtype == jnp.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(ROWS[name](student, teacher, temperature=2.0), mean)


@pytest.mark.parametrize("name", ROWS)
def test_accumulated_batches_are_one_batch(name):
    """Eight sequences at once, and four times two: equal gradients of a small network, in single precision."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 40))
    inputs, teacher = torch.randn(8, 6, 5), 3.0 * torch.randn(8, 6, 40)
    mask = torch.arange(6) < torch.tensor([6, 2, 5, 1, 6, 3, 4, 2])[:, None]

    def gradients(parts):
        network.zero_grad()
        for part in torch.arange(8).chunk(parts):
            options = {"where": mask[part], "num_items": mask.sum()}
            ROWS[name](network(inputs[part]), teacher[part], **options).backward()
        return torch.cat([weight.grad.reshape(-1) for weight in network.parameters()])

    whole, pieces = gradients(1), gradients(4)
    assert (whole - pieces).norm() < 1e-6 * whole.norm()


@pytest.mark.parametrize("name", ["selective", pytest.param("jensen_shannon", marks=pytest.mark.slow)])
def test_compiled_and_mapped_by_torch(name):
    student, teacher, mask = torch.from_numpy(STUDENT), torch.from_numpy(TEACHER), torch.from_numpy(MASK)
    compiled = torch.compile(lambda z: ROWS[name](z, teacher, where=mask), fullgraph=True, backend="aot_eager")
    assert_equal(compiled(student), ROWS[name](student, teacher, where=mask))
    mapped = torch.func.vmap(ROWS[name])(student, teacher)
    assert_equal(mapped, ROWS[name](student, teacher, reduction="none").mean(-1))


# ------------------------------------------------------------------------------------------------------ stored teachers


def stored_and_full(classes, k, rows=2, seed=0):
    """A stored teacher, the full one's logits, and a loss whose cut-off lies between stored classes and the others."""
    z = logits(rows, classes, spread=4.0, seed=seed)
    z[:, :k] += 40.0  # the same classes lead in all rows, so that one cut-off separates them
    scores = log_probabilities(z)
    middle = 0.5 * (scores[:, :k].min() + scores[:, k:].max(initial=scores.min()))
    scaling = sm.SmeLU(c=3.0).affine(beta=middle + 3.0)
    return TopKTeacher.from_scores(z, k), z, sm.MatchingLoss(sm.CompositeSoftmax(scaling, gamma=0.4))


@pytest.mark.parametrize(
    ("classes", "k"),
    [(50, 1), (1000, 1), (1000, 1000), (5000, 64), (32000, 1024), (128256, 1), (128256, 64), (128256, 1024)],
)
def test_stored_teachers_are_exact_below_the_cut_off(classes, k):
    teacher, full, loss = stored_and_full(classes, k)
    # one student is close to the teacher, one is far
    student = np.stack([full[0] + logits(classes, spread=0.5, seed=7), logits(classes, spread=3.0, seed=8)])
    assert_equal(
        distillation_loss(student, teacher, loss, reduction="none"),
        distillation_loss(student, full, loss, reduction="none"),
    )
    tensors = TopKTeacher.from_scores(torch.from_numpy(full), k)
    value, gradient = torch_gradient(distillation_loss, student, tensors, loss)
    expected, slope = torch_gradient(distillation_loss, student, torch.from_numpy(full), loss)
    assert_equal(value, expected)
    assert_equal(gradient, slope)


def test_the_stored_numbers_tell_that_they_are_exact():
    full = logits(4, 3000, spread=3.0)
    teacher = TopKTeacher.from_scores(full, 64)
    loss = fitted(teacher, exact=True).loss
    assert teacher.is_exact(loss).all()
    student = logits(4, 3000, seed=1)
    assert_equal(distillation_loss(student, teacher, loss), distillation_loss(student, full, loss))
    assert not truncation_bound(loss, student, teacher).any()


@pytest.mark.parametrize("name", ["selective", "maximum", "rising", "reverse_kl"])
def test_stored_teachers_in_all_libraries(name):
    functions = ROWS | {
        "maximum": lambda *pair, **options: distillation_loss(
            *pair, CLIPPING, canonicalise="teacher_maximum", **options
        ),
        "rising": lambda *pair, **options: distillation_loss(*pair, RISING, **options),
    }
    teacher = TopKTeacher.from_scores(TEACHER, 5)
    value = functions[name](STUDENT, teacher, where=MASK)
    assert_equal(functions[name](STUDENT, teacher.dense(), where=MASK), value)
    tensors = TopKTeacher.from_scores(torch.from_numpy(TEACHER), 5)
    assert_equal(functions[name](torch.from_numpy(STUDENT), tensors, where=torch.from_numpy(MASK)), value)
    assert_equal(jax.jit(lambda z: functions[name](z, teacher, where=MASK))(STUDENT), value)


# ------------------------------------------------------------------------------------------- what classes left out cost

BOUNDED = [
    sm.CompositeSoftmax(sm.Exp()), sm.CompositeSoftmax(sm.Exp().affine(alpha=0.3), gamma=0.5),
    sm.CompositeSoftmax(), sm.CompositeSoftmax(gamma=3.0), sm.CompositeSoftmax(gamma=0.4),
    sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-6.0), gamma=0.5), sm.CompositeSoftmax(sm.Step().affine(beta=-4.0)),
    sm.CompositeSoftmax(sm.ReLU().affine(beta=-6.0)), sm.CompositeSoftmax(sm.Sigmoid().affine(beta=-4.0), gamma=0.3),
]  # fmt: skip


@st.composite
def full_teachers(draw):
    """Logits of a full teacher, and of another with the same best classes and the same probability left for others."""
    classes = draw(st.integers(2, 60))
    k = draw(st.integers(1, classes - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z = draw(st.sampled_from([0.1, 1.0, 3.0, 8.0])) * rng.normal(size=classes)
    probabilities = np.sort(np.exp(log_probabilities(z)))[::-1]
    rest, highest = probabilities[k:].sum(), probabilities[k - 1]
    others = rest * rng.dirichlet(np.full(classes - k, draw(st.sampled_from([0.02, 0.3, 5.0]))))
    if draw(st.booleans()):  # as uneven as it can be
        others = np.clip(rest - highest * np.arange(classes - k), 0.0, highest)
    while (excess := np.maximum(others - highest, 0.0).sum()) > 1e-14 * rest:
        others = np.minimum(others, highest)
        room = highest - others
        others = others + excess * room / room.sum()
    others = np.maximum(np.minimum(others, highest), 1e-280)
    return k, np.log(probabilities), np.log(np.concatenate([probabilities[:k], others])), rng.normal(size=classes)


@given(full_teachers(), st.sampled_from(BOUNDED), st.sampled_from([0.3, 2.0, 6.0]))
def test_no_teacher_is_beyond_the_bound(teachers, potential, spread):
    k, first, second, noise = teachers
    stored = TopKTeacher.from_scores(first, k)
    loss, student = sm.MatchingLoss(potential), spread * noise
    bound = truncation_bound(loss, student, stored)
    value = distillation_loss(student, stored, loss)
    for full in (first, second):
        # the second one's logits are log-probabilities but for rounding: taken as they are
        distance = abs(loss(log_probabilities(student), full) - value)
        assert distance <= bound * (1.0 + 1e-9) + 1e-12 * (1.0 + value)


@pytest.mark.parametrize("potential", BOUNDED, ids=repr)
def test_the_bound_vanishes_as_more_is_stored(potential):
    full, student = logits(400, spread=3.0), logits(400, seed=1)
    bounds = [float(truncation_bound(potential, student, TopKTeacher.from_scores(full, k))) for k in (20, 150, 380)]
    assert bounds[0] >= bounds[1] >= bounds[2]
    assert bounds[2] <= 1e-2 * bounds[0] or bounds[0] == 0.0
    value = distillation_loss(student, full, potential)
    assert bounds[2] < 0.05 * value
    assert truncation_bound(potential, student, TopKTeacher.from_scores(full, 400)) == 0.0


def test_the_bound_is_within_reach():
    """A full teacher that puts what is left on the student's worst classes comes close to it."""
    full, student = logits(300, spread=3.0), logits(300, spread=2.0, seed=1)
    stored = TopKTeacher.from_scores(full, 20)
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp()))
    scores = log_probabilities(student)
    others = np.setdiff1d(np.argsort(scores), stored.indices, assume_unique=True)  # the student's worst first
    highest, rest = np.exp(stored.ceiling), 1.0 - np.exp(stored.log_probabilities).sum()
    adverse = np.full(300, -200.0)
    adverse[stored.indices] = stored.log_probabilities
    adverse[others] = np.log(np.clip(rest - highest * np.arange(len(others)), 1e-90, highest))
    distance = abs(loss(scores, adverse) - distillation_loss(student, stored, loss))
    bound = float(truncation_bound(loss, student, stored))
    assert distance <= bound <= 6.0 * distance


def test_the_bound_takes_batches_and_tensors():
    stored = TopKTeacher.from_scores(TEACHER, 4)
    bound = truncation_bound(RISING, STUDENT, stored)
    assert bound.shape == (3, 4)
    tensors = TopKTeacher.from_scores(torch.from_numpy(TEACHER), 4)
    assert_equal(truncation_bound(RISING, torch.from_numpy(STUDENT), tensors), bound, rtol=1e-9)
    assert_equal(truncation_bound(RISING, STUDENT[1, 2], TopKTeacher.from_scores(TEACHER[1, 2], 4)), bound[1, 2])


def test_there_is_no_bound_where_low_scores_matter():
    assert truncation_bound(sm.Sinh(), STUDENT[0, 0], TopKTeacher.from_scores(TEACHER[0, 0], 4)) == math.inf


# -------------------------------------------------------------------------------------------------------- fitted losses


def share_by_hand(loss, z):
    """The clipped share from all probabilities."""
    potential, scores = loss.potential, log_probabilities(np.asarray(z))
    return np.mean(np.sum(potential.prob(scores), axis=-1, where=scores <= exact_below(loss)))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.7, 0.99])
@pytest.mark.parametrize("classes", [2, 40, 5000])
@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(0.0, 40.0), skew=st.floats(0.2, 4.0))
def test_no_row_of_any_teacher_clips_more_than_its_share(share, classes, seed, spread, skew):
    z = np.random.default_rng(seed).normal(size=(3, classes))
    teacher = spread * np.sign(z) * np.abs(z) ** skew
    loss, reached = fitted(teacher, share=share)
    assert loss.potential.gamma == 1.0
    assert_equal(reached, share_by_hand(loss, teacher))
    for row in teacher:
        assert clipped_share(loss, row) <= share * (1.0 + 1e-12)


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_teachers_that_clip_nearly_their_share(share):
    """A row whose classes lie just below the cut-off, but for one: the rule leaves little room."""
    classes = 100_000
    loss, _ = fitted(np.zeros(classes), share=share)
    low = exact_below(loss) - 1e-6
    worst = np.full(classes, low)
    worst[0] = math.log(-math.expm1(math.log(classes - 1) + low))
    assert 0.98 * share < clipped_share(loss, worst) <= share


@pytest.mark.parametrize("spread", [1.0, 3.0])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_gamma_is_as_large_as_the_share_allows(spread, share):
    teacher, scaling = logits(4, 8, 900, spread=spread), sm.SmeLU().affine(beta=1.0 - math.log(900))
    loss, reached = fitted(teacher, scaling, share=share)
    gamma = loss.potential.gamma
    assert reached <= share
    assert_equal(reached, share_by_hand(loss, teacher))
    assert_equal(clipped_share(loss, teacher), reached)
    assert gamma == 1.0 or clipped_share(sm.CompositeSoftmax(scaling, gamma=1.01 * gamma), teacher) > share


def test_the_share_grows_with_gamma():
    teacher, scaling = logits(16, 900, spread=3.0), sm.SmeLU().affine(beta=1.0 - math.log(900))
    shares = [clipped_share(sm.CompositeSoftmax(scaling, gamma=gamma), teacher) for gamma in np.geomspace(0.01, 30, 40)]
    assert np.all(np.diff(shares) > 0)


def test_exactness_for_large_vocabularies_needs_a_small_gamma(caplog):
    full = logits(6, 128256, spread=2.5)
    teacher = TopKTeacher.from_scores(full, 64)
    assert fitted(teacher).loss == fitted(full).loss
    assert not caplog.records
    loss, share = fitted(teacher, exact=True)
    assert teacher.is_exact(loss).all()
    assert loss.potential.gamma < 0.3
    assert f"gamma = {loss.potential.gamma:g} makes the student copy" in caplog.text
    assert 0.09 < share <= 0.1
    assert_equal(clipped_share(loss, full), share, rtol=1e-9)
    plain = sm.CompositeSoftmax(loss.potential.scaling)
    assert clipped_share(plain, teacher) > 0.99


def test_the_default_cut_off():
    z = logits(16, 500)
    assert exact_below(fitted(z).loss) == pytest.approx(math.log(0.107 / 500) - 1.0, abs=0.01)
    teacher = TopKTeacher.from_scores(z, 30)
    assert exact_below(fitted(teacher).loss) == exact_below(fitted(z, exact=True).loss) == exact_below(fitted(z).loss)
    cut = exact_below(fitted(teacher, exact=True).loss)
    assert teacher.ceiling.max() <= cut <= teacher.ceiling.max() + 0.01
    enough = TopKTeacher.from_scores(3.0 * z, 490)
    assert exact_below(fitted(enough, exact=True).loss) == exact_below(fitted(z).loss)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_fitted_in_all_libraries(make):
    z, mask = logits(5, 6, 200, spread=3.0), np.random.default_rng(3).random((5, 6)) < 0.5
    z[~mask] = np.nan
    expected = fitted(z[mask])
    found = fitted(make(z), where=make(mask))
    assert found.loss == expected.loss
    assert type(found.share) is float
    assert found.share == pytest.approx(expected.share, rel=1e-12)
    assert clipped_share(found.loss, make(z), where=make(mask)) == pytest.approx(expected.share, rel=1e-12)


def test_fitted_in_pieces(monkeypatch):
    z = logits(30, 200, spread=3.0)
    whole = fitted(z), clipped_share(CLIPPING, TopKTeacher.from_scores(z, 5))
    monkeypatch.setattr("selmatch.distillation._CHUNK", 1000)
    assert (fitted(z), clipped_share(CLIPPING, TopKTeacher.from_scores(z, 5))) == whole


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_masks_of_stored_teachers(make):
    z, mask = logits(5, 6, 200, spread=3.0), np.random.default_rng(3).random((5, 6)) < 0.5
    expected = fitted(TopKTeacher.from_scores(z[mask], 20), exact=True)
    found = fitted(TopKTeacher.from_scores(make(z), 20), exact=True, where=make(mask))
    assert found.loss == expected.loss
    assert found.share == pytest.approx(expected.share, rel=1e-12)


def test_shares_of_classes_left_out_that_are_not_clipped():
    teacher = TopKTeacher.from_scores(logits(10, 50, spread=0.5), 3)
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-3.5)))
    assert (teacher.tail > exact_below(loss)).any()
    assert_equal(clipped_share(loss, teacher), share_by_hand(loss, teacher.dense()))


def test_a_scaling_of_ones_own():
    teacher = logits(16, 900, spread=3.0)
    scaling = sm.Step().affine(beta=-5.0)
    loss, share = fitted(teacher, scaling)
    assert loss.potential.scaling == scaling
    assert 0.09 < share <= 0.1
    unclipped = fitted(teacher, sm.Exp())
    assert unclipped == (sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp())), 0.0)
    assert clipped_share(sm.Exp(), teacher) == 0.0


# --------------------------------------------------------------------------------------------------------- known losses


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_divergences_are_those_of_torch(dtype):
    student, teacher = torch.from_numpy(STUDENT).to(dtype), torch.from_numpy(TEACHER).to(dtype)
    rtol = 1e-12 if dtype == torch.float64 else 2e-6

    def from_torch(p, q):
        return torch.nn.functional.kl_div(
            q.log_softmax(-1), p.log_softmax(-1), log_target=True, reduction="none"
        ).sum(-1).mean()  # fmt: skip

    for ours, theirs in (
        (forward_kl, lambda s, t: from_torch(t, s)),
        (reverse_kl, lambda s, t: from_torch(s, t)),
    ):
        value, gradient = torch_gradient(ours, student, teacher)
        expected, slope = torch_gradient(theirs, student, teacher)
        assert_equal(value, expected, rtol)
        assert_equal(gradient, slope, rtol)


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_jensen_shannon_is_that_of_trl(weight, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that TRL loads
        theirs = importlib.import_module("trl.experimental.gkd.gkd_trainer").GKDTrainer.generalized_jsd_loss
    teacher, labels = torch.from_numpy(TEACHER), torch.where(torch.from_numpy(MASK), 1, -100)
    options = {"where": torch.from_numpy(MASK), "temperature": 1.7}
    value, gradient = torch_gradient(jensen_shannon, STUDENT, teacher, weight=weight, reduction="sum", **options)
    expected, slope = torch_gradient(theirs, STUDENT, teacher, labels, weight, 1.7, "sum")
    assert_equal(value, expected)
    assert_equal(gradient, slope)
    counted = jensen_shannon(torch.from_numpy(STUDENT), teacher, weight=weight, num_items=7, **options)
    assert_equal(counted, theirs(torch.from_numpy(STUDENT), teacher, labels, weight, 1.7, num_items_in_batch=7))


@pytest.mark.parametrize("level", [1.0, 2.5])
def test_a_constant_scaling_is_the_forward_divergence(level):
    """Of probabilities at the temperature gamma / level, times gamma."""
    gamma = 0.8
    loss = sm.CompositeSoftmax(sm.Constant().affine(gain=level), gamma=gamma)
    expected = gamma * forward_kl(STUDENT, TEACHER, temperature=gamma / level)
    assert_equal(distillation_loss(STUDENT, TEACHER, loss), expected)


def test_divergences_are_those_of_optax():
    log_q, log_p = jnp.asarray(log_probabilities(STUDENT)), jnp.asarray(log_probabilities(TEACHER))
    forward, reverse = (function(STUDENT, TEACHER, reduction="none") for function in (forward_kl, reverse_kl))
    assert_equal(optax.losses.kl_divergence(log_q, jnp.exp(log_p)), forward)
    assert_equal(optax.losses.kl_divergence(log_p, jnp.exp(log_q)), reverse)


def test_the_forward_divergence_is_a_fenchel_young_loss_of_optax():
    log_p = jnp.asarray(log_probabilities(TEACHER))
    fenchel_young = optax.losses.make_fenchel_young_loss(jax.nn.logsumexp)
    conjugate = jnp.sum(jnp.exp(log_p) * log_p, axis=-1)  # which optax leaves out
    theirs = jax.jit(jax.value_and_grad(lambda z: jnp.mean(fenchel_young(z, jnp.exp(log_p)) + conjugate)))(STUDENT)
    ours = jax.jit(jax.value_and_grad(lambda z: forward_kl(z, jnp.asarray(TEACHER))))(STUDENT)
    for actual, expected in zip(ours, theirs, strict=True):
        assert_equal(actual, expected)


@pytest.mark.parametrize("name", ROWS)
def test_classes_that_are_ruled_out(name):
    student, teacher = STUDENT.astype(np.float32), TEACHER.astype(np.float32)
    student[..., 3:9], teacher[..., 5:12] = -1e4, -1e4
    value, gradient = torch_gradient(ROWS[name], student, torch.from_numpy(teacher))
    assert math.isfinite(value)
    assert np.isfinite(gradient).all()
    double = ROWS[name](student.astype(np.float64), teacher.astype(np.float64))
    assert value == pytest.approx(double, rel=1e-5)


@pytest.mark.parametrize("name", ROWS)
def test_equal_logits_cost_nothing(name):
    assert ROWS[name](STUDENT, STUDENT) == pytest.approx(0.0, abs=1e-15)
    assert ROWS[name](STUDENT, STUDENT) >= 0.0
    close = ROWS[name](STUDENT.astype(np.float32), (STUDENT + 1e-3 * TEACHER).astype(np.float32))
    assert close == pytest.approx(ROWS[name](STUDENT, STUDENT + 1e-3 * TEACHER), rel=1e-2)


# ---------------------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("name", ["selective", "reverse_kl"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_named(make, name, bad):
    dirty = STUDENT.copy()
    dirty[1, 3, 7] = bad
    message = r"the {}'s logits must be finite, or -inf .*, got (nan|inf) in row \(1, 3\). Mask the row with where"
    with pytest.raises(ValueError, match=message.format("student")):
        ROWS[name](make(dirty), make(TEACHER))
    with pytest.raises(ValueError, match=message.format("teacher")):
        ROWS[name](make(STUDENT), make(dirty))
    with pytest.raises(ValueError, match=r"row 3\."):
        ROWS[name](make(dirty[1]), make(TEACHER[1]))


def test_stored_teachers_and_halves_that_are_not_finite_are_named():
    dirty = TEACHER[0].copy()
    dirty[2] = np.nan
    teacher = TopKTeacher(np.arange(3) + np.zeros((4, 1), dtype=int), dirty[:, :3], np.full(4, 20.0), 20)
    with pytest.raises(ValueError, match=r"the teacher's logits must be finite, .*, got nan in row 2"):
        distillation_loss(STUDENT[0], teacher, CLIPPING)
    with pytest.raises(ValueError, match=r"fitted: the teacher's logits must be finite, .*, got nan in row 2"):
        fitted(dirty)
    with pytest.raises(ValueError, match=r"fitted: the teacher's logits must be finite, .*, got nan in row 2"):
        fitted(TopKTeacher.from_scores(dirty, 3), exact=True)
    student = torch.full((2, 5000), 60000.0, dtype=torch.float16)  # whose sum is beyond half precision
    assert forward_kl(student, student) == 0.0
    student[1, 4000] = torch.nan
    with pytest.raises(ValueError, match=r"the student's logits must be finite, .*, got nan in row 1"):
        forward_kl(student, student)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((make, name) for make in (np.asarray, torch.as_tensor) for name in ROWS),
        pytest.param(jnp.asarray, "forward_kl", marks=pytest.mark.slow),
    ],
)
def test_classes_that_are_ruled_out_have_no_probability(make, name):
    """A logit of -inf is one of -1e4: of the teacher, of both, and of the student."""
    out_of_teacher, out_of_both = np.zeros_like(TEACHER, bool), np.zeros_like(TEACHER, bool)
    out_of_teacher[..., 3:9], out_of_both[..., 12], out_of_both[0, :, 15:] = True, True, True
    low = [np.where(out_of_both, -1e4, STUDENT), np.where(out_of_both | out_of_teacher, -1e4, TEACHER)]
    infinite = [np.where(z == -1e4, -np.inf, z) for z in low]
    expected = ROWS[name](*low, reduction="none")
    compiled = jax.jit if make is jnp.asarray else lambda function: function
    assert_equal(compiled(ROWS[name])(*map(make, infinite)), np.mean(expected))
    assert_equal(ROWS[name](*map(make, infinite), reduction="none"), expected)
    if make is torch.as_tensor:
        value, slope = torch_gradient(ROWS[name], infinite[0], make(infinite[1]))
        assert_equal(value, np.mean(expected))
        assert_equal(slope, torch_gradient(ROWS[name], low[0], make(low[1]))[1])
        halves = [torch.as_tensor(z).half() for z in infinite]
        exact = float(ROWS[name](*(z.double() for z in halves)))
        assert float(ROWS[name](*halves)) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_rules_classes_out(mode):
    teacher = np.where(TEACHER < -2.0, -np.inf, TEACHER)
    value = distillation_loss(STUDENT, teacher, CLIPPING, canonicalise=mode)
    assert_equal(value, distillation_loss(STUDENT, np.maximum(teacher, -1e4), CLIPPING, canonicalise=mode))


def test_a_ruled_out_class_is_that_of_the_usual_divergence():
    teacher = np.where(TEACHER < -2.0, -np.inf, TEACHER)
    log_q, p = torch.from_numpy(STUDENT).log_softmax(-1), torch.from_numpy(teacher).softmax(-1)
    expected = torch.nn.functional.kl_div(log_q, p, reduction="none").sum(-1)
    assert_equal(forward_kl(STUDENT, teacher, reduction="none"), expected)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_stored_and_fitted_teachers_rule_classes_out(make):
    teacher = TEACHER.copy()
    teacher[..., 4:] = -np.inf  # fewer are left than are stored
    stored, low = (TopKTeacher.from_scores(make(z), 6) for z in (teacher, np.maximum(teacher, -1e4)))
    assert np.isfinite(np.asarray(stored.dense())).all()
    exact = sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-30.0))
    assert np.asarray(stored.is_exact(exact)).all()
    assert_equal(distillation_loss(make(STUDENT), stored, exact), distillation_loss(STUDENT, teacher, exact), 1e-10)
    assert_equal(distillation_loss(make(STUDENT), low, exact), distillation_loss(STUDENT, teacher, exact), 1e-10)
    chosen = fitted(make(teacher))
    assert chosen == fitted(np.maximum(teacher, -1e4))
    assert clipped_share(chosen.loss, make(teacher)) == pytest.approx(chosen.share)


def test_a_row_must_leave_a_class():
    teacher = TEACHER[0].copy()
    teacher[2] = -np.inf
    with pytest.raises(ValueError, match=r"the teacher's logits must leave a class, got only -inf in row 2\. Mask"):
        forward_kl(STUDENT[0], teacher)
    assert math.isfinite(forward_kl(STUDENT[0], teacher, where=np.arange(4) != 2))


def test_a_padded_vocabulary_is_cut():
    padded = np.concatenate([STUDENT, logits(3, 4, 5)], axis=-1)
    for pair, advice in (
        ((padded, TEACHER), "student"),
        ((STUDENT, np.concatenate([TEACHER, TEACHER], -1)), "teacher"),
    ):
        with pytest.raises(ValueError, match=rf"no classes: {advice}\[\.\.\., :20\]\.$") as refusal:
            forward_kl(*pair)
        names = dict(zip(("student", "teacher"), pair, strict=True))
        names[advice] = eval(str(refusal.value).rpartition(": ")[2].rstrip("."), {}, names)
        assert_equal(forward_kl(names["student"], names["teacher"]), forward_kl(STUDENT, TEACHER))
    half = torch.from_numpy(padded)[..., :20]  # not contiguous
    assert_equal(distillation_loss(half, torch.from_numpy(TEACHER), CLIPPING), ROWS["selective"](STUDENT, TEACHER))


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_class_indices_are_no_teacher(make):
    labels = np.arange(12).reshape(3, 4)
    with pytest.raises((TypeError, ValueError), match=r"For class indices: ") as refusal:
        distillation_loss(make(STUDENT), make(labels), CLIPPING)
    names = {"loss": CLIPPING, "log_probabilities": log_probabilities}
    value = eval(str(refusal.value).rpartition(": ")[2].rstrip("."), names, {"student": STUDENT, "labels": labels})
    certain = np.where(np.arange(20) == labels[..., None], 0.0, -1e3)
    assert value > 0.0
    if make is torch.as_tensor:
        plain = sm.MatchingLoss(sm.CompositeSoftmax()).label_loss(log_probabilities(STUDENT), labels)
        assert_equal(plain, forward_kl(STUDENT, certain))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: distillation_loss(STUDENT, TEACHER, CLIPPING, canonicalise="mean"), "canonicalise must be one of"),
        (lambda: distillation_loss(STUDENT, TEACHER, CLIPPING, temperature=0.0), "temperature must be > 0, got 0.0"),
        (
            lambda: distillation_loss(STUDENT, TopKTeacher.from_scores(TEACHER, 3), CLIPPING, temperature=2.0),
            r"temperature must be 1 for a TopKTeacher, .*from_scores\(scores / 2, k\)",
        ),
        (
            lambda: distillation_loss(STUDENT, TopKTeacher.from_scores(TEACHER, 3), CLIPPING, canonicalise=None),
            "canonicalise must not be None for a TopKTeacher",
        ),
        (lambda: forward_kl(STUDENT, TEACHER[..., :-1]), r"one shape, got \(3, 4, 20\) and \(3, 4, 19\)"),
        (lambda: forward_kl(STUDENT, TopKTeacher.from_scores(TEACHER[0], 3)), r"got \(3, 4, 20\) and \(4, 20\)"),
        (lambda: forward_kl(np.zeros((2, 0)), np.zeros((2, 0))), r"classes on the last axis, got shape \(2, 0\)"),
        (lambda: forward_kl(STUDENT, TEACHER, where=MASK[None]), r"shape of the rows \(3, 4\), got \(1, 3, 4\)"),
        (lambda: jensen_shannon(STUDENT, TEACHER, weight=1.5), "weight must be <= 1, got 1.5"),
        (lambda: forward_kl(STUDENT, TEACHER, reduction="batchmean"), "reduction must be 'mean'"),
        (lambda: fitted(TEACHER, share=1.0), "share must be < 1, got 1.0"),
        (lambda: fitted(TEACHER, where=np.zeros((3, 4), dtype=bool)), "at least one row that counts"),
        (lambda: fitted(TEACHER, sm.Step().affine(beta=-0.5)), r"share must be at least 0\.\d+ here, got 0.1"),
        (lambda: fitted(TopKTeacher.from_scores(TEACHER, 3), exact=True, where=~(MASK | ~MASK)), "row that counts"),
        (lambda: fitted(np.zeros((0, 5))), "at least one row that counts"),
        (lambda: fitted(np.zeros((3, 0))), r"classes on the last axis, got shape \(3, 0\)"),
        (lambda: clipped_share(CLIPPING, np.array(3.0)), r"classes on the last axis, got shape \(\)"),
        (lambda: fitted(np.log([[0.4, 0.3, 0.3]]), sm.SmeLU().affine(beta=math.log(0.4) + 1.0 - 1e-9)), "at least"),
        (lambda: fitted(TEACHER, sm.Step(), exact=True), "exact must be False for a scaling"),
        (lambda: fitted(TopKTeacher.from_scores(TEACHER, 1), exact=True), "lower cut-off, or store more classes"),
    ],
)  # fmt: skip
def test_wrong_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: distillation_loss(STUDENT, TEACHER, sm.MatchingLoss(sm.Exp())), r"Try CompositeSoftmax\(scaling\)"),
        (lambda: distillation_loss(STUDENT, TEACHER, "exp"), "loss must be a MatchingLoss, a potential or a curve"),
        (lambda: forward_kl(torch.zeros(2, 3), np.zeros((2, 3))), "student and teacher .* got PyTorch and NumPy"),
        (lambda: forward_kl(torch.zeros(2, 3), TopKTeacher.from_scores(np.zeros((2, 3)), 1)), "PyTorch and NumPy"),
        (
            lambda: forward_kl(torch.zeros(2, 3), torch.zeros(2, 3), where=np.array([True, False])),
            "student and where .* NumPy",
        ),
        (lambda: forward_kl(torch.zeros(2, 3).long(), torch.zeros(2, 3)), "student must be floating point"),
        (lambda: forward_kl(STUDENT, 3.0), "teacher must be an array of logits, got 3.0"),
        (lambda: forward_kl(np.ma.array(STUDENT), TEACHER), "student must be a plain array, got a masked one"),
        (lambda: forward_kl(STUDENT, "logits"), "teacher must be an array of logits, got str"),
        (lambda: forward_kl(STUDENT, TEACHER, where=MASK.astype(int)), "be boolean, got int64. Try mask != 0"),
        (lambda: fitted(TEACHER, CLIPPING), "scaling must be a curve"),
        (lambda: clipped_share(sm.CompositeSoftmax(rho=(1.0, 2.0)), TEACHER), "without rho and anchor"),
        (lambda: truncation_bound(CLIPPING, STUDENT, TEACHER), "teacher must be a TopKTeacher, got ndarray"),
    ],
)  # fmt: skip
def test_wrong_types(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_lists_and_whole_numbers_are_taken():
    masked = forward_kl(torch.zeros(2, 3), torch.arange(6.0).view(2, 3) ** 2, where=[True, False])
    assert masked == forward_kl(torch.zeros(1, 3), torch.tensor([[0.0, 1.0, 4.0]]))
    assert forward_kl([[1, 2]], [[2, 1]], where=[True]) == forward_kl(np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]]))


# ---------------------------------------------------------------------------------------- convex in the logits, or not


@pytest.mark.parametrize("loss", [CLIPPING, RISING], ids=["clipping", "rising"])
def test_linear_canonical_forms_are_convex_in_the_logits(loss):
    rng = np.random.default_rng(8)
    a, b = 4.0 * rng.normal(size=(2, 4000, 5))
    teacher = np.round(rng.normal(size=(4000, 5)))  # many rows have several best classes
    assert np.mean((teacher == teacher.max(-1, keepdims=True)).sum(-1) > 1) > 0.3
    for mode in ("teacher_maximum", None):
        losses = [
            distillation_loss(z, teacher, loss, canonicalise=mode, reduction="none") for z in (a, b, 0.5 * (a + b))
        ]
        assert (losses[2] <= 0.5 * (losses[0] + losses[1]) * (1.0 + 1e-12)).all(), mode


def test_log_probabilities_are_not():
    loss = sm.CompositeSoftmax(sm.Exp().affine(beta=-3.0), gamma=0.3)
    a, b, teacher = np.array([[-8.5, -5.5, -5.6], [-3.7, -3.6, -7.9], [-3.2, -0.7, -1.1]])
    values = [distillation_loss(z, teacher, loss) for z in (a, 0.5 * (a + b), b)]
    np.testing.assert_allclose(values, [0.077, 0.498, 0.056], atol=5e-4)


@pytest.mark.parametrize(
    "make", [np.asarray, torch.as_tensor, pytest.param(jnp.asarray, marks=pytest.mark.slow)], ids=LIBRARIES
)
def test_several_best_classes_share_their_level(make):
    teacher, student = np.array([[2.0, 2.0, -1.0]]), np.array([[3.0, 1.0, 0.0]])
    value = distillation_loss(make(student), make(teacher), RISING, canonicalise="teacher_maximum")
    assert_equal(value, RISING(student - 2.0, teacher - 2.0))
    assert distillation_loss(make(teacher + 7.0), make(teacher), RISING, canonicalise="teacher_maximum") < 1e-15


# ------------------------------------------------------------------------------------------ compiled for any shape


def centred(*pair, **options):
    return distillation_loss(*pair, RISING, canonicalise="teacher_maximum", **options)


def compiled_agrees(function, *more, stored=False, backend="aot_eager", **options):
    """In one graph and for two shapes; Python numbers among the arguments are symbols then."""
    torch.compiler.reset()
    compiled = torch.compile(function, dynamic=True, fullgraph=True, backend=backend)
    for rows, classes in ((3, 7), (5, 11)):
        student = torch.from_numpy(logits(rows, classes)).requires_grad_()
        teacher = torch.from_numpy(logits(rows, classes, seed=1))
        arguments = (student, TopKTeacher.from_scores(teacher, 4) if stored else teacher, *more)
        mask = torch.arange(rows) != 1
        slopes = [torch.autograd.grad(f(*arguments, where=mask, **options), student)[0] for f in (compiled, function)]
        assert_equal(*slopes)


def test_compiled_for_any_shape():
    compiled_agrees(distillation_loss, sm.MatchingLoss(sm.CompositeSoftmax()), backend="eager")


@pytest.mark.slow
@pytest.mark.parametrize("function", [*ROWS.values(), centred], ids=[*ROWS, "centred"])
def test_losses_are_compiled_for_any_shape_and_number(function):
    compiled_agrees(function, num_items=5.0, temperature=1.5)


@pytest.mark.slow
def test_stored_teachers_are_compiled_for_any_shape():
    compiled_agrees(distillation_loss, RISING)
    compiled_agrees(distillation_loss, RISING, stored=True)
