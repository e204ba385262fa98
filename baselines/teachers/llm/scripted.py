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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.baselines.conversing import chance
from guidebench.baselines.teachers.llm import reading, trajectories
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
    """Answers the last question of a conversation."""

    def __init__(self, settings: Scripted) -> None:
        self._settings = settings

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the reply; after a reminder, answer the original question again."""
        said = "\n".join(_text(message) for message in messages)
        spoilt = chance("form", said) < self._settings.malformed
        asked = [
            (_text(message), prompt_trajectories(_text(message))) for message in messages if message.role == "user"
        ]
        length = max((len(shown.points[shown.moves]) for _, all_shown in asked for shown in all_shown), default=0)
        for question, shown in reversed(asked):
            if len(shown) >= 2:
                return self._compare(question, shown[0], shown[1], spoilt)
            if shown:
                return _continued(question, shown[0], length, int(4 * chance("fault", said)) if spoilt else None)
        return LOST

    def _compare(self, question: str, one: PromptTrajectory, other: PromptTrajectory, spoilt: bool) -> str:
        """Return a description of both trajectories, a comparison, and the verdict in its own line."""
        sums = (_distances(one).mean(0).sum(), _distances(other).mean(0).sum())
        answer = self._answer(question, one, other, float(sums[0] - sums[1]))
        differ = f"That adds up to {sums[0]:.4f} for Trajectory 1 and {sums[1]:.4f} for Trajectory 2."
        weighed = (
            "I see no difference that matters between them.",
            "Trajectory 1 furthers the task more.",
            "Trajectory 2 furthers the task more.",
        )[answer]
        ending = "Trajectory 1 and Trajectory 2 both have something to be said for them." if spoilt else str(answer)
        return (
            f"1. {_described('Trajectory 1', one)} {_described('Trajectory 2', other)} {differ}\n"
            f"2. All in all: {weighed}\n{ending}"
        )

    def _answer(self, question: str, one: PromptTrajectory, other: PromptTrajectory, excess: float) -> int:
        """Return 0, 1 or 2. `excess` is the first trajectory's summed distance minus the other's."""
        settings = self._settings
        thought = 0 if abs(excess) < settings.equal else 2 if excess > 0 else 1
        both = sorted(json.dumps(shown.points, default=np.ndarray.tolist) for shown in (one, other))
        if thought and chance("pair", *both) < settings.error:
            thought = 3 - thought
        if chance("order", question) < settings.first_bias:
            return 1
        if thought and chance("slip", question) < settings.noise:
            return 3 - thought
        return thought


def prompt_trajectories(text: str) -> list[PromptTrajectory]:
    """Return the trajectories in a text."""
    found = []
    for each in reading.objects(text):
        points = {name: _points(said) for name, said in each.items()}
        moving = [name for name, here in points.items() if here.ndim == 2]
        constant = [name for name, here in points.items() if here.ndim == 1]
        sizes = {points[name].shape for name in moving}, {here.shape[-1:] for here in points.values()}
        if moving and max(map(len, sizes)) == 1:
            found.append(PromptTrajectory(moving[0], (moving[1:2] or [""])[0], (constant or [""])[0], points))
    return found


def _points(said: object) -> Array:
    """Return points as float64 [H, n] or [n]; a 0-dimensional array for anything else."""
    try:
        return np.array(said, np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _distances(shown: PromptTrajectory) -> Array:
    """Return distances per step, float64 [H, 1 or 2]: from the moving object to the object acted on and from there to
    the target, or directly to the target."""
    pairs = [(shown.points[one], shown.points[other]) for one, other in itertools.pairwise(shown.chain)]
    if not pairs:
        return np.zeros((len(shown.points[shown.moves]), 1))
    return np.stack([np.linalg.norm(one - other, axis=-1) for one, other in pairs], axis=-1)


def _described(title: str, shown: PromptTrajectory) -> str:
    told = [
        f"{one} is {each.mean():.4f} from {other} on average and {each[-1]:.4f} at the end"
        for (one, other), each in zip(itertools.pairwise(shown.chain), _distances(shown).T, strict=False)
    ]
    return f"In {title} {', and '.join(told) or 'nothing is told that could be near or far'}."


def _continued(question: str, start: PromptTrajectory, length: int, fault: int | None) -> str:
    """Return a trajectory of `length` steps at constant speed: the moving object goes straight to the object acted on
    and takes it straight to the target. `fault` selects one of four ways to violate the requested format."""
    stops = np.array([_first(start.points[name]) for name in start.chain])
    passed = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(stops, axis=0), axis=1)))
    gone = np.linspace(0.0, passed[-1], length)

    def walked(stops: Array) -> Array:
        return np.stack([np.interp(gone, passed, axis) for axis in stops.T], axis=-1)

    points = {
        name: np.repeat(each[:1], length, axis=0) if each.ndim == 2 else each for name, each in start.points.items()
    }
    points[start.moves] = walked(stops)
    if start.moved:
        points[start.moved] = walked(np.concatenate([stops[1:2], stops[1:]]))
    written = trajectories.text(points, _decimals(question))
    if fault is None:
        return written
    points[start.moves] = points[start.moves][:-1]
    short = trajectories.text(points, _decimals(question))
    return (LOST, short, written.replace("[[", "[[NaN, ", 1), written.rstrip("}") + "and so on.")[fault]


def _first(points: Array) -> Array:
    return points[0] if points.ndim == 2 else points


def _decimals(text: str) -> int:
    """Return the largest number of decimals of a number in a text."""
    return max((len(digits) for digits in re.findall(r"[0-9]\.([0-9]{1,9})\b", text)), default=0)


def _text(message: Message) -> str:
    return "".join(part for part in message.content if isinstance(part, str))
