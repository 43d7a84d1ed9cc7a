"""The small data set that the demo runs on."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

__all__ = ["dwell_shoppers"]


def dwell_shoppers() -> Path:
    """Where the visits to a web shop are: 12,330 rows, with the seconds spent on product pages.

    The target is ``ProductRelated_Duration``; ``Revenue`` is an outcome of the visit and no feature. Origin and licence
    (CC BY 4.0) are in the README beside it.

    Examples
    --------
    >>> from selmatch.data import dwell_shoppers
    >>> dwell_shoppers().name
    'dwell_shoppers.csv.gz'
    """
    return Path(str(resources.files(__name__) / "dwell_shoppers.csv.gz"))
