"""Pages that are followed literally: titled blocks are written to their files, commands and Python are run.

A block below `<!-- planned -->` takes too long or needs what a machine may lack: of its commands each is planned.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import programs
from tests.docs.commands import ROOT, RUN, Block, blocks, lines, words

PACKAGES = ("guidebench", "harness", "suites", "baselines", "methods", "results", "reports")
TREE = ROOT / "CONTRIBUTING.md"
"""The page that changes the source tree, and is followed in a copy of it."""
STARTED = ROOT / "docs" / "getting_started.md"
DONE = ROOT / "results" / "measured" / "doorkey_5x5"
"""Study that `make run` ends in, as it is stored in this repository."""


class Reader:
    """Follows a page literally in a folder of its own, and collects what its commands print."""

    def __init__(self, folder: Path, tree: Path = ROOT) -> None:
        """`folder`: where files are written and commands run; `tree`: checkout of the program that is used; processes
        of this checkout are forked."""
        self.folder, self.printed, self._site = folder, "", folder.parent / "site"
        self._python = [sys.executable, "-W", "ignore"]
        self._forked = tree == ROOT
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, self._site)))}

    def follow(self, block: Block) -> None:
        if block.file:
            target = self.folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._run([*self._python, "-c", block.text])
        elif block.language == "sh":
            for line in lines(block.text):
                self._plan(words(line)) if block.planned else self._run(self._command(words(line)))

    def _command(self, words: list[str]) -> list[str]:
        """Return a command of a page as one for this interpreter; pip installs into a separate folder, without
        network."""
        if words[0] == "bench":
            return [*self._python, "-m", "guidebench", *words[1:]]
        if words[0] == "pytest":
            return [*self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words[1:]]
        if words[:2] == ["pip", "install"]:
            apart = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
            return [*self._python, "-m", "pip", "install", *apart, "--target", str(self._site), *words[2:]]
        assert words[0] in ("mv", "sed"), words
        return words

    def _plan(self, words: list[str]) -> None:
        """Check that `bench` can plan a command, or that the Makefile has a target of make."""
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
        elif words[1] in ("run", "ablate"):
            self._run([*self._command(words), "--dry-run"])
        else:
            assert words[0] == "bench", words  # its arguments are held by test_commands

    def _run(self, command: list[str]) -> None:
        arguments = command[len(self._python) :] if command[: len(self._python)] == self._python else []
        if self._forked and arguments and arguments[1] != "pip":
            run = programs.python if arguments[0] == "-c" else programs.module
            with pytest.MonkeyPatch.context() as patched:
                patched.syspath_prepend(str(self._site))
                process = run(*arguments[1:], cwd=self.folder, env=self._environment, timeout=200)
        else:
            ended = subprocess.run(
                command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=200
            )
            process = programs.Exit(ended.returncode, ended.stdout, ended.stderr)
        assert process.code == 0, f"{shlex.join(command)}\n{process.out}\n{process.err}"
        self.printed += process.out


@pytest.fixture
def reader(tmp_path: Path) -> Callable[..., Reader]:
    def begin(tree: Path = ROOT) -> Reader:
        (folder := tmp_path / "tree").mkdir(exist_ok=True)
        return Reader(folder, tree)

    return begin


@pytest.mark.release
@pytest.mark.alone
@pytest.mark.parametrize("page", [page for page in RUN if page not in (TREE, STARTED)], ids=lambda page: page.stem)
def test_a_tutorial_works_as_written(page: Path, reader: Callable[..., Reader]) -> None:
    mine = reader()
    for block in blocks(page.read_text(encoding="utf-8")):
        mine.follow(block)
    assert "1 finished" in mine.printed or "2 finished" in mine.printed
    assert "failed" not in mine.printed and re.search(r"\d passed", mine.printed)


@pytest.mark.release
@pytest.mark.alone
def test_a_part_moves_into_the_tree_as_written(tmp_path: Path, reader: Callable[..., Reader]) -> None:
    mine = reader(tmp_path / "tree")
    for package in PACKAGES:
        source, ignored = ROOT / package, shutil.ignore_patterns("__pycache__", "measured")
        shutil.copytree(source, mine.folder / package, True, ignored)
    for block in blocks(TREE.read_text(encoding="utf-8")):
        mine.follow(block)
    assert "2 finished" in mine.printed and "failed" not in mine.printed


@pytest.mark.release
@pytest.mark.alone
def test_getting_started_works_as_written(reader: Callable[..., Reader]) -> None:
    """The study that the first command ends in is copied there beforehand."""
    mine = reader()
    shutil.copytree(DONE, mine.folder / "runs" / "doorkey")
    page = STARTED.read_text(encoding="utf-8")
    for block in blocks(page):
        mine.follow(block)
    makefile = (ROOT / "Makefile").read_text()
    command = re.search(r"^run:.*\n\t\$\(BIN\)/(bench run .*)$", makefile, re.MULTILINE)
    assert command is not None and f"\n{command[1]}\n" in page
    assert "vlm_rb" in mine.printed and "runs/doorkey" in mine.printed


def test_the_code_of_pages_that_are_followed_is_python() -> None:
    code = [
        (block, page)
        for page in RUN
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "python"
    ]
    assert code, "pages with code"
    for block, page in code:
        compile(block.text, block.file or page.name, "exec")


def test_blocks_know_their_file_and_whether_they_are_only_planned() -> None:
    page = '```sh\na\n```\n\n<!-- planned -->\n```sh\nb \\\n  c  # d\n```\n\n```python title="e/f.py"\ng\n```\n'
    first, second, third = blocks(page)
    assert (first.planned, second.planned, third.file, third.text) == (False, True, "e/f.py", "g\n")
    assert [words(line) for line in lines(second.text)] == [["b", "c"]]
