"""A page with the help of every command, as `bench COMMAND --help` prints it."""

from __future__ import annotations

from guidebench.harness.commands import cli

WIDTH = 100
"""Characters in a line of help."""


def pages() -> dict[str, str]:
    """Return address -> Markdown: one page with all commands."""
    parts = [f"## `{name}`\n\n```text\n{help_text.strip()}\n```\n" for name, help_text in cli.helps(WIDTH).items()]
    return {"reference/commands.md": "\n".join(["# Commands\n", *parts])}
