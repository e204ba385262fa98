"""Checks of suites and methods against their interfaces, for the tests of plug-in authors.

    from guidebench import testing

    def test_the_suite_keeps_its_contract():
        testing.check_suite("my_suite")

    def test_the_method_keeps_its_contract(tmp_path):
        testing.check_method("my_method", tmp_path, "suite=classic", "task=CartPole-v1")

A failed check raises an AssertionError that says what was expected, and where. `check_suite` plays tasks and restores
them. `check_method` trains short runs of a method: two seeds packed, separately, and continued after a kill.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness import fork_server, registry
from guidebench.harness.capabilities import HasExpert, NamesActions
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record, write_cell
from guidebench.harness.interfaces import Actions, Array, Observations, State
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import config, matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study
from guidebench.harness.run.worker import work

KILLED = 9
"""Exit code of the process that simulates a kill during a run."""
SEEDS = (0, 1)
PATIENCE = 600.0
"""Seconds that this process may take."""
ENDED = 0.6
"""Share of a run's steps after which its process is killed."""
STATE = ": is everything that a later step depends on in the state() of {}, and does load_state() restore all of it?"
"""What a difference between something and what was restored from it asks its author."""
TINY = ("training.steps=300", "evaluation.every=100", "evaluation.episodes=2")
"""Settings of the runs of `check_method`, unless the caller sets them."""


def check_suite(name: str, tasks: Sequence[str] | None = None, steps: int = 200, seed: int = 0) -> None:
    """Check the given tasks of a registered suite, or all, over `steps` random steps each.

    Observations must fit the spaces, also each part of a record, and frame stacks must shift by one frame per step.
    Equal seeds and actions must give equal episodes. A task restored from its state in another object must continue
    identically, also beyond the end of the episode. No episode may be longer than the horizon. Equal snapshots must be
    drawn as equal frames, uint8 [n, height, width, 3]. A suite that `NamesActions` must have one name per action, and
    no name twice. To ask a solver (`HasExpert`) must change no episode, and a restored task's solver must act alike.
    Words of its difficulties must be tasks, profiles and settings that there are, with valid values.
    """
    check_difficulties(name)
    suite = registry.get("suite", name)()
    for task in (*suite.goalless, *filter(None, [suite.pretraining])):
        assert task in suite.tasks, f"{name}: goalless or pretraining names {task!r}, which is none of {suite.tasks}"
    for task in suite.tasks if tasks is None else tasks:
        check_task(suite, task, steps, seed)


def check_difficulties(name: str) -> None:
    """Check that every difficulty of a registered suite can be planned with the suite's default method, and has no word
    that is none of a command's."""
    for level in registry.get("suite", name).difficulties:
        try:
            matrix.plan([f"suite={name}", f"{config.DIFFICULTY}={level}"])
        except UserError as error:
            raise AssertionError(f"{name}, {config.DIFFICULTY}={level}: {error}") from None


def check_task(suite: Any, name: str, steps: int = 200, seed: int = 0) -> None:
    """Check one task of a built suite, as `check_suite` does."""
    actions = suite.spaces(name)[1]
    rng = np.random.default_rng(seed)
    chosen = [_action(actions, rng) for _ in range(steps)]
    one, twin, restored = suite.make(name), suite.make(name), suite.make(name)
    assert one.max_steps == suite.horizon(name), f"{name}: max_steps {one.max_steps}, horizon {suite.horizon(name)}"
    assert isinstance(one.instruction, str), f"{name}: the instruction {one.instruction!r} is no text"
    if isinstance(suite, NamesActions):
        names = suite.action_names(name)
        assert len(names) == len(set(names)) == actions.count, f"{name}: {len(names)} names of {actions.count} actions"

    played = _played(suite, one, name, chosen[: steps // 2], seed, ask=True)
    _same(played, _played(suite, twin, name, chosen[: steps // 2], seed), f"{name}: two tasks reset with seed {seed}")
    state = _stored(one.state())
    played = _played(suite, one, name, chosen[steps // 2 :])
    restored.reset(seed + 1)
    restored.load_state(state)
    who = f"{name}: a task and one restored from it"
    _same(played, _played(suite, restored, name, chosen[steps // 2 :]), who, STATE.format("the task"))
    if isinstance(twin, HasExpert):
        _followed(one, steps // 10)
        restored.load_state(_stored(one.state()))
        mine, theirs = _followed(one, steps // 10), _followed(restored, steps // 10)
        _same(mine, theirs, f"{name}: the solvers of a task and of one restored from it", STATE.format("the task"))

    drawing = suite.drawing()
    drawing.ready()
    frames = drawing.spawn(name)(np.stack([one.snapshot(), restored.snapshot()]))
    form = f"{frames.dtype} {list(frames.shape)}"
    assert frames.dtype == np.uint8 and frames.ndim == 4 and frames.shape[::3] == (2, 3), (
        f"{name}: two frames are {form}, not uint8 [2, height, width, 3]"
    )
    assert np.array_equal(frames[0], frames[1]), f"{name}: equal snapshots are drawn as different frames"


def _action(actions: Actions, rng: np.random.Generator) -> Any:
    if actions.count is not None:
        return int(rng.integers(actions.count))
    return rng.uniform(-1, 1, actions.shape).astype(np.float32)


def _followed(task: Any, steps: int) -> list[Any]:
    """Return the actions of a task's solver, which is followed; a new episode begins when one ends."""
    actions = []
    for _ in range(steps):
        action = task.expert()
        actions.append(np.asarray(action).tolist())
        step = task.step(action)
        if step.terminated or step.truncated:
            task.reset()
    return actions


def _played(
    suite: Any, task: Any, name: str, actions: Sequence[Any], seed: int | None = None, ask: bool = False
) -> list[tuple[Any, ...]]:
    """Return the results of these actions, after a reset with `seed` or from the current state; a new episode begins
    when one ends. `ask`: whether the task's solver, if it has one, is asked before each tenth step."""
    observations, horizon = suite.spaces(name)[0], suite.horizon(name)
    trace: list[tuple[Any, ...]] = []
    before: Array | None = None
    if seed is not None:
        before = task.reset(seed).copy()
        trace.append((_observed(before, observations, name),))
    length = 0
    for number, action in enumerate(actions):
        if ask and number % 10 == 0 and isinstance(task, HasExpert):
            task.expert()
        step = task.step(action)
        length += 1
        assert np.isfinite(step.reward), f"{name}: the reward of a step is {step.reward}"
        events = task.events()
        assert events.dtype == bool and events.shape == (len(suite.events),), (
            f"{name}: events are {events.dtype} {list(events.shape)}, and the suite names {len(suite.events)}"
        )
        snapshot = task.snapshot()
        assert snapshot.dtype == np.uint8 and snapshot.ndim == 1, f"{name}: a snapshot is {snapshot.dtype}, no bytes"
        assert length <= horizon, f"{name}: an episode goes on after its horizon of {horizon} steps"
        observation_bytes = _observed(step.observation, observations, name)
        if before is not None:
            _moved(before, step.observation, observations, name)
        before = step.observation.copy()
        trace.append(
            (observation_bytes, float(step.reward), *map(bool, step[2:]), events.tobytes(), snapshot.tobytes())
        )
        if step.terminated or step.truncated:
            before = task.reset().copy()
            trace.append((_observed(before, observations, name),))
            length = 0
    return trace


def _observed(observation: Array, space: Observations, name: str) -> bytes:
    form = f"{observation.dtype} {list(observation.shape)}"
    assert observation.shape == space.shape and observation.dtype == space.numpy, (
        f"{name}: an observation is {form}, and its space says {space.numpy} {list(space.shape)}"
    )
    for part, values, part_space in _parts(observation, space, name):
        if part_space.categories is not None:
            least, largest = (values.reshape(-1, values.shape[-1]).min(0), values.reshape(-1, values.shape[-1]).max(0))
            assert (largest < part_space.categories).all(), (
                f"{part}: codes up to {largest} and categories {part_space.categories}"
            )
            assert (least >= 0).all(), f"{part}: codes from {least} on, and the least code is 0"
        assert values.dtype.kind != "f" or np.isfinite(values).all(), f"{part}: an observation holds {values}"
    return observation.tobytes()


def _moved(before: Array, after: Array, space: Observations, name: str) -> None:
    """Check that all frames of a stack but the newest equal frames of the previous observation."""
    for (part, first, part_space), (_, second, _) in zip(
        _parts(before, space, name), _parts(after, space, name), strict=True
    ):
        if part_space.stack > 1:
            channels = part_space.shape[-1] // part_space.stack
            assert np.array_equal(first[..., channels:], second[..., :-channels]), (
                f"{part}: after a step its stack of {part_space.stack} frames does not hold the frames of the "
                f"observation before it, moved up by one (the oldest first, {channels} entries of the last axis each)"
            )


def _parts(observation: Array, space: Observations, name: str) -> Iterator[tuple[str, Array, Observations]]:
    """Yield name, values and space of each part, or of the whole observation if it has no parts."""
    if not space.parts:
        yield name, observation, space
    for part, part_space in space.parts.items():
        yield f"{name}, part {part!r}", observation[part], part_space


def _stored(state: State) -> State:
    """Return a state as it is restored from a checkpoint."""
    with tempfile.TemporaryDirectory() as directory:
        return checkpoints.load(checkpoints.save(Path(directory), 0, state)).state


def _same(one: Sequence[Any], other: Sequence[Any], who: str, hint: str = "") -> None:
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        assert mine == theirs, f"{who} differ {number} steps later{hint}"


def check_method(method: str, directory: Path, *words: str) -> None:
    """Check a registered method by short runs of two seeds in `directory`; `words` are overrides as on the command line
    (`suite=classic`, `guide.weight=0.5`).

    A run must not depend on packing: each seed gives the same results alone and together with another. A run that is
    killed and continued in another packing must write the same evaluations, declared logs and policy.
    """
    named = {word.split("=", 1)[0] for word in words}
    command = [
        f"method={method}",
        "profile=smoke",
        *words,
        *(word for word in TINY if word.split("=", 1)[0] not in named),
    ]
    packed = _train(command, directory / "together", [SEEDS])
    assert packed, f"{method}: its runs wrote nothing"
    separate = _train(command, directory / "apart", [(seed,) for seed in reversed(SEEDS)])
    _alike(packed, separate, f"{method}: a seed alone and beside another")
    continued = _train(command, directory / "ended", [(seed,) for seed in SEEDS], ended=True)
    who = f"{method}: a run as a whole and one whose process ended after {ENDED:.0%} of its steps"
    _alike(packed, continued, who, STATE.format("the agent and each of its parts"))


def _train(
    command: Sequence[str], directory: Path, packs: Sequence[tuple[int, ...]], ended: bool = False
) -> dict[str, bytes]:
    """Return the files that runs in these packs wrote, those of pre-training stages included; with `ended`, all seeds
    first train together in a process that is killed during the run."""
    plan = matrix.plan([*command, f"seeds={list(SEEDS)}".replace(" ", ""), f"output={directory}"])
    (last,) = plan.cells
    home = StudyDirectory(study.directory_of(plan))
    listed = {"seeds": list(SEEDS), "label_variant": ""}
    home.write(plan.name, [], {cell.id: {"directory": cell.directory, **listed} for cell in plan.trained})
    files: dict[str, bytes] = {}
    for cell in plan.trained:
        write_cell(home, cell)
        job = functools.partial(Job, study=plan.name, directory=str(directory), cell=record(cell), checkpoint_every=65)
        if ended:
            with tempfile.TemporaryFile("w+") as words, tempfile.TemporaryFile("w+") as printed:
                words.write(job(seeds=SEEDS).dumps())
                words.seek(0)
                killed = fork_server.start(
                    "guidebench.testing", str(int(ENDED * cell.steps)), stdin=words, stdout=printed, stderr=printed
                )
                try:
                    code = killed.wait(PATIENCE)
                finally:
                    killed.kill()
                printed.seek(0)
                assert code == KILLED, f"the run did not come as far as {ENDED:.0%} of its steps:\n{printed.read()}"
        for seeds in packs:
            work(job(seeds=seeds), lambda event: None, lambda: False)
        who = "" if cell is last else f"stage {cell.names.method}, "
        files |= {
            f"{who}seed {seed}, {name}": file.read_bytes()
            for seed in SEEDS
            for name in ("evaluations.parquet", "policy.safetensors", *(f"{log}.parquet" for log in sorted(cell.logs)))
            if (file := home.run(cell.directory, seed).path / name).exists()
        }
    return files


def _alike(one: dict[str, bytes], other: dict[str, bytes], who: str, hint: str = "") -> None:
    assert one.keys() == other.keys(), f"{who} wrote different files: {sorted(one.keys() ^ other.keys())}"
    for name, content in one.items():
        assert other[name] == content, f"{who} differ ({name}){hint}"


def _end_at(question: int) -> Any:
    """Return a stop function that ends the process at its `question`-th call."""
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        if calls == question:
            os._exit(KILLED)
        return False

    return stop


def main(question: str) -> int:
    """Carry out the job on standard input in a process that ends at the given call of its stop function."""
    work(Job.loads(sys.stdin.read()), lambda event: None, _end_at(int(question)))
    return 0
