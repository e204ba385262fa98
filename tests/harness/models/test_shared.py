"""A model process whose study is on a disk shared by several machines, with a real process and a server."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.execution import Models
from guidebench.harness.models import exchange, grants, study_models
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.plan import matrix
from guidebench.harness.records import leases
from guidebench.harness.records.leases import Fenced, Lease
from tests.harness.models.canned import completion, serving
from tests.harness.models.test_process import SUITE, answer


@pytest.fixture
def server() -> Iterator[str]:
    with serving(lambda *_: (200, completion("Yes"))) as url:
        yield url


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return tmp_path / "study"


def process(study: Path, url: str) -> ModelProcess:
    settings = {"model": "canned", "base_url": url, "scoring": "literal", "key_variable": "NO_KEY"}
    voices = {"judge": Voice(RegisteredPart("judge", "openai", settings))}
    assignment = Assignment(SUITE, "5x5", voices, {}, cell="cell", models={"budget_calls": 100}, shared=True)
    return ModelProcess(assignment._replace(directory=str(study_models.folder(study))), 60.0)


def ask_judge(judge: ModelProcess, number: int) -> float:
    return float(answer(judge, number, number + 1))


def spent_grants(study: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((study / "models" / "grants").glob("*.spent"))]


def test_a_process_outlives_the_signal_that_ends_its_task_until_its_answers_are_published(
    study: Path, server: str
) -> None:
    judge = process(study, server)
    assert ask_judge(judge, 0) == 1.0 and judge.pid is not None
    os.kill(judge.pid, signal.SIGTERM)  # a scheduler sends it to every process of a task
    assert ask_judge(judge, 1) == 1.0
    scratch = Path(judge._scratch)
    judge.publish()
    assert judge.restarts == 0 and exchange.stats(study).models[0].answers.calls == 2
    assert [grant["calls"] for grant in spent_grants(study)] == [2]
    ask_judge(judge, 2)
    judge.close()
    assert exchange.stats(study).models[0].answers.calls == 3 and not scratch.exists()
    assert grants.settle(study / "models" / "grants", study / "models" / "budget.json")
    assert grants.spent_and_granted(study / "models" / "grants", study / "models" / "budget.json")["calls"] == 3


def test_a_process_that_died_is_followed_by_one_that_publishes_what_it_had_answered(study: Path, server: str) -> None:
    judge = process(study, server)
    ask_judge(judge, 0)
    assert judge.pid is not None
    os.kill(judge.pid, signal.SIGKILL)
    judge.publish()
    assert judge.restarts == 1 and exchange.stats(study).models[0].answers.calls == 1
    judge.close()


def test_a_worker_whose_runs_another_one_has_taken_over_publishes_what_it_spent_and_no_answer(
    study: Path, server: str, tmp_path: Path
) -> None:
    lease = Lease(tmp_path / "run", "run")
    (tmp_path / "run").mkdir()
    lease.acquire()
    judge = process(study, server)
    ask_judge(judge, 0)
    judge.publish([lease.follower()])
    ask_judge(judge, 1)
    lease.follower().write_text("held{}")
    with pytest.raises(Fenced, match="another process has taken over the runs"):
        judge.publish([lease.follower()])
    judge.close(True, [lease.follower()])
    (model,) = exchange.stats(study).models
    assert (model.answers.calls, model.spent.calls) == (1, 2)


def test_the_account_of_a_study_is_open_before_anything_is_granted_and_counts_it_once(study: Path, server: str) -> None:
    words = ["suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "judge=openai", "judge.model=canned"]
    (cell,) = matrix.plan([*words, f"judge.base_url={server}"]).cells
    directory, models = study_models.folder(study), Models(budget_calls=100)
    for calls in (0, 2):
        study_models.check(models, directory, [cell.section("judge")])
        assert grants.spent_and_granted(directory / "grants", directory / "budget.json")["calls"] == calls
        if not calls:
            judge = process(study, server)
            ask_judge(judge, 0)
            ask_judge(judge, 1)
            judge.publish()
    judge.close()
    study_models.settle(directory)
    assert grants.spent_and_granted(directory / "grants", directory / "budget.json")["calls"] == 2


def test_a_study_is_settled_only_while_nobody_holds_a_run(study: Path, server: str, tmp_path: Path) -> None:
    run = study / "run"
    run.mkdir(parents=True)
    lease = Lease(run, "run")
    lease.acquire()
    judge = process(study, server)
    ask_judge(judge, 0)
    judge.publish()
    directory = study_models.folder(study)
    study_models.settle(directory, alone=lambda: leases.all_over([run]))
    assert not (directory / "cassette.sqlite").exists() and (directory / "grants").exists()
    judge.close()
    lease.release()
    study_models.settle(directory, alone=lambda: leases.all_over([run]))
    assert (directory / "cassette.sqlite").exists() and not (directory / "grants").exists()
    with closing(sqlite3.connect(directory / "cassette.sqlite")) as db:
        assert db.execute("SELECT COUNT(*), SUM(calls) FROM spent").fetchone() == (1, 1)
