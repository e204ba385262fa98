"""FuRL and its baselines on MetaWorld, with the scripted embedder in its own process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.plan import matrix
from tests.methods.contract import kept
from tests.refusals import check_refused

SMALL = (
    "suite=metaworld_mt10", "task=reach", "embedder=scripted", "embedder.width=32", "guide.width=32", "guide.every=4",
    "guide.stretch=8", "drawing.size=32", "training.steps=240", "evaluation.every=240", "evaluation.episodes=1",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=200",
)  # fmt: skip
FURL = (
    "explorer.hidden=[8]", "explorer.batch_size=16", "explorer.learning_starts=200", "agent.periods=[20]",
    "guide.hidden=[8]", "guide.out=4", "guide.batch_size=16", "guide.l2=0.01",
)  # fmt: skip


@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_both_learners_of_a_relay_have_the_settings_of_the_suite(profile: str) -> None:
    plan = matrix.plan(["suite=metaworld_mt10", "task=reach", "method=furl,relay", f"profile={profile}"])
    for cell in plan.cells:
        assert cell.section("explorer") == cell.section("learner")
        assert cell.section("agent").until == ("success_steps" if cell.names.method == "relay" else "positives")


def test_a_vector_of_another_width_is_refused_with_the_plan() -> None:
    check_refused(
        r"32 numbers.*guide\.width=32",
        matrix.plan,
        ["suite=metaworld_mt10", "method=liv", "embedder=scripted", "embedder.width=32", "guide.width=64"],
    )


def test_a_suite_without_a_goal_image_is_refused_unless_none_is_wanted() -> None:
    given = ["suite=classic", "task=Pendulum-v1", "embedder=scripted"]
    check_refused(r"no goal image of the task; set guide\.goal=false", matrix.plan, [*given, "method=furl"])
    matrix.plan([*given, "method=furl_no_goal"])


@pytest.mark.parametrize(("method", "goal"), [("liv", "hidden"), ("furl", "observable")])
def test_frames_of_metaworld_are_rewarded(method: str, goal: str, train: Callable[..., Path], opengl: None) -> None:
    pytest.importorskip("metaworld")
    heads = FURL if method == "furl" else ()
    study = train(*SMALL, f"method={method}", *heads, f"suite.goal={goal}", "seeds=[0]", packs=[(0,)])
    (content,) = kept(study, ["ledger.jsonl"]).values()
    last = json.loads(content.splitlines()[-1])
    # Each fourth of 240 frames, of which the last four wait for their stretch of 8; and the goal image.
    assert last["images"] == 56 + (method == "furl") and last["failures"] == 0
    metrics = results.load(study, log="metrics")
    assert metrics["guide/reward"].between(-1, 1).all() and metrics["guide/reward"].abs().max() > 0
    if method == "furl":
        assert metrics["guide/loss"].dropna().gt(0).any(), "heads are ranked by the goal image"
