"""What is refused before a study makes calls, and the record of what it spent."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import BudgetReached, MissingCall, UserError
from guidebench.harness.execution import Models
from guidebench.harness.models import study_models
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Answer, EmbedCall, JudgeCall, Ticket, Usage
from guidebench.harness.models.cassette import Cassette, CassetteEntry
from guidebench.harness.plan import matrix

SERVER = "judge.base_url=http://127.0.0.1:9/v1"


def judge(*words: str) -> Any:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", *words]).cells
    return cell.section("judge")


@pytest.mark.parametrize(
    ("words", "models", "says"),
    [
        (
            ("judge=openai", "judge.model=mine", SERVER),
            Models(budget_usd=3),
            "what mine costs is not known",
        ),
        (("judge=openai", SERVER), Models(mode="replay"), "holds no recorded calls"),
        (("judge=openai", SERVER), Models(cassette="nowhere"), "models.cassette=nowhere: no recorded calls there"),
        (("judge=openai",), Models(), "no server and no key"),
        (("judge=transformers", "judge.model=/no/such/model"), Models(), "nothing at this path"),
    ],
)
def test_what_cannot_work_is_refused_before_any_call(
    words: tuple[str, ...], models: Models, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UserError, match=says):
        study_models.check(models, tmp_path / "models", [judge(*words)])


def test_a_replay_says_which_model_it_needs_where_arrays_were_dropped(tmp_path: Path) -> None:
    directory = tmp_path / "models"
    cassette = Cassette([], directory / "shard-0.sqlite")
    for number in range(3):
        answer = Answer(np.ones((1, 8), np.float32), "", Usage(calls=1))
        embed_request = EmbedCall((f"{number}",)).request({"model": "m"}, None)
        cassette.record(CassetteEntry(embed_request, Ticket("cell/0", number, number), "clip", answer, {}, Usage()))
    cassette.close()
    study_models.settle(directory, ["cell/0"])
    embedder = matrix.plan(["suite=point_maze", "task=open", "method=vlm_rm"]).cells[0].section("embedder")
    replay = Models(mode="replay")
    with pytest.raises(UserError, match=r"3 of clip\): models.keep_arrays=finished dropped them .*mode=record"):
        study_models.check(replay, directory, [embedder], ["cell/1", "cell/0"])
    study_models.check(replay, directory, [embedder], ["cell/1"])
    study_models.check_answers(Models(), directory, [embedder], ["cell/0"])

    async def asked_again() -> None:
        desk = study_models.desk(embedder, replay, directory, "cpu")
        desk._identity = {"model": "m"}
        try:
            await desk.answer(EmbedCall(("0",)), Ticket("cell/0", 0, 0))
        finally:
            await desk.close()

    with pytest.raises(MissingCall, match="was answered by an array whose numbers were not kept"):
        asyncio.run(asked_again())


def test_judges_that_are_no_foundation_models_are_not_recorded() -> None:
    assert [study_models.is_recorded(judge(f"judge={name}")) for name in ("sprite", "oracle", "openai")] == [
        False,
        False,
        True,
    ]
    assert not study_models.is_recorded(None)


def test_a_budget_that_is_set_late_counts_what_was_spent_before(tmp_path: Path) -> None:
    directory = tmp_path / "models"
    directory.mkdir()
    cassette = Cassette([], directory / "shard-0.sqlite")
    cassette.spend("cell/0", "mine", Usage(calls=7, usd=0.5))
    cassette.close()
    study_models.check(Models(budget_calls=8), directory, [judge("judge=openai", SERVER)])
    account = Budget(directory / study_models.BUDGET, Limits(calls=8))
    assert account.spent == {"usd": 0.5, "calls": 7, "seconds": 0.0} and account.reserve(Usage(calls=1))
    with pytest.raises(BudgetReached, match="7 calls are spent"):
        account.reserve(Usage(calls=2))
    account.close()


def test_delay_and_prompt_are_no_part_of_a_model_s_identity_and_how_it_is_reached_neither(tmp_path: Path) -> None:
    """The prompt is part of the call, so one answer serves runs with another delay or server."""

    async def key(*words: str) -> str:
        desk = study_models.desk(judge("judge=openai", *words), Models(), tmp_path / "models", "cpu")
        call = JudgeCall(np.zeros((1, 2, 2, 3), np.uint8), "Is it done?")
        digest = call.request(desk._identity, Ticket("cell/0", 0, 0)).key
        await desk.close()
        return digest

    first = asyncio.run(key(SERVER))
    assert first == asyncio.run(key("judge.base_url=http://127.0.0.1:8/v1", "judge.delay=7", "judge.prompt=What?"))
    assert first != asyncio.run(key(SERVER, "judge.scoring=literal"))
