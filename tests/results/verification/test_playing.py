"""The process that plays strangers' policies: what is too much for it ends it, or the run, and never the verifier."""

import subprocess
import sys
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.plan import config, matrix
from guidebench.results.verification.playing import Player, RunEvaluations, _needed


def test_what_needs_more_memory_than_there_is_for_it_fails() -> None:
    code = (
        "from guidebench.results.verification import playing\n"
        "playing._limit_memory()\n"
        "import numpy\n"
        "numpy.empty(playing.MEMORY // 8 + 1)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1 and "Unable to allocate 8.00 GiB" in ended.stderr


def test_a_process_that_ended_is_told_and_begun_anew(tmp_path: Path) -> None:
    player = Player(60.0)
    nothing = RunEvaluations(tmp_path, "none", 0, 1, 1, 1, 1)
    try:
        with pytest.raises(UserError, match=r"cell\.json is missing"):
            player(nothing)
        player._process.kill()
        with pytest.raises(UserError, match="its process ended with exit code -9; it may need too much memory"):
            player(nothing)
        with pytest.raises(UserError, match=r"cell\.json is missing"):
            player(nothing)
    finally:
        player.close()


def test_the_parameters_needed_are_those_of_what_the_learner_observes() -> None:
    """An agent that reads sentences as vectors gives its learner other observations than the task's."""
    words = ["suite=crafter", "profile=smoke", "suite.observation=text", "agent=language_conditioned"]
    (cell,) = matrix.plan([*words, "text_embedder=scripted", "agent.width=16", "text_embedder.width=16"]).cells
    place = config.cell_view(cell)
    network = cell.section("learner").network(place.observations, place.actions)
    assert _needed(cell) == {name: spec.shape for name, spec in network.specs().items()}
