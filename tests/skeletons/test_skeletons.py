"""Each skeleton keeps the contract of methods, and the agent of the documentation learns."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from tests.methods.contract import CARTPOLE, DOORKEY, MAZE, Row, check, served, settings

DIRECTORY = Path(__file__).parent
SECOND = "channels=4 features=8 hidden=[8] batch_size=8 learning_starts=16"
ROWS = {
    "options": Row(
        f"method=options {CARTPOLE} {served('planner')} {served('performer')}",
        answers=lambda prompt, draw: str(draw % 5),
    ),
    "turns": Row(f"method=turns {DOORKEY} {settings('second', SECOND)} embedder=transformers embedder.model={{clip}}"),
    "offline": Row(f"method=offline {MAZE} suite=pictures training.steps=100 gathered.episodes=4 gathered.noise=0.6"),
    "bc on pictures": Row(f"method=bc {MAZE} suite=pictures offline.episodes=3 offline.noise=0.6"),
}


@pytest.fixture
def studies(plugin: Callable[..., Path], tiny: Callable[[str], Path], tmp_path: Path) -> Callable[[str, str], Any]:
    """`studies("turns", "turns")` trains a row with a skeleton installed; returns the last metrics of its seeds, and
    the study."""

    def checked(name: str, source: str, *parts: str) -> tuple[Any, Path]:
        registered = dict.fromkeys(("agent", "method"), source) | {part: "pictures" for part in parts}
        plugin(f"{source}_skeleton", (DIRECTORY / f"{source}.py").read_text(), registered)
        study = check(ROWS[name], tiny, tmp_path)
        return results.load(study, log="metrics").sort_values("step").groupby("seed").tail(1), study

    return checked


def test_options(studies: Callable[..., Any]) -> None:
    metrics, _ = studies("options", "options")
    stored = metrics["own/stored"]
    assert ((stored > 4) & (stored < 60)).all() and stored.nunique() == 2, "seeds fill the store unevenly"
    assert metrics[["every/loss", "own/loss"]].notna().all(axis=None)


def test_turns(studies: Callable[..., Any]) -> None:
    metrics, study = studies("turns", "turns")
    assert metrics[["learner/loss", "second/loss"]].notna().all(axis=None)
    assert metrics["learner/loss"].ne(metrics["second/loss"]).all()
    spending = results.load(study, log="ledger").sort_values("step").groupby("seed").tail(1)
    assert (spending["questions"] >= 60 / 4).all() and not spending["failures"].any()


def test_offline(studies: Callable[..., Any]) -> None:
    metrics, _ = studies("offline", "offline", "suite")
    assert metrics[["loss", "actor_loss", "actor_added"]].notna().all(axis=None)
    assert (metrics["stored"] > 100).all(), "the dataset, and what was done online"


def test_a_built_in_method_learns_from_pictures(studies: Callable[..., Any]) -> None:
    metrics, _ = studies("bc on pictures", "offline", "suite")
    assert metrics["loss"].notna().all() and (metrics["collected"] == 0).all()


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
    study = train(*CARTPOLE.split(), "method=paged", packs=[(0,)])
    metrics = results.load(study, log="metrics").sort_values("step").groupby("seed").tail(1)
    assert metrics["loss"].notna().all() and metrics["q_mean"].abs().max() > 0
