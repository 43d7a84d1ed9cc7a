"""Claim: eager PyTorch pays at most 1.5 times for a loss, next to the same formula written by hand.

The mean loss of 8 float32 scores, where nothing counts but the number of operations and what Python does between them.
The formulas by hand are those that selmatch uses in float32, operation by operation, without its dispatch and checks.
"""

import argparse
import statistics
from collections.abc import Callable
from math import factorial
from time import perf_counter

import torch

import selmatch as sm

GOAL = 1.5
COSH = tuple(1.0 / factorial(2 * n + 2) for n in range(5))
SINH = tuple(1.0 / factorial(2 * n + 3) for n in range(5))
PSI = tuple(2.0 / (2 * n + 3) for n in range(7))


def horner(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    total: torch.Tensor | float = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total  # type: ignore[return-value]


def hyperbolic(u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    v = 0.5 * u
    v2 = v * v
    c = v2 * horner(v2, COSH)
    t = v * v2 * horner(v2, SINH)
    s = v + t
    return 2.0 * (s * s), 2.0 * (t + s * c)


def identity(s_hat: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    u = s_hat - s
    return torch.sum(0.5 * (u * u)) / s.numel()


def exponential(s_hat: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    u = s_hat - s
    e, eh = torch.exp(s), torch.exp(s_hat)
    even, odd = hyperbolic(torch.where(torch.abs(u) <= 2.0, u, 0.0))
    value = torch.where(torch.abs(u) <= 2.0, e * (even + odd), eh - e * (1.0 + u))
    return torch.sum(value) / s.numel()


def sigmoid(s_hat: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    u = s_hat - s
    way = torch.where(-s < 0, -1.0, 1.0)
    v, yh = way * u, way * s_hat
    e, eh = torch.exp(torch.where(s > 0, -s, s)), torch.exp(torch.where(yh > 0, -yh, yh))
    q = 1.0 / (1.0 + e)
    p = e * q
    near = torch.abs(u) <= 1.0
    w = torch.where(torch.abs(v) <= 1.0, v, 0.0)
    even, odd = hyperbolic(w)
    bend = even + odd
    rise = w + bend
    a = p * rise
    r = a / (2.0 + a)
    r2 = r * r
    close = p * bend - r * (a - r2 * horner(r2, PSI))
    far = torch.log1p(q * eh - p) + (torch.where(yh > 0, yh, 0.0) - v * p)
    return torch.sum(torch.where(near, close, far)) / s.numel()


def sinh(s_hat: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    u = s_hat - s
    near = torch.abs(u) <= 2.0
    even, odd = hyperbolic(torch.where(torch.abs(u) <= 2.0, u, 0.0))
    root, root_h = torch.exp(0.5 * s), torch.exp(0.5 * s_hat)
    up, down = 0.5 * root * root, 0.5 / root / root
    up_h, down_h = 0.5 * root_h * root_h, 0.5 / root_h / root_h
    rest_up = torch.where(near, up * (even + odd), up_h - up * (1.0 + u))
    rest_down = torch.where(near, down * (even - odd), down_h - down * (1.0 - u))
    return torch.sum(rest_up + rest_down) / s.numel()


BY_HAND = [(sm.Identity(), identity), (sm.Exp(), exponential), (sm.Sigmoid(), sigmoid), (sm.Sinh(), sinh)]


def microseconds(function: Callable[[], object], calls: int) -> float:
    start = perf_counter()
    for _ in range(calls):
        function()
    return 1e6 * (perf_counter() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300, help="calls per timing")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    s_hat, s = torch.randn(8), torch.randn(8)
    leaf = s_hat.clone().requires_grad_()
    print(f"mean loss of 8 float32 scores, microseconds per call, {options.rounds} rounds; goal: {GOAL}x")
    print(f"{'':<12} {'':<18} {'by hand':>9} {'selmatch':>9} {'ratio':>7} {'best':>7}")
    for curve, by_hand in BY_HAND:
        loss = sm.MatchingLoss(curve)
        torch.testing.assert_close(loss(s_hat, s), by_hand(s_hat, s), rtol=1e-6, atol=0.0)
        jobs = {
            "forward": (lambda f: f(s_hat, s)),
            "forward, backward": (lambda f: torch.autograd.grad(f(leaf, s), leaf)),
        }
        for what, job in jobs.items():
            rounds = []
            for _ in range(options.rounds):  # in turn, so that a busy machine slows both
                pair = [microseconds(lambda f=f, job=job: job(f), options.calls) for f in (by_hand, loss)]
                rounds.append(pair)
            hand, ours = (statistics.median(column) for column in zip(*rounds, strict=True))
            ratio = statistics.median(b / a for a, b in rounds)
            best = min(b for _, b in rounds) / min(a for a, _ in rounds)
            print(f"{curve!r:<12} {what:<18} {hand:9.1f} {ours:9.1f} {ratio:6.2f}x {best:6.2f}x")


if __name__ == "__main__":
    main()
