"""Choices through a server: what is asked, the answers worked by hand, and servers that are refused by name."""

import asyncio
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import MissingCall, UserError
from guidebench.harness.execution import Models
from guidebench.harness.models import study_models
from guidebench.harness.models.backends.openai_ import choosing
from guidebench.harness.models.backends.openai_.choosing import Choosing
from guidebench.harness.models.backends.openai_.model import OpenAIModel, Prices
from guidebench.harness.models.backends.openai_.server import Server
from guidebench.harness.models.calls import Answer, ChoiceCall, JudgeCall, Message, Ticket, Usage
from guidebench.harness.models.chats.openai_ import OpenAI
from guidebench.harness.models.choice_scores import mass
from guidebench.harness.models.judges.openai_ import OpenAI as JudgeOpenAI
from guidebench.harness.parts import Most
from guidebench.harness.run import call_bounds
from tests.harness.models.backends.openai_.test_model import CLIP, ask
from tests.harness.models.backends.openai_.test_reading import logprobs
from tests.harness.models.canned import completion, serving
from tests.refusals import check_refused

CALL = ChoiceCall((Message("user", ("You see a tree.",)),), "Action:", (" chop", " chop tree", " sleep"))
ENDS = "<end>"
WORDS = {" chop": -1.0, " tree": -0.5, " sleep": -3.0, ENDS: -0.25}
"""Log-probability of each word of an answer at the server of `rendering`."""


def rendering(body: dict[str, Any], words: dict[str, float] = WORDS) -> tuple[int, Any]:
    """Reply as vLLM does to a request with `prompt_logprobs`: a token for each word of the prompt, whose number is the
    word. A whole answer is followed by the end of the turn and a new line."""
    *before, last = [message["content"] for message in body["messages"]]
    answer = last.removeprefix("Action:")
    tokens = ["<begin>", *before, "Action:", *(f" {word}" for word in answer.split())]
    tokens += [] if body["continue_final_message"] else [ENDS, "\n"]
    scored = [{token: {"logprob": words.get(token, -7.0), "rank": 1, "decoded_token": token}} for token in tokens]
    return 200, {**completion(""), "prompt_logprobs": [None, *scored[1:]]}


def test_a_prompt_scores_the_tokens_of_each_candidate_and_the_end_of_the_turn() -> None:
    """By hand: " chop" -1, " chop tree" -1 - .5, " sleep" -3, each with -.25 for the end of the turn."""
    (reply,), bodies = ask(rendering, CALL, choosing=Choosing("prompt"))
    np.testing.assert_allclose(reply.value, [[-1, -0.25, 1], [-1.5, -0.25, 2], [-3, -0.25, 1]])
    assert CALL.fault(reply.value) == "" and reply.detail == {"served_by": "canned-1"}
    assert reply.usage._replace(seconds=0) == Usage(calls=5, tokens_in=25, tokens_out=10)
    assert [body["messages"][-1]["content"] for body in bodies] == [
        "Action:", "Action:", "Action: chop", "Action: chop tree", "Action: sleep"
    ]  # fmt: skip
    assert [body["continue_final_message"] for body in bodies] == [True, *[False] * 4]
    for body in bodies:
        assert (body["prompt_logprobs"], body["add_generation_prompt"], body["max_tokens"]) == (0, False, 1)
        assert not any(name.startswith("guided") for name in body)


def test_a_prompt_refuses_a_candidate_without_tokens_of_its_own() -> None:
    joined = ChoiceCall(CALL.messages, CALL.prefix, (" chop", "s"))

    def says(body: dict[str, Any]) -> tuple[int, Any]:
        if body["messages"][-1]["content"] != "Action:s":
            return rendering(body)
        prompt = [None, *({token: {"logprob": -1.0}} for token in ("You see a tree.", "Actions", ENDS, "\n"))]
        return 200, {**completion(""), "prompt_logprobs": prompt}

    check_refused(
        "candidate 's' has no tokens of its own after 'Action:'", ask, says, joined, choosing=Choosing("prompt")
    )
    with pytest.raises(UserError, match="whose answer has a beginning"):
        ask(says, ChoiceCall(CALL.messages, "", (" chop",)), choosing=Choosing("prompt"))


THREE = ChoiceCall((Message("user", ("Go?", CLIP[0])),), "Move:", (" left", " right", " on"))
TWO = ChoiceCall(THREE.messages, "Move:", (" left", " right"))


def test_labels_are_averaged_over_the_orders_in_which_candidates_are_listed() -> None:
    """By hand: left .5 as A and .1 + .2 = .3 as C, with and without a space; right .3 and .2; on .1 and .4."""
    first = completion("A", logprobs(("A", {"A": 0.5, "B": 0.3, "C": 0.1, "D": 0.05})))
    second = completion("B", logprobs(("B", {"B": 0.4, "A": 0.2, " C": 0.1, "C": 0.2})))
    says = iter([first, second])
    (reply,), bodies = ask(lambda body: (200, next(says)), THREE, choosing=Choosing("label", 2))
    np.testing.assert_allclose(np.exp(reply.value[:, 0]), [0.4, 0.25, 0.25], rtol=1e-6)
    assert mass(reply.value) == pytest.approx(0.9) and (reply.value[:, 1:] == [0, 1]).all()
    assert reply.detail == {"served_by": "canned-1", "missing": 0}
    assert reply.usage._replace(seconds=0) == Usage(calls=2, tokens_in=10, tokens_out=4, images=2)
    listed = [body["messages"][0]["content"][-1]["text"] for body in bodies]
    assert "A. left\nB. right\nC. on\n" in listed[0] and "A. right\nB. on\nC. left\n" in listed[1]
    assert '"Move:"' in listed[0]
    for body in bodies:
        assert (body["max_tokens"], body["top_logprobs"], body["temperature"]) == (1, 20, 0.0)
        assert not {"response_format", "prompt_logprobs"} & set(body)


JUDGE = JudgeCall(CLIP, "Is the door open?")


def test_a_clip_is_judged_by_labels_for_yes_and_no() -> None:
    """By hand: yes .6 as A and .3 as B, no .2 and .5, so that yes has .9 of 1.6; both together .8."""
    first = completion("A", logprobs(("A", {"A": 0.6, "B": 0.2, "x": 0.1})))
    second = completion("A", logprobs(("A", {"A": 0.5, "B": 0.3, "x": 0.1})))
    says = iter([first, second])
    (reply,), bodies = ask(lambda body: (200, next(says)), JUDGE, scoring="choice", choosing=Choosing("label", 2))
    assert JUDGE.fault(reply.value) == "" and reply.value == pytest.approx(0.9 / 1.6)
    assert reply.detail == {"served_by": "canned-1", "missing": 0, "mass": pytest.approx(0.8)}
    assert reply.usage._replace(seconds=0) == Usage(calls=2, tokens_in=10, tokens_out=4, images=2 * len(CLIP))
    texts = [[part.get("text") for part in body["messages"][0]["content"]] for body in bodies]
    assert all(text[0] == "Is the door open?" and len(text) == len(CLIP) + 2 for text in texts)
    assert "A. Yes\nB. No\n" in texts[0][-1] and "A. No\nB. Yes\n" in texts[1][-1]
    judge = JudgeOpenAI(model="m", scoring="choice", choice_by="label", rotations=1)
    bound = call_bounds.attempt(Most(1, prompt=len(f"{JUDGE.prompt}Answer:")), judge, "judge")
    written = len(texts[0][0]) + len("Answer:") + len(texts[0][-1])
    assert bound == Usage(1, written + 64, 8), "the list of labels is in the bound"


def test_a_clip_is_judged_by_prompts_that_hold_yes_and_no() -> None:
    """By hand: e to the power of -1 for yes and of -3 for no, both times the end of the turn."""
    words = {" Yes": -1.0, " No": -3.0, ENDS: -0.25}

    def says(body: dict[str, Any]) -> tuple[int, Any]:
        answer = body["messages"][-1]["content"].removeprefix("Answer:")
        tokens = ["<begin>", "Answer:", *filter(None, [answer])]
        tokens += [] if body["continue_final_message"] else [ENDS, "\n"]
        scored = [{token: {"logprob": words.get(token, -7.0), "rank": 1, "decoded_token": token}} for token in tokens]
        return 200, {**completion(""), "prompt_logprobs": [None, *scored[1:]]}

    (reply,), bodies = ask(says, JUDGE, scoring="choice", choosing=Choosing("prompt"))
    assert reply.value == pytest.approx(1 / (1 + math.exp(-2)))
    assert reply.detail["mass"] == pytest.approx(math.exp(-1.25) + math.exp(-3.25))
    assert [body["messages"][-1]["content"] for body in bodies] == ["Answer:", "Answer:", "Answer: Yes", "Answer: No"]
    assert all(len(body["messages"][0]["content"]) == 1 + len(CLIP) for body in bodies)


def test_a_server_without_likelihoods_cannot_judge_by_choice() -> None:
    unscored = completion("A")
    with pytest.raises(UserError, match=r"which judge\.choice_by=label needs; use judge\.scoring=literal"):
        ask(lambda body: (200, unscored), JUDGE, scoring="choice", choosing=Choosing("label", 2))
    check_refused(r"set judge\.choice_by=label or prompt", ask, lambda body: (200, unscored), JUDGE, scoring="choice")


def test_a_label_that_is_not_returned_is_half_as_likely_as_the_least_likely_token() -> None:
    """By hand: B is not among A .7, the .2 and a .08, so it has .04, a half of the least."""
    response = completion("A", logprobs(("A", {"A": 0.7, "the": 0.2, "a": 0.08})))
    (reply,), _ = ask(lambda body: (200, response), TWO, choosing=Choosing("label", 1))
    np.testing.assert_allclose(np.exp(reply.value[:, 0]), [0.7, 0.04], rtol=1e-6)
    assert reply.detail["missing"] == 1


def test_no_label_at_all_is_malformed_and_every_request_is_billed() -> None:
    says = iter([completion("B", logprobs(("B", {"B": 0.9, "A": 0.1}))), completion("I", logprobs(("I", {"I": 0.9})))])
    (failure,), _ = ask(lambda body: (200, next(says)), TWO, choosing=Choosing("label", 2), prices=Prices(1e6, 0.0))
    assert failure.kind == "malformed" and "a letter from A to B, got 'I'" in str(failure)
    assert (failure.usage.calls, failure.usage.tokens_in, failure.usage.usd) == (2, 10, 10.0)


def test_more_candidates_than_labels_are_refused() -> None:
    many = ChoiceCall(CALL.messages, "Action:", tuple(f" {number}" for number in range(21)))
    with pytest.raises(UserError, match=r"at most 20 candidates, .* has 21; use choice_by=prompt or enum"):
        ask(lambda body: (200, completion("A")), many, choosing=Choosing("label"))


def test_an_enum_gives_the_candidate_that_the_server_writes_all_probability() -> None:
    says = iter(['{"answer": "chop"}', 'Surely {"answer": "chop tree"}', *['{"answer": "run"}'] * 3])
    (reply, repaired, failure), bodies = ask(
        lambda body: (200, completion(next(says))), CALL, CALL, CALL, choosing=Choosing("enum")
    )
    least = math.log(1e-6)
    np.testing.assert_allclose(reply.value, [[0, 0, 1], [least, 0, 1], [least, 0, 1]], rtol=1e-6)
    assert repaired.value[:, 0].argmax() == 1 and CALL.fault(reply.value) == ""
    form = bodies[0]["response_format"]["json_schema"]["schema"]
    assert [*form["properties"].values()] == [{"type": "string", "enum": ["chop", "chop tree", "sleep"]}]
    assert failure.kind == "malformed" and failure.usage.calls == 3, "two repairs"
    assert "logprobs" not in bodies[0]


@pytest.mark.parametrize("by", ["prompt", "label"])
def test_a_server_whose_log_probabilities_are_no_models_is_refused_by_name(by: Any) -> None:
    """Servers that do not compute what is asked have been seen to answer 0, or another constant, for every token."""
    for probability in (1.0, 0.5):
        flat = completion("A", logprobs(("A", dict.fromkeys("ABC", probability))))

        def says(body: dict[str, Any], probability: float = probability, flat: Any = flat) -> tuple[int, Any]:
            return rendering(body, dict.fromkeys(WORDS, math.log(probability))) if by == "prompt" else (200, flat)

        with pytest.raises(UserError, match=r"127\.0\.0\.1.* tells no log-probabilities of a model") as refused:
            ask(says, CALL, choosing=Choosing(by, 2))
        assert f"chat.choice_by={by} needs; use {choosing.INSTEAD[by]}" in str(refused.value)


@pytest.mark.parametrize(
    ("by", "field", "lacks"),
    [
        ("prompt", "prompt_logprobs", "no log-probabilities of a prompt"),
        ("prompt", "continue_final_message", "does not continue an answer"),
        ("label", "logprobs", "no log-probabilities"),
    ],
)
def test_a_server_without_the_fields_of_a_way_is_refused_by_name(by: Any, field: str, lacks: str) -> None:
    with pytest.raises(UserError, match=f"{lacks}.*chat.choice_by={by} needs"):
        ask(lambda body: (400, {"error": {"message": f"Unrecognized: {field}"}}), CALL, choosing=Choosing(by))
    if field != "continue_final_message":
        with pytest.raises(UserError, match=f"{lacks}.*chat.choice_by={by} needs"):
            ask(lambda body: (200, completion("A")), CALL, choosing=Choosing(by))


def test_a_model_without_a_way_says_which_setting_names_one() -> None:
    check_refused(r"set chat\.choice_by=", ask, lambda body: (200, completion("A")), CALL)


FORMS = [
    3, {}, {"5": -1.0}, {"5": {}}, {"5": {"logprob": True}}, {"5": {"logprob": 2}}, {"5": {"logprob": "-1"}},
    {"5": {"logprob": -1}, "6": {"logprob": -2}},
]  # fmt: skip


@pytest.mark.parametrize("position", FORMS)
def test_prompt_log_probabilities_of_another_form_are_malformed(position: Any) -> None:
    response = {**completion(""), "prompt_logprobs": [None, position]}
    (failure,), _ = ask(lambda body: (200, response), CALL, choosing=Choosing("prompt"))
    assert failure.kind == "malformed" and "prompt_logprobs" in str(failure) and failure.usage.calls == 1


@pytest.mark.parametrize("by", ["prompt", "label", "enum"])
def test_an_estimate_bounds_what_a_choice_takes(by: Any) -> None:
    ways, prices = Choosing(by, 3), Prices(1.0, 1.0)

    def says(body: dict[str, Any]) -> tuple[int, Any]:
        response = completion("No.")
        if by == "prompt":
            _, response = rendering(body)
        elif by == "label":
            response = completion("A", logprobs(("A", {"A": 0.7, "B": 0.2})))
        length = len(json.dumps([message["content"] for message in body["messages"]], ensure_ascii=False))
        response["usage"] = {"prompt_tokens": length, "completion_tokens": body["max_tokens"]}
        return 200, response

    (outcome,), _ = ask(says, CALL, choosing=ways, prices=prices)
    bound = OpenAIModel("m", Server("http://127.0.0.1:1/v1", "SOME_KEY", 1.0), prices=prices, choosing=ways).estimate(
        CALL
    )
    for name in ("calls", "tokens_in", "tokens_out", "images", "usd"):
        assert getattr(outcome.usage, name) <= getattr(bound, name), name
    assert outcome.usage.calls == bound.calls


@pytest.mark.parametrize(
    ("asker", "call", "chances", "missing", "price"),
    [
        (partial(OpenAI, answer="choice"), TWO, ({"A": 0.7, "C": 0.2}, {"A": 0.3, "B": 0.2}), 1, 0.0),
        (partial(JudgeOpenAI, scoring="choice"), JUDGE, ({"A": 0.6, "B": 0.2}, {"A": 0.5, "B": 0.3}), 0, 1.0),
    ],
)
def test_a_choice_is_recorded_with_its_way_billed_and_replayed_without_the_server(
    tmp_path: Path,
    asker: Callable[..., Any],
    call: Any,
    chances: tuple[dict[str, float], ...],
    missing: int,
    price: float,
) -> None:
    """By hand: 2 orders of 5 tokens in and 2 out; to the chat the first lacks B, so 1 is missing."""
    says = iter([completion("A", logprobs(("A", chance))) for chance in chances])

    async def answer(mode: Any, url: str, **settings: Any) -> Answer:
        model = asker(model="m", base_url=url, choice_by="label", price_in=price, **settings)
        desk = study_models.desk(model, Models(mode=mode), tmp_path, "cpu")
        try:
            return await desk.answer(call, Ticket("cell/0", 0, 0, "performer"))
        finally:
            await desk.close()

    with serving(lambda path, body, headers: (200, next(says))) as url:
        recorded = asyncio.run(answer("record", url))
    usage = Usage(2, 10, 4, 2 * len(call.images()), usd=price * 10e-6)
    assert recorded.detail["missing"] == missing and recorded.billed._replace(seconds=0) == usage
    replayed = asyncio.run(answer("replay", url))
    assert np.array_equal(replayed.value, recorded.value) and replayed == recorded._replace(
        value=replayed.value, billed=Usage()
    )
    with pytest.raises(MissingCall):
        asyncio.run(answer("replay", url, rotations=1))


def test_prompts_give_what_the_same_weights_give_here(tiny: Callable[..., Path]) -> None:
    """The server renders by the chat template and scores the prompt with the weights of a tiny random model."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from guidebench.harness.models.backends.transformers_.loaded_model import Source
    from guidebench.harness.models.backends.transformers_.model import TransformersModel

    directory = tiny("llama")
    words = transformers.AutoTokenizer.from_pretrained(directory)
    network = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()

    def says(body: dict[str, Any]) -> tuple[int, Any]:
        text = words.apply_chat_template(
            body["messages"], tokenize=False, add_generation_prompt=body["add_generation_prompt"],
            continue_final_message=body["continue_final_message"],
        )  # fmt: skip
        numbers = words(text, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            log_p = network(torch.tensor([numbers])).logits[0].log_softmax(-1)
        scored = [{str(number): {"logprob": float(log_p[at, number])}} for at, number in enumerate(numbers[1:])]
        return 200, {**completion(""), "prompt_logprobs": [None, *scored]}

    call = ChoiceCall(CALL.messages, "Action:", (" move left", " no", " Yes", " chop the tree", " s"))
    (served,), _ = ask(says, call, choosing=Choosing("prompt"))
    local = asyncio.run(TransformersModel(Source(str(directory), dtype="float32")).answer(call))
    np.testing.assert_allclose(served.value, local.value, atol=1e-4)
