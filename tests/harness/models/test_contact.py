"""Each model answers one small call before training; a study whose model cannot be reached ends at once."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.identity.cells import record, write_cell
from guidebench.harness.loop.job import Job
from guidebench.harness.models import contact, single_calls, study_models
from guidebench.harness.models.calls import Reply, Usage
from guidebench.harness.models.chats.transformers_ import Transformers
from guidebench.harness.models.desk import Policy
from guidebench.harness.parts import ModelPart
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study
from guidebench.harness.run.worker import work
from tests.harness.models.backends.openai_.test_reading import logprobs
from tests.harness.models.canned import completion, serving

NOBODY = "http://127.0.0.1:9/v1"
"""The port of the discard service, at which nothing listens."""
RUN = (
    "suite=minigrid_doorkey", "profile=smoke", "method=vlm_rb", "judge=openai", "judge.model=canned-1",
    "judge.scoring=literal", "judge.attempts=1", "judge.price_in=1", "judge.price_out=1",
    "training.steps=240", "evaluation.every=240", "evaluation.episodes=1", "replay.clip_length=4", "judge.delay=8",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16",
    "learner.learning_starts=64",
)  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """Run a server that answers yes, and yield its URL and a list of answers that it gives first."""
    answers: list[tuple[int, Any]] = []
    with serving(lambda path, body, headers: answers.pop(0) if answers else (200, completion("Answer: Yes"))) as url:
        yield url, answers


def judge(url: str, **changes: Any) -> contact.StudyModel:
    settings = {"model": "canned-1", "base_url": url, "scoring": "literal", "attempts": 1} | changes
    return contact.StudyModel(
        "judge", "judge", single_calls.judge({"judge": "openai"} | {f"judge.{k}": v for k, v in settings.items()})
    )


def contact_once(*contacts: contact.StudyModel, directory: Path, **models: Any) -> list[str]:
    """Return the messages printed when these models are contacted."""
    messages: list[str] = []
    contact.check(contacts, Models(**models), directory, "cpu", lambda contact, text: messages.append(text))
    return messages


def test_a_server_that_is_not_there_ends_the_command_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: Any
) -> None:
    directory = tmp_path / "study"
    command = ["run", *RUN, "seeds=1", f"output={directory}", "report=false"]
    assert cli.main([*command, f"judge.base_url={NOBODY}"]) == 2
    message = capsys.readouterr().err
    assert f"judge canned-1 at {NOBODY} did not answer a first call, so nothing was trained" in message
    assert "judge.base_url" in message and "bench doctor judge=openai" in message
    assert not list(directory.glob("*/*/*/cell.json")), "no cell has been started"
    # The same directory can be used once the server is up.
    study._check_directory(directory)


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "turned away the key"), (404, "has no model 'canned-1'"), (400, "rejected"), (503, "server")],
)
def test_a_server_that_turns_such_calls_away_is_refused_by_name(tmp_path: Path, server: Any, status: int, says) -> None:
    url, answers = server
    answers.append((status, {"error": {"message": "no"}}))
    with pytest.raises(UserError, match=says) as raised:
        contact_once(judge(url), directory=tmp_path)
    assert url in str(raised.value) and "sk-test" not in str(raised.value)


def test_a_model_that_is_there_is_told_of_even_if_its_answer_is_of_no_use(tmp_path: Path, server: Any) -> None:
    url, answers = server
    (message,) = contact_once(judge(url), directory=tmp_path)
    assert message.startswith(f"judge canned-1 at {url} answered a first call in ")
    answers.append((200, completion("I would rather not say.")))
    (message,) = contact_once(judge(url), directory=tmp_path)
    assert "is there; its answer to a first small call was of no use" in message


def test_a_served_chat_that_chooses_is_asked_for_a_choice_and_has_to_find_nonsense_unlikely(
    tmp_path: Path, server: Any
) -> None:
    """The nonsense is the third candidate: C in the first order, B in the second, A in the third."""
    url, answers = server
    settings = {"model": "canned-1", "base_url": url, "answer": "choice", "choice_by": "label", "attempts": 1}
    chat = single_calls.model("chat", {"chat": "openai"} | {f"chat.{name}": value for name, value in settings.items()})
    model = contact.StudyModel("performer", "chat", chat)

    def labels(*probabilities: float) -> tuple[int, Any]:
        return 200, completion("A", logprobs(("A", dict(zip("ABC", probabilities, strict=True)))))

    answers += [labels(0.6, 0.3, 0.1), labels(0.3, 0.1, 0.6), labels(0.1, 0.6, 0.3)]
    (message,) = contact_once(model, directory=tmp_path)
    assert "answered a first call" in message and not answers
    answers += [labels(0.1, 0.2, 0.7), labels(0.2, 0.7, 0.1), labels(0.7, 0.1, 0.2)]
    with pytest.raises(
        UserError, match=r"so nothing was trained: in a first call, the nonsense .* is as likely as yes"
    ):
        contact_once(model, directory=tmp_path)
    answers += [labels(0.5, 0.5, 0.5)]
    with pytest.raises(
        UserError, match=r"no log-probabilities of a model \(-0\.693147 for each token\), which performer"
    ):
        contact_once(model, directory=tmp_path)


FORMS: tuple[Literal["text", "schema", "choice"], ...] = ("text", "schema", "choice")


def test_each_model_is_asked_once_whatever_it_is_asked(tmp_path: Path, server: Any) -> None:
    url, _ = server
    judges = [judge(url), judge(url, prompt="Is the key held?"), judge(url, delay=7)]
    assert len(contact.distinct(judges)) == 1
    assert len(contact.distinct([*judges, judge(url, model="other"), judge(NOBODY)])) == 3
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "profile=smoke", "method=vlm_rb"]).cells
    assert contact.distinct([contact.StudyModel("judge", "judge", cell.section("judge"))]) == []
    chats = [contact.StudyModel(form, "chat", Transformers(model="./a_model", answer=form)) for form in FORMS]
    assert contact.distinct([*chats, *chats]) == chats, "each form of answers is asked for"


def test_replay_asks_nothing_and_a_budget_counts_the_call(tmp_path: Path, server: Any) -> None:
    url, _ = server
    assert contact_once(judge(NOBODY), directory=tmp_path, mode="replay") == []
    assert len(contact_once(judge(url), directory=tmp_path, budget_calls=5)) == 1
    assert json.loads((tmp_path / study_models.BUDGET).read_text())["spent"]["calls"] == 1
    assert contact_once(judge(NOBODY), directory=tmp_path, budget_calls=1) == [], (
        "a budget that is used up asks nothing"
    )


@dataclasses.dataclass(frozen=True)
class LocalModel(ModelPart):
    """A model of this machine that reports the process that called it, or that cannot be loaded."""

    model: str = "local"
    backend: ClassVar[str] = "transformers"

    def policy(self) -> Policy:
        return Policy()

    def spawn_model(self, device: str) -> Any:
        if self.model == "broken":
            raise UserError("model=broken holds no weights")
        return self

    def estimate(self, call: Any) -> Usage:
        return Usage(calls=1)

    async def answer(self, call: Any) -> Reply:
        assert os.environ["COMMAND"] != str(os.getpid()), "asked in the process that started the command"
        return Reply(1.0, Usage(calls=1))

    async def close(self) -> None: ...


def test_a_model_of_this_machine_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "multiprocessing.py").write_text("raise SystemExit('the working directory was searched')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMMAND", str(os.getpid()))
    (message,) = contact_once(contact.StudyModel("judge", "judge", LocalModel()), directory=tmp_path)
    assert message == "judge local answered a first call in 0.0 s"
    with pytest.raises(UserError, match=r"judge broken did not answer a first call.*holds no weights"):
        contact_once(contact.StudyModel("judge", "judge", LocalModel("broken")), directory=tmp_path)


def test_progress_and_ledger_count_questions_with_and_without_an_answer(tmp_path: Path, server: Any) -> None:
    url, answers = server
    plan = matrix.plan([*RUN, f"judge.base_url={url}", "seeds=1", f"output={tmp_path / 'study'}"])
    directory = StudyDirectory(study.directory_of(plan))
    (cell,) = plan.cells
    write_cell(directory, cell)
    answers.extend([(400, {"error": {"message": "no"}})] * 5)
    events: list[dict[str, Any]] = []
    job = Job(
        study="s", directory=str(directory.path), cell=record(cell), seeds=(0,), models=dataclasses.asdict(Models())
    )
    work(job, events.append, lambda: False)
    counts = [event["answers"] for event in events if event["event"] == "progress" and "answers" in event]
    ledger = [
        json.loads(line) for line in next(directory.path.glob("*/*/*/seed-0/ledger.jsonl")).read_text().splitlines()
    ]
    # A clip of four steps each: 60 in 240 steps, and shorter ones where an episode ends.
    assert counts[-1] == {"questions": ledger[-1]["questions"], "failures": 5}
    assert ledger[-1]["failures"] == 5 and ledger[-1]["questions"] >= 58


def test_a_budget_below_the_estimate_is_told_before_the_start(tmp_path: Path) -> None:
    needed = Usage(calls=300, usd=2.5)
    assert study_models.shortfall(Models(budget_calls=300, budget_usd=2.5), tmp_path, needed) == ""
    assert "models.budget_calls=299 is below the estimate of 300 calls" in study_models.shortfall(
        Models(budget_calls=299), tmp_path, needed
    )
    assert "models.budget_usd=2 is below the estimate of 2.5 USD" in study_models.shortfall(
        Models(budget_usd=2), tmp_path, needed
    )
    spent = {"spent": {"usd": 1.0, "calls": 4, "seconds": 0}, "reserved": {}}
    (tmp_path / study_models.BUDGET).write_text(json.dumps(spent))
    assert "beside 1 spent already" in study_models.shortfall(Models(budget_usd=3), tmp_path, needed)


def test_a_dry_run_warns_of_a_budget_below_its_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", *RUN, f"judge.base_url={NOBODY}", f"output={tmp_path / 's'}", "--dry-run"]
    assert cli.main([*command, "models.budget_calls=10", "seeds=2"]) == 0
    # 240 steps in clips of 4, two seeds: 120 questions.
    assert "models.budget_calls=10 is below the estimate of 120 calls" in capsys.readouterr().out
    assert cli.main([*command, "models.budget_calls=120", "seeds=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
