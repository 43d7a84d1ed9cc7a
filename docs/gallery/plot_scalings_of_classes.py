"""
Scalings for many classes
=========================

Scaling, probabilities, links and losses for three classes observed at -3, 0 and 3. The bottom row moves all classes
together: there a loss shows whether its Q is convex. With cosh it is not, which the other rows do not show; see the
errata.
"""

import selmatch as sm

# %%
# High scores.

sm.paper.figure("multi_select_exp").draw()

# %%
# Low scores.

sm.paper.figure("multi_select_negexp").draw()

# %%
# High norms.

sm.paper.figure("multi_select_sinh").draw()

# %%
# Scalings that look elsewhere once there are several classes.

sm.paper.figure("select_invalid").draw()
