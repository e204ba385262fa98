"""LaGEA with hand-written models in their own processes: every variation, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.methods.lagea import ABLATIONS
from tests.methods.contract import METHODS


def command(*changed: str, method: str = "lagea") -> list[str]:
    """Return the settings of the contract's run for a single seed; a word without a value removes its setting."""
    settings = dict(word.partition("=")[::2] for word in [*METHODS[method].words.split(), "seeds=[0]", *changed])
    if settings["suite"] != "point_maze":
        settings = {key: value for key, value in settings.items() if key != "task" and not key.startswith("suite.")}
    return [f"{key}={value}" for key, value in settings.items() if value]


def planned(*changed: str) -> None:
    matrix.plan([*command(*changed), "profile=smoke"])


@pytest.mark.parametrize("method", ["lagea", "lagea_released"])
def test_published_models_are_the_default(method: str) -> None:
    (cell,) = matrix.plan(["suite=metaworld_mt10", "task=reach", f"method={method}"]).cells
    models = {part.role: cell.section(part.role).model for part in cell.models}
    assert models == {"embedder": "liv", "text_embedder": "gpt2", "feedback": "qwen2_5_vl_3b"}
    assert cell.section("guide").keyframes == ("saliency" if method == "lagea" else "turning_points")


def test_every_ablation_of_the_paper_has_a_name() -> None:
    tables = ["alignment=frozen", "feedback=freeform", "rho=fixed", "reward=task", "keyframes=none", "delta=none"]
    assert {*tables, "alignment=ranking", "no_goal_delta", "no_feedback_delta"} <= {*ABLATIONS}
    assert registry.get("method", "lagea").ablations == registry.get("method", "lagea_released").ablations


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            ["guide.text_width=768"],
            r"text_embedder's vectors have 16 numbers, and guide\.text_width=768; set guide\.text_width=16",
        ),
        (["guide.goal=false"], r"needs the goal image; set guide\.goal=true"),
        (
            [
                "suite=metaworld_mt10",
                "training.capacity=500",
                "training.steps=2000",
                "embedder.delay=",
                "feedback.delay=",
            ],
            r"keeps 500 transitions; set training\.capacity to at least 502",
        ),
        (["suite=metaworld_mt10", "drawing.camera=corner9"], "corner2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_plan(changed: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(*changed)


def ablated(*names: str) -> list[str]:
    """Return the settings of ablations; the standard agent drops those of the explorer."""
    changed = [f"{key}={value}".lower() for name in names for key, value in ABLATIONS[name].items()]
    if "relay=off" in names:
        changed += [f"{word.partition('=')[0]}=" for word in command() if word.startswith(("explorer.", "agent."))]
    return changed


# Trained


def test_it_tells_of_each_episode(train: Callable[..., Path], opengl: None) -> None:
    """One episode and a few gradient steps."""
    pytest.importorskip("gymnasium_robotics")
    run = train(*command("guide.every=8", "guide.stretch=32", "guide.frames=6"), packs=[(0,)])
    (row,) = results.load(run, log="feedback").to_dict("records")
    assert row["episode"] == 0 and not row["empty"] and row["summary"]
    assert row["outcome"] in ("success", "failure") and not row["succeeded"]
    frames = results.load(run, log="keyframes")
    assert frames["frame"].is_monotonic_increasing and frames["frame"].iloc[[0, -1]].tolist() == [0, 50]
    assert frames["snapshot"].notna().all(), "the first episode's pictures can be drawn"
    along = results.load(run, log="shaping")
    assert along["fused"].between(-1, 1).all() and along["fused"].abs().max() > 0
    assert along["share"].between(0.1, 0.9).all()
    metrics = results.load(run, log="metrics").iloc[-1]
    assert 0.05 <= metrics["guide/rho"] <= 0.9901 and metrics["guide/bce"] > 0 and metrics["guide/empty"] == 0


@pytest.mark.parametrize(
    "names",
    [
        ["alignment=frozen", "keyframes=none", "rho=fixed"],
        ["feedback=freeform", "negatives=other_episodes", "every=4", "relay=off"],
    ],
)
def test_ablations_train(names: list[str], train: Callable[..., Path], opengl: None) -> None:
    pytest.importorskip("gymnasium_robotics")
    run = train(*command(*ablated(*names)), packs=[(0,)])
    (row,) = results.load(run, log="feedback").to_dict("records")
    assert not row["empty"] and (row["code"] == "") == ("feedback=freeform" in names)
    metrics = results.load(run, log="metrics").iloc[-1]
    assert ("guide/bce" in metrics) == ("alignment=frozen" not in names)
    if "rho=fixed" in names:
        assert metrics["guide/rho"] == pytest.approx(0.25)
