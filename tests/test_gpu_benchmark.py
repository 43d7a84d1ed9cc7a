"""The benchmark of the GPU kernels, on tiny shapes in Triton's interpreter: rows, checks of gradients, tables."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "gpu.py"


def run(*options):
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *map(str, options)], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A JSON of short rows, which are quick to interpret."""
    path = tmp_path_factory.mktemp("gpu") / "gpu.json"
    done = run("--interpret", "--quick", "--only", "short", "--workers", 0, "--out", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.slow
def test_every_step_is_timed_and_has_the_right_gradient(report):
    rows = json.loads(report.read_text())["rows"]
    assert {row["what"] for row in rows} == {"selmatch", "selmatch, kernel alone"}
    for row in rows:
        assert row["ms"] > 0
        assert row["error"] < 0.02
        assert row["note"] == ""
        alone = row["what"] != "selmatch"
        assert (row["host_us"] is None) == (row["must"] is not None) == (row["verdict"] != "") == alone


def test_what_comes_after_the_deadline_is_not_run(tmp_path):
    out = tmp_path / "gpu.json"
    done = run("--interpret", "--only", "scalar", "--workers", 0, "--deadline", 0, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "12 of 12 rows were not measured: not run: time." in done.stdout


@pytest.mark.slow
def test_tables_go_between_the_marks_of_a_page(report, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- table -->\nold\n<!-- end -->\nbelow\n")
    assert run("--markdown", report, "--into", page).returncode == 0
    text = page.read_text()
    assert text.startswith("above\n<!-- table -->\n")
    assert text.endswith("<!-- end -->\nbelow\n")
    assert "old" not in text
    assert text.count("| 32 x 8, sinh, bf16 |") == 2  # the step, and the kernel alone
    page.write_text("no marks")
    assert "must have the marks" in run("--markdown", report, "--into", page).stderr


def test_a_group_that_does_not_exist_is_refused():
    assert "there is no group 'long'" in run("--only", "long").stderr
