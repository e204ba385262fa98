"""A hand-written substitute for a vision-language model, which looks for a few colours in the frames of a prompt.

It is given only the messages, neither suite nor task. It finds the gripper by its cyan finger, and *marks*: pixels of
bright green, blue, yellow or bright red in the first frame that are not at the gripper then. A pixel has *changed* if
it differs from the first frame and neither frame has the arm's or the gripper's colours within two pixels. Lengths are
in pixels of a frame of 128 pixels.

| what it sees, the first that applies | outcome, code |
| --- | --- |
| `CHANGED` pixels or more changed in some frame, and at least half as many in the last | success, good_contact |
| as many changed, but not in the last frame | failure, drift_from_goal |
| the gripper ends within `NEAR` of a mark | success, reached_goal |
| it came as near to a mark and left it | failure, drift_from_goal |
| it stayed within `STILL` of where it began | failure, insufficient_force |
| else | failure, bad_approach_direction |

If the prompt states the outcome, the code is one of that outcome: good_contact instead of an error, insufficient_force
instead of a success.

What this is worth was looked at in frames of MT10 from camera corner2 with 128 pixels. Of 40 episodes of 500 steps of
the experts, 28 frames of each, it calls 35 a success, and 4 of 40 of random actions (one of these four was one). In
door-open, drawer-open, drawer-close, peg-insert-side, window-open and window-close the thing that moves is large enough
to be seen moving. In push (green), pick-place (blue) and reach (red) the target is a dot of two to four pixels and the
puck is as dark as the arm: only the distance between gripper and target can be seen, not where the puck is. In
button-press-topdown the yellow box is a mark, and that the button goes down cannot be seen. So it tells an attempt that
came somewhere from one that did not, its successes need not be successes, and of other tasks and drawings it knows
nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

import numpy as np

from guidebench.baselines.conversing import chance
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Message
from guidebench.methods.lagea.feedback import prompts
from guidebench.methods.lagea.feedback.taxonomy import NO_FIX, SUCCESSES

SIDE = 128
"""Side of a frame, in pixels, in which the lengths of this module are measured."""
CHANGED = 10.0
"""Fewest changed pixels that show that something has moved."""
NEAR = 5.0
"""Distance between gripper and mark, in pixels, at which they touch."""
STILL = 4.0
"""Distance from the gripper's first place, in pixels, within which it is still."""
CONTRAST = 30
"""Difference of a channel, of 255, above which a pixel differs from the first frame's."""
SMALLEST = 2
"""Fewest pixels of one colour that make a mark."""
GLINT = 6
"""Number of pixels of the arm's colour, among the 25 around a bright red one, from which that one is a glint of the
arm."""
FEEDBACK = {
    "good_contact": "Something beside the arm moved and is still displaced in the last frame.",
    "reached_goal": "The gripper ends at a coloured mark.",
    "drift_from_goal": "The gripper or what it moved was at its place and left it again.",
    "insufficient_force": "The gripper hardly moved, or it came somewhere and had no effect.",
    "bad_approach_direction": "The gripper moved, but it never came near to a coloured mark, and nothing else moved.",
}
FIXES = {
    **dict.fromkeys(SUCCESSES, NO_FIX),
    "drift_from_goal": "Stay at the place that was reached.",
    "insufficient_force": "Move further and with more force.",
    "bad_approach_direction": "Move the gripper towards the object of the task.",
}
SPOILS = ("prose", "code", "frames", "lacking", "cut")
"""Ways in which a reply is made invalid."""


STAGES = {
    "drift_from_goal": "staying there",
    "insufficient_force": "moving at all",
    "bad_approach_direction": "approaching",
}
"""Code of a failure -> the stage at which the attempt failed, as far as frames show it."""


class FrameMeasurements(NamedTuple):
    """Measurements on the frames of an attempt; lengths are in pixels of a frame of `SIDE` pixels."""

    gripper: Array
    """Place of the gripper in each frame, row and column, float64 [N, 2]; NaN where it is hidden."""
    distance: Array
    """Distance between gripper and nearest mark in each frame, float64 [N]; NaN where either cannot be seen."""
    changed: Array
    """Changed pixels of each frame, float64 [N]."""


class Impression(NamedTuple):
    """The scripted chat's verdict on an attempt: a code, and the frames that show it."""

    code: str
    frames: tuple[int, ...]
    remark: str


class FrameReader:
    """Answers the last prompt of a conversation, again after each reminder; equal conversations get equal answers."""

    def __init__(self, malformed: float) -> None:
        """`malformed`: probability of an invalid reply, by a hash of the whole conversation."""
        self._malformed = malformed

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return feedback on the frames of the first message that has any: a JSON object where a schema is asked for,
        else free text."""
        question = next((m for m in messages if any(not isinstance(part, str) for part in m.content)), None)
        if question is None:
            return "I see no frames in what you write."
        frames = np.stack([part for part in question.content if not isinstance(part, str)])
        prompt = "".join(part for part in question.content if isinstance(part, str))
        measurements = measure_frames(frames)
        impression = impressed(measurements, stated_outcome(prompt))
        impression = impression._replace(remark=f"{impression.remark} {development(measurements)}".strip())
        if "JSON schema" not in prompt:
            fix = FIXES[impression.code]
            return f"{FEEDBACK[impression.code]} {impression.remark}" + ("" if fix == NO_FIX else f" {fix}")
        reply = written(impression, instruction_of(prompt))
        digest = hashlib.blake2b(np.ascontiguousarray(frames).data, digest_size=16).hexdigest()
        conversation = [digest, *("".join(part for part in m.content if isinstance(part, str)) for m in messages)]
        if chance("form", *conversation) < self._malformed:
            return spoilt(reply, SPOILS[int(len(SPOILS) * chance("fault", *conversation))], len(frames))
        return json.dumps(reply)


def measure_frames(frames: Array) -> FrameMeasurements:
    """Return gripper, distance to the nearest mark and changed pixels of frames uint8 [N, height, width, 3]."""
    scale = SIDE / frames.shape[1]
    red, green, blue = (frames[..., channel].astype(np.int16) for channel in range(3))
    cyan = (green > 120) & (blue > 120) & (red < 0.6 * np.minimum(green, blue))
    arm = (red > 60) & (green < 0.45 * red) & (blue < 0.45 * red)
    bright = (red > 190) & (green < 60) & (blue < 60)
    white, black = frames.min(-1) > 225, frames.max(-1) < 25
    first = {
        "green": (green > 110) & (red < 0.5 * green) & (blue < 0.5 * green),
        "blue": (blue > 110) & (red < 0.5 * blue) & (green < 0.5 * blue),
        "yellow": (red > 150) & (green > 0.55 * red) & (blue < 0.35 * red),
        "red": bright & (_around((arm & ~bright)[:1], 2) < GLINT),
    }
    gripper = np.stack([np.argwhere(mask).mean(0) if mask.any() else np.full(2, np.nan) for mask in cyan]) * scale
    marks = [
        places[~(np.linalg.norm(places - gripper[0], axis=-1) <= NEAR)]  # near the gripper, they could be glints of it
        for mask in first.values()
        if len(places := np.argwhere(mask[0]) * scale) >= SMALLEST
    ]
    marks = [places for places in marks if len(places)]
    places = np.concatenate(marks) if marks else np.full((1, 2), np.nan)
    distance = np.linalg.norm(gripper[:, None] - places[None], axis=-1).min(1)
    robot_or_shade = _wider(cyan | arm | white | black, max(1, round(2 / scale)))
    differs = np.abs(frames.astype(np.int16) - frames[:1]).max(-1) > CONTRAST
    changed = (differs & ~robot_or_shade & ~robot_or_shade[:1]).sum((1, 2)) * scale**2
    return FrameMeasurements(gripper, distance, changed)


def impressed(measurements: FrameMeasurements, stated_outcome: bool | None = None) -> Impression:
    """Return the verdict on an attempt with these measurements, with a code that fits `stated_outcome`, the outcome
    that the prompt states, if it states one."""
    impression = _impressed(measurements)
    if stated_outcome is not None and stated_outcome != (impression.code in SUCCESSES):
        return impression._replace(code="good_contact" if stated_outcome else "insufficient_force")
    return impression


def _impressed(measurements: FrameMeasurements) -> Impression:
    last, changed = len(measurements.changed) - 1, measurements.changed
    if changed.max() >= CHANGED:
        first, most = int((changed >= CHANGED).argmax()), int(changed.argmax())
        if changed[last] >= changed[most] / 2:
            return Impression("good_contact", _frames(first, last), "It is not the arm that moved there.")
        return Impression("drift_from_goal", _frames(most, last), "What had moved is back where it was.")
    measured = np.flatnonzero(np.isfinite(measurements.distance))
    if len(measured):
        nearest, final = int(measured[measurements.distance[measured].argmin()]), int(measured[-1])
        began, ends = measurements.distance[measured[0]], measurements.distance[final]
        remark = f"The gripper moved {'towards' if ends < began else 'away from'} the mark on the whole."
        if ends <= NEAR:
            return Impression("reached_goal", _frames(nearest, final), remark)
        if measurements.distance[nearest] <= NEAR:
            return Impression("drift_from_goal", _frames(nearest, final), remark)
    else:
        nearest, remark = last, "There is no coloured mark to be seen."
    visible = measurements.gripper[np.isfinite(measurements.gripper[:, 0])]
    if len(visible) and np.linalg.norm(visible - visible[0], axis=-1).max() <= STILL:
        return Impression("insufficient_force", _frames(0, last), "The gripper is still.")
    return Impression("bad_approach_direction", _frames(nearest, last), remark)


def development(measurements: FrameMeasurements) -> str:
    """Return in words what the numbers of an attempt are: how far the gripper was from a mark at first, at least and at
    the end, where it ended, and from which frame on something else moved; pixels of a frame of `SIDE` pixels."""
    sentences, last = [], len(measurements.changed) - 1
    measured = np.flatnonzero(np.isfinite(measurements.distance))
    if len(measured):
        nearest = int(measured[measurements.distance[measured].argmin()])
        first, least, end = (measurements.distance[frame] for frame in (measured[0], nearest, measured[-1]))
        sentences.append(
            f"From gripper to mark it was {first:.0f} pixels at first, {least:.0f} in frame {nearest}, the least, and "
            f"{end:.0f} in frame {measured[-1]}."
        )
    visible = measurements.gripper[np.isfinite(measurements.gripper[:, 0])]
    if len(visible):
        down, across = visible[-1] - visible[0]
        sentences.append(
            f"The gripper ended {abs(across):.0f} pixels to the {'right' if across >= 0 else 'left'} of its start and "
            f"{abs(down):.0f} pixels {'below' if down >= 0 else 'above'} it."
        )
    if measurements.changed.max() >= CHANGED:
        frame = int((measurements.changed >= CHANGED).argmax())
        count = measurements.changed[last]
        sentences.append(f"Something else moved from frame {frame} on; {count:.0f} pixels differ in the last frame.")
    return " ".join(sentences)


def written(impression: Impression, instruction: str) -> dict[str, Any]:
    """Return the reply with this verdict on the task `instruction`, an object of the schema."""
    explanation = FEEDBACK[impression.code]
    outcome = "success" if impression.code in SUCCESSES else "failure"
    stage = f" at the stage of {STAGES[impression.code]}" if impression.code in STAGES else ""
    return {
        "task": instruction,
        "outcome": outcome,
        "primary_error": {"code": impression.code, "explanation": explanation},
        "secondary_factors": [],
        "key_frame_indices": list(impression.frames),
        "suggested_fix": FIXES[impression.code],
        "confidence": 0.6,
        "summary": f"The attempt looks like a {outcome}{stage}. {impression.remark}",
    }


def spoilt(reply: dict[str, Any], way: str, count: int) -> str:
    """Return a reply made invalid in one of the ways `SPOILS`; `count`: number of frames in the prompt."""
    match way:
        case "prose":
            return str(reply["summary"])
        case "code":
            return json.dumps(reply | {"primary_error": reply["primary_error"] | {"code": "bad_luck"}})
        case "frames":
            return json.dumps(reply | {"key_frame_indices": [0, count]})
        case "lacking":
            return json.dumps({name: part for name, part in reply.items() if name != "outcome"})
    return json.dumps(reply)[:-20]


def stated_outcome(prompt: str) -> bool | None:
    """Return the outcome that a prompt states, or None."""
    return next((outcome for outcome, sentence in prompts.OUTCOMES.items() if sentence in prompt), None)


def instruction_of(prompt: str) -> str:
    """Return the instruction in a prompt, or "the task" without one."""
    match = re.search(r"^The task: (.+)$", prompt, re.MULTILINE)
    return match[1] if match else "the task"


def _frames(*indices: int) -> tuple[int, ...]:
    return tuple(sorted(set(indices)))


def _wider(masks: Array, by: int) -> Array:
    """Return masks [N, height, width] widened by some pixels in each direction."""
    return _around(masks, by) > 0


def _around(masks: Array, by: int) -> Array:
    """Return for each pixel how many pixels of masks [N, height, width] are at most `by` pixels away on both axes,
    int16 of the same shape."""
    counts, (height, width) = np.zeros(masks.shape, np.int16), masks.shape[1:]
    for down in range(-by, by + 1):
        for across in range(-by, by + 1):
            to = slice(max(down, 0), height + min(down, 0)), slice(max(across, 0), width + min(across, 0))
            of = slice(max(-down, 0), height + min(-down, 0)), slice(max(-across, 0), width + min(-across, 0))
            counts[:, to[0], to[1]] += masks[:, of[0], of[1]]
    return counts
