"""Keys of recorded calls: a hash of everything that can change the answer, and of nothing else.

The key is the SHA-256 of a canonical JSON text, which is stored with the answer so that anyone can verify the key. The
text contains images as digests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Call, Ticket

DIGEST = 40
"""Hexadecimal digits of an image's digest: 160 bits."""
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=dict)


class Request(NamedTuple):
    """A call in its recorded form."""

    key: str
    text: str
    """Canonical JSON of the call's `kind`, the `model`'s identity, and the call's own form."""
    images: Mapping[str, Array]
    """Digest -> image, without duplicates."""
    call: Call


def image_digest(image: Array) -> str:
    """Return the SHA-256 of an image's shape and bytes, truncated to 160 bits (processors accelerate SHA-256)."""
    assert image.dtype == np.uint8, f"an image of {image.dtype}"
    hashed = hashlib.sha256(",".join(map(str, image.shape)).encode() + b":")
    hashed.update(np.ascontiguousarray(image).data)
    return hashed.hexdigest()[:DIGEST]


def request(identity: Mapping[str, Any], call: Call, ticket: Ticket | None) -> Request:
    """Return the recorded form of a call; `identity` holds exactly the settings that can change the model's answers.

    The key of a sampled call includes the ticket, so that equal questions of two runs, in two roles, or repeated in one
    run are answered independently.
    """
    images: dict[str, Array] = {}

    def reference(image: Array) -> dict[str, str]:
        digest = image_digest(image)
        images[digest] = image
        return {"image": digest}

    form: dict[str, Any] = dict(**call.form(reference), kind=call.kind, model=identity)
    if call.sampled and ticket is not None:
        form["asker"] = [ticket.run, ticket.role, ticket.scope, ticket.ordinal]
    text = CANONICAL.encode(form)
    return Request(key_of(text), text, images, call)


def key_of(text: str) -> str:
    """Return the key of a request's canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()


def call_key(identity: Mapping[str, Any], call: Call, ticket: Ticket | None) -> str:
    """Return the key of a call."""
    return request(identity, call, ticket).key
