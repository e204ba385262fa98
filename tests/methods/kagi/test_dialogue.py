"""A valid reply becomes waypoints; an invalid one is answered by what is wrong, and in the end by no answer."""

import asyncio
import json
from typing import Any

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Failure
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.dialogue import WaypointDialogue
from guidebench.methods.kagi.questions import WaypointQuestion
from tests.baselines.teachers.llm.talking import CUT, Ask
from tests.methods.kagi.scenes import ASKED, painted

FRAMES = painted({"green": (0.4, 0.6, 0.7)})[None]
REPLY: dict[str, Any] = {"grasp": "P2", "target": "Q4", "block_sequence": [["c4", 3], ["c4", 2], ["b4", 3], ["a3", 2]]}
FOUND = {
    "grasp": 2,
    "target": 4,
    "waypoints": [
        pytest.approx([2.5 / 6, 3.5 / 6, 3 / 6]),
        pytest.approx([2.5 / 6, 3.5 / 6, 4 / 6]),
        pytest.approx([1.5 / 6, 3.5 / 6, 3 / 6]),
        pytest.approx([0.5 / 6, 2.5 / 6, 4 / 6]),
    ],
    "blocks": [["c4", 3], ["c4", 2], ["b4", 3], ["a3", 2]],
    "retries": 0,
}


def changed(**fields: Any) -> str:
    return json.dumps(REPLY | fields)


def talk(ask: Ask, asked: WaypointQuestion = ASKED, retries: int = 2) -> Any:
    """What the dialogue ends with, as JSON carries it."""
    dialogue = WaypointDialogue(retries)
    assert dialogue.calls == 1 + retries
    found = asyncio.run(dialogue(json.loads(asked.content()), FRAMES, ask))
    return json.loads(json.dumps(found))


BAD = {
    "prose": ("The gripper goes to c4 and then to a3.", "it holds no JSON object"),
    "a tile beside the grid": (changed(block_sequence=[["g7", 2], ["c4", 2]]), "'g7' is no tile; columns are a to f"),
    "a tile below the grid": (changed(block_sequence=[["c7", 2], ["c4", 2]]), "'c7' is no tile"),
    "a row without a column": (changed(block_sequence=[["4", 2], ["c4", 2]]), "'4' is no tile"),
    "a number as a tile": (changed(block_sequence=[[4, 2], ["c4", 2]]), "block_sequence.0"),
    "a height above": (changed(block_sequence=[["c4", 7], ["c4", 2]]), "the height 7 is no line; lines are numbered 0"),
    "a height below": (changed(block_sequence=[["c4", -1], ["c4", 2]]), "the height -1 is no line"),
    "a height between": (changed(block_sequence=[["c4", 2.5], ["c4", 2]]), "the height 2.5 is no line"),
    "a height in words": (changed(block_sequence=[["c4", "high"], ["c4", 2]]), "the height 'high' is no line"),
    "a truth as a height": (changed(block_sequence=[["c4", True], ["c4", 2]]), "the height True is no line"),
    "a huge height": (changed(block_sequence=[["c4", 10**400], ["c4", 2]]), "too large"),
    "an infinite height": (changed().replace("3]", "Infinity]", 1), "Infinity is no JSON number"),
    "no height": (changed(block_sequence=["c4", "c3"]), "is not of type 'array'"),
    "three numbers": (changed(block_sequence=[["c4", 2, 2], ["c4", 2]]), "block_sequence.0"),
    "a point not shown": (changed(grasp="P6"), "grasp is 'P6', which is not shown; choose P1 to P5"),
    "a point of the other kind": (changed(target="P1"), "target is 'P1', which is not shown; choose Q1 to Q5"),
    "a number as a point": (changed(grasp=3), "grasp"),
    "no point": (json.dumps({name: REPLY[name] for name in REPLY if name != "target"}), "'target' is a required"),
    "one block": (changed(block_sequence=[["c4", 2]]), "block_sequence has 1 blocks; write 2 to 20"),
    "no block": (changed(block_sequence=[]), "block_sequence has 0 blocks"),
    "a hundred blocks": (changed(block_sequence=[["c4", 2], ["c3", 2]] * 50), "has 100 blocks; write 2 to 20"),
    "a single block repeated": (changed(block_sequence=[["c4", 2]] * 5), "repeats a single block"),
    "no sequence": (changed(block_sequence="c4, c3"), "block_sequence"),
    "a further key": (changed(mood="good"), "mood"),
    "a long plan": (changed(plan="on " * 300), "plan has more than 600 characters"),
    "a list": ("[1, 2]", "it holds no JSON object"),
    "deep nesting": ('{"a": ' * 50_000, "parsed"),
    "a reply that was cut": (changed() + CUT, "cut off"),
}


def test_a_reply_becomes_waypoints_at_centres_of_tiles_and_rows_of_lines() -> None:
    assert talk(ask := Ask(f"Here it is:\n```json\n{json.dumps(REPLY)}\n```")) == FOUND
    assert ask.done and len(ask.calls) == 1
    for replies in ((), ("prose",)):
        assert talk(Ask(*replies, Failure("server", ""))) is None, "a failed call ends it without an answer"


@pytest.mark.parametrize("name", BAD)
def test_each_kind_of_bad_reply_is_answered_by_what_is_wrong_and_in_the_end_given_up(name: str) -> None:
    bad, says = BAD[name]
    assert talk(ask := Ask(bad, json.dumps(REPLY))) == FOUND | {"retries": 1}
    assert says in ask.asked(1) and ask.asked(1).startswith("I cannot use this reply: ")
    assert len(ask.asked(1)) < 1_000, "a huge reply is not repeated in the reminder"
    ask = Ask(*[bad] * 3)
    assert talk(ask) is None and ask.done


def test_blocks_repeated_in_a_row_count_once_and_capitals_spaces_and_whole_floats_are_read() -> None:
    waits = [["c4", 3], ["c4", 3], ["c4", 2], ["c4", 2], ["b4", 3], ["a3", 2], ["a3", 2]]
    assert talk(Ask(changed(block_sequence=waits))) == FOUND
    returns = [["c4", 3], ["c4", 2], ["c4", 3], ["b4", 3]]
    assert talk(Ask(changed(block_sequence=returns)))["blocks"] == returns, "a path may come back"
    loose = [[" C4", 3.0], ["c4", 2], ["B4 ", 3], ["a3", 2]]
    assert talk(Ask(changed(grasp="p2", target=" Q4 ", block_sequence=loose, plan="Over it."))) == FOUND


def test_a_single_view_gives_waypoints_without_heights() -> None:
    single = ASKED._replace(grid=Grid(4, heights=False))
    found = talk(Ask(changed(block_sequence=["c4", "b4", "a1"])), single)
    assert found["waypoints"] == [[0.625, 0.875], [0.375, 0.875], [0.125, 0.125]]
    assert found["blocks"] == [["c4", None], ["b4", None], ["a1", None]]
    ask = Ask(json.dumps(REPLY), changed(block_sequence=["c5", "b4"]), changed(block_sequence=["c4", "b4"]))
    assert talk(ask, single)["retries"] == 2 and "'c5' is no tile" in ask.asked(2)


def test_bad_frames_end_the_run_by_name() -> None:
    with pytest.raises(UserError, match=r"frames of 100 by 100 pixels do not show the two views .*camera=both"):
        asyncio.run(WaypointDialogue(0)(json.loads(ASKED.content()), FRAMES[:, :, :100], Ask()))
