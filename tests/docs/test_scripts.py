"""The scripts of docs/gymnasium.md run with Stable-Baselines3 and TorchRL, and import nothing of ours but the ids."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.docs.commands import ROOT, blocks

PAGE = ROOT / "docs" / "gymnasium.md"
SCRIPTS = {block.file: block.text for block in blocks(PAGE.read_text(encoding="utf-8")) if block.file}
PYTHON = ROOT / ".scripts" / "bin" / "python"
LONGEST = {"sb3_ppo.py": 20, "torchrl_dqn.py": 50}
OURS = re.compile(r"guidebench[\w.]*")


def test_a_script_is_short_and_needs_the_ids_alone() -> None:
    assert SCRIPTS.keys() == LONGEST.keys()
    for name, text in SCRIPTS.items():
        assert len(text.splitlines()) <= LONGEST[name], name
        assert {*OURS.findall(text.replace("guidebench/", ""))} == {"guidebench.envs"}, name


@pytest.fixture
def python() -> Path:
    """Return the interpreter of the environment with the libraries, which `make release-test` makes."""
    if not PYTHON.exists():
        skip_or_fail(f"{PYTHON} is missing, with Stable-Baselines3 and TorchRL: `make .scripts/.installed` makes it")
    return PYTHON


@pytest.mark.release
@pytest.mark.alone
@pytest.mark.parametrize(
    ("name", "steps", "line"),
    [("sb3_ppo.py", 1024, r"success rate [01]\.\d\d"), ("torchrl_dqn.py", 500, r"mean return \d+")],
)
def test_a_script_trains_and_evaluates(name: str, steps: int, line: str, python: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SCRIPTS[name], encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [python, name, str(steps)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0 and re.fullmatch(line, process.stdout.splitlines()[-1]), process.stderr
