"""Backends that answer questions in the roles of a cell, their queues, and which roles share a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from guidebench.harness import parts, registry
from guidebench.harness.companions import never
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Agent, Build
from guidebench.harness.loop.evaluation import Consult
from guidebench.harness.loop.job import Job
from guidebench.harness.models import study_models
from guidebench.harness.models.choosing import dialogue_of
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.oracle import OracleBackend
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import Backend, Keep, QuestionQueue, consult, keep_none
from guidebench.harness.plan import answering, arrays
from guidebench.harness.plan.config import Cell, cell_view
from guidebench.harness.records.answers import QUESTION


def question_roles(cell: Cell, agent: Agent) -> list[str]:
    """Return the roles that receive questions: those of models, and of a person."""
    judges = {part.role for part in cell.names.of("judge")} if not agent.wants_snapshots else set()
    human = any(registry.HUMAN in part.needs for part in cell.sections.values() if isinstance(part, parts.Part))
    return [*(part.role for part in cell.models if part.role not in judges), *([registry.HUMAN] if human else [])]


def process_groups(cell: Cell, roles: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the roles, grouped by the process that can answer in them. Roles share a process if they use the same
    foundation model with equal transport and retry policy; prompts, sampling and dialogues may differ. All roles of
    hand-written models share one, if their time limits are equal: it imports and draws for all of them. So do all roles
    of placebos."""
    groups: dict[tuple[object, ...], list[str]] = {}
    models = {part.role: part for part in cell.models}
    for role in roles:
        key: tuple[object, ...] = (role,)
        model = cell.section(role)
        if role in models and study_models.is_recorded(model):
            same = {name: value for name, value in vars(model).items() if name not in study_models.NOT_THE_MODEL}
            key = (models[role].kind, models[role].name, *same.items(), model.policy())
        elif role in models and model.backend in ("scripted", "placebo"):
            key = (model.backend, model.timeout)
        groups.setdefault(key, []).append(role)
    return [*map(tuple, groups.values())]


def question_queues(
    backends: Mapping[str, Backend], job: Job, cell: Cell, keep: Keep = keep_none
) -> dict[str, QuestionQueue]:
    """Return the question queue of each role, in the order in which responses reach the agent, regardless of shared
    processes. `keep`: as of `QuestionQueue`."""
    kinds = {part.role: part.kind for part in cell.names.parts}
    budgeted, now = Models(**job.models).budgeted, cell.consulted
    clip_roles = answering.shown_clips(cell.names.parts)

    def asks(role: str, backend: Backend) -> QuestionQueue:
        kind = kinds.get(role, role)
        answerer = cell.section(_askers(cell, role)[0] if kind == registry.HUMAN else role)
        delay = 0 if role in now else answerer.delay
        follows = isinstance(answerer, parts.ModelPart) and answerer.backend == "oracle" and answerer.follows_solver
        halts = kind == registry.HUMAN or budgeted
        return QuestionQueue(cell.runs(job.seeds), delay, backend, halts, role, kind, follows, role in clip_roles, keep)

    order = [*kinds, registry.HUMAN]
    return {role: asks(role, backends[role]) for role in order if role in backends}


def distinct(backends: Mapping[str, Backend]) -> list[Backend]:
    """Return each backend once, even if it answers in several roles."""
    return list({id(backend): backend for backend in backends.values()}.values())


def backend_of(roles: Sequence[str], job: Job, cell: Cell, build: Build, stop: Callable[[], bool] = never) -> Backend:
    """Return the backend for these roles: an oracle runs in the worker, a person answers through files, and other
    models run in a process. `stop`: says whether the worker is to stop."""
    if registry.HUMAN in roles:
        asker: parts.AskingPart = cell.section(_askers(cell, registry.HUMAN)[0])
        return asker.person(build.directories)
    names, model = cell.names, build.parts[roles[0]]
    if model.backend == "oracle":
        kind = "judge" if roles[0] in answering.shown_clips(names.parts) else QUESTION
        oracle = model.spawn(build.parts["suite"], names.task)
        return OracleBackend(oracle, build.streams, kind if job.answers else "")
    voices = {role: _voice(cell, role) for role in roles}
    assignment = Assignment(
        RegisteredPart("suite", names.suite, asdict(build.parts["suite"])), names.task, voices,
        asdict(build.parts["drawing"]) if "drawing" in build.parts else None,
        cell=cell.id, models=job.models,
        directory=str(study_models.folder(Path(job.directory))), device=job.device, answers=job.answers,
    )  # fmt: skip
    if not study_models.is_recorded(model):
        return ModelProcess(assignment, model.timeout, silent_after=job.silent_after, stop=stop)
    assignment = assignment._replace(shared=job.shared)
    policy = model.policy()
    calls = [
        dialogue_of(cell.section(speaker), build.parts["suite"], names.task, role, build.parts[role]).calls
        for role in roles
        for speaker in answering.speakers(cell.names.parts, role)
    ]
    requests = job.model_requests if study_models.is_local(model) else None
    patience = study_models.patience(policy, max(calls, default=1))
    return ModelProcess(assignment, patience, 2 * policy.in_flight, requests, job.silent_after, stop)


def _voice(cell: Cell, role: str) -> Voice:
    """Return how the model in a role is called: with clips of the length that its replays make, or by the dialogue of
    the part that uses it."""
    registered = {
        part.role: RegisteredPart(part.kind, part.name, asdict(cell.section(part.role))) for part in cell.names.parts
    }
    length = parts.clip_length({asker: cell.section(asker) for asker in _askers(cell, role)})
    speaker = next(iter(answering.speakers(cell.names.parts, role)), "")
    return Voice(
        registered[role], length or 1, registered.get(speaker), arrays.of(cell.names.parts, cell_view(cell), role)
    )


def _askers(cell: Cell, role: str) -> list[str]:
    """Return the roles of the parts that need `role`."""
    return [part.role for part in cell.names.parts if role in cell.section(part.role).needs]


@contextmanager
def queues(roles: Sequence[str], job: Job, cell: Cell, build: Build) -> Iterator[dict[str, QuestionQueue]]:
    """Start the backends of these roles outside training, and yield the question queue of each. Raise UserError for a
    local model whose files are not those of its digest."""
    backends: dict[str, Backend] = {}
    if Models(**job.models).mode != "replay":
        for model in (cell.section(role) for role in roles):
            if isinstance(model, parts.FilePart):
                model.verify()
    try:
        for shared in process_groups(cell, roles):
            backends |= dict.fromkeys(shared, backend_of(shared, job, cell, build))
        yield question_queues(backends, job, cell)
    finally:
        for backend in distinct(backends):
            backend.close()


@contextmanager
def consultations(job: Job, cell: Cell, build: Build) -> Iterator[Callable[[str], Consult]]:
    """Start the backends for an agent that is evaluated outside training, and yield a function that makes
    `Context.consult` for a scope such as `eval/SEED`; each question appends its episode to the scope."""
    with queues(sorted(cell.consulted), job, cell, build) as asks:

        def within(scope: str) -> Consult:
            return lambda questions: consult(
                asks, [(question, f"{scope}/{question.episode}") for question in questions], 0
            )

        yield within
