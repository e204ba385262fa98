"""The configuration of a stranger's cell: what this program would have recorded, or why it is not."""

from __future__ import annotations

from pathlib import Path

from harness import config
from harness.config import Cell
from harness.errors import UserError
from harness.records.cells import record, recorded, rehashed
from harness.records.files import read_json

LARGEST = 2**20
"""Bytes of cell.json."""
DERIVED = ("suite", "task", "method", "learner", "backend", "model", "profile", "parts", "steps", "variant", "versions")
"""Entries of cell.json that follow from its settings and parts."""


class Altered(Exception):
    """A configuration that no version of this program recorded so; the message says what does not fit."""


class Unusable(Exception):
    """A configuration that cannot be built here, which says nothing against it: another version's, or a plug-in's."""


def configuration(directory: Path, id: str) -> Cell:
    """The cell of a directory that is listed as `id`, its parts built; Altered or Unusable."""
    path = directory / "cell.json"
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise Unusable(f"{path.name} is missing, or larger than {LARGEST:,} bytes")
    try:
        content = read_json(path)
        if content.get("cell") != id or rehashed(content) != id:
            raise Altered(
                f"cell.json was changed: its names and settings make another cell than {id}, by which it is known"
            )
        cell = recorded(content)
        for section in config.SECTIONS:
            cell.section(section)
        told = record(cell)
    except UserError as error:
        raise Unusable(str(error)) from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise Unusable(f"cell.json is not as this program writes it ({type(error).__name__}: {error})") from None
    for name in DERIVED:
        if content.get(name) != told[name]:
            raise Altered(
                f"cell.json was changed: {name} is {content.get(name)!r}, and its settings and parts make it "
                f"{told[name]!r}"
            )
    return cell
