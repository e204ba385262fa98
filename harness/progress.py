"""What one sees while a study runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from harness.job import Job
from harness.launchers.local import Event
from harness.matrix import Plan

EVERY = 10.0
"""Seconds between two plain lines about the same worker."""


def display(plan: Plan, quiet: bool = False) -> Display:
    """The display that suits standard output; nothing at all if `quiet`."""
    if quiet:
        return Display(plan)
    return Bars(plan) if sys.stdout.isatty() else Lines(plan)


class Display:
    """Counts what is done; says nothing."""

    def __init__(self, plan: Plan) -> None:
        self.total = len(plan.cells) * len(plan.seeds)
        self.rows = {cell.id: plan.row(cell) for cell in plan.cells}
        self.started = time.monotonic()

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event) -> None:
        return None

    def name(self, job: Job) -> str:
        cell = job.cell
        seeds = ",".join(map(str, job.seeds))
        return f"{cell['task']} {self.rows[cell['cell']]} seed{'s' if len(job.seeds) > 1 else ''} {seeds}"

    def sentence(self, event: Event) -> str:
        """One line about a fault, by the last line of its error."""
        error = str(event.content.get("error", "")).splitlines()
        last = f": {error[-1]}" if error else ""
        if event.kind == "retry":
            return f"{self.name(event.job)}: crashed, retried once{last} (whole error in {event.content['log']})"
        return f"{self.name(event.job)}: {event.kind}{last}"

    def demonstrated(self, content: Mapping[str, Any]) -> str:
        return f"demonstration {content['found']} of {content['count']} after {content['attempts']} attempts"

    def success(self, content: dict[str, Any] | Any) -> str:
        values = [value for value in content.get("success", []) if value is not None]
        return f"success {sum(values) / len(values):.2f}" if values else ""


class Lines(Display):
    """One plain line when something happens, and every ten seconds about each worker."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._told: dict[Any, float] = {}
        self._done = 0
        self._say(f"{plan.name}: {len(plan.cells)} cells × {len(plan.seeds)} seeds")

    def __call__(self, event: Event) -> None:
        job, now = event.job, time.monotonic()
        if event.kind == "progress":
            if now - self._told.get(_key(job), 0.0) < EVERY:
                return
            self._told[_key(job)] = now
            steps = job.cell["steps"]
            self._say(f"{self.name(job)}: step {event.content['step']:,} of {steps:,} {self.success(event.content)}")
        elif event.kind == "demonstrations":
            self._say(f"{job.cell['suite']}/{job.cell['task']}: {self.demonstrated(event.content)}")
        elif event.kind == "started":
            at = event.content["step"]
            self._say(f"{self.name(job)}: {f'resumed at step {at:,}' if at else 'started'}")
        elif event.kind == "finished":
            self._done += len(job.seeds)
            self._say(f"{self.name(job)}: finished")
        else:
            self._say(self.sentence(event))

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:6.0f} s] {text}", flush=True)


class Bars(Display):
    """A bar per running worker and one for the whole study."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        steps = sum(cell.steps for cell in plan.cells) * len(plan.seeds)
        self._whole = self._progress.add_task(plan.name, total=steps, note="")
        self._bars: dict[Any, Any] = {}

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        job, key = event.job, _key(event.job)
        if key not in self._bars:
            self._bars[key] = self._progress.add_task(f"  {self.name(job)}", total=job.cell["steps"], note="")
        bar = self._bars[key]
        task = next(task for task in self._progress.tasks if task.id == bar)
        if event.kind in ("progress", "started"):
            self._advance(job, bar, float(event.content["step"]) - task.completed)
            self._progress.update(bar, note=self.success(event.content))
        elif event.kind == "demonstrations":
            self._progress.update(bar, note=self.demonstrated(event.content))
        elif event.kind == "finished":
            self._advance(job, bar, job.cell["steps"] - task.completed)
            self._progress.update(bar, visible=False)
        else:
            self._progress.console.print(self.sentence(event), markup=False)

    def _advance(self, job: Job, bar: Any, steps: float) -> None:
        self._progress.update(bar, advance=steps)
        self._progress.update(self._whole, advance=steps * len(job.seeds))


def _key(job: Job) -> Any:
    """A job apart from where it runs: a retried one goes on in its own bar."""
    return (job.cell["cell"], job.seeds)
