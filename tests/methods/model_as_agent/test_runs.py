"""Whole runs: scripted, served, with a local model, replayed, killed in an episode, and stopped by a budget."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.reports.summary import ledger as bills
from tests.harness.models.canned import completion, serving
from tests.methods.contract import read_files

pytest.importorskip("crafter")
WORLD = (
    "suite=crafter_ood", "task=wood_sword", "suite.actions=find", "suite.impossible=masked", "suite.area=32",
)  # fmt: skip
SHORT = ("suite.test_length=12", "training.steps=20", "evaluation.every=20", "evaluation.episodes=2")
ONCE = ("training.steps=1", "evaluation.every=1", "seeds=[0]")
SCRIPTED = ("planner=scripted", "reflector=scripted", "performer=scripted")
LOGS = ("evaluations.parquet", "actions.parquet", "trials.parquet")


@pytest.mark.slow
def test_a_performer_that_errs_makes_a_sword_by_its_plan(train_once: Callable[..., Path]) -> None:
    words = (*WORLD, *ONCE, "suite.test_length=60", "evaluation.episodes=4")
    planned = results.load(train_once(*words, "method=model_with_planner", *SCRIPTED, packs=[(0,)]))
    chance = results.load(train_once(*words, "method=random", packs=[(0,)]))
    assert len(planned) == 4 and planned["success"].mean() >= 0.4 > chance["success"].mean()


def test_the_oracles_plan_is_followed(train: Callable[..., Path]) -> None:
    words = (*WORLD, *ONCE, "suite.test_length=5", "evaluation.episodes=2", "method=model_with_planner")
    study = train(*words, "planner=oracle", "reflector=oracle", "performer=scripted", packs=[(0,)])
    plans = results.load(study, log="plans")
    assert set(plans["first"]) == {"find tree; chop tree; place crafting table; make wood sword"}
    assert set(plans["final"]) == {"find tree; chop tree (3 times); place crafting table; make wood sword"}


def test_the_oracle_plays_the_episodes_of_the_suites_solver(train: Callable[..., Path]) -> None:
    words = (*WORLD, *ONCE, "suite.test_length=300", "evaluation.episodes=2")
    oracle, solver = (
        results.load(train(*words, *parts, packs=[(0,)])).sort_values("episode")[["success", "return", "length"]]
        for parts in (("method=model_with_planner", "performer=oracle", *SCRIPTED[:2]), ("method=expert",))
    )
    assert oracle.to_numpy().tolist() == solver.to_numpy().tolist() and solver["success"].mean() > 0.9


def test_an_oracle_that_always_errs_is_a_random_agent(train: Callable[..., Path]) -> None:
    words = (*WORLD, *ONCE, "suite.test_length=100", "evaluation.episodes=4", "method=model_as_agent")
    study = train(*words, "performer=oracle", "performer.error=1", packs=[(0,)])
    assert results.load(study)["success"].mean() < 0.5
    trials = results.load(study, log="trials")
    assert (trials["performed"] > 0).all() and not trials[["fallback", "impossible", "unknown", "failed"]].any(
        axis=None
    )


def test_the_command_runs_the_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("suite=housekeep", "method=model_as_agent", "performer=oracle", "profile=smoke", "seeds=1", "workers=1")
    words += ("suite.length=20", "training.steps=1", "evaluation.every=1", "evaluation.episodes=1")
    assert cli.main(["run", *words, f"output={tmp_path / 'study'}"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"model_as_agent \(evaluation\.episodes=1, .*\) · oracle_performer · smoke", printed), printed
    assert "privileged: it is told of the task" in (tmp_path / "study" / "report" / "table.tex").read_text()


class Server:
    """A server whose performer acts at random and whose planner plans; it records its prompts."""

    def __init__(self) -> None:
        self.url, self.heard = "", list[str]()

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        prompt = str(body["messages"][0]["content"])
        self.heard.append(prompt)
        if "You check a plan" in prompt:
            return 200, completion("Weaknesses: slow\nRevised plan:\n1. chop tree")
        if "You plan" in prompt:
            return 200, completion("1. Find Tree (tree.location) – walk\n2. Chop Tree\n3. Make Wood Sword")
        possible = re.findall(r"^- (.+)$", prompt.partition("## Actions")[2], re.MULTILINE)
        draw = int(hashlib.sha256(f"{len(self.heard)}".encode()).hexdigest()[:8], 16)
        return 200, completion([*possible, "fly"][draw % (len(possible) + 1)])


@pytest.fixture
def server() -> Iterator[Server]:
    fake = Server()
    with serving(fake.answer) as url:
        fake.url = url
        yield fake


def at(server: Server, *roles: str, temperature: float = 0.0) -> tuple[str, ...]:
    settings = {"": "openai", ".base_url": server.url, ".model": "m", ".temperature": temperature, ".attempts": 1}
    return tuple(f"{role}{name}={value}" for role in roles for name, value in settings.items())


def test_equal_prompts_are_answered_once_at_temperature_0(server: Server, train: Callable[..., Path]) -> None:
    words = (*WORLD, *SHORT, "seeds=[0]", "method=model_as_agent", "agent.recent=0", *at(server, "performer"))
    study = train(*words, packs=[(0,)])
    trials, ledger = results.load(study, log="trials"), results.load(study, log="ledger")
    question_count = trials[["performed", "fallback"]].sum().sum()
    calls = len(server.heard)
    assert len(set(server.heard)) < question_count and calls < question_count + trials["unknown"].sum(), (
        "several steps share a prompt"
    )
    last = ledger.sort_values("step").iloc[-1]
    assert last["questions"] == question_count and last["failures"] == trials["fallback"].sum()
    replay = {"mode": "replay", "cassette": str(study)}
    assert (
        read_files(train(*words, packs=[(0,)], models=replay), LOGS) == read_files(study, LOGS)
        and len(server.heard) == calls
    )


def test_a_performer_that_never_names_an_action_is_told_of_and_its_row_has_no_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fallback takes every step of both episodes; if one reply can be read, the last line counts the others."""
    replies = iter(["hm", "do nothing"])  # the first call is made before training
    words = (*WORLD, *ONCE, "suite.test_length=4", "evaluation.episodes=2", "method=model_as_agent", "profile=quick")
    words += ("agent.retries=0", "workers=1", "performer=openai", "performer.model=m", "performer.temperature=1")

    def mute(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        return 200, completion(next(replies, "hm")) if body else {"data": [{"id": "m"}]}

    with serving(mute) as url:
        words = (*words, f"performer.base_url={url}")
        assert cli.main(["run", *words, f"output={tmp_path / 'some'}"]) == 0
        assert re.fullmatch("7 of 8 questions to models had no usable answer", last_line(capsys))
        assert cli.main(["run", *words, f"output={tmp_path / 'none'}"]) == 1
        assert last_line(capsys).startswith("none of the 8 questions to models had a usable answer")
    trials = results.load(tmp_path / "none", log="trials")
    assert (trials["fallback"] == trials["steps"]).all()
    (bill,) = bills.answered(results.study(tmp_path / "none")).values()
    assert bill[:2] == (8, 8) and not bill.enough
    assert cli.main(["status", str(tmp_path / "none")]) == 0
    assert "8 questions, 8 of them without an answer" in capsys.readouterr().out


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.rstrip().splitlines()[-1]


@pytest.mark.slow
def test_a_local_model_of_random_weights_is_borne(train: Callable[..., Path], tmp_path: Path) -> None:
    """Its replies are noise, so the fallback acts, is counted, and is replayed without the model."""
    pytest.importorskip("transformers")
    from tests.harness.models import tiny_models

    model = tiny_models.llama(tmp_path / "llama")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 16_384}))  # tokens are letters
    words = (*WORLD, *ONCE, "suite.test_length=4", "evaluation.episodes=1")
    words += ("method=model_as_agent", "agent.retries=1", "performer=transformers", f"performer.model={model}")
    words += ("performer.dtype=float32", "performer.max_tokens=4")
    study = train(*words, packs=[(0,)])
    trials = results.load(study, log="trials").iloc[0]
    assert trials["fallback"] == trials["steps"] == 4 and trials["unknown"] == 8 and not trials["failed"]
    replay = {"mode": "replay", "cassette": str(study)}
    assert read_files(train(*words, packs=[(0,)], models=replay), LOGS) == read_files(study, LOGS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suite=minigrid_doorkey", "task=5x5"), "it asks for actions by their names, and the suite has none"),
        (("suite=crafter_ood", "task=free_play"), "has no goal to plan or act for"),
        (("suite=crafter_ood", "suite.observation=symbols"), "set suite.observation=text"),
        ((*WORLD, "performer=oracle_planner"), "it answers in the role planner"),
        ((*WORLD, "agent.retries=-1"), "agent.retries=-1"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_any_work(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        matrix.plan([*words, "method=model_as_agent", "profile=smoke"])
