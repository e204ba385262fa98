"""One OpenAI-compatible server, through the official client: a request is sent once, and what goes wrong has a name.

A body is read up to a limit and no further, whatever the server sends. Keys come from the environment and leave it only
in the header of a request: texts of servers and of errors are scrubbed of them.
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

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.faults import REMOVED, scrubbed
from guidebench.harness.models.calls import Failure, FailureKind, Json, Usage
from guidebench.harness.texts import each_text, mended

try:
    import httpx2
    import openai
except ImportError as error:
    raise UserError(
        f"openai is missing ({error}); install the extra openai: pip install 'guidebench[openai]'"
    ) from None

LONGEST = 2**20
"""Bytes of a body that are read (choice: an answer of 1024 tokens takes a hundredth of it)."""
LONGEST_VECTORS = 2**26
"""Bytes of a body of vectors that are read (choice: a thousand of 3072 numbers)."""
CONNECTING = 10.0
"""Seconds for a connection to come about (choice)."""
UNKEYED = "none"
"""Sent for a key where there is none: servers of one's own look at no key, and the client insists on one."""
REFUSED = frozenset(("content_filter", "content_policy_violation"))
"""Codes of HTTP 400 by which hosted servers tell that they will not answer."""


class ServerReply(NamedTuple):
    """What a server answered with HTTP 2xx."""

    body: Json
    seconds: float


class Server:
    """Takes any number of requests at a time. Nothing is asked twice: trying again is for who asks."""

    def __init__(self, base_url: str | None, key_variable: str, timeout: float, section: str = "judge") -> None:
        """`base_url`: None is OPENAI_BASE_URL, or else the client's own; `timeout`: seconds for one request; `section`:
        of the settings that name it, for messages.

        UserError for an address that holds a secret or is none, and for a key that is missing or no key.
        """
        self._section, self._variable, self._timeout = section, key_variable, timeout
        self._url = _address(base_url, section)
        self._key = _key(key_variable, section, needed=self._url is None)
        self._client: Any = openai.AsyncOpenAI(
            api_key=self._key or UNKEYED,
            base_url=self._url,
            max_retries=0,
            timeout=openai.Timeout(timeout, connect=min(timeout, CONNECTING)),
            default_headers={"Accept-Encoding": "identity"},  # so that a body's length is what is read of it
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [_bound]}, follow_redirects=False),
        )

    async def complete(self, body: Mapping[str, Json], extra: Mapping[str, Json] | None = None) -> ServerReply:
        """A chat continued (`/chat/completions`); `extra`: fields that are the server's own.

        Failure, its usage with the seconds that it took; UserError where no request of this kind can succeed.
        """
        create = self._client.chat.completions.with_raw_response.create
        return await self._answer(create(**body, extra_body=extra), str(body["model"]))

    async def embed(self, model: str, texts: list[str]) -> ServerReply:
        """A vector for each text (`/embeddings`). Failure and UserError as `complete`."""
        create = self._client.embeddings.with_raw_response.create
        return await self._answer(create(model=model, input=texts, encoding_format="float"), model)

    async def models(self) -> list[str]:
        """Names of what it serves, as it says (`/models`). Failure and UserError as `complete`."""
        answer = await self._answer(self._client.models.with_raw_response.list(), "")
        entries = answer.body.get("data") if isinstance(answer.body, dict) else None
        if not isinstance(entries, list):
            raise Failure("malformed", "a list of models that is none")
        named = [entry.get("id") for entry in entries if isinstance(entry, dict)]
        return [self.told(name) for name in named if isinstance(name, str)]

    async def close(self) -> None:
        await self._client.close()

    @property
    def name(self) -> str:
        """Its address."""
        return str(self._client.base_url)

    def told(self, text: str) -> str:
        """What may be kept of a server's words: their beginning, without the key."""
        return scrubbed(self._kept(text))

    def _kept(self, text: str) -> str:
        return mended(text.replace(self._key, REMOVED) if self._key else text)

    async def _answer(self, asking: Any, model: str) -> ServerReply:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                raw = await asking
            return ServerReply(self._parsed(raw.content), time.perf_counter() - started)
        except Exception as error:
            fault = self._fault(error, model)
            if isinstance(fault, Failure):
                fault.usage = Usage(calls=1, seconds=time.perf_counter() - started)
            raise fault from None

    def _fault(self, error: Exception, model: str) -> Exception:
        """A Failure, or what is to be mended by who configured this."""
        if isinstance(error, openai.APIStatusError):
            return self._refusal(error, model)
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return Failure("timeout", f"no answer within {self._timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            return Failure("connection", self.told(f"no connection to {self.name}: {error.__cause__ or error}"))
        return error

    def _parsed(self, content: bytes) -> Json:
        try:
            return each_text(json.loads(content, parse_constant=_no_number), self._kept)
        except (ValueError, RecursionError) as error:
            raise Failure("malformed", self.told(f"a body that is no JSON ({error}): {content[:80]!r}")) from None

    def _refusal(self, error: openai.APIStatusError, model: str) -> Exception:
        """What HTTP 4xx and 5xx mean."""
        status, said = error.status_code, self.told(" ".join(error.response.text.split()))
        if 300 <= status < 400:
            target = self.told(error.response.headers.get("location", "").partition("?")[0]) or "another address"
            return UserError(
                f"{self.name} redirects to {target} (HTTP {status}), and nothing is sent there; if you trust that "
                f"address, set {self._section}.base_url to it"
            )
        if status in (401, 403):
            given = f"the key in {self._variable}" if self._key else f"no key, since {self._variable} is not set"
            return UserError(f"{self.name} turned away {given} (HTTP {status}): {said}\ncheck {self._variable}")
        if status == 404:
            return UserError(
                f"{self.name} has no model {model!r}, or serves no such call (HTTP 404): {said}\ncheck "
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
        return Failure(kind, f"HTTP {status}: {said}", retry_after=_retry_after(error.response.headers))


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with a Failure where it grows too long."""

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
    """The key, or "" if there is none; it is never part of a message."""
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
    """Seconds that a server asks to wait, told as such or as a date; None where it asks for nothing."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        said = headers.get(name)
        if said is None:
            continue
        try:
            seconds = float(said) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(said).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
