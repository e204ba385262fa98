"""Decide what two studies of one cell are to each other: one row, a row and its replication, or a contradiction.

The unit is (cell, study). Two studies that agree in every run that both have are one row. Where they disagree and were
made under different conditions (other sources, package versions, processor, device or OpenGL backend), the later one is
a replication: a second row, which stands beside the first and is compared with it. Under equal conditions a run is
deterministic, so there a disagreement means that one of the two records was altered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MACHINE = ("processor", "device", "gpu", "opengl")
"""What a run's provenance says of the machine that can change its numbers."""


def machine(provenance: Mapping[str, Any]) -> str:
    """Return the processor, device and OpenGL backend of a run's provenance as one text."""
    hardware = provenance.get("hardware")
    found = hardware if isinstance(hardware, Mapping) else {}
    return json.dumps({name: found[name] for name in MACHINE if name in found}, sort_keys=True, default=str)


def is_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two runs were made under equal conditions: source digests, package versions and machine. The
    commit is compared where one of the two has no source digests."""
    code = "sources" if one.get("sources") and other.get("sources") else "commit"
    same = [one.get(name) == other.get(name) for name in (code, "packages")]
    return all(same) and machine(one) == machine(other)
