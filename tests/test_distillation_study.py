"""The study of losses for distillation, tiny: every loss is tuned and judged alike, tables say what was measured."""

import contextlib
import importlib.util
import io
import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from selmatch import distillation

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "distillation.py"


def sentences(count):
    """Text with something to learn: who does what to whom."""
    random = np.random.default_rng(0)
    who, does, how = ["the cat", "a lobster", "our teacher"], ["sees", "follows", "helps"], ["slowly", "at noon", ""]
    lines = [
        f"{random.choice(who)} {random.choice(does)} {random.choice(who)} {random.choice(how)} ." for _ in range(count)
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "sentences.txt").write_text(sentences(350))
    (folder / "README.md").write_text("No text to learn from.")
    return folder


@pytest.fixture(scope="module")
def study():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("distillation_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def run(study, *options):
    """What the script prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        study.main(list(map(str, options)))
    return printed.getvalue()


@pytest.fixture(scope="module")
def path(study, corpus, tmp_path_factory):
    """The JSON of a whole study."""
    path = tmp_path_factory.mktemp("study") / "study.json"
    assert "### Differences to forward KL" in run(study, "--quick", "--corpus", corpus, "--out", path)
    return path


@pytest.fixture(scope="module")
def report(path):
    return json.loads(path.read_text())


# -------------------------------------------------------------------------------------------------------- equal budgets


def test_every_loss_gets_the_same_rates_and_seeds(report):
    losses = list(report["losses"])
    assert len(losses) == len(set(losses)) == 17
    rates, seeds = report["sizes"]["rates"], report["sizes"]["seeds"]
    assert [(r["loss"], r["rate"]) for r in report["tuning"]] == [(loss, rate) for loss in losses for rate in rates]
    assert [(r["seed"], r["loss"]) for r in report["runs"]] == [(seed, loss) for seed in seeds for loss in losses]
    assert {r["seed"] for r in report["tuning"]}.isdisjoint(seeds)


def test_rates_are_the_best_by_the_loss_itself(report):
    for loss in report["losses"]:
        tried = {r["own"]: r["rate"] for r in report["tuning"] if r["loss"] == loss}
        assert {r["rate"] for r in report["runs"] if r["loss"] == loss} == {tried[min(tried)]}


def test_measures_are_possible_numbers(report):
    for r in report["tuning"] + report["runs"]:
        m = r["measures"]
        assert 1.0 < m["perplexity"] < 10 * report["vocabulary"]
        assert m["kl"] > 0.0
        assert m["kl_best"] > 0.0
        assert 0.0 <= m["top1"] <= 100.0
        assert 0.0 <= m["top5"] <= 100.0
        assert -1.0 <= m["kendall"] <= 1.0
        assert -1.0 <= m["spearman"] <= 1.0


def test_a_teacher_beats_blind_guesses(report):
    assert report["teacher"]["test"] < 0.5 * report["vocabulary"]
    assert report["teacher"]["step"] > 0


def test_a_run_again_is_the_same_run(study, corpus, report, tmp_path):
    """Start, batches and dropout depend on the seed alone, not on the runs before."""
    options = study.argparse.Namespace(corpus=corpus, out=tmp_path / "again.json", deadline=1e6)
    again = study.Study(options, study.QUICK, study.time.monotonic())
    again.steps = report["steps"]
    for objective in (x for x in again.objectives if x.name in ("forward KL", "SmeLU, share 0.7")):
        before = next(r for r in report["runs"] if (r["loss"], r["seed"]) == (objective.name, 2))
        found = again.run(objective, before["rate"], seed=2)
        assert found.own == pytest.approx(before["own"], rel=1e-5)
        assert found.measures == pytest.approx(before["measures"], rel=1e-4)


def test_no_student_begins_after_the_deadline(study, corpus, tmp_path):
    out = tmp_path / "late.json"
    printed = run(study, "--quick", "--corpus", corpus, "--deadline", 0, "--out", out)
    assert "No seed was finished." in printed
    assert json.loads(out.read_text())["tuning"] == []


def test_a_corpus_must_have_text(study, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must hold \.txt or \.txt\.gz files"):
        study.main(["--quick", "--corpus", str(tmp_path)])


def test_something_must_be_asked_for(study, capsys):
    with pytest.raises(SystemExit):
        study.main([])
    assert "--corpus or --markdown must be given" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------- vocabulary


def test_tokens_of_a_text_are_the_text(study):
    words = study.re.findall(r" ?\w+|\W", sentences(20))
    pairs = study.BytePairs(Counter(words), 60)
    assert len(pairs.tokens) == 60
    assert "".join(pairs.tokens[i] for word in words for i in pairs.encode(word)) == "".join(words)
    assert any(len(pairs.encode(word)) == 1 for word in words if len(word) > 3)


def test_frequent_pairs_are_joined_first(study):
    # "ab" five times; then "abc" three times, against two of "xy"
    pairs = study.BytePairs(Counter({"abc": 3, "ab": 2, "xy": 2}), 1 + 5 + 3)
    assert pairs.tokens[6:] == ["ab", "abc", "xy"]
    assert [pairs.tokens[i] for i in pairs.encode("xabcab")] == ["x", "abc", "ab"]
    assert pairs.encode("?") == [0]


def test_a_vocabulary_holds_all_characters(study):
    with pytest.raises(ValueError, match="size must be >= 4"):
        study.BytePairs(Counter({"abc": 1}), 3)


def test_targets_are_the_tokens_that_come_next(study, corpus):
    windows, _ = study.read_corpus(corpus, study.QUICK)
    for part in windows.values():
        assert torch.equal(part.inputs.flatten()[1:], part.targets.flatten()[:-1])
        assert part.inputs.shape[1] == study.QUICK.context


# ------------------------------------------------------------------------------------------------------------- measures


def test_divergences_are_those_of_the_library(study):
    x, y = torch.randn(2, 3, 4, 50, generator=torch.Generator().manual_seed(5))
    for name in ("forward_kl", "reverse_kl", "jensen_shannon"):
        s_hat = x.clone().requires_grad_()
        (found, expected) = (getattr(rows, name)(s_hat, y) for rows in (study, distillation))
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(value, s_hat)[0] for value in (found, expected)))
    torch.testing.assert_close(study.forward_kl(x, y, 2.0), distillation.forward_kl(x, y, temperature=2.0))


def test_rank_correlations_are_those_of_scipy(study):
    x, y = np.random.default_rng(1).normal(size=(2, 5, 10))
    rows = list(zip(x, y, strict=True))
    kendall = np.mean([scipy.stats.kendalltau(a, b).statistic for a, b in rows])
    spearman = np.mean([scipy.stats.spearmanr(a, b).statistic for a, b in rows])
    assert study.kendall(torch.tensor(x), torch.tensor(y)).item() == pytest.approx(kendall, abs=1e-6)
    assert study.spearman(torch.tensor(x), torch.tensor(y)).item() == pytest.approx(spearman, abs=1e-6)


def test_the_teacher_agrees_with_itself(study, corpus):
    windows, classes = study.read_corpus(corpus, study.QUICK)
    model = study.new_model(study.QUICK.student, classes, study.QUICK, seed=3)
    found = study.evaluated(model, study.Teacher(model, windows["test"], classes, study.QUICK), study.QUICK)
    expected = {"kl": 0.0, "kl_best": 0.0, "top1": 100.0, "top5": 100.0, "spearman": 1.0, "kendall": 1.0}
    del found["perplexity"]
    assert found == pytest.approx(expected, abs=1e-5)


def test_intervals_are_those_of_student(study):
    values = [1.0, 2.5, 2.0, 3.0, 0.5]
    mean, half = study.interval(values)
    low, high = scipy.stats.t.interval(0.95, 4, np.mean(values), scipy.stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high), rel=1e-3)
    assert math.isnan(study.interval([1.0])[1])


def test_gamma_gives_the_best_classes_their_share(study):
    scores = torch.randn(64, 300, generator=torch.Generator().manual_seed(4)) * 2.0
    stored = study.TopKTeacher.from_scores(scores, 16)
    scaling = study.sm.Exp().affine(alpha=0.25)
    softmax = study.sm.CompositeSoftmax(scaling, gamma=study.gamma_for_best(scaling, stored))
    assert study.weight_of_best(softmax, stored) == pytest.approx(0.9, abs=0.01)


# --------------------------------------------------------------------------------------------------------------- tables


def runs_of(study, loss, perplexities, kendalls):
    measures = {name: 0.0 for name, *_ in study.MEASURES}
    return [
        study.Run(loss, seed, 0.01, 1.0, 0.5, measures | {"perplexity": x, "kendall": y})
        for seed, (x, y) in enumerate(zip(perplexities, kendalls, strict=True), start=1)
    ]


def test_better_is_bold_and_worse_is_italic(study):
    usual = runs_of(study, "forward KL", (40.0, 50.0, 60.0), (0.50, 0.60, 0.70))
    other = runs_of(study, "other", (41.0, 51.1, 61.0), (0.60, 0.71, 0.80))
    line = study.differences_table({"forward KL": usual, "other": other}).splitlines()[-1]
    assert "| *+1.03 ± 0.14* |" in line
    assert line.endswith("| **+0.1033 ± 0.0143** |")
    assert "| +0.0000 ± 0.0000 |" in line


def test_rates_at_an_end_of_the_grid_are_marked(study):
    assert [study.rate_cell(rate, [0.1, 0.2, 0.3]) for rate in (0.1, 0.2, 0.3)] == ["≤0.1", "0.2", "≥0.3"]


def test_only_seeds_of_all_losses_are_compared(study):
    usual, other = (runs_of(study, loss, (1.0, 2.0), (0.1, 0.2)) for loss in ("forward KL", "other"))
    found = study.by_loss([*usual, other[0]], ["forward KL", "other", "never run"])
    assert {loss: [run.seed for run in runs] for loss, runs in found.items()} == {"forward KL": [1], "other": [1]}


def test_tables_go_between_the_marks_of_a_page(study, path, report, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- study -->\nformer text\n<!-- end -->\nbelow\n")
    run(study, "--markdown", path, "--into", page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("above\n<!-- study -->\n")
    assert text.endswith("<!-- end -->\nbelow\n")
    assert "former text" not in text
    for loss in report["losses"]:
        assert text.count(f"\n| {loss} |") == (2 if loss == "forward KL" else 3)
    page.write_text("no marks")
    with pytest.raises(ValueError, match="must have the marks"):
        run(study, "--markdown", path, "--into", page)
