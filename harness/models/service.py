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
from guidebench.harness.interfaces import Array, Dialogue, Question, Unusable
from guidebench.harness.models import answer_records
from guidebench.harness.models.backends.placebo import PLACEBO, PlaceboModels, read_pool
from guidebench.harness.models.backends.scripted import ScriptedModel
from guidebench.harness.models.calls import Answer, Call, JudgeCall, Model, Ticket, Usage
from guidebench.harness.models.choosing import ByChoice, dialogue_of
from guidebench.harness.models.hosts.client import HostedModel
from guidebench.harness.models.messages import (
    HURRIED,
    Assignment,
    Farewell,
    FromProcess,
    Publish,
    RegisteredPart,
    Served,
)
from guidebench.harness.models.questions import Memory
from guidebench.harness.plan import answering, arrays
from guidebench.harness.plan.arrays import Declared
from guidebench.harness.records.answers import QUESTION, AnswerRecord
from guidebench.harness.records.leases import Fenced

FromWorker = tuple[Ticket, Question] | Publish | Farewell | Exception
"""What the worker sends; an exception is the reason why it sends nothing more."""

WAITING = 5.0
"""Seconds between two messages that calls wait for their part of the budget."""


class Answerer(Protocol):
    """Anything that answers calls: a desk, or scripted models directly."""

    waits: Callable[[], None]
    """Called again and again while calls wait for their part of the budget."""

    async def answer(self, call: Call, ticket: Ticket) -> Answer: ...

    def publish(self, followers: Iterable[Path]) -> None: ...

    def bill(self) -> None: ...

    async def close(self, grace: float, last: Callable[[], None]) -> None: ...


class DirectModels:
    """Scripted models, by role, called directly: they are free and deterministic, so they need neither cassette nor
    retries."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self.waits: Callable[[], None] = lambda: None

    async def answer(self, call: Call, ticket: Ticket) -> Answer:
        reply = await self._models[ticket.role].answer(call)
        return Answer(reply.value, usage=reply.usage, billed=reply.usage, detail=reply.detail)

    def publish(self, followers: Iterable[Path]) -> None:
        """Do nothing, because nothing is recorded."""

    def bill(self) -> None:
        """Do nothing, because nothing is spent."""

    async def close(self, grace: float, last: Callable[[], None]) -> None:
        for model in self._models.values():
            await model.close()


def main(handle: str, home: str = "", requests: str = "") -> int:
    """Answer the questions on a connection, on which the assignment comes first, until the worker closes it.

    `handle`: file descriptor of the connection; `home`: module that registers the suite, needed if no entry point names
    it; `requests`: descriptor of the socket on which a model that the workers of this machine share is requested; "" to
    load the model here.
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
    heard: asyncio.Queue[FromWorker] = asyncio.Queue()
    threading.Thread(target=_listen, args=(connection, loop, heard), daemon=True, name="ear").start()
    answering: set[asyncio.Task[None]] = set()
    desk: Answerer | None = None
    farewell, gone = None, False
    try:
        studio: Studio | None = None
        broken: Exception | None = None
        hosted = None if requests is None else HostedModel(requests, assignment.model)
        try:
            desk = make_answerer(assignment, hand, hosted)
            desk.waits = _at_most_every(WAITING, lambda: _send(connection, None))
            studio = await loop.run_in_executor(hand, Studio, assignment)
        except UserError as error:
            broken = error
        except Exception:  # as for a clip, below
            broken = UserError(f"{assignment.model_names} cannot be built:\n{traceback.format_exc()}")
        while True:
            message = await heard.get()
            if isinstance(message, (EOFError, OSError)):
                gone = True
                return
            if isinstance(message, Exception):
                raise message
            if isinstance(message, Farewell):
                farewell = message
                continue
            if isinstance(message, Publish):
                _send(connection, broken if desk is None else _publish(desk, message))
                continue
            if broken is not None or studio is None or desk is None:
                _send(connection, _in_role(broken, assignment, message[0].role))
                continue
            task = asyncio.create_task(_answer(connection, assignment, studio, desk, *message, hand, hosted))
            answering.add(task)
            task.add_done_callback(answering.discard)
            await asyncio.sleep(0)  # start the task before the next message, which may be the end of the connection
    finally:
        if desk is not None:
            await desk.close(HURRIED if farewell is None else farewell.seconds, _last_action(desk, farewell, gone))
        for task in answering:
            task.cancel()
        hand.shutdown(wait=False, cancel_futures=True)
        if gone and farewell is None and assignment.scratch:  # the worker is gone, which removes it otherwise
            shutil.rmtree(assignment.scratch, ignore_errors=True)


def _publish(desk: Answerer, message: Publish) -> FromProcess:
    """Call the desk's `publish` and return the reply to the worker."""
    try:
        desk.publish(message.followers)
    except (Fenced, UserError) as error:
        return error
    except OSError as error:
        return UserError(str(error))
    return message


def _in_role(error: BaseException | None, assignment: Assignment, role: str) -> UserError:
    """Return a UserError or NoMemory that names the role."""
    kind = NoMemory if isinstance(error, NoMemory) else UserError
    return kind(in_role(str(error), assignment.voices[role].model.kind, role))


def _last_action(desk: Answerer, farewell: Farewell | None, gone: bool) -> Callable[[], None]:
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


def _at_most_every(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `call`, but at most once in `seconds`."""
    last = -seconds

    def called() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            call()

    return called


def _listen(connection: Connection, loop: asyncio.AbstractEventLoop, heard: asyncio.Queue[FromWorker]) -> None:
    """Receive questions until the worker closes the connection. Runs in a thread of its own: if both sides sent large
    messages and neither read, both would block forever."""
    with contextlib.suppress(RuntimeError):  # the event loop is closed because the process is ending
        try:
            while True:
                loop.call_soon_threadsafe(heard.put_nowait, connection.recv())
        except Exception as error:
            loop.call_soon_threadsafe(heard.put_nowait, error)


async def _answer(
    connection: Connection, assignment: Assignment, studio: Studio, desk: Answerer, ticket: Ticket, question: Question,
    hand: ThreadPoolExecutor, hosted: HostedModel | None,
) -> None:  # fmt: skip
    message: FromProcess
    try:
        answer, drawing = await _answered(assignment.answers, studio, desk, ticket, question, hand)
        message = Served(ticket, answer, drawing, Memory.of_process() if hosted is None else hosted.memory)
    except BudgetReached as reached:
        message = reached
    except MissingCall as missing:
        message = Served(ticket, missing)
    except UserError as error:
        message = _in_role(error, assignment, ticket.role)
    except Exception:  # a plug-in may raise anything; send the worker the traceback
        model = assignment.voices[ticket.role].model
        message = UserError(f"{model} failed on a question:\n{traceback.format_exc()}")
    _send(connection, message)


async def _answered(
    keeps: bool, studio: Studio, desk: Answerer, ticket: Ticket, question: Question, hand: ThreadPoolExecutor
) -> tuple[Answer, float]:
    """Return the answer to a question, and the seconds of drawing. `keeps`: whether it carries records."""
    voice, drawing, frames = studio.dialogues[ticket.role], 0.0, None
    kind = JudgeCall.kind if voice.dialogue is None else QUESTION
    if isinstance(desk, PlaceboModels) and desk.answers_whole(ticket.role, kind):
        shape = None if voice.array is None else (len(question.key), *voice.array.spec.shape)
        answer = desk.answer_question(question, kind, ticket, voice.dialogue, shape)
    else:
        if question.snapshots is not None:
            frames, drawing = await asyncio.get_running_loop().run_in_executor(hand, studio.draw, question)
        if voice.dialogue is not None:
            return await _converse(voice, voice.dialogue, desk, frames, ticket, question, keeps), drawing
        assert frames is not None, "a clip has snapshots"
        answer = await desk.answer(JudgeCall(frames, voice.prompt), ticket)
    if keeps and not answer.failure:
        answer = answer._replace(records=(answer_records.of_question(question, answer.value, kind),))
    return answer, drawing


async def _converse(
    voice: RoleDialogue, dialogue: Dialogue, desk: Answerer, frames: Array | None, ticket: Ticket, question: Question,
    keeps: bool = False,
) -> Answer:  # fmt: skip
    """Run a dialogue and return its value with the usage of all its calls; if it returns None or `Unusable`, the
    question has failed, with the kind of its last failed call, else `malformed`. Raise UserError for an array that
    differs from the asking part's declaration."""
    answers: dict[int, Answer] = {}
    repeated: list[bool] = []
    records: dict[int, AnswerRecord] = {}
    begun = itertools.count()
    asking = desk.about(question) if isinstance(desk, PlaceboModels) else desk
    digest = answer_records.question_digest(question) if keeps else ""

    async def ask(call: Call) -> Answer:
        if (number := next(begun)) >= dialogue.calls:
            raise UserError(
                f"the dialogue in the role {ticket.role!r} makes more than the {count(dialogue.calls, 'call')} that "
                f"it says it makes; correct its `calls`"
            )
        ticket_of_call = ticket._replace(ordinal=ticket.ordinal * dialogue.calls + number)
        repeated.append(call.repeated)
        answers[number] = reply = await asking.answer(voice.sampled(call), ticket_of_call)
        if keeps and not reply.failure:
            records[number] = answer_records.of_call(ticket.role, digest, call, reply.value)
        return reply

    of_run = dialogue.of_run(ticket.run) if isinstance(dialogue, ByChoice) else dialogue
    value, wrong = await of_run(_read(question, voice.speaker), frames, ask), ""
    unusable = isinstance(value, Unusable)
    if unusable:
        value = value.value
    if voice.array is None:
        arrays.undeclared(value, voice.speaker, ticket.role)
    elif value is not None:
        value, wrong = arrays.fitted(value, voice.array, len(question.key))
    # Sums of floats must not depend on which answer came first.
    ordered = [answers[number] for number in sorted(answers)]
    usage = functools.reduce(Usage.plus, (answer.usage for answer in ordered), Usage())
    billed = functools.reduce(Usage.plus, (answer.billed for answer in ordered), Usage())
    failures = [] if wrong else [answer.failure for answer in ordered if answer.failure]
    failure = (failures or ["malformed"])[-1] if value is None or unusable else ""
    detail = {"message": wrong} if wrong else {}
    retried = any(repeated) or any("repairs" in answer.detail for answer in ordered)
    ordered_records = tuple(records[number] for number in sorted(records))
    return Answer(value, failure, usage, billed, detail, ordered_records, retried)


def _read(question: Question, speaker: str) -> Any:
    """Return the parsed content of a question; raise UserError if it is not JSON."""
    try:
        return json.loads(question.content or "null")
    except json.JSONDecodeError as error:
        raise UserError(
            f"{speaker} asks in the role {question.to!r} with the content {question.content[:80]!r}, which is not "
            f"JSON ({error}); write it with json.dumps"
        ) from None


def _send(connection: Connection, message: FromProcess) -> None:
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
        suite = build_part(assignment.suite)
        self._draw: Callable[[Array], Array] | None = None
        if assignment.drawing is not None:
            self._draw = suite.drawing(**assignment.drawing).spawn(assignment.task)
        models = {role: build_part(voice.model) for role, voice in assignment.voices.items()}
        self.dialogues = {
            role: RoleDialogue(
                voice.clip_length, str(voice.model.settings.get("prompt", "")), models[role].sampled,
                dialogue_of(build_part(voice.speaker), suite, assignment.task, role, models[role])
                if voice.speaker else None,
                str(voice.speaker), voice.array,
            )
            for role, voice in assignment.voices.items()
        }  # fmt: skip

    def draw(self, question: Question) -> tuple[Array, float]:
        """Return frames [L, height, width, 3] of a question's snapshots, a judged clip padded to its full length, and
        the seconds of rendering."""
        started = time.perf_counter()
        assert self._draw is not None and question.snapshots is not None, "snapshots without rendering settings"
        role_dialogue = self.dialogues[question.to]
        snapshots = (
            question.snapshots if role_dialogue.dialogue else padded(question.snapshots, role_dialogue.clip_length)
        )
        return self._draw(snapshots), time.perf_counter() - started


def build_part(part: RegisteredPart) -> Any:
    """Return the built configuration of a registered part."""
    from guidebench.harness import registry

    return registry.get(part.kind, part.name)(**part.settings)


def make_answerer(assignment: Assignment, hand: ThreadPoolExecutor, hosted: HostedModel | None = None) -> Answerer:
    """Return the object that answers the calls: hand-written models, or a foundation model behind a desk. `hosted`: the
    model in another process, if it is not loaded here."""
    config = build_part(assignment.model)
    if config.backend == PLACEBO:
        sources = {role: build_part(voice.model) for role, voice in assignment.voices.items()}
        return PlaceboModels({role: read_pool(config.source, role, config.digest) for role, config in sources.items()})
    if config.backend == "scripted":
        return DirectModels(
            {role: _scripted(assignment, voice.model, hand) for role, voice in assignment.voices.items()}
        )
    from guidebench.harness.models import study_models

    models = Models(**assignment.models)
    shared = study_models.Shared(assignment.scratch, assignment.cell) if assignment.shared else None
    load = None if hosted is None else hosted.spawn
    return study_models.desk(config, models, Path(assignment.directory), assignment.device, shared=shared, spawn=load)


def _scripted(assignment: Assignment, model: RegisteredPart, hand: ThreadPoolExecutor) -> ScriptedModel:
    config, suite = build_part(model), build_part(assignment.suite)
    drawn = (suite.drawing(**(assignment.drawing or {})),) if config.draws else ()
    spawn = functools.partial(config.spawn, suite, assignment.task, *drawn)
    return ScriptedModel(str(model), answering.answered(model.kind, config), spawn, hand)


def padded(snapshots: Array, length: int) -> Array:
    """Return a clip of `length` snapshots; a shorter clip is padded on the left with its first frame (VLM-RB, app.
    E)."""
    missing = length - len(snapshots)
    return snapshots if missing <= 0 else np.concatenate([np.repeat(snapshots[:1], missing, axis=0), snapshots])
