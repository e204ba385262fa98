"""An episode's progress through its plan: the present sub-goal, and when it is reached (DSADF, algorithm 2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guidebench.methods.dsadf.plans import FIND, Subgoal


class Course:
    """The plan of one episode and its present sub-goal. The last sub-goal is present until the episode ends, unless the
    plan is `partial`; without a plan the task itself is the only goal.

    A sub-goal that is a deed is reached when it was done as often as the plan says. One to find something is reached
    when the next deed of the plan is possible now. Any may be declared reached by the performer (`end`).
    """

    def __init__(self, plan: Sequence[Subgoal] = (), partial: bool = False) -> None:
        """`partial`: whether the plan covers only a part of the task, so that its last sub-goal can be reached like the
        others, after which the task itself is the goal."""
        self.plan, self.partial, self.at, self.done, self.steps = tuple(plan), partial, 0, 0, 0
        """The plan, whether it is partial, the index of the present sub-goal, how often its deed was done, and its
        steps so far."""

    @property
    def present(self) -> Subgoal | None:
        """Return the present sub-goal; None if the task itself is the goal."""
        return self.plan[self.at] if self.at < len(self.plan) else None

    @property
    def over(self) -> bool:
        """Return whether the plan is partial and all of its sub-goals have been reached."""
        return self.partial and 0 < len(self.plan) == self.at

    @property
    def last(self) -> bool:
        """Return whether the present sub-goal, or the task without any, is present until the episode ends."""
        return self.present is None or (not self.partial and self.at == len(self.plan) - 1)

    def look(self, possible: Collection[str] | None) -> None:
        """Go on to the next deed of the plan if the present sub-goal is to find something and that deed is possible
        now. `possible`: the deeds that are possible; None where observations do not show them."""
        deeds = (step.name for step in self.plan[self.at :] if not step.name.startswith(f"{FIND} "))
        if possible is None or next(deeds, None) not in possible:
            return
        while self.present is not None and self.present.name.startswith(f"{FIND} "):
            self.end()

    def acted(self, done: Collection[str]) -> None:
        """Count a step that did these deeds, and go on to the next sub-goal if the present one is done often enough."""
        self.steps += 1
        present = self.present
        if present is None or present.name not in done or present.name.startswith(f"{FIND} "):
            return
        self.done += 1
        if self.done >= present.times:
            self.end()

    def end(self) -> None:
        """Go on to the next sub-goal, unless the present one lasts until the episode ends (`last`)."""
        if not self.last:
            self.at, self.done, self.steps = self.at + 1, 0, 0
