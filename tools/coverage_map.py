"""Which test executes which lines: recorded by one run of the tests, then asked for the tests that reach a line.

    python -m tools.coverage_map record      run the tests and write build/coverage-map; more words go to pytest
    python -m tools.coverage_map folders     show the branch coverage of each folder, also beside that of another map
    python -m tools.coverage_map changed     run the tests whose recorded lines have changed
    python -m tools.coverage_map quick       write tests/not_quick.txt: what `make test-quick` leaves out for its time

A test is recorded with the processes that it starts. What a fixture of several tests executes counts for each test
that uses it. Lines that are executed by importing a module count for no test; a change to them counts as one to every
line of the module.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import coverage

from tools import recorder

ROOT = Path(__file__).resolve().parents[1]
MAP = Path("build/coverage-map")
"""Path of a map relative to its checkout; git ignores it."""
FOLDER_SUMS = Path(__file__).with_name("folders.json")
"""Sums of an earlier map, for comparison: folder -> (executed statements and branches, all)."""
SELECTION = "GUIDEBENCH_SELECTION"
"""Environment variable with the folder from which `pytest_selection` reads the names of the tests to keep."""
EVERY_TEST = ("-m", "release or not release")
"""Options of pytest with which rehearsals run, too."""
NOTHING = 5
"""pytest's exit code where it runs no test, as where a change concerns rehearsals alone."""
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class Recording(NamedTuple):
    """What a test, or a fixture shared by several tests, has executed."""

    seconds: float
    """Duration of the test or fixture without the shared fixtures it uses."""
    lines: Mapping[str, int]
    """File -> integer whose bit n tells whether line n was executed; lines of functions only."""
    fixtures: tuple[str, ...] = ()
    """Shared fixtures that it uses."""
    has_failed: bool = False


class CoverageMap(NamedTuple):
    """Which lines the tests of one commit execute."""

    commit: str
    tests: Mapping[str, Recording]
    fixtures: Mapping[str, Recording]
    branches: Mapping[str, tuple[int, int]]
    """File -> (executed statements and branches, all statements and branches)."""

    def reaching(self, file: str, lines: Collection[int] | None = None) -> list[str]:
        """Return the tests that execute at least one of these lines of a file, or any line of it if `lines` is None;
        tests that failed when they were recorded are left out."""
        mask = -1 if lines is None else sum(1 << number for number in {*lines})
        fixtures = {name for name, fixture in self.fixtures.items() if fixture.lines.get(file, 0) & mask}
        return [
            name
            for name, test in self.tests.items()
            if not test.has_failed and (test.lines.get(file, 0) & mask or not fixtures.isdisjoint(test.fixtures))
        ]

    def write(self, path: Path) -> None:
        """Write the map as compressed JSON, which stores equal sets of lines once."""
        sets: dict[tuple[str, str], int] = {}

        def packed(recording: Recording) -> list[Any]:
            numbers = [sets.setdefault((file, f"{bits:x}"), len(sets)) for file, bits in recording.lines.items()]
            return [recording.seconds, numbers, [*recording.fixtures], recording.has_failed]

        document = {
            "commit": self.commit,
            "tests": {name: packed(test) for name, test in self.tests.items()},
            "fixtures": {name: packed(fixture) for name, fixture in self.fixtures.items()},
            "branches": self.branches,
            "sets": [*sets],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", compresslevel=6) as file:
            json.dump(document, file)


def read(path: Path) -> CoverageMap:
    """Read a map that `CoverageMap.write` wrote. Raise SystemExit if the file does not exist."""
    if not path.exists():
        raise SystemExit(f"{path} does not exist; `make coverage` records it, in about twice the time of `make test`")
    with gzip.open(path, "rt") as file:
        document = json.load(file)
    sets = [(file, int(bits, 16)) for file, bits in document["sets"]]

    def unpacked(recordings: Mapping[str, Any]) -> dict[str, Recording]:
        return {
            name: Recording(seconds, dict(sets[number] for number in numbers), tuple(fixtures), failed)
            for name, (seconds, numbers, fixtures, failed) in recordings.items()
        }

    branches = {file: (covered, total) for file, (covered, total) in document["branches"].items()}
    return CoverageMap(document["commit"], unpacked(document["tests"]), unpacked(document["fixtures"]), branches)


def record(tree: Path, output: Path, directory: Path, python: str, words: Sequence[str]) -> int:
    """Run the tests of a checkout with pytest options `words`, store recordings in `directory` and write the map of
    them to `output`. Return pytest's exit code. The checkout need not contain these tools."""
    starting = directory / "start"
    starting.mkdir(parents=True, exist_ok=True)
    for name in ("recorder.py", "pytest_recorder.py"):
        shutil.copy(Path(__file__).with_name(name), starting / name)
    (starting / "sitecustomize.py").write_text("import recorder\n\nrecorder.begin()\n")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(starting), os.environ.get("PYTHONPATH")])),
        recorder.DIRECTORY: str(directory),
        recorder.TREE: str(tree),
    }
    commit = current_commit(tree)
    command = [python, "-m", "pytest", "-p", "pytest_recorder", "-p", "no:cacheprovider", *EVERY_TEST, *words]
    code = subprocess.run(command, cwd=tree, env=environment).returncode
    collect(tree, directory, commit).write(output)
    return code


def current_commit(tree: Path) -> str:
    """Return the id of a commit that equals the working tree, uncommitted changes included."""
    stash = _git(tree, "stash", "create").strip()
    return stash or _git(tree, "rev-parse", "HEAD").strip()


def _git(tree: Path, *words: str) -> str:
    process = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"git {' '.join(words)}: {process.stderr.strip()}")
    return process.stdout


def collect(tree: Path, directory: Path, commit: str) -> CoverageMap:
    """Build the coverage map of a commit from the recordings that the processes of a test run wrote to `directory`."""
    lines: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    about: dict[str, dict[str, Any]] = {}
    arcs: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for path in directory.glob("*.jsonl"):
        with open(path) as file:
            for text in file:
                if not text.endswith("\n"):  # the process was killed while it wrote
                    continue
                record = json.loads(text)
                for name, bits in record["lines"].items():
                    lines[record["test"]][name] |= int(bits, 16)
                for name, new in record["arcs"].items():
                    arcs[name].update(map(tuple, new))
                if "seconds" in record and about.get(record["test"], {}).get("failed", True):
                    about[record["test"]] = record  # recorded again, a test counts as passed if it passed once
    files = {name for recorded in lines.values() for name in recorded if (tree / name).exists()}
    masks = {  # the lines of templates are executed, too
        name: _mask(function_lines((tree / name).read_text())) if name.endswith(".py") else -1 for name in files
    }
    tests, fixtures = {}, {}
    for name, values in about.items():
        reached = {file: bits & masks[file] for file, bits in lines[name].items() if bits & masks.get(file, 0)}
        used = tuple(values.get("fixtures", ()))
        recording = Recording(values["seconds"], reached, used, values.get("failed", False))
        (tests if "fixtures" in values else fixtures)[name] = recording
    with_lines = {name for name, fixture in fixtures.items() if fixture.lines or fixture.seconds >= 0.01}
    tests = {
        name: test._replace(fixtures=tuple(fixture for fixture in test.fixtures if fixture in with_lines))
        for name, test in tests.items()
    }
    fixtures = {name: fixture for name, fixture in fixtures.items() if name in with_lines}
    return CoverageMap(commit, tests, fixtures, _branches(tree, arcs))


def _mask(lines: Iterable[int]) -> int:
    return sum(1 << number for number in {*lines})


def function_lines(source: str) -> set[int]:
    """Return the line numbers within function bodies; all other lines are executed when the module is imported."""
    return {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for number in range(_first_line(node), (node.end_lineno or 0) + 1)
    }


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> int:
    return node.lineno if isinstance(node, ast.Lambda) else node.body[0].lineno


def _branches(tree: Path, arcs: Mapping[str, set[tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return file -> (executed statements and branches, all statements and branches). `arcs`: file -> executed jumps as
    pairs of line numbers."""
    with tempfile.TemporaryDirectory() as directory:
        data = coverage.CoverageData(f"{directory}/data")
        data.add_arcs(
            {str(tree.resolve() / name): file_arcs for name, file_arcs in arcs.items() if name.endswith(".py")}
        )
        data.write()
        folders = [str(tree.resolve() / folder) for folder in recorder.FOLDERS if folder != "guidebench"]
        analysis = coverage.Coverage(
            data_file=f"{directory}/data", branch=True, source=folders, omit=["*/templates/*"], config_file=False,
            messages=False,
        )  # fmt: skip
        analysis.load()
        analysis.json_report(outfile=f"{directory}/report.json", ignore_errors=True)
        report = json.loads(Path(directory, "report.json").read_text())
    counts = {}
    for path, file in report["files"].items():
        summary = file["summary"]
        covered = summary["covered_lines"] + summary["covered_branches"]
        total = summary["num_statements"] + summary["num_branches"]
        counts[os.path.relpath(Path(path).resolve(), tree.resolve())] = (covered, total)
    return counts


def folders(branches: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Sum `CoverageMap.branches` by folder (harness, harness/plan, …): folder -> (executed, all)."""
    sums: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for file, (covered, total) in branches.items():
        parts = Path(file).parts[:-1]
        for folder in {parts[0], "/".join(parts[:2]), "all"} if parts else {"all"}:
            sums[folder] = (sums[folder][0] + covered, sums[folder][1] + total)
    return dict(sorted(sums.items()))


def show_folders(sums: Mapping[str, Sequence[int]], before: Mapping[str, Sequence[int]]) -> int:
    """Print the share of executed statements and branches of each folder, from two results of `folders`, now and
    before. Return how many folders have lost more than 0.2 percentage points."""
    lost = 0
    for folder, (covered, total) in sums.items():
        if not total:
            continue
        share = 100 * covered / total
        line = f"{folder:40} {share:6.2f} % of {total:6d}"
        if folder in before:
            change = share - 100 * before[folder][0] / before[folder][1]
            fell = change < -0.2
            lost += fell
            line += f"  {change:+6.2f}{'  FELL' if fell else ''}"
        print(line)
    return lost


def changed_lines(diff: str, *, new: bool = False) -> dict[str, set[int]]:
    """Return file -> line numbers that the output of `git diff --unified=0` changes, in the old version, or in the new
    one if `new`. An inserted line counts as a change of the lines around it."""
    changes: dict[str, set[int]] = {}
    names = ["", ""]
    for line in diff.splitlines():
        if line.startswith(("--- ", "+++ ")):
            names[line.startswith("+")] = line[6:]
        elif hunk := _HUNK.match(line):
            start, count = hunk[3 if new else 1], hunk[4 if new else 2]
            first, number = int(start), int(count or 1)
            name = names[new] if names[new] != "ev/null" else names[not new]
            lines = range(first, first + number) if number else (first, first + 1)
            changes.setdefault(name, set()).update(lines)
    return changes


class Selection(NamedTuple):
    """The tests and test files that a change makes worth running."""

    tests: list[str]
    files: list[str]
    """Test files to run whole."""
    remarks: list[str]


def select(tree: Path, coverage_map: CoverageMap, base: str) -> Selection:
    """Return the tests that the changes since commit `base` may affect."""
    probe = subprocess.run(["git", "-C", str(tree), "cat-file", "-e", coverage_map.commit], capture_output=True)
    untracked = _git(tree, "ls-files", "-o", "--exclude-standard").splitlines()
    names = {*_git(tree, "diff", "--name-only", base).splitlines(), *untracked}
    lines: defaultdict[str, set[int]] = defaultdict(set)
    if probe.returncode == 0:
        options = ("diff", "--unified=0", "--no-renames", "--no-ext-diff", "--no-color")
        for part in (
            changed_lines(_git(tree, *options, base, coverage_map.commit), new=True),
            changed_lines(_git(tree, *options, coverage_map.commit)),
        ):
            for name, numbers in part.items():
                lines[name] |= numbers
    tests: set[str] = set()
    files: set[str] = set()
    remarks = []
    for name in sorted(names):
        path = Path(name)
        if path.parts[0] == "tests":
            if path.name.startswith("test_") and path.suffix == ".py":
                files |= {name} if (tree / name).exists() else set()
            else:
                remarks.append(f"{name} is shared by tests of {path.parent}; only `make test` runs all that use it")
                files |= {*_importers(tree, path)}
        elif path.parts[0] in recorder.FOLDERS and path.suffix == ".py":
            tests |= {*_reaching_tests(tree, coverage_map, name, lines.get(name))}
            files |= {*_mirrors(tree, path)}
        elif path.parts[0] in recorder.FOLDERS:
            if reaching := coverage_map.reaching(name):  # a template
                tests |= {*reaching}
                continue
            folder = f"{path.parent}/"
            reached = {file for test in coverage_map.tests.values() for file in test.lines if file.startswith(folder)}
            tests |= {test for file in reached for test in coverage_map.reaching(file)}
        elif path.suffix == ".md":
            files |= {name for name in ("tests/docs", "tests/test_readme.py") if (tree / name).exists()}
        elif path.parts[0] in ("benchmarks", "tools"):
            files |= {f"tests/{path.parts[0]}"} if (tree / "tests" / path.parts[0]).exists() else set()
        else:
            remarks.append(f"{name} is not Python: which tests read it is not recorded")
    in_files = tuple(f"{file}::" if file.endswith(".py") else f"{file}/" for file in files)
    return Selection(sorted(test for test in tests if not test.startswith(in_files)), sorted(files), remarks)


def _reaching_tests(tree: Path, coverage_map: CoverageMap, name: str, lines: set[int] | None) -> list[str]:
    """Return the tests that execute the changed `lines` of file `name` if all of these are within functions; else all
    tests that execute the file."""
    process = subprocess.run(
        ["git", "-C", str(tree), "show", f"{coverage_map.commit}:{name}"], capture_output=True, text=True
    )
    if lines and not process.returncode and lines <= function_lines(process.stdout):
        return coverage_map.reaching(name, lines)
    return coverage_map.reaching(name)


def _mirrors(tree: Path, path: Path) -> Iterator[str]:
    """Yield the test files at the mirrored place of a package file."""
    for name in (f"test_{path.stem}.py", f"test_{path.parent.name}.py" if path.stem == "__init__" else ""):
        mirror = Path("tests") / path.parent / name
        if name and (tree / mirror).exists():
            yield str(mirror)


def _importers(tree: Path, path: Path) -> Iterator[str]:
    """Yield the test files, at or below the folder of a test helper, that mention it; all of them for a conftest, none
    for the conftest of all tests."""
    if path == Path("tests/conftest.py"):
        return
    for file in (tree / path.parent).rglob("test_*.py"):
        if path.stem == "conftest" or re.search(rf"\b{re.escape(path.stem)}\b", file.read_text()):
            yield str(file.relative_to(tree))


class Outcome(NamedTuple):
    """The result of a run of chosen tests."""

    code: int | None
    """pytest's exit code, or None if it was killed because it took too long."""
    failed: list[str]
    """Failed tests and files that could not be collected, in order."""


def not_quick(coverage_map: CoverageMap, average: float = 0.2, together: float = 120.0) -> list[str]:
    """Return the test functions, FILE::NAME, that take more than `average` seconds per case, and the slowest of the
    others until the rest takes at most `together` seconds; a file of which no test remains is returned by its name."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    counted: set[str] = set()
    for name, test in coverage_map.tests.items():
        fixture_seconds = sum(coverage_map.fixtures[fixture].seconds for fixture in {*test.fixtures} - counted)
        counted |= {*test.fixtures}
        times[name.partition("[")[0]].append(test.seconds + fixture_seconds)
    sums = {name: sum(seconds) for name, seconds in times.items()}
    quick = {name for name, seconds in times.items() if sums[name] / len(seconds) <= average}
    for name in sorted(quick, key=sums.__getitem__, reverse=True):
        if sum(sums[other] for other in quick) <= together:
            break
        quick.remove(name)
    files = {name.partition("::")[0] for name in quick}
    return sorted({name if (file := name.partition("::")[0]) in files else file for name in times.keys() - quick})


def run_tests(
    tree: Path,
    tests: Sequence[str],
    files: Sequence[str],
    python: str,
    words: Sequence[str],
    limit: float | None = None,
    output: int | None = None,
) -> Outcome:
    """Run these tests of a checkout in this order, then whole files, and return how they ended. `words`: options for
    pytest; `limit`: in seconds; `output`: file descriptor for what pytest prints. Processes import the package from
    that checkout, even if it is installed elsewhere."""
    paths = dict.fromkeys([*(test.partition("::")[0] for test in tests), *files])
    present = [path for path in paths if (tree / path).exists()]
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(Path(__file__).with_name("pytest_selection.py"), directory)
        Path(directory, "selection.json").write_text(json.dumps({"tests": [*tests], "files": [*files]}))
        path = filter(None, [str(tree), directory, os.environ.get("PYTHONPATH")])
        environment = os.environ | {SELECTION: directory, "PYTHONPATH": os.pathsep.join(path)}
        process = subprocess.Popen(
            [python, "-m", "pytest", "-p", "pytest_selection", *words, *present],
            cwd=tree, env=environment, stdout=output, stderr=output, start_new_session=output is not None,
        )  # fmt: skip
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL) if output is not None else process.kill()
                process.wait()
        report = Path(directory, "failed")
        return Outcome(code, report.read_text().splitlines() if report.exists() else [])


def default_base(tree: Path) -> str:
    """Return the commit where this branch left main; on main itself, the commit before the last."""
    for name in ("origin/main", "main"):
        process = subprocess.run(["git", "-C", str(tree), "merge-base", "HEAD", name], capture_output=True, text=True)
        base = process.stdout.strip()
        if not process.returncode and (
            base != _git(tree, "rev-parse", "HEAD").strip() or _git(tree, "status", "--short")
        ):
            return base
    return "HEAD~1"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.coverage_map", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run the tests and write the map")
    recording.add_argument("--tree", type=Path, default=ROOT, help="the checkout to record")
    recording.add_argument("--data", type=Path, help="the folder of the recordings, which is kept; default: a new one")
    recording.add_argument("--python", help="the interpreter; default: that of the checkout's .venv")
    collecting = commands.add_parser("collect", help="write the map of recordings that are there")
    collecting.add_argument("--tree", type=Path, default=ROOT)
    collecting.add_argument("--data", type=Path, required=True)
    showing = commands.add_parser("folders", help="show the branch coverage of folders")
    showing.add_argument("--compare", type=Path, default=FOLDER_SUMS, metavar="FILE", help="earlier sums")
    showing.add_argument("--keep", action="store_true", help="write the sums to that file and compare nothing")
    changing = commands.add_parser("changed", help="run the tests that a change may concern")
    changing.add_argument("--base", help="a commit; default: where this branch left main")
    changing.add_argument("--list", action="store_true", help="name the tests, run none")
    listing = commands.add_parser("quick", help="write which tests take too long for `make test-quick`")
    for command in (recording, collecting, showing, changing, listing):
        command.add_argument("--map", type=Path, default=MAP, help=f"default: {MAP}")
    options, rest = parser.parse_known_args(words)
    rest = [word for word in rest if word != "--"]
    if options.command == "record":
        python = options.python or str(options.tree.resolve() / ".venv/bin/python")
        with tempfile.TemporaryDirectory() as temporary:
            return record(
                options.tree.resolve(), options.map, (options.data or Path(temporary)).resolve(), python, rest
            )
    if options.command == "collect":
        collect(options.tree.resolve(), options.data, current_commit(options.tree)).write(options.map)
        return 0
    coverage_map = read(options.map)
    if options.command == "folders":
        sums = folders(coverage_map.branches)
        before = json.loads(options.compare.read_text()) if options.compare.exists() and not options.keep else {}
        if options.keep:
            lines = ",\n".join(f" {json.dumps(folder)}: {json.dumps(counts)}" for folder, counts in sums.items())
            options.compare.write_text(f"{{\n{lines}\n}}\n")
        return min(1, show_folders(sums, before))
    if options.command == "quick":
        (ROOT / "tests/not_quick.txt").write_text("".join(f"{name}\n" for name in not_quick(coverage_map)))
        return 0
    selection = select(ROOT, coverage_map, options.base or default_base(ROOT))
    for remark in selection.remarks:
        print(f"note: {remark}")
    print(f"{len(selection.tests)} tests, and whole: {', '.join(selection.files) or 'no file'}", flush=True)
    if options.list or not (selection.tests or selection.files):
        print(*selection.tests, sep="\n")
        return 0
    code = run_tests(ROOT, selection.tests, selection.files, sys.executable, rest).code or 0
    return 0 if code == NOTHING else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
