"""The classifiers that need no foundation model: one trained on demonstrations and failures, and a privileged one that
is given the task's successes.

`classifier=trained` and `classifier=oracle` name the judges `trained_classifier` and `oracle_classifier`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from guidebench.harness.capabilities import Fails, demonstrates
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question, ReadsPrompts, Suite
from guidebench.harness.parts import CellView, ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit, check_settings

if TYPE_CHECKING:
    from guidebench.harness.interfaces import Array
    from guidebench.harness.models.oracle import Oracle

Rate = Annotated[float, Bounds(0, 1), Unit("probability")]
CLIPS = "it answers about single states, in the words of a dialogue; choose it as classifier=… of robofume or kagi"


@register.judge("trained_classifier")
@dataclass(frozen=True)
class TrainedJudge(ModelPart):
    """A small network that is trained on frames of the suite's demonstrations and failures when it is first asked, once
    for all runs."""

    demonstrations: Annotated[int, Bounds(1), Unit("episodes of each task")] = 20
    """Demonstrations; frames of success are its positives, their other frames negatives (KAGI, §IV-B: 20, 10 and 4 of
    each direction; frames of success: choice)."""
    failures: Annotated[int, Bounds(0), Unit("episodes")] = 30
    """Failed episodes, of the tasks and of the suite's ways to fail in turn; all frames are negatives (KAGI, §IV-B)."""
    tasks: tuple[str, ...] = ()
    """Tasks of the demonstrations and failures; [] means the task that is trained on (choice)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 2
    """Steps between the frames of an episode that it is trained on, counted back from the last (choice: halves what is
    drawn)."""
    updates: Annotated[int, Bounds(1), Unit("gradient steps")] = 600
    """Gradient steps of its training (choice)."""
    batch_size: Annotated[int, Bounds(1), Unit("frames")] = 64
    """Frames per gradient step (choice)."""
    lr: Annotated[float, Bounds(0)] = 2e-3
    """Learning rate of AdamW at the first step; it falls to 0 linearly (choice)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of its weights and batches, the same in every run (choice)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 40
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: an episode of bin_sorting, so that training does not wait)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 3600.0
    """Time limit of one answer, training included, after which the process is restarted (choice: ample)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("robofume.bib")
    backend: ClassVar[str] = "scripted"
    draws: ClassVar[bool] = True
    title: ClassVar[str] = "a network trained on the suite's demonstrations and failures"

    def __post_init__(self) -> None:
        check_settings(self, "judge")

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        if not view.worded(self):
            return CLIPS
        if unknown := [task for task in self.tasks if task not in view.suite.tasks]:
            return f"the suite has no task {unknown[0]!r} for judge.tasks (known: {', '.join(view.suite.tasks)})"
        if mute := [task for task in self.tasks or (view.task,) if not demonstrates(view.suite, task)]:
            return f"the suite demonstrates no {mute[0]!r}, and without demonstrations it cannot be trained"
        if self.failures and not isinstance(view.suite, Fails):
            return (
                "the suite has no scripted policies that fail; with judge.failures=0 the frames of demonstrations "
                "before their success are its only negatives"
            )
        return ""

    def spawn(self, suite: Any, task: str, drawing: Any) -> ReadsPrompts:
        """Return the classifier, trained unless it is cached; UserError as for `trained.obtain`."""
        from guidebench.methods.robofume.trained import obtain

        return obtain(self, suite, task, drawing)


@register.judge("oracle_classifier")
@dataclass(frozen=True)
class OracleJudge(ModelPart):
    """Privileged: it is told whether each state is a success, and errs at the configured rates."""

    false_positive: Rate = 0.0
    """Probability of 1 for a state that is no success, drawn independently per state (choice: never wrong)."""
    false_negative: Rate = 0.0
    """Probability of 0 for a state that is a success, drawn independently per state (choice: never wrong)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 40
    """Steps between a question and the use of its answer; null equals 0, since an oracle answers immediately (choice:
    equal to the trained classifier's, so that only the answers differ)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model, it is told the task's own successes"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told which states are successes"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        return "" if view.worded(self) else CLIPS

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that answers a question to the classifier with float32 [m], 0 or 1 for each state."""
        return self._answer

    def _answer(self, question: Question, generator: np.random.Generator) -> Array:
        """Return the states' successes, each inverted with its error probability. UserError for a question without
        them (`dialogue.question`)."""
        if question.measures is None or question.measures.shape != (len(question.key), 1):
            raise UserError(
                f"a question in the role {question.to!r} does not tell its {len(question.key)} states' successes, "
                f"which are all that classifier=oracle knows; make it by methods.robofume.dialogue.question"
            )
        success = question.measures[:, 0] > 0
        wrong = generator.random(len(success)) < np.where(success, self.false_negative, self.false_positive)
        return np.asarray(success != wrong, np.float32)
