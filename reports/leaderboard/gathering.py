"""Build a board from studies and submissions: read them with validation, group their cells into rows, and rank each or
list it unranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.grouping import grouped
from guidebench.harness.identity import provenance
from guidebench.harness.records import schema
from guidebench.harness.statistics import Interval, Sample
from guidebench.reports.leaderboard import costs, details, minimum, ranking, rows, sources
from guidebench.reports.leaderboard.board import TABS, Board, Details, Entry, Estimate, Pictures, Refused, Suite, claim
from guidebench.reports.leaderboard.costs import CellCost
from guidebench.reports.leaderboard.episodes import Screening
from guidebench.reports.leaderboard.frames import Samples
from guidebench.reports.leaderboard.rows import Measured, Member, RankedRow
from guidebench.reports.leaderboard.sources import Source, clean
from guidebench.reports.summary import comparability, ledger, names, registered
from guidebench.results.verification.record import Standing

TITLE = "guidebench leaderboard"
REPLICATION, FURTHER = "replication", "further seeds"
ROWS = 5_000
"""Most rows on a board."""


class _Scored(NamedTuple):
    """A row that is scored but not yet on the board: with all of its tasks, and restricted to those that count."""

    id: str
    full_row: RankedRow
    counted_row: RankedRow
    board: str
    """The only task that it is ranked on, if any."""
    apart: str
    interval: Interval
    sample: Sample

    @property
    def score(self) -> Estimate:
        return details.estimate(self.interval)


def gather(studies: Sequence[str], directory: Path, title: str = TITLE) -> Board:
    """Return the board of `studies` and the submissions in a leaderboard's directory.

    What cannot be read is named in `refused`, and the rest is shown. Raises UserError if nothing is left to show.
    """
    registered.installed.cache_clear()
    gathered = sources.gather(studies, directory)
    refused, notes = list(gathered.refused), list(gathered.notes)
    everything: list[RankedRow] = []
    measured_sources: list[tuple[Source, list[Measured]]] = []
    for source in gathered.sources:
        measured = list(rows.measured(source).values())
        source_rows = rows.rows(source, measured)
        if len(everything) + len(source_rows) > ROWS:
            refused.append(
                Refused(source.name, f"the board has room for {ROWS:,} rows, and this has {len(source_rows):,}")
            )
            continue
        everything += source_rows
        measured_sources.append((source, measured))
    if not everything:
        reason = "; ".join(f"{refusal.source}: {refusal.reason}" for refusal in refused) or (
            "name a study, as in `bench leaderboard runs/NAME measured`, or add submissions"
        )
        raise UserError(f"there is nothing to show: {reason}")
    scored = _scored(everything)
    ranked = _ranked(scored)
    costs_of = {source.name: _costs(source, refused) for source, _ in measured_sources}
    compared = _variations(measured_sources, everything, notes)
    samples, cited = Samples(), dict[tuple[Any, ...], str]()
    entries: list[Entry] = []
    opened: dict[str, Details] = {}
    for row in scored:
        full_row = row.full_row
        tasks = details.tasks(full_row, row.counted_row.seeds, row.id, row.score)
        only_task = tasks[0] if len(full_row.tasks) == 1 else None  # its numbers are those of the row
        mean = only_task.mean if only_task else details.mean(details.final(row.counted_row), row.id)
        entries.append(_entry(row, mean, ranked.get(row.id), costs_of[full_row.source.name]))
        members = [
            member
            for task in full_row.tasks.values()
            for member in compared.get(task.cell.id, ())
            if member.home == full_row.source.name
        ]
        opened[row.id] = Details(
            tasks=tasks,
            curve=only_task.curve if only_task else details.curve(row.counted_row, row.id),
            variations=details.variations(full_row, members, row.id),
            frames=samples.of(full_row, members),
            settings=details.settings(full_row),
            origins=details.origins(full_row),
            runs=details.run_names(full_row),
            bibtex=details.bibtex(full_row, cited),
            checks=details.checks(full_row),
            error=only_task.error if only_task else details.error(row.counted_row),
        )
    ordered = _sorted(_related(entries, scored))
    screening, rows_of = Screening(), {row.id: row.full_row for row in scored}
    for entry in sorted(ordered, key=claim):
        opened[entry.id] = replace(opened[entry.id], episodes=screening.of(rows_of[entry.id]))
    named = _named(ordered, rows_of)
    labelled = [replace(entry, pictures=_pictures(opened[entry.id])) for entry in named]
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
    measured_sources: Sequence[tuple[Source, list[Measured]]], everything: Sequence[RankedRow], notes: list[str]
) -> dict[str, list[Member]]:
    """Return cell id of a reference -> the ablations and perturbations that are compared with it; those left out are
    added to `notes`.

    They belong to the row of their own source or, if the runs of the reference are counted in another source, to the
    row there.
    """
    by_cell: dict[str, dict[str, Measured]] = {}
    for row in everything:
        for measured in row.tasks.values():
            by_cell.setdefault(measured.cell.id, {})[row.source.name] = measured
    members: dict[str, list[Member]] = {}
    for source, cells in measured_sources:
        for measured in cells:
            place = measured.cell.matrix
            if place is None or place.reference == measured.cell.id:
                continue
            accounts = by_cell.get(place.reference, {})
            home = source.name if source.name in accounts else source.elsewhere.get(place.reference, "")
            if home not in accounts or accounts[home].last != measured.last:
                why = "is at another step" if home in accounts else "has no evaluations here"
                notes.append(clean(f"{source.name}: {place.kind} {place.name} is not shown: its reference {why}", 600))
                continue
            members.setdefault(place.reference, []).append(Member(home, source, measured))
    return members


def _scored(everything: Sequence[RankedRow]) -> list[_Scored]:
    """Return all rows with their scores, intervals, and the reasons why they are not ranked, grouped by peers."""
    groups = grouped(everything, lambda row: row.peers)
    names: dict[str, int] = {}
    scored = []
    for (suite, _, profile, _), peers in groups.items():
        protocol = minimum.declared(suite, profile) or minimum.usual(peers)
        for full_row in peers:
            row = minimum.scored(full_row, protocol)
            if not row.seeds:
                row = row.of([max(row.tasks, key=lambda task: len(row.tasks[task].seeds))])
            name = details.name_of(full_row)
            names[name] = names.get(name, 0) + 1
            name = name if names[name] == 1 else f"{name}-{names[name]}"
            relation = _relation(full_row)
            reasons = [relation.reason] if relation else []
            reasons += minimum.lacking(minimum.scored(full_row, protocol), protocol)
            interval = ranking.scored(details.final(row), name)
            board = "" if reasons else minimum.board(full_row, protocol)
            scored.append(
                _Scored(name, full_row, row, board, clean("; ".join(reasons), 600), interval, details.sample(row))
            )
    return scored


class _Relation(NamedTuple):
    """How a row is related to an earlier row of the same configuration, which holds the rank."""

    name: str
    source: str
    """The source of that row."""

    @property
    def reason(self) -> str:
        """Return why the later row has no rank of its own."""
        relation = "it repeats a configuration of" if self.name == REPLICATION else "it has further seeds of a row of"
        return f"{relation} {self.source}, whose row holds the rank"


def _relation(row: RankedRow) -> _Relation | None:
    """Return how a row is related to a row of the same configuration in an earlier source; None if there is no such
    row."""
    for name, earlier in ((REPLICATION, row.source.replications), (FURTHER, row.source.further)):
        for id in _cells(row):
            if id in earlier:
                return _Relation(name, earlier[id])
    return None


def _cells(row: RankedRow) -> list[str]:
    return [measured.cell.id for measured in row.tasks.values()]


def _related(entries: Sequence[Entry], scored: Sequence[_Scored]) -> list[Entry]:
    """Return the entries; one whose configuration is ranked in another row gets the id of that row (`beneath`) and
    their relation."""
    homes = {(row.full_row.source.name, id): row.id for row in scored for id in _cells(row.full_row)}
    related = []
    for entry, row in zip(entries, scored, strict=True):
        relation = _relation(row.full_row)
        if relation is not None:
            places = ((relation.source, id) for id in _cells(row.full_row))
            home = next((homes[place] for place in places if place in homes), "")
            entry = replace(entry, beneath=home, relation=relation.name)
        related.append(entry)
    return related


def _ranked(scored: Sequence[_Scored]) -> dict[str, tuple[int, int, int]]:
    """Return row id -> (rank, best and worst rank within its interval) of the rows that are ranked, among peers on the
    same tasks."""

    def contest(row: _Scored) -> tuple[object, ...]:
        measures = tuple((task, measured.cell.score) for task, measured in sorted(row.counted_row.tasks.items()))
        return *row.full_row.peers, row.board, measures

    ranks = {}
    for peers in grouped((row for row in scored if not row.apart), contest).values():
        places = ranking.ranks([row.sample for row in peers])
        for row, place in zip(peers, zip(*places, strict=True), strict=True):
            ranks[row.id] = tuple(int(number) for number in place)
    return ranks  # type: ignore[return-value]


def _entry(
    scored: _Scored, mean: Estimate, ranks: tuple[int, int, int] | None, cell_costs: Mapping[str, CellCost]
) -> Entry:
    full_row, row, cell = scored.full_row, scored.counted_row, scored.full_row.first
    rank, low, high = ranks or (None, None, None)
    asking_cells = [measured.cell for measured in full_row.tasks.values() if ledger.is_billed(measured.cell)]
    billed_costs = (
        [cell_costs[cell.id] for cell in asking_cells] if all(cell.id in cell_costs for cell in asking_cells) else []
    )
    learners = dict.fromkeys(measured.cell.learner for measured in full_row.tasks.values() if measured.cell.learner)
    return Entry(
        id=scored.id,
        suite=clean(cell.suite, 300),
        tab=full_row.tab or "other",
        profile=clean(cell.profile, 300),
        label=clean(full_row.label, 400),
        method=clean(cell.method, 300),
        learner=clean(", ".join(learners), 300),
        backend=clean(cell.backend, 300),
        model=clean(cell.model, 300),
        score=scored.score,
        mean=mean,
        board=clean(scored.board, 300),
        rank=rank,
        rank_low=low,
        rank_high=high,
        apart=scored.apart,
        seeds=row.seeds,
        tasks=tuple(clean(task, 300) for task in row.tasks),
        steps=max(measured.cell.total for measured in row.tasks.values()),
        episodes=min(measured.episodes for measured in row.tasks.values()),
        calls=sum(cost.calls for cost in billed_costs) if billed_costs else None,
        usd=round(sum(cost.usd for cost in billed_costs), 4) if billed_costs else None,
        hardware=details.hardware(full_row),
        standing=_standing(full_row),
        protocol=f"suite {'unknown' if full_row.version is None else full_row.version}, record {schema.SCHEMA_VERSION}",
        source=clean(
            f"{full_row.source.name}, by {full_row.source.by}" if full_row.source.by else full_row.source.name, 600
        ),
        measure=details.measure(row.score),
        conditions=clean(comparability.words(full_row.conditions), 300),
    )


def _named(entries: Sequence[Entry], rows_of: Mapping[str, RankedRow]) -> list[Entry]:
    """Return the entries with names that say only what differs between the rows of a table. Rows of one source and of
    the same tasks that would have one name keep their labels."""
    by_id, tables = {entry.id: entry for entry in entries}, dict[tuple[object, ...], list[Entry]]()
    for entry in entries:
        tables.setdefault(entry.table(by_id.get(entry.beneath)), []).append(entry)
    named = {}
    for (is_ranked, *_), members in tables.items():
        cells = [rows_of[entry.id].first for entry in members]
        brief = names.brief(list({cell.id: cell for cell in cells}.values()), [])
        conditions = {name for name, _ in rows_of[members[0].id].conditions} if is_ranked else set()
        shared = ", ".join(override for override in brief.shared if override.partition("=")[0] not in conditions)
        changed = [
            replace(entry, name=clean(brief.labels[cell.id], 400), shared=clean(shared, 400))
            for entry, cell in zip(members, cells, strict=True)
        ]
        uses = Counter((entry.name, entry.source, entry.tasks) for entry in changed)
        for entry in changed:
            is_distinct = uses[entry.name, entry.source, entry.tasks] == 1
            named[entry.id] = entry if is_distinct and entry.name != entry.label else replace(entry, name="")
    return [named[entry.id] for entry in entries]


def _pictures(row_details: Details) -> Pictures:
    return row_details.episodes.pictures if row_details.episodes else ""


def _standing(row: RankedRow) -> Standing:
    """Return "verified" if all cells of the row are, "disputed" if one is, else "self-reported"."""
    verification = row.source.verification
    standings = {
        verification.cells[measured.cell.id].standing
        if verification and measured.cell.id in verification.cells
        else "self-reported"
        for measured in row.tasks.values()
    }
    return "disputed" if "disputed" in standings else "verified" if standings == {"verified"} else "self-reported"


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
    versions = [row.version for row in everything if row.first.suite == name and row.version is not None]
    return Suite(clean(name, 300), clean(name, 300), max(versions, default=0))


def _sorted(entries: Sequence[Entry]) -> list[Entry]:
    """Sort entries by suite, tab and profile; within these ranked rows come first, by rank, each before the rows
    beneath it."""
    tabs, by_id = list(TABS), {row.id: row for row in entries}

    def key(row: Entry) -> tuple[object, ...]:
        place = row.suite, tabs.index(row.tab), row.profile
        return (
            *place,
            row.rank is None,
            row.conditions,
            row.board,
            row.rank or 0,
            (row.score.value or 0) * (1 if row.measure.direction == "lower" else -1),
            row.label,
            row.id,
        )

    def beneath(row: Entry) -> tuple[object, ...]:
        original = by_id.get(row.beneath)
        return (*key(original), True, *key(row)) if original else (*key(row), False)

    return sorted(entries, key=beneath)


def _commit() -> str:
    head, dirty = provenance.commit()
    return f"{head[:12]}{'+' if dirty else ''}"
