"""How long a search may take."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Effort:
    """A number of boxes, which gives the same answer everywhere, and seconds, which bound the time of a constructor.

    The seconds are those of the own thread: what else runs on a machine must not decide what is proved. With
    ``stored``, the scores at which earlier searches cut, one tuple for each, nothing is searched for: the checker looks
    at these.
    """

    boxes: int = 3000
    seconds: float = math.inf
    stored: tuple[tuple[float, ...], ...] | None = None
    _start: float = field(default_factory=time.thread_time)
    _unused: Iterator[tuple[float, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unused", iter(self.stored or ()))

    def is_over(self) -> bool:
        """Whether the seconds are used up, or nothing is to be searched for."""
        return self.stored is not None or time.thread_time() - self._start > self.seconds

    def next_stored(self) -> tuple[float, ...]:
        """The cuts of the next search."""
        return next(self._unused, ())
