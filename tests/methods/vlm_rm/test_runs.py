"""VLM-RM over a real, tiny CLIP in its own process: frames drawn, rewards learnt from, stopped and continued."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.harness.run import study
from guidebench.methods.vlm_rm import VlmRm
from guidebench.suites.mujoco import gl

DOORKEY = (
    "suite=minigrid_doorkey", "method=vlm_rm", "embedder.dtype=float32", "drawing.tile_size=8", "guide.stretch=16",
    "training.steps=160", "evaluation.every=80", "evaluation.episodes=2", "learner.channels=4", "learner.features=8",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip
MAZE = (
    "suite=point_maze", "method=vlm_rm", "embedder.dtype=float32", "drawing.size=32", "guide.stretch=16",
    "training.steps=96", "evaluation.every=96", "evaluation.episodes=1", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip


def rows(directory: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.glob(f"*/*/*/seed-*/{name}"))]


def ledger(directory: Path) -> dict[str, float]:
    return json.loads(rows(directory, "ledger.jsonl")[0].splitlines()[-1])


def test_every_setting_has_a_meaning_and_a_source_and_every_suite_a_baseline() -> None:
    assert all(field.meaning and field.source for field in settings.fields(VlmRm).values())
    recipe = registry.get("method", "vlm_rm")
    assert set(recipe.on_suite) <= set(registry.names("suite"))
    for suite in recipe.on_suite:
        for cell in matrix.plan([f"suite={suite}", "method=vlm_rm", "profile=smoke"]).cells:
            guide = cell.section("guide")
            assert guide.baseline and guide.alpha == 0.5 and cell.section("drawing") is not None


def test_without_a_baseline_the_projection_is_refused() -> None:
    with pytest.raises(UserError, match=r"no baseline there.*guide\.baseline=… *, or set guide\.alpha=0"):
        matrix.plan(["suite=point_maze", "method=vlm_rm", "guide.baseline="])
    (cell,) = matrix.plan(["suite=point_maze", "task=open", "method=vlm_rm", "guide.baseline=", "guide.alpha=0"]).cells
    assert cell.section("guide").alpha == 0
    with pytest.raises(UserError, match="the same text"):
        matrix.plan(["suite=point_maze", "method=vlm_rm", "guide.goal=a ball", "guide.baseline=a ball"])


def test_an_empty_goal_is_the_tasks_instruction() -> None:
    home = registry.get("suite", "minigrid_doorkey")()
    dialogue = VlmRm(baseline="a grid").dialogue(home, "5x5", "embedder")
    assert dialogue._texts == (home.make("5x5").instruction, "a grid")
    assert VlmRm(goal="a key", baseline="a grid").dialogue(home, "5x5", "embedder")._texts == ("a key", "a grid")


def test_a_run_rewards_every_state_once_and_replays_to_the_byte_when_the_model_is_gone(
    train: Callable[..., Path], tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    model = tmp_path / "clip"
    shutil.copytree(tiny("clip"), model)
    command = (*DOORKEY, f"embedder.model={model}", "seeds=[0,1]")
    recorded = train(*command, packs=[(0, 1)])
    spent = ledger(recorded)
    assert spent["images"] == 160 and spent["failures"] == 0, "a frame for each transition"
    metrics = results.load(recorded, what="metrics")
    assert metrics["guide/reward"].between(-1, 1).all() and metrics["guide/reward"].abs().min() > 0
    assert (metrics["guide/failed"] == 0).all()
    shutil.rmtree(model)
    replayed = train(*command, packs=[(1,), (0,)], models={"mode": "replay", "cassette": str(recorded)})
    for name in ("evaluations.parquet", "policy.safetensors"):
        assert rows(replayed, name) == rows(recorded, name) and len(rows(recorded, name)) == 2
    assert ledger(replayed)["billed_calls"] == 0


def test_a_hand_written_embedder_checks_the_plumbing_and_is_labelled_so(train: Callable[..., Path]) -> None:
    command = [each for each in DOORKEY if not each.startswith("embedder.")]
    command += ["embedder=scripted", "embedder.width=64", "guide.alpha=0", "seeds=[0,1]"]
    together, apart = train(*command, packs=[(0, 1)]), train(*command, packs=[(1,), (0,)])
    for name in ("evaluations.parquet", "policy.safetensors"):
        assert rows(together, name) == rows(apart, name) and len(rows(together, name)) == 2
    assert ledger(together)["images"] == 160 and ledger(together)["failures"] == 0
    assert not list(together.rglob("cassette*")), "its answers are not recorded"
    assert (results.load(together)["backend"] == "scripted").all()
    (told,) = (json.loads(path.read_text()) for path in together.rglob("cell.json"))
    assert told["parts"]["embedder"]["backend"] == "scripted", "by which the leaderboard lists it apart"


def test_it_rewards_frames_of_the_point_maze(train: Callable[..., Path], tiny: Callable[[str], Path], opengl) -> None:
    pytest.importorskip("gymnasium_robotics")
    run = train(*MAZE, f"embedder.model={tiny('clip')}", "seeds=[0]", packs=[(0,)])
    assert ledger(run)["images"] == 96
    rewards = results.load(run, what="metrics")["guide/reward"]
    assert rewards.between(-1, 1).all() and rewards.abs().min() > 0


def test_a_model_of_texts_alone_stops_the_run_with_what_to_choose(
    train: Callable[..., Path], tiny: Callable[[str], Path]
) -> None:
    with pytest.raises(UserError, match="turns no images into vectors; choose one such as CLIP"):
        train(*DOORKEY, f"embedder.model={tiny('gpt2')}", "seeds=[0]", packs=[(0,)])


def test_a_machine_that_cannot_draw_is_told_so_before_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: Callable[[str], Path]
) -> None:
    pytest.importorskip("gymnasium_robotics")

    def nothing() -> None:
        raise UserError("frames cannot be drawn: apt-get install libosmesa6")

    monkeypatch.setattr(gl, "backend", nothing)
    given = [*MAZE, "profile=smoke", f"embedder.model={tiny('clip')}", "seeds=1", f"output={tmp_path / 'study'}"]
    with pytest.raises(UserError, match="apt-get install libosmesa6"):
        study.carry_out(matrix.plan(given))
