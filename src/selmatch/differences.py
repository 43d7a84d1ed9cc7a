"""Differences of scores within lists: what a pairwise loss looks at."""

from __future__ import annotations

import numpy as np

#: more pairs are sampled, always the same ones
MOST_PAIRS = 200_000


def differences(scores: np.ndarray, sizes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Differences of all ordered pairs of items in each list, and the weight of each in a mean over lists.

    Parameters
    ----------
    scores : array
        Of the items, one list behind the other.
    sizes, weights : array
        Of the lists.

    Returns
    -------
    differences, weights : array
        Both signs of each pair; every list weighs what its weight says, however long it is.

    Examples
    --------
    >>> from selmatch.differences import differences
    >>> differences(np.array([1.0, 3.0, 4.0]), np.array([2, 1]), np.ones(2))
    (array([-2.,  2.]), array([0.5, 0.5]))
    """
    starts, pairs = np.cumsum(sizes) - sizes, sizes * (sizes - 1) // 2
    kept = pairs > 0
    starts, pairs, weights = starts[kept], pairs[kept], weights[kept]
    if pairs.sum() <= MOST_PAIRS:
        lists = np.repeat(np.arange(len(pairs)), pairs)
        ranks = np.arange(len(lists)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        share = np.repeat(weights / pairs, pairs)
    else:
        draws = np.random.default_rng(0).random((2, MOST_PAIRS))
        borders = np.cumsum(weights) / weights.sum()
        lists = np.minimum(np.searchsorted(borders, draws[0], side="right"), len(pairs) - 1)
        ranks = np.minimum((draws[1] * pairs[lists]).astype(np.int64), pairs[lists] - 1)
        share = np.full(MOST_PAIRS, weights.sum() / MOST_PAIRS)
    first, second = _pair(ranks)
    move = scores[starts[lists] + first] - scores[starts[lists] + second]
    return np.concatenate([move, -move]), 0.5 * np.concatenate([share, share])


def _pair(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pair i < j of each rank in the order (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    second = ((1.0 + np.sqrt(1.0 + 8.0 * ranks)) / 2.0).astype(np.int64)
    second -= second * (second - 1) // 2 > ranks  # where the root was rounded
    second += second * (second + 1) // 2 <= ranks
    return ranks - second * (second - 1) // 2, second
