"""The loop collects words of states and steps for the parts that ask for them."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("crafter")

from guidebench import results
from guidebench.harness.errors import UserError

LISTENING = textwrap.dedent(
    """
    from dataclasses import dataclass
    from typing import ClassVar

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.logs import Column, Log
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    @register.guide("listening")
    @dataclass(frozen=True)
    class Listening(AskingPart):
        wants: bool = True
        '''Whether it wants words (choice).'''

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        logs: ClassVar = {
            "heard": Log("a step", {"before": Column(str, "text"), "caption": Column(str, "text")}),
            "first": Log("a state", {"text": Column(str, "text")}),
        }

        def spawn(self, build):
            return Listener(self.wants)


    class Listener(BaseGuide):
        def __init__(self, wants):
            self.wants_words = wants

        def begun(self, rows, store, ctx):
            for row in rows.tolist() if self.wants_words else ():
                ctx.note("first", row, {"text": ctx.tasks[row].text()})

        def observed(self, slot, transition, store, ctx):
            assert (transition.words is not None) == (self.wants_words and ctx.step > 0)
            for row in range(len(transition.reward) if transition.words else 0):
                told = {"before": transition.words.before[row], "caption": transition.words.captions[row]}
                ctx.note("heard", row, told)


    register.method("listening")(Method(summary="a test", guide="listening", citation="% a test"))
    """
)
SHORT = (
    "suite=crafter_ood", "task=deforestation", "method=listening",
    "suite.impossible=masked", "suite.length=30", "training.steps=80", "evaluation.every=80", "evaluation.episodes=1",
    "learner.learning_starts=64", "seeds=[0,1]",
)  # fmt: skip


@pytest.fixture
def listening(plugin: Callable[..., Path]) -> None:
    plugin("listening", LISTENING, {"guide": "listening", "method": "listening"})


def test_each_step_has_the_state_before_it_and_its_caption(listening: None, train: Callable[..., Path]) -> None:
    study = train(*SHORT, packs=[(0, 1)])
    rows, first = (results.load(study, log=name) for name in ("heard", "first"))
    assert len(rows) == 160 and rows["before"].str.startswith("you ").all()
    for seed in (0, 1):
        seed_rows, starts = rows[rows["seed"] == seed].set_index("step"), first[first["seed"] == seed]
        assert starts["step"].iloc[0] == 1 and len(starts) >= 3
        for row in starts.itertuples():
            step = row.step if row.step == 1 else row.step + 1  # an episode begins in the step that ended the last
            if step <= 80:
                assert seed_rows.loc[step, "before"] == row.text
    assert {"move left", ""} & {*rows["caption"]} and rows["caption"].nunique() > 3


def test_nothing_is_collected_where_nobody_asks_and_demonstrations_have_no_words(
    listening: None, train: Callable[..., Path]
) -> None:
    alone = (*SHORT[:-1], "seeds=[0]")
    assert results.load(train(*alone, "guide.wants=false", packs=[(0,)]), log="heard").empty
    train(*alone, "training.demonstrations=1", "training.capacity=2000", packs=[(0,)])


def test_a_task_without_words_is_refused(listening: None, train: Callable[..., Path]) -> None:
    words = ("suite=classic", "task=CartPole-v1", "method=listening", "training.steps=1500", "seeds=[0]")
    with pytest.raises(UserError, match="tells its state in no sentences or has no captions; choose a suite"):
        train(*words, packs=[(0,)])
