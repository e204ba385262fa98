"""Which frames FuRL's losses take: episodes written out by hand."""

import numpy as np

from guidebench.methods.furl.memory import Memory


def played(memory: Memory, first: int, successes: str) -> None:
    for step, success in enumerate(successes):
        memory.add(first + step, success == "1")
    memory.close()


def steps(memory: Memory) -> tuple[list[int], ...]:
    """Those of successful episodes, those of them that have one a gap earlier, and those of failed episodes."""
    return memory.positives.tolist(), memory.valid.tolist(), memory.negatives.tolist()


def test_an_episode_gives_its_steps_to_the_first_success_and_the_run_that_follows() -> None:
    memory = Memory(capacity=100, gap=2)
    played(memory, 0, "0000")
    assert steps(memory) == ([], [], [0, 1, 2, 3]) and not memory.succeeded
    played(memory, 4, "00110100")
    # The success that returns later is not of that run; 4 and 5 have no frame two steps earlier in their episode.
    assert steps(memory) == ([4, 5, 6, 7], [6, 7], [0, 1, 2, 3]) and memory.succeeded


def test_a_success_that_lasts_to_the_end_counts_whole_and_an_early_one_has_no_valid_frame() -> None:
    memory = Memory(capacity=100, gap=3)
    played(memory, 0, "0111")
    assert steps(memory) == ([0, 1, 2, 3], [3], [])
    played(memory, 4, "10")
    assert steps(memory) == ([0, 1, 2, 3, 4], [3], [])


def test_draws_name_steps_and_the_steps_a_gap_earlier() -> None:
    memory = Memory(capacity=100, gap=2)
    assert memory.positive(np.array([0, 0])).tolist() == [-1, -1] == memory.lag(np.array([0, 0])).tolist()
    played(memory, 10, "0001")
    draw = np.array([1, 0])
    assert memory.positive(draw).tolist() == [13, 12] and memory.lag(draw).tolist() == [11, 10]
    assert memory.negative(draw).tolist() == [-1, -1], "no episode has failed"


def test_only_the_newest_are_kept_and_a_checkpoint_holds_the_episode_under_way() -> None:
    memory = Memory(capacity=3, gap=1)
    played(memory, 0, "00")
    played(memory, 2, "00")
    memory.add(4, False)
    memory.add(5, True)
    other = Memory(capacity=3, gap=1)
    other.load_state(memory.state())
    for each in (memory, other):
        each.close()
    assert steps(other) == steps(memory) == ([4, 5], [5], [1, 2, 3])
