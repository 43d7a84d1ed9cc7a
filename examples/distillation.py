"""Distillation: a small language model learns from a larger one, both trained here on text that the script makes up.

Hidden states say words by Zipf's law; the student has a tenth of the teacher's parameters. Forward KL, reverse KL and
the Jensen-Shannon divergence against selective losses that ignore what the teacher finds unlikely: a little of it, or
much. The latter needs only the teacher's best words: the last row has stored 100 of 300, and must come out as the row
before it. Perplexity of new text, and agreement with the teacher at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from experiment import Measure, Results, Scores, mean_correlation, run
from scipy.stats import spearmanr
from torch.nn.functional import cross_entropy

from selmatch.distillation import distillation_loss, fitted, forward_kl, jensen_shannon, reverse_kl
from selmatch.sparse_teachers import TopKTeacher

WORDS, STATES, CONTEXT, STORED = 300, 12, 4, 100
#: widths of the models, rows of a batch, tokens to judge by
TEACHER, STUDENT, BATCH, TEST = 64, 8, 128, 1000
MEASURES = (
    Measure("perplexity", higher_is_better=False, digits=2),
    Measure("top-1 agreement"),
    Measure("top-5 agreement"),
    Measure("order of the top 10"),
)
USUAL = ("forward KL", "reverse KL", "Jensen-Shannon")

#: contexts, and the words that follow
Text = tuple[torch.Tensor, torch.Tensor]
#: of a student's logits for some rows of the text, given by number
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Model(torch.nn.Module):
    """Logits of the next word from the last few."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, width)
        self.mix = torch.nn.Linear(CONTEXT * width, 2 * width)
        self.out = torch.nn.Linear(2 * width, WORDS)

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.mix(self.words(context).flatten(-2))))


def make_text(rng: np.random.Generator, tokens: int) -> Text:
    """A hidden state says words, each state others, by Zipf's law; state and word tell which state comes next."""
    chances = 1.0 / np.arange(1, WORDS + 1) ** 1.5
    words = np.array([rng.permutation(WORDS) for _ in range(STATES)])
    following = rng.integers(STATES, size=(STATES, WORDS))
    state, text = 0, []
    for rank in rng.choice(WORDS, size=tokens + CONTEXT, p=chances / chances.sum()):
        text.append(words[state, rank])
        state = following[state, text[-1]]
    windows = torch.tensor(np.lib.stride_tricks.sliding_window_view(text, CONTEXT + 1).copy())
    return windows[:, :CONTEXT], windows[:, CONTEXT]


def trained(model: Model, contexts: torch.Tensor, loss: Loss, steps: int, seed: int) -> Model:
    """The model after some steps of Adam, with the same batches for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        rows = torch.randint(len(contexts), (BATCH,), generator=generator)
        adam.zero_grad()
        loss(model(contexts[rows]), rows).backward()
        adam.step()
        schedule.step()
    return model.eval()


def stored_rows(stored: TopKTeacher, rows: torch.Tensor) -> TopKTeacher:
    return TopKTeacher(stored.indices[rows], stored.scores[rows], stored.log_sum_exp[rows], stored.classes)


def losses(taught: torch.Tensor) -> dict[str, Loss]:
    """Losses of students for the teacher's logits of all rows."""
    stored = TopKTeacher.from_scores(taught, STORED)
    little = fitted(taught, share=0.1).loss
    # from all rows, not from a first batch: then no row has a word above the cut-off that is not stored
    much = fitted(stored, share=0.8, exact=True).loss
    return {
        "forward KL": lambda logits, rows: forward_kl(logits, taught[rows]),
        "reverse KL": lambda logits, rows: reverse_kl(logits, taught[rows]),
        "Jensen-Shannon": lambda logits, rows: jensen_shannon(logits, taught[rows]),
        "selective, little": lambda logits, rows: distillation_loss(logits, taught[rows], little),
        "selective, much": lambda logits, rows: distillation_loss(logits, taught[rows], much),
        "selective, stored": lambda logits, rows: distillation_loss(logits, stored_rows(stored, rows), much),
    }


@torch.no_grad()
def scores(student: Model, teacher: Model, text: Text) -> dict[str, float]:
    """What the table shows, on text that neither has seen."""
    contexts, following = text
    logits, taught = student(contexts), teacher(contexts)
    best, own = taught.topk(10).indices, logits.topk(5).indices
    shared = (best[:, :5, None] == own[:, None, :]).any(dim=-1).float().mean()
    order = mean_correlation(spearmanr, logits.gather(1, best).numpy(), taught.gather(1, best).numpy())
    return {
        "perplexity": float(cross_entropy(logits, following).exp()),
        "top-1 agreement": float((best[:, 0] == own[:, 0]).float().mean()),
        "top-5 agreement": float(shared),
        "order of the top 10": order,
    }


def study(seed: int, quick: bool) -> Scores:
    """A text and a teacher for each seed; students start alike and see the same rows, fewer than the teacher."""
    rng = np.random.default_rng(seed)
    read, tokens, steps = (4000, 1000, 10) if quick else (200_000, 30_000, 200)
    contexts, following = make_text(rng, read + TEST)
    torch.manual_seed(seed)

    def reading(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return cross_entropy(logits, following[rows])

    teacher = trained(Model(TEACHER), contexts[:read], reading, 3 * steps, seed)
    known = contexts[:tokens]
    with torch.no_grad():
        taught = teacher(known)
    results = {}
    for name, loss in losses(taught).items():
        torch.manual_seed(seed)
        student = trained(Model(STUDENT), known, loss, steps, seed)
        results[name] = scores(student, teacher, (contexts[read:], following[read:]))
    return results


def main(argv: Sequence[str] | None = None) -> Results:
    torch.set_num_threads(1)  # threads cost models as small as these more than they give
    return run(__doc__, study, MEASURES, USUAL, seeds=5, argv=argv)


if __name__ == "__main__":
    main()
