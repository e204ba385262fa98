"""The result of a check of this machine, for `bench doctor`."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """The result of one check; `ok` is None if something optional is missing."""

    name: str
    ok: bool | None
    text: str
