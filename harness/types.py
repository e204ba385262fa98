"""Type aliases, apart from `harness.interfaces` for modules that it imports."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
State = dict[str, Any]
"""Checkpoint state: nested dicts whose leaves are arrays, strings, numbers, booleans or None."""
Metrics = dict[str, Array]
"""Name -> one number per seed, [S]."""
