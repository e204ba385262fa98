"""How many calls a run makes to the models of both systems, estimated before it begins (`bench run --dry-run`).

Every reply is taken to be usable at once, and every episode to last its whole length. In training this is a lower bound
on plans, since an episode that ends early begins another. In evaluations the number of steps is an upper bound: a step
with one possible action, or of System 1, asks nobody, and equal prompts are answered once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage
    from guidebench.harness.parts import There

TOKENS: Mapping[str, tuple[int, int]] = {
    "plan": (610, 150), "reflection": (660, 200), "final": (750, 150), "action": (130, 5), "score": (170, 10),
}  # fmt: skip
"""Tokens of a prompt on Crafter and of its reply, at four characters each."""
SUBGOALS = 15
"""Sub-goals in memory that an evaluation finds with new attempts: as many as the longest of DSADF's tasks has."""
SUBGOAL, FAULT = 250, 500
"""Most bytes of a sub-goal in a prompt (`plans.LONGEST_PHRASE`, and how often it is to be done), and of what is quoted
of a reply that cannot be used."""
TEXTS = 50
"""Captions and sub-goals that a run embeds on Crafter."""


def evaluations(there: There) -> int:
    """Return the number of a run's evaluations."""
    return int(-(-there["training"].steps // there["evaluation"].every))


def tested(there: There) -> int:
    """Return the episodes of all evaluations of a run."""
    return evaluations(there) * int(there["evaluation"].episodes)


def trained(there: There) -> int:
    """Return the episodes that begin in a run's training, the one after its last step included."""
    return 1 + int(there["training"].steps // there.suite.horizon(there.task))


def length(there: There) -> int:
    """Return the most steps of an evaluation's episode."""
    return int(there.suite.in_evaluation().horizon(there.task))


def performer_bytes(suite: Any, task: str, recent: int, inferred: bool) -> tuple[int, int]:
    """Return the bytes of the longest prompt of a performer, and of the longest text that it is told after a reply that
    it cannot use. Makes the task. `suite`: one that names actions; `recent`: actions that the prompt repeats;
    `inferred`: whether a planner infers the goal."""
    from guidebench.baselines.conversing import Misread
    from guidebench.baselines.text_acting import TEXT
    from guidebench.methods.dsadf import prompts
    from guidebench.methods.dsadf.deeds import Deeds

    names, deeds = suite.action_names(task), Deeds(suite, task)
    longest = max((*names, *deeds.names), key=len)
    goal = "x" * max(len(suite.make(task).instruction.encode()), 4 * prompts.LONGEST_TARGET * inferred)
    text = "x" * math.prod(suite.spaces(task)[0].parts[TEXT].shape)
    message = prompts.performing(
        goal,
        text,
        names,
        "x" * SUBGOAL,
        [longest] * recent,
        True,
        dict.fromkeys(names, longest) if deeds.others else {},
    )
    reminder = prompts.action_reminder(Misread("impossible", ", ".join(names)))
    return _bytes(str(message.content[0])), _bytes(reminder) + FAULT


def _bytes(text: str) -> int:
    return len(text.encode())


def calls(**counts: int) -> Usage:
    """Return the usage of so many calls of each kind, by the names of `TOKENS`."""
    from guidebench.harness.models.calls import Usage

    told = [(count, *TOKENS[name]) for name, count in counts.items()]
    return Usage(
        sum(count for count, _, _ in told),
        tokens_in=sum(count * read for count, read, _ in told),
        tokens_out=sum(count * written for count, _, written in told),
    )
