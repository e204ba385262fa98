"""When calls fail at random every question still ends, every attempt is billed once, and the key stays secret."""

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.openai_.model import OpenAIModel
from guidebench.harness.models.backends.openai_.server import Server
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Answer, ChatCall, FailureKind, JudgeCall, Message, Ticket, Usage
from guidebench.harness.models.cassette import Cassette
from guidebench.harness.models.desk import Desk, Policy
from guidebench.harness.models.judges.openai_ import OpenAI
from tests.harness.models.faults import FAULTS, PASSED, Proxy, random_plan

pytestmark = pytest.mark.waits
KEY = "sk-distinctive-0123456789"
CLIPS = np.random.default_rng(1).integers(0, 256, (40, 2, 28, 28, 3), dtype=np.uint8)
POLICY = Policy(timeout=3.0, attempts=3, backoff=0.01, in_flight=4, breaker_after=1_000)
LIMITS = Limits(usd=1e6)


def desk_results(url: str, model: str, directory: Path, calls: Any, mode: str = "record") -> list[Answer]:
    """Return the results of calls sent through a desk with a cassette and a budget in `directory`."""

    async def ask() -> list[Answer]:
        server = Server(url, "SOME_KEY", POLICY.timeout)
        backend = None if mode == "replay" else OpenAIModel(model, server, "literal")
        shard = directory / ("shard-again.sqlite" if mode == "replay" else "shard-first.sqlite")
        sources = [directory / "shard-first.sqlite"] if mode == "replay" else []
        budget = Budget(directory / "budget.json", LIMITS)
        identity = {"model": model, "backend": "openai"}
        desk = Desk(
            backend, identity, model, Cassette(sources, shard), budget, POLICY, mode, rng=np.random.default_rng(0)
        )
        try:
            answers = (desk.answer(call, Ticket("cell/0", at, at)) for at, call in enumerate(calls))
            return list(await asyncio.wait_for(asyncio.gather(*answers), 500))
        finally:
            await desk.close()
            await server.close()

    return asyncio.run(ask())


def test_with_a_third_of_calls_failing_all_end_and_the_ledger_adds_up(proxy, canned, tmp_path) -> None:
    proxy.plan = random_plan(0.3, seed=3)
    calls = [JudgeCall(clip, "Answer: Yes or Answer: No?") for clip in CLIPS]
    answers = desk_results(proxy.url, canned.name, tmp_path, calls)

    failed = [answer for answer in answers if answer.failure]
    assert (
        all(answer.value in (0.0, 1.0) for answer in answers if not answer.failure) and len(failed) < len(answers) / 2
    )
    assert {answer.failure for answer in failed} <= set(get_args(FailureKind))
    assert all(answer.value is None and answer.detail["message"] for answer in failed)
    assert len(set(proxy.faults) - {PASSED}) >= 6, "many kinds of faults occurred"

    billed = sum((answer.billed.calls for answer in answers), 0)
    assert billed == len(proxy.faults)
    with sqlite3.connect(tmp_path / "shard-first.sqlite") as db:
        ((calls_spent, tokens_spent),) = db.execute("SELECT SUM(calls), SUM(tokens_in) FROM spent")
    assert calls_spent == billed and tokens_spent == sum(answer.billed.tokens_in for answer in answers)
    account = Budget(tmp_path / "budget.json", LIMITS)
    assert account.spent["calls"] == billed
    account.close()

    requests_before = len(proxy.faults)
    replayed = desk_results(proxy.url, canned.name, tmp_path, calls, mode="replay")
    assert [(answer.value, answer.failure) for answer in replayed] == [
        (answer.value, answer.failure) for answer in answers
    ]
    assert all(answer.billed == Usage() for answer in replayed) and len(proxy.faults) == requests_before, (
        "nothing is asked in replay"
    )


def test_the_key_is_in_nothing_that_is_kept_or_said(proxy: Proxy, canned, tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    proxy.plan = lambda number: [*FAULTS, PASSED][number % (len(FAULTS) + 1)] if number % 13 != 10 else PASSED
    calls = [JudgeCall(clip, "Answer: Yes or Answer: No?") for clip in CLIPS[:8]]
    calls += [ChatCall((Message("user", (f"Chat {n}",)),), {"type": "object"}, max_tokens=4) for n in range(4)]
    answers = desk_results(proxy.url, canned.name, tmp_path, calls)
    assert proxy.keys == {f"Bearer {KEY}"} and len(set(proxy.faults)) > 8

    proxy.plan = lambda number: PASSED  # a fault could be taken for an answer
    with pytest.raises(UserError) as missing:
        desk_results(proxy.url + "/nowhere", canned.name, tmp_path / "other", calls[:1])
    config = OpenAI(base_url=proxy.url, key_variable="SOME_KEY")
    texts = [repr(answers), repr(config), str(missing.value), repr(missing.value.__cause__), caplog.text]
    assert not any(KEY in text for text in texts)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2 and not any(KEY.encode() in path.read_bytes() for path in files)
