"""The sentences of a verdict: against whom, by how much, at what price, and what to do next.

Each says only what was measured, and is left out where that is not enough to say it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from selmatch.comparison.result import CONTROL, SELECTIVE, Contender, Estimate, Measure, Score
from selmatch.comparison.tabulate import shown


@dataclass(frozen=True)
class Case:
    """The numbers of a comparison, by name."""

    contenders: Mapping[str, Contender]
    measures: Mapping[str, Measure]
    scores: Mapping[str, Mapping[str, Score]]

    def others(self) -> list[str]:
        """Who is trained with another loss, and predicts scores."""
        return [c.name for c in self.contenders.values() if c.trained and not c.ordinal and c.name != SELECTIVE]

    def rival(self) -> str | None:
        """The best of the others on the validation rows; the first of those that are equally good."""
        return min(self.others(), key=lambda name: _mean(self.contenders[name].valid), default=None)

    def usual(self, rival: str | None) -> str | None:
        """What people use now: squared error, or the rival where that does not compete."""
        return "squared" if "squared" in self.others() else rival

    def title(self, name: str) -> str:
        """A contender for people."""
        return self.contenders[name].title

    def score(self, name: str | None, measure: str) -> Score | None:
        """A score, None where there was nothing to measure."""
        found = self.scores.get(name or "", {}).get(measure)
        return None if found is None or math.isnan(found.estimate.value) else found

    def value(self, name: str, measure: str) -> float:
        """A value, NaN where there was nothing to measure."""
        found = self.score(name, measure)
        return math.nan if found is None else found.estimate.value

    def text(self, name: str, measure: str) -> str:
        """A value for people."""
        return shown(self.value(name, measure), self.measures[measure].unit)

    def against(self, name: str | None, measure: str) -> str:
        """Whether the selective loss is clearly "better" or "worse" than a contender, or "" for neither."""
        score = self.score(name, measure)
        if score is None or score.gain is None or not _clear(score.gain):
            return ""
        return "better" if score.gain.low > 0.0 else "worse"


def _mean(valid: tuple[float, ...]) -> float:
    mean = sum(valid) / len(valid) if valid else math.inf
    return math.inf if math.isnan(mean) else mean


def _clear(estimate: Estimate) -> bool:
    return estimate.low > 0.0 or estimate.high < 0.0


def agreement(case: Case, rival: str) -> tuple[int, int]:
    """In how many splits the selective loss is lower than with the rival, and in how many both were measured."""
    pairs = zip(case.scores[SELECTIVE]["loss"].splits, case.scores[rival]["loss"].splits, strict=True)
    known = [(ours, theirs) for ours, theirs in pairs if not math.isnan(ours) and not math.isnan(theirs)]
    return sum(ours < theirs for ours, theirs in known), len(known)


# ----------------------------------------------------------------------------------------------- how much less, or more


def compared(score: Score, what: str, title: str) -> str:
    """The selective loss beside another contender: "5.4 % less ``what`` than ``title`` (4.1 to 6.8 %)"."""
    what, share = f" {what}" if what else "", score.relative
    if share is None or not all(map(math.isfinite, (share.value, share.low, share.high))):
        gain = math.nan if score.gain is None else score.gain.value
        return f"less{what} than {title}" if gain > 0.0 else f"no less{what} than {title}"
    if share.low <= 0.0 <= share.high:
        return f"about as much{what} as {title} (from {_more_or_less(share.low)} to {_more_or_less(share.high)})"
    low, high = sorted((abs(share.low), abs(share.high)))
    return f"{_more_or_less(share.value)}{what} than {title} ({_percent(low).removesuffix(' %')} to {_percent(high)})"


def _more_or_less(share: float) -> str:
    return f"{_percent(abs(share))} {'more' if share < 0.0 else 'less'}"


def _percent(share: float) -> str:
    """In percent, with a decimal; small shares are not rounded to nothing."""
    return f"{100.0 * share:.1f} %" if share == 0.0 or share >= 0.0005 else f"{100.0 * share:.1g} %"


# -------------------------------------------------------------------------------------------------------- the sentences


def sentences(case: Case, rival: str | None) -> tuple[str, ...]:
    """What can be said of the numbers, whatever the verdict."""
    said = (
        _against_all(case),
        _in_splits(case, rival),
        _beaten(case, rival),
        _constant(case),
        _within_lists(case),
        _price(case, rival),
        _control(case),
        _bias(case),
    )
    return tuple(filter(None, said))


def _against_all(case: Case) -> str:
    told = [
        compared(score, "", case.title(name))
        for name in case.others()
        if (score := case.score(name, "loss")) is not None and score.gain is not None
    ]
    return f"Selective loss against each of the others: {'; '.join(told)}." if len(told) > 1 else ""


def _in_splits(case: Case, rival: str | None) -> str:
    if rival is None or case.score(rival, "loss") is None or case.score(SELECTIVE, "loss") is None:
        return ""
    better, counted = agreement(case, rival)
    chosen = ", the best of the others on the validation rows," if len(case.others()) > 1 else ""
    if not counted:
        return ""
    return f"The selective loss is lower than with {case.title(rival)}{chosen} in {better} of {counted} splits."


def _beaten(case: Case, rival: str | None) -> str:
    """Whoever beats the selective loss on the tested rows is named, also when it is not the rival."""
    named = [case.title(name) for name in case.others() if name != rival and case.against(name, "loss") == "worse"]
    if not named:
        return ""
    return (
        f"With {' and '.join(named)} the selective loss is clearly lower on the tested rows, though not lowest on the "
        "validation rows: a choice by the tested rows would flatter itself, but look into it."
    )


def _constant(case: Case) -> str:
    explained = case.score(SELECTIVE, "explained")
    if explained is None or not explained.estimate.low <= 0.0:
        return ""
    return "Its predictions are not clearly better than one constant for all rows: the features may tell too little."


def _within_lists(case: Case) -> str:
    """Against the best of all others, which may have been trained for just that."""
    others = [name for name, contender in case.contenders.items() if contender.trained and name != SELECTIVE]
    others = [name for name in others if case.score(name, "ndcg") is not None]
    if not others or case.score(SELECTIVE, "ndcg") is None:
        return ""
    best = max(others, key=lambda name: case.value(name, "ndcg"))
    against = case.against(best, "ndcg")
    title, ours, theirs = case.measures["ndcg"].title, case.text(SELECTIVE, "ndcg"), case.text(best, "ndcg")
    return (
        f"Within lists, {title} is {ours}, and {theirs} with {case.title(best)}, the best of the others: "
        f"{f'clearly {against}' if against else 'no clear difference'}."
    )


def _price(case: Case, rival: str | None) -> str:
    """What it costs elsewhere."""
    usual = case.usual(rival)
    names = {"mae": "the mean absolute error of all rows"}
    if "false_high" in case.measures:
        names["false_high"] = f"the {case.measures['false_high'].title}"
    measured = [name for name in names if case.score(usual, name) and case.score(SELECTIVE, name)]
    if usual is None or not measured:
        return ""
    worse = [name for name in measured if case.against(usual, name) == "worse"]
    if worse:
        values = {name: f"{case.text(SELECTIVE, name)} instead of {case.text(usual, name)}" for name in worse}
        prices = (f"{names[name]} is {value}" for name, value in values.items())
        return f"The price, against {case.title(usual)}: {', and '.join(prices)}."
    both = " and ".join(names[name] for name in measured)
    return f"No price was found in {both}: not clearly worse than with {case.title(usual)}."


def _control(case: Case) -> str:
    """What the control shows where it is the better one, or has half of the gain, on the error that can be cheated."""
    control, squared, ours = (case.value(name, "mae_observed") for name in (CONTROL, "squared", SELECTIVE))
    if not (control < squared and (control < ours or squared - control > 0.5 * (squared - ours))):
        return ""
    before, after, beside = (case.text(name, "mae_observed") for name in ("squared", CONTROL, SELECTIVE))
    costs = ", and yet has clearly more selective loss" if case.against(CONTROL, "loss") == "better" else ""
    return (
        "Do not judge by the error where the observation is in the region: adding a constant to squared error, which "
        f"tells nothing new, takes it from {before} to {after} (the selective loss: {beside}){costs}."
    )


def _bias(case: Case) -> str:
    """Biased as means and right in link space is what a selective loss is meant to be."""
    means, links = (case.score(SELECTIVE, name) for name in ("bias", "link_bias"))
    if means is None or links is None or any(math.isnan(score.estimate.low) for score in (means, links)):
        return ""
    mean, link = means.estimate, links.estimate
    if not _clear(mean) and not _clear(link):
        return "Its predictions show no clear bias, neither as means nor in link space."
    said = ""
    if _clear(mean):
        said = f"As means its predictions are {shown(abs(mean.value))} too {'high' if mean.value > 0.0 else 'low'}. "
    if not _clear(link):
        return (
            f"{said}In link space they show no clear bias. This is meant: a selective loss aims at the score whose "
            "link is the mean of the links, not at the mean score."
        )
    known = case.score("squared", "link_bias") is not None
    beside = f" ({case.text('squared', 'link_bias')} with squared error)" if known else ""
    some = "Some of that is meant. But in" if said else "In"
    return f"{said}{some} link space, where none is meant, the bias is {shown(link.value)}{beside}."


def advice(case: Case, kind: str, rival: str | None) -> str:
    """What to do next."""
    if rival is None:
        return "Next: let it compete with squared error and re-weighted squared error."
    title = case.title(rival)
    return {
        "helps": "Next: use it. The program that trains it is at the end of the report, and in comparison.code.",
        "does not help": f"Next: use {title}. If that surprises you, check that the region is where errors cost you.",
        "no difference": f"Next: use {title}, which is simpler; more rows would show smaller differences.",
        "too little data": "Next: take more rows, or a wider region; until then a simpler loss will do.",
    }[kind]
