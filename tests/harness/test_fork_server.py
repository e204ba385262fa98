"""Processes forked from a server behave like processes that are started afresh; the server ends with its parent."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from guidebench.harness import fork_server, heartbeats
from guidebench.harness.errors import Notice
from tests.harness.stopping import stop


@pytest.fixture(params=["forked", "fresh"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run each test with processes forked from a fresh server that has imported this module, and with fresh
    processes."""
    monkeypatch.setattr(fork_server, "_server", None)
    if request.param == "fresh":
        yield "fresh"
        return
    with fork_server.running(__name__):
        yield "forked"


def main(action: str, *words: str) -> int:
    """Run in the started process; `action` says what it does."""
    if action == "describe":
        description = {
            "words": words, "directory": os.getcwd(), "given": sys.stdin.read(), "environment": os.environ["GIVEN"],
            "argv": sys.argv[1:], "threads": len(os.listdir("/proc/self/task")), "path": sys.path,
            "group": os.getpgid(0) == os.getpid(), "session": os.getsid(0),
        }  # fmt: skip
        print(json.dumps(description))
        print("to stderr", file=sys.stderr)
    if action == "write":
        os.write(int(words[0]), b"passed")
    if action == "exit":
        sys.exit(words[0] if words[1:] else int(words[0]))
    if action == "raise":
        raise RuntimeError("broken")
    if action == "wait":
        print("ready", flush=True)
        time.sleep(600)
    if action == "start":
        print(fork_server.start(__name__, "watch", stdout=1).pid, flush=True)
        time.sleep(600)
    if action == "watch":
        parent_ended = fork_server.parent_watch()
        while not parent_ended():
            time.sleep(0.01)
        print("noticed", flush=True)
    if action == "random":
        import numpy as np

        print(np.random.randint(2**30))
    return 3


def test_a_process_has_what_popen_would_give_it(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given").write_text("input")
    with open("given") as stdin_file, open("printed", "w") as printed, open("errors", "w") as errors:
        process = fork_server.start(
            __name__, "describe", "a", "b", stdin=stdin_file, stdout=printed, stderr=errors,
            env={**os.environ, "GIVEN": "yes"}, start_new_session=True,
        )  # fmt: skip
        assert process.wait(60) == 3 == process.poll() == process.returncode
    assert (tmp_path / "errors").read_text() == "to stderr\n"
    description = json.loads((tmp_path / "printed").read_text())
    assert description["words"] == ["a", "b"] and description["argv"][-2:] == ["a", "b"]
    streams = (description["directory"], description["given"], description["environment"])
    assert streams == (str(tmp_path), "input", "yes")
    assert (
        description["group"]
        and description["session"] != os.getsid(0)
        and description["threads"] == 1
        and str(tmp_path) not in description["path"]
    )


def test_pipes_and_passed_descriptors_lead_to_it(kind: str) -> None:
    reading, writing = os.pipe()
    process = fork_server.start(__name__, "write", str(writing), pass_fds=[writing])
    os.close(writing)
    with open(reading, "rb") as file:
        assert file.read() == b"passed"
    assert process.wait(60) == 3
    process = fork_server.start(__name__, "wait", stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n" and process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM and process.stdout.read() == ""
    process.kill()  # the process has ended, so nothing is killed


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("exit", "7"), 7, ""),
        (("exit", "full", "text"), 1, "full"),
        (("raise",), 1, "RuntimeError: broken"),
    ],
)
def test_its_exit_code_tells_how_it_ended(kind: str, words: tuple[str, ...], code: int, message: str) -> None:
    process = fork_server.start(__name__, *words, stderr=subprocess.PIPE, text=True)
    with process.stderr as errors:
        assert message in errors.read()
    assert process.wait(60) == code


def test_it_notices_that_its_starter_was_killed(kind: str) -> None:
    starter = fork_server.start(__name__, "start", stdout=subprocess.PIPE, text=True)
    with starter.stdout as lines:
        assert int(lines.readline()) != starter.pid
        starter.kill()
        assert starter.wait(60) == -signal.SIGKILL
        assert lines.read() == "noticed\n"


def test_a_server_that_is_stopped_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_server", None)
    with fork_server.running(__name__, silent_after=3.0):
        waiting = fork_server.start(__name__, "wait", stdout=subprocess.PIPE, text=True)
        stop(fork_server._server._process.pid)
        with pytest.warns(Notice, match=r"that forks others gave no sign of life for 3 s: it is stopped \(SIGSTOP\)"):
            process = fork_server.start(__name__, "exit", "7")
        assert process.wait(60) == 7 and not fork_server.is_running()
        waiting.kill()
        monkeypatch.setattr(fork_server, "TELLING", 0.1)
        assert waiting.wait(60) == fork_server.UNKNOWN
        waiting.stdout.close()


def test_a_stopped_process_whose_starter_was_killed_is_killed_by_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_server", None)
    with fork_server.running("tests.harness.impatient"):
        starter = fork_server.start(__name__, "start", stdout=subprocess.PIPE, text=True, start_new_session=True)
        with starter.stdout as lines:
            started = os.pidfd_open(int(lines.readline()))
            signal.pidfd_send_signal(started, signal.SIGSTOP)
            starter.kill()
            assert starter.wait(60) == -signal.SIGKILL
            assert select.select([started], [], [], 60.0)[0], "the process still runs"
            os.close(started)


def test_a_server_that_is_dismissed_leaves_what_serves_its_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_server", None)
    with fork_server.running(__name__):
        serving = fork_server.start(__name__, "wait", stdout=subprocess.PIPE, text=True)
        leading = fork_server.start(__name__, "start", stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert serving.stdout.readline() == "ready\n" and leading.stdout.readline()
        heartbeats.kill_group(leading.pid)
        began = time.monotonic()
    assert time.monotonic() - began < heartbeats.STOPPING / 2 and serving.poll() is None
    serving.kill()
    assert serving.wait(60) == fork_server.UNKNOWN
    serving.stdout.close(), leading.stdout.close()


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_process_and_those_that_it_starts_are_a_group_that_can_be_killed(kind: str, all_of_it: bool) -> None:
    starter = fork_server.start(__name__, "start", stdout=subprocess.PIPE, text=True, start_new_session=True)
    with starter.stdout as lines:
        assert os.getpgid(int(lines.readline())) == starter.pid
        if all_of_it:
            heartbeats.kill_group(starter.pid)
            assert starter.wait(60) == -signal.SIGKILL and lines.read() == ""
        else:
            starter.kill()
            assert starter.wait(60) == -signal.SIGKILL and lines.read() == "noticed\n"


def test_forks_draw_different_numbers_and_a_server_that_was_killed_is_done_without() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fork_server, "_server", None)
        with fork_server.running("numpy"):
            assert len({draw_number() for _ in range(3)}) == 3
            fork_server._server._process.kill()
            assert draw_number()


def draw_number() -> str:
    process = fork_server.start(__name__, "random", stdout=subprocess.PIPE, text=True)
    with process.stdout as lines:
        return lines.read()
