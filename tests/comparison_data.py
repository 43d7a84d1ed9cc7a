"""Small tables for the tests of comparisons."""

import numpy as np
import pandas as pd

#: a comparison that takes a moment
QUICK = {"splits": 2, "settings": 1, "rounds": 5, "resamples": 20, "threads": 1}


def visits(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Visits with a heavy-tailed, positive target; numbers, text, truth values and missing cells among the features."""
    random = np.random.default_rng(seed)
    pages, interest = random.poisson(4.0, rows), random.normal(size=rows)
    seconds = np.exp(0.3 * pages + 0.5 * interest + 0.4 * random.normal(size=rows))
    interest = np.where(random.random(rows) < 0.05, np.nan, interest)
    return pd.DataFrame(
        {
            "pages": pages,
            "interest": interest,
            "shop": np.array(["north", "south", "west"])[random.integers(0, 3, rows)],
            "returning": random.random(rows) < 0.4,
            "seconds": seconds,
        }
    )


def queries(groups: int = 24, size: int = 10, seed: int = 0) -> pd.DataFrame:
    """Lists of items with relevance from 0 to 4."""
    random = np.random.default_rng(seed)
    rows = groups * size
    X = random.normal(size=(rows, 3))
    relevance = np.clip(np.round(1.5 + X[:, 0] + 0.5 * X[:, 1] + 0.5 * random.normal(size=rows)), 0, 4)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["query"] = [f"q{i % groups}" for i in range(rows)]  # rows of a list are not neighbours
    frame["relevance"] = relevance.astype(int)
    return frame
