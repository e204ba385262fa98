"""Tasks of the suites as Gymnasium environments for your own training scripts, optionally recorded as runs.

A script steps `RecordedTraining` to train and its `evaluation` to evaluate. Evaluation layouts are those of a run of
this harness with the same seed and step. The run then appears in reports (`guidebench.Recorder`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, overload

import gymnasium
import numpy as np
from gymnasium import spaces

from guidebench.harness import registry
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.gym.recorder import Recorder
from guidebench.harness.interfaces import Actions, Array, Observations
from guidebench.harness.loop.evaluation import scored
from guidebench.harness.plan import config, difficulties, roles
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Names
from guidebench.harness.settings import fields, from_command
from guidebench.harness.streams import Streams

METHOD = "uer"
"""Method of the cell that supplies the suite's settings, steps and evaluation; it overrides none of them."""
StepResult = tuple[Any, float, bool, bool, dict[str, Any]]


class UnexpectedArgument(UserError, TypeError):
    """An argument that is no setting of the suite. It is a TypeError too: a script that tries arguments which only some
    environments have, as TorchRL does, goes on without this one."""


def cell_of(name: str, profile: str = "", difficulty: str = "", **settings: Any) -> Cell:
    """Return the cell that the harness would train on SUITE/TASK with these settings of the suite. A `difficulty` of
    the suite gives what is left open: its task, profile and settings.

    Raise UserError for an unknown name, profile, difficulty or setting, or an invalid value.
    """
    suite, slash, task = name.partition("/")
    level = difficulties.layer(suite, difficulty) if difficulty else {}
    chosen = difficulties.chosen(suite, difficulty) if difficulty else {}
    task, profile = task or chosen.get("task", ""), profile or chosen.get("profile", "paper")
    if not (slash or task):
        raise UserError(f"{name!r}: expected SUITE/TASK, such as minigrid_doorkey/8x8 (`bench list` names them)")
    home: Any = registry.get("suite", suite)
    parts = roles.parts_of(suite, task, METHOD, profile, {})
    names = Names(suite, config.task_of(suite, task), METHOD, profile, parts)
    suite_fields = fields(home)
    for key in settings:
        if key not in suite_fields:
            reason = unknown(f"setting of suite {suite!r}", key, suite_fields)
            raise UnexpectedArgument(f"unexpected keyword argument {key!r}: {reason}")
    typed = {f"suite.{key}": from_command(suite_fields[key], value, key) for key, value in settings.items()}
    return config.resolve(names, typed, {}, difficulty=config.of_difficulty(names, level))


class Environment(gymnasium.Env[Any, Any]):
    """A task with the observations and actions of the harness; observations with named parts are a dict of arrays.

    `info["is_success"]` holds the success of an episode, as in Stable-Baselines3 and Gymnasium-Robotics.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}  # type: ignore[misc]

    def __init__(
        self, cell: Cell, run: int | None = None, evaluating: bool = False, render_mode: str | None = "rgb_array"
    ) -> None:
        """`run`: seed of the run whose layouts to use, for suites in which it decides them; None for no run.
        `evaluating`: whether episodes are those of evaluations. `render_mode`: "rgb_array", which costs nothing until
        `render` is called, or None."""
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode={render_mode!r}: expected 'rgb_array' or None")
        suite = cell.section("suite") if run is None else cell.section("suite").of_run(run)
        suite = suite.in_evaluation() if evaluating else suite
        self.cell = cell
        self.task = suite.make(cell.names.task)
        observations, actions = suite.spaces(cell.names.task)
        self.observation_space, self.action_space = _observation_space(observations), _action_space(actions)
        self.render_mode = render_mode
        self._drawing = suite.drawing
        self._drawer: Any = None
        self._has_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. `seed` reseeds the task's random stream; None continues it."""
        super().reset(seed=seed)
        if seed is None and not self._has_reset:
            seed = self._first()
        self._has_reset = True
        return _copied(self.task.reset(seed)), {}

    def step(self, action: Any) -> StepResult:
        outcome = self.task.step(action)
        info = {"is_success": bool(outcome.success)}
        return (
            _copied(outcome.observation),
            float(outcome.reward),
            bool(outcome.terminated),
            bool(outcome.truncated),
            info,
        )

    def render(self) -> Array:
        """Return the current frame as judges see it, uint8 [height, width, 3]. Raise UserError if the environment was
        made with `render_mode=None`."""
        if self.render_mode is None:
            raise UserError("this environment was made with render_mode=None; make it with render_mode='rgb_array'")
        if self._drawer is None:
            self._drawer = self._drawing().spawn(self.cell.names.task)
        frame: Array = self._drawer(self.task.snapshot()[None])[0]
        return frame

    def _first(self) -> int:
        """Return the seed of the first episode, for a `reset` without a seed."""
        return int(self.np_random.integers(2**31))


class RegisteredEnvironment(Environment):
    """A task as `gymnasium.make` makes it, by an id that `guidebench.envs` registers."""

    def __init__(
        self,
        name: str,
        *,
        render_mode: str | None = "rgb_array",
        profile: str = "",
        difficulty: str = "",
        **suite: Any,
    ) -> None:
        """`name` is SUITE/TASK; the other arguments are those of `make`. Raise UserError for invalid ones."""
        super().__init__(cell_of(name, profile, difficulty, **suite), render_mode=render_mode)


class RecordedTraining(Environment):
    """One recorded run of an external method: steps count as training, episodes of `evaluation` as evaluation.

    `steps`, `every` and `episodes` are the protocol of the harness's runs: train `steps` steps, and every `every` steps
    play `episodes` evaluation episodes. `close()` finishes the run, or marks it failed if steps are missing.
    """

    def __init__(self, cell: Cell, begin: Callable[[], Recorder], seed: int, steps: int) -> None:
        """`begin` creates the recorder; it is called after the task is made, so that errors before leave no files."""
        super().__init__(cell, seed)
        self.log = begin()
        evaluation = cell.section("evaluation")
        self.steps, self.every, self.episodes = steps, evaluation.every, evaluation.episodes
        self.taken = 0
        """Training steps so far."""
        self.seed, self._streams = seed, Streams(seed)
        self.evaluation = RecordedEvaluation(self, self._streams)
        """Environment for evaluation episodes."""

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
    """Evaluation episodes of a run; each is logged at the current training step when it ends.

    The layout depends on the run's seed, that step and the episode's number; the seed given to `reset` is ignored.
    """

    def __init__(self, training: RecordedTraining, streams: Streams) -> None:
        super().__init__(training.cell, training.seed, evaluating=True)
        self.last = -1
        """Training step of the last logged episode; -1 before the first."""
        self._training, self._streams = training, streams
        self._at, self._number = -1, 0
        self._return, self._length, self._playing = 0.0, 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self._training.taken != self._at:
            self._at, self._number = self._training.taken, 0
        self._return, self._length, self._playing = 0.0, 0, True
        return super().reset(seed=self._streams.evaluation_seed(self._at, self._number))

    def step(self, action: Any) -> StepResult:
        """Take one step. Raise UserError if training steps were taken during the episode, or more than the run has."""
        outcome = super().step(action)
        _, reward, terminated, truncated, info = outcome
        self._return, self._length = self._return + reward, self._length + 1
        if self._playing and (terminated or truncated):
            if self._training.taken != self._at:
                raise UserError(
                    f"training went on from step {self._at:,} to {self._training.taken:,} within an evaluation episode"
                )
            score = self.cell.score
            worth = scored(score, self.task, info["is_success"], self._return)
            self._training.log.episode(
                step=self._at, ret=self._return, success=info["is_success"], length=self._length,
                score=worth if score.recorded else None,
            )  # fmt: skip
            self.last, self._number, self._playing = self._at, self._number + 1, False
        return outcome


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
    """Return the training environment of a run of `method` in the study `output`; `steps` None uses the profile's."""
    if not method:
        raise UserError("record=… needs method=…, the name of the run's row in reports")
    names, budget = cell.names, cell.steps if steps is None else steps
    begin = functools.partial(
        Recorder, output, suite=names.suite, task=names.task, method=method, seed=seed, steps=budget, learner=learner,
        model=model, profile=names.profile, settings={**cell.overrides, **settings}, score=cell.score,
    )  # fmt: skip
    return RecordedTraining(cell, begin, seed, budget)


def _copied(observation: Array) -> Array | dict[str, Array]:
    """Return a copy of an observation; a record becomes a dict of arrays."""
    if observation.dtype.names is None:
        return observation.copy()
    return {name: np.array(observation[name]) for name in observation.dtype.names}


def _observation_space(observations: Observations) -> spaces.Space[Any]:
    if observations.parts:
        return spaces.Dict({name: _observation_space(part) for name, part in observations.parts.items()})
    kind = np.dtype(observations.dtype)
    if observations.categories is not None:
        high = np.broadcast_to(np.asarray(observations.categories) - 1, observations.shape).astype(kind)
        return spaces.Box(np.zeros_like(high), high, dtype=kind.type)
    if np.issubdtype(kind, np.integer):
        limits = np.iinfo(kind)
        return spaces.Box(limits.min, limits.max, observations.shape, kind.type)
    return spaces.Box(-np.inf, np.inf, observations.shape, kind.type)


def _action_space(actions: Actions) -> spaces.Space[Any]:
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
    difficulty: str = ...,
    **suite: Any,
) -> RecordedTraining: ...


@overload
def make(name: str, *, profile: str = ..., difficulty: str = ..., **suite: Any) -> Environment: ...


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
    profile: str = "",
    difficulty: str = "",
    **suite: Any,
) -> Environment:
    """Return SUITE/TASK as a Gymnasium environment; `suite` are settings of the suite (`bench show suite=…`).

    A `difficulty` of the suite gives what the other arguments leave open: its task (SUITE alone is then a name), its
    profile, else `paper`, and its settings.

    With `record`, the directory of a study, the environment records one run of `method` with this `seed`: its steps
    count as training, episodes of its `evaluation` are logged, and `close()` finishes the run. `steps` None uses the
    profile's steps; `settings` are the method's hyperparameters. Raises UserError for invalid arguments before writing
    any file.
    """
    cell = cell_of(name, profile, difficulty, **suite)
    if record is not None:
        return recorded(
            cell, record, method=method, seed=seed, steps=steps, learner=learner, model=model, settings=settings or {}
        )
    if method or seed or steps is not None or learner or model or settings:
        raise UserError("method, seed, steps, learner, model and settings describe a run: give record=STUDY with them")
    return Environment(cell)
