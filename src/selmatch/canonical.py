"""How logits, which are only defined up to a shift, become scores that a loss can compare."""

from __future__ import annotations

import math
from typing import Any

from selmatch.functions import exp, log, namespace_of, row_max, row_sum
from selmatch.functions import where as choose

Array = Any

#: the logit of a class that is ruled out: its probability is 0 in all digits, and half precision holds it
_LOW = -1e4
#: the ways to make logits comparable
CANONICAL = ("log_probabilities", "teacher_maximum", None)


def require_canonical(who: str, how: Any) -> None:
    """Refuse what is no way to make logits comparable."""
    if how not in CANONICAL:
        raise ValueError(f"{who}: canonicalise must be one of {CANONICAL}, got {how!r}.")


def comparable(student: Array, teacher: Array, how: str | None) -> tuple[Array, Array]:
    """The scores of a student and of its teacher."""
    if how == "log_probabilities":
        return log_probabilities(student), log_probabilities(teacher)
    if how == "teacher_maximum":
        return less_the_favourite(student, teacher), teacher - row_max(teacher)
    return student, teacher


def log_probabilities(z: Array) -> Array:
    """Logarithms of the probabilities that logits stand for, classes on the last axis.

    Examples
    --------
    >>> from selmatch.distillation import log_probabilities
    >>> np.exp(log_probabilities(np.log([1.0, 2.0, 5.0])))
    array([0.125, 0.25 , 0.625])
    """
    if namespace_of(z).name == "PyTorch":
        return z.log_softmax(-1)  # in one pass
    z = z - constant(row_max(z))
    return z - log(row_sum(exp(z)))


def less_the_favourite(student: Array, teacher: Array) -> Array:
    """The student's logits less that of the teacher's best class, or their mean where several classes share the top.

    Unlike their maximum, the mean keeps the scores linear in the student's logits, and the loss convex in them.
    """
    best = teacher >= row_max(teacher)
    count = row_sum(choose(best, 0.0 * student + 1.0, 0.0))
    return student - row_sum(choose(best, student, 0.0)) / count


def without_infinities(z: Array) -> Array:
    """Logits with a low number for -inf, of which losses have no derivatives."""
    return choose(z == -math.inf, _LOW, z)


def constant(x: Array) -> Array:
    """x without derivatives."""
    space = namespace_of(x)
    return space.constant(x) if hasattr(space, "constant") else x
