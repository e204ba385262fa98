"""The backend `openai`: judgements are read where the way of scoring says, objects fit their schema, and each call is
billed."""

import asyncio
import base64
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import images, recipes
from guidebench.harness.models.backends.openai_.model import OpenAIModel, Prices
from guidebench.harness.models.backends.openai_.server import Server
from guidebench.harness.models.calls import ChatCall, EmbedCall, Failure, JudgeCall, Message, Reply, Usage
from tests.harness.models.backends.openai_.test_reading import logprobs
from tests.harness.models.canned import completion, serving
from tests.refusals import check_refused

CLIP = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 3), dtype=np.uint8)
JUDGE = JudgeCall(CLIP, "Is the door open?")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
CHAT = ChatCall((Message("system", ("Be brief.",)), Message("user", ("Name x.",))), SCHEMA, max_tokens=50)
Says = Callable[[dict[str, Any]], tuple[int, Any]]


def ask(says: Says, *calls: Any, model: str = "m", **settings: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """Answer calls from a server that replies by `says`; return the replies or failures, and the bodies of the
    requests."""
    bodies: list[dict[str, Any]] = []

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        bodies.append(body)
        return says(body)

    async def ask_all(url: str) -> list[Any]:
        backend = OpenAIModel(model, Server(url, "SOME_KEY", 60.0), **settings)
        replies: list[Any] = []
        for call in calls:
            try:
                replies.append(await backend.answer(call))
            except Failure as failure:
                replies.append(failure)
        await backend.close()
        return replies

    with serving(answers) as url:
        return asyncio.run(ask_all(url)), bodies


def test_prefill_begins_the_answer_and_scores_the_next_token() -> None:
    response = completion(" no", logprobs((" no", {" Yes": 0.1, " no": 0.3, " well": 0.6})))
    (reply,), (body,) = ask(lambda body: (200, response), JUDGE, scoring="prefill")
    assert reply.value == pytest.approx(0.25) and reply.detail["mass"] == pytest.approx(0.4)
    assert reply.detail["served_by"] == "canned-1"
    assert reply.usage._replace(seconds=0) == Usage(calls=1, tokens_in=5, tokens_out=2, images=3)
    assert body["messages"][-1] == {"role": "assistant", "content": "Answer:"} and body["max_tokens"] == 1
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert body["top_logprobs"] == 20 and body["temperature"] == 0.0


def test_the_reasoning_of_a_server_is_recorded_and_no_part_of_the_answer() -> None:
    call = ChatCall((Message("user", ("What now?",)),), max_tokens=20)
    apart, inside = completion("sleep"), completion("<think>\nIt is dark.\n</think>\n\nsleep")
    apart["choices"][0]["message"]["reasoning_content"] = "It is dark."
    for response in (apart, inside):
        (reply,), (body,) = ask(lambda body, response=response: (200, response), call, thinking=300)
        assert reply.value == "sleep" and reply.detail["reasoning"] == "It is dark."
        assert body["chat_template_kwargs"] == {"enable_thinking": True} and body["max_tokens"] == 320
    (reply,), (body,) = ask(lambda body: (200, inside), call)
    assert reply.value.startswith("<think>") and "reasoning" not in reply.detail
    assert "chat_template_kwargs" not in body and body["max_tokens"] == 20
    (reply,), (body,) = ask(lambda body: (200, completion("sleep")), call, thinking="off")
    assert body["chat_template_kwargs"] == {"enable_thinking": False} and body["max_tokens"] == 20
    thought = completion("<think>It is dark.</think>")
    (failure,), _ = ask(lambda body: (200, thought), call, thinking=300)
    assert (failure.kind, failure.usage.tokens_out) == ("empty", 2)
    refusal = {"error": {"message": "Unrecognized request argument supplied: chat_template_kwargs"}}
    with pytest.raises(UserError, match=r"rejects chat_template_kwargs, which chat\.thinking=300 needs"):
        ask(lambda body: (400, refusal), call, thinking=300)


def test_logprobs_scores_where_the_model_first_says_either_word() -> None:
    yes, no = {"Yes": 0.75, "No": 0.25}, {" no": 1.0}
    response = completion("Answer: Yes no", logprobs(("Answer", {}), (":", {" Yes": 0.9}), ("Yes", yes), (" no", no)))
    (reply,), (body,) = ask(lambda body: (200, response), JUDGE, scoring="logprobs")
    assert reply.value == pytest.approx(0.75) and "continue_final_message" not in body


def test_logprobs_leaves_out_a_word_that_only_stands_in_prose() -> None:
    likely = {" Yes": 0.75, " No": 0.25}
    words = ["There", " is", " no", " key", ".", " Answer", ":"]
    response = completion("".join(words) + " Yes", logprobs(*((word, {word: 1.0}) for word in words), (" Yes", likely)))
    prose = completion("".join(words[:4]), logprobs(*((word, {word: 1.0}) for word in words[:4])))
    says = iter([response, prose])
    (reply, failure), _ = ask(lambda body: (200, next(says)), JUDGE, JUDGE, scoring="logprobs")
    assert reply.value == pytest.approx(0.75)
    assert failure.kind == "malformed" and "There is no key" in str(failure)


def test_literal_reads_the_text_and_needs_no_more() -> None:
    says = iter(["Answer: Yes", "I see nothing. Answer: no.", "Vielleicht", " "])
    replies, bodies = ask(lambda body: (200, completion(next(says))), *[JUDGE] * 4, scoring="literal")
    assert [reply.value for reply in replies[:2]] == [1.0, 0.0]
    assert [failure.kind for failure in replies[2:]] == ["malformed", "empty"] and "logprobs" not in bodies[0]


@pytest.mark.parametrize("scoring", ["prefill", "logprobs"])
def test_a_score_without_either_word_is_malformed_and_billed(scoring: str) -> None:
    response = completion("Maybe", logprobs(("Maybe", {"Maybe": 0.9})))
    (failure,), _ = ask(lambda body: (200, response), JUDGE, scoring=scoring, prices=Prices(1e6, 1e6))
    assert failure.kind == "malformed" and "Maybe" in str(failure) and failure.usage.usd == pytest.approx(7.0)


@pytest.mark.parametrize(("field", "scoring"), [("continue_final_message", "prefill"), ("logprobs", "logprobs")])
def test_a_way_of_scoring_that_a_server_does_not_have_is_the_users_to_mend(field: str, scoring: str) -> None:
    with pytest.raises(UserError, match="literal"):
        ask(lambda body: (400, {"error": {"message": f"Unrecognized argument: {field}"}}), JUDGE, scoring=scoring)
    check_refused("no log-probabilities", ask, lambda body: (200, completion("Yes")), JUDGE, scoring=scoring)


def test_log_probabilities_that_are_missing_once_are_a_failure_of_that_call() -> None:
    says = iter([completion("Yes", logprobs(("Yes", {"Yes": 1.0}))), completion("Yes")])
    (reply, failure), _ = ask(lambda body: (200, next(says)), JUDGE, JUDGE)
    assert reply.value == 1.0 and failure.kind == "malformed"


def test_images_go_as_png_in_order_between_their_texts() -> None:
    call = ChatCall((Message("user", ("First", CLIP[0], "then", CLIP[1])),))
    (reply,), (body,) = ask(lambda body: (200, completion("Fine")), call, detail="high")
    (message,) = body["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "image_url", "text", "image_url"]
    for part, image in zip(message["content"][1::2], CLIP, strict=False):
        kind, content = part["image_url"]["url"].split(",")
        assert kind == "data:image/png;base64" and part["image_url"]["detail"] == "high"
        assert (images.pixels(base64.b64decode(content)) == image).all()
    assert reply.value == "Fine" and reply.usage.images == 2


def test_a_schema_is_asked_for_and_the_object_taken_from_whatever_stands_around_it() -> None:
    (reply,), (body,) = ask(lambda body: (200, completion('Sure!\n```json\n{"x": 3}\n```')), CHAT)
    assert reply.value == {"x": 3} and body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_server_that_takes_no_schema_is_not_sent_one_again() -> None:
    def says(body: dict[str, Any]) -> tuple[int, Any]:
        if "response_format" in body:
            return 400, {"error": {"message": "Invalid parameter: 'response_format'", "param": "response_format"}}
        return 200, completion('{"x": 1}')

    replies, bodies = ask(says, CHAT, CHAT)
    assert [reply.value for reply in replies] == [{"x": 1}, {"x": 1}]
    assert ["response_format" in body for body in bodies] == [True, False, False]
    assert [reply.usage.calls for reply in replies] == [2, 1], "every request is counted"


def test_a_model_that_knows_no_max_tokens_is_told_in_its_own_words() -> None:
    def says(body: dict[str, Any]) -> tuple[int, Any]:
        if "max_tokens" in body:
            return 400, {"error": {"message": "'max_tokens' is not supported. Use 'max_completion_tokens' instead."}}
        return 200, completion("Fine")

    _, bodies = ask(says, ChatCall((Message("user", ("Hi",)),), max_tokens=9))
    assert bodies[-1]["max_completion_tokens"] == 9 and "max_tokens" not in bodies[-1]


def test_an_object_that_does_not_fit_is_shown_to_the_model_a_bounded_number_of_times() -> None:
    says = iter(['{"x": "three"}', '{"x": 3}', *["No."] * 9])
    (reply, failure), bodies = ask(lambda body: (200, completion(next(says))), CHAT, CHAT)
    assert reply.value == {"x": 3} and reply.usage.calls == 2 and len(bodies) == 5
    assert bodies[1]["messages"][-2] == {"role": "assistant", "content": '{"x": "three"}'}
    assert failure.kind == "malformed" and failure.usage.calls == 3 and failure.usage.tokens_in == 15


def test_an_object_that_was_cut_off_is_malformed_at_once() -> None:
    response = completion('{"x": ')
    response["choices"][0]["finish_reason"] = "length"
    (failure,), bodies = ask(lambda body: (200, response), CHAT)
    assert failure.kind == "malformed" and "50 tokens" in str(failure) and len(bodies) == 1


def test_a_text_that_the_limit_of_tokens_ended_says_so() -> None:
    response = completion("Both come near")
    response["choices"][0]["finish_reason"] = "length"
    (cut,), _ = ask(lambda body: (200, response), dataclasses.replace(CHAT, schema=None))
    assert cut.value == "Both come near" and cut.detail["cut_off"] == 1


@pytest.mark.parametrize(
    ("message", "finish", "kind"),
    [
        ({"content": None, "refusal": "I will not."}, "stop", "refused"),
        ({"content": ""}, "content_filter", "refused"),
        ({"content": None}, "stop", "empty"),
        ({"content": " \n"}, "stop", "empty"),
    ],
)
def test_refusals_and_empty_answers(message: dict[str, Any], finish: str, kind: str) -> None:
    response = completion("")
    response["choices"][0] |= {"message": message, "finish_reason": finish}
    for call in (CHAT, JUDGE):
        (failure,), _ = ask(lambda body: (200, response), call)
        assert failure.kind == kind and failure.usage.calls == 1


def test_a_failure_in_the_midst_of_repairs_tells_of_all_that_was_asked() -> None:
    says = iter([(200, completion("No.")), (500, {})])
    (failure,), _ = ask(lambda body: next(says), CHAT)
    assert failure.kind == "server" and failure.usage.calls == 2 and failure.usage.tokens_in == 5


def test_texts_are_embedded_in_order_and_images_are_not() -> None:
    rows = [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]
    response = {"data": rows, "model": "e", "usage": {"prompt_tokens": 4}}
    (reply,), (body,) = ask(lambda body: (200, response), EmbedCall(("one", "two")), prices=Prices(2.0))
    assert reply.value.tolist() == [[1, 2], [3, 4]] and body["input"] == ["one", "two"]
    assert reply.usage._replace(seconds=0) == Usage(calls=1, tokens_in=4, usd=8e-6)
    check_refused("texts alone", ask, lambda body: (200, response), EmbedCall((CLIP[0],)))


def test_prices_are_the_recipes_unless_told() -> None:
    response = completion("Yes", logprobs(("Yes", {"Yes": 1.0})))
    (listed,), (body,) = ask(lambda body: (200, response), JUDGE, model="gpt-4o-mini")
    (free,), _ = ask(lambda body: (200, response), JUDGE, model="gpt-4o-mini", prices=Prices(0.0, 0.0))
    assert body["model"] == recipes.server_name("gpt-4o-mini")
    assert listed.usage.usd == recipes.price("gpt-4o-mini", listed.usage) > 0 == free.usage.usd


@pytest.mark.parametrize("call", [JUDGE, CHAT, CHAT.__class__(CHAT.messages), EmbedCall(("a", "b" * 100))])
def test_an_estimate_bounds_what_an_attempt_takes(call: Any) -> None:
    text = "No. " * 10

    def says(body: dict[str, Any]) -> tuple[int, Any]:
        if "input" in body:
            rows = [{"index": index, "embedding": [1]} for index in range(2)]
            return 200, {"data": rows, "usage": {"prompt_tokens": sum(map(len, body["input"]))}}
        length = sum(len(str(part)) for message in body["messages"] for part in [message["content"]] if part)
        response = completion(text, logprobs(("No", {"No": 1.0})))
        response["usage"] = {
            "prompt_tokens": min(length, 1500),
            "completion_tokens": min(body["max_tokens"], len(text)),
        }
        return 200, response

    (reply,), _ = ask(says, call, prices=Prices(1.0, 1.0))
    bound = OpenAIModel("m", Server("http://127.0.0.1:1/v1", "SOME_KEY", 1.0), prices=Prices(1.0, 1.0)).estimate(call)
    for name in ("calls", "tokens_in", "tokens_out", "images", "usd"):
        assert getattr(reply.usage, name) <= getattr(bound, name), name


@pytest.mark.release
@pytest.mark.waits
def test_a_real_server_answers_in_text_and_says_who_it_is(transformers_serve) -> None:
    async def ask_server() -> Reply:
        backend = OpenAIModel(transformers_serve.name, Server(transformers_serve.url, "SOME_KEY", 60.0))
        reply = await backend.answer(ChatCall((Message("user", ("Look: ", CLIP[0])),), max_tokens=6))
        await backend.close()
        return reply

    reply = asyncio.run(ask_server())
    assert reply.value and reply.usage.tokens_out == 2 and reply.usage.images == 1 and reply.usage.seconds > 0
    assert transformers_serve.name in reply.detail["served_by"]
