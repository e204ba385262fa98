"""What `bench new` writes installs, passes its own tests and runs as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.commands.new_ import SKELETONS
from tests.logs import logged

ROOT = Path(__file__).parents[3]


def write(directory: Path) -> None:
    """A package of each kind."""
    for kind in SKELETONS:
        assert cli.main(["new", kind, f"my_{kind}", "--directory", str(directory / f"my_{kind}")]) == 0


@pytest.mark.slow
def test_every_skeleton_installs_passes_its_tests_is_listed_and_runs(tmp_path: Path) -> None:
    """All three share one installation, into a folder of its own and without the network, and one study."""
    write(tmp_path)
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)]), "OMP_NUM_THREADS": "1"}

    def python(*words: str) -> str:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    python("pip", "install", *options, "--target", str(site), *(f"./my_{kind}" for kind in SKELETONS))
    told = python("pytest", "-q", "-p", "no:cacheprovider", *(f"my_{kind}/tests" for kind in SKELETONS))
    assert re.search(r"^10 passed", told, re.MULTILINE)
    listed = json.loads(python("guidebench", "list", "--json"))
    for kind, skeleton in SKELETONS.items():
        assert {other for other in listed if f"my_{kind}" in listed[other]} == set(skeleton.registers)
    words = ["suite=my_suite", "method=my_replay,my_guide", "profile=smoke", "seeds=1", "output=runs", "--json"]
    runs = json.loads(python("guidebench", "run", *words))["runs"]
    assert [(run["method"], run["status"]) for run in runs] == [("my_replay", "finished"), ("my_guide", "finished")]
    assert 0 < logged(tmp_path / runs[1]["directory"], "metrics")[-1]["guide/bonus"] < 0.1


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
