"""The code that runs in the model process: it receives questions as snapshots or text and sends back answers.

Rendering has a thread of its own, which a hand-written judge shares; a foundation model's calls run concurrently up to
the limit of its desk. The process ends when the worker closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import itertools
import json
import shutil
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from guidebench.harness.errors import BudgetReached, MissingCall, NoMemory, UserError, count, in_role
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Dialogue, Unusable
from guidebench.harness.models.backends.scripted import ScriptedModel
from guidebench.harness.models.calls import Asker, Call, CallResult, JudgeCall, Model, Usage
from guidebench.harness.models.hosts.client import HostedModel
from guidebench.harness.models.messages import (
    HURRIED,
    Assignment,
    Farewell,
    ProcessReply,
    Publish,
    RegisteredPart,
    SentQuestion,
)
from guidebench.harness.models.questions import Memory
from guidebench.harness.plan import answering, arrays
from guidebench.harness.plan.arrays import Declared
from guidebench.harness.records.leases import Fenced

Message = SentQuestion | Publish | Farewell | Exception
"""What the worker sends; an exception is the reason why it sends nothing more."""

WAITING = 5.0
"""Seconds between two messages that calls wait for their part of the budget."""


class Answers(Protocol):
    """Anything that answers calls: a desk, or scripted models directly."""

    waits: Callable[[], None]
    """Called again and again while calls wait for their part of the budget."""

    async def answer(self, call: Call, asker: Asker) -> CallResult: ...

    def publish(self, followers: Iterable[Path]) -> None: ...

    def bill(self) -> None: ...

    async def close(self, grace: float, last: Callable[[], None]) -> None: ...


class DirectModels:
    """Scripted models, by role, called directly: they are free and deterministic, so they need neither cassette nor
    retries."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self.waits: Callable[[], None] = lambda: None

    async def answer(self, call: Call, asker: Asker) -> CallResult:
        reply = await self._models[asker.role].answer(call)
        return CallResult(reply.value, usage=reply.usage, billed=reply.usage, detail=reply.detail)

    def publish(self, followers: Iterable[Path]) -> None:
        """Do nothing, because nothing is recorded."""

    def bill(self) -> None:
        """Do nothing, because nothing is spent."""

    async def close(self, grace: float, last: Callable[[], None]) -> None:
        for model in self._models.values():
            await model.close()


def main(handle: str, home: str = "", requests: str = "") -> int:
    """Answer the questions on a connection, on which the assignment comes first, until the worker closes it.

    `home`: the module that registers the suite, which need not be announced; `requests`: the descriptor of the socket
    on which a model is asked for that the workers of this machine share; "" to load one here.
    """
    connection = Connection(int(handle))
    if home:
        with contextlib.suppress(Exception):  # the registry reports what is wrong with the module
            importlib.import_module(home)
    try:
        assignment: Assignment = connection.recv()
    except EOFError:
        return 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker handles Ctrl-C and closes the pipe
    # Schedulers send it to all processes of a task; the worker needs this one for its last checkpoint.
    signal.signal(signal.SIGTERM, signal.SIG_IGN if assignment.shared else signal.SIG_DFL)
    asyncio.run(_serve(connection, assignment, socket.socket(fileno=int(requests)) if requests else None))
    return 0


async def _serve(connection: Connection, assignment: Assignment, requests: socket.socket | None) -> None:
    hand, loop = ThreadPoolExecutor(1), asyncio.get_running_loop()
    heard: asyncio.Queue[Message] = asyncio.Queue()
    threading.Thread(target=_listen, args=(connection, loop, heard), daemon=True, name="ear").start()
    answering: set[asyncio.Task[None]] = set()
    desk: Answers | None = None
    farewell, gone = None, False
    try:
        studio: Studio | None = None
        broken, full = "", False
        hosted = None if requests is None else HostedModel(requests, assignment.model)
        try:
            desk = answers(assignment, hand, hosted)
            desk.waits = _every(WAITING, lambda: _send(connection, ProcessReply(0, waits=True)))
            studio = await loop.run_in_executor(hand, Studio, assignment)
        except UserError as error:
            broken, full = str(error), isinstance(error, NoMemory)
        except Exception:  # as for a clip, below
            broken = f"{assignment.model_names} cannot be built:\n{traceback.format_exc()}"
        while True:
            item = await heard.get()
            if isinstance(item, (EOFError, OSError)):
                gone = True
                return
            if isinstance(item, Exception):
                raise item
            if isinstance(item, Farewell):
                farewell = item
                continue
            if isinstance(item, Publish):
                _send(connection, _published(desk, broken, item.followers))
                continue
            if broken or studio is None or desk is None:
                problem = in_role(broken, assignment.voices[item.role].model.kind, item.role)
                _send(connection, ProcessReply(item.number, error=problem, full=full))
                continue
            task = asyncio.create_task(_answer(connection, assignment, studio, desk, item, hand, hosted))
            answering.add(task)
            task.add_done_callback(answering.discard)
            await asyncio.sleep(0)  # start the task before the next message, which may be the end of the connection
    finally:
        if desk is not None:
            await desk.close(HURRIED if farewell is None else farewell.seconds, _last(desk, farewell, gone))
        for task in answering:
            task.cancel()
        hand.shutdown(wait=False, cancel_futures=True)
        if gone and farewell is None and assignment.scratch:  # the worker is gone, which removes it otherwise
            shutil.rmtree(assignment.scratch, ignore_errors=True)


def _published(desk: Answers | None, broken: str, followers: Iterable[Path]) -> ProcessReply:
    """Call the desk's `publish` and return the reply to the worker. Without a desk, publish nothing; earlier answers
    stay on this machine."""
    if desk is None:
        return ProcessReply(0, error=broken)
    try:
        desk.publish(followers)
    except Fenced as fenced:
        return ProcessReply(0, lost=str(fenced))
    except (UserError, OSError) as error:
        return ProcessReply(0, error=str(error))
    return ProcessReply(0, published=True)


def _last(desk: Answers, farewell: Farewell | None, gone: bool) -> Callable[[], None]:
    """Return the last action of a desk: publish if the worker has asked for it; record only the usage if others may
    hold the runs by now; else nothing, because after an error of this process the worker's next process publishes."""

    def publish() -> None:
        assert farewell is not None
        try:
            desk.publish(farewell.followers)
        except Fenced:
            desk.bill()

    if farewell is not None and farewell.keep:
        return publish
    return desk.bill if gone else lambda: None


def _every(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `call`, but at most once in `seconds`."""
    last = -seconds

    def called() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            call()

    return called


def _listen(connection: Connection, loop: asyncio.AbstractEventLoop, heard: asyncio.Queue[Message]) -> None:
    """Receive questions until the worker closes the connection. Runs in a thread of its own: if both sides sent large
    messages and neither read, both would block forever."""
    with contextlib.suppress(RuntimeError):  # the event loop is closed because the process is ending
        try:
            while True:
                loop.call_soon_threadsafe(heard.put_nowait, connection.recv())
        except Exception as error:
            loop.call_soon_threadsafe(heard.put_nowait, error)


async def _answer(
    connection: Connection, assignment: Assignment, studio: Studio, desk: Answers, question: SentQuestion,
    hand: ThreadPoolExecutor, hosted: HostedModel | None,
) -> None:  # fmt: skip
    try:
        drawing, frames = 0.0, None
        if question.snapshots is not None:
            frames, drawing = await asyncio.get_running_loop().run_in_executor(hand, studio.draw, question)
        run = assignment.runs[question.row]
        role_dialogue = studio.dialogues[question.role]
        if role_dialogue.dialogue is not None:
            outcome = await _converse(role_dialogue, role_dialogue.dialogue, desk, frames, question, run)
        else:
            assert frames is not None, "a clip has snapshots"
            asker = Asker(run, question.ordinal, question.step, question.role, question.scope, question.probe)
            outcome = await desk.answer(JudgeCall(frames, role_dialogue.prompt), asker)
        memory = Memory.of_process() if hosted is None else hosted.memory
        message = ProcessReply(question.number, outcome, drawing, memory)
    except BudgetReached as reached:
        message = ProcessReply(question.number, budget=str(reached))
    except MissingCall as error:
        message = ProcessReply(question.number, missing=str(error))
    except UserError as error:
        problem = in_role(str(error), assignment.voices[question.role].model.kind, question.role)
        message = ProcessReply(question.number, error=problem, full=isinstance(error, NoMemory))
    except Exception:  # a plug-in may raise anything; send the worker the traceback
        model = assignment.voices[question.role].model
        message = ProcessReply(question.number, error=f"{model} failed on a question:\n{traceback.format_exc()}")
    _send(connection, message)


async def _converse(
    role_dialogue: RoleDialogue,
    dialogue: Dialogue,
    desk: Answers,
    frames: Array | None,
    question: SentQuestion,
    run: str,
) -> CallResult:
    """Run a dialogue and return its value with the usage of all its calls; if it returns None or `Unusable`, the
    question has failed, with the kind of its last failed call, else `malformed`. Raise UserError for an array that
    differs from the asking part's declaration."""
    outcomes: dict[int, CallResult] = {}
    begun = itertools.count()

    async def ask(call: Call) -> CallResult:
        if (number := next(begun)) >= dialogue.calls:
            raise UserError(
                f"the dialogue in the role {question.role!r} makes more than the {count(dialogue.calls, 'call')} that "
                f"it says it makes; correct its `calls`"
            )
        ordinal = question.ordinal * dialogue.calls + number
        asker = Asker(run, ordinal, question.step, question.role, question.scope, question.probe)
        outcomes[number] = await desk.answer(role_dialogue.sampled(call), asker)
        return outcomes[number]

    value, wrong = await dialogue(_read(question, role_dialogue.speaker), frames, ask), ""
    unusable = isinstance(value, Unusable)
    if unusable:
        value = value.value
    if role_dialogue.array is None:
        arrays.undeclared(value, role_dialogue.speaker, question.role)
    elif value is not None:
        value, wrong = arrays.fitted(value, role_dialogue.array, question.keys)
    # Sums of floats must not depend on which answer came first.
    ordered = [outcomes[number] for number in sorted(outcomes)]
    usage = functools.reduce(Usage.plus, (outcome.usage for outcome in ordered), Usage())
    billed = functools.reduce(Usage.plus, (outcome.billed for outcome in ordered), Usage())
    failures = [] if wrong else [outcome.failure for outcome in ordered if outcome.failure]
    failure = (failures or ["malformed"])[-1] if value is None or unusable else ""
    return CallResult(value, failure, usage, billed, {"message": wrong} if wrong else {})


def _read(question: SentQuestion, speaker: str) -> Any:
    """Return the parsed content of a question; raise UserError if it is not JSON."""
    try:
        return json.loads(question.content or "null")
    except json.JSONDecodeError as error:
        raise UserError(
            f"{speaker} asks in the role {question.role!r} with the content {question.content[:80]!r}, which is not "
            f"JSON ({error}); write it with json.dumps"
        ) from None


def _send(connection: Connection, message: ProcessReply) -> None:
    with contextlib.suppress(OSError):  # the worker is gone; the next recv reports it
        connection.send(message)


class RoleDialogue(NamedTuple):
    """Prompt, sampling and dialogue of one role."""

    clip_length: int
    prompt: str
    sampled: Callable[[Call], Call]
    """Returns a call with the role's sampling settings."""
    dialogue: Dialogue | None
    """None for a judge that gets clips."""
    speaker: str
    """Name of the part whose dialogue it is."""
    array: Declared | None


class Studio:
    """Renders the frames of a task, in the thread that builds it, and holds the prompt and dialogue of each role."""

    def __init__(self, assignment: Assignment) -> None:
        suite = built(assignment.suite)
        self._draw: Callable[[Array], Array] | None = None
        if assignment.drawing is not None:
            self._draw = suite.drawing(**assignment.drawing).spawn(assignment.task)
        self.dialogues = {
            role: RoleDialogue(
                voice.clip_length, str(voice.model.settings.get("prompt", "")), built(voice.model).sampled,
                built(voice.speaker).dialogue(suite, assignment.task, role) if voice.speaker else None,
                str(voice.speaker), voice.array,
            )
            for role, voice in assignment.voices.items()
        }  # fmt: skip

    def draw(self, question: SentQuestion) -> tuple[Array, float]:
        """Return frames [L, height, width, 3] of a question's snapshots, a judged clip padded to its full length, and
        the seconds of rendering."""
        started = time.perf_counter()
        assert self._draw is not None and question.snapshots is not None, "snapshots without rendering settings"
        role_dialogue = self.dialogues[question.role]
        snapshots = (
            question.snapshots if role_dialogue.dialogue else padded(question.snapshots, role_dialogue.clip_length)
        )
        return self._draw(snapshots), time.perf_counter() - started


def built(part: RegisteredPart) -> Any:
    """Return the built configuration of a registered part."""
    from guidebench.harness import registry

    return registry.get(part.kind, part.name)(**part.settings)


def answers(assignment: Assignment, hand: ThreadPoolExecutor, hosted: HostedModel | None = None) -> Answers:
    """Return the object that answers the calls: hand-written models, or a foundation model behind a desk. `hosted`: the
    model in another process, if it is not loaded here."""
    config = built(assignment.model)
    if config.backend == "scripted":
        return DirectModels(
            {role: _scripted(assignment, voice.model, hand) for role, voice in assignment.voices.items()}
        )
    from guidebench.harness.models import study_models

    models = Models(**assignment.models)
    shared = (
        study_models.Shared(assignment.scratch, assignment.runs[0].partition("/")[0]) if assignment.shared else None
    )
    load = None if hosted is None else hosted.spawn
    return study_models.desk(config, models, Path(assignment.directory), assignment.device, shared=shared, spawn=load)


def _scripted(assignment: Assignment, model: RegisteredPart, hand: ThreadPoolExecutor) -> ScriptedModel:
    config, suite = built(model), built(assignment.suite)
    drawn = (suite.drawing(**(assignment.drawing or {})),) if config.draws else ()
    spawn = functools.partial(config.spawn, suite, assignment.task, *drawn)
    return ScriptedModel(str(model), answering.answered(model.kind, config), spawn, hand)


def padded(snapshots: Array, length: int) -> Array:
    """Return a clip of `length` snapshots; a shorter clip is padded on the left with its first frame (VLM-RB, app.
    E)."""
    missing = length - len(snapshots)
    return snapshots if missing <= 0 else np.concatenate([np.repeat(snapshots[:1], missing, axis=0), snapshots])
