"""The re-weighted squares of the paper: for the figure and for the claims."""

import selmatch as sm


def reweighted(by: str) -> sm.ReweightedSquare:
    """Squared error with weights 0.5 (z - min s + 0.5), where the lowest score is -3."""
    return sm.ReweightedSquare(by=by, kappa=0.5, low=-3.0, delta=0.5)
