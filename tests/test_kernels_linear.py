"""The loss between two linear heads, by PyTorch's formulas: the numbers of all scores at once, without all scores."""

import pytest
import torch
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode

import selmatch as sm
from selmatch.kernels import operators
from selmatch.kernels.linear import _CHUNK_BYTES, _chunk_rows, _Head, _parts, _whole, linear_matching_loss
from selmatch.torch import MatchingLoss, matching_loss

SINH = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), gamma=2.0)
#: also what has no kernels: a scaling by quadrature, separate classes, cross-entropy
LOSSES = [
    sm.MatchingLoss(SINH),
    sm.MatchingLoss(sm.CompositeSoftmax(sm.Exp().affine(alpha=0.3), rho=tuple(0.5 + 0.1 * i for i in range(11)))),
    sm.MatchingLoss(sm.CompositeSoftmax(sm.FromLink(lambda z: z + sm.functions.tanh(z)), anchor=0.3)),
    sm.MatchingLoss(sm.Separable(sm.Sigmoid())),
    sm.CrossEntropy(SINH),
]
SHAPE = (3, 7)

pytestmark = pytest.mark.usefixtures("parts_of_torch")


@pytest.fixture
def given():
    """Arguments, but for the loss: 3 x 7 rows, 5 and 4 hidden states, 11 classes."""
    return arguments()


def arguments(dtype=torch.float64, shape=SHAPE):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return {
        "hidden": normal(*shape, 5).requires_grad_(),
        "weight": normal(11, 5).mul_(0.5).requires_grad_(),
        "bias": normal(11).requires_grad_(),
        "teacher_hidden": normal(*shape, 4),
        "teacher_weight": normal(11, 4).mul_(0.5),
        "teacher_bias": normal(11),
    }


def trained(given):
    return [x for x in given.values() if x is not None and x.requires_grad]


def dense(given, loss, where=None, **options):
    s_hat = linear(given["hidden"], given["weight"], given["bias"])
    s = linear(given["teacher_hidden"], given["teacher_weight"], given["teacher_bias"])
    return matching_loss(s_hat, s, loss, where=None if where is None else where[..., None], **options)


def value_and_gradients(value, given):
    return value.detach(), *torch.autograd.grad(value, trained(given))


def assert_same(found, expected, rtol=1e-12):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=1e-2 * rtol)


class Watch(TorchDispatchMode):
    """Forbids whatever makes the host wait for a device; remembers the largest tensor."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not any(name in str(func) for name in ("_local_scalar_dense", "nonzero", "aten.equal.", "unique"))
        result = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.largest = max(self.largest, x.numel())
        return result


# ------------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("canonicalise", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda value: repr(value).split(" at 0x")[0])
def test_gives_the_numbers_of_all_scores_at_once(given, loss, canonicalise):
    where = torch.arange(21).reshape(SHAPE) % 4 != 1
    weights = torch.linspace(0.0, 2.0, 21, dtype=torch.float64).reshape(SHAPE)
    for options in (
        {},
        {"where": where},
        {"where": where, "weights": weights},
        {"weights": weights, "reduction": "sum"},
        {"where": where, "num_items": torch.tensor(40.0)},
        {"num_items": 7},
    ):
        expected = value_and_gradients(dense(given, loss, canonicalise=canonicalise, **options), given)
        for chunk in (None, 8, 1):
            found = linear_matching_loss(**given, loss=loss, canonicalise=canonicalise, chunk=chunk, **options)
            assert_same(value_and_gradients(found, given), expected, 1e-11)


def test_only_needed_gradients_are_computed(given):
    whole = value_and_gradients(linear_matching_loss(**given, loss=SINH), given)
    for frozen in ({"hidden"}, {"weight"}, {"bias"}, {"weight", "bias"}):
        part = {name: x.detach() if name in frozen else x for name, x in given.items()}
        expected = [x for x, name in zip(whole[1:], given, strict=False) if name not in frozen]
        assert_same(value_and_gradients(linear_matching_loss(**part, loss=SINH), part)[1:], expected)
    with torch.no_grad():
        value = linear_matching_loss(**given, loss=SINH)
    assert not value.requires_grad
    assert_same([value], whole[:1])


def test_nothing_goes_to_the_teacher(given):
    given["teacher_hidden"].requires_grad_()
    given["teacher_weight"].requires_grad_()
    linear_matching_loss(**given, loss=SINH).backward()
    assert given["weight"].grad is not None
    assert given["teacher_hidden"].grad is None
    assert given["teacher_weight"].grad is None


def test_what_arrives_multiplies_the_gradients_each_time(given):
    once = value_and_gradients(linear_matching_loss(**given, loss=SINH), given)[1:]
    value = linear_matching_loss(**given, loss=SINH)
    for factor in (3.0, 0.5):
        found = torch.autograd.grad(factor * value, trained(given), retain_graph=True)
        assert_same(found, [factor * x for x in once])


def test_rows_that_do_not_count_may_hold_anything(given):
    where = torch.arange(21).reshape(SHAPE) % 4 != 1
    for canonicalise in (False, True):
        options = {"loss": SINH, "where": where, "canonicalise": canonicalise, "chunk": 4}
        expected = value_and_gradients(linear_matching_loss(**given, **options), given)
        hidden = given["hidden"].detach().masked_fill(~where[..., None], torch.nan).requires_grad_()
        spoiled = given | {"hidden": hidden, "teacher_hidden": given["teacher_hidden"].clone()}
        spoiled["teacher_hidden"][~where] = torch.inf
        assert_same(value_and_gradients(linear_matching_loss(**spoiled, **options), spoiled), expected)
        options["where"] = torch.zeros_like(where)
        for x in value_and_gradients(linear_matching_loss(**spoiled, **options), spoiled):
            assert torch.count_nonzero(x) == 0


def test_no_rows_give_zero():
    given = arguments(shape=(0,))
    for x in value_and_gradients(linear_matching_loss(**given, loss=SINH), given):
        assert torch.count_nonzero(x) == 0


def test_a_module_brings_its_options(given):
    module = MatchingLoss(SINH, reduction="sum", canonicalise=True)
    expected = dense(given, SINH, reduction="sum", canonicalise=True)
    assert_same([linear_matching_loss(**given, loss=module)], [expected], 1e-11)
    expected = dense(given, SINH)
    assert_same([linear_matching_loss(**given, loss=module, reduction="mean", canonicalise=False)], [expected], 1e-11)


# ------------------------------------------------------------------------------------------------------ half precision


def test_half_gradients_do_not_vanish_in_a_mean():
    given = arguments(torch.float16, shape=(20000,))
    given["teacher_bias"] = given["bias"].detach()
    given["teacher_hidden"], given["teacher_weight"] = given["hidden"].detach(), given["weight"].detach() * 1.01
    wide = {name: x.detach().double().requires_grad_(x.requires_grad) for name, x in given.items()}
    scaled = 2.0**14 * linear_matching_loss(**given, loss=SINH)
    assert scaled.dtype == torch.float32
    found, expected = (value_and_gradients(*x) for x in ((scaled, given), (dense(wide, SINH), wide)))
    for a, b in zip(found[2:], expected[2:], strict=True):  # those of hidden states show that scores are rounded
        assert ((a.double() / 2.0**14 - b).norm() / b.norm()) < 2e-3


@pytest.mark.parametrize("counted", [70_000, 3], ids=["all rows", "few of them"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_half_gradients_of_many_rows_do_not_overflow(counted, reduction):
    given = arguments(torch.float16, shape=(70_000,))
    given["hidden"] = given["hidden"].detach().abs().add_(1.0).requires_grad_()
    given["teacher_bias"] = given["teacher_bias"] + torch.linspace(-4.0, 4.0, 11, dtype=torch.float16)
    where = torch.arange(70_000) < counted
    wide = {name: x.detach().double().requires_grad_(x.requires_grad) for name, x in given.items()}
    options = {"loss": SINH, "where": where, "reduction": reduction, "chunk": 8192}
    small = 1e-4 if reduction == "sum" else 1.0
    found = value_and_gradients(small * linear_matching_loss(**given, **options), given)
    expected = value_and_gradients(small * linear_matching_loss(**wide, **options), wide)
    for a, b in zip(found[2:], expected[2:], strict=True):
        assert ((a.double() - b).norm() / b.norm()) < 1e-2


def test_autocast_is_that_of_linear_layers():
    given = arguments(torch.float32)
    with torch.autocast("cpu", dtype=torch.float16):
        value = linear_matching_loss(**given, loss=SINH)
        expected = dense(given, SINH)
    assert value.dtype == torch.float32
    found, expected = (value_and_gradients(x, given) for x in (value, expected))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == torch.float32
        assert ((a - b).norm() / b.norm()) < 2e-3


# --------------------------------------------------------------------------------------------------- memory and compile


def test_all_scores_are_never_there_and_nothing_waits_for_a_device():
    given = arguments(torch.float32, shape=(64,))
    where = torch.arange(64) % 3 != 0
    with Watch() as watch:
        linear_matching_loss(**given, loss=SINH, where=where, chunk=16, num_items=torch.tensor(9.0)).backward()
    assert watch.largest <= 64 * 5  # hidden states; all scores were 64 * 11


@pytest.mark.parametrize(
    ("rows", "classes", "dtype", "expected"),
    [
        (8192, 128256, torch.bfloat16, 2048),
        (8192, 128256, torch.float32, 1024),
        (8193, 128256, torch.bfloat16, 1664),
        (100, 128256, torch.bfloat16, 2048),
        (10**6, 10**7, torch.float32, 128),
    ],
)
def test_chunks_are_equal_and_fit_a_budget(rows, classes, dtype, expected):
    with torch.device("meta"):
        head = _Head(torch.empty(rows, 4, dtype=dtype), torch.empty(classes, 4, dtype=dtype), None)
    assert _chunk_rows(None, head, head, _CHUNK_BYTES) == expected


@pytest.mark.parametrize("loss", [sm.MatchingLoss(SINH), MatchingLoss(sm.CompositeSoftmax())], ids=["loss", "module"])
def test_compiles_whole(given, loss, compiled):
    def function(given, where):
        return 2.0 * linear_matching_loss(**given, loss=loss, where=where, chunk=12)

    where = torch.arange(21).reshape(SHAPE) % 4 != 1
    expected = value_and_gradients(function(given, where), given)
    assert_same(value_and_gradients(compiled(function)(given, where), given), expected)


def test_equal_losses_are_compiled_once(given, compiled, monkeypatch):
    """Code that is being compiled hands a loss over by its parts, also where kernels are looked for."""
    monkeypatch.setattr(operators, "interpreted", True)
    function = compiled(lambda loss: linear_matching_loss(**given, loss=loss))
    for gamma in (2.0, 2.0):
        loss = sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), gamma=gamma))
        assert_same([function(loss)], [dense(given, SINH)], 1e-11)


@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda value: repr(value).split(" at 0x")[0])
def test_a_potential_is_the_same_from_its_parts(loss):
    assert _whole(_parts(loss.potential)) == loss.potential


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"hidden": [1.0]}, TypeError, "hidden must be a tensor, got list"),
        ({"weight": torch.ones(11, 6)}, ValueError, r"got hidden \(3, 7, 5\) and weight \(11, 6\)"),
        ({"teacher_weight": torch.ones(4)}, ValueError, r"teacher_weight must have the shape \[classes, "),
        ({"bias": torch.ones(1)}, ValueError, r"bias must have the shape \(11,\), got \(1,\)"),
        ({"teacher_hidden": torch.ones(7, 4)}, ValueError, r"same axes but for the last, got \(3, 7, 5\) and \(7, 4\)"),
        ({"teacher_weight": torch.ones(12, 4), "teacher_bias": None}, ValueError, "of classes, got 11 and 12"),
        ({"weight": torch.ones(11, 5)}, TypeError, "one floating point dtype, got float64, float32, float64"),
        ({"where": torch.ones(7, dtype=torch.bool)}, ValueError, r"of the shape \(3, 7\), got torch.bool \(7,\)"),
        ({"where": torch.ones(3, 7)}, ValueError, "got torch.float32"),
        ({"where": True}, ValueError, "got bool"),
        ({"weights": torch.ones(5)}, ValueError, "weights must have the shape of the unreduced result"),
        ({"weights": torch.ones(3, 7, requires_grad=True)}, ValueError, "weights must be constant"),
        ({"num_items": 0}, ValueError, "num_items must be > 0"),
        ({"chunk": 0}, ValueError, "chunk must be a number of rows >= 1, got 0"),
        ({"reduction": "none"}, ValueError, "reduction must be 'mean' or 'sum', got 'none'"),
        ({"reduction": "sum", "num_items": 3}, ValueError, "num_items must go with reduction='mean'"),
        ({"loss": sm.Sigmoid()}, ValueError, "loss must be one of many classes"),
        ({"loss": torch.nn.MSELoss()}, TypeError, "loss must be a MatchingLoss, a potential or a curve"),
        ({"loss": sm.CompositeSoftmax(rho=(1.0, 2.0))}, ValueError, r"must have 2 classes \(as rho\), got 11"),
        ({"loss": MatchingLoss(SINH, trainable="gamma")}, ValueError, "numbers of the loss must be constants"),
        ({"kernels": True}, RuntimeError, "kernels must not be True here"),
    ],
    ids=str,
)
def test_errors_say_what_is_wrong(given, changes, error, message):
    assert not operators.interpreted
    with pytest.raises(error, match=f"^linear_matching_loss: .*{message}"):
        linear_matching_loss(**({"loss": SINH} | given | changes))


def test_numbers_that_are_learned_are_refused(given):
    gamma = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(ValueError, match="numbers of the loss must be constants"):
        linear_matching_loss(**given, loss=sm.CompositeSoftmax(sm.Sinh(), gamma=gamma))
    potential = sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5), gamma=torch.tensor(2.0, dtype=torch.float64))
    assert_same([linear_matching_loss(**given, loss=potential)], [linear_matching_loss(**given, loss=SINH)])


def test_there_are_no_second_derivatives(given):
    value = linear_matching_loss(**given, loss=SINH)
    with pytest.raises(RuntimeError, match="second derivatives must not be asked for"):
        torch.autograd.grad(value, given["hidden"], create_graph=True)
