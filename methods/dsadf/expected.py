"""How many calls a run makes to the models of both systems, estimated before it begins (`bench run --dry-run`).

Every reply is taken to be usable at once, and every episode to last its whole length. In training this is a lower bound
on plans, since an episode that ends early begins another. In evaluations the number of steps is an upper bound: a step
with one possible action, or of System 1, asks nobody, and equal prompts are answered once. What is asked at most is in
`bounds`.
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
"""Tokens of a prompt on Crafter and of its reply, at four characters each."""
SUBGOALS = 15
"""Sub-goals in memory that an evaluation finds with new attempts: as many as the longest of DSADF's tasks has."""
TEXTS = 50
"""Captions and sub-goals that a run embeds on Crafter."""


def trained(view: CellView) -> int:
    """Return the episodes that begin in a run's training, the one after its last step included."""
    return 1 + int(view["training"].steps // view.suite.horizon(view.task))


def length(view: CellView) -> int:
    """Return the most steps of an evaluation's episode."""
    return int(view.suite.in_evaluation().horizon(view.task))


def calls(**counts: int) -> Usage:
    """Return the usage of so many calls of each kind, by the names of `TOKENS`."""
    from guidebench.harness.models.calls import Usage

    told = [(count, *TOKENS[name]) for name, count in counts.items()]
    return Usage(
        sum(count for count, _, _ in told),
        tokens_in=sum(count * read for count, read, _ in told),
        tokens_out=sum(count * written for count, _, written in told),
    )
