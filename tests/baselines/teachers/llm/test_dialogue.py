"""Every way that a dialogue about a pair can go, and what it costs in calls."""

import json
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.teachers.llm import Llm
from guidebench.baselines.teachers.llm.dialogue import PairDialogue
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Failure
from tests.baselines.teachers.llm.conversations import CUT, PUSH, Ask, pair, talk

TIMEOUT = Failure("timeout", "no answer")
SEGMENTS = pair()
AGREED: dict[str, Any] = {"first": 1, "second": 2, "outcome": "labelled"}


def imagined(preferred: Array = SEGMENTS[0], **changes: Any) -> str:
    """Return a trajectory, as JSON, that begins as `preferred` does and goes on in steps of a centimetre."""
    tcp = np.round(preferred[0, :3], 4) + 0.01 * np.arange(4)[:, None]
    trajectory = {"tcp": tcp.tolist(), "obj": np.tile(np.round(preferred[0, 4:7], 4), (4, 1)).tolist()}
    return json.dumps(trajectory | {"target": preferred[0, 14:].tolist()} | changes)


def test_a_preference_that_holds_in_both_orders_is_a_label_and_has_a_better_one_imagined() -> None:
    ask = Ask("I prefer it.\n1", "2", imagined())
    verdict = talk(SEGMENTS, ask)
    assert verdict is not None and ask.done
    states = np.array(verdict.pop("states"), np.float32)
    assert verdict == {"first": 1, "second": 2, "outcome": "labelled", "retries": 0, "imagined": "kept"}
    assert np.array_equal(states[0], SEGMENTS[0, 0]) and np.allclose(
        states[3, :3], SEGMENTS[0, 0, :3] + 0.03, atol=1e-4
    )
    first, second, third = (call.messages for call in ask.calls)
    assert [len(first), len(second)] == [1, 1] and first != second
    assert third[:1] == first and third[1] == ("assistant", ("I prefer it.\n1",)) and len(third) == 3


def test_the_second_question_shows_the_same_two_trajectories_in_the_other_order() -> None:
    ask = Ask("1", "1")
    talk(SEGMENTS, ask)

    def trajectories(call: int) -> list[str]:
        _, first, second = ask.last_text(call).replace("\n\nWork", "\n\nTrajectory 2:").split("Trajectory ")[:3]
        return [first[3:].split("}")[0], second[3:].split("}")[0]]

    assert trajectories(0) == trajectories(1)[::-1] and trajectories(0)[0] != trajectories(0)[1]


@pytest.mark.parametrize(
    ("replies", "settings", "says"),
    [
        (["0"], {}, {"first": 0, "outcome": "equal"}),
        (["1", "1"], {}, {"first": 1, "second": 1, "outcome": "inconsistent"}),
        (["2", "2"], {}, {"first": 2, "second": 2, "outcome": "inconsistent"}),
        (["2", "0"], {}, {"first": 2, "second": 0, "outcome": "inconsistent"}),
        (["?", "1", "2"], {"augment": "none"}, AGREED | {"retries": 1}),
        (["1", "?", "2"], {"augment": "none"}, AGREED | {"retries": 1}),
        (["?", "0"], {}, {"first": 0, "outcome": "equal", "retries": 1}),
        (["?", "?"], {}, {"first": None, "outcome": "unreadable", "retries": 1}),
        (["?", TIMEOUT], {}, {"first": None, "outcome": "unreadable", "retries": 1}),
        (["1", "1 or 2", "?"], {}, {"first": 1, "outcome": "unreadable", "retries": 1}),
        (["1", TIMEOUT], {}, {"first": 1, "outcome": "failed"}),
        ([f"In step 1 {CUT}", "1", "2"], {"augment": "none"}, AGREED | {"retries": 1}),
        ([f"1 {CUT}"], {"retries": 0}, {"first": None, "outcome": "unreadable"}),
        (["?"], {"retries": 0}, {"first": None, "outcome": "unreadable"}),
        (["?", "?", "?", "0"], {"retries": 3}, {"first": 0, "outcome": "equal", "retries": 3}),
        (["2"], {"double_check": False, "augment": "none"}, {"first": 2, "outcome": "labelled"}),
        (["0"], {"double_check": False}, {"first": 0, "outcome": "equal"}),
        (["1", "2", TIMEOUT], {}, AGREED | {"imagined": "failed"}),
        (["1", "2", "No.", TIMEOUT], {}, AGREED | {"imagined": "unreadable", "retries": 1}),
        (["1", "2", "{}", imagined(tcp=[[1, 1, 1]])], {}, AGREED | {"imagined": "length", "retries": 1}),
        (["1", "2", "{}"], {"retries": 0}, AGREED | {"imagined": "shape"}),
        (["2", "1", imagined()], {"retries": 0}, {"first": 2, "second": 1, "outcome": "labelled", "imagined": "start"}),
    ],
)  # fmt: skip
def test_a_dialogue_ends_where_it_has_to(replies: list[Any], settings: dict[str, Any], says: dict[str, Any]) -> None:
    ask = Ask(*replies)
    assert talk(SEGMENTS, ask, Llm(**settings)) == {"second": None, "retries": 0} | says and ask.done


def test_a_first_call_without_an_answer_leaves_nothing() -> None:
    assert talk(SEGMENTS, Ask(TIMEOUT)) is None


def test_a_malformed_trajectory_is_mended_after_its_fault_is_named() -> None:
    ask = Ask("1", "2", imagined(tcp=[[0, 0, 0]] * 4), imagined())
    verdict = talk(SEGMENTS, ask)
    assert verdict is not None and (verdict["imagined"], verdict["retries"]) == ("kept", 1)
    assert "'tcp' does not start where it was given" in ask.last_text(3) and len(ask.calls[3].messages) == 5


def test_an_unreadable_verdict_is_asked_for_again_in_the_same_conversation_on_which_the_imagined_one_builds() -> None:
    ask = Ask("Hard to say.", "1", "2", imagined())
    verdict = talk(SEGMENTS, ask)
    assert verdict is not None and (verdict["imagined"], verdict["retries"]) == ("kept", 1)
    assert "I cannot read a verdict in this reply: it holds no 0, 1 or 2" in ask.last_text(1)
    assert [message.role for message in ask.calls[3].messages] == ["user", "assistant", "user", "assistant", "user"]


def test_of_the_second_segment_preferred_the_imagined_one_begins_there() -> None:
    verdict = talk(SEGMENTS, Ask("2", "1", imagined(SEGMENTS[1])), Llm(decimals=1, retries=0))
    assert verdict is not None and verdict["imagined"] == "start", "told with one decimal it starts there with one"
    verdict = talk(SEGMENTS, Ask("2", "1", imagined(SEGMENTS[1])))
    assert verdict is not None and np.array_equal(np.array(verdict["states"], np.float32)[0], SEGMENTS[1, 0])


@pytest.mark.parametrize(
    ("settings", "calls"),
    [({}, 6), ({"retries": 0}, 3), ({"double_check": False, "augment": "none"}, 2), ({"augment": "none"}, 4)],
)
def test_no_dialogue_makes_more_calls_than_it_says(settings: dict[str, Any], calls: int) -> None:
    dialogue = PairDialogue(Llm(**settings), PUSH, "push")
    assert dialogue.calls == calls
    retries = Llm(**settings).retries
    ask = Ask(*["?"] * retries, "1", *["?"] * retries, "2", *["?"] * 9)
    talk(SEGMENTS, ask, Llm(**settings))
    assert len(ask.calls) == calls
