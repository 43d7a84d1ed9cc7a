"""
Scalings and the composite Sigmoid
==================================

A scaling q, its antiderivative Q and a Sigmoid make a link, h = q p. Most curves then behave as they do as links; some
that are no links become usable, and some ideas that look fine do not work.
"""

import selmatch as sm

# %%
# Scaling, probability, link, and loss; dashed below, the cross-entropy of the same probabilities, which need not be
# convex.

sm.paper.figure("selective_scale_sensitivity").draw()

# %%
# Scalings for every region.

sm.paper.figure("scalar_scale_examples").draw()

# %%
# Score-transforms f = exp(Q) whose links fall in the shaded regions.

sm.paper.figure("invalid_transforms").draw()
