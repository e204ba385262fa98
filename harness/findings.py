"""What a check of this machine found, for `bench doctor`."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One check: `ok` None means that something optional is missing."""

    name: str
    ok: bool | None
    text: str
