"""Selective matching losses: proper, convex in the predicted scores, sharp where it matters and calm elsewhere."""

__version__ = "0.1.0"

import importlib
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:  # what loads on first use
    from selmatch import (
        alignment,
        analysis,
        boosting,
        certify,
        design,
        distillation,
        kernels,
        paper,
        plots,
        ranking,
        spec,
    )
    from selmatch import jax as jax
    from selmatch import sharding as sharding
    from selmatch import sklearn as sklearn
    from selmatch import teacher_files as teacher_files
    from selmatch import torch as torch
    from selmatch import trl as trl
    from selmatch.analysis import blust, bust, llust, prediction_shift, ranking_report, region_report, sensitivity
    from selmatch.classification import classify
    from selmatch.comparison import compare
    from selmatch.design import Wish, focus
    from selmatch.drawing import FromSensitivity
    from selmatch.formula import Formula, FormulaError, parse
    from selmatch.notation import latex, text_of
    from selmatch.spec import SpecError, load
    from selmatch.versions import show_versions

functions.register_loaded_frameworks()

# without jax, sklearn, torch and trl: a star must not hide the libraries of these names; nor modules that need an extra
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
    "Formula",
    "FormulaError",
    "FromLink",
    "FromPrimitive",
    "FromScoreTransform",
    "FromSensitivity",
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
    "SpecError",
    "Staircase",
    "Step",
    "Sum",
    "Tan",
    "Tanh",
    "Wish",
    "alignment",
    "analysis",
    "blust",
    "boosting",
    "bust",
    "certify",
    "classify",
    "compare",
    "design",
    "distillation",
    "focus",
    "functions",
    "kernels",
    "latex",
    "llust",
    "load",
    "paper",
    "parse",
    "plots",
    "prediction_shift",
    "ranking",
    "ranking_report",
    "region_report",
    "sensitivity",
    "show_versions",
    "spec",
    "text_of",
]


#: names and modules that load on first use
_LAZY = {
    "alignment": "selmatch.alignment",
    "analysis": "selmatch.analysis",
    "blust": "selmatch.analysis",
    "bust": "selmatch.analysis",
    "llust": "selmatch.analysis",
    "prediction_shift": "selmatch.analysis",
    "ranking_report": "selmatch.analysis",
    "region_report": "selmatch.analysis",
    "sensitivity": "selmatch.analysis",
    "boosting": "selmatch.boosting",
    "certify": "selmatch.certify",
    "classify": "selmatch.classification",
    "compare": "selmatch.comparison",
    "Wish": "selmatch.design",
    "design": "selmatch.design",
    "focus": "selmatch.design",
    "distillation": "selmatch.distillation",
    "FromSensitivity": "selmatch.drawing",
    "Formula": "selmatch.formula",
    "FormulaError": "selmatch.formula",
    "parse": "selmatch.formula",
    "jax": "selmatch.jax",
    "kernels": "selmatch.kernels",
    "latex": "selmatch.notation",
    "text_of": "selmatch.notation",
    "paper": "selmatch.paper",
    "plots": "selmatch.plots",
    "ranking": "selmatch.ranking",
    "sharding": "selmatch.sharding",
    "sklearn": "selmatch.sklearn",
    "SpecError": "selmatch.spec",
    "load": "selmatch.spec",
    "spec": "selmatch.spec",
    "teacher_files": "selmatch.teacher_files",
    "torch": "selmatch.torch",
    "trl": "selmatch.trl",
    "show_versions": "selmatch.versions",
}


def __getattr__(name: str):
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module 'selmatch' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"selmatch.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
