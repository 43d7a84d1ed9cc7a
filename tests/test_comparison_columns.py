"""What a comparison learnt about columns, applied to new rows; and its printed program, wherever it runs."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from comparison_data import QUICK, queries, visits

import selmatch as sm
from selmatch import spec
from selmatch.comparison import Columns
from selmatch.comparison.question import Question
from selmatch.comparison.tables import prepare

ROWS = 120


def numbers(random):
    return random.normal(size=ROWS)


def with_missing(random):
    return np.where(random.random(ROWS) < 0.2, np.nan, random.integers(0, 9, ROWS))


def decimals(random):
    return [f"{whole}.{rest:03},5 €" for whole, rest in random.integers(100, 999, (ROWS, 2))]


def thousands(random):
    return [f"${whole:,}" for whole in random.integers(1000, 99999, ROWS)]


def unknown(random):
    return np.where(random.random(ROWS) < 0.1, "unknown", random.integers(0, 900, ROWS).astype(str))


def days(random):
    return pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 400, ROWS), "D")


def written_days(random):
    return days(random).strftime("%d/%m/%Y")


def last_days(random):
    return random.choice(["2024-01-31", "2024-02-29", "9999-12-31"], ROWS)


def truth(random):
    return random.random(ROWS) < 0.5


def truth_or_missing(random):
    return np.where(random.random(ROWS) < 0.2, None, (random.random(ROWS) < 0.5).astype(object))


def shops(random):
    return random.choice(["north", "south", "west", None], ROWS)


def codes(random):  # which would be other words as numbers
    return random.choice(["01", "02", "1a", "007"], ROWS)


def grades(random):
    return pd.Categorical(random.integers(1, 4, ROWS))


def lasted(random):
    return pd.to_timedelta(random.integers(1, 90, ROWS), "m")


def months(random):
    return pd.period_range("2000-01", periods=ROWS, freq="M")


def constant(random):
    return np.full(ROWS, 7)


def nothing(random):
    return np.full(ROWS, np.nan)


def names(random):
    return [f"visit {i:04}" for i in range(ROWS)]


KINDS = (
    numbers, with_missing, decimals, thousands, unknown, days, written_days, last_days, truth, truth_or_missing, shops,
    codes, grades, lasted, months, constant, nothing, names,
)  # fmt: skip


def table(random, count=8):
    kinds = [numbers, *(KINDS[i] for i in random.choice(np.arange(1, len(KINDS)), count, replace=False))]
    frame = pd.DataFrame({f"{kind.__name__}, [{i}]": kind(random) for i, kind in enumerate(kinds)})
    return frame.assign(seconds=np.exp(frame.iloc[:, 0] + random.normal(size=ROWS)))


def learnt(data):
    question = Question("seconds", {"word": "high"})
    rows = prepare(data, question)
    return rows, Columns.of(rows, question)


def changed(frame):
    """The features in another order, with a new column, and without the target."""
    return frame.drop(columns="seconds").iloc[:, ::-1].assign(more=1.0)


@pytest.mark.parametrize("kind", [truth, truth_or_missing])
def test_truth_values_may_be_ones_and_zeros_in_new_rows(kind):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"p": numbers(random), "open": kind(random), "seconds": numbers(random)})
    rows, columns = learnt(frame)
    new = frame.assign(open=frame["open"].astype(float))
    pd.testing.assert_frame_equal(columns.prepare(new), rows.frame())


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize(
    "names", [("a\nb", "code"), ("a", "new\r\nco,de"), ("x", "x"), ('q"u,o;te', "5'\""), ("", " ")]
)
def test_text_stays_text_in_new_rows_whatever_columns_are_called(tmp_path, names, separator):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"p": numbers(random), "code": codes(random)}).set_axis(list(names), axis=1)
    path = tmp_path / "codes.csv"
    frame.assign(seconds=numbers(random)).to_csv(path, index=False, sep=separator)
    rows, columns = learnt(path)
    assert rows.kinds == ("number", "category")
    alike = frame[frame.iloc[:, 1] == "01"]  # which would be a number in a file of its own
    alike.to_csv(path, index=False, sep=separator)
    assert columns.prepare(path).iloc[:, 1].tolist() == ["01"] * len(alike)


def test_new_rows_have_the_features_of_the_comparison(tmp_path):
    for seed in range(2):
        random = np.random.default_rng(seed)
        frame = table(random)
        path = tmp_path / f"{seed}.csv"
        frame.to_csv(path, index=False)
        for data, new in ((frame, changed(frame)), (path, path)):
            rows, columns = learnt(data)
            columns.save(tmp_path / "columns.json")
            again = Columns.load(tmp_path / "columns.json", digest=columns.digest)
            assert again == columns
            wanted = rows.frame()
            pd.testing.assert_frame_equal(again.prepare(new), wanted)
            X, y, weights = again.training(data)
            pd.testing.assert_frame_equal(X, wanted)
            np.testing.assert_array_equal(y, rows.target)
            np.testing.assert_array_equal(weights, np.ones(ROWS))
            pd.testing.assert_frame_equal(again.prepare(path), wanted)  # also where a frame was learnt from
            # each row alone is what it is among others: nothing is found out anew
            for place in (0, 77):
                alone = changed(frame).iloc[[place]] if data is frame else tmp_path / "one.csv"
                if data is path:
                    frame.iloc[[place]].drop(columns="seconds").to_csv(alone, index=False)
                found = again.prepare(alone).reset_index(drop=True)
                pd.testing.assert_frame_equal(found, wanted.iloc[[place]].reset_index(drop=True))


def test_what_was_not_there_before_is_missing():
    frame = visits().assign(price=["1,5", "2.250,5"] * 120, size=np.arange(240) % 3)
    _, columns = learnt(frame)
    new = pd.DataFrame(
        {"pages": [3], "interest": [None], "shop": ["east"], "returning": [True], "price": ["?"], "size": [2.0]},
        index=["visit 7"],
    )
    found = columns.prepare(new)
    assert found.index.tolist() == ["visit 7"]
    assert found.isna().loc["visit 7"].to_dict() == {
        "pages": False, "interest": True, "shop": True, "returning": False, "price": True, "size": False,
    }  # fmt: skip
    assert list(found["shop"].cat.categories) == ["north", "south", "west"]
    assert columns.prepare(new.assign(price="3.000"))["price"].tolist() == [3000.0]
    assert len(columns.prepare(new.iloc[:0])) == 0


def test_new_rows_that_do_not_fit_are_refused():
    _, columns = learnt(visits())
    new = visits().drop(columns="seconds")
    with pytest.raises(ValueError, match=r"got none called 'pages'\. Did you mean 'page'\?"):
        columns.prepare(new.rename(columns={"pages": "page"}))
    with pytest.raises(
        ValueError, match=r"'pages' must hold numbers, as it did in the comparison, got 'many' \(row 1\)"
    ):
        columns.prepare(new.head(1).assign(pages="many"))
    with pytest.raises(FileNotFoundError, match="must be a file that exists"):
        columns.prepare("nowhere.csv")


def test_files_of_columns_are_checked(tmp_path):
    path = tmp_path / "columns.json"
    _, columns = learnt(visits().assign(price=["$1", "$2"] * 120))
    columns.save(path)
    good = json.loads(path.read_text())
    assert good["features"][2] == {"name": "shop", "kind": "category", "categories": ["north", "south", "west"],
                                   "text": True}  # fmt: skip
    assert len(path.read_text().splitlines()) == len(good["features"]) + 9  # a line for each feature
    assert [file.name for file in tmp_path.iterdir()] == ["columns.json"]
    feature = good["features"][0]
    for change, words in (
        ({"selmatch_columns": 2}, "newer selmatch"),
        ({"selmatch_columns": "1"}, "selmatch_columns must be 1, got '1'"),
        ({"scale": "sqrt"}, "scale must be one of 'target', 'log', 'log1p', got 'sqrt'"),
        ({"roles": {"king": "a"}}, "roles must have no key but split, group, cluster, time, weights, got 'king'"),
        ({"roles": {"time": 3}}, r"roles\.time must be a text, got 3"),
        ({"features": []}, "features must have names, all different"),
        ({"features": [feature, feature]}, "features must have names, all different"),
        ({"features": {}}, "features must be a list"),
        ({"features": [{**feature, "kind": "picture"}]}, r"features\[0\]\.kind must be one of"),
        ({"features": [{**feature, "kind": "category"}]}, r"features\[0\] must have categories if"),
        ({"features": [{**feature, "spelling": "roman"}]}, r"features\[0\]\.spelling must be one of"),
        ({"features": [{**feature, "text": "yes"}]}, r"features\[0\]\.text must be true or false"),
        ({"features": [{**good["features"][2], "categories": ["a", "a"]}]}, "categories must differ"),
        ({"more": 1}, "the document must have no key but"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(ValueError, match=words):
            Columns.load(path)
    for text, words in (
        ("[]", "must be a table"),
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            Columns.load(path)
    path.write_text(json.dumps({**good, "target": "minutes"}))
    assert Columns.load(path).target == "minutes"
    with pytest.raises(ValueError, match=f"digest {columns.digest}, got"):
        Columns.load(path, digest=columns.digest)


# -------------------------------------------------------------------------------------------------------- the program


def report(folder, data, **options):
    """The folder that ``selmatch compare`` leaves, without its pictures."""
    found = sm.compare(data, **{"target": "seconds", **QUICK, **options})
    folder.mkdir(exist_ok=True)
    found.loss.save(folder / "loss.toml")
    found.columns.save(folder / "columns.json")
    return found


def test_the_printed_program_runs_from_any_folder(tmp_path, monkeypatch):
    frame = visits().assign(price=["$1,250", "$980"] * 120)
    (tmp_path / "data").mkdir()
    frame.to_csv(tmp_path / "data" / "visits.csv", index=False)
    monkeypatch.chdir(tmp_path / "data")
    found = report(tmp_path / "report", "visits.csv", losses=["selective"], scale="log")  # it wins where it is alone
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    program = found.program("../report")
    (elsewhere / "train.py").write_text(program)
    spec.save(sm.MatchingLoss(sm.Exp()), elsewhere / "loss.toml")  # another loss, where it is run
    frame.drop(columns=["seconds"]).iloc[[5], ::-1].to_csv(elsewhere / "new.csv", index=False)
    run = [sys.executable, "train.py", "new.csv"]
    ran = subprocess.run(run, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    space = {"__name__": "train"}
    exec(compile(program, "train.py", "exec"), space)
    np.testing.assert_allclose(float(ran.stdout), space["predict"](frame)[5], rtol=1e-6)
    assert np.log(space["predict"](frame)).std() > 0.1
    # another loss in its place is noticed
    spec.save(found.loss.with_scale(None), tmp_path / "report" / "loss.toml")
    with pytest.raises(spec.SpecError, match=r"report/loss\.toml: must hold the object with the digest"):
        exec(compile(program, "train.py", "exec"), {"__name__": "train"})


def test_a_loss_is_loaded_if_it_is_trained(tmp_path):
    frame = visits()
    frame.to_csv(tmp_path / "data.csv", index=False)
    found = report(tmp_path, frame, model="linear", losses=["squared"])
    trained = found.verdict.winner == "selective"
    assert ("loss.toml" in found.code) == trained
    (tmp_path / "loss.toml").unlink()
    space = {"__file__": str(tmp_path / "train.py"), "__name__": "train"}
    if not trained:
        exec(compile(found.code, "train.py", "exec"), space)
        assert space["predict"](frame).shape == (240,)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "linear"])
@pytest.mark.parametrize("scale", ["target", "log"])
@pytest.mark.parametrize("seed", range(3))
def test_programs_of_random_tables_predict_new_rows(tmp_path, model, scale, seed):
    from selmatch.comparison import reproduction, running
    from selmatch.comparison.aims import designed, region_of

    random = np.random.default_rng(seed)
    frame = table(random, 10).assign(person=np.arange(ROWS) // 4, weight=random.random(ROWS))
    frame.to_csv(tmp_path / "data.csv", index=False)
    grouped = {"group": "person", "weights": "weight"} if seed else {}
    question = Question(
        "seconds", {"word": "high"}, scale=scale, model=model, splits=2, settings=1, rounds=5, threads=1, **grouped
    )
    rows = prepare(tmp_path / "data.csv", question)
    aim = designed(question.wish, rows)
    run = running.Run(rows, question, aim, region_of(aim, rows, 0.1))
    _, contenders = run.result()
    reproduction.scaled_loss(run).save(tmp_path / "loss.toml")
    Columns.of(rows, question).save(tmp_path / "columns.json")
    for recipe in run.recipes:
        if recipe.ordinal:
            continue
        space = {"__file__": str(tmp_path / "train.py"), "__name__": "train"}
        exec(compile(reproduction.code(run, contenders, recipe.name), recipe.name, "exec"), space)
        whole = space["predict"](tmp_path / "data.csv")
        assert np.isfinite(whole).all()
        assert np.ptp(whole) > 0.0
        for place in (0, 50):
            new = tmp_path / "new.csv"
            frame.drop(columns=["seconds", *grouped.values()]).iloc[[place], ::-1].to_csv(new, index=False)
            np.testing.assert_allclose(space["predict"](new), whole[[place]], rtol=1e-6)
        unseen = dict.fromkeys((name for name in frame if "shops" in name), "never seen")
        shuffled = frame.drop(columns="seconds").iloc[::-1].assign(**unseen)
        assert np.isfinite(space["predict"](shuffled)).all()


def test_lists_have_programs_too(tmp_path):
    queries().to_csv(tmp_path / "lists.csv", index=False)
    found = report(tmp_path, tmp_path / "lists.csv", target="relevance", group="query", model="linear")
    space = {"__file__": str(tmp_path / "train.py"), "__name__": "train"}
    exec(compile(found.code, "train.py", "exec"), space)
    new = pd.DataFrame({"c": [0.5], "b": [0.0], "a": [2.0]})  # which belongs to no list
    assert space["predict"](new).shape == (1,)
    assert "query" not in space["X"]
    assert Path(tmp_path / "columns.json").exists()
