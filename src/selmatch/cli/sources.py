"""What ``plot``, ``check`` and ``explain`` look at: a spec file, or a formula."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

import selmatch
from selmatch import spec
from selmatch.cli.columns import scores
from selmatch.cli.files import SPECS, TABLES, is_there, require_file
from selmatch.cli.output import say
from selmatch.curve import Curve


def read(source: str, *, check: bool = True) -> Any:
    """The loss, potential or curve that an argument means.

    Parameters
    ----------
    source : str
        The path of a spec file, or a formula.
    check : bool
        False also reads losses that selmatch refuses since they are not convex, in order to say why.
    """
    path = Path(source)
    if is_there(path):
        try:
            return spec.load(path)
        except spec.SpecError:
            if not check:
                with contextlib.suppress(spec.SpecError):
                    return spec.load_unchecked(path)
            raise
    if source.lower().endswith(SPECS):
        require_file(path, SPECS)
    return selmatch.parse(source)


def stored_certificates(source: str) -> list[Any]:
    """The certificates in a spec file, each checked again; none for a formula."""
    path = Path(source)
    return spec.certificates(path, check=False) if is_there(path) else []


def potential(source: str, scaling: bool, classes: bool, gamma: float | None, *, check: bool = True) -> Any:
    """What an argument means, as a link or, on request, as the scaling of a composite."""
    found = read(source, check=check)
    if not (scaling or classes):
        if gamma is not None:
            raise ValueError(f"--gamma belongs to a composite, got {gamma:g} without one. Add --scaling or --classes.")
        return found
    if scaling and classes:
        raise ValueError("--scaling and --classes must not be given together: one score, or many classes.")
    if not isinstance(found, Curve):
        raise TypeError(f"{source}: a scaling must be a curve or a formula, got {type(found).__name__}.")
    composite = selmatch.CompositeSoftmax if classes else selmatch.CompositeSigmoid
    return composite(found, gamma=1.0 if gamma is None else gamma, check=check)


def data_of(path: Path | None, column: str | None) -> np.ndarray | None:
    """The scores that a command was given, if any."""
    if path is None:
        if column is not None:
            raise ValueError(f"--column must come with --data, got only {column!r}. Add --data FILE.")
        return None
    require_file(path, TABLES)
    found, notes = scores(path, column)
    for note in notes:
        say(f"Note: {note}", style="yellow")
    return found
