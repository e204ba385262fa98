"""Every replay works with every learner of discrete actions on every small grid: it learns, evaluates, says what
it drew."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from harness import registry
from harness.interfaces import Actions, Observations

SHORT = ("training.steps=240", "evaluation.every=80", "learner.learning_starts=64", "judge.delay=16", "seeds=[0,1]")


GRID, CHOICES = Observations((5, 5, 3), "uint8", (11, 6, 4)), Actions(5)
FITTING = [name for name in registry.names("learner") if not registry.get("learner", name)().fits(GRID, CHOICES)]


@pytest.mark.parametrize("learner", FITTING)
@pytest.mark.parametrize("replay", registry.names("replay"))
def test_a_replay_with_a_learner_trains_on_5x5_6x6_and_8x8(train, replay: str, learner: str) -> None:
    judged = registry.get("replay", replay).judged
    settings = [text for text in SHORT if judged or not text.startswith("judge")]
    study = train(f"method={replay}", f"learner={learner}", "task=5x5,6x6,8x8", *settings, packs=[(0, 1)])
    found = sorted(study.glob("*/*/*/seed-*"))
    assert [path.parts[-3] for path in found] == ["5x5", "5x5", "6x6", "6x6", "8x8", "8x8"]
    for path in found:
        assert len(pq.read_table(path / "evaluations.parquet")) == 3 * 2
        last = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
        assert last["grad_norm"] > 0 and last["loss"] >= 0
        # every draw belongs to a phase of the task
        assert sum(last[f"drawn/{event}"] for event in ("key", "door", "goal")) == pytest.approx(1.0)
    first, second = (load_file(path / "policy.safetensors") for path in found[:2])
    assert any(first[name].tobytes() != second[name].tobytes() for name in first), "seeds are not alike"
