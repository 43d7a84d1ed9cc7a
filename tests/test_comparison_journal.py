"""Finished fits of a comparison in files: whatever becomes of a file, its fit is made again, and no number changes."""

import dataclasses
import io
import logging
import os
import pickle
import shutil
from typing import ClassVar

import numpy as np
import pytest
from comparison_data import visits

from selmatch.comparison import fitting, running
from selmatch.comparison.aims import designed, region_of
from selmatch.comparison.question import Question
from selmatch.comparison.tables import prepare

WISH = {"word": "high", "top": 0.1, "strength": 8.0}
WORDS = "is broken and will be made again"


def run_of(folder, seed=0):
    question = Question(target="seconds", wish=WISH, model="linear", splits=2, settings=1, threads=1, seed=seed)
    rows = prepare(visits(80), question)
    loss = designed(question.wish, rows)
    return running.Run(rows, question, loss, region_of(loss, rows, 0.1), folder)


class Remembering:
    """Makes each fit once: from then on making it again takes no time, and is counted."""

    known: ClassVar = {}
    made: ClassVar = []
    real = staticmethod(fitting.trainer)

    def __init__(self, part):
        self.part = part

    def fit(self, recipe, setting):
        key = (self.part.split.test.tobytes(), recipe.name, str(setting))
        if key not in self.known:
            self.known[key] = self.real(self.part).fit(recipe, setting)
        self.made.append(key)
        return self.known[key]


class Finished:
    """A comparison, its journal, and that of another question beside it."""

    def __init__(self, folder):
        self.run = run_of(folder)
        self.first = self.run.result()
        run_of(folder, seed=1).result()  # of another question
        self.whole = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        split = self.run.splits[0]
        self.sizes = len(split.test), len(split.valid)
        self.own = [path for path in self.whole if path.parent == self.run.journal.folder]
        self.others = [path for path in self.whole if path.parent != self.run.journal.folder]

    def assert_mended(self, caplog):
        """Go on from the files as they are: the same numbers, and only fits of other files are made again."""
        gone = [path for path in self.own if not path.exists()]
        changed = [path for path in self.own if path not in gone and path.read_bytes() != self.whole[path]]
        Remembering.made.clear()
        caplog.clear()
        tested, contenders = dataclasses.replace(self.run).result()
        assert contenders == self.first[1]
        for name, scores in self.first[0].predicted.items():
            assert tested.predicted[name].tobytes() == scores.tobytes()
        assert len(Remembering.made) == len(changed) + len(gone)
        warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert [f"compare: {path.name} {WORDS}" in " ".join(warned) for path in changed] == [True] * len(changed)
        assert len(warned) == len(changed)
        assert {path: path.read_bytes() for path in self.own} == {path: self.whole[path] for path in self.own}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "trainer", Remembering)
        yield Finished(tmp_path_factory.mktemp("journal"))


class Planted:
    """What a pickle must never do."""

    ran = False

    def __reduce__(self):
        return setattr, (Planted, "ran", True)


def archive(**arrays):
    """A file as NumPy writes it."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def strangers():
    """Files that no run has written."""
    rows, few = np.zeros(40), np.zeros(10)
    whole = {"test": rows, "valid": few, "criterion": 0.5, "rounds": 3}
    bomb = io.BytesIO()
    np.lib.format.write_array_header_1_0(bomb, {"descr": "<f8", "fortran_order": False, "shape": (1 << 45,)})
    return [
        b"",
        b"\n" * 5000,
        pickle.dumps(Planted()),
        archive(**whole),
        archive(**{**whole, "test": np.full(40, np.nan)}),
        archive(**{**whole, "test": rows.astype(np.float16)}),
        archive(**{**whole, "valid": np.zeros((10, 3))}),
        archive(**{**whole, "criterion": np.array([Planted()], dtype=object)}),
        archive(rounds=3),
        bomb.getvalue(),
        np.lib.format.magic(1, 0) + b"\xff\xff" + b"(" * 65535,
    ]


def damaged(random, path, finished):
    """The bytes of a file after something has happened to it."""
    data = bytearray(finished.whole[path])
    start, length = (int(n) for n in random.integers(0, len(data), 2))
    match random.integers(0, 8):
        case 0:
            data[start] ^= 1 << int(random.integers(0, 8))
        case 1:
            del data[start:]
        case 2:
            data[start : start + length] = random.bytes(length)
        case 3:
            data[start : start + length] = bytes(length)
        case 4:
            del data[start : start + length]
        case 5:
            data[start:start] = random.bytes(length)
        case 6:
            return random.choice(np.array(strangers(), dtype=object))
        case 7:  # the file of another fit, or of the same fit of another question
            return finished.whole[random.choice(np.array([*finished.own, *finished.others], dtype=object))]
    return bytes(data)


def damage_and_mend(finished, caplog, count):
    random = np.random.default_rng(count)
    for _ in range(count):
        for path in random.choice(np.array(finished.own, dtype=object), random.integers(1, 4), replace=False):
            path.write_bytes(damaged(random, path, finished))
        finished.assert_mended(caplog)
    assert not Planted.ran


def test_any_damage_of_a_file_makes_its_fit_anew(finished, caplog):
    damage_and_mend(finished, caplog, 120)


@pytest.mark.slow
def test_thousands_of_damages_change_no_number(finished, caplog):
    damage_and_mend(finished, caplog, 4000)


def test_swapped_files_are_told_apart(finished, caplog):
    for i in range(len(finished.own) - 1):
        one, other = finished.own[i : i + 2]
        one.write_bytes(finished.whole[other])
        other.write_bytes(finished.whole[one])
        finished.assert_mended(caplog)


def test_what_is_no_file_is_not_opened(finished, caplog):
    first, second = finished.own[:2]
    first.unlink()
    second.unlink()
    first.symlink_to(second)
    second.symlink_to(first)
    assert finished.run.journal.read(first.stem, *finished.sizes) is None
    assert WORDS in caplog.text
    first.unlink()
    second.unlink()
    finished.assert_mended(caplog)
    if hasattr(os, "mkfifo"):
        first.unlink()
        os.mkfifo(first)
        assert finished.run.journal.read(first.stem, *finished.sizes) is None
        first.unlink()
        finished.assert_mended(caplog)


def test_fits_of_earlier_versions_are_made_again(finished, caplog):
    for path in finished.own:
        path.unlink()
        path.with_suffix(".npz").write_bytes(archive(test=np.zeros(40), valid=np.zeros(10), criterion=0.5, rounds=3))
    finished.assert_mended(caplog)
    for path in finished.own:
        path.with_suffix(".npz").unlink()


def test_a_journal_of_another_question_is_not_taken_for_this_one(finished, caplog):
    shutil.copytree(finished.others[0].parent, finished.run.journal.folder, dirs_exist_ok=True)
    finished.assert_mended(caplog)
