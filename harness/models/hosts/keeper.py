"""The command's side: it starts a model host when a worker first asks for its model, and ends the hosts at the end.

A model process asks on a socket that the workers inherit. Its request carries one end of a new pair of sockets, which
is handed on to the host; calls and answers then go directly between the two. So there is neither an address nor a key,
and no file is left behind: only processes that the command started can ask, which is why requests may be pickled
(`wire.py`). A host whose process has ended is started again by the next request; one that gives no sign of life
(`harness/heartbeats.py`) is killed, so that its askers notice and ask again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import subprocess
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from guidebench.harness import fork_server, heartbeats
from guidebench.harness.heartbeats import LOOK, SILENT_AFTER, Pulse, Silent, Watch
from guidebench.harness.models.hosts.wire import BUSY, CONNECT, YIELD, ModelRequest, packed

REQUEST = 2**18
"""Largest request in bytes; it holds the settings of a model, of which a prompt is the longest."""
PATIENCE = 1.0
"""Seconds to wait for a host's reply that it is in use; a host that is still loading does not reply."""

AGAIN = 0.1
"""Seconds until a host in use is asked again to make room."""
ENDING = 1.5
"""Seconds that a host has to end (choice: nobody is connected to it then, and stopping ends soon for all)."""


class _Host(NamedTuple):
    model_request: ModelRequest
    process: fork_server.Process
    control: socket.socket
    watch: Watch


class Hosts:
    """The model hosts of a command."""

    def __init__(
        self, log: Path, environment: Callable[[str | None], Mapping[str, str]], silent_after: float = SILENT_AFTER
    ) -> None:
        """`log`: file to which hosts append what they print; `environment`: returns the environment variables of a host
        that sees these GPUs, None for all that the command may use; `silent_after`: seconds without a heartbeat after
        which a host is killed."""
        self._log, self._environment, self._silent_after = log, environment, silent_after
        self.notices: deque[str] = deque()
        """Messages about killed hosts, which the command shows and removes."""
        self._mine, self._requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._hosts: dict[str, _Host] = {}
        self._thread = threading.Thread(target=self._work, daemon=True, name="model hosts")
        self._thread.start()

    @property
    def requests(self) -> int:
        """File descriptor of the socket on which model processes ask; workers inherit it."""
        return self._requests.fileno()

    def close(self) -> None:
        """End all hosts. Call it when all workers have ended."""
        self._requests.send(b"")
        self._thread.join()
        self._requests.close()

    def _work(self) -> None:
        with self._mine:
            while True:
                self._look()
                if not select.select([self._mine], [], [], LOOK)[0]:
                    continue
                request, handles, _, _ = socket.recv_fds(self._mine, REQUEST, 1)
                if not request:
                    break
                try:
                    self._connect(pickle.loads(request), handles[0])
                except Exception:  # the asker notices that it has no connection, and the others go on
                    with open(self._log, "a") as log:
                        traceback.print_exc(file=log)
                finally:
                    for handle in handles:
                        os.close(handle)
        until = time.monotonic() + ENDING
        for host in self._hosts.values():
            host.control.close()  # so that all end at the same time
        for host in self._hosts.values():
            _end_host(host, max(0.0, until - time.monotonic()))

    def _look(self) -> None:
        """Kill the hosts that give no sign of life. The next request for such a model starts another host."""
        for key, host in [*self._hosts.items()]:
            try:
                if host.process.poll() is None:
                    host.watch.look()
            except Silent as silent:
                heartbeats.kill_group(host.process.pid)
                _end_host(self._hosts.pop(key))
                self.notices.append(
                    f"the shared process {host.process.pid} of {host.model_request.part} {silent}; restarted"
                )
                with open(self._log, "a") as log:
                    print(self.notices[-1], file=log)

    def _connect(self, model_request: ModelRequest, connection: int) -> None:
        """Hand a connection to the host of a model; start the host if there is none."""
        host = self._hosts.get(model_request.key)
        if host is not None and host.process.poll() is None:
            with contextlib.suppress(OSError):  # it is about to end
                socket.send_fds(host.control, [CONNECT], [connection])
                return
        if host is not None:
            _end_host(self._hosts.pop(model_request.key))
        self._make_room(model_request)
        host = self._hosts[model_request.key] = self._start(model_request)
        socket.send_fds(host.control, [CONNECT], [connection])

    def _make_room(self, model_request: ModelRequest) -> None:
        """End the hosts on the same device to which nobody is connected: the memory may not suffice for both models."""
        for key, host in [*self._hosts.items()]:
            if host.model_request.place != model_request.place:
                continue
            with contextlib.suppress(OSError):  # it has ended already
                if not _yields(host):
                    continue
            _end_host(self._hosts.pop(key))

    def _start(self, model_request: ModelRequest) -> _Host:
        ours, theirs = socket.socketpair()
        pulse = Pulse(self._silent_after)
        with theirs, open(self._log, "ab") as log:
            process = fork_server.start(
                "guidebench.harness.models.hosts.process",
                str(theirs.fileno()),
                str(self._silent_after),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(model_request.place[1]),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches only the command
                pulse=pulse,
            )
        pulse.close()
        with contextlib.suppress(OSError):  # it has ended already, and its connections tell so
            ours.sendall(packed(model_request))
        return _Host(model_request, process, ours, Watch(process.pid, pulse))


def _yields(host: _Host) -> bool:
    """Return whether a host ends to make room. One that says for `PATIENCE` seconds that it is in use stays: on a busy
    machine a host learns later than its last asker that nobody is connected any more."""
    until = time.monotonic() + PATIENCE
    while True:
        host.control.sendall(YIELD)
        if not select.select([host.control], [], [], PATIENCE)[0]:
            return False
        if host.control.recv(1) != BUSY:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(AGAIN)


def _end_host(host: _Host, seconds: float = ENDING) -> None:
    """Wait at most `seconds` for a host to end, then kill the rest of its process group: a fork may be stopped."""
    host.control.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        host.process.wait(seconds)
    heartbeats.kill_group(host.process.pid)
    host.process.wait()
