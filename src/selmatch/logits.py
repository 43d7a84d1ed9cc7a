"""A search for students and a teacher that show a loss not to be convex in the student's logits.

For logits z with log-probabilities w, and a teacher whose link values add up to c, the Hessian of the loss is

.. math:: J^T H''(w) J + \\Bigl(c - \\sum_k h_k(w)\\Bigr) (\\mathrm{diag}\\,\\pi - \\pi \\pi^T),
          \\qquad \\pi = e^w, \\quad J = I - 1 \\pi^T

so that students whose link values add up to more than the teacher's are the place to look. Scores less the one that the
teacher likes best are linear in the logits: there the second part is missing, and J has that class in place of pi.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from selmatch.canonical import comparable
from selmatch.certificates import Witness
from selmatch.curve import Curve, Interval

#: how many classes the students of a search have, unless the loss says so
_CLASSES = (2, 3, 4)
#: students and teachers that are looked at; students, teachers and lengths of segments that are followed
_SAMPLES, _STUDENTS, _TEACHERS = 3000, 48, 24
_LENGTHS = 2.0 ** np.arange(-6.0, 6.0)
#: generations of a search for a clearer witness, and their size
_GENERATIONS, _CHILDREN = 16, 128
#: a violation must be this large, relative to the losses, and to what rounding of the scores may change
_MARGIN, _ROUNDING = 1e-10, 1e-13


def search_witness(potential: Any, curve: Curve, how: str, domain: Interval) -> Witness | None:
    """Two students and a teacher for which the loss of the middle exceeds the mean of the losses, or None."""
    biased = getattr(potential, "rho", None) is not None
    searches = [_Search(potential, curve, how, domain, k) for k in ((len(potential.rho),) if biased else _CLASSES)]
    with np.errstate(all="ignore"):
        found = [(*search.clearest(), search) for search in searches]
        clarity, segment, search = max(found, key=lambda each: each[0])
        return search.witness(segment) if clarity > 0.0 else None


class _Search:
    """Segments between two students, beside a teacher: arrays [..., 3, classes]."""

    def __init__(self, potential: Any, curve: Curve, how: str, domain: Interval, classes: int) -> None:
        self.potential, self.how, self.domain, self.classes = potential, how, domain, classes
        self.random = np.random.default_rng(classes)
        low, high = curve.window()
        self.reach = min(2.0 * max(abs(low), abs(high), 1.0), domain.high - domain.low)

    def losses(self, students: np.ndarray, teachers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The losses, and by how much rounding of the scores may change them; NaN where a score is outside."""
        s_hat, s = comparable(students, np.broadcast_to(teachers, students.shape), self.how)
        inside = self.potential.holds(s_hat) & self.potential.holds(s, interior=True)
        point = self.potential.point()
        s_hat, s = np.where(inside, s_hat, point), np.where(inside, s, point)
        value = self.potential.remainder(s, s_hat - s, s_hat)
        move = np.abs(self.potential.link(s_hat) - self.potential.link(s))
        doubt = _ROUNDING * np.sum(move * (1.0 + np.abs(students) + np.abs(teachers)), axis=-1)
        return np.where(inside.all(axis=-1), value, np.nan), doubt

    def clarity(self, segments: np.ndarray) -> np.ndarray:
        """By how much the middle exceeds the mean of the ends, relative to the sum of all; -inf if that is unclear."""
        a, b, teacher = (segments[..., i, :] for i in range(3))
        (first, x), (middle, y), (last, z) = (self.losses(end, teacher) for end in (a, 0.5 * (a + b), b))
        size = first + middle + last
        excess = middle - 0.5 * (first + last)
        clear = np.isfinite(size) & (excess > _MARGIN * size + x + y + z)
        inside = (segments >= self.domain.low) & (segments <= self.domain.high)
        return np.where(clear & inside.all(axis=(-1, -2)), excess / size, -np.inf)

    def clearest(self) -> tuple[float, np.ndarray]:
        """How clear the clearest violation is that can be found (0 for none), and its segment."""
        found = self.candidates()
        clarity = self.clarity(found)
        order = np.argsort(-clarity)[:8]
        found, clarity = found[order], clarity[order]
        if not (clarity > 0.0).any():
            return 0.0, np.empty((3, self.classes))
        for step in np.geomspace(2.0, 0.1, _GENERATIONS):
            parents = found[self.random.integers(len(found), size=_CHILDREN)]
            moves = step * self.random.normal(size=parents.shape) * (self.random.random(parents.shape) < 0.5)
            everyone = np.concatenate([found, np.clip(parents + moves, self.domain.low, self.domain.high)])
            clarity = self.clarity(everyone)
            order = np.argsort(-clarity)[:8]
            found, clarity = everyone[order], clarity[order]
        return float(clarity[0]), found[0]

    def candidates(self) -> np.ndarray:
        """Segments along which the second derivative is negative somewhere."""
        students, teachers = self.sampled(), self.sampled()
        s_hat, s = comparable(students, teachers, self.how)
        inside = (self.potential.holds(s_hat) & self.potential.holds(s, interior=True)).all(axis=-1)
        students, teachers, s_hat, s = (x[inside] for x in (students, teachers, s_hat, s))
        if not len(students):
            return np.empty((0, 3, self.classes))
        sums = self.potential.link(s).sum(axis=-1)
        lowest = np.argsort(sums)[:_TEACHERS]
        values, vectors = np.linalg.eigh(_finite(self.hessians(s_hat, s, sums[lowest[0]])))
        depth = values[:, 0] / (np.abs(values).max(axis=-1) + 1e-300)
        deepest = np.argsort(depth)[:_STUDENTS]
        deepest = deepest[depth[deepest] < -1e-12]
        centre, way = students[deepest], vectors[deepest, :, 0]
        taught = teachers[lowest] if self.how == "log_probabilities" else teachers[deepest][None]
        centre, way = centre[:, None, None], way[:, None, None] * _LENGTHS[:, None]
        taught = taught[None, :, None] if self.how == "log_probabilities" else taught[0][:, None, None]
        parts = np.broadcast_arrays(centre - way, centre + way, taught)
        return np.clip(np.stack(parts, axis=-2).reshape(-1, 3, self.classes), self.domain.low, self.domain.high)

    def sampled(self) -> np.ndarray:
        """Logits of which some are close to each other, and some far apart."""
        reach = self.reach * 2.0 ** -self.random.integers(0, 6, size=(_SAMPLES, 1))
        z = -reach * self.random.random((_SAMPLES, self.classes))
        highest = self.domain.high if self.domain.high < np.inf else 0.0
        return np.maximum(z + max(highest, self.domain.low), self.domain.low)

    def hessians(self, s_hat: np.ndarray, s: np.ndarray, lowest_sum: float) -> np.ndarray:
        """Of the loss in the logits, for the teacher with the lowest sum of links."""
        unit = np.eye(self.classes)
        columns = [self.potential.hvp(s_hat, np.broadcast_to(row, s_hat.shape)) for row in unit]
        own = np.stack(columns, axis=-1)
        shares = np.exp(s_hat) if self.how == "log_probabilities" else unit[np.argmax(s, axis=-1)]
        turn = unit - shares[:, None, :]
        hessian = np.swapaxes(turn, -1, -2) @ own @ turn
        if self.how != "log_probabilities":
            return hessian
        excess = lowest_sum - self.potential.link(s_hat).sum(axis=-1)
        spread = unit * shares[:, None, :] - shares[:, :, None] * shares[:, None, :]
        return hessian + excess[:, None, None] * spread

    def witness(self, segment: np.ndarray) -> Witness:
        """A violation in words, with as few digits as show it clearly."""
        clarity = float(self.clarity(segment))
        rounded = (np.round(segment, digits) + 0.0 for digits in range(12))
        a, b, teacher = next((shorter for shorter in rounded if self.clarity(shorter) > 0.5 * clarity), segment)
        middle = 0.5 * (a + b)
        values = tuple(float(self.losses(z, teacher)[0]) for z in (a, middle, b))
        text = (
            f"for the teacher {_row(teacher)} the students {_row(a)} and {_row(b)} have losses {values[0]:.4g} and "
            f"{values[2]:.4g}, but {_row(middle)} in the middle has {values[1]:.4g}"
        )
        return Witness(text, tuple(tuple(map(float, z)) for z in (a, middle, b, teacher)), values)


def _finite(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x).all(axis=(-1, -2), keepdims=True), x, 0.0)


def _row(z: np.ndarray) -> str:
    return f"({', '.join(f'{x:.12g}' for x in z)})"
