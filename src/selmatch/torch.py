"""Losses as modules of PyTorch: their numbers are buffers or parameters, kernels run where there are some.

:class:`MatchingLoss` is for training loops, :func:`matching_loss` for everything else. Both give the numbers of the
core's losses; observed scores are constants. Of a teacher the best classes may be stored (:class:`TopKTeacher`);
:func:`linear_matching_loss` takes hidden states and heads, for scores that would fill the memory.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import torch
except ImportError as error:
    raise ImportError('selmatch.torch needs PyTorch. Install it with: pip install "selmatch[torch]".') from error

from torch._subclasses import FakeTensor

from selmatch import functions
from selmatch.arrays import pytrees
from selmatch.arrays.autocast import full_precision
from selmatch.batch import Batch, aligned_mask, check_reduction, paired_shape, prepare_untouched
from selmatch.composite import CompositeSoftmax
from selmatch.labels import require_score, shares_of
from selmatch.losses import Loss, loss_of
from selmatch.losses import MatchingLoss as _CoreLoss
from selmatch.parameters import has_plain_numbers, positive_names
from selmatch.sparse_teachers import TopKTeacher

if TYPE_CHECKING:  # loads on first use
    from selmatch.kernels.linear import linear_matching_loss

__all__ = ["MatchingLoss", "TopKTeacher", "linear_matching_loss", "matching_loss"]

functions.register_loaded_frameworks()

_WHO = "MatchingLoss"


def __getattr__(name: str) -> Any:
    if name != "linear_matching_loss":
        raise AttributeError(f"module 'selmatch.torch' has no attribute {name!r}")
    from selmatch.kernels.linear import linear_matching_loss

    globals()[name] = linear_matching_loss
    return linear_matching_loss


# ------------------------------------------------------------------------------------------- numbers as buffers


class _Numbers(torch.nn.Module):
    """The numbers of a loss or one of its parts under the names of its fields; parts with numbers are modules in turn.

    Numbers have double precision, as in the core, and keep it when a model is made half: in formulas they have no axes,
    so that they never widen scores. One that is trained is stored with an axis of length 1, since FSDP shards no
    parameters without axes; a positive one as its logarithm.
    """

    def __init__(self, instance: Any, path: str, trainable: Any) -> None:
        super().__init__()
        self._kind = type(instance)
        self._logarithms: frozenset[str] = frozenset()
        self._given: dict[str, Any] = {}
        self._fixed: dict[str, Any] = {}
        if isinstance(instance, tuple):
            self._structure = tuple(map(str, range(len(instance)))), ()
            values: Iterable[Any] = instance
        else:
            values, self._structure = pytrees.flatten(instance)
        positive = () if isinstance(instance, tuple) else positive_names(instance)
        for name, value in zip(self._structure[0], values, strict=True):
            place = f"{path}.{name}" if path else name
            if _is_number(value):
                self._keep(name, place, value, trainable, name in positive)
            elif _has_numbers(value):
                self.add_module(name, _Numbers(value, place, trainable))
            else:
                self._fixed[name] = value

    def _keep(self, name: str, place: str, value: Any, trainable: Any, positive: bool) -> None:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise TypeError(
                f"{_WHO}: {place} must be a number or a constant, got a tensor that requires a gradient. "
                f"Give a number and trainable={place!r}, or use matching_loss(s_hat, s, loss)."
            )
        self._given[name] = value
        number = torch.as_tensor(value, dtype=_dtype_of(value)).clone()
        if not trainable(name, place):
            self.register_buffer(name, number)
            return
        if positive and functions.is_number(value) and not value > 0:
            raise ValueError(f"{_WHO}: {place} must be > 0 to be trained, got {value}.")
        self._logarithms |= {name} if positive else set()
        number = torch.atleast_1d(number.log() if positive else number)
        self.register_parameter(self._stored_name(name), torch.nn.Parameter(number))

    def _stored_name(self, name: str) -> str:
        return f"log_{name}" if name in self._logarithms else name

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Give all numbers the values that the loss was made with: after ``to_empty``, for models made without data."""
        for name, value in self._given.items():
            stored: Any = getattr(self, self._stored_name(name))
            number = torch.as_tensor(value, dtype=_dtype_of(value), device=stored.device)
            stored.copy_((number.log() if name in self._logarithms else number).reshape(stored.shape))
        for part in self._parts():
            part.reset_parameters()

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_logarithms", ()):
            return self._number(name)
        return super().__getattr__(name)

    def _number(self, name: str) -> Any:
        if name in self._buffers:
            return self._buffers[name]
        return self._unlogged(name).reshape(_shape_of(self._given[name]))

    def _unlogged(self, name: str) -> Any:
        """A number in the shape in which it is stored."""
        stored: Any = getattr(self, self._stored_name(name))
        return torch.exp(stored) if name in self._logarithms else stored

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any, **options: Any) -> None:
        """Numbers of a trained loss fit one that is not, and the other way round; and those stored without axes."""
        for name in self._given:
            stored: Any = getattr(self, self._stored_name(name))
            mine = prefix + self._stored_name(name)
            other = prefix + (name if name in self._logarithms else f"log_{name}")
            if mine not in state_dict and other in state_dict:
                number = state_dict.pop(other)
                state_dict[mine] = number.log() if name in self._logarithms else number.exp()
            found = state_dict.get(mine)
            if isinstance(found, torch.Tensor) and found.numel() == stored.numel() == 1:
                state_dict[mine] = found.reshape(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest, **options)

    def _plain(self, name: str) -> Any:
        """A number as a Python number, where it has a value that this process knows."""
        number = self._unlogged(name).detach()
        if number.is_meta or isinstance(number, FakeTensor) or hasattr(number, "full_tensor"):
            return number
        number = number.reshape(_shape_of(self._given[name]))
        if isinstance(self._given[name], tuple):
            return tuple(number.tolist())
        return number if number.ndim else number.item()

    def _parts(self) -> Iterator[_Numbers]:
        yield from self._modules.values()  # type: ignore[misc]

    def _assembled(self, number: Callable[[_Numbers, str], Any] | None = None) -> Any:
        """The object of the core, with tensors as its numbers, or what else is asked for."""
        values = []
        for name in self._structure[0]:
            if name in self._fixed:
                values.append(self._fixed[name])
            elif name in self._modules:
                values.append(self._modules[name]._assembled(number))  # type: ignore[union-attr]
            else:
                values.append(self._number(name) if number is None else number(self, name))
        return tuple(values) if self._kind is tuple else pytrees.rebuild(self._kind, self._structure, values)

    def _all_numbers(self) -> Iterator[torch.Tensor]:
        """All numbers, in the order of the tree."""
        for name in self._structure[0]:
            if name in self._modules:
                yield from self._modules[name]._all_numbers()  # type: ignore[union-attr]
            elif name not in self._fixed:
                yield self._number(name)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        def placed(number: torch.Tensor) -> torch.Tensor:
            try:
                moved = fn(number)
            except TypeError:  # Apple GPUs have no double precision
                return fn(number.float())
            return moved if moved.dtype == number.dtype else number.to(moved.device)

        return super()._apply(placed, recurse)


def _is_number(value: Any) -> bool:
    """Whether a leaf is a number, a tuple of them (rho) or a tensor."""
    if isinstance(value, tuple):
        return bool(value) and all(map(functions.is_number, value))
    return functions.is_number(value) or isinstance(value, torch.Tensor)


def _has_numbers(value: Any) -> bool:
    if _is_number(value):
        return True
    if isinstance(value, tuple):
        return any(map(_has_numbers, value))
    if not dataclasses.is_dataclass(value) or getattr(value, "only_a_formula", False):
        return False  # where a formula bends was measured with its numbers: they stay as they are
    return any(map(_has_numbers, pytrees.flatten(value)[0]))


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Where the numbers of a loss are."""
    if _is_number(value):
        yield path
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from _paths(part, f"{path}.{i}")
    elif _has_numbers(value):
        parts, (names, _) = pytrees.flatten(value)
        for name, part in zip(names, parts, strict=True):
            yield from _paths(part, f"{path}.{name}" if path else name)


def _shape_of(value: Any) -> tuple[int, ...]:
    return (len(value),) if isinstance(value, tuple) else tuple(getattr(value, "shape", ()))


def _dtype_of(value: Any) -> torch.dtype:
    """Double precision, but for a tensor with axes, which would widen scores."""
    return value.dtype if isinstance(value, torch.Tensor) and value.ndim else torch.float64


# ------------------------------------------------------------------------------------------------------- the module


class MatchingLoss(_Numbers):
    r"""A loss as a module: drop it into a training loop, move it, save it, compile it.

    .. math:: L(\hat s, s) = H(\hat s) - H(s) - (\hat s - s) h(s), \qquad \nabla L = h(\hat s) - h(s)

    Same numbers as the loss itself. Its numbers (alpha, beta, gamma, ...) are buffers, or parameters if they are
    named in ``trainable``: they follow the model to its device, but not into half precision, and a compiled model is
    not compiled again when they change.

    Parameters
    ----------
    loss : MatchingLoss, potential or curve
        The loss; also ``CrossEntropy`` and ``ReweightedSquare``.
    reduction : {"mean", "sum", "none"}
        As for the loss itself; a call may ask for another one.
    dim : int
        The axis of the classes, for losses of many classes.
    trainable : sequence of str
        Numbers to learn: by name ("alpha": all of that name), or by the name in the ``state_dict``
        ("potential.scaling.alpha"). Positive ones stay positive: their logarithm is learned. Your own curves name
        theirs in the class attributes ``trainable`` and ``positive``.
    canonicalise : bool
        Turn both scores into log-probabilities first, over the classes that are present: for logits, which are only
        defined up to a shift. The loss is convex in the log-probabilities; in the logits it need not be
        (``certify.convex(module)`` looks).
    overwrite : bool
        Let kernels write the gradient over s_hat, to save memory; s_hat must not be needed any more.
    kernels : bool or None
        None takes GPU kernels where there are some, False never does, True insists.

    Examples
    --------
    >>> import torch
    >>> import selmatch.torch
    >>> loss = selmatch.torch.MatchingLoss(Sigmoid().affine(alpha=2.0, beta=1.5), trainable="alpha")
    >>> print(loss)
    MatchingLoss(Sigmoid().affine(alpha=2.0, beta=1.5), trainable=('potential.alpha',))
    >>> value = loss(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 3.0]))
    >>> value.backward()
    >>> print(value.detach(), loss.potential.log_alpha.grad)
    tensor(0.0592) tensor([-0.0318], dtype=torch.float64)
    """

    def __init__(
        self,
        loss: Any,
        *,
        reduction: str = "mean",
        dim: int = -1,
        trainable: Iterable[str] = (),
        canonicalise: bool = False,
        overwrite: bool = False,
        kernels: bool | None = None,
    ) -> None:
        loss = _core(loss)
        check_reduction(_WHO, reduction, None)
        wanted = _Wanted(loss, (trainable,) if isinstance(trainable, str) else tuple(trainable))
        super().__init__(loss, "", wanted)
        _require_classes(loss, dim, canonicalise)
        self.reduction = reduction
        self.dim = dim
        self.canonicalise = bool(canonicalise)
        self.overwrite = bool(overwrite)
        self.kernels = kernels
        self._made_of = loss
        self._form = _form_of(loss, kernels)
        if kernels and self._form is None:
            raise ValueError(f"{_WHO}: kernels must not be True for {loss!r}, which has none, or Triton is missing.")

    def forward(
        self,
        s_hat: torch.Tensor,
        s: Any,
        *,
        where: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
        num_items: Any = None,
        reduction: str | None = None,
    ) -> torch.Tensor:
        """The loss of predictions s_hat for observed scores s, through which no gradient flows.

        Parameters
        ----------
        s_hat, s : tensor
            Predicted and observed scores; one broadcasts to the other. Scores outside the domain give NaN. s may be a
            :class:`TopKTeacher`: it holds log-probabilities, so that s_hat becomes log-probabilities too, also without
            ``canonicalise``; classes are on the last axis, and a mask is one of whole rows.
        where : boolean tensor, optional
            Of the shape of the scores; for many classes also (B, T) or (B, T, 1), which mask whole rows of them.
        weights : tensor, optional
            Not negative, of the shape of the unreduced result.
        num_items : number or tensor without axes, optional
            Replaces the denominator of the mean: the count of all devices and of all accumulated batches.
        reduction : {"mean", "sum", "none"}, optional
            Instead of the module's own.

        Returns
        -------
        tensor
            Half precision is computed in single; unreduced losses have the dtype of s_hat, sums and means at least
            single precision.
        """
        return _evaluate(
            self._made_of,
            self._assembled,
            s_hat,
            s,
            where=where,
            weights=weights,
            num_items=num_items,
            reduction=self.reduction if reduction is None else reduction,
            dim=self.dim,
            canonicalise=self.canonicalise,
            kernel=self._kernel(s_hat) if self._form is not None or self.kernels else None,
        )

    def label_loss(
        self,
        s_hat: torch.Tensor,
        labels: torch.Tensor,
        *,
        score: Any = 0.0,
        ignore_index: int = -100,
        where: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
        num_items: Any = None,
        reduction: str | None = None,
    ) -> torch.Tensor:
        """The loss for labels: class indices, or rows of shares of the classes (one-hot or soft).

        The matching loss of a teacher who is certain; with ``CompositeSoftmax()`` the cross-entropy. For the formula
        and the meaning of ``score`` see the loss's own :meth:`selmatch.MatchingLoss.label_loss`.

        Parameters
        ----------
        s_hat : tensor
            Predicted scores, or logits with ``canonicalise``.
        labels : integer tensor, or tensor of the shape of s_hat
            Class indices, without the axis of the classes, or shares of the classes. Other indices give NaN.
        score : number
            The score that the labelled class should have; 0 for log-probabilities.
        ignore_index : int
            The index of rows that do not count.
        where, weights, num_items, reduction
            As for the call.

        Examples
        --------
        >>> import torch
        >>> import selmatch.torch
        >>> loss = selmatch.torch.MatchingLoss(CompositeSoftmax())
        >>> logits, labels = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]]), torch.tensor([0, -100])
        >>> loss.label_loss(logits, labels), torch.nn.functional.cross_entropy(logits, labels)
        (tensor(0.4076), tensor(0.4076))
        """
        who = f"{_WHO}.label_loss"
        if not isinstance(self._made_of, _CoreLoss) or not self._made_of.vector:
            raise TypeError(
                f"{who}: the loss must be a MatchingLoss of many classes, got {self._made_of!r}. "
                "Try CompositeSoftmax(scaling)."
            )
        if not isinstance(s_hat, torch.Tensor):
            raise TypeError(f"{who}: s_hat must be a tensor, got {type(s_hat).__name__}. Try torch.as_tensor(...).")
        require_score(who, self._made_of.potential, score)
        rows_alone = isinstance(labels, torch.Tensor) and labels.ndim < s_hat.ndim
        scores, moved, where = _classes_last(self.dim, s_hat, None if rows_alone else labels, where)
        scores, shares, where = shares_of(who, scores, labels if rows_alone else moved, where, ignore_index)
        with full_precision(s_hat.device.type):
            scores = _log_probabilities(scores, where) if self.canonicalise else scores
            reduction = self.reduction if reduction is None else reduction
            value = self._assembled()._share_loss(scores, shares, score, where, weights, reduction, num_items)
        return value.to(s_hat.dtype) if reduction == "none" else value

    def _kernel(self, s_hat: torch.Tensor) -> _Kernel:
        return _Kernel(self._form, self._packed_on(s_hat), self.overwrite, bool(self.kernels))

    def _packed_on(self, s_hat: torch.Tensor) -> torch.Tensor:
        """All numbers side by side in single precision, on the device of the scores."""
        numbers = [number.reshape(-1) for number in self._all_numbers()]
        if not numbers:
            return torch.empty(0, dtype=torch.float32, device=s_hat.device)
        packed = torch.cat(numbers) if len(numbers) > 1 else numbers[0]
        return packed.to(device=s_hat.device, dtype=torch.float32)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._form = _form_of(self._made_of, self.kernels)  # every process makes its own

    @property
    def loss(self) -> Any:
        """The loss as it is now, with plain numbers: to explain, plot or save it."""
        return self._assembled(_Numbers._plain)

    def extra_repr(self) -> str:
        loss = self.loss
        bare = type(loss) is _CoreLoss and loss.check and loss.scale is None
        given = [repr(loss.potential if bare else loss)]
        places = (place.rpartition(".") for place, _ in self.named_parameters())
        learned = tuple(f"{part}{dot}{name.removeprefix('log_')}" for part, dot, name in places)
        options = {
            "reduction": (self.reduction, "mean"),
            "dim": (self.dim, -1),
            "trainable": (learned, ()),
            "canonicalise": (self.canonicalise, False),
            "overwrite": (self.overwrite, False),
            "kernels": (self.kernels, None),
        }
        return ", ".join(given + [f"{name}={value!r}" for name, (value, usual) in options.items() if value != usual])

    def __repr__(self) -> str:
        return f"{_WHO}({self.extra_repr()})"


class _Wanted:
    """Which numbers are to be learned; names that lead nowhere are an error."""

    def __init__(self, loss: Loss, names: tuple[str, ...]) -> None:
        self.names = names
        known = list(_paths(loss))
        for name in names:
            if name not in known and name not in {place.rpartition(".")[2] for place in known}:
                there = f"There are: {', '.join(known)}" if known else "There are none; try curve.affine()"
                raise ValueError(f"{_WHO}: trainable must name numbers of {loss!r}, got {name!r}. {there}.")

    def __call__(self, name: str, place: str) -> bool:
        return name in self.names or place in self.names


def _core(loss: Any) -> Loss:
    return loss if isinstance(loss, Loss) else loss_of(_WHO, loss)


def _require_classes(loss: Loss, dim: Any, canonicalise: bool) -> None:
    """Refuse options that are for many classes only."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"{_WHO}: dim must be an integer, got {dim!r}.")
    if loss.vector:
        return
    if dim != -1:
        raise ValueError(f"{_WHO}: dim must be left out for a loss of single scores, got {dim} for {loss!r}.")
    if canonicalise:
        raise ValueError(
            f"{_WHO}: canonicalise must be False for a loss of single scores, got {loss!r}. "
            "For many classes: CompositeSoftmax(scaling)."
        )


# ------------------------------------------------------------------------------------------------------- evaluation


def matching_loss(
    s_hat: torch.Tensor,
    s: Any,
    loss: Any,
    *,
    where: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
    num_items: Any = None,
    reduction: str = "mean",
    dim: int = -1,
    canonicalise: bool = False,
) -> torch.Tensor:
    """The functional form of :class:`MatchingLoss`: for losses made on the way, with tensors as alpha, beta or gamma.

    Parameters
    ----------
    s_hat, s, where, weights, num_items, reduction
        As for the call of :class:`MatchingLoss`.
    loss : MatchingLoss, potential or curve
        The loss; its numbers may be tensors, through which gradients flow.
    dim, canonicalise
        As for :class:`MatchingLoss`.

    Examples
    --------
    >>> import torch
    >>> from selmatch.torch import matching_loss
    >>> alpha = torch.tensor(0.5, requires_grad=True)
    >>> matching_loss(torch.tensor([1.0]), torch.tensor([3.0]), Sinh().affine(alpha=alpha)).backward()
    >>> print(alpha.grad)
    tensor(...)
    """
    loss = _core(loss)
    _require_classes(loss, dim, canonicalise)
    return _evaluate(
        loss,
        lambda: loss,
        s_hat,
        s,
        where=where,
        weights=weights,
        num_items=num_items,
        reduction=reduction,
        dim=dim,
        canonicalise=canonicalise,
    )


def _evaluate(
    kind: Loss,
    assembled: Callable[[], Loss],
    s_hat: Any,
    s: Any,
    *,
    where: Any,
    num_items: Any,
    reduction: str,
    dim: int,
    canonicalise: bool,
    kernel: _Kernel | None = None,
    **options: Any,
) -> torch.Tensor:
    """A loss of the same kind as ``kind``, by kernels or as it is assembled with its numbers of today."""
    if not isinstance(s_hat, torch.Tensor):
        raise TypeError(f"{_WHO}: s_hat must be a tensor, got {type(s_hat).__name__}. Try torch.as_tensor(...).")
    if torch.compiler.is_compiling() and isinstance(num_items, (int, float)):  # a number that changes is a symbol
        num_items = torch.ones((), dtype=_wide(s_hat), device=s_hat.device) * num_items
    options.update(num_items=num_items, reduction=reduction)
    if isinstance(s, TopKTeacher):
        _require_fitting_teacher(kind, s_hat, s, where, dim)
        with full_precision(s_hat.device.type):
            value = _with_stored_teacher(kernel, kind, assembled, s_hat, s, where, **options)
        return value.to(s_hat.dtype) if reduction == "none" else value
    scores, s = s_hat, s.detach() if isinstance(s, torch.Tensor) else s
    if kind.vector:
        scores, s, where = _classes_last(dim, s_hat, s, where)
    value = None
    fused = kernel is not None and isinstance(kind.potential, CompositeSoftmax)
    with full_precision(s_hat.device.type):
        if canonicalise and not fused:
            scores, s = _canonical(scores, s, where)
        if kernel is not None:
            value = _with_kernels(kernel, kind, scores, s, where, canonicalise and fused, **options)
        if value is None:
            if canonicalise and fused:
                scores, s = _canonical(scores, s, where)
            value = assembled()(scores, s, where=where, **options)
    return value.to(s_hat.dtype) if reduction == "none" else value


def _wide(x: torch.Tensor) -> torch.dtype:
    """At least single precision."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _classes_last(dim: int, s_hat: torch.Tensor, s: Any, where: Any) -> tuple[torch.Tensor, Any, Any]:
    """Predictions, observations and mask with the classes on the last axis."""
    if not -s_hat.ndim <= dim < s_hat.ndim:
        raise ValueError(f"{_WHO}: dim must be an axis of s_hat, got {dim} for shape {tuple(s_hat.shape)}.")
    dim = dim - s_hat.ndim if dim >= 0 else dim
    if dim == -1:
        return s_hat, s, where
    moved = s_hat.movedim(dim, -1)
    full = isinstance(where, torch.Tensor) and where.ndim == s_hat.ndim
    return moved, _moved(s, dim, moved), where.movedim(dim, -1) if full else where


def _moved(x: Any, dim: int, s_hat: torch.Tensor) -> Any:
    if not isinstance(x, torch.Tensor) or x.ndim == 0 or x.shape == s_hat.shape[:-1]:
        return x  # a number, or one for each row, which the loss refuses in its own words
    missing = s_hat.ndim - x.ndim
    return (x[(None,) * missing] if missing > 0 else x).movedim(dim, -1)


def _canonical(s_hat: torch.Tensor, s: Any, where: Any) -> tuple[Any, Any]:
    """Both scores as log-probabilities."""
    if isinstance(where, torch.Tensor):
        shapes = {"s_hat": tuple(s_hat.shape), "s": tuple(s.shape) if isinstance(s, torch.Tensor) else ()}
        where = aligned_mask(_WHO, where, paired_shape(_WHO, functions.namespace_of(s_hat), **shapes), True)
    return _log_probabilities(s_hat, where), _log_probabilities(s, where, s_hat)


def _log_probabilities(x: Any, where: Any, like: torch.Tensor | None = None) -> Any:
    """Logarithms of the probabilities of the classes that are present."""
    if not isinstance(x, torch.Tensor) or x.ndim == 0 or x.dtype.is_complex:
        return x  # refused later
    like = x if x.dtype.is_floating_point else like
    if like is None:
        return x
    if isinstance(where, torch.Tensor) and where.dtype == torch.bool:
        x = torch.where(where, x, -math.inf)
    return torch.log_softmax(x, dim=-1, dtype=_wide(like))


# -------------------------------------------------------------------------------------------------- stored teachers


def _require_fitting_teacher(loss: Loss, s_hat: torch.Tensor, teacher: TopKTeacher, where: Any, dim: int) -> None:
    if not loss.vector:
        raise ValueError(
            f"{_WHO}: s must be scores for a loss of single scores, got a TopKTeacher for {loss!r}. "
            "For many classes: CompositeSoftmax(scaling)."
        )
    if not isinstance(teacher.indices, torch.Tensor):
        raise TypeError(f"{_WHO}: a TopKTeacher must hold tensors, got NumPy arrays. Try torch.from_numpy(...).")
    if dim not in (-1, s_hat.ndim - 1):
        raise ValueError(f"{_WHO}: dim must be -1 for a TopKTeacher, got {dim}. Move the classes to the last axis.")
    expected = (*teacher.log_sum_exp.shape, teacher.classes)
    if tuple(s_hat.shape) != expected:
        padded = s_hat.shape[:-1] == expected[:-1] and s_hat.shape[-1] > teacher.classes
        remedy = f" Columns that pad a vocabulary are no classes: s_hat[..., :{teacher.classes}]." if padded else ""
        raise ValueError(f"{_WHO}: s_hat must have shape {expected} for {teacher!r}, got {tuple(s_hat.shape)}.{remedy}")
    if teacher.indices.device != s_hat.device:
        raise ValueError(
            f"{_WHO}: a TopKTeacher must be where s_hat is, on {s_hat.device}, got one on {teacher.indices.device}. "
            f"Try teacher.to({str(s_hat.device)!r})."
        )
    if isinstance(where, torch.Tensor) and where.ndim == s_hat.ndim and where.shape[-1] != 1:
        raise ValueError(
            f"{_WHO}: where must mask whole rows for a TopKTeacher, of shape {expected[:-1]}, got {tuple(where.shape)}."
        )


def _with_stored_teacher(
    kernel: _Kernel | None,
    kind: Loss,
    assembled: Callable[[], Loss],
    s_hat: torch.Tensor,
    teacher: TopKTeacher,
    where: Any,
    *,
    weights: Any,
    reduction: str,
    num_items: Any,
) -> torch.Tensor:
    """The loss from kernels, which need the stored classes only; else with all classes of the teacher."""
    first = s_hat.detach()[..., :1]  # rows count or do not: one class shows it
    one = _constant(1.0, s_hat)
    batch = prepare_untouched(_WHO, first, first, one, where, weights, reduction, num_items, vector=True)
    refusal = "there are none for stored teachers" if kernel is None else _refusal(kernel, kind, s_hat, teacher)
    refusal = refusal or _learned(weights, num_items)
    if kernel is None or refusal is not None:
        if kernel is not None and kernel.insists:
            raise RuntimeError(f"{_WHO}: kernels must not be True here: {refusal}. Leave it out.")
        if batch.present is not None:
            s_hat = torch.where(batch.present, s_hat, 0.0)  # what does not count may be anything
        scores = torch.log_softmax(s_hat, dim=-1, dtype=_wide(s_hat))
        options = {"weights": weights, "reduction": reduction, "num_items": num_items}
        return assembled()(scores, teacher.dense(), where=where, **options)
    from selmatch.kernels import operators

    total = reduction != "none"
    stored = teacher._narrow, teacher.log_probabilities.float(), teacher.tail.float()
    scale = _scale_of(batch, s_hat)
    losses = operators.stored_losses(str(kernel.form), s_hat, *stored, kernel.numbers, scale, kernel.overwrite, total)
    return batch.summed(losses) if total else batch.finished(losses)


def _refusal(kernel: _Kernel, kind: Loss, s_hat: torch.Tensor, teacher: TopKTeacher) -> str | None:
    """Why kernels cannot be used with a stored teacher; None if they can."""
    from selmatch.kernels import operators
    from selmatch.kernels.gpu import SHORT

    potential = kind.potential
    if not isinstance(potential, CompositeSoftmax) or potential.rho is not None:
        return "stored teachers have kernels for composite Softmax losses without rho only"
    if teacher.classes <= SHORT:
        return f"stored teachers have kernels for more than {SHORT} classes only"
    return operators.refusal(kernel.form, s_hat, s_hat, kernel.numbers)


# ---------------------------------------------------------------------------------------------------------- kernels


class _Kernel(NamedTuple):
    """What there is to run a loss with: the form of its potential, all its numbers, and what the user wants."""

    form: str | None
    numbers: torch.Tensor
    overwrite: bool
    insists: bool


def _form_of(loss: Loss, kernels: bool | None) -> str | None:
    """The form under which kernels know the potential of a loss; None if there are none for it, or none wanted."""
    if kernels is False or (kernels is None and not torch.cuda.is_available()):
        return None
    if type(loss) is not _CoreLoss or not has_plain_numbers(loss):
        return None
    from selmatch.kernels import operators

    return operators.form_of(loss.potential)


def _may_keep(s_hat: torch.Tensor) -> bool:
    """Whether a tensor made now may be used again later: not while operations are recorded."""
    if torch.compiler.is_compiling() or isinstance(s_hat, FakeTensor) or torch.is_inference_mode_enabled():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:  # type: ignore[attr-defined]
        return False
    return not (s_hat.is_cuda and torch.cuda.is_current_stream_capturing())


def _place(s_hat: torch.Tensor) -> Any:
    """The device, and the stream on which what is made there is ready."""
    return (s_hat.device, torch.cuda.current_stream(s_hat.device).cuda_stream) if s_hat.is_cuda else s_hat.device


def _constant(value: float, s_hat: torch.Tensor) -> torch.Tensor:
    """A number on the device of the scores."""
    if not _may_keep(s_hat):
        return torch.full((), value, dtype=torch.float32, device=s_hat.device)
    return _kept_constant(value, s_hat.device, _place(s_hat))


def _scale_of(batch: Batch, s_hat: torch.Tensor) -> torch.Tensor:
    """What losses are multiplied by: a number, or one for each of them."""
    factor = batch.scale()
    return _constant(factor, s_hat) if isinstance(factor, (int, float)) else (_constant(1.0, s_hat) * factor).float()


def _learned(*given: Any) -> str | None:
    """Why kernels refuse weights and counts that gradients must flow through."""
    learned = any(isinstance(x, torch.Tensor) and x.requires_grad for x in given)
    return "weights, or the number of items, are trained" if learned and torch.is_grad_enabled() else None


@functools.lru_cache(256)
def _kept_constant(value: float, device: torch.device, place: Any) -> torch.Tensor:
    return torch.full((), value, dtype=torch.float32, device=device)


def _with_kernels(
    kernel: _Kernel,
    kind: Loss,
    s_hat: torch.Tensor,
    s: Any,
    where: Any,
    canonicalise: bool,
    *,
    weights: Any,
    reduction: str,
    num_items: Any,
) -> torch.Tensor | None:
    """The loss from kernels; None where they cannot be used."""
    from selmatch.kernels import operators

    one = _constant(1.0, s_hat)
    s = s if isinstance(s, torch.Tensor) else torch.full_like(s_hat, s, dtype=_wide(s_hat))
    batch = prepare_untouched(
        _WHO, s_hat, s, one, where, weights, reduction, num_items, vector=kind.vector, potential=kind.potential
    )
    refusal = operators.refusal(kernel.form, batch.s_hat, batch.s, kernel.numbers)
    refusal = refusal or _learned(weights, num_items)
    if refusal is not None:
        if kernel.insists:
            raise RuntimeError(f"{_WHO}: kernels must not be True here: {refusal}. Leave it out.")
        return None
    rho = getattr(kind.potential, "rho", None)
    if rho is not None and len(rho) != s_hat.shape[-1]:
        return None  # the loss itself says what is wrong
    total = reduction != "none"
    scale = _scale_of(batch, s_hat)
    form = str(kernel.form)
    losses = operators.losses(
        form, batch.s_hat, batch.s, kernel.numbers, scale, batch.present, canonicalise, kernel.overwrite, total
    )
    return batch.summed(losses) if total else batch.finished(losses)
