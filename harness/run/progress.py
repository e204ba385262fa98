"""Display of a running study: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from guidebench.harness.errors import count
from guidebench.harness.launchers.base import Event
from guidebench.harness.loop.job import Job
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.formatting import count_statuses
from guidebench.harness.records.schema import label
from guidebench.harness.run import pace
from guidebench.harness.run.forecast import Forecast
from guidebench.harness.run.pace import Standing
from guidebench.harness.texts import duration

if TYPE_CHECKING:
    from rich.console import Group

EVERY, LONGEST = 10.0, 600.0
"""Minimum and maximum seconds between two reports in plain lines. In between, the interval is a thirtieth of the
elapsed time, so that the log of a study of days stays readable."""
MANY = 8
"""Maximum number of workers that plain lines report individually; with more, only the whole study is reported."""
TIMED = 20.0
"""Seconds at a run's pace of learning steps after which they time its cell."""
BAR = 12
"""Width of a bar in characters."""


def display(plan: Plan, quiet: bool = False) -> Display:
    """Return the display for standard output: bars on a terminal, else plain lines; a silent one if `quiet`."""
    if quiet:
        return Display(plan)
    return Bars(plan) if sys.stdout.isatty() else Lines(plan)


class Display:
    """Tracks the progress of every run without printing it."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        from guidebench.harness.run import study

        self.study = study.name_of(plan)
        self.rows = {cell.id: plan.row(cell) for cell in plan.trained}
        self._clock = clock
        self.started = clock()
        self._jobs: dict[Any, Job] = {}
        """Jobs that are running."""
        self._answers: dict[Any, Mapping[str, int]] = {}
        """Job -> number of completed questions to models, and of those without a usable answer."""
        self.shows_scores = True
        """Whether lines hold scores; a pilot's do not, since it may not look at those of guided methods."""
        self.forecast: Forecast | None = None
        """The forecast that the command has printed, corrected by the pace of runs."""
        self._paced: dict[Any, tuple[float, int]] = {}
        """Job -> time and step from which its pace is that of learning steps."""
        self._timed: set[str] = set()
        """Cells whose time is known from their runs."""
        self.runs = {
            (cell.id, seed): Standing("waiting", 0, cell.steps, measure=cell.score.name)
            for cell in plan.trained
            for seed in plan.seeds
        }
        if study.directory_of(plan).is_dir():
            for run in study.look(plan).runs:
                if run.status == "finished":
                    self._stand(run.cell.id, run.seed, status="finished", step=run.cell.steps)

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event) -> None:
        job, content = event.job, event.content
        cell = str(job.cell["cell"])
        if event.kind in ("started", "progress"):
            self._jobs[_key(job)] = job
            if "answers" in content:
                self._answers[_key(job)] = content["answers"]
            self._time(event)
            trained = content.get("seeds", job.seeds)  # without those that another worker trains
            scores = (content.get("score") if self.shows_scores else None) or [None] * len(trained)
            for seed, latest in zip(trained, scores, strict=True):
                if self.runs[cell, seed].status != "failed":
                    self._stand(
                        cell, seed, status="running", step=content["step"], rate=content.get("rate"), score=latest,
                        phase=content.get("phase", ""),
                    )  # fmt: skip
        elif event.kind == "trained":
            for seed in content["seeds"]:
                if self.runs[cell, seed].status != "failed":
                    self._stand(cell, seed, status="finished", step=job.cell["steps"], rate=None)
        elif event.kind == "failed":
            self._stand(cell, content["seed"], status="failed", rate=None)
        elif event.kind in ("retry", "finished", "stopped", "crashed", "error"):
            self._jobs.pop(_key(job), None)
            ended = {"retry": "waiting", "finished": "finished", "stopped": "stopped"}.get(event.kind, "failed")
            for seed in job.seeds:
                if self.runs[cell, seed].status != "failed":
                    step = {"step": job.cell["steps"]} if ended == "finished" else {}
                    self._stand(cell, seed, status=ended, rate=None, **step)

    def _time(self, event: Event) -> None:
        """Correct the forecast by the pace of a run of one phase, once for each cell."""
        job, content, now = event.job, event.content, self._clock()
        cell = str(job.cell["cell"])
        if self.forecast is None or cell in self._timed or not content.get("rate") or content.get("phase"):
            return
        since, first = self._paced.setdefault(_key(job), (now, content["step"]))
        if now - since >= TIMED and content["step"] > first:
            self._timed.add(cell)
            if correction := self.forecast.time(cell, job.cell["steps"] * (now - since) / (content["step"] - first)):
                self.tell(correction)

    def tell(self, text: str) -> None:
        """Print a line about the whole study; this display prints nothing."""

    def _stand(self, cell: str, seed: int, **values: Any) -> None:
        self.runs[cell, seed] = self.runs[cell, seed]._replace(**values)

    def standing(self, job: Job) -> Standing:
        """Return the progress of the seeds of a job that train now, which are at the same step; the score is their
        mean."""
        runs = [self.runs[job.cell["cell"], seed] for seed in job.seeds]
        runs = [run for run in runs if run.status == "running"] or runs
        scores = [run.score for run in runs if run.score is not None]
        return runs[0]._replace(score=sum(scores) / len(scores) if scores else None)

    def name(self, job: Job) -> str:
        return f"{job.cell['task']} {self.rows[job.cell['cell']]} {seeds(job)}"

    def sentence(self, event: Event) -> str:
        """Describe a failure in one line, with the last line of its error."""
        error = str(event.content.get("error", "")).splitlines()
        last = f": {error[-1]}" if error else ""
        if event.kind == "retry":
            return f"{self.name(event.job)}: crashed, retried once{last} (whole error in {event.content['log']})"
        return f"{self.name(event.job)}: {event.kind}{last}"

    def demonstrated(self, content: Mapping[str, Any]) -> str:
        return f"demonstration {content['found']} of {content['count']} after {content['attempts']} attempts"

    def answered(self, jobs: Iterable[Job]) -> str:
        """Describe how many questions of the jobs to models are answered so far; "" if none was sent."""
        counts = [self._answers.get(_key(job), {}) for job in jobs]
        questions, failed = (
            sum(answers.get(counter, 0) for answers in counts) for counter in ("questions", "failures")
        )
        return f"{questions - failed:,} of {count(questions, 'question')} answered" if questions else ""


class Lines(Display):
    """Prints one line per event, and regularly the progress of each worker and of the whole study."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(plan, clock)
        self._reported_at = self.started

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        job = event.job
        if event.kind == "progress":
            now = self._clock()
            if now - self._reported_at >= min(LONGEST, max(EVERY, (now - self.started) / 30)):
                self._reported_at = now
                self._report()
        elif event.kind == "demonstrations":
            self._say(f"{job.cell['suite']}/{job.cell['task']}: {self.demonstrated(event.content)}")
        elif event.kind == "started":
            at, group = event.content["step"], replace(job, seeds=tuple(event.content.get("seeds", job.seeds)))
            self._say(f"{self.name(group)}: {f'resumed at step {at:,}' if at else 'started'}")
        elif event.kind == "finished":
            if any(self.runs[job.cell["cell"], seed].status == "finished" for seed in job.seeds):
                self._say(f"{self.name(job)}: finished")
        elif event.kind != "trained":
            self._say(self.sentence(event))

    def _report(self) -> None:
        if len(self._jobs) <= MANY:
            for job in self._jobs.values():
                parts = filter(None, (in_words(self.standing(job)), self.answered([job])))
                self._say(f"{self.name(job)}: {', '.join(parts)}")
        if len(self.runs) > 1:
            runs = self.runs.values()
            self._say(f"study: {pace.ahead(runs)}, {count_statuses(run.status for run in runs)}")

    def tell(self, text: str) -> None:
        self._say(f"study: {text}")

    def _say(self, text: str) -> None:
        print(f"[{self._clock() - self.started:6.0f} s] {text}", flush=True)


class Bars(Display):
    """Shows a bar per running worker and one for the whole study, each at most 80 characters wide."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(plan, clock)
        from rich.live import Live

        self._short = short_names(plan)
        self._demonstrations = ""
        self._live = Live(get_renderable=self.table, refresh_per_second=4)

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event.kind == "demonstrations":
            self._demonstrations = f"{event.job.cell['task']}: {self.demonstrated(event.content)}"
        elif event.kind in ("started", "progress", "finished"):
            self._demonstrations = ""
        else:
            self._live.console.print(self.sentence(event), markup=False)

    def tell(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)

    def table(self) -> Group:
        """Return the current content of the screen."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        measures = {run.measure for run in self.runs.values()}
        measure = measures.pop() if len(measures) == 1 else "score"
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        for heading in ("", "", "", "step", measure, "left"):
            table.add_column(heading, no_wrap=heading != "" or bool(table.columns), justify="right")
        table.columns[0].justify = table.columns[1].justify = "left"

        def add(name: str, counter: str, done: int, total: int, step: str, score: str, seconds: float | None) -> None:
            remaining = "" if seconds is None else duration(seconds)
            table.add_row(Shortened(name), counter, ProgressBar(total, done, width=BAR), step, score, remaining)

        runs = list(self.runs.values())
        steps, done = (sum(getattr(run, counter) for run in runs) for counter in ("steps", "step"))
        finished = f"{sum(run.status == 'finished' for run in runs)}/{count(len(runs), 'run')}"
        add(self.study, pace.share(runs), done, steps, finished, "", pace.seconds_left(runs))
        for job in self._jobs.values():
            run = self.standing(job)
            score = "" if run.score is None else run.score_text if measure == "score" else f"{run.score:.2f}"
            name = f"  {self._short[job.cell['cell']]}"
            add(name, seeds(job), run.step, run.steps, f"{run.step:,}/{run.steps:,}", score, run.seconds_left)
        # Print these below the table, since its name column would truncate them.
        further = filter(None, (self.answered(self._jobs.values()), self._demonstrations))
        return Group(table, *(Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in further))


class Shortened:
    """A name that shrinks to the available width by omitting its middle, since names differ at their ends."""

    LEAST = 10

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_measure__(self, console: Any, options: Any) -> Any:
        from rich.measure import Measurement

        return Measurement(min(self.LEAST, len(self.text)), len(self.text))

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        yield Text(shortened(self.text, options.max_width), no_wrap=True)


def shortened(text: str, width: int) -> str:
    """Shorten `text` to `width` characters, two thirds of them from its beginning.

    >>> shortened("vlm_rb (replay.lambda_max=0.25)", 16)
    'vlm_rb (re…0.25)'
    """
    if len(text) <= width:
        return text
    tail = max(0, (width - 1) // 3)
    return text[: max(0, width - 1 - tail)] + "…" + text[len(text) - tail :]


def short_names(plan: Plan) -> dict[str, str]:
    """Return cell id -> name that distinguishes the cell within the plan, without the parts that all cells share."""
    names = [cell.names for cell in plan.trained]
    tasks, profiles = {(name.suite, name.task) for name in names}, {name.profile for name in names}
    suites = {suite for suite, _ in tasks}
    variants = [set(plan.variant(cell).split(", ")) for cell in plan.trained]
    shared = set.intersection(*variants) if len(variants) > 1 else set()
    names_by_id = {}
    for cell in plan.trained:
        name = cell.names
        models = {other.model for other in plan.trained if other.names.method == name.method}
        variant = ", ".join(piece for piece in plan.variant(cell).split(", ") if piece not in shared)
        model, profile = cell.model if len(models) > 1 else "", name.profile if len(profiles) > 1 else ""
        place = f"{name.suite}/{name.task} " if len(suites) > 1 else f"{name.task} " if len(tasks) > 1 else ""
        names_by_id[cell.id] = place + label(name.method, "", model, profile, variant)
    if len(set(names_by_id.values())) < len(names_by_id):
        return {cell.id: f"{cell.names.task} {plan.row(cell)}" for cell in plan.trained}
    return names_by_id


def seeds(job: Job) -> str:
    """Describe the seeds of a job: "seed 3", "seeds 0,1,2", "seeds 0…9"."""
    if len(job.seeds) == 1:
        return f"seed {job.seeds[0]}"
    return f"seeds {','.join(map(str, job.seeds))}" if len(job.seeds) <= 4 else f"seeds {job.seeds[0]}…{job.seeds[-1]}"


def in_words(run: Standing) -> str:
    """Describe step, speed, score and remaining time of a run in one line."""
    parts = [f"step {run.step:,} of {run.steps:,}" + (f" (phase {run.phase})" if run.phase else "")]
    parts += [f"{run.rate:,.0f} steps/s"] if run.rate else []
    parts += [run.score_text] if run.score_text else []
    parts += [f"about {duration(run.seconds_left)} left"] if run.seconds_left else []
    return ", ".join(parts)


def _key(job: Job) -> Any:
    """Return a key of a job that does not depend on its slot, so that a retried job continues in the same bar."""
    return (job.cell["cell"], job.seeds)
