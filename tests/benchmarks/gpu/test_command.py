"""The command measures step by step on a CPU, keeps what it has when it is killed, and goes on where it ended."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import figures, steps
from tests import programs

pytestmark = pytest.mark.waits
ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu"]
REHEARSED = ("machine", "tests", "doorkey")


def call(*arguments: str) -> programs.Exit:
    return programs.module("benchmarks.gpu", "--device", "cpu", *arguments, cwd=ROOT)


def step_results(output: Path) -> dict[str, Any]:
    steps_: dict[str, Any] = json.loads((output / "gpu.json").read_text())["steps"]
    return steps_


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Rehearse some steps, each with more time than it needs; return the output directory, the results and the printed
    text."""
    output = tmp_path_factory.mktemp("gpu")
    process = call("--minutes", "8", "--output", str(output), "--only", *REHEARSED)
    assert process.code == 0, process.out + process.err
    return output, step_results(output), process.out


@pytest.mark.release
def test_every_step_is_there_with_figures_or_a_reason(rehearsed: Any) -> None:
    output, results, printed = rehearsed
    assert list(results) == list(steps.NAMES)
    for name, result in results.items():
        if name in REHEARSED:
            assert result["state"] == "done" and result["rows"], result["reason"]
            assert result["measured_on"]["hardware"]["device"] == "cpu" and result["measured_on"]["commit"]
            assert "torch" in result["packages"]
            assert f"{name}: {steps.step(name).words}" in printed
        else:
            assert result["state"] == "waiting" and result["reason"]
    table = (output / "gpu.md").read_text()
    assert table.startswith("# Rehearsal") and all(f"| {name} |" in table for name in steps.NAMES)


def measured(name: str, directory: Path) -> list[figures.Row]:
    """Carry out a step in this process and return the last rows that it reported."""
    step, rows = steps.step(name), []
    ask = steps.Ask("cpu", time.monotonic() + 600, directory / "study", directory, step.settings)
    importlib.import_module(f"benchmarks.gpu.{step.module}").measure(ask, lambda reported: rows.append(list(reported)))
    return rows[-1]


def test_clips_are_judged_in_several_batches(tmp_path: Path) -> None:
    clips = [row for row in measured("qwen_vl", tmp_path) if row.unit == "clips/s"]
    assert {row.batch for row in clips} == {1, 2} and all(row.figure > 0 for row in clips)


@pytest.mark.release
def test_training_is_measured_with_one_seed_with_five_and_eagerly(tmp_path: Path) -> None:
    ours = [row for row in measured("dqn_doorkey", tmp_path) if ", ours" in row.what]
    assert [(row.seeds, "eager" in row.what) for row in ours] == [(1, False), (5, False), (1, True)]
    for row in ours:
        assert row.lowest <= row.figure <= row.highest and row.ratio_lowest <= row.ratio


@pytest.mark.release
def test_a_second_call_trains_on_from_its_archive_and_repeats_nothing_else(rehearsed: Any, tmp_path: Path) -> None:
    """The study is deleted between the calls, as if the second ran on another machine."""
    output, before, _ = rehearsed
    elsewhere = tmp_path / "gpu"
    elsewhere.mkdir()
    for path in output.iterdir():
        if path.is_file():
            (elsewhere / path.name).write_bytes(path.read_bytes())
    process = call("--minutes", "4", "--output", str(elsewhere), "--only", *REHEARSED)
    after = step_results(elsewhere)
    assert process.code == 0 and "1 of 12 steps" in process.out
    assert {name: after[name] for name in steps.NAMES if name != "doorkey"} == {
        name: before[name] for name in steps.NAMES if name != "doorkey"
    }
    trained = [result["doorkey"]["rows"][0]["figure"] for result in (before, after)]
    assert 0 < trained[0] < trained[1]


def processes_of(output: Path) -> list[int]:
    """Return the processes whose command names a directory."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(output).encode() in path.read_bytes():
                pids.append(int(path.parent.name))
        except OSError:
            continue
    return pids


def waiting_for(condition: Any, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_call_keeps_what_it_had_and_leaves_no_process(number: int, tmp_path: Path) -> None:
    output = tmp_path / "gpu"
    arguments = ["--minutes", "4", "--output", str(output), "--only", "machine", "dqn_doorkey"]
    running = subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def trains() -> bool:
        return (output / "gpu.json").exists() and step_results(output)["dqn_doorkey"]["state"] == "running"

    waiting_for(trains)
    before = step_results(output)
    running.send_signal(number)
    running.communicate(timeout=60)
    waiting_for(lambda: not processes_of(output))
    after = step_results(output)
    assert after["machine"] == before["machine"] and after["machine"]["state"] == "done"
    assert after["dqn_doorkey"]["state"] == "running" and "ended while it ran" in after["dqn_doorkey"]["reason"]
    options = Namespace(only=["machine", "dqn_doorkey"], again=False)
    results = command.figures.read(output / "gpu.json", "cpu")
    assert command.to_do(results, options.only, options.again) == ["dqn_doorkey"]
    assert running.returncode == (130 if number == signal.SIGTERM else -number)


TELLING = (
    "import json, sys; open(sys.argv[1], 'w').write(json.dumps({'rows': [{'what': 'w', 'figure': 1.0, 'unit': 'u'}]}))"
)


@pytest.mark.parametrize(
    ("text", "reason", "measured"),
    [
        (f"{TELLING}; raise ValueError('the card is gone')", "ValueError: the card is gone", [1.0]),
        ("import os; os.kill(os.getpid(), 9)", "it ended with exit code -9", []),
        ("pass", "it measured nothing", []),
    ],
    ids=["crashed", "killed", "nothing measured"],
)
def test_a_step_that_fails_is_noted_with_the_end_of_its_error_and_its_figures(
    text: str, reason: str, measured: list[float]
) -> None:
    outcome = command.carry_out(lambda into: ["-c", text, str(into)], 30)
    assert outcome.state == "failed" and outcome.reason.endswith(reason)
    assert [row.figure for row in outcome.rows] == measured


def test_a_step_that_hangs_is_cut_off_with_all_its_processes(tmp_path: Path) -> None:
    """The step and its child both ignore SIGTERM; the child writes its process id to a file."""
    file = tmp_path / "pid"
    hang = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    grandchild = f"{hang}; open({str(file)!r}, 'w').write(str(__import__('os').getpid())); time.sleep(600)"
    text = f"{TELLING}\n{hang}\nimport subprocess; subprocess.Popen([sys.executable, '-c', {grandchild!r}])\n"
    text += "print('it waits', flush=True)\ntime.sleep(600)"
    outcome = command.carry_out(lambda into: ["-c", text, str(into)], 3)
    assert outcome.state == "cut off" and "it waits" in outcome.reason and [row.figure for row in outcome.rows] == [1.0]
    waiting_for(lambda: not Path(f"/proc/{file.read_text()}").exists() or _ended(int(file.read_text())))


def _ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_step_that_fails_again_keeps_the_figures_of_the_call_before() -> None:
    row = command.figures.Row("w", 1.0, "u")
    before = command.Result("cut off", rows=(row,), measured_on={"commit": "abc"})
    outcome = command.with_earlier_rows(command.Result("failed", "the card is gone", seconds=2.0), before)
    assert outcome.rows == (row,) and outcome.measured_on == {"commit": "abc"} and outcome.seconds == 2.0
    assert outcome.state == "failed" and outcome.reason == "the card is gone; these figures are of an earlier call"
    newer = command.Result("done", rows=(row, row))
    assert command.with_earlier_rows(newer, before) == newer


def test_a_step_without_its_packages_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS", (steps.Step("machine", "machine", 1, "", ("no_such_module",)),))
    monkeypatch.setattr(steps, "NAMES", ("machine",))
    outcome = command.run("machine", Namespace(), 5, lambda result: None)
    assert outcome.state == "skipped" and outcome.reason == "it needs no_such_module, not installed here"


def test_without_a_gpu_all_is_skipped_and_says_so(tmp_path: Path) -> None:
    arguments = ["--minutes", "1", "--output", str(tmp_path), "--only", "machine"]
    process = programs.module("benchmarks.gpu", *arguments, cwd=ROOT, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert process.code == 0 and step_results(tmp_path)["machine"]["state"] == "skipped"
    assert "finds no GPU" in step_results(tmp_path)["machine"]["reason"]


def test_figures_of_a_rehearsal_and_of_a_gpu_are_not_mixed(tmp_path: Path) -> None:
    command.figures.write(tmp_path / "gpu.json", {"device": "cuda", "rehearsal": False}, {})
    process = call("--minutes", "1", "--output", str(tmp_path))
    assert process.code == 2 and "holds figures of --device cuda, not cpu" in process.err
    assert "Traceback" not in process.err


def test_bad_arguments_are_refused_before_any_work(tmp_path: Path) -> None:
    for arguments, message in ((["--minutes", "0"], "--minutes 0"), (["--only", "nothing"], "invalid choice")):
        process = call("--output", str(tmp_path / "new"), *arguments)
        assert process.code == 2 and message in process.err and not (tmp_path / "new").exists()


def test_its_help_names_every_step() -> None:
    help_text = call("--help").out
    assert all(step.name in help_text and step.words in help_text for step in steps.STEPS)


def test_what_is_not_done_is_to_do() -> None:
    states = ("done", "failed", "cut off", "skipped", "waiting", "running")
    results = {name: command.Result(state) for name, state in zip(steps.NAMES, states, strict=False)}
    results |= {name: command.Result("done") for name in steps.NAMES[len(states) :]}
    assert command.to_do(results, steps.NAMES, again=False) == [*steps.NAMES[1 : len(states)], "doorkey"]
    assert command.to_do(results, steps.NAMES[:1], again=True) == ["machine"]


def test_time_that_a_step_leaves_goes_to_the_others() -> None:
    """All shares sum to one; time that a step does not use is added to those that follow."""
    assert sum(step.share for step in steps.STEPS) == pytest.approx(1)
    limits = [steps.limit(name, steps.NAMES[at:], 540) for at, name in enumerate(steps.NAMES)]
    assert limits[0] == steps.FLOOR and limits[-1] == 540 and limits[3] == pytest.approx(540 * 0.13 / 0.78)
