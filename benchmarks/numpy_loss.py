"""Claim: on NumPy, value and gradient cost about as much as scikit-learn's compiled logistic loss.

10^7 float32 scores, one thread. Each round times every loss once, next to ``HalfBinomialLoss().loss_gradient``, so that
a busy machine slows all alike; ratios are taken within a round.
"""

import argparse
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np
from sklearn._loss import HalfBinomialLoss

import selmatch as sm

GOALS = {"Sigmoid()": 1.6, "Sinh()": 1.2}
CURVES = [
    sm.Sigmoid(),
    sm.Sinh(),
    sm.Identity(),
    sm.Exp(),
    sm.Sigmoid().affine(alpha=2.0, beta=1.0),
    sm.Sinh().affine(alpha=0.5, beta=1.0),
    sm.Sinh().capped(-2.0, 2.0),
    sm.CompositeSigmoid(sm.Sinh().affine(alpha=0.5)),
]


def seconds(function: Callable[[], object]) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=10**7)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    s_hat, s = (rng.normal(size=options.scores).astype(np.float32) for _ in range(2))
    probability = sm.Sigmoid()(s)
    value, gradient = np.empty_like(s), np.empty_like(s)
    compiled = HalfBinomialLoss()

    def baseline() -> None:
        compiled.loss_gradient(
            y_true=probability, raw_prediction=s_hat, loss_out=value, gradient_out=gradient, n_threads=1
        )

    losses = {repr(curve): sm.MatchingLoss(curve) for curve in CURVES}
    times: dict[str, list[float]] = {name: [] for name in losses}
    ratios: dict[str, list[float]] = {name: [] for name in losses}
    base = []
    for _ in range(options.rounds):
        for name, loss in losses.items():
            own = seconds(baseline)
            times[name].append(seconds(lambda loss=loss: loss.value_and_grad(s_hat, s)))
            # the baseline before and after, since the machine's speed drifts
            own = 0.5 * (own + seconds(baseline))
            base.append(own)
            ratios[name].append(times[name][-1] / own)

    def nanoseconds(column: list[float]) -> str:
        return f"{1e9 * statistics.median(column) / options.scores:9.2f} {1e9 * min(column) / options.scores:8.2f}"

    print(f"value and gradient of {options.scores:,} float32 scores, {options.rounds} rounds, ns per score")
    print(f"{'':<52} {'median':>9} {'best':>8} {'ratio':>7} {'best':>7}")
    print(f"{'scikit-learn HalfBinomialLoss':<52} {nanoseconds(base)}")
    for name in losses:
        middle, best = statistics.median(ratios[name]), min(times[name]) / min(base)
        goal = f"   goal {GOALS[name]}x" if name in GOALS else ""
        print(f"{name:<52} {nanoseconds(times[name])} {middle:6.2f}x {best:6.2f}x{goal}")


if __name__ == "__main__":
    main()
