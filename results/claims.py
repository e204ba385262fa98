"""The runs of the rows of a study's claims: which seeds are drawn, missing or strangers, and whether the claims were
committed before the runs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from guidebench.harness import claims
from guidebench.harness.errors import UserError
from guidebench.results.store import CellRecord, ClaimsRecord, StudyRecord

_SECONDS = 60
"""Most seconds of one command of git."""


class ClaimedRow(NamedTuple):
    """The cells of a row of a study's claims, and the state of their seeds."""

    cells: tuple[CellRecord, ...]
    missing: Mapping[int, str]
    """Drawn seed of which some cell has no finished run -> the status of that run; `waiting` without one."""
    strangers: tuple[int, ...]
    """Seeds with runs that were not drawn from the claims."""


def claimed_rows(study: StudyRecord, record: ClaimsRecord) -> dict[str, ClaimedRow]:
    """Return row, its words joined by a space -> its cells and seeds, in the order of the claims."""
    cells = {cell.id: cell for cell in study.cells}
    statuses = {(run.cell.id, run.seed): run.status for run in study.runs}
    drawn = record.content.seeds
    rows = {}
    for row, ids in record.rows.items():
        missing = {}
        for seed in drawn:
            states = [statuses.get((cell, seed), "waiting") for cell in ids]
            if unfinished := [state for state in states if state != "finished"]:
                missing[seed] = unfinished[0]
        strangers = {seed for (cell, seed), status in statuses.items() if cell in ids and status != "waiting"}
        rows[row] = ClaimedRow(tuple(cells[cell] for cell in ids), missing, tuple(sorted(strangers - {*drawn})))
    return rows


def faults(study: StudyRecord, repository: Path) -> list[str]:
    """Return what speaks against a study's claims having been made before its runs, [] if nothing does: seeds that were
    not drawn, and runs whose commit does not descend from the one that brought the claims into the repository.

    Raises UserError for a directory without a full clone, where commits cannot be compared.
    """
    if study.claims is None:
        return []
    rows = claimed_rows(study, study.claims)
    texts = [f"{row}: seed {seed} was not drawn from the claims" for row, of in rows.items() for seed in of.strangers]
    claimed = {cell for ids in study.claims.rows.values() for cell in ids}
    commits: dict[str, list[str]] = {}
    for run in study.runs:
        if run.cell.id in claimed and run.status != "waiting":
            commits.setdefault(str(run.provenance.get("commit") or ""), []).append(run.directory)
    origin = first_commit(study.claims.content.digest, repository)
    if not origin:
        return [*texts, f"no commit holds claims with the digest {study.claims.content.digest[:12]}"]
    for commit, runs in commits.items():
        if not commit or not _is_ancestor(origin, commit, repository):
            texts.append(
                f"{runs[0]} ({len(runs)} of this kind): its commit {commit[:12] or 'is not recorded and'} does not "
                f"descend from {origin[:12]}, which brought the claims"
            )
    return texts


def first_commit(digest: str, repository: Path) -> str:
    """Return the first commit, in the history of HEAD, that holds a claims.json with this digest; "" if none does.
    Raise UserError outside a full clone."""
    if _git(repository, "rev-parse", "--is-shallow-repository").strip() != "false":
        raise UserError(f"{repository} is no full clone of a git repository, so no commit of claims can be looked up")
    log = _git(repository, "log", "--reverse", "--format=%x00%H", "--name-only", "--", f"*{claims.CLAIMS}")
    for entry in filter(None, log.split("\0")):
        commit, *files = entry.split("\n")
        for file in filter(None, files):
            try:
                content = _git(repository, "show", f"{commit}:{file}")
                if claims.parsed(content.encode(), file).digest == digest:
                    return commit
            except UserError:  # removed by this commit, or not valid
                continue
    return ""


def _is_ancestor(commit: str, descendant: str, repository: Path) -> bool:
    try:
        _git(repository, "merge-base", "--is-ancestor", commit, descendant)
    except UserError:
        return False
    return True


def _git(repository: Path, *words: str) -> str:
    """Return the output of a command of git; raise UserError if it fails."""
    command = ["git", "-C", str(repository), *words]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeError) as error:
        detail = str(getattr(error, "stderr", "") or error).strip()[:200]
        raise UserError(f"git {' '.join(words)[:100]} in {repository}: {detail}") from None
    return process.stdout
