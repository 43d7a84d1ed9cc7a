"""The paper's underspecification example on the linear model: a loss decides which of two features a model believes."""

import numpy as np
import pytest
from golden_rows import link_of, name_case, read

import selmatch as sm
from selmatch.sklearn import SelectiveLinearModel

CASES = read("underspecification")["cases"]


def examples(case):
    """Low labels are the second feature, high labels the first; the other feature says nothing."""
    low, high = (range(case[name][0], case[name][1] + 1) for name in ("low", "high"))
    rows = [(v, s, s) for s in low for v in case["other"]] + [(s, v, s) for s in high for v in case["other"]]
    assert len(rows) == case["n"]
    features = np.array(rows, dtype=float)
    return features[:, :2], features[:, 2]


def fitted(case, loss):
    X, y = examples(case)
    return SelectiveLinearModel(loss, alpha=0.0, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['name']} {name_case(case['link'], case)}")
def test_the_optimal_weights_are_found_to_all_digits(case):
    model = fitted(case, link_of(case))
    X, y = examples(case)
    np.testing.assert_allclose(model.coef_, np.array(case["w"], dtype=float), rtol=0, atol=1e-13)
    np.testing.assert_allclose(model.loss_(model.predict(X), y), float(case["mean_loss"]), rtol=1e-12)


def test_a_shifted_sigmoid_merges_the_pairs_of_equal_labels_where_it_looks():
    case = CASES[0]
    X, y = examples(case)
    for beta, looked_at in ((8.0, y > 0), (-6.0, y < 0)):
        scores = fitted(case, sm.Sigmoid().affine(alpha=2.0, beta=beta)).predict(X)
        error = np.abs(scores - y)
        apart = np.abs(scores[::2] - scores[1::2])  # two examples for each label
        assert error[looked_at].max() < 0.01 < 1.0 < error[~looked_at].min()
        assert apart[looked_at[::2]].max() < 0.01 < 1.0 < apart[~looked_at[::2]].min()


def test_classes_have_their_own_underspecification():
    """Composite Softmax on the scores X W: high scores are right, at the expense of low ones."""
    X, y = examples(CASES[0])
    scores = np.column_stack([y, -y])
    loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sigmoid().affine(alpha=2.0, beta=8.0)))
    model = SelectiveLinearModel(loss, alpha=1e-9, fit_intercept=False).fit(X, scores)
    error = np.abs(model.predict(X) - scores)
    assert model.coef_.shape == (2, 2)
    assert error[scores > 5].max() < 0.1 * error[np.abs(scores) < 5].max()
