"""Serves the page on the loopback interface: the page, its parts, a stream that says which changed, and the reports.

Nothing is written and no path of a request reaches the file system: an address is looked up among the parts of the
page, the files of the report and the runs of the study. A request whose Host header is not the loopback interface is
refused, since a page of another site could have its name resolve to this machine (DNS rebinding).
"""

from __future__ import annotations

import errno
import hashlib
import json
import mimetypes
import re
import socketserver
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from guidebench.harness.errors import UserError
from guidebench.harness.texts import printable
from guidebench.reports.live import contents
from guidebench.reports.live.remaking import HOME, Remaking, run_link
from guidebench.reports.rendering import charts, inline, page

ADDRESS = "127.0.0.1"
LOCAL = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
"""What the Host header of a request from this machine, or through a tunnel to it, may be."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
STREAMS = 64
"""Most open streams."""
SILENCE = 15.0
"""Seconds without news after which a stream sends a comment, which shows whether somebody still reads it."""
PATIENCE = 60.0
"""Seconds to wait for a client to send or to take something."""


class View(NamedTuple):
    """What the page shows at one moment."""

    name: str
    title: str
    parts: Mapping[str, str]
    """Part -> HTML, which is escaped."""
    versions: Mapping[str, str]
    """Part -> digest of its HTML."""
    made: str
    """Of when the full report is."""
    runs: Mapping[str, object]
    """Address of a run's page -> its directory and what changes when its files change."""

    @property
    def news(self) -> bytes:
        """Return the server-sent event with the versions of all parts, from which an open page sees what it must
        fetch."""
        message = {"versions": dict(self.versions), "name": self.name, "title": self.title, "made": self.made}
        return f"data: {json.dumps(message)}\n\n".encode()


class Board:
    """Holds the current view, shared by the thread that follows the study and those that serve requests."""

    def __init__(self, name: str) -> None:
        """Begin with a page that says that the study is being read; `name`: the study's name until then."""
        parts = {**dict.fromkeys(contents.PARTS, ""), "state": "<p>The study is being read.</p>"}
        self.view = View(name, name, parts, versions(parts), "", {})
        self.changed = threading.Condition()
        self.ended = False
        self.streams = 0
        """Open streams: pages that somebody has open."""
        self.is_awaited = False
        """Whether somebody waits for the first report."""

    def show(self, view: View) -> None:
        """Replace the view and wake the open streams, unless the view is the same."""
        with self.changed:
            if view != self.view:
                self.view = view
                self.changed.notify_all()

    def end(self) -> None:
        """End all streams."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()


def versions(parts: Mapping[str, str]) -> dict[str, str]:
    """Return part -> digest of its HTML."""
    return {name: hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()[:16] for name, html in parts.items()}


class Server(ThreadingHTTPServer):
    """Serves a board and the reports behind it."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, board: Board, remaking: Remaking) -> None:
        """Bind the port (0: any free one); raise UserError if it cannot be taken."""
        self.board, self.remaking = board, remaking
        self.script = inline.script(*page.SCRIPTS, "watch/main.js")
        self.policy = inline.policy(self.script, charts.bundle(), connects=True)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            other = "give another with --port, or leave --port out and a free one is taken"
            if error.errno == errno.EADDRINUSE:
                raise UserError(f"--port {port}: the port is in use by another program; {other}") from None
            if error.errno == errno.EACCES:
                raise UserError(f"--port {port}: this user may not take the port; {other}") from None
            raise UserError(f"--port {port}: the port cannot be taken ({error.strerror}); {other}") from None

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def server_bind(self) -> None:
        """Bind without asking for the machine's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of a request, except for clients that disconnected or timed out."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    server: Server

    def do_GET(self) -> None:
        if not LOCAL.fullmatch(self.headers.get("Host", "")):
            self._send("This server answers only requests for the loopback interface.", HTTPStatus.FORBIDDEN)
            return
        path = urlsplit(self.path).path
        view = self.server.board.view
        if path == "/":
            self._page(view)
        elif path == "/events":
            self._stream()
        elif path.startswith("/parts/") and (name := path.removeprefix("/parts/")) in view.parts:
            self._send(view.parts[name], kind="text/html; charset=utf-8", ETag=f'"{view.versions[name]}"')
        elif path.startswith("/report/"):
            self._report(unquote(path.removeprefix("/report/")))
        elif path in view.runs:
            self._run(view.runs[path])
        else:
            self._send("There is no such page.", HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.close_connection = True  # the body of the request stays unread
        self._send("This server only reads.", HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse

    def _page(self, view: View) -> None:
        from markupsafe import Markup

        html = page.environment().get_template("watch/page.html.j2").render(
            title=view.title,
            name=view.name,
            policy=self.server.policy,
            script=self.server.script,
            vega=charts.packed_bundle(),
            parts_of={name: Markup(html) for name, html in view.parts.items()},
            versions=view.versions,
            made=view.made,
        )  # fmt: skip
        self._send(html, kind="text/html; charset=utf-8")

    def _report(self, name: str) -> None:
        made = self.server.remaking.made
        if made is not None and name in made.files:
            try:
                file_bytes = made.files[name].read_bytes()
            except OSError:
                self._wait("The report is being made anew.")
                return
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            self._send(file_bytes, kind=f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        elif f"/report/{name}" == HOME:
            self.server.board.is_awaited = True
            self._wait(f"The full report {self.server.remaking.status}")
        else:
            self._send("There is no such file in the report.", HTTPStatus.NOT_FOUND)

    def _wait(self, message: str) -> None:
        """Answer that the content is not ready, with a header that makes the browser ask again."""
        self._send(message, HTTPStatus.SERVICE_UNAVAILABLE, Refresh="2")

    def _run(self, run: Any) -> None:
        directory, stamp = run
        try:
            html = self.server.remaking.run_page(directory, stamp)
        except (UserError, OSError) as error:
            self._send(
                f"The page of this run cannot be made: {printable(str(error))}", HTTPStatus.INTERNAL_SERVER_ERROR
            )
            return
        self._send(html, kind="text/html; charset=utf-8")

    def _stream(self) -> None:
        """Send an event now and at each change of the view, until the client or the server ends."""
        board = self.server.board
        self.close_connection = True
        with board.changed:
            if board.streams >= STREAMS:
                full = True
            else:
                full, board.streams = False, board.streams + 1
        if full:
            self._send(f"{STREAMS} pages are open already.", HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream", "Connection": "close"})
            if self.command == "HEAD":
                return
            sent: View | None = None
            while not board.ended:
                with board.changed:
                    if board.view is sent and not board.ended:
                        board.changed.wait(SILENCE)
                    view = board.view
                self.wfile.write(b": still here\n\n" if view is sent else view.news)
                self.wfile.flush()
                sent = view
        finally:
            with board.changed:
                board.streams -= 1

    def _send(
        self,
        content: str | bytes,
        status: HTTPStatus = HTTPStatus.OK,
        kind: str = "text/plain; charset=utf-8",
        **headers: str,
    ) -> None:
        body = content.encode("utf-8", "replace") if isinstance(content, str) else content
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(body)), **headers})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        """Return the program's name, without versions, for the Server header."""
        return "bench watch"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal says where the page is."""


def run_addresses(directories: Mapping[str, object]) -> dict[str, object]:
    """Return address of a run's page -> its directory and stamp, from run directory -> stamp."""
    return {run_link(directory): (directory, stamp) for directory, stamp in directories.items()}
