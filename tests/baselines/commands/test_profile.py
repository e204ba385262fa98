"""`bench profile` trains a real cell and accounts for each step."""

import json
import re
from pathlib import Path

import pytest

from guidebench.harness.commands import cli

CELL = (
    "suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "profile=smoke", "learner.learning_starts=40",
    "learner.train_every=1", "training.steps=400",
)  # fmt: skip


def test_parts_add_up_to_the_step_and_nothing_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["profile", *CELL, "--steps", "150", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["steps"], content["updates"]) == (90, 90), "of 150 steps, 60 are before the end of the warm-up"
    parts = content["parts"]
    assert sum(part["wall"] for part in parts.values()) == pytest.approx(content["step"])
    for part in (
        "environment",
        "acting",
        "storage",
        "sampling",
        "gather",
        "forward",
        "backward",
        "optimiser",
        "asking",
    ):
        assert parts[part]["wall"] > 0, part
    assert parts["evaluation"]["one"] > 0 and parts["checkpoint"]["one"] > 0
    assert content["limit"]["flops_per_step"] > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*CELL[:2], "method=uer,per", "profile=smoke"], "trains one cell, and the command has 2"),
        ([*CELL, "--steps", "50"], "--steps 50: .*; give 110 to 391"),
    ],
)
def test_several_cells_and_steps_without_an_update_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["profile", *words]) == 2
    assert re.search(message, capsys.readouterr().err)
