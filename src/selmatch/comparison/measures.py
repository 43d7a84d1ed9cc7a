"""What is measured on the tested rows, in plain words, and the sums that each mean is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from selmatch.analysis import sensitivity
from selmatch.comparison.question import Question
from selmatch.comparison.ranking_measures import LIST_MEASURES, Lists
from selmatch.comparison.result import Comparison, Measure, Region, Tested
from selmatch.losses import MatchingLoss
from selmatch.words import readable

#: headings of the blocks of the table
KINDS = {
    "aim": "What was asked for: a low cost",
    "observed": "Errors where the observation is in the region, and everywhere",
    "predicted": "Errors where the prediction is in the region",
    "bias": "Bias, of scores and in link space",
    "order": "Finding and ordering the rows of the region",
    "lists": "Order within each list",
}
#: what intervals say, and what they do not
INTERVALS = (
    "Intervals hold 95 % of resamples of the tested rows (whole clusters or groups where there are any), the same for "
    "all. They say how much depends on which rows were tested, not on chance in training: for that, compare the splits."
)
#: by focus word: what it is to take a row for one of the region
_FALSE = {"high": "false-high rate", "low": "false-low rate"}
#: why order is not looked at across splits
_WITHIN_SPLITS = "Within each split, then averaged: each split has its own model."
#: a region whose share of the rows is further from the wish than this factor, to either side, is worth a sentence
_FAR = 1.25


def cost_sentence(comparison: Comparison) -> str:
    """What "cost" means in this comparison, for those who read its verdict.

    It says too when the region holds far more or fewer rows than were asked for, as happens with few different targets.
    """
    asked = "what you asked for" if comparison.question.wish else "the mean of the loss that you gave"
    times = _times(comparison)
    weigh = f"weigh {readable(times, 3)} times as much as" if math.isfinite(times) else "weigh more than"
    return (
        f"Cost: {asked}. Mistakes in the region, {comparison.region.words}, {weigh} elsewhere, on average over your "
        f"rows.{_share_sentence(comparison)}"
    )


def _times(comparison: Comparison) -> float:
    """Mean sensitivity inside the region over that outside; of the designed loss as it was reached."""
    wish, tested = comparison.loss.wish, comparison.tested
    if comparison.question.wish and wish is not None:
        return wish.reached
    found = np.asarray(sensitivity(comparison.loss, tested.observed), dtype=float)
    weights = np.ones(len(found)) if tested.weights is None else tested.weights
    inside = comparison.region.holds(tested.observed)
    with np.errstate(all="ignore"):
        within, beyond = (np.sum((weights * found)[where]) / np.sum(weights[where]) for where in (inside, ~inside))
        return float(within / beyond)


def _share_sentence(comparison: Comparison) -> str:
    wish, asked = comparison.loss.wish, comparison.question.wish.get("top")
    if asked is None or wish is None or 1.0 / _FAR <= wish.covered / asked <= _FAR:
        return ""
    reason = ": rows with equal targets stay together" if wish.covered > asked else ""
    return (
        f" This region holds {100.0 * wish.covered:.3g} % of the rows, not the {100.0 * asked:.3g} % asked for{reason}."
    )


@dataclass(frozen=True)
class Rows:
    """The tested rows as the measures of one contender see them.

    Attributes
    ----------
    error : array
        Predicted minus observed scores.
    link_error : array
        The same after the link: h(predicted) - h(observed).
    loss, constant : array
        The cost (selective loss) of each prediction, and of the best constant prediction.
    inside, chosen : boolean array
        Which observations, and which predictions, are in the region.
    """

    error: np.ndarray
    link_error: np.ndarray
    loss: np.ndarray
    constant: np.ndarray
    inside: np.ndarray
    chosen: np.ndarray

    @classmethod
    def of(cls, predicted: np.ndarray, tested: Tested, loss: MatchingLoss, region: Region) -> Rows:
        """What the measures need of one contender's predictions."""
        observed = np.asarray(tested.observed, dtype=float)
        predicted = np.asarray(predicted, dtype=float)
        domain = loss.potential.domain
        known = np.asarray(loss.potential.holds(predicted))
        best = np.broadcast_to(loss.minimiser(observed, tested.weights), observed.shape)
        with np.errstate(all="ignore"):  # a loss or a link may be infinite, and is then shown as such
            value = loss(predicted, observed, where=known, reduction="none")
            link_error = loss.grad(np.clip(predicted, domain.low, domain.high), observed)
            constant = loss(best, observed, reduction="none")
        return cls(
            error=predicted - observed,
            link_error=_finite(link_error),
            loss=np.where(known, value, np.inf),
            constant=constant,
            inside=region.holds(observed),
            chosen=region.holds(predicted),
        )


def _finite(link_error: np.ndarray) -> np.ndarray:
    """Infinite moves (at the ends of a link like the logit) as large as the largest finite one, so that means exist."""
    finite = link_error[np.isfinite(link_error)]
    if not len(finite):
        return np.full_like(link_error, np.nan)
    return np.clip(link_error, finite.min(), finite.max())


#: each of these measures is sum(first) / sum(second) over the rows
RATIOS: dict[str, Callable[[Rows], tuple[np.ndarray, np.ndarray]]] = {
    "loss": lambda rows: (rows.loss, np.ones_like(rows.loss)),
    "explained": lambda rows: (rows.constant - rows.loss, rows.constant),
    "mae_observed": lambda rows: (abs(rows.error) * rows.inside, rows.inside),
    "bias_observed": lambda rows: (rows.error * rows.inside, rows.inside),
    "mae": lambda rows: (abs(rows.error), np.ones_like(rows.error)),
    "mae_predicted": lambda rows: (abs(rows.error) * rows.chosen, rows.chosen),
    "bias_predicted": lambda rows: (rows.error * rows.chosen, rows.chosen),
    "bias": lambda rows: (rows.error, np.ones_like(rows.error)),
    "link_bias": lambda rows: (rows.link_error, np.ones_like(rows.error)),
    "link_bias_predicted": lambda rows: (rows.link_error * rows.chosen, rows.chosen),
    "capture": lambda rows: (rows.chosen & rows.inside, rows.inside),
    "false_high": lambda rows: (rows.chosen & ~rows.inside, ~rows.inside),
}


def measures_for(tested: Tested, question: Question, grouped: bool) -> tuple[Measure, ...]:
    """The measures of a comparison, in the order of its table; those of lists where there are groups.

    Parameters
    ----------
    tested : Tested
        The tested rows.
    question : Question
        What was asked.
    grouped : bool
        Whether rows belong to lists, which are ordered each for itself.
    """
    return (*_of_rows(question, grouped), *(_of_lists(tested, question) if grouped else ()))


def _of_rows(question: Question, grouped: bool) -> tuple[Measure, ...]:
    if grouped or not question.top:
        precision, k = "top-k precision", "k is the number of rows observed in the region, so that 100 % is possible"
    else:
        precision, k = f"precision of the top {question.top:,}", f"k is {question.top:,}, shared out among the splits"
    wrong = _FALSE.get(str(question.wish.get("word")), "false-alarm rate")
    return (
        Measure("loss", "cost",
                "The mean selective loss of the predictions: what mistakes cost when they weigh more in the region, as "
                "you asked. Its unit is its own: compare it between contenders, never between different selective "
                "losses.",
                "low", "loss", "aim"),
        Measure("explained", "cost saved",
                "The share of the cost of the best constant prediction that is saved: 100 % is perfect, 0 % is no "
                "better than a constant, and below 0 is worse.",
                "high", "share", "aim"),
        Measure("mae_observed", "error, observed inside",
                "Mean absolute error of the rows whose observed score is in the region. Trap: it can be cheated by "
                "adding a constant to all predictions, as the control shows; do not choose by it alone.",
                "low", "score", "observed"),
        Measure("bias_observed", "bias, observed inside",
                "Mean of predicted minus observed on the same rows. Trap: rows picked for an extreme outcome were "
                "partly luck, so that honest predictions fall short of them.",
                "zero", "score", "observed"),
        Measure("mae", "error, all rows",
                "Mean absolute error of all rows, wherever they are: part of the price of looking at one region.",
                "low", "score", "observed"),
        Measure("mae_predicted", "error, predicted inside",
                "Mean absolute error of the rows whose predicted score is in the region: what you meet when you act on "
                "predictions. Trap: each loss picks its own rows here; who predicts the region rarely may look good.",
                "low", "score", "predicted"),
        Measure("bias_predicted", "bias, predicted inside",
                "Mean of predicted minus observed on the same rows: whether a prediction in the region holds what it "
                "promises, as a mean.",
                "zero", "score", "predicted"),
        Measure("bias", "bias",
                "Mean of predicted minus observed over all rows. A selective loss does not aim at means, so that some "
                "bias here is meant; see the bias in link space.",
                "zero", "score", "bias"),
        Measure("link_bias", "bias in link space",
                "Mean of h(predicted) - h(observed), h being the link of the selective loss: this is the bias that it "
                "brings to 0. Losses that aim at means are biased here.",
                "zero", "link", "bias"),
        Measure("link_bias_predicted", "link bias, predicted inside",
                "The bias in link space on the rows whose predicted score is in the region.",
                "zero", "link", "bias"),
        Measure("precision", precision,
                f"Of the k predictions deepest in the region, the share whose observed score is in it; {k}. "
                f"{_WITHIN_SPLITS}",
                "high", "share", "order", task=True),
        Measure("capture", "capture",
                "Of the rows observed in the region, the share predicted in it. Trap: who predicts the region always "
                f"captures all; read it with the {wrong}.",
                "high", "share", "order"),
        Measure("false_high", wrong,
                "Of the rows observed outside the region, the share predicted in it.",
                "low", "share", "order"),
        Measure("rank_correlation", "rank correlation inside",
                "Spearman's correlation of predicted and observed scores on the rows observed in the region: 1 is the "
                f"right order, 0 is no order at all. {_WITHIN_SPLITS}",
                "high", "", "order", task=True),
    )  # fmt: skip


def _of_lists(tested: Tested, question: Question) -> tuple[Measure, ...]:
    lists = Lists.of(tested, question)
    return tuple(
        Measure(
            name,
            kind.title(lists),
            f"{kind.words(lists)} {lists.words(kind.needs_relevant)}",
            "high",
            "",
            "lists",
            task=True,
        )
        for name, kind in LIST_MEASURES.items()
    )
