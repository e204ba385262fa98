"""DQN on CartPole-v1 against the DQN of Stable-Baselines3, which runs on PyTorch as ours does, and of SBX, which JAX
compiles: same network and schedule, all on one core.

    python -m benchmarks.cartpole [--rounds 20]                       training steps per second
    python -m benchmarks.cartpole --returns STUDY [--seeds 10]        Stable-Baselines3's returns, into a study

Settings are those of the suite `classic`, which are RL Baselines3 Zoo's; SBX clips no gradient. To compare speed, the
contenders alternate in training (see benchmarks/turns.py). `--returns` trains Stable-Baselines3 and records ten greedy
episodes every 5,000 steps with `guidebench.Recorder`. Add our runs to the same study with

    bench run suite=classic task=CartPole-v1 method=uer profile=paper seeds=10 output=STUDY

and compare both with `bench report STUDY`. Both modes need the peers' environment:

    python -m venv peers && peers/bin/pip install -r benchmarks/peers.txt
    PYTHONPATH=. peers/bin/python -P -m benchmarks.cartpole
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.table import Line
from benchmarks.turns import Contender, Turns, cell_arguments, interleave, rate, ratios, tell
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names

CELL = {"suite": "classic", "task": "CartPole-v1", "profile": "paper", "method": "uer"}
PEER = "stable_baselines3"
PEERS = {PEER: "stable-baselines3", "sbx": "sbx-rl"}
"""Module of a peer -> its distribution."""


def peers_here(parser: argparse.ArgumentParser) -> list[str]:
    """Return the modules of the peers. End the command if one is not installed."""
    for module, distribution in PEERS.items():
        if importlib.util.find_spec(module) is None:
            parser.error(f"{distribution} is not installed here; make the peers' environment (see --help)")
    return list(PEERS)


def on_one_core() -> None:
    """Bind this process and those that it starts to one core: JAX takes as many threads as it may use cores."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def peer(seed: int, library: str = PEER) -> tuple[Any, dict[str, Any]]:
    """Return the DQN of a library of `PEERS` with the suite's settings, and these settings under the library's names,
    which are those of Stable-Baselines3."""
    import torch

    torch.set_num_threads(1)
    names = Names(**CELL, parts=roles.parts_of(chosen={}, **CELL))
    suite = {key: value.value for key, value in config.base_settings(names).items()}
    settings = {
        "learning_rate": suite["learner.lr"],
        "buffer_size": suite["training.capacity"],
        "learning_starts": suite["learner.learning_starts"],
        "batch_size": suite["learner.batch_size"],
        "gamma": suite["learner.discount"],
        "train_freq": suite["learner.train_every"],
        "gradient_steps": suite["learner.gradient_steps"],
        "target_update_interval": suite["learner.target_every"],
        "exploration_fraction": suite["learner.exploration_share"],
        "exploration_final_eps": suite["learner.epsilon_end"],
    }
    if library == PEER:  # SBX has no such setting
        settings["max_grad_norm"] = suite["learner.max_grad_norm"]
    hidden = list(suite["learner.hidden"])
    network = {"net_arch": hidden}
    algorithm = importlib.import_module(library).DQN
    model = algorithm("MlpPolicy", "CartPole-v1", policy_kwargs=network, seed=seed, device="cpu", **settings)
    return model, {**settings, "steps": suite["training.steps"], "net_arch": hidden}


def after_each_step(call: Callable[[], object]) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    """Return a Stable-Baselines3 callback that ends training once `call()` is true."""

    def callback(_: dict[str, Any], __: dict[str, Any]) -> bool:
        return not call()

    return callback


def train_peer(start: int, turn: int, library: str) -> None:
    """Train the peer in the contender's process."""
    model, settings = peer(0, library)
    model.learn(settings["steps"], callback=after_each_step(Turns(start, turn)))
    tell({})


def speed(rounds: int, start: int, turn: int, libraries: Sequence[str]) -> dict[str, Any]:
    """Return our steps per second, and those of the peers with the median ratio to each; a turn is whole cycles of the
    schedule's 256 steps and 128 updates."""
    ours = Contender("benchmarks.turns", cell_arguments(start, turn, CELL))
    theirs = [Contender("benchmarks.cartpole", ["--contend", str(start), str(turn), library]) for library in libraries]
    interleave([*theirs, ours], rounds)
    for contender in (*theirs, ours):
        contender.close()
    rows = []
    for library, rival in zip(libraries, theirs, strict=True):
        speedups = ratios(rival, ours)
        rows.append(
            {
                "peer": library,
                "peer_steps_per_second": rate(rival, turn),
                "ratio": statistics.median(speedups),
                "ratio_lowest": speedups[0],
                "ratio_highest": speedups[-1],
                "processor_ratio": statistics.median(ratios(rival, ours, "processor")),
            }
        )
    versions = {name: importlib.metadata.version(name) for name in ("torch", "gymnasium", *PEERS.values())}
    steps = rate(ours, turn)
    return {"rounds": rounds, "turn": turn, "ours_steps_per_second": steps, "rows": rows, "versions": versions}


def returns(
    study: str, model: Any, settings: Mapping[str, Any], *, task: str, method: str, seed: int, every: int, episodes: int
) -> None:
    """Train the peer for `settings["steps"]` steps and record its greedy episodes as `method`."""
    import gymnasium

    import guidebench

    total = int(settings["steps"])
    environment = gymnasium.make(task)
    reward_threshold = environment.spec.reward_threshold  # type: ignore[union-attr]
    threshold = math.inf if reward_threshold is None else reward_threshold
    record = guidebench.Recorder(
        study, suite="classic", task=task, method=method, learner="sb3", seed=seed, steps=total,
        settings={**settings, "stable_baselines3": importlib.metadata.version("stable-baselines3")},
    )  # fmt: skip

    def evaluate(step: int) -> None:
        gained = []
        for episode in range(episodes):
            observation, _ = environment.reset(seed=(1_000_000 * seed + step) * 100 + episode)
            ret, length, over = 0.0, 0, False
            while not over:
                action, _ = model.predict(observation, deterministic=True)
                observation, reward, terminated, truncated, _ = environment.step(action)
                ret, length, over = ret + float(reward), length + 1, terminated or truncated
            record.episode(step=step, ret=ret, success=ret >= threshold, length=length)
            gained.append(ret)
        print(f"{method} seed {seed} step {step:7,} return {statistics.mean(gained):8.1f}", flush=True)

    def look() -> bool:
        step = model.num_timesteps
        if step % every == 0 or step == total:
            evaluate(step)
        return bool(step >= total)

    with record:
        model.learn(total, callback=after_each_step(look))


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    ours = f"{figures['ours_steps_per_second']:,.0f} steps/s"
    for row in figures["rows"]:
        theirs = f"{row['peer_steps_per_second']:,.0f} steps/s"
        yield Line(f"DQN on CartPole: {PEERS[row['peer']]}", ours, theirs, row["ratio"], "1.5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="turns of each (default %(default)s)")
    parser.add_argument("--start", type=int, default=8_192, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=1_024, help="steps of a turn (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--returns", metavar="STUDY", help="record the peer's returns in this study instead")
    parser.add_argument("--seeds", type=int, default=10, help="with --returns (default %(default)s)")
    parser.add_argument("--steps", type=int, help="with --returns: fewer steps than the schedule's 50,000")
    parser.add_argument("--contend", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    libraries = peers_here(parser)
    on_one_core()
    if options.contend:
        start, turn, library = options.contend
        train_peer(int(start), int(turn), library)
        return
    if options.returns:
        for seed in range(options.seeds):
            model, settings = peer(seed)
            settings["steps"] = options.steps or settings["steps"]
            every = min(5_000, settings["steps"])
            returns(
                options.returns,
                model,
                settings,
                task="CartPole-v1",
                method="sb3_dqn",
                seed=seed,
                every=every,
                episodes=10,
            )
        return
    figures = speed(options.rounds, options.start, options.turn, libraries)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"DQN on CartPole-v1, {options.rounds} turns of {options.turn:,} training steps each, one core")
    print(f"{'guidebench':20}{figures['ours_steps_per_second']:8,.0f} steps/s")
    for row in figures["rows"]:
        ratio = f"ratio {row['ratio']:.2f} ({row['ratio_lowest']:.2f} to {row['ratio_highest']:.2f})"
        ratio += f", {row['processor_ratio']:.2f} by processor time"
        print(f"{PEERS[row['peer']]:20}{row['peer_steps_per_second']:8,.0f} steps/s, {ratio}")
    print("versions: " + ", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


if __name__ == "__main__":
    main()
