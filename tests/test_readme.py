"""README's commands name the study that `make run` writes, and `make shell` finds `bench`."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.conftest import need
from tests.docs.commands import block_commands

ROOT = Path(__file__).parents[1]


def test_readme_s_commands_name_what_make_run_wrote() -> None:
    named = {word for words in block_commands(ROOT / "README.md") for word in words if word.startswith("runs/")}
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
    stamp = tmp_path / ".venv" / ".suites"
    stamp.touch()
    environment = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    command = ["make", "--no-print-directory", "-o", ".venv/.suites", "shell"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, input="bench\n", capture_output=True, text=True)
    assert process.stdout.splitlines()[-1] == "found", process.stderr
