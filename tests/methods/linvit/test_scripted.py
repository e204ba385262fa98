"""The hand-written chat, asked by the method's own prompt."""

import json

import numpy as np
import pytest

from guidebench.baselines.conversing import filled
from guidebench.baselines.tidying import BELONGS
from guidebench.harness import registry
from guidebench.harness.models.calls import Message
from guidebench.methods.linvit.dialogue import PROMPT, weights
from guidebench.methods.linvit.scripted import LOST, Weigher

HOUSEKEEP = ("move forward", "turn left", "turn right", "look up", "look down", "grab or release")
VIEW = "you see top cabinet (1.3 m left), fridge (2.0 m ahead)."


WALK = {"move forward": 8, "turn left": 1, "turn right": 1}
GRAB = {"grab or release": 8, "look up": 1, "look down": 1}
SEARCH = {"move forward": 3, "turn left": 2, "turn right": 1}


def weights_for(
    state: str, actions: tuple[str, ...], goal: str = "tidy the room", error: float = 0.0
) -> dict[str, float]:
    listed = "\n".join(f"- {name}" for name in actions)
    prompt = filled(PROMPT, {"instruction": goal, "state": state, "actions": listed})
    reply = Weigher(error)((Message("user", (prompt,)),))
    assert Weigher(error)((Message("user", (prompt,)), Message("user", ("again",)))) == reply
    weights(reply, actions)
    answer: dict[str, float] = json.loads(reply)["weights"]
    return answer


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (f"{VIEW} lamp on fridge (2.0 m ahead). you hold nothing.", WALK),
        (f"{VIEW} lamp on fridge (1.2 m ahead). you hold nothing. you look 20 degrees down.", GRAB),
        (f"{VIEW} lamp on fridge (1.2 m ahead). you hold nothing.", {"look down": 8}),
        (f"{VIEW} lamp on fridge (1.2 m ahead). you hold nothing. you look 40 degrees down.", {"look up": 8}),
        (f"{VIEW} lamp on fridge (1.2 m ahead). you hold nothing. you look 20 degrees up.", {"look down": 8}),
        (f"{VIEW} lamp in fridge (2.0 m right). lamp on stove (3.0 m left). you hold nothing.", {"turn right": 8}),
        (f"{VIEW} butter dish in fridge (1.2 m ahead). you hold nothing. you look 30 degrees down.", SEARCH),
        (f"{VIEW} lamp on fridge (1.2 m ahead). you hold mustard bottle.", {"turn left": 8}),
        (f"{VIEW} you hold butter dish. you look 10 degrees up.", WALK),
        (f"{VIEW} you hold lamp.", SEARCH),
        ("you see nothing. you hold nothing.", SEARCH),
    ],
)  # fmt: skip
def test_it_goes_to_what_is_misplaced_and_to_where_it_belongs(state: str, expected: dict[str, float]) -> None:
    """Half a metre below the eyes and 1.2 m away is 22.6 degrees down."""
    assert weights_for(state, HOUSEKEEP) == expected


TREE = "you see grass and tree. you are targeting tree."
CRAFTER = ("do nothing", "move left", "sleep", "chop tree", "eat cow", "attack zombie", "drink water",
           "place crafting table", "place furnace", "make wood pickaxe", "find tree", "find cow")  # fmt: skip


@pytest.mark.parametrize(
    ("goal", "state", "expected"),
    [
        ("chop four trees", TREE, {"move left": 1, "chop tree": 8, "find tree": 4}),
        ("mine iron", f"{TREE} you have in your inventory wood.",
         {"move left": 1, "chop tree": 8, "place crafting table": 8, "find tree": 4}),
        ("make a stone sword", "you see crafting table. you have in your inventory wood. you feel sleepy.",
         {"move left": 1, "sleep": 2, "make wood pickaxe": 8, "find tree": 4}),
        ("chop four trees", "you see cow. you are targeting cow. you feel hungry and thirsty.",
         {"move left": 1, "eat cow": 4, "find tree": 4}),
        ("chop four trees", "you see cow. you are targeting cow.", {"move left": 1, "find tree": 4}),
        ("chop four trees", "you see zombie. you are targeting zombie.",
         {"move left": 1, "attack zombie": 8, "find tree": 4}),
    ],
)  # fmt: skip
def test_it_works_towards_the_goal_and_what_must_come_before_it(
    goal: str, state: str, expected: dict[str, float]
) -> None:
    assert weights_for(state, CRAFTER, goal) == expected


def test_the_packages_own_action_acts_on_what_the_whole_game_wants() -> None:
    goal = "survive, and unlock as many different achievements as possible"
    assert weights_for(TREE, ("noop", "move up", "do", "place table"), goal) == {"move up": 1, "do": 8}


def test_it_errs_at_its_rate_and_the_same_way_each_time() -> None:
    states = [f"you see fridge (2.{number} m ahead). lamp on fridge (2.{number} m ahead). you hold nothing."
              for number in range(300)]  # fmt: skip
    answers = [weights_for(state, HOUSEKEEP, error=0.3) for state in states]
    wrong = [answer for answer in answers if answer != WALK]
    assert len(wrong) / 300 == pytest.approx(0.3, abs=0.08)
    counts = np.array([sum(name in answer for answer in wrong) for name in HOUSEKEEP])
    assert counts.sum() == len(wrong) and counts.min() > 5
    assert Weigher(0.0)((Message("user", ("Say yes.",)),)) == LOST, "other messages are not answered"


def test_what_it_knows_of_housekeep_are_things_that_are_there_and_mostly_where_people_put_them() -> None:
    """53 of its 59 pairs are correct by the suite's table, which it was not made from."""
    suite = registry.get("suite", "housekeep")()
    table = suite.make("adjustment_1").rules
    from guidebench.suites.housekeep.items import OBJECTS

    names = [name.replace("_", " ") for name in OBJECTS]
    assert set(BELONGS) == set(names)
    pairs = [(names.index(thing), table.receptacles.index(at)) for thing, ats in BELONGS.items() for at in ats]
    assert (len(pairs), sum(bool(table.correct[pair]) for pair in pairs)) == (59, 53)
