"""What kernels keep on disk: run for its owner only, never damaged, never in the way."""

from __future__ import annotations

import errno
import logging
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest

import selmatch as sm
from selmatch import kernels
from selmatch.kernels import cache, compiled, emit, operators
from selmatch.kernels.gpu import forms

TEXT = """
from selmatch.kernels.cpu_functions import loop

@loop
def tiny(x):
    return x + 1.0
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The cache folder that SELMATCH_CACHE names; not made yet."""
    monkeypatch.setenv("SELMATCH_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def run(monkeypatch, caplog):
    """Compiles or loads a kernel as a new process does, and tells which."""
    caplog.set_level(logging.INFO, logger="selmatch")

    def run(text: str = TEXT) -> str:
        monkeypatch.setattr(compiled, "_loaded", {})
        monkeypatch.setattr(cache, "_told", set(), raising=False)
        caplog.clear()
        kernel = compiled.load("tiny", text)
        kernel.prepare(1.0)
        assert kernel.dispatcher(1.0) == 2.0
        return "loaded" if sum(kernel.dispatcher.stats.cache_hits.values()) else "compiled"

    return run


@pytest.fixture
def give_away(monkeypatch):
    """Gives a file or folder to another user, as far as the library can see."""
    given = set()

    def disguised(look):
        def looked(*arguments, **options):
            status = look(*arguments, **options)
            foreign = (status.st_dev, status.st_ino) in given
            return os.stat_result((*status[:4], os.geteuid() + 1, *status[5:])) if foreign else status

        return looked

    for name in ("stat", "fstat"):
        monkeypatch.setattr(os, name, disguised(getattr(os, name)))
    return lambda path: given.add((path.stat().st_dev, path.stat().st_ino))


def kept_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def warnings_in(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


class Trap:
    """A pickle that leaves a file where it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


# ------------------------------------------------------------------------------------------------------------- whose


def test_the_folder_is_its_owners_alone(place, run, monkeypatch):
    monkeypatch.setenv("SELMATCH_CACHE", str(place / "below"))
    before = os.umask(0)
    try:
        assert run() == "compiled"
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (place, place / "below")] == [0o700, 0o700]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept_in(place))
    assert run() == "loaded"


@pytest.mark.parametrize("fault", ["group", "all", "foreign", "symlink"])
def test_a_folder_that_others_write_to_is_refused(place, run, give_away, tmp_path, fault):
    run()
    (file,) = (path for path in kept_in(place) if path.suffix == ".bin")
    file.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    if fault == "symlink":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    if fault == "foreign":
        give_away(place)
    else:
        place.chmod(0o770 if fault == "group" else 0o777)
    listed = kept_in(tmp_path)
    with pytest.raises(PermissionError, match=r"SELMATCH_CACHE must be .* got .*chmod 700"):
        run()
    assert kept_in(tmp_path) == listed


def test_a_link_to_a_folder_of_ones_own_will_do(place, run, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")
    assert [run(), run()] == ["compiled", "loaded"]


@pytest.mark.parametrize("above", [0, 1])
def test_where_the_users_own_folder_is_not_safe_nothing_is_kept(tmp_path, run, monkeypatch, caplog, above):
    monkeypatch.delenv("SELMATCH_CACHE")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert [run(), run()] == ["compiled", "loaded"]
    [cache.folder(), cache.folder().parent][above].chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert run() == "compiled"
    (message,) = warnings_in(caplog)
    assert "chmod 700" in message
    compiled.load("tiny", TEXT + "\n").prepare(1.0)
    assert len(warnings_in(caplog)) == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("fault", ["foreign", "writable"])
def test_a_file_of_somebody_else_is_not_opened(place, run, give_away, caplog, fault):
    run()
    for file in kept_in(place):
        if fault == "writable":
            file.chmod(0o666)
        else:
            give_away(file)
    assert run() == "compiled"
    assert len(warnings_in(caplog)) == 1
    assert run() == "loaded"


# ------------------------------------------------------------------------------------------------------------ damaged


def _flipped(place: int):
    def damage(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[int(place * (len(content) - 1) / 10)] ^= 0x10
        file.write_bytes(content)

    return damage


def _of_another_kernel(file: Path) -> None:
    compiled.load("tiny", TEXT.replace("1.0", "7.0")).prepare(1.0)
    (other,) = (path for path in file.parent.glob("*.bin") if path != file)
    os.replace(other, file)


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "nonsense": lambda file: file.write_bytes(bytes(range(256))),
    "gone": lambda file: file.unlink(),
    "of another kernel": _of_another_kernel,
    **{f"flipped at {place}/10": _flipped(place) for place in range(11)},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_written_anew(place, run, caplog, damage):
    run()
    (file,) = place.rglob("*.bin")
    DAMAGES[damage](file)
    assert run() == "compiled"
    assert len(warnings_in(caplog)) == int(damage != "gone")
    assert run() == "loaded"
    assert not warnings_in(caplog)


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_no_file_is_not_read(place, run, what, caplog):
    run()
    for file in kept_in(place):
        file.unlink()
        os.mkfifo(file) if what == "pipe" else (file / "inside").mkdir(parents=True)
    assert run() == "compiled"
    assert len(warnings_in(caplog)) == (what == "folder")
    assert run() == ("loaded" if what == "pipe" else "compiled")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_disk_that_takes_nothing_is_no_obstacle(place, run, monkeypatch, caplog, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        assert run() == "compiled"
        assert len(warnings_in(caplog)) == 1
        assert os.strerror(number) in warnings_in(caplog)[0]
        assert not kept_in(place)
    run()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        patch.setattr(os, "access", lambda *_, **__: False)
        assert run() == "loaded"
        assert not warnings_in(caplog)


def test_threads_share_a_damaged_cache(place, run):
    run()
    for file in place.rglob("*.bin"):
        file.write_bytes(b"damaged")
    compiled._loaded.clear()

    def once(_):
        kernel = compiled.load("tiny", TEXT)
        kernel.prepare(1.0)
        return kernel.dispatcher(1.0)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(once, range(16))) == {2.0}
    assert run() == "loaded"


def test_numbas_own_cache_is_not_asked(place, run, monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert [run(), run()] == ["compiled", "loaded"]
    assert not (tmp_path / "numba").exists()


# --------------------------------------------------------------------------------------------------------------- GPUs


@pytest.fixture
def key(place, monkeypatch):
    """The key of a form whose kernels are on disk, and that this process does not know."""
    key = forms.key_of(sm.CompositeSoftmax(sm.Sinh()))
    monkeypatch.setattr(forms, "_modules", {})
    forms.module_of(key)
    monkeypatch.setattr(forms, "_modules", {})
    return key


def test_a_planted_gpu_kernel_is_not_run(place, key, monkeypatch, tmp_path):
    (file,) = place.glob("kernel_*.py")
    sprung = tmp_path / "sprung"
    file.write_text(f"{file.read_text()}\nopen({str(sprung)!r}, 'w')\n")
    monkeypatch.setattr(forms, "_texts", {})
    with pytest.raises(RuntimeError, match="Make the loss again in this process"):
        forms.module_of(key)
    assert not sprung.exists()


def test_a_planted_byte_code_file_is_not_run(place, key, tmp_path):
    (file,) = place.glob("kernel_*.py")
    text, sprung = file.read_bytes(), tmp_path / "sprung"
    file.write_text(f"open({str(sprung)!r}, 'w')\n".ljust(len(text)))
    os.utime(file, (0, 0))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-f", str(file)], check=True)
    file.write_bytes(text)
    os.utime(file, (0, 0))
    assert forms.module_of(key).FORM["kind"] == "rows"
    assert not sprung.exists()


def test_a_damaged_gpu_kernel_is_written_anew(place, key, monkeypatch, caplog):
    (file,) = place.glob("kernel_*.py")
    text = file.read_bytes()
    for damaged in (b"", text[:100], b"\xff" + text):
        file.write_bytes(damaged)
        forms._modules.clear()
        monkeypatch.setattr(cache, "_told", set())
        caplog.clear()
        assert forms.module_of(key).FORM["kind"] == "rows"
        assert file.read_bytes() == text
        assert len(warnings_in(caplog)) == 1


# --------------------------------------------------------------------------------------------- without source files


def test_without_source_files_numpy_and_pytorch_do_it(monkeypatch):
    monkeypatch.setattr(emit, "has_sources", lambda: False)
    assert kernels.elementwise(sm.Sinh()).backend == "numpy"
    assert operators.form_of(sm.Sinh()) is None
    with pytest.raises(RuntimeError, match=r"source files .* Use backend=None or 'numpy'"):
        kernels.elementwise(sm.Sinh(), "numba")


@pytest.mark.slow
def test_an_installation_of_byte_code_works(tmp_path):
    shutil.copytree(Path(sm.__file__).parent, tmp_path / "selmatch", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-b", str(tmp_path / "selmatch")], check=True)
    for file in (tmp_path / "selmatch").rglob("*.py"):
        file.unlink()
    code = """
import numpy as np, torch, selmatch as sm
assert sm.__file__.endswith(".pyc"), sm.__file__
kernel = sm.kernels.elementwise(sm.Sinh())
print(kernel.backend, *kernel.value_and_gradient(np.ones(1), np.zeros(1))[0])
from selmatch.kernels import operators
operators.interpreted = True
from selmatch.torch import MatchingLoss
print(float(MatchingLoss(sm.Sinh())(torch.ones(1), torch.zeros(1))))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "numpy"
