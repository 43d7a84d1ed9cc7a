"""The selective loss of whole lists, with the boosters that know lists."""

from __future__ import annotations

from typing import Any

import pandas

from selmatch import boosting
from selmatch.comparison.fitting import PATIENCE, Part
from selmatch.comparison.journal import Outcome


def fit_listwise(part: Part, params: dict[str, Any]) -> Outcome:
    """Train a booster with the listwise loss of the wish, which it also stops and is judged by."""
    settled = ("metric", "objective")
    params = {name: value for name, value in params.items() if name not in settled}
    sets = {
        name: (_frame(part, name), part.list_scores(part.scores(name)), part.list_weights(name), part.sizes(name))
        for name in ("train", "valid")
    }
    X, labels, weights, sizes = sets["train"]
    model = getattr(boosting, part.question.model)(part.list_loss, ranking="listwise").fit(
        X, labels, weights=weights, groups=sizes, rounds=part.question.rounds, params=params,
        validation=sets["valid"], early_stopping=PATIENCE,
    )  # fmt: skip
    best = model.best_iteration
    (history,) = model.history.values()
    # trees that find nothing more to split end training without a best round
    rounds = best + 1 if best is not None and best >= 0 else len(history)
    valid, test = (
        model.objective.predict(model.booster, X, rounds=rounds) for X in (sets["valid"][0], _frame(part, "test"))
    )
    return Outcome(test.astype(float), valid.astype(float), float(history[rounds - 1]), rounds)


def _frame(part: Part, name: str) -> pandas.DataFrame:
    """Features as a frame, whose categories boosters know."""
    frame = pandas.DataFrame(part.matrix(name), columns=[f"f{i}" for i in range(part.rows.matrix.shape[1])])
    for i in part.rows.categorical:
        codes = range(int(part.rows.matrix[:, i][~pandas.isna(part.rows.matrix[:, i])].max()) + 1)
        frame[f"f{i}"] = pandas.Categorical(frame[f"f{i}"].astype("Int64"), categories=list(codes))
    return frame
