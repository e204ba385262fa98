"""Choices among candidates: the calls that are made, and the answers that follow from a role's settings."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.interfaces import Array, Choice, Choose
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Answer, Call, ChoiceCall, Message, Usage
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.harness.models.chats.transformers_ import Transformers
from guidebench.harness.models.chats.uniform import EqualWeights
from guidebench.harness.models.choosing import ByChoice, Choosing
from guidebench.harness.parts import Most
from guidebench.harness.plan import matrix
from guidebench.harness.run import call_bounds
from tests.refusals import check_refused

ANSWER = np.array([[math.log(0.4), math.log(0.5), 1], [math.log(0.2), math.log(0.9), 2]], np.float32)
"""By hand: turns of .2 and .18; per token .4 and √.2 = .447."""
CONTENT_FREE = np.array([[math.log(0.8), math.log(0.5), 1], [math.log(0.1), math.log(0.5), 2]], np.float32)
"""By hand: turns of .4 and .05, so that calibration leaves .5 and 3.6."""


class Colours:
    """A dialogue that chooses between two colours."""

    choices = 1

    async def __call__(self, question: Any, frames: Array | None, ask: Any) -> Any:
        raise AssertionError("it is asked for a choice")

    async def choose(self, question: Any, frames: Array | None, choose: Choose) -> Any:
        stated, neutral = (Message("user", (f"The sky: {sky}.",)) for sky in (question, "N/A"))
        return await choose(stated, "Colour:", ["red", "blue"], neutral)


def ask_colours(settings: dict[str, Any], run: str = "CELL/0", sky: str = "clear") -> tuple[Choice, list[Call]]:
    """Return the choice of a model with these settings, which answers by `ANSWER` or `CONTENT_FREE`, and its calls."""
    calls: list[Call] = []
    dialogue = ByChoice(Colours(), Transformers(answer="choice", **settings)).of_run(run)

    async def ask(call: Call) -> Answer:
        calls.append(call)
        assert isinstance(call, ChoiceCall) and len(calls) <= dialogue.calls
        return Answer(CONTENT_FREE if "N/A" in str(call.messages) else ANSWER)

    return asyncio.run(dialogue(sky, None, ask)), calls


@pytest.mark.parametrize(
    ("settings", "number", "probabilities"),
    [
        ({}, 0, [0.2 / 0.38, 0.18 / 0.38]),
        ({"candidate_score": "per_token"}, 1, [0.4 / (0.4 + math.sqrt(0.2)), math.sqrt(0.2) / (0.4 + math.sqrt(0.2))]),
        ({"calibrate": True}, 1, [0.5 / 4.1, 3.6 / 4.1]),
    ],
)
def test_the_settings_decide_by_one_recorded_answer(
    settings: dict[str, Any], number: int, probabilities: list[float]
) -> None:
    choice, calls = ask_colours(settings)
    assert (choice.number, choice.probabilities) == (number, pytest.approx(probabilities, abs=1e-6))
    assert choice.mass == pytest.approx(0.38), "that of the question itself"
    assert choice.words == f"probability {max(probabilities):.3g} among 2, which have the mass 0.38"
    first = calls[0]
    assert isinstance(first, ChoiceCall) and (first.prefix, first.candidates) == ("Colour:", (" red", " blue"))
    assert [str(call.messages[0].content[0]) for call in calls if isinstance(call, ChoiceCall)] == [
        "The sky: clear.", *["The sky: N/A."] * ("calibrate" in settings)
    ]  # fmt: skip
    assert study_models.identity(Transformers(answer="choice", **settings)) == study_models.identity(Transformers())


def test_the_way_of_a_server_is_in_identity_and_row_name_and_only_where_it_is_chosen() -> None:
    chat = registry.get("chat", "openai")
    assert study_models.identity(chat()) == {"model": "gpt-4o-mini", "detail": "low", "backend": "openai"}
    chosen = study_models.identity(chat(answer="choice", choice_by="label", rotations=2))
    assert chosen == {**study_models.identity(chat()), "choice_by": "label", "rotations": 2}
    text, labelled = (matrix.plan([*SERVED, *words]).cells[0] for words in ((), (*ENUM[-2:-1], LABEL)))
    assert LABEL in labelled.variant and "choice_by" not in text.variant and text.id != labelled.id


def test_the_bound_of_a_choice_through_a_server_counts_its_requests() -> None:
    """By hand, for a prompt of 100 bytes, which lists at most 50 candidates: 52 requests, 4 orders, or 3 with repairs,
    each asked twice at most."""
    chat = registry.get("chat", "openai")
    for by, requests in (("prompt", 52), ("label", 4), ("enum", 3)):
        model = chat(answer="choice", choice_by=by, attempts=2)
        bound = call_bounds.questions(Most(10, prompt=100), model)
        assert bound.calls == 10 * 2 * requests and bound.tokens_out >= bound.calls
        assert bound.tokens_in >= bound.calls * 200


def test_draws_differ_by_seed_and_question_and_not_by_cell() -> None:
    def drawn(run: str) -> list[int]:
        return [ask_colours({"acts": "sample"}, run, f"sky {number}")[0].number for number in range(40)]

    assert drawn("A/1") == drawn("B/1") != drawn("A/2")
    assert 10 < sum(drawn("A/1")) < 30, "about 47 % of the draws"


def test_a_call_without_an_answer_is_no_choice() -> None:
    for failing in (1, 2):
        count = 0

        async def ask(call: Call, failing: int = failing) -> Answer:
            nonlocal count
            count += 1
            return Answer(None, "timeout") if count == failing else Answer(ANSWER)

        dialogue = ByChoice(Colours(), Transformers(answer="choice", calibrate=True))
        assert asyncio.run(dialogue("clear", None, ask)) is None


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        (Transformers(answer="choice"), Usage(10, 1_000)),
        (Transformers(answer="choice", calibrate=True), Usage(20, 2_000)),
        (OpenAI(answer="choice", choice_by="label", rotations=3), Usage(30, 3_000, 30)),
        (OpenAI(answer="choice", choice_by="enum"), Usage(10, 1_000, 160)),
    ],
)
def test_an_estimate_counts_the_requests_of_a_choice(chat: Choosing, expected: Usage) -> None:
    """Ten questions of a hundred tokens, of which text would write fifty."""
    assert chat.choice_expected(Usage(10, 1_000, 500)) == expected


def test_a_choice_is_bounded_by_its_question_and_that_without_content() -> None:
    """By hand: 10 questions of 100 bytes, asked twice at most, with and without content; each reads the prompt and the
    candidates, which it lists, and what separates two messages of 64 tokens."""
    bound = call_bounds.questions(Most(10, calls=3, prompt=100), Transformers(answer="choice", calibrate=True))
    assert bound == Usage(calls=40, tokens_in=40 * (2 * 100 + 2 * 64))


def test_the_bound_of_a_choice_about_images_counts_them_in_each_request() -> None:
    """By hand: 10 questions by prompts, with at most 50 candidates and thus 52 requests, of two images each."""
    model = registry.get("chat", "openai")(answer="choice", choice_by="prompt", attempts=1)
    without, bound = (call_bounds.questions(Most(10, prompt=100, images=images), model) for images in (0, 2))
    assert (without.images, bound.images) == (0, 10 * 52 * 2) and bound.tokens_in > without.tokens_in
    assert bound.calls == without.calls == 520


def test_tiny_models_choose_where_no_pictures_are_shown() -> None:
    words = ("suite=metaworld_pbrl", "profile=smoke", "models=tiny")
    names = [
        matrix.plan([*words, *more]).cells[0].names.of("chat")[0].name
        for more in (("method=rl_vlm_f",), ("method=rl_sallm_f", "teacher.augment=none"))
    ]
    assert names == ["scripted_vlm", "transformers"]


def test_an_object_is_bounded_by_its_schema_and_repairs() -> None:
    """By hand: 10 questions, each of at most 3 requests, as an object may be repaired twice. Request k reads 100 bytes
    of prompt, 64 between messages, 1,000 of our words, 500 of the schema, and k replies of 20 tokens with 1,000 of our
    words and 128 between messages."""
    model = Transformers(answer="schema", max_tokens=20, attempts=1)
    bound = call_bounds.questions(Most(10, prompt=100), model, longest=500)
    assert bound == Usage(calls=30, tokens_in=10 * (3 * 1664 + 3 * 1148), tokens_out=600)


class Unequal:
    """Hand-written code that weighs candidates by their length."""

    def weigh(self, messages: Sequence[Message], candidates: Sequence[str]) -> list[float]:
        return [float(len(candidate) - 4) for candidate in candidates]


def test_weights_of_hand_written_code_become_log_probabilities() -> None:
    call = ChoiceCall((Message("user", ("?",)),), "Answer:", (" yes", " perhaps", " no way"))
    answer = call.answered_by(Unequal())
    assert np.exp(answer[:, 0]) == pytest.approx([1e-6, 4 / 7, 3 / 7]), "weights of 0, 4 and 3"
    assert call.fault(answer) == "" and (answer[:, 1:] == [0, 1]).all()
    assert np.exp(call.answered_by(EqualWeights())[:, 0]) == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("name", registry.names("chat"))
def test_every_chat_that_answers_choices_has_their_settings(name: str) -> None:
    config = registry.get("chat", name)
    assert issubclass(config, Choosing) or "choice" not in config.answers


AGENT = ("suite=crafter_ood", "method=model_as_agent", "profile=smoke")
LABEL = "performer.choice_by=label"
SERVED = (*AGENT, "performer=openai")
ENUM = (*SERVED, "performer.answer=choice", "performer.choice_by=enum")
LOCAL = ("performer=transformers", "performer.model=/srv/model", "performer.answer=choice")
PRIOR = ("suite=housekeep", "method=linvit", "profile=smoke")
PAIRS = ("suite=metaworld_pbrl", "method=rl_sallm_f", "profile=smoke", "chat=uniform")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SERVED, "performer.answer=choice"), "answer=choice needs performer.choice_by"),
        ((*SERVED, "performer.choice_by=label"), "performer.choice_by=label applies to choices"),
        ((*ENUM, "performer.calibrate=true"), "performer.calibrate=true needs the candidates' probabilities"),
        ((*ENUM, "performer.acts=sample"), "performer.acts=sample needs the candidates' probabilities"),
        ((*ENUM, "performer.rotations=2"), "performer.rotations=2 is for choice_by=label"),
        ((*ENUM, "performer.candidate_score=per_byte"), "performer.candidate_score=per_byte divides by the length"),
        (
            (
                "suite=housekeep",
                "method=linvit",
                "profile=smoke",
                "prior=openai",
                "prior.answer=choice",
                "prior.choice_by=enum",
            ),
            "prior.choice_by=enum tells none but the chosen candidate",
        ),
        ((*AGENT, "performer=scripted", "performer.acts=sample"), "performer.acts=sample applies to choices"),
        (
            (*AGENT, "performer=transformers", "performer.model=gemma3_270m_base"),
            r"gemma3_270m_base' .* is a base model.*; set performer.answer=choice",
        ),
        ((*AGENT, "performer=uniform", "performer.candidate_score=per_byte"), "divides by the length of a candidate"),
        (
            (*AGENT, "performer=oracle", "performer.answer=choice", "performer.calibrate=true"),
            "privileged chat answers by itself",
        ),
        ((*AGENT, *LOCAL, "performer.temperature=1"), "temperature=1.0 is for answers in text"),
        (
            ("suite=housekeep", "method=linvit", "profile=smoke", "prior=uniform", "prior.acts=sample"),
            "the agent uses the probabilities of all candidates",
        ),
        (("suite=crafter_ood", "method=ellm", "profile=smoke", "goals=uniform"), "takes answers there as text"),
        ((*SERVED, "performer.answer=schema"), "takes answers there as text or choice; leave performer.answer=schema"),
        ((*SERVED, "performer.answer=json"), "performer.answer"),
        (
            (*PRIOR, "prior=scripted", "prior.answer=schema"),
            "prior.answer=schema: scripted models write by code, and no schema constrains them",
        ),
        ((*PRIOR, "prior=openai", "prior.answer=schema", "prior.acts=sample"), "the prior answers by schema"),
        ((*PAIRS[:3], "chat=openai", "chat.answer=schema", "teacher.augment=none"), "a verdict is a digit"),
        (
            (
                "suite=metaworld_mt10",
                "method=lagea",
                "guide.structured=false",
                "feedback=openai",
                "feedback.answer=schema",
            ),
            "asks for free text, which has no schema",
        ),
        (PAIRS, "teacher.augment=llm has the chat write a trajectory"),
        ((*PAIRS, "teacher.augment=none", "teacher.shots=1"), "teacher.shots are for answers in text"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_before_anything_runs(words: Sequence[str], message: str) -> None:
    check_refused(message, matrix.plan, words)
