"""Words that users type, the nearest valid ones, and numbers as people read them."""

import difflib
import math
import re
from collections.abc import Iterable
from decimal import Decimal

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


#: what a terminal obeys (but for new lines and tabs), what turns the direction of a line, and what nobody sees
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""A text of strangers as it may be printed: its control characters are shown, and do nothing.

    Examples
    --------
    >>> from selmatch.words import printable
    >>> print(printable("a column\x1b[31m\r\u202e"))
    a column\x1b[31m\r\u202e
    """
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def unbroken(words: str) -> str:
    """Words in which no line can begin with the percent sign of a number.

    Examples
    --------
    >>> from selmatch.words import unbroken
    >>> unbroken("12 % less")
    '12\xa0% less'
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", words)


#: numbers from 10^-4 up to 10^9 are written without a power of ten
LEAST_PLAIN_ORDER, MOST_PLAIN_ORDER = -4, 9


def readable(value: float, digits: int = 4, *, scale: float = 0.0, padded: bool = False) -> str:
    """A number for people: 281,400, not 2.814e+05; far from 1 with a power of a thousand, as 19.14e9 or 2.5e-9.

    Parameters
    ----------
    value : float
        The number.
    digits : int
        How many significant digits are shown, at least 3; whole numbers beyond that are rounded.
    scale : float
        The size of a number beside it, which then has the same decimals and the same power of ten.
    padded : bool
        Whether zeros at the end stay, so that numbers below each other are equally long.

    Examples
    --------
    >>> from selmatch.words import readable
    >>> readable(281437.0), readable(0.0028137), readable(8.0), readable(8.0, padded=True)
    ('281,400', '0.002814', '8', '8.000')
    >>> readable(19_140_000_000.0), readable(7.39e9, scale=19.14e9), readable(2.5e-9)
    ('19.14e9', '7.39e9', '2.5e-9')
    """
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "infinite" if value > 0.0 else "-infinite"
    size = max(abs(value), scale)
    if size == 0.0:
        return "0"
    order = int(f"{size:.{digits - 1}e}".partition("e")[2])  # of the rounded number: 9.9996 is 10.00
    power = 0 if LEAST_PLAIN_ORDER <= order < MOST_PLAIN_ORDER else order - order % 3
    places = digits - 1 - order + power
    text = f"{round(Decimal(value).scaleb(-power), places):z,.{max(0, places)}f}"
    if not padded and "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text}e{power}" if power and text.strip("-0.") else text
