"""Questions in a run's logs, drawn as the models saw them; the logs may have been edited."""

import json
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.logs import Column, Log, count, describes_episodes, packed, shows_questions
from guidebench.harness.models.calls import ChatCall, Message
from guidebench.harness.playback.log_clips import RunLog, question_clips
from guidebench.harness.records.clips import FORMS, Clip, plain
from tests.harness.playback.test_log_clips import snapshots, write
from tests.refusals import check_refused

QUESTION_LOG = Log("a question", {"step": count("s"), "episode": count("e"), "role": Column(str, "r"),
                           "asked": Column(str, "a"), "snapshot": Column(str, "s")})  # fmt: skip
ANSWER_LOG = Log("an answer", {"step": count("s"), "episode": count("e", optional=True), "plan": Column(str, "p"),
                         "failed": Column(bool, "f"), "n": count("n")})  # fmt: skip
LOGS = {"questions": QUESTION_LOG, "plans": ANSWER_LOG}


class Asker:
    """A part that shows a chat a frame and its mirror image and asks the question's text."""

    def dialogue(self, suite: Any, task: str, role: str) -> Any:
        async def converse(content: Any, frames: Any, ask: Any) -> Any:
            mirrored = np.ascontiguousarray(frames[0][:, ::-1])
            message = Message("user", (f"{role}: {content['say']}", frames[0], mirrored))
            assert (await ask(ChatCall((message,)))).failure, "no model answers"

        return converse


def rows(episode: int) -> dict[str, Any]:
    return {"step": 10 * episode, "episode": episode, "role": "planner", "asked": json.dumps({"say": f"go {episode}"}),
            "snapshot": packed(snapshots(1)[0].tobytes())}  # fmt: skip


def draw_questions(run: Path, asker: Any = None) -> list[Clip]:
    suite = registry.get("suite", "minigrid_doorkey")()
    askers = {"planner": asker or Asker()}
    return question_clips(RunLog(run, "questions", LOGS, suite, suite.drawing(), "5x5", askers))


def test_a_log_shows_questions_by_its_columns() -> None:
    assert [shows_questions(log) for log in LOGS.values()] == [True, False]
    assert [describes_episodes(log) for log in LOGS.values()] == [False, True]


def test_the_first_call_of_the_dialogue_is_shown_with_its_images_and_what_became_of_it(tmp_path: Path) -> None:
    write(tmp_path, "questions", [rows(3), rows(1)])
    answer = {"step": 31, "episode": 3, "plan": "left", "failed": False, "n": 2}
    write(tmp_path, "plans", [answer, {**answer, "plan": "right"}, {"step": 5, "plan": "x", "failed": True, "n": 0}])
    first, second = draw_questions(tmp_path)
    assert (first.episode, first.captions) == (1, ())
    about = plain(second, FORMS["questions"])
    assert about["step"] == 30 and about["told"] == [
        {"name": "plan", "text": "right"}, {"name": "failed", "text": "no"},
    ]  # fmt: skip
    parts = [{"text": "planner: go 3"}, *({"file": f"questions-planner-00003-{number}.png"} for number in (0, 1))]
    assert about["messages"] == [{"role": "user", "parts": parts}]
    suite = registry.get("suite", "minigrid_doorkey")()
    (frame,) = suite.drawing().spawn("5x5")(snapshots(1)[0][None])
    images = [np.asarray(imageio.imread(piece.content)) for piece in second.messages[0].parts[1:]]
    np.testing.assert_array_equal(images[0], frame)
    np.testing.assert_array_equal(images[1], frame[:, ::-1])
    np.testing.assert_array_equal(imageio.imread(second.content), frame)


def test_of_many_questions_some_are_drawn_with_the_first_and_the_last(tmp_path: Path) -> None:
    write(tmp_path, "questions", [rows(number) for number in range(20)])
    episodes = [clip.episode for clip in draw_questions(tmp_path)]
    assert len(episodes) == 8 and episodes[0] == 0 and episodes[-1] == 19


def test_a_run_without_questions_shows_none(tmp_path: Path) -> None:
    assert draw_questions(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"role": "critic"}, "nothing asks a model in the role 'critic'"),
        ({"asked": "no JSON"}, "its question cannot be put again (Expecting value"),
        ({"asked": "{}"}, "its question cannot be put again ('say')"),
        ({"snapshot": packed(b"abc")}, "its snapshot has 3 bytes; a snapshot of this task has"),
        ({"snapshot": "!"}, "its snapshot cannot be unpacked"),
        ({"episode": -1}, "column 'episode': '-1'"),
    ],
)
def test_a_log_that_does_not_fit_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    write(tmp_path, "questions", [rows(0) | changes])
    with pytest.raises(UserError) as raised:
        draw_questions(tmp_path)
    assert says in str(raised.value) and "the log 'questions'" in str(raised.value)


def test_a_question_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "questions", [rows(2), rows(2)])
    check_refused("episode 2: the question in the role 'planner' is there twice", draw_questions, tmp_path)


def test_a_part_that_makes_no_call_is_refused(tmp_path: Path) -> None:
    class Silent:
        def dialogue(self, suite: Any, task: str, role: str) -> Any:
            async def nothing(content: Any, frames: Any, ask: Any) -> None:
                return None

            return nothing

    write(tmp_path, "questions", [rows(0)])
    check_refused("makes no call", draw_questions, tmp_path, Silent())
