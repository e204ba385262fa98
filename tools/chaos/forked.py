"""`bench` in a process that is forked from an interpreter which has imported what its parts need."""

from __future__ import annotations

from guidebench.harness.commands import cli, run_

__all__ = ["main", "run_"]


def main(*words: str) -> int:
    """Run `bench` with these words; without words, do nothing, which shows that all imports succeeded."""
    return cli.main([*words]) if words else 0
