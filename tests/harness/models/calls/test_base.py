"""A call's key covers everything that can change its answer, and nothing else."""

import hashlib
import json

import numpy as np
import pytest

from guidebench.harness.models.calls import ChatCall, EmbedCall, JudgeCall, Message, Ticket, image_digest

MODEL = {"model": "tiny", "backend": "scripted"}
IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
OTHER_IMAGE = IMAGE + 1
ME, YOU = Ticket("cell/0", 3, 30), Ticket("cell/1", 4, 40)


def chat(text: str = "hello", **settings) -> ChatCall:
    return ChatCall((Message("user", (text, IMAGE)),), **settings)


def test_an_image_is_named_by_its_shape_and_its_bytes() -> None:
    assert image_digest(IMAGE) == hashlib.sha256(b"2,4,3:" + IMAGE.tobytes()).hexdigest()[:40]
    assert image_digest(IMAGE) != image_digest(IMAGE.reshape(4, 2, 3))
    assert image_digest(np.stack([IMAGE, OTHER_IMAGE])[:, ::2][0]) == image_digest(IMAGE[::2].copy())


@pytest.mark.parametrize(
    ("call", "changed_call"),
    [
        (JudgeCall(np.stack([IMAGE, OTHER_IMAGE]), "p"), JudgeCall(np.stack([OTHER_IMAGE, IMAGE]), "p")),
        (JudgeCall(np.stack([IMAGE, OTHER_IMAGE]), "p"), JudgeCall(np.stack([IMAGE, OTHER_IMAGE]), "q")),
        (chat(), chat("hello!")),
        (chat(), chat(schema={"type": "object"})),
        (chat(), chat(max_tokens=7)),
        (chat(), chat(temperature=0.5)),
        (chat(), ChatCall((Message("user", (IMAGE, "hello")),))),
        (chat(), ChatCall((Message("system", ("hello", IMAGE)),))),
        (EmbedCall(("a", "b")), EmbedCall(("b", "a"))),
        (EmbedCall(("ab",)), EmbedCall(("a", "b"))),
        (EmbedCall((IMAGE,)), EmbedCall((OTHER_IMAGE,))),
        (EmbedCall((IMAGE,)), EmbedCall((image_digest(IMAGE),))),
    ],
)
def test_what_can_change_an_answer_changes_the_key(call, changed_call) -> None:
    assert call.request(MODEL, ME).key != changed_call.request(MODEL, ME).key
    assert call.request(MODEL, ME).key != call.request(MODEL | {"revision": "2"}, ME).key
    assert call.request(MODEL, ME).key == call.request(dict(reversed(MODEL.items())), ME).key


def test_who_asks_counts_at_a_temperature_above_zero_alone() -> None:
    assert chat().request(MODEL, ME).key == chat().request(MODEL, YOU).key
    warm = chat(temperature=0.7)
    keys = {warm.request(MODEL, Ticket(run, ordinal, 0)).key for run in ("a/0", "a/1") for ordinal in (1, 2)}
    assert len(keys) == 4
    assert warm.request(MODEL, ME).key != warm.request(MODEL, ME._replace(scope="evaluation/500/0")).key
    assert warm.request(MODEL, ME).key == warm.request(MODEL, ME._replace(step=99)).key


def test_a_request_is_text_that_hashes_to_its_key_with_each_image_once() -> None:
    keyed_request = JudgeCall(np.stack([IMAGE, OTHER_IMAGE, IMAGE]), "Ist's der Schlüssel? \ud800").request(MODEL, ME)
    assert hashlib.sha256(keyed_request.text.encode()).hexdigest() == keyed_request.key
    body = json.loads(keyed_request.text)
    assert body["model"] == MODEL and body["prompt"] == "Ist's der Schlüssel? \ud800"
    assert [frame["image"] for frame in body["clip"]] == [image_digest(image) for image in (IMAGE, OTHER_IMAGE, IMAGE)]
    assert sorted(keyed_request.images) == sorted({image_digest(IMAGE), image_digest(OTHER_IMAGE)})
    assert np.array_equal(keyed_request.images[image_digest(OTHER_IMAGE)], OTHER_IMAGE)
