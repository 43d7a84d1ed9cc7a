import numpy as np
import pytest
import torch

import selmatch as sm
from selmatch.sparse_teachers import TopKTeacher, exact_below

CLIPPING = sm.CompositeSoftmax(sm.SmeLU(c=2.0).affine(beta=-4.0), gamma=0.5)


def scores(rows=3, classes=4000, seed=0):
    return 2.0 * np.random.default_rng(seed).normal(size=(rows, classes))


def log_softmax(z):
    return torch.from_numpy(z).log_softmax(-1).numpy()


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_teacher_keeps_its_best_classes(make):
    z = scores()
    teacher = TopKTeacher.from_scores(make(z), k=8)
    expected = np.sort(np.argsort(-z, axis=-1)[:, :8], axis=-1)
    np.testing.assert_array_equal(np.asarray(teacher.indices), expected)
    known = np.take_along_axis(log_softmax(z), expected, axis=-1)
    np.testing.assert_allclose(np.asarray(teacher.log_probabilities), known, rtol=1e-12)
    assert teacher.k == 8
    assert teacher.classes == 4000


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_dense_log_probabilities_sum_to_one(make):
    teacher = TopKTeacher.from_scores(make(scores()), k=8)
    dense = np.asarray(teacher.dense())
    np.testing.assert_allclose(np.exp(dense).sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(np.take_along_axis(dense, np.asarray(teacher.indices), -1), teacher.log_probabilities)


def test_losses_are_exact_where_the_scaling_clips_what_is_not_stored():
    z, student = scores(), log_softmax(scores(seed=1))
    teacher = TopKTeacher.from_scores(z, k=300)
    loss = sm.MatchingLoss(CLIPPING)
    assert teacher.is_exact(loss).all()
    full = log_softmax(z)
    np.testing.assert_allclose(
        loss(student, teacher.dense(), reduction="none"), loss(student, full, reduction="none"), rtol=1e-10
    )
    np.testing.assert_allclose(loss.grad(student, teacher.dense()), loss.grad(student, full), rtol=1e-9, atol=1e-15)


def test_losses_are_approximate_otherwise():
    teacher = TopKTeacher.from_scores(scores(), k=2)
    assert not teacher.is_exact(CLIPPING).any()
    assert not teacher.is_exact(sm.Exp()).any()
    assert TopKTeacher.from_scores(scores(classes=5), k=5).is_exact(sm.Exp()).all()


def test_the_cut_off_of_a_scaling():
    assert exact_below(sm.MatchingLoss(CLIPPING)) == -6.0
    assert exact_below(sm.Step()) == 0.0
    assert exact_below(sm.ReLU().affine(alpha=2.0, beta=-3.0)) == -3.0
    for scaling in (sm.Exp(), sm.Sinh(), sm.Constant(), sm.Exp().capped(low=-3.0)):
        assert exact_below(scaling) is None
    with pytest.raises(TypeError, match="composite Softmax loss or a scaling, got Separable"):
        exact_below(sm.Separable(sm.Exp()))


def test_the_tail_is_finite_where_nothing_is_left():
    teacher = TopKTeacher.from_scores(torch.tensor([[80.0, 0.0, 0.0, 0.0]]), k=1)
    assert teacher.tail.item() == pytest.approx(np.log(1e-7 / 3), rel=1e-6)
    assert TopKTeacher.from_scores(torch.zeros(1, 4), k=4).tail.isfinite().all()


def test_half_precision_is_summed_in_single_precision(monkeypatch):
    monkeypatch.setattr("selmatch.sparse_teachers._CHUNK", 5000)
    z = torch.from_numpy(scores(rows=6)).reshape(2, 3, -1).bfloat16()
    teacher = TopKTeacher.from_scores(z, k=4)
    assert teacher.scores.dtype == teacher.dense().dtype == torch.float32
    same = TopKTeacher.from_scores(z.float(), k=4)
    assert torch.equal(teacher.ceiling, same.ceiling)  # nothing was rounded after the log-sum-exp
    torch.testing.assert_close(teacher.log_sum_exp, z.float().logsumexp(-1))
    assert repr(teacher) == "TopKTeacher(4 of 4000 classes, rows (2, 3))"


def test_classes_are_put_in_order_and_constants():
    z = torch.tensor([[3.0, 1.0]], requires_grad=True)
    teacher = TopKTeacher(torch.tensor([[7, 2]]), z, torch.tensor([4.0]), 9)
    assert teacher.indices.tolist() == [[2, 7]]
    assert teacher.scores.tolist() == [[1.0, 3.0]]
    assert not teacher.dense().requires_grad
    assert teacher.to("cpu").indices.tolist() == [[2, 7]]


def of(indices=((0, 1),), values=((1.0, 0.5),), level=(2.0,), classes=5):
    return TopKTeacher(np.array(indices), np.array(values), np.array(level), classes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": ((1.0, 2.0, 3.0),)}, r"scores must have shape \(1, 2\)"),
        ({"level": (2.0, 3.0)}, r"log_sum_exp must have shape \(1,\)"),
        ({"indices": ((0, 5),)}, "indices must be from 0 to 4, got 5"),
        ({"indices": ((-1, 2),)}, "indices must be from 0 to 4, got -1"),
        ({"indices": ((3, 3),)}, "must differ within a row, got 3 twice"),
        ({"classes": 1}, "classes must be a whole number >= 2"),
        ({"classes": 5.0}, "classes must be a whole number >= 2"),
    ],
)
def test_wrong_numbers(arguments, message):
    with pytest.raises(ValueError, match=f"TopKTeacher: .*{message}"):
        of(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: of(indices=((0.0, 1.0),)), "indices must be int32 or int64, got float64"),
        (lambda: of(values=((1, 2),)), "scores must be floating-point"),
        (
            lambda: TopKTeacher(torch.zeros(1, 1).long(), np.zeros((1, 1)), np.zeros(1), 3),
            "all be tensors or all NumPy",
        ),
        (lambda: TopKTeacher.from_scores([[1.0, 2.0]], 1), "must be a tensor or a NumPy array, got list"),
        (lambda: of().to("cpu"), "is for tensors"),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(TypeError, match=f"TopKTeacher: .*{message}"):
        make()


@pytest.mark.parametrize("k", [0, 6, 1.5, True])
def test_wrong_k(k):
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 5"):
        TopKTeacher.from_scores(np.zeros((2, 5)), k)


@pytest.mark.parametrize(
    ("z", "k"),
    [
        ([[0.0, -25.0, -60.0]], 2),  # what is left is less than a log-sum-exp can tell
        ([[0.0, -27.0, -28.0]], 1),  # what is left, together, lies below the cut-off
    ],
)
def test_classes_left_out_never_exceed_the_ceiling(z, k):
    scaling = sm.SmeLU(c=1.0).affine(beta=-19.0)  # 0 below -20
    teacher = TopKTeacher.from_scores(np.array(z), k)
    assert (teacher.tail <= teacher.ceiling).all()
    assert teacher.is_exact(scaling).all()
    loss, student = sm.MatchingLoss(sm.CompositeSoftmax(scaling)), log_softmax(np.array([[0.0, -3.0, -1.0]]))
    full = loss(student, log_softmax(np.array(z)))
    assert loss(student, teacher.dense()) == pytest.approx(full, rel=1e-12)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_the_ceiling_of_the_classes_left_out(make):
    p = np.array([[0.9, 0.06, 0.04], [0.5, 0.3, 0.2]])
    teacher = TopKTeacher.from_scores(make(np.log(p)), k=1)
    np.testing.assert_allclose(np.exp(np.asarray(teacher.ceiling)), [0.1, 0.5], rtol=1e-9)  # all that is left; the best
    assert np.asarray(teacher.is_exact(sm.Step().affine(beta=np.log(0.11)))).tolist() == [True, False]


def test_the_ceiling_allows_for_the_rounding_of_what_is_stored():
    z = torch.tensor([[100.0, 90.0, 80.0]])
    teacher = TopKTeacher.from_scores(z.bfloat16(), k=1)
    assert teacher.ceiling[0] >= z.log_softmax(-1)[0, 1]


def test_no_gradient_flows_to_the_teacher():
    logits = torch.randn(3, 20, generator=torch.manual_seed(0), requires_grad=True)
    best, indices = logits.topk(4)
    teacher = TopKTeacher(indices, best, logits.logsumexp(-1), 20)
    assert not any(z.requires_grad for z in (teacher.log_probabilities, teacher.tail, teacher.log_sum_exp))


def test_the_ceiling_allows_for_rounding_of_the_least_stored_score():
    for seed in range(50):
        scores = torch.randn(1, 200, generator=torch.manual_seed(seed))
        scores = torch.cat((scores, scores.sort().values[:, -40:-30]), dim=-1)  # ties
        teacher = TopKTeacher.from_scores(scores, 30)
        left_out = torch.ones_like(scores, dtype=torch.bool).scatter(-1, teacher.indices, False)
        exact = scores.double().log_softmax(-1)[left_out]
        assert exact.max() <= teacher.ceiling.item()


# ------------------------------------------------------------------------------------------------- rows, and batches

ROWS = (3, -1, slice(1, 4), slice(None, None, 2), [4, 0], ([0, 2],), None)
KEYS = (*ROWS, (2, 1), (slice(None), -1), (..., 0), (0, [1, 1]))


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_teacher_has_the_length_and_the_indices_of_its_rows(make):
    z = scores(rows=24, classes=30).reshape(6, 4, 30)
    teacher = TopKTeacher.from_scores(make(z), k=5)
    rows = np.arange(24).reshape(6, 4)
    masks = [make(rows[:, 0] % 8 == 0), make(rows % 3 == 0), make(np.array([5, 1]))]
    for key in (*KEYS, *masks):
        some = teacher[key]
        picked = rows[np.asarray(key) if any(key is mask for mask in masks) else key]
        assert some == TopKTeacher.from_scores(make(z.reshape(24, 30)[picked]), k=5), key
        np.testing.assert_array_equal(some.dense(), np.asarray(teacher.dense()).reshape(24, 30)[picked])
        np.testing.assert_array_equal(some.ceiling, np.asarray(teacher.ceiling).reshape(24)[picked])
    assert len(teacher) == len(list(teacher)) == 6
    assert sum(len(part) for part in teacher) == 24
    with pytest.raises(IndexError):
        teacher[0, 0, 0]  # classes are not rows
    with pytest.raises(TypeError, match="TopKTeacher: rows must have an axis to be counted, got a single row"):
        len(teacher[0, 0])


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_teachers_are_equal_if_they_store_the_same(make):
    z = scores(classes=30)
    teacher = TopKTeacher.from_scores(make(z), k=5)
    assert teacher == TopKTeacher.from_scores(make(z.copy()), k=5) == teacher[:]
    for other in (
        TopKTeacher.from_scores(make(z), k=4),
        TopKTeacher.from_scores(make(z + 1.0), k=5),
        TopKTeacher.from_scores(make(z.astype(np.float32)), k=5),
        TopKTeacher(teacher.indices, teacher.scores, teacher.log_sum_exp, classes=31),
        TopKTeacher.from_scores((torch.from_numpy if make is np.asarray else np.asarray)(z), k=5),
        teacher[:2],
        "teacher",
    ):
        assert teacher != other


def rows_of(teacher):
    return [{"row": i, "teacher": row} for i, row in enumerate(teacher)]


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_loaders_put_rows_together(make):
    z = scores(rows=20, classes=30).reshape(5, 4, 30)
    teacher = TopKTeacher.from_scores(make(z), 5)
    loader = torch.utils.data.DataLoader(rows_of(teacher), 2)
    expected = TopKTeacher(*map(torch.as_tensor, (teacher.indices, teacher.scores, teacher.log_sum_exp)), classes=30)
    for batch in loader:
        assert batch["teacher"] == expected[batch["row"]]


@pytest.mark.slow
def test_fresh_processes_know_how_to_put_rows_together():
    teacher = TopKTeacher.from_scores(torch.from_numpy(scores(rows=4, classes=30)), 5)
    loader = torch.utils.data.DataLoader(rows_of(teacher), 2, num_workers=1, multiprocessing_context="spawn")
    assert [batch["teacher"] for batch in loader] == [teacher[:2], teacher[2:]]


def test_rows_of_different_shapes_make_no_batch():
    z = torch.from_numpy(scores(rows=4, classes=30))
    short, long = TopKTeacher.from_scores(z[:2], 5), TopKTeacher.from_scores(z, 5)
    message = r"TopKTeacher: teachers of a batch must have one shape, got 5 of 30 classes, rows \(2,\) and 5 of 30"
    with pytest.raises(ValueError, match=message):
        torch.utils.data.default_collate([short, long])


def test_what_moves_are_tensors():
    teacher = TopKTeacher.from_scores(torch.from_numpy(scores(classes=30)), 5)
    assert teacher.to("cpu", non_blocking=True) == teacher
    stored = TopKTeacher.from_scores(scores(classes=30), 5)
    with pytest.raises(TypeError, match=r"TopKTeacher: pin_memory\(\) is for tensors, got NumPy arrays"):
        stored.pin_memory()
    if torch.cuda.is_available():
        pinned = teacher.pin_memory()
        assert pinned == teacher
        assert pinned.scores.is_pinned()
        assert pinned.to("cuda", non_blocking=True).to("cpu") == teacher
