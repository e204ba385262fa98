"""How far an episode has come in its plan: which sub-goal is present, and when it is reached (DSADF, algorithm 2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guidebench.methods.dsadf.plans import FIND, Subgoal


class Course:
    """The plan of one episode and its present sub-goal. The last sub-goal is present until the episode ends; without a
    plan the task itself is the only goal.

    A sub-goal that is an action is reached when the action was taken, while it was possible, as often as the plan says.
    One to find something is reached when the next sub-goal is an action that is possible now. Any may be declared
    reached by the performer (`end`).
    """

    def __init__(self, plan: Sequence[Subgoal] = ()) -> None:
        self.plan, self.at, self.done, self.steps = tuple(plan), 0, 0, 0
        """The plan, the index of the present sub-goal, how often its action was done, and its steps so far."""

    @property
    def present(self) -> Subgoal | None:
        """Return the present sub-goal; None if the task itself is the goal."""
        return self.plan[self.at] if self.plan else None

    @property
    def last(self) -> bool:
        """Return whether no other sub-goal follows."""
        return self.at >= len(self.plan) - 1

    def look(self, possible: Collection[str] | None) -> None:
        """Take note of the actions that are possible now, before the next step; None where that is not shown."""
        present = self.present
        if present is not None and not self.last and present.name.startswith(f"{FIND} ") and possible is not None:
            following = self.plan[self.at + 1].name
            if not following.startswith(f"{FIND} ") and following in possible:
                self.end()

    def acted(self, action: str, possible: Collection[str] | None) -> None:
        """Take note of the action of a step, and of those that were possible; None where that is not shown."""
        self.steps += 1
        present = self.present
        if present is None or action != present.name or action.startswith(f"{FIND} "):
            return
        self.done += possible is None or action in possible
        if self.done >= present.times:
            self.end()

    def end(self) -> None:
        """Go on to the next sub-goal, if there is one."""
        if not self.last:
            self.at, self.done, self.steps = self.at + 1, 0, 0
