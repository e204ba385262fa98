"""A run labelled by a served model: stopped, then continued from the cassette, the server gone, to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guidebench.baselines.teachers.llm import Scripted
from guidebench.harness.errors import Stopped
from guidebench.harness.models.calls import Message
from tests.conftest import require
from tests.harness.models.canned import completion, serving

require("openai")
pytest.importorskip("gymnasium_robotics")
COMMAND = (
    "suite=point_maze", "task=umaze", "method=rl_sallm_f", "seeds=[0,1]", "chat=openai",
    "chat.delay=30", "training.steps=400", "evaluation.every=200",
)  # fmt: skip


def written(study: Path) -> dict[str, bytes]:
    """What a run's results are, by seed: labels, evaluations, the policy."""
    names = ("labels.parquet", "evaluations.parquet", "policy.safetensors")
    return {f"{run.name}/{name}": (run / name).read_bytes() for run in study.glob("*/*/*/seed-*") for name in names}


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_the_cassette_with_the_server_gone(train: Any) -> None:
    """Behind the server sits the hand-written chat, which sees what the server was sent."""
    reader = Scripted(error=0.0, first_bias=0.3).spawn(None, "")  # type: ignore[arg-type]
    asked = 0

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        nonlocal asked
        asked += 1
        talk = tuple(Message(message["role"], (message["content"],)) for message in body["messages"])
        return 200, completion(reader(talk))

    with serving(answers) as url:
        served = (*COMMAND, f"chat.base_url={url}")
        whole = train(*served, packs=[(0, 1)])
        first, broken = asked, whole.with_name("broken")
        stop = (call == 270 for call in range(1, 100_000)).__next__  # a session is asked at 256 and answered at 286
        with pytest.raises(Stopped):
            train(*served, packs=[(0, 1)], directory=broken, stop=stop)
    assert first > 40 and asked > first
    replayed = {"mode": "replay", "cassette": str(whole)}
    train(*COMMAND, packs=[(1,), (0,)], directory=broken, models=replayed)
    assert len(written(whole)) == 6 and written(broken) == written(whole)
