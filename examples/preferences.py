"""Preference tuning: a small policy learns from pairs of answers, one of which was preferred.

Training ends when the policy is two nats away from the reference, so that all losses pay the same price. Rewards are
known here, and the table says what they bought: the mean reward of the policy's answers, how often it puts two new
answers into the right order, and what became of the chosen answers, whose own probability may fall while margins grow.
DPO, IPO and the hinge against a capped sinh link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from experiment import Measure, Results, Scores, run

from selmatch.alignment import PreferenceLoss, displacement, dpo, hinge, ipo, log_ratio_margins, selective

PROMPT, ANSWER, ANSWERS, HIDDEN = 6, 8, 60, 24
#: prompts of a set, pairs for each prompt, and the share of preferences that were noted down the wrong way round
PROMPTS, PAIRS, SWAPPED = 150, 4, 0.1
MEASURES = (
    Measure("reward"),
    Measure("right order"),
    Measure("log-ratio of chosen"),
    Measure("chosen fell", higher_is_better=False),
)
USUAL = ("DPO", "IPO", "hinge")
BETAS = (0.03, 0.1, 0.3)
#: the divergence of the policy from the reference, in nats, at which training ends
DISTANCE = 2.0


class Policy(torch.nn.Module):
    """Log-probabilities of all answers to prompts: a network scores a prompt together with an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.prompt, self.answer = torch.nn.Linear(PROMPT, HIDDEN), torch.nn.Linear(ANSWER, HIDDEN)
        self.score = torch.nn.Linear(HIDDEN, 1)

    def forward(self, prompts: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.prompt(prompts)[:, None, :] + self.answer(answers))
        return torch.log_softmax(self.score(hidden)[..., 0], dim=-1)


@dataclass(frozen=True)
class World:
    """Answers, what they are worth, and the reference policy."""

    answers: torch.Tensor
    taste: Policy
    reference: Policy

    def rewards(self, prompts: torch.Tensor) -> torch.Tensor:
        """A network of the policy's kind, with mean 0 and deviation 1 over the answers to a prompt."""
        scores = self.taste(prompts, self.answers)
        return (scores - scores.mean(dim=-1, keepdim=True)) / scores.std(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Preferences:
    """Prompts with pairs of answers, and the log-probabilities that the reference gives to all answers."""

    prompts: torch.Tensor
    chosen: torch.Tensor
    rejected: torch.Tensor
    reference: torch.Tensor

    def pairs(self, log_probabilities: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the chosen and of the rejected answers."""
        return log_probabilities.gather(1, self.chosen), log_probabilities.gather(1, self.rejected)

    def distance(self, log_probabilities: torch.Tensor) -> torch.Tensor:
        """The mean divergence of a policy from the reference."""
        own = log_probabilities.detach()
        return (own.exp() * (own - self.reference)).sum(dim=-1).mean()

    def margins(self, log_probabilities: torch.Tensor, beta: float) -> torch.Tensor:
        return log_ratio_margins(*self.pairs(log_probabilities), *self.pairs(self.reference), beta=beta)


def make_world() -> World:
    taste, reference = Policy(), Policy()
    with torch.no_grad():
        for weight in (taste.answer.weight, reference.answer.weight):
            weight.mul_(3.0)
        reference.score.weight.mul_(4.0)
    return World(torch.randn(ANSWERS, ANSWER), taste, reference)


@torch.no_grad()
def make_preferences(world: World, count: int) -> Preferences:
    """Two answers of the reference to each prompt, several times; the better one is chosen with Bradley and Terry."""
    prompts = torch.randn(count, PROMPT)
    reference, rewards = world.reference(prompts, world.answers), world.rewards(prompts)
    drawn = torch.stack([torch.multinomial(reference.exp(), 2) for _ in range(PAIRS)], dim=1)
    first, second = drawn.unbind(dim=-1)
    lead = 2.0 * (rewards.gather(1, first) - rewards.gather(1, second))
    right = torch.rand(lead.shape) < torch.sigmoid(lead)
    right = right ^ (torch.rand(lead.shape) < SWAPPED)
    return Preferences(prompts, torch.where(right, first, second), torch.where(right, second, first), reference)


@dataclass(frozen=True)
class Setting:
    """A loss, and the beta of the margins it judges."""

    loss: PreferenceLoss
    beta: float


SETTINGS = {
    "DPO": [Setting(dpo(), beta) for beta in BETAS],
    "IPO": [Setting(ipo(beta), 1.0) for beta in BETAS],
    "hinge": [Setting(hinge(), beta) for beta in BETAS],
    "selective": [Setting(selective(), beta) for beta in BETAS],
}


def tuned(world: World, pairs: Preferences, setting: Setting, steps: int) -> Policy:
    """The reference, trained on all pairs until it is as far from where it was as it may go."""
    policy = Policy()
    policy.load_state_dict(world.reference.state_dict())
    adam = torch.optim.Adam(policy.parameters(), lr=0.005)
    for _ in range(steps):
        own = policy(pairs.prompts, world.answers)
        if pairs.distance(own) >= DISTANCE:
            break
        adam.zero_grad()
        setting.loss(pairs.margins(own, setting.beta)).backward()
        adam.step()
    return policy


@torch.no_grad()
def scores(world: World, policy: Policy, pairs: Preferences) -> dict[str, float]:
    """What the table shows; all answers are known, so that nothing has to be sampled."""
    own = policy(pairs.prompts, world.answers)
    rewards = world.rewards(pairs.prompts)
    margins = pairs.margins(own, 1.0)
    better, worse = pairs.pairs(rewards)
    seen = displacement(*(x for both in zip(pairs.pairs(own), pairs.pairs(pairs.reference), strict=True) for x in both))
    return {
        "reward": float((own.exp() * rewards).sum(dim=-1).mean()),
        "right order": float(((margins > 0.0) == (better > worse)).float().mean()),
        "log-ratio of chosen": float(seen.chosen_log_ratio),
        "chosen fell": float(seen.chosen_fell),
    }


def study(seed: int, quick: bool) -> Scores:
    """All losses in one world, each with the beta that gives the best reward on validation prompts."""
    torch.manual_seed(seed)
    world = make_world()
    count, steps = (30, 10) if quick else (PROMPTS, 200)
    train, valid, test = (make_preferences(world, count) for _ in range(3))
    results = {}
    for name, settings in SETTINGS.items():
        policies = [tuned(world, train, setting, steps) for setting in settings]
        reached = [scores(world, policy, valid)["reward"] for policy in policies]
        results[name] = scores(world, policies[int(np.argmax(reached))], test)
    return results


def main(argv: Sequence[str] | None = None) -> Results:
    torch.set_num_threads(1)  # threads cost models as small as these more than they give
    return run(__doc__, study, MEASURES, USUAL, seeds=10, argv=argv)


if __name__ == "__main__":
    main()
