"""Episodes of a suite's own scripted policy, with a chosen share of random actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.capabilities import Demonstrates, HasExpert
from guidebench.harness.errors import UserError
from guidebench.harness.parts import CellView, DatasetPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Trajectory

ENTROPY = 21
"""Entropy of the seed sequence for layouts and random actions, distinct from those of training, evaluation, probes and
demonstrations."""


@register.dataset("scripted")
@dataclass(frozen=True)
class Scripted(DatasetPart):
    """Episodes of the suite's scripted policy, with a share of random actions; failed episodes are kept."""

    episodes: Annotated[int, Bounds(1), Unit("episodes of each task")] = 100
    """Episodes per task, each in its own layout (choice)."""
    noise: Annotated[float, Bounds(0, 1), Unit("share of actions")] = 0.3
    """Probability that an action is uniformly random instead of the policy's: 0 follows the policy, 1 acts at random
    throughout (choice)."""
    tasks: tuple[str, ...] = ()
    """Tasks of the suite whose episodes are gathered, one task after the other; [] means the task that is trained
    on."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% episodes of the suite's own scripted policy"

    def fits(self, view: CellView) -> str:
        """Return why it cannot be gathered for this suite, or ""."""
        unknown = [task for task in self.tasks if task not in view.suite.tasks]
        if unknown:
            return f"the suite has no task {unknown[0]!r} (known: {', '.join(view.suite.tasks)})"
        goalless = [task for task in self.tasks or (view.task,) if task in view.suite.goalless]
        if goalless:
            return f"the task {goalless[0]!r} has no goal that a scripted policy could follow"
        return ""

    @property
    def count(self) -> int:
        return self.episodes * max(1, len(self.tasks))

    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        found: list[Trajectory] = []
        for each in self.tasks or (task,):
            played: Any = suite.make(each)
            if isinstance(played, HasExpert):
                found += [self._played(played, each, suite.spaces(each)[1], number) for number in range(self.episodes)]
            elif isinstance(suite, Demonstrates):
                found += self._demonstrated(suite, played, each)
            else:
                raise UserError(f"task {each!r} has no scripted policy to gather a dataset of; name another dataset")
        if len({None if each.opening is None else each.opening.size for each in found}) > 1:  # of different tasks
            return [each._replace(opening=None) for each in found]
        return found

    def _played(self, task: Any, name: str, actions: Any, number: int) -> Trajectory:
        """Return the episode played in layout `number`."""
        import numpy as np

        from guidebench.harness.episodes.datasets import play

        layout, chance = np.random.SeedSequence(ENTROPY, spawn_key=(number,)).spawn(2)
        rng = np.random.default_rng(chance)

        def act(observation: Any) -> Any:
            """Return the policy's action or a random one; both are drawn at every step, so that settings differ only in
            noise."""
            random: Any = (
                rng.integers(actions.count)
                if actions.discrete
                else rng.uniform(-1, 1, actions.shape).astype(np.float32)
            )
            return random if rng.random() < self.noise else task.expert()

        return play(task, name, int(layout.generate_state(1)[0] >> 1), act)

    def _demonstrated(self, suite: Demonstrates, played: Any, task: str) -> list[Trajectory]:
        """Return episodes of a solver that plans whole episodes, so it cannot continue after a random action."""
        import numpy as np

        from guidebench.harness.episodes.datasets import of_demonstration

        if self.noise:
            raise UserError(
                f"the solver of task {task!r} plans whole episodes and cannot act at random in between: set the "
                f"dataset's noise=0"
            )
        found = []
        for number in range(self.episodes):
            layout = np.random.SeedSequence(ENTROPY, spawn_key=(number,)).spawn(1)[0]
            seed = int(layout.generate_state(1)[0] >> 1)
            if (shown := suite.demonstrate(task, seed)) is not None:
                played.reset(seed)
                found.append(of_demonstration(task, shown)._replace(opening=played.snapshot().copy()))
        return found
