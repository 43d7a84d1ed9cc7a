"""How long a search may take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Effort:
    """A number of boxes, which gives the same answer everywhere, and seconds, which bound the time of a constructor.

    The seconds are those of the own thread: what else runs on a machine must not decide what is proved.
    """

    boxes: int = 3000
    seconds: float = math.inf
    _start: float = field(default_factory=time.thread_time)

    def is_over(self) -> bool:
        """Whether the seconds are used up."""
        return time.thread_time() - self._start > self.seconds
