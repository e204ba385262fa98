"""A proxy on loopback in front of a real server: it forwards requests, or makes them fail as servers and networks
do."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np

PASSED = "passed"
STATUSES = {"rate_limited": 429, "broken": 500, "bad_gateway": 502, "unavailable": 503}
ALTERED = ("truncated", "malformed", "refused", "empty", "wrong")
FAULTS = (*STATUSES, *ALTERED, "dropped", "megabyte", "hang")
ENDLESS = 2**26
"""Bytes that the fault `megabyte` sends if the client keeps reading."""
Plan = Callable[[int], str]
"""The number of a request -> its fault, or PASSED."""


def random_plan(share: float, seed: int, faults: Sequence[str] = FAULTS) -> Plan:
    """Return a plan in which a share of requests fails with a random fault; the fault of request n depends on n
    alone."""

    def plan(number: int) -> str:
        rng = np.random.default_rng((seed, number))
        return str(rng.choice(list(faults))) if rng.random() < share else PASSED

    return plan


class Proxy:
    """Serves at `url` in its own thread; `plan` may be changed at any time."""

    def __init__(self, upstream: str) -> None:
        """`upstream`: base URL of the real server."""
        self._upstream = urlsplit(upstream)
        self._loop = asyncio.new_event_loop()
        self._listener: asyncio.Server | None = None
        self._handling: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._port = 0
        self.plan: Plan = lambda number: PASSED
        self.retry_after = "0"
        """The header Retry-After of replies with HTTP 429, in seconds or as a date."""
        self.faults: list[str] = []
        """The fault of each request, or PASSED."""
        self.bodies: list[Any] = []
        self.keys: set[str] = set()
        """The authorization headers of requests."""
        self.sent = 0
        """Bytes of the last `megabyte` answer that the client read."""
        self.revive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def die(self) -> None:
        """Refuse new connections and break the open ones."""
        self._do(self._die())

    def revive(self) -> None:
        """Listen again on the same port."""
        self._do(self._listen())

    def close(self) -> None:
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _die(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for task in [*self._handling]:
            task.cancel()
        await asyncio.gather(*self._handling, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._handling.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._handle(reader, writer)
        finally:
            self._handling.discard(task)
            writer.transport.abort() if task.cancelling() else writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        fault = self.plan(len(self.faults))
        self.faults.append(fault)
        self.bodies.append(json.loads(body) if body else None)
        self.keys.add(headers.get("authorization", ""))
        if fault == "hang":
            await reader.read()  # until the other side gives up
        elif fault in STATUSES:
            message = json.dumps({"error": {"message": "try again later"}}).encode()
            extra = f"Retry-After: {self.retry_after}\r\n" if fault == "rate_limited" else ""
            await _answer(writer, STATUSES[fault], message, extra)
        elif fault == "megabyte":
            await self._endless(writer)
        else:
            status, body_bytes = await asyncio.to_thread(self._forward, method, path, body, headers)
            if fault in ALTERED:
                body_bytes = alter(fault, body_bytes)
            await _answer(writer, status, body_bytes, cut=fault == "dropped")

    def _forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return the status and body that the real server answers."""
        connection = http.client.HTTPConnection(self._upstream.hostname or "", self._upstream.port, timeout=60)
        passed = {name: headers[name] for name in ("authorization", "content-type", "accept") if name in headers}
        try:
            connection.request(method, path, body, passed)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    async def _endless(self, writer: asyncio.StreamWriter) -> None:
        self.sent = 0
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"choices": "')
        while self.sent < ENDLESS:
            writer.write(b"a" * 2**16)
            await writer.drain()
            self.sent += 2**16


def alter(fault: str, body_bytes: bytes) -> bytes:
    """Return the body of a completion, changed by the fault."""
    if fault == "truncated":
        return body_bytes[: len(body_bytes) // 2]
    if fault == "malformed":
        return body_bytes.replace(b'"choices"', b'"choices" "choices"')
    body = json.loads(body_bytes)
    text = {"refused": None, "empty": "", "wrong": "金の鍵はもう床にありません。"}[fault]
    for choice in body.get("choices", ()):
        choice["message"] |= {"content": text} | ({"refusal": "I cannot help with that."} if text is None else {})
        if choice.get("logprobs"):
            token = {"token": text, "logprob": -0.5, "top_logprobs": [], "bytes": None}
            choice["logprobs"] = {"content": [token] if text else []}
    return json.dumps(body).encode()


async def _answer(
    writer: asyncio.StreamWriter, status: int, body_bytes: bytes, extra: str = "", cut: bool = False
) -> None:
    head = f"HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\nConnection: close\r\n{extra}"
    writer.write(f"{head}Content-Length: {len(body_bytes)}\r\n\r\n".encode())
    writer.write(body_bytes[: len(body_bytes) // 2] if cut else body_bytes)
    await writer.drain()


@contextmanager
def run_proxy(upstream: str) -> Iterator[Proxy]:
    """Run a proxy in front of the server at a base URL while the context lasts."""
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
