"""Every `bench` command on every page of the documentation is one that `bench` understands and can plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from tests.docs.commands import PAGES, ROOT, RUN, mentioned, shown

PLANNING = ("run", "ablate", "perturb", "show")
PLACEHOLDER = re.compile(r"…|\b[A-Z]{2,}\b")
"""What a reader is to put something else for, in a command that so cannot be planned: `…`, PATH, NAME."""
SHOWN = list(dict.fromkeys(command for page in PAGES for command in shown(page)))
MENTIONED = list(dict.fromkeys(command for page in PAGES for command in mentioned(page)))
BOTH = list(dict.fromkeys([*SHOWN, *MENTIONED]))
LEFT = [page for page in PAGES if page not in RUN]
"""Pages whose commands nothing else tries."""
PLANNED = [
    command for command in dict.fromkeys(each for page in LEFT for each in (*shown(page), *mentioned(page)))
    if command[0] in PLANNING and any("=" in word for word in command) and not PLACEHOLDER.search(" ".join(command))
]  # fmt: skip


@pytest.mark.parametrize("command", PLANNED, ids=" ".join)
def test_what_a_page_would_run_can_be_planned(command: tuple[str, ...], tmp_path: Path, monkeypatch, capsys) -> None:
    """Whether this machine has what a plan needs (weights, a key) is another matter, and told as such."""
    monkeypatch.chdir(tmp_path)
    dry = [] if command[0] == "show" or "--dry-run" in command else ["--dry-run"]
    code, told = cli.main([*command, *dry]), capsys.readouterr()
    assert code == 0 or (code == 1 and "missing: " in told.out + told.err and " × " in told.out), told.err


@pytest.mark.parametrize("command", BOTH, ids=" ".join)
def test_a_command_has_the_arguments_that_a_page_gives_it(command: tuple[str, ...]) -> None:
    parser, _, commands = cli._parser(command)
    if command[0].startswith("-"):
        parser._parse_optional(command[0])
        return
    assert command[0] in commands
    cli._check_options(commands[command[0]], command[1:])
    if command in SHOWN:  # a sentence may name a command without its arguments
        parser.parse_known_args(command)


def test_pages_show_commands_in_each_form() -> None:
    """The numbers of commands found do not fall to nothing unseen: blocks that are indented, fenced, and sentences."""
    assert ("list",) in shown(ROOT / "README.md")
    assert ("list", "method") in shown(ROOT / "CONTRIBUTING.md")
    assert ("new", "replay", "recent") in shown(ROOT / "docs" / "tutorials" / "replay.md")
    assert ("eval", "RUN", "--frames") in MENTIONED
    assert len(PLANNED) > 80 and len(BOTH) > 150
