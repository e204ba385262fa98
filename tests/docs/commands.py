"""Extracts the `bench` commands that pages of the documentation show, and their blocks of code."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results" / "measured" / "README.md",
    *sorted((ROOT / "results" / "measured").glob("*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
RUN = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "getting_started.md",
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
"""Pages that a rehearsal follows literally."""
LATER = {*RUN} - {ROOT / "docs" / "getting_started.md"}
"""Of these, pages whose commands can be planned only when what stands before them was done."""
FENCE = re.compile(r"^(<!-- planned -->\n)?```(\w*)(?: title=\"(\S+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n)+")
INLINE = re.compile(r"`(bench [^`]+)`")


class Block(NamedTuple):
    """A fenced block of code of a page."""

    planned: bool
    """Whether a test plans its commands instead of running them."""
    language: str
    file: str
    """Name of the file in its title; "" without one."""
    text: str


def blocks(markdown: str) -> list[Block]:
    return [Block(bool(fence[1]), fence[2], fence[3] or "", fence[4]) for fence in FENCE.finditer(markdown)]


def lines(text: str) -> Iterator[str]:
    """Yield the commands of a shell block: continued lines are joined, comments are left out."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def words(line: str) -> list[str]:
    """Return the words of a command up to its comment, redirection or pipe."""
    words_ = shlex.split(line, comments=True)
    ends = [index for index, word in enumerate(words_) if word in (">", "|", ">>")]
    return words_[: ends[0]] if ends else words_


def block_commands(page: Path) -> list[tuple[str, ...]]:
    """Return the words after `bench` of each command in the code blocks of a page, without duplicates."""
    text = page.read_text(encoding="utf-8")
    shell = [block.text for block in blocks(text) if block.language in ("sh", "bash", "")]
    shell += [block.replace("\n    ", "\n") for block in INDENTED.findall(FENCE.sub("", text))]
    commands = (words(line) for part in shell for line in lines(part) if line.startswith("bench "))
    return list(dict.fromkeys(tuple(command[1:]) for command in commands))


def sentence_commands(page: Path) -> list[tuple[str, ...]]:
    """Return the words after `bench` of each command in back quotes within the sentences of a page, without
    duplicates."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return list(dict.fromkeys(tuple(words(" ".join(command.split()))[1:]) for command in INLINE.findall(text)))
