"""How long a run can become, known before it begins: its evaluations, its episodes, and what they are cut into.

Of an episode that a run collects it is known how long it is at least (`SuitePart.shortest`) and at most (`horizon`).
"""

from __future__ import annotations

from fractions import Fraction

from guidebench.harness.parts import There


def evaluations(there: There) -> int:
    """Return the number of a run's evaluations."""
    return int(-(-there["training"].steps // there["evaluation"].every))


def tested(there: There) -> int:
    """Return the episodes of all evaluations of a run."""
    return evaluations(there) * int(there["evaluation"].episodes)


def tested_steps(there: There) -> int:
    """Return the most environment steps of all evaluations of a run."""
    return tested(there) * int(there.suite.in_evaluation().horizon(there.task))


def demonstrated(there: There) -> int:
    """Return the most transitions of the demonstrations with which a run's replay begins."""
    return int(there["training"].demonstrations) * int(there.suite.horizon(there.task))


def ended(there: There, steps: int) -> int:
    """Return the most episodes that end within so many steps of training."""
    return steps // int(there.suite.shortest(there.task))


def stretches(there: There, length: int, steps: int) -> int:
    """Return the most disjoint stretches of `length` steps, each cut short by the end of its episode, into which so
    many steps of training are divided."""
    shortest, horizon = int(there.suite.shortest(there.task)), int(there.suite.horizon(there.task))
    longer = length * -(-shortest // length) + 1  # the shortest episode with one stretch more
    most = max(Fraction(-(-each // length), each) for each in (shortest, longer) if each <= horizon)
    return int(steps * most)


def demonstrated_stretches(there: There, length: int) -> int:
    """Return the most stretches, as of `stretches`, of the demonstrations."""
    return int(there["training"].demonstrations) * -(-int(there.suite.horizon(there.task)) // length)
