"""The whole way of a question about an episode: dialogue, desk, a server or a real, tiny vision-language model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.execution import Models
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.methods.lagea.feedback.dialogue import ReflectionDialogue
from tests.conftest import require
from tests.harness.models.canned import completion, serving
from tests.harness.models.conversing import held
from tests.methods.lagea.feedback.replies import REPLY, changed

require("openai")
FRAMES = np.stack([np.full((28, 28, 3), level, np.uint8) for level in (20, 120, 220)])
CONTENT = {"history": [], "frames": [0, 5, 9], "steps": 9, "succeeded": False}


def reflect(directory: Path, chat: Any, models: Models, structured: bool = True) -> tuple[Any, int]:
    """The reflection, and the calls that were really made."""

    dialogue = ReflectionDialogue(structured, False, 1, "all", "push the puck")
    return held(dialogue, CONTENT, FRAMES, chat, directory, models)


def test_a_server_is_shown_the_frames_and_nothing_is_asked_again_from_the_cassette(tmp_path: Path) -> None:
    bodies = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        bodies.append(body)
        good = changed(key_frame_indices=[2])
        return 200, completion(json.dumps(REPLY) if len(bodies) == 1 else good)

    with serving(answer) as url:
        found, billed = reflect(tmp_path, OpenAI(base_url=url), Models())
    assert (found["retries"], found["frames"], billed) == (1, [9], 2), "frame 3 was not shown"
    parts = bodies[0]["messages"][0]["content"]
    assert [part["type"] for part in parts if part["type"] == "image_url"] == ["image_url"] * 3
    assert "it cites 3" in json.dumps(bodies[1]["messages"][-1])
    again, billed = reflect(tmp_path, OpenAI(), Models(mode="replay"))
    assert again == found and billed == 0


def test_a_vision_language_model_that_runs_here_ends_in_an_empty_reflection(tmp_path: Path, babbling: Any) -> None:
    """Of random weights: what it says is noise, which is retried and then borne."""
    import torch

    torch.manual_seed(0)
    found, billed = reflect(tmp_path, babbling, Models())
    assert found["empty"] and found["text"] == "" and found["retries"] == 1 and billed == 2
    again, billed = reflect(tmp_path, babbling, Models(mode="replay"))
    assert again == found and billed == 0
