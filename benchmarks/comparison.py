"""Claims about `selmatch compare`: what it says on data it was not tuned on, and that a large table fits in memory.

First the demo with five seeds of the splits; then, if the folder in `SELMATCH_DATA` has them, other public data sets,
one run each with default settings; then the peak memory of a million rows and 50 columns in a CSV file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from selmatch import compare
from selmatch.data import dwell_shoppers

DEMO = {"target": "ProductRelated_Duration", "scale": "log", "drop": ("Revenue", "split")}
#: file, and question; regions and scales are those that the descriptions of the data sets suggest
OTHERS = {
    "King County, price": ("house_king/kc_house.csv.gz", {"target": "price", "scale": "log", "drop": ("split", "id")}),
    "California, house value": (
        "house_california/housing.csv.gz", {"target": "median_house_value", "drop": ("split",)},
    ),
    "Beijing, PM2.5 from 150": (
        "air_beijing/pm25.csv.gz",
        {"target": "pm25", "scale": "log", "focus": None, "between": (150.0, np.inf), "time": "No", "drop": ("split",)},
    ),
    "abalone, rings": (
        "age_abalone/abalone.csv.gz", {"target": "rings", "focus": "extremes", "top": 0.2, "drop": ("split",)},
    ),
    "lipophilicity, 1 to 3": (
        "chem_lipophilicity/lipo.csv.gz",
        {"target": "logD", "focus": None, "between": (1.0, 3.0), "drop": ("split", "smiles")},
    ),
}  # fmt: skip
MEMORY = """
import json, resource, sys
import numpy, pandas
from time import perf_counter
from selmatch import compare
start = perf_counter()
found = compare(sys.argv[1], target="y", splits=2, settings=1, rounds=50, resamples=100)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([found.data.rows, found.data.used, len(found.data.features), peak, perf_counter() - start]))
"""


def shown(name: str, source: Path, question: dict) -> None:
    start = perf_counter()
    found = compare(source, **question)
    shares = {c.name: found.scores[c.name]["loss"].relative for c in found.contenders if c.name != "selective"}
    against = "; ".join(
        f"{name} {100 * share.value:+.1f} % ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
        for name in dict.fromkeys(["squared", "reweighted", found.verdict.rival])
        if (share := shares[name]) is not None
    )
    print(f"{name:<26} {found.verdict.kind:<16} lower cost than {against}  [{perf_counter() - start:.0f} s]")


def memory() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        random = np.random.default_rng(0)
        with path.open("w") as file:
            file.write(",".join([*(f"x{i}" for i in range(49)), "y"]) + "\n")
            for _ in range(100):
                x = random.normal(size=(10_000, 50))
                x[:, -1] += x[:, 0] ** 2
                np.savetxt(file, x, fmt="%.5g", delimiter=",")
        output = subprocess.check_output([sys.executable, "-c", MEMORY, str(path)])
        rows, used, features, peak, seconds = json.loads(output.splitlines()[-1])
        size = path.stat().st_size / 2**30
    print(f"{rows:,} rows, {features} features, a CSV file of {size:.2f} GiB: {used:,} rows used")
    print(f"peak memory {peak:.2f} GiB")
    print(f"(two splits, one setting: {seconds:.0f} s)")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=("demo", "others", "memory"))
    only = arguments.parse_args().only
    if only in (None, "demo"):
        for seed in range(5):
            shown(f"demo, seed {seed}", dwell_shoppers(), {**DEMO, "seed": seed})
    if only in (None, "others"):
        for name, (file, question) in OTHERS.items():
            path = Path(os.environ.get("SELMATCH_DATA", "data")) / file
            if path.exists():
                shown(name, path, question)
            else:
                print(f"{name:<26} not measured: {file} is not in the folder SELMATCH_DATA")
    if only in (None, "memory"):
        memory()


if __name__ == "__main__":
    main()
