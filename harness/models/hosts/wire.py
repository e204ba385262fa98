"""Messages between the command, a model host and the model processes of the command's workers.

All of them are processes of one command of one user, and their sockets have no address: a process has such a socket
only if the command, or a process that the command started, has handed it over. So messages are pickled, as on the pipe
between a worker and its model process.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import traceback
from typing import Any, NamedTuple

from guidebench.harness.errors import NoMemory, UserError
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Failure, Reply
from guidebench.harness.models.messages import RegisteredPart
from guidebench.harness.models.questions import Memory

LENGTH = struct.Struct("!Q")
"""Length in bytes of the message that follows it."""
READ_AHEAD = 2**24
"""Bytes that an event loop may read ahead: a clip of 32 frames of 448 pixels is about as long."""
NOT_THE_WEIGHTS = (*study_models.NOT_THE_MODEL, "in_flight", "timeout", "attempts")
"""Settings that only a desk or a run uses; requests that differ in nothing else share a loaded model."""
CONNECT, YIELD = b"c", b"y"
"""Bytes from the command to a host: CONNECT comes with a connection; YIELD asks the host to end if nobody is
connected."""
BUSY = b"b"
"""Reply to YIELD of a host to which somebody is connected."""


class ModelRequest(NamedTuple):
    """A model process's request for a model."""

    part: RegisteredPart
    device: str
    """Device of the worker, which the model uses unless its settings name one."""
    visible: str
    """CUDA_VISIBLE_DEVICES of the worker."""

    @property
    def own_device(self) -> str | None:
        """The device that the model's settings name, if they name one."""
        named = self.part.settings.get("device")
        return None if named is None else str(named)

    @property
    def place(self) -> tuple[str, str | None]:
        """Device and CUDA_VISIBLE_DEVICES of its process; None for the GPUs that the command may use."""
        return (self.device, self.visible) if self.own_device is None else (self.own_device, None)

    @property
    def key(self) -> str:
        """Text that is equal for two requests if the same loaded model can serve both."""
        decisive = {name: value for name, value in self.part.settings.items() if name not in NOT_THE_WEIGHTS}
        return repr((self.part.kind, self.part.name, sorted(decisive.items()), self.place))


Greeting = Exception | None
"""First message of a host on a connection: why the model cannot be loaded, or None. A UserError is one that the user
can correct; the text of any other is a traceback."""


class HostCall(NamedTuple):
    """A call to the model."""

    number: int
    call: Any
    """None cancels the call of this number."""


class HostReply(NamedTuple):
    """The reply to a call, or the error that it ended with, which the receiver raises as `Greeting` says."""

    number: int
    reply: Reply | Exception
    memory: Memory = Memory()


def portable(error: Exception) -> Exception:
    """Return an error in the form in which a message holds it; called while the error is handled."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, UserError):
        return (NoMemory if isinstance(error, NoMemory) else UserError)(str(error))
    return RuntimeError(traceback.format_exc())


def packed(message: Any) -> bytes:
    """Return a message as bytes, preceded by its length."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


async def receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message; raise EOFError or OSError if the other side has ended."""
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return pickle.loads(await reader.readexactly(length))


def receive_now(connection: socket.socket) -> Any:
    """Return the next message, which blocks; raise EOFError or OSError if the other side has ended."""
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    return pickle.loads(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 2**20))
        if not part:
            raise EOFError("the other side has closed the connection")
        received += part
    return bytes(received)
