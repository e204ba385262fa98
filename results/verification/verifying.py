"""Verify a submission cell by cell: configuration, repeated final evaluations, new layouts, pictures, model calls.

Verification detects a final evaluation that its checkpoint does not reproduce (an episode edited, removed or added, a
checkpoint exchanged), a configuration that makes another cell, success that does not hold on layouts that were unknown
when the submission was made, and answers that the named model does not give. It cannot detect false evaluations before
the last, which have no checkpoint, so learning curves remain unverified; a training setting that does not affect
acting, changed together with every id that depends on it; false steps, time or cost of training; and false answers of a
model that cannot be called.
"""

from __future__ import annotations

import functools
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.gym import recorder
from guidebench.harness.identity import provenance
from guidebench.harness.models import study_models
from guidebench.harness.models.budget import Limits
from guidebench.harness.models.cassette import MERGED
from guidebench.harness.plan.config import Cell as Configured
from guidebench.harness.records.clips import read_gallery
from guidebench.results import limits
from guidebench.results.joining import select
from guidebench.results.rows import file_of, load
from guidebench.results.store import CellRecord, RunRecord, StudyRecord
from guidebench.results.verification import pictures, reasking, record, replaying
from guidebench.results.verification.configuration import Altered, Unusable, configuration
from guidebench.results.verification.pictures import GalleryRun
from guidebench.results.verification.playing import Misfit, Played, Player, RunEvaluations
from guidebench.results.verification.reasking import ReaskingCost
from guidebench.results.verification.record import CellVerdict, Check, Tally, Verification

if TYPE_CHECKING:
    import pandas as pd

LAYOUTS = 2**32
"""Distance between the layout seeds of consecutive runs; new layouts use seeds above those of every run (as
`guidebench.harness.playback.reevaluation.SHIFT`)."""
SECONDS = 60.0
"""Time limit for reading the evaluations of a cell, in seconds."""
NOTHING = Tally(0, 0)
Tell = Callable[[int, str], None]
"""Receives the number of finished cells and a description of the next action."""


@dataclass(frozen=True)
class Options:
    """Settings of a verification, from the command line."""

    seed: int | None
    """Seed of new layouts and samples; None draws an unpredictable one."""
    episodes: int = 32
    calls: int = 20
    runs: int | None = None
    tolerance: float = 0.0
    limit: float = 600.0
    """Time limit in seconds for one run, and for the calls of one cell."""
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    """How to reach models: settings such as `judge.base_url`."""
    allowed: Limits | None = None
    """Limits on all calls together; None allows no call that may cost money."""


class Evidence(NamedTuple):
    """Results of one cell, before the correction over all cells."""

    checks: tuple[Check, ...]
    reason: str
    """Why the cell cannot be verified, or ""."""
    reported: Tally = NOTHING
    renewed: Tally = NOTHING
    counts: str = "success"
    """Description of the outcome that the tallies count."""


def verify(study: StudyRecord, digest: str, options: Options, leaderboard: Path | None, tell: Tell) -> Verification:
    """Verify every cell of a study; write the record to `leaderboard`, if given, after every cell with checks.

    An interrupted verification continues: the cells that the same command has finished are kept, and so is its seed. A
    complete record is replaced, whoever wrote it.
    """
    empty, evidence = _interrupted(study, digest, options, leaderboard)
    cassette = study_models.folder(study.directory) / MERGED
    player = Player(options.limit)
    spent = Path(tempfile.mkdtemp(prefix="guidebench-"))
    account = (
        None
        if options.allowed is None
        else ReaskingCost(study_models.folder(spent) / study_models.BUDGET, options.allowed)
    )
    cells = len({run.cell.id for run in study.runs if _playable(study, run)})
    try:
        for cell in study.cells:
            if cell.id in evidence:
                continue
            tell_cell = functools.partial(tell, len(evidence))
            evidence[cell.id] = _examined(study, cell, cassette, options, empty.seed, player, account, tell_cell)
            if leaderboard is not None and evidence[cell.id].checks:
                record.write(_judged(empty, evidence, cells), leaderboard)
    finally:
        player.close()
        shutil.rmtree(spent, ignore_errors=True)
    verification = _judged(empty, evidence, cells)
    if leaderboard is not None:
        record.write(verification, leaderboard)
    return verification


def _interrupted(
    study: StudyRecord, digest: str, options: Options, leaderboard: Path | None
) -> tuple[Verification, dict[str, Evidence]]:
    """Return an empty record with its seed, and the complete results of an interrupted verification with the same
    settings, program and machine."""
    origin = provenance.provenance("cpu")
    empty = Verification(
        digest, {}, secrets.randbits(32) if options.seed is None else options.seed, options.episodes, options.calls,
        options.runs, options.tolerance, origin["commit"], origin["dirty"], origin["packages"], origin["hardware"],
    )  # fmt: skip
    before = record.read(leaderboard, digest) if leaderboard is not None else None
    if before is None:
        return empty, {}
    expected = replace(empty, seed=before.seed) if options.seed is None else empty
    if replace(before, cells={}) != expected or all(cell.id in before.cells for cell in study.cells):
        warnings.warn("replacing an earlier record", stacklevel=2)
        return empty, {}
    scored = {cell.id: replaying.counted(cell.score) for cell in study.cells}
    return expected, {
        id: Evidence(
            tuple(check for check in verdict.checks if check.what != replaying.RENEWAL), "", verdict.reported,
            verdict.renewed, scored.get(id, "success"),
        )
        for id, verdict in before.cells.items()
        if verdict.standing != "self-reported"
        and all(check.passed is not None or record.is_of_gallery(check) for check in verdict.checks)
    }  # fmt: skip


def _judged(empty: Verification, evidence: Mapping[str, Evidence], cells: int) -> Verification:
    """Return the verdicts on the cells found so far; `cells` is the number of all playable cells."""
    p_values = {
        id: replaying.p_value(cell_evidence.reported, cell_evidence.renewed)
        for id, cell_evidence in evidence.items()
        if cell_evidence.renewed.episodes
    }
    adjusted = replaying.holm(p_values, cells)
    verdicts = {}
    for id, cell_evidence in evidence.items():
        checks = cell_evidence.checks
        reason = cell_evidence.reason
        if id in adjusted:
            renewal = replaying.renewal(
                cell_evidence.reported, cell_evidence.renewed, adjusted[id], cells, cell_evidence.counts
            )
            checks += (renewal,)
            if renewal.passed is None:
                reason = reason or f"{renewal.what}: {renewal.detail}"
        failed = [f"{check.what}: {check.detail}" for check in checks if check.passed is False]
        standing: record.Standing = "disputed" if failed else "self-reported" if reason else "verified"
        reason = _short("; ".join(failed) or reason)
        shortened = tuple(Check(_short(check.what), check.passed, _short(check.detail)) for check in checks)
        verdicts[id] = CellVerdict(standing, reason, shortened, cell_evidence.reported, cell_evidence.renewed)
    return Verification(**{**vars(empty), "cells": verdicts})


def _examined(
    study: StudyRecord,
    cell: CellRecord,
    cassette: Path,
    options: Options,
    seed: int,
    player: Player,
    account: ReaskingCost | None,
    tell: Callable[[str], None],
) -> Evidence:
    """Return the results of one cell; an error in one run is reported and the other runs continue."""
    runs = [run for run in study.runs if run.cell.id == cell.id]
    if not cell.profile:
        return Evidence((), "it was not started")
    if cell.backend == recorder.BACKEND or not cell.parts:
        return Evidence((), "its runs were made elsewhere, so there is no checkpoint that this program could play")
    try:
        configured = configuration(study.directory / cell.directory, cell.id)
        rows = reader_process.call(
            f"{study.directory}: reading the evaluations of cell {cell.id}", SECONDS, _rows, study, cell.id
        )
    except Altered as error:
        return Evidence((Check("configuration", False, str(error)),), "")
    except (Unusable, UserError) as error:
        return Evidence((Check("configuration", None, str(error)),), str(error))
    checks = [Check("configuration", True, f"names and settings make cell {cell.id}")]
    playable = [run for run in runs if _playable(study, run)]
    reason = _unplayable(runs, playable)
    chosen = _chosen(playable, options.runs, seed)
    if len(chosen) < len(playable):
        checks.append(Check("runs", True, f"{len(chosen)} of {len(playable)} were played, drawn by the seed"))
    reported, renewed, alike = NOTHING, NOTHING, False
    unplayed = ""
    answers = cassette if configured.consulted and cassette.is_file() else None
    if answers is not None:
        try:
            reasking.sound(answers)
        except UserError as error:
            return Evidence((*checks, Check("recorded calls", None, str(error))), str(error))
    model_fields = _model_fields(configured, answers, options, account)
    for run in chosen:
        tell(f"{_name(cell)}, seed {run.seed}: playing")
        final = rows[rows["seed"] == run.seed]
        check, played = _replayed(study, run, configured, final, options, seed, player, model_fields)
        checks.append(check)
        if check.passed is None:
            reason = reason or f"{check.what}: {check.detail}"
        if played is not None:
            recorded_outcomes, renewed_outcomes = replaying.outcomes(
                cell.score, list(_episodes(final).values()), played.renewed
            )
            reported, renewed = _plus(reported, recorded_outcomes), _plus(renewed, renewed_outcomes)
            alike = alike or not (played.renewed or played.unplayed)
            unplayed = unplayed or played.unplayed
    if unplayed:
        checks.append(
            Check("layouts", None, f"its agent asks models about new layouts, and these were not asked: {unplayed}")
        )
        reason = reason or f"layouts: {unplayed}"
    if alike:
        checks.append(Check("layouts", True, "every episode of a run is the same, so that there is no new one to play"))
    for run in runs:
        if gallery_check := _pictures(study, run, configured, answers, player, tell):
            checks.append(gallery_check)
    if options.calls and reasking.asked_models(configured):
        tell(f"{_name(cell)}: asking")
        seeds = [run.seed for run in runs]
        checks += reasking.checks(
            configured, seeds, cassette, options.model_settings, options.calls, seed, options.limit, account
        )
    return Evidence(tuple(checks), reason, reported, renewed, replaying.counted(cell.score))


def _rows(study: StudyRecord, cell: str) -> pd.DataFrame:
    """Return the episodes of the last evaluation of each of a cell's runs, read within limits."""
    runs = [run for run in study.runs if run.cell.id == cell]
    for run in runs:
        file = file_of(study.directory / run.directory, "evaluations", run.status == "finished")
        if file is not None and file.suffix == ".parquet":
            limits.footer(file)
    rows = load(select(study, lambda candidate: candidate.id == cell), threads=1)
    last: pd.DataFrame = rows[rows["step"] == rows.groupby("seed")["step"].transform("max")]
    return last


def _replayed(
    study: StudyRecord,
    run: RunRecord,
    configured: Configured,
    final: pd.DataFrame,
    options: Options,
    seed: int,
    player: Player,
    model_fields: Mapping[str, Any],
) -> tuple[Check, Played | None]:
    """Return the check of a run's final evaluation, and the evaluations made for it. `model_fields`: fields of
    `RunEvaluations` for an agent that calls models while it acts."""
    name = replaying.replay_of(run.seed)
    step = int(final["step"].max()) if len(final) else 0
    request = RunEvaluations(
        study.directory / run.cell.directory, configured.id, run.seed, step, configured.section("evaluation").episodes,
        LAYOUTS * (run.seed + 1) + seed, options.episodes, **model_fields,
    )  # fmt: skip
    try:
        played = player(request)
    except Misfit as error:
        return Check(name, False, str(error)), None
    except UserError as error:
        return Check(name, None, str(error)), None
    if step != played.end:
        words = f"the last evaluation on record is of step {step:,}, and its configuration ends at {played.end:,}"
        return Check(name, False, words), None
    if not played.deterministic:
        return Check(name, None, "its agent acts at random, so that no episode repeats"), played
    compared = replaying.compare(_episodes(final), played.again)
    return replaying.judged(run.seed, compared, _elsewhere(run), options.tolerance), played


def _pictures(
    study: StudyRecord,
    run: RunRecord,
    configured: Configured,
    answers: Path | None,
    player: Player,
    tell: Callable[[str], None],
) -> Check | None:
    """Return the check of a run's gallery, None if it has none. It concerns the pictures and none of the run's numbers,
    so it never decides the standing of its cell."""
    name = record.gallery_check(run.seed)
    try:
        gallery = read_gallery(study.directory / run.directory)
        if gallery is None or not gallery.episodes:
            return None
        if not _playable(study, run):
            raise UserError("the run has no final checkpoint")
        if _others(run):
            raise UserError("the run was made with other packages than those here")
        tell(f"{_name(run.cell)}, seed {run.seed}: playing its gallery")
        cell = study.directory / run.cell.directory
        return pictures.check(run.seed, player.pictures(GalleryRun(cell, configured.id, run.seed, answers)))
    except (UserError, Misfit, OSError) as error:
        return Check(name, None, f"{record.UNVERIFIED}: {error}")


def _model_fields(
    configured: Configured, cassette: Path | None, options: Options, account: ReaskingCost | None
) -> dict[str, Any]:
    """Return the fields of `RunEvaluations` for an agent that calls foundation models while it acts: recorded answers,
    and the verifier's models if they may be called about new layouts. Empty for other agents."""
    roles = [role for role in configured.consulted if study_models.is_recorded(configured.section(role))]
    if not roles:
        return {}
    try:
        reached = {}
        for role in sorted(roles):
            config = reasking.reached(configured, role, options.model_settings)
            reasking.affordable(config, role, account)
            reached[role] = asdict(config)
    except (reasking.Unasked, UserError) as error:
        return {"cassette": cassette, "unreached": str(error)}
    budget = {"spent": str(account.path.parents[1]), "allowed": account.limits._asdict()} if account else {}
    return {"cassette": cassette, "reached": reached, **budget}


def _episodes(final: pd.DataFrame) -> dict[int, replaying.RecordedEpisode]:
    """Return episode number -> recorded episode of a final evaluation."""
    columns = (final[name].tolist() for name in ("return", "success", "length", "score"))
    return dict(zip(final["episode"].tolist(), map(replaying.RecordedEpisode, *columns), strict=True))


def _chosen(playable: list[RunRecord], most: int | None, seed: int) -> list[RunRecord]:
    """Return the runs to evaluate, sampled with `seed` if there are more than `most`."""
    if most is None or most >= len(playable):
        return playable
    places = np.random.default_rng(seed).permutation(len(playable))[:most]
    return [playable[place] for place in sorted(places)]


def _unplayable(runs: list[RunRecord], playable: list[RunRecord]) -> str:
    """Return why a cell's runs cannot all be evaluated, or ""."""
    if not runs:
        return "it has no runs"
    unfinished = [run.seed for run in runs if run.status != "finished"]
    if unfinished:
        return f"not finished: seed {', '.join(map(str, unfinished[:10]))}"
    absent = [run.seed for run in runs if run not in playable]
    return f"without its final parameters: seed {', '.join(map(str, absent[:10]))}" if absent else ""


def _elsewhere(run: RunRecord) -> str:
    """Return a description of both machines, or "" if the run records the processor and packages of this machine."""
    current = provenance.provenance("cpu")
    machine = run.provenance.get("hardware")
    machine = machine if isinstance(machine, dict) else {}
    if not _others(run) and all(machine.get(name) == current["hardware"][name] for name in ("processor", "device")):
        return ""
    others = ", with other packages" if _others(run) else ""
    return f"made on {_machine(machine)}, played on {_machine(current['hardware'])}{others}"


def _others(run: RunRecord) -> bool:
    """Return whether a run was made with packages other than those installed, apart from guidebench itself."""
    packages = run.provenance.get("packages")
    packages = packages if isinstance(packages, dict) else {}
    return bool(packages != provenance.packages() | {"guidebench": packages.get("guidebench")})


def _machine(hardware: Mapping[str, Any]) -> str:
    return f"{str(hardware.get('processor'))[:100]} ({str(hardware.get('gpu') or hardware.get('device'))[:100]})"


def _playable(study: StudyRecord, run: RunRecord) -> bool:
    """Return whether a run has a checkpoint that this program can evaluate."""
    made_here = run.cell.profile and run.cell.parts and run.cell.backend != recorder.BACKEND
    policy = study.directory / run.directory / "policy.safetensors"
    return bool(made_here) and run.status == "finished" and policy.is_file()


def _plus(tally: Tally, successes: list[bool]) -> Tally:
    return Tally(tally.successes + sum(successes), tally.episodes + len(successes))


def _name(cell: CellRecord) -> str:
    return f"{cell.suite}/{cell.task} {cell.label}"


def _short(text: str) -> str:
    """Return a text in the form that a record allows."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:1_000]
