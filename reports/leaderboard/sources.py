"""Sources of a leaderboard's rows: studies and submissions, each read with validation or refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.gym import recorder
from guidebench.reports.leaderboard.board import Refused
from guidebench.reports.summary import registered
from guidebench.results import CellRecord, RunRecord, StudyRecord, limits
from guidebench.results.evaluations import Evaluations
from guidebench.results.joining import SAME, directories
from guidebench.results.reading import Reader
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
    """A study that was read, with the results of a verification of its cells."""

    name: str
    study: StudyRecord
    evaluations: Mapping[tuple[str, int], Evaluations]
    verification: Verification | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Cell id -> the earlier source in which its runs are counted."""
    verifiable: bool = False
    """Whether its runs include their checkpoints."""
    by: str = ""
    """Who submitted it, and the contact for questions."""
    unchecked: Mapping[str, str] = field(default_factory=dict)
    """Cell id of a submission -> why its configuration cannot be checked here although its suite is installed; it may
    contain settings that its row does not show."""

    @property
    def verified(self) -> bool:
        """Return whether all verifiable cells were verified and none is disputed."""
        standings = [verdict.standing for verdict in self.verification.cells.values()] if self.verification else []
        return "verified" in standings and "disputed" not in standings


class Gathered(NamedTuple):
    """The sources to show, in the order in which they count; those not shown; and remarks on both."""

    sources: tuple[Source, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


def gather(names: Sequence[str], directory: Path) -> Gathered:
    """Return the studies `names` and the submissions in a leaderboard's directory.

    The given studies come first, then verified submissions, then verifiable ones, then others, each sorted by name. The
    first source that contains a run is the one that counts. Raises UserError for a name at which there is nothing.
    """
    places = {name: path for word in names for name, path in directories(word).items()}
    for name, path in places.items():
        if not path.is_dir():
            raise UserError(f"no study at {name}: it is no directory; give one that `bench run … output=DIR` wrote")
    home = directory / SUBMISSIONS
    own = sorted(home.iterdir()) if home.is_dir() else []
    given = {path.resolve() for path in places.values()}
    own = [path for path in own if not path.name.startswith(".") and path.resolve() not in given]
    places |= {f"{SUBMISSIONS}/{path.name}": path for path in own}
    found: list[Source] = []
    refused: list[Refused] = []
    notes: list[str] = []
    with Reader() as reader:
        for name, path in places.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    found.append(_read(name, path, directory, reader))
                except UserError as error:
                    refused.append(Refused(name, clean(str(error), 600)))
                except Exception as error:  # Files from strangers may raise any exception.
                    refused.append(Refused(name, clean(f"it cannot be read ({type(error).__name__}: {error})", 600)))
            notes += [clean(f"{name}: {each.message}", 600) for each in caught if each.category is UserWarning]
    found.sort(key=lambda each: (each.name.startswith(f"{SUBMISSIONS}/"), not each.verified, not each.verifiable))
    kept = _distinct(found, refused, notes)
    return Gathered(tuple(kept), tuple(refused), tuple(dict.fromkeys(notes)))


def clean(text: str, longest: int) -> str:
    """Return text from a file without unprintable characters, cut to this length."""
    if len(text) <= longest and text.isprintable():
        return text
    kept = "".join(letter if letter.isprintable() else " " for letter in text[: longest + 1])
    return kept if len(text) <= longest else f"{kept[: longest - 1]}…"


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
    return Source(name, study, reader.read(study), verification, verifiable=verifiable, by=by, unchecked=unchecked)


def _unchecked(study: StudyRecord) -> Iterator[tuple[str, str]]:
    """Return cell id -> why a stranger's configuration cannot be checked; raise UserError for an altered one."""
    for cell in study.cells:
        made_here = cell.profile and cell.backend != recorder.BACKEND
        if made_here and registered.get("suite", cell.suite) is not None:
            try:
                configuration(study.directory / cell.directory, cell.id)
            except Altered as error:
                raise UserError(f"{cell.directory}: {error}") from None
            except Unusable as reason:
                yield cell.id, str(reason)


def _nested(value: Any, left: int = DEEPEST) -> bool:
    """Return whether lists and objects are nested more than `left` levels deep."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return left == 0 or any(_nested(entry, left - 1) for entry in value)


def _distinct(found: Iterable[Source], refused: list[Refused], notes: list[str]) -> list[Source]:
    """Return the sources without cells that an earlier source contradicts, and without runs that an earlier source also
    has. If a later source continues a run, the later one counts."""
    cells: dict[str, tuple[str, CellRecord]] = {}
    runs: dict[tuple[str, int], str] = {}
    known: dict[str, Source] = {}
    for source in found:
        bad: dict[str, str] = {}
        for cell in source.study.cells:
            if cell.id in cells and cell.profile:
                first, other = cells[cell.id]
                differs = next((field for field in SAME if getattr(cell, field) != getattr(other, field)), None)
                if differs:
                    bad[cell.id] = (
                        f"its {differs} is {getattr(cell, differs)!r}, in {first} {getattr(other, differs)!r}"
                    )
        twice: dict[str, set[tuple[str, int]]] = {}
        further: list[tuple[str, int]] = []
        for key, own in source.evaluations.items():
            if key[0] in bad or key not in runs:
                continue
            first = runs[key]
            there = known[first].evaluations[key]
            step = _conflict(there, own)
            if step is not None:
                bad[key[0]] = f"seed {key[1]} is in {first} too, and at step {step:,} the two tell different things"
            elif len(own.steps) > len(there.steps):
                further.append(key)
            else:
                twice.setdefault(first, set()).add(key)
        for id, reason in bad.items():
            refused.append(Refused(f"{source.name}, cell {clean(id, 40)}", clean(reason, 600)))
        for key in further:
            if key[0] not in bad:
                known[runs[key]] = _without(known[runs[key]], {key})
        for first, keys in twice.items():
            count = len({key for key in keys if key[0] not in bad})
            if count:
                notes.append(f"{source.name}: {count} of its runs are in {first} too and counted there")
        left_out = {key for keys in twice.values() for key in keys}
        left_out |= {key for key in source.evaluations if key[0] in bad}
        elsewhere = {key[0]: first for first, keys in twice.items() for key in keys if key[0] not in bad}
        known[source.name] = replace(_without(source, left_out), elsewhere=elsewhere)
        for cell in source.study.cells:
            if cell.id not in bad and cell.profile:
                cells.setdefault(cell.id, (source.name, cell))
        for key in known[source.name].evaluations:
            runs[key] = source.name
    return list(known.values())


def _conflict(one: Evaluations, other: Evaluations) -> int | None:
    """Return the first step at which two records of a run differ, as far as both go; None if they agree."""
    count = min(len(one.steps), len(other.steps))
    differs = (one.steps[:count] != other.steps[:count]) | (one.account[:count] != other.account[:count])
    return int(one.steps[int(differs.argmax())]) if differs.any() else None


def _without(source: Source, keys: set[tuple[str, int]]) -> Source:
    """Return a source without the runs of these cells and seeds."""
    if not keys:
        return source

    def stays(run: RunRecord) -> bool:
        return (run.cell.id, run.seed) not in keys

    study = replace(source.study, runs=tuple(filter(stays, source.study.runs)))
    return replace(source, study=study, evaluations={k: v for k, v in source.evaluations.items() if k not in keys})
