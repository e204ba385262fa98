"""Seed 3 draws the same numbers alone or beside others: on a CPU it is the same run bit for bit.

Here one seed runs alone for long; `test_resume` compares every seed in other packings, in shorter runs of each replay.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file

from guidebench.harness import registry

STEPS = ("evaluation.episodes=4", "learner.learning_starts=128", "learner.target_every=150")


def runs(study: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in study.glob("*/*/*/seed-*/evaluations.parquet")}


@pytest.mark.parametrize(
    ("method", "learner", "steps"),
    [
        ("vlm_rb", "dqn", 1500),
        *((name, "dqn", 600) for name in registry.names("replay") if name != "vlm_rb"),
        ("relo", "iqn", 600),
    ],
)
def test_one_seed_alone_and_three_together_are_the_same_run(train, method: str, learner: str, steps: int) -> None:
    length = (f"training.steps={steps}", f"evaluation.every={steps // 5}")
    settings = (f"method={method}", f"learner={learner}", "seeds=[0,1,2]", *length, *STEPS)
    together = train(*settings, packs=[(0, 1, 2)])
    alone = train(*settings, packs=[(2,)])
    found, single = runs(together), runs(alone)
    assert set(found) == {"seed-0", "seed-1", "seed-2"} and set(single) == {"seed-2"}
    assert found["seed-2"].read_bytes() == single["seed-2"].read_bytes()
    first, ours, theirs = (
        load_file(path.parent / "policy.safetensors") for path in (found["seed-0"], found["seed-2"], single["seed-2"])
    )
    assert {name: value.tobytes() for name, value in ours.items()} == {
        name: value.tobytes() for name, value in theirs.items()
    }
    assert any(first[name].tobytes() != ours[name].tobytes() for name in first)
