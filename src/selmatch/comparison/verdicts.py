"""What the numbers of a comparison say, in plain words, by rules that are the same for all data."""

from __future__ import annotations

import math
from collections.abc import Mapping

from selmatch.comparison.question import Question
from selmatch.comparison.result import SELECTIVE, Contender, Data, Measure, Score, Verdict
from selmatch.comparison.sentences import Case, agreement, compared, learns_nothing, sentences, worse_than

#: fewer tested rows in the region decide nothing
FEWEST_INSIDE = 30
#: the share of splits that must agree
AGREEMENT = 0.8
#: an interval that covers 0, and is wider than twice this share of the rival's cost, says nothing
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

    The cost is the mean selective loss. The rival is the contender with the lowest mean cost on the *validation* rows,
    of those that are trained with another loss and predict scores; the tested rows have no part in choosing it. A gain
    over a contender is by how much the cost of the selective loss is lower, on the same tested rows; it is clear where
    its interval excludes 0. The first rule that fits counts:

    =================  ========================================================================================
    kind               rule
    =================  ========================================================================================
    too little data    there is no rival, or no interval of the gain over it, or fewer than 30 tested rows are in
                       the region
    helps              all of these: the gain over the rival is clear; the cost is lower than the rival's in at
                       least 80 % of the splits (a single split agrees or does not, and a sentence says how little
                       that is); the gain over squared error is clear, where that competes; no other loss is
                       clearly better; the cost is clearly lower than that of the best constant; and no measure of
                       the user's task (``Measure.task``) is clearly worse than with another loss
    mixed              the same, but a measure of the user's task is clearly worse than with another loss, also one
                       that only orders
    does not help      the rival is clearly better
    too little data    the interval of the gain over the rival covers 0, and is wider than the rival's cost
    no difference      everything else: that interval covers 0, or the splits do not agree, or the gain over squared
                       error is not clear, or another loss is clearly better, or a constant does as well
    =================  ========================================================================================

    The winner is whom the verdict advises: the selective loss where it helps, else the simplest of the others (squared
    error, then squared error of the logarithm or of the raw target, re-weighted squared error, Huber, quantile) that is
    not clearly worse than the selective loss or than the rival, and of those one that no measure of the task speaks
    against, where there is one; the rival where there is none. Where the verdict is mixed, the winner is the best of
    the losses with a unit that are clearly better at the task; the selective loss where there is none. Whatever
    measures of the task speak against the winner is said, and the advice is then a choice.

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
    by_name = {contender.name: contender for contender in contenders}
    case = Case(by_name, {measure.name: measure for measure in measures}, scores, question.scale)
    rival = case.rival()
    kind, reason = _judge(case, rival, inside)
    headline, known = _headline(case, kind, rival, reason)
    winner = _winner(case, kind, rival)
    return Verdict(kind, headline, sentences(case, kind, rival, winner, known), winner, rival or "")


def _winner(case: Case, kind: str, rival: str | None) -> str:
    if kind == "helps" or rival is None:
        return SELECTIVE
    if kind == "mixed":
        better = case.conflicts(SELECTIVE).values()
        return next((name for name in better if not case.contenders[name].ordinal), SELECTIVE)
    return case.simplest(rival)


def _judge(case: Case, rival: str | None, inside: int | None) -> tuple[str, str]:
    """The kind of the verdict, and the reason where there is too little to tell."""
    if rival is None:
        return "too little data", "there is no other loss to compare with."
    score = case.score(rival, "loss")
    if score is None or score.gain is None or math.isnan(score.gain.low) or math.isnan(score.gain.high):
        return "too little data", "the cost could not be measured with an interval."
    if inside is not None and inside < FEWEST_INSIDE:
        rows = {0: "no tested row is", 1: "only 1 tested row is"}.get(inside, f"only {inside} tested rows are")
        return "too little data", f"{rows} in the region."
    gain = score.gain
    better, counted = agreement(case, rival)
    agreed = better >= AGREEMENT * counted
    if gain.low > 0.0 and agreed and _beats_the_others(case, rival) and not learns_nothing(case):
        return "mixed" if case.conflicts(SELECTIVE) else "helps", ""
    if gain.high < 0.0:
        return "does not help", ""
    if gain.low <= 0.0 and gain.high - gain.low > 2.0 * WIDEST * score.estimate.value:
        return "too little data", f"it ends with {compared(case, rival)}."
    return "no difference", ""


def _beats_the_others(case: Case, rival: str) -> bool:
    """Whether squared error is clearly worse, and nobody is clearly better: the rival may have been a lucky choice."""
    against = {name: case.against(name, "loss") for name in case.others()}
    return against[case.usual(rival) or rival] == "better" and "worse" not in against.values()


def _headline(case: Case, kind: str, rival: str | None, reason: str) -> tuple[str, tuple[str, ...]]:
    """The verdict in a sentence or two, and the contenders with whom it compares the cost."""
    if rival is None or kind == "too little data":
        return f"Too little data to tell whether a selective loss helps: {reason}", ()
    against, usual = compared(case, rival), case.usual(rival) or rival
    if kind == "helps":
        if usual == rival:
            return f"The selective loss helps: {against}.", (rival,)
        both = f"{compared(case, usual)}, {compared(case, rival, '')}"
        return f"The selective loss helps: {both}.", (usual, rival)
    if kind == "mixed":
        measure, other = next(iter(case.conflicts(SELECTIVE).items()))
        but = worse_than(case, SELECTIVE, measure, other)
        return f"The measures disagree: the selective loss ends with {against}, but {but}.", (rival,)
    if kind == "does not help":
        return f"A selective loss does not help here: it ends with {against}.", (rival,)
    if learns_nothing(case):
        told = "the features tell too little: no loss can help much while one constant does as well"
        return f"A selective loss makes no clear difference here: {told}.", ()
    if case.against(rival, "loss") == "better":
        better, counted = agreement(case, rival)
        but, known = f"lower in only {better} of {counted} splits", (rival,)
        if better >= AGREEMENT * counted:
            other = next((name for name in case.others() if case.against(name, "loss") == "worse"), usual)
            but, known = compared(case, other, ""), (rival, other)
        return f"A selective loss makes no clear difference here: {against} on all tested rows, but {but}.", known
    if usual != rival and case.against(usual, "loss") == "better":
        same = case.title(rival).capitalize()
        ends = f"A selective loss ends with {compared(case, usual)}, but {against}"
        return f"{same} does the same job here. {ends}.", (usual, rival)
    return f"A selective loss makes no clear difference here: it ends with {against}.", (rival,)
