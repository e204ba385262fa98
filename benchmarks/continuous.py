"""SAC and TD3 against those of Stable-Baselines3, which run on PyTorch as ours do, and of SBX, which JAX compiles: same
networks, batch and updates per step, all on one core.

    python -m benchmarks.continuous [--learners sac td3] [--seeds 1 4]      updates and training steps per second
    python -m benchmarks.continuous --returns STUDY [--runs 5]              Stable-Baselines3's returns, into a study
    python -m benchmarks.continuous --suite metaworld_pbrl --task button-press --learners sac             on MetaWorld

Settings are the suite's: on Pendulum-v1 of `classic`, those of RL Baselines3 Zoo. An update is one gradient step of
critics, actor and, for SAC, the entropy coefficient on a fixed batch; the contenders alternate within one process. To
compare training, they alternate as processes (see benchmarks/turns.py). All step this project's task. With several
seeds trained together, rates count every seed's steps. `--device cuda` measures PyTorch's contenders on a GPU.

`--returns` trains Stable-Baselines3 and records ten greedy episodes every 1,000 steps with `guidebench.Recorder`.
Add our runs to the same study with

    bench run suite=classic task=Pendulum-v1 learner=sac,td3 method=uer profile=paper seeds=5 output=STUDY

and compare both with `bench report STUDY`. Both modes need the peers' environment:

    python -m venv peers && peers/bin/pip install -r benchmarks/peers.txt
    PYTHONPATH=. peers/bin/python -P -m benchmarks.continuous
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.cartpole import PEER, PEERS, after_each_step, on_one_core, peers_here, returns
from benchmarks.table import Line
from benchmarks.turns import Contender, Turns, cell_arguments, interleave, ratios, tell
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names

LEARNERS = ("sac", "td3")
GOALS = {"stable_baselines3": ("1.2", "1.4"), "sbx": ("1.05", "1.05")}
"""Library -> least speed relative to it, of one seed alone and of one among several."""
Update = Callable[[], object]


class SuiteTask(NamedTuple):
    """Suite and task of the benchmark."""

    suite: str = "classic"
    task: str = "Pendulum-v1"

    def cell(self, learner: str) -> dict[str, str]:
        return {**self._asdict(), "profile": "paper", "method": "uer", "learner": learner}

    def settings(self, learner: str) -> Mapping[str, Any]:
        """Return every setting of our cell."""
        parts = roles.parts_of(self.suite, self.task, "uer", "paper", {"learner": learner})
        names = Names(self.suite, self.task, "uer", "paper", parts)
        return {key: value.value for key, value in config.base_settings(names).items()}

    def environment(self) -> Any:
        """Return our task as a Gymnasium environment."""
        import gymnasium
        import numpy as np

        from guidebench.harness import registry

        suite = registry.get("suite", self.suite)()
        observations, actions = suite.spaces(self.task)
        task = suite.make(self.task)

        class Environment(gymnasium.Env):  # type: ignore[type-arg]
            observation_space = gymnasium.spaces.Box(-np.inf, np.inf, observations.shape, np.float32)
            action_space = gymnasium.spaces.Box(-1, 1, actions.shape, np.float32)

            def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
                return task.reset(seed), {}

            def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
                step = task.step(action)
                return step.observation, step.reward, step.terminated, step.truncated, {}

        return Environment()


def peer(
    suite_task: SuiteTask, learner: str, seed: int, device: str, library: str = PEER
) -> tuple[Any, dict[str, Any]]:
    """Return the learner of a library of `PEERS` with the suite's settings, and these settings under the library's
    names, which are those of Stable-Baselines3."""
    import numpy as np
    import torch
    from stable_baselines3.common.noise import NormalActionNoise

    algorithm = getattr(importlib.import_module(library), learner.upper())

    torch.set_num_threads(1)
    suite, environment = suite_task.settings(learner), suite_task.environment()
    settings = {
        "learning_rate": suite["learner.critic_lr"],
        "buffer_size": suite["training.capacity"],
        "learning_starts": suite["learner.learning_starts"],
        "batch_size": suite["learner.batch_size"],
        "tau": suite["learner.target_rate"],
        "gamma": suite["learner.discount"],
        "train_freq": 1,
        "gradient_steps": suite["learner.utd"],
    }
    hidden = list(suite["learner.hidden"])
    network = {"net_arch": hidden, "n_critics": suite["learner.ensemble"]}
    peer_settings = {**settings, **network, "steps": suite["training.steps"]}
    common = {**settings, "policy_kwargs": network, "seed": seed, "device": device}
    if learner == "sac":
        entropy = {
            "target_entropy": -suite["learner.target_entropy_scale"] * environment.action_space.shape[0],
            "ent_coef": f"auto_{suite['learner.alpha']}",
        }
        if library == PEER:  # SBX has no such setting and moves its targets in every update
            entropy["target_update_interval"] = suite["learner.target_frequency"]
        return algorithm("MlpPolicy", environment, **entropy, **common), {**peer_settings, **entropy}
    delays = {
        "policy_delay": suite["learner.policy_frequency"],
        "target_policy_noise": suite["learner.target_noise"],
        "target_noise_clip": suite["learner.noise_clip"],
    }
    deviation = suite["learner.exploration_noise"]
    size = environment.action_space.shape[0]
    noise = NormalActionNoise(np.zeros(size), np.full(size, deviation))
    return algorithm("MlpPolicy", environment, action_noise=noise, **delays, **common), {
        **peer_settings,
        **delays,
        "noise_std": deviation,
    }


def peer_update(suite_task: SuiteTask, learner: str, device: str, library: str) -> Update:
    """Return a function that makes a gradient step of the peer on a fixed batch."""
    model, settings = peer(suite_task, learner, 0, device, library)
    model.learn(settings["batch_size"])  # fills the buffer, without updates
    batch = model.replay_buffer.sample(settings["batch_size"])
    model.replay_buffer.sample = lambda *_, **__: batch
    return lambda: model.train(1, settings["batch_size"])


def our_update(task_names: SuiteTask, learner: str, seeds: int, device: str) -> Update:
    """Return a function that makes a gradient step of `seeds` learners together on a fixed batch."""
    return update_of(*our_learner(task_names, learner, seeds, device))


def our_learner(
    suite_task: SuiteTask, learner: str, seeds: int, device: str, overrides: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Any, Any]:
    """Return the learner of `seeds` seeds, with the suite's settings changed by `overrides`, and a random batch."""
    import numpy as np

    from guidebench.harness import registry, settings
    from guidebench.harness.interfaces import Batch, Build
    from guidebench.harness.streams import Streams

    suite, task = registry.get("suite", suite_task.suite)(), suite_task.task
    observations, actions = suite.spaces(task)
    cell_settings = {**suite_task.settings(learner), **overrides}
    values = {key.partition(".")[2]: value for key, value in cell_settings.items() if key[:8] == "learner."}
    configured = settings.build(registry.get("learner", learner), values, "learner")
    build = Build(
        seeds=tuple(range(seeds)), observations=observations, actions=actions, steps=20_000, horizon=200, events=(),
        device=device, streams=[Streams(seed) for seed in range(seeds)], capacity=0, slots=0,
        directories=tuple(Path() for _ in range(seeds)),
    )  # fmt: skip
    ours, rng, shape = configured.spawn(build), np.random.default_rng(0), (seeds, configured.batch_size)
    batch = Batch(
        observation=rng.standard_normal((*shape, *observations.shape), np.float32),
        action=rng.uniform(-1, 1, (*shape, *actions.shape)).astype(np.float32),
        reward=rng.standard_normal(shape, np.float32),
        next_observation=rng.standard_normal((*shape, *observations.shape), np.float32),
        terminated=np.zeros(shape, bool),
        weight=None,
    )
    return ours, batch


def update_of(learner: Any, batch: Any) -> Update:
    """Return a function that makes a gradient step of a learner on a batch. Every `utd` calls count as one environment
    step, so that the actor is updated in as many of them as in training."""
    import numpy as np

    config, active, taken = learner.config, np.ones(len(learner.seeds), bool), itertools.count()
    utd = getattr(config, "utd", 1)
    return lambda: learner.update(batch, active, config.learning_starts + next(taken) // utd)


def timed(call: Update, times: int, device: str) -> float:
    """Return the mean seconds per call."""
    import torch

    started = time.perf_counter()
    for _ in range(times):
        call()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / times


def updates(
    suite_task: SuiteTask,
    learner: str,
    seeds: Sequence[int],
    rounds: int,
    times: int,
    device: str,
    libraries: Sequence[str],
) -> list[dict[str, Any]]:
    """Return table rows of updates per second, one for each library and number of seeds; the contenders alternate."""
    import torch

    torch.set_num_threads(1)
    rivals = [
        *(peer_update(suite_task, learner, device, library) for library in libraries),
        *(our_update(suite_task, learner, count, device) for count in seeds),
    ]
    for rival in rivals:
        timed(rival, 20, device)
    taken: list[list[float]] = [[] for _ in rivals]
    for _ in range(rounds):
        for seconds, rival in zip(taken, rivals, strict=True):
            seconds.append(timed(rival, times, device))
    theirs, ours = taken[: len(libraries)], taken[len(libraries) :]
    return [
        row(learner, "updates", count, seconds, beside, library)
        for library, beside in zip(libraries, theirs, strict=True)
        for count, seconds in zip(seeds, ours, strict=True)
    ]


def training(
    suite_task: SuiteTask,
    learner: str,
    seeds: Sequence[int],
    rounds: int,
    turn: int,
    device: str,
    warm_up: int,
    libraries: Sequence[str],
) -> list[dict[str, Any]]:
    """Return table rows of training steps per second, without evaluation and checkpoints."""
    start = suite_task.settings(learner)["learner.learning_starts"] + warm_up
    named = ["--suite", suite_task.suite, "--task", suite_task.task, "--device", device]
    theirs = [
        Contender("benchmarks.continuous", ["--contend", learner, str(start), str(turn), library, *named])
        for library in libraries
    ]
    ours = [
        Contender(
            "benchmarks.turns",
            ["--seeds", str(count), "--device", device, *cell_arguments(start, turn, suite_task.cell(learner))],
        )
        for count in seeds
    ]
    interleave([*theirs, *ours], rounds)
    for contender in (*theirs, *ours):
        contender.close()
    rows = []
    for library, rival in zip(libraries, theirs, strict=True):
        beside = [taken["seconds"] / turn for taken in rival.turns]
        for count, contender in zip(seeds, ours, strict=True):
            seconds = [taken["seconds"] / turn for taken in contender.turns]
            processor = [count * ratio for ratio in ratios(rival, contender, "processor")]
            table_row = row(learner, "steps", count, seconds, beside, library)
            rows.append({**table_row, "processor_ratio": statistics.median(processor)})
    return rows


def row(
    learner: str, work: str, seeds: int, ours: Sequence[float], theirs: Sequence[float], library: str = PEER
) -> dict[str, Any]:
    """Return a table row. `ours`: seconds per round for all `seeds` together; `theirs`: seconds per round for one
    seed."""
    speedups = sorted(
        seeds * theirs_seconds / ours_seconds for ours_seconds, theirs_seconds in zip(ours, theirs, strict=True)
    )
    return {
        "learner": learner,
        "peer": library,
        "what": work,
        "seeds": seeds,
        "ours_per_second": seeds / statistics.median(ours),
        "peer_per_second": 1 / statistics.median(theirs),
        "ratio": statistics.median(speedups),
        "ratio_lowest": speedups[0],
        "ratio_highest": speedups[-1],
    }


def train_peer(suite_task: SuiteTask, learner: str, start: int, turn: int, device: str, library: str) -> None:
    """Train the peer in the contender's process."""
    model, settings = peer(suite_task, learner, 0, device, library)
    model.learn(settings["steps"], callback=after_each_step(Turns(start, turn)))
    tell({})


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    place = "MetaWorld" if figures.get("where", {}).get("suite", "").startswith("metaworld") else "Pendulum"
    for row in figures["rows"]:
        rates = [f"{row[f'{who}_per_second']:,.0f}/s" for who in ("ours", "peer")]
        library = row.get("peer", PEER)
        label = f"{row['learner'].upper()} on {place}, {row['what']} of {row['seeds']} seeds: {PEERS[library]}"
        yield Line(label, *rates, row["ratio"], GOALS[library][row["seeds"] > 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--suite", default="classic", help="default %(default)s")
    parser.add_argument("--task", default="Pendulum-v1", help="default %(default)s")
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[1, 4], help="seeds trained together (default %(default)s)"
    )
    parser.add_argument("--device", default="cpu", help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each (default %(default)s)")
    parser.add_argument("--turn", type=int, default=128, help="updates or steps of a turn (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=256, help="training steps with updates before the first turn")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--returns", metavar="STUDY", help="record the peer's returns in this study instead")
    parser.add_argument("--runs", type=int, default=5, help="with --returns: seeds (default %(default)s)")
    parser.add_argument("--steps", type=int, help="with --returns: fewer steps than the schedule's 20,000")
    parser.add_argument("--contend", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    suite_task = SuiteTask(options.suite, options.task)
    libraries = peers_here(parser)
    if options.device == "cpu":
        on_one_core()
    if options.contend:
        learner, start, turn, library = options.contend
        train_peer(suite_task, learner, int(start), int(turn), options.device, library)
        return
    if options.returns:
        for learner in options.learners:
            for seed in range(options.runs):
                model, settings = peer(suite_task, learner, seed, options.device)
                settings["steps"] = options.steps or settings["steps"]
                returns(
                    options.returns,
                    model,
                    settings,
                    task=suite_task.task,
                    method=f"sb3_{learner}",
                    seed=seed,
                    every=1_000,
                    episodes=10,
                )
        return
    rows = []
    for learner in options.learners:
        shared = (suite_task, learner, options.seeds, options.rounds, options.turn, options.device)
        rows += updates(*shared, libraries)
        rows += training(*shared, options.warm_up, libraries)
    versions = {name: importlib.metadata.version(name) for name in ("torch", "gymnasium", *PEERS.values())}
    if options.json:
        shape = {name: getattr(options, name) for name in ("device", "rounds", "turn")}
        print(json.dumps({"where": suite_task._asdict(), "rows": rows, "versions": versions, **shape}))
        return
    print("| learner | per second | seeds together | ours | peer | peer's | ratio |\n|---|---|---|---|---|---|---|")
    for table_row in rows:
        rates = f"{table_row['ours_per_second']:.0f} | {PEERS[table_row['peer']]} | {table_row['peer_per_second']:.0f}"
        spread = f"{table_row['ratio']:.2f} ({table_row['ratio_lowest']:.2f} to {table_row['ratio_highest']:.2f})"
        print(f"| {table_row['learner']} | {table_row['what']} | {table_row['seeds']} | {rates} | {spread} |")
    print("versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()))


if __name__ == "__main__":
    main()
