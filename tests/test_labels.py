"""Labels for losses of many classes: class indices and shares, against 50 digits, PyTorch and advice in errors."""

import re

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch

import selmatch as sm

#: potentials with q, Q and gamma in mpmath, and a score for labelled classes
POTENTIALS = {
    "softmax": (sm.CompositeSoftmax(), lambda x: 1, lambda x: x, 0.0),
    "constant": (sm.CompositeSoftmax(sm.Constant(2.0), gamma=0.5), lambda x: 2, lambda x: 2 * x, 0.0),
    "exp": (sm.CompositeSoftmax(sm.Exp(), gamma=0.3), mpmath.exp, mpmath.exp, 0.0),
    "sinh": (sm.CompositeSoftmax(sm.Sinh()), mpmath.sinh, mpmath.cosh, 1.5),
    "sigmoid": (
        sm.CompositeSoftmax(sm.Sigmoid(), gamma=2.0),
        lambda x: 1 / (1 + mpmath.exp(-x)),
        lambda x: mpmath.log1p(mpmath.exp(x)),
        -1.0,
    ),
}
SOFTMAX = sm.MatchingLoss(sm.CompositeSoftmax())
CURVED = sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.3), gamma=0.7))
LABELS = np.array([0, 3, -100, 1, 2, 2])


def scores(spread=3.0, seed=0, rows=6, classes=4):
    return spread * np.random.default_rng(seed).normal(size=(rows, classes))


def exact_loss(name, s_hat, shares):
    """H(s_hat) - Q(tau) - sum_k y_k (s_hat_k - tau) q(tau), with 60 digits."""
    potential, q, Q, score = POTENTIALS[name]
    with mpmath.workdps(60):
        gamma, tau = mpmath.mpf(potential.gamma), mpmath.mpf(score)
        H = gamma * mpmath.log(mpmath.fsum(mpmath.exp(Q(mpmath.mpf(x)) / gamma) for x in s_hat))
        line = mpmath.fsum(y * (mpmath.mpf(x) - tau) * q(tau) for x, y in zip(s_hat, shares, strict=True))
        return float(H - Q(tau) - line)


@pytest.mark.parametrize("array", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", POTENTIALS)
def test_labels_have_the_loss_of_a_teacher_who_is_certain(name, array):
    potential, _, _, score = POTENTIALS[name]
    loss, s_hat = sm.MatchingLoss(potential), scores()
    s_hat[0, 0] += 9.0  # nearly right: no digits are lost
    labels = np.array([0, 3, 0, 1, 2, 2])
    for shares in (np.eye(4)[labels], 0.8 * np.eye(4)[labels] + 0.05):
        exact = [exact_loss(name, *rows) for rows in zip(s_hat, shares, strict=True)]
        value = loss.label_loss(array(s_hat), array(shares), score=score, reduction="none")
        np.testing.assert_allclose(np.asarray(value), exact, rtol=1e-12)
    one_hot = loss.label_loss(s_hat, np.eye(4)[labels], score=score, reduction="none")
    np.testing.assert_array_equal(loss.label_loss(s_hat, labels, score=score, reduction="none"), one_hot)
    np.testing.assert_array_equal(
        loss.label_loss(s_hat, np.eye(4, dtype=int)[labels], score=score, reduction="none"), one_hot
    )


@pytest.mark.parametrize("name", POTENTIALS)
def test_gradients_of_labels_pull_links_towards_shares(name):
    potential, _, _, score = POTENTIALS[name]
    loss, s_hat = sm.MatchingLoss(potential), scores(spread=2.0)
    s_hat[0] = [12.0, -9.0, -3.0, 0.0] if name in ("softmax", "constant", "sigmoid") else s_hat[0]
    shares = np.eye(4)[np.maximum(LABELS, 0)]
    pull = potential.link(s_hat) - float(potential.scaling(np.asarray(score))) * shares
    expected = pull * (LABELS != -100)[:, None]

    def total(z, labels):
        return loss.label_loss(z, labels, score=score, reduction="sum")

    z = torch.tensor(s_hat, requires_grad=True)
    total(z, torch.tensor(LABELS)).backward()
    np.testing.assert_allclose(z.grad, expected, rtol=1e-10, atol=1e-13)
    if name == "exp":
        value, slopes = jax.jit(jax.value_and_grad(total))(jnp.asarray(s_hat), LABELS)
        np.testing.assert_allclose(value, total(s_hat, LABELS), rtol=1e-13)
        np.testing.assert_allclose(slopes, expected, rtol=1e-10, atol=1e-13)


def test_the_standard_softmax_gives_pytorchs_cross_entropy():
    s_hat, labels = torch.from_numpy(scores()), torch.from_numpy(LABELS)
    module = sm.torch.MatchingLoss(sm.CompositeSoftmax())
    cross_entropy = torch.nn.functional.cross_entropy
    for reduction in ("mean", "sum", "none"):
        expected = cross_entropy(s_hat, labels, reduction=reduction)
        torch.testing.assert_close(module.label_loss(s_hat, labels, reduction=reduction), expected)
        torch.testing.assert_close(SOFTMAX.label_loss(s_hat, labels, reduction=reduction), expected)
    shares = torch.softmax(torch.from_numpy(scores(seed=1)), -1)
    torch.testing.assert_close(module.label_loss(s_hat, shares), cross_entropy(s_hat, shares))
    images, pixels = torch.from_numpy(scores(rows=10)).reshape(2, 4, 5), torch.arange(10).reshape(2, 5) % 4
    moved = sm.torch.MatchingLoss(sm.CompositeSoftmax(), dim=1)
    torch.testing.assert_close(moved.label_loss(images, pixels), cross_entropy(images, pixels))
    soft = torch.softmax(images, dim=1)
    torch.testing.assert_close(moved.label_loss(images, soft), cross_entropy(images, soft))
    other = module.label_loss(s_hat, torch.where(labels == -100, 7 - 10, labels), ignore_index=-3)
    torch.testing.assert_close(other, cross_entropy(s_hat, labels))


def test_labels_are_the_limit_of_teachers_who_become_certain():
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sigmoid().affine(beta=-2.0), gamma=0.5))
    student = scores()
    labels = np.array([0, 3, 1, 1, 2, 2])
    log_p = student - np.log(np.exp(student).sum(-1, keepdims=True))
    limit = sm.MatchingLoss(sm.CompositeSoftmax(sm.Constant(1.0), gamma=0.5))
    for each in (limit, SOFTMAX):
        teacher = np.where(np.eye(4)[labels] == 1.0, 0.0, -80.0)
        expected = sm.distillation.distillation_loss(student, teacher, each, reduction="none")
        np.testing.assert_allclose(each.label_loss(log_p, labels, reduction="none"), expected, rtol=1e-12)
    assert (loss.label_loss(log_p, labels, reduction="none") > 0.0).all()
    module = sm.torch.MatchingLoss(loss, canonicalise=True)
    value = module.label_loss(torch.from_numpy(student), torch.from_numpy(labels))
    np.testing.assert_allclose(value, loss.label_loss(log_p, labels), rtol=1e-13)


@pytest.mark.parametrize("canonicalise", [False, True])
def test_rows_that_do_not_count_may_hold_anything(canonicalise):
    s_hat, labels = scores(), torch.from_numpy(LABELS)
    dirty = s_hat.copy()
    dirty[2], dirty[4] = np.nan, np.inf
    where = torch.tensor([True, True, True, True, False, True])
    module = sm.torch.MatchingLoss(CURVED, canonicalise=canonicalise)
    z = torch.tensor(dirty, requires_grad=True)
    weights = torch.arange(1.0, 7.0, dtype=torch.float64)
    value = module.label_loss(z, labels, where=where, weights=weights)
    value.backward()
    kept = [0, 1, 3, 5]
    clean = torch.tensor(s_hat[kept])
    torch.testing.assert_close(value, module.label_loss(clean, labels[kept], weights=weights[kept]))
    assert torch.isfinite(z.grad).all()
    assert not z.grad[[2, 4]].any()
    masked = module.label_loss(z, labels, where=where[:, None], weights=weights)
    torch.testing.assert_close(masked, value)
    nothing = module.label_loss(z, torch.full((6,), -100))
    assert nothing == 0.0
    if not canonicalise:  # NumPy and JAX
        own = CURVED.label_loss(dirty, LABELS, where=where.numpy(), weights=weights.numpy())
        np.testing.assert_allclose(own, value.item(), rtol=1e-13)
        shared = jax.jit(lambda z: CURVED.label_loss(z, LABELS, where=where.numpy(), weights=weights.numpy()))
        np.testing.assert_allclose(shared(dirty), value.item(), rtol=1e-13)


def test_halves_and_parts_of_a_batch():
    s_hat, labels = torch.from_numpy(scores()), torch.from_numpy(LABELS)
    module = sm.torch.MatchingLoss(CURVED)
    half = module.label_loss(s_hat.bfloat16(), labels, reduction="none")
    assert half.dtype == torch.bfloat16
    assert module.label_loss(s_hat.bfloat16(), labels).dtype == torch.float32
    whole = module.label_loss(s_hat, labels)
    parts = [module.label_loss(s_hat[part], labels[part], num_items=5) for part in (slice(0, 2), slice(2, 6))]
    torch.testing.assert_close(sum(parts), whole)


def test_labels_of_separable_links_are_link_values():
    loss = sm.MatchingLoss(sm.Separable(sm.Sigmoid()))
    s_hat, labels = torch.from_numpy(scores()), torch.tensor([0, 3, 1, 1, 2, 2])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        s_hat, torch.nn.functional.one_hot(labels, 4).double(), reduction="none"
    )
    torch.testing.assert_close(loss.label_loss(s_hat, labels, reduction="none"), expected.sum(-1))


@pytest.mark.slow
def test_labels_are_compiled():
    module = sm.torch.MatchingLoss(sm.CompositeSoftmax())
    compiled = torch.compile(module.label_loss, fullgraph=True, backend="aot_eager", dynamic=True)
    s_hat, labels = torch.from_numpy(scores()).requires_grad_(), torch.from_numpy(LABELS)
    torch.testing.assert_close(compiled(s_hat, labels), module.label_loss(s_hat, labels))
    torch.testing.assert_close(compiled(s_hat[:4], labels[:4]), module.label_loss(s_hat[:4], labels[:4]))


ONES = np.ones((4, 3))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 3, 1], "labels must be classes from 0 to 2, or -100 for rows that do not count, got 3 at index 2"),
        ([0.0, 1.0, 0.5, 1.0], "labels must be classes from 0 to 2, or -100 for rows that do not count, got 0.5"),
        ([0, 1], r"labels must have shape \(4,\) \(class indices\) or \(4, 3\) \(shares of the classes\), got \(2,\)"),
        (ONES, r"labels must be shares >= 0 that sum to 1 over the classes present, got 1.0 at index \(0, 0\)"),
        (-ONES, "labels must be shares >= 0"),
    ],
)
def test_wrong_labels(labels, message):
    with pytest.raises(ValueError, match=f"MatchingLoss.label_loss: {message}"):
        SOFTMAX.label_loss(ONES, labels)
    if np.ndim(labels) == 2 or (np.shape(labels) == (4,) and isinstance(labels[0], int)):
        assert SOFTMAX.label_loss(torch.from_numpy(ONES), torch.as_tensor(labels)).isnan()


def test_labels_need_many_classes_and_a_scaling_that_rises_there():
    with pytest.raises(TypeError, match=r"MatchingLoss.label_loss: the potential must be one of many classes"):
        sm.MatchingLoss(sm.Exp()).label_loss([1.0], [0])
    with pytest.raises(TypeError, match=r"MatchingLoss.label_loss: the loss must be a MatchingLoss of many classes"):
        sm.torch.MatchingLoss(sm.Exp()).label_loss(torch.ones(2, 1), torch.tensor([0, 0]))
    flat = sm.CompositeSoftmax(sm.Sinh())
    for loss, make in ((sm.MatchingLoss(flat), np.asarray), (sm.torch.MatchingLoss(flat), torch.as_tensor)):
        with pytest.raises(
            ValueError, match=r"score must be where the scaling is > 0, got q\(0\) = 0 .* Try score=1\."
        ):
            loss.label_loss(make(ONES), make([0, 1, 2, 1]))


# -------------------------------------------------------------------------------------------- advice, taken literally

VECTORS = (
    sm.CompositeSoftmax(), sm.CompositeSoftmax(sm.Constant(2.0)), sm.CompositeSoftmax(anchor=0.5),
    sm.CompositeSoftmax(rho=(1.0, 2.0, 3.0)), sm.CompositeSoftmax(sm.Exp()), sm.CompositeSoftmax(sm.Sinh()),
    sm.CompositeSoftmax(sm.Sinh().affine(beta=4.0)), sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-3.0)),
    sm.CompositeSoftmax(sm.Step().affine(beta=2.0)), sm.CompositeSoftmax(sm.Log()), sm.Separable(sm.Sigmoid()),
    sm.Separable(sm.Sinh()), sm.Separable(sm.Tanh()),
)  # fmt: skip


@pytest.mark.parametrize(
    ("potential", "make"),
    [*((each, make) for make in (np.asarray, torch.as_tensor) for each in VECTORS)]
    + [pytest.param(each, jnp.asarray, marks=pytest.mark.slow) for each in VECTORS[::4]],
)
def test_the_advice_for_class_indices_works(potential, make):
    """Whatever call is refused and whatever the labels look like: what the message names runs, as it stands."""
    scores, indices = make(ONES), make(np.array([0, 2, 1, 1]))
    loss = sm.MatchingLoss(potential)
    refused = [lambda: loss(scores, indices), lambda: loss.fenchel_young(scores, indices)]
    if isinstance(scores, torch.Tensor):
        refused.append(lambda: sm.torch.MatchingLoss(potential)(scores, indices))
    if isinstance(scores, jax.Array):
        refused.append(lambda: sm.jax.matching_loss(scores, indices, loss))
    for call in refused:
        with pytest.raises(ValueError, match="For class indices or one-hot rows: ") as refusal:
            call()
        advised = re.search(r"one-hot rows: (.*)\.$", str(refusal.value))[1]
        rows = np.eye(3)[[0, 2, 1, 1]]
        for labels in (indices, indices * 1.0, make(rows), make(rows.astype(int)), make(rows.astype(bool))):
            known = {"loss": loss, "MatchingLoss": sm.MatchingLoss, "potential": potential}
            value = float(eval(advised, known, {"s_hat": scores, "labels": labels}))
            assert 0.0 < value < np.inf


def test_the_advice_for_comparisons():
    potential = sm.CompositeSoftmax(sm.Exp())
    with pytest.raises(ValueError, match=r"one-hot rows: MatchingLoss\(potential\).label_loss\(s_hat, labels\)\.$"):
        sm.CrossEntropy(potential)(ONES, [0, 2, 1, 1])
    falling = sm.MatchingLoss(sm.CompositeSoftmax(sm.AntiExp()))  # nothing rises with its score
    with pytest.raises(ValueError, match=r"looks like class indices. Give scores\.$"):
        falling(ONES, [0, 2, 1, 1])
