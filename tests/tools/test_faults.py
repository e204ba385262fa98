"""Faults are found by their text in any version of a file, and the tests that reach one catch it or let it survive."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import coverage_map, faults, mutations
from tools.coverage_map import CoverageMap, Recording
from tools.mutations import Fault, Place

SOURCE = '''
LIMIT = 3

def clip(value):
    """Return at most 3."""
    if value > LIMIT:
        return LIMIT
    return value

class Sum:
    def add(self, values, axis: int = 0):
        self.total = values.sum(axis=1) - 2
        self.check(0)
        raise ValueError("1 > 0" + str(1 + 1))
'''
TESTS = """
from guidebench.harness.clip import clip

def test_below():
    assert clip(2) == 2

def test_above():
    assert clip(9) == 3

def test_fails_anyway():
    assert clip(1) == 0
"""


@pytest.mark.parametrize("fault", faults.NAMED, ids=lambda fault: fault.name)
def test_a_named_fault_replaces_text_that_occurs_once(fault: Fault) -> None:
    source = (faults.ROOT / fault.file).read_text()
    assert source.count(fault.old) == 1
    compile(mutations.apply(source, fault), fault.file, "exec")


def test_twenty_faults_are_named() -> None:
    assert len({fault.name for fault in faults.NAMED}) == len(faults.NAMED) == 20


def test_each_kind_of_fault_is_made_but_not_in_messages_or_annotations() -> None:
    changes = {
        (kind, fault.scope, fault.meaning.partition(": ")[2]) for kind, fault in mutations.candidates("f", SOURCE)
    }
    assert changes == {
        ("constant", "", "3 becomes 4"),
        ("comparison", "clip", "value > LIMIT becomes value >= LIMIT"),
        ("constant", "Sum.add", "0 becomes 1"),
        ("constant", "Sum.add", "2 becomes 3"),
        ("sign", "Sum.add", "values.sum(axis=1) - 2 becomes values.sum(axis=1) + 2"),
        ("axis", "Sum.add", "values.sum(axis=1) becomes values.sum(axis=0)"),
        ("dropped line", "Sum.add", "self.total = values.sum(axis=1) - 2 becomes pass"),
        ("dropped line", "Sum.add", "self.check(0) becomes pass"),
    }


def test_a_fault_is_found_in_a_later_version_of_its_file() -> None:
    candidates = [*mutations.candidates("f", SOURCE)]
    (comparison,) = (fault for kind, fault in candidates if kind == "comparison")
    (call,) = (fault for _, fault in candidates if fault.meaning.endswith("self.check(0) becomes pass"))
    longer = "class Sum:\n    def first(self):\n        self.check(0)\n"
    later = f"import os\n{SOURCE}".replace("class Sum:\n", longer)
    line = later.splitlines().index("        self.total = values.sum(axis=1) - 2") + 2
    assert mutations.place(later, call) == Place(line, line)
    assert mutations.apply(later, comparison).count("value >= LIMIT") == 1
    with pytest.raises(LookupError, match="has no"):
        mutations.apply("def clip(value): ...", comparison)


def test_a_draw_depends_on_no_other_file_and_takes_only_what_is_reached() -> None:
    def is_reached(file: str, source: str, place: Place) -> bool:
        return place.first > 4

    alone = mutations.draw({"f": SOURCE}, is_reached, 2)
    assert [fault.scope for fault in alone] == ["clip", "Sum.add"]
    assert mutations.draw({"f": SOURCE, "other": "A = 1\n"}, is_reached, 9) == alone


def test_tests_at_the_same_place_run_first_then_the_fastest_until_the_time_is_spent() -> None:
    times = {"tests/b/test_x.py::slow": 9.0, "tests/b/test_x.py::quick": 1.0, "tests/harness/test_clip.py::near": 5.0}
    tests = {name: Recording(seconds, {"harness/clip.py": 1 << 6}) for name, seconds in times.items()}
    recorded = CoverageMap("", tests, {}, {})
    near, quick, slow = sorted(tests, key=lambda name: ("near" not in name, times[name]))
    assert faults.chosen(recorded, tests, "harness/clip.py", 7.0) == [near, quick]
    assert faults.chosen(recorded, tests, "harness/clip.py", 40.0) == [near, quick, slow]
    assert recorded.reaching("harness/clip.py", [6]) == [*tests]
    assert recorded.reaching("harness/clip.py", [7]) == []


def test_what_a_fixture_executes_counts_for_each_test_that_uses_it(tmp_path: Path) -> None:
    fixtures = {"made": Recording(1.0, {"f.py": 0b100})}
    tests = {
        "a": Recording(0.5, {}, ("made",)),
        "b": Recording(0.1, {"f.py": 0b1000}),
        "c": Recording(0.1, {}, (), True),
    }
    recorded = CoverageMap("commit", tests, fixtures, {"harness/f.py": (1, 2)})
    recorded.write(tmp_path / "map")
    assert coverage_map.read(tmp_path / "map") == recorded
    assert recorded.reaching("f.py", [2]) == ["a"]
    assert recorded.reaching("f.py") == ["a", "b"]
    assert coverage_map.folders(recorded.branches) == {"all": (1, 2), "harness": (1, 2)}


def test_a_statement_of_several_lines_is_reached_by_any_of_them_but_its_body() -> None:
    source = "def f(a):\n    if (\n        a\n    ):\n        g(\n            a,\n        )\n    return a\n"
    assert faults.statement_lines(source, Place(6, 6)) == {5, 6, 7}
    assert faults.statement_lines(source, Place(3, 3)) == {2, 3, 4}
    assert coverage_map.function_lines(source) == {*range(2, 9)}


def test_what_takes_long_is_not_quick() -> None:
    seconds = {"a.py::x[0]": 0.1, "a.py::x[1]": 0.1, "a.py::y": 0.3, "b.py::z": 0.1, "b.py::u": 0.1, "c.py::v": 0.5}
    recorded = CoverageMap("", {name: Recording(value, {}) for name, value in seconds.items()}, {}, {})
    assert coverage_map.not_quick(recorded) == ["a.py::y", "c.py"]
    assert coverage_map.not_quick(recorded, together=0.25) == ["a.py", "c.py"]


def test_an_inserted_line_changes_those_around_it() -> None:
    diff = "--- a/f.py\n+++ b/f.py\n@@ -3,2 +3 @@ def f\n@@ -9,0 +9,2 @@\n--- /dev/null\n+++ b/g.py\n@@ -0,0 +1 @@\n"
    assert coverage_map.changed_lines(diff) == {"f.py": {3, 4, 9, 10}, "g.py": {0, 1}}
    assert coverage_map.changed_lines(diff, new=True) == {"f.py": {3, 9, 10}, "g.py": {1}}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a git checkout with a package of one module and its tests."""
    tree = tmp_path_factory.mktemp("tree")
    for name, text in {
        "guidebench/__init__.py": "",
        "guidebench/harness/__init__.py": "",
        "guidebench/harness/reader_process.py": "class _SHARED:\n    close = staticmethod(bool)\n",
        "guidebench/harness/clip.py": SOURCE.partition("class")[0],
        "tests/test_clip.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    git = ("git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *words], check=True)
    return tree


def test_a_fault_is_caught_by_a_test_that_passes_without_it_or_survives(
    tree: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert coverage_map.record(tree, tmp_path / "map", tmp_path / "data", sys.executable, ["-q"]) == 1
    recorded = coverage_map.read(tmp_path / "map")
    file = "guidebench/harness/clip.py"
    assert recorded.reaching(file, [7]) == ["tests/test_clip.py::test_above"]
    assert recorded.tests["tests/test_clip.py::test_fails_anyway"].has_failed
    toys = [
        Fault("returns_value", file, "return LIMIT", "return value", "Nothing is clipped."),
        Fault("equal_is_clipped", file, "value > LIMIT", "value >= LIMIT", "The same result."),
        Fault("gone", file, "no such text", "", "Another version."),
    ]
    verdicts = faults.judge_all(tree, toys, recorded, sys.executable, 40.0, 1)
    assert [(verdict.status, verdict.test) for verdict in verdicts] == [
        ("caught", "tests/test_clip.py::test_above"), ("survived", ""), ("absent", ""),
    ]  # fmt: skip
    assert "1 absent, 1 caught, 1 survived" in faults.table(verdicts)
    assert faults.lost(verdicts, [{"name": "equal_is_clipped", "status": "caught"}]) == [verdicts[1]]
    assert (tree / file).read_text() == SOURCE.partition("class")[0]
    (tree / file).write_text(SOURCE.partition("class")[0].replace("return LIMIT", "return 1 * LIMIT"))
    assert coverage_map.select(tree, recorded, "HEAD").tests == ["tests/test_clip.py::test_above"]
