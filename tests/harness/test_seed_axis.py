"""Seed 3 draws the same numbers alone or beside others: on a CPU it is the same run bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file

STEPS = (
    "training.steps=5000",
    "evaluation.every=1000",
    "evaluation.episodes=4",
    "learner.learning_starts=128",
)


def runs(study: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in study.glob("*/*/*/seed-*/evaluations.parquet")}


@pytest.mark.parametrize("method", ["uer", "per", "vlm_rb"])
def test_one_seed_alone_and_three_together_are_the_same_run_over_5000_steps(train, method: str) -> None:
    together = train(f"method={method}", "seeds=[0,1,2]", *STEPS, packs=[(0, 1, 2)])
    alone = train(f"method={method}", "seeds=[0,1,2]", *STEPS, packs=[(0,), (1,), (2,)])
    found, single = runs(together), runs(alone)
    assert set(found) == set(single) == {"seed-0", "seed-1", "seed-2"}
    for seed, path in found.items():
        assert path.read_bytes() == single[seed].read_bytes(), seed
        ours, theirs = (load_file(file.parent / "policy.safetensors") for file in (path, single[seed]))
        assert {name: value.tobytes() for name, value in ours.items()} == {
            name: value.tobytes() for name, value in theirs.items()
        }
    policies = [load_file(path.parent / "policy.safetensors") for path in found.values()]
    assert any(policies[0][name].tobytes() != policies[1][name].tobytes() for name in policies[0])
