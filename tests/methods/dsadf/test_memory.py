"""The memory of proficiencies: what enters it, how it is stored, and which contents are refused."""

import json

import numpy as np
import pytest

from guidebench.methods.dsadf.memory import RECENT, Memory, Skill
from tests.refusals import check_refused


def filled() -> Memory:
    memory = Memory()
    for name, steps, done in (("chop tree", 12, True), ("chop tree", 40, False), ("find cow", 3, False)):
        memory.skill(name).attempted(steps, done)
    memory.skill("chop tree").rewarded = True
    memory.skill("chop tree").proficiency = 0.8
    return memory


def test_only_rewarded_sub_goals_are_in_memory() -> None:
    memory = filled()
    proficiencies = [memory.proficiency(name) for name in ("chop tree", "find cow", "mine coal")]
    assert proficiencies == [0.8, None, None], "the second was tried, and never rewarded"
    memory.skill("find cow").rewarded = True
    assert memory.subspaces() == {"chop": {"tree": 0.8}, "find": {"cow": None}}
    assert memory.skill("find cow").attempts == 1, "what was observed before counts too"


def test_attempts_are_counted_and_the_last_ones_kept() -> None:
    skill = Skill()
    for steps in range(RECENT + 2):
        skill.attempted(steps, steps % 3 == 0)
    assert (skill.attempts, skill.completed, skill.recent[0]) == (12, 4, (2, False)) and len(skill.recent) == RECENT
    skill.scored = True
    skill.attempted(5, True)
    assert not skill.scored, "its proficiency does not account for the newest attempt"


def test_things_are_known_as_nouns() -> None:
    memory = Memory()
    for name in ("attack zombie", "make iron sword", "lava"):
        memory.skill(name).rewarded = True
    assert memory.unknown(["zombie", "skeleton", "iron sword", "sword", "lava"]) == ["skeleton", "lava"], (
        "lava is a verb here"
    )


def test_a_policy_holds_rewarded_skills_padded_with_zeros_and_a_checkpoint_all_skills() -> None:
    packed = filled().packed(1_024)
    assert packed.dtype == np.uint8 and packed.shape == (1_024,) and not packed[200:].any()
    stored = json.loads(packed.tobytes().rstrip(b"\0"))
    assert stored == {"chop tree": [2, 1, [[12, 1], [40, 0]], 1, 0.8, 0]}
    other = Memory()
    other.skill("make bed").rewarded = True
    other.unpack(packed)
    assert other.skills == {"chop tree": Skill(2, 1, [(12, True), (40, False)], True, 0.8, False)}
    other.skill("make bed").rewarded, again = True, Memory()
    again.unpack(other.packed(1_024))
    assert again.skills == other.skills and again.proficiency("make bed") is None, "one without a score stays so"
    other.unpack(np.zeros(1_024, np.uint8))
    assert not other.skills
    other.load_state(json.loads(json.dumps(filled().state())))
    assert other.skill("find cow").recent == [(3, False)] and other.proficiency("find cow") is None


def test_a_memory_larger_than_its_setting_is_refused_by_its_size() -> None:
    memory = Memory()
    for letter in "abcdefghijklmnopqrstuvwxyz":
        memory.skill(f"find {letter * 30}").rewarded = True
    check_refused(r"26 sub-goals takes 1,[0-9]+ bytes, and agent\.memory=1,024; raise", memory.packed, 1_024)


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "[" * 5_000, '{"chop tree": 3}', '{"chop tree": [1, 2, [], 1, 0.5, 1]}',
        '{"chop tree": [1, 1, [], 1, 1.5, 1]}', '{"chop tree": [1, 1, [], 1, null, 1]}',
        '{"chop tree": [1, 1, [], 1, NaN, 1]}',
        '{"chop tree": [1, 1, [[-1, 1]], 1, 0.5, 1]}', '{"chop tree": [1, 1, [[1, 1]], 2, 0.5, 1]}',
        '{"chop tree": [-1, -1, [], 1, 0.5, 1]}', '{"<b>": [1, 1, [], 1, 0.5, 1]}', '{"a": [1, 1, "ab", 1, 0.5, 1]}',
        "\xff",
    ],
)  # fmt: skip
def test_a_strangers_memory_is_checked(text: str) -> None:
    packed = np.frombuffer(text.encode("latin-1"), np.uint8)
    check_refused("the memory in this policy cannot be read", Memory().unpack, packed)


def test_a_memory_by_goals_answers_for_the_goal_of_the_episode_and_joins_them_for_one_that_it_never_met() -> None:
    """By hand: .9 for swords, .3 for cows; for a diamond their mean .6, and 3 attempts of both."""
    memory = Memory()
    for goal, p, attempts in (("make a sword", 0.9, 1), ("eat a cow", 0.3, 2)):
        skill = memory.skill("chop tree", goal)
        skill.rewarded, skill.proficiency, skill.attempts = True, p, attempts
    memory.skill("find cow", "eat a cow").rewarded = True
    again = Memory()
    again.unpack(memory.packed(1024))
    for copy in (memory, again):
        goals = ("make a sword", "eat a cow", "mine a diamond")
        assert [copy.proficiency("chop tree", goal) for goal in goals] == pytest.approx([0.9, 0.3, 0.6])
        assert copy.find("find cow", "make a sword") is None, "it was met under another goal alone"
        assert copy.find("find cow", "mine a diamond") == Skill(rewarded=True)
        unmet = copy.find("chop tree", "mine a diamond")
        assert unmet is not None and unmet.attempts == 3 and copy.knows("cow")
        assert copy.subspaces()["find"] == {"cow": None}
    one = Memory()
    one.skill("chop tree").rewarded = True
    assert one.find("chop tree", "mine a diamond") == Skill(rewarded=True), "a memory of a single task serves others"
