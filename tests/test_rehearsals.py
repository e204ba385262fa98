"""Rehearsals run where the command names them or their marker, and nowhere else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import programs

CONFTEST = """
from tests.conftest import pytest_collection_modifyitems, pytest_report_header
def pytest_configure(config):
    config.addinivalue_line("markers", "release: ...")
"""
TESTS = """
import pytest
def test_a_part(): pass
@pytest.mark.release
@pytest.mark.parametrize("number", [1, 2])
def test_all(number): pass
@pytest.mark.release
def test_all_of_it(): pass
"""
RUN = "import pytest, sys; sys.exit(pytest.main(['-v', '-p', 'no:cacheprovider', '--rootdir=.', *sys.argv[1:]]))"


@pytest.fixture
def names_run(tmp_path: Path) -> Callable[..., list[str]]:
    """`names_run("test_it.py")` runs a file with a test and two rehearsals by these words of pytest, and returns the
    names of those that passed."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)

    def run(*words: str) -> list[str]:
        done = programs.python(RUN, *words, cwd=tmp_path)
        assert done.code == 0 and ("left out: tests marked release" in done.out) == ("-m" not in words), done.out
        return [line.split()[0].partition("::")[2] for line in done.out.splitlines() if " PASSED" in line]

    return run


def test_a_rehearsal_runs_only_where_it_or_its_marker_is_named(names_run: Callable[..., list[str]]) -> None:
    assert names_run("test_it.py") == ["test_a_part"]
    assert names_run("-m", "release") == ["test_all[1]", "test_all[2]", "test_all_of_it"]
    assert len(names_run("-m", "release or not release")) == 4
    assert names_run("test_it.py::test_all") == ["test_all[1]", "test_all[2]"]
    assert names_run("test_it.py::test_all[2]", "test_it.py::test_a_part") == ["test_all[2]", "test_a_part"]
