"""What agents share: an agent of named learners and experiences, and every hook that most leave as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Actor,
    Array,
    Batch,
    Build,
    Context,
    Difference,
    Episode,
    Learner,
    Loss,
    Metrics,
    Mode,
    Place,
    Response,
    RunPhase,
    State,
    Transition,
    Update,
)
from guidebench.harness.loop.evaluation import Memoryless

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience, Uneven


class BaseAgent:
    """Learners and experiences of S seeds by name; the first learner acts, and nothing is stored or learnt.

    A method's agent says what it stores of a step (`observe`) and what it learns when (`update`, by `learn`)."""

    deterministic = True

    def __init__(
        self, build: Build, learners: Mapping[str, Learner], experiences: Mapping[str, Experience | Uneven]
    ) -> None:
        self.learners, self.experiences = dict(learners), dict(experiences)
        names = [experience.name for experience in experiences.values()]
        if len({*names}) < len(names):
            raise UserError(
                f"two experiences of an agent have the name {max(names, key=names.count)!r}, by which each keeps its "
                f"files and its random numbers; give each a `name` of its own"
            )
        self.active = np.ones(build.rows, bool)
        self.wants_snapshots = any(experience.judged for experience in experiences.values())
        self._steps = build.steps

    def phases(self) -> tuple[RunPhase, ...]:
        """One, in which the environment is stepped throughout."""
        return (RunPhase("train", self._steps),)

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Nothing to prepare."""

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        """Nothing is kept per episode."""

    def act(self, observation: Array, ctx: Context) -> Array:
        return self.acted(next(iter(self.learners.values())), observation, ctx)

    def acted(self, learner: Learner, observation: Array, ctx: Context) -> Array:
        """What a learner does, exploring in training and greedily in evaluation."""
        explore = [streams.explore for streams in ctx.streams] if ctx.mode is Mode.TRAIN else None
        return learner.act(observation, ctx.rows, explore, ctx.step)

    def actor(self, places: Sequence[Place]) -> Actor:
        """One that remembers nothing of an episode."""
        return Memoryless(self)

    def observe(self, transition: Transition, ctx: Context) -> None:
        """Nothing is stored."""

    def cut(self, ctx: Context) -> None:
        """Every experience is told."""
        for experience in self.experiences.values():
            experience.cut()

    def answered(self, answers: Sequence[Response], ctx: Context) -> None:
        """A judge's answers go to the experience that puts clips to this role."""
        for experience in self.experiences.values():
            if experience.judged and experience.judge == answers[0].to:
                experience.answered(answers)

    def update(self, ctx: Context) -> Metrics:
        """Nothing is learnt."""
        return {}

    def learn(
        self,
        learner: Learner,
        experience: Experience | Uneven,
        ctx: Context,
        *,
        step: int | None = None,
        learning: Array | None = None,
        shape: Callable[[Batch], Batch] = lambda batch: batch,
        losses: Sequence[Loss] = (),
        observation: Array | None = None,
    ) -> tuple[Drawn, Update]:
        """One gradient step of `learner` on a batch of `experience`, of the seeds `learning` [S] (None: of those that
        are active) that have stored enough; one whose numbers are no longer finite stops.

        `step` counts for what is due every so many steps (None: the environment's); `shape` turns the batch into what
        is learnt from; `losses` are added to the learner's own; `observation` as of `Experience.sample`."""
        drawn = experience.sample(learner.batch_size, ctx, observation)
        moving = (self.active if learning is None else learning) & drawn.ready
        at = ctx.step if step is None else step
        update = self.learn_from(learner, shape(drawn.batch), moving, at, experience.wants_reducible, losses)
        experience.feedback(drawn, update)
        if not drawn.ready.all():  # what a seed tells of a batch of zeros is nothing
            told = {name: np.where(drawn.ready, values, np.nan) for name, values in update.metrics.items()}
            update = update._replace(metrics=told)
        return drawn, update

    def learn_from(
        self,
        learner: Learner,
        batch: Batch,
        moving: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """One gradient step of `learner` on a batch, of the seeds `moving` [S]; one whose numbers are no longer finite
        stops. The arguments are those of `Learner.update`."""
        update = learner.update(batch, moving, step, reducible, losses)
        self.active &= np.isfinite(list(update.metrics.values())).all(0) | ~moving
        return update

    def evaluated(self, returns: Array, ctx: Context) -> None:
        for experience in self.experiences.values():
            experience.evaluated(returns)

    def value(self, observation: Array, rows: Array) -> Array:
        """What the first learner expects."""
        return next(iter(self.learners.values())).value(observation, rows)

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """None: it learns no reward."""
        return None

    def state(self, row: int) -> State:
        return {
            "active": bool(self.active[row]),
            "learners": {name: learner.state(row) for name, learner in self.learners.items()},
            "experiences": {name: experience.state(row) for name, experience in self.experiences.items()},
        }

    def load_state(self, row: int, state: State) -> None:
        self.active[row] = state["active"]
        for name, learner in self.learners.items():
            learner.load_state(row, state["learners"][name])
        for name, experience in self.experiences.items():
            experience.load_state(row, state["experiences"][name])

    def parameters(self, row: int) -> Mapping[str, Array]:
        """Of every learner; each begins with its learner's name, unless that is ""."""
        return {
            f"{name}/{key}" if name else key: values
            for name, learner in self.learners.items()
            for key, values in learner.parameters(row).items()
        }

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        mine: dict[str, dict[str, Array]] = {name: {} for name in self.learners}
        for key, values in parameters.items():
            name = max((name for name in self.learners if not name or key.startswith(f"{name}/")), key=len)
            mine[name][key.removeprefix(f"{name}/") if name else key] = values
        for name, learner in self.learners.items():
            learner.load_parameters(row, mine[name])
