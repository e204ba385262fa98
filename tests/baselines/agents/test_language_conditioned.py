"""Sentences read as vectors of the real architecture of Sentence-BERT, with tiny random weights, on the real game."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import require

pytest.importorskip("crafter")
from guidebench import results
from guidebench.baselines.agents.language_conditioned import LanguageAgent
from guidebench.baselines.text_vectors import FILE
from guidebench.harness.execution import Models
from guidebench.harness.interfaces import Array, Mode, Place, RunPhase, Transition
from guidebench.harness.loop.build import make_build
from guidebench.harness.models.calls import EmbedCall
from guidebench.harness.models.embedders.scripted import Projection
from guidebench.harness.plan import matrix
from guidebench.harness.playback.reevaluation import evaluate_run
from guidebench.harness.streams import Streams
from tests.methods.contract import check_same, kill, read_files
from tests.refusals import check_refused

require("transformers")

SCRIPTED = ("text_embedder=scripted", "text_embedder.width=16", "agent.width=16")
SHORT = (
    "suite=crafter_ood", "task=deforestation", "agent=language_conditioned", "suite.observation=text",
    "suite.length=25", "training.steps=60", "training.capacity=100", "evaluation.every=20", "evaluation.episodes=2",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=8",
    "learner.learning_starts=16", "learner.train_every=4", "learner.epsilon_end=0.5",
)  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.harness.models import tiny_models

    return tiny_models.sentence_bert(tmp_path_factory.mktemp("tiny") / "bert")


def real(model: Path, batch: int = 1) -> tuple[str, ...]:
    """A text embedder of transformers; vectors of one batch may differ in their last bits, those of one text do not."""
    return (
        "text_embedder=transformers", f"text_embedder.model={model}", f"text_embedder.batch_size={batch}",
        "agent.width=32",
    )  # fmt: skip


@pytest.fixture
def texts_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """Return a list that collects (seed row, text) of every text that agents of this process read."""
    pairs: list[tuple[int, bytes]] = []
    texts = LanguageAgent.texts

    def listening(self: LanguageAgent, observation: Array, rows: Sequence[int]) -> list[bytes]:
        read = texts(self, observation, rows)
        pairs.extend(zip([*rows] * (len(read) // len(rows)), read, strict=True))
        return read

    monkeypatch.setattr(LanguageAgent, "texts", listening)
    return pairs


def last(study: Path, log: str) -> Any:
    return results.load(study, log=log).sort_values("step").groupby("seed").tail(1).sort_values("seed")


def recorded(study: Path) -> list[list[str]]:
    """Return the texts that each model process of a study computed."""
    by_process = []
    for cassette in sorted((study / "models").glob("*.sqlite")):
        with closing(sqlite3.connect(cassette)) as db:
            calls = [json.loads(text) for (text,) in db.execute("SELECT text FROM requests")]
            by_process.append([words for call in calls for words in call["items"]])
    return by_process


# Planning


def planned(*words: str) -> Any:
    (cell,) = matrix.plan(["suite=crafter_ood", "profile=smoke", "agent=language_conditioned", *words]).cells
    return cell


@pytest.mark.parametrize("observation", ["symbols", "semantic", "pixels", "grey"])
def test_observations_without_sentences_are_refused_with_what_to_set(observation: str) -> None:
    check_refused(
        r"reads the sentences in the part 'text'.* suite\.observation=text",
        planned,
        f"suite.observation={observation}",
        *SCRIPTED,
    )


def test_its_width_follows_the_embedder_and_another_one_is_refused(bert: Path) -> None:
    sentences = ("suite.observation=text", "text_embedder=transformers")
    for words, width in (
        ((sentences[0], "text_embedder=scripted"), 1024),
        ((*sentences, "text_embedder.model=gpt2"), 768),
        ((*sentences, f"text_embedder.model={bert}"), 32),
    ):
        assert planned(*words).section("agent").width == width
        message = rf"vectors have {width} numbers, and agent\.width=64; set agent\.width={width}"
        check_refused(message, planned, *words, "agent.width=64")


def test_ellms_encoder_is_the_default_and_has_the_declared_width() -> None:
    cell = planned("suite.observation=grey_text", "suite.size=84", "text_embedder=transformers")
    assert cell.section("text_embedder").model == "sbert" and cell.section("agent").width == 384


def test_the_learner_is_asked_about_the_observations_with_vectors() -> None:
    from guidebench.harness.plan import config
    from guidebench.harness.run.study import ring_bytes

    embedder = ("text_embedder=scripted", "text_embedder.width=384")
    with_goal, without = planned("suite.observation=text", *embedder), planned("agent.goal=false", *embedder, TEXT)
    observations = config.cell_view(with_goal).observations
    assert [*observations.parts] == ["local", "inventory", "status", "daylight", "text", "goal"]
    assert all(
        (observations.parts[name].shape, observations.parts[name].dtype) == ((384,), "float32")
        for name in ("text", "goal")
    )
    assert [*config.cell_view(without).observations.parts] == ["local", "inventory", "status", "daylight", "text"]
    slots = ring_bytes(with_goal) / (146 + 2 * 4 * 384 + 2 + 7)
    assert slots == 300 and ring_bytes(without) == slots * (146 + 4 * 384 + 2 + 7)
    check_refused(
        r"part 'text' of the observations is uint8 .*no encoder reads it",
        matrix.plan,
        ["suite=crafter_ood", "profile=smoke", TEXT],
    )


TEXT = "suite.observation=text"


# The agent step by step


class ProjectionContext:
    """A context whose embedder is a fixed projection; it gives None for texts that contain a given word."""

    mode, step = Mode.TRAIN, 1
    phase = RunPhase("train", 60)

    def __init__(self, rows: int, fails: str = "nothing fails") -> None:
        self.rows, self.streams, self.fails = np.arange(rows), [Streams(seed) for seed in range(rows)], fails
        self.model, self.questions = Projection(16), list[Any]()

    def consult(self, questions: Sequence[Any]) -> list[Any]:
        self.questions += questions
        texts = [json.loads(question.content) for question in questions]
        return [None if self.fails in text else self.model(EmbedCall((text,))) for text in texts]

    def question_counts(self) -> Counter[tuple[int, str]]:
        return Counter((question.row, json.loads(question.content)) for question in self.questions)


def agent_and_suite(tmp_path: Path, *words: str, seeds: Sequence[int] = (0, 1)) -> tuple[LanguageAgent, Any]:
    """An agent of these seeds with directories of their own, and its suite."""
    cell = planned(*SHORT[3:], *SCRIPTED, *words)
    places = [tmp_path / f"seed-{seed}" for seed in seeds]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    agent: LanguageAgent = cell.section("agent").spawn(make_build(cell, seeds, "cpu", places))
    return agent, cell.section("suite")


def played(agent: LanguageAgent, tasks: Sequence[Any], ctx: Any, steps: int) -> list[tuple[Array, list[str]]]:
    """Step tasks with the agent, which observes; what each observation was, and its texts."""
    history, observation = [], np.stack([task.reset(seed) for seed, task in enumerate(tasks)])
    for number in range(steps):
        history.append((observation, [task.text() for task in tasks]))
        actions = agent.act(observation, ctx)
        stepped = [task.step(action) for task, action in zip(tasks, actions, strict=True)]
        after = np.stack([step.observation for step in stepped])
        zeros = np.zeros(len(tasks))
        agent.observe(
            Transition(
                observation, actions, zeros.astype(np.float32), zeros > 0, np.full(len(tasks), number == steps - 1),
                after, np.zeros((len(tasks), 15), bool), None, zeros > 0,
            ),
            ctx,
        )  # fmt: skip
        observation = after
    return [*history, (observation, [task.text() for task in tasks])]


@pytest.mark.parametrize("goal", [True, False])
def test_what_is_stored_is_the_vector_of_the_text_and_of_the_instruction_and_all_else_as_it_was(
    goal: bool, tmp_path: Path
) -> None:
    agent, suite = agent_and_suite(tmp_path, f"agent.goal={goal}".lower())
    ctx, tasks = ProjectionContext(2), [suite.make("deforestation") for _ in range(2)]
    history = played(agent, tasks, ctx, 12)
    batch = agent.experience.store.gather(np.array([np.arange(12)] * 2))
    vector = Projection(16)
    for after, stored in enumerate((batch.observation, batch.next_observation)):
        assert stored.dtype.names == ("local", "inventory", "status", "daylight", "text", *(["goal"] * goal))
        for step in range(12):
            observation, texts = history[step + after]
            for row, text in enumerate(texts):
                record = stored[row, step]
                assert np.array_equal(record["text"], vector(EmbedCall((text,)))[0])
                assert all(np.array_equal(record[part], observation[row][part]) for part in ("local", "status"))
                if goal:
                    assert np.array_equal(record["goal"], vector(EmbedCall((tasks[row].instruction,)))[0])
    assert set(ctx.question_counts().values()) == {1}, "no seed asks about a text twice"
    assert len({text for _, text in ctx.question_counts()}) < len(ctx.question_counts()), "two seeds met the same text"
    assert agent.text_arrays.met.sum() == len(ctx.questions) and not agent.text_arrays.failed.any()


def test_texts_read_in_an_evaluation_are_asked_in_its_episode_once_for_all_of_a_seeds_episodes(tmp_path: Path) -> None:
    agent, suite = agent_and_suite(tmp_path)
    ctx = ProjectionContext(2)
    places = [Place(row, episode) for row in range(2) for episode in range(3)]
    actor, tasks = agent.actor(places), [suite.make("deforestation") for _ in places]
    observation = np.stack([task.reset(5) for task in tasks])  # all alike
    ctx.rows, ctx.mode = np.array([place.row for place in places]), Mode.EVALUATE
    actor.begin(observation, ctx)
    first = actor.act(observation, np.arange(6), ctx)
    assert [(question.row, question.episode) for question in ctx.questions] == [(0, 0), (1, 0), (0, 0), (1, 0)]
    assert {question.to for question in ctx.questions} == {"text_embedder"}
    ctx.rows = ctx.rows[3:]
    assert np.array_equal(actor.act(observation[3:], np.arange(3, 6), ctx), first[3:]) and len(ctx.questions) == 4
    ctx.rows, ctx.mode = np.arange(2), Mode.TRAIN
    agent.act(observation[[0, 3]], ctx)
    assert len(ctx.questions) == 4, "training knows them too"


def test_a_failed_text_is_zeros_and_not_asked_again_and_the_goal_and_other_seeds_are_unaffected(tmp_path: Path) -> None:
    agent, suite = agent_and_suite(tmp_path)
    ctx, tasks = ProjectionContext(2, "you see"), [suite.make("deforestation") for _ in range(2)]
    played(agent, tasks, ctx, 6)
    stored = agent.experience.store.gather(np.array([np.arange(6)] * 2)).observation
    assert not stored["text"].any() and np.abs(stored["goal"]).max(2).all()
    assert set(ctx.question_counts().values()) == {1}
    assert agent.text_arrays.failed.tolist() == (agent.text_arrays.met - 1).tolist() != [0, 0]


def test_a_stopped_seed_asks_nothing_and_keeps_nothing(tmp_path: Path) -> None:
    agent, suite = agent_and_suite(tmp_path)
    ctx, tasks = ProjectionContext(2), [suite.make("deforestation") for _ in range(2)]
    agent.active[0] = False
    played(agent, tasks, ctx, 4)
    assert {question.row for question in ctx.questions} == {1} and agent.text_arrays.met[0] == 0


def test_values_of_texts_that_were_never_met_are_nan_and_nothing_is_asked(tmp_path: Path) -> None:
    agent, suite = agent_and_suite(tmp_path)
    ctx, tasks = ProjectionContext(2), [suite.make("deforestation") for _ in range(2)]
    observation = np.stack([task.reset(seed) for seed, task in enumerate(tasks)])
    assert np.isnan(agent.value(observation, np.arange(2))).all()
    inputs = agent.read(observation, [Place(0, 0), Place(1, 0)], ctx)
    count = len(ctx.questions)
    strange = observation.copy()
    strange["text"][1, :3] = np.frombuffer(b"you", np.uint8)[::-1]
    state_values = agent.value(np.concatenate([observation, strange[1:]]), np.array([0, 1, 1]))
    assert np.array_equal(state_values[:2], agent.learner.value(inputs, np.arange(2))) and np.isnan(state_values[2])
    assert len(ctx.questions) == count and agent.reward(observation, np.arange(2)) is None


# Whole runs


def test_each_distinct_text_is_asked_about_once(
    train: Callable[..., Path], texts_read: list[tuple[int, bytes]], bert: Path
) -> None:
    study = train(*SHORT, *real(bert), "seeds=[0,1]", packs=[(0, 1)])
    distinct = [{text.decode() for row, text in texts_read if row == seed} for seed in range(2)]
    assert len(texts_read) > 10 * sum(map(len, distinct))
    spent = last(study, "ledger")
    assert spent["questions"].tolist() == [len(texts) for texts in distinct] and not spent["failures"].any()
    (computed,) = recorded(study)
    assert sorted(computed) == sorted(distinct[0] | distinct[1]), "the model computes each for both seeds once"
    metrics = last(study, "metrics")
    assert metrics["loss"].notna().all() and (metrics["texts/distinct"] > 2).all()


def test_a_run_leaves_no_texts_behind_and_is_evaluated_again_without_its_model(train: Callable[..., Path]) -> None:
    (run,) = train(*SHORT, *SCRIPTED, "seeds=[0]", packs=[(0,)]).glob("*/*/*/seed-0")
    assert not (run / FILE).exists()
    first = evaluate_run(run, None, None, episodes=2, seed=3, models=Models(mode="record"))
    assert evaluate_run(run, None, None, episodes=2, seed=3) == first


FAILING = '''
from dataclasses import dataclass
from typing import ClassVar

from guidebench.harness.models.calls import Failure
from guidebench.harness.models.embedders.transformers_text_embedder import TextTransformers
from guidebench.harness.registry import register


@register.embedder("failing")
@dataclass(frozen=True)
class Failing(TextTransformers):
    """Fails at every text about trees."""

    version: ClassVar[int] = 1

    def spawn_model(self, device):
        model = super().spawn_model(device)
        answer = model.answer

        async def fails(call):
            if "tree." in call.items[0]:
                raise Failure("memory", "too many trees")
            return await answer(call)

        model.answer = fails
        return model
'''


def test_failures_are_counted(plugin: Callable[..., Path], train: Callable[..., Path], bert: Path) -> None:
    plugin("failing", FAILING, {"embedder": "failing"})
    words = (*SHORT, "text_embedder=failing", *real(bert)[1:], "text_embedder.attempts=1", "seeds=[0,1]")
    study = train(*words, packs=[(0, 1)])
    spent = last(study, "ledger")
    assert (spent["failures"] > 0).all() and (spent["failures"] < spent["questions"]).all()
    assert (last(study, "metrics")["texts/failed"] > 0).all()


def test_a_killed_run_computes_no_text_again(train: Callable[..., Path], tmp_path: Path, bert: Path) -> None:
    words, study = (*SHORT, *real(bert), "seeds=[0]"), tmp_path / "killed"
    kill(words, [[0]], study, "training", 50, checkpoint_every=15)
    train(*words, packs=[(0,)], directory=study, checkpoint_every=15)
    uninterrupted = train(*words, packs=[(0,)])
    check_same(read_files(study), read_files(uninterrupted))
    computed = [text for texts in recorded(study) for text in texts]
    assert sorted(computed) == sorted(recorded(uninterrupted)[0]), "each once, before a kill or after it"
    assert last(study, "ledger")["questions"].tolist() == [len(computed)]


@pytest.mark.parametrize("method", ["aer", "vlm_rb"])
def test_replays_draw_from_what_the_agent_reads(train: Callable[..., Path], method: str) -> None:
    judged = ("judge=oracle", "judge.delay=4", "replay.clip_length=4") if method == "vlm_rb" else ()
    study = train(*SHORT, *SCRIPTED, f"method={method}", *judged, "seeds=[0]", packs=[(0,)])
    assert last(study, "metrics")["loss"].notna().all() and len(read_files(study)) == 2


def test_demonstrations_are_read_too(train: Callable[..., Path], texts_read: list[tuple[int, bytes]]) -> None:
    study = train(*SHORT, *SCRIPTED, "training.demonstrations=1", "seeds=[0]", packs=[(0,)])
    assert last(study, "ledger")["questions"].tolist() == [len({text for _, text in texts_read})]
