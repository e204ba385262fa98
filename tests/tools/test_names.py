"""The lint of names finds every kind of binding, and this checkout passes it."""

import ast
from pathlib import Path

import pytest

from tools import names

SOURCE = """
import numpy as found
class Seen:
    kept: int = 0
def told(given, *what, **where):
    global known
    known = self.own = lambda each: each
    for left, (here, _asked) in pairs:
        with file as shown:
            pass
    try:
        pass
    except ValueError as said:
        pass
    match pairs:
        case [wanted, *whole]:
            pass
    return [there for there in pairs]
"""


def test_every_kind_of_binding_is_found() -> None:
    words = {binding.word for binding in names.bindings(ast.parse(SOURCE))}
    assert words >= names.BANNED and "file" not in words


def test_a_banned_name_an_unused_exception_and_too_many_generic_names_are_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness/desk.py").write_text("told = 1\nreply = 2\nitem = 3\nvalue = 4\n")
    monkeypatch.setattr(names, "CEILINGS", {"package": 1, "tests": 0, "tools": 0})
    monkeypatch.setattr(names, "EXCEPTIONS", {"harness/desk.py seen": "a stored key"})
    banned, generic, exception = names.check(tmp_path)
    assert banned.startswith("harness/desk.py:1: `told`")
    assert generic.startswith("package: 2 bindings of generic names")
    assert "`harness/desk.py seen` is not needed" in exception

    monkeypatch.setattr(names, "EXCEPTIONS", {"harness/desk.py told": "a stored key"})
    monkeypatch.setattr(names, "CEILINGS", {"package": 2, "tests": 0, "tools": 0})
    assert names.check(tmp_path) == []
