"""Claim: value and gradient over all pairs of 10^6 items take under 0.2 s with linear links, 0.6 s with sorted ones.

On NumPy with two cores, in memory that grows with the number of items, for one list of all items and for many short
ones. Also shown: processor time, which a busy machine changes less, and the largest memory in multiples of one array.
"""

import argparse
import statistics
import tracemalloc
from collections.abc import Callable
from time import perf_counter, process_time

import numpy as np

import selmatch as sm
from selmatch.lists import Groups
from selmatch.pairs import Pairs

#: seconds for one list, by plan
GOALS = {"linear": 0.2, "sorted": 0.6}
CURVES = [
    sm.Sinh(),
    sm.Identity(),
    sm.SignedPower(3.0),
    sm.Huber(),
    sm.ReLU(),
    sm.Staircase((0.5, 1.0), (1.0, 1.0)),
    sm.FromSensitivity((-1.0, 1.0, 3.0), (1.0, 2.0, 1.0)),
]


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """On the clock, and of the processors."""
    start, busy = perf_counter(), process_time()
    function()
    return perf_counter() - start, process_time() - busy


def arrays(function: Callable[[], object], items: int) -> float:
    """The largest memory, in multiples of one array of the items."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * items)


def outcome(curve: sm.Curve, median: float) -> str:
    goal = GOALS[Pairs(curve).plan]
    return f"   goal {goal} s: {'met' if median < goal else 'MISSED'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    s_hat, s = np.random.default_rng(0).normal(size=(2, options.items))
    cases = {
        (size, curve): (lambda pairs, lists: lambda: pairs.value_and_gradient(s_hat, s, lists))(
            Pairs(curve), Groups.from_sizes(np.full(options.items // size, size))
        )
        for size in (options.items, 100, 10)
        for curve in CURVES
    }
    small = Groups.from_sizes(np.full(options.items // 10, 10))
    cases[10, sm.Sigmoid()] = lambda: Pairs(sm.Sigmoid()).value_and_gradient(s_hat, s, small)
    times: dict[object, list[tuple[float, float]]] = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case, function in cases.items():
            times[case].append(seconds(function))
    print(f"value and gradient over all pairs of {options.items:,} items, {options.rounds} rounds")
    print(f"{'items of a list':>15} {'plan':>8} {'link':<66} {'median s':>9} {'best s':>7} {'cpu s':>6} {'arrays':>7}")
    for (size, curve), function in cases.items():
        clock, busy = zip(*times[size, curve], strict=True)
        goal = outcome(curve, statistics.median(clock)) if size == options.items == 10**6 else ""
        print(
            f"{size:15,} {Pairs(curve).plan:>8} {repr(curve)[:66]:<66} {statistics.median(clock):9.3f} "
            f"{min(clock):7.3f} {statistics.median(busy):6.3f} {arrays(function, options.items):7.1f}{goal}"
        )


if __name__ == "__main__":
    main()
