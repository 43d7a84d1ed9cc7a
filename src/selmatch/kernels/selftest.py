"""Run the checks of the GPU kernels without a test runner: ``python -m selmatch.kernels.selftest``.

It needs Python, NumPy, PyTorch and Triton, and a GPU; with TRITON_INTERPRET=1 it runs small sizes on any machine.
Status 1 says that a check failed.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import torch

#: those with the longest checks first
MODULES = ("linear", "sparse", "rows", "operators", "distillation", "elementwise")
_log = logging.getLogger("selmatch.kernels.selftest")


class Check(NamedTuple):
    """A check by its name; it raises AssertionError."""

    name: str
    function: Callable[[Any, dict[str, Any]], None]
    sizes: dict[str, Any]


def checks(size: str, only: str = "") -> Iterator[Check]:
    """Every check, of one size: "interpreter" or "gpu"."""
    for module_name in MODULES:
        module = importlib.import_module(f"selmatch.kernels.checks.{module_name}")
        for name, function in module.CHECKS:
            name = name if name.startswith(module_name) else f"{module_name} {name}"
            if only in name:
                yield Check(name, function, module.SIZES[size])


def run(found: list[Check], device: str) -> list[str]:
    """Run some checks; the names of those that fail."""
    failed = []
    for check in found:
        torch.manual_seed(0)
        start = time.perf_counter()
        try:
            check.function(device, check.sizes)
            _log.info("ok      %6.1f s  %s", time.perf_counter() - start, check.name)
        except Exception:
            failed.append(check.name)
            _log.error("FAILED  %6.1f s  %s\n%s", time.perf_counter() - start, check.name, traceback.format_exc())
    return failed


def _run_one(name: str, size: str, device: str) -> list[str]:
    """One check by its name."""
    return run([check for check in checks(size, name) if check.name == name], device)


def _log_lines() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)


def _run_in_processes(found: list[Check], jobs: int, size: str, device: str) -> list[str]:
    """The same in processes of their own, since each check compiles its kernels."""
    names = [check.name for check in found]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_log_lines) as pool:
        failed = pool.map(_run_one, names, len(names) * [size], len(names) * [device])
        return [name for part in failed for name in part]


def _sanitized() -> int:
    """One check under NVIDIA's memory checker, where the machine has it."""
    checker = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(checker):
        _log.info("compute-sanitizer is not on this machine: memory accesses were not checked by it")
        return 0
    command = [sys.executable, "-m", "selmatch.kernels.selftest", "--only", "rows strides"]
    status = subprocess.call([checker, "--tool", "memcheck", "--error-exitcode", "3", *command])
    _log.info("compute-sanitizer: %s", "no errors" if status == 0 else f"status {status}")
    return status


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m selmatch.kernels.selftest", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", default="", help="checks with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--sanitize", action="store_true", help="also run compute-sanitizer, where it is installed")
    given = parser.parse_args(arguments)
    if sys.flags.optimize:
        parser.error("python -O leaves out what the checks assert; run them without it")
    _log_lines()
    interpreting = os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreting and not torch.cuda.is_available():
        parser.error("there is no GPU; TRITON_INTERPRET=1 runs small sizes without one")
    size, device = ("interpreter", "cpu") if interpreting else ("gpu", "cuda")
    found = list(checks(size, given.only))
    if given.jobs > 1:
        failed = _run_in_processes(found, given.jobs, size, device)
    else:
        failed = run(found, device)
    _log.info("%d checks, %d failed", len(found), len(failed))
    status = 1 if failed else 0
    return (_sanitized() or status) if given.sanitize else status


if __name__ == "__main__":
    sys.exit(main())
