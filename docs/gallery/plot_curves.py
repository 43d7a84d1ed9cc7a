"""
Every curve of the library
==========================

Links and scalings with closed forms. Where a link is steep, errors are expensive; where it is flat, they are cheap. A
curve that falls somewhere is no link, only a scaling.
"""

import inspect

import matplotlib.pyplot as plt

import selmatch as sm

# %%
# How to read them: a sigmoid. The solid line is the link, the dashed one its slope, which is the sensitivity of the
# loss: around the centre an error of one unit weighs most.

with sm.plots.theme():
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.0, 2.4))
    sm.plots.link(sm.Sigmoid(), domain=(-6, 6), ax=left)
    sm.plots.losses(sm.Sigmoid(), domain=(-6, 6), ax=right)
    plt.show()

# %%
# All of them, found in ``sm.__all__``, on [-3, 3] or on what their domain leaves of it.

# parameters that have no default, 1 if they are not here
VALUES = {"d": 3.0, "coefficients": (0.0, 1.0, 0.0, 0.2), "thresholds": (-1.0, 1.0), "jumps": (1.0, 1.0)}


def example(kind):
    """A curve of this kind."""
    parameters = inspect.signature(kind).parameters.values()
    return kind(**{p.name: VALUES.get(p.name, 1.0) for p in parameters if p.default is p.empty})


public = (getattr(sm, name) for name in sm.__all__)
curves = [example(kind) for kind in public if inspect.isclass(kind) and kind.__module__ == "selmatch.curves"]

with sm.plots.theme():
    figure, axes = plt.subplots(-(-len(curves) // 4), 4, figsize=(8.0, 11.0))
    for axis in axes.flat[len(curves) :]:
        axis.set_axis_off()
    for axis, curve in zip(axes.flat, curves, strict=False):
        inside = curve.domain.overlap(sm.Interval(-3.0, 3.0))
        sm.plots.link(curve, domain=(inside.low + 1e-3, inside.high - 1e-3), ax=axis)
        axis.set(title=type(curve).__name__, ylim=(-3.2, 3.2), xlabel="", ylabel="")
        if legend := axis.get_legend():
            legend.remove()
    plt.show()
