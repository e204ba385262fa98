"""Training steps per second of one learner on one task: ours captured as a CUDA graph and eager, with one seed and
five (SAC also with processes that step the tasks), beside a plain loop (plain.py) and Stable-Baselines3's.

All train on this project's task with the same networks, batch, updates per step and random actions, which are the
field's: two critics, two hidden layers of 256, batches of 256, an update after every step; DQN has the paper's network
and schedule. A step includes acting, the environment, the replay and its updates, without evaluation and checkpoints.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks.cartpole import PEER, after_each_step
from benchmarks.continuous import SuiteTask
from benchmarks.gpu import plain, racing
from benchmarks.gpu.racing import Contender, Stop
from benchmarks.gpu.steps import Ask, Tell
from benchmarks.turns import train
from guidebench.baselines import captured
from guidebench.baselines.captured import Captured, Learn
from guidebench.harness import registry
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names

SEEDS, ROUNDS = 5, 10
CONTINUOUS: Mapping[str, Any] = {
    "learner.hidden": (256, 256), "learner.ensemble": 2, "learner.subset": 2, "learner.utd": 1, "learner.actor_utd": 1,
    "learner.target_reduction": "min", "learner.layer_norm": False, "learner.max_grad_norm": None,
    "learner.actor_lr": 3e-4, "learner.critic_lr": 3e-4, "learner.batch_size": 256, "learner.learning_starts": 256,
    "learner.discount": 0.99, "learner.target_rate": 0.005, "learner.target_frequency": 1,
    "training.capacity": 50_000, "training.demonstrations": 0,
}  # fmt: skip
BY_LEARNER: Mapping[str, Mapping[str, Any]] = {
    "sac": {**CONTINUOUS, "learner.actor_reduction": "min", "learner.policy_frequency": 1,
            "learner.initialisation": "uniform"},
    "td3": {**CONTINUOUS, "learner.actor_reduction": "first", "learner.policy_frequency": 2,
            "learner.initialisation": "uniform"},
    "dqn": {"learner.epsilon_start": 0.5, "learner.epsilon_end": 0.5, "learner.learning_starts": 256,
            "training.capacity": 50_000},
}  # fmt: skip
SMALL: Mapping[str, Mapping[str, Any]] = {
    "dqn": {"learner.channels": 8, "learner.features": 16, "learner.hidden": (16,), "learner.batch_size": 16,
            "learner.learning_starts": 32},
    "sac": {"learner.hidden": (16, 16), "learner.batch_size": 16, "learner.learning_starts": 32},
    "td3": {"learner.hidden": (16, 16), "learner.batch_size": 16, "learner.learning_starts": 32},
}  # fmt: skip
"""Sizes of a rehearsal."""


def measure(ask: Ask, tell: Tell) -> None:
    torch.set_num_threads(1)
    learner = ask.settings["learner"]
    suite_task = SuiteTask(ask.settings["suite"], ask.settings["task"])
    overrides = BY_LEARNER[learner] | ({} if ask.full else SMALL[learner])
    hparams = settings(suite_task, learner, overrides)
    one, five = (functools.partial(ours, suite_task, learner, overrides, ask.device, seeds) for seeds in (1, SEEDS))
    contenders = [one("ours, captured"), five("ours, captured"), one("ours, eager", eager=True)]
    if learner == "sac":
        beside = SEEDS - 1 if ask.full else 1
        contenders.append(five(f"ours, captured, {beside} env_workers", env_workers=beside))
    loop = Contender(
        "a plain loop as CleanRL's",
        functools.partial(peer_loop, suite_task, learner, hparams, ask.device),
        ask.device,
    )
    contenders.append(loop)
    if importlib.util.find_spec(PEER) is not None:
        name = f"Stable-Baselines3 {importlib.metadata.version('stable-baselines3')}"
        sb3 = functools.partial(stable_baselines, suite_task, learner, hparams, ask.device)
        contenders.append(Contender(name, sb3, ask.device))
    else:
        contenders.append(Contender("Stable-Baselines3", _absent, ask.device))
    prefix = f"{learner.upper()} on {suite_task.suite} {suite_task.task}"

    def rows() -> list[Any]:
        return racing.rows(contenders, loop, prefix, hparams["batch_size"])

    racing.race(contenders, hparams["learning_starts"] + 64, 16, ask.rounds(ROUNDS), _until(ask), lambda: tell(rows()))
    tell(rows())


def _until(ask: Ask) -> float:
    return ask.deadline if ask.full else min(ask.deadline, time.monotonic() + 2)


def settings(suite_task: SuiteTask, learner: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the learner and the capacity of the replay, as all contenders have them."""
    parts = roles.parts_of(suite_task.suite, suite_task.task, "uer", "paper", {"learner": learner})
    names = Names(suite_task.suite, suite_task.task, "uer", "paper", parts)
    cell_settings = {key: value.value for key, value in config.base_settings(names).items()} | overrides
    learner_settings = {
        key.removeprefix("learner."): value for key, value in cell_settings.items() if key.startswith("learner.")
    }
    return learner_settings | {"capacity": cell_settings["training.capacity"]}


def ours(
    suite_task: SuiteTask, learner: str, overrides: Mapping[str, Any], device: str, seeds: int, name: str,
    eager: bool = False, env_workers: int = 0,
) -> Contender:  # fmt: skip
    """Return our contender; `eager`: its updates are not captured as CUDA graphs; `env_workers`: processes beside it
    that step its tasks."""
    made: list[Captured] = []

    def run(stop: Stop) -> None:
        # the learner is made in this thread's first turn, while the others wait
        before, captured.Captured = captured.Captured, recording_captured(made, eager)  # type: ignore[misc]
        first = True

        def stopping() -> bool:
            nonlocal first
            if first:
                captured.Captured, first = before, False  # type: ignore[misc]
            return stop()

        try:
            train({**suite_task.cell(learner), **overrides}, stopping, seeds, device, env_workers=env_workers)
        finally:
            if first:
                captured.Captured = before  # type: ignore[misc]

    contender = Contender(name, run, device, seeds)

    def note() -> str:
        if eager or not made:
            return ""
        return f"{len(made[0].graphs)} CUDA graphs{f', refused: {made[0].refused}' if made[0].refused else ''}"

    contender.note = note
    return contender


def recording_captured(made: list[Captured], eager: bool) -> type[Captured]:
    """Return a `Captured` that adds itself to `made`, and with `eager` captures nothing."""

    class RecordingCaptured(Captured):
        def __init__(self, learn: Learn) -> None:
            super().__init__(learn)
            self.refused = "eager updates were asked for" if eager else ""
            made.append(self)

    return RecordingCaptured


def environment(suite_task: SuiteTask) -> Any:
    """Return our task as a Gymnasium environment."""
    suite = registry.get("suite", suite_task.suite)()
    observations, actions = suite.spaces(suite_task.task)
    if not actions.discrete:
        return suite_task.environment()
    task = suite.make(suite_task.task)

    class Grid(gymnasium.Env[Any, Any]):
        # int8, since Stable-Baselines3 takes uint8 for an image
        observation_space = gymnasium.spaces.Box(0, 100, observations.shape, np.int8)
        action_space = gymnasium.spaces.Discrete(actions.count)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            return task.reset(seed).astype(np.int8), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            step = task.step(int(action))
            return step.observation.astype(np.int8), step.reward, step.terminated, step.truncated, {}

    return Grid()


def network(suite_task: SuiteTask, hparams: Mapping[str, Any], head: bool = True) -> plain.GridNetwork:
    """Return the network of DQN as a module, with Q-values or only the features."""
    observations, actions = registry.get("suite", suite_task.suite)().spaces(suite_task.task)
    return plain.GridNetwork(
        observations.shape, observations.categories, hparams["channels"], hparams["features"], hparams["hidden"],
        actions.count if head else None,
    )  # fmt: skip


def peer_loop(suite_task: SuiteTask, learner: str, hparams: Mapping[str, Any], device: str, stop: Stop) -> None:
    made = environment(suite_task)
    if learner == "dqn":
        plain.dqn(made, lambda: network(suite_task, hparams), hparams, device, stop)
    else:
        {"sac": plain.sac, "td3": plain.td3}[learner](made, hparams, device, stop)


def _absent(stop: Stop) -> None:
    raise ModuleNotFoundError("stable-baselines3 is not installed here")


def stable_baselines(suite_task: SuiteTask, learner: str, hparams: Mapping[str, Any], device: str, stop: Stop) -> None:
    """Train Stable-Baselines3's learner with the same settings."""
    made = environment(suite_task)
    common: dict[str, Any] = {
        "buffer_size": hparams["capacity"], "learning_starts": hparams["learning_starts"],
        "batch_size": hparams["batch_size"], "gamma": hparams["discount"], "gradient_steps": 1, "device": device,
        "seed": 0,
    }  # fmt: skip
    model = {"dqn": _sb3_dqn, "sac": _sb3_sac, "td3": _sb3_td3}[learner](made, suite_task, hparams, common)
    model.learn(10**9, callback=after_each_step(stop))


def _sb3_dqn(made: Any, suite_task: SuiteTask, hparams: Mapping[str, Any], common: Mapping[str, Any]) -> Any:
    from stable_baselines3 import DQN
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Features(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, hparams["features"])
            self.encoder = network(suite_task, hparams, head=False)

        def forward(self, codes: Any) -> Any:
            return self.encoder(codes)

    return DQN(
        "MlpPolicy", made, learning_rate=hparams["lr"], train_freq=hparams["train_every"],
        target_update_interval=hparams["target_every"], exploration_initial_eps=hparams["epsilon_start"],
        exploration_final_eps=hparams["epsilon_end"], max_grad_norm=hparams["max_grad_norm"],
        policy_kwargs={"features_extractor_class": Features, "net_arch": list(hparams["hidden"]),
                       "normalize_images": False},
        **common,
    )  # fmt: skip


def _sb3_sac(made: Any, suite_task: SuiteTask, hparams: Mapping[str, Any], common: Mapping[str, Any]) -> Any:
    from stable_baselines3 import SAC

    return SAC(
        "MlpPolicy", made, learning_rate=hparams["critic_lr"], train_freq=1, tau=hparams["target_rate"],
        ent_coef=f"auto_{hparams['alpha']}",
        target_entropy=-hparams["target_entropy_scale"] * made.action_space.shape[0],
        policy_kwargs={"net_arch": list(hparams["hidden"]), "n_critics": 2}, **common,
    )  # fmt: skip


def _sb3_td3(made: Any, suite_task: SuiteTask, hparams: Mapping[str, Any], common: Mapping[str, Any]) -> Any:
    from stable_baselines3 import TD3
    from stable_baselines3.common.noise import NormalActionNoise

    size = made.action_space.shape[0]
    return TD3(
        "MlpPolicy", made, learning_rate=hparams["critic_lr"], train_freq=1, tau=hparams["target_rate"],
        action_noise=NormalActionNoise(np.zeros(size), np.full(size, hparams["exploration_noise"])),
        policy_delay=hparams["policy_frequency"], target_policy_noise=hparams["target_noise"],
        target_noise_clip=hparams["noise_clip"],
        policy_kwargs={"net_arch": list(hparams["hidden"]), "n_critics": 2}, **common,
    )  # fmt: skip
