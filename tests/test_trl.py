"""Losses for transformers.Trainer: labels, counts and accumulated batches; stored teachers in batches."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from tiny_language_models import QUIET, VOCABULARY, model, tokenizer, weights
from transformers import (
    DataCollatorForTokenClassification,
    DataCollatorWithFlattening,
    LlamaForSequenceClassification,
    LlamaForTokenClassification,
    Trainer,
    TrainingArguments,
    default_data_collator,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from trl.trainer.distillation_trainer import DistillationTrainer, _chunked_divergence_loss

import selmatch as sm
from selmatch.distillation import distillation_loss, fitted
from selmatch.sparse_teachers import TopKTeacher
from selmatch.teacher_files import TeacherReader, TeacherWriter
from selmatch.trl import SelectiveDistillationTrainer, StoredTeacherTrainer, TeacherCollator, compute_loss_func

LINK = sm.Sinh().affine(alpha=0.7)
CLASSES = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.3), gamma=0.7)
CLIPPING = sm.CompositeSoftmax(sm.SmeLU(c=1.0).affine(beta=-3.0), gamma=0.5)


def outputs(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return SequenceClassifierOutput(logits=torch.randn(*shape, generator=generator, requires_grad=True))


# -------------------------------------------------------------------------------------------------- compute_loss_func


@pytest.mark.parametrize(
    ("loss", "logits", "labels"),
    [(LINK, (6, 1), (6,)), (LINK, (6, 1), (6, 1)), (LINK, (6, 3), (6, 3)), (LINK, (4, 5, 1), (4, 5)),
     (CLASSES, (6, 3), (6, 3)), (CLASSES, (4, 5, 3), (4, 5, 3))],
)  # fmt: skip
def test_the_loss_is_the_cores_mean(loss, logits, labels):
    predicted, observed = outputs(*logits), torch.randn(*labels)
    expected = sm.MatchingLoss(loss)(predicted.logits.reshape(labels), observed)
    torch.testing.assert_close(compute_loss_func(loss)(predicted, observed), expected)
    torch.testing.assert_close(compute_loss_func(sm.MatchingLoss(loss))(predicted, observed), expected)


def test_labels_of_minus_100_do_not_count():
    predicted, observed = outputs(5, 1), torch.tensor([1.0, -100.0, 0.5, -100.0, 2.0])
    value = compute_loss_func(LINK)(predicted, observed)
    counted = observed != -100
    torch.testing.assert_close(value, sm.MatchingLoss(LINK)(predicted.logits[:, 0][counted], observed[counted]))
    value.backward()
    assert (predicted.logits.grad[:, 0] != 0).tolist() == counted.tolist()


@pytest.mark.parametrize("count", [torch.tensor(12), torch.tensor([[12], [12]]), 12])
def test_the_sum_is_divided_by_the_trainers_count(count):
    predicted, observed = outputs(6, 1), torch.randn(6)
    total = sm.MatchingLoss(LINK)(predicted.logits[:, 0], observed, reduction="sum")
    torch.testing.assert_close(compute_loss_func(LINK)(predicted, observed, num_items_in_batch=count), total / 12)


def test_for_many_classes_the_count_is_one_of_rows():
    predicted, observed = outputs(6, 3), torch.randn(6, 3)
    given = compute_loss_func(CLASSES)(predicted, observed, num_items_in_batch=torch.tensor(18))
    torch.testing.assert_close(given, compute_loss_func(CLASSES)(predicted, observed))


def test_a_batch_in_which_nothing_counts_costs_nothing():
    predicted = outputs(3, 1)
    value = compute_loss_func(LINK)(predicted, torch.full((3,), -100.0), num_items_in_batch=torch.tensor(0))
    value.backward()
    assert value == 0
    assert not predicted.logits.grad.any()


def test_outputs_may_be_dictionaries_tuples_or_logits():
    predicted, observed = outputs(6, 1), torch.randn(6)
    loss = compute_loss_func(LINK)
    expected = loss(predicted, observed)
    for other in ({"logits": predicted.logits}, (predicted.logits, "hidden states"), predicted.logits):
        assert loss(other, observed) == expected


def test_whole_numbers_are_labels_too():
    predicted = outputs(3, 1)
    loss = compute_loss_func(LINK)
    assert loss(predicted, torch.tensor([1, -100, 3])) == loss(predicted, torch.tensor([1.0, -100.0, 3.0]))


def test_a_module_brings_its_options():
    module = sm.torch.MatchingLoss(CLASSES, canonicalise=True)
    predicted, observed = outputs(6, 3), torch.randn(6, 3)
    value = compute_loss_func(module)(predicted, observed)
    torch.testing.assert_close(value, compute_loss_func(module)(predicted, observed + 7.0))
    torch.testing.assert_close(value, module(predicted.logits, observed))


def test_labels_must_be_there_and_fit():
    loss = compute_loss_func(CLASSES)
    with pytest.raises(ValueError, match=r"compute_loss_func: labels must have shape \(6, 3\), got \(6,\)\."):
        loss(outputs(6, 3), torch.zeros(6, dtype=torch.long))
    with pytest.raises(ValueError, match=r"the batch must hold labels, got none\. Name the column labels"):
        loss(outputs(6, 3), None)


# ----------------------------------------------------------------------------------------------- through the Trainer


def examples_of_texts():
    return [{"input_ids": [3 + i, 9, 5 + 2 * i], "labels": float(i % 5) - 2.0} for i in range(8)]


def examples_of_classes():
    values = np.random.default_rng(0).normal(size=(8, 3)).tolist()
    return [{"input_ids": [3 + i, 9, 5 + 2 * i], "labels": values[i]} for i in range(8)]


def examples_of_tokens():
    """Long and short ones, of which few and many tokens count."""
    made = []
    for i in range(8):
        tokens = 2 + i % 5
        labels = [(-1.0) ** j * (i + j) / 4 if j >= i % 3 else -100.0 for j in range(tokens)]
        made.append({"input_ids": [3 + i + j for j in range(tokens)], "labels": labels})
    return made


class TokenCollator:
    """Pads labels that are real numbers, which the collators of Transformers make whole."""

    def __call__(self, examples):
        length = max(len(example["input_ids"]) for example in examples)
        batch = {}
        for name, filler in (("input_ids", 0), ("labels", -100.0)):
            batch[name] = torch.tensor([e[name] + [filler] * (length - len(e[name])) for e in examples])
        batch["attention_mask"] = (batch["input_ids"] != 0).long()
        return batch


def updates(folder, batch, accumulated, examples, collator, kind, loss_func, dtype=torch.float64, **options):
    """What one epoch changes in a model."""
    start = model(kind=kind, **options).to(dtype)
    before = weights(start)
    sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulated}
    # a large step, beside which the rounding of the weights is small
    args = TrainingArguments(str(folder), num_train_epochs=1, **sizes, **{**QUIET, "learning_rate": 1.0})
    trainer = Trainer(
        start, args, train_dataset=Dataset.from_list(examples), data_collator=collator, compute_loss_func=loss_func
    )
    trainer.train()
    assert trainer.state.global_step == 1
    return weights(trainer.model) - before


TASKS = {
    "texts": (examples_of_texts, default_data_collator, LlamaForSequenceClassification, LINK, 1),
    "classes": (examples_of_classes, default_data_collator, LlamaForSequenceClassification, CLASSES, 3),
    "tokens": (examples_of_tokens, TokenCollator(), LlamaForTokenClassification, LINK, 1),
}


@pytest.mark.parametrize(
    ("task", "dtype"),
    [
        ("texts", torch.float64),
        ("classes", torch.float32),
        ("tokens", torch.float64),
        pytest.param("texts", torch.float32, marks=pytest.mark.slow),
        pytest.param("classes", torch.float64, marks=pytest.mark.slow),
        pytest.param("tokens", torch.float32, marks=pytest.mark.slow),
    ],
)
def test_accumulated_batches_give_the_update_of_one_large_batch(task, dtype, tmp_path):
    examples, collator, kind, loss, labels = TASKS[task]
    given = (examples(), collator, kind, compute_loss_func(loss), dtype)
    whole, *parts = (updates(tmp_path, batch, 8 // batch, *given, num_labels=labels) for batch in (8, 4, 1))
    assert whole.abs().max() > 1e-3
    for part in parts:
        assert (part - whole).norm() / whole.norm() < (1e-6 if dtype == torch.float32 else 1e-12)


def test_a_mean_of_means_would_not(tmp_path):
    examples, collator, kind, loss, labels = TASKS["tokens"]

    def mean_of_each_batch(outputs, labels, num_items_in_batch):
        return compute_loss_func(loss)(outputs, labels) * labels.shape[0] / 8

    given = (examples(), collator, kind, mean_of_each_batch)
    whole, parts = (updates(tmp_path, batch, 8 // batch, *given, num_labels=labels) for batch in (8, 2))
    assert (parts - whole).norm() / whole.norm() > 1e-2


def test_evaluation_gives_the_loss_of_the_labels(tmp_path):
    examples, collator, kind, loss, labels = TASKS["texts"]
    start = model(kind=kind, num_labels=labels)
    data = Dataset.from_list(examples())
    args = TrainingArguments(str(tmp_path), per_device_eval_batch_size=4, **QUIET)
    trainer = Trainer(start, args, eval_dataset=data, data_collator=collator, compute_loss_func=compute_loss_func(loss))
    found = trainer.evaluate()["eval_loss"]
    batch = collator(examples())
    with torch.no_grad():
        logits = start.eval()(input_ids=batch["input_ids"]).logits
    assert found == pytest.approx(float(sm.MatchingLoss(loss)(logits[:, 0], batch["labels"])), rel=1e-5)


# ----------------------------------------------------------------------------------------------------- stored teachers

K = 16


def sentences():
    made = []
    for i in range(8):
        ids = [3 + (5 * i + 3 * j) % 40 for j in range(3 + i % 4)]
        made.append({"input_ids": ids, "labels": [-100] * (1 + i % 2) + ids[1 + i % 2 :]})
    return made


def teacher_logits(ids):
    with torch.no_grad():
        return 10.0 * model(seed=7).eval()(input_ids=torch.tensor([ids])).logits[0]


def with_columns(example):
    stored = TopKTeacher.from_scores(teacher_logits(example["input_ids"]), K)
    parts = (stored.indices, stored.scores, stored.log_sum_exp)
    names = ("teacher_indices", "teacher_scores", "teacher_log_sum_exp")
    return {**example, **{name: part.tolist() for name, part in zip(names, parts, strict=True)}}


def padding_collator(side="right"):
    return DataCollatorForTokenClassification(tokenizer(padding_side=side), padding=True)


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_batch_carries_the_teacher_of_each_token(side):
    examples = [with_columns(example) for example in sentences()[:3]]
    batch = TeacherCollator(padding_collator(side))(examples)  # pads as its tokenizer does
    there = batch["attention_mask"] == 1
    teacher = TopKTeacher(
        batch["teacher_indices"], batch["teacher_scores"], batch["teacher_log_sum_exp"], len(VOCABULARY)
    )
    for row, example in enumerate(examples):
        full = teacher_logits(example["input_ids"]).log_softmax(-1)
        stored = teacher.log_probabilities[row][there[row]]
        torch.testing.assert_close(stored, full.gather(-1, teacher.indices[row][there[row]]))


def test_records_of_a_file_are_the_same_batch(tmp_path):
    examples = [with_columns(example) for example in sentences()[:3]]
    by_number = []
    with TeacherWriter(tmp_path / "teacher", classes=len(VOCABULARY), k=K, dtype="float32") as writer:
        for example in examples:
            scores = TopKTeacher.from_scores(teacher_logits(example["input_ids"]), K)
            plain = {name: example[name] for name in ("input_ids", "labels")}
            by_number.append({**plain, "teacher_records": list(writer.write(scores))})
    expected = TeacherCollator(padding_collator())(examples)
    batch = TeacherCollator(padding_collator(), TeacherReader(tmp_path / "teacher"))(by_number)
    needed = torch.nn.functional.pad(batch["labels"][:, 1:] != -100, (0, 1))
    known = [
        TopKTeacher(z["teacher_indices"], z["teacher_scores"], z["teacher_log_sum_exp"], len(VOCABULARY))
        for z in (expected, batch)
    ]
    assert torch.equal(known[0].indices[needed], known[1].indices[needed])
    torch.testing.assert_close(known[0].log_probabilities[needed], known[1].log_probabilities[needed])


def test_a_record_is_needed_where_the_next_label_counts(tmp_path):
    ids = [3, 4, 5, 6]
    with TeacherWriter(tmp_path / "teacher", classes=len(VOCABULARY), k=K) as writer:
        writer.write(TopKTeacher.from_scores(teacher_logits(ids), K))
    collate = TeacherCollator(padding_collator(), TeacherReader(tmp_path / "teacher"))
    example = {"input_ids": ids, "labels": [-100, -100, 5, 6]}
    batches = [collate([{**example, "teacher_records": records}]) for records in ([0, 1, 2, 3], [-1, 1, 2, 999])]
    for name in ("teacher_indices", "teacher_scores", "teacher_log_sum_exp"):
        assert torch.equal(batches[0][name][:, 1:3], batches[1][name][:, 1:3])
    with pytest.raises(ValueError, match="example 0 of the batch must have a record >= 0 at token 1, got -1"):
        collate([{**example, "teacher_records": [-1, -1, 2, 3]}])


def test_whole_numbers_are_not_rounded_to_half_precision():
    loss = compute_loss_func(sm.Identity())
    outputs = SequenceClassifierOutput(logits=torch.tensor([[1000.0]], dtype=torch.bfloat16))
    assert float(loss(outputs, torch.tensor([1003]))) == pytest.approx(4.5)


def test_modules_of_others_are_refused():
    with pytest.raises(TypeError, match=r"compute_loss_func: a module must be .* got MSELoss"):
        compute_loss_func(torch.nn.MSELoss())


def train_with_stored_teacher(folder, batch, accumulated, loss=CLIPPING, start=None, collator=None, **options):
    start = model().double() if start is None else start
    sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulated}
    trainer = StoredTeacherTrainer(
        start,
        TrainingArguments(str(folder), num_train_epochs=1, per_device_eval_batch_size=8, **sizes, **QUIET),
        train_dataset=Dataset.from_list([with_columns(example) for example in sentences()]),
        data_collator=TeacherCollator(padding_collator() if collator is None else collator),
        loss=loss,
        **options,
    )
    before = weights(start)
    trainer.train()
    return weights(trainer.model) - before, trainer


def test_a_stored_teacher_trains_as_the_full_one_does(tmp_path):
    found, trainer = train_with_stored_teacher(tmp_path, 8, 1)
    student = model().double()
    before = weights(student)
    losses, tokens = [], 0
    for example in sentences():
        full = teacher_logits(example["input_ids"]).double()
        assert TopKTeacher.from_scores(full, K).is_exact(CLIPPING).all()
        counted = torch.tensor(example["labels"][1:]) != -100
        logits = student(input_ids=torch.tensor([example["input_ids"]])).logits[0]
        losses.append(distillation_loss(logits[:-1][counted], full[:-1][counted], CLIPPING, reduction="sum"))
        tokens += int(counted.sum())
    loss = sum(losses) / tokens
    loss.backward()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(float(loss.detach()), rel=1e-5)
    torch.optim.SGD(student.parameters(), lr=QUIET["learning_rate"]).step()
    wanted = weights(student) - before
    assert (found - wanted).norm() / wanted.norm() < 1e-5  # columns of a dataset are float32


def test_texts_in_one_row_give_the_update_of_padded_ones(tmp_path):
    """DataCollatorWithFlattening starts positions anew with each text, whose first label does not count."""
    padded, packed = (
        train_with_stored_teacher(tmp_path, 4, 2, collator=collator)[0]
        for collator in (None, DataCollatorWithFlattening())
    )
    assert padded.abs().max() > 1e-3
    assert (packed - padded).norm() / padded.norm() < 1e-12


def test_a_row_of_texts_holds_the_rows_of_their_teachers(tmp_path):
    examples = [with_columns(example) for example in sentences()[:3]]
    batch = TeacherCollator(DataCollatorWithFlattening())(examples)
    assert batch["teacher_scores"].shape == (1, batch["input_ids"].shape[1], K)
    assert batch["teacher_indices"][0].tolist() == [row for example in examples for row in example["teacher_indices"]]
    with TeacherWriter(tmp_path / "teacher", classes=len(VOCABULARY), k=K, dtype="float32") as writer:
        by_number = []
        for example in examples:
            plain = {name: example[name] for name in ("input_ids", "labels")}
            scores = TopKTeacher.from_scores(teacher_logits(example["input_ids"]), K)
            by_number.append({**plain, "teacher_records": list(writer.write(scores))})
    stored = TeacherCollator(DataCollatorWithFlattening(), TeacherReader(tmp_path / "teacher"))(by_number)
    counted = torch.nn.functional.pad(stored["labels"][:, 1:] != -100, (0, 1))
    assert torch.equal(stored["teacher_indices"][counted], batch["teacher_indices"].sort(-1).values[counted])
    with pytest.raises(ValueError, match="one row of each example, or one of all, got 2 of 3"):
        TeacherCollator(lambda examples: {"input_ids": torch.zeros(2, 9)})(examples)


@pytest.mark.slow
def test_logits_that_pad_a_vocabulary_are_left_out(tmp_path):
    size = len(VOCABULARY)
    found, _ = train_with_stored_teacher(tmp_path, 8, 1)
    start = model()
    start.resize_token_embeddings(size + 5, mean_resizing=False)
    padded = start.double()
    trainer = train_with_stored_teacher(tmp_path, 8, 1, start=padded, vocab_size=size)[1]
    trained = trainer.model
    plain = model().double()
    for name, before in plain.named_parameters():
        before.data += trained.get_parameter(name).data[: len(before)] - before.data
    reference = weights(plain) - weights(model().double())
    assert (reference - found).norm() / found.norm() < 1e-12
    example = with_columns(sentences()[0])
    trainer._teacher = tuple(torch.tensor([column]) for column in list(example.values())[2:])
    outputs, labels = {"logits": torch.randn(1, len(example["labels"]), size + 5)}, torch.tensor([example["labels"]])
    expected = trainer._stored_teacher_loss(outputs, labels)
    trainer.vocab_size = None  # teachers from a file know their classes
    trainer.data_collator = TeacherCollator(padding_collator(), SimpleNamespace(classes=size))
    assert trainer._stored_teacher_loss(outputs, labels) == expected
    with pytest.raises(ValueError, match="StoredTeacherTrainer: vocab_size must be a whole number >= 1, got 0"):
        train_with_stored_teacher(tmp_path, 8, 1, vocab_size=0)


def test_accumulated_batches_of_a_stored_teacher_give_the_update_of_one_large_batch(tmp_path):
    whole, parts = (train_with_stored_teacher(tmp_path, batch, 8 // batch)[0] for batch in (8, 2))
    assert whole.abs().max() > 1e-3
    assert (parts - whole).norm() / whole.norm() < 1e-12


def test_a_fitted_loss_a_scaling_and_a_temperature_are_taken(tmp_path):
    chosen = fitted(TopKTeacher.from_scores(teacher_logits(list(range(3, 20))), K))
    _, trainer = train_with_stored_teacher(tmp_path, 8, 1, loss=chosen)
    assert trainer.distillation is chosen.loss
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] > 0
    scaling = sm.SmeLU(c=1.0).affine(beta=-4.0)
    usual, warmer = (train_with_stored_teacher(tmp_path, 8, 1, loss=scaling, temperature=t)[0] for t in (1.0, 2.0))
    assert not torch.allclose(usual, warmer)


def test_what_is_missing_in_a_batch_is_named(tmp_path):
    example = with_columns(sentences()[0])
    collate = TeacherCollator(padding_collator())
    with pytest.raises(ValueError, match="example 1 of the batch must have the column teacher_scores"):
        collate([example, {name: column for name, column in example.items() if name != "teacher_scores"}])
    with pytest.raises(ValueError, match="one row of teacher_log_sum_exp for each of its 3 tokens, got 2"):
        collate([{**example, "teacher_log_sum_exp": [0.0, 0.0]}])
    with pytest.raises(ValueError, match=r"must not shorten examples, got 2 tokens of 3. Shorten input_ids and"):
        TeacherCollator(lambda given: {"input_ids": torch.zeros(len(given), 2)})([example])
    with pytest.raises(TypeError, match=r"StoredTeacherTrainer: loss must be one of many classes, got MatchingLoss"):
        train_with_stored_teacher(tmp_path, 8, 1, loss=sm.MatchingLoss(sm.Sinh()))
    with pytest.raises(ValueError, match="padding_side must be 'right' or 'left', got 'middle'"):
        TeacherCollator(padding_collator(), padding_side="middle")
    _, trainer = train_with_stored_teacher(tmp_path, 8, 1)
    with pytest.raises(ValueError, match=r"must hold teacher_indices, got input_ids. Give data_collator=Teacher"):
        trainer.compute_loss(trainer.model, {"input_ids": torch.tensor([[3]])})
    batch = collate([example])
    del batch["labels"]
    with pytest.raises(ValueError, match=r"must hold labels, got none\. They say which tokens count"):
        trainer.compute_loss(trainer.model, batch)


# ---------------------------------------------------------------------------------------------- TRL's divergence


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("count", [None, torch.tensor(9.0)])
def test_the_standard_softmax_is_trls_forward_divergence(temperature, count):
    generator = torch.Generator().manual_seed(1)
    hidden, teacher_hidden = (torch.randn(2, 4, n, generator=generator) for n in (6, 8))
    head, teacher_head = (torch.randn(11, n, generator=generator) for n in (6, 8))
    bias, teacher_bias = (torch.randn(11, generator=generator) for _ in range(2))
    mask = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0]])
    ours = SimpleNamespace(distillation=sm.torch.MatchingLoss(sm.CompositeSoftmax(), canonicalise=True, kernels=False))
    options = {
        "num_items_in_batch": count, "teacher_lm_head_bias": teacher_bias, "student_logit_scale": 0.5,
        "teacher_logit_scale": 0.8, "student_final_logit_softcapping": None, "teacher_final_logit_softcapping": None,
        "temperature": temperature,
    }  # fmt: skip
    found = []
    for function in (
        _chunked_divergence_loss,
        lambda *given, **named: SelectiveDistillationTrainer._divergence(ours, *given, **named),
    ):
        leaves = [z.clone().requires_grad_() for z in (hidden, head, bias)]
        given = (leaves[0], teacher_hidden, leaves[1], teacher_head, mask, 0.0)
        value, entropy, tokens = function(*given, student_lm_head_bias=leaves[2], **options)
        value.backward()
        found.append((value.detach(), entropy, tokens, *(leaf.grad for leaf in leaves)))
    for theirs, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_a_batch_without_tokens_has_no_divergence():
    ours = SimpleNamespace(distillation=sm.torch.MatchingLoss(CLIPPING, canonicalise=True, kernels=False))
    hidden, head = torch.randn(1, 3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    given = (hidden, hidden.detach(), head, head.detach(), torch.zeros(1, 3, dtype=torch.long), 0.0)
    value, entropy, tokens = SelectiveDistillationTrainer._divergence(ours, *given)
    value.backward()
    assert (value.item(), entropy.item(), tokens.item()) == (0.0, 0.0, 0)
    assert not hidden.grad.any()


def test_a_trl_that_compares_models_otherwise_is_refused(monkeypatch):
    monkeypatch.setattr(DistillationTrainer, "_compute_loss", lambda *_: "the loss of another version")
    trainer = object.__new__(SelectiveDistillationTrainer)
    with pytest.raises(RuntimeError, match=r"must call _chunked_divergence_loss to compare models, got TRL 1\."):
        trainer._compute_loss(None, {}, None)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "trl.trainer", None)
    monkeypatch.delitem(sys.modules, "selmatch.trl")
    with pytest.raises(ImportError, match=r'selmatch.trl needs TRL and Transformers. .* pip install "selmatch\[llm\]"'):
        importlib.import_module("selmatch.trl")
