"""Whole runs on the real game: hand-written models, and a real server on loopback."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crafter")

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Message
from guidebench.harness.plan import matrix
from guidebench.methods.ellm.guide import EllmGuide
from guidebench.methods.ellm.scripted import PromptReader
from tests.harness.models.canned import completion, serving
from tests.logs import log_rows
from tests.methods.contract import read_files
from tests.refusals import check_refused

SMALL = (
    "suite.impossible=masked", "suite.hunger=true", "suite.area=16", "suite.length=50", "text_embedder=scripted",
    "text_embedder.width=16", "guide.width=16", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
    "learner.batch_size=8",
)  # fmt: skip
"""Random actions among the possible ones, which achieve something in every episode; needs make states differ."""
SCRIPTED = ("suite=crafter_ood", "task=deforestation", *SMALL, "goals=scripted")
SHORT = (
    *SCRIPTED, "method=ellm_exploration", "training.steps=200", "evaluation.every=200", "evaluation.episodes=1",
    "learner.learning_starts=64",
)  # fmt: skip


def planned(*words: str) -> Any:
    (cell,) = matrix.plan(["method=ellm_exploration", "profile=smoke", *words]).cells
    return cell


# Planning


def test_the_papers_embedder_and_a_served_chat_are_the_default() -> None:
    cell = planned("models=paper")
    assert (cell.names.suite, cell.section("text_embedder").model, cell.section("guide").width) == (
        "crafter_ood", "sbert", 384
    )  # fmt: skip
    assert (cell.section("goals").backend, cell.section("goals").model) == ("openai", "qwen2_5_vl_7b")
    assert (cell.section("guide").weight, cell.section("guide").task_weight) == (1.0, 0.0)


def test_the_estimate_of_calls_is_what_random_play_measured() -> None:
    short, long = (planned(f"training.steps={steps}") for steps in (50_000, 1_000_000))
    often = planned("training.steps=1000000", "guide.every_state=true")
    calls = [cell.section("guide").expected_usage(cell.sections, "goals").calls for cell in (short, long, often)]
    assert calls == [1_952, 29_814, 77_621], "1,952 · 20^.91 and 5,560 · 20^.88"
    usage = short.section("guide").expected_usage(short.sections, "goals")
    assert (usage.tokens_in, usage.tokens_out) == (400 * 1_952, 40 * 1_952)
    assert short.section("guide").expected_usage(short.sections, "text_embedder").calls == 50


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ["suite=minigrid_doorkey", "task=5x5"],
            r"suite 'minigrid_doorkey'.*does not name the captions that can be goals",
        ),
        (
            ["suite=housekeep", "task=task12", "goals=oracle"],
            "the suite does not measure whether 'grab spatula' is possible next",
        ),
        (
            ["text_embedder=scripted", "text_embedder.width=64", "guide.width=384"],
            r"vectors have 64 numbers, and guide\.width=384; set guide\.width=64, or",
        ),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], reason: str) -> None:
    check_refused(reason, planned, *words)


def test_housekeeps_deeds_can_be_goals() -> None:
    assert planned("suite=housekeep", "task=task12").names.suite == "housekeep"


@pytest.mark.parametrize(
    "word", ["guide.threshold=1", "guide.threshold=-0.1", "guide.most=0", "guide.weight=-1", "guide.omit=['']"]
)
def test_settings_out_of_bounds_are_refused_by_name(word: str) -> None:
    check_refused(word.partition("=")[0].replace(".", r"\."), planned, word)


def test_a_task_that_tells_nothing_is_refused_before_training() -> None:
    from guidebench.harness.parts import CellView

    class Mute:
        def make(self, task: str) -> object:
            return object()

    cell = planned()
    cell_view = CellView(
        {**cell.sections, "suite": Mute()}, "deforestation", *cell.section("suite").spaces("deforestation")
    )
    check_refused(r"task 'deforestation' does not tell both", cell.section("guide").ready, cell_view)
    cell.section("guide").ready(
        CellView(cell.sections, "deforestation", *cell.section("suite").spaces("deforestation"))
    )


def test_the_hand_written_chat_is_for_this_guide_alone() -> None:
    check_refused(
        "suggests goals in words, for ELLM's guide alone",
        matrix.plan,
        ["suite=metaworld_mt10", "task=reach", "method=lagea", "feedback=scripted_goals"],
    )


# Runs


@pytest.fixture(scope="module")
def often(train_once: Callable[..., Path]) -> Path:
    """A run that asks about every state."""
    return train_once(*SHORT, "guide.every_state=true", "goals.senseless=0.3", "seeds=[0]", packs=[(0,)])


def test_achieved_goals_are_those_that_were_suggested_for_the_state_before(often: Path) -> None:
    suggested, achieved = (results.load(often, log=name) for name in ("goals", "achieved"))
    assert suggested["state"].is_unique and len(suggested) > 20 and not suggested["failed"].any()
    assert suggested["senseless"].sum() > 0 and not suggested["unknown"].any()
    assert achieved["episode"].tolist() == [*range(len(achieved))] and achieved["length"].sum() <= 200
    everything = {goal for text in suggested["goals"] for goal in text.split(", ")}
    reached = [goal for text in achieved["goals"] for goal in text.split(", ") if goal]
    assert reached and {*reached} <= everything
    assert achieved["reward"].to_numpy() == pytest.approx(achieved["count"].to_numpy()), "a cosine of 1 each"
    spent = results.load(often, log="ledger").iloc[-1]
    metrics = results.load(often, log="metrics").iloc[-1]
    assert 0 < metrics["guide/questions"] <= len(suggested) and metrics["guide/failed"] == 0, "a mean over steps"
    assert spent["questions"] > len(suggested), "and vectors"


def test_asking_only_where_something_was_done_changes_no_reward(often: Path, train: Callable[..., Path]) -> None:
    seldom = train(*SHORT, "guide.every_state=false", "goals.senseless=0.3", "seeds=[0]", packs=[(0,)])
    frequent, rare = (results.load(study, log="achieved") for study in (often, seldom))
    columns = ["step", "episode", "goals", "count", "reward", "length"]
    assert frequent[columns].to_dict("list") == rare[columns].to_dict("list") and frequent["count"].sum() > 0
    assert len(results.load(seldom, log="goals")) < len(results.load(often, log="goals"))
    (often_policy,), (seldom_policy,) = (
        read_files(study, ["policy.safetensors"]).values() for study in (often, seldom)
    )
    assert often_policy == seldom_policy


def test_a_seed_that_stops_logs_no_more_and_the_other_goes_on(
    train: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(self: Any, store: Any, learner: Any, ctx: Any) -> int:
        ctx.agent.active[1] &= ctx.step < 60
        return 0

    monkeypatch.setattr(EllmGuide, "before_update", stops)
    study = train(*SHORT, "guide.every_state=true", "seeds=[0,1]", packs=[(0, 1)])
    for log in ("goals", "achieved"):
        running, stopped = (log_rows(next(study.glob(f"*/*/*/seed-{seed}")), log) for seed in (0, 1))
        assert max(row["step"] for row in running) > 60 >= max(row["step"] for row in stopped)
        assert not any(row.get("failed") for row in (*running, *stopped))


def test_a_server_is_asked_once_for_each_state(train: Callable[..., Path]) -> None:
    """The server answers well, with a hundred goals, with goals that do not exist, in prose, and with an error."""
    pytest.importorskip("openai")
    states: list[str] = []

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if path != "/chat/completions":
            return 200, {"object": "list", "data": [{"id": "any", "object": "model"}]}
        message = body["messages"][0]["content"]
        text = message if isinstance(message, str) else "".join(part["text"] for part in message)
        state = [line for line in text.splitlines() if line.startswith("State: ")]
        if not state:
            return 200, completion("yes")
        if len(body["messages"]) == 1:
            states.append(state[-1])
        good = PromptReader(0.0)((Message("user", (text,)),))["goals"]
        return 200, completion(
            [
                json.dumps({"goals": good}),
                "Sure! " + json.dumps({"goals": [*good, *(f"eat {n} trees" for n in range(100))]}),
                json.dumps({"goals": [*good, *(f"{v} {n}" for v in ("eat", "mine") for n in ("tree", "cow", "iron"))]}),
                "You could chop the tree.",
            ][len(state[-1]) % 4]
        )

    with serving(answers) as url:
        study = train(
            *(word for word in SHORT if word != "goals=scripted"), "goals=openai", f"goals.base_url={url}",
            "goals.model=any", "goals.attempts=1", "guide.every_state=true", "guide.most=3", "seeds=[0]", packs=[(0,)],
        )  # fmt: skip
    goals = results.load(study, log="goals")
    assert set(Counter(states).values()) == {1} and {*states} == {f"State: {state}" for state in goals["state"]}
    way = goals["state"].map(lambda state: len(f"State: {state}") % 4)
    assert goals["failed"].tolist() == (way == 3).tolist() and 0 < goals["failed"].mean() < 1
    assert (goals.loc[way == 1, "unknown"] == 100).all() and (goals.loc[way != 1, "unknown"] == 0).all()
    assert (goals.loc[way == 2, "senseless"] > 0).all() and goals["kept"].max() == 3 and goals["cut"].max() > 0
    assert results.load(study, log="achieved")["count"].sum() > 0


def test_the_agent_that_reads_sentences_shares_the_text_embedder(train: Callable[..., Path]) -> None:
    words = (*SHORT, "agent=language_conditioned", "agent.width=16", "suite.observation=text", "seeds=[0]")
    study = train(*words, packs=[(0,)])
    assert results.load(study, log="achieved")["count"].sum() > 0
    with pytest.raises(UserError, match=r"give both the same shape"):
        matrix.plan([
            *(word for word in words if "text_embedder" not in word and word != "agent.width=16"), "profile=smoke",
            "text_embedder=transformers", "text_embedder.model=unknown/model", "agent.width=8",
        ])  # fmt: skip


# Pre-training, then fine-tuning


def test_ellm_explores_a_task_without_a_goal_and_then_learns_at_the_rate_of_fine_tuning() -> None:
    (cell,) = matrix.plan(["method=ellm", "profile=paper", "task=deforestation"]).cells
    stage = cell.stage
    assert stage is not None and (stage.names.method, stage.names.task) == ("ellm_exploration", "free_play")
    assert (cell.settings["learner.lr"].value, stage.settings["learner.lr"].value) == (2e-5, 6.25e-5)
    assert not cell.models and cell.model == stage.model == "qwen2_5_vl_7b+sbert"
