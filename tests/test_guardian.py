"""Processes that tests start end with the test run, also when that is killed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import guardian, programs
from tests.harness.launchers.scheduled import progress, wait_until

CONFTEST = """
from tests import guardian
from tests.conftest import pytest_configure, pytest_sessionfinish
guardian.PATIENCE = 0.1
"""
TEST = """
import subprocess, sys, time
def test_that_leaves_a_process():
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(sleep, start_new_session=True)
    open("process", "w").write(f"{process.pid}\\n")
"""
RUN = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '--rootdir=.', 'test_it.py']))"


@pytest.fixture
def small_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a test run of one test, which leaves a process running and then does something more."""

    def write(more: str = "") -> Path:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(TEST + more)
        return tmp_path

    return write


def orphan(place: Path) -> int:
    """Return the id of the process that the run left, or 0 while it has not been started."""
    text = (place / "process").read_text() if (place / "process").exists() else ""
    return int(text) if text.endswith("\n") else 0


def test_a_killed_run_takes_its_processes_along(small_run: Callable[..., Path]) -> None:
    place = small_run("    time.sleep(600)\n")
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    run = programs.start("tests.programs", "python", RUN, cwd=place, **quiet)
    wait_until(lambda: orphan(place) or run.poll() is not None, moves=lambda: progress(place))
    assert guardian.command(orphan(place)).endswith("time.sleep(600)")
    run.kill()
    run.wait()
    wait_until(lambda: not guardian.command(orphan(place)))


def test_what_a_run_leaves_ends_after_it(small_run: Callable[..., Path]) -> None:
    place = small_run()
    process = programs.python(RUN, cwd=place)
    assert process.code == 0 and "1 passed" in process.out
    wait_until(lambda: not guardian.command(orphan(place)))


def test_processes_are_found_by_what_they_inherited(tmp_path: Path) -> None:
    mine = f"MINE={tmp_path}"
    reading = [sys.executable, "-I", "-S", "-c", "input()"]
    with subprocess.Popen(reading, stdin=subprocess.PIPE, env={"MINE": str(tmp_path)}) as process:
        wait_until(lambda: guardian.marked_processes(mine) == [process.pid])
        assert os.getpid() not in guardian.marked_processes("PATH=")
        process.communicate(b"\n")
    assert guardian.marked_processes(mine) == []
