"""Several tasks in turn by episode: which one is played, how observations and snapshots tell it, and its state."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from guidebench.suites.crafter.snapshots import unpack
from guidebench.suites.crafter_ood import CrafterOod
from guidebench.suites.crafter_ood.goals import VECTORS
from guidebench.suites.crafter_ood.quests import BY_TURNS, QUESTS

SUITE = CrafterOod(area=32, impossible="masked")


@pytest.mark.parametrize(("name", "names"), BY_TURNS.items())
def test_each_episode_is_the_next_task_and_its_observations_and_snapshots_tell_which(name, names):
    task, played = SUITE.make(name), []
    for episode in range(2 * len(names)):
        observation = task.reset(0 if episode == 0 else None)
        (instruction,) = SUITE.instructions_at(name, observation[None])
        assert instruction == task.instruction == SUITE.instruction_at(name, task.snapshot())
        assert observation["instruction"].tolist() == task.step(0).observation["instruction"].tolist()
        assert unpack(task.snapshot()).inventory == unpack(task.snapshot()[:-1]).inventory
        (present,) = task.subgoals()
        assert QUESTS[present].instruction == instruction and len(task.quest.names) == len(task._met)
        played.append(present)
    assert sorted(played[: len(names)]) == sorted(names) and played[len(names) :] == played[: len(names)]


def test_seeds_draw_about_as_many_of_each_task_and_a_goal_counts_for_its_own_task_alone():
    task, counts = SUITE.make("wooden"), dict.fromkeys(BY_TURNS["wooden"], 0)
    for seed in range(60):
        task.reset(seed)
        (present,) = task.subgoals()
        counts[present] += 1
        task._game.player.achievements["collect_wood"] = 4
        assert task.subgoals() == {present: present == "deforestation"}
    assert min(counts.values()) >= 10, counts


def test_a_restored_task_goes_on_with_the_tasks_in_their_order():
    task, other = SUITE.make("trained"), SUITE.make("trained")
    for seed in (3, None):
        task.reset(seed)
    other.load_state(task.state())
    for _ in range(5):
        assert (task.step(3).observation == other.step(3).observation).all()
        assert task.instruction == other.instruction and task.completion() == other.completion()
        task.reset()
        other.reset()


def test_vectors_are_of_length_1_and_as_near_as_the_encoder_has_them():
    """all-MiniLM-L6-v2's cosines, from its own 384 numbers."""
    table = np.stack([*VECTORS.values()])
    cosines, names = table @ table.T, [*VECTORS]
    np.testing.assert_allclose(np.diag(cosines), 1, atol=0.003)
    for first, second, cosine in (
        ("make a stone sword", "make a wood sword", 0.68), ("mine iron", "mine a diamond", 0.57),
        ("chop four trees", "mine iron", 0.06), ("make an iron sword", "make a wood sword", 0.69),
    ):  # fmt: skip
        assert cosines[names.index(first), names.index(second)] == pytest.approx(cosine, abs=0.01)
    assert {quest.instruction for quest in QUESTS.values()} == {*VECTORS}
    for name in BY_TURNS.values():
        assert len({QUESTS[task].instruction for task in name}) == len(name), "the goal tells which task it is"


def test_a_single_task_shows_its_goal_where_a_setting_says_so_and_a_snapshot_of_no_task_is_refused():
    assert "instruction" not in SUITE.spaces("mine_iron")[0].parts
    suite = CrafterOod(area=32, goal_vector=True)
    observation = suite.make("mine_iron").reset(0)
    assert observation["instruction"].tolist() == VECTORS["mine iron"].tolist()
    assert SUITE.instructions_at("mine_iron", np.zeros(2)) == ["mine iron"] * 2
    with pytest.raises(UserError, match="names task 9, and there are 3 of 'wooden'"):
        SUITE.instruction_at("wooden", np.full(3, 9, np.uint8))


def test_a_policy_of_tasks_in_turn_begins_from_free_play_and_is_tested_where_the_goal_is_shown():
    words = ["suite=crafter_ood", "profile=smoke", "seeds=1"]
    (cell,) = matrix.plan([*words, "method=sparse", "task=wooden", "pretraining=apt_exploration"]).cells
    assert cell.stage.names.task == "free_play"
    transfer = [*words, "method=transfer", "task=iron_sword", "pretraining.task=trained"]
    assert matrix.plan([*transfer, "suite.goal_vector=true"]).cells
    with pytest.raises(UserError, match=r"reads the goal's vector.*bench show suite=crafter_ood"):
        matrix.plan(transfer)
