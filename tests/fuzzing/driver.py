"""Feed random and mutated formulas and spec files to the library.

``PYTHONPATH=tests python -m fuzzing --count 100000 [--seed N] [--what formulas|specs|both|proofs]``

Each input must give a valid object or a clear error: another exception, more than a second, or anything that looks like
running code (a process, a file, a socket, an import, compiled code) is a failure. Its text is saved, and the exit
status is 1. A seed and a count always give the same inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import multiprocessing
import pickle
import queue
import random
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT = 1.0  # seconds of one case, unless its module says otherwise
PATIENCE = 15.0  # seconds after which a worker is given up; much longer, since other programs may hold the processor
BATCH = 200
WORKERS = 2
FORBIDDEN = (
    "exec",
    "compile",
    "open",
    "import",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "pty.",
    "shutil.",
    "code.",
)


@dataclass
class Report:
    """What a worker has seen since it last reported."""

    valid: int = 0
    refused: int = 0
    slowest: float = 0.0
    slowest_case: Any = None
    failures: list[tuple[Any, str]] = field(default_factory=list)


class Guard:
    """Notes forbidden events while a case runs."""

    def __init__(self) -> None:
        self.running = False
        self.events: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: Any) -> None:
        if self.running and event.startswith(FORBIDDEN):
            self.events.append(f"{event} {arguments!r:.200}")


def work(what: str, seed: int, count: int, reports: Any, current: Any) -> None:
    """Run cases; the case that runs is always in ``current``, for the parent to see if it never ends."""
    module = importlib.import_module(f"fuzzing.{what}")
    for case in itertools.islice(module.cases(random.Random(-1)), BATCH):  # loads what is loaded on first use
        current.put(case)
        with contextlib.suppress(Exception):  # failures count later
            module.check(case)
        current.clear()
    guard, report = Guard(), Report()
    for number, case in enumerate(itertools.islice(module.cases(random.Random(seed)), count), start=1):
        current.put(case)
        guard.events.clear()
        start = time.process_time()
        guard.running = True
        try:
            valid, problem = module.check(case), ""
        except BaseException:
            guard.running = False  # to print an exception, Python reads its own files
            valid, problem = None, traceback.format_exc()
        finally:
            guard.running = False
        seconds = time.process_time() - start
        current.clear()
        if guard.events:
            problem = f"{problem}\nforbidden: {guard.events}"
        if seconds > getattr(module, "LIMIT", LIMIT):
            problem = f"{problem}\ntook {seconds:.2f} s"
        if problem:
            report.failures.append((case, problem))
        elif valid:
            report.valid += 1
        else:
            report.refused += 1
        if seconds > report.slowest:
            report.slowest, report.slowest_case = seconds, case
        if number % BATCH == 0 or number == count or problem:
            reports.put((what, seed, report))
            report = Report()
    reports.put((what, seed, None))


class Current:
    """The case that a worker runs, and since when; shared with the parent."""

    def __init__(self, context: Any) -> None:
        self.since = context.Value("d", 0.0, lock=False)
        self.length = context.Value("q", 0, lock=False)
        self.data = context.RawArray("c", 1 << 23)

    def put(self, case: Any) -> None:
        data = pickle.dumps(case)[: len(self.data)]
        self.data[: len(data)] = data
        self.length.value, self.since.value = len(data), time.time()

    def clear(self) -> None:
        self.since.value = 0.0

    def stuck(self) -> bool:
        since = self.since.value
        return since > 0.0 and time.time() - since > PATIENCE

    def case(self) -> Any:
        return pickle.loads(self.data[: self.length.value])


def shares(what: str, count: int) -> list[tuple[str, int]]:
    """What each worker does."""
    kinds = ["formulas", "specs"] if what == "both" else [what] * WORKERS
    return [(kind, count // WORKERS + (i < count % WORKERS)) for i, kind in enumerate(kinds)]


def save(folder: Path, number: int, what: str, case: Any, problem: str) -> Path:
    """Write a failing case to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    text, suffix = case if isinstance(case, tuple) else (case, "txt")
    file = folder / f"{what}_{number}.{suffix}"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    file.with_suffix(".error").write_text(problem, encoding="utf-8", errors="backslashreplace")
    return file


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzzing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=None, help="for the same inputs again")
    parser.add_argument("--what", choices=["formulas", "specs", "both", "proofs"], default="both")
    parser.add_argument("--failures", type=Path, default=Path("fuzz_failures"), help="folder for inputs that fail")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    print(f"fuzzing {options.what}: {options.count:,} inputs, --seed {seed}", flush=True)
    if options.what == "proofs":
        from fuzzing import proofs

        return 1 if proofs.run(options.count, seed, WORKERS) else 0

    context = multiprocessing.get_context("spawn")
    reports, start = context.Queue(), time.perf_counter()
    workers = []
    for i, (what, count) in enumerate(shares(options.what, options.count)):
        current = Current(context)
        process = context.Process(target=work, args=(what, seed + i, count, reports, current), daemon=True)
        process.start()
        workers.append((what, seed + i, process, current))
    totals: dict[str, Report] = {what: Report() for what, *_ in workers}
    waiting = {(what, own) for what, own, *_ in workers}
    failures = 0

    def failed(what: str, case: Any, problem: str) -> None:
        nonlocal failures
        failures += 1
        if failures <= 50:
            file = save(options.failures, failures, what, case, problem)
            print(f"FAILED, saved to {file}: {problem.strip().splitlines()[-1][:200]}", flush=True)

    while waiting:
        try:
            what, own, report = reports.get(timeout=0.5)
        except queue.Empty:
            for what, own, process, current in workers:
                if (what, own) not in waiting:
                    continue
                if current.stuck():
                    failed(what, current.case(), f"did not end within {PATIENCE:g} s")
                    process.terminate()
                    waiting.discard((what, own))
                elif process.exitcode is not None and reports.empty():
                    case = current.case() if current.since.value else ""
                    failed(what, case, f"the process ended with status {process.exitcode}")
                    waiting.discard((what, own))
            continue
        if report is None:
            waiting.discard((what, own))
            continue
        total = totals[what]
        total.valid += report.valid
        total.refused += report.refused
        if report.slowest > total.slowest:
            total.slowest, total.slowest_case = report.slowest, report.slowest_case
        for case, problem in report.failures:
            failed(what, case, problem)

    for what, total in totals.items():
        text = total.slowest_case[0] if isinstance(total.slowest_case, tuple) else total.slowest_case
        print(f"{what}: {total.valid:,} valid, {total.refused:,} refused; slowest {total.slowest:.3f} s: {text!r:.160}")
    print(f"{failures} failures in {time.perf_counter() - start:.0f} s")
    return 1 if failures else 0
