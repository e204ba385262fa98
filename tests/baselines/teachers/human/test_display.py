"""What a person sees of a question: numbers worked by hand, pictures of the right moments, nothing that steers."""

import json
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pytest

from guidebench.baselines.teachers.human import files as questions
from guidebench.baselines.teachers.human.display import Pair, Pictures
from guidebench.harness.identity.cells import write_cell
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from tests.refusals import check_refused

MOVING = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
STILL = [[3.0, 4.0]] * 4


def question(tmp_path: Path, segments: Any, **others: Any) -> questions.PendingQuestion:
    content = {"instruction": "touch it", "meanings": {"tcp": "the hand"}, "segments": segments, **others}
    return questions.pose(tmp_path, 0, 7, json.dumps(content), None)


def test_start_middle_and_end_of_what_moves_and_how_far_things_are_apart(tmp_path: Path) -> None:
    segments = [{"tcp": MOVING, "target": [3.0, 4.0]}, {"tcp": STILL, "target": [0.0, None]}]
    assert Pair(question(tmp_path, segments)).lines() == [
        "                           segment 1           segment 2",
        "tcp            start         0.0000    0.0000    3.0000    4.0000",
        "               middle        2.0000    0.0000    3.0000    4.0000",
        "               end           3.0000    0.0000    3.0000    4.0000",
        "target         throughout    3.0000    4.0000    0.0000         ?",
        "tcp to target  start         5.0000                   ?",
        "               middle        4.1231                   ?",
        "               end           4.0000                   ?",
    ]


def test_a_segment_of_one_step_or_two_and_things_in_different_spaces(tmp_path: Path) -> None:
    one = {"tcp": [[1.0, 2.0]], "angle": [[0.5]]}
    assert [line.split() for line in Pair(question(tmp_path, [one, one])).lines()[1:]] == [
        ["tcp", "throughout", "1.0000", "2.0000", "1.0000", "2.0000"], ["angle", "throughout", "0.5000", "0.5000"],
    ]  # fmt: skip
    two = {"tcp": MOVING[:2]}
    assert [line.split()[-1] for line in Pair(question(tmp_path, [two, two])).lines()[1:]] == ["0.0000", "0.0000"]


@pytest.mark.parametrize(
    "segments",
    [
        5,
        [],
        [{"tcp": MOVING}],
        [{"tcp": MOVING}, {"obj": MOVING}],
        [{}, {}],
        [{"tcp": []}, {"tcp": []}],
        [{"tcp": [[MOVING]]}, {"tcp": [[MOVING]]}],
        [{"tcp": "far"}, {"tcp": "far"}],
        [{"tcp": [[1.0], [1.0, 2.0]]}, {"tcp": MOVING}],
        [{"tcp": {"x": 1}}, {"tcp": MOVING}],
        [["tcp"], ["tcp"]],
    ],
)
def test_a_content_that_no_teacher_asks_is_refused(tmp_path: Path, segments: Any) -> None:
    check_refused(r"questions/0\.json asks nothing that can be shown", Pair, question(tmp_path, segments))
    check_refused("asks nothing that can be shown", Pair, question(tmp_path, segments)._replace(content=segments))


def test_what_would_steer_a_terminal_is_shown_as_an_escape(tmp_path: Path) -> None:
    segment = {"tcp\x1b[31m": MOVING}
    assert "\x1b" not in "".join(Pair(question(tmp_path, [segment, segment])).lines())


def drawn(tmp_path: Path, snapshots: np.ndarray) -> questions.PendingQuestion:
    """A question of a run of MiniGrid DoorKey 5x5."""
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "method=uer"]).cells
    write_cell(StudyDirectory(tmp_path), cell)
    return questions.pose(tmp_path / cell.directory / "seed-0", 3, 7, "{}", snapshots)


def moments(count: int) -> np.ndarray:
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    task = MiniGridDoorKey().make("5x5")
    task.reset(0)
    found = []
    for number in range(count):
        task.step(number % 2)
        found.append(task.snapshot())
    return np.stack(found)


def test_the_first_segment_is_above_and_the_second_below_from_its_start_to_its_end(tmp_path: Path) -> None:
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    snapshots = moments(20)
    path = Pictures()(drawn(tmp_path, snapshots))
    assert path is not None and path.name == "3.png" and path.parent.name == questions.QUESTIONS
    picture = imageio.imread(path)
    frames = MiniGridDoorKey.drawing().spawn("5x5")(snapshots[[0, 9, 10, 19]])
    height, width = frames.shape[1:3]
    assert picture.shape == (2 * height + 8, 6 * width + 5 * 8, 3)
    corners = picture[:height, :width], picture[:height, -width:], picture[-height:, :width], picture[-height:, -width:]
    for corner, frame in zip(corners, frames, strict=True):
        np.testing.assert_array_equal(corner, frame)
    assert (picture[height : height + 8] == 255).all()


def test_snapshots_of_no_pair_or_of_another_task_are_a_fault_that_is_named(tmp_path: Path) -> None:
    pictures = Pictures()
    check_refused("3 snapshots are not those of two segments", pictures, drawn(tmp_path, moments(3)))
    check_refused(r"3\.json cannot be drawn|expected", pictures, drawn(tmp_path, moments(4)[:, :-1]))
    assert pictures(drawn(tmp_path, moments(4))._replace(drawn="")) is None
