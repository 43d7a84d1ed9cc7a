"""A short tour: losses for people who care about long visits, next to squared error. Run it with `make demo`."""

import textwrap
from decimal import Decimal
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import selmatch as sm

OUTPUT = Path("demo_output")

# Visits to a page, in minutes. Long visits are what we want to get right. The slope of the link says how much: it is 1
# at five minutes, as for squared error, less below and more above.
ALPHA, BETA, GAIN = 0.5, 5.0, 2.0
link = sm.Exp().affine(alpha=ALPHA, beta=BETA, gain=GAIN)
loss = sm.MatchingLoss(link)
square = sm.MatchingLoss(sm.Identity())  # (s_hat - s)^2 / 2


def values_and_gradients() -> None:
    s = np.array([1.0, 1.0, 5.0, 5.0, 9.0, 9.0, 1.0, 9.0])
    s_hat = np.array([2.0, 0.0, 6.0, 4.0, 10.0, 8.0, 9.0, 1.0])
    columns = {
        "observed": s,
        "predicted": s_hat,
        "sensitivity": link.slope(s),
        "    loss": loss(s_hat, s, reduction="none"),
        "gradient": loss.grad(s_hat, s),
        "square loss": square(s_hat, s, reduction="none"),
        "square gradient": square.grad(s_hat, s),
    }
    print("  ".join(columns))
    for row in zip(*columns.values(), strict=True):
        print("  ".join(f"{value:{len(name)}.3f}" for name, value in zip(columns, row, strict=True)))
    print("Squared error finds every one-minute miss equally bad. This loss forgives it for a short visit, not for a")
    print("long one; to take a short visit for a long one, or a long one for a short one, is expensive with both.")


def what_it_elicits() -> None:
    visits = np.array([1.0, 9.0])
    print("Somebody stays 1 minute or 9 minutes, equally likely. The best single prediction is")
    print(f"  {square.minimiser(visits):.3f}  for squared error: the mean")
    print(f"  {loss.minimiser(visits):.3f}  for this loss: the mean of the link, mapped back")
    print("That is the price of the focus, not a fault: compare predictions with observations in link space.")


def exact(s_hat: np.float32, s: np.float32) -> float:
    """The loss with the 28 digits of `decimal`, from its definition."""
    alpha, beta, gain = Decimal(ALPHA), Decimal(BETA), Decimal(GAIN)
    p, o = Decimal(float(s_hat)), Decimal(float(s))
    h, h_hat = (gain * (alpha * (z - beta)).exp() for z in (o, p))
    return float((h_hat - h) / alpha - (p - o) * h)


def float32_near_the_target() -> None:
    s = np.float32(9.0)
    print("  miss      exact loss   selmatch     direct formula H(s_hat) - H(s) - (s_hat - s) h(s), all in float32")
    for miss in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        s_hat = s + np.float32(miss)
        ours = loss(np.array([s_hat]), np.array([s]), reduction="none")[0]
        direct = link.primitive(s_hat) - link.primitive(s) - (s_hat - s) * link(s)
        print(f"  {miss:<8g}  {exact(s_hat, s):.4e}   {ours:.4e}   {direct: .4e}")
    print("Close to the target the direct formula subtracts large numbers that agree in nearly all their digits.")
    print("selmatch computes the loss as a remainder, without that subtraction.")


def from_a_wish_to_a_file() -> None:
    visits = np.random.default_rng(0).lognormal(mean=1.0, sigma=0.8, size=2000)
    wished = sm.focus("high", data=visits, top=0.1, strength=8.0)
    print('sm.focus("high", data=visits, top=0.1, strength=8.0).explain()\n')
    print(textwrap.indent(str(wished.explain()), "  "))
    OUTPUT.mkdir(exist_ok=True)
    wished.save(OUTPUT / "loss.toml")
    print(f"\nSaved to {OUTPUT / 'loss.toml'} and loaded again: {sm.load(OUTPUT / 'loss.toml') == wished}.")
    print("A link may also be a formula, and is looked at before it is used:")
    for formula in ("z + 0.9*tanh(3*(z-1)) - 0.9*tanh(z)", "z - 1.001*tanh(z)"):
        print(f"  {formula:<36} {sm.certify.convex(sm.parse(formula))}")


def picture() -> Path:
    z = np.linspace(0.0, 10.0, 400)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(z, link.slope(z), color="C0", label="selective")
    left.plot(z, square.potential.slope(z), "--", color="C1", label="squared error")
    left.set(title="How much a small miss matters", xlabel="observed minutes", ylabel="sensitivity")
    left.legend()
    for s in (2.0, 8.0):
        right.plot(z, loss(z, s, reduction="none"), color="C0")
        right.plot(z, square(z, s, reduction="none"), "--", color="C1")
        right.plot(s, 0.0, "o", color="black")
        right.annotate(f"observed: {s:g}", (s, 0.0), (0, -7), textcoords="offset points", ha="center", va="top")
    right.set(title="What each prediction costs", xlabel="predicted minutes", ylabel="loss", ylim=(-2, 20))
    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / "tour.png"
    figure.savefig(path, dpi=120)
    return path


if __name__ == "__main__":
    print(f"The loss: {loss!r}\n\n1. Values and gradients")
    values_and_gradients()
    print("\n2. What it elicits")
    what_it_elicits()
    print("\n3. Close to the target")
    float32_near_the_target()
    print("\n4. From a wish to a file")
    from_a_wish_to_a_file()
    print(f"\nThe picture: {picture()}")
