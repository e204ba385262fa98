"""The whole way of a question for waypoints: dialogue, desk, and a server, hand-written code or a real, tiny
vision-language model."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.execution import Models
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.methods.kagi import marks
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.dialogue import WaypointDialogue
from tests.conftest import require
from tests.harness.models.canned import completion, serving
from tests.harness.models.conversing import held
from tests.methods.kagi.scenes import ASKED, CANDIDATES, painted
from tests.methods.kagi.test_dialogue import FOUND, REPLY, changed

require("openai")
FRAMES = painted({"green": (0.4, 0.6, 0.65)})[None]


def choose(directory: Path, chat: Any, models: Models) -> tuple[Any, int]:
    """The answer, and the calls that were really made."""

    return held(WaypointDialogue(1), json.loads(ASKED.content()), FRAMES, chat, directory, models)


def test_a_server_is_shown_both_views_and_nothing_is_asked_again_from_the_cassette(tmp_path: Path) -> None:
    bodies = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        bodies.append(body)
        bad = changed(block_sequence=[["g7", 2], ["c4", 2]])
        return 200, completion(bad if len(bodies) == 1 else json.dumps(REPLY))

    with serving(answer) as url:
        found, billed = choose(tmp_path, OpenAI(base_url=url), Models())
    assert (found, billed) == (FOUND | {"retries": 1}, 2)
    parts = bodies[0]["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text", "image_url", "text"]
    shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    above = marks.from_above(FRAMES[0, :, :100], Grid(6), CANDIDATES)
    assert np.array_equal(pixels(shown[0]), above) and pixels(shown[1]).shape == (420, 420, 3)
    assert "'g7' is no tile" in json.dumps(bodies[1]["messages"][-1])
    again, billed = choose(tmp_path, OpenAI(), Models(mode="replay"))
    assert again == found and billed == 0


def pixels(address: str) -> Any:
    """The pixels of an image that was sent as a data URL."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",", 1)[1]))).convert("RGB"))


def test_a_vision_language_model_that_runs_here_ends_without_waypoints(tmp_path: Path, babbling: Any) -> None:
    """Of random weights: what it says is noise, which is retried and then borne."""
    import torch

    torch.manual_seed(0)
    found, billed = choose(tmp_path, babbling, Models())
    assert found is None and billed == 2
    again, billed = choose(tmp_path, babbling, Models(mode="replay"))
    assert again is None and billed == 0
