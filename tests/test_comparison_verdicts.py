"""Verdicts and tables of a comparison: every kind from rows, and sentences that are true."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

import selmatch as sm
from selmatch.comparison import bootstrap, result, tabulate
from selmatch.comparison.measures import INTERVALS, KINDS, cost_sentence, measures_for
from selmatch.comparison.question import Question
from selmatch.comparison.result import CONTROL, SELECTIVE, Comparison, Contender, Data, Estimate, Measure, Region, Score
from selmatch.comparison.sentences import MOST
from selmatch.comparison.tabulate import shown
from selmatch.comparison.verdicts import verdict

TITLES = {
    SELECTIVE: "selective loss",
    "squared": "squared error",
    "reweighted": "re-weighted squared error",
    "huber": "Huber loss",
    "quantile": "quantile loss",
    "log_target": "squared error, log target",
    "lambdarank": "LambdaRank",
    CONTROL: "squared error + constant",
}
DATA = Data("visits.csv", 400, 400, ("a",), (), "")


def comparison_of(
    noise,
    *,
    rows=400,
    splits=5,
    word="high",
    valid=None,
    shift=None,
    grouped=False,
    seed=0,
    inside=True,
    scale="target",
):
    """A comparison of contenders whose predictions are the observations with so much noise."""
    random = np.random.default_rng(seed)
    observed = random.normal(size=rows)
    shared = random.normal(size=rows)
    shift = shift or {}
    predicted = {
        name: observed + size * (shared + 0.3 * random.normal(size=rows)) + shift.get(name, 0.0)
        for name, size in noise.items()
    }
    loss = sm.focus(word, data=observed, top=0.2)
    region = Region(tuple((low, high) for low, high, _ in loss.wish.regions), f"{word} scores", 0)
    group = np.arange(rows) // 8 if grouped else None
    tested = result.Tested(observed, predicted, np.arange(rows) // 8 % splits, np.arange(rows), group)
    question = Question("y", {"word": word, "top": 0.2}, resamples=200, scale=scale)
    contenders = tuple(
        Contender(
            name, TITLES[name], name, trained=name != CONTROL, ordinal=name == "lambdarank",
            valid=((valid or noise)[name],) * splits if name in (valid or noise) else (),
        )
        for name in noise
    )  # fmt: skip
    measures = measures_for(tested, question, grouped)
    scores = bootstrap.scores(tested, loss, region, contenders, measures, question)
    found = int(region.holds(observed).sum()) if inside else None
    judged = verdict(contenders, measures, scores, question, DATA, inside=found)
    return Comparison(question, DATA, loss, region, contenders, measures, scores, judged, tested, "code")


@pytest.fixture(scope="module")
def helped():
    return comparison_of({SELECTIVE: 0.5, "squared": 0.7, "reweighted": 0.55, CONTROL: 0.7})


def relative(comparison, name, measure="loss"):
    return comparison.scores[name][measure].relative


# ---------------------------------------------------------------------------------------------------------------- kinds


def test_it_helps(helped):
    found = helped.verdict
    assert (found.kind, found.winner, found.rival) == ("helps", SELECTIVE, "reweighted")
    against = relative(helped, "squared"), relative(helped, "reweighted")
    told = [f"{100 * e.value:.1f} % lower" for e in against]
    ends = [f"({100 * e.low:.1f} to {100 * e.high:.1f} %)" for e in against]
    assert found.headline == (
        f"The selective loss helps: {told[0]} cost than squared error {ends[0]}, "
        f"{told[1]} than re-weighted squared error {ends[1]}."
    )
    said = " ".join(found.sentences)
    assert "the best of the others on the validation rows, in 5 of 5 splits" in said
    assert found.sentences[-1].startswith("Next: use it.")
    assert "gain is small" not in found.sentences[-1]


def test_it_does_not_help():
    found = comparison_of({SELECTIVE: 0.7, "squared": 0.8, "reweighted": 0.5})
    judged, share = found.verdict, relative(found, "reweighted")
    assert (judged.kind, judged.winner, judged.rival) == ("does not help", "reweighted", "reweighted")
    assert share.high < 0
    assert judged.headline == (
        f"A selective loss does not help here: it ends with {-100 * share.value:.1f} % higher cost than "
        f"re-weighted squared error ({-100 * share.high:.1f} to {-100 * share.low:.1f} %)."
    )
    assert judged.sentences[-1].startswith("Next: use re-weighted squared error.")


def test_there_is_no_difference():
    found = comparison_of({SELECTIVE: 0.5, "squared": 0.5})
    judged, share = found.verdict, relative(found, "squared")
    assert judged.kind == "no difference"
    assert judged.winner == judged.rival == "squared"
    ends = (f"{100 * abs(end):.1f} % {'higher' if end < 0 else 'lower'}" for end in (share.low, share.high))
    assert f"about the same cost as squared error (from {' to '.join(ends)})" in judged.headline
    assert "which is simpler" in judged.sentences[-1]


def test_few_rows_in_the_region_are_too_little():
    judged = comparison_of({SELECTIVE: 0.5, "squared": 0.7}, rows=100).verdict
    assert judged.kind == "too little data"
    assert judged.winner == "squared"
    assert "only 20 tested rows are in the region" in judged.headline
    assert comparison_of({SELECTIVE: 0.5, "squared": 0.7}, rows=100, inside=False).verdict.kind == "helps"


def numbers(ours, theirs, gain, splits=((1.0,), (1.1,)), valid=1.0):
    """A comparison in which only the selective loss was measured, with a given gain."""
    share = Estimate(*(end / theirs if theirs else math.nan for end in gain))
    score = Score(Estimate(theirs, theirs, theirs), Estimate(*gain), splits[1], share)
    return judged({"squared": score}, ours, splits[0], {"squared": valid})


def judged(others, ours, splits, valid):
    """The verdict about scores on one measure, the cost."""
    measure = Measure("loss", "cost", "words.", "low", "loss", "aim")
    scores = {SELECTIVE: {"loss": Score(Estimate(ours, ours, ours), None, splits)}}
    scores |= {name: {"loss": score} for name, score in others.items()}
    contenders = tuple(Contender(name, TITLES[name], "", valid=(valid.get(name, 1.0),)) for name in scores)
    return verdict(contenders, (measure,), scores, Question("y", {}), DATA)


def against(gains, best, disagree=()):
    """The verdict about gains of the selective loss, whose cost is 1, over others; splits agree but for some."""
    others = {}
    for name, (low, high) in gains.items():
        gain = Estimate((low + high) / 2, low, high)
        cost = 1.0 + gain.value
        share = Estimate(*(end / cost for end in (gain.value, low, high)))
        others[name] = Score(Estimate(cost, cost, cost), gain, (0.5 if name in disagree else cost,) * 5, share)
    return judged(others, 1.0, (1.0,) * 5, {best: 0.5})


def test_a_wide_interval_is_too_little():
    judged = numbers(1.0, 1.1, (0.1, -0.6, 0.6))
    assert judged.kind == "too little data"
    assert "from 54.5 % higher to 54.5 % lower" in judged.headline
    assert numbers(1.0, 1.1, (0.1, -0.4, 0.6)).kind == "no difference"
    assert numbers(1.0, 5.0, (4.0, 1.0, 8.0)).kind == "helps"  # wide, but on one side


@pytest.mark.parametrize(("agreeing", "kind"), [(5, "helps"), (4, "helps"), (3, "no difference")])
def test_splits_must_agree(agreeing, kind):
    ours = (1.0,) * agreeing + (3.0,) * (5 - agreeing)
    judged = numbers(1.0, 2.0, (1.0, 0.5, 1.5), (ours, (2.0,) * 5))
    assert judged.kind == kind
    assert f"in {agreeing} of 5 splits" in " ".join(judged.sentences)
    if kind == "no difference":
        assert "lower in only 3 of 5 splits" in judged.headline


@pytest.mark.parametrize("gain", [(math.nan,) * 3, (1.0, math.nan, math.nan)])
def test_without_an_interval_nothing_is_said(gain):
    assert numbers(1.0, 2.0, gain).kind == "too little data"


def test_a_rival_without_any_loss_has_no_percentage():
    judged = numbers(1.0, 0.0, (-1.0, -2.0, -0.5))
    assert judged.kind == "does not help"
    assert judged.headline.endswith("it ends with no lower cost than squared error.")


def test_alone_there_is_nothing_to_compare_with():
    judged = comparison_of({SELECTIVE: 0.5}).verdict
    assert judged.kind == "too little data"
    assert judged.rival == ""
    assert judged.winner == SELECTIVE
    assert "no other loss" in judged.headline


def test_squared_error_must_be_clearly_worse():
    clear, unclear = (0.1, 0.3), (-0.1, 0.3)
    assert against({"squared": clear, "reweighted": clear}, "reweighted").kind == "helps"
    found = against({"squared": unclear, "reweighted": clear}, "reweighted")
    assert (found.kind, found.winner, found.rival) == ("no difference", "squared", "reweighted")
    assert "on all tested rows, but about the same as squared error" in found.headline
    assert against({"huber": clear, "reweighted": clear}, "reweighted").kind == "helps"  # it does not compete


def test_nobody_may_be_clearly_better():
    clear, worse = (0.1, 0.3), (-0.3, -0.1)
    found = against({"squared": clear, "reweighted": clear, "huber": worse}, "reweighted")
    assert (found.kind, found.winner, found.rival) == ("no difference", "huber", "reweighted")
    assert re.search(r"but 25\.0 % higher than Huber loss \(12\.5 to 37\.5 %\)\.$", found.headline)


@pytest.mark.parametrize(
    ("gains", "best", "winner"),
    [
        # all alike: the simplest
        ({"squared": (-0.1, 0.1), "reweighted": (-0.1, 0.1), "quantile": (-0.1, 0.1)}, "quantile", "squared"),
        # squared error clearly worse than the selective loss
        ({"squared": (0.1, 0.3), "reweighted": (-0.1, 0.1), "quantile": (-0.1, 0.1)}, "quantile", "reweighted"),
        ({"reweighted": (-0.1, 0.1), "log_target": (-0.1, 0.2), "squared": (0.1, 0.3)}, "reweighted", "log_target"),
        # the rival clearly better, squared error not clearly worse than the rival, or clearly
        ({"squared": (-0.2, 0.1), "huber": (-0.3, -0.1)}, "huber", "squared"),
        ({"squared": (-0.05, 0.1), "huber": (-0.3, -0.1)}, "huber", "huber"),
        # a simpler one than the selective loss is not there
        ({"squared": (0.1, 0.3), "quantile": (-0.1, 0.1)}, "quantile", "quantile"),
    ],
)
def test_the_simplest_of_the_best_is_advised(gains, best, winner):
    found = against(gains, best)
    assert found.kind != "helps"
    assert found.rival == best
    assert found.winner == winner
    assert found.sentences[-1].startswith(f"Next: use {TITLES[winner]}")
    if winner != best:
        assert "the simplest loss that is not clearly worse than the best" in found.sentences[-1]


def test_where_only_the_splits_object_the_rival_is_advised():
    found = against({"squared": (0.2, 0.3), "reweighted": (0.1, 0.3)}, "reweighted", disagree=("reweighted",))
    assert (found.kind, found.winner) == ("no difference", "reweighted")
    assert "lower in only 0 of 5 splits" in found.headline
    assert "until the splits agree" in found.sentences[-1]


def test_the_rival_is_chosen_on_the_validation_rows():
    noise = {SELECTIVE: 0.5, "squared": 0.7, "huber": 0.4, CONTROL: 0.1, "reweighted": 0.6}
    found = comparison_of(noise, valid={"squared": 3.0, "huber": 2.0, "reweighted": 1.0, CONTROL: 0.0})
    assert found.verdict.rival == "reweighted"
    assert any("With Huber loss the cost is clearly lower" in said for said in found.verdict.sentences)
    missing = comparison_of(noise, valid={"squared": math.nan, "huber": 2.0})
    assert missing.verdict.rival == "huber"


# ------------------------------------------------------------------------------------- measures of the user's own task

TASK = ("ndcg", "precision")
ALL = (Measure("loss", "cost", "words.", "low", "loss", "aim"), *(
    Measure(name, name.upper(), "words.", better, "", "lists", task=name in TASK)
    for name, better in (("ndcg", "high"), ("precision", "high"), ("mae_predicted", "low"), ("capture", "high"))
))  # fmt: skip


def table(random, names, *, ordinal, clear):
    """Random scores: the selective loss has 1 on every measure, each other a gain of it, with an interval."""
    scores = {SELECTIVE: {m.name: Score(Estimate(1.0, 0.9, 1.1), None, (1.0,) * 5) for m in ALL}}
    for name in names:
        scores[name] = {}
        for measure in ALL:
            if name in ordinal and measure.kind != "lists":
                nothing = Estimate(*(math.nan,) * 3)
                scores[name][measure.name] = Score(nothing, nothing, (math.nan,) * 5)
                continue
            middle = random.normal(0.2 if measure.name == "loss" else 0.0, 0.15)
            half = random.choice([0.02, 0.1, 0.4], p=[clear, 0.9 - clear, 0.1])
            gain = Estimate(middle, middle - half, middle + half)
            value = 1.0 + (middle if measure.better == "low" else -middle)
            share = Estimate(*(end / value for end in (middle, gain.low, gain.high)))
            splits = tuple(value + random.normal(0.0, 0.05, 5))
            scores[name][measure.name] = Score(Estimate(value, value, value), gain, splits, share)
    return scores


def contradictions(name, scores):
    """Independently of the verdict: by measure of the task, whose interval says that he is clearly better."""

    def interval(who, measure):
        return Estimate(0.0, 0.0, 0.0) if who == SELECTIVE else scores[who][measure].gain

    return {
        measure: better
        for measure in TASK
        if (better := {o for o in scores if interval(o, measure).high < interval(name, measure).low and o != CONTROL})
    }


def test_no_verdict_advises_what_a_measure_of_the_task_contradicts():
    random, kinds = np.random.default_rng(0), []
    names = [name for name in TITLES if name != SELECTIVE]
    for round in range(300):
        chosen = [name for name in names if random.random() < 0.6] or names
        scores = table(random, chosen, ordinal=("lambdarank",), clear=(0.0, 0.3, 0.8)[round % 3])
        contenders = tuple(
            Contender(name, TITLES[name], "", trained=name != CONTROL, valid=(random.random(),) * 5,
                      ordinal=name == "lambdarank")
            for name in scores
        )  # fmt: skip
        found = verdict(contenders, ALL, scores, Question("y", {}), DATA, inside=100)
        kinds.append(found.kind)
        said = " ".join((found.headline, *found.sentences))
        against = contradictions(found.winner, scores)
        for measure, better in against.items():
            assert re.search(rf"{measure.upper()} is [^,]*, clearly worse than", said), said
            assert any(re.search(rf"(take|with) (the )?{re.escape(TITLES[name])}", said) for name in better), said
        mixed = found.kind == "mixed"
        assert not (found.kind == "helps" and contradictions(SELECTIVE, scores))
        assert not (mixed and not contradictions(SELECTIVE, scores))
        if against or mixed:
            assert "use it" not in said
            assert "Next: use" not in said
            assert "Next: decide what you act on. For the best" in said or not found.rival
        elif found.kind == "helps":
            assert "Next: use it." in said
        assert not re.search(r"nan|None|\{|  ", said), said
        # measures that a constant can win decide nothing
        for name in chosen:
            for other in ("mae_predicted", "capture"):
                scores[name][other] = dataclasses.replace(scores[name][other], gain=Estimate(-1.0, -1.1, -0.9))
        again = verdict(contenders, ALL, scores, Question("y", {}), DATA, inside=100)
        assert (again.kind, again.winner, again.headline) == (found.kind, found.winner, found.headline)
    assert set(kinds) == {"helps", "mixed", "does not help", "no difference", "too little data"}


def test_order_that_is_lost_is_told_from_rows():
    random = np.random.default_rng(1)
    observed = random.normal(size=800)
    loss = sm.focus("high", data=observed, top=0.2)
    noise = 0.4 * random.normal(size=800)
    # squared error shrinks towards the mean, in the right order; the selective loss is near, and its order is worse
    predicted = {SELECTIVE: observed + noise, "squared": 0.3 * (observed + 0.5 * noise)}
    tested = result.Tested(observed, predicted, np.arange(800) // 8 % 5, np.arange(800), np.arange(800) // 8)
    question = Question("y", {"word": "high", "top": 0.2}, resamples=200)
    contenders = tuple(Contender(name, TITLES[name], "", valid=(1.0,) * 5) for name in predicted)
    measures = measures_for(tested, question, True)
    region = Region(((loss.wish.regions[0][0], math.inf),), "high", 0)
    scores = bootstrap.scores(tested, loss, region, contenders, measures, question)
    assert scores["squared"]["loss"].gain.low > 0.0 > scores["squared"]["ndcg"].gain.high
    found = verdict(contenders, measures, scores, question, DATA, inside=160)
    assert (found.kind, found.winner, found.rival) == ("mixed", "squared", "squared")
    ours, theirs = (shown(scores[name]["precision"].estimate.value, "share") for name in (SELECTIVE, "squared"))
    headline = f"but top-k precision is {ours}, clearly worse than {theirs} with squared error."
    assert found.headline.startswith("The measures disagree: the selective loss ends with ")
    assert found.headline.endswith(headline)
    assert re.search(
        r"With the selective loss, .*NDCG@10 is [\d.]+, clearly worse than [\d.]+ with", found.sentences[0]
    )
    assert found.sentences[-1] == (
        "Next: decide what you act on. For the best top-k precision take squared error; for the lowest cost, the "
        "selective loss."
    )
    assert {m.name for m in measures if m.task} == {
        "precision", "rank_correlation", "ndcg", "average_precision", "reciprocal_rank", "list_precision",
    }  # fmt: skip
    assert {m.name for m in measures_for(tested, question, False) if m.task} == {"precision", "rank_correlation"}


# ------------------------------------------------------------------------------------------------------------ sentences


def said_of(comparison):
    return " ".join(comparison.verdict.sentences)


def test_the_price_is_told():
    noise = {SELECTIVE: 0.5, "squared": 0.5}
    found = comparison_of(noise, shift={SELECTIVE: 0.4})
    scores = {name: found.scores[name]["false_high"].estimate.value for name in noise}
    assert f"the false-high rate is {shown(scores[SELECTIVE], 'share')} instead of" in said_of(found)
    errors = {name: [shown(found.scores[name][m].estimate.value) for m in ("mae", "mae_predicted")] for name in noise}
    for where, ours, theirs in zip(
        ("the error of all rows", "the error where the prediction is in the region"), *errors.values(), strict=True
    ):
        assert f"{where} is {ours} instead of {theirs}" in said_of(found)
    assert "No price was found in the error of all rows, the error where" in said_of(comparison_of(noise))


def test_what_was_bought_is_told():
    noise = {SELECTIVE: 0.5, "squared": 0.5}
    found = comparison_of(noise, shift={SELECTIVE: 0.4})
    ours, theirs = (shown(found.scores[name]["capture"].estimate.value, "share") for name in noise)
    assert f"It finds {ours} of the region instead of {theirs} with squared error. The price" in said_of(found)
    assert "It finds" not in said_of(comparison_of(noise, shift={"squared": 0.4}))


def test_one_split_tells_nothing_about_chance_in_training():
    one, two = (comparison_of({SELECTIVE: 0.5, "squared": 0.7}, splits=splits) for splits in (1, 2))
    warning = "one split shows nothing about chance in training"
    assert one.verdict.kind == two.verdict.kind == "helps"
    assert warning in said_of(one)
    assert "1 of 1" not in said_of(one)
    assert warning not in said_of(two)
    assert "in 2 of 2 splits" in said_of(two)


@pytest.mark.parametrize(
    ("shift", "told"),
    [(0.07, r"0\.0\d+ too high \(about \d[.\d]* % of the target\)"), (1.5, r"1\.\d+ too high \(a factor of 4\.\d\)"),
     (-0.7, r"0\.[67]\d+ too low \(about 5\d % of the target\)")],
)  # fmt: skip
def test_a_bias_of_logarithms_is_told_as_a_share_of_the_target(shift, told):
    noise = {SELECTIVE: 0.1, "squared": 0.1}
    assert re.search(told, said_of(comparison_of(noise, shift={SELECTIVE: shift}, scale="log")))
    assert "of the target" not in said_of(comparison_of(noise, shift={SELECTIVE: shift}))


def test_the_first_sentence_is_about_squared_error_and_re_weighting():
    found = comparison_of({SELECTIVE: 0.5, "squared": 0.7, "reweighted": 0.55, "huber": 0.52, "quantile": 0.6})
    assert found.verdict.rival == "huber"
    told = [
        f"{100 * relative(found, name).value:.1f} % lower than {TITLES[name]}" for name in ("squared", "reweighted")
    ]
    assert found.verdict.sentences[0].startswith(f"The cost is {told[0]} (")
    assert f", and {told[1]} (" in found.verdict.sentences[0]
    assert "Huber" not in found.verdict.sentences[0]


def test_the_headline_is_not_repeated(helped):
    assert not any("lower than squared error" in sentence for sentence in helped.verdict.sentences)


def test_sentences_are_few_and_end_with_the_advice():
    noise = {SELECTIVE: 9.0, "squared": 8.5, "reweighted": 8.6, "huber": 8.0, "lambdarank": 0.1, CONTROL: 8.0}
    shift = {SELECTIVE: -1.0, "squared": -3.0}
    found = comparison_of(noise, grouped=True, shift=shift, valid={"reweighted": 1.0, "squared": 2.0, "huber": 3.0})
    assert len(found.verdict.sentences) == MOST == 6
    assert found.verdict.sentences[-1].startswith("Next: ")


def test_cost_is_explained(helped):
    told = cost_sentence(helped)
    assert told == (
        "Cost: what you asked for. Mistakes in the region, high scores, weigh 8 times as much as elsewhere, on "
        "average over your rows."
    )
    assert told in " ".join(str(helped).split())
    own = dataclasses.replace(helped, question=Question("y", {}))
    assert re.fullmatch(
        r"Cost: the mean of the loss that you gave\. Mistakes in the region, high scores, weigh (7\.\d+|8) times .*",
        cost_sentence(own),
    )
    steep = dataclasses.replace(own, loss=sm.MatchingLoss(sm.Exp()), region=Region(((-math.inf, math.inf),), "all", 0))
    assert "Mistakes in the region, all, weigh more than elsewhere" in cost_sentence(steep)  # there is no elsewhere


@pytest.mark.parametrize("word", ["high", "low", "middle", "extremes"])
def test_a_region_of_another_size_is_told(word):
    grades = np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], 80)
    found = comparison_of({SELECTIVE: 0.5}, word=word)
    assert "This region holds" not in cost_sentence(found)
    loss = sm.focus(word, data=grades, top=0.1)
    found = dataclasses.replace(found, loss=loss, question=Question("y", {"word": word, "top": 0.1}))
    held = {"extremes": 40}.get(word, 20)
    assert cost_sentence(found).endswith(
        f" This region holds {held} % of the rows, not the 10 % asked for: rows with equal targets stay together."
    )


def test_the_control_is_explained_where_it_wins_only():
    noise = {SELECTIVE: 0.5, "squared": 0.5, CONTROL: 0.5}
    away = {SELECTIVE: -0.4, "squared": -1.0}
    wins = comparison_of(noise, shift=away)
    error = {name: wins.scores[name]["mae_observed"].estimate.value for name in noise}
    assert error[CONTROL] < error[SELECTIVE]
    told = f"from {shown(error['squared'])} to {shown(error[CONTROL])} (the selective loss: {shown(error[SELECTIVE])})"
    assert told in said_of(wins)
    assert "Do not judge" not in said_of(comparison_of(noise, shift=away | {CONTROL: -0.9}))


@pytest.mark.parametrize(
    ("shift", "told"),
    [(0.0, "no clear bias, neither as means nor in link space"), (0.3, "too high. Some of that is meant. But in link"),
     (-0.3, "too low. Some of that is meant. But in link")],
)  # fmt: skip
def test_biases_are_told_apart(shift, told):
    found = comparison_of({SELECTIVE: 0.1, "squared": 0.1}, shift={SELECTIVE: shift}, seed=2)
    assert told in said_of(found)


def test_a_bias_that_is_meant_is_called_so():
    random = np.random.default_rng(0)
    observed = random.normal(size=2000)
    loss = sm.focus("high", data=observed)
    tested = result.Tested(
        observed, {SELECTIVE: np.full(2000, loss.minimiser(observed)), "squared": np.zeros(2000)},
        np.arange(2000) % 2, np.arange(2000),
    )  # fmt: skip
    question = Question("y", {"word": "high"}, resamples=100)
    contenders = tuple(Contender(name, TITLES[name], "", valid=(1.0,)) for name in tested.predicted)
    measures = measures_for(tested, question, False)
    region = Region(((1.2, math.inf),), "", 0)
    scores = bootstrap.scores(tested, loss, region, contenders, measures, question)
    said = " ".join(verdict(contenders, measures, scores, question, DATA).sentences)
    assert re.search(
        r"As means its predictions are \S+ too high. In link space they show no clear bias. This is meant", said
    )
    assert "not clearly better than one constant" in said


def test_lists_are_compared_with_the_best_of_the_others():
    found = comparison_of({SELECTIVE: 0.5, "squared": 0.9, "lambdarank": 0.1}, grouped=True)
    ours, best = (shown(found.scores[name]["ndcg"].estimate.value) for name in (SELECTIVE, "lambdarank"))
    assert f"NDCG@10 is {ours}, clearly worse than {best} with LambdaRank" in found.verdict.headline
    assert (found.verdict.kind, found.verdict.rival) == ("mixed", "squared")
    assert "LambdaRank (" not in found.verdict.headline
    alike = comparison_of({SELECTIVE: 0.5, "squared": 0.9, "lambdarank": 0.5}, grouped=True)
    ours, best = (shown(alike.scores[name]["ndcg"].estimate.value) for name in (SELECTIVE, "lambdarank"))
    told = f"NDCG@10 is {ours}, and {best} with LambdaRank, the best of the others: no clear difference."
    assert told in said_of(alike)


@pytest.mark.parametrize("word", ["high", "low", "middle", "extremes"])
@pytest.mark.parametrize("noise", [{SELECTIVE: 0.4, "huber": 0.5}, {SELECTIVE: 0.5, "squared": 0.4, CONTROL: 0.4}])
@pytest.mark.parametrize("splits", [1, 3])
def test_sentences_are_whole_for_every_question(word, noise, splits):
    found = comparison_of(noise, word=word, splits=splits, rows=200)
    sentences = (found.verdict.headline, *found.verdict.sentences)
    for sentence in sentences:
        assert re.fullmatch(r"[A-Z].*\.", sentence), sentence
        assert not re.search(r"nan|inf\b|None|\{|  ", sentence), sentence
    if word != "high":
        assert "false-high" not in said_of(found)


# ------------------------------------------------------------------------------------------------------------ the table


def test_cells_hold_the_numbers_and_name_the_best(helped):
    for row in tabulate.rows(helped):
        assert [cell.contender.name for cell in row.cells] == [contender.name for contender in helped.contenders]
        values = [cell.score.estimate.value for cell in row.cells]
        best = {"low": min(values), "high": max(values), "zero": min(values, key=abs)}[row.measure.better]
        assert [cell.best for cell in row.cells] == [value == best for value in values]
        assert not all(cell.best for cell in row.cells)
        for cell in row.cells:
            assert cell.score is helped.scores[cell.contender.name][row.measure.name]
            gain = cell.score.gain
            assert cell.against == (
                "" if gain is None else "worse" if gain.low > 0 else "better" if gain.high < 0 else ""
            )
    loss = tabulate.rows(helped)[0]
    assert [cell.against for cell in loss.cells] == ["", "worse", "worse", "worse"]
    estimate = loss.cells[0].score.estimate
    scale = np.median([cell.score.estimate.high for cell in loss.cells])
    assert loss.cells[0].value == shown(estimate.value, scale=scale)
    assert loss.cells[0].interval == f"{shown(estimate.low, scale=scale)} to {shown(estimate.high, scale=scale)}"


def test_the_text_has_everything(helped):
    text = str(helped)
    plain = " ".join(text.split())
    for sentence in (helped.verdict.headline, *helped.verdict.sentences, INTERVALS):
        assert " ".join(sentence.split()) in plain.replace("- ", "") or sentence in plain
    for contender in helped.contenders:
        assert sum(line.startswith(contender.title) for line in text.splitlines()) >= 5
    for measure in helped.measures:
        assert f"- {measure.title}: " in text
        assert KINDS[measure.kind].upper() in text
    cell = tabulate.rows(helped)[0].cells[1]
    assert f"{cell.value} [{cell.interval}] !" in text
    assert text.isascii()


def test_nobody_is_best_among_equals():
    found = comparison_of({SELECTIVE: 0.5, "squared": 0.5}, grouped=True)
    cells = {row.measure.name: row.cells for row in tabulate.rows(found)}
    assert len({cell.value for cell in cells["list_precision"]}) == 1  # lists of 8 rows have no choice of 10
    assert not any(cell.best for cell in cells["list_precision"])


def test_nothing_to_measure_is_a_dash():
    found = comparison_of({SELECTIVE: 0.5, "squared": 0.9, "lambdarank": 0.1}, grouped=True)
    cells = {row.measure.name: row.cells[2] for row in tabulate.rows(found)}
    assert (cells["loss"].value, cells["loss"].interval, cells["loss"].best, cells["loss"].against) == (
        "-",
        "",
        False,
        "",
    )
    assert cells["ndcg"].best
    assert KINDS["lists"].upper() in str(found)


@pytest.mark.parametrize(
    ("value", "unit", "scale", "text"),
    [
        (1234567.0, "loss", 0.0, "1,235,000"),
        (12.3456, "score", 0.0, "12.35"),
        (-0.00012346, "", 0.0, "-0.0001235"),
        (1e-12, "", 0.0, "1.000e-12"),
        (0.0, "", 0.0, "0"),
        (-0.0001, "", 10.0, "0.00"),
        (0.05, "", 1200.0, "0"),
        (1.0, "share", 0.0, "100 %"),
        (0.0123, "share", 0.0, "1.23 %"),
        (math.inf, "loss", 0.0, "infinite"),
        (math.nan, "share", 0.0, "-"),
    ],
)
def test_numbers_for_people(value, unit, scale, text):
    assert shown(value, unit, scale) == text


def test_json_has_no_numbers_that_are_none(helped):
    found = json.loads(helped.to_json())
    assert found["verdict"]["kind"] == "helps"
    assert found["region"]["pieces"][0][1] is None
    assert found["scores"]["squared"]["loss"]["relative"]["value"] == pytest.approx(relative(helped, "squared").value)
    assert sm.spec.from_dict(found["loss"]) == helped.loss
    assert dataclasses.asdict(helped.verdict)["winner"] == SELECTIVE


def test_predictions_no_better_than_a_constant_help_nobody():
    found = comparison_of({SELECTIVE: 1.4, "squared": 2.2, "reweighted": 2.0})
    assert found.scores[SELECTIVE]["explained"].estimate.low <= 0.0
    assert found.scores["reweighted"]["loss"].gain.low > 0.0
    assert (found.verdict.kind, found.verdict.winner) == ("no difference", "reweighted")
    assert "one constant does as well" in found.verdict.headline


def test_a_small_gain_is_called_small(helped):
    score = helped.scores["reweighted"]["loss"]
    small = dataclasses.replace(score, relative=Estimate(0.01, 0.002, 0.017))
    scores = helped.scores | {"reweighted": helped.scores["reweighted"] | {"loss": small}}
    judged = verdict(helped.contenders, helped.measures, scores, helped.question, DATA)
    assert judged.kind == "helps"
    assert "gain is small: if you already use re-weighted squared error" in judged.sentences[-1]
