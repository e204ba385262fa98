"""Sources of a leaderboard's rows: studies and submissions, each read with validation or refused by name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from guidebench import results
from guidebench.harness.errors import UserError, count
from guidebench.harness.gym import recorder
from guidebench.reports.leaderboard.board import Refused
from guidebench.reports.summary import registered
from guidebench.results import MEASURED, CellRecord, RunRecord, StudyRecord, limits, replications
from guidebench.results.evaluations import Evaluations
from guidebench.results.joining import directories
from guidebench.results.reading import Reader
from guidebench.results.replications import Record
from guidebench.results.submissions import opened
from guidebench.results.submissions.manifest import MANIFEST
from guidebench.results.submissions.opening import SUBMISSIONS
from guidebench.results.verification import record
from guidebench.results.verification.configuration import Altered, Unusable, configuration
from guidebench.results.verification.record import Verification

DEEPEST = 16
"""Most levels of nesting in settings and provenance."""
SEEDS = 1_000
"""Most runs of a cell."""


@dataclass(frozen=True)
class Source:
    """A study as it was read, with the results of a verification of its cells."""

    name: str
    study: StudyRecord
    evaluations: Mapping[tuple[str, int], Evaluations]
    verification: Verification | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Cell id -> the earlier source in which its runs are counted."""
    replications: Mapping[str, str] = field(default_factory=dict)
    """Id of a cell that repeats one of an earlier source under other conditions -> that source."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Id of a cell of which an earlier source has other seeds -> that source."""
    verifiable: bool = False
    """Whether its runs include their checkpoints."""
    by: str = ""
    """Who submitted it, and the contact for questions."""
    submitted: bool = False
    """Whether somebody handed it in."""
    unchecked: Mapping[str, str] = field(default_factory=dict)
    """Cell id of a submission -> why its configuration cannot be checked here although its suite is installed; it may
    contain settings that its row does not show."""

    @functools.cached_property
    def runs(self) -> Mapping[tuple[str, int], RunRecord]:
        """Return (cell id, seed) -> run."""
        return {(run.cell.id, run.seed): run for run in self.study.runs}

    @property
    def verified(self) -> bool:
        """Return whether all verifiable cells were verified and none is disputed."""
        standings = [verdict.standing for verdict in self.verification.cells.values()] if self.verification else []
        return "verified" in standings and "disputed" not in standings


class Gathered(NamedTuple):
    """The sources to show, in the order in which their runs count; the sources that are refused; and notes on both."""

    sources: tuple[Source, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


def gather(names: Sequence[str], directory: Path) -> Gathered:
    """Return the studies `names` and the submissions in a leaderboard's directory.

    This project's own studies come first, then verified submissions, then the other given studies, then verifiable
    submissions, then others, each sorted by name. The first source that contains a run is the one that counts. Raises
    UserError for a name at which there is nothing.
    """
    places = {name: path for word in names for name, path in directories(word).items()}
    for name, path in places.items():
        if not path.is_dir():
            raise UserError(f"no study at {name}: it is no directory; give one that `bench run … output=DIR` wrote")
    home = directory / SUBMISSIONS
    submissions = sorted(home.iterdir()) if home.is_dir() else []
    study_paths = {path.resolve() for path in places.values()}
    submissions = [path for path in submissions if not path.name.startswith(".") and path.resolve() not in study_paths]
    places |= {f"{SUBMISSIONS}/{path.name}": path for path in submissions}
    sources: list[Source] = []
    refused: list[Refused] = []
    notes: list[str] = []
    with Reader() as reader:
        for name, path in places.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    sources.append(_read(name, path, directory, reader))
                except UserError as error:
                    refused.append(Refused(name, clean(str(error), 600)))
                except Exception as error:  # Files from strangers may raise any exception.
                    refused.append(Refused(name, clean(f"it cannot be read ({type(error).__name__}: {error})", 600)))
            notes += [clean(f"{name}: {warning.message}", 600) for warning in caught if warning.category is UserWarning]
    measured = {path.resolve() for path in directories(MEASURED).values()}
    sources.sort(key=lambda source: _precedence(source, measured))
    distinct = _distinct(sources, refused, notes)
    return Gathered(tuple(distinct), tuple(refused), tuple(dict.fromkeys(notes)))


def _precedence(source: Source, measured: Collection[Path]) -> int:
    """Return the place of a source in the order of precedence: of sources with the same cell, the one with the lowest
    keeps its rank."""
    if source.study.directory.resolve() in measured:
        return 0
    if source.verified:
        return 1
    if not source.name.startswith(f"{SUBMISSIONS}/"):
        return 2
    return 3 if source.verifiable else 4


def clean(text: str, longest: int) -> str:
    """Return a text from a file with unprintable characters as spaces, cut to `longest` characters."""
    if len(text) <= longest and text.isprintable():
        return text
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: longest + 1])
    return printable if len(text) <= longest else f"{printable[: longest - 1]}…"


def _read(name: str, path: Path, leaderboard: Path, reader: Reader) -> Source:
    limits.check(path)
    verification, verifiable, by = None, False, ""
    by_others = (path / MANIFEST).is_file()
    if by_others:
        submission = opened(path)
        study = submission.study
        verifiable = submission.manifest.verifiable
        by = ", ".join(text for text in (submission.manifest.by, submission.manifest.contact) if text)
        try:
            verification = record.read(leaderboard, submission.digest)
        except UserError as error:
            warnings.warn(str(error), stacklevel=2)
    else:
        study = results.study(path)
    counts: dict[str, int] = {}
    for run in study.runs:
        counts[run.cell.id] = counts.get(run.cell.id, 0) + 1
    for cell in study.cells:
        texts = (cell.id, cell.suite, cell.task, cell.method, cell.learner, cell.backend, cell.model, cell.profile)
        if max(map(len, texts)) > limits.NAME:
            raise UserError(f"{path}: cell {cell.id[:20]} has a name of more than {limits.NAME} characters")
        if counts.get(cell.id, 0) > SEEDS:
            raise UserError(f"{path}: cell {cell.id} has {counts[cell.id]:,} seeds; at most {SEEDS:,} are read")
        if _nested((cell.settings, cell.versions)):
            raise UserError(f"{path}: the settings of cell {cell.id} are nested too deep")
    for run in study.runs:
        if _nested(run.provenance):
            raise UserError(f"{path}: the provenance of {run.directory} is nested too deep")
    unchecked = dict(_unchecked(study)) if by_others else {}
    return Source(
        name, study, reader.read(study), verification, verifiable=verifiable, by=by, submitted=by_others,
        unchecked=unchecked,
    )  # fmt: skip


def _unchecked(study: StudyRecord) -> Iterator[tuple[str, str]]:
    """Yield (cell id, reason) for each cell of a submission whose configuration cannot be checked here; raise UserError
    for one that was altered."""
    for cell in study.cells:
        made_here = cell.profile and cell.backend != recorder.BACKEND
        if made_here and registered.get("suite", cell.suite) is not None:
            try:
                configuration(study.directory / cell.directory, cell.id)
            except Altered as error:
                raise UserError(f"{cell.directory}: {error}") from None
            except Unusable as reason:
                yield cell.id, str(reason)


def _nested(value: Any, depth: int = DEEPEST) -> bool:
    """Return whether lists and objects are nested more than `depth` levels deep."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return depth == 0 or any(_nested(entry, depth - 1) for entry in value)


def _distinct(sources: Iterable[Source], refused: list[Refused], notes: list[str]) -> list[Source]:
    """Return the sources without cells that an earlier source contradicts, and without runs that an earlier source also
    has. If a later source continues a run, the later one counts. A cell whose runs differ from those of an earlier
    source because they were made under other conditions stays, as a replication; so do further seeds of a cell."""
    cells: dict[str, tuple[str, CellRecord]] = {}
    accounts: dict[str, list[_Account]] = {}
    by_name: dict[str, Source] = {}
    for source in sources:
        evaluated: dict[str, dict[int, RunRecord]] = {}
        for run in source.study.runs:
            if (run.cell.id, run.seed) in source.evaluations:
                evaluated.setdefault(run.cell.id, {})[run.seed] = run
        left_out: set[tuple[str, int]] = set()
        counted: dict[str, int] = {}
        elsewhere: dict[str, str] = {}
        repeated: dict[str, str] = {}
        for cell in source.study.cells:
            runs, reason, account = evaluated.get(cell.id, {}), "", None
            if cell.id in cells and cell.profile:
                reason = _altered(cell, *cells[cell.id])
            records = {seed: _record(source, cell.id, seed) for seed in runs}
            if not reason:
                account, reason = _agreeing(accounts.get(cell.id, []), records, by_name, cell.id)
            if reason:
                refused.append(Refused(f"{source.name}, cell {clean(cell.id, 40)}", clean(reason, 600)))
                left_out |= {(cell.id, seed) for seed in runs}
                continue
            if cell.profile:
                cells.setdefault(cell.id, (source.name, cell))
            if account is None:
                account = _Account({}, {})
                if cell.id in accounts:
                    repeated[cell.id] = accounts[cell.id][0].first
                accounts.setdefault(cell.id, []).append(account)
            for seed, run in runs.items():
                key, first = (cell.id, seed), account.sources.get(seed)
                account.machines.setdefault(seed, set()).add(replications.machine(run.provenance))
                if first is None or replications.is_further(_record(by_name[first], cell.id, seed), records[seed]):
                    if first is not None:
                        by_name[first] = _without(by_name[first], {key})
                    account.sources[seed] = source.name
                else:
                    left_out.add(key)
                    counted[first] = counted.get(first, 0) + 1
                    elsewhere[cell.id] = first
        for first, number in counted.items():
            notes.append(f"{source.name}: {number} of its runs are in {first} too and counted there")
        by_name[source.name] = replace(_without(source, left_out), elsewhere=elsewhere, replications=repeated)
    for id, every in accounts.items():
        for account in every:
            first, *others = dict.fromkeys(account.sources.values()) or [""]
            for name in others:
                by_name[name] = replace(by_name[name], further={**by_name[name].further, id: first})
        notes += [
            f"{cells[id][1].label if id in cells else id}: {text}" for account in every for text in account.remarks()
        ]
    return list(by_name.values())


class _Account(NamedTuple):
    """The runs that agreeing sources have recorded of one cell."""

    sources: dict[int, str]
    """Seed -> source in which its run is counted"""
    machines: dict[int, set[str]]
    """Seed -> machines on which equal evaluations were made"""

    @property
    def first(self) -> str:
        return next(iter(self.sources.values()), "")

    def remarks(self) -> Iterator[str]:
        """Yield a sentence for each number of machines above one on which seeds have equal evaluations."""
        for number in sorted({len(machines) for machines in self.machines.values()} - {0, 1}):
            seeds = [seed for seed, machines in self.machines.items() if len(machines) == number]
            yield f"{count(len(seeds), 'seed')} reproduced on {number} machines"


def _altered(cell: CellRecord, first: str, other: CellRecord) -> str:
    """Return in which field a cell contradicts the record of the same id in an earlier source, `first`; "" if in
    none."""
    differs = replications.altered_field(other, cell)
    return f"its {differs} is {getattr(cell, differs)!r}, in {first} {getattr(other, differs)!r}" if differs else ""


def _agreeing(
    accounts: Sequence[_Account], records: Mapping[int, Record], sources: Mapping[str, Source], cell: str
) -> tuple[_Account | None, str]:
    """Return the first account with which a source's records of a cell agree, None if there is none, and why the cell
    is refused: a run that differs from one made under equal conditions."""
    counted = [
        {seed: _record(sources[name], cell, seed) for seed, name in account.sources.items()} for account in accounts
    ]
    decision = replications.decide(counted, records)
    if decision.contradiction is not None:
        row, seed, index, _ = decision.contradiction
        step = int(counted[row][seed].columns["step"][index])
        return None, (
            f"seed {seed} is in {accounts[row].sources[seed]} too, made by the same code on a machine of the same "
            f"kind, and the two differ at step {step:,}"
        )
    return (None if decision.row is None else accounts[decision.row]), ""


def _record(source: Source, cell: str, seed: int) -> Record:
    """Return the evaluations and provenance of a run in a source."""
    evaluations = source.evaluations[cell, seed]
    run = source.runs[cell, seed]
    columns = {"step": evaluations.steps, "account": evaluations.account}
    return Record(columns, run.provenance, run.status == "finished")


def _without(source: Source, keys: set[tuple[str, int]]) -> Source:
    """Return a source without the runs of these cells and seeds."""
    if not keys:
        return source

    def stays(run: RunRecord) -> bool:
        return (run.cell.id, run.seed) not in keys

    study = replace(source.study, runs=tuple(filter(stays, source.study.runs)))
    return replace(source, study=study, evaluations={k: v for k, v in source.evaluations.items() if k not in keys})
