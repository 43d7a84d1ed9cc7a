"""
What models predict
===================

A loss decides what a model does when it cannot be right everywhere, and which single number it predicts for scores that
vary.
"""

import selmatch as sm

# %%
# Two features, one linear model: it believes the feature that is right where the loss looks.

sm.paper.figure("underspecification").draw()

# %%
# The best prediction is the inverse link of the mean link, not the mean.

sm.paper.figure("match_stochastic").draw()
