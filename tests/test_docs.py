"""The documentation: all pages are reached, links lead somewhere, formulas convert, and nothing comes from outside."""

import inspect
import json
import pkgutil
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import selmatch as sm

DOCS = Path(__file__).parent.parent / "docs"
OUTSIDE = re.compile(r"(https?:)?//")
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("*.ipynb")])
GENERATED = {"generated/gallery/index", "generated/reference/index"}

sys.path.insert(0, str(DOCS / "_ext"))
from docstring_prose import in_prose, with_terms  # noqa: E402
from mathml_formulas import mathml  # noqa: E402
from public_names import BESIDE, GROUPS, pages  # noqa: E402


def text_of(page):
    """The Markdown of a page, without code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = (cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"^```(?!\{).*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """The places of a page that links can name, by the headings' words."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def test_conf_is_a_program_that_asks_for_no_network(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    conf = runpy.run_path(str(DOCS / "conf.py"))
    assert conf["release"] == sm.__version__
    assert conf["html_math_renderer"] == "mathml"
    assert conf["nb_execution_mode"] == "off"
    assert not conf["nb_ipywidgets_js"]
    assert not [name for name in conf["extensions"] if "mathjax" in name or "intersphinx" in name]
    files = [*conf["html_css_files"], *conf.get("html_js_files", [])]
    assert files
    assert all((DOCS / "_static" / name).is_file() for name in files)


def test_style_sheets_are_complete_in_themselves():
    for sheet in DOCS.glob("_static/*.css"):
        assert not re.search(r"@import|url\(", sheet.read_text(encoding="utf-8"))


def test_every_page_is_in_a_table_of_contents():
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    entries = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
    assert len(set(entries)) == len(entries)
    assert set(entries) == {page.stem for page in PAGES} - {"index"} | GENERATED


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    for link in (link for link in links if not OUTSIDE.match(link)):
        name, _, anchor = link.partition("#")
        target = page if not name else page.parent / name
        assert target.is_file() or name in GENERATED, link
        assert not anchor or anchor in anchors(target), link


def test_pages_show_no_pictures_from_elsewhere():
    for page in PAGES:
        assert not [link for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text_of(page)) if OUTSIDE.match(link)]


def test_the_reference_has_every_public_name():
    written = pages()
    groups = {f"{group.page}.rst" for group in GROUPS}
    assert len(groups) == len(GROUPS)
    assert set(written) == {"index.rst", *groups, *(f"selmatch.{name}.rst" for name in (*sm.__all__, *BESIDE))}
    assert len({name.lower() for name in written}) == len(written), "two names are one file on some systems"
    for name in (*sm.__all__, *BESIDE):
        assert f":py:obj:`~selmatch.{name}`" in written["index.rst"]
        assert sum(f"   selmatch.{name}\n" in written[group] + "\n" for group in groups) == 1
        assert f":: selmatch.{name}" in written[f"selmatch.{name}.rst"]
    assert all(f"   {group.removesuffix('.rst')}\n" in written["index.rst"] + "\n" for group in groups)


def test_the_reference_of_a_module_has_what_it_offers():
    written = pages()
    for name in (*sm.__all__, *BESIDE):
        module = getattr(sm, name)
        if inspect.ismodule(module):
            page = written[f"selmatch.{name}.rst"]
            offered = [each for each in module.__all__ if not inspect.ismodule(getattr(module, each))]
            assert offered
            for each in offered:  # described here, or where a module before this one offers it
                elsewhere = re.search(rf"``{each}`` is :class:`(selmatch\.\w+)\.{each}`", page)
                home = elsewhere[1] if elsewhere else f"selmatch.{name}"
                assert re.search(rf":: {re.escape(home)}\.{each}\b", written[f"{home}.rst"])


def test_a_new_curve_has_its_page_by_itself(monkeypatch):
    @dataclass(frozen=True)
    class Ramp(sm.Curve):
        """A ramp that nobody has seen before."""

        def __call__(self, x):
            return x

    Ramp.__module__ = "selmatch.curves"
    monkeypatch.setattr(sm, "Ramp", Ramp, raising=False)
    monkeypatch.setattr(sm, "__all__", [*sm.__all__, "Ramp"])
    written = pages()
    assert "A ramp that nobody has seen before." in written["index.rst"].partition("Curves made of")[0]
    assert "autoclass:: selmatch.Ramp" in written["selmatch.Ramp.rst"]
    assert "<svg" in written["selmatch.Ramp.rst"]


def sources():
    """All docstrings of the library, by name; what compiles kernels is left out with what is private."""
    for found in pkgutil.walk_packages(sm.__path__, "selmatch."):
        path = Path(found.module_finder.path) / found.name.rpartition(".")[2]  # type: ignore[union-attr]
        file = path / "__init__.py" if found.ispkg else path.with_suffix(".py")
        yield found.name, file.read_text(encoding="utf-8")


def formulas():
    """LaTeX in docstrings and pages."""
    for name, source in sources():
        for indent, block in re.findall(r"^( *)\.\. math::(.*?\n(?:\1 .*\n)*)", source, flags=re.MULTILINE):
            yield name, re.sub(rf"^{indent} *", "", block, flags=re.MULTILINE).strip()
    for page in PAGES:
        text = re.sub(r"`[^`]*`", "", text_of(page))
        for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", text, flags=re.DOTALL):
            yield page.name, block or inline


def test_all_formulas_convert():
    found = list(formulas())
    assert len(found) > 60
    for where, latex in found:
        converted = mathml(latex, block=True)
        assert converted.startswith("<math"), where
        assert "\\" not in converted, f"{where}: {latex}"


@pytest.mark.parametrize(
    ("latex", "element"),
    [
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "<mtable"),
        (r"\begin{cases} x & x > 0 \\ 0 & x \le 0 \end{cases}", "<mtable"),
        (r"\operatorname{arcsinh} x", "arcsinh"),
        (r"\hat s", "<mover"),
        (r"\frac{1}{2}", "<mfrac"),
        (r"a &= b \\ c &= d", "<mtable"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"),
        ("h(x)", '<mi class="letter">h</mi>'),
        (r"\mathbb S", ">\U0001d54a</mi>"),
        (r"\mathbb R", ">\u211d</mi>"),
        ("h'(x)", '<mi class="letter">h</mi><mo lspace="0" rspace="0">\u2032</mo></mrow>'),
        ("h_k'", '<mo lspace="0" rspace="0">\u2032</mo></mrow><mi class="letter">k</mi></msub>'),
        ("y = -x", '<mo form="prefix">\u2212</mo>'),
        ("(a, -x)", '<mo form="prefix">\u2212</mo>'),
        ("h'(a) - |x| - 1", "<mo>\u2212</mo>"),
    ],
)
def test_formulas_become_what_they_mean(latex, element):
    assert element in mathml(latex, block=True)


@pytest.mark.parametrize("latex", [r"\nonsense x", r"\begin{nonsense} a & b \end{nonsense}"])
def test_a_formula_that_is_not_understood_is_an_error(latex):
    with pytest.raises(ValueError, match="does not understand"):
        mathml(latex, block=False)


def test_bars_in_prose_are_sizes_and_no_substitutions():
    assert in_prose(["q = |x|^d + c, for |x| < 1"]) == [r"q = \|x\|^d + c, for \|x\| < 1"]
    untouched = ["``|x|``", ".. math:: |x|", "   |y|", "", ">>> a |b| c", "|d|", ""]
    assert in_prose(untouched) == untouched


def test_attributes_are_a_list_of_terms():
    lines = ["Words.", "", "Attributes", "----------", "name : str", "    More words."]
    assert with_terms(lines) == ["Words.", "", ".. rubric:: Attributes", "", "name : str", "    More words."]
    assert with_terms(lines[:2]) == lines[:2]


CALLS = r"\| `(sm\.(?:focus|MatchingLoss|ranking)[^`]*)`(?: on `np\.log\(y\)`)? \|$"
SYMPTOMS = re.findall(CALLS, (DOCS / "choose.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_each_line_of_the_table_of_symptoms_makes_a_loss():
    assert len(SYMPTOMS) >= 13
    y = np.random.default_rng(0).gamma(4.0, 10.0, size=500)
    query = np.arange(500) // 10
    names = {"sm": sm, "np": np, "y": y, "s": y / 40.0, "s_hat": y / 40.0 + 0.1, "query": query}
    names["loss"] = sm.focus("high", data=names["s"])
    for line in SYMPTOMS:
        value = eval(line, names)
        value = value([40.0, 60.0], [45.0, 52.0]) if isinstance(value, sm.MatchingLoss) else value
        assert value > 0, line


class Loaded(HTMLParser):
    """What a browser fetches for a page."""

    def __init__(self):
        super().__init__()
        self.urls = []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.urls += [named.get("src"), named.get("srcset")]
        if tag == "link" and named.get("rel") not in ("index", "search", "next", "prev", "canonical", "author"):
            self.urls.append(named.get("href"))


@pytest.mark.slow
def test_the_documentation_builds_without_warnings_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", tmp_path / "doctrees", DOCS, tmp_path / "html"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr[-3000:]
    written = list((tmp_path / "html").rglob("*.html"))
    assert len(written) > len(sm.__all__) + len(PAGES)
    for page in written:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert not [url for url in loaded.urls if url and OUTSIDE.match(url)], page
    sigmoid = (tmp_path / "html" / "generated" / "reference" / "selmatch.Sigmoid.html").read_text(encoding="utf-8")
    assert "<math" in sigmoid
    assert "<mfrac" in sigmoid
