"""What is installed: the first thing to put into a bug report."""

import platform
from importlib.metadata import PackageNotFoundError, version

OPTIONAL = (
    "torch",
    "jax",
    "jaxlib",
    "scipy",
    "scikit-learn",
    "xgboost",
    "xgboost-cpu",
    "lightgbm",
    "catboost",
    "numba",
    "python-flint",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "typer",
    "rich",
    "jinja2",
    "ir-measures",
    "model-diagnostics",
    "transformers",
    "trl",
)


def show_versions() -> None:
    """Print the versions of selmatch, Python, NumPy and every optional package that is installed.

    Nothing is imported for it.

    Examples
    --------
    >>> show_versions()
    selmatch ...
    python ...
    """
    from selmatch import __version__  # here, since selmatch imports this module while it is being built

    rows = [
        ("selmatch", __version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("platform", platform.platform()),
        ("numpy", _installed("numpy")),
    ]
    rows += [(name, _installed(name)) for name in OPTIONAL]
    for name, found in rows:
        if found:
            print(f"{name:<18} {found}")


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
