"""TRL's trainers with selective losses: the same weights for the same loss, the same log, no second forward pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from test_trl import TASKS, updates
from tiny_language_models import QUIET, model, tokenizer, weights
from transformers import CohereConfig, CohereForCausalLM, LlamaForSequenceClassification
from trl import (
    DistillationConfig,
    DistillationTrainer,
    DPOConfig,
    DPOTrainer,
    RewardConfig,
    RewardTrainer,
)

import selmatch as sm
from selmatch import alignment
from selmatch.distillation import fitted
from selmatch.trl import (
    SelectiveDistillationTrainer,
    SelectiveDPOTrainer,
    SelectiveRewardTrainer,
    compute_loss_func,
)

pytestmark = pytest.mark.slow

STEPS = 3
OPTIONS = {
    **QUIET,
    "per_device_train_batch_size": 2,
    "max_steps": STEPS,
    "bf16": False,
    "gradient_checkpointing": False,
}


def answer(start, step, words):
    return " ".join(f"w{(start + step * j) % 40}" for j in range(words))


def pairs(**columns):
    rows = [
        {"prompt": f"w{i} w{i + 1} ", "chosen": answer(3 * i, 1, 2 + i % 3), "rejected": answer(5 * i, 2, 3 + i % 2)}
        for i in range(8)
    ]
    return Dataset.from_list([{**row, **{k: v[i] for k, v in columns.items()}} for i, row in enumerate(rows)])


class Forwards:
    """Counts how often a model runs."""

    def __init__(self, module):
        self.count = 0
        module.register_forward_hook(self._seen)

    def _seen(self, *_):
        self.count += 1


def close(found, wanted):
    """Whether two models learned the same, compared with how much they learned."""
    learned = (wanted - weights(model(0))).norm()
    assert learned > 1e-3
    return (found - wanted).norm() / learned < 5e-6


# ----------------------------------------------------------------------------------------------------------------- DPO


def preference_trainer(kind, folder, data=None, evaluated=None, **options):
    own = {name: options.pop(name) for name in ("preference", "margin_scale", "length_normalised") if name in options}
    args = DPOConfig(output_dir=str(folder), **{**OPTIONS, "beta": 0.3, **options})
    policy, reference = model(0), model(1)
    trainer = kind(
        policy,
        ref_model=reference,
        args=args,
        train_dataset=pairs() if data is None else data,
        eval_dataset=evaluated,
        processing_class=tokenizer(),
        **own,
    )
    return trainer, Forwards(policy), Forwards(reference)


SPECIAL_CASES = {
    "dpo": ({}, {"preference": alignment.dpo()}),
    "ipo": (
        {"loss_type": "ipo"},
        {"preference": alignment.ipo(beta=0.3), "margin_scale": 1.0, "length_normalised": True},
    ),
    "hinge": ({"loss_type": "hinge"}, {"preference": alignment.hinge()}),
    # with a single pair in a batch, TRL's sorted loss is the conservative one
    "conservative": (
        {"loss_type": "aot", "label_smoothing": 0.2, "per_device_train_batch_size": 1},
        {"preference": alignment.conservative_dpo(0.2), "per_device_train_batch_size": 1},
    ),
    "normalised": (
        {"loss_type": "sigmoid_norm"},
        {"preference": alignment.dpo(), "length_normalised": True},
    ),
    "with SFT": (
        {"loss_type": ["sigmoid", "sft"], "loss_weights": [0.7, 0.2]},
        {"loss_type": ["sigmoid", "sft"], "loss_weights": [0.7, 0.2], "preference": alignment.dpo()},
    ),
    "accumulated": (
        {"gradient_accumulation_steps": 2},
        {"gradient_accumulation_steps": 2, "preference": alignment.dpo()},
    ),
    "known reference": (
        {"precompute_ref_log_probs": True},
        {"precompute_ref_log_probs": True, "preference": alignment.dpo()},
    ),
}


@pytest.mark.parametrize("case", SPECIAL_CASES)
def test_a_special_case_trains_as_trl_does(case, tmp_path):
    theirs, ours = SPECIAL_CASES[case]
    usual, *their_forwards = preference_trainer(DPOTrainer, tmp_path, **theirs)
    usual.train()
    trainer, *forwards = preference_trainer(SelectiveDPOTrainer, tmp_path, **ours)
    trainer.train()
    assert close(weights(trainer.model), weights(usual.model))
    assert [seen.count for seen in forwards] == [seen.count for seen in their_forwards]
    for known, logged in zip(usual.state.log_history[:STEPS], trainer.state.log_history[:STEPS], strict=True):
        added = {f"displacement/{name}" for name in ("chosen_log_ratio", "chosen_fell", "displaced")}
        assert set(logged) == set(known) | added
        for name, value in known.items():
            assert logged[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_the_displacement_is_that_of_trls_log_probabilities(tmp_path):
    trainer, *_ = preference_trainer(SelectiveDPOTrainer, tmp_path, preference=alignment.selective())
    trainer.train()
    for logged in trainer.state.log_history[:STEPS]:
        assert logged["displacement/chosen_log_ratio"] == pytest.approx(logged["rewards/chosen"] / 0.3, rel=1e-5)
        assert 0.0 <= logged["displacement/displaced"] <= logged["displacement/chosen_fell"] <= 1.0


def test_a_selective_loss_is_trained_and_evaluated(tmp_path):
    loss = alignment.selective(target_margin=1.0)
    given = {"preference": loss, "learning_rate": 1e-2, "optim": "adamw_torch", "max_steps": 20}
    trainer, *_ = preference_trainer(SelectiveDPOTrainer, tmp_path, evaluated=pairs(), **given)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < 0.5 * before["eval_loss"]
    assert after["eval_rewards/margins"] > before["eval_rewards/margins"] + 0.5
    assert "eval_displacement/displaced" in after


def test_outputs_are_returned_where_they_are_asked_for(tmp_path):
    trainer, *_ = preference_trainer(SelectiveDPOTrainer, tmp_path, preference=alignment.dpo())
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    alone = trainer.compute_loss(trainer.model, batch)
    with pytest.warns(FutureWarning, match="return_outputs"):
        loss, outputs = trainer.compute_loss(trainer.model, batch, return_outputs=True)
    assert torch.equal(loss, alone)
    assert outputs.logits.shape[:2] == batch["input_ids"].shape


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("loss_type", "ipo", r"loss_type must name 'sigmoid' once, whose place the loss takes, got \['ipo'\]"),
        ("label_smoothing", 0.1, r"label_smoothing must be 0, got 0.1. Give preference=conservative_dpo"),
        ("use_weighting", True, "use_weighting must be False, got True"),
        ("ld_alpha", 0.5, "ld_alpha must be None, got 0.5"),
        ("f_divergence_type", "forward_kl", "f_divergence_type must be 'reverse_kl', got 'forward_kl'"),
    ],
)
def test_options_of_trls_own_losses_are_refused(option, value, message, tmp_path):
    with pytest.raises(ValueError, match=f"SelectiveDPOTrainer: {message}"):
        preference_trainer(SelectiveDPOTrainer, tmp_path, preference=alignment.dpo(), **{option: value})


@pytest.mark.parametrize("preference", [sm.Sigmoid(), sm.MatchingLoss(sm.Sinh()), alignment.dpo, None], ids=repr)
def test_what_is_no_preference_loss_is_refused_at_once(preference):
    with pytest.raises(TypeError, match="SelectiveDPOTrainer: preference must be a PreferenceLoss, got"):
        SelectiveDPOTrainer(preference=preference)
    if preference in (alignment.dpo, "sigmoid"):
        with pytest.raises(TypeError, match="SelectiveRewardTrainer: loss must be a PreferenceLoss, MatchingLoss or"):
            SelectiveRewardTrainer(loss=preference)


def test_a_scale_of_margins_is_positive():
    with pytest.raises(ValueError, match=r"SelectiveDPOTrainer: margin_scale must be > 0, got 0.0"):
        SelectiveDPOTrainer(preference=alignment.dpo(), margin_scale=0.0)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's, as it compiles
def test_compiled_references_are_taken(tmp_path):
    trainer, *_ = preference_trainer(SelectiveDPOTrainer, tmp_path, preference=alignment.dpo())
    trainer.ref_model = torch.compile(trainer.ref_model, backend="eager")  # has a length that is an error
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    assert set(trainer._with_reference(batch)) - set(batch) == {"ref_chosen_logps", "ref_rejected_logps"}


# ------------------------------------------------------------------------------------------------------------- rewards


def reward_trainer(kind, folder, data, own=None, **options):
    args = RewardConfig(output_dir=str(folder), **{**OPTIONS, **options})
    start = model(0, LlamaForSequenceClassification, num_labels=1)
    trainer = kind(start, args=args, train_dataset=data, eval_dataset=data, processing_class=tokenizer(), **own or {})
    return trainer, Forwards(start)


GRADED = {"margin": [0.5, 1.0, 0.0, 2.0, 0.25, 1.5, 0.75, 1.0]}


@pytest.mark.parametrize("options", [{}, {"center_rewards_coefficient": 0.1}], ids=["plain", "centred"])
@pytest.mark.parametrize("columns", [{}, GRADED], ids=["pairs", "graded"])
def test_rewards_train_as_trls_do(options, columns, tmp_path):
    usual, their_forwards = reward_trainer(RewardTrainer, tmp_path, pairs(**columns), **options)
    trainer, forwards = reward_trainer(SelectiveRewardTrainer, tmp_path, pairs(**columns), **options)
    before = weights(trainer.model)
    usual.train()
    trainer.train()
    learned = (weights(usual.model) - before).norm()
    assert learned > 1e-3
    assert (weights(trainer.model) - weights(usual.model)).norm() / learned < 5e-6
    assert forwards.count == their_forwards.count
    for known, logged in zip(usual.state.log_history[:STEPS], trainer.state.log_history[:STEPS], strict=True):
        assert logged == pytest.approx(known, rel=1e-4, abs=1e-5)


def test_a_link_takes_margins_for_what_is_to_be_reached(tmp_path):
    link = sm.Sinh().capped(-4.0, 4.0)
    given = {"own": {"loss": link}, "max_steps": 30, "optim": "adamw_torch", "learning_rate": 1e-2}
    trainer, _ = reward_trainer(SelectiveRewardTrainer, tmp_path, pairs(**GRADED), **given)
    before = trainer.evaluate()
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.2 * before["eval_loss"]
    batch = trainer._prepare_inputs(next(iter(trainer.get_eval_dataloader())))
    loss, outputs = trainer.compute_loss(trainer.model, batch, return_outputs=True)
    chosen, rejected = outputs.logits[:, 0].chunk(2)
    torch.testing.assert_close(loss, sm.MatchingLoss(link)(chosen - rejected, batch["margin"]))


# -------------------------------------------------------------------------------------------------------- distillation


def distillation_trainer(kind, folder, student=None, teacher=None, own=None, **options):
    args = DistillationConfig(
        output_dir=str(folder), max_completion_length=6, **{**OPTIONS, "learning_rate": 0.5, **options}
    )
    prompts = Dataset.from_list([{"prompt": f"w{i} w{i + 3} w{2 * i}"} for i in range(8)])
    return kind(
        model(0) if student is None else student,
        model(1) if teacher is None else teacher,
        args=args,
        train_dataset=prompts,
        processing_class=tokenizer(padding_side="left"),
        **own or {},
    )


@pytest.mark.parametrize("options", [{}, {"temperature": 0.8, "gradient_accumulation_steps": 2}], ids=["1", "0.8"])
def test_the_standard_softmax_distils_as_trls_forward_divergence_does(options, tmp_path):
    usual = distillation_trainer(DistillationTrainer, tmp_path, beta=0.0, **options)
    usual.train()
    loss = {"loss": sm.CompositeSoftmax()}
    trainer = distillation_trainer(SelectiveDistillationTrainer, tmp_path, own=loss, **options)
    trainer.train()
    assert close(weights(trainer.model), weights(usual.model))
    for known, logged in zip(usual.state.log_history[:STEPS], trainer.state.log_history[:STEPS], strict=True):
        assert set(logged) == set(known)
        assert {"entropy", "completions/mean_length"} <= set(logged)
        for name in set(known) - {"step_time"}:
            assert logged[name] == pytest.approx(known[name], rel=1e-3, abs=1e-4), name


def test_logits_are_scaled_as_the_models_scale_them(tmp_path):
    def scaled(seed):
        return model(seed, CohereForCausalLM, CohereConfig, logit_scale=0.5)

    usual = distillation_trainer(DistillationTrainer, tmp_path, scaled(0), scaled(1), beta=0.0)
    usual.train()
    own = {"loss": sm.CompositeSoftmax()}
    trainer = distillation_trainer(SelectiveDistillationTrainer, tmp_path, scaled(0), scaled(1), own)
    trainer.train()
    learned = (weights(usual.model) - weights(scaled(0))).norm()
    assert learned > 1e-3
    assert (weights(trainer.model) - weights(usual.model)).norm() / learned < 5e-6


def test_a_fitted_loss_brings_the_student_to_the_teacher(tmp_path):
    teacher = model(1)
    with torch.no_grad():
        chosen = fitted(teacher(input_ids=torch.arange(3, 43)[None]).logits, sm.SmeLU(c=1.0).affine(beta=-3.5))
    own, more = {"loss": chosen}, {"max_steps": 25, "optim": "adamw_torch", "learning_rate": 1e-2}
    trainer = distillation_trainer(SelectiveDistillationTrainer, tmp_path, teacher=teacher, own=own, **more)
    trainer.train()
    assert trainer.distillation.loss == chosen.loss
    losses = [logged["loss"] for logged in trainer.state.log_history if "loss" in logged]
    assert sum(losses[-3:]) < 0.7 * sum(losses[:3])


def test_capped_logits_are_refused(tmp_path):
    teacher = model(1)
    teacher.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match=r"final_logit_softcapping of both models must be None, got 30.0. Store the"):
        distillation_trainer(SelectiveDistillationTrainer, tmp_path, teacher=teacher, own={"loss": sm.Sinh()})


# --------------------------------------------------------------------------------------------------- several processes

SCRIPT = """
import os
import sys
import torch
import torch.multiprocessing
from test_trl import TASKS, updates
from selmatch.trl import compute_loss_func


def run(rank, folder):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    examples, collator, kind, loss, labels = TASKS["tokens"]
    found = updates(folder, 2, 2, examples(), collator, kind, compute_loss_func(loss), num_labels=labels)
    torch.save(found, f"{folder}/update_{torch.distributed.get_rank()}.pt")
    torch.distributed.destroy_process_group()


# libraries are imported once
torch.multiprocessing.start_processes(run, (sys.argv[1],), nprocs=2, start_method="fork")
"""


def test_two_processes_give_the_update_of_one(tmp_path):
    examples, collator, kind, loss, labels = TASKS["tokens"]
    whole = updates(tmp_path, 8, 1, examples(), collator, kind, compute_loss_func(loss), num_labels=labels)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20_000 + os.getpid() % 20_000)}
    environment = {**os.environ, **place, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    for rank in range(2):
        found = torch.load(tmp_path / f"update_{rank}.pt")
        assert (found - whole).norm() / whole.norm() < 1e-12
