"""The side of a model process: a `Model` that is answered by the model host of its machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pickle
import socket
import time

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Call, Failure, Model, Reply, Usage
from guidebench.harness.models.hosts.wire import (
    READ_AHEAD,
    Greeting,
    HostCall,
    HostReply,
    ModelRequest,
    packed,
    receive,
    receive_now,
)
from guidebench.harness.models.messages import RegisteredPart
from guidebench.harness.models.questions import Memory

DEATHS = 3
"""Consecutive ends of the host without an answer in between after which an error is raised. Connecting to a host at the
moment of its end can count one end twice."""
PAUSE = 0.5
"""Seconds before a model process connects again: the command has noticed by then that a host has ended."""


class HostedModel:
    """A `Model` whose calls the model host answers. If the host dies, the command starts another one, and the calls
    that had no answer are sent to it."""

    def __init__(self, requests: socket.socket, part: RegisteredPart) -> None:
        """`requests`: the socket of the command on which a model is asked for; `part`: the model and its settings."""
        self._requests, self._part = requests, part
        self._request = b""
        self._greeted: socket.socket | None = None
        """A connection on which no call has been sent yet."""
        self._writer: asyncio.StreamWriter | None = None
        self._opening: asyncio.Task[None] | None = None
        self._asking: socket.socket | None = None
        """The connection on which a host's greeting is awaited."""
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[HostReply]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._deaths = 0
        self._slowest = 0.0
        self.memory = Memory()
        """GPU memory of the host."""

    def spawn(self, device: str) -> Model:
        """Wait until the host has loaded the model, then return this object; raise errors as
        `study_models.load_model` does."""
        request = ModelRequest(self._part, device, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        self._request = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        while self._greeted is None:
            self._connect()
        return self

    async def answer(self, call: Call) -> Reply:
        """Make one attempt, as `Model.answer`; raise UserError if the host keeps dying."""
        while True:
            with contextlib.suppress(ConnectionError):
                reply = await self._reply(call)
                break
        self._slowest = max(self._slowest, reply.usage.seconds)
        return reply

    def estimate(self, call: Call) -> Usage:
        """Return the images, and the seconds of the slowest call so far; the cost in USD is 0."""
        return Usage(1, images=len(call.images()), seconds=self._slowest)

    async def close(self) -> None:
        for task in (self._opening, self._listening):
            if task is not None:
                task.cancel()
        if (connection := self._asking) is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # the thread that waits on it ends
        if self._writer is not None:
            self._writer.close()
        if self._greeted is not None:
            self._greeted.close()

    async def _reply(self, call: Call) -> Reply:
        """Send one call and return its reply, or raise what it ended with; raise ConnectionError if the host ends
        first."""
        while self._writer is None:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(_retrieve_error)
            await asyncio.shield(self._opening)  # a call that times out leaves it to the others
        number, arriving = next(self._numbers), asyncio.Future[HostReply]()
        self._waiting[number] = arriving
        try:
            self._send(HostCall(number, call))
            message = await arriving
        except asyncio.CancelledError:
            self._send(HostCall(number, None))
            raise
        finally:
            self._waiting.pop(number, None)
        self._deaths, self.memory = 0, self.memory.with_(message.memory)
        if isinstance(message.reply, Exception):
            raise self._error(message.reply, "failed")
        return message.reply

    def _error(self, error: Exception, verb: str) -> Exception:
        """Return the error to raise for one that the host has sent."""
        if isinstance(error, (Failure, UserError)):
            return error
        return RuntimeError(f"the shared process of {self._part} {verb}:\n{error}")

    async def _open(self) -> None:
        while self._greeted is None:
            await asyncio.to_thread(self._connect)
        greeted, self._greeted = self._greeted, None
        reader, self._writer = await asyncio.open_unix_connection(sock=greeted, limit=READ_AHEAD)
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                message: HostReply = await receive(reader)
                if (arriving := self._waiting.get(message.number)) is not None and not arriving.done():
                    arriving.set_result(message)
        except Exception:  # it has ended, or sent what cannot be read
            self._host_ended()

    def _host_ended(self) -> None:
        """Drop the connection to a host that has ended; the calls that wait on it are sent to the next host."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self._deaths += 1
        for arriving in self._waiting.values():
            if not arriving.done():
                arriving.set_exception(ConnectionError("the model host has ended"))

    def _send(self, host_call: HostCall) -> None:
        if self._writer is not None:
            self._writer.write(packed(host_call))

    def _connect(self) -> None:
        """Ask the command for a connection to the host and wait until the model is loaded. Raise UserError if it cannot
        be loaded, or if the host has ended too often."""
        if self._deaths >= DEATHS:
            raise UserError(
                f"the process that holds {self._part} for all workers ended {self._deaths} times without an answer; "
                f"logs/models.log of the study has its last words, and memory may be too small for it"
            )
        if self._deaths:
            time.sleep(PAUSE)
        ours, theirs = socket.socketpair()
        try:
            self._asking = ours
            with theirs:
                socket.send_fds(self._requests, [self._request], [theirs.fileno()])
            greeting: Greeting = receive_now(ours)
        except (EOFError, OSError):
            self._deaths += 1
            ours.close()
            return
        finally:
            self._asking = None
        if greeting is not None:
            raise self._error(greeting, "could not load it")
        self._greeted = ours


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Retrieve a task's exception, so that asyncio does not report it if no call waits for the task any more."""
    if not task.cancelled():
        task.exception()
