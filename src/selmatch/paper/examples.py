"""Three worked examples of the paper's text: ages, ambiguous ratings, idle users. Each with its code and its trap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import selmatch as sm

__all__ = ["Example", "example", "examples"]


@dataclass(frozen=True)
class Example:
    """A worked example.

    Attributes
    ----------
    name, title : str
        For files and the shell, and for people.
    words : str
        What is wanted, how it is done, and what to beware of.
    code : str
        The loss in a few lines that run as they stand.
    draw : callable
        Draws it and returns the ``matplotlib`` figure.
    numbers : callable
        What was measured, by name.
    """

    name: str
    title: str
    words: str
    code: str
    draw: Callable[[], Any]
    numbers: Callable[[], Mapping[str, float]]


def examples() -> tuple[Example, ...]:
    """The three examples, in the order of the paper's text.

    Examples
    --------
    >>> from selmatch.paper.examples import examples
    >>> [example.name for example in examples()]
    ['age', 'ratings', 'idle_users']
    """
    return (AGE, RATINGS, IDLE_USERS)


def example(name: str) -> Example:
    """The example of a name."""
    found = {example.name: example for example in examples()}
    if name not in found:
        raise ValueError(f"paper.example: name must be one of {', '.join(found)}, got {name!r}.")
    return found[name]


def best_constant(loss: sm.MatchingLoss, scores: np.ndarray) -> float:
    """The prediction with the least mean loss; also for a link for each label, which has no closed form."""
    low, high = float(np.min(scores)), float(np.max(scores))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if np.mean(loss.grad(np.full(scores.shape, middle), scores)) > 0 else (middle, high)
    return 0.5 * (low + high)


def _panels(count: int, width: float = 2.6) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    return plt.subplots(1, count, figsize=(width * count, 2.5), layout="constrained")


# --------------------------------------------------------------------------------------------------------------- age

CHILDREN, ADULTS = np.arange(5.0, 16.0), np.arange(30.0, 51.0)
STEEPNESS = 0.2


@functools.cache
def age_loss() -> sm.MatchingLoss:
    """For children too low is worse, for adults too high; every label is equally sensitive to small errors."""
    curves: dict[float, sm.Curve] = {
        float(age): shape.affine(alpha=STEEPNESS, beta=float(age), gain=1.0 / STEEPNESS)
        for shape, ages in ((sm.AntiExp(), CHILDREN), (sm.Exp(), ADULTS))
        for age in ages
    }
    return sm.MatchingLoss(sm.PerLabel(curves))


@functools.cache
def one_link_for_all_ages() -> sm.MatchingLoss:
    """The tempting alternative: a sinh, concave for children and convex for adults."""
    return sm.MatchingLoss(sm.Sinh().affine(alpha=STEEPNESS, beta=22.0))


def age_numbers() -> dict[str, float]:
    """Asymmetries of both designs, and what they predict where the age is not known."""
    own, shared, error = age_loss(), one_link_for_all_ages(), 5.0
    return {
        "child of 10: too low / too high": own(10.0 - error, 10.0) / own(10.0 + error, 10.0),
        "adult of 40: too high / too low": own(40.0 + error, 40.0) / own(40.0 - error, 40.0),
        "one link, child: too low / too high": shared(10.0 - error, 10.0) / shared(10.0 + error, 10.0),
        "one link, adult: too high / too low": shared(40.0 + error, 40.0) / shared(40.0 - error, 40.0),
        "mean of the children": float(CHILDREN.mean()),
        "prediction for children": best_constant(own, CHILDREN),
        "one link, prediction for children": best_constant(shared, CHILDREN),
        "mean of the adults": float(ADULTS.mean()),
        "prediction for adults": best_constant(own, ADULTS),
        "one link, prediction for adults": best_constant(shared, ADULTS),
    }


def draw_age() -> Any:
    """Losses of a child and an adult, and what is predicted for a group of unknown age."""
    from selmatch import plots

    with plots.theme():
        figure, axes = _panels(3)
        for ax, age, ages in ((axes[0], 10.0, (0, 25)), (axes[1], 40.0, (25, 55))):
            plots.losses(age_loss(), observed=(age,), domain=ages, ax=ax, legend=False)
            scores = np.linspace(*ages, 201)
            squares = sm.MatchingLoss(sm.Identity())(scores, np.full_like(scores, age), reduction="none")
            ax.plot(scores, squares, ":", color="grey", label="squared error")
            ax.set(title=f"{'child' if age < 18 else 'adult'} of {age:g}", xlabel="predicted age", ylim=(0, 60))
        axes[0].set_ylabel("loss")
        axes[1].set_ylabel("")
        axes[0].legend(fontsize="x-small", frameon=False)
        found = age_numbers()
        for row, (who, group) in enumerate((("children", CHILDREN), ("adults", ADULTS))):
            values = [found[f"prediction for {who}"], found[f"one link, prediction for {who}"]]
            for value, colour, mark, label in zip(
                values, ("blue", "vermillion"), "os", ("a link for each label", "one sinh link"), strict=True
            ):
                axes[2].plot(
                    value - group.mean(), row, mark, color=plots.COLOURS[colour], label=label if row == 0 else None
                )
        axes[2].axvline(0.0, color="grey", linewidth=0.6)
        axes[2].set(yticks=(0, 1), yticklabels=("children", "adults"), ylim=(-0.6, 2.1), title="unknown age")
        axes[2].set_xlabel("prediction minus mean age")
        axes[2].legend(fontsize="x-small", frameon=False, loc="upper left")
    return figure


AGE = Example(
    "age",
    "Age: too old is bad for an adult, too young for a child",
    "Errors of age cost differently by label, so every label gets its own link: AntiExp for children (too low costs "
    "more), Exp for adults (too high costs more), each centred on its label so that small errors cost the same "
    "everywhere. With five years of error the bad side costs twice the other. Where the age is not known the "
    "predictions lean the safe way: up for children, down for adults. The trap: one sinh link over all ages has the "
    "same asymmetry at every label, and yet leans the wrong way, because a single link also makes some labels count "
    "more than others, and is drawn to those.",
    """import selmatch as sm

curves = {age: sm.AntiExp().affine(alpha=0.2, beta=age, gain=5.0) for age in range(5, 16)}
curves |= {age: sm.Exp().affine(alpha=0.2, beta=age, gain=5.0) for age in range(30, 51)}
loss = sm.MatchingLoss(sm.PerLabel(curves))
loss([5.0, 15.0], [10.0, 10.0], reduction="none")   # a child of 10, five years too low and too high
loss([35.0, 45.0], [40.0, 40.0], reduction="none")  # an adult of 40
""",
    draw_age,
    age_numbers,
)


# ----------------------------------------------------------------------------------------------------------- ratings

#: of 100 raters five disagree; the others mean "good", and say 4 or 5 as they please
DISAGREE = 5


def ratings(fives: int) -> np.ndarray:
    """100 ratings of one item: a few say 1, some 5, the others 4."""
    return np.repeat([1.0, 4.0, 5.0], [DISAGREE, 100 - DISAGREE - fives, fives])


@functools.cache
def rating_loss() -> sm.MatchingLoss:
    """Flat between 1 and 2 and between 4 and 5, steep between bad and good."""
    return sm.MatchingLoss(sm.Identity().capped(2.0, 4.0))


@functools.cache
def trainable_rating_loss() -> sm.MatchingLoss:
    """The same with a slight slope in the flat pieces."""
    return sm.MatchingLoss(sm.Identity().capped(2.0, 4.0) + 0.05 * sm.Identity())


def rating_numbers() -> dict[str, float]:
    """What confusing neighbours costs, and how far a habit of raters moves the prediction."""
    flat, sloped, square = rating_loss(), trainable_rating_loss(), sm.MatchingLoss(sm.Identity())
    habit = {
        name: loss.minimiser(ratings(60)) - loss.minimiser(ratings(0))
        for name, loss in (("flat", flat), ("slight slope", sloped), ("square", square))
    }
    return {
        "loss of 5 for 4": flat(5.0, 4.0),
        "loss of 1 for 2": flat(1.0, 2.0),
        "loss of 2 for 4": flat(2.0, 4.0),
        "gradient at 4.5 for 4": flat.grad(4.5, 4.0),
        "gradient at 4.5 for 4, slight slope": sloped.grad(4.5, 4.0),
        "prediction": flat.minimiser(ratings(0)),
        "habit of 60 raters moves it by": habit["flat"],
        "habit, slight slope": habit["slight slope"],
        "habit, squared error": habit["square"],
    }


def draw_ratings() -> Any:
    """The link, the losses of each rating, and the prediction as raters use 5 more often."""
    from selmatch import plots
    from selmatch.paper.drawings.rows import show_overlaps

    losses = {
        "flat pieces": rating_loss(),
        "with a slight slope": trainable_rating_loss(),
        "squared error": sm.MatchingLoss(sm.Identity()),
    }
    with plots.theme():
        figure, axes = _panels(3)
        plots.link(rating_loss(), domain=(0.5, 5.5), ax=axes[0], sensitivity=False, legend=False)
        axes[0].set(title="link", xlabel="rating", xticks=range(1, 6))
        plots.losses(rating_loss(), observed=(1.0, 2.0, 3.0, 4.0, 5.0), domain=(0.5, 5.5), ax=axes[1])
        show_overlaps(axes[1], by=2.0)  # neighbours share their losses
        axes[1].set(title="loss, by observed rating", xlabel="predicted rating", xticks=range(1, 6))
        fives = np.arange(0, 96, 5)
        for (name, loss), style in zip(losses.items(), ("-", "--", ":"), strict=True):
            axes[2].plot(fives, [loss.minimiser(ratings(int(count))) for count in fives], style, label=name)
        axes[2].set(title="best prediction", xlabel="raters who say 5 for good (of 95)", ylabel="rating")
        axes[2].legend(fontsize="x-small", frameon=False)
    return figure


RATINGS = Example(
    "ratings",
    "Ambiguous ratings: 4 or 5 stars, it means the same",
    "Raters agree on bad and good, not on 4 against 5. A link that is flat between 1 and 2 and between 4 and 5 gives "
    "neighbours in a flat piece no loss at all, while bad for good still costs. Whether 0 or 60 of 100 raters write 5 "
    "for good does not move the prediction; squared error moves by more than half a star. The trap: in a flat piece "
    "there is no gradient, so a model gets no push there, boosters see a curvature of 0, and every prediction in the "
    "piece is equally good. A slight slope (5 %) repairs that for a small part of the noise.",
    """import selmatch as sm

flat = sm.MatchingLoss(sm.Identity().capped(2.0, 4.0))
flat(5.0, 4.0), flat(2.0, 4.0)    # 0 between 4 and 5 stars; bad for good costs
sm.certify.flat_regions(flat)     # where moves cost nothing, proved
loss = sm.MatchingLoss(sm.Identity().capped(2.0, 4.0) + 0.05 * sm.Identity())  # to train with
""",
    draw_ratings,
    rating_numbers,
)


# -------------------------------------------------------------------------------------------------------- idle users

CAP, IDLE = 300.0, 1800.0


@functools.cache
def visits() -> np.ndarray:
    """Seconds of 1,000 visits, no two alike: quantiles of a log-normal shape, the median at 33 s, cut at the cap."""
    ranks = (np.arange(1000) + 0.5) / 1000.0
    return np.minimum(np.exp(3.5 + 0.9 * np.sqrt(np.pi / 8.0) * sm.Logit()(ranks)), CAP)


@functools.cache
def with_idle_users(length: float = IDLE) -> np.ndarray:
    """The same with 30 open tabs, of half an hour unless said otherwise."""
    return np.append(visits(), np.full(30, length))


@functools.cache
def visit_losses() -> dict[str, sm.MatchingLoss]:
    """Squared error and three selective losses for long visits."""
    seconds = with_idle_users()
    capped = sm.focus("high", data=seconds, cap=CAP)
    return {
        "squared error": sm.MatchingLoss(sm.Identity()),
        "high": sm.focus("high", data=seconds),
        "high, cap": capped,
        "high, hard cap": sm.MatchingLoss(capped.potential.capped(high=CAP)),
    }


def visit_numbers() -> dict[str, float]:
    """How far the length of idle sessions pulls each loss: half an hour, against counting them as visits at the cap."""
    numbers = {}
    for name, loss in visit_losses().items():
        at_the_cap = loss.minimiser(with_idle_users(CAP))
        numbers[f"{name}: prediction"] = at_the_cap
        numbers[f"{name}: idle half hours move it by"] = loss.minimiser(with_idle_users()) - at_the_cap
        numbers[f"{name}: pull of an idle user / of a visit at the cap"] = loss.grad(60.0, IDLE) / loss.grad(60.0, CAP)
    return numbers


def draw_idle_users() -> Any:
    """Sensitivity with a cap, the pull of a session by its length, and what idle users do to the prediction."""
    from selmatch import plots

    with plots.theme():
        figure, axes = _panels(3)
        plots.sensitivity(visit_losses()["high, cap"], domain=(0, 400), data=visits(), ax=axes[0])
        axes[0].set(title="sensitivity with cap = 300", xlabel="seconds")
        seconds = np.linspace(60.0, 1900.0, 400)
        styles = ("-", "--", "-.", ":")
        for (name, loss), style in zip(visit_losses().items(), styles, strict=True):
            pull = -loss.grad(np.full(seconds.shape, 60.0), seconds)
            axes[1].plot(seconds, pull / -loss.grad(60.0, CAP), style, label=name)
        axes[1].axvline(CAP, color="grey", linewidth=0.6)
        axes[1].set(
            title="pull on a prediction of 60 s", xlabel="observed seconds", ylabel="relative to one at the cap"
        )
        axes[1].set_ylim(0.0, 12.0)
        axes[1].legend(fontsize="x-small", frameon=False, loc="upper left", bbox_to_anchor=(0.12, 1.0))
        found = visit_numbers()
        names = list(visit_losses())
        moves = [found[f"{name}: idle half hours move it by"] for name in names]
        axes[2].barh(names, moves, color=plots.COLOURS["blue"], height=0.5)
        axes[2].invert_yaxis()
        axes[2].set(title="what 30 idle users move", xlabel="change of the prediction, seconds")
    return figure


IDLE_USERS = Example(
    "idle_users",
    "Idle users: long visits matter, forgotten tabs do not",
    "Long visits are worth getting right, but a tab left open for half an hour is no interest. A cap ends the "
    "sensitive region: beyond it the sensitivity falls to the floor, and with it the pull of an idle session, from "
    "ten times that of a visit at the cap to twice. Without a cap the selective loss is no better than squared error: "
    "the idle sessions are exactly where it looks. The traps: the floor is not zero, so a little pull remains (cap "
    "the curve itself to remove it). Even then an idle session counts as one more visit at the cap: drop it from the "
    "data if you can recognise it. With a hard cap nothing tells 301 seconds from 3,000. And the prediction is above "
    "the mean by design, which is no bug.",
    """import numpy as np
import selmatch as sm

seconds = np.append(np.random.default_rng(0).lognormal(3.5, 0.9, 1000).clip(max=300), np.full(30, 1800))
loss = sm.focus("high", data=seconds, cap=300)         # sensitivity falls to the floor beyond 300 s
hard = sm.MatchingLoss(loss.potential.capped(high=300))  # and to nothing
hard.grad(60.0, 1800.0) == hard.grad(60.0, 300.0)
""",
    draw_idle_users,
    visit_numbers,
)
