"""Claim: none in advance. Which loss makes a small language model most like its teacher, at equal budget?

A teacher is trained on text; students learn from its scores with one loss each, from the same start, on the same
batches, for the same number of steps. Learning rates are chosen for each loss by its own value on validation text, from
one grid and with a seed of their own; then five other seeds are judged on test text. Needs Python, NumPy and PyTorch.
Models and vocabulary are smaller without a GPU, and it takes about 80 minutes there.

    python benchmarks/distillation.py --corpus ../shared/data/text_corpus --out study.json
    python benchmarks/distillation.py --markdown study.json --into docs/distillation.md
"""

from __future__ import annotations

import argparse
import copy
import functools
import gzip
import heapq
import itertools
import json
import math
import platform
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
import torch.nn.functional as F
from _pages import between_marks
from torch import nn

import selmatch as sm
from selmatch.distillation import fitted
from selmatch.torch import MatchingLoss, TopKTeacher

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
REFERENCE = "forward KL"
BEST = 10  # classes in which students are compared with the teacher
TUNING_SEED = 0


# ---------------------------------------------------------------------------------------------------------------- sizes


@dataclass(frozen=True)
class Network:
    layers: int
    width: int
    heads: int
    dropout: float


@dataclass(frozen=True)
class Sizes:
    """All numbers of the study."""

    vocabulary: int = 4096
    context: int = 128
    batch: int = 64  # windows of text in a step
    teacher: Network = Network(layers=6, width=384, heads=6, dropout=0.3)
    teacher_steps: int = 1000
    teacher_rate: float = 1e-3
    student: Network = Network(layers=2, width=128, heads=4, dropout=0.1)
    steps: int = 1500  # at most: fewer where time is short, the same for all losses
    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3, 16e-3)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    stored: int = 64  # classes of a stored teacher
    sample: int = 4096  # tokens from which gamma is chosen
    words: int | None = None  # words of each file that are read
    compiled: bool = False  # whether formulas are compiled where there are no kernels


ON_CPU = Sizes(
    vocabulary=1024, context=64, batch=32, teacher=Network(4, 192, 6, 0.2), teacher_steps=2000, teacher_rate=2e-3,
    student=Network(2, 64, 4, 0.0), steps=400, rates=(3e-3, 6e-3, 12e-3), compiled=True,
)  # fmt: skip

QUICK = Sizes(
    vocabulary=160, context=16, batch=8, teacher=Network(2, 32, 2, 0.1), teacher_steps=30, teacher_rate=1e-2,
    student=Network(1, 16, 2, 0.1), steps=8, rates=(3e-3, 1e-2), seeds=(1, 2), stored=16, sample=256, words=2000,
)  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------- text


class BytePairs:
    """A vocabulary of frequent strings: single characters, joined again and again where the pair is most frequent."""

    UNKNOWN = "\N{REPLACEMENT CHARACTER}"

    def __init__(self, counts: Counter[str], size: int) -> None:
        self.tokens = [self.UNKNOWN, *sorted(set().union(*counts))]
        if size < len(self.tokens):
            raise ValueError(f"BytePairs: size must be >= {len(self.tokens)} (the characters), got {size}.")
        self.rank: dict[tuple[str, str], int] = {}
        for pair in itertools.islice(_joined_pairs(counts), size - len(self.tokens)):
            self.rank[pair] = len(self.rank)
            self.tokens.append("".join(pair))
        # two pairs may make the same string: both mean the first token, the other one is never used
        self.number = {token: i for i, token in reversed(list(enumerate(self.tokens)))}
        self.encode = functools.cache(self._encode)

    def _encode(self, word: str) -> list[int]:
        parts = list(word)
        while len(parts) > 1:
            pair = min(itertools.pairwise(parts), key=lambda pair: self.rank.get(pair, math.inf))
            if pair not in self.rank:
                break
            parts = _join(parts, pair)
        return [self.number.get(part, 0) for part in parts]


def _join(parts: list[str], pair: tuple[str, str]) -> list[str]:
    joined: list[str] = []
    i = 0
    while i < len(parts):
        both = tuple(parts[i : i + 2]) == pair
        joined.append(parts[i] + parts[i + 1] if both else parts[i])
        i += 2 if both else 1
    return joined


def _joined_pairs(counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """The most frequent pair of neighbours within words, joined, and so on."""
    words, often = [list(word) for word in counts], list(counts.values())
    total: Counter[tuple[str, str]] = Counter()
    places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for i, parts in enumerate(words):
        for pair in itertools.pairwise(parts):
            total[pair] += often[i]
            places[pair].add(i)
    heap = [(-count, pair) for pair, count in total.items()]
    heapq.heapify(heap)
    while heap:
        count, pair = heapq.heappop(heap)
        if -count != total[pair]:  # it has changed since: again with its count of today
            if total[pair] > 0:
                heapq.heappush(heap, (-total[pair], pair))
            continue
        yield pair
        grown = set()
        for i in places.pop(pair):
            for old in itertools.pairwise(words[i]):
                total[old] -= often[i]
            words[i] = _join(words[i], pair)
            for new in itertools.pairwise(words[i]):
                total[new] += often[i]
                places[new].add(i)
                grown.add(new)
        for new in grown:
            heapq.heappush(heap, (-total[new], new))


class Windows(NamedTuple):
    """Pieces of text of equal length: tokens, and the token after each of them."""

    inputs: torch.Tensor
    targets: torch.Tensor


def words_of(path: Path) -> list[str]:
    text = gzip.open(path, "rt", encoding="utf-8").read() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    return re.findall(r" ?<unk>|\n| ?\w+| ?[^\w\s]+|\s", text)


def read_corpus(folder: Path, sizes: Sizes) -> tuple[dict[str, Windows], int]:
    """Windows to train on, to validate and to test; the vocabulary's size."""
    paths = sorted(path for path in folder.iterdir() if path.name.endswith((".txt", ".txt.gz")))
    if not paths:
        raise FileNotFoundError(f"distillation.py: the folder must hold .txt or .txt.gz files, got {folder}.")
    parts: dict[str, list[list[str]]] = {"train": [], "valid": [], "test": []}
    for path in paths:
        words = words_of(path)[: sizes.words]
        first, second = int(0.8 * len(words)), int(0.9 * len(words))
        for name, part in zip(parts, (words[:first], words[first:second], words[second:]), strict=True):
            parts[name].append(part)
    pairs = BytePairs(Counter(itertools.chain(*parts["train"])), sizes.vocabulary)
    return {name: _windows(texts, pairs, sizes.context) for name, texts in parts.items()}, len(pairs.tokens)


def _windows(texts: list[list[str]], pairs: BytePairs, context: int) -> Windows:
    inputs, targets = [], []
    for words in texts:
        tokens = np.fromiter(itertools.chain.from_iterable(map(pairs.encode, words)), dtype=np.int64)
        count = (len(tokens) - 1) // context
        inputs.append(tokens[: count * context].reshape(count, context))
        targets.append(tokens[1 : count * context + 1].reshape(count, context))
    return Windows(*(torch.from_numpy(np.concatenate(z)).to(DEVICE) for z in (inputs, targets)))


# ---------------------------------------------------------------------------------------------------------------- model


class Block(nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        width = network.width
        self.heads, self.dropout = network.heads, network.dropout
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        mixed = self.mixed(self.before(x)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self._drop(self.joined(seen.transpose(1, 2).reshape(rows, length, width)))
        return x + self._drop(self.narrow(F.gelu(self.wide(self.between(x)))))

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.dropout, self.training)


class LanguageModel(nn.Module):
    """A transformer that scores the next token; its head is its table of embeddings."""

    def __init__(self, network: Network, vocabulary: int, context: int) -> None:
        super().__init__()
        self.dropout = network.dropout
        self.tokens, self.places = nn.Embedding(vocabulary, network.width), nn.Embedding(context, network.width)
        self.blocks = nn.Sequential(*(Block(network) for _ in range(network.layers)))
        self.last = nn.LayerNorm(network.width)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                deep = name.endswith(("joined.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * network.layers) if deep else 0.02)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        x = self.tokens(inputs) + self.places.weight[: inputs.shape[1]]
        x = self.last(self.blocks(F.dropout(x, self.dropout, self.training)))
        return x @ self.tokens.weight.t()


def new_model(network: Network, vocabulary: int, sizes: Sizes, seed: int) -> LanguageModel:
    torch.manual_seed(seed)
    return LanguageModel(network, vocabulary, sizes.context).to(DEVICE)


def size_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def batches(count: int, size: int, seed: int) -> Iterator[torch.Tensor]:
    """Numbers of windows without end: every window once in each round, in another order."""
    size, random = min(size, count), torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(count, generator=random)[: count - count % size]
        yield from order.to(DEVICE).split(size)


def train(
    model: LanguageModel, value: Callable[[torch.Tensor], torch.Tensor], sizes: Sizes, windows: Windows,
    steps: int, rate: float, seed: int, decay: float, each: Callable[[int], None] = lambda step: None,
) -> None:  # fmt: skip
    """Minimise the value of batches: AdamW, a short warm-up, then a cosine down to a tenth of the rate.

    A gradient twice as long as gradients of late is shortened: one bad batch spoils no run, in whatever unit a loss is.
    """
    warm = max(1, steps // 20)
    usual: Any = 0.0  # a tensor, so that nobody waits for the device
    # losses differ in scale: AdamW forgets it, as long as its epsilon is far below every gradient
    adam = torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.95), eps=1e-12, weight_decay=decay, fused=DEVICE.type == "cuda"
    )
    model.train()
    for step, chosen in zip(range(steps), batches(len(windows.inputs), sizes.batch, seed), strict=False):
        done = max(0.0, (step - warm) / max(1, steps - warm))
        now = rate * min((step + 1) / warm, 0.55 + 0.45 * math.cos(math.pi * done))
        for group in adam.param_groups:
            group["lr"] = now
        adam.zero_grad(set_to_none=True)
        value(chosen).backward()
        length = nn.utils.clip_grad_norm_(model.parameters(), 2.0 * usual if step else math.inf)
        usual = 0.9 * usual + 0.1 * torch.clamp(length, max=2.0 * usual) if step else length
        adam.step()
        each(step + 1)


# -------------------------------------------------------------------------------------------------------------- teacher


class Teacher:
    """The scores of a teacher for every token of some windows, and its best classes as they would be stored."""

    def __init__(self, model: LanguageModel, windows: Windows, vocabulary: int, sizes: Sizes) -> None:
        self.windows, self.classes = windows, vocabulary
        count, context = windows.inputs.shape
        few = min(sizes.stored, vocabulary)
        self.scores = torch.empty(count, context, vocabulary, device=DEVICE)
        self._best = torch.empty(count, context, few, device=DEVICE)
        self._indices = torch.empty(count, context, few, dtype=torch.int64, device=DEVICE)
        self._level = torch.empty(count, context, device=DEVICE)
        model.eval()
        with torch.no_grad():
            for first in range(0, count, sizes.batch):
                some = slice(first, first + sizes.batch)
                scores = model(windows.inputs[some])
                stored = TopKTeacher.from_scores(scores, few)
                self.scores[some], self._best[some] = scores, stored.scores
                self._indices[some], self._level[some] = stored.indices, stored.log_sum_exp

    def stored(self, chosen: torch.Tensor) -> TopKTeacher:
        return TopKTeacher(self._indices[chosen], self._best[chosen], self._level[chosen], self.classes)


class Batch(NamedTuple):
    """What losses may look at."""

    teacher: Teacher
    chosen: torch.Tensor

    @property
    def scores(self) -> torch.Tensor:
        return self.teacher.scores[self.chosen]

    @property
    def stored(self) -> TopKTeacher:
        return self.teacher.stored(self.chosen)

    @property
    def targets(self) -> torch.Tensor:
        return self.teacher.windows.targets[self.chosen]


def cross_entropy(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def mean_over(windows: Windows, size: int, value: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """The mean of a value of windows: of batches of equal sizes but the last one, which counts by its size."""
    parts = torch.arange(len(windows.inputs), device=DEVICE).split(size)
    with torch.no_grad():
        total = sum(value(some) * len(some) for some in parts)
    return float(total) / len(windows.inputs)


def trained_teacher(windows: dict[str, Windows], vocabulary: int, sizes: Sizes) -> tuple[LanguageModel, int]:
    """A teacher of the step that is best on validation text, and that step."""
    model = new_model(sizes.teacher, vocabulary, sizes, TUNING_SEED)
    best, state, found = math.inf, copy.deepcopy(model.state_dict()), 0

    def value_on(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda some: cross_entropy(model(windows[name].inputs[some]), windows[name].targets[some])

    def validate(step: int) -> None:
        nonlocal best, state, found
        if step % max(1, sizes.teacher_steps // 15):
            return
        model.eval()
        now = mean_over(windows["valid"], sizes.batch, value_on("valid"))
        model.train()
        if now < best:
            best, state, found = now, copy.deepcopy(model.state_dict()), step

    train(
        model, value_on("train"), sizes, windows["train"],
        sizes.teacher_steps, sizes.teacher_rate, TUNING_SEED, decay=0.1, each=validate,
    )  # fmt: skip
    model.load_state_dict(state)
    return model.eval(), found


# --------------------------------------------------------------------------------------------------------------- losses


class Objective(NamedTuple):
    """One row of the tables: a loss of scores of a student, and what it is in full."""

    name: str
    value: Callable[[torch.Tensor, Batch], torch.Tensor]
    note: str


def divergence(log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """KL(p to q) by PyTorch itself, a mean over rows: what users have today."""
    return F.kl_div(log_q.flatten(0, -2), log_p.flatten(0, -2), reduction="batchmean", log_target=True)


def forward_kl(scores: torch.Tensor, teacher: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    return divergence((scores / temperature).log_softmax(-1), (teacher / temperature).log_softmax(-1))


def reverse_kl(scores: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    return divergence(teacher.log_softmax(-1), scores.log_softmax(-1))


def jensen_shannon(scores: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    p, q = scores.log_softmax(-1), teacher.log_softmax(-1)
    mixture = torch.logaddexp(p, q) - math.log(2.0)
    return 0.5 * (divergence(mixture, p) + divergence(mixture, q))


def at_temperature(name: str, temperature: float) -> Objective:
    return Objective(
        name,
        lambda scores, batch: forward_kl(scores, batch.scores, temperature),
        f"both scores divided by {temperature:g}",
    )


def made(loss: Any, sizes: Sizes, canonicalise: bool) -> tuple[MatchingLoss, Callable[..., torch.Tensor]]:
    """A loss as a module, and how it is called."""
    module = MatchingLoss(loss, canonicalise=canonicalise).to(DEVICE)
    return module, torch.compile(module) if sizes.compiled else module


def selective(name: str, loss: Any, sizes: Sizes) -> Objective:
    module, call = made(loss, sizes, canonicalise=True)
    return Objective(name, lambda scores, batch: call(scores, batch.scores), f"`{module.loss.potential}`")


def selective_stored(name: str, loss: Any, sizes: Sizes, sample: TopKTeacher) -> Objective:
    """With the best classes of the teacher only."""
    module, call = made(loss, sizes, canonicalise=sizes.compiled)
    exact = sample.is_exact(module.loss).float().mean().item()
    known = sample.log_probabilities.exp().sum(-1).mean().item()
    note = (
        f"`{module.loss.potential}`; as with the full teacher for {100.0 * exact:.1f} % of tokens, "
        f"{100.0 * known:.1f} % of the probability is stored"
    )

    def value(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        return call(scores, batch.stored.dense() if sizes.compiled else batch.stored)

    return Objective(name, value, note)


def only_stored(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Forward KL among the teacher's stored classes, as if there were no others."""
    stored = batch.stored
    return forward_kl(scores.gather(-1, stored.indices), stored.scores)


def weight_of_best(softmax: sm.CompositeSoftmax, stored: TopKTeacher) -> float:
    """The composite probability of the stored classes, a mean over rows."""
    return softmax.prob(stored.dense()).gather(-1, stored.indices.long()).sum(-1).mean().item()


def gamma_for_best(scaling: sm.Curve, stored: TopKTeacher, share: float = 0.9) -> float:
    """The gamma with which the stored classes hold this share: the rule for scalings without a cut-off."""
    low, high = 1e-3, 1e2
    for _ in range(30):
        middle = math.sqrt(low * high)
        enough = weight_of_best(sm.CompositeSoftmax(scaling, gamma=middle), stored) >= share
        low, high = (middle, high) if enough else (low, middle)
    return float(f"{low:.3g}")


def all_objectives(teacher: Teacher, sizes: Sizes) -> list[Objective]:
    """What is usual, what is simple, and what selects; scalings follow rules, none is tuned on results."""
    chosen = torch.arange(min(len(teacher.scores), -(-sizes.sample // sizes.context)), device=DEVICE)
    sample = Batch(teacher, chosen)
    few = f"best {sizes.stored}"
    guess = -math.log(teacher.classes)
    exp = sm.Exp().affine(alpha=0.25)
    sinh = sm.Sinh().capped(0.0, None).affine(alpha=0.25, beta=guess)
    little, much = (fitted(sample.scores, share=share).loss for share in (0.1, 0.7))
    sharp = fitted(sample.scores, sm.SmeLU().affine(beta=guess + 1.0)).loss
    exact = fitted(sample.stored, exact=True).loss
    potential: Any = exact.potential
    even = sm.CompositeSoftmax(potential.scaling)
    return [
        Objective(REFERENCE, lambda scores, batch: forward_kl(scores, batch.scores), "KL of teacher to student"),
        Objective("reverse KL", lambda scores, batch: reverse_kl(scores, batch.scores), "KL of student to teacher"),
        Objective("Jensen-Shannon", lambda scores, batch: jensen_shannon(scores, batch.scores), "weight 0.5"),
        Objective("hard labels", lambda scores, batch: cross_entropy(scores, batch.targets), "no teacher"),
        at_temperature("forward KL, temperature 2", 2.0),
        at_temperature("forward KL, temperature 0.8", 0.8),
        at_temperature("forward KL, temperature 0.5", 0.5),
        selective("SmeLU, share 0.1", little, sizes),
        selective("SmeLU, share 0.7", much, sizes),
        # above its cut-off SmeLU is a Softmax of temperature gamma
        selective("SmeLU, gamma fitted", sharp, sizes),
        selective("exp", sm.CompositeSoftmax(exp, gamma=gamma_for_best(exp, sample.stored)), sizes),
        selective("sinh, capped below", fitted(sample.scores, sinh).loss, sizes),
        Objective(f"forward KL, {few} only", only_stored, "other classes do not exist"),
        selective_stored(f"SmeLU, share 0.1, {few}", little, sizes, sample.stored),
        selective_stored(f"SmeLU, share 0.7, {few}", much, sizes, sample.stored),
        selective_stored(f"SmeLU, exact, {few}", exact, sizes, sample.stored),
        selective_stored(f"SmeLU, exact, gamma 1, {few}", even, sizes, sample.stored),
    ]


# ------------------------------------------------------------------------------------------------------------- measures

#: name, title, digits, and whether more is better
MEASURES = (
    ("perplexity", "perplexity", 2, False),
    ("kl", "KL", 4, False),
    ("kl_best", f"KL, best {BEST}", 4, False),
    ("top1", "top-1, %", 2, True),
    ("top5", "top-5, %", 2, True),
    ("spearman", "Spearman", 4, True),
    ("kendall", "Kendall", 4, True),
)


def measured(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """The measures of a batch, means over tokens; negative log-likelihood for the perplexity."""
    p, q = scores.log_softmax(-1), batch.scores.log_softmax(-1)
    best, indices = q.topk(BEST, dim=-1)
    of_student = p.gather(-1, indices)
    five = indices[..., :5, None] == p.topk(5, dim=-1).indices[..., None, :]
    means = [
        F.nll_loss(p.flatten(0, 1), batch.targets.flatten()),
        divergence(p, q),
        forward_kl(of_student, best),
        100.0 * (p.argmax(-1) == indices[..., 0]).float().mean(),
        100.0 * five.any(-1).float().mean(),
        spearman(of_student, best),
        kendall(of_student, best),
    ]
    return torch.stack(means)


def spearman(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The rank correlation of rows without ties, a mean."""
    n = x.shape[-1]
    apart = ranks(x) - ranks(y)
    return (1.0 - 6.0 * apart.square().sum(-1).float() / (n * (n * n - 1))).mean()


def ranks(x: torch.Tensor) -> torch.Tensor:
    return x.argsort(dim=-1).argsort(dim=-1)


def kendall(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The share of pairs in the same order less that of pairs in opposite order, a mean over rows."""
    n = x.shape[-1]
    first, second = torch.triu_indices(n, n, offset=1, device=x.device)
    return ((x[..., first] - x[..., second]).sign() * (y[..., first] - y[..., second]).sign()).mean()


def evaluated(model: LanguageModel, teacher: Teacher, sizes: Sizes) -> dict[str, float]:
    model.eval()
    count, total = len(teacher.windows.inputs), torch.zeros(len(MEASURES), device=DEVICE)
    with torch.no_grad():
        for some in torch.arange(count, device=DEVICE).split(sizes.batch):
            total += measured(model(teacher.windows.inputs[some]), Batch(teacher, some)) * len(some)
    likelihood, *others = (total / count).tolist()
    return dict(zip((name for name, *_ in MEASURES), (math.exp(min(likelihood, 700.0)), *others), strict=True))


# ---------------------------------------------------------------------------------------------------------------- study


@dataclass(frozen=True)
class Run:
    """One student."""

    loss: str
    seed: int
    rate: float
    seconds: float
    own: float | None  # the loss itself on validation text; none where training went astray
    measures: dict[str, float]


class Study:
    """All runs, written down after each of them."""

    def __init__(self, options: argparse.Namespace, sizes: Sizes, start: float) -> None:
        self.options, self.sizes, self.start = options, sizes, start
        windows, self.vocabulary = read_corpus(options.corpus, sizes)
        tokens = {name: part.inputs.numel() for name, part in windows.items()}
        self.say(f"{self.vocabulary} token types; {tokens} tokens")
        model, step = trained_teacher(windows, self.vocabulary, sizes)
        self.teachers = {name: Teacher(model, part, self.vocabulary, sizes) for name, part in windows.items()}
        self.facts: dict[str, Any] = {
            "machine": torch.cuda.get_device_name() if DEVICE.type == "cuda" else platform.processor() or "CPU",
            "date": time.strftime("%Y-%m-%d"),
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "selmatch": sm.__version__},
            "vocabulary": self.vocabulary,
            "tokens": tokens,
            "sizes": asdict(sizes),
            "teacher": {"parameters": size_of(model), "step": step}
            | {name: evaluated(model, self.teachers[name], sizes)["perplexity"] for name in ("train", "valid", "test")},
            "student_parameters": size_of(new_model(sizes.student, self.vocabulary, sizes, TUNING_SEED)),
        }
        self.say(f"teacher of step {step}, perplexity on test text {self.facts['teacher']['test']:.2f}")
        self.objectives = all_objectives(self.teachers["train"], sizes)
        self.facts["losses"] = {objective.name: objective.note for objective in self.objectives}
        self.runs: list[Run] = []
        self.tuning: list[Run] = []
        self.steps = sizes.steps

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def say(self, text: str) -> None:
        print(f"{self.elapsed():6.1f} s  {text}", flush=True)

    def train_student(self, objective: Objective, rate: float, seed: int, steps: int) -> LanguageModel:
        teacher = self.teachers["train"]
        model = new_model(self.sizes.student, self.vocabulary, self.sizes, seed)

        def value(chosen: torch.Tensor) -> torch.Tensor:
            return objective.value(model(teacher.windows.inputs[chosen]), Batch(teacher, chosen))

        train(model, value, self.sizes, teacher.windows, steps, rate, seed, decay=0.01)
        return model

    def choose_steps(self) -> None:
        """As many as fit into the time, from the times of a few of each loss; kernels are compiled on the way."""
        students, more = len(self.sizes.rates) + len(self.sizes.seeds), min(40, self.sizes.steps)
        each, fixed = 0.0, 0.0
        for objective in [] if self.late() else self.objectives:
            _, short, long = (self.try_steps(objective, steps) for steps in (2, 2, 2 + more))
            step = max(1e-5, (long - short) / more)
            each, fixed = each + step, fixed + short
            self.say(f"{1e3 * step:6.2f} ms a step: {objective.name}: {objective.note}")
        left = 0.93 * (self.options.deadline - self.elapsed())
        affordable = int((left / students - fixed) / max(each, 1e-5))
        self.steps = max(min(10, self.sizes.steps), min(self.sizes.steps, affordable - affordable % 50))
        self.say(f"{self.steps} steps for each of {students * len(self.objectives)} students")

    def try_steps(self, objective: Objective, steps: int) -> float:
        """Seconds to train and judge a student."""
        begin = time.monotonic()
        model = self.train_student(objective, self.sizes.rates[0], TUNING_SEED, steps)
        self.own_value(objective, model)
        evaluated(model, self.teachers["valid"], self.sizes)
        return time.monotonic() - begin

    def own_value(self, objective: Objective, model: LanguageModel) -> float:
        """The loss that a student was trained with, on validation text."""
        teacher = self.teachers["valid"]
        inputs = teacher.windows.inputs
        model.eval()
        return mean_over(
            teacher.windows, self.sizes.batch, lambda some: objective.value(model(inputs[some]), Batch(teacher, some))
        )

    def run(self, objective: Objective, rate: float, seed: int) -> Run:
        begin = time.monotonic()
        model = self.train_student(objective, rate, seed, self.steps)
        wait_for_device()
        seconds = time.monotonic() - begin
        own = self.own_value(objective, model)
        # nothing of the test text is looked at while rates are chosen
        judged = self.teachers["valid" if seed == TUNING_SEED else "test"]
        measures = evaluated(model, judged, self.sizes)
        self.say(
            f"{objective.name}, seed {seed}, rate {rate:g}: {own:.4f}, perplexity {measures['perplexity']:.2f}, "
            f"top-1 {measures['top1']:.1f} %, Kendall {measures['kendall']:.3f}, {seconds:.1f} s"
        )
        return Run(objective.name, seed, rate, seconds, own if math.isfinite(own) else None, measures)

    def late(self) -> bool:
        return self.elapsed() > self.options.deadline

    def tune(self) -> dict[str, float]:
        """The rate of each loss with the least value of that loss on validation text."""
        for objective in self.objectives:
            for rate in self.sizes.rates:
                if not self.late():
                    self.tuning.append(self.run(objective, rate, TUNING_SEED))
                    self.save()
        found: dict[str, Run] = {}
        for run in self.tuning:
            best = found.get(run.loss)
            if run.own is not None and (best is None or best.own is None or run.own < best.own):
                found[run.loss] = run
        return {loss: run.rate for loss, run in found.items()}

    def judge(self, rates: dict[str, float]) -> None:
        """Seed by seed, so that every loss has the same seeds when time ends."""
        for seed, objective in itertools.product(self.sizes.seeds, self.objectives):
            if objective.name in rates and not self.late():
                self.runs.append(self.run(objective, rates[objective.name], seed))
                self.save()

    def report(self) -> dict[str, Any]:
        return {
            **self.facts,
            "steps": self.steps,
            "tuning": [asdict(run) for run in self.tuning],
            "runs": [asdict(run) for run in self.runs],
            "seconds": self.elapsed(),
        }

    def save(self) -> None:
        self.options.out.write_text(json.dumps(self.report(), indent=1))


def wait_for_device() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


# --------------------------------------------------------------------------------------------------------------- tables

#: 97.5 % quantiles of Student's t, by degrees of freedom
QUANTILES = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the length of its 95 % interval."""
    if len(values) < 2:
        return values[0], math.nan
    return statistics.mean(values), QUANTILES[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


def by_loss(runs: list[Run], losses: list[str]) -> dict[str, list[Run]]:
    """The runs of seeds that every loss has."""
    found = {loss: {run.seed: run for run in runs if run.loss == loss} for loss in losses}
    found = {loss: of_seed for loss, of_seed in found.items() if of_seed}
    common = sorted(set.intersection(*(set(of_seed) for of_seed in found.values()))) if found else []
    return {loss: [of_seed[seed] for seed in common] for loss, of_seed in found.items()} if common else {}


def table(head: list[str], lines: list[list[str]], rule: str = "--:") -> str:
    """A table in Markdown; all but the first column follow the rule."""
    rules = [rule if i else "---" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rules, *lines])


def rate_cell(rate: float, rates: list[float]) -> str:
    """A rate at an end of the grid may be better beyond it."""
    return f"{'≤' if rate == min(rates) else '≥' if rate == max(rates) else ''}{rate:g}"


def means_table(found: dict[str, list[Run]], report: dict[str, Any]) -> str:
    teacher, steps, rates = report["teacher"]["test"], report["steps"], report["sizes"]["rates"]
    lines = [["the teacher itself", "", "", f"{teacher:.2f}", *[""] * (len(MEASURES) - 1)]]
    for loss, runs in found.items():
        speed = 1e3 * statistics.mean(run.seconds for run in runs) / steps
        means = [f"{statistics.mean(run.measures[name] for run in runs):.{digits}f}" for name, _, digits, _ in MEASURES]
        lines.append([loss, rate_cell(runs[0].rate, rates), f"{speed:.1f}", *means])
    return table(["loss", "rate", "ms a step", *titles()], lines)


def titles() -> list[str]:
    return [f"{title} {'↑' if up else '↓'}" for _, title, _, up in MEASURES]


def difference_cell(ours: list[Run], others: list[Run], name: str, digits: int, more_is_better: bool) -> str:
    """The mean difference of the same seeds; bold: surely better, italic: surely worse."""
    apart = [a.measures[name] - b.measures[name] for a, b in zip(ours, others, strict=True)]
    mean, half = interval(apart)
    if half != half:
        return f"{mean:+.{digits}f}"
    mark = "" if abs(mean) <= half else "**" if (mean > 0) == more_is_better else "*"
    return f"{mark}{mean:+.{digits}f} ± {half:.{digits}f}{mark}"


def differences_table(found: dict[str, list[Run]]) -> str:
    others = found[REFERENCE]
    lines = [
        [loss, *(difference_cell(runs, others, name, digits, up) for name, _, digits, up in MEASURES)]
        for loss, runs in found.items()
        if loss != REFERENCE
    ]
    return table([f"less {REFERENCE}", *titles()], lines)


def losses_table(notes: dict[str, str]) -> str:
    """Losses in full, with numbers as long as people read them."""
    short = {
        loss: re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.4g}", note) for loss, note in notes.items()
    }
    return table(["loss", "in full"], [[loss, note] for loss, note in short.items()], rule="---")


def setting(report: dict[str, Any], seeds: int) -> str:
    v, t, sizes, tokens = report["versions"], report["teacher"], report["sizes"], report["tokens"]
    big, small = (f"{x['layers']} layers of {x['width']}" for x in (sizes["teacher"], sizes["student"]))
    seen = report["steps"] * sizes["batch"] * sizes["context"] / 1e6
    return (
        f"{report['machine']}, {report['date']}, torch {v['torch']}, {report['seconds']:.0f} s in all. "
        f"{report['vocabulary']} token types; {tokens['train']}, {tokens['valid']} and {tokens['test']} tokens to "
        f"train, validate and test. Teacher: {big}, {t['parameters'] / 1e6:.1f} M numbers, best on validation text "
        f"after {t['step']} steps; perplexity {t['train']:.1f} on the text it was trained on (which students see "
        f"too), {t['test']:.2f} on test text. Students: {small}, {report['student_parameters'] / 1e6:.2f} M numbers, "
        f"{report['steps']} steps of {sizes['batch']} x {sizes['context']} tokens ({seen:.1f} M). Learning rates: the "
        f"best of {', '.join(f'{rate:g}' for rate in sizes['rates'])} for each loss by its own value on validation "
        f"text, with a seed of their own (≤, ≥: at an end of the grid). {seeds} seeds (start and order of "
        "batches); ±: 95 % intervals by Student's t over seeds. They do not cover other teachers or texts."
    )


def markdown(report: dict[str, Any]) -> str:
    """What docs/distillation.md shows."""
    found = by_loss([Run(**run) for run in report["runs"]], list(report["losses"]))
    if REFERENCE not in found:
        return "No seed was finished."
    seeds = len(found[REFERENCE])
    compared = (len(found) - 1) * len(MEASURES)
    parts = [
        setting(report, seeds),
        "### Means on test text", means_table(found, report),
        f"### Differences to {REFERENCE}, seed by seed",
        f"Bold: better, italic: worse, where the interval leaves out 0. Of {compared} comparisons without any "
        f"difference about {max(1, round(0.05 * compared))} would be marked by chance.",
        differences_table(found),
        "### The losses", losses_table(report["losses"]),
    ]  # fmt: skip
    missing = [loss for loss in report["losses"] if loss not in found]
    if missing:
        parts.append(f"Not finished: {', '.join(missing)}.")
    return "\n\n".join(parts)


# ----------------------------------------------------------------------------------------------------------------- main


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a folder of .txt or .txt.gz files")
    parser.add_argument("--out", type=Path, default=Path("distillation_study.json"), help="where the JSON goes")
    parser.add_argument("--deadline", type=float, default=10800.0, help="seconds after which no student begins")
    parser.add_argument("--quick", action="store_true", help="tiny models and few steps, to see that all works")
    parser.add_argument("--markdown", type=Path, help="print the tables of the documentation from a JSON")
    parser.add_argument("--into", type=Path, help="with --markdown: write them between the marks of this page")
    options = parser.parse_args(given)
    if not (options.corpus or options.markdown):
        parser.error("--corpus or --markdown must be given")
    return options


def main(given: list[str] | None = None) -> None:
    start = time.monotonic()
    options = arguments(given)
    if options.markdown:
        text = markdown(json.loads(options.markdown.read_text()))
        if options.into:
            options.into.write_text(between_marks(options.into.read_text(), "study", text))
        else:
            print(text)
        return
    if DEVICE.type == "cuda":
        torch.set_float32_matmul_precision("high")
    usual = Sizes() if DEVICE.type == "cuda" else ON_CPU
    study = Study(options, QUICK if options.quick else usual, start)
    study.choose_steps()
    study.judge(study.tune())
    study.save()
    print(f"\n{markdown(study.report())}\n\nafter {study.elapsed():.0f} s")


if __name__ == "__main__":
    main()
