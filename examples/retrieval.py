"""Retrieval: two small towers learn the graded similarities of queries and documents from a larger teacher.

Style makes pairs a little similar, topics much, but most topics are far apart: pairs that nobody will see hold most of
what there is to learn. Selective losses are sharp where similarity is high; against them squared error, plain and
re-weighted, InfoNCE (the teacher's best document is the right one) and softmax cross-entropy. Recall and order of the
best ten of 300 new documents, and the order of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from experiment import Measure, Results, Scores, mean_correlation, run
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy, normalize

import selmatch as sm
import selmatch.torch

FEATURES, PART, STUDENT, TOP = 24, 8, 8, 10
DOCUMENTS, QUERIES = 300, 300
MEASURES = (Measure("recall@1"), Measure("recall@10"), Measure("order of the top 10"), Measure("order of all"))
USUAL = ("squared error", "re-weighted", "InfoNCE", "softmax")

#: of predicted and observed similarities, a row for each query
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Towers(torch.nn.Module):
    """Queries and documents as vectors of the same few dimensions; a product, scaled and moved, is their similarity."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.document = (torch.nn.Linear(FEATURES, STUDENT) for _ in range(2))
        self.scale, self.level = torch.nn.Parameter(torch.tensor(0.3)), torch.nn.Parameter(torch.tensor(0.0))

    def forward(self, queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        return self.scale * (self.query(queries) @ self.document(documents).T) + self.level


class Teacher:
    """Similarity of style, a little and always, and of topic, much and only where topics are close."""

    def __init__(self, generator: torch.Generator) -> None:
        mixing = torch.linalg.qr(torch.randn(FEATURES, FEATURES, generator=generator))[0]
        self.style, self.topic = mixing[:PART], mixing[PART : 2 * PART]

    def __call__(self, queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
        style, topic = (
            normalize(queries @ part.T, dim=-1) @ normalize(documents @ part.T, dim=-1).T
            for part in (self.style, self.topic)
        )
        return 0.3 * style + topic.clamp(min=0.0) ** 3


def in_focus(s: torch.Tensor) -> float:
    """The similarity that a twentieth of the pairs reaches."""
    return float(np.quantile(s.numpy(), 0.95))


def squared_error(s: torch.Tensor) -> list[Loss]:
    return [sm.torch.MatchingLoss(sm.Identity())]


def re_weighted(s: torch.Tensor) -> list[Loss]:
    border, loss = in_focus(s), sm.torch.MatchingLoss(sm.Identity())

    def setting(weight: float) -> Loss:
        return lambda s_hat, s: loss(s_hat, s, weights=torch.where(s > border, weight, 1.0))

    return [setting(weight) for weight in (16.0, 64.0, 256.0)]


def info_nce(s: torch.Tensor) -> list[Loss]:
    def setting(temperature: float) -> Loss:
        return lambda s_hat, s: cross_entropy(s_hat / temperature, s.argmax(dim=-1))

    return [setting(temperature) for temperature in (0.05, 0.1, 0.2)]


def softmax(s: torch.Tensor) -> list[Loss]:
    """The teacher's similarities as probabilities of documents, at a temperature."""
    loss = sm.torch.MatchingLoss(sm.CompositeSoftmax())

    def setting(temperature: float) -> Loss:
        return lambda s_hat, s: loss(s_hat / temperature, s / temperature)

    return [setting(temperature) for temperature in (0.05, 0.1, 0.2)]


def selective(s: torch.Tensor) -> list[Loss]:
    """Each pair by itself: the best twentieth matters more."""
    sample = s.numpy().ravel()
    return [sm.torch.MatchingLoss(sm.focus("high", data=sample, top=0.05, strength=k)) for k in (16.0, 64.0, 256.0)]


def selective_lists(s: torch.Tensor) -> list[Loss]:
    """The documents of a query as a whole, by a composite Softmax whose scaling is 0 far below the focus."""
    border = in_focus(s)

    def setting(gamma: float) -> Loss:
        return sm.torch.MatchingLoss(sm.CompositeSoftmax(sm.SmeLU(c=0.8).affine(beta=border), gamma=gamma))

    return [setting(gamma) for gamma in (0.025, 0.05, 0.1)]


LOSSES: dict[str, Callable[[torch.Tensor], list[Loss]]] = {
    "squared error": squared_error,
    "re-weighted": re_weighted,
    "InfoNCE": info_nce,
    "softmax": softmax,
    "selective, pairs": selective,
    "selective, lists": selective_lists,
}


def scores(s_hat: np.ndarray, s: np.ndarray) -> dict[str, float]:
    """What the table shows, a mean over queries."""
    found, best = np.argsort(-s_hat, axis=1), np.argsort(-s, axis=1)[:, :TOP]
    recalled = [len(np.intersect1d(a, b)) / TOP for a, b in zip(found[:, :TOP], best, strict=True)]
    top_hat, top = (np.take_along_axis(x, best, axis=1) for x in (s_hat, s))
    return {
        "recall@1": float(np.mean(found[:, 0] == best[:, 0])),
        "recall@10": float(np.mean(recalled)),
        "order of the top 10": mean_correlation(spearmanr, top_hat, top),
        "order of all": mean_correlation(spearmanr, s_hat, s),
    }


def trained(
    loss: Loss, queries: torch.Tensor, documents: torch.Tensor, s: torch.Tensor, seed: int, steps: int
) -> Towers:
    """Towers after some steps of Adam on 50 queries, each with all documents."""
    generator = torch.manual_seed(seed)
    towers = Towers()
    adam = torch.optim.Adam(towers.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        batch = torch.randint(len(queries), (50,), generator=generator)
        adam.zero_grad()
        loss(towers(queries[batch], documents), s[batch]).backward()
        adam.step()
        schedule.step()
    return towers


def study(seed: int, quick: bool) -> Scores:
    """All losses with one teacher, each with the setting that is best on validation queries."""
    generator = torch.Generator().manual_seed(seed)
    teacher = Teacher(generator)

    def sample(count: int) -> torch.Tensor:
        return torch.randn(count // (4 if quick else 1), FEATURES, generator=generator)

    queries, documents = sample(QUERIES), sample(DOCUMENTS)
    s = teacher(queries, documents)
    valid, test = ((sample(QUERIES), sample(DOCUMENTS)) for _ in range(2))
    results = {}
    for name, settings in LOSSES.items():
        candidates = [trained(loss, queries, documents, s, seed, 10 if quick else 100) for loss in settings(s)]
        with torch.no_grad():
            reached = [scores(towers(*valid).numpy(), teacher(*valid).numpy())["recall@10"] for towers in candidates]
            best = candidates[int(np.argmax(reached))]
            results[name] = scores(best(*test).numpy(), teacher(*test).numpy())
    return results


def main(argv: Sequence[str] | None = None) -> Results:
    torch.set_num_threads(1)  # threads cost models as small as these more than they give
    return run(__doc__, study, MEASURES, USUAL, seeds=6, argv=argv)


if __name__ == "__main__":
    main()
