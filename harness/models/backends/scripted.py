"""Hand-written models: plain code behind the interface of a foundation model, instant and free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Call, Reply, Usage


class ScriptedModel:
    """Plain code that answers calls to judge, to chat, or of another kind (`Call.answered_by`). An exception in it is a
    bug and stops the run."""

    def __init__(self, name: str, answers: Collection[str], spawn: Callable[[], Callable[..., Any]], hand: Executor):
        """`name`: name of the part, such as "judge 'sprite'"; `answers`: kinds of call that it answers; `spawn`: builds
        the code. Building and answering run in the single thread of `hand`, because OpenGL rendering must stay in the
        thread that started it."""
        self._name, self._answers, self._spawn, self._hand = name, answers, spawn, hand
        self._code: Callable[..., Any] | None = None

    async def answer(self, call: Call) -> Reply:
        if call.kind not in self._answers:
            raise UserError(f"{self._name} is hand-written and answers {' and '.join(self._answers)}, not {call.kind}")
        return await asyncio.get_running_loop().run_in_executor(self._hand, self._work, call)

    def _work(self, call: Call) -> Reply:
        if self._code is None:
            self._code = self._spawn()
        started = time.perf_counter()
        value = call.answered_by(self._code)
        if fault := call.fault(value):
            raise UserError(f"{self._name} answered {value!r:.80}: {fault}")
        return Reply(value, Usage(calls=1, images=len(call.images()), seconds=time.perf_counter() - started))

    def estimate(self, call: Call) -> Usage:
        return Usage(calls=1)

    async def close(self) -> None:
        """Do nothing, because there is nothing to release."""
