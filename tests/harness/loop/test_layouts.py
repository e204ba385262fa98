"""A suite whose layout follows from the run's seed, as MetaWorld's hidden goal does: five seeds are five goals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("metaworld")

import guidebench
from guidebench import results
from guidebench.harness.episodes import demonstrations
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.interfaces import Build
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.playback.reevaluation import evaluate_run
from guidebench.harness.trajectories import Demonstration
from guidebench.results.verification.playing import RunEvaluations, play
from guidebench.suites.metaworld import MetaWorld, MetaWorldMT10

REACH = ("suite=metaworld_mt10", "task=reach", "method=uer")


DIGESTS = variations.Digests(Execution())


def cell(*overrides: str) -> Cell:
    (found,) = matrix.plan([*REACH, *overrides]).cells
    return found


def target(suite: Any, task: str = "reach") -> list[float]:
    made = suite.make(task)
    made.reset(11)
    return np.round(made._env._target_pos, 9).tolist()


def test_the_hidden_goal_is_that_of_the_environment_seeded_as_the_run_and_the_same_in_all_its_episodes() -> None:
    hidden = MetaWorldMT10()
    goals = [target(hidden.of_run(seed)) for seed in range(5)]
    assert len({tuple(goal) for goal in goals}) == 5
    assert goals == [target(MetaWorldMT10(layouts="fixed", layout=seed)) for seed in range(5)]
    made = hidden.of_run(3).make("reach")
    first = made.reset(5)
    assert np.array_equal(made.reset(6), first) and np.array_equal(made.reset(), first)
    observable = MetaWorldMT10(goal="observable")
    assert observable.of_run(3) == observable and target(MetaWorld(layouts="fixed", layout=7).of_run(3)) == target(
        MetaWorld(layouts="fixed", layout=7)
    )


def test_a_task_whose_episodes_are_alike_has_one_evaluation_episode_whoever_asks_for_more() -> None:
    one = cell()
    assert one.section("evaluation").episodes == 1
    asked = cell("evaluation.episodes=7", "suite.layouts=by_goal")
    assert asked.id == one.id and asked.variant == cell("suite.layouts=by_goal").variant
    assert cell("suite.goal=observable").section("evaluation").episodes == 10
    assert cell("suite.goal=observable", "evaluation.episodes=7").section("evaluation").episodes == 7
    assert not MetaWorldMT10().repeats("mt10"), "which of the ten an episode is differs"
    turned = variations._varied(one, {"suite.goal": "observable"}, "test", DIGESTS)
    assert turned.section("evaluation").episodes == 10
    assert variations._varied(turned, {"suite.goal": "hidden"}, "test", DIGESTS).section("evaluation").episodes == 1


SHORT = ("training.steps=80", "evaluation.every=80", "learner.learning_starts=64")


def test_seeds_train_and_are_evaluated_on_their_own_goal_alone_or_beside_others(train, monkeypatch) -> None:
    began: list[tuple[int, tuple[float, ...]]] = []
    make = MetaWorldMT10.make

    def watched(self: MetaWorldMT10, task: str) -> Any:
        made = make(self, task)
        began.append((self.layout, tuple(np.round(made._env._target_pos, 9))))
        return made

    monkeypatch.setattr(MetaWorldMT10, "make", watched)
    together = train(*REACH, *SHORT, "seeds=[2,4]", packs=[(2, 4)])
    goals = {layout: goal for layout, goal in began}
    assert set(goals) == {2, 4} and len(set(began)) == 2, "training, evaluation and probes alike"
    alone = train(*REACH, *SHORT, "seeds=[2,4]", packs=[(4,)])
    (one,), (other,) = (list(each.glob("*/*/*/seed-4")) for each in (together, alone))
    for name in ("evaluations.parquet", "policy.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    (again,) = evaluate_run(one, None, None, episodes=6, seed=0)
    rows: Any = results.load(together)
    last = rows[(rows["seed"] == 4) & (rows["step"] == 80)]
    assert len(last) == 1 and last["return"].item() == pytest.approx(again.ret) and last["length"].item() == 500
    played = play(RunEvaluations(one.parent, one.parent.name.rpartition("-")[2], 4, 80, 1, 99, 8))
    assert [result.ret for result in played.again] == [again.ret] and played.renewed == []


def test_each_seed_begins_with_demonstrations_of_its_own_goal(train) -> None:
    study = train(*REACH, *SHORT, "training.demonstrations=1", "seeds=[2,4]", packs=[(2, 4)], keep_replay=True)
    digests = set()
    for seed in (2, 4):
        (run,) = study.glob(f"*/*/*/seed-{seed}")
        suite = MetaWorldMT10().of_run(seed)
        (episode,) = demonstrations.obtain(
            demonstrations.DemonstrationSpec("metaworld_mt10", suite, "reach", 1)
        ).episodes
        held = np.fromfile(run / "replay" / "observation.bin", np.float32).reshape(-1, 39)[:500]
        assert np.array_equal(held, episode.observation)
        digests.add(json.loads((run / "run.json").read_text())["provenance"]["demonstrations"])
    assert len(digests) == 2


def test_a_solver_that_fails_in_the_only_layout_is_not_tried_again() -> None:
    tried = []

    class Failing(MetaWorldMT10):
        def demonstrate(self, task: str, seed: int) -> None:
            tried.append(seed)

    with pytest.raises(UserError, match="fails in the one layout"):
        demonstrations.make(demonstrations.DemonstrationSpec("metaworld_mt10", Failing().of_run(1), "reach", 3))
    assert len(tried) == 1


def test_demonstrations_of_different_length_do_not_share_a_worker() -> None:
    short, long = ([episode] for episode in (_episode(3), _episode(5)))
    assert demonstrations.beside([short, short]) == [(short[0], short[0])]
    with pytest.raises(UserError, match=r"3 to 5 steps.*pack=1"):
        demonstrations.beside([short, long])


def _episode(length: int) -> Demonstration:
    return Demonstration(0, *(np.zeros(length) for _ in demonstrations.ARRAYS))


def test_a_guide_is_told_of_the_suite_as_each_row_has_it() -> None:
    there: Any = Build.__new__(Build)
    object.__setattr__(there, "parts", {"suite": MetaWorldMT10()})
    object.__setattr__(there, "seeds", (2, 4))
    assert [there.suite(row).layout for row in (0, 1)] == [2, 4]


def test_a_foreign_script_trains_and_is_evaluated_on_the_goal_of_its_seed(tmp_path: Path) -> None:
    env = guidebench.make(
        "metaworld_mt10/reach", record=tmp_path / "study", method="mine", seed=4, steps=1, profile="smoke"
    )
    wanted = target(MetaWorldMT10().of_run(4))
    for each in (env, env.evaluation):
        each.reset()
        assert np.round(each.task._env._target_pos, 9).tolist() == wanted
    assert env.episodes == 1
