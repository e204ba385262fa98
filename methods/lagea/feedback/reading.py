"""Reading a model's feedback, and the reflection that the guide receives.

A reply is parsed and checked, never evaluated. Feedback is embedded by a model of English, so text that is not English
would give a vector that means nothing: a reply is refused if less than nine tenths of its letters are ASCII letters, or
if it has none of the commonest English words (`COMMON`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from guidebench.baselines.conversing import Misread, check_schema, first_object
from guidebench.methods.lagea.feedback.taxonomy import ERRORS, NO_FIX, SCHEMA, SUCCESSES

ASCII_SHARE = 0.9
"""Smallest share of ASCII letters among a reply's letters (choice)."""
COMMON = frozenset(("the", "of", "to", "and", "is", "it", "not", "with", "that", "has"))
"""Words of which English prose of a sentence has at least one (choice)."""
LONGEST_PROSE = 4_000
"""Most characters of feedback in free text (choice: GPT-2 reads about 4,000 characters)."""

FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("text", "outcome", "code", "explanation", "fix", "summary")},
        "secondary": {"type": "array", "items": {"type": "string"}},
        "frames": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "retries": {"type": "integer"},
        "empty": {"type": "boolean"},
        "confidence": {"type": "number"},
    },
}
"""The form of a reflection."""


def structured(reply: str, frame_count: int, stated_outcome: bool | None = None) -> dict[str, Any]:
    """Return the feedback in a reply, the JSON object in it; text around it is ignored. `frame_count`: frames in the
    prompt; `stated_outcome`: whether the episode succeeded, if the prompt stated it.

    Raise Misread, whose message is for the model, for a reply without such an object (`SCHEMA`), for a code that does
    not fit the outcome, for another outcome than the stated one, for frames that were not shown or are cited twice, and
    for text that is not English.
    """
    feedback = first_object(reply, ("outcome", "summary"))
    check_schema(feedback, SCHEMA)
    outcome, code = feedback["outcome"], feedback["primary_error"]["code"]
    allowed_codes = SUCCESSES if outcome == "success" else ERRORS
    if code not in allowed_codes:
        raise Misread(
            "contradictory", f"the code {code} does not fit the outcome {outcome}; use {', '.join(allowed_codes)}"
        )
    if stated_outcome is not None and stated_outcome != (outcome == "success"):
        raise Misread("contradictory", f"its outcome is {outcome}, and the attempt was a {_outcome(stated_outcome)}")
    cited = [int(index) for index in feedback["key_frame_indices"]]
    if strange := sorted({index for index in cited if index >= frame_count}):
        listed = ", ".join(str(index)[:20] for index in strange)
        raise Misread("frames", f"it cites {listed}, and the frames are numbered from 0 to {frame_count - 1}")
    if twice := sorted({index for index in cited if cited.count(index) > 1}):
        raise Misread("frames", f"it cites {', '.join(map(str, twice))} more than once")
    _check_english(_prose(feedback))
    return feedback


def free(reply: str) -> str:
    """Return feedback in free text, normalised. Raise Misread if it is too long or not English."""
    if len(reply) > LONGEST_PROSE:
        raise Misread("unreadable", f"it has {len(reply):,} characters; write at most four sentences")
    _check_english([reply])
    return normalised(reply)


def reflection(
    feedback: Mapping[str, Any], steps: Sequence[int], embedded: str = "all", retries: int = 0
) -> dict[str, Any]:
    """Return the reflection that the guide receives for feedback that fits the schema.

    `steps`: environment step of each frame, by the indices in the feedback; `embedded`: which text is embedded, `all`
    textual fields or `summary` alone (LaGEA, A.7; released code); `retries`: invalid replies before."""
    error, fix = feedback["primary_error"], normalised(feedback["suggested_fix"])
    summary = normalised(feedback["summary"])
    return {
        "text": text(feedback) if embedded == "all" else summary,
        "retries": retries,
        "empty": False,
        "outcome": feedback["outcome"],
        "code": error["code"],
        "explanation": normalised(error["explanation"]),
        "secondary": list(dict.fromkeys(feedback["secondary_factors"])),
        "frames": sorted(int(steps[int(index)]) for index in feedback["key_frame_indices"]),
        "fix": NO_FIX if _no_fix(fix) else fix,
        "confidence": float(feedback["confidence"]),
        "summary": summary,
    }


def unstructured(prose: str, retries: int = 0) -> dict[str, Any]:
    """Return the reflection that the guide receives for feedback in free text; an empty one for ""."""
    return {
        "text": prose, "retries": retries, "empty": not prose, "outcome": "", "code": "", "explanation": "",
        "secondary": [], "frames": [], "fix": "", "confidence": 0.0, "summary": prose,
    }  # fmt: skip


def text(feedback: Mapping[str, Any]) -> str:
    """Return all textual fields of feedback that fits the schema, as sentences: outcome, codes with their explanation,
    suggested fix and summary. The task is left out, since it is the same in every episode.

    >>> text({"outcome": "failure", "primary_error": {"code": "failed_grasp", "explanation": "It slipped"},
    ...       "secondary_factors": ["insufficient_force"], "suggested_fix": "n/a", "summary": "The puck fell."})
    'Failure: failed grasp. It slipped. Also: insufficient force. The puck fell.'
    """
    error, fix = feedback["primary_error"], normalised(feedback["suggested_fix"])
    also = ", ".join(code.replace("_", " ") for code in dict.fromkeys(feedback["secondary_factors"]))
    sentences = (
        f"{feedback['outcome']}: {error['code'].replace('_', ' ')}".capitalize(),
        normalised(error["explanation"]),
        f"Also: {also}" if also else "",
        "" if _no_fix(fix) else fix,
        normalised(feedback["summary"]),
    )
    return " ".join(
        sentence if sentence.endswith((".", "!", "?")) else f"{sentence}." for sentence in sentences if sentence
    )


def normalised(prose: str) -> str:
    """Return a text in Unicode's normal form KC, with each run of white space as one space.

    >>> normalised(" The\\n gripper \\t slipped. ")
    'The gripper slipped.'
    """
    return " ".join(unicodedata.normalize("NFKC", prose).split())


def _outcome(succeeded: bool) -> str:
    return "success" if succeeded else "failure"


def _no_fix(fix: str) -> bool:
    return fix.strip(" ().").casefold() in ("n/a", "na", "none")


def _prose(feedback: Mapping[str, Any]) -> list[str]:
    return [feedback["primary_error"]["explanation"], feedback["suggested_fix"], feedback["summary"]]


def _check_english(texts: Sequence[str]) -> None:
    """Raise Misread unless each text is mostly ASCII letters and together they have a common English word."""
    for text in texts:
        letters = [letter for letter in text if letter.isalpha()]
        if sum(letter.isascii() for letter in letters) < ASCII_SHARE * len(letters):
            raise Misread("language", f"it is not written in English: {normalised(text)[:80]!r}")
    if not COMMON.intersection(re.findall(r"[a-z]+", " ".join(texts).casefold())):
        raise Misread("language", f"it has no whole English sentence: {normalised(' '.join(texts))[:80]!r}")
