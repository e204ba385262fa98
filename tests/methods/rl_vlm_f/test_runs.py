"""RL-VLM-F on MetaWorld's own frames: asked over the model process, stopped and continued, as a command."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.models.canned import completion, serving
from tests.logs import log_rows

# not imported here: with it MuJoCo would be, before it is known what draws
pytestmark = [
    pytest.mark.usefixtures("opengl"),
    pytest.mark.skipif(importlib.util.find_spec("metaworld") is None, reason="the extra mujoco is missing"),
]
SHORT = (
    "suite=metaworld_pbrl", "task=button-press", "method=rl_vlm_f", "drawing.size=64", "guide.frame_size=47",
    "guide.pretraining=60", "guide.every=40", "guide.queries=4", "guide.budget=10", "guide.ensemble=2",
    "guide.epochs=2", "guide.batch_size=8", "guide.updates_after_reset=2", "learner.hidden=[16]",
    "learner.learning_starts=40", "learner.batch_size=16", "training.steps=160", "evaluation.every=160",
    "evaluation.episodes=1",
)  # fmt: skip
MAZED = ("suite=point_maze", "task=umaze", "suite.steps=25", "training.capacity=300", *SHORT[2:])
# A chat that sees: where the red of an image is further right, the arm has come nearer to the button. It may ramble.
SOURCE = """
    import hashlib, re
    from dataclasses import dataclass
    import numpy as np
    from guidebench.harness.parts import ModelPart
    from guidebench.harness.registry import register

    @register.chat("pixels")
    @dataclass(frozen=True)
    class Pixels(ModelPart):
        '''Looks at images.'''
        version = 1
        backend = "scripted"
        title = "a test's own"
        privileged = False
        citation = "% a test's own"
        delay: int = 1
        timeout: float = 60.0

        def spawn(self, suite, task):
            return speak

    def red(image):
        more = (image[..., 0].astype(float) - image[..., 1:].max(-1)).clip(0).sum(0)
        return round(float(more @ np.arange(len(more)) / more.sum()), 4)

    def speak(messages):
        seen = [part for part in messages[0].content if not isinstance(part, str)]
        if seen:
            assert [image.shape for image in seen] == [(64, 64, 3)] * 2 and seen[0].dtype == np.uint8
            return f"The red is at ({red(seen[0])}) and ({red(seen[1])})."
        words = messages[0].content[0]
        first, second = map(float, re.findall(r"\\(([0-9.]+)\\)", words))
        if len(messages) == 1 and int(hashlib.sha256(words.encode()).hexdigest(), 16) % 4 == 0:
            return "Hard to say."
        return str(0 if first == second else 1 + (second > first))
"""


def read_logs(study: Path, *names: str) -> dict[str, bytes]:
    paths = (path for name in names for path in study.glob(f"*/*/*/seed-*/{name}"))
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in paths}


def labels(study: Path) -> list[dict[str, Any]]:
    return [row for run in sorted(study.glob("*/*/*/seed-*")) for row in log_rows(run, "labels")]


def probed(study: Path) -> set[str]:
    """Return the quantities that probes recorded; a reward of frames has none for the states of a reference episode."""
    return {row["quantity"] for run in study.glob("*/*/*/seed-*") for row in log_rows(run, "probes")}


def test_labels_of_frames_teach_a_reward_of_states_too(train: Any, plugin: Any) -> None:
    plugin("looking_module", SOURCE, {"chat": "pixels"})
    study = train(*SHORT, "chat=pixels", "guide.sees=state", "guide.hidden=[16]", "seeds=[0]", packs=[(0,)])
    assert {row["outcome"] for row in labels(study)} <= {"labelled", "equal"} and len(labels(study)) == 10


def test_a_served_model_is_shown_two_frames_for_each_query_and_its_bill_counts_them(train: Any) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("gymnasium_robotics")
    images = []

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        content = body["messages"][0]["content"]
        if isinstance(content, str):
            return 200, completion("1")
        images.append([part["image_url"]["detail"] for part in content if part["type"] == "image_url"])
        return 200, completion("Image 1 has more of it achieved.")

    with serving(answers) as url:
        study = train(*MAZED, "chat=openai", f"chat.base_url={url}", "seeds=[0]", packs=[(0,)], probes=1)
    assert images == [["high", "high"]] * 10
    assert [row["preference"] for row in labels(study)] == [0.0] * 10
    assert {"critic", "true_reward"} <= probed(study) and not {"reward", "label_accuracy"} & probed(study)
    last = json.loads(next(iter(read_logs(study, "ledger.jsonl").values())).splitlines()[-1])
    assert (last["calls"], last["images"], last["failures"]) == (20, 20, 0)
