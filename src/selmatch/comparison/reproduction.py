"""The winner as a short program: what a user keeps of a comparison."""

from __future__ import annotations

import pprint
from collections.abc import Iterator, Mapping
from typing import Any

from selmatch import spec
from selmatch.comparison.columns import Columns
from selmatch.comparison.contenders import Recipe, complexity, most_frequent
from selmatch.comparison.fitting import offset_of
from selmatch.comparison.result import BESIDE, SELECTIVE, Contender
from selmatch.comparison.running import Run
from selmatch.comparison.scales import Labels
from selmatch.losses import MatchingLoss
from selmatch.scales import UNCHANGED
from selmatch.sklearn.features import nameable

#: what a map is in NumPy, and what undoes it
_MAPS = {
    "log": "np.log({})", "log1p": "np.log1p({})", "exp": "np.exp({})", "expm1": "np.expm1({})", "identity": "{}",
}  # fmt: skip


def code(run: Run, contenders: tuple[Contender, ...], winner: str) -> str:
    """A program that trains the winner on all rows, with the setting that won most often, and predicts new rows.

    It runs from any folder. ``columns.json``, and ``loss.toml`` where the selective loss is trained, are beside it, or
    where :meth:`Comparison.program` says; files of another comparison are refused.

    Parameters
    ----------
    run : Run
        What was compared.
    contenders : tuple of Contender
        With the settings that were chosen.
    winner : str
        The name of one of them.
    """
    recipes = {recipe.name: recipe for recipe in run.recipes if not recipe.ordinal}
    recipe = recipes.get(winner, recipes[SELECTIVE])
    (chosen,) = (contender.chosen for contender in contenders if contender.name == recipe.name)
    setting, rounds = most_frequent(chosen)
    body = "\n".join([*_table(run, recipe), *_training(run, recipe, setting, rounds), ""])
    return "\n".join([*_head(run, recipe, body), body])


def scaled_loss(run: Run) -> MatchingLoss:
    """The selective loss, which says what its scores are."""
    scale = run.rows.scale
    return run.loss.with_scale(None if scale == UNCHANGED else scale.name)


# ------------------------------------------------------------------------------------------------------------- the data


def _head(run: Run, recipe: Recipe, body: str) -> Iterator[str]:
    yield f'"""Train what the comparison advises: {recipe.title}, with {_TITLES[run.question.model]}.'
    yield ""
    yield "With files of new rows behind its name, the program prints what it predicts for them."
    yield '"""'
    yield ""
    yield "import sys"
    yield "from pathlib import Path"
    yield ""
    if recipe.name != SELECTIVE and run.question.model != "linear":
        yield f"import {run.question.model}"
    if "np." in body:
        yield "import numpy as np"
    if run.question.model == "linear":
        yield from _LINEAR_IMPORTS
    yield ""
    if "sm." in body:
        yield "import selmatch as sm"
    yield "from selmatch.comparison import Columns"
    yield ""


_TITLES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "linear": "a linear model"}
_LINEAR_IMPORTS = (
    "from sklearn.compose import ColumnTransformer",
    "from sklearn.impute import SimpleImputer",
    "from sklearn.linear_model import HuberRegressor, QuantileRegressor, Ridge",
    "from sklearn.pipeline import make_pipeline",
    "from sklearn.preprocessing import OneHotEncoder, StandardScaler",
)


def _table(run: Run, recipe: Recipe) -> Iterator[str]:
    """Rows that have a target, scores, and features as models take them."""
    rows = run.rows
    yield f"FOLDER = {BESIDE}  # of the files that the comparison wrote"
    if rows.path:
        yield f"DATA = Path({rows.path!r})"
    else:
        yield 'DATA = FOLDER / "data.csv"  # the data frame of the comparison: frame.to_csv(DATA, index=False)'
    yield ""
    yield "# a digest keeps files of another comparison out"
    if recipe.objective == "selective":
        scores = "" if rows.scale == UNCHANGED else ".with_scale(None)  # of s, which holds the logarithms"
        yield f'loss = sm.load(FOLDER / "loss.toml", digest={spec.digest(scaled_loss(run))!r}){scores}'
    yield f'columns = Columns.load(FOLDER / "columns.json", digest={Columns.of(rows, run.question).digest!r})'
    yield "# all usable rows, with features as in the comparison"
    yield "X, y, weights = columns.training(DATA)"
    if _renamed(run):
        yield _RENAMING
    yield f"s = {_MAPS[rows.scale.name].format('y')}  # the scores"


def _renamed(run: Run) -> bool:
    return not nameable(run.rows.names) and run.question.model != "linear"


_RENAMING = 'X.columns = [f"f{i}" for i in range(X.shape[1])]  # boosters refuse some characters in names'


def _listed(names: tuple[str, ...] | list[str]) -> str:
    text = repr(list(names))
    return text if len(text) <= 100 else pprint.pformat(list(names), width=100, compact=True)


# --------------------------------------------------------------------------------------------------------- the training


def _training(run: Run, recipe: Recipe, setting: Mapping[str, Any], rounds: int) -> Iterator[str]:
    yield from _weights(run, setting)
    if run.question.model == "linear":
        lines = [*_linear(run, recipe, setting)]
    elif recipe.objective == "selective":
        lines = [*_selective(run, setting, rounds)]
    else:
        lines = [*_native(run, recipe, setting, rounds)]
    first = next(place for place, line in enumerate(lines) if line.startswith(("predicted", "scores")))
    yield from lines[:first]
    yield from ("", "", "def predict(rows):")
    yield '    """The target of new rows, in a file or a frame, which need no target."""'
    yield "    X = columns.prepare(rows)"
    if _renamed(run):
        yield f"    {_RENAMING}"
    yield from (f"    {line}" for line in lines[first:])
    yield f"    return {_MAPS[run.rows.scale.undone.name].format('scores')}"
    yield from ("", "", 'if __name__ == "__main__":', "    for path in sys.argv[1:]:")
    yield '        print(*predict(path), sep="\\n")'


def _weights(run: Run, setting: Mapping[str, Any]) -> Iterator[str]:
    if "weight" in setting:
        low_high = " | ".join(f"((s >= {_number(a)}) & (s <= {_number(b)}))" for a, b in run.region.pieces)
        yield f"weights = weights * np.where({low_high}, {setting['weight']!r}, 1.0)"


def _number(value: float) -> str:
    return repr(float(value)) if abs(value) != float("inf") else "np.inf" if value > 0.0 else "-np.inf"


def _params(run: Run, setting: Mapping[str, Any], **more: Any) -> str:
    if run.question.model == "xgboost":
        from selmatch.comparison.with_xgboost import tree_params

        own = {**tree_params(setting), "seed": run.question.seed}
    else:
        own = {**complexity(setting), "seed": run.question.seed, "verbosity": -1}
    return repr({**own, **more})


def _selective(run: Run, setting: Mapping[str, Any], rounds: int) -> Iterator[str]:
    yield f"params = {_params(run, setting)}"
    offset, own, s, back = offset_of(run.rows.scores), "loss", "s", ""
    if offset:
        yield f"offset = {offset!r}  # boosters have single precision, which would blur scores so far from 0"
        own, s, back = "sm.MatchingLoss(loss.potential.affine(beta=-offset))", "s - offset", " + offset"
    yield f"objective = sm.boosting.{run.question.model}({own})"
    yield f"model = objective.fit(X, {s}, weights=weights, rounds={rounds}, params=params)"
    yield f"scores = model.predict(X){back}"


def _native(run: Run, recipe: Recipe, setting: Mapping[str, Any], rounds: int) -> Iterator[str]:
    labels = Labels.of(recipe.labels, run.rows.scores)
    if run.question.model == "xgboost":
        from selmatch.comparison.with_xgboost import objective_params
    else:
        from selmatch.comparison.with_lightgbm import objective_params
    yield f"params = {_params(run, setting, **objective_params(recipe, setting))}"
    yield f"labels = {_labels(labels)}  # of size 1"
    if run.question.model == "xgboost":
        yield "data = xgboost.DMatrix(X, labels, weight=weights / weights.mean(), enable_categorical=True)"
        yield f"model = xgboost.train(params, data, num_boost_round={rounds})"
        yield "predicted = model.predict(xgboost.DMatrix(X, enable_categorical=True))"
    else:
        yield "data = lightgbm.Dataset(X, labels, weight=weights / weights.mean())"
        yield f"model = lightgbm.train(params, data, num_boost_round={rounds})"
        yield "predicted = model.predict(X)"
    yield f"scores = {_scores(labels)}"


def _labels(labels: Labels) -> str:
    return f"({_MAPS[labels.scale.name].format('s')} - {labels.centre!r}) / {labels.spread!r}"


def _scores(labels: Labels) -> str:
    mapped = f"np.asarray(predicted, dtype=float) * {labels.spread!r} + {labels.centre!r}"
    if labels.scale == UNCHANGED:
        return mapped
    inside = f"np.clip({mapped}, {labels.low!r}, {labels.high!r})"
    return _MAPS[labels.scale.undone.name].format(inside)


def _linear(run: Run, recipe: Recipe, setting: Mapping[str, Any]) -> Iterator[str]:
    from selmatch.comparison.with_linear import MOST_CATEGORIES, penalty

    categories = [name for name, kind in zip(run.rows.names, run.rows.kinds, strict=True) if kind == "category"]
    yield f"categories = {_listed(categories)}"
    yield "filled = SimpleImputer(strategy='median', add_indicator=True, keep_empty_features=True)"
    yield f"each = OneHotEncoder(handle_unknown='ignore', max_categories={MOST_CATEGORIES}, sparse_output=False)"
    yield "numbers = [name for name in X.columns if name not in categories]"
    yield (
        "transformed = ColumnTransformer([('numbers', make_pipeline(filled, StandardScaler()), numbers), "
        "('categories', each, categories)])"
    )
    labels = Labels.of(recipe.labels, run.rows.scores)
    alpha = setting["alpha"]
    learnt = "labels"
    if recipe.objective == "selective":
        alpha, learnt = penalty(run.loss, run.rows.scores, alpha), "s"
        made = f"sm.sklearn.SelectiveLinearModel(loss, alpha={alpha!r})"
    elif recipe.objective == "huber":
        made = f"HuberRegressor(epsilon={max(1.0, setting['delta'])!r}, alpha={alpha!r}, max_iter=1000)  # much like it"
    elif recipe.objective == "quantile":
        made = f"QuantileRegressor(quantile={setting['level']!r}, alpha={alpha!r})  # much like it"
    else:
        made = f"Ridge(alpha={alpha!r} * len(s))"
    yield f"estimator = {made}"
    if learnt == "labels":
        yield f"labels = {_labels(labels)}  # of size 1"
    yield "model = make_pipeline(transformed, estimator)"
    yield f"model.fit(X, {learnt}, **{{f'{{model.steps[-1][0]}}__sample_weight': weights / weights.mean()}})"
    yield "predicted = model.predict(X)"
    yield f"scores = {'predicted' if learnt == 's' else _scores(labels)}"
