"""What a guide hears of a run besides transitions and answers."""

from collections.abc import Callable
from pathlib import Path

from guidebench import results

GUIDE = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.logs import Column, Log, amount, count
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    class Hearing(BaseGuide):
        def __init__(self, rows):
            self.rewards, self.last = np.zeros(rows), None

        def observed(self, slot, transition, store, ctx):
            self.rewards += transition.reward
            self.last = transition.terminated | transition.truncated

        def ended(self, episodes, store, ctx):
            assert {episode.row for episode in episodes} == set(np.flatnonzero(self.last).tolist())
            for row, ret, length, success in episodes:
                told = {"ret": ret, "rewards": float(self.rewards[row]), "length": length, "success": success}
                ctx.note("episodes", row, told)
                self.rewards[row] = 0.0

        def state(self, row):
            return {"rewards": float(self.rewards[row])}

        def load_state(self, row, state):
            self.rewards[row] = state["rewards"]


    @register.guide("hearing")
    @dataclass(frozen=True)
    class HearingPart(AskingPart):
        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        logs: ClassVar = {
            "episodes": Log(
                "an episode of training",
                {"ret": amount("its return"), "rewards": amount("sum of what was observed"),
                 "length": count("of steps"), "success": Column(bool, "whether it succeeded")},
            )
        }

        def spawn(self, build):
            return Hearing(build.rows)


    register.method("hearing")(Method(summary="hears", guide="hearing", citation="% a test"))
"""


def test_a_guide_hears_of_every_episode_once_its_last_transition_is_stored(
    plugin: Callable[..., Path], train: Callable[..., Path]
) -> None:
    plugin("hearing_module", GUIDE, {"guide": "hearing", "method": "hearing"})
    study = train(
        "suite=classic", "task=CartPole-v1", "method=hearing", "training.steps=400", "evaluation.every=400",
        "evaluation.episodes=1", "learner.hidden=[8]", "seeds=[0,1]", packs=[(0, 1)],
    )  # fmt: skip
    rows, metrics = results.load(study, log="episodes"), results.load(study, log="metrics")
    assert rows.groupby("seed").size().to_dict() == metrics.groupby("seed")["episode/count"].sum().astype(int).to_dict()
    assert (rows["ret"] == rows["rewards"]).all() and (rows["ret"] == rows["length"]).all(), "a point for each step"
    assert rows["step"].tolist() == rows.groupby("seed")["length"].cumsum().tolist()
