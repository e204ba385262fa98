"""Base classes of agents: one with a default for every hook, and one with a learner and a guide."""

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
    Guide,
    Learner,
    Loss,
    Metrics,
    Mode,
    Place,
    Question,
    RunPhase,
    State,
    Transition,
    Update,
)
from guidebench.harness.loop.evaluation import Memoryless
from guidebench.harness.models.calls import Answer

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience, Uneven


class BaseAgent:
    """Named learners and experiences of S seeds; the first learner acts, and by default nothing is stored or learnt.

    A method's agent defines what it stores of a step (`observe`) and when it learns (`update`, by calling `learn`).
    """

    deterministic = True
    datasets_unseen = False

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
        self.repeatable = self.deterministic
        self.wants_measures = self.wants_words = False
        self.wants_snapshots = any(experience.judged for experience in experiences.values())
        self._steps = build.steps

    def phases(self) -> tuple[RunPhase, ...]:
        """Return one run phase, in which every step is an environment step."""
        return (RunPhase("train", self._steps),)

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Do nothing."""

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        """Do nothing."""

    def act(self, observation: Array, ctx: Context) -> Array:
        return self.acted(next(iter(self.learners.values())), observation, ctx)

    def acted(self, learner: Learner, observation: Array, ctx: Context) -> Array:
        """Return a learner's actions: exploring in training, greedy in evaluation."""
        explore = [streams.explore for streams in ctx.streams] if ctx.mode is Mode.TRAIN else None
        return learner.act(observation, ctx.rows, explore, ctx.step)

    def actor(self, places: Sequence[Place]) -> Actor:
        """Return an actor without memory."""
        return Memoryless(self)

    def observe(self, transition: Transition, ctx: Context) -> None:
        """Do nothing."""

    def cut(self, ctx: Context) -> None:
        """Notify every experience."""
        for experience in self.experiences.values():
            experience.cut()

    def answered(self, answers: Sequence[tuple[Question, Answer]], ctx: Context) -> None:
        """Pass a judge's answers to the experience whose clips are sent to this role."""
        for experience in self.experiences.values():
            if experience.judged and experience.judge == answers[0][0].to:
                experience.answered(answers)

    def update(self, ctx: Context) -> Metrics:
        """Do nothing; return no metrics."""
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
        """Take one gradient step of `learner` on a batch of `experience`, for the seeds `learning` [S] (None: the
        active seeds) that have stored enough. A seed whose metrics are no longer finite stops.

        `step` is the step count for periodic updates (None: the environment's). `shape` maps the drawn batch to the
        training batch; if the learner has an `n_step`, it shapes every transition of the returns (`Drawn.shaped`).
        `losses` are added to the learner's own. `observation` is passed to `Experience.sample`.
        """
        sample = experience.sample(learner.batch_size, ctx, observation, learner.n_step)
        moving = (self.active if learning is None else learning) & sample.ready
        at = ctx.step if step is None else step
        update = self.learn_from(learner, sample.shaped(shape), moving, at, experience.wants_reducible, losses)
        experience.feedback(sample, update)
        if not sample.ready.all():  # metrics of a batch of zeros are meaningless
            metrics = {name: np.where(sample.ready, values, np.nan) for name, values in update.metrics.items()}
            update = update._replace(metrics=metrics)
        return sample, update

    def learn_from(
        self,
        learner: Learner,
        batch: Batch,
        moving: Array,
        step: int,
        reducible: Difference | None = None,
        losses: Sequence[Loss] = (),
    ) -> Update:
        """Take one gradient step of `learner` on a batch, for the seeds `moving` [S]. A seed whose metrics are not
        finite stops. The arguments are those of `Learner.update`."""
        update = learner.update(self.prepare(batch), moving, step, reducible, losses)
        self.active &= np.isfinite(list(update.metrics.values())).all(0) | ~moving
        return update

    def prepare(self, batch: Batch) -> Batch:
        """Return a batch as the learner reads it: as it is, unless an agent changes observations."""
        return batch

    def evaluated(self, returns: Array, ctx: Context) -> None:
        for experience in self.experiences.values():
            experience.evaluated(returns)

    def value(self, observation: Array, rows: Array) -> Array | None:
        """Return the first learner's value estimate."""
        return next(iter(self.learners.values())).value(observation, rows)

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return None: it learns no reward."""
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
        """Return the parameters of every learner; names begin with the learner's name, unless that is ""."""
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

    def adopted(self, policy: Mapping[str, Array]) -> Mapping[str, Array]:
        return policy


class GuidedAgent(BaseAgent):
    """One learner and one guide; `experience` stores what the run collects, and `begin`, `end` and `reward` are the
    guide's."""

    experience: Experience

    def __init__(
        self, build: Build, learner: Learner, guide: Guide, experience: Experience, *others: Experience
    ) -> None:
        """`others` are further experiences with the guide's columns, such as a dataset's."""
        named = {stream.name: stream for stream in (experience, *others)}
        super().__init__(build, {"": learner}, named)
        self.learner, self.guide, self.experience = learner, guide, experience
        self.wants_snapshots |= guide.wants_snapshots
        self.wants_measures, self.wants_words = guide.wants_measures, guide.wants_words
        stores = {name: stream.store for name, stream in named.items()}

        def unused(name: str, row: int, slots: Array) -> None:
            """Do nothing, since nothing that the learner stores could follow from rewards."""

        def rewarded(name: str, row: int, slots: Array) -> None:
            index = np.broadcast_to(slots, (len(self.active), len(slots)))
            learner.write_returns(row, slots, guide.shape(stores[name].gather(index)).reward[row], stores[name])

        guide.connect(stores, rewarded if learner.columns else unused)

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        self.guide.begun(rows, self.experience.store, ctx)

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        self.guide.ended(episodes, self.experience.store, ctx)

    def reward(self, observation: Array, rows: Array) -> Array | None:
        return self.guide.reward(observation, rows)

    def state(self, row: int) -> State:
        return {**super().state(row), "guide": self.guide.state(row)}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.guide.load_state(row, state["guide"])
