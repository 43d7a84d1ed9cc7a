"""The command line: results on standard output, everything else beside it, exit codes that scripts can use."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

import selmatch as sm
from selmatch.cli import check
from selmatch.cli.app import BAD_INPUT, CLOSED_PIPE, INTERNAL, INTERRUPTED, app
from selmatch.cli.words import listed
from selmatch.comparison import Comparison
from selmatch.words import remedy

CONTROL_CODE = re.compile(r"\x1b")


def invoke(*words, columns=80, **settings):
    """Run a command in this process, without colours."""
    settings.setdefault("env", {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"})
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="selmatch", **settings)


def shell(*words, **settings):
    """Run a command as users do."""
    settings.setdefault("env", {**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1"})
    command = [sys.executable, "-m", "selmatch", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, **settings)


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "loss.toml"
    sm.MatchingLoss(sm.Sigmoid().affine(alpha=2.0, beta=1.5)).save(path)
    return path


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    seconds = np.random.default_rng(0).lognormal(3.0, 1.0, size=200)
    path.write_text("seconds,[red]page\n" + "".join(f"{value:.3f},{i % 7}\n" for i, value in enumerate(seconds)))
    return path


# ---------------------------------------------------------------------------------------------------------- the program


def test_help_and_version_need_no_heavy_library():
    program = (
        "import sys\n"
        "from selmatch.cli import main\n"
        "sys.argv = ['selmatch', '--help']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'lightgbm', 'xgboost', 'matplotlib', 'pandas', 'torch', 'jax', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert "compare" in found.stdout
    assert invoke("--version").stdout == f"selmatch {sm.__version__}\n"


def test_every_command_has_help_that_fits():
    for command in ("compare", "focus", "explain", "check", "plot", "paper", "versions"):
        found = invoke(command, "--help")
        assert found.exit_code == 0
        assert max(map(len, found.stdout.splitlines())) <= 80
        assert "--json" in found.stdout


def test_a_missing_library_is_named_with_its_extra():
    program = "import sys\nsys.modules['typer'] = None\nfrom selmatch.cli import main\nmain()\n"
    for words, stream in ((["check", "z"], "stderr"), (["check", "z", "--json"], "stdout")):
        found = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120)
        assert found.returncode == 1
        assert 'pip install "selmatch[compare]"' in getattr(found, stream).replace("\\", "")
        assert "Traceback" not in found.stderr


def test_versions():
    assert invoke("versions").stdout.split()[:2] == ["selmatch", sm.__version__]
    assert json.loads(invoke("versions", "--json").stdout)["numpy"] == np.__version__


def test_without_a_command_there_is_help():
    found = invoke()
    assert found.exit_code == 0
    assert "compare" in found.stdout
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["chek", "z"], "Did you mean 'check'"),
        (["check", "z", "--jsn"], "Did you mean --json?"),
        (["compare", "x.csv", "--targt", "y"], "Did you mean --target?"),
        (["compare", "x.csv", "--target", "y", "--splits", "0"], "--splits"),
        (["check"], "Missing argument"),
        (["check", "-z"], "goes after --"),
        (["compare", "x.csv", "--target", "y", "--model", "lightgb"], "Did you mean 'lightgbm'?"),
        (["compare", "x.csv", "--target", "y", "--focus", "hihg"], "Did you mean 'high'?"),
        (["compare", "x.csv", "--target", "y", "--top", "much"], "--top"),
        (["focus", "hgh", "--data", "x.csv"], "Did you mean 'high'?"),
    ],
)
def test_wrong_usage_names_the_nearest_word(words, wanted):
    found = invoke(*words)
    assert found.exit_code == 2
    assert wanted in found.stderr
    assert "Traceback" not in found.stderr
    assert not found.stdout
    as_json = invoke(*words, "--json")
    assert as_json.exit_code == 2
    assert wanted in json.loads(as_json.stdout)["error"]


def test_debug_shows_the_traceback_and_may_stand_anywhere():
    assert "Traceback" not in invoke("check", "zz").stderr
    for words in (("--debug", "check", "zz"), ("check", "zz", "--debug")):
        found = invoke(*words)
        assert found.exit_code == 2
        assert "Traceback" in found.stderr
        assert "FormulaError" in found.stderr


def test_ctrl_c_has_its_exit_code(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("selmatch.certify.convex", interrupted)
    found = invoke("check", "z", "--json")
    assert found.exit_code == 130
    assert json.loads(found.stdout) == {"error": "Interrupted."}


def test_a_bug_is_no_verdict(monkeypatch):
    monkeypatch.setattr("selmatch.certify.convex", lambda *_: {}["bug"])
    found = invoke("check", "z")
    assert found.exit_code == 70
    assert "bug of selmatch" in found.stderr


def test_a_closed_pipe_ends_quietly():
    reader = subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE)
    reader.wait()
    command = [sys.executable, "-m", "selmatch", "explain", "z"]
    writer = subprocess.Popen(command, stdout=reader.stdin, stderr=subprocess.PIPE, text=True)
    reader.stdin.close()
    _, errors = writer.communicate(timeout=120)
    assert writer.returncode == 141
    assert errors == ""


def test_words():
    assert remedy("Hgh", ["high", "low"]) == "Did you mean 'high'?"
    assert "and 8 more" in remedy("zzz", [f"column {i}" for i in range(20)])
    assert remedy("zzz", []) == "There is nothing to choose from."
    assert listed(["a, b", "c", " "]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["plot", "los.toml"], "loss.toml"),
        (["compare", "visit.csv", "--target", "seconds"], "visits.csv"),
        (["compare", "visits.csv", "--target", "seconds", "--loss", "los.toml"], "loss.toml"),
        (["focus", "high", "--data", "vistis.csv"], "visits.csv"),
        (["explain", "z", "--data", "visits.parquet"], "visits.csv"),
    ],
)
@pytest.mark.usefixtures("spec", "visits")
def test_a_missing_file_is_told_with_the_nearest_name(words, near, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loss.svg").touch()
    Path("loss.csv").mkdir()
    found = invoke(*words)
    assert found.exit_code == 2
    assert f"there is no such file. Did you mean '{near}'?" in found.stderr
    others = [word.replace(".", "nofile.") if word.endswith((".toml", ".csv")) else word for word in words]
    found = invoke(*[word.replace("visits", "elsewhere") for word in others])
    assert found.exit_code == 2
    assert found.stderr.endswith("there is no such file.\n")
    found = invoke(*[word.replace("visit.csv", ".").replace("vistis.csv", ".") for word in words])
    assert found.exit_code == 2


def test_flags_have_no_value_in_the_help():
    for command in ("", "compare", "check"):
        found = invoke(*filter(None, [command]), "--help")
        assert "bool" not in found.stdout.lower()


# ----------------------------------------------------------------------------------------------------------- completion


def complete(words, incomplete):
    variables = {
        "_SELMATCH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["selmatch", *map(str, words), incomplete]),
        "COMP_CWORD": str(len(words) + 1),
        "_TYPER_COMPLETE_TESTING": "True",
    }
    return invoke(env=variables).output.split("\n")


def test_completion_of_words_and_columns(visits):
    assert "high" in complete(["focus"], "h")
    assert complete(["compare", "x.csv", "--model"], "li")[:2] == ["lightgbm", "linear"]
    assert "seconds" in complete(["compare", visits, "--target"], "sec")
    assert "seconds" not in complete(["compare", "missing.csv", "--target"], "sec")
    assert "seconds" in complete(["explain", "z", "--data", visits, "--column"], "")


def test_completion_script(monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    found = invoke("--show-completion", "bash")
    assert found.exit_code == 0
    assert "_SELMATCH_COMPLETE" in found.stdout


# ---------------------------------------------------------------------------------------------------------------- check


@pytest.mark.parametrize(
    ("words", "code", "start"),
    [
        (["z + tanh(z)"], 0, "Proved: the loss is convex in the predicted scores on (-inf, inf)"),
        (["cosh(z)"], 1, "Refuted: "),
        (["cosh(z)", "--domain", "0", "4"], 0, "Proved: the loss is convex in the predicted scores on [0, 4]"),
        (["--domain", "-4", "-1", "--", "-z"], 1, "Refuted: the loss is convex in the predicted scores on [-4, -1]"),
        (["cosh(z)", "--scaling", "--gamma", "1.3"], 0, "Proved: "),
        (["cosh(z)", "--scaling", "--gamma", "1.4"], 1, "Refuted: "),
        (["cosh(z)", "--classes"], 1, "Refuted: "),
        (["sinh(z)", "--classes", "--gamma", "0.5"], 0, "Proved: "),
    ],
)
def test_check_has_an_exit_code_for_each_verdict(words, code, start):
    found = invoke("check", *words)
    assert found.exit_code == code
    assert found.stdout.startswith(start)


def test_check_undecided(monkeypatch):
    undecided = sm.certify.Undecided(
        "the loss is convex in the predicted scores", sm.Interval(0, 1), "by search", remains="much"
    )
    monkeypatch.setattr("selmatch.certify.convex", lambda *_, **options: undecided)
    found = invoke("check", "z", "--json")
    assert found.exit_code == 3
    assert json.loads(found.stdout)["remains"] == "much"


def test_check_json_has_the_witness():
    found = invoke("check", "cosh(z)", "--json")
    document = json.loads(found.stdout)
    a, b = document["witness"]["scores"]
    assert found.exit_code == 1
    assert document["verdict"] == "refuted"
    assert a < b
    assert np.cosh(a) > np.cosh(b)
    assert document["domain"] == [None, None]


def test_check_reads_specs_also_of_refused_losses(tmp_path, spec):
    assert invoke("check", spec).exit_code == 0
    refused = tmp_path / "refused.toml"
    refused.write_text('selmatch = 1\n[loss]\ntype = "MatchingLoss"\npotential = "Cosh"\n')
    found = invoke("check", refused)
    assert found.exit_code == 1
    assert "h(-4) = " in found.stdout
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"selmatch": 1, "loss": {"type": "MatchingLoss", "potential": "Sinhh"}}')
    found = invoke("check", wrong)
    assert found.exit_code == 2
    assert "Did you mean 'Sinh'" in found.stderr


def test_check_checks_the_certificates_of_a_file_again(tmp_path, monkeypatch):
    loss, path = sm.MatchingLoss(sm.parse("z - 0.9*sin(z)")), tmp_path / "loss.toml"
    loss.save(path, certificates=[sm.certify.odd(loss), sm.certify.convex(loss, (-8, 8)), sm.certify.convex(loss)])
    for words in ((), ("--domain", "-8", "8")):
        with monkeypatch.context() as patch:  # the question is not searched for
            patch.setattr("selmatch.arrays.branching._is_never_negative", lambda *arguments: 1 / 0)
            patch.setattr("selmatch.losses._searched", lambda curve: None)
            found = invoke("check", path, *words)
        assert found.exit_code == 0
        assert found.stdout.startswith("Proved: the loss is convex")
        assert "Checked again from the file" in found.stdout
        assert found.stdout.count("Also in the file") == 2
    found = invoke("check", path, "--domain", "-4", "8")
    assert found.exit_code == 0
    assert "Checked again from" not in found.stdout
    document = json.loads(invoke("check", path, "--json").stdout)
    assert [part["words"].split(" on ")[0] for part in document["stored"]] == [
        "Proved: the loss is odd-symmetric",
        *["Proved: the loss is convex in the predicted scores"] * 2,
    ]
    assert "question" not in document


@pytest.mark.parametrize("potential", ['"cosh(z)"', '"z-1.001*sin(z)"'])
def test_check_refuses_a_file_with_a_certificate_that_does_not_hold(tmp_path, potential):
    path = tmp_path / "loss.toml"
    path.write_text(
        f'selmatch = 2\n[loss]\ntype = "MatchingLoss"\npotential = {potential}\n\n'
        '[[certificates]]\nquestion = "convex"\n'
    )
    for words in ((), ("--json",), ("--domain", "0", "1")):
        found = invoke("check", path, *words)
        assert found.exit_code == 2
        assert "loss.toml, line 6, column 1: certificates[0]: does not hold: Refuted" in found.stderr + found.stdout


def test_check_explains_wrong_input(tmp_path, spec, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = invoke("check", "los.toml")
    assert found.exit_code == 2
    assert "Did you mean 'loss.toml'?" in found.stderr
    found = invoke("check", "z + sinhh(z)")
    assert found.exit_code == 2
    assert "    z + sinhh(z)\n        ^" in found.stderr
    assert invoke("check", "z", "--gamma", "1").exit_code == 2
    assert invoke("check", "z", "--scaling", "--classes").exit_code == 2
    assert invoke("check", "loss.toml", "--classes").exit_code == 2
    assert invoke("check", "z" + " " * 600).exit_code == 0  # longer than a name of a file may be


# ------------------------------------------------------------------------------------------------- explain, focus, plot


def test_explain(spec, visits):
    assert invoke("explain", spec).stdout.rstrip() == str(sm.load(spec).explain())
    seconds = np.loadtxt(visits, delimiter=",", skiprows=1, usecols=0)
    found = invoke("explain", "z", "--data", visits, "--column", "seconds", "--json")
    document = json.loads(found.stdout)
    assert document["mean"] == pytest.approx(seconds.mean())
    assert document["convex"]["verdict"] == "proved"
    assert invoke("explain", "cosh(z)").exit_code == 2
    assert invoke("explain", "cosh(z)", "--scaling", "--gamma", "0.7").exit_code == 0


def test_focus_designs_explains_and_writes(tmp_path, visits):
    out = tmp_path / "made.toml"
    words = ["focus", "high", "--data", visits, "--column", "seconds", "--top", "0.2", "--strength", "5"]
    found = invoke(*words, "--out", out)
    assert found.exit_code == 0, found.output
    seconds = np.loadtxt(visits, delimiter=",", skiprows=1, usecols=0)
    wanted = sm.focus("high", data=seconds, top=0.2, strength=5.0)
    assert sm.load(out) == wanted
    assert f"Made by focus: {wanted.wish}." in found.stdout
    document = json.loads(invoke(*words, "--json").stdout)
    assert sm.spec.from_dict(document["loss"]) == wanted
    assert document["wish"]["regions"][0][1] is None  # to infinity
    assert invoke("focus", "--data", visits, "--column", "seconds", "--between", "-1", "30").exit_code == 0
    found = invoke("focus", "--data", visits, "--column", "seconds")
    assert found.exit_code == 2
    assert "a word or --between must be given, got neither" in found.stderr


def test_columns_of_files(tmp_path, visits):
    found = invoke("focus", "high", "--data", visits, "--column", "second")
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: the score column must be in visits.csv")
    assert "Did you mean 'seconds'?" in found.stderr
    found = invoke("explain", "z", "--data", visits)
    assert found.exit_code == 2
    assert "'[red]page'" in found.stderr
    assert invoke("explain", "z", "--column", "seconds").exit_code == 2
    assert invoke("explain", "z", "--data", visits, "--column", "[red]page").exit_code == 0
    assert invoke("explain", "z", "--data", tmp_path / "visit.csv", "--column", "x").exit_code == 2
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("y\n1\n\n2\nnan\n4\n")
    found = invoke("explain", "z", "--data", gaps, "--json")
    assert json.loads(found.stdout)["mean"] == pytest.approx(7 / 3)
    assert "were left out" in found.stderr
    gaps.write_text("y\n1\nmany\n3\n")
    found = invoke("explain", "z", "--data", gaps)
    assert found.exit_code == 2
    assert "'many'" in found.stderr


def test_plot_writes_a_picture(tmp_path, spec, visits, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = invoke("plot", "loss.toml", "--data", visits, "--column", "seconds")
    assert found.exit_code == 0, found.output
    assert found.stdout == "loss.svg\n"
    assert "<svg" in Path("loss.svg").read_text(encoding="utf-8")
    found = invoke("plot", "sinh(z)", "--classes", "--out", "classes.png", "--json")
    assert json.loads(found.stdout)["file"] == "classes.png"
    assert Path("classes.png").read_bytes().startswith(b"\x89PNG")
    found = invoke("plot", "z", "--out", "picture.sgv")
    assert found.exit_code == 2
    assert "Did you mean 'svg'?" in found.stderr
    assert invoke("plot", "z", "--out", "nowhere/picture.svg").exit_code == 2


def test_plot_says_what_is_not_convex_and_what_it_overwrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = invoke("plot", "z", "--out", "a.svg")
    assert found.stderr == ""
    found = invoke("plot", "cosh(z)", "--out", "a.svg")
    assert found.exit_code == 0
    assert found.stdout == "a.svg\n"
    assert "cosh(z) is no convex loss. Refuted: " in found.stderr
    assert "Overwrote a.svg." in found.stderr


def test_a_picture_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "selmatch.plots", raising=False)
    monkeypatch.delattr(sm, "plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = invoke("plot", "z")
    assert found.exit_code == 2
    assert 'pip install "selmatch[plots]"' in found.stderr


# -------------------------------------------------------------------------------------------------------------- compare

QUICK = ("--rounds", 5, "--splits", 2, "--settings", 1, "--resamples", 20, "--threads", 1)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A small table in which one column has a name that looks like markup."""
    folder = tmp_path_factory.mktemp("shop")
    random = np.random.default_rng(1)
    pages, hour = random.normal(size=(2, 240))
    seconds = 30.0 * np.exp(pages + 0.3 * hour + 0.4 * random.normal(size=240))
    rows = "".join(f"{a:.4f},{b:.4f},{y:.4f}\n" for a, b, y in zip(pages, hour, seconds, strict=True))
    (folder / "shop.csv").write_text("pages,hour,[red]seconds\n" + rows)
    return folder / "shop.csv"


def run_compare(shop, out, *words):
    return invoke("compare", shop, "--target", "[red]seconds", "--out", out, *QUICK, *words)


@pytest.fixture(scope="module")
def compared(shop):
    """A whole comparison, and its folder."""
    out = shop.parent / "whole"
    return run_compare(shop, out), out


def fits(out):
    return {path: path.stat().st_mtime_ns for path in (out / "selmatch-journal").rglob("*.fit")}


def test_compare_prints_the_verdict_the_table_and_the_report(compared):
    found, out = compared
    assert found.exit_code == 0, found.output
    comparison = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    lines = found.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "[red]seconds of shop.csv: 240 rows, lightgbm"
    assert " ".join(comparison["verdict"]["headline"].split()) in " ".join(found.stdout.split())
    for contender in comparison["contenders"]:
        assert sum(line.startswith(contender["title"]) for line in lines) >= 5
    assert not CONTROL_CODE.search(found.output)
    assert "12 of 12 fits" in found.stderr
    assert f"Report: {out / 'report.html'}" in found.stdout.replace("\n", "")
    assert "[red]seconds" in (out / "report.html").read_text(encoding="utf-8")
    assert sm.load(out / "loss.toml") == sm.spec.from_dict(comparison["loss"])


@pytest.fixture
def without_pictures(monkeypatch):
    """The pictures of the report take most of the time of a small comparison."""
    monkeypatch.setattr(Comparison, "to_html", lambda comparison, path: path)


@pytest.mark.usefixtures("without_pictures")
def test_a_wide_terminal_shows_intervals_beside_the_values(compared, shop):
    found, out = compared
    narrow = found.stdout
    wide = invoke("compare", shop, "--target", "[red]seconds", "--out", out, *QUICK, columns=200).stdout
    assert max(map(len, wide.splitlines())) > 100
    assert len(wide.splitlines()) < len(narrow.splitlines())
    title = "selective loss"
    (beside,) = {line for line in wide.splitlines() if line.startswith(title) and line.count(" to ") == 4}
    assert len(beside) > 80


@pytest.mark.usefixtures("without_pictures")
def test_an_interrupted_comparison_goes_on(compared, shop, monkeypatch):
    _, whole = compared
    out = shop.parent / "interrupted"
    from selmatch.cli import progress

    real = progress.Bar.update

    def impatient(bar, done, total, words=""):
        real(bar, done, total, words)
        if done == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress.Bar, "update", impatient)
        found = run_compare(shop, out, "--json")
        assert found.exit_code == 130
        assert "Interrupted after 5 of 12 fits" in json.loads(found.stdout)["error"]
    before = fits(out)
    assert len(before) == 5
    found = run_compare(shop, out, "--json", "--quiet")
    assert found.exit_code == 0
    assert found.stderr == ""
    after = fits(out)
    assert len(after) == 12
    assert {path: after[path] for path in before} == before  # nothing was computed twice
    assert json.loads(found.stdout) == json.loads((whole / "comparison.json").read_text(encoding="utf-8"))
    assert (out / "comparison.json").read_bytes() == (whole / "comparison.json").read_bytes()


@pytest.mark.usefixtures("without_pictures")
def test_fresh_forgets_what_was_finished(shop):
    out = shop.parent / "fresh"
    words = ("--losses", "squared, huber", "--focus", "low")
    assert run_compare(shop, out, *words).exit_code == 0
    before = fits(out)
    assert len(before) == 6
    (out / "mine.txt").write_text("stays")
    assert run_compare(shop, out, *words, "--fresh").exit_code == 0
    after = fits(out)
    assert before.keys() == after.keys()
    assert all(after[path] > before[path] for path in before)
    assert (out / "mine.txt").read_text() == "stays"


def test_compare_passes_on_what_was_said(shop, tmp_path, monkeypatch, spec):
    said = {}

    def listen(data, **options):
        said.update(options, data=data)
        raise ValueError("heard")

    monkeypatch.setattr(sm, "compare", listen)
    run_compare(
        shop, tmp_path / "a", "--between", "-1", "40", "--cap", "90", "--at", "7", "--drop", "pages", "--drop", "b"
    )
    assert said["data"] == shop
    assert said["focus"] is None
    assert said["between"] == (-1.0, 40.0)
    assert (said["cap"], said["at"], said["drop"], said["losses"]) == (90.0, 7, ("pages", "b"), None)
    assert said["folder"] == tmp_path / "a"
    assert run_compare(shop, tmp_path / "a", "--loss", spec, "--group", "q", "--model", "linear").exit_code == 2
    assert (said["loss"], said["group"], said["model"], said["focus"]) == (spec, "q", "linear", None)
    run_compare(shop, tmp_path / "a")
    assert (said["focus"], said["top"], said["strength"], said["seed"]) == ("high", 0.1, 8.0, 0)


@pytest.mark.usefixtures("without_pictures")
def test_a_report_about_another_question_is_not_replaced(shop, tmp_path, monkeypatch, spec):
    out, same = tmp_path / "report", ("--model", "linear", "--losses", "squared", "--drop", "hour")
    assert run_compare(shop, out, *same).exit_code == 0
    kept = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert set(kept) == {"columns.json", "comparison.json", "loss.toml"}
    moved = shop.with_name("other.csv")
    moved.write_bytes(shop.read_bytes())
    own = (*same, "--loss", spec)
    assert run_compare(shop, tmp_path / "own", *own).exit_code == 0
    monkeypatch.setattr(sm, "compare", lambda *args, **options: pytest.fail("trained before it looked"))
    ours = "where accuracy matters"
    assert f"differs in {ours}. Choose" in " ".join(
        run_compare(shop, tmp_path / "own", *own, "--top", "0.2").stderr.split()
    )
    for other, part in (
        (("--focus", "low"), ours), (("--strength", "4"), ours), (("--model", "lightgbm"), "model"),
        (("--scale", "log"), "scale"), (("--drop", "pages"), "drop"), (("--group", "pages"), "group"),
        (("--cluster", "pages"), "cluster"), (("--loss", spec), ours),
    ):  # fmt: skip
        found = run_compare(shop, out, *same, *other)
        assert found.exit_code == 2, other
        assert f"[red]seconds of shop.csv, which differs in {part}. Choose" in " ".join(found.stderr.split())
        assert "Choose another --out, or add --force to replace it." in " ".join(found.stderr.split())
    assert "differs in data. Choose" in " ".join(run_compare(moved, out, *same).stderr.split())
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == kept


@pytest.mark.usefixtures("without_pictures")
def test_a_report_about_the_same_question_is_replaced(shop, tmp_path):
    out, words = tmp_path / "report", ("--model", "linear", "--losses", "squared")
    assert run_compare(shop, out, *words).exit_code == 0
    assert "replace" not in run_compare(shop, out, *words, "--seed", "3").stderr  # other effort, same question
    assert json.loads((out / "comparison.json").read_text(encoding="utf-8"))["question"]["seed"] == 3
    assert run_compare(shop, out, *words, "--focus", "low", "--force").exit_code == 0
    longer = tmp_path / shop.name
    longer.write_text(shop.read_text() + "0.1,0.2,33.0\n")
    found = run_compare(longer, out, *words, "--focus", "low")
    assert found.exit_code == 0
    assert "a report about other rows of shop.csv" in found.stderr
    (out / "comparison.json").write_text("not a report")
    assert "belongs to no report that can be read" in " ".join(run_compare(shop, out, *words).stderr.split())


def test_a_loss_of_the_user_is_not_replaced(shop, tmp_path):
    (tmp_path / "loss.toml").write_text("mine")
    found = run_compare(shop, tmp_path, "--model", "linear")
    assert found.exit_code == 2
    assert "whose loss.toml belongs to no report" in " ".join(found.stderr.split())
    assert (tmp_path / "loss.toml").read_text() == "mine"


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("first", ["shell", "python"])
def test_python_and_the_shell_go_on_from_each_other(shop, tmp_path, monkeypatch, first):
    from selmatch.comparison import fitting

    options = {"rounds": 5, "splits": 2, "settings": 1, "resamples": 20, "threads": 1, "losses": ["squared"]}

    def in_python():
        return sm.compare(shop, target="[red]seconds", model="linear", folder=tmp_path, **options).to_json()

    def in_the_shell():
        assert run_compare(shop, tmp_path, "--model", "linear", "--losses", "squared").exit_code == 0
        return (tmp_path / "comparison.json").read_text(encoding="utf-8")

    runs = [in_python, in_the_shell] if first == "python" else [in_the_shell, in_python]
    begun = runs[0]()
    monkeypatch.setattr(fitting, "trainer", lambda part: pytest.fail("trained again"))
    assert runs[1]() == begun
    assert len(fits(tmp_path)) == 4


def test_the_default_of_threads_is_told():
    assert "by default 1 for small data" in " ".join(invoke("compare", "--help", columns=200).stdout.split())


def test_compare_explains_wrong_input(shop, tmp_path, spec):
    found = invoke("compare", shop, "--target", "[red]second", "--out", tmp_path / "a")
    assert found.exit_code == 2
    assert "Did you mean '[red]seconds'?" in found.stderr
    found = run_compare(shop, tmp_path / "a", "--losses", "hubr")
    assert found.exit_code == 2
    assert "Did you mean 'huber'?" in found.stderr
    assert invoke("compare", tmp_path / "no.csv", "--target", "y", "--out", tmp_path / "b").exit_code == 2
    assert not (tmp_path / "b").exists()
    assert run_compare(shop, spec).exit_code == 2  # --out is a file
    assert run_compare(shop, tmp_path / "a", "--loss", spec, "--focus", "low").exit_code == 2
    assert run_compare(shop, tmp_path / "a", "--between", "1", "2", "--focus", "low").exit_code == 2
    found = run_compare(shop, tmp_path / "a", "--splits", "0")
    assert found.exit_code == 2
    assert "'--splits'" in found.stderr
    assert "0.0" not in found.stderr
    assert run_compare(tmp_path, tmp_path / "a").exit_code == 2  # the data are a folder


def test_a_comparison_in_a_shell(shop):
    out = shop.parent / "shell"
    words = [
        "compare",
        shop,
        "--target",
        "[red]seconds",
        "--losses",
        "squared",
        "--model",
        "linear",
        "--out",
        out,
        *QUICK,
    ]
    found = shell(*words, "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["question"]["model"] == "linear"
    assert not CONTROL_CODE.search(found.stdout + found.stderr)


def test_the_bar_on_a_terminal_counts_fits(monkeypatch):
    from selmatch.cli import progress

    drawn = io.StringIO()
    monkeypatch.setattr(progress, "messages", lambda: Console(file=drawn, force_terminal=True, width=80))
    with progress.Bar() as bar:
        bar.update(1, 4, "column [red]x")
        bar._progress.refresh()
        assert "1/4" in drawn.getvalue()
        assert "column [red]x" in drawn.getvalue()
        bar.say("Writing ...")
    assert (bar.done, bar.total) == (1, 4)


@pytest.mark.parametrize("width", [60, 30])
def test_a_narrow_terminal_keeps_the_count_and_the_time(width, monkeypatch):
    from selmatch.cli import progress

    drawn = io.StringIO()
    monkeypatch.setattr(progress, "messages", lambda: Console(file=drawn, force_terminal=True, width=width))
    with progress.Bar() as bar:
        bar.update(101, 140, "re-weighted squared error, split 4, setting 3 of 4")
        bar._progress.refresh()
    last = [line for line in drawn.getvalue().splitlines() if "101/140" in line][-1]
    assert "-:--:--" in last
    assert "setting 3 of 4" not in last
    assert "re-w" in last or width < 60


def test_the_page_names_every_command_and_exit_code():
    page = (Path(__file__).parents[1] / "docs" / "command_line.md").read_text(encoding="utf-8")
    for command in get_command(app).commands:
        assert f"## {command}" in page
    for code in (*check.EXIT_CODES.values(), BAD_INPUT, INTERNAL, INTERRUPTED, CLOSED_PIPE):
        assert f"| {code} |" in page
    shown = re.findall(r"^selmatch (\w+)(.*)$", page, flags=re.M)
    assert len(shown) > 15
    for command, words in shown:
        known = {option for parameter in get_command(app).commands[command].params for option in parameter.opts}
        assert set(re.findall(r"--[a-z]+", words.partition("#")[0])) <= known


# ---------------------------------------------------------------------------------------------------------------- paper


def test_paper_draws_figures_by_name(tmp_path):
    found = invoke("paper", tmp_path / "figures", "--only", "match_stochastic", "--json")
    assert found.exit_code == 0, found.output
    files = json.loads(found.stdout)["files"]
    assert {Path(file).suffix for file in files} == {".svg", ".png"}
    assert all(Path(file).is_file() for file in files)
    found = invoke("paper", tmp_path / "figures", "--only", "match_stochastc")
    assert found.exit_code == 2
    assert "Did you mean 'match_stochastic'?" in found.stderr


def test_paper_writes_the_page(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(sm.paper, "write", lambda folder, progress: written.append(folder) or folder / "index.html")
    monkeypatch.chdir(tmp_path)
    assert invoke("paper").stdout == f"{Path('selmatch-paper', 'index.html')}\n"
    assert invoke("paper", "mine").stdout == f"{Path('mine', 'index.html')}\n"
    assert written == [Path("selmatch-paper"), Path("mine")]


def claims_with(confirmed):
    from selmatch.paper.records import Claim, Evidence

    evidence = [Evidence(True, "2 = 2"), Evidence(confirmed, "it is\n[red]3", {"found": np.float64(3.0)})]
    claims = [
        Claim("C01", "Section 1", "Two is two.", "holds", "", lambda: evidence[0]),
        Claim("C02", "Section 2", "It is 2.", "erratum", "It is 3.", lambda: evidence[1]),
    ]
    return list(zip(claims, evidence, strict=True))


def test_paper_claims_fail_the_command_if_one_is_not_confirmed(monkeypatch):
    from selmatch.paper import ledger

    monkeypatch.setattr(ledger, "run", lambda: claims_with(True))
    found = invoke("paper", "--claims")
    assert found.exit_code == 0
    assert len(found.stdout.splitlines()) == 2
    assert found.stdout.splitlines()[1].split() == "C02 erratum It is 2. Instead: It is 3. (it is [red]3)".split()
    assert "All confirmed" in found.stderr
    monkeypatch.setattr(ledger, "run", lambda: claims_with(False))
    found = invoke("paper", "--claims")
    assert found.exit_code == 1
    assert "NOT CONFIRMED" in found.stdout
    found = invoke("paper", "--claims", "--json")
    assert found.exit_code == 1
    assert [claim["confirmed"] for claim in json.loads(found.stdout)["claims"]] == [True, False]


def test_paper_tables(monkeypatch):
    from selmatch.paper import tables
    from selmatch.paper.records import Table

    table = Table("links", "Links, [measured]", "tab:links", ("link", "agrees"), (("sinh", "yes"),), ("A note.",))
    monkeypatch.setattr(tables, "tables", lambda: (table,))
    found = invoke("paper", "--tables")
    assert found.exit_code == 0
    assert all(word in found.stdout for word in ("Links, [measured]", "sinh", "A note."))
    assert json.loads(invoke("paper", "--tables", "--json").stdout)["tables"][0]["rows"] == [["sinh", "yes"]]
