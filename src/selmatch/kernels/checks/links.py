"""Links of every kind: what is checked of all links."""

from __future__ import annotations

import selmatch as sm

SMOOTH = [
    sm.Identity(), sm.Sigmoid(), sm.Exp(), sm.AntiExp(), sm.Sinh(), sm.Tanh(), sm.Arctan(), sm.Arcsinh(), sm.Sin(),
    sm.SignedLog(), sm.Logit(), sm.Arctanh(), sm.Arcsin(), sm.Tan(), sm.NegLog1m(), sm.Log(),
    sm.SignedPower(0.5), sm.SignedPower(3.0), sm.Power(1.5), sm.Polynomial((0.5, 1.0, 0.0, 0.25), origin=0.5),
    sm.Sigmoid().affine(alpha=2.0, beta=1.5), sm.Sinh().affine(alpha=0.5, beta=-1.0, gain=0.5),
    sm.Log().affine(alpha=2.0, beta=-0.25), 0.1 * sm.Identity() + sm.Exp().affine(alpha=0.5),
    sm.CompositeSigmoid(sm.Sinh()), sm.CompositeSigmoid(sm.Exp(), gamma=0.5, offset=-1.0),
    sm.CompositeSigmoid(sm.Cosh(), gamma=0.7), sm.CompositeSigmoid(sm.AbsPower(d=2.0, c=3.0)),
    sm.CompositeSigmoid(sm.Constant()), sm.Inverse(sm.Identity() + sm.Sinh()),
]  # fmt: skip
KINKED = [
    sm.SmeLU(c=2.0), sm.Huber(c=1.0), sm.ReLU(), sm.Sinh().capped(-1.5, 2.0), sm.Exp().capped(high=1.0),
    sm.CompositeSigmoid(sm.SmeLU(c=1.0)),
    sm.Piecewise((-1.0, 0.5, 2.0), (sm.Polynomial((0.0, 0.0, 0.0, 1.0), -1.0), sm.Polynomial((4.0, 0.5), 0.5))),
    sm.Piecewise((0.0, 1.0, 3.0), (sm.Constant(0.0), sm.Exp())),
    sm.FromSensitivity((-1.0, 0.5, 0.5, 2.0), (0.25, 1.0, 2.0, 0.0)),
]  # fmt: skip
JUMPING = [sm.Step(), sm.Sign(), sm.Staircase((-1.0, 1.0), (1.0, 2.0), base=-0.5)]
#: every curve that is a link
LINKS = [*SMOOTH, *KINKED, *JUMPING]
