"""A reward learnt from preferences between segments, and the method PEBBLE, whose teacher is scripted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from guidebench.harness.capabilities import coordinates
from guidebench.harness.interfaces import Build, Guide
from guidebench.harness.logs import Column, Log, count, share
from guidebench.harness.parts import AskingPart, CellView
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

LABELS = Log(
    "one query to the teacher, its answer, and the learnt rewards before it",
    {
        "asked": count("environment step of the query"),
        "session": count("number of the session, from 0"),
        "query": count("number of the query in the run, from 0"),
        "outcome": Column(str, "labelled, equal, inconsistent, unreadable, failed or skipped"),
        "truth": share("a perfect teacher's label: 0, 1, or 0.5 for segments of equal return"),
        "kept": Column(bool, "whether the reward is trained on the pair with this label"),
        **{f"reward_{n}": Column(float, f"the task's own return of segment {n}") for n in (0, 1)},
        **{f"learned_{n}": Column(float, f"the learnt reward of segment {n} before this label") for n in (0, 1)},
        "preference": share("probability that segment 1 is preferred; missing without a label", optional=True),
        "first": count("the model's answer to the query: 0 (neither), 1 or 2", optional=True),
        "second": count("its answer with the segments swapped", optional=True),
        "retries": count("calls repeated because a response could not be read", optional=True),
        "imagined": Column(str, "kept, or why the imagined segment was rejected", optional=True),
        **{
            f"reward_{name}": Column(float, f"the task's own return of the {name} segment", optional=True)
            for name in ("imagined", "chosen", "other")
        },
    },
)
SKETCHES = Log(
    "positions in the segments of each session's first query for which a segment was imagined",
    {
        "query": count("number of the query in the run, from 0"),
        "segment": Column(str, "imagined, preferred or other"),
        "t": count("step in the segment, from 0"),
        "name": Column(str, "the object, as the suite's coordinates name it"),
        "x": Column(float, "first coordinate, in the suite's unit"),
        "y": Column(float, "second coordinate"),
        "z": Column(float, "third coordinate, where there is one", optional=True),
    },
)


@register.guide("preference")
@dataclass(frozen=True)
class Preference(AskingPart):
    """Explores without reward, then asks a teacher in sessions which segments it prefers, and rewards what the teacher
    prefers.

    This is the framework of PEBBLE with the settings of RL-SaLLM-F, which all of that paper's methods share (§5.1,
    §6.2).
    """

    budget: Annotated[int, Bounds(1), Unit("queries")] = 2_000
    """Queries in the whole run (RL-SaLLM-F, §6.2 and table 2)."""
    queries: Annotated[int, Bounds(1), Unit("queries")] = 20
    """Pairs of segments queried in a session (RL-SaLLM-F, §6.2 and table 2)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 5_000
    """Environment steps between sessions (RL-SaLLM-F, table 2)."""
    segment: Annotated[int, Bounds(1), Unit("transitions")] = 10
    """Length H of a segment (RL-SaLLM-F, §6.2 and table 2)."""
    pretraining: Annotated[int | None, Bounds(1), Unit("environment steps")] = 10_000
    """Environment steps before the first session, during which exploration is rewarded; null means the learner's
    initial random steps alone, without a reward (RL-SaLLM-F, app. A.1)."""
    intrinsic: Literal["log", "distance"] = "log"
    """Exploration reward: `log`, the logarithm of the distance to the k-th nearest neighbour, or `distance`, that
    distance divided by its running standard deviation (RL-SaLLM-F, §5.1; its code has the distance)."""
    neighbours: Annotated[int, Bounds(1), Unit("states")] = 5
    """Rank k of the nearest neighbour whose distance is used (RL-SaLLM-F's code, topK)."""
    sampling: Literal["uniform", "disagreement", "entropy"] = "uniform"
    """How pairs are chosen: `uniform` at random; `disagreement` and `entropy` take, among more candidates, those on
    which the ensemble disagrees most or is least certain. The first session is always uniform (RL-SaLLM-F's code,
    feed_type)."""
    candidates: Annotated[int, Bounds(1), Unit("pairs per query")] = 10
    """Candidate pairs per query when sampling is not uniform (B-Pref's code, large_batch)."""
    recent: Annotated[int, Bounds(1), Unit("episodes")] = 100
    """Most recent episodes from which segments are drawn, including the running one (B-Pref's code, max_size)."""
    sees: Literal["state", "coordinates", "frame"] = "state"
    """Input of the reward: `state`, the state in which an action was taken; `coordinates`, the entries of this state
    that the suite's coordinates name; or `frame`, a frame of the state after the action, read by a convolutional
    network (RL-SaLLM-F, app. A.2; coordinates: its code, in the mazes; frame: RL-VLM-F)."""
    frame_size: Annotated[int, Bounds(47, 1024), Unit("pixels")] = 64
    """Side length at which frames are stored and shown to the reward (choice: RL-VLM-F's code has 300, which takes 270
    KB per step)."""
    ensemble: Annotated[int, Bounds(1), Unit("networks")] = 3
    """Reward networks, whose mean output is the reward (RL-SaLLM-F, app. A.2)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (256, 256, 256)
    """Widths of the hidden layers of reward networks on states (RL-SaLLM-F, app. A.2)."""
    lr: Annotated[float, Bounds(0)] = 3e-4
    """Learning rate of the reward networks' Adam (RL-SaLLM-F, app. A.2)."""
    batch_size: Annotated[int, Bounds(1), Unit("pairs")] = 128
    """Pairs per gradient step of the reward networks (B-Pref's code, train_batch_size)."""
    epochs: Annotated[int, Bounds(1), Unit("epochs")] = 10
    """Maximum number of passes over all preferences after a session (RL-SaLLM-F, app. A.2)."""
    enough: Annotated[float, Bounds(0, 1)] = 0.97
    """Training accuracy of a pass above which no further pass follows (B-Pref's code)."""
    smoothing: Annotated[float, Bounds(0, 0.5)] = 0.0
    """Label smoothing ε: a label y is trained as ε + (1 − 2ε)·y (B-Pref's code, label_margin)."""
    relabel: bool = True
    """Whether all stored transitions are relabelled with the new reward after each session; otherwise only after the
    first (Lee et al. 2021, §4.2)."""
    updates_after_reset: Annotated[int, Bounds(0), Unit("gradient updates")] = 100
    """Extra gradient updates after the first reward is learnt and the critics are reinitialised (RL-SaLLM-F's code,
    reset_update)."""

    logs: ClassVar[Mapping[str, Log]] = {"labels": LABELS, "imagined": SKETCHES}
    needs: ClassVar[Mapping[str, str]] = {"teacher": "teacher"}
    guidance: ClassVar[Mapping[str, str]] = {
        "preference/labels": "Labels of the preference set so far",
        "preference/label_accuracy": "Share of the labels so far that agree with the task's reward",
    }
    version: ClassVar[int] = 2
    citation: ClassVar[str | Path] = Path(__file__).with_name("preference.bib")

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        horizon, steps, observations = view.suite.horizon(view.task), view["training"].steps, view.observations
        if observations.parts or observations.categories or len(observations.shape) != 1:
            description = (
                f"the parts {', '.join(observations.parts)}"
                if observations.parts
                else f"{observations.dtype} of shape {observations.shape}"
            )
            return f"it learns its reward from observations that are a vector of numbers, and these are {description}"
        if "critic" not in view["learner"].resets:
            return "the critic begins anew after pre-training, and this learner cannot do that; name learner=sac or td3"
        if self.segment > horizon:
            return (
                f"guide.segment={self.segment} transitions are longer than an episode of {horizon}; lower guide.segment"
            )
        if self.budget < self.queries:
            return (
                f"guide.budget={self.budget} is smaller than a session of guide.queries={self.queries}; raise the one "
                f"or lower the other"
            )
        starts, explored = view["learner"].learning_starts, self.explored(view.parts)
        if explored >= steps:
            return (
                f"guide.pretraining={explored} leaves nothing of training.steps={steps} for the learnt reward; "
                f"lower the one or raise the other"
            )
        if explored < self.segment:
            return (
                f"the first session comes after guide.pretraining={explored} steps, before there is a segment "
                f"of {self.segment}; raise guide.pretraining to at least guide.segment"
            )
        if explored < starts:
            return (
                f"guide.pretraining={explored} ends before learner.learning_starts={starts}: the first reward "
                f"would come before the first update; raise guide.pretraining to at least {starts} or lower "
                f"learner.learning_starts"
            )
        if self.sees == "coordinates" and not coordinates(view.suite, view.task):
            return "guide.sees=coordinates, and the suite names no coordinates of this task; set guide.sees=state"
        return self._unseen(view) if self.sees == "frame" else ""

    def _unseen(self, view: CellView) -> str:
        """Return why no frames are available to the reward, or ""."""
        if view["drawing"] is None:
            return (
                "guide.sees=frame, and no part of the cell shows frames, so none are drawn; name teacher=vlm or set "
                "guide.sees=state"
            )
        if view["teacher"].imagines:
            return (
                "guide.sees=frame, and the teacher imagines states, of which there are no frames; set "
                "teacher.augment=none or guide.sees=state"
            )
        return ""

    def explored(self, parts: Mapping[str, Any]) -> int:
        """Return the environment steps before the first session."""
        return int(self.pretraining or parts["learner"].learning_starts)

    def planned(self, parts: Mapping[str, Any]) -> int:
        """Return the queries of a whole run; a session at the last step is excluded, since its answers would come too
        late."""
        sessions = 1 + max(0, int(parts["training"].steps) - 1 - self.explored(parts)) // self.every
        return min(self.budget, sessions * self.queries)

    def stored_bytes(self, parts: Mapping[str, Any], task: str) -> int:
        """Return the bytes stored per transition: a frame if the reward reads frames, and a snapshot if the teacher
        gets any."""
        frame = 3 * self.frame_size**2 if self.sees == "frame" else 0
        if not parts["teacher"].keeps_snapshots:
            return frame
        example = parts["suite"].make(task)
        example.reset(0)
        return frame + len(example.snapshot())

    def spawn(self, build: Build) -> Guide:
        from guidebench.baselines.guides.preference.guide import PreferenceGuide

        return PreferenceGuide(self, build)


register.method("pebble")(
    Method(
        summary="a reward learnt from the preferences of a scripted teacher, after exploring without one",
        learner="sac",
        guide="preference",
        teacher="oracle",
        suite="metaworld_pbrl",
        ablations={
            "sampling=disagreement": {"guide.sampling": "disagreement"},
            "sampling=entropy": {"guide.sampling": "entropy"},
            "pretraining=null": {"guide.pretraining": None},
            "relabel=false": {"guide.relabel": False},
            "ensemble=1": {"guide.ensemble": 1},
            "smoothing=0.1": {"guide.smoothing": 0.1},
            "teacher=noisy": {"teacher.beta": 1.0},
            "teacher=myopic": {"teacher.gamma": 0.9},
            "teacher=mistake": {"teacher.mistake": 0.1},
            "teacher=skip": {"teacher.skip": 0.1},
            "teacher=equal": {"teacher.equal": 0.1},
        },
        citation=Preference.citation,
    )
)
