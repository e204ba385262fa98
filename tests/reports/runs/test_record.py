from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.texts import brief
from guidebench.reports.runs import page, record
from guidebench.reports.runs.reading import LINE, TAIL, tail
from guidebench.results import limits
from tests.reports.conftest import edit


def test_a_finished_run_says_all_that_it_wrote(run: Path) -> None:
    run_record = record.read(run)
    assert (
        run_record.notes == ()
        and run_record.run.status == "finished"
        and run_record.run.step == run_record.run.steps == 600
    )
    assert {"evaluations", "metrics", "judgements", "timings", "ledger", "probes"} <= run_record.rows.keys()
    assert len(run_record.rows["evaluations"]) == 6 and run_record.log is None
    assert run_record.calls.answered == 4 and run_record.calls.failed == 1
    assert ("training.steps", "600", "profile smoke") in record.settings(run_record.cell)
    assert dict(record.provenance(run_record.run))["hardware"].startswith("processor ")


def test_the_digest_of_a_model_that_ran_here_is_shown_beside_it(run: Path) -> None:
    file, digest = run.parent / "cell.json", 64 * "a"
    assert "SHA-256" not in dict(page._facts(record.read(run)))["judge"]
    edit(file, settings={"judge.digest": {"value": digest, "layer": "files", "source": ""}})
    assert dict(page._facts(record.read(run)))["judge"].endswith(f", SHA-256 {digest}")
    edit(file, settings={"judge.digest": {"value": "<b>", "layer": "files", "source": ""}})
    assert "SHA-256" not in dict(page._facts(record.read(run)))["judge"]


def test_a_damaged_log_costs_its_own_part_alone(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"step": 1}\nnot JSON\n{"step": 2}\n')
    (run / "judgements.jsonl").write_text('{"asked": "x", "applied": 3}\n')
    (run / "evaluations.parquet").write_bytes(b"PAR1 and nothing else")
    run_record = record.read(run)
    assert {"timings", "probes"} <= run_record.rows.keys()
    assert not {"metrics", "judgements", "evaluations"} & run_record.rows.keys()
    assert [note.partition(": ")[0].rpartition("/")[2] for note in run_record.notes if "jsonl" in note] == [
        "metrics.jsonl, row 2",
        "judgements.jsonl, row 1, column 'asked'",
    ]
    assert any("evaluations.parquet cannot be read as Parquet" in note for note in run_record.notes)


def test_damage_elsewhere_in_the_study_does_not_matter(run: Path) -> None:
    (run.parent / "seed-1").mkdir()
    (run.parent / "seed-1" / "run.json").write_text("{")
    assert record.read(run).notes == ()
    (run.parents[3] / "study.json").write_text("[]")
    (note,) = record.read(run).notes
    assert "what the study says of this run is left out" in note and "study.json holds list" in note


@pytest.mark.parametrize("name", ["run.json", "../cell.json"])
def test_without_its_own_documents_a_run_is_none(run: Path, name: str) -> None:
    for content in ("{", "[" * 100_000, '{"schema": 99}', " " * (2**24 + 1)):
        (run / name).write_text(content)
        words = "cannot be read as JSON|has schema 99|has 16,777,217 bytes"
        with pytest.raises(UserError, match=f"{Path(name).name} ({words})"):
            record.read(run)


def test_of_a_gigabyte_of_log_only_the_end_is_read(run: Path) -> None:
    study = run.parents[3]
    name = f"{run.parent.name}-0.log"
    with open(study / "logs" / name, "wb") as file:
        file.truncate(2**30)
        file.seek(2**30)
        file.write(b"x" * 10_000 + b"\n" + b"".join(b"line %d\n" % number for number in range(1_000)))
    start = time.perf_counter()
    log = record.read(run).log
    assert log is not None and log.name == name and time.perf_counter() - start < 20
    assert log.text.splitlines() == [f"line {number}" for number in range(800, 1_000)]
    assert log.left_out == os.path.getsize(study / "logs" / name) - len(log.text) - 1


def test_a_log_without_line_ends_is_cut_and_what_steers_a_terminal_is_visible(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"y" * 10 * TAIL)
    text, left_out = tail(tmp_path / "log", 5)
    assert text == f"{'y' * LINE} … ({TAIL - LINE:,} characters left out)" and left_out == 9 * TAIL
    assert brief("a\x1b[31m\x00\u202eb\ud800\n\tc") == "a␛[31m␀\\u{202e}b\\u{d800}\n\tc"


def test_the_newest_log_of_the_workers_that_trained_the_seed_is_shown(run: Path) -> None:
    logs, begin = run.parents[3] / "logs", run.parent.name
    for age, name in enumerate((f"{begin}-1_2.log", f"{begin}-0_1.log", f"{begin}-0_to_9.log", "other-0.log")):
        (logs / name).write_text(name)
        os.utime(logs / name, (2e9 - age, 2e9 - age))
    log = record.read(run).log
    assert log is not None and log.text == f"{begin}-0_1.log"


def test_what_is_too_large_is_named_and_not_read(run: Path) -> None:
    with open(run / "metrics.jsonl", "wb") as file:
        file.truncate(record.ROWS + 1)
    pq.write_table(pa.table({"step": np.zeros(limits.ROWS + 1, np.int8)}), run / "evaluations.parquet")
    run_record = record.read(run)
    assert any("metrics.jsonl has 67,108,865 bytes; at most 67,108,864 are read" in note for note in run_record.notes)
    assert any("evaluations.parquet has 250,001 rows; at most 250,000 are read" in note for note in run_record.notes)
    assert "judgements" in run_record.rows


def test_links_out_of_the_study_are_not_followed(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1, "secret": 7}\n')
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(secret)
    (run.parents[3] / "logs" / f"{run.parent.name}-0.log").unlink()
    (run.parents[3] / "logs" / f"{run.parent.name}-0.log").symlink_to(secret)
    run_record = record.read(run)
    assert "metrics" not in run_record.rows and run_record.log is None
    assert any("metrics.jsonl is no file of the study" in note for note in run_record.notes)


def test_what_is_no_run_or_has_not_begun_is_refused_and_one_that_could_not_start_says_why(run: Path) -> None:
    study, cell = run.parents[3], run.parent
    (cell / "seed-1").mkdir()
    for place, says in (
        (study, "is not a run; give a directory such as STUDY/SUITE/TASK/METHOD-CELL/seed-0"),
        (study / "minigrid_doorkey", "is not a run"),
        (study / "absent/seed-0", "is not a run"),
        (cell / "seed-1", "seed-1 has not begun, so there is nothing to show; `bench status"),
        (cell / "seed-2", "seed-2 has not begun, so there is nothing to show; `bench status"),
    ):
        with pytest.raises(UserError, match=says):
            record.read(place)
    (cell / "seed-1" / "run.json").write_text('{"schema": 2, "status": "failed", "error": "Traceback: no memory"}')
    run_record = record.read(cell / "seed-1")
    assert (
        run_record.run.status == "failed" and run_record.run.error == "Traceback: no memory" and run_record.rows == {}
    )
