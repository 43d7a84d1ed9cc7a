"""Lists inside persons: splits and resamples keep persons whole, measures of ranking look at each list."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from comparison_data import QUICK, queries, visits
from hypothesis import given, settings
from hypothesis import strategies as st

import selmatch as sm
from selmatch.comparison import bootstrap, features, result
from selmatch.comparison.question import Question
from selmatch.comparison.splits import splits_of
from selmatch.comparison.tables import prepare

WISH = {"word": "high", "top": 0.1, "strength": 8.0}
RANDOM = st.integers(0, 10**6).map(np.random.default_rng)


def nested(random: np.random.Generator, persons: int) -> pd.DataFrame:
    """Persons with lists of which the first of each has the same name, rows in any order."""
    lists = [(person, number) for person in range(persons) for number in range(random.integers(1, 5))]
    rows = [(f"p{person}", f"l{number}") for person, number in lists for _ in range(random.integers(2, 9))]
    frame = pd.DataFrame(rows, columns=["person", "list"]).sample(frac=1.0, random_state=int(random.integers(1000)))
    frame = frame.reset_index(drop=True)
    return frame.assign(
        a=random.normal(size=len(frame)), y=random.normal(size=len(frame)), at=random.random(len(frame))
    )


def asked(**options) -> Question:
    return Question(target="y", wish=WISH, threads=1, cluster="person", **options)


@settings(max_examples=6)
@given(
    random=RANDOM, persons=st.integers(12, 40), count=st.integers(1, 4), group=st.sampled_from(["list", None]),
    part=st.booleans(),
)  # fmt: skip
def test_splits_keep_persons_and_lists_whole(random, persons, count, group, part):
    frame = nested(random, persons)
    question = asked(splits=count, group=group, rows=max(30, len(frame) // 2) if part else 10**6)
    rows = prepare(frame, question)
    person = frame["person"].to_numpy()[rows.places]
    assert set(rows.names) == {"a", "at"} | ({"list"} if group is None else set())
    kept = frame["person"].isin(person)
    assert kept.sum() == len(rows)  # sampled persons have all their rows
    for split in splits_of(rows, question):
        homes = [set(person[part]) for part in split.parts]
        assert all(homes)
        assert len(set.union(*homes)) == sum(map(len, homes))
        if group is not None:
            names = (frame["person"] + frame["list"]).to_numpy()[rows.places]
            for part in split.parts:
                blocks = 1 + int((names[part][1:] != names[part][:-1]).sum())
                assert blocks == len(set(names[part]))  # a list lies side by side, and is no list of another person


@settings(max_examples=4)
@given(random=RANDOM, persons=st.integers(12, 30))
def test_persons_are_drawn_again_whole(random, persons):
    """Against resamples that put the rows of drawn persons behind each other."""
    frame = nested(random, persons)
    person, group = pd.factorize(frame["person"])[0], pd.factorize(frame["person"] + frame["list"])[0]
    error = random.normal(size=len(frame))
    zeros, rows = np.zeros(len(frame)), np.arange(len(frame))
    tested = result.Tested(zeros, {"selective": error}, zeros.astype(int), rows, group=group, cluster=person)
    counts = np.hstack(list(bootstrap.draws(tested, 25, 7)))
    again = np.random.default_rng(7)
    for column in counts.T:
        drawn = again.integers(0, persons, persons)
        taken = np.concatenate([np.flatnonzero(person == one) for one in drawn])
        np.testing.assert_allclose(column @ error / column.sum(), error[taken].mean(), rtol=1e-12)


def test_lists_of_one_name_are_told_apart():
    frame = nested(np.random.default_rng(0), 20)
    rows = prepare(frame, asked(group="list"))
    lists = frame.groupby(["person", "list"]).ngroups
    assert len(np.unique(rows.group)) == lists > frame["list"].nunique()
    (note,) = [note for note in rows.notes if "told apart" in note]
    assert f"{frame['list'].nunique()} values of 'list' are {lists} groups" in note
    unique = frame.assign(list=frame["person"] + frame["list"])
    assert not any("told apart" in note for note in prepare(unique, asked(group="list")).notes)


def test_too_few_persons_are_an_error():
    frame = visits().assign(y=visits()["seconds"], person=np.arange(240) % 3, query=np.arange(240) // 4)
    question = asked(group="query", splits=5)
    with pytest.raises(ValueError, match="cluster must have at least 5 clusters for 5 splits, got 3 clusters"):
        splits_of(prepare(frame, question), question)
    with pytest.raises(ValueError, match="group and cluster must be different columns"):
        prepare(frame, Question(target="y", wish=WISH, group="person", cluster="person"))


def test_persons_are_told_apart_in_time():
    frame = nested(np.random.default_rng(1), 40)
    rank = frame.groupby("person")["at"].transform("min").rank(method="dense")
    question = asked(group="list", time="at", splits=2)
    rows = prepare(frame.assign(at=rank + 0.01 * frame["at"]), question)
    for split in splits_of(rows, question):
        assert rows.time[split.train].max() < rows.time[split.valid].min()
        assert rows.time[split.valid].max() < rows.time[split.test].min()


def test_a_comparison_of_lists_inside_persons():
    frame = queries()
    frame["person"] = frame["query"].str.slice(1).astype(int) % 8
    options = {**QUICK, "model": "linear", "target": "relevance", "group": "query"}
    found = sm.compare(frame, **options, cluster="person")
    assert "person" not in found.data.features
    assert {measure.name for measure in found.measures} >= {"ndcg"}
    assert len(np.unique(found.tested.cluster)) == 8
    assert found.columns.roles["cluster"] == "person"
    again = result.Tested(**{**vars(found.tested), "cluster": None})
    assert len(np.unique(again.units)) == 24
    X, *_ = features(frame, target="relevance", group="query", cluster="person")
    assert list(X) == ["a", "b", "c"]
