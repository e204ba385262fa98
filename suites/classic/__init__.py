"""Small Gymnasium tasks, two of them on MuJoCo, on which learners are compared with public implementations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from guidebench.harness.errors import unknown
from guidebench.harness.findings import Finding
from guidebench.harness.interfaces import Actions, Drawer, Observations, Score, Task
from guidebench.harness.parts import DrawingPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import cite

OBSERVED = {"CartPole-v1": 4, "Acrobot-v1": 6, "Pendulum-v1": 3, "HalfCheetah-v5": 17, "Hopper-v5": 11}
ACTIONS = {
    "CartPole-v1": Actions(2),
    "Acrobot-v1": Actions(3),
    "Pendulum-v1": Actions(shape=(1,)),
    "HalfCheetah-v5": Actions(shape=(6,)),
    "Hopper-v5": Actions(shape=(3,)),
}
MUJOCO = ("HalfCheetah-v5", "Hopper-v5")
HORIZON = {"CartPole-v1": 500, "Acrobot-v1": 500, "Pendulum-v1": 200, "HalfCheetah-v5": 1_000, "Hopper-v5": 1_000}
SECONDS = {"CartPole-v1": 1e-5, "Acrobot-v1": 5e-5, "Pendulum-v1": 3e-5, "HalfCheetah-v5": 1e-4, "Hopper-v5": 2.5e-4}
SCORES = {
    "CartPole-v1": Score("return", low=0.0, high=500.0),
    "Acrobot-v1": Score("return", low=-500.0, high=0.0),
    "Pendulum-v1": Score("return", low=200 * -16.2736044, high=0.0),
    "HalfCheetah-v5": Score("return"),
    "Hopper-v5": Score("return"),
}
"""Returns are scaled by the range that Gymnasium's rewards allow over `HORIZON` steps: 1 or -1 a step; for Pendulum at
least -(π² + 0.1 · 8² + 0.001 · 2²) a step. The ranges of the two MuJoCo tasks are unknown."""
ZOO = "RL Baselines3 Zoo, hyperparams/dqn.yml"
ZOO_SAC = "RL Baselines3 Zoo, hyperparams/sac.yml"
ZOO_TD3 = "RL Baselines3 Zoo, hyperparams/td3.yml"
SB3 = "Stable-Baselines3, DQN's default"
SB3_SAC = "Stable-Baselines3, SAC's default"
SB3_TD3 = "Stable-Baselines3, TD3's default"
QUICK = "quick profile: a tenth of the zoo's"
SMOKE = "smoke profile: seconds, for tests; learns nothing"


def _also_kin(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the layer with its DQN settings copied to IQN and dueling DQN; the zoo's file has DQN only."""
    keys = [key for key in layer if key.startswith("learner.dqn.")]
    return {**layer, **{key.replace(".dqn.", f".{kin}."): layer[key] for kin in ("iqn", "dueling_dqn") for key in keys}}


ACROBOT = _also_kin(
    {
        "training.steps": cite(100_000, f"{ZOO}: Acrobot-v1"),
        "training.capacity": cite(50_000, f"{ZOO}: Acrobot-v1"),
        "evaluation.every": cite(10_000, "choice; ten evaluations"),
        "learner.dqn.lr": cite(6.3e-4, f"{ZOO}: Acrobot-v1"),
        "learner.dqn.batch_size": cite(128, f"{ZOO}: Acrobot-v1"),
        "learner.dqn.learning_starts": cite(128, f"choice; {ZOO} has 0, a batch must be there first"),
        "learner.dqn.target_every": cite(250, f"{ZOO}: Acrobot-v1"),
        "learner.dqn.train_every": cite(4, f"{ZOO}: Acrobot-v1"),
        "learner.dqn.gradient_steps": cite(4, f"{ZOO}: Acrobot-v1, where -1 means as many as steps"),
        "learner.dqn.exploration_share": cite(0.12, f"{ZOO}: Acrobot-v1"),
        "learner.dqn.epsilon_end": cite(0.1, f"{ZOO}: Acrobot-v1"),
    }
)


def _actor_critic(learner: str, source: str) -> Mapping[str, Any]:
    """Return the settings that Stable-Baselines3's SAC and TD3 share."""
    settings: Mapping[str, Any] = {
        "batch_size": 256,
        "discount": 0.99,
        "target_rate": 0.005,
        "max_grad_norm": None,
        "ensemble": 2,
        "subset": 2,
        "target_reduction": "min",
        "layer_norm": False,
        "utd": 1,
        "actor_utd": 1,
    }
    return {f"learner.{learner}.{key}": cite(value, source) for key, value in settings.items()}


def _rates(learner: str, names: tuple[str, ...], rate: Any) -> Mapping[str, Any]:
    return {f"learner.{learner}.{name}": rate for name in names}


SAC_RATES = ("actor_lr", "critic_lr", "alpha_lr")
TD3_RATES = ("actor_lr", "critic_lr")
CONTINUOUS = {
    **_actor_critic("sac", SB3_SAC),
    **_rates("sac", SAC_RATES, cite(3e-4, SB3_SAC)),
    "learner.sac.hidden": cite((256, 256), SB3_SAC),
    "learner.sac.actor_reduction": cite("min", SB3_SAC),
    "learner.sac.policy_frequency": cite(1, SB3_SAC),
    "learner.sac.alpha": cite(1.0, SB3_SAC),
    "learner.sac.tune_alpha": cite(True, SB3_SAC),
    "learner.sac.target_entropy_scale": cite(1.0, SB3_SAC),
    "learner.sac.learning_starts": cite(10_000, f"{ZOO_SAC}: HalfCheetah-v4, Hopper-v4"),
    **_actor_critic("td3", SB3_TD3),
    **_rates("td3", TD3_RATES, cite(1e-3, f"{ZOO_TD3}: Pendulum-v1, HalfCheetah-v4, Hopper-v4")),
    "learner.td3.hidden": cite((400, 300), f"{ZOO_TD3}: Pendulum-v1, HalfCheetah-v4, Hopper-v4"),
    "learner.td3.actor_reduction": cite("min", "choice; Stable-Baselines3 takes the first critic alone"),
    "learner.td3.policy_frequency": cite(2, SB3_TD3),
    "learner.td3.exploration_noise": cite(0.1, f"{ZOO_TD3}: Pendulum-v1, HalfCheetah-v4, Hopper-v4"),
    "learner.td3.target_noise": cite(0.2, SB3_TD3),
    "learner.td3.noise_clip": cite(0.5, SB3_TD3),
    "learner.td3.learning_starts": cite(10_000, f"{ZOO_TD3}: Pendulum-v1, HalfCheetah-v4, Hopper-v4"),
}
PENDULUM = {
    "training.steps": cite(20_000, f"{ZOO_SAC} and td3.yml: Pendulum-v1"),
    "training.capacity": cite(200_000, f"{ZOO_TD3}: Pendulum-v1; larger than a run"),
    "evaluation.every": cite(1_000, "choice; twenty evaluations"),
    **_rates("sac", SAC_RATES, cite(1e-3, f"{ZOO_SAC}: Pendulum-v1")),
    "learner.sac.learning_starts": cite(256, f"choice; {SB3_SAC} is 100, a batch must be there first"),
    "learner.td3.discount": cite(0.98, f"{ZOO_TD3}: Pendulum-v1"),
}
LOCOMOTION = {
    "training.steps": cite(1_000_000, f"{ZOO_SAC} and td3.yml: HalfCheetah-v4, Hopper-v4"),
    "training.capacity": cite(1_000_000, f"{SB3_SAC}, TD3's too"),
    "evaluation.every": cite(25_000, "choice; forty evaluations"),
}
LOCOMOTION_QUICK = {
    "training.steps": cite(100_000, QUICK),
    "evaluation.every": cite(5_000, "quick profile: twenty evaluations"),
}


def _difficulty(task: str, steps: int, reason: str) -> Mapping[str, Any]:
    """Return the words of a difficulty: a task and a share of the zoo's budget, evaluated ten times."""
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "the zoo's settings"),
        "training.steps": cite(steps, reason),
        "evaluation.every": cite(steps // 10, "choice: ten evaluations"),
    }


@dataclass(frozen=True)
class ClassicDrawing(DrawingPart):
    """Gymnasium's own frames, unchanged."""

    def opengl(self, task: str) -> str:
        """Return the OpenGL backend of the MuJoCo tasks, `egl` or `osmesa`; "" for other tasks."""
        if task not in MUJOCO:
            return ""
        from guidebench.suites.mujoco import gl

        return gl.backend()

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Return whether OpenGL draws on this machine."""
        from guidebench.suites.mujoco import gl

        return (gl.finding(),)

    def spawn(self, task: str) -> Drawer:
        """Return the task's drawer; UserError for an unknown task or a missing package."""
        _check(task)
        if task in MUJOCO:
            _need(task)
            from guidebench.suites.classic.mujoco import drawer

            return drawer(task)
        from guidebench.suites.classic.task import ClassicDrawer

        return ClassicDrawer(task)


@register.suite("classic")
@dataclass(frozen=True)
class Classic(SuitePart):
    """CartPole, Acrobot, Pendulum, HalfCheetah and Hopper, to check learners against Stable-Baselines3.

    The first two have discrete actions, for `dqn` and `iqn`; the others have continuous actions, for `sac` and `td3`.
    """

    version: ClassVar[int] = 1
    title: ClassVar[str] = "Classic control"
    source: ClassVar[str] = "Gymnasium 1.4.0; hyperparameters of RL Baselines3 Zoo"
    citation: ClassVar[str | Path] = Path(__file__).with_name("classic.bib")
    tasks: ClassVar[tuple[str, ...]] = tuple(OBSERVED)
    learner: ClassVar[str] = "dqn"
    learners: ClassVar[Mapping[str, str]] = {task: "sac" for task in OBSERVED if not ACTIONS[task].discrete}
    method: ClassVar[str] = "uer"
    scores: ClassVar[Mapping[str, Score]] = SCORES
    events: ClassVar[tuple[str, ...]] = ()
    drawing: ClassVar[type] = ClassicDrawing
    defaults: ClassVar[Mapping[str, Any]] = _also_kin(
        {
            "training.steps": cite(50_000, f"{ZOO}: CartPole-v1"),
            "training.capacity": cite(100_000, f"{ZOO}: CartPole-v1"),
            "evaluation.every": cite(5_000, "choice; ten evaluations"),
            "evaluation.episodes": cite(10, "choice"),
            "learner.dqn.lr": cite(2.3e-3, f"{ZOO}: CartPole-v1"),
            "learner.dqn.batch_size": cite(64, f"{ZOO}: CartPole-v1"),
            "learner.dqn.discount": cite(0.99, f"{ZOO}: CartPole-v1, Acrobot-v1"),
            "learner.dqn.double": cite(False, "Stable-Baselines3's DQN has one form, which is not double"),
            "learner.dqn.learning_starts": cite(1_000, f"{ZOO}: CartPole-v1"),
            "learner.dqn.target_every": cite(10, f"{ZOO}: CartPole-v1"),
            "learner.dqn.train_every": cite(256, f"{ZOO}: CartPole-v1"),
            "learner.dqn.gradient_steps": cite(128, f"{ZOO}: CartPole-v1"),
            "learner.dqn.exploration_share": cite(0.16, f"{ZOO}: CartPole-v1"),
            "learner.dqn.epsilon_end": cite(0.04, f"{ZOO}: CartPole-v1"),
            "learner.dqn.hidden": cite((256, 256), f"{ZOO}: CartPole-v1, Acrobot-v1"),
            "learner.dqn.max_grad_norm": cite(10.0, SB3),
            **CONTINUOUS,
            "by_task": {"Pendulum-v1": PENDULUM, **dict.fromkeys(MUJOCO, LOCOMOTION)},
        }
    )
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tasks": ("CartPole-v1", "Acrobot-v1"), "by_task": {"Acrobot-v1": ACROBOT}},
        "quick": {
            "tasks": ("CartPole-v1",),
            "by_task": {
                "Acrobot-v1": {
                    **ACROBOT,
                    "training.steps": cite(50_000, "quick profile: half of the zoo's"),
                    "evaluation.every": cite(5_000, "quick profile: ten evaluations"),
                },
                **dict.fromkeys(MUJOCO, LOCOMOTION_QUICK),
            },
        },
        "smoke": _also_kin(
            {
                "tasks": ("CartPole-v1",),
                "training.steps": cite(600, SMOKE),
                "training.capacity": cite(600, SMOKE),
                "evaluation.every": cite(200, SMOKE),
                "evaluation.episodes": cite(2, SMOKE),
                "learner.dqn.batch_size": cite(32, SMOKE),
                "learner.dqn.learning_starts": cite(128, SMOKE),
                "learner.dqn.train_every": cite(4, SMOKE),
                "learner.dqn.gradient_steps": cite(1, SMOKE),
                "learner.dqn.hidden": cite((16, 16), SMOKE),
                **{
                    f"learner.{learner}.{key}": cite(value, SMOKE)
                    for learner in ("sac", "td3")
                    for key, value in (("batch_size", 32), ("learning_starts", 128), ("hidden", (16, 16)))
                },
            }
        ),
    }

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cartpole_5k": _difficulty("CartPole-v1", 5_000, "choice: a tenth of the zoo's steps"),
        "cartpole_10k": _difficulty("CartPole-v1", 10_000, "choice: a fifth of the zoo's steps"),
        "cartpole_20k": _difficulty("CartPole-v1", 20_000, "choice: two fifths of the zoo's steps"),
        "acrobot_10k": _difficulty("Acrobot-v1", 10_000, "choice: a tenth of the zoo's steps"),
        "acrobot_30k": _difficulty("Acrobot-v1", 30_000, "choice: a third of the zoo's steps"),
    }

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: float32 [4], [6], [3], [17], [11] in the order of `tasks`. Actions: 2 or 3 choices, or torques
        [1], [6], [3]."""
        _check(task)
        return Observations((OBSERVED[task],), "float32"), ACTIONS[task]

    def horizon(self, task: str) -> int:
        """Return the episode length in Gymnasium's registry."""
        _check(task)
        return HORIZON[task]

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, including resets."""
        _check(task)
        return SECONDS[task]

    def ready(self, task: str) -> None:
        """Raise UserError if the task needs MuJoCo and it is missing."""
        if task in MUJOCO:
            _need(task)

    def make(self, task: str) -> Task:
        """Return the task; UserError for an unknown task, or where MuJoCo is needed and missing."""
        _check(task)
        if task in MUJOCO:
            _need(task)
            from guidebench.suites.classic.mujoco import MujocoTask

            return MujocoTask(task)
        from guidebench.suites.classic.task import ClassicTask

        return ClassicTask(task)


def _check(task: str) -> None:
    if task not in OBSERVED:
        raise unknown("task", task, OBSERVED)


def _need(task: str) -> None:
    from guidebench.suites.mujoco import need

    need("mujoco", f"task {task} of suite classic")
