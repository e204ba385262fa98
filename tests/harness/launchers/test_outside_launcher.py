"""A launcher from another package hands jobs over as files and receives the events of its workers as files."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix

# Each worker runs in its own session without output: only what it writes into the study is heard.
FAR = """
    import subprocess, time
    from dataclasses import dataclass, replace
    from guidebench.harness import fork_server
    from guidebench.harness.errors import UserError
    from guidebench.harness.launchers import base, job_files
    from guidebench.harness.parts import LauncherPart
    from guidebench.harness.registry import register

    @register.launcher("far")
    @dataclass(frozen=True)
    class Far(LauncherPart):
        '''Workers that only the study's directory tells of.'''
        host: str = "moon"

        def ready(self, execution, study):
            if self.host != "moon":
                raise UserError(f"launcher.host={self.host}: nobody is there; write launcher.host=moon")

        def slots(self, execution):
            return [base.Slot("cpu")] * (execution.workers or 2)

        def spawn(self, execution, study):
            return Launched(study, self.slots(execution)[0])

    class Launched(base.Launcher):
        def __init__(self, study, slot):
            self.study, self.slot, self.jobs = study, slot, {}

        def submit(self, jobs):
            for job in (replace(job, device=self.slot.device) for job in jobs):
                path = job_files.put(self.study, job)
                hearing = job_files.Hearing(path, new=True)
                quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
                *_, module, words = base.command(str(path))
                process = fork_server.start(
                    module, words, env=base.environment(self.slot), start_new_session=True, **quiet
                )
                self.jobs[job.name] = job, hearing, process

        @property
        def open(self):
            return len(self.jobs)

        def poll(self, seconds):
            time.sleep(seconds)
            events = []
            for job, hearing, process in list(self.jobs.values()):
                events += [base.Event(job, kind, content) for kind, content in hearing]
                if any(event.job is job and event.kind in base.ENDS for event in events):
                    del self.jobs[job.name]
                    process.wait()
            return events

        def cancel(self, now=False):
            for _, _, process in self.jobs.values():
                process.terminate()
"""
SHORT = (
    "method=uer", "training.steps=100", "evaluation.every=100", "learner.channels=4", "learner.features=8",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=64",
)  # fmt: skip
SMOKE = ("suite=minigrid_doorkey", "profile=smoke", "report=false", *SHORT)


@pytest.fixture
def far(plugin) -> None:
    plugin("far_module", FAR, {"launcher": "far"})


def rows(study: Path) -> pd.DataFrame:
    """Return the evaluations of the only run that has any."""
    (path,) = study.glob("*/*/*/seed-*/evaluations.parquet")
    return pd.read_parquet(path).drop(columns="study")


def test_its_workers_train_what_local_ones_train_and_one_that_fails_marks_its_run_and_says_why(
    far, plugin, tmp_path: Path, capsys: pytest.CaptureFixture[str], train: Callable[..., Path]
) -> None:
    source = """
        from dataclasses import dataclass
        from guidebench.harness.parts import ReplayPart
        from guidebench.harness.registry import register

        @register.replay("odd")
        @dataclass(frozen=True)
        class Odd(ReplayPart):
            '''Cannot be built.'''
            version = 1

            def spawn(self, build):
                raise ValueError("no replay today")
    """
    plugin("odd_module", source, {"replay": "odd"})
    study = tmp_path / "study"
    assert cli.main(["run", *SMOKE, "seeds=1", "replay=uer,odd", "launcher=far", f"output={study}"]) == 1
    out = capsys.readouterr().out
    assert out.count(": started") == 1 and out.count(": finished") == 1
    assert "crashed: ValueError: no replay today" in out
    pd.testing.assert_frame_equal(rows(study), rows(train(*SHORT, packs=[(0,)])))
    runs = [json.loads(path.read_text()) for path in study.glob("*/*/*/seed-0/run.json")]
    bad, good = sorted(runs, key=lambda run: run["status"] == "finished")
    events = sorted(
        ([json.loads(line)["event"] for line in path.read_text().splitlines()]
         for path in (study / "jobs").glob("*.events.jsonl")), key=len,
    )  # fmt: skip
    assert events[1][0] == "started" and events[1][-1] == "finished" and {*events[1][1:-1]} == {"progress"}
    assert good["status"] == "finished" and bad["status"] == "failed"
    assert bad["error"].rstrip().endswith("ValueError: no replay today")


def test_its_settings_are_checked_and_are_in_no_id(far, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMOKE, f"output={tmp_path / 'study'}"]
    plain = matrix.plan(words)
    far_plan = matrix.plan([*words, "launcher=far", "launcher.host=mars"])
    assert [cell.id for cell in far_plan.cells] == [cell.id for cell in plain.cells] and far_plan.name == plain.name
    assert matrix.launcher_of(far_plan.execution).host == "mars"  # type: ignore[attr-defined]
    assert cli.main(["run", *words, "launcher=far", "launcher.host=mars"]) == 2
    assert "launcher.host=mars: nobody is there; write launcher.host=moon" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
    assert cli.main(["run", *words, "launcher=far", "launcher.host=mars", "--dry-run"]) == 1
    assert "missing: launcher.host=mars: nobody is there" in capsys.readouterr().out
    assert registry.names("launcher").count("far") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["launcher=slrm"], "unknown launcher 'slrm'"),
        (["launcher.host=moon"], "unknown setting 'launcher.host'"),
        (["launcher=local,local"], "launcher"),
    ],
)
def test_a_launcher_or_setting_that_does_not_exist_is_refused(words: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        matrix.plan([*SMOKE, *words])


def test_a_launcher_that_lacks_a_method_cannot_be_registered(plugin) -> None:
    plugin("half_module", FAR.replace("def slots", "def places").replace("far", "half"), {"launcher": "half"})
    with (
        pytest.warns(UserWarning, match="plug-in 'half'"),
        pytest.raises(UserError, match=r"launcher 'half' lacks slots; define it as harness/parts\.py describes"),
    ):
        registry.get("launcher", "half")
