"""What strikes a command does what it says, and can be undone: a disk, a server, a task, signals to processes."""

import importlib
import os
import signal
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness import registry
from tests import guardian
from tools.chaos import marker as marking
from tools.chaos.disk import Memory, disk
from tools.chaos.processes import COMMAND, FORK_SERVER, WORKER, RunningCommand, is_stopped, parent_of, send
from tools.chaos.server import Server


def test_a_full_disk_takes_nothing_until_it_is_freed(tmp_path: Path) -> None:
    with disk(tmp_path / "disk") as room:
        if not isinstance(room, Memory):
            pytest.skip("a tmpfs cannot be mounted here (not root?)")
        (room.directory / "before").write_bytes(b"0" * 100_000)
        room.fill([])
        with pytest.raises(OSError, match="No space left"):
            (room.directory / "after").write_bytes(b"0" * 100_000)
        room.free()
        (room.directory / "after").write_bytes(b"0" * 100_000)
    assert not os.path.ismount(tmp_path / "disk")


def ask(server: Server) -> str:
    body = b'{"messages": [{"content": "2 + 2?"}]}'
    request = urllib.request.Request(f"{server.url}/chat/completions", body)
    with urllib.request.urlopen(request, timeout=2.0) as answer:
        return str(answer.read().decode())


def test_a_server_is_lost_silent_and_failing_and_keeps_its_address_and_its_count(tmp_path: Path) -> None:
    with Server(lambda body: f"answer to {body['messages'][0]['content']}", tmp_path) as server:
        assert "answer to 2 + 2?" in ask(server)
        server.lose()
        with pytest.raises(urllib.error.URLError, match="refused"):
            ask(server)
        server.restore()
        server.fail()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            ask(server)
        server.restore()
        server.silence()
        with pytest.raises(TimeoutError):
            ask(server)
        server.restore()
        assert "answer to 2 + 2?" in ask(server)
        assert server.requests >= 3
    with pytest.raises(urllib.error.URLError, match="refused"):
        ask(server)


def test_one_task_hangs_in_a_process_of_the_named_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Path("/proc/self/comm").read_text().strip()
    marker = tmp_path / "hang"
    monkeypatch.setenv(marking.VARIABLE, str(marker))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise InterruptedError

    class Library:
        def __init__(self, name: None) -> None:
            self.sleep = sleep

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(marking.ctypes, "PyDLL", Library)
    with registry.fresh():  # importing the suite registers it
        suite = importlib.import_module("tools.chaos.hanging").ChaosClassic()
    task = suite.make("CartPole-v1")
    task.reset(0)
    marker.write_text("\nanother kind")
    task.step(0)
    for first in ("", marking.HOLDS):
        marker.write_text(f"{first}\nanother kind\n{mine}")
        with pytest.raises(InterruptedError):
            task.step(0)
        assert not marker.exists()
        task.step(0)
    assert len(slept) == 2


def until(true: Callable[[], Any], seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while not (result := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return result


def test_the_processes_of_a_command_are_told_apart_and_end_also_when_one_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"chaos-{uuid.uuid4().hex}"
    monkeypatch.setenv("GUIDEBENCH_TEST_CHAOS", mark)
    words = [
        "run", "suite=classic", "task=CartPole-v1", "method=uer", "profile=smoke", "seeds=1", "training.steps=1000000",
        "evaluation.every=1000000", "report=false", "yes=true", f"output={tmp_path / 'study'}",
    ]  # fmt: skip
    command = RunningCommand(words, tmp_path / "log", mark, set(), is_fresh=True)
    try:
        (worker,) = until(lambda: command.targets(WORKER)) or pytest.fail(command.output)
        (fork_server,) = command.targets(FORK_SERVER)
        assert command.targets(COMMAND) == [command.process.pid]
        assert parent_of(worker) == fork_server and parent_of(fork_server) == command.process.pid
        assert {worker, fork_server, command.process.pid} <= {*command.members()}
        assert send(worker, signal.SIGSTOP) and until(lambda: is_stopped(worker))
    finally:
        command.end()
    assert guardian.marked_processes(mark) == [] and not guardian.command(worker)
