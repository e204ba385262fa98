"""Estimates of a plan: its hours on this machine, with an interval, and its calls to models.

The duration of a cell is estimated from the best available basis: a recorded run on this machine, some of its steps
timed here, or operation counts that its parts declare, scaled by the timings of other cells.

`python -m guidebench.harness.run.estimates` is a process that reads cells as JSON from standard input and writes one
line for each: a `Timing` as JSON, or an error. A cell is built as in a worker and stores as many transitions as its
learners draw from. Then it is moved to the first learning step of each run phase, and whole cycles of its schedule of
gradient steps are timed. Its results are discarded. On a CPU, processor time is measured, that of the processes beside
the worker included, so that other programs do not matter.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from guidebench.harness import processes, registry
from guidebench.harness.episodes import datasets
from guidebench.harness.identity import sources
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.identity.provenance import hardware, packages
from guidebench.harness.launchers.base import Slot
from guidebench.harness.loop import env_workers
from guidebench.harness.loop.job import Job
from guidebench.harness.machine import cores
from guidebench.harness.models import study_models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage
from guidebench.harness.parts import AskingPart, Part, ReplayPart
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.plan.names import Chosen
from guidebench.harness.records.files import write_json

if TYPE_CHECKING:
    from guidebench.harness.interfaces import Agent, Array, RunPhase, Task
    from guidebench.harness.loop.evaluation import Evaluator
    from guidebench.harness.loop.training import Loop

SECONDS = 1.5
"""Seconds for which a cell's cycles are timed, and its evaluation; 0 times nothing."""
TIMED = 4
"""Maximum number of cells that are timed for an estimate: those whose parts or tasks differ, the longest first."""
MANY = 500
"""Maximum number of cells of a plan in which cells are timed or looked up, so that a dry run stays fast."""
COUNTED = 2.5
"""Measured seconds per second estimated by operation counts: the median of the studies in `results/measured`."""
SPREAD: Mapping[str, tuple[float, float]] = {
    "recorded": (0.8, 1.3), "timed": (0.8, 2.5), "scaled": (0.5, 3.0), "counted": (0.4, 3.0),
}  # fmt: skip
"""Basis -> minimum and maximum ratio of actual to estimated time: for recorded runs, by their spread over seeds; for
timings and counts, by the studies in `results/measured`, which took .5 to 2.9 times `COUNTED` times the counts."""
SCHEMA = 2
"""Version of the cached timings; a change of how they are measured makes those of before void."""
FILL = 1_000
"""Maximum transitions that are stored before the first update, unless a batch has more. A learner that begins later
draws from no more than this when it is timed."""
WARM = 12
"""Minimum steps of a run phase that are not timed, in whole cycles, since they include compilation and allocation (on a
GPU the fourth update of each kind is captured as a graph). Cycles that take longer than the time allows end them."""
LONGEST_CYCLE = 1_000
"""Maximum steps of a cycle that is timed as a whole."""
EPISODES = 2
"""Maximum number of timed evaluation episodes."""
CLIPS, ANSWERED = 8, 6.0
"""Number of clips to wait for when timing a scripted judge, and the maximum seconds to wait."""
SHORTEST = 20.0
"""Minimum duration in seconds of a run that is recorded as a timing."""
START, PATIENCE = 30.0, 60.0
"""Maximum seconds for the process to import its packages, and to time a cell."""

Basis = Literal["recorded", "timed"]
"""Basis of a timing: a whole run, or some cycles of one."""


class Timing(NamedTuple):
    """Seconds of a worker, and of the processes beside it, for all seeds that it packs."""

    training: float
    """The worker's time in the training of a whole run."""
    evaluation: float
    """The worker's time in one evaluation."""
    judging: float
    """Time, in a whole run, of the parallel process that draws clips and runs a scripted judge."""
    stepping: float
    """Processor time, in a whole run, of the processes that step tasks beside the worker (`env_workers`)."""


class Setup(NamedTuple):
    """The circumstances, besides its cell, on which the speed of a worker depends."""

    seeds: int
    """Number of seeds that it trains together."""
    device: str
    env_workers: int = 0
    """Number of processes that step its tasks beside it, in training and in evaluations."""


class Cost(NamedTuple):
    """The time of one job of a cell, for all seeds that a worker packs."""

    seconds: float
    """Seconds from the beginning of the worker to its end, on cores of its own."""
    beside: float
    """Processor seconds of the processes beside it, which draw, judge and step tasks in parallel."""
    basis: Literal["recorded", "timed", "scaled", "counted"]


class Span(NamedTuple):
    """Estimated hours, with a lower and an upper bound."""

    hours: float
    low: float
    high: float


def costs(plan: Plan, places: Sequence[Slot]) -> list[Cost]:
    """Return the cost of a job of each cell of a plan; some cells that have no cached timing are timed now."""
    costs_by_id = cached_costs(plan, places)
    if len(plan.trained) <= MANY and SECONDS:
        timed_cells = _cells_to_time([cell for cell in plan.trained if cell.id not in costs_by_id])
        setups = [setup(plan, places, cell) for cell in timed_cells]
        for cell, cell_setup, timing in zip(
            timed_cells, setups, timed(timed_cells, setups, SECONDS) if timed_cells else [], strict=True
        ):
            if timing is not None:
                costs_by_id[cell.id] = _cost(cell, timing, "timed")
                keep(cell, cell_setup, timing, "timed")
    return completed(plan, costs_by_id)


def cached_costs(plan: Plan, places: Sequence[Slot]) -> dict[str, Cost]:
    """Return cell id -> cost of the cells of a plan with a cached timing. It takes no longer than reading a file for
    each."""
    costs_by_id: dict[str, Cost] = {}
    for cell in plan.trained if len(plan.trained) <= MANY and _directory("timings").is_dir() else ():
        if (timing := cached_timing(cell, setup(plan, places, cell))) is not None:
            costs_by_id[cell.id] = _cost(cell, *timing)
    return costs_by_id


def completed(plan: Plan, costs_by_id: Mapping[str, Cost]) -> list[Cost]:
    """Return the cost of each cell of a plan: the one in `costs_by_id`, else by operation counts, scaled by those of
    similar cells in `costs_by_id`."""
    ratios: dict[Any, list[float]] = {}
    for cell in plan.trained:
        if cell.id in costs_by_id:
            for alike in _alike(cell):
                ratios.setdefault(alike, []).append(costs_by_id[cell.id].seconds / counted(cell))
    all_costs = []
    for cell in plan.trained:
        ratio = next((ratios[alike] for alike in _alike(cell) if alike in ratios), None)
        if cell.id in costs_by_id:
            all_costs.append(costs_by_id[cell.id])
        elif ratio is None:
            all_costs.append(Cost(COUNTED * counted(cell), 0.0, "counted"))
        else:
            all_costs.append(Cost(float(np.median(ratio)) * counted(cell), 0.0, "scaled"))
    return all_costs


def _cost(cell: Cell, timing: Timing, basis: Basis) -> Cost:
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    # The worker waits for answers that come later than they are due.
    seconds = max(timing.training, timing.judging) + evaluations * timing.evaluation
    return Cost(seconds, timing.judging + timing.stepping, basis)


def packed(plan: Plan, places: Sequence[Slot]) -> int:
    """Return the maximum number of seeds of a cell in one worker."""
    return min(plan.execution.pack or (len(plan.seeds) if places[0].device != "cpu" else 1), len(plan.seeds))


def setup(plan: Plan, places: Sequence[Slot], cell: Cell) -> Setup:
    """Return the setup of a worker of a cell if the plan runs on these slots."""
    execution, device, seeds = plan.execution, places[0].device, packed(plan, places)
    at_once = min(len(places), -(-len(plan.seeds) // seeds) * len(plan.trained))
    job = Job(
        "", "", {}, tuple(range(seeds)), device, env_workers=execution.env_workers, cores=max(1, cores() // at_once)
    )
    return Setup(seeds, device, env_workers.processes(job, cell, 0) if env_workers.spread(job) else 0)


def _alike(cell: Cell) -> tuple[Any, ...]:
    """Return keys of similar cells, whose ratio of measured to counted time applies to this cell, closest first."""
    learns = cell.section("agent").learns
    return (_kind(cell), (cell.learner, learns), learns)


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Return a key; cells with equal keys have the same ratio of measured to counted time."""
    return (cell.section("suite"), cell.names.task, cell.names.parts)


def _cells_to_time(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells to time: one of each kind, the longest first, and one of each learner before a second of any,
    since cells that are not timed are scaled by those with the same learner."""
    first = {_kind(cell): cell for cell in reversed(cells)}
    before: Counter[str] = Counter()
    turns: list[tuple[int, Cell]] = []
    for cell in sorted(first.values(), key=counted, reverse=True):
        turns.append((before[cell.learner], cell))
        before[cell.learner] += 1
    return [cell for _, cell in sorted(turns, key=lambda turn: turn[0])][:TIMED]


def elapsed(plan: Plan, job_costs: Sequence[Cost], places: Sequence[Slot]) -> Span:
    """Return the hours of a plan from its beginning on these slots, whose workers share the available cores."""
    jobs = -(-len(plan.seeds) // packed(plan, places))
    places_of = {cell.id: place for place, cell in enumerate(plan.trained)}
    after = [places_of[cell.stage.id] if cell.stage else None for cell in plan.trained]
    hours = [_scheduled(job_costs, after, jobs, len(places), _edge(side)) / 3600 for side in (None, 0, 1)]
    return Span(*hours)


def core_hours(plan: Plan, job_costs: Sequence[Cost], places: Sequence[Slot]) -> float:
    """Return the hours of one core, or of a GPU beside the cores, that a plan takes."""
    jobs = -(-len(plan.seeds) // packed(plan, places))
    return jobs * sum(cost.seconds + cost.beside for cost in job_costs) / 3600


def slowdown(plan: Plan, job_costs: Sequence[Cost], places: Sequence[Slot]) -> float:
    """Return the factor by which a worker is slower than on cores of its own, since others run at the same time."""
    return _slowdown(job_costs, -(-len(plan.seeds) // packed(plan, places)), len(places))


def _slowdown(job_costs: Sequence[Cost], jobs: int, workers: int) -> float:
    busy, total = sum(cost.seconds + cost.beside for cost in job_costs), sum(cost.seconds for cost in job_costs)
    return max(1.0, min(workers, jobs * len(job_costs)) * (busy / total if total else 1.0) / cores())


def _edge(side: int | None) -> Mapping[str, float]:
    return {basis: 1.0 if side is None else edges[side] for basis, edges in SPREAD.items()}


def _scheduled(
    job_costs: Sequence[Cost], after: Sequence[int | None], jobs: int, workers: int, factors: Mapping[str, float]
) -> float:
    """Return the seconds until all jobs are done if each begins, in order, as soon as a worker is free and the same job
    of its stage is done. `after`: the place of each cell's stage, which comes before it."""
    slower = _slowdown(job_costs, jobs, workers)
    free = [0.0] * min(workers, jobs * len(job_costs))
    for _ in range(jobs):
        ends: list[float] = []
        for cost, stage in zip(job_costs, after, strict=True):
            begins = max(heapq.heappop(free), ends[stage] if stage is not None else 0.0)
            ends.append(begins + slower * factors[cost.basis] * cost.seconds)
            heapq.heappush(free, ends[-1])
    return max(free)


def counted(cell: Cell) -> float:
    """Return the seconds of one run of `cell` by operation counts, on one core of the reference machine of suites and
    learners (AMD EPYC, Zen 4)."""
    return _count_seconds(*_key(cell))


def questions(cell: Cell) -> Usage | None:
    """Return the estimated usage of all foundation models by one run of `cell`, or None if it uses none."""
    usages = by_model(cell)
    return functools.reduce(Usage.plus, (usage for _, usage in usages)) if usages else None


def by_model(cell: Cell) -> list[tuple[str, Usage]]:
    """Return name and estimated usage, by role, of the foundation models that one run of `cell` calls, priced by recipe
    or settings. For a judge it is a lower bound, without clips cut short by the end of an episode and without tokens of
    prompts and answers. For other models it is the estimate of the part that uses them (`expected_usage` of its
    configuration)."""
    return [
        (cell.called(part), priced(cell.section(part.role), usage))
        for part in cell.models
        if (usage := _expected_usage(part, cell))
    ]


def all_questions(runs: Iterable[tuple[Cell, float]]) -> Usage:
    """Return the estimated usage of all models by the given number of runs of each cell, which may be fractional."""
    total = Usage()
    for cell, count in runs:
        if (usage := questions(cell)) is not None:
            calls, read, tokens_out, images, seconds, usd = (amount * count for amount in usage)
            total = total.plus(Usage(round(calls), round(read), round(tokens_out), round(images), seconds, usd))
    return total


def _expected_usage(part: Chosen, cell: Cell) -> Usage | None:
    """Return a run's estimated usage of the model in a role, or None if it is no foundation model."""
    parts, model = cell.sections, cell.section(part.role)
    if not study_models.is_recorded(model):
        return None
    view = config.cell_view(cell)
    needing = [other for other in parts.values() if isinstance(other, Part) and part.role in other.needs]
    expected = [other.expected_usage(view, part.role) for other in needing if isinstance(other, AskingPart)]
    usages = [usage for usage in expected if usage is not None]
    length = max((other.judged_transitions for other in needing if isinstance(other, ReplayPart)), default=0)
    if clips := parts["training"].steps // length if length else 0:
        recipe = recipes.recipe(model.model)
        images = clips * length
        usages.append(Usage(clips, tokens_in=images * (recipe.tokens_per_image if recipe else 0), images=images))
    return functools.reduce(Usage.plus, usages) if usages else None


def priced(model: Any, usage: Usage) -> Usage:
    """Return the usage with its price; a model that runs on this machine is free."""
    if model.backend == "transformers":
        return usage
    usd = 0.0
    for name, side in (("price_in", usage._replace(tokens_out=0)), ("price_out", usage._replace(tokens_in=0))):
        price = model.price_in if name == "price_in" else model.price_out
        tokens = side.tokens_in + side.tokens_out
        usd += recipes.price(model.model, side) if price is None else tokens * price / recipes.MILLION
    return usage._replace(usd=usd)


def _key(cell: Cell) -> tuple[object, ...]:
    """Return everything that the operation counts depend on, as a cache key."""
    return (
        cell.section("suite"),
        cell.names.task,
        cell.section("agent"),
        tuple(cell.section(part.role) for part in cell.names.of("learner")),
        cell.section("training"),
        cell.section("evaluation"),
    )


@functools.lru_cache(maxsize=4096)
def _count_seconds(suite, task, agent, learners, training, evaluation) -> float:  # type: ignore[no-untyped-def]
    observations, actions = suite.spaces(task)
    observations = agent.observes(observations, actions)
    step = suite.seconds_per_step(task)
    steps = training.steps if agent.learns else 0
    train = steps * (step + sum(learner.seconds_per_step(observations, actions) for learner in learners))
    # Greedy episodes end early, at the goal or in a cycle: after a few dozen steps in measured runs.
    evaluations = -(-training.steps // evaluation.every)
    evaluate = (
        evaluations
        * evaluation.episodes
        * EVALUATION_STEPS
        * (step + max((learner.seconds_per_action(observations, actions) for learner in learners), default=0.0))
    )
    return float(train + evaluate)


EVALUATION_STEPS = 60


def timed(cells: Sequence[Cell], setups: Sequence[Setup], seconds: float) -> list[Timing | None]:
    """Time each cell for about `seconds` seconds, one after the other in a separate process; None for a cell that could
    not be timed."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = str(sources.ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    request = {"seconds": seconds, "cells": [[record(cell), setup] for cell, setup in zip(cells, setups, strict=True)]}
    timings: list[Timing | None] = []
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "timings"
        # Timings written before a timeout are used.
        with open(output, "wb") as lines, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            # -P: a file in the current directory must not shadow a module.
            subprocess.run(
                [sys.executable, "-P", "-m", "guidebench.harness.run.estimates"], input=json.dumps(request).encode(),
                stdout=lines, stderr=subprocess.DEVNULL, env=environment,
                timeout=START + (PATIENCE + 4 * seconds) * len(cells), cwd=scratch,
            )  # fmt: skip
        for line in output.read_bytes().splitlines():
            try:
                content = json.loads(line)
                timings.append(Timing(**content) if isinstance(content, dict) else None)
            except (ValueError, TypeError):
                continue  # a library wrote to standard output
    return [*timings, *[None] * len(cells)][: len(cells)]


def keep(cell: Cell, setup: Setup, timing: Timing, basis: Basis) -> None:
    """Cache a cell's timing. A recorded run replaces a timing of some cycles, but not vice versa."""
    if basis == "timed" and (before := cached_timing(cell, setup)) is not None and before[1] == "recorded":
        return
    with contextlib.suppress(OSError):  # without the cache, the cell is timed again
        content = {"schema": SCHEMA, "basis": basis, "steps": cell.steps, **timing._asdict()}
        write_json(cached("timings", cell, *setup), content)


def record_run(cell: Cell, setup: Setup, clock: Mapping[str, float], judging: float, stepping: float) -> None:
    """Cache the timing of a finished run if it was long enough; waiting for foundation models is excluded.

    `clock`: `Loop.clock`; `judging`, `stepping`: seconds of the processes beside the worker, as of a `Timing`."""
    if clock["seconds"] < SHORTEST:
        return
    uses_models = any(study_models.is_recorded(cell.section(part.role)) for part in cell.models)
    elsewhere = clock["evaluation_seconds"] + (clock["wait_seconds"] if uses_models else 0.0)
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    training, evaluation = clock["seconds"] - elsewhere, clock["evaluation_seconds"] / evaluations
    keep(cell, setup, Timing(training, evaluation, 0.0 if uses_models else judging, stepping), "recorded")


def cached_timing(cell: Cell, setup: Setup) -> tuple[Timing, Basis] | None:
    """Return the cached timing of a cell that differs from this one at most in steps and evaluations, or None."""
    try:
        content = json.loads(cached("timings", cell, *setup).read_bytes())
        if content["schema"] != SCHEMA or content["basis"] not in get_args(Basis):
            return None
        longer = cell.steps / int(content["steps"])
        training, evaluation, judging, stepping = (float(content[name]) for name in Timing._fields)
        return Timing(longer * training, evaluation, longer * judging, longer * stepping), content["basis"]
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None


def _directory(of: str) -> Path:
    home = Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench")
    return home / of


def cached(kind: str, cell: Cell, *also: str | int) -> Path:
    """Return the cache file of a measurement (`kind`) of a cell on this machine with this version of PyTorch. Cells
    that differ only in steps and evaluations share it. `also`: further circumstances that it depends on."""
    values = {
        key: value.value for key, value in cell.settings.items() if key not in ("training.steps", "evaluation.every")
    }
    machine = [*hardware("cpu").values(), packages().get("torch")]
    content = [cell.names[:2], cell.names.parts, values, machine, also]
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return _directory(kind) / f"{key}.json"


def measure(cell: Cell, seeds: Sequence[int], device: str, seconds: float, directory: Path, beside: int = 0) -> Timing:
    """Measure the timing of a cell in this process, with `beside` processes that step its tasks; the cell stores its
    files in `directory`."""
    from guidebench.harness.execution import Models
    from guidebench.harness.loop.backends import backend_of, question_queues, question_roles
    from guidebench.harness.loop.build import make_build
    from guidebench.harness.loop.evaluation import Evaluator, solving
    from guidebench.harness.loop.training import Loop
    from guidebench.harness.models.questions import Backend

    places = [directory / str(seed) for seed in seeds]
    for place in places:
        place.mkdir(parents=True)
    job = Job("timing", str(directory), record(cell), tuple(seeds), device, models=asdict(Models(mode="live")))
    build = make_build(cell, seeds, device, places)
    agent: Agent = build.parts["agent"].spawn(build)
    backends: dict[str, Backend] = {}
    with contextlib.ExitStack() as closing:
        stepping = env_workers.EnvWorkers(beside)
        closing.callback(stepping.close)
        tasks = [stepping.make(build.suite(row), cell.names.task) for row in range(build.rows)]
        for role in question_roles(cell, agent):
            silent = role == registry.HUMAN or study_models.is_recorded(build.parts[role])
            backends[role] = Silent() if silent else backend_of((role,), job, cell, build)
            closing.callback(backends[role].close)
        every, now = question_queues(backends, job, cell), cell.consulted
        asks, consulted = (
            {role: every[role] for role in every if (role in now) == synchronous} for synchronous in (False, True)
        )
        episodes = min(EPISODES, build.parts["evaluation"].episodes)
        evaluator = Evaluator(
            lambda row: stepping.make(build.evaluated(row), cell.names.task), episodes, build.streams, cell.score,
            solving(build.parts["agent"], build.evaluated, cell.names.task),
        )  # fmt: skip
        loop = Loop(
            agent, tasks, build.streams, evaluator, Nowhere(), asks=asks, consulted=consulted, evaluate_every=1,
            checkpoint_every=1, datasets=datasets.loading(cell, seeds),
        )  # fmt: skip
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        trial = Trial(loop, clock_of(device, stepping))
        learners = [build.parts[part.role] for part in cell.names.of("learner")]
        starts = max((learner.learning_starts for learner in learners), default=1)
        filling = max((max(part.batch_size, min(part.learning_starts, FILL)) for part in learners), default=FILL)
        cycle = common_cycle([part.cycle for part in build.parts.values() if isinstance(part, Part)])
        training = trial.training(starts, filling, cycle, seconds)
        judges = [role for role in asks if asks[role].kind == "judge" and not isinstance(backends[role], Silent)]
        judging = sum(trial.judging(backends[role], asks[role].question_count) for role in judges)
        evaluation = trial.evaluation(evaluator, range(build.rows), seconds)
        evaluation *= build.parts["evaluation"].episodes / episodes
    evaluations = -(-cell.steps // build.parts["evaluation"].every)
    return Timing(training[0], evaluation[0], judging, training[1] + evaluations * evaluation[1])


def common_cycle(cycles: Sequence[int]) -> int:
    """Return the least common multiple of the cycles (`Part.cycle`, in steps) of at most `LONGEST_CYCLE` steps, or the
    longest of these cycles if the multiple exceeds `LONGEST_CYCLE`.

    >>> common_cycle([1, 4, 6, 5_000])
    12
    """
    short = [cycle for cycle in cycles if cycle <= LONGEST_CYCLE]
    common = math.lcm(*short)
    return common if common <= LONGEST_CYCLE else max(short)


def clock_of(device: str, stepping: env_workers.EnvWorkers) -> Clock:
    """Return a clock of a worker on a device, with these processes beside it."""
    if not device.startswith("cuda"):
        return lambda: np.array([time.process_time(), stepping.processor_seconds])
    import torch

    def synchronised() -> Array:
        torch.cuda.synchronize()
        return np.array([time.perf_counter(), stepping.processor_seconds])

    return synchronised


Clock = Callable[[], "Array"]
"""Returns the seconds of the worker and the processor time of the processes beside it, [2]."""


class Enough(Exception):
    """The time for an evaluation is over."""


class Trial:
    """Times the steps of a loop. All seconds are [2], as those of its clock."""

    def __init__(self, loop: Loop, clock: Clock, now: Callable[[], float] = time.monotonic) -> None:
        """`now` decides when enough was timed."""
        self._loop, self._clock, self._read_clock = loop, clock, now
        self._steps_done = 0
        self._phases = loop.agent.phases()

    def training(self, learning_starts: int, filling: int, cycle: int, seconds: float) -> Array:
        """Return the seconds of a whole run's training, whose learners begin at the step `learning_starts`, by timing
        each run phase for `seconds` divided by their number.

        First `filling` transitions are stored, however long that takes. Steps before learning starts take as long as
        those if they step the environment, and no time otherwise. `cycle`: steps after which the schedule of gradient
        steps repeats."""
        loop = self._loop
        total, filled, begin = np.zeros(2), None, 0
        for phase in self._phases:
            loop.enter(phase)
            acts = phase.source == "environment"
            if acts and filled is None:
                filled = self._fill(phase, min(filling, phase.steps))
            end = begin + phase.steps
            starts = max(begin, min(learning_starts, end)) if phase.updates is None else begin
            # Move to the step before the first learning step, so that one-time work there is excluded by WARM.
            loop.step = max(starts - 1, min(loop.step, end))
            step = self._cycles(phase, end - loop.step, cycle, seconds / len(self._phases))
            before = filled if acts and filled is not None else np.zeros(2)
            total = total + (starts - begin) * before + (end - starts) * (before if step is None else step)
            begin = end
        return total

    def _fill(self, phase: RunPhase, count: int) -> Array:
        """Take `count` steps and return the mean seconds of each, without the first ones."""
        warm = min(WARM, count // 2)
        self._advance(phase, warm)
        return self._timed(phase, count - warm)

    def _cycles(self, phase: RunPhase, remaining: int, cycle: int, seconds: float) -> Array | None:
        """Return the mean seconds [2] per step over whole timed cycles, at least one and as many as `seconds` allow,
        after warm-up cycles if the phase has more than one. None if no step remains."""
        if not remaining:
            return None
        cycle = min(cycle, remaining)
        cycles = remaining // cycle
        until = self._read_clock() + seconds
        for _ in range(min(-(-WARM // cycle), cycles - 1)):
            self._advance(phase, cycle)
            cycles -= 1
            if self._read_clock() > until:
                break
        until = self._read_clock() + seconds
        took = [self._timed(phase, cycle)]
        while len(took) < cycles and self._read_clock() < until:
            took.append(self._timed(phase, cycle))
        return np.mean(took, axis=0)  # type: ignore[no-any-return]

    def _timed(self, phase: RunPhase, steps: int) -> Array:
        """Take some steps and return the mean seconds of each."""
        started = self._clock()
        self._advance(phase, steps)
        return (self._clock() - started) / steps

    def _advance(self, phase: RunPhase, steps: int) -> None:
        for _ in range(steps):
            self._loop.advance(phase)
        self._steps_done += steps

    def evaluation(self, evaluator: Evaluator, rows: Sequence[int], seconds: float) -> Array:
        """Return the seconds [2] of an evaluation. Episodes that have not ended after `seconds` are assumed to last
        until their time limit."""
        limits: dict[int, int] = {}
        lengths: Counter[int] = Counter()
        until = self._read_clock() + seconds

        def watch(number: int, task: Task, action: Any) -> None:
            limits[number] = task.max_steps
            lengths[number] += 1
            if self._read_clock() > until and lengths[number] > 1:
                raise Enough

        started, shorter = self._clock(), 1.0
        try:
            evaluator(self._loop.agent, self._loop.step, rows, watch, lambda questions: [None] * len(questions))
        except Enough:
            latest = max(lengths.values())
            total_steps = sum(
                limits[episode] if length >= latest - 1 else length for episode, length in lengths.items()
            )
            shorter = lengths.total() / max(total_steps, lengths.total())
        return (self._clock() - started) / shorter

    def judging(self, backend: Any, question_count: int) -> float:
        """Return the seconds for which a parallel process draws and judges in a whole run with `question_count`
        questions so far, extrapolated from the clips answered so far."""
        until = time.monotonic() + ANSWERED
        before = (0, 0.0)
        while backend.clips < min(question_count, CLIPS) and time.monotonic() < until:
            backend.poll()
            time.sleep(0.02)
            if not before[0]:
                before = backend.clips, backend.seconds  # exclude the first clips, which include one-time work
        clips, seconds = backend.clips - before[0], backend.seconds - before[1]
        if not clips or getattr(backend, "pid", None) is None:
            return 0.0
        steps = sum(phase.steps for phase in self._phases)
        return float(seconds / clips * question_count / self._steps_done * steps)


class Silent:
    """A backend in place of a foundation model during timing: every question ends without an answer."""

    restarts, clips, seconds, halted = 0, 0, 0.0, ""

    def __init__(self) -> None:
        from guidebench.harness.models.questions import Memory

        self.memory = Memory()

    def ask(self, ticket: Any, question: Any, ahead: bool = False) -> None: ...
    def arrived(self, ticket: Any) -> bool:
        return True

    def wait(self, ticket: Any) -> bool:
        return True

    def take(self, ticket: Any, stop: Callable[[], bool] | None = None) -> tuple[Any, float]:
        from guidebench.harness.models.calls import Answer

        return Answer(None, "breaker"), 0.0

    def poll(self) -> None: ...
    def publish(self, followers: Sequence[Path] = ()) -> None: ...
    def close(self, keep: bool = True, followers: Sequence[Path] = ()) -> None: ...


class Nowhere:
    """A journal that writes nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def main() -> None:
    """Time the cells on standard input and write the results to standard output."""
    request: Mapping[str, Any] = json.loads(sys.stdin.read())
    output, sys.stdout = sys.stdout, sys.stderr
    import torch

    torch.set_num_threads(1)
    for content, (seeds, device, beside) in request["cells"]:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                cell = recorded(content)
                timing: Any = measure(
                    cell, tuple(range(seeds)), device, request["seconds"], Path(scratch), beside
                )._asdict()
            except Exception as error:  # the cell's runs will report the error
                timing = repr(error)
        print(json.dumps(timing), file=output, flush=True)


if __name__ == "__main__":
    processes.begin()
    main()
    processes.leave(0)
