"""Disturb studies of every family of methods, repeat their commands, and compare the results (`make chaos`).

Each round takes one family: its study was trained once undisturbed, and is now trained again by commands that faults
strike at moments drawn from a seed: kill -9, Ctrl-C and SIGTERM, SIGSTOP, tasks that hang, a full disk, a server that
is lost, silent or failing. After a fault the command is given again, in another packing, until the study has finished.
Then evaluations, policies, judgements and all other logs, the ledger, the spending and the recorded answers are
compared byte by byte (`tools/chaos/comparing.py`). Exit code 1 means that something differed, hung or was left; both
studies are kept then.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: bit-equality holds with one thread

from tools.chaos import plan
from tools.chaos.carrying_out import OutOfTime
from tools.chaos.disk import hide_mounts
from tools.chaos.families import FAMILIES, Family
from tools.chaos.processes import marked_run
from tools.chaos.rounds import Chaos, Report, Unusable

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 30.0
ENTRY = "[guidebench.suites]\nchaos_classic = tools.chaos.hanging\n"
CLOSING = 20.0
"""Seconds before the deadline that are kept for killing processes and deleting directories."""


def chosen(names: Sequence[str]) -> dict[str, Family]:
    """Return the families of these names; all families if `names` is empty. Raise SystemExit for an unknown name."""
    if unknown := [name for name in names if name not in FAMILIES]:
        raise SystemExit(f"there is no family {', '.join(unknown)}; choose of: {', '.join(FAMILIES)}")
    return {name: FAMILIES[name] for name in names or FAMILIES}


def install(directory: Path) -> None:
    """Install the entry point of the suite that can hang below `directory`, and put that and this checkout on
    PYTHONPATH, so that commands find both from any working directory."""
    info = directory / "site" / "guidebench_chaos-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guidebench-chaos\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY)
    paths = [str(info.parent), str(ROOT)]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    importlib.invalidate_caches()


def tiny_models(names: set[str], directory: Path) -> dict[str, Path]:
    """Write tiny models with random weights below `directory`; return model name -> its directory."""
    if not names:
        return {}
    from transformers.utils.logging import disable_progress_bar

    from tests.harness.models import tiny_models as making

    disable_progress_bar()
    return {name: getattr(making, name)(directory / name) for name in sorted(names)}


def table(reports: Sequence[Report], families: Mapping[str, Family], unusable: Collection[str] = ()) -> str:
    """Return a text table with a line for each family: rounds, faults, missed faults, seconds and verdict. `unusable`:
    families whose study does not even finish undisturbed."""
    lines = [f"{'family':<16} {'rounds':>6} {'faults':>6} {'missed':>6} {'seconds':>8}  found"]
    for name in families:
        family_reports = [report for report in reports if report.round.family == name]
        failed = sum(report.failed for report in family_reports)
        finding = "equal" if family_reports else "not run"
        if failed or name in unusable:
            finding = f"{failed} rounds with findings" if failed else "fails undisturbed"
        lines.append(
            f"{name:<16} {len(family_reports):>6} {sum(len(report.applied) for report in family_reports):>6} "
            f"{sum(report.missed for report in family_reports):>6} "
            f"{sum(report.seconds for report in family_reports):>8.0f}  {finding}"
        )
    kinds = Counter(text.partition(" (")[0].partition(":")[0] for report in reports for text in report.applied)
    lines.append("faults: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Run rounds until the time is up; return exit code 1 if a round has a finding, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--seed", type=int, help="what is drawn follows from it; by default a new one")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="when the program ends (default: %(default)s)")
    parser.add_argument("--families", default="", help=f"comma-separated; default: all of {', '.join(FAMILIES)}")
    parser.add_argument("--first", type=int, default=0, metavar="ROUND", help="number of the first round")
    parser.add_argument("--rounds", type=int, help="end after this many")
    parser.add_argument("--plan", action="store_true", help="print the rounds of the first turn, and run none")
    options = parser.parse_args(words)
    begin = time.monotonic()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    families = chosen([name.strip() for name in options.families.split(",") if name.strip()])

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - begin:6.1f} s] {text}", flush=True)

    repeat = f" FAMILIES='{','.join(families)}'" if options.families else ""
    print(f"seed {seed}: make chaos SEED={seed}{repeat} draws the same rounds", flush=True)
    rounds = plan.rounds(seed, families, options.first)
    if options.plan:
        for round in (next(rounds) for _ in range(options.rounds or len(families))):
            print(*round_lines(round), sep="\n")
        return 0
    mark, directory = f"chaos-{uuid.uuid4().hex}", Path(tempfile.mkdtemp(prefix="guidebench-chaos-"))
    deadline = begin + 60.0 * options.minutes - min(CLOSING, 6.0 * options.minutes)
    reports: list[Report] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left mounted or running
    hide_mounts()
    install(directory)
    os.environ["GUIDEBENCH_CACHE"] = str(directory / "cache")
    os.environ["HF_HUB_OFFLINE"] = "1"
    models = tiny_models({name for family in families.values() for name in family.models}, directory / "models")
    unusable: set[str] = set()
    with marked_run(mark, any(family.hosted for family in families.values())):
        chaos = Chaos(directory, mark, deadline, tell, models)
        try:
            while options.rounds is None or len(reports) < options.rounds:
                round = next(rounds)
                if round.family in unusable:
                    continue
                tell("\n           ".join(round_lines(round)))
                try:
                    report = chaos.run(round)
                except Unusable as reason:
                    tell(f"  FOUND {reason}")
                    unusable.add(round.family)
                    if len(unusable) == len(families):
                        break
                    continue
                reports.append(report)
                for difference in report.differences:
                    tell(f"  FOUND {difference}")
                tell(f"  {'not as it must be' if report.failed else 'equal'} after {report.seconds:.1f} s")
        except OutOfTime:
            tell("the time is up; the round that was running is left out")
        except KeyboardInterrupt:
            tell("interrupted; the round that was running is left out")
        finally:
            chaos.close()
    failed = bool(unusable) or any(report.failed for report in reports)
    print(f"\n{table(reports, families, unusable)}")
    print(f"seed {seed}, {len(reports)} rounds in {(time.monotonic() - begin) / 60:.1f} minutes", flush=True)
    if failed:
        print(f"kept: {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return int(failed)


def round_lines(round: plan.Round) -> list[str]:
    """Return the lines that describe a round: its family, and each command with its fault."""
    return [
        f"round {round.number}, {round.family}: {FAMILIES[round.family].meaning}",
        *(f"  {' '.join(command.words)}: {command.fault or 'no fault'}" for command in round.commands),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
