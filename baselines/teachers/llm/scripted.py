"""A hand-written substitute for a language model, which answers the prompts of teacher `llm` in free text.

It reads only the text of the conversation. Its random draws are hashes of that text: equal questions get equal
answers, and there is no state.

    judgement   the trajectory with the smaller sum of mean distances moves-moved and moved-target (or moves-target) is
                better; 0 where the sums differ by less than `equal`
    error       with probability `error`, by a hash of the two trajectories in either order: the opposite, both times
    first_bias  with probability `first_bias`, by a hash of the whole question: 1
    noise       otherwise, with probability `noise`, by another hash of the whole question: the opposite, this once

Suppose that the trajectories of a pair differ, the better one comes first or second equally often, and `noise` is 0.
With e = `error`, b = `first_bias` and n = `noise`, one question errs with probability b / 2 + (1 - b) e. Of questions
in both orders, b contradict each other, and those that agree err with probability e: a check in both orders removes
the effect of the order and keeps every misjudgement. With e = b = 0, one question errs with probability n and two that
agree with n² / (n² + (1 - n)²), since the check reduces independent noise.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.baselines.conversing import chance
from guidebench.baselines.teachers.llm import reading, trajectories
from guidebench.baselines.teachers.llm.prompts import VERDICTS
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message

if TYPE_CHECKING:
    from guidebench.baselines.teachers.llm import Scripted

LOST = "I find neither two trajectories to compare nor one to continue in what you write."


class PromptTrajectory(NamedTuple):
    """A trajectory as shown in a prompt."""

    moves: str
    moved: str
    """The object acted on; "" if there is none."""
    target: str
    """The target; "" if there is none."""
    points: dict[str, Array]
    """Name -> float64 [H, n], or [n] for constant objects."""

    @property
    def chain(self) -> list[str]:
        """Objects in order, each of which is to reach the next."""
        return [name for name in (self.moves, self.moved, self.target) if name]


class ScriptedReader:
    """A hand-written stand-in for the language model: answers the last question of a conversation."""

    def __init__(self, settings: Scripted) -> None:
        self._settings = settings

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the reply; after a reminder, answer the original question again."""
        conversation = "\n".join(_text(message) for message in messages)
        spoilt = chance("form", conversation) < self._settings.malformed
        questions = [
            (_text(message), prompt_trajectories(_text(message))) for message in messages if message.role == "user"
        ]
        lengths = (len(trajectory.points[trajectory.moves]) for _, pair in questions for trajectory in pair)
        length = max(lengths, default=0)
        for question, pair in reversed(questions):
            if len(pair) >= 2:
                return self._compare(question, pair[0], pair[1], spoilt)
            if pair:
                return _continued(question, pair[0], length, int(4 * chance("fault", conversation)) if spoilt else None)
        return LOST

    def weigh(self, messages: tuple[Message, ...], candidates: Sequence[str]) -> list[float]:
        """Return 1 for the verdict that its reply ends with, else 0; 1 for all of `VERDICTS` if it has none."""
        ending = self(messages).rsplit("\n", 1)[-1]
        if ending not in ("0", "1", "2"):
            return [1.0] * len(candidates)
        return [float(candidate.strip() == VERDICTS[int(ending)]) for candidate in candidates]

    def _compare(self, question: str, first: PromptTrajectory, second: PromptTrajectory, spoilt: bool) -> str:
        """Return a description of both trajectories, a comparison, and the verdict in its own line."""
        sums = (_distances(first).mean(0).sum(), _distances(second).mean(0).sum())
        answer = self._answer(question, first, second, float(sums[0] - sums[1]))
        differ = f"That adds up to {sums[0]:.4f} for Trajectory 1 and {sums[1]:.4f} for Trajectory 2."
        weighed = (
            "I see no difference that matters between them.",
            "Trajectory 1 furthers the task more.",
            "Trajectory 2 furthers the task more.",
        )[answer]
        ending = "Trajectory 1 and Trajectory 2 both have something to be said for them." if spoilt else str(answer)
        return (
            f"1. {_described('Trajectory 1', first)} {_described('Trajectory 2', second)} {differ}\n"
            f"2. All in all: {weighed}\n{ending}"
        )

    def _answer(self, question: str, first: PromptTrajectory, second: PromptTrajectory, excess: float) -> int:
        """Return 0, 1 or 2. `excess` is the first trajectory's summed distance minus the other's."""
        settings = self._settings
        thought = 0 if abs(excess) < settings.equal else 2 if excess > 0 else 1
        both = sorted(json.dumps(trajectory.points, default=np.ndarray.tolist) for trajectory in (first, second))
        if thought and chance("pair", *both) < settings.error:
            thought = 3 - thought
        if chance("order", question) < settings.first_bias:
            return 1
        if thought and chance("slip", question) < settings.noise:
            return 3 - thought
        return thought


def prompt_trajectories(text: str) -> list[PromptTrajectory]:
    """Return the trajectories in a text."""
    trajectories = []
    for json_object in reading.objects(text):
        points = {name: _points(numbers) for name, numbers in json_object.items()}
        moving = [name for name, array in points.items() if array.ndim == 2]
        constant = [name for name, array in points.items() if array.ndim == 1]
        sizes = {points[name].shape for name in moving}, {array.shape[-1:] for array in points.values()}
        if moving and max(map(len, sizes)) == 1:
            trajectories.append(PromptTrajectory(moving[0], (moving[1:2] or [""])[0], (constant or [""])[0], points))
    return trajectories


def _points(numbers: object) -> Array:
    """Return points as float64 [H, n] or [n]; a 0-dimensional array for anything else."""
    try:
        return np.array(numbers, np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _distances(trajectory: PromptTrajectory) -> Array:
    """Return distances per step, float64 [H, 1 or 2]: from the moving object to the object acted on and from there to
    the target, or directly to the target."""
    pairs = [(trajectory.points[one], trajectory.points[other]) for one, other in itertools.pairwise(trajectory.chain)]
    if not pairs:
        return np.zeros((len(trajectory.points[trajectory.moves]), 1))
    return np.stack([np.linalg.norm(one - other, axis=-1) for one, other in pairs], axis=-1)


def _described(title: str, trajectory: PromptTrajectory) -> str:
    phrases = [
        f"{one} is {distances.mean():.4f} from {other} on average and {distances[-1]:.4f} at the end"
        for (one, other), distances in zip(itertools.pairwise(trajectory.chain), _distances(trajectory).T, strict=False)
    ]
    return f"In {title} {', and '.join(phrases) or 'nothing is told that could be near or far'}."


def _continued(question: str, start: PromptTrajectory, length: int, fault: int | None) -> str:
    """Return a trajectory of `length` steps at constant speed: the moving object goes straight to the object acted on
    and takes it straight to the target. `fault` selects one of four ways to violate the requested format."""
    stops = np.array([_first(start.points[name]) for name in start.chain])
    stop_lengths = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(stops, axis=0), axis=1)))
    path_lengths = np.linspace(0.0, stop_lengths[-1], length)

    def interpolate(stops: Array) -> Array:
        return np.stack([np.interp(path_lengths, stop_lengths, axis) for axis in stops.T], axis=-1)

    points = {
        name: np.repeat(named[:1], length, axis=0) if named.ndim == 2 else named for name, named in start.points.items()
    }
    points[start.moves] = interpolate(stops)
    if start.moved:
        points[start.moved] = interpolate(np.concatenate([stops[1:2], stops[1:]]))
    trajectory = trajectories.text(points, _decimals(question))
    if fault is None:
        return trajectory
    points[start.moves] = points[start.moves][:-1]
    short = trajectories.text(points, _decimals(question))
    return (LOST, short, trajectory.replace("[[", "[[NaN, ", 1), trajectory.rstrip("}") + "and so on.")[fault]


def _first(points: Array) -> Array:
    return points[0] if points.ndim == 2 else points


def _decimals(text: str) -> int:
    """Return the largest number of decimals of a number in a text."""
    return max((len(digits) for digits in re.findall(r"[0-9]\.([0-9]{1,9})\b", text)), default=0)


def _text(message: Message) -> str:
    return "".join(part for part in message.content if isinstance(part, str))
