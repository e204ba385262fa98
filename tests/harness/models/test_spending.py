"""Every request that a server received is counted in the cassette, the ledger, the budget, `bench status` and `bench
models stats`, whether a run was stopped, killed or probed; a difference between them is named."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import Stopped
from guidebench.harness.models import exchange, spending
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Call, ChatCall, Message, Reply, Ticket, Usage, request_begins
from guidebench.harness.models.cassette import Cassette, merge
from guidebench.harness.models.desk import Desk, Policy
from guidebench.harness.models.spending import Account
from tests import programs
from tests.harness.models.canned import completion, serving
from tests.logs import log_rows

pytest.importorskip("openai")
CALL = ChatCall((Message("user", ("Hi",)),))


def test_accounts_name_run_role_and_purpose_and_early_ones_the_run_alone() -> None:
    assert spending.read_account(Ticket("cell/3", 7, 100, "planner").account) == Account("cell/3", "planner", "runs")
    probe = Ticket("cell/3", 7, 0, "judge", probe=True).account
    assert spending.read_account(probe) == Account("cell/3", "judge", "probes")
    assert spending.read_account("cell/3") == Account("cell/3", "", "runs")
    assert spending.read_account(spending.FIRST_CALL) == Account("", "", "first calls")


def test_sums_are_those_of_merged_and_unmerged_shards_of_this_study(tmp_path: Path) -> None:
    for number, run in enumerate(("cell/0", "cell/0", "cell/1")):
        cassette = Cassette([], tmp_path / f"shard-{number}.sqlite")
        for usage in (Usage(calls=1), Usage(tokens_in=5, usd=0.25)):
            cassette.spend(f"{run} planner", "m", usage)
        cassette.close()
        if number == 0:
            merge(tmp_path)
    account = Account("cell/0", "planner", "runs")
    assert spending.spent(tmp_path, ["cell/0"]) == {account: Usage(calls=2, tokens_in=10, usd=0.5)}
    assert len(spending.spent(tmp_path)) == 2 and spending.spent(tmp_path / "none") == {}


class Repairing:
    """A model whose attempts take three requests, the last of which never ends."""

    async def answer(self, call: Call) -> Reply:
        for _ in range(3):
            request_begins()
        await asyncio.sleep(3_600)
        raise AssertionError

    def estimate(self, call: Call) -> Usage:
        return Usage(calls=3)

    async def close(self) -> None:
        """Do nothing."""


def test_the_requests_of_an_attempt_that_never_ends_are_counted(tmp_path: Path) -> None:
    budget = Budget(tmp_path / "budget.json", Limits(calls=100))

    async def ask() -> None:
        policy = Policy(timeout=0.05, attempts=2, backoff=0.001)
        cassette = Cassette([], tmp_path / "shard-1.sqlite")
        desk = Desk(Repairing(), {"model": "m"}, "m", cassette, budget, policy, "record")
        reply = await desk.answer(CALL, Ticket("cell/0", 0, 0, "planner"))
        assert reply.failure == "timeout" and reply.usage.calls == 6
        assert budget.spent["calls"] == 6
        await desk.close()

    asyncio.run(ask())
    assert spending.spent(tmp_path)[Account("cell/0", "planner", "runs")].calls == 6


KILLED = """
import asyncio, sys
from pathlib import Path
from guidebench.harness.execution import Models
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Ticket, ChatCall, Message
from guidebench.harness.models.chats.openai_ import OpenAI

async def asked():
    chat = OpenAI(model="m", base_url=sys.argv[2])
    desk = study_models.desk(chat, Models(budget_calls=100), Path(sys.argv[1]), "cpu")
    for number in range(5):
        call = ChatCall((Message("user", (str(number),)),), {"type": "object"})
        await desk.answer(call, Ticket("cell/0", number, 0, "planner"))

asyncio.run(asked())
"""


def test_a_call_that_a_kill_cuts_off_counts_as_one(tmp_path: Path) -> None:
    """Two calls are answered, the second after a repair; the process is killed while its fourth request is under
    way."""
    posts, reached, release = list[Any](), threading.Event(), threading.Event()

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        posts.append(body)
        if len(posts) == 4:
            reached.set()
            release.wait(60)
        return 200, completion("no object" if len(posts) == 2 else "{}")

    with serving(answer) as url:
        process = programs.start_python(KILLED, tmp_path / "models", url)
        assert reached.wait(120)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        release.set()
    usage = spending.spent(tmp_path / "models")[Account("cell/0", "planner", "runs")]
    assert len(posts) == usage.calls == 4 and usage.tokens_in == 15, (
        "the request cut off counts as one call without tokens"
    )
    assert Budget(tmp_path / "models" / "budget.json", Limits()).spent["calls"] == 4


class Server:
    """A server that answers `says`, or by default alternately an action and an unusable text, and counts its
    requests."""

    def __init__(self) -> None:
        self.url, self.posts, self.failing, self.says = "", 0, set[int](), ""
        self.at: dict[int, Callable[[], None]] = {}
        """Post -> what is done before it is answered."""

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        self.posts += 1
        number = self.posts
        self.at.get(number, lambda: None)()
        if number in self.failing:
            return 500, {"error": {"message": "try again"}}
        return 200, completion(self.says if self.says else "do nothing" if number % 2 else "fly")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with serving(server.answer) as url:
        server.url = url
        yield server


def acting_run(server: Server) -> tuple[str, ...]:
    """Return the words of a run whose performer is asked, at a temperature, in each step of two evaluations."""
    return (
        "suite=crafter_ood", "task=wood_sword", "suite.actions=find", "suite.impossible=masked", "suite.area=32",
        "suite.test_length=9", "training.steps=20", "evaluation.every=10", "evaluation.episodes=2", "seeds=[0]",
        "method=model_as_agent", "agent.retries=1", "performer=openai", "performer.model=m",
        "performer.temperature=1", "performer.in_flight=1", "performer.attempts=2", f"performer.base_url={server.url}",
    )  # fmt: skip


def assert_equal_counts(study: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Check that all counts equal the server's, and return them by purpose."""
    (model,) = exchange.stats(study).models
    assert model.spent.calls == server.posts
    account = Budget(study / "models" / "budget.json", Limits())
    assert account.spent["calls"] == server.posts
    account.close()
    parts = {purpose: usage.calls for purpose, usage in model.purposes.items()}
    (ledger,) = [log_rows(run, "ledger")[-1] for run in study.glob("*/*/*/seed-*")]
    assert ledger["billed_calls"] == parts["runs"] and sum(parts.values()) == server.posts
    assert ledger["billed_tokens_in"] == model.purposes["runs"].tokens_in
    capsys.readouterr()
    assert cli.main(["status", str(study), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert sum(run["models"]["billed_calls"] for run in status["runs"]) == parts["runs"]
    assert {name: usage["calls"] for name, usage in status["billed_besides"].items()} == {
        name: calls for name, calls in parts.items() if name != "runs"
    }
    return parts


def test_a_run_that_is_stopped_inside_an_evaluation_reports_what_was_made_before(
    server: Server, train: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some requests are retried. An answer that is reused from the cassette was billed when it was made."""
    study, budget = tmp_path / "study", {"budget_calls": 10_000}
    server.failing = {3, 30}
    with pytest.raises(Stopped):
        train(*acting_run(server), packs=[(0,)], directory=study, stop=lambda: server.posts >= 25, models=budget)
    before = server.posts
    train(*acting_run(server), packs=[(0,)], directory=study, models=budget)
    assert 25 <= before < server.posts
    (ledger,) = [log_rows(run, "ledger")[-1] for run in study.glob("*/*/*/seed-*")]
    assert assert_equal_counts(study, server, capsys) == {"runs": server.posts}
    failed = len(server.failing)
    assert ledger["billed_calls"] == ledger["calls"] + failed == server.posts, "no call was lost, and none made twice"
    assert ledger["questions"] == sum(trial["steps"] for trial in log_rows(next(study.glob("*/*/*/seed-*")), "trials"))


def test_the_clips_of_probes_are_counted_apart(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "profile=smoke", "judge=openai", "judge.scoring=literal",
        "judge.model=m", f"judge.base_url={server.url}", "judge.delay=8", "judge.attempts=1", "replay.clip_length=8",
        "drawing.tile_size=8", "training.steps=96", "evaluation.every=48", "learner.channels=4", "learner.features=8",
        "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=32", "seeds=[0]", "workers=1",
        "models.budget_calls=10000", "report=false", f"output={tmp_path / 'study'}",
    )  # fmt: skip
    server.says = "Answer: Yes"
    done = programs.bench("run", *words)
    assert done.code == 0, done.out + done.err
    parts = assert_equal_counts(tmp_path / "study", server, capsys)
    assert parts["first calls"] == 1 and parts["probes"] > 3
    assert 0 < parts["runs"] < 96 // 8, "a clip judged by a probe is not sent again"
    assert cli.main(["status", str(tmp_path / "study")]) == 0
    assert f"and 1 call before training, and {parts['probes']} calls for probes" in capsys.readouterr().out
