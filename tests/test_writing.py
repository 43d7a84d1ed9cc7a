"""Files that are written whole or not at all, whatever the disk does."""

import contextlib
import errno
import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import selmatch as sm
from selmatch import report, spec
from selmatch.comparison import Columns, cells
from selmatch.comparison.journal import Journal, Outcome
from selmatch.comparison.result import Comparison
from selmatch.sparse_teachers import TopKTeacher
from selmatch.teacher_files import TeacherReader, TeacherWriter
from selmatch.writing import drafts_of, replace_file


def save_report(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "html", lambda comparison, folder: "<p>" + "figure " * 1000)
        report.write(SimpleNamespace(), path)  # type: ignore[arg-type]


def save_numbers(path):
    Comparison.to_json(SimpleNamespace(to_dict=lambda: {"scores": [0.125] * 1000}), path)  # type: ignore[arg-type]


def save_fit(path):
    Journal(path.parent.parent, path.parent.name).write(path.stem, Outcome(np.ones(1000), np.ones(10), 1.0, 1))


SAVERS = {
    "report.html": save_report,
    "comparison.json": save_numbers,
    "loss.toml": lambda path: spec.save(
        sm.MatchingLoss(sm.Sum(tuple(sm.Sinh().affine(alpha=1.0 + i) for i in range(40)))), path
    ),
    "columns.json": Columns("y", "target", {}, tuple(cells.Known(f"column {i}", "number") for i in range(50))).save,
    "fit.fit": save_fit,
    "notes.txt": lambda path: replace_file(path, b"words " * 1000),
}


@contextlib.contextmanager
def full_disk(room):
    """A disk that takes so many bytes of each file, and then no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fail(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", SAVERS)
def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path, monkeypatch, name, there):
    path = tmp_path / name
    if there:
        path.write_bytes(b"as it was")
    for room in (0, 1, 500, "fsync", "replace"):
        with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
            if isinstance(room, str):
                patch.setattr(os, room, fail)
            else:
                stack.enter_context(full_disk(room))
            with pytest.raises(OSError, match=name) as caught:
                SAVERS[name](path)
        assert caught.value.filename == str(path)
        assert caught.value.strerror == os.strerror(errno.ENOSPC if isinstance(room, str) else errno.EFBIG)
        assert {found.name: found.read_bytes() for found in tmp_path.iterdir()} == (
            {name: b"as it was"} if there else {}
        )
    SAVERS[name](path)
    assert len(path.read_bytes()) > 500
    assert list(tmp_path.iterdir()) == [path]


def test_teachers_on_a_full_disk_are_those_from_before(tmp_path):
    records = TopKTeacher.from_scores(np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32), k=4)
    writer = TeacherWriter(tmp_path, 50, 4, rows_per_shard=20)
    for room in (0, 1, 500):
        with full_disk(room), pytest.raises(OSError, match=r"shard-00000\.safetensors") as caught:
            writer.write(records)
        assert caught.value.filename == str(tmp_path / "shard-00000.safetensors")
        assert [path.name for path in tmp_path.iterdir()] == ["index.json"]
    writer.write(records)
    writer.close()
    TeacherReader(tmp_path).verify()


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from selmatch.writing import replace_file\n"
        "os.replace = lambda *_: os._exit(3)\n"
        "replace_file(Path(sys.argv[1]), b'half of it')\n"
    )
    shard = tmp_path / "shard-00000.safetensors"
    assert subprocess.run([sys.executable, "-c", script, shard], check=False).returncode == 3
    (left,) = drafts_of(shard)
    assert left.read_bytes() == b"half of it"
    assert not shard.exists()
    with TeacherWriter(tmp_path, 50, 4) as writer:
        writer.write(TopKTeacher.from_scores(np.zeros((3, 50), np.float32), k=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", shard.name]


@pytest.mark.parametrize("name", ["n" * 250, "π" * 120, "[a-z]*?.json", "-"])
def test_files_of_any_name_are_replaced(tmp_path, name):
    path = tmp_path / name
    for data in (b"first", b"second"):
        replace_file(path, data)
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == [name]
    assert drafts_of(path) == []


def test_links_stay_and_pipes_take_what_comes(tmp_path):
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    link.symlink_to(file)
    replace_file(link, b"through the link")
    assert link.is_symlink()
    assert file.read_bytes() == b"through the link"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(pipe, b"through the pipe")
    assert os.read(reader, 100) == b"through the pipe"
    os.close(reader)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        replace_file(tmp_path, b"")
    with pytest.raises(FileNotFoundError) as caught:
        replace_file(tmp_path / "nowhere" / "file", b"")
    assert caught.value.filename == str(tmp_path / "nowhere" / "file")
