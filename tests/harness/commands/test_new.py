"""Every package that `bench new` writes installs, passes its own tests and runs unchanged."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.commands.new_ import SKELETONS
from tests import programs
from tests.logs import log_rows

ROOT = Path(__file__).parents[3]


def write(directory: Path) -> None:
    """Write one package of each kind below a directory."""
    for kind in SKELETONS:
        assert cli.main(["new", kind, f"my_{kind}", "--directory", str(directory / f"my_{kind}")]) == 0


@pytest.mark.release
def test_every_skeleton_installs_passes_its_tests_is_listed_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All packages share one installation, in a folder of its own and without network access, and one study."""
    write(tmp_path)
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))  # the path of processes started here
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(site)]))

    def output(done: programs.Exit) -> str:
        assert done.code == 0, done.out + done.err
        return done.out

    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    install = [sys.executable, "-m", "pip", "install", *options, "--target", str(site)]
    subprocess.run([*install, *(f"./my_{kind}" for kind in SKELETONS)], cwd=tmp_path, check=True, timeout=240)
    words = ["-q", "-p", "no:cacheprovider", *(f"my_{kind}/tests" for kind in SKELETONS)]
    summary = output(programs.python("import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))", *words, cwd=tmp_path))
    assert re.search(r"^10 passed", summary, re.MULTILINE)
    listed = json.loads(output(programs.bench("list", "--json", cwd=tmp_path)))
    for kind, skeleton in SKELETONS.items():
        assert {other for other in listed if f"my_{kind}" in listed[other]} == set(skeleton.registers)
    words = ["suite=my_suite", "method=my_replay,my_guide", "profile=smoke", "seeds=1", "output=runs", "--json"]
    runs = json.loads(output(programs.bench("run", *words, cwd=tmp_path)))["runs"]
    assert [(run["method"], run["status"]) for run in runs] == [("my_replay", "finished"), ("my_guide", "finished")]
    assert 0 < log_rows(tmp_path / runs[1]["directory"], "metrics")[-1]["guide/bonus"] < 0.1


def test_every_skeleton_has_a_page_that_names_its_commands_and_no_gap(tmp_path: Path) -> None:
    write(tmp_path)
    for kind in SKELETONS:
        directory = tmp_path / f"my_{kind}"
        files = [path for path in directory.rglob("*") if path.is_file()]
        texts = {path.relative_to(directory).as_posix(): path.read_text() for path in files}
        assert {"README.md", "pyproject.toml", f"tests/test_my_{kind}.py"} < set(texts)
        assert all("$" not in text for text in texts.values())
        page = texts["README.md"]
        assert page.startswith(f"# my_{kind}\n") and "bench run suite=" in page and "## What differs from the" in page


def test_what_is_written_is_told_with_what_to_do_next(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "suite", "corridor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "corridor: a suite 'corridor' that runs without changes; README.md is its page", "",
        "  pip install -e corridor", "  bench run suite=corridor method=uer,per profile=smoke seeds=2",
        "  pytest corridor",
    ]  # fmt: skip
    assert cli.main(["new", "suite", "corridor"]) == 2
    assert "corridor exists and is not empty; choose another --directory" in capsys.readouterr().err
