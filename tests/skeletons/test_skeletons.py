"""Each skeleton is the same beside others and apart, killed in training and in evaluation, and without its models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from tests import programs
from tests.harness.models.canned import completion, serving

HERE = Path(__file__).parent
CARTPOLE = (
    "suite=classic", "task=CartPole-v1", "training.steps=120", "evaluation.every=60", "evaluation.episodes=2",
    "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=40", "seeds=[0,1]",
)  # fmt: skip
EVERY = ("evaluations.parquet", "policy.safetensors")


@pytest.fixture
def chance() -> Iterator[tuple[str, list[str]]]:
    """A server whose answers, 0 to 4, are as good as chance, and what it was asked."""
    heard: list[str] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if not body:
            return 200, {"data": [{"id": "m"}]}
        heard.append(body["messages"][0]["content"])
        return 200, completion(str(int(hashlib.sha256(f"{len(heard)}".encode()).hexdigest()[:4], 16) % 5))

    with serving(answer) as url:
        yield url, heard


def kept(study: Path, files: tuple[str, ...] = EVERY) -> dict[str, bytes]:
    found = [file for name in files for file in sorted(study.glob(f"*/*/*/seed-*/{name}"))]
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in found}


def survives(
    train: Callable[..., Path],
    tmp_path: Path,
    words: tuple[str, ...],
    moments: dict[str, int],
    files: tuple[str, ...] = EVERY,
) -> Path:
    """Kill a run of two seeds at each of the `moments`, go on in another packing, and compare what it left with what an
    uninterrupted run that replays its cassette leaves; the study."""
    directory = tmp_path / "killed"
    for number, (where, step) in enumerate(moments.items()):
        packs = [[0, 1]] if number % 2 == 0 else [[0], [1]]
        asked = {"words": words, "packs": packs, "directory": str(directory), "where": where, "step": step, "job": {}}
        asked["job"] = {"checkpoint_every": 25}
        ended = programs.run("tests.skeletons.killed", input=json.dumps(asked))
        assert ended.code == -9, ended.err
    train(*words, packs=[(1,), (0,)], directory=directory, checkpoint_every=25)
    replay = {"mode": "replay", "cassette": str(directory)}
    for packs in ([(0, 1)], [(0,), (1,)]):
        assert kept(train(*words, packs=packs, models=replay), files) == kept(directory, files)
    assert len(kept(directory, files)) == 2 * len(files)
    return directory


@pytest.mark.slow
def test_options(
    plugin: Callable[..., Path], train: Callable[..., Path], chance: tuple[str, list[str]], tmp_path: Path
) -> None:
    plugin("options_skeleton", (HERE / "options.py").read_text(), {"agent": "options", "method": "options"})
    url, heard = chance
    words = (*CARTPOLE, "method=options")
    for role in ("planner", "performer"):
        words += (f"{role}.base_url={url}", f"{role}.model=m", f"{role}.temperature=0.7")
    study = survives(train, tmp_path, words, {"training": 50, "evaluation": 60}, (*EVERY, "plans.parquet"))
    questions = results.load(study, what="ledger").sort_values("step").groupby("seed").tail(1)["questions"].sum()
    assert len(heard) == questions, "nothing that was recorded is asked, or paid, twice"
    metrics = results.load(study, what="metrics").sort_values("step").groupby("seed").tail(1)
    stored = metrics["own/stored"]
    assert ((stored > 8) & (stored < 120)).all() and stored.nunique() == 2, "seeds fill the store unevenly"
    assert metrics[["every/loss", "own/loss"]].notna().all(axis=None)


@pytest.mark.slow
def test_turns(plugin: Callable[..., Path], train: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.harness.models import tiny_models

    plugin("turns_skeleton", (HERE / "turns.py").read_text(), {"agent": "turns", "method": "turns"})
    words = (
        "task=5x5", "method=turns", "drawing.tile_size=8", "training.steps=160", "evaluation.every=80",
        "evaluation.episodes=2", "seeds=[0,1]", f"embedder.model={tiny_models.clip(tmp_path / 'clip')}",
    )  # fmt: skip
    for role in ("learner", "second"):
        words += (f"{role}.channels=4", f"{role}.features=8", f"{role}.hidden=[8]", f"{role}.batch_size=8")
        words += (f"{role}.learning_starts=40",)
    study = survives(train, tmp_path, words, {"training": 90, "evaluation": 160})
    metrics = results.load(study, what="metrics").sort_values("step").groupby("seed").tail(1)
    assert metrics[["learner/loss", "second/loss"]].notna().all(axis=None)
    assert metrics["learner/loss"].ne(metrics["second/loss"]).all()
    spending = results.load(study, what="ledger").sort_values("step").groupby("seed").tail(1)
    assert (spending["questions"] >= 160 / 4).all() and not spending["failures"].any()


@pytest.mark.slow
def test_offline(plugin: Callable[..., Path], train: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("gymnasium_robotics")
    plugin(
        "offline_skeleton", (HERE / "offline.py").read_text(),
        {"agent": "offline", "method": "offline", "suite": "pictures"},
    )  # fmt: skip
    words = (
        "suite=pictures", "task=umaze", "method=offline", "training.steps=100", "evaluation.every=50",
        "evaluation.episodes=2", "seeds=[0,1]", "suite.steps=40", "gathered.episodes=4", "gathered.noise=0.6",
        "training.capacity=400", "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=80",
    )  # fmt: skip
    study = survives(train, tmp_path, words, {"training": 30, "evaluation": 50})
    metrics = results.load(study, what="metrics").sort_values("step").groupby("seed").tail(1)
    assert metrics[["loss", "actor_loss", "actor_added"]].notna().all(axis=None)
    assert (metrics["stored"] > 100).all(), "the dataset, and what was done online"


PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
AROUND = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from guidebench.baselines.acting import BaseAgent
from guidebench.baselines.experience import Experience
from guidebench.harness.parts import AgentPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register

{agent}

@register.agent("paged")
@dataclass(frozen=True)
class Paged(AgentPart):
    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% a test"
    needs: ClassVar[Mapping[str, str]] = {{"learner": "learner", "replay": "replay"}}

    def spawn(self, build):
        return Agent(build)


register.method("paged")(Method(summary="of the page", agent="paged", citation="% a test"))
"""


def test_the_agent_of_the_page_learns(plugin: Callable[..., Path], train: Callable[..., Path]) -> None:
    agent = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    plugin("paged_agent", AROUND.format(agent=agent), {"agent": "paged", "method": "paged"})
    study = train(*CARTPOLE, "method=paged", packs=[(0, 1)])
    metrics = results.load(study, what="metrics").sort_values("step").groupby("seed").tail(1)
    assert metrics["loss"].notna().all() and metrics["q_mean"].abs().max() > 0
