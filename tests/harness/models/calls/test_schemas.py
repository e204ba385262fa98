"""A chat's schema must be checkable in one walk over the answer; any other schema is refused."""

from typing import Any

import pytest

from guidebench.harness.models import prompts
from guidebench.harness.models.calls import ChatCall, schemas


@pytest.mark.parametrize(
    "schema",
    [
        {},
        prompts.SCHEMA,
        {"type": ["object", "null"], "properties": {"steps": {"type": "array", "items": {"enum": ["key", 1, None]}}}},
        {"prefixItems": [{"const": 0.5}, {"type": "integer"}], "minItems": 2, "maxItems": 2},
        {"anyOf": [{"const": True}, {"type": "number", "exclusiveMinimum": -0.5, "maximum": 3}]},
        {"additionalProperties": {"type": "string", "minLength": 0, "maxLength": 9}, "required": ("a",), "title": "t"},
    ],
)
def test_what_may_be_used(schema: dict[str, Any]) -> None:
    schemas.check(schema)
    assert ChatCall((), schema).schema == schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "#"}, r"keyword '\$ref' is not allowed; expected type, properties"),
        ({"properties": {"x": {"items": {"uniqueItems": True}}}}, "keyword 'uniqueItems' is not allowed"),
        ({"anyOf": [{"pattern": "a*"}]}, "keyword 'pattern' is not allowed"),
        ({"allOf": [{}, {}]}, "keyword 'allOf' is not allowed"),
        ({"additionalProperties": {"$dynamicRef": "#"}}, r"keyword '\$dynamicRef' is not allowed"),
        ({"type": "text"}, "keyword 'type' has the value 'text'"),
        ({"type": []}, "keyword 'type' has the value"),
        ({"required": "a"}, "keyword 'required' has the value 'a'"),
        ({"enum": [{"a": 1}]}, "keyword 'enum' has the value"),
        ({"minItems": -1}, "keyword 'minItems' has the value -1"),
        ({"maximum": float("nan")}, "keyword 'maximum' has the value nan"),
        ({"prefixItems": [{"pattern": "a*"}]}, "keyword 'pattern' is not allowed"),
        ({"items": True}, "True is no schema"),
        ([], r"\[\] is no schema"),
        ({"description": "x" * 2**16}, "more than 65,536 characters"),
    ],
)
def test_what_may_not(schema: Any, message: str) -> None:
    for check in (schemas.check, lambda schema: ChatCall((), schema)):
        with pytest.raises(ValueError, match=message):
            check(schema)
