"""One process at a time writes a directory, whatever the clocks and caches of its machines; a dead holder blocks
nobody."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from guidebench.harness.records import leases
from guidebench.harness.records.leases import BEAT, EXPIRES, LATE, Fenced, Lease, LeaseHeld

THIS_MACHINE, OTHER_MACHINE = "the boot of this machine 1", "the boot of another machine 1"


class Disk:
    """A shared disk and two machines: time passes when a test says so, and the disk's clock is an hour off."""

    def __init__(self, patch: pytest.MonkeyPatch, offset: float = 3600.0) -> None:
        self.now, self.offset, self._patch = 1_000.0, offset, patch
        patch.setattr(leases, "_elapsed", lambda: self.now)
        patch.setattr(leases, "_keep", lambda lease: None)  # tests call `beat` themselves
        patch.setattr(leases, "_touch", self._touch)
        patch.setattr(leases, "_link", self._link)
        patch.setattr(leases, "_sleep", self._sleep)
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while a process waits for a lease."""
        self._linked = leases_link
        self.on(THIS_MACHINE)

    def on(self, machine: str) -> None:
        """Switch to a machine: what follows happens there."""
        self._patch.setattr(leases, "machine", lambda: machine)

    def _sleep(self, seconds: float) -> None:
        self.now += 1.0
        self.meanwhile()

    def _touch(self, path: Path) -> None:
        os.utime(path, (self.now + self.offset,) * 2)

    def _link(self, folder: Path, epoch: int, attempt: int, key: str) -> bool:
        has_linked = self._linked(folder, epoch, attempt, key)
        if has_linked:
            self._touch(folder / str(epoch))
        return has_linked


leases_link = leases._link


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def acquire_lease(directory: Path) -> Lease:
    lease = Lease(directory, "run")
    lease.acquire()
    return lease


def assert_refused(directory: Path, reason: str | None = None) -> None:
    with pytest.raises(LeaseHeld, match=reason):
        acquire_lease(directory)


def test_a_lease_is_held_by_one_and_free_once_it_is_released(disk: Disk, tmp_path: Path) -> None:
    first = acquire_lease(tmp_path)
    assert first.held() and leases.holder(tmp_path).pid == os.getpid()  # type: ignore[union-attr]
    assert_refused(tmp_path, rf"run {tmp_path} is being written by another process \(pid {os.getpid()}\)")
    first.release()
    assert not first.held() and leases.holder(tmp_path) is None
    second = acquire_lease(tmp_path)
    assert second.held() and second.attempt == 0
    assert sorted(path.name for path in (tmp_path / ".lease").iterdir()) == ["1", "2"]


@pytest.mark.parametrize("offset", [0.0, 3600.0, -3600.0])
def test_another_machine_follows_when_signs_of_life_end_whatever_the_clocks_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offset: float
) -> None:
    disk = Disk(monkeypatch, offset)
    first_lease = acquire_lease(tmp_path)
    disk.on(OTHER_MACHINE)
    assert_refused(tmp_path, r"\(pid \d+ on .+\)")
    disk.now += EXPIRES - 1
    assert_refused(tmp_path)
    disk.on(THIS_MACHINE)
    first_lease.beat()  # it is late, and takes the next epoch itself, since nobody else did
    assert first_lease.held() and first_lease.attempt == 0
    disk.on(OTHER_MACHINE)
    assert_refused(tmp_path)
    disk.now += EXPIRES - 1
    assert_refused(tmp_path)
    disk.now += 1
    second = acquire_lease(tmp_path)
    assert second.attempt == 3  # the first holder may be alive, so this one writes elsewhere
    disk.on(THIS_MACHINE)
    assert not first_lease.held() and first_lease.lost
    with pytest.raises(Fenced, match=f"the run {tmp_path} was taken over by another process"):
        first_lease.fence()
    first_lease.release()  # which must not free the other's lease
    disk.on(OTHER_MACHINE)
    assert second.held() and leases.holder(tmp_path) is not None


def test_a_holder_fences_itself_before_another_may_follow(disk: Disk, tmp_path: Path) -> None:
    lease = acquire_lease(tmp_path)
    (tmp_path / ".lease" / "2").write_bytes(b"held{}")  # another machine took over after a silence
    disk.now += LATE - 1
    assert lease.held()
    disk.now += 1
    assert not lease.held() and lease.lost
    assert LATE + BEAT < EXPIRES


def test_a_holder_whose_disk_hangs_tries_again_and_loses_nothing(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = acquire_lease(tmp_path)

    def hangs(path: Path) -> None:
        raise OSError("stale file handle")

    with monkeypatch.context() as patched:
        patched.setattr(leases, "_touch", hangs)
        disk.now += BEAT
        lease.beat()
    disk.now += BEAT
    lease.beat()
    disk.now += LATE - 1
    assert lease.held()


def test_a_stale_listing_cannot_give_an_epoch_twice(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        acquire_lease(tmp_path).release()
    holder = acquire_lease(tmp_path)
    disk.on(OTHER_MACHINE)
    for epochs in ([], [1], [1, 2, 3]):
        with monkeypatch.context() as patched:
            patched.setattr(leases, "_epochs", lambda folder, epochs=epochs: epochs)
            assert_refused(tmp_path)
            disk.on(THIS_MACHINE)
            holder.beat()
            disk.on(OTHER_MACHINE)
    holder.release()
    with monkeypatch.context() as patched:
        patched.setattr(leases, "_epochs", lambda folder: [])
        late = acquire_lease(tmp_path)
    assert late.held() and late.attempt == 0 and (tmp_path / ".lease" / "5").exists()


@pytest.mark.parametrize("error", [errno.EEXIST, errno.ESTALE])
def test_a_link_that_was_made_but_told_as_an_error_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    link = os.link

    def repeated(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(leases.os, "link", repeated)
        lease = acquire_lease(tmp_path)
    assert lease.held() and [path.name for path in (tmp_path / ".lease").iterdir()] == ["1"]
    assert_refused(tmp_path)


def test_on_a_disk_without_links_an_epoch_is_made_exclusively_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(leases.os, "link", refused)
    lease = acquire_lease(tmp_path)
    assert_refused(tmp_path)
    lease.release()
    assert acquire_lease(tmp_path).held()


def test_of_many_that_try_at_once_one_succeeds(tmp_path: Path) -> None:
    start, won, refused = threading.Barrier(16), [], []

    def attempt() -> None:
        lease = Lease(tmp_path, "run")
        start.wait()
        try:
            lease.acquire()
            won.append(lease)
        except LeaseHeld:
            refused.append(lease)

    threads = [threading.Thread(target=attempt) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, 15)
    assert [path.name for path in (tmp_path / ".lease").iterdir()] == ["1"]


@contextmanager
def process(directory: Path, *preparation: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that executes the lines `preparation` and then holds the lease of a directory."""
    program = "\n".join((
        "import sys; from pathlib import Path; from guidebench.harness.records import leases",
        *preparation,
        "lease = leases.Lease(Path(sys.argv[1]), 'run'); lease.acquire(); print('held', flush=True); sys.stdin.read()",
    ))  # fmt: skip
    command = [sys.executable, "-c", program, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "held\n"
        yield started
        started.kill()


def test_the_lease_of_a_process_that_was_killed_here_is_free_at_once_and_its_directory_goes_on(tmp_path: Path) -> None:
    with process(tmp_path) as holder:
        assert_refused(tmp_path, rf"pid {holder.pid}\)")
        holder.kill()
        holder.wait()
        lease = acquire_lease(tmp_path)
    assert lease.held() and lease.attempt == 0


def test_a_process_of_another_machine_keeps_its_lease_by_its_thread_and_loses_it_when_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 2.0)
    monkeypatch.setattr(leases, "LATE", 1.5)
    elsewhere = ("leases.machine = lambda: 'another'; leases.BEAT = 0.2", "leases.LATE, leases.EXPIRES = 1.5, 2.0")
    with process(tmp_path, *elsewhere) as holder:
        until = time.monotonic() + 2.6
        while time.monotonic() < until:
            assert_refused(tmp_path)
            time.sleep(0.1)
        holder.kill()
        holder.wait()
        lease = Lease(tmp_path, "run")
        lease.acquire(patience=60.0)
    assert lease.held() and lease.attempt == 2


def test_a_holder_that_is_on_time_learns_that_it_was_followed(disk: Disk, tmp_path: Path) -> None:
    for learn in (Lease.beat, Lease.fence):
        lease = acquire_lease(tmp_path / learn.__name__)
        disk.now += 1
        learn(lease)
        assert lease.held() and not lease.lost
        (tmp_path / learn.__name__ / ".lease" / "2").write_bytes(b"held{}")
        disk.now += 1
        if learn is Lease.fence:
            with pytest.raises(Fenced):
                learn(lease)
        else:
            learn(lease)
        assert lease.lost and not lease.held()
        with pytest.raises(Fenced):
            lease.fence()


def test_an_epoch_that_cannot_be_read_counts_as_held(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / ".lease" / "1").mkdir(parents=True)  # opening it fails although it exists
    assert_refused(tmp_path, r"pid unknown.*\.lease/1 cannot be read: Is a directory")
    assert leases.holder(tmp_path) is not None


def test_what_lies_in_place_of_a_lease_is_read_within_a_limit_and_told_in_one_line(disk: Disk, tmp_path: Path) -> None:
    lease = tmp_path / ".lease" / "1"
    lease.parent.mkdir()
    with lease.open("wb") as file:
        file.truncate(2**40)  # of no blocks: to read it whole would take all memory
    assert_refused(tmp_path, "/1 cannot be read: it has 1,099,511,627,776 bytes, and a lease at most 4,096")
    lease.unlink()
    os.mkfifo(lease)
    assert_refused(tmp_path, "cannot be read: it is a FIFO, a socket or a device, and no regular file")
    lease.unlink()
    lease.write_bytes(
        b"held" + json.dumps({"machine": "m", "process": "p", "host": ODD, "pid": 1, "attempt": 0}).encode()
    )
    disk._touch(lease)
    with pytest.raises(LeaseHeld) as refused:
        acquire_lease(tmp_path)
    assert str(refused.value).isprintable() and r"on a\n\x1b[31mb" in str(refused.value)


@contextmanager
def hidden(patch: pytest.MonkeyPatch, kill: type[OSError] | None = None) -> Iterator[None]:
    """Hide /proc as hidepid does; signals raise the error `kill`, or are sent if it is None."""
    read_text, send = Path.read_text, os.kill

    def refused(path: Path, *arguments: str, **settings: str) -> str:
        if str(path).startswith("/proc/"):
            raise PermissionError(13, "Permission denied")
        return read_text(path, *arguments, **settings)

    def send_signal(pid: int, number: int) -> None:
        if kill is not None:
            raise kill
        send(pid, number)

    with patch.context() as patched:
        patched.setattr(Path, "read_text", refused)
        patched.setattr(leases.os, "kill", send_signal)
        yield


@pytest.mark.parametrize("kill", [None, PermissionError])
def test_a_process_that_proc_hides_is_judged_by_its_age(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: type[OSError] | None
) -> None:
    acquire_lease(tmp_path)._epoch = 0  # so that its file is not removed
    with hidden(monkeypatch, kill):
        disk.now += 5
        assert_refused(tmp_path, "last sign of life 5 s ago; a process that sees none for 60 s may take over")
        disk.now += EXPIRES
        assert acquire_lease(tmp_path).attempt == 2


@pytest.mark.parametrize("pid", [None, 10**30])
def test_a_process_that_has_ended_is_known_also_where_proc_hides_others(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int | None
) -> None:
    if pid is None:
        with subprocess.Popen([sys.executable, "-c", ""]) as finished_process:
            pid = finished_process.pid
    (tmp_path / ".lease").mkdir()
    content = {"machine": THIS_MACHINE, "process": f"{pid} 1", "host": "here", "pid": pid, "attempt": 0}
    (tmp_path / ".lease" / "1").write_text(f"held{json.dumps(content)}")
    disk._touch(tmp_path / ".lease" / "1")
    with hidden(monkeypatch):
        assert acquire_lease(tmp_path).attempt == 0


def elsewhere(beat: float) -> tuple[str, ...]:
    """Return lines of code that make a process believe it is on another machine, where leases expire after 1.5
    seconds."""
    return "leases.machine = lambda: 'another'", f"leases.BEAT, leases.LATE, leases.EXPIRES = {beat}, 1.0, 1.5"


def test_silence_of_another_machine_is_waited_out_with_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRES", 1.5)
    notices: list[str] = []
    with process(tmp_path, *elsewhere(0.2)) as holder:
        holder.kill()
        holder.wait()
        lease = Lease(tmp_path, "study")
        lease.acquire(tell=notices.append)
    assert lease.held() and len(notices) == 1
    assert f"study {tmp_path} was last written by another process (pid {holder.pid} on " in notices[0]
    assert "last sign of life 0 s ago" in notices[0] or "last sign of life 1 s ago" in notices[0]


VAST, ODD = 10**400, "a\n\x1b[31mb"
HOSTILE = [
    b'held{"machine": "m", "process": "p", "host": "h", "pid": 1, "attempt": %d}' % VAST,
    b'held{"machine": "m", "process": "p", "host": "h", "pid": 1, "attempt": 1e999}',
    b"held" + b"[" * 4_000,
]
"""Leases that a stranger may have put into a study: numbers that make no path, and lists in lists."""


@pytest.mark.parametrize("content", [b"", b"held", b"held[1]", b'held{"machine": 3}', b"\xff\xfe", *HOSTILE])
def test_a_damaged_lease_expires_as_one_of_another_machine(disk: Disk, tmp_path: Path, content: bytes) -> None:
    acquire_lease(tmp_path).release()
    damaged = tmp_path / ".lease" / "1"
    damaged.write_bytes(content)
    disk._touch(damaged)
    assert_refused(tmp_path, "pid unknown")
    disk.now += EXPIRES
    assert acquire_lease(tmp_path).attempt == 2


def test_what_forgets_its_lease_frees_it(tmp_path: Path) -> None:
    lease = acquire_lease(tmp_path)
    del lease
    assert acquire_lease(tmp_path).held()


@pytest.mark.parametrize("offset", [-3600.0, 3600.0])
def test_a_lease_is_judged_by_what_was_seen_of_it_and_not_by_clocks_of_other_machines(
    disk: Disk, tmp_path: Path, offset: float
) -> None:
    """Clients set the mtimes, and the clock of the holder's machine is an hour behind or ahead."""
    disk.offset = offset
    holder = acquire_lease(tmp_path)

    def beat() -> None:
        disk.on(THIS_MACHINE)
        disk.offset = offset
        holder.beat()
        disk.on(OTHER_MACHINE)
        disk.offset = 0.0

    disk.meanwhile = beat
    beat()
    for _ in range(20):
        disk.now += BEAT
        beat()
        assert_refused(tmp_path)
        with pytest.raises(LeaseHeld):
            Lease(tmp_path, "run").acquire(tell=lambda text: None)
    assert holder.held() and not (tmp_path / ".lease" / "2").exists()
    disk.meanwhile = lambda: None
    died, lease = disk.now, Lease(tmp_path, "run")
    lease.acquire(tell=lambda text: None)
    assert lease.attempt == 2 and EXPIRES <= disk.now - died <= EXPIRES + 1


def test_a_holder_whose_file_is_old_is_watched_before_it_is_followed(disk: Disk, tmp_path: Path) -> None:
    acquire_lease(tmp_path)._epoch = 0
    disk.on(OTHER_MACHINE)
    disk.now += 100_000.0
    began = disk.now
    assert acquire_lease(tmp_path).attempt == 2
    assert EXPIRES <= disk.now - began <= EXPIRES + 1


def test_a_scheduler_that_says_that_a_holder_has_ended_spares_the_watching(disk: Disk, tmp_path: Path) -> None:
    acquire_lease(tmp_path)._epoch = 0
    disk.on(OTHER_MACHINE)
    with pytest.raises(LeaseHeld):
        Lease(tmp_path, "run").acquire(abandoned=True)
    disk.now += EXPIRES
    disk._patch.setattr(leases, "_last_tokens", {})  # as a new process begins
    began, lease = disk.now, Lease(tmp_path, "run")
    lease.acquire(abandoned=True)
    assert lease.attempt == 2 and disk.now == began


def test_several_leases_are_watched_at_the_same_time(disk: Disk, tmp_path: Path) -> None:
    for name in "abc":
        acquire_lease(tmp_path / name)._epoch = 0
    disk.on(OTHER_MACHINE)
    assert all(leases.holder(tmp_path / name) for name in "abc")
    disk.now += EXPIRES
    assert all(acquire_lease(tmp_path / name).attempt == 2 for name in "abc")


def test_an_epoch_that_exists_but_is_not_seen_yet_is_not_passed_over(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client has cached that a name is missing, and learns only from a refused link that it exists."""
    acquire_lease(tmp_path).release()
    second, open_file, refreshed = acquire_lease(tmp_path), leases.open_regular, []

    def unseen(path: Path, *arguments: str) -> object:
        if Path(path).name == "2" and not refreshed:
            raise FileNotFoundError(2, "No such file or directory")
        return open_file(path, *arguments)

    monkeypatch.setattr(leases, "_epochs", lambda folder: [1])
    monkeypatch.setattr(leases, "open_regular", unseen)
    monkeypatch.setattr(leases, "refresh", refreshed.append)
    disk.on(OTHER_MACHINE)
    assert_refused(tmp_path)
    assert refreshed and second.held() and not (tmp_path / ".lease" / "3").exists()


def test_a_process_whose_first_thread_has_ended_lives_on_in_its_other_threads(tmp_path: Path) -> None:
    """Its state is that of a zombie, and its other threads may still write."""
    after = "import ctypes, threading; threading.Thread(target=sys.stdin.read).start(); print('on', flush=True)"
    program = f"import sys\n{after}\nctypes.CDLL(None).pthread_exit(None)"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None and started.stdout.readline() == b"on\n"
        stat = Path(f"/proc/{started.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        assert leases._process(started.pid)
        started.kill()
        until = time.monotonic() + 20
        while leases._process(started.pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert leases._process(started.pid) == ""
