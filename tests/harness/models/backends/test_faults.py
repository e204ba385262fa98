"""Which parts of an error message of a model or server are kept."""

import pytest

from guidebench.harness.models.backends.faults import LONGEST, scrubbed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no such model: tiny-1b", "no such model: tiny-1b"),
        ("Incorrect API key provided: sk-pr***********cdef.", "Incorrect API key provided: [removed]."),
        ("{'Authorization': 'Bearer abc.def', 'x': 1}", "{'Authorization': '[removed]', 'x': 1}"),
        ("token hf_AbCdEf123456 is not valid", "token [removed] is not valid"),
        ("value of MY_SERVICE_TOKEN: a/b+c=12345", "value of MY_SERVICE_TOKEN: [removed]"),
        ("short ones are words: abc", "short ones are words: abc"),
        ("x" * 1_000_000, "x" * LONGEST),
    ],
)
def test_keys_and_what_looks_like_one_are_removed(monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "a/b+c=12345")
    monkeypatch.setenv("OTHER_KEY", "abc")
    assert scrubbed(text) == expected
