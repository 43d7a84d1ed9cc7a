"""The GPU kernels without a GPU: by Triton's interpreter, and compiled ahead of time for three generations of GPUs."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction

import selmatch as sm
from conftest import LINKS, SOFTMAXES
from selmatch.kernels import operators, selftest
from selmatch.kernels.emit import NotCompilable
from selmatch.kernels.gpu import emission, forms

# of NumPy, in branches not taken
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning:triton")
CHECKS = list(selftest.checks("interpreter"))


@pytest.fixture(scope="module", autouse=True)
def prepare_the_language_once_per_launch():
    """Triton's interpreter prepares its language again for each call inside a kernel, which is half of its time."""
    prepare = interpreter._patch_lang
    everything = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", lambda kernel: prepare(everything))
        patch.setattr(InterpretedFunction, "__call__", lambda self, *args, **kwargs: self.rewrite()(*args, **kwargs))
        yield


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_kernels_agree_with_the_losses(check):
    torch.manual_seed(0)
    check.function("cpu", check.sizes)


def test_a_failing_check_is_reported(caplog):
    def wrong(device, sizes):
        raise AssertionError("off by 7")

    right = next(check for check in CHECKS if check.name == "elementwise few_scores")
    with caplog.at_level("INFO"):
        assert selftest.run([selftest.Check("wrong", wrong, {}), right], "cpu") == ["wrong"]
    assert "off by 7" in caplog.text


def test_checks_are_not_run_without_their_assertions(monkeypatch, capsys):
    monkeypatch.setattr(selftest.sys, "flags", SimpleNamespace(optimize=1))
    with pytest.raises(SystemExit):
        selftest.main(["--only", "nothing"])
    assert "python -O leaves out" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------- forms


def test_potentials_that_differ_in_parameters_share_a_form():
    def form(alpha, gamma):
        return forms.key_of(sm.CompositeSoftmax(sm.Sinh().affine(alpha=alpha, beta=alpha), gamma=gamma))

    assert form(0.5, 1.0) == form(2.0, 3.0)
    assert form(0.5, 1.0) != forms.key_of(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5)))
    assert forms.key_of(sm.SmeLU(c=1.0)) != forms.key_of(sm.SmeLU(c=2.0))  # a number that shapes the formula


def test_parameters_come_in_the_order_of_the_tree():
    potential = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5, beta=-1.0), gamma=2.0, rho=(1.0, 3.0), anchor=4.0)
    assert list(emission.parameters(potential)) == [0.5, -1.0, 1.0, 2.0, 1.0, 3.0, 4.0]
    values = iter(range(7))
    again = emission.with_parameters(potential, values)
    assert (again.gamma, again.rho, again.anchor, again.scaling.gain) == (3, (4, 5), 6, 2)


def test_every_curve_has_kernels_or_says_why_not():
    without = {}
    for potential in (*LINKS, *SOFTMAXES):
        try:
            forms.module_of(forms.key_of(potential))
        except NotCompilable as error:
            without[type(potential).__name__] = str(error)
    assert list(without) == ["Inverse"]  # a search, unrolled
    assert "operations" in without["Inverse"]


class OnlyAFormula(sm.Curve):
    def __call__(self, x):
        return x + sm.functions.tanh(x)


def test_quadrature_stays_with_pytorch(caplog):
    with caplog.at_level("INFO"):
        assert operators.form_of(OnlyAFormula()) is None
        assert operators.form_of(sm.CompositeSoftmax(OnlyAFormula())) is None
    assert "quadrature" in caplog.text


class WithClosedForms(sm.Curve):
    """The cubic, as a user would write it."""

    increasing = True

    def __call__(self, x):
        return x * x * x

    def primitive(self, x):
        return 0.25 * sm.functions.square(x * x)

    def difference(self, x, u):
        return u * (3.0 * x * x + 3.0 * x * u + u * u)

    def remainder(self, x, u):
        return sm.functions.square(u) * (1.5 * x * x + x * u + 0.25 * u * u)


def test_a_curve_of_the_users_own_has_kernels():
    from selmatch.kernels.checks import elementwise, rows

    s_hat, s = rows.pair(3, 20, "cpu", 0.5)
    potential = sm.CompositeSoftmax(WithClosedForms())
    rows.assert_right("own", potential, s_hat, s, rows.run(potential, s_hat, s))
    found = elementwise.run(WithClosedForms(), s_hat.flatten(), s.flatten())
    elementwise.assert_right("own", found, WithClosedForms(), s_hat.flatten(), s.flatten())


def test_a_form_is_found_again_by_its_key(tmp_path, monkeypatch):
    key = forms.key_of(sm.CompositeSoftmax(sm.Tanh()))
    monkeypatch.setenv("SELMATCH_CACHE", str(tmp_path))
    monkeypatch.delitem(forms._modules, key, raising=False)
    forms.module_of(key)
    assert [path.name for path in tmp_path.glob("kernel_*.py")] == [f"kernel_{key}.py"]
    monkeypatch.delitem(forms._modules, key)
    monkeypatch.delitem(forms._texts, key)
    assert forms.module_of(key).FORM["kind"] == "rows"
    monkeypatch.delitem(forms._modules, key)
    next(tmp_path.glob("kernel_*.py")).unlink()
    with pytest.raises(RuntimeError, match="must be in the cache folder"):
        forms.module_of(key)


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SELMATCH_CACHE", str(tmp_path / "file"))
    key = forms.key_of(sm.CompositeSoftmax(sm.Arctan()))
    monkeypatch.delitem(forms._modules, key, raising=False)
    assert hasattr(forms.module_of(key), "long_rows")


def test_many_processes_may_write_one_form(tmp_path):
    code = (
        "import selmatch as sm\nfrom selmatch.kernels.gpu import forms\n"
        "print(forms.module_of(forms.key_of(sm.CompositeSoftmax(sm.Sinh()))).FORM['kind'])"
    )
    environment = {**os.environ, "SELMATCH_CACHE": str(tmp_path)}

    def run(_):
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    with ThreadPoolExecutor(3) as pool:
        assert [done.stdout.strip() for done in pool.map(run, range(3))] == 3 * ["rows"]
    assert len(list(tmp_path.glob("kernel_*.py"))) == 1
    assert not list(tmp_path.glob("*.tmp"))


def test_a_curve_and_its_sum_over_outputs_have_forms_of_their_own(monkeypatch):
    from selmatch.torch import MatchingLoss

    monkeypatch.setattr(operators, "interpreted", True)
    z = torch.randn(2, 3)
    single = MatchingLoss(sm.Sinh(), kernels=True, reduction="none")
    summed = MatchingLoss(sm.Separable(sm.Sinh()), kernels=True, reduction="none")
    assert single(z, 0.0 * z).shape == (2, 3)
    assert summed(z, 0.0 * z).shape == (2,)


def test_gradients_of_weights_are_left_to_pytorch(monkeypatch):
    from selmatch.torch import MatchingLoss

    monkeypatch.setattr(operators, "interpreted", True)
    z, weights = torch.randn(4, requires_grad=True), torch.ones(4, requires_grad=True)
    MatchingLoss(sm.Sinh())(z, torch.zeros(4), weights=weights, reduction="sum").backward()
    assert weights.grad is not None
    with pytest.raises(RuntimeError, match="weights, or the number of items, are trained"):
        MatchingLoss(sm.Sinh(), kernels=True)(z, torch.zeros(4), weights=weights)


def test_a_number_as_observed_score_is_not_rounded(monkeypatch):
    from selmatch.torch import MatchingLoss

    monkeypatch.setattr(operators, "interpreted", True)
    z = torch.tensor([3.0], dtype=torch.bfloat16)
    one, other = (MatchingLoss(sm.Sinh(), kernels=kernels)(z, 0.1) for kernels in (True, False))
    torch.testing.assert_close(one, other, rtol=1e-5, atol=0.0)


def test_rho_must_have_the_length_of_the_rows():
    from selmatch.kernels.gpu import launch

    potential = sm.CompositeSoftmax(sm.Exp(), rho=(1.0, 2.0, 3.0))
    z, one = torch.zeros(2, 4), torch.ones(1)
    numbers = torch.tensor(list(emission.parameters(potential)))
    with pytest.raises(ValueError, match="must have 3 classes"):
        launch.rows(forms.key_of(potential), z, z, numbers, one, None, None, False)
    with pytest.raises(ValueError, match="4 parameters, got 3 and 2"):
        launch.rows(forms.key_of(potential), z[:, :3], z[:, :3], numbers[:2], one, None, None, False)


# ---------------------------------------------------------------------------------------------------------------- when


def test_kernels_are_for_gpus_only():
    form = operators.form_of(sm.Sigmoid())
    z = torch.zeros(3)
    assert "not on a GPU" in operators.refusal(form, z, z, torch.zeros(1))
    assert "there are none" in operators.refusal(None, z, z, torch.zeros(1))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"s_hat": torch.zeros(3, dtype=torch.float64)}, "single or half precision"),
        ({"numbers": torch.ones(1, requires_grad=True)}, "trained"),
        ({"s": torch.zeros(4)}, "different shapes"),
    ],
)
def test_kernels_say_why_they_do_not_apply(change, reason, monkeypatch):
    monkeypatch.setattr(operators, "interpreted", True)
    given = {"s_hat": torch.zeros(3), "s": torch.zeros(3), "numbers": torch.zeros(1)}
    form = operators.form_of(sm.Sigmoid())
    assert operators.refusal(form, **given) is None
    assert reason in operators.refusal(form, **{**given, **change})


def test_transformations_are_left_to_pytorch(monkeypatch):
    monkeypatch.setattr(operators, "interpreted", True)
    form, found = operators.form_of(sm.Sigmoid()), []

    def look(z):
        found.append(operators.refusal(form, z, z, torch.zeros(1)))
        return z

    torch.func.vmap(look)(torch.zeros(2, 3))
    with torch.autograd.forward_ad.dual_level():
        look(torch.zeros(3))
    assert "torch.func" in found[0]
    assert "forward-mode" in found[1]


# ------------------------------------------------------------------------------------------------------ ahead of time


@pytest.mark.parametrize(
    "generation", ["90", pytest.param("80", marks=pytest.mark.slow), pytest.param("100", marks=pytest.mark.slow)]
)
def test_kernels_compile_for_three_generations(generation, tmp_path):
    """Without the interpreter, which would not notice code that a GPU cannot run."""
    environment = {**os.environ, "SELMATCH_CACHE": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    del environment["TRITON_INTERPRET"]
    script = Path(__file__).parent / "ahead_of_time.py"
    done = subprocess.run([sys.executable, str(script), generation], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compiled = done.stdout.split()
    assert {line.rpartition(":")[2] for line in compiled} == {generation}
    assert {line.partition(":")[0] for line in compiled} >= {
        "long_rows",
        "short_rows",
        "sparse_rows",
        "scored",
        "rows_times",
        "entries_times",
    }
