"""Goals in words: their form, how an answer is read, and what of a state is asked about."""

import pytest

from guidebench.methods.ellm.goals import LONGEST, Suggested, Words, plain, question_state, read
from guidebench.suites.crafter.captions import DEEDS

SOME = ("chop tree", "chop grass", "eat cow", "place crafting table", "sleep")
WORDS = Words.of(SOME)


def test_words_are_the_verbs_and_nouns_of_what_steps_can_achieve() -> None:
    assert Words(("chop", "eat", "place"), ("tree", "grass", "cow", "crafting table"), ("sleep",)) == WORDS
    assert Words.of(("sleep",)) == Words((), (), ("sleep",))
    crafter = Words.of(DEEDS)
    assert set(crafter.verbs) == {"mine", "drink", "chop", "attack", "eat", "make", "place"}
    assert len(crafter.nouns) == 19 and crafter.alone == ("sleep",), "ELLM's nouns"


def test_an_answer_is_cut_and_what_is_no_goal_is_kept_out_and_counted() -> None:
    answer = ["Chop a tree.", "chop_tree", "eat tree", "fly to the moon", "- Sleep!", "tree", "", "chop grass"]
    assert read(answer, SOME, WORDS, 2, True) == Suggested(("chop tree", "eat tree"), 6, 2, 1, 2)
    everything = read(answer, SOME, WORDS, 10, False)
    assert everything.goals == ("chop tree", "eat tree", "fly to moon", "sleep", "tree", "chop grass")
    assert (everything.unknown, everything.senseless, everything.cut) == (0, 1, 0)
    assert read([], SOME, WORDS, 2, True) == Suggested((), 0, 0, 0, 0)
    answer = [f"{verb} {noun}" for verb in WORDS.verbs for noun in WORDS.nouns] * 9
    found = read(answer, SOME, WORDS, 5, True)
    assert len(answer) == 108 and found.goals == tuple(answer[:5])
    assert (found.proposed, found.senseless, found.cut) == (12, 8, 7)


@pytest.mark.parametrize(
    ("said", "goal"),
    [
        ("1. Eat the cow", "1 eat cow"), ("  PLACE   crafting-table ", "place crafting table"), ("…", ""), ("the", ""),
        ("chop\ntree\x00", "chop tree"), ("x" * LONGEST, "x" * LONGEST), ("x" * (LONGEST + 1), ""), ("x" * 10**6, ""),
    ],
)  # fmt: skip
def test_a_goal_is_plain_words(said: str, goal: str) -> None:
    assert plain(said) == goal


def test_sentences_and_brackets_that_are_left_out() -> None:
    crafter = "you see cow and tree. you are targeting tree. you feel hurt and hungry."
    assert question_state(crafter, (), False) == crafter
    assert question_state(crafter, ("you feel", "you are targeting"), False) == "you see cow and tree."
    house = "you see shelf (1.3 m left), table (2.0 m ahead). mug on table (2.1 m ahead). you hold nothing."
    assert question_state(house, (), True) == "you see shelf, table. mug on table. you hold nothing."
    assert question_state(house, ("mug",), False).endswith("(2.0 m ahead). you hold nothing.")
