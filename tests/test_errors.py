"""Bad input: who, what, what came instead, and what to do; nothing is computed."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import polars
import pytest
import torch

import selmatch as sm
from conftest import ARRAYS

sinh, softmax = sm.MatchingLoss(sm.Sinh()), sm.MatchingLoss(sm.CompositeSoftmax(sm.Sinh()))
logit = sm.MatchingLoss(sm.Logit())
perlabel = sm.MatchingLoss(sm.PerLabel({0.0: sm.Identity(), 1.0: sm.Log()}))
ones, halves = np.ones((4, 3)), np.full((4, 3), 0.5)

NAMES = {
    "sinh": sinh, "softmax": softmax, "logit": logit, "perlabel": perlabel, "ones": ones, "halves": halves,
    "sm": sm, "np": np, "math": math, "torch": torch, "jnp": jnp, "pandas": pandas, "polars": polars,
}  # fmt: skip

#: calls, each with its error below; ... stands for anything
CALLS = """
# shapes
sinh(np.ones(3), np.ones(4))
    ValueError: MatchingLoss: shapes must broadcast together, got s_hat (3,), s (4,).
sinh(torch.ones(3), torch.ones(4))
    ValueError: MatchingLoss: shapes must broadcast together, got s_hat (3,), s (4,).
sinh(np.ones((3, 1)), np.ones(3))
    ValueError: MatchingLoss: one shape must broadcast to the other, got s_hat (3, 1), s (3,), which make (3, 3) only
    together. Reshape one of them; to compare all with all, use numpy.broadcast_arrays first.
sinh([[1.0], [1.0, 2.0]], 0.0)
    ValueError: MatchingLoss: s_hat must be a rectangular array of numbers, got another list.
softmax(1.0, 2.0)
    ValueError: MatchingLoss: s_hat must have at least one class on its last axis, got shape ().
softmax(np.ones((4, 0)), np.ones((4, 0)))
    ValueError: MatchingLoss: s_hat must have at least one class on its last axis, got shape (4, 0).
softmax(torch.ones(4, 0), torch.ones(4, 0))
    ValueError: MatchingLoss: s_hat must have at least one class on its last axis, got shape (4, 0).
sm.MatchingLoss(sm.CompositeSoftmax(rho=(1.0, 2.0)))(ones, ones)
    ValueError: CompositeSoftmax: scores must have 2 classes on the last axis (as rho), got shape (4, 3).
# types
sinh(np.array([1.0, None]), 0.0)
    TypeError: MatchingLoss: s_hat must be real numbers, got dtype object. Try .astype(float).
sinh(np.array([1j]), 0.0)
    TypeError: MatchingLoss: s_hat must be real numbers, got dtype complex128.
sinh(torch.ones(2), torch.ones(2) * 1j)
    TypeError: MatchingLoss: s must be real numbers, got dtype torch.complex64.
sinh(jnp.ones(2) * 1j, jnp.ones(2))
    TypeError: MatchingLoss: s_hat must be real numbers, got dtype complex128.
sinh(np.array(["2020-01-01"], dtype="datetime64[D]"), 0.0)
    TypeError: MatchingLoss: s_hat must be real numbers, got dtype datetime64[D].
sinh("1.0", 0.0)
    TypeError: MatchingLoss: s_hat must be a number or an array, got str. Try numpy.asarray(...).
sinh(["1.0"], [0.0])
    TypeError: MatchingLoss: s_hat must be real numbers, got dtype <U3.
sinh([1.0], polars.Series(["a"]))
    TypeError: MatchingLoss: s must be real numbers, got dtype object. Try .astype(float).
sinh(None, 0.0)
    TypeError: MatchingLoss: s_hat must be a number or an array, got NoneType. Try numpy.asarray(...).
sinh(1.0, {"a": 1})
    TypeError: MatchingLoss: s must be a number or an array, got dict. Try numpy.asarray(...).
sinh(1j, 0.0)
    TypeError: MatchingLoss: s_hat must be a number or an array, got complex. Try numpy.asarray(...).
sinh(np.ma.array([1.0], mask=[True]), 0.0)
    TypeError: MatchingLoss: s_hat must be a plain array, got a masked one. Give s_hat.data and where=~s_hat.mask.
sinh(torch.tensor([1, 2]), torch.ones(2))
    TypeError: MatchingLoss: s_hat must be floating point, got dtype torch.int64. Convert to float32 first.
sinh(jnp.array([1, 2]), jnp.ones(2))
    TypeError: MatchingLoss: s_hat must be floating point, got dtype int64. Convert to float32 first.
sinh.grad(torch.tensor([True]), torch.ones(1))
    TypeError: MatchingLoss: s_hat must be floating point, got dtype torch.bool. Convert to float32 first.
sinh(jnp.array([True]), jnp.ones(1))
    TypeError: MatchingLoss: s_hat must be floating point, got dtype bool. Convert to float32 first.
sinh(1.0, torch.tensor([1, 2]))
    TypeError: MatchingLoss: s must be floating point, got dtype torch.int64. Convert to float32 first.
# libraries
sinh(torch.ones(3), np.ones(3))
    TypeError: MatchingLoss: arrays must come from one library, got s_hat from PyTorch and s from NumPy. Convert one
    of them.
sinh(np.ones(3), torch.ones(3))
    TypeError: MatchingLoss: arrays must come from one library, got s_hat from NumPy and s from PyTorch. Convert one
    of them.
sinh(torch.ones(3), torch.ones(3), where=np.ones(3, bool))
    TypeError: MatchingLoss: arrays must come from one library, got s_hat from PyTorch and where from NumPy. Convert
    one of them.
sinh(torch.ones(3), torch.ones(3), weights=np.ones(3))
    TypeError: MatchingLoss: arrays must come from one library, got s_hat from PyTorch and weights from NumPy. Convert
    one of them.
sinh.fenchel_young(torch.ones(3), np.ones(3))
    TypeError: MatchingLoss.fenchel_young: arrays must come from one library, got s_hat from PyTorch and y from NumPy.
    Convert one of them.
sinh.hvp(torch.ones(3), np.ones(3))
    TypeError: MatchingLoss.hvp: arrays must come from one library, got s_hat from PyTorch and v from NumPy. Convert
    one of them.
sinh(torch.ones(3), jnp.ones(3))
    TypeError: MatchingLoss: arrays must come from one library, got s_hat from PyTorch and s from JAX. Convert one of
    them.
sm.MatchingLoss(sm.Sinh().affine(alpha=torch.tensor(2.0)))(np.ones(3), [1.0, 1.0, 1.0])
    TypeError: MatchingLoss: arrays must come from one library, got s_hat from NumPy and a number of the loss from
    PyTorch. Convert one of them.
sm.ranking.pairwise(np.ones(3), np.ones(3), sm.Sinh().affine(alpha=torch.tensor(2.0)))
    TypeError: pairwise: arrays must come from one library, got s_hat from NumPy and a number of the loss from PyTorch.
    Convert one of them.
# class indices
softmax(ones, np.array([0, 1, 2, 1]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (4, 3) does, got shape (4,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(np.ones((3, 3)), np.array([0, 1, 2]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (3, 3) does, got shape (3,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(np.ones((3, 3)), np.array([0.0, 1.0, 2.0]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (3, 3) does, got shape (3,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(torch.ones(4, 3), torch.tensor([0, 1, 2, 1]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (4, 3) does, got shape (4,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(torch.ones(3, 3), torch.tensor([0, 1, 2]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (3, 3) does, got shape (3,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(jnp.ones((3, 3)), jnp.array([0, 1, 2]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (3, 3) does, got shape (3,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(ones, np.array([[0], [1], [2], [1]]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (4, 3) does, got shape (4, 1),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax([1.0, 2.0, 3.0], 2)
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (3,) does, got shape (), which
    looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax(np.ones((2, 4, 3)), np.zeros((2, 4), int))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (2, 4, 3) does, got shape (2,
    4), which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels, score=1).
softmax.fenchel_young(ones, np.array([0, 1, 2, 1]))
    ValueError: MatchingLoss.fenchel_young: y must hold a number for every class, as s_hat of shape (4, 3) does, got
    shape (4,), which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels,
    score=1).
sm.MatchingLoss(sm.Separable(sm.Sinh()))(ones, np.array([0, 1, 2, 1]))
    ValueError: MatchingLoss: s must hold a number for every class, as s_hat of shape (4, 3) does, got shape (4,),
    which looks like class indices. For class indices or one-hot rows: loss.label_loss(s_hat, labels).
# values
sinh([0.0, math.nan], [0.0, 1.0])
    ValueError: MatchingLoss: s_hat must be finite, got nan at index 1. Impute it, or mask it.
sinh(1.0, math.nan)
    ValueError: MatchingLoss: s must be finite, got nan. Impute it, or mask it.
softmax(np.where(np.arange(12).reshape(4, 3) == 7, -math.inf, ones), ones)
    ValueError: MatchingLoss: s_hat must be finite, got -inf at index (2, 1). Impute it, or mask it.
sinh([0.0, 1.0], pandas.Series([1.0, None]))
    ValueError: MatchingLoss: s must be finite, got nan at index 1. Impute it, or mask it.
sinh([math.nan, math.nan], [0.0, 0.0], where=[False, True])
    ValueError: MatchingLoss: s_hat must be finite, got nan at index 1. Impute it, or mask it.
logit([0.5, 0.5], [0.5, 1.5])
    ValueError: MatchingLoss: s must lie inside the domain (0, 1), got 1.5 at index 1. Clip it, or mask it.
logit([0.5, -0.5], [0.5, 0.5])
    ValueError: MatchingLoss: s_hat must lie in the domain [0, 1], got -0.5 at index 1. Clip it, or mask it.
logit([0.5, 0.5], [0.5, 1.0])
    ValueError: MatchingLoss: s must lie inside the domain (0, 1), got 1.0 at index 1. Clip it, or mask it.
sm.MatchingLoss(sm.Log())(2.0, 0.0)
    ValueError: MatchingLoss: s must lie inside the domain (0, inf), got 0.0. Clip it, or mask it.
logit(halves, np.where(np.arange(12).reshape(4, 3) == 5, 2.0, halves))
    ValueError: MatchingLoss: s must lie inside the domain (0, 1), got 2.0 at index (1, 2). Clip it, or mask it.
logit(np.where(np.arange(10**6) == 900_001, 2.0, 0.5), 0.5)
    ValueError: MatchingLoss: s_hat must lie in the domain [0, 1], got 2.0 at index 900001. Clip it, or mask it.
sm.MatchingLoss(sm.CompositeSoftmax(sm.Arctanh()))(halves, 2 * ones)
    ValueError: MatchingLoss: s must lie inside the domain (-1, 1), got 2.0 at index (0, 0). Clip it, or mask it.
sm.MatchingLoss(sm.Arcsin().affine(alpha=0.5, beta=1.0))(1.0, 3.5)
    ValueError: MatchingLoss: s must lie inside the domain [-1, 3], got 3.5. Clip it, or mask it.
logit.grad(1.5, 0.5)
    ValueError: MatchingLoss: s_hat must lie in the domain [0, 1], got 1.5. Clip it, or mask it.
logit.curvature(1.5)
    ValueError: MatchingLoss.curvature: s_hat must lie in the domain [0, 1], got 1.5. Clip it, or mask it.
logit.hvp(1.5, 2.0)
    ValueError: MatchingLoss.hvp: s_hat must lie in the domain [0, 1], got 1.5. Clip it, or mask it.
logit.quadratic(0.5, 1.5)
    ValueError: MatchingLoss.quadratic: s must lie inside the domain (0, 1), got 1.5. Clip it, or mask it.
logit.minimiser([0.5, 1.5])
    ValueError: MatchingLoss.minimiser: s must lie inside the domain (0, 1), got 1.5 at index 1. Clip it, or mask it.
sinh.minimiser([])
    ValueError: MatchingLoss.minimiser: s must hold at least one score, got shape (0,).
softmax.minimiser(np.ones((0, 3)))
    ValueError: MatchingLoss.minimiser: s must hold at least one score, got shape (0, 3).
sinh.minimiser([1.0, 2.0], [0.0, 0.0])
    ValueError: MatchingLoss.minimiser: weights must not all be 0, got only zeros.
perlabel([1.0, 1.0], [0.0, 2.0])
    ValueError: MatchingLoss: s must be one of the labels 0, 1, got 2.0 at index 1. Add it to PerLabel, or mask it.
perlabel([-1.0, -1.0], [0.0, 1.0])
    ValueError: MatchingLoss: s_hat must lie in the domain of its label's curve, got -1.0 at index 1. Clip it.
sm.MatchingLoss(sm.Sigmoid()).fenchel_young(0.0, 1.1)
    ValueError: MatchingLoss.fenchel_young: y must lie in (0, 1), the range of the link, got 1.1.
sm.MatchingLoss(sm.Exp()).fenchel_young_grad([0.0, 0.0], [1.0, -1.0])
    ValueError: MatchingLoss.fenchel_young_grad: y must lie in (0, inf), the range of the link, got -1.0 at index 1.
sm.MatchingLoss(sm.Separable(sm.Sigmoid())).fenchel_young([[0.0]], [[2.0]])
    ValueError: MatchingLoss.fenchel_young: y must lie in (0, 1), the range of the link, got 2.0 at index (0, 0).
sm.MatchingLoss(sm.CompositeSoftmax()).fenchel_young(ones, ones)
    ValueError: MatchingLoss.fenchel_young: y must be probabilities that sum to 1 over the classes, got 1.0 at
    index (0, 0).
softmax.fenchel_young(ones, ones / 3)
    TypeError: MatchingLoss.fenchel_young: the scaling must be constant (the standard Softmax) and without anchor, got
    CompositeSoftmax(Sinh()). Give scores instead of link values, or conjugate=False; for labels: label_loss.
# options
sinh([1.0, 1.0], [0.0, 0.0], weights=[1.0, -1.0])
    ValueError: MatchingLoss: weights must be finite and >= 0, got -1.0 at index 1.
sinh([1.0, 1.0], [0.0, 0.0], weights=[1.0, math.nan])
    ValueError: MatchingLoss: weights must be finite and >= 0, got nan at index 1.
sinh(np.ones(3), np.ones(3), weights=np.ones((2, 3)))
    ValueError: MatchingLoss: weights must have the shape of the unreduced result (3,), got (2, 3).
softmax(ones, ones, weights=ones)
    ValueError: MatchingLoss: weights must have the shape of the unreduced result (4,), got (4, 3).
sinh([1.0], [0.0], weights=["a"])
    TypeError: MatchingLoss: weights must be real numbers, got dtype <U1.
sinh(1.0, 0.0, reduction="average")
    ValueError: MatchingLoss: reduction must be 'mean', 'sum' or 'none', got 'average'.
sinh.grad(1.0, 0.0, reduction=None)
    ValueError: MatchingLoss: reduction must be 'mean', 'sum' or 'none', got None.
sinh(1.0, 0.0, reduction=["mean"])
    ValueError: MatchingLoss: reduction must be 'mean', 'sum' or 'none', got ['mean'].
sinh(1.0, 0.0, reduction="sum", num_items=3)
    ValueError: MatchingLoss: num_items must go with reduction='mean', got reduction='sum'.
sinh(1.0, 0.0, num_items=0)
    ValueError: MatchingLoss: num_items must be > 0, got 0.0.
sinh(1.0, 0.0, num_items=np.int64(-3))
    ValueError: MatchingLoss: num_items must be > 0, got -3.0.
sinh(1.0, 0.0, num_items="3")
    TypeError: MatchingLoss: num_items must be a number, got '3'.
sinh([1.0], [0.0], where=[1.0])
    TypeError: MatchingLoss: where must be boolean, got dtype float64.
sinh(torch.ones(2), torch.ones(2), where=torch.tensor([0, 1]))
    TypeError: MatchingLoss: where must be boolean, got dtype torch.int64.
sinh(1.0, 0.0, where=1)
    TypeError: MatchingLoss: where must be boolean, got 1.
sinh(np.ones(3), np.ones(3), where=np.ones(4, bool))
    ValueError: MatchingLoss: where must have the shape of the scores (3,), got (4,).
sinh(np.ones(3), np.ones(3), where=np.ones((2, 3), bool))
    ValueError: MatchingLoss: where must have the shape of the scores (3,), got (2, 3).
softmax(np.ones((4, 3)), np.ones((4, 3)), where=np.ones(3, bool))
    ValueError: MatchingLoss: where must have the shape of the scores (4, 3) or of their rows (4,), got (3,). One of the
    last axis is where[None].
# methods that a loss does not have
sinh.parts(1.0, 0.0)
    TypeError: MatchingLoss.parts: the potential must be composite, got Sinh().
sinh.curvature(1.0, kind="gauss")
    ValueError: MatchingLoss.curvature: kind must be 'newton' or 'secant', got 'gauss'.
sinh.curvature(1.0, kind="secant")
    TypeError: MatchingLoss.curvature: s must be given for kind='secant' of Sinh(), got None.
perlabel.curvature(1.0)
    TypeError: MatchingLoss.curvature: s must be given for kind='newton' of PerLabel({0.0: Identity(), 1.0: Log()}),
    got None.
perlabel.hvp(1.0, 1.0)
    TypeError: MatchingLoss.hvp: the potential must not depend on the label, got PerLabel. Use curvature(s_hat, s).
perlabel.fenchel_young(1.0, 1.0)
    TypeError: MatchingLoss.fenchel_young: the potential must not depend on the label, got PerLabel. Call the loss
    with labels.
sm.MatchingLoss(sm.PerLabel({0.5: sm.Logit(), 3.0: sm.Log().affine(beta=2.0)})).minimiser([0.5, 3.0])
    ValueError: MatchingLoss.minimiser: the links of the labels in s must share a part of their domains, got
    PerLabel({0.5: Logit(), 3.0: Log().affine(beta=2.0)}).
"""

MAKES = """
sm.MatchingLoss(sm.Sinh)
    TypeError: MatchingLoss: the potential must be a curve or a vector potential, got <class 'selmatch.curves.Sinh'>.
    Try Sinh(...).
sm.MatchingLoss(np.sinh)
    TypeError: MatchingLoss: the potential must be a curve or a vector potential, got <ufunc 'sinh'>. Try
    FromLink(function).
sm.MatchingLoss(sinh)
    TypeError: MatchingLoss: the potential must be a curve or a vector potential, got MatchingLoss(Sinh()). It is a
    loss already.
sm.MatchingLoss("sinh")
    TypeError: MatchingLoss: the potential must be a curve or a vector potential, got 'sinh'.
sm.MatchingLoss(sm.Cosh())
    ValueError: MatchingLoss: Cosh() decreases somewhere, so it cannot be a link. As a scaling:
    CompositeSigmoid(Cosh(), gamma=0.7).
sm.MatchingLoss(sm.Cosh().affine(alpha=2.0, beta=1.0))
    ValueError: MatchingLoss: Cosh().affine(alpha=2.0, beta=1.0) decreases somewhere, so it cannot be a link. As a
    scaling: CompositeSigmoid(Cosh().affine(alpha=2.0, beta=1.0), gamma=0.4).
sm.MatchingLoss(sm.AbsPower(d=2.0, c=1.0))
    ValueError: MatchingLoss: AbsPower(d=2.0, c=1.0) decreases somewhere, so it cannot be a link. As a scaling:
    CompositeSigmoid(AbsPower(d=2.0, c=1.0), gamma=0.5).
sm.MatchingLoss(sm.Separable(sm.Cosh()))
    ValueError: MatchingLoss: Cosh() decreases somewhere, so it cannot be a link. As a scaling:
    CompositeSigmoid(Cosh(), gamma=0.7).
sm.MatchingLoss(sm.PerLabel({0: sm.Cosh()}))
    ValueError: MatchingLoss: Cosh() decreases somewhere, so it cannot be a link. As a scaling:
    CompositeSigmoid(Cosh(), gamma=0.7).
sm.MatchingLoss(sm.FromLink(lambda z: -z))
    ValueError: MatchingLoss: FromLink(...) must not decrease, got h(-4) = 4 > h(-3) = 3, so it cannot be a link.
sm.CompositeSoftmax(sm.Sinh(), gamma=0.0)
    ValueError: CompositeSoftmax: gamma must be > 0, got 0.0.
sm.CompositeSigmoid(sm.Sinh(), gamma=-1)
    ValueError: CompositeSigmoid: gamma must be > 0, got -1.0.
sm.CompositeSigmoid(sm.Sinh(), gamma=math.nan)
    ValueError: CompositeSigmoid: gamma must be finite, got nan.
sm.CompositeSoftmax(sm.Sinh(), gamma="1")
    TypeError: CompositeSoftmax: gamma must be a number, got '1'.
sm.CompositeSoftmax(sm.Sinh(), gamma=True)
    TypeError: CompositeSoftmax: gamma must be a number, got True.
sm.CompositeSoftmax(sm.Sinh(), gamma=np.ones(3))
    TypeError: CompositeSoftmax: gamma must be a number, got array([1., 1., 1.]).
sm.CompositeSoftmax(rho=(1.0, 0.0))
    ValueError: CompositeSoftmax: rho[1] must be > 0, got 0.0.
sm.CompositeSoftmax(rho=2.0)
    TypeError: CompositeSoftmax: rho must be a sequence of numbers, got 2.0.
sm.CompositeSoftmax(rho="ab")
    TypeError: CompositeSoftmax: rho must be a sequence of numbers, got 'ab'.
sm.CompositeSoftmax(anchor=math.inf)
    ValueError: CompositeSoftmax: anchor must be finite, got inf.
sm.CompositeSigmoid(sm.Sinh(), offset=None)
    TypeError: CompositeSigmoid: offset must be a number, got None.
sm.CompositeSigmoid()
    TypeError: CompositeSigmoid: exactly one of scaling, Q and f must be given, got none.
sm.CompositeSoftmax(sm.Sinh(), Q=sm.Cosh())
    TypeError: CompositeSoftmax: exactly one of scaling, Q and f must be given, got scaling and Q.
sm.CompositeSoftmax(sm.Sinh)
    TypeError: CompositeSoftmax: scaling must be a curve, got <class 'selmatch.curves.Sinh'>. Try Sinh().
sm.CompositeSigmoid(np.sinh)
    TypeError: CompositeSigmoid: scaling must be a curve, got <ufunc 'sinh'>.
sm.Separable(sm.CompositeSoftmax())
    TypeError: Separable: curve must be a curve, got CompositeSoftmax(Constant(value=1.0)).
sm.PerLabel({})
    TypeError: PerLabel: curves must be a non-empty mapping from label to curve, got {}.
sm.PerLabel([sm.Sinh()])
    TypeError: PerLabel: curves must be a non-empty mapping from label to curve, got [Sinh()].
sm.PerLabel({"a": sm.Sinh()})
    TypeError: PerLabel: label must be a number, got 'a'.
sm.PerLabel({0.0: sm.Log()})
    ValueError: PerLabel: label must lie in the domain of its curve Log(), got 0.0.
sm.PerLabel({0.0: np.sinh})
    TypeError: PerLabel: the entry of label 0.0 must be a curve, got <ufunc 'sinh'>.
sm.CrossEntropy(sm.Sinh())
    TypeError: CrossEntropy: the potential must be composite or a Sigmoid, got Sinh().
sm.ReweightedSquare(by="label")
    ValueError: ReweightedSquare: by must be 'observed', 'predicted' or 'both', got 'label'.
sm.ReweightedSquare(kappa=0.0)
    ValueError: ReweightedSquare: kappa must be > 0, got 0.0.
sm.ReweightedSquare(delta=-1.0)
    ValueError: ReweightedSquare: delta must be > 0, got -1.0.
sm.ReweightedSquare(low="0")
    TypeError: ReweightedSquare: low must be a number, got '0'.
"""


def cases(text):
    """Calls and the errors that follow them, indented."""
    found = []
    for line in text.strip().splitlines():
        if line.startswith("    "):
            call, error = found.pop()
            found.append((call, f"{error} {line.strip()}".strip()))
        elif not line.startswith("#"):
            found.append((line, ""))
    return found


@pytest.mark.parametrize(("call", "error"), [*cases(CALLS), *cases(MAKES)])
def test_bad_input_is_refused_in_words(call, error):
    with pytest.raises((TypeError, ValueError)) as caught:
        eval(call, dict(NAMES))
    message = f"{type(caught.value).__name__}: {caught.value}"
    assert re.fullmatch(re.escape(error).replace(re.escape("..."), ".*"), message), message


def test_a_refused_call_changes_none_of_its_arguments():
    s_hat, s, where, weights = np.ones(3), np.array([0.0, 1.0, math.nan]), np.ones(3, bool), np.ones(3)
    before = [x.copy() for x in (s_hat, s, where, weights)]
    with pytest.raises(ValueError, match="s must be finite"):
        sinh(s_hat, s, where=where, weights=weights)
    for x, y in zip((s_hat, s, where, weights), before, strict=True):
        np.testing.assert_array_equal(x, y)


OUTSIDE = [
    (logit, [0.5, 1.5, 0.5, 0.5], [0.5, 0.5, 1.0, -0.5]),
    (perlabel, [1.0, -1.0, 1.0, 1.0], [0.0, 1.0, 2.0, -1.0]),
]


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize(("loss", "s_hat", "s"), OUTSIDE, ids=repr)
def test_outside_the_domain_frameworks_give_nan_there_alone(loss, s_hat, s, framework):
    s_hat, s = ARRAYS[framework](s_hat), ARRAYS[framework](s)
    expected = [False, True, True, True]
    results = [*loss.value_and_grad(s_hat, s)]
    if framework == "jax":
        results.append(jax.jit(lambda a, b: loss(a, b, reduction="none"))(s_hat, s))
        results.append(jax.grad(lambda a: loss(a, s, reduction="sum"))(s_hat))
    else:
        results.append(torch.compile(loss, backend="eager", fullgraph=True)(s_hat, s, reduction="none"))
        results.append(torch.func.grad(lambda a: loss(a, s, reduction="sum"))(s_hat))
    for result in results:
        assert np.isnan(np.asarray(result)).tolist() == expected
    assert math.isnan(loss(s_hat, s))
    inside = ARRAYS[framework]([1.0, 0.0, 0.0, 0.0]) != 0
    assert math.isfinite(loss(s_hat, s, where=inside))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_outside_the_domain_other_methods_give_nan_too(framework):
    array = ARRAYS[framework]
    s_hat = array([0.5, 1.5])
    for result in (
        logit.curvature(s_hat),
        logit.hvp(s_hat, s_hat),
        logit.fenchel_young(s_hat, s_hat, reduction="none"),
    ):
        assert np.isnan(np.asarray(result)).tolist() == [False, True]


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_bad_weights_give_nan_where_values_cannot_be_looked_at(framework):
    array = ARRAYS[framework]
    value, slope = sinh.value_and_grad(array([1.0, 1.0]), array([0.0, 0.0]), weights=array([1.0, -1.0]))
    assert np.isnan(np.asarray(value)).tolist() == np.isnan(np.asarray(slope)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("curve", "end"), [(sm.Logit(), 0.0), (sm.Logit(), 1.0), (sm.Arctanh(), 1.0), (sm.NegLog1m(), 1.0), (sm.Log(), 0.0)]
)
def test_predictions_at_an_infinite_end_have_a_finite_loss(curve, end, array):
    loss, s = sm.MatchingLoss(curve), 0.5
    value = np.asarray(loss(array([end]), array([s]), reduction="none"))
    near = np.asarray(loss(array([end + (1e-9 if end == 0 else -1e-9)]), array([s]), reduction="none"))
    np.testing.assert_allclose(value, near, rtol=1e-6)
    assert (value > 0).all()


def test_both_ends_of_the_arcsine_may_be_labels(array):
    value = np.asarray(sm.MatchingLoss(sm.Arcsin())(array([-1.0, 1.0]), array([1.0, 1.0]), reduction="none"))
    np.testing.assert_allclose(value, [math.pi, 0.0], rtol=1e-14)


def test_scores_that_are_not_numbers_stay_so_in_frameworks():
    for array in (ARRAYS["torch"], ARRAYS["jax"]):
        value = sinh(array([math.nan, 1.0]), array([0.0, 0.0]), reduction="none")
        assert np.isnan(np.asarray(value)).tolist() == [True, False]


def test_unchecked_losses_are_built_and_say_so():
    loss = sm.MatchingLoss(sm.Cosh(), check=False)
    assert repr(loss) == "MatchingLoss(Cosh(), check=False)"
    assert loss(-2.0, -1.0) == pytest.approx(math.sinh(-2.0) + math.sinh(1.0) + math.cosh(1.0), rel=1e-13)
    assert loss(-2.0, -1.0) < 0
    assert sm.MatchingLoss(sm.Separable(sm.Cosh()), check=False)([-2.0], [-1.0]) == loss(-2.0, -1.0)
