"""What every kind of call keeps: its form names it and brings it back, and its answers are written and read alike."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.foundation import keys
from guidebench.harness.foundation.calls import Call, ChatCall, EmbedCall, JudgeCall, Message, arrays

CLIP = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
SCHEMA = {"type": "object", "properties": {"steps": {"type": "array"}}, "required": ["steps"]}
ASKED: list[tuple[Call, Any]] = [
    (JudgeCall(CLIP, "Is it done?"), 0.25),
    (ChatCall((Message("system", ("be brief",)), Message("user", ("why?", CLIP[0])))), "because"),
    (ChatCall((Message("user", ("a plan?",)),), SCHEMA, 64, 0.5), {"steps": ["key", 1, None]}),
    (EmbedCall((CLIP[0], CLIP[1])), np.eye(2, 3, dtype=np.float32)),
    (EmbedCall(("a",)), np.zeros((1, 4), np.float32)),
]
ANSWERS = [0.25, 1, 1.5, float("nan"), "because", {"steps": []}, {"steps": 1}, np.eye(2, 3), np.eye(2), None, [0.5]]


@pytest.mark.parametrize(("call", "value"), ASKED)
def test_a_call_comes_back_from_its_form_and_an_answer_from_the_cassette(call: Call, value: Any) -> None:
    request = keys.request({"model": "tiny"}, call, None)
    back = type(call).read(json.loads(request.text), request.images.__getitem__)
    assert keys.request({"model": "tiny"}, back, None).text == request.text
    assert back.fault(value) == call.fault(value) == ""
    again = call.decode(json.loads(json.dumps(call.encode(value))))
    assert type(again) is type(value) and np.array_equal(again, value) and call.fault(again) == ""
    assert call.distance(value, again) <= 0 <= call.tolerance


@pytest.mark.parametrize("name", ["chat", "embed", "judge"])
def test_a_small_call_of_each_kind_is_one_of_it(name: str) -> None:
    kind = registry.get("call", name)
    small = kind.small()
    assert type(small) is kind and kind.kind == name and not small.sampled
    assert kind.shown(json.loads(keys.request({}, small, None).text))


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        (ASKED[0][0], [0.25]),
        (ASKED[1][0], ["because"]),
        (ASKED[2][0], [{"steps": []}]),
        (ASKED[3][0], []),
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
        ("embed", {"items": "abc"}),
        ("embed", {"items": [7]}),
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
        keys.request({"model": "tiny"}, Sly(("a",)), None)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_, np.int64])
def test_arrays_of_any_plain_type_are_written_and_read(dtype: Any) -> None:
    array = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    found = arrays.decode(json.loads(json.dumps(arrays.encode(array, dtype))), dtype, 2)
    assert found.dtype == array.dtype and np.array_equal(found, array)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [1.0],
        {"float32": "AAAA", "shape": [1, 1]},
        {"float32": "AAAAAA==", "shape": [1]},
        {"float32": "AAAAAA==", "shape": [1, -1]},
        {"float32": "AAAAAA==", "shape": [True, 1]},
        {"float32": "AAAAAA==", "shape": [1, 1], "more": 0},
        {"float64": "AAAAAA==", "shape": [1, 1]},
        {"float32": "????????", "shape": [1, 1]},
        {"float32": 7, "shape": [1, 1]},
    ],
)
def test_what_is_no_array_is_refused(stored: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        arrays.decode(stored, np.float32, 2)
