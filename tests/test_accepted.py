"""What was looked at when a loss was made stays on it, and is said wherever its convexity is."""

import copy
import json
import pickle

import jax
import pytest
from typer.testing import CliRunner

import selmatch as sm
from selmatch import certify
from selmatch.cli.app import app

FALLS_FAR_OUT = "z - exp(z - 100)"
WINDOW = sm.Interval(-36.0, 36.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda q: sm.MatchingLoss(q),
        lambda q: sm.MatchingLoss(sm.Separable(q)),
        lambda q: sm.MatchingLoss(sm.CompositeSoftmax(q)),
        lambda q: sm.MatchingLoss(sm.CompositeSoftmax(q, anchor=0.0)),
        pytest.param(lambda q: sm.MatchingLoss(sm.CompositeSigmoid(q)), marks=pytest.mark.slow),
        lambda q: sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: q})),
    ],
    ids=["link", "Separable", "Softmax", "anchored", "Sigmoid", "PerLabel"],
)
def test_a_loss_of_a_formula_says_which_scores_were_looked_at(make):
    loss, same = make(sm.parse(FALLS_FAR_OUT)), make(sm.parse(FALLS_FAR_OUT))
    assert loss.certificate.domain == WINDOW
    assert "[-36, 36]" in str(loss.certificate)
    assert repr(WINDOW) in repr(loss.certificate)
    if not isinstance(loss.potential, sm.PerLabel):
        assert loss.certificate == certify.convex(loss, WINDOW) or loss.certificate.statement == "Q is convex"
    # what is kept changes nothing else
    assert "certificate" not in repr(loss)
    assert loss == same
    assert hash(loss) == hash(same)
    for again in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), jax.tree.map(lambda x: x, loss)):
        assert again == loss
        assert hash(again) == hash(loss)
        assert again.certificate == loss.certificate


def test_losses_of_known_curves_are_proved_everywhere_and_unchecked_ones_have_no_certificate():
    known = sm.MatchingLoss(0.1 * sm.Identity() + sm.Sinh().capped(-3.0, 3.0))
    assert known.certificate
    assert known.certificate.domain == sm.Interval()
    assert sm.MatchingLoss(sm.Cosh(), check=False).certificate is None
    assert sm.MatchingLoss(sm.CompositeSoftmax(sm.Cosh(), check=False)).certificate is None


def test_an_explanation_tells_what_was_accepted_from_what_is_true_everywhere():
    text = str(sm.MatchingLoss(sm.parse(FALLS_FAR_OUT)).explain())
    assert "Convex: Refuted: the loss is convex in the predicted scores on (-inf, inf)" in text
    assert "Accepted when it was made: Proved: the loss is convex in the predicted scores on [-36, 36]" in text
    assert "Accepted" not in str(sm.MatchingLoss(sm.Sinh()).explain())


def test_the_command_line_tells_both():
    found = CliRunner().invoke(app, ["check", FALLS_FAR_OUT])
    assert found.exit_code == 1
    assert "accepted all the same. Proved: the loss is convex in the predicted scores on [-36, 36]" in " ".join(
        found.stdout.split()
    )
    document = json.loads(CliRunner().invoke(app, ["check", FALLS_FAR_OUT, "--json"]).stdout)
    assert (document["verdict"], document["accepted"]["domain"]) == ("refuted", [-36.0, 36.0])
    explained = json.loads(CliRunner().invoke(app, ["explain", "z + tanh(20*(z - 0.3))", "--json"]).stdout)
    assert explained["accepted"]["domain"] == [None, None]
    assert [region["sensitivity"] for region in explained["narrow"]] == [pytest.approx(21.0)]
    for arguments in (["sinh(z)"], ["cos(z)"], [FALLS_FAR_OUT, "--domain", "-8", "8"]):
        assert "accepted" not in CliRunner().invoke(app, ["check", *arguments]).stdout


class OnlyNumbers(sm.Curve):
    def __call__(self, x):
        return x + float(x)


def test_a_certificate_of_labels_names_every_label():
    proved = certify.convex(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp(), 2.5: sm.Log()}))
    assert proved
    assert proved.domain == sm.Log().domain  # what the labels share
    for words in ("label 0: Identity never decreases on (-inf, inf)", "label 1: Exp", "label 2.5: Log"):
        assert words in str(proved)
    refuted = certify.convex(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.FromLink(lambda z: -z)}))
    assert isinstance(refuted, certify.Refuted)
    assert "label 1: h(-4) = 4 > h(-3) = 3" in str(refuted)
    assert not isinstance(refuted, certify.Proved)
    open_ = certify.convex(sm.PerLabel({0.0: sm.Exp(), 1.0: OnlyNumbers()}))
    assert isinstance(open_, certify.Undecided)
    assert "label 1: " in open_.remains
