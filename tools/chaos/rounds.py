"""One round: a study whose commands are disturbed and repeated until it has finished, and which is then compared."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.chaos import comparing, plan
from tools.chaos.carrying_out import Outcome, carry_out
from tools.chaos.disk import disk
from tools.chaos.families import FAMILIES, Family
from tools.chaos.marker import VARIABLE
from tools.chaos.plan import UNDISTURBED, Command, Round
from tools.chaos.server import Server
from tools.chaos.striking import Place

REPEATS = 3
"""Number of commands without a fault within which a study must finish."""


class Unusable(Exception):
    """Raised for a family whose study does not finish even undisturbed."""


@dataclass
class Report:
    """What a round did and found: faults applied and missed, findings and differences."""

    round: Round
    applied: list[str] = field(default_factory=list)
    missed: int = 0
    """Number of faults whose moment did not come."""
    has_finished: bool = False
    findings: list[str] = field(default_factory=list)
    """Complaints about its commands, each printed when it occurred."""
    differences: list[str] = field(default_factory=list)
    """Differences between its study and the reference, and the paths of both."""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return bool(self.findings or self.differences)


class Chaos:
    """Runs rounds, and keeps a reference study and a server for each family."""

    def __init__(
        self, directory: Path, mark: str, deadline: float, tell: Callable[[str], None],
        models: Mapping[str, Path],
    ) -> None:  # fmt: skip
        """`directory`: parent of all studies; `mark`: text in the environment of all its processes; `deadline`: on the
        monotonic clock; `tell`: prints a line; `models`: name -> directory of a tiny model."""
        self._directory, self._mark, self._deadline, self._tell = directory, mark, deadline, tell
        self._models = models
        self._marker = directory / "hang"
        os.environ[VARIABLE] = str(self._marker)
        self._servers: dict[str, Server] = {}
        self._closing = contextlib.ExitStack()

    def close(self) -> None:
        self._closing.close()

    def run(self, round: Round) -> Report:
        """Run a round and compare its study with the reference. Raise OutOfTime at the deadline, and Unusable if the
        family has no reference."""
        family, begin = FAMILIES[round.family], time.monotonic()
        reference = self._reference(round.family)
        report = Report(round)
        name = f"round-{round.number}"
        log = self._directory / f"{name}.log"
        server = self._server(round.family)
        received = 0 if server is None else server.requests
        with self._room(name, plan.FULL in round.has) as place:
            place.server = server
            self._until_finished(round, family, place, log, report)
            if report.has_finished:
                report.differences += self._compare(reference, place, round, family, received)
            if report.failed:
                copy = self._directory / "kept" / name
                shutil.copytree(place.study, copy, dirs_exist_ok=True)
                report.differences.append(f"compare {reference} and {copy}; what was printed: {log}")
            shutil.rmtree(place.study, ignore_errors=True)
        report.seconds = time.monotonic() - begin
        return report

    def _until_finished(self, round: Round, family: Family, place: Place, log: Path, report: Report) -> None:
        repeated = [round.commands[-1]] * (REPEATS - 1)
        running: list[int] = []
        for number, command in enumerate([*round.commands, *repeated]):
            waits = number % 2 == 1 or number >= len(round.commands) - 1
            outcome = self._command(family, command, place, log, waits, running)
            running = [] if waits else outcome.running
            report.findings += outcome.findings
            if outcome.applied:
                report.applied.append(outcome.applied)
            elif command.fault is not None:
                report.missed += 1
            self._say(command, outcome)
            if outcome.code == 0:
                report.has_finished = True
                return
        report.differences.append(
            f"not finished after {REPEATS} commands without a fault; the last said: {outcome.remark}"
        )

    def _command(
        self, family: Family, command: Command, place: Place, log: Path, waits: bool, previous: list[int]
    ) -> Outcome:
        words = family.command(place.server.url if place.server else "", self._models)
        return carry_out(words, command, place, log, self._mark, self._deadline, waits, previous)

    def _compare(self, reference: Path, place: Place, round: Round, family: Family, received: int) -> list[str]:
        cut_off: int | None = comparing.CUT_OFF * len(round.commands)
        if family.hosted or round.has & {plan.LOSE, plan.SILENCE, plan.FAIL}:
            cut_off = None  # faults may cut off a whole batch, or every attempt without a server
        spent = None if place.server is None else place.server.requests - received
        differences = comparing.differences(reference, place.study)
        return differences + comparing.misspent(place.study, spent, cut_off)

    def _reference(self, name: str) -> Path:
        """Return the directory of a family's undisturbed study, which is trained at the first call."""
        study = self._directory / "reference" / name.replace(" ", "_")
        if study.exists():
            return study
        server = self._server(name)
        received = 0 if server is None else server.requests
        log = self._directory / f"{study.name}.log"
        outcome = self._command(FAMILIES[name], UNDISTURBED, Place(study, self._marker, server), log, True, [])
        findings = list(outcome.findings)
        if outcome.code == 0:
            spent = None if server is None else server.requests - received
            findings += comparing.misspent(study, spent, None if server is None else 0)
        if outcome.code or findings:
            raise Unusable(
                f"{name} fails undisturbed, with exit code {outcome.code}: {outcome.remark} {findings} ({log})"
            )
        self._tell(f"{name}: undisturbed in {outcome.seconds:.1f} s, {len(comparing.entries(study))} entries")
        return study

    def _server(self, name: str) -> Server | None:
        if not FAMILIES[name].served:
            return None
        if name not in self._servers:
            notes = self._directory / "servers" / name.replace(" ", "_")
            notes.mkdir(parents=True)
            self._servers[name] = self._closing.enter_context(Server(FAMILIES[name].answer, notes))
        return self._servers[name]

    @contextlib.contextmanager
    def _room(self, name: str, is_small: bool) -> Iterator[Place]:
        directory = self._directory / name
        if not is_small:
            directory.mkdir()
            yield Place(directory / "study", self._marker)
            return
        with disk(directory) as room:
            yield Place(directory / "study", self._marker, disk=room)

    def _say(self, command: Command, outcome: Outcome) -> None:
        how = f"{' '.join(command.words)}{' fresh' if command.is_fresh else ''}"
        fault = "no fault" if command.fault is None else outcome.applied or f"missed: {command.fault}"
        self._tell(f"  {how}: {fault}; code {outcome.code} after {outcome.seconds:.1f} s: {outcome.remark[:150]}")
        for finding in outcome.findings:
            self._tell(f"  FOUND {finding}")
