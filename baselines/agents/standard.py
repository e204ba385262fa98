"""The usual agent: a learner, a replay and a guide; it stores what happens, asks the judge and takes gradient steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from guidebench.harness.evaluation import Memoryless
from guidebench.harness.interfaces import (
    Actor,
    Agent,
    Answer,
    Array,
    Ask,
    Build,
    Context,
    Draw,
    Episode,
    Guide,
    Learner,
    Loss,
    Metrics,
    Mode,
    Moment,
    Phase,
    Place,
    Sampler,
    State,
    Transition,
    Update,
)
from guidebench.harness.parts import AgentPart, AskingPart, ReplayPart, There
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.phases import TaskPhases
    from guidebench.baselines.storage import Storage


@register.agent("standard")
@dataclass(frozen=True)
class Standard(AgentPart):
    """Slots for learner, replay and guide, which most methods only fill."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% it joins the other parts"

    def spawn(self, build: Build) -> Agent:
        from guidebench.baselines.phases import TaskPhases
        from guidebench.baselines.storage import Storage

        parts = build.parts
        # the learner first, so that its random start is the same under every replay
        learner = parts["learner"].spawn(build)
        guide, sampler = parts["guide"].spawn(build), parts["replay"].spawn(build)
        ordered = build.events and parts["suite"].ordered
        phases = TaskPhases(build.rows, build.events) if ordered else None
        kept = (*sampler.columns, *((phases.column,) if phases else ()))
        storage = Storage(build, guide.columns, kept)
        judge, adds = _judge(parts["replay"]), parts["guide"].adds
        return StandardAgent(build, learner, sampler, storage, guide, phases, judge, adds)

    def fits(self, there: There) -> str:
        """Why these parts cannot work together, or ""."""
        replay, role = there["replay"], _judge(there["replay"])
        asking = (name for name, part in there.parts.items() if isinstance(part, AskingPart) and role in part.needs)
        if replay.judged_transitions and (who := next(asking, "")):
            return (
                f"the replay and the {who} both ask in the role {role!r}, whose answers go to the replay alone; have "
                f"the {who} need its judge in a role of another name"
            )
        return ""


def _judge(replay: ReplayPart) -> str:
    """The role that the replay's clips are put to."""
    return next((role for role, kind in replay.needs.items() if kind == "judge"), "judge")


class StandardAgent:
    """Learner + sampler + storage + guide for S seeds (DESIGN: one run, as the data sees it)."""

    deterministic = True

    def __init__(
        self,
        build: Build,
        learner: Learner,
        sampler: Sampler,
        storage: Storage,
        guide: Guide,
        task_phases: TaskPhases | None = None,
        judge: str = "judge",
        adds: tuple[str, ...] = (),
    ) -> None:
        """`judge`: the role that the sampler's clips are put to; `adds`: to which of the learner's losses the guide
        adds."""
        self.learner, self.sampler, self.storage, self.guide = learner, sampler, storage, guide
        self.task_phases = task_phases
        self.active = np.ones(build.rows, bool)
        self._judged, self._judge = sampler.clip_length > 0, judge
        self.wants_snapshots = self._judged or guide.wants_snapshots
        self._losses = (Loss(f"the guide {type(guide).__name__}", adds, guide.losses),) if adds else ()
        self._steps = build.steps
        self._clips = [Clip() for _ in range(build.rows)]

    def phases(self) -> tuple[Phase, ...]:
        return self.guide.phases(self._steps)

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Nothing to prepare: clips were closed when the last episode ended."""

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        self.guide.ended(episodes, self.storage, ctx)

    def act(self, observation: Array, ctx: Context) -> Array:
        explore = [streams.explore for streams in ctx.streams] if ctx.mode is Mode.TRAIN else None
        return self.learner.act(observation, ctx.rows, explore, ctx.step)

    def actor(self, places: Sequence[Place]) -> Actor:
        return Memoryless(self)

    def observe(self, transition: Transition, ctx: Context) -> None:
        number = self.storage.written
        slot = self.storage.append(transition)
        self.sampler.added(slot, self.storage.live, transition)
        if self.task_phases is not None:
            self.task_phases.added(slot, self.storage.live, transition, self.storage)
        self.guide.observed(slot, transition, self.storage, ctx)
        if transition.snapshot is None or not self._judged:
            return
        ended = transition.terminated | transition.truncated
        for row, clip in enumerate(self._clips):
            clip.add(number, transition.snapshot[row], transition.events[row])
            if len(clip.numbers) == self.sampler.clip_length or ended[row]:
                ctx.ask(clip.close(row)._replace(to=self._judge))

    def answered(self, answers: Sequence[Answer], ctx: Context) -> None:
        if not self._judged or answers[0].to != self._judge:
            self.guide.answered(answers, self.storage, ctx)
            return
        for answer in answers:
            if answer.value is None:
                continue  # a clip that no model could judge stays as unjudged as it was
            held = answer.key[self.storage.holds(answer.key)]
            self.sampler.scored(answer.row, self.storage.slot(held), answer.value)

    def update(self, ctx: Context) -> Metrics:
        further = np.broadcast_to(self.guide.before_update(self.storage, self.learner, ctx), self.active.shape)
        due = self.learner.updates_due(ctx.step)
        if not due and not further.any():
            return {}
        rngs = [streams.sample for streams in ctx.streams]
        moment = Moment(ctx.step, self.storage.live, rngs, ctx.observation, self.storage)
        if further.any():
            self._update_further(further, max(1, due), moment, ctx)
        if not due:
            return {}
        for _ in range(due):
            draw, update = self._update(self.active, ctx.step, moment)
        spread = self.task_phases.metrics(draw.index, self.storage) if self.task_phases else {}
        return {**update.metrics, **self.sampler.metrics(ctx.step), **self.guide.metrics(), **spread}

    def _update(self, learning: Array, step: int, moment: Moment) -> tuple[Draw, Update]:
        """One gradient step of the seeds `learning` [S]; a seed whose numbers are no longer finite stops."""
        draw = self.sampler.draw(self.learner.batch_size, moment)
        batch = self.storage.gather(draw.index)._replace(weight=draw.weight)
        shaped = self.guide.shape(batch)
        update = self.learner.update(shaped, learning, step, self.sampler.wants_reducible, self._losses)
        self.sampler.feedback(draw.index, update)
        self.active &= np.isfinite(list(update.metrics.values())).all(0) | ~learning
        return draw, update

    def _update_further(self, further: Array, due: int, moment: Moment, ctx: Context) -> None:
        """`further` [S] gradient steps of each seed, `due` of which count as an environment step of their own, so that
        what is due every so many steps is due among them too.

        A batch is drawn and shaped for all seeds at once. What that changes of a seed that takes no more of them, its
        random streams included, is put back."""
        kept: dict[int, tuple[State, State, State]] = {}
        for number in range(further.max()):
            for row in np.flatnonzero(self.active & (further <= number)).tolist():
                if row not in kept:
                    states = ctx.streams[row].state(), self.sampler.state(row), self.guide.state(row)
                    kept[row] = copy.deepcopy(states)
            self._update(self.active & (further > number), number // due, moment)
        for row, (streams, sampler, guide) in kept.items():
            ctx.streams[row].load_state(streams)
            self.sampler.load_state(row, sampler)
            self.guide.load_state(row, guide)

    def value(self, observation: Array, rows: Array) -> Array:
        return self.learner.value(observation, rows)

    def reward(self, observation: Array, rows: Array) -> Array | None:
        return self.guide.reward(observation, rows)

    def evaluated(self, returns: Array, ctx: Context) -> None:
        self.sampler.evaluated(returns)

    def state(self, row: int) -> State:
        return {
            "active": bool(self.active[row]),
            "learner": self.learner.state(row),
            "sampler": self.sampler.state(row),
            "storage": self.storage.state(row),
            "guide": self.guide.state(row),
            "clip": self._clips[row].state(),
            "phases": self.task_phases.state(row) if self.task_phases else None,
        }

    def load_state(self, row: int, state: State) -> None:
        self.active[row] = state["active"]
        self.learner.load_state(row, state["learner"])
        self.sampler.load_state(row, state["sampler"])
        self.storage.load_state(row, state["storage"])
        self.guide.load_state(row, state["guide"])
        self._clips[row].load_state(state["clip"])
        if self.task_phases:
            self.task_phases.load_state(row, state["phases"])

    def parameters(self, row: int) -> Mapping[str, Array]:
        return self.learner.parameters(row)

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        self.learner.load_parameters(row, parameters)


class Clip:
    """The transitions since the last question about a seed, and what their frames will be drawn from.

    Clips are disjoint and end with the episode (VLM-RB, algorithm 1). The frame of a transition shows the state
    after it, so that a clip which ends at the goal shows the goal reached.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._snapshots: list[Array] = []
        self._events: list[Array] = []

    def add(self, number: int, snapshot: Array, events: Array) -> None:
        self.numbers.append(number)
        self._snapshots.append(snapshot)
        self._events.append(events)

    def close(self, row: int) -> Ask:
        ask = Ask(row, np.array(self.numbers, np.int64), np.stack(self._snapshots), np.stack(self._events))
        self.numbers, self._snapshots, self._events = [], [], []
        return ask

    def state(self) -> State:
        return {
            "numbers": np.array(self.numbers, np.int64),
            "snapshots": np.stack(self._snapshots) if self._snapshots else None,
            "events": np.stack(self._events) if self._events else None,
        }

    def load_state(self, state: State) -> None:
        self.numbers = [int(number) for number in state["numbers"]]
        self._snapshots = [] if state["snapshots"] is None else list(state["snapshots"])
        self._events = [] if state["events"] is None else list(state["events"])
