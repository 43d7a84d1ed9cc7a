"""Sums over all pairs of a list, in as little time as the link allows.

The pairwise loss of a list is the sum, over its ordered pairs i != j, of the matching loss of the predicted difference
``s_hat[i] - s_hat[j]`` for the observed one, ``s[i] - s[j]``. :mod:`selmatch.ranking` is the front; here are the sums.
"""

from selmatch.pairs.sums import Pairs, plan, require_both_signs, require_gap

__all__ = ["Pairs", "plan", "require_both_signs", "require_gap"]
