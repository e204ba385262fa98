"""A placebo's answers are those of other questions, drawn by question and seed, of the call's form and purpose."""

import asyncio
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from guidebench.harness.interfaces import Question
from guidebench.harness.models.answer_records import call_digest, of_call, of_question, question_digest
from guidebench.harness.models.backends.placebo import PlaceboModels, Pool, shuffled
from guidebench.harness.models.calls import Answer, Call, ChatCall, ChoiceCall, EmbedCall, Message, Ticket
from guidebench.harness.models.chats.placebo import PlaceboChat
from guidebench.harness.models.choosing import ByChoice
from guidebench.harness.records.answers import QUESTION, AnswerRecord

CLIPS = [np.full((1, 2), number, np.uint8) for number in range(4)]
SCORES = (0.0, 0.25, 0.5, 1.0)


def clip(number: int) -> Question:
    return Question(0, np.zeros(1, np.int64), CLIPS[number], np.zeros((1, 0), bool))


def judged(number: int, seed: int, models: PlaceboModels) -> float:
    ticket = Ticket(f"cell/{seed}", number, 0, "judge")
    return float(models.answer_question(clip(number), "judge", ticket, None, None).value)


def placebo(*records: AnswerRecord, role: str = "judge") -> PlaceboModels:
    return PlaceboModels({role: Pool(records)})


def chat(text: str, aim: str = "", schema: Any = None) -> ChatCall:
    return ChatCall((Message("user", (text,)),), schema, aim=aim)


def test_an_order_is_a_permutation_and_each_place_is_as_likely() -> None:
    orders = [tuple(shuffled(3, bytes([seed]))) for seed in range(240)]
    counts = Counter(orders)
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert len(counts) == 6 and min(counts.values()) >= 28 and max(counts.values()) <= 52, "40 of each are expected"
    assert orders[:4] == [tuple(shuffled(3, bytes([seed]))) for seed in range(4)] and [*shuffled(0, b"")] == []


def test_a_clip_gets_each_other_clip_s_judgement_as_often_and_never_its_own() -> None:
    """Four clips with four judgements, over 300 seeds: each of the three others about 100 times. Which clip's judgement
    is given is the same if the clips had other judgements, so it holds nothing of them."""
    models = placebo(*(of_question(clip(number), score, "judge") for number, score in enumerate(SCORES)))
    other = placebo(*(of_question(clip(number), score, "judge") for number, score in enumerate(reversed(SCORES))))
    for number, score in enumerate(SCORES):
        draws = Counter(judged(number, seed, models) for seed in range(300))
        assert draws.keys() == {*SCORES} - {score} and all(75 <= times <= 125 for times in draws.values())
        sources = [SCORES.index(judged(number, seed, models)) for seed in range(20)]
        assert sources == [SCORES[::-1].index(judged(number, seed, other)) for seed in range(20)]


def test_the_only_answer_is_given_also_to_its_own_question() -> None:
    assert judged(1, 0, placebo(of_question(clip(1), 0.25, "judge"))) == 0.25


def answered(models: PlaceboModels, question: Question, call: Call, seed: int = 0, role: str = "chat") -> Any:
    return asyncio.run(models.about(question).answer(call, Ticket(f"cell/{seed}", 0, 0, role)))


def test_a_call_gets_an_answer_of_its_purpose_and_of_another_question() -> None:
    """Two questions are each asked in both orders: the answer to the swapped order tells of its question too."""
    questions = [clip(number) for number in range(3)]
    records = [
        of_call("chat", question_digest(question), chat(f"{number} {order}", aim), f"{aim} {number} {order}")
        for number, question in enumerate(questions) for order in "ab" for aim in ("verdict", "reason")
    ]  # fmt: skip
    models = placebo(*records, role="chat")
    draws = {answered(models, questions[1], chat("1 a", "verdict"), seed).value for seed in range(60)}
    assert draws == {f"verdict {number} {order}" for number in (0, 2) for order in "ab"}


def test_an_answer_that_does_not_fit_is_drawn_again_and_where_none_fits_the_call_fails() -> None:
    schemas = {count: {"type": "object", "properties": {"pick": {"enum": [*range(count)]}}} for count in (1, 2, 3)}
    records = [
        of_call("chat", f"{pick:064x}", chat(f"of {pick + 1}", schema=schemas[pick + 1]), {"pick": pick})
        for pick in range(3)
    ]  # fmt: skip
    models = placebo(*records, role="chat")
    two = {answered(models, clip(0), chat("now", schema=schemas[2]), seed).value["pick"] for seed in range(40)}
    assert two == {0, 1}
    vectors = [EmbedCall(("a", "b")), np.ones((2, 3), np.float32)]
    models = placebo(of_call("embedder", "0" * 64, *vectors), role="embedder")
    assert answered(models, clip(0), EmbedCall(("c", "d")), role="embedder").value.shape == (2, 3)
    failed = answered(models, clip(0), EmbedCall(("c",)), role="embedder")
    assert failed.failure == "empty" and failed.value is None and failed.usage.calls == 1
    frames = EmbedCall((CLIPS[0][..., None].repeat(3, -1),) * 2)
    assert answered(models, clip(0), frames, role="embedder").failure == "empty", "texts answer no frames"


def test_a_dialogue_may_change_its_answer_without_changing_the_next_one() -> None:
    models = placebo(of_call("chat", "0" * 64, chat("a", schema={"type": "object"}), {"goals": []}), role="chat")
    answered(models, clip(0), chat("b", schema={"type": "object"})).value["goals"].append("win")
    assert answered(models, clip(0), chat("b", schema={"type": "object"})).value == {"goals": []}


def choice(*candidates: str, question: str = "?", aim: str = "") -> ChoiceCall:
    return ChoiceCall((Message("user", (question,)),), "Action:", candidates, aim)


def weighed(number: int, *candidates: str) -> AnswerRecord:
    """Return the record of question `number`, in which candidate k got the log-probability -(10 number + k + 1)."""
    rows = [[-(10 * number + k + 1), -0.5, 2] for k in range(len(candidates))]
    call = choice(*candidates, question=str(number))
    return of_call("chat", question_digest(clip(number)), call, np.array(rows, np.float32))


def test_a_choice_gets_the_rows_of_its_candidates_from_another_question() -> None:
    """Question 0 has a third candidate and another order, 1 is the question itself, 2 lacks one, 3 has the same."""
    models = placebo(
        weighed(0, " up", " left", " stay"), weighed(1, " left", " up"), weighed(2, " left", " stay"),
        weighed(3, " left", " up"), role="chat",
    )  # fmt: skip
    call = choice(" left", " up", question="now")
    answers = [answered(models, clip(1), call, seed).value for seed in range(200)]
    counts = Counter(tuple(answer[:, 0].tolist()) for answer in answers)
    assert counts.keys() == {(-2, -1), (-31, -32)} and min(counts.values()) >= 70, "100 of each are expected"
    assert all(call.fault(answer) == "" for answer in answers)
    alone = placebo(weighed(1, " left", " up"), weighed(2, " left", " stay"), role="chat")
    assert answered(alone, clip(1), call).value[:, 0].tolist() == [-11, -12], "its own, since no other has both"
    assert answered(alone, clip(0), choice(" down")).failure == "empty"


def test_a_placebo_chooses_by_the_settings_of_its_role() -> None:
    """Two questions, in one of which the first colour is likelier and in one the second; calibration subtracts an
    answer to a question without content, which is drawn from such answers alone."""

    class Colours:
        choices = 1

        async def choose(self, sky: str, frames: Any, choose: Any) -> Any:
            return await choose(Message("user", (sky,)), "Colour:", ["red", "blue"], Message("user", ("N/A",)))

    likely = {"clear": (-1, -4), "dusk": (-3, -2)}

    def record(number: int, sky: str, aim: str, log_p: tuple[int, int]) -> AnswerRecord:
        call = ChoiceCall((Message("user", (sky,)),), "Colour:", (" red", " blue"), aim)
        return of_call("chat", f"{number:064x}", call, np.array([[one, 0, 1] for one in log_p], np.float32))

    skies = [(sky, "", log_p) for sky, log_p in likely.items()]
    records = [record(number, *row) for number, row in enumerate([*skies, ("N/A", "neutral_", (-1, -2))])]
    models = PlaceboModels({"chat": Pool(records)})

    def probability(calibrate: bool, seed: int) -> float:
        dialogue = ByChoice(Colours(), PlaceboChat(answer="choice", calibrate=calibrate), str(seed))

        async def ask(call: Call) -> Answer:
            return await models.about(clip(0)).answer(call, Ticket(f"cell/{seed}", 0, 0, "chat"))

        return round(float(asyncio.run(dialogue("rain", None, ask)).probabilities[0]), 6)

    def expected(calibrated: int) -> set[float]:
        return {round(1 / (1 + np.exp(blue - red - calibrated)), 6) for red, blue in likely.values()}

    assert {probability(False, seed) for seed in range(20)} == expected(0)
    assert {probability(True, seed) for seed in range(20)} == expected(-1), "red is said a nat more anyway"


class Offering:
    """A dialogue in which an answer is possible if the question offers it."""

    calls = 1

    choices = 1

    async def __call__(self, content: Any, frames: Any, ask: Any) -> Any:
        raise AssertionError("a whole question is answered without a dialogue")

    choose = __call__

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        return "" if answer in content else "it is not offered"


@pytest.mark.parametrize("dialogue", [Offering(), ByChoice(Offering(), PlaceboChat(answer="choice"))])
def test_answers_of_an_oracle_are_drawn_among_those_that_are_possible_now(dialogue: Any) -> None:
    def offering(*actions: str) -> Question:
        return clip(0)._replace(content=json.dumps(actions), to="performer")

    records = [of_question(offering(action), action) for action in ("left", "right", "up")]
    models = placebo(*records, role="performer")
    assert models.answers_whole("performer", QUESTION)

    def act(seed: int, question: Question, shape: tuple[int, ...] | None = None) -> Any:
        ticket = Ticket(f"cell/{seed}", 0, 0, "performer")
        return models.answer_question(question, QUESTION, ticket, dialogue, shape)

    assert {act(seed, offering("left", "up")).value for seed in range(40)} == {"left", "up"}
    assert act(0, offering("down")).failure == "empty"
    assert act(0, offering("left"), shape=(3,)).failure == "empty", "a part that expects an array gets no text"


def test_calls_of_equal_content_are_one_question() -> None:
    assert call_digest(chat("a")) == call_digest(ChatCall(chat("a").messages, max_tokens=1024))
