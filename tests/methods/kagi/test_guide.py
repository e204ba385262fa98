"""The guide on stores of two seeds: what is asked when, which transitions are rewarded by what, and returns."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Actions, Build, Observations, Question, Transition
from guidebench.harness.models.calls import Answer
from guidebench.harness.playback import log_clips
from guidebench.harness.streams import Streams
from guidebench.methods.kagi.guide import WaypointGuide, WaypointSettings
from guidebench.methods.kagi.rewards import Shape
from guidebench.methods.kagi.sight import Sight
from guidebench.methods.robofume.guide import Source

AT, ON, OFF = 0.95257, 0.5, 0.11920
"""The reward at a waypoint, 15 and 25 pixels from it."""
WAY = [[0.0, 0.5, 0.5], [0.5, 0.5, 0.5]]


class Line:
    """A suite whose observation is the gripper's column in a view of 100 pixels; row and height are 50."""

    def cameras_of(self, task: str) -> tuple[str, ...]:
        return ("top", "side")

    def project(self, task: str, camera: str, points: Any, size: int) -> Any:
        return (points[:, :2] if camera == "top" else points[:, 1:]) * size / 100

    def tip(self, task: str, observations: Any) -> Any:
        return np.concatenate([observations, np.full((len(observations), 2), 50.0)], axis=1)

    def located(self, task: str, snapshot: Any) -> Any:
        return np.array([(10.0, 20, 30), (40, 50, 60)])


class World:
    """The stores of a dataset and of a run of two seeds; their returns are sums of the shaped rewards."""

    def __init__(
        self,
        path: Path,
        both: bool = True,
        source: Source = "task",
        oracles: tuple[str, ...] = (),
        start: bool = True,
        width: int = 3,
        follows: bool = False,
        spacing: int = 1,
        column: float = 20.0,
        **shape: Any,
    ):
        sight = Sight(Line(), "line", 100, False)
        reward_shape = Shape(0.1, 15.0, **shape)
        ways = WaypointSettings(reward_shape, 100, width, True, both, frozenset(oracles), start, follows, spacing)
        self.guide = WaypointGuide(lambda row, shot: f"go to {shot[0]}", [sight, sight], ways, 1, 0.5, source)
        build = Build(
            seeds=(0, 1), observations=Observations((1,), "float32"), actions=Actions(count=2), horizon=100,
            events=("x",), steps=100, device="cpu", streams=[Streams(0), Streams(1)],
            directories=(path / "0", path / "1"), capacity=12, slots=16,
        )  # fmt: skip
        self.stores = {name: Storage(build, self.guide.columns, folder=f"r{name}") for name in ("", "offline")}
        self.returns: list[tuple[str, int, list[int], list[float]]] = []
        self.guide.connect(self.stores, self.rewarded)
        self.questions: list[Question] = []
        self.notes: list[dict[str, Any]] = []
        self.step = 1
        self.shot = np.array([7, 0], np.uint8)
        self.column = column
        """Where episodes of the run begin."""

    @property
    def ctx(self) -> Any:
        return SimpleNamespace(
            ask=self.questions.append, snapshot=lambda row: self.shot, step=self.step,
            observation=np.full((2, 1), self.column, np.float32),
            note=lambda log, row, values: self.notes.append({"log": log, "row": row, **values}),
        )  # fmt: skip

    def notes_of(self, log: str = "waypoints") -> list[dict[str, Any]]:
        return [note for note in self.notes if note["log"] == log]

    def rewarded(self, name: str, row: int, slots: Any) -> None:
        self.returns.append((name, row, slots.tolist(), self.rewards(name, slots, row)))

    def rewards(self, name: str, slots: Any, row: int = 0) -> list[float]:
        index = np.stack([np.asarray(slots)] * 2)
        return [round(float(reward), 5) for reward in self.guide.shape(self.stores[name].gather(index)).reward[row]]

    def transition(self, column: float, ended: bool = False, success: bool = False, opening: int | None = None) -> Any:
        observation, none = np.full((2, 1), column, np.float32), np.zeros(2, bool)
        opened = None if opening is None else np.full((2, 2), opening, np.uint8)
        return Transition(
            observation, np.zeros(2, np.int16), np.full(2, 9, np.float32), none, np.full(2, ended), observation,
            np.zeros((2, 1), bool), np.full((2, 2), 7, np.uint8), np.full(2, success), opening=opened,
        )  # fmt: skip

    def give(self, columns: list[float], opening: int | None, success: bool = False) -> None:
        for number, column in enumerate(columns):
            last = number == len(columns) - 1
            transition = self.transition(column, last, success and last, opening if number == 0 else None)
            self.guide.observed_dataset(self.stores["offline"].append(transition), transition, "offline", self.ctx)

    def begin(self) -> World:
        self.guide.begun(np.array([0, 1]), self.stores[""], self.ctx)
        return self

    def roles(self, row: int = 0) -> list[str]:
        return [question.to for question in self.questions if question.row == row]

    def metric(self, name: str) -> list[float]:
        values: list[float] = self.guide.metrics()[f"guide/{name}"].tolist()
        return values

    def play(self, column: float, ended: bool = False, success: bool = False) -> None:
        transition = self.transition(column, ended, success)
        self.guide.observed(self.stores[""].append(transition), transition, self.stores[""], self.ctx)

    def answer(self, question: Question, value: Any) -> None:
        self.guide.answered([(question, Answer(value))], self.stores[""], self.ctx)

    def segment(self, question: Question) -> Question:
        """Answer the segmenter's question, and return the question about waypoints that follows."""
        self.answer(question, {"grasp": [[0.1, 0.2]], "target": [[0.3, 0.4]], "objects": 2})
        return self.questions[-1]

    def lead(self, question: Question, way: Any = WAY, grasp: int = 2) -> World:
        """Answer the segmenter's question and the question about waypoints that follows."""
        self.answer(question, {"grasp": [[0.3, 1.2], [0.1, 0.2]], "target": [[0.3, 0.4]], "objects": 2})
        answer = {"grasp": grasp, "waypoints": way, "blocks": [["a1", 0]], "retries": 1}
        self.answer(self.questions.pop(), None if way is None else answer)
        return self

    def restore(self, path: Path, other: World, **settings: Any) -> None:
        """Continue with the guide of a new process, from the state of another world's guide."""
        guide = World(path, **settings).guide
        for row in (0, 1):
            guide.load_state(row, json_like(other.guide.state(row)))
        guide.connect(self.stores, self.rewarded)
        self.guide = guide


def led(path: Path, way: Any = WAY, **settings: Any) -> World:
    """Return a world in which an episode has begun and the first seed has its waypoints."""
    world = World(path, **settings).begin()
    return world.lead(world.questions[0], way)


def test_a_segmenter_is_asked_first_and_then_the_model_about_its_points(tmp_path: Path) -> None:
    world = World(tmp_path).begin()
    assert [(question.to, question.row, json.loads(question.content)) for question in world.questions] == [
        ("segmenter", row, {"instruction": "go to 7"}) for row in (0, 1)
    ]
    follow_up = world.segment(world.questions[0])
    assert (follow_up.to, follow_up.measures) == ("waypoints", None)
    content = json.loads(follow_up.content)
    assert content.pop("start") == pytest.approx([0.2, 0.5, 0.5])
    assert content == {"instruction": "go to 7", "grasp": [[0.1, 0.2]], "target": [[0.3, 0.4]]}
    assert follow_up.snapshots is not None and follow_up.snapshots.tolist() == [[7, 0]]


@pytest.mark.parametrize(
    ("column", "settings", "place"),
    [(40, {}, [0.4, 0.5, 0.5]), (40, {"width": 2}, [0.4, 0.5]), (np.nan, {}, None), (40, {"start": False}, None)],
)
def test_the_model_is_told_where_the_gripper_is(column: float, settings: Any, place: Any, tmp_path: Path) -> None:
    """The start comes from the first state's observation; it is left out where that shows no place, or by a setting."""
    world = World(tmp_path, column=column, **settings).begin()
    start = json.loads(world.segment(world.questions[0]).content).get("start")
    assert start == (place if place is None else pytest.approx(place))


def test_of_the_datas_episodes_the_first_observation_tells_where_the_gripper_was(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give([25, 50], opening=3)
    world.give([35, 50], opening=4)
    world.begin()
    questions = [question for question in world.questions if question.row == 1]
    starts = [json.loads(world.segment(question).content)["start"][0] for question in questions]
    assert starts == pytest.approx([0.25, 0.35, 0.2])


@pytest.mark.parametrize("oracle", ["waypoints", "segmenter"])
def test_questions_tell_places_as_fractions_to_the_role_that_an_oracle_fills(oracle: str, tmp_path: Path) -> None:
    world = World(tmp_path, oracles=(oracle,)).begin()
    world.segment(world.questions[0])
    measures = {question.to: question.measures for question in world.questions}
    assert {*measures} == {"segmenter", "waypoints"} and [role for role in measures if measures[role] is not None] == [
        oracle
    ]
    assert measures[oracle].dtype == np.float32
    assert measures[oracle].tolist() == [pytest.approx([0.1, 0.2, 0.3]), pytest.approx([0.4, 0.5, 0.6])]


def test_rewards_begin_when_the_waypoints_are_there_and_cover_what_came_before(tmp_path: Path) -> None:
    world = World(tmp_path).begin()
    world.play(25)
    world.play(35)
    assert world.rewards("", [0, 1]) == [0, 0]
    world.lead(world.questions[0])
    world.play(50)
    world.play(65, ended=True, success=True)
    assert world.rewards("", [0, 1, 2, 3]) == [OFF, ON, AT, 1]  # 25 and 15 pixels off, there, and success
    assert world.metric("dense_share") == [0.75, 0], "only the first seed's waypoints are there"
    assert world.rewards("", [0, 1, 2, 3], row=1) == [0, 0, 0, 1]
    assert world.returns == [("", row, [0, 1, 2, 3], world.rewards("", [0, 1, 2, 3], row)) for row in (0, 1)]
    world.lead(world.questions[1])  # the second seed's episode has ended
    assert world.returns[-1] == ("", 1, [0, 1, 2, 3], [OFF, ON, AT, 1])
    assert [(note["row"], note["first"], note["failed"], note["retries"]) for note in world.notes_of()] == [
        (0, 0, False, 1), (1, 0, False, 1),
    ]  # fmt: skip
    world.begin().play(50)
    assert world.rewards("", [4]) == [0], "every episode needs waypoints of its own"


def test_the_dense_formulation_does_without_successes(tmp_path: Path) -> None:
    world = led(tmp_path, both=False, source="none")
    world.play(50, ended=True, success=True)
    assert world.rewards("", [0]) == [AT] and world.rewards("", [0], row=1) == [0]
    assert not world.guide.wants_snapshots and world.roles() == ["segmenter"], "it follows no object"
    assert not {"films", "untracked"} & {*world.guide.state(0)} and "guide/untracked" not in world.guide.metrics()


@pytest.mark.parametrize("way", [None, [[0.5, 0.5, 0.5]], [[0.5, 0.5, 0.5], [1.5, 0.5, 0.5]]])
def test_an_episode_without_usable_waypoints_has_the_sparse_reward_and_is_counted(way: Any, tmp_path: Path) -> None:
    world = led(tmp_path, way)
    world.answer(world.questions[1], None)  # the segmenter saw nothing
    world.play(50)
    world.play(50, ended=True, success=True)
    assert world.rewards("", [0, 1]) == world.rewards("", [0, 1], row=1) == [0, 1]
    assert world.metric("failed") == [1, 1]
    assert [(note["row"], note["role"]) for note in world.notes_of("questions")] == [(0, "waypoints"), (1, "segmenter")]
    assert json.loads(world.notes_of("questions")[1]["asked"]) == {"instruction": "go to 7"}
    assert [note["failed"] for note in world.notes_of()] == [True, True] and "path" not in world.notes_of()[0]


def test_the_datas_episodes_are_relabelled_once_the_run_collects(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.give([25, 50], opening=3)
    world.give([50, 50, 35], opening=4, success=True)
    world.give([50], opening=None)
    assert not world.questions and world.rewards("offline", range(6)) == [0, 0, 0, 0, 1, 0]
    assert [(name, slots) for name, row, slots, _ in world.returns if row == 0] == [
        ("offline", [0, 1]), ("offline", [2, 3, 4]), ("offline", [5]),
    ]  # fmt: skip
    world.returns.clear()
    world.begin()
    first_seed = [question for question in world.questions if question.row == 0]
    assert [json.loads(question.content)["instruction"] for question in first_seed] == ["go to 3", "go to 4", "go to 7"]
    for question in first_seed[:2]:
        world.lead(question)
    assert world.rewards("offline", range(6)) == [OFF, AT, AT, AT, 1, 0]
    assert world.returns == [("offline", 0, [0, 1], [OFF, AT]), ("offline", 0, [2, 3, 4], [AT, AT, 1])]
    assert world.rewards("offline", range(6), row=1) == [0, 0, 0, 0, 1, 0]
    assert world.metric("unknown") == [1, 1]
    world.play(50, ended=True)
    count = len(world.questions)
    world.begin()
    assert len(world.questions) == count + 2, "the data are asked about once"


def test_onward_rewards_follow_the_farthest_waypoint_reached(tmp_path: Path) -> None:
    way = [[0.0, 0.5, 0.5], [0.5, 0.5, 0.5], [0.9, 0.5, 0.5]]
    rewards = []
    for onward in (False, True):
        world = led(tmp_path / str(onward), way, onward=onward)
        for column in (50, 10):
            world.play(column)
        rewards.append(world.rewards("", [0, 1]))
    # From column 10 the next waypoint is 40 away, or onward 80: .5 (1 - tanh(2.5)), .5 (1 - tanh(6.5)).
    assert rewards[0] == pytest.approx([0.00669, 0.00669], abs=1e-5)
    assert rewards[1] == pytest.approx([0.00669, 0.0], abs=1e-5)


def test_late_waypoints_reward_only_what_is_still_stored(tmp_path: Path) -> None:
    world = World(tmp_path).begin()
    for number in range(15):  # 12 are live
        world.play(50, ended=number == 14)
    world.lead(world.questions[0])
    assert world.returns[-1] == ("", 0, [*range(3, 15)], [AT] * 12)


def followed(path: Path, **settings: Any) -> tuple[World, Question]:
    """Return a world whose first seed played an episode at columns 25 and 35, and the tracker's question about it."""
    world = led(path, follows=True, **settings)
    world.play(25)
    assert [question.to for question in world.questions] == ["segmenter", "segmenter"]
    world.play(35, ended=True)
    return world, world.questions[-1]


def test_the_tracker_is_asked_about_an_ended_episode_once_its_waypoints_are_known(tmp_path: Path) -> None:
    world, tracking = followed(tmp_path)
    assert world.guide.wants_snapshots and (tracking.to, tracking.row, tracking.key.tolist()) == ("tracker", 0, [0])
    assert tracking.snapshots is not None and tracking.snapshots.tolist() == [[7, 0], [7, 7], [7, 7]]
    # The second candidate is at (.1, .2), the waypoint nearest to it at the height .5; the side view's column is v.
    assert json.loads(tracking.content) == {
        "instruction": "go to 7", "point": [0.1, 0.2], "side": [pytest.approx(0.2), 0.5],
    }  # fmt: skip
    world.lead(world.questions[1])
    assert [(question.to, question.row) for question in world.questions[2:]] == [("tracker", 0), ("tracker", 1)]


def test_the_objects_reward_joins_the_grippers(tmp_path: Path) -> None:
    world, tracking = followed(tmp_path)
    assert world.rewards("", [0, 1]) == [OFF, ON]
    world.returns.clear()
    world.answer(tracking, [[0.1, 0.5, 0.5], [0.35, 0.5, 0.5], None])
    mean = round((OFF + ON) / 2, 5)
    assert world.rewards("", [0, 1]) == [mean, ON], "25 and 15 pixels off; then the object is lost"
    assert world.returns == [("", 0, [0, 1], [mean, ON])]
    assert world.notes[-1] == {"log": "tracked", "row": 0, "first": 0, "failed": False, "states": 2, "seen": 1}
    assert world.metric("untracked") == [0, 0]
    assert world.rewards("", [0, 1], row=1) == [0, 0], "it has no waypoints yet"


@pytest.mark.parametrize(("positions", "failed"), [(None, True), ([[0.1, 0.5, 0.5], None, None], False)])
def test_without_the_object_the_grippers_reward_stays_and_the_episode_is_counted(
    positions: Any, failed: bool, tmp_path: Path
) -> None:
    world, tracking = followed(tmp_path)
    world.returns.clear()
    world.answer(tracking, positions)
    assert world.rewards("", [0, 1]) == [OFF, ON] and not world.returns and world.metric("untracked") == [1, 0]
    assert world.notes[-1] == {"log": "tracked", "row": 0, "first": 0, "failed": failed, "states": 2, "seen": 0}


def test_an_object_that_the_side_view_does_not_show_is_not_asked_about(tmp_path: Path) -> None:
    """The first candidate is at v = 1.2, which is the side view's column here."""
    world = World(tmp_path, follows=True).begin()
    world.lead(world.questions[0], grasp=1)
    world.play(35, ended=True)
    assert [question.to for question in world.questions] == ["segmenter", "segmenter"] and world.rewards("", [0]) == [
        ON
    ]
    assert world.metric("untracked") == [1, 0] and world.notes_of("tracked")[-1]["failed"]


def test_episodes_without_waypoints_and_those_of_the_data_are_not_followed(tmp_path: Path) -> None:
    world = World(tmp_path, follows=True)
    world.give([25, 50], opening=3)
    world.begin()
    of_data, of_run = (question for question in world.questions if question.row == 0)
    world.lead(of_data)
    world.play(50)
    world.lead(of_run, None)
    world.play(50, ended=True)
    assert {question.to for question in world.questions} == {"segmenter"}
    assert world.rewards("offline", [0, 1]) == [OFF, AT]
    assert world.metric("untracked") == [0, 0] and not world.guide.state(0)["films"]


def test_a_late_object_rewards_what_is_still_stored_by_its_own_frames(tmp_path: Path) -> None:
    world = led(tmp_path, follows=True)
    for number in range(15):  # 12 are live: transitions 3 to 14
        world.play(50, ended=number == 14)
    at_waypoint, away = [0.5, 0.5, 0.5], [0.35, 0.5, 0.5]
    world.answer(world.questions[-1], [away] * 11 + [at_waypoint] * 5)  # the first frame is that of the first state
    mean = round((AT + ON) / 2, 5)
    assert world.returns[-1] == ("", 0, [*range(3, 15)], [mean] * 7 + [AT] * 5)


def test_an_object_follows_the_farthest_waypoint_that_it_has_reached(tmp_path: Path) -> None:
    way = [[0.0, 0.5, 0.5], [0.5, 0.5, 0.5], [0.9, 0.5, 0.5]]
    world = led(tmp_path, way, follows=True, onward=True)
    world.play(90)
    world.play(90, ended=True)
    world.answer(world.questions[-1], [None, [0.5, 0.5, 0.5], [0.1, 0.5, 0.5]])
    # The gripper is at the end; the object is 40 and then, going on to the same waypoint, 80 pixels from it.
    assert world.rewards("", [0, 1]) == pytest.approx([(AT + 0.00669) / 2, AT / 2], abs=1e-5)


def json_like(state: Any) -> Any:
    """Return a copy of a state as a checkpoint stores it: arrays and plain values, nothing shared with the guide."""
    if isinstance(state, dict):
        return {str(key): json_like(value) for key, value in state.items()}
    if isinstance(state, list):
        return [json_like(element) for element in state]
    return state.copy() if isinstance(state, np.ndarray) else state


def test_of_traced_episodes_the_question_and_the_grippers_path_are_logged(tmp_path: Path) -> None:
    world = World(tmp_path, spacing=10)
    for world.step in (1, 5, 11):
        world.begin()
        for question in world.questions[-2:]:
            world.lead(question)
        world.play(35)
        world.play(np.nan)
        world.play(50.04, ended=True)
    first_seed = [note for note in world.notes_of("questions") if note["row"] == 0]
    assert [(note["episode"], note["first"], note["role"]) for note in first_seed] == [
        (0, 0, "waypoints"),
        (2, 6, "waypoints"),
    ]
    assert json.loads(first_seed[0]["asked"])["instruction"] == "go to 7"
    assert log_clips.unpacked(first_seed[0]["snapshot"], 2, "here").tolist() == [7, 0]
    above, side = np.array(json.loads(first_seed[0]["cameras"]))
    point = np.array([20.0, 30, 40, 1])
    assert (above @ point / (above @ point)[2])[:2] == pytest.approx([0.2, 0.3])
    assert (side @ point / (side @ point)[2])[:2] == pytest.approx([0.3, 0.4])
    assert [(note["first"], json.loads(note["tips"])) for note in world.notes_of("paths") if note["row"] == 0] == [
        (first, [[35.0, 50.0, 50.0], [50.0, 50.0, 50.0]]) for first in (0, 6)
    ]
    assert [note["episode"] for note in world.notes_of() if note["row"] == 0] == [0, None, 2]
