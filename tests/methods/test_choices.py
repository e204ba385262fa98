"""Dialogues that are answered by a choice: what they ask, and that hand-written chats choose what they would write."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.preference.conversing import weighed
from guidebench.baselines.teachers.llm import Llm, Scripted
from guidebench.baselines.teachers.llm.scripted import ScriptedReader
from guidebench.harness import registry
from guidebench.harness.interfaces import ChoosesAnswers
from guidebench.harness.interfaces.questions import WritesObjects
from guidebench.harness.models.access import Local
from guidebench.harness.models.calls import Answer, Call, ChatCall, ChoiceCall
from guidebench.harness.models.chats.uniform import Uniform
from guidebench.harness.models.choosing import ByChoice
from guidebench.harness.plan import matrix
from guidebench.methods.dsadf.performing import PerformerDialogue
from guidebench.methods.dsadf.scoring import ScorerDialogue
from guidebench.methods.dsadf.scripted import PromptPerformer, PromptScorer
from guidebench.methods.linvit.dialogue import PriorDialogue
from guidebench.methods.linvit.scripted import Weigher
from tests.methods.dsadf.worlds import ACTIONS

CHOP, DONE = ACTIONS.index("chop tree"), "done"
AT_A_TREE = {
    "text": "you are targeting tree. you see grass.", "possible": [0, CHOP], "subgoal": "chop tree", "recent": ["noop"],
    "may_end": True,
}  # fmt: skip


def teacher() -> Any:
    suite = registry.get("suite", "metaworld_pbrl")()
    return Llm(augment="none").dialogue(suite, "reach", "chat")


def pair() -> dict[str, Any]:
    return {"segments": np.random.default_rng(3).uniform(-0.3, 0.3, (2, 4, 39)).round(3).tolist()}


ROWS: dict[str, tuple[Callable[[], Any], Callable[..., Any], Any, Any]] = {
    "performer": (lambda: PerformerDialogue("chop wood", ACTIONS, 0), PromptPerformer(0, 0), AT_A_TREE, "action"),
    "scorer": (
        lambda: ScorerDialogue("chop wood", 0), PromptScorer(0, 0),
        {"subgoal": "chop tree", "behaviour": "The last attempts: not reached in 9 steps; reached after 7 steps."},
        "proficiency",
    ),
    "prior": (
        lambda: PriorDialogue(ACTIONS, 0), Weigher(0),
        {"instruction": "chop wood", "state": "you are targeting tree. you see grass."}, "weights",
    ),
    "teacher": (teacher, ScriptedReader(Scripted(error=0, first_bias=0, equal=0)), pair(), "first"),
}  # fmt: skip
"""Role -> dialogue, hand-written chat, question, and the field of the answer that the model decides."""


def answered(dialogue: Any, question: Any, code: Any) -> tuple[Any, list[Call]]:
    """Return the answer of a dialogue with hand-written code, and the calls."""
    calls: list[Call] = []

    async def ask(call: Call) -> Answer:
        calls.append(call)
        assert len(calls) <= dialogue.calls
        reply = call.answered_by(code)
        assert not call.fault(reply)
        return Answer(reply)

    return asyncio.run(dialogue(json.loads(json.dumps(question)), None, ask)), calls


@pytest.mark.parametrize("role", ROWS)
def test_a_hand_written_chat_chooses_what_it_would_write(role: str) -> None:
    if role == "teacher":
        pytest.importorskip("metaworld")
    build, code, stated, field = ROWS[role]
    dialogue = build()
    written, texts_asked = answered(dialogue, stated, code)
    chosen, _ = answered(ByChoice(dialogue, Uniform()), stated, code)
    _, calls = answered(ByChoice(dialogue, Uniform(calibrate=True)), stated, code)
    assert {type(call) for call in texts_asked} == {ChatCall} and {type(call) for call in calls} == {ChoiceCall}
    assert chosen[field] == pytest.approx(written[field], abs=1e-4)
    assert set(chosen) == set(written)
    question, neutral = calls[0], calls[1]
    assert isinstance(question, ChoiceCall) and isinstance(neutral, ChoiceCall)
    assert all(candidate.startswith(" ") for candidate in question.candidates)
    texts = ["".join(map(str, call.messages[0].content)) for call in (question, neutral)]
    assert "N/A" in texts[1] and "N/A" not in texts[0] and "JSON" not in texts[0].replace("is a JSON object", "")
    checks = getattr(dialogue, "misfit", None)
    assert checks is None or checks(stated, 0, chosen) == ""


def test_a_performer_may_end_a_sub_goal_only_where_it_is_allowed_to() -> None:
    dialogue = PerformerDialogue("chop wood", ACTIONS, 0)
    for may_end in (True, False):
        stated = {**AT_A_TREE, "subgoal": "find tree", "may_end": may_end}
        chosen, calls = answered(ByChoice(dialogue, Uniform()), stated, PromptPerformer(0, 0))
        assert isinstance(calls[0], ChoiceCall)
        assert calls[0].candidates == (f" {ACTIONS[0]}", " chop tree", *[" done"] * may_end)
        assert (chosen["action"] == DONE) is may_end


def test_a_teacher_asks_in_both_orders_and_takes_no_contradiction() -> None:
    pytest.importorskip("metaworld")

    class First:
        """Prefers what is shown first."""

        def weigh(self, messages: Any, candidates: Any) -> list[float]:
            return [float(candidate == " first") for candidate in candidates]

    verdicts, calls = answered(ByChoice(teacher(), Uniform()), pair(), First())
    assert [verdicts[name] for name in ("first", "second", "outcome")] == [1, 1, "inconsistent"] and len(calls) == 2
    assert weighed(verdicts, True).outcome == "inconsistent"
    equal, calls = answered(ByChoice(teacher(), Uniform()), pair(), ScriptedReader(Scripted(error=0, equal=9)))
    assert (equal["outcome"], len(calls)) == ("equal", 1)


@pytest.mark.parametrize("words", [
    "suite=crafter_ood method=dsadf", "suite=housekeep method=linvit", "suite=crafter_ood method=model_as_agent",
    "suite=metaworld_pbrl method=rl_sallm_f teacher.augment=none", "suite=housekeep method=ellm_exploration",
])  # fmt: skip
def test_what_declares_choices_or_schemas_has_a_dialogue_that_tiny_models_answer(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("crafter", "metaworld"):
        pytest.importorskip(package)
    monkeypatch.setattr(Local, "content", lambda self: None)  # the files need not be here
    (cell,) = matrix.plan([*words.split(), "models=tiny", "profile=smoke", "seeds=[0]"]).cells
    for part in cell.sections.values():
        for role, forms in getattr(part, "answer_forms", {}).items():
            dialogue = part.dialogue(cell.section("suite"), cell.names.task, role)
            assert isinstance(dialogue, WritesObjects) or "schema" not in forms
            assert isinstance(dialogue, ChoosesAnswers) or "choice" not in forms
            form = "choice" if "choice" in forms else "schema"
            assert (cell.section(role).answer, cell.section(role).model) == (form, "smollm2_135m")
    assert cell.standing.roles == (), "no other set stands in"
    embedders = [part for part in cell.models if part.kind == "embedder"]
    assert all(cell.section(part.role).model == "minilm_l6" for part in embedders)
