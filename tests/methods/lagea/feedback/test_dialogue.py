"""A valid reply becomes a reflection; an invalid one is answered by what is wrong, and in the end by no feedback."""

import json
from typing import Any

import pytest

from guidebench.baselines.conversing import Misread
from guidebench.harness.models.calls import Failure
from guidebench.methods.lagea.feedback import reading
from tests.baselines.teachers.llm.conversations import Ask
from tests.methods.lagea.feedback.replies import REPLY, changed, talk

EMPTY = {
    "text": "", "empty": True, "outcome": "", "code": "", "explanation": "", "secondary": [], "frames": [], "fix": "",
    "confidence": 0.0, "summary": "",
}  # fmt: skip
GERMAN = {
    "primary_error": {"code": "failed_grasp", "explanation": "Der Greifer rutschte ab."},
    "suggested_fix": "Fester greifen.",
    "summary": "Der Versuch schlug fehl.",
}
BAD = {
    "prose": ("The gripper missed the puck.", "it holds no JSON object"),
    "another code": (changed(primary_error={"code": "bad_luck", "explanation": "It is so."}), "bad_luck"),
    "another outcome": (changed(outcome="draw"), "draw"),
    "a code of the other outcome": (changed(outcome="success"), "failed_grasp does not fit the outcome success"),
    "a frame out of range": (changed(key_frame_indices=[0, 5]), "it cites 5, and the frames are numbered from 0 to 4"),
    "a negative frame": (changed(key_frame_indices=[-1]), "-1"),
    "a frame twice": (changed(key_frame_indices=[2, 4, 2]), "it cites 2 more than once"),
    "a fraction of a frame": (changed(key_frame_indices=[1.5]), "1.5"),
    "100 frames": (changed(key_frame_indices=[*range(100)]), "key_frame_indices has more than 8 items"),
    "no frame": (changed(key_frame_indices=[]), "key_frame_indices"),
    "a missing key": (
        json.dumps({name: REPLY[name] for name in REPLY if name != "summary"}),
        "'summary' is a required",
    ),
    "a further key": (changed(mood="good"), "mood"),
    "a huge string": (changed(summary="the " * 200_000), "parsed"),
    "a long string": (changed(summary="the " * 200), "summary has more than 600 characters"),
    "an empty string": (changed(summary=""), "summary"),
    "a confidence above 1": (changed(confidence=90), "90"),
    "no finite number": (changed(confidence=0.5).replace("0.5", "NaN"), "NaN is no JSON number"),
    "a huge frame": (changed(key_frame_indices=[10**400]), "too large"),
    "another script": (changed(summary="机器人没有抓住物体。"), "it is not written in English"),
    "another language": (changed(**GERMAN), "it has no whole English sentence"),
    "deep nesting": ('{"a": ' * 50_000, "parsed"),
    "a list": ("[1, 2]", "it holds no JSON object"),
}


def test_a_reply_becomes_a_reflection_with_environment_steps() -> None:
    reflection = talk(ask := Ask(f"Here it is:\n```json\n{json.dumps(REPLY)}\n```"))
    assert reflection == {
        "text": "Failure: failed grasp. The fingers closed above the puck. Also: insufficient force. Close the gripper "
        "later. The puck stayed where it was, since it was not held.",
        "retries": 0,
        "empty": False,
        "outcome": "failure",
        "code": "failed_grasp",
        "explanation": "The fingers closed above the puck.",
        "secondary": ["insufficient_force"],
        "frames": [7, 31],
        "fix": "Close the gripper later.",
        "confidence": 0.75,
        "summary": "The puck stayed where it was, since it was not held.",
    }
    assert ask.done and len(ask.calls) == 1
    embedded = talk(Ask(json.dumps(REPLY)), embedded="summary")
    assert embedded is not None and embedded["text"] == embedded["summary"] == REPLY["summary"], "it may be that alone"


@pytest.mark.parametrize("name", BAD)
def test_each_kind_of_bad_reply_is_answered_by_what_is_wrong_and_in_the_end_given_up(name: str) -> None:
    bad, says = BAD[name]
    reflection = talk(ask := Ask(bad, json.dumps(REPLY)))
    assert (
        reflection is not None
        and not reflection["empty"]
        and reflection["retries"] == 1
        and reflection["code"] == "failed_grasp"
    )
    assert says in ask.last_text(1) and ask.last_text(1).startswith("I cannot use this reply: ")
    assert len(ask.last_text(1)) < 1_000, "a huge reply is not repeated in the reminder"
    ask = Ask(*[bad] * 3)
    assert talk(ask, retries=2) == EMPTY | {"retries": 2} and ask.done


def test_no_answer_is_told_apart_from_an_invalid_one() -> None:
    assert talk(Ask(Failure("server", ""))) is None
    assert talk(Ask("prose", Failure("server", ""))) == EMPTY | {"retries": 1}


def test_a_stated_outcome_must_not_be_contradicted() -> None:
    for tell, succeeded in ((True, False), (False, True)):  # a model that is not told may be wrong
        reflection = talk(ask := Ask(json.dumps(REPLY)), tell=tell, succeeded=succeeded)
        assert reflection is not None and reflection["outcome"] == "failure"
        assert ("The attempt failed." in str(ask.calls[0].messages[0].content[0])) == tell
    assert talk(Ask(json.dumps(REPLY)), tell=True, succeeded=True, retries=0) == EMPTY | {"retries": 0}


def test_free_text_is_the_summary_and_is_embedded() -> None:
    prose = "The puck was missed. Go lower."
    reflection = talk(Ask("The puck  was\nmissed. Go lower."), structured=False)
    assert reflection == EMPTY | {"retries": 0, "empty": False, "text": prose, "summary": prose}


@pytest.mark.parametrize("bad", ["Кирпич остался на месте.", "la " * 2_000, "42"])
def test_free_text_that_is_no_english_is_asked_for_again(bad: str) -> None:
    reflection = talk(ask := Ask(bad, "The puck was not held."), structured=False)
    assert reflection is not None and reflection["retries"] == 1 and "two to four English sentences" in ask.last_text(1)
    assert talk(Ask(bad), structured=False, retries=0) == EMPTY | {"retries": 0}


def test_accents_and_symbols_in_english_are_accepted() -> None:
    reading.structured(changed(summary="The façade is 3° off → it missed ½ of the goal."), 5)
    with pytest.raises(Misread, match="not written in English"):
        reading.structured(changed(suggested_fix="Закройте схват"), 5)


def test_feedback_is_read_as_a_field_of_an_object_too() -> None:
    """So it is written under the schema where the outcome is open; earlier recordings hold the object itself."""
    assert reading.structured(json.dumps({"feedback": REPLY}), 5) == reading.structured(json.dumps(REPLY), 5) == REPLY


def test_a_fix_of_nothing_is_left_out_of_the_text() -> None:
    for nothing in ("(n/a)", "N/A.", "none"):
        reply: dict[str, Any] = REPLY | {"suggested_fix": nothing}
        assert reading.reflection(reply, [0, 7, 30, 31, 50])["fix"] == "n/a" and nothing not in reading.text(reply)
