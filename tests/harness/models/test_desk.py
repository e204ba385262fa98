"""A desk returns an answer or a failure for each call, in bounded time and attempts, and records it first."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import (
    Answer,
    Call,
    ChatCall,
    EmbedCall,
    Failure,
    JudgeCall,
    Message,
    Reply,
    Ticket,
    Usage,
)
from guidebench.harness.models.cassette import Cassette, CassetteEntry, files, merge
from guidebench.harness.models.desk import Desk, MissingCall, Policy
from guidebench.harness.models.exchange import stats

QUICK = Policy(timeout=30.0, attempts=3, backoff=0.001, in_flight=4, breaker_after=100, breaker_seconds=0.2)
TOOK = Usage(calls=1, tokens_in=10, seconds=0.5, usd=0.25)
LOST = Usage(calls=1, usd=0.125)


class ScriptedModel:
    """A model whose replies are given: values, failures to raise, or functions of the call's number."""

    def __init__(self, *replies: object, then: object = 0.5) -> None:
        self._replies, self._then = iter(replies), then
        self.calls: list[Call] = []
        self.running = self.peak = 0
        self.key = "sk-test-abcdef0123456789"
        self.is_closed = False

    async def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            reply = next(self._replies, self._then)
            if callable(reply):
                reply = await reply(len(self.calls))
            if isinstance(reply, BaseException):
                raise reply
            return reply if isinstance(reply, Reply) else Reply(reply, TOOK, {"mass": 0.9, "served_by": "tiny"})
        finally:
            self.running -= 1

    def estimate(self, call: Call) -> Usage:
        return Usage(calls=1, usd=0.5)

    async def close(self) -> None:
        self.is_closed = True


def fails(kind: str, **details) -> Failure:
    return Failure(kind, f"it was {kind}", LOST, **details)  # type: ignore[arg-type]


def clip(number: int = 0) -> JudgeCall:
    return JudgeCall(np.full((2, 4, 4, 3), number, np.uint8), "Is it done?")


def ticket_of(run: str = "cell/0", ordinal: int = 0) -> Ticket:
    return Ticket(run, ordinal, 100 + ordinal)


class Study:
    """The folder of a study's models, with the desks of successive processes."""

    def __init__(self, path: Path) -> None:
        self.path, self.directory, self._shards = path, path / "models", 0

    def desk(
        self,
        model: ScriptedModel | None,
        mode: str = "record",
        policy: Policy = QUICK,
        limits: Limits | None = None,
        **settings,
    ) -> Desk:
        self._shards += 1
        cassette = Cassette(files(self.directory), self.directory / f"shard-{self._shards}.sqlite")
        budget = None if limits is None else Budget(self.directory / "budget.json", limits)
        return Desk(model, {"model": "tiny"}, "tiny", cassette, budget, policy, mode, **settings)  # type: ignore[arg-type]

    def tell(self, model: ScriptedModel | None, calls: Iterable[tuple[Call, Ticket]], **settings) -> list[Answer]:
        """Return the results of calls that one process makes at the same time; the process then ends."""

        async def run() -> list[Answer]:
            desk = self.desk(model, **settings)
            try:
                return await asyncio.gather(*(desk.answer(call, ticket) for call, ticket in calls))
            finally:
                await desk.close()

        return asyncio.run(run())

    @property
    def spent(self) -> Usage:
        (model,) = stats(self.path).models
        return model.spent


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def test_what_was_asked_once_is_told_again_for_nothing(study: Study) -> None:
    model = ScriptedModel(0.25)
    (answer,) = study.tell(model, [(clip(), ticket_of())])
    assert answer == Answer(0.25, "", TOOK, TOOK, {"mass": 0.9, "served_by": "tiny"})
    for mode, ticket in (
        ("record", ticket_of("cell/1", 7)),
        ("replay", ticket_of("cell/1", 7)),
        ("replay", ticket_of("cell/2", 8)),
    ):
        assert study.tell(model, [(clip(), ticket)], mode=mode) == [answer._replace(billed=Usage())]
    assert len(model.calls) == 1 and model.is_closed and study.spent == TOOK


def test_what_may_go_better_is_tried_again_and_every_attempt_is_billed(study: Study) -> None:
    model = ScriptedModel(fails("server"), fails("empty"), 0.25)
    (answer,) = study.tell(model, [(clip(), ticket_of())])
    assert (answer.value, answer.failure, len(model.calls)) == (0.25, "", 3)
    assert answer.usage == TOOK and answer.billed == study.spent == TOOK.plus(LOST).plus(LOST)


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [
        *((kind, 3) for kind in ("timeout", "rate_limited", "server", "connection", "empty")),
        *((kind, 1) for kind in ("malformed", "refused", "rejected", "memory", "crashed")),
    ],
)
def test_attempts_are_bounded_and_what_would_not_go_better_is_asked_once(
    study: Study, kind: str, attempts: int
) -> None:
    model = ScriptedModel(then=fails(kind))
    (answer,) = study.tell(model, [(clip(), ticket_of())])
    assert (answer.value, answer.failure, len(model.calls)) == (None, kind, attempts)
    assert answer.usage == answer.billed == study.spent == Usage(calls=attempts, usd=0.125 * attempts)
    assert answer.detail == {"message": f"it was {kind}"}


def test_a_run_that_is_resumed_finds_its_own_answers_and_its_own_failures(study: Study) -> None:
    questions = [(clip(number), ticket_of(ordinal=number)) for number in range(6)]
    answers = study.tell(ScriptedModel(0.1, fails("refused"), 0.2, fails("rejected"), then=0.3), questions)
    assert [answer.failure for answer in answers] == ["", "refused", "", "rejected", "", ""]
    free = [answer._replace(billed=Usage()) for answer in answers]
    model = ScriptedModel(then=0.9)
    assert study.tell(model, questions) == free and model.calls == []
    merge(study.directory)
    assert study.tell(None, questions, mode="replay") == free
    # Another run repeats the failed call, and so does this run for another question.
    for ticket in (ticket_of("cell/1", 1), ticket_of(ordinal=11)):
        assert study.tell(model, [(clip(1), ticket)])[0].value == 0.9
    assert study.tell(None, questions, mode="replay") == free


def test_a_call_that_was_never_recorded_is_named_in_replay(study: Study) -> None:
    study.tell(ScriptedModel(), [(clip(), ticket_of())])
    with pytest.raises(MissingCall, match=r"run cell/0, step 103: question 3 to tiny was never recorded.*mode=record"):
        study.tell(None, [(clip(1), ticket_of(ordinal=3))], mode="replay")
    with pytest.raises(MissingCall):  # failures of others do not count
        study.tell(ScriptedModel(fails("refused")), [(clip(2), ticket_of())])
        study.tell(None, [(clip(2), ticket_of("cell/1"))], mode="replay")


def test_live_asks_always_and_records_only_what_it_spent(study: Study) -> None:
    model = ScriptedModel(0.1, 0.2, fails("refused"))
    for expected in (0.1, 0.2, None):
        assert study.tell(model, [(clip(), ticket_of())], mode="live")[0].value == expected
    assert study.spent == TOOK.plus(TOOK).plus(LOST)
    assert stats(study.path).models[0].answers == Usage() and stats(study.path).images == 0


async def soon(number: int) -> float:
    await asyncio.sleep(0.05)
    return number / 100


def test_equal_calls_at_a_time_are_asked_once_and_told_to_each(study: Study) -> None:
    model = ScriptedModel(then=soon)
    tickets = [ticket_of(run, ordinal) for run in ("cell/0", "cell/1") for ordinal in range(3)]
    answers = study.tell(model, [(clip(), ticket) for ticket in tickets])
    assert len(model.calls) == 1 and {answer.value for answer in answers} == {0.01}
    assert [answer.billed for answer in answers] == [TOOK] + 5 * [Usage()] and {answer.usage for answer in answers} == {
        TOOK
    }
    failed = study.tell(ScriptedModel(then=fails("refused")), [(clip(1), ticket) for ticket in tickets])
    assert [answer.failure for answer in failed] == 6 * ["refused"]
    replayed = study.tell(None, [(clip(1), ticket) for ticket in tickets], mode="replay")
    assert [answer.failure for answer in replayed] == 6 * ["refused"]


def test_chats_at_a_temperature_are_asked_for_each_question_and_found_again(study: Study) -> None:
    chat = ChatCall((Message("user", ("a plan?",)),), temperature=1.0)
    tickets = [ticket_of(run, ordinal) for run in ("cell/0", "cell/1") for ordinal in range(2)]
    questions = [(chat, ticket) for ticket in tickets]
    answers = study.tell(ScriptedModel("a", "b", "c", "d"), questions)
    assert [answer.value for answer in answers] == ["a", "b", "c", "d"]
    assert [answer.value for answer in study.tell(None, questions, mode="replay")] == ["a", "b", "c", "d"]


def test_no_more_are_in_flight_than_allowed(study: Study) -> None:
    model = ScriptedModel(then=soon)
    study.tell(model, [(clip(number), ticket_of(ordinal=number)) for number in range(12)])
    assert model.peak == QUICK.in_flight and len(model.calls) == 12


async def hang(number: int) -> float:
    await asyncio.sleep(600)
    return 0.5


def test_a_model_that_hangs_is_not_waited_for(study: Study) -> None:
    """The model would answer after ten minutes."""
    policy = replace(QUICK, timeout=0.1)
    (answer,) = study.tell(ScriptedModel(hang, then=0.25), [(clip(), ticket_of())], policy=policy)
    assert answer.value == 0.25 and answer.billed.calls == 2 and 0.1 <= answer.billed.seconds - TOOK.seconds < 60
    (answer,) = study.tell(ScriptedModel(then=hang), [(clip(1), ticket_of())], policy=policy)
    assert answer.failure == "timeout" and answer.detail == {"message": "no answer within 0.1 s"}


@pytest.mark.parametrize(("retry_after", "least", "most"), [(30.0, 20, 30), (3600.0, 50, 60), (None, -1, 0.001)])
def test_a_server_that_asks_to_wait_is_waited_for_in_reason(
    study: Study, monkeypatch: pytest.MonkeyPatch, retry_after: float | None, least: float, most: float
) -> None:
    slept, sleep = [0.0], asyncio.sleep

    async def skip_sleep(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", skip_sleep)
    study.tell(
        ScriptedModel(fails("rate_limited", retry_after=retry_after)),
        [(clip(), ticket_of())],
        policy=replace(QUICK, timeout=60.0),
    )
    assert least < max(slept) <= most


def test_a_model_that_is_gone_is_left_alone_until_one_call_finds_it_back(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(timeout=60, attempts=1, backoff=0.001, in_flight=1, breaker_after=3, breaker_seconds=30.0)
    model, clock = ScriptedModel(*[fails("connection")] * 4, soon, then=0.5), SimpleNamespace(now=0.0)
    monkeypatch.setattr("guidebench.harness.models.backends.faults.time", SimpleNamespace(monotonic=lambda: clock.now))

    async def run() -> None:
        desk = study.desk(model, policy=policy)

        async def ask(ordinal: int) -> str:
            return (await desk.answer(clip(ordinal), ticket_of(ordinal=ordinal))).failure

        assert [await ask(n) for n in range(5)] == ["connection"] * 3 + ["breaker"] * 2 and len(model.calls) == 3
        clock.now = 31.0
        assert [await ask(5), await ask(6)] == ["connection", "breaker"]  # the trial failed
        clock.now = 62.0
        assert [await ask(7), await ask(8)] == ["", ""]
        await desk.close()

    asyncio.run(run())
    assert len(model.calls) == 6


def test_while_one_tries_others_are_not_kept_waiting(study: Study) -> None:
    policy = Policy(timeout=5, attempts=1, backoff=0.001, in_flight=4, breaker_after=1, breaker_seconds=0.0)
    study.tell(ScriptedModel(fails("timeout"), soon), [(clip(), ticket_of())], policy=policy)

    async def run() -> list[Answer]:
        desk = study.desk(ScriptedModel(fails("timeout"), soon), policy=policy)
        await desk.answer(clip(1), ticket_of(ordinal=1))
        answers = await asyncio.gather(*(desk.answer(clip(n), ticket_of(ordinal=n)) for n in (2, 3, 4)))
        await desk.close()
        return answers

    assert sorted(answer.failure for answer in asyncio.run(run())) == ["", "breaker", "breaker"]


def test_answers_of_a_kind_do_not_count_as_absence(study: Study) -> None:
    policy = Policy(timeout=5, attempts=1, backoff=0.001, breaker_after=2)
    replies = [fails("server"), fails("refused"), fails("server"), fails("malformed"), fails("server")]
    answers = study.tell(ScriptedModel(*replies), [(clip(n), ticket_of(ordinal=n)) for n in range(6)], policy=policy)
    assert [answer.failure for answer in answers] == ["server", "refused", "server", "malformed", "server", ""]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (clip(), float("nan")),
        (clip(), 1.5),
        (clip(), "0.5"),
        (ChatCall((Message("user", ("hi",)),)), {"text": "hi"}),
        (ChatCall((Message("user", ("hi",)),), schema={"type": "object"}), "hi"),
        (EmbedCall(("a", "b")), np.zeros((1, 4), np.float32)),
        (EmbedCall(("a",)), np.zeros((1, 4))),
        (EmbedCall(("a",)), np.full((1, 4), np.inf, np.float32)),
        (EmbedCall(("a",)), [[0.5]]),
    ],
)
def test_an_answer_of_the_wrong_kind_is_malformed(study: Study, call: Call, value: object) -> None:
    (answer,) = study.tell(ScriptedModel(then=Reply(value, TOOK)), [(call, ticket_of())])
    assert answer.failure == "malformed" and answer.billed.calls == 1


@pytest.mark.parametrize(("temperature", "attempts"), [(0.0, 1), (0.5, 3)])
def test_an_answer_that_cannot_be_read_is_asked_for_in_the_same_words_only_where_it_is_sampled(
    study: Study, temperature: float, attempts: int
) -> None:
    model, call = ScriptedModel(then=Reply(3, TOOK)), ChatCall((Message("user", ("hi",)),), temperature=temperature)
    (answer,) = study.tell(model, [(call, ticket_of())])
    assert answer.failure == "malformed" and len(model.calls) == attempts


def test_a_model_that_cannot_be_used_at_all_stops_the_study(study: Study) -> None:
    model = ScriptedModel(then=UserError("no such model"))
    with pytest.raises(UserError, match="no such model"):
        study.tell(model, [(clip(), ticket_of())])
    assert len(model.calls) == 1


def test_jitter_is_drawn_from_the_generator_that_is_given(study: Study) -> None:
    state_before = np.random.get_state()[1].tolist()  # type: ignore[index]
    rng = np.random.default_rng(5)
    study.tell(ScriptedModel(fails("server"), fails("server")), [(clip(), ticket_of())], rng=rng)
    reference = np.random.default_rng(5)
    reference.uniform(size=2)
    assert rng.random() == reference.random()
    assert np.random.get_state()[1].tolist() == state_before  # type: ignore[index]


def test_a_budget_stops_before_it_is_exceeded_and_raising_it_continues(study: Study) -> None:
    questions = [(clip(number), ticket_of(ordinal=number)) for number in range(9)]
    model = ScriptedModel(fails("server"))
    with pytest.raises(BudgetReached, match=r"models.budget_usd=1\.4 is reached"):
        study.tell(model, questions, limits=Limits(usd=1.4))
    # One lost and three answered calls cost 0.875 USD; the next may cost 0.5. After a fourth answer 0.275 are left.
    assert len(model.calls) == 5 and study.spent.usd == 4 * 0.25 + 0.125
    second_model = ScriptedModel()
    answers = study.tell(second_model, questions, limits=Limits(usd=10.0))
    assert all(answer.value == 0.5 for answer in answers) and len(second_model.calls) == 5
    assert study.spent.usd == 9 * 0.25 + 0.125
    assert Budget(study.directory / "budget.json", Limits()).spent["usd"] == study.spent.usd


def test_with_a_third_of_calls_failing_the_ledger_adds_up(study: Study) -> None:
    rng = np.random.default_rng(3)
    kinds = ["server", "rate_limited", "malformed", "refused", "rejected", "timeout"]

    async def unreliable(number: int) -> object:
        await asyncio.sleep(rng.uniform(0, 0.002))
        return fails(str(rng.choice(kinds))) if rng.random() < 0.3 else rng.random()

    questions = [(clip(number % 40), ticket_of(f"cell/{number % 3}", number)) for number in range(120)]
    model = ScriptedModel(then=unreliable)
    answers = study.tell(model, questions, limits=Limits(calls=10_000))
    billed = Usage()
    for answer in answers:
        billed = billed.plus(answer.billed)
    assert billed == study.spent and billed.calls == len(model.calls)
    assert Budget(study.directory / "budget.json", Limits()).spent["usd"] == pytest.approx(billed.usd)
    failed = [answer for answer in answers if answer.failure]
    assert failed and sum(stats(study.path).models[0].failures.values()) == len(failed)
    merge(study.directory)
    replayed = study.tell(None, questions, mode="replay")
    assert [(answer.value, answer.failure, answer.usage) for answer in replayed] == [
        (answer.value, answer.failure, answer.usage) for answer in answers
    ]


def test_no_key_and_no_header_is_stored(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, bearer = "kq7-very-secret-value", "Bearer abc.def-ghi"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    echo = Failure("refused", f"401: key {secret}, authorization: {bearer}, sk-proj-0123456789abcdef", LOST)
    replies = Reply(0.5, TOOK, {"served_by": f"model of {secret}"}), Reply({secret: [f"{secret} \ud83d"]}, TOOK)
    calls = clip(0), clip(1), ChatCall((Message("user", ("Hi",)),), {"type": "object"})
    tickets = [ticket_of(ordinal=number) for number in range(3)]
    answers = study.tell(ScriptedModel(echo, *replies), zip(calls, tickets, strict=True), limits=Limits(usd=9.0))
    assert answers[2].value == {"[removed]": ["[removed] \ufffd"]}
    assert [answer.detail for answer in answers] == [
        {"message": "401: key [removed], authorization: [removed], [removed]"},
        {"served_by": "model of [removed]"},
        {},
    ]
    merge(study.directory)
    stored_bytes = b"".join(path.read_bytes() for path in study.directory.rglob("*") if path.is_file())
    assert b"[removed]" in stored_bytes and b"served_by" in stored_bytes
    for word in (secret, "abc.def-ghi", "sk-proj", "sk-test", "Bearer", "uthorization: B"):
        assert word.encode() not in stored_bytes


@pytest.mark.parametrize("large", [False, True])
def test_frames_are_on_record_once_and_large_ones_too(study: Study, large: bool) -> None:
    side = 256 if large else 8
    frames = np.random.default_rng(0).integers(0, 256, (3, side, side, 3), dtype=np.uint8)
    clips = [JudgeCall(frames[[0, 1]], "p"), JudgeCall(frames[[1, 2]], "p"), JudgeCall(frames[[2, 2]], "p")]
    study.tell(ScriptedModel(), [(call, ticket_of(ordinal=number)) for number, call in enumerate(clips)])
    merge(study.directory)
    assert stats(study.path).images == 3


def test_what_is_under_way_when_a_desk_closes_is_recorded_and_what_waits_is_never_asked(study: Study) -> None:
    policy = Policy(timeout=5, attempts=2, backoff=0.001, in_flight=1)
    model = ScriptedModel(soon, 0.75)

    async def run() -> None:
        desk = study.desk(model, policy=policy)
        tasks = [asyncio.create_task(desk.answer(clip(n), ticket_of(ordinal=n))) for n in (1, 2)]
        while not model.calls:
            await asyncio.sleep(0.001)
        await desk.close(grace=5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    assert len(model.calls) == 1 and study.spent.calls == TOOK.calls
    (answer,) = study.tell(None, [(clip(1), ticket_of(ordinal=1))], mode="replay")
    assert answer.failure == "" and answer.billed == Usage()


def together(count: int) -> Callable[[int], Awaitable[float]]:
    """Return a reply that a model makes once so many calls wait for it."""
    batch = asyncio.Event()

    async def reply(number: int) -> float:
        if number == count:
            batch.set()
        await batch.wait()
        return 0.25

    return reply


def full(*entries: CassetteEntry) -> None:
    raise UserError("is the disk full?")


def test_answers_of_one_batch_are_recorded_together_before_any_is_told(study: Study) -> None:
    """The model answers four calls at a time."""

    async def run() -> list[object]:
        desk = study.desk(ScriptedModel(then=together(4)))
        batch_sizes: list[int] = []
        record = desk._cassette.record

        def recording(*entries: CassetteEntry) -> None:
            batch_sizes.append(len(entries))
            record(*entries)

        desk._cassette.record = recording  # type: ignore[method-assign]
        answers = await asyncio.gather(*(desk.answer(clip(number), ticket_of(ordinal=number)) for number in range(4)))
        await desk.close()
        return [batch_sizes, *(answer.value for answer in answers)]

    assert asyncio.run(run()) == [[4], 0.25, 0.25, 0.25, 0.25]


def test_a_batch_that_cannot_be_written_fails_each_of_its_calls_and_is_written_later(study: Study) -> None:
    async def run() -> None:
        desk = study.desk(ScriptedModel(then=together(2)))
        record, desk._cassette.record = desk._cassette.record, full  # type: ignore[method-assign]
        requests = [desk.answer(clip(number), ticket_of(ordinal=number)) for number in range(2)]
        errors = await asyncio.gather(*requests, return_exceptions=True)
        assert [str(error) for error in errors] == ["is the disk full?"] * 2
        desk._cassette.record = record  # type: ignore[method-assign]
        await desk.close()

    asyncio.run(run())
    replay = study.desk(None, "replay")
    assert [asyncio.run(replay.answer(clip(n), ticket_of(ordinal=n))).value for n in range(2)] == [0.25, 0.25]


def test_a_disk_that_stays_full_keeps_no_desk_from_closing(study: Study) -> None:
    async def run() -> bool:
        model = ScriptedModel()
        desk = study.desk(model)
        desk._cassette.record = full  # type: ignore[method-assign]
        await asyncio.gather(*(desk.answer(clip(n), ticket_of(ordinal=n)) for n in range(2)), return_exceptions=True)
        with pytest.raises(UserError, match="full"):
            await desk.close()
        return model.is_closed

    assert asyncio.run(run())
