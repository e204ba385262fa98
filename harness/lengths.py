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
    """Return the number of episodes of all evaluations of a run."""
    return evaluations(view) * int(view["evaluation"].episodes)


def tested_steps(view: CellView) -> int:
    """Return the maximum number of environment steps of all evaluations of a run."""
    return tested(view) * int(view.suite.in_evaluation().horizon(view.task))


def demonstrated(view: CellView) -> int:
    """Return the maximum number of transitions of the demonstrations with which a run's replay begins."""
    return int(view["training"].demonstrations) * int(view.suite.horizon(view.task))


def ended(view: CellView, steps: int) -> int:
    """Return the maximum number of episodes that end within `steps` environment steps of training."""
    return steps // int(view.suite.shortest(view.task))


def stretches(view: CellView, length: int, steps: int) -> int:
    """Return the maximum number of clips when `steps` environment steps of training are cut into disjoint clips of
    `length` steps, the last of each episode being shorter."""
    shortest, horizon = int(view.suite.shortest(view.task)), int(view.suite.horizon(view.task))
    longer = length * -(-shortest // length) + 1  # the shortest episode with one stretch more
    most = max(Fraction(-(-episode // length), episode) for episode in (shortest, longer) if episode <= horizon)
    return int(steps * most)


def demonstrated_stretches(view: CellView, length: int) -> int:
    """Return the maximum number of clips of `length` steps (as in `stretches`) that the demonstrations are cut into."""
    return int(view["training"].demonstrations) * -(-int(view.suite.horizon(view.task)) // length)
