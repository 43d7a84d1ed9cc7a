"""The paper, redrawn and checked: its figures, its tables by measurement, its claims with the numbers behind them.

``write("folder")`` draws everything and writes one page to look at; :func:`figure` gives a single figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from selmatch.paper.records import Claim, Evidence, Figure, Table
from selmatch.words import remedy

__all__ = ["Claim", "Evidence", "Figure", "Table", "draw", "figure", "figures", "write"]


def figures() -> tuple[Figure, ...]:
    """All figures, in the order of the paper.

    Examples
    --------
    >>> [figure.name for figure in sm.paper.figures()][:2]
    ['matching_loss_demo', 'selective_bin_loss_regions']
    """
    from selmatch.paper.drawings import FIGURES

    return FIGURES


def figure(name: str) -> Figure:
    """The figure of a name, which is its label in the paper without ``fig:``.

    Examples
    --------
    >>> sm.paper.figure("match_stochastic").title
    'The best prediction for scores that vary'
    """
    found = {figure.name: figure for figure in figures()}
    if name not in found:
        raise ValueError(f"paper.figure: name must be that of a figure, got {name!r}. {remedy(str(name), found)}")
    return found[name]


def draw(
    folder: str | Path, names: str | Iterable[str] | None = None, formats: str | Iterable[str] = ("svg", "png")
) -> list[Path]:
    """Draw figures into a folder.

    Parameters
    ----------
    folder : path
        Is made if it does not exist.
    names : str or iterable of str, optional
        Which figures; by default all of them.
    formats : str or iterable of str
        Endings that Matplotlib can write: "svg", "png", "pdf" ...

    Returns
    -------
    list of Path
        The files, by figure and format.
    """
    from selmatch.paper.sheet import save

    chosen = figures() if names is None else [figure(name) for name in _several(names)]
    saved = [save(one.draw, Path(folder) / one.name, _several(formats)) for one in chosen]
    return [path for files in saved for path in files.paths]


def _several(words: str | Iterable[str]) -> tuple[str, ...]:
    """One word or many."""
    return (words,) if isinstance(words, str) else tuple(words)


def write(folder: str | Path, progress: Callable[[str], object] | None = None) -> Path:
    """Draw all figures and write ``index.html`` beside them: figures, tables, worked examples and claims on one page.

    Parameters
    ----------
    folder : path
        Is made if it does not exist. The page refers to files in it only, and to nothing outside.
    progress : callable, optional
        Is called with the name of each part before it is made.

    Returns
    -------
    Path
        Of the page.
    """
    from selmatch.paper.sheet import write

    return write(Path(folder), progress)
