"""The dual system whose System 1 observes vectors of frames and is rewarded by captions of frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.interfaces import Array, Build, Context, Guide, Learner, Metrics, Place, State, Transition
from guidebench.methods.dsadf.agent import DualAgent
from guidebench.methods.dsadf.looking import CAPTIONER, IMAGE_ENCODER, about
from guidebench.methods.dsadf.seeing import IMAGE, SeeingDualSystem

if TYPE_CHECKING:
    from guidebench.baselines.experience import Experience


class SeeingAgent(DualAgent):
    """Trains and plays as DualAgent does, with vectors of frames in place of pictures, and with a model's captions of
    frames in place of the task's captions."""

    def __init__(
        self,
        config: SeeingDualSystem,
        build: Build,
        learner: Learner,
        experience: Experience,
        guide: Guide,
        adds: tuple[str, ...] = (),
    ) -> None:
        """`build.observations` are those of the learner; the others as of StandardAgent."""
        super().__init__(config, build, learner, experience, guide, adds)
        self._captioned = config.captions == "captioner" and config.trains
        self._looks = config.images and IMAGE_ENCODER not in config.unasked
        self.wants_snapshots |= config.trains and (self._captioned or self._looks)
        self._width = config.image_width
        self._snapshots: list[Array] = [np.zeros(0, np.uint8)] * build.rows
        """The snapshot of the state that each seed acts on next."""
        self._images = np.zeros((build.rows, self._width), np.float32)
        """The vector of its frame, [S, width]; zeros where the model gave none."""
        self._unanswered = np.zeros((2, build.rows))
        """Frames without a vector, and steps without a caption, of each seed."""

    # What the learner sees

    def fast(self, observation: Array, goals: Sequence[str], places: Sequence[Place], ctx: Context) -> Array:
        rows, vectors = np.array([place.row for place in places]), self.embedded(goals, places, ctx)
        images = None
        if self._looks:
            images = self._encoded(places, [ctx.snapshot(place.row, place.episode) for place in places], ctx)
        return self.learner.act(self._with_images(observation, vectors, images), rows, None, ctx.step)

    def _present(self, observation: Array, ctx: Context) -> Array:
        return self._with_images(observation, self.embedded(self._goals(), self._places(), ctx), self._images)

    def _with_images(self, observation: Array, vectors: Array, images: Array | None) -> Array:
        """Return the learner's observations, records [n], with the sub-goals' vectors [n, width] and, if the learner
        observes them, the vectors of frames [n, image_width]."""
        return self.learner_observation(
            observation, vectors, **({} if images is None or not self._looks else {IMAGE: images})
        )

    def _encoded(self, places: Sequence[Place], snapshots: Sequence[Array], ctx: Context) -> Array:
        """Return the vectors of the frames of these snapshots, float32 [n, image_width]; zeros where the model gave
        none."""
        questions = [
            about(IMAGE_ENCODER, place, snapshot[None]) for place, snapshot in zip(places, snapshots, strict=True)
        ]
        vectors = np.zeros((len(places), self._width), np.float32)
        for number, answer in enumerate(ctx.consult(questions)):
            if answer is None:
                self._unanswered[0, places[number].row] += self.active[places[number].row]
            else:
                vectors[number] = answer[0]
        return vectors

    # Algorithm 1

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Encode the first frames of these seeds' episodes, and make their plans."""
        if self.wants_snapshots:
            self._look(rows.tolist(), [ctx.snapshot(row) for row in rows.tolist()], ctx)
        super().begin(rows, observation, ctx)

    def observe(self, transition: Transition, ctx: Context) -> None:
        """Store a transition with the model's captions of its steps, if the agent has a captioner."""
        if self._captioned:
            assert transition.snapshot is not None and transition.words is not None
            transition = transition._replace(words=transition.words._replace(captions=self._captions(transition, ctx)))
        super().observe(transition, ctx)

    def _captions(self, transition: Transition, ctx: Context) -> tuple[str, ...]:
        """Return the model's caption of each seed's step; "" where it gave none."""
        assert transition.snapshot is not None
        questions = [
            about(CAPTIONER, place, np.stack([before, after]))
            for place, before, after in zip(self._places(), self._snapshots, transition.snapshot, strict=True)
        ]
        answers = ctx.consult(questions)
        self._unanswered[1] += [answer is None and bool(on) for answer, on in zip(answers, self.active, strict=True)]
        return tuple("" if answer is None else str(answer["caption"]) for answer in answers)

    def _arrive(self, transition: Transition, ctx: Context) -> None:
        if transition.snapshot is not None:
            self._look([*range(len(self._snapshots))], [*transition.snapshot], ctx)

    def _look(self, rows: Sequence[int], snapshots: Sequence[Array], ctx: Context) -> None:
        """Store the snapshots of the states that these seeds act on next, and the vectors of their frames."""
        for row, snapshot in zip(rows, snapshots, strict=True):
            self._snapshots[row] = snapshot.copy()
        if self._looks:
            self._images[[*rows]] = self._encoded([Place(row, 0) for row in rows], snapshots, ctx)

    def update(self, ctx: Context) -> Metrics:
        metrics = super().update(ctx)
        if not metrics:
            return metrics
        return {**metrics, "frames/failed": self._unanswered[0].copy(), "captions/failed": self._unanswered[1].copy()}

    # Diagnostics and state

    def recall(self, observation: Array, rows: Array) -> tuple[Array, Array]:
        """Return the learner's observations [n] with the sub-goals of training, and which of them are complete, bool
        [n]: none where the learner observes frames, which diagnostics do not draw."""
        if not self._looks:
            return super().recall(observation, rows)
        return np.zeros(len(observation), self._sees), np.zeros(len(observation), bool)

    def state(self, row: int) -> State:
        return {
            **super().state(row),
            "snapshot": self._snapshots[row],
            "image": self._images[row].copy(),
            "unanswered": self._unanswered[:, row].tolist(),
        }

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self._snapshots[row] = np.array(state["snapshot"], np.uint8)
        self._images[row] = state["image"]
        self._unanswered[:, row] = state["unanswered"]
