"""Which parts a cell has: teachers and models exist only where another part asks for them."""

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from tests.refusals import check_refused


def cell(*overrides: str) -> Cell:
    (planned_cell,) = matrix.plan(["suite=metaworld_pbrl", "task=button-press", "profile=smoke", *overrides]).cells
    return planned_cell


def test_a_guide_that_is_taught_has_a_teacher_and_a_teacher_that_asks_a_chat_has_one() -> None:
    plain, scripted = cell("method=sac"), cell("method=pebble")
    llm_taught = cell("method=pebble", "teacher=llm", "chat=scripted")
    first = ["learner", "replay", "guide", "agent"]
    assert [[part.role for part in planned_cell.names.parts] for planned_cell in (plain, scripted, llm_taught)] == [
        first,
        [*first, "teacher"],
        [*first, "teacher", "chat"],
    ]
    assert [str(part) for part in llm_taught.names.of("teacher", "chat")] == ["teacher 'llm'", "chat 'scripted'"]
    assert [planned_cell.section("teacher") is None for planned_cell in (plain, scripted, llm_taught)] == [
        True,
        False,
        False,
    ]


def test_rows_are_named_after_what_answers() -> None:
    assert (cell("method=sac").model, cell("method=sac").backend) == ("", "")
    assert (cell("method=pebble").model, cell("method=pebble").backend) == ("oracle", "oracle")
    served = cell("method=pebble", "teacher=llm", "chat=openai", "chat.model=org/large")
    assert (served.model, served.backend, served.variant) == ("large", "openai", "teacher=llm")


def test_a_kind_that_a_cell_has_not_is_no_part_of_its_record_or_id() -> None:
    plain = record(cell("method=sac"))
    assert tuple(plain["parts"]) == ("learner", "replay", "guide", "agent") and recorded(plain).id == plain["cell"]
    taught = record(cell("method=pebble"))
    oracle = {"kind": "teacher", "name": "oracle", "backend": "oracle", "model": "oracle"}
    assert taught["parts"]["teacher"] == oracle and "chat" not in taught["parts"]
    assert recorded(taught).section("teacher") == cell("method=pebble").section("teacher")


def test_how_a_chat_is_reached_changes_no_id_and_its_model_does() -> None:
    chats = ["method=pebble", "teacher=llm", "chat=openai"]
    assert cell(*chats, "chat.base_url=http://127.0.0.1:1/v1").id == cell(*chats).id
    assert cell(*chats, "chat.model=other").id != cell(*chats).id


def test_a_task_goes_by_its_other_names_too() -> None:
    by_alias = matrix.plan(["suite=metaworld_pbrl", "task=button-press-v2,button-press", "method=sac", "profile=smoke"])
    assert [alias_cell.id for alias_cell in by_alias.cells] == [cell("method=sac").id]
    check_refused(
        "did you mean 'button-press'", matrix.plan, ["suite=metaworld_pbrl", "task=buttonpress", "method=sac"]
    )


def test_a_part_that_no_chosen_method_has_is_refused() -> None:
    check_refused("teacher= is given, but none of the chosen methods has a teacher", cell, "method=sac", "teacher=llm")
    check_refused("chat= is given, but none of the chosen methods has a chat", cell, "method=pebble", "chat=openai")


def test_a_task_that_changes_from_episode_to_episode_is_none_to_ask_about() -> None:
    by_turns = ["suite=metaworld_mt10", "task=mt10", "profile=smoke"]
    assert len(matrix.plan([*by_turns, "method=sac,pebble"]).cells) == 2
    with pytest.raises(UserError, match="changes its goal in each episode, and teacher 'llm' needs a fixed goal"):
        matrix.plan([*by_turns, "method=rl_sallm_f", "chat=scripted"])
