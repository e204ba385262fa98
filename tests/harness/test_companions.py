"""Waits for a process that serves another are limited in time: for an answer, and within a message."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import pytest

from guidebench.harness.companions import Companion
from guidebench.harness.errors import Stopped
from guidebench.harness.heartbeats import Silent
from tests.harness.stopping import stop

SILENT_AFTER = 1.5
LARGE = 2**22
"""More bytes than the buffer of a connection holds."""


def serve(connection: Connection) -> None:
    """Do what the requests say."""
    while True:
        request, content = connection.recv()
        if request == "sleep":
            time.sleep(content)
        if request == "hold":
            ctypes.PyDLL(None).sleep(content)
        if request == "die":
            os._exit(content)
        connection.send(bytes(content) if request == "bytes" else len(content) if request == "length" else request)


@pytest.fixture
def companion() -> Iterator[Callable[..., Companion]]:
    """Return a function: `companion()` starts a process that serves and has answered once."""
    companions: list[Companion] = []

    def start(stopping: Callable[[], bool] = lambda: False) -> Companion:
        companions.append(Companion(serve, SILENT_AFTER, stopping))
        companions[-1].send(("begin", b""))
        assert companions[-1].receive() == "begin"
        return companions[-1]

    yield start
    for process in companions:
        process.close()


def test_messages_of_any_size_arrive(companion: Callable[..., Companion]) -> None:
    process = companion()
    process.send(("length", bytes(LARGE)))
    assert process.receive() == LARGE
    process.send(("bytes", LARGE))
    assert process.receive() == bytes(LARGE)


def test_a_long_call_is_no_silence(companion: Callable[..., Companion]) -> None:
    process = companion()
    process.send(("sleep", 2 * SILENT_AFTER))
    assert process.receive() == "sleep"


@pytest.mark.parametrize("request_", [("begin", b""), ("length", bytes(LARGE))], ids=["answer", "request"])
def test_a_stopped_process_is_killed_and_the_reason_told(companion: Callable[..., Companion], request_: object) -> None:
    process = companion()
    pid = process.pid
    stop(pid)
    with pytest.raises(Silent, match=r"no sign of life for 1.5 s and was killed: it is stopped \(SIGSTOP\)"):
        process.send(request_)
        process.receive()
    assert not os.path.exists(f"/proc/{pid}")


def test_a_process_that_is_stopped_while_it_answers_is_killed(companion: Callable[..., Companion]) -> None:
    process = companion()
    process.send(("bytes", LARGE))
    assert process._channel is not None and process._channel.poll(60.0)  # only a part of the answer has arrived
    stop(process.pid)
    with pytest.raises(Silent, match="it is stopped"):
        process.receive()


@pytest.mark.parametrize(
    ("call", "stopping", "error", "says"),
    [
        ("hold", False, Silent, "a call in it holds the Python interpreter; raise silent_after"),
        ("sleep", True, Stopped, None),
    ],
)
def test_a_call_that_holds_the_interpreter_and_any_call_at_a_stop_is_not_waited_for(
    companion: Callable[..., Companion], call: str, stopping: bool, error: type[BaseException], says: str | None
) -> None:
    process = companion(lambda: stopping)
    process.send((call, 60))
    with pytest.raises(error, match=says):
        process.receive()


def test_a_process_that_has_ended_is_none_that_hangs(companion: Callable[..., Companion]) -> None:
    process = companion()
    process.send(("die", 7))
    with pytest.raises((EOFError, ConnectionError)):
        process.receive()
    assert process.ended() == 7
