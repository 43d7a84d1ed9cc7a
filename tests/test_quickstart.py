"""The quick-start notebook runs as it stands, and what it is stored with is what it shows."""

import json
import re
import warnings
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def stored():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the machinery of notebooks, which is not ours
        import nbformat
        from nbclient import NotebookClient

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        folder = str(tmp_path_factory.mktemp("notebook"))
        NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    assert list(Path(folder).iterdir()) == []
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(cell):
    """What a cell printed, without numbers: those of trained models may differ from one machine to the next."""
    texts = ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
    return re.sub(r"[-+]?\d[\d.,e+-]*", "#", "".join(texts))


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell["outputs"])


def test_it_runs_and_shows_what_it_is_stored_with(stored, executed):
    for kept, new in zip(code_cells(stored), code_cells(executed), strict=True):
        assert text_of(kept) == text_of(new)
        assert pictures(kept) == pictures(new)
    assert sum(map(pictures, code_cells(stored))) == 3


def test_every_cell_is_stored_executed_without_warnings(stored):
    for cell in code_cells(stored):
        assert cell["execution_count"]
        assert all(output.get("name") != "stderr" for output in cell["outputs"])
    assert [cell["execution_count"] for cell in code_cells(stored)] == list(range(1, len(code_cells(stored)) + 1))


def test_it_is_small_and_knows_no_machine(stored):
    assert NOTEBOOK.stat().st_size < 300_000
    words = json.dumps(
        [[cell["source"], *map(text_of, [cell] if "outputs" in cell else [])] for cell in stored["cells"]]
    )
    assert not re.search(r"/(home|root|tmp|work|Users)/|https?://", words)


def test_its_links_lead_to_pages(stored):
    text = "".join("".join(cell["source"]) for cell in stored["cells"] if cell["cell_type"] == "markdown")
    pages = set(re.findall(r"\]\((\w+\.md)\)", text))
    assert len(pages) >= 6
    assert [page for page in sorted(pages) if not (NOTEBOOK.parent / page).exists()] == []
