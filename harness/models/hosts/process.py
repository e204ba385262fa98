"""The model host: a process that loads a local model once and answers the calls of all workers on its machine.

On a GPU one event loop serves all workers, so calls of different workers that wait at the same time are computed in one
batch. On a CPU the process forks for each connection once the weights are loaded. The forks read the same memory, and
each computes the calls of one worker. Batches have one shape (`transformers_/batching.py`), so an answer is the same
bits as that of a model that is not shared.

It ends when the command ends, when the command asks it to while nobody is connected, and after IDLE seconds without a
connection.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from guidebench.harness import fork_server, heartbeats
from guidebench.harness.heartbeats import SILENT_AFTER, Pulse, Silent, Watch
from guidebench.harness.models.calls import Model
from guidebench.harness.models.hosts.wire import (
    BUSY,
    CONNECT,
    READ_AHEAD,
    YIELD,
    HostCall,
    HostReply,
    ModelRequest,
    packed,
    portable,
    receive,
    receive_now,
)
from guidebench.harness.models.questions import Memory

IDLE = 300.0
"""Seconds without a connection after which a host ends (choice: longer than the pause between two runs of a worker, and
short enough that unused memory is soon free)."""
LOOK = 0.5
"""Seconds between two checks of the parent process and of the connections."""


class ConnectionServer(Protocol):
    """Answers calls on connections."""

    def begin(self, connection: socket.socket) -> None: ...

    @property
    def busy(self) -> bool:
        """Whether any connection is open."""


def serve(control: socket.socket, silent_after: float = SILENT_AFTER) -> None:
    """Load the model that the first message names, and answer on the connections that follow. `silent_after`: seconds
    without a heartbeat after which a fork is killed."""
    end_when(fork_server.parent_watch())
    model_request: ModelRequest = receive_now(control)
    try:
        model = load_requested(model_request)
    except Exception as error:  # a plug-in may raise anything
        refuse(control, portable(error))
        return
    serving: ConnectionServer = (
        ForkPerConnection(model, control, silent_after)
        if model_request.place[0].startswith("cpu")
        else SharedLoop(model)
    )
    since = time.monotonic()
    while time.monotonic() - since < IDLE:
        if arrived := next_message(control, LOOK):
            message, connection = arrived
            if message == CONNECT and connection is not None:
                serving.begin(connection)
            elif message == YIELD and serving.busy:
                control.sendall(BUSY)
            else:
                break
        if serving.busy:
            since = time.monotonic()
    until = time.monotonic() + LOOK
    while serving.busy and time.monotonic() < until:  # the last connections are just being closed
        time.sleep(0.01)


def load_requested(model_request: ModelRequest) -> Model:
    """Load and return the requested model and log the time it took; raise errors as `study_models.load_model` does."""
    from guidebench.harness import registry
    from guidebench.harness.models import study_models

    started = time.monotonic()
    config = registry.get(model_request.part.kind, model_request.part.name)(**model_request.part.settings)
    model = study_models.load_model(config, model_request.device)
    took = time.monotonic() - started
    message = (
        f"process {os.getpid()} loaded {model_request.part} {config.model} on {model_request.place[0]} in {took:.1f} s"
    )
    print(message, file=sys.stderr, flush=True)
    return model


def next_message(control: socket.socket, seconds: float) -> tuple[bytes, socket.socket | None] | None:
    """Return the command's next message and the connection that comes with it, None if there is none within some
    seconds, or b"" if the command has ended."""
    if not select.select([control], [], [], seconds)[0]:
        return None
    message, handles, _, _ = socket.recv_fds(control, 1, 1)
    return message, socket.socket(fileno=handles[0]) if handles else None


def refuse(control: socket.socket, error: Exception) -> None:
    """Say on every waiting connection why the model cannot be loaded."""
    print(error, file=sys.stderr, flush=True)
    while (arrived := next_message(control, 0.0)) and arrived[1] is not None:
        with arrived[1] as connection:
            try:
                connection.sendall(packed(error))
            except OSError:  # it has ended meanwhile
                continue


class SharedLoop:
    """One event loop that answers the calls of all connections."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._loop = asyncio.new_event_loop()
        self._served: list[Any] = []
        threading.Thread(target=self._loop.run_forever, daemon=True, name="calls").start()

    def begin(self, connection: socket.socket) -> None:
        self._served.append(asyncio.run_coroutine_threadsafe(answer(connection, self._model), self._loop))

    @property
    def busy(self) -> bool:
        self._served = [connection for connection in self._served if not connection.done()]
        return bool(self._served)


class ForkPerConnection:
    """A fork of this process for each connection. A fork sends heartbeats and is killed when they stop; its model
    process notices that the connection has ended and requests another one."""

    def __init__(self, model: Model, control: socket.socket, silent_after: float = SILENT_AFTER) -> None:
        self._model, self._control, self._silent_after = model, control, silent_after
        self._forks: dict[int, Watch] = {}
        gc.collect()
        gc.freeze()  # the collector writes into what it looks at, which would copy the pages of every fork

    def begin(self, connection: socket.socket) -> None:
        host, pulse = os.getpid(), Pulse(self._silent_after)
        fork = os.fork()
        if fork:
            self._forks[fork] = Watch(fork, pulse)
            pulse.close()
            connection.close()
            return
        try:
            heartbeats.begin(pulse.descriptor, pulse.interval)
            end_when(lambda: os.getppid() != host)
            self._control.close()
            asyncio.run(answer(connection, self._model))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)

    @property
    def busy(self) -> bool:
        self._forks = {fork: watch for fork, watch in self._forks.items() if not os.waitpid(fork, os.WNOHANG)[0]}
        for fork, watch in self._forks.items():
            try:
                watch.look()
            except Silent as silent:
                print(f"process {fork}, a fork of the model's process {os.getpid()}, {silent}", file=sys.stderr)
                sys.stderr.flush()
                os.kill(fork, signal.SIGKILL)
        return bool(self._forks)


async def answer(connection: socket.socket, model: Model) -> None:
    """Answer the calls on a connection until the other side closes it; cancel the calls that are open then."""
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=READ_AHEAD)
    answering: dict[int, asyncio.Task[None]] = {}

    async def send_reply(host_call: HostCall) -> None:
        message = await attempt(model, host_call)
        answering.pop(host_call.number, None)
        writer.write(message)

    try:
        writer.write(packed(None))  # the greeting
        while True:
            host_call: HostCall = await receive(reader)
            if host_call.call is not None:
                answering[host_call.number] = asyncio.create_task(send_reply(host_call))
            elif (task := answering.pop(host_call.number, None)) is not None:
                task.cancel()
    except (EOFError, OSError):  # the model process has ended
        pass
    except Exception:  # it sent what cannot be read here; it notices that the connection ends
        traceback.print_exc()
    finally:
        for task in answering.values():
            task.cancel()
        writer.close()


async def attempt(model: Model, host_call: HostCall) -> bytes:
    """Make one attempt of a call and return its reply as a packed message."""
    try:
        return packed(HostReply(host_call.number, await model.answer(host_call.call), Memory.of_process()))
    except Exception as error:  # a plug-in may raise anything, and reply what cannot be sent
        return packed(HostReply(host_call.number, portable(error), Memory.of_process()))


def end_when(ended: Callable[[], bool]) -> None:
    """Start a thread that ends this process soon after `ended` returns True."""

    def watch() -> None:
        while not ended():
            time.sleep(LOOK)
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="parent").start()


def main(handle: str, silent_after: str = str(SILENT_AFTER)) -> NoReturn:
    """Run the host of a command, which sends connections on its end of a socket. `handle`: file descriptor of our end;
    `silent_after`: seconds without a heartbeat after which a fork is killed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # it ends after the workers, whose last calls it answers
        signal.signal(number, signal.SIG_IGN)
    serve(socket.socket(fileno=int(handle)), float(silent_after))
    sys.stderr.flush()
    os._exit(0)
