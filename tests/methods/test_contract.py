"""Every method keeps the contract of `contract.py`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness import registry
from guidebench.harness.parts import Part
from guidebench.harness.plan import matrix
from tests.methods.contract import METHODS, MORE, REHEARSED, check


def test_every_method_and_suite_is_in_the_tables() -> None:
    assert [*METHODS] == [name for name in registry.names("method")]
    assert all(row.words.startswith(f"method={name} ") for name, row in METHODS.items())
    words = " ".join(row.words for row in (*METHODS.values(), *MORE.values())).split()
    assert {*REHEARSED} <= METHODS.keys() | MORE.keys()
    assert {f"suite={name}" for name in registry.names("suite")} <= {*words}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_learns_from_models_says_how_much_they_guide(name: str) -> None:
    """A pilot prints these metrics (`Part.guidance`); `check` shows that they are logged."""
    weights = ("embedder=transformers", "embedder.model=", "embedder.dtype=")  # the suite has no others at hand
    words = [word for word in METHODS[name].words.split() if not word.startswith(weights)]
    typed = {word.partition("=")[0]: word.format_map({"url": "http://localhost"}) for word in words}
    for cell in matrix.plan([*typed.values()]).cells:
        guidance = [part.guidance for part in cell.sections.values() if isinstance(part, Part) and part.guidance]
        assert guidance or not cell.models or not cell.section("agent").learns


@pytest.mark.alone
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.release] * (name in REHEARSED)) for name in (*METHODS, *MORE)]
)
def test_the_contract_is_kept(name: str, tiny: Callable[[str], Path], tmp_path: Path, opengl: None) -> None:
    check((METHODS | MORE)[name], tiny, tmp_path)
