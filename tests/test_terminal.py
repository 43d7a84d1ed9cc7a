"""What strangers wrote reaches the terminal as words that are read, never as characters that are obeyed."""

import io
import json
import logging
import unicodedata
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cli import QUICK, complete, invoke

import selmatch as sm
from selmatch import report, spec
from selmatch.cli import output
from selmatch.comparison.columns import Columns
from selmatch.words import printable

SEQUENCES = ["\x1b[31m",
             "\x1b]0;title\x07", "\x1b]8;;http://a.b\x1b\\", "\x1b[2J", "\x9b8m", "\r", "\b\b", "\x7f", "\x00",
             "\x85", "\u2028", "\u202e", "\u2066", "\u061c", "\u200b", "\ufeff", "\U000e0041", "\n", "\t"]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(SEQUENCES) | st.characters(codec="utf-8"), min_size=1, max_size=6).map("".join)
NAMED = HOSTILE.filter(lambda text: not set(text) & set("/\0") and len(text.encode()) < 100)
EXAMPLES = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


#: marks of Arabic and Syriac, Kaithi and Egyptian writing are seen; joiners belong to words of many languages
JOINING = "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
JOINING += "".join(map(chr, range(0x13430, 0x13440)))


def obeyed(text):
    """The characters of a text that do something to a terminal, or to the direction of a line."""
    return {
        character
        for character in text
        if (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character not in "\n\t")
        or (unicodedata.category(character) == "Cf" and character not in JOINING)
    }


def assert_plain(*words):
    """Whatever a command is told, nothing of what it prints is obeyed."""
    found = invoke(*words)
    assert not obeyed(found.stdout), (words, found.stdout)
    assert not obeyed(found.stderr), (words, found.stderr)
    assert found.exit_code != 70, found.output
    return found


@given(text=st.text(st.sampled_from("".join(SEQUENCES)) | st.characters()))
def test_printable_texts_are_read_and_not_obeyed(text):
    shown = printable(text)
    assert not obeyed(shown)
    assert printable(shown) == shown
    if not obeyed(text):
        assert shown == text


@pytest.mark.parametrize("text", ["naïve  Größe, 日本語", "نمی‌خواهم", "👩‍👩‍👧", "12\N{NO-BREAK SPACE}%", "a\tb\nc"])
def test_honest_texts_stay(text):
    assert printable(text) == text


@given(key=HOSTILE.map("!{}".format))
@EXAMPLES
def test_spec_keys(key, tmp_path):
    path = tmp_path / "loss.json"
    for document in (
        {"selmatch": 1, key: 1},
        {"selmatch": 1, "curve": key},
        {"selmatch": 1, "curve": {"type": "Affine", "curve": "Sinh", key: 1}},
        {"selmatch": 1, "curve": {"type": "Sinh", key: {key: key}}},
    ):
        path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        for command in (["check", "--json"], ["explain", "--debug"]):
            assert_plain(*command, path)
        with pytest.raises(ValueError, match=r"loss\.json") as refusal:
            spec.load(path)
        assert not obeyed(str(refusal.value))


@given(text=HOSTILE)
@EXAMPLES
def test_words_of_the_command_line(text, tmp_path):
    missing = tmp_path / "data.csv"
    for words in (
        ["check", "--", text],
        ["check", "--", f"z + {text} z"],
        ["check", "--debug", "--", f"z + {text}"],
        ["check", "z", f"--{text}"],
        ["check", "--domain", text, "1", "z"],
        [f"a{text}"],
        ["focus", "--data", missing, "--", text],
        ["compare", missing, "--target", "y", "--focus", text],
        ["paper", "--only", text, tmp_path],
    ):
        assert_plain(*words)


@given(name=NAMED)
@EXAMPLES
def test_names_of_files(name, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    bad = folder / f"{name}.toml"
    for words in (["check", bad], ["explain", "z", "--data", folder / f"{name}.csv", "--column", name]):
        assert_plain(*words)
    bad.write_text("selmatch = 1\nloss = 2", encoding="utf-8")
    table = folder / f"{name}.csv"
    table.write_text("x,y\n1,2\n3,4\n", encoding="utf-8")
    good = folder / f"a{name}.toml"
    sm.MatchingLoss(sm.Sinh()).save(good)
    for words in (
        ["check", bad],
        ["check", "--debug", bad],
        ["check", folder / f"{name}.tom"],
        ["plot", "z", "--out", f"{bad}/{name}.svg"],
        ["compare", table, "--target", "z"],
        ["compare", table, "--target", "y", "--out", bad],
        ["focus", "high", "--data", table],
        ["focus", "high", "--data", table, "--column", "y", "--out", folder / f"b{name}.toml"],
        ["explain", good, "--data", table, "--column", "z"],
    ):
        assert_plain(*words)
    for path in folder.iterdir():
        path.unlink()


@given(name=HOSTILE)
@EXAMPLES
def test_names_of_columns(name, tmp_path):
    table = tmp_path / "data.csv"
    quoted = name.replace('"', '""')
    table.write_text(f'"{quoted}",x\n"{quoted}",2\n3,4\n', encoding="utf-8", newline="")
    for words in (
        ["focus", "high", "--data", table],
        ["focus", "high", "--data", table, "--column", name],
        ["explain", "z", "--data", table, "--column", f"x{name}"],
        ["compare", table, "--target", f"x{name}"],
        ["compare", table, "--target", name, "--group", name],
    ):
        assert_plain(*words)


def test_a_comparison_of_strangers_data(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "html", lambda comparison, folder: comparison.data.name)  # without its pictures
    evil = "\x1b]0;t\x07\x1b[8m\r\u202e\x9b8m"
    random = np.random.default_rng(1)
    values = random.normal(size=(240, 2))
    rows = "".join(f'"{evil}{i % 3}",{a:.4f},{np.exp(a + b):.4f}\n' for i, (a, b) in enumerate(values))
    table = tmp_path / f"a\udcff{evil.replace('/', '')}.csv"
    table.write_text(f'"{evil}shop","{evil}pages","{evil}seconds"\n{rows}', encoding="utf-8", newline="")
    for more in ([], ["--json"]):
        words = ["compare", table, "--target", f"{evil}seconds", "--out", tmp_path / evil, *QUICK, *more]
        assert assert_plain(*words).exit_code == 0
    assert Columns.load(tmp_path / evil / "columns.json").target == f"{evil}seconds"
    assert "a\\udcff" in (tmp_path / evil / "report.html").read_text(encoding="utf-8")


def test_a_terminal_with_colours_obeys_selmatch_only(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.say("\x1b[8mhidden\x1b]0;title\x07", style="bold")
    assert "\x1b[1m" in stream.getvalue()
    assert r"\x1b[8mhidden\x1b]0;title" in stream.getvalue()


@pytest.mark.parametrize("tell", [warnings.warn, logging.getLogger("selmatch").warning, print])
def test_what_libraries_say_is_plain(tell, tmp_path, monkeypatch):
    def look(*_, **__):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            tell("a column called \x1b[8m\u202e")
        raise ValueError("enough")

    monkeypatch.setattr(sm, "compare", look)
    (tmp_path / "data.csv").write_text("x,y\n1,2\n")
    before = warnings.showwarning
    found = assert_plain("compare", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "out")
    assert "a column called" in found.stderr
    assert warnings.showwarning is before


def test_completion_offers_no_names_that_are_obeyed(tmp_path):
    table = tmp_path / "data.csv"
    table.write_text("x\x1b[8m,xy\u202e,xz\n1,2,3\n", encoding="utf-8")
    assert complete(["explain", "z", "--data", table, "--column"], "x")[:1] == ["xz"]
