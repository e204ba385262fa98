"""A difference that is planted in a copy of a study is found, whatever it is in, and durations are none."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from guidebench.harness.models.calls import Answer, ChatCall, Message, Ticket, Usage
from guidebench.harness.models.cassette import Cassette, CassetteEntry
from tools.chaos import comparing

RUN = "classic/CartPole-v1/per-0123456789/seed-0"
CELL_RUN = "0123456789/0"
TOOK = Usage(calls=1, tokens_in=70, seconds=0.25)
LEDGER = {"step": 60, "questions": 3, "calls": 2, "billed_calls": 2, "seconds": 0.5, "billed_seconds": 0.5}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a study of one run that asked two questions; return its directory."""
    study = tmp_path_factory.mktemp("reference") / "study"
    run = study / RUN
    run.mkdir(parents=True)
    rows = [{"step": step, "episode": 0, "return": float(step)} for step in (30, 60)]
    pq.write_table(pa.Table.from_pylist(rows), run / "evaluations.parquet")
    pq.write_table(pa.Table.from_pylist([{"step": 30, "score": 0.5}]), run / "judgements.parquet")
    pq.write_table(pa.Table.from_pylist([{"step": 30, "seconds": 1.0}]), run / "timings.parquet")
    save_file({"weight": np.arange(4, dtype=np.float32)}, run / "policy.safetensors")
    (run / "ledger.jsonl").write_text(json.dumps(LEDGER) + "\n")
    (run / "run.json").write_text(json.dumps({"status": "finished", "step": 60, "provenance": {"commit": "a"}}))
    (study / "models").mkdir()
    cassette = Cassette([], study / "models" / "cassette.sqlite")
    for text in ("a", "b"):
        recorded_request = ChatCall((Message("user", (text,)),)).request({"model": "tiny"}, None)
        answer = Answer(f"answer {text}", "", TOOK, TOOK, {})
        cassette.record(CassetteEntry(recorded_request, Ticket(CELL_RUN, 0, 8, "chat"), "tiny", answer, {}, TOOK))
    cassette.close()
    return study


@pytest.fixture
def copy(reference: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reference, tmp_path / "study"))


def rewrite_ledger(study: Path, **changes: object) -> None:
    (study / RUN / "ledger.jsonl").write_text(json.dumps(LEDGER | changes) + "\n")


def change_database(study: Path, statement: str) -> None:
    with closing(sqlite3.connect(study / "models" / "cassette.sqlite")) as db, db:
        db.execute(statement)


def change_evaluation(study: Path) -> None:
    rows = pq.read_table(study / RUN / "evaluations.parquet").to_pylist()
    rows[1]["return"] += 2.0**-40
    pq.write_table(pa.Table.from_pylist(rows), study / RUN / "evaluations.parquet")


def change_policy(study: Path) -> None:
    policy = load_file(study / RUN / "policy.safetensors")
    policy["weight"][3] = np.nextafter(policy["weight"][3], 9, dtype=np.float32)
    save_file(policy, study / RUN / "policy.safetensors")


def change_judgement(study: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"step": 30, "score": 0.25}]), study / RUN / "judgements.parquet")


PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "evaluation": (change_evaluation, "evaluations.parquet differs from row 1 of 2 on: return is 60.0000"),
    "policy": (change_policy, "policy.safetensors differs"),
    "judgement": (change_judgement, "judgements.parquet differs from row 0 of 1 on: score is 0.25 instead of 0.5"),
    "ledger": (lambda study: rewrite_ledger(study, questions=4), "step 60: questions is 4 instead of 3"),
    "status": (
        lambda study: (study / RUN / "run.json").write_text('{"status": "failed", "step": 60}'),
        "run.json: status is 'failed' instead of 'finished'",
    ),
    "missing log": (lambda study: (study / RUN / "judgements.parquet").unlink(), "judgements.parquet is missing"),
    "checkpoint": (
        lambda study: (study / RUN / ".checkpoint-8").mkdir(), ".checkpoint-8 should not be there"
    ),
    "answer": (
        lambda study: change_database(study, "UPDATE answers SET value = '\"other\"' WHERE value LIKE '%b%'"),
        "recorded answers differ: 1 only without faults, 1 only with them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_found(name: str, reference: Path, copy: Path) -> None:
    plant, says = PLANTED[name]
    assert comparing.differences(reference, copy) == []
    plant(copy)
    (difference,) = comparing.differences(reference, copy)
    assert says in difference


def test_durations_and_what_was_billed_are_no_difference(reference: Path, copy: Path) -> None:
    rewrite_ledger(copy, seconds=9.0, billed_seconds=9.0, billed_calls=3)
    pq.write_table(pa.Table.from_pylist([{"step": 30, "seconds": 2.0}]), copy / RUN / "timings.parquet")
    assert comparing.differences(reference, copy) == []


@pytest.mark.parametrize(("questions", "says"), [(2, []), (4, ["questions is 4, after [] and before [3]"])])
def test_the_row_of_a_stop_lies_between_those_around_it(
    reference: Path, copy: Path, questions: int, says: list[str]
) -> None:
    rows = [LEDGER | {"step": 25, "questions": questions, "billed_calls": 1}, LEDGER]
    (copy / RUN / "ledger.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    differences = comparing.differences(reference, copy)
    assert len(differences) == len(says) and all(text in differences[0] for text in says)
    assert "the row of step 25  is missing" in comparing.differences(copy, reference)[0]


@pytest.mark.parametrize(
    ("calls", "billed", "received", "cut_off", "says"),
    [
        (2, 2, 2, 0, ""),
        (2, 2, None, None, ""),
        (3, 3, 3, 1, ""),
        (3, 3, 2, 1, ""),
        (3, 3, 4, 1, "the server received 4 requests, and 3 are recorded as spent"),
        (4, 4, 2, 1, "4 requests are recorded as spent, and the server received 2"),
        (4, 4, 4, 1, "4 calls were made for 2 answers"),
        (1, 1, 1, 1, "2 answers are recorded, and only 1 calls as spent"),
        (2, 1, 2, 0, "the ledgers hold 1 billed calls, and the accounts of the runs 2"),
    ],
)
def test_what_was_spent_agrees_with_the_server_the_answers_and_the_ledger(
    copy: Path, calls: int, billed: int, received: int | None, cut_off: int | None, says: str
) -> None:
    change_database(copy, f"UPDATE spent SET calls = {calls}")
    rewrite_ledger(copy, billed_calls=billed)
    complaints = comparing.misspent(copy, received, cut_off)
    assert says in complaints[0] if says else complaints == [], complaints
