"""Re-evaluation of a trained run: loads its parameters and plays episodes on new layouts, optionally recorded."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from guidebench.harness import extras, outside, reader_process, registry
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.interfaces import Actions, Agent, Array, Drawer, Observations, Question, Score, Task
from guidebench.harness.loop.backends import consultations
from guidebench.harness.loop.build import make_build
from guidebench.harness.loop.evaluation import Evaluator, Result, solving
from guidebench.harness.loop.job import Job
from guidebench.harness.models import study_models
from guidebench.harness.plan import config
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Names
from guidebench.harness.playback import eval_answers
from guidebench.harness.playback.eval_answers import EVAL_FOLDER
from guidebench.harness.records.files import read_regular
from guidebench.harness.records.study import POLICY, POLICY_DIGEST, RunDirectory

SHIFT = 2**32
"""Added to the seed, so that a re-evaluation never repeats layouts of the run's training or evaluations."""


class Recording(Protocol):
    """Records the episodes of an evaluation and writes them to files."""

    message: str
    """Message that describes the written files."""

    def __call__(self, number: int, task: Task, action: Any) -> None:
        """Record the current state; called after each reset, with None, and after each step of the number-th
        episode."""

    def heard(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        """Record what models answered to the agent, None for a question without an answer; called after each batch."""

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Write the files; called after the last episode with the suite and names of the evaluation. Raise UserError if
        they cannot be written."""


class Film:
    """Records snapshots of the first episodes and draws them to a video file."""

    def __init__(self, path: Path, episodes: int, frames_per_second: int = 10) -> None:
        if path.suffix.lower() not in (".mp4", ".gif"):
            raise UserError(f"--video {path}: end the file's name in .mp4 or .gif")
        if path.suffix.lower() == ".mp4" and not extras.is_installed("video"):
            raise extras.missing(f"--video {path} needs the package imageio-ffmpeg (a .gif does not)", "video")
        self.path, self._episodes, self._rate = path, episodes, frames_per_second
        self._snapshots: dict[int, list[Array]] = {}
        self.message = f"video: {path}"

    def __call__(self, number: int, task: Task, action: Any) -> None:
        if number < self._episodes:
            self._snapshots.setdefault(number, []).append(task.snapshot())

    def heard(self, questions: Sequence[Question], answers: Sequence[Any]) -> None:
        """Do nothing, because a video has no captions."""

    def write(self, suite: Any, names: Names, results: Sequence[Result]) -> None:
        """Draw the snapshots with the suite's default drawing; the last frame of an episode is shown for half a
        second."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(suite.drawing().spawn(names.task))
        except OSError as error:
            raise UserError(f"--video {self.path} cannot be written ({error.strerror or error})") from None

    def _write(self, draw: Drawer) -> None:
        import imageio.v2 as imageio

        settings: dict[str, Any] = {"duration": 1000 / self._rate, "loop": 0}
        if self.path.suffix.lower() == ".mp4":
            settings = {"fps": self._rate, "macro_block_size": 2, "codec": "libx264"}
        writer: Any
        with imageio.get_writer(self.path, **settings) as writer:
            for number in sorted(self._snapshots):
                frames = draw(np.stack(self._snapshots[number]))
                for frame in [*frames, *([frames[-1]] * (self._rate // 2))]:
                    writer.append_data(frame)


def score_of(directory: Path, suite: str | None, task: str | None) -> Score:
    """Return the score of the episodes of `evaluate_run`."""
    cell = load_run(directory).cell
    if suite is None and task is None:
        return cell.score
    return config.score_of(home := suite or cell.names.suite, config.task_of(home, task or cell.names.task))


def evaluate_run(
    directory: Path,
    suite: str | None,
    task: str | None,
    *,
    episodes: int,
    seed: int,
    recordings: Sequence[Recording] = (),
    models: Models | None = None,
) -> list[Result]:
    """Return the results of `episodes` greedy episodes of a finished run, on its own task or the given one; of one
    episode if all would be equal.

    Questions of an agent that consults models are answered from the calls recorded in RUN/eval by earlier evaluations;
    other calls are made only with models.mode=record. Raise MissingCall for an unrecorded answer."""
    import torch

    torch.set_num_threads(1)  # as in training on a CPU and in verification, so that sums round equally
    cell, run, run_seed, digest = load_run(directory)
    _check_policy(run.path / POLICY, digest)
    suite_name = suite or cell.names.suite
    names = cell.names._replace(suite=suite_name, task=config.task_of(suite_name, task or cell.names.task))
    home = cell.section("suite") if names.suite == cell.names.suite else registry.get("suite", names.suite)()
    home = home.of_run(run_seed).in_evaluation()
    trained, tested = cell.section("suite").spaces(cell.names.task), home.spaces(names.task)
    if differs := _differing(trained, tested):
        raise UserError(
            f"{names.suite}/{names.task} does not fit a policy of {cell.names.suite}/{cell.names.task}: {differs}"
        )
    consulted, home_task = sorted(cell.consulted), (cell.names.suite, cell.names.task)
    if consulted and (names.suite, names.task) != home_task:
        raise UserError(
            f"the agent of {directory} consults its {' and '.join(consulted)} about {'/'.join(home_task)}, so it can "
            f"be evaluated only on that task"
        )
    models = models or Models(mode="replay")
    if any(study_models.is_recorded(cell.section(role)) for role in consulted):
        eval_answers.check(run.path, models)
    with tempfile.TemporaryDirectory() as scratch:
        agent = load_agent(cell, run.path / POLICY, run_seed, Path(scratch), tested)
        streams = make_build(cell, [seed + SHIFT], "cpu", [Path(scratch)]).streams
        if home.repeats(names.task) and agent.deterministic:
            episodes = 1
        score = home.score(names.task)
        solve = solving(cell.section("agent"), lambda row: home, names.task)
        evaluator = Evaluator(lambda row: home.make(names.task), episodes, streams, score, solve)
        job = Job("eval", str(run.path / EVAL_FOLDER), record(cell), (run_seed,), "cpu", models=asdict(models))

        def watch(number: int, task: Task, action: Any) -> None:
            for recording in recordings:
                recording(number, task, action)

        with consultations(job, cell, make_build(cell, list(job.seeds), "cpu", [Path(scratch)])) as within:
            consult = within(f"eval/{seed}")

            def consult_and_record(questions: Sequence[Question]) -> list[Any]:
                answers = consult(questions)
                for recording in recordings:
                    recording.heard(questions, answers)
                return answers

            results = evaluator(agent, 0, [0], watch, consult_and_record)
        eval_answers.settle(run.path)
    for recording in recordings:
        recording.write(home, names, results)
    return results


class TrainedRun(NamedTuple):
    """A finished run."""

    cell: Cell
    directory: RunDirectory
    seed: int
    policy_digest: str | None
    """SHA-256 of its policy's file; None in records of older versions."""


def load_run(directory: Path) -> TrainedRun:
    """Return a finished run, whose records are parsed in the separate process. Raise UserError if it is not one."""
    run = RunDirectory(directory)
    if not (directory / "run.json").exists():
        fault = "is not a run" if directory.exists() else "does not exist"
        raise UserError(f"{directory} {fault}; give a directory such as STUDY/SUITE/TASK/METHOD-CELL/seed-0")
    record, cell = run.path / "run.json", directory.parent / "cell.json"
    content = reader_process.read(
        f"{directory}: reading its records", [record, cell], _records, directory, record, cell
    )
    return TrainedRun(recorded(content.cell), run, content.seed, content.policy_digest)


class _Records(NamedTuple):
    """The parts of a run's records that playing it needs."""

    seed: int
    cell: Mapping[str, Any]
    """Content of cell.json, of which a cell can be built."""
    policy_digest: str | None


def _records(directory: Path, record: Path, cell: Path) -> _Records:
    """Return the seed of a run.json and the content of a cell.json. Raise UserError if the run is not finished or no
    cell can be built of them. Call it in the separate process."""
    about = outside.document(record)
    status = about.get("status", "waiting") if isinstance(about, dict) else "without a status"
    if status != "finished":
        raise UserError(f"{directory} is {str(status)[:80]}, not finished; the command that began it continues it")
    content = outside.document(cell)
    try:
        seed = int(about["seed"])
        recorded(content)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(
            f"{record} or {cell} is not as this program writes it ({type(error).__name__}: {error}); restore it"
        ) from None
    digest = about.get(POLICY_DIGEST)
    return _Records(seed, content, None if digest is None else str(digest)[:64])


def _check_policy(file: Path, digest: str | None) -> None:
    """Raise UserError if a run's policy is missing, or is not the one that its record names."""
    if not file.exists():
        raise UserError(
            f"{file} is missing. Measured studies keep the policy of one seed in rows of primary claims only; other "
            f"runs have theirs until it is deleted: restore the file, or train the run anew"
        )
    if digest is not None and hashlib.sha256(read_regular(file)).hexdigest() != digest:
        raise UserError(f"{file} is not the policy with which the run ended (SHA-256 {digest}); restore the file")


def load_agent(cell: Cell, policy: Path, seed: int, scratch: Path, spaces: tuple[Any, Any]) -> Agent:
    """Return the agent of a run of this seed with the trained parameters in a file, for acting only."""
    build = make_build(cell, [seed], "cpu", [scratch])
    build = replace(build, observations=spaces[0], actions=spaces[1], capacity=2, slots=4)
    agent: Agent = build.parts["agent"].spawn(build)
    agent.load_parameters(0, reader_process.read(f"{policy}: reading it", policy, outside.arrays, policy))
    return agent


def _differing(trained: tuple[Observations, Actions], tested: tuple[Observations, Actions]) -> str:
    """Return why a policy trained on the first spaces cannot act in the second, or "". Grids may differ in size, since
    the encoder is convolutional; all else must be equal, including the order of named parts."""
    (before, actions_before), (after, actions_after) = trained, tested
    if actions_before != actions_after:
        return f"{actions_after} against {actions_before}"
    if [*before.parts] != [*after.parts]:
        part_names = [", ".join(space.parts) or "one array" for space in (after, before)]
        return f"its observations are {part_names[0]}, against {part_names[1]}"
    for name in before.parts or ("",):
        one, other = (space.parts.get(name, space) for space in (before, after))
        if not _fits(one, other):
            subject = f"part {name!r} of its observations is" if name else "its observations are"
            return f"{subject} {_described(other)}, against {_described(one)}"
    return ""


def _described(part: Observations) -> str:
    codes = f" of {list(part.categories)} codes" if part.categories else ""
    stack = f", {part.stack} frames" if part.stack > 1 else ""
    return f"{part.dtype} {list(part.shape)}{codes}{stack}{f', for {part.encoder}' if part.encoder else ''}"


def _fits(one: Observations, other: Observations) -> bool:
    grids = all(part.categories is not None and len(part.shape) == 3 for part in (one, other))
    if grids and one.shape[2] == other.shape[2]:
        return replace(one, shape=other.shape) == other
    return one == other
