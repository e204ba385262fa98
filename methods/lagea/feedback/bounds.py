"""Upper bounds of the texts about an episode: prompts, reminders, and the feedback's text that is embedded.

A model's text has at most as many tokens as the model may write. Hand-written feedback, which has no such limit, is
counted by its characters, each of which takes up to `CHARACTER` bytes once it is normalised.
"""

from __future__ import annotations

import numpy as np

from guidebench.baselines.conversing import FAULT, Misread, size
from guidebench.methods.lagea.feedback import prompts
from guidebench.methods.lagea.feedback.reading import LONGEST_PROSE
from guidebench.methods.lagea.feedback.taxonomy import CODES, ERRORS, LONGEST_FIELD, MOST_FACTORS

CHARACTER = 33
"""Most bytes of a character in Unicode's normal form KC."""


def text(structured: bool, written: int | None) -> int:
    """Return the most tokens of the text of an episode's feedback. `written`: tokens that the model may write; None for
    hand-written feedback."""
    if not structured:
        return _limited(LONGEST_PROSE, written)
    codes = f"Failure: {max(CODES, key=len)}. Also: {', '.join([max(ERRORS, key=len)] * MOST_FACTORS)}. ...  "
    return len(codes) + _limited(3 * LONGEST_FIELD, written)


def prompt(instruction: str, steps: int, frames: int, history: int, structured: bool, written: int | None) -> int:
    """Return the most tokens of the texts of a prompt about an episode of at most so many `steps`, of which `frames`
    are shown after `history` earlier attempts."""
    quoted = "x" * _limited(LONGEST_FIELD if structured else LONGEST_PROSE, written)
    code = max(CODES, key=len)
    attempt = {"outcome": "failure", "code": code, "fix": quoted, "summary": ""}
    if not structured:
        attempt = {"outcome": "", "code": "", "fix": "", "summary": quoted}
    blank_frames = np.zeros((frames, 1, 1, 3), np.uint8)
    message = prompts.message(instruction, blank_frames, [steps] * frames, steps, [attempt] * history, structured, True)
    return size(message.content)


def reminder(structured: bool) -> int:
    """Return the most bytes of the reminder that follows an unusable reply."""
    remind = prompts.reminder if structured else prompts.free_reminder
    return len(remind(Misread("", "")).encode()) + FAULT


def _limited(characters: int, written: int | None) -> int:
    return CHARACTER * characters if written is None else min(CHARACTER * characters, written)
