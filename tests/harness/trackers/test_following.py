"""Following a study: the report is sent too, offsets are kept, one process serves each tracker, and plug-ins work."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from guidebench.harness.commands import cli, track_
from guidebench.harness.errors import Notice, UserError
from guidebench.harness.records import attempts, leases
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import queues
from guidebench.harness.trackers import following
from tests import programs
from tests.harness.trackers.test_points import CELL, append_rows
from tests.refusals import check_refused

PLUGIN = '''
import json
from pathlib import Path
from guidebench.harness.registry import register
from guidebench.harness.trackers import START, Offset, Tracker

@register.tracker("notebook")
class Notebook(Tracker):
    """Lines in a file of the study."""

    name = "notebook"
    modules = ("json",)

    def held(self, run, offset):
        return offset

    def begin(self, run):
        self.write({"begin": run.name, "steps": run.settings["steps"]})
        return Offset(id="page")

    def put(self, run, offset, points):
        for step, values in points:
            self.write({"step": step, **values})
        if (self.directory / "broken").exists():
            raise RuntimeError("out of ink")

    def end(self, run, offset, status):
        self.write({"end": status})

    def publish(self, report):
        (table,) = report.tables.values()
        self.write({"figures": sorted(report.pictures), "rows": [list(row) for row in table.rows]})

    def write(self, line):
        with open(self.directory / "notebook.jsonl", "a") as file:
            file.write(json.dumps(line) + "\\n")
'''


@pytest.fixture
def study(tmp_path: Path, plugin) -> Path:
    """Return a study with one finished run, and install the tracker `notebook` of another package."""
    plugin("my_notebook", PLUGIN, {"tracker": "notebook"})
    directory = tmp_path / "study"
    cells = {"c0ffee": {"directory": "grid/8x8/uer-c0ffee", "seeds": [3], "label_variant": ""}}
    StudyDirectory(directory).write("mine", [], cells)
    run = directory / "grid/8x8/uer-c0ffee/seed-3"
    append_rows(run, "metrics", {"step": 10, "loss": 1.5}, {"step": 20, "loss": 2.5})
    (run / "run.json").write_text(json.dumps({"status": "finished"}))
    (run / "evaluations.jsonl").touch()
    (run.parent / "cell.json").write_text(json.dumps(CELL))
    return directory


def lines(study: Path) -> list[dict]:
    return [json.loads(line) for line in (study / "notebook.jsonl").read_text().splitlines()]


SENT = [
    {"begin": "grid/8x8 uer · quick · seed 3", "steps": 400}, {"step": 10, "metrics/loss": 1.5},
    {"step": 20, "metrics/loss": 2.5}, {"end": "finished"},
]  # fmt: skip


def test_a_tracker_outside_the_tree_is_sent_each_point_once(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert cli.main(["track", str(study), "--to", "notebook"]) == 0
        assert capsys.readouterr().out == "notebook: 1 run, up to step 20\n"
    assert lines(study) == SENT
    offsets = json.loads((study / ".trackers/notebook/offsets.json").read_text())
    assert offsets["runs"] == {"c0ffee/3": {"step": 20, "id": "page", "status": "finished"}}


def test_the_figures_and_the_table_of_a_report_go_along_once(study: Path) -> None:
    folder = study / "report"
    folder.mkdir()
    row = {
        "label": "uer", "suite": "grid", "task": "8x8", "steps": 400, "seeds": [3, 4], "score": {"name": "success"},
        "final": {"estimate": 0.5, "low": 0.25, "high": None},
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps({"rows": [row, "damaged"]}))
    (folder / "curves.png").write_bytes(b"")
    for _ in range(2):
        with following.Following(study, "notebook") as follower:
            follower.look()
    report_lines = [line for line in lines(study) if "rows" in line]
    assert str(report_lines) == str([
        {"figures": ["report/curves"], "rows": [["grid/8x8", "uer", "success", 0.5, 0.25, float("nan"), 2.0, 400.0]]}
    ])  # fmt: skip


def test_what_a_tracker_raises_is_told_and_tried_again(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "broken").touch()
    assert cli.main(["track", str(study), "--to", "notebook"]) == 1
    out, err = capsys.readouterr()
    assert err == "bench: notebook, grid/8x8 uer · quick · seed 3: RuntimeError('out of ink')\n"
    assert "not all has been sent" in out
    (study / "broken").unlink()
    (study / "notebook.jsonl").unlink()
    assert cli.main(["track", str(study), "--to", "notebook"]) == 0 and lines(study) == SENT


def test_a_damaged_run_keeps_no_other_from_being_sent(study: Path) -> None:
    cells = {"c0ffee": {"directory": "grid/8x8/uer-c0ffee", "seeds": [2, 3], "label_variant": ""}}
    StudyDirectory(study).write("mine", [], cells)
    run = study / "grid/8x8/uer-c0ffee/seed-2"
    run.mkdir()
    (run / "run.json").write_text("[]")
    with following.Following(study, "notebook") as follower:
        follower.look()
        (message,) = follower.errors.values()
    assert "seed-2: its record cannot be read" in message and lines(study) == SENT


@pytest.mark.parametrize("offsets", ["", "[]", '{"runs": []}', '{"runs": {"c0ffee/3": {"step": "x"}}}', '{"runs": {"c'])
def test_damaged_offsets_are_as_none(study: Path, offsets: str) -> None:
    (study / ".trackers/notebook").mkdir(parents=True)
    (study / ".trackers/notebook/offsets.json").write_text(offsets)
    with following.Following(study, "notebook") as follower:
        follower.look()
    assert lines(study) == SENT


def test_two_processes_do_not_follow_with_one_tracker(study: Path) -> None:
    with (
        following.Following(study, "notebook"),
        pytest.raises(UserError, match=r"tracker .*notebook is being written by another process \(pid \d+\); wait for"),
    ):
        following.Following(study, "notebook")
    (study.parent / "file").touch()
    check_refused(r"cannot be written .* --offsets DIR", following.Following, study, "notebook", study.parent / "file")


def test_mistakes_are_named(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in (
        ([str(study), "--to", "notebok"], "unknown tracker 'notebok'; did you mean 'notebook'?"),
        ([str(study), "--to", ","], "--to names no tracker"),
        ([str(study.parent), "--to", "notebook"], "is not a study"),
    ):
        assert cli.main(["track", *words]) == 2
        assert says in capsys.readouterr().err


def test_a_tracker_waits_for_the_silence_of_a_machine_that_followed(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 1.0)
    with monkeypatch.context() as patched:
        patched.setattr(leases, "machine", lambda: "this one before its restart")
        before = Lease(study / ".trackers/notebook", "tracker")
        before.acquire()
        before._epoch = 0  # killed: it gives no sign of life and releases nothing
    with pytest.warns(Notice, match="last sign of life"), following.Following(study, "notebook") as follower:
        follower.look()
    assert lines(study) == SENT


def test_a_tracker_that_slept_sends_and_notes_nothing_once_another_process_follows(study: Path) -> None:
    slept = following.Following(study, "notebook")
    (study / ".trackers/notebook/.lease/2").write_bytes(b"held{}")  # another machine took over
    before = (study / ".trackers/notebook/offsets.json").read_bytes()
    for act in (slept.look, lambda: slept.__exit__(None, None, None)):
        check_refused("which follows the study now", act)
    assert (study / ".trackers/notebook/offsets.json").read_bytes() == before
    assert not (study / "notebook.jsonl").exists()


def test_an_attempt_of_a_run_is_the_same_run(study: Path) -> None:
    run = study / "grid/8x8/uer-c0ffee/seed-3"
    before = following.runs(StudyDirectory(study))
    attempts.begin(run, 2)
    assert following.runs(StudyDirectory(study)) == before and before[0].directory == run


def test_following_goes_on_while_a_scheduler_has_jobs(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = study / "grid/8x8/uer-c0ffee/seed-3"
    (run / "run.json").write_text(json.dumps({"status": "waiting"}))
    answers = iter([{run: "pending"}, {run: "pending"}, {}])

    def of(directory: Path) -> tuple[dict[Path, str], list[str]]:
        jobs = next(answers)
        if not jobs:
            (run / "run.json").write_text(json.dumps({"status": "finished"}))
            (run / "evaluations.jsonl").touch()
        return jobs, []

    monkeypatch.setattr(queues, "of", of)
    monkeypatch.setattr(track_, "QUEUE_EVERY", 0.1)
    assert cli.main(["track", str(study), "--to", "notebook", "--follow"]) == 0 and lines(study) == SENT


def test_following_ends_with_the_study_and_shows_what_came_meanwhile(study: Path) -> None:
    run = study / "grid/8x8/uer-c0ffee/seed-3"
    (run / "run.json").write_text(json.dumps({"status": "running"}))
    lock, study_lease = Lease(run, "run"), Lease(study, "study")
    lock.acquire()
    study_lease.acquire()
    words = ("track", str(study), "--to", "notebook", "--follow")
    process = programs.start_bench(*words, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (study / "notebook.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert lines(study) == SENT[:1], "points are sent once a checkpoint holds them"
    (run / "run.json").write_text(json.dumps({"status": "finished"}))
    (run / "evaluations.jsonl").touch()
    lock.release()
    study_lease.release()
    out = process.stdout.read()
    assert process.wait(60) == 0 and out == "notebook: 1 run, up to step 20\n"
    assert lines(study) == SENT
