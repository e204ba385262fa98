"""The whole way of a question in pictures: dialogue, desk, and a server or a real, tiny vision-language model."""

import base64
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.methods.kagi import marks
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.dialogue import WaypointDialogue
from guidebench.methods.lagea.feedback.dialogue import ReflectionDialogue
from tests.harness.models.canned import completion, serving
from tests.harness.models.dialogues import hold_dialogue, unwrap_answer
from tests.methods.kagi import test_dialogue as kagi
from tests.methods.kagi.scenes import CANDIDATES, QUESTION, painted
from tests.methods.lagea.feedback import replies as lagea

pytest.importorskip("openai")
VIEWS = painted({"green": (0.4, 0.6, 0.65)})
ABOVE, SIDE = marks.from_above(VIEWS[:, :100], Grid(6), CANDIDATES), marks.from_the_side(VIEWS[:, 100:], Grid(6))
SHOTS = np.stack([np.full((28, 28, 3), level, np.uint8) for level in (20, 120, 220)])
ATTEMPT = {"history": [], "frames": [0, 5, 9], "steps": 9, "succeeded": False}


class Case(NamedTuple):
    dialogue: Any
    content: Any
    frames: Array
    replies: list[str]
    """An unusable reply, then a usable one."""
    fault: str
    """What the reminder says about the unusable reply."""
    images: list[Array]
    """Images that the model is shown."""
    result: dict[str, Any]
    """Values of the answer."""


CASES = {
    "kagi": Case(
        WaypointDialogue(1), json.loads(QUESTION.content()), VIEWS[None],
        [kagi.changed(block_sequence=[["g7", 2], ["c4", 2]]), json.dumps(kagi.REPLY)], "'g7' is no tile",
        [ABOVE, SIDE], kagi.ANSWER | {"retries": 1},
    ),
    "lagea": Case(
        ReflectionDialogue(True, False, 1, "all", "push the puck"), ATTEMPT, SHOTS,
        [json.dumps(lagea.REPLY), lagea.changed(key_frame_indices=[2])], "it cites 3",  # which was not shown
        [*SHOTS], {"retries": 1, "frames": [9]},
    ),
}  # fmt: skip


def converse(case: Case, directory: Path, chat: Any, models: Models) -> tuple[Any, int]:
    """Return the answer and the number of calls that reached the model."""
    return hold_dialogue(case.dialogue, case.content, case.frames, chat, directory, models)


def pixels(part: Any) -> Array:
    """The pixels of an image that was sent as a data URL."""
    data = base64.b64decode(part["image_url"]["url"].split(",", 1)[1])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("name", CASES)
def test_a_server_is_shown_the_images_and_nothing_is_asked_again_from_the_cassette(name: str, tmp_path: Path) -> None:
    case, bodies = CASES[name], list[dict[str, Any]]()

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        bodies.append(body)
        return 200, completion(case.replies[len(bodies) - 1])

    with serving(answer) as url:
        answer_value, billed = converse(case, tmp_path, OpenAI(base_url=url), Models())
    assert answer_value == answer_value | case.result and billed == 2
    images = [pixels(part) for part in bodies[0]["messages"][0]["content"] if part["type"] == "image_url"]
    assert len(images) == len(case.images) and all(map(np.array_equal, images, case.images))
    assert case.fault in json.dumps(bodies[1]["messages"][-1])
    assert converse(case, tmp_path, OpenAI(), Models(mode="replay")) == (answer_value, 0)


@pytest.mark.parametrize("name", CASES)
def test_a_vision_language_model_that_runs_here_ends_without_an_answer(
    name: str, tmp_path: Path, babbling: Any
) -> None:
    """Its weights are random: its replies are noise, which is retried and then counted as unanswered."""
    import torch

    torch.manual_seed(0)
    outcome, billed = converse(CASES[name], tmp_path, babbling, Models())
    answer, answered = unwrap_answer(outcome)
    assert billed == 2 and not answered and (answer is None) == (name == "kagi")
    assert answer is None or (answer["empty"], answer["text"], answer["retries"]) == (True, "", 1)
    assert converse(CASES[name], tmp_path, babbling, Models(mode="replay")) == (outcome, 0)
