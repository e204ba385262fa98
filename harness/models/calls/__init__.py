"""Kinds of call to a foundation model, one module each, and their common base class.

To add a kind, register a `Call` with `@register.call("name")` in a module directly in this folder, or in a plug-in
under the entry point group `guidebench.calls`; no other file has to be edited.
"""

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.models.calls.base import (
    ONE_CALL,
    RETRYABLE,
    Answer,
    AskModel,
    Call,
    Failure,
    FailureKind,
    Json,
    Model,
    Reply,
    Request,
    Ticket,
    Usage,
    counting,
    image_digest,
    key_of,
    part,
    request_begins,
)
from guidebench.harness.models.calls.chat import CUT_OFF, ChatCall, Message
from guidebench.harness.models.calls.choice import ChoiceCall
from guidebench.harness.models.calls.denoise import DenoiseCall
from guidebench.harness.models.calls.embed import EmbedCall
from guidebench.harness.models.calls.judge import JudgeCall
from guidebench.harness.models.calls.segment import SegmentCall
from guidebench.harness.models.calls.track import TrackCall
from guidebench.harness.models.calls.video import VideoCall

__all__ = [
    "CUT_OFF",
    "ONE_CALL",
    "RETRYABLE",
    "Answer",
    "AskModel",
    "Call",
    "ChatCall",
    "ChoiceCall",
    "DenoiseCall",
    "EmbedCall",
    "Failure",
    "FailureKind",
    "Form",
    "Json",
    "JudgeCall",
    "Message",
    "Model",
    "Reply",
    "Request",
    "SegmentCall",
    "Ticket",
    "TrackCall",
    "Usage",
    "VideoCall",
    "counting",
    "image_digest",
    "key_of",
    "part",
    "request_begins",
]
