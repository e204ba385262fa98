"""Everything is found by name, lightly; a broken plug-in is a warning with its name, never a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness import registry
from harness.errors import UserError

JUDGE = """
    from dataclasses import dataclass
    from harness.registry import register

    @register.judge("mine")
    @dataclass(frozen=True)
    class Mine:
        '''A judge from outside.'''
        version = 1
        backend = "scripted"
"""


def test_finding_every_built_in_name_imports_nothing_heavy() -> None:
    program = (
        "import sys; from harness import registry; [registry.names(kind) for kind in registry.KINDS];"
        "heavy = {'torch', 'numba', 'gymnasium', 'minigrid', 'pandas', 'matplotlib', 'pyarrow', 'hydra', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_plug_in_is_found_by_name_and_listed(plugin) -> None:
    plugin("mine_module", JUDGE, {"judge": "mine"})
    assert registry.get("judge", "mine").backend == "scripted"
    assert "mine" in registry.names("judge")


def test_a_broken_plug_in_is_a_warning_with_its_name(plugin) -> None:
    plugin("broken_module", "raise RuntimeError('no such thing')", {"method": "broken"})
    with pytest.warns(UserWarning, match=r"plug-in 'broken' \(broken_module\) is broken and left out.*no such thing"):
        names = registry.names("method")
    assert "broken" not in names and "uer" in names


def test_a_plug_in_that_does_not_register_what_it_announces_is_named(plugin) -> None:
    plugin("empty_module", "", {"replay": "nothing"})
    with pytest.warns(UserWarning, match="did not register the replay 'nothing'"):
        registry.names("replay")


def test_two_things_of_one_name_are_refused(plugin) -> None:
    plugin("twice_module", JUDGE.replace('"mine"', '"sprite"'), {"judge": "other"})
    with pytest.warns(UserWarning, match="registered twice"):
        registry.names("judge")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown method 'vlm-rb'; did you mean 'vlm_rb'"):
        registry.get("method", "vlm-rb")
