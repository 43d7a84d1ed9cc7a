"""Claim: `import selmatch` costs NumPy and at most 50 ms.

Each round is a process of its own that imports NumPy, then selmatch. Both are read from bytecode, as they are once
installed: the first round writes it to a temporary folder, also where the environment forbids it, and does not count.
"""

import os
import statistics
import subprocess
import sys
import tempfile

REPEATS = 15
ROUND = """
from time import perf_counter
start = perf_counter()
import numpy
middle = perf_counter()
import selmatch
print(middle - start, perf_counter() - middle)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        outputs = [subprocess.check_output([sys.executable, "-c", ROUND], env=environment) for _ in range(1 + REPEATS)]
    rounds = [[1000 * float(seconds) for seconds in output.split()] for output in outputs[1:]]
    for name, column in zip(("numpy", "selmatch on top of it"), zip(*rounds, strict=True), strict=True):
        print(f"{name:<22} median {statistics.median(column):6.1f} ms, best {min(column):6.1f} ms of {REPEATS}")


if __name__ == "__main__":
    main()
