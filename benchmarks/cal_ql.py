"""Gradient steps of Cal-QL per second beside the same step as a plain loop in PyTorch, on one CPU thread.

    python -m benchmarks.cal_ql [--observed 39] [--actions 4] [--hidden 256 256] [--batch 256] [--image 48]

Both have Cal-QL's default settings, the same networks and the same batch; the loop is what its released code does, in
torch.nn, torch.distributions and torch.optim: the policy sees each state ten times, the critics are called for each
kind of action. `--image` adds a step on images of this side, with the encoder of images before actor and critics. The
two take turns; times are of the processor, so that other load on the machine counts little, and the ratio is the median
over rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from benchmarks.table import Line
from guidebench.baselines.encoders.image import layers
from guidebench.baselines.learners.actor_critic import SIZES
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.harness.interfaces import Actions, Batch, Build, Observations
from guidebench.harness.streams import Streams

Update = Callable[[], object]


def batch_of(space: Observations, actions: int, size: int) -> Batch:
    """Return random transitions [1, size]."""
    rng = np.random.default_rng(0)

    def observations() -> Any:
        shape = (1, size, *space.shape)
        return rng.integers(0, 256, shape).astype(np.uint8) if space.dtype == "uint8" else normal(*space.shape)

    def normal(*shape: int) -> Any:
        return rng.standard_normal((1, size, *shape), np.float32)

    return Batch(
        observation=observations(),
        action=np.tanh(normal(actions)),
        reward=normal(),
        next_observation=observations(),
        terminated=rng.random((1, size)) < 0.02,
        weight=None,
        columns={"return": normal()},
    )


def our_update(config: CalQl, space: Observations, batch: Batch) -> Update:
    """Return a gradient step of this project's learner."""
    build = Build(
        seeds=(0,), observations=space, actions=Actions(shape=batch.action.shape[2:]), steps=1000, horizon=100,
        events=(), device="cpu", streams=[Streams(0)], directories=(Path(),), capacity=0, slots=0,
    )  # fmt: skip
    learner, active, step = config.spawn(build), np.ones(1, bool), iter(range(1000, 10**9))
    return lambda: learner.update(batch, active, next(step))


def perceptron(into: int, hidden: tuple[int, ...], out: int) -> nn.Module:
    widths, made = (into, *hidden), []
    for first, second in zip(widths, hidden, strict=False):
        made += [nn.Linear(first, second), nn.ReLU()]
    return nn.Sequential(*made, nn.Linear(widths[-1], out))


class Convolutions(nn.Module):
    """The encoder of images in torch.nn."""

    def __init__(self, space: Observations) -> None:
        super().__init__()
        height, width, channels = space.shape
        made: list[nn.Module] = []
        for layer in layers(space):
            made += [nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride), nn.ReLU()]
            height, width = ((side - layer.kernel) // layer.stride + 1 for side in (height, width))
            channels = layer.channels
        features = SIZES.features
        self.layers = nn.Sequential(*made, nn.Flatten(), nn.Linear(height * width * channels, features))
        self.norm = nn.LayerNorm(features)

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(self.norm(self.layers(images.permute(0, 3, 1, 2).float() / 255)))


class Plain:
    """Cal-QL as a loop over one seed's batches."""

    def __init__(self, config: CalQl, space: Observations, actions: int) -> None:
        image = len(space.shape) == 3
        width = SIZES.features if image else space.shape[0]
        self.config, self.actions = config, actions
        self.encoder: nn.Module = Convolutions(space) if image else nn.Identity()
        self.target_encoder: nn.Module = Convolutions(space) if image else nn.Identity()
        self.policy = perceptron(width, config.hidden, 2 * actions)
        self.critics = nn.ModuleList(perceptron(width + actions, config.hidden, 1) for _ in range(2))
        self.targets = nn.ModuleList(perceptron(width + actions, config.hidden, 1) for _ in range(2))
        self.targets.load_state_dict(self.critics.state_dict())
        self.target_encoder.load_state_dict(self.encoder.state_dict())
        self.log_alpha = torch.zeros((), requires_grad=True)
        trained = [*self.critics.parameters(), *self.encoder.parameters()]
        self.critic_optimiser = torch.optim.Adam(trained, lr=config.critic_lr)
        self.actor_optimiser = torch.optim.Adam(self.policy.parameters(), lr=config.actor_lr)
        self.alpha_optimiser = torch.optim.Adam([self.log_alpha], lr=config.alpha_lr)

    def drawn(self, features: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.policy(features).chunk(2, -1)
        policy = TransformedDistribution(
            Normal(mean, log_std.clamp(-20, 2).exp(), validate_args=False), TanhTransform(cache_size=1),
            validate_args=False,
        )  # fmt: skip
        action = policy.rsample()
        return action, policy.log_prob(action).sum(-1)

    def values(self, critics: nn.ModuleList, features: Tensor, action: Tensor) -> list[Tensor]:
        if action.dim() == 3:
            features = features.unsqueeze(1).expand(-1, action.shape[1], -1)
        return [critic(torch.cat([features, action], -1)).squeeze(-1) for critic in critics]

    def update(self, batch: Batch) -> float:
        """Take one gradient step of critics, actor, temperature and targets."""
        config, count = self.config, self.config.cql_actions
        columns = (batch.observation, batch.action, batch.reward, batch.next_observation, batch.terminated)
        observation, action, reward, following, terminated = (torch.as_tensor(column[0]) for column in columns)
        returns = torch.as_tensor(batch.columns["return"][0]).unsqueeze(1)
        features, next_features = self.encoder(observation), self.encoder(following)

        def repeated(of: Tensor) -> Tensor:
            return of.unsqueeze(1).expand(-1, count, -1)

        with torch.no_grad():
            next_actions, _ = self.drawn(repeated(next_features))
            target = torch.min(*self.values(self.targets, self.target_encoder(following), next_actions)).max(1).values
            td_target = reward + config.discount * (1 - terminated.float()) * target
            random = 2 * torch.rand(len(reward), count, self.actions) - 1
            own_actions, own_log = self.drawn(repeated(features))
            next_actions, next_log = self.drawn(repeated(next_features))
        loss = torch.zeros(())
        uniform, policy_values = (
            self.values(self.critics, features, random),
            self.values(self.critics, features, own_actions),
        )
        coming = self.values(self.critics, features, next_actions)
        for number, q in enumerate(self.values(self.critics, features, action)):
            every = [
                uniform[number] - self.actions * math.log(0.5),
                torch.maximum(coming[number], returns) - next_log,
                torch.maximum(policy_values[number], returns) - own_log,
            ]
            gap = torch.cat(every, 1).logsumexp(1) - q
            loss = loss + F.mse_loss(q, td_target) + config.cql_weight * gap.mean()
        self.critic_optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.critic_optimiser.step()

        features = self.encoder(observation).detach()
        action, log_probability = self.drawn(features)
        value = torch.min(*self.values(self.critics, features, action))
        actor_loss = (self.log_alpha.exp().detach() * log_probability - value).mean()
        self.actor_optimiser.zero_grad()
        actor_loss.backward()  # type: ignore[no-untyped-call]
        self.actor_optimiser.step()
        alpha_loss = -self.log_alpha * (log_probability.detach().mean() - self.actions)
        self.alpha_optimiser.zero_grad()
        alpha_loss.backward()  # type: ignore[no-untyped-call]
        self.alpha_optimiser.step()
        with torch.no_grad():
            pairs = [(self.targets, self.critics), (self.target_encoder, self.encoder)]
            for target_network, online in pairs:
                for old, new in zip(target_network.parameters(), online.parameters(), strict=True):
                    old.lerp_(new, config.target_rate)
        return float(loss.detach())


def timed(update: Update, times: int) -> float:
    """Return the mean seconds of the processor in a step."""
    started = time.process_time()
    for _ in range(times):
        update()
    return (time.process_time() - started) / times


def row(name: str, config: CalQl, space: Observations, actions: int, rounds: int, turn: int) -> dict[str, Any]:
    """Return gradient steps per second of our learner and of `Plain`, and their ratio (median and extremes over
    rounds)."""
    batch = batch_of(space, actions, config.batch_size)
    plain = Plain(config, space, actions)
    rivals: list[Update] = [our_update(config, space, batch), lambda: plain.update(batch)]
    for rival in rivals:
        timed(rival, 2)
    taken = [[timed(rival, turn) for rival in rivals] for _ in range(rounds)]
    speedups = sorted(theirs / ours for ours, theirs in taken)
    return {
        "observations": name,
        "ours_per_second": 1 / statistics.median(ours for ours, _ in taken),
        "plain_per_second": 1 / statistics.median(theirs for _, theirs in taken),
        "ratio": statistics.median(speedups),
        "ratio_lowest": speedups[0],
        "ratio_highest": speedups[-1],
    }


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for row in figures["rows"]:
        rates = [f"{row[f'{who}_per_second']:.1f} updates/s" for who in ("ours", "plain")]
        yield Line(f"Cal-QL, {row['observations']}: plain PyTorch", *rates, row["ratio"], "1.2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observed", type=int, default=39, help="numbers in a vector (default %(default)s, MetaWorld)")
    parser.add_argument("--actions", type=int, default=4, help="dimensions of an action (default %(default)s)")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256], help="widths (default %(default)s)")
    parser.add_argument("--batch", type=int, default=256, help="transitions (default %(default)s)")
    parser.add_argument("--image", type=int, default=0, help="side of images in pixels; 0 measures none")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each (default %(default)s)")
    parser.add_argument("--turn", type=int, default=10, help="steps of a turn (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = CalQl(hidden=tuple(options.hidden), batch_size=options.batch, learning_starts=options.batch)
    spaces = {f"vector of {options.observed}": Observations((options.observed,), "float32")}
    if options.image:
        spaces[f"image of {options.image}"] = Observations((options.image, options.image, 3), "uint8")
    rows = [row(name, config, space, options.actions, options.rounds, options.turn) for name, space in spaces.items()]
    if options.json:
        print(json.dumps({"rows": rows, "batch": options.batch, "hidden": options.hidden, "actions": options.actions}))
        return
    print("| observations | ours per second | plain PyTorch | ratio |\n|---|---|---|---|")
    for table_row in rows:
        rates = f"{table_row['ours_per_second']:.1f} | {table_row['plain_per_second']:.1f}"
        spread = f"{table_row['ratio']:.2f} ({table_row['ratio_lowest']:.2f} to {table_row['ratio_highest']:.2f})"
        print(f"| {table_row['observations']} | {rates} | {spread} |")


if __name__ == "__main__":
    main()
