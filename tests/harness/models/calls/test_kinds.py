"""Properties of every kind of call: its JSON form restores it, and its answers are written and read alike."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.models.calls import (
    Call,
    ChatCall,
    ChoiceCall,
    DenoiseCall,
    EmbedCall,
    Form,
    JudgeCall,
    Message,
    SegmentCall,
    TrackCall,
    VideoCall,
    arrays,
)
from guidebench.harness.models.cassette_file import NotKept, decoded, encoded

CLIP = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
SCHEMA = {"type": "object", "properties": {"steps": {"type": "array"}}, "required": ["steps"]}
ANSWERED_CALLS: list[tuple[Call, Any]] = [
    (JudgeCall(CLIP, "Is it done?"), 0.25),
    (ChatCall((Message("system", ("be brief",)), Message("user", ("why?", CLIP[0])))), "because"),
    (ChatCall((Message("user", ("a plan?",)),), SCHEMA, 64, 0.5), {"steps": ["key", 1, None]}),
    (ChatCall((Message("user", ("a plan?",)),), SCHEMA, 64, constrained=True), {"steps": []}),
    (EmbedCall((CLIP[0], CLIP[1])), np.eye(2, 3, dtype=np.float32)),
    (EmbedCall(("a",)), np.zeros((1, 4), np.float32)),
    (VideoCall(CLIP), np.arange(3, dtype=np.float32)),
    (
        SegmentCall(CLIP[0], ((0.5, 1.0), (3.5, 2.0)), "take the key"),
        [{"runs": [2, 3, 7], "score": 0.75, "means": ""}, {"runs": [0, 12], "score": 1.0, "means": "thing"}],
    ),
    (SegmentCall(CLIP[0], ()), []),
    (TrackCall(CLIP, (1.5, 2.0), "the key"), np.array([[1.5, 2, 1], [0, 0, 0]], np.float32)),
    (
        ChoiceCall((Message("user", ("where?", CLIP[0])),), "Move:", (" left", " right")),
        np.array([[-1, -0.5, 1], [-3, 0, 2]], np.float32),
    ),
    (DenoiseCall((CLIP[0], CLIP[1]), "a door", 512, (0, 2**32 - 1)), np.eye(2, 3, dtype=np.float32)),
]
ANSWERS = [0.25, 1, 1.5, float("nan"), "because", {"steps": []}, {"steps": 1}, np.eye(2, 3), np.eye(2), None, [0.5]]


@pytest.mark.parametrize(("call", "value"), ANSWERED_CALLS)
def test_a_call_comes_back_from_its_form_and_an_answer_from_the_cassette(call: Call, value: Any) -> None:
    request = call.request({"model": "tiny"}, None)
    back = type(call).read(json.loads(request.text), request.images.__getitem__)
    assert back.request({"model": "tiny"}, None).text == request.text
    assert back.fault(value) == call.fault(value) == ""
    decoded_value = decoded(type(call), *encoded(type(call), value))
    assert (
        type(decoded_value) is type(value) and np.array_equal(decoded_value, value) and call.fault(decoded_value) == ""
    )
    assert call.distance(value, decoded_value) <= 0 <= call.tolerance


@pytest.mark.parametrize("name", ["chat", "choice", "denoise", "embed", "judge", "segment", "track", "video"])
def test_a_small_call_of_each_kind_is_one_of_it(name: str) -> None:
    kind = registry.get("call", name)
    small = kind.small()
    assert type(small) is kind and kind.kind == name and not small.sampled
    assert kind.sections(json.loads(small.request({}, None).text))


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        (ANSWERED_CALLS[0][0], [0.25]),
        (ANSWERED_CALLS[1][0], ["because"]),
        (ANSWERED_CALLS[2][0], [{"steps": []}]),
        (ANSWERED_CALLS[4][0], []),
    ],
)
def test_answers_of_other_types_and_shapes_do_not_count(call: Call, fits: list[Any]) -> None:
    assert [value for value in ANSWERS if call.fault(value) == ""] == fits


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("judge", {"prompt": "?", "clip": []}),
        ("judge", {"prompt": "?", "clip": ["text"]}),
        ("judge", {"prompt": 1, "clip": [{"image": "0"}]}),
        ("judge", {"prompt": "?", "clip": [{"image": "0", "more": 1}]}),
        ("chat", {"messages": [], "schema": None, "max_tokens": "9", "temperature": 0}),
        ("chat", {"messages": [{"role": "tool", "content": []}], "schema": None, "max_tokens": 9, "temperature": 0}),
        ("chat", {"messages": [], "schema": {"pattern": "^(a|a)*$"}, "max_tokens": 9, "temperature": 0}),
        ("choice", {"messages": [], "prefix": "", "candidates": []}),
        ("choice", {"messages": [], "prefix": "", "candidates": "ab"}),
        ("choice", {"messages": [], "prefix": "", "candidates": [1]}),
        ("choice", {"messages": [], "prefix": None, "candidates": ["a"]}),
        ("choice", {"messages": [{"role": "tool", "content": []}], "prefix": "", "candidates": ["a"]}),
        ("embed", {"items": "abc"}),
        ("embed", {"items": [7]}),
        ("video", {"frames": []}),
        ("video", {"frames": ["text"]}),
        ("denoise", {"frames": [], "text": "a", "level": 1, "seeds": []}),
        ("denoise", {"frames": [{"image": "0"}], "text": "a", "level": 1, "seeds": [1, 2]}),
        ("denoise", {"frames": [{"image": "0"}], "text": "a", "level": -1, "seeds": [1]}),
        ("denoise", {"frames": [{"image": "0"}], "text": "a", "level": True, "seeds": [1]}),
        ("denoise", {"frames": [{"image": "0"}], "text": "a", "level": 1, "seeds": [2**32]}),
        ("denoise", {"frames": [{"image": "0"}], "text": "a", "level": 1, "seeds": [0.5]}),
        ("segment", {"image": {"image": "0"}, "points": [[1]], "text": ""}),
        ("segment", {"image": {"image": "0"}, "points": [[1, float("nan")]], "text": ""}),
        ("segment", {"image": {"image": "0"}, "points": [[1, True]], "text": ""}),
        ("segment", {"image": {"image": "0"}, "points": [[1, 1]] * 4097, "text": ""}),
        ("segment", {"image": "text", "points": [], "text": ""}),
        ("track", {"frames": [], "point": [1, 1], "text": ""}),
        ("track", {"frames": [{"image": "0"}], "point": [1, 1, 1], "text": ""}),
        ("track", {"frames": [{"image": "0"}], "point": [1, 1], "text": None}),
    ],
)
def test_a_form_that_no_call_has_is_none(kind: str, form: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        registry.get("call", kind).read(form, lambda digest: CLIP[0])


def test_a_call_cannot_give_what_the_key_adds() -> None:
    class Sly(EmbedCall):
        def form(self, named: Any) -> Any:
            return {"items": [], "model": "another"}

    with pytest.raises(TypeError, match="model"):
        Sly(("a",)).request({"model": "tiny"}, None)


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", "bool", "int64"])
def test_arrays_of_any_plain_type_are_written_and_read(dtype: str) -> None:
    array = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    head, data = arrays.encode(array.T.copy().T, Form(dtype, 2))
    assert json.loads(head) == {"array": dtype, "shape": [2, 3]} and len(data) == 6 * array.itemsize
    restored = arrays.decode(head, data, Form(dtype, 2))
    assert restored.dtype == array.dtype and np.array_equal(restored, array)
    restored[0, 0] = 1  # the array is writable


FORM = Form("float32", 2)


@pytest.mark.parametrize(
    ("head", "data"),
    [
        ("null", bytes(4)),
        ("[1.0]", bytes(4)),
        ("{", bytes(4)),
        ('{"array":"float32","shape":[1,1]}', bytes(3)),
        ('{"array":"float32","shape":[1,1]}', "text"),
        ('{"array":"float32","shape":[1]}', bytes(4)),
        ('{"array":"float32","shape":[1,-1]}', bytes(4)),
        ('{"array":"float32","shape":[true,1]}', bytes(4)),
        ('{"array":"float32","shape":[1.0,1]}', bytes(4)),
        ('{"array":"float32","shape":[4294967296,0]}', b""),
        ('{"array":"float32","shape":[1,1],"more":0}', bytes(4)),
        ('{"array":"float16","shape":[1,2]}', bytes(4)),
        ('{"array":"object","shape":[1,1]}', bytes(8)),
        ('{"array":"float32","shape":[1,1]}', np.array([np.inf], "<f4").tobytes()),
        ('{"array":"float32","shape":[1,1]}', np.array([np.nan], "<f4").tobytes()),
    ],
)
def test_what_is_no_array_is_refused(head: str, data: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        arrays.decode(head, data, FORM)


def test_an_array_that_was_not_kept_tells_what_it_was() -> None:
    with pytest.raises(NotKept, match=r"^float32 \[2, 3\], not kept$"):
        decoded(EmbedCall, '{"array":"float32","shape":[2,3]}', None)
    with pytest.raises(ValueError, match="no recorded answer to a call of kind 'embed'"):
        decoded(EmbedCall, '{"text":"yes"}', None)


def test_an_answer_in_words_is_no_list_of_its_numbers() -> None:
    class Plain(EmbedCall):
        words = classmethod(Call.words.__func__)

    assert Plain.words(np.zeros((2, 3), np.float32)) == "float32 [2, 3]"
    assert EmbedCall.words(np.zeros((2, 3), np.float32)) == "2 vectors of 3 numbers"


@pytest.mark.parametrize(
    ("call", "value", "fault"),
    [
        (VideoCall(CLIP), np.zeros((1, 3), np.float32), "expected float32 [d]"),
        (VideoCall(CLIP), np.zeros(0, np.float32), "expected float32 [d]"),
        (VideoCall(CLIP), np.array([1, np.inf], np.float32), "not finite"),
        (ANSWERED_CALLS[-1][0], np.zeros((1, 3), np.float32), "expected float32 [2, 3]"),
        (ANSWERED_CALLS[-1][0], np.full((2, 3), np.nan, np.float32), "not finite"),
        (ANSWERED_CALLS[-1][0], np.full((2, 3), -0.5, np.float32), "negative"),
    ],
)
def test_answers_about_videos_and_noise_are_checked(call: Call, value: Any, fault: str) -> None:
    assert fault in call.fault(value)


def test_answers_about_videos_and_noise_have_distances() -> None:
    video, noise = VideoCall(CLIP), ANSWERED_CALLS[-1][0]
    vector, scaled, orthogonal = (np.array(numbers, np.float32) for numbers in ([3, 0], [6, 0], [0, 1]))
    assert video.distance(vector, scaled) == 0 and video.distance(vector, orthogonal) == 1
    assert video.distance(vector, np.zeros(2, np.float32)) == video.distance(vector, np.ones(3, np.float32)) == np.inf
    errors = np.array([[4, 0, 1], [2, 2, 2]], np.float32)
    assert noise.distance(errors, errors + np.array([[0, 0, 1], [0, 0, 0]], np.float32)) == 0.5
    assert noise.distance(errors, errors[:1]) == np.inf


def test_a_chat_that_is_not_constrained_has_the_key_that_it_always_had_and_a_repeated_one_too() -> None:
    chat = ChatCall((Message("user", ("a plan?",)),), SCHEMA)
    form = json.loads(chat.request({}, None).text)
    assert "constrained" not in form and "repeats" not in form
    repeated, constrained = replace(chat, repeats=True), replace(chat, constrained=True)
    keys = [call.request({}, None).key for call in (chat, repeated, constrained)]
    assert keys[0] == keys[1] != keys[2] and repeated.repeated and not chat.repeated
    with pytest.raises(ValueError, match="a constrained chat has a schema"):
        ChatCall(chat.messages, constrained=True)
    with pytest.raises(ValueError, match="may be constrained"):
        ChatCall.read({**form, "constrained": "yes"}, {}.__getitem__)
