"""Curves of which only a formula is known: losses and gradients against 50 digits, however steep they are."""

import math
import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from random_formulas import RandomFormula, Step, cases, exactly

import selmatch as sm

f = sm.functions
DOUBLE, SINGLE = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)


def tolerances(formula, s, s_hat, eps=DOUBLE, relative=1e-9):
    """What rounding may do to a loss and its gradient, from the sizes of the terms."""
    value, gradient = exactly((s, s_hat), formula)
    sizes = formula.size(s) + formula.size(s_hat)
    reach = max(abs(s), abs(s_hat))
    loss = relative * abs(value) + 64.0 * eps * (abs(s_hat - s) * sizes + reach * abs(gradient))
    return value, gradient, loss, 128.0 * eps * sizes


def assert_right(formula, s, s_hat, losses, gradients, followed=True, eps=DOUBLE, relative=1e-9):
    """Right losses and gradients; where a trace cannot follow a curve, NaN is right too."""
    losses, gradients = np.asarray(losses, dtype=float), np.asarray(gradients, dtype=float)
    known = np.isfinite(losses)
    assert (known | ~np.broadcast_to(followed, s.shape)).all()
    assert np.isfinite(gradients).all()
    assert (losses[known] >= 0.0).all()
    for i in np.flatnonzero(known):
        value, gradient, slack, slack_of_gradient = tolerances(formula, s[i], s_hat[i], eps, relative)
        assert abs(losses[i] - value) <= slack, (formula.text, s[i], s_hat[i], losses[i], value)
        assert abs(gradients[i] - gradient) <= slack_of_gradient, (formula.text, s[i], s_hat[i], gradients[i], gradient)


def by_autograd(loss, s, s_hat, dtype=torch.float64):
    prediction = torch.tensor(s_hat, dtype=dtype, requires_grad=True)
    value = loss(prediction, torch.tensor(s, dtype=dtype), reduction="none")
    (gradient,) = torch.autograd.grad(value.sum(), prediction)
    return value.detach().numpy(), gradient.numpy()


@settings(max_examples=60)
@given(case=cases())
def test_random_formulas_against_50_digits(case):
    formula, s, s_hat = case
    loss = sm.MatchingLoss(formula.link(), check=False)
    assert_right(formula, s, s_hat, *loss.value_and_grad(s_hat, s, reduction="none"))
    knots = loss.potential.mesh.knots
    followed = (np.minimum(s, s_hat) >= knots[0]) & (np.maximum(s, s_hat) <= knots[-1])
    assert_right(formula, s, s_hat, *by_autograd(loss, s, s_hat), followed)
