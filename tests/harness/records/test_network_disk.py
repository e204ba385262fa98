"""On a simulated network disk one worker at a time writes a run, which is never lost and finishes once."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.loop.job import Job
from guidebench.harness.records import attempts, leases
from guidebench.harness.records.files import Rows, read_json, refresh, write_bytes, write_json
from guidebench.harness.records.leases import BEAT, EXPIRES, Fenced, Lease, LeaseHeld
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.run import worker
from tests.harness.records.network_disk import CACHED, Machine, NetworkDisk, process

STEPS = 12
"""Steps of a simulated run, each with a row of evaluations and a checkpoint."""
PACE = 8.0
"""Seconds of a step."""
FAULTS = 0.004
"""Probability, at each request, that a process or a machine fails."""
BOUND = EXPIRES + CACHED + PACE + 20.0
"""Seconds within which a run whose holder is dead goes on, while somebody tries again every 20 seconds."""
SEEDS = range(10)
CLOCKS = {
    "server": (0.0, False),
    "server ahead": (3600.0, False),
    "server behind": (-3600.0, False),
    "clients": (0.0, True),
}
"""Whose clock sets mtimes: seconds by which it is ahead, and whether it is that of each client."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "study").mkdir()
    return tmp_path / "study"


class Watch:
    """An observer of all machines: it records who writes which directory and when the run makes progress."""

    def __init__(self, disk: NetworkDisk) -> None:
        self.disk = disk
        self.writers: dict[Path, object] = {}
        """Directory -> the process that wrote there last."""
        self.went_on = disk.now
        self.longest = 0.0
        self.holder: object = None
        self.steps = 0

    def writes(self, directory: Path) -> None:
        """Note that this process writes a directory; fail if another living process has written it."""
        me, previous_writer = process(), self.writers.get(directory)
        if previous_writer is not None and previous_writer is not me:
            assert previous_writer.ended or previous_writer.killed or directory in previous_writer.released, (
                f"two processes write {directory}"
            )  # type: ignore[attr-defined]
        self.writers[directory] = me

    def goes_on(self) -> None:
        """Note that this process took the run or completed a step of it."""
        self.holder, self.steps = process(), self.steps + 1
        self.longest = max(self.longest, self.disk.now - self.went_on)
        self.went_on = self.disk.now


def trains(home: Path, watch: Watch) -> None:
    """Train a run as a worker does, from its last checkpoint to its end: rows, checkpoints, evaluations, status."""
    me: Any = process()
    cell: Any = SimpleNamespace(directory=str(home.parent.relative_to(home.parents[1])))
    leased_runs = worker._take(Job("study", str(home.parents[1]), {}, (0,)), cell, lambda event: None)
    if not leased_runs:
        return
    ((run, lease),) = leased_runs.values()
    watch.goes_on()
    watch.writes(run.path)
    state = run.path / "state.json"
    saved = read_json(state) if state.exists() else {"step": 0, "offset": 0}
    rows = Rows(run.path / "evaluations.jsonl", int(saved["offset"]))
    try:
        beaten = leases._elapsed()
        for step in range(int(saved["step"]) + 1, STEPS + 1):
            for _ in range(4):
                me.rest(PACE / 4)
                if leases._elapsed() - beaten >= BEAT:
                    beaten = leases._elapsed()
                    lease.beat()
            if lease.lost:
                raise Fenced
            lease.fence()
            watch.writes(run.path)
            rows.append({"step": step})
            write_json(state, {"step": step, "offset": rows.flush()}, lease.fence)
            run.update(status="running", step=step)
            watch.goes_on()
        rows.close()
        write_bytes(run.path / "evaluations.parquet", (run.path / "evaluations.jsonl").read_bytes(), lease.fence)
        run.update(status="finished", step=STEPS)
        run.publish(lease)
    finally:
        rows.close()
        me.released.add(run.path)
        lease.release()


def comes_back(home: Path, watch: Watch) -> Callable[[], None]:
    """Return the work of a process that retries until the run is finished, whatever fails."""

    def work() -> None:
        me: Any = process()
        me.released = set()
        while True:
            try:
                trains(home, watch)
                refresh(home)
                if RunDirectory(home).status == "finished":
                    return
            except (LeaseHeld, Fenced, UserError, OSError):
                me.rest(20 * watch.disk.random.random())

    return work


def lives(disk: NetworkDisk, home: Path, watch: Watch, machines: list[Machine]) -> None:
    """Start workers on these machines and kill, freeze, pause and replace them at random until the run is finished."""
    for machine in machines:
        disk.start(machine, comes_back(home, watch))
    until = disk.now + 3 * 3600
    while disk.go_on():
        assert disk.now < until, "the run is not finished"
        alive = [process for process in disk.processes if not process.ended and not process.killed]
        if not alive or disk.random.random() > FAULTS:
            continue
        victim = disk.random.choice(alive)
        match disk.random.choice(("kill", "vanish", "freeze", "pause")):
            case "kill":
                victim.killed = True
                disk.start(victim.machine, comes_back(home, watch))
            case "vanish" if len({process.machine for process in alive}) > 1:  # its node is lost and another boots
                victim.last_request, victim.wakes = True, disk.now + 200 * disk.random.random()
                another = Machine(f"{victim.machine.name}{len(disk.processes)}", 5.0, disk.random.uniform(-4000, 4000))
                disk.start(another, comes_back(home, watch))
            case "freeze":
                victim.wakes = disk.now + 250 * disk.random.random()
            case "pause":
                seconds = 250 * disk.random.random()
                victim.machine.paused += seconds
                for process in disk.processes:
                    if process.machine is victim.machine:
                        process.wakes = disk.now + seconds


@pytest.fixture
def make_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., NetworkDisk]]:
    disks: list[NetworkDisk] = []

    def make(seed: int, **settings: Any) -> NetworkDisk:
        disks.append(NetworkDisk(place, monkeypatch, seed, **settings))
        return disks[-1]

    yield make
    for disk in disks:
        disk.close()


def machines() -> list[Machine]:
    """Return three machines whose wall clocks differ by an hour."""
    return [Machine("a", 0.0, 0.0), Machine("b", 900.0, 3600.0), Machine("c", 70_000.0, -3600.0)]


def check_finished(home: Path, disk: NetworkDisk) -> None:
    """Check that the run is finished, has each row once, and has no attempt left."""
    errors = [process.error for process in disk.processes if process.error is not None]
    assert not errors, errors
    run = RunDirectory(home)
    assert run.status == "finished" and run.path == home and not attempts.remain(home)
    rows = [json.loads(line)["step"] for line in (home / "evaluations.parquet").read_text().splitlines()]
    assert rows == list(range(1, STEPS + 1))


@pytest.mark.parametrize("clocks", CLOCKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_is_written_by_one_worker_at_a_time_and_ends_once_with_each_row_once(
    make_disk: Callable[..., NetworkDisk], place: Path, seed: int, clocks: str
) -> None:
    server, by_clients = CLOCKS[clocks]
    disk = make_disk(seed, server=server, by_clients=by_clients)
    home, watch = place / "cell" / "seed-0", Watch(disk)
    lives(disk, home, watch, machines())
    check_finished(home, disk)


@pytest.mark.parametrize("clocks", CLOCKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_whose_holder_is_lost_goes_on_within_bounded_time(
    make_disk: Callable[..., NetworkDisk], place: Path, seed: int, clocks: str
) -> None:
    server, by_clients = CLOCKS[clocks]
    disk = make_disk(seed, server=server, by_clients=by_clients)
    disk.held_up = 0.0
    home, watch = place / "cell" / "seed-0", Watch(disk)
    for machine in machines():
        disk.start(machine, comes_back(home, watch))
    losses = 0
    until = disk.now + 3600
    while disk.go_on():
        assert disk.now < until
        writing = [
            process
            for process in disk.processes
            if not process.killed and not process.ended and process is watch.holder
        ]
        if writing and losses < 2 and watch.steps > 4 * (losses + 1):
            writing[0].killed = True
            losses += 1
    assert losses == 2 and watch.longest < BOUND
    check_finished(home, disk)


def test_commands_that_write_a_study_at_the_same_time_lose_no_cell(
    make_disk: Callable[..., NetworkDisk], place: Path
) -> None:
    for seed in SEEDS:
        disk = make_disk(seed)

        def adds(name: str, disk: NetworkDisk = disk, seed: int = seed) -> Callable[[], None]:
            def work() -> None:
                study, lease = StudyDirectory(place / str(seed)), Lease(place / str(seed), "study")
                while True:
                    try:
                        if (study.path / "study.json").exists() and name in study.read()["cells"]:
                            return
                        lease.acquire(tell=lambda text: None)
                        entry = {"directory": name, "seeds": [0], "label_variant": ""}
                        study.write("mine", ["bench"], {name: entry}, lease.fence)
                        return
                    except (LeaseHeld, Fenced, UserError, OSError):
                        process().rest(20 * disk.random.random())  # type: ignore[union-attr]
                    finally:
                        lease.release()

            return work

        for machine in machines():
            disk.start(machine, adds(machine.name))
        while disk.go_on():
            pass
        assert [worker.error for worker in disk.processes] == [None] * 3
        assert set(StudyDirectory(place / str(seed)).read()["cells"]) == {"a", "b", "c"}
        disk.close()
