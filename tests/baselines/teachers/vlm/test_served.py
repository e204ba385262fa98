"""The whole way of a question: teacher, dialogue, desk, a server or a real, tiny vision-language model, and back."""

import asyncio
import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.vlm import Vlm, prompts
from guidebench.baselines.teachers.vlm.dialogue import ImageDialogue
from guidebench.harness.execution import Models
from guidebench.harness.models.calls import ChoiceCall
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.harness.models.chats.transformers_ import Transformers
from guidebench.harness.models.choice_scores import turns
from guidebench.harness.models.choosing import ByChoice
from tests.conftest import require
from tests.harness.models.canned import completion, serving
from tests.harness.models.dialogues import hold_dialogue, unwrap_answer

require("openai")
FRAMES = np.stack([np.full((56, 56, 3), 20, np.uint8), np.full((56, 56, 3), 220, np.uint8)])
PAIR = Pair(0, 3, np.zeros((2, 1, 2), np.float32), np.zeros((2, 1)), np.zeros((2, 1, 4), np.uint8))


def verdict(directory: Path, chat: Any, models: Models, **settings: Any) -> tuple[Verdict, int]:
    """Return the teacher's verdict on PAIR, drawn as FRAMES, and the number of calls that reached the model."""
    config = Vlm(**settings)
    teacher = config.spawn(None)  # type: ignore[arg-type]

    value, billed = hold_dialogue(ImageDialogue(config, "switch the light on"), None, FRAMES, chat, directory, models)
    return teacher.verdict(PAIR, json.loads(json.dumps(value))), billed


def brightness(part: dict[str, Any]) -> float:
    import imageio.v3 as imageio

    data = part["image_url"]["url"].partition("base64,")[2]
    return float(imageio.imread(io.BytesIO(base64.b64decode(data))).mean())


def looks(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
    """A server that compares the brightness of two images, describes it, and later reads the label out of the
    description."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return 200, completion("2" if "the second" in content else "1")
    light = [brightness(part) for part in content if part["type"] == "image_url"]
    return 200, completion(f"The light of the {'second' if light[1] > light[0] else 'first'} is on.")


def test_a_server_is_shown_both_images_and_nothing_is_asked_again_from_the_cassette(tmp_path: Path) -> None:
    with serving(looks) as url:
        judgement, billed = verdict(tmp_path, OpenAI(base_url=url), Models(), double_check=True)
    assert judgement == Verdict("labelled", 1.0, True, notes={"first": 2, "second": 1, "retries": 0}) and billed == 4
    again, billed = verdict(tmp_path, OpenAI(), Models(mode="replay"), double_check=True)
    assert again == judgement and billed == 0


def test_a_real_model_chooses_between_two_images_in_both_orders(tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Its verdicts are those that follow from the likelihoods which it gives for each order."""
    require("transformers")
    from guidebench.harness.models.backends.transformers_.loaded_model import Source
    from guidebench.harness.models.backends.transformers_.model import TransformersModel

    config = Transformers(model=str(tiny("qwen_vl")), dtype="float32", answer="choice")
    settings = Vlm(double_check=True)
    dialogue = ByChoice(ImageDialogue(settings, "switch the light on"), config)
    outcome, billed = hold_dialogue(dialogue, None, FRAMES, config, tmp_path, Models())
    answers, _ = unwrap_answer(outcome)
    model = TransformersModel(Source(config.model, dtype="float32"))
    orders = []
    for first, second in (FRAMES, FRAMES[::-1]):
        message, _ = prompts.choosing("switch the light on", first, second)
        call = ChoiceCall((message,), prompts.PREFIX, tuple(f" {verdict}" for verdict in prompts.VERDICTS))
        orders.append(int(turns(asyncio.run(model.answer(call)).value).argmax()))
    first, second = orders
    assert answers["first"] == first and billed == 1 + (first > 0)
    expected = "equal" if not first else "labelled" if {first, second} == {1, 2} else "inconsistent"
    assert answers["outcome"] == expected
