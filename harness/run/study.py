"""Executes a study: skips finished runs, resumes interrupted ones, and packs the rest onto this machine's workers."""

from __future__ import annotations

import itertools
import math
import os
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness import claims, consent
from guidebench.harness.episodes import datasets, demonstrations
from guidebench.harness.errors import UserError, count, in_role, size
from guidebench.harness.identity.cells import record, write_cell
from guidebench.harness.identity.provenance import commit
from guidebench.harness.identity.sources import Sources, differing
from guidebench.harness.launchers import ending, job_files
from guidebench.harness.launchers.base import Event, Slot
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.build import most_stored, ring_slots
from guidebench.harness.loop.job import Job
from guidebench.harness.models import study_models
from guidebench.harness.parts import AskingPart
from guidebench.harness.plan import answering, arrays, config, matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records import attempts, formatting, leases
from guidebench.harness.records.files import write_json
from guidebench.harness.records.leases import Fenced, Lease, LeaseHeld
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.run import estimates, following, readiness, stages
from guidebench.harness.run.journal import tidy
from guidebench.harness.settings import show
from guidebench.harness.texts import control_characters
from guidebench.harness.trackers import side_processes

MOST_NAMED = 6
"""Maximum number of changed groups of sources named in an error."""


@dataclass(frozen=True)
class Run:
    """The status of one run of a study."""

    cell: Cell
    seed: int
    directory: Path
    status: str
    error: str | None
    step: int = 0
    """Step from which it goes on."""


@dataclass(frozen=True, repr=False)
class Study:
    """A study on disk. `print(study)` prints a line, and the errors of its runs; a notebook shows a table of them."""

    name: str
    directory: Path
    runs: tuple[Run, ...]
    stopped: bool = False
    submitted: int | None = None
    """Number of jobs that a scheduler has, which goes on without the command; None where the command waits for them."""

    @property
    def finished(self) -> bool:
        return all(run.status == "finished" for run in self.runs)

    def __repr__(self) -> str:
        runs = ((f"{run.cell.directory}, seed {run.seed}", run.status, run.error) for run in self.runs)
        return formatting.report(self.name, self.directory, runs)

    def _repr_html_(self) -> str:
        rows = [
            (*(run.cell.names[:2]), run.cell.names.method, run.cell.variant, run.cell.model, run.cell.names.profile,
             str(run.seed), run.status, formatting.last_line(run.error))
            for run in self.runs
        ]  # fmt: skip
        headings = ("suite", "task", "method", "variant", "model", "profile", "seed", "status", "error")
        return formatting.table(
            formatting.line(self.name, self.directory, (run.status for run in self.runs)), headings, rows
        )


def directory_of(plan: Plan) -> Path:
    """Return the directory of a plan's study. Raise UserError for a path with control characters: schedulers list
    directories line by line, and a terminal would obey what it prints."""
    directory = Path(plan.execution.output or f"runs/{plan.name}")
    if controls := control_characters(str(directory.absolute())):
        raise UserError(
            f"output={str(directory)!r}: the path of a study may hold no control characters, and this one holds "
            f"{controls}; name another directory"
        )
    return directory


def name_of(plan: Plan) -> str:
    """Return the name of the study already in the directory, else that of the plan."""
    directory = directory_of(plan)
    study_record = StudyDirectory(directory).read() if (directory / "study.json").exists() else {}
    return str(study_record.get("study", plan.name))


def carry_out(
    plan: Plan, watch: Callable[[Event], None] = lambda event: None, begin: Callable[[], None] = lambda: None
) -> Study:
    """Train every unfinished run of `plan`; finished runs are not changed. `begin` is called after the checks for
    missing requirements and before any file is written; an error that it raises ends the command."""
    directory = directory_of(plan)
    study = StudyDirectory(directory)
    if lacking := readiness.missing(plan, directory, _unfinished(plan, study)):
        raise UserError("\n".join(lacking))
    _check_directory(directory, plan.claims.path.parent if plan.claims is not None else None)
    begin()  # from here on files are written
    _make_directory(directory)
    lease = Lease(directory, "study")
    lease.acquire(tell=leases.warn)
    try:
        cells = {
            cell.id: {
                "directory": cell.directory,
                "seeds": list(plan.seeds),
                "label_variant": plan.variant(cell),
                **plan.place(cell),
            }
            for cell in plan.trained
        }
        _check_sources(plan, study)
        _check_matrices(plan, study)
        _check_claims(plan, study)
        launcher = matrix.launcher_of(plan.execution)
        places = launcher.slots(plan.execution)
        name = name_of(plan)
        jobs = _jobs(plan, name, study, places)
        _check_stages(plan, jobs, study)
        _check_disk(plan, jobs, len(places), directory, _gather(plan, jobs, study))
        _check_models(plan, jobs, directory)
        _warn_of_budget(plan, jobs, study, watch)
        for warning in readiness.warnings(plan) if jobs else ():
            watch(Event(jobs[0], "notice", {"error": warning}))
        _contact(plan, jobs, places[0].device, directory, watch)
        _demonstrate(plan, jobs, study, watch)
        _check_parts(plan, jobs, study)
        if plan.claims is not None:
            write_json(directory / claims.CLAIMS, plan.claims.record.as_json(), lease.fence)
        claims_record = plan.claims.as_json() if plan.claims is not None else None
        study.write(name, list(plan.command), cells, lease.fence, claims_record)
        for cell in plan.trained:
            write_cell(study, cell)
        recorder = _Recorder(study, watch, launcher.shared)
        started = launcher.spawn(plan.execution, directory)
        if launcher.shared:
            job_files.note_launcher(directory, plan.execution.launcher)
        if launcher.detached:
            started.submit(jobs)
            return replace(look(plan), submitted=len(started.queued()))
        stopped = following.follow(started, jobs, recorder)
        _settle(plan, study)
        return look(plan, stopped, recorder.failed)
    except Fenced as lost:
        raise UserError(f"{lost} while this one made no progress; type the command again") from None
    finally:
        lease.release()


def run(*overrides: str, **settings: Any) -> Study:
    """Train the runs that `bench run` would train, and return the study.

    `guidebench.run("suite=classic", "method=uer", seeds=3)`: settings are strings in the command line's grammar, or
    keywords (`method=["uer", "per"]` sweeps; `models="oracle"` fills the roles of models; dotted names by
    `**{"learner.lr": 1e-4}`). Raises UserError for invalid settings before training. A failed run does not raise; see
    `study.runs`. Reports and comparisons are written by `bench report` and `bench compare`, so `report` and `against`
    have no effect here.
    """
    if strange := next((word for word in overrides if not isinstance(word, str)), None):
        raise UserError(
            f"guidebench.run was given {str(strange)[:100]!r} ({type(strange).__name__}); give each word as a text of "
            f"its own, guidebench.run('suite=classic', 'method=uer'), or unpack a list: guidebench.run(*words)"
        )
    texts = [
        *overrides,
        *(f"{key}={_text(value) if key != 'seeds' else show(value)}" for key, value in settings.items()),
    ]
    consent.grant(texts)
    planned = matrix.plan(texts)
    with side_processes.run_followers(
        planned.execution.trackers, directory_of(planned), lambda line: warnings.warn(line, stacklevel=4)
    ):
        return carry_out(planned)


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(show(element) for element in value)
    return show(value)


def look(plan: Plan, stopped: bool = False, failed: Mapping[Path, str] | None = None) -> Study:
    """Return the runs of a plan with their status on disk; `failed` holds errors that a full disk could not store."""
    study = StudyDirectory(directory_of(plan))
    runs = []
    for cell, seed in itertools.product(plan.trained, plan.seeds):
        run = study.run(cell.directory, seed)
        content = run.read()
        if failed and run.home in failed:
            content |= {"status": "failed", "error": failed[run.home]}
        status, step = content.get("status", "waiting"), int(content.get("step", 0))
        runs.append(Run(cell, seed, run.home, status, content.get("error"), step))
    return Study(name_of(plan), study.path, tuple(runs), stopped)


def require_finished(outcome: Study, owner: str) -> None:
    """Raise KeyboardInterrupt if a study was stopped, and UserError, naming the first failure, unless all of its runs
    have finished. `owner`: what the runs belong to, such as `the pilot`."""
    if outcome.stopped:
        raise KeyboardInterrupt
    if failed := [run for run in outcome.runs if run.status != "finished"]:
        first = failed[0]
        error = (first.error or "no error is on record").strip().splitlines()[-1]
        raise UserError(
            f"{count(len(failed), 'run')} of {owner} did not finish, such as {first.cell.names.method} at seed "
            f"{first.seed}: {error}; mend that and type the same command, which continues"
        )


@dataclass
class _Recorder:
    """Writes the status of runs into run.json after their worker has ended."""

    study: StudyDirectory
    watch: Callable[[Event], None]
    scheduled: bool = False
    """Whether a scheduler tells the ends of workers, which are on other machines."""
    failed: dict[Path, str] = field(default_factory=dict)
    """Run directory -> error that could not be written."""

    def __call__(self, event: Event) -> None:
        error = str(event.content.get("error", ""))
        self.failed |= ending.record(self.study, event.job, event.kind, error, abandoned=self.scheduled)
        self.watch(event)


def _jobs(plan: Plan, name: str, study: StudyDirectory, places: Sequence[Slot]) -> list[Job]:
    """Return jobs for the unfinished runs; all seeds of a job are at the same step. Jobs alternate over the cells."""
    execution = plan.execution
    on_gpu = places[0].device != "cpu"
    by_cell: list[list[Job]] = []
    for cell in plan.trained:
        at_step: dict[int, list[int]] = {}
        for seed in plan.seeds:
            run = study.run(cell.directory, seed)
            if run.status == "finished":
                # killed before its files were tidied, or before they were moved
                if (run.path / "evaluations.jsonl").exists() or attempts.remain(run.home):
                    _complete(run.home, cell, execution.keep_replay)
                continue
            saved = checkpoints.existing(run.path)
            at_step.setdefault(checkpoints.step_of(saved[-1]) if saved else 0, []).append(seed)
        pack = execution.pack or (len(plan.seeds) if on_gpu else 1)
        packs = [tuple(group) for seeds in at_step.values() for group in _batched(seeds, pack)]
        content = record(cell) if packs else {}
        by_cell.append(
            [
                Job(
                    study=name,
                    directory=str(study.path),
                    cell=content,
                    seeds=seeds,
                    checkpoint_every=execution.checkpoint_every,
                    probes=execution.probes,
                    keep_replay=execution.keep_replay,
                    answers=execution.answers,
                    env_workers=execution.env_workers,
                    silent_after=execution.silent_after,
                    pack=execution.pack,
                    models=asdict(execution.models),
                    shared=_shared(plan, study.path),
                )
                for seeds in packs
            ]
        )
    return [job for turn in itertools.zip_longest(*by_cell) for job in turn if job is not None]


def _complete(home: Path, cell: Cell, keep_replay: bool) -> None:
    """Delete the files of a finished run that only training needs, and move its attempt into place. Do nothing if a
    worker holds the run, since the worker does both itself."""
    lease = Lease(home, "run")
    with suppress(LeaseHeld, Fenced):
        lease.acquire()
        run = RunDirectory(home)  # as the holder before left it
        if run.status == "finished":
            lease.fence()
            tidy(run, cell, keep_replay)
            run.publish(lease)
    lease.release()


def _shared(plan: Plan, directory: Path) -> bool:
    """Return whether workers on other machines may write the study, of this command or of one before."""
    return matrix.launcher_of(plan.execution).shared or bool(job_files.launchers(directory))


def _batched(seeds: Sequence[int], size: int) -> Iterable[list[int]]:
    for start in range(0, len(seeds), size):
        yield list(seeds[start : start + size])


def continues(plan: Plan) -> bool:
    """Return whether the directory of a plan holds a study that a command has begun."""
    return (directory_of(plan) / "study.json").exists()


def _unfinished(plan: Plan, study: StudyDirectory) -> list[Cell]:
    """Return the cells with unfinished runs."""
    return [
        cell
        for cell in plan.trained
        if any(study.run(cell.directory, seed).status != "finished" for seed in plan.seeds)
    ]


def _check_directory(directory: Path, claims_folder: Path | None = None) -> None:
    """Raise UserError for a directory that holds files but no study, unless it is the folder of the plan's claims."""
    if directory.exists() and not directory.is_dir():
        raise UserError(f"output={directory} is a file; name a directory")
    if not directory.exists() or (directory / "study.json").exists():
        return
    if claims_folder is not None and claims_folder.resolve() == directory.resolve():
        return  # the claims lie there, with the pilot's record and its answers
    calls_folder = study_models.folder(directory)  # may exist before study.json, with the cost of a first call
    if any(not path.name.startswith(".") and path != calls_folder for path in directory.iterdir()):
        raise UserError(f"output={directory} holds files but is not a study; name an empty or a new directory")


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"output={directory} cannot be made ({error.strerror}); name another directory") from None
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UserError(f"output={directory} cannot be written to; change its permissions or name another directory")


def _check_claims(plan: Plan, study: StudyDirectory) -> None:
    """Raise UserError if the directory holds a study of other claims, or one that ran without any: claims are written
    down before the first seed of their study runs."""
    if plan.claims is None or not (study.path / "study.json").exists():
        return
    earlier = study.read().get("claims")
    digest = earlier.get("digest") if isinstance(earlier, dict) else None
    if digest != plan.claims.record.digest:
        reason = f"of claims with the digest {digest}" if digest else "without claims"
        raise UserError(
            f"output={study.path} holds a study {reason}, and claims={plan.claims.path} has the digest "
            f"{plan.claims.record.digest}; name another directory with output="
        )


def _check_sources(plan: Plan, study: StudyDirectory) -> None:
    """Raise UserError if runs of the plan, including finished ones, were made by other code than the current one. A run
    without a checkpoint, such as one that failed early, restarts with the current code.

    Old records without source digests are compared by their commit.
    """
    if plan.execution.mixed_commits:
        return
    head, _ = commit()
    now = Sources()
    changed: dict[str, list[str]] = {}
    commits: set[str] = set()
    for cell, seed in itertools.product(plan.trained, plan.seeds):
        run = study.run(cell.directory, seed)
        content = run.read()
        if content.get("status") != "finished" and not checkpoints.existing(run.path):
            continue
        provenance = content.get("provenance", {})
        if "sources" in provenance:
            groups = differing(provenance["sources"], now.of(cell.names))
        else:
            groups = [] if provenance.get("commit", head) == head else [f"commit {head[:10] or 'unknown'}"]
        for group in groups:
            changed.setdefault(group, []).append(content.get("status", "waiting"))
            commits.add(provenance.get("commit", "")[:10] or "unknown")
    if changed:
        statuses = max(changed.values(), key=len)
        counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
        group_names = ", ".join(list(changed)[:MOST_NAMED]) + (
            f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        )
        path = shlex.quote(str(study.path))
        raise UserError(
            f"{study.path} holds runs ({counts}) that were made by other code than the current one: {group_names} "
            f"changed since commit {', '.join(sorted(commits))}. Choose one:\n"
            f"  output=…              train all runs again, in another directory\n"
            f"  mixed_commits=true    keep these runs and train the missing ones with the current code\n"
            f"  neither               only report these runs: bench report {path}; or undo the change"
        )


def _check_matrices(plan: Plan, study: StudyDirectory) -> None:
    """Raise UserError if a cell belongs to another matrix in the directory, which the new one would replace."""
    recorded_cells = study.read()["cells"] if (study.path / "study.json").exists() else {}
    for cell in plan.trained:
        planned, earlier = (place.get("matrix") for place in (plan.place(cell), recorded_cells.get(cell.id, {})))
        if planned and earlier and any(planned[key] != earlier[key] for key in ("kind", "reference")):
            raise UserError(
                f"{cell.directory} is {earlier['name']!r} in the {earlier['kind']} matrix of {study.path}, which would "
                f"lose it to this command's {planned['kind']} matrix, in which it is {planned['name']!r}; "
                f"choose another output=…"
            )


def _demonstrate(plan: Plan, jobs: Sequence[Job], study: StudyDirectory, watch: Callable[[Event], None]) -> None:
    """Make demonstrations before workers need them. Raise UserError if a run of a cell began with other ones."""
    cells = {cell.id: cell for cell in plan.trained}
    for job in {job.cell["cell"]: job for job in jobs}.values():
        cell = cells[job.cell["cell"]]
        count = cell.section("training").demonstrations

        def tell(successes: int, attempts: int, job: Job = job, count: int = count) -> None:
            watch(Event(job, "demonstrations", {"found": successes, "count": count, "attempts": attempts}))

        digests: dict[Any, str] = {}
        for seed in plan.seeds:
            spec = demonstrations.spec(cell, seed)
            if spec not in digests:
                digests[spec] = demonstrations.prepare(cell, seed, tell).digest
            digest = digests[spec]
            recorded_digest = study.run(cell.directory, seed).read().get("provenance", {}).get("demonstrations", digest)
            if recorded_digest != digest:
                raise UserError(
                    f"seed {seed} of {cell.directory} in {study.path} began with other demonstrations "
                    f"({recorded_digest[:10]}) than the installed packages give ({digest[:10]}): choose another "
                    f"output=…"
                )


def _gather(plan: Plan, jobs: Sequence[Job], study: StudyDirectory) -> dict[str, int]:
    """Gather the datasets of runs before workers need them; return cell -> maximum number of transitions per run. Raise
    UserError if a run of a cell began with others."""
    cells = {cell.id: cell for cell in plan.trained}
    lengths = {}
    for name in dict.fromkeys(job.cell["cell"] for job in jobs):
        cell = cells[name]
        summaries = datasets.summaries(cell, plan.seeds)
        for seed, (digests, _) in summaries.items():
            recorded_digests = (study.run(cell.directory, seed).read().get("provenance") or {}).get("datasets", digests)
            for role, digest in digests.items():
                if recorded_digests.get(role) != digest:
                    raise UserError(
                        f"seed {seed} of {cell.directory} in {study.path} began with another dataset {role!r} "
                        f"({str(recorded_digests.get(role))[:10]}) than the present one ({digest[:10]}): choose "
                        f"another output=…"
                    )
        lengths[name] = max(summary.length for summary in summaries.values())
    return lengths


def _check_parts(plan: Plan, jobs: Sequence[Job], study: StudyDirectory) -> None:
    """Raise UserError if a part could not work later in its run (`AskingPart.ready`). Runs with a directory were
    checked when they began."""
    cells = {cell.id: cell for cell in plan.trained}
    checked = set()
    for job in jobs:
        cell = cells[job.cell["cell"]]
        view = config.cell_view(cell)
        for seed in (seed for seed in job.seeds if not study.run(cell.directory, seed).path.exists()):
            suite = view.suite.of_run(seed)
            for part in (part for part in view.parts.values() if isinstance(part, AskingPart)):
                if (cell.id, suite, part) not in checked:
                    checked.add((cell.id, suite, part))
                    part.ready(replace(view, parts={**view.parts, "suite": suite}))


def _check_stages(plan: Plan, jobs: Sequence[Job], study: StudyDirectory) -> None:
    """Raise UserError if the policy of a pre-training stage does not fit the runs that begin from it, or is not the one
    from which a run has begun."""
    unfinished = {job.cell["cell"] for job in jobs}
    for cell in (cell for cell in plan.trained if cell.stage):
        if reason := next(filter(None, (stages.changed(cell, study, seed) for seed in plan.seeds)), ""):
            raise UserError(reason)
        if cell.id in unfinished:
            stages.check(cell)


def _check_disk(plan: Plan, jobs: Sequence[Job], places: int, directory: Path, transitions: Mapping[str, int]) -> None:
    """Raise UserError if the disk cannot hold the rings of concurrent jobs, less what they hold already. A run that
    another machine had goes on in a copy of its files. `transitions`: cell -> transitions of its datasets."""
    cells = {cell.id: cell for cell in plan.trained}
    study = StudyDirectory(directory)
    needs = []
    for job in jobs:
        cell = cells[job.cell["cell"]]
        ring = ring_bytes(cell, transitions[cell.id])
        needs.append(sum(_room(study.run(cell.directory, seed), ring) for seed in job.seeds))
    needed, free = sum(sorted(needs, reverse=True)[:places]), shutil.disk_usage(directory).free
    if needed > free:
        raise UserError(
            f"the stored transitions need up to {size(needed)} and {directory} has {size(free)} free; "
            f"free some room, choose another output=…, or lower training.capacity or workers"
        )


def _room(run: RunDirectory, ring: int) -> int:
    """Return the bytes that a run still needs for its ring, and for the copy of its files if another machine had it."""
    more = max(0, ring - attempts.allocated(run.path / "replay"))
    copied = not attempts.path_of(run.home, leases.next_attempt(run.home)).is_dir() and run.path.is_dir()
    return more + (attempts.allocated(run.path) if copied else 0)


def _check_models(plan: Plan, jobs: Sequence[Job], directory: Path) -> None:
    """Merge the answers left by a killed study. Raise UserError if recorded answers are required and missing."""
    _settle(plan, StudyDirectory(directory))
    unfinished = {job.cell["cell"] for job in jobs}
    readiness.consultable(plan.execution.models, [cell for cell in plan.trained if cell.id in unfinished])
    models = {
        (part.kind, part.role, model): model
        for cell in plan.trained
        if cell.id in unfinished
        for part in cell.models
        if study_models.is_recorded(model := cell.section(part.role))
    }
    for (kind, role, _), model in models.items():
        for reason in study_models.unready_reasons(plan.execution.models, [model]):
            raise UserError(in_role(reason, kind, role))
    runs = [f"{job.cell['cell']}/{seed}" for job in jobs for seed in job.seeds]
    study_models.check(plan.execution.models, study_models.folder(directory), [*models.values()], runs)


def _settle(plan: Plan, study: StudyDirectory) -> None:
    """Merge the recorded answers of the study's models; delete array answers of finished runs if
    models.keep_arrays=finished. Do nothing while workers of a scheduler run, since locks of the database do not reach
    their machines."""

    def alone() -> bool:
        return not job_files.launchers(study.path) or leases.all_over(run.home for _, run in study.runs())

    finished = [
        f"{cell.id}/{seed}" for cell, seed in itertools.product(plan.trained, plan.seeds)
        if plan.execution.models.keep_arrays == "finished" and study.run(cell.directory, seed).status == "finished"
    ]  # fmt: skip
    study_models.settle(study_models.folder(study.path), finished, alone)


def _warn_of_budget(plan: Plan, jobs: Sequence[Job], study: StudyDirectory, watch: Callable[[Event], None]) -> None:
    """Warn before training if the models' budget is likely to run out before the runs finish."""
    if not plan.execution.models.budgeted or plan.execution.models.mode == "replay":
        return
    cells = {cell.id: cell for cell in plan.trained}
    remaining: dict[str, float] = {}
    for job in jobs:
        cell = cells[job.cell["cell"]]
        steps = [int(study.run(cell.directory, seed).read().get("step", 0)) for seed in job.seeds]
        remaining[cell.id] = remaining.get(cell.id, 0.0) + sum(1 - step / cell.steps for step in steps)
    needed = estimates.all_questions((cells[name], runs) for name, runs in remaining.items())
    if warning := study_models.shortfall(plan.execution.models, study_models.folder(study.path), needed):
        watch(Event(jobs[0], "notice", {"error": warning}))


def _contact(plan: Plan, jobs: Sequence[Job], device: str, directory: Path, watch: Callable[[Event], None]) -> None:
    """Make one small call to every model of unfinished runs, so that an unreachable server fails before training."""
    from guidebench.harness.models import contact

    first = {job.cell["cell"]: job for job in reversed(jobs)}
    jobs_by_call = {
        contact.StudyModel(part.role, part.kind, cell.section(part.role)): first[cell.id]
        for cell in reversed(plan.trained)
        if cell.id in first
        for part in cell.models
        if study_models.is_recorded(cell.section(part.role))
    }

    def tell(call: contact.StudyModel, message: str) -> None:
        watch(Event(jobs_by_call[call], "notice", {"error": message}))

    contact.check(
        jobs_by_call, plan.execution.models, study_models.folder(directory), device, tell, _shared(plan, directory),
        plan.execution.silent_after,
    )  # fmt: skip


def ring_bytes(cell: Cell, dataset_transitions: int = 0) -> int:
    """Return the maximum bytes of one run's stored transitions on disk, with datasets of `dataset_transitions`
    transitions (without the first frame stacks and last observations of episodes)."""
    place = config.cell_view(cell)
    observations, actions = place.observations, place.actions
    action = 2 if actions.discrete else 4 * int(np.prod(actions.shape))
    parts = observations.parts.values() or (observations,)
    observation_bytes = sum(math.prod(part.shape) * part.numpy.itemsize // part.stack for part in parts)
    per_slot = observation_bytes + action + 7
    asking_parts = (part for part in cell.sections.values() if isinstance(part, AskingPart))
    per_slot += sum(part.stored_bytes(cell.sections, cell.names.task) for part in asking_parts)
    now = answering.consulted_roles(cell.names.parts)
    declared = arrays.every(cell.names.parts, place)
    per_slot += sum(declaration.bytes for declaration in declared if declaration.role not in now)  # in late columns
    return int(min(ring_slots(cell), most_stored(cell, dataset_transitions)) * per_slot)
