"""README's commands are ones that `bench` understands, and `make shell` finds it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from guidebench.harness import cli
from tests.conftest import need

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^    (bench .*)$", README, re.MULTILINE)]
PLANNED = [words for words in COMMANDS if words[0] in ("run", "ablate", "perturb", "show")]


@pytest.mark.parametrize("words", PLANNED, ids=" ".join)
def test_what_readme_would_run_can_be_planned(words: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    """Whether this machine has what a plan needs (weights, a key) is another matter, and told as such."""
    monkeypatch.chdir(tmp_path)
    dry = [] if words[0] == "show" or "--dry-run" in words else ["--dry-run"]
    code, told = cli.main([*words, *dry]), capsys.readouterr()
    assert code == 0 or (code == 1 and "missing: " in told.out + told.err and " × " in told.out), told.err


def test_readme_s_other_commands_have_these_arguments_and_name_what_make_run_wrote() -> None:
    for words in COMMANDS:
        parser, _, commands = cli._parser(words)
        cli._check_options(commands[words[0]], words[1:])
        parser.parse_known_args(words)
    named = {word for words in COMMANDS for word in words if word.startswith("runs/")}
    output = re.search(r"^run:.*\n.* output=(\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert output is not None and {"/".join(word.split("/")[:2]) for word in named} == {output.group(1)}
    assert "NAME" not in "".join(named)


def test_make_shell_finds_bench(tmp_path: Path) -> None:
    need("make", "make")
    bench = tmp_path / ".venv" / "bin" / "bench"
    bench.parent.mkdir(parents=True)
    bench.write_text("#!/bin/sh\necho found\n")
    bench.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    stamp = tmp_path / ".venv" / ".installed"
    stamp.touch()
    environment = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    command = ["make", "--no-print-directory", "-o", ".venv/.installed", "shell"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, input="bench\n", capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "found", done.stderr
