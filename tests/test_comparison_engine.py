"""The engine of comparisons: paired splits, equal budgets, a journal, every model, and the program at the end."""

import concurrent.futures
import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from comparison_data import QUICK, queries, visits
from threadpoolctl import threadpool_info, threadpool_limits

import selmatch as sm
from selmatch.comparison import Columns, aims, bootstrap, features, fitting, reproduction, running
from selmatch.comparison.aims import designed, given, region_of
from selmatch.comparison.contenders import most_frequent, recipes_of
from selmatch.comparison.journal import Journal, Outcome
from selmatch.comparison.question import Question
from selmatch.comparison.result import CONTROL
from selmatch.comparison.scales import Labels, Scale
from selmatch.comparison.splits import notes_of, splits_of
from selmatch.comparison.tables import prepare
from selmatch.data import dwell_shoppers

WISH = {"word": "high", "top": 0.1, "strength": 8.0}
LINEAR = {**QUICK, "model": "linear"}


def asked(target="seconds", **options):
    return Question(target=target, wish=WISH, **{"threads": 1, **options})


def split_up(frame, **options):
    question = asked(**options)
    rows = prepare(frame, question)
    return rows, splits_of(rows, question)


def run_of(frame, **options):
    question = asked(**options)
    rows = prepare(frame, question)
    loss = designed(question.wish, rows)
    return running.Run(rows, question, loss, region_of(loss, rows, 0.1))


def are_apart(split, rows):
    parts = np.concatenate([split.train, split.valid, split.test])
    return len(np.unique(parts)) == len(parts) and parts.max() < len(rows)


# --------------------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("splits", [2, 3, 5])
def test_folds_test_each_row_once(splits):
    rows, made = split_up(visits(241), splits=splits)
    assert len(made) == splits
    np.testing.assert_array_equal(np.sort(np.concatenate([split.test for split in made])), np.arange(241))
    sizes = [len(split.test) for split in made]
    assert max(sizes) - min(sizes) <= 1
    for split in made:
        assert are_apart(split, rows)
        assert len(split.train) + len(split.valid) + len(split.test) == 241
    if splits > 2:
        np.testing.assert_array_equal(made[0].valid, made[1].test)


def test_one_split_tests_a_fifth():
    _, (split,) = split_up(visits(), splits=1)
    assert [len(part) for part in (split.train, split.valid, split.test)] == [144, 48, 48]


def test_splits_follow_the_seed():
    _, first = split_up(visits())
    _, again = split_up(visits())
    _, other = split_up(visits(), seed=1)
    np.testing.assert_array_equal(first[0].train, again[0].train)
    assert not np.array_equal(first[0].test, other[0].test)


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_groups_stay_together(splits):
    rows, made = split_up(queries(), target="relevance", group="query", splits=splits)
    for split in made:
        assert are_apart(split, rows)
        homes = [set(rows.group[part]) for part in (split.train, split.valid, split.test)]
        assert not homes[0] & (homes[1] | homes[2])
        assert not homes[1] & homes[2]
        assert (np.diff(rows.group[split.train]) >= 0).all()  # lists lie side by side
    if splits == 4:
        assert {len(split.test) for split in made} == {60}


def test_too_few_groups_are_an_error():
    for groups, splits, words in (
        (3, 5, "at least 5 groups for 5 splits, got 3 .* More groups are needed, 5 or more; or ask for 3 splits"),
        (3, 2, "at least 4 groups for 2 splits, got 3 .* More groups are needed, 4 or more; or ask for 3 splits"),
        (2, 2, "at least 4 groups for 2 splits, got 2 .* More groups are needed, 4 or more\\."),
        (2, 1, "at least 3 groups for 1 split, got 2"),
    ):
        with pytest.raises(ValueError, match=words):
            split_up(visits().assign(user=np.arange(240) % groups), group="user", splits=splits)
    _, made = split_up(visits().assign(user=np.arange(240) % 3), group="user", splits=1)
    assert [len(part) for part in made[0].parts] == [80, 80, 80]
    unequal = np.where(np.arange(240) < 230, 0, np.arange(240) % 5)
    with pytest.raises(ValueError, match=r"rows to train, got none\. More groups are needed"):
        split_up(visits().assign(user=unequal), group="user", splits=2)


def test_times_train_on_the_past():
    frame = visits().assign(day=np.random.default_rng(0).integers(0, 40, 240))
    rows, made = split_up(frame, time="day", splits=3)
    assert len(made) == 3
    assert "day" not in rows.names
    for split in made:
        assert are_apart(split, rows)
        assert rows.time[split.train].max() < rows.time[split.valid].min()
        assert rows.time[split.valid].max() < rows.time[split.test].min()
    np.testing.assert_array_equal(made[0].test, made[1].valid)
    assert set(made[0].train) < set(made[1].train)


def test_times_may_be_dates_and_must_differ():
    frame = visits().assign(day=pd.date_range("2024-01-01", periods=240).strftime("%Y-%m-%d"))
    _, made = split_up(frame, time="day", splits=2)
    np.testing.assert_array_equal(made[0].train, np.arange(60))
    with pytest.raises(ValueError, match="7 blocks of different times for 5 splits, got 4 different times"):
        split_up(visits().assign(day=np.arange(240) % 4), time="day")
    with pytest.raises(ValueError, match="'shop' must be numbers or dates"):
        split_up(visits(), time="shop")


def test_groups_in_time_stay_together():
    frame = queries()
    group = pd.factorize(frame["query"])[0]
    # a list begins on its own day and goes on for ten
    frame["day"] = group + np.arange(240) // 24
    rows, made = split_up(frame, target="relevance", group="query", time="day", splits=2)
    for split in made:
        homes = [set(rows.group[part]) for part in split.parts]
        assert not homes[0] & (homes[1] | homes[2])
        assert rows.time[split.train].max() < rows.time[split.valid].min()  # nothing is learnt from the future
        assert rows.time[split.valid].max() < rows.time[split.test].min()
    begun = [np.concatenate([split.train, split.valid]) for split in made]
    assert made[0].late == 12 * 10 - len(begun[0]) > 0
    (note,) = notes_of(rows, made)
    assert f"{made[0].late + made[1].late} times a row was left out" in note
    with pytest.raises(ValueError, match=r"groups must last less long .*, got 8 of 80 rows to train on"):
        split_up(frame.assign(day=np.arange(240) // 4), target="relevance", group="query", time="day", splits=1)


def test_groups_that_cross_a_given_split_are_counted():
    frame = queries().assign(part=np.where(np.arange(240) < 180, "train", "test"))
    rows, made = split_up(frame, target="relevance", group="query", split="part")
    (note,) = notes_of(rows, made)
    assert note.startswith("WARNING: 24 of 24 groups have rows in several parts")
    (note,) = notes_of(*split_up(frame, target="relevance", cluster="query", split="part"))
    assert note.startswith("WARNING: 24 of 24 clusters have rows in several parts")
    frame["part"] = np.where(pd.factorize(frame["query"])[0] < 18, "train", "test")
    rows, made = split_up(frame, target="relevance", group="query", split="part")
    assert notes_of(rows, made) == []


def test_a_given_split_is_taken():
    parts = np.array(["Train", " validation", "TEST", "dev", "train"])[np.arange(240) % 5]
    _, (split,) = split_up(visits().assign(part=parts), split="part")
    np.testing.assert_array_equal(split.test, np.arange(2, 240, 5))
    np.testing.assert_array_equal(split.valid, np.flatnonzero(np.isin(np.arange(240) % 5, [1, 3])))


def test_a_given_split_without_validation_rows_holds_some_out():
    parts = np.where(np.arange(240) < 200, "train", "test")
    _, (split,) = split_up(visits().assign(part=parts), split="part")
    assert [len(part) for part in (split.train, split.valid, split.test)] == [160, 40, 40]


def test_a_given_split_must_be_one():
    with pytest.raises(ValueError, match="must mark some rows as 'test', got none"):
        split_up(visits().assign(part="train"), split="part")
    with pytest.raises(ValueError, match="must hold 'train', 'valid' and 'test', got 'a', 'b'"):
        split_up(visits().assign(part=["a", "b"] * 120), split="part")
    with pytest.raises(TypeError, match="only one of split and time"):
        sm.compare(visits(), target="seconds", split="shop", time="pages")


# ----------------------------------------------------------------------------------------------------------- contenders


def names_of(frame, pieces=((1.0, math.inf),), **options):
    question = asked(**options)
    return [recipe.name for recipe in recipes_of(prepare(frame, question), question, pieces)]


def test_contenders_fit_the_data():
    always = ["selective", "squared", "reweighted", "huber", "quantile"]
    frame = visits()
    assert names_of(frame) == [*always, "log_target"]
    assert names_of(frame, scale="log") == [*always, "raw_target"]
    assert names_of(frame.assign(seconds=frame["seconds"] - 2.0)) == always
    lists = {"target": "relevance", "group": "query"}
    assert names_of(queries(), **lists) == [*always, "log_target", "lambdarank", "listwise"]
    assert names_of(queries(), **lists, model="linear") == [*always, "log_target"]
    halves = queries().assign(relevance=lambda frame: frame["relevance"] / 2 - 1)
    assert names_of(halves, **lists) == [*always, "listwise"]


def test_asked_contenders_must_be_known_and_fit():
    assert names_of(visits(), losses=("selective", "huber")) == ["selective", "huber"]
    with pytest.raises(ValueError, match=r"got 'hubber'. Did you mean 'huber'\?"):
        names_of(visits(), losses=("selective", "hubber"))
    with pytest.raises(ValueError, match="got 'raw_target', which needs scale='log'"):
        names_of(visits(), losses=("selective", "raw_target"))


@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "linear"])
@pytest.mark.parametrize("count", [1, 4, 20])
def test_every_contender_has_the_same_number_of_different_settings(model, count):
    question = asked(target="relevance", group="query")
    for recipe in recipes_of(prepare(queries(), question), question, ((1.0, math.inf),)):
        settings = recipe.settings(model, count, 240)
        assert len({json.dumps(setting, sort_keys=True) for setting in settings}) == count
        assert settings[:1] == recipe.settings(model, 1, 240)  # more settings do not change the first


def test_quantiles_lean_towards_the_region():
    def levels(*pieces):
        question = asked()
        recipes = {recipe.name: recipe for recipe in recipes_of(prepare(visits(), question), question, pieces)}
        return recipes["quantile"].values[:4]

    assert levels((1.0, math.inf)) == (0.6, 0.5, 0.9, 0.75)
    assert levels((-math.inf, 1.0)) == (0.4, 0.5, 0.1, 0.25)
    assert levels((1.0, 2.0)) == levels((-math.inf, 1.0), (2.0, math.inf)) == (0.6, 0.5, 0.4, 0.7)


def test_labels_are_of_size_one_and_come_back():
    scores = np.random.default_rng(0).lognormal(5.0, 1.0, 500)
    for scale in (Scale(), Scale("log"), Scale("log1p")):
        labels = Labels.of(scale, scores)
        assert np.median(labels(scores)) == pytest.approx(0.0, abs=1e-12)
        assert np.median(np.abs(labels(scores))) == pytest.approx(1.0 / 1.4826)
        np.testing.assert_allclose(labels.scores(labels(scores)), scores, rtol=1e-9)
    raw = Labels.of(Scale("log").undone, np.log(scores))
    # below the smallest observed target there is no logarithm to trust
    assert raw.scores(np.array([-1e9]))[0] == pytest.approx(np.log(scores.min()))


def test_the_most_frequent_setting_wins_with_the_median_of_its_rounds():
    often, once = {"num_leaves": 7}, {"num_leaves": 31}
    chosen = ({**once, "rounds": 500}, {**often, "rounds": 10}, {**often, "rounds": 40}, {**often, "rounds": 20})
    assert most_frequent(chosen) == (often, 20)
    assert most_frequent(({"alpha": 1.0}, {"alpha": 2.0})) == ({"alpha": 1.0}, 0)


# ----------------------------------------------------------------------------------------------------------------- aims


def test_regions_are_given_in_units_of_the_target():
    rows = prepare(visits(), asked(scale="log"))
    loss = designed({"between": (2.0, 8.0), "strength": 4.0}, rows)
    region = region_of(loss, rows, 0.1)
    assert region.pieces[0] == pytest.approx((math.log(2.0), math.log(8.0)))
    assert region.rows == ((rows.target >= 2.0) & (rows.target <= 8.0)).sum()


def test_errors_of_wishes_are_in_units_of_the_target():
    rows = prepare(visits(), asked(scale="log"))
    high = rows.target.max()
    for wish, words in (
        ({"between": (1e6, 2e6)}, rf"none of 240 between 1,000,000 and 2,000,000; the scores go from .* to {high:g}"),
        ({"word": "high", "cap": 0.5}, "cap must lie above .*, got 0.5"),
        ({"word": "high", "cap": -3.0}, "cap must lie above .*, got -3"),
        ({"between": (5.0, 3.0)}, r"low < high, got \(5.0, 3.0\)"),
    ):
        with pytest.raises(ValueError, match=words):
            designed({"strength": 8.0, **wish}, rows)


def noted(frame, wish=WISH, top=0.1, **options):
    rows = prepare(frame, asked(**options))
    loss = designed(wish, rows)
    return aims.notes_of(wish, loss, region_of(loss, rows, top), rows, top)


def test_a_region_far_from_the_asked_share_is_told():
    grades = visits().assign(seconds=np.repeat([0, 1, 2, 3], [100, 40, 88, 12]))
    (note,) = noted(grades)
    assert "asked for 10 % of the rows and got 41.7 % (100 rows): many rows (88) share the score 2." in note
    assert "top=0.05 or less leaves them out" in note
    assert (
        region_of(designed({**WISH, "top": 0.05}, prepare(grades, asked())), prepare(grades, asked()), 0.05).rows == 12
    )
    (note,) = noted(grades.assign(seconds=np.repeat([0, 1], [100, 140])))
    assert "There is no smaller region" in note
    (note,) = noted(visits(40), {**WISH, "top": 0.01}, 0.01)
    assert "asked for 1 % of the rows and got 2.5 % (1 rows): 40 rows hold no smaller share" in note
    assert noted(visits()) == []
    assert noted(grades, {"between": (2.0, 9.0), "strength": 8.0}) == []


def test_the_region_of_a_given_loss_is_where_it_is_sensitive():
    rows = prepare(visits(), asked(scale="log"))
    middle = float(np.median(rows.scores))
    ((low, high),) = region_of(given(sm.Sigmoid().affine(alpha=3.0, beta=middle), rows), rows, 0.2).pieces
    assert low < middle < high
    assert ((rows.scores >= low) & (rows.scores <= high)).mean() == pytest.approx(0.2, abs=0.01)
    ends = region_of(given(sm.Sinh().affine(alpha=3.0, beta=middle), rows), rows, 0.2)
    assert len(ends.pieces) == 2
    assert (ends.pieces[0][0], ends.pieces[1][1]) == (-math.inf, math.inf)
    assert ends.rows == pytest.approx(48, abs=1)
    with pytest.raises(ValueError, match="more sensitive at some scores"):
        region_of(given(sm.Identity(), rows), rows, 0.2)


def test_a_given_loss_must_be_trainable():
    rows = prepare(visits(), asked(scale="log"))
    with pytest.raises(TypeError, match="single link"):
        given(sm.CompositeSoftmax(), rows)
    with pytest.raises(ValueError, match="the labels must lie in"):
        given(sm.Log(), rows)


# -------------------------------------------------------------------------------------------------------------- journal


def test_a_journal_gives_back_what_it_got(tmp_path):
    journal = Journal(tmp_path, "name")
    outcome = Outcome(np.array([1.0, 2.0 / 3.0]), np.array([0.1]), 0.25, 7)
    assert journal.read("fit", 2, 1) is None
    journal.write("fit", outcome)
    found = journal.read("fit", 2, 1)
    np.testing.assert_array_equal(found.test, outcome.test)
    np.testing.assert_array_equal(found.valid, outcome.valid)
    assert (found.criterion, found.rounds) == (0.25, 7)
    assert [path.name for path in journal.folder.iterdir()] == ["fit.fit"]
    assert journal.read("fit", 3, 1) is None
    assert Journal(None, "name").read("fit", 2, 1) is None


@pytest.mark.parametrize(
    "changed", [{"test": np.array([1.0, np.nan])}, {"valid": np.array([np.inf])}, {"criterion": math.nan}]
)
def test_outcomes_that_are_not_finite_are_made_again(tmp_path, changed):
    journal = Journal(tmp_path, "name")
    journal.write("fit", dataclasses.replace(Outcome(np.array([1.0, 2.0]), np.array([0.1]), 0.25, 7), **changed))
    assert journal.read("fit", 2, 1) is None


def test_runs_at_the_same_time_leave_whole_files(tmp_path):
    outcome = Outcome(np.arange(2000.0), np.arange(200.0), 0.5, 9)

    def work(_):
        journal = Journal(tmp_path, "name")
        found = []
        for _ in range(20):
            journal.write("fit", outcome)
            found.append(journal.read("fit", 2000, 200))
        return found

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(4)):
            assert all(one is not None and np.array_equal(one.test, outcome.test) for one in found)
    assert [path.name for path in (tmp_path / "name").iterdir()] == ["fit.fit"]


def test_a_journal_survives_that_its_folder_is_removed(tmp_path):
    journal = Journal(tmp_path, "name")
    (tmp_path / "name").rmdir()
    journal.write("fit", Outcome(np.array([1.0]), np.array([0.1]), 0.25, 7))
    assert journal.read("fit", 1, 1).rounds == 7


def test_fits_that_lie_in_the_folder_itself_are_found(tmp_path, fits):
    first = sm.compare(visits(), target="seconds", **LINEAR, folder=tmp_path).to_json()
    (run,) = (tmp_path / "selmatch-journal").iterdir()
    run.rename(tmp_path / run.name)
    fits.clear()
    assert sm.compare(visits(), target="seconds", **LINEAR, folder=tmp_path).to_json() == first
    assert fits == []


class Stopped(Exception):
    pass


@pytest.fixture
def fits(monkeypatch):
    """Every fit that is really made."""
    made, real = [], fitting.trainer

    class Counted:
        def __init__(self, part):
            self.trainer = real(part)

        def fit(self, recipe, setting):
            made.append((recipe.name, str(setting)))
            return self.trainer.fit(recipe, setting)

    monkeypatch.setattr(fitting, "trainer", Counted)
    return made


@pytest.mark.parametrize("model", ["linear", "lightgbm"])
def test_a_stopped_run_goes_on_where_it_stopped(tmp_path, fits, model):
    options = {**QUICK, "settings": 2, "model": model, "target": "seconds"}
    total = 6 * 2 * 2
    whole = sm.compare(visits(), **options).to_json()
    assert len(fits) == total
    fits.clear()

    def stop(done, all_of_them, words):
        assert all_of_them == total
        if done == 15:
            raise Stopped(words)

    with pytest.raises(Stopped, match=r"setting 1 of 2, split 2 of 2"):
        sm.compare(visits(), **options, folder=tmp_path, progress=stop)
    assert len(fits) == 15
    seen = []
    resumed = sm.compare(visits(), **options, folder=tmp_path, progress=lambda *news: seen.append(news[0]))
    assert len(fits) == total  # nothing is computed twice
    assert seen == list(range(1, total + 1))
    assert resumed.to_json() == whole
    assert sm.compare(visits(), **options, folder=tmp_path).to_json() == whole
    assert len(fits) == total


def test_broken_files_are_made_again(tmp_path, fits):
    first = sm.compare(visits(), target="seconds", **LINEAR, folder=tmp_path)
    count = len(fits)
    files = sorted(tmp_path.rglob("*.fit"))
    assert len(files) == count == 12
    files[0].write_bytes(b"")
    files[5].write_bytes(files[5].read_bytes()[:100])
    again = sm.compare(visits(), target="seconds", **LINEAR, folder=tmp_path)
    assert len(fits) == count + 2
    assert again.to_json() == first.to_json()


def test_another_question_is_another_run(tmp_path, fits):
    sm.compare(visits(), target="seconds", **LINEAR, folder=tmp_path)
    for changed in ({"seed": 1}, {"strength": 4.0}, {"drop": "pages"}):
        fits.clear()
        sm.compare(visits(), target="seconds", **LINEAR, folder=tmp_path, **changed)
        assert len(fits) == 12
    fits.clear()
    more = sm.compare(visits(), target="seconds", **{**LINEAR, "settings": 2}, folder=tmp_path)
    assert len(fits) == 12  # the first setting is known
    assert more.to_json() == sm.compare(visits(), target="seconds", **{**LINEAR, "settings": 2}).to_json()


# ---------------------------------------------------------------------------------------------------------- comparisons


@pytest.fixture(scope="module", params=["lightgbm", "xgboost", "linear"])
def found(request):
    return sm.compare(visits(), target="seconds", **{**QUICK, "rounds": 30}, model=request.param)


def test_all_contenders_are_tested_on_the_same_rows(found):
    tested, frame = found.tested, visits()
    np.testing.assert_array_equal(np.sort(tested.rows), np.arange(240))
    np.testing.assert_array_equal(tested.observed, frame["seconds"].to_numpy()[tested.rows])
    assert set(tested.predicted) == {contender.name for contender in found.contenders}
    assert found.contenders[0].name == "selective"
    assert found.contenders[-1].name == CONTROL
    for predicted in tested.predicted.values():
        assert predicted.shape == (240,)
        assert np.isfinite(predicted).all()
    np.testing.assert_array_equal(np.bincount(tested.split), [120, 120])


def test_every_contender_learns_something(found):
    # of the best constant prediction something is left to gain, even in five rounds
    constant = found.loss.minimiser(found.tested.observed)
    worst = found.loss(np.full(240, constant), found.tested.observed)
    for contender in found.contenders[:-1]:
        predicted = found.tested.predicted[contender.name]
        assert np.corrcoef(predicted, found.tested.observed)[0, 1] > 0.4, contender.name
        assert found.loss(predicted, found.tested.observed) < worst, contender.name


def test_the_validation_loss_is_reported_and_the_budget_equal(found):
    for contender in found.contenders[:-1]:
        assert len(contender.chosen) == len(contender.valid) == 2
        assert all(math.isfinite(value) for value in contender.valid)
    assert found.question.losses == tuple(contender.name for contender in found.contenders[:-1])
    json.loads(found.to_json())


def test_the_control_shifts_squared_error(found):
    shift = found.tested.predicted[CONTROL] - found.tested.predicted["squared"]
    for split in (0, 1):
        assert np.ptp(shift[found.tested.split == split]) < 1e-9
    assert np.abs(shift).max() > 0.0
    assert not found.contenders[-1].trained


def test_the_best_setting_is_that_of_the_smallest_validation_loss(monkeypatch):
    run = run_of(visits(), model="linear", splits=2, settings=4)
    losses = {"squared": [3.0, 1.0, 2.0, 1.0]}
    real = fitting.trainer

    class Fixed:
        def __init__(self, part):
            self.trainer, self.turn = real(part), dict.fromkeys(losses, 0)

        def fit(self, recipe, setting):
            found = self.trainer.fit(recipe, setting)
            if recipe.name not in losses:
                return found
            self.turn[recipe.name] += 1
            return Outcome(found.test, found.valid, losses[recipe.name][self.turn[recipe.name] - 1], 0)

    monkeypatch.setattr(fitting, "trainer", Fixed)
    _, contenders = run.result()
    squared = next(contender for contender in contenders if contender.name == "squared")
    assert squared.valid == (1.0, 1.0)
    assert squared.chosen == (run.settings(run.recipes[1])[1],) * 2


@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "linear"])
def test_fits_do_not_depend_on_those_before_and_stop_by_the_selective_loss(model):
    frame = visits().assign(weight=np.where(np.arange(240) % 2, 1.0, 3.0))
    for options in ({"drop": ("weight",)}, {"weights": "weight"}):
        run = run_of(frame, model=model, rounds=20, **options)
        part = fitting.Part(run.rows, run.splits[0], run.loss, run.region, run.question)
        trainer = fitting.trainer(part)
        for recipe in run.recipes:
            setting = run.settings(recipe)[0]
            found, fresh = trainer.fit(recipe, setting), fitting.trainer(part).fit(recipe, setting)
            np.testing.assert_array_equal(found.test, fresh.test, err_msg=recipe.name)
            expected = run.loss(found.valid, part.scores("valid"), weights=part.weights("valid"))
            assert found.criterion == float(expected)
            if model != "linear":
                # training that ends at the best round gives the same predictions
                question = dataclasses.replace(run.question, rounds=found.rounds)
                short = fitting.trainer(dataclasses.replace(part, question=question)).fit(recipe, setting)
                np.testing.assert_allclose(short.test, found.test, rtol=1e-6)


def test_boosters_stop_where_the_selective_loss_stands_still():
    run = run_of(visits(), rounds=400)
    part = fitting.Part(run.rows, run.splits[0], run.loss, run.region, run.question)
    found = {recipe.name: fitting.trainer(part).fit(recipe, run.settings(recipe)[0]) for recipe in run.recipes}
    assert all(1 <= one.rounds < 400 - fitting.PATIENCE for one in found.values())


def test_the_selective_contender_is_what_the_library_trains():
    run = run_of(visits(), rounds=20)
    part = fitting.Part(run.rows, run.splits[0], run.loss, run.region, run.question)
    setting = run.settings(run.recipes[0])[0]
    found = fitting.trainer(part).fit(run.recipes[0], setting)
    numbers = sm.boosting.lightgbm(run.loss)
    params = {**setting, "num_threads": 1, "seed": 0, "deterministic": True, "force_row_wise": True}
    X, y = pd.DataFrame(run.rows.matrix).astype({2: "category", 3: "category"}), run.rows.scores
    train, test = run.splits[0].train, run.splits[0].test
    model = numbers.fit(X.iloc[train], y[train], rounds=found.rounds, params=params)
    np.testing.assert_allclose(model.predict(X.iloc[test]), found.test, rtol=1e-6)


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_scores_far_from_zero_are_not_blurred(tmp_path, model):
    far = 2.0**31
    options = {**QUICK, "rounds": 20, "model": model, "losses": ["squared"]}
    near = sm.compare(visits(), target="seconds", **options)
    frame = visits().assign(seconds=lambda frame: frame["seconds"] + far)
    found = sm.compare(frame, target="seconds", **options)
    for name in ("selective", "squared"):
        moved = found.tested.predicted[name] - far
        assert np.corrcoef(moved, near.tested.predicted[name])[0, 1] > 0.99, name
    run = run_of(frame, model=model, splits=2, settings=1, rounds=20)
    _, contenders = run.result()
    frame.to_csv(tmp_path / "data.csv", index=False)
    predicted = program(run, contenders, "selective", tmp_path)["predict"](frame)
    assert np.corrcoef(predicted - far, run.rows.scores - far)[0, 1] > 0.6


def test_weights_count_in_training_and_in_testing():
    frame = visits().assign(weight=np.where(np.arange(240) % 2, 1.0, 3.0))
    found = sm.compare(frame, target="seconds", weights="weight", **LINEAR)
    np.testing.assert_array_equal(found.tested.weights, frame["weight"].to_numpy()[found.tested.rows] / 2.0)
    plain = sm.compare(frame, target="seconds", drop=["weight"], **LINEAR)
    assert "weight" not in found.data.features
    for name in found.tested.predicted:
        assert not np.array_equal(found.tested.predicted[name], plain.tested.predicted[name])


@pytest.mark.parametrize("model", ["lightgbm", "xgboost"])
def test_lists_have_contenders_of_their_own(model):
    frame = queries(12)
    frame["shop"] = np.array(["a", "b", None])[np.arange(len(frame)) % 3]
    found = sm.compare(frame, target="relevance", group="query", model=model, **{**QUICK, "rounds": 20})
    ordinal = {contender.name for contender in found.contenders if contender.ordinal}
    assert ordinal == {"lambdarank", "listwise"}
    assert {measure.kind for measure in found.measures} >= {"order", "lists"}
    codes = pd.factorize(frame["query"])[0]
    np.testing.assert_array_equal(found.tested.group, codes[found.tested.rows])
    for name in ordinal:
        predicted = found.tested.predicted[name]
        assert np.isfinite(predicted).all()
        assert pd.Series(predicted).corr(pd.Series(found.tested.observed), method="spearman") > 0.3


def test_other_words_and_own_losses(tmp_path):
    low = sm.compare(visits(), target="seconds", focus="low", top=0.2, **LINEAR)
    assert low.region.pieces[0][0] == -math.inf
    assert low.region.rows == 48
    low.loss.save(tmp_path / "loss.toml")
    same = sm.compare(visits(), target="seconds", loss=tmp_path / "loss.toml", **LINEAR)
    assert same.question.wish == {}
    assert same.region.pieces == low.region.pieces
    np.testing.assert_array_equal(same.tested.predicted["selective"], low.tested.predicted["selective"])
    own = sm.compare(visits(), target="seconds", loss=sm.Sigmoid().affine(alpha=0.3, beta=8.0), **LINEAR)
    assert own.region.rows >= 24


@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "linear"])
def test_links_that_end_somewhere_keep_predictions_inside(model):
    found = sm.compare(visits(), target="seconds", loss=sm.Log(), model=model, **QUICK)
    for predicted in found.tested.predicted.values():
        assert np.isfinite(found.loss(np.maximum(predicted, 1e-9), found.tested.observed))
    assert found.tested.predicted["squared"].min() > 0.0


def test_other_splits_run_through():
    parts = np.where(np.arange(240) < 180, "train", "test")
    given_split = sm.compare(visits().assign(part=parts), target="seconds", split="part", **LINEAR)
    assert given_split.question.splits == 1
    np.testing.assert_array_equal(np.sort(given_split.tested.rows), np.arange(180, 240))
    timed = sm.compare(visits().assign(day=np.arange(240)), target="seconds", time="day", **LINEAR)
    np.testing.assert_array_equal(np.sort(timed.tested.rows), np.arange(120, 240))


def test_wrong_arguments_are_named():
    for options, words in (
        ({"model": "forest"}, "model must be one of 'lightgbm', 'xgboost', 'linear', got 'forest'"),
        ({"scale": "sqrt"}, "scale must be one of"),
        ({"focus": "hihg"}, "Did you mean 'high'"),
        ({"top": 1.5}, "top must be < 1"),
        ({"settings": 0}, r"settings must be >= 1, got 0\."),
        ({"resamples": 19}, r"resamples must be >= 20, got 19\."),
        ({"splits": 2.5}, "splits must be a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.compare(visits(), target="seconds", **options)


def test_only_one_way_to_say_what_matters():
    for options in (
        {"focus": "low", "between": (1.0, 2.0)}, {"focus": "high", "loss": sm.Sinh()}, {"cap": 3.0, "loss": sm.Sinh()},
        {"between": (1.0, 2.0), "regions": [(1.0, 2.0)]},
    ):  # fmt: skip
        with pytest.raises(TypeError, match="only one of focus, between, regions and loss"):
            sm.compare(visits(), target="seconds", **options)


def test_what_to_know_is_noted():
    found = sm.compare(visits().assign(seconds=lambda frame: frame["seconds"].round(-1)), target="seconds", **LINEAR)
    assert sum("You asked for 10 % of the rows" in note for note in found.data.notes) == 1
    assert "Intervals are rough: 20 resamples; 1,000 are usual." in found.data.notes
    assert "all rows used, the tested ones included" in found.contenders[0].words
    own = sm.compare(visits(), target="seconds", loss=found.loss, **{**LINEAR, "resamples": 200})
    assert not any("You asked" in note or "rough" in note for note in own.data.notes)
    assert "tested ones included" not in own.contenders[0].words


def test_the_environment_does_not_decide_about_threads(monkeypatch):
    seen, real = [], bootstrap.scores

    def scores(*arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return real(*arguments)

    monkeypatch.setattr(bootstrap, "scores", scores)
    with threadpool_limits(2, user_api="blas"):
        sm.compare(visits(), target="seconds", **LINEAR)
    assert set(seen) == {1}


# ---------------------------------------------------------------------------------------------------------- the program


def test_features_are_those_of_the_comparison(tmp_path):
    frame = visits()
    frame["mixed"] = [f"2024-01-{1 + i % 28:02}" + (" 10:00:00" if i % 2 else "") for i in range(240)]
    frame["lasted"], frame["month"] = (
        pd.to_timedelta(np.arange(240), "h"),
        pd.period_range("2000-01", periods=240, freq="M"),
    )
    frame["word"] = np.array(["a", "-", "?", "b"])[np.arange(240) % 4]
    frame["price"] = [f"{i},5" for i in range(240)]
    frame["weight"], frame["day"] = np.arange(240) % 5, np.arange(240.0)
    frame.loc[3, "seconds"], frame.loc[7, "day"] = np.nan, np.nan
    frame.to_parquet(tmp_path / "visits.parquet")
    roles = {"target": "seconds", "weights": "weight", "time": "day", "drop": ("interest",)}
    rows = prepare(frame, Question(wish=WISH, **roles))
    for data in (frame, tmp_path / "visits.parquet"):
        X, y, weights = features(data, **roles)
        assert tuple(X.columns) == rows.names
        np.testing.assert_array_equal(y, rows.target)
        np.testing.assert_array_equal(weights, rows.weights)
        for i, (name, kind) in enumerate(zip(rows.names, rows.kinds, strict=True)):
            found = X[name].cat.codes.replace(-1, np.nan) if kind == "category" else X[name]
            np.testing.assert_array_equal(found, rows.matrix[:, i], err_msg=name)
    assert set(X["word"].cat.categories) == {"a", "b"}
    assert len(y) == 240 - 48 - 2


def program(run, contenders, name, folder):
    """The names of a program that has run, beside the files that it needs."""
    reproduction.scaled_loss(run).save(folder / "loss.toml")
    Columns.of(run.rows, run.question).save(folder / "columns.json")
    space = {"__file__": str(folder / "train.py"), "__name__": "train"}
    exec(compile(reproduction.code(run, contenders, name), f"{name}.py", "exec"), space)
    return space


def test_the_program_sees_the_rows_of_the_comparison(tmp_path):
    frame = queries().assign(part=np.where(np.arange(240) < 180, "train", "test"), weight=np.arange(240) % 3)
    frame["price"] = [f"{i},5" for i in range(240)]
    frame.loc[5, "query"], frame.loc[7, "part"], frame.loc[9, "relevance"] = None, None, np.nan
    frame.to_csv(tmp_path / "lists.csv", index=False, sep=";")
    roles = {"target": "relevance", "group": "query", "split": "part", "weights": "weight", "drop": ("c",)}
    run = run_of(tmp_path / "lists.csv", model="linear", splits=1, settings=1, **roles)
    _, contenders = run.result()
    space = program(run, contenders, "squared", tmp_path)
    assert "loss" not in space
    assert list(space["X"].columns) == ["a", "b", "price"]
    np.testing.assert_array_equal(space["X"].to_numpy(), run.rows.matrix)
    np.testing.assert_array_equal(space["s"], run.rows.scores)
    np.testing.assert_array_equal(space["weights"], run.rows.weights)


@pytest.mark.parametrize(("model", "scale"), [("lightgbm", "target"), ("xgboost", "log"), ("linear", "log")])
def test_the_program_trains_every_contender(tmp_path, model, scale):
    frame = visits().rename(columns={"pages": "pa'g\"es", "shop": "[sh]op"})
    frame["day"] = pd.date_range("2024-01-01", periods=240).strftime("%Y-%m-%d")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    run = run_of(tmp_path / "visits.csv", model=model, scale=scale, splits=2, settings=1, rounds=20)
    _, contenders = run.result()
    new = frame.drop(columns="seconds").iloc[::-1, ::-1].assign(shops="none")
    new["day"] = "2024-01-31"  # the same for all, which was no reason to leave it out
    for recipe in run.recipes:
        space = program(run, contenders, recipe.name, tmp_path)
        predicted = space["predict"](tmp_path / "visits.csv")
        scores = np.log(predicted) if scale == "log" else predicted
        assert np.corrcoef(scores, run.rows.scores)[0, 1] > 0.6, recipe.name
        whole = space["predict"](new)
        alone = [float(space["predict"](new.iloc[[place]])[0]) for place in (0, 239)]
        np.testing.assert_allclose(alone, whole[[0, 239]], rtol=1e-12)  # sums of other lengths
        assert ("loss" in space) == (recipe.name == "selective")


def test_a_comparison_ends_with_the_program_of_its_winner(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False, sep=";")
    found = sm.compare(tmp_path / "visits.csv", target="seconds", **LINEAR)
    found.columns.save(tmp_path / "columns.json")
    found.loss.save(tmp_path / "loss.toml")
    space = {}
    exec(compile(found.program(tmp_path), "train.py", "exec"), space)
    winner = next(contender for contender in found.contenders if contender.name == found.verdict.winner)
    assert winner.title in found.code.splitlines()[0]
    assert space["predict"](tmp_path / "visits.csv").shape == (240,)


def test_the_data_of_the_demo_are_there():
    frame = pd.read_csv(dwell_shoppers())
    assert len(frame) == 12_330
    assert "ProductRelated_Duration" in frame
