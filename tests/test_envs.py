"""Our tasks are registered with Gymnasium, follow its interface, and are made by its own functions in any process."""

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import error
from gymnasium.utils.env_checker import check_env, data_equivalence

from guidebench import envs
from guidebench.harness import registry
from guidebench.harness.errors import UserError

IDS = [f"guidebench/{suite}.{task}-v{version}" for suite, (version, tasks) in envs.TASKS.items() for task in tasks]
FIRST = [f"guidebench/{suite}.{tasks[0]}-v{version}" for suite, (version, tasks) in envs.TASKS.items()]
WITHOUT_OPENGL = ("classic", "crafter", "housekeep", "minigrid")
"""Beginnings of names of suites that draw without OpenGL, but for the two tasks of `classic` on MuJoCo."""
WORDS = "ignore:.*(infinity|minimum value|maximum value).*:UserWarning"
"""What Gymnasium says about an observation without bounds."""


def test_the_list_is_that_of_the_suites_with_a_fixed_list_of_tasks() -> None:
    parts = {name: registry.get("suite", name) for name in registry.names("suite")}
    assert {name: (part.version, tuple(part.tasks)) for name, part in parts.items() if part.tasks} == envs.TASKS, (
        "write suite, version and tasks in guidebench/envs.py as the suites declare them"
    )
    assert {*IDS} <= {*gymnasium.registry}


PROCESS = """
import sys, guidebench.envs
print([name for name in sys.modules if name.startswith("guidebench") or name in ("torch", "minigrid", "mujoco")])
import gymnasium
del sys.modules["guidebench.envs"]
[gymnasium.registry.pop(name) for name in list(gymnasium.registry) if name.startswith("guidebench/")]
env = gymnasium.make("guidebench.envs:guidebench/classic.CartPole-v1-v1")
print(env.spec.id, env.reset(seed=0)[0].shape)
"""


def test_importing_the_ids_imports_nothing_else_and_an_id_imports_them_itself() -> None:
    process = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == [
        "['guidebench', 'guidebench.envs']",
        "guidebench/classic.CartPole-v1-v1 (4,)",
    ]


@pytest.mark.parametrize(
    ("id", "kind", "says"),
    [
        ("crafter_ood.stone_sword-v1", error.DeprecatedEnv, "use `guidebench/crafter_ood.stone_sword-v3` instead"),
        ("minigrid_doorkey.8x8-v9", error.VersionNotFound, r"versioned environments: \[ `v1` \]"),
        ("minigrid_doorkey.9x9-v1", error.NameNotFound, "Did you mean: `minigrid_doorkey.[0-9]x[0-9]`"),
    ],
)
def test_an_id_that_is_not_here_is_refused_with_the_one_that_is(id: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        gymnasium.make(f"guidebench/{id}")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gaol": "hidden"}, "unexpected keyword argument 'gaol'.*did you mean 'goal'"),
        ({"goal": "none"}, "goal=none: expected one of"),
        ({"profile": "fast"}, "unknown profile"),
        ({"render_mode": "ansi"}, "render_mode='ansi': expected 'rgb_array' or None"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*render_mode.*:UserWarning")
def test_arguments_are_those_of_the_suite(settings: dict[str, Any], says: str, opengl: None) -> None:
    with pytest.raises(UserError, match=says) as raised:
        gymnasium.make("guidebench/metaworld.reach-v1", **settings)
    assert isinstance(raised.value, TypeError) == ("gaol" in settings), "TorchRL tries arguments until none is refused"


def test_without_a_render_mode_nothing_is_drawn() -> None:
    environment = gymnasium.make("guidebench/minigrid_doorkey.5x5-v1", render_mode=None)
    environment.reset(seed=0)
    with pytest.raises(UserError, match="made with render_mode=None; make it with render_mode='rgb_array'"):
        environment.unwrapped.render()


@pytest.mark.parametrize("id", ["classic.Pendulum-v1-v1", "housekeep.adjustment_1-v1", "minigrid_doorkey.5x5-v1"])
@pytest.mark.filterwarnings(WORDS)
def test_four_copies_side_by_side_play_alike_here_and_in_processes(id: str) -> None:
    plays = []
    for mode in ("sync", "async"):
        copies = gymnasium.make_vec(f"guidebench/{id}", num_envs=4, vectorization_mode=mode)
        copies.action_space.seed(0)
        observations, _ = copies.reset(seed=[0, 1, 2, 0])
        play = [observations]
        for _ in range(5):
            observations, rewards, *_ = copies.step(copies.action_space.sample())
            play += [observations, rewards]
        copies.close()
        plays.append(play)
    for in_turn, in_processes in zip(*plays, strict=True):
        assert data_equivalence(in_turn, in_processes, exact=True)
    first = plays[0][0]
    rows = np.concatenate(
        [np.reshape(part, (4, -1)) for part in (first.values() if isinstance(first, dict) else [first])], 1
    )
    assert np.array_equal(rows[0], rows[3]) and not np.array_equal(rows[0], rows[1])


def checked(id: str, request: pytest.FixtureRequest) -> None:
    if not id.split("/")[1].startswith(WITHOUT_OPENGL) or "-v5-" in id:
        request.getfixturevalue("opengl")
    environment = gymnasium.make(id).unwrapped
    check_env(environment)
    environment.reset(seed=3)
    assert environment.step(environment.action_space.sample())[-1] == {"is_success": False}
    frame = environment.render()
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.std() > 0


@pytest.mark.parametrize("id", FIRST)
@pytest.mark.filterwarnings(WORDS)
def test_a_task_of_every_suite_follows_the_interface_of_gymnasium(id: str, request: pytest.FixtureRequest) -> None:
    checked(id, request)


@pytest.mark.release
@pytest.mark.parametrize("id", [id for id in IDS if id not in FIRST])
@pytest.mark.filterwarnings(WORDS)
def test_every_task_follows_the_interface_of_gymnasium(id: str, request: pytest.FixtureRequest) -> None:
    checked(id, request)
