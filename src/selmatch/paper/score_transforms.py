"""The score-transforms that the paper's appendix warns of, for the figure and for the claims."""

from __future__ import annotations

import selmatch as sm

SQUARE, NORM, SINH_OF_NORM = "abs(z)^2", "abs(z)", "sinh(abs(z))"
EXP_SIGMOID, EXP_TANH, SOFTPLUS, SIGMOID = "exp(sigmoid(z))", "exp(tanh(z))", "softplus(z)", "sigmoid(z)"


def link_of(transform: str, gamma: float = 1.0) -> sm.CompositeSigmoid:
    """The link of a score-transform f that may not be allowed.

    Examples
    --------
    >>> from selmatch.paper.score_transforms import SINH_OF_NORM, link_of
    >>> round(link_of(SINH_OF_NORM, gamma=0.5)(1.0), 9) == round(math.tanh(1.0), 9)
    True
    """
    return sm.CompositeSigmoid(f=sm.parse(transform), gamma=gamma, check=False)
