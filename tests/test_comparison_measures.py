"""Measures of a comparison: exact values, paired resamples, lists."""

import dataclasses
import math
import sys

import numpy as np
import pytest
from scipy.stats import spearmanr

import selmatch as sm
from selmatch.comparison import bootstrap, result
from selmatch.comparison.measures import KINDS, RATIOS, measures_for
from selmatch.comparison.order_measures import Ranking, depth
from selmatch.comparison.question import Question
from selmatch.comparison.ranking_measures import LIST_MEASURES, Lists
from selmatch.comparison.result import CONTROL, SELECTIVE, Contender, Region
from selmatch.sklearn import d2_matching_score

HIGH = Region(((2.0, math.inf),), "from 2 up", 0)
QUESTION = Question("y", {"word": "high", "top": 0.1}, resamples=40, seed=3)


def rows_of(observed, predicted, splits=1, **more):
    observed = np.asarray(observed, dtype=float)
    rows = np.arange(len(observed))
    predicted = {name: np.asarray(values, dtype=float) for name, values in predicted.items()}
    return result.Tested(observed, predicted, rows % splits, rows, **more)


def scores_of(tested, *, loss=None, region=HIGH, question=QUESTION, ordinal=()):
    contenders = tuple(
        Contender(name, name, name, trained=name != CONTROL, ordinal=name in ordinal) for name in tested.predicted
    )
    measures = measures_for(tested, question, tested.group is not None)
    loss = sm.MatchingLoss(sm.Identity()) if loss is None else loss
    return bootstrap.scores(tested, loss, region, contenders, measures, question)


def values_of(tested, name=SELECTIVE, **more):
    return {measure: score.estimate.value for measure, score in scores_of(tested, **more)[name].items()}


@pytest.fixture(scope="module")
def noisy():
    """Rows with ties, whose predictions are partly in the region, from two contenders."""
    random = np.random.default_rng(1)
    observed = np.round(random.exponential(1.2, 80), 1)
    predicted = {
        SELECTIVE: np.round(observed + random.normal(0.3, 0.8, 80), 1),
        "squared": np.round(0.6 * observed + random.normal(0.3, 0.6, 80), 2),
    }
    return rows_of(observed, predicted, splits=4)


# --------------------------------------------------------------------------------------------------------- exact values


def test_every_measure_on_a_few_rows():
    tested = rows_of([0.0, 1.0, 2.0, 3.0, 5.0], {SELECTIVE: [1.0, 2.0, 1.0, 2.5, 4.0]})
    values = values_of(tested)
    assert values["loss"] == pytest.approx(0.5 * (1 + 1 + 1 + 0.25 + 1) / 5)
    assert values["explained"] == pytest.approx(1 - 4.25 / np.sum((tested.observed - 2.2) ** 2))
    assert values["mae_observed"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert values["bias_observed"] == pytest.approx(-2.5 / 3)
    assert values["mae"] == pytest.approx(4.5 / 5)
    assert values["mae_predicted"] == pytest.approx((1 + 0.5 + 1) / 3)  # rows 1, 3, 4
    assert values["bias_predicted"] == pytest.approx((1 - 0.5 - 1) / 3)
    assert values["bias"] == values["link_bias"] == pytest.approx(-0.5 / 5)
    assert values["link_bias_predicted"] == pytest.approx(-0.5 / 3)
    assert values["precision"] == pytest.approx(2 / 3)  # rows 4, 3, 1
    assert values["capture"] == pytest.approx(2 / 3)
    assert values["false_high"] == pytest.approx(1 / 2)
    assert values["rank_correlation"] == pytest.approx(1.0)


def test_biases_in_link_space_are_those_of_the_link():
    tested = rows_of([0.0, 2.5, 2.0], {SELECTIVE: [1.0, 3.0, 0.0]})
    values = values_of(tested, loss=sm.MatchingLoss(sm.Exp()))
    moves = np.exp([1.0, 3.0, 0.0]) - np.exp([0.0, 2.5, 2.0])
    assert values["link_bias"] == pytest.approx(moves.mean())
    assert values["link_bias_predicted"] == pytest.approx(moves[1])


def test_explained_is_the_d2_of_scikit_learn(noisy):
    loss = sm.focus("high", data=noisy.observed)
    expected = d2_matching_score(noisy.observed, noisy.predicted[SELECTIVE], loss)
    assert values_of(noisy, loss=loss)["explained"] == pytest.approx(expected)


def test_a_weight_is_so_many_rows(noisy):
    times = np.arange(len(noisy.observed)) % 3
    weighted = dataclasses.replace(noisy, weights=times.astype(float))
    repeated = rows_of(
        np.repeat(noisy.observed, times), {name: np.repeat(v, times) for name, v in noisy.predicted.items()}
    )
    repeated = dataclasses.replace(repeated, split=np.repeat(noisy.split, times))
    ours, expected = values_of(weighted), values_of(repeated)
    del ours["precision"], expected["precision"]  # whose k is a number of rows
    assert ours == pytest.approx(expected)


def test_splits_are_measured_each_for_itself(noisy):
    scores = scores_of(noisy)["squared"]
    mine = noisy.split == 2
    alone = values_of(rows_of(noisy.observed[mine], {"squared": noisy.predicted["squared"][mine]}), "squared")
    found = {name: score.splits[2] for name, score in scores.items()}
    del alone["explained"], found["explained"]  # whose constant is that of all rows
    assert found == pytest.approx(alone)
    assert all(len(score.splits) == 4 for score in scores.values())


@pytest.mark.parametrize(
    ("pieces", "order"),
    [
        (((2.0, math.inf),), [4, 3, 2, 1, 0]),
        (((2.0, 4.0),), [4, 3, 2, 1, 0]),  # an end that no observation passes is no border
        (((-math.inf, 1.0),), [0, 1, 2, 3, 4]),
        (((0.5, 2.5),), [1, 2, 0, 3, 4]),
        (((-math.inf, 0.9), (3.2, math.inf)), [0, 4, 1, 3, 2]),
    ],
)
def test_depth_orders_scores_by_how_far_inside_they_are(pieces, order):
    scores = np.array([0.0, 1.0, 2.0, 3.0, 4.0]) + 0.01 * np.arange(5)
    found = depth(scores, Region(pieces, "", 0), np.array([0.0, 4.0]))
    assert np.argsort(-found, kind="stable").tolist() == order
    assert ((found > 0) == Region(pieces, "", 0).holds(np.minimum(scores, 4.0))).all()


def test_equal_predictions_at_the_border_count_in_part():
    tested = rows_of([3.0, 0.0, 0.0, 3.0], {SELECTIVE: [5.0, 1.0, 1.0, 1.0]})
    assert values_of(tested)["precision"] == pytest.approx((1 + 1 / 3) / 2)


@pytest.mark.parametrize(("top", "expected"), [(1, 1.0), (2, 0.5), (4, 0.5), (9, 0.4)])
def test_k_may_be_given(top, expected):
    tested = rows_of([3.0, 0.0, 0.0, 3.0, 0.0], {SELECTIVE: [5.0, 4.0, 3.0, 2.0, 1.0]})
    assert values_of(tested, question=dataclasses.replace(QUESTION, top=top))["precision"] == pytest.approx(expected)


def in_splits(observed, predicted, split, **more):
    return dataclasses.replace(rows_of(observed, predicted, **more), split=np.asarray(split))


def test_order_is_that_within_splits():
    # each split is in perfect order, but the model of the first is 10 higher
    tested = in_splits([0.0, 2.0, 3.0, 1.0, 4.0, 5.0, 6.0], {SELECTIVE: [10, 12, 13, 1, 4, 5, 6]}, [0] * 3 + [1] * 4)
    values = values_of(tested)
    assert values["rank_correlation"] == pytest.approx(1.0)
    assert values["precision"] == pytest.approx(1.0)
    # the first has 2 rows in the region, in the wrong order, the second 3 in the right one
    tested = in_splits([0.0, 2.0, 3.0, 1.0, 4.0, 5.0, 6.0], {SELECTIVE: [10, 3, 2, 1, 4, 5, 6]}, [0] * 3 + [1] * 4)
    values = values_of(tested)
    assert values["rank_correlation"] == pytest.approx((2 * -1.0 + 3 * 1.0) / 5)
    assert values["precision"] == pytest.approx((2 * 0.5 + 3 * 1.0) / 5)


def test_a_split_without_anything_to_order_is_left_out():
    tested = in_splits([0.0, 1.0, 3.0, 2.0, 4.0, 0.0], {SELECTIVE: [0, 5, 1, 3, 4, 0]}, [0, 0, 1, 2, 2, 2])
    values = values_of(tested)
    assert values["rank_correlation"] == pytest.approx(1.0)
    assert values["precision"] == pytest.approx(1.0)  # 1 of 1 and 2 of 2


@pytest.mark.parametrize("top", [0, 8])
@pytest.mark.parametrize(("word", "pieces"), [("high", ((2.0, math.inf),)), ("low", ((-math.inf, 0.5),))])
def test_a_constant_for_each_split_changes_no_order(noisy, word, pieces, top):
    moved = noisy.predicted["squared"] + np.array([0.5, -2.0, 1.0, 4.0])[noisy.split]
    tested = dataclasses.replace(noisy, predicted={**noisy.predicted, CONTROL: moved})
    question = dataclasses.replace(QUESTION, wish={"word": word}, top=top)
    found = scores_of(tested, region=Region(pieces, "", 0), question=question)
    for measure in ("precision", "rank_correlation"):
        assert found[CONTROL][measure] == found["squared"][measure]
        assert found["squared"][measure].estimate.low < found["squared"][measure].estimate.high
    assert found[CONTROL]["capture"] != found["squared"]["capture"]


def test_a_given_k_is_shared_out_among_the_splits():
    # 2 of 6 rows: of the first split, with 3 rows, the first; of the second the first
    tested = in_splits([3.0, 0.0, 0.0, 3.0, 3.0, 0.0], {SELECTIVE: [1, 3, 2, 30, 20, 10]}, [0, 0, 0, 1, 1, 1])
    assert values_of(tested, question=dataclasses.replace(QUESTION, top=2))["precision"] == pytest.approx(0.5)


def test_middle_ranks_share_ties():
    assert (Ranking.of(np.array([1.0, 3.0, 3.0])).middle_ranks(np.ones((3, 1)))[:, 0] == [2.5, 1.0, 1.0]).all()


# ------------------------------------------------------------------------------------------------------------ resamples


def naive_order(observed, predicted, region):
    """Precision and rank correlation of one split, and the weight of each."""
    inside = region.holds(observed)
    k = inside.sum()
    if not k:
        return (0.0, 0), (0.0, 0)
    border = np.sort(predicted)[::-1][k - 1]
    sure, tied = predicted > border, predicted == border
    hits = inside[sure].sum() + inside[tied].mean() * (k - sure.sum())
    if len(set(observed[inside])) == 1:
        return (hits / k, k), (0.0, 0)
    same = len(set(predicted[inside])) == 1
    return (hits / k, k), (0.0 if same else spearmanr(predicted[inside], observed[inside])[0], k)


def naive(observed, predicted, region, split):
    """Some measures of rows that are really there so many times."""
    inside, chosen = region.holds(observed), region.holds(predicted)
    error = predicted - observed
    parts = [naive_order(observed[split == s], predicted[split == s], region) for s in np.unique(split)]
    values, weights = np.transpose(parts)
    precision, correlation = np.average(values, axis=1, weights=weights)
    return {
        "loss": 0.5 * np.mean(error**2),
        "mae_observed": np.abs(error[inside]).mean(),
        "bias_predicted": error[chosen].mean(),
        "capture": chosen[inside].mean(),
        "false_high": chosen[~inside].mean(),
        "precision": precision,
        "rank_correlation": correlation,
    }


def test_intervals_and_gains_are_those_of_resampled_rows(noisy):
    found = scores_of(noisy)
    counts = np.hstack(list(bootstrap.draws(noisy, QUESTION.resamples, QUESTION.seed)))
    table = []
    for column in counts.T.astype(int):
        rows = np.repeat(np.arange(len(column)), column)
        table.append({
            name: naive(noisy.observed[rows], noisy.predicted[name][rows], HIGH, noisy.split[rows])
            for name in noisy.predicted
        })  # fmt: skip
    for measure in table[0][SELECTIVE]:
        ours, theirs = (np.array([entry[name][measure] for entry in table]) for name in (SELECTIVE, "squared"))
        sign = -1.0 if measure in ("capture", "precision", "rank_correlation") else 1.0
        if measure == "bias_predicted":
            sides = [math.copysign(1.0, found[name][measure].estimate.value) for name in ("squared", SELECTIVE)]
            gain = sides[0] * theirs - sides[1] * ours
        else:
            gain = sign * (theirs - ours)
        for estimate, sample in (
            (found[SELECTIVE][measure].estimate, ours),
            (found["squared"][measure].estimate, theirs),
            (found["squared"][measure].gain, gain),
        ):
            assert (estimate.low, estimate.high) == pytest.approx(tuple(np.quantile(sample, (0.025, 0.975)))), measure
        if measure in ("loss", "mae_observed"):
            share = np.quantile((theirs - ours) / theirs, (0.025, 0.975))
            assert (found["squared"][measure].relative.low, found["squared"][measure].relative.high) == pytest.approx(
                tuple(share)
            )


def test_the_size_of_blocks_changes_nothing(noisy, monkeypatch):
    expected = scores_of(noisy)
    monkeypatch.setattr(bootstrap, "_BLOCK", 80 * 7)
    found = scores_of(noisy)
    for name, measures in expected.items():
        for measure, score in measures.items():
            assert np.isclose(found[name][measure].estimate.high, score.estimate.high, rtol=1e-12), measure


def test_the_seed_decides(noisy):
    again, other = scores_of(noisy), scores_of(noisy, question=dataclasses.replace(QUESTION, seed=4))
    assert repr(again) == repr(scores_of(noisy))
    assert again[SELECTIVE]["loss"].estimate.low != other[SELECTIVE]["loss"].estimate.low
    assert again[SELECTIVE]["loss"].estimate.value == other[SELECTIVE]["loss"].estimate.value


def test_groups_are_drawn_whole():
    group = np.array(["a", "b", "a", "c", "c", "c"])
    tested = rows_of(np.zeros(6), {SELECTIVE: np.zeros(6)}, group=group)
    counts = np.hstack(list(bootstrap.draws(tested, 30, 0)))
    assert (counts[0] == counts[2]).all()
    assert (counts[3] == counts[5]).all()
    assert (counts[[0, 1, 3]].sum(axis=0) == 3).all()
    assert (counts[0] != counts[1]).any()


def test_a_row_that_was_tested_twice_is_drawn_once():
    tested = dataclasses.replace(rows_of(np.zeros(4), {SELECTIVE: np.zeros(4)}), rows=np.array([7, 8, 7, 9]))
    counts = np.hstack(list(bootstrap.draws(tested, 20, 0)))
    assert (counts[0] == counts[2]).all()
    assert (counts[[0, 1, 3]].sum(axis=0) == 3).all()


def test_gains_are_in_favour_of_the_selective_loss():
    observed = np.arange(40.0) / 10
    better, worse = observed + 0.01, observed * 0.5 - 0.3
    scores = scores_of(rows_of(observed, {SELECTIVE: better, "squared": worse}))["squared"]
    for name in ("loss", "explained", "mae", "bias", "mae_observed", "capture"):
        assert scores[name].gain.low > 0, name
    scores = scores_of(rows_of(observed, {SELECTIVE: worse, "squared": better}))
    for name in ("loss", "explained", "mae", "bias", "mae_observed", "capture"):
        assert scores["squared"][name].gain.high < 0, name
        assert scores[SELECTIVE][name].gain is None
    assert scores["squared"]["loss"].relative.value < -1
    assert scores["squared"]["explained"].relative is None


def test_a_bias_near_zero_is_no_clear_gain():
    random = np.random.default_rng(0)
    observed = random.normal(size=400)
    noise = random.normal(size=400)
    tested = rows_of(observed, {SELECTIVE: observed, "squared": observed + noise - noise.mean() + 0.01})
    gain = scores_of(tested, question=dataclasses.replace(QUESTION, resamples=400))["squared"]["bias"].gain
    assert gain.value == pytest.approx(0.01)
    assert gain.low < 0 < gain.high  # distances of resamples would all be positive


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    random = np.random.default_rng(5)
    question = dataclasses.replace(QUESTION, resamples=100)
    measures = tuple(measure for measure in measures_for(None, question, False) if measure.name in ("mae", "bias"))
    contenders = tuple(Contender(name, name, "") for name in (SELECTIVE, "squared"))
    covered = np.zeros(3)
    for repetition in range(200):
        error = random.normal(0.5, 1.0, 60)
        tested = rows_of(np.zeros(60), {SELECTIVE: error, "squared": error + random.normal(0.5, 1.0, 60)})
        found = bootstrap.scores(
            tested, sm.MatchingLoss(sm.Identity()), HIGH, contenders, measures,
            dataclasses.replace(question, seed=repetition),
        )  # fmt: skip
        bias = (found[SELECTIVE]["bias"].estimate, found["squared"]["bias"].estimate, found["squared"]["bias"].gain)
        covered += [estimate.low < truth < estimate.high for estimate, truth in zip(bias, (0.5, 1.0, 0.5), strict=True)]
    assert (covered >= 0.88 * 200).all()
    assert (covered <= 0.985 * 200).all()


# --------------------------------------------------------------------------------------------------- nothing to measure


def test_nothing_predicted_in_the_region_is_nan():
    values = scores_of(rows_of([0.0, 3.0, 1.0, 4.0], {SELECTIVE: [0.0, 0.5, 1.0, 1.5], "squared": [0, 3, 1, 4]}))
    assert math.isnan(values[SELECTIVE]["mae_predicted"].estimate.value)
    assert math.isnan(values[SELECTIVE]["link_bias_predicted"].estimate.low)
    assert math.isnan(values["squared"]["mae_predicted"].gain.value)
    assert values["squared"]["mae_predicted"].estimate.value == 0.0
    assert math.isnan(values["squared"]["mae_predicted"].relative.value)
    assert values["squared"]["loss"].relative.value == -math.inf  # any loss is more than none
    assert values[SELECTIVE]["capture"].estimate.value == 0.0


def test_nothing_observed_in_the_region_is_nan():
    values = values_of(rows_of([0.0, 1.0], {SELECTIVE: [0.0, 3.0]}))
    for name in ("mae_observed", "bias_observed", "precision", "capture", "rank_correlation"):
        assert math.isnan(values[name]), name
    assert values["false_high"] == 0.5


@pytest.mark.parametrize("weights", [None, np.array([0.1, 0.7, 0.3])])
def test_constant_predictions_have_no_order(weights):
    values = values_of(rows_of([2.0, 3.0, 4.0], {SELECTIVE: [3.0, 3.0, 3.0]}, weights=weights))
    assert values["rank_correlation"] == 0.0
    assert values["precision"] == pytest.approx(1.0)
    equal = values_of(rows_of([3.0, 3.0, 3.0], {SELECTIVE: [2.0, 3.0, 4.0]}, weights=weights))
    assert math.isnan(equal["rank_correlation"])


def test_a_prediction_that_the_loss_forbids_is_infinitely_bad():
    loss = sm.MatchingLoss(sm.Log())
    observed = np.array([1.0, 2.0, 3.0, 4.0])
    tested = rows_of(observed, {SELECTIVE: observed, "squared": [-1.0, 2.0, 3.0, 5.0]}, splits=2)
    found = scores_of(tested, loss=loss)["squared"]
    assert found["loss"].estimate.value == math.inf
    assert found["loss"].splits[0] == math.inf
    assert found["loss"].splits[1] == pytest.approx(loss([2.0, 5.0], [2.0, 4.0]))
    assert found["explained"].estimate.value == -math.inf
    assert math.isfinite(found["link_bias"].estimate.value)
    assert found["mae"].estimate.value == pytest.approx(0.75)


def test_no_resamples_give_no_intervals(noisy):
    score = scores_of(noisy, question=dataclasses.replace(QUESTION, resamples=0))["squared"]["loss"]
    assert score.estimate.value > 0
    assert math.isnan(score.estimate.low)
    assert math.isnan(score.gain.high)


# ---------------------------------------------------------------------------------------------------------------- lists


@pytest.fixture
def lists():
    """Two lists that count, one with a single row, one with nothing relevant."""
    observed = [2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 0.0, 0.0]
    group = np.array([1, 1, 1, 2, 2, 3, 4, 4])
    predicted = {SELECTIVE: [0.5, 0.9, 0.1, 1.0, 2.0, 0.0, 0.3, 0.2], "lambdarank": [9.0, 1.0, 5.0, 8.0, 7.0, 0, 0, 1]}
    return rows_of(observed, predicted, group=group)


def test_lists_by_hand(lists):
    question = dataclasses.replace(QUESTION, top=2)
    found = scores_of(lists, question=question, ordinal=("lambdarank",))
    ideal = 2 + 1 / math.log2(3)
    ndcg = (2 / math.log2(3) / ideal, 1.0)
    assert found[SELECTIVE]["ndcg"].estimate.value == pytest.approx(np.mean(ndcg))
    # grade 1 or better is relevant: places 2 and 3 of the first list, 1 of the second
    assert found[SELECTIVE]["average_precision"].estimate.value == pytest.approx(np.mean([(1 / 2 + 2 / 3) / 2, 1.0]))
    assert found[SELECTIVE]["reciprocal_rank"].estimate.value == pytest.approx(np.mean([1 / 2, 1.0]))
    assert found[SELECTIVE]["list_precision"].estimate.value == pytest.approx(1 / 2)
    assert found["lambdarank"]["ndcg"].estimate.value == pytest.approx(np.mean([1.0, 1 / math.log2(3)]))


def test_scores_without_a_unit_enter_measures_of_lists_only(lists):
    found = scores_of(lists, ordinal=("lambdarank",))["lambdarank"]
    measured = {name for name, score in found.items() if not math.isnan(score.estimate.value)}
    assert measured == set(LIST_MEASURES)
    assert math.isnan(found["loss"].gain.value)


def test_words_say_which_lists_are_left_out_and_how_grades_were_made(lists):
    words = {measure.name: measure.words for measure in measures_for(lists, QUESTION, True)}
    assert "Lists: 2; left out: 1 with a single row and 1 without a row of grade 1 or better" in words["ndcg"]
    assert "Grades: the labels" in words["ndcg"]
    real = dataclasses.replace(lists, observed=lists.observed + 0.5)
    assert "top 50, 25, 10 and 3 %" in measures_for(real, QUESTION, True)[-1].words


def test_real_targets_become_grades_by_quantiles():
    observed = np.arange(200.0) + 0.5
    made = Lists.of(rows_of(observed, {}, group=np.zeros(200, dtype=int)), QUESTION)
    assert np.bincount(made.grades).tolist() == [100, 50, 30, 14, 6]
    assert made.relevant == 2
    zeros = np.where(observed < 120, 0.25, observed)
    assert (Lists.of(rows_of(zeros, {}, group=np.zeros(200, dtype=int)), QUESTION).grades[:120] == 0).all()


def test_low_scores_may_come_first():
    question = dataclasses.replace(QUESTION, wish={"word": "low"})
    tested = rows_of([0.0, 1.0, 2.0], {SELECTIVE: [-1.0, 0.0, 1.0], "squared": [1.0, 0.0, -1.0]}, group=np.zeros(3))
    found = scores_of(tested, question=question)
    assert found[SELECTIVE]["ndcg"].estimate.value == pytest.approx(1.0)
    assert found["squared"]["ndcg"].estimate.value < 0.9
    assert "low scores first" in measures_for(tested, question, True)[-1].words


def test_ties_do_not_know_the_order_of_the_rows():
    observed = np.tile([3.0, 2.0, 1.0, 0.0, 0.0, 0.0], 40)
    tested = rows_of(observed, {SELECTIVE: np.zeros(240)}, group=np.repeat(np.arange(40), 6))
    assert values_of(tested)["reciprocal_rank"] < 0.85  # 1 with the rows as they come


def test_weights_of_lists():
    observed = np.array([1.0, 0.0, 1.0, 0.0])
    tested = rows_of(
        observed, {SELECTIVE: [1.0, 0.0, 0.0, 1.0]}, group=np.array([1, 1, 2, 2]),
        weights=np.array([0.0, 6.0, 1.0, 1.0]),
    )  # fmt: skip
    assert values_of(tested)["reciprocal_rank"] == pytest.approx((3 * 1.0 + 1 * 0.5) / 4)


def test_a_group_in_two_splits_is_two_lists():
    tested = rows_of([1.0, 0.0, 0.0, 1.0], {SELECTIVE: [1.0, 1.0, 0.0, 0.0]}, splits=2, group=np.zeros(4))
    assert [rows.tolist() for rows in Lists.of(tested, QUESTION).members] == [[0, 2], [1, 3]]
    assert scores_of(tested)[SELECTIVE]["reciprocal_rank"].splits == pytest.approx((1.0, 0.5))


def test_lists_without_anything_relevant_are_nan():
    tested = rows_of([0.0, 0.0, 0.0], {SELECTIVE: [1.0, 2.0, 3.0]}, group=np.zeros(3))
    assert math.isnan(values_of(tested)["ndcg"])


def test_a_missing_package_is_named(lists, monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(ImportError, match=r'need ir_measures. Install it with: pip install "selmatch\[compare\]"'):
        scores_of(lists)


def test_lists_need_groups(noisy):
    with pytest.raises(ValueError, match="must have groups"):
        Lists.of(noisy, QUESTION)


# ---------------------------------------------------------------------------------------------------------- the records


def test_measures_have_a_kind_a_unit_and_words(lists):
    measures = measures_for(lists, QUESTION, True)
    names = [measure.name for measure in measures]
    assert len(set(names)) == len(names) == len(RATIOS) + 2 + len(LIST_MEASURES)
    kinds = [measure.kind for measure in measures]
    assert list(dict.fromkeys(kinds)) == list(KINDS)
    assert kinds == sorted(kinds, key=list(KINDS).index)
    for measure in measures:
        assert measure.better in ("low", "high", "zero")
        assert measure.unit in ("loss", "score", "link", "share", "")
        assert measure.words.endswith(".")


@pytest.mark.parametrize(
    ("wish", "title"),
    [({"word": "high"}, "false-high rate"), ({"word": "low"}, "false-low rate"), ({}, "false-alarm rate")],
)
def test_titles_follow_the_focus(noisy, wish, title):
    measures = {m.name: m for m in measures_for(noisy, Question("y", wish, top=50), False)}
    assert measures["false_high"].title == title
    assert measures["precision"].title == "precision of the top 50"
