"""Every `bench` command on every page of the documentation is one that `bench` understands and can plan."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from tests.docs.commands import LATER, PAGES, ROOT, block_commands, sentence_commands

Command = tuple[str, ...]
PLANNING = ("run", "pilot", "ablate", "perturb", "show")
PLACEHOLDER = re.compile(r"…|\b[A-Z]{2,}\b")
"""Words that a reader must replace, in commands that therefore cannot be planned: `…`, PATH, NAME."""
BY_PAGE = {page: (block_commands(page), sentence_commands(page)) for page in PAGES}
COMMANDS = [page for page in PAGES if any(BY_PAGE[page])]


def plannable(page: Path) -> list[Command]:
    """Return the commands of a page that can be planned, without duplicates."""
    if page in LATER:
        return []
    return [
        command for command in dict.fromkeys([*BY_PAGE[page][0], *BY_PAGE[page][1]])
        if command[0] in PLANNING and any("=" in word for word in command)
        and not PLACEHOLDER.search(" ".join(command))
    ]  # fmt: skip


def failures(commands: list[Command], fault: Callable[[Command], str]) -> list[str]:
    return [f"bench {' '.join(command)}: {message}" for command in commands if (message := fault(command))]


@pytest.mark.parametrize("page", [*filter(plannable, PAGES)], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_would_run_can_be_planned(
    page: Path, tmp_path: Path, monkeypatch, capsys, planned_before: set
) -> None:
    """A plan may lack weights or a key on this machine, if it names them as missing."""
    monkeypatch.chdir(tmp_path)

    def fault(command: Command) -> str:
        dry = [] if command[0] == "show" or "--dry-run" in command else ["--dry-run"]
        code, output = cli.main([*command, *dry]), capsys.readouterr()
        lacking = code == 1 and "missing: " in output.out + output.err and " × " in output.out
        return "" if code == 0 or lacking else output.err

    new = [command for command in plannable(page) if command not in planned_before]
    planned_before.update(new)
    assert failures(new, fault) == []


@pytest.fixture(scope="module")
def planned_before() -> set[Command]:
    """Return the set of commands that earlier tests of this module have planned."""
    return set()


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_command_has_the_arguments_that_a_page_gives_it(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence may name a command without its arguments."""
    shown_here, mentioned_here = BY_PAGE[page]

    def fault(command: Command) -> str:
        parser, _, commands = cli._parser(command)
        try:
            if command[0].startswith("-"):
                parser._parse_optional(command[0])
                return ""
            if command[0] not in commands:
                return "there is no such command"
            cli._check_options(commands[command[0]], command[1:])
            if command in shown_here:
                parser.parse_known_args(command)
        except (UserError, SystemExit) as error:
            return f"{error} {capsys.readouterr().err}"
        return ""

    assert failures(list(dict.fromkeys([*shown_here, *mentioned_here])), fault) == []


def test_pages_show_commands_in_each_form() -> None:
    """The parser still finds commands in indented blocks, in fenced blocks and in sentences."""
    assert ("list",) in block_commands(ROOT / "README.md")
    assert ("list", "method") in block_commands(ROOT / "CONTRIBUTING.md")
    assert ("new", "replay", "recent") in block_commands(ROOT / "docs" / "tutorials" / "replay.md")
    assert any(("eval", "RUN", "--frames") in sentences for _, sentences in BY_PAGE.values())
    assert len({command for page in PAGES for command in plannable(page)}) > 80
    assert len({command for pages in BY_PAGE.values() for commands in pages for command in commands}) > 150
