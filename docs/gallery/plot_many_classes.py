"""
Many classes
============

With several classes a composite Softmax adds sensitivity to rank: the scaling says which scores matter, the Softmax
which class leads.
"""

import selmatch as sm

# %%
# The four kinds of sensitivity.

sm.paper.figure("multi_class_regions").draw()

# %%
# The same score is sharp as the higher one and flat as the lower one, unlike with a loss for each class (left).

sm.paper.figure("relative_sensitivity").draw()

# %%
# The standard Softmax has rank alone: shifts change nothing.

sm.paper.figure("softmax_invalid").draw()
