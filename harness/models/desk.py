"""The desk: all calls of a worker to one model go over it, and each comes back as an answer or as a failure.

It looks into the cassette first, asks equal questions once, keeps within the budget and a bounded number in flight,
tries again what may go better, leaves a model alone that is not there, and records before it tells.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from guidebench.harness.errors import MissingCall, UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models import keys
from guidebench.harness.models.backends.faults import Breaker, kept, scrubbed
from guidebench.harness.models.backends.images import png
from guidebench.harness.models.budget import Budget
from guidebench.harness.models.calls import (
    RETRYABLE,
    Asker,
    Call,
    CallResult,
    Failure,
    Model,
    Reply,
    Usage,
)
from guidebench.harness.models.cassette import Cassette, CassetteEntry
from guidebench.harness.models.keys import Request

Mode = Literal["record", "live", "replay"]
Result = TypeVar("Result")
ABSENT = frozenset(("timeout", "rate_limited", "server", "connection", "crashed"))
"""Kinds of failure that say that the model is not there; the others are answers of a kind."""
LARGE = 2**17
"""Bytes of images from which on hashing and packing them, half a millisecond, are another thread's work."""


@dataclass(frozen=True)
class Policy:
    """How patient a desk is with its model."""

    timeout: float = 60.0
    """Seconds for an attempt, and the longest wait before the next, whatever a server asks for."""
    attempts: int = 4
    backoff: float = 1.0
    """Seconds before the second attempt, doubled for each further one; a random half of it is left out."""
    in_flight: int = 8
    """Calls that are being answered at a time; others wait."""
    breaker_after: int = 16
    """Failed attempts in a row, of any calls, after which the model counts as gone."""
    breaker_seconds: float = 30.0
    """Until one call tries whether it is there again; meanwhile calls fail at once."""

    @property
    def longest(self) -> float:
        """Seconds within which a call that is not waiting for others is answered or has failed."""
        return self.attempts * 2 * self.timeout


class Desk:
    """Where calls to one model are answered; within one event loop."""

    def __init__(
        self,
        model: Model | None,
        identity: Mapping[str, Any],
        name: str,
        cassette: Cassette | None,
        budget: Budget | None,
        policy: Policy,
        mode: Mode,
        answers: Collection[str] | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """`model`: None only in replay; `identity`: what can change its answers, for keys; `name`: for the ledger;
        `cassette`: None only in live; `answers`: the kinds of calls that the model answers, None where it has declared
        none and refuses others itself; `rng`: spreads attempts in time and changes no answer."""
        assert model is not None or mode == "replay", "a model is needed to ask one"
        assert cassette is not None or mode == "live", "a cassette is needed to record and to replay"
        self._model, self._identity, self._name = model, dict(identity), name
        self._cassette, self._budget, self._policy, self._mode = cassette, budget, policy, mode
        self._answers = answers
        self._rng = rng if rng is not None else np.random.default_rng()
        self._slots = asyncio.Semaphore(policy.in_flight)
        self._breaker = Breaker(policy.breaker_after, policy.breaker_seconds)
        self._asking: dict[str, asyncio.Task[CallResult]] = {}
        self._unwritten: list[CassetteEntry] = []
        self._not_before = 0.0
        self._closing = False

    async def answer(self, call: Call, asker: Asker) -> CallResult:
        """What became of a call, on disk if it is to be recorded.

        MissingCall for one that was never recorded, in replay; BudgetReached; UserError from a model that cannot be
        used at all, and for a full disk.
        """
        if self._answers is not None and call.kind not in self._answers:
            raise UserError(
                f"{self._name} was put a call of kind {call.kind!r} and answers only {' and '.join(self._answers)}; "
                f"the part that asks has to declare such calls in `puts`, so that this is said before a run starts"
            )
        request = await _work(call.images(), lambda: keys.request(self._identity, call, asker))
        found = self._recorded(request, asker)
        if found is not None:
            return found
        asking = self._asking.get(request.key)
        if asking is None:
            asking = self._asking[request.key] = asyncio.create_task(self._ask(call, request, asker))
            asking.add_done_callback(lambda _: self._asking.pop(request.key))
            return await asyncio.shield(asking)
        told = (await asyncio.shield(asking))._replace(billed=Usage())
        if self._mode == "record" and self._cassette is not None:
            self._cassette.record(CassetteEntry(request, asker, self._name, told, {}, told.billed))
        return told

    async def close(self, grace: float = 0.0) -> None:
        """Let go of model, cassette and budget. Attempts under way have `grace` seconds to be answered and recorded,
        since they are paid for; nothing new is attempted."""
        self._closing = True
        if self._asking and grace:
            await asyncio.wait([*self._asking.values()], timeout=grace)
        for asking in [*self._asking.values()]:
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        try:
            if self._unwritten and self._cassette is not None:
                self._write(self._cassette)  # of those that were cancelled while they waited for others
        finally:
            for part in (self._cassette, self._budget):
                if part is not None:
                    part.close()
            if self._model is not None:
                await self._model.close()

    def _recorded(self, request: Request, asker: Asker) -> CallResult | None:
        if self._cassette is None or self._mode == "live":
            return None
        if self._mode == "record":
            return self._cassette.hear(request, asker)
        found = self._cassette.find(request, asker)
        if found is None:
            missing = (
                "was answered by an array whose numbers were not kept (models.keep_arrays=finished)"
                if self._cassette.dropped(request)
                else "was never recorded"
            )
            raise MissingCall(
                f"run {asker.run}, step {asker.step}: question {asker.ordinal} to {self._name} {missing}, and "
                f"models.mode=replay asks nothing; add what is missing with `bench models import`, or run the same "
                f"command with models.mode=record"
            )
        return found

    async def _ask(self, call: Call, request: Request, asker: Asker) -> CallResult:
        """Ask the model and record what became of it."""
        async with self._slots:
            told = await self._attempts(call, asker)
        spent = Usage() if told.failure else told.usage  # attempts that failed are on record already
        if self._cassette is not None and self._mode == "record":
            wanted = set() if told.failure else self._cassette.lacks(request.images)
            new = {digest: request.images[digest] for digest in sorted(wanted)}
            pngs = await _work(new.values(), lambda: {digest: png(image) for digest, image in new.items()})
            entry = CassetteEntry(request, asker, self._name, told, pngs, spent)
            if len(self._asking) > 1:
                await self._record(self._cassette, entry)
            else:
                self._cassette.record(entry)
        else:
            self._spend(asker, spent)
        return told

    async def _record(self, cassette: Cassette, entry: CassetteEntry) -> None:
        """Record an answer in one transaction with those that come at once with it, as answers of a batch do."""
        self._unwritten.append(entry)
        await asyncio.sleep(0)  # for the others
        if any(entry is each for each in self._unwritten):
            self._write(cassette)

    def _write(self, cassette: Cassette) -> None:
        cassette.record(*self._unwritten)
        self._unwritten.clear()

    async def _attempts(self, call: Call, asker: Asker) -> CallResult:
        """What became of a call, after as many attempts as it took."""
        billed = Usage()
        failure = Failure("breaker", "the model is left alone after many failures")
        for attempt in range(self._policy.attempts):
            await self._wait(attempt)
            if self._closing:
                raise asyncio.CancelledError
            if not self._breaker.admits():
                break
            try:
                reply = await self._attempt(call)
            except Failure as error:
                failure, billed = error, billed.plus(error.usage)
                self._spend(asker, error.usage)
                self._note(error)
                if error.kind not in RETRYABLE:
                    break
            except BaseException:
                self._breaker.dropped()
                raise
            else:
                self._breaker.answered()
                return CallResult(reply.value, "", reply.usage, billed.plus(reply.usage), _kept(reply.detail))
        return CallResult(None, failure.kind, billed, billed, {"message": scrubbed(str(failure))})

    def _spend(self, asker: Asker, usage: Usage) -> None:
        if self._cassette is not None and usage.calls:
            self._cassette.spend(asker.run, self._name, usage)

    async def _attempt(self, call: Call) -> Reply:
        """One attempt, within the budget and the time for it."""
        assert self._model is not None
        estimate = self._model.estimate(call)
        while self._budget is not None and not self._budget.reserve(estimate):
            await asyncio.sleep(0.05)
        started = time.monotonic()
        took = Usage(calls=1)
        try:
            async with asyncio.timeout(self._policy.timeout):
                reply = await self._model.answer(call)
            reply, took = reply._replace(value=kept(reply.value)), reply.usage
            if wrong := call.fault(reply.value):
                raise Failure("malformed", wrong, took)
            return reply
        except Failure as failure:
            took = failure.usage
            raise
        except TimeoutError:
            took = Usage(calls=1, seconds=time.monotonic() - started)
            raise Failure("timeout", f"no answer within {self._policy.timeout:g} s", took) from None
        finally:
            if self._budget is not None:
                self._budget.settle(estimate, took)

    def _note(self, failure: Failure) -> None:
        """Whether the model is there, and how long it wants to be left alone."""
        if failure.kind not in ABSENT:
            self._breaker.answered()
            return
        self._breaker.failed()
        if failure.retry_after is not None:
            wait = min(failure.retry_after, self._policy.timeout)
            self._not_before = max(self._not_before, time.monotonic() + wait)

    async def _wait(self, attempt: int) -> None:
        """Until the next attempt: a while that grows, and as long as the server has asked of everyone."""
        wait = self._not_before - time.monotonic()
        if attempt:
            backoff = min(self._policy.backoff * 2.0 ** (attempt - 1), self._policy.timeout)
            wait = max(wait, backoff * self._rng.uniform(0.5, 1.0))
        if wait > 0:
            await asyncio.sleep(wait)


async def _work(images: Iterable[Array], work: Callable[[], Result]) -> Result:
    """Work on images, beside the event loop where they are large."""
    return await asyncio.to_thread(work) if sum(image.nbytes for image in images) >= LARGE else work()


def _kept(detail: Mapping[str, float | str]) -> dict[str, float | str]:
    return {name: scrubbed(value) if isinstance(value, str) else float(value) for name, value in detail.items()}
