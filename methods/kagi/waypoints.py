"""The settings of KAGI's guide, and the method's recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.baselines.agents.offline_online import ON_PROFILE, ON_SUITE
from guidebench.baselines.agents.offline_online import ROLE as OFFLINE
from guidebench.baselines.conversing import INSTRUCTION
from guidebench.harness import lengths
from guidebench.harness.capabilities import Calibrates, Locates, Projects
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Build, Dialogue, Guide, Suite
from guidebench.harness.logs import Column, Log, count
from guidebench.harness.parts import SCHEMA, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit, cite
from guidebench.methods.kagi.questions import MODEL_SETS, SEGMENTER, TRACKER, WAYPOINTS, oracles
from guidebench.methods.robofume import FEWER, PRACTISED, TWO_CAMERAS, SuccessClassifier, instructions, online_steps
from guidebench.methods.robofume.dialogue import FRAMES
from guidebench.methods.robofume.dialogue import ROLE as CLASSIFIER

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage

TRACED = 8
"""Most episodes of a run that are traced, evenly spread over its steps: of these the question and the gripper's path
are logged (choice: a run's page shows eight)."""
POINTS = 100
"""Most positions of a traced episode that are logged, evenly chosen (choice: every step of bin sorting's)."""
WAYPOINTS_LOG = Log(
    "the waypoints of an episode, or that there are none",
    {
        "collected": Column(bool, "whether the run collected the episode; else it is one of the dataset"),
        "episode": count("number of the episode among those that the run collected, if it is traced", optional=True),
        "first": count("number of its first transition in its store"),
        "failed": Column(bool, "whether no usable waypoints were found"),
        "instruction": Column(str, "what it asks"),
        "grasp": Column(str, "the grasp point that the model chose", optional=True),
        "target": Column(str, "the target point that the model chose", optional=True),
        "blocks": Column(str, "the blocks that the model chose, as JSON", optional=True),
        "path": Column(str, "the waypoints (u, v, h), fractions of a view's side, as JSON", optional=True),
        "retries": count("replies that could not be read before", optional=True),
    },
)
TRACKED = Log(
    "whether the object of an episode that the run collected was followed",
    {
        "first": count("number of its first transition in its store"),
        "failed": Column(bool, "whether the tracker gave no answer, or could not be asked"),
        "states": count("states after the first one"),
        "seen": count("of these, states in which both views show the object"),
    },
)
QUESTIONS = Log(
    "the last question about a traced episode: that about its waypoints, or that which the segmenter could not answer",
    {
        "episode": count("number of the episode among those that the run collected"),
        "first": count("number of its first transition in its store"),
        "role": Column(str, "whom it was put to"),
        "asked": Column(str, "content of the question, as JSON"),
        "snapshot": Column(str, "compressed snapshot of the episode's first state, in base64"),
        "cameras": Column(str, "matrices [2, 3, 4] of the views from above and from the side, as JSON", optional=True),
    },
)
TRACES = Log(
    "where the gripper went in a traced episode",
    {
        "first": count("number of its first transition in its store"),
        "tips": Column(str, f"(x, y, z) of the tip in pixels after at most {POINTS} of its steps, as JSON"),
    },
)


@register.guide("waypoints")
@dataclass(frozen=True)
class Waypoints(SuccessClassifier):
    """Rewards the gripper for following waypoints that a model chooses in the two views of an episode's first state
    (KAGI)."""

    formulation: Literal["both", "dense", "sparse"] = "both"
    """`both`: 1 where the sparse reward is 1, else the dense one. `dense`: that of the waypoints alone. `sparse`: that
    of the classifier or the task alone (KAGI, §III-C and fig. 5)."""
    sparse: Literal["task", "classifier"] = "classifier"
    """Who gives the sparse reward: the classifier, or the task's own success (KAGI, §III-C; `task`: choice)."""
    lam: Annotated[float, Bounds(0), Unit("per pixel")] = 0.1
    """Scale λ of the dense reward (KAGI, §III-C: .1 in simulation, .02 on its robot)."""
    phi: Annotated[float, Bounds(0), Unit("pixels")] = 15.0
    """Offset φ of the dense reward, the distance at which it is .5 (KAGI, §III-C: 15 in simulation, 100 on its
    robot)."""
    pixels: Annotated[int, Bounds(1), Unit("pixels")] = 100
    """Side of the views in which distances are measured, whatever the size of drawn frames (KAGI, §IV-B)."""
    views: Literal["dual", "single"] = "dual"
    """`dual`: distances in x, y and z, of both views. `single`: in x and y, and the model chooses no heights (KAGI,
    §III-B; `single`: an ablation)."""
    start: bool = True
    """Whether the model is told where the gripper is, so that the path begins there; else it begins at the thing, too
    far from the gripper for the dense reward to lead to it (choice: KAGI does not say)."""
    onward: bool = False
    """Whether the nearest waypoint of an episode may not go back to one before (choice: it may, as published)."""
    projection: Literal["true", "regressors"] = "true"
    """`true`: pixels by the suite's projection. `regressors`: by regressors that are fitted on calibration frames by
    RANSAC (KAGI, §III-B: regressors; choice: the projection is known in simulation)."""
    retries: Annotated[int, Bounds(0), Unit("replies")] = 2
    """Further attempts of the model after an invalid reply (choice)."""
    object: Annotated[bool, Later] = False
    """Whether the dense reward of what the run collects is the mean of the gripper's and of that of a point on the
    object, which a tracker follows (KAGI, §III-B: optional; the mean, and false: choice)."""

    version: ClassVar[int] = 1
    guidance: ClassVar[Mapping[str, str]] = {
        **SuccessClassifier.guidance, "guide/dense_share": "Share of a batch that has the waypoints' reward",
    }  # fmt: skip
    needs: ClassVar[Mapping[str, str]] = {
        SEGMENTER: "embedder", WAYPOINTS: "chat", TRACKER: "embedder", **SuccessClassifier.needs
    }  # fmt: skip
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {WAYPOINTS: (SCHEMA,)}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "scripted": {**MODEL_SETS["scripted"], TRACKER: "scripted", **SuccessClassifier.model_sets["scripted"]},
        "oracle": {**MODEL_SETS["oracle"], **SuccessClassifier.model_sets["oracle"]},
    }
    later: ClassVar[Mapping[str, str]] = {TRACKER: "object"}
    puts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        SEGMENTER: ("segment",), TRACKER: ("track",), **SuccessClassifier.puts
    }  # fmt: skip
    logs: ClassVar[Mapping[str, Log]] = {
        WAYPOINTS: WAYPOINTS_LOG, "tracked": TRACKED, "questions": QUESTIONS, "paths": TRACES, **SuccessClassifier.logs
    }  # fmt: skip
    citation: ClassVar[str | Path] = Path(__file__).with_name("kagi.bib")

    @property
    def unasked(self) -> tuple[str, ...]:
        """Return the roles that are never asked: those that the formulation does not need, and the tracker unless the
        object is followed. The dense reward alone needs no classifier, since collected episodes without waypoints have
        the reward 0."""
        classifier = () if self.sparse == "classifier" and self.formulation != "dense" else (CLASSIFIER,)
        tracker = () if self.follows else (TRACKER,)
        return (*classifier, *((SEGMENTER, WAYPOINTS) if self.formulation == "sparse" else ()), *tracker)

    @property
    def follows(self) -> bool:
        """Whether the object is followed: `object`, unless only the sparse reward counts."""
        return self.object and self.formulation != "sparse"

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        suite, drawing = view.suite, view["drawing"]
        title = suite.title
        if wrong := super().fits(view):
            return wrong
        if self.formulation == "sparse":
            return ""
        if not isinstance(suite, Projects):
            return (
                f"{title} has no calibrated cameras, so that no pixel of the gripper is known; choose a suite "
                f"that has (bin_sorting, metaworld, ogbench_scene), or guide.formulation=sparse"
            )
        if len(suite.cameras_of(view.task)) < 2:
            return f"{title} has one calibrated camera, and a view from above and one from the side are needed"
        if drawing is not None and getattr(drawing, "camera", "") != "both":
            return f"its models look at two views at once, and drawing.camera={drawing.camera}; set drawing.camera=both"
        if drawing is not None and getattr(drawing, "orientation", "upright") != "upright":
            return f"the projection is that of upright frames, and drawing.orientation={drawing.orientation}"
        if self.projection == "regressors" and not isinstance(suite, Calibrates):
            return f"{title} fits no regressors; set guide.projection=true"
        if self.follows and self.views == "single":
            return "the object is followed in both views, and guide.views=single; set guide.views=dual"
        if self.follows and (horizon := int(view.suite.horizon(view.task))) > FRAMES:
            return (
                f"an episode has {horizon} steps, and the object is followed in at most {FRAMES}; set "
                f"guide.object=false, or choose a task with shorter episodes"
            )
        if (privileged := oracles(view.parts)) and not isinstance(suite, Locates):
            roles = ", ".join(sorted(privileged))
            return f"{title} does not say where things are to be, as an oracle must be told ({roles})"
        return ""

    def ready(self, view: CellView) -> None:
        """Raise UserError if regressors find too few inliers, the suite cannot give an oracle the true places, a
        hand-written segmenter finds the object in less than half of the layouts that are tried, or the views do not
        determine a point on the object that is to be followed."""
        if self.formulation == "sparse":
            return
        if self.projection == "regressors":
            for camera in view.suite.cameras_of(view.task)[:2]:
                view.suite.calibrate(view.task, camera, self.pixels)
        if oracles(view.parts):
            view.suite.located(view.task, view.suite.make(view.task).snapshot())
        if view[SEGMENTER].backend == "scripted":
            from guidebench.methods.kagi.keypoints import LOOKS, visible_share

            code = view[SEGMENTER].spawn(view.suite, view.task)
            share = visible_share(code, view.suite, view.task, view["drawing"].spawn(view.task))
            if share < 0.5:
                raise UserError(
                    f"segmenter=scripted finds thing and place in the first frames of {share * LOOKS:.0f} of {LOOKS} "
                    f"layouts of {view.task!r}, so most episodes would have no waypoints; where the arm hides the "
                    f"thing as an episode begins, as with suite.start=grasped, choose segmenter=oracle or another start"
                )
        if self.follows:
            from guidebench.methods.kagi.sight import Sight
            from guidebench.methods.kagi.tracking import column_beside

            column_beside(*Sight(view.suite, view.task, self.pixels, False).cameras, (0.5, 0.5, 0.5))

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.kagi.guide import WaypointGuide, WaypointSettings
        from guidebench.methods.kagi.rewards import Shape
        from guidebench.methods.kagi.sight import Sight
        from guidebench.methods.robofume.guide import Source

        asks, fitted = self.formulation != "sparse", self.projection == "regressors"
        shape = Shape(self.lam, self.phi, self.onward)
        width = 3 if self.views == "dual" else 2
        privileged, spacing, both = oracles(build.parts), -(-build.steps // TRACED), self.formulation == "both"
        ways = WaypointSettings(shape, self.pixels, width, asks, both, privileged, self.start, self.follows, spacing)
        suites = [build.suite(row) for row in range(build.rows)]
        sights: list[Sight | None] = [None] * build.rows
        if asks:
            first = Sight(suites[0], build.task, self.pixels, fitted)
            sights = [
                first if suite == suites[0] else Sight(suite, build.task, self.pixels, fitted) for suite in suites
            ]
        source: Source = "none" if self.formulation == "dense" else self.sparse
        return WaypointGuide(instructions(build), sights, ways, self.every, self.threshold, source)

    def expected_usage(self, view: CellView, role: str) -> Usage | None:
        """Return an estimate of the calls in a role about a run's episodes and its dataset's, if episodes last for
        their horizon and every reply is valid; None if the dataset does not say how many episodes it has."""
        from guidebench.harness.models.calls import Usage

        if role == CLASSIFIER:
            return super().expected_usage(view, role)
        steps, horizon, data = online_steps(view), int(view.suite.horizon(view.task)), view[OFFLINE]
        if role == TRACKER:
            ended, views = steps // horizon, 2
            return Usage(views * ended, images=views * ended * (horizon + 1))
        stored = 0 if data is None else data.count
        if stored is None:
            return None
        calls = stored * (steps > 0) + -(-steps // horizon)
        frames = 2 if role == WAYPOINTS and self.views == "dual" else 1
        return Usage(calls, images=frames * calls)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of the calls in a role. Segmenter and waypoints' model are asked once about each episode
        of the run and of the dataset (at most as many as the replay has room for); the tracker is called for both views
        of each ended episode."""
        if role == CLASSIFIER:
            return super().at_most(view, role)
        from guidebench.methods.kagi import prompts

        data, ended = view[OFFLINE], lengths.ended(view, online_steps(view))
        if role == TRACKER:
            return [Most(2 * ended, prompt=INSTRUCTION, images=int(view.suite.horizon(view.task)) + 1)]
        stored = 0 if data is None else data.count if data.count is not None else int(view["training"].capacity)
        episodes = stored + 1 + ended
        if role == SEGMENTER:
            return [Most(episodes, prompt=INSTRUCTION, images=1)]
        prompt, reminder = prompts.most_bytes()
        return [Most(episodes, 1 + self.retries, prompt, reminder, images=2)]

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue with the model in a role."""
        if role == CLASSIFIER:
            return super().dialogue(suite, task, role)
        if role == SEGMENTER:
            from guidebench.methods.kagi.keypoints import Keypoints

            return Keypoints()
        if role == TRACKER:
            from guidebench.methods.kagi.tracking import Tracking

            return Tracking()
        from guidebench.methods.kagi.dialogue import WaypointDialogue

        return WaypointDialogue(self.retries)


GPT = cite("gpt-4o", "KAGI, §III-B: GPT-4o")
PROJECTING = ("metaworld", "metaworld_mt10", "metaworld_pbrl", "ogbench_scene")

register.method("kagi")(
    Method(
        summary="offline then online, rewarded for following a model's waypoints and by a success classifier",
        suite="bin_sorting",
        learner="cal_ql",
        agent="offline_online",
        guide="waypoints",
        roles={CLASSIFIER: "trained"},
        defaults={"waypoints.openai.model": GPT},
        on_suite={
            **{suite: {**ON_SUITE.get(suite, {}), **TWO_CAMERAS} for suite in PROJECTING},
            "bin_sorting": {**ON_SUITE["bin_sorting"], **TWO_CAMERAS, **PRACTISED},
        },
        on_profile=ON_PROFILE,
        ablations={
            "formulation=dense": {"guide.formulation": "dense"},
            "formulation=sparse": {"guide.formulation": "sparse"},
            "sparse=task": {"guide.sparse": "task"},
            "views=single": {"guide.views": "single"},
            "projection=regressors": {"guide.projection": "regressors"},
            "start=false": {"guide.start": False},
            "onward": {"guide.onward": True},
            "object": {"guide.object": True},
            "model=gpt-4v": {"waypoints": "openai", "waypoints.model": "gpt-4-turbo"},
            "model=gemini-1.5": {"waypoints": "openai", "waypoints.model": "gemini-1.5-pro"},
            "model=qwen2.5-vl": {"waypoints": "openai", "waypoints.model": "qwen2_5_vl_7b"},
            **FEWER,
        },
        citation=Waypoints.citation,
    )
)
