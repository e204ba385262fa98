"""CONTRIBUTING.md, followed literally in a copy of the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("guidebench", "harness", "suites", "baselines", "methods", "results", "reports")
SECTIONS = re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS, ids=[section.splitlines()[0] for section in SECTIONS])
def test_the_recipe_works_as_written(section: str, tmp_path: Path) -> None:
    tree, site = tmp_path / "tree", tmp_path / "site"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, True, shutil.ignore_patterns("__pycache__", "measured"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(site)])}
    blocks = re.findall(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    assert any(language == "sh" for language, _, _ in blocks)
    output = ""
    for language, file, text in blocks:
        if file:
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_text(text, encoding="utf-8")
        elif language == "sh":
            for line in text.splitlines():
                output += run(shlex.split(line), tree, site, environment)
    assert "finished" in output and "failed" not in output


def run(words: list[str], tree: Path, site: Path, environment: dict[str, str]) -> str:
    if words[0] == "bench":
        words = [sys.executable, "-m", "guidebench", *words[1:]]
    else:  # pip, into a folder of its own and without the network
        assert words[:2] == ["pip", "install"]
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
        words = [sys.executable, "-m", "pip", "install", *options, *words[2:]]
    result = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, f"{shlex.join(words)}\n{result.stdout}\n{result.stderr}"
    return result.stdout
