"""LaGEA: a model writes feedback on each episode, which shapes the reward beside FuRL's aligned similarity to a goal.

Two methods: `lagea`, as the paper describes it, and `lagea_released`, as its published code works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from guidebench.baselines.text_vectors import TextVector
from guidebench.harness import lengths
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import ArraySpec, Build, Dialogue, Guide, Suite, TransitionColumn
from guidebench.harness.logs import Column, Log, count, share
from guidebench.harness.parts import SCHEMA, CellView, Most
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite
from guidebench.methods.furl import Furl
from guidebench.methods.lagea import feedback as feedback  # registers the hand-written chats

CODE = "LaGEA, released code"
WEIGHT = TransitionColumn("keyframe_weight", "late", initial=float("nan"), batched=False)
"""The column with ŵ of the frame after each transition."""
TRACED = 10
"""One in this many episodes of a run is traced: its rewards and the snapshots of its key frames are logged."""
LOGGED_POINTS = 50
"""Most steps of a traced episode whose rewards are logged."""
EPISODE = count("index of the episode in the run, from 0")
FRAME_INDEX = count("index of the frame in the episode: 0 shows the state after the reset, t the state after step t")
LOGS: Mapping[str, Log] = {
    "feedback": Log(
        "what the model wrote about one episode",
        {
            "episode": EPISODE,
            "succeeded": Column(bool, "whether any step of the episode was a success"),
            "outcome": Column(str, "outcome that the model states: success, failure, or empty"),
            "code": Column(str, "code of the main error or success in the taxonomy"),
            "explanation": Column(str, "the model's explanation of the code"),
            "secondary": Column(str, "codes of further errors, separated by commas"),
            "frames": Column(str, "frames of the episode that the model cites, separated by commas"),
            "fix": Column(str, "what the model suggests"),
            "confidence": share("the model's confidence in its answer"),
            "summary": Column(str, "the model's summary"),
            "retries": count("invalid replies before this one"),
            "empty": Column(bool, "whether no reply was valid, so that the episode has no feedback"),
        },
    ),
    "keyframes": Log(
        "one key frame of an episode",
        {
            "episode": EPISODE,
            "frame": FRAME_INDEX,
            "weight": Column(float, "weight of the frame in the episode, whose mean is 1", low=0),
            "similarity": Column(float, "similarity of the frame to the goal image"),
            "snapshot": Column(str, "compressed snapshot to draw the frame from, in base64", optional=True),
        },
    ),
    "shaping": Log(
        "the dense reward at one step of an episode, when its feedback had arrived",
        {
            "episode": EPISODE,
            "frame": FRAME_INDEX,
            "success": Column(bool, "whether the step was a success"),
            "goal": Column(float, "r^goal, the reward for a rise of the goal potential", low=-1, high=1),
            "feedback": Column(float, "r^fb, the weighted reward for a rise of the feedback potential"),
            "share": share("alpha, the share of r^fb in the mixture"),
            "fused": Column(float, "the dense reward, before its weight rho", low=-1, high=1),
        },
    ),
}


@register.guide("lagea")
@dataclass(frozen=True)
class Lagea(Furl):
    """Adds rewards for the rise of two potentials, closeness to goal and to a model's feedback on the episode, to the
    task's reward; projections are aligned with the feedback while the agent learns (LaGEA)."""

    text_width: Annotated[int, Bounds(1, 65_536), Unit("numbers")] = 768
    """Dimension of the feedback's vectors (LaGEA, §3.1.1: GPT-2)."""

    keyframes: Literal["saliency", "turning_points", "none"] = "saliency"
    """How key frames are chosen. `saliency`: the most salient frames; `turning_points`: turns of the similarity first,
    as in the released code; `none`: all steps have the weight 1, the ablation of table 7 (LaGEA, §3.1.2)."""
    similarity: Literal["projected", "raw"] = "projected"
    """Similarity to the goal image from which key frames are chosen: the cosine after projection, or the dot product of
    the embedder's vectors, as in the released code (LaGEA, algorithm 1)."""
    saliency: Annotated[tuple[float, ...], Bounds(0, 1)] = (0.5, 0.3, 0.2)
    """Shares ω of similarity, its change, and the change of that in a frame's saliency; their sum is 1 (choice: LaGEA's
    released code, since its table 5 is unreadable)."""
    most_keyframes: Annotated[int, Bounds(2), Unit("frames")] = 16
    """Largest number M of key frames of an episode (choice: LaGEA's released code, since its table 5 is unreadable)."""
    spacing: Annotated[int, Bounds(1), Unit("environment steps")] = 15
    """Smallest distance between key frames (choice: LaGEA's released code, since its table 5 is unreadable)."""
    window: Annotated[int, Bounds(0), Unit("environment steps")] = 2
    """Half-width h of the triangular weights around a key frame (choice: LaGEA's released code, since its table 5 is
    unreadable)."""
    floor: Annotated[float, Bounds(0.001, 1)] = 0.25
    """Weight β of a step far from all key frames, before the weights are scaled to mean 1 (choice: LaGEA's released
    code, since its table 5 is unreadable)."""

    frames: Annotated[int, Bounds(2), Unit("frames")] = 28
    """Number N of frames of an episode that the model sees (choice: LaGEA's table 5 is unreadable)."""
    shown: Literal["keyframes", "even"] = "keyframes"
    """Which frames the model sees. `keyframes`: the key frames, topped up by evenly spread ones; `even`: evenly spread
    ones alone, as in the released code (LaGEA, A.7; §3.1.1 names evenly spread ones)."""
    history: Annotated[int, Bounds(0), Unit("episodes")] = 3
    """Earlier episodes whose feedback the prompt repeats (choice: LaGEA's table 5 is unreadable)."""
    retries: Annotated[int, Bounds(0), Unit("calls")] = 3
    """Further attempts after a reply that does not fit the schema; then the episode has no feedback (choice: LaGEA's
    table 5 is unreadable)."""
    structured: bool = True
    """Whether the feedback must fit a schema with a taxonomy of errors. If false, it is free text (LaGEA, §3.1.1;
    false: table 3)."""
    tell_outcome: bool = False
    """Whether the prompt says if the episode succeeded (LaGEA, §3.1.1: the model states it; true: released code)."""
    embedded: Literal["all", "summary"] = "all"
    """Text of the feedback that is embedded: all of its textual fields, or its summary alone, as in the released code
    (LaGEA, A.7)."""

    alignment: Literal["paper", "released", "ranking", "frozen"] = "paper"
    """How feedback and images are aligned. `paper`: with the paper's weights and uniformity; `released`: with those of
    the released code; `ranking`: not at all, the projections learn from FuRL's losses alone; `frozen`: they stay as
    initialised, the ablation of table 7 (LaGEA, §3.1.3)."""
    align_every: Annotated[int, Bounds(1), Unit("gradient steps")] = 1
    """Gradient steps of the learner between alignment steps (LaGEA, released code)."""
    bce_temperature: Annotated[float, Bounds(0.001)] = 0.25
    """Temperature τ of the calibration loss (choice: LaGEA's released code, since its table 5 is unreadable)."""
    nce_temperature: Annotated[float, Bounds(0.001)] = 0.07
    """Temperature τ of the contrastive losses (LaGEA, released code)."""
    bce_share: Annotated[float, Bounds(0)] = 1.0
    """Weight λ of the calibration loss (LaGEA, released code)."""
    nce_share: Annotated[float, Bounds(0)] = 1.0
    """Weight λ of the contrastive loss of successes (LaGEA, released code)."""
    smoothing: Annotated[float, Bounds(0, 1)] = 0.05
    """Label smoothing of the symmetric contrastive loss (LaGEA, released code)."""
    alignment_share: Annotated[float, Bounds(0)] = 0.02
    """Weight λ of the distance between image and feedback (choice: LaGEA's released code, since its table 5 is
    unreadable)."""
    uniformity_share: Annotated[float, Bounds(0)] = 0.001
    """Weight λ of the uniformity loss (choice: LaGEA's released code, since its table 5 is unreadable)."""
    contrast_after: Annotated[int, Bounds(0), Unit("environment steps")] = 0
    """Steps before the first step on the symmetric loss (LaGEA, algorithm 1)."""
    contrast_from: Literal["start", "success"] = "start"
    """Whether the symmetric loss also waits for the end of the seed's first episode that FuRL's losses can use as a
    success (LaGEA, algorithm 1: no; released code: yes)."""
    mask_shared: bool = False
    """Whether samples of one episode, which share their feedback, are left out of each other's negatives (LaGEA,
    released code: no)."""

    discount: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ of the potentials (LaGEA, released code)."""
    goal_temperature: Annotated[float, Bounds(0.001)] = 0.05
    """Temperature τ_goal of the goal potential and of the reward for its rise (choice: LaGEA's released code, since its
    table 5 is unreadable)."""
    feedback_temperature: Annotated[float, Bounds(0.001)] = 0.15
    """Temperature τ_f of the reward for a rise of the feedback potential (choice: LaGEA's released code, since its
    table 5 is unreadable)."""
    agreement: Literal["paper", "released"] = "paper"
    """How the share of the feedback's reward grows with the agreement of instruction and feedback: by the paper's
    equation, or as in the released code, which has one share per batch (LaGEA, §3.2)."""
    alpha_base: Annotated[float, Bounds(0, 1)] = 0.5
    """Share of the feedback's reward at full agreement (LaGEA, released code)."""
    alpha_min: Annotated[float, Bounds(0, 1)] = 0.2
    """Smallest share of the feedback's reward (choice: LaGEA's released code, since its table 5 is unreadable)."""
    alpha_max: Annotated[float, Bounds(0, 1)] = 0.95
    """Largest share of the feedback's reward (choice: LaGEA's released code, since its table 5 is unreadable)."""
    goal_delta: bool = True
    """Whether the goal potential is rewarded (LaGEA, §3.2; false: figure 5)."""
    feedback_delta: bool = True
    """Whether the feedback potential is rewarded (LaGEA, §3.2; false: figure 5)."""
    differenced: bool = True
    """Whether the rise of the potentials is rewarded, rather than their value after the step (LaGEA, §3.2; false: A.11,
    delta reward ablation)."""

    adaptive: bool = True
    """Whether the weight ρ falls as the agent succeeds; if false, it is `rho` (LaGEA, §3.3; false: figure 5)."""
    rho: Annotated[float, Bounds(0)] = 0.25
    """Weight ρ of the dense reward if it is not adaptive, and the start of its running average (choice: LaGEA's
    released code, since its table 5 is unreadable)."""
    rho_min: Annotated[float, Bounds(0, 1)] = 0.05
    """Weight ρ when every episode succeeds (choice: LaGEA's released code, since its table 5 is unreadable)."""
    rho_max: Annotated[float, Bounds(0, 1)] = 0.99
    """Weight ρ without any progress (choice: LaGEA's released code, since its table 5 is unreadable)."""
    rho_rate: Annotated[float, Bounds(0.0001, 1)] = 1.0
    """Rate at which the running average of ρ follows its equation, per gradient step; 1 uses the equation itself
    (LaGEA, §3.3)."""
    success_rate: Annotated[float, Bounds(0.0001, 1)] = 0.01
    """Rate at which the running average of successes follows each episode (choice: LaGEA's released code, since its
    table 5 is unreadable)."""
    limit: Annotated[float | None, Bounds(0)] = 0.25
    """Largest absolute value of ρ times the dense reward; null sets no limit (choice: as the released code, without
    which ρ̂·r̃ would outweigh r_task; the paper has none)."""
    success_reward: float = 1.0
    """Task reward of a success; that of any other step is -1 (LaGEA, §3.2: {-1, 1}; FuRL's is 0)."""

    version: ClassVar[int] = 2
    guidance: ClassVar[Mapping[str, str]] = {
        "guide/reward": "Reward of goal and feedback in the last batch, before its weight rho",
        "guide/rho": "Weight rho of that reward",
        "guide/alpha": "Share of the feedback in that reward",
    }
    needs: ClassVar[Mapping[str, str]] = {"embedder": "embedder", "text_embedder": "embedder", "feedback": "chat"}
    model_sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "scripted": {**Furl.model_sets["scripted"], "text_embedder": "scripted", "feedback": "scripted"},
        "oracle": {"feedback": "oracle"},
    }
    answer_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {"feedback": (SCHEMA,)}
    widths: ClassVar[Mapping[str, str]] = {**Furl.widths, "text_width": "text_embedder"}
    logs: ClassVar[Mapping[str, Log]] = LOGS
    citation: ClassVar[str | Path] = Path(__file__).with_name("lagea.bib")

    def __post_init__(self) -> None:
        if len(self.saliency) != 3 or abs(sum(self.saliency) - 1) > 1e-6:
            raise UserError(
                f"guide.saliency={list(self.saliency)}: expected three shares whose sum is 1, such as [0.5,0.25,0.25]"
            )
        for low, high in (("rho_min", "rho_max"), ("alpha_min", "alpha_max")):
            if getattr(self, low) > getattr(self, high):
                raise UserError(
                    f"guide.{low}={getattr(self, low)} exceeds guide.{high}={getattr(self, high)}; lower the first, or "
                    f"raise the second"
                )

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        if not self.goal:
            return "its reward needs the goal image; set guide.goal=true, or choose method=furl_no_goal"
        if not self.structured and getattr(view["feedback"], "answer_form", "") == SCHEMA:
            return "guide.structured=false asks for free text, which has no schema; leave feedback.answer=schema out"
        late = 1 + max(view[role].delay or 0 for role in ("embedder", "feedback"))
        if view["training"].capacity < view.suite.horizon(view.task) + late:
            return (
                f"an episode must still be stored when its last frame is embedded, and the replay keeps "
                f"{view['training'].capacity:,} transitions; set training.capacity to at least "
                f"{view.suite.horizon(view.task) + late:,}"
            )
        return super().fits(view)

    def spawn(self, build: Build) -> Guide:
        from guidebench.methods.lagea.guide import LageaGuide

        return LageaGuide(build, self)

    def dialogue(self, suite: Suite, task: str, role: str) -> Dialogue:
        """Return the dialogue that answers one question in a role."""
        if role == "embedder":
            return super().dialogue(suite, task, role)
        if role == "text_embedder":
            return TextVector()
        from guidebench.methods.lagea.feedback.dialogue import ReflectionDialogue

        instruction = suite.make(task).instruction
        return ReflectionDialogue(self.structured, self.tell_outcome, self.retries, self.embedded, instruction)

    def at_most(self, view: CellView, role: str) -> Sequence[Most] | None:
        """Return upper bounds of the calls in a role: for the embedder, those of FuRL and the first frame of each
        episode; for the chat, feedback on each ended episode; for the text embedder, the vector of this feedback."""
        from guidebench.methods.lagea.feedback import bounds

        episodes = lengths.ended(view, int(view["training"].steps))
        if role == "embedder":
            frame_bounds = super().at_most(view, role)
            return None if frame_bounds is None else [*frame_bounds, Most(1 + episodes, images=1)]
        max_tokens = getattr(view["feedback"], "max_tokens", None)
        if role == "text_embedder":
            return [Most(episodes, prompt=bounds.text(self.structured, max_tokens))]
        horizon, instruction = view.suite.horizon(view.task), view.suite.make(view.task).instruction
        prompt = bounds.prompt(instruction, horizon, self.frames, self.history, self.structured, max_tokens)
        return [Most(episodes, 1 + self.retries, prompt, bounds.reminder(self.structured), images=self.frames)]

    def array(self, view: CellView, role: str) -> ArraySpec | None:
        """Return the array specification of an embedder's answers; None for the chat, which answers in JSON."""
        if role == "embedder":
            return super().array(view, role)
        return ArraySpec("feedback_vector", (self.text_width,)) if role == "text_embedder" else None


DEFAULTS: Mapping[str, Any] = {
    "embedder.transformers.model": cite("liv", "LaGEA, §4: LIV"),
    "text_embedder.transformers.model": cite("gpt2", "LaGEA, §3.1.1"),
    "text_embedder.scripted.width": cite(768, "choice: as GPT-2's"),
    "feedback.transformers.model": cite("qwen2_5_vl_3b", "LaGEA, §3.1: Qwen2.5-VL-3B"),
    "feedback.openai.model": cite("qwen2_5_vl_3b", "LaGEA, §3.1: Qwen2.5-VL-3B"),
}
RELEASED: Mapping[str, Any] = {
    f"guide.{name}": cite(value, CODE)
    for name, value in {
        "keyframes": "turning_points", "similarity": "raw", "frames": 64, "shown": "even", "history": 10, "retries": 9,
        "tell_outcome": True, "embedded": "summary", "alignment": "released", "contrast_after": 25_000,
        "contrast_from": "success", "agreement": "released", "rho_rate": 0.1,
    }.items()
} | {
    "text_embedder.transformers.pool": cite("last_and_mean", CODE),
    "text_embedder.transformers.text_tokens": cite(128, CODE),
    "feedback.transformers.temperature": cite(0.5, CODE),
    "feedback.openai.temperature": cite(0.5, CODE),
}  # fmt: skip
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "alignment=frozen": {"guide.alignment": "frozen"},
    "alignment=ranking": {"guide.alignment": "ranking"},
    "feedback=freeform": {"guide.structured": False},
    "rho=fixed": {"guide.adaptive": False},
    "reward=task": {"guide.goal_delta": False, "guide.feedback_delta": False},
    "keyframes=none": {"guide.keyframes": "none"},
    "delta=none": {"guide.differenced": False},
    "no_goal_delta": {"guide.goal_delta": False},
    "no_feedback_delta": {"guide.feedback_delta": False},
    "negatives=other_episodes": {"guide.mask_shared": True},
    "relay=off": {"agent": "standard"},
    "every=4": {"guide.every": 4},
}
"""Table 7's six ablations in its order, with one of ours after its first, figure 5's other two, and ours."""


def _method(name: str, summary: str, **layer: Any) -> None:
    recipe = Method(
        summary=summary, guide="lagea", agent="relay", suite="metaworld_mt10", chat="transformers",
        roles={"explorer": "sac"}, defaults={**DEFAULTS, **layer}, ablations=ABLATIONS, citation=Lagea.citation,
    )  # fmt: skip
    register.method(name)(recipe)


_method("lagea", "FuRL's projections, and a reward from a model's feedback on each episode, as the paper describes it")
_method("lagea_released", "LaGEA as its published code works", **RELEASED)
