"""The writing of a worker's run directories, and the search for the checkpoint from which runs continue."""

from __future__ import annotations

import functools
import hashlib
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness import logs
from guidebench.harness.errors import Notice
from guidebench.harness.identity.cells import record
from guidebench.harness.interfaces import Agent, Array, Question, State
from guidebench.harness.logs import Log
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.evaluation import Result
from guidebench.harness.loop.job import Job
from guidebench.harness.loop.probes import Point
from guidebench.harness.models import spending, study_models
from guidebench.harness.models.calls import Answer, Ticket, Usage
from guidebench.harness.models.questions import Backend, QuestionAccount
from guidebench.harness.parts import AskingPart
from guidebench.harness.plan.config import Cell
from guidebench.harness.records import answers as answer_files
from guidebench.harness.records import role_counts
from guidebench.harness.records.answers import AnswerLog, AnswerRecord
from guidebench.harness.records.files import Rows, sync, write_bytes
from guidebench.harness.records.leases import Fenced, Lease
from guidebench.harness.records.role_counts import RoleCount
from guidebench.harness.records.schema import EVALUATION, LOGS, ROLES, SCORE, Identity, evaluation
from guidebench.harness.records.study import POLICY, POLICY_DIGEST, RunDirectory
from guidebench.harness.run.pace import Pace

TELL_EVERY = 0.5
"""Seconds between two progress messages of a worker to the launcher."""
LIVE_EVERY = 2.0
"""Seconds between two writes of a run's current progress, for `bench status` and other programs."""


class RunJournal:
    """The Journal of a worker's loop: writes the run directories of its seeds."""

    def __init__(
        self, job: Job, cell: Cell, tell: Callable[[dict[str, Any]], None], held: Mapping[RunDirectory, Lease]
    ) -> None:
        """`held`: the run directories of the job's seeds, and their leases, which the journal releases."""
        self._job, self._cell, self._tell = job, cell, tell
        self._columns = tuple(evaluation(cell.score))
        self.runs, self._leases = list(held), list(held.values())
        for run in self.runs:
            run.hide()  # remove the live file of a killed worker
        self._identities = [Identity(**self._identity(seed)) for seed in job.seeds]
        self._rows: list[dict[str, Rows]] = []
        self._answer_logs: list[AnswerLog] = []
        """One for each run, if the runs keep the answers of their models."""
        self._dropped: set[int] = set()
        self._score: list[float | None] = [run.read().get("score") for run in self.runs]
        self._messaged_at = self._live_at = 0.0
        self._rate: float | None = None
        self._pace = Pace()
        self._backends: Sequence[Backend] = ()

    def _identity(self, seed: int) -> dict[str, Any]:
        content = record(self._cell)
        names = {key: content[key] for key in EVALUATION if key in content and key != "study"}
        return {**names, "study": self._job.study, "seed": seed}

    def open(
        self, offsets: Sequence[Mapping[str, int]], step: int, backends: Sequence[Backend], learning_begins: int = 1
    ) -> None:
        """Open the logs at the byte offsets of a checkpoint of `step` (empty mappings and 0 for a new run). `backends`:
        the backends that answer questions; `learning_begins`: the first step from which a speed is reported."""
        self._backends, self._checkpoint_step = backends, step
        self._pace = Pace(since=learning_begins)
        for number, (run, offset) in enumerate(zip(self.runs, offsets, strict=True)):
            self._score[number] = self._score[number] if offset else None
            names = ("evaluations", *LOGS, *self._cell.logs)
            self._rows.append({name: Rows(run.path / f"{name}.jsonl", int(offset.get(name, 0))) for name in names})
            if self._job.answers and self._cell.models:
                self._answer_logs.append(AnswerLog(run.path, int(offset.get(answer_files.LINES, 0))))

    def answered(self, row: int, records: Sequence[AnswerRecord]) -> None:
        """Keep the answers to a question of a seed."""
        if row not in self._dropped:
            self._answer_logs[row].add(records)

    def evaluated(self, step: int, results: Sequence[Result]) -> None:
        for result in results:
            row = self._identities[result.row].row(
                step=step, episode=result.episode, success=result.success, length=result.length
            )
            row |= {"return": result.ret, SCORE: result.score}
            self._rows[result.row]["evaluations"].append({name: row[name] for name in self._columns})
            for subgoal, met in result.subgoals.items():
                fields = {"step": step, "episode": result.episode, "subgoal": subgoal, "met": met}
                self._rows[result.row]["subgoals"].append(fields)
            for outcome, value in result.outcomes.items():
                fields = {"step": step, "episode": result.episode, "outcome": outcome, "value": float(value)}
                self._rows[result.row]["outcomes"].append(fields)
        for number in {result.row for result in results}:
            self._score[number] = float(np.mean([result.score for result in results if result.row == number]))

    def measured(self, row: int, step: int, metrics: dict[str, float]) -> None:
        finite = {name: value if np.isfinite(value) else None for name, value in metrics.items()}
        self._rows[row]["metrics"].append({"step": step, **finite})

    def judged(self, ticket: Ticket, question: Question, answer: Answer, step: int) -> None:
        """Log one judged clip. `events` counts the events in the clip, for diagnosis; it is missing if the task has no
        events. An answered clip has a `score`, and a `mass` if the model returned one; an unanswered one has a
        `failure`."""
        row: dict[str, Any] = {"ordinal": ticket.ordinal, "asked": ticket.step, "applied": step}
        row |= {} if ticket.role == "judge" else {"role": ticket.role}
        extra: dict[str, Any] = {"failure": answer.failure} if answer.failure else {"score": float(answer.value)}
        extra |= {"mass": answer.detail["mass"]} if "mass" in answer.detail else {}
        extra |= {"events": int(question.events.sum())} if question.events.shape[1] else {}
        self._rows[question.row]["judgements"].append({**row, "slots": len(question.key), **extra})

    def noted(self, log: str, row: int, step: int, values: Mapping[str, Any]) -> None:
        if log not in self._cell.logs:
            raise logs.undeclared(log, self._cell.logs)
        if row in self._dropped:
            return
        subject = f"a row that {self._cell.logged_by(log)} notes in the log {log!r}"
        self._rows[row][log].append(logs.fitting({"step": step, **values}, self._cell.logs[log], subject))

    def probed(self, row: int, step: int, points: Iterable[Point]) -> None:
        for point in points:
            self._rows[row]["probes"].append({"step": step, **point._asdict()})

    def timed(self, step: int, clock: dict[str, float], accounts: Mapping[str, Sequence[QuestionAccount]]) -> None:
        extra: dict[str, float] = {}
        if self._backends:
            extra = {
                "clips": sum(backend.clips for backend in self._backends),
                "judge_seconds": sum(backend.seconds for backend in self._backends),
                "judge_restarts": sum(backend.restarts for backend in self._backends),
            }
            if any(backend.memory.peak for backend in self._backends):
                extra["judge_gibibytes_load"] = sum(backend.memory.load for backend in self._backends)
                extra["judge_gibibytes_peak"] = sum(backend.memory.peak for backend in self._backends)
        for rows in self._rows:
            rows["timings"].append({"step": step, "seeds": len(self.runs), **clock, **extra})
        if accounts and step < self._cell.steps:  # that of the last step is written when all calls have ended
            self._account_for(step, accounts)

    def _account_for(self, step: int, accounts: Mapping[str, Sequence[QuestionAccount]]) -> None:
        """Write the ledger of each run: the usage that its questions would have without a cassette, by its accounts,
        and the usage actually billed, by the cassette. Hand-written models, oracles and persons cost nothing."""
        if self._job.shared:
            self._secure()  # what was spent here is then on the study's disk
        spent = self._spent([role for role in accounts if study_models.is_recorded(self._cell.section(role))])
        for number, (rows, *mine) in enumerate(zip(self._rows, *accounts.values(), strict=True)):
            by_role = dict(zip(accounts, mine, strict=True))
            billed = {role: spent[number].get(role, Usage()) for role in by_role}
            total = functools.reduce(QuestionAccount.plus, mine), functools.reduce(Usage.plus, billed.values())
            counts = role_counts.written(self._roles(by_role))
            rows["ledger"].append({"step": step, **_ledger(*total), ROLES: counts})
            for role, account in by_role.items() if len(mine) > 1 else ():
                rows["spending"].append({"step": step, "role": role, **_ledger(account, billed[role])})

    def _spent(self, recorded: Sequence[str]) -> list[dict[str, Usage]]:
        """Return role -> billed usage of each run, for the roles `recorded`, without calls of probes. In studies from
        before accounts named roles, usage without a role counts for the first one."""
        names = self._cell.runs(self._job.seeds)
        usages = [dict.fromkeys(recorded, Usage()) for _ in names]
        accounts = spending.spent(study_models.folder(Path(self._job.directory)), names) if recorded else {}
        for account, usage in accounts.items():
            role = account.role or recorded[0]
            mine = usages[names.index(account.run)]
            if account.purpose == "runs" and role in mine:
                mine[role] = mine[role].plus(usage)
        return usages

    def _roles(self, accounts: Mapping[str, QuestionAccount]) -> dict[str, RoleCount]:
        """Return role -> counts of questions and failures, with the asking parts' remarks on too few answers."""
        remarks: dict[str, str] = {}
        for part in self._cell.sections.values():
            remarks |= part.essential if isinstance(part, AskingPart) else {}
        return {
            role: RoleCount(
                account.questions, account.failures,
                "" if role_counts.enough(account.questions, account.failures) else remarks.get(role, ""),
                account.retried,
            )
            for role, account in accounts.items()
        }  # fmt: skip

    def checkpoint(self, step: int, states: Callable[[int], State]) -> None:
        self._secure()
        self._checkpoint_step = step
        for number, run in enumerate(self.runs):
            if number in self._dropped:
                continue
            offsets = {name: rows.flush() for name, rows in self._rows[number].items()}
            if self._answer_logs:
                offsets[answer_files.LINES] = self._answer_logs[number].flush()
            checkpoints.save(run.path, step, {"offsets": offsets, "loop": states(number)}, self._leases[number].fence)
            run.update(status="running", step=step, score=self._score[number])

    def diverged(self, row: int, step: int) -> None:
        self._dropped.add(row)
        message = f"action, loss or gradient were no longer finite at step {step}; the last checkpoint before is kept"
        self.runs[row].update(status="failed", step=step, error=message)
        self._tell({"event": "failed", "seed": self._job.seeds[row], "error": message})

    def progress(
        self, step: int, score: Array, waited: float, accounts: Callable[[], Sequence[QuestionAccount]], phase: str
    ) -> None:
        """Report progress to the launcher every `TELL_EVERY` seconds and in the run directory every `LIVE_EVERY`.
        `accounts`: returns the model usage of each seed, called only for a report; `phase`: name of the current run
        phase, or "" if the run has only one."""
        if time.monotonic() - self._messaged_at >= TELL_EVERY or step == self._cell.steps:
            self._rate = self._pace(step)
            self._report(step, score, waited, accounts(), phase)

    def consulting(
        self, step: int, score: Array, waited: float, accounts: Callable[[], Sequence[QuestionAccount]], phase: str
    ) -> None:
        """Report that the loop waits for answers within a step, as often as `progress` does, with the speed that was
        reported last. Arguments as of `progress`."""
        if time.monotonic() - self._messaged_at >= TELL_EVERY:
            self._report(step, score, waited, accounts(), phase)

    def _report(self, step: int, score: Array, waited: float, accounts: Sequence[QuestionAccount], phase: str) -> None:
        self._messaged_at = now = time.monotonic()
        latest = [before if np.isnan(value) else float(value) for value, before in zip(score, self._score, strict=True)]
        live: dict[str, Any] = {"step": step, "rate": self._rate, "waited": round(waited, 3), "phase": phase}
        message = {"event": "progress", **live, "seeds": self._job.seeds, "score": latest}
        if accounts:
            message["answers"] = _answers(functools.reduce(QuestionAccount.plus, accounts))
        self._tell(message)
        if now - self._live_at >= LIVE_EVERY:
            self._live_at = now
            for number, run in enumerate(self.runs):
                if number not in self._dropped:
                    answers = {"answers": _answers(accounts[number])} if accounts else {}
                    run.show(**live, score=latest[number], **answers)

    def finish(self, agent: Agent, accounts: Mapping[str, Sequence[QuestionAccount]]) -> None:
        """Write the last record of the ledger, after the backends have closed; convert the logs to Parquet, save the
        policy, mark the runs finished, and delete files that only training needs."""
        from safetensors.numpy import save

        from guidebench.harness.records.compact import log_to_parquet, to_parquet

        self._secure()
        if accounts:
            self._account_for(self._cell.steps, accounts)
        for number, run in enumerate(self.runs):
            for rows in self._rows[number].values():
                rows.flush()
                rows.close()
            if self._answer_logs:
                self._answer_logs[number].flush()
                self._answer_logs[number].close()
            if number in self._dropped:
                continue
            fence = self._leases[number].fence
            to_parquet(run.path / "evaluations.jsonl", run.path / "evaluations.parquet", self._columns, fence)
            for name, log in compacted(self._cell).items():
                log_to_parquet(run.path / f"{name}.jsonl", run.path / f"{name}.parquet", log, fence)
            if self._answer_logs:
                answer_files.write(run.path, fence)
            policy = save({name: np.ascontiguousarray(value) for name, value in agent.parameters(number).items()})
            write_bytes(run.path / POLICY, policy, fence)
            digest = {POLICY_DIGEST: hashlib.sha256(policy).hexdigest()}
            run.update(status="finished", step=self._cell.steps, score=self._score[number], error=None, **digest)
            tidy(run, self._cell, self._job.keep_replay)
            run.publish(self._leases[number])

    @property
    def lost(self) -> bool:
        """Whether another process may have taken over one of the runs."""
        return any(lease.lost for lease in self._leases)

    @property
    def followers(self) -> list[Path]:
        """The files that exist once other processes have taken over a run."""
        return [lease.follower() for lease in self._leases]

    @property
    def held(self) -> bool:
        """Whether the leases of all runs are still held."""
        return all(lease.held() for lease in self._leases)

    def _secure(self) -> None:
        """Publish the answers to the study's disk, before records are written that count them. Raise Fenced if the
        lease of a run is lost."""
        for lease in self._leases:
            lease.fence()
        for backend in self._backends:
            backend.publish(self.followers)
        for lease in self._leases:
            lease.fence()

    def stopped(self, reason: str = "") -> None:
        """Mark the runs stopped at the step of their last checkpoint."""
        for number, run in enumerate(self.runs):
            if number not in self._dropped and self._leases[number].held():
                with suppress(Fenced):
                    run.update(status="stopped", step=self._checkpoint_step, error=reason or None)

    def close(self) -> None:
        """Close all files and release the locks. Buffered lines of a failed loop are written now, so that they cannot
        follow those of a later loop that resumes from the checkpoint."""
        for files in self._rows:
            for rows in files.values():
                rows.close()
        for log in self._answer_logs:
            log.close()
        for run, lease in zip(self.runs, self._leases, strict=True):
            if lease.held():
                run.hide()
                sync(run.path)  # no write of this machine may arrive after another has followed
            lease.release()


def _answers(account: QuestionAccount) -> dict[str, int]:
    """Return the numbers of ended questions, and of those without a usable answer, for progress messages."""
    return {"questions": account.questions, "failures": account.failures}


def _ledger(account: QuestionAccount, spent: Usage) -> dict[str, float]:
    """Return the ledger columns of an account, and of the usage `spent` that was actually billed."""
    billed = {f"billed_{name}": value for name, value in spent._asdict().items()}
    counts = {"questions": account.questions, "failures": account.failures}
    return {**counts, **account.would_be._asdict(), **billed}


def compacted(cell: Cell) -> dict[str, Log]:
    """Return the logs that a finished run keeps as Parquet. The ledger stays JSON lines, since readers need only its
    last line."""
    return {name: log for name, log in {**LOGS, **cell.logs}.items() if name != "ledger"}


def tidy(run: RunDirectory, cell: Cell, keep_replay: bool) -> None:
    """Delete files of a finished run that only training needs. Its JSON lines are deleted last, so that their presence
    shows that this was interrupted."""
    if not keep_replay:
        shutil.rmtree(run.path / "replay", ignore_errors=True)
        checkpoints.drop_after(run.path, -1)
    for name in compacted(cell):
        (run.path / f"{name}.jsonl").unlink(missing_ok=True)
    (run.path / f"{answer_files.LINES}.jsonl").unlink(missing_ok=True)
    (run.path / "evaluations.jsonl").unlink(missing_ok=True)


def resume_point(runs: Sequence[RunDirectory]) -> list[checkpoints.Checkpoint | None]:
    """Return the newest checkpoint of each run such that all are at the same step, or None for all if there is no such
    step."""
    latest = [checkpoints.newest(run.path, partial(_lacks, run)) for run in runs]
    while len({checkpoint.step if checkpoint else None for checkpoint in latest}) > 1:
        if None in latest:
            warnings.warn(Notice("not every seed has a usable checkpoint; all seeds restart"), stacklevel=1)
            return [None] * len(latest)
        step = min(checkpoint.step for checkpoint in latest if checkpoint)
        latest = [
            checkpoint if checkpoint and checkpoint.step == step else
            checkpoints.newest(run.path, partial(_lacks, run), before=step)
            for run, checkpoint in zip(runs, latest, strict=True)
        ]  # fmt: skip
    return latest


def _lacks(run: RunDirectory, checkpoint: checkpoints.Checkpoint) -> str:
    """Return which log of a run is shorter than a checkpoint requires, or ""."""
    for name, offset in checkpoint.state["offsets"].items():
        path = run.path / f"{name}.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size < int(offset):
            return f"{path.name} has {size} of the {offset} bytes that the checkpoint counts"
    return ""
