"""Gradient steps per second of DQN and IQN on one CPU thread, and of DQN against the same update in plain PyTorch.

    python benchmarks/learner_update.py [--seconds 2]

Grid observations use batch 128 and a double target. The MLP is DQN with CartPole's spaces, widths (256, 256) and batch
64, compared with `torch.nn`, `torch.optim.Adam` and `clip_grad_norm_`; the two alternate, so that a change in the
machine's load affects both.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from guidebench.baselines.learners.dqn import Dqn
from guidebench.baselines.learners.iqn import Iqn
from guidebench.harness.interfaces import Actions, Batch, Build, Observations
from guidebench.harness.streams import Streams

CATEGORIES = (11, 6, 4)
VECTOR = Observations((4,), "float32")


def build(observations: Observations, actions: int, seeds: int, device: str = "cpu") -> Build:
    return Build(
        seeds=tuple(range(seeds)),
        observations=observations,
        actions=Actions(actions),
        steps=100_000,
        horizon=100,
        events=(),
        device=device,
        streams=[Streams(seed) for seed in range(seeds)],
        directories=tuple(Path() for _ in range(seeds)),
        capacity=0,
        slots=0,
    )


def random_batch(observations: Observations, actions: int, seeds: int, size: int) -> Batch:
    rng = np.random.default_rng(0)
    shape = (seeds, size, *observations.shape)
    if observations.categories:
        observation_pair = rng.integers(0, observations.categories, (2, *shape)).astype(observations.dtype)
    else:
        observation_pair = rng.standard_normal((2, *shape)).astype(observations.dtype)
    return Batch(
        observation=observation_pair[0],
        action=rng.integers(actions, size=(seeds, size)),
        reward=rng.random((seeds, size), np.float32),
        next_observation=observation_pair[1],
        terminated=rng.random((seeds, size)) < 0.1,
        weight=None,
    )


def timed(call: Callable[[], object], seconds: float) -> float:
    """Return the seconds of the fastest call; slower calls also measure other load on the machine."""
    for _ in range(3):
        call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def learner_update(config: Dqn | Iqn, observations: Observations, actions: int, seeds: int) -> Callable[[], object]:
    learner = config.spawn(build(observations, actions, seeds))
    batch = random_batch(observations, actions, seeds, config.batch_size)
    active = np.ones(seeds, bool)
    return lambda: learner.update(batch, active, 1)


def greedy(config: Dqn | Iqn, observations: Observations, actions: int, seeds: int, count: int) -> Callable[[], object]:
    """Return a function that chooses greedy actions for `count` observations of each seed."""
    learner = config.spawn(build(observations, actions, seeds))
    states = random_batch(observations, actions, seeds, count).observation.reshape(-1, *observations.shape)
    rows = np.repeat(np.arange(seeds), count)
    return lambda: learner.act(states, rows, None, 0)


def plain_update(config: Dqn) -> Callable[[], object]:
    """Return the update of one seed in idiomatic PyTorch modules, on the same batch."""

    def network() -> torch.nn.Module:
        widths = (4, *config.hidden)
        layers: list[torch.nn.Module] = []
        for into, out in itertools.pairwise(widths):
            layers += [torch.nn.Linear(into, out), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 2))

    online, target = network(), network()
    optimiser = torch.optim.Adam(online.parameters(), lr=config.lr)
    batch = random_batch(VECTOR, 2, 1, config.batch_size)

    def update() -> None:
        columns = (batch.observation, batch.action, batch.reward, batch.next_observation, batch.terminated)
        observation, action, reward, next_observation, terminated = (torch.as_tensor(column[0]) for column in columns)
        with torch.no_grad():
            best = target(next_observation).gather(1, online(next_observation).argmax(1, keepdim=True)).squeeze(1)
            td_target = reward + config.discount * (1 - terminated.float()) * best
        chosen = online(observation).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = torch.nn.functional.huber_loss(chosen, td_target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(online.parameters(), config.max_grad_norm)
        optimiser.step()
        (chosen.detach() - td_target).numpy()

    return update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each measurement")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    print("| learner | grid | channels | seeds | updates/s | seed-updates/s | ms to act on 1 | ms to act on 32 |")
    print("|---|---|---|---|---|---|---|---|")
    for learner, size, channels, seeds in itertools.product((Dqn, Iqn), (5, 8, 16), (32, 64), (1, 3)):
        observations = Observations((size, size, 3), "uint8", CATEGORIES)
        config = learner(channels=channels)
        rate = 1 / timed(learner_update(config, observations, 5, seeds), seconds)
        acting = [1e3 * timed(greedy(config, observations, 5, seeds, count), seconds / 4) for count in (1, 32)]
        print(
            f"| {learner.__name__} | {size} | {channels} | {seeds} | {rate:.1f} | {rate * seeds:.1f} "
            f"| {acting[0]:.2f} | {acting[1]:.2f} |"
        )
    vector = Dqn(hidden=(256, 256), batch_size=64)
    print("\n| MLP (256, 256), batch 64 | ms an update | ms per seed |\n|---|---|---|")
    rivals = {f"this, seeds {seeds}": (learner_update(vector, VECTOR, 2, seeds), seeds) for seeds in (1, 3, 5)}
    rivals["plain PyTorch"] = (plain_update(vector), 1)
    rounds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(5):
        for name, (update, _) in rivals.items():
            rounds[name].append(timed(update, seconds / 5))
    for name, (_, seeds) in rivals.items():
        spent = 1e3 * float(np.median(rounds[name]))
        print(f"| {name} | {spent:.3f} | {spent / seeds:.3f} |")


if __name__ == "__main__":
    main()
