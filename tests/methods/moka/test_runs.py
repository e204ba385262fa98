"""MOKA from the command line on bin_sorting, with hand-written models that see the drawn views."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ogbench")

from guidebench import results
from guidebench.harness.commands.cli import main

WORDS = (
    "suite=bin_sorting", "method=moka", "segmenter=scripted", "drawing.size=100", "training.steps=1",
    "evaluation.every=1", "seeds=[0]",
)  # fmt: skip


@pytest.fixture
def play(train: Callable[..., Path], opengl: None) -> Callable[[str], Any]:
    """Returns the evaluations of a run and its log `paths`."""

    def run(words: str) -> Any:
        study = train(*WORDS, *words.split(), packs=[(0,)])
        return results.load(study), results.load(study, log="paths")

    return run


def test_the_block_is_brought_where_the_models_say_and_missed_where_it_was_moved(play: Callable[[str], Any]) -> None:
    exact, paths = play("task=forward evaluation.episodes=3 waypoints=scripted")
    assert exact.success.mean() == 1.0
    assert paths.carried_out.all() and (paths.retries == 0).all() and paths.grasp.between(1, 5).all()
    assert all(len(json.loads(blocks)) >= 2 for blocks in paths.blocks)
    assert all("block into the" in text for text in paths.instruction) and paths.instruction.nunique() > 1
    moved, _ = play("task=forward evaluation.episodes=3 waypoints=scripted suite.displaced=0.05")
    assert moved.success.mean() < 0.7


def test_an_episode_without_usable_waypoints_stays_where_it_is(play: Callable[[str], Any]) -> None:
    evaluations, paths = play("task=forward evaluation.episodes=1 waypoints=scripted waypoints.malformed=1")
    assert evaluations.success.sum() == 0 and (paths.grasp == 0).all() and not paths.carried_out.any()


def test_each_episode_of_sorting_follows_its_own_instruction_and_an_oracle_is_told_the_places(
    play: Callable[[str], Any],
) -> None:
    evaluations, paths = play("task=sorting evaluation.episodes=2 waypoints=oracle")
    assert evaluations.success.mean() == 1.0 and paths.instruction.nunique() > 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("suite=bin_sorting drawing.camera=side", "two views, and drawing.camera=side; set drawing.camera=both"),
        ("suite=point_maze", "no such views or does not say how its actions move the gripper"),
    ],
)
def test_suites_and_views_that_it_cannot_use_are_refused(
    words: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"run method=moka segmenter=scripted waypoints=scripted profile=smoke {words}"
    assert main(given.split()) != 0
    assert reason in capsys.readouterr().err
