"""Losses in the trainers of Hugging Face: Transformers' own, and TRL's for preferences, rewards and distillation.

:func:`compute_loss_func` is for ``transformers.Trainer``; :class:`StoredTeacherTrainer` reads a teacher's best classes
from the batch. :class:`SelectiveDPOTrainer`, :class:`SelectiveRewardTrainer` and :class:`SelectiveDistillationTrainer`
are TRL's trainers with another loss: data, generation, reference models and logging stay TRL's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

try:
    import torch
    from transformers import Trainer
    from trl import __version__ as trl_version
    from trl.trainer import distillation_trainer
    from trl.trainer.distillation_trainer import DistillationTrainer
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer
    from trl.trainer.reward_trainer import RewardTrainer
except ImportError as error:
    raise ImportError(
        'selmatch.trl needs TRL and Transformers. Install them with: pip install "selmatch[llm]".'
    ) from error

from torch.distributed.tensor import DTensor

from selmatch.alignment import PreferenceLoss, displacement, log_ratio_margins, reward_loss
from selmatch.curve import Curve
from selmatch.distillation import Fitted, distillation_loss, loss_of_classes
from selmatch.losses import MatchingLoss as CoreLoss
from selmatch.parameters import number
from selmatch.sparse_teachers import TopKTeacher
from selmatch.torch import MatchingLoss, linear_matching_loss

__all__ = [
    "SelectiveDPOTrainer",
    "SelectiveDistillationTrainer",
    "SelectiveRewardTrainer",
    "StoredTeacherTrainer",
    "TeacherCollator",
    "compute_loss_func",
]

#: the label of what does not count, in the Trainer's count of items too
_IGNORED = -100
#: less than a log-sum-exp of 0, so that probabilities add up to less than 1
_UNLIKELY = 20.0
#: rows of logits that exist at a time when the student's entropy is logged
_ROWS = 1024


# ------------------------------------------------------------------------------------------------ transformers.Trainer


def compute_loss_func(loss: Any) -> Callable[..., torch.Tensor]:
    """A loss for ``Trainer(compute_loss_func=...)``: a model's logits against labels that are real numbers.

    Labels have the shape of the logits; a last axis of a single logit may be missing. Labels of -100 do not count.
    Losses are divided by the Trainer's ``num_items_in_batch``, so that accumulated batches and several processes give
    the gradient of one large batch. For losses of many classes (on the last axis) it is taken as the count of labels,
    and divided by the number of classes.

    Parameters
    ----------
    loss : MatchingLoss, potential, curve or module
        What to compare with; a module (:class:`selmatch.torch.MatchingLoss`) brings its own options, such as
        ``canonicalise=True`` for labels that are a teacher's logits.

    Examples
    --------
    >>> import torch
    >>> from transformers.modeling_outputs import SequenceClassifierOutput
    >>> from selmatch.trl import compute_loss_func
    >>> loss = compute_loss_func(Sinh())
    >>> outputs = SequenceClassifierOutput(logits=torch.tensor([[1.0], [2.0], [0.0]]))
    >>> loss(outputs, torch.tensor([0.5, 2.5, -100.0]), num_items_in_batch=torch.tensor(2))
    tensor(0.4050)
    """
    if isinstance(loss, torch.nn.Module) and not isinstance(loss, MatchingLoss):
        raise TypeError(
            f"compute_loss_func: a module must be a selmatch.torch.MatchingLoss, got {type(loss).__name__}. "
            "Give the Trainer a function of its own."
        )
    module: Any = loss if isinstance(loss, MatchingLoss) else MatchingLoss(loss)
    return _LabelLoss(module, module.loss.vector)


@dataclass(frozen=True)
class _LabelLoss:
    """A loss that the Trainer calls with outputs, labels and the count of all labels of a step."""

    module: Any
    vector: bool

    def __call__(self, outputs: Any, labels: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        logits = _logits_of(outputs)
        labels = _fitting_labels(labels, logits)
        logits = logits.reshape(labels.shape)
        items = _item_count(num_items_in_batch, logits)
        if self.vector and items is not None:
            items = items / logits.shape[-1]
        return self.module.to(logits.device)(logits, labels, where=labels != _IGNORED, num_items=items)


def _logits_of(outputs: Any) -> torch.Tensor:
    """The logits of a model that was given no labels: by name, or the first of a tuple."""
    if isinstance(outputs, Mapping):
        return outputs["logits"]
    return outputs[0] if isinstance(outputs, tuple) else outputs


def _fitting_labels(labels: Any, logits: torch.Tensor) -> torch.Tensor:
    if labels is None:
        raise ValueError("compute_loss_func: the batch must hold labels, got none. Name the column labels.")
    shapes = (logits.shape, logits.shape[:-1]) if logits.shape[-1] == 1 else (logits.shape,)
    if labels.shape not in shapes:
        wanted = " or ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"compute_loss_func: labels must have shape {wanted}, got {tuple(labels.shape)}.")
    labels = labels.to(logits.device)
    return labels if labels.is_floating_point() else labels.float()  # half precision cannot hold whole numbers


def _item_count(num_items: Any, logits: torch.Tensor) -> Any:
    """The Trainer's count as a number that can be divided by: 1 where nothing counts, once if it is repeated."""
    if num_items is None:
        return None
    return torch.as_tensor(num_items, device=logits.device).reshape(-1)[0].clamp(min=1)


# --------------------------------------------------------------------------------------------------- stored teachers

_COLUMNS = ("teacher_indices", "teacher_scores", "teacher_log_sum_exp")
_RECORDS = "teacher_records"


@dataclass
class TeacherCollator:
    """Makes batches that carry the stored teacher of each token, for :class:`StoredTeacherTrainer`.

    Each example has one row of the teacher for each of its tokens, row t for what follows token t: in the columns
    ``teacher_indices`` [tokens, k], ``teacher_scores`` [tokens, k] and ``teacher_log_sum_exp`` [tokens]; or by number
    in a column ``teacher_records`` [tokens], for ``teachers``. Row t counts where label t + 1 does: the last token of a
    prompt needs its row, the last token of a text does not. Records of rows that do not count may be anything, also -1.

    Parameters
    ----------
    collator : callable
        Makes the rest of the batch from the examples without these columns: ``input_ids``, ``labels`` and so on. It
        pads examples to one length, or puts them into one row, as ``DataCollatorWithFlattening`` does.
    teachers : TeacherReader, optional
        Whatever gives a :class:`~selmatch.sparse_teachers.TopKTeacher` for an array of numbers of records.
    padding_side : {"right", "left"}, optional
        Where the collator pads; by default where its ``tokenizer`` does, and on the right if it has none.

    Examples
    --------
    >>> from transformers import default_data_collator
    >>> from selmatch.trl import TeacherCollator
    >>> rows = {"teacher_indices": [[3, 5], [0, 1]], "teacher_scores": [[2.0, 1.0], [0.5, 0.0]]}
    >>> example = {"input_ids": [7, 3], "labels": [7, 3], **rows, "teacher_log_sum_exp": [2.5, 1.5]}
    >>> batch = TeacherCollator(default_data_collator)([example, example])
    >>> {name: tuple(column.shape) for name, column in batch.items() if name.startswith("teacher")}
    {'teacher_indices': (2, 2, 2), 'teacher_scores': (2, 2, 2), 'teacher_log_sum_exp': (2, 2)}
    """

    collator: Callable[[list[dict[str, Any]]], Any]
    teachers: Any = None
    padding_side: str | None = None

    def __post_init__(self) -> None:
        if self.padding_side is None:
            self.padding_side = getattr(getattr(self.collator, "tokenizer", None), "padding_side", "right")
        if self.padding_side not in ("right", "left"):
            raise ValueError(f"TeacherCollator: padding_side must be 'right' or 'left', got {self.padding_side!r}.")

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        columns = _COLUMNS if self.teachers is None else (_RECORDS,)
        for place, example in enumerate(examples):
            _require_rows(place, example, columns)
        taken = (*_COLUMNS, _RECORDS)
        batch = dict(self.collator([{k: v for k, v in example.items() if k not in taken} for example in examples]))
        parts = [self._arranged(name, examples, *batch["input_ids"].shape) for name in columns]
        if self.teachers is not None:
            stored = self.teachers[_needed_records(parts[0], batch.get("labels")).numpy()]
            parts = [torch.as_tensor(part) for part in (stored.indices, stored.scores, stored.log_sum_exp)]
        return {**batch, **dict(zip(_COLUMNS, parts, strict=True))}

    def _arranged(self, name: str, examples: Sequence[Mapping[str, Any]], rows: int, length: int) -> torch.Tensor:
        """A column of all examples, as the collator has arranged their tokens: in rows of their own, or in one row."""
        parts = [torch.as_tensor(example[name]) for example in examples]
        if rows == 1:
            parts = [torch.cat(parts)]
        if len(parts) != rows:
            raise ValueError(
                f"TeacherCollator: the collator must make one row of each example, or one of all, got {rows} of "
                f"{len(examples)}."
            )
        return torch.stack([self._padded(name, part, length) for part in parts])

    def _padded(self, name: str, part: torch.Tensor, length: int) -> torch.Tensor:
        """Rows up to a length; what is added does not count, but must be what a teacher can have."""
        if len(part) > length:
            raise ValueError(
                f"TeacherCollator: the collator must not shorten examples, got {length} tokens of {len(part)}. "
                "Shorten input_ids and the teacher's rows together, before."
            )
        added = part.new_zeros(length - len(part), *part.shape[1:])
        if name == "teacher_indices":
            added = added + torch.arange(part.shape[1], dtype=part.dtype)
        if name == "teacher_scores":
            added = added - _UNLIKELY
        return torch.cat((part, added) if self.padding_side == "right" else (added, part))


def _needed_records(records: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
    """Numbers of records, the first one where none is needed."""
    if labels is None:
        return records.clamp(min=0)
    needed = _followed(labels)
    missing = (needed & (records < 0)).nonzero()
    if len(missing):
        example, token = missing[0].tolist()
        raise ValueError(
            f"TeacherCollator: example {example} of the batch must have a record >= 0 at token {token}, "
            f"got {int(records[example, token])}. Row t of the teacher is for label t + 1, which counts."
        )
    return torch.where(needed, records, 0)


def _followed(labels: torch.Tensor) -> torch.Tensor:
    """Which tokens are followed by a label that counts; the last one is followed by nothing."""
    return torch.nn.functional.pad(labels[:, 1:] != _IGNORED, (0, 1), value=False)


def _require_rows(number: int, example: Mapping[str, Any], columns: Sequence[str]) -> None:
    tokens = len(example["input_ids"])
    for name in columns:
        if name not in example:
            raise ValueError(
                f"TeacherCollator: example {number} of the batch must have the column {name}, "
                f"got {', '.join(example)}. Records of a file need teachers=TeacherReader(...)."
            )
        if len(example[name]) != tokens:
            raise ValueError(
                f"TeacherCollator: example {number} of the batch must have one row of {name} for each of its "
                f"{tokens} tokens, got {len(example[name])}."
            )


class StoredTeacherTrainer(Trainer):
    """``transformers.Trainer`` for distillation from a stored teacher: offline, with no teacher in memory.

    Batches come from a :class:`TeacherCollator`; labels are those of language modelling, tokens and -100 for what does
    not count. The model's logits at token t are compared with the teacher's row t where label t + 1 counts. As with
    :func:`compute_loss_func`, accumulation and several processes give the gradient of one large batch.

    Parameters
    ----------
    *args, **kwargs
        As for ``transformers.Trainer``.
    loss : CompositeSoftmax, MatchingLoss, curve or Fitted
        What students are compared with (:func:`selmatch.distillation.distillation_loss`); a scaling that is 0 below a
        cut-off makes the stored classes exact.
    temperature : float
        At which the teacher was stored: divides the model's logits.
    vocab_size : int, optional
        The number of classes that the teacher was stored with; further logits of the model, which pad its vocabulary,
        are left out. By default that of the collator's teachers, else that of the model's logits.
    """

    def __init__(
        self, *args: Any, loss: Any, temperature: float = 1.0, vocab_size: int | None = None, **kwargs: Any
    ) -> None:
        self.distillation = _many_classes("StoredTeacherTrainer", loss)
        self.temperature = temperature
        if vocab_size is not None and (
            isinstance(vocab_size, bool) or not isinstance(vocab_size, int) or vocab_size < 1
        ):
            raise ValueError(f"StoredTeacherTrainer: vocab_size must be a whole number >= 1, got {vocab_size!r}.")
        self.vocab_size = vocab_size
        self._teacher: tuple[torch.Tensor, ...] = ()
        super().__init__(*args, compute_loss_func=self._stored_teacher_loss, **kwargs)

    def _set_signature_columns_if_needed(self) -> None:
        known = self._signature_columns is not None
        super()._set_signature_columns_if_needed()
        if not known and self._signature_columns is not None:
            self._signature_columns = [*self._signature_columns, *_COLUMNS, _RECORDS]

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The Trainer's own, for which the batch's teacher is put aside."""
        missing = [name for name in _COLUMNS if name not in inputs]
        if missing:
            raise ValueError(
                f"StoredTeacherTrainer: the batch must hold {missing[0]}, got {', '.join(inputs)}. "
                "Give data_collator=TeacherCollator(...)."
            )
        self._teacher = tuple(inputs.pop(name) for name in _COLUMNS)
        return super().compute_loss(model, inputs, *args, **kwargs)

    def _stored_teacher_loss(self, outputs: Any, labels: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        if labels is None:
            raise ValueError("StoredTeacherTrainer: the batch must hold labels, got none. They say which tokens count.")
        logits = _logits_of(outputs)
        read = getattr(getattr(self.data_collator, "teachers", None), "classes", None)
        classes = self.vocab_size or read or logits.shape[-1]
        logits = logits[..., :classes]
        teacher = TopKTeacher(*(part.to(logits.device) for part in self._teacher), classes=classes)
        items = _item_count(num_items_in_batch, logits)
        logits = logits if self.temperature == 1.0 else logits / self.temperature
        return distillation_loss(
            logits, teacher, self.distillation, where=_followed(labels.to(logits.device)), num_items=items
        )


def _many_classes(who: str, loss: Any) -> Any:
    """The loss of one that was fitted to a teacher, or with a curve as its scaling."""
    return loss_of_classes(who, loss.loss if isinstance(loss, Fitted) else loss)


# ---------------------------------------------------------------------------------------------------------------- TRL


@contextlib.contextmanager
def _outputs_of(module: torch.nn.Module) -> Iterator[list[Any]]:
    """What a module returns while this lasts, in order."""
    seen: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _arguments, output: seen.append(output))
    try:
        yield seen
    finally:
        handle.remove()


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute that has another value while this lasts."""
    usual = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, usual)


class SelectiveDPOTrainer(DPOTrainer):
    """TRL's ``DPOTrainer`` with any loss of log-ratio margins: :mod:`selmatch.alignment`.

    All else is TRL's, its metrics included; ``displacement/...`` is logged beside them. The loss takes the place of
    TRL's "sigmoid" in ``DPOConfig(loss_type=...)``, with its weight, so that others may be added:
    ``loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.1]``.

    Parameters
    ----------
    *args, **kwargs
        As for ``trl.DPOTrainer``.
    preference : PreferenceLoss
        The loss of margins, as of ``selmatch.alignment.dpo()`` or ``selective(...)``.
    margin_scale : float, optional
        What differences of log-ratios are multiplied by: beta of the configuration. 1.0 for ``ipo(beta)``.
    length_normalised : bool
        Divide the log-ratios by the number of tokens, as TRL does for IPO.
    """

    def __init__(
        self,
        *args: Any,
        preference: Any,
        margin_scale: float | None = None,
        length_normalised: bool = False,
        **kwargs: Any,
    ) -> None:
        who = type(self).__name__
        if not isinstance(preference, PreferenceLoss):
            raise TypeError(
                f"{who}: preference must be a PreferenceLoss, got {preference!r}. "
                "Try selmatch.alignment.selective(...), or PreferenceLoss(link, target_margin=...)."
            )
        if margin_scale is not None:
            margin_scale = number(who, "margin_scale", margin_scale, above=0.0)
        for given in (*args, *kwargs.values()):
            if isinstance(given, DPOConfig):  # before data and references are prepared
                _require_plain_dpo(given)
        super().__init__(*args, **kwargs)
        self.preference = preference
        self.margin_scale = self.beta if margin_scale is None else margin_scale
        self.length_normalised = length_normalised
        place = self.loss_types.index("sigmoid")
        self.preference_weight = self.loss_weights[place]
        # TRL's own "sigmoid" is computed and counts nothing
        self.loss_weights = [0.0 if i == place else weight for i, weight in enumerate(self.loss_weights)]

    def _compute_loss(self, model: Any, inputs: Any, return_outputs: bool) -> Any:
        inputs = self._with_reference(inputs)
        with _outputs_of(model) as seen, _replaced(self, "precompute_ref_logps", True):
            result = super()._compute_loss(model, inputs, return_outputs)
        chosen, rejected = self._log_probabilities(seen[0], inputs)
        references = inputs["ref_chosen_logps"], inputs["ref_rejected_logps"]
        self._log_displacement(model, chosen, references[0], rejected, references[1])
        margins = log_ratio_margins(
            chosen, rejected, *references, beta=self.margin_scale, lengths=self._lengths(inputs)
        )
        loss = self.preference_weight * self.preference(margins)
        return (result[0] + loss, result[1]) if return_outputs else result + loss

    def _with_reference(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The batch with the reference's log-probabilities: TRL's, computed here unless they came with the data."""
        if self.precompute_ref_logps:
            return inputs
        reference = self.model if self.ref_model is None else self.ref_model
        chosen, rejected = self.compute_ref_log_probs(reference, inputs)
        return {**inputs, "ref_chosen_logps": chosen, "ref_rejected_logps": rejected}

    @staticmethod
    def _log_probabilities(outputs: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        """Of the chosen and of the rejected answers."""
        tokens = inputs["completion_mask"].shape[1] - 1
        return outputs.log_probs[:, -tokens:].sum(dim=1).chunk(2)

    def _lengths(self, inputs: dict[str, Any]) -> Any:
        return inputs["completion_mask"].sum(dim=1).chunk(2) if self.length_normalised else None

    def _log_displacement(self, model: torch.nn.Module, *log_probabilities: torch.Tensor) -> None:
        found = displacement(*(self.accelerator.gather(part.detach()) for part in log_probabilities))
        metrics = self._metrics["train" if model.training else "eval"]
        for name in ("chosen_log_ratio", "chosen_fell", "displaced"):  # margins and accuracies are among TRL's
            metrics[f"displacement/{name}"].append(float(getattr(found, name)))


def _require_plain_dpo(args: Any) -> None:
    """Refuse options that change TRL's margins or its "sigmoid" itself, of which the other loss would know nothing."""
    who = "SelectiveDPOTrainer"
    kinds = [args.loss_type] if isinstance(args.loss_type, str) else list(args.loss_type)
    if kinds.count("sigmoid") != 1:
        raise ValueError(
            f"{who}: loss_type must name 'sigmoid' once, whose place the loss takes, got {args.loss_type!r}."
        )
    if args.label_smoothing:
        raise ValueError(
            f"{who}: label_smoothing must be 0, got {args.label_smoothing}. "
            "Give preference=conservative_dpo(label_smoothing)."
        )
    for name, usual in (("use_weighting", False), ("ld_alpha", None), ("f_divergence_type", "reverse_kl")):
        given = getattr(args, name)
        if given != usual:
            raise ValueError(f"{who}: {name} must be {usual!r}, got {given!r}. It changes TRL's own losses only.")


class SelectiveRewardTrainer(RewardTrainer):
    """TRL's ``RewardTrainer`` with any loss of differences of rewards: :func:`selmatch.alignment.reward_loss`.

    All else is TRL's: its metrics, ``center_rewards_coefficient``, and a column ``margin`` of graded margins.

    Parameters
    ----------
    *args, **kwargs
        As for ``trl.RewardTrainer``.
    loss : PreferenceLoss, MatchingLoss or Curve, optional
        As for ``reward_loss``. None is Bradley and Terry's, as in TRL. A link needs the column ``margin``.
    """

    def __init__(self, *args: Any, loss: Any = None, **kwargs: Any) -> None:
        if not isinstance(loss, PreferenceLoss | CoreLoss | Curve | None):
            raise TypeError(
                f"SelectiveRewardTrainer: loss must be a PreferenceLoss, MatchingLoss or Curve, got {loss!r}."
            )
        super().__init__(*args, **kwargs)
        self.preference = loss

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """TRL's own is run for what it logs."""
        with _outputs_of(model) as seen:
            super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        chosen, rejected = seen[0].logits.squeeze(-1).chunk(2)
        loss = reward_loss(chosen, rejected, self.preference, margins=inputs.get("margin"))
        centring = getattr(self.args, "center_rewards_coefficient", None)
        if centring is not None:
            loss = loss + centring * torch.square(chosen + rejected).mean()
        return (loss, seen[0]) if return_outputs else loss


class SelectiveDistillationTrainer(DistillationTrainer):
    """TRL's ``DistillationTrainer`` with a selective loss: on the student's own answers, against a teacher model.

    Generation, masks and metrics are TRL's; ``beta`` of the configuration is not used, ``temperature`` is. Students and
    teachers are compared by their log-probabilities. Logits exist for a part of the tokens at a time only
    (:func:`selmatch.torch.linear_matching_loss`), so that models with capped logits (Gemma 2) are refused.

    Parameters
    ----------
    *args, **kwargs
        As for ``trl.DistillationTrainer``.
    loss : CompositeSoftmax, MatchingLoss, curve or Fitted
        What students are compared with; a curve is a scaling.
    """

    def __init__(self, *args: Any, loss: Any, **kwargs: Any) -> None:
        distillation = MatchingLoss(_many_classes("SelectiveDistillationTrainer", loss), canonicalise=True)
        super().__init__(*args, **kwargs)
        self.distillation = distillation
        for model in (self.model, self.teacher_model):
            config = self.accelerator.unwrap_model(model).config.get_text_config()
            if getattr(config, "final_logit_softcapping", None) is not None:
                raise ValueError(
                    "SelectiveDistillationTrainer: final_logit_softcapping of both models must be None, got "
                    f"{config.final_logit_softcapping}. Store the teacher, and use StoredTeacherTrainer."
                )

    def _compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        self._compared = False
        # what TRL calls here gets both models' hidden states and heads, and the mask
        with _replaced(distillation_trainer, "_chunked_divergence_loss", self._divergence):
            result = super()._compute_loss(*args, **kwargs)
        if not self._compared:  # rather an error than TRL's own loss
            raise RuntimeError(
                "SelectiveDistillationTrainer: TRL must call _chunked_divergence_loss to compare models, got "
                f"TRL {trl_version}, which does not. Install trl 1.16."
            )
        return result

    def _divergence(
        self,
        student_hidden_states: torch.Tensor,
        teacher_hidden_states: torch.Tensor,
        student_lm_head_weight: torch.Tensor,
        teacher_lm_head_weight: torch.Tensor,
        completion_mask: torch.Tensor,
        beta: float,
        *,
        num_items_in_batch: Any = None,
        student_lm_head_bias: torch.Tensor | None = None,
        teacher_lm_head_bias: torch.Tensor | None = None,
        student_logit_scale: float = 1.0,
        teacher_logit_scale: float = 1.0,
        temperature: float = 1.0,
        **softcapping: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """In place of TRL's: the loss, the sum of the student's entropies and the number of tokens."""
        self._compared = True
        counts = completion_mask != 0
        student = _Head.of_rows(student_hidden_states[counts], student_lm_head_weight, student_lm_head_bias)
        teacher = _Head.of_rows(teacher_hidden_states[counts], teacher_lm_head_weight, teacher_lm_head_bias)
        student = student.scaled(student_logit_scale / temperature)
        teacher = teacher.scaled(teacher_logit_scale / temperature)
        value = linear_matching_loss(
            student.hidden,
            student.weight,
            teacher.hidden,
            teacher.weight,
            self.distillation,
            bias=student.bias,
            teacher_bias=teacher.bias,
            num_items=num_items_in_batch,
        )
        return value, student.entropy(), counts.sum()


class _Head(NamedTuple):
    """Hidden states and the layer that makes logits of them."""

    hidden: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None

    @classmethod
    def of_rows(cls, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> _Head:
        """With weights that are plain tensors, also where they are sharded (FSDP2)."""

        def whole(part: Any) -> Any:
            return part.full_tensor().to(hidden.dtype) if isinstance(part, DTensor) else part

        return cls(hidden, whole(weight), whole(bias))

    def scaled(self, factor: float) -> _Head:
        """Its logits times a factor."""
        if factor == 1.0:
            return self
        return self._replace(hidden=self.hidden * factor, bias=None if self.bias is None else self.bias * factor)

    @torch.no_grad()
    def entropy(self) -> torch.Tensor:
        """The sum over all rows, for the log."""
        total = torch.zeros((), device=self.hidden.device)
        for rows in self.hidden.split(_ROWS):
            logits = torch.nn.functional.linear(rows, self.weight, self.bias).float()
            total += torch.distributions.Categorical(logits=logits, validate_args=False).entropy().sum()
        return total
