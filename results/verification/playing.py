"""A stranger's policy played, in a process of its own that is bounded in memory and watched by the clock.

A policy is data: names, shapes and numbers in a safetensors file. What a configuration makes of it is built only where
the file holds the parameters that its network needs, so an absurd one is refused before it takes any memory; what no
file tells (a reward's network, a thousand environments) meets the process's limits instead.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.apart import Apart, asked
from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.plan.config import Cell, Value
from guidebench.results import policies

MEMORY = 2**33
"""Bytes of data of the process."""
MOST_EPISODES = 10_000
"""Of one evaluation: their tasks are all there at a time."""


class Wanted(NamedTuple):
    """What is to be played with the policy of a run."""

    cell: Path
    """Directory of its cell."""
    id: str
    seed: int
    """Of the run, whose directory is seed-SEED."""
    step: int
    """Of its final evaluation."""
    episodes: int
    """Of that evaluation."""
    layouts: int
    """Seed of the new layouts."""
    renewed: int
    """Episodes on them."""
    cassette: Path | None = None
    """What the run's models answered, for an agent that asks them while it acts; None where that is not known."""
    reached: Mapping[str, Mapping[str, Any]] | None = None
    """Role -> settings of the verifier's model there, which is asked about new layouts; None where nobody may be."""
    unreached: str = ""
    """Why nobody may be."""
    spent: str = ""
    """The directory in which what these models are asked and cost is counted."""
    allowed: Mapping[str, float | None] = {}
    """What they may cost: the limits of `models.budget_…`."""


class Misfit(Exception):
    """A policy that cannot be of its configuration; the message says why."""


class Played(NamedTuple):
    """What came of it."""

    again: list[Result]
    """The final evaluation once more."""
    renewed: list[Result]
    """Of new layouts; empty where every episode of a run is the same, so that there is no new one, and where the agent
    would have to ask models about them."""
    end: int
    """Step at which the configuration says that a run ends."""
    deterministic: bool
    """Whether the agent acts greedily without drawing anything, so that episodes repeat; so they do where models
    answer as is recorded."""
    unplayed: str = ""
    """Why no new layouts were played, of an agent that asks models while it acts."""


class Player(Apart):
    """The process; ended and begun anew where one run was too much for it."""

    def __init__(self, limit: float) -> None:
        """`limit`: seconds for one run."""
        super().__init__(serve)
        self._limit = limit

    def __call__(self, wanted: Wanted) -> Played:
        """Misfit, or UserError that says why a policy cannot be played here."""
        connection = self.begun()
        try:
            connection.send(wanted)
            if not connection.poll(self._limit):
                self.close()
                raise UserError(f"it takes longer than {self._limit:g} s; give it more with --limit")
            answer: Played | Misfit | UserError = connection.recv()
        except (EOFError, ConnectionError):
            raise UserError(f"its process ended with exit code {self.ended()}; it may need too much memory") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def serve(connection: Connection) -> None:
    """Play what is asked for."""
    wanted: Wanted
    answer: Played | Misfit | UserError
    _limit_memory()
    for wanted in asked(connection):
        try:
            answer = play(wanted)
        except (Misfit, UserError) as error:
            answer = error
        except MemoryError:
            answer = UserError(f"it needs more than {MEMORY / 2**30:g} GiB of memory")
        except Exception as error:  # a stranger's numbers may make anything fail
            answer = UserError(f"it cannot be played ({type(error).__name__}: {str(error)[:300]})")
        connection.send(answer)


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):
        pass  # a system without such limits, or one that allows less already


def play(wanted: Wanted) -> Played:
    """Both evaluations of a policy; Misfit where it is not of its configuration, UserError where that is too much."""
    import torch

    from guidebench.harness.execution import Models
    from guidebench.harness.identity.cells import record
    from guidebench.harness.loop.asking import consultations
    from guidebench.harness.loop.building import make_build
    from guidebench.harness.loop.evaluation import Consult, Evaluator, nobody
    from guidebench.harness.loop.job import Job
    from guidebench.harness.models import keeping
    from guidebench.harness.plan import answering
    from guidebench.harness.playback.reevaluation import load_agent
    from guidebench.harness.records.study import RunDirectory
    from guidebench.harness.streams import Streams
    from guidebench.results.verification.configuration import configuration

    torch.set_num_threads(1)  # as where runs train on a CPU, so that sums come out the same
    if max(wanted.episodes, wanted.renewed) > MOST_EPISODES:
        raise UserError(f"{max(wanted.episodes, wanted.renewed):,} episodes are more than {MOST_EPISODES:,}")
    cell = configuration(wanted.cell, wanted.id)
    run = RunDirectory(wanted.cell / f"seed-{wanted.seed}")
    suite, task = cell.section("suite").of_run(wanted.seed), cell.names.task
    check_policy(run.path / "policy.safetensors", cell)
    with tempfile.TemporaryDirectory() as scratch:
        agent = load_agent(cell, run, Path(scratch), suite.spaces(task))

        def evaluated(seed: int, step: int, episodes: int, consult: Consult = nobody) -> list[Result]:
            evaluator = Evaluator(lambda row: suite.make(task), episodes, [Streams(seed)], cell.score)
            return evaluator(agent, step, [0], None, consult)

        renewed: list[Result] = []
        unplayed, consulted = "", answering.consulted(cell.names.parts)
        build = make_build(cell, [wanted.seed], "cpu", [Path(scratch)])
        asked = [role for role in sorted(consulted) if keeping.recorded(cell.section(role))]
        if asked and wanted.cassette is None:
            raise UserError(
                f"its agent asks its {' and '.join(asked)} while it acts, and the submission holds no recorded calls "
                f"(bench submit --cassette adds them)"
            )
        models = Models(mode="replay", cassette=str(wanted.cassette)) if asked else Models()
        job = Job("verify", scratch, record(cell), (wanted.seed,), "cpu", models=asdict(models))
        with consultations(job, cell, build) as within:
            again = evaluated(wanted.seed, wanted.step, wanted.episodes, within(f"evaluation/{wanted.step}"))
            alike = suite.repeats(task) and agent.deterministic
            scope = f"verify/{wanted.layouts}"
            if not (alike or asked):
                renewed = evaluated(wanted.layouts, 0, wanted.renewed, within(scope))
        if not alike and wanted.reached is not None and asked:
            reached = _reaching(cell, wanted.reached)
            limits = {f"budget_{name}": value for name, value in wanted.allowed.items()}
            job = replace(job, directory=wanted.spent or scratch, models=asdict(Models(**limits)))  # type: ignore[arg-type]
            build = make_build(reached, [wanted.seed], "cpu", [Path(scratch)])
            try:
                with consultations(job, reached, build) as within:
                    renewed = evaluated(wanted.layouts, 0, wanted.renewed, within(scope))
            except BudgetReached as reason:
                unplayed = str(reason)
        elif asked and not alike:
            unplayed = wanted.unreached
    end, repeats = sum(phase.steps for phase in agent.phases()), agent.deterministic or bool(consulted)
    return Played(again, renewed, end, repeats, unplayed)


def _reaching(cell: Cell, reached: Mapping[str, Mapping[str, Any]]) -> Cell:
    """The cell with the verifier's models in these roles."""
    own = {f"{role}.{name}": value for role, values in reached.items() for name, value in values.items()}
    values = {key: Value(own.get(key, old.value), old.layer, old.source) for key, old in cell.settings.items()}
    return Cell(cell.names, values, cell.overrides)


def check_policy(path: Path, cell: Cell) -> None:
    """Misfit for a file that is no policy, that does not fit the network of the cell's learner, or whose numbers are
    not all finite."""
    try:
        held = policies.table(path)
        for name, shape in _needed(cell).items():
            found = held[name].shape if name in held else "none"
            if found != shape:
                raise Misfit(
                    f"policy.safetensors does not fit the configuration: {name} has shape {found}, and the network "
                    f"needs {shape}"
                )
        policies.digests(path)
    except (OSError, ValueError) as error:
        raise Misfit(f"policy.safetensors is no policy ({str(error)[:200]})") from None


def _needed(cell: Cell) -> Mapping[str, tuple[int, ...]]:
    """Name -> shape of the parameters by which the cell's learner acts, those of an ensemble with its size first;
    nothing of a learner that does not name its networks. Nothing is built for it."""
    learner, spaces = cell.section("learner"), cell.section("suite").spaces(cell.names.task)
    found: dict[str, tuple[int, ...]] = {}
    for kind in ("network", "actor", "critic"):
        network = getattr(learner, kind, None)
        if network is not None:
            members = (learner.ensemble,) if kind == "critic" else ()
            found |= {name: (*members, *spec.shape) for name, spec in network(*spaces).specs().items()}
    return found
