"""Learning from a dataset first, and then, if any steps are left, from the environment and the dataset together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np

from guidebench.baselines.acting import GuidedAgent
from guidebench.baselines.learners.bc import Bc
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.baselines.normalising import Normalisation
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Agent,
    Array,
    Batch,
    Build,
    Context,
    Metrics,
    Question,
    RunPhase,
    State,
    Transition,
    Update,
)
from guidebench.harness.models.calls import Answer
from guidebench.harness.parts import AgentPart, CellView
from guidebench.harness.recipes import Layer, Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit, cite

ROLE = "offline"
"""Role of the dataset, name of its experience and of the first run phase."""


@register.agent("offline_online")
@dataclass(frozen=True)
class OfflineOnline(AgentPart):
    """One learner with two experiences, the dataset in the role `offline`, with the run's demonstrations, and what the
    run collects, and a guide that knows both.

    A run begins with gradient steps on the dataset. In the steps that are left it acts, and each batch is drawn partly
    from the dataset. The dataset is never overwritten.
    """

    offline_share: Annotated[float, Bounds(0, 1), Unit("of training.steps")] = 0.5
    """Share of the run's steps that are gradient steps on the dataset alone, at least one step; with 1 the run never
    acts (choice: a share, since profiles differ in their steps; Cal-QL has 1M of 2M steps on AntMaze)."""
    offline_updates: Annotated[int, Bounds(1), Unit("gradient updates per step")] = 1
    """Gradient updates in each step of the offline phase (choice: 1, so that steps are gradient steps)."""
    mixing: Annotated[float, Bounds(0, 1), Unit("of a batch")] = 0.5
    """Share of an online batch that is drawn from the dataset (Cal-QL's code, mixing_ratio, in its scripts 0.5)."""

    normalise: Annotated[bool, Later] = False
    """Whether the learner reads continuous entries of observations less their mean in the dataset, divided by their
    deviation there, which is at least .001; entries that are only 0 or 1 there, such as one-hot ones, and images stay
    as they are (choice: false, since suites scale their observations)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = "% it joins a learner and a dataset"
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({
        "learner": "learner", "replay": "replay", "guide": "guide", ROLE: "dataset",
    })  # fmt: skip

    def offline_steps(self, steps: int) -> int:
        """Return how many of a run's `steps` steps are offline."""
        return max(1, round(self.offline_share * steps))

    def spawn(self, build: Build) -> Agent:
        return OfflineOnlineAgent(self, build)

    def fits(self, view: CellView) -> str:
        """Return why these parts cannot work together, or ""."""
        if view["replay"].judged_transitions:
            return "its replay has clips judged, and a dataset has no frames; choose replay=uer"
        if not view["guide"].several_stores:
            return (
                "its guide knows one store alone, and this agent keeps the dataset in a store of its own; choose a "
                "guide that knows both, such as success_classifier or waypoints, or guide=none"
            )
        return ""

    def ready(self, view: CellView) -> None:
        """Raise UserError for a dataset that does not state what the learner learns from, and for one without a
        success, unless the task is not scored by success or nothing marks one."""
        from guidebench.harness.episodes import datasets

        lacking = view[ROLE].lacks()
        for name in view["learner"].learns_from:
            if name in lacking:
                raise UserError(
                    f"the learner learns from the {name} of each step, and the dataset {ROLE!r} has none in "
                    f"{getattr(view[ROLE], name, name)!r}; name the feature that holds it, {ROLE}.{name}=…, or choose "
                    f"method=bc, which imitates actions"
                )
        if view.task in view.suite.scores or "success" in lacking:
            return
        dataset = datasets.obtain(datasets.DatasetSpec(ROLE, view[ROLE], view.suite, view.task))
        if not any(episode.success.any() for episode in dataset.episodes):
            raise UserError(
                f"none of the {len(dataset.episodes)} episodes of the dataset {ROLE!r} has a success on "
                f"{view.task!r}, so that nothing in it shows how to solve the task; take more episodes, less "
                f"noise, or another dataset"
            )


class OfflineOnlineAgent(GuidedAgent):
    """Trains S seeds from a dataset and then from both experiences."""

    datasets_unseen = True

    def __init__(self, config: OfflineOnline, build: Build) -> None:
        from guidebench.baselines.experience import Experience

        self.config = config
        learner, guide = build.parts["learner"].spawn(build), build.parts["guide"].spawn(build)
        collected, self.offline = (
            Experience(build, build.parts["replay"], guide.columns, (learner,), name=name) for name in ("", ROLE)
        )
        super().__init__(build, learner, guide, collected, self.offline)
        self._build = build
        self._normalisation: Normalisation | None = None
        if config.normalise:
            self._normalisation = Normalisation(build.rows, build.observations)

    def _fitted(self) -> Normalisation | None:
        """Return the normalisation, by each seed's dataset unless a checkpoint or a policy has brought its numbers;
        None without one."""
        from guidebench.harness.episodes import datasets

        normalisation, build = self._normalisation, self._build
        if normalisation is None or normalisation.fitted.all():
            return normalisation
        by_suite: dict[Any, list[Array]] = {}
        for row in np.flatnonzero(~normalisation.fitted).tolist():
            suite = build.suite(row)
            if suite not in by_suite:
                by_suite[suite] = [episode.observation for episode in datasets.of(build, ROLE, row).episodes]
            normalisation.fit(row, by_suite[suite])
        return normalisation

    def act(self, observation: Array, ctx: Context) -> Array:
        normalisation = self._fitted()
        read = observation if normalisation is None else normalisation.of_rows(observation, ctx.rows)
        return super().act(read, ctx)

    def value(self, observation: Array, rows: Array) -> Array | None:
        normalisation = self._fitted()
        return super().value(observation if normalisation is None else normalisation.of_rows(observation, rows), rows)

    def prepare(self, batch: Batch) -> Batch:
        if (normalisation := self._fitted()) is None:
            return batch
        return batch._replace(
            observation=normalisation.of_batch(batch.observation),
            next_observation=normalisation.of_batch(batch.next_observation),
        )

    def state(self, row: int) -> State:
        normalisation = self._normalisation
        more = {} if normalisation is None else {"normalisation": normalisation.arrays(row)}
        return {**super().state(row), **more}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        if self._normalisation is not None:
            self._normalisation.load(row, state["normalisation"])

    def parameters(self, row: int) -> Mapping[str, Array]:
        normalisation = self._normalisation
        return {**super().parameters(row), **({} if normalisation is None else normalisation.arrays(row))}

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        if self._normalisation is None:
            super().load_parameters(row, parameters)
            return
        names = self._normalisation.arrays(row)
        self._normalisation.load(row, {name: array for name, array in parameters.items() if name in names})
        super().load_parameters(row, {name: array for name, array in parameters.items() if name not in names})

    def phases(self) -> tuple[RunPhase, ...]:
        steps = self.config.offline_steps(self._steps)
        offline = RunPhase(ROLE, steps, ROLE, self.config.offline_updates)
        return (offline, *([RunPhase("online", self._steps - steps)] if steps < self._steps else []))

    def observe(self, transition: Transition, ctx: Context) -> None:
        if ctx.step == 0 or ctx.phase.source != "environment":  # demonstrations or the dataset
            self.guide.observed_dataset(self.offline.add(transition, ctx), transition, ROLE, ctx)
        else:
            self.guide.observed(self.experience.add(transition, ctx), transition, self.experience.store, ctx)

    def answered(self, answers: Sequence[tuple[Question, Answer]], ctx: Context) -> None:
        self.guide.answered(answers, self.experience.store, ctx)

    def update(self, ctx: Context) -> Metrics:
        due = self.learner.updates_due(ctx.step, ctx.phase.updates)
        metrics: Metrics = {}
        for _ in range(due):
            metrics = self._update(ctx)
        return metrics

    def _update(self, ctx: Context) -> Metrics:
        """Take one gradient step on a batch of the dataset, mixed with transitions that the run has collected once it
        has collected as many as their part of a batch [choice]."""
        size = self.learner.batch_size
        offline_count = int(size * self.config.mixing)
        if ctx.phase.source != "environment" or (self.experience.stored < size - offline_count).any():
            offline_count = size
        sources = [(self.offline, offline_count), (self.experience, size - offline_count)]
        samples = [
            (experience, experience.sample(count, ctx, n_step=self.learner.n_step))
            for experience, count in sources
            if count
        ]
        batch = joined([_marked(sample.shaped(self.guide.shape), stream is self.offline) for stream, sample in samples])
        reducible = self.offline.wants_reducible
        update = self.learn_from(self.learner, batch, self.active, ctx.step, reducible)
        start = 0
        for experience, sample in samples:
            span = slice(start, start := start + sample.draw.index.shape[1])
            experience.feedback(sample, part(update, span))
        stored = {"collected": self.experience.stored.astype(np.float64)}
        metrics = {**self.offline.metrics(ctx.step), **self.experience.metrics(ctx.step), **self.guide.metrics()}
        return {**update.metrics, **stored, **metrics}


def _marked(batch: Batch, from_dataset: bool) -> Batch:
    """Return a batch that says of each transition whether it is one of the dataset."""
    return batch._replace(from_dataset=np.full(batch.reward.shape, from_dataset))


def joined(batches: list[Batch]) -> Batch:
    """Return batches of the same seeds, [S, b, …] each, as one [S, Σ b, …]. Transition numbers are
    left out, since several stores use the same ones."""
    first = batches[0]
    if len(batches) == 1:
        return first

    fields: Any = {
        name: np.concatenate([getattr(batch, name) for batch in batches], 1)
        for name, values in first._asdict().items()
        if isinstance(values, np.ndarray)
    }
    columns = {name: np.concatenate([batch.columns[name] for batch in batches], 1) for name in first.columns}
    return first._replace(**{**fields, "columns": columns, "number": None})


def part(update: Update, batch_slice: slice) -> Update:
    """Return the part of an update that concerns the transitions `span` of its batch."""
    less = None if update.reducible is None else update.reducible[:, batch_slice]
    return Update(update.td_error[:, batch_slice], update.metrics, less)


SMOKE: Layer = {
    "training.capacity": cite(2_000, "smoke profile: for the dataset"),
    "dataset.scripted.episodes": cite(2, "smoke profile"),
    "dataset.scripted.noise": cite(0.0, "smoke profile: two episodes with a success"),
    "dataset.bin_sorting.demonstrations": cite(1, "smoke profile"),
    "dataset.bin_sorting.failures": cite(1, "smoke profile"),
    "dataset.bin_sorting.others": cite(1, "smoke profile"),
    "learner.hidden": cite((16, 16), "smoke profile"),
    "learner.batch_size": cite(32, "smoke profile"),
}
SUITES = ("metaworld", "metaworld_pbrl", "metaworld_mt10", "point_maze", "ogbench_scene")
HELD = cite(0, "choice: the dataset holds them")
ON_SUITE: dict[str, Layer] = {
    "ogbench_scene": {"dataset.scripted.noise": cite(0.0, "choice: its solver plans whole episodes")},
    "bin_sorting": {
        "training.demonstrations": HELD,
        "agent.normalise": cite(True, "choice: observed positions are metres times 5, so that 12 mm are .06"),
    },
}
ON_PROFILE: Mapping[str, Mapping[str, Layer]] = {
    **{suite: {"smoke": SMOKE} for suite in SUITES},
    "bin_sorting": {"smoke": {**SMOKE, "training.demonstrations": HELD}},
}
DEMONSTRATIONS: Mapping[str, Layer] = {
    "demos=2x": {"dataset.bin_sorting.demonstrations": cite(10, "KAGI, §IV-B: 2 times fewer than its 20")},
    "demos=5x": {"dataset.bin_sorting.demonstrations": cite(4, "KAGI, §IV-B: 5 times fewer than its 20")},
}
"""Ablations that leave 10 and 4 demonstrations of each direction in the data of `bin_sorting`."""
NEGATIVE: Layer = {
    "learner.cal_ql.tail": cite(
        "last_reward", "Cal-QL's code, in failures of sparse tasks; choice: rewards are negative"
    )
}

register.method("bc")(
    Method(
        summary="behaviour cloning of a dataset, without a step in the environment",
        learner="bc",
        agent="offline_online",
        defaults={"agent.offline_share": cite(1.0, "choice: it learns from the dataset alone")},
        on_suite=ON_SUITE,
        on_profile=ON_PROFILE,
        ablations={
            "loss=nll": {"learner.loss": "nll"},
            "successes_only": {"learner.successes_only": True},
            **DEMONSTRATIONS,
        },
        citation=Bc.citation,
    )
)

register.method("cal_ql")(
    Method(
        summary="conservative learning from a dataset, bounded by its returns, then online from both",
        learner="cal_ql",
        agent="offline_online",
        on_suite=ON_SUITE | {suite: {**ON_SUITE.get(suite, {}), **NEGATIVE} for suite in ("classic", "ogbench_scene")},
        on_profile=ON_PROFILE,
        ablations={
            "calibration=cql": {"learner.calibrated": False},
            "phases=offline_only": {"agent.offline_share": 1.0},
            "mixing=online_alone": {"agent.mixing": 0.0},
            "reward=sparse": {"suite.reward": "sparse"},
            "cloning=none": {"learner.bc_weight": 0.0},
            "observations=raw": {"agent.normalise": False},
            "failures=30": {"dataset.bin_sorting.failures": cite(30, "KAGI, §IV-B")},
            "discount=0.9": {"learner.discount": 0.9},
            **DEMONSTRATIONS,
        },
        citation=CalQl.citation,
    )
)
