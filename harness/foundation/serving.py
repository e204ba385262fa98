"""What runs in the model process: questions come in as snapshots, are drawn, asked about, and answered as they come.

Drawing has one thread of its own, which a hand-written judge shares; a real model's calls are all in flight at a time
as far as its desk allows. The process ends when the other side hangs up.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.errors import BudgetReached, MissingCall, UserError
from harness.execution import Models
from harness.foundation.backends.scripted import ScriptedModel
from harness.foundation.calls import Asker, Call, JudgeCall, Told
from harness.foundation.process import FAREWELL, Assignment, Message, Sent
from harness.interfaces import Array


class Answers(Protocol):
    """What a drawn clip is put to."""

    async def answer(self, call: Call, asker: Asker) -> Told: ...

    async def close(self, grace: float) -> None: ...


class Unaided:
    """A scripted model asked directly: free and always the same, it needs neither cassette nor retries."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    async def answer(self, call: Call, asker: Asker) -> Told:
        reply = await self._model.answer(call)
        return Told(reply.value, usage=reply.usage, billed=reply.usage, detail=reply.detail)

    async def close(self, grace: float) -> None:
        await self._model.close()


def serve(connection: Connection, assignment: Assignment) -> None:
    """Answer until the other side hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to handle; it closes the pipe
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(_serve(connection, assignment))


async def _serve(connection: Connection, assignment: Assignment) -> None:
    hand, ear = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    answering: set[asyncio.Task[None]] = set()
    desk: Answers | None = None
    try:
        studio: Studio | None = None
        broken = ""
        try:
            studio = await loop.run_in_executor(hand, Studio, assignment)
            desk = answers(assignment, hand)
        except UserError as error:
            broken = str(error)
        except Exception:  # as for a clip, below
            broken = f"judge {assignment.judge!r} cannot be built:\n{traceback.format_exc()}"
        while True:
            try:
                item: Sent = await loop.run_in_executor(ear, connection.recv)
            except (EOFError, OSError):
                return
            if broken or studio is None or desk is None:
                _send(connection, Message(item.number, error=broken))
                continue
            task = asyncio.create_task(_answer(connection, assignment, studio, desk, item, hand))
            answering.add(task)
            task.add_done_callback(answering.discard)
    finally:
        if desk is not None:
            await desk.close(FAREWELL)
        for task in answering:
            task.cancel()
        hand.shutdown(wait=False, cancel_futures=True)
        ear.shutdown(wait=False, cancel_futures=True)


async def _answer(
    connection: Connection, assignment: Assignment, studio: Studio, desk: Answers, item: Sent, hand: ThreadPoolExecutor
) -> None:
    try:
        clip, drawing = await asyncio.get_running_loop().run_in_executor(hand, studio.draw, item.snapshots)
        asker = Asker(assignment.runs[item.row], item.ordinal, item.step)
        told = await desk.answer(JudgeCall(clip, studio.prompt), asker)
        message = Message(item.number, told, drawing)
    except BudgetReached as reached:
        message = Message(item.number, budget=str(reached))
    except MissingCall as error:
        message = Message(item.number, missing=str(error))
    except UserError as error:
        message = Message(item.number, error=str(error))
    except Exception:  # a plug-in may raise anything; the worker is told, traceback and all
        message = Message(item.number, error=f"judge {assignment.judge!r} failed on a clip:\n{traceback.format_exc()}")
    _send(connection, message)


def _send(connection: Connection, message: Message) -> None:
    with contextlib.suppress(OSError):  # the other side is gone; the next recv tells
        connection.send(message)


class Studio:
    """Draws the clips of a task, in the thread that builds it."""

    def __init__(self, assignment: Assignment) -> None:
        from harness import registry, settings

        suite = settings.build(registry.get("suite", assignment.suite), assignment.suite_settings, "suite")
        drawing = settings.build(suite.drawing, assignment.drawing_settings, "drawing")
        self._draw: Callable[[Array], Array] = drawing.spawn(assignment.task)
        self._length = assignment.clip_length
        self.prompt = str(assignment.judge_settings.get("prompt", ""))

    def draw(self, snapshots: Array) -> tuple[Array, float]:
        """uint8 [m, n] -> frames [L, height, width, 3] of the padded clip, and the seconds that took."""
        started = time.perf_counter()
        return self._draw(padded(snapshots, self._length)), time.perf_counter() - started


def answers(assignment: Assignment, hand: ThreadPoolExecutor) -> Answers:
    """What answers for the assignment's judge: hand-written code, or a real model behind a desk."""
    from harness import registry, settings

    suite = settings.build(registry.get("suite", assignment.suite), assignment.suite_settings, "suite")
    judge: Any = settings.build(registry.get("judge", assignment.judge), assignment.judge_settings, "judge")
    if judge.backend == "scripted":  # asked directly
        return Unaided(ScriptedModel(assignment.judge, lambda: judge.spawn(suite, assignment.task), hand))
    from harness.foundation import keeping

    models = Models(**assignment.models)
    return keeping.desk(judge, models, Path(assignment.directory), assignment.device)


def padded(snapshots: Array, length: int) -> Array:
    """A clip of `length` snapshots: a shorter one repeats its first frame on the left (VLM-RB, app. E)."""
    missing = length - len(snapshots)
    return snapshots if missing <= 0 else np.concatenate([np.repeat(snapshots[:1], missing, axis=0), snapshots])
