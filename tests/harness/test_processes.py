"""A process that exits early still does everything the interpreter would do at its end."""

import os
import subprocess
import sys
from typing import IO, Any

import pytest

PROGRAM = """
import atexit, sys, threading, time
from guidebench.harness import processes

def late():
    time.sleep(0.2)
    print("thread")

atexit.register(lambda: print("registered"))
threading.Thread(target=late).start()
print("main")
processes.leave({code})
"""


def run_program(code: int, stdout: IO[Any] | int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(code=code)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, env=buffered)


@pytest.mark.parametrize("code", [0, 3])
def test_threads_end_then_what_is_registered_runs_and_all_that_was_printed_is_there(code: int) -> None:
    done = run_program(code)
    assert (done.returncode, done.stdout, done.stderr) == (code, "main\nthread\nregistered\n", "")


def test_what_cannot_be_written_is_a_failure_and_a_reader_that_went_away_is_none() -> None:
    with open("/dev/full", "w") as full:
        assert run_program(0, full).returncode == 120
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    assert run_program(0, reader.stdin).returncode == 0
