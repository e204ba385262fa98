"""Play the episodes of a run's gallery again, and compare their actions and pictures with those that were handed in.

A gallery is what somebody drew: its numbers may be those of the run and its pictures those of another policy. Where the
final checkpoint and the OpenGL backend are here, the same policy on the same layouts must take the same actions, by
their digest, and the frames drawn of it, encoded in the same way, must be the same up to `WITHIN`. Call `replayed` in
the process that plays policies (`playing.Player`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.records.clips import Clip, Gallery, read_gallery
from guidebench.results import galleries
from guidebench.results.verification.record import UNVERIFIED, Check, gallery_check

if TYPE_CHECKING:
    from guidebench.harness.interfaces import Task
    from guidebench.harness.loop.evaluation import Result

WITHIN = 2
"""Largest difference of a pixel's colours, of 255, between a frame that was handed in and the one drawn here."""


class GalleryRun(NamedTuple):
    """A run with a gallery."""

    cell: Path
    """Directory of the run's cell."""
    id: str
    seed: int
    """Seed of the run, whose directory is seed-SEED."""
    cassette: Path | None = None
    """Recorded answers for an agent that calls models while it acts; None if there are none."""


def check(seed: int, differences: Mapping[int, str]) -> Check:
    """Return the check of a run's gallery. `differences`: episode -> how its replay differs, or "". A difference does
    not affect the run's numbers, so the check then counts as one that could not be made."""
    if wrong := next(
        (f"episode {number}: {difference}" for number, difference in differences.items() if difference), ""
    ):
        return Check(gallery_check(seed), None, f"{UNVERIFIED}: {wrong}")
    episodes = ", ".join(map(str, differences))
    return Check(gallery_check(seed), True, f"episodes {episodes} were played again: equal actions and pictures")


def replayed(gallery_run: GalleryRun) -> dict[int, str]:
    """Return, for each episode of a run's gallery, how its replay differs, or "". Raise UserError if its episodes
    cannot be played and drawn here, and Misfit for a policy of another network."""
    import torch

    from guidebench.harness.execution import Models
    from guidebench.harness.identity.cells import record
    from guidebench.harness.loop.backends import consultations
    from guidebench.harness.loop.build import make_build
    from guidebench.harness.loop.evaluation import Evaluator, solving
    from guidebench.harness.loop.job import Job
    from guidebench.harness.models import study_models
    from guidebench.harness.playback.reevaluation import SHIFT, load_agent
    from guidebench.harness.records.study import RunDirectory
    from guidebench.harness.streams import Streams
    from guidebench.results.verification.configuration import configuration
    from guidebench.results.verification.playing import MOST_EPISODES, check_policy

    torch.set_num_threads(1)  # as where it was drawn, so that sums round equally
    cell = configuration(gallery_run.cell, gallery_run.id)
    run = RunDirectory(gallery_run.cell / f"seed-{gallery_run.seed}")
    gallery = read_gallery(run.path)
    if gallery is None:
        raise UserError("the run has no gallery")
    suite, task = cell.section("suite").of_run(gallery_run.seed).in_evaluation(), cell.names.task
    drawing = cell.section("drawing") or suite.drawing()
    _check_origin(gallery, drawing.opengl(task))
    if gallery.played > MOST_EPISODES:
        raise UserError(f"{gallery.played:,} episodes are more than {MOST_EPISODES:,}")
    policy = run.path / "policy.safetensors"
    check_policy(policy, cell)
    asked_roles = [role for role in sorted(cell.consulted) if study_models.is_recorded(cell.section(role))]
    if asked_roles and (gallery_run.cassette is None or not gallery.from_run):
        raise UserError(f"its agent asks its {' and '.join(asked_roles)} while it acts, and the answers are not there")
    models = Models(mode="replay", cassette=str(gallery_run.cassette)) if asked_roles else Models()
    seed, step = (gallery_run.seed, gallery.step) if gallery.from_run else (gallery.seed + SHIFT, 0)
    scope = f"evaluation/{step}" if gallery.from_run else f"eval/{gallery.seed}"
    watched = Watched({episode.episode for episode in gallery.episodes})
    with tempfile.TemporaryDirectory() as scratch:
        agent = load_agent(cell, policy, gallery_run.seed, Path(scratch), suite.spaces(task))
        if not (agent.repeatable or cell.consulted):
            raise UserError("its agent acts at random, so that no episode repeats")
        solve = solving(cell.section("agent"), lambda row: suite, task)
        evaluator = Evaluator(lambda row: suite.make(task), gallery.played, [Streams(seed)], cell.score, solve)
        build = make_build(cell, [gallery_run.seed], "cpu", [Path(scratch)])
        job = Job("verify", scratch, record(cell), (gallery_run.seed,), "cpu", models=asdict(models))
        with consultations(job, cell, build) as within:
            played_episodes = evaluator(agent, step, [0], watched, within(scope))
    by_number = {played.episode: played for played in played_episodes}
    return {
        episode.episode: watched.difference(episode, by_number[episode.episode], run.path, drawing, task)
        for episode in gallery.episodes
    }


def _check_origin(gallery: Gallery, opengl: str) -> None:
    """Raise UserError if a gallery does not record its actions and OpenGL backend, or was drawn with another backend
    than this machine's."""
    if gallery.opengl is None or not all(episode.actions for episode in gallery.episodes):
        raise UserError("it does not say which actions it shows; `bench eval RUN --gallery` draws one that does")
    if gallery.opengl != opengl:
        names = (name or "no OpenGL" for name in (gallery.opengl, opengl))
        raise UserError("it was drawn with {}, and this machine draws with {}".format(*names))


class Watched:
    """Records the actions and states of some episodes of an evaluation, as `harness.playback.gallery` does."""

    def __init__(self, episodes: set[int]) -> None:
        from guidebench.harness.playback.gallery import Reel

        self._reels = {episode: Reel() for episode in episodes}

    def __call__(self, number: int, task: Task, action: Any) -> None:
        if number in self._reels:
            self._reels[number].add(task.snapshot(), action)

    def difference(self, episode: Clip, result: Result, run: Path, drawing: Any, task: str) -> str:
        """Return how an episode of a run's gallery differs from the one that was watched, or ""."""
        from guidebench.harness.playback.gallery import film

        reel = self._reels[episode.episode]
        if (result.success, result.length, reel.steps) != (episode.success, episode.length, episode.moves):
            return "played again it ends otherwise"
        if reel.actions != episode.actions:
            return "played again, the policy takes other actions"
        if episode.left_out:
            return "some of its captions are left out, so it cannot be drawn again"
        animation, frames = film(drawing, task, reel.all_moments, episode.captions)
        if frames != episode.drawn:
            return f"it has {episode.drawn:,} frames, and drawn again {frames:,}"
        return _differing(galleries.animation(run, episode.file), animation, frames)


def _differing(handed_in: bytes, animation: bytes, frames: int) -> str:
    """Return where two animations differ by more than WITHIN, or ""."""
    if handed_in == animation:
        return ""
    theirs, ours = galleries.pixels(handed_in, frames), galleries.pixels(animation, frames)
    if theirs.shape != ours.shape:
        return f"its animation has the shape {theirs.shape}, and drawn again {ours.shape}"
    distances = np.abs(theirs.astype(np.int16) - ours).max((1, 2, 3))
    if distances.max() <= WITHIN:
        return ""
    at = int(np.argmax(distances > WITHIN))
    return f"its frame {at} differs by up to {distances[at]} of 255 from the one drawn here"
