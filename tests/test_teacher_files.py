"""Top-k teachers on disk: what is written comes back, whatever happens on the way is named.

``golden/teachers_v1`` holds :func:`golden_records` as version 1 of the format wrote them, with the call of
:func:`test_what_is_written_now_is_what_version_1_wrote`; it is never written again.
"""

import contextlib
import json
import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

import selmatch as sm
from selmatch import teacher_files
from selmatch.sparse_teachers import TopKTeacher
from selmatch.teacher_files import TeacherFileError, TeacherReader, TeacherWriter

GOLDEN = Path(__file__).parent / "golden" / "teachers_v1"
MAKERS = {"numpy": np.asarray, "torch": torch.from_numpy}


def teacher(rows=6, classes=50, k=4, seed=0, make=np.asarray, scale=3.0):
    scores = (scale * np.random.default_rng(seed).normal(size=(rows, classes))).astype(np.float32)
    return TopKTeacher.from_scores(make(scores), k=k)


def write(folder, *teachers, **options):
    first = teachers[0]
    with TeacherWriter(folder, first.classes, first.k, **options) as writer:
        for one in teachers:
            writer.write(one)
    return folder


def array(x):
    return x.numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def assert_same(read, written):
    """Bit for bit what a loss sees of a teacher."""
    assert read.classes == written.classes
    for name in ("indices", "log_probabilities", "tail"):
        np.testing.assert_array_equal(array(getattr(read, name)), array(getattr(written, name)), err_msg=name)


def rows_of(teacher, rows):
    """Some rows of a teacher of NumPy arrays."""
    return TopKTeacher(teacher.indices[rows], teacher.scores[rows], teacher.log_sum_exp[rows], teacher.classes)


def edit_index(folder, name="index.json", **changes):
    document = json.loads((folder / name).read_text())
    document |= changes
    (folder / name).write_text(json.dumps(document | {"sha256": teacher_files._checksum_of(document)}))


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def place_of(path, array, record):
    """The position in a file of the first byte of one record of an array."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + length])[array]["data_offsets"]
    records = json.loads(data[8 : 8 + length])["crc32"]["shape"][0]
    return 8 + length + begin + record * (end - begin) // records


# -------------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("framework", MAKERS)
def test_single_precision_comes_back_bit_for_bit(tmp_path, framework):
    written = teacher(make=MAKERS[framework])
    write(tmp_path, teacher(make=MAKERS[framework]), dtype="float32")
    read = TeacherReader(tmp_path, framework=framework)[:]
    assert isinstance(read.scores, np.ndarray if framework == "numpy" else torch.Tensor)
    if framework == "torch":
        assert_same(read, written)
    else:  # a log-sum-exp of NumPy arrays is in double precision
        np.testing.assert_allclose(read.log_probabilities, written.log_probabilities, rtol=1e-7)


def test_double_precision_comes_back_bit_for_bit(tmp_path):
    written = TopKTeacher.from_scores(np.random.default_rng(0).normal(size=(20, 300)), k=17)
    assert_same(TeacherReader(write(tmp_path, written, dtype="float64"))[:], written)


@pytest.mark.parametrize("classes", [2, 65_536, 65_537, 1 << 24, (1 << 24) + 1, (1 << 31) - 1])
def test_classes_of_every_width(tmp_path, classes):
    indices = np.array([[0, classes - 1], [classes // 2 - 1, classes // 2]])
    written = TopKTeacher(indices, np.log([[0.25, 0.5], [0.125, 0.75]]), np.zeros(2), classes)
    read = TeacherReader(write(tmp_path, written, dtype="float64"))[:]
    assert read.indices.dtype == np.int32
    assert_same(read, written)


def test_half_precision_costs_little(tmp_path):
    written = teacher(rows=500, classes=2000, k=32, make=torch.from_numpy)
    read = TeacherReader(write(tmp_path, written), framework="torch")[:]
    assert read.scores.dtype == torch.float16
    exact = written.log_probabilities
    assert ((read.log_probabilities - exact).abs() <= 2.0**-11 * exact.abs() + 1e-3).all()
    loss = sm.torch.MatchingLoss(sm.CompositeSoftmax(sm.SmeLU().affine(beta=-6.0), gamma=0.5))
    student = torch.randn(500, 2000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss(student, read), loss(student, written), rtol=3e-4, atol=0.0)


def test_rounding_keeps_the_probability_that_is_left(tmp_path):
    p = np.array([[0.3, 0.3, 0.2, 0.1999], [0.9, 0.09, 0.009, 0.0009]])
    written = TopKTeacher(np.arange(8).reshape(2, 4), np.log(p), np.zeros(2), 1000)
    read = TeacherReader(write(tmp_path, written))[:]
    np.testing.assert_allclose(np.exp(read.log_probabilities.astype(float)).sum(-1), p.sum(-1), atol=2e-7)
    # half precision alone would leave 0.00025 instead of 0.0001 for the first row
    np.testing.assert_allclose(read.tail, written.tail, atol=2e-3)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_every_precision_are_written(tmp_path, kind):
    scores = torch.randn(3, 5, 40, generator=torch.Generator().manual_seed(0)).to(kind)
    written = TopKTeacher.from_scores(scores, k=4)
    read = TeacherReader(write(tmp_path, written, dtype="float32"), framework="torch")
    assert len(read) == 15
    torch.testing.assert_close(read[:].log_probabilities, written.log_probabilities.float().reshape(15, 4))


@given(
    sizes=st.lists(st.integers(0, 7), max_size=4),
    rows_per_shard=st.integers(2, 9),
    parts=st.integers(1, 3),
    numbers=st.lists(st.integers(0, 10**6), max_size=8),
)
def test_any_calls_shards_and_parts_give_the_same_records(tmp_path_factory, sizes, rows_per_shard, parts, numbers):
    folder = tmp_path_factory.mktemp("teachers")
    everything = teacher(rows=parts * sum(sizes), seed=1)
    start = 0
    for part in range(parts):
        with TeacherWriter(folder, 50, 4, dtype="float64", rows_per_shard=rows_per_shard, part=part, parts=parts) as w:
            for size in sizes:
                assert w.write(rows_of(everything, slice(start, start + size))).stop == w.records
                start += size
    reader = TeacherReader(folder)
    assert len(reader) == start
    assert [len(part) for part in reader.parts] == [sum(sizes)] * parts
    assert all(shard.records <= rows_per_shard for shard in reader._shards)
    assert_same(reader[:], everything)
    if start:
        some = np.array(numbers, dtype=int) % start
        assert_same(reader[some], rows_of(everything, some))
    reader.verify()


def test_rows_have_any_shape_and_masked_ones_are_left_out(tmp_path):
    flat = teacher(rows=6)
    grid = TopKTeacher(*(x.reshape(2, 3, *x.shape[1:]) for x in (flat.indices, flat.scores, flat.log_sum_exp)), 50)
    mask = np.array([[True, True, False], [True, False, False]])
    with TeacherWriter(tmp_path, 50, 4, dtype="float64") as writer:
        assert writer.write(grid) == range(6)
        assert writer.write(grid, where=torch.from_numpy(mask)) == range(6, 9)
        assert writer.write(rows_of(flat, 5), where=None) == range(9, 10)
        assert writer.write(grid, where=jnp.asarray(mask)) == range(10, 13)
        assert writer.write(grid, where=mask.tolist()) == range(13, 16)
    assert_same(TeacherReader(tmp_path)[:], rows_of(flat, [0, 1, 2, 3, 4, 5, 0, 1, 3, 5, 0, 1, 3, 0, 1, 3]))


# ------------------------------------------------------------------------------------------------------------ reading


def test_records_are_read_by_number_slice_and_array(tmp_path):
    written = teacher(rows=10)
    reader = TeacherReader(write(tmp_path, written, dtype="float64", rows_per_shard=4))
    for asked in (3, -1, np.int64(9), slice(2, 9), slice(None, None, -3), [9, 0, 0, 4], np.array([[1, 8], [-3, 5]])):
        assert_same(reader[asked], rows_of(written, asked))
    assert_same(reader[torch.tensor([2, 7])], rows_of(written, [2, 7]))
    assert reader[[]].indices.shape == reader[5:5].indices.shape == (0, 4)
    assert reader[3].log_sum_exp.shape == ()
    assert [one.log_sum_exp.shape for one in reader] == [()] * 10


def test_batches_stream_and_shuffle(tmp_path):
    written = teacher(rows=10)
    write(tmp_path, written, dtype="float64", rows_per_shard=4)
    reader = TeacherReader(tmp_path)
    in_order = list(reader.batches(4))
    assert [records.tolist() for records, _ in in_order] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [len(records) for records, _ in reader.batches(4, drop_last=True)] == [4, 4]
    for records, one in reader.batches(3, seed=7):
        assert_same(one, rows_of(written, records))
    orders = [np.concatenate([records for records, _ in reader.batches(3, seed=seed)]) for seed in (7, 7, 8)]
    assert sorted(orders[0]) == list(range(10))
    assert (orders[0] == orders[1]).all()
    assert (orders[0] != orders[2]).any()
    records, one = next(TeacherReader(tmp_path, framework="torch").batches(4, seed=0))
    assert isinstance(records, torch.Tensor)
    assert isinstance(one.scores, torch.Tensor)


def test_only_the_asked_shards_are_opened(tmp_path):
    reader = TeacherReader(write(tmp_path, teacher(rows=8), rows_per_shard=4))
    (tmp_path / "shard-00001.safetensors").unlink()
    assert reader[0:4].log_sum_exp.shape == (4,)
    with pytest.raises(
        TeacherFileError, match=r"^shard-00001\.safetensors: must exist in .* \(4 records\), got no such"
    ):
        reader[3:5]


def test_few_shards_are_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_files, "_MOST_OPEN", 2)
    written = teacher(rows=9)
    reader = TeacherReader(write(tmp_path, written, dtype="float64", rows_per_shard=1))
    for _ in range(2):
        assert_same(reader[::-1], rows_of(written, slice(None, None, -1)))
        assert len(reader._mapped) == 2


def test_a_checksum_is_computed_once(tmp_path, monkeypatch):
    reader = TeacherReader(write(tmp_path, teacher()))
    reader[0]
    copy, unchecked = pickle.loads(pickle.dumps(reader)), TeacherReader(tmp_path, verify=False)
    monkeypatch.setattr(teacher_files.hashlib, "sha256", None)
    reader[1]
    copy[1]
    unchecked[2]
    with pytest.raises(TypeError):
        unchecked.verify()


def test_readers_are_pickled_without_their_files(tmp_path):
    written = teacher(rows=400)
    reader = TeacherReader(write(tmp_path, written, dtype="float64"))
    before = len(pickle.dumps(reader))
    reader[:]
    assert len(pickle.dumps(reader)) < before + 200
    assert_same(pickle.loads(pickle.dumps(reader))[:], written)


def as_it_is(batch):
    return batch


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_reader_is_a_dataset_of_pytorch(tmp_path, workers):
    written = teacher(rows=10, make=torch.from_numpy)
    reader = TeacherReader(write(tmp_path, written, dtype="float32", rows_per_shard=4), framework="torch")
    reader[0]  # files that are open here are opened again there
    start = {"num_workers": workers, "multiprocessing_context": "spawn"} if workers else {}
    batches = list(torch.utils.data.DataLoader(reader, batch_size=4, collate_fn=as_it_is, **start))
    assert [len(one.indices) for one in batches] == [4, 4, 2]
    known = torch.cat([one.log_probabilities for one in batches])
    torch.testing.assert_close(known, written.log_probabilities, rtol=0.0, atol=0.0)


def test_errors_of_workers_keep_their_words():
    """A DataLoader makes the error of a worker again from its traceback as one text."""
    error = TeacherFileError("index 7 must be below 5.", Path("folder/shard-00000.safetensors"), 2)
    assert str(error) == "shard-00000.safetensors, record 2: index 7 must be below 5."
    assert str(TeacherFileError(f"Caught {error}")) == f"Caught {error}"


def test_metadata_is_kept(tmp_path):
    write(tmp_path, teacher(), temperature=2.0, metadata={"teacher": "größer", "data": "corpus"})
    reader = TeacherReader(tmp_path)
    assert reader.metadata == {"teacher": "größer", "data": "corpus"}
    assert (reader.classes, reader.k, reader.dtype, reader.temperature) == (50, 4, "float16", 2.0)
    assert repr(reader) == f"TeacherReader(6 records, 4 of 50 classes, {tmp_path})"


# ----------------------------------------------------------------------------------------------- crashes and appending


def test_an_error_in_the_loop_loses_nothing_that_was_written(tmp_path):
    written = teacher(rows=7)

    def interrupted():
        with TeacherWriter(tmp_path, 50, 4, dtype="float64", rows_per_shard=4) as writer:
            writer.write(written)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    reader = TeacherReader(tmp_path)
    assert_same(reader[:], written)
    assert not reader.complete
    assert repr(reader).endswith("not complete)")


def test_a_crash_loses_at_most_the_last_shard(tmp_path):
    script = (
        "import os, sys, numpy as np\n"
        "from selmatch.sparse_teachers import TopKTeacher\n"
        "from selmatch.teacher_files import TeacherWriter\n"
        "writer = TeacherWriter(sys.argv[1], 50, 4, dtype='float64', rows_per_shard=4)\n"
        "scores = 3.0 * np.random.default_rng(0).normal(size=(7, 50))\n"
        "writer.write(TopKTeacher.from_scores(scores.astype(np.float32), k=4))\n"
        "os._exit(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == 3
    written = teacher(rows=7)
    reader = TeacherReader(tmp_path)
    assert not reader.complete
    assert_same(reader[:], rows_of(written, slice(4)))
    with TeacherWriter(tmp_path, 50, 4, dtype="float64", append=True) as writer:
        assert writer.records == 4
        assert writer.write(rows_of(written, slice(writer.records, None))) == range(4, 7)
    reader = TeacherReader(tmp_path)
    assert reader.complete
    assert_same(reader[:], written)


@pytest.mark.parametrize("for_good", [True, False])
@pytest.mark.parametrize("moment", range(1, 7))  # two shards and their index, then close: a shard, twice the index
def test_a_disk_that_fails_at_any_moment_leaves_a_readable_folder(tmp_path, monkeypatch, moment, for_good):
    written, replace, calls = teacher(rows=7), os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == moment + 1 or (for_good and len(calls) > moment):  # the index of no records comes first
            raise OSError("disk full")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path, written, dtype="float64", rows_per_shard=3)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*.tmp"))
    reader = TeacherReader(tmp_path)
    reader.verify()
    assert not reader.complete
    assert len(reader) == {4: 6, 5: 6, 6: 7}.get(moment, 0)  # a call that failed stored nothing, not a part of its rows
    with TeacherWriter(tmp_path, 50, 4, dtype="float64", append=True) as writer:
        writer.write(rows_of(written, slice(len(reader), None)))
    assert_same(TeacherReader(tmp_path)[:], written)


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_call_that_failed_can_be_tried_again(tmp_path, monkeypatch, moment):
    written, replace, calls = teacher(rows=9), os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == moment:
            raise OSError("disk full")
        replace(source, target)

    with TeacherWriter(tmp_path, 50, 4, dtype="float64", rows_per_shard=3) as writer:
        writer.write(rows_of(written, slice(2)))
        monkeypatch.setattr(os, "replace", failing)
        with pytest.raises(OSError, match="disk full"):
            writer.write(rows_of(written, slice(2, 7)))
        assert writer.records == 2
        assert len(TeacherReader(tmp_path)) == 0
        assert writer.write(rows_of(written, slice(2, 7))) == range(2, 7)
        assert writer.write(rows_of(written, slice(7, 9))) == range(7, 9)
    reader = TeacherReader(tmp_path)
    reader.verify()
    assert_same(reader[:], written)


def test_closing_that_failed_can_be_tried_again(tmp_path, monkeypatch):
    writer = TeacherWriter(tmp_path, 50, 4, dtype="float64")
    writer.write(teacher())
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            writer.close()
    assert writer.records == 6
    writer.close()
    assert_same(TeacherReader(tmp_path)[:], teacher())


def test_threads_share_a_writer(tmp_path):
    written = teacher(rows=400)
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            TeacherWriter(tmp_path, 50, 4, dtype="float64", rows_per_shard=7) as writer,
            ThreadPoolExecutor(4) as threads,
        ):
            records = list(threads.map(lambda row: writer.write(rows_of(written, slice(row, row + 1)))[0], range(400)))
    finally:
        sys.setswitchinterval(switching)
    reader = TeacherReader(tmp_path)
    reader.verify()
    assert sorted(records) == list(range(400)) == list(range(len(reader)))
    assert_same(reader[records], written)


def test_a_pickled_writer_goes_on(tmp_path):
    writer = TeacherWriter(tmp_path, 50, 4, dtype="float64")
    writer.write(teacher(seed=0))
    with pickle.loads(pickle.dumps(writer)) as copy:
        assert copy.write(teacher(seed=1)) == range(6, 12)
    assert_same(TeacherReader(tmp_path)[6:], teacher(seed=1))


def test_appending_goes_on_where_the_last_writer_stopped(tmp_path):
    for seed in range(3):
        with TeacherWriter(tmp_path, 50, 4, append=True, rows_per_shard=4) as writer:
            assert writer.records == 6 * seed
            writer.write(teacher(seed=seed))
            writer.close()
            with pytest.raises(ValueError, match=r"must be open to write, got a closed one\. Use append=True"):
                writer.write(teacher())
    assert len(TeacherReader(tmp_path)) == 18


def test_teachers_that_are_there_are_never_lost_unasked(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "model.safetensors").write_text("mine too")
    write(tmp_path, teacher(rows=9), rows_per_shard=4)
    with pytest.raises(
        FileExistsError, match=r"hold no teachers yet, got .*index\.json\. Go on behind them with append"
    ):
        TeacherWriter(tmp_path, 50, 4)
    with pytest.raises(FileExistsError, match=r"in another number of parts, got .*index\.json\. Take another folder\."):
        TeacherWriter(tmp_path, 50, 4, part=0, parts=2, overwrite=True)
    with pytest.raises(ValueError, match="append and overwrite must not both be True"):
        TeacherWriter(tmp_path, 50, 4, append=True, overwrite=True)
    assert len(TeacherReader(tmp_path)) == 9
    write(tmp_path, teacher(rows=2, classes=20, k=3), overwrite=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["index.json", "model.safetensors", "notes.txt", "shard-00000.safetensors"]
    assert TeacherReader(tmp_path)[:].classes == 20


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"classes": 51}, "classes must be 50 as in .*, got 51"),
        ({"k": 5}, "k must be 4 as in .*, got 5"),
        ({"dtype": "float32"}, "dtype must be 'float16' as in .*, got 'float32'"),
        ({"temperature": 2.0}, r"temperature must be 1\.0 as in .*, got 2\.0"),
        ({"metadata": {"a": "c"}}, r"metadata must be \{'a': 'b'\} as in .*, got \{'a': 'c'\}\. Leave it out"),
    ],
)
def test_other_teachers_are_not_appended(tmp_path, changed, words):
    write(tmp_path, teacher(), metadata={"a": "b"})
    with pytest.raises(ValueError, match=f"^TeacherWriter: {words}"):
        TeacherWriter(tmp_path, **{"classes": 50, "k": 4, "append": True, **changed})
    assert TeacherReader(tmp_path).complete
    TeacherWriter(tmp_path, 50, 4, append=True, metadata={"a": "b"}).close()
    (tmp_path / "shard-00000.safetensors").unlink()
    with pytest.raises(TeacherFileError, match=r"^shard-00000\.safetensors: must exist"):
        TeacherWriter(tmp_path, 50, 4, append=True)


# -------------------------------------------------------------------------------------------------------------- parts


def test_parts_are_written_apart_and_read_together(tmp_path):
    teachers = [teacher(rows=5, seed=seed) for seed in range(3)]
    writers = [TeacherWriter(tmp_path, 50, 4, dtype="float64", rows_per_shard=2, part=p, parts=3) for p in range(3)]
    for number in (2, 0, 1):
        assert writers[number].write(teachers[number]) == range(5)
    for writer in writers[:2]:
        writer.close()
    assert not TeacherReader(tmp_path).complete
    writers[2].close()
    reader = TeacherReader(tmp_path)
    assert reader.complete
    assert reader.parts == [range(5), range(5, 10), range(10, 15)]
    for rows, written in zip(reader.parts, teachers, strict=True):
        assert_same(reader[rows.start : rows.stop], written)
    with TeacherWriter(tmp_path, 50, 4, dtype="float64", part=1, parts=3, overwrite=True) as writer:
        writer.write(teachers[0])
    assert_same(TeacherReader(tmp_path)[5:10], teachers[0])
    assert_same(TeacherReader(tmp_path)[10:15], teachers[2])
    write(tmp_path, teachers[0], overwrite=True)
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["index.json", "shard-00000.safetensors"]


def test_parts_that_are_missing_or_do_not_fit_are_named(tmp_path):
    for part in (0, 2):
        write(tmp_path, teacher(), part=part, parts=3)
    with pytest.raises(TeacherFileError, match=r"^index-00001-of-00003\.json: must exist in .*, got 2 of 3 parts"):
        TeacherReader(tmp_path)
    write(tmp_path, teacher(k=5), part=1, parts=3)
    with pytest.raises(TeacherFileError, match=r"^index-00001-of-00003\.json: contents must be .*k=4.*, got .*k=5"):
        TeacherReader(tmp_path)
    with pytest.raises(FileExistsError, match=r"another number of parts, got .*index-00000-of-00003\.json"):
        TeacherWriter(tmp_path, 50, 4, part=0, parts=2)
    (tmp_path / "index-00001-of-00003.json").rename(tmp_path / "index-00000-of-00001.json")
    with pytest.raises(TeacherFileError, match="part and parts must be those of the file's name, got 1 of 3"):
        TeacherReader(tmp_path)


# ------------------------------------------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": 0}, "classes must be a whole number from 1 to 2147483647, got 0."),
        ({"classes": 1 << 31}, "classes must be a whole number from 1 to 2147483647, got 2147483648."),
        ({"classes": 10.0}, "classes must be a whole number from 1 to 2147483647, got 10.0."),
        ({"k": 0}, "k must be a whole number from 1 to 50 (the classes), got 0."),
        ({"k": 51}, "k must be a whole number from 1 to 50 (the classes), got 51."),
        ({"dtype": "bfloat16"}, "dtype must be 'float16' or 'float32' or 'float64', got 'bfloat16'."),
        ({"temperature": 0.0}, "temperature must be > 0 and finite, got 0.0."),
        ({"temperature": "1"}, "temperature must be > 0 and finite, got '1'."),
        ({"metadata": {"step": 3}}, "metadata must be a dictionary of strings, got {'step': 3}."),
        ({"metadata": ["step"]}, "metadata must be a dictionary of strings, got ['step']."),
        ({"rows_per_shard": 0}, "rows_per_shard must be a whole number >= 1, got 0."),
        ({"part": 2, "parts": 2}, "part must be a whole number from 0 to parts - 1, got part=2, parts=2."),
        ({"part": 1}, "part must be a whole number from 0 to parts - 1, got part=1, parts=1."),
    ],
)
def test_writers_that_cannot_be(tmp_path, arguments, words):
    with pytest.raises(ValueError, match=f"^{re.escape('TeacherWriter: ' + words)}$"):
        TeacherWriter(tmp_path / "new", **{"classes": 50, "k": 4, **arguments})
    assert not (tmp_path / "new").exists()


def test_numbers_of_numpy_are_numbers(tmp_path):
    options = {"temperature": np.float32(2.0), "rows_per_shard": np.int64(4), "part": np.int8(0), "parts": np.int8(1)}
    with TeacherWriter(tmp_path, np.int32(50), np.uint8(4), **options) as writer:
        writer.write(teacher())
    reader = TeacherReader(tmp_path)
    assert (reader.classes, reader.k, reader.temperature) == (50, 4, 2.0)
    assert [len(records) for records, _ in reader.batches(np.int16(4))] == [4, 2]
    TeacherWriter(tmp_path, 50, 4, temperature=np.int64(2), append=True).close()
    for name in ("classes", "k", "rows_per_shard"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            TeacherWriter(tmp_path, **{"classes": 50, "k": 4, name: np.True_})


def log_probabilities(*rows):
    """A teacher as it comes from a GPU, where nobody has looked at its numbers."""
    made = object.__new__(TopKTeacher)
    made._keep(np.array([[1, 3]] * len(rows)), np.array(rows), np.zeros(len(rows)), 50)
    return made


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            log_probabilities([-1.0, -2.0], [-1.0, np.nan]),
            "row 1 of the teacher: log-probabilities must be finite, got nan",
        ),
        (log_probabilities([-1.0, -np.inf]), "row 0 of the teacher: log-probabilities must be finite, got -inf."),
        (
            log_probabilities([-1.0, -2.0], [0.3, -2.0]),
            "row 1 of the teacher: the stored probabilities must add up to at most 1, got exp(0.3955). Is log_sum_exp ",
        ),
        (
            log_probabilities([-1.0, -7e4]),
            "row 0 of the teacher: log-probabilities must fit into float16, got -70000. Take dtype='float32'.",
        ),
        (teacher(k=3), "teacher must have 2 of 50 classes, got 3 of 50. Other teachers need a folder of their own."),
        (teacher(k=2, classes=51), "teacher must have 2 of 50 classes, got 2 of 51."),
    ],
)
def test_rows_that_are_no_teacher_are_named(tmp_path, written, words):
    with TeacherWriter(tmp_path, 50, 2) as writer:
        with pytest.raises(ValueError, match=f"^{re.escape('TeacherWriter: ' + words)}"):
            writer.write(written)
        assert writer.records == 0


def test_rows_of_several_axes_are_named_by_all_of_them(tmp_path):
    scores = torch.randn(2, 3, 50)
    scores[1, 2, 7] = torch.nan
    with TeacherWriter(tmp_path, 50, 4) as writer:
        with pytest.raises(ValueError, match=r"^TeacherWriter: row \(1, 2\) of the teacher: .* finite, got nan"):
            writer.write(TopKTeacher.from_scores(scores, k=4))
        keep = scores.isfinite().all(-1)
        assert writer.write(TopKTeacher.from_scores(scores, k=4), where=keep) == range(5)
        with pytest.raises(ValueError, match=r"where must be bool of shape \(2, 3\) \(the rows\), got int64 \(2, 3\)"):
            writer.write(TopKTeacher.from_scores(scores, k=4), where=keep.long())
        with pytest.raises(TypeError, match="expected a TopKTeacher, got Tensor"):
            writer.write(scores)


def test_indices_that_no_device_has_checked_are_checked(tmp_path):
    moved = object.__new__(TopKTeacher)
    moved._keep(np.array([[1, 50]]), np.log([[0.5, 0.25]]), np.zeros(1), 50)
    with (
        TeacherWriter(tmp_path, 50, 2) as writer,
        pytest.raises(ValueError, match=r"row 0 of .* index 50 must be below 50"),
    ):
        writer.write(moved)


def test_records_that_do_not_exist(tmp_path):
    reader = TeacherReader(write(tmp_path, teacher()))
    for asked in (6, -7, [0, 6]):
        with pytest.raises(IndexError, match=r"^TeacherReader: records must be from -6 to 5, got (6|-7)\.$"):
            reader[asked]
    for asked, kind in ((1.0, "float64"), (np.ones(6, bool), "bool"), ("a", "<U1"), (None, "object")):
        with pytest.raises(TypeError, match=f"whole numbers, got {kind}. For a mask use numpy.flatnonzero"):
            reader[asked]
    with pytest.raises(ValueError, match="size must be a whole number >= 1, got 0"):
        reader.batches(0)
    with pytest.raises(ValueError, match="framework must be 'numpy' or 'torch', got 'jax'"):
        TeacherReader(tmp_path, framework="jax")


def test_a_folder_without_records_says_so(tmp_path):
    TeacherWriter(tmp_path, 50, 4).close()
    reader = TeacherReader(tmp_path)
    for asked in (0, -1, [0, 1]):
        with pytest.raises(
            IndexError, match=r"^TeacherReader: folder must hold records .*, got no records in .*\. Was"
        ):
            reader[asked]
    assert reader[:].indices.shape == reader[[]].indices.shape == (0, 4)


def test_missing_extras_are_named(tmp_path, monkeypatch):
    write(tmp_path, teacher())
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'needs PyTorch\. Install it with: pip install "selmatch\[torch\]"'):
        TeacherReader(tmp_path, framework="torch")
    script = "import sys; sys.modules['safetensors'] = None; import selmatch.teacher_files"
    failed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (
        'selmatch.teacher_files needs safetensors. Install it with: pip install "selmatch[teachers]".' in failed.stderr
    )


# ------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("array", ["indices", "indices_high", "scores", "log_sum_exp", "crc32"])
def test_a_damaged_byte_is_found_and_its_record_named(tmp_path, array):
    write(tmp_path, teacher(rows=9, classes=70_000), rows_per_shard=5)
    path = tmp_path / "shard-00001.safetensors"
    flip(path, place_of(path, array, record=2))
    reader = TeacherReader(tmp_path)
    assert reader[:5].k == 4
    for read in (lambda: reader[5], reader.verify, lambda: TeacherReader(tmp_path, verify=False).verify()):
        with pytest.raises(TeacherFileError, match=r"^shard-00001\.safetensors, record 2: must be as it was") as caught:
            read()
        assert caught.value.file == path
        assert caught.value.record == 2
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.record) == (str(caught.value), 2)


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_no_changed_bit_of_a_shard_goes_unnoticed(tmp_path_factory, position, bit):
    folder = tmp_path_factory.getbasetemp() / "shards"
    path = folder / "shard-00000.safetensors"
    if not folder.exists():
        write(folder, teacher(rows=9, classes=70_000))
    original = path.read_bytes()
    data = bytearray(original)
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    try:
        for reader in (TeacherReader(folder), TeacherReader(folder, verify=False)):
            with pytest.raises(TeacherFileError, match=r"^shard-00000\.safetensors"):
                reader.verify()
        with contextlib.suppress(TeacherFileError):  # unverified: an error or numbers, nothing worse
            TeacherReader(folder, verify=False)[:]
    finally:
        path.write_bytes(original)


@given(position=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_changed_bit_of_an_index_is_an_error_or_does_no_harm(tmp_path_factory, position, bit):
    folder = tmp_path_factory.getbasetemp() / "indexes"
    written = teacher(rows=9)
    if not folder.exists():
        write(folder, written, dtype="float64", temperature=1.5, metadata={"teacher": "t"}, rows_per_shard=5)
    original = (folder / "index.json").read_bytes()
    data = bytearray(original)
    data[position % len(data)] ^= 1 << bit
    (folder / "index.json").write_bytes(data)
    try:
        with contextlib.suppress(TeacherFileError):
            reader = TeacherReader(folder)
            assert_same(reader[:], written)
            assert (reader.temperature, reader.metadata) == (1.5, {"teacher": "t"})
            assert reader.complete
    finally:
        (folder / "index.json").write_bytes(original)


def test_indexes_without_a_checksum_are_read(tmp_path):
    write(tmp_path, teacher(rows=9))
    document = json.loads((tmp_path / "index.json").read_text())
    assert document.pop("sha256") == teacher_files._checksum_of(document)
    (tmp_path / "index.json").write_text(json.dumps(document))
    assert len(TeacherReader(tmp_path)) == 9


def test_two_writers_of_one_part_do_not_lose_records_in_silence(tmp_path):
    written = teacher(rows=20)
    write(tmp_path, rows_of(written, slice(5)), dtype="float64")
    first, second = (TeacherWriter(tmp_path, 50, 4, dtype="float64", append=True, rows_per_shard=5) for _ in range(2))
    assert first.write(rows_of(written, slice(5, 15))) == range(5, 15)
    with pytest.raises(TeacherFileError, match=r"^index\.json: must be as this writer left it, got another one"):
        second.write(rows_of(written, slice(15, 20)))
    with pytest.raises(TeacherFileError, match="Another writer works on this part of the folder"):
        second.close()
    first.close()
    reader = TeacherReader(tmp_path)
    reader.verify()
    assert_same(reader[:], rows_of(written, slice(15)))


def test_an_index_that_is_gone_or_old_is_noticed(tmp_path):
    index = write(tmp_path, teacher(rows=5), rows_per_shard=5) / "index.json"
    old = index.read_bytes()
    with TeacherWriter(tmp_path, 50, 4, append=True, rows_per_shard=5) as writer:
        writer.write(teacher(rows=5))
    index.write_bytes(old)
    with pytest.raises(
        TeacherFileError, match=r"must list all shards .*, got shard-00001\.safetensors beside 1 others"
    ):
        TeacherReader(tmp_path)
    index.unlink()
    for append in (False, True):
        with pytest.raises(FileExistsError, match=r"got .*shard-00000\.safetensors without index\.json. Put the index"):
            TeacherWriter(tmp_path, 50, 4, append=append)
    TeacherWriter(tmp_path, 50, 4, overwrite=True).close()
    assert not list(tmp_path.glob("*.safetensors"))


def test_parts_of_different_runs_are_not_joined(tmp_path):
    for part in (0, 1):
        write(tmp_path, teacher(rows=5), part=part, parts=2, metadata={"run": "old"})
    write(tmp_path, teacher(rows=5), part=1, parts=2, metadata={"run": "new"}, overwrite=True)
    with pytest.raises(TeacherFileError, match=r"^index-00001-of-00002\.json: metadata must be \{'run': 'old'\}"):
        TeacherReader(tmp_path)


def test_folders_that_are_none(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "index.json").mkdir()
    with pytest.raises(TeacherFileError, match=r"^index\.json: must exist in .*file, got no such file"):
        TeacherReader(tmp_path / "file")
    with pytest.raises(TeacherFileError, match=r"^index\.json: must be a regular file, got a folder"):
        TeacherReader(tmp_path)


def test_truncated_and_exchanged_shards_are_named(tmp_path):
    write(tmp_path, teacher(rows=10), rows_per_shard=5)
    first, second = (tmp_path / f"shard-0000{number}.safetensors" for number in (0, 1))
    data = first.read_bytes()
    first.write_bytes(data[:-7])
    with pytest.raises(TeacherFileError, match=rf"must have {len(data)} bytes, got {len(data) - 7}\. .* truncated"):
        TeacherReader(tmp_path)[0]
    first.write_bytes(data + b"\0")
    with pytest.raises(TeacherFileError, match=rf"got {len(data) + 1}\. The file is not the one that was written"):
        TeacherReader(tmp_path)[0]
    first.write_bytes(b"")
    with pytest.raises(TeacherFileError, match=r"^shard-00000\.safetensors: must have .* bytes, got 0\."):
        TeacherReader(tmp_path, verify=False)[0]
    first.write_bytes(second.read_bytes())
    with pytest.raises(
        TeacherFileError, match=r"^shard-00000\.safetensors: SHA-256 must be [0-9a-f]{64}, got [0-9a-f]{64}\."
    ):
        TeacherReader(tmp_path)[0]


@pytest.mark.parametrize("name", ["index.json", "shard-00001.safetensors"])
def test_links_that_lead_nowhere_are_named(tmp_path, name):
    write(tmp_path, teacher(rows=10), rows_per_shard=5)
    opened = TeacherReader(tmp_path)
    path, other = tmp_path / name, tmp_path / "other"
    path.unlink()
    path.symlink_to(other)
    other.symlink_to(path)
    words = rf"^{re.escape(name)}: must be a file that can be read, got .*{name}"
    reads = [opened.verify, lambda: opened[7]] if name != "index.json" else []
    for read in (
        *reads,
        lambda: TeacherReader(tmp_path)[7],
        lambda: TeacherReader(tmp_path, verify=False)[7],
        lambda: TeacherReader(tmp_path).verify(),
    ):
        with pytest.raises(TeacherFileError, match=words) as caught:
            read()
        assert caught.value.file == path
    if name != "index.json":
        with pytest.raises(TeacherFileError, match=words):
            TeacherWriter(tmp_path, 50, 4, append=True)
    TeacherWriter(tmp_path, 50, 4, overwrite=True).close()
    assert len(TeacherReader(tmp_path)) == 0


def test_a_shard_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    write(tmp_path, teacher())

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(np, "memmap", refuse)
    with pytest.raises(TeacherFileError, match=r"^shard-00000\.safetensors: must be a file that .*denied"):
        TeacherReader(tmp_path)[0]


def test_writers_need_a_folder(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("")
    link.symlink_to(link)
    for path in (file, link):
        with pytest.raises(FileExistsError, match=rf"^TeacherWriter: folder must be a folder, got .*{path.name}, "):
            TeacherWriter(path, 50, 4)


@pytest.mark.parametrize("array", ["indices", "scores", "log_sum_exp", "crc32"])
def test_records_that_do_not_match_their_checksums_are_named(tmp_path, array):
    write(tmp_path, teacher(rows=40, classes=65_000, k=3))
    stored = safetensors.numpy.load((tmp_path / "shard-00000.safetensors").read_bytes())
    stored[array].view(np.uint8).reshape(40, -1)[17, -1] ^= 1
    stored["indices"].sort(axis=1)
    replace_shard(tmp_path, **{array: stored[array]})  # whoever changed it has put the checksums of the files right
    for verify in (True, False):
        with pytest.raises(
            TeacherFileError, match=r"^shard-00000\.safetensors, record 17: must be as it was"
        ) as caught:
            TeacherReader(tmp_path, verify=verify).verify()
        assert caught.value.record == 17


def replace_shard(folder, notes=None, **arrays):
    """Put other arrays into the only shard, with checksums to match."""
    path = folder / "shard-00000.safetensors"
    stored = safetensors.numpy.load(path.read_bytes())
    data = safetensors.numpy.save({**stored, **arrays}, notes or {"classes": "65000", "k": "3"})
    path.write_bytes(data)
    (shard,) = json.loads((folder / "index.json").read_text())["shards"]
    sha256 = teacher_files.hashlib.sha256(data).hexdigest()
    edit_index(folder, shards=[{**shard, "bytes": len(data), "sha256": sha256}])


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    ("row", "score", "words"),
    [
        ([1, 2, 65_000], 0.0, "index 65000 must be below 65000."),
        ([5, 9, 9], 0.0, "index 9 must occur once, got it 2 times."),
        ([9, 5, 7], 0.0, "indices must be in ascending order, got 9 before 5."),
        ([1, 2, 3], np.nan, "log-probabilities must be finite, got nan."),
        ([1, 2, 3], -np.inf, "log-probabilities must be finite, got -inf."),
    ],
)
def test_records_that_were_written_wrong_are_named(tmp_path, verify, row, score, words):
    write(tmp_path, teacher(rows=40, classes=65_000, k=3))
    stored = safetensors.numpy.load((tmp_path / "shard-00000.safetensors").read_bytes())
    stored["indices"][17] = row
    stored["scores"][17, 1] += np.float16(score)
    replace_shard(tmp_path, **stored)
    reader = TeacherReader(tmp_path, verify=verify)
    assert reader[:17].k == 3
    for asked in (slice(None), [3, 17], 17):
        with pytest.raises(
            TeacherFileError, match=f"^shard-00000.safetensors, record 17: {re.escape(words)} The file is"
        ):
            reader[asked]


def test_shards_with_other_arrays_are_named(tmp_path):
    write(tmp_path, teacher(rows=2, classes=65_000, k=3))
    cases = [
        ({"scores": np.zeros((2, 3), np.float32)}, r"scores must be F16 \[2, 3\], got F32 \[2, 3\]"),
        ({"scores": np.zeros((3, 3), np.float16)}, r"scores must be F16 \[2, 3\], got F16 \[3, 3\]"),
        ({"notes": {"classes": "65001", "k": "3"}}, "classes must be 65000 as in the index, got 65001"),
        ({"notes": {"a": "b"}}, "classes must be 65000 as in the index, got None"),
    ]
    for changed, words in cases:
        replace_shard(tmp_path, **{"scores": np.zeros((2, 3), np.float16), **changed})
        with pytest.raises(TeacherFileError, match=rf"^shard-00000\.safetensors: {words}"):
            TeacherReader(tmp_path)[0]


SHARD = {"file": "shard-00000.safetensors", "records": 6, "bytes": 10, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "other"}, "format must be 'selmatch top-k teachers', got 'other'."),
        ({"version": 2}, "version must be at most 1, got 2. Install a newer selmatch."),
        ({"version": "1"}, "version must be a whole number >= 1, got '1'."),
        ({"classes": None}, "classes must be a whole number from 1 to 2147483647, got None."),
        ({"k": True}, "k must be a whole number from 1 to 50 (the classes), got True."),
        ({"dtype": ["float16"]}, "dtype must be 'float16' or 'float32' or 'float64', got ['float16']."),
        ({"temperature": -1.0}, "temperature must be > 0 and finite, got -1.0."),
        ({"metadata": [1]}, "metadata must be a dictionary of strings, got [1]."),
        ({"complete": 1}, "complete must be true or false, got 1."),
        ({"parts": 2}, "part and parts must be those of the file's name, got 0 of 2."),
        ({"part": "0"}, "part and parts must be those of the file's name, got '0' of 1."),
        ({"shards": {}}, "shards must be a list, got {}."),
        ({"shards": [3]}, "shards[0] must have its own file, records, bytes and sha256, got 3."),
        ({"shards": [{**SHARD, "file": "../shard-00000.safetensors"}]}, "shards[0] must have its own file, records"),
        ({"shards": [{**SHARD, "sha256": "0"}]}, "shards[0] must have its own file, records, bytes and sha256, got"),
        ({"shards": [{**SHARD, "records": 0}]}, "shards[0] must have its own file, records, bytes and sha256, got"),
        ({"shards": [SHARD, SHARD]}, "shards[1] must have its own file, records, bytes and sha256, got"),
        ({"records": 7}, "records must be the sum over the shards, got 7."),
    ],
)
def test_a_broken_index_is_named(tmp_path, changes, words):
    edit_index(write(tmp_path, teacher()), **changes)
    with pytest.raises(TeacherFileError, match=f"^{re.escape('index.json: ' + words)}") as caught:
        TeacherReader(tmp_path)
    assert caught.value.file == tmp_path / "index.json"
    with pytest.raises(TeacherFileError, match=f"^{re.escape('index.json: ' + words)}"):
        TeacherWriter(tmp_path, 50, 4, append=True)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff", '{"format": '])
def test_an_index_that_is_no_json_is_named(tmp_path, text):
    (write(tmp_path, teacher()) / "index.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(TeacherFileError, match=r"^index\.json: must be JSON, got something else \("):
        TeacherReader(tmp_path)


def test_a_folder_without_teachers_is_named(tmp_path):
    with pytest.raises(
        TeacherFileError, match=r"^index\.json: must exist in .*, got no such file\. Is it a folder that"
    ):
        TeacherReader(tmp_path)
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(TeacherFileError, match="format must be 'selmatch top-k teachers', got 'list'"):
        TeacherReader(tmp_path)


# -------------------------------------------------------------------------------------------------------- old versions


def golden_records():
    """Five records of 3 out of 70,000 classes; all numbers are exact in half precision."""
    indices = np.array([[0, 1, 69_999], [5, 65_535, 65_536], [10, 20, 30], [1, 66_000, 69_000], [2, 3, 4]])
    scores = -np.array([[0.5, 2.0, 4.0], [1.0, 1.5, 2.0], [0.125, 8.0, 9.5], [2.5, 2.75, 3.0], [3.0, 3.5, 12.0]])
    return TopKTeacher(indices, scores, np.zeros(5), 70_000)


def test_files_of_version_1_load():
    reader = TeacherReader(GOLDEN)
    reader.verify()
    expected = golden_records()
    np.testing.assert_array_equal(reader[:].indices, expected.indices)
    np.testing.assert_array_equal(reader[:].log_probabilities, expected.log_probabilities)
    assert (len(reader), reader.classes, reader.temperature, reader.dtype) == (5, 70_000, 2.0, "float16")
    assert reader.metadata == {"teacher": "golden"}
    assert reader.complete
    assert [shard.records for shard in reader._shards] == [3, 2]


def test_what_is_written_now_is_what_version_1_wrote(tmp_path):
    write(tmp_path, golden_records(), temperature=2.0, metadata={"teacher": "golden"}, rows_per_shard=3)
    assert json.loads((tmp_path / "index.json").read_text())["version"] == 1
    for path in GOLDEN.glob("*.safetensors"):
        now, then = (safetensors.numpy.load(folder.joinpath(path.name).read_bytes()) for folder in (tmp_path, GOLDEN))
        assert now.keys() == then.keys()
        for name, stored in then.items():
            np.testing.assert_array_equal(now[name], stored, strict=True)
