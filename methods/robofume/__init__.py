"""RoboFuME: a sparse reward from a classifier that says of each state whether the instruction has been carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.agents.offline_online import DEMONSTRATIONS, ON_PROFILE, ON_SUITE, OfflineOnline
from guidebench.baselines.conversing import longest_instruction
from guidebench.harness import lengths
from guidebench.harness.capabilities import InstructsBySnapshot
from guidebench.harness.interfaces import Array, ArraySpec, Build, Dialogue, Guide, Suite
from guidebench.harness.logs import Log, count
from guidebench.harness.parts import AskingPart, CellView, Most
from guidebench.harness.recipes import Layer, Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings, cite
from guidebench.methods.robofume import judges as judges  # registers the classifiers
from guidebench.methods.robofume.dialogue import CLASSIFIED, FRAMES, PROMPTS, ROLE, SuccessDialogue, prompts

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage

JUDGED = Log(
    "what the success classifier said of an episode's judged states",
    {
        "states": count("judged states"),
        "successes": count("judged states in which the task counts as solved"),
        "positives": count("states that the classifier called successes"),
        "false_positives": count("of these, states that are none"),
        "false_negatives": count("successes that the classifier did not see"),
        "unanswered": count("states without a usable answer"),
    },
)


@register.guide("success_classifier")
@dataclass(frozen=True)
class SuccessClassifier(AskingPart):
    """Rewards states in which a classifier sees the instruction carried out by 1, all others by 0 (RoboFuME)."""

    every: Annotated[int, Bounds(1), Unit("environment steps")] = 1
    """Steps between judged states of an episode; its last state is always judged (KAGI, §III-C: every step)."""
    threshold: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.5
    """Least P(success) of a state that is called a success (choice)."""
    consensus: bool = False
    """Whether four prompts of other words must all be answered with yes (KAGI, §IV-D: with fewer demonstrations)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = {"guide/positives": "States that the classifier rewarded by 1 so far"}
    needs: ClassVar[Mapping[str, str]] = {ROLE: "judge"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"scripted": {ROLE: "scripted"}, "oracle": {ROLE: "oracle"}}
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = {ROLE: ("judge",)}
    shows_frames: ClassVar[bool] = True
    several_stores: ClassVar[bool] = True
    each_goal: ClassVar[bool] = True
    logs: ClassVar[Mapping[str, Log]] = {"classified": JUDGED}
    citation: ClassVar[str | Path] = Path(__file__).with_name("robofume.bib")

    def __post_init__(self) -> None:
        check_settings(self, "guide")

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        suite, horizon = view.suite, view.suite.horizon(view.task)
        if view.task in suite.by_turns and not isinstance(suite, InstructsBySnapshot):
            return (
                f"the instruction of {view.task!r} changes from episode to episode, and {suite.title} does not tell "
                f"it of a state (`instruction_at`); choose another task"
            )
        if horizon > FRAMES * self.every:
            return (
                f"an episode has {horizon} steps, and at most {FRAMES} of its states can be judged; set guide.every to "
                f"{-(-horizon // FRAMES)} or more"
            )
        if view["training"].capacity < horizon:
            return (
                f"training.capacity={view['training'].capacity} does not hold an episode of {horizon} steps, so that "
                f"its rewards would come too late; raise it"
            )
        return ""

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.robofume.guide import SparseGuide

        return SparseGuide(build.rows, instructions(build), self.every, self.threshold)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue with the classifier about an episode's judged states."""
        return SuccessDialogue(self.consensus)

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        return CLASSIFIED if role == ROLE else None

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of the calls about a run's judged states, if every episode lasts for its horizon."""
        from guidebench.harness.models.calls import Usage

        horizon = int(view.suite.horizon(view.task))
        judged = online_steps(view) // horizon * -(-horizon // self.every)
        calls = judged * (PROMPTS if self.consensus else 1)
        return Usage(calls, images=calls)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds: one call, or one for each prompt of the consensus, about each judged state of the
        episodes that a run collects."""
        judged = lengths.stretches(view, self.every, online_steps(view))
        wordings = prompts(longest_instruction(view.suite, view.task), joined=True)[: PROMPTS if self.consensus else 1]
        return [Most(judged, prompt=len(prompt.encode()), images=1) for prompt in wordings]


def online_steps(view: CellView) -> int:
    """Return the number of environment steps that a run takes, offline updates left out."""
    steps, agent = int(view["training"].steps), view["agent"]
    return max(0, steps - agent.offline_steps(steps)) if isinstance(agent, OfflineOnline) else steps


def instructions(build: Build) -> Any:
    """Return a function (row, snapshot) -> the instruction of that seed's episode, given the snapshot of one of its
    states."""
    suites = [build.suite(row) for row in range(build.rows)]
    fixed: dict[int, str] = {}

    def instruction_of(row: int, snapshot: Array) -> str:
        suite = suites[row]
        if isinstance(suite, InstructsBySnapshot):
            return suite.instruction_at(build.task, snapshot)
        if row not in fixed:
            fixed[row] = str(suite.make(build.task).instruction)
        return fixed[row]

    return instruction_of


PRACTISED: Layer = {
    "classifier.trained.tasks": cite(("forward", "backward"), "KAGI, §IV-A: demonstrations of both directions")
}
FEWER: Mapping[str, Layer] = {
    name: {**layer, "classifier.trained.demonstrations": next(iter(layer.values()))}
    for name, layer in DEMONSTRATIONS.items()
}
"""Ablations with fewer demonstrations in the offline data and in the classifier's training."""
TWO_CAMERAS: Layer = {"drawing.camera": cite("both", "KAGI, §III-B: a top-down and a side image")}

register.method("robofume")(
    Method(
        summary="offline then online from a sparse reward that a success classifier gives",
        suite="bin_sorting",
        learner="cal_ql",
        agent="offline_online",
        guide="success_classifier",
        roles={ROLE: "trained"},
        on_suite={**ON_SUITE, "bin_sorting": {**ON_SUITE["bin_sorting"], **TWO_CAMERAS, **PRACTISED}},
        on_profile=ON_PROFILE,
        ablations={
            "consensus": {"guide.consensus": True},
            "reward=task": {"guide": "none"},
            "threshold=0.9": {"guide.threshold": 0.9},
            **FEWER,
        },
        citation=SuccessClassifier.citation,
    )
)
