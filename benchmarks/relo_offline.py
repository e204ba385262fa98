"""ReLo on fixed DoorKey 5x5 data: as in VLM-RB, with one change each, and against uniform replay.

    python -m benchmarks.relo_offline [--seeds 5] [--updates 7500] [--output results/measured/relo_offline.json]

The data are fixed, so replays differ only in sampling and weights. 20,000 transitions come from a policy that takes the
solver's action with probability 0.1 and a random one otherwise; every seed of every variant learns from the same data,
with the batch size, learning rate and target network of the quick profile. The network has two layers of 128 on one-hot
codes of the grid's squares; an update costs a sixth of one with the suite's convolutions. A goal transition has no
bootstrapped target, so its value is known: the data's mean reward for its observation and action. Other values come
from value iteration on the data, which contain nearly all states of 5x5. Errors are |Q(s, a) − value|, averaged over
goal transitions and over all transitions.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array, Batch, Moment, Observations, Span
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names

SUITE, TASK, PROFILE = "minigrid_doorkey", "5x5", "quick"
TRANSITIONS, SOLVED = 20_000, 0.1
"""Number of transitions in the data, and the share of the solver's actions."""
HIDDEN = (128, 128)
LOOKS = 15
"""Measurements of the errors during learning."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform": ("uer", {}),
    "relo": ("relo", {}),
    "relo, epsilon=0.01": ("relo", {"replay.epsilon": 1e-2}),
    "relo, difference=loss": ("relo", {"replay.difference": "loss"}),
    "relo, importance_weights=false": ("relo", {"replay.importance_weights": False}),
}


class Data(NamedTuple):
    """N transitions and their values."""

    observation: Array  # float32 [N, D]: one-hot codes of the grid squares that vary
    action: Array  # int64 [N]
    reward: Array  # float32 [N]
    next_observation: Array
    terminated: Array  # bool [N]
    value: Array  # float64 [N]

    @property
    def goal(self) -> Array:
        """Return which transitions reach the goal, bool [N]."""
        return np.asarray(self.terminated & (self.reward > 0))

    def batch(self, index: Array, weight: Array | None) -> Batch:
        """Return a batch of transitions [S, B]."""
        return Batch(
            self.observation[index], self.action[index], self.reward[index], self.next_observation[index],
            self.terminated[index], weight,
        )  # fmt: skip


def collected(count: int, solved: float, discount: float, seed: int = 0) -> Data:
    """Collect episodes of DoorKey 5x5 on new layouts, with a share `solved` of the solver's actions."""
    from guidebench.suites.minigrid_doorkey.task import DoorKey

    task, rng = DoorKey(5), np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    observation = task.reset(seed)
    while len(rows) < count:
        action = task.expert() if rng.random() < solved else int(rng.integers(5))
        step = task.step(action)
        rows.append((observation, action, step.reward, step.observation, bool(step.terminated)))
        observation = task.reset() if step.terminated or step.truncated else step.observation
    observation_, action, reward, following, terminated = (np.array(column) for column in zip(*rows, strict=True))
    value = worth(observation_, action, reward, following, terminated, discount)
    observation_, following = np.split(one_hot(np.concatenate([observation_, following])), 2)
    return Data(observation_, action, reward.astype(np.float32), following, terminated, value)


def one_hot(observations: Array) -> Array:
    """Encode codes uint8 [n, …] as one-hot float32 [n, D], for the entries that vary."""
    flat = observations.reshape(len(observations), -1)
    return np.concatenate(
        [(column[:, None] == codes).astype(np.float32) for column in flat.T if len(codes := np.unique(column)) > 1], 1
    )


def worth(
    observation: Array, action: Array, reward: Array, following: Array, terminated: Array, discount: float
) -> Array:
    """Return Q*(s, a) [N] of the empirical decision process, by value iteration: mean reward and empirical transition
    frequencies per state and action, with only the actions taken in the data."""
    states, number = np.unique(
        np.concatenate([observation, following]).reshape(2 * len(action), -1), axis=0, return_inverse=True
    )
    state, next_state = number.reshape(2, -1)
    actions = int(action.max()) + 1
    pair = state * actions + action
    visits = np.bincount(pair, minlength=len(states) * actions)
    taken = visits > 0
    mean = np.bincount(pair, reward, len(visits))[taken] / visits[taken]
    quality = np.full(len(visits), -np.inf)
    quality[taken] = 0.0
    while True:
        best = quality.reshape(-1, actions).max(axis=1)
        best = np.where(np.isfinite(best), best, 0.0)  # a final state of the data without an action
        follow = np.bincount(pair, best[next_state] * ~terminated, len(visits))[taken] / visits[taken]
        before, quality[taken] = quality[taken], mean + discount * follow
        if np.abs(quality[taken] - before).max() < 1e-9:
            return np.asarray(quality[pair])


def learnt(data: Data, replay: str, settings: dict[str, Any], seeds: int, updates: int) -> dict[str, Any]:
    """Train one variant; return the errors of each seed during learning, and statistics of the replay's samples."""
    names = Names(SUITE, TASK, replay, PROFILE, roles.parts_of(SUITE, TASK, replay, PROFILE, {}))
    every = int(config.base_settings(names)["learner.train_every"].value)
    overrides = {"training.steps": every * updates, "training.capacity": len(data.action), "learner.hidden": HIDDEN}
    cell = config.resolve(names, overrides | settings, {})
    goal, total = data.goal, len(data.action)
    drawn = np.zeros((seeds, total), np.int64)
    looks = []
    with tempfile.TemporaryDirectory() as directory:
        build = make_build(cell, range(seeds), "cpu", [Path(directory) / str(seed) for seed in range(seeds)])
        observation_space = Observations(data.observation.shape[1:], "float32")
        build = dataclasses.replace(build, observations=observation_space, slots=total)
        learner, sampler = build.parts["learner"].spawn(build), build.parts["replay"].spawn(build)
        for index in range(total):
            sampler.added(index, Span(0, index + 1, total), None)
        rngs, active = [streams.sample for streams in build.streams], np.ones(seeds, bool)
        live = Span(0, total, total)
        for update in range(1, updates + 1):
            step = every * update
            draw = sampler.draw(learner.batch_size, Moment(step, live, rngs, data.observation[:seeds], None))
            update_result = learner.update(data.batch(draw.index, draw.weight), active, step, sampler.wants_reducible)
            sampler.feedback(draw.index, update_result)
            for row in range(seeds):
                np.add.at(drawn[row], draw.index[row], 1)
            if update % max(1, updates // LOOKS) == 0 or update == updates:
                looks.append({"updates": update, **errors(learner, data, seeds), **floor(sampler, step)})
    return {
        "replay": replay,
        "settings": settings,
        "curve": looks,
        "goal_error": looks[-1]["goal_error"],
        "error": looks[-1]["error"],
        "floor_share": looks[-1].get("floor_share"),
        "never_drawn": (drawn == 0).mean(1).tolist(),
        "goal_draws_to_uniform": ((drawn[:, goal].sum(1) / drawn.sum(1)) / goal.mean()).tolist(),
    }


def errors(learner: Any, data: Data, seeds: int) -> dict[str, list[float]]:
    """Return the mean |Q(s, a) − value| of each seed, over goal transitions and over all; equal transitions are
    evaluated once."""
    key = np.concatenate([data.observation, data.action[:, None]], 1)
    _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
    error_means: dict[str, list[float]] = {"goal_error": [], "error": []}
    for row in range(seeds):
        values = learner._values(data.observation[first], np.full(len(first), row))
        off = np.abs(values[np.arange(len(first)), data.action[first]][number.ravel()] - data.value)
        error_means["goal_error"].append(float(off[data.goal].mean()))
        error_means["error"].append(float(off.mean()))
    return error_means


def floor(sampler: Any, step: int) -> dict[str, list[float]]:
    """Return for each seed the share of transitions at the smallest possible priority; empty without priorities."""
    sampler_metrics = sampler.metrics(step)
    return (
        {"floor_share": sampler_metrics["replay/floor_share"].tolist()}
        if "replay/floor_share" in sampler_metrics
        else {}
    )


def measure(seeds: int, updates: int, transitions: int, variants: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results so far, after each variant."""
    import torch

    torch.set_num_threads(1)
    discount = float(
        config.base_settings(Names(SUITE, TASK, "uer", PROFILE, roles.parts_of(SUITE, TASK, "uer", PROFILE, {})))[
            "learner.discount"
        ].value
    )
    data = collected(transitions, SOLVED, discount)
    states = len(np.unique(data.observation, axis=0))
    rows: list[dict[str, Any]] = []
    for name, (replay, settings) in variants.items():
        started = time.perf_counter()
        row = {"variant": name, **learnt(data, replay, settings, seeds, updates)}
        rows.append({**row, "seconds": time.perf_counter() - started})
        yield {
            "suite": SUITE, "task": TASK, "profile": PROFILE, "seeds": seeds, "updates": updates,
            "transitions": len(data.action), "states": states, "goal_transitions": int(data.goal.sum()),
            "solver_share": SOLVED, "rows": rows,
        }  # fmt: skip


def show(row: dict[str, Any]) -> None:
    """Print one line of the table as soon as it is known."""

    def cell_text(values: list[float] | None) -> str:
        return "" if values is None else f"{np.mean(values):.3f} [{min(values):.3f}, {max(values):.3f}]"

    print(
        f"{row['variant']:46}{cell_text(row['goal_error']):22}{cell_text(row['error']):22}{cell_text(row['floor_share']):22}"
        f"{cell_text(row['never_drawn']):22}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=7_500, help="gradient steps, as many as in a quick run")
    parser.add_argument("--transitions", type=int, default=TRANSITIONS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--output", type=Path, help="write JSON there, updated after each variant")
    options = parser.parse_args()
    print(f"{'':46}{'error at the goal':22}{'error':22}{'at the floor':22}{'never drawn':22}")
    chosen = {name: VARIANTS[name] for name in options.variants}
    for progress in measure(options.seeds, options.updates, options.transitions, chosen):
        show(progress["rows"][-1])
        if options.output:
            options.output.write_text(json.dumps(progress) + "\n")


if __name__ == "__main__":
    main()
