"""The sentences of a verdict: against whom, by how much, at what price, and what to do next.

Each says only what was measured, and is left out where that is not enough to say it. Readers know the measure "loss" as
the cost.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from selmatch.comparison.result import CONTROL, SELECTIVE, Contender, Estimate, Measure, Score
from selmatch.comparison.tabulate import shown

#: the simplest first; who is not named comes last
SIMPLICITY = ("squared", "log_target", "raw_target", "reweighted", "huber", "quantile")
#: how many sentences a verdict may have, the advice included
MOST = 6


@dataclass(frozen=True)
class Case:
    """The numbers of a comparison, by name, and what the scores are of the target: "target" or "log"."""

    contenders: Mapping[str, Contender]
    measures: Mapping[str, Measure]
    scores: Mapping[str, Mapping[str, Score]]
    scale: str = "target"

    def others(self) -> list[str]:
        """Who is trained with another loss, and predicts scores."""
        return [c.name for c in self.contenders.values() if c.trained and not c.ordinal and c.name != SELECTIVE]

    def rival(self) -> str | None:
        """The best of the others on the validation rows; the first of those that are equally good."""
        return min(self.others(), key=lambda name: _mean(self.contenders[name].valid), default=None)

    def usual(self, rival: str | None) -> str | None:
        """What people use now: squared error, or the rival where that does not compete."""
        return "squared" if "squared" in self.others() else rival

    def simplest(self, rival: str) -> str:
        """Of the others, the simplest that is not clearly worse than the best of all; else the rival.

        One that no measure of the task speaks against comes first.
        """
        known = self.cheapest(rival)
        return next((name for name in known if not self.conflicts(name)), known[0])

    def cheapest(self, rival: str) -> list[str]:
        """The others whose cost is not clearly higher than the lowest, the simplest first; else the rival."""
        order = {name: place for place, name in enumerate(SIMPLICITY)}
        by_simplicity = sorted(self.others(), key=lambda name: order.get(name, len(order)))
        return [name for name in by_simplicity if not self._costly(name, rival)] or [rival]

    def _costly(self, name: str, rival: str) -> bool:
        """Whether the cost is clearly higher than with the selective loss, or than with the rival."""
        unknown = self.gain(name, "loss") is None
        return unknown or self.behind(name, rival, "loss") or self.behind(name, SELECTIVE, "loss")

    def behind(self, name: str, other: str, measure: str) -> bool:
        """Whether a contender is clearly worse than another one on a measure.

        Intervals are those of the gain of the selective loss, over itself 0. Where those over two others do not
        overlap, at least 95 % of the resamples agree on which of the two is worse.
        """
        gains = self.gain(name, measure), self.gain(other, measure)
        return gains[0] is not None and gains[1] is not None and gains[0].low > gains[1].high

    def conflicts(self, name: str) -> dict[str, str]:
        """Measures of the task on which a contender is clearly worse than others, and the best of these."""
        found = {}
        for measure in filter(lambda measure: measure.task, self.measures.values()):
            sign = 1.0 if measure.better == "high" else -1.0
            better = [c.name for c in self.contenders.values() if c.trained and self.behind(name, c.name, measure.name)]
            if better:
                found[measure.name] = max(better, key=lambda other: sign * self.value(other, measure.name))
        return found

    def title(self, name: str) -> str:
        """A contender for people."""
        return self.contenders[name].title

    def score(self, name: str | None, measure: str) -> Score | None:
        """A score, None where there was nothing to measure."""
        found = self.scores.get(name or "", {}).get(measure)
        return None if found is None or math.isnan(found.estimate.value) else found

    def gain(self, name: str, measure: str) -> Estimate | None:
        """The gain of the selective loss over a contender, 0 over itself; None where there was nothing to measure."""
        score = self.score(name, measure)
        return None if score is None else score.gain if name != SELECTIVE else Estimate(0.0, 0.0, 0.0)

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
    """In how many splits the cost is lower than with the rival, and in how many both were measured."""
    pairs = zip(case.scores[SELECTIVE]["loss"].splits, case.scores[rival]["loss"].splits, strict=True)
    known = [(ours, theirs) for ours, theirs in pairs if not math.isnan(ours) and not math.isnan(theirs)]
    return sum(ours < theirs for ours, theirs in known), len(known)


# -------------------------------------------------------------------------------------------- how much lower, or higher


def compared(case: Case, name: str, what: str = " cost") -> str:
    """The cost of the selective loss beside that of another: "5.4 % lower cost than squared error (4.1 to 6.8 %)"."""
    score, title = case.scores[name]["loss"], case.title(name)
    share = score.relative
    if share is None or not all(map(math.isfinite, (share.value, share.low, share.high))):
        gain = math.nan if score.gain is None else score.gain.value
        return f"{'a lower' if what else 'lower'}{what} than {title}" if gain > 0.0 else f"no lower{what} than {title}"
    if share.low <= 0.0 <= share.high:
        return f"about the same{what} as {title} (from {_lower_or_higher(share.low)} to {_lower_or_higher(share.high)})"
    low, high = sorted((abs(share.low), abs(share.high)))
    ends = f"{_percent(low).removesuffix(' %')} to {_percent(high)}"
    return f"{_lower_or_higher(share.value)}{what} than {title} ({ends})"


def _lower_or_higher(share: float) -> str:
    return f"{_percent(abs(share))} {'higher' if share < 0.0 else 'lower'}"


def _percent(share: float) -> str:
    """In percent, with a decimal; small shares are not rounded to nothing."""
    return f"{100.0 * share:.1f} %" if share == 0.0 or share >= 0.0005 else f"{100.0 * share:.1g} %"


# -------------------------------------------------------------------------------------------------------- the sentences


def sentences(case: Case, kind: str, rival: str | None, winner: str, known: Collection[str] = ()) -> tuple[str, ...]:
    """A few things to know, the most important first; the last is what to do next.

    Parameters
    ----------
    case : Case
        The numbers.
    kind, rival, winner : str
        Of the verdict.
    known : collection of str
        Contenders whose cost the headline has compared.
    """
    said = (
        _against(case, known),
        _contradicted(case, kind, winner),
        _in_splits(case, rival),
        _beaten(case, rival),
        _within_lists(case, kind),
        _price(case, rival),
        _constant(case),
        _bias(case),
        _control(case),
    )
    return (*list(filter(None, said))[: MOST - 1], advice(case, kind, rival, winner))


def _against(case: Case, known: Collection[str]) -> str:
    """Against what people use now, and against the strongest simple rival, unless the headline has said so."""
    names = [name for name in ("squared", "reweighted") if name in case.others() and case.score(name, "loss")]
    if all(name in known for name in names):
        return ""
    return f"The cost is {', and '.join(compared(case, name, '') for name in names)}."


def _contradicted(case: Case, kind: str, winner: str) -> str:
    """Which measures of the task speak against whom the verdict speaks for, besides the one in its headline."""
    said = []
    for name in dict.fromkeys((SELECTIVE, winner) if kind == "mixed" else (winner,)):
        found = [worse_than(case, name, measure, other) for measure, other in case.conflicts(name).items()]
        found = found[1:] if kind == "mixed" and name == SELECTIVE else found
        if found:
            said.append(f"With {called(case, name)}, {'; '.join(found)}.")
    return " ".join(said)


def worse_than(case: Case, name: str, measure: str, other: str) -> str:
    """A measure on which a contender is clearly worse: "NDCG@10 is 0.477, clearly worse than 0.485 with Huber loss"."""
    ours, theirs = case.text(name, measure), case.text(other, measure)
    return f"{case.measures[measure].title} is {ours}, clearly worse than {theirs} with {called(case, other)}"


def called(case: Case, name: str) -> str:
    """A contender in a sentence."""
    return f"the {case.title(name)}" if name == SELECTIVE else case.title(name)


def _in_splits(case: Case, rival: str | None) -> str:
    if rival is None or case.score(rival, "loss") is None or case.score(SELECTIVE, "loss") is None:
        return ""
    better, counted = agreement(case, rival)
    chosen = ", the best of the others on the validation rows," if len(case.others()) > 1 else ""
    if not counted:
        return ""
    if counted == 1:
        lower = "lower" if better else "not lower"
        return (
            f"The cost is {lower} than with {case.title(rival)}{chosen} in the only split; one split shows nothing "
            "about chance in training."
        )
    return f"The cost is lower than with {case.title(rival)}{chosen} in {better} of {counted} splits."


def _beaten(case: Case, rival: str | None) -> str:
    """Whoever beats the selective loss on the tested rows is named, also when it is not the rival."""
    named = [case.title(name) for name in case.others() if name != rival and case.against(name, "loss") == "worse"]
    if not named:
        return ""
    return (
        f"With {' and '.join(named)} the cost is clearly lower on the tested rows, though not lowest on the validation "
        "rows: a choice by the tested rows would flatter itself, but look into it."
    )


def learns_nothing(case: Case) -> bool:
    """Whether the selective loss is not clearly better than the best constant, which needs no features."""
    explained = case.score(SELECTIVE, "explained")
    return explained is not None and explained.estimate.low <= 0.0


def _constant(case: Case) -> str:
    if not learns_nothing(case):
        return ""
    return "Its predictions are not clearly better than one constant for all rows: the features may tell too little."


def _within_lists(case: Case, kind: str) -> str:
    """Against the best of all others, which may have been trained for just that, unless it was said already."""
    if kind == "mixed" and "ndcg" in case.conflicts(SELECTIVE):
        return ""
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
    """What it buys, and what it costs elsewhere."""
    usual = case.usual(rival)
    names = {"mae": "the error of all rows", "mae_predicted": "the error where the prediction is in the region"}
    if "false_high" in case.measures:
        names["false_high"] = f"the {case.measures['false_high'].title}"
    measured = [name for name in names if case.score(usual, name) and case.score(SELECTIVE, name)]
    if usual is None or not measured:
        return ""
    title, bought = case.title(usual), ""
    if case.against(usual, "capture") == "better":
        ours, theirs = (case.text(name, "capture") for name in (SELECTIVE, usual))
        bought = f"It finds {ours} of the region instead of {theirs} with {title}. "
    worse = [name for name in measured if case.against(usual, name) == "worse"]
    if not worse:
        where = _listed([names[name] for name in measured])
        return f"{bought}No price was found in {where}: not clearly worse than with {title}."
    values = {name: f"{case.text(SELECTIVE, name)} instead of {case.text(usual, name)}" for name in worse}
    prices = _listed([f"{names[name]} is {value}" for name, value in values.items()])
    return f"{bought}The price: {prices}." if bought else f"The price, against {title}: {prices}."


def _listed(parts: list[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)}{',' if len(first) > 1 else ''} and {last}" if first else last


def _control(case: Case) -> str:
    """What the control shows where it is the better one, or has half of the gain, on the error that can be cheated."""
    control, squared, ours = (case.value(name, "mae_observed") for name in (CONTROL, "squared", SELECTIVE))
    if not (control < squared and (control < ours or squared - control > 0.5 * (squared - ours))):
        return ""
    before, after, beside = (case.text(name, "mae_observed") for name in ("squared", CONTROL, SELECTIVE))
    costs = ", and yet has a clearly higher cost" if case.against(CONTROL, "loss") == "better" else ""
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
        size = f"{shown(abs(mean.value))} too {'high' if mean.value > 0.0 else 'low'}"
        said = f"As means its predictions are {size}{_of_target(case, mean.value)}. "
    if not _clear(link):
        return (
            f"{said}In link space they show no clear bias. This is meant: a selective loss aims at the score whose "
            "link is the mean of the links, not at the mean score."
        )
    known = case.score("squared", "link_bias") is not None
    beside = f" ({case.text('squared', 'link_bias')} with squared error)" if known else ""
    some = "Some of that is meant. But in" if said else "In"
    return f"{said}{some} link space, where none is meant, the bias is {shown(link.value)}{beside}."


def _of_target(case: Case, error: float) -> str:
    """What an error of logarithms is for the target."""
    if case.scale != "log":
        return ""
    share = abs(math.expm1(error))
    return f" (about {100.0 * share:.2g} % of the target)" if share < 1.0 else f" (a factor of {math.exp(error):.2g})"


#: a gain over the rival below this share is real and may still not pay
LITTLE = 0.02


def advice(case: Case, kind: str, rival: str | None, winner: str) -> str:
    """What to do next."""
    if rival is None:
        return "Next: let it compete with squared error and re-weighted squared error."
    if kind == "mixed":
        return f"Next: decide what you act on. {_choice(case, SELECTIVE)}; for the lowest cost, the selective loss."
    if kind == "helps":
        share = case.scores[rival]["loss"].relative
        small = share is not None and share.value < LITTLE
        but = f" The gain is small: if you already use {case.title(rival)}, you may stay with it." if small else ""
        return f"Next: use it. The program that trains it is at the end of the report, and in comparison.code.{but}"
    simplest, title = winner, case.title(winner)
    if case.conflicts(winner):
        return f"Next: decide what you act on. {_choice(case, winner)}; otherwise {title} will do."
    if kind == "too little data":
        return f"Next: take more rows, or a wider region; until then {title} will do."
    if case.against(simplest, "loss") == "better":
        reason = ", which is simpler, until the splits agree"
    elif kind == "does not help" and simplest == rival:
        reason = ""
    elif len(case.others()) == 1:
        reason = ", which is simpler"
    elif simplest != case.cheapest(rival)[0]:
        reason = ", the simplest loss that is not clearly worse than the best, in cost or in order"
    else:
        reason = ", the simplest loss that is not clearly worse than the best"
    if kind == "does not help":
        return f"Next: use {title}{reason}. If that surprises you, check that the region is where errors cost you."
    return f"Next: use {title}{reason}; more rows would show smaller differences."


def _choice(case: Case, name: str) -> str:
    """Whom to take instead by the first measure of the task that speaks against a contender."""
    measure, other = next(iter(case.conflicts(name).items()))
    return f"For the best {case.measures[measure].title} take {called(case, other)}"
