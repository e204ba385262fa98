"""The whole report, and the pages of runs, made in separate processes of low priority behind the live page."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import quote

from guidebench.harness import reader_process
from guidebench.harness.texts import printable
from guidebench.results import StudyRecord

HOME = "/report/report.html"
"""Where the report lies on the server."""
NICE = 15
"""Added to the priority value of the processes, so that training goes first."""
SHARE = 4
"""Times as long as a report took that must pass after it before the next begins (choice: a fifth of one core)."""
SECONDS = 3_600.0
"""Time limit of one report."""
PATIENCE = 0.2
"""Seconds between two looks whether a report is wanted."""


class Made(NamedTuple):
    """A finished report, or why it could not be made."""

    files: Mapping[str, Path]
    """Name -> file."""
    of: object
    """What the study was like (`Remaking.want`)."""
    clock: str
    """When it was begun, as hours, minutes and seconds."""
    problem: str = ""


class Remaking:
    """Makes the study's report again in a separate process when it is asked for a new state; a context manager that
    ends the process."""

    def __init__(self, study: Path) -> None:
        self._study = study.absolute()
        self._place = tempfile.TemporaryDirectory(prefix="bench-watch-", ignore_cleanup_errors=True)
        self._made: Made | None = None
        self._target: object = None
        self.underway = False
        self._ended = threading.Event()
        memory = max(reader_process.MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        self._reports, self._runs = reader_process.Caller(memory), reader_process.Caller(memory)
        self._one_run = threading.Lock()
        self._run_pages: dict[str, tuple[object, bytes]] = {}
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for caller in (self._reports, self._runs):
            with contextlib.suppress(Exception):
                caller.close()
        self._thread.join(5.0)
        self._place.cleanup()

    def want(self, of: object) -> None:
        """Ask for a report of the study's present state; `of` is a value that differs between states."""
        self._target = of

    @property
    def made(self) -> Made | None:
        """Return the newest report; None before the first."""
        return self._made

    @property
    def status(self) -> str:
        """Return from what time the report is, or that it is being made, as the end of a sentence."""
        made = self._made
        if made is None:
            return "is being made." if self.underway else "is made as soon as there are rows."
        if made.problem:
            return f"could not be made at {made.clock}: {made.problem}"
        later = "; a newer one is being made" if self.underway else ""
        return f"of {made.clock}{later}."

    def _work(self) -> None:
        """Make reports until the end, each in a directory of its own, so that none is read half-written."""
        number, rest = 0, 0.0
        while not self._ended.wait(PATIENCE):
            target = self._target
            if target is None or (self._made and self._made.of == target) or time.monotonic() < rest:
                continue
            number += 1
            output = Path(self._place.name) / f"report-{number}"
            clock, started = time.strftime("%H:%M:%S"), time.monotonic()
            self.underway = True
            try:
                names = self._reports(f"{self._study}: its report", SECONDS, write_report, self._study, output)
                self._made = Made({name: output / name for name in names}, target, clock)
            except Exception as error:
                if self._ended.is_set():  # its process was ended
                    return
                before = self._made.files if self._made else {}
                self._made = Made(before, target, clock, printable(str(error)))
            finally:
                self.underway = False
            rest = time.monotonic() + SHARE * (time.monotonic() - started)

    def run_page(self, directory: str, of: object) -> bytes:
        """Return the page of the run in a directory of the study, rendered again only if `of` differs from that of the
        last call; raise UserError if it cannot be made."""
        with self._one_run:
            if directory not in self._run_pages or self._run_pages[directory][0] != of:
                path = self._study / directory
                html = self._runs(f"{path}: its page", SECONDS, run_page, path)
                self._run_pages[directory] = of, html
            return self._run_pages[directory][1]


def run_link(directory: str) -> str:
    """Return the address of a run's page on the server."""
    return f"/runs/{quote(directory)}/run.html"


def run_links(study: StudyRecord) -> dict[str, str]:
    """Return run directory -> address of its page, for the runs that have begun."""
    return {run.directory: run_link(run.directory) for run in study.runs if run.status != "waiting"}


def write_report(study: Path, output: Path) -> list[str]:
    """Write the report of a study into a new directory and return the names of its files."""
    from guidebench.reports.sections import files

    _yield()
    contents = files.report(study, files.ReportOptions(), run_links).contents
    output.mkdir(parents=True)
    for name, content in contents.items():
        (output / name).write_bytes(content)
    return list(contents)


def run_page(directory: Path) -> bytes:
    """Return the HTML page of the run in a directory, as bytes; runs in a process of low priority."""
    from guidebench.reports.runs import page, record

    _yield()
    return page.render(record.read(directory), HOME).encode("utf-8", "backslashreplace")


def _yield() -> None:
    """Lower the scheduling priority of this process to `NICE`, once."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if os.nice(0) < NICE:
        os.nice(NICE - os.nice(0))
