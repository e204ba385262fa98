"""A worker: one process that trains some seeds of one cell, from wherever they stand to the end.

It reads its assignment as JSON from standard input, tells its progress as JSON lines on standard output, and answers
SIGTERM, Ctrl-C and the loss of its parent with a checkpoint and exit code 75.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness import checkpoints, config
from harness.config import PARTS, Cell, Names, Value
from harness.errors import Notice, Stopped, UserError, of_system
from harness.evaluation import Evaluator, Result
from harness.foundation.asks import Asks, InFlight
from harness.foundation.judging import Assignment, JudgeProcess
from harness.interfaces import Agent, Answer, Array, Build, State
from harness.recipes import Training
from harness.records.files import Rows, write_bytes, write_json
from harness.records.provenance import provenance
from harness.records.schema import EVALUATION, Identity
from harness.records.study import Lock, RunDirectory, StudyDirectory, dumps
from harness.streams import Streams
from harness.training import Loop

EXIT_STOPPED = 75
EXIT_USER_ERROR = 64
LOGS = ("evaluations", "timings", "metrics", "judgements")
SPACING = 5_000
"""Most steps between two checkpoints of a run that is longer than its ring (see `make_build`)."""
PATIENCE = 15.0
"""Seconds to wait for the lock of a run whose last worker is just writing its checkpoint."""


@dataclass(frozen=True)
class Job:
    """What a worker is to do. Seeds of a job stand at the same step."""

    study: str
    directory: str
    cell: Mapping[str, Any]
    """A cell's record, as in cell.json."""
    seeds: tuple[int, ...]
    device: str = "cpu"
    checkpoint_every: int = 5_000
    keep_replay: bool = False
    tensorboard: bool = False
    threads: int = 1

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Job:
        content = json.loads(text)
        return cls(**{**content, "seeds": tuple(content["seeds"])})


def record(cell: Cell) -> dict[str, Any]:
    """The content of cell.json."""
    names = cell.names
    judge = names.part("judge")
    return {
        "schema": config.SCHEMA,
        "cell": cell.id,
        "suite": names.suite,
        "task": names.task,
        "method": names.method,
        "learner": names.part("learner"),
        "backend": config.section_config(names, "judge").backend if judge else "",  # type: ignore[union-attr]
        "model": judge,
        "profile": names.profile,
        "parts": dict(zip(PARTS, names.parts, strict=True)),
        "steps": cell.steps,
        "variant": cell.variant,
        "overrides": dict(cell.overrides),
        "versions": dict(config.versions(names)),
        "settings": {key: value._asdict() for key, value in cell.settings.items()},
    }


def recorded(content: Mapping[str, Any]) -> Cell:
    """The cell of a record; UserError if this version would give it another id."""
    names = Names(
        content["suite"],
        content["task"],
        content["method"],
        content["profile"],
        tuple(content["parts"][kind] for kind in PARTS),
    )
    settings = {}
    known = config.cell_fields(names)
    for key, entry in content["settings"].items():
        section, name = key.split(".", 1)
        if name not in known.get(section, {}):
            raise UserError(f"the record of cell {content['cell']} has a setting {key!r} that this version has not")
        value = entry["value"]
        settings[key] = Value(tuple(value) if isinstance(value, list) else value, entry["layer"], entry["source"])
    cell = Cell(names, settings, content.get("overrides", {}))
    if cell.id != content["cell"]:
        raise UserError(
            f"cell {content['cell']} was recorded by another version of its parts ({dict(content['versions'])}, "
            f"here {dict(config.versions(names))}): run the study anew, or check out the commit in its run.json"
        )
    return cell


def make_build(cell: Cell, seeds: Sequence[int], device: str, directories: Sequence[Path]) -> Build:
    """What the cell's parts are built with.

    The ring has room for two checkpoint intervals beyond its capacity: a resume may start two back, from transitions
    that must still be there. Its size follows from the cell alone, since slots decide the order of a sum tree's leaves.
    """
    suite = cell.section("suite")
    observations, actions = suite.spaces(cell.names.task)
    training = cell.section("training")
    return Build(
        seeds=tuple(seeds),
        observations=observations,
        actions=actions,
        steps=training.steps,
        device=device,
        streams=[Streams(seed) for seed in seeds],
        directories=tuple(directories),
        capacity=training.capacity,
        slots=ring_slots(training),
        parts={section: cell.section(section) for section in config.SECTIONS if cell.section(section) is not None},
    )


def ring_slots(training: Training) -> int:
    """Slots of the ring of stored transitions."""
    return min(training.capacity, training.steps) + 2 * SPACING + 1


class Runs:
    """The run directories of a worker's seeds: the loop's Journal."""

    def __init__(self, job: Job, cell: Cell, tell: Callable[[dict[str, Any]], None]) -> None:
        study = StudyDirectory(Path(job.directory))
        self._job, self._cell, self._tell = job, cell, tell
        self.runs = [study.run(cell.directory, seed) for seed in job.seeds]
        self._locks = [Lock(run.path, "run") for run in self.runs]
        for lock in self._locks:
            lock.acquire(PATIENCE)
        self._identities = [Identity(**self._identity(seed)) for seed in job.seeds]
        self._rows: list[dict[str, Rows]] = []
        self._boards: list[Any] = []
        self._dropped: set[int] = set()
        self._told = 0.0
        self._judge: JudgeProcess | None = None

    def _identity(self, seed: int) -> dict[str, Any]:
        content = record(self._cell)
        names = {key: content[key] for key in EVALUATION if key in content and key != "study"}
        return {**names, "study": self._job.study, "seed": seed}

    def open(self, offsets: Sequence[Mapping[str, int]], judge: JudgeProcess | None) -> None:
        """Open the logs at the byte offsets of a checkpoint (empty mappings: anew)."""
        self._judge = judge
        for run, offset in zip(self.runs, offsets, strict=True):
            self._rows.append({name: Rows(run.path / f"{name}.jsonl", int(offset.get(name, 0))) for name in LOGS})
            if self._job.tensorboard:
                from torch.utils.tensorboard import SummaryWriter

                self._boards.append(SummaryWriter(str(run.path / "tensorboard")))

    def evaluated(self, step: int, results: Sequence[Result]) -> None:
        for result in results:
            row = self._identities[result.row].row(
                step=step, episode=result.episode, success=result.success, length=result.length
            )
            row["return"] = result.ret
            self._rows[result.row]["evaluations"].append({name: row[name] for name in EVALUATION})
        for number, board in enumerate(self._boards):
            mine = [result for result in results if result.row == number]
            if mine:
                board.add_scalar("evaluation/success", float(np.mean([result.success for result in mine])), step)
                board.add_scalar("evaluation/return", float(np.mean([result.ret for result in mine])), step)

    def measured(self, row: int, step: int, metrics: dict[str, float]) -> None:
        finite = {name: value if np.isfinite(value) else None for name, value in metrics.items()}
        self._rows[row]["metrics"].append({"step": step, **finite})
        if self._boards:
            for name, value in metrics.items():
                self._boards[row].add_scalar(name, value, step)

    def judged(self, item: InFlight, answer: Answer, step: int) -> None:
        row = {"ordinal": item.ordinal, "asked": item.step, "applied": step, "score": answer.score}
        self._rows[answer.row]["judgements"].append({**row, "slots": len(answer.key)})

    def timed(self, step: int, clock: dict[str, float]) -> None:
        extra: dict[str, float] = {}
        if (judge := self._judge) is not None:
            extra = {"clips": judge.clips, "judge_seconds": judge.seconds, "judge_restarts": judge.restarts}
        for rows in self._rows:
            rows["timings"].append({"step": step, "seeds": len(self.runs), **clock, **extra})

    def checkpoint(self, step: int, states: Callable[[int], State]) -> None:
        for number, run in enumerate(self.runs):
            if number in self._dropped:
                continue
            offsets = {name: rows.flush() for name, rows in self._rows[number].items()}
            checkpoints.save(run.path, step, {"offsets": offsets, "loop": states(number)})
            run.update(status="running", step=step)
        for board in self._boards:
            board.flush()

    def diverged(self, row: int, step: int) -> None:
        self._dropped.add(row)
        message = f"the loss was no longer finite at step {step}; the last checkpoint before it is kept"
        self.runs[row].update(status="failed", step=step, error=message)
        self._tell({"event": "failed", "seed": self._job.seeds[row], "error": message})

    def progress(self, step: int, success: Array, waited: float) -> None:
        now = time.monotonic()
        if now - self._told >= 0.5 or step == self._cell.steps:
            self._told = now
            latest = [None if np.isnan(value) else float(value) for value in success]
            self._tell({"event": "progress", "step": step, "success": latest, "waited": round(waited, 3)})

    def finish(self, agent: Agent) -> None:
        """Compact the evaluation rows, keep what acting needs, mark finished, then drop what only training needs."""
        from safetensors.numpy import save

        from harness.records.compact import to_parquet

        for number, run in enumerate(self.runs):
            for rows in self._rows[number].values():
                rows.flush()
                rows.close()
            if number in self._dropped:
                continue
            to_parquet(run.path / "evaluations.jsonl", run.path / "evaluations.parquet")
            policy = {name: np.ascontiguousarray(value) for name, value in agent.parameters(number).items()}
            write_bytes(run.path / "policy.safetensors", save(policy))
            run.update(status="finished", step=self._cell.steps, error=None)
            tidy(run, self._job.keep_replay)

    def stopped(self, step: int) -> None:
        for number, run in enumerate(self.runs):
            if number not in self._dropped:
                run.update(status="stopped", step=step)

    def close(self) -> None:
        for board in self._boards:
            board.close()
        for lock in self._locks:
            lock.release()


def tidy(run: RunDirectory, keep_replay: bool) -> None:
    """Drop what only training needs from a finished run; its JSON lines last, to tell whether this was cut short."""
    if not keep_replay:
        shutil.rmtree(run.path / "replay", ignore_errors=True)
        checkpoints.drop_after(run.path, -1)
    (run.path / "evaluations.jsonl").unlink(missing_ok=True)


def work(job: Job, tell: Callable[[dict[str, Any]], None], stop: Callable[[], bool]) -> None:
    """Train the job's seeds to the end; Stopped if `stop` asks for it."""
    import torch

    torch.set_num_threads(job.threads)
    if job.device == "cuda" and not torch.cuda.is_available():
        raise UserError(f"torch {torch.__version__} finds no GPU here; use device=cpu, or install its CUDA build")
    cell = recorded(job.cell)
    runs = Runs(job, cell, tell)
    judge: JudgeProcess | None = None
    try:
        found = _resume_point(runs.runs)
        for run, checkpoint in zip(runs.runs, found, strict=True):
            checkpoints.drop_after(run.path, checkpoint.step if checkpoint else -1)
        for run, seed in zip(runs.runs, job.seeds, strict=True):
            begun = run.read() if found[0] is not None else {}
            run.update(
                status="running", seed=seed, step=found[0].step if found[0] else 0, steps=cell.steps, error=None,
                provenance=begun.get("provenance") or provenance(job.device),
            )  # fmt: skip
        build = make_build(cell, job.seeds, job.device, [run.path for run in runs.runs])
        longer = cell.steps > build.slots
        spacing = min(job.checkpoint_every, SPACING) if longer else job.checkpoint_every
        suite = build.parts["suite"]
        agent: Agent = build.parts["agent"].spawn(build)
        tasks = [suite.make(cell.names.task) for _ in job.seeds]
        for task, streams in zip(tasks, build.streams, strict=True):
            task.reset(int(streams.environment.integers(2**31)))
        asks, judge = _judging(cell, build, agent)
        evaluation = build.parts["evaluation"]
        loop = Loop(
            agent, tasks, build.streams,
            Evaluator(lambda: suite.make(cell.names.task), evaluation.episodes, build.streams),
            runs, evaluate_every=evaluation.every, checkpoint_every=spacing, asks=asks, stop=stop,
        )  # fmt: skip
        if found[0] is not None:
            for number, checkpoint in enumerate(found):
                assert checkpoint is not None
                loop.load_state(number, checkpoint.state["loop"])
        runs.open([checkpoint.state["offsets"] if checkpoint else {} for checkpoint in found], judge)
        if threading.current_thread() is threading.main_thread():
            # How the launcher knows a full disk under the ring; pygame, which a suite may import, makes it an abort.
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
        tell({"event": "started", "step": loop.step})
        try:
            loop.run()
        except Stopped:
            runs.stopped(loop.step)
            raise
        runs.finish(agent)
    finally:
        if judge is not None:
            judge.close()
        runs.close()


def _resume_point(runs: Sequence[RunDirectory]) -> list[checkpoints.Checkpoint | None]:
    """The newest checkpoint of each run such that all stand at one step; None for all if there is no such step."""
    found = [checkpoints.newest(run.path, partial(_lacks, run)) for run in runs]
    while len({checkpoint.step if checkpoint else None for checkpoint in found}) > 1:
        if None in found:
            warnings.warn(Notice("not every seed has a checkpoint left; all begin anew"), stacklevel=1)
            return [None] * len(found)
        step = min(checkpoint.step for checkpoint in found if checkpoint)
        found = [
            checkpoint if checkpoint and checkpoint.step == step else
            checkpoints.newest(run.path, partial(_lacks, run), before=step)
            for run, checkpoint in zip(runs, found, strict=True)
        ]  # fmt: skip
    return found


def _lacks(run: RunDirectory, checkpoint: checkpoints.Checkpoint) -> str:
    """What a checkpoint counts on and the run's directory has no longer, or ""."""
    for name, offset in checkpoint.state["offsets"].items():
        path = run.path / f"{name}.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size < int(offset):
            return f"{path.name} has {size} of the {offset} bytes that were written by then"
    return ""


def _judging(cell: Cell, build: Build, agent: Agent) -> tuple[Asks | None, JudgeProcess | None]:
    judge = build.parts.get("judge")
    if judge is None or not agent.wants_snapshots:
        return None, None
    assignment = Assignment(
        cell.names.suite, asdict(build.parts["suite"]), cell.names.task,
        cell.names.part("judge"), asdict(judge), getattr(build.parts["replay"], "clip_length", 1),
    )  # fmt: skip
    process = JudgeProcess(assignment, judge.timeout)
    return Asks(build.rows, judge.delay, process), process


@dataclass
class Stop:
    """Set by a signal or by the loss of the parent."""

    asked: bool = False
    parent: int = field(default_factory=os.getppid)

    def __call__(self) -> bool:
        return self.asked

    def listen(self) -> None:
        def handle(*_: Any) -> None:
            self.asked = True

        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)

        def watch() -> None:
            while os.getppid() == self.parent:
                time.sleep(0.5)
            self.asked = True

        threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Entry point of a worker process."""
    stop = Stop()
    stop.listen()
    job = Job.loads(sys.stdin.read())
    telling = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        try:
            with telling:
                print(dumps(event), flush=True)
        except BrokenPipeError:  # the parent is gone; the watcher stops the run at its next step
            stop.asked = True
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr, flush=True)
        if isinstance(message, Notice):
            tell({"event": "notice", "error": str(message)})

    warnings.showwarning = warn
    try:
        work(job, tell, stop)
    except Stopped:
        return EXIT_STOPPED
    except UserError as error:
        tell({"event": "error", "error": str(error)})
        return EXIT_USER_ERROR
    except OSError as error:
        if told := of_system(error):
            tell({"event": "error", "error": told})
            return EXIT_USER_ERROR
        traceback.print_exc()
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def write_cell(study: StudyDirectory, cell: Cell) -> None:
    """Write cell.json if it is not there; a present one must have the same id."""
    path = study.path / cell.directory / "cell.json"
    if not path.exists():
        write_json(path, record(cell))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
