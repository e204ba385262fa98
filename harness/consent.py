"""Which code of others a command may run: what the command itself names, and never what only a record names.

Processes that a command starts inherit it by their environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from guidebench.harness.errors import UserError

VARIABLE = "GUIDEBENCH_TYPED"
COMMANDS = "bench run, eval, verify, pilot and doctor"
"""Commands that may run code of others (`RUNS_CODE` of their modules)."""


def grant(words: Iterable[str]) -> None:
    """Allow the code that words of this command (`key=value`) name, and no other."""
    os.environ[VARIABLE] = json.dumps([word for word in words if "=" in word])


def typed(key: str) -> list[str]:
    """Return the values that this command has for a key, those of a list or a sweep one by one."""
    words: list[str] = json.loads(os.environ.get(VARIABLE, "[]"))
    texts = [word.partition("=")[2] for word in words if word.startswith(f"{key}=")]
    return [part.strip("[]'\" ") for text in texts for part in text.split(",")]


def require(key: str, code: str) -> None:
    """Raise UserError unless this command names, in its word `key`, the code that is to be run."""
    if code not in typed(key):
        raise UserError(
            f"{key}={code} names code to run, and this command does not; add {key}={code} to it if you trust that code "
            f"({COMMANDS} take it)"
        )


def separated(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command that only allow code (`suite.SETTING=…`), and the others."""
    listed = list(words)
    codes = [word for word in listed if word.startswith("suite.") and "=" in word]
    return codes, [word for word in listed if word not in codes]
