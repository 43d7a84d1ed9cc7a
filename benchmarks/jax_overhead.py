"""Claim: under jit, a step with ``selmatch.jax.matching_loss`` takes at most the time and the memory of differentiating
the loss; on a CPU less than half of the time for a Sigmoid and for a composite Softmax with q = 1 or q = exp.

Value and gradient of the mean loss, compiled; beside it Optax's loss of the same kind, where Optax is installed, and
the time of reading two arrays and writing one. Memory is what XLA allocates beside arguments and results.
"""

import argparse
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp

import selmatch as sm
from selmatch.jax import matching_loss

try:
    import optax
except ImportError:
    optax = None

Array = Any

CASES = [
    ("Identity", sm.Identity(), "l2_loss"),
    ("Sigmoid", sm.Sigmoid().affine(alpha=2.0), "sigmoid_binary_cross_entropy"),
    ("Sinh", sm.Sinh().affine(alpha=0.5), None),
    ("Softmax", sm.CompositeSoftmax(), "softmax_cross_entropy"),
    ("Softmax, exp", sm.CompositeSoftmax(sm.Exp().affine(alpha=0.5)), None),
    ("Softmax, sinh", sm.CompositeSoftmax(sm.Sinh().affine(alpha=0.5)), None),
]


def peer(name: str | None) -> Callable[[Array, Array], Array] | None:
    """The mean of a loss of Optax for scores; its targets are what it expects."""
    if name is None or optax is None:
        return None
    function = getattr(optax.losses, name)
    to_target = {"softmax_cross_entropy": jax.nn.softmax, "sigmoid_binary_cross_entropy": jax.nn.sigmoid}.get(name)
    return lambda a, b: jnp.mean(function(a, b if to_target is None else to_target(b)))


def compiled(function: Callable[..., Any], *arguments: Array) -> tuple[Callable[[], object], float, float]:
    """A call, the seconds it took to trace and compile, and the temporary memory in units of one argument."""
    start = perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    seconds = perf_counter() - start
    memory = program.memory_analysis()
    temporary = memory.temp_size_in_bytes / arguments[0].nbytes if memory is not None else float("nan")
    return lambda: jax.block_until_ready(program(*arguments)), seconds, temporary


def milliseconds(function: Callable[[], object]) -> float:
    start = perf_counter()
    function()
    return 1e3 * (perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--classes", type=int, default=4096)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    keys = jax.random.split(jax.random.key(0))
    s = jax.random.normal(keys[0], (options.rows, options.classes), dtype=options.dtype)
    s_hat = s + 0.1 * jax.random.normal(keys[1], s.shape, dtype=options.dtype)
    device = jax.devices()[0].device_kind
    print(f"value and gradient of {options.rows} x {options.classes} {options.dtype} scores on {device}, jax", end=" ")
    print(f"{jax.__version__}: milliseconds, temporary memory in arrays of scores, seconds to compile")
    floor, _, _ = compiled(lambda a, b: a + b, s_hat, s)
    floor()
    print(f"read two arrays, write one: {min(milliseconds(floor) for _ in range(options.rounds)):.3f} ms")
    print(f"{'':<14} {'':<16} {'ms':>9} {'memory':>7} {'compile':>8} {'of autodiff':>12}")
    for name, potential, of_optax in CASES:
        loss = sm.MatchingLoss(potential)
        functions = {
            "differentiated": lambda a, b, loss=loss: loss(a, b),
            "matching_loss": lambda a, b, loss=loss: matching_loss(a, b, loss, reduction="mean"),
            of_optax or "": peer(of_optax),
        }
        jobs = {k: compiled(jax.value_and_grad(f), s_hat, s) for k, f in functions.items() if f is not None}
        for call, _, _ in jobs.values():
            call()
        rounds = [[milliseconds(call) for call, _, _ in jobs.values()] for _ in range(options.rounds)]
        for i, (which, (_, seconds, memory)) in enumerate(jobs.items()):
            time = statistics.median(row[i] for row in rounds)
            ratio = statistics.median(row[i] / row[0] for row in rounds)
            print(f"{name:<14} {which[:16]:<16} {time:9.3f} {memory:7.1f} {seconds:8.2f} {ratio:11.2f}x")


if __name__ == "__main__":
    main()
