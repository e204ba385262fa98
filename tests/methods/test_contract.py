"""Every method keeps the contract of `contract.py`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness import registry
from tests.methods.contract import METHODS, MORE, REHEARSED, check


def test_every_method_and_suite_is_in_the_tables() -> None:
    assert [*METHODS] == [name for name in registry.names("method")]
    assert all(row.words.startswith(f"method={name} ") for name, row in METHODS.items())
    words = " ".join(row.words for row in (*METHODS.values(), *MORE.values())).split()
    assert {*REHEARSED} <= METHODS.keys() | MORE.keys()
    assert {f"suite={name}" for name in registry.names("suite")} <= {*words}


@pytest.mark.alone
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.release] * (name in REHEARSED)) for name in (*METHODS, *MORE)]
)
def test_the_contract_is_kept(name: str, tiny: Callable[[str], Path], tmp_path: Path, opengl: None) -> None:
    check((METHODS | MORE)[name], tiny, tmp_path)
