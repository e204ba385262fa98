"""What plans lack by the rules of a hint, and how often their steps are repeated: cases worked by hand."""

import pytest

from guidebench.harness.errors import UserError
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.rules import Lack, Rule, held, lacks, miscounted, read, supplied
from guidebench.methods.dsadf.slow_system import CRAFTER_HINT
from guidebench.methods.model_as_agent import ModelWithPlanner
from tests.methods.dsadf.worlds import HINT, START

RULES = read(HINT)


def plan(*names: str) -> list[Subgoal]:
    return [Subgoal(name) for name in names]


def test_rules_are_the_lines_that_look_like_rules() -> None:
    assert len(RULES) == 5 and "trees give wood" not in RULES
    assert RULES["make stone sword"] == Rule(("crafting table",), {"wood": 1, "stone": 1}, {"stone sword": 1})
    assert read("just prose: with a colon") == {}


def test_what_neither_start_nor_an_earlier_step_provides_is_lacking() -> None:
    for names, lacking in (
        (("chop tree", "place crafting table", "make wood pickaxe", "mine stone", "make stone sword"), []),
        (("chop tree", "place crafting table", "mine stone", "make stone sword"), [Lack(2, "wood pickaxe")]),
        (("make wood pickaxe",), [Lack(0, "crafting table"), Lack(0, "wood")]),
        (("place crafting table", "chop tree"), [Lack(0, "wood")]),  # what comes later is lacking
    ):
        assert lacks(plan(*names), RULES, START) == lacking


def test_what_sentences_name_is_there() -> None:
    """To see wood is not to hold it, and a pickaxe of wood is no wood; a table that is seen will do."""
    state = "you see crafting table, grass, and tree. you have in your inventory wood, stone, and wood pickaxe."
    assert held(state) == {"wood", "stone", "wood pickaxe"}
    assert lacks(plan("make stone sword"), RULES, state) == []
    other_state = "you see wood and stone. you have in your inventory wood pickaxe. you feel hungry."
    assert lacks(plan("make stone sword"), RULES, other_state) == [
        Lack(0, "crafting table"), Lack(0, "wood"), Lack(0, "stone"),
    ]  # fmt: skip
    assert held("you hold nothing.") == set()


def test_steps_are_repeated_until_they_provide_what_the_rest_uses() -> None:
    """By hand: the table takes 2 wood, pickaxe and sword 1 each, so one "chop tree" becomes four; with the second "chop
    tree" after the table, that one provides the last two."""
    one_chop = plan("chop tree", "place crafting table", "make wood pickaxe", "mine stone", "make stone sword")
    assert [step.times for step in supplied(one_chop, RULES, START)] == [4, 1, 1, 1, 1]
    two_chops = plan(
        "chop tree", "place crafting table", "chop tree", "make wood pickaxe", "mine stone", "make stone sword"
    )
    assert [step.times for step in supplied(two_chops, RULES, START)] == [2, 1, 2, 1, 1, 1]
    enough = [Subgoal("chop tree", 9), *one_chop[1:]]
    assert supplied(enough, RULES, START) == tuple(enough)
    assert supplied(one_chop, RULES, "you have in your inventory wood.")[0].times == 1, "its number is unknown"
    assert supplied(plan("make stone sword"), RULES, START) == (Subgoal("make stone sword"),), "nothing gives it"


@pytest.mark.parametrize("wrong", ["0 wood", "² wood", "½ wood", "1.5 wood", "-2 wood", f"{'9' * 5_000} wood"])
def test_a_count_that_is_no_whole_number_from_1_on_is_left_out_and_refused_in_a_setting(wrong: str) -> None:
    hint = f"{HINT}\n- chop tree: gives {wrong}"
    assert read(hint)["chop tree"].gives == {} and miscounted(hint) == wrong
    planned_subgoals = plan("chop tree", "place crafting table")
    assert supplied(planned_subgoals, read(hint), START) == tuple(planned_subgoals), "nothing gives wood"
    with pytest.raises(UserError, match=r"agent\.hint has a rule with"):
        ModelWithPlanner(hint=hint)


def test_the_hint_about_crafter_is_the_packages_table() -> None:
    constants = pytest.importorskip("crafter.constants")

    def plain(name: str) -> str:
        return {"table": "crafting table", "sapling": "plant"}.get(name, name).replace("_", " ")

    assert [miscounted(hint) for hint in (CRAFTER_HINT, HINT, "Chop 0 trees.", "")] == [""] * 4
    rules = read(ModelWithPlanner(hint=CRAFTER_HINT).hint)
    assert len(rules) == 16
    for noun, recipe in constants.collect.items():
        if noun not in ("water", "sapling"):
            rule = rules[f"{'chop' if noun in ('tree', 'grass') else 'mine'} {plain(noun)}"]
            assert rule.needs == tuple(map(plain, recipe["require"]))
            assert rule.gives == {plain(thing): count for thing, count in recipe["receive"].items()}
    for verb in ("make", "place"):
        for noun, recipe in getattr(constants, verb).items():
            rule = rules[f"{verb} {plain(noun)}"]
            assert rule.uses == {plain(thing): count for thing, count in recipe["uses"].items()}
            near = ("table",) if noun == "furnace" else recipe.get("nearby", ())
            assert rule.needs == tuple(map(plain, near)), "the suite places a furnace near a table alone"
