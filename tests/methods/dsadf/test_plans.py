"""Plans are read from JSON and from numbered prose; whatever else a model may write is refused by name."""

import time

import pytest

from guidebench.baselines.conversing import Misread
from guidebench.methods.dsadf.plans import MOST_TIMES, Subgoal, Vocabulary, read
from tests.methods.dsadf.worlds import ACTIONS, START

WORDS = Vocabulary((*ACTIONS, "place table"), ("make a stone sword", START))


def names(reply: str, longest: int = 40) -> list[str]:
    return [str(step) for step in read(reply, WORDS, longest)]


def test_the_papers_form_is_read() -> None:
    """App. B.1: number, step, what it is about, and an explanation."""
    reply = "1. Find Tree (tree.location) – Move to the nearest tree\n2. **Chop Trees** (4 times)\n3) Place Table: x1"
    assert names(reply) == ["find tree", "chop tree (4 times)", "place table"]


def test_of_several_lists_the_last_is_the_plan() -> None:
    reply = (
        "Thoughts:\n1. I need wood.\n2. I need stone.\n\nPlan:\n1. chop a tree until I have it\n2. make_wood_pickaxe"
    )
    assert names(reply) == ["chop tree", "make wood pickaxe"]


def test_json_is_read_in_the_order_that_it_demands() -> None:
    last = '{"subgoal": "make stone sword", "after": [2, 3]}'
    reply = f'Sure: {{"plan": [{last}, "mine stone", {{"subgoal": "chop tree", "times": 3}}]}}'
    assert names(reply) == ["mine stone", "chop tree (3 times)", "make stone sword"]


@pytest.mark.parametrize(
    ("reply", "fault", "message"),
    [
        ("I would go and look for a tree.", "empty", "holds no plan"),
        ("", "empty", "holds no plan"),
        ('{"plan": []}', "empty", "holds no plan"),
        ("1. chop tree\n2. fly to the moon", "unknown", "step 2, 'fly to the moon'"),
        ("1. find happiness", "unknown", "step 1, 'find happiness'"),
        ("1. find", "unknown", "step 1, 'find'"),
        ('{"plan": [{"action": "chop tree"}]}', "unknown", "no text `subgoal`"),
        ('{"plan": [{"subgoal": "chop tree", "times": "many"}]}', "unknown", "no whole number `times`"),
        ('{"plan": [{"subgoal": "chop tree", "after": [2]}]}', "unknown", "expected numbers of steps, from 1 to 1"),
        ('{"plan": [{"subgoal": "chop tree", "after": [2]}, {"subgoal": "eat cow", "after": [1]}]}', "cycle", "1, 2"),
        ('{"plan": [{"subgoal": "chop tree", "after": [1]}]}', "cycle", "each of the steps 1"),
        ("\n".join(f"{n}. chop tree" for n in range(1, 101)), "long", "100 steps; write at most 40"),
        ("{" * 100_000, "empty", "holds no plan"),
        ('{"plan": ' + "[" * 5_000, "empty", "holds no plan"),
    ],
)  # fmt: skip
def test_other_replies_are_refused_by_name(reply: str, fault: str, message: str) -> None:
    with pytest.raises(Misread, match=message) as refused:
        names(reply)
    assert refused.value.fault == fault


@pytest.mark.parametrize(
    ("line", "times"),
    [("chop tree (max 9)", 1), ("chop tree x3", 3), ("chop tree (x 3)", 3), ("chop tree (3 times)", 3),
     ("chop tree: ×4", 4), ("chop tree (9999 times)", MOST_TIMES), ("chop tree (0 times)", 1)],
)  # fmt: skip
def test_repetitions_are_told_by_times_or_by_an_x_that_ends_no_word_and_bounded(line: str, times: int) -> None:
    assert read(f"1. {line}", WORDS, 40) == (Subgoal("chop tree", times),)
    assert names('{"plan": [{"subgoal": "chop tree", "times": -3}]}') == ["chop tree"]


def test_a_step_of_a_hundred_thousand_characters_is_matched_by_its_first_ones() -> None:
    began = time.process_time()
    assert WORDS.match("chop tree " + "and " * 25_000) == "chop tree"
    assert WORDS.match("and " * 25_000) is None
    assert time.process_time() - began < 20, "milliseconds; a search that grows with the square takes a minute"


def test_only_things_that_the_task_mentions_can_be_found() -> None:
    words = Vocabulary(("grab or release",), ("tidy the room", "you see a salt shaker and a counter."))
    phrases = ("Find the salt shaker on the counter", "find teapot", "Grab or release it")
    assert [*map(words.match, phrases)] == ["find salt shaker", None, "grab or release"]
