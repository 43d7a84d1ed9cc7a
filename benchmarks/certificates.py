"""Claim: a provable statement on [-8, 8] takes less than half a second, and a false one ends with a witness as fast.

A proof includes its check by the second path; "verify" is that check alone, once more.

The statements are those of the tests: built-in links, formulas of which nothing is known, composite losses near their
exact thresholds. Times are the best of three.
"""

from time import perf_counter
from typing import Any

import selmatch as sm
from selmatch import certify
from selmatch import functions as f
from selmatch.paper.table_entries import entries

DOMAIN = (-8.0, 8.0)
#: d and gamma of the paper's thresholds
CASES = ((1.0, 4.0), (2.0, 0.5), (3.0, 2.0))


def unchecked(scaling=None, **options):
    return sm.CompositeSigmoid(scaling, check=False, **options)


STATEMENTS = {
    "a sum of links": sm.Sinh() + 0.1 * sm.Identity() + sm.Sigmoid().affine(2.0, 1.0),
    "z + tanh z": sm.FromLink(lambda z: z + f.tanh(z)),
    "z - 0.999 sin z": sm.FromLink(lambda z: z - 0.999 * f.sin(z)),
    "z - 1.001 sin z": sm.FromLink(lambda z: z - 1.001 * f.sin(z)),
    "bumps": sm.FromLink(lambda z: z + 0.4 * f.tanh(4.0 * (z - 2.0)) - 0.4 * f.tanh(2.0 * (z + 1.0))),
    "two branches": sm.FromLink(lambda z: f.where(z > 0.5, 2.0 * z, z + 0.5)),
    "a jump by -0.001": sm.FromLink(lambda z: f.where(z > 0.3, z - 0.001, z)),
    "a formula, parsed": sm.parse("z + 0.5*tanh(3*(z-1)) - 0.2*sin(z)", lower=False),
    "a polynomial": sm.Polynomial((0.0, 3.0, -3.0, 1.0)),
    "cosh, gamma 0.1 % below": unchecked(sm.Cosh() + sm.Constant(0.0), gamma=0.999 * 1.32528134),
    "cosh, gamma 0.1 % above": unchecked(sm.Cosh() + sm.Constant(0.0), gamma=1.001 * 1.32528134),
    "|x|^2 + 1.2, gamma 1": unchecked(sm.AbsPower(2.0, 1.2) + sm.Constant(0.0), gamma=1.0),
    "f = softplus": unchecked(f=f.softplus),
    "f = e^tanh": unchecked(f=lambda z: f.exp(f.tanh(z))),
    "f = e^(z + tanh z)": unchecked(f=lambda z: f.exp(z + f.tanh(z))),
    "Softmax with cosh": sm.CompositeSoftmax(sm.Cosh(), check=False),
}


def best(work) -> float:
    """Milliseconds."""
    times = []
    for _ in range(3):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return 1000 * min(times)


def papers_own() -> list[Any]:
    """What certifies the paper's table of scalings and its thresholds, which are to be searched for."""
    tables = [certify.convex(entry.loss) for entry in entries("scalings")]
    return [*tables, certify.largest_gamma(sm.Cosh()).at_low, *(certify.smallest_c(*case).at_high for case in CASES)]


def main() -> None:
    print("   proof   verify")
    for name, potential in STATEMENTS.items():
        certificate: Any = certify.convex(potential, DOMAIN)
        again = f"{best(certificate.verify):8.2f}" if certificate else "       -"
        proof = best(lambda potential=potential: certify.convex(potential, DOMAIN))
        print(f"{proof:8.2f} {again} ms  {type(certificate).__name__:<9}  {name}")
    own = papers_own()
    again = best(lambda: [certificate.verify() for certificate in own])
    print(f"{best(papers_own):8.2f} {again:8.2f} ms  {len(own)} certificates of the paper")


if __name__ == "__main__":
    main()
