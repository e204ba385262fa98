"""Answers that an agent waits for before it acts: a planner is asked as each episode begins, in training and
evaluation."""

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench import results
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.errors import BudgetReached, Stopped, UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.loop import checkpoints
from guidebench.harness.loop.training import Loop
from guidebench.harness.models import study_models
from guidebench.harness.models.calls import Answer, Ticket
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import matrix
from guidebench.harness.run import journal, readiness
from tests.harness.models.canned import completion, serving

PLANNING = '''
    from collections.abc import Mapping
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.agents.standard import Standard, StandardAgent
    from guidebench.harness.models.calls import ChatCall, Message
    from guidebench.harness.interfaces import Question
    from guidebench.harness.logs import Log, count
    from guidebench.harness.parts import AgentPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.agent("planning")
    @dataclass(frozen=True)
    class Planning(Standard):
        """Acts as a planner says at the beginning of each episode."""

        version: ClassVar[int] = 1
        needs: ClassVar[Mapping[str, str]] = {**AgentPart.needs, "planner": "chat"}
        consults: ClassVar[tuple[str, ...]] = ("planner",)
        logs: ClassVar[Mapping[str, Log]] = {"plans": Log("a plan", {"plan": count("of the plan")})}

        def spawn(self, build):
            agent = super().spawn(build)
            agent.__class__ = Planned
            agent.plans, agent.count = np.zeros(build.rows, int), build.actions.count
            return agent

        def dialogue(self, suite, task, role):
            return Plan()


    class Planned(StandardAgent):
        deterministic = False

        def begin(self, rows, observation, ctx):
            super().begin(rows, observation, ctx)
            self.plans[rows] = consult_planner(rows, observation, ctx, "training")

        def act(self, observation, ctx):
            return (super().act(observation, ctx) + self.plans[ctx.rows]) % self.count

        def actor(self, places):
            return Actor(self, places)

        def state(self, row):
            return super().state(row) | {"plan": int(self.plans[row])}

        def load_state(self, row, state):
            super().load_state(row, state)
            self.plans[row] = state["plan"]


    class Actor:
        def __init__(self, agent, places):
            self.agent, self.places, self.plans = agent, places, np.zeros(len(places), int)

        def begin(self, observation, ctx):
            episodes = [place.episode for place in self.places]
            self.plans[:] = consult_planner(ctx.rows, observation, ctx, "evaluation", episodes)
            for row, plan in zip(ctx.rows, self.plans):
                ctx.note("plans", int(row), {"plan": int(plan)})

        def act(self, observation, numbers, ctx):
            return (StandardAgent.act(self.agent, observation, ctx) + self.plans[numbers]) % self.agent.count

        def end(self, numbers, ctx):
            self.plans[numbers] = -1


    def consult_planner(rows, observation, ctx, phase, episodes=None):
        no_events = np.zeros((1, 0), bool)
        plans = ctx.consult([
            Question(int(row), np.array([0]), None, no_events, f'"{phase}, step {ctx.step}"', "planner", episode)
            for row, episode in zip(rows, episodes or [0] * len(rows))
        ])
        return [value or 0 for value in plans]


    class Plan:
        calls = 1

        async def __call__(self, content, frames, ask):
            answer = await ask(ChatCall((Message("user", (content,)),)))
            return None if answer.failure else int(answer.value)


    register.method("planning")(Method(summary="plans", agent="planning", citation="% a test"))
'''
TINY = (
    "suite=classic", "task=CartPole-v1", "method=planning", "planner=openai", "planner.temperature=0.7",
    "planner.model=m", "training.steps=90", "evaluation.every=30", "evaluation.episodes=2", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=20",
)  # fmt: skip
RUN_FILES = ("evaluations.parquet", "plans.parquet", "policy.safetensors")


class Planner:
    """A server whose answers are random, with the questions that it received."""

    def __init__(self) -> None:
        self.url, self.questions = "", list[str]()
        self.hold_point: tuple[str, int] | None = None
        """The phase, and the step from which on its questions are answered only after `release`."""
        self.waiting, self._released = threading.Event(), threading.Event()
        """Set while such a question waits."""

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        self.questions.append(body["messages"][0]["content"])
        kind, _, step = self.questions[-1].partition(", step ")
        answer = completion(str(int(hashlib.sha256(f"{len(self.questions)}".encode()).hexdigest()[:4], 16) % 2))
        if self.hold_point and kind == self.hold_point[0] and int(step) >= self.hold_point[1]:
            self.waiting.set()
            self._released.wait(600)
        return 200, answer  # the temperature is above 0: the same words may be answered otherwise next time

    def hold(self, kind: str, step: int) -> None:
        """Delay answers to questions of this kind, from a step on, until `release`."""
        self.waiting.clear()
        self._released.clear()
        self.hold_point = kind, step

    def release(self) -> None:
        """Answer the waiting questions now and later ones at once."""
        self.hold_point = None
        self._released.set()

    def stop(self) -> bool:
        """Return whether a question waits or has waited, and release it."""
        if self.waiting.is_set():
            self.release()
        return self.waiting.is_set()


@pytest.fixture
def planner(plugin: Callable[..., Path]) -> Iterator[Planner]:
    plugin("planning_module", PLANNING, {"agent": "planning", "method": "planning"})
    planner = Planner()
    with serving(planner.answer) as planner.url:
        yield planner


def run_bytes(study: Path) -> dict[str, bytes]:
    files = [file for name in RUN_FILES for file in sorted(study.glob(f"*/*/*/seed-*/{name}"))]
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}


def test_a_run_whose_budget_ends_and_that_is_stopped_as_it_waits_goes_on_as_if_it_had_not_been(
    planner: Planner, train: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*TINY, f"planner.base_url={planner.url}", "seeds=[0,1]")
    directory, job = tmp_path / "stopped", {"checkpoint_every": 18}

    def saved() -> list[tuple[int, bool]]:
        """Return (step, whether an evaluation is pending) of each seed's newest checkpoint."""
        states = [checkpoints.newest(run) for run in sorted(directory.glob("*/*/*/seed-*"))]
        return [(state.step, state.state["loop"].get("pending", False)) for state in states if state]

    with pytest.raises(BudgetReached, match=r"models\.budget_calls=5 is reached"):
        train(*words, packs=[(0, 1)], directory=directory, models={"budget_calls": 5}, **job)
    for run in directory.glob("*/*/*/seed-*"):
        run_record, checkpoint = json.loads((run / "run.json").read_text()), checkpoints.newest(run)
        assert run_record["status"] == "stopped" and "models.budget_calls=5 is reached" in run_record["error"]
        assert run_record["step"] == (checkpoint.step if checkpoint else 0)
    assert len(planner.questions) == 5

    for phase, step in (("training", 45), ("evaluation", 60)):
        planner.hold(phase, step)
        with pytest.raises(Stopped):
            train(*words, packs=[(0, 1)], directory=directory, stop=planner.stop, models={"budget_calls": 1_000}, **job)
        for run in directory.glob("*/*/*/seed-*"):
            run_record, checkpoint = json.loads((run / "run.json").read_text()), checkpoints.newest(run)
            assert (
                run_record["status"] == "stopped" and checkpoint is not None and run_record["step"] == checkpoint.step
            )
            assert checkpoint.state["loop"].get("pending", False) == (phase == "evaluation")

    concluded, conclude = [], Loop._conclude
    monkeypatch.setattr(Loop, "_conclude", lambda loop: (concluded.append(loop.step), conclude(loop)))
    with pytest.raises(Stopped):  # seed 0 alone, to the checkpoint behind the evaluation
        train(*words, packs=[(0,)], directory=directory, stop=lambda: bool(concluded), **job)
    monkeypatch.setattr(Loop, "_conclude", conclude)
    assert saved() == [(60, False), (60, True)]

    train(*words, packs=[(0, 1)], directory=directory, **job)
    replayed = train(*words, packs=[(1,), (0,)], models={"mode": "replay", "cassette": str(directory)})
    assert run_bytes(directory) == run_bytes(replayed) and len(run_bytes(replayed)) == 6
    questions = results.load(directory, log="ledger").sort_values("step").groupby("seed").tail(1)["questions"].sum()
    assert len(planner.questions) == questions, "no recorded question is asked or paid twice"
    assert {text.partition(",")[0] for text in planner.questions} == {"training", "evaluation"}
    plans = results.load(replayed, log="plans")
    assert plans.groupby(["seed", "step"]).size().to_dict() == {
        (seed, step): 2 for seed in (0, 1) for step in (30, 60, 90)
    }
    assert set(plans["plan"]) == {0, 1}, "both plans occur, so a wrong one would be noticed"


def test_an_evaluation_that_waits_for_answers_shows_how_many_it_has(
    planner: Planner, train: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spacing in ("TELL_EVERY", "LIVE_EVERY"):
        monkeypatch.setattr(journal, spacing, 0.0)
    planner.hold("evaluation", 30)
    live_states: list[dict[str, Any]] = []

    def stop() -> bool:
        if planner.waiting.is_set() and not live_states:
            (live,) = tmp_path.rglob(".live.json")
            live_states.append(json.loads(live.read_text()))
            planner.release()
        return False

    train(*TINY, f"planner.base_url={planner.url}", "seeds=[0]", packs=[(0,)], directory=tmp_path / "shown", stop=stop)
    (live,) = live_states
    assert (live["step"], live["phase"]) == (30, "evaluation")
    assert live["answers"]["questions"] > 0 and live["answers"]["failures"] == 0 and time.time() - live["time"] < 60


def test_an_evaluation_by_itself_asks_where_it_is_told_to_and_a_submission_is_replayed(
    planner: Planner, train: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = train(*TINY, f"planner.base_url={planner.url}", "seeds=[0]", packs=[(0,)])
    study_models.settle(study_models.folder(study))
    (run,) = map(str, study.glob("*/*/*/seed-0"))
    planner.questions.clear()
    assert cli.main(["eval", run, "--episodes", "3"]) == 2
    assert "was never recorded, and models.mode=replay asks nothing" in capsys.readouterr().err
    assert cli.main(["eval", run, "--episodes", "3", "--json", "models.mode=record"]) == 0
    first = capsys.readouterr().out
    assert len(planner.questions) == 3
    assert cli.main(["eval", run, "--episodes", "3", "--json"]) == 0
    assert capsys.readouterr().out == first and len(planner.questions) == 3
    for cassette, passed, says in (([], None, "holds no recorded calls"), (["--cassette"], True, "")):
        archive = tmp_path / f"archive{len(cassette)}.zip"
        assert cli.main(["submit", str(study), *cassette, "--output", str(archive)]) == 0
        capsys.readouterr()
        options = ["--leaderboard", str(tmp_path / "board"), "--calls", "0", "--json"]
        assert cli.main(["verify", str(archive), *options]) == 0
        (verdict,) = json.loads(capsys.readouterr().out)["cells"].values()
        checks = {check["what"]: check for check in verdict["checks"]}
        replayed = next(check for name, check in checks.items() if "seed 0" in name)
        assert replayed["passed"] is passed and says in replayed["detail"], replayed
        assert verdict["standing"] == "self-reported"
    assert checks["layouts"]["passed"] is None and "name a server that has 'm'" in checks["layouts"]["detail"]
    assert len(planner.questions) == 3, "verification makes no call by default"

    server_options = [f"planner.base_url={planner.url}", "--episodes", "4"]
    for budget, calls, says in (
        (100, 4, "new layouts: return better than"),
        (2, 2, "models.budget_calls=2 is reached"),
    ):
        planner.questions.clear()
        assert cli.main(["verify", str(archive), *options, *server_options, f"models.budget_calls={budget}"]) == 0
        (verdict,) = json.loads(capsys.readouterr().out)["cells"].values()
        assert len(planner.questions) == calls and says in verdict["reason"], verdict


def test_a_model_process_that_dies_while_an_evaluation_waits_costs_no_answer(
    planner: Planner, train: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies twice without an answer ends the run with an error that names it, and the run continues from
    the checkpoint before the evaluation. A process that dies once is restarted and asked again."""
    words = (*TINY, f"planner.base_url={planner.url}", "seeds=[0,1]")
    directory, killed, start = tmp_path / "dying", list[int](), ModelProcess._start
    processes: list[ModelProcess] = []
    monkeypatch.setattr(ModelProcess, "_start", lambda process: (processes.append(process), start(process)))

    def kill(deaths: int) -> bool:
        if planner.waiting.is_set() and len(killed) < deaths:
            planner.waiting.clear()
            killed.append(processes[-1].pid or 0)
            os.kill(killed[-1], signal.SIGKILL)
        if len(killed) == deaths:
            planner.release()
        return False

    planner.hold("evaluation", 60)
    with pytest.raises(UserError, match=r"the process of chat 'openai' ended 2 times without an answer"):
        train(*words, packs=[(0, 1)], directory=directory, stop=lambda: kill(2))
    for run in directory.glob("*/*/*/seed-*"):
        checkpoint = checkpoints.newest(run)
        assert checkpoint is not None and checkpoint.step == 60 and checkpoint.state["loop"]["pending"]
    planner.hold("evaluation", 60)
    train(*words, packs=[(0, 1)], directory=directory, stop=lambda: kill(3))
    assert len(set(killed)) == 3
    replayed = train(*words, packs=[(0, 1)], models={"mode": "replay", "cassette": str(directory)})
    assert run_bytes(directory) == run_bytes(replayed) and len(run_bytes(replayed)) == 6


def test_a_seed_that_has_stopped_is_asked_nothing(planner: Planner) -> None:
    asks = QuestionQueue(["cell/0", "cell/1"], 0, Echo(), role="planner", kind="chat")

    class Bare(Loop):
        """A loop without tasks, agent or journal."""

        _phase_shown, _waited, _accounts = "", 0.0, ()  # type: ignore[assignment]

    loop = Bare.__new__(Bare)
    loop.step, loop._consulted, loop._stop = 7, {"planner": asks}, lambda: False
    loop._evaluating, loop._score = False, np.zeros(2)
    loop._journal = SimpleNamespace(consulting=lambda *words: None)  # type: ignore[assignment]
    loop.tasks = [object(), object()]  # type: ignore[list-item]
    loop.agent = SimpleNamespace(active=np.array([True, False]))  # type: ignore[assignment]
    questions = [
        Question(row, np.zeros(1, np.int64), None, np.zeros((1, 0), bool), str(row), "planner") for row in (1, 0)
    ]
    assert loop.consult(questions) == [None, "0"] and asks.question_count == 1
    with pytest.raises(UserError, match="consults the role 'chat', and the cell's consulted roles are planner"):
        loop.consult([questions[0]._replace(to="chat")])


class Echo:
    """A backend that answers each question with the question itself."""

    def __init__(self) -> None:
        self.questions: dict[Ticket, Question] = {}

    def ask(self, ticket: Ticket, question: Question, ahead: bool = False) -> None:
        assert ahead, "awaited questions are answered first"
        self.questions[ticket] = question

    def take(self, ticket: Ticket, stop: Any = None) -> tuple[Answer, float]:
        return Answer(self.questions[ticket].content), 0.0


def test_what_cannot_be_waited_for_is_refused_before_anything_runs(
    planner: Planner, plugin: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=r"planner\.delay is given, but answers of 'planner' are awaited without delay"):
        matrix.plan([*TINY, "profile=smoke", "planner.delay=3"])
    live = matrix.plan([*TINY, "profile=smoke", "models.mode=live", f"planner.base_url={planner.url}"])
    (problem,) = readiness.missing(live, tmp_path)
    assert "models.mode=live records nothing" in problem and "use models.mode=record" in problem
    words = [*TINY, "profile=smoke", "models.mode=live", f"planner.base_url={planner.url}", f"output={tmp_path / 's'}"]
    assert cli.main(["run", *words]) == 2 and "method 'planning' waits for answers" in capsys.readouterr().err
    wrong = PLANNING.replace('"planner": "chat"}', '"other": "chat"}').replace(
        'register.agent("planning")', 'register.agent("odd")'
    )
    plugin("odd_module", wrong.replace('register.method("planning")', 'register.method("odd")'), {"agent": "odd"})
    with pytest.warns(
        UserWarning, match="agent 'odd' consults the role 'planner', but its .needs. has no model in that role"
    ):
        registry.names("agent")


def test_a_question_that_is_not_json_is_told_by_who_asks_it(
    planner: Planner, plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    bare = PLANNING.replace("""f'"{phase}, step {ctx.step}"'""", 'f"{phase}, step {ctx.step}"')
    plugin("bare_module", bare.replace('("planning")', '("bare")').replace('agent="planning"', 'agent="bare"'),
           {"agent": "bare", "method": "bare"})  # fmt: skip
    says = (
        r"agent 'bare' asks in the role 'planner' with the content 'training, step \d', which is not JSON .*json\.dumps"
    )
    with pytest.raises(UserError, match=says):
        train(*TINY[:2], "method=bare", *TINY[3:], f"planner.base_url={planner.url}", packs=[(0,)])
