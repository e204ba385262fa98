"""A served model in a process of its own, which chaos kills, stops, starts again, and lets answer with errors."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.harness.models.canned import completion

Answer = Callable[[Mapping[str, Any]], str]
"""Body of a request -> text of the answer."""


class Server:
    """A server on loopback that keeps its address when it is started again; a context manager."""

    def __init__(self, answer: Answer, directory: Path) -> None:
        """`answer`: body of a request -> text of the answer; `directory`: where the server logs its requests."""
        self._answer, self._notes, self._failing = answer, directory / "requests", directory / "failing"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._process: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def requests(self) -> int:
        """Return the number of requests that have reached the server."""
        return self._notes.stat().st_size if self._notes.exists() else 0

    def start(self) -> None:
        """Start the server unless it is running, and wait until it listens."""
        if self._process is None:
            reading, writing = multiprocessing.Pipe(duplex=False)
            context: Any = multiprocessing.get_context("fork")
            self._process = context.Process(
                target=_serve, args=(self._port, self._answer, self._notes, self._failing, writing), daemon=True
            )
            self._process.start()
            writing.close()
            with contextlib.suppress(EOFError):
                reading.recv()

    def lose(self) -> None:
        """Kill the server: open connections break, and new ones are refused."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def silence(self) -> None:
        """Stop the server by SIGSTOP: the system accepts connections, and nobody answers."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def fail(self) -> None:
        """Let the server answer each request with an HTTP error."""
        self._failing.touch()

    def restore(self) -> None:
        """Let the server answer again after `lose`, `silence` or `fail`."""
        self._failing.unlink(missing_ok=True)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGCONT)
        self.start()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.lose()


def _serve(port: int, answer: Answer, notes: Path, failing: Path, ready: Any) -> None:
    """Serve on a loopback port until the process is killed. `notes`: file that gets a byte per request; `failing`:
    while it exists every request fails; `ready`: pipe to which None is sent once the server listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(200, {"data": [{"id": "m"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with open(notes, "ab") as file:
                file.write(b".")
            if failing.exists():
                self._reply(503, {"error": {"message": "overloaded", "type": "server_error"}})
            else:
                self._reply(200, completion(answer(body)))

        def _reply(self, status: int, content: Any) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Print nothing of a client that was killed."""

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Quiet(("127.0.0.1", port), Handler) as server:
        ready.send(None)
        ready.close()
        server.serve_forever(0.1)
