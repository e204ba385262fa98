"""The success dialogue with foundation models: a server on loopback, and a tiny random model through its own loader."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from guidebench.harness.models.calls import CallResult
from guidebench.harness.models.judges.openai_ import OpenAI
from guidebench.harness.models.judges.transformers_ import Transformers
from guidebench.harness.models.messages import SentQuestion
from guidebench.harness.models.questions import QuestionAccount
from guidebench.harness.models.serving import RoleDialogue, _converse
from guidebench.harness.plan.arrays import Declared
from guidebench.methods.robofume.dialogue import CLASSIFIED, UNANSWERED, SuccessDialogue
from tests.harness.models.canned import completion, serving
from tests.methods import local

PUT = {"instruction": "put the red block into the left bin"}
FRAMES = np.random.default_rng(0).integers(0, 256, (3, 32, 64, 3), np.uint8)


def said(judge: Any, consensus: bool) -> Any:
    """What the dialogue makes of FRAMES, asked of a judge's model."""
    dialogue = SuccessDialogue(consensus)
    return local.converse(judge.spawn_model("cpu"), lambda ask: dialogue(PUT, FRAMES, lambda c: ask(judge.sampled(c))))


def test_a_server_that_denies_one_of_four_prompts_sees_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    asked: list[str] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        text = json.dumps(body["messages"])
        asked.append(text)
        return 200, completion("Answer: No" if "Has the red block been moved" in text else "Answer: Yes")

    with serving(answer) as url:
        judge = OpenAI(model="gpt-4o-mini", base_url=url, scoring="literal")
        assert said(judge, consensus=False).tolist() == [1, 1, 1]
        assert said(judge, consensus=True).tolist() == [0, 0, 0]
    assert len(asked) == 3 + 12
    assert all("data:image/" in text for text in asked)


def test_a_local_model_gives_each_state_a_probability(tiny: Callable[[str], Path]) -> None:
    pytest.importorskip("transformers")
    judge = Transformers(model=str(tiny("qwen_vl")), dtype="float32", batch_size=2)
    one, four = said(judge, consensus=False), said(judge, consensus=True)
    assert one.dtype == np.float32 and one.shape == (3,)
    assert ((one > 0) & (one < 1)).all() and len({*one.tolist()}) == 3
    assert (four <= one + 1e-6).all()


def test_a_question_about_states_of_which_one_has_no_answer_is_unanswered_and_keeps_the_others() -> None:
    """As the model process ends it: one of three calls gets an answer that says neither yes nor no."""

    class Desk:
        async def answer(self, call: Any, asker: Any) -> CallResult:
            odd = np.array_equal(call.clip[0], FRAMES[1])
            return CallResult(None, "malformed") if odd else CallResult(0.75)

    declared = Declared(CLASSIFIED, "guide", "classifier")
    spoken = RoleDialogue(1, "", lambda call: call, None, "guide", declared)
    item = SentQuestion(0, "classifier", 0, "", 0, 5, None, json.dumps(PUT), 3)
    told = asyncio.run(_converse(spoken, SuccessDialogue(False), cast(Any, Desk()), FRAMES, item, "cell/0"))
    assert told.failure == "malformed" and told.value.tolist() == [0.75, UNANSWERED, 0.75]
    counts = QuestionAccount().with_answer(told)
    assert (counts.questions, counts.failures) == (1, 1)
