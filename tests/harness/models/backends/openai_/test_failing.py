"""With calls failing at random every question ends, every attempt is billed once, and the key stays secret."""

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
from guidebench.harness.models.calls import Asker, CallResult, ChatCall, FailureKind, JudgeCall, Message, Usage
from guidebench.harness.models.cassette import Cassette
from guidebench.harness.models.desk import Desk, Policy
from guidebench.harness.models.judges.openai_ import OpenAI
from tests.harness.models.faults import FAULTS, PASSED, Proxy, seeded

pytestmark = pytest.mark.waits
KEY = "sk-distinctive-0123456789"
CLIPS = np.random.default_rng(1).integers(0, 256, (40, 2, 28, 28, 3), dtype=np.uint8)
POLICY = Policy(timeout=3.0, attempts=3, backoff=0.01, in_flight=4, breaker_after=1_000)
LIMITS = Limits(usd=1e6)


def told(url: str, model: str, directory: Path, calls: Any, mode: str = "record") -> list[CallResult]:
    """What becomes of calls over a desk with a cassette and a budget in `directory`."""

    async def asked() -> list[CallResult]:
        server = Server(url, "SOME_KEY", POLICY.timeout)
        served = None if mode == "replay" else OpenAIModel(model, server, "literal")
        shard = directory / ("shard-again.sqlite" if mode == "replay" else "shard-first.sqlite")
        sources = [directory / "shard-first.sqlite"] if mode == "replay" else []
        budget = Budget(directory / "budget.json", LIMITS)
        identity = {"model": model, "backend": "openai"}
        desk = Desk(
            served, identity, model, Cassette(sources, shard), budget, POLICY, mode, rng=np.random.default_rng(0)
        )
        try:
            asking = (desk.answer(call, Asker("cell/0", at, at)) for at, call in enumerate(calls))
            return list(await asyncio.wait_for(asyncio.gather(*asking), 500))
        finally:
            await desk.close()
            await server.close()

    return asyncio.run(asked())


def test_with_a_third_of_calls_failing_all_end_and_the_ledger_adds_up(proxy, transformers_serve, tmp_path) -> None:
    proxy.plan = seeded(0.3, seed=3)
    calls = [JudgeCall(clip, "Answer: Yes or Answer: No?") for clip in CLIPS]
    found = told(proxy.url, transformers_serve.name, tmp_path, calls)

    failed = [each for each in found if each.failure]
    assert all(each.value in (0.0, 1.0) for each in found if not each.failure) and len(failed) < len(found) / 2
    assert {each.failure for each in failed} <= set(get_args(FailureKind))
    assert all(each.value is None and each.detail["message"] for each in failed)
    assert len(set(proxy.seen) - {PASSED}) >= 6, "many faults were met"

    billed = sum((each.billed.calls for each in found), 0)
    assert billed == len(proxy.seen)
    with sqlite3.connect(tmp_path / "shard-first.sqlite") as db:
        ((calls_spent, tokens_spent),) = db.execute("SELECT SUM(calls), SUM(tokens_in) FROM spent")
    assert calls_spent == billed and tokens_spent == sum(each.billed.tokens_in for each in found)
    account = Budget(tmp_path / "budget.json", LIMITS)
    assert account.spent["calls"] == billed
    account.close()

    seen = len(proxy.seen)
    again = told(proxy.url, transformers_serve.name, tmp_path, calls, mode="replay")
    assert [(each.value, each.failure) for each in again] == [(each.value, each.failure) for each in found]
    assert all(each.billed == Usage() for each in again) and len(proxy.seen) == seen, "nothing is asked in replay"


def test_the_key_is_in_nothing_that_is_kept_or_said(
    proxy: Proxy, transformers_serve, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    proxy.plan = lambda number: [*FAULTS, PASSED][number % (len(FAULTS) + 1)] if number % 13 != 10 else PASSED
    calls = [JudgeCall(clip, "Answer: Yes or Answer: No?") for clip in CLIPS[:8]]
    calls += [ChatCall((Message("user", (f"Chat {n}",)),), {"type": "object"}, max_tokens=4) for n in range(4)]
    found = told(proxy.url, transformers_serve.name, tmp_path, calls)
    assert proxy.keys == {f"Bearer {KEY}"} and len(set(proxy.seen)) > 8

    proxy.plan = lambda number: PASSED  # a fault could be taken for an answer
    with pytest.raises(UserError) as missing:
        told(proxy.url + "/nowhere", transformers_serve.name, tmp_path / "other", calls[:1])
    config = OpenAI(base_url=proxy.url, key_variable="SOME_KEY")
    said = [repr(found), repr(config), str(missing.value), repr(missing.value.__cause__), caplog.text]
    assert not any(KEY in text for text in said)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2 and not any(KEY.encode() in path.read_bytes() for path in files)
