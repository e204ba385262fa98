"""Models that fail: when they are left alone for a while, and what is told of it."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from guidebench.harness.texts import each_text, mended, printable

LONGEST = 300
"""Characters that are kept of what a model or server said of itself."""
REMOVED = "[removed]"
"""What stands where a key stood."""
SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
SECRET_LOOKS = re.compile(r"(?:Bearer|Basic)\s+[^\s\"',;]+|\bsk-[\w*-]{6,}|\bhf_\w{6,}", re.IGNORECASE)


class Breaker:
    """Keeps calls from a model that is not there: opens after so many failures in a row, then lets one try again."""

    def __init__(self, after: int, seconds: float) -> None:
        self._after, self._seconds = after, seconds
        self._failures = 0
        self._open_until: float | None = None
        self._trying = False

    def admits(self) -> bool:
        """Whether an attempt may be made; whoever is let through has to tell what became of it."""
        if self._open_until is None:
            return True
        if self._trying or time.monotonic() < self._open_until:
            return False
        self._trying = True
        return True

    def answered(self) -> None:
        """The model is there, whatever it said."""
        self._failures, self._open_until, self._trying = 0, None, False

    def failed(self) -> None:
        """The model did not answer."""
        self._failures += 1
        if self._trying or (self._open_until is None and self._failures >= self._after):
            self._open_until = time.monotonic() + self._seconds
        self._trying = False

    def dropped(self) -> None:
        """The attempt ended without telling anything."""
        self._trying = False


def scrubbed(text: str) -> str:
    """What may be kept of a text that came from outside: its beginning, without keys, without what looks like one, and
    without characters that a terminal would obey."""
    return printable(SECRET_LOOKS.sub(REMOVED, without_secrets(text))[:LONGEST])


def secrets() -> dict[str, str]:
    """The environment variables of this process that hold keys, by their names."""
    return {name: value for name, value in os.environ.items() if len(value) >= 8 and SECRET_NAMES.search(name)}


def without_secrets(text: str) -> str:
    """The text without the values of this process's environment variables that hold keys."""
    for value in secrets().values():
        text = text.replace(value, REMOVED)
    return text


def kept(value: Any) -> Any:
    """An answer as it may be recorded: every text in it can be written as UTF-8 and holds no key."""
    return each_text(value, lambda text: without_secrets(mended(text)))
