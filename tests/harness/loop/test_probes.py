import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import Stopped
from guidebench.harness.interfaces import Question
from guidebench.harness.loop import probes
from guidebench.harness.loop.probes import Probes, clip_starts, probed_steps, reference
from guidebench.harness.models.calls import Answer, Ticket
from guidebench.harness.models.questions import Memory
from guidebench.harness.parts import ReplayPart
from guidebench.suites.classic import Classic
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.logs import log_rows

SUITE = MiniGridDoorKey()
TASK = "8x8"
EPISODE = reference(SUITE, TASK)
assert EPISODE is not None
MOVES = len(EPISODE.expert)


@pytest.mark.parametrize("task", SUITE.tasks)
def test_the_reference_episode_is_fixed_and_brings_about_every_event_between_random_moves(task: str) -> None:
    first, second = reference(SUITE, task), reference(SUITE, task)
    assert first is not None and second is not None
    assert all(np.array_equal(array, copy) for array, copy in zip(first, second, strict=True))
    assert len(first.expert) < SUITE.horizon(task) and first.events.any(0).all()
    assert first.events[-1].tolist() == [False, False, True] and first.events[:, 2].sum() == 1
    assert not first.expert[:32].any() and first.expert[32]
    runs = np.split(first.expert, np.flatnonzero(np.diff(first.expert)) + 1)
    assert sum(not run[0] and len(run) == 32 for run in runs) >= 2


def test_an_observation_is_what_the_move_was_made_on_and_a_snapshot_the_state_after_it() -> None:
    agent = [np.argwhere(observation[:, :, 0] == 10)[0].tolist() for observation in EPISODE.observations]
    assert agent[1:] == [snapshot[-3:-1].tolist() for snapshot in EPISODE.snapshots[:-1]]
    assert any(before != after for before, after in itertools.pairwise(agent))


def test_random_moves_leave_half_of_the_horizon_to_the_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MiniGridDoorKey, "horizon", lambda self, task: 80)
    episode = reference(SUITE, "8x8")
    assert episode is not None and (~episode.expert).sum() == 32
    monkeypatch.setattr(MiniGridDoorKey, "horizon", lambda self, task: 63)
    episode = reference(SUITE, "8x8")
    assert episode is not None and episode.expert.all()


def test_a_task_without_expert_has_no_reference_episode() -> None:
    assert reference(Classic(), "CartPole-v1") is None


@pytest.mark.parametrize(
    ("count", "every", "end", "steps"),
    [
        (0, 10, 100, set()),
        (1, 10, 100, {100}),
        (4, 10, 100, {20, 50, 80, 100}),  # 25 and 75 lie between two, and round to the even tens
        (3, 10, 95, {30, 60, 95}),  # 31.7, 63.3, 95
        (9, 40, 100, {40, 80, 100}),
        (2, 60, 70, {60, 70}),  # 35 is nearer to 60 than to 70
    ],
)
def test_probed_steps_are_the_evaluations_nearest_to_even_spacing(
    count: int, every: int, end: int, steps: set[int]
) -> None:
    assert probed_steps(count, every, end) == steps


@pytest.mark.parametrize(("length", "starts"), [(40, [0, 4, 8]), (41, [0, 4, 8, 9]), (32, [0]), (31, [])])
def test_clips_start_every_four_moves_and_the_last_ends_the_episode(length: int, starts: list[int]) -> None:
    assert clip_starts(length, 32) == starts


RUNS = ["cell/0", "cell/1"]


class EventJudge:
    """A judge that answers the number of a clip's moves that brought about an event, in hundredths; its clock
    advances."""

    def __init__(self) -> None:
        self.seconds, self.clips, self.restarts, self.memory = 7.0, 3, 0, Memory()
        self.in_flight: dict[Ticket, Question] = {}

    def ask(self, ticket: Ticket, question: Question) -> None:
        assert ticket not in self.in_flight
        self.in_flight[ticket] = question
        self.seconds += 1.0
        self.clips += 1

    def take(self, ticket: Ticket) -> tuple[Answer, float]:
        return Answer(float(self.in_flight[ticket].events.sum()) / 100), 0.0


def make_probes(clip_length: int = 32, count: int = 2) -> tuple[Probes, list[tuple[int, int, int, str, float]]]:
    """Return probes that look twice during a run of 100 steps evaluated every 50, and the list of rows they write."""
    rows: list[tuple[int, int, int, str, float]] = []
    replay = type("Replay", (ReplayPart,), {"judged_transitions": clip_length})()
    parts = {"suite": SUITE, "replay": replay, "evaluation": SimpleNamespace(every=50)}
    build: Any = SimpleNamespace(parts=parts, events=SUITE.events, suite=lambda row: SUITE)
    return Probes(build, TASK, count, 100, lambda row, step, points: rows.extend((row, step, *p) for p in points)), rows


def test_the_rows_name_every_move_every_event_and_the_window() -> None:
    looks, rows = make_probes()
    looks.describe([1], None, RUNS, lambda: False)
    assert {(row, step) for row, step, *_ in rows} == {(1, 0)}
    points = [tuple(point) for _, _, *point in rows]
    assert points[0] == (0, "window", 32)
    expert = [value for t, quantity, value in points if quantity == "expert"]
    assert np.array_equal(expert, EPISODE.expert)
    events = [(t, quantity) for t, quantity, _ in points if quantity.startswith("event/")]
    expected_events = [(t, f"event/{SUITE.events[number]}") for t, number in np.argwhere(EPISODE.events).tolist()]
    assert events == expected_events and events[-1] == (MOVES - 1, "event/goal")


def test_without_a_clip_length_the_window_is_that_of_the_paper() -> None:
    looks, rows = make_probes(clip_length=0)
    looks.describe([0], None, RUNS, lambda: False)
    assert rows[0][2:] == (0, "window", 32)


def test_the_judge_scores_clips_by_their_middle_and_its_clock_is_given_back() -> None:
    looks, rows = make_probes(clip_length=8)
    judge: Any = EventJudge()
    looks.describe([0, 1], judge, RUNS, lambda: False)
    scores = {t: value for row, _, t, quantity, value in rows if row == 1 and quantity == "judge"}
    starts = clip_starts(MOVES, 8)
    assert scores == {start + 4: EPISODE.events[start : start + 8].sum() / 100 for start in starts}
    assert max(scores.values()) > 0 == min(scores.values())
    assert scores == {t: value for row, _, t, quantity, value in rows if row == 0 and quantity == "judge"}
    assert (judge.seconds, judge.clips) == (7.0, 3)
    assert all(ticket.probe and ticket.ordinal >= 2**32 for ticket in judge.in_flight)
    last = judge.in_flight[Ticket("cell/1", 2**32 + len(starts) - 1, 0, "judge", probe=True)]
    assert last.row == 1 and np.array_equal(last.snapshots, EPISODE.snapshots[-8:])


def test_a_stop_is_heard_while_the_judge_is_asked() -> None:
    looks, _ = make_probes()
    judge: Any = EventJudge()
    with pytest.raises(Stopped):
        looks.describe([0], judge, RUNS, lambda: True)


class ColumnAgent:
    """An agent that values a state at its seed plus a hundredth of the agent's column, and at NaN in column 3."""

    def reward(self, observation, rows) -> None:
        """Return None: no reward is learnt."""

    def value(self, observation: Any, rows: Any) -> Any:
        assert len(set(rows.tolist())) == 1, "each seed is asked alone"
        column = np.array([np.argwhere(frame[:, :, 0] == 10)[0, 0] for frame in observation])
        return np.where(column == 3, np.nan, rows + column / 100)


def test_the_critic_is_asked_at_its_steps_about_what_each_move_was_made_on() -> None:
    looks, rows = make_probes()
    agent: Any = ColumnAgent()
    for step in (0, 30, 50, 100):
        looks(agent, step, [0, 2])
    assert {(row, step) for row, step, *_ in rows} == {(0, 50), (2, 50), (0, 100), (2, 100)}
    agents = [int(np.argwhere(observation[:, :, 0] == 10)[0, 0]) for observation in EPISODE.observations]
    assert {3} < set(agents)
    expected = [(2, 100, t, "critic", 2 + x / 100) for t, x in enumerate(agents) if x != 3]
    assert [row for row in rows if row[:2] == (2, 100)] == expected


def test_no_probes_write_nothing() -> None:
    looks, rows = make_probes(count=0)
    looks.describe([0], None, RUNS, lambda: False)
    looks(None, 100, [0])  # type: ignore[arg-type]
    assert rows == []


def read_logs(study: Path, name: str) -> list[list[dict[str, Any]]]:
    return [log_rows(run, name) for run in sorted(study.glob("*/*/*/seed-*"))]


def test_a_run_is_the_same_byte_for_byte_with_probes_and_without(train) -> None:
    settings = (
        "method=vlm_rb", "judge=oracle", "judge.false_positive=0.3", "judge.false_negative=0.3", "judge.delay=16",
        "seeds=[0,1]", "training.steps=80", "evaluation.every=20",
        "evaluation.episodes=1", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
        "learner.batch_size=16", "learner.learning_starts=24",
    )  # fmt: skip
    without = train(*settings, packs=[(0, 1)])
    probed = train(*settings, packs=[(0, 1)], probes=3)
    for name in ("evaluations.parquet", "policy.safetensors", "metrics.parquet", "judgements.parquet"):
        plain, with_probes = (
            [file.read_bytes() for file in sorted(d.glob(f"*/*/*/*/{name}"))] for d in (without, probed)
        )
        assert plain == with_probes and len(plain) == 2, name
    assert read_logs(without, "probes") == [[], []]
    episode = reference(SUITE, "5x5")
    for rows in read_logs(probed, "probes"):
        looks = [row["step"] for row in rows if row["quantity"] == "critic"]
        assert looks == [step for step in (20, 60, 80) for _ in episode.expert]
        scores = [row["t"] for row in rows if row["quantity"] == "judge"]
        assert scores == [start + 16 for start in clip_starts(len(episode.expert), 32)]
        assert {row["step"] for row in rows if row["quantity"] != "critic"} == {0}
    values = [[row["value"] for row in rows if row["quantity"] == "critic"] for rows in read_logs(probed, "probes")]
    assert values[0] != values[1], "each seed has a critic of its own"
    assert len(set(values[0])) > probes.STRETCH
    clips = [[row["clips"] for row in rows] for rows in (*read_logs(probed, "timings"), *read_logs(without, "timings"))]
    assert clips[0] == clips[1] == clips[2] == clips[3] and clips[0][-1] > 0
