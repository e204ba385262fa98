"""The success dialogue with foundation models: a server on loopback, and a tiny random model through its own loader."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from guidebench.harness.interfaces import Question
from guidebench.harness.models.calls import Answer, Ticket
from guidebench.harness.models.judges.openai_ import OpenAI
from guidebench.harness.models.judges.transformers_ import Transformers
from guidebench.harness.models.questions import QuestionAccount
from guidebench.harness.models.service import RoleDialogue, _converse
from guidebench.harness.plan.arrays import Declared
from guidebench.methods.robofume.dialogue import CLASSIFIED, UNANSWERED, SuccessDialogue
from tests.harness.models.canned import completion, serving
from tests.methods import local

PUT = {"instruction": "put the red block into the left bin"}
FRAMES = np.random.default_rng(0).integers(0, 256, (3, 32, 64, 3), np.uint8)


def judgement(judge: Any, consensus: bool) -> Any:
    """Return the dialogue's answer about FRAMES, which a judge's model gives."""
    dialogue = SuccessDialogue(consensus)
    return local.converse(judge.spawn_model("cpu"), lambda ask: dialogue(PUT, FRAMES, lambda c: ask(judge.sampled(c))))


def test_a_server_that_denies_one_of_four_prompts_sees_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    prompts: list[str] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        text = json.dumps(body["messages"])
        prompts.append(text)
        return 200, completion("Answer: No" if "Has the red block been moved" in text else "Answer: Yes")

    with serving(answer) as url:
        judge = OpenAI(model="gpt-4o-mini", base_url=url, scoring="literal")
        assert judgement(judge, consensus=False).tolist() == [1, 1, 1]
        assert judgement(judge, consensus=True).tolist() == [0, 0, 0]
    assert len(prompts) == 3 + 12
    assert all("data:image/" in text for text in prompts)


def test_a_local_model_gives_each_state_a_probability(tiny: Callable[[str], Path]) -> None:
    pytest.importorskip("transformers")
    judge = Transformers(model=str(tiny("qwen_vl")), dtype="float32", batch_size=2)
    single, consensus = judgement(judge, consensus=False), judgement(judge, consensus=True)
    assert single.dtype == np.float32 and single.shape == (3,)
    assert ((single > 0) & (single < 1)).all() and len({*single.tolist()}) == 3
    assert (consensus <= single + 1e-6).all()


def test_a_question_about_states_of_which_one_has_no_answer_is_unanswered_and_keeps_the_others() -> None:
    """In the model process, one of three calls gets an answer that says neither yes nor no."""

    class Desk:
        async def answer(self, call: Any, ticket: Any) -> Answer:
            odd = np.array_equal(call.clip[0], FRAMES[1])
            return Answer(None, "malformed") if odd else Answer(0.75)

    declared = Declared(CLASSIFIED, "guide", "classifier")
    spoken = RoleDialogue(1, "", lambda call: call, None, "guide", declared)
    question = Question(0, np.arange(3), None, np.zeros((3, 0), bool), json.dumps(PUT), "classifier")
    ticket = Ticket("cell/0", 0, 5, "classifier")
    answer = asyncio.run(_converse(spoken, SuccessDialogue(False), cast(Any, Desk()), FRAMES, ticket, question))
    assert answer.failure == "malformed" and answer.value.tolist() == [0.75, UNANSWERED, 0.75]
    counts = QuestionAccount().with_answer(answer)
    assert (counts.questions, counts.failures) == (1, 1)
