"""Seed 3 draws the same numbers alone or beside others: on a CPU it is the same run bit for bit.

Here one seed runs alone; `test_resume` compares every seed in other packings, in shorter runs of each replay.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file

SHORT = (
    "seeds=[0,2]", "training.steps=300", "evaluation.every=100", "evaluation.episodes=2", "learner.channels=4",
    "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=64",
    "learner.target_every=80",
)  # fmt: skip


def runs(study: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in study.glob("*/*/*/seed-*/evaluations.parquet")}


@pytest.mark.parametrize(("method", "learner"), [("vlm_rb", "dqn"), ("relo", "iqn")])
def test_one_seed_alone_and_beside_another_is_the_same_run(train, method: str, learner: str) -> None:
    settings = (f"method={method}", f"learner={learner}", *SHORT)
    together = train(*settings, packs=[(0, 2)])
    alone = train(*settings, packs=[(2,)])
    found, single = runs(together), runs(alone)
    assert set(found) == {"seed-0", "seed-2"} and set(single) == {"seed-2"}
    assert found["seed-2"].read_bytes() == single["seed-2"].read_bytes()
    first, ours, theirs = (
        load_file(path.parent / "policy.safetensors") for path in (found["seed-0"], found["seed-2"], single["seed-2"])
    )
    assert {name: value.tobytes() for name, value in ours.items()} == {
        name: value.tobytes() for name, value in theirs.items()
    }
    assert any(first[name].tobytes() != ours[name].tobytes() for name in first)
