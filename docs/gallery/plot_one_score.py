"""
Losses of one score
===================

What a matching loss is, the four kinds of sensitivity, and why a weight is not enough. Captions and parameters of every
figure: ``sm.paper.figure(name).caption``.
"""

import selmatch as sm

# %%
# The loss of a prediction is an area: what the link covers beyond its level at the observed score.

sm.paper.figure("matching_loss_demo").draw()

# %%
# Where the link is steep, the loss is sharp. Shifts and shapes decide which scores that are.

sm.paper.figure("selective_bin_loss_regions").draw()

# %%
# Re-weighted squared losses can be sharp in a region, but do not keep regions apart; weighted by the prediction they
# are not even convex. On the right the matching loss of an exponential link.

sm.paper.figure("reweighting").draw()

# %%
# Links for every region, seven of each kind.

sm.paper.figure("scalar_all_examples").draw()
