"""The parts that a study used, and the BibTeX entries that these parts declare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.reports.summary import bibtex
from guidebench.results import StudyRecord

GUIDEBENCH = Path(__file__).with_name("guidebench.bib")
"""The entry of this program; VERSION stands for the installed version."""
RLIABLE = Path(__file__).with_name("rliable.bib")
EXTERNAL = "external"
"""Backend of runs that were made elsewhere."""


class CitedEntries(NamedTuple):
    """BibTeX with a comment above each entry that names its users, and the parts without a known entry, with
    reasons."""

    text: str
    missing: tuple[str, ...]


class _Use(NamedTuple):
    user: str
    citation: str
    problem: str = ""


@functools.cache
def _version() -> str:
    return version("guidebench")


def _registered(kind: str, name: str) -> Any:
    try:
        return registry.get(kind, name)
    except UserError:
        return None


def cite(study: StudyRecord, get: Callable[[str, str], Any] = _registered) -> CitedEntries:
    """Return the BibTeX entry of every part of a study, of this benchmark and of rliable, once, in the order of first
    use.

    `get` maps kind and name to the registered part, or None.
    """
    uses = [
        _Use("this benchmark", bibtex.text(GUIDEBENCH).replace("VERSION", _version())),
        _Use("aggregates and intervals", bibtex.text(RLIABLE)),
        *(_use(get, *part) for part in used_parts(study)),
    ]
    entries: dict[str, tuple[bibtex.BibEntry, list[str]]] = {}
    plain: list[str] = []
    missing: list[str] = []
    for user, citation, problem in uses:
        try:
            cited = bibtex.entries(citation)
        except ValueError as error:
            cited, problem = [], f"its citation is not BibTeX ({error})"
        for entry in cited:
            first, names = entries.setdefault(entry.key, (entry, []))
            names.append(user)
            if first.text != entry.text:
                missing.append(f"{user}: its entry has the key {entry.key}, as a different one of {names[0]}")
        if problem or not citation:
            missing.append(f"{user}: {problem or 'it gives no citation'}")
        elif not cited:
            plain.append(f"{user}: nothing to cite: {' '.join(citation.replace('%', ' ').split())}")
    blocks = [f"% {', '.join(names)}\n{entry.text}\n" for entry, names in entries.values()]
    blocks += [f"% {line}\n" for line in [*plain, *missing]]
    return CitedEntries("\n".join(blocks), tuple(missing))


def used_parts(study: StudyRecord) -> tuple[tuple[str, str, bool], ...]:
    """Return (kind, name, whether the run was made elsewhere) of every part of a study's cells, once."""
    return tuple(dict.fromkeys(_used_parts(study)))


def _used_parts(study: StudyRecord) -> Iterable[tuple[str, str, bool]]:
    for cell in study.cells:
        external = cell.backend == EXTERNAL
        parts = [("suite", cell.suite, False), ("method", cell.method, external)]
        if cell.parts:
            parts += [(part.kind, part.name, external) for part in cell.parts.values()]
        else:
            parts += [("learner", cell.learner, external), ("judge", cell.model, external)]
        yield from ((kind, name, elsewhere) for kind, name, elsewhere in parts if name)


def _use(get: Callable[[str, str], Any], kind: str, name: str, external: bool) -> _Use:
    user = f"{kind} {name}"
    if external:
        return _Use(user, "", "made elsewhere; its entry is not known here")
    part = get(kind, name)
    if part is None:
        return _Use(user, "", "not installed here; install the package that it comes from")
    try:
        return _Use(user, bibtex.text(getattr(part, "citation", "")))
    except OSError as error:
        return _Use(user, "", f"its citation cannot be read ({error})")
