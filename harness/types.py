"""Names for types that modules below `harness.interfaces` use as well."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
State = dict[str, Any]
"""A tree of dicts with arrays, strings, numbers, booleans and None at its leaves: what a checkpoint can hold."""
Metrics = dict[str, Array]
"""Name -> one number per seed, [S]."""
