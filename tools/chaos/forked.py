"""`bench` in a process that is forked from an interpreter which has imported what its parts need."""

from __future__ import annotations

from guidebench.harness.commands import cli, run_

__all__ = ["main", "run_"]


def main(*words: str) -> int:
    """Be `bench`; without words, do nothing, which shows that the interpreter has imported all."""
    return cli.main([*words]) if words else 0
