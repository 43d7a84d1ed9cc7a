"""Words that users type, and the nearest valid ones."""

import difflib
from collections.abc import Iterable

#: a list of choices longer than this helps nobody
MOST_NAMED = 12


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known word that looks most like a word, whatever their case; None if none does.

    Examples
    --------
    >>> from selmatch.words import nearest
    >>> nearest("Sekonds", ["seconds", "pages"])
    'seconds'
    """
    lowered = {name.lower(): name for name in reversed(list(known))}
    close = difflib.get_close_matches(word[:80].lower(), lowered, n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None


def remedy(word: str, known: Iterable[str]) -> str:
    """A sentence that helps with a word that is not known: the nearest one, or the choices.

    Examples
    --------
    >>> from selmatch.words import remedy
    >>> remedy("hihg", ["high", "low"])
    "Did you mean 'high'?"
    >>> remedy("quadratic", ["high", "low"])
    'Choose from: high, low.'
    """
    known = list(dict.fromkeys(known))
    near = nearest(word, known)
    if near is not None:
        return f"Did you mean {near!r}?"
    if not known:
        return "There is nothing to choose from."
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return f"Choose from: {', '.join(known[:MOST_NAMED])}{more}."
