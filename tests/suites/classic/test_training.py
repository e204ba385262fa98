"""SAC and TD3 train on the continuous tasks; a simulation on MuJoCo continues exactly after a stop."""

import numpy as np
import pytest

from guidebench.harness.plan import config, matrix, roles
from guidebench.harness.plan.names import Names
from guidebench.suites.classic import ClassicDrawing
from guidebench.suites.mujoco import gl
from tests.refusals import check_refused

SMALL = ("training.steps=200", "evaluation.every=100", "evaluation.episodes=1", "seeds=[0,1]")


def settings(task: str, learner: str, profile: str = "paper") -> dict[str, object]:
    parts = roles.parts_of("classic", task, "uer", profile, {"learner": learner})
    names = Names("classic", task, "uer", profile, parts)
    return {key: value.value for key, value in config.base_settings(names).items()}


def test_sac_has_the_zoos_settings_and_otherwise_stable_baselines3s() -> None:
    pendulum, cheetah = settings("Pendulum-v1", "sac"), settings("HalfCheetah-v5", "sac")
    assert {key for key in pendulum if pendulum[key] != cheetah[key]} == {
        "training.steps", "training.capacity", "evaluation.every", "learner.learning_starts",
        "learner.actor_lr", "learner.critic_lr", "learner.alpha_lr",
    }  # fmt: skip
    assert (pendulum["training.steps"], cheetah["training.steps"]) == (20_000, 1_000_000)
    assert (pendulum["learner.critic_lr"], cheetah["learner.critic_lr"]) == (1e-3, 3e-4)
    assert (pendulum["learner.ensemble"], pendulum["learner.subset"], pendulum["learner.utd"]) == (2, 2, 1)
    assert (pendulum["learner.target_reduction"], pendulum["learner.actor_reduction"]) == ("min", "min")
    assert pendulum["learner.max_grad_norm"] is None and not pendulum["learner.layer_norm"]
    assert cheetah == settings("Hopper-v5", "sac")


def test_td3_has_the_zoos_settings() -> None:
    pendulum, hopper = settings("Pendulum-v1", "td3"), settings("Hopper-v5", "td3")
    assert (pendulum["learner.discount"], hopper["learner.discount"]) == (0.98, 0.99)
    for resolved in (pendulum, hopper):
        assert resolved["learner.hidden"] == (400, 300) and resolved["learner.exploration_noise"] == 0.1
        assert (resolved["learner.actor_lr"], resolved["learner.critic_lr"]) == (1e-3, 1e-3)
        assert (resolved["learner.learning_starts"], resolved["learner.policy_frequency"]) == (10_000, 2)


@pytest.mark.parametrize("task", ["Pendulum-v1", "HalfCheetah-v5", "Hopper-v5"])
@pytest.mark.parametrize("learner", ["sac", "td3"])
def test_smoke_is_small_on_every_task(task: str, learner: str) -> None:
    resolved = settings(task, learner, "smoke")
    assert (resolved["training.steps"], resolved["learner.learning_starts"], resolved["learner.hidden"]) == (
        600,
        128,
        (16, 16),
    )
    assert np.isclose(resolved["learner.discount"], 0.98 if (task, learner) == ("Pendulum-v1", "td3") else 0.99)


def test_the_suite_without_a_task_means_what_stable_baselines3s_dqn_learns() -> None:
    plan = matrix.plan(["suite=classic", "method=uer", "profile=paper"])
    assert {(cell.names.task, cell.names.part("learner")) for cell in plan.cells} == {
        ("CartPole-v1", "dqn"), ("Acrobot-v1", "dqn"),
    }  # fmt: skip


def test_a_task_of_continuous_actions_means_sac_and_is_the_cell_that_naming_it_gives() -> None:
    tasks = "task=CartPole-v1,Pendulum-v1,HalfCheetah-v5,Hopper-v5"
    plan = matrix.plan(["suite=classic", tasks, "method=uer,per"])
    assert [(cell.names.method, cell.names.part("learner")) for cell in plan.cells] == [
        (method, learner) for method in ("uer", "per") for learner in ("dqn", "sac", "sac", "sac")
    ]
    (explicit,) = matrix.plan(["suite=classic", "task=Pendulum-v1", "method=uer", "learner=sac"]).cells
    assert explicit.id == plan.cells[1].id
    assert (explicit.variant, plan.cells[1].variant) == ("", "")
    both = matrix.plan(["suite=classic", "task=Pendulum-v1", "method=uer", "learner=sac,td3"])
    assert [cell.variant for cell in both.cells] == ["", "learner=td3"]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (
            ["task=Pendulum-v1", "learner=dqn"],
            r"learner 'dqn' does not fit suite 'classic', task 'Pendulum-v1': .*default for this task is learner=sac",
        ),
        (
            ["task=Pendulum-v1,CartPole-v1", "learner=sac"],
            r"learner 'sac' does not fit suite 'classic', task 'CartPole-v1': .*default for this task is learner=dqn",
        ),
        (["task=Pendulum-v1", "learner.channels=8"], r"unknown setting 'learner.channels'"),
    ],
)
def test_a_learner_for_other_actions_is_refused_with_the_suites_own(overrides: list[str], says: str) -> None:
    check_refused(says, matrix.plan, ["suite=classic", "method=uer", *overrides])


def test_only_the_tasks_on_mujoco_are_drawn_by_opengl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gl, "backend", lambda: "osmesa")
    assert [ClassicDrawing().opengl(task) for task in ("CartPole-v1", "Hopper-v5")] == ["", "osmesa"]
