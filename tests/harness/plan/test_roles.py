"""A cell whose replay and guide each have a judge, in different roles."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import record
from guidebench.harness.loop.backends import question_queues
from guidebench.harness.loop.job import Job
from guidebench.harness.models.oracle import OracleBackend
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import estimates

CRITICISED = '''
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.interfaces import Question
    from guidebench.harness.logs import Column, Log
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.guide("criticised")
    @dataclass(frozen=True)
    class Criticised(AskingPart):
        """Has every twentieth state judged."""

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        needs: ClassVar = {"critic": "judge"}
        shows_frames: ClassVar[bool] = True
        logs: ClassVar = {"heard": Log("an answer", {"role": Column(str, "of the judge")})}

        def spawn(self, build):
            return Critic(build.rows)


    class Critic(BaseGuide):
        wants_snapshots = True

        def __init__(self, rows):
            self.rows = rows

        def observed(self, slot, transition, store, ctx):
            for row in range(self.rows if ctx.step % 20 == 0 else 0):
                clip, events = transition.snapshot[row][None], transition.events[row][None]
                ctx.ask(Question(row, np.array([ctx.step]), clip, events, to="critic"))

        def answered(self, answers, store, ctx):
            for question, _ in answers:
                ctx.note("heard", question.row, {"role": question.to})


    for name, replay in (("criticised", "uer"), ("criticised_vlm_rb", "vlm_rb")):
        register.method(name)(
            Method(
                summary="asks a critic", suite="minigrid_doorkey", replay=replay, guide="criticised",
                citation="% a test",
            )
        )
'''


SHORT = (
    "training.steps=201", "evaluation.every=201", "evaluation.episodes=1", "drawing.tile_size=8", "critic.delay=1",
    "seeds=[0]", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
)  # fmt: skip


def install(plugin: Callable[..., Path], source: str) -> None:
    methods = "criticised = criticising\ncriticised_vlm_rb = criticising"
    plugin("criticising", source, {"guide": "criticised = criticising", "method": methods})


@pytest.fixture
def criticised_method(plugin: Callable[..., Path]) -> None:
    install(plugin, CRITICISED)


def plan_cell(*words: str) -> Cell:
    (cell,) = matrix.plan(["profile=smoke", *words]).cells
    return cell


def filmstrip(study: Path) -> dict:
    """Return the JSON file that `bench eval --frames` writes for a run of the study."""
    run = next(study.glob("*/*/*/seed-0"))
    assert cli.main(["eval", str(run), "--episodes", "1", "--frames"]) == 0
    return json.loads(next((run / "frames").glob("*.json")).read_text())


def test_the_judge_of_a_guide_is_probed_and_scores_the_frames_of_an_episode(
    criticised_method: None, train: Callable[..., Path]
) -> None:
    study = train("method=criticised", *SHORT, packs=[(0,)], probes=1)
    judged = results.load(study, log="judgements")
    assert judged["role"].tolist() == ["critic"] * 10 and judged["score"].notna().all()
    assert results.load(study, log="heard")["role"].tolist() == ["critic"] * 10
    assert (results.load(study, log="probes")["quantity"] == "judge").any()
    strip = filmstrip(study)
    assert strip["judge"] == "sprite" and all("score" in clip for clip in strip["clips"])


def test_of_two_judges_that_of_the_replay_is_probed(criticised_method: None, train: Callable[..., Path]) -> None:
    words = ("method=criticised_vlm_rb", "critic=oracle", "critic.false_positive=1.0", "critic.false_negative=1.0")
    study = train(*words, *SHORT, "judge.delay=1", packs=[(0,)], probes=1)
    rows = results.load(study, log="judgements")
    judged, criticised_ = rows[rows["role"].isna()], rows[rows["role"] == "critic"]
    assert len(judged) and ((judged["score"] > 0.5) == (judged["events"] > 0)).all(), "a sprite is always right"
    assert len(criticised_) == 10 and ((criticised_["score"] > 0.5) != (criticised_["events"] > 0)).all()
    assert results.load(study, log="heard")["role"].tolist() == ["critic"] * 10, (
        "the guide hears only answers of its own critic"
    )
    probes = results.load(study, log="probes")
    events = probes[probes["quantity"].str.startswith("event/")]["t"]
    for middle, score in probes[probes["quantity"] == "judge"][["t", "value"]].itertuples(index=False):
        assert score == float(events.between(middle - 15, middle + 15).any()), "a critic that errs would not"
    assert filmstrip(study)["judge"] == "sprite"


def test_a_guide_whose_judge_is_called_judge_hears_it_unless_the_replay_has_it(
    plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    install(plugin, CRITICISED.replace('"critic"', '"judge"'))
    words = [word.replace("critic", "judge") for word in SHORT]
    study = train("method=criticised", *words, "judge=oracle", packs=[(0,)])
    assert results.load(study, log="heard")["role"].tolist() == ["judge"] * 10
    with pytest.raises(UserError, match=r"the replay and the guide both ask in the role 'judge'.* of another name"):
        plan_cell("method=criticised_vlm_rb")


def test_what_a_judge_is_asked_is_estimated_by_who_asks_it(criticised_method: None) -> None:
    words = ("method=criticised_vlm_rb", "training.steps=640", "replay.clip_length=32")
    models = ("judge=openai", "critic=openai", "judge.prompt=?", "critic.prompt=?")
    assert [usage.calls for _, usage in estimates.by_model(plan_cell(*words, *models))] == [20], (
        "no clip of the replay's"
    )
    assert estimates.by_model(plan_cell(*words, "critic=openai", "critic.prompt=?")) == [], (
        "its guide does not state how often it asks"
    )


def test_what_is_wrong_with_a_model_is_told_by_the_section_of_its_role(
    criticised_method: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"^critic 'openai' does not fit .* to be given as critic\.prompt=…$"):
        plan_cell("method=criticised", "critic=openai", "critic.prompt=")
    cell = plan_cell("method=criticised", "critic=openai")
    assert cell.section("critic").prompt, "a suite's prompt for its judges reaches a judge in any role"
    served = ("method=criticised", "critic=openai", "critic.prompt=?")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert cli.main(["run", *served, "profile=smoke", "--dry-run"]) == 1
    output = capsys.readouterr().out
    assert "name a server with critic.base_url=" in output and "judge.base_url" not in output
    assert cli.main(["run", *served, "profile=smoke", f"output={tmp_path}"]) == 2
    output = capsys.readouterr().err
    assert "name a server with critic.base_url=" in output and "judge.base_url" not in output
    assert cli.main(["doctor", "critic=openai"]) == 1
    output = capsys.readouterr().out
    assert "name a server with critic.base_url=" in output and "judge.base_url" not in output


PAIRED = """
    from dataclasses import dataclass
    from typing import ClassVar

    from guidebench.harness.parts import AgentPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.agent("paired")
    @dataclass(frozen=True)
    class Paired(AgentPart):
        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        needs: ClassVar = {"low": "learner", "high": "learner", "replay": "replay", "guide": "guide"}


    register.method("paired")(
        Method(summary="two learners", suite="minigrid_doorkey", replay="uer", agent="paired", citation="% a test")
    )
"""


def test_what_a_learner_has_against_its_settings_is_told_by_the_section_of_its_role(
    plugin: Callable[..., Path],
) -> None:
    plugin("pairing", PAIRED, {"agent": "paired = pairing", "method": "paired = pairing"})
    assert plan_cell("method=paired", "high=iqn", "low.batch_size=16").learner == "iqn+dqn"
    with pytest.raises(UserError, match=r"^high.batch_size=32 is larger than high.learning_starts=16: .* at most 16$"):
        plan_cell("method=paired", "high.learning_starts=16", "high.batch_size=32")


def test_answers_come_in_the_same_order_whoever_shares_a_process(criticised_method: None) -> None:
    cell = plan_cell("method=criticised_vlm_rb", "judge=oracle", "critic=oracle")
    job = Job(study="s", directory="", cell=record(cell), seeds=(0,))
    judge_backend, critic_backend = OracleBackend(None, []), OracleBackend(None, [])  # type: ignore[arg-type]
    assert [*question_queues({"judge": judge_backend, "critic": critic_backend}, job, cell)] == ["critic", "judge"]
    assert [*question_queues({"critic": critic_backend, "judge": judge_backend}, job, cell)] == ["critic", "judge"]
