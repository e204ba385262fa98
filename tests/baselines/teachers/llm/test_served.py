"""The whole way of a question: teacher, dialogue, desk, an OpenAI-compatible server and back."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.llm import Llm, Scripted
from guidebench.baselines.teachers.llm.dialogue import PairDialogue
from guidebench.harness.execution import Models
from guidebench.harness.models.calls import Message
from guidebench.harness.models.chats.openai_ import OpenAI
from tests.baselines.teachers.llm.talking import PUSH, segment
from tests.conftest import require
from tests.harness.models.canned import completion, serving
from tests.harness.models.conversing import held

require("openai")
SEGMENTS = np.stack([segment(1, 10), segment(1, 10, nearer=0.9)])
PAIR = Pair(0, 3, SEGMENTS, np.zeros((2, 10)))


def verdict(directory: Path, chat: OpenAI, models: Models) -> tuple[Verdict, int]:
    """What the teacher says of PAIR, and the calls that were really made."""
    teacher = Llm()

    content = json.loads(teacher.spawn(None).question(PAIR).content)  # type: ignore[arg-type]
    value, billed = held(PairDialogue(teacher, PUSH, "press the button"), content, None, chat, directory, models)
    return teacher.spawn(None).verdict(PAIR, json.loads(json.dumps(value))), billed  # type: ignore[arg-type]


def test_three_calls_make_a_label_and_an_imagined_segment_and_none_is_made_again_from_the_cassette(
    tmp_path: Path,
) -> None:
    """Behind the server sits the hand-written chat, which sees what the server was sent."""
    reader = Scripted(error=0.0, first_bias=0.0).spawn(None, "")  # type: ignore[arg-type]

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        talk = tuple(Message(message["role"], (message["content"],)) for message in body["messages"])
        return 200, completion(reader(talk))

    with serving(answers) as url:
        found, billed = verdict(tmp_path, OpenAI(base_url=url), Models())
    assert (found.outcome, found.label, found.is_used, billed) == ("labelled", 1.0, True, 3)
    assert found.notes == {"first": 2, "second": 1, "retries": 0, "imagined": "kept"}
    assert found.imagined is not None and np.allclose(found.imagined[-1, :3], SEGMENTS[1, 0, 14:], atol=1e-4)
    again, billed = verdict(tmp_path, OpenAI(), Models(mode="replay"))
    assert billed == 0 and again.label == found.label and np.array_equal(again.imagined, found.imagined)
