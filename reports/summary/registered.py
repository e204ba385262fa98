"""What of a stranger's names is installed here. Asking for a name that is not costs a search through all packages."""

from __future__ import annotations

import functools
from typing import Any

from guidebench.harness import registry


@functools.cache
def installed(kind: str) -> frozenset[str]:
    """The names of a kind that are registered, built in or by plug-ins; kept until `installed.cache_clear()`."""
    return frozenset(registry.names(kind))


def get(kind: str, name: str) -> Any:
    """The thing registered as `name`, None where there is none."""
    return registry.get(kind, name) if name in installed(kind) else None
