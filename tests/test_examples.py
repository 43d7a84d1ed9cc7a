"""The examples run, print what they measured, and say no more than that."""

import contextlib
import functools
import importlib.util
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

FOLDER = Path(__file__).parent.parent / "examples"
APPLICATIONS = ("ranking", "retrieval", "distillation", "preferences", "dwell_time")


def load(name):
    """A script as a module; those of its folder find each other."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(FOLDER))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


@pytest.fixture(scope="module")
def experiment():
    return load("experiment")


# ------------------------------------------------------------------------------------------------- the scripts, quickly


@functools.cache
def quick_run(name):
    """A script, what it returns for two small runs, and what it prints."""
    module, printed = load(name), io.StringIO()
    with contextlib.redirect_stdout(printed):
        results = module.main(["--quick"])
    return module, results, printed.getvalue()


@pytest.fixture(params=APPLICATIONS)
def quick(request):
    return quick_run(request.param)


def test_a_script_measures_every_loss(quick):
    module, results, _ = quick
    assert len(results.seeds) == 2
    assert results.selective
    assert set(module.USUAL) < set(results.losses)
    for loss in results.losses:
        for measure in module.MEASURES:
            assert np.isfinite(results.values(loss, measure)).all(), (loss, measure)


def test_seeds_differ(quick):
    _, results, _ = quick
    first, second = (scores[results.losses[0]] for scores in results.seeds)
    assert first != second


def test_a_script_prints_its_table_and_what_follows(quick):
    module, results, printed = quick
    assert module.__doc__ in printed
    assert results.table() in printed
    for loss in results.losses:
        assert re.search(rf"^{re.escape(loss)} +-?\d", printed, re.MULTILINE), loss
    for measure in module.MEASURES:
        assert f"{measure.name}, against {results.best_usual(measure)}:" in printed


def test_a_stored_teacher_is_as_good_as_a_full_one():
    _, results, _ = quick_run("distillation")
    for measure in results.measures:
        full, stored = (results.values(loss, measure) for loss in ("selective, much", "selective, stored"))
        np.testing.assert_allclose(stored, full, rtol=1e-3)


# ------------------------------------------------------------------------------------------------------ what they share


@pytest.fixture
def results(experiment):
    measures = (experiment.Measure("gain"), experiment.Measure("error", higher_is_better=False, digits=1))
    rng = np.random.default_rng(0)
    seeds = tuple(
        {
            "poor": {"gain": 1.0 + noise, "error": 9.0 + noise},
            "usual": {"gain": 2.0 + noise, "error": 5.0 + noise},
            "ours": {"gain": 3.0 + noise + 0.1 * own, "error": 6.0 + noise + 0.1 * own},
            "like it": {"gain": 2.0 + noise + own, "error": 5.0 + noise + own},
        }
        for noise, own in rng.normal(size=(8, 2))
    )
    return experiment.Results(measures, ("poor", "usual"), seeds)


def test_the_opponent_is_the_best_usual_loss(results):
    assert [results.best_usual(measure) for measure in results.measures] == ["usual", "usual"]


def test_intervals_are_those_of_paired_differences(results):
    gain = results.measures[0]
    found = results.difference("ours", "usual", gain)
    paired = stats.ttest_rel(results.values("ours", gain), results.values("usual", gain)).confidence_interval(0.95)
    np.testing.assert_allclose((found.low, found.high), paired, rtol=1e-12)
    assert found.mean == pytest.approx(0.5 * (found.low + found.high))


def test_verdicts_know_which_way_is_better(results):
    gain, error = results.measures
    assert results.verdict("ours", gain) == "better"
    assert results.verdict("ours", error) == "worse"
    assert results.verdict("like it", gain) == "no clear difference"


def test_marks_stand_behind_clear_differences(results):
    lines = {line.split("  ")[0]: line for line in results.table().splitlines()[1:]}
    assert re.fullmatch(r"ours +\S+ ±\S+ \+ +\S+ ±\S+ !", lines["ours"])
    assert re.fullmatch(r"usual +\S+ ±\S+ \* +\S+ ±\S+ \*", lines["usual"])
    assert not re.search(r"[*+!]", lines["like it"])


def test_one_seed_is_refused(experiment, capsys):
    with pytest.raises(SystemExit):
        experiment.run("", lambda seed, quick: {}, (), (), seeds=3, argv=["--seeds", "1"])
    assert "--seeds must be at least 2, got 1." in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------------- what is said


@pytest.fixture(scope="module")
def read_me():
    return (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_script_is_in_the_read_me(read_me):
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"experiment"}
    assert {name for name in scripts if f"{name}.py" in read_me} == scripts == {"tour", *APPLICATIONS}


def test_tables_of_the_read_me_have_the_rows_and_columns_of_the_scripts(quick, read_me):
    module, results, _ = quick
    name = module.__name__.removeprefix("examples_")
    (table,) = re.findall(rf"## [^\n]*`{name}\.py`.*?```text\n(.*?)```", read_me, re.DOTALL)
    heading, *rows = table.splitlines()
    assert re.split(r"  +", heading.strip()) == re.split(r"  +", results.table().splitlines()[0].strip())
    assert [re.split(r"  +", row)[0] for row in rows] == list(results.losses)


@pytest.mark.slow
def test_a_smelu_is_better_where_visits_matter_and_worse_where_not():
    results = load("dwell_time").main(["--seeds", "5"])
    matters, _, _, _, outside = results.measures
    assert results.verdict("selective, SmeLU", matters) == "better"
    assert results.verdict("selective, SmeLU", outside) == "worse"


@pytest.mark.slow
def test_selective_losses_retrieve_more_than_squared_error_and_no_more_than_softmax():
    results = load("retrieval").main(["--seeds", "2"])
    recall = results.measures[1]
    for loss in results.selective:
        assert results.values(loss, recall).mean() > 1.5 * results.values("squared error", recall).mean()
    assert results.best_usual(recall) == "softmax"
