"""The desk handles all calls of a worker to one model and returns an answer or a failure for each.

It looks up the cassette first, sends equal questions once, respects the budget and a limit on concurrent calls, retries
failures that may be transient, stops calling a model that does not respond, and records each answer before returning
it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from guidebench.harness.errors import MissingCall, UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.backends.faults import Breaker, recordable, scrubbed
from guidebench.harness.models.backends.images import png
from guidebench.harness.models.budget import Budget
from guidebench.harness.models.calls import (
    ONE_CALL,
    RETRYABLE,
    Answer,
    Call,
    Failure,
    Model,
    Reply,
    Request,
    Ticket,
    Usage,
    counting,
)
from guidebench.harness.models.cassette import Cassette, CassetteEntry
from guidebench.harness.models.grants import Grants

Mode = Literal["record", "live", "replay"]
Result = TypeVar("Result")
ABSENT = frozenset(("timeout", "rate_limited", "server", "connection", "crashed"))
"""Kinds of failure that mean the model is unreachable; every other kind is some response from it."""
IDLE = 30.0
"""Seconds without a call after which a process releases the rest of its part of the budget."""
LARGE = 2**17
"""Total image bytes above which hashing and packing (half a millisecond) move to another thread"""


@dataclass(frozen=True)
class Policy:
    """Timeouts, retries and concurrency of a desk's calls."""

    timeout: float = 60.0
    """Seconds that an attempt may take, and the longest wait before the next, even if the server asks for more."""
    attempts: int = 4
    backoff: float = 1.0
    """Seconds before the second attempt, doubled for each further one and scaled by a random factor in [0.5, 1]."""
    in_flight: int = 8
    """Most concurrent calls; others wait."""
    breaker_after: int = 16
    """Consecutive failed attempts, over all calls, after which the model counts as unreachable."""
    breaker_seconds: float = 30.0
    """Seconds until one call tests the model again; meanwhile calls fail immediately."""

    @property
    def longest(self) -> float:
        """Seconds within which a call is answered or fails, once it no longer waits for other calls."""
        return self.attempts * 2 * self.timeout


class Desk:
    """Handles the calls to one model, within one event loop."""

    def __init__(
        self,
        model: Model | None,
        identity: Mapping[str, Any],
        name: str,
        cassette: Cassette | None,
        budget: Budget | Grants | None,
        policy: Policy,
        mode: Mode,
        answers: Collection[str] | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """`model`: None only in replay; `identity`: settings that can change its answers, hashed into keys; `name`:
        model name in the records of usage; `cassette`: None only in live; `answers`: kinds of call that the model
        answers, None if it declares none and rejects others itself; `rng`: randomises retry times and changes no
        answer."""
        assert model is not None or mode == "replay", "modes record and live need a model"
        assert cassette is not None or mode == "live", "modes record and replay need a cassette"
        self._model, self._identity, self._name = model, dict(identity), name
        self._cassette, self._budget, self._policy, self._mode = cassette, budget, policy, mode
        self._answers = answers
        self._rng = rng if rng is not None else np.random.default_rng()
        self._slots = asyncio.Semaphore(policy.in_flight)
        self._breaker = Breaker(policy.breaker_after, policy.breaker_seconds)
        self._asking: dict[str, asyncio.Task[Answer]] = {}
        self._unwritten: list[CassetteEntry] = []
        self._not_before = 0.0
        self._closing = False
        self.waits: Callable[[], None] = lambda: None
        """Called several times a second while the budget lets a call wait for others."""
        self._idle: asyncio.TimerHandle | None = None
        """Timer that releases this process's part of the budget if no call follows."""

    async def answer(self, call: Call, ticket: Ticket) -> Answer:
        """Return the outcome of a call, which is on disk by then if the mode records.

        Raise MissingCall in replay for a call that was never recorded, BudgetReached, and UserError if the model cannot
        be used at all or the disk is full.
        """
        if self._answers is not None and call.kind not in self._answers:
            raise UserError(
                f"{self._name} got a call of kind {call.kind!r} and answers only {' and '.join(self._answers)}; "
                f"the part that asks has to declare such calls in `puts`, so that this is said before a run starts"
            )
        request = await _work(call.images(), lambda: call.request(self._identity, ticket))
        recorded = self._look_up(request, ticket)
        if recorded is not None:
            return recorded
        asking = self._asking.get(request.key)
        if asking is None:
            asking = self._asking[request.key] = asyncio.create_task(self._ask(call, request, ticket))
            asking.add_done_callback(lambda _: self._asking.pop(request.key))
            return await asyncio.shield(asking)
        outcome = (await asyncio.shield(asking))._replace(billed=Usage())
        if self._mode == "record" and self._cassette is not None:
            self._cassette.record(CassetteEntry(request, ticket, self._name, outcome, {}, outcome.billed))
        return outcome

    def bill(self) -> None:
        """Record the usage but no answers, because another process holds the runs by now."""
        if self._cassette is not None:
            self._cassette.bill()

    def publish(self, followers: Iterable[Path] = ()) -> None:
        """Copy all recorded answers to storage that survives the loss of this machine, and release the rest of this
        process's part of the budget. `followers`: files that exist if other processes have taken over the runs; Fenced
        is raised if one does."""
        if self._cassette is not None:
            self._cassette.publish(followers)
        if self._budget is not None:
            self._budget.rest()

    async def close(self, grace: float = 0.0, last: Callable[[], None] = lambda: None) -> None:
        """Close model, cassette and budget. Attempts under way have `grace` seconds to be answered and recorded,
        because they are paid for; no new attempt starts. `last` is called before the files are closed."""
        self._closing = True
        self._cancel_idle_timer()
        if self._asking and grace:
            await asyncio.wait([*self._asking.values()], timeout=grace)
        for asking in [*self._asking.values()]:
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        try:
            if self._unwritten and self._cassette is not None:
                self._write(self._cassette)  # entries whose tasks were cancelled while they waited to batch
        finally:
            try:
                last()
            finally:
                self._cancel_idle_timer()
                if self._cassette is not None:
                    self._cassette.close()
                if self._budget is not None:
                    self._budget.close()
                if self._model is not None:
                    await self._model.close()

    def _look_up(self, request: Request, ticket: Ticket) -> Answer | None:
        if self._cassette is None or self._mode == "live":
            return None
        if self._mode == "record":
            return self._cassette.adopt(request, ticket)
        recorded = self._cassette.find(request, ticket)
        if recorded is None:
            missing = (
                "was answered by an array whose numbers were not kept (models.keep_arrays=finished)"
                if self._cassette.dropped(request)
                else "was never recorded"
            )
            raise MissingCall(
                f"run {ticket.run}, step {ticket.step}: question {ticket.ordinal} to {self._name} {missing}, and "
                f"models.mode=replay asks nothing; add what is missing with `bench models import`, or run the same "
                f"command with models.mode=record"
            )
        return recorded

    async def _ask(self, call: Call, request: Request, ticket: Ticket) -> Answer:
        """Ask the model and record the outcome."""
        async with self._slots:
            outcome, spent = await self._attempts(call, ticket)
        if self._cassette is not None and self._mode == "record":
            missing = set() if outcome.failure else self._cassette.lacks(request.images)
            new = {digest: request.images[digest] for digest in sorted(missing)}
            pngs = await _work(new.values(), lambda: {digest: png(image) for digest, image in new.items()})
            entry = CassetteEntry(request, ticket, self._name, outcome, pngs, spent)
            if len(self._asking) > 1:
                await self._record(self._cassette, entry)
            else:
                self._cassette.record(entry)
        else:
            self._spend(ticket, spent)
        return outcome

    async def _record(self, cassette: Cassette, entry: CassetteEntry) -> None:
        """Record an answer in one transaction with those that arrive at the same time, such as the answers of a
        batch."""
        self._unwritten.append(entry)
        await asyncio.sleep(0)  # let the other answers arrive
        if any(entry is unwritten for unwritten in self._unwritten):
            self._write(cassette)

    def _write(self, cassette: Cassette) -> None:
        cassette.record(*self._unwritten)
        self._unwritten.clear()

    async def _attempts(self, call: Call, ticket: Ticket) -> tuple[Answer, Usage]:
        """Return the outcome of a call after at most `attempts` attempts, and the part of its usage that is not
        recorded yet."""
        billed = Usage()
        failure = Failure("breaker", "the model is not called for a while after many failures in a row")
        for attempt in range(self._policy.attempts):
            await self._wait(attempt)
            if self._closing:
                raise asyncio.CancelledError
            if not self._breaker.admits():
                break
            try:
                reply, unrecorded = await self._attempt(call, ticket)
            except Failure as error:
                failure, billed = error, billed.plus(error.usage)
                self._note(error)
                if error.kind not in RETRYABLE or (error.kind == "malformed" and not call.sampled):
                    break  # a model that does not sample gives the same answer to the same words
            except BaseException:
                self._breaker.dropped()
                raise
            else:
                self._breaker.answered()
                outcome = Answer(reply.value, "", reply.usage, billed.plus(reply.usage), _scrubbed_detail(reply.detail))
                return outcome, unrecorded
        return Answer(None, failure.kind, billed, billed, {"message": scrubbed(str(failure))}), Usage()

    def _spend(self, ticket: Ticket, usage: Usage) -> None:
        if self._cassette is not None:
            self._cassette.spend(ticket.account, self._name, usage)

    async def _attempt(self, call: Call, ticket: Ticket) -> tuple[Reply, Usage]:
        """Make one attempt within the budget and the timeout; return the reply and the usage that is still to be
        recorded with it. Each request is recorded as a spent call before it is sent, the rest of its usage when the
        attempt ends."""
        assert self._model is not None
        estimate = self._model.estimate(call)
        while self._budget is not None and not self._budget.reserve(estimate):
            self.waits()
            await asyncio.sleep(0.05)
        self._cancel_idle_timer()
        requests, started, took = Requests(self._begins(ticket)), time.monotonic(), None
        try:
            requests.first()
            async with asyncio.timeout(self._policy.timeout):
                with counting(requests.next):
                    reply = await self._model.answer(call)
            reply, took = reply._replace(value=recordable(reply.value)), reply.usage
            if wrong := call.fault(reply.value):
                raise Failure("malformed", wrong, took)
            return reply, requests.rest(took)
        except Failure as failure:
            took = failure.usage
            self._spend(ticket, requests.rest(took))
            raise
        except TimeoutError:
            took = Usage(calls=requests.begun, seconds=time.monotonic() - started)
            self._spend(ticket, requests.rest(took))
            raise Failure("timeout", f"no answer within {self._policy.timeout:g} s", took) from None
        finally:
            if self._budget is not None:
                self._budget.settle(estimate, took or Usage(calls=requests.begun), requests.begun)
                self._cancel_idle_timer()
                self._idle = asyncio.get_running_loop().call_later(IDLE, self._budget.rest)

    def _begins(self, ticket: Ticket) -> Callable[[], None]:
        """Return the function to call before each request of a call is sent: it records one spent call."""

        def begins() -> None:
            self._spend(ticket, ONE_CALL)
            if self._budget is not None:
                self._budget.begin()

        return begins

    def _cancel_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

    def _note(self, failure: Failure) -> None:
        """Update the circuit breaker and the server's requested wait after a failure."""
        if failure.kind not in ABSENT:
            self._breaker.answered()
            return
        self._breaker.failed()
        if failure.retry_after is not None:
            wait = min(failure.retry_after, self._policy.timeout)
            self._not_before = max(self._not_before, time.monotonic() + wait)

    async def _wait(self, attempt: int) -> None:
        """Sleep until the next attempt: exponential backoff, and at least the wait that the server has asked for."""
        wait = self._not_before - time.monotonic()
        if attempt:
            backoff = min(self._policy.backoff * 2.0 ** (attempt - 1), self._policy.timeout)
            wait = max(wait, backoff * self._rng.uniform(0.5, 1.0))
        if wait > 0:
            await asyncio.sleep(wait)


class Requests:
    """Counts the requests of one attempt as they begin. A model that announces none sends exactly one."""

    def __init__(self, begins: Callable[[], None]) -> None:
        """`begins`: called before each request is sent."""
        self._begins, self._announced = begins, 0
        self.begun = 0

    def first(self) -> None:
        """Count the first request, which every attempt has."""
        self._begins()
        self.begun = 1

    def next(self) -> None:
        """Count a request that the model announces; the first one announced is already counted."""
        self._announced += 1
        if self._announced > self.begun:
            self._begins()
            self.begun += 1

    def rest(self, took: Usage) -> Usage:
        """Return the usage of the attempt without the requests that are counted already."""
        return took._replace(calls=took.calls - self.begun)


async def _work(images: Iterable[Array], work: Callable[[], Result]) -> Result:
    """Run `work`, in a thread if the images are large enough to block the event loop."""
    return await asyncio.to_thread(work) if sum(image.nbytes for image in images) >= LARGE else work()


def _scrubbed_detail(detail: Mapping[str, float | str]) -> dict[str, float | str]:
    return {name: scrubbed(value) if isinstance(value, str) else float(value) for name, value in detail.items()}
