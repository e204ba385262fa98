"""Hand-written models: plain code that answers as a real model would, at once and for nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.foundation.calls import Call, ChatCall, JudgeCall, Message, Reply, Usage
from guidebench.harness.interfaces import Judge


class ScriptedModel:
    """A Judge behind the interface of a model. What it raises is a fault of its code and stops the run."""

    def __init__(self, name: str, spawn: Callable[[], Judge], hand: Executor) -> None:
        """`spawn` builds the judge; that and judging happen in the one thread of `hand`, since what draws with OpenGL
        must stay in the thread that began it."""
        self._name, self._spawn, self._hand = name, spawn, hand
        self._judge: Judge | None = None

    async def answer(self, call: Call) -> Reply:
        if not isinstance(call, JudgeCall):
            raise UserError(f"judge {self._name!r} is hand-written and answers nothing but clips")
        return await asyncio.get_running_loop().run_in_executor(self._hand, self._score, call)

    def _score(self, call: JudgeCall) -> Reply:
        if self._judge is None:
            self._judge = self._spawn()
        started = time.perf_counter()
        score: Any = self._judge([call.clip])[0]
        if not (isinstance(score, float) and 0.0 <= score <= 1.0):
            raise UserError(f"judge {self._name!r} answered {score!r}; a score lies in [0, 1]")
        return Reply(score, Usage(calls=1, images=len(call.clip), seconds=time.perf_counter() - started))

    def estimate(self, call: Call) -> Usage:
        return Usage(calls=1)

    async def close(self) -> None:
        """There is nothing to end."""


class ScriptedChat:
    """Hand-written code that continues a chat, behind the interface of a model; it sees the messages alone."""

    def __init__(self, name: str, spawn: Callable[[], Callable[[tuple[Message, ...]], str]], hand: Executor) -> None:
        self._name, self._hand = name, hand
        self._speak = spawn()

    async def answer(self, call: Call) -> Reply:
        if not isinstance(call, ChatCall):
            raise UserError(f"chat {self._name!r} is hand-written and answers nothing but chats")
        return await asyncio.get_running_loop().run_in_executor(self._hand, self._continue, call)

    def _continue(self, call: ChatCall) -> Reply:
        started = time.perf_counter()
        text = self._speak(call.messages)
        return Reply(text, Usage(calls=1, seconds=time.perf_counter() - started))

    def estimate(self, call: Call) -> Usage:
        return Usage(calls=1)

    async def close(self) -> None:
        """There is nothing to end."""
