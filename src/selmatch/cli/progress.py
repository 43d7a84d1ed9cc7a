"""How far a long run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from selmatch.cli.output import messages, say

#: lines for a log file, for the whole run
LINES = 10


class Bar:
    """Progress on standard error; use it as a context manager, and its ``update`` as the callback.

    Attributes
    ----------
    done, total : int
        How many fits are finished, and how many there will be.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.done = self.total = 0
        self._quiet = quiet
        self._console = messages()
        self._progress: Progress | None = None
        if self._console.is_terminal and not quiet:
            # where there is little room the words go first, then the bar; count and time stay
            whole, rest = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
            words = TextColumn("{task.description}", markup=False, table_column=rest)  # may hold names of columns
            count, time = MofNCompleteColumn(table_column=whole), TimeRemainingColumn(table_column=whole.copy())
            columns = (BarColumn(16), count, time, words)
            self._progress = Progress(*columns, console=self._console, transient=True, expand=True)
            self._task = self._progress.add_task("reading the data", total=None)

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: int, total: int, words: str = "") -> None:
        """One more fit is finished."""
        before, self.done, self.total = self.done, done, total
        words = words if done < total else "measuring"
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=total, description=words)
        elif not self._quiet and total and done * LINES // total > before * LINES // total:
            say(f"{done} of {total} fits, {words}")

    def say(self, words: str) -> None:
        """What happens after the last fit."""
        if self._progress is not None:
            self._progress.update(self._task, description=words)
