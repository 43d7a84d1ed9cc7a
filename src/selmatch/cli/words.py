"""Words of options: known ones, and several at once."""

from __future__ import annotations

from collections.abc import Iterable

from selmatch.words import remedy


def require(who: str, what: str, word: str, known: Iterable[str]) -> str:
    """The word, if it is known; else an error with the nearest one."""
    known = list(known)
    if word not in known:
        raise ValueError(f"{who}: {what} must be known, got {word!r}. {remedy(word, known)}")
    return word


def listed(values: Iterable[str] | None) -> list[str]:
    """Names from options that may be repeated, and may hold several with commas between.

    Examples
    --------
    >>> from selmatch.cli.words import listed
    >>> listed(["squared, huber", "selective"])
    ['squared', 'huber', 'selective']
    """
    return [name.strip() for value in values or () for name in value.split(",") if name.strip()]
