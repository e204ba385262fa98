"""Agreement of the judge `motion` with what happens in OGBench's scene, clip by clip.

    python -m benchmarks.motion [--json] [--episodes 2] [--perturbation none]

Episodes of every task are played by the package's scripted oracles, by the same with action noise (standard deviation
.5), and by a random policy (an action is kept for ten steps on average). Clips are those that a run asks about, of 32
transitions each. Ground truth is either the suite's *events* (a subgoal newly fulfilled), which the judge `oracle`
gets, or *changes* (drawer, window or cube moved by 3 cm within the clip, or a button switched), which this judge
detects.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.service import padded
from guidebench.suites.ogbench_scene import TASKS, SceneDrawing, dynamics
from guidebench.suites.ogbench_scene.demonstrations import SOLUTIONS, Expert
from guidebench.suites.ogbench_scene.motion import MOVED, MotionJudge
from guidebench.suites.ogbench_scene.task import DRAWN_GEOMS, SNAPSHOT, Scene

CLIP = 32
FIRST = 1_000
"""Seed of the first episode; the judge's thresholds were chosen on other seeds."""
LIMIT = 400
"""Most steps of an episode in this benchmark; an oracle that has failed by then stands still."""
POLICIES = ("oracle", "noisy oracle", "random")


def episode(name: str, seed: int, policy: str) -> tuple[Array, Array]:
    """Play an episode and return snapshots [T, n] after each step and events [T, E]."""
    task, random = Scene(name), np.random.default_rng(seed)
    observation = task.reset(seed)
    expert, action = Expert(task, SOLUTIONS[name], seed), random.uniform(-1, 1, 5)
    snapshots, events = [], []
    for _ in range(LIMIT):
        if policy == "random":
            action = random.uniform(-1, 1, 5) if random.random() < 0.1 else action
        else:
            noise = random.normal(0, 0.5, 5) if policy == "noisy oracle" else 0.0
            action = np.clip(expert(observation) + noise, -1, 1)
        step = task.step(np.float32(action))
        observation = step.observation
        snapshots.append(task.snapshot())
        events.append(task.events().copy())
        if step.terminated or step.truncated:
            break
    return np.stack(snapshots), np.stack(events)


def changed(snapshots: Array) -> bool:
    """Return whether a change that the judge should detect happened within a clip."""
    model, states = dynamics.model(), snapshots.view(SNAPSHOT)[:, 0]
    qpos = states["qpos"]
    cube, drawer, window = (
        int(model.joint(joint).qposadr[0]) for joint in ("object_joint_0", "drawer_slide", "window_slide")
    )
    ranges = np.ptp(qpos, axis=0)
    moved = max(ranges[drawer], ranges[window], float(np.linalg.norm(ranges[cube : cube + 3]))) >= MOVED
    buttons = [DRAWN_GEOMS.index(f"btngeom_{number}") for number in range(2)]
    return bool(moved or np.ptp(states["geom_rgba"][:, buttons], axis=0).any())


def clips(policy: str, episodes: int) -> Iterator[tuple[Array, bool, bool]]:
    """Yield the snapshots of a clip, whether it contains an event, and whether it contains a change."""
    for name in TASKS:
        for seed in range(FIRST, FIRST + episodes):
            snapshots, events = episode(name, seed, policy)
            for start in range(0, len(snapshots), CLIP):
                part = snapshots[start : start + CLIP]
                yield padded(part, CLIP), bool(events[start : start + CLIP].any()), changed(part)


def measure(episodes: int, perturbation: Any) -> dict[str, Any]:
    """Return hits and false alarms on each policy's clips, by either ground truth."""
    drawer, judge = SceneDrawing(perturbation=perturbation).spawn(TASKS[0]), MotionJudge()
    rows = []
    for policy in POLICIES:
        verdicts = np.array([(judge([drawer(clip)])[0], *truths) for clip, *truths in clips(policy, episodes)], bool)
        for number, truth in enumerate(("events", "changes"), start=1):
            yes, true = verdicts[:, 0], verdicts[:, number]
            counts = {"true": int(true.sum()), "hits": int((yes & true).sum())}
            alarms = {"false": int((~true).sum()), "alarms": int((yes & ~true).sum())}
            rows.append({"policy": policy, "truth": truth, "clips": len(verdicts), **counts, **alarms})
    return {"perturbation": perturbation, "episodes": episodes, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2, help="episodes per task and policy (default %(default)s)")
    parser.add_argument("--perturbation", default="none", choices=("none", "sprite_swap", "texture"))
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(options.episodes, options.perturbation)
    if options.json:
        print(json.dumps(figures))
        return
    print("| episodes of | clips | truth | yes where true | yes where not |\n| --- | --- | --- | --- | --- |")
    for row in figures["rows"]:
        hits, alarms = f"{row['hits']} of {row['true']}", f"{row['alarms']} of {row['false']}"
        print(f"| {row['policy']} | {row['clips']} | {row['truth']} | {hits} | {alarms} |")


if __name__ == "__main__":
    main()
