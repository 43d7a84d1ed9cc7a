#!/usr/bin/env python3
"""Golden vectors for selective matching losses.

Everything is computed with mpmath from the DEFINITIONS:

* a loss is the line integral of  h(z) - h(s)  from s to s_hat (adaptive
  quadrature), never a closed-form primitive;
* a derivative is a central difference at 100 digits;
* minimisers are found by solving "expected gradient = 0".

Usage:  python generate.py --params params.json --out DIR
Every number in the parameter file is read as an IEEE double and used exactly.
"""

# The definitions are written as on paper: short names, functions that close over the case at hand.
# ruff: noqa: B008, B023, B905, E731, E741

import argparse
import itertools
import json
import os
import random

from mpmath import mp, mpf

mp.dps = 50
DPS_DIFF = 110
EPS_DIFF = mpf(10) ** -30
SIG = 20


def S(v):
    """20 significant digits, as a string."""
    if v is None:
        return None
    v = mpf(v)
    if mp.isinf(v):
        return "inf" if v > 0 else "-inf"
    if mp.isnan(v):
        return "nan"
    return mp.nstr(v, SIG, strip_zeros=True, min_fixed=-4, max_fixed=6)


# --------------------------------------------------------------- quadrature
_GL = {}


def _gl(n):
    key = (n, mp.prec)
    if key not in _GL:
        with mp.workdps(mp.dps + 15):
            xs, ws = [], []
            for i in range(1, n + 1):
                x = mp.cos(mp.pi * (i - mpf(1) / 4) / (n + mpf(1) / 2))
                for _ in range(100):
                    p0, p1 = mpf(1), x
                    for k in range(2, n + 1):
                        p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
                    d = n * (x * p1 - p0) / (x * x - 1)
                    dx = p1 / d
                    x -= dx
                    if abs(dx) < mpf(10) ** (-mp.dps + 5):
                        break
                xs.append(x)
                ws.append(2 / ((1 - x * x) * d * d))
        _GL[key] = (xs, ws)
    return _GL[key]


def _panel(f, a, b, n=24):
    xs, ws = _gl(n)
    c, r = (a + b) / 2, (b - a) / 2
    return r * mp.fsum(w * f(c + r * x) for x, w in zip(xs, ws))


def adaptive(f, a, b, tol_rel=mpf(10) ** -30, depth=60, noise=mpf(0)):
    """Adaptive Gauss-Legendre on one smooth piece.

    noise: absolute size of rounding in the integral (an exact zero has no
    relative accuracy to wait for).
    """
    whole = _panel(f, a, b)
    m = (a + b) / 2
    l, r = _panel(f, a, m), _panel(f, m, b)
    scale = max(abs(whole), abs(l + r), mpf(10) ** -4000)
    stack = [(a, m, l, 1), (m, b, r, 1)]
    out = []
    if abs(l + r - whole) <= max(tol_rel * scale, noise):
        return l + r
    while stack:
        x0, x1, val, d = stack.pop()
        xm = (x0 + x1) / 2
        l, r = _panel(f, x0, xm), _panel(f, xm, x1)
        if abs(l + r - val) <= max(tol_rel * scale, noise) or d > depth:
            out.append(l + r)
            scale = max(scale, abs(l + r))
        else:
            stack.append((x0, xm, l, d + 1))
            stack.append((xm, x1, r, d + 1))
    return mp.fsum(out)


def integrate(f, a, b, breaks=(), singular=False, size=mpf(0)):
    """Integral of f over [a, b] (b < a allowed), split at the breaks.

    size: magnitude of the terms that cancel inside the integral.
    """
    noise = abs(mpf(size)) * mpf(10) ** (5 - mp.dps)
    a, b = mpf(a), mpf(b)
    if a == b:
        return mpf(0)
    lo, hi = min(a, b), max(a, b)
    pts = [lo, *sorted(t for t in set(map(mpf, breaks)) if lo < t < hi), hi]
    tot = mpf(0)

    def safe(z):
        # a quadrature node that rounds onto a singular end carries no weight
        try:
            v = f(z)
        except (ZeroDivisionError, ValueError):
            return mpf(0)
        return mpf(0) if mp.isinf(v) or mp.isnan(v) else mp.re(v)

    for u, v in itertools.pairwise(pts):
        if singular:
            with mp.workdps(mp.dps + 15):
                tot += mp.quad(safe, [u, v])
        else:
            tot += adaptive(f, u, v, noise=noise)
    if abs(tot) <= 10 * noise:
        return mpf(0)
    return tot if b > a else -tot


def deriv(f, z):
    """Central difference at DPS_DIFF digits (f smooth near z)."""
    with mp.workdps(DPS_DIFF):
        e = EPS_DIFF * max(mpf(1) / 10**6, min(abs(mpf(z)), mpf(1)))
        d = (f(mpf(z) + e) - f(mpf(z) - e)) / (2 * e)
    return +d


# ------------------------------------------------------------ scalar shapes
def sgn(x):
    return mpf(1) if x > 0 else (mpf(-1) if x < 0 else mpf(0))


def sigma(x):
    return 1 / (1 + mp.exp(-x)) if x >= 0 else mp.exp(x) / (1 + mp.exp(x))


PI2 = "pi/2"


def shape(name, p):
    """(g, lo, hi, breaks, singular) for h(z) = g(x), x = alpha (z - beta).

    lo, hi: ends of the x domain; breaks: x values where the quadrature is
    split; singular: use a rule for end-point singularities.
    """
    inf = mp.inf
    if name == "identity":
        return (lambda x: x, -inf, inf, (), False)
    if name == "sigmoid":
        return (sigma, -inf, inf, (0,), False)
    if name == "tanh":
        return (mp.tanh, -inf, inf, (0,), False)
    if name == "arctan":
        return (mp.atan, -inf, inf, (0,), False)
    if name == "arcsinh":
        return (lambda x: sgn(x) * mp.asinh(abs(x)), -inf, inf, (0,), False)
    if name == "sin":
        return (mp.sin, -mp.pi / 2, mp.pi / 2, (0,), False)
    if name == "signed_power":
        d = mpf(p["d"])
        return (lambda x: sgn(x) * abs(x) ** d, -inf, inf, (0,), True)
    if name == "signed_log":
        return (lambda x: sgn(x) * mp.log1p(abs(x)), -inf, inf, (0,), False)
    if name == "sinh":
        return (mp.sinh, -inf, inf, (0,), False)
    if name == "logit":
        return (lambda x: mp.log(x / (1 - x)), mpf(0), mpf(1), (0.5,), True)
    if name == "arcsin":
        return (mp.asin, mpf(-1), mpf(1), (0,), True)
    if name == "arctanh":
        return (mp.atanh, mpf(-1), mpf(1), (0,), True)
    if name == "tan":
        return (mp.tan, -mp.pi / 2, mp.pi / 2, (0,), True)
    if name == "exp":
        return (mp.exp, -inf, inf, (), False)
    if name == "neg_exp":
        return (lambda x: -mp.exp(-x), -inf, inf, (), False)
    if name == "neg_log1m":
        return (lambda x: -mp.log(1 - x), -inf, mpf(1), (), True)
    if name == "power":
        d = mpf(p["d"])
        return (lambda x: x**d, mpf(0), inf, (), True)
    if name == "log":
        return (mp.log, mpf(0), inf, (), True)
    if name == "smelu":
        c = mpf(p["c"])
        return (lambda x: mpf(0) if x <= -c else (mpf(1) if x >= c else (x + c) / (2 * c)), -inf, inf, (-c, c), False)
    if name == "huber":
        c = mpf(p["delta"])
        return (lambda x: max(-c, min(c, x)), -inf, inf, (-c, c), False)
    if name == "step":
        return (lambda x: mpf(1) if x > 0 else mpf(0), -inf, inf, (0,), False)
    if name == "sign":
        return (sgn, -inf, inf, (0,), False)
    if name == "staircase":
        ts = [mpf(t) for t in p["thresholds"]]
        js = [mpf(t) for t in p["jumps"]]
        b0 = mpf(p["base"])
        return (lambda x: b0 + mp.fsum(j for t, j in zip(ts, js) if x > t), -inf, inf, tuple(ts), False)
    if name == "capped_sinh":
        c = mpf(p["cap"])
        return (lambda x: mp.sinh(max(-c, min(c, x))), -inf, inf, (-c, c), False)
    if name == "piecewise_polynomial":
        kn = [mpf(t) for t in p["knots"]]
        cf = [[mpf(t) for t in row] for row in p["coeffs"]]

        def g(x):
            if x <= kn[0]:
                return cf[0][0]
            x = min(x, kn[-1])
            i = max(j for j in range(len(cf)) if kn[j] < x)
            return mp.polyval(cf[i][::-1], x - kn[i])

        return (g, -inf, inf, tuple(kn), False)
    raise KeyError(name)


def kinks(name, p):
    """x values where h' does not exist or is infinite."""
    return {
        "smelu": lambda: (-p["c"], p["c"]),
        "huber": lambda: (-p["delta"], p["delta"]),
        "step": lambda: (0,),
        "sign": lambda: (0,),
        "staircase": lambda: tuple(p["thresholds"]),
        "capped_sinh": lambda: (-p["cap"], p["cap"]),
        "piecewise_polynomial": lambda: tuple(p["knots"]),
    }.get(name, lambda: ())()


class Link:
    def __init__(self, name, params, alpha, beta):
        self.name, self.params = name, params
        self.a, self.b = mpf(alpha), mpf(beta)
        g, self.lo, self.hi, self.br, self.sing = shape(name, params)
        self.g = g

    def x(self, z):
        return self.a * (mpf(z) - self.b)

    def inside(self, z, open_=False):
        x = self.x(z)
        return (self.lo < x < self.hi) if open_ else (self.lo <= x <= self.hi)

    def h(self, z):
        return self.g(max(self.lo, min(self.hi, self.x(z))))

    def breaks(self):
        br = [self.b + mpf(t) / self.a for t in self.br]
        if self.name in ("arctan", "arcsinh", "signed_log"):
            br += [self.b + s * mpf(2) ** k / self.a for k in range(-1, 12) for s in (-1, 1)]
        return br

    def dh(self, z):
        x = self.x(z)
        if any(x == mpf(k) for k in kinks(self.name, self.params)):
            return None
        if self.name == "signed_power" and x == 0:
            d = mpf(self.params["d"])
            return mp.inf if d < 1 else (mpf(1) * self.a if d == 1 else mpf(0))
        if self.name == "signed_log" and x == 0:
            return self.a
        if self.name == "arcsinh" and x == 0:
            return self.a
        if not (self.lo < x < self.hi):
            return None
        # step small against the distance to the domain ends
        with mp.workdps(DPS_DIFF + self.extra(z)):
            e = (
                EPS_DIFF
                * min(
                    [mpf(1), abs(x) if x != 0 else mpf(1)] + [abs(x - t) for t in (self.lo, self.hi) if not mp.isinf(t)]
                )
                / self.a
            )
            zz = mpf(z)
            d = (self.h(zz + e) - self.h(zz - e)) / (2 * e)
        return +d

    def extra(self, *zs):
        """Digits lost to saturation: 1 - h underflows the working precision."""
        if self.name not in ("sigmoid", "tanh"):
            return 0
        return 100 * int(mp.ceil(max(abs(self.x(z)) for z in zs) * mpf("0.87") / 100))

    def loss(self, s, sh):
        ex = self.extra(s, sh)
        if ex and mp.dps < 90:
            with mp.workdps(mp.dps + ex):
                r = self.loss(s, sh)
            return +r
        hs = self.h(s)
        return integrate(
            lambda z: self.h(z) - hs, s, sh, self.breaks(), self.sing, hs * (mpf(sh) - mpf(s)) * mpf(10) ** -2
        )

    def Hdiff(self, z0, z):
        return integrate(self.h, z0, z, self.breaks(), self.sing)


def link_case(name, params, alpha, beta, spec):
    L = Link(name, params, alpha, beta)

    def zz(v):
        if "x" in spec:
            return float(mpf(beta) + mpf(v) / mpf(alpha))
        return float(v)

    key = "x" if "x" in spec else "z"
    pts = [zz(v) for v in spec[key]]
    z0 = zz(spec.get("ref", 0.0))
    prow = []
    for z in pts:
        if not L.inside(z):
            continue
        x = L.x(z)
        end = x in (L.lo, L.hi)
        try:
            h = L.h(z)
        except (ZeroDivisionError, ValueError):
            h = mp.inf if x == L.hi else -mp.inf
        if not mp.isinf(h) and mp.im(h) != 0:
            continue
        prow.append([z, S(h), S(None if end else L.dh(z)), S(L.Hdiff(z0, z))])
    lrow = []
    ss = [zz(v) for v in spec["s"]]
    shs = [zz(v) for v in spec["s_hat"]]
    near = spec.get("near", [])
    pairs = [(s, t) for s in ss for t in shs] + [(s, float(s + d)) for s in ss for d in near]
    pairs += [tuple(map(zz, q)) for q in spec.get("pairs", [])]
    for s, t in pairs:
        if s == t or not L.inside(s, True) or not L.inside(t):
            continue
        x = L.x(t)
        try:
            g = L.h(t) - L.h(s)
        except (ZeroDivisionError, ValueError):
            g = mp.inf if x == L.hi else -mp.inf
        if L.extra(s, t):
            with mp.workdps(mp.dps + L.extra(s, t)):
                g = L.h(t) - L.h(s)
        lrow.append([s, t, S(L.loss(s, t)), S(g)])
    return {"link": name, "params": params, "alpha": alpha, "beta": beta, "z0": z0, "points": prow, "losses": lrow}


def scalar_file(spec):
    out = []
    for e in spec:
        for a, b in e["alpha_beta"]:
            out.append(link_case(e["link"], e.get("params", {}), a, b, e))
    return {
        "columns": {"points": ["z", "h", "h_prime", "H_minus_H_at_z0"], "losses": ["s", "s_hat", "loss", "grad"]},
        "cases": out,
    }


# ------------------------------------------------------------------ scalings
def scaling(name, p):
    """(G, g, kinks): Q(z) = amp * G(x), q(z) = amp * alpha * g(x), g = G'."""
    if name == "sinh":
        return mp.cosh, mp.sinh, ()
    if name == "cosh":
        return mp.sinh, mp.cosh, ()
    if name == "exp":
        return mp.exp, mp.exp, ()
    if name == "neg_exp":
        return (lambda x: mp.exp(-x)), (lambda x: -mp.exp(-x)), ()
    if name == "sigmoid":
        return (lambda x: mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))), sigma, ()
    if name == "tanh":
        return (lambda x: abs(x) + mp.log1p(mp.exp(-2 * abs(x))) - mp.log(2)), mp.tanh, ()
    if name == "linear":
        return (lambda x: x * x / 2), (lambda x: x), ()
    if name == "constant":
        return (lambda x: x), (lambda x: mpf(1)), ()
    if name == "smelu":
        c = mpf(p["c"])
        return (
            (lambda x: mpf(0) if x <= -c else (x if x >= c else (x + c) ** 2 / (4 * c))),
            (lambda x: mpf(0) if x <= -c else (mpf(1) if x >= c else (x + c) / (2 * c))),
            (-c, c),
        )
    if name == "huber":
        c = mpf(p["delta"])
        return ((lambda x: x * x / 2 if abs(x) <= c else c * (abs(x) - c / 2)), (lambda x: max(-c, min(c, x))), (-c, c))
    if name == "signed_power_plus_c":
        d, c = mpf(p["d"]), mpf(p["c"])
        return ((lambda x: sgn(x) * abs(x) ** (d + 1) / (d + 1) + c * x), (lambda x: abs(x) ** d + c), (mpf(0),))
    raise KeyError(name)


class Scal:
    def __init__(self, name, params, alpha, beta, amp):
        self.name, self.params = name, params
        self.a, self.b, self.amp = mpf(alpha), mpf(beta), mpf(amp)
        self.G, self.gg, self.k = scaling(name, params)

    def Q(self, z):
        return self.amp * self.G(self.a * (z - self.b))

    def q(self, z):
        return self.amp * self.a * self.gg(self.a * (z - self.b))

    def breaks(self):
        return [self.b + t / self.a for t in self.k]


def softplus(y):
    return mp.log1p(mp.exp(y)) if y < 0 else y + mp.log1p(mp.exp(-y))


def check(a, b, what, tol=mpf(10) ** -24):
    if abs(a - b) > tol * max(1, abs(a), abs(b)):
        raise AssertionError(f"{what}: {mp.nstr(a, 25)} != {mp.nstr(b, 25)}")


def composite_sigmoid_file(spec):
    out = []
    for e in spec["scalings"]:
        for gam in e.get("gamma", spec["gamma"]):
            for a, b, amp in e["alpha_beta_amp"]:
                sc = Scal(e["scaling"], e.get("params", {}), a, b, amp)
                g = mpf(gam)
                H = lambda z: g * softplus(sc.Q(z) / g)
                h = lambda z: sc.q(z) * sigma(sc.Q(z) / g)
                prow, lrow = [], []
                zs = e.get("z", spec["z"])
                for z in zs:
                    z = float(z)
                    if any(mpf(z) == t for t in sc.breaks()):
                        continue
                    check(deriv(H, z), h(mpf(z)), "H'=h")
                    prow.append(
                        [z]
                        + [
                            S(v)
                            for v in (
                                sc.Q(mpf(z)),
                                sc.q(mpf(z)),
                                sigma(sc.Q(mpf(z)) / g),
                                H(mpf(z)),
                                h(mpf(z)),
                                deriv(h, z),
                            )
                        ]
                    )
                for s in e.get("s", spec["s"]):
                    for t in list(e.get("s_hat", spec["s_hat"])) + [float(s + d) for d in spec["near"]]:
                        s, t = float(s), float(t)
                        if s == t:
                            continue
                        hs = h(mpf(s))
                        L = integrate(lambda z: h(z) - hs, s, t, sc.breaks())
                        check(L, H(mpf(t)) - H(mpf(s)) - (mpf(t) - mpf(s)) * hs, "bregman")
                        p, pt = sigma(sc.Q(mpf(s)) / g), sigma(sc.Q(mpf(t)) / g)
                        # cross entropy of the probabilities, times gamma
                        yt = sc.Q(mpf(t)) / g
                        ce = g * (p * softplus(-yt) + (1 - p) * softplus(yt))
                        lrow.append([s, t, S(L), S(h(mpf(t)) - hs), S(ce), S(sc.q(mpf(t)) * (pt - p))])
                out.append(
                    {
                        "scaling": e["scaling"],
                        "params": e.get("params", {}),
                        "alpha": a,
                        "beta": b,
                        "amp": amp,
                        "gamma": gam,
                        "points": prow,
                        "losses": lrow,
                    }
                )
    return {
        "columns": {
            "points": ["z", "Q", "q", "p", "H", "h", "h_prime"],
            "losses": ["s", "s_hat", "loss", "grad", "ce_times_gamma", "ce_times_gamma_grad"],
        },
        "cases": out,
    }


class Softmax:
    """gamma-regularised composite Softmax with class weights rho_k."""

    def __init__(self, sc, gamma, rho):
        self.sc, self.g = sc, mpf(gamma)
        self.rho = [mpf(r) for r in rho]

    def logits(self, z):
        return [(mp.log(r) + self.sc.Q(v)) / self.g for r, v in zip(self.rho, z)]

    def H(self, z):
        y = self.logits(z)
        m = max(y)
        return self.g * (m + mp.log(mp.fsum(mp.exp(v - m) for v in y)))

    def p(self, z):
        y = self.logits(z)
        m = max(y)
        w = [mp.exp(v - m) for v in y]
        t = mp.fsum(w)
        return [v / t for v in w]

    def h(self, z):
        return [self.sc.q(v) * p for v, p in zip(z, self.p(z))]

    def hess(self, z):
        K = len(z)
        with mp.workdps(DPS_DIFF + getattr(self, "extra", 0)):
            cols = []
            for j in range(K):
                zp, zm = list(z), list(z)
                zp[j] += EPS_DIFF
                zm[j] -= EPS_DIFF
                cols.append([(u - v) / (2 * EPS_DIFF) for u, v in zip(self.h(zp), self.h(zm))])
        return [[+cols[j][k] for j in range(K)] for k in range(K)]

    def gradH(self, z):
        with mp.workdps(DPS_DIFF + getattr(self, "extra", 0)):
            r = []
            for j in range(len(z)):
                zp, zm = list(z), list(z)
                zp[j] += EPS_DIFF
                zm[j] -= EPS_DIFF
                r.append((self.H(zp) - self.H(zm)) / (2 * EPS_DIFF))
        return [+v for v in r]

    def loss(self, s, t):
        d = [v - u for u, v in zip(s, t)]
        hs = self.h(s)
        br = set()
        for u, w in zip(s, d):
            for b in self.sc.breaks():
                if w != 0:
                    br.add((b - u) / w)

        def f(tau):
            hz = self.h([u + tau * w for u, w in zip(s, d)])
            return mp.fsum((x - y) * w for x, y, w in zip(hz, hs, d))

        size = mp.fsum(abs(x * w) for x, w in zip(hs, d))
        return integrate(f, 0, 1, br, False, size)


def dyadic(rng, lo, hi, den=64):
    return rng.randint(int(lo * den), int(hi * den)) / den


def softmax_case(sc, name, params, a, b, amp, gam, rho, s, t, hess=True):
    M = Softmax(sc, gam, rho)
    y = M.logits([mpf(v) for v in s]) + M.logits([mpf(v) for v in t])
    # digits lost when a probability is extremely close to 0 or 1
    M.extra = 100 * int(mp.ceil(min((max(y) - min(y)) * mpf("0.87"), 2000) / 100))
    with mp.workdps(mp.dps + M.extra):
        return _softmax_case(M, sc, name, params, a, b, amp, gam, rho, s, t, hess)


def _softmax_case(M, sc, name, params, a, b, amp, gam, rho, s, t, hess):
    sv, tv = [mpf(v) for v in s], [mpf(v) for v in t]
    h_s, h_t = M.h(sv), M.h(tv)
    for u, v in zip(M.gradH(tv), h_t):
        check(u, v, "grad H = q p")
    L = M.loss(sv, tv)
    breg = M.H(tv) - M.H(sv) - mp.fsum((y - x) * h for x, y, h in zip(sv, tv, h_s))
    check(L, breg, "bregman")
    p_s, p_t = M.p(sv), M.p(tv)
    lt = M.logits(tv)
    m = max(lt)
    lse = m + mp.log(mp.fsum(mp.exp(v - m) for v in lt))
    ce = M.g * mp.fsum(p * (lse - y) for p, y in zip(p_s, lt))
    row = {
        "scaling": name,
        "params": params,
        "alpha": a,
        "beta": b,
        "amp": amp,
        "gamma": gam,
        "rho": rho,
        "s": s,
        "s_hat": t,
        "H_s_hat": S(M.H(tv)),
        "p_s_hat": [S(v) for v in p_t],
        "h_s_hat": [S(v) for v in h_t],
        "H_s": S(M.H(sv)),
        "p_s": [S(v) for v in p_s],
        "h_s": [S(v) for v in h_s],
        "loss": S(L),
        "grad": [S(u - v) for u, v in zip(h_t, h_s)],
        "ce_times_gamma": S(ce),
        "ce_times_gamma_grad": [S(sc.q(z) * (u - v)) for z, u, v in zip(tv, p_t, p_s)],
    }
    if hess:
        Hs = M.hess(tv)
        K = len(s)
        row["hessian_upper"] = [S(Hs[i][j]) for i in range(K) for j in range(i, K)]
        row["Delta"] = [S(Hs[i][i]) for i in range(K)]
    return row


def composite_softmax_file(spec):
    rng = random.Random(spec["seed"])
    out = []
    for e in spec["scalings"]:
        lo, hi = e.get("range", spec["range"])
        for K in spec["K"]:
            for gam in spec["gamma"]:
                for iv, (a, b, amp) in enumerate(e["alpha_beta_amp"]):
                    sc = Scal(e["scaling"], e.get("params", {}), a, b, amp)
                    rho = [1.0] * K if iv % 2 == 0 else [dyadic(rng, 0.25, 3) for _ in range(K)]
                    s = [dyadic(rng, lo, hi) + 1 / 128 for _ in range(K)]
                    t = [dyadic(rng, lo, hi) + 1 / 128 for _ in range(K)]
                    out.append(softmax_case(sc, e["scaling"], e.get("params", {}), a, b, amp, gam, rho, s, t))
        # small differences and one equal-scores constellation
        a, b, amp = e["alpha_beta_amp"][0]
        sc = Scal(e["scaling"], e.get("params", {}), a, b, amp)
        for K in spec["K"]:
            s = [dyadic(rng, lo, hi) + 1 / 128 for _ in range(K)]
            for d in spec["near"]:
                t = [v + d * rng.choice((-1, 1, 2, -3)) for v in s]
                out.append(
                    softmax_case(
                        sc,
                        e["scaling"],
                        e.get("params", {}),
                        a,
                        b,
                        amp,
                        spec["gamma"][0],
                        [1.0] * K,
                        s,
                        t,
                        hess=(K < 5),
                    )
                )
    for e in spec.get("fixed", []):
        a, b, amp = e["alpha_beta_amp"]
        sc = Scal(e["scaling"], e.get("params", {}), a, b, amp)
        for s, t in e["pairs"]:
            out.append(
                softmax_case(
                    sc, e["scaling"], e.get("params", {}), a, b, amp, e["gamma"], e.get("rho", [1.0] * len(s)), s, t
                )
            )
    return {"cases": out}


def standard_softmax_file(spec):
    rng = random.Random(spec["seed"])
    out = []
    for K in spec["K"]:
        for gam in spec["gamma"]:
            for a, b in spec["alpha_beta"]:
                for biased in (False, True):
                    rho = [dyadic(rng, 0.25, 4) for _ in range(K)] if biased else [1.0] * K
                    s = [dyadic(rng, -5, 5) for _ in range(K)]
                    t = [dyadic(rng, -5, 5) for _ in range(K)]
                    sc = Scal("constant", {}, a, b, 1.0)
                    row = softmax_case(sc, "constant", {}, a, b, 1.0, gam, rho, s, t)
                    M = Softmax(sc, gam, rho)
                    sv, tv = [mpf(v) for v in s], [mpf(v) for v in t]
                    # the CE variant that leaves the class weights out of its linear term
                    row["ce_without_log_rho"] = S(
                        M.H(tv) - mpf(a) * mp.fsum((v - mpf(b)) * p for v, p in zip(tv, M.p(sv)))
                    )
                    out.append(row)
    return {"cases": out}


def decomposed_file(spec):
    out = []
    for e in spec:
        L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
        for s, t in e["pairs"]:
            per = [L.loss(u, v) if u != v else mpf(0) for u, v in zip(s, t)]
            out.append(
                {
                    "link": e["link"],
                    "params": e.get("params", {}),
                    "alpha": e["alpha"],
                    "beta": e["beta"],
                    "s": s,
                    "s_hat": t,
                    "loss": S(mp.fsum(per)),
                    "per_class": [S(v) for v in per],
                    "grad": [S(L.h(v) - L.h(u)) for u, v in zip(s, t)],
                    "Delta": [S(L.dh(v)) for v in t],
                }
            )
    return {"cases": out}


def sigmoid_ce_file(spec):
    rows = []
    for a, b in spec["alpha_beta"]:
        L = Link("sigmoid", {}, a, b)
        for s in spec["s"]:
            for t in spec["s_hat"]:
                p, pt = L.h(s), L.h(t)
                with mp.workdps(400):
                    p4, t4 = L.h(s), L.h(t)
                    ce = -(p4 * mp.log(t4) + (1 - p4) * mp.log(1 - t4)) / mpf(a)
                    kl = (p4 * mp.log(p4 / t4) + (1 - p4) * mp.log((1 - p4) / (1 - t4))) / mpf(a)
                ml = L.loss(s, t) if s != t else mpf(0)
                rows.append([a, b, s, t, S(ce), S(pt - p), S(kl), S(ml)])
    return {"columns": ["alpha", "beta", "s", "s_hat", "ce", "grad", "kl_over_alpha", "matching_loss"], "rows": rows}


# ------------------------------------------------------------- BUST, BLUST
def bust_offset(L, Sm, SM, wu, d, tau):
    """delta_hat from  int_S h(w+delta) - h(w) dw = int_Su h(w+d) - h(w) dw."""
    Sm, SM, wu, d, tau = map(mpf, (Sm, SM, wu, d, tau))
    rhs = integrate(
        lambda w: L.h(w + d) - L.h(w), wu - tau / 2, wu + tau / 2, list(L.breaks()) + [t - d for t in L.breaks()], False
    )

    def F(dl):
        # int_S [h(w+dl) - h(w)] dw = int over the two end slivers
        up = integrate(L.h, SM, SM + dl, L.breaks(), False)
        dn = integrate(L.h, Sm, Sm + dl, L.breaks(), False)
        return up - dn - rhs

    x0 = rhs / (L.h(SM) - L.h(Sm))
    x1 = x0 * (1 + mpf(10) ** -6)
    f0, f1 = F(x0), F(x1)
    for _ in range(60):
        if f1 == f0:
            break
        x2 = x1 - f1 * (x1 - x0) / (f1 - f0)
        x0, f0, x1 = x1, f1, x2
        f1 = F(x1)
        if abs(x1 - x0) <= mpf(10) ** -40 * abs(x1):
            break
    return x1


def bust_file(spec):
    rows = []
    for e in spec["links"]:
        L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
        Sm, SM = e["S"]
        span = L.h(SM) - L.h(Sm)
        for wu in e["w_u"]:
            for d in e["d"]:
                t1, t2 = mpf(2) ** -40, mpf(2) ** -41
                r1 = bust_offset(L, Sm, SM, wu, d, t1) / t1
                r2 = bust_offset(L, Sm, SM, wu, d, t2) / t2
                lim = 2 * r2 - r1
                form = (L.h(wu + d) - L.h(wu)) / span
                check(lim, form, "BUST", mpf(10) ** -18)
                rows.append(
                    [
                        e["link"],
                        e.get("params", {}),
                        e["alpha"],
                        e["beta"],
                        Sm,
                        SM,
                        wu,
                        d,
                        S(bust_offset(L, Sm, SM, wu, d, mpf(2) ** -6)),
                        mp.nstr(lim, 18),
                        S(form),
                    ]
                )
    rows_b = []
    for e in spec["links"]:
        L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
        Sm, SM = e["S"]
        span = L.h(SM) - L.h(Sm)
        w2 = (
            integrate(lambda w: w * w * deriv(L.h, w) if False else w * w * L.dh(w), Sm, SM, L.breaks(), False)
            if e.get("llust")
            else None
        )
        for wu in e["w_u"]:
            v = []
            for k in (40, 41):
                dd = mpf(2) ** -k
                v.append(bust_offset(L, Sm, SM, wu, dd, dd) / dd / dd)
            lim = 2 * v[1] - v[0]
            form = L.dh(wu) / span
            check(lim, form, "BLUST", mpf(10) ** -16)
            rows_b.append(
                [
                    e["link"],
                    e.get("params", {}),
                    e["alpha"],
                    e["beta"],
                    Sm,
                    SM,
                    wu,
                    mp.nstr(lim, 16),
                    S(form),
                    S(wu * L.dh(wu) / w2 if w2 else None),
                ]
            )
    return {
        "columns": {
            "bust": [
                "link",
                "params",
                "alpha",
                "beta",
                "S_m",
                "S_M",
                "w_u",
                "d",
                "delta_hat_at_tau_2^-6",
                "bust_limit",
                "bust_formula",
            ],
            "blust": ["link", "params", "alpha", "beta", "S_m", "S_M", "w_u", "blust_limit", "blust_formula", "llust"],
        },
        "bust": rows,
        "blust": rows_b,
    }


# ------------------------------------------------------------------- proper
def bisect(f, lo, hi, iters=400):
    lo, hi = mpf(lo), mpf(hi)
    for _ in range(iters):
        m = (lo + hi) / 2
        if f(m) < 0:
            lo = m
        else:
            hi = m
        if hi - lo < mpf(10) ** -45 * max(1, abs(m)):
            break
    return (lo + hi) / 2


def proper_file(spec):
    rows = []
    for e in spec["scalar"]:
        L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
        for scores, w in e["data"]:
            tot = mp.fsum(mpf(v) for v in w)
            tgt = mp.fsum(mpf(v) * L.h(u) for u, v in zip(scores, w)) / tot
            sh = bisect(lambda z: L.h(z) - tgt, min(scores), max(scores))
            val = mp.fsum(mpf(v) * (L.loss(u, sh) if sh != u else 0) for u, v in zip(scores, w)) / tot
            rows.append([e["link"], e.get("params", {}), e["alpha"], e["beta"], scores, w, S(sh), S(val)])
    multi = []
    for e in spec["multi"]:
        a, b, amp = e["alpha_beta_amp"]
        sc = Scal(e["scaling"], e.get("params", {}), a, b, amp)
        K = len(e["scores"][0])
        M = Softmax(sc, e["gamma"], [1.0] * K)
        w = [mpf(v) for v in e["weights"]]
        W = mp.fsum(w)
        tgt = [mp.fsum(wi * M.h([mpf(x) for x in s])[k] for wi, s in zip(w, e["scores"])) / W for k in range(K)]
        z = [mp.fsum(wi * mpf(s[k]) for wi, s in zip(w, e["scores"])) / W for k in range(K)]
        obj = lambda z: M.H(z) - mp.fsum(x * t for x, t in zip(z, tgt))
        ok = False
        for _ in range(200):
            r = mp.matrix([x - t for x, t in zip(M.h(z), tgt)])
            if mp.norm(r) < mpf(10) ** -42:
                ok = True
                break
            Hm = mp.matrix(M.hess(z))
            step = mp.lu_solve(Hm, r)
            lam = mpf(1)
            while obj([x - lam * step[i] for i, x in enumerate(z)]) > obj(z) and lam > mpf(10) ** -12:
                lam /= 2
            z = [x - lam * step[i] for i, x in enumerate(z)]
        if not ok:
            raise AssertionError("multi-class minimiser did not converge")
        multi.append(
            {
                "scaling": e["scaling"],
                "params": e.get("params", {}),
                "alpha": a,
                "beta": b,
                "amp": amp,
                "gamma": e["gamma"],
                "scores": e["scores"],
                "weights": e["weights"],
                "expected_link": [S(v) for v in tgt],
                "minimiser": [S(v) for v in z],
            }
        )
    return {
        "columns": ["link", "params", "alpha", "beta", "scores", "weights", "minimiser", "mean_loss_at_minimiser"],
        "rows": rows,
        "multi_class": multi,
    }


def stochastic_file(spec):
    left, right = [], []
    for a in spec["alpha"]:
        L = Link("exp", {}, a, spec["beta"])
        for k in range(1, spec["k_max"] + 1):
            low = mpf(spec["low"])
            mean = mpf(spec["mean"])
            big = mean * (k + 1) - low * k
            tgt = (L.h(big) + k * L.h(low)) / (k + 1)
            left.append([a, k, S(big), S(bisect(lambda z: L.h(z) - tgt, low, big))])
        for m in spec["means"]:
            for dev in spec["deviations"]:
                tgt = (L.h(mpf(m) + mpf(dev)) + L.h(mpf(m) - mpf(dev))) / 2
                v = bisect(lambda z: L.h(z) - tgt, mpf(m) - mpf(dev), mpf(m) + mpf(dev))
                right.append([a, m, dev, S(v)])
    return {
        "columns": {
            "left": ["alpha", "k", "large_score", "prediction"],
            "right": ["alpha", "mean", "deviation", "prediction"],
        },
        "low": spec["low"],
        "mean": spec["mean"],
        "beta": spec["beta"],
        "left": left,
        "right": right,
    }


def under_data(cfg):
    rows = []
    for s in range(cfg["low"][0], cfg["low"][1] + 1):
        for v in cfg["other"]:
            rows.append((v, s, s))
    for s in range(cfg["high"][0], cfg["high"][1] + 1):
        for v in cfg["other"]:
            rows.append((s, v, s))
    return rows


def under_file(spec):
    out = []
    for cfg in spec:
        data = [tuple(mpf(v) for v in r) for r in under_data(cfg)]
        for e in cfg["links"]:
            L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
            hs = [L.h(r[2]) for r in data]

            def obj(w):
                # mean loss by quadrature of the link difference
                return mp.fsum(
                    L.loss(r[2], w[0] * r[0] + w[1] * r[1]) if w[0] * r[0] + w[1] * r[1] != r[2] else 0 for r in data
                ) / len(data)

            def gr(w):
                g = [mpf(0), mpf(0)]
                J = mp.matrix(2, 2)
                for r, hh in zip(data, hs):
                    z = w[0] * r[0] + w[1] * r[1]
                    e_ = L.h(z) - hh
                    d = L.dh(z)
                    for i in range(2):
                        g[i] += e_ * r[i]
                        for j in range(2):
                            J[i, j] += d * r[i] * r[j]
                return g, J

            w = [mpf(1) / 2, mpf(1) / 2]
            g, J = gr(w)
            for _it in range(300):
                st = mp.lu_solve(J, mp.matrix(g))
                lam = mpf(1)
                # damp on the gradient norm along a descent direction of a convex function
                n0 = mp.norm(mp.matrix(g))
                while True:
                    w2 = [w[i] - lam * st[i] for i in range(2)]
                    g2, J2 = gr(w2)
                    if mp.norm(mp.matrix(g2)) < n0 * (1 - lam / 100) or lam < mpf(10) ** -14:
                        break
                    lam /= 2
                w, g, J = w2, g2, J2
                if mp.norm(mp.matrix(g)) < mpf(10) ** -38:
                    break
            else:
                raise AssertionError("underspecification did not converge")
            out.append(
                {
                    "name": cfg["name"],
                    "low": cfg["low"],
                    "high": cfg["high"],
                    "other": cfg["other"],
                    "link": e["link"],
                    "params": e.get("params", {}),
                    "alpha": e["alpha"],
                    "beta": e["beta"],
                    "w": [S(v) for v in w],
                    "mean_loss": S(obj(w)),
                    "n": len(data),
                }
            )
    return {"cases": out}


def reweight_file(spec):
    rows = []
    k, dl = mpf(spec["kappa"]), mpf(spec["delta"])
    mn = mpf(min(spec["s"]))
    wt = lambda z: k * (mpf(z) - mn + dl)
    for s in spec["s"]:
        for t in spec["s_hat"]:
            sq = (mpf(t) - mpf(s)) ** 2
            rows.append([s, t, S(wt(s) * sq), S(wt(t) * sq), S(wt(s) * wt(t) * sq)])
    return {
        "kappa": spec["kappa"],
        "delta": spec["delta"],
        "columns": ["s", "s_hat", "by_observed", "by_predicted", "by_both"],
        "rows": rows,
    }


def thresholds_file(spec):
    # largest gamma for the increasing Q = sinh: 1 / gamma^2 = max_v v (1 + e^-v - v)
    f = lambda v: v * (1 + mp.exp(-v) - v)
    v = mp.findroot(lambda t: mp.diff(f, t), mpf("0.6"))
    rows = []
    for gam, d in spec["gamma_d"]:
        g, dd = mpf(gam), mpf(d)

        def worst(c):
            # min over t > 0 of the convexity expression divided by t^(d-1)
            def F(t):
                y = (t ** (dd + 1) / (dd + 1) + c * t) / g
                return sigma(y) * (t**dd + c) ** 2 / g - dd * t ** (dd - 1)

            T = (2 * g * dd) ** (1 / (dd + 1)) * mpf("1.2") + mpf("0.05")
            n = 60
            grid = [T * mpf(i) / n for i in range(0 if dd == 1 else 1, n + 1)]
            vals = [F(t) for t in grid]
            i = min(range(len(vals)), key=lambda j: vals[j])
            lo, hi = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
            gr = (mp.sqrt(5) - 1) / 2
            for _ in range(110):
                a_, b_ = hi - gr * (hi - lo), lo + gr * (hi - lo)
                if F(a_) < F(b_):
                    hi = b_
                else:
                    lo = a_
            return min(F((lo + hi) / 2), vals[i])

        lo, hi = mpf(0), max(mp.sqrt(2 * g * dd), g * dd - mpf(1) / 2)
        for _ in range(75):
            m = (lo + hi) / 2
            if worst(m) < 0:
                lo = m
            else:
                hi = m
        rows.append([gam, d, mp.nstr(hi, 18), S(max(mp.sqrt(2 * g * dd), g * dd - mpf(1) / 2))])
    return {
        "sinh_gamma_max": S(1 / mp.sqrt(f(v))),
        "columns": ["gamma", "d", "c_min", "c_sufficient_in_paper"],
        "poly": rows,
    }


# ------------------------------------------------------------------------------------------------------- derived
class Anchored(Softmax):
    """A composite Softmax with an extra class whose log-score is fixed (None: without one)."""

    def __init__(self, sc, gamma, rho, anchor):
        super().__init__(sc, gamma, rho)
        self.anchor = anchor

    def logits(self, z):
        return super().logits(z) + ([] if self.anchor is None else [mpf(self.anchor) / self.g])


def halved_form(matrix, d):
    return mp.fsum(d[i] * matrix[i][j] * d[j] for i in range(len(d)) for j in range(len(d))) / 2


def secant_curvature(M, s, d, grad):
    """The mean of Delta at five Gauss nodes on the way, and at least the gradient over the longest move."""
    K = range(len(s))
    on_the_way = [mpf(0) for _ in K]
    for x, w in zip(*_gl(5)):
        H = M.hess([u + (1 + x) / 2 * v for u, v in zip(s, d)])
        on_the_way = [m + w / 2 * H[k][k] for k, m in enumerate(on_the_way)]
    reach = [max(abs(d[k]), max(d) - d[k], d[k] - min(d)) for k in K]
    return [max(m, abs(g) / r) if r else m for m, g, r in zip(on_the_way, grad, reach)]


def derived_softmax(e):
    """Everything that is made of a Hessian or of both parts, at one pair of rows."""
    a, b, amp = e["alpha_beta_amp"]
    sc = Scal(e["scaling"], e.get("params", {}), a, b, amp)
    anchor, rho = e.get("anchor"), e.get("rho", [1.0] * len(e["s"]))
    M = Anchored(sc, e["gamma"], rho, anchor)
    s, t, v = ([mpf(z) for z in e[name]] for name in ("s", "s_hat", "v"))
    y = M.logits(s) + M.logits(t)
    M.extra = 100 * int(mp.ceil(min((max(y) - min(y)) * mpf("0.87"), 2000) / 100))
    with mp.workdps(mp.dps + M.extra):
        d = [z - w for z, w in zip(t, s)]
        H_s, H_t = M.hess(s), M.hess(t)
        K = range(len(s))
        p, p_t, p_all, p_t_all = M.p(s), M.p(t), M.p(s), M.p(t)
        h_s, h_t = M.h(s), M.h(t)
        loss = M.loss(s, t)
        ranking = M.g * mp.fsum(x * mp.log(x / z) for x, z in zip(p_all, p_t_all))
        region = mp.fsum(x * (sc.Q(w) - sc.Q(u) - (w - u) * sc.q(u)) for x, u, w in zip(p, s, t))
        check(ranking + region, loss, "parts")
        # how Delta_k moves when all others rise together
        response = []
        for k in K:
            with mp.workdps(mp.dps + 60):
                step = mpf(10) ** -15
                up, down = ([z + (0 if j == k else way * step) for j, z in enumerate(t)] for way in (1, -1))
                response.append((M.hess(up)[k][k] - M.hess(down)[k][k]) / (2 * step))
        with mp.workdps(DPS_DIFF + M.extra):
            q_t = [sc.q(z) for z in t]
            slopes = [(sc.q(z + EPS_DIFF) - sc.q(z - EPS_DIFF)) / (2 * EPS_DIFF) for z in t]
        return {
            **{name: e[name] for name in ("scaling", "gamma", "s", "s_hat", "v")},
            "params": e.get("params", {}),
            "alpha": a,
            "beta": b,
            "amp": amp,
            "rho": rho,
            "anchor": anchor,
            "score_transform": [S(mp.exp(sc.Q(z))) for z in t],
            "p": [S(x) for x in p_t[: len(t)]],
            "h": [S(x) for x in h_t],
            "H": S(M.H(t)),
            "loss": S(loss),
            "grad": [S(x - z) for x, z in zip(h_t, h_s)],
            "grad_size": [S(abs(x) + abs(z)) for x, z in zip(h_t, h_s)],
            "ranking": S(ranking),
            "region": S(region),
            "Delta": [S(H_t[k][k]) for k in K],
            "hessian_upper": [S(H_t[i][j]) for i in K for j in K if i <= j],
            "hvp": [S(mp.fsum(H_t[k][j] * v[j] for j in K)) for k in K],
            "hvp_size": [S(mp.fsum(abs(H_t[k][j] * v[j]) for j in K)) for k in K],
            "quadratic": S(halved_form(H_s, d)),
            "secant": [S(x) for x in secant_curvature(M, s, d, [x - z for x, z in zip(h_t, h_s)])],
            "region_of_Delta": [S(x * z) for x, z in zip(p_t, slopes)],
            "ranking_of_Delta": [S(p_t[k] * (1 - p_t[k]) * q_t[k] ** 2 / M.g) for k in K],
            "response": [S(x) for x in response],
        }


def derived_sigmoid(e, pairs):
    a, b, amp = e["alpha_beta_amp"]
    sc, g = Scal(e["scaling"], e.get("params", {}), a, b, amp), mpf(e["gamma"])
    offset = mpf(e.get("offset", 0.0))
    Q = lambda z: sc.Q(z) + offset
    h = lambda z: sc.q(z) * sigma(Q(z) / g)
    rows = []
    for s, t, v in pairs:
        x, z = mpf(s), mpf(t)
        with mp.workdps(DPS_DIFF):
            p, pt = sigma(Q(x) / g), sigma(Q(z) / g)
            ranking = g * (p * mp.log(p / pt) + (1 - p) * mp.log((1 - p) / (1 - pt)))
        region = p * (sc.Q(z) - sc.Q(x) - (z - x) * sc.q(x))
        loss = integrate(lambda w: h(w) - h(x), x, z, sc.breaks())
        check(ranking + region, loss, "parts")
        steep_x, steep_z = (None if any(w == k for k in sc.breaks()) else deriv(h, w) for w in (x, z))
        at_z = [None, None] if steep_z is None else [steep_z, steep_z * mpf(v)]
        near = None if steep_x is None else steep_x * (z - x) ** 2 / 2
        columns = (mp.exp(Q(z)), ranking, region, at_z[0], (h(z) - h(x)) / (z - x), at_z[1], near)
        rows.append([s, t, v, *map(S, columns)])
    case = {name: e[name] for name in ("scaling", "gamma")}
    return {
        **case,
        "params": e.get("params", {}),
        "alpha": a,
        "beta": b,
        "amp": amp,
        "offset": float(offset),
        "rows": rows,
    }


def derived_link(e):
    """Curvatures, products and losses of targets y that are values of the link."""
    L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
    rows = []
    for s, t, v in e["pairs"]:
        d = mpf(t) - mpf(s)
        newton, rise = L.dh(t), L.h(t) - L.h(s)
        rows.append([s, t, v, *map(S, (newton, rise / d, newton * mpf(v), L.dh(s) * d**2 / 2))])  # off the kinks
    targets = []
    G = scaling("linear" if e["link"] == "identity" else e["link"], {})[0] if e.get("y") else None
    for y in e.get("y", []):
        for t in e["s_hat"]:
            s = bisect(lambda z: L.h(z) - mpf(y), *e["around"])
            value = integrate(lambda z: L.h(z) - mpf(y), s, t, L.breaks())
            H = G(L.x(t)) / L.a
            targets.append(
                [t, y, S(value), S(H - mpf(t) * mpf(y)), S(abs(H) + abs(mpf(t) * mpf(y))), S(L.h(t) - mpf(y))]
            )
    return {
        **{name: e[name] for name in ("link", "alpha", "beta")},
        "params": e.get("params", {}),
        "pairs": rows,
        "targets": targets,
    }


def derived_labels(e):
    """A link for each label: where the mean gradient is 0, and what each label says of a prediction there."""
    links = {one["label"]: Link(one["link"], one.get("params", {}), one["alpha"], one["beta"]) for one in e["labels"]}
    rows = []
    for scores, weights, t in e["data"]:
        used = [(mpf(w), links[s], s) for s, w in zip(scores, weights) if w]
        low, high = min(s for *_, s in used), max(s for *_, s in used)
        best = bisect(lambda z: mp.fsum(w * (L.h(z) - L.h(s)) for w, L, s in used), low, high)
        losses = [links[s].loss(s, t) if s != t else mpf(0) for s in scores]
        grads = [links[s].h(t) - links[s].h(s) for s in scores]
        newton = [links[s].dh(t) for s in scores]
        secant = [g / (mpf(t) - mpf(s)) if s != t else n for g, s, n in zip(grads, scores, newton)]
        lists = [[S(x) for x in column] for column in (losses, grads, newton, secant)]
        rows.append([scores, weights, t, S(best), *lists])
    return {"labels": e["labels"], "rows": rows}


def derived_shifts(e):
    """How far all predictions move when a part of the uniform scores is biased, and the sensitivity of that part."""
    L = Link(e["link"], e.get("params", {}), e["alpha"], e["beta"])
    Sm, SM = map(mpf, e["S"])
    rows = []
    for a, b, d in e["parts"]:
        a_, b_ = mpf(a), mpf(b)
        offset = bust_offset(L, Sm, SM, (a_ + b_) / 2, d, b_ - a_)
        rise, whole = L.h(b_) - L.h(a_), L.h(SM) - L.h(Sm)
        rows.append([a, b, d, S(offset), S(rise / (b_ - a_)), S(rise / whole)])
    return {**{name: e[name] for name in ("link", "alpha", "beta", "S")}, "params": e.get("params", {}), "rows": rows}


def derived_file(spec):
    pairs = spec["sigmoid_pairs"]
    return {
        "columns": {
            "sigmoid": [
                "s",
                "s_hat",
                "v",
                "score_transform",
                "ranking",
                "region",
                "newton",
                "secant",
                "hvp",
                "quadratic",
            ],
            "links": ["s", "s_hat", "v", "newton", "secant", "hvp", "quadratic"],
            "targets": ["s_hat", "y", "fenchel_young", "without_conjugate", "size_of_terms", "grad"],
            "per_label": ["scores", "weights", "s_hat", "minimiser", "loss", "grad", "newton", "secant"],
            "shifts": ["low", "high", "bias", "prediction_shift", "mean_sensitivity", "weight"],
        },
        "softmax": [derived_softmax(e) for e in spec["softmax"]],
        "sigmoid": [derived_sigmoid(e, pairs) for e in spec["sigmoid"]],
        "links": [derived_link(e) for e in spec["links"]],
        "per_label": [derived_labels(e) for e in spec["per_label"]],
        "shifts": [derived_shifts(e) for e in spec["shifts"]],
    }


MAKERS = {
    "scalar_links": scalar_file,
    "piecewise_links": scalar_file,
    "composite_sigmoid": composite_sigmoid_file,
    "composite_softmax": composite_softmax_file,
    "standard_softmax": standard_softmax_file,
    "decomposed": decomposed_file,
    "sigmoid_cross_entropy": sigmoid_ce_file,
    "bust": bust_file,
    "proper": proper_file,
    "stochasticity": stochastic_file,
    "underspecification": under_file,
    "reweighting": reweight_file,
    "thresholds": thresholds_file,
    "derived": derived_file,
}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--params", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    spec = json.load(open(a.params))
    for name, make in MAKERS.items():
        if name not in spec or (a.only and name not in a.only.split(",")):
            continue
        data = make(spec[name])
        path = os.path.join(a.out, name + ".json")
        with open(path, "w") as fh:
            json.dump(data, fh, separators=(",", ":"))
        print(name, os.path.getsize(path), flush=True)


if __name__ == "__main__":
    main()
