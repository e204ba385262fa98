"""Jobs and events as files: what a remote worker receives, and what it reports back."""

import json
import subprocess
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.launchers import base, job_files
from guidebench.harness.launchers.base import Slot
from guidebench.harness.loop.job import EXIT_USER_ERROR, Job

JOB = Job("mine", "/somewhere/else", {"cell": "abc", "method": "uer", "suite": "s", "task": "t"}, (3, 4))


def test_a_job_is_read_where_its_study_is_mounted(tmp_path: Path) -> None:
    path = job_files.put(tmp_path, JOB)
    assert path == tmp_path / "jobs" / "uer-abc-3_4.json"
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert job_files.read(moved / "jobs" / path.name) == Job("mine", str(moved), JOB.cell, (3, 4))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cell": 3, "seeds": []}', '{"cell": {}, "seeds": [0], "more": 1}'])
def test_a_file_that_is_no_job_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs" / "job.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(UserError, match="no job of this version"):
        job_files.read(path)


def test_events_are_heard_once_in_order_and_only_when_whole(tmp_path: Path) -> None:
    path = job_files.put(tmp_path, JOB)
    hearing = job_files.Hearing(path)
    assert list(hearing) == []
    job_files.tell(path, {"event": "started", "step": 0})
    job_files.tell(path, {"event": "progress", "step": 5})
    assert list(hearing) == [("started", {"step": 0}), ("progress", {"step": 5})]
    with open(job_files.events_of(path), "ab") as file:
        file.write(b'not JSON\n[1]\n{"step": 6}\n{"event": "progr')
        file.flush()
        assert list(hearing) == []
        file.write(b'ess", "step": 7}\n')
    assert list(hearing) == [("progress", {"step": 7})]
    assert list(job_files.Hearing(path, new=True)) == [] and len(list(job_files.Hearing(path))) == 3


def test_a_worker_whose_job_file_is_not_seen_says_so(tmp_path: Path) -> None:
    command = base.command(str(tmp_path / "jobs" / "job.json"))
    done = subprocess.run(command, env=base.environment(Slot("cpu")), capture_output=True, text=True)
    assert done.returncode == EXIT_USER_ERROR
    assert "jobs/job.json cannot be read here" in done.stderr and "is its directory shared?" in done.stderr


def test_a_worker_gets_one_thread_and_only_its_gpu() -> None:
    variables = base.environment(
        Slot("cuda", "1"), {"PYTHONPATH": "/mine", "CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/h"}
    )
    assert (
        variables["CUDA_VISIBLE_DEVICES"] == "1" and variables["HOME"] == "/h" and variables["OMP_NUM_THREADS"] == "1"
    )
    assert variables["PYTHONPATH"].endswith(":/mine")
    assert base.environment(Slot("cpu"), {})["CUDA_VISIBLE_DEVICES"] == ""
    assert json.loads(JOB.dumps())["seeds"] == [3, 4]
