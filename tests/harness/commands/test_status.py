"""`bench status` of studies whose files are not what they should be."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.launchers import job_files
from guidebench.harness.loop.job import Job
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import LIVE, StudyDirectory

CELL = "suite/task/method-c0ffee"
RUN = f"{CELL}/seed-0"


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Path]:
    """A study of one run, which this process holds."""
    root = tmp_path / "study"
    study = StudyDirectory(root)
    study.write("mine", [], {"c0ffee": {"directory": CELL, "seeds": [0], "label_variant": ""}})
    run = study.run(CELL, 0)
    run.path.mkdir(parents=True)
    (root / CELL / "cell.json").write_text(json.dumps({"steps": 10}))
    (run.path / "ledger.jsonl").write_text("{}\n")
    run.update(status="running", step=5, steps=10)
    lease = Lease(run.home, "run")
    lease.acquire()
    run.show(rate=3.0)
    job_files.put(root, Job("mine", str(root), {"suite": "s", "task": "t", "method": "m", "cell": "c0ffee"}, (0,)))
    yield root
    lease.release()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("study.json", "study.json cannot be read as JSON"),
        (f"{RUN}/run.json", "run.json cannot be read as JSON"),
        (f"{CELL}/cell.json", "5 of 10"),
        (f"{RUN}/ledger.jsonl", "5 of 10"),
        (f"{RUN}/{LIVE}", "5 of 10"),
    ],
)
def test_a_fifo_in_place_of_a_record_is_told_and_not_waited_for(
    study: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    path = study / name
    assert path.is_file(), "it is a record of this study"
    path.unlink()
    os.mkfifo(path)
    signal.alarm(60)
    try:
        cli.main(["status", str(study)])
    finally:
        signal.alarm(0)
    said = capsys.readouterr()
    assert says in said.out + said.err
