"""Runs that learn from a dataset first: their phases and batches, and that they resume to the same bytes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.agents.offline_online import OfflineOnline, OfflineOnlineAgent, joined, part
from guidebench.harness.commands import cli
from guidebench.harness.interfaces import Update
from guidebench.harness.plan import matrix
from tests import skeletons
from tests.baselines.learners.continuous import batch
from tests.refusals import check_refused

pytest.importorskip("gymnasium_robotics")
SKELETONS = Path(skeletons.__file__).parent
MAZE = ("suite=point_maze", "task=umaze", "suite.steps=40", "offline.episodes=4", "offline.noise=0.6")
SMALL = ("learner.hidden=[8]", "learner.batch_size=8", "training.capacity=400")
METHODS = {"bc": (), "cal_ql": ("learner.learning_starts=8", "learner.cql_actions=3")}
"""Method -> its settings in these tests."""


def phases(share: float, steps: int) -> list[tuple[str, int, str, int | None]]:
    """The run phases of a run that takes this share of its steps offline."""
    config = OfflineOnline(offline_share=share)
    agent: Any = SimpleNamespace(config=config, _steps=steps)
    return [tuple(phase) for phase in OfflineOnlineAgent.phases(agent)]


def test_the_offline_phase_is_its_share_of_the_run_and_at_least_a_step() -> None:
    assert phases(0.25, 200) == [("offline", 50, "offline", 1), ("online", 150, "environment", None)]
    assert phases(0.0, 200)[0][1] == 1 and phases(1.0, 200) == [("offline", 200, "offline", 1)]


def test_batches_are_joined_in_order_and_their_errors_parted_again() -> None:
    first, second = batch(0, 3), batch(1, 2)
    columns = [{"return": joined.reward} for joined in (first, second)]
    both = joined([first._replace(columns=columns[0]), second._replace(columns=columns[1])])
    assert np.array_equal(both.action, np.concatenate([first.action, second.action], 1))
    assert np.array_equal(both.columns["return"], both.reward) and both.number is None and both.success is None
    assert both.weight is not None and both.weight.shape == (1, 5)
    update = Update(np.arange(5.0)[None], {}, -np.arange(5.0)[None])
    second_part = part(update, slice(3, 5))
    assert (
        second_part.td_error.tolist() == [[3, 4]]
        and second_part.reducible is not None
        and second_part.reducible.tolist() == [[-3, -4]]
    )


def test_a_dataset_without_a_success_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    words = [
        "run", "suite=point_maze", "task=umaze", "method=bc", "profile=smoke", "suite.steps=2", "offline.episodes=2",
        "offline.noise=1", "suite.success=last", f"output={tmp_path / 'study'}",
    ]  # fmt: skip
    assert cli.main(words) != 0
    output = capsys.readouterr()
    assert "none of the 2 episodes of the dataset 'offline' has a success on 'umaze'" in output.err + output.out
    assert not list((tmp_path / "study").glob("*/*/*/seed-*/policy.safetensors"))


def test_a_replay_whose_clips_are_judged_and_discrete_actions_are_refused() -> None:
    check_refused(
        "its replay has clips judged, and a dataset has no frames",
        matrix.plan,
        ["method=bc", *MAZE, "replay=vlm_rb", "judge=oracle"],
    )
    check_refused("it needs continuous actions", matrix.plan, ["method=bc", "suite=minigrid_doorkey", "task=5x5"])


def test_where_rewards_are_negative_returns_go_on_after_a_time_limit() -> None:
    for words, tail in ((MAZE, "nothing"), (("suite=ogbench_scene", "task=drawer"), "last_reward")):
        (cell,) = matrix.plan(["method=cal_ql", *words]).cells
        assert cell.section("learner").tail == tail
    assert cell.section("offline").noise == 0, "its solver plans whole episodes"


def test_settings_out_of_range_are_refused() -> None:
    for words in ("agent.offline_share=1.5", "agent.mixing=-0.1", "agent.offline_updates=0"):
        check_refused(words.split("=")[0], matrix.plan, ["method=bc", *MAZE, words])
    assert OfflineOnline().needs["offline"] == "dataset"
