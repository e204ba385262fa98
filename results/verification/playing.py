"""Evaluate an untrusted policy in a separate process with limits on memory and time.

A policy is data: names, shapes and numbers in a safetensors file. An agent is built only if the file contains the
parameters that the configuration's network needs, so an absurd configuration is rejected before it allocates memory.
The process's limits cover everything else, such as a reward network or a thousand environments.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.companions import ServingProcess
from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell, Value
from guidebench.harness.reader_process import requests
from guidebench.results import policies
from guidebench.results.verification import pictures
from guidebench.results.verification.pictures import GalleryRun

MEMORY = 2**33
"""Most bytes of the process's data."""
MOST_EPISODES = 10_000
"""Most episodes of one evaluation, whose environments all exist at the same time."""


class RunEvaluations(NamedTuple):
    """The evaluations to make with the policy of a run."""

    cell: Path
    """Directory of the run's cell."""
    id: str
    seed: int
    """Seed of the run, whose directory is seed-SEED."""
    step: int
    """Step of the run's final evaluation."""
    episodes: int
    """Episodes of the final evaluation."""
    layouts: int
    """Seed of the new layouts."""
    renewed: int
    """Episodes on new layouts."""
    cassette: Path | None = None
    """Recorded answers for an agent that calls models while it acts; None if there are none."""
    reached: Mapping[str, Mapping[str, Any]] | None = None
    """Role -> settings of the verifier's model for new layouts; None if no model may be called."""
    unreached: str = ""
    """Why no model may be called."""
    spent: str = ""
    """Directory of the budget account of these calls."""
    allowed: Mapping[str, float | None] = {}
    """Limits on these calls, as in `models.budget_…`."""


class Misfit(Exception):
    """A policy that does not fit its configuration; the message says why."""


class Played(NamedTuple):
    """Results of the evaluations."""

    again: list[Result]
    """Results of the repeated final evaluation."""
    renewed: list[Result]
    """Results on new layouts; empty if all episodes of a run are equal, or if the agent would need models that may not
    be called."""
    end: int
    """Step at which a run ends according to the configuration."""
    deterministic: bool
    """Whether episodes are reproducible: the agent acts without randomness, or models give their recorded answers."""
    unplayed: str = ""
    """Why an agent that calls models while it acts was not evaluated on new layouts."""


class Player(ServingProcess):
    """The evaluating process, restarted if a run exceeds its limits."""

    def __init__(self, limit: float) -> None:
        """`limit`: seconds for one run."""
        super().__init__(serve)
        self._limit = limit

    def __call__(self, evaluations: RunEvaluations) -> Played:
        """Evaluate a policy; raise Misfit, or UserError saying why it cannot be evaluated in this installation."""
        played: Played = self._answer(evaluations)
        return played

    def pictures(self, gallery_run: GalleryRun) -> dict[int, str]:
        """Play the episodes of a gallery again and return what `pictures.replayed` does; raise Misfit or UserError."""
        differences: dict[int, str] = self._answer(gallery_run)
        return differences

    def _answer(self, request: RunEvaluations | GalleryRun) -> Any:
        connection = self.begun()
        try:
            connection.send(request)
            if not connection.poll(self._limit):
                self.close()
                raise UserError(f"it takes longer than {self._limit:g} s; give it more with --limit")
            answer = connection.recv()
        except (EOFError, ConnectionError):
            raise UserError(f"its process ended with exit code {self.ended()}; it may need too much memory") from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def serve(connection: Connection) -> None:
    """Evaluate the policies that arrive on the connection."""
    request: RunEvaluations | GalleryRun
    answer: Played | dict[int, str] | Misfit | UserError
    _limit_memory()
    for request in requests(connection):
        try:
            answer = pictures.replayed(request) if isinstance(request, GalleryRun) else play(request)
        except (Misfit, UserError) as error:
            answer = error
        except MemoryError:
            answer = UserError(f"it needs more than {MEMORY / 2**30:g} GiB of memory")
        except Exception as error:  # untrusted numbers may raise anything
            answer = UserError(f"it cannot be played ({type(error).__name__}: {str(error)[:300]})")
        connection.send(answer)


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):
        pass  # the system has no such limits, or a lower one is set


def play(request: RunEvaluations) -> Played:
    """Make both evaluations of a policy; raise Misfit if it does not fit its configuration, UserError if a limit is
    exceeded."""
    import torch

    from guidebench.harness.execution import Models
    from guidebench.harness.identity.cells import record
    from guidebench.harness.loop.backends import consultations
    from guidebench.harness.loop.build import make_build
    from guidebench.harness.loop.evaluation import Consult, Evaluator, nobody, solving
    from guidebench.harness.loop.job import Job
    from guidebench.harness.models import study_models
    from guidebench.harness.playback.reevaluation import load_agent
    from guidebench.harness.records.study import POLICY, RunDirectory
    from guidebench.harness.streams import Streams
    from guidebench.results.verification.configuration import configuration

    torch.set_num_threads(1)  # as in training on a CPU, so that sums round equally
    if max(request.episodes, request.renewed) > MOST_EPISODES:
        raise UserError(f"{max(request.episodes, request.renewed):,} episodes are more than {MOST_EPISODES:,}")
    cell = configuration(request.cell, request.id)
    run = RunDirectory(request.cell / f"seed-{request.seed}")
    suite, task = cell.section("suite").of_run(request.seed).in_evaluation(), cell.names.task
    check_policy(run.path / POLICY, cell)
    with tempfile.TemporaryDirectory() as scratch:
        agent = load_agent(cell, run.path / POLICY, request.seed, Path(scratch), suite.spaces(task))

        solve = solving(cell.section("agent"), lambda row: suite, task)

        def evaluated(seed: int, step: int, episodes: int, consult: Consult = nobody) -> list[Result]:
            evaluator = Evaluator(lambda row: suite.make(task), episodes, [Streams(seed)], cell.score, solve)
            return evaluator(agent, step, [0], None, consult)

        renewed: list[Result] = []
        unplayed, consulted = "", cell.consulted
        build = make_build(cell, [request.seed], "cpu", [Path(scratch)])
        asked_roles = [role for role in sorted(consulted) if study_models.is_recorded(cell.section(role))]
        if asked_roles and request.cassette is None:
            raise UserError(
                f"its agent asks its {' and '.join(asked_roles)} while it acts, and the submission holds no recorded "
                f"calls (bench submit --cassette adds them)"
            )
        models = Models(mode="replay", cassette=str(request.cassette)) if asked_roles else Models()
        job = Job("verify", scratch, record(cell), (request.seed,), "cpu", models=asdict(models))
        with consultations(job, cell, build) as within:
            again = evaluated(request.seed, request.step, request.episodes, within(f"evaluation/{request.step}"))
            alike = suite.repeats(task) and agent.deterministic
            scope = f"verify/{request.layouts}"
            if not (alike or asked_roles):
                renewed = evaluated(request.layouts, 0, request.renewed, within(scope))
        if not alike and request.reached is not None and asked_roles:
            reached = _reaching(cell, request.reached)
            limits = {f"budget_{name}": value for name, value in request.allowed.items()}
            job = replace(job, directory=request.spent or scratch, models=asdict(Models(**limits)))  # type: ignore[arg-type]
            build = make_build(reached, [request.seed], "cpu", [Path(scratch)])
            try:
                with consultations(job, reached, build) as within:
                    renewed = evaluated(request.layouts, 0, request.renewed, within(scope))
            except BudgetReached as reason:
                unplayed = str(reason)
        elif asked_roles and not alike:
            unplayed = request.unreached
    end, repeats = sum(phase.steps for phase in agent.phases()), agent.repeatable or bool(consulted)
    return Played(again, renewed, end, repeats, unplayed)


def _reaching(cell: Cell, reached: Mapping[str, Mapping[str, Any]]) -> Cell:
    """Return the cell with the verifier's models in the given roles."""
    overrides = {f"{role}.{name}": value for role, values in reached.items() for name, value in values.items()}
    values = {key: Value(overrides.get(key, old.value), old.layer, old.source) for key, old in cell.settings.items()}
    return replace(cell, settings=values)


def check_policy(path: Path, cell: Cell) -> None:
    """Raise Misfit unless a file is a policy that fits the network of the cell's learner and has only finite
    numbers."""
    try:
        places = policies.table(path)
        for name, shape in _needed(cell).items():
            actual = places[name].shape if name in places else "none"
            if actual != shape:
                raise Misfit(
                    f"policy.safetensors does not fit the configuration: {name} has shape {actual}, and the network "
                    f"needs {shape}"
                )
        policies.digests(path)
    except (OSError, ValueError) as error:
        raise Misfit(f"policy.safetensors is no policy ({str(error)[:200]})") from None


def _needed(cell: Cell) -> Mapping[str, tuple[int, ...]]:
    """Return name -> shape of the parameters with which the cell's learner acts, with the ensemble size as first axis;
    empty if the learner does not name its networks. No network is built."""
    learner, place = cell.section("learner"), config.cell_view(cell)
    shapes: dict[str, tuple[int, ...]] = {}
    for kind in ("network", "actor", "critic"):
        network = getattr(learner, kind, None)
        if network is not None:
            members = (learner.ensemble,) if kind == "critic" else ()
            shapes |= {
                name: (*members, *spec.shape)
                for name, spec in network(place.observations, place.actions).specs().items()
            }
    return shapes
