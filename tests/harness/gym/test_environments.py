"""A user's own training script steps our tasks as Gymnasium environments and is evaluated like our own runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guidebench
from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.gym import environments
from guidebench.harness.loop.evaluation import Evaluator, Memoryless
from guidebench.harness.streams import Streams
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.refusals import check_refused

TASK = "minigrid_doorkey/5x5"


def test_a_difficulty_gives_what_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"task": "5x5", "profile": "quick", "training.steps": 700, "suite.length": 30, "suite.test_length": 9}
    monkeypatch.setattr(MiniGridDoorKey, "difficulties", {"short": words})
    level = guidebench.make("minigrid_doorkey", difficulty="short").cell
    assert (level.names.task, level.names.profile, level.steps, level.section("suite").test_length) == (
        "5x5", "quick", 700, 9
    )  # fmt: skip
    typed = guidebench.make("minigrid_doorkey/6x6", difficulty="short", profile="smoke", length=40)
    assert (typed.cell.names.task, typed.cell.names.profile, typed.task.max_steps) == ("6x6", "smoke", 40)
    check_refused("unknown difficulty of suite 'minigrid_doorkey'", guidebench.make, "minigrid_doorkey", difficulty="x")
    check_refused("expected SUITE/TASK", guidebench.make, "minigrid_doorkey")


def test_frames_are_those_that_judges_see() -> None:
    environment = guidebench.make(TASK)
    environment.reset(seed=0)
    frame = environment.render()
    assert frame.shape == (160, 160, 3) and frame.dtype == np.uint8 and frame.std() > 0


def test_settings_of_a_suite_are_those_of_the_command_line() -> None:
    hidden, observable = (guidebench.make("metaworld/reach", goal=goal) for goal in ("hidden", "observable"))
    hidden.reset(seed=0), observable.reset(seed=0)
    without_goal, with_goal = hidden.step(np.zeros(4))[0], observable.step(np.zeros(4))[0]
    assert not without_goal[-3:].any() and with_goal[-3:].all()


def test_an_episode_that_nobody_seeded_is_drawn_at_random() -> None:
    starts = {guidebench.make(TASK).reset()[0].tobytes() for _ in range(8)}
    assert len(starts) > 1


class Sure:
    """An agent whose action is a function of its observation and that rarely stays at one position."""

    deterministic = False

    def actor(self, places: Any) -> Any:
        return Memoryless(self)  # type: ignore[arg-type]

    def act(self, observations: Any, ctx: Any = None) -> Any:
        return np.array(
            [int(observation.astype(np.int64).sum() * 2654435761 % 7919) % 5 for observation in observations]
        )


def train_foreign_loop(environment: environments.RecordedTraining, episodes: int) -> list[tuple[int, float, bool, int]]:
    """Train with a user's own loop; return (step, return, success, length) of each evaluation episode."""
    episode_rows, agent = [], Sure()
    observation, _ = environment.reset()
    for step in range(1, environment.steps + 1):
        observation, _, terminated, truncated, _ = environment.step(agent.act([observation])[0])
        if terminated or truncated:
            observation, _ = environment.reset()
        if step % environment.every == 0 or step == environment.steps:
            for _ in range(episodes):
                trial_observation, _ = environment.evaluation.reset()
                total, length, over, won = 0.0, 0, False, False
                while not over:
                    trial_observation, reward, terminated, truncated, info = environment.evaluation.step(
                        agent.act([trial_observation])[0]
                    )
                    total, length, over = total + reward, length + 1, terminated or truncated
                    won = info["is_success"]
                episode_rows.append((step, total, won, length))
    return episode_rows


def test_a_foreign_loop_is_evaluated_on_the_layouts_of_our_own_runs_and_stands_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "suite=minigrid_doorkey", "task=5x5", "method=uer", "profile=smoke", "seeds=1"]
    assert cli.main([*command, f"output={tmp_path}", "report=false"]) == 0
    before = results.study(tmp_path)
    environment = guidebench.make(TASK, record=tmp_path, method="mine", seed=0, profile="smoke", settings={"lr": 0.1})
    assert (environment.steps, environment.every, environment.episodes) == (600, 200, 2)
    episode_rows = train_foreign_loop(environment, environment.episodes)
    environment.close()
    environment.close()
    after, rows = results.study(tmp_path), results.load(tmp_path)
    assert (after.name, after.command, len(after.runs)) == (before.name, before.command, 2), "it joins the study"
    mine, ours = (rows[rows["method"] == method] for method in ("mine", "uer"))
    assert mine["step"].tolist() == ours["step"].tolist() and mine["episode"].tolist() == ours["episode"].tolist()
    assert [tuple(row) for row in mine[["step", "return", "success", "length"]].itertuples(index=False)] == episode_rows
    play = Evaluator(lambda row: guidebench.make(TASK, profile="smoke").task, environment.episodes, [Streams(0)])
    replayed = [result for step in (200, 400, 600) for result in play(Sure(), step, [0])]  # type: ignore[arg-type]
    assert [(result.ret, result.success, result.length) for result in replayed] == [row[1:] for row in episode_rows]
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path), "--resamples", "100"]) == 0
    out = capsys.readouterr().out
    assert "mine" in out and "external" in out and "smoke" in out


def test_what_is_closed_early_has_failed_and_can_be_recorded_anew(tmp_path: Path) -> None:
    def record_training() -> environments.RecordedTraining:
        return guidebench.make(TASK, record=tmp_path, method="mine", profile="smoke", steps=20)

    first = record_training()
    first.reset()
    first.step(0)
    first.close()
    (run,) = tmp_path.glob("*/*/*/seed-0")
    run_record = json.loads((run / "run.json").read_text())
    assert (run_record["status"], run_record["error"]) == ("failed", "closed after 1 of 20 training steps")
    second = record_training()
    second.reset()
    for _ in range(20):
        *_, over, cut, _ = second.step(0)
        if over or cut:
            second.reset()
    second.close()
    assert json.loads((run / "run.json").read_text())["error"] == "closed without an evaluation episode"


def test_training_that_goes_on_within_an_evaluation_or_beyond_its_budget_is_an_error(tmp_path: Path) -> None:
    environment = guidebench.make(TASK, record=tmp_path, method="mine", profile="smoke", steps=2)
    environment.reset()
    environment.evaluation.reset()
    environment.step(0)
    with pytest.raises(UserError, match="training went on from step 0 to 1 within an evaluation episode"):
        for _ in range(1000):
            environment.evaluation.step(0)
    environment.step(0), environment.step(0)
    environment.evaluation.reset()
    with pytest.raises(UserError, match="step=3: expected a whole number from 0 to 2"):
        for _ in range(1000):
            environment.evaluation.step(0)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("8x8", {}, "'8x8': expected SUITE/TASK"),
        ("minigrid_dorkey/8x8", {}, "did you mean 'minigrid_doorkey'"),
        ("minigrid_doorkey/9x9", {}, "unknown task"),
        (TASK, {"profile": "fast"}, "unknown profile"),
        ("metaworld/reach", {"gaol": "hidden"}, "did you mean 'goal'"),
        ("metaworld/reach", {"goal": "none"}, "goal=none: expected one of"),
        (TASK, {"seed": 1}, "give record=STUDY with them"),
        (TASK, {"record": "runs"}, "record=… needs method=…"),
        (TASK, {"record": "runs", "method": "a/b"}, "method='a/b'"),
        (TASK, {"record": "runs", "method": "mine", "steps": 0}, "steps=0: expected"),
        (TASK, {"record": "runs", "method": "mine", "seed": -1}, "seed=-1: expected"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    name: str, changes: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refused(says, guidebench.make, name, **changes)
    assert not list(tmp_path.iterdir())
