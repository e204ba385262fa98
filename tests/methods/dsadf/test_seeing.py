"""The dual system that sees frames: whole runs with a real, tiny CLIP, what it stores, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Place
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import matrix
from guidebench.methods.dsadf.looking import CAPTIONER, IMAGE_ENCODER
from tests.methods.dsadf.test_runs import SHORT

pytest.importorskip("crafter")
SEEING = ("agent=seeing_dual_system", "agent.image_width=16", "agent.threshold=0", "agent.beta=-1")
PLAIN = ("captioner=scripted", "captioner.width=16", "image_encoder=scripted", "image_encoder.width=16")


@pytest.fixture
def clip(tiny: Callable[[str], Path]) -> tuple[str, ...]:
    """Return the settings that fill both roles with a tiny CLIP."""
    model = tiny("clip")
    roles = (CAPTIONER, IMAGE_ENCODER)
    return tuple(
        f"{role}{setting}" for role in roles for setting in ("=transformers", f".model={model}", ".dtype=float32")
    )


class Answers:
    """A context whose models look at the snapshots of their questions."""

    def __init__(self, agent: Any) -> None:
        self.step, self.rows, self.questions = 0, np.arange(2), list[Any]()
        self.observation = np.stack([agent.make_task(row).reset(row) for row in range(2)])
        self.active = np.ones(2, bool)

    def consult(self, questions: Any) -> list[Any]:
        self.questions += questions
        return [self._answer(question) for question in questions]

    def _answer(self, question: Any) -> Any:
        if question.to == CAPTIONER:
            before, after = question.snapshots
            return {"caption": "chop tree" if (after > before).any() else "", "score": 1.0}
        if question.to == IMAGE_ENCODER:
            vector = np.full((1, 16), question.snapshots[0, 0], np.float32)
            return vector if vector.any() else None
        return np.ones((1, 16), np.float32)


def spawned(tmp_path: Path, *words: str) -> Any:
    (cell,) = matrix.plan([*SHORT, *SEEING, *PLAIN, "method=dsadf", "profile=smoke", *words]).cells
    directories = [tmp_path / str(row) for row in range(2)]
    for directory in directories:
        directory.mkdir()
    build = make_build(cell, [0, 1], "cpu", directories)
    agent: Any = build.parts["agent"].spawn(build)
    agent.make_task = lambda row: build.suite(row).make("wood_sword")
    return agent


def test_frames_take_the_place_of_pictures_and_captions_that_of_the_tasks(tmp_path: Path) -> None:
    """Two seeds step from snapshots of 1 and 2 to ones of 3 and 1: only the first grew, which is what `Answers` calls
    chopping a tree; the vector of a frame holds its snapshot's first number."""
    agent = spawned(tmp_path, "suite.observation=grey_text", "suite.size=20")
    assert {"goal", "image"} < {*agent._sees.names} and not {"picture", "text"} & {*agent._sees.names}
    ctx = Answers(agent)
    agent._look([0, 1], [np.full(4, 1, np.uint8), np.full(4, 2, np.uint8)], ctx)
    assert agent._present(ctx.observation, ctx)["image"][:, 0].tolist() == [1, 2]
    after = type("Transition", (), {"snapshot": np.array([[3] * 4, [1] * 4], np.uint8)})()
    assert agent._captions(after, ctx) == ("chop tree", "")
    agent._arrive(after, ctx)
    assert agent._present(ctx.observation, ctx)["image"][:, 5].tolist() == [3, 1]
    state = agent.state(1)
    agent._arrive(type("Transition", (), {"snapshot": np.full((2, 4), 9, np.uint8)})(), ctx)
    agent.load_state(1, state)
    assert agent._images[:, 0].tolist() == [9, 1] and agent._snapshots[1].tolist() == [1] * 4
    agent._encoded([Place(0, 3)], [np.zeros(4, np.uint8)], ctx)
    assert ctx.questions[-1].episode == 3
    assert agent._unanswered[0].tolist() == [1, 0], "a frame without a vector is counted"
    assert np.isnan(agent.value(ctx.observation, np.arange(2))).all(), "diagnostics draw no frames"


@pytest.mark.parametrize(
    ("words", "unasked"),
    [
        ((), set()),
        (("agent.images=false",), {IMAGE_ENCODER}),
        (("agent.captions=task",), {CAPTIONER}),
        (("agent.router=model", "agent.trains=false"), {CAPTIONER, IMAGE_ENCODER, "scorer", "text_embedder"}),
    ],
)
def test_a_role_that_settings_leave_out_needs_no_model(words: tuple[str, ...], unasked: set[str]) -> None:
    (cell,) = matrix.plan([*SHORT, *SEEING, *PLAIN, "method=dsadf", "profile=smoke", *words]).cells
    assert set(cell.section("agent").unasked) == unasked
    assert not unasked & {part.role for part in cell.models}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("image_encoder.width=32",), "set agent.image_width=32"),
        (("agent.captions=none",), "agent.captions=none: expected one of 'captioner', 'task'"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(words: tuple[str, ...], message: str) -> None:
    named = {word.split("=", 1)[0] for word in words}
    defaults = [word for word in (*SHORT, *SEEING, *PLAIN) if word.split("=", 1)[0] not in named]
    with pytest.raises(UserError, match=re.escape(message)):
        matrix.plan([*defaults, "method=dsadf", "profile=smoke", *words])
