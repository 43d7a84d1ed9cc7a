"""The package as a whole: what it loads, what it exports, and that its wheel works."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import selmatch as sm

ROOT = Path(__file__).parent.parent


def python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, **options).stdout


def test_import_loads_numpy_and_no_other_package():
    loaded = python("-c", "import sys, selmatch; print(*{name.partition('.')[0] for name in sys.modules})").split()
    assert "numpy" in loaded
    others = "torch jax scipy matplotlib sklearn pandas polars numba xgboost lightgbm catboost".split()
    assert not set(others) & set(loaded)


def test_all_names_what_exists():
    assert len(set(sm.__all__)) == len(sm.__all__)
    assert all(hasattr(sm, name) for name in sm.__all__)
    public = {
        name
        for name, value in vars(sm).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("selmatch")
    }
    assert public <= set(sm.__all__)


@pytest.mark.parametrize("name", sm.__all__)
def test_every_public_name_has_a_docstring(name):
    value = getattr(sm, name)
    assert value.__doc__
    if isinstance(value, type):  # its own, not one that a dataclass writes or a base class lends
        assert not value.__doc__.startswith(f"{name}(")
        assert "__doc__" in vars(value)


def test_no_check_is_lost_with_python_minus_o():
    checks = ROOT / "src" / "selmatch" / "kernels" / "checks"  # tests, whose command refuses -O
    files = [path for path in (ROOT / "src").rglob("*.py") if not path.is_relative_to(checks)]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    assert not [path for path, text in texts.items() if re.search(r"^\s*assert ", text, re.MULTILINE)]


def test_the_wheel_imports_outside_the_source_tree(tmp_path):
    python("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("selmatch-*.whl")
    assert wheel.name == f"selmatch-{sm.__version__}-py3-none-any.whl"
    target = tmp_path / "target"
    python("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel)
    assert (target / "selmatch" / "py.typed").is_file()
    assert (target / f"selmatch-{sm.__version__}.dist-info" / "licenses" / "LICENSE").is_file()
    code = "import sys; sys.path.insert(0, sys.argv[1]); import selmatch; print(selmatch.__file__, selmatch.Exp()(0.0))"
    file, value = python("-I", "-c", code, target, cwd=tmp_path).split()
    assert Path(file).is_relative_to(target)
    assert float(value) == 1.0


README_LOSSES = re.findall(r"`(sm\.MatchingLoss\(.*\))` \|$", (ROOT / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", README_LOSSES)
def test_each_line_of_the_table_in_the_readme_makes_a_loss(line):
    loss = eval(line, {"sm": sm})
    assert loss([1.0, 7.0], [0.5, 5.0]) > 0


WISHES = re.search(r"^\| You want to \| Write \|\n(?:\|.*\n)+", (ROOT / "README.md").read_text(), re.MULTILINE)
README_CALLS = re.findall(r"`((?:sm\.|loss\.|print).*?\))`", WISHES[0] if WISHES else "")


def test_each_call_of_the_readme_works(tmp_path, monkeypatch):
    assert len(README_CALLS) >= 9
    monkeypatch.chdir(tmp_path)
    y = np.random.default_rng(0).lognormal(size=50)
    names = {"sm": sm, "y": y, "loss": sm.focus("high", data=y), "curve": sm.Sinh(), "z": 1.0}
    for call in README_CALLS:
        eval(call, dict(names))


def test_the_readme_has_its_table():
    assert len(README_LOSSES) >= 5


def test_show_versions_names_the_library_and_what_is_installed(capsys):
    sm.show_versions()
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["selmatch"] == sm.__version__
    assert {"python", "platform", "numpy"} <= set(rows)


PICTURES = [
    sm.Sigmoid().affine(alpha=2.0, beta=1.5),
    sm.Sinh(),
    sm.Tan(),
    sm.Logit(),
    sm.Step(),
    sm.Constant(1.0),
    sm.Exp() + 2.0 * sm.Identity(),
    sm.CompositeSigmoid(sm.Sinh()),
    sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0)),
    sm.MatchingLoss(sm.Exp()),
]


@pytest.mark.parametrize("drawn", PICTURES, ids=repr)
def test_the_picture_is_well_formed_and_says_what_it_shows(drawn):
    figure = ElementTree.fromstring(drawn._repr_html_())
    assert figure.find(".//code").text in repr(drawn)
    namespace = "{http://www.w3.org/2000/svg}"
    lines = figure.findall(f".//{namespace}polyline")
    assert len(lines) >= 2
    assert all(abs(float(number)) < 1e4 for line in lines for number in line.get("points").replace(",", " ").split())


def test_what_has_no_single_curve_is_shown_by_its_name_alone():
    loss = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Exp()}))
    assert ElementTree.fromstring(loss._repr_html_()).tag == "code"
