"""Tasks of the suites as Gymnasium environments, for training scripts of one's own, and ones that record themselves.

A script steps `RecordedTraining` to train and its `evaluation` to evaluate, on the layouts on which a run of this
harness with the same seed is evaluated at the same step. It then appears in every report (`guidebench.Recorder`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, overload

import gymnasium
import numpy as np
from gymnasium import spaces

from guidebench.harness import registry
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.gym.recorder import Recorder
from guidebench.harness.interfaces import Actions, Array, Observations
from guidebench.harness.loop.evaluation import scored
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Names
from guidebench.harness.settings import fields, given
from guidebench.harness.streams import Streams

METHOD = "uer"
"""The method whose cell tells the suite's settings, the budget and the evaluation: it changes none of them itself."""
StepResult = tuple[Any, float, bool, bool, dict[str, Any]]


def cell_of(name: str, profile: str, **settings: Any) -> Cell:
    """What the harness itself would train on SUITE/TASK, with these settings of the suite.

    UserError for a name, profile or setting that does not exist, or a value that does not fit.
    """
    suite, slash, task = name.partition("/")
    if not slash:
        raise UserError(f"{name!r}: expected SUITE/TASK, such as minigrid_doorkey/8x8 (`bench list` names them)")
    home: Any = registry.get("suite", suite)
    parts = config.parts_of(suite, task, METHOD, profile, {})
    names = Names(suite, config.task_of(suite, task), METHOD, profile, parts)
    known = fields(home)
    for key in settings:
        if key not in known:
            raise unknown(f"setting of suite {suite!r}", key, known)
    chosen = {f"suite.{key}": given(known[key], value, key) for key, value in settings.items()}
    return config.resolve(names, chosen, {})


class Environment(gymnasium.Env[Any, Any]):
    """A task: observations and actions are those that the harness's own methods have; of named parts they are a dict
    of arrays.

    An episode's success stands in `info["is_success"]`, as Stable-Baselines3 and Gymnasium-Robotics have it.
    """

    def __init__(self, cell: Cell, run: int | None = None) -> None:
        """`run`: the seed of the run whose layouts these are, where a run's seed decides them; None: of no run."""
        suite = cell.section("suite") if run is None else cell.section("suite").of_run(run)
        self.cell = cell
        self.task = suite.make(cell.names.task)
        observations, actions = suite.spaces(cell.names.task)
        self.observation_space, self.action_space = _shown(observations), _taken(actions)
        self.metadata, self.render_mode = {"render_modes": ["rgb_array"], "render_fps": 10}, "rgb_array"
        self._drawing = suite.drawing
        self._drawer: Any = None
        self._begun = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new episode. With a seed the task's random stream starts anew; without one it goes on."""
        super().reset(seed=seed)
        if seed is None and not self._begun:
            seed = self._first()
        self._begun = True
        return _seen(self.task.reset(seed)), {}

    def step(self, action: Any) -> StepResult:
        found = self.task.step(action)
        told = {"is_success": bool(found.success)}
        return _seen(found.observation), float(found.reward), bool(found.terminated), bool(found.truncated), told

    def render(self) -> Array:
        """The present frame as judges see it, uint8 [height, width, 3]."""
        if self._drawer is None:
            self._drawer = self._drawing().spawn(self.cell.names.task)
        frame: Array = self._drawer(self.task.snapshot()[None])[0]
        return frame

    def _first(self) -> int:
        """Seed of a first episode for which none was named."""
        return int(self.np_random.integers(2**31))


class RecordedTraining(Environment):
    """One run of a foreign method: its steps are training steps, the episodes of `evaluation` its evaluations.

    `steps`, `every` and `episodes` are the budget that the harness's own runs have here: train so many steps, and after
    each `every` of them play so many evaluation episodes. `close()` finishes the run, or marks it failed if steps are
    missing.
    """

    def __init__(self, cell: Cell, begin: Callable[[], Recorder], seed: int, steps: int) -> None:
        """`begin` is called once the task is there: nothing is written before."""
        super().__init__(cell, seed)
        self.log = begin()
        evaluation = cell.section("evaluation")
        self.steps, self.every, self.episodes = steps, evaluation.every, evaluation.episodes
        self.taken = 0
        """Training steps so far."""
        self.seed, self._streams = seed, Streams(seed)
        self.evaluation = RecordedEvaluation(self, self._streams)
        """The environment to evaluate in."""

    def step(self, action: Any) -> StepResult:
        self.taken += 1
        return super().step(action)

    def close(self) -> None:
        if self.taken < self.steps:
            self.log.fail(f"closed after {self.taken:,} of {self.steps:,} training steps")
        elif self.evaluation.last < 0:
            self.log.fail("closed without an evaluation episode")
        else:
            self.log.finish()

    def _first(self) -> int:
        return int(self._streams.environment.integers(2**31))


class RecordedEvaluation(Environment):
    """Evaluation episodes of a run: each that ends is logged at the training step that the run has come to.

    Its layouts follow from the run's seed, that step and the episode's number, whatever seed `reset` is given.
    """

    def __init__(self, training: RecordedTraining, streams: Streams) -> None:
        super().__init__(training.cell, training.seed)
        self.last = -1
        """Training step of the last episode that was logged."""
        self._training, self._streams = training, streams
        self._at, self._number = -1, 0
        self._return, self._length, self._playing = 0.0, 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._training.taken != self._at:
            self._at, self._number = self._training.taken, 0
        self._return, self._length, self._playing = 0.0, 0, True
        return super().reset(seed=self._streams.evaluation_seed(self._at, self._number))

    def step(self, action: Any) -> StepResult:
        """UserError if training went on within an episode, or beyond the steps that the run was announced with."""
        found = super().step(action)
        _, reward, terminated, truncated, told = found
        self._return, self._length = self._return + reward, self._length + 1
        if self._playing and (terminated or truncated):
            if self._training.taken != self._at:
                raise UserError(
                    f"training went on from step {self._at:,} to {self._training.taken:,} within an evaluation episode"
                )
            score = self.cell.score
            worth = scored(score, self.task, told["is_success"], self._return)
            self._training.log.episode(
                step=self._at, ret=self._return, success=told["is_success"], length=self._length,
                score=worth if score.recorded else None,
            )  # fmt: skip
            self.last, self._number, self._playing = self._at, self._number + 1, False
        return found


def recorded(
    cell: Cell,
    output: str | Path,
    *,
    method: str,
    seed: int,
    steps: int | None,
    learner: str,
    model: str,
    settings: Mapping[str, Any],
) -> RecordedTraining:
    """A run of `method` in the study `output`, which takes as many steps as the harness's own unless told otherwise."""
    if not method:
        raise UserError("record=… needs method=…, the name that the run's row shall have")
    names, budget = cell.names, cell.steps if steps is None else steps
    begin = functools.partial(
        Recorder, output, suite=names.suite, task=names.task, method=method, seed=seed, steps=budget, learner=learner,
        model=model, profile=names.profile, settings={**cell.overrides, **settings}, score=cell.score,
    )  # fmt: skip
    return RecordedTraining(cell, begin, seed, budget)


def _seen(observation: Array) -> Array | dict[str, Array]:
    """A copy, of a record the arrays of its parts."""
    if observation.dtype.names is None:
        return observation.copy()
    return {name: np.array(observation[name]) for name in observation.dtype.names}


def _shown(observations: Observations) -> spaces.Space[Any]:
    if observations.parts:
        return spaces.Dict({name: _shown(part) for name, part in observations.parts.items()})
    kind = np.dtype(observations.dtype)
    if observations.categories is not None:
        high = np.broadcast_to(np.asarray(observations.categories) - 1, observations.shape).astype(kind)
        return spaces.Box(np.zeros_like(high), high, dtype=kind.type)
    if np.issubdtype(kind, np.integer):
        limits = np.iinfo(kind)
        return spaces.Box(limits.min, limits.max, observations.shape, kind.type)
    return spaces.Box(-np.inf, np.inf, observations.shape, kind.type)


def _taken(actions: Actions) -> spaces.Space[Any]:
    if actions.count is not None:
        return spaces.Discrete(actions.count)
    return spaces.Box(-1.0, 1.0, actions.shape, np.float32)


@overload
def make(
    name: str,
    *,
    record: str | Path,
    method: str,
    seed: int = ...,
    steps: int | None = ...,
    learner: str = ...,
    model: str = ...,
    settings: Mapping[str, Any] | None = ...,
    profile: str = ...,
    **suite: Any,
) -> RecordedTraining: ...


@overload
def make(name: str, *, profile: str = ..., **suite: Any) -> Environment: ...


def make(
    name: str,
    *,
    record: str | Path | None = None,
    method: str = "",
    seed: int = 0,
    steps: int | None = None,
    learner: str = "",
    model: str = "",
    settings: Mapping[str, Any] | None = None,
    profile: str = "paper",
    **suite: Any,
) -> Environment:
    """SUITE/TASK as a Gymnasium environment; `suite` are settings of the suite (`bench show suite=…`).

    With `record`, the directory of a study, it is one run of `method` with this `seed`: its steps count as training,
    episodes of its `evaluation` are logged, and `close()` finishes the run. `steps` are the profile's unless given;
    `settings` are the method's hyperparameters. Raises UserError on a mistake before anything is written.
    """
    cell = cell_of(name, profile, **suite)
    if record is not None:
        return recorded(
            cell, record, method=method, seed=seed, steps=steps, learner=learner, model=model, settings=settings or {}
        )
    if method or seed or steps is not None or learner or model or settings:
        raise UserError("method, seed, steps, learner, model and settings describe a run: give record=STUDY with them")
    return Environment(cell)
