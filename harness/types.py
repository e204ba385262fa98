"""Type aliases, in a module of their own because `harness.interfaces` imports modules that need them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
State = dict[str, Any]
"""Checkpoint state: nested dicts whose leaves are arrays, strings, numbers, booleans or None."""
Metrics = dict[str, Array]
"""Name -> one number per seed, [S]."""
