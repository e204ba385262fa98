"""Whatever a server or the network does, a request ends soon, with an answer or a failure that says what happened."""

import asyncio
import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.openai_.server import LONGEST, Server
from guidebench.harness.models.calls import RETRYABLE, Failure
from tests.harness.models import faults
from tests.harness.models.canned import completion, serving

pytestmark = pytest.mark.waits
KEY = "sk-distinctive-0123456789"
KINDS = {
    "rate_limited": "rate_limited",
    "broken": "server",
    "bad_gateway": "server",
    "unavailable": "server",
    "truncated": "malformed",
    "malformed": "malformed",
    "dropped": "connection",
    "megabyte": "malformed",
    "hang": "timeout",
}


def ask(url: str, timeout: float = 60.0, **fields: Any) -> Any:
    """Return the body of a tiny completion, or the Failure."""

    async def complete() -> Any:
        server = Server(url, "SOME_KEY", timeout)
        body = {"model": "m", "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 2}
        try:
            return (await server.complete(body | fields)).body
        except Failure as failure:
            return failure
        finally:
            await server.close()

    return asyncio.run(complete())


@pytest.mark.parametrize("fault", KINDS)
def test_every_fault_ends_in_a_failure_of_its_kind(proxy, canned, fault: str) -> None:
    proxy.plan = lambda number: fault
    failure = ask(proxy.url, timeout=1.0 if fault == "hang" else 60.0, model=canned.name)
    assert failure.kind == KINDS[fault] and failure.kind in RETRYABLE
    assert len(proxy.faults) == failure.usage.calls == 1 and failure.usage.seconds > 0, (
        "asked once, and that is counted"
    )


def test_a_body_without_end_is_cut_off_as_it_streams_in(proxy) -> None:
    proxy.plan = lambda number: "megabyte"
    assert str(LONGEST).replace("1048576", "1,048,576") in str(ask(proxy.url))
    assert proxy.sent < 8 * LONGEST < faults.ENDLESS, "including the bytes under way"


def test_a_server_that_died_and_came_back_is_asked_again(proxy, canned) -> None:
    async def ask_thrice() -> list[Any]:
        server = Server(proxy.url, "SOME_KEY", 60.0)
        body = {"model": canned.name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        outcomes: list[Any] = []
        for change in (None, proxy.die, proxy.revive):
            if change is not None:
                await asyncio.to_thread(change)
            try:
                outcomes.append((await server.complete(body)).body["object"])
            except Failure as failure:
                outcomes.append(failure.kind)
        await server.close()
        return outcomes

    assert asyncio.run(ask_thrice()) == ["chat.completion", "connection", "chat.completion"]


def test_a_server_that_dies_in_the_middle_is_no_connection(proxy) -> None:
    proxy.plan = lambda number: "hang"

    async def ask_once() -> Any:
        server = Server(proxy.url, "SOME_KEY", 60.0)
        request = asyncio.create_task(server.complete({"model": "m", "messages": [], "max_tokens": 2}))
        while not proxy.faults:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(proxy.die)
        try:
            await request
        except Failure as failure:
            return failure.kind
        finally:
            await server.close()

    assert asyncio.run(ask_once()) == "connection"


@pytest.mark.parametrize(
    ("retry_after", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-2", 0.0), ("soon", None), ("1e999", None)]
)
def test_retry_after_is_read_in_seconds(proxy, retry_after: str, seconds: float | None) -> None:
    proxy.plan, proxy.retry_after = (lambda number: "rate_limited"), retry_after
    assert ask(proxy.url).retry_after == seconds


def test_retry_after_is_read_as_a_date(proxy) -> None:
    proxy.plan, proxy.retry_after = (lambda number: "rate_limited"), formatdate(time.time() + 30, usegmt=True)
    assert 20 < ask(proxy.url).retry_after <= 30


@pytest.mark.parametrize(("status", "names"), [(401, "SOME_KEY"), (403, "SOME_KEY"), (404, "judge.base_url")])
def test_what_only_the_user_can_mend_says_what_to_check(monkeypatch, status: int, names: str) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    answer = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    with serving(lambda path, body, headers: (status, answer)) as url, pytest.raises(UserError) as error:
        ask(url)
    assert names in str(error.value) and url in str(error.value) and KEY not in str(error.value)


def test_a_redirect_is_refused_and_nothing_is_sent_there(monkeypatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    reached: list[str] = []
    with serving(lambda path, body, headers: (reached.append(path), (200, completion("Yes")))[1]) as elsewhere:
        for status in (301, 307):
            target = {"Location": f"{elsewhere}/chat/completions?key={KEY}"}
            with (
                serving(lambda path, body, headers, status=status, to=target: (status, {}, to)) as url,
                pytest.raises(
                    UserError, match=rf"redirects to {elsewhere}/chat/completions \(HTTP {status}\)"
                ) as error,
            ):
                ask(url)
            assert KEY not in str(error.value) and "judge.base_url" in str(error.value)
    assert reached == []


def test_a_key_that_a_server_echoes_is_in_no_part_of_its_answer(monkeypatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setenv("UNRELATED_NAME", "not a key")

    def answers(path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        return 200, completion(f"You sent {headers}") | {headers["authorization"]: [headers]}

    with serving(answers) as url:
        body = ask(url)
    assert KEY not in json.dumps(body) and "You sent" in json.dumps(body)


def test_halves_of_characters_and_bodies_without_bottom_do_no_harm() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    says = iter([completion("a\ud83d"), completion("b") | {"more": deep}])
    with serving(lambda path, body, headers: (200, next(says))) as url:
        assert ask(url)["choices"][0]["message"]["content"] == "a\ufffd" and ask(url).kind == "malformed"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(400, None, "rejected"), (400, "content_filter", "refused"), (408, None, "timeout"), (422, None, "rejected")],
)
def test_other_statuses(status: int, code: str | None, kind: str) -> None:
    with serving(lambda path, body, headers: (status, {"error": {"message": "no", "code": code}})) as url:
        failure = ask(url)
    assert failure.kind == kind and "no" in str(failure)


def test_the_key_reaches_the_server_and_no_other_does(monkeypatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    keys: list[str] = []

    def answers(path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        keys.append({name.lower(): value for name, value in headers.items()}["authorization"])
        return 200, completion("Yes")

    with serving(answers) as url:
        ask(url)
        monkeypatch.delenv("SOME_KEY")
        ask(url)
    assert keys[0] == f"Bearer {KEY}" and "another" not in json.dumps(keys)


@pytest.mark.parametrize("key", ["sk-\x00null", "sk-two words", "sk-ключ"])
def test_what_cannot_be_a_key_is_not_sent_and_not_shown(monkeypatch, key: str) -> None:
    monkeypatch.setattr("os.environ", {"SOME_KEY": key})
    with pytest.raises(UserError, match="SOME_KEY") as error:
        Server("http://127.0.0.1:1/v1", "SOME_KEY", 1.0)
    assert key[3:] not in str(error.value)


@pytest.mark.parametrize("url", ["http://me:secret@host/v1", "https://host/v1?key=secret", "host:8000", "file:///v1"])
def test_an_address_that_holds_a_secret_or_is_none_is_an_error(url: str) -> None:
    with pytest.raises(UserError, match=r"judge\.base_url") as error:
        Server(url, "SOME_KEY", 1.0)
    assert "secret" not in str(error.value)


def test_without_a_server_a_key_is_needed_and_the_environment_may_name_a_server(monkeypatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UserError, match="SOME_KEY"):
        Server(None, "SOME_KEY", 1.0)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert Server(None, "SOME_KEY", 1.0).name.startswith("http://127.0.0.1:1/v1")
