"""Dialogues whose model writes under a JSON schema: what the schema allows, the dialogue can read."""

import asyncio
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

from guidebench.baselines.conversing import size
from guidebench.baselines.teachers.llm import Llm
from guidebench.harness import registry
from guidebench.harness.interfaces.questions import Unusable, WritesObjects
from guidebench.harness.models.backends.answers import OUR_WORDS
from guidebench.harness.models.backends.grammars import grammar_of
from guidebench.harness.models.calls import Answer, Call, ChatCall, schemas
from guidebench.harness.models.chats.transformers_ import Transformers
from guidebench.harness.models.choosing import dialogue_of
from guidebench.methods.dsadf.planning import PlannerDialogue, ReflectorDialogue
from guidebench.methods.dsadf.scoring import ScorerDialogue
from guidebench.methods.ellm.dialogue import GoalsDialogue
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.dialogue import WaypointDialogue
from guidebench.methods.kagi.questions import Candidates, WaypointQuestion
from guidebench.methods.lagea.feedback.dialogue import ReflectionDialogue
from guidebench.methods.linvit.dialogue import PriorDialogue
from tests.methods.dsadf.worlds import ACTIONS

DOCUMENTS = 20
"""Documents that are drawn for each question."""
PROSE = "The gripper is at the tree and it has to chop wood with care."
STATE = {"text": "you are targeting tree. you see grass."}
EPISODE = {"history": [], "frames": [0, 4, 9], "steps": 9, "succeeded": True}
FRAMES = np.zeros((3, 4, 4, 3), np.uint8)
POINTS = [[0.1, 0.2], [0.4, 0.5], [0.8, 0.9]]


STEPS = SimpleNamespace(names=ACTIONS, things=frozenset(), listed=ACTIONS)
ROOMS = SimpleNamespace(names=("grab mug", "put mug on shelf"), things={"mug", "shelf"}, listed=("grab OBJECT",))


def waypoints(grid: Grid) -> Any:
    return json.loads(WaypointQuestion("close the box", Candidates(POINTS, POINTS[:2]), grid).content())


def teacher() -> Any:
    pytest.importorskip("metaworld")
    suite = registry.get("suite", "metaworld_pbrl")()
    return Llm(double_check=False).dialogue(suite, "reach", "chat")


def pair() -> dict[str, Any]:
    return {"segments": np.random.default_rng(3).uniform(-0.3, 0.3, (2, 4, 39)).tolist()}


ROWS: Mapping[str, tuple[Callable[[], Any], Callable[[], Any], Any]] = {
    "plan": (lambda: PlannerDialogue("chop wood", STEPS, "", 5, 0), lambda: STATE, None),
    "plan in a house": (lambda: PlannerDialogue("tidy up", ROOMS, "", 5, 0), lambda: STATE, None),
    "plan again": (
        lambda: PlannerDialogue("chop wood", STEPS, "", 5, 0),
        lambda: {**STATE, "plan": "1. find tree", "reflection": "Weaknesses: it is too short"}, None,
    ),
    "target": (lambda: PlannerDialogue("", STEPS, "", 5, 0), lambda: {"history": "Step 1."}, None),
    "reflection": (
        lambda: ReflectorDialogue("chop wood", STEPS, "", 5, True), lambda: {**STATE, "plan": "1. find tree"}, None,
    ),
    "proficiency": (
        lambda: ScorerDialogue("chop wood", 0), lambda: {"subgoal": "chop tree", "behaviour": "None."}, None,
    ),
    "prior": (
        lambda: PriorDialogue(ACTIONS, 0), lambda: {"instruction": "chop wood", "state": STATE["text"]}, None,
    ),
    "goals": (lambda: GoalsDialogue(["chop tree", "sleep"], 5), lambda: STATE["text"], None),
    "feedback": (lambda: ReflectionDialogue(True, False, 0, "all", "press it"), lambda: EPISODE, FRAMES),
    "feedback on a stated outcome": (
        lambda: ReflectionDialogue(True, True, 0, "all", "press it"), lambda: EPISODE, FRAMES,
    ),
    "waypoints": (
        lambda: WaypointDialogue(0), lambda: waypoints(Grid()), np.zeros((1, 96, 192, 3), np.uint8),
    ),
    "waypoints from above": (
        lambda: WaypointDialogue(0), lambda: waypoints(Grid(4, False)), np.zeros((1, 96, 192, 3), np.uint8),
    ),
    "trajectory": (teacher, pair, None),
}  # fmt: skip
"""What is written -> dialogue, question and frames."""


def drawn(schema: Mapping[str, Any], random: np.random.Generator) -> Any:
    """Return a random document of a schema, its prose in English and the items of a list different where they can be:
    what a schema cannot say, and the dialogues ask again for."""
    match schema:
        case {"anyOf": variants}:
            return drawn(variants[random.integers(len(variants))], random)
        case {"enum": constants}:
            return constants[random.integers(len(constants))]
        case {"const": constant}:
            return constant
        case {"type": "object", "properties": fields}:
            names = [name for name in fields if name in schema["required"] or random.random() < 0.5]
            return {name: drawn(fields[name], random) for name in names}
        case {"type": "array"}:
            beginning = [drawn(form, random) for form in schema.get("prefixItems", ())]
            size = random.integers(schema.get("minItems", 0), 1 + min(schema.get("maxItems", 8), 8))
            for _ in range(20 * int(size)):
                if len(beginning) < size and (document := drawn(schema["items"], random)) not in beginning:
                    beginning.append(document)
            return beginning
        case {"type": "string", "maxLength": longest}:
            return (PROSE * 20)[: random.integers(len(PROSE), 1 + longest)]
        case {"type": "integer", "minimum": low, "maximum": high}:
            return int(random.integers(low, 1 + high))
        case {"type": "number", "minimum": low, "maximum": high}:
            return float(random.uniform(low, high))
    raise AssertionError(f"{schema} says too little of what it allows")


@pytest.mark.parametrize("name", ROWS)
def test_a_dialogue_reads_whatever_its_schema_allows(name: str) -> None:
    make, question, frames = ROWS[name]
    dialogue, random = make(), np.random.default_rng(0)
    assert isinstance(dialogue, WritesObjects)
    for _ in range(DOCUMENTS):
        calls: list[ChatCall] = []

        async def ask(call: Call, calls: list[ChatCall] = calls) -> Answer:
            assert isinstance(call, ChatCall)
            calls.append(call)
            if call.schema is None:
                return Answer("The second is nearer.\n2")
            document = drawn(call.schema, random)
            assert call.fault(document) == ""
            return Answer(document)

        stated = json.loads(json.dumps(question()))
        answer = asyncio.run(dialogue.with_schemas()(stated, frames, ask))
        if name == "goals":  # any text may be a goal; those that no step can achieve are of no use
            answer = getattr(answer, "value", answer)
        assert answer is not None and not isinstance(answer, Unusable), calls[-1].schema
        assert calls[-1].schema is not None and [call.repeats for call in calls] == [False] * len(calls)
        longest = max(len(json.dumps(schema)) for schema in dialogue.schemas)
        assert len(json.dumps(calls[-1].schema)) <= longest, "so that costs are bounded by the longest"
        misfit = getattr(dialogue, "misfit", None)
        assert misfit is None or misfit(stated, 0 if frames is None else len(frames), answer) == ""


@pytest.mark.parametrize("name", ROWS)
def test_its_schemas_can_be_compiled_and_are_absent_from_questions_in_text(name: str) -> None:
    pytest.importorskip("llguidance")
    make, question, frames = ROWS[name]
    dialogue = make()
    for schema in dialogue.schemas:
        assert schema["type"] == "object", "OpenAI refuses other roots"
        schemas.check(schema)
        jsonschema.Draft202012Validator.check_schema(schema)
        grammar_of(schema)
    calls: list[ChatCall] = []

    async def ask(call: Call) -> Answer:
        assert isinstance(call, ChatCall)
        calls.append(call)
        return Answer("1") if call.schema is None else Answer(None, "malformed")

    for form in (dialogue, dialogue.with_schemas()):
        asyncio.run(form(json.loads(json.dumps(question())), frames, ask))
    in_text, by_schema = calls[0], calls[-1]
    assert by_schema.schema is not None or name == "trajectory", "whose verdict is text"
    assert in_text.schema is None or name == "goals", "which are asked for by schema in any case"
    lengths = [size(*(message.content for message in call.messages)) for call in (in_text, by_schema)]
    assert lengths[1] <= lengths[0] + OUR_WORDS, "so that the bound of texts bounds objects too"


def test_a_role_whose_answers_are_objects_asks_by_schema_under_a_constraint() -> None:
    suite, model = registry.get("suite", "crafter")(), Transformers(answer="schema")
    part = registry.get("agent", "prior_guided")()
    dialogue = dialogue_of(part, suite, "game", "prior", model)
    calls: list[Any] = []

    async def ask(call: Call) -> Answer:
        calls.append(model.sampled(call))
        return Answer(None, "malformed")

    assert asyncio.run(dialogue({"instruction": "", "state": ""}, None, ask)) is None
    assert calls[0].constrained and "weights" in calls[0].schema["properties"]
    assert not Transformers().sampled(calls[0].__class__(calls[0].messages, calls[0].schema)).constrained
