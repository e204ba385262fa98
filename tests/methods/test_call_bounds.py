"""No run asks a model more than its bound says beforehand (`AskingPart.at_most`), whatever the model answers. Stand-ins
answer small runs of every method usably, unusably or not at all, and count a token for each byte."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Usage
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.names import Chosen
from guidebench.harness.run import call_bounds
from tests.methods.contract import METHODS, MORE, PACKAGES, REHEARSED
from tests.methods.stand_ins import Manner, planned, spent

ALIKE = ("data of pictures", "demonstrations")
"""Rows left out, since they ask as others do."""
ROWS = {name: row for name, row in (METHODS | MORE).items() if name not in ALIKE}
ALONE = ("an object that is followed", "frames and captions", "sentences")
"""Of the rehearsed rows, those that ask in roles of their own."""
LONGER = {
    "ellm_exploration": "training.steps=200 evaluation.every=200", "dsadf": "training.steps=120 evaluation.every=60",
    "vlm_rb": "training.demonstrations=1",
}  # fmt: skip
"""Row -> settings that raise more questions: more steps of a random policy, or demonstrations."""
QUIET = {
    ("a room", "scorer"), ("dsadf_transfer", "performer"), ("dsadf_transfer", "scorer"),
    ("dsadf_transfer", "text_embedder"), ("ellm", "goals"),
    ("ellm", "text_embedder"),
}  # fmt: skip
"""Rows and roles in which such short runs ask nothing; other rows ask in the same role of the same part."""
UNBOUNDED: dict[tuple[str, str], str] = {}
"""(row, role) -> why the number of its questions has no bound."""


def most(cell: Cell, part: Chosen) -> Usage:
    """Return the bound of a run's usage in a role, with one attempt per call."""
    bounds = call_bounds.conversations(cell, part.role)
    assert bounds is not None
    model = cell.section(part.role)
    return reduce(Usage.plus, (call_bounds.questions(bound, model, part.kind) for bound in bounds), Usage())


def manners(cell: Cell) -> Sequence[Manner]:
    """Return the ways to answer a cell's calls; only chats can answer unusably."""
    return ("usable", "unusable", "lost") if any(part.kind == "chat" for part in cell.models) else ("usable", "lost")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.release] * (name in REHEARSED and name not in ALONE)) for name in ROWS],
)
def test_no_answer_makes_a_run_ask_more_than_was_said(name: str, tmp_path: Path, opengl: None) -> None:
    row = replace(ROWS[name], words=f"{ROWS[name].words} {LONGER.get(name, '')}")
    for suite, package in PACKAGES.items():
        if f" {suite}" in row.words:
            pytest.importorskip(package)
    for number, cell in enumerate(planned(row)):
        bounds = {part.role: most(cell, part) for part in cell.models if (name, part.role) not in UNBOUNDED}
        counts = dict.fromkeys(bounds, 0)
        for manner in manners(cell) if cell.models else ():
            try:
                usages = spent(cell, tmp_path / f"{number}-{manner}", manner, row.answers)
            except UserError as error:  # FuRL has no reward without these vectors
                assert manner == "lost" and "gave no vector of the instruction" in str(error), error
                continue
            for role, bound in bounds.items():
                for unit in ("calls", "tokens_in", "tokens_out", "images"):
                    assert getattr(usages[role], unit) <= getattr(bound, unit), (
                        role,
                        manner,
                        unit,
                        usages[role],
                        bound,
                    )
                counts[role] += usages[role].calls
        silent = {(name, role) for role, calls in counts.items() if not calls}
        assert silent <= QUIET, "a role that nobody asks shows nothing"


def test_every_part_that_asks_models_bounds_each_of_its_roles() -> None:
    """Each has `at_most` of its own or inherits one that is not the default, which knows no bound."""
    from guidebench.harness.parts import AskingPart

    models = {*registry.MODELS}
    parts = [
        registry.get(kind, name)
        for kind in registry.ASKING
        for name in registry.names(kind)
        if models & {*registry.get(kind, name).needs.values()}
    ]
    assert len(parts) > 15
    assert not [part.__name__ for part in parts if part.at_most is AskingPart.at_most]
