"""The checks of contracts pass what keeps one, and name what breaks one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import testing
from guidebench.harness import registry

TASKS = [("classic", "CartPole-v1"), ("classic", "Pendulum-v1"), ("minigrid_doorkey", "5x5"), ("point_maze", "umaze")]


@pytest.mark.parametrize(("suite", "task"), [*TASKS, ("metaworld", "reach"), ("ogbench_scene", "drawer")])
def test_tasks_of_every_suite_keep_their_contract(suite: str, task: str, opengl: None) -> None:
    testing.check_suite(suite, [task], steps=60)


WALK = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.harness.interfaces import Actions, Observations, Step
    from guidebench.harness.parts import DrawingPart, SuitePart
    from guidebench.harness.registry import register


    @dataclass(frozen=True)
    class Drawing(DrawingPart):
        def spawn(self, task):
            return lambda snapshots: np.zeros((len(snapshots), 4, 4, 3), np.uint8)


    @register.suite("walk")
    @dataclass(frozen=True)
    class Walk(SuitePart):
        version: ClassVar[int] = 1
        title, source, citation, learner, method = "Walk", "a test", "% a test", "dqn", "uer"
        tasks, events, drawing, defaults, profiles = ("line",), ("moved",), Drawing, {}, {}

        def spaces(self, task):
            return Observations((1,), "float32"), Actions(count=2)

        def horizon(self, task):
            return 7

        def make(self, task):
            return Line()


    class Line:
        instruction, max_steps = "Walk.", 7

        def __init__(self):
            self.rng, self.at, self.time = np.random.default_rng(0), 0.0, 0

        def reset(self, seed=None):
            if seed is not None:
                self.rng = np.random.default_rng(seed)
            self.at, self.time = self.rng.random(), 0
            return self.seen()

        def seen(self):
            return np.array([self.at], np.float32)

        def step(self, action):
            self.at, self.time = self.at + action, self.time + 1
            return Step(self.seen(), self.at, False, self.time == 7, False)

        def events(self):
            return np.array([True])

        def snapshot(self):
            return np.array([self.time], np.uint8)

        def position(self):
            return None

        def state(self):
            return {"at": self.at, "time": self.time, "rng": self.rng.bit_generator.state}

        def load_state(self, state):
            self.at, self.time, self.rng.bit_generator.state = state["at"], state["time"], state["rng"]
"""
POSITION = "def position(self):"
EXPERT = "def expert(self):\n            return {}\n\n        def position(self):"


@pytest.mark.parametrize(
    ("correct", "broken", "says"),
    [
        ("x", "x", ""),
        (
            '"time": self.time, "rng"',
            '"time": 0, "rng"',
            r"restored from it differ [0-9]+ steps later: is everything .* in the state\(\) of the task",
        ),
        ('state["rng"]\n', "self.rng.bit_generator.state\n", "a task and one restored from it differ"),
        ("np.random.default_rng(seed)", "np.random.default_rng()", "two tasks reset with seed 0 differ 0 steps later"),
        ("[self.at], np.float32", "[self.at], np.float64", r"is float64 \[1\], and its space says float32 \[1\]"),
        ("self.time == 7, False", "self.time == 8, False", "goes on after its horizon of 7 steps"),
        ('"Walk.", 7', '"Walk.", 6', "max_steps 6, horizon 7"),
        ("np.array([True])", "np.array([1])", "events are int64"),
        ("4, 4, 3), np.uint8", "4, 4), np.uint8", r"two frames are uint8 \[2, 4, 4\]"),
        (
            "False)\n\n        def events",
            "False)._replace(reward=np.nan)\n\n        def events",
            "the reward of a step is nan",
        ),
        (POSITION, EXPERT.format("0"), ""),
        (POSITION, EXPERT.format("int(self.rng.integers(2))"), "two tasks reset with seed 0 differ"),
        (
            POSITION,
            EXPERT.format("int(vars(self).setdefault('asked', []).append(0) or len(self.asked) > 5)"),
            "the solvers of a task and of one restored from it differ 0 steps later",
        ),
    ],
)
def test_a_suite_that_breaks_its_contract_is_told_where(
    plugin: Callable[..., Path], correct: str, broken: str, says: str
) -> None:
    assert correct in WALK
    plugin("walk_module", WALK.replace(correct, broken), {"suite": "walk"})
    if not says:
        testing.check_suite("walk", steps=40)
        return
    with pytest.raises(AssertionError, match=f"line: .*{says}"):
        testing.check_suite("walk", steps=40)


FORGETFUL = """
    from dataclasses import dataclass

    from guidebench.baselines.replay.uer import Uer, UerSampler
    from guidebench.harness.interfaces import Draw
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register

    register.method("forgetful")(Method(summary="forgets", replay="forgetful", citation="% a test"))


    @register.replay("forgetful")
    @dataclass(frozen=True)
    class Forgetful(Uer):
        def spawn(self, build):
            return Sampler()


    class Sampler(UerSampler):
        drawn = 0

        def draw(self, count, moment):
            self.drawn += 1
            found = super().draw(count, moment)
            return Draw((found.index + self.drawn) % moment.live.count, None)

        def state(self, row):
            return {STATE}

        def load_state(self, row, state):
            self.drawn = state.get("drawn", 0)
"""
WORDS = ("suite=classic", "task=CartPole-v1", "training.steps=200", "learner.hidden=[4]", "learner.learning_starts=40")


def test_a_method_of_ours_keeps_its_contract(tmp_path: Path) -> None:
    assert "per" in registry.names("method")
    testing.check_method("per", tmp_path, *WORDS)


def test_a_method_that_forgets_what_it_needs_is_told_so(plugin: Callable[..., Path], tmp_path: Path) -> None:
    plugin("forgetful_module", FORGETFUL.replace("{STATE}", "{}"), {"replay": "forgetful", "method": "forgetful"})
    with pytest.raises(
        AssertionError,
        match=r"forgetful: a run as a whole and one whose process ended after 60% of its steps differ \(.*\): is "
        r"everything that a later step depends on in the state\(\) of the agent and each of its parts",
    ):
        testing.check_method("forgetful", tmp_path, *WORDS)
