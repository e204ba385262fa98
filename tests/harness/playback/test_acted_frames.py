"""Frames of a run's own evaluation episodes, replayed from the recorded actions, whose file may have been edited."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pyarrow.parquet as pq
import pytest

from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.logs import Column, Log, count, shown_trials, tells_actions
from guidebench.harness.playback import acted_frames
from guidebench.harness.playback.acted_frames import FRAMES, SPREAD, moments
from guidebench.harness.streams import Streams

pytest.importorskip("crafter")
WORDS = (
    "suite=crafter_ood", "task=wood_sword", "suite.observation=text", "suite.actions=find", "suite.impossible=masked",
    "suite.area=16", "suite.test_length=25", "method=model_as_agent", "performer=scripted", "training.steps=40",
    "evaluation.every=20", "evaluation.episodes=2", "seeds=[3]",
)  # fmt: skip
ACTIONS = Log("x", {"trial": count("t"), "first": count("f"), "steps": count("n"), "action": Column(str, "a")})


def row(first: int, steps: int, action: str = "noop", subgoal: str = "") -> dict[str, Any]:
    return {"first": first, "steps": steps, "action": action, "subgoal": subgoal}


def test_a_log_tells_actions_by_its_columns() -> None:
    assert tells_actions(ACTIONS) and not tells_actions(Log("x", {**ACTIONS.columns, "action": count("a")}))
    assert not tells_actions(Log("x", {name: column for name, column in ACTIONS.columns.items() if name != "trial"}))


def test_of_the_last_evaluation_failures_come_first_and_a_success_last() -> None:
    trials = [(10, 0, False), *((20, episode, episode in (1, 3)) for episode in range(7))]
    assert shown_trials(trials) == [(20, 0), (20, 2), (20, 4), (20, 1)]
    assert shown_trials([(20, 1, True), (20, 0, True), (20, 2, False)]) == [(20, 2), (20, 0), (20, 1)]
    assert shown_trials([]) == []


def test_frames_are_those_at_changes_of_sub_goal_and_action() -> None:
    some = [row(0, 2, subgoal="a"), row(2, 3, "left", "a"), row(5, 4, "left", "b")]
    assert moments(some) == [*range(10)], "nine steps, fewer than the number of frames of an episode"
    many = [row(100 * number, 100, subgoal=str(number % 2)) for number in range(SPREAD)]
    assert moments(many) == [100 * number for number in range(SPREAD + 1)]
    assert moments([row(0, 1_100)]) == [*range(0, 1_101, 100)] and SPREAD == 12
    thinned = moments([row(number, 1, subgoal=str(number)) for number in range(1_000)])
    assert len(thinned) == FRAMES and thinned[0] == 0 and thinned[-1] == 1_000
    assert moments([]) == [0]


@pytest.fixture(scope="module")
def study(train_once: Callable[..., Path]) -> Path:
    return train_once(*WORDS, packs=[(3,)])


@pytest.fixture
def run(study: Path, tmp_path: Path) -> Path:
    """Return a copy of the run that a test may change."""
    import shutil

    shutil.copytree(study, tmp_path / "study")
    return next((tmp_path / "study").glob("*/*/*/seed-3"))


def test_frames_are_those_of_the_recorded_episode_by_step(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(run), "--frames", "--episodes", "1", "--json"]) == 0
    captured = capsys.readouterr()
    assert "frames of episodes 0, 1 up to step 40 in" in captured.err and len(json.loads(captured.out)) == 1
    files = sorted((run / "acted").glob("*.json"))
    assert [file.name for file in files] == ["actions-00040-00000.json", "actions-00040-00001.json"]
    suite = registry.get("suite", "crafter_ood")(
        observation="text", actions="find", impossible="masked", area=16, test_length=25
    ).of_run(3).in_evaluation()  # fmt: skip
    for episode, file in enumerate(files):
        about = json.loads(file.read_text())
        rows = [row for row in pq.read_table(run / "actions.parquet").to_pylist()
                if (row["step"], row["trial"]) == (40, episode)]  # fmt: skip
        assert (about["log"], about["step"], about["episode"]) == ("actions", 40, episode)
        actions = [row["action"] for row in rows for _ in range(row["steps"])]
        assert about["played"] == len(actions)
        task, names = suite.make("wood_sword"), suite.action_names("wood_sword")
        task.reset(Streams(3).evaluation_seed(40, episode))
        snapshots = [task.snapshot().copy()]
        for action in actions:
            task.step(names.index(action))
            snapshots.append(task.snapshot().copy())
        draw = suite.drawing().spawn("wood_sword")
        assert len(about["frames"]) >= min(SPREAD, len(actions))
        for frame in about["frames"]:
            expected = draw(snapshots[frame["frame"]][None])[0]
            np.testing.assert_array_equal(imageio.imread(run / "acted" / frame["file"]), expected)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda row: {**row, "action": "find water"}, "played again it ends"),
        (lambda row: {**row, "action": "fly"}, "'fly' is no action of the task"),
        (lambda row: {**row, "first": row["first"] + 1}, "its rows go from step 0 to 1"),
        (lambda row: {**row, "steps": row["steps"] + 100}, "more are logged"),
        (lambda row: {**row, "trial": -1}, "column 'trial'"),
    ],
)  # fmt: skip
def test_a_log_that_was_changed_is_refused(run: Path, change: Callable[[Any], Any], reason: str) -> None:
    rows = pq.read_table(run / "actions.parquet").to_pylist()
    (run / "actions.parquet").unlink()
    (run / "actions.jsonl").write_text("".join(json.dumps(change(row)) + "\n" for row in rows))
    message = acted_frames.write(run)
    assert message.startswith("log actions: no frames drawn (") and reason in message and not (run / "acted").exists()


def test_an_episode_whose_log_is_cut_is_drawn_as_far_as_it_goes(run: Path) -> None:
    rows = [row for row in pq.read_table(run / "actions.parquet").to_pylist() if row["first"] < 10]
    (run / "actions.parquet").unlink()
    (run / "actions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "episodes" in acted_frames.write(run)
    about = json.loads((run / "acted" / "actions-00040-00000.json").read_text())
    episode_rows = [row for row in rows if (row["step"], row["trial"]) == (40, 0)]
    assert about["played"] == episode_rows[-1]["first"] + episode_rows[-1]["steps"] == about["frames"][-1]["frame"]


def test_runs_without_such_a_log_say_nothing(train: Callable[..., Path]) -> None:
    run = next(train("method=uer", "seeds=[0]", packs=[(0,)]).glob("*/*/*/seed-0"))
    assert acted_frames.write(run) == "" and not (run / "acted").exists()
