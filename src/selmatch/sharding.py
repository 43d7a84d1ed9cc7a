r"""Losses over classes that are split over processes, and means over rows that are.

A vocabulary is often split over the GPUs of a machine. A composite Softmax needs little to be exact there. With
:math:`H_r` the potential of the classes of process r, the potential of all is a plain Softmax one of those,
:math:`H = \gamma \log \sum_r e^{H_r / \gamma}`, and its loss is

.. math:: D_H(\hat s, s) = \gamma \, \mathrm{KL}(P \,\|\, \hat P) + \sum_r P_r D_{H_r}(\hat s_r, s_r)

with the shares :math:`P_r` of the processes. Each process computes its own loss with the core's formulas, and tells the
others a few numbers for each row.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

try:
    import torch
except ImportError as error:
    raise ImportError('selmatch.sharding needs PyTorch. Install it with: pip install "selmatch[torch]".') from error

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial

from selmatch import functions
from selmatch.arrays.autocast import full_precision
from selmatch.arrays.namespaces import is_number
from selmatch.batch import Batch, aligned_mask, check_reduction, prepare, prepare_untouched
from selmatch.composite import CompositeSoftmax
from selmatch.curves import Constant
from selmatch.losses import potential_of
from selmatch.parameters import has_plain_numbers

__all__ = ["global_count", "sharded_matching_loss"]

functions.register_loaded_frameworks()

_WHO = "sharded_matching_loss"
#: scores that are worked on at once, about thirty arrays of them: a cache is small, launches on a device are slow
_CHUNKS = {"cpu": 1 << 16}
_DEVICE_CHUNK = 1 << 24
#: what the processes of each group were seen to agree on, where looking means to wait for a device
_AGREED: WeakKeyDictionary[dist.ProcessGroup, set[tuple[int, ...]]] = WeakKeyDictionary()
#: PyTorch 2.13 has a new name for it, and warns of the old one
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


# ---------------------------------------------------------------------------------------------------- for users


@torch.compiler.disable(recursive=True)  # collectives would not be compiled
def sharded_matching_loss(
    student: torch.Tensor,
    teacher: torch.Tensor,
    loss: Any,
    *,
    mesh: DeviceMesh | None = None,
    group: dist.ProcessGroup | None = None,
    canonicalise: bool = True,
    where: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
    reduction: str = "mean",
    num_items: Any = None,
) -> torch.Tensor:
    """The loss of scores whose classes are split over processes: for vocabularies split by tensor parallelism.

    Same numbers as ``matching_loss(student, teacher, loss, canonicalise=...)`` has for all classes at once. All
    processes of the group call it together; the value is the same on all of them, and each gets the gradient of its
    own classes. Nothing is sent backwards, and no scores are: forwards there are two small gathers, of four and five
    numbers for each row (one gather, of three numbers, without ``canonicalise``). Shards that are no DTensors gather 32
    bytes before that, so that a mistake of one process is an error on all; for DTensors nothing is exchanged.

    Parameters
    ----------
    student, teacher : DTensor or tensor
        Predicted and observed scores of one shape, classes on the last axis: DTensors that are split there, or the
        classes that this process has, with ``group`` or ``mesh``. Processes may have different numbers of classes, or
        none. No gradient flows to the teacher.
    loss : MatchingLoss or CompositeSoftmax
        A composite Softmax loss. Its ``rho`` is that of all classes for DTensors, and that of the classes of this
        process otherwise.
    mesh : DeviceMesh, optional
        With one axis, over which classes are split. DTensors know theirs.
    group : ProcessGroup, optional
        Instead of a mesh.
    canonicalise : bool
        Turn both scores into log-probabilities first: for logits, which are only defined up to a shift.
    where : boolean tensor, optional
        Whole rows, the same on all processes, with or without an axis for the classes; or the classes of this process.
    weights : tensor, optional
        Not negative, of the rows, the same on all processes.
    reduction : {"mean", "sum", "none"}
        As for all losses.
    num_items : number or tensor without axes, optional
        Replaces the denominator of the mean: see :func:`global_count`. Needed where rows are split, too.

    Returns
    -------
    tensor
        A plain one. Half precision is computed in single; unreduced losses have the dtype of the student, sums and
        means at least single precision.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from selmatch.sharding import sharded_matching_loss
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> student, teacher = torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([[1.0, 1.0, -2.0]])
    >>> loss = CompositeSoftmax(Exp(), gamma=0.5)
    >>> print(sharded_matching_loss(student, teacher, loss, group=dist.group.WORLD))
    tensor(0.0918)
    >>> dist.destroy_process_group()
    """
    wish = (loss, canonicalise, reduction, num_items)
    if isinstance(student, DTensor) or isinstance(teacher, DTensor):
        asked = _Asked.checked(*wish)
        given = _from_dtensors(student, teacher, where, weights, asked, mesh, group)
    else:
        asked, given = _from_shards(student, teacher, where, weights, wish, mesh, group)
    return _evaluate(given, asked)


def global_count(counted: Any, group: dist.ProcessGroup | DeviceMesh | None = None, *, averaged: bool = False) -> Any:
    """The count of the rows of all processes, to be ``num_items`` of a mean over rows that are split over them.

    Parameters
    ----------
    counted : boolean tensor, tensor or number
        What this process has: the mask of its rows, or their number or total weight.
    group : ProcessGroup or DeviceMesh, optional
        Over which rows are split (default: all processes).
    averaged : bool
        True if gradients will be averaged over these processes, not added: then the count is divided by the number of
        processes. ``DistributedDataParallel`` and FSDP's ``fully_shard`` average.

    Returns
    -------
    tensor
        A number in double precision, which never widens a loss; that of nothing is 1, so that means over nothing are 0.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from selmatch.sharding import global_count
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> print(global_count(torch.tensor([True, False, True])))
    tensor(2., dtype=torch.float64)
    >>> dist.destroy_process_group()
    """
    who = "global_count"
    if isinstance(counted, DTensor):
        raise TypeError(f"{who}: counted must be what this process has, got a DTensor. Try counted.to_local().")
    members = _group_of(who, None, group) if isinstance(group, DeviceMesh) else group
    if not isinstance(counted, torch.Tensor):
        counted = torch.tensor(float(counted), device=_device_of(members))
    elif counted.ndim and counted.dtype != torch.bool:
        raise TypeError(f"{who}: counted must be a boolean mask or one number, got dtype {counted.dtype} with axes.")
    count = counted.detach().sum(dtype=torch.float64)
    dist.all_reduce(count, group=members)
    count = torch.where(count == 0.0, 1.0, count)
    return count / dist.get_world_size(members) if averaged else count


def _device_of(group: dist.ProcessGroup | None) -> str:
    """Where numbers must be for a group to add them."""
    return "cuda" if dist.get_backend(group) == "nccl" else "cpu"


# --------------------------------------------------------------------------------------------------------- evaluation


class _Asked(NamedTuple):
    """What is to be computed, checked."""

    potential: CompositeSoftmax
    canonicalise: bool
    reduction: str
    num_items: Any

    @classmethod
    def checked(cls, loss: Any, canonicalise: Any, reduction: Any, num_items: Any) -> _Asked:
        num_items = check_reduction(_WHO, reduction, num_items)
        _require_one_number(num_items)
        return cls(_composite(loss), bool(canonicalise), reduction, num_items)

    @property
    def fingerprint(self) -> int:
        """A positive number of 56 bits for the loss and the reduction; biases are those of a process."""
        potential = self.potential
        words = repr((potential.scaling, potential.gamma, potential.anchor, self.reduction))
        same_everywhere = re.sub(r" at 0x[0-9a-f]+", "", words)  # functions of users are elsewhere in each process
        return 1 + int.from_bytes(hashlib.blake2b(same_everywhere.encode(), digest_size=7).digest(), "big")


class _Given(NamedTuple):
    """What a process has, checked: scores and masks of its classes, weights of rows, its biases, and its group."""

    student: torch.Tensor
    teacher: torch.Tensor
    where: torch.Tensor | None
    weights: torch.Tensor | None
    rho: torch.Tensor | None
    group: dist.ProcessGroup


@dataclass(frozen=True)
class _Split:
    """A potential split over processes: that of the classes of this one, and that of the processes' potentials."""

    own: CompositeSoftmax
    joint: CompositeSoftmax
    group: dist.ProcessGroup
    canonicalise: bool

    @classmethod
    def of(cls, asked: _Asked, given: _Given) -> _Split:
        potential = asked.potential
        own = CompositeSoftmax(potential.scaling, potential.gamma, given.rho, check=False)
        # the anchor is a class of nobody: it counts once
        joint = CompositeSoftmax(Constant(), potential.gamma, anchor=potential.anchor)
        return cls(own, joint, given.group, asked.canonicalise)

    def gathered(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers of rows, [count, rows], of all processes: [count, rows, processes]."""
        processes = dist.get_world_size(self.group)
        everyone = numbers.new_empty(processes * numbers.numel())
        if numbers.numel():
            _all_gather(everyone, numbers.reshape(-1), group=self.group)
        return everyone.reshape(processes, *numbers.shape).movedim(0, -1)


def _evaluate(given: _Given, asked: _Asked) -> torch.Tensor:
    student, teacher, where, weights, *_ = given
    _, _, reduction, num_items = asked
    split = _Split.of(asked, given)
    shape = student.shape[:-1]
    with full_precision(student.device.type):
        count = math.prod(shape)
        flat = (None if z is None else z.reshape(count, z.shape[-1]) for z in (student, teacher.detach(), where))
        rows, counted = _ShardedRows.apply(*flat, split)  # type: ignore[misc]
        rows = rows.reshape(shape)
        mask = None if where is None else counted.reshape(*shape, 1)
        each = rows[..., None]
        batch = prepare_untouched(_WHO, each, each, rows.detach(), mask, weights, reduction, num_items, vector=True)
        value = batch.reduced(rows)
    return value.to(student.dtype) if reduction == "none" else value


class _ShardedRows(torch.autograd.Function):
    """The loss of each row, and whether it has any class, from scores [rows, classes of this process]."""

    @staticmethod
    def forward(
        ctx: Any, student: torch.Tensor, teacher: torch.Tensor, where: torch.Tensor | None, split: _Split
    ) -> tuple[torch.Tensor, torch.Tensor]:
        levels = _levels(split, student, teacher, where) if split.canonicalise else None
        joined = _joined(split, _statistics(split, student, teacher, where, levels))
        ctx.split = split
        ctx.save_for_backward(student, teacher, where, levels, joined.pull)
        ctx.mark_non_differentiable(joined.counted)
        ctx.set_materialize_grads(False)
        return joined.value, joined.counted

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(  # type: ignore[override]
        ctx: Any, *upstream: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, None, None, None]:
        student, teacher, where, levels, pull = ctx.saved_tensors
        if upstream[0] is None:
            return None, None, None, None
        gradient = torch.empty_like(student)
        with full_precision(student.device.type):
            for rows in _chunks(student):
                batch = _prepared(ctx.split, student, teacher, where, levels, rows)
                chunk = _gradient(ctx.split, batch, pull[:, rows, None])
                gradient[rows] = (chunk * upstream[0][rows, None]).to(student.dtype)
        return gradient, None, None, None


def _chunks(student: torch.Tensor) -> Iterator[slice]:
    """A few rows at a time; no rows at all where there are no classes."""
    count, classes = student.shape
    step = max(1, _CHUNKS.get(student.device.type, _DEVICE_CHUNK) // max(classes, 1))
    for first in range(0, count if classes else 0, step):
        yield slice(first, min(first + step, count))


def _wide(*scores: torch.Tensor) -> torch.dtype:
    """At least single precision."""
    return torch.float64 if any(z.dtype == torch.float64 for z in scores) else torch.float32


def _filled(found: list[torch.Tensor], nothing: tuple[float, ...], student: torch.Tensor, dtype: torch.dtype) -> Any:
    """Numbers of rows, [count, rows], from those of chunks; of no classes, what nothing stands for."""
    if found:
        return torch.cat(found, dim=-1)
    return torch.tensor(nothing, dtype=dtype, device=student.device)[:, None].repeat(1, student.shape[0])


# ---------------------------------------------------------------------------------------------- numbers of the rows


def _levels(split: _Split, student: torch.Tensor, teacher: torch.Tensor, where: torch.Tensor | None) -> torch.Tensor:
    """What log-probabilities are less than scores: [4, rows], a maximum and a logarithm for student and teacher.

    They stay apart, so that scores with a high level keep their digits.
    """
    dtype = _wide(student, teacher)
    found = []
    for rows in _chunks(student):
        there = None if where is None else where[rows]
        found.append(torch.stack([*_level(student[rows], there, dtype), *_level(teacher[rows], there, dtype)]))
    everyone = split.gathered(_filled(found, 2 * (-math.inf, -math.inf), student, dtype))
    merged = []
    for top, rest in (everyone[:2], everyone[2:]):
        highest = _finite(top.amax(-1, keepdim=True))
        merged += [highest[..., 0], torch.logsumexp(rest + (top - highest), dim=-1)]
    return torch.stack(merged)


def _level(z: torch.Tensor, there: torch.Tensor | None, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Maximum of scores, and the logarithm of the sum of exponentials beyond it; -inf where there are no classes."""
    z = z.to(dtype)
    if there is not None:
        z = torch.where(there, z, -math.inf)
    top = z.amax(-1, keepdim=True)
    return top[..., 0], torch.logsumexp(z - _finite(top), dim=-1)


def _finite(level: torch.Tensor) -> torch.Tensor:
    """A level that can be subtracted also where there are no classes."""
    return torch.where(level == -math.inf, 0.0, level)


def _prepared(
    split: _Split,
    student: torch.Tensor,
    teacher: torch.Tensor,
    where: torch.Tensor | None,
    levels: torch.Tensor | None,
    rows: slice,
) -> Batch:
    """Scores of some rows as the core computes with them."""
    dtype = _wide(student, teacher)
    s_hat, s = student[rows].to(dtype), teacher[rows].to(dtype)
    if levels is not None:
        top_hat, rest_hat, top, rest = levels[:, rows, None]
        s_hat, s = (s_hat - top_hat) - rest_hat, (s - top) - rest
    return prepare(_WHO, split.own, s_hat, s, None if where is None else where[rows], vector=True)


def _statistics(
    split: _Split,
    student: torch.Tensor,
    teacher: torch.Tensor,
    where: torch.Tensor | None,
    levels: torch.Tensor | None,
) -> torch.Tensor:
    """Of the classes of this process: the potential of each row, how far it moves, and its own loss; for
    log-probabilities, sums of the gradient and of the link, too.
    """
    found = []
    for rows in _chunks(student):
        batch = _prepared(split, student, teacher, where, levels, rows)
        x, xh, present = batch.s, batch.s_hat, batch.present
        u = xh - x
        loss, gradient = split.own.remainder_and_difference(x, u, xh, where=present)
        link = split.own.link(x, present)
        level = split.own.primitive(x, present)
        rise = split.own.primitive(xh, present) - level
        # a small rise has lost its digits: the loss and the linear part have not
        move = torch.where(rise.abs() + loss <= split.own.gamma, loss + (u * link).sum(-1), rise)
        if present is not None:
            level = torch.where(present.any(-1), level, -math.inf)
        sums = [gradient.sum(-1), link.sum(-1)] if split.canonicalise else []
        found.append(torch.stack([level, move, loss, *sums]))
    nothing = (-math.inf, 0.0, 0.0, *((0.0, 0.0) if split.canonicalise else ()))
    return _filled(found, nothing, student, _wide(student, teacher))


class _Joined(NamedTuple):
    """Of each row: its loss, whether it has any class, and what pulls at the gradient of this process (see below)."""

    value: torch.Tensor
    counted: torch.Tensor
    pull: torch.Tensor


def _joined(split: _Split, numbers: torch.Tensor) -> _Joined:
    """Numbers of all processes together."""
    level, move, loss, *sums = split.gathered(numbers)
    there = level != -math.inf
    level = torch.where(there, level, 0.0)
    moved = level + move
    value = split.joint.remainder(level, move, moved, there)
    share, share_hat = split.joint.prob(level, there), split.joint.prob(moved, there)
    step = split.joint.difference(level, move, moved, there)
    value = value + (share * loss).sum(-1)
    me = dist.get_rank(split.group)
    pull = [share[..., me], share_hat[..., me], step[..., me]]
    if sums:
        gradient, link = sums
        pull.append((share * gradient + step * (link + gradient)).sum(-1))
    return _Joined(value, there.any(-1), torch.stack(pull))


def _gradient(split: _Split, batch: Batch, pull: torch.Tensor) -> torch.Tensor:
    """The gradient of all with respect to the scores of this process: the move of share times link.

    ``pull`` holds the share of this process before and after, its step, and for log-probabilities the sum of the row's
    gradient, which goes back through them.
    """
    share, share_hat, step, *total = pull
    x, xh, present = batch.s, batch.s_hat, batch.present
    own = split.own.difference(x, xh - x, xh, where=present)
    link_hat = split.own.link(xh, present)
    near = step.abs() <= 0.5 * share
    gradient = torch.where(
        near, share * own + step * link_hat, share_hat * link_hat - share * split.own.link(x, present)
    )
    for lean in total:
        gradient = gradient - torch.exp(xh) * lean
    return gradient if present is None else torch.where(present, gradient, 0.0)


# ------------------------------------------------------------------------------------------------------------- checks


def _composite(loss: Any) -> CompositeSoftmax:
    if isinstance(loss, torch.nn.Module):
        raise TypeError(f"{_WHO}: loss must not be a module, got {type(loss).__name__}. Give module.loss, made once.")
    potential = potential_of(_WHO, loss)
    if not isinstance(potential, CompositeSoftmax):
        raise ValueError(f"{_WHO}: loss must be a composite Softmax loss, got {loss!r}. Try CompositeSoftmax(scaling).")
    if not all(map(has_plain_numbers, (potential.scaling, potential.gamma, potential.anchor))):
        raise ValueError(f"{_WHO}: the numbers of the loss must be plain numbers, got {loss!r}.")
    return potential


def _require_one_number(num_items: Any) -> None:
    if num_items is None or isinstance(num_items, float):
        return
    if not isinstance(num_items, torch.Tensor) or isinstance(num_items, DTensor):
        raise TypeError(f"{_WHO}: num_items must be a number or a plain tensor, got {type(num_items).__name__}.")
    if num_items.ndim or num_items.dtype == torch.bool or num_items.dtype.is_complex:
        raise ValueError(
            f"{_WHO}: num_items must be one real number without axes, got dtype {num_items.dtype} and shape "
            f"{tuple(num_items.shape)}. Try global_count(mask)."
        )


def _require_scores(student: Any, teacher: Any) -> None:
    for name, z in (("student", student), ("teacher", teacher)):
        if not isinstance(z, torch.Tensor):
            remedy = " Give the classes of this process of teacher.dense()." if hasattr(z, "log_sum_exp") else ""
            raise TypeError(f"{_WHO}: {name} must be a tensor, got {type(z).__name__}.{remedy}")
        if not z.dtype.is_floating_point:
            raise TypeError(f"{_WHO}: {name} must be floating point scores, got dtype {z.dtype}.")
    if student.ndim == 0 or student.shape != teacher.shape:
        raise ValueError(
            f"{_WHO}: student and teacher must have one shape, classes on the last axis, "
            f"got {tuple(student.shape)} and {tuple(teacher.shape)}."
        )
    if student.device != teacher.device:
        raise ValueError(f"{_WHO}: teacher must be on {student.device} as student is, got {teacher.device}.")


def _mask(where: Any, student: torch.Tensor) -> torch.Tensor | None:
    """A mask with all rows, and one or all classes of this process."""
    if where is None:  # without classes there is nothing that could count
        return None if student.shape[-1] else torch.zeros_like(student, dtype=torch.bool)
    if not isinstance(where, torch.Tensor) or where.dtype != torch.bool:
        got = f"dtype {where.dtype}" if isinstance(where, torch.Tensor) else type(where).__name__
        raise TypeError(f"{_WHO}: where must be a boolean tensor, got {got}.")
    where = aligned_mask(_WHO, where, tuple(student.shape), True)
    return where.expand(*student.shape[:-1], where.shape[-1] if where.ndim else 1)


def _require_weights(weights: Any, student: torch.Tensor) -> None:
    """Weights that fit the rows of shards."""
    if weights is None or is_number(weights):
        return
    if not isinstance(weights, torch.Tensor) or weights.dtype.is_complex:
        got = f"dtype {weights.dtype}" if isinstance(weights, torch.Tensor) else type(weights).__name__
        raise TypeError(f"{_WHO}: weights must be a tensor of real numbers, got {got}.")
    rows = tuple(student.shape[:-1])
    ends = zip(reversed(weights.shape), reversed(rows), strict=False)
    if weights.ndim > len(rows) or any(a not in (1, b) for a, b in ends):
        raise ValueError(f"{_WHO}: weights must have the shape {rows} of the rows, got {tuple(weights.shape)}.")
    if weights.ndim and weights.device != student.device:
        raise ValueError(f"{_WHO}: weights must be on {student.device} as student is, got {weights.device}.")


def _biases(rho: Any, first: int, student: torch.Tensor, classes: int, owner: str) -> torch.Tensor | None:
    """Those of the classes of this process, from the ``first`` on."""
    own = student.shape[-1]
    if rho is None or not own:
        return None
    if len(rho) != classes:
        raise ValueError(
            f"{_WHO}: rho of the loss must be that of the {classes} classes {owner}, got {len(rho)} numbers."
        )
    part = rho[first : first + own]
    return part if isinstance(part, torch.Tensor) else torch.tensor(part, dtype=torch.float64, device=student.device)


def _group_of(who: str, group: Any, mesh: DeviceMesh | None) -> dist.ProcessGroup:
    """The group of local shards."""
    if group is not None and mesh is not None:
        raise ValueError(f"{who}: group and mesh must not be given both. Leave one out.")
    if mesh is not None:
        if mesh.ndim != 1:
            names = f" Take one of its axes: mesh[{mesh.mesh_dim_names[-1]!r}]." if mesh.mesh_dim_names else ""
            raise ValueError(f"{who}: mesh must have one axis, got {mesh.ndim}.{names}")
        return mesh.get_group()
    if group is None:
        raise ValueError(
            f"{who}: group must be given with the shards of tensors, got None. "
            "Give mesh=..., or group=torch.distributed.group.WORLD for all processes; DTensors need neither."
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"{who}: group must be a ProcessGroup that this process is in, got {group!r}.")
    return group


# ------------------------------------------------------------------------------------------------------------- shards


def _from_shards(
    student: Any,
    teacher: Any,
    where: Any,
    weights: Any,
    wish: tuple[Any, ...],
    mesh: DeviceMesh | None,
    group: Any,
) -> tuple[_Asked, _Given]:
    """Shards of tensors; what is wrong on one process is an error on all of them, unless it is the group itself."""
    members = _group_of(_WHO, group, mesh)
    try:
        asked = _Asked.checked(*wish)
        given = _own_shards(student, teacher, where, weights, asked.potential, members)
    except Exception:  # whatever it is, the others are waiting to hear of it
        tensors = (z.device for z in (student, teacher) if isinstance(z, torch.Tensor))
        _gathered_header(_BROKEN, next(tensors, _device_of(members)), members)
        raise
    _require_agreement(asked, given)
    return asked, given


def _own_shards(
    student: Any, teacher: Any, where: Any, weights: Any, potential: CompositeSoftmax, group: dist.ProcessGroup
) -> _Given:
    for name, z in (("where", where), ("weights", weights)):
        if isinstance(z, DTensor):
            raise TypeError(f"{_WHO}: {name} must be plain as student is, got a DTensor. Try {name}.to_local().")
    _require_scores(student, teacher)
    _require_weights(weights, student)
    rho = _biases(potential.rho, 0, student, student.shape[-1], "of this process")
    return _Given(student, teacher, _mask(where, student), weights, rho, group)


#: the header of a process with a mistake: no fingerprint is 0
_BROKEN = (0, 0, 0, 0)


def _gathered_header(mine: tuple[int, ...], device: Any, group: dist.ProcessGroup) -> torch.Tensor:
    """The headers of all processes, [processes, 4]; on a device nobody has waited for them yet."""
    header = torch.tensor(mine, dtype=torch.int64, device=device)
    everyone = header.new_empty(len(mine) * dist.get_world_size(group))
    _all_gather(everyone, header, group=group)
    return everyone.reshape(-1, len(mine))


def _require_agreement(asked: _Asked, given: _Given) -> None:
    """An error if another process has a mistake, or if they would not talk about the same rows and the same loss."""
    student, group = given.student, given.group
    bits = 32 if _wide(student, given.teacher) == torch.float32 else 64
    mine = (asked.fingerprint, math.prod(student.shape[:-1]), bits, int(asked.canonicalise))
    everyone = _gathered_header(mine, student.device, group)
    if mine in _AGREED.get(group, ()):
        return
    prints, *differing = everyone.T.tolist()
    if 0 in prints:
        ranks = ", ".join(str(rank) for rank, print_ in enumerate(prints) if not print_)
        raise RuntimeError(
            f"{_WHO}: all processes must give arguments that fit, got an error on rank {ranks} of the group."
        )
    names = ("student must have as many rows", "scores must have the same precision", "canonicalise must be the same")
    for name, numbers in zip(names, differing, strict=True):
        if len(set(numbers)) > 1:
            raise ValueError(f"{_WHO}: {name} on all processes of the group, got {', '.join(map(str, numbers))}.")
    if len(set(prints)) > 1:
        others = ", ".join(str(rank) for rank, print_ in enumerate(prints) if print_ != mine[0])
        raise ValueError(
            f"{_WHO}: loss (but for rho) and reduction must be the same on all processes of the group, got "
            f"{asked.potential!r} and {asked.reduction!r} here, and others on rank {others}."
        )
    if student.device.type != "cpu":
        _AGREED.setdefault(group, set()).add(mine)


# ----------------------------------------------------------------------------------------------------------- DTensors


def _from_dtensors(
    student: Any,
    teacher: Any,
    where: Any,
    weights: Any,
    asked: _Asked,
    mesh: DeviceMesh | None,
    group: Any,
) -> _Given:
    """What this process has of DTensors, which know the shape of the whole: nothing is exchanged to check it.

    A mistake that all processes make is an error on all; one of a single process is an error there only.
    """
    potential = asked.potential
    for name, z in (("student", student), ("teacher", teacher)):
        if not isinstance(z, DTensor):
            raise TypeError(f"{_WHO}: student and teacher must both be DTensors, got {type(z).__name__} for {name}.")
    _require_scores(student, teacher)
    if group is not None:
        raise ValueError(f"{_WHO}: group must be left out for DTensors, which know theirs.")
    home = student.device_mesh
    if teacher.device_mesh != home or (mesh is not None and mesh != home):
        raise ValueError(
            f"{_WHO}: student, teacher and mesh must be on one mesh, got {home} and "
            f"{teacher.device_mesh if teacher.device_mesh != home else mesh}. Try teacher.redistribute(...)."
        )
    if student.placements != teacher.placements:
        raise ValueError(
            f"{_WHO}: teacher must be placed as student is, {student.placements}, got {teacher.placements}. "
            "Try teacher.redistribute(placements=student.placements)."
        )
    axis = _class_axis(student)
    split = [home.size(i) > 1 and i != axis and p.is_shard() for i, p in enumerate(student.placements)]
    if any(split) and asked.reduction == "mean" and asked.num_items is None:
        raise ValueError(
            f"{_WHO}: num_items must be given for a mean over rows that are split, got placements "
            f"{student.placements}. Try num_items=global_count(mask, mesh[...])."
        )
    own, members = student.to_local(), home.get_group(axis)
    first = 0
    if potential.rho is not None:
        first = _first_class(student.shape[-1], own.shape[-1], home.size(axis), home.get_local_rank(axis))
    return _Given(
        own,
        teacher.to_local(),
        _mask(_local("where", where, home), own),
        _local("weights", weights, home),
        _biases(potential.rho, first, own, student.shape[-1], "of all processes"),
        members,
    )


def _class_axis(student: DTensor) -> int:
    """The axis of the mesh over which classes are split."""
    placements, last = student.placements, student.ndim - 1
    axes = [i for i, p in enumerate(placements) if p.is_shard() and p.dim % student.ndim == last]  # type: ignore[attr-defined]
    if len(axes) != 1 or any(isinstance(p, Partial) for p in placements):
        raise ValueError(
            f"{_WHO}: student must be split on its last axis, the classes, by one axis of the mesh, got placements "
            f"{placements} for shape {tuple(student.shape)}. Try student.redistribute(placements=[Shard(-1)])."
        )
    return axes[0]


def _first_class(classes: int, own: int, processes: int, rank: int) -> int:
    """The number of the first class of this process; DTensors are split into equal parts, but for the last ones."""
    size = -(-classes // processes)
    first = min(rank * size, classes)
    if own != min(size, classes - first):
        raise ValueError(f"{_WHO}: with rho, DTensors must be split into equal parts, got {own} of {classes} classes.")
    return first


def _local(name: str, z: Any, home: DeviceMesh) -> Any:
    """What this process has of a mask, or of weights."""
    if not isinstance(z, DTensor):
        return z
    if z.device_mesh != home or any(isinstance(p, Partial) for p in z.placements):
        raise ValueError(f"{_WHO}: {name} must be on the mesh of student, {home}, got {z.device_mesh}, {z.placements}.")
    return z.to_local()
