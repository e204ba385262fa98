"""CartPole and Acrobot of Gymnasium: small tasks on which a learner is compared with a public implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.errors import unknown
from harness.interfaces import Actions, Drawer, Observations, Task
from harness.registry import register
from harness.settings import cite

OBSERVED = {"CartPole-v1": 4, "Acrobot-v1": 6}
CHOICES = {"CartPole-v1": 2, "Acrobot-v1": 3}
HORIZON = 500
SECONDS = {"CartPole-v1": 1e-5, "Acrobot-v1": 5e-5}
ZOO = "RL Baselines3 Zoo, hyperparams/dqn.yml"
SB3 = "Stable-Baselines3, DQN's default"
SMOKE = "smoke profile: seconds, for tests; learns nothing"


def _also_iqn(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer whose settings of DQN, the only learner in the zoo's file, hold for IQN too."""
    return {**layer, **{key.replace(".dqn.", ".iqn."): layer[key] for key in layer if key.startswith("learner.dqn.")}}


ACROBOT = _also_iqn(
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


@dataclass(frozen=True)
class ClassicDrawing:
    """Gymnasium's own frames, as they are."""

    def spawn(self, task: str) -> Drawer:
        from suites.classic.task import ClassicDrawer

        _check(task)
        return ClassicDrawer(task)


@register.suite("classic")
@dataclass(frozen=True)
class Classic:
    """CartPole-v1 and Acrobot-v1, to check learners against Stable-Baselines3."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "Classic control"
    source: ClassVar[str] = "Gymnasium 1.4.0; hyperparameters of RL Baselines3 Zoo"
    citation: ClassVar[str] = """@article{barto1983neuronlike,
  title = {Neuronlike Adaptive Elements That Can Solve Difficult Learning Control Problems},
  author = {Barto, Andrew G. and Sutton, Richard S. and Anderson, Charles W.},
  journal = {IEEE Transactions on Systems, Man, and Cybernetics},
  volume = {SMC-13},
  number = {5},
  pages = {834--846},
  year = {1983}
}
@inproceedings{sutton1995generalization,
  title = {Generalization in Reinforcement Learning: Successful Examples Using Sparse Coarse Coding},
  author = {Sutton, Richard S.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {8},
  pages = {1038--1044},
  year = {1995}
}
@misc{towers2024gymnasium,
  title = {Gymnasium: A Standard Interface for Reinforcement Learning Environments},
  author = {Towers, Mark and Kwiatkowski, Ariel and Terry, Jordan and Balis, John U. and De Cola, Gianluca and
    Deleu, Tristan and Goul{\\~a}o, Manuel and Kallinteris, Andreas and others},
  note = {arXiv preprint arXiv:2407.17032},
  year = {2024}
}
@misc{raffin2020zoo,
  title = {{RL Baselines3 Zoo}},
  author = {Raffin, Antonin},
  howpublished = {\\url{https://github.com/DLR-RM/rl-baselines3-zoo}},
  year = {2020}
}"""
    tasks: ClassVar[tuple[str, ...]] = tuple(OBSERVED)
    learner: ClassVar[str] = "dqn"
    method: ClassVar[str] = "uer"
    judge: ClassVar[str] = ""
    events: ClassVar[tuple[str, ...]] = ()
    drawing: ClassVar[type] = ClassicDrawing
    defaults: ClassVar[Mapping[str, Any]] = _also_iqn(
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
        }
    )
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"by_task": {"Acrobot-v1": ACROBOT}},
        "quick": {
            "tasks": ("CartPole-v1",),
            "by_task": {
                "Acrobot-v1": {
                    **ACROBOT,
                    "training.steps": cite(50_000, "quick profile: half of the zoo's"),
                    "evaluation.every": cite(5_000, "quick profile: ten evaluations"),
                }
            },
        },
        "smoke": _also_iqn(
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
            }
        ),
    }

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """float32 [4] and two actions for CartPole, float32 [6] and three for Acrobot."""
        _check(task)
        return Observations((OBSERVED[task],), "float32"), Actions(count=CHOICES[task])

    def horizon(self, task: str) -> int:
        """500 for either (Gymnasium's registry)."""
        _check(task)
        return HORIZON

    def seconds_per_step(self, task: str) -> float:
        """Episodes begun anew included (measured)."""
        _check(task)
        return SECONDS[task]

    def make(self, task: str) -> Task:
        from suites.classic.task import ClassicTask

        _check(task)
        return ClassicTask(task)


def _check(task: str) -> None:
    if task not in OBSERVED:
        raise unknown("task", task, OBSERVED)
