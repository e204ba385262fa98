"""VLM-RB on DoorKey judged by a server: recorded, replayed without the server, and robust to failing calls."""

import json
from pathlib import Path

import pytest

from guidebench.harness.errors import Stopped
from guidebench.harness.models import exchange
from tests.harness.models.faults import FAULTS, PASSED, random_plan
from tests.harness.models.test_runs import SETTINGS, lines, rows

pytestmark = pytest.mark.waits
NOWHERE = "http://127.0.0.1:9/v1"
SERVED = ("judge=openai", "judge.scoring=literal", "judge.attempts=2", "seeds=[0]")


def command(model: str, url: str, timeout: float) -> tuple[str, ...]:
    plain = (text for text in SETTINGS if not text.startswith(("judge=", "judge.d", "training", "evaluation")))
    length = ("training.steps=240", "evaluation.every=120", "judge.delay=64")
    return (*plain, *length, *SERVED, f"judge.model={model}", f"judge.base_url={url}", f"judge.timeout={timeout}")


def test_a_run_of_which_a_third_of_calls_fail_ends_and_its_ledger_adds_up(train, proxy, canned, tmp_path: Path) -> None:
    proxy.plan = random_plan(0.3, seed=5, faults=[fault for fault in FAULTS if fault != "hang"])
    study, stop = tmp_path / "failing", (call == 130 for call in range(1, 10_000)).__next__
    words = command(canned.name, proxy.url, 60)
    with pytest.raises(Stopped):
        train(*words, packs=[(0,)], directory=study, stop=stop)
    train(*words, packs=[(0,)], directory=study)

    judged, ledger = lines(study, "judgements"), lines(study, "ledger")
    failed = [row["failure"] for row in judged if "failure" in row]
    assert 0 < len(failed) < len(judged) / 2 and len(set(proxy.faults) - {PASSED}) >= 4
    assert ledger[-1]["failures"] == len(failed)
    (model,) = exchange.stats(study).models
    assert model.spent.calls == len(proxy.faults) >= ledger[-1]["billed_calls"]
    assert sum(model.failures.values()) >= len(failed)
    run = json.loads(next(study.glob("*/*/*/seed-0/run.json")).read_text())
    assert run["status"] == "finished"

    replayed = train(*words, packs=[(0,)], models={"mode": "replay", "cassette": str(study)})
    assert rows(replayed, "evaluations.parquet") == rows(study, "evaluations.parquet")
    assert rows(replayed, "judgements.parquet") == rows(study, "judgements.parquet")
