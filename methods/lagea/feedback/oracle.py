"""Feedback written from a task's measures after each step: near_object, grasp_success and obj_to_target.

Let d be obj_to_target and τ = `MOVED` metres. The hand is *near* the object where near_object is at least `NEAR`, and
the object is *held* where the hand is near and grasp_success is not 0. Where near_object equals d in all steps, as in
reach, it is a distance and adds nothing to d: the hand itself is to be brought to the target, and counts as near.
The first rule that applies decides the code and the frames that are cited.

| rule | code | frames |
| --- | --- | --- |
| success, and near_object is a distance | reached_goal | minimum of d |
| success, held at the minimum of d, and grasp_success was 0 somewhere | good_grasp | first held, minimum of d |
| any other success | good_contact | first near, minimum of d |
| d fell by τ or more, and rose by τ or more after its minimum | drift_from_goal | minimum of d, last |
| near_object is a distance, and d did not fall by τ | drift_from_goal | minimum of d, last |
| never near | bad_approach_direction | largest near_object, last |
| grasp_success was always 0, and d did not fall by τ | failed_grasp | first near, last near |
| any other failure | insufficient_force | first held, else first near; minimum of d |

The measures of some tasks say less. In tasks that need no grasp grasp_success is always 1. In a few tasks, such as
door-open, d is always 0 and near_object is a grade, so that a failure is bad_approach_direction or insufficient_force.
In a few others, such as drawer-close, near_object stays 0 even when the expert succeeds, so that a failure without
drift is bad_approach_direction. The measures cannot tell wrong_object.

The texts also say at which stage the attempt failed, and in numbers how d and the steps near the object developed
(`development`), so that two failures of one code differ in their texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array, Question
from guidebench.methods.lagea.feedback import READ, reading
from guidebench.methods.lagea.feedback.taxonomy import CODES, NO_FIX, SUCCESSES

MOVED = 0.02
"""Metres by which obj_to_target must change to count (choice: the radius of a puck)."""
NEAR = 0.9
"""Smallest near_object at which the hand counts as at the object (choice: below 1, since a few tasks grade it)."""

EXPLANATIONS = {
    "good_grasp": "The gripper held the object and brought it to the target.",
    "good_contact": "The gripper moved the object to the target without holding it.",
    "reached_goal": "The gripper itself arrived at the target.",
    "wrong_object": "The arm acted on something that is not the object of the task.",
    "bad_approach_direction": "The gripper never came to the object.",
    "failed_grasp": "The gripper was at the object but never held it, and the object is not nearer to the target.",
    "insufficient_force": "The gripper was at the object, but its motion did not bring the object to the target.",
    "drift_from_goal": "The distance to the target grew, and nothing corrected it.",
}
FIXES = {
    **dict.fromkeys(SUCCESSES, NO_FIX),
    "wrong_object": "Go to the object that the task names.",
    "bad_approach_direction": "Move the gripper to the object before anything else.",
    "failed_grasp": "Open the gripper, lower it around the object and close it before moving on.",
    "insufficient_force": "Keep contact with the object and move on in the direction of the target.",
    "drift_from_goal": "Keep moving towards the target, and stop there.",
}


STAGES = {
    "wrong_object": "choosing the object",
    "bad_approach_direction": "approaching the object",
    "failed_grasp": "grasping the object",
    "insufficient_force": "moving the object",
    "drift_from_goal": "staying at the target",
}
"""Code of an error -> the stage of the task at which it happens."""


class Finding(NamedTuple):
    """The verdict of the rules on an episode: a code, and the environment steps that decided it."""

    code: str
    steps: tuple[int, ...]


class MeasureReader:
    """Writes the reflection on an episode, as the dialogue of LaGEA's guide would return it."""

    def __init__(self, names: Sequence[str], error: float, instruction: str) -> None:
        """`names`: the suite's measures, in the order of a question's columns; `error`: probability of a wrong code."""
        self._columns, self._error, self._instruction = [names.index(name) for name in READ], error, instruction

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return the reflection (`reading.reflection`). The question's content is the guide's, in which `structured`
        and `embedded` may stand beside the others (`ReflectionDialogue`); without them the feedback is structured and
        all of its text is embedded."""
        assert question.measures is not None, "the guide sends an oracle what the task measured"
        content = json.loads(question.content)
        measures = question.measures[:, self._columns]
        finding = judged(measures, bool(content["succeeded"]))
        if generator.random() < self._error:
            others = [code for code in CODES if code != finding.code]
            finding = finding._replace(code=others[int(generator.integers(len(others)))])
        feedback = written(finding, self._instruction, development(measures))
        if not content.get("structured", True):
            return reading.unstructured(reading.text(feedback))
        steps = range(len(question.measures) + 1)  # the indices are environment steps here
        return reading.reflection(feedback, steps, content.get("embedded", "all"))


def judged(measures: Array, succeeded: bool) -> Finding:
    """Return the code and the decisive steps of an episode by the rules of this module. `measures`: float [T, 3], the
    measures `READ` after each of its T steps; `succeeded`: whether the episode did."""
    near_object, grasp, distance = measures.T
    best, last = int(distance.argmin()), len(distance) - 1
    is_distance = _is_distance(near_object, distance)
    near = np.ones(len(distance), bool) if is_distance else near_object >= NEAR
    is_held = near & (grasp > 0)
    if succeeded:
        if is_distance:
            return _finding("reached_goal", best)
        if is_held[best] and not grasp.all():
            return _finding("good_grasp", int(is_held.argmax()), best)
        return _finding("good_contact", int(near.argmax()) if near.any() else best, best)
    fell, rose = distance[0] - distance[best] >= MOVED, distance[last] - distance[best] >= MOVED
    if (fell and rose) or (is_distance and not fell):
        return _finding("drift_from_goal", best, last)
    if not near.any():
        return _finding("bad_approach_direction", int(near_object.argmax()), last)
    if not grasp.any() and not fell:
        return _finding("failed_grasp", int(near.argmax()), last - int(near[::-1].argmax()))
    first = is_held if is_held.any() else near
    return _finding("insufficient_force", int(first.argmax()), best)


def _is_distance(near_object: Array, distance: Array) -> bool:
    """Return whether near_object is the distance to the target again, as in reach."""
    return bool(np.ptp(distance) > 0 and np.array_equal(near_object, distance))


def development(measures: Array) -> str:
    """Return in words how an episode went: the distance to the target at its first step, at its least and at the end,
    in centimetres, and when the gripper was at the object. `measures`: float [T, 3], as of `judged`."""
    near_object, _, distance = measures.T
    best, last = int(distance.argmin()), len(distance) - 1
    sentences = []
    if np.ptp(distance) > 0:
        first, least, end = (f"{100 * distance[step]:.0f}" for step in (0, best, last))
        sentences.append(
            f"The distance to the target was {first} cm at step 1, {least} cm at step {best + 1}, its least, and {end} "
            f"cm at the end, step {last + 1}."
        )
    if not _is_distance(near_object, distance):
        near = np.flatnonzero(near_object >= NEAR)
        closest = int(near_object.argmax())
        sentences.append(
            f"The gripper was at the object in {len(near)} of {len(distance)} steps, first at step {near[0] + 1}."
            if len(near)
            else f"The gripper was never at the object; it was nearest at step {closest + 1}."
        )
    return " ".join(sentences)


def _finding(code: str, *rows: int) -> Finding:
    """Return the finding with this code, decided in these rows of the measures; row t is the state after step t + 1."""
    return Finding(code, tuple(sorted({row + 1 for row in rows})))


def written(finding: Finding, instruction: str, development: str) -> dict[str, Any]:
    """Return the feedback that states a finding, an object of the schema whose frame indices are environment steps.
    `development`: how the episode went, in words and numbers."""
    outcome = "success" if finding.code in SUCCESSES else "failure"
    explanation = EXPLANATIONS[finding.code]
    stage = f" at the stage of {STAGES[finding.code]}" if finding.code in STAGES else ""
    return {
        "task": instruction,
        "outcome": outcome,
        "primary_error": {"code": finding.code, "explanation": f"{explanation} {development}"},
        "secondary_factors": [],
        "key_frame_indices": list(finding.steps),
        "suggested_fix": FIXES[finding.code],
        "confidence": 1.0,
        "summary": f"The attempt was a {outcome}{stage}: {explanation[0].lower()}{explanation[1:]} {development}",
    }
