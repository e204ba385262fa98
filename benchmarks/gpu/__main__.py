"""Measure all that a single GPU allows within a limit of time, most valuable first, and train with what is left.

    python -m benchmarks.gpu --minutes 9                    all steps, into build/gpu
    python -m benchmarks.gpu --minutes 9 --output DIR       a second call goes on: failed steps, then the training
    python -m benchmarks.gpu --device cpu --minutes 2       a rehearsal: small sizes, whose figures say nothing
    python -m benchmarks.gpu --needs                        packages that it needs beside torch
    python -m benchmarks.gpu --pack FOLDER                  packs downloaded wheels of these into FOLDER.tar.xz

Each step is a process with a limit of its own, so one that hangs, crashes or lacks a package costs only its share and
is noted with its error. DIR/gpu.json and the table DIR/gpu.md are replaced as figures come: what was measured is kept
whenever this command is killed. The training (DoorKey 8x8, five seeds) lies in DIR/study and is packed as
DIR/doorkey.tar.xz.00, 01, …, of at most 15 MB each; where DIR has these but no study, a call unpacks them and goes on.
docs/performance.md describes the steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu import figures, packing
from benchmarks.gpu.figures import Result
from benchmarks.gpu.steps import EXIT_UNAVAILABLE, LEAST, MARGIN, MOST_MARGIN, NAMES, STEPS, limit, missing, step
from guidebench.harness.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "results" / "measured"
PATIENCE = 4.0
"""Seconds between asking a step's processes to end and ending them."""
ENDED = "the command ended while it ran"
"""Reason of a step that runs; it is read only if nothing replaces it."""
TAIL = 2_000
"""Characters of a failed step's error that are kept."""


class Ended(Exception):
    """This command was asked to end."""


def run(name: str, asked: argparse.Namespace, seconds: float, told: Callable[[Result], None]) -> Result:
    """Carry out a step within `seconds`; `told` is called with what it has measured so far."""
    if lacking := missing(name):
        return Result("skipped", f"it needs {', '.join(lacking)}, not installed here", limit=seconds)
    deadline = time.monotonic() + seconds - min(MOST_MARGIN, MARGIN * seconds)
    where = ["--device", asked.device, "--output", str(asked.output), "--study", str(asked.study)]
    return carry_out(
        lambda into: ["-m", "benchmarks.gpu.child", name, "--deadline", str(deadline), "--into", str(into), *where],
        seconds, told,
    )  # fmt: skip


def carry_out(
    arguments: Callable[[Path], Sequence[str]], seconds: float, told: Callable[[Result], None] = lambda result: None
) -> Result:
    """Run Python with the arguments that write rows into a file, and return the result; after `seconds`, end it and all
    processes that it has started."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="guidebench-gpu-", ignore_cleanup_errors=True) as own:
        into, log = Path(own) / "told.json", Path(own) / "log"
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": path, "TMPDIR": own, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        with open(log, "wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-P", *arguments(into)], cwd=ROOT, env=environment, stdin=subprocess.PIPE,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            cut = _follow(child, begun + seconds, lambda: told(_result(into, begun, seconds)))
        finally:
            _end(child)
        found = _result(into, begun, seconds)
        error = log.read_text(errors="replace").strip()[-TAIL:]
    if cut:
        ending = error.splitlines()[-1] if error else "it had said nothing"
        return replace(found, state="cut off", reason=f"its {seconds:.0f} s were over; last: {ending}")
    if child.returncode == EXIT_UNAVAILABLE:
        return replace(found, state="skipped")
    if child.returncode:
        return replace(found, state="failed", reason=error or f"it ended with exit code {child.returncode}")
    if not found.rows:
        return replace(found, state="failed", reason="it measured nothing")
    return replace(found, state="done")


def _follow(child: subprocess.Popen[bytes], until: float, look: Callable[[], None]) -> bool:
    """Wait until the step has ended, or until `until`; return whether it has not."""
    while child.poll() is None:
        if time.monotonic() > until:
            return True
        look()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.5)
    return False


def _end(child: subprocess.Popen[bytes]) -> None:
    """End all processes of a step that are still there."""
    assert child.stdin is not None
    for number, seconds in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
        until = time.monotonic() + seconds
        while _alive(child.pid) and time.monotonic() < until:
            time.sleep(0.05)
    child.stdin.close()


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _result(into: Path, begun: float, seconds: float) -> Result:
    """Return what a step has written so far."""
    taken = time.monotonic() - begun
    if not into.exists():
        return Result("running", seconds=taken, limit=seconds)
    told = json.loads(into.read_text())
    rows = figures.rows_of(told.pop("rows"))
    return Result("running", rows=rows, seconds=taken, limit=seconds, **told)


def with_earlier_rows(found: Result, before: Result) -> Result:
    """Return a step's result; if it has measured nothing, with the figures of an earlier call."""
    if found.rows or not before.rows:
        return found
    reason = f"{found.reason}; these figures are of an earlier call"
    return replace(found, reason=reason, rows=before.rows, measured_on=before.measured_on, packages=before.packages)


def to_do(results: Mapping[str, Result], chosen: Sequence[str], again: bool) -> list[str]:
    """Return the chosen steps that have not succeeded, or all with `again`. The training goes on until it is over."""
    return [name for name in chosen if again or results[name].state != "done" or name == "doorkey"]


@contextlib.contextmanager
def ending_by_signals() -> Iterator[None]:
    """Raise Ended at SIGTERM, so that a step's processes end with this one."""

    def end(number: int, frame: Any) -> None:
        raise Ended(f"ended by signal {number}")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def measure(asked: argparse.Namespace) -> dict[str, Result]:
    """Carry out all steps that are to do, and return the results of all."""
    begun, file = time.monotonic(), asked.output / "gpu.json"
    earlier = figures.read(file, asked.device)
    results = {name: earlier.get(name, Result(reason="nobody has begun it")) for name in NAMES}
    command = {"minutes": asked.minutes, "device": asked.device, "rehearsal": asked.device == "cpu"}
    waiting = to_do(results, asked.only or NAMES, asked.again)
    print(
        f"{len(waiting)} of {len(NAMES)} steps within {asked.minutes:g} min on {asked.device}, into {file}", flush=True
    )

    def keep(name: str, result: Result) -> None:
        on = dict(result.measured_on)
        if on and asked.commit:
            on |= {"commit": asked.commit}
        if result.state != "running" or (result.rows and result.rows != results[name].rows):
            reason = ENDED if result.state == "running" else result.reason
            results[name] = replace(result, measured_on=on, reason=reason)
            figures.write(file, command, results)

    figures.write(file, command, results)
    while waiting:
        name, left = waiting[0], 60 * asked.minutes - (time.monotonic() - begun)
        seconds = limit(name, waiting, left)
        if seconds < LEAST:
            for other in waiting:
                if results[other].state != "done":
                    results[other] = replace(results[other], state="waiting", reason="no time was left")
            figures.write(file, command, results)
            print(f"no time is left for {', '.join(waiting)}", flush=True)
            break
        print(f"{name}: {step(name).words} (at most {seconds:.0f} s)", flush=True)
        before = results[name]
        results[name] = replace(before, state="running", reason=ENDED, limit=seconds)
        figures.write(file, command, results)
        found = with_earlier_rows(run(name, asked, seconds, lambda result, name=name: keep(name, result)), before)  # type: ignore[misc]
        keep(name, found)
        for row in found.rows:
            print(f"  {figures.line(row)}", flush=True)
        why = f": {found.reason.splitlines()[-1]}" if found.reason else ""
        print(f"  {found.state} after {found.seconds:.0f} s{why}", flush=True)
        waiting.pop(0)
    return results


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="steps:\n" + "\n".join(f"  {step.name:15}{step.words}" for step in STEPS),
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=9, help="limit of time of all (default %(default)s)")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu for a rehearsal (default %(default)s)"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "gpu", help="default build/gpu")
    parser.add_argument("--study", type=Path, help="directory of the training (default: study in --output)")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="STEP", help="only these steps")
    parser.add_argument("--again", action="store_true", help="also repeat the steps that succeeded")
    parser.add_argument("--commit", default="", help="commit to note, where this is no checkout")
    parser.add_argument("--needs", action="store_true", help="print the packages to bring beside torch, and end")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write a folder's wheels to FOLDER.tar.xz, and end")
    asked = parser.parse_args()
    if not 0.05 <= asked.minutes <= 24 * 60:
        parser.error(f"--minutes {asked.minutes:g}: give between 0.05 and 1440 minutes")
    asked.output = asked.output.absolute()
    asked.study = (asked.study or asked.output / "study").absolute()
    if asked.only:
        asked.only = [name for name in NAMES if name in asked.only]
    return asked


def pack(folder: Path) -> int:
    """Pack the wheels in a folder, and tell whether their archive fits with the repository."""
    found = packing.pack(folder)
    size = found.archive.stat().st_size
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True)
    tracked = [ROOT / name for name in listed.stdout.split("\0") if name]
    rest, measured = (
        sum(path.lstat().st_size for path in tracked if path.exists() and path.is_relative_to(MEASURED) == within)
        for within in (False, True)
    )
    sizes = f"{found.archive} {size / 2**20:.1f} MiB, repository {rest / 2**20:.1f} MiB"
    print(f"{sizes}, {MEASURED.relative_to(ROOT)} {measured / 2**20:.1f} MiB, which no step reads")
    over = size + rest + measured - packing.MOST
    if over > 0:
        print(f"all of it is {over / 2**20:.1f} MiB more than {packing.MOST // 2**20} MiB; leave {MEASURED.name} out")
    if found.missing:
        print(f"without a wheel, so that steps that need them are skipped: {', '.join(found.missing)}")
    return 0 if size + rest <= packing.MOST else 1


def main() -> int:
    asked = parsed()
    if asked.needs:
        print(packing.PACKAGES.read_text(), end="")
        return 0
    try:
        if asked.pack:
            return pack(asked.pack)
        with ending_by_signals():
            results = measure(asked)
    except UserError as error:
        print(f"python -m benchmarks.gpu: {error}", file=sys.stderr)
        return 2
    except (Ended, KeyboardInterrupt) as ended:
        print(f"{ended or 'interrupted'}; what was measured is in {asked.output / 'gpu.json'}", file=sys.stderr)
        return 130
    print(f"\n{(asked.output / 'gpu.md').read_text()}\nwritten to {asked.output / 'gpu.json'} and gpu.md")
    return 1 if any(results[name].state in ("failed", "cut off") for name in asked.only or NAMES) else 0


if __name__ == "__main__":
    sys.exit(main())
