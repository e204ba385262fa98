"""FuRL and its baselines on MetaWorld, with the scripted embedder in its own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.methods.furl import Furl

METHODS = ("liv", "liv_proj", "relay", "furl_no_goal", "furl")
SMALL = (
    "suite=metaworld_mt10", "task=reach", "embedder=scripted", "embedder.width=32", "guide.width=32", "guide.every=4",
    "guide.stretch=8", "drawing.size=32", "training.steps=240", "evaluation.every=240", "evaluation.episodes=1",
    "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=200",
)  # fmt: skip
EXPLORER = ("explorer.hidden=[8]", "explorer.batch_size=16", "explorer.learning_starts=200", "agent.periods=[20]")
HEADS = ("guide.hidden=[8]", "guide.out=4", "guide.batch_size=16")


def command(method: str, *more: str) -> list[str]:
    """The settings of a short run of one method; `more` replaces those of the same name."""
    own = [*(EXPLORER if registry.get("method", method).agent == "relay" else ())]
    own += [setting for setting in HEADS if method not in ("liv", "relay")][: 2 if method == "liv_proj" else 3]
    given = dict(each.split("=", 1) for each in [*SMALL, f"method={method}", *own, *more])
    return [f"{key}={value}" for key, value in given.items()]


def rows(directory: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.glob(f"*/*/*/seed-*/{name}"))]


def test_every_setting_has_a_meaning_and_a_source() -> None:
    assert all(field.meaning and field.source for field in settings.fields(Furl).values())


@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_both_learners_of_a_relay_have_the_settings_of_the_suite(profile: str) -> None:
    plan = matrix.plan(["suite=metaworld_mt10", "task=reach", "method=furl,relay", f"profile={profile}"])
    for cell in plan.cells:
        assert cell.section("explorer") == cell.section("learner")
        assert cell.section("agent").until == ("success_steps" if cell.names.method == "relay" else "positives")


def test_a_vector_of_another_width_is_refused_with_the_plan() -> None:
    with pytest.raises(UserError, match=r"32 numbers; set guide\.width=32"):
        matrix.plan(["suite=metaworld_mt10", "method=liv", "embedder=scripted", "embedder.width=32"])


def test_a_suite_without_a_goal_image_is_refused_unless_none_is_wanted() -> None:
    given = ["suite=classic", "task=Pendulum-v1", "embedder=scripted"]
    with pytest.raises(UserError, match=r"no goal image of the task; set guide\.goal=false"):
        matrix.plan([*given, "method=furl"])
    matrix.plan([*given, "method=furl_no_goal"])


@pytest.mark.parametrize(("method", "goal"), [*((name, "hidden") for name in METHODS), ("furl", "observable")])
def test_each_method_trains_on_metaworld(method: str, goal: str, train: Callable[..., Path], opengl: None) -> None:
    pytest.importorskip("metaworld")
    run = train(
        *command(method, f"suite.goal={goal}", "seeds=[0]", *(["guide.l2=0.01"] if method == "furl" else [])),
        packs=[(0,)],
    )
    last = json.loads(rows(run, "ledger.jsonl")[0].splitlines()[-1])
    # Each fourth of 240 frames, of which the last four wait for their stretch of 8; and the goal image.
    assert last["images"] == 56 + (method == "furl") and last["failures"] == 0
    metrics = results.load(run, what="metrics")
    assert metrics["guide/reward"].between(-1, 1).all() and metrics["guide/reward"].abs().max() > 0
    if method == "furl":
        assert metrics["guide/loss"].dropna().gt(0).any(), "heads are ranked by the goal image"
