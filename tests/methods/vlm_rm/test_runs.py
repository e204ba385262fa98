"""VLM-RM over a real, tiny CLIP in its own process: frames drawn, rewards learnt from, stopped and continued."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.harness.run import study
from guidebench.methods.vlm_rm import VlmRm
from guidebench.suites.mujoco import gl
from tests.methods.contract import kept
from tests.refusals import check_refused

DOORKEY = (
    "suite=minigrid_doorkey", "method=vlm_rm", "embedder=transformers", "embedder.dtype=float32",
    "drawing.tile_size=8", "guide.stretch=16",
    "training.steps=64", "evaluation.every=64", "evaluation.episodes=1", "learner.channels=4", "learner.features=8",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip
MAZE = (
    "suite=point_maze", "method=vlm_rm", "embedder=transformers", "embedder.dtype=float32", "drawing.size=32",
    "guide.stretch=16",
    "training.steps=96", "evaluation.every=96", "evaluation.episodes=1", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip


def ledger(study: Path) -> dict[str, float]:
    (content,) = kept(study, ["ledger.jsonl"]).values()
    return json.loads(content.splitlines()[-1])


def test_every_suite_has_a_baseline() -> None:
    recipe = registry.get("method", "vlm_rm")
    assert set(recipe.on_suite) <= set(registry.names("suite"))
    for suite in recipe.on_suite:
        for cell in matrix.plan([f"suite={suite}", "method=vlm_rm", "profile=smoke"]).cells:
            guide = cell.section("guide")
            assert guide.baseline and guide.alpha == 0.5 and cell.section("drawing") is not None


def test_without_a_baseline_the_projection_is_refused() -> None:
    check_refused(
        r"no baseline there.*guide\.baseline=… *, or set guide\.alpha=0",
        matrix.plan,
        ["suite=point_maze", "method=vlm_rm", "guide.baseline="],
    )
    (cell,) = matrix.plan(["suite=point_maze", "task=open", "method=vlm_rm", "guide.baseline=", "guide.alpha=0"]).cells
    assert cell.section("guide").alpha == 0
    check_refused(
        "the same text",
        matrix.plan,
        ["suite=point_maze", "method=vlm_rm", "guide.goal=a ball", "guide.baseline=a ball"],
    )


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
    command = (*DOORKEY, f"embedder.model={model}", "seeds=[0]")
    recorded = train(*command, packs=[(0,)])
    spent = ledger(recorded)
    assert spent["images"] == 64 and spent["failures"] == 0, "a frame for each transition"
    metrics = results.load(recorded, log="metrics")
    assert metrics["guide/reward"].between(-1, 1).all() and metrics["guide/reward"].abs().min() > 0
    assert (metrics["guide/failed"] == 0).all()
    shutil.rmtree(model)
    replayed = train(*command, packs=[(0,)], models={"mode": "replay", "cassette": str(recorded)})
    assert kept(replayed) == kept(recorded) and ledger(replayed)["billed_calls"] == 0


def test_a_hand_written_embedder_is_labelled_so(train: Callable[..., Path]) -> None:
    command = [word for word in DOORKEY if not word.startswith("embedder")]
    command += ["embedder=scripted", "embedder.width=64", "guide.alpha=0", "seeds=[0]"]
    study = train(*command, packs=[(0,)])
    assert ledger(study)["images"] == 64 and ledger(study)["failures"] == 0
    assert not list(study.rglob("cassette*")), "its answers are not recorded"
    assert (results.load(study)["backend"] == "scripted").all()
    (cell,) = (json.loads(path.read_text()) for path in study.rglob("cell.json"))
    assert cell["parts"]["embedder"]["backend"] == "scripted", "by which the leaderboard lists it apart"


def test_a_model_of_texts_alone_stops_the_run_with_what_to_choose(
    train: Callable[..., Path], tiny: Callable[[str], Path]
) -> None:
    check_refused(
        "turns no images into vectors; choose one such as CLIP",
        train,
        *DOORKEY,
        f"embedder.model={tiny('gpt2')}",
        "seeds=[0]",
        packs=[(0,)],
    )


def test_a_machine_that_cannot_draw_is_told_so_before_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: Callable[[str], Path]
) -> None:
    pytest.importorskip("gymnasium_robotics")

    def nothing() -> None:
        raise UserError("frames cannot be drawn: apt-get install libosmesa6")

    monkeypatch.setattr(gl, "backend", nothing)
    given = [*MAZE, "profile=smoke", f"embedder.model={tiny('clip')}", "seeds=1", f"output={tmp_path / 'study'}"]
    check_refused("apt-get install libosmesa6", study.carry_out, matrix.plan(given))
