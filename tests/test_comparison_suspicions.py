"""What looks suspicious in a table is named, and ordinary tables are left in peace."""

from __future__ import annotations

import math
import re
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import selmatch as sm
from selmatch import report
from selmatch.comparison.question import Question
from selmatch.comparison.suspicions import _log_chance
from selmatch.comparison.tables import prepare

QUESTION = Question(target="y", wish={"word": "high", "top": 0.1, "strength": 8.0})


def ordinary(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """A table of many kinds of columns without anything suspicious."""
    a, count = random.normal(size=rows), random.poisson(3.0, rows)
    y = np.exp(0.8 * a + 0.3 * count + 0.5 * random.normal(size=rows))
    return pd.DataFrame(
        {
            "a": a, "count": count, "heavy": random.lognormal(0.0, 2.0, rows), "sign": random.integers(-1, 2, rows),
            "temperature": random.integers(-12, 35, rows), "percent": random.integers(0, 101, rows),
            "area": np.rint(random.lognormal(7.0, 0.5, rows)), "cents": np.rint(100 * random.gamma(2.0, 500.0, rows)),
            "rare": (np.arange(rows) == y.argmax()), "town": random.choice(list("uvwxyz"), rows),
            "grade": np.rint(2.0 + a + random.normal(size=rows)), "profit": random.normal(0.0, 3e4, rows).round(1),
            "predicts": np.log(y) + 0.05 * random.normal(size=rows), "y": y,
        }
    )  # fmt: skip


def notes_of(frame: pd.DataFrame, **asked) -> list[str]:
    quiet = ("heavy tail", "only name the rows")
    question = Question(**{**vars(QUESTION), **asked})
    return [note for note in prepare(frame, question).notes if not any(words in note for words in quiet)]


RANDOM = st.integers(0, 10**6).map(np.random.default_rng)
ROWS = st.integers(60, 400)


@settings(max_examples=20)
@given(random=RANDOM, rows=ROWS)
def test_ordinary_tables_are_left_in_peace(random, rows):
    assert notes_of(ordinary(random, rows)) == []


COPIES = {
    "affine": lambda y: 3.0 - 2.0 * y,
    "logarithm": np.log,
    "rank": lambda y: pd.Series(y).rank().to_numpy(),
    "rounded": lambda y: np.rint(4.0 * np.log(y)),
    "falling": lambda y: 1.0 / (1.0 + y),
    "flag": lambda y: y > np.median(y),
    "words": lambda y: np.array(["c low", "a middle", "b high"])[np.digitize(y, np.quantile(y, [0.3, 0.8]))],
    "noisy": lambda y: y * (1.0 + 1e-6 * np.cos(np.arange(len(y)))),
    "with gaps": lambda y: np.where(np.arange(len(y)) % 5 == 0, np.nan, y**3),
    "text": lambda y: [f"{1000.0 * value:,.2f}" for value in y],
}


@settings(max_examples=4)
@given(random=RANDOM, rows=st.integers(100, 300), scale=st.sampled_from(["target", "log"]))
def test_copies_of_the_target_are_warned_of_and_kept(random, rows, scale):
    frame = ordinary(random, rows)
    y = frame["y"].to_numpy()
    frame = frame.assign(**{kind: copy(y) for kind, copy in COPIES.items()})
    loud = [note for note in notes_of(frame, scale=scale) if note.startswith("WARNING")]
    assert len(loud) == len(COPIES)
    for kind, note in zip(COPIES, loud, strict=True):
        assert f"column {kind!r} is the target in other words" in note
    assert set(COPIES) <= set(prepare(frame, QUESTION).names)


def test_one_row_far_out_makes_no_copy():
    frame = ordinary(np.random.default_rng(0), 200)
    frame.loc[7, ["heavy", "y"]] = 1e9
    assert notes_of(frame) == []


def test_the_chance_of_an_order_is_exact():
    """Against all orders of a few rows."""
    y, x = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
    orders = [np.array(order) for order in permutations(x)]
    fitting = [
        order for order in orders if all((order[i] - order[j]) * (y[i] - y[j]) >= 0 for i in range(6) for j in range(i))
    ]
    assert _log_chance(x, y) == pytest.approx(math.log(len(fitting) / len(orders)), rel=1e-12)


@settings(max_examples=4)
@given(random=RANDOM, rows=ROWS, count=st.integers(1, 40))
def test_copied_rows_are_counted(random, rows, count):
    frame = ordinary(random, rows).drop(columns="rare")
    copied = pd.concat([frame, frame.iloc[random.integers(0, rows, count)]]).sample(frac=1.0, random_state=0)
    (note,) = notes_of(copied)
    assert (
        f"{count:,} of {rows + count:,} rows ha{'s' if count == 1 else 've'} the same features and the same target"
        in note
    )
    assert note.startswith("WARNING") == (count >= 0.05 * (rows + count))
    assert "as the group" in note
    at = np.arange(len(copied))
    assert not any("same features" in note for note in notes_of(copied.assign(at=at), time="at"))
    assert "as the group" not in notes_of(copied.assign(user=at // 10), group="user")[0]


def test_few_different_rows_meet_without_being_copies():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": random.integers(0, 3, 300), "b": random.integers(0, 2, 300), "y": random.integers(0, 5, 300)}
    )
    assert notes_of(frame) == []


@settings(max_examples=4)
@given(random=RANDOM, rows=ROWS)
def test_copied_columns_are_named(random, rows):
    frame = ordinary(random, rows)
    frame.loc[frame.index % 7 == 0, "heavy"] = np.nan
    frame = frame.assign(
        again=frame["heavy"], city=frame["town"].str.upper().map(lambda word: word * 2), third=frame["heavy"]
    )
    (note,) = notes_of(frame)
    assert "'heavy' = 'again' = 'third', 'town' = 'city'" in note
    assert "used" in note
    assert {"again", "city"} <= set(prepare(frame, QUESTION).names)


IDS = {
    "counter": lambda random, rows: np.arange(rows) + 1,
    "falling": lambda random, rows: 10**6 - 3 * np.arange(rows),
    "shuffled": lambda random, rows: random.permutation(rows),
    "with holes": lambda random, rows: random.permutation(2 * rows)[:rows] + 5_000,
    "hashes": lambda random, rows: random.choice(2**40, rows, replace=False),
    "user_id": lambda random, rows: random.integers(0, rows // 2, rows) ** 2,
    "movieId": lambda random, rows: random.integers(0, rows // 2, rows) ** 2,
    "ID": lambda random, rows: random.integers(0, rows // 2, rows) ** 2,
}


@settings(max_examples=4)
@given(random=RANDOM, rows=st.integers(120, 400))
def test_whole_numbers_that_name_rows_are_noticed(random, rows):
    frame = ordinary(random, rows).assign(**{kind: ids(random, rows) for kind, ids in IDS.items()})
    (note,) = notes_of(frame)
    assert "look like ids or counters, whose size means nothing: 'counter' (rises from row to row)" in note
    assert re.findall(r"'(.*?)' \(", note) == list(IDS)
    assert set(IDS) <= set(prepare(frame, QUESTION).names)


def test_names_that_only_end_like_ids_are_none():
    random = np.random.default_rng(0)
    frame = ordinary(random, 200)
    for name in ("paid", "humid", "solid", "grid", "Covid"):
        frame[name] = random.integers(0, 90, 200) ** 2
    assert notes_of(frame) == []


#: numbers in columns, and whether they stand for what is not known there
UNKNOWN = [
    {"percent": (-1, True), "temperature": (-99, True), "a": (-9999, True), "cents": (999, False)},
    {"percent": (-999, True), "temperature": (-1, False), "a": (99, True)},
    {"percent": (99, False), "temperature": (9999, True), "a": (-1, False), "sign": (99, True)},
    {"percent": (999.9, True), "temperature": (-99.9, True), "a": (9.9, False), "profit": (-999, True)},
    {"profit": (-99, False), "temperature": (-999.9, True)},
]


@settings(max_examples=4)
@given(random=RANDOM, rows=st.integers(120, 400))
@pytest.mark.parametrize("numbers", UNKNOWN)
def test_numbers_for_what_is_not_known_are_noticed(numbers, random, rows):
    frame = ordinary(random, rows).astype(dict.fromkeys(numbers, float))
    told = {}
    for name, (number, unknown) in numbers.items():
        cells = random.choice(rows, max(6, rows // 20), replace=False)
        frame.loc[cells, name] = number
        if unknown:
            told[name] = f"{name!r} ({number} in {len(cells):,} cells, "
    (note,) = notes_of(frame)
    assert {name for name in numbers if f"{name!r} (" in note} == set(told)
    assert all(words in note for words in told.values())
    matrix = prepare(frame, QUESTION).matrix
    assert all((matrix == number).any() for number, _ in numbers.values())  # nothing is changed without being asked


def test_such_a_number_in_the_target_is_warned_of():
    frame = ordinary(np.random.default_rng(0), 200)
    frame.loc[::20, "y"] = -999.0
    (note,) = [note for note in notes_of(frame) if note.startswith("WARNING")]
    assert "the target column 'y' has the number -999 in 10 cells" in note


def test_warnings_stand_above_the_verdict_and_are_printed(monkeypatch):
    for name in ("design", "quality"):  # most of the time of a report goes into its pictures
        monkeypatch.setattr(report.illustrations, name, lambda comparison: ())
    frame = ordinary(np.random.default_rng(0), 120)[["a", "count", "heavy", "y"]].assign(
        copy=lambda table: np.log(table["y"])
    )
    found = sm.compare(frame, target="y", model="linear", splits=2, settings=1, resamples=20, losses=["squared"])
    (warning,) = found.data.warnings
    assert warning.startswith("WARNING: column 'copy'")
    text = str(found).replace("\n", " ")
    assert text.index("WARNING: column 'copy'") < text.index(found.verdict.headline[:20])
    page = report.html(found)
    assert page.index('<section class="warnings"') < page.index('<section class="verdict')
    assert "WARNING: column &#39;copy&#39;" in page.partition('<section class="verdict')[0]
