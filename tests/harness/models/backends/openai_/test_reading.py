"""Scores computed from the likeliest tokens equal those worked out by hand; a body of any other form is a failure."""

import math

import pytest

from guidebench.harness.models.backends.openai_ import reading
from guidebench.harness.models.backends.openai_.reading import Likely, Token
from guidebench.harness.models.calls import Failure
from tests.harness.models.canned import completion


def logprobs(*tokens: tuple[str, dict[str, float]]) -> dict:
    """Return the `logprobs` of a completion of these (token, probability of each likely token) pairs."""

    def listed(likeliest: dict[str, float]) -> list[dict]:
        return [{"token": text, "logprob": math.log(p)} for text, p in likeliest.items()]

    return {
        "content": [
            {"token": token, "logprob": 0.0, "top_logprobs": listed(probabilities)} for token, probabilities in tokens
        ]
    }


def test_p_yes_sums_over_the_variants_of_both_words() -> None:
    likeliest = {" Yes": 0.3, "yes": 0.1, "YES\n": 0.2, "No": 0.15, " no": 0.05, "Yesterday": 0.1, "note": 0.1}
    token = Token(" Yes", tuple(Likely(text, math.log(p)) for text, p in likeliest.items()))
    probability, mass = reading.share(token)
    assert probability == pytest.approx(0.6 / 0.8) and mass == pytest.approx(0.8)


def test_a_word_that_is_not_among_the_likeliest_counts_nothing_and_neither_is_no_score() -> None:
    assert reading.share(Token("Yes", (Likely("Yes", -0.1), Likely("Maybe", -3.0))))[0] == 1.0
    assert reading.share(Token("Maybe", (Likely("Maybe", -0.1),))) is None
    assert reading.share(Token("No", (Likely("Yes", -9999.0), Likely("No", -9999.0)))) == (0.5, 0.0)


def test_the_token_that_was_said_is_among_the_likeliest_once() -> None:
    reply = reading.completion(completion("Yes", logprobs(("Yes", {"Yes": 0.7, "No": 0.2}), (" !", {}))))
    assert [len(token.likeliest) for token in reply.tokens] == [2, 1]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "Yes",
        {},
        {"choices": "Yes"},
        {"choices": [{}]},
        {"choices": [{"message": {"content": ["Yes"]}}]},
        {"choices": [{"message": {"content": "Yes"}}], "usage": {"prompt_tokens": -1}},
        {"choices": [{"message": {"content": "Yes"}}], "usage": {"prompt_tokens": 10**30}},
        completion("Yes", {"content": [{"token": "Yes", "logprob": "often"}]}),
        completion("Yes", {"content": [{"token": "Yes", "logprob": 10**400}]}),
        completion("Yes", {"content": [{"token": 3, "logprob": 0.0}]}),
    ],
)
def test_a_completion_of_another_form_is_malformed(body: object) -> None:
    with pytest.raises(Failure) as failed:
        reading.completion(body)
    assert failed.value.kind == "malformed"


def test_a_completion_without_choices_or_usage_says_nothing() -> None:
    reply = reading.completion({"choices": []})
    assert (reply.text, reply.tokens, reply.served_by, reply.tokens_in) == ("", None, "", 0)


def test_vectors_come_in_the_order_of_their_texts() -> None:
    rows = [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, 2]}]
    embeddings, served_by, tokens_in = reading.vectors({"data": rows, "model": "e", "usage": {"prompt_tokens": 7}}, 2)
    assert (
        embeddings.tolist() == [[1, 2], [3, 4.5]]
        and embeddings.dtype == "float32"
        and (served_by, tokens_in) == ("e", 7)
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"index": 0, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1, 1e300]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1, 10**400]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": "AAAA"}],
    ],
)
def test_vectors_that_do_not_fit_their_texts_are_malformed(rows: list) -> None:
    with pytest.raises(Failure) as failed:
        reading.vectors({"data": rows}, 2)
    assert failed.value.kind == "malformed"
