"""Faults that the tests must notice: named ones, and ones drawn from the text of the package.

    python -m tools.faults                       put each fault into a copy of the tree and run the tests that reach it
    python -m tools.faults --only NAME …         these only; --named and --drawn N: the named ones, N of the drawn ones
    python -m tools.faults --output FILE         keep the verdicts; in tools/verdicts.json later runs compare with them
    python -m tools.faults draw                  draw the faults anew, into tools/drawn_faults.json

Needs a map of which test reaches which line (`make coverage`). Of the tests that reach a fault's lines, those at the
same place under tests/ run first and then the others, each group with the fastest first, as many as took `--seconds`
together when they were recorded. The first failure catches the fault. A test that fails without the fault, too, catches
nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tools import coverage_map
from tools.coverage_map import EVERY_TEST, CoverageMap, function_lines, run_tests
from tools.mutations import Fault, Place, apply, draw, place

ROOT = coverage_map.ROOT
DRAWN_FILE = Path(__file__).with_name("drawn_faults.json")
OUTPUT = Path("build/faults.json")
EARLIER_VERDICTS = Path(__file__).with_name("verdicts.json")
"""Verdicts of an earlier commit. Faults that were caught then must still be caught."""
FOLDERS = ("harness", "suites", "baselines", "methods", "results", "reports")
SECONDS = 40.0
"""Budget of recorded test seconds for one fault."""
FILE_COST = 0.2
"""Seconds to import a test file, counted for the first test of it."""
PATIENCE = 120.0
"""Seconds beyond ten times the recorded ones after which a run counts as endless."""

NAMED = (
    Fault(
        "seeds_share_a_generator",
        "baselines/prioritised.py",
        "rng.random(out=uniform[row])",
        "moment.rngs[0].random(out=uniform[row])",
        "Every seed's draws come from the generator of the first seed, so they depend on packing.",
    ),
    Fault(
        "weights_over_seeds",
        "baselines/prioritised.py",
        "priority.min(axis=1, keepdims=True)",
        "priority.min(axis=0, keepdims=True)",
        "Importance weights are divided by the maximum over seeds instead of that over the batch.",
    ),
    Fault(
        "checkpoint_without_fence",
        "harness/loop/checkpoints.py",
        "    fence()\n    if final.exists():",
        "    if final.exists():",
        "A worker that has lost its lease still writes a checkpoint.",
    ),
    Fault(
        "file_without_fence",
        "harness/records/files.py",
        "    fence()\n    try:\n        os.replace",
        "    try:\n        os.replace",
        "A file is renamed into place without asking whether the lease is still held.",
    ),
    Fault(
        "bound_not_checked",
        "results/limits.py",
        "if total > most:",
        "if False:",
        "A stranger's files may be of any size.",
    ),
    Fault(
        "n_step_one_too_many",
        "baselines/n_step.py",
        "(step < length)",
        "(step <= length)",
        "The n-step return counts one transition more than belong to its stretch.",
    ),
    Fault(
        "bootstrap_not_raised",
        "baselines/learners/q_learning/learner.py",
        "discount ** batch.steps[rows]",
        "discount + 0 * batch.steps[rows]",
        "The value after n steps counts γ instead of γⁿ.",
    ),
    Fault(
        "holm_not_monotonic",
        "harness/statistics/comparison.py",
        "np.maximum.accumulate(p_values[order] * divisors)",
        "p_values[order] * divisors",
        "Holm's correction leaves out the largest so far, so a larger p value may be adjusted to a smaller one.",
    ),
    Fault(
        "digest_not_compared",
        "harness/loop/checkpoints.py",
        "if _digest(path / name) != digests[name]:",
        "if name not in digests:",
        "A damaged checkpoint is read.",
    ),
    Fault(
        "stream_not_kept",
        "harness/streams.py",
        "bit_generator.state for purpose in PURPOSES}",
        'bit_generator.state for purpose in PURPOSES if purpose != "sample"}',
        "A checkpoint lacks the generator that draws batches.",
    ),
    Fault(
        "evaluation_layouts_repeat",
        "harness/streams.py",
        'key = (PURPOSES.index("evaluation"), step, episode)',
        'key = (PURPOSES.index("evaluation"), episode)',
        "Every evaluation of a run plays the same layouts.",
    ),
    Fault(
        "answer_a_step_early",
        "harness/models/questions.py",
        "return ticket.step + (self._delay or 0)",
        "return ticket.step + max(0, (self._delay or 0) - 1)",
        "An answer counts one step before its delay is over.",
    ),
    Fault(
        "scope_not_in_key",
        "harness/models/calls/base.py",
        "[ticket.run, ticket.role, ticket.scope, ticket.ordinal]",
        "[ticket.run, ticket.role, ticket.ordinal]",
        "A sampled call of an evaluation has the key of one of training, so its recorded answer is reused.",
    ),
    Fault(
        "nothing_reserved",
        "harness/models/budget.py",
        "reserved[self._me] = plus(reserved.get(self._me, dict.fromkeys(UNITS, 0)), call_amounts)",
        "pass",
        "A call reserves nothing of the budget, so calls at the same time may exceed it.",
    ),
    Fault(
        "share_rounded_down",
        "methods/vlm_rb/sampler.py",
        "int(base_share) + extra if",
        "int(base_share) if",
        "The fraction of λB is never drawn, so fewer transitions than λ are drawn by priority.",
    ),
    Fault(
        "truncation_terminates",
        "baselines/storage.py",
        'columns["terminated"][row][slot] = transition.terminated[row]',
        'columns["terminated"][row][slot] = ended[row]',
        "A truncated episode counts as terminated, so targets do not bootstrap from its last observation.",
    ),
    Fault(
        "reward_not_relabelled",
        "baselines/guides/preference/guide.py",
        "for row in np.flatnonzero(chosen).tolist():\n                store.write(REWARD, row, slots, reward[row])",
        "pass",
        "Stored transitions keep the reward of an earlier session.",
    ),
    Fault(
        "rows_not_truncated",
        "harness/run/journal.py",
        'f"{name}.jsonl", int(offset.get(name, 0))',
        'f"{name}.jsonl", None',
        "A resumed run keeps the rows that were written after its checkpoint.",
    ),
    Fault(
        "html_not_escaped",
        "reports/rendering/page.py",
        "autoescape=True",
        "autoescape=False",
        "Text from a study's files goes into a page as HTML.",
    ),
    Fault(
        "task_clock_restarts",
        "suites/minigrid_doorkey/task.py",
        '"step": env.step_count,',
        '"step": 0,',
        "A restored task begins its episode's clock anew.",
    ),
)


class Verdict(NamedTuple):
    """Whether the tests caught a fault, and which one did."""

    fault: Fault
    status: str
    """"caught", "survived", or "absent" if this version of the file lacks the fault's text."""
    test: str = ""
    """The first test that failed, or a description of how the run ended."""
    count: int = 0
    """Number of tests chosen for the fault."""
    seconds: float = 0.0


def drawn_faults() -> list[Fault]:
    """Return the faults that were drawn and stored in drawn_faults.json, in the order of the file."""
    return [Fault(**fault) for fault in json.loads(DRAWN_FILE.read_text())] if DRAWN_FILE.exists() else []


def sources(tree: Path) -> dict[str, str]:
    """Return file -> text of each module of the package, except the templates from which `bench new` writes files."""
    paths = sorted(path for folder in FOLDERS for path in (tree / folder).rglob("*.py"))
    names = {path: path.relative_to(tree).as_posix() for path in paths}
    return {name: path.read_text() for path, name in names.items() if "/templates/" not in name}


def reached_by(coverage_map: CoverageMap, file: str, source: str, lines: Place) -> list[str]:
    """Return the tests that execute the statements on these lines of a file; for statements that run at import, the
    tests that execute any line of the file."""
    statements = statement_lines(source, lines)
    within = statements & function_lines(source)
    return coverage_map.reaching(file, within or None)


def statement_lines(source: str, lines: Place) -> set[int]:
    """Return all line numbers of the statements that overlap `lines`, since a statement of several lines is recorded by
    some of them. A compound statement counts up to the line above its body."""
    numbers: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            if node.lineno <= lines.last and lines.first <= last:
                numbers |= {*range(node.lineno, last + 1)}
    return numbers


def chosen(coverage_map: CoverageMap, tests: Iterable[str], file: str, seconds: float) -> list[str]:
    """Return the tests to run for a fault in `file`, in order: those at the mirrored place first, then the fastest,
    until their recorded times sum to `seconds`; tests of one file stay together."""
    mirrors = (f"tests/{file.removesuffix('.py').removesuffix('/__init__')}", f"tests/{Path(file).parent}/test_")

    def key(test: str) -> tuple[bool, bool, float, str]:
        path = test.partition("::")[0]
        near = path == f"{mirrors[1]}{Path(file).stem}.py" or path.startswith(f"{mirrors[0]}/")
        return not near, not path.startswith(mirrors[1]), cost(test), test

    def cost(test: str) -> float:
        recording = coverage_map.tests[test]
        return recording.seconds + sum(
            coverage_map.fixtures[name].seconds for name in recording.fixtures if name not in fixtures
        )

    fixtures: set[str] = set()
    files: dict[str, list[str]] = {}
    budget = seconds
    for test in sorted(tests, key=key):
        path = test.partition("::")[0]
        budget -= cost(test) + FILE_COST * (path not in files)
        if budget < 0 and files:
            break
        fixtures.update(coverage_map.tests[test].fixtures)
        files.setdefault(path, []).append(test)
    return [test for group in files.values() for test in group]


class Copy:
    """A copy of the working tree in which one file at a time is changed."""

    def __init__(self, tree: Path, directory: Path) -> None:
        command = ["git", "-C", str(tree), "ls-files", "-coz", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (tree / name).is_symlink() or (tree / name).exists():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, directory / name, follow_symlinks=False)
        self.directory = directory
        self._writes = 0

    def compile(self, python: str) -> None:
        """Compile the package to bytecode once."""
        command = [python, "-m", "compileall", "-q", "guidebench", *FOLDERS]
        subprocess.run(command, cwd=self.directory, stdout=subprocess.DEVNULL)

    def write(self, file: str, text: str) -> None:
        """Write a file with a modification time of its own, since bytecode is matched by whole seconds and size."""
        self._writes += 1
        path = self.directory / file
        path.write_text(text)
        os.utime(path, (time.time() + 10 * self._writes,) * 2)


def judge(copy: Copy, fault: Fault, coverage_map: CoverageMap, python: str, seconds: float, but: set[str]) -> Verdict:
    """Run the tests that reach a fault, except those in `but`, until one fails; return the verdict."""
    source = (copy.directory / fault.file).read_text() if (copy.directory / fault.file).exists() else ""
    try:
        changed = apply(source, fault)
    except LookupError:
        return Verdict(fault, "absent")
    reached = reached_by(coverage_map, fault.file, source, place(source, fault))
    tests = chosen(coverage_map, (test for test in reached if test not in but), fault.file, seconds)
    if not tests:
        return Verdict(fault, "survived", "no test reaches it")
    began = time.monotonic()
    copy.write(fault.file, changed)
    try:
        words = ["-x", "-q", "-p", "no:cacheprovider", *EVERY_TEST]
        limit = PATIENCE + 10 * seconds
        outcome = run_tests(copy.directory, tests, (), python, words, limit, subprocess.DEVNULL)
    finally:
        copy.write(fault.file, source)
    took = time.monotonic() - began
    if outcome.failed:
        return Verdict(fault, "caught", outcome.failed[0], len(tests), took)
    if outcome.code == 0:
        return Verdict(fault, "survived", "", len(tests), took)
    how = "the tests did not end" if outcome.code is None else f"pytest ended with code {outcome.code}"
    return Verdict(fault, "caught", how, len(tests), took)


def judge_all(
    tree: Path, faults: Sequence[Fault], coverage_map: CoverageMap, python: str, seconds: float, jobs: int
) -> list[Verdict]:
    """Judge each fault, in `jobs` copies of the tree at a time, and report progress. If the catching test also fails
    without the fault, the fault is judged again without that test."""
    with tempfile.TemporaryDirectory(prefix="faults-") as directory:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(jobs):
            copy = Copy(tree, Path(directory, str(number)))
            copy.compile(python)
            copies.put(copy)
        verdicts: dict[str, Verdict] = {}
        unreliable: set[str] = set()

        def judge_one(fault: Fault) -> None:
            copy = copies.get()
            try:
                verdict = judge(copy, fault, coverage_map, python, seconds, unreliable)
            finally:
                copies.put(copy)
            verdicts[fault.name] = verdict
            caught_by = f" {verdict.test}" if verdict.test else ""
            print(
                f"[{len(verdicts)}/{len(faults)}] {fault.name}: {verdict.status}{caught_by} "
                f"({verdict.count} tests, {verdict.seconds:.0f} s)", flush=True,
            )  # fmt: skip

        unjudged = [*faults]
        while unjudged:
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(judge_one, unjudged))
            catching = {verdicts[fault.name].test for fault in unjudged if verdicts[fault.name].status == "caught"}
            tests = sorted(test for test in catching if test in coverage_map.tests)
            if not tests:
                break
            copy = copies.get()
            outcome = run_tests(
                copy.directory,
                tests,
                (),
                python,
                ["-q", "-p", "no:cacheprovider", *EVERY_TEST],
                None,
                subprocess.DEVNULL,
            )
            copies.put(copy)
            wrong = {*outcome.failed} & {*tests}
            unreliable |= wrong
            unjudged = [fault for fault in unjudged if verdicts[fault.name].test in wrong]
            for fault in unjudged:
                print(f"{verdicts.pop(fault.name).test} fails without a fault, too")
        return [verdicts[fault.name] for fault in faults]


def table(verdicts: Iterable[Verdict]) -> str:
    """Return a text table with a line for each verdict, and the counts of each status."""
    lines = [
        f"{verdict.status:9} {verdict.fault.name:32} {verdict.fault.file:52} {verdict.test}" for verdict in verdicts
    ]
    counts = Counter(verdict.status for verdict in verdicts)
    return "\n".join([*lines, ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))])


def lost(verdicts: Iterable[Verdict], before: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Return the verdicts on faults that an earlier run caught and this one did not. `before`: its records, of
    verdicts.json."""
    caught = {verdict_record["name"] for verdict_record in before if verdict_record["status"] == "caught"}
    return [verdict for verdict in verdicts if verdict.fault.name in caught and verdict.status == "survived"]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", nargs="?", choices=("run", "draw", "list"), default="run")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout; default: this one")
    parser.add_argument("--python", help="the interpreter; default: that of the checkout's .venv")
    parser.add_argument("--map", type=Path, default=coverage_map.MAP, help="which test reaches which line")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults")
    parser.add_argument("--named", action="store_true", help="the named faults")
    parser.add_argument("--drawn", type=int, metavar="N", help="the first N of the drawn faults")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for each fault; default: {SECONDS:g}")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"default: {OUTPUT}")
    parser.add_argument("--compare", type=Path, default=EARLIER_VERDICTS, metavar="FILE", help="earlier verdicts")
    options = parser.parse_args(words)
    tree = options.tree.resolve()
    if options.command == "draw":
        return _draw(tree, coverage_map.read(options.map))
    faults = [*NAMED, *drawn_faults()]
    if options.only:
        if unknown := {*options.only} - {fault.name for fault in faults}:
            parser.error(f"unknown faults: {', '.join(sorted(unknown))}; `list` shows all")
        faults = [fault for fault in faults if fault.name in options.only]
    elif options.named or options.drawn is not None:
        faults = [*(NAMED if options.named else ()), *drawn_faults()[: options.drawn or 0]]
    if options.command == "list":
        print(*(f"{fault.name:32} {fault.file}: {fault.meaning}" for fault in faults), sep="\n")
        return 0
    python = options.python or str(tree / ".venv/bin/python")
    verdicts = judge_all(tree, faults, coverage_map.read(options.map), python, options.seconds, options.jobs)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"name": verdict.fault.name, "status": verdict.status, "test": verdict.test, "tests": verdict.count})
        for verdict in verdicts
    )
    options.output.write_text("[\n {}\n]\n".format(",\n ".join(lines)))
    print(table(verdicts))
    named = {fault.name for fault in NAMED}
    failures = [verdict for verdict in verdicts if verdict.fault.name in named and verdict.status != "caught"]
    if options.compare.exists():
        failures = [*dict.fromkeys([*failures, *lost(verdicts, json.loads(options.compare.read_text()))])]
    for verdict in failures:
        print(f"must be caught: {verdict.fault.name} ({verdict.fault.meaning})")
    return min(1, len(failures))


def _draw(tree: Path, recorded: CoverageMap) -> int:
    faults = draw(sources(tree), lambda *place_arguments: bool(reached_by(recorded, *place_arguments)))
    DRAWN_FILE.write_text(f"{json.dumps([fault._asdict() for fault in faults], indent=1, ensure_ascii=False)}\n")
    print(f"{DRAWN_FILE}: {len(faults)} faults")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
