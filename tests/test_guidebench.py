"""The public face: few names, nothing heavy until one is used, and one name for each package."""

import subprocess
import sys
from pathlib import Path

import pytest

import guidebench

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_those_that_are_documented() -> None:
    from guidebench import results
    from guidebench.harness import scores
    from guidebench.harness.gym import environments, recorder
    from guidebench.harness.run import study

    assert guidebench.__all__ == ["Recorder", "Score", "load", "make", "run"] and {*guidebench.__all__} <= {
        *dir(guidebench)
    }
    assert guidebench.run is study.run and guidebench.load is results.load and guidebench.make is environments.make
    assert guidebench.Recorder is recorder.Recorder and guidebench.Score is scores.Score
    with pytest.raises(AttributeError, match="module 'guidebench' has no attribute 'train'"):
        guidebench.train  # noqa: B018


LIGHT = """
import sys, guidebench
print([name for name in sys.modules if name.startswith("guidebench.")])
import guidebench.harness.commands.cli, guidebench.reports.commands.report
print({"gymnasium", "hydra", "jinja2", "matplotlib", "numpy", "pandas", "rich", "torch"} & {*sys.modules})
import guidebench.results, guidebench.results.published
print({"pandas", "pyarrow", "torch"} & {*sys.modules})
"""


def test_importing_it_imports_nothing_else_and_what_is_imported_often_nothing_heavy() -> None:
    process = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == ["[]", "set()", "set()"]


@pytest.mark.parametrize("name", ["harness", "suites", "baselines", "methods", "results", "reports"])
def test_a_folder_cannot_be_imported_by_its_bare_name(name: str) -> None:
    process = subprocess.run([sys.executable, "-c", f"import {name}.x"], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr.endswith(
        f"ImportError: this package is guidebench.{name}; import it by that name, not as '{name}'\n"
    )
