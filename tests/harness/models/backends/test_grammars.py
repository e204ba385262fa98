import sys

import pytest

from guidebench.harness.models.backends.grammars import grammar_of
from tests.refusals import check_refused

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def test_a_schema_that_cannot_be_compiled_is_refused_with_the_reason() -> None:
    pytest.importorskip("llguidance")
    assert "json_schema" in grammar_of(OBJECT)
    check_refused(
        r"cannot be compiled .*Unimplemented keys.*uniqueItems", grammar_of, {"type": "array", "uniqueItems": True}
    )


def test_without_the_package_the_extra_that_has_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    check_refused(r"llguidance.*install the extra tiny", grammar_of, OBJECT)
