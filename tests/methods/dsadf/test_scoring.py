"""The scorer: what it is told, what is read from its replies, and the hand-written one."""

import asyncio
import statistics

import pytest

from guidebench.baselines.conversing import Misread
from guidebench.methods.dsadf import prompts
from guidebench.methods.dsadf.memory import Skill
from guidebench.methods.dsadf.scoring import ScorerDialogue, behaviour, proficiency
from guidebench.methods.dsadf.scripted import PromptScorer
from tests.methods.dsadf.worlds import CannedModel, last_text

SKILL = Skill(12, 7, [(5, True), (60, False), (1, True), (9, True)])
QUESTION = {"subgoal": "chop tree", "behaviour": behaviour(SKILL)}


def test_behaviour_is_told_in_sentences() -> None:
    assert behaviour(SKILL) == (
        "It was attempted 12 times and reached 7 times. The last attempts: reached after 5 steps; not reached in 60 "
        "steps; reached after 1 step; reached after 9 steps."
    )
    assert behaviour(Skill()) == "It was attempted 0 times and reached 0 times."


@pytest.mark.parametrize(
    "reply",
    ["0.8", "", '{"proficiency": 1.2}', '{"proficiency": -0.1}', '{"proficiency": "high"}', '{"proficiency": true}',
     '{"proficiency": NaN}', '{"p": 0.5}', '{"proficiency": [0.5]}', '{"proficiency": '],
)  # fmt: skip
def test_a_number_is_read_from_a_reply_and_anything_else_is_refused(reply: str) -> None:
    assert proficiency('{"proficiency": 0.85}') == 0.85 and proficiency('{"proficiency": 0}') == 0.0
    assert proficiency('Well: {"proficiency": 1} I think.') == 1.0
    with pytest.raises(Misread):
        proficiency(reply)


def test_a_bad_reply_is_asked_about_again_a_bounded_number_of_times() -> None:
    model = CannedModel("quite good", '{"proficiency": 0.4}')
    assert asyncio.run(ScorerDialogue("get wood", 1)(QUESTION, None, model)) == {
        "proficiency": 0.4, "said": '{"proficiency": 0.4}',
    }  # fmt: skip
    sections = prompts.sections(last_text(model.heard[0]))
    assert (sections["Goal"], sections["Present sub-goal"]) == ("get wood", "chop tree")
    assert sections["What was observed"] == behaviour(SKILL) and "JSON object alone" in last_text(model.heard[1])
    for replies in (("good", "good"), (None,)):
        assert asyncio.run(ScorerDialogue("get wood", 1)(QUESTION, None, CannedModel(*replies))) is None


def test_the_hand_written_scorer_counts_with_a_bounded_error() -> None:
    """Three of the four attempts are reached."""
    messages = (prompts.scoring("get wood", "chop tree", behaviour(SKILL)),)
    assert proficiency(PromptScorer(0, 0)(messages)) == 0.75
    scores = [
        proficiency(PromptScorer(0.2, 0)((prompts.scoring(f"goal {number}", "chop tree", behaviour(SKILL)),)))
        for number in range(200)
    ]
    assert max(scores) > 0.94 and min(scores) < 0.56 and all(0.55 <= score <= 0.95 for score in scores)
    assert abs(statistics.mean(scores) - 0.75) < 0.02
    with pytest.raises(Misread):
        proficiency(PromptScorer(0, 1)(messages))
