"""Selective matching losses: convex, proper losses that are sharp where accuracy matters and calm where it does not."""

__version__ = "0.1.0"

from selmatch import functions
from selmatch.algebra import (
    Affine,
    Capped,
    FromLink,
    FromPrimitive,
    FromScoreTransform,
    Inverse,
    Piecewise,
    Sum,
)
from selmatch.composite import CompositeSigmoid, CompositeSoftmax, Separable
from selmatch.curve import Curve, Interval
from selmatch.curves import (
    AbsPower,
    AntiExp,
    Arcsin,
    Arcsinh,
    Arctan,
    Arctanh,
    Constant,
    Cosh,
    Exp,
    Huber,
    Identity,
    Log,
    Logit,
    NegLog1m,
    Polynomial,
    Power,
    ReLU,
    Sigmoid,
    Sign,
    SignedLog,
    SignedPower,
    Sin,
    Sinh,
    SmeLU,
    Staircase,
    Step,
    Tan,
    Tanh,
)
from selmatch.losses import CrossEntropy, MatchingLoss, PerLabel, ReweightedSquare

functions.register_loaded_frameworks()

__all__ = [
    "AbsPower",
    "Affine",
    "AntiExp",
    "Arcsin",
    "Arcsinh",
    "Arctan",
    "Arctanh",
    "Capped",
    "CompositeSigmoid",
    "CompositeSoftmax",
    "Constant",
    "Cosh",
    "CrossEntropy",
    "Curve",
    "Exp",
    "FromLink",
    "FromPrimitive",
    "FromScoreTransform",
    "Huber",
    "Identity",
    "Interval",
    "Inverse",
    "Log",
    "Logit",
    "MatchingLoss",
    "NegLog1m",
    "PerLabel",
    "Piecewise",
    "Polynomial",
    "Power",
    "ReLU",
    "ReweightedSquare",
    "Separable",
    "Sigmoid",
    "Sign",
    "SignedLog",
    "SignedPower",
    "Sin",
    "Sinh",
    "SmeLU",
    "Staircase",
    "Step",
    "Sum",
    "Tan",
    "Tanh",
    "functions",
    "show_versions",
]


def __getattr__(name: str):
    if name == "show_versions":
        from selmatch.versions import show_versions

        return show_versions
    raise AttributeError(f"module 'selmatch' has no attribute {name!r}")
