"""Build a board from studies and submissions: read them with validation, group their cells into rows, and rank each or
list it unranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.identity import provenance
from guidebench.harness.records import schema
from guidebench.harness.statistics import Interval, Sample
from guidebench.reports.leaderboard import costs, details, minimum, ranking, rows, sources
from guidebench.reports.leaderboard.board import TABS, Board, Details, Entry, Estimate, Pictures, Refused, Suite, claim
from guidebench.reports.leaderboard.costs import CellCost
from guidebench.reports.leaderboard.episodes import Screening
from guidebench.reports.leaderboard.frames import Samples
from guidebench.reports.leaderboard.rows import Measured, Member, Peers, RankedRow
from guidebench.reports.leaderboard.sources import Source, clean
from guidebench.reports.summary import comparability, ledger, registered
from guidebench.results.verification.record import Standing

TITLE = "guidebench leaderboard"
REPLICATION, FURTHER = "replication", "further seeds"
ROWS = 5_000
"""Most rows of a board."""


class _Scored(NamedTuple):
    """A row before it is on the board: whole, and restricted to the tasks that count."""

    id: str
    whole: RankedRow
    row: RankedRow
    board: str
    """The only task that it is ranked on, if any."""
    apart: str
    interval: Interval
    sample: Sample

    @property
    def score(self) -> Estimate:
        return details.estimate(self.interval)


def gather(names: Sequence[str], directory: Path, title: str = TITLE) -> Board:
    """Return the board of the studies `names` and the submissions in a leaderboard's directory.

    What cannot be read is named in `refused`, and the rest is shown. Raises UserError if nothing is left to show.
    """
    registered.installed.cache_clear()
    found = sources.gather(names, directory)
    refused, notes = list(found.refused), list(found.notes)
    everything: list[RankedRow] = []
    shown: list[tuple[Source, list[Measured]]] = []
    for source in found.sources:
        measured = list(rows.measured(source).values())
        own = rows.rows(source, measured)
        if len(everything) + len(own) > ROWS:
            refused.append(Refused(source.name, f"the board has room for {ROWS:,} rows, and this has {len(own):,}"))
            continue
        everything += own
        shown.append((source, measured))
    if not everything:
        said = "; ".join(f"{each.source}: {each.reason}" for each in refused) or (
            "name a study, as in `bench leaderboard runs/NAME measured`, or add submissions"
        )
        raise UserError(f"there is nothing to show: {said}")
    scored = _scored(everything)
    ranked = _ranked(scored)
    spent = {source.name: _costs(source, refused) for source, _ in shown}
    compared = _variations(shown, everything, notes)
    samples, cited = Samples(), dict[tuple[Any, ...], str]()
    entries: list[Entry] = []
    opened: dict[str, Details] = {}
    for each in scored:
        whole = each.whole
        tasks = details.tasks(whole, each.row.seeds, each.id, each.score)
        alone = tasks[0] if len(whole.tasks) == 1 else None  # its numbers are those of the row
        mean = alone.mean if alone else details.mean(details.final(each.row), each.id)
        entries.append(_entry(each, mean, ranked.get(each.id), spent[whole.source.name]))
        members = [
            member
            for task in whole.tasks.values()
            for member in compared.get(task.cell.id, ())
            if member.home == whole.source.name
        ]
        opened[each.id] = Details(
            tasks=tasks,
            curve=alone.curve if alone else details.curve(each.row, each.id),
            variations=details.variations(whole, members, each.id),
            frames=samples.of(whole, members),
            settings=details.settings(whole),
            origins=details.origins(whole),
            runs=details.run_names(whole),
            bibtex=details.bibtex(whole, cited),
            checks=details.checks(whole),
            error=alone.error if alone else details.error(each.row),
        )
    ordered = _sorted(_related(entries, scored))
    screening, rows_of = Screening(), {each.id: each.whole for each in scored}
    for entry in sorted(ordered, key=claim):
        opened[entry.id] = replace(opened[entry.id], episodes=screening.of(rows_of[entry.id]))
    labelled = [replace(entry, pictures=_pictures(opened[entry.id])) for entry in ordered]
    return Board(
        title,
        _commit(),
        minimum.WORDS,
        minimum.FEW,
        tuple(_suite(name, everything) for name in sorted({row.first.suite for row in everything})),
        tuple(labelled),
        opened,
        tuple(refused),
        tuple(dict.fromkeys([*notes, *samples.notes, *screening.notes])),
        screening.without,
    )


def _variations(
    shown: Sequence[tuple[Source, list[Measured]]], everything: Sequence[RankedRow], notes: list[str]
) -> dict[str, list[Member]]:
    """Return id of a reference -> the ablations and perturbations that are compared with it.

    They belong to the row of their own source or, if its runs are counted in another source, to the row there.
    """
    known: dict[str, dict[str, Measured]] = {}
    for row in everything:
        for measured in row.tasks.values():
            known.setdefault(measured.cell.id, {})[row.source.name] = measured
    found: dict[str, list[Member]] = {}
    for source, cells in shown:
        for measured in cells:
            place = measured.cell.matrix
            if place is None or place.reference == measured.cell.id:
                continue
            accounts = known.get(place.reference, {})
            home = source.name if source.name in accounts else source.elsewhere.get(place.reference, "")
            if home not in accounts or accounts[home].last != measured.last:
                why = "is at another step" if home in accounts else "has no evaluations here"
                notes.append(clean(f"{source.name}: {place.kind} {place.name} is not shown: its reference {why}", 600))
                continue
            found.setdefault(place.reference, []).append(Member(home, source, measured))
    return found


def _scored(everything: Sequence[RankedRow]) -> list[_Scored]:
    """Group rows with their scores by peers."""
    groups: dict[Peers, list[RankedRow]] = {}
    for row in everything:
        groups.setdefault(row.peers, []).append(row)
    names: dict[str, int] = {}
    found = []
    for (suite, _, profile, _), peers in groups.items():
        protocol = minimum.declared(suite, profile) or minimum.usual(peers)
        for whole in peers:
            row = minimum.scored(whole, protocol)
            if not row.seeds:
                row = row.of([max(row.tasks, key=lambda task: len(row.tasks[task].seeds))])
            name = details.name_of(whole)
            names[name] = names.get(name, 0) + 1
            name = name if names[name] == 1 else f"{name}-{names[name]}"
            relation = _relation(whole)
            reasons = [relation.reason] if relation else []
            reasons += minimum.lacking(minimum.scored(whole, protocol), protocol)
            interval = ranking.scored(details.final(row), name)
            board = "" if reasons else minimum.board(whole, protocol)
            found.append(
                _Scored(name, whole, row, board, clean("; ".join(reasons), 600), interval, details.sample(row))
            )
    return found


class _Relation(NamedTuple):
    """What a row is to the row of the same configuration that holds the rank."""

    name: str
    source: str
    """The source of that row."""

    @property
    def reason(self) -> str:
        """Why the row has no rank."""
        what = "it repeats a configuration of" if self.name == REPLICATION else "it has further seeds of a row of"
        return f"{what} {self.source}, whose row holds the rank"


def _relation(row: RankedRow) -> _Relation | None:
    """Return what a row is to an earlier source's row of the same configuration; None if there is none."""
    for name, known in ((REPLICATION, row.source.replications), (FURTHER, row.source.further)):
        for id in _cells(row):
            if id in known:
                return _Relation(name, known[id])
    return None


def _cells(row: RankedRow) -> list[str]:
    return [measured.cell.id for measured in row.tasks.values()]


def _related(entries: Sequence[Entry], scored: Sequence[_Scored]) -> list[Entry]:
    """Return the entries, each with the entry of the same configuration that holds the rank in its place."""
    homes = {(row.whole.source.name, id): row.id for row in scored for id in _cells(row.whole)}
    found = []
    for entry, row in zip(entries, scored, strict=True):
        relation = _relation(row.whole)
        if relation is not None:
            places = ((relation.source, id) for id in _cells(row.whole))
            home = next((homes[place] for place in places if place in homes), "")
            entry = replace(entry, beneath=home, relation=relation.name)
        found.append(entry)
    return found


def _ranked(scored: Sequence[_Scored]) -> dict[str, tuple[int, int, int]]:
    """Return id -> rank, and the best and worst rank within its interval, among peers on the same tasks."""
    groups: dict[tuple[object, ...], list[_Scored]] = {}
    for each in scored:
        if not each.apart:
            measures = tuple((task, measured.cell.score) for task, measured in sorted(each.row.tasks.items()))
            groups.setdefault((*each.whole.peers, each.board, measures), []).append(each)
    found = {}
    for peers in groups.values():
        places = ranking.ranks([each.sample for each in peers])
        for each, place in zip(peers, zip(*places, strict=True), strict=True):
            found[each.id] = tuple(int(number) for number in place)
    return found  # type: ignore[return-value]


def _entry(each: _Scored, mean: Estimate, ranks: tuple[int, int, int] | None, known: Mapping[str, CellCost]) -> Entry:
    whole, row, cell = each.whole, each.row, each.whole.first
    rank, low, high = ranks or (None, None, None)
    billed = [measured.cell for measured in whole.tasks.values() if ledger.is_billed(measured.cell)]
    spent = [known[each.id] for each in billed] if all(each.id in known for each in billed) else []
    learners = dict.fromkeys(measured.cell.learner for measured in whole.tasks.values() if measured.cell.learner)
    return Entry(
        id=each.id,
        suite=clean(cell.suite, 300),
        tab=whole.tab or "other",
        profile=clean(cell.profile, 300),
        label=clean(whole.label, 400),
        method=clean(cell.method, 300),
        learner=clean(", ".join(learners), 300),
        backend=clean(cell.backend, 300),
        model=clean(cell.model, 300),
        score=each.score,
        mean=mean,
        board=clean(each.board, 300),
        rank=rank,
        rank_low=low,
        rank_high=high,
        apart=each.apart,
        seeds=row.seeds,
        tasks=tuple(clean(task, 300) for task in row.tasks),
        steps=max(measured.cell.total for measured in row.tasks.values()),
        episodes=min(measured.episodes for measured in row.tasks.values()),
        calls=sum(cost.calls for cost in spent) if spent else None,
        usd=round(sum(cost.usd for cost in spent), 4) if spent else None,
        hardware=details.hardware(whole),
        standing=_standing(whole),
        protocol=f"suite {'unknown' if whole.version is None else whole.version}, record {schema.SCHEMA_VERSION}",
        source=clean(f"{whole.source.name}, by {whole.source.by}" if whole.source.by else whole.source.name, 600),
        measure=details.measure(row.score),
        conditions=clean(comparability.words(whole.conditions), 300),
    )


def _pictures(shown: Details) -> Pictures:
    return shown.episodes.pictures if shown.episodes else ""


def _standing(row: RankedRow) -> Standing:
    """Return "verified" if all cells of the row are, "disputed" if one is."""
    known = row.source.verification
    found = {
        known.cells[each.cell.id].standing if known and each.cell.id in known.cells else "self-reported"
        for each in row.tasks.values()
    }
    return "disputed" if "disputed" in found else "verified" if found == {"verified"} else "self-reported"


def _costs(source: Source, refused: list[Refused]) -> dict[str, CellCost]:
    try:
        return costs.costs(source.study)
    except UserError as error:
        refused.append(Refused(f"{source.name}, costs", clean(str(error), 600)))
        return {}


def _suite(name: str, everything: Sequence[RankedRow]) -> Suite:
    home = registered.get("suite", name)
    if home is not None:
        return Suite(name, str(home.title), int(home.version))
    known = [row.version for row in everything if row.first.suite == name and row.version is not None]
    return Suite(clean(name, 300), clean(name, 300), max(known, default=0))


def _sorted(entries: Sequence[Entry]) -> list[Entry]:
    """Sort by suite and tab; within these, ranked rows come first, by score, each before the rows beneath it."""
    tabs, by_id = list(TABS), {entry.id: entry for entry in entries}

    def key(entry: Entry) -> tuple[object, ...]:
        place = entry.suite, tabs.index(entry.tab), entry.profile
        return (
            *place,
            entry.rank is None,
            entry.conditions,
            entry.board,
            entry.rank or 0,
            (entry.score.value or 0) * (1 if entry.measure.direction == "lower" else -1),
            entry.label,
            entry.id,
        )

    def beneath(entry: Entry) -> tuple[object, ...]:
        original = by_id.get(entry.beneath)
        return (*key(original), True, *key(entry)) if original else (*key(entry), False)

    return sorted(entries, key=beneath)


def _commit() -> str:
    head, dirty = provenance.commit()
    return f"{head[:12]}{'+' if dirty else ''}"
