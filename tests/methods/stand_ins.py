"""Small runs in this process, in which stand-ins answer the models' questions at once and count their calls."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from guidebench.harness.episodes import datasets, demonstrations
from guidebench.harness.identity.cells import record
from guidebench.harness.interfaces import Question, Unusable
from guidebench.harness.loop.backends import question_queues, question_roles
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.evaluation import Evaluator, solving
from guidebench.harness.loop.job import Job
from guidebench.harness.loop.probes import Probes
from guidebench.harness.loop.training import Loop
from guidebench.harness.models.backends.openai_.model import IMAGE_TOKENS
from guidebench.harness.models.calls import Answer, Call, ChatCall, Ticket, Usage
from guidebench.harness.models.calls.segment import runs_of
from guidebench.harness.models.service import padded
from guidebench.harness.parts import clip_length
from guidebench.harness.plan import answering, arrays, config, matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run.estimates import Nowhere, Silent
from guidebench.methods.kagi import prompts as kagi
from tests.methods.contract import Row
from tests.methods.lagea.feedback.replies import REPLY as FEEDBACK

Manner = Literal["usable", "unusable", "lost"]
RECORDED = {"chat": "openai", "judge": "openai", "embedder": "transformers"}
"""Kind of a model's part -> a part of this kind whose calls are recorded."""
TOKENS_WRITTEN = 1_000
"""Largest number of tokens in a chat's answer."""
SIDE = 32
"""Pixels along the side of the frames that stand-ins get."""


def planned(row: Row) -> list[Cell]:
    """Return a row's cells, with model parts whose calls are recorded in every role."""
    words = {word.partition("=")[0]: word for word in row.words.split()}
    served = {name for name, word in words.items() if word.endswith(("=openai", "=transformers"))}
    profile = ["seeds=[0]"] if "profile" in words else ["profile=smoke", "seeds=[0]"]
    first = [word for name, word in words.items() if name.split(".")[0] not in served and not name.endswith("width")]
    roles = {part.role: part.kind for cell in matrix.plan([*first, *profile]).trained for part in cell.models}
    others = [word for name, word in words.items() if name.split(".")[0] not in roles]
    denoising = {role for role in roles if "method=tadpole" in row.words}
    models = [f"{role}={'diffusers' if role in denoising else RECORDED[kind]}" for role, kind in roles.items()]
    models += [f"{role}.model=stand-in" for role in roles] + [f"{role}.attempts=1" for role in roles]
    models += [f"{role}.max_tokens={TOKENS_WRITTEN}" for role, kind in roles.items() if kind == "chat"]
    return list(matrix.plan([*others, *models, *profile]).trained)


class StandIn(Silent):
    """A backend that answers the questions of one role itself."""

    def __init__(self, cell: Cell, role: str, manner: Manner, answer: Callable[[str, int], str] | None) -> None:
        """`answer`: the row's function from prompt and number to answer."""
        super().__init__()
        self._cell, self._role, self._manner, self._answer = cell, role, manner, answer
        self._answers: dict[Ticket, Answer] = {}
        self.spent = Usage()
        self.questions = 0
        parts = cell.names.parts
        speaker = next(iter(answering.speakers(parts, role)), "")
        suite, task = cell.section("suite"), cell.names.task
        self._dialogue = cell.section(speaker).dialogue(suite, task, role) if speaker else None
        self._array = arrays.of(parts, config.cell_view(cell), role)
        self._kind = next(part.kind for part in parts if part.role == role)
        self._clip = clip_length(cell.sections)
        self._hand = hand_written(cell, role) if answer is None else None

    def ask(self, ticket: Ticket, question: Question, ahead: bool = False) -> None:
        """Answer a question at once."""
        self.questions += 1
        self._answers[ticket] = asyncio.run(self._answered(question))

    def take(self, ticket: Ticket, stop: Callable[[], bool] | None = None) -> tuple[Answer, float]:
        return self._answers.pop(ticket), 0.0

    async def _answered(self, question: Question) -> Answer:
        frames, count = self._frames(question), 0

        async def ask(call: Call) -> Answer:
            nonlocal count
            count += 1
            assert self._dialogue is None or count <= self._dialogue.calls
            return self._reply(call)

        if self._dialogue is None:
            from guidebench.harness.models.calls import JudgeCall

            return await ask(JudgeCall(frames, self._cell.section(self._role).prompt))
        value = await self._dialogue(json.loads(question.content or "null"), frames, ask)
        if isinstance(value, Unusable):
            return Answer(value.value, "malformed")
        if value is not None and self._array is not None:
            value = arrays.fitted(value, self._array, len(question.key))[0]
        return Answer(value, "" if value is not None else "malformed")

    def _frames(self, question: Question) -> Any:
        if question.snapshots is None:
            return None
        snapshots = question.snapshots if self._dialogue else padded(question.snapshots, self._clip)
        width = SIDE * (2 if getattr(self._cell.section("drawing"), "camera", "") == "both" else 1)
        return np.random.default_rng(self.questions).integers(
            255, size=(len(snapshots), SIDE, width, 3), dtype=np.uint8
        )

    def _reply(self, call: Call) -> Answer:
        texts = [
            str(part) for message in getattr(call, "messages", ()) for part in message.content if isinstance(part, str)
        ]
        texts += [piece for piece in getattr(call, "items", ()) if isinstance(piece, str)]
        texts += [getattr(call, name) for name in ("text", "prompt") if isinstance(getattr(call, name, None), str)]
        images = len(call.images())
        read = sum(len(text.encode()) for text in texts) + 4 * len(texts) + images * IMAGE_TOKENS
        written = TOKENS_WRITTEN if isinstance(call, ChatCall) else 0
        self.spent = self.spent.plus(Usage(1, read, written, images))
        if self._manner == "lost":
            return Answer(None, "timeout")
        if isinstance(call, ChatCall) and self._manner == "unusable":
            return Answer(None, "malformed") if call.schema else Answer("?" * TOKENS_WRITTEN)
        value = self._value(call, texts)
        assert not call.fault(value), call.fault(value)
        return Answer(value)

    def _value(self, call: Any, texts: Sequence[str]) -> Any:
        """Return a usable answer to a call."""
        number = int(self.spent.calls)
        random = np.random.default_rng(number)
        usable = self._manner == "usable"
        if call.kind == "embed":
            width = self._array.spec.shape[-1] if self._array is not None and self._array.spec.shape else 16
            return random.standard_normal((len(call.items), width)).astype(np.float32)
        if call.kind == "video":
            return random.standard_normal(16).astype(np.float32)
        if call.kind == "denoise":
            return random.random((len(call.frames), 3)).astype(np.float32)
        if call.kind == "judge":
            return 0.75
        if call.kind == "track":
            return np.full((len(call.frames), 3), float(usable), np.float32)
        if call.kind == "segment":
            masks = np.zeros((2, *call.image.shape[:2]), bool)
            masks[0, 2:8, 2:8] = masks[1, 12:30, 12:30] = True
            means = ("thing", "place")
            named = [
                {"runs": runs_of(mask), "score": 0.9, "means": mean} for mask, mean in zip(masks, means, strict=True)
            ]
            return named if usable else []
        if self._role == "waypoints":
            walked = [("a1", 1), ("a2", 1), ("b2", 0)]
            if "no lines" in texts[0]:
                walked = [(tile, None) for tile, _ in walked]
            return json.dumps(kagi.reply("P1", "Q1", walked))
        if self._role == "feedback":
            return json.dumps({**FEEDBACK, "key_frame_indices": [0]})
        if self._answer is not None:
            return self._answer("".join(texts), number)
        assert self._hand is not None, f"nothing answers in the role {self._role}"
        return call.answered_by(self._hand)


def hand_written(cell: Cell, role: str) -> Callable[..., Any] | None:
    """Return the hand-written chat of a role, or None if the role is no chat."""
    from guidebench.harness import registry

    if next(part.kind for part in cell.names.parts if part.role == role) != "chat":
        return None
    names = [name for name in (f"scripted_{role}", "scripted") if name in registry.names("chat")]
    return registry.get("chat", names[0])().spawn(cell.section("suite"), cell.names.task)


def spent(cell: Cell, directory: Path, manner: Manner, answer: Callable[[str, int], str] | None) -> dict[str, Usage]:
    """Run seed 0 of a cell and return role -> usage of the models."""
    directory.mkdir(parents=True)
    job = Job("stand-ins", str(directory), record(cell), (0,), "cpu")
    build = make_build(cell, (0,), "cpu", [directory])
    agent = build.parts["agent"].spawn(build)
    task = build.suite(0).make(cell.names.task)
    task.reset(int(build.streams[0].environment.integers(2**31)))
    backends: dict[str, Any] = {role: StandIn(cell, role, manner, answer) for role in question_roles(cell, agent)}
    all_asks, now = question_queues(backends, job, cell), cell.consulted
    asks, consulted = (
        {role: all_asks[role] for role in all_asks if (role in now) == is_consulted} for is_consulted in (False, True)
    )
    evaluation = build.parts["evaluation"]
    evaluator = Evaluator(
        lambda row: build.evaluated(row).make(cell.names.task), evaluation.episodes, build.streams, cell.score,
        solving(build.parts["agent"], build.evaluated, cell.names.task),
    )  # fmt: skip
    demos = demonstrations.prepare(cell, 0)
    loop = Loop(
        agent, [task], build.streams, evaluator, Nowhere(), asks=asks, consulted=consulted,
        evaluate_every=evaluation.every, checkpoint_every=10**9,
        demonstrations=demonstrations.parallel_episodes([demos.episodes]), datasets=datasets.loading(cell, (0,)),
    )  # fmt: skip
    if cell.judge in backends:
        probes = Probes(build, cell.names.task, 10, cell.steps, lambda row, step, points: [*points] and None)
        probes.describe([0], backends[cell.judge], cell.runs((0,)), lambda: False, cell.judge)
    loop.run()
    return {role: backend.spent for role, backend in backends.items()}
