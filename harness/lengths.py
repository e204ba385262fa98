"""How long a run can become, known before it begins: its evaluations, its episodes, and what they are cut into.

Of an episode that a run collects it is known how long it is at least (`SuitePart.shortest`) and at most (`horizon`).
"""

from __future__ import annotations

from fractions import Fraction

from guidebench.harness.parts import CellView


def evaluations(view: CellView) -> int:
    """Return the number of a run's evaluations."""
    return int(-(-view["training"].steps // view["evaluation"].every))


def tested(view: CellView) -> int:
    """Return the episodes of all evaluations of a run."""
    return evaluations(view) * int(view["evaluation"].episodes)


def tested_steps(view: CellView) -> int:
    """Return the most environment steps of all evaluations of a run."""
    return tested(view) * int(view.suite.in_evaluation().horizon(view.task))


def demonstrated(view: CellView) -> int:
    """Return the most transitions of the demonstrations with which a run's replay begins."""
    return int(view["training"].demonstrations) * int(view.suite.horizon(view.task))


def ended(view: CellView, steps: int) -> int:
    """Return the most episodes that end within so many steps of training."""
    return steps // int(view.suite.shortest(view.task))


def stretches(view: CellView, length: int, steps: int) -> int:
    """Return the most disjoint stretches of `length` steps, each cut short by the end of its episode, into which so
    many steps of training are divided."""
    shortest, horizon = int(view.suite.shortest(view.task)), int(view.suite.horizon(view.task))
    longer = length * -(-shortest // length) + 1  # the shortest episode with one stretch more
    most = max(Fraction(-(-each // length), each) for each in (shortest, longer) if each <= horizon)
    return int(steps * most)


def demonstrated_stretches(view: CellView, length: int) -> int:
    """Return the most stretches, as of `stretches`, of the demonstrations."""
    return int(view["training"].demonstrations) * -(-int(view.suite.horizon(view.task)) // length)
