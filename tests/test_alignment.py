"""Preference losses: the libraries they come from, links and targets of one's own, reward models, lists, a monitor."""

import importlib
import math
import pickle
import subprocess
import sys
import warnings
from collections import defaultdict
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import selmatch as sm
from selmatch.alignment import (
    Displacement,
    PreferenceLoss,
    conservative_dpo,
    displacement,
    dpo,
    hinge,
    ipo,
    listwise_preference,
    log_ratio_margins,
    reward_loss,
    selective,
)
from selmatch.ranking import listwise

ALL = {
    "dpo": dpo(),
    "dpo with offset": dpo(0.5),
    "conservative dpo": conservative_dpo(0.1),
    "ipo": ipo(0.3),
    "hinge": hinge(),
    "selective": selective(),
    "tanh": selective(sm.Tanh(), target_margin=0.5, one_sided=False),
    "shifted": PreferenceLoss(sm.Sigmoid().affine(alpha=2.0, beta=1.0), target=0.7),
}
#: off the kinks of all these losses
MARGINS = np.array([-7.3, -2.1, -0.4, 0.2, 0.7, 1.3, 2.6, 5.9])


def close(ours, theirs, **tolerances):
    """Equal up to rounding in single precision."""
    options = {"rtol": 2e-6, "atol": 1e-7, **tolerances}
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), **options)


def value_and_gradients(function, *leaves):
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    value = function(*leaves)
    return [value.detach(), *torch.autograd.grad(value.sum(), leaves)]


# ------------------------------------------------------------------------------------------------- what TRL computes

PAIRS, TOKENS, PROMPT = 6, 9, 3
#: DPOTrainer says nothing of its numbers when they are not gathered from other processes
ALONE = SimpleNamespace(device=torch.device("cpu"), gather=lambda x: x, gather_for_metrics=lambda x: x)


@pytest.fixture(scope="module")
def trl():
    """TRL's trainers."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        homes = {
            "DPOTrainer": "trl.trainer.dpo_trainer",
            "RewardTrainer": "trl.trainer.reward_trainer",
            "CPOTrainer": "trl.experimental.cpo.cpo_trainer",
        }
        return SimpleNamespace(**{name: getattr(importlib.import_module(home), name) for name, home in homes.items()})


@pytest.fixture
def batch():
    """Per-token log-probabilities of pairs, chosen answers first, with answers of different lengths."""
    generator = torch.Generator().manual_seed(3)
    ends = torch.randint(PROMPT + 1, TOKENS + 1, (2 * PAIRS, 1), generator=generator)
    position = torch.arange(TOKENS)[None]
    mask = (position >= PROMPT) & (position < ends)
    log_probs = -3.0 * torch.rand(2 * PAIRS, TOKENS - 1, generator=generator) * mask[:, 1:]
    reference = -3.0 * torch.rand(2 * PAIRS, TOKENS - 1, generator=generator) * mask[:, 1:]
    return SimpleNamespace(
        log_probs=log_probs,
        mask=mask.long(),
        reference=reference.sum(1).chunk(2),
        lengths=mask.sum(1).chunk(2),
    )


def trl_dpo(trl, batch, loss_type, beta, label_smoothing=0.0, pairs=slice(None)):
    """TRL's own lines on given log-probabilities: a function of them."""

    def loss(log_probs):
        outputs = SimpleNamespace(
            log_probs=log_probs,
            entropy=torch.zeros_like(log_probs),
            mean_logits=torch.zeros_like(log_probs),
            is_top1=torch.zeros_like(log_probs, dtype=torch.bool),
        )
        trainer = SimpleNamespace(
            model=SimpleNamespace(training=True), accelerator=ALONE, aux_loss_enabled=False, ld_alpha=None,
            precompute_ref_logps=True, f_divergence_type="reverse_kl", loss_types=[loss_type], loss_weights=[1.0],
            beta=beta, label_smoothing=label_smoothing, use_weighting=False, _metrics=defaultdict(dict_of_lists),
            _total_train_tokens=0, _tp_size=1,
        )  # fmt: skip
        chosen, rejected = batch.mask.chunk(2)
        mask = torch.cat([chosen[pairs], rejected[pairs]])
        inputs = {
            "input_ids": torch.ones_like(mask),
            "attention_mask": torch.ones_like(mask),
            "completion_mask": mask,
            "ref_chosen_logps": batch.reference[0][pairs],
            "ref_rejected_logps": batch.reference[1][pairs],
        }
        return trl.DPOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, False)

    return loss


def dict_of_lists():
    return defaultdict(list)


def ours_on(batch, loss, beta, normalised=False):
    def value(log_probs):
        chosen, rejected = log_probs.sum(1).chunk(2)
        lengths = batch.lengths if normalised else None
        return loss(log_ratio_margins(chosen, rejected, *batch.reference, beta=beta, lengths=lengths))

    return value


@pytest.mark.parametrize("beta", [0.1, 0.7])
@pytest.mark.parametrize(
    ("loss_type", "loss", "scaled", "normalised"),
    [
        ("sigmoid", lambda beta: dpo(), True, False),
        ("hinge", lambda beta: hinge(), True, False),
        ("ipo", ipo, False, True),
        ("sigmoid_norm", lambda beta: dpo(), True, True),
    ],
)
def test_special_cases_are_the_losses_of_the_dpo_trainer(trl, batch, loss_type, loss, scaled, normalised, beta):
    ours = ours_on(batch, loss(beta), beta if scaled else 1.0, normalised)
    theirs = trl_dpo(trl, batch, loss_type, beta)
    mine, trls = value_and_gradients(ours, batch.log_probs), value_and_gradients(theirs, batch.log_probs)
    assert trls[0] > 0
    assert trls[1].abs().max() > 1e-3
    for a, b in zip(mine, trls, strict=True):
        close(a, b)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.4])
def test_conservative_dpo_is_that_of_the_dpo_trainer(trl, batch, label_smoothing):
    # TRL smooths labels in its sorted losses only, and one pair is sorted
    for i in range(PAIRS):
        one = batch.log_probs[[i, PAIRS + i]]
        theirs = trl_dpo(trl, batch, "aot", 0.5, label_smoothing, pairs=slice(i, i + 1))
        reference = [part[i : i + 1] for part in batch.reference]

        def ours(log_probs, reference=reference):
            chosen, rejected = log_probs.sum(1).chunk(2)
            return conservative_dpo(label_smoothing)(log_ratio_margins(chosen, rejected, *reference, beta=0.5))

        for a, b in zip(value_and_gradients(ours, one), value_and_gradients(theirs, one), strict=True):
            close(a, b)


@pytest.mark.parametrize(
    ("loss_type", "label_smoothing", "loss"),
    [
        ("sigmoid", 0.0, dpo()),
        ("sigmoid", 0.2, conservative_dpo(0.2)),
        ("hinge", 0.0, hinge()),
        ("ipo", 0.0, ipo(0.4)),
        ("simpo", 0.0, dpo(offset=0.6)),
    ],
)
def test_losses_without_reference_are_those_of_the_cpo_trainer(trl, loss_type, label_smoothing, loss):
    trainer = SimpleNamespace(
        alpha=0.0, beta=0.4, loss_type=loss_type, label_smoothing=label_smoothing, simpo_gamma=0.6, accelerator=ALONE
    )
    generator = torch.Generator().manual_seed(5)
    logps = [-8.0 * torch.rand(20, generator=generator) for _ in range(2)]
    theirs = value_and_gradients(lambda c, r: trl.CPOTrainer.cpo_loss(trainer, c, r)[0], *logps)
    beta = 1.0 if loss_type == "ipo" else 0.4
    ours = value_and_gradients(lambda c, r: loss(log_ratio_margins(c, r, beta=beta), reduction="none"), *logps)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, atol=5e-7)


@pytest.mark.parametrize("margin", [None, torch.tensor([0.3, 2.0, 0.0, 1.0])], ids=["plain", "margins"])
def test_reward_loss_is_that_of_the_reward_trainer(trl, margin):
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True), accelerator=ALONE, args=SimpleNamespace(center_rewards_coefficient=None),
        _metrics=defaultdict(dict_of_lists), _total_train_tokens=0, _tp_size=1,
    )  # fmt: skip
    rewards = torch.tensor([1.5, -2.0, 0.3, 4.0, 0.5, 1.0, 0.2, -3.0])

    def theirs(rewards):
        inputs = {"attention_mask": torch.ones(8, 3)} | ({} if margin is None else {"margin": margin})
        model = lambda **_: SimpleNamespace(logits=rewards[:, None])  # noqa: E731
        return trl.RewardTrainer.compute_loss(trainer, model, inputs)

    for loss in (None, dpo()):
        mine = value_and_gradients(lambda r, loss=loss: reward_loss(*r.chunk(2), loss, margins=margin), rewards)
        for a, b in zip(mine, value_and_gradients(theirs, rewards), strict=True):
            close(a, b)


def test_robust_dpo_is_refused_since_nothing_bounds_it_below(trl, batch):
    smoothing = 0.1
    robust_target = (1.0 - smoothing) / (1.0 - 2.0 * smoothing)
    theirs = trl_dpo(trl, batch, "robust", 1.0, smoothing)
    assert theirs(batch.log_probs + 40.0 * (torch.arange(2 * PAIRS) < PAIRS)[:, None]) < -10.0
    with pytest.raises(ValueError, match=r"PreferenceLoss: target must lie in .* got 1\.125"):
        PreferenceLoss(sm.Sigmoid(), target=robust_target)


# ----------------------------------------------------------------------------------------- what other libraries compute

BETA = 0.4
OF_TORCH = [
    (dpo(), lambda m: -F.logsigmoid(m)),
    (dpo(), lambda m: F.soft_margin_loss(m, torch.ones_like(m), reduction="none")),
    (
        conservative_dpo(0.2),
        lambda m: F.binary_cross_entropy_with_logits(m, torch.full_like(m, 0.8), reduction="none"),
    ),
    (ipo(BETA), lambda m: F.mse_loss(m, torch.full_like(m, 0.5 / BETA), reduction="none")),
    (hinge(), lambda m: F.margin_ranking_loss(m, 0.0 * m, torch.ones_like(m), margin=1.0, reduction="none")),
    (PreferenceLoss(2.0 * sm.Identity(), target_margin=1.0, one_sided=True), lambda m: F.relu(1.0 - m).square()),
    (
        PreferenceLoss(sm.Huber(c=2.0), target_margin=0.0),
        lambda m: F.huber_loss(m, 0.0 * m, reduction="none", delta=2.0),
    ),
]


@pytest.mark.parametrize("row", range(len(OF_TORCH)))
def test_special_cases_are_losses_of_pytorch(row):
    loss, theirs = OF_TORCH[row]
    margins = torch.tensor(np.concatenate([MARGINS, [-60.0, 60.0]]), dtype=torch.float32)
    ours = value_and_gradients(lambda m: loss(m, reduction="none"), margins)
    for a, b in zip(ours, value_and_gradients(theirs, margins), strict=True):
        # a soft label is reached where two numbers near 1 cancel
        close(a, b, atol=1e-30 if loss.conjugate else 1e-7)
    close(loss.grad(margins), ours[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "theirs"),
    [
        (dpo(), lambda m: optax.sigmoid_binary_cross_entropy(m, jnp.ones_like(m))),
        (conservative_dpo(0.2), lambda m: optax.sigmoid_binary_cross_entropy(m, jnp.full_like(m, 0.8))),
        (hinge(), lambda m: optax.hinge_loss(m, jnp.ones_like(m))),
        (ipo(BETA), lambda m: optax.squared_error(m, jnp.full_like(m, 0.5 / BETA))),
        (
            conservative_dpo(0.2),
            lambda m: jax.vmap(
                lambda x: optax.losses.make_fenchel_young_loss(lambda z: jax.nn.softplus(z[0]))(x, 0.8 + 0.0 * x)
            )(m[:, None]),
        ),
    ],
    ids=["dpo", "conservative", "hinge", "ipo", "fenchel-young"],
)
def test_special_cases_are_losses_of_optax(loss, theirs):
    margins = jnp.asarray(MARGINS, dtype=jnp.float32)
    close(loss(margins, reduction="none"), theirs(margins).reshape(-1), atol=2e-7)
    ours, others = (jax.grad(lambda m, f=f: f(m).sum())(margins) for f in (lambda m: loss(m, reduction="none"), theirs))
    close(ours, others, atol=2e-7)


# ------------------------------------------------------------------------------------------------------ links, targets


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_the_link_less_that_of_the_target(name, array):
    loss = ALL[name]
    reached = loss.link(loss.target_margin) if loss.target is None else loss.target
    inside = np.minimum(MARGINS, loss.target_margin) if loss.one_sided else MARGINS
    np.testing.assert_allclose(
        np.asarray(loss.grad(array(MARGINS))), loss.link(inside) - reached, rtol=1e-11, atol=1e-15
    )


@pytest.mark.parametrize("name", ALL)
def test_all_libraries_agree(name):
    loss = ALL[name]
    expected = [loss(MARGINS), loss.grad(MARGINS, reduction="mean")]
    tensor = torch.tensor(MARGINS, requires_grad=True)
    value = loss(tensor)
    np.testing.assert_allclose(value.item(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(torch.autograd.grad(value, tensor)[0], expected[1], rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(torch.func.vmap(loss)(tensor).detach(), loss(MARGINS, reduction="none"), rtol=1e-12)
    np.testing.assert_allclose(loss(jnp.asarray(MARGINS)), expected[0], rtol=1e-12)


@pytest.mark.parametrize("name", ["conservative dpo", "selective"])
def test_losses_compile_whole(name, compiled):
    loss = ALL[name]
    expected = [loss(MARGINS), loss.grad(MARGINS, reduction="mean")]
    tensor = torch.tensor(MARGINS, requires_grad=True)
    value = compiled(lambda m: loss(m))(tensor)
    np.testing.assert_allclose(value.item(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(torch.autograd.grad(value, tensor)[0], expected[1], rtol=1e-10, atol=1e-15)
    value, gradient = jax.jit(jax.value_and_grad(lambda m, loss: loss(m)))(jnp.asarray(MARGINS), loss)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-15)


@given(
    margins=st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=6),
    target=st.floats(0.05, 4.0),
    sharpness=st.floats(0.05, 3.0),
    one_sided=st.booleans(),
)
def test_selective_pulls_as_it_says(margins, target, sharpness, one_sided):
    cap = 4.0
    loss = selective(target_margin=target, sharpness=sharpness, cap=cap, one_sided=one_sided)
    m = np.sort(np.array(margins))
    values, slopes = loss(m, reduction="none"), loss.grad(m)
    assert (values >= 0.0).all()
    assert (np.diff(slopes) >= -1e-12 * np.abs(slopes).max(initial=1.0)).all()
    bound = 0.5 * (1.0 + math.sinh(sharpness * cap) / math.sinh(sharpness * target))
    assert (-slopes <= bound * (1.0 + 1e-12)).all()
    assert loss.grad(0.0) == pytest.approx(-0.5)
    assert loss(target) == 0.0
    beyond = m >= target
    assert (slopes[beyond] >= 0.0).all()
    if one_sided:
        assert (slopes[beyond] == 0.0).all()
        assert (values[beyond] == 0.0).all()


def test_selective_corrects_what_dpo_has_given_up_and_leaves_what_is_right():
    very_wrong, undecided, right = -5.0, 0.0, 3.0
    pull, usual = (-loss.grad(np.array([very_wrong, undecided, right])) for loss in (selective(), dpo()))
    assert pull[0] > 10.0 * usual[0]
    assert pull[1] == pytest.approx(usual[1])
    assert pull[2] == 0.0 < usual[2]


def test_each_pair_may_have_its_own_target(array):
    margins, targets = MARGINS[:4], np.array([0.5, 1.0, 2.0, 3.0])
    for loss in (ipo(0.3), selective(cap=5.0)):
        alone = [
            PreferenceLoss(loss.link, target_margin=t, one_sided=loss.one_sided)(m)
            for m, t in zip(margins, targets, strict=True)
        ]
        together = loss(array(margins), array(targets), reduction="none")
        np.testing.assert_allclose(np.asarray(together), alone, rtol=1e-12)
    soft = conservative_dpo(0.1)(array(margins), array([0.5, 0.6, 0.7, 1.0]), reduction="none")
    np.testing.assert_allclose(np.asarray(soft)[3], dpo()(margins[3]), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(soft)[0], 0.5 * (dpo()(margins[0]) + dpo()(-margins[0])), rtol=1e-12)


def test_masks_weights_and_counts_are_those_of_matching_losses(array):
    margins, mask = np.array([0.5, np.nan, -2.0, -np.inf]), np.array([True, False, True, False])
    values = dpo()(np.array([0.5, -2.0]), reduction="none")
    there = torch.tensor(mask) if isinstance(array(0.0), torch.Tensor) else mask
    close(dpo()(array(margins), where=there), values.mean(), rtol=1e-12)
    close(dpo()(array(margins), where=there, num_items=8), values.sum() / 8, rtol=1e-12)
    weighted = dpo()(array(margins), where=there, weights=array([1.0, 5.0, 3.0, 5.0]))
    close(weighted, (values @ [1.0, 3.0]) / 4.0, rtol=1e-12)
    close(dpo().grad(array(margins), where=there)[np.array([1, 3])], [0.0, 0.0], rtol=0)


def test_gradients_are_clean_behind_a_mask():
    logps = [torch.tensor([-3.0, math.nan, -math.inf], requires_grad=True) for _ in range(2)]
    mask = torch.tensor([True, False, False])
    margins = log_ratio_margins(*logps, where=mask)
    selective()(margins, where=mask).backward()
    assert torch.isfinite(logps[0].grad).all()
    assert logps[0].grad[0] < 0.0


def test_half_precision_is_computed_in_single():
    margins = torch.tensor([-3.0, 0.25, 2.0], dtype=torch.bfloat16)
    for loss in ALL.values():
        assert loss(margins).dtype is torch.float32
        close(loss(margins, reduction="none"), loss(margins.float(), reduction="none"), rtol=0)
    logps = log_ratio_margins(margins, -margins, margins, 2.0 * margins)
    assert logps.dtype is torch.float32


def test_targets_and_links_can_be_trained():
    target = torch.tensor(1.0, requires_grad=True)
    loss = PreferenceLoss(2.0 * sm.Identity(), target_margin=target)
    loss(torch.tensor([0.0, 3.0])).backward()
    assert target.grad.item() == pytest.approx(-1.0)
    slope = jax.grad(lambda loss: loss(jnp.array([0.0, 3.0])))(ipo(0.5))
    assert float(slope.target_margin) == pytest.approx(-1.0)
    alpha = torch.tensor(2.0, requires_grad=True)  # DPO, whose target margin is infinite
    PreferenceLoss(sm.Sigmoid().affine(alpha=alpha), target=1.0)(torch.tensor([0.0, 0.5])).backward()
    x = torch.tensor([0.0, 1.0])
    by_hand = -(torch.nn.functional.softplus(-x) + x * torch.sigmoid(-x)).mean() / 4.0
    assert alpha.grad.item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_a_preference_loss_is_a_value():
    assert dpo() == PreferenceLoss(sm.Sigmoid(), target=1.0)
    assert hash(ipo(0.1)) == hash(ipo(0.1))
    assert pickle.loads(pickle.dumps(selective())) == selective()
    for loss in ALL.values():
        assert eval(repr(loss), {**vars(sm), "PreferenceLoss": PreferenceLoss}) == loss
    high = sm.focus("high", data=np.linspace(-3.0, 3.0, 50))
    assert PreferenceLoss(high, target_margin=1.0).link == high.potential


def test_numbers_and_lists_give_python_numbers():
    assert type(dpo()(0.5)) is float
    assert type(selective()([0.5, 1.0])) is float
    assert type(ipo(0.1)([0.5], [2.0])) is float
    assert type(reward_loss([1.0], [2.0], margins=[0.5])) is float
    assert type(log_ratio_margins(-1.0, -2.0)) is float
    assert isinstance(dpo()(np.array([0.5])), np.float64)


def test_lists_go_with_the_library_of_the_others(array):
    margins, there, weights = np.array([0.5, -2.0, 1.0]), [True, False, True], [1.0, 2.0, 3.0]
    given, zeros = array(margins), array(np.zeros(3))
    results = {
        "targets": (
            conservative_dpo(0.1)(given, [0.5, 0.6, 0.7], where=there, weights=weights),
            conservative_dpo(0.1)(margins, np.array([0.5, 0.6, 0.7]), where=np.array(there), weights=np.array(weights)),
        ),
        "lengths": (
            log_ratio_margins(given, zeros, lengths=([1, 2, 4], [3, 4, 5])),
            log_ratio_margins(margins, np.zeros(3), lengths=(np.array([1, 2, 4]), np.array([3, 4, 5]))),
        ),
        "margins": (
            reward_loss(given, zeros, selective(), margins=[1.0, 2.0, 3.0], where=there),
            reward_loss(margins, np.zeros(3), selective(), margins=np.array([1.0, 2.0, 3.0]), where=np.array(there)),
        ),
        "where": (displacement(given, zeros, where=there).chosen_log_ratio, 0.75),
        "lists": (
            listwise_preference(given, [3.0, 1.0, 2.0], sm.Exp(), where=there),
            listwise_preference(margins, np.array([3.0, 1.0, 2.0]), sm.Exp(), where=np.array(there)),
        ),
    }
    for name, (ours, expected) in results.items():
        np.testing.assert_allclose(np.asarray(ours), expected, rtol=1e-12, err_msg=name)
    assert type(results["lengths"][0]) is type(given)


def test_illegal_targets_may_stand_behind_a_mask():
    margins, targets, there = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 1.2]), torch.tensor([True, False])
    close(dpo()(margins, targets, where=there), dpo()(1.0, 0.5))


def test_numbers_beside_tensors_compile_whole(compiled):
    chosen, rejected = torch.tensor([1.0, 3.0]), torch.tensor([0.5, -1.0])

    def call(chosen, rejected):
        margins = log_ratio_margins(chosen, rejected, lengths=(3, 4))
        return dpo()(margins, 0.7) + reward_loss(chosen, rejected, selective(), margins=1)

    close(compiled(call)(chosen, rejected), call(chosen, rejected))


def test_gradients_reach_a_beta_beside_numbers_and_lists():
    for chosen, rejected in ((-1.0, -3.0), ([-1.0], [-3.0])):
        beta = torch.tensor(0.1, requires_grad=True)
        log_ratio_margins(chosen, rejected, beta=beta).sum().backward()
        assert beta.grad.item() == pytest.approx(2.0)


def test_the_least_sharpness_is_a_straight_line(array):
    line = selective(0.5 / 2.0 * sm.Identity().capped(-4.0, 4.0), target_margin=2.0)
    flat = selective(target_margin=2.0, sharpness=1e-8)
    close(flat(array(MARGINS), reduction="none"), line(MARGINS, reduction="none"))
    close(flat(torch.tensor(MARGINS).float(), reduction="none"), line(MARGINS, reduction="none"))


def test_the_module_loads_no_framework():
    code = "import sys, selmatch.alignment; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "numpy" in loaded
    assert not {"torch", "jax", "trl", "transformers"} & set(loaded)


# ------------------------------------------------------------------------------------------------------------- margins


def test_margins_are_differences_of_log_ratios(array):
    chosen, rejected, ref_chosen, ref_rejected = np.random.default_rng(0).normal(size=(4, 3, 2))
    lengths = np.array([[3, 1], [2, 5], [0, 4]]), np.array([[1, 1], [2, 2], [3, 0]])
    arrays = [array(x) for x in (chosen, rejected, ref_chosen, ref_rejected)]
    expected = 0.3 * ((chosen - ref_chosen) - (rejected - ref_rejected))
    np.testing.assert_allclose(np.asarray(log_ratio_margins(*arrays, beta=0.3)), expected, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(log_ratio_margins(*arrays[:2])), 0.1 * (chosen - rejected), rtol=1e-13)
    means = chosen / np.maximum(lengths[0], 1) - rejected / np.maximum(lengths[1], 1)
    normalised = log_ratio_margins(*arrays[:2], beta=1.0, lengths=tuple(map(array, lengths)))
    np.testing.assert_allclose(np.asarray(normalised), means, rtol=1e-13)


# -------------------------------------------------------------------------------------------------------------- rewards


def test_a_margin_of_llama_is_a_shifted_link():
    chosen, rejected, margin = np.array([1.0, 0.2, -3.0]), np.array([0.5, 0.9, 1.0]), 0.75
    shifted = PreferenceLoss(sm.Sigmoid().affine(beta=margin), target=1.0)(chosen - rejected)
    assert reward_loss(chosen, rejected, margins=np.full(3, margin)) == pytest.approx(shifted, rel=1e-13)
    assert shifted == pytest.approx(dpo(offset=margin)(chosen - rejected), rel=1e-13)


def test_graded_margins_are_reached_where_a_link_is_given(array):
    link = sm.Sinh().capped(-4.0, 4.0)
    chosen, rejected, graded = array([1.0, 3.0, 0.0]), array([0.0, 0.0, 1.0]), array([1.0, 3.0, 2.0])
    losses = np.asarray(reward_loss(chosen, rejected, link, margins=graded, reduction="none"))
    assert (losses[:2] == 0.0).all()
    assert losses[2] == pytest.approx(sm.MatchingLoss(link)(-1.0, 2.0), rel=1e-12)
    by_loss = reward_loss(chosen, rejected, selective(link, one_sided=False), margins=graded, reduction="none")
    np.testing.assert_array_equal(np.asarray(by_loss), losses)


def test_one_margin_goes_for_all_pairs(array):
    chosen, rejected = np.array([1.0, 3.0, -2.0]), np.zeros(3)
    for loss in (None, selective(), ipo(0.3), sm.Sinh().capped(-4.0, 4.0)):
        each = reward_loss(chosen, rejected, loss, margins=np.full(3, 2.0), reduction="none")
        one = reward_loss(array(chosen), array(rejected), loss, margins=2, reduction="none")
        np.testing.assert_allclose(np.asarray(one), each, rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------- lists


def test_lists_are_judged_by_the_ranking_loss(array):
    log_ratios, rewards = np.array([[1.0, -4.0, 9.0], [2.0, 0.5, 7.0]]), np.array([[3.0, 1.0, 5.0], [1.0, 0.0, 2.0]])
    mask = np.array([[True, True, False], [True, True, True]])
    targets = rewards - np.array([[2.0], [1.0]])
    softmax = sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5), gamma=0.7)
    expected = listwise(0.2 * log_ratios, targets, softmax, where=mask, reduction="none")
    there = torch.tensor(mask) if isinstance(array(0.0), torch.Tensor) else mask
    options = {"beta": 0.2, "where": there, "reduction": "none"}
    for loss in (softmax, sm.MatchingLoss(softmax)):
        result = listwise_preference(array(log_ratios), array(rewards), loss, **options)
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12)
    garbage = np.where(mask, rewards, np.nan)
    result = listwise_preference(array(log_ratios), array(garbage), softmax, **options)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12)
    raw = listwise_preference(array(log_ratios), array(rewards), softmax, baseline=None, **options)
    np.testing.assert_allclose(
        np.asarray(raw), listwise(0.2 * log_ratios, rewards, softmax, where=mask, reduction="none")
    )


def plackett_luce(scores):
    """Minus the log-likelihood of the order in which the answers stand."""
    return sum(torch.logsumexp(scores[i:], 0) - scores[i] for i in range(len(scores) - 1))


def test_the_winner_is_promoted_without_suppressing_runners_up():
    rewards = torch.tensor([3.0, 1.0, 0.5, -1.0], dtype=torch.float64)
    scores = rewards.clone()
    scores[0] -= 2.0  # only the winner is not where it belongs
    clipped = sm.SmeLU(c=0.5).affine(beta=1.6)  # 0 below 1.1
    growing = sm.Sigmoid().affine(alpha=2.0, beta=2.0)

    def paid_by_others(loss):
        """What all others lose for each unit that the winner gains."""
        z = scores.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(z), z)
        assert gradient[0] < 0.0
        return -gradient[1:].clamp(min=0.0).sum() / gradient[0]

    def selectively(scaling):
        return lambda z: listwise_preference(z, rewards, scaling, beta=1.0, baseline=None)

    plain = paid_by_others(selectively(sm.CompositeSoftmax()))
    first_choice = paid_by_others(lambda z: F.cross_entropy(z[None], torch.tensor([0])))
    assert plain.item() == pytest.approx(1.0)
    assert first_choice.item() == pytest.approx(1.0)
    assert paid_by_others(selectively(growing)).item() < 0.2
    assert paid_by_others(selectively(clipped)).item() == 0.0
    # the order alone is never enough for Plackett and Luce: the last one is pushed down for ever
    z = rewards.clone().requires_grad_()
    assert torch.autograd.grad(plackett_luce(z), z)[0][-1] > 0.05
    assert torch.autograd.grad(selectively(growing)(z), z)[0].abs().max() == 0.0


# ---------------------------------------------------------------------------------------------------------- the monitor


def test_displacement_counts_pairs_whose_chosen_answer_falls(array):
    reference = array([-10.0, -10.0, -10.0, -10.0, 7.0])
    chosen = array([-12.0, -9.0, -11.0, -10.0, np.nan])
    rejected = array([-20.0, -9.5, -10.0, -10.5, 1.0])
    mask = np.array([True, True, True, True, False])
    mask = torch.tensor(mask) if isinstance(chosen, torch.Tensor) else mask
    seen = displacement(chosen, reference, rejected, reference, where=mask)
    expected = {
        "pairs": 4.0,
        "chosen_log_ratio": -0.5,
        "chosen_fell": 0.5,
        "rejected_log_ratio": -2.5,
        "margin": 2.0,
        "accuracy": 0.75,
        "displaced": 0.25,
    }
    assert {name: float(value) for name, value in seen.as_dict().items()} == expected
    alone = displacement(chosen, reference, where=mask)
    assert {name: float(value) for name, value in alone.as_dict("a/").items()} == {
        f"a/{name}": expected[name] for name in ("pairs", "chosen_log_ratio", "chosen_fell")
    }
    nothing = displacement(chosen, reference, where=mask & ~mask)
    assert [float(value) for value in nothing.as_dict().values()] == [0.0, 0.0, 0.0]


def test_displacement_waits_for_nothing_and_keeps_no_graph(compiled):
    logps = [
        torch.tensor([-1.0, -2.0, -4.0], requires_grad=True),
        *(torch.tensor([-1.5, -1.0, -3.0]) for _ in range(3)),
    ]
    seen = displacement(*logps)
    assert all(value.ndim == 0 and not value.requires_grad for value in seen.as_dict().values())
    whole = compiled(lambda *x: displacement(*x).as_dict())(*logps)
    assert whole == seen.as_dict()
    traced = jax.jit(displacement)(*(jnp.asarray(x.detach().numpy()) for x in logps))
    assert isinstance(traced, Displacement)
    assert float(traced.chosen_fell) == pytest.approx(2.0 / 3.0)
    on_device = displacement(*(x.detach().to("meta") for x in logps))
    assert on_device.displaced.device.type == "meta"


def test_a_preference_loss_does_not_see_what_the_monitor_sees():
    reference = np.zeros(3)
    chosen, rejected = np.array([-1.0, 2.0, 1.0]), np.array([-4.0, -1.0, -2.0])
    fallen = chosen - 5.0, rejected - 5.0
    losses = [dpo()(log_ratio_margins(c, r, reference, reference)) for c, r in ((chosen, rejected), fallen)]
    assert losses[0] == losses[1]
    assert displacement(chosen, reference, rejected, reference).displaced == pytest.approx(1.0 / 3.0)
    assert displacement(fallen[0], reference, fallen[1], reference).displaced == 1.0


# --------------------------------------------------------------------------------------------------------------- errors

ONES, NAN = np.ones(3), np.array([0.0, np.nan, 1.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: PreferenceLoss(sm.Sigmoid()), TypeError, "exactly one of target_margin .* must be given"),
        (lambda: PreferenceLoss(sm.Sigmoid(), 1.0, target=1.0), TypeError, "target_margin=1.0, target=1.0"),
        (lambda: PreferenceLoss(sm.Sigmoid, target=1.0), TypeError, r"Try Sigmoid\(\)"),
        (lambda: PreferenceLoss(sm.CompositeSoftmax(), 1.0), TypeError, "link must be a curve"),
        (lambda: PreferenceLoss(sm.Cosh(), 1.0), ValueError, "decreases somewhere"),
        (lambda: PreferenceLoss(sm.Sigmoid(), 1.0, conjugate=False), ValueError, "conjugate must be left out"),
        (lambda: PreferenceLoss(sm.Sigmoid(), target=1.0, one_sided=True), ValueError, "one_sided must go with"),
        (lambda: PreferenceLoss(sm.Log(), -1.0), ValueError, "target_margin must lie inside"),
        (lambda: PreferenceLoss(sm.Sigmoid(), target=-0.1), ValueError, r"target must lie in .* got -0\.1"),
        (lambda: PreferenceLoss(sm.Sigmoid(), "1"), TypeError, "target_margin must be a number, got '1'"),
        (lambda: conservative_dpo(0.5), ValueError, r"label_smoothing must be < 0\.5, got 0\.5"),
        (lambda: conservative_dpo(-0.1), ValueError, r"label_smoothing must be >= 0, got -0\.1"),
        (lambda: ipo(0.0), ValueError, r"ipo: beta must be > 0, got 0\.0"),
        (lambda: selective(target_margin=5.0), ValueError, r"target_margin must be at most cap = 4\.0, got 5\.0"),
        (lambda: selective(sharpness=30.0), ValueError, r"sharpness \* cap must be at most 80, got 120"),
        (lambda: selective(sharpness=1e-200), ValueError, "sharpness must be at least 1e-8, got 1e-200"),
        (lambda: selective(sm.Sinh(), cap=3.0), ValueError, "sharpness and cap must be left out"),
        (lambda: selective(target_margin=-1.0), ValueError, "target_margin must be > 0"),
        (lambda: log_ratio_margins(ONES, ONES, beta=-1.0), ValueError, r"beta must be > 0, got -1\.0"),
        (lambda: log_ratio_margins(ONES, ONES[:2]), ValueError, r"rejected must .* of chosen \(3,\), got \(2,\)"),
        (lambda: log_ratio_margins(ONES, ONES[:, None]), ValueError, r"got \(3, 1\)"),
        (lambda: log_ratio_margins(ONES, ONES, ONES), TypeError, "reference_rejected must be given"),
        (lambda: log_ratio_margins(ONES, ONES, lengths=ONES), TypeError, "lengths must be a pair"),
        (lambda: log_ratio_margins(ONES, ONES, lengths=(-5, 3)), ValueError, r"lengths\[0\] must be >= 0, got -5"),
        (lambda: log_ratio_margins(jnp.ones(3), jnp.ones(3), lengths=(5, -3)), ValueError, r"lengths\[1\] must be >="),
        (lambda: log_ratio_margins(torch.ones(2), torch.ones(2), lengths=(1, [3, -2])), ValueError, "-2.0 at index 1"),
        (lambda: log_ratio_margins(ONES, ONES, beta=torch.tensor(0.1)), TypeError, "beta from PyTorch"),
        (lambda: log_ratio_margins(NAN, ONES), ValueError, "log_ratio_margins: chosen .* got nan at index 1"),
        (lambda: log_ratio_margins(*map(torch.tensor, (ONES, NAN))), ValueError, "rejected .* got nan at index 1"),
        (lambda: log_ratio_margins(ONES, torch.tensor(ONES)), TypeError, "arrays must come from one library"),
        (lambda: log_ratio_margins(torch.ones(3).long(), torch.ones(3).long()), TypeError, "floating point"),
        (lambda: dpo()(NAN), ValueError, "PreferenceLoss: margins must be finite, got nan at index 1"),
        (lambda: dpo().grad(torch.tensor([[0.0, math.inf]])), ValueError, r"Loss.grad: margins .* index \(0, 1\)"),
        (lambda: ipo(0.1)(ONES, np.ones((2, 3))), ValueError, r"targets must .* of margins \(3,\), got \(2, 3\)"),
        (lambda: dpo()(ONES, ONES + 1.0), ValueError, "PreferenceLoss: targets must lie in .*, the range of the link"),
        (lambda: dpo()(torch.ones(2), 1.2), ValueError, r"PreferenceLoss: targets must lie in \(0, 1\), .* got 1\.2"),
        (lambda: dpo()(jnp.ones(2), -0.2), ValueError, r"PreferenceLoss: targets must lie in \(0, 1\), .* got -0\.2"),
        (lambda: dpo().grad(torch.ones(2), torch.tensor([0.5, 1.5])), ValueError, "grad: targets .* 1.5 at index 1"),
        (lambda: PreferenceLoss(sm.Log(), 1.0)(torch.ones(2), -1.0), ValueError, "targets must lie inside"),
        (lambda: dpo()(torch.ones(2), where=[1, 0]), TypeError, "where must be boolean, got dtype int64"),
        (lambda: dpo()([1.0, 2.0], where=torch.ones(2) > 0.0), TypeError, "margins must be .* got a list"),
        (lambda: dpo()(ONES, where=np.ones(2, dtype=bool)), ValueError, "where must have the shape of the scores"),
        (lambda: dpo()(ONES, reduction="max"), ValueError, "reduction must be"),
        (lambda: reward_loss(ONES, NAN), ValueError, "reward_loss: rejected must be finite"),
        (lambda: reward_loss(ONES, ONES, sm.Sinh()), TypeError, r"margins must be given with the link Sinh\(\)"),
        (lambda: reward_loss(ONES, ONES, sm.CompositeSoftmax(), margins=ONES), TypeError, "link for single margins"),
        (lambda: reward_loss(ONES, ONES, margins=np.ones(2)), ValueError, "margins must have the shape of chosen"),
        (lambda: listwise_preference(1.0, 2.0, sm.Sinh()), ValueError, "answers of a list on the last axis"),
        (lambda: listwise_preference(ONES, ONES, sm.Sinh(), baseline="median"), ValueError, "baseline must be"),
        (lambda: listwise_preference(ONES, ONES, sm.Sinh(), beta=0.0), ValueError, "beta must be > 0"),
        (lambda: listwise_preference(ONES, ONES, sm.Exp(), beta=torch.tensor(0.1)), TypeError, "beta from PyTorch"),
        (lambda: listwise_preference(ONES, NAN, sm.Sinh()), ValueError, "rewards must be finite, got nan at index 1"),
        (lambda: displacement(ONES, NAN), ValueError, "reference_chosen must be finite"),
        (lambda: displacement(ONES, ONES, ONES), TypeError, "reference_rejected must be given"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_cannot_be_looked_at_stays_in_the_result():
    bad = torch.tensor([0.0, math.nan])
    assert torch.isnan(torch.func.vmap(lambda m: dpo()(m))(bad)[1])
    assert bool(jnp.isnan(jax.jit(lambda m: dpo()(m))(jnp.array([0.0, math.nan]))))
