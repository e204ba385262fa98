"""Estimates of the calls of a run to the models of both systems, made before it begins (`bench run --dry-run`).

The estimates assume that every reply is usable at once and that every episode lasts its whole length. In training this
is a lower bound on plans, since an episode that ends early begins another. In evaluations the number of steps is an
upper bound: a step with one possible action, or of System 1, asks no model, and equal prompts are answered once. Upper
bounds are in `bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage
    from guidebench.harness.parts import CellView

TOKENS: Mapping[str, tuple[int, int]] = {
    "plan": (610, 150), "reflection": (660, 200), "final": (750, 150), "action": (130, 5), "score": (170, 10),
}  # fmt: skip
"""Kind of call -> tokens of a prompt on Crafter, and of its reply, at four characters a token."""
SUBGOALS = 15
"""Sub-goals in memory that an evaluation finds with new attempts: as many as the longest of DSADF's tasks has."""
TEXTS = 50
"""Captions and sub-goals that a run embeds on Crafter."""


def trained(view: CellView) -> int:
    """Return the number of episodes that begin in a run's training, including the one that begins after its last
    step."""
    return 1 + int(view["training"].steps // view.suite.horizon(view.task))


def length(view: CellView) -> int:
    """Return the maximum number of steps of an evaluation episode."""
    return int(view.suite.in_evaluation().horizon(view.task))


def calls(**counts: int) -> Usage:
    """Return the usage of so many calls of each kind; the keyword arguments are keys of `TOKENS`."""
    from guidebench.harness.models.calls import Usage

    estimates = [(count, *TOKENS[name]) for name, count in counts.items()]
    return Usage(
        sum(count for count, _, _ in estimates),
        tokens_in=sum(count * read for count, read, _ in estimates),
        tokens_out=sum(count * written for count, _, written in estimates),
    )
