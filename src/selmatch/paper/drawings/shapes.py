"""The curves of the paper's galleries, by the region they look at.

The paper gives the shapes and hardly any parameter; these are chosen so that scores from -6 to 6 show what is meant.
"""

from __future__ import annotations

import selmatch as sm
from selmatch.paper.drawings.panels import Shape

HIGH, LOW = "High scores: exponential shapes", "Low scores: anti-exponential shapes"
LOW_NORM, HIGH_NORM = "Low norms: Sigmoid shapes", "High norms: hyperbolic sine shapes"

EXP = Shape(sm.Exp().affine(alpha=0.5))
SMELU_RIGHT = Shape(sm.SmeLU(c=3.0).affine(beta=3.0), "SmeLU gradient, right")
MINUS_LOG = Shape(sm.NegLog1m().affine(alpha=0.07, beta=-7.0), r"$-\log(1 - 0.07 (z + 7))$")
ANTI_EXP = Shape(sm.AntiExp().affine(alpha=0.5))
LOG = Shape(sm.Log().affine(alpha=0.07, beta=-7.0, gain=0.3))
SINH = Shape(sm.Sinh().affine(alpha=0.5))
CUBE = Shape(sm.SignedPower(d=3.0).affine(alpha=0.4), "$(0.4 z)^3$")
TAN = Shape(sm.Tan().affine(alpha=0.24))
ARTANH = Shape(sm.Arctanh().affine(alpha=0.16), r"$\mathrm{artanh}(0.16 z)$")
LINE = Shape(sm.Identity().affine(alpha=0.5), "$0.5 z$")
#: steep at both ends, nearly flat in the middle
PIECES = Shape(sm.FromSensitivity(knots=(-2.0, -2.0, 2.0, 2.0), values=(1.0, 0.1, 0.1, 1.0)), "straight pieces")
#: nothing matters inside a step, only the steps between two scores
STEPS_RIGHT = Shape(sm.Staircase((1.5, 2.5, 3.5, 4.5), (0.25, 0.25, 0.25, 0.25)), "steps, right")
STEPS_LEFT = Shape(sm.Staircase((-4.5, -3.5, -2.5, -1.5), (0.25, 0.25, 0.25, 0.25), base=-1.0), "steps, left")

HIGH_SHAPES = (
    EXP,
    Shape(sm.Sigmoid().affine(beta=5.0)),
    Shape(sm.Tanh().affine(alpha=0.5, beta=5.0)),
    SMELU_RIGHT,
    Shape(sm.Sinh().affine(alpha=0.5, beta=-5.0)),
    MINUS_LOG,
    STEPS_RIGHT,
)
LOW_SHAPES = (
    ANTI_EXP,
    Shape(sm.Sigmoid().affine(beta=-5.0)),
    Shape(sm.Tanh().affine(alpha=0.5, beta=-5.0)),
    Shape(sm.Huber(c=3.0).affine(beta=-3.0), "Huber gradient, left"),
    Shape(sm.Sinh().affine(alpha=0.5, beta=5.0)),
    LOG,
    STEPS_LEFT,
)
LOW_NORM_SHAPES = (
    Shape(sm.Sigmoid()),
    Shape(sm.Tanh()),
    Shape(sm.Huber(c=2.0), "Huber gradient"),
    Shape(sm.Arctan()),
    Shape(sm.Arcsinh(), r"$\mathrm{arsinh}(z)$"),
    Shape(sm.SignedPower(d=0.5), r"$\mathrm{sign}(z) |z|^{1/2}$"),
    Shape(sm.SignedLog(), r"$\mathrm{sign}(z) \log(1 + |z|)$", erratum=True),
)

LINKS = {
    HIGH: HIGH_SHAPES,
    LOW: LOW_SHAPES,
    LOW_NORM: LOW_NORM_SHAPES,
    HIGH_NORM: (
        SINH,
        CUBE,
        Shape(sm.Logit().affine(alpha=0.08, beta=-6.25), r"$\mathrm{logit}(0.08 z + 0.5)$"),
        Shape(sm.Arcsin().affine(alpha=0.16)),
        ARTANH,
        TAN,
        PIECES,
    ),
}
SCALINGS = {
    HIGH: HIGH_SHAPES,
    LOW: LOW_SHAPES,
    LOW_NORM: LOW_NORM_SHAPES,
    HIGH_NORM: (
        SINH,
        CUBE,
        TAN,
        LINE,
        ARTANH,
        PIECES,
        Shape(sm.Cosh().affine(alpha=0.4, beta=1.8, gain=0.4), gamma=1.3),
    ),
}
CLASSES = {
    HIGH: (
        EXP,
        Shape(sm.Sigmoid().affine(beta=2.0)),
        SMELU_RIGHT,
        Shape(sm.Sinh().affine(alpha=0.5, beta=-4.0)),
        Shape(sm.Power(d=2.0).affine(alpha=0.2, beta=-8.0)),
        MINUS_LOG,
    ),
    LOW: (
        ANTI_EXP,
        Shape(sm.Sinh().affine(alpha=0.5, beta=4.0)),
        Shape(sm.SignedPower(d=2.0).affine(alpha=0.2, beta=8.0), "$-(0.2 (8 - z))^2$"),
        Shape(sm.Log().affine(alpha=0.07, beta=-7.0)),
        Shape(sm.Identity().affine(alpha=0.5, beta=4.0), "$0.5 (z - 4)$"),
        Shape(sm.Cosh().affine(alpha=0.2, beta=4.5, gain=0.2), erratum=True),
    ),
    HIGH_NORM: (
        SINH,
        CUBE,
        TAN,
        PIECES,
        LINE,
        Shape(sm.Cosh().affine(alpha=0.3, beta=2.0), gamma=4.0, erratum=True),
    ),
}
#: what the Softmax turns into something else
NEGATED = (
    Shape(sm.Sigmoid()),
    Shape(sm.Sigmoid().affine(beta=-3.0)),
    Shape(sm.Tanh()),
    Shape(sm.Tanh().affine(beta=3.0)),
    Shape(sm.Tanh().affine(beta=-3.0)),
)
