"""A cached look-up of a stranger's names among the registered parts. Looking up a name that is not registered searches
all packages."""

from __future__ import annotations

import functools
from typing import Any

from guidebench.harness import registry


@functools.cache
def installed(kind: str) -> frozenset[str]:
    """Return the registered names of a kind, built in or from plug-ins; cached until `installed.cache_clear()`."""
    return frozenset(registry.names(kind))


def get(kind: str, name: str) -> Any:
    """Return the registered part of this kind and name; None if there is none."""
    return registry.get(kind, name) if name in installed(kind) else None
