"""One OpenAI-compatible server, through the official client: each request is sent once, and each error is classified.

A response body is read up to a limit. Keys come from the environment and are sent only in request headers; they are
removed from texts of servers and of errors.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from guidebench.harness import extras
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.faults import REMOVED, scrubbed
from guidebench.harness.models.calls import Failure, FailureKind, Json, Usage
from guidebench.harness.texts import each_text, mended

try:
    import httpx2
    import openai
except ImportError as error:
    raise extras.missing(f"the package openai is missing ({error})", "openai") from None

LONGEST = 2**20
"""Most bytes read of a response body (choice: a hundred times an answer of 1024 tokens)."""
LONGEST_VECTORS = 2**26
"""Most bytes read of a response body with vectors (choice: a thousand vectors of 3072 numbers)."""
CONNECTING = 10.0
"""Timeout for connecting, in seconds (choice)."""
UNKEYED = "none"
"""Placeholder key: self-run servers ignore the key, and the client requires one."""
REFUSED = frozenset(("content_filter", "content_policy_violation"))
"""Error codes of HTTP 400 with which hosted servers refuse to answer."""


class ServerReply(NamedTuple):
    """A response with HTTP 2xx."""

    body: Json
    seconds: float


class Server:
    """Accepts concurrent requests. It never retries; retrying is up to the caller."""

    def __init__(self, base_url: str | None, key_variable: str, timeout: float, section: str = "judge") -> None:
        """`base_url`: None means OPENAI_BASE_URL, or else the client's default; `timeout`: seconds for one request;
        `section`: section of its settings, for messages.

        Raises UserError for an address that is invalid or contains a secret, and for a missing or invalid key.
        """
        self._section, self._variable, self._timeout = section, key_variable, timeout
        self._url = _address(base_url, section)
        self._key = _key(key_variable, section, needed=self._url is None)
        self._client: Any = openai.AsyncOpenAI(
            api_key=self._key or UNKEYED,
            base_url=self._url,
            max_retries=0,
            timeout=openai.Timeout(timeout, connect=min(timeout, CONNECTING)),
            default_headers={"Accept-Encoding": "identity"},  # so that the length limit counts uncompressed bytes
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [_bound]}, follow_redirects=False),
        )

    async def complete(self, body: Mapping[str, Json], extra: Mapping[str, Json] | None = None) -> ServerReply:
        """Continue a chat (`/chat/completions`); `extra`: server-specific fields.

        Raises Failure, whose usage has the seconds taken, and UserError if no such request can succeed.
        """
        create = self._client.chat.completions.with_raw_response.create
        return await self._answer(create(**body, extra_body=extra), str(body["model"]))

    async def embed(self, model: str, texts: list[str]) -> ServerReply:
        """Return a vector for each text (`/embeddings`); raise Failure and UserError as `complete` does."""
        create = self._client.embeddings.with_raw_response.create
        return await self._answer(create(model=model, input=texts, encoding_format="float"), model)

    async def models(self) -> list[str]:
        """Return the names of the served models (`/models`); raise Failure and UserError as `complete` does."""
        response = await self._answer(self._client.models.with_raw_response.list(), "")
        models = response.body.get("data") if isinstance(response.body, dict) else None
        if not isinstance(models, list):
            raise Failure("malformed", "an invalid list of models")
        named = [model.get("id") for model in models if isinstance(model, dict)]
        return [self.redacted(name) for name in named if isinstance(name, str)]

    async def close(self) -> None:
        await self._client.close()

    @property
    def name(self) -> str:
        """Address of the server"""
        return str(self._client.base_url)

    def redacted(self, text: str) -> str:
        """Return the beginning of a server's text, without the key."""
        return scrubbed(self._without_key(text))

    def _without_key(self, text: str) -> str:
        return mended(text.replace(self._key, REMOVED) if self._key else text)

    async def _answer(self, request: Any, model: str) -> ServerReply:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                response = await request
            return ServerReply(self._parsed(response.content), time.perf_counter() - started)
        except Exception as error:
            fault = self._fault(error, model)
            if isinstance(fault, Failure):
                fault.usage = Usage(calls=1, seconds=time.perf_counter() - started)
            raise fault from None

    def _fault(self, error: Exception, model: str) -> Exception:
        """Return a Failure, or a UserError if the configuration must change."""
        if isinstance(error, openai.APIStatusError):
            return self._refusal(error, model)
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return Failure("timeout", f"no answer within {self._timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            return Failure("connection", self.redacted(f"no connection to {self.name}: {error.__cause__ or error}"))
        return error

    def _parsed(self, content: bytes) -> Json:
        try:
            return each_text(json.loads(content, parse_constant=_no_number), self._without_key)
        except (ValueError, RecursionError) as error:
            raise Failure("malformed", self.redacted(f"a body that is no JSON ({error}): {content[:80]!r}")) from None

    def _refusal(self, error: openai.APIStatusError, model: str) -> Exception:
        """Return the error that an HTTP status of 3xx, 4xx or 5xx means."""
        status, explanation = error.status_code, self.redacted(" ".join(error.response.text.split()))
        if 300 <= status < 400:
            target = self.redacted(error.response.headers.get("location", "").partition("?")[0]) or "another address"
            return UserError(
                f"{self.name} redirects to {target} (HTTP {status}), and nothing is sent there; if you trust that "
                f"address, set {self._section}.base_url to it"
            )
        if status in (401, 403):
            credentials = f"the key in {self._variable}" if self._key else f"no key, since {self._variable} is not set"
            return UserError(
                f"{self.name} turned away {credentials} (HTTP {status}): {explanation}\ncheck {self._variable}"
            )
        if status == 404:
            return UserError(
                f"{self.name} has no model {model!r}, or serves no such call (HTTP 404): {explanation}\ncheck "
                f"{self._section}.model and {self._section}.base_url, which for most servers ends in /v1"
            )
        kind: FailureKind = "rejected"
        if status == 429:
            kind = "rate_limited"
        elif status == 408:
            kind = "timeout"
        elif status >= 500:
            kind = "server"
        elif error.code in REFUSED:
            kind = "refused"
        return Failure(kind, f"HTTP {status}: {explanation}", retry_after=_retry_after(error.response.headers))


class _Bounded(httpx2.AsyncByteStream):
    """A response body that raises Failure beyond a length limit."""

    def __init__(self, body: Any, limit: int) -> None:
        self._body, self._limit = body, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._body:
            read += len(chunk)
            if read > self._limit:
                raise Failure("malformed", f"a body of more than {self._limit:,} bytes, cut off")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Failure("malformed", "a compressed body, which was not asked for")
    vectors = response.request.url.path.endswith("/embeddings")
    response.stream = _Bounded(response.stream, LONGEST_VECTORS if vectors else LONGEST)


def _address(base_url: str | None, section: str) -> str | None:
    url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        raise UserError(
            f"{section}.base_url holds a name, a password or a query, and it is written into records; put a key into "
            f"the environment variable that {section}.key_variable names"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{section}.base_url={url}: expected an address such as http://localhost:8000/v1")
    return url


def _key(variable: str, section: str, needed: bool) -> str:
    """Return the key, or "" if there is none; no message contains it."""
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(f"the environment variable {variable} holds characters that no key has; set it anew")
    if needed and not key:
        raise UserError(
            f"no server and no key: name a server with {section}.base_url=http://…/v1, or set {variable} for OpenAI's "
            f"own"
        )
    return key


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, given as a number or a date; None if it does not ask."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        header = headers.get(name)
        if header is None:
            continue
        try:
            seconds = float(header) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(header).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
