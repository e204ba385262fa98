"""Whatever happens to a function in a process of its own, its caller gets an answer or a refusal and can continue."""

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from guidebench.harness import reader_process
from guidebench.harness.errors import MissingCall, UserError
from guidebench.harness.reader_process import Caller
from tests.refusals import check_refused


@pytest.fixture(scope="module")
def call() -> Iterator[Caller]:
    with Caller(memory=2**29) as caller:
        yield caller


def double(number: int) -> int:
    return 2 * number


def remarked() -> int:
    warnings.warn("half of it is missing", stacklevel=1)
    return os.getpid()


def crash() -> None:
    ctypes.string_at(0)


def aborted() -> None:
    os.abort()


def hang() -> None:
    time.sleep(60)


def hoard() -> None:
    blocks = []
    for _ in range(10_000):
        blocks.append(b"x" * 2**24)
        time.sleep(0.001)


def fail(error: BaseException) -> None:
    raise error


def recurse() -> None:
    recurse()


def test_answers_and_warnings_come_back(call: Caller) -> None:
    assert call("doubling", 60.0, double, 21) == 42
    with pytest.warns(UserWarning, match="half of it is missing"):
        assert call("remarking", 60.0, remarked) != os.getpid()


def test_a_relative_path_means_the_same_there(call: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert call("looking", 60.0, Path("x").absolute) == tmp_path / name / "x"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UserError("x.parquet has no rows"), r"^x\.parquet has no rows$"),
        (MissingCall("it was never recorded"), "^it was never recorded$"),
        (KeyError("step"), r"^reading x fails \(KeyError: 'step'\)$"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), r"^reading x fails \(UnicodeDecodeError: "),
        (ValueError("\x1b[2J"), r"^reading x fails \(ValueError: \?\[2J\)$"),
        (MemoryError(), "^reading x takes too much memory$"),
        (SystemExit(3), "^reading x made its process end with exit code 3$"),
        (KeyboardInterrupt(), "^reading x made its process end with exit code -2$"),
    ],
)
def test_whatever_is_raised_is_told_as_an_error_of_the_user(call: Caller, error: BaseException, words: str) -> None:
    check_refused(words, call, "reading x", 60.0, fail, error)


def test_a_value_nested_too_deep_to_be_sent_is_an_error_and_the_next_call_is_answered(call: Caller) -> None:
    check_refused("^reading x fails: its values are nested too deep$", call, "reading x", 60.0, len, nest(100_000))
    assert call("doubling", 60.0, double, 2) == 4


def nest(levels: int) -> list[object]:
    inside: list[object] = []
    for _ in range(levels):
        inside = [inside]
    return inside


def test_an_answer_is_as_deep_as_json_may_be_and_a_deeper_one_an_error(call: Caller) -> None:
    answer = call("nesting", 60.0, nest, 990)
    for _ in range(990):
        (answer,) = answer  # type: ignore[assignment]
    assert answer == []
    check_refused(r"^nesting fails: its values are nested too deep$", call, "nesting", 60.0, nest, 100_000)
    assert call("doubling", 60.0, double, 2) == 4


def test_a_full_disk_is_told_as_it_is(call: Caller) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        call("unpacking", 60.0, fail, OSError(errno.ENOSPC, "No space left on device", "x"))
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == "x"


@pytest.mark.parametrize(("function", "signal"), [(crash, 11), (aborted, 6)])
def test_a_crash_of_a_library_is_an_error_and_the_next_call_is_answered(call: Caller, function, signal: int) -> None:
    check_refused(f"^reading x made its process end with exit code -{signal}$", call, "reading x", 60.0, function)
    assert call("doubling", 60.0, double, 2) == 4


def test_time_and_memory_are_bounded_and_the_next_call_is_answered(call: Caller) -> None:
    started = time.monotonic()
    check_refused(r"^reading x takes longer than 0\.2 s$", call, "reading x", 0.2, hang)
    check_refused(r"^reading x takes more than 512 MiB of memory$", call, "reading x", 60.0, hoard)
    check_refused(r"^reading x fails \(RecursionError: ", call, "reading x", 60.0, recurse)
    assert call("doubling", 60.0, double, 2) == 4 and time.monotonic() - started < 50


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def stop_halfway() -> bytes:
    """Stop this process while it sends an answer that is larger than the connection's buffer."""
    pid = os.getpid()
    subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -STOP {pid}"])
    return b"x" * 2**28


@pytest.mark.parametrize("function", [stop, stop_halfway])
def test_a_stopped_process_does_not_outlast_its_time(call: Caller, function: Callable[[], object]) -> None:
    started = time.monotonic()
    with suppress(UserError):  # on a fast machine the answer may have come before
        call("reading x", 1.0, function)
    assert time.monotonic() - started < 30
    assert call("doubling", 60.0, double, 2) == 4


def test_a_request_that_nobody_takes_does_not_outlast_its_time(call: Caller) -> None:
    call("doubling", 60.0, double, 2)
    os.kill(call.pid, signal.SIGSTOP)
    check_refused(r"^reading x takes longer than 1 s$", call, "reading x", 1.0, len, b"x" * 2**24)
    assert call("doubling", 60.0, double, 2) == 4


def bear(file: Path) -> None:
    file.write_text(str(subprocess.Popen(["sleep", "60"]).pid))
    hang()


def test_what_the_process_has_started_ends_with_it(call: Caller, tmp_path: Path) -> None:
    check_refused("takes longer", call, "reading x", 3.0, bear, tmp_path / "pid")
    child = (tmp_path / "pid").read_text()
    until = time.monotonic() + 20
    while (stat := _stat(child)) not in ("", "Z") and time.monotonic() < until:
        time.sleep(0.05)
    assert stat in ("", "Z")


def _stat(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def test_limits_grow_with_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights"
    with file.open("wb") as stream:
        stream.truncate(10 * 10**9)  # sparse: uses no disk space
    limits: list[tuple[float, int]] = []
    caller = Caller()
    monkeypatch.setattr(
        caller, "_exchange", lambda label, seconds, memory, *arguments: limits.append((seconds, memory)) or (None, [])
    )
    for files in (tmp_path / "missing", file, [file, file]):
        caller.read_files("reading", files, double, 2)
    assert limits == [(60.0, 3 * 2**30), (160.0, 4 * 10**10), (260.0, 8 * 10**10)]


def crash_if_called_before(flag: str) -> str:
    """Crash if an earlier call has left a trace."""
    if flag in os.environ:
        os.abort()
    os.environ[flag] = "1"
    return "read"


def test_what_earlier_calls_left_behind_is_not_held_against_the_next(call: Caller) -> None:
    assert call("reading x", 60.0, crash_if_called_before, "GUIDEBENCH_TEST_LEFT") == "read"
    assert call("reading y", 60.0, crash_if_called_before, "GUIDEBENCH_TEST_LEFT") == "read"


def nested() -> int:
    return reader_process.call("looking", 60.0, os.getpid)


def test_a_call_within_a_call_needs_no_further_process(call: Caller) -> None:
    assert call("calling", 60.0, nested) == call.pid


SCRIPT = """
import math
from guidebench.harness import reader_process
print(reader_process.call("taking a root", 60.0, math.sqrt, 4.0))
"""


def test_neither_the_working_directory_nor_the_calling_script_is_imported(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    for module in ("multiprocessing", "pickle", "random", "resource", "sitecustomize", "guidebench"):
        (study / f"{module}.py").write_text("open('imported', 'w').close()")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], cwd=study, capture_output=True, text=True, timeout=60)
    assert done.stdout == "2.0\n", done.stderr
    assert not (study / "imported").exists()


def test_the_process_ends_with_the_one_that_began_it(tmp_path: Path) -> None:
    code = (
        "import math; from guidebench.harness import reader_process; reader_process.call('x', 9.0, math.sqrt, 4.0);"
        "print(reader_process._SHARED.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not Path(f"/proc/{int(done.stdout)}").exists() and not done.stderr


def test_time_in_which_the_process_waits_for_a_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock itself stands in for the system's account: all time is then waiting, of which a tenth counts."""
    with Caller(memory=2**29) as caller:
        check_refused(r"sleeping takes longer than 0\.4 s", caller, "sleeping", 0.4, time.sleep, 1.5)
        monkeypatch.setattr(reader_process, "_waiting_seconds", lambda pid: time.monotonic())
        assert caller("sleeping", 0.4, time.sleep, 1.5) is None
        check_refused(r"sleeping takes longer than 0\.1 s", caller, "sleeping", 0.1, time.sleep, 10)
    monkeypatch.undo()
    assert 0 <= reader_process._waiting_seconds(os.getpid()) < time.monotonic()
    assert reader_process._waiting_seconds(2**30) == 0
