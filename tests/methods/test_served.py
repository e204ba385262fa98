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
from tests.methods.kagi.scenes import ASKED, CANDIDATES, painted
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
    """One that cannot be used, and one that can."""
    fault: str
    """What is said of the first."""
    images: list[Array]
    """Those that the model is shown."""
    result: dict[str, Any]
    """Values of the answer."""


CASES = {
    "kagi": Case(
        WaypointDialogue(1), json.loads(ASKED.content()), VIEWS[None],
        [kagi.changed(block_sequence=[["g7", 2], ["c4", 2]]), json.dumps(kagi.REPLY)], "'g7' is no tile",
        [ABOVE, SIDE], kagi.FOUND | {"retries": 1},
    ),
    "lagea": Case(
        ReflectionDialogue(True, False, 1, "all", "push the puck"), ATTEMPT, SHOTS,
        [json.dumps(lagea.REPLY), lagea.changed(key_frame_indices=[2])], "it cites 3",  # which was not shown
        [*SHOTS], {"retries": 1, "frames": [9]},
    ),
}  # fmt: skip


def converse(case: Case, directory: Path, chat: Any, models: Models) -> tuple[Any, int]:
    """The answer, and the calls that were really made."""
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
        found, billed = converse(case, tmp_path, OpenAI(base_url=url), Models())
    assert found == found | case.result and billed == 2
    shown = [pixels(part) for part in bodies[0]["messages"][0]["content"] if part["type"] == "image_url"]
    assert len(shown) == len(case.images) and all(map(np.array_equal, shown, case.images))
    assert case.fault in json.dumps(bodies[1]["messages"][-1])
    assert converse(case, tmp_path, OpenAI(), Models(mode="replay")) == (found, 0)


@pytest.mark.parametrize("name", CASES)
def test_a_vision_language_model_that_runs_here_ends_without_an_answer(
    name: str, tmp_path: Path, babbling: Any
) -> None:
    """Of random weights: what it says is noise, which is retried and then borne."""
    import torch

    torch.manual_seed(0)
    told, billed = converse(CASES[name], tmp_path, babbling, Models())
    found, answered = unwrap_answer(told)
    assert billed == 2 and not answered and (found is None) == (name == "kagi")
    assert found is None or (found["empty"], found["text"], found["retries"]) == (True, "", 1)
    assert converse(CASES[name], tmp_path, babbling, Models(mode="replay")) == (told, 0)
