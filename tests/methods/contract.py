"""The contract that every method keeps, and the tables of small runs on which it is checked.

A run of two seeds that is killed with -9, in an evaluation and in training, and goes on in another packing writes the
same bytes as one that is not, whose seeds train apart and which replays the answers of the first. That holds for the
answers that it keeps of its models too. Its report shows what the method logs.
A new method joins by one line in `METHODS`; `pytest FILE::TEST[NAME]` checks a line alone.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load

from guidebench import results
from guidebench.harness.identity import cells
from guidebench.harness.parts import Part
from guidebench.harness.records.files import read_json
from guidebench.reports.sections import EVALUATIONS, sections
from guidebench.reports.sections import files as report_files
from tests import programs
from tests.harness.models.canned import completion, serving

EVERY = ("evaluations.parquet", "policy.safetensors")
TIMED = ("spending", "timings")
"""Logs that hold durations."""
PACKAGES = {
    "suite=bin_sorting": "ogbench", "suite=crafter": "crafter", "suite=metaworld": "metaworld",
    "suite=ogbench": "ogbench", "suite=point_maze": "gymnasium_robotics",
}  # fmt: skip
"""Prefix of a word in a row -> the package that its suite needs."""


# What a run writes


def read_files(study: Path, names: Iterable[str] = EVERY) -> dict[str, bytes]:
    """Return the files with these names that a study's runs wrote: path relative to the study -> bytes."""
    paths = [path for name in names for path in sorted(study.glob(f"*/*/*/seed-*/{name}"))]
    return {str(path.relative_to(study)): path.read_bytes() for path in paths}


def read_outputs(study: Path) -> dict[str, bytes]:
    """Return every file that a study's runs wrote and that records no durations: relative path -> bytes."""
    logs = {path.stem for path in study.glob("*/*/*/seed-*/*.parquet")} - {*TIMED}
    return read_files(study, ("policy.safetensors", *(f"{log}.parquet" for log in sorted(logs))))


def check_same(files: Mapping[str, bytes], others: Mapping[str, bytes]) -> None:
    """Check that two studies' runs wrote the same bytes; of a policy, the message names the arrays that differ."""
    differing = [name for name in sorted({*files, *others}) if files.get(name) != others.get(name)]
    differences = [f"{name}: {_difference(files.get(name, b''), others.get(name, b''))}" for name in differing]
    assert not differing, "\n".join(differences)


def _difference(file: bytes, other: bytes) -> str:
    """Return how two files differ: by array, if both are policies."""
    try:
        arrays, expected = load(file), load(other)
    except SafetensorError:
        return f"{len(file)} and {len(other)} bytes"
    if {*arrays} != {*expected}:
        return f"arrays {sorted({*arrays} ^ {*expected})} are in one alone"
    return "; ".join(
        f"{name} in {int((array != expected[name]).sum())} of {array.size} numbers, by at most "
        f"{float(np.abs(array - expected[name]).max()):.2g}"
        for name, array in arrays.items() if (array != expected[name]).any()
    )  # fmt: skip


def kill(words: Iterable[str], packs: list[list[int]], directory: Path, phase: str, step: int, **job: Any) -> None:
    """Train in a process that is killed with -9: in training after a step, or in the first evaluation at or after it,
    once that evaluation's first episode has ended."""
    ended = _process(words, packs, directory, job, phase, step)
    assert ended.code == -9, f"the run was not killed in {phase} at step {step}:\n{ended.err}"


def finish(words: Iterable[str], packs: list[list[int]], directory: Path, **job: Any) -> None:
    """Train to the end in a process of its own, so that the tests' process keeps none of its memory."""
    ended = _process(words, packs, directory, job)
    assert ended.code == 0, ended.err


def _process(
    words: Iterable[str], packs: list[list[int]], directory: Path, job: dict[str, Any], phase: str = "", step: int = 0
) -> programs.Exit:
    content = {"words": [*words], "packs": packs, "directory": str(directory), "where": phase, "step": step, "job": job}
    return programs.run("tests.skeletons.killable_training", input=json.dumps(content))


# The table


@dataclass(frozen=True)
class Row:
    """A small run of two seeds, in which a batch is learnt from and an episode ends."""

    words: str
    """Settings, as on the command line."""
    evaluation: int = 30
    """Step from which on the run is killed in the next evaluation."""
    training: int = 45
    """Step in training after which it is killed again."""
    sections: str = ""
    """Sections of the report that show what the method logs."""
    answers: Callable[[str, int], str] | None = None
    """Returns the answer of the server to a prompt, given a random number."""


def settings(section: str, text: str) -> str:
    """Turn `batch_size=8 hidden=[8]` into settings of one section."""
    return " ".join(f"{section}.{word}" for word in text.split())


SMALL = "hidden=[8] batch_size=8 learning_starts=16"
LEARNER, EXPLORER = settings("learner", SMALL), settings("explorer", SMALL)
TRUNK = "learner.trunk=[8]"
PIXELS = "learner.channels=4 learner.features=8"
SHORT = "training.steps=60 evaluation.every=30 evaluation.episodes=2"
CARTPOLE = f"suite=classic task=CartPole-v1 {SHORT} {LEARNER}"
PENDULUM = f"suite=classic task=Pendulum-v1 {SHORT} {LEARNER} evaluation.episodes=1"
SWING = f"{PENDULUM} training.steps=210 evaluation.every=105 learner.learning_starts=190 explorer.learning_starts=190"
"""Longer than an episode."""
DOORKEY = f"suite=minigrid_doorkey task=5x5 {SHORT} {LEARNER} {PIXELS} drawing.tile_size=8"
MAZE = f"suite=point_maze task=umaze suite.steps=25 {SHORT} {LEARNER} training.capacity=300"
OFFLINE = "offline.episodes=3 offline.noise=0.6"
PLAYED = f"suite=crafter_ood suite.area=16 suite.length=25 suite.test_length=12 suite.impossible=masked {SHORT}"
CRAFTER = f"{PLAYED} {LEARNER} training.capacity=100"
GAME = f"suite=crafter suite.area=16 suite.length=25 {SHORT} {LEARNER} training.capacity=100"
ROOM = f"suite=housekeep suite.length=25 {SHORT} {LEARNER} {TRUNK} training.capacity=100"
BINS = f"suite=bin_sorting suite.length=20 suite.rebuild=2 drawing.size=64 {SHORT} evaluation.episodes=1"
BRIEF = "training.steps=40 evaluation.every=20"
"""Two episodes of `BINS`, whose steps take longest to simulate."""
OFFLINE_BINS = f"suite.observation=state {LEARNER} learner.cql_actions=2 training.capacity=300 agent.offline_share=0.3"
EMBEDDER = "embedder=scripted embedder.width=16 embedder.delay=4"
LED = "classifier=oracle classifier.delay=7 segmenter=scripted segmenter.delay=3 waypoints=scripted waypoints.delay=4"
LONG = f"training.steps=60 evaluation.every=60 evaluation.episodes=1 {LEARNER} training.capacity=600"
"""For suites whose episodes are long: a single evaluation."""
VECTORS = f"{EMBEDDER} guide.width=16"
FRAMES = f"{VECTORS} guide.every=2 guide.stretch=4"
HEADS = "guide.hidden=[8] guide.out=4"
TEXTS = "text_embedder=scripted text_embedder.width=16"
TURNS = f"{EXPLORER} agent.periods=[5]"
APT = f"guide.k=3 guide.batch_size=8 {HEADS}"
GOALS = f"{TEXTS} guide.width=16 goals=scripted"
GOAL = "suite.steps=50 drawing.size=32"
"""Long enough for the solver, which shows the goal image."""
LAGEA = (
    f"{GOAL} {FRAMES} {HEADS} guide.batch_size=8 {TURNS} {TEXTS} guide.text_width=16 feedback=scripted feedback.delay=6"
)
STAGE = "pretraining.training.steps=30 pretraining.evaluation.every=30"
"""A first stage that ends before the second is killed."""
SYSTEMS = f"{TEXTS} agent.width=16 planner=scripted reflector=scripted performer=scripted scorer=scripted"
PREFERENCE = (
    "guide.pretraining=24 guide.every=10 guide.queries=2 guide.budget=6 guide.segment=5 guide.hidden=[8] "
    "guide.ensemble=2 guide.epochs=2 guide.updates_after_reset=2 guide.batch_size=4"
)


def served(role: str) -> str:
    """Return the words that fill a role with a served model, whose answers come from the row; equal calls are not
    shared."""
    return f"{role}=openai {settings(role, 'base_url={url} model=m temperature=0.7 attempts=1')}"


def prefer(prompt: str, draw: int) -> str:
    """Return the number of the preferred segment, or 0 for neither."""
    return str(draw % 3)


def act(prompt: str, draw: int) -> str:
    """Return a plan or an action: one that the prompt offers, or now and then one that it does not."""
    if "You check a plan" in prompt:
        return "Weaknesses: slow\nRevised plan:\n1. chop tree"
    if "You plan" in prompt:
        return "1. Find Tree (tree.location) – walk\n2. Chop Tree\n3. Make Wood Sword"
    possible = re.findall(r"^- (.+)$", prompt.partition("## Actions")[2], re.MULTILINE)
    return [*possible, "fly"][draw % (len(possible) + 1)]


METHODS: Mapping[str, Row] = {
    "aer": Row(f"method=aer {CARTPOLE}"),
    "apt": Row(f"method=apt {CARTPOLE} learner=dueling_dqn {TRUNK} {STAGE} {settings('pretraining', APT)}"),
    "apt_exploration": Row(f"method=apt_exploration {CARTPOLE} learner=dueling_dqn {TRUNK} {APT}"),
    "bc": Row(f"method=bc {MAZE} {OFFLINE}"),
    "cal_ql": Row(f"method=cal_ql {MAZE} {OFFLINE} learner.cql_actions=2 learner.bc_weight=4 agent.normalise=true"),
    "curiosity": Row(f"method=curiosity {CARTPOLE} learner=dueling_dqn {TRUNK} {HEADS}"),
    "dsadf": Row(
        f"method=dsadf {CRAFTER} {TRUNK} task=wood_sword {SYSTEMS}", sections="acted plans routes proficiencies asked"
    ),
    "dsadf_transfer": Row(
        f"method=dsadf_transfer {CRAFTER} {TRUNK} task=wood_sword {SYSTEMS} pretraining.task=deforestation {STAGE}",
        sections="acted plans routes proficiencies asked",
    ),
    "ellm": Row(f"method=ellm {CRAFTER} {TRUNK} task=deforestation {GOALS} {STAGE}"),
    "ellm_exploration": Row(f"method=ellm_exploration {CRAFTER} {TRUNK} task=deforestation {GOALS}", sections="goals"),
    "ero": Row(f"method=ero {CARTPOLE} evaluation.every=20"),
    "expert": Row("method=expert suite=minigrid_doorkey task=5x5 " + SHORT),
    "furl": Row(f"method=furl {MAZE} {GOAL} {FRAMES} {HEADS} guide.batch_size=8 {TURNS}"),
    "furl_no_goal": Row(
        f"method=furl_no_goal {FRAMES} {HEADS} guide.batch_size=8 {TURNS} {SWING}", evaluation=105, training=207
    ),
    "kagi": Row(
        f"method=kagi {BINS} {OFFLINE_BINS} {LED} {BRIEF}", evaluation=20, training=30, sections="fields classifier"
    ),
    "lagea": Row(f"method=lagea {MAZE} {LAGEA}", training=53, sections="feedback shaping"),
    "lagea_released": Row(f"method=lagea_released {MAZE} {LAGEA}", training=53, sections="feedback shaping"),
    "linvit": Row(f"method=linvit {ROOM} prior=scripted"),
    "liv": Row(f"method=liv {CARTPOLE} {FRAMES}"),
    "liv_proj": Row(f"method=liv_proj {CARTPOLE} {FRAMES} {HEADS}"),
    "model_as_agent": Row(f"method=model_as_agent {PLAYED} {served('performer')}", answers=act, sections="acted asked"),
    "model_with_planner": Row(
        f"method=model_with_planner {PLAYED} {served('planner')} {served('reflector')} {served('performer')}",
        answers=act,
        sections="acted plans asked",
    ),
    "moka": Row(
        f"method=moka {BINS} segmenter=scripted waypoints=scripted training.steps=20 evaluation.every=20",
        evaluation=20,
        training=10,
    ),
    "pebble": Row(f"method=pebble {PENDULUM} {PREFERENCE}", sections="preferences"),
    "pebble_llm": Row(
        f"method=pebble_llm {MAZE} {PREFERENCE} {served('chat')}", answers=prefer, sections="preferences"
    ),
    "per": Row(f"method=per {CARTPOLE}"),
    "random": Row("method=random suite=point_maze task=umaze suite.steps=20 " + SHORT),
    "relay": Row(f"method=relay {FRAMES} {TURNS} {SWING}", evaluation=105, training=207),
    "relo": Row(f"method=relo {CARTPOLE}"),
    "rl_sallm_f": Row(
        f"method=rl_sallm_f {MAZE} {PREFERENCE} {served('chat')}", answers=prefer, sections="preferences"
    ),
    "rl_vlm_f": Row(
        f"method=rl_vlm_f {MAZE} {PREFERENCE} {served('chat')} drawing.size=64 guide.frame_size=47",
        answers=prefer,
        sections="preferences",
    ),
    "roboclip": Row(f"method=roboclip {CARTPOLE} {EMBEDDER} guide.every=5"),
    "robofume": Row(
        f"method=robofume {BINS} {OFFLINE_BINS} classifier=oracle classifier.delay=7 {BRIEF}",
        evaluation=20,
        training=30,
        sections="classifier",
    ),
    "sac": Row(f"method=sac {PENDULUM}"),
    "self_imitation": Row(
        f"method=self_imitation {CARTPOLE} learner=dueling_dqn {TRUNK} guide.batch_size=8 guide.starts=20 guide.every=8"
    ),
    "sparse": Row(f"method=sparse {CARTPOLE} {TRUNK}"),
    "tadpole": Row(f"method=tadpole {CARTPOLE} {EMBEDDER} guide.stretch=4"),
    "transfer": Row(f"method=transfer {CRAFTER} {TRUNK} task=wood_sword pretraining.task=deforestation {STAGE}"),
    "uer": Row(f"method=uer {CARTPOLE}"),
    "vlm_rb": Row(f"method=vlm_rb {DOORKEY} judge.delay=8"),
    "vlm_rm": Row(
        f"method=vlm_rm {DOORKEY} embedder=transformers embedder.model={{clip}} embedder.dtype=float32 "
        "guide.stretch=8 embedder.delay=4"
    ),
}

MORE: Mapping[str, Row] = {
    "any environment": Row(
        f"method=uer suite=gymnasium task=Acrobot-v1 profile=default suite.max_steps=25 suite.episodes=reproducible "
        f"{SHORT} {LEARNER} training.capacity=100"
    ),
    "every kind of picture": Row(f"method=uer {GAME} suite.observation=grey suite.size=36 {PIXELS}"),
    "symbols": Row(f"method=sparse {GAME} {TRUNK}"),
    "hidden goals": Row(f"method=sac suite=metaworld task=reach {LONG}", evaluation=60),
    "tasks by turns": Row(f"method=uer suite=metaworld_mt10 task=mt10 {LONG}", evaluation=60),
    "dense rewards": Row(f"method=uer suite=metaworld_pbrl task=button-press {LONG} learner=td3", evaluation=60),
    "demonstrations": Row(
        f"method=vlm_rb suite=ogbench_scene task=drawer {LONG} judge=oracle judge.delay=8 training.demonstrations=1",
        evaluation=60,
    ),
    "quantiles": Row(f"method=per {CARTPOLE} learner=iqn"),
    "a simulation": Row(f"method=uer {PENDULUM} task=Hopper-v5 learner=td3"),
    "data of pictures": Row(
        f"method=kagi {BINS} {OFFLINE_BINS} {LED} suite.observation=images {BRIEF}", evaluation=20, training=30
    ),
    "an object that is followed": Row(
        f"method=kagi {BINS} {OFFLINE_BINS} {LED} guide.object=true tracker=scripted tracker.delay=10 {BRIEF}",
        evaluation=20,
        training=30,
    ),
    "goals by turns": Row(f"method=dsadf {CRAFTER} {TRUNK} task=wooden {SYSTEMS} agent.threshold=0 agent.beta=0"),
    "priors by goal": Row(f"method=linvit {CRAFTER} {TRUNK} task=wooden prior=scripted"),
    "a room": Row(f"method=dsadf {ROOM} task=task12 {SYSTEMS} agent.threshold=0 agent.beta=0 agent.history=44"),
    "frames and captions": Row(
        f"method=dsadf {CRAFTER} {TRUNK} task=wood_sword {SYSTEMS} agent=seeing_dual_system agent.image_width=16 "
        "agent.threshold=0 agent.beta=-1 captioner=transformers captioner.model={clip} captioner.dtype=float32 "
        "image_encoder=transformers image_encoder.model={clip} image_encoder.dtype=float32"
    ),
    "sentences": Row(
        f"method=uer {CRAFTER} task=deforestation agent=language_conditioned suite.observation=grey_text suite.size=36 "
        f"{PIXELS} text_embedder=transformers text_embedder.model={{sentence_bert}} agent.width=32"
    ),
    "objects under a schema": Row(
        f"method=linvit {ROOM} suite.length=8 training.steps=24 evaluation.every=12 evaluation.episodes=1 "
        "prior=transformers prior.model={llama} prior.answer=schema prior.dtype=float32",
        evaluation=12,
        training=18,
    ),
}
"""Suites, observations, learners and agents that the rows above do not run."""

REHEARSED = (
    "apt_exploration", "dsadf_transfer", "ellm", "furl_no_goal", "lagea_released", "liv", "model_as_agent",
    "pebble_llm", "relay", "robofume", "symbols", "hidden goals", "tasks by turns", "dense rewards",
    "demonstrations",
    "data of pictures", "priors by goal", "an object that is followed", "a room", "frames and captions", "sentences",
)  # fmt: skip
"""Rows whose parts are those of other rows with other settings, or have tests of their own for kills and states: only
rehearsals run them whole."""


# The contract


def check(row: Row, tiny: Callable[[str], Path], directory: Path) -> Path:
    """Check the contract on a row's runs, and return the study of the one that was killed."""
    for suite, package in PACKAGES.items():
        if f" {suite}" in row.words:
            pytest.importorskip(package)
    with server(row) as (url, prompts):
        models = {name: tiny(name) for name in re.findall(r"{([a-z_0-9]+)}", row.words) if name != "url"}
        last = {word.partition("=")[0]: word for word in f"{row.words} seeds=[0,1]".split()}
        words = [word.format_map({"url": url, **models}) for word in last.values()]
        killed, uninterrupted, job = (
            directory / "killed",
            directory / "whole",
            {"checkpoint_every": 20, "answers": True},
        )
        for step, phase in sorted([(row.evaluation, "evaluation"), (row.training, "training")]):
            kill(words, [[0, 1]], killed, phase, step, **job)
        finish(words, [[1], [0]], killed, **job)
        count = len(prompts)
        replay = {"mode": "replay", "cassette": str(killed)}
        finish(words, [[0], [1]], uninterrupted, answers=True, models=replay)
        assert len(prompts) == count, "a replay asks nothing"
    first, second = read_outputs(killed), read_outputs(uninterrupted)
    assert first.keys() == second.keys() and len(first) >= 2 * len(EVERY)
    check_same(first, second)
    check_guidance(uninterrupted)
    if "{" in row.words and "=scripted" not in row.words:  # models whose answers are recorded, and no others
        spending = results.load(uninterrupted, log="ledger")
        assert spending["questions"].any() and not spending["billed_calls"].any()
    reported(uninterrupted, row.sections.split())
    return killed


def check_guidance(study: Path) -> None:
    """Check that each part that says how much models guide logs it in some run. A metric may be missing where a model's
    answers leave nothing to measure, such as the accuracy of labels where every label was discarded."""
    logged: set[str] = set()
    declared: set[frozenset[str]] = set()
    for path in study.glob("*/*/*/seed-*/metrics.parquet"):
        cell = cells.recorded(read_json(path.parents[1] / "cell.json"))
        parts = [part for part in cell.sections.values() if isinstance(part, Part)]
        declared |= {frozenset(part.guidance) for part in parts if part.guidance}
        logged |= {*pq.read_schema(path).names}
    assert all(names & logged for names in declared), [sorted(names) for names in declared if not names & logged]


def reported(study: Path, names: list[str]) -> None:
    """Check that the report has every section whose logs the study contains, the named ones included."""
    report = report_files.report(study, report_files.ReportOptions(resamples=100))
    logs = {EVALUATIONS, *results.study(study).logs}
    possible = [section.name for section in sections([]) if {*section.needs} <= logs]
    assert {*names} <= {*possible}
    failed = [note for note in report.summary.notes if "left out: " in note or "rows are left out" in note]
    assert not failed, failed


@contextlib.contextmanager
def server(row: Row) -> Iterator[tuple[str, list[str]]]:
    """Serve the row's answers, if it has any, and yield the URL and the prompts received. Each answer depends on the
    number of prompts so far, so a question asked twice gets another answer."""
    prompts: list[str] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        content = body["messages"][0]["content"]
        prompts.append(content if isinstance(content, str) else "".join(part.get("text", "") for part in content))
        draw = int(hashlib.sha256(f"{len(prompts)}".encode()).hexdigest()[:8], 16)
        assert row.answers is not None
        return 200, completion(row.answers(prompts[-1], draw))

    if row.answers is None:
        yield "", prompts
    else:
        with serving(answer) as url:
            yield url, prompts
