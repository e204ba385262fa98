"""The hand-written chats are found by their role's short names and say where they cannot answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.parts import CellView
from guidebench.methods.kagi.chats import OracleWaypoints, ScriptedWaypoints

ASKS = SimpleNamespace(needs={"waypoints": "chat"})


def there(chat: Any, suite: Any, task: str, role: str = "waypoints", guide: Any = ASKS) -> CellView:
    parts = {"suite": suite, "guide": guide, role: chat}
    return CellView(parts, task, Observations((7,), "float32"), Actions(shape=(7,)))


def suite(name: str) -> Any:
    return registry.get("suite", name)()


def test_an_instruction_without_a_known_colour_is_refused_by_name() -> None:
    pytest.importorskip("metaworld")
    pytest.importorskip("ogbench")
    assert ScriptedWaypoints().fits(there(ScriptedWaypoints(), suite("bin_sorting"), "forward")) == ""
    told = ScriptedWaypoints().fits(there(ScriptedWaypoints(), suite("metaworld"), "drawer-close"))
    assert told.startswith("the instruction 'push the open drawer shut' is one without a known colour")
    assert "red, orange, yellow" in told and "choose another task, or waypoints=oracle or a model" in told


def test_what_the_machine_lacks_is_left_to_the_suite() -> None:
    def make(task: str) -> Any:
        raise UserError("the package is missing")

    assert ScriptedWaypoints().fits(there(ScriptedWaypoints(), SimpleNamespace(make=make), "forward")) == ""


def test_the_oracle_needs_a_suite_that_tells_where_things_are() -> None:
    told = OracleWaypoints().fits(there(OracleWaypoints(), suite("minigrid_doorkey"), "5x5"))
    assert "does not tell where the thing to be moved is" in told and "choose bin_sorting" in told
    assert OracleWaypoints().fits(there(OracleWaypoints(), suite("bin_sorting"), "forward")) == ""


@pytest.mark.parametrize("chat", [ScriptedWaypoints(), OracleWaypoints()])
def test_each_is_registered_and_answers_in_the_role_waypoints_alone(chat: Any) -> None:
    name = "oracle_waypoints" if chat.privileged else "scripted_waypoints"
    assert registry.get("chat", name) is type(chat)
    for place in (
        there(chat, None, "forward", guide=SimpleNamespace(needs={})),
        there(chat, None, "forward", role="chat"),
    ):
        assert chat.fits(place) == "it chooses waypoints, for KAGI's guide alone, in the role waypoints"
