"""LaGEA on MetaWorld with hand-written models in their own processes: every variation, both goal modes, resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.plan import matrix
from guidebench.methods.lagea import ABLATIONS

SMALL = {
    "suite": "metaworld_mt10", "task": "drawer-close", "method": "lagea", "embedder": "scripted",
    "embedder.width": "16",
    "guide.width": "16", "text_embedder": "scripted", "text_embedder.width": "16", "guide.text_width": "16",
    "feedback": "scripted", "guide.every": "8", "guide.stretch": "32", "drawing.size": "32", "training.steps": "516",
    "evaluation.every": "516", "evaluation.episodes": "1", "learner.hidden": "[8]", "learner.batch_size": "16",
    "learner.learning_starts": "505", "explorer.hidden": "[8]", "explorer.batch_size": "16",
    "explorer.learning_starts": "505", "agent.periods": "[20]", "guide.hidden": "[8]", "guide.out": "4",
    "guide.batch_size": "16", "guide.frames": "6",
}  # fmt: skip
"""One episode and a few gradient steps. Random actions close the drawer."""


def command(**changed: str) -> list[str]:
    """The settings of a short run; a dot in a name is written as two underscores, and None leaves a setting out."""
    given = {**SMALL, **{key.replace("__", "."): value for key, value in changed.items()}}
    return [f"{key}={value}" for key, value in given.items() if value is not None]


def logged(run: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(run.glob(f"*/*/*/seed-*/{name}"))]


@pytest.mark.parametrize("method", ["lagea", "lagea_released"])
def test_published_models_are_the_default(method: str) -> None:
    (cell,) = matrix.plan(["suite=metaworld_mt10", "task=reach", f"method={method}"]).cells
    models = {part.role: cell.section(part.role).model for part in cell.models}
    assert models == {"embedder": "liv", "text_embedder": "gpt2", "feedback": "qwen2_5_vl_3b"}
    assert cell.section("guide").keyframes == ("saliency" if method == "lagea" else "turning_points")


def test_every_ablation_of_the_paper_has_a_name() -> None:
    tables = ["alignment=frozen", "feedback=freeform", "rho=fixed", "reward=task", "keyframes=none", "delta=none"]
    assert [*ABLATIONS][:6] == tables and {"no_goal_delta", "no_feedback_delta"} <= set(ABLATIONS)
    assert registry.get("method", "lagea").ablations == registry.get("method", "lagea_released").ablations


def test_a_text_of_another_width_is_refused_with_the_plan() -> None:
    with pytest.raises(UserError, match=r"text_embedder's vectors have 16 numbers; set guide\.text_width=16"):
        matrix.plan(command(guide__text_width="768"))


def test_a_reward_without_a_goal_image_is_refused() -> None:
    with pytest.raises(UserError, match=r"needs the goal image; set guide\.goal=true"):
        matrix.plan(command(guide__goal="false"))


def test_a_replay_that_is_shorter_than_an_episode_is_refused() -> None:
    with pytest.raises(UserError, match=r"keeps 500 transitions; set training\.capacity to at least 502"):
        matrix.plan(command(training__capacity="500", training__steps="2000"))


def test_an_unknown_camera_is_refused() -> None:
    with pytest.raises(UserError, match="corner2"):
        matrix.plan(command(drawing__camera="corner9"))


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["hidden", "observable"])
@pytest.mark.parametrize("feedback", ["scripted", "oracle"])
def test_it_trains_in_both_modes_and_tells_of_each_episode(
    feedback: str, goal: str, train: Callable[..., Path], opengl: None
) -> None:
    pytest.importorskip("metaworld")
    run = train(*command(feedback=feedback, suite__goal=goal, seeds="[0]"), packs=[(0,)])
    (told,) = results.load(run, what="feedback").to_dict("records")
    assert told["step"] in (500, 501) and told["episode"] == 0 and not told["empty"] and told["summary"]
    if feedback == "oracle":
        assert told["outcome"] == ("success" if told["succeeded"] else "failure")
    frames = results.load(run, what="keyframes")
    assert frames["frame"].is_monotonic_increasing and frames["frame"].iloc[[0, -1]].tolist() == [0, 500]
    assert frames["snapshot"].notna().all(), "the first episode's pictures can be drawn"
    along = results.load(run, what="shaping")
    assert along["fused"].between(-1, 1).all() and along["fused"].abs().max() > 0
    assert along["share"].between(0.1, 0.9).all()
    metrics = results.load(run, what="metrics").iloc[-1]
    assert 0.01 <= metrics["guide/rho"] <= 0.1001 and metrics["guide/bce"] > 0 and metrics["guide/empty"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ABLATIONS, "released"])
def test_each_ablation_trains(name: str, train: Callable[..., Path], opengl: None) -> None:
    pytest.importorskip("metaworld")
    changed = {key.replace(".", "__"): json.dumps(value).strip('"') for key, value in ABLATIONS.get(name, {}).items()}
    if name == "relay=off":
        changed |= {key.replace(".", "__"): None for key in SMALL if key.startswith(("explorer.", "agent."))}
    if name == "released":
        changed = {"method": "lagea_released", "guide__frames": "6"}
    run = train(*command(**changed, seeds="[0]"), packs=[(0,)])
    (told,) = results.load(run, what="feedback").to_dict("records")
    assert not told["empty"] and (told["code"] == "") == (name == "feedback=freeform")
    metrics = results.load(run, what="metrics").iloc[-1]
    assert ("guide/bce" in metrics) == (name != "alignment=frozen")
    if name == "rho=fixed":
        assert metrics["guide/rho"] == pytest.approx(0.05)


@pytest.mark.slow
def test_stopping_and_continuing_in_another_packing_changes_no_byte(
    train: Callable[..., Path], tmp_path: Path, opengl: None
) -> None:
    """Stopped while the feedback on the first episode, and vectors of the second, are still to come."""
    pytest.importorskip("metaworld")
    given = command(
        embedder__delay="7", feedback__delay="9", text_embedder__delay="5", feedback__malformed="0.5", seeds="[0,1]",
        training__steps="560", evaluation__every="280", learner__learning_starts="510", explorer__learning_starts="510",
    )  # fmt: skip
    whole = train(*given, packs=[(0, 1)])
    for moment in (505, 512, 530):
        directory = tmp_path / f"interrupted-{moment}"
        with pytest.raises(Stopped):
            stop = (call == moment for call in range(1, 10_000)).__next__
            train(*given, packs=[(0, 1)], directory=directory, stop=stop)
        train(*given, packs=[(1,), (0,)], directory=directory)
        for name in ("evaluations.parquet", "policy.safetensors", "feedback.parquet", "keyframes.parquet"):
            assert logged(directory, name) == logged(whole, name) and len(logged(whole, name)) == 2
