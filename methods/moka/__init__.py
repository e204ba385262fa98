"""MOKA: an arm follows a model's keypoints and waypoints by fixed motions, without learning (Fang et al. 2024)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.baselines.conversing import INSTRUCTION
from guidebench.harness import lengths
from guidebench.harness.capabilities import Locates, Projects, Steers
from guidebench.harness.interfaces import Agent, Build, Dialogue, Suite
from guidebench.harness.logs import Column, Log, count
from guidebench.harness.parts import SCHEMA, AgentPart, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings, cite
from guidebench.methods.kagi.keypoints import Keypoints
from guidebench.methods.kagi.questions import MODEL_SETS, SEGMENTER, WAYPOINTS, oracles

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage

SET = "choice: a depth that is set in advance, as MOKA's are (KAGI, appendix)"


@register.agent("open_loop")
@dataclass(frozen=True)
class OpenLoop(AgentPart):
    """Asks models for keypoints and waypoints as an episode begins, and then moves the gripper along them by fixed
    motions without looking at anything but the gripper again; it takes no training steps."""

    grasp_height: Annotated[float, Bounds(0, 1), Unit("metres")] = 0.02
    """Height of the gripper's tip where it closes (choice: the middle of bin_sorting's blocks; a depth that is set in
    advance, as MOKA's are: KAGI, appendix)."""
    release_height: Annotated[float, Bounds(0, 1), Unit("metres")] = 0.03
    """Height of the tip where it opens (choice: as `grasp_height`, with room for a block that hangs)."""
    travel_height: Annotated[float, Bounds(0, 1), Unit("metres")] = 0.12
    """Height at which the gripper travels (choice: that of bin_sorting's scripted policy)."""
    near: Annotated[float, Bounds(0.001, 1), Unit("metres")] = 0.012
    """Distance at which a movement has reached its place (choice)."""
    wait: Annotated[int, Bounds(1, 100), Unit("environment steps")] = 4
    """Steps for which the gripper opens or closes (choice)."""
    patience: Annotated[int, Bounds(1, 1_000), Unit("environment steps")] = 10
    """Most steps of one movement: then the next one follows, wherever the gripper is (choice)."""
    retries: Annotated[int, Bounds(0), Unit("calls")] = 2
    """Further attempts after a reply without usable waypoints (choice: as KAGI's guide)."""

    version: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, str]] = MappingProxyType({SEGMENTER: "embedder", WAYPOINTS: "chat"})
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {WAYPOINTS: (SCHEMA,)}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = MODEL_SETS
    consults: ClassVar[tuple[str, ...]] = (SEGMENTER, WAYPOINTS)
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({SEGMENTER: ("segment",)})
    shows_frames: ClassVar[bool] = True
    each_goal: ClassVar[bool] = True
    citation: ClassVar[str | Path] = Path(__file__).with_name("moka.bib")
    logs: ClassVar[Mapping[str, Log]] = MappingProxyType(
        {
            "paths": Log(
                "the path of one episode of an evaluation",
                {
                    "trial": count("number of the episode in its evaluation, from 0"),
                    "instruction": Column(str, "the episode's instruction"),
                    "grasp": Column(int, "number of the chosen grasp point; 0 without usable waypoints", low=0),
                    "target": Column(int, "number of the chosen target point; 0 without usable waypoints", low=0),
                    "blocks": Column(str, "the model's sequence of tiles and lines, as JSON"),
                    "retries": count("replies that could not be used before the last one"),
                    "carried_out": Column(bool, "whether the last movement began before the episode ended"),
                },
            )
        }
    )

    def __post_init__(self) -> None:
        check_settings(self, "agent")

    @property
    def learns(self) -> bool:
        return False

    def spawn(self, build: Build) -> Agent:
        from guidebench.methods.moka.agent import OpenLoopAgent

        return OpenLoopAgent(self, build)

    def fits(self, view: CellView) -> str:
        """Return why this agent cannot act in this cell, or ""."""
        if view.task in view.suite.goalless:
            return f"the task {view.task!r} has no goal to move anything for; choose another task"
        if not (isinstance(view.suite, Projects) and isinstance(view.suite, Steers)):
            return (
                "it moves the gripper to points of calibrated views, and the suite has no such views or does not say "
                "how its actions move the gripper; choose bin_sorting or a task of metaworld"
            )
        if (camera := getattr(view["drawing"], "camera", "")) != "both":
            return f"its models see two views, and drawing.camera={camera}; set drawing.camera=both"
        if (privileged := oracles(view.parts)) and not isinstance(view.suite, Locates):
            roles = ", ".join(sorted(privileged))
            return f"the suite does not say where things are to be, as an oracle must be told ({roles})"
        return ""

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of the calls in a role: one for each episode of a run's evaluations."""
        from guidebench.harness.models.calls import Usage

        return Usage(lengths.tested(view))

    def at_most(self, view: CellView, role: str) -> Sequence[Most]:
        """Return an upper bound of the calls in a role: one question about each episode of the evaluations."""
        from guidebench.methods.kagi import prompts

        if role == SEGMENTER:
            return [Most(lengths.tested(view), prompt=INSTRUCTION, images=1)]
        prompt, reminder = prompts.most_bytes()
        return [Most(lengths.tested(view), 1 + self.retries, prompt, reminder, images=2)]

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue of a role: those of KAGI's guide, with paths that the gripper can follow."""
        if role == SEGMENTER:
            return Keypoints()
        from guidebench.methods.moka import motion
        from guidebench.methods.moka.dialogue import PathDialogue

        return PathDialogue(self.retries, functools.partial(motion.led, self, suite, task))


register.method("moka")(
    Method(
        summary="a model's keypoints and waypoints, followed by fixed motions without learning or looking again",
        agent="open_loop",
        suite="bin_sorting",
        defaults={
            "drawing.camera": cite("both", "KAGI, §III-B: a view from above and one from the side"),
            "waypoints.openai.model": cite("gpt-4o", "KAGI, §III-B: GPT-4o; MOKA's is GPT-4V"),
        },
        on_suite={
            "bin_sorting": {
                "training.demonstrations": cite(0, "choice: it learns nothing"),
                "drawing.size": cite(400, "choice: large enough for labels of a 6 × 6 grid"),
                "evaluation.every": cite(30_000, "choice: it does not learn, so only the last evaluation is run"),
            }
        },
        ablations={"resets=imprecise": {"suite.displaced": 0.03}},
        citation=OpenLoop.citation,
    )
)
