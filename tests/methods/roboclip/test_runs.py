"""RoboCLIP over a real, tiny X-CLIP, in its own process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.plan import matrix
from tests.methods.contract import kept
from tests.refusals import check_refused

DOORKEY = (
    "suite=minigrid_doorkey", "method=roboclip", "embedder=transformers", "embedder.dtype=float32",
    "drawing.tile_size=8",
    "training.steps=540", "evaluation.every=540", "evaluation.episodes=1", "learner.channels=4", "learner.features=8",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=400",
)  # fmt: skip
"""Two episodes of 250 steps, or more shorter ones."""


def ledger(study: Path) -> dict[str, float]:
    (content,) = kept(study, ["ledger.jsonl"]).values()
    return json.loads(content.splitlines()[-1])


def test_its_defaults_are_the_papers_encoder_and_frames_of_480_rows() -> None:
    (cell,) = matrix.plan(["method=roboclip", "profile=smoke", "models=paper"]).cells
    assert cell.names.suite == "metaworld_pbrl" and cell.section("drawing").size == 480
    assert cell.section("embedder").model == "s3d.safetensors" and cell.section("guide").every == 4


def test_an_embedder_of_single_images_is_refused_with_the_plan() -> None:
    check_refused(
        r"'clip' .* embeds no videos; choose xclip, or S3D", matrix.plan, ["method=roboclip", "embedder.model=clip"]
    )
    matrix.plan(["method=roboclip", "embedder.model=xclip"])


def test_a_missing_file_of_s3d_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    from guidebench.harness.run import study

    given = ["method=roboclip", "profile=smoke", "models=paper", "seeds=1", f"output={tmp_path / 'study'}"]
    check_refused(
        r"there is no file s3d\.safetensors; `bench models convert` makes one", study.carry_out, matrix.plan(given)
    )


@pytest.mark.slow
def test_a_run_rewards_every_episode_once_and_replays_to_the_byte_when_the_model_is_gone(
    train: Callable[..., Path], tiny: Callable[..., Path], tmp_path: Path
) -> None:
    model = tmp_path / "xclip"
    shutil.copytree(tiny("xclip"), model)
    command = (*DOORKEY, f"embedder.model={model}", "seeds=[0]")
    recorded = train(*command, packs=[(0,)])
    spent = ledger(recorded)
    assert spent["failures"] == 0 and spent["images"] >= 63, "every fourth frame of an episode of 250 steps"
    metrics = results.load(recorded, log="metrics")
    assert metrics["guide/reward"].abs().max() > 0 and (metrics["guide/failed"] == 0).all()
    shutil.rmtree(model)
    replayed = train(*command, packs=[(0,)], models={"mode": "replay", "cassette": str(recorded)})
    assert kept(replayed) == kept(recorded) and ledger(replayed)["billed_calls"] == 0
