"""Handling of failing models: a circuit breaker, and removal of secrets from recorded texts."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from guidebench.harness.texts import each_text, mended, printable

LONGEST = 300
"""Characters kept of a text from a model or server."""
REMOVED = "[removed]"
"""Replacement for a removed key."""
SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
SECRET_LOOKS = re.compile(r"(?:Bearer|Basic)\s+[^\s\"',;]+|\bsk-[\w*-]{6,}|\bhf_\w{6,}", re.IGNORECASE)


class Breaker:
    """Circuit breaker: opens after `after` consecutive failures, and lets one test call through after `seconds`."""

    def __init__(self, after: int, seconds: float) -> None:
        self._after, self._seconds = after, seconds
        self._failures = 0
        self._open_until: float | None = None
        self._trying = False

    def admits(self) -> bool:
        """Return whether an attempt may be made; the caller must then call `answered`, `failed` or `dropped`."""
        if self._open_until is None:
            return True
        if self._trying or time.monotonic() < self._open_until:
            return False
        self._trying = True
        return True

    def answered(self) -> None:
        """Note that the model responded, with any content."""
        self._failures, self._open_until, self._trying = 0, None, False

    def failed(self) -> None:
        """Note that the model did not respond."""
        self._failures += 1
        if self._trying or (self._open_until is None and self._failures >= self._after):
            self._open_until = time.monotonic() + self._seconds
        self._trying = False

    def dropped(self) -> None:
        """Note that the attempt ended without information about the model."""
        self._trying = False


def scrubbed(text: str) -> str:
    """Return the beginning of an external text without keys, without strings that look like keys, and without terminal
    control characters."""
    return printable(SECRET_LOOKS.sub(REMOVED, without_secrets(text))[:LONGEST])


def secrets() -> dict[str, str]:
    """Return the environment variables of this process whose names suggest a secret, name -> value."""
    return {name: value for name, value in os.environ.items() if len(value) >= 8 and SECRET_NAMES.search(name)}


def without_secrets(text: str) -> str:
    """Return a text without the values of this process's secret environment variables."""
    for value in secrets().values():
        text = text.replace(value, REMOVED)
    return text


def recordable(value: Any) -> Any:
    """Return an answer in recordable form: every text in it is valid UTF-8 and contains no key."""
    return each_text(value, lambda text: without_secrets(mended(text)))
