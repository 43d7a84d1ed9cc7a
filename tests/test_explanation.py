"""Explanations say what is true of the loss, for every loss."""

import math

import numpy as np
import pytest
import torch

import selmatch as sm
from conftest import LOSSES
from selmatch.explanation import finite_scores

DATA = np.random.default_rng(0).lognormal(0.0, 1.0, 500)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_explains_itself(loss):
    explanation = loss.explain()
    text = str(explanation)
    assert text.startswith(repr(loss))
    for word in ("Sensitivity", "Curvature: ", "Convex: Proved: ", "Elicits: ", "Finite: "):
        assert word in text
    assert "nan" not in text.replace("nan to nan", "")  # a jump has no finite slope anywhere
    assert repr(explanation) == text


@pytest.mark.parametrize("word", ["high", "low", "middle", "extremes"])
def test_a_wished_loss_remembers_its_data(word, tmp_path):
    loss = sm.focus(word, data=DATA)
    with_data, without = loss.explain(DATA), loss.explain()
    assert without.elicited == pytest.approx(with_data.elicited, rel=1e-12)
    assert without.mean == pytest.approx(float(DATA.mean()), rel=1e-12)
    assert without.curvature == pytest.approx(with_data.curvature, rel=1e-12)
    assert str(loss.wish) in str(without)
    loss.save(tmp_path / "loss.toml")
    assert str(sm.load(tmp_path / "loss.toml").explain()) == str(without)
    assert isinstance(with_data.certificate, sm.certify.Proved)


def test_the_elicited_value_is_where_training_should_start():
    loss = sm.MatchingLoss(sm.Exp().affine(alpha=0.5))
    weights = np.linspace(0.0, 1.0, len(DATA))
    explanation = loss.explain(DATA, weights=weights)
    assert explanation.elicited == pytest.approx(float(loss.minimiser(DATA, weights=weights)))
    assert explanation.mean == pytest.approx(np.average(DATA, weights=weights))
    gradient = loss.grad(np.full_like(DATA, explanation.elicited), DATA)
    assert np.average(gradient, weights=weights) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.vector], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_limits_are_the_limits(loss, dtype):
    """Just inside value and gradient are finite; well outside one of them is not."""
    limits = finite_scores(loss.potential, dtype)
    start = dtype(loss.potential.point())
    for end, side in ((limits.low, -1.0), (limits.high, 1.0)):
        domain_end = loss.potential.domain.low if side < 0 else loss.potential.domain.high
        if end == domain_end and math.isfinite(end):
            continue
        inside = dtype(side * np.finfo(dtype).max / 8 if math.isinf(end) else start + (end - start) * 0.99)
        with np.errstate(all="ignore"):
            value, gradient = loss.value_and_grad(np.array([inside]), np.array([start]))
            assert np.isfinite(value).all()
            assert np.isfinite(gradient).all()
            if math.isfinite(end):
                outside = np.array([dtype(start + (end - start) * 1.1)])
                assert not np.isfinite(loss.value_and_grad(outside, np.array([start]))).all()


@pytest.mark.parametrize(
    ("loss", "data", "words"),
    [
        (sm.Identity(), None, "squared error, halved."),
        (3.0 * sm.Identity(), None, "squared error, halved and multiplied"),
        (sm.Sinh(), np.linspace(-0.1, 0.1, 9), "squared error does the same"),
        (sm.Huber(c=1.0), np.linspace(-0.5, 0.9, 9), "squared error does the same"),
        (sm.Sigmoid().affine(alpha=2.0), None, "cross-entropy with the soft labels"),
        (sm.CompositeSoftmax(), None, "cross-entropy with soft labels"),
        (sm.Log(), None, "Poisson"),
        (
            sm.CompositeSigmoid(sm.Sigmoid().affine(2.0, 1.0, 2.0)),
            None,
            "MatchingLoss(Sigmoid().affine(alpha=2.0",
        ),
    ],
)
def test_simpler_losses_are_named(loss, data, words):
    assert words in sm.MatchingLoss(loss).explain(data).simpler


@pytest.mark.parametrize("loss", [sm.Sinh(), sm.Huber(c=1.0), sm.CompositeSoftmax(sm.Exp())])
def test_nothing_simpler_is_claimed_without_reason(loss):
    data = None if isinstance(loss, sm.CompositeSoftmax) else np.linspace(-3.0, 3.0, 9)
    assert sm.MatchingLoss(loss).explain(data).simpler == ""


def test_the_named_simpler_loss_is_the_same():
    """The composite Sigmoid of a sigmoid scaling, C40."""
    composite = sm.MatchingLoss(sm.CompositeSigmoid(sm.Sigmoid().affine(2.0, 1.0, 3.0), gamma=1.5))
    plain = eval(composite.explain().simpler.removeprefix("this composite Sigmoid is ").rstrip("."), vars(sm))
    s, s_hat = np.linspace(-3.0, 3.0, 7), np.linspace(2.0, -2.0, 7)
    np.testing.assert_allclose(plain.grad(s_hat, s), composite.grad(s_hat, s), rtol=1e-12)


def test_what_is_not_convex_says_so():
    text = str(sm.MatchingLoss(sm.CompositeSoftmax(sm.Cosh(), check=False)).explain())
    assert "check=False" in text
    assert "Convex: Refuted" in text


def test_bad_data_is_refused_in_words():
    with pytest.raises(ValueError, match="data must be finite numbers"):
        sm.MatchingLoss(sm.Sinh()).explain([1.0, math.nan])


@pytest.mark.parametrize("classes", [2, 5])
def test_class_biases_of_any_number_of_classes_are_explained(classes):
    potential = sm.CompositeSoftmax(sm.Exp(), rho=tuple(range(1, classes + 1)))
    found = sm.MatchingLoss(potential).explain()
    score, value = found.profile[-1]
    row = [score, *[found.profile[6][0]] * (classes - 1)]
    assert value == pytest.approx(potential.slope(np.array(row))[0])


@pytest.mark.parametrize(
    "data",
    [
        torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
        torch.tensor([1.0, 2.0], requires_grad=True),
        np.array([1, 2]),
    ],
    ids=str,
)
def test_data_of_every_library_are_explained(data):
    assert sm.MatchingLoss(sm.Exp()).explain(data).elicited == pytest.approx(
        sm.MatchingLoss(sm.Exp()).minimiser([1, 2])
    )


def test_weights_must_fit_the_data():
    with pytest.raises(ValueError, match="one for each of the 3 scores"):
        sm.MatchingLoss(sm.Exp()).explain([1.0, 2.0, 3.0], weights=[1.0, 1.0])


def test_what_has_no_single_elicited_value_says_so():
    rows = np.array([[0.0, 1.0], [2.0, 0.5]])
    assert "loss.minimiser(rows)" in str(sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp())).explain(rows))
    labels = sm.PerLabel({0.0: sm.Exp(), 1.0: sm.Identity()})
    assert "the links of all labels balance" in str(sm.MatchingLoss(labels).explain())


def test_flat_parts_have_no_sign_and_jumps_are_mentioned():
    found = str(sm.MatchingLoss(sm.Step()).explain())
    assert "  -0\n" not in found
    assert "The link jumps" in found


def test_the_poisson_deviance_is_named_the_right_way_round():
    s_hat, s = 3.0, 2.0
    swapped = s_hat * np.log(s_hat / s) - (s_hat - s)  # the prediction is the count
    assert sm.MatchingLoss(sm.Log())(s_hat, s) == pytest.approx(swapped)
    assert "the prediction as the count" in sm.MatchingLoss(sm.Log()).explain().simpler
    assert sm.MatchingLoss(sm.Log().affine(alpha=2.0)).explain().simpler.endswith("up to a constant factor.")
