"""What the numbers of a comparison say, in plain words, by rules that were fixed before the numbers were known."""

from __future__ import annotations

import math
from collections.abc import Mapping

from selmatch.comparison.question import Question
from selmatch.comparison.result import SELECTIVE, Contender, Data, Measure, Score, Verdict
from selmatch.comparison.sentences import Case, advice, agreement, compared, sentences

#: fewer tested rows in the region decide nothing
FEWEST_INSIDE = 30
#: the share of splits that must agree
AGREEMENT = 0.8
#: an interval that reaches further than this share of the rival's loss to both sides, and covers 0, says nothing
WIDEST = 0.5


def verdict(
    contenders: tuple[Contender, ...],
    measures: tuple[Measure, ...],
    scores: Mapping[str, Mapping[str, Score]],
    question: Question,
    data: Data,
    *,
    inside: int | None = None,
) -> Verdict:
    """What the numbers say.

    The rival is the contender with the smallest mean loss on the *validation* rows, of those that are trained with
    another loss and predict scores; the tested rows have no part in choosing it. The gain is that of the selective loss
    over the rival, on the selective loss of the tested rows. The first rule that fits counts:

    =================  ========================================================================================
    kind               rule
    =================  ========================================================================================
    too little data    fewer than 30 tested rows are in the region; or there is no rival, or no gain to measure
    helps              the interval of the gain is above 0, and at least 80 % of the splits agree; so is the interval
                       of the gain over squared error, and no other loss is clearly better on the tested rows
    does not help      the interval of the gain is below 0
    too little data    the interval covers 0, and is wider than 50 % of the rival's loss to both sides
    no difference      everything else: an interval covers 0, or the splits do not agree
    =================  ========================================================================================

    Parameters
    ----------
    contenders, measures : tuple
        Who, and what.
    scores : mapping
        By contender, then by measure.
    question, data : Question, Data
        What was asked, of which data.
    inside : int, optional
        How many tested rows are in the region; without it the first rule has one reason less.
    """
    case = Case({contender.name: contender for contender in contenders}, {m.name: m for m in measures}, scores)
    rival = case.rival()
    kind, reason = _judge(case, rival, inside)
    return Verdict(
        kind=kind,
        headline=_headline(case, kind, rival, reason),
        sentences=(*sentences(case, rival), advice(case, kind, rival)),
        winner=SELECTIVE if kind == "helps" or rival is None else rival,
        rival=rival or "",
    )


def _judge(case: Case, rival: str | None, inside: int | None) -> tuple[str, str]:
    """The kind of the verdict, and the reason where there is too little to tell."""
    if rival is None:
        return "too little data", "there is no other loss to compare with."
    score = case.score(rival, "loss")
    if score is None or score.gain is None or math.isnan(score.gain.low) or math.isnan(score.gain.high):
        return "too little data", "the selective loss could not be measured with an interval."
    if inside is not None and inside < FEWEST_INSIDE:
        rows = {0: "no tested row is", 1: "only 1 tested row is"}.get(inside, f"only {inside} tested rows are")
        return "too little data", f"{rows} in the region."
    gain = score.gain
    better, counted = agreement(case, rival)
    if gain.low > 0.0 and better >= AGREEMENT * counted and _beats_the_others(case, rival):
        return "helps", ""
    if gain.high < 0.0:
        return "does not help", ""
    if gain.low <= 0.0 and gain.high - gain.low > 2.0 * WIDEST * score.estimate.value:
        return "too little data", f"it ends with {compared(score, 'selective loss', case.title(rival))}."
    return "no difference", ""


def _beats_the_others(case: Case, rival: str) -> bool:
    """Whether squared error is clearly worse, and nobody is clearly better: the rival may have been a lucky choice."""
    against = {name: case.against(name, "loss") for name in case.others()}
    return against[case.usual(rival) or rival] == "better" and "worse" not in against.values()


def _headline(case: Case, kind: str, rival: str | None, reason: str) -> str:
    if rival is None or kind == "too little data":
        return f"Too little data to tell whether a selective loss helps: {reason}"
    score = case.scores[rival]["loss"]
    against = compared(score, "selective loss", case.title(rival))
    if kind == "helps":
        usual = case.usual(rival)
        if usual == rival or usual is None:
            return f"The selective loss helps: {against}."
        first = compared(case.scores[usual]["loss"], "selective loss", case.title(usual))
        return f"The selective loss helps: {first}, {compared(score, '', case.title(rival))}."
    if kind == "does not help":
        return f"A selective loss does not help here: it ends with {against}."
    usual = case.usual(rival)
    if score.gain is not None and score.gain.low > 0.0:
        better, counted = agreement(case, rival)
        but = f"lower in only {better} of {counted} splits"
        if better >= AGREEMENT * counted:
            other = next((name for name in case.others() if case.against(name, "loss") == "worse"), usual or rival)
            but = compared(case.scores[other]["loss"], "", case.title(other))
        return f"A selective loss makes no clear difference here: {against} on all tested rows, but {but}."
    if usual != rival and case.against(usual, "loss") == "better":
        first = compared(case.scores[usual or ""]["loss"], "selective loss", case.title(usual or ""))
        same = case.title(rival).capitalize()
        return f"{same} does the same job here. A selective loss ends with {first}, but {against}."
    return f"A selective loss makes no clear difference here: it ends with {against}."
