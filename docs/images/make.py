"""Draws the picture of the README: four links, where each looks, and what its loss then costs.

Run it with `.venv/bin/python docs/images/make.py`; it writes losses.png beside itself. The other picture,
report.png, is the top of the report of `make demo`, as `make screenshots` shows it.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import selmatch as sm

LINKS = {
    "everywhere alike\nIdentity: squared error": sm.Identity(),
    "high scores\nExp": sm.Exp().affine(alpha=0.8),
    "both extremes\nSinh": sm.Sinh().affine(alpha=0.9),
    "around a threshold\nSigmoid": sm.Sigmoid().affine(alpha=3.0, beta=0.5),
}
OBSERVED = {-2.0: "#2a78c2", 0.0: "#7a7a7a", 2.0: "#d1682a"}


def main() -> None:
    z = np.linspace(-3.0, 3.0, 601)
    figure, axes = plt.subplots(
        2, len(LINKS), figsize=(11, 4.6), sharex=True, layout="constrained", height_ratios=[1, 1.7]
    )
    for (title, link), (top, bottom) in zip(LINKS.items(), axes.T, strict=True):
        slope = np.broadcast_to(link.slope(z), z.shape)
        top.fill_between(z, slope / slope.max(), color="#9ec9a6", linewidth=0)
        top.set_title(title, fontsize=11)
        top.set(ylim=(0, 1.08), yticks=[])
        curves = {s: sm.MatchingLoss(link)(z, s, reduction="none") for s in OBSERVED}
        scale = max(curve.max() for curve in curves.values())
        for s, curve in curves.items():
            bottom.plot(z, curve / scale, color=OBSERVED[s], label=f"observed {s:+g}" if s else "observed 0")
            bottom.plot(s, 0.0, "o", color=OBSERVED[s], markersize=5, clip_on=False)
        bottom.set(ylim=(0, 1.03), yticks=[], xlabel="predicted score", xlim=(-3, 3), xticks=[-2, 0, 2])
    axes[0, 0].set_ylabel("where it looks\n(sensitivity)")
    axes[1, 0].set_ylabel("what a prediction costs\n(loss)")
    axes[1, 0].legend(frameon=False, loc="upper center", fontsize=9)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("losses.png"), dpi=130)


if __name__ == "__main__":
    main()
