"""Ranking: lists of results with grades from 0 to 4, and a linear scorer that cannot get everything right.

One feature helps among good results and hurts among poor ones. Selective losses of lists and of pairs look at the top;
against them ListNet, a pairwise logistic loss and squared error, each with the setting that validation lists like best.
NDCG at the top, and Kendall's tau of the whole list, which a loss that looks at the top may give up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from experiment import Measure, Results, Scores, mean_correlation, run
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score
from torch.nn.functional import softplus

import selmatch as sm
import selmatch.torch

FEATURES, ITEMS, HIGHEST = 12, 30, 4
#: the shares of results with at least the grades 1, 2, 3 and 4
SHARES = (0.7, 0.35, 0.12, 0.03)
MEASURES = (Measure("NDCG@5"), Measure("NDCG@10"), Measure("Kendall's tau"))
USUAL = ("ListNet, untuned", "ListNet", "pairwise logistic", "squared error")

#: features of the items of lists, and their grades
Lists = tuple[torch.Tensor, np.ndarray]
#: of the predicted scores of all lists
Objective = Callable[[torch.Tensor], torch.Tensor]


def make_lists(rng: np.random.Generator, directions: np.ndarray, count: int) -> Lists:
    """Lists whose relevance is a direction of the features, and its product with a second one."""
    X = rng.normal(size=(count, ITEMS, FEATURES))
    level, mixed = np.moveaxis(X @ directions.T, -1, 0)
    relevance = level + 0.7 * level * mixed + 0.5 * rng.normal(size=level.shape)
    borders = np.quantile(relevance, 1.0 - np.array(SHARES))
    return torch.tensor(X), np.searchsorted(borders, relevance)


def gains(grades: np.ndarray) -> np.ndarray:
    """What DCG gives for a grade."""
    return 2.0**grades - 1.0


def scores(grades: np.ndarray, scale: float = 1.0, kind: str = "graded") -> torch.Tensor:
    return torch.tensor(sm.ranking.labels_to_scores(grades, scale=scale, kind=kind, highest=HIGHEST))


def list_net(grades: np.ndarray) -> list[Objective]:
    """Softmax cross-entropy; the larger the scale of the targets, the more it looks at the top."""
    targets = [scores(grades, scale) for scale in (1.0, 2.0, 4.0)]
    return [lambda s_hat, s=s: sm.ranking.listwise(s_hat, s, sm.CompositeSoftmax()) for s in targets]


def pairwise_logistic(grades: np.ndarray) -> list[Objective]:
    """RankNet: the log-loss of the order of two results, alike for all pairs or weighted by what they differ in."""
    rows, good, bad = np.nonzero(grades[:, :, None] > grades[:, None, :])
    by_grade, by_gain = (1.0 * label[rows, good] - label[rows, bad] for label in (grades, gains(grades)))
    weights = [torch.tensor(w) for w in (np.ones(len(rows)), by_grade, by_gain)]
    return [lambda s_hat, w=w: (w * softplus(s_hat[rows, bad] - s_hat[rows, good])).sum() / w.sum() for w in weights]


def squared_error(grades: np.ndarray) -> list[Objective]:
    """Of grades, of the gains of DCG, and of grades with the gains as weights."""
    plain, gain = scores(grades), scores(grades, kind="gain")
    weights = torch.tensor(gains(grades) + 1.0)
    return [
        lambda s_hat: torch.mean((s_hat - plain) ** 2),
        lambda s_hat: torch.mean((s_hat - gain) ** 2),
        lambda s_hat: torch.mean(weights * (s_hat - plain) ** 2),
    ]


def selective_lists(grades: np.ndarray) -> list[Objective]:
    """A composite Softmax whose scaling grows where the best tenth of the results is."""
    s = scores(grades)
    losses = [sm.focus("high", data=s.numpy(), of="lists", strength=strength) for strength in (2.0, 4.0, 8.0)]
    return [lambda s_hat, loss=loss: sm.ranking.listwise(s_hat, s, loss) for loss in losses]


def selective_pairs(grades: np.ndarray) -> list[Objective]:
    """Large differences matter: those between the best and the rest."""
    s = scores(grades, kind="gain")
    losses = [sm.focus("extremes", data=s.numpy(), of="pairs", strength=strength) for strength in (2.0, 4.0, 8.0)]
    return [lambda s_hat, loss=loss: sm.ranking.pairwise(s_hat, s, loss) for loss in losses]


LOSSES = {
    "ListNet, untuned": lambda grades: list_net(grades)[:1],
    "ListNet": list_net,
    "pairwise logistic": pairwise_logistic,
    "squared error": squared_error,
    "selective, lists": selective_lists,
    "selective, pairs": selective_pairs,
}


def fitted(objective: Objective, X: torch.Tensor, iterations: int) -> torch.nn.Linear:
    """A linear scorer. All losses are convex in it: L-BFGS finds the best one, and no learning rate has to be tuned."""
    scorer = torch.nn.Linear(FEATURES, 1, dtype=torch.float64)
    torch.nn.init.zeros_(scorer.weight)
    torch.nn.init.zeros_(scorer.bias)
    optimiser = torch.optim.LBFGS(scorer.parameters(), max_iter=iterations, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = objective(scorer(X)[..., 0])
        value.backward()
        return value

    optimiser.step(closure)
    return scorer


def predicted(scorer: torch.nn.Linear, lists: Lists) -> np.ndarray:
    with torch.no_grad():
        return scorer(lists[0])[..., 0].numpy()


def ndcg(scorer: torch.nn.Linear, lists: Lists, k: int) -> float:
    return float(ndcg_score(gains(lists[1]), predicted(scorer, lists), k=k, ignore_ties=True))


def tau(scorer: torch.nn.Linear, lists: Lists) -> float:
    return mean_correlation(kendalltau, predicted(scorer, lists), lists[1])


def study(seed: int, quick: bool) -> Scores:
    """All losses on the lists of one seed, each with the setting that is best on validation lists."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(FEATURES, 2)))[0].T
    sizes, iterations = ((30, 30, 50), 8) if quick else ((200, 200, 500), 40)
    train, valid, test = (make_lists(rng, directions, count) for count in sizes)
    results = {}
    for name, settings in LOSSES.items():
        scorers = [fitted(objective, train[0], iterations) for objective in settings(train[1])]
        best = max(scorers, key=lambda scorer: ndcg(scorer, valid, 10))
        results[name] = {
            "NDCG@5": ndcg(best, test, 5), "NDCG@10": ndcg(best, test, 10), "Kendall's tau": tau(best, test),
        }  # fmt: skip
    return results


def main(argv: Sequence[str] | None = None) -> Results:
    torch.set_num_threads(1)  # threads cost models as small as these more than they give
    return run(__doc__, study, MEASURES, USUAL, seeds=10, argv=argv)


if __name__ == "__main__":
    main()
