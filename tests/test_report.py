"""The HTML report: what is in it, what is not, and that nobody's column names can break it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import selmatch as sm
from selmatch import report, spec
from selmatch.comparison import result
from selmatch.comparison.measures import KINDS, cost_sentence
from selmatch.comparison.question import Question
from selmatch.comparison.result import (
    CONTROL,
    SELECTIVE,
    Comparison,
    Contender,
    Data,
    Estimate,
    Measure,
    Region,
    Score,
    Verdict,
)
from selmatch.comparison.tabulate import MISSING, rows, shown
from selmatch.report import illustrations, method, pages, palette, pictures, tables, units
from selmatch.words import unbroken

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7*7 }} {% raw %}",
    "naïve 🦉 $x_1$ \N{RIGHT-TO-LEFT OVERRIDE}drow",
    "very long " * 60,
    "</style></title></pre><b>&amp; --> ]]>",
)
VOID = {"meta", "input", "br", "img", "link", "hr", "data-"}


# ------------------------------------------------------------------------------------------------- a small comparison


def contenders(names=("squared", "reweighted")) -> tuple[Contender, ...]:
    trained = [
        Contender(
            name, f"{name} loss", f"Trains with the {name} loss.", chosen=({"leaves": 15, "weight": 4.0 * place},) * 3
        )
        for place, name in enumerate((SELECTIVE, *names))
    ]
    return (*trained, Contender(CONTROL, "squared + constant", "Adds a constant.", trained=False))


MEASURES = (
    Measure("loss", "cost", "The mean of the loss that you asked for.", "low", "loss", "aim"),
    Measure("mae_predicted", "error, predicted inside", "Mean error of rows you pick.", "low", "score", "predicted"),
    Measure("mae_observed", "error, observed inside", "Can be cheated.", "low", "score", "observed"),
    Measure("bias", "bias", "Mean of prediction minus observation.", "zero", "score", "bias"),
    Measure("precision", "precision at the top", "Share of the picked rows inside.", "high", "share", "order"),
    Measure("ndcg", "nDCG@10", "Of each list.", "high", "", "lists"),
)


def comparison_of(names=("squared", "reweighted"), rows: int = 400, **changes) -> Comparison:
    """A comparison with made-up models: the observation, shrunk, shifted and with noise."""
    rng = np.random.default_rng(0)
    observed = rng.lognormal(3.0, 1.0, rows)
    loss = sm.focus("high", data=observed)
    low, high, _ = loss.wish.regions[0]
    predicted = {
        name: observed * (0.9 - 0.1 * place) + 4.0 + 2.0 * place + rng.normal(0.0, 5.0, rows)
        for place, name in enumerate((SELECTIVE, *names, CONTROL))
    }
    parts = dict(
        question=Question("seconds", {"word": "high", "top": 0.1}, splits=3, losses=(SELECTIVE, *names)),
        data=Data("visits.csv", rows, rows, ("pages", "month"), ("2 rows had no target.",), "0123456789abcdef"),
        loss=loss,
        region=Region(((low, high),), f"scores from {low:.4g} up", int((observed >= low).sum())),
        contenders=contenders(names),
        measures=MEASURES,
        scores=_scores(names, predicted, observed, loss),
        verdict=Verdict("helps", "A selective loss helps here.", ("By 5 %.", "In all splits."), SELECTIVE, names[0]),
        tested=result.Tested(observed, predicted, np.arange(rows) % 3, np.arange(rows)),
        code=f'FOLDER = {result.BESIDE}\nprint("a < b & c", sm.load(FOLDER / "loss.toml"))\n',
    )
    return Comparison(**{**parts, **changes})


def _scores(names, predicted, observed, loss):
    def values(name):
        scores = predicted[name]
        return [loss(scores, observed), *(float(abs(scores - observed).mean()) for _ in range(2)),
                float((scores - observed).mean()), 0.625, 0.5]  # fmt: skip

    own = values(SELECTIVE)
    found = {}
    for name in (SELECTIVE, *names, CONTROL):
        found[name] = {}
        for measure, value, ours in zip(MEASURES, values(name), own, strict=True):
            gain = None if name == SELECTIVE else Estimate(value - ours, value - ours - 0.1, value - ours + 0.1)
            relative = gain and Estimate(gain.value / value, gain.low / value, gain.high / value)
            estimate = Estimate(float(value), float(value) - 0.2, float(value) + 0.2)
            found[name][measure.name] = Score(estimate, gain, (value,) * 3, relative)
    return found


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return comparison_of()


@pytest.fixture(scope="module")
def text(comparison) -> str:
    return report.html(comparison)


@pytest.fixture(scope="module")
def parsed(text) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def hostile_text() -> str:
    script, image, braces, owl, long, ends = HOSTILE
    plain = comparison_of()
    return report.html(
        comparison_of(
            question=dataclasses.replace(plain.question, target=script, group=braces),
            data=Data(image, 400, 400, HOSTILE, HOSTILE, ends),
            region=dataclasses.replace(plain.region, words=ends),
            contenders=tuple(
                dataclasses.replace(c, title=f"{owl} {script} {c.name}", words=image, chosen=({script: image},) * 3)
                for c in plain.contenders
            ),
            measures=tuple(dataclasses.replace(m, title=f"{long} {m.name}", words=script) for m in MEASURES),
            verdict=dataclasses.replace(plain.verdict, headline=ends, sentences=HOSTILE),
            code="\n".join(map(repr, HOSTILE)),
        )
    )


@pytest.fixture
def without_pictures(monkeypatch):
    """Most of the time of a report goes into its pictures."""
    for name in ("design", "quality"):
        monkeypatch.setattr(report.illustrations, name, lambda comparison: ())


class Page(HTMLParser):
    """What a browser would find: tags with attributes, and the text inside each; unbalanced tags are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[tuple[str, dict[str, str], list[str]]] = []
        self.elements: list[tuple[str, dict[str, str], str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs), []))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        name, attributes, words = self.open.pop()
        assert name == tag, f"</{tag}> closes <{name}>"
        self.elements.append((name, attributes, "".join(words)))

    def handle_data(self, data):
        for _, _, words in self.open:
            words.append(data)

    def all(self, tag: str, **attributes: str) -> list[tuple[dict[str, str], str]]:
        wanted = attributes.items()
        return [(found, words) for name, found, words in self.elements if name == tag and wanted <= found.items()]

    def one(self, tag: str, **attributes: str) -> str:
        (found,) = self.all(tag, **attributes)
        return found[1]


def style_of(text: str) -> str:
    return "".join(words for _, words in Page(text).all("style"))


# --------------------------------------------------------------------------------------------- offline, small, unbroken


def assert_offline(text: str) -> None:
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form", "audio", "video", "source"}
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in {"href", "src", "xlink:href", "srcset", "action", "data", "poster", "background"}:
                assert value.startswith("#"), f"<{tag} {name}={value}>"
            if name == "style":
                assert all(inner.startswith("#") for inner in re.findall(r"url\(([^)]*)", value))
            assert not name.startswith("xmlns")
    style = style_of(text)
    assert not re.search(r"@import|url\(|https?:|//|expression\(", style)


def test_the_page_needs_no_network_and_no_script(text):
    assert_offline(text)
    assert "http:" not in text
    assert "https:" not in text
    assert "://" not in text


def test_the_policy_of_the_page_forbids_scripts_and_connections(parsed):
    (policy,) = [a["content"] for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a]
    assert "default-src 'none'" in policy
    assert "script" not in policy


def test_the_file_is_small(text):
    assert len(text.encode()) < 300_000


def test_equal_comparisons_give_equal_files(comparison, text, tmp_path):
    path = comparison.to_html(tmp_path / "new folder" / "report.html")
    folder = f"FOLDER = Path(&#39;{path.parent}&#39;)"
    assert path.read_bytes() == text.replace(f"FOLDER = {result.BESIDE}", folder).encode() != text.encode()


def test_many_rows_make_no_large_file():
    assert len(report.html(comparison_of(rows=30_000)).encode()) < 450_000


# ------------------------------------------------------------------------------------------------------------ escaping


def test_nothing_that_users_name_becomes_a_tag(hostile_text, parsed):
    assert_offline(hostile_text)
    allowed = {tag for tag, _ in parsed.tags}
    assert {tag for tag, _ in Page(hostile_text).tags} <= allowed
    assert "<img" not in hostile_text


def test_what_users_name_is_shown_as_it_is(hostile_text):
    page = Page(hostile_text)
    assert HOSTILE[0] in page.one("h1")
    assert page.one("h2", id="headline") == HOSTILE[-1]
    shown = [words for _, words in page.all("li")]
    for words in HOSTILE:
        assert words in shown
    assert [words for _, words in page.all("code", **{"class": "name"})] == list(HOSTILE)
    assert "49" not in page.one("h1")
    titles = [words for _, words in page.all("title")]
    assert titles[0].startswith(HOSTILE[0])


def test_direction_overrides_stay_inside_their_own_element(parsed):
    assert re.search(r"\.name\{[^}]*unicode-bidi:isolate", style_of(str(pages.page("", ""))))
    assert parsed.all("code", **{"class": "name"})


# -------------------------------------------------------------------------------------------------------------- themes


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_text_and_lines_can_be_read(colours):
    for ground in ("paper", "card", "sunken"):
        for text in ("ink", "muted", "accent", "good", "bad"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for line in set(palette.NAMES_OF_COLOURS.values()):
        assert contrast(colours[line], colours["card"]) >= 3.0, line


def test_a_dark_system_gets_every_colour_anew(text):
    style = style_of(text)
    rules = re.search(r"@media \(prefers-color-scheme:dark\)\{:root\{([^}]*)\}", style)
    assert rules is not None
    light = re.search(r"^:root\{([^}]*)\}", style, re.MULTILINE)
    variables = [set(re.findall(r"(--[a-z]+):", found[1])) for found in (light, rules)]
    assert variables[0] == variables[1] == {f"--{name}" for name in palette.LIGHT}
    assert set(palette.LIGHT) == set(palette.DARK)
    used = set(re.findall(r"var\((--[a-z]+)\)", text))
    assert used <= variables[0]


def test_pictures_use_the_colours_of_the_page_only(text):
    for drawn in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert not re.search(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3};|\brgb|font-family", drawn)
        assert "var(--ink)" in drawn


def test_greys_and_the_palette_follow_the_page():
    assert palette.variable("#ffffff") == "var(--card)"
    assert palette.variable("#b0b0b0") == "var(--line)"
    assert palette.variable("#777777") == "var(--muted)"
    assert palette.variable("#123456") == "#123456"
    from selmatch.plots import COLOURS

    assert all(palette.variable(colour).startswith("var(") for colour in COLOURS.values())


# ------------------------------------------------------------------------------------------------- structure, for all


def test_ids_are_unique_and_references_lead_somewhere(parsed):
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in parsed.tags:
        wanted = attributes.get("aria-labelledby", "").split()
        wanted += [attributes["href"][1:]] if "href" in attributes else []
        for value in attributes.values():
            wanted += re.findall(r"url\(#([^)]+)\)", value or "")
        assert set(wanted) <= set(ids)


def test_headings_are_in_order(parsed):
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_landmarks_and_names_of_pictures(parsed):
    tags = [tag for tag, _ in parsed.tags]
    assert {"main", "nav", "header", "footer"} <= set(tags)
    assert dict(parsed.tags)["html"]["lang"] == "en"
    drawn = parsed.all("svg")
    assert len(drawn) == 8
    assert all(attributes["role"] == "img" and attributes["aria-labelledby"] for attributes, _ in drawn)
    assert all(attributes.get("scope") for attributes, _ in parsed.all("th"))


@pytest.mark.usefixtures("without_pictures")
def test_no_line_begins_with_a_percent_sign():
    words, code = "9 % lower (1 to 14 %).", 'X["VAT %"]'
    found = comparison_of(verdict=Verdict("helps", words, (words,), SELECTIVE, "squared"), code=code)
    found = dataclasses.replace(found, data=dataclasses.replace(found.data, notes=(f"WARNING: {words}", words)))
    page = Page(report.html(found))
    assert page.one("h2", id="headline") == "9\xa0% lower (1 to 14\xa0%)."
    assert not [item for tag in ("li", "h2", "span") for _, item in page.all(tag) if " %" in item]
    assert code in page.one("pre", id="code")


def test_the_parts_come_in_the_order_of_reading(parsed):
    wanted = ["verdict", "numbers", "gains", "design", "quality", "bias", "method", "reproduce"]
    assert [attributes["id"] for tag, attributes in parsed.tags if tag == "section"] == wanted


# ------------------------------------------------------------------------------------------------------------- content


def test_the_verdict_is_there(parsed, comparison):
    assert parsed.one("h2", id="headline") == comparison.verdict.headline
    items = [words for _, words in parsed.all("li")]
    assert set(map(unbroken, comparison.verdict.sentences)) <= set(items)


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("kind", ["helps", "no difference", "does not help", "too little data"])
def test_every_verdict_has_a_word_and_a_sign(kind):
    verdict = Verdict(kind, "A headline.", (), SELECTIVE, "squared")
    badge = Page(report.html(comparison_of(verdict=verdict))).one("p", **{"class": "badge"})
    sign, words = badge.split(maxsplit=1)
    assert words == f"Verdict: {kind}"
    assert sign in "▲=▼?"


def table_of(page_text: str) -> dict[tuple[str, str], tuple[float, str]]:
    """Value and text of each cell of the table, by measure and contender."""
    found = {}
    table = re.search(r'<table class="measures">.*?</table>', page_text, re.DOTALL)[0]
    for row in re.findall(r'<tr data-measure="(.*?)">(.*?)</tr>', table, re.DOTALL):
        for name, words in re.findall(r'<td data-contender="(.*?)"(.*?)</td>', row[1], re.DOTALL):
            found[row[0], name] = (float(re.search(r'<data class="value" value="([^"]+)"', words)[1]), words)
    return found


def test_every_number_of_the_table_is_the_comparisons(text, comparison):
    cells = table_of(text)
    assert len(cells) == len(comparison.measures) * len(comparison.contenders)
    for row in rows(comparison):
        for cell in row.cells:
            value, words = cells[row.measure.name, cell.contender.name]
            assert value == comparison.scores[cell.contender.name][row.measure.name].estimate.value
            assert f">{cell.value}<" in words
            assert f">{cell.interval}<" in words


def test_all_measures_and_contenders_are_named_and_explained(parsed, comparison):
    legends = [words for _, words in parsed.all("dd")]
    hovers = [attributes["title"] for attributes, _ in parsed.all("abbr")]
    for thing in (*comparison.measures, *comparison.contenders):
        assert thing.words in legends
        assert thing.words in hovers
    heads = [" ".join(words.split()) for _, words in parsed.all("th", scope="col")]
    assert [c.title for c in comparison.contenders[:-1]] == heads[1:4]
    assert "control" in heads[4]


def test_measures_stand_in_blocks_by_kind(parsed):
    titles = [words.strip() for _, words in parsed.all("th", scope="rowgroup")]
    kinds = list(dict.fromkeys(measure.kind for measure in MEASURES))
    assert len(titles) == len(kinds)
    for kind, title in zip(kinds, titles, strict=True):
        assert title.startswith(KINDS[kind])


def test_the_best_and_what_is_clear_are_marked_by_words(text, comparison):
    cells = table_of(text)
    for row in rows(comparison):
        for cell in row.cells:
            words = cells[row.measure.name, cell.contender.name][1]
            assert ("★ best" in words) == cell.best
            assert ("▽ worse" in words) == (cell.against == "worse")
            assert ("△ better" in words) == (cell.against == "better")
    assert "★ best" in cells["loss", SELECTIVE][1]
    assert "▽ worse" in cells["loss", CONTROL][1]


def test_gains_are_told_with_their_splits(text, comparison):
    table = re.search(r'<table class="gains">.*?</table>', text, re.DOTALL)[0]
    for gain in tables.gains(comparison):
        row = re.search(rf'<tr data-contender="{gain.contender.name}">(.*?)</tr>', table, re.DOTALL)[1]
        values = [float(value) for value in re.findall(r'value="([^"]+)"', row)]
        assert values == [gain.score.gain.value, gain.score.relative.value]
        assert f"{gain.won} of 3" in row
        assert gain.reading in row
    assert len(tables.gains(comparison)) == 3
    assert {gain.won for gain in tables.gains(comparison)} == {3}


def test_gains_say_who_is_better():
    plain = comparison_of()
    gains = {"squared": (0.2, 0.1, 0.3), "reweighted": (0.1, -0.1, 0.3), CONTROL: (-0.2, -0.3, -0.1)}
    scores = {
        name: {**found, "loss": dataclasses.replace(found["loss"], gain=Estimate(*gains[name]))}
        if name in gains
        else found
        for name, found in plain.scores.items()
    }
    readings = [gain.reading for gain in tables.gains(comparison_of(scores=scores))]
    assert readings == ["selective clearly better", "undecided", "the other clearly better"]


def test_cost_is_explained_above_the_verdict(text, parsed, comparison):
    assert parsed.one("p", **{"class": "cost"}) == cost_sentence(comparison)
    assert text.index('<p class="cost">') < text.index('id="verdict"')
    assert "weigh 8 times as much as elsewhere" in cost_sentence(comparison)
    facts = [words for _, words in parsed.all("dd")]
    assert "8 times as much as elsewhere, on average" in facts


def test_the_measure_is_called_cost_and_the_contender_selective_loss(parsed, comparison):
    drawn = {words: attributes for attributes, words in parsed.all("svg")}
    (forest,) = [words for words in drawn if "The selective loss against each other loss" in words]
    assert "% lower cost than with this one" in forest
    assert "by the cost," in " ".join(words for _, words in parsed.all("p"))
    assert "the cost, for all of them" in " ".join(method.sentences(comparison))
    words = " ".join(words for _, words in parsed.all("p"))
    assert "less selective loss" not in words + forest


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("kind", ["helps", "no difference"])
def test_the_program_trains_whom_the_verdict_advises(kind):
    verdict = Verdict(kind, "A headline.", (), "reweighted", "squared")
    headings = [words for _, words in Page(report.html(comparison_of(verdict=verdict))).all("h3")]
    assert "A program that trains the loss we advise: reweighted loss" in headings
    assert not any("winner" in words for words in headings)


def test_the_loss_in_the_page_is_the_loss(parsed, comparison):
    assert spec.loads(parsed.one("pre", id="spec")) == comparison.loss


def test_the_code_in_the_page_is_the_code(parsed, comparison, hostile_text):
    assert parsed.one("pre", id="code") == comparison.code
    assert Page(hostile_text).one("pre", id="code") == "\n".join(map(repr, HOSTILE))


def test_the_box_names_what_the_loss_elicits(parsed, comparison):
    (box,) = [words for attributes, words in parsed.all("section") if attributes["id"] == "bias"]
    observed = comparison.tested.observed
    assert shown(comparison.loss.minimiser(observed)) in box
    assert shown(observed.mean()) in box


def test_notes_features_and_settings_are_told(parsed, comparison):
    items = [words for _, words in parsed.all("li")]
    assert set(comparison.data.notes) <= set(items)
    assert {words for _, words in parsed.all("code", **{"class": "name"})} == set(comparison.data.features)
    cells = [words for _, words in parsed.all("td")]
    assert {"weight 0", "weight 4", "weight 8"} <= set(cells)
    assert not any("leaves" in words for words in cells)
    assert "The same everywhere: leaves 15." in [words for _, words in parsed.all("p")]


# ---------------------------------------------------------------------------------------------------- the odd ones


@pytest.mark.usefixtures("without_pictures")
def test_nothing_to_measure_is_a_dash():
    plain = comparison_of()
    nothing = Estimate(math.nan, math.nan, math.nan)
    empty = Score(nothing, nothing, (math.nan,) * 3, nothing)
    scores = {
        name: {m: (empty if name == "squared" else score) for m, score in found.items()}
        for name, found in plain.scores.items()
    }
    scores["reweighted"]["ndcg"] = scores[SELECTIVE]["ndcg"] = Score(nothing, None, (math.nan,) * 3)
    page_text = report.html(comparison_of(scores=scores))
    for (measure, name), (value, words) in table_of(page_text).items():
        if name == "squared" or (measure == "ndcg" and name != CONTROL):
            assert math.isnan(value)
            assert f">{MISSING}<" in words
            assert "best" not in words
            assert "worse" not in words
    assert 'data-contender="squared"' not in re.search(r'<table class="gains">.*?</table>', page_text, re.DOTALL)[0]


def test_one_contender_beside_the_selective_one():
    page = Page(report.html(comparison_of(names=("squared",))))
    assert len(page.all("th", scope="rowgroup")) == 6


def test_contenders_without_a_unit_are_in_no_picture_of_scores():
    plain = comparison_of()
    ordinal = tuple(dataclasses.replace(c, ordinal=c.name == "reweighted", title=c.name) for c in plain.contenders)
    drawn = Page(report.html(comparison_of(contenders=ordinal))).all("svg")
    assert "reweighted" in drawn[0][1]  # the gains
    assert not any("reweighted" in words for _, words in drawn[1:])


def test_links_that_end_are_drawn_where_they_are_finite():
    plain = comparison_of()
    tested = plain.tested
    shares = {name: scores / 100.0 for name, scores in tested.predicted.items()}
    shares["squared"][:5] = (-0.2, 1.0, 1.3, 0.0, 2.0)  # outside the logit, and at its ends
    observed = np.clip(tested.observed / 100.0, 0.001, 0.999)
    region = result.Region(((0.7, math.inf),), "shares from 0.7 up", 9)
    odd = dataclasses.replace(tested, observed=observed, predicted=shares)
    text = report.html(comparison_of(loss=sm.MatchingLoss(sm.Logit()), tested=odd, region=region))
    assert len(Page(text).all("svg")) == 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time": "day"}, "ordered by day"),
        ({"split": "part"}, "column part says"),
        ({"group": "query"}, "same query stay together"),
        ({"scale": "target"}, "A score is the target itself"),
        ({"model": "linear"}, "a linear model"),
        ({"splits": 1}, "1 split:"),
    ],
)
def test_the_method_says_how_rows_were_split(changes, words):
    question = Question("y", {}, **changes)
    assert words in " ".join(method.sentences(comparison_of(question=question)))


# -------------------------------------------------------------------------------------------- logarithms, grades, edges


def logarithmic(scale: str) -> Comparison:
    plain = comparison_of()
    question = dataclasses.replace(plain.question, scale="log")
    return comparison_of(question=question, loss=plain.loss.with_scale(scale))


@pytest.mark.parametrize(
    ("scale", "words", "back"), [("log", "log(target), ", np.exp), ("log1p", "log(1 + target), ", np.expm1)]
)
def test_a_logarithm_is_called_what_it_is(scale, words, back):
    found = logarithmic(scale)
    assert units.score(found).startswith(words)
    assert units.of_target(found, 2.0) == f"2.000 (the target {shown(back(2.0))})"
    assert f"A score is {words}" in method.sentences(found)[0]


def test_errors_of_logarithms_have_their_unit(text):
    page_text = report.html(logarithmic("log1p"))
    page = Page(page_text)
    assert f"Errors and biases of scores are in {units.LOG_UNITS}." in [words for _, words in page.all("li")]
    assert "mean absolute error, log units" in page_text
    marked = {
        attributes["data-measure"]: "log units" in words
        for attributes, words in page.all("tr")
        if "data-measure" in attributes
    }
    assert marked == {measure.name: measure.unit == "score" for measure in MEASURES}
    assert "(the target " in page.one("section", id="bias")
    assert "log units" not in text


def test_the_words_about_log_units_are_true():
    tenth, two = math.expm1(0.1), math.exp(0.7)
    assert (
        units.LOG_UNITS
        == f"log units: 0.1 is about {round(100.0 * tenth, -1):.0f} % of the target, 0.7 is a factor of {two:.0f}"
    )


def test_grades_are_drawn_from_the_lowest_to_the_highest():
    plain = comparison_of()
    grades = np.random.default_rng(0).choice(5, 400, p=(0.6, 0.2, 0.1, 0.06, 0.04)).astype(float)
    predicted = {name: grades + 0.3 for name in plain.tested.predicted}
    tested = dataclasses.replace(plain.tested, observed=grades, predicted=predicted)
    region = result.Region(((1.5, math.inf),), "scores from 1.5 up", int((grades >= 2.0).sum()))
    found = comparison_of(loss=sm.focus("high", data=grades), tested=tested, region=region)
    costs = illustrations.design(found)[2]
    assert [score for score in range(5) if f">observed {score}<" in costs.svg] == [0, 2, 4]
    assert costs.caption.startswith("For three typical observations")
    by_observation = illustrations.quality(found)[1]
    assert "for each value that was observed" in by_observation.caption
    assert "observed score" in by_observation.svg
    assert "decile" not in by_observation.svg


def test_the_number_of_curves_is_told():
    plain = comparison_of()
    yes_or_no = (plain.tested.observed > 20.0).astype(float)
    tested = dataclasses.replace(plain.tested, observed=yes_or_no)
    found = comparison_of(loss=sm.MatchingLoss(sm.Sinh()), tested=tested, region=result.Region(((1.0, 1.0),), "1", 1))
    assert illustrations.design(found)[2].caption.startswith("For two typical observations")


def test_the_caption_tells_of_rows_that_are_cut_off():
    plain = comparison_of()
    assert "arrow" not in illustrations.gains(plain).caption
    for name, share in {"squared": 0.05, "reweighted": 0.007, CONTROL: 0.6}.items():
        relative = Estimate(share, share - 0.01, share + 0.01)
        plain.scores[name]["loss"] = dataclasses.replace(plain.scores[name]["loss"], relative=relative)
    drawn = illustrations.gains(plain)
    assert "An arrow is a row that goes on beyond the edge" in drawn.caption
    assert ">60<" in drawn.svg


# ------------------------------------------------------------------------------------------------------ pages, pictures


def test_threads_write_equal_reports_and_leave_the_settings(comparison, text):
    before = dict(matplotlib.rcParams)
    filters = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(report.html, [comparison] * 4))
    assert all(one == text for one in written)
    assert dict(matplotlib.rcParams) == before
    assert warnings.filters == filters


def test_the_colours_of_figures_have_names_on_the_page():
    from selmatch.plots import COLOURS

    assert set(palette.NAMES_OF_COLOURS) == {colour.lower() for name, colour in COLOURS.items() if name != "black"}
    assert set(palette.NAMES_OF_COLOURS.values()) <= set(palette.LIGHT)


def test_a_body_that_is_text_is_escaped():
    assert '<main id="content">\n1 &lt; 2\n</main>' in pages.page("t", "1 < 2")


def test_a_missing_template_engine_is_named():
    code = "import sys; sys.modules['jinja2'] = None; import selmatch.report"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'selmatch.report needs jinja2. Install it with: pip install "selmatch[compare]".' in ran.stderr


def test_two_pictures_share_no_ids():
    def drawn(colour):
        figure = Figure(figsize=(2, 2))
        ax = figure.subplots()
        ax.plot([0.0, 1.0], [0.0, 2.0], color=colour)
        ax.set_title("a < b")
        return str(pictures.inline_svg(figure, "A picture", "with a <line>"))

    one, other = drawn("#0072B2"), drawn("#D55E00")
    ids = [set(re.findall(r'id="([^"]+)"', text)) for text in (one, other)]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert drawn("#0072B2") == one
    assert "var(--blue)" in one
    assert "a &lt; b" in one
    assert "with a &lt;line&gt;" in one
    assert "xmlns" not in one


def test_formulas_in_somebodys_words_stay_words():
    figure = Figure(figsize=(2, 2))
    figure.subplots().set_title(pictures.plain("cost in $ or $x^2$"))
    assert "cost in $ or $x^2$" in pictures.inline_svg(figure, "t", "d")


# --------------------------------------------------------------------------------------- width of the table of measures

#: pixels of a letter or digit, in ems, in the widest of the usual fonts; of the margins of the page, of an em
WIDEST, MARGINS, EM = 0.64, 64.0, 16.0
STYLE = re.sub(r"/\*.*?\*/", "", pages.stylesheet(), flags=re.DOTALL)


def declared(selector, name, within):
    """The size of a property in the rules of a selector, in rem."""
    rules = re.findall(rf"(?:^|[,}}\s]){re.escape(selector)}(?:,[^{{}}]*)?\{{([^}}]*)\}}", within)
    (found,) = [float(size) for rule in rules for size in re.findall(rf"(?:^|;|\s){name}:(\.?[\d.]+)rem", rule)]
    return found


@pytest.mark.parametrize("window", [1200, 1280, 1920])
@settings(max_examples=20)
@given(value=st.floats(-300.0, 300.0), sign=st.sampled_from([-1.0, 1.0]))
def test_all_columns_of_the_table_of_measures_fit(window, value, sign):
    """Columns share the width evenly, so the longest text that cannot be broken must fit into one of them."""
    rule = re.search(r"@media \(min-width:(\d+)rem\)\{\s*\.measures\{table-layout:fixed.*?\n\}", STYLE, re.DOTALL)
    assert rule is not None
    assert window >= EM * float(rule[1])
    most = 9  # contenders: all trained losses and the control
    room = (min(window - MARGINS, 90.0 * EM) - EM * declared(".measures thead th:first-child", "width", rule[0])) / most
    room -= 2.0 * EM * declared(".measures th", "padding-inline", rule[0])
    texts = [shown(sign * 10.0**value), *f"{shown(sign * 10.0**value)} to".split(), "weighted", "★ best"]
    size = EM * declared(".measures", "font-size", rule[0])
    for text in texts:
        digits = len(text) - 0.5 * sum(map(text.count, ",.-"))  # these are narrow
        assert size * WIDEST * digits <= room, text


def test_tables_show_that_they_move():
    (scroll,) = re.findall(r"^\.scroll\{(.*?)\}", STYLE, flags=re.MULTILINE | re.DOTALL)
    assert "overflow-x:auto" in scroll
    assert scroll.count("local no-repeat") == scroll.count("scroll no-repeat") == 2  # covers move, shadows stay


@pytest.mark.parametrize(("names", "told"), [(("squared",), False), (tuple("abcdefg"), True)])
@pytest.mark.usefixtures("without_pictures")
def test_narrow_windows_are_told_to_move_a_wide_table(monkeypatch, names, told):
    monkeypatch.setattr(report.illustrations, "gains", lambda comparison: None)
    assert ('class="small muted sideways many"' in report.html(comparison_of(names))) == told


# --------------------------------------------------------------------------------------------------------- screenshots


@pytest.mark.parametrize(
    ("pages", "words"),
    [("none.html", "none.html does not exist"), ("page.html", "Chromium is missing"), (".", "Chromium is missing")],
)
def test_screenshots_say_what_is_missing(pages, words, tmp_path):
    (tmp_path / "page.html").write_text("<p>A page</p>", encoding="utf-8")
    script = Path(__file__).parents[1] / "tools" / "screenshots.py"
    environment = {**os.environ, "CHROMIUM": str(tmp_path / "no-such-browser")}
    command = [sys.executable, str(script), str(tmp_path / pages)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr
