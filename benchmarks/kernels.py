"""Claim: compiled kernels compute losses, gradients and curvatures as fast as memory allows, or several times faster
than scikit-learn's compiled logistic loss.

10^7 scores, all with the same number of threads. Each round times every pass once, next to its peer, so that a busy
machine slows all alike; ratios are taken within a round, and the median over rounds is shown.

* value and gradient (float64, without cancellation) against ``HalfBinomialLoss().loss_gradient``;
* gradient and curvature with h(s) cached, float32, against ``HalfBinomialLoss().gradient_hessian`` on float32;
* the same in float64 against a compiled loop that only reads two arrays and writes two.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numba
import numpy as np
from sklearn._loss.loss import HalfBinomialLoss

import selmatch as sm
from selmatch import kernels
from selmatch.kernels import pool


class Claim(NamedTuple):
    """One pass next to its peer."""

    what: str
    own: Callable[[], object]
    peer: Callable[[], object]
    #: the peer takes at least ``goal`` times as long, or the pass at most ``goal`` times as long as the peer
    goal: float | None
    faster: bool = True


class Result(NamedTuple):
    """Median times of a pass and its peer in seconds, and the ratio that the claim is about."""

    claim: Claim
    own: float
    peer: float
    ratio: float

    @property
    def holds(self) -> bool:
        goal = self.claim.goal
        return goal is None or (self.ratio >= goal if self.claim.faster else self.ratio <= goal)


def plain_curves() -> dict[str, sm.Curve]:
    """The curves with the higher goals."""
    return {"Sigmoid": sm.Sigmoid(), "Sinh": sm.Sinh()}


def composite_curves() -> dict[str, sm.Curve]:
    """Composite curves, and the one that ``focus`` draws."""
    data = np.random.default_rng(1).normal(size=10_000)
    focus: Any = sm.focus("high", data=data)
    return {
        "CompositeSigmoid(Sinh)": sm.CompositeSigmoid(sm.Sinh()),
        "CompositeSigmoid(Exp)": sm.CompositeSigmoid(sm.Exp(), gamma=0.5, offset=-1.0),
        "focus('high')": focus.potential,
    }


@numba.njit(nogil=True)
def _copied(a, b, first, second):
    for i in range(a.shape[0]):
        x, y = a[i], b[i]
        first[i] = x + y
        second[i] = x - y


def copied(a: np.ndarray, b: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """Read two arrays and write two, in parallel like the kernels."""
    pool.run(lambda i, j: _copied(a[i:j], b[i:j], first[i:j], second[i:j]), len(a))


def _scores(count: int, dtype: Any) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    s_hat, s = (rng.normal(size=count).astype(dtype) for _ in range(2))
    return s_hat, s, np.zeros_like(s), np.zeros_like(s)


def value_and_gradient(count: int) -> Iterator[Claim]:
    """Accurate loss and gradient in float64."""
    s_hat, s, first, second = _scores(count, np.float64)
    target, compiled, threads = sm.Sigmoid()(s), HalfBinomialLoss(), kernels.threads()

    def peer() -> None:
        compiled.loss_gradient(target, s_hat, loss_out=first, gradient_out=second, n_threads=threads)

    for name, curve in {**plain_curves(), **composite_curves()}.items():
        kernel = kernels.elementwise(curve)
        yield Claim(
            f"{name}: value and gradient, float64, against loss_gradient",
            lambda kernel=kernel: kernel.value_and_gradient(s_hat, s, out=(first, second)),
            peer,
            3.0 if name in plain_curves() else None,
        )


def gradient_and_curvature(count: int, dtype: Any, kinds: tuple[str, ...] = ("secant", "newton")) -> Iterator[Claim]:
    """Gradient and curvature with h(s) cached: float32 against scikit-learn, float64 against a copy."""
    s_hat, s, first, second = _scores(count, dtype)
    target, compiled, threads = sm.Sigmoid()(s), HalfBinomialLoss(), kernels.threads()
    single = np.dtype(dtype) == np.float32

    def peer() -> None:
        if single:
            compiled.gradient_hessian(target, s_hat, gradient_out=first, hessian_out=second, n_threads=threads)
        else:
            copied(s_hat, s, first, second)

    for name, curve in {**plain_curves(), **composite_curves()}.items():
        kernel = kernels.elementwise(curve)
        known = kernel.link(s)
        for kind in kinds:
            goal = (3.0 if name in plain_curves() else 2.0) if single else 1.6
            yield Claim(
                f"{name}: gradient and {kind}, {np.dtype(dtype)}, against {'gradient_hessian' if single else 'a copy'}",
                lambda kernel=kernel, known=known, kind=kind: kernel.gradient_and_curvature(
                    s_hat, s, known, kind=kind, out=(first, second)
                ),
                peer,
                goal,
                faster=single,
            )


def _seconds(function: Callable[[], object]) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start


def measured(claim: Claim, rounds: int) -> Result:
    """A pass and its peer, in turn."""
    claim.own()  # compiles
    claim.peer()
    times = [(_seconds(claim.own), _seconds(claim.peer)) for _ in range(rounds)]
    ratios = [peer / own if claim.faster else own / peer for own, peer in times]
    own, peer = (statistics.median(column) for column in zip(*times, strict=True))
    return Result(claim, own, peer, statistics.median(ratios))


def results(count: int = 10**7, rounds: int = 7) -> Iterator[Result]:
    """Everything, one after the other."""
    claims = (
        value_and_gradient(count),
        gradient_and_curvature(count, np.float32),
        gradient_and_curvature(count, np.float64),
    )
    for group in claims:
        for claim in group:
            yield measured(claim, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=10**7)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{options.scores:,} scores, {kernels.threads()} threads, medians of {options.rounds} rounds, ms")
    print(f"{'':<78} {'own':>7} {'peer':>7} {'ratio':>7}")
    for result in results(options.scores, options.rounds):
        goal = result.claim.goal
        sign = ">=" if result.claim.faster else "<="
        note = "" if goal is None else f"  goal {sign} {goal} {'met' if result.holds else 'MISSED'}"
        print(f"{result.claim.what:<78} {1e3 * result.own:7.1f} {1e3 * result.peer:7.1f} {result.ratio:7.2f}{note}")


if __name__ == "__main__":
    main()
