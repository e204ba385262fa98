"""Registers the tasks of this project's suites with Gymnasium, as `guidebench/SUITE.TASK-vN`.

    import gymnasium
    import guidebench.envs

    env = gymnasium.make("guidebench/minigrid_doorkey.8x8-v1")

N is the version of the suite, which rises when its tasks change, so an id with another N is refused. Keyword arguments
are settings of the suite, `profile` and `difficulty`, as for `guidebench.make`. The id
`guidebench.envs:guidebench/minigrid_doorkey.8x8-v1` imports this module by itself, for example in another process.

Importing this module imports Gymnasium and nothing else of this project: the tasks are listed here, and a test compares
the list with the suites.
"""

from __future__ import annotations

from collections.abc import Mapping

from gymnasium.envs.registration import register

TASKS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "bin_sorting": (1, ("sorting", "forward", "backward", "other")),
    "classic": (1, ("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "HalfCheetah-v5", "Hopper-v5")),
    "crafter": (1, ("game",)),
    "crafter_ood": (3, (
        "stone_sword", "mine_iron", "attack_cow", "deforestation", "mine_diamond", "iron_sword", "attack_cow_zombies",
        "mine_diamond_short", "iron_sword_short", "stone_sword_short", "wood_sword", "free_play",
        "trained", "wooden",
    )),
    "housekeep": (1, ("adjustment_1", "adjustment_2", "adjustment_3")),
    "metaworld": (1, (
        "assembly", "basketball", "bin-picking", "box-close", "button-press", "button-press-topdown",
        "button-press-topdown-wall", "button-press-wall", "coffee-button", "coffee-pull", "coffee-push", "dial-turn",
        "disassemble", "door-close", "door-lock", "door-open", "door-unlock", "drawer-close", "drawer-open",
        "faucet-close", "faucet-open", "hammer", "hand-insert", "handle-press", "handle-press-side", "handle-pull",
        "handle-pull-side", "lever-pull", "peg-insert-side", "peg-unplug-side", "pick-out-of-hole", "pick-place",
        "pick-place-wall", "plate-slide", "plate-slide-back", "plate-slide-back-side", "plate-slide-side", "push",
        "push-back", "push-wall", "reach", "reach-wall", "shelf-place", "soccer", "stick-pull", "stick-push", "sweep",
        "sweep-into", "window-close", "window-open",
    )),
    "metaworld_mt10": (2, (
        "button-press-topdown", "door-open", "drawer-close", "drawer-open", "peg-insert-side", "pick-place", "push",
        "reach", "window-close", "window-open", "mt10",
    )),
    "metaworld_pbrl": (1, (
        "button-press", "drawer-open", "drawer-close", "door-open", "door-unlock", "window-open", "handle-pull",
        "reach",
    )),
    "minigrid_doorkey": (1, ("5x5", "6x6", "7x7", "8x8", "12x12", "16x16")),
    "ogbench_scene": (1, ("task3", "task4", "task5", "button", "drawer", "unlock_window")),
    "point_maze": (2, ("open", "umaze", "medium")),
}  # fmt: skip
"""Suite -> its version and its tasks."""

for _suite, (_version, _tasks) in TASKS.items():
    for _task in _tasks:
        register(
            id=f"guidebench/{_suite}.{_task}-v{_version}",
            entry_point="guidebench.harness.gym.environments:RegisteredEnvironment",
            kwargs={"name": f"{_suite}/{_task}"},
        )
