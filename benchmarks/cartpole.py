"""DQN on CartPole-v1 against Stable-Baselines3's DQN: same network, schedule and PyTorch, one thread each.

    python -m benchmarks.cartpole [--rounds 20]                       training steps per second
    python -m benchmarks.cartpole --returns STUDY [--seeds 10]        Stable-Baselines3's returns, into a study

Settings are those of the suite `classic`, which are RL Baselines3 Zoo's. To compare speed, the two alternate in
training (see benchmarks/turns.py). `--returns` trains Stable-Baselines3 and records ten greedy episodes every 5,000
steps with `guidebench.Recorder`. Add our runs to the same study with

    bench run suite=classic task=CartPole-v1 method=uer profile=paper seeds=10 output=STUDY

and compare both with `bench report STUDY`. Both modes need the peers' environment:

    python -m venv peers && peers/bin/pip install -r benchmarks/peers.txt
    PYTHONPATH=. peers/bin/python -P -m benchmarks.cartpole
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.table import Line
from benchmarks.turns import Contender, Turns, cell_arguments, interleave, rate, ratios, tell
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names

CELL = {"suite": "classic", "task": "CartPole-v1", "profile": "paper", "method": "uer"}
PEER = "stable_baselines3"


def peer(seed: int) -> tuple[Any, dict[str, Any]]:
    """Return Stable-Baselines3's DQN with the suite's settings, and these settings under Stable-Baselines3's names."""
    import torch
    from stable_baselines3 import DQN

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
        "max_grad_norm": suite["learner.max_grad_norm"],
    }
    hidden = list(suite["learner.hidden"])
    network = {"net_arch": hidden}
    model = DQN("MlpPolicy", "CartPole-v1", policy_kwargs=network, seed=seed, device="cpu", **settings)
    return model, {**settings, "steps": suite["training.steps"], "net_arch": hidden}


def after_each_step(call: Callable[[], object]) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    """Return a Stable-Baselines3 callback that ends training once `call()` is true."""

    def callback(_: dict[str, Any], __: dict[str, Any]) -> bool:
        return not call()

    return callback


def train_peer(start: int, turn: int) -> None:
    """Train the peer in the contender's process."""
    model, settings = peer(0)
    model.learn(settings["steps"], callback=after_each_step(Turns(start, turn)))
    tell({})


def speed(rounds: int, start: int, turn: int) -> dict[str, Any]:
    """Return our and the peer's steps per second and the median ratio; a turn is whole cycles of the schedule's 256
    steps and 128 updates."""
    ours = Contender("benchmarks.turns", cell_arguments(start, turn, CELL))
    theirs = Contender("benchmarks.cartpole", ["--contend", str(start), str(turn)])
    interleave([theirs, ours], rounds)
    ours.close(), theirs.close()
    speedups = ratios(theirs, ours)
    return {
        "rounds": rounds,
        "turn": turn,
        "ours_steps_per_second": rate(ours, turn),
        "peer_steps_per_second": rate(theirs, turn),
        "ratio": statistics.median(speedups),
        "ratio_lowest": speedups[0],
        "ratio_highest": speedups[-1],
        "processor_ratio": statistics.median(ratios(theirs, ours, "processor")),
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "stable-baselines3", "gymnasium")},
    }


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
    rates = [f"{figures[f'{name}_steps_per_second']:,.0f} steps/s" for name in ("ours", "peer")]
    yield Line("DQN on CartPole: Stable-Baselines3", *rates, figures["ratio"], "1.5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="turns of each (default %(default)s)")
    parser.add_argument("--start", type=int, default=8_192, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=1_024, help="steps of a turn (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--returns", metavar="STUDY", help="record the peer's returns in this study instead")
    parser.add_argument("--seeds", type=int, default=10, help="with --returns (default %(default)s)")
    parser.add_argument("--steps", type=int, help="with --returns: fewer steps than the schedule's 50,000")
    parser.add_argument("--contend", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if importlib.util.find_spec(PEER) is None:
        parser.error("stable-baselines3 is not installed here; make the peers' environment (see --help)")
    if options.contend:
        train_peer(*options.contend)
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
    figures = speed(options.rounds, options.start, options.turn)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"DQN on CartPole-v1, {options.rounds} turns of {options.turn:,} training steps each, one thread")
    print(f"Stable-Baselines3 {figures['peer_steps_per_second']:8,.0f} steps/s")
    print(f"guidebench        {figures['ours_steps_per_second']:8,.0f} steps/s")
    print(
        f"ratio             {figures['ratio']:8.2f}  ({figures['ratio_lowest']:.2f} to {figures['ratio_highest']:.2f})"
    )
    print(f"                  {figures['processor_ratio']:8.2f}  by processor time")
    print("versions: " + ", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


if __name__ == "__main__":
    main()
