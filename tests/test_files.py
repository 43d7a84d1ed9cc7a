"""Files of strangers: no reader waits, no reader takes more than its limit, and every error names the file."""

import bz2
import contextlib
import gzip
import lzma
import os
import random
import signal
import socket
import tracemalloc

import pytest
from test_cli import invoke

import selmatch as sm
from selmatch import files, spec
from selmatch.cli.sources import read as read_source
from selmatch.comparison import reading
from selmatch.comparison.columns import Columns
from selmatch.comparison.reading import read as read_table
from selmatch.spec import SpecError
from selmatch.teacher_files import TeacherReader

PACKED = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
}
READERS = {"loss.toml": spec.load, "columns.json": Columns.load, "data.csv": read_table, "data.csv.gz": read_table,
           "data.parquet": read_table, "index.json": lambda path: TeacherReader(path.parent)}  # fmt: skip


def pipe(path):
    os.mkfifo(path)


def link_to_pipe(path):
    os.mkfifo(path.with_name("target"))
    path.symlink_to("target")


def device(path):
    path.symlink_to("/dev/zero")


def listening(path):
    with socket.socket(socket.AF_UNIX) as unix:
        folder = os.getcwd()
        os.chdir(path.parent)  # names of sockets must be short
        try:
            unix.bind(path.name)
        finally:
            os.chdir(folder)


def folder(path):
    path.mkdir()


IRREGULAR = {
    "a pipe": pipe,
    "a link to a pipe": link_to_pipe,
    "a device": device,
    "a socket": listening,
    "a folder": folder,
}


@pytest.fixture
def _alarm():
    """A reader that waits for ever fails after a second."""

    def ring(*_):
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", IRREGULAR)
def test_readers_take_regular_files_only(kind, name, tmp_path):
    IRREGULAR[kind](tmp_path / name)
    with pytest.raises(ValueError, match=f"{name}.*: must be a regular file, got {kind.removeprefix('a link to ')}"):
        READERS[name](tmp_path / name)


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("loss.toml", ["check", "loss.toml"]),
        ("loss.toml", ["explain", "loss.toml"]),
        ("loss.toml", ["plot", "loss.toml"]),
        ("loss", ["check", "loss"]),
        ("loss.toml", ["compare", "good.csv", "--target", "y", "--loss", "loss.toml"]),
        ("data.csv", ["compare", "data.csv", "--target", "y"]),
        ("data.csv", ["focus", "high", "--data", "data.csv"]),
        ("data.csv", ["explain", "z", "--data", "data.csv"]),
        ("data.csv", ["plot", "z", "--data", "data.csv"]),
    ],
)
def test_commands_take_regular_files_only(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("x,y\n1,2\n")
    os.mkfifo(tmp_path / name)
    found = invoke(*words)
    assert found.exit_code == 2, found.output
    assert f"{name}: must be a regular file, got a pipe." in found.stderr


@pytest.mark.usefixtures("_alarm")
def test_a_pipe_in_the_folder_of_a_report_is_no_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("x,y\n1,2\n")
    os.mkfifo(tmp_path / "comparison.json")
    found = invoke("compare", "good.csv", "--target", "y", "--out", ".")
    assert found.exit_code == 2
    assert "belongs to no report that can be read" in found.stderr


REPEATED = [
    '{"selmatch": 1, "loss": {"type": "MatchingLoss", "potential": "Cosh", "potential": "Cosh"}}',
    '{"selmatch": 1, "potential": "Sinh", "potential": {"type": "CompositeSigmoid", "scaling": "Cosh"}}',
    'selmatch = 1\n[loss]\ntype = "MatchingLoss"\npotential = "Cosh"\npotential = "Cosh"\n',
    '{"selmatch": 1, "loss": {"type": "MatchingLoss", "potential": "Cosh", "check": true, "check": false}}',
]  # fmt: skip


@pytest.mark.parametrize("text", REPEATED)
def test_commands_refuse_what_load_refuses(text, tmp_path):
    path = tmp_path / f"loss.{'json' if text.startswith('{') else 'toml'}"
    path.write_text(text)
    with pytest.raises(SpecError) as refusal:
        sm.load(path)
    for command in ("check", "explain"):
        found = invoke(command, path, columns=400)
        assert found.exit_code == 2
        assert found.stderr.strip() == f"Error: {refusal.value}"


def peak(function, *arguments):
    """The error that a call raises, and how many bytes it took before."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="must") as error:
            function(*arguments)
        return str(error.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_spec_is_never_read_whole(tmp_path):
    path = tmp_path / "loss.toml"
    with open(path, "wb") as file:
        file.truncate(80_000_000)
    message, taken = peak(lambda: read_source(str(path), check=False))
    assert "must not be longer than 1,000,000 bytes" in message
    assert taken < 10_000_000


@pytest.mark.parametrize("name", ["columns.json", "index.json"])
@pytest.mark.parametrize("text", ["[" + "[]," * 2_000_000, "[" * 100_000, '{"a": 1, "a": 2}', "[1e", '"\udcff"'])
def test_documents_are_bounded(name, text, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_VALUES", 500_000)
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    message, taken = peak(READERS[name], tmp_path / name)
    assert message.startswith(("Columns: ", "index.json: "))
    assert taken < files.MAX_BYTES + 20_000_000
    with open(tmp_path / name, "wb") as file:
        file.truncate(files.MAX_BYTES + 1)
    with pytest.raises(ValueError, match="must not be longer than 64,000,000 bytes"):
        READERS[name](tmp_path / name)


LONG = 1_500_000
BOMBS = {
    "one line": b"a" * LONG,
    "one name": b'x,"' + b"a\n" * (LONG // 2),
    "many names": b"a," * (LONG // 2),
    "empty lines": b"\n" * LONG,
    "a long row": b"x,y\n1,2\n" + b"3" * LONG,
    "a long name": b"a" * 200_000 + b",y\n1,2\n",
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("bomb", BOMBS)
def test_tables_of_strangers_are_refused_in_little_memory(bomb, packing, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 300_000)
    path = tmp_path / f"data.csv{packing}"
    path.write_bytes(PACKED[packing](BOMBS[bomb]))
    message, taken = peak(read_table, path)
    assert message.startswith(f"compare: {path.name}")
    assert taken < 2 * LONG
    found = invoke("explain", "z", "--data", path)
    assert found.exit_code == 2
    assert "bug" not in found.stderr


def test_a_table_that_does_not_fit_into_memory_is_no_bug(tmp_path, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    import pandas

    monkeypatch.setattr(pandas, "read_csv", exhausted)
    path = tmp_path / "data.csv"
    path.write_text("x\n1\n2\n")
    found = invoke("explain", "z", "--data", path)
    assert found.exit_code == 2
    assert "data.csv must fit into memory" in found.stderr


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".xz"])
def test_damaged_archives_are_told_by_name(packing, tmp_path):
    rng = random.Random(0)
    whole = PACKED[packing](b"x,y\n" + b"".join(b"%d,%d\n" % (rng.getrandbits(40), i) for i in range(200)))
    path = tmp_path / f"data.csv{packing}"
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged[: rng.choice([len(whole), rng.randrange(len(whole))])])
        with contextlib.suppress(ValueError):  # some damages leave a table
            read_table(path)


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_wide_and_long_honest_tables_are_read(packing, end, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE", 50_000)
    names = b",".join(b"column_%d" % i for i in range(300))
    (tmp_path / f"wide.csv{packing}").write_bytes(PACKED[packing](names + end + b",".join([b"1"] * 300) + end))
    assert len(read_table(tmp_path / f"wide.csv{packing}").names) == 300
    (tmp_path / f"long.csv{packing}").write_bytes(PACKED[packing](b"x" + end + (b"1" * 9 + end) * 20_000))
    assert len(read_table(tmp_path / f"long.csv{packing}").frame) == 20_000
