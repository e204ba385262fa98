"""Phases of a run come in any order, each with its own updates."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.baselines.learners.sac import Sac
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.interfaces import RunPhase
from guidebench.harness.loop.training import learning_begins, phases_of
from guidebench.harness.run import estimates
from tests.baselines.learners.continuous import SMALL, batch, build

GUIDE = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.interfaces import RunPhase
    from guidebench.harness.logs import Log, count
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    class Staging(BaseGuide):
        def __init__(self, build, first):
            self.rows, self.updates, self.first, self.was = build.rows, 0, first, None

        def phases(self, steps):
            return (
                RunPhase("wait", 5, "none", self.first), RunPhase("collect", 60, updates=0),
                RunPhase("settle", 20, "none", 3), RunPhase("learn", steps - 105), RunPhase("distil", 20, "none"),
            )

        def shape(self, batch):
            self.updates += 1
            return batch

        def before_update(self, store, learner, ctx):
            if ctx.phase.name != self.was:
                for row in range(self.rows):
                    ctx.note("stages", row, {"stored": store.live.count, "updates": self.updates})
                self.was = ctx.phase.name
            return 0

        def state(self, row):
            return {"updates": self.updates, "was": self.was}

        def load_state(self, row, state):
            self.updates, self.was = state["updates"], state["was"]


    @register.guide("staging")
    @dataclass(frozen=True)
    class StagingPart(AskingPart):
        first: int = 0

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        logs: ClassVar = {
            "stages": Log("as a phase begins", {"stored": count("transitions"), "updates": count("before its steps")})
        }

        def spawn(self, build):
            return Staging(build, self.first)


    register.method("staging")(Method(summary="has stages", guide="staging", citation="% a test"))
"""
TINY = (
    "suite=classic", "task=CartPole-v1", "method=staging", "training.steps=200", "evaluation.every=60",
    "evaluation.episodes=2", "learner.hidden=[8]", "learner.learning_starts=100", "learner.batch_size=16",
    "learner.train_every=4", "learner.gradient_steps=1",
)  # fmt: skip


@pytest.fixture
def staged_method(plugin: Callable[..., Path]) -> None:
    plugin("staging_module", GUIDE, {"guide": "staging", "method": "staging"})


def run_bytes(study: Path) -> dict[str, bytes]:
    names = ("evaluations.parquet", "stages.parquet", "policy.safetensors")
    return {str(file.relative_to(study)): file.read_bytes() for name in names for file in study.glob(f"**/{name}")}


def test_phases_come_in_any_order_with_updates_of_their_own(staged_method: None, train: Callable[..., Path]) -> None:
    """60 updates happen in 20 steps of 3, although learning starts at 100; then one at each of the steps 100, 104, …,
    200."""
    study = train(*TINY, "seeds=[0,1]", packs=[(0, 1)])
    assert set(results.load(study)["step"]) == {60, 120, 180, 200}, "the last step is evaluated too"
    rows = results.load(study, log="stages")
    for seed in (0, 1):
        stages = rows[rows["seed"] == seed].sort_values("step")[["step", "stored", "updates"]].to_numpy().tolist()
        assert stages == [[1, 0, 0], [6, 1, 0], [66, 60, 0], [86, 61, 60], [181, 155, 60 + 21]]
    assert run_bytes(train(*TINY, "seeds=[0,1]", packs=[(0,), (1,)])) == run_bytes(study) and len(run_bytes(study)) == 6


def test_a_run_stopped_in_every_phase_resumes_to_the_same_bytes(
    staged_method: None, train: Callable[..., Path], tmp_path: Path
) -> None:
    uninterrupted, moments = train(*TINY, "seeds=[0]", packs=[(0,)]), []
    for steps in (2, 28, 35, 5, 50, 70):
        calls = iter(range(1, 1000))
        with pytest.raises(Stopped):
            train(
                *TINY,
                "seeds=[0]",
                packs=[(0,)],
                directory=tmp_path / "parts",
                stop=lambda c=calls, n=steps: next(c) == n,
            )
        moments += [json.loads(file.read_text())["step"] for file in (tmp_path / "parts").glob("*/*/*/*/run.json")]
    assert moments == [2, 30, 65, 70, 120, 190]
    resumed = train(*TINY, "seeds=[0]", packs=[(0,)], directory=tmp_path / "parts")
    assert run_bytes(resumed) == run_bytes(uninterrupted) and len(run_bytes(uninterrupted)) == 3


def test_updates_before_anything_is_stored_are_refused_by_the_phase(
    staged_method: None, train: Callable[..., Path]
) -> None:
    says = r"phase 'wait' takes gradient steps at step 1, and nothing is stored to learn from; let a phase with"
    with pytest.raises(UserError, match=says):
        train(*TINY, "guide.first=1", "seeds=[0]", packs=[(0,)])


def test_a_run_is_timed_whatever_its_first_phase_is(staged_method: None, tmp_path: Path) -> None:
    assert estimates.measure(cell_of(*TINY), (0,), "cpu", 0.2, tmp_path / "scratch").training > 0


@pytest.mark.parametrize(
    ("phases", "first"),
    [
        ((RunPhase("train", 1_000),), 500),
        ((RunPhase("offline", 100, "data", updates=1), RunPhase("online", 900)), 1),
        ((RunPhase("explore", 600, updates=0), RunPhase("train", 400)), 601),
        ((RunPhase("explore", 200, updates=0), RunPhase("train", 800)), 500),
        ((RunPhase("wait", 400),), 1),  # learns nothing
    ],
)
def test_a_run_begins_to_learn_where_a_phase_or_the_learner_s_schedule_says(phases, first: int) -> None:
    assert learning_begins(phases, 500) == first


def cell_of(*overrides: str) -> Any:
    from guidebench.harness.plan import matrix

    (planned_cell,) = matrix.plan([*overrides, "profile=smoke"]).cells
    return planned_cell


class Fixed:
    """An agent with these phases."""

    def __init__(self, *phases: RunPhase) -> None:
        self.phases = lambda: phases


WRONG = {
    "two phases of the run are called 'a'; give each": (RunPhase("a", 50), RunPhase("a", 50)),
    r"phase 'a' has 0 steps; expected a whole number from 1 on": (RunPhase("a", 0), RunPhase("b", 100)),
    r"phase 'a' has updates=-1; expected a whole number of gradient updates": (RunPhase("a", 100, updates=-1),),
    r"phase 'a' has source='nowhere'; expected environment": (RunPhase("a", 100, "nowhere"),),
    r"have 90 steps in all \(a 40, b 50\), and training.steps=100": (RunPhase("a", 40), RunPhase("b", 50)),
    r"have 0 steps in all \(none\), and training.steps=100": (),
}


@pytest.mark.parametrize("says", WRONG)
def test_phases_that_cannot_be_are_refused_before_training_begins(says: str) -> None:
    with pytest.raises(UserError, match=says):
        phases_of(Fixed(*WRONG[says]), 100)  # type: ignore[arg-type]


@pytest.mark.parametrize(("updates", "acted"), [(1, [2, 4, 6, 8]), (2, [1, 2, 3, 4]), (None, [])])
def test_the_actor_takes_its_share_of_updates_over_the_steps(updates: int | None, acted: list[int]) -> None:
    """With utd = 4 and actor_utd = 2 every second update also updates the actor, for steps of one or two updates; the
    learner's own schedule waits for learning_starts."""
    learner = Sac(**{**SMALL, "utd": 4, "actor_utd": 2, "learning_starts": 16}).spawn(build())
    actor_steps = []
    for step in range(1, 9 if updates == 1 else 5):
        outcomes = [
            learner.update(batch(step), np.ones(1, bool), step) for _ in range(learner.updates_due(step, updates))
        ]
        actor_steps += [step for outcome in outcomes if "actor_loss" in outcome.metrics]
    assert actor_steps == acted


def test_the_phase_is_shown_where_progress_is(staged_method: None, train: Callable[..., Path], tmp_path: Path) -> None:
    from guidebench.harness.run import journal

    states: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journal, "TELL_EVERY", 0.0)
        patched.setattr(journal, "LIVE_EVERY", 0.0)
        patched.setattr(journal.RunDirectory, "show", lambda self, **values: states.append(values), raising=False)
        train(*TINY, "seeds=[0]", packs=[(0,)])
    phases = {state["step"]: state["phase"] for state in states}
    assert [phases[step] for step in (5, 6, 65, 66, 180, 200)] == [
        "wait",
        "collect",
        "collect",
        "settle",
        "learn",
        "distil",
    ]
